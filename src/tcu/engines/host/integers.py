"""Integers and truth values, added up exactly as integers: the order has no say, and nothing is rounded on the way.

Elements of 64 bits are read as two halves of 32, each of which adds up in 64
bits.  A sum that its dtype does not hold is an error, where NumPy would give
its lowest bits.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.engines.host.planned import encoded
from tcu.errors import DtypeError, ParameterError, SumTooLargeError, unknown_name
from tcu.formats.format import named_format
from tcu.formats.inexact import quotient
from tcu.formats.scalar import Number
from tcu.ops.layout import Axes, Ragged, check_line, line_shape, scan_axis
from tcu.ops.offsets import checked_offsets
from tcu.ops.operation import Call
from tcu.ops.result import check_out, put, round_number, rounding_target
from tcu.units import get_unit

__all__ = ["check_options", "execute", "result_of", "target_of", "whole_sum", "wide_dtype"]

_MOST = 1 << 31
"""Numbers of 32 bits of which any sum has 64."""
_EXACT = 1 << 53
"""Binary64 holds the integers up to there."""

Halves = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
"""(high, low) of high * 2^32 + low, where low is 0 to 2^32 - 1."""


def execute(call: Call) -> tuple[Any, None]:
    """(the results, None: an exact sum has no order to tell of)"""
    check_options(call)
    array = np.asarray(call.arrays[0])
    if isinstance(call.layout, Ragged):
        check_line(array.shape)
        edges = checked_offsets(call.layout.offsets, array.size)
        scan = call.operation.kind == "scan"
        shape = array.shape if scan else (edges.size - 1,)
        sums = _segment_scan(array, edges, call) if scan else _segments(array, edges)
        n: Any = np.diff(edges)
    elif call.operation.kind == "scan":
        axis = scan_axis(call.layout, array.ndim)
        shape, n = line_shape(array.shape, axis), 0
        sums = _scan(array.reshape(-1) if axis is None else array, axis or 0, call)
    else:
        axes = Axes.of(call.layout, array.shape)
        shape, n = axes.shape, axes.n
        sums = _totals(array, axes.reduced)
    whole = shape == () and call.layout == ()
    if call.out is not None:
        check_out(call.out, None if whole else shape)
    target = target_of(call, array.dtype)
    if call.out is not None and call.out.dtype != target:
        raise ParameterError(f"out has dtype {call.out.dtype}, the result {target}: give them the same dtype")
    result = _as_dtype(call, sums[0].reshape(shape), sums[1].reshape(shape), n, target)
    if call.progress is not None:
        call.progress(array.size)
    return put(result, call.out), None


def whole_sum(array: npt.NDArray[Any]) -> int:
    """The sum of all elements, whatever its size."""
    high, low = _totals(array, tuple(range(array.ndim)))
    return (int(high) << 32) + int(low)


def result_of(call: Call, total: int, n: int, target: np.dtype[Any]) -> Any:
    """A NumPy scalar: the sum, or the mean, of n integers that are ``total`` together."""
    high, low = (np.asarray(half, np.int64) for half in (total >> 32, total & (2**32 - 1)))
    return _as_dtype(call, high, low, n, target)[()]


def check_options(call: Call) -> None:
    """Raises for a unit or a variant that is not there: those that are have no say in an exact sum."""
    if call.return_info:
        raise ParameterError(
            "return_info tells of the order of additions, which integers do not have: leave it out"
        )
    if "unit" in call.operation.options and call.option("unit") is not None:
        get_unit(call.option("unit"))
    variants = call.operation.variants
    if "variant" in call.operation.options and call.option("variant") not in variants:
        raise unknown_name("variant", call.option("variant"), variants)


def wide_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of a sum of such elements, as in NumPy 2 on every system: uint64 of unsigned ones, else int64."""
    return np.dtype(np.uint64 if dtype.kind == "u" else np.int64)


def target_of(call: Call, given: np.dtype[Any]) -> np.dtype[Any]:
    """The result's dtype; raises DtypeError for one that a sum of integers does not have."""
    dtype = call.dtype
    if dtype is None:
        if call.out is not None:
            dtype = call.out.dtype
        else:
            return np.dtype(np.float64) if call.operation.mean else wide_dtype(given)
    try:
        return rounding_target(dtype).dtype
    except DtypeError as error:
        if call.operation.mean:
            raise error
    try:
        target = np.dtype(str(dtype).removeprefix("torch.") if "torch" in str(dtype) else dtype)
    except TypeError:
        target = np.dtype(object)
    if target.kind not in "iu":
        raise DtypeError(
            f"dtype={dtype!r}: a sum of integers is an integer, or rounded to float16, bfloat16, float32 or float64"
        )
    return target


# Sums in two halves.


def _parts(array: npt.NDArray[Any]) -> tuple[npt.NDArray[Any] | None, npt.NDArray[Any]]:
    """(the high halves, None where 64 bits hold any sum; the low ones), without a copy.

    Looking for the largest number takes a fifth of the time of adding up halves.
    """
    if (
        array.dtype.itemsize < 8
        or max(-int(array.min(initial=0)), int(array.max(initial=0))) * array.size < 2**63
    ):
        return None, array
    order = ">" if array.dtype.newbyteorder("=") != array.dtype and np.little_endian else "<"
    names = ["low", "high"] if order == "<" else ["high", "low"]
    kinds = {"low": f"{order}u4", "high": f"{order}{array.dtype.kind}4"}
    halves = array.view(np.dtype([(name, kinds[name]) for name in names]))
    return halves["high"], halves["low"]


