"""The commands ``tcu probe`` and ``tcu infer``, as a user meets them.

Contract: both ask a unit, or with ``--module`` a function of the user's, and
show what the library found, nothing else: the table, ``--json`` (one document,
inf and NaN as strings) and ``--html`` (one page that loads nothing, balanced,
every value escaped) agree with the :class:`Probe` or :class:`Inference`.
``infer`` exits with 0 where the target is identified and 1 where it is not,
and then shows the inputs on which the model is wrong.  ``probe --all`` has the
answer of every unit that has the format.  Bad input, the user's function
included, gives one line on stderr, exit code 2, and never a traceback.
"""

from __future__ import annotations

import io
import json
import math
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from tcu.cli import main, probe_page, probing, progress
from tcu.formats import get_format
from tcu.probes.finding import Case, Finding, Probe
from tcu.probes.infer import Counterexample, Inference, Pinned
from tcu.probes.target import Operation, as_target
from tcu.units import (
    CATALOGUE,
    AlignedSum,
    Evidence,
    ExactBlock,
    ExactInteger,
    FusedChain,
    Instruction,
    LateSum,
    Unit,
    units_with,
)

MODULE = """
import numpy as np
import tcu

def a100(a, b, c):
    return tcu.mma(a, b, c, unit="A100")

def in_place(a, b, c):
    print("working")
    c[:] = tcu.mma(a, b, c, unit="A100")
    a[:] = 0
    return c

def scaled(a, b, c, scale_a, scale_b):
    return tcu.mma(a, b, c, unit="B200", instruction="mxf4", scale_a=scale_a, scale_b=scale_b)

def foreign(a, b, c):
    return (a.astype("f8") @ b.astype("f8") + c).astype("f4") * np.float32(1 - 2**-23)

def raises(a, b, c):
    raise ValueError("two\\nlines")

def leaves(a, b, c):
    raise SystemExit(0)

def row(a, b, c):
    return c[0]

def double(a, b, c):
    return c.astype("f8")

def ragged(a, b, c):
    return [[1], [1, 2]]

number = 3
globals()["<script>alert(1)<&"] = a100
"""


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    """Run the program in a folder that holds mine.py: (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "110")
    Path("mine.py").write_text(MODULE, encoding="utf-8")

    def call(*arguments):
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture
def refusal(run):
    """The message of a run that must fail with exit code 2 and one line."""

    def call(*arguments):
        code, out, err = run(*arguments)
        assert (code, out) == (2, "")
        assert err.startswith("error: ")
        assert err.count("\n") == 1
        return err

    return call


def strict(text):
    return json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


class Page(HTMLParser):
    """Its tags must nest; keeps the text, and what else a page could load."""

    VOID = ("meta",)

    def __init__(self, html):
        super().__init__()
        self.open, self.text, self.tags = [], [], []
        self.feed(html)
        self.close()
        assert self.open == [], "tags that are never closed"
        assert not {"script", "link", "img", "iframe"} & set(self.tags)

    def handle_starttag(self, tag, attributes):
        assert not {"src", "href", "onclick"} & {name for name, _ in attributes}
        self.tags.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)

    def __contains__(self, text):
        return text in "".join(self.text)


def page(path):
    html = Path(path).read_text(encoding="utf-8")
    assert html.startswith("<!DOCTYPE html>")
    return Page(html)


@pytest.mark.parametrize("broken", ["<p><b></p></b>", "<p>", "<img src='x'>", "<p onclick='x()'></p>"])
def test_the_page_parser_rejects_what_it_should(broken):
    with pytest.raises(AssertionError):
        Page(broken)


# A probe made by hand, to compare what is shown with what is there

F16, F32 = get_format("binary16"), get_format("binary32")
CASES = (
    Case((2.0**-24,) * 3, (1.0, 1.0, 0.5), 1.0, 0x3F800000, {"cut": 0x3F800000, "to nearest": 0x3F800001}),
    Case((math.inf,), (0.0,), math.nan, 0x7FFFFFFF, {}),
)
FINDINGS = (
    Finding("rounding mode", "paper 003, Rounding modes", "How is it rounded?", CASES, "RZ", "Toward zero."),
    Finding("extra bits", "paper 003, Extra bits", "How many <extra> bits?", (), 1, "One & no more [bold]."),
    Finding("carry", "after paper 003", "Is there a carry bit?", (), True, "There is."),
    Finding("floor", "after paper 003", "Where is the floor?", (), None, "It cannot tell."),
)


def hand_made(name="A100 mma binary16 → binary32", findings=FINDINGS):
    return Probe(name, F16, F32, 16, "aligned", findings)


@pytest.fixture
def found(monkeypatch):
    """Every probe is the one made by hand; keeps what was asked."""
    calls = []

    def probe(target, **parameters):
        calls.append(target)
        return hand_made()

    monkeypatch.setattr(probing, "probe", probe)
    return calls


def test_the_table_shows_every_finding(run, found):
    code, out, err = run("probe", "a100")
    assert (code, err) == (0, "")
    for each in FINDINGS:
        assert each.name in out
        assert each.conclusion in out
        assert each.source in out
    assert "k = 16" in out
    assert "0x3f800001" not in out
    assert [asked.name for asked in found] == ["A100 mma binary16 → binary32"]


def test_a_narrow_terminal_has_no_room_for_sources(run, found, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    out = run("probe", "A100")[1]
    assert "Toward zero." in out
    assert "paper 003" not in out
    assert max(map(len, out.splitlines())) <= 80


def test_verbose_shows_inputs_bits_and_predictions(run, found):
    lines = [line.split() for line in run("probe", "A100", "-v")[1].splitlines()]
    assert ["a", "2^-24", "(3", "times)"] in lines
    assert ["b", "1", "(2", "times),", "0.5"] in lines
    assert ["returned", "1", "0x3f800000"] in lines
    assert ["cut", "1", "0x3f800000", "✓", "agrees"] in lines
    assert ["to", "nearest", "1", "+", "2^-23", "0x3f800001"] in lines
    assert ["a", "inf"] in lines
    assert ["c", "NaN"] in lines


def test_formats_reach_the_library(run, found, monkeypatch):
    run("probe", "H100", "--instruction", "wgmma", "--input", "bf16", "--output", "f32")
    run("probe", "T4", "--output", "half")
    run("probe", "--module", "mine.py:a100", "--input", "f32", "--k", "6")
    assert [(asked.name, asked.k) for asked in found] == [
        ("H100 wgmma bfloat16 → binary32", 16), ("T4 mma binary16 → binary16", 8), ("mine.py:a100", 6),
    ]  # fmt: skip
    assert (found[2].input.name, found[2].output.name) == ("tf32", "binary32")
    given = []
    monkeypatch.setattr(probing, "as_target", lambda *a, **k: given.append((a, k)) or found[0])
    run("probe", "GPU", "--k", "16")
    how = {"instruction": "mma", "input": "binary16", "output": None, "k": 16, "scale": None}
    assert given == [(("gpu",), how)]


def test_scales_reach_the_library(run, found):
    """A unit's instruction has its own; the first that the catalogue has, unless --scale names another."""
    run("probe", "B200", "--instruction", "mxf4nvf4", "--input", "e2m1")
    run("probe", "B200", "--instruction", "mxf4nvf4", "--input", "e2m1", "--scale", "ue4m3/16")
    run("probe", "--module", "mine.py:scaled", "--input", "e2m1", "--k", "64", "--scale", "ue8m0/16")
    rows = [row for row in CATALOGUE["B200"].instructions if row.name == "mxf4nvf4"]
    own = [(asked.scale.name, asked.per_scale) for asked in found]
    assert own == [(rows[0].scale, rows[0].per_scale), ("ue4m3", 16), ("ue8m0", 16)]


