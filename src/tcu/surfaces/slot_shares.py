"""Sums by index of arrays that lie in several places: each part's share, their exact merging, and the one rounding.

A share is of the kind of what it is made of: rows, each with its key.  It has few rows for each key, whose exact sum is that of
the part's rows; so shares merge in any order, and leave no trace in the result.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tcu.engines import library_integers
from tcu.engines.host.integers import wide_dtype
from tcu.formats.format import format_of, get_format
from tcu.model.elements import summable
from tcu.model.ieee_environment import ieee
from tcu.ops import FMEAN
from tcu.ops.exact import exact_sum
from tcu.ops.result import rounding_target
from tcu.surfaces.shares import Share, rounded_share
from tcu.surfaces.sums_by_index import by_index, is_integer, rounded_to

__all__ = [
    "SlotShare", "first_clash", "first_overflow", "inside", "means_of", "merged_slots", "result_dtype", "share_of_rows", "sums_by_key", "sums_of",
]  # fmt: skip

_SPECIAL = (np.inf, -np.inf, np.nan)


class SlotShare(NamedTuple):
    """What a part contributes to the sum of each key."""

    keys: npt.NDArray[Any]
    """Slots, or whatever can be sorted: one for each row."""
    rows: npt.NDArray[Any]
    """In binary64, or integers of 64 bits."""


def result_dtype(x: Any, mean: bool, dtype: Any, wide: np.dtype[Any] | None = None) -> np.dtype[Any]:
    """Of the sums or means of an array, or of what has its dtype; of integers ``wide``, or NumPy's of 64 bits."""
    if is_integer(x):
        wide = wide_dtype(x.dtype) if wide is None else wide
        library_integers.check_sum(x.dtype, mean, dtype, wide)
        return wide
    summable(x.dtype, "x", "sum")
    return rounding_target(rounded_to(x, dtype)).dtype


