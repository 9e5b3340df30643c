"""Contract: the report's MMA explorer computes what the library computes, bit for bit.

The page's own script (report/unit.js) is run by Node.js on every instruction of
the catalogue: codes drawn at random, terms near one another, tiny ones, specials; results
and every step of the alignment must be those of the definition.  Text is read
as ``tcu explain`` reads it.  Planted errors show that the comparison notices.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import tcu
from tcu.cli.dot import problem_of
from tcu.formats import FORMATS, Format, Number, decode, encode, get_format
from tcu.model.definition import dot, dot_blocks, dot_chain, piece_of
from tcu.model.steps import dot_steps
from tcu.report.explorer import catalogue, instruction_document
from tcu.units import (
    CATALOGUE,
    AlignedSum,
    Evidence,
    ExactBlock,
    FlushedTree,
    FusedChain,
    GroupedSum,
    Instruction,
    LateSum,
)

NODE = shutil.which("node")
SCRIPT = Path(tcu.__file__).parent / "report" / "unit.js"
needs_node = pytest.mark.skipif(NODE is None, reason="needs Node.js (node) to run the page's script")

DOTS = """
const rows = given.rows.map((r) =>
  ({ ...r, x: formats[r.x], y: formats[r.y], output: formats[r.output], scale: formats[r.scale] ?? null }));
