"""The public functions: this rank's share, one exchange, one rounding."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from tcu import version
from tcu.distributed.places import Shards, shards_of
from tcu.distributed.words import agreed, share_of_words, signature_of, words_of
from tcu.errors import DtypeError, ParameterError, ShapeError
from tcu.formats.format import Format, get_format
from tcu.formats.tensor import check_data, check_tensor, host_view, tensor_of
from tcu.model.elements import summable
from tcu.ops import Operation, find_operation
from tcu.ops.exact import Tally
from tcu.ops.result import result_format
from tcu.plan import DEFAULT_VARIANT
from tcu.surfaces.shares import Share, rounded_share, share_of
from tcu.units import Unit

__all__ = [
    "Pending", "disagreement", "dot", "element_of", "fdot", "fmean", "fnorm", "fsum", "mean", "norm", "numpy_dtype",
    "refusal", "sum",
]  # fmt: skip


class Pending:
    """A reduction whose exchange is under way: ``async_op=True`` returns one at once."""

    def __init__(self, finish: Callable[[], Any]) -> None:
        self._finish: Callable[[], Any] | None = finish
        self._result: Any = None

    def wait(self) -> Any:
        """The result, as the call without ``async_op`` returns it; a GPU's stream waits, not the host."""
        if self._finish is not None:
            self._result, self._finish = self._finish(), None
        return self._result


def sum(
    x: Any, *, group: Any = None, unit: str | Unit | None = None, variant: str = DEFAULT_VARIANT,
    chain: int | None = None, block: int | None = None, accumulator: str | None = None,
    fraction: float | None = None, dtype: Any = None, async_op: bool = False,
) -> Any:  # fmt: skip
    """The sum over all ranks: each shard as :func:`tcu.sum` adds it up, the shards' totals exactly.

    Parameters
    ----------
    x:
        This rank's shard, a PyTorch tensor of any shape, also empty; or a
        DTensor, whose device mesh says who has the rest.
    group:
        Process group; None: all ranks.  GPU tensors go through NCCL, CPU
        tensors through Gloo.
    unit, variant, chain, block, accumulator, fraction, dtype:
        As :func:`tcu.sum`, for every shard; the same on all ranks.
    async_op:
        Return a :class:`Pending` without waiting for the exchange.

    Returns
    -------
    A 0-d tensor on x's device, or a replicated DTensor, the same on every
    rank.  The bits depend on which numbers form a shard, as each has the plan
    of its own length; not on the ranks' order, the network, or how often it
    is run.  The totals are rounded to binary64 once, and from there to ``dtype``.

    Raises
    ------
    ParameterError, DtypeError:
        What :func:`tcu.sum` refuses; a group that is not there; ranks that do
        not agree on dtype, operation, options or version of tcu.  On GPUs,
        which are not waited for, the first call of a kind waits and raises;
        later ones give NaN.
    """
    return _reduce("sum", (x,), (unit, variant, chain, block, accumulator, fraction, dtype), group, async_op)


def mean(
    x: Any, *, group: Any = None, unit: str | Unit | None = None, variant: str = DEFAULT_VARIANT,
    chain: int | None = None, block: int | None = None, accumulator: str | None = None,
    fraction: float | None = None, dtype: Any = None, async_op: bool = False,
) -> Any:  # fmt: skip
    """The mean over all ranks: what :func:`sum` adds up, divided in binary64 by how many numbers there are."""
    return _reduce("mean", (x,), (unit, variant, chain, block, accumulator, fraction, dtype), group, async_op)


def dot(
    x: Any, y: Any, *, group: Any = None, block: int | None = None, dtype: Any = None, async_op: bool = False
) -> Any:
    """The dot product over all ranks: each pair of shards as :func:`tcu.dot`, their totals exactly; else as :func:`sum`."""
    return _reduce("dot", (x, y), (block, dtype), group, async_op)


def norm(
    x: Any, *, group: Any = None, block: int | None = None, dtype: Any = None, async_op: bool = False
) -> Any:
    """The Euclidean norm over all ranks: the binary64 root of what :func:`dot` gives for x and x."""
    return _reduce("norm", (x,), (block, dtype), group, async_op)


def fsum(x: Any, dtype: Any = None, *, group: Any = None, async_op: bool = False) -> Any:
    """The sum over all ranks, rounded once: one answer, however many ranks there are and whatever each has.

    Parameters, result and errors are those of :func:`sum`; inf and -inf
    together raise InvalidOperationError on the CPU and give NaN on GPUs, as
    :func:`tcu.fsum`.  Each rank sends and receives 592 bytes.
    """
    return _reduce("fsum", (x,), (dtype,), group, async_op)


def fmean(x: Any, dtype: Any = None, *, group: Any = None, async_op: bool = False) -> Any:
    """The mean over all ranks, rounded once; else as :func:`fsum`."""
    return _reduce("fmean", (x,), (dtype,), group, async_op)


def fdot(x: Any, y: Any, dtype: Any = None, *, group: Any = None, async_op: bool = False) -> Any:
    """The dot product over all ranks, rounded once; else as :func:`fsum`.  Each rank sends and receives 1120 bytes."""
    return _reduce("fdot", (x, y), (dtype,), group, async_op)


