"""The error of one MMA: a proved bound, the worst found and the typical error of every arithmetic.

All for sums of numbers of one sign, in units of the last place of the exact
result: where terms cancel, no unit's error has a bound in those.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tcu.formats.format import Format, get_format
from tcu.model.mma import multiply_accumulate
from tcu.units import CATALOGUE, AlignedSum, ExactBlock, FlushedTree, FusedChain, Instruction, LateSum

__all__ = ["MmaError", "bound", "errors", "measured", "rows"]

Values = npt.NDArray[np.float64]
ROWS = 12
"""Rows of A and columns of B of one question."""
DEPTHS = 31


@dataclass(frozen=True)
class MmaError:
    """In units of the last place of the exact result."""

    proved: float
    found: float
    """The largest of some thousands of sums that are made to lose much."""
    typical: float
    """Root of the mean square, of products of numbers from [0, 1), evenly distributed, without c."""


def bound(row: Instruction) -> float:
    """Of sums of one sign, of normal numbers, whose result neither overflows nor is subnormal.

    The exact sum S is at least 2^e for the common exponent e of any block, so a term cut to F bits loses less than
    2^(P - F) units of the last place of S, where P are the fraction bits of the output.  Partial sums are at most S, so
    one rounding costs at most one such unit, half of it to nearest, times 2^(P - kept) where fewer bits are kept.
    """
    rules, full = row.arithmetic, get_format(row.output).fraction_bits
    if isinstance(rules, AlignedSum):
        kept = min(full, rules.output_fraction_bits or full)
        rounding = 2.0 ** (full - kept) * (0.5 if rules.rounding == "RNE" else 1)
        blocks = -(-row.k // rules.block)
        terms = min(rules.block, row.k) + 1
        return blocks * (terms * 2.0 ** (full - rules.fraction_bits) + rounding) + 0.5 * rules.late_c
    if isinstance(rules, ExactBlock):
        return 0.5 * -(-row.k // rules.block)
    if isinstance(rules, FlushedTree):  # products, sums of the trees, and their totals to c
        return 0.5 * (2 * row.k)
    if isinstance(rules, LateSum):
        cut = (rules.block + rules.groups + 1) * 2.0 ** (full - rules.fraction_bits)
        return -(-row.k // rules.block) * (cut + 2 * 2.0 ** (full - rules.late_bits) + 0.5)
    assert isinstance(rules, FusedChain)
    steps = row.k * (2 if rules.rounded_products or rules.group > 1 else 1) + rules.lanes - 1 + rules.late_c
    steps += row.k // 2 if rules.rounded_products and rules.group > 1 else 0
    return steps * (0.5 if rules.rounding == "RNE" else 1)


def measured(row: Instruction) -> MmaError:
    """The same numbers in every run."""
    rng = np.random.default_rng(0)
    typical = np.concatenate([errors(row, *each) for each in _even(row, rng)])
    found = max(float(np.abs(errors(row, *each)).max()) for each in _losing(row, rng))
    worst = max(found, float(np.abs(typical).max()))
    return MmaError(bound(row), worst, float(np.sqrt(np.mean(typical**2))))


def errors(row: Instruction, a: Values, b: Values, c: Values) -> Values:
    """Of A·B + C, whose numbers the formats have."""
    x, y, z = (get_format(name) for name in (row.a, row.b, row.output))
    d = multiply_accumulate(a.astype(x.dtype), b.astype(y.dtype), c.astype(z.dtype), row).astype(np.float64)
    found = np.zeros(d.shape)
    for i, j in np.ndindex(*d.shape):
        exact = math.fsum([c[i, j], *(a[i] * b[:, j])])
        last = 2.0 ** (max(math.frexp(exact)[1] - 1, z.emin) - z.fraction_bits)
        found[i, j] = (d[i, j] - exact) / last
    return found


def _held(values: Values, fmt: Format) -> Values:
    """Cut to normal numbers of the format, or zero."""
    fraction, exponent = np.frexp(values)
    cut = np.ldexp(np.trunc(np.ldexp(fraction, fmt.fraction_bits + 1)), exponent - fmt.fraction_bits - 1)
    return np.asarray(np.where(cut < fmt.min_normal, 0.0, np.minimum(cut, fmt.max_finite)))


def _even(row: Instruction, rng: np.random.Generator) -> Iterator[tuple[Values, Values, Values]]:
    x, y = get_format(row.a), get_format(row.b)
    for _ in range(8):
        a, b = _held(rng.random((ROWS, row.k)), x), _held(rng.random((row.k, ROWS)), y)
        yield a, b, np.zeros((ROWS, ROWS))


def _losing(row: Instruction, rng: np.random.Generator) -> Iterator[tuple[Values, Values, Values]]:
    """One large term beside as many as there is place for, each just too small to count in full, at every distance.

    The large one is a product, in any place, or c.
    """
    x, y, z = (get_format(name) for name in (row.a, row.b, row.output))
    low = 2.0 ** max(x.emin, -DEPTHS // 2 - 1)
    for depth in range(DEPTHS):
        share = 2.0 ** -(depth // 2)
        a = np.full((ROWS, row.k), (2 - 2.0**-x.fraction_bits) * max(share, low))
        b = np.full((row.k, ROWS), (2 - 2.0**-y.fraction_bits) * 2.0 ** -(depth - depth // 2))
        c = np.zeros((ROWS, ROWS))
        for i in range(ROWS // 2):
            a[i, rng.integers(0, row.k)] = 2.0 ** min(x.emax - 1, 8)
        c[ROWS // 2 :] = 2.0 ** min(8, z.emax - 6)
        a *= rng.choice([1.0, 0.75], a.shape)
        yield _held(a, x), _held(b, y), c


def rows() -> Iterator[tuple[list[str], Instruction]]:
    """(units, instruction) of every arithmetic of floating formats without scales; one of mixed pairs stands for both."""
    found: dict[tuple[object, ...], tuple[list[str], Instruction]] = {}
    for unit in CATALOGUE.values():
        for row in unit.instructions:
            six = {row.a, row.b} & {"e3m2", "e2m3", "e2m1"}
            if row.scale or row.output in ("s32", "binary64") or row.a != row.b or six:
                continue
            key = row.a, row.output, row.k, row.arithmetic
            units, _ = found.setdefault(key, ([], row))
            units.append(unit.name)
    yield from found.values()