const value = (n) => [n.negative ? -n.significand : n.significand, n.exponent];
answer = given.cases.map(([at, a, b, c, scales]) => {
  const found = TcuUnit.dot(a.map(BigInt), b.map(BigInt), BigInt(c), rows[at], scales.map((s) => s.map(BigInt)));
  return [found.result, found.steps.map((s) => s.chain
    ? s.chain.map((t) => [t.name, t.products ?? [], t.exact === null, t.kept ? value(t.kept) : t.result])
    : s.blocks.map((k) => [k.common, k.unit, k.total, k.result,
    k.terms.map((t) => [t.exponent, t.aligned ?? 0n, t.lost ?? false])]))];
});
"""
CODES = "answer = given.map(([code, f]) => { const n = TcuUnit.decode(BigInt(code), formats[f]); " \
        "return [n.kind, n.negative, n.significand, n.exponent, TcuUnit.encode(n, formats[f])]; });"  # fmt: skip
PARSE = "answer = given.map(([text, f]) => { const n = TcuUnit.parse(text); " \
        "return n === null ? null : TcuUnit.encode(n, formats[f]); });"  # fmt: skip


def run(code: str, given: Any, script: str | None = None) -> Any:
    """What the script's functions answer, with the catalogue at hand."""
    source = (script or SCRIPT.read_text()) + (
        "\nconst all = JSON.parse(require('fs').readFileSync(0, 'utf8'));\n"
        "const { given, formats } = all; let answer;\n"
        f"{code}\nconsole.log(JSON.stringify(answer, (key, v) => typeof v === 'bigint' ? v.toString() : v));"
    )
    document = json.dumps({"given": given, "formats": catalogue()["formats"]})
    done = subprocess.run([NODE or "node", "-e", source], input=document, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


Case = tuple[int, list[int], list[int], int, tuple[list[int], list[int]]]


def codes(rng: random.Random, fmt: Format, count: int, kind: str) -> list[int]:
    if kind == "any" or not fmt.is_float:
        return [rng.getrandbits(fmt.bits) for _ in range(count)]
    if kind == "special":
        few = [0, fmt.sign_code, 1, fmt.max_finite_code, fmt.nan_code, fmt.max_finite_code | fmt.sign_code]
        few += (
            [fmt.infinity_code, fmt.infinity_code | fmt.sign_code, fmt.infinity_code | 1]
            if fmt.has_infinity
            else []
        )
        return [rng.choice(few) for _ in range(count)]
    field = fmt.bias + rng.randrange(-2, 3) if kind == "near" else 1
    near = [field + rng.randrange(-3, 4) for _ in range(count)]
    return [
        rng.getrandbits(1) << (fmt.bits - 1)
        | max(e, 0) << fmt.fraction_bits
        | rng.getrandbits(fmt.fraction_bits)
        for e in near
    ]


def cases_for(rows: list[Instruction], each: int) -> list[Case]:
    rng = random.Random(7)
    found: list[Case] = []
    for at, row in enumerate(rows):
        x, y, z = (get_format(name) for name in (row.a, row.b, row.output))
        for number in range(each):
            kind = ("near", "any", "tiny", "special")[number % 4]
            count = rng.choice((1, 2, row.k, row.k + 3))
            c = codes(rng, z, 1, kind)[0]
            a, b = codes(rng, x, count, kind), codes(rng, y, count, kind)
            scales: tuple[list[int], list[int]] = ([], [])
            if row.scale:
                least = 0 if kind in ("any", "special") else encode(Number.of(1), row.scale) - 9
                most = (1 << get_format(row.scale).bits) - 1 if least == 0 else least + 18
                pieces = -(-count // row.per_scale)
                scales = tuple([rng.randint(least, most) for _ in range(pieces)] for _ in "ab")  # type: ignore[assignment]
            found.append((at, a, b, c, scales))
    return found


def expected(
    row: Instruction, a: list[int], b: list[int], c: int, scales: tuple[list[int], list[int]]
) -> list[Any]:
    """Result and steps by the definition, in the shape of the script's answer."""
    steps = []
    if isinstance(row.arithmetic, AlignedSum | GroupedSum):
        before = c
        for start in range(0, len(a), row.k):
            pad = [0] * (row.k - len(a[start : start + row.k]))
            blocks, before = dot_blocks(
                a[start : start + row.k] + pad, b[start : start + row.k] + pad, before, row,
                piece_of(scales, start, row),
            )  # fmt: skip
            steps.append([
                [block.common_exponent, block.unit_exponent, str(block.total), str(block.result),
                 [[t.exponent, str(t.aligned), t.lost] for t in block.terms]]
                for block in blocks
            ])  # fmt: skip
    if isinstance(row.arithmetic, FusedChain):
        before = c
        for start in range(0, len(a), row.k):
            pad = [0] * (row.k - len(a[start : start + row.k]))
            x, y = a[start : start + row.k] + pad, b[start : start + row.k] + pad
            chain, before = dot_chain(x, y, before, row, start, "sum" if start else "c")
            steps.append(
                [[step.name, list(step.products), step.exact is None, str(step.result)] for step in chain]
            )
    if isinstance(row.arithmetic, ExactBlock | FlushedTree | LateSum):
        before = c
        for start in range(0, len(a), row.k):
            pad = [0] * (row.k - len(a[start : start + row.k]))
            x, y = a[start : start + row.k] + pad, b[start : start + row.k] + pad
            sums, before = dot_steps(x, y, before, row, start, "sum" if start else "c")
            steps.append([[step.name, [], step.exact is None, _left(step.result)] for step in sums])
    return [str(dot(a, b, c, row, scales)), steps]


def _left(result: int | Fraction) -> Any:
    """A code, or a number as the script has it, but for how often two divides the significand."""
    if isinstance(result, int):
        return str(result)
    return str(result)


def compare(rows: list[Instruction], each: int, script: str | None = None) -> list[Case]:
    """The cases on which the page and the library differ."""
    return differing(rows, cases_for(rows, each), script)


def differing(rows: list[Instruction], cases: list[Case], script: str | None = None) -> list[Case]:
    given = {
        "rows": [instruction_document(row) for row in rows],
        "cases": [
            [at, [str(v) for v in a], [str(v) for v in b], str(c), [[str(v) for v in own] for own in scales]]
            for at, a, b, c, scales in cases
        ],
    }
    answers = run(DOTS, given, script)
    for _, steps in answers:
        for line in (line for step in steps for line in step if len(line) == 4 and isinstance(line[3], list)):
            line[3] = str(int(line[3][0]) * Fraction(2) ** line[3][1])
    return [
        case
        for case, answer in zip(cases, answers, strict=True)
        if answer != expected(rows[case[0]], *case[1:])
    ]


EVERY = [row for unit in CATALOGUE.values() for row in unit.instructions if row.addend is None]
DISTINCT = list({json.dumps(instruction_document(row)): row for row in EVERY}.values())


@pytest.mark.slow
@needs_node
@pytest.mark.parametrize("each", [12, pytest.param(60, marks=pytest.mark.slow)])
def test_every_instruction_of_the_catalogue_equals_the_definition(each: int) -> None:
    assert len(DISTINCT) > 40
    assert compare(DISTINCT, each) == []


@pytest.mark.slow
@needs_node
def test_rules_that_no_unit_of_the_catalogue_has() -> None:
    evidence = (Evidence("user", "made up"),)
    made_up = [
        AlignedSum(4, 23, rounding, floor, bits, None, late, normal, flush_in, flush_out)
        for rounding in ("RNE", "RZ", "RU", "RD", "RO")
        for floor, bits, late, normal, flush_in, flush_out in (
            (None, None, False, False, False, False), (-133, 13, True, True, True, True),
            (-20, None, True, False, True, False), (None, 9, False, True, False, True),
        )
    ]  # fmt: skip
    made_up += [
        FusedChain(order, rounded, rounding, group, lanes, late, flush, flush, nan)
        for rounding, nan in zip(
            ("RNE", "RZ", "RU", "RD", "RO"), ("nvidia", "x86", "arm", "x86", "x86"), strict=True
        )
        for order, rounded, group, lanes, late, flush in (
            (None, False, 1, 2, True, True),
            ((1, 0, 3, 2, 5, 4, 7, 6), False, 1, 1, False, True),
            (None, True, 2, 1, False, True),
            (None, False, 2, 2, False, False),
            (None, True, 1, 4, True, False),
        )
    ]
    made_up += [
        AlignedSum(4, 23, "RZ", carry_bits=carry, signed_zeros=zeros, nan_rule=rule, saturate=saturate, late_c=late)
        for carry, zeros, rule, saturate, late in (
            (1, True, "x86", True, False), (2, False, "c first", False, True), (None, True, "arm", True, True),
        )
    ]  # fmt: skip
    converted = AlignedSum(4, 20, "RZ", through_binary16=True)
    rows = [Instruction("mma", "e4m3", "e5m2", "binary32", (16, 8, 8), converted, evidence)]
    rows += [
        Instruction("mma", fmt, fmt, "binary32", (16, 8, 8), rules, evidence)
        for rules in made_up
        for fmt in ("bfloat16" if isinstance(rules, FusedChain) else "binary16",)
    ]
    assert compare(rows, 40) == []


@pytest.mark.some(4)
@pytest.mark.slow
@needs_node
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("remainder > half ||", "remainder >= half ||"),
        ("common - rules.fraction_bits", "common - rules.fraction_bits + 1"),
        ("t.significand >> BigInt(shift)", "(t.significand >> BigInt(shift)) + 1n"),
        ("power(f.exponentBits) - one", "power(f.exponentBits) - 2n"),
        ("return found ? encode(found, f) :", "return found && false ? 0n :"),
        ("magnitude === 0n ||", "false ||"),
        ("code &= signCode(f);", "code &= 0n;"),
    ],
)
def test_a_planted_error_is_noticed(right: str, wrong: str) -> None:
    source = SCRIPT.read_text()
    assert source.count(right) >= 1
    chains = 20 * [row for row in DISTINCT if isinstance(row.arithmetic, FusedChain)]
    assert compare(DISTINCT + chains, 6, source.replace(right, wrong))


