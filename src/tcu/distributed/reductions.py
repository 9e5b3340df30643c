"""Reductions over ranks: this rank's shares, one exchange, one rounding."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.distributed.agreement import agree, compares_first, described, disagreement, gathered, telling
from tcu.distributed.places import Shards, shards_of
from tcu.distributed.words import agreed, share_of_words, signature_of, words_of
from tcu.engines import execute
from tcu.engines.host.own import own_shares
from tcu.engines.host.planned import encoded
from tcu.errors import InvalidOperationError
from tcu.formats.format import Format
from tcu.formats.tensor import host_view, tensor_of
from tcu.model import exponentials
from tcu.model.ieee_environment import ieee
from tcu.ops.layout import Along, Whole
from tcu.ops.operation import Call
from tcu.ops.result import round_sum
from tcu.surfaces.shares import Share, rounded_share, row_shares, share_of, share_of_total, total_call

__all__ = ["Pending", "largest_of_ranks", "logsumexp_of", "reduce"]


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


@ieee
def reduce(call: Call, group: Any, async_op: bool) -> Any:
    """The result on every rank, or a :class:`Pending`."""
    shards = shards_of(call, group)
    with telling(call, shards):
        target, description = described(call, shards)
        way = _way(call, shards, target, description)
    if compares_first(call) and not agree(shards, description):
        raise disagreement(shards, description)
    last = None
    for each in shards.groups:
        if last is not None:
            last.wait()
        last = way.exchange(each, async_op)

    @ieee
    def finish() -> Any:
        if last is not None:
            last.wait()
        return shards.wrap(way.result())

    pending = Pending(finish)
    return pending if async_op else pending.wait()


def _way(call: Call, shards: Shards, target: Format, description: str) -> Any:
    """How the words come about, what puts those of a group together, and what becomes of them."""
    if call.operation.arithmetic == "own":
        return _OfItsOwn(call, shards, target)
    if call.operation.arithmetic == "exponentials":
        return _OfExponentials(call, shards, target)
    if call.operation.moments and shards.ranks == 1:
        return _Alone(call, shards, target)
    # The kernel that rounds what travelled takes one sum.
    if (
        shards.on_gpu
        and shards.groups
        and isinstance(call.layout, Whole)
        and len(call.operation.tallies) == 1
    ):
        from tcu.distributed.on_gpu import OnGpu

        return OnGpu(call, shards, target, description)
    return _OnHost(call, shards, target, description)


class _OnHost:
    """The rows' shares in Python's integers, wherever the shard lies."""

    def __init__(self, call: Call, shards: Shards, target: Format, description: str) -> None:
        self._operation, self._options = call.operation, call.options
        self._shards, self._target = shards, target
        self._description, self._signature = description, signature_of(description)
        shares = _row_shares(call, shards)
        words = [words_of(share, self._operation.tallies, self._signature) for share in shares]
        found = sys.modules["torch"].from_numpy(np.array(words, np.int64))
        self._words = found.to(shards.local[0].device if shards.on_gpu else "cpu")

    def exchange(self, group: Any, async_op: bool) -> Any:
        return sys.modules["torch"].distributed.all_reduce(self._words, group=group, async_op=async_op)

    def result(self) -> Any:
        shards, words = self._shards, self._words.cpu().numpy()
        if len(words) and not agreed(words, shards.ranks, self._signature):
            raise disagreement(shards, self._description)
        results = np.array([self._rounded(row) for row in words], self._target.dtype)
        return tensor_of(results.reshape(shards.axes.shape)).to(shards.local[0].device)

    def _rounded(self, words: Any) -> Any:
        share = Share(*share_of_words(words, self._operation.tallies))
        try:
            return rounded_share(self._operation, share, self._target, self._options)
        except InvalidOperationError:
            if not self._shards.on_gpu:
                raise
            return round_sum(math.nan, self._target)  # as all reductions on GPUs, which are not waited for


def _row_shares(call: Call, shards: Shards) -> list[Share]:
    """Of every row of the shard; of whole arrays, which are one, wherever they lie in memory."""
    axes, local = shards.axes, shards.local
    arrays = local if local[0].is_cuda else tuple(map(host_view, local))
    if isinstance(call.layout, Whole):
        return [share_of(call.operation, arrays, call.options)]
    if call.operation.exact or call.operation.moments:
        return list(row_shares(call.operation, arrays, axes.reduced, call.options).flat)
    rows = total_call(call.operation, arrays, call.options)._replace(layout=Along(axes.reduced))
    totals = execute(rows)[0]
    return [share_of_total(axes.n, float(total)) for total in totals.reshape(-1).tolist()]


class _Alone:
    """The result of the one shard that there is, which has the bits of an array's: merged moments are rounded once."""

    def __init__(self, call: Call, shards: Shards, target: Format) -> None:
        options = (*call.options[:-1], target.dtype)
        arrays, layout = (host_view(shards.local[0]),), Along(shards.axes.reduced)
        found = execute(Call(call.operation, arrays, layout, options))[0]
        self._result = tensor_of(np.asarray(found).reshape(shards.axes.shape))

    def exchange(self, group: Any, async_op: bool) -> None:
        """Nobody has anything else."""

    def result(self) -> Any:
        return self._result


