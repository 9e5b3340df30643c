"""What probes found, as tables that a terminal shows as well, and one HTML page that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import groupby
from textwrap import fill
from typing import Any

from tcu.cli.numbers import hex_bits, show_code, show_number
from tcu.cli.output import json_number
from tcu.formats.format import Format
from tcu.formats.scalar import Number, decode
from tcu.probes.finding import Case, Finding, Probe, Value
from tcu.probes.infer import Counterexample, Inference
from tcu.probes.target import Operation
from tcu.report.html_page import Markup, page, tag
from tcu.units import AlignedSum, Arithmetic, Unit

__all__ = [
    "Comparison", "Grid", "case_grid", "comparison_document", "comparison_grid", "comparison_page",
    "findings_grid", "inference_document", "inference_grids", "inference_page", "probe_document", "probe_page",
    "scope", "unit_expression",
]  # fmt: skip

LIMIT, _HEAD = 40, 12
"""Characters that one number may take (those of experiments are exact in fewer), and a line of a head."""
COMPARED = "One column: units that answer alike. Marked: unlike the first. ? cannot tell, – not asked."
_KINDS = {
    "aligned": "aligned sums",
    "chain": "IEEE arithmetic",
    "block": "sums of blocks",
    "integer": "integers",
}
_MEANINGS = {
    "block": "products aligned together", "fraction_bits": "F: bits kept below the largest exponent",
    "rounding": "of a block's sum, or of every step of a chain, to the output", "exponent_floor": "the least common exponent",
    "output_fraction_bits": "fraction bits that the rounding keeps",
    "order": "in which the k of one instruction are added",
    "late_c": "c is added last, by an IEEE addition to nearest",
    "normalized_products": "a product in [2, 4) counts with the exponent one higher",
    "flush_inputs": "subnormal inputs count as zero", "flush_outputs": "subnormal results become zero",
    "carry_bits": "bits for carries above the largest exponent, beyond which a sum wraps around",
    "signed_zeros": "a sum of zeros that are all negative is -0",
    "through_binary16": "the inputs become binary16 first", "saturate": "a sum that overflows becomes the largest number",
    "rounded_products": "a product is rounded before it is added: not fused",
    "group": "products that are added up before they join the sum", "lanes": "sums side by side, added in the end",
    "nan_rule": "which NaN a result is", "late_bits": "bits kept of a total before it is rounded",
    "groups": "1, or 2: even and odd products are aligned apart",
    "drops_small_c": "a c that is too small to be seen counts as zero",
}  # fmt: skip
_ARITHMETICS = {
    "FusedChain": "products added to c one by one, each sum rounded",
    "ExactBlock": "c and a block's products added exactly, rounded once",
    "FlushedTree": "products rounded and added by a tree, subnormal results flushed",
    "LateSum": "a block's products cut and added, then c; cut toward -inf",
    "GroupedSum": "groups of products added exactly, then aligned by their scales",
    "ExactInteger": "exact; the 32-bit result wraps",
}
_UNSET = {"exponent_floor": "none", "output_fraction_bits": "all", "order": "ascending", "carry_bits": "all"}

Cell = tuple[str, str]
"""Text and its style: "", name, dim, good or differs."""


@dataclass(frozen=True)
class Grid:
    """A table before it is known who shows it."""

    header: tuple[str, ...]
    rows: list[list[Cell]]
    prose: bool = False
    """Whether the cells are read in turn, and need not stand in columns where a page is narrow."""


# One probe


def scope(found: Probe) -> str:
    """What was asked, as far as the target's name does not say it."""
    told = _formats(found.target, found.input, found.second, found.output)
    return f"{told}k = {found.k}; experiments on {_KINDS[found.kind]}"


def _formats(target: str, fmt: Format, second: Format | None, output: Format) -> str:
    inputs = fmt.name if second is None else f"{fmt.name}·{second.name}"
    formats = f"{inputs} → {output.name}"
    return "" if formats in target else f"{formats}, "


def findings_grid(found: Probe) -> Grid:
    rows: list[list[Cell]] = []
    for source, findings in groupby(found.findings, lambda each: each.source):
        for each in findings:
            style = "dim" if each.value is None else ""
            rows.append([(each.name, "name"), (each.conclusion, style), (source, "dim")])
            source = ""  # said once
    return Grid(("experiment", "conclusion", "source"), rows, prose=True)


