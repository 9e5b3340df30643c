"""Paper 003: its tables, and every finding of its experiments for every unit of the catalogue."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tcu.formats import get_format
from tcu.gpu import KERNELS, find_gpu
from tcu.probes import probe
from tcu.probes.target import as_target, of_instruction
from tcu.study.sources import kernels_of
from tcu.study.study import Point, Row, Rows, Shown, Study, Table, Verdict
from tcu.units import AlignedSum, Standing, Unit, find_instruction, get_unit, units_with

__all__ = ["FEATURES", "FEATURES_ON_GPU", "FORMAT_TABLES"]

# Tables 1 and 3: devices and formats

_TABLE_3: dict[str, tuple[int, ...]] = {
    "binary16": (11, 15, -14, -10, -14, -24), "bfloat16": (8, 127, -126, -7, -126, -133),
    "tf32": (11, 127, -126, -10, -126, -136), "binary32": (24, 127, -126, -23, -126, -149),
    "binary64": (53, 1023, -1022, -52, -1022, -1074),
}  # fmt: skip
"""p, emax, emin, and log2 of epsilon, of the smallest normal and of the smallest subnormal number.

The text at hand prints binary32's last as 2^-49, with a digit lost: 2^-149 is meant, as in its section on c.
"""
_TABLE_1: dict[str, tuple[tuple[str, str], ...]] = {
    "V100": (("binary16", "binary32"),), "T4": (("binary16", "binary32"),),
    "A100": (("bfloat16", "binary32"), ("binary16", "binary32"), ("tf32", "binary32"), ("binary64", "binary64")),
}  # fmt: skip
"""Input and output formats of the devices that are NVIDIA's."""
_PINNED: Standing = "pinned by hardware outputs"
_OTHER_DEVICES = "Google TPU v2 and v3, Arm v8.6-A"


def _table_points(quick: bool) -> list[Point]:
    return [{"table": 3, "format": name} for name in _TABLE_3] + [
        {"table": 1, "unit": name} for name in _TABLE_1
    ]


def _table_measure(point: Point) -> Rows:
    if point["table"] == 1:
        unit = get_unit(point["unit"])
        pairs = [
            {"input": row.a, "output": row.output, "k": row.k, "block": getattr(row.arithmetic, "block", 1), "standing": row.standing}
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
        ("device", "input", "output", "k of one instruction", "products added at once", "the row is"),
        [[row["title"], *map(str, one.values())] for row in devices for one in row["instructions"]],
    )
    return Shown([third, first], [
        _parameters(formats), _inputs(devices),
        *(_at_once(row) for row in devices if row["unit"] in ("V100", "T4")),
        Verdict(
            "paper 003, table 1", f"{_OTHER_DEVICES} multiply bfloat16 into binary32.", "–", "not measured",
            "no vectors and no published model of these devices were at hand; they are not in the catalogue",
        ),
    ])  # fmt: skip


def _parameters(formats: Rows) -> Verdict:
    columns = ("p", "emax", "emin", "epsilon", "smallest normal", "smallest subnormal")
    right = [row for row in formats if tuple(row[name] for name in columns) == _TABLE_3[row["format"]]]
    return Verdict.of(
        "paper 003, table 3", "Precision, exponent range, epsilon and smallest numbers of five formats.",
        f"{len(right)} of {len(formats)} formats have these parameters in tcu.", len(right) == len(_TABLE_3),
        "a format's parameters are others in tcu",
        check="all six parameters of all five formats are the paper's", rows=formats, fields=columns,
    )  # fmt: skip


def _inputs(devices: Rows) -> Verdict:
    there = {
        row["unit"]: {(one["input"], one["output"]): one["standing"] for one in row["instructions"]}
        for row in devices
    }
    wanted = [(unit, pair) for unit, pairs in _TABLE_1.items() for pair in pairs]
    missing = [f"{unit} {pair[0]}" for unit, pair in wanted if pair not in there.get(unit, {})]
    resting = [
        f"{unit} {pair[0]} ({there[unit][pair]})" for unit, pair in wanted
        if there.get(unit, {}).get(pair, _PINNED) != _PINNED
    ]  # fmt: skip
    pinned = len(wanted) - len(missing) - len(resting)
    return Verdict.of(
        "paper 003, table 1", "V100 and T4 multiply binary16; the A100 also bfloat16, TF32 and binary64.",
        f"The catalogue has {len(wanted) - len(missing)} of {len(wanted)}; outputs of the hardware itself pin {pinned} of "
        f"them, not {', '.join(resting)}.", not missing, f"missing: {', '.join(missing)}",
        check="the catalogue has an instruction for each pair of formats in the table", rows=devices,
        fields=("instructions",),
    )  # fmt: skip


