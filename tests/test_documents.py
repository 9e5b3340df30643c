"""Contract: what README, CONTRIBUTING, CHANGELOG and the documentation say is so.

Code blocks run and print what is shown, commands and files exist, names of
units and variants are those of the registries, and every sentence that holds a
measured figure is written from a file of benchmarks/results.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from blocks import Session, blocks
from typer.testing import CliRunner

import tcu
from tcu.algorithms import COSTS
from tcu.cli.app import app
from tcu.plan import VARIANTS
from tcu.units import CATALOGUE

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))
import readme  # noqa: E402

KINDS = ("python", "pycon", "console")
PAGES = ["README.md", *sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md"))]
LONG = ("docs/how-to/probe.md", "docs/how-to/replay.md", "docs/examples.md")
"""Pages that take 5 to 15 seconds: they infer units and reveal libraries."""
GENERATED = ("docs/report.md", "docs/benchmarks.md")
"""Whole pages from benchmarks/results; tests/test_site.py holds them to it."""
README = (ROOT / "README.md").read_text()
DOCUMENTS = {name: (ROOT / name).read_text() for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")}


@pytest.mark.slow(8)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in LONG else name for name in PAGES]
)
def test_every_code_block_runs(name: str, tmp_path: Path) -> None:
    session = Session(tmp_path, name)
    found = [block for block in blocks((ROOT / name).read_text()) if block.kind in KINDS]
    for block in found:
        if not block.missing:
            session.check(block)
    missing = sorted({need for block in found for need in block.missing})
    if missing:
        pytest.skip(
            f"{sum(bool(block.missing) for block in found)} blocks left out: need {', '.join(missing)}"
        )


def test_every_kind_of_block_is_known() -> None:
    for name in PAGES:
        for block in blocks((ROOT / name).read_text()):
            if "cluster" in block.needs:
                continue
            assert block.kind in (*KINDS, ""), f"{name}:{block.line}: {block.kind}"
            assert block.kind or re.match(r"make ", block.text), (
                f"{name}:{block.line} is not run: give it a kind"
            )


@pytest.mark.parametrize(
    "text",
    [
        "```python\n1 / 0\n```",
        "```pycon\n>>> 1 + 1\n3\n```",
        "```pycon\n1 + 1\n```",
        "```console\n$ tcu units\nno such unit\n```",
        "```console\n$ tcu units\nno ... unit\n```",
        "```console\n$ tcu units\nV100 ... Arm-EBF16\n```",  # many lines apart
        "```console\n$ tcu sum nothing.npy\n```",
        "```console\n$ ls\n```",
    ],
)
def test_a_wrong_block_is_noticed(text: str, tmp_path: Path) -> None:
    (block,) = blocks(text)
    with pytest.raises((AssertionError, ZeroDivisionError)):
        Session(tmp_path, "page").check(block)


def test_what_differs_from_machine_to_machine_is_left_open(tmp_path: Path) -> None:
    (block,) = blocks("```console\n$ tcu units V100\nNVIDIA ...   compute capability 7.0\n```")
    Session(tmp_path, "page").check(block)


def test_the_table_of_costs_is_the_registry_s() -> None:
    rows = {"matmul": ("matmul",), "strassen": ("standard", "strassen", "laderman"), "sparse_matmul": ("sparse",),
            "dft": ("dft",), "integer_multiply": ("integer", "karatsuba"), "evaluate": ("polynomial",),
            "sum": ("sum",)}  # fmt: skip
    found = re.findall(r"^\| `(\w+)`.*\| ([\d., ]+) \| ([\d., ]+) \|$", README, re.M)
    shown = {name: constants for name, *constants in found}
    assert shown == {
        name: [
            ", ".join(f"{getattr(COSTS[row], which):g}" for row in own)
            for which in ("constant", "everywhere")
        ]
        for name, own in rows.items()
    }


def test_the_table_of_gpu_sums_is_that_of_the_benchmark() -> None:
    found = "\n".join(readme.table(readme.load("gpu-sum.json")))
    assert "2^30 float16" in found
    assert found in README


# Figures


_UNITS = (
    r"%|per cent\b|TB/s|GB/s|µs\b|ms\b|s\b|seconds?\b|minutes?\b|hours?\b|joules?\b|watts?\b|times\b|BEPS\b|"
    r"ulps?\b|billion\b|outputs\b"
)
FIGURE = re.compile(rf"\d[\d.,]*(?:\s(?:to|and|or)\s\d[\d.,]*)?\s?(?:{_UNITS})")
"""A number with the unit of something that was measured."""


def prose(text: str) -> str:
    """Without code, tables, HTML, line breaks and what stands between <!-- NAME --> and <!-- end -->: that is generated."""
    text = re.sub(r"<!-- [\w-]+ -->.*?<!-- end -->", "", text, flags=re.S)
    text = re.sub(r"^( *)```.*?^\1```", "", text, flags=re.S | re.M)
    text = re.sub(r"^\|.*$|<[^>]+>", "", text, flags=re.M)
    return " ".join(re.sub(r"`[^`\n]*`", "", text).split())


def untraced(name: str, text: str) -> list[str]:
    """Figures of a document that none of the sentences from benchmarks/results accounts for."""
    text = prose(text)
    for sentence in readme.SENTENCES:
        if sentence.document == name:
            text = text.replace(prose(sentence.text), "")
    return [found[0] for found in FIGURE.finditer(text)]


@pytest.mark.parametrize("sentence", readme.SENTENCES, ids=lambda sentence: sentence.write.__name__)
def test_sentences_with_figures_are_those_of_the_results(sentence: readme.Sentence) -> None:
    assert prose(sentence.text) in prose((ROOT / sentence.document).read_text())


@pytest.mark.parametrize("name", [name for name in (*PAGES, "CONTRIBUTING.md") if name not in GENERATED])
def test_no_sentence_holds_a_figure_of_its_own(name: str) -> None:
    assert untraced(name, (ROOT / name).read_text()) == []


def test_a_figure_without_a_source_is_noticed() -> None:
    for text in (
        "It is 3 times faster.",
        "It takes 12 µs.",
        "They cost 1 to 4 % more.",
        "Reads 4.7 TB/s",
        "within 5 minutes",
    ):
        assert untraced("README.md", text), text
    assert untraced("README.md", "A block of 16 products, 2^30 numbers, binary16; `3 times`.") == []


def test_make_targets_and_files_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for text in DOCUMENTS.values():
        for target in re.findall(r"`?make (\w+)\b", text):
            if target not in ("and",):
                assert re.search(rf"^{target}:", makefile, re.M), target
        for path in re.findall(r"`((?:src|data|benchmarks|tests)/[\w./-]+)`", text):
            assert (ROOT / path).exists(), path


def test_commands_of_the_readme_exist() -> None:
    result = CliRunner().invoke(app, ["--help"])
    for command in re.findall(r"^\| `tcu (\w+)", README, re.M):
        assert command in result.output


def test_names_are_those_of_the_registries() -> None:
    for name in CATALOGUE:
        assert name in README
        assert name in DOCUMENTS["CHANGELOG.md"]
    for name in VARIANTS:
        assert f"`{name}`" in README
        assert name in DOCUMENTS["CHANGELOG.md"]


def test_the_version_is_in_the_changelog() -> None:
    assert f"## {tcu.__version__}" in DOCUMENTS["CHANGELOG.md"]
