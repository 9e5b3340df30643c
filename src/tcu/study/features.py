"""Paper 003: its tables, and every finding of its experiments for every unit of the catalogue."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tcu.formats import get_format
from tcu.probes import probe
from tcu.study.study import Point, Row, Rows, Shown, Study, Table, Verdict
from tcu.units import CATALOGUE, AlignedSum, Unit, get_unit, units_with

__all__ = ["FEATURES", "FORMAT_TABLES"]

# Tables 1 and 3: devices and formats

_TABLE_3: dict[str, tuple[int, int, int, int]] = {
    "binary16": (11, 15, -14, -24), "bfloat16": (8, 127, -126, -133), "tf32": (11, 127, -126, -136),
    "binary32": (24, 127, -126, -149), "binary64": (53, 1023, -1022, -1074),
}  # fmt: skip
"""p, emax, emin and log2 of the smallest subnormal; epsilon and the smallest normal follow."""
_TABLE_1: dict[str, tuple[str, ...]] = {
    "V100": ("binary16",), "T4": ("binary16",), "A100": ("bfloat16", "binary16", "tf32", "binary64"),
}  # fmt: skip
"""Input formats of the devices that are NVIDIA's."""
_OTHER_DEVICES = "Google TPU v2 and v3, Arm v8.6-A"


def _table_points(quick: bool) -> list[Point]:
    return [{"table": 3, "format": name} for name in _TABLE_3] + [
        {"table": 1, "unit": name} for name in _TABLE_1
    ]


def _table_measure(point: Point) -> Rows:
    if point["table"] == 1:
        unit = CATALOGUE[point["unit"]]
        pairs = [
            [row.a, row.output, row.k, getattr(row.arithmetic, "block", 1)]
            for row in unit.instructions if row.name == "mma" and get_format(row.a).is_float
        ]  # fmt: skip
        return [{**point, "title": unit.title, "instructions": pairs}]
    fmt = get_format(point["format"])
    return [{
        **point, "p": fmt.precision, "emax": fmt.emax, "emin": fmt.emin, "epsilon": 1 - fmt.precision,
        "smallest normal": fmt.emin, "smallest subnormal": fmt.quantum_exponent,
    }]  # fmt: skip


def _table_show(rows: Rows) -> Shown:
    formats = [row for row in rows if row["table"] == 3]
    devices = [row for row in rows if row["table"] == 1]
    third = Table(
        "Paper 003, table 3: parameters of the formats",
        ("", *(row["format"] for row in formats)),
        [
            [name, *(f"2^{row[name]}" if power else str(row[name]) for row in formats)]
            for name, power in (("p", False), ("emax", False), ("emin", False), ("epsilon", True),
                                ("smallest normal", True), ("smallest subnormal", True))
        ],
    )  # fmt: skip
    first = Table(
        "Paper 003, table 1: devices and formats, as the catalogue has them",
        ("device", "input", "output", "k of one instruction", "products added at once"),
        [[row["title"], *map(str, one)] for row in devices for one in row["instructions"]],
    )
    right = [
        row["format"] for row in formats
        if (row["p"], row["emax"], row["emin"], row["smallest subnormal"]) == _TABLE_3[row["format"]]
    ]  # fmt: skip
    missing = [
        f"{row['unit']} {name}" for row in devices for name in _TABLE_1[row["unit"]]
        if name not in {one[0] for one in row["instructions"]}
    ]  # fmt: skip
    return Shown([third, first], [
        Verdict.of(
            "paper 003, table 3", "Precision, exponent range, epsilon and smallest numbers of five formats.",
            f"{len(right)} of {len(formats)} formats have these parameters in tcu.", len(right) == len(formats),
        ),
        Verdict.of(
            "paper 003, table 1", "V100 and T4 multiply binary16; the A100 also bfloat16, TF32 and binary64.",
            "The catalogue has all of them." if not missing else f"Missing: {', '.join(missing)}.", not missing,
        ),
        _at_once(devices),
        Verdict(
            "paper 003, table 1", f"{_OTHER_DEVICES} multiply bfloat16 into binary32.", "–", "not measured",
            "no vectors and no published model of these devices were at hand; they are not in the catalogue",
        ),
    ])  # fmt: skip