def _settled(high: Any, low: Any) -> Halves:
    """What adds up in 64 bits as halves: the carry of the low one goes to the high one."""
    low = np.asarray(low, np.int64)
    return np.asarray((0 if high is None else high) + (low >> 32), np.int64), low & (2**32 - 1)


def _totals(array: npt.NDArray[Any], axes: tuple[int, ...]) -> Halves:
    if math.prod(array.shape[axis] for axis in axes) > _MOST:
        longest = max(axes, key=lambda axis: array.shape[axis])
        middle = array.shape[longest] // 2
        before: tuple[Any, ...] = (slice(None),) * longest
        first = _totals(array[(*before, slice(middle))], axes)
        second = _totals(array[(*before, slice(middle, None))], axes)
        return _settled(first[0] + second[0], first[1] + second[1])
    high, low = _parts(array)
    return _settled(
        None if high is None else high.sum(axis=axes, dtype=np.int64), low.sum(axis=axes, dtype=np.int64)
    )


def _prefixes(array: npt.NDArray[Any], axis: int) -> tuple[Any, Any]:
    """Running sums of the high and the low halves, with a 0 in front."""
    if array.shape[axis] > _MOST:
        raise ParameterError(
            f"running sums of {array.shape[axis]} integers: cut the array into parts of {_MOST} at most"
        )
    shape = tuple(extent + (i == axis) for i, extent in enumerate(array.shape))
    behind = (*(slice(None),) * axis, slice(1, None))
    found = []
    for part in _parts(array):
        sums = np.zeros(shape, np.int64) if part is not None else None
        if part is not None:
            np.cumsum(part, axis=axis, dtype=np.int64, out=sums[behind])  # type: ignore[index]
        found.append(sums)
    return found[0], found[1]


def _scan(array: npt.NDArray[Any], axis: int, call: Call) -> Halves:
    shift = 0 if call.option("exclusive") else 1
    n = array.shape[axis]
    if call.option("reverse"):
        array = np.flip(array, axis)
    where = (*(slice(None),) * axis, slice(shift, shift + n))
    high, low = (None if each is None else each[where] for each in _prefixes(array, axis))
    halves = _settled(high, low)
    return (np.flip(halves[0], axis), np.flip(halves[1], axis)) if call.option("reverse") else halves


def _segments(array: npt.NDArray[Any], edges: npt.NDArray[np.int64]) -> Halves:
    high, low = (None if each is None else np.diff(each[edges]) for each in _prefixes(array, 0))
    return _settled(high, low)


def _segment_scan(array: npt.NDArray[Any], edges: npt.NDArray[np.int64], call: Call) -> Halves:
    """Of each element: what lies between it and its segment's first, or last, edge."""
    exclusive, reverse, lengths = call.option("exclusive"), call.option("reverse"), np.diff(edges)
    here = np.arange(array.size)
    edge = np.repeat(edges[1:] if reverse else edges[:-1], lengths)
    inner = here + (exclusive if reverse else not exclusive)
    first, last = (inner, edge) if reverse else (edge, inner)
    high, low = (None if each is None else each[last] - each[first] for each in _prefixes(array, 0))
    return _settled(high, low)


# Results.


def _as_dtype(
    call: Call, high: npt.NDArray[np.int64], low: npt.NDArray[np.int64], n: Any, target: np.dtype[Any]
) -> npt.NDArray[Any]:
    if target.kind in "iu":
        return _as_integers(call, high, low, target)
    fmt = named_format(target)
    near = np.asarray((high >= -(_EXACT >> 32)) & (high < _EXACT >> 32))
    small = bool(near.all())
    if small and (not call.operation.mean or target == np.float64):
        values = high * 2.0**32 + low
        if call.operation.mean:
            with np.errstate(all="ignore"):
                values = np.asarray(values / n)  # of two exact numbers: rounded once
        return encoded(np.atleast_1d(values), fmt).view(target).reshape(high.shape)
    result = np.empty(high.size, target)
    counts = np.broadcast_to(n, high.shape).reshape(-1).tolist()
    for i, (above, below) in enumerate(zip(high.reshape(-1).tolist(), low.reshape(-1).tolist(), strict=True)):
        number = Number.of((above << 32) + below)
        if call.operation.mean:
            number = quotient(number, counts[i]) if counts[i] else Number("nan", False, (1 << 52) - 1)
        result[i] = round_number(number, fmt)
    return result.reshape(high.shape)


def _as_integers(
    call: Call, high: npt.NDArray[np.int64], low: npt.NDArray[np.int64], target: np.dtype[Any]
) -> npt.NDArray[Any]:
    least, most = (int(each) for each in (np.iinfo(target).min, np.iinfo(target).max))
    above = (high > most >> 32) | ((high == most >> 32) & (low > (most & 0xFFFFFFFF)))
    below = (high < least >> 32) | ((high == least >> 32) & (low < (least & 0xFFFFFFFF)))
    wrong = np.flatnonzero(above | below)
    if wrong.size:
        at = int(wrong[0])
        total = (int(high.flat[at]) << 32) + int(low.flat[at])
        place = f" at {tuple(map(int, np.unravel_index(at, high.shape)))}" if high.ndim else ""
        raise SumTooLargeError(total, target, place, at)
    codes = np.asarray((high << 32) | low)
    return codes.view(target) if target.itemsize == 8 and target.isnative else codes.astype(target)
