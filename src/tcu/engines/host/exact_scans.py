"""Running sums of which each is rounded once from the exact sum, of segments and of one long line.

The exact sums of a line's pieces come first, and so each piece begins with the
exact sum of what is before it: neither pieces nor threads leave a trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.engines.host.planned import encoded
from tcu.engines.host.terms import goal_of
from tcu.formats.format import Format, format_of, get_format
from tcu.formats.scalar import Number
from tcu.model import compiled, threads
from tcu.model.elements import Elements
from tcu.ops.exact import SCALE, Tally, exact_sum
from tcu.ops.result import round_number

__all__ = ["piece_length", "scan_behind", "scan_line", "scan_segments"]

Read = Callable[[int, int], npt.NDArray[Any]]
_PIECE = 1 << 17
"""Numbers of a long line that one thread takes at a time."""


def piece_length(fmt: Format) -> int:
    """Elements of a piece of a long line, whatever their format."""
    return _PIECE


def scan_segments(
    x: npt.NDArray[Any], offsets: npt.NDArray[np.int64], out: npt.NDArray[Any], exclusive: bool, reverse: bool,
    before: Tally = Tally(),  # noqa: B008  (which nobody changes)
) -> None:  # fmt: skip
    """Put the running sums of each segment into ``out``, on one core; ``before``: what comes before a single one."""
    target, n = format_of(out.dtype), x.size
    start, in_limbs, limbs = _state(before)
    flags = np.array([before.positive > 0, before.negative > 0, before.nans > 0])
    values, codes, slow = np.empty(n), np.empty(n, np.int64), np.zeros(n, np.bool_)
    with np.errstate(all="ignore"):
        numbers = x.astype(np.float64, copy=False)
    count = compiled.load("exact_scan_kernels").scan_exactly(
        numbers, offsets, exclusive, reverse, target.name == "binary64", goal_of(target), start, in_limbs, limbs, flags, values,
        codes, slow,
    )  # fmt: skip
    found = encoded(values + 0.0, target)
    if count:
        found[slow] = codes[slow].astype(found.dtype)
    out[...] = found.view(target.dtype).reshape(out.shape)


def _state(before: Tally) -> tuple[npt.NDArray[np.float64], bool, npt.NDArray[np.int64]]:
    """A sum as three numbers of binary64, or, if it has more digits, in limbs."""
    kernels = compiled.load("exact_scan_kernels")
    rest, parts = before.integer, np.zeros(3)
    for i in range(3):
        number = round_number(Number("finite", rest < 0, abs(rest), SCALE), get_format("binary64"))
        if not np.isfinite(number):
            break
        parts[i] = number
        rest -= _units(float(number))
    limbs = np.zeros(kernels.LIMBS, np.int64)
    if not rest:
        return parts, False, limbs
    digits, sign = abs(before.integer) << SCALE - kernels.LOWEST, 1 if before.integer > 0 else -1
    for i in range(kernels.LIMBS):
        limbs[i] = sign * (digits & (1 << kernels.LIMB) - 1)
        digits >>= kernels.LIMB
    return np.zeros(3), True, limbs


def _units(value: float) -> int:
    """A number of binary64 as a multiple of the smallest."""
    numerator, denominator = value.as_integer_ratio()
    return numerator << -SCALE + 1 - denominator.bit_length()


def scan_line(
    n: int, fmt: Format, read: Read, out: npt.NDArray[Any], exclusive: bool, reverse: bool,
    progress: Callable[[int], None] | None = None, before: Tally = Tally(),  # noqa: B008
) -> None:  # fmt: skip
    """Put the running sums of one line of any length into ``out``, a line of n elements or where x itself lies."""
    places = [(at, min(at + _PIECE, n)) for at in range(0, n, _PIECE)]
    if reverse:
        places.reverse()

    def scan(work: tuple[tuple[int, int], Tally]) -> int:
        (start, stop), carry = work
        edges = np.array([0, stop - start])
        scan_segments(read(start, stop), edges, out[start:stop], exclusive, reverse, carry)
        return stop - start

    def sums() -> Iterator[Tally]:
        total = before
        yield total
        for part in threads.in_order(lambda place: exact_sum(read(*place), fmt), places[:-1]):
            total = total.plus(part)
            yield total

    for done in threads.in_order(scan, zip(places, list(sums()), strict=False)):
        if progress is not None:
            progress(done)


def scan_behind(
    elements: Elements, before: npt.NDArray[Any], axis: int, target: Format, exclusive: bool, reverse: bool
) -> npt.NDArray[Any]:
    """The running sums along an axis of a part of an array; ``before``: of each row, the exact sum of what comes before."""
    array = elements.array
    result = np.empty(array.shape, target.dtype)
    rows, places = np.moveaxis(array, axis, -1), np.moveaxis(result, axis, -1)
    for where in np.ndindex(rows.shape[:-1]):
        read = Elements(rows[where]).read
        scan_line(
            array.shape[axis],
            elements.format,
            read,
            places[where],
            exclusive,
            reverse,
            before=before.item(where),
        )
    return result