def inside(
    slots: npt.NDArray[Any], rows: npt.NDArray[Any], size: int
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Without what counts nowhere: slots of ``size`` and above."""
    fits = slots < size
    return (slots, rows) if fits.all() else (slots[fits], rows[fits])


@ieee
def share_of_rows(keys: npt.NDArray[Any], rows: npt.NDArray[Any]) -> SlotShare:
    """The share of rows (n, ...) of one of the four formats, or of integers."""
    order = np.argsort(keys)  # once for all that follows
    unique, places = np.unique(keys[order], return_inverse=True)
    places, rows = places.reshape(-1), rows[order]
    if is_integer(rows):
        return _share_of_integers(unique, places, rows.astype(wide_dtype(rows.dtype)))
    fraction_bits = format_of(rows.dtype).fraction_bits
    with np.errstate(invalid="ignore"):  # signalling NaN
        rows = rows.astype(np.float64)
    n, found = len(rows), _special(places, rows, len(unique))
    rows = np.where(np.isfinite(rows), rows, 0)
    every, largest = np.arange(len(unique)), 2.0**53 * _quantum(rows, fraction_bits)
    while True:  # what is left of each sum is rounded, until nothing is
        sums = by_index(False, rows, places, len(unique), check=False)
        if (large := np.isinf(sums)).any():  # their numbers stay as they are
            found.append(_some(places, np.where(large[places], rows, 0)))
            rows, sums = np.where(large[places], 0, rows), np.where(large, 0, sums)
        # At first every key has a row, be its sum 0.
        some, part = (every, sums) if len(rows) == n else _some(every, sums)
        found.append((some, part))
        if (np.abs(part) < largest).all():  # multiples of the quantum, which binary64 holds: nothing is left
            break
        rows, places = np.concatenate((rows, -part)), np.concatenate((places, some))
    return SlotShare(
        unique[np.concatenate([each[0] for each in found])], np.concatenate([each[1] for each in found])
    )


def _share_of_integers(
    unique: npt.NDArray[Any], places: npt.NDArray[np.int64], rows: npt.NDArray[Any]
) -> SlotShare:
    """One row for each key; where a sum does not fit into 64 bits, its numbers stay as they are."""
    high, low = np.zeros((2, len(unique), *rows.shape[1:]), np.int64)
    np.add.at(high, places, (rows >> 32).astype(np.int64))
    np.add.at(low, places, (rows & 0xFFFFFFFF).astype(np.int64))
    high += low >> 32
    limits = np.iinfo(rows.dtype)
    fits = (high >= limits.min >> 32) & (high <= limits.max >> 32)
    sums = np.where(fits, (high << 32) | (low & 0xFFFFFFFF), 0).view(rows.dtype)
    if fits.all():
        return SlotShare(unique, sums)
    some, left = _some(places, np.where(fits[places], np.zeros((), rows.dtype), rows))
    return SlotShare(np.concatenate((unique, unique[some])), np.concatenate((sums, left)))


def _quantum(rows: npt.NDArray[np.float64], fraction_bits: int) -> float:
    """A power of two of which all are multiples, at most 2^900."""
    least = np.abs(rows).min(initial=2.0**900, where=rows != 0)
    return max(math.ldexp(1, math.frexp(least)[1] - 1 - fraction_bits), get_format("binary64").min_subnormal)


Found = tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]
"""(places, rows)"""


def _some(places: npt.NDArray[np.int64], rows: npt.NDArray[Any]) -> Found:
    """The rows that are not zero."""
    some = np.flatnonzero(rows.reshape(len(rows), -1).any(axis=1)) if rows.size else np.zeros(0, np.int64)
    return places[some], rows[some]


def _special(places: npt.NDArray[np.int64], rows: npt.NDArray[np.float64], size: int) -> list[Found]:
    """Infinities and NaN, at most one of each where several add up to it."""
    found: list[Found] = []
    if np.isfinite(rows).all():
        return found
    for number in _SPECIAL:
        of_slots = np.where(_has(number, places, rows, size), number, 0)
        found.append(_some(np.arange(size), of_slots))
    return found


def _has(
    number: float, places: npt.NDArray[np.int64], rows: npt.NDArray[np.float64], size: int
) -> npt.NDArray[np.bool_]:
    """Whether a slot gets it, in each column."""
    found = np.zeros((size, *rows.shape[1:]), bool)
    at, *columns = np.nonzero(np.isnan(rows) if np.isnan(number) else rows == number)
    found[(places[at], *columns)] = True
    return found


def first_clash(share: SlotShare, size: int) -> int:
    """The first of the slots that are keys which gets inf and -inf, and no NaN; or -1."""
    if is_integer(share.rows) or np.isfinite(share.rows).all():
        return -1
    up, down, nan = (_has(number, share.keys, share.rows, size) for number in _SPECIAL)
    slots = np.flatnonzero((up & down & ~nan).reshape(size, -1).any(axis=1))
    return int(slots[0]) if len(slots) else -1


def first_overflow(share: SlotShare, size: int) -> int:
    """The first of the slots that are keys whose sum of integers 64 bits do not hold, so that :func:`share_of_rows` has kept its
    numbers; or -1.
    """
    if not is_integer(share.rows):
        return -1
    kept = np.flatnonzero(np.bincount(share.keys, minlength=size) > 1)
    return int(kept[0]) if len(kept) else -1


def merged_slots(shares: Iterable[SlotShare]) -> SlotShare:
    """All of them, in any order."""
    keys, rows = zip(*shares, strict=True)
    return (
        share_of_rows(np.concatenate(keys), np.concatenate(rows))
        if len(keys) > 1
        else SlotShare(keys[0], rows[0])
    )


@ieee
def sums_of(share: SlotShare, size: int, dtype: Any, initial: Any = None) -> npt.NDArray[Any]:
    """The sums of the slots that are keys, each rounded once to ``dtype``; raises InvalidOperationError for inf - inf."""
    return np.asarray(
        by_index(False, share.rows, share.keys, size, initial=initial, dtype=dtype, check=False)
    )


def sums_by_key(share: SlotShare, dtype: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """(the keys in order, their sums as :func:`sums_of` rounds them)"""
    unique, places = np.unique(share.keys, return_inverse=True)
    return unique, sums_of(SlotShare(places.reshape(-1), share.rows), len(unique), dtype)


@ieee
def means_of(share: SlotShare, counts: npt.NDArray[np.int64], dtype: Any) -> npt.NDArray[Any]:
    """The sums of the slots by how many rows each has, each rounded once; NaN where it has none."""
    target = rounding_target(dtype)
    sums_of(share, len(counts), dtype)  # names a slot that gets inf and -inf
    order = np.argsort(share.keys)
    rows, edges = share.rows[order], np.searchsorted(share.keys[order], np.arange(len(counts) + 1))
    result = np.empty((len(counts), *rows.shape[1:]), target.dtype)
    for where in np.ndindex(result.shape):
        slot, *column = where
        part = np.ascontiguousarray(rows[(slice(edges[slot], edges[slot + 1]), *column)])
        total = Share(int(counts[slot]), exact_sum(part, get_format("binary64")))
        result[where] = rounded_share(FMEAN, total, target)
    return result
