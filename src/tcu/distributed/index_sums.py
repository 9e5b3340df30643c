"""Sums by index over ranks: each rank's share of every slot, to the rank that rounds it, and the results to all.

What travels are rows with few numbers for each slot (:mod:`tcu.surfaces.slot_shares`), which merge exactly: neither the order of
the ranks nor what each of them has leaves a trace.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tcu import version
from tcu.distributed.agreement import agree, disagreement, gathered, telling
from tcu.distributed.places import Shards, shards_of
from tcu.errors import ParameterError
from tcu.formats.tensor import host_view, is_tensor, plain_view, tensor_of
from tcu.model.ieee_environment import ieee
from tcu.ops import FSUM, Call
from tcu.ops.layout import Along, axis_number
from tcu.surfaces.keyed_sums import bins_of, check_line, edges_of, ends_of, looked_up, padded, weights_like
from tcu.surfaces.slot_shares import (
    SlotShare,
    first_clash,
    first_overflow,
    inside,
    means_of,
    result_dtype,
    share_of_rows,
    sums_of,
)
from tcu.surfaces.sums_by_index import (
    check_index,
    check_keys,
    checked_places,
    is_integer,
    no_value,
    products,
    too_large,
    whole_size,
)

__all__ = ["bincount", "embedding_gradient", "histogram", "index_mean", "index_sum", "reduce_by_key"]

Values = npt.NDArray[Any]
_WIDE = np.dtype(np.int64)
"""Of sums of integers, as PyTorch's."""


def index_sum(
    x: Any, index: Any, size: int, *, axis: int = 0, weights: Any = None, dtype: Any = None, check: bool = True,
    group: Any = None,
) -> Any:  # fmt: skip
    """:func:`tcu.index_sum` of all ranks' places: one answer, however many ranks there are and whatever each has.

    Each rank sends, for every slot that it has, a row of binary64 numbers for each 53 bits of the exact sums, to the rank
    that rounds it, which sends the result to all.

    Parameters
    ----------
    x, index, weights:
        This rank's part, PyTorch tensors in the host's memory, also empty.
    size, axis, dtype, check:
        As in :func:`tcu.index_sum`; the same on every rank.
    group:
        Process group; None: all ranks.

    Returns
    -------
    A tensor, the same on every rank.

    Raises
    ------
    TcuError:
        What :func:`tcu.index_sum` refuses on any rank; ranks that do not agree on dtype, rows, slots or version of tcu.
    """
    return _sum(_by_index("index_sum", axis, size, check), x, index, weights, dtype, group)


def index_mean(
    x: Any, index: Any, size: int, *, axis: int = 0, dtype: Any = None, check: bool = True, group: Any = None
) -> Any:
    """:func:`tcu.index_mean` of all ranks' places: the exact sums by how many there are, rounded once.

    Parameters, results and errors are those of :func:`index_sum`.
    """
    return _sum(_by_index("index_mean", axis, size, check), x, index, None, dtype, group)


def bincount(
    index: Any, weights: Any = None, size: int | None = None, *, dtype: Any = None, group: Any = None
) -> Any:
    """:func:`tcu.bincount` of all ranks' numbers.

    Parameters
    ----------
    index, weights:
        This rank's, as in :func:`index_sum`.
    size:
        The number of slots; None: one more than the largest index of all ranks.
    dtype, group:
        As in :func:`index_sum`, which says what is raised, too.

    Returns
    -------
    A tensor, the same on every rank.
    """

    def largest(x: Values, index: Values) -> Values:
        check_line(index)
        check_index(index, len(x))
        return np.array([int(index.max()) + 1 if size is None and len(index) else 0])

    def placed(index: Values, every: Values) -> tuple[Values, int]:
        slots = whole_size(int(every.max()) if size is None else size)
        return checked_places(index, slots, True, negative=False), slots

    job = _Job("bincount", 0, f"size={size!r}", largest, placed)
    return _sum(job, _ones(index) if weights is None else weights, index, None, dtype, group)


