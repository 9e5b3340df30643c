"""Functions that look like a fixed tree of additions for most questions, and are none, or none of a known arithmetic."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.formats import get_format
from tcu.model.mma import multiply_accumulate
from tcu.units import AlignedSum, Instruction

Numbers = npt.NDArray[Any]

SUMS: dict[str, Callable[[Numbers], Any]] = {}
"""Of 40 numbers of binary32."""
PRODUCTS: dict[str, Callable[[Numbers, Numbers], Numbers]] = {}
"""Of binary16 matrices 4 × 40 and 40 × 3."""
UNSTEADY = {
    "adds in another order every time",
    "rounds at random",
    "takes what has arrived of the blocks before",
}


def _sum(name: str) -> Callable[[Callable[[Numbers], Any]], Callable[[Numbers], Any]]:
    def named(function: Callable[[Numbers], Any]) -> Callable[[Numbers], Any]:
        def quiet(x: Numbers) -> Any:
            with np.errstate(all="ignore"):
                return np.float32(function(x))

        SUMS[name] = quiet
        return function

    return named


def in_turn(x: Numbers) -> Any:
    total = x[0]
    for each in x[1:]:
        total = total + each
    return total


@_sum("sorts first")
def _(x: Numbers) -> Any:
    return in_turn(np.sort(x))


@_sum("adds the largest magnitudes first")
def _(x: Numbers) -> Any:
    return in_turn(x[np.argsort(-np.abs(x), kind="stable")])


@_sum("adds the positive numbers first")
def _(x: Numbers) -> Any:
    return in_turn(np.concatenate([x[x > 0], x[x <= 0]]))


@_sum("leaves out zeros, then halves")
def _(x: Numbers) -> Any:
    left = x[x != 0]
    while left.size > 1:
        half = (left.size + 1) // 2
        left = np.concatenate([left[: left.size - half] + left[half:], left[left.size - half : half]])
    return left[0] if left.size else np.float32(0)


@_sum("adds in another order every time")
def _(x: Numbers) -> Any:
    return in_turn(np.random.default_rng().permutation(x))


@_sum("rounds at random")
def _(x: Numbers) -> Any:
    exact = in_turn(x.astype(np.float64))
    near = np.float32(exact)
    other = np.nextafter(near, np.float32(np.inf) if exact > near else np.float32(-np.inf))
    return other if exact != near and np.random.default_rng().random() < 0.5 else near


@_sum("rounds at random, by the numbers")
def _(x: Numbers) -> Any:
    total = in_turn(x)
    return np.nextafter(total, np.float32(np.inf)) if zlib.crc32(x.tobytes()) % 8 == 0 else total


@_sum("has another last bit at one exponent of the result")
def _(x: Numbers) -> Any:
    total = in_turn(x)
    return np.nextafter(total, np.float32(0)) if 8 <= abs(total) < 16 else total


@_sum("cuts partial sums at one exponent")
def _(x: Numbers) -> Any:
    total = x[0]
    for each in x[1:]:
        total = total + each
        if 2.0**20 <= abs(total) < 2.0**21:
            total = np.float32(np.trunc(total))
    return total


@_sum("turns round where a number is large")
def _(x: Numbers) -> Any:
    return in_turn(x if np.abs(x).max() > 2.0**90 else x[::-1])


@_sum("has another last bit where one number alone is not zero, and larger than 2")
def _(x: Numbers) -> Any:
    total = in_turn(x)
    return np.nextafter(total, np.float32(0)) if np.count_nonzero(x) == 1 and abs(total) > 2 else total


@_sum("turns round where magnitudes are more than 2^120 apart")
def _(x: Numbers) -> Any:
    size = np.abs(x[x != 0]).astype(np.float64)
    return in_turn(x[::-1] if size.size and size.max() > 2.0**120 * size.min() else x)


@_sum("leaves out what is less than 2^-130 of the largest number")
def _(x: Numbers) -> Any:
    size = np.abs(x).astype(np.float64)
    return in_turn(np.where(size * 2.0**130 < size.max(), np.float32(0), x))


@_sum("takes a wider format for small numbers")
def _(x: Numbers) -> Any:
    return in_turn(x.astype(np.float64) if np.abs(x).max() < 1 else x)


@_sum("flushes subnormal partial sums")
def _(x: Numbers) -> Any:
    total = x[0]
    for each in x[1:]:
        total = total + each
        if abs(total) < np.finfo(np.float32).tiny:
            total = np.float32(0)
    return total


@_sum("adds toward zero")
def _(x: Numbers) -> Any:
    total = x[0]
    for each in x[1:]:
        exact = np.float64(total) + np.float64(each)
        total = np.float32(exact)
        if abs(total) > abs(exact):
            total = np.nextafter(total, np.float32(0))
    return total


@_sum("keeps 20 digits")
def _(x: Numbers) -> Any:
    total = x[0]
    for each in x[1:]:
        total = total + each
        total = np.float32(total + total * np.float32(16)) - total * np.float32(16)
    return total


@_sum("adds in extended precision")
def _(x: Numbers) -> Any:
    return in_turn(x.astype(np.longdouble))


@_sum("compensates, but for the last number")
def _(x: Numbers) -> Any:
    total, lost = x[0], np.float32(0)
    for each in x[1:-1]:
        each = each - lost
        after = total + each
        lost = (after - total) - each
        total = after
    return total + x[-1]


@_sum("compares two numbers")
def _(x: Numbers) -> Any:
    return in_turn(x) if x[7] <= x[3] else in_turn(np.concatenate([x[8:], x[:8]]))


@_sum("multiplies by a third, and by three")
def _(x: Numbers) -> Any:
    return in_turn(x * np.float32(1 / 3)) * np.float32(3)


def _row(fraction_bits: int, block: int = 8) -> Instruction:
    arithmetic = AlignedSum(block, fraction_bits, "RZ", -133)
    return Instruction("mma", "binary16", "binary16", "binary32", (16, 8, block), arithmetic, ())


def _blocks(choose: Callable[[int, Numbers, Numbers], int]) -> Callable[[Numbers, Numbers], Numbers]:
    """Blocks of eight, of which ``choose`` says how many fraction bits the alignment keeps."""

    def product(a: Numbers, b: Numbers) -> Numbers:
        c = np.zeros((len(a), b.shape[1]), get_format("binary32").dtype)
        for at in range(0, a.shape[1], 8):
            x, y = np.ascontiguousarray(a[:, at : at + 8]), np.ascontiguousarray(b[at : at + 8])
            c = multiply_accumulate(x, y, c, _row(choose(at, x, y)))
        return c

    return product


PRODUCTS["one block has another guard bit"] = _blocks(lambda at, x, y: 25 if at == 16 else 24)
PRODUCTS["the guard bits are those of the largest number"] = _blocks(
    lambda at, x, y: 24 + (np.abs(x).max() > 256)
)
PRODUCTS["negative products are cut elsewhere"] = _blocks(lambda at, x, y: 24 if (x >= 0).all() else 23)


def _turned(a: Numbers, b: Numbers) -> Numbers:
    order = np.argsort(np.abs(a[0]).astype(np.float64), kind="stable")
    return multiply_accumulate(
        a[:, order].copy(), b[order].copy(), np.zeros((len(a), b.shape[1]), np.float32), _row(25)
    )


PRODUCTS["sorts k by the first row"] = _turned

SCANS: dict[str, Callable[[Numbers], Numbers]] = {}
"""Running sums of numbers of binary32."""


def _scan(name: str) -> Callable[[Callable[[Numbers], Any]], Callable[[Numbers], Any]]:
    def named(function: Callable[[Numbers], Any]) -> Callable[[Numbers], Any]:
        def quiet(x: Numbers) -> Numbers:
            with np.errstate(all="ignore"):
                return np.asarray(function(x), np.float32)

        SCANS[name] = quiet
        return function

    return named


@_scan("sorts all that came before")
def _(x: Numbers) -> Any:
    return [in_turn(np.sort(x[: size + 1])) for size in range(x.size)]


@_scan("one result turns round where a number is larger")
def _(x: Numbers) -> Any:
    found = np.cumsum(x)
    if x[3] > x[5]:
        found[17] = in_turn(x[17::-1])
    return found


@_scan("one result has another last bit at one exponent")
def _(x: Numbers) -> Any:
    found = np.cumsum(x)
    if 8 <= abs(found[11]) < 16:
        found[11] = np.nextafter(found[11], np.float32(0))
    return found


@_scan("begins anew after a large number")
def _(x: Numbers) -> Any:
    total, found = np.float32(0), []
    for each in x:
        total = each if abs(total) > 2.0**100 else total + each
        found.append(total)
    return found


@_scan("takes what has arrived of the blocks before")
def _(x: Numbers) -> Any:
    """A carry is the block's before, or the sum of the totals so far, whichever is there first."""
    rng = np.random.default_rng()
    parts = [np.cumsum(x[at : at + 4]) for at in range(0, x.size, 4)]
    found = [parts[0]]
    for number, part in enumerate(parts[1:], 1):
        totals = in_turn(np.array([each[-1] for each in parts[:number]][::-1]))
        found.append((found[-1][-1] if rng.random() < 0.5 else totals) + part)
    return np.concatenate(found)


@_scan("a compensation that is dropped at zero")
def _(x: Numbers) -> Any:
    total, lost, found = x[0], np.float32(0), [x[0]]
    for each in x[1:]:
        each = each - (lost if each > 0 else np.float32(0))
        after = total + each
        lost = (after - total) - each
        total = after
        found.append(total)
    return found
