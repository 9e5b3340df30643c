"""What happened in a dot product, in a sentence or two."""

from __future__ import annotations

from fractions import Fraction

from tcu.cli.bits import Magnitude
from tcu.cli.block_drawing import last_place, listing, term_names
from tcu.cli.dot import Block, Problem, Step, Trace, alternatives, exact_value
from tcu.cli.drawing import show_value
from tcu.cli.numbers import ROUGH, enough_digits, show, show_code
from tcu.formats.format import get_format
from tcu.formats.scalar import decode
from tcu.units import AlignedSum, Instruction, Unit

__all__ = ["tell"]

_MAX_NAMES = 5


def tell(trace: Trace, problem: Problem) -> list[str]:
    """What was lost and where, the outcome beside the exact sum, and a unit that does otherwise."""
    return [*_losses(trace), _outcome(trace, problem), *_contrast(trace, problem)]


def _losses(trace: Trace) -> list[str]:
    busy = trace.busy_blocks
    told = [(block, _block_losses(block, trace)) for block in busy]
    numbered = len(busy) > 1
    sentences = [
        f"Block {trace.blocks.index(block) + 1}: {losses}" if numbered else losses
        for block, losses in told
        if losses
    ]
    return [*sentences, *_operation_losses(trace)]


def _operation_losses(trace: Trace) -> list[str]:
    steps = [step for step in trace.steps if isinstance(step, Step)]
    lossy = [step for step in steps if _inexact(step, trace)]
    if not lossy:
        return []
    if trace.blocks:
        return ["The late addition of c rounds once more."]
    count = "One step rounds" if len(lossy) == 1 else f"{len(lossy)} of {len(steps)} steps round"
    if any(isinstance(step.result, Fraction) for step in steps):
        verb = "step cuts" if len(lossy) == 1 else "steps cut"
        return [f"{len(lossy)} of {len(steps)} {verb} or round{'s' * (len(lossy) == 1)} what it adds up."]
    return [f"{count} a sum that {get_format(trace.instruction.output).name} cannot hold."]


def _inexact(step: Step, trace: Trace) -> bool:
    result = step.number(get_format(trace.instruction.output))
    return step.exact is not None and result.kind == "finite" and result.value != step.exact


def _block_losses(block: Block, trace: Trace) -> str:
    unit = block.sum.unit_exponent
    if unit is None:
        return ""
    names = term_names(block)
    terms = list(zip(names, block.sum.terms[: len(names)], strict=True))
    gone = [name for name, term in terms if term.lost and not term.aligned]
    cut = [name for name, term in terms if term.lost and term.aligned]
    parts = []
    if gone:
        verb = "lies" if len(gone) == 1 else "lie"
        off = "falls" if len(gone) == 1 else "fall"
        parts.append(f"{_some(gone)} {verb} wholly below the last kept bit, 2^{unit}, and {off} off")
    if cut:
        verb = "loses its" if len(cut) == 1 else "lose their"
        parts.append(f"{_some(cut)} {verb} bits below 2^{unit}")
    last = last_place(block, trace)
    total = Magnitude(abs(block.sum.total), unit)
    if total.significand and total.low < last:
        parts.append(_rounding(block, trace, last))
    return "; ".join(parts) + "." if parts else ""


def _rounding(block: Block, trace: Trace, last: int) -> str:
    output = get_format(trace.instruction.output)
    result = decode(block.sum.result, output)
    if result.kind != "finite":
        return f"the sum is too large for {output.name}"
    assert block.sum.unit_exponent is not None
    total = abs(block.sum.total) * Fraction(2) ** block.sum.unit_exponent
    way = "up" if abs(result.value) > total else "down"
    return f"the sum has bits below 2^{last}, the last place of the result, and is rounded {way}"


def _some(names: list[str]) -> str:
    return listing(names) if len(names) <= _MAX_NAMES else f"{len(names)} terms"


def _outcome(trace: Trace, problem: Problem) -> str:
    output = get_format(trace.instruction.output)
    name, value = trace.unit.name, show_code(trace.result, output, 40)
    exact = exact_value(problem)
    result = decode(trace.result, output)
    if not isinstance(exact, Fraction) or result.kind != "finite":
        if isinstance(exact, Fraction):
            return f"The {name} returns {value}; the exact sum is {show_value(exact, enough_digits(output))}."
        return f"The {name} returns {value}."
    error = result.value - exact
    if not error:
        return f"The {name} returns {value}, the exact sum."
    where = "above" if error > 0 else "below"
    return f"The {name} returns {value}, {show(abs(error), digits=ROUGH)} {where} the exact sum, {show_value(exact, enough_digits(output))}."


def _contrast(trace: Trace, problem: Problem) -> list[str]:
    """The first unit with another result, and what it does differently."""
    for other in alternatives(problem, trace.instruction):
        if other.code == trace.result:
            continue
        unit, row = other.rows[0]
        value = show_code(other.code, row.output, 40)
        subject = unit.name if other.who[0] == unit.name else f"{unit.name}'s {row.name}"
        return [f"The {subject} {_difference(trace.instruction, row, unit)} returns {value}."]
    return []


def _difference(mine: Instruction, theirs: Instruction, unit: Unit) -> str:
    here, there = mine.arithmetic, theirs.arithmetic
    if not isinstance(here, AlignedSum) or not isinstance(there, AlignedSum):
        return "adds differently and"
    reasons = []
    more = there.fraction_bits - here.fraction_bits
    if more:
        bits = f"{abs(more)} bit{'' if abs(more) == 1 else 's'}"
        reasons.append(f"keeps {bits} {'more' if more > 0 else 'fewer'}")
    if there.block != here.block:
        reasons.append(f"aligns {there.block} products at once")
    if there.late_c != here.late_c:
        reasons.append("adds c last" if there.late_c else "aligns c with the products")
    if there.output_fraction_bits != here.output_fraction_bits:
        kept = there.output_fraction_bits or get_format(theirs.output).fraction_bits
        reasons.append(f"rounds to {kept} bits")
    return f"{', '.join(reasons)} and" if reasons else "adds differently and"
