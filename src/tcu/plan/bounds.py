"""An error bound for any plan on any unit, from n, max|x| and the sum of |x|; of |x·y| for dot products.

Followed step by step: ``mass`` bounds the sum of the magnitudes of the
vector's numbers, ``top`` the largest of them, ``error`` what has been lost so
far.  Rounding analysis as in Blanchard et al., SIAM J. Sci. Comput. 42(3),
2020, section 2.1, with the truncation of the alignment counted term by term.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from tcu.formats.format import Format, get_format
from tcu.plan.mma_losses import chain_errors, check_no_wrap
from tcu.plan.plan import AddStep, FmaStep, MmaStep, Plan, Step, output_length
from tcu.plan.scan import ScanPlan
from tcu.plan.tree import (
    Blocks,
    Compensated,
    ExactAddition,
    TreeNode,
    TreeOperation,
    TreeRegions,
    TreeStep,
    additions,
)
from tcu.units.arithmetic import AlignedSum, ExactInteger, LateSum
from tcu.units.instruction import Instruction, Unit
from tcu.units.lookup import find_instruction

__all__ = ["plan_error_bound", "scan_error_bound"]


@dataclass
class _State:
    length: int
    mass: float
    top: float
    error: float
    format: Format

    def lose(self, loss: float) -> None:
        self.error += loss
        self.mass += loss

    def check_overflow(self, fmt: Format) -> None:
        if self.top > fmt.max_finite:
            self.lose(math.inf)
        self.format = fmt


def plan_error_bound(
    plan: Plan, unit: Unit | None, mass: float, top: float, result: Format, exact: float
) -> float:
    """A bound on |sum by the plan - exact sum|; inf where an overflow cannot be excluded.

    mass: at least the sum of |x|; top: at least max|x|; exact: |exact sum| or a
    bound of it; result: the format that the sum is rounded to at the end.  For
    a dot product x·y stands for x.  unit: None for a plan without MMAs.
    """
    if not plan.n or mass == 0:
        return 0.0
    total = _State(0, 0.0, 0.0, 0.0, get_format(plan.input))
    for part in plan.parts:
        # Each part may hold all of the mass, as far as a bound knows.
        state = _State(part.stop - part.start, mass, top, 0.0, get_format(plan.input))
        for step in part.steps:
            _apply(step, state, unit)
        total.length += state.length
        total.top = max(total.top, state.top)
        total.error += state.error
        total.format = state.format
    total.mass = mass + total.error
    for step in plan.final:
        _apply(step, total, unit)
    _convert(get_format(plan.result), total)
    bound = total.error + result.unit_roundoff * (exact + total.error) + result.min_subnormal / 2
    if exact + total.error > result.max_finite:
        return math.inf
    return bound * (1 + 2.0**-40)  # the additions of this function itself


def scan_error_bound(plan: ScanPlan, mass: Any, exact: Any, result: Format) -> Any:
    """A bound on |prefix of a scan - exact prefix|, where that does not overflow.

    mass: at least the sum of |x| up to the prefix's end; exact: |exact prefix|
    or a bound of it; numbers, or arrays of them.  Higham, Accuracy and
    Stability of Numerical Algorithms, 2nd ed., section 4.2, with the plan's
    depth, and the one rounding to the result's format.
    """
    lost = math.expm1(plan.depth * math.log1p(get_format("binary64").unit_roundoff)) * mass
    rounded = 0.0
    if result.name != "binary64":  # in which the last addition was rounded already
        rounded = result.unit_roundoff * (exact + lost) + result.min_subnormal / 2
    return (lost + rounded) * (1 + 2.0**-40)  # the operations of this function itself


def _apply(step: Step, state: _State, unit: Unit | None) -> None:
    if math.isinf(state.mass):
        return
    if isinstance(step, MmaStep):
        assert unit is not None
        _mma(step, state, unit)
    elif isinstance(step, FmaStep):
        _fused_products(step, state)
    elif isinstance(step, TreeStep):
        _tree(step, state)
        return
    elif isinstance(step, TreeRegions):
        states = [replace(state) for _ in step.trees]
        for tree, each in zip(step.trees, states, strict=True):
            _tree(tree, each)
        worst = max(states, key=lambda each: each.error)  # they all hold as much
        state.length, state.mass, state.top, state.error, state.format = vars(worst).values()
        return
    else:
        _additions(step, state)
    group = state.length if isinstance(step, AddStep) and step.length is None else step.group
    results = 1 if isinstance(step, AddStep) and step.length is None else step.results
    state.top = min(state.mass, state.top * max(group // results, 1) + state.error)
    state.check_overflow(get_format(step.accumulator if isinstance(step, MmaStep) else step.format))
    state.length = output_length(step, state.length)


def _additions(step: AddStep, state: _State) -> None:
    fmt = get_format(step.format)
    state.lose(math.expm1(step.depth(state.length) * math.log1p(fmt.unit_roundoff)) * state.mass)
    if step.order == "any" and fmt.name == "binary32":
        # An atomic addition takes a subnormal operand, and a subnormal sum, for zero (PTX ISA, red).
        state.lose(2 * state.length * 2.0**fmt.emin)


def _fused_products(step: FmaStep, state: _State) -> None:
    fmt = get_format(step.format)
    growth = math.expm1(step.length * math.log1p(fmt.unit_roundoff))
    # Where products need not be multiples of the smallest subnormal, each loses up to half of it; the
    # other half covers the underflow of this function itself.
    inexact = 2 * state.format.quantum_exponent < fmt.quantum_exponent
    small = state.length * fmt.min_subnormal if inexact else 0.0
    state.lose(growth * state.mass + (1 + growth) * small)


def _tree(step: TreeStep, state: _State) -> None:
    """Every rounding of the longest way to a root, and what underflows on all ways."""
    operand = get_format(step.operand)
    pairs = state.length
    if step.operand_rounding == "RNE":
        _convert(operand, state)
    else:
        state.lose(2 * operand.unit_roundoff * state.mass + pairs * operand.min_subnormal)
        state.format = operand
    if step.product is not None:
        product = get_format(step.product)
        state.lose(product.unit_roundoff * state.mass + pairs * product.min_subnormal)
        state.top *= 1 + product.unit_roundoff
        state.check_overflow(product)
    growths: list[float] = []
    small = 0.0
    for node in step.nodes:
        relative, absolute = _rounding(node.operation, len(node.inputs))
        small += absolute * len(node.inputs)
        growths.append(
            max(
                (growths[value - step.leaves] if value >= step.leaves else 0.0)
                # One more for the rounding of a product, or of a number to the format.
                + relative * (additions(node, place) + 1)
                for place, value in enumerate(node.inputs)
            )
        )
    growth = max((growths[root - step.leaves] for root in step.roots if root >= step.leaves), default=0.0)
    if not step.nodes:  # a product alone is rounded in the end, perhaps from binary64
        growth, small = 2.0**-52, get_format("binary64").min_subnormal
    state.lose(math.expm1(min(growth, 700.0)) * state.mass + math.exp(min(growth, 700.0)) * small)
    narrowest = min(
        (_accumulator(node) for node in step.nodes), key=lambda fmt: fmt.max_finite, default=operand
    )
    state.top = state.mass
    if step.nodes:
        state.check_overflow(narrowest)
        state.format = _accumulator(step.nodes[-1])
    state.length = step.results


def _accumulator(node: TreeNode) -> Format:
    operation = node.operation
    return get_format(operation.output if isinstance(operation, Blocks) else operation.format)


def _rounding(operation: TreeOperation, count: int) -> tuple[float, float]:
    """What one addition loses at most, or a sum of ``count`` inputs: of the magnitudes that it adds, and besides, for each input."""
    if isinstance(operation, Blocks):
        check_no_wrap(operation.arithmetic)
        row, output = operation.arithmetic, get_format(operation.output)
        kept = min(output.fraction_bits, row.output_fraction_bits or output.fraction_bits)
        relative = 2.0 ** -(kept + 1 if row.rounding == "RNE" else kept)
        alignment = (row.block + 1) * 2.0**-row.fraction_bits
        operand = get_format(operation.operand)
        lowest = max(operand.emin, output.emin, -10_000 if row.exponent_floor is None else row.exponent_floor)
        absolute = 2.0 ** (lowest - row.fraction_bits) + 2.0 ** (output.emin - kept)
        absolute += (
            row.flush_inputs * (operand.min_normal + output.min_normal)
            + row.flush_outputs * output.min_normal
        )
        return relative + alignment, absolute
    fmt = get_format(operation.format)
    if isinstance(operation, ExactAddition):
        return fmt.unit_roundoff, fmt.min_subnormal
    if isinstance(operation, Compensated):
        return _compensated(operation.method, count, fmt.unit_roundoff), fmt.min_subnormal
    absolute = fmt.min_subnormal
    if operation.flushed:  # the result, and the sum before
        absolute += 2 * fmt.min_normal
    return fmt.unit_roundoff * (1 + fmt.unit_roundoff), absolute


def _compensated(method: str, n: int, u: float) -> float:
    """What a compensated sum of n numbers loses, of the sum of their magnitudes M; inf beyond what is proved here.

    Neumaier's: the error e of each addition is exact (Fast2Sum of the larger and the smaller), so that what is lost is
    the last rounding, and those of the sum of all e.  |e| <= u |s| for a partial sum s, |s| <= (1 + g) M with
    g = (1 + u)^n - 1, and n of them added up in turn lose g times the sum of their magnitudes.

    Kahan's: y = x - c, s' = s + y, c' = (s' - s) - y, each rounded, whatever the order of magnitudes.  With
    v = u / (1 - u), |c'| <= b (|y| + |s'|), b = v (1 + u)^2.  In turn s' - c' loses at most (u + v + d) |y| + d v |s'|,
    d = 2u + u^2, besides what x is: all of them and the last c are the error E.  With Y, the sum of all |y|, at
    most (1 + u) (M + b (Y + n s)), and the largest |s| at most s = M + E, that is a linear inequality of s.
    Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., (4.8), has its first terms: (2u + O(n u^2)) M.
    """
    if method == "neumaier":
        g = math.expm1(n * math.log1p(u))
        return u + (1 + u) * g * u * n * (1 + g)
    v, d = u / (1 - u), 2 * u + u * u
    b = v * (1 + u) ** 2
    a, e = (1 + u) / (1 - (1 + u) * b), u + v + d
    rest = 1 - b - n * (d * v + (e + b) * a * b)
    return (1 + (e + b) * a) / rest - 1 if rest > 0 else math.inf


def _convert(fmt: Format, state: _State) -> None:
    """Rounding to nearest of every number of the vector."""
    if fmt.fraction_bits >= state.format.fraction_bits and fmt.emin <= state.format.emin:
        state.format = fmt
        return
    state.lose(fmt.unit_roundoff * state.mass + state.length * fmt.min_subnormal / 2)
    state.top *= 1 + fmt.unit_roundoff
    state.check_overflow(fmt)


def _mma(step: MmaStep, state: _State, unit: Unit) -> None:
    operand = get_format(step.operand)
    if step.operand == "tf32":  # the unit itself drops the low bits
        state.lose(2 * operand.unit_roundoff * state.mass + state.length * operand.min_subnormal)
        state.format = operand
    else:
        _convert(operand, state)
    row = find_instruction(unit, "mma", step.operand, step.operand, step.accumulator)
    output = get_format(row.output)
    arithmetic = row.arithmetic
    check_no_wrap(arithmetic)
    if not isinstance(arithmetic, AlignedSum):
        _chain(step, row, operand, state)
        return
    per_mma = -(-row.k // arithmetic.block) * -(-step.k // row.k)
    roundings = step.chain * per_mma
    dots = output_length(step, state.length)

    kept = output.fraction_bits
    if arithmetic.output_fraction_bits is not None:
        kept = min(kept, arithmetic.output_fraction_bits)
    smallest = 2.0 ** (output.emin - kept)
    relative = 2.0 ** -(kept + 1 if arithmetic.rounding == "RNE" else kept)
    alignment = arithmetic.block * 2.0**-arithmetic.fraction_bits
    # Every number is a multiple of the operand's smallest subnormal.  Where the
    # alignment keeps that bit under the largest possible term, it cuts nothing.
    # A c that reaches the alignment is a partial sum of the chain.
    reach = state.top * (step.chain * step.k if roundings > 1 else 1) * (1 + 2.0**-8)
    common = math.floor(math.log2(max(reach, operand.min_normal)))
    if arithmetic.exponent_floor is not None:
        common = max(common, arithmetic.exponent_floor)
    if common - arithmetic.fraction_bits <= operand.quantum_exponent:
        alignment = 0.0
    # A subnormal takes part with its format's emin, a floor stands in for a small exponent.
    lowest = max(operand.emin, output.emin)
    if arithmetic.exponent_floor is not None:
        lowest = max(lowest, arithmetic.exponent_floor)
    small = dots * roundings * alignment * 2.0**lowest
    if operand.min_subnormal < smallest:
        small += dots * roundings * smallest
    if arithmetic.flush_inputs:  # of every operand, and of c before every block
        small += state.length * operand.min_normal + dots * roundings * output.min_normal
    if arithmetic.flush_outputs:
        small += dots * roundings * output.min_normal
    growth = roundings * (relative + alignment)
    state.lose(growth * math.exp(min(growth, 700.0)) * state.mass + small)


def _chain(step: MmaStep, row: Instruction, operand: Format, state: _State) -> None:
    """An MMA that is no aligned sum, whose products are numbers times 1."""
    output, rules = get_format(row.output), row.arithmetic
    assert not isinstance(rules, ExactInteger)
    operations, relative, absolute = chain_errors(row, step.chain * step.k)
    growth = math.expm1(operations * math.log1p(relative))
    small = 0.0  # a sum of multiples of the smallest subnormal is one, too, where nothing is cut
    cuts = rules.flush_outputs or isinstance(rules, LateSum)
    if cuts or operand.min_subnormal < output.min_subnormal:
        small = output_length(step, state.length) * operations * absolute * (1 + growth)
    if rules.flush_inputs:
        small += state.length * operand.min_normal
    state.lose(growth * state.mass + small)