class _OfExponentials:
    """The logarithms of the rows' sums of exponentials, whose words add up."""

    def __init__(self, call: Call, shards: Shards, target: Format) -> None:
        self._axes, self._groups, self._target, x = (
            shards.axes,
            shards.groups,
            target,
            host_view(shards.local[0]),
        )
        work = np.float64 if np.float64 in (x.dtype, target.dtype) else np.float32
        lines = (
            x.transpose(*self._axes.kept, *self._axes.reduced).reshape(-1, self._axes.n)
            if self._axes.n
            else (np.empty((math.prod(self._axes.shape), 0)))
        )
        self._rows = np.require(lines, work, ["C", "A"])
        self._words: Any = None

    def exchange(self, group: Any, async_op: bool) -> Any:
        if self._words is None:
            self._top = largest_of_ranks(self._rows, self._groups)
            self._words = sys.modules["torch"].from_numpy(exponentials.parts_of(self._rows, self._top)[1])
        return sys.modules["torch"].distributed.all_reduce(self._words, group=group, async_op=async_op)

    def result(self) -> Any:
        if self._words is None:  # one rank has everything
            values = exponentials.of_rows(self._rows, "log")
        else:
            values = logsumexp_of(self._words.numpy(), self._top, self._rows.dtype)
        found = encoded(values, self._target).view(self._target.dtype)
        return tensor_of(found.reshape(self._axes.shape))


def largest_of_ranks(rows: npt.NDArray[Any], groups: Sequence[Any]) -> npt.NDArray[Any]:
    """The largest number of each row over all ranks, NaN where one has it, by the order of their codes as whole numbers."""
    torch = sys.modules["torch"]
    top = rows.max(1, initial=-np.inf).astype(np.float64)
    codes = top.view(np.int64)
    ordered = torch.from_numpy(np.where(np.isnan(top), _NAN, np.where(codes < 0, codes ^ _NAN, codes)))
    for group in groups:
        torch.distributed.all_reduce(ordered, op=torch.distributed.ReduceOp.MAX, group=group)
    found = ordered.numpy()
    return np.asarray(np.where(found < 0, found ^ _NAN, found).view(np.float64).astype(rows.dtype))


_NAN = np.int64(0x7FFFFFFFFFFFFFFF)


def logsumexp_of(words: npt.NDArray[Any], top: npt.NDArray[Any], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """In binary64, from words that were added up."""
    logs = exponentials.logarithms_of(exponentials.total_of(words, top), dtype)
    with np.errstate(all="ignore"):
        return np.where(np.isfinite(top), top + logs, top)


class _OfItsOwn:
    """The rows' shares of an operation of a program's own, of which every rank gets all."""

    def __init__(self, call: Call, shards: Shards, target: Format) -> None:
        self._operation, self._axes, self._target = call.operation, shards.axes, target
        self._device = shards.local[0].device
        shares = np.asarray(own_shares(self._operation, host_view(shards.local[0]), self._axes), np.float64)
        self._rows, self._size = shares.shape
        words = shares.reshape(1, -1).view(np.int64)
        self._words = np.concatenate([words, [[self._axes.n]]], axis=1)

    def exchange(self, group: Any, async_op: bool) -> None:
        self._words = np.concatenate(gathered(self._words, group))

    def result(self) -> Any:
        operation = self._operation
        assert operation.merge is not None
        assert operation.finished is not None
        parts = np.ascontiguousarray(self._words[:, :-1]).view(np.float64)
        merged = np.asarray(operation.merge(parts.reshape(-1, self._rows, self._size)))
        values = np.asarray(operation.finished(merged, int(self._words[:, -1].sum())), np.float64)
        found = encoded(values, self._target).view(self._target.dtype)
        return tensor_of(found.reshape(self._axes.shape)).to(self._device)
