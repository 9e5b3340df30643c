"""The MMA explorer of the report: the catalogue as the page's script reads it, and the script."""

from __future__ import annotations

from dataclasses import asdict
from functools import cache
from importlib.resources import files
from typing import Any

from tcu.formats import FORMATS, Format
from tcu.units import CATALOGUE, Instruction

__all__ = ["catalogue", "instruction_document", "script_file"]


def script_file(name: str) -> str:
    """A script or style sheet of the page."""
    return files("tcu.report").joinpath(name).read_text(encoding="utf-8")


@cache
def catalogue() -> dict[str, Any]:
    """Every unit with its floating-point instructions, and the formats that they use."""
    units = {
        unit.name: {
            "title": unit.title,
            "instructions": [instruction_document(row) for row in unit.instructions if row.addend is None],
        }
        for unit in CATALOGUE.values()
    }
    return {"formats": {name: _format(fmt) for name, fmt in FORMATS.items()}, "units": units}


def _format(fmt: Format) -> dict[str, Any]:
    return {
        "name": fmt.name, "bits": fmt.bits, "exponentBits": fmt.exponent_bits, "fractionBits": fmt.fraction_bits,
        "bias": fmt.bias if fmt.is_float else 0, "leastField": fmt.least_field, "specials": fmt.specials,
        "integer": not fmt.is_float, "signed": fmt.signed,
    }  # fmt: skip


def instruction_document(row: Instruction) -> dict[str, Any]:
    """One instruction: formats by name, and the rules of its arithmetic."""
    return {
        "name": row.name, "x": row.a, "y": row.b, "output": row.output, "k": row.k,
        "kind": type(row.arithmetic).__name__, "rules": asdict(row.arithmetic), "scale": row.scale,
        "perScale": row.per_scale,
    }  # fmt: skip
