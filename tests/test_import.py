"""Contract: what is imported where.

Importing tcu is quick and has no side effects.  Its modules import each other
downwards, as CONTRIBUTING's table of layers has them, never in a circle, and at
the top of a module, but for the few that load late what is heavy; a command
loads the modules of no other.  Nothing that runs on the CPU asks for what only
Linux has.
"""

from __future__ import annotations

import ast
import inspect
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from typer.main import get_command

import tcu
from tcu.cli.app import COMMANDS, app

REPOSITORY = Path(__file__).parents[1]
SOURCES = REPOSITORY / "src"


def fresh(code: str, folder: Path | None = None, **environment: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=folder or REPOSITORY,
        env=os.environ | environment,
    ).stdout  # fmt: skip


def test_import_adds_less_than_300_ms_to_numpy(tmp_path: Path) -> None:
    """Of the processor's time: what other programs do meanwhile is not counted; from bytecode, as after installation."""
    code = "import time, numpy; start = time.process_time(); import tcu; print(time.process_time() - start)"
    kept = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(tmp_path)}
    fresh(code, **kept)  # writes the bytecode
    assert min(float(fresh(code, **kept)) for _ in range(3)) < 0.3


def test_formats_of_ml_dtypes_load_it_when_they_are_met() -> None:
    """Importing version 0.7.0 takes longer than all else together."""
    code = (
        "import sys, numpy as np, tcu, tcu.machine; x = np.ones(9, np.float32); tcu.sum(x); tcu.fsum(x, dtype='float16'); tcu.fft.fft(x); "
        "print('ml_dtypes' in sys.modules); print(tcu.sum(x, dtype='bfloat16').dtype, tcu.machine.ShapeArray(3, 'float8_e5m2').dtype, 'ml_dtypes' in sys.modules)"
    )
    assert fresh(code).split() == ["False", "bfloat16", "float8_e5m2", "True"]


def test_import_loads_no_compiler_and_no_command_line() -> None:
    loaded = json.loads(fresh("import json, sys, tcu; print(json.dumps(sorted(sys.modules)))"))
    heavy = {
        "numba", "llvmlite", "typer", "rich", "torch", "cupy", "cuda", "platformdirs", "scipy", "plotly", "dask", "zarr",
    }  # fmt: skip
    assert not heavy & set(loaded)


def test_import_leaves_no_trace(tmp_path: Path) -> None:
    code = "import os; before = dict(os.environ); import tcu; print(before == dict(os.environ))"
    assert fresh(code, tmp_path).strip() == "True"
    assert list(tmp_path.iterdir()) == []


def test_all_operators_are_there_when_asked_for(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)
    names = ("sum", "dot", "sum_along", "fsum_along", "cumsum", "segment_cumsum", "segment_fmean", "fft")
    code = f"import torch, tcu.torch; print([hasattr(torch.ops.tcu, name) for name in {names}])"
    assert json.loads(fresh(code).lower()) == [True] * len(names)
    save = (
        "import torch, tcu\n"
        "class M(torch.nn.Module):\n"
        "    def forward(self, x): return tcu.segment_sum(tcu.cumsum(x), torch.tensor([0, 2, 4]))\n"
        "torch.export.save(torch.export.export(M(), (torch.ones(4),)), 'saved.pt2')"
    )
    load = "import torch, tcu.torch; print(torch.export.load('saved.pt2').module()(torch.ones(4)).tolist())"
    fresh(save, tmp_path)
    assert json.loads(fresh(load, tmp_path)) == [3, 7]


def test_the_machine_is_imported_when_it_is_asked_for() -> None:
    code = "import sys, tcu; print('tcu.machine' in sys.modules); tcu.Machine(16); print('tcu.machine' in sys.modules)"
    assert fresh(code).split() == ["False", "True"]
    assert {"Machine", "algorithms", "integers", "sum"} <= set(dir(tcu))
    assert tcu.algorithms.dft
    pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)
    assert fresh("import tcu; print(tcu.torch.reproducible.__name__)").strip() == "reproducible"
    with pytest.raises(AttributeError, match="module 'tcu' has no attribute 'machines'"):
        tcu.machines  # noqa: B018


def test_transforms_are_imported_when_they_are_asked_for() -> None:
    code = "import sys, tcu; print('tcu.surfaces.fft' in sys.modules); tcu.fft.rfft; print('torch' in sys.modules)"
    assert fresh(code).split() == ["False", "False"]
    assert fresh("from tcu.fft import fft; import tcu; print(tcu.fft.fft is fft)").strip() == "True"


