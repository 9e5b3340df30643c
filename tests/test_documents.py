"""Contract: what README, CONTRIBUTING and CHANGELOG say is so.

Code blocks run, commands and files exist, the sample output is what the
command prints, and names of units and variants are those of the registries.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tcu
from tcu.algorithms import COSTS
from tcu.cli.app import app
from tcu.plan import VARIANTS
from tcu.units import CATALOGUE

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
DOCUMENTS = {name: (ROOT / name).read_text() for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")}


def test_python_blocks_run_in_order() -> None:
    namespace: dict[str, object] = {}
    blocks = re.findall(r"```python\n(.*?)```", README, re.S)
    assert len(blocks) == 3
    for block in blocks:
        exec(compile(block, "README.md", "exec"), namespace)


def test_the_table_of_costs_is_the_registry_s() -> None:
    rows = {"matmul": ("matmul",), "strassen": ("standard", "strassen", "laderman"), "sparse_matmul": ("sparse",),
            "dft": ("dft",), "integer_multiply": ("integer", "karatsuba"), "evaluate": ("polynomial",),
            "sum": ("sum",)}  # fmt: skip
    shown = dict(re.findall(r"^\| `(\w+)`.*\| ([\d., ]+) \|$", README, re.M))
    assert shown == {name: ", ".join(f"{COSTS[row].constant:g}" for row in own) for name, own in rows.items()}


def test_the_table_of_gpu_sums_is_that_of_the_benchmark() -> None:
    found = subprocess.run(
        [sys.executable, ROOT / "benchmarks" / "readme.py"], capture_output=True, text=True, check=True
    ).stdout
    assert "2^30 float16" in found
    assert found in README


def test_sample_output_is_what_the_commands_print(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    samples = re.findall(r"```\n\$ tcu (.*?)\n(.*?)```", README, re.S)
    assert len(samples) == 2
    for command, shown in samples:
        arguments = re.findall(r'"([^"]*)"|(\S+)', command)
        result = CliRunner(env={"COLUMNS": "80"}).invoke(
            app, [quoted or plain for quoted, plain in arguments]
        )
        assert result.exit_code == 0
        for line in shown.splitlines():
            assert line.rstrip() in result.output


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


def test_layers_import_downwards_only() -> None:
    """CONTRIBUTING's table of layers, top to bottom."""
    layers = re.findall(r"^\| `(\w+)` \|", DOCUMENTS["CONTRIBUTING.md"], re.M)
    folders = {path.name for path in (ROOT / "src" / "tcu").iterdir() if (path / "__init__.py").is_file()}
    assert set(layers) == folders
    for path in (ROOT / "src" / "tcu").glob("*/*.py"):
        for imported in re.findall(r"^\s*from tcu\.(\w+)", path.read_text(), re.M):
            if imported in layers:
                assert layers.index(imported) >= layers.index(path.parent.name), f"{path.name}: {imported}"