def histogram(
    x: Any, bins: Any = 10, range: tuple[float, float] | None = None, weights: Any = None, *, dtype: Any = None,
    group: Any = None,
) -> tuple[Any, Any]:  # fmt: skip
    """:func:`tcu.histogram` of all ranks' numbers.

    Parameters
    ----------
    x, weights:
        This rank's, as in :func:`index_sum`, of any shape.
    bins, range:
        As in :func:`tcu.histogram`; without a range it goes from the smallest to the largest number of all ranks.
    dtype, group:
        As in :func:`index_sum`, which says what is raised, too.

    Returns
    -------
    Two tensors, the same on every rank.
    """
    found: list[Values] = []

    def lines(counted: Values, x: Values) -> tuple[Values, Values]:
        return weights_like(counted, x).reshape(-1), x.reshape(-1)

    def ends(counted: Values, x: Values) -> Values:
        known = range is not None or np.ndim(bins) or not x.size
        return np.zeros(0) if known else ends_of(x)

    def placed(x: Values, every: Values) -> tuple[Values, int]:
        found.append(edges_of(every, bins, range))
        return bins_of(x, found[0]), len(found[0]) - 1

    job = _Job("histogram", 0, f"bins={np.asarray(bins).tolist()!r}, range={range!r}", ends, placed, lines)
    sums = _sum(job, _ones(x) if weights is None else weights, x, None, dtype, group)
    return sums, tensor_of(found[0])


def reduce_by_key(
    keys: Any, x: Any, *, axis: int = 0, weights: Any = None, dtype: Any = None, group: Any = None
) -> tuple[Any, Any]:
    """:func:`tcu.reduce_by_key` of all ranks' places.

    Parameters
    ----------
    keys, x, weights:
        This rank's, as in :func:`index_sum`; all keys of all ranks go to each.
    axis, dtype, group:
        As in :func:`index_sum`, which says what is raised, too.

    Returns
    -------
    Two tensors, the same on every rank.
    """
    found: list[Values] = []

    def own(x: Values, keys: Values) -> Values:
        check_keys(keys, x.shape[axis_number(axis, x.ndim)])
        return np.unique(keys)

    def placed(keys: Values, every: Values) -> tuple[Values, int]:
        found.append(np.unique(every))
        return np.searchsorted(found[0], keys), len(found[0])

    sums = _sum(_Job("reduce_by_key", axis, "", own, placed), x, keys, weights, dtype, group)
    return tensor_of(found[0]), sums


def embedding_gradient(
    gradient: Any, index: Any, size: int, *, padding_index: int | None = None, dtype: Any = None,
    check: bool = True, group: Any = None,
) -> Any:  # fmt: skip
    """:func:`tcu.embedding_gradient` of what all ranks looked up in one table.

    Parameters
    ----------
    gradient, index:
        This rank's, as in :func:`index_sum`.
    size, padding_index, dtype, check, group:
        As in :func:`tcu.embedding_gradient` and :func:`index_sum`, which says what is raised, too.

    Returns
    -------
    A tensor, the same on every rank.
    """
    job = _by_index("embedding_gradient", 0, size, check)._replace(shaped=looked_up)
    dtype = getattr(gradient, "dtype", None) if dtype is None else dtype
    return padded(_sum(job, gradient, index, None, dtype, group), size, padding_index)


class _Job(NamedTuple):
    """What becomes of a call's arrays, in two steps: what one rank does not know, it hears between them."""

    name: str
    axis: int
    said: str
    """What ranks must have in common besides."""
    told: Callable[[Values, Values], Values]
    """Checks x and the index, and gives the line that all ranks are told."""
    placed: Callable[[Values, Values], tuple[Values, int]]
    """Of the index and of all ranks' lines: (the slots, ``size`` and above counting nowhere, and how many there are)."""
    shaped: Callable[[Values, Values], tuple[Values, Values]] = lambda x, index: (x, index)
    """Checks the shapes of x and the index, and gives rows and a line."""


def _by_index(name: str, axis: int, size: int, check: bool) -> _Job:
    def told(x: Values, index: Values) -> Values:
        check_index(index, x.shape[axis_number(axis, x.ndim)])
        whole_size(size)
        return index[:0]

    return _Job(
        name, axis, f"size={size!r}", told, lambda index, _: (checked_places(index, size, check), size)
    )


def _ones(like: Any) -> Any:
    """What is added up where places are counted."""
    return (
        sys.modules["torch"].ones(like.shape, dtype=sys.modules["torch"].int64) if is_tensor(like) else like
    )