def test_every_error_is_a_tcu_error() -> None:
    from tcu import errors

    kinds = [
        kind for kind in vars(errors).values() if isinstance(kind, type) and kind.__module__ == "tcu.errors"
    ]
    assert len(kinds) == 11
    assert all(issubclass(kind, tcu.TcuError) for kind in kinds)
    assert str(errors.UnknownNameError("plain words")) == "plain words"


# Which module imports which


@dataclass(frozen=True)
class Import:
    """One statement, or one call of ``import_module``."""

    importer: str
    imported: tuple[str, ...]
    """Modules of tcu."""
    late: bool
    """It stands in a function."""


def name_of(path: Path) -> str:
    parts = path.relative_to(SOURCES).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path.read_text(encoding="utf-8") for path in SOURCES.rglob("*.py")}

FOREIGN = {
    "tcu.gpu.imports": "CUDA's packages",
    "tcu.streams.chunked": "the packages of file formats",
    "tcu.cli.foreign": "a module of the user's",
    "tcu.study.libraries": "the libraries that it reveals",
}
"""Modules that import by a name which their text does not hold, and never one of tcu's."""
CHOSEN = {
    "tcu": set(tcu._LATER.values()),
    "tcu.cli.app": {f"tcu.cli.{module}" for module, _ in COMMANDS.values()},
    "tcu.model.compiled": {
        f"tcu.model.{name}" for text in MODULES.values() for name in re.findall(r'\bload\("(\w+)"\)', text)
    },
}  # fmt: skip
"""Modules that import one of these, by a table."""
LATE = {
    ("tcu", "tcu.algorithms"): "most programs do without",
    ("tcu", "tcu.distributed"): "most programs do without",
    ("tcu", "tcu.fft"): "most programs do without",
    ("tcu", "tcu.probes"): "most programs do without",
    ("tcu", "tcu.streams"): "most programs do without",
    ("tcu", "tcu.torch"): "imports PyTorch",
    ("tcu.engines.choice", "tcu.engines.cuda"): "half as long to import as the rest of tcu, for arrays on a GPU alone",
    ("tcu.surfaces.call", "tcu.surfaces.torch.run"): "imports PyTorch, and registers its operators",
    ("tcu.surfaces.call", "tcu.surfaces.dask"): "imports Dask",
    ("tcu.surfaces.matmul", "tcu.surfaces.torch.matmul, tcu.surfaces.torch.segment_matmul"): "imports PyTorch, and registers its operators",
    ("tcu.surfaces.matmul", "tcu.surfaces.dask_matmul"): "imports Dask",
    ("tcu.surfaces.fft_arrays", "tcu.surfaces.torch.fft"): "imports PyTorch, and registers an operator",
    ("tcu.surfaces.fft_arrays", "tcu.surfaces.dask_fft"): "imports Dask",
    ("tcu.surfaces.index_sums", "tcu.surfaces.dask_index_sums"): "imports Dask",
    ("tcu.surfaces.polyval", "tcu.surfaces.torch.polyval"): "imports PyTorch, and registers an operator",
    ("tcu.distributed.reductions", "tcu.distributed.on_gpu"): "imports PyTorch",
    ("tcu.streams.passes", "tcu.streams.on_gpu"): "imports tcu.engines.cuda",
    ("tcu.study.gpu", "tcu.study.gpu.gemm, tcu.study.gpu.reductions"): "imports PyTorch",
    **dict.fromkeys((("tcu.model.compiled", name) for name in sorted(CHOSEN["tcu.model.compiled"])), "imports Numba"),
}  # fmt: skip
"""(module, what a function of it imports) → why not at its top.  Modules of a table count as one: those that Numba compiles,
those that tcu hands on, and the commands' besides."""


