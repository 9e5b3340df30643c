"""``tcu explain``: one dot product, drawn bit by bit.

Contract: an expression means its exact value; what a format cannot hold is
rounded once, to nearest, and reported.  The steps are those of the unit: for
every term, kept and cut bits together are its exact value, the kept ones add
up to the integer sum, and the last result is that of ``tcu.mma``.  The
experiments of paper 003 come out as they did on the hardware.  The drawing
shows these bits, fits its width, and has no escape codes where there is no
terminal.
"""

from __future__ import annotations

import html
import io
import itertools
import json
import math
import re
import shlex
import xml.etree.ElementTree as ElementTree
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text

import tcu
from tcu.cli import main
from tcu.cli.bits import Magnitude, columns_for
from tcu.cli.dot import MAX_PRODUCTS, Problem, exact_value, in_order, problem_of, trace, with_scales
from tcu.cli.drawing import draw_trace
from tcu.cli.expression import parse_expression, parse_list, parse_number
from tcu.cli.numbers import hex_float, show
from tcu.errors import ParameterError, ShapeError
from tcu.formats import decode, get_format
from tcu.report import html_page
from tcu.units import CATALOGUE, ExactInteger, find_instruction, get_unit

F16, F32 = get_format("binary16"), get_format("binary32")
TINY = 2.0**-24
ROOT = Path(__file__).parents[1]


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    """Run ``tcu explain`` in an empty folder: (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")

    def call(*arguments, command="explain"):
        code = main([*([command] if command else []), *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture
def drawing(run):
    def call(*arguments):
        code, out, err = run(*arguments)
        assert (code, err) == (0, "")
        return out

    return call


@pytest.fixture
def document(run):
    def call(*arguments):
        code, out, err = run(*arguments, "--json")
        assert (code, err) == (0, "")
        return json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))

    return call


def value_on(unit, expression=None, *, a=None, b=None, c=None, output="binary32", inputs="binary16"):
    """d as an exact number."""
    row = find_instruction(unit, "mma", inputs, inputs, output)
    problem = problem_of(expression, a, b, c, get_format(inputs), get_format(output))
    return decode(trace(problem, get_unit(unit), row).result, output).value


# Expressions


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1.5", 1.5), (".5", 0.5), ("2.", 2), ("0.1", Fraction(1, 10)), ("1e-5", Fraction(1, 100000)),
        ("2.5E+2", 250), ("2^-24", TINY), ("2^3", 8), ("2**-3", 0.125), ("2^(-3)", 0.125), ("1.5*2^-3", 0.1875),
        ("3 * 2 ^ 4", 48), ("0x1.8p-3", 0.1875), ("0x.8", 0.5), ("0xff", 255), ("-1", -1), ("−1", -1),
        ("1 - 2^-24", 1 - TINY), ("-1 + 2^-24", TINY - 1), ("1+2+3-4", 2), ("inf", math.inf), ("-Infinity", -math.inf),
        ("inf + 2^5000", math.inf),
    ],
)  # fmt: skip
def test_numbers(text, value):
    assert parse_number(text).value == value


@given(st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_numbers_in_every_notation_are_exact(x):
    assert parse_number(x.hex()).value == Fraction(x)
    assert parse_number(repr(x)).value == Fraction(repr(x))
    if x:
        assert parse_number(hex_float(Fraction(x))).value == Fraction(x)
        assert float.fromhex(hex_float(Fraction(x))) == x


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("1", [(1, None)]), ("1 + 2 - 3", [(1, None), (2, None), (-3, None)]),
        ("0.5*3 - 2*4", [(0.5, 3), (-2, 4)]), ("1.5*2^-3", [(0.1875, None)]), ("1.5×2^-3", [(1.5, 0.125)]),
        ("2^-3·2^-4", [(0.125, 0.0625)]), ("1.5*2^-3*4", [(0.1875, 4)]), ("- (1 - 2^-24)*2", [(TINY - 1, 2)]),
        ("1*(-2)", [(1, -2)]), ("(1+2^-10)*3", [(1 + 2**-10, 3)]), ("2*3*2^4", [(2, 48)]),
    ],
)  # fmt: skip
def test_expressions(text, terms):
    parsed = parse_expression(text)
    assert [(x.value, None if y is None else y.value) for x, y in parsed] == terms


@pytest.mark.parametrize(
    ("text", "at", "expected"),
    [("", 1, "a number"), ("1 +", 4, "a number"), ("1 2", 3, r"\+ or -"), ("1 + foo", 5, "a number"),
     ("(1*2)", 3, "closing parenthesis"), ("(1 + 2", 7, "closing parenthesis"), ("3^2", 2, r"\+ or -"),
     ("1*2*3", 4, r"\+ or -"), ("1 - -2", 5, "a number")],
)  # fmt: skip
def test_expressions_that_are_refused(text, at, expected):
    with pytest.raises(ParameterError, match=f"{expected} expected at character {at}"):
        parse_expression(text)


def test_lists_and_limits():
    assert [each.value for each in parse_list("1, 2^-3,1-2^-4")] == [1, 0.125, 0.9375]
    for text in ("1,,2", "1;2", "1 x"):
        with pytest.raises(ParameterError):
            parse_list(text)
    for text in ("1e6000", "2^-6000", "0x1p9999"):
        with pytest.raises(ParameterError, match="out of range"):
            parse_number(text)
    with pytest.raises(ParameterError, match="at most 4000"):
        parse_number("1" * 5000)


def test_which_terms_are_c_and_products():
    def shape(expression, c=None):
        problem = problem_of(expression, None, None, c, F16, F32)
        pairs = zip(problem.a, problem.b, strict=True)
        return float(problem.c.number), [(float(x.number), float(y.number)) for x, y in pairs]

    assert shape("4 + 2 - 3*5") == (4, [(1, 2), (-3, 5)])
    assert shape("4*2 + 1") == (0, [(4, 2), (1, 1)])
    assert shape("4 + 2", c="1 - 2^-24") == (1 - TINY, [(1, 4), (1, 2)])


def test_lists_default_to_ones():
    problem = problem_of(None, None, "2,3", None, F16, F32)
    assert [float(x.number) for x in problem.a] == [1, 1]
    assert [float(y.number) for y in problem.b] == [2, 3]
    with pytest.raises(ShapeError, match="--a has 1 numbers and --b has 2"):
        problem_of(None, "1", "2,3", None, F16, F32)
    with pytest.raises(ParameterError, match="at most 64"):
        problem_of(None, ",".join("1" * 65), None, None, F16, F32)


@pytest.mark.parametrize("name", ["binary16", "bfloat16", "binary32", "e5m2"])
@given(numerator=st.integers(-(10**9), 10**9), exponent=st.integers(-60, 20))
def test_decimals_are_rounded_once(name, numerator, exponent):
    """NumPy's own conversion from the nearest float32 or float64 may round twice; neighbours decide."""
    fmt = get_format(name)
    exact = numerator * Fraction(10) ** exponent
    problem = problem_of(None, f"{numerator}e{exponent}", None, None, fmt, F32)
    number = problem.a[0].number
    if number.kind != "finite":
        assert abs(exact) >= Fraction(fmt.max_finite) + Fraction(2) ** (fmt.emax - fmt.fraction_bits - 1)
        return
    code = problem.a[0].code & (fmt.sign_code - 1)
    for neighbour in (max(code - 1, 0), min(code + 1, fmt.max_finite_code)):
        other = decode(neighbour, fmt).value
        distance, other_distance = abs(abs(number.value) - abs(exact)), abs(other - abs(exact))
        assert (
            distance < other_distance or neighbour == code or (distance == other_distance and code % 2 == 0)
        )
    assert problem.a[0].rounded == (number.value != exact)