def _at_once(device: Row) -> Verdict:
    """How many products a tensor core adds at once: 4, says the table; only outputs of the device can tell."""
    unit = device["unit"]
    row = next(one for one in device["instructions"] if one["input"] == "binary16")
    block, standing = row["block"], row["standing"]
    place, statement = "paper 003, table 1", f"A tensor core of the {unit} multiplies matrices of 4 × 4 × 4."
    measured = f"The {unit} of the catalogue adds {block} products at once, {standing}."
    if standing != _PINNED:
        return Verdict(
            place, statement, measured, "not measured",
            f"no output of a {unit} is at hand; in the published model that the catalogue follows k = {block} is one block, "
            "and the paper's experiments use four products at most",
        )  # fmt: skip
    return Verdict.of(
        place, statement, measured, block == 4, "the model that its outputs pin adds another number of products",
        check="the model that outputs of the device pin adds 4 products at once", rows=[device],
        fields=("instructions.block",),
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
    "Extra bits for carry out", "Monotonicity of dot product",
)  # fmt: skip
"""Those of the V100; the T4 and the A100 are asked again."""

_Mode = tuple[str, str, str]
"""Unit, input and output."""
_V100, _T4 = ("V100", "binary16", "binary32"), ("T4", "binary16", "binary32")
_A100 = tuple(("A100", name, "binary32") for name in ("binary16", "bfloat16", "tf32"))
_SINGLE: tuple[_Mode, ...] = (_V100, _T4, *_A100)
_HALF: tuple[_Mode, ...] = (("V100", "binary16", "binary16"), ("T4", "binary16", "binary16"))
_DOUBLE: tuple[_Mode, ...] = (("A100", "binary64", "binary64"),)

_PAPERS_UNITS = ("V100", "T4", "A100")
_ON_HARDWARE, _MODEL, _THIS_PAPER = (
    "hardware outputs",
    "model pinned by hardware outputs",
    "model resting on this paper",
)
"""The kinds of evidence: who answered, and what the model that answered rests on."""


def _evidence_of(standing: Standing) -> str:
    """What the answers of a model of this standing rest on."""
    kinds: dict[Standing, str] = {_PINNED: _MODEL, "resting on a paper": _THIS_PAPER}
    return kinds.get(standing, f"model {standing}")


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
     "the tensor core's own work.", "subnormal beside 2", dict.fromkeys(_SINGLE, True)),
    ("Support for subnormal numbers", "Subnormal inputs are used in computation: their products are whole.",
     "subnormal products", dict.fromkeys(_SINGLE, True)),
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
    row = find_instruction(
        point["unit"], point["instruction"], point["input"], point["input"], point["output"]
    )
    evidence = _evidence_of(row.standing)
    return [
        {**point, "experiment": each.name, "source": each.source, "evidence": evidence, "value": each.value}
        for each in found.findings
    ]


def _show(rows: Rows) -> Shown:
    known = {tuple(row[name] for name in (*_MODE, "instruction", "experiment")): row for row in rows}
    verdicts = [_sections(rows), *(_verdict(known, *one) for one in _STATED), _significand(known)]
    return Shown([_overview(rows, known), _evidence(rows), *_tables(rows)], verdicts)


def _tables(rows: Rows) -> list[Table]:
    """One for each instruction and formats."""
    modes: dict[tuple[str, str, str], Rows] = {}
    for row in rows:
        modes.setdefault((row["instruction"], row["input"], row["output"]), []).append(row)
    return [_table(mode, own) for mode, own in modes.items()]


_WIDE = ("binary16", "bfloat16", "tf32")
_SHORT_NAMES = {"binary16": "f16", "bfloat16": "bf16", "binary64": "f64", "binary32": "f32"}


def _overview(rows: Rows, known: _Known) -> Table:
    """Each statement of the paper, asked of every unit: what its mma answers for the formats that the statement is about."""
    units = list(dict.fromkeys(row["unit"] for row in rows))
    lines = []
    for section, statement, experiment, expected in _STATED:
        output = next(iter(expected))[2]
        inputs = _WIDE if output == "binary32" else (output,)
        stated = _text(next(iter(expected.values())))
        answers = [_alike(known, unit, inputs, output, experiment) for unit in units]
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