def _at_once(devices: Rows) -> Verdict:
    found = {
        row["unit"]: next(block for a, _, _, block in row["instructions"] if a == "binary16")
        for row in devices if row["unit"] in ("V100", "T4")
    }  # fmt: skip
    return Verdict.of(
        "paper 003, table 1", "A tensor core of the V100 and of the T4 multiplies matrices of 4 × 4 × 4.",
        ", ".join(f"the {unit} adds {block} products at once" for unit, block in found.items()) + ".",
        set(found.values()) == {4},
        "the catalogue's T4 follows a published bit-exact model, in which k = 8 is one block; no output of a T4 was at "
        "hand to decide, and the paper's experiments use four products at most",
    )  # fmt: skip


FORMAT_TABLES = Study(
    "format-tables", "Formats and devices", ("003 table 1", "003 table 3"),
    "Are the formats and the devices those of the paper's tables?",
    _table_show, _table_points, _table_measure, (0.1, 0.1),
)  # fmt: skip


# The findings

_SECTIONS = (
    "Support for subnormal numbers", "Accuracy of the dot products", "Rounding modes in tensor core computations",
    "Extra bits in the alignment of significands", "Normalization in addition", "Normalization in subtraction",
    "Extra bits for carry out", "Monotonicity of dot product", "NVIDIA Ampere tensor cores",
)  # fmt: skip

_Mode = tuple[str, str, str]
"""Unit, input and output."""
_V100, _T4 = ("V100", "binary16", "binary32"), ("T4", "binary16", "binary32")
_A100 = tuple(("A100", name, "binary32") for name in ("binary16", "bfloat16", "tf32"))
_SINGLE: tuple[_Mode, ...] = (_V100, _T4, *_A100)
_HALF: tuple[_Mode, ...] = (("V100", "binary16", "binary16"), ("T4", "binary16", "binary16"))
_DOUBLE: tuple[_Mode, ...] = (("A100", "binary64", "binary64"),)

_STATED: tuple[tuple[str, str, str, dict[_Mode, Any]], ...] = (
    ("Support for subnormal numbers", "Subnormal inputs are used, not flushed to zero.", "subnormal inputs",
     dict.fromkeys(_SINGLE, True)),
    ("Support for subnormal numbers", "A subnormal binary32 c is not altered.", "subnormal c",
     dict.fromkeys(_SINGLE, True)),
    ("Support for subnormal numbers, NVIDIA Ampere tensor cores",
     "Subnormal results are returned: binary16 ones of binary16 inputs, binary32 ones of bfloat16 inputs.",
     "subnormal results", {**dict.fromkeys(_HALF, True), _A100[1]: True}),
    ("Support for subnormal numbers, Rounding modes in tensor core computations",
     "2 and a subnormal product beside it are rounded down, as tensor cores round and CUDA cores do not: subnormals are "
     "the tensor core's own work.", "rounding, positive", dict.fromkeys(_SINGLE, "RZ/RD")),
    ("Accuracy of the dot products", "The products of two binary16 numbers are held exactly.", "exact products",
     dict.fromkeys((*_SINGLE, *_HALF), True)),
    ("Accuracy of the dot products", "A dot product has as many rounding errors as additions.", "several roundings",
     dict.fromkeys(_SINGLE, True)),
    ("Accuracy of the dot products", "Whatever stands where, the addition starts from the largest magnitude.",
     "largest addend first", dict.fromkeys(_SINGLE, True)),
    ("Rounding modes in tensor core computations", "Negative sums are rounded toward zero or up.",
     "rounding, negative", dict.fromkeys(_SINGLE, "RZ/RU")),
    ("Rounding modes in tensor core computations", "Sums in binary32 are rounded toward zero.", "rounding mode",
     dict.fromkeys(_SINGLE, "RZ")),
    ("Rounding modes in tensor core computations", "Results in binary16 are rounded to nearest.", "rounding mode",
     dict.fromkeys(_HALF, "RNE")),
    ("Extra bits in the alignment of significands", "The V100 keeps no bit beyond binary32's 23 when it aligns.",
     "extra bits", {_V100: 23}),
    ("NVIDIA Turing tensor cores, NVIDIA Ampere tensor cores", "T4 and A100 keep one bit more, 24.", "extra bits",
     dict.fromkeys(_SINGLE[1:], 24)),
    ("Extra bits in the alignment of significands", "The V100 has no guard digit: 1 - (1 - 2^-24) is 2^-23.",
     "guard digit", {_V100: False}),
    ("Normalization in addition", "Partial sums are not normalised, only the final sum.", "normalisation in addition",
     dict.fromkeys(_SINGLE, False)),
    ("Normalization in subtraction", "Partial differences are not normalised either.", "normalisation in subtraction",
     dict.fromkeys(_SINGLE, False)),
    ("Extra bits for carry out", "The accumulator has at least two bits for carries.", "two carry bits",
     dict.fromkeys(_SINGLE, True)),
    ("Extra bits for carry out", "Most likely it has a third one: a sum of 8 does not overflow it.", "third carry bit",
     dict.fromkeys(_SINGLE, True)),
    ("Monotonicity of dot product", "A larger c can give a smaller sum.", "monotonicity", dict.fromkeys(_SINGLE, False)),
    ("NVIDIA Ampere tensor cores", "In binary64 every addition is rounded to nearest, ties to even.", "rounding mode",
     dict.fromkeys(_DOUBLE, "RNE")),
    ("NVIDIA Ampere tensor cores", "In binary64 every partial sum is normalised.", "normalisation in addition",
     dict.fromkeys(_DOUBLE, True)),
    ("NVIDIA Ampere tensor cores", "In binary64 sums are monotonic.", "monotonicity", dict.fromkeys(_DOUBLE, True)),
    ("NVIDIA Ampere tensor cores", "In binary64 additions do not start from the largest addend.",
     "largest addend first", dict.fromkeys(_DOUBLE, False)),
)  # fmt: skip
"""Section, statement, experiment, and the answer that it implies for each unit and formats."""