@pytest.mark.slow
def test_a_function_of_scales_is_identified(run):
    asked = ("--module", "mine.py:scaled", "--input", "e2m1", "--k", "64", "--scale", "ue8m0/32")
    code, out, _ = run("infer", *asked, "--outputs", "20000", "--seed", "1", "--json")
    assert (code, strict(out)["parameters"]["kind"]) == (0, "GroupedSum")


def test_probe_json(run, found):
    document = strict(run("probe", "A100", "--json")[1])
    assert list(document) == ["target", "input", "second", "output", "k", "kind", "findings"]
    assert [document[key] for key in list(document)[1:6]] == [
        "binary16",
        "binary16",
        "binary32",
        16,
        "aligned",
    ]
    assert [each["value"] for each in document["findings"]] == ["RZ", 1, True, None]
    first = document["findings"][0]
    assert set(first) == {"name", "source", "question", "value", "conclusion", "cases"}
    assert first["cases"][0] == {
        "a": [2.0**-24] * 3, "b": [1, 1, 0.5], "c": 1, "returned": "0x3f800000", "returned_value": 1,
        "predictions": {"cut": "0x3f800000", "to nearest": "0x3f800001"}, "agreeing": ["cut"],
    }  # fmt: skip
    special = first["cases"][1]
    assert (special["a"], special["c"], special["returned_value"]) == (["inf"], "nan", "nan")