def case_grid(case: Case, output: Format) -> Grid:
    """The inputs, the answer, and what each hypothesis predicted."""
    given = [("a", _vector(case.a)), ("b", _vector(case.b)), ("c", _vector([case.c]))]
    if case.scale_a:
        given += [("scale a", _vector(case.scale_a)), ("scale b", _vector(case.scale_b))]
    rows: list[list[Cell]] = [[(name, "dim"), (text, ""), ("", ""), ("", "")] for name, text in given]
    answers = [("returned", case.returned, "name")]
    for name, code in case.predictions.items():
        answers.append((name, code, "good" if name in case.agreeing else "dim"))
    for name, code, style in answers:
        texts = name, show_code(code, output, LIMIT), hex_bits(code, output), "✓ agrees" * (style == "good")
        rows.append([(text, style) for text in texts])
    return Grid(("", "value", "bits", ""), rows)


def _vector(values: Iterable[float]) -> str:
    """The numbers in order, equal neighbours once: 1, 2^-24 (3 times)."""
    texts = [show_number(Number.of(value), LIMIT, hexadecimal=True) for value in values]
    runs = [(text, len(list(run))) for text, run in groupby(texts)]
    return ", ".join(text if count == 1 else f"{text} ({count} times)" for text, count in runs) or "0"


# Many probes


@dataclass(frozen=True)
class Comparison:
    """Units that were probed with one instruction and the same formats."""

    instruction: str
    input: str
    output: str
    probes: dict[str, Probe]
    """Unit → what was found."""

    @property
    def title(self) -> str:
        return f"{self.instruction} {self.input} → {self.output}"

    @property
    def findings(self) -> dict[str, Finding]:
        """Every experiment that some unit was asked, by name."""
        return {each.name: each for found in self.probes.values() for each in found.findings}

    def values(self, name: str) -> dict[str, Value]:
        """Unit → answer, of the units that were asked."""
        found = ((unit, each) for unit, probe in self.probes.items() for each in probe.findings)
        return {unit: each.value for unit, each in found if each.name == name}


def comparison_grid(block: Comparison) -> Grid:
    """Findings by units; those units share a column that answer every experiment alike."""
    table = {name: block.values(name) for name in block.findings}
    alike: dict[tuple[str, ...], list[str]] = {}
    for unit in block.probes:
        answers = tuple(_short(row[unit]) if unit in row else "–" for row in table.values())
        alike.setdefault(answers, []).append(unit)
    rows: list[list[Cell]] = []
    for name, cells in zip(table, zip(*alike, strict=True), strict=True):
        styles = ["differs" if cell != cells[0] else "dim" if cell in ("?", "–") else "" for cell in cells]
        rows.append([(name, "name"), *zip(cells, styles, strict=True)])
    return Grid(("experiment", *(fill(" ".join(units), _HEAD) for units in alike.values())), rows)