def _has_aligned_sums(unit: Unit) -> bool:
    return any(row.name == "mma" and isinstance(row.arithmetic, AlignedSum) for row in unit.instructions)


def _points(quick: bool) -> list[Point]:
    """Every instruction by aligned sums or a chain, of two equal formats of 8 bits or more; quick: those with mma, the paper's.

    The experiments' numbers need more exponents than six bits have, and a unit of another family has none of the answers.
    """
    units = [unit for unit in map(get_unit, units_with("mma")) if _has_aligned_sums(unit)]
    return [
        {"unit": unit.name, "instruction": row.name, "input": row.a, "output": row.output}
        for unit in units for row in unit.instructions
        if get_format(row.a).is_float and row.a == row.b and row.scale is None and get_format(row.a).bits >= 8 and not (quick and (row.name != "mma" or get_format(row.a).bits == 8))
    ]  # fmt: skip


def _measure(point: Point) -> Rows:
    found = probe(
        point["unit"], instruction=point["instruction"], input=point["input"], output=point["output"]
    )
    return [
        {**point, "experiment": each.name, "source": each.source, "value": each.value}
        for each in found.findings
    ]


def _show(rows: Rows) -> Shown:
    modes = dict.fromkeys((row["instruction"], row["input"], row["output"]) for row in rows)
    tables = [
        _table(mode, [r for r in rows if (r["instruction"], r["input"], r["output"]) == mode])
        for mode in modes
    ]
    verdicts = [_sections(rows), *(_verdict(rows, *one) for one in _STATED), _significand(rows)]
    return Shown([_overview(rows), *tables], verdicts)


_WIDE = ("binary16", "bfloat16", "tf32")
_SHORT_NAMES = {"binary16": "f16", "bfloat16": "bf16", "binary64": "f64", "binary32": "f32"}


def _overview(rows: Rows) -> Table:
    """Each statement of the paper, asked of every unit: what its mma answers for the formats that the statement is about."""
    units = list(dict.fromkeys(row["unit"] for row in rows))
    lines = []
    for section, statement, experiment, expected in _STATED:
        output = next(iter(expected))[2]
        inputs = _WIDE if output == "binary32" else (output,)
        stated = _text(next(iter(expected.values())))
        answers = [_alike(rows, unit, inputs, output, experiment) for unit in units]
        cells = [
            "✓" if answer == stated else "✗" if answer in ("yes", "no") else answer for answer in answers
        ]
        lines.append([statement, *cells, section])
    return Table(
        "Every finding of the paper, asked of every unit", ("finding", *units, "section"), lines,
        "By mma: f16, bf16 and tf32 where the finding is about binary32 results. ✓: it holds; ✗ or a number: it does not; "
        "?: no operands of these formats tell; –: the unit has no such instruction. Below: every experiment, instruction "
        "by instruction, 8-bit formats too. The units are the catalogue's models.",
        open=True,
    )  # fmt: skip


def _alike(rows: Rows, unit: str, inputs: tuple[str, ...], output: str, experiment: str) -> str:
    found = {
        name: _text(value["value"])
        for name in inputs
        if (value := _row(rows, (unit, name, output), experiment)) is not None
    }
    told = {name: text for name, text in found.items() if text != "?"} or found
    if len(set(told.values())) <= 1:
        return next(iter(told.values()), "–")
    return ", ".join(f"{_SHORT_NAMES.get(name, name)}: {text}" for name, text in told.items())