def fnorm(x: Any, dtype: Any = None, *, group: Any = None, async_op: bool = False) -> Any:
    """The Euclidean norm over all ranks, rounded once; else as :func:`fdot`."""
    return _reduce("fnorm", (x,), (dtype,), group, async_op)


class _Way(Protocol):
    """How the words come about and what becomes of them: on the host, or on the GPU without waiting for it."""

    words: Any
    """A tensor, whose sum over all ranks the exchange puts there."""

    def result(self) -> Any: ...


def _reduce(name: str, arrays: Sequence[Any], options: tuple[Any, ...], group: Any, async_op: bool) -> Any:
    operation = find_operation(name)
    shards = shards_of(arrays, group)
    try:
        way = _way(operation, shards, options)
    except Exception as error:
        _tell(shards, operation.exact and operation.product, error)
        raise
    pending = _exchange(way, shards, async_op)
    return pending if async_op else pending.wait()


def _way(operation: Operation, shards: Shards, options: tuple[Any, ...]) -> _Way:
    element = element_of(shards)
    target = result_format(element, numpy_dtype(options[-1]))
    description = _describe(operation, element, target, options)
    if shards.on_gpu and shards.groups:
        from tcu.distributed.on_gpu import OnGpu

        return OnGpu(operation, shards, options, target, description)
    return _OnHost(operation, shards, options, target, description)


def _tell(shards: Shards, product: bool, error: Exception) -> None:
    """Words that no other rank agrees to: without them the others would wait, or take those of this rank's next call."""
    torch = sys.modules["torch"]
    description = refusal(error)
    words = torch.from_numpy(words_of(Share(0, Tally()), product, signature_of(description)))
    if shards.on_gpu:
        words = words.to(shards.local[0].device)
    for group in shards.groups:
        torch.distributed.all_reduce(words, group=group)
    if not shards.on_gpu:
        disagreement(shards, description)  # which the others ask for


def refusal(error: Exception) -> str:
    """What a rank says that cannot take part."""
    return f"tcu {version.__version__}, refused: {error}"


def _exchange(way: _Way, shards: Shards, async_op: bool) -> Pending:
    distributed = sys.modules["torch"].distributed
    last = None
    for group in shards.groups:
        if last is not None:
            last.wait()
        last = distributed.all_reduce(way.words, group=group, async_op=async_op)

    def finish() -> Any:
        if last is not None:
            last.wait()
        return shards.wrap(way.result())

    return Pending(finish)


class _OnHost:
    """The share in Python's integers, wherever the shard lies."""

    def __init__(
        self, operation: Operation, shards: Shards, options: tuple[Any, ...], target: Format, description: str
    ) -> None:
        self._operation, self._shards, self._target = operation, shards, target
        self._description = description
        self._product = operation.exact and operation.product
        self._signature = signature_of(description)
        device = shards.local[0].device
        local = shards.local if device.type == "cuda" else [host_view(x) for x in shards.local]
        share = share_of(operation, local, options)
        self.words = sys.modules["torch"].from_numpy(words_of(share, self._product, self._signature))

    def result(self) -> Any:
        words = self.words.numpy()
        if not agreed(words, self._shards.ranks, self._signature):
            raise disagreement(self._shards, self._description)
        share = share_of_words(words, self._product)
        result = tensor_of(rounded_share(self._operation, share, self._target))
        return result.to(self._shards.local[0].device)


def element_of(shards: Shards) -> Format:
    """What the shards hold; raises DtypeError, ShapeError, ParameterError."""
    x = shards.local[0]
    for name, each in zip("xy", shards.local, strict=False):
        check_tensor(each, name, "sum" if len(shards.local) == 1 else "multiply")
        check_data(each, name)
    elements = [
        summable(numpy_dtype(each.dtype), name, "sum") for name, each in zip("xy", shards.local, strict=False)
    ]
    if len(shards.local) == 2:
        y = shards.local[1]
        if x.shape != y.shape:
            raise ShapeError(
                f"the shards x and y have shapes {tuple(x.shape)} and {tuple(y.shape)}: give them one"
            )
        if x.dtype != y.dtype or x.device != y.device:
            raise DtypeError(
                f"x is {x.dtype} on {x.device}, y {y.dtype} on {y.device}: give both one dtype and device"
            )
    return elements[0]


def numpy_dtype(dtype: Any) -> Any:
    """A dtype of PyTorch as NumPy has it; any other as it is."""
    name = str(dtype)
    return get_format(name.removeprefix("torch.")).dtype if name.startswith("torch.") else dtype


def _describe(operation: Operation, element: Format, target: Format, options: tuple[Any, ...]) -> str:
    """What all ranks must have in common, in words."""
    named = zip(operation.options[:-1], options, strict=False)
    said = [f"{name}={value!r}" for name, value in named if value not in (None, DEFAULT_VARIANT)]
    return ", ".join(
        [f"tcu {version.__version__}", f"{operation} of {element.dtype} to {target.dtype}", *said]
    )


def disagreement(shards: Shards, description: str) -> ParameterError:
    """On the host every rank notices, so every rank can ask the others what they have."""
    distributed = sys.modules["torch"].distributed
    texts: dict[int, str] = {distributed.get_rank(): description}
    for group in shards.groups:
        gathered: list[Any] = [None] * distributed.get_world_size(group)
        distributed.all_gather_object(gathered, texts, group=group)
        texts = {rank: text for part in gathered for rank, text in part.items()}
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
