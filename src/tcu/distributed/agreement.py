"""What all ranks must have in common, and how each learns that another has something else, or refuses."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from tcu import version
from tcu.distributed.places import Shards, backends_of
from tcu.distributed.words import signature_of, words_of
from tcu.errors import DtypeError, ParameterError, ShapeError
from tcu.formats.format import Format, named_format
from tcu.formats.tensor import check_data, check_tensor
from tcu.ops.exact import Tally
from tcu.ops.layout import Whole
from tcu.ops.operation import Call
from tcu.ops.result import result_format
from tcu.plan import DEFAULT_VARIANT

__all__ = ["agree", "compares_first", "described", "disagreement", "gathered", "telling"]


def compares_first(call: Call) -> bool:
    """Whether ranks compare what they do before they exchange anything: how many words travel depends on it.

    For whole arrays it does not, and what is compared travels with the words.
    """
    return not isinstance(call.layout, Whole) or call.operation.arithmetic in ("own", "exponentials")


def described(call: Call, shards: Shards) -> tuple[Format, str]:
    """The result's format, and in words all that ranks must have in common; raises what the shards deserve."""
    element = _element_of(shards)
    target = result_format(element, call.dtype)
    named = zip(call.operation.options[:-1], call.options, strict=False)
    said = [f"{name}={value!r}" for name, value in named if value not in (None, DEFAULT_VARIANT)]
    if not isinstance(call.layout, Whole):
        rows = tuple(shards.local[0].shape[i] for i in shards.axes.kept)
        said.append(f"axes {shards.axes.reduced}, rows {rows}")
    of = f"{call.operation} of {element.dtype} to {target.dtype}"
    return target, ", ".join([f"tcu {version.__version__}", of, *said])


def _element_of(shards: Shards) -> Format:
    """What the shards hold."""
    x, y = shards.local[0], shards.local[-1]
    for name, each in zip("xy", shards.local, strict=False):
        check_tensor(each, name, "sum" if len(shards.local) == 1 else "multiply")
        check_data(each, name)
    if x.shape != y.shape:
        raise ShapeError(
            f"the shards x and y have shapes {tuple(x.shape)} and {tuple(y.shape)}: give them one"
        )
    if x.dtype != y.dtype or x.device != y.device:
        raise DtypeError(
            f"x is {x.dtype} on {x.device}, y {y.dtype} on {y.device}: give both one dtype and device"
        )
    return named_format(x.dtype)


@contextmanager
def telling(call: Call, shards: Shards) -> Iterator[None]:
    """Tells the other ranks of an error: they would wait, or take the words of this rank's next call for this one's."""
    try:
        yield
    except Exception as error:
        description = f"tcu {version.__version__}, refused: {error}"
        if compares_first(call):
            if not agree(shards, description):
                disagreement(shards, description)  # which the others ask for
            raise
        torch, products = sys.modules["torch"], call.operation.tallies
        nothing = words_of((0, *[Tally()] * len(products)), products, signature_of(description))
        words = torch.from_numpy(nothing).to(shards.local[0].device if shards.on_gpu else "cpu")
        for group in shards.groups:
            torch.distributed.all_reduce(words, group=group)
        if not shards.on_gpu:
            disagreement(shards, description)
        raise


def agree(shards: Shards, description: str) -> bool:
    """Whether all ranks say the same."""
    mine = np.array([signature_of(description)])
    return all(bool(np.all(each == mine)) for group in shards.groups for each in gathered(mine, group))


def disagreement(shards: Shards, description: str) -> ParameterError:
    """What every rank raises once all have noticed, so each asks the others what they have."""
    distributed = sys.modules["torch"].distributed
    texts: dict[int, str] = {distributed.get_rank(): description}
    for group in shards.groups:
        found: list[Any] = [None] * distributed.get_world_size(group)
        distributed.all_gather_object(found, texts, group=group)
        texts = {rank: text for part in found for rank, text in part.items()}
    kinds: dict[str, list[int]] = {}
    for rank, text in sorted(texts.items()):
        kinds.setdefault(text, []).append(rank)
    said = "; ".join(
        f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}: {text}"
        for text, ranks in kinds.items()
    )
    return ParameterError(
        f"the ranks do not agree on what is reduced: {said}: make it the same on all of them"
    )


def gathered(words: npt.NDArray[np.int64], group: Any) -> Sequence[npt.NDArray[np.int64]]:
    """The words of every rank, in order."""
    torch = sys.modules["torch"]
    device = "cpu" if "cpu" in backends_of(group) else torch.device("cuda", torch.cuda.current_device())
    mine = torch.from_numpy(words).to(device)
    found = [torch.empty_like(mine) for _ in range(torch.distributed.get_world_size(group))]
    torch.distributed.all_gather(found, mine, group=group)
    return [each.cpu().numpy() for each in found]