def _significand(rows: Rows) -> Verdict:
    """A leading bit, those kept below it, and three for carries."""
    widths = {}
    for unit in ("V100", "T4", "A100"):
        mode = (unit, "binary16", "binary32")
        kept, two, third = (
            _value(rows, mode, name) for name in ("extra bits", "two carry bits", "third carry bit")
        )
        widths[unit] = 1 + kept + (3 if third else 2 if two else 0)
    return Verdict.of(
        "paper 003, Extra bits for carry out, NVIDIA Turing tensor cores, NVIDIA Ampere tensor cores",
        "The accumulator's significand is most likely 27 bits wide on the V100, 28 on the T4 and the A100.",
        ", ".join(f"{unit}: {width}" for unit, width in widths.items()) + " bits, carries among them.",
        widths == {"V100": 27, "T4": 28, "A100": 28}, "the units' models have other widths",
    )  # fmt: skip


def _table(mode: tuple[str, str, str], rows: Rows) -> Table:
    """Experiments by units; units that answer alike share a column."""
    experiments = list(dict.fromkeys(row["experiment"] for row in rows))
    alike: dict[tuple[str, ...], list[str]] = {}
    for unit in dict.fromkeys(row["unit"] for row in rows):
        answers = {row["experiment"]: _text(row["value"]) for row in rows if row["unit"] == unit}
        alike.setdefault(tuple(answers.get(name, "–") for name in experiments), []).append(unit)
    return Table(
        f"What the units answer: {mode[0]} {mode[1]} → {mode[2]}",
        ("experiment", *(", ".join(units) for units in alike.values())),
        list(zip(experiments, *alike, strict=True)),
        "? : no operands of these formats tell; – : not asked.",
    )


def _text(value: Any) -> str:
    return "?" if value is None else "yes" if value is True else "no" if value is False else str(value)


def _sections(rows: Rows) -> Verdict:
    asked = {row["source"].removeprefix("paper 003, ") for row in rows}
    found = [name for name in _SECTIONS if any(name in source for source in asked)]
    return Verdict.of(
        "paper 003, table 2", "The tests, section by section, on the V100, again on the T4 and on the A100.",
        f"Experiments of {len(found)} of {len(_SECTIONS)} sections were run on "
        f"{len({row['unit'] for row in rows})} units.", len(found) == len(_SECTIONS),
    )  # fmt: skip


def _verdict(
    rows: Rows, section: str, statement: str, experiment: str, expected: dict[_Mode, Any]
) -> Verdict:
    """Units of which no operands can tell say so, and neither confirm nor contradict."""
    values = {mode: _value(rows, mode, experiment) for mode in expected}
    told = {mode: value for mode, value in values.items() if value is not None}
    measured = f"{experiment[:1].upper()}{experiment[1:]}: {'; '.join(_told(values))}."
    if not told:
        return Verdict(f"paper 003, {section}", statement, measured, "not measured", "no operands tell")
    held = all(value == expected[mode] for mode, value in told.items())
    return Verdict.of(
        f"paper 003, {section}", statement, measured, held, "the units' models answer otherwise"
    )


def _told(values: dict[_Mode, Any]) -> Iterable[str]:
    for value in dict.fromkeys(_text(value) for value in values.values()):
        who: dict[str, list[str]] = {}
        for (unit, a, output), found in values.items():
            if _text(found) == value:
                who.setdefault(unit, []).append(f"{_SHORT_NAMES.get(a, a)} → {_SHORT_NAMES[output]}")
        yield f"{value} on " + ", ".join(f"{unit} ({', '.join(modes)})" for unit, modes in who.items())


def _value(rows: Rows, mode: _Mode, experiment: str) -> Any:
    row = _row(rows, mode, experiment)
    return None if row is None else row["value"]


def _row(rows: Rows, mode: _Mode, experiment: str) -> Row | None:
    """What the unit's mma answered."""
    wanted = (*mode, "mma", experiment)
    names = ("unit", "input", "output", "instruction", "experiment")
    return next((row for row in rows if tuple(row[name] for name in names) == wanted), None)


FEATURES = Study(
    "features", "Numerical features of the units, found by probing", ("003 table 2", "003 findings"),
    "What do the paper's experiments, and those that later chips made necessary, find on the model of every unit?",
    _show, _points, _measure, (20, 100), seed=3,
)  # fmt: skip
