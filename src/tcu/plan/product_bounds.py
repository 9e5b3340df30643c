"""Error bounds of products of matrices, and of scans by MMAs, from the sums of the magnitudes that they add up."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tcu.formats.format import Format, get_format
from tcu.plan.matmul import MatmulPlan
from tcu.plan.mma_losses import check_no_wrap, losses
from tcu.plan.mma_scan import WIDTH, MmaScanPlan, Product
from tcu.units.arithmetic import ExactInteger
from tcu.units.instruction import Instruction, Unit
from tcu.units.lookup import find_instruction

__all__ = ["mass_of_products", "mma_scan_error_bound", "product_error_bound"]


def product_error_bound(plan: MatmulPlan, row: Instruction, mass: Any, aligned: Any) -> Any:
    """A bound on |sum of products before scales, bias and the last rounding - exact sum|, inf where one may overflow.

    mass: at least the sum of |a·b| of the operands that the unit reads;
    aligned: the same with the smallest normal number in place of each
    subnormal one, whose exponent takes part in the alignment; numbers, or
    arrays of them.

    One block of an aligned sum cuts its products and c, each by less than
    2^-F of the common exponent's power of two, which is at most that of the
    largest of them; then its sum is rounded.  With what was lost before, E, that
    is E + g·(aligned + E) + s for a relative g and an absolute s, once for each
    of T blocks: ((1 + g)^T - 1)·(aligned + s/g) for a chain.  Chains share the
    mass among them.  A fused multiply-add is a block of one that cuts nothing.
    """
    output, arithmetic = get_format(row.output), row.arithmetic
    check_no_wrap(arithmetic)
    if isinstance(arithmetic, ExactInteger):
        return np.where(mass > output.max_finite, math.inf, 0.0)
    roundings, relative, absolute = losses(row, min(plan.k, plan.chunk))
    growth = math.expm1(min(roundings * math.log1p(relative), 700.0))
    lost = growth * (aligned + plan.chains * absolute / relative)
    outside = get_format(plan.outside)
    held = mass + lost
    lost = lost + math.expm1(max(plan.chains - 1, 0) * math.log1p(outside.unit_roundoff)) * held
    over = (held > output.max_finite) | (mass + lost > outside.max_finite)
    return np.where(mass == 0, 0.0, np.where(over, math.inf, lost * (1 + 2.0**-40)))


def mass_of_products(x: Any, y: Any) -> Any:
    """At least the product of matrices without negative numbers, whatever the order of the additions."""
    k = x.shape[-1]
    overflow = np.isinf(x).any(-1, keepdims=True) | np.isinf(y).any(-2, keepdims=True)
    total = np.matmul(np.where(np.isinf(x), 0.0, x), np.where(np.isinf(y), 0.0, y))
    meets = total > 0
    if not meets.all():  # products may have become 0
        meets = np.matmul((x > 0).astype(np.float32), (y > 0).astype(np.float32)) > 0
    raised = total * (1 + (k + 2) * 2.0**-52) + np.where(meets, k * get_format("binary64").min_subnormal, 0.0)
    return np.where(overflow, math.inf, raised)


@dataclass(frozen=True)
class _Lost:
    """A bound on what a number has lost, by what it is made of, in units of a sum of magnitudes.

    ``running``: of all that comes before it in its strip, itself included.  ``share``: of what it is made of alone; of
    numbers that are made of different elements the largest such share bounds what their sum has lost.
    """

    running: float = 0.0
    share: float = 0.0
    absolute: float = 0.0

    def __add__(self, other: _Lost) -> _Lost:
        """Of a sum of two that are made of different elements."""
        return _Lost(
            self.running + other.running, max(self.share, other.share), self.absolute + other.absolute
        )

    def then(self, running: float = 0.0, share: float = 0.0, absolute: float = 0.0) -> _Lost:
        """After an operation that loses as much of what it is given, errors included."""
        grown = 1 + running + share
        return _Lost(
            self.running * grown + running, self.share * grown + share, self.absolute * grown + absolute
        )

    @property
    def whole(self) -> _Lost:
        """Of all that the number is made of."""
        return _Lost(0.0, self.running + self.share, self.absolute)


def mma_scan_error_bound(
    plan: MmaScanPlan, unit: Unit, mass: Any, exact: Any, total: Any, top: Any, result: Format
) -> Any:
    """A bound on |prefix of a scan by MMAs - exact prefix|; inf where an overflow cannot be excluded.

    mass and exact as in :func:`scan_error_bound`; total: at least the sum of |x| of all the row, and top: at least
    max|x|, as what overflows behind a prefix reaches it, by products with zeros.

    Followed step by step.  The 16 factors of a dot product are made of different elements, and so are the tiles of a
    strip, and what comes before a strip at each level.
    """
    operand, wide = get_format(plan.input), get_format(plan.accumulator)
    row = find_instruction(unit, "mma", plan.input, plan.input, plan.accumulator)
    check_no_wrap(row.arithmetic)
    roundings, relative, small = losses(row, WIDTH)
    growth = math.expm1(roundings * math.log1p(relative))
    besides = growth * (WIDTH * operand.min_normal + small / relative)

    def factors(each: _Lost) -> _Lost:
        """Of 16 numbers, rounded to the operand's format."""
        together = replace(each, absolute=WIDTH * each.absolute)
        return together.then(share=operand.unit_roundoff, absolute=WIDTH * operand.min_subnormal / 2)

    strip, operands = _Lost(), 0
    """What the last number of a strip has lost; the most elements in a number that is rounded to the operand's format."""
    for _ in range(plan.chain):
        lost, of_tile = {"A": _Lost(), "S": strip, "0": _Lost()}, {"A", "0"}
        for step in plan.steps:
            if isinstance(step, Product):
                given = lost[step.addend]
                for name in (step.left, step.right):
                    if name not in ("U", "L", "J", "A"):
                        given, operands = given + factors(lost["AU" if name == "T" else name]), WIDTH
                if step.addend in of_tile:
                    of_tile.add(step.result)
                    lost[step.result] = given.then(share=growth, absolute=besides)
                else:
                    lost[step.result] = given.then(running=growth, absolute=besides)
            else:
                lost[step.result] = (lost[step.left] + lost[step.right]).then(running=wide.unit_roundoff)
        strip = lost["R"]
    whole = strip.whole
    levels = [whole]
    for k in range(plan.levels):
        operands = max(operands, plan.strip * WIDTH**k)
        levels.append(factors(levels[-1]).then(share=growth, absolute=besides))
    whole = levels.pop()
    while levels:  # from the highest level down to the strip's own prefix
        whole = (whole + levels.pop()).then(share=wide.unit_roundoff)
    lost_here = whole.share * mass + whole.absolute
    rounded = result.unit_roundoff * (exact + lost_here) + result.min_subnormal / 2
    if result.fraction_bits >= wide.fraction_bits and result.emin <= wide.emin:
        rounded = 0.0
    largest = np.minimum(total, operands * top) * (1 + whole.share) + whole.absolute
    held = total * (1 + whole.share) + whole.absolute
    over = ((largest > operand.max_finite) & bool(operands)) | (held > wide.max_finite)
    return np.where(over, math.inf, (lost_here + rounded) * (1 + 2.0**-40))