@needs_node
def test_every_code_of_the_small_formats_is_read_and_written_as_the_library_does() -> None:
    small = [fmt for fmt in FORMATS.values() if fmt.is_float and fmt.bits <= 8]
    asked = [(code, fmt.name) for fmt in small for code in range(1 << fmt.bits)]
    answers = run(CODES, asked)
    for (code, name), answer in zip(asked, answers, strict=True):
        number = decode(code, name)
        expected = [number.kind, number.negative, str(number.significand), number.exponent]
        assert answer == [*expected, str(encode(number, name))], (code, name)


@needs_node
def test_a_group_that_cancels_cuts_what_lies_below_its_scales() -> None:
    (row,) = [row for row in CATALOGUE["B200"].instructions if (row.name, row.scale) == ("mxf4nvf4", "ue4m3")]
    c = 0x3F800001 - (20 << 23)  # 2^-20 and one unit in the last place, 2^-43, below 2^(16 - 35)
    case = (0, [2, 10], [2, 2], c, ([0x7E], [0x7E]))
    assert dot([2, 10], [2, 2], c, row, ([0x7E], [0x7E])) != c
    assert differing([row], [case]) == []
    wrong = SCRIPT.read_text().replace("t.significand !== 0n || t.cancelled)", "t.significand !== 0n)")
    assert differing([row], [case], wrong) == [case]


