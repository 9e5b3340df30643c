"""The JSON document of ``tcu explain``."""

from __future__ import annotations

from dataclasses import asdict
from fractions import Fraction
from typing import Any

from tcu.cli.bits import Magnitude
from tcu.cli.block_drawing import term_names
from tcu.cli.dot import (
    Block,
    Operand,
    Problem,
    Step,
    Trace,
    alternatives,
    correctly_rounded,
    exact_value,
    in_order,
)
from tcu.cli.expression import Value
from tcu.cli.numbers import hex_bits, hex_float
from tcu.cli.output import json_number
from tcu.cli.story import tell
from tcu.formats.format import get_format
from tcu.formats.scalar import decode
from tcu.model.definition import Term

__all__ = ["explain_document"]


def explain_document(problem: Problem, traces: list[Trace]) -> dict[str, Any]:
    """Inputs, every step of every unit, and what the same inputs give otherwise.

    Exact numbers, which may have more digits than a JSON reader keeps, are
    hexadecimal floats in strings.
    """
    row = traces[0].instruction
    output = row.output
    exact = exact_value(problem)
    return {
        "input": row.a,
        "output": output,
        "a": [_operand(x) for x in problem.a],
        "b": [_operand(y) for y in problem.b],
        "c": _operand(problem.c),
        **(
            {
                "scale_a": [_operand(x) for x in problem.scale_a],
                "scale_b": [_operand(y) for y in problem.scale_b],
                "scale": row.scale,
                "per_scale": row.per_scale,
            }
            if row.scale
            else {}
        ),
        "units": [_trace(each, problem) for each in traces],
        "exact": _exact(exact),
        "correctly_rounded": _code(correctly_rounded(exact, get_format(output)), output),
        "ieee_in_order": _code(in_order(problem, get_format(output)), output),
        "others": [
            {"units": list(other.who)} | _code(other.code, output) for other in alternatives(problem, row)
        ],
    }


def _exact(value: Value) -> str | float:
    return hex_float(value) if isinstance(value, Fraction) else json_number(value)


def _code(code: int, output: str) -> dict[str, Any]:
    return {"value": json_number(float(decode(code, output))), "bits": hex_bits(code, output)}


def _operand(operand: Operand) -> dict[str, Any]:
    value = json_number(float(operand.number))
    return {"given": operand.given.text, "value": value, "bits": hex_bits(operand.code, operand.format),
            "rounded": operand.rounded}  # fmt: skip


def _trace(each: Trace, problem: Problem) -> dict[str, Any]:
    row = each.instruction
    return {
        "unit": each.unit.name,
        "instruction": row.name,
        "arithmetic": {"kind": type(row.arithmetic).__name__, **asdict(row.arithmetic)},
        "steps": [
            _block(step, row.output) if isinstance(step, Block) else _step(step, row.output)
            for step in each.steps
        ],
        "result": _code(each.result, row.output),
        "summary": tell(each, problem),
    }


def _step(step: Step, output: str) -> dict[str, Any]:
    exact = None if step.exact is None else hex_float(step.exact)
    wide = isinstance(step.result, Fraction)
    result = hex_float(step.result) if isinstance(step.result, Fraction) else _code(step.result, output)
    return {"step": step.label, "exact": exact, "kept" if wide else "result": result}


def _block(block: Block, output: str) -> dict[str, Any]:
    names = term_names(block)
    unit = block.sum.unit_exponent
    return {
        "common_exponent": block.sum.common_exponent,
        "unit_exponent": unit,
        "terms": [_term(name, term, unit) for name, term in zip(names, block.sum.terms, strict=False)],
        "total": block.sum.total,
        "result": _code(block.sum.result, output),
    }


def _term(name: str, term: Term, unit: int | None) -> dict[str, Any]:
    document: dict[str, Any] = {"name": name, "exact": hex_float(term.exact)}
    if not term.significand or unit is None:
        return document | {"exponent": None, "aligned": 0, "cut": ""}
    return document | {
        "exponent": term.exponent,
        "aligned": -term.aligned if term.negative else term.aligned,
        "cut": cut_bits(Magnitude(term.significand, term.lowest), unit),
    }


def cut_bits(magnitude: Magnitude, unit: int) -> str:
    """The bits below 2^unit, down to the last 1."""
    return "".join(magnitude.bit(exponent) for exponent in range(unit - 1, magnitude.low - 1, -1))