def test_a_tail_below_every_format_still_breaks_a_tie():
    for tail, value in (("", 1), (" + 2^-4000", 1 + 2**-10), (" - 2^-4000", 1)):
        operand = problem_of(None, f"1 + 2^-11{tail}", None, None, F16, F32).a[0]
        assert operand.number.value == value


# The experiments of paper 003


@pytest.mark.parametrize(
    ("unit", "value"),
    [("V100", 1), ("T4", 1 + 2 * TINY), ("A100", 1 + 2 * TINY), ("H100", 1 + 2 * TINY)],
)
def test_the_extra_bit(document, unit, value):
    result = document("--unit", unit, "1 + 2^-24 + 2^-24")
    assert result["units"][0]["result"] == {
        "value": value, "bits": f"{int(np.float32(value).view('u4')):#010x}",
    }  # fmt: skip
    assert result["exact"] == "0x1.000002p+0"
    assert result["ieee_in_order"]["value"] == 1
    assert result["correctly_rounded"]["value"] == 1 + 2 * TINY


def test_the_largest_addend_comes_first_whatever_the_order():
    for terms in set(itertools.permutations(["1"] + 4 * ["2^-24"])):
        assert value_on("V100", " + ".join(terms)) == 1


@pytest.mark.parametrize(
    ("b", "c", "value"),
    [
        ("1", "-1 + 2^-24", 2 * TINY),
        ("2^-24,2^-24,2^-24,2^-24", "1 - 2^-24", 1 + 2 * TINY),
        ("2^-24,2^-24,2^-24,2^-24", "1", 1),
        ("1,-2^-24", "-1 + 2^-24", 2 * TINY),
        ("1,1,1,2^-23", "1 + 2^-22 + 2^-23", 4 + 8 * TINY),
        ("2^-23,1,1,1", "1 + 2^-22 + 2^-23", 4 + 8 * TINY),
        ("1,1.5,1.75,1.875", "1.875", 8),
        ("0", "2^-149", Fraction(2) ** -149),
    ],
)
def test_the_accumulator_of_the_v100(b, c, value):
    """No guard digits, no normalisation in between, carries, monotonicity, subnormals."""
    assert value_on("V100", b=b, c=c) == value


