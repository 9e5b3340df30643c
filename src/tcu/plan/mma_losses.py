"""What the sums of one matrix instruction lose at most, by the kind of its arithmetic."""

from __future__ import annotations

from tcu.errors import ParameterError
from tcu.formats.format import get_format
from tcu.units.arithmetic import AlignedSum, ExactBlock, FlushedTree, FusedChain, LateSum
from tcu.units.instruction import Instruction

__all__ = ["chain_errors", "check_no_wrap", "losses"]


def losses(row: Instruction, length: int) -> tuple[int, float, float]:
    """Of a chain of ``length`` products: its blocks or operations, and what each loses, relatively and absolutely."""
    output, arithmetic = get_format(row.output), row.arithmetic
    if not isinstance(arithmetic, AlignedSum):
        return chain_errors(row, length)
    kept = output.fraction_bits
    if arithmetic.output_fraction_bits is not None:
        kept = min(kept, arithmetic.output_fraction_bits)
    cut = (arithmetic.block + 1) * 2.0**-arithmetic.fraction_bits
    relative = cut + 2.0 ** -(kept + 1 if arithmetic.rounding == "RNE" else kept)
    floor = 0.0 if arithmetic.exponent_floor is None else 2.0**arithmetic.exponent_floor
    absolute = cut * (floor + output.min_normal) + 2.0 ** (output.emin - kept)
    if arithmetic.flush_inputs or arithmetic.flush_outputs:
        absolute += 2 * output.min_normal
    return -(-length // row.k) * (-(-row.k // arithmetic.block) + arithmetic.late_c), relative, absolute


def chain_errors(row: Instruction, length: int) -> tuple[int, float, float]:
    """Of a sum of ``length`` products that is no aligned one: its operations, and what each loses, relatively and absolutely.

    A flushed tree may lose the smallest normal number with every product and
    every sum.  A late sum cuts each product, each group, their sum, c and the
    total at F bits below the largest exponent, or below that of the smallest
    normal number.
    """
    output, rules = get_format(row.output), row.arithmetic
    instructions = -(-length // row.k)
    half = output.min_subnormal / 2 or output.min_subnormal  # half of binary64's smallest is no number of it
    if isinstance(rules, ExactBlock):
        return instructions * -(-row.k // rules.block), output.unit_roundoff, half
    if isinstance(rules, FlushedTree):
        groups = instructions * -(-row.k // rules.group)
        operations = groups * (rules.group.bit_length() + 1)
        return operations, output.unit_roundoff, 2 * rules.group * output.min_normal
    if isinstance(rules, LateSum):
        cut = (rules.block + rules.groups + 3) * 2.0**-rules.fraction_bits
        blocks = instructions * -(-row.k // rules.block)
        return blocks, output.unit_roundoff + cut, half + cut * output.min_normal
    assert isinstance(rules, FusedChain)
    operations = length * (1 + rules.rounded_products) + instructions * (rules.lanes - 1 + rules.late_c)
    ulps = 1 if rules.rounding == "RNE" else 2
    absolute = ulps * half
    if rules.flush_outputs:  # the result, and c
        absolute += 2 * output.min_normal
    return operations, ulps * output.unit_roundoff, absolute


def check_no_wrap(arithmetic: object) -> None:
    """A block of products below 4 and a c below 2, in units of the common exponent's power of two, must not wrap."""
    if not isinstance(arithmetic, AlignedSum) or arithmetic.carry_bits is None:
        return
    if 4 * arithmetic.block + 2 > 2 ** (1 + arithmetic.carry_bits):
        raise ParameterError(
            f"carry_bits={arithmetic.carry_bits}: a block of {arithmetic.block} may wrap around, so its error has no bound; "
            "choose a unit with more bits for carries, or None"
        )