def _short(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return "?" if value is None else "yes" if value is True else "no" if value is False else str(value)


# An inference


def inference_grids(known: Inference, asked: Operation) -> Iterator[tuple[str, Grid]]:
    """Titles and tables: parameters, stages, test, and where model and target differ."""
    if known.arithmetic is not None:
        title = "Parameters" if known.identified else "The nearest model, which is not right"
        yield title, Grid(("parameter", "value", "meaning"), _parameters(known.arithmetic), prose=True)
    if known.pinned:
        rows = [
            [(each.parameters, "name"), (f"{each.candidates:,}", ""), (f"{each.dots:,}", ""), (each.conclusion, "")]
            for each in known.pinned
        ]  # fmt: skip
        yield "Stages", Grid(("decides", "candidates", "dot products", "outcome"), rows)
    style = "differs" if known.different else "good"
    tried, different = (f"{known.tried:,}", ""), (f"{known.different:,}", style)
    rows = [[("compared", "name"), tried], [("different", "name"), different]]
    if known.identified:
        rows.append([("wrong, at most (95 %)", "name"), (f"{known.bound:.1e} of outputs drawn so", "")])
    yield "Differential test", Grid(("outputs", "number"), rows)
    if known.asked:
        rows = [[(kind, "name"), (f"{count:,}", "")] for kind, count in known.asked]
        yield "What it rests on", Grid(("kind of question", "outputs"), rows)
    if known.not_asked:
        yield "Not asked", Grid(("",), [[(text, "")] for text in known.not_asked], prose=True)
    if known.counterexample is not None:
        yield "Smallest counterexample", _example_grid(known.counterexample, asked)


def _parameters(arithmetic: Arithmetic) -> list[list[Cell]]:
    given = {k: _UNSET[k] if v is None else _short(v) for k, v in vars(arithmetic).items()}
    rows = [[(name, "name"), (value, ""), (_MEANINGS[name], "dim")] for name, value in given.items()]
    if isinstance(arithmetic, AlignedSum):
        return rows
    kind = type(arithmetic).__name__
    return [[("arithmetic", "name"), (kind, ""), (_ARITHMETICS[kind], "dim")], *rows]


def _example_grid(example: Counterexample, asked: Operation) -> Grid:
    """The factors that are not zero, their scales, c, and both answers."""
    rows: list[list[Cell]] = []
    output = asked.output
    for k, (x, y) in enumerate(zip(example.a, example.b, strict=True)):
        if x or y:
            rows += [_word(f"a[{k}]", x, asked.input), _word(f"b[{k}]", y, asked.right)]
    if asked.scale is not None:
        for name, scales in (("a", example.scale_a), ("b", example.scale_b)):
            rows += [_word(f"scale {name}[{i}]", word, asked.scale) for i, word in enumerate(scales)]
    rows += [_word("c", example.c, output), _word("target", example.target, output, "good")]
    return Grid(("", "value", "bits"), [*rows, _word("model", example.model, output, "differs")])


def _word(name: str, word: int, fmt: Format, style: str = "") -> list[Cell]:
    value = show_code(word >> fmt.storage_shift, fmt, LIMIT)
    return [(name, style or "name"), (value, style), (_bits(word, fmt), style)]


def _bits(word: int, fmt: Format) -> str:
    return f"0x{word:0{2 * fmt.dtype.itemsize}x}"


def unit_expression(unit: Unit) -> str:
    """Python that builds a unit of one instruction, parameters left out that are the defaults."""
    row = unit.instructions[0]
    kind = type(row.arithmetic).__name__
    defaults = {field.name: field.default for field in fields(row.arithmetic)}
    given = [f"{k}={v!r}" for k, v in vars(row.arithmetic).items() if v != defaults[k]]
    scales = "" if row.scale is None else f", {row.scale!r}, {row.per_scale}"
    return (
        f"from tcu.units import {', '.join(sorted((kind, 'Evidence', 'Instruction', 'Unit')))}\n\n"
        f"unit = Unit({unit.name!r}, {unit.title!r}, {unit.architecture!r}, {unit.compute_capability!r}, (\n"
        f"    Instruction({row.name!r}, {row.a!r}, {row.b!r}, {row.output!r}, {row.shape!r},\n"
        f"        {kind}({', '.join(given)}),\n        {row.evidence!r}{scales}),\n))"
    )


# JSON


def probe_document(found: Probe) -> dict[str, Any]:
    return {
        "target": found.target, "input": found.input.name, "second": (found.second or found.input).name, "output": found.output.name, "k": found.k,
        "kind": found.kind, "findings": [
            {key: getattr(each, key) for key in ("name", "source", "question", "value", "conclusion")}
            | {"cases": [_case_document(case, found.output) for case in each.cases]}
            for each in found.findings
        ],
    }  # fmt: skip


def _case_document(case: Case, output: Format) -> dict[str, Any]:
    return {
        **{name: [json_number(x) for x in row] for name, row in (("a", case.a), ("b", case.b))},
        "c": json_number(case.c),
        **{
            name: [json_number(x) for x in row]
            for name, row in (("scale_a", case.scale_a), ("scale_b", case.scale_b))
            if row
        },
        "returned": hex_bits(case.returned, output),
        "returned_value": json_number(float(decode(case.returned, output))),
        "predictions": {name: hex_bits(code, output) for name, code in case.predictions.items()},
        "agreeing": list(case.agreeing),
    }


def comparison_document(blocks: Sequence[Comparison]) -> list[dict[str, Any]]:
    return [
        {
            **{key: getattr(block, key) for key in ("instruction", "input", "output")}, "units": list(block.probes),
            "findings": [
                {"name": name, "source": each.source, "question": each.question, "values": block.values(name)}
                for name, each in block.findings.items()
            ],
        }
        for block in blocks
    ]  # fmt: skip


def inference_document(known: Inference, asked: Operation) -> dict[str, Any]:
    row, example = known.arithmetic, known.counterexample
    return {
        "target": known.target, "identified": known.identified,
        "parameters": row and {"kind": type(row).__name__, **asdict(row)},
        "pinned": [asdict(stage) for stage in known.pinned],
        "tried": known.tried, "different": known.different,
        "counterexample": example and {
            **{
                key: [_word_document(word, fmt) for word in getattr(example, key)]
                for key, fmt in _formats_of_factors(asked).items()
            },
            **{key: _word_document(getattr(example, key), asked.output) for key in ("c", "target", "model")},
        },
        "conclusion": known.conclusion,
        "asked": dict(known.asked), "bound": known.bound, "not_asked": list(known.not_asked),
    }  # fmt: skip


def _formats_of_factors(asked: Operation) -> dict[str, Format]:
    scales = {} if asked.scale is None else {"scale_a": asked.scale, "scale_b": asked.scale}
    return {"a": asked.input, "b": asked.right, **scales}


def _word_document(word: int, fmt: Format) -> dict[str, Any]:
    return {"value": json_number(float(decode(word >> fmt.storage_shift, fmt))), "bits": _bits(word, fmt)}


# HTML


def _section(title: str, grid: Grid) -> tuple[Markup, Markup]:
    return tag("h2", title), _table(grid)


def _table(grid: Grid) -> Markup:
    def row(cells: Sequence[Cell]) -> Markup:
        return tag("tr", *(tag("td", text, class_=style) for text, style in cells))

    head = tag("tr", *(tag("th", text, scope="col") for text in grid.header))
    table = tag("table", tag("thead", head), tag("tbody", *map(row, grid.rows)))
    return tag("div", table, class_="table prose" if grid.prose else "table")


def probe_page(found: Probe) -> str:
    """The findings, and every experiment with its inputs, predictions and conclusion."""
    details = [_details(each, found.output) for each in found.findings]
    findings = _section("Findings", findings_grid(found))
    return page(found.target, scope(found), *findings, tag("h2", "Experiments"), *details)


def _details(finding: Finding, output: Format) -> Markup:
    return tag(
        "details",
        tag("summary", tag("span", finding.name, class_="name"), f": {_short(finding.value)}"),
        tag("p", finding.question), tag("p", finding.source, class_="dim"),
        *(_table(case_grid(case, output)) for case in finding.cases),
        tag("p", tag("strong", finding.conclusion)),
    )  # fmt: skip


def comparison_page(blocks: Sequence[Comparison]) -> str:
    """One table for each pair of formats, and what every experiment asks."""
    experiments = {name: each for block in blocks for name, each in block.findings.items()}
    asked: list[list[Cell]] = [
        [(name, "name"), (each.question, ""), (each.source, "dim")] for name, each in experiments.items()
    ]
    parts = [part for block in blocks for part in _section(block.title, comparison_grid(block))]
    parts += _section("The experiments", Grid(("experiment", "question", "source"), asked, prose=True))
    return page("What the units answer", COMPARED, *parts)


def inference_page(known: Inference, asked: Operation) -> str:
    """The verdict, every table, and the Python that builds the unit."""
    parts = [tag("p", known.conclusion, class_="good" if known.identified else "differs")]
    for title, grid in inference_grids(known, asked):
        parts += _section(title, grid)
    if known.unit is not None:
        parts += [tag("h2", "The unit in Python"), tag("pre", unit_expression(known.unit))]
    return page(
        known.target,
        f"{_formats(known.target, asked.input, asked.second, asked.output)}inferred from its answers alone",
        *parts,
    )