def test_products_are_exact():
    near = "1-2^-11"
    assert value_on("V100", a=",".join([near] * 4), b=",".join([near] * 4)) == 4 * (1 - 2**-10 + 2**-22)
    assert value_on("V100", a=f"{near},{near}", b=f"{near},2^-11", output="binary16") == 1 - 2**-10 + 2**-11
    assert value_on("V100", a="2^-24", b="4") == 4 * TINY


# Steps


def random_problem(rng, fmt, output, length):
    def number(spread):
        if rng.random() < 0.1:
            return "0"
        return repr(float(rng.standard_normal() * 2.0 ** rng.integers(-spread, spread + 1)))

    a, b = (",".join(number(3) for _ in range(length)) or None for _ in "ab")
    return problem_of(None, a, b, number(6), get_format(fmt), get_format(output))


FLOATING = [
    (unit.name, row)
    for unit in CATALOGUE.values()
    for row in unit.instructions
    if not isinstance(row.arithmetic, ExactInteger) and row.a == row.b
]
"""An expression has one format for all its factors."""


def exact(text):
    return Fraction(0) if text == "0x0p+0" else parse_number(text).value


@pytest.mark.slow(8)
@pytest.mark.parametrize(("unit", "row"), FLOATING, ids=lambda each: str(getattr(each, "signature", each)))
def test_steps_end_where_the_unit_ends(unit, row):
    """tcu.mma is the fast model, written apart from the definition that is drawn."""
    rng = np.random.default_rng(11)
    x, z, w = get_format(row.a), get_format(row.output), get_format(row.c)
    for length in (1, 3, row.k, min(row.k + 2, MAX_PRODUCTS)):
        problem = with_scales(random_problem(rng, row.a, row.c, length), row, None, None)
        scales = {}
        if row.scale:
            length = -(-length // row.per_scale) * row.per_scale
            problem = with_scales(random_problem(rng, row.a, row.c, length), row, "2^-3", "0.5")
            dtype = get_format(row.scale).dtype
            both = [
                np.array([x.code for x in each], np.uint8).view(dtype)
                for each in (problem.scale_a, problem.scale_b)
            ]
            scales = {"scale_a": both[0][None, :], "scale_b": both[1][:, None]}
        traced = trace(problem, get_unit(unit), row)
        a, b = (
            np.array([operand.code << x.storage_shift for operand in side], x.code_dtype).view(x.dtype)
            for side in (problem.a, problem.b)
        )
        c = np.array([[problem.c.code]], w.code_dtype).view(w.dtype)
        d = tcu.mma(a[None, :], b[:, None], c, unit=unit, instruction=row.name, **scales)
        assert traced.result == int(d.view(z.code_dtype)[0, 0])
        assert traced.steps[-1].result == traced.result if traced.blocks == [] else True
        assert sorted(k for block in traced.blocks for k in block.products) == list(
            range(length) if traced.blocks else []
        )


@pytest.mark.parametrize(
    ("unit", "fmt"),
    [("V100", "f16"), ("A100", "f16"), ("H100", "f16"), ("L40S", "f16"), ("H100", "e4m3"), ("L40S", "e4m3")],
)
def test_kept_and_cut_bits_are_the_exact_value(document, unit, fmt):
    arguments = ["--unit", unit, "--input", fmt, "--c", "1.00001"]
    b = "2^-5,0.3,-0.017,0.4*2^-3,-3.3,0.0021,7,0.9,-0.3,2^-6"
    result = document(*arguments, "--a", "0.7,-1.1,0.3,2^-6,0.6,0.7,0.001,1,1,1", "--b", b)
    (one,) = result["units"]
    seen = 0
    for block in one["steps"]:
        if "terms" not in block or block["unit_exponent"] is None:
            continue
        unit_value = Fraction(2) ** block["unit_exponent"]
        for term in block["terms"]:
            cut = Fraction(int(term["cut"] or "0", 2), 2 ** len(term["cut"]))
            value = exact(term["exact"])
            assert (abs(term["aligned"]) + cut) * unit_value == abs(value)
            assert term["aligned"] * value >= 0
            seen += bool(term["cut"])
        assert sum(term["aligned"] for term in block["terms"]) == block["total"]
    assert seen or (unit, fmt) == ("H100", "e4m3")  # its 25 bits keep everything
    total = sum((exact(term["exact"]) for block in one["steps"] for term in block.get("terms", ())
                 if "·" in term["name"]), Fraction(0))  # fmt: skip
    assert total + Fraction(result["c"]["value"]) == exact(result["exact"])


def test_fused_chain_steps(document):
    result = document("--unit", "A100", "--input", "f64", "1 + 2^-53 + 2^-53 - 1*1")
    steps = result["units"][0]["steps"]
    assert [step["step"] for step in steps] == ["a0·b0 + c", "a1·b1 + sum", "a2·b2 + sum"]
    assert [step["result"]["value"] for step in steps] == [1, 1, 0]
    assert exact(steps[0]["exact"]) == 1 + Fraction(2) ** -53
    assert exact(result["exact"]) == Fraction(2) ** -52


def test_late_c_is_the_last_step(document):
    result = document("--unit", "H100", "--input", "e4m3", "0.1 + 1*2 + 3")
    last = result["units"][0]["steps"][-1]
    c = Fraction(float(np.float32(0.1)))
    assert last["step"] == "sum + c"
    assert exact(last["exact"]) == 5 + c
    assert last["result"]["value"] == float(np.float32(5) + np.float32(0.1))


def test_rounded_inputs_are_reported(document, drawing):
    result = document("0.1 + 0.5 + 0.3")
    assert [each["rounded"] for each in (result["c"], *result["b"])] == [True, False, True]
    assert result["b"][1] == {
        "given": "0.3", "value": float(np.float16(0.3)), "bits": "0x34cd", "rounded": True,
    }  # fmt: skip
    out = drawing("0.1 + 0.5 + 0.3")
    assert "c: 0.1 does not fit binary32" in out
    assert "b1: 0.3 does not fit binary16" in out
    assert "0.5 does not fit" not in out


# What others return


@given(st.lists(st.tuples(*[st.floats(-100, 100, width=16)] * 2), max_size=6), st.floats(-100, 100, width=32))
@settings(max_examples=50)
def test_exact_and_in_order(pairs, c):
    problem = problem_of(None, ",".join(repr(x) for x, _ in pairs) or None,
                         ",".join(repr(y) for _, y in pairs) or None, repr(c), F16, F32)  # fmt: skip
    assert exact_value(problem) == Fraction(c) + sum(Fraction(x) * Fraction(y) for x, y in pairs)
    total = np.float32(c + 0.0)  # an expression has no -0
    for x, y in pairs:
        total = np.float32(total + np.float32(x) * np.float32(y))
    assert in_order(problem, F32) == int(total.view("u4"))


def test_units_with_equal_results_stand_together(document):
    result = document("1 + 2^-24 + 2^-24")
    assert result["others"] == [
        {"units": ["V100", "T4 mma.m8n8k4", "MI250"], "value": 1.0, "bits": "0x3f800000"},
        {"units": ["T4 mma", "A100", "A30", "A2", "Ada", "L40S", "H100", "H200", "B200", "RTX-Blackwell", "MI100", "MI300", "AMX"],
         "value": 1 + 2 * TINY, "bits": "0x3f800001"},
    ]  # fmt: skip
    result = document("--unit", "H100", "--input", "e4m3", "1 + 2^-6*2^-9")
    assert [other["units"] for other in result["others"]] == [
        ["Ada", "L40S", "H100 wgmma", "H200 wgmma"], ["H100 mma", "H200 mma", "B200", "RTX-Blackwell"],
    ]  # fmt: skip


# The drawing


def test_the_drawing_of_the_paper_s_example(drawing):
    out = drawing("--unit", "V100", "1 + 2^-24 + 2^-24")
    rows = [" ".join(line.strip("│ ").split()) for line in out.splitlines()]
    zeros = "0" * 23
    assert f"c 1 0 1.{zeros}" in rows
    assert f"a0·b0 2^-24 -14 0.{zeros}│1" in rows
    assert f"a1·b1 2^-24 -14 0.{zeros}│1" in rows
    assert f"sum 1 1.{zeros}" in rows
    assert f"RZ 1 1.{zeros}" in rows
    assert f"d = 1 0x3f800000 = 0 01111111 {zeros}" in rows
    text = " ".join(rows)
    assert "a0·b0 and a1·b1 lie wholly below the last kept bit, 2^-23, and fall off." in text
    assert "The V100 returns 1, 2^-23 below the exact sum, 1 + 2^-23." in text
    assert "The T4's mma keeps 1 bit more, aligns 8 products at once and returns 1 + 2^-23." in text


def test_the_drawing_where_the_bit_is_kept(drawing):
    out = drawing("--unit", "A100", "1 + 2^-24 + 2^-24")
    assert f"0.{'0' * 23}1│" in out
    assert f"1.{'0' * 22}10│" in out
    assert "The A100 returns 1 + 2^-23, the exact sum." in out


def test_a_rounded_sum_says_which_way(drawing):
    assert "rounded down" in drawing("--unit", "A100", "1 + 2^-24")
    up = " ".join(drawing("--unit", "A100", "--output", "f16", "1 + 2^-11 + 2^-12").split())
    assert "is rounded up" in up
    assert "overflow" in drawing("--output", "f16", "65504 + 65504")


def test_blocks_follow_one_another(drawing):
    out = drawing("--unit", "V100", "1 + 1 + 1 + 1 + 1 + 2^-23*1 + 2^-24")
    assert "Block 1 of 4" in out
    assert "Block 2 of 4" in out
    assert "sum so far" in out
    assert "Block 2: a4·b4 and a5·b5 lie wholly below" in " ".join(out.replace("│", " ").split())
    assert "The other 2 blocks hold only zeros" in out


def test_gaps_are_elided(drawing):
    out = drawing("--input", "bf16", "--unit", "A100", "1 + 2^-100*1.5 + 2^-60")
    assert "│0⋯00⋯11 " in out
    assert "│0⋯1 " in out
    assert "⋯ stands for columns of zeros" in out


@pytest.mark.parametrize(
    ("expression", "texts"),
    [
        ("1 + inf*0", ["a0·b0 = inf · 0 = NaN", "d = NaN", "0x7fffffff"]),
        ("inf - inf", ["c = inf", "a0·b0 = 1 · -inf = -inf", "d = NaN"]),
        ("-inf + 1", ["c = -inf", "d = -inf", "inf in a sum gives inf"]),
        ("nan + 1", ["c = NaN", "d = NaN"]),
        ("0 + 0*5", ["Every term is zero: the sum is 0", "d = 0"]),
    ],
)
def test_special_cases(drawing, expression, texts):
    out = drawing(expression)
    for text in texts:
        assert text in out


def test_the_exponent_floor_is_named(drawing):
    out = drawing("--input", "bf16", "--unit", "H100", "0 + 2^-70*2^-70")
    assert "the unit aligns to no less than -133" in " ".join(out.replace("│", " ").split())


@pytest.mark.slow(4)
@pytest.mark.parametrize(
    ("unit", "row"), FLOATING[::3], ids=lambda each: str(getattr(each, "signature", each))
)
@pytest.mark.parametrize("width", [80, 100])
def test_the_drawing_fits(unit, row, width):
    rng = np.random.default_rng(7)
    problems = [random_problem(rng, row.a, row.c, length) for length in (0, 5, 40)]
    wide = problem_of("2^100 + 2^-14*2^-14 - 3 + 1.1*2^-8 + 7*0.3", None, None, None,
                      get_format(row.a), get_format(row.c))  # fmt: skip
    for problem in (*problems, wide):
        assert isinstance(problem, Problem)
        stream = io.StringIO()
        console = Console(file=stream, width=200)
        console.print(draw_trace(trace(problem, get_unit(unit), row), problem, [], width))
        lines = stream.getvalue().splitlines()
        assert {len(line) for line in lines} == {width}
        assert "…" not in stream.getvalue()
        # A row of bits is never wrapped: each has exactly one bar, besides the frame.
        assert all(line.count("│") <= 3 for line in lines)


@given(
    st.lists(st.tuples(st.integers(1, 2**22), st.integers(-300, 0)), min_size=1, max_size=6),
    st.integers(30, 70),
)
def test_columns_fit_and_lose_no_one_unless_they_say_so(terms, width):
    magnitudes = [Magnitude(*term) for term in terms]
    point = max(each.high for each in magnitudes)
    unit = point - 23
    columns = columns_for(point, unit, [], magnitudes, width)
    shown = {exponent for run in columns.cut for exponent in run}
    for each in magnitudes:
        row = columns.row(each, negative=False).plain
        assert len(row) <= max(width, columns.kept_width + 5)
        ones = {e for e in range(each.low, min(unit, each.high + 1)) if each.bit(e) == "1"}
        assert ones <= shown or columns.more
        kept, _, cut = row.partition("│")
        assert (
            int(kept.replace(".", "").strip() or "0", 2)
            == each.significand * Fraction(2) ** (each.lowest - unit) // 1
        )
        assert ("1" in cut) == bool(ones & shown)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"), (1, "1"), (0.375, "0.375"), (-8, "-8"), (TINY, "2^-24"), (-3 * TINY, "-3·2^-24"),
        (1 + 2 * TINY, "1 + 2^-23"), (1 - TINY, "1 - 2^-24"), (TINY - 1, "-1 + 2^-24"), (2**40, "2^40"),
        (1 + 2.0**-10 + 2.0**-22, "1 + 2^-10 + 2^-22"), (0.0299835205078125, "0.0299835205078125"),
        (0.0299835205078125 + 2.0**-30, "≈ 0.0299835214"),
        (Fraction(1) + Fraction(1, 2**200) + Fraction(1, 2**190) - Fraction(1, 2**180), "≈ 1 - 6.52e-55"),
    ],
)  # fmt: skip
def test_numbers_as_a_reader_writes_them(value, text):
    assert show(Fraction(value)) == text