def test_probe_page(run, found):
    assert run("probe", "A100", "--html", "page.html")[0] == 0
    shown = page("page.html")
    assert shown.tags.count("details") == len(FINDINGS)
    for each in FINDINGS:
        for text in (each.name, each.source, each.question, each.conclusion):
            assert text in shown
    assert "0x3f800001" in shown
    assert "prefers-color-scheme: dark" in shown


def test_a_name_is_escaped_on_the_page(run, monkeypatch):
    monkeypatch.setattr(probing, "probe", lambda target: replace(hand_made(), target=target.name))
    name = "<script>alert(1)<&"
    assert run("probe", "--module", f"mine.py:{name}", "--k", "4", "--html", "page.html")[0] == 0
    assert f"mine.py:{name}" in page("page.html")
    assert "<script" not in Path("page.html").read_text(encoding="utf-8")


# All units


def test_the_comparison_has_the_answers_of_every_unit(run, monkeypatch):
    def probe(target, **parameters):
        extra = {"V100": 0, "T4": 1}.get(target, 2)
        findings = (Finding("extra bits", "s", "q", (), extra, "c"), *FINDINGS[2:])
        return hand_made(target, findings[: 3 if target != "B200" else 2])

    monkeypatch.setattr(probing, "probe", probe)
    blocks = strict(run("probe", "--all", "--json")[1])
    assert [(each["input"], each["output"]) for each in blocks[:2]] == [
        ("binary16", "binary32"), ("binary16", "binary16"),
    ]  # fmt: skip
    assert [each["input"] for each in blocks[2:]] == ["bfloat16", "tf32", "e4m3", "e5m2", "binary64"]
    assert blocks[0]["units"] == units_with("mma")
    assert blocks[4]["units"] == ["Ada", "L40S", "H100", "H200", "B200", "RTX-Blackwell"]
    values = {each["name"]: each["values"] for each in blocks[0]["findings"]}
    assert [values["extra bits"][unit] for unit in ("V100", "T4", "A100")] == [0, 1, 2]
    assert "B200" not in values["floor"]

    lines = [line.split() for line in run("probe", "--all", "--html", "page.html")[1].splitlines()]
    assert ["extra", "bits", "0", "1", "2", "2"] in lines
    assert ["carry", "yes", "yes", "yes", "yes"] in lines
    assert ["floor", "?", "?", "?", "–"] in lines
    assert page("page.html").tags.count("table") == len(blocks) + 1