TEXTS = (
    "1", "-1", "+1.5", ".5", "0", "-0", "0.1", "1e-5", "-1.25e3", "65520", "65519.99", "1e-8", "2^-24", "2^10",
    "-2**-14", "3*2^-25", "0.5*2^3", "0x1.8p-3", "0x1.fffffep-1", "0x10", "-0x.8p1", "inf", "-inf", "nan",
    "1e39", "5e-324", "2^(-149)", "1.00048828125", "1.00146484375", " 1 ", "1e-46",
)  # fmt: skip


@needs_node
def test_text_is_read_as_explain_reads_it() -> None:
    formats = [
        get_format(name) for name in ("binary16", "bfloat16", "tf32", "e4m3", "e5m2", "binary32", "binary64")
    ]
    asked = [(text, fmt.name) for text in TEXTS for fmt in formats]
    answers = run(PARSE, asked)
    for (text, name), answer in zip(asked, answers, strict=True):
        operand = problem_of(None, text.strip(), None, None, get_format(name), get_format("binary32")).a[0]
        # explain computes with rationals, which have no negative zero; the page keeps the sign.
        code = operand.format.sign_code if text == "-0" else operand.code
        assert answer == str(code), (text, name)


@needs_node
def test_what_is_no_number_is_refused() -> None:
    texts = ("", "x", "1+1", "--1", "1e", "0x", "2^", "1e99999", "0xp3", "infinite", ".")
    assert run(PARSE, [(text, "binary32") for text in texts]) == [None] * len(texts)


@needs_node
def test_the_exact_sum_is_exact() -> None:
    rows = [instruction_document(CATALOGUE["V100"].instructions[0])]
    code = (
        "const r = { ...given.rows[0], x: formats.binary16, y: formats.binary16, output: formats.binary32 };"
        "answer = given.cases.map(([a, b, c]) => { const n = TcuUnit.exactSum(a.map(BigInt), b.map(BigInt), "
        "BigInt(c), r); return n === null ? null : [n.negative, n.significand, n.exponent]; });"
    )
    cases = [case[1:4] for case in cases_for([CATALOGUE["V100"].instructions[0]], 60)]
    given = {"rows": rows, "cases": [[[str(v) for v in a], [str(v) for v in b], str(c)] for a, b, c in cases]}
    for (a, b, c), answer in zip(cases, run(code, given), strict=True):
        total = _exact(a, b, c)
        if answer is None:
            assert total is None
        else:
            negative, significand, exponent = answer
            value = int(significand) * Fraction(2) ** exponent
            assert (-value if negative else value) == total


def _exact(a: list[int], b: list[int], c: int) -> Fraction | None:
    numbers = [decode(c, "binary32"), *(decode(code, "binary16") for code in (*a, *b))]
    if any(number.kind != "finite" for number in numbers):
        return None
    return numbers[0].value + sum(
        (decode(p, "binary16").value * decode(q, "binary16").value for p, q in zip(a, b, strict=True)),
        Fraction(0),
    )
