"""Contract: the documentation has everything, is generated where it can be, and builds without a warning.

A reader finds each public function, each command, each unit and each error.
The pages kept in the repository are those that docs/generated.py writes from
benchmarks/results, and sections of others those that it writes from the table of
operations.  The built site loads nothing from elsewhere.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import pkgutil
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from typer.testing import CliRunner

import tcu
from tcu.cli.app import app
from tcu.cli.catalogue import brief
from tcu.errors import TcuError
from tcu.plan import SCAN_VARIANTS
from tcu.report import mma_errors
from tcu.study import ABSENT, PAPERS, named
from tcu.units import CATALOGUE, AlignedSum, find_instruction

ROOT = Path(__file__).parents[1]
LAZY = ("distributed", "integers", "streams")
API = (ROOT / "docs" / "reference" / "api.md").read_text()
FFT = (ROOT / "docs" / "reference" / "fft.md").read_text()
ERRORS = (ROOT / "docs" / "reference" / "errors.md").read_text()


@pytest.fixture(scope="module")
def pages() -> ModuleType:
    """docs/generated.py, whose folder is no package."""
    spec = importlib.util.spec_from_file_location("generated", ROOT / "docs" / "generated.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def described(page: str) -> set[str]:
    return set(re.findall(r"^::: ([\w.]+)$", page, re.M))


def test_every_public_name_is_described() -> None:
    public = {name for name in dir(tcu) if not name.startswith("_")} - {"TcuError", "TYPE_CHECKING"}
    # Packages that are imported one by one are described by their names; those below are asked for on tcu itself.
    public -= {name for name in public if isinstance(getattr(tcu, name), ModuleType) and name not in LAZY}
    assert public - {"TcuError"} <= {name.removeprefix("tcu.") for name in described(API)}
    assert {f"tcu.fft.{name}" for name in tcu.fft.__all__} <= described(FFT)


@pytest.mark.parametrize("name", sorted(described(API) | described(FFT)))
def test_what_is_described_exists_and_has_a_docstring(name: str) -> None:
    if name.startswith(("tcu.torch", "tcu.distributed")):
        pytest.importorskip("torch", reason="PyTorch is not installed")
    assert pkgutil.resolve_name(name).__doc__


def test_every_error_is_described() -> None:
    for module in pkgutil.walk_packages(tcu.__path__, "tcu."):
        if not module.name.endswith("__main__"):
            with contextlib.suppress(ModuleNotFoundError):  # what an extra brings
                importlib.import_module(module.name)

    def kinds(base: type) -> set[type]:
        return {base}.union(*(kinds(each) for each in base.__subclasses__()))

    own = {kind for kind in kinds(TcuError) if kind.__module__.startswith("tcu.")}
    assert len(own) > 12
    assert {kind.__module__ for kind in own} <= described(ERRORS) | {
        name.rpartition(".")[0] for name in described(ERRORS)
    }


def test_every_command_and_option_is_listed(pages: ModuleType) -> None:
    text = pages.commands_markdown()
    overview = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["--help"]).output
    commands = re.findall(r"^│ (\w+) ", overview, re.M)
    assert len(commands) >= 10
    for command in commands:
        assert f"## tcu {command}\n" in text
        section = text.split(f"## tcu {command}\n")[1].split("\n## ")[0]
        printed = CliRunner(env={"COLUMNS": "200"}).invoke(app, [command, "--help"]).output
        for option in re.findall(r"│ \*? *(--[\w-]+)", printed):
            assert option == "--help" or option in section, f"{command} {option}"


def test_every_unit_and_instruction_is_listed(pages: ModuleType) -> None:
    text = pages.units_markdown()
    for unit in CATALOGUE.values():
        section = text.split(f"## {unit.name}\n")[1].split("\n## ")[0]
        assert unit.title in section
        assert section.count("\n| ") == len(unit.instructions) + 2


@pytest.mark.slow
def test_no_mma_errs_more_than_is_proved(pages: ModuleType) -> None:
    """Every arithmetic of floating formats is in the table; most bounds are within four times of what was found."""
    text = pages.mma_errors_markdown()
    near = 0
    found = list(mma_errors.rows())
    for units, row in found:
        error = mma_errors.measured(row)
        assert 0 <= error.typical <= error.found <= error.proved, f"{units} {row.signature}"
        near += error.proved <= 4 * error.found
        assert f"| {row.name} {brief(row.a)} → {brief(row.output)}, k = {row.k} |" in text
    assert near > len(found) / 2
    assert len({row.arithmetic for _, row in found}) > 25


def test_the_bound_of_another_arithmetic_is_exceeded() -> None:
    """A unit that keeps two bits fewer than its row says errs more than the row's bound."""
    for unit in ("V100", "A100", "H100"):
        row = find_instruction(unit, "mma", "binary16", "binary16")
        assert isinstance(row.arithmetic, AlignedSum)
        poorer = replace(row.arithmetic, fraction_bits=row.arithmetic.fraction_bits - 2)
        assert mma_errors.measured(replace(row, arithmetic=poorer)).found > mma_errors.bound(row)