def test_cells_that_differ_from_the_first_column_are_marked():
    probes = {
        unit: hand_made(unit, (Finding("bits", "s", "q", (), bits, "c"), FINDINGS[3]))
        for unit, bits in (("V100", 0), ("A100", 1), ("A30", 1))
    }
    grid = probe_page.comparison_grid(probe_page.Comparison("mma", "binary16", "binary32", probes))
    assert grid.header == ("experiment", "V100", "A100 A30")
    assert grid.rows[0] == [("bits", "name"), ("0", ""), ("1", "differs")]
    assert grid.rows[1] == [("floor", "name"), ("?", "dim"), ("?", "dim")]


def test_one_instruction_of_all_units(run, found):
    blocks = strict(run("probe", "--all", "--instruction", "wgmma", "--json")[1])
    assert {unit for block in blocks for unit in block["units"]} == {"H100", "H200"}


# Inference


@pytest.mark.slow
def test_a_function_is_identified(run, tmp_path):
    before = list(sys.path)
    code, out, _ = run("infer", "--module", "mine.py:in_place", "--input", "f16", "--output", "f32", "--k", "16",
                       "--outputs", "20000", "--seed", "1", "--json", "--html", "page.html")  # fmt: skip
    document = strict(out)
    assert code == 0
    assert list(document) == [
        "target", "identified", "parameters", "pinned", "tried", "different", "counterexample", "conclusion",
        "asked", "bound", "not_asked",
    ]  # fmt: skip
    assert document["target"] == "mine.py:in_place"
    assert document["identified"] is True
    kind = document["parameters"].pop("kind")
    row = next(row for row in CATALOGUE["A100"].instructions if row.output == "binary32")
    assert kind == "AlignedSum"
    # No product of binary16 numbers reaches the floor of binary32 results.
    found = AlignedSum(**document["parameters"])
    assert replace(found, exponent_floor=None) == replace(row.arithmetic, exponent_floor=None)
    assert document["tried"] >= 20000
    assert sum(document["asked"].values()) == document["tried"]
    assert document["asked"]["carries"] == 8 * 128
    assert document["bound"] == 3 / document["tried"]
    assert len(document["not_asked"]) == 5
    assert (document["different"], document["counterexample"]) == (0, None)
    assert set(document["pinned"][0]) == {"parameters", "conclusion", "candidates", "dots"}
    assert document["conclusion"] in page("page.html")
    assert sys.path == before


@pytest.mark.slow
def test_a_foreign_function_is_not(run):
    code, out, err = run("infer", "--module", "mine.py:foreign", "--k", "4", "--outputs", "20000", "--seed", "1",
                         "--json")  # fmt: skip
    document = strict(out)
    assert (code, err) == (1, "")
    assert document["identified"] is False
    example = document["counterexample"]
    assert list(example) == ["a", "b", "c", "target", "model"]
    assert len(example["a"]) == len(example["b"]) == 4
    assert example["target"]["bits"] != example["model"]["bits"]
    a, b = (np.array([int(x["bits"], 16) for x in example[key]], "u2").view("f2") for key in "ab")
    c = np.array([[int(example["c"]["bits"], 16)]], "u4").view("f4")
    namespace = {}
    exec(MODULE, namespace)
    with np.errstate(all="ignore"):
        d = namespace["foreign"](a[None, :], b[:, None], c)
    assert f"0x{int(d.view('u4')[0, 0]):08x}" == example["target"]["bits"]


def inference(arithmetic, identified=True, example=None, formats=("binary16", "binary16", "binary32")):
    row = Instruction("mma", *formats, (16, 8, 4), arithmetic, (Evidence("user", "it's <inferred>"),))
    unit = Unit("inferred, arithmetic=x", "inferred", "unknown", "-", (row,)) if identified else None
    stages = (Pinned("blocks and order", "2 of 64 are never wrong", 64, 7680),)
    return Inference("T4 <x>", identified, unit, arithmetic, stages, 4096, 0 if identified else 17, example,
                     "identified: so" if identified else "not identified: why")  # fmt: skip