@ieee
def _sum(job: _Job, x: Any, index: Any, weights: Any, dtype: Any, group: Any) -> Any:
    """The sums of all ranks' rows, or their means: one exchange of the shares, and one of the results."""
    arrays = (x, index) if weights is None else (x, index, weights)
    _refuse_dtensors(arrays)
    call = Call(FSUM, arrays, Along(job.axis), FSUM.values({}))
    shards = shards_of(call, group)
    (over,), mean = shards.groups, job.name == "index_mean"
    with telling(call, shards):
        given, places, *factors = (
            _on_host(*each) for each in zip(("x", "index", "weights"), arrays, strict=False)
        )
        given, places = job.shaped(given, places)
        mine = job.told(given, places)
        axis = axis_number(job.axis, given.ndim)
        target = result_dtype(given, mean, dtype, _WIDE)
        given = given.astype(_WIDE) if is_integer(given) else given
        rows = products(given, factors[0], axis) if factors else np.moveaxis(given, axis, 0)
        said = f"{job.name} of {given.dtype} by {places.dtype} to {target}, axis {axis}, rows {rows.shape[1:]}, {job.said}"
        description = f"tcu {version.__version__}, {said}"
    _check_agreement(shards, description)
    every = _lines_of_ranks(mine, over)
    with telling(call, shards):
        slots, size = job.placed(places, every)
        slots, rows = inside(slots, rows, size)
        share = share_of_rows(slots, rows)
    _check_agreement(shards, description)
    first, count, own = _own_slots(share, size, over)
    if is_integer(own.rows):
        own = share_of_rows(*own)
    # Any rank may round a slot whose sum has no value; all must know.
    found = [
        first + slot if slot >= 0 else size for slot in (first_clash(own, count), first_overflow(own, count))
    ]
    clash, overflow = np.min(gathered(np.array(found), over), axis=0).tolist()
    if min(clash, overflow) < size:
        raise no_value(clash) if clash < size else too_large(overflow)
    if mean:
        counts = np.sum(gathered(np.bincount(slots, minlength=size), over), axis=0)
        result = means_of(own, counts[first : first + count], target)
    else:
        result = sums_of(own, count, target)
    return tensor_of(np.ascontiguousarray(np.moveaxis(_results_of_ranks(result, size, over), 0, axis)))


def _refuse_dtensors(arrays: tuple[Any, ...]) -> None:
    module = sys.modules.get("torch.distributed.tensor")
    if module is not None and any(isinstance(x, module.DTensor) for x in arrays):
        raise ParameterError("sums by index take each rank's own places, no DTensor: pass x.to_local()")


def _on_host(name: str, x: Any) -> Values:
    return plain_view(x.cpu(), name) if is_integer(x) else host_view(x, name)


def _check_agreement(shards: Shards, description: str) -> None:
    if not agree(shards, description):
        raise disagreement(shards, description)


def _lines_of_ranks(line: Values, group: Any) -> Values:
    """Lines of any lengths, one after another."""
    counts = [int(each[0]) for each in gathered(np.array([len(line)]), group)]
    if not any(counts):
        return line[:0]
    room = np.zeros(max(counts), line.dtype)
    room[: len(line)] = line
    every = gathered(room.view(np.uint8), group)
    return np.concatenate([each.view(line.dtype)[:n] for each, n in zip(every, counts, strict=True)])


def _slots_of_a_rank(size: int, group: Any) -> int:
    ranks: int = sys.modules["torch"].distributed.get_world_size(group)
    return max(1, -(-size // ranks))


def _own_slots(share: SlotShare, size: int, group: Any) -> tuple[int, int, SlotShare]:
    """(the first of the slots that this rank rounds, their number, all ranks' shares of them)"""
    torch = sys.modules["torch"]
    ranks, each = torch.distributed.get_world_size(group), _slots_of_a_rank(size, group)
    first = min(torch.distributed.get_rank(group) * each, size)
    order = np.argsort(share.keys)
    keys, rows = share.keys[order], share.rows[order]
    sent = np.concatenate(
        [keys[:, None], rows.reshape(len(keys), math.prod(rows.shape[1:])).view(np.int64)], axis=1
    )
    counts = np.diff(np.searchsorted(keys, each * np.arange(ranks + 1)))
    here = [int(of_rank[torch.distributed.get_rank(group)]) for of_rank in gathered(counts, group)]
    found = torch.empty((sum(here), sent.shape[1]), dtype=torch.int64)
    torch.distributed.all_to_all_single(found, torch.from_numpy(sent), here, counts.tolist(), group=group)
    words = found.numpy()
    own = np.ascontiguousarray(words[:, 1:]).view(rows.dtype).reshape(len(words), *rows.shape[1:])
    return first, min(each, size - first), SlotShare(words[:, 0] - first, own)


def _results_of_ranks(result: Values, size: int, group: Any) -> Values:
    """The slots that each rank rounded, one after another."""
    room = np.zeros((_slots_of_a_rank(size, group), *result.shape[1:]), result.dtype)
    room[: len(result)] = result
    every = gathered(room.reshape(-1).view(np.uint8), group)
    return np.concatenate([each.view(result.dtype).reshape(room.shape) for each in every])[:size]