def _evidence(rows: Rows) -> Table:
    """What the answers of each unit's mma rest on, format by format."""
    units = list(dict.fromkeys(row["unit"] for row in rows))
    found = {
        (row["input"], row["output"], row["unit"]): row["evidence"] for row in rows if row["instruction"] == "mma"
    }  # fmt: skip
    pairs = list(dict.fromkeys(key[:2] for key in found))
    return Table(
        "What these answers rest on", ("mma", *units),
        [[f"{a} → {output}", *(found.get((a, output, unit), "–") for unit in units)] for a, output in pairs],
        "A model that outputs of its own hardware pin, bit for bit; one that rests on this paper, which it cannot confirm; "
        "one that rests on somebody's published model.", open=True,
    )  # fmt: skip


def _alike(known: _Known, unit: str, inputs: tuple[str, ...], output: str, experiment: str) -> str:
    found = {
        name: _text(value["value"])
        for name in inputs
        if (value := _row(known, (unit, name, output), experiment)) is not None
    }
    told = {name: text for name, text in found.items() if text != "?"} or found
    if len(set(told.values())) <= 1:
        return next(iter(told.values()), "–")
    return ", ".join(f"{_SHORT_NAMES.get(name, name)}: {text}" for name, text in told.items())


def _significand(known: _Known) -> Verdict:
    """A leading bit, those kept below it, and three for carries."""
    names = ("extra bits", "two carry bits", "third carry bit")
    widths, found = {}, {}
    for unit in _PAPERS_UNITS:
        own = [
            row for name in names if (row := _row(known, (unit, "binary16", "binary32"), name)) is not None
        ]
        kept, two, third = (row["value"] for row in own)
        widths[unit] = 1 + int(kept or 0) + (3 if third else 2 if two else 0)
        found[unit] = own
    told = [f"{unit}: {width} ({found[unit][0]['evidence']})" for unit, width in widths.items()]
    return Verdict.of(
        "paper 003, Extra bits for carry out, NVIDIA Turing tensor cores, NVIDIA Ampere tensor cores",
        "The accumulator's significand is most likely 27 bits wide on the V100, 28 on the T4 and the A100.",
        ", ".join(told) + "; bits, carries among them.",
        widths == {"V100": 27, "T4": 28, "A100": 28}, "the units' models have other widths",
        check="1 + extra bits + carry bits is 27, 28 and 28", rows=[row for own in found.values() for row in own],
        fields=("value",),
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
    """Every experiment of every section must have an answer, on each of the three devices in one format at least."""
    own = [
        row for row in rows
        if row["unit"] in _PAPERS_UNITS and row["instruction"] == "mma" and row["source"].startswith("paper 003")
        and row["input"] != "binary64"
    ]  # fmt: skip
    answered: dict[tuple[str, str, str], bool] = {}
    for row in own:
        section = next((name for name in _SECTIONS if name in row["source"]), "")
        key = (row["unit"], section, row["experiment"])
        answered[key] = answered.get(key, False) or row["value"] is not None
    silent = [f"{unit}: {name}" for (unit, _, name), told in answered.items() if not told]
    unasked = [
        f"{unit}: {section}" for unit in _PAPERS_UNITS for section in _SECTIONS
        if not any(key[:2] == (unit, section) for key in answered)
    ]  # fmt: skip
    told = "; ".join(
        f"{unit} {sum(told for key, told in answered.items() if key[0] == unit)} of "
        f"{sum(key[0] == unit for key in answered)}" for unit in _PAPERS_UNITS
    )  # fmt: skip
    return Verdict.of(
        "paper 003, table 2", "The tests, section by section, on the V100, again on the T4 and on the A100.",
        f"Experiments with an answer: {told}. All are asked of models, not of the paper's own devices.",
        not silent and not unasked, f"without an answer: {', '.join(silent + unasked)}",
        check=f"all experiments of all {len(_SECTIONS)} sections have an answer on each device", rows=own, fields=("value",),
    )  # fmt: skip


def _verdict(
    known: _Known, section: str, statement: str, experiment: str, expected: dict[_Mode, Any]
) -> Verdict:
    """Only answers that do not rest on the paper itself confirm it; any answer contradicts it.

    Units of which no operands can tell say so, and neither confirm nor contradict.
    """
    found = {mode: row for mode in expected if (row := _row(known, mode, experiment)) is not None}
    told = {mode: row for mode, row in found.items() if row["value"] is not None}
    confirming = [row for row in told.values() if row["evidence"] in (_ON_HARDWARE, _MODEL)]
    place, measured = f"paper 003, {section}", f"{_capital(experiment)}: {'; '.join(_told(found))}."
    check = "each answer is the one that the statement implies, and one at least does not rest on this paper"
    wrong = any(row["value"] != expected[mode] for mode, row in told.items())
    if not wrong and not confirming:
        why = "the models asked rest on this paper, and cannot confirm it" if told else "no operands tell"
        return Verdict(
            place, statement, measured, "not measured", why, check, list(found.values()), ("value",)
        )
    return Verdict.of(
        place, statement, measured, not wrong, "the units' models answer otherwise", check=check,
        rows=list(found.values()), fields=("value",),
    )  # fmt: skip


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _told(found: dict[_Mode, Row]) -> Iterable[str]:
    """Answers with who gave them, and what that rests on."""
    for value, evidence in dict.fromkeys((_text(row["value"]), row["evidence"]) for row in found.values()):
        who: dict[str, list[str]] = {}
        for (unit, a, output), row in found.items():
            if (_text(row["value"]), row["evidence"]) == (value, evidence):
                who.setdefault(unit, []).append(f"{_SHORT_NAMES.get(a, a)} → {_SHORT_NAMES[output]}")
        units = ", ".join(f"{unit} ({', '.join(modes)})" for unit, modes in who.items())
        yield f"{value} on {units}, {evidence}"


_Known = dict[tuple[str, ...], Row]
"""Unit, input, output, instruction and experiment → row."""
_MODE = ("unit", "input", "output")


def _row(known: _Known, mode: _Mode, experiment: str) -> Row | None:
    """What the unit's mma answered."""
    return known.get((*mode, "mma", experiment))


# On hardware


def _gpu_points(quick: bool) -> list[Point]:
    """Every floating-point kernel: one that this GPU lacks has no rows."""
    return [
        {"mnemonic": kernel.mnemonic} for kernel in KERNELS
        if get_format(kernel.a).is_float and not (quick and (kernel.name != "mma" or get_format(kernel.a).bits == 8))
    ]  # fmt: skip


def _gpu_measure(point: Point) -> Rows:
    gpu = find_gpu()
    kernel = next((one for one in gpu.kernels if one.mnemonic == point["mnemonic"]), None)
    if kernel is None:
        return []
    row = find_instruction(gpu.unit, kernel.name, kernel.a, kernel.b, kernel.output)
    if row.k != kernel.k or kernel.a != kernel.b:
        return []
    given = {"instruction": kernel.name, "input": kernel.a, "output": kernel.output}
    target = as_target("gpu", instruction=kernel.name, input=kernel.a, output=kernel.output, k=kernel.k)
    modelled = {each.name: each.value for each in probe(of_instruction(gpu.unit.name, row)).findings}
    return [
        {**given, "gpu": gpu.name, "unit": gpu.unit.name, "experiment": each.name, "source": each.source,
         "evidence": _ON_HARDWARE, "value": each.value, "modelled": modelled[each.name]}
        for each in probe(target).findings
    ]  # fmt: skip


def _gpu_show(rows: Rows) -> Shown:
    tables = _tables(rows)
    different = [row for row in rows if row["value"] != row["modelled"]]
    return Shown(tables, [
        Verdict.of(
            "tcu, after paper 003", "The hardware answers every experiment as its model does.",
            f"{rows[0]['gpu']}: {len(rows) - len(different)} of {len(rows)} answers of {len(tables)} instructions are the "
            "model's.", not different,
            f"differently answered: {', '.join(sorted({row['experiment'] for row in different}))}",
            check="every answer of the hardware is the model's", rows=rows, fields=("value",),
        )
    ])  # fmt: skip


FEATURES_ON_GPU = Study(
    "features-gpu", "Numerical features of a GPU's own units", ("003 findings",),
    "What do the same experiments find on the hardware itself?",
    _gpu_show, _gpu_points, _gpu_measure, (20, 120), ("gpu",), seed=3, sources=("probes", *kernels_of("mma")),
)  # fmt: skip


FEATURES = Study(
    "features", "Numerical features of the units, found by probing", ("003 table 2", "003 findings"),
    "What do the paper's experiments, and those that later chips made necessary, find on the model of every unit?",
    _show, _points, _measure, (20, 100), seed=3,
)  # fmt: skip