@pytest.mark.parametrize(
    ("page", "writer"), [("report.md", "report_markdown"), ("benchmarks.md", "benchmarks_markdown")]
)
def test_generated_pages_are_up_to_date(pages: ModuleType, page: str, writer: str) -> None:
    given = (pages.chapters(),) if writer == "report_markdown" else ()
    written = getattr(pages, writer)(*given)
    assert (ROOT / "docs" / page).read_text() == written, "run python docs/generated.py"


def test_what_is_made_from_the_table_of_operations_is_up_to_date(pages: ModuleType) -> None:
    written = [path.read_text() for path in (ROOT / "docs" / "reference").glob("*.md")]
    assert [pages.filled(page) for page in written] == written, "run python docs/generated.py"
    for name, section in pages.SECTIONS.items():
        found = (
            f"<!-- Written by docs/generated.py: {name} -->\n\n{section()}\n\n<!-- Written until here -->\n"
        )
        assert "".join(written).count(found) == 1, name
        assert pages.filled(found.replace("`sum`", "`sums`").replace("tcu.", "")) == found


def test_the_benchmark_page_has_every_file_of_results(pages: ModuleType) -> None:
    text = pages.benchmarks_markdown()
    for path in (ROOT / "benchmarks" / "results").iterdir():
        assert path.is_dir() or f"(`{path.name}`)" in text, path.name