def imports_of(importer: str, text: str) -> Iterator[Import]:
    def walk(node: ast.AST, late: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            names: list[str] = []
            if isinstance(child, ast.Import):
                names = [alias.name for alias in child.names]
            elif isinstance(child, ast.ImportFrom):
                assert child.level == 0, f"{importer}:{child.lineno}: write the whole name"
                whole = [f"{child.module}.{alias.name}" for alias in child.names]
                names = [name if name in MODULES else str(child.module) for name in whole]
            elif isinstance(child, ast.Call) and _called(child) in ("import_module", "__import__"):
                yield from (Import(importer, (name,), late) for name in _by_name(importer, child))
            own = tuple(dict.fromkeys(name for name in names if name.partition(".")[0] == "tcu"))
            assert MODULES.keys() >= set(own), own
            if own:
                yield Import(importer, own, late)
            yield from walk(
                child, late or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            )

    yield from walk(ast.parse(text), False)


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _by_name(importer: str, call: ast.Call) -> list[str]:
    """What a call of ``import_module`` imports of tcu."""
    given = call.args[0]
    parts = given.values if isinstance(given, ast.JoinedStr) else [given]
    start = parts[0].value if isinstance(parts[0], ast.Constant) else None
    if isinstance(start, str) and start.partition(".")[0] != "tcu":
        return []
    if isinstance(given, ast.Constant):
        return [str(start)]
    assert importer in CHOSEN or importer in FOREIGN, f"{importer}:{call.lineno}: what does it import?"
    return sorted(CHOSEN.get(importer, ()))


@cache
def all_imports() -> list[Import]:
    return [each for importer, text in MODULES.items() for each in imports_of(importer, text)]


@pytest.mark.slow
def test_no_modules_import_each_other_in_a_circle() -> None:
    """Of all imports: in functions and for type checkers, too."""
    graph: dict[str, set[str]] = {}
    for each in all_imports():
        graph.setdefault(each.importer, set()).update(each.imported)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


@pytest.mark.slow
def test_what_functions_import_is_heavy_and_listed() -> None:
    commands = {("tcu.cli.app", module) for module in CHOSEN["tcu.cli.app"]}
    found = {(each.importer, ", ".join(each.imported)) for each in all_imports() if each.late}
    assert found == set(LATE) | commands
    assert len(LATE) - sum(len(CHOSEN[table]) for table in ("tcu", "tcu.model.compiled")) + 3 <= 15
    assert sum(each.late for each in all_imports()) == len(found), "one statement twice"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("def f():\n    from tcu import gpu", [("tcu.gpu", True)]),
        ("def f():\n    return [import_module('tcu.gpu')]", [("tcu.gpu", True)]),
        ("class A:\n    def f(self):\n        __import__('tcu.gpu')", [("tcu.gpu", True)]),
        ("if TYPE_CHECKING:\n    import tcu.gpu", [("tcu.gpu", False)]),
        ("try:\n    from tcu.gpu.device import Gpu\nexcept ImportError: ...", [("tcu.gpu.device", False)]),
        ("import numpy, tcuda\nimport_module('numpy')\nimport_module(f'plotly.{name}')", []),
    ],
)
def test_every_way_to_import_is_seen(text: str, found: list[tuple[str, bool]]) -> None:
    assert [(name, each.late) for each in imports_of("tcu", text) for name in each.imported] == found


def test_a_name_that_the_text_does_not_hold_is_noticed() -> None:
    with pytest.raises(AssertionError, match="what does it import"):
        list(imports_of("tcu.plan", "import_module(name)"))