def test_b_of_a_counterexample_is_decoded_in_its_own_format():
    """0x3c is 1.5 in E4M3, and 1 in E5M2."""
    example = Counterexample((0x3C, 0), (0x3C, 0), 0, 0, 1)
    known = inference(AlignedSum(4, 23, "RZ"), identified=False, example=example)
    asked = Operation(get_format("e4m3"), get_format("binary32"), 2, second=get_format("e5m2"))
    document = probe_page.inference_document(known, asked)["counterexample"]
    assert (document["a"][0]["value"], document["b"][0]["value"]) == (1.5, 1)
    rows = list(probe_page.inference_grids(known, asked))[-1][1].rows
    assert [(row[0][0], row[1][0]) for row in rows[:2]] == [("a[0]", "1.5"), ("b[0]", "1")]
    assert "e4m3·e5m2 → binary32" in probe_page.inference_page(known, asked)


def test_scales_of_a_counterexample_are_shown():
    example = Counterexample((0x2,), (0x2,), 0, 0, 1, (0x80,), (0x7F,))
    known = inference(AlignedSum(4, 23, "RZ"), identified=False, example=example)
    asked = Operation(get_format("e2m1"), get_format("binary32"), 1, scale=get_format("ue8m0"), per_scale=1)
    document = probe_page.inference_document(known, asked)["counterexample"]
    assert (document["scale_a"][0]["value"], document["scale_b"][0]["value"]) == (2, 1)
    names = [row[0][0] for row in list(probe_page.inference_grids(known, asked))[-1][1].rows]
    assert names == ["a[0]", "b[0]", "scale a[0]", "scale b[0]", "c", "target", "model"]


@pytest.mark.parametrize(
    "arithmetic",
    [
        AlignedSum(4, 23, "RZ", 0, 13, (0, 2, 1, 3), True),
        AlignedSum(4, 23, "RNE"),
        FusedChain(),
        FusedChain((3, 2, 1, 0), rounded_products=True),
        ExactInteger(),
        LateSum(4, 24, 31),
        ExactBlock(4),
    ],
)
def test_the_python_expression_builds_the_unit(arithmetic):
    formats = {FusedChain(): ("binary64",) * 3, ExactInteger(): ("u8", "s8", "s32")}
    known = inference(arithmetic, formats=formats.get(arithmetic, ("binary16", "binary16", "binary32")))
    namespace = {}
    exec(probe_page.unit_expression(known.unit), namespace)
    assert namespace["unit"] == known.unit


def test_an_identification_in_text(run, monkeypatch):
    monkeypatch.setattr(probing, "infer", lambda *_, **__: inference(AlignedSum(4, 23, "RZ", late_c=True)))
    code, out, err = run("infer", "T4", "--html", "page.html")
    assert (code, err) == (0, "")
    lines = [line.split()[:3] for line in out.splitlines()]
    assert ["block", "4", "products"] in lines
    assert ["late_c", "yes", "c"] in lines
    assert ["compared", "4,096"] in lines
    assert ["different", "0"] in lines
    assert "2 of 64 are never wrong" in out
    expression = out[out.index("from tcu.units") :]
    namespace = {}
    exec(expression, namespace)
    assert namespace["unit"] == inference(AlignedSum(4, 23, "RZ", late_c=True)).unit
    shown = page("page.html")
    assert "T4 <x>" in shown
    assert "it's <inferred>" in shown


def test_the_parameters_of_a_chain_in_text(run, monkeypatch):
    known = inference(FusedChain((3, 2, 1, 0), rounded_products=True))
    monkeypatch.setattr(probing, "infer", lambda *_, **__: known)
    code, out, _ = run("infer", "T4")
    assert code == 0
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "arithmetic FusedChain products added to c one by one, each sum rounded" in lines
    assert "order 3, 2, 1, 0 in which the k of one instruction are added" in lines
    assert "rounded_products yes a product is rounded before it is added: not fused" in lines