def test_a_file_that_was_not_measured_leaves_its_section_out(
    pages: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pages.benchmarks_markdown()  # which puts the folder of benchmarks on the path
    module = sys.modules["page"]
    shutil.copy(ROOT / "benchmarks" / "results" / "cpu.json", tmp_path)
    monkeypatch.setattr(module, "RESULTS", tmp_path)
    titles = re.findall(r"^## (.*)$", pages.benchmarks_markdown(), re.M)
    assert titles == ["The model on a CPU"]


def test_peers_that_are_faster_at_whole_sums_and_products_are_in_the_first_table(pages: ModuleType) -> None:
    text = pages.benchmarks_markdown()
    assert re.findall(r"^## (.*)$", text, re.M)[0] == "Where a peer is faster"
    module = sys.modules["page"]
    sums = [
        {"dtype": "float16", "n": 1 << 20, "cache": "cold", "participant": who, "events": {"tb_per_s": speed}}
        for who, speed in (("tcu.sum", 1.0), ("tcu.fsum", 9.0), ("read alone, one", 9.0), ("torch", 2.0))
    ]
    products = {
        "dtype": "float16", "result": "float16", "shape": [16, 16, 16],
        "participants": {"tcu, chunks": {"tflop_per_s": 3.0}, "cuBLAS": {"tflop_per_s": 4.0}},
    }  # fmt: skip
    times = {"tcu, chunks": {"tflop_per_s": 3.0}, "torch, grouped": {"tflop_per_s": 3.2}}
    grouped = products | {"segments": 8, "participants": times}
    lines = list(module.faster_peers({
        "gpu-sum": {"figures": {"rows": sums}}, "gpu-matmul": {"figures": {"points": [products]}},
        "gpu-grouped": {"figures": {"points": [grouped]}},
    }))  # fmt: skip
    assert lines[0].startswith("Of 3 points")
    compiled = {**sums[0], "participant": "torch.compile", "events": {"tb_per_s": 1.5}}
    took_part = list(module.faster_peers({"gpu-sum": {"figures": {"rows": [*sums, compiled]}}}))
    assert took_part[-1] == "| tcu.sum, float16, 2^20 numbers | 1.00 | 2.00 | torch | `gpu-sum.json` | 0.50 |"
    rows = [
        {
            "function": "softmax",
            "dtype": "float32",
            "length": 1000,
            "tb_per_s": 1.0,
            "of_copy": 0.5,
            "peer_tb_per_s": 2.0,
            "peer": "eager",
        }
    ]
    times = {
        "tcu": {"tb_per_s": 1.0, "median": 2e-6},
        "torch, atomics": {"tb_per_s": 4.0, "median": 5e-7},
        "bincount": {"missing": "no"},
    }
    points = [
        {"dtype": "float32", "n": 100, "columns": 1, "slots": 8, "indices": "even", "participants": times}
    ]
    values = [
        {"dtype": "float64", "n": 100, "points": 10**4, "microseconds": 2.0, "horner_microseconds": 1.5, "over_horner": 0.75,
         "share_of_cores": 0.03, "call_microseconds": 20.0}
    ]  # fmt: skip
    documents = {
        "gpu-row-functions": {"figures": {"rows": rows}},
        "gpu-index-sums": {"figures": {"points": points}},
        "gpu-polynomials": {"figures": {"polynomials": values}},
    }
    assert list(module.faster_peers(documents))[-3:] == [
        "| tcu.index_sum, float32, 100 × 1 → 8, even | 1.00 | 4.00 | torch, atomics | `gpu-index-sums.json` | 0.25 |",
        "| tcu.softmax, float32, rows of 1,000 | 1.00 | 2.00 | torch, eager | `gpu-row-functions.json` | 0.50 |",
        "| tcu.polyval, float64, 100 coefficients at 10,000 points | 1.00 | 1.33 | Horner's rule | `gpu-polynomials.json` | 0.75 |",
    ]
    of_a_run = {"machine": {"gpu": "a GPU"}, "date": "2026-01-01", "command": "a command"}
    documents = {name: {**of_a_run, **each} for name, each in documents.items()}
    assert (
        list(module.row_functions(documents))[-2] == "| float32 | 1,000 | softmax | 1.00 (0.50) | 2.00 | – |"
    )
    assert (
        list(module.polynomials(documents))[-2] == "| float64 | 100 | 10,000 | 2.0 | 1.5 | 0.75 | 3% | 20 |"
    )
    backward = {**rows[0], "direction": "backward", "state": "just produced", "peer": "torch.compile"}
    documents["gpu-row-functions"]["figures"] = {"rows": [*rows, backward]}
    assert (
        list(module.row_functions(documents))[-2]
        == "| float32 | 1,000 | softmax, backward, just produced | 1.00 (0.50) | – | 2.00 |"
    )
    assert (
        list(module.index_sums(documents))[-2] == "| float32 | 100 × 1 → 8 | even | 2 (1.00) | 0 (4.00) | – |"
    )
    assert "at these 3," in lines[0]
    assert lines[-3:] == [
        "| tcu.sum, float16, 2^20 numbers | 1.00 | 2.00 | torch (without torch.compile) | `gpu-sum.json` | 0.50 |",
        "| tcu.matmul, float16→float16, 16 × 16 × 16 | 3.00 | 4.00 | cuBLAS | `gpu-matmul.json` | 0.75 |",
        "| tcu.segment_matmul, 8 segments, float16→float16, 16 × 16 × 16 | 3.00 | 3.20 | torch, grouped | `gpu-grouped.json` | 0.94 |",
    ]


def test_torch_compile_has_a_column_and_is_named_where_it_did_not_take_part(pages: ModuleType) -> None:
    readme, module = sys.modules["readme"], sys.modules["page"]
    speeds = {"read alone, one": 4.6, "tcu.sum": 4.573, "torch": 4.25, "torch.compile": 4.581}
    rows = [
        {"dtype": "float16", "n": 1 << 30, "cache": "cold", "participant": who, "events": {"tb_per_s": speed}}
        for who, speed in speeds.items()
    ]
    header, _, row, *others = readme.table({"figures": {"rows": rows}})
    cells = dict(zip(header.split(" | "), row.split(" | "), strict=True))
    assert (cells["PyTorch"], cells["`torch.compile`"], cells["`tcu.sum`"]) == ("4.25", "4.58", "4.57")
    assert len(others) == 3
    without = readme.table({"figures": {"rows": rows[:-1]}})[2].split(" | ")
    assert without[header.split(" | ").index("`torch.compile`")] == "–"

    def cell(**rates: float) -> str:
        participants = {who.replace("_", "."): {"tb_per_s": rate} for who, rate in rates.items()}
        told: str = module._cell({"participants": participants})
        return told

    assert cell(tcu_sum=2.0, torch=1.0) == "2.00 (2.00 × torch (without torch.compile))"
    assert cell(tcu_sum=2.0, torch=1.0, torch_compile=0.5) == "2.00 (2.00 × torch)"
    assert cell(tcu_sum=2.0, torch=0.5, torch_compile=1.0) == "2.00 (2.00 × torch.compile)"


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")  # of PyTorch's own
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_torch_compile_takes_part_in_sums_of_every_size(dtype: str) -> None:
    pytest.importorskip("torch", reason="needs PyTorch")
    import gpu_sum

    from tcu.study.gpu.peers import Field, gather

    nobody = SimpleNamespace(cub=lambda dtype: Field([], {}), baselines=lambda dtype: Field([], {}))
    field = gather(dtype, nobody, variants=False, compiled=True)  # type: ignore[arg-type]
    assert "torch.compile" not in field.missing, field.missing
    (compiled,) = [one for one in field.participants if one.name == "torch.compile"]
    sizes = [n for n in (*gpu_sum.SIZES, *gpu_sum.LARGEST.values()) if n <= gpu_sum.LARGEST[dtype]]
    assert [n for n in sizes if compiled.sizes is not None and n not in compiled.sizes] == []


def test_the_section_of_long_integers(pages: ModuleType) -> None:
    pages.benchmarks_markdown()  # which puts the folder of benchmarks on the path
    module = sys.modules["page"]
    points = [
        {"bits": 2048, "count": 1000, "participants": {"tcu, limbs": {"median": 2e-6}, "GMP, ready-made": {"median": 3e-3}}},
        {"levels": 12, "rows": 8, "participants": {"tcu": {"median": 1e-6}}},
    ]  # fmt: skip
    of_a_run = {"machine": {"gpu": "a GPU"}, "date": "2026-01-01", "command": "a command"}
    lines = list(module.long_integers({"gpu-integers": {**of_a_run, "figures": {"points": points}}}))
    assert "| 1,000 products | 2,048 | 2.0 | 3,000.0 |" in lines
    assert "| 8 × 2^12 | 1.0 | 32.8 |" in lines


def test_programs_stand_beside_the_fastest_other_and_the_memory(pages: ModuleType) -> None:
    pages.benchmarks_markdown()
    rows = [
        {"n": 1 << 16, "unit": "u8", "m": 256, "microseconds": 90.0, "share_of_peak": 0.5, "share_of_memory": 0.1},
        {"n": 1 << 16, "unit": "u8", "m": 4096, "microseconds": 60.0, "share_of_peak": 0.251, "share_of_memory": 0.75},
        {"n": 1 << 16, "unit": "a library", "microseconds": 40.0},
        {"n": 1 << 16, "unit": "another", "microseconds": 50.0},
        {"n": 100, "unit": "u8", "m": 16, "microseconds": 700.0, "share_of_peak": 0.01},
        {"n": 100, "unit": "a library", "microseconds": 7.0},
    ]  # fmt: skip
    assert sys.modules["page"]._fastest(rows, ("n",))[2:] == [
        "| 2^16 | tcu, u8, m = 4096 | 60 µs | 1.5 | 25.1% | 45 µs |",
        "| 2^16 | a library | 40 µs | – | – | – |",
        "| 2^16 | another | 50 µs | – | – | – |",
        "| 100 | tcu, u8, m = 16 | 700 µs | 100 | 1.0% | – |",
        "| 100 | a library | 7 µs | – | – | – |",
    ]


def test_every_statement_of_the_report_has_its_verdict(pages: ModuleType) -> None:
    text = pages.report_markdown(pages.chapters())
    for chapter in pages.chapters():
        assert f'<a id="{chapter.study.name}"></a>\n\n### {chapter.study.title}\n' in text
        if chapter.result is None:
            assert f"Missing: {chapter.why}. `{chapter.command}`" in text
        for verdict in chapter.shown.verdicts:
            assert pages.cell(named(verdict.statement)) in text
        for verdict in chapter.shown.verdicts:
            assert (
                verdict.outcome != "differs"
                or f"**{verdict.word}**: {pages.cell(named(verdict.why))}" in text
            )
    assert "NVIDIA H200" in text
    assert "| figure 7 | ≠ ✓ ≠ ≠ ✓ ✓ |" in text
    for where, what in ABSENT:
        assert where.split(",")[0].removeprefix("paper ") in PAPERS
        assert f"| {named(where)} | {what} |" in text
    assert not re.search(r"[Pp]aper \d", text), "papers have names"


def test_no_scan_that_is_a_variant_is_called_absent() -> None:
    """What is not here of scans on tensor cores can only be their times."""
    assert any(row.uses_mma for row in SCAN_VARIANTS.values())
    for _, what in ABSENT:
        assert "scan" not in what or what.startswith("times of"), what


def test_the_site_builds_without_a_warning_and_loads_nothing(tmp_path: Path) -> None:
    for package in ("material", "mkdocstrings", "plotly"):
        pytest.importorskip(package, reason="needs pip install 'tcu[docs,plot]'")
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        capture_output=True, text=True, cwd=ROOT, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stderr
    site = tmp_path / "site"
    api = (site / "reference" / "api" / "index.html").read_text()
    for name in described(API):
        assert f'id="{name}"' in api
    assert 'id="tcu.distributed.functions.fsum"' in api
    assert 'id="tcu.streams.functions.cumsum"' in api
    for sentence in (
        "Leave the axes that were summed in the result",
        "equal\nneighbours make an empty segment",
    ):
        assert sentence.lower() in api.lower(), "the docstrings of functions that are made from the table"
    errors = (site / "reference" / "errors" / "index.html").read_text()
    for kind in ("UnknownNameError", "ShapeError", "DataFileError", "NoGpuError", "CompileError"):
        assert f'.{kind}"' in errors
    for page in site.rglob("*.html"):
        loaded = re.findall(
            r'<(?:script|img|iframe|link rel="stylesheet")[^>]+(?:src|href)="([^"]+)"', page.read_text()
        )
        assert not [address for address in loaded if address.startswith(("http", "//"))], page
    assert "explorer-form" in (site / "explorer.html").read_text()
    for name in re.findall(
        r"pictures/([\w-]+)\.svg",
        (ROOT / "docs/gallery.md").read_text() + (ROOT / "docs/numerics.md").read_text(),
    ):
        assert len((site / "pictures" / f"{name}.svg").read_text()) > 2000, name


def test_a_decoder_is_shown_with_its_parts(pages: ModuleType) -> None:
    steps = {"plain": 0.1, "compiled": 0.08, "reproducible": 0.2}
    size = {"width": 2048, "layers": 8, "batch": 32, "tokens": 512}
    parts = [{"part": "norm", "count": 17, "seconds": dict.fromkeys(steps, 1e-3)}]
    figures = {"size": size, "steps": steps, "parts": parts, "uncovered": []}
    document = {
        "machine": {"gpu": "a GPU"}, "date": "2026-01-01", "command": "a command", "figures": figures,
    }  # fmt: skip
    lines = list(sys.modules["page"].decoder({"gpu-decoder": document}))
    assert "Not covered: nothing." in lines[2]
    assert lines[-3:-1] == ["| a step |  | 100.0 | 80.0 | 200.0 |", "| norm | 17 | 17.0 | 17.0 | 17.0 |"]
