"""The levels of a transform as data, for executors that do all of them at once."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from tcu.algorithms.complex_rows import ComplexProduct, part_bits, row_groups, unit_matrices, widest_row
from tcu.algorithms.fourier import levels, scaled_twiddles, twiddle_shift
from tcu.plan.transform import Table, Transform, TransformLevel

__all__ = ["transform_plan"]


@lru_cache(maxsize=64)
def transform_plan(
    n: int, side: int, product: ComplexProduct, parts: int, operand: str, work: str, top: int | None
) -> Transform | None:
    """A transform of n numbers on a unit of that side; None where a level is more than one product.

    That is so for primes above √m, by Bluestein's convolution or by blocks of
    the Fourier matrix.  The same object for the same arguments, while it is
    kept: executors keep their tables with it.
    """
    plan = levels(n, widest_row(side, product))
    if any(level.convolved or level.length > widest_row(side, product) for level in plan):
        return None
    left, done, taken = n, 1, 0
    found: list[TransformLevel] = []
    for number, level in enumerate(plan):
        f = level.length
        left //= f
        group, _ = row_groups(side // (2 * f if product == "embedded" else f), left * done)
        twiddles = None
        if number + 1 < len(plan):
            shift = 0 if top is None else twiddle_shift(f)
            twiddles, taken = Table(scaled_twiddles, (f, left, shift, work)), taken + shift
        matrices = Table(unit_matrices, (f, group, parts, operand, product))
        found.append(TransformLevel(f, left, done, group, matrices, twiddles))
        done *= f
    bits = part_bits(operand) if parts > 1 else 0
    return Transform(n, product, parts, bits, np.dtype(work), top, 2.0**taken, tuple(found))