def test_a_counterexample_in_text(run, monkeypatch):
    example = Counterexample((0x3F802000, 0, 0, 0), (0x3F800000, 0, 0, 0), 1, 0x7F800000, 0x7FFFFFFF)
    known = inference(AlignedSum(4, 23, "RZ"), False, example)
    monkeypatch.setattr(probing, "infer", lambda *_, **__: known)
    code, out, _ = run("infer", "A100", "--input", "tf32", "--html", "page.html")
    assert code == 1
    lines = [line.split() for line in out.splitlines()]
    assert ["a[0]", "1", "+", "2^-10", "0x3f802000"] in lines
    assert ["b[0]", "1", "0x3f800000"] in lines
    assert ["c", "2^-149", "0x00000001"] in lines
    assert ["target", "inf", "0x7f800000"] in lines
    assert ["model", "NaN", "0x7fffffff"] in lines
    assert not any(line[:1] == ["a[1]"] for line in lines)
    assert "0x3f802000" in page("page.html")
    document = strict(run("infer", "A100", "--input", "tf32", "--json")[1])
    assert document["counterexample"]["a"][0] == {"value": 1 + 2**-10, "bits": "0x3f802000"}
    assert document["counterexample"]["model"] == {"value": "nan", "bits": "0x7fffffff"}


@pytest.mark.parametrize("terminal", [False, True])
def test_the_stage_is_said_where_somebody_watches(monkeypatch, terminal):
    screen = Console(file=io.StringIO(), force_terminal=terminal)
    monkeypatch.setattr(progress, "error_console", lambda: screen)
    with progress.waiting("inferring f") as say:
        say("blocks [and] order")
    assert ("inferring f: blocks [and] order" in screen.file.getvalue()) == terminal


# A function of the user's


@pytest.mark.slow
def test_a_function_is_probed_like_the_unit_it_wraps(run):
    code, out, err = run("probe", "--module", "mine.py:in_place", "--k", "16", "--json")
    assert code == 0
    assert set(err.split()) == {"working"}, "what the function prints must not enter the document"
    mine = strict(out)["findings"]
    theirs = strict(run("probe", "A100", "--json")[1])["findings"]
    assert [each["value"] for each in mine] == [each["value"] for each in theirs]


@pytest.mark.slow
def test_a_module_of_a_package(run):
    Path("package").mkdir()
    Path("package/__init__.py").write_text("", encoding="utf-8")
    Path("package/inner.py").write_text("from mine import a100 as f", encoding="utf-8")
    assert run("probe", "--module", "package.inner:f", "--k", "4", "--json")[0] == 0
    for name in ("package", "package.inner", "mine"):
        sys.modules.pop(name, None)


@pytest.mark.slow
def test_a_file_finds_its_neighbours_and_shadows_nothing(run):
    Path("sub").mkdir()
    Path("sub/neighbour_of_mine.py").write_text(MODULE, encoding="utf-8")
    Path("sub/json.py").write_text("from neighbour_of_mine import a100 as f", encoding="utf-8")
    assert run("probe", "--module", "sub/json.py:f", "--k", "4", "--json")[0] == 0
    assert sys.modules["json"] is json
    sys.modules.pop("neighbour_of_mine")


def test_the_function_gets_the_declared_arrays():
    seen = []

    def f(a, b, c):
        seen.append((a, b, c))
        return c

    target = as_target(probing._guarded("f", f), input="bf16", output="f32", k=5)
    target.dots([[1.0]], [[2.0]], [3.0])
    assert [(x.shape, str(x.dtype)) for x in seen[0]] == [
        ((1, 5), "bfloat16"), ((5, 1), "bfloat16"), ((1, 1), "float32"),
    ]  # fmt: skip