def test_layers_import_downwards_only() -> None:
    """CONTRIBUTING's table of layers, top to bottom; tcu itself has the functions of the surfaces."""
    table = (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")
    layers = re.findall(r"^\| `(\w+)` \|", table, re.M)
    assert set(layers) == {path.parent.name for path in (SOURCES / "tcu").glob("*/__init__.py")}
    floors = {name: layers.index(name) for name in layers} | dict.fromkeys(
        ("errors", "unfinished", "version"), 99
    )
    above = dict.fromkeys(("__main__", "fft", "stubs", "torch"), -1)

    def floor(module: str) -> int:
        place = module.split(".")[1] if "." in module else "dispatch"
        return (floors | above | {"dispatch": floors["surfaces"]})[place]

    for each in all_imports():
        if each.importer != "tcu":  # it hands on what is above it, too
            for imported in each.imported:
                assert floor(each.importer) <= floor(imported), f"{each.importer} imports {imported}"


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_says_what_a_command_does(name: str) -> None:
    module, headline = COMMANDS[name]
    command = getattr(import_module(f"tcu.cli.{module}"), f"{name}_command")
    assert " ".join((inspect.getdoc(command) or "").split("\n\n")[0].split()) == headline
    late = get_command(app).commands[name]
    assert late.loaded.help == inspect.getdoc(command)


@pytest.mark.slow(1)
@pytest.mark.parametrize(
    ("command", "loaded"),
    [("--help", ()), ("units", ("tcu.cli.catalogue",)), ("explain", ("tcu.cli.explain", "tcu.cli.catalogue")), ("sum", ("tcu.cli.sums", "tcu.cli.reductions"))],
)  # fmt: skip
def test_a_command_loads_no_other(command: str, loaded: tuple[str, ...]) -> None:
    arguments = [command] if command in ("--help", "units") else [command, "--help"]
    code = f"import json, sys; from tcu.cli import main; main({arguments}); print(json.dumps(sorted(sys.modules)))"
    found = set(json.loads(fresh(code).splitlines()[-1]))
    assert found & CHOSEN["tcu.cli.app"] == set(loaded)
    assert not found & {
        "tcu.study",
        "tcu.report.page",
        "tcu.calibration",
        "tcu.algorithms",
        "tcu.engines.cuda",
        "numba",
    }


@pytest.mark.slow(1)
@pytest.mark.parametrize("command", [True, False])
def test_a_sum_by_command_loads_no_scipy_and_a_program_may_use_it(command: bool, tmp_path: Path) -> None:
    pytest.importorskip("scipy.linalg", reason="needs SciPy")
    np.save(tmp_path / "x.npy", np.ones(1 << 17, np.float32))
    call = "from tcu.cli import main; main(['sum', PATH])" if command else "tcu.sum(np.load(PATH))"
    code = (
        f"import json, sys, numpy as np, tcu; PATH = {str(tmp_path / 'x.npy')!r}; {call}; "
        "import numba.np.arraymath as n; print(json.dumps([n._HAVE_BLAS, 'scipy.linalg' in sys.modules, "
        "'scipy.linalg.cython_blas' in sys.modules]))"
    )
    assert json.loads(fresh(code).splitlines()[-1]) == [not command] * 3


# On other systems

NEED_OPTIONAL = (
    "tcu.torch",
    "tcu.surfaces.torch",
    "tcu.surfaces.dask",
    "tcu.distributed.on_gpu",
    "tcu.study.gpu",
)
"""Modules, and packages of them, that need what tcu can do without."""
EVERYTHING = """
import contextlib, importlib, io, json, pkgutil, sys
import numpy as np
import tcu
from tcu.cli import main

missing = {}
for module in pkgutil.walk_packages(tcu.__path__, "tcu."):
    try:
        importlib.import_module(module.name)
    except ModuleNotFoundError as error:
        missing[module.name] = error.name.partition(".")[0]

def said(*arguments):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert main(arguments) == 0, arguments
    return out.getvalue()

x = np.random.default_rng(1).standard_normal(100_000).astype(np.float16)
np.save("x.npy", x)
with open("x.csv", "w", encoding="utf-8") as file:
    file.write("größe\\n" + "".join(f"{each}\\n" for each in x[:1000].tolist()))
a, b = x[:4096].reshape(64, 64), x[4096:8192].reshape(64, 64)
found = [
    float(tcu.sum(x)).hex(), float(tcu.fsum(x)).hex(), float(tcu.dot(x, x)).hex(), tcu.error_bound(x).hex(),
    tcu.cumsum(x).tobytes().hex(), tcu.mma(a, b).tobytes().hex(), repr(tcu.probe("V100")), repr(tcu.infer("A100").arithmetic),
    float(tcu.Machine(256).matmul(a.astype(float), b.astype(float)).sum()).hex(),
    said("sum", "x.npy"), said("sum", "x.npy", "--json", "--checkpoint", "state", "--checkpoint-every", "0"),
    said("sum", "x.csv", "--column", "größe", "--json"), said("units"), said("explain", "1 + 2^-24"),
    said("cumsum", "x.npy", "-o", "y.npy"), said("cumsum", "x.npy", "-o", "z.npy", "--checkpoint", "scan"),
    said("cost", "dft", "--n", "1024", "--sweep", "curve.csv"), np.load("y.npy").tobytes().hex(), np.load("z.npy").tobytes().hex(),
]
print(json.dumps([missing, found]))
"""


@pytest.mark.slow
def test_nothing_on_the_cpu_asks_for_what_only_linux_has(tmp_path: Path) -> None:
    done = {}
    for place, start in (("here", ""), ("elsewhere", "import elsewhere; elsewhere.move()")):
        folder = tmp_path / place
        folder.mkdir()
        answer = subprocess.run(
            [sys.executable, "-X", "warn_default_encoding", "-c", f"{start}\n{EVERYTHING}"],
            capture_output=True, text=True, check=False, cwd=folder,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(SOURCES), str(REPOSITORY / "tests")]), "COLUMNS": "100"},
        )  # fmt: skip
        assert answer.returncode == 0, answer.stderr
        done[place] = json.loads(answer.stdout)
    (_, here), (missing, found) = done["here"], done["elsewhere"]
    assert found == here
    assert set(missing.values()) == {"torch", "dask"}
    assert all(name.startswith(NEED_OPTIONAL) for name in missing)
