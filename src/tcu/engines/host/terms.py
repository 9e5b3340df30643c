"""Exact sums of many short rows at once, of numbers or of products, each rounded once.

Products of 16-bit numbers and of binary32 are numbers of binary64.  One of
binary64 is two: itself, rounded, and its error, which is exact while nothing
overflows or underflows.  Rows where that may happen are left to Python's integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tcu.engines.host.planned import encoded
from tcu.formats.format import Format, get_format
from tcu.model import compiled

__all__ = ["Terms", "goal_of", "roots_of", "sums_of", "terms_of"]

Line = npt.NDArray[Any]
Places = npt.NDArray[np.int64]
_DOUBLE = "binary64"
_SMALLEST, _LARGEST = 2.0**-900, 2.0**900
"""Sizes of products, and of factors, between which errors of products of binary64 are exact with room to spare."""
_CUT = 2.0**27 + 1


class Terms(NamedTuple):
    """What rows of products add up: pieces of a line of binary64."""

    line: npt.NDArray[np.float64]
    starts: Places
    stops: Places
    left: npt.NDArray[np.bool_]
    """Rows of which the line may not have the sum."""

    @property
    def format(self) -> Format:
        return get_format(_DOUBLE)


def sums_of(
    line: Line, fmt: Format, starts: Places, stops: Places, target: Format, mean: bool = False
) -> tuple[Line, int]:
    """(codes of the sums of the pieces of a line, or of their means; the first that has no value or -1)."""
    out = np.empty(starts.size, target.code_dtype)
    clash = compiled.load("exact_rows").sum_rows_exactly(
        line.view(f"i{fmt.dtype.itemsize}"), starts, stops, fmt.fraction_bits, fmt.bias, _fields(fmt), mean, goal_of(target), out,
    )  # fmt: skip
    return out, int(clash)


def goal_of(target: Format) -> npt.NDArray[np.int64]:
    """What kernels that round exact sums are told of the format."""
    return np.array([target.fraction_bits, target.bias, _fields(target), target.nan_code], np.int64)


def _fields(fmt: Format) -> int:
    """The exponent field of inf."""
    return (1 << fmt.exponent_bits) - 1


def terms_of(lines: Sequence[Line], fmt: Format, starts: Places, stops: Places) -> Terms:
    """The products of two lines, or the squares of one, in pieces."""
    with np.errstate(all="ignore"):
        x, y = (each.astype(np.float64, copy=False) for each in (lines[0], lines[-1]))
        products = x * y
        if fmt.name != _DOUBLE:
            return Terms(products, starts, stops, np.zeros(starts.size, np.bool_))
        size = np.abs(products)
        wild = ~((size > _SMALLEST) & (size < _LARGEST)) & ~(
            (x == 0) & np.isfinite(y) | (y == 0) & np.isfinite(x)
        )
        wild |= (np.abs(x) > _LARGEST) | (np.abs(y) > _LARGEST)
        line = np.stack([products, _errors(x, y, products)], axis=1).reshape(-1)
    before = np.zeros(x.size + 1, np.int64)
    np.cumsum(wild, out=before[1:])
    left = before[stops] != before[starts]
    return Terms(line, 2 * starts, np.where(left, 2 * starts, 2 * stops), left)


def _errors(x: Line, y: Line, products: Line) -> Line:
    """x · y - products, by Dekker's cuts (Veltkamp's): exact where nothing overflows or underflows."""
    (a, b), (c, d) = _cut(x), _cut(y)
    return np.asarray(((a * c - products) + a * d + b * c) + b * d)


def _cut(x: Line) -> tuple[Line, Line]:
    wide = x * _CUT
    high = wide - (wide - x)
    return high, x - high


def roots_of(terms: Terms, target: Format) -> tuple[Line, int, npt.NDArray[np.bool_]]:
    """(codes of the roots of the sums, the first that has no value or -1, rows that are not proved to be right).

    The sum is known to 106 bits: rounded, and what the rounding has left.  So
    the root lies between two numbers; if both are rounded alike it is that.
    """
    double = terms.format
    high, clash = _values(terms.line, terms.starts, terms.stops)
    count = np.arange(high.size)
    line = np.insert(terms.line, terms.stops, np.where(np.isfinite(high), -high, 0.0))
    low, _ = _values(line, terms.starts + count, terms.stops + count + 1)
    with np.errstate(all="ignore"):
        root = np.sqrt(high)
        square = root * root
        rest = ((high - square) - _errors(root, root, square) + low) / (2 * root)
        rest = np.where(high == 0, 0.0, rest)
        slack = np.abs(rest) * 2.0**-48 + root * 2.0**-104
        bounds = [root + (rest - slack), root + (rest + slack)]
        if target is not double:  # so that nothing is rounded twice
            bounds = [np.nextafter(bounds[0], -np.inf), np.nextafter(bounds[1], np.inf)]
            bounds[0] = np.maximum(bounds[0], 0.0)
        below, above = (encoded(each, target) for each in bounds)
        found = encoded(root, target)
        proved = np.where(np.isfinite(high) & (high > 0), below == above, high == 0)
    special = ~np.isfinite(high)
    codes = np.where(special | (high == 0), found, below)
    return codes, clash, terms.left | ~(proved | special) | (special & _finite(terms))


def _values(line: Line, starts: Places, stops: Places) -> tuple[npt.NDArray[np.float64], int]:
    double = get_format(_DOUBLE)
    codes, clash = sums_of(line, double, starts, stops, double)
    return codes.view(np.float64), clash


def _finite(terms: Terms) -> npt.NDArray[np.bool_]:
    """Rows whose terms are all finite: an infinite sum of these is none of binary64."""
    before = np.zeros(terms.line.size + 1, np.int64)
    np.cumsum(~np.isfinite(terms.line), out=before[1:])
    return np.asarray(before[terms.stops] == before[terms.starts])