@pytest.mark.parametrize("command", ["probe", "infer"])
@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("mine.py:raises", ["mine.py:raises", "ValueError", "two lines"]),
        ("mine.py:leaves", ["mine.py:leaves", "SystemExit"]),
        ("mine.py:row", ["mine.py:row returned float32 (8,)", "float32 (16, 8)"]),
        ("mine.py:double", ["mine.py:double returned float64"]),
        ("mine.py:ragged", ["mine.py:ragged raised ValueError"]),
        ("mine.py:number", ["number is of type int, not a function"]),
        ("mine.py:foreing", ["unknown function of mine.py 'foreing'", "did you mean foreign?"]),
        ("empty.py:f", ["empty.py defines no function"]),
        ("broken.py:f", ["loading it raised SyntaxError"]),
        ("none.py:f", ["there is no file none.py"]),
        ("nowhere.at_all:f", ["ModuleNotFoundError", "nowhere"]),
        ("mine.py", ["FILE.py:NAME"]),
        (":f", ["FILE.py:NAME"]),
    ],
)  # fmt: skip
def test_a_function_that_cannot_be_asked(refusal, command, module, words):
    Path("empty.py").touch()
    Path("broken.py").write_text("def f(:", encoding="utf-8")
    before = list(sys.path)
    message = refusal(command, "--module", module, "--k", "16")
    for word in words:
        assert word in message
    assert sys.path == before


@pytest.mark.parametrize("command", ["probe", "infer"])
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["either a TARGET", "or --module"]),
        (["A100", "--module", "mine.py:a100", "--k", "4"], ["either a TARGET", "or --module"]),
        (["--module", "mine.py:a100"], ["--module needs --k"]),
        (["--module", "mine.py:a100", "--k", "4", "--instruction", "mma"], ["--instruction"]),
        (["A100", "--k", "4"], ["--k belongs to"]),
        (["A10"], ["unknown unit 'A10'", "A100"]),
        (["mine.py:a100"], ["give it as --module mine.py:a100, and --k"]),
        (["V100", "--input", "bf16"], ["bfloat16", "binary16 → binary32"]),
        (["V100", "--input", "f15"], ["unknown format 'f15'", "binary16"]),
        (["V100", "--output", "f64"], ["binary64", "V100"]),
        (["V100", "--instruction", "wgmma"], ["wgmma", "V100", "mma"]),
        (["--module", "mine.py:a100", "--k", "0"], ["--k", "--help"]),
        (["--module", "mine.py:a100", "--k", "4", "--input", "s8", "--output", "f32"], ["s8 into binary32"]),
        (["--module", "mine.py:a100", "--k", "4", "--output", "tf32"], ["binary16 into tf32"]),
        (["B200", "--instruction", "mxf4", "--input", "e2m1", "--scale", "ue8m0"], ["such as ue8m0/32"]),
        (
            ["B200", "--instruction", "mxf4", "--input", "e2m1", "--scale", "ue8m0/8"],
            ["8 to a scale", "32 to a"],
        ),
        (
            ["B200", "--instruction", "mxf4", "--input", "e2m1", "--scale", "ue8m1/32"],
            ["unknown format 'ue8m1'"],
        ),
        (
            ["gpu", "--input", "e2m1", "--scale", "ue8m0/32"],
            ["tcu runs no instruction with scales on the gpu"],
        ),
        (["V100", "--html", "no/such/page.html"], ["cannot write no/such/page.html"]),
        (["V100", "--html", "."], ["cannot write ."]),
    ],
)
def test_bad_input(refusal, command, arguments, words):
    message = refusal(command, *arguments)
    for word in words:
        assert word in message


@pytest.mark.parametrize(
    "extra",
    [["A100"], ["--module", "mine.py:a100"], ["--input", "bf16"], ["--k", "4"], ["--scale", "ue8m0/32"]],
)
def test_all_takes_no_target(refusal, extra):
    assert "--all probes every unit" in refusal("probe", "--all", *extra)


def test_other_bad_input(refusal, found):
    assert "unknown instruction 'wmgma'" in refusal("probe", "--all", "--instruction", "wmgma")
    assert "--seed" in refusal("infer", "A100", "--seed", "-1")
    assert "--outputs" in refusal("infer", "A100", "--outputs", "0")
    if Path("/dev/full").exists():
        assert "cannot write /dev/full" in refusal("probe", "A100", "--html", "/dev/full")


def test_help_tells_the_exit_codes(run):
    out = run("infer", "--help")[1]
    assert "0 identified, 1 not identified, 2 bad input" in out
