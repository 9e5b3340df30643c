"""Find a unit by name and an instruction by its formats."""

from __future__ import annotations

from tcu.errors import DtypeError, ParameterError, UnknownNameError, unknown_name
from tcu.formats import get_format
from tcu.units.catalogue import CATALOGUE
from tcu.units.instruction import Instruction, Unit

__all__ = [
    "DEFAULT_UNIT",
    "canonical_instruction",
    "find_instruction",
    "find_scale",
    "get_unit",
    "input_formats",
    "product_instruction",
    "units_with",
]

_FEW = 6
"""Pairs of formats that an error names."""
DEFAULT_UNIT = "H100"
"""What host arrays are computed as unless asked otherwise."""

# wmma is the C++ face of the same warp-level instruction; AMD's matrix units have one, v_mfma.
_INSTRUCTION_ALIASES = {
    "wmma": "mma", "mma.sync": "mma", "tcgen05.mma": "tcgen05", "mfma": "mma", "nvf4": "mxf4nvf4",
    "mma.m8n8k4.f32.f16.f16.f16": "mma.f16c",
}  # fmt: skip


def canonical_instruction(name: str) -> str:
    """The catalogue's name of an instruction: "mma" for "wmma" and "mma.sync"."""
    return _INSTRUCTION_ALIASES.get(name, name)


def get_unit(unit: str | Unit) -> Unit:
    """The unit of that name, in any case; a :class:`Unit` passes through.

    Raises :class:`tcu.errors.UnknownNameError` with the nearest names.
    """
    if isinstance(unit, Unit):
        return unit
    by_name = {name.lower(): row for name, row in CATALOGUE.items()}
    try:
        return by_name[str(unit).lower()]
    except KeyError:
        raise unknown_name("unit", unit, CATALOGUE) from None


def units_with(instruction: str) -> list[str]:
    """The units of the catalogue that have an instruction of this name: with "mma", those by which plans can sum."""
    return [
        unit.name for unit in CATALOGUE.values() if any(row.name == instruction for row in unit.instructions)
    ]


def input_formats(unit: Unit, instruction: str = "mma") -> list[str]:
    """The input formats that the instruction takes, in the order of the catalogue."""
    return list(dict.fromkeys(row.a for row in unit.instructions if row.name == instruction))


def find_instruction(
    unit: str | Unit,
    name: str,
    a: str,
    b: str,
    output: str | None = None,
    scale: tuple[str, int] | None = None,
    addend: str | None = None,
) -> Instruction:
    """The instruction of ``unit`` that multiplies formats ``a`` and ``b`` into ``output``.

    ``output=None`` takes the widest: binary32, or binary64 or s32.  scale: the
    format of the scales and how many k share one, None: without scales.
    ``addend``: the format of C, if it matters.  Raises
    UnknownNameError for an instruction that the unit lacks, DtypeError for
    formats that it does not combine, naming those it does.
    """
    unit = get_unit(unit)
    name = canonical_instruction(name)
    names = list(dict.fromkeys(row.name for row in unit.instructions))
    if name not in names:
        raise unknown_name(f"instruction of {unit.name}", name, names)
    rows = [row for row in unit.instructions if row.name == name]
    for row in rows:  # the catalogue lists the widest output of each input first
        own = None if row.scale is None else (row.scale, row.per_scale)
        fits = output in (None, row.output) and addend in (None, row.c)
        if (row.a, row.b) == (a, b) and fits and own == scale:
            return row
    asked = f"{a} · {b}" if output is None else f"{a} · {b} → {output}"
    if addend is not None:
        asked += f" with C in {addend}"
    asked += "" if scale is None else f", {scale[1]} to a scale of {scale[0]}"
    mixed = [row for row in rows if row.a != row.b]
    listed = rows if len(mixed) <= _FEW else [row for row in rows if row.a == row.b]
    has = ", ".join(row.signature.removeprefix(f"{name} ") for row in listed)
    if listed is not rows:
        has += f", and {len(mixed)} pairs of {', '.join(dict.fromkeys(row.a for row in mixed))}"
    others = [row.signature for row in unit.instructions if (row.a, row.b) == (a, b)]
    hint = f"; {unit.name} has it as: {', '.join(others)}" if others else ""
    if scale is None and any(row.scale for row in rows):
        hint = "; give its scales, scale_a and scale_b"
    raise DtypeError(f"{name} of {unit.name} does not compute {asked}; it computes: {has}{hint}")


def find_scale(
    unit: str | Unit, name: str, a: str, b: str, scale: str | None = None
) -> tuple[str, int] | None:
    """The format of an instruction's scales and how many k share one; None where it takes none.

    ``scale`` says which, as "ue8m0" or "ue8m0/16"; else it is the first of the
    catalogue.  Raises ParameterError where the instruction takes no such scales.
    """
    unit = get_unit(unit)
    rows = [
        row
        for row in unit.instructions
        if (row.name, row.a, row.b) == (canonical_instruction(name), a, b) and row.scale
    ]
    wanted, _, count = (scale or "").partition("/")
    wanted = wanted and get_format(wanted).name
    for row in rows:
        if wanted in ("", row.scale) and count in ("", str(row.per_scale)):
            return row.scale or "", row.per_scale
    if scale is None:
        return None
    has = " or ".join(f"{row.scale}/{row.per_scale}" for row in rows) or "no scales"
    pair = a if a == b else f"{a} · {b}"
    raise ParameterError(f"scale {scale}: {name} of {unit.name} takes {has} with {pair}")


def product_instruction(unit: str | Unit, a: str, b: str, output: str) -> Instruction:
    """The instruction by which :func:`tcu.matmul` multiplies: wgmma or tcgen05 where the unit has one for the formats, else mma.

    Raises UnknownNameError, DtypeError.
    """
    unit = get_unit(unit)
    wanted = [row for row in unit.instructions if (row.a, row.b, row.output) == (a, b, output)]
    for name in ("wgmma", "tcgen05"):
        for row in wanted:
            if row.name == name:
                return row
    names = list(dict.fromkeys(row.name for row in unit.instructions))
    if "mma" not in names:
        raise UnknownNameError(
            f"{unit.name} has no product that tcu.matmul uses, only {', '.join(names)}, which tcu.mma takes: give a unit with "
            f"an mma, {', '.join(units_with('mma'))}"
        )
    return find_instruction(unit, "mma", a, b, output)
