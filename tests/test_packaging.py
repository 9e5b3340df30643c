"""Contract: what pip installs is the whole of tcu, and works: from a wheel, from a source distribution, in a clean
environment, as a command, as `python -m tcu`, and for type checkers; shells complete its commands.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

import tcu

ROOT = Path(__file__).parents[1]
SOURCES = {
    str(path.relative_to(ROOT / "src"))
    for path in (ROOT / "src/tcu").rglob("*")
    if path.is_file() and "__pycache__" not in path.parts and path.name != ".DS_Store"
}
BUILD = "import sys, setuptools.build_meta as b; print(getattr(b, 'build_' + sys.argv[1])(sys.argv[2]))"


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        [str(each) for each in command], cwd=cwd, capture_output=True, text=True, env=os.environ | environment
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def built(kind: str, tree: Path, into: Path) -> Path:
    """The file that setuptools makes of a tree, by the way that pip takes."""
    pytest.importorskip("setuptools", minversion="77", reason="needs setuptools 77, as building does")
    into.mkdir(exist_ok=True)
    return into / run(sys.executable, "-c", BUILD, kind, into, cwd=tree).split()[-1]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What building reads, without what earlier builds left."""
    folder = tmp_path_factory.mktemp("tree")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(
        ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", ".DS_Store")
    )
    return folder


@pytest.fixture(scope="module")
def wheel(tree: Path) -> Path:
    return built("wheel", tree, tree / "wheels")


@pytest.mark.slow
def test_wheel_and_source_distribution_hold_all_of_it(tree: Path, wheel: Path, tmp_path: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {name for name in names if not name.startswith(f"tcu-{tcu.__version__}.dist-info/")} == SOURCES
    source = built("sdist", tree, tmp_path / "source")
    with tarfile.open(source) as archive:
        archive.extractall(tmp_path, filter="data")
    again = built("wheel", tmp_path / f"tcu-{tcu.__version__}", tmp_path / "again")
    assert set(zipfile.ZipFile(again).namelist()) == names


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of an environment that has this wheel, and finds what it depends on where these tests do."""
    folder = tmp_path_factory.mktemp("clean") / "env"
    venv.create(folder, with_pip=True)
    found = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    run(found, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", wheel, cwd=folder)
    site = Path(
        run(found, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).strip()
    )
    dependencies = sysconfig.get_path(
        "purelib"
    )  # a folder in a .pth comes last, and tcu's own .pth in it is not read
    (site / "dependencies.pth").write_text(dependencies)
    return found


@pytest.mark.slow
def test_an_installed_tcu_works(python: Path, tmp_path: Path) -> None:
    home = {"PYTHONPATH": "", "TCU_CACHE_DIR": str(tmp_path / "cache")}
    program = "import tcu, numpy as np; print(tcu.__file__); print(tcu.sum(np.ones(1000, np.float16)), tcu.units.get_unit('H100').name)"
    where, result = run(python, "-c", program, cwd=tmp_path, **home).splitlines()
    assert Path(where).is_relative_to(python.parents[1])
    assert result == "1000.0 H100"
    (tmp_path / "x.txt").write_text("1\n2.5\n")
    for command in ([python.with_name("tcu")], [python, "-m", "tcu"]):
        assert run(*command, "--version", cwd=tmp_path, **home) == f"tcu {tcu.__version__}\n"
        assert "3.5" in run(*command, "fsum", "x.txt", cwd=tmp_path, **home)


USER = """\
import numpy as np
import tcu

x = np.ones((3, 4), np.float32)
print(tcu.sum(x, axis=0, unit="V100"), tcu.cumsum(x, dim=1), tcu.ExactSum().add(x).value())
tcu.sum(x, unti="V100")
tcu.error_bound(x).upper()
"""


@pytest.mark.slow
@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_type_checkers_read_its_types(checker: str, python: Path, tmp_path: Path) -> None:
    """Of a user's file the two mistakes are found, and nothing else."""
    (tmp_path / "user.py").write_text(USER)
    if checker == "mypy":
        pytest.importorskip("mypy", reason="needs mypy")
        command = [sys.executable, "-m", "mypy", "--strict", "--python-executable", str(python), "user.py"]
    else:
        if shutil.which("pyright") is None:
            pytest.skip("needs pyright")
        command = ["pyright", "--pythonpath", str(python), "user.py"]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": "", "MYPYPATH": ""},
    )
    lines = [int(found[1]) for found in re.finditer(r"user\.py:(\d+)(?::\d+)?(?: -)?:? error", done.stdout)]
    assert lines == [6, 7], done.stdout + done.stderr


@pytest.mark.slow(1)
@pytest.mark.parametrize(
    ("given", "expected"),
    [("tcu exp", "explain"), ("tcu sum --var", "--variant"), ("tcu cost --lat", "--latency")],
)
def test_shells_complete_commands_and_options(given: str, expected: str, tmp_path: Path) -> None:
    words = {"_TCU_COMPLETE": "complete_bash", "COMP_WORDS": given, "COMP_CWORD": str(given.count(" "))}
    assert run(sys.executable, "-m", "tcu", cwd=tmp_path, PYTHONPATH=str(ROOT / "src"), **words).split() == [
        expected
    ]


def test_the_citation_names_this_version_and_this_license() -> None:
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^version: (.+)$", text, re.M)[1] == tcu.__version__  # type: ignore[index]
    assert re.search(r"^license: (.+)$", text, re.M)[1] in (ROOT / "pyproject.toml").read_text()  # type: ignore[index]