@given(st.integers(-(2**70), 2**70), st.integers(-1200, 1000), st.integers(16, 40))
def test_shown_numbers_are_exact_or_marked(numerator, exponent, limit):
    value = numerator * Fraction(2) ** exponent
    text = show(value, limit, hexadecimal=True)
    if text.startswith("≈"):
        return
    assert len(text) <= max(limit, 16)
    product = re.fullmatch(r"(-?\d+)·2\^(-?\d+)", text)
    read = int(product[1]) * Fraction(2) ** int(product[2]) if product else parse_number(text).value
    assert read == value


# Output


def test_no_escape_codes_in_a_pipe_nor_with_no_color(drawing, monkeypatch):
    assert "\x1b" not in drawing("1 + 2^-24")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[31m" in drawing("1 + 2^-24") or "\x1b[1;31m" in drawing("1 + 2^-24")
    monkeypatch.setenv("NO_COLOR", "1")
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]m", drawing("1 + 2^-24"))


def test_svg_and_html_are_written_and_well_formed(drawing):
    screen = drawing("1 + 2^-24 + 2^-24", "--svg", "d.svg", "--html", "d.html")
    root = ElementTree.parse("d.svg").getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    text = "".join(root.itertext()).replace("\xa0", " ")
    assert f"0.{'0' * 23}" in text
    assert "fall off" in text
    page = Path("d.html").read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert page.rstrip().endswith("</html>")
    assert "<title>1 + 2^-24 + 2^-24 on V100</title>" in page
    assert '<meta name="viewport"' in page
    assert "prefers-color-scheme: dark" in page
    assert "://" not in page
    body = html.unescape(re.sub("<[^>]+>", "", page[page.index("<body") :]))
    for line in screen.splitlines():
        assert line.strip() in body


def test_the_page_is_coloured_and_escaped():
    drawn = Text.assemble(("<kept>", "bold green"), (" cut", "red"), (" far", "dim"), " & plain")
    assert html_page.drawing(drawn, 40) == (
        '<pre class="drawing"><span class="good bold">&lt;kept&gt;</span><span class="lost"> cut</span>'
        '<span class="dim"> far</span> &amp; plain\n</pre>'
    )
    ElementTree.fromstring(html_page.drawing(drawn, 40))


SCALED = ["--instruction", "mxf4nvf4", "--input", "e2m1"]


def test_several_units(document, drawing):
    result = document("--unit", "V100", "--unit", "h100", "--unit", "V100", "1 + 2^-24 + 2^-24")
    assert [each["unit"] for each in result["units"]] == ["V100", "H100"]
    out = drawing("--unit", "V100", "--unit", "H100", "1 + 2^-24 + 2^-24")
    assert out.count("╭") == 2
    assert out.count("the same inputs give") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nothing to explain"),
        (["1 + x"], "cannot read '1 + x'"),
        (["1", "--a", "1"], "both an expression and --a or --b"),
        (["--a", "1,2", "--b", "1"], "--a has 2 numbers and --b has 1"),
        (["1", "--unit", "V10"], "unknown unit 'V10'"),
        (["1", "--input", "f15"], "unknown format 'f15'"),
        (["1", "--unit", "V100", "--input", "bf16"], "mma of V100 does not compute bfloat16"),
        (["1", "--unit", "V100", "--instruction", "wgmma"], "unknown instruction of V100 'wgmma'"),
        (["1", "--instruction", "wgnna"], "unknown instruction 'wgnna': did you mean wgmma"),
        (["1", "--input", "e4m3", "--output", "f64"], "no unit has mma e4m3 → binary64"),
        (["1", "--unit", "A100", "--input", "u8"], "choose a floating-point --input"),
        (["1", "--untt", "V100"], "--untt"),
        ([" + ".join("1" * 66)], "65 products: explain draws at most 64"),
        (["1" * 100_000], "an expression of 100000 characters: give at most"),
        (["1", "--scale-a", "2"], "takes no scales: choose --instruction mxf8f6f4, mxf4 or mxf4nvf4"),
        (
            ["1", "--unit", "A100", "--scale", "ue8m0"],
            "scale ue8m0: mma of A100 takes no scales with binary16",
        ),
        (
            ["--a", "1", "--b", "1", *SCALED, "--scale-b", "1,2"],
            "--scale-b has 2 numbers: 32 products share one, so 1 of them take 1",
        ),
        (
            ["1", *SCALED, "--unit", "B200", "--scale", "ue8m0/8"],
            "takes ue8m0/32 or ue8m0/16 or ue4m3/16 with e2m1",
        ),
        (["1", "--svg", "none/d.svg"], "cannot write none/d.svg: there is no folder none"),
        (["1", "--html", "."], "cannot write ."),
    ],
)
def test_bad_input(run, arguments, message):
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert message in err


