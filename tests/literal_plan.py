"""A slow interpreter that reads plans literally, for tests: the definition's dot products and rational arithmetic."""

from __future__ import annotations

from typing import Any

from tcu.formats import decode, encode, get_format
from tcu.formats.scalar import Number
from tcu.model.definition import dot
from tcu.plan import AddStep, FmaStep, MmaStep, Plan, tile_order
from tcu.units import find_instruction

__all__ = ["interpret"]


def interpret(plan: Plan, codes: list[Any], unit: str) -> int:
    """The plan's result as a code of its result format, by nothing but the definition.

    codes: of the elements; pairs of codes for a dot product.
    """
    vector: list[int] = []
    held = plan.input
    for part in plan.parts:
        numbers, held = codes[part.start : part.stop], plan.input
        for step in part.steps:
            numbers, held = interpret_step(step, numbers, held, unit)
        vector += numbers
    for step in plan.final:
        vector, held = interpret_step(step, vector, held, unit)
    if not vector:
        return 0
    assert len(vector) == 1
    code = encode(decode(vector[0], held), plan.result)
    return 0 if code == get_format(plan.result).sign_code else code


def interpret_step(
    step: MmaStep | AddStep | FmaStep, numbers: list[Any], held: str, unit: str
) -> tuple[list[int], str]:
    if isinstance(step, FmaStep):
        return interpret_products(
            step,
            [tuple(encode(decode(code, held), step.format) for code in pair) for pair in numbers],
        ), step.format
    if isinstance(step, AddStep):
        return interpret_additions(
            step, [encode(decode(code, held), step.format) for code in numbers]
        ), step.format
    if step.operand == "tf32":  # the unit reads the binary32 word and drops the low bits
        assert held == "binary32"
        operands = [code >> 13 for code in numbers]
    else:
        operands = [encode(decode(code, held), step.operand) for code in numbers]
    operands += [0] * (-len(operands) % step.group)
    row = find_instruction(unit, "mma", step.operand, step.operand, step.accumulator)
    one = encode(Number.of(1), step.operand)
    order = tile_order(step)
    results = []
    for at in range(0, len(operands), step.group):
        for d in range(step.dots):
            column = [operands[at + line[d]] for line in order]
            results.append(dot([one] * len(column), column, 0, row))
    return results, step.accumulator


def interpret_additions(step: AddStep, numbers: list[int]) -> list[int]:
    def plus(x: int, y: int) -> int:
        p, q = decode(x, step.format), decode(y, step.format)
        if p.kind != "finite" or q.kind != "finite":
            return encode(Number.of(float(p) + float(q)), step.format)
        both_negative_zero = p.negative and q.negative and p.significand == q.significand == 0
        total = p.value + q.value
        return encode(Number("finite", True) if both_negative_zero else Number.of(total), step.format)

    if step.length is None:
        total = numbers[0]
        for code in numbers[1:]:
            total = plus(total, code)
        return [total]
    numbers = numbers + [0] * (-len(numbers) % step.group)
    results = []
    for at in range(0, len(numbers), step.group):
        for i in range(step.inner):
            lane = numbers[at + i : at + step.group : step.inner]
            if step.order == "sequential":
                total = lane[0]
                for code in lane[1:]:
                    total = plus(total, code)
            else:
                lane += [0] * (step.width - len(lane))
                while len(lane) > 1:
                    half = len(lane) // 2
                    lane = [plus(lane[j], lane[j + half]) for j in range(half)]
                total = lane[0]
            results.append(total)
    return results


def interpret_products(step: FmaStep, pairs: list[Any]) -> list[int]:
    pairs = pairs + [(0, 0)] * (-len(pairs) % step.group)
    results = []
    for at in range(0, len(pairs), step.group):
        for i in range(step.inner):
            lane = pairs[at + i : at + step.group : step.inner]
            total = fused(*lane[0], None, step.format)
            for x, y in lane[1:]:
                total = fused(x, y, total, step.format)
            results.append(total)
    return results


def fused(x: int, y: int, z: int | None, fmt: str) -> int:
    """The code of x·y + z rounded once (of x·y where there is no z), by rational arithmetic."""
    p, q = decode(x, fmt), decode(y, fmt)
    r = None if z is None else decode(z, fmt)
    if any(number is not None and number.kind != "finite" for number in (p, q, r)):
        special = p.kind != "finite" or q.kind != "finite"
        product = float(p) * float(q) if special else 0.0  # finite, so it changes no inf and no NaN
        return encode(Number.of(product + (0.0 if r is None else float(r))), fmt)
    exact = p.value * q.value + (0 if r is None else r.value)
    if exact:
        return encode(Number.of(exact), fmt)
    zeros = p.negative != q.negative and (r is None or (r.negative and not r.value))
    return encode(Number("finite", zeros and not p.value * q.value), fmt)
