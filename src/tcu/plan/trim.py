"""A plan without the additions of padding zeros: the same bits in fewer steps."""

from __future__ import annotations

from dataclasses import replace

from tcu.formats.format import get_format
from tcu.plan.plan import AddStep, FmaStep, MmaStep, Plan, Step, output_length

__all__ = ["trimmed"]


def trimmed(plan: Plan) -> Plan:
    """``plan`` with the additions that numbers of a short vector need.

    x + 0 is x, but for the sign of a zero and the bits of a NaN, and both are
    settled when the result is rounded.  So additions of padding can go: a
    sequence ends with the last number, a tree begins at the smallest power of
    two that holds all, and what is left with one number is no step at all.  A
    few pairs are products side by side.
    MMAs stay, because an MMA may round its accumulator again.
    """
    parts, total = [], 0
    for part in plan.parts:
        steps, length = _trimmed(part.steps, part.stop - part.start, plan.input)
        parts.append(replace(part, steps=steps))
        total += length
    outputs = {_output(part.steps[-1]) for part in plan.parts if part.steps}
    final, _ = _trimmed(plan.final, total, outputs.pop() if len(outputs) == 1 else None)
    return replace(plan, parts=tuple(parts), final=final)


def _trimmed(steps: tuple[Step, ...], length: int, given: str | None) -> tuple[tuple[Step, ...], int]:
    """The steps that a vector of that length and format needs, and what they leave of it."""
    needed: list[Step] = []
    for step in steps:
        if isinstance(step, AddStep):
            rounds = given is None or not _holds(step.format, given)
            if length <= step.inner and not rounds:  # every number has zeros alone for company
                continue
            if step.length is not None and length <= step.group:
                step = replace(step, length=-(-length // step.inner))
                step = replace(step, length=step.width)
        elif isinstance(step, FmaStep) and length <= step.group:
            inner = min(-(-length // 8) * 8, step.inner)  # the model multiplies eight pairs at a time
            step = replace(step, length=-(-length // step.inner), inner=inner)
        needed.append(step)
        length, given = output_length(step, length), _output(step)
    return tuple(needed), length


def _output(step: Step) -> str | None:
    """The format of a step's results, where it is known."""
    return step.accumulator if isinstance(step, MmaStep) else getattr(step, "format", None)


def _holds(wide: str, narrow: str) -> bool:
    """Whether every number of the one format is one of the other."""
    to, of = get_format(wide), get_format(narrow)
    return to.fraction_bits >= of.fraction_bits and to.exponent_bits >= of.exponent_bits