@pytest.mark.parametrize(
    ("arguments", "unit", "row"),
    [
        (["--input", "bf16"], "A100", "mma bfloat16 → binary32"),
        (["--input", "e4m3"], "Ada", "mma e4m3 → binary32"),
        (["--instruction", "wgmma"], "H100", "wgmma binary16 → binary32"),
    ],
)
def test_without_a_unit_the_first_that_has_the_formats_is_drawn(document, drawing, arguments, unit, row):
    assert [each["unit"] for each in document("1 + 2^-9", *arguments)["units"]] == [unit]
    words = " ".join(drawing("1 + 2^-9", *arguments).split())
    assert f"V100 has no {row}; the first unit that has it is {unit}." in words
    assert "the first unit that has it" not in drawing("1 + 2^-9")


def test_an_expression_may_begin_with_a_minus(document):
    result = document("-1 + 2^-24 + 1", "--unit", "A100")
    assert result["units"][0]["result"]["value"] == TINY
    assert document("-inf + 1")["units"][0]["result"]["value"] == "-inf"
    assert document("--c", "-1", "--b", "-2,3", "--a", "-1,1")["units"][0]["result"]["value"] == 4


def test_brief_is_the_frame_without_notes(run) -> None:
    whole, brief = (run("--unit", "V100", *given, "1 + 2^-24 + 2^-24")[1] for given in ((), ("--brief",)))
    lines = brief.rstrip().split("\n")
    assert lines[0].startswith("╭─ NVIDIA Tesla V100")
    assert lines[-1].startswith("╰")
    assert set(lines) <= set(whole.split("\n"))
    assert "unused products" in whole
    assert "unused products" not in brief
    assert "d = 1   0x3f800000" in brief


def test_the_demo_is_one_screen(run) -> None:
    """At most 40 lines of 100 columns, what make says included."""
    recipe = re.search(r"^demo:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert recipe is not None
    commands = recipe[1].splitlines()
    shown = len(commands) + 1  # and that .venv is set up
    for command in commands:
        words = shlex.split(command.replace("$(DATA)", str(ROOT / "data/mauna-loa-co2.csv")))
        assert words[0] == "$(BIN)/tcu"
        out = run(*words[1:], command=None)[1]
        shown += len(out.rstrip("\n").split("\n"))
        assert max(map(len, out.split("\n"))) <= 100
    assert shown <= 40
