"""Contract: no bit that an operation returns changes unnoticed, and neither does the order of a plan's additions.

The table of tests/golden.py (tests/data/golden-*.json) has the bits of every operation, layout and format, of units of
every arithmetic, for lengths on both sides of every border of the plans; the CPU's model, and a GPU, return them.  A
changed order fails here, or comes with a new version of its plan.

That the table sees a change is shown by planting one: each constant that decides an order (found in the sources, so that
a new one without a planted change fails), and each default of a variant.  What CUDA knows of the plans is what they say.
"""

from __future__ import annotations

import ast
import importlib
import importlib.machinery
import importlib.util
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from inspect import isfunction
from pathlib import Path
from types import ModuleType
from typing import Any

import golden
import numpy as np
import pytest
from cuda_on_host import compiler_or_skip
from golden import Case, all_cases, differences, key, table
from gpu_support import gpu_or_skip, library_or_skip, unit_or_skip

import tcu
from tcu.errors import DataFileError, DtypeError, ParameterError
from tcu.formats import get_format
from tcu.gpu import scans, segments, sums, tuning
from tcu.gpu.compiler import read_sources
from tcu.model.elements import Elements
from tcu.model.execute import execute
from tcu.ops import OPERATIONS
from tcu.ops.layout import Along, Ragged, Whole
from tcu.plan import (
    DEFAULT_VARIANT,
    OWN_VARIANTS,
    SCAN_VARIANTS,
    SEGMENTED,
    VARIANTS,
    VERSIONS,
    Plan,
    ScanPlan,
    make_dot_plan,
    make_matmul_plan,
    make_plan,
    make_scan_plan,
    scan_plan,
)
from tcu.plan.fft import fft_plan
from tcu.plan.scan import radix
from tcu.streams.checkpoint import Checkpoint
from tcu.units import CATALOGUE, get_unit

PLANS = Path(tcu.plan.__file__).parent


def groups(*, long: bool) -> dict[str, list[Case]]:
    """The rows, some together, by a name for them."""
    found: dict[str, list[Case]] = {}
    for file, rows in all_cases().items():
        for each in rows if (file == "long") == long else ():
            what = each.given.get("variant", each.unit if file in ("mma", "matmul", "machine") else None)
            name = " ".join(
                str(part) for part in (file, each.operation, each.dtype, what) if part is not None
            )
            found.setdefault(name, []).append(each)
    return found


SHORT, LONG = groups(long=False), groups(long=True)


def check(rows: list[Case], place: golden.Host = golden.HOST) -> None:
    found = [line for each in rows for line in differences(each, table(each.file).get(key(each)), place)]
    assert not found, "\n".join([f"{len(found)} differ (CONTRIBUTING.md says what to do):", *found[:10]])


# The bits.


@pytest.mark.slow(24)
@pytest.mark.parametrize("name", SHORT)
def test_the_model_returns_golden_bits(name: str) -> None:
    check(SHORT[name])


@pytest.mark.parametrize("file", all_cases())
def test_the_table_has_a_row_for_each_case_and_no_other(file: str) -> None:
    names = [key(each) for each in all_cases()[file]]
    assert len(set(names)) == len(names)
    assert list(table(file)) == sorted(names)


def test_every_arithmetic_of_a_sum_has_rows() -> None:
    def arithmetics(unit: str) -> set[Any]:
        rows = CATALOGUE[unit].instructions
        return {(row.a, row.output, row.arithmetic) for row in rows if row.name == "mma"}

    seen = {one for unit in (*golden.UNITS, "H100") for one in arithmetics(unit)}
    for unit in CATALOGUE:
        assert arithmetics(unit) <= seen, unit


def test_every_operation_has_rows() -> None:
    functions = {name for name in dir(tcu) if isfunction(getattr(tcu, name)) and not name.startswith("_")}
    seen = {each.operation for rows in all_cases().values() for each in rows}
    made_of_others = {
        "cross_entropy",  # of log_softmax, logsumexp and exact sums: tests/test_cross_entropy.py
        *("index_sum", "index_mean", "bincount", "histogram", "reduce_by_key", "embedding_gradient"),
    }  # of exact sums of segments: tests/test_index_sums.py
    assert functions - seen == {"audit", "infer", "load_plan", "probe", "reveal"} | made_of_others


def test_inputs_never_change() -> None:
    """SplitMix64's first numbers from seed 0 are those of its authors' program."""
    assert golden.split_mix(0, 3).tolist() == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert golden.words("x", 2).tolist() == [0x0CD8B5E1F943C86A, 0x4F324B986FA2019A]
    for kind, expected in {
        "ordinary": [0x3E5684D7, 0xC0301B0A, 0x41266D6E, 0x4031B101],
        "wide": [0xAE28FD39, 0x2D660D85, 0x493F7CA9, 0xC1AE2DF6],
        "cancelling": [0x3E5684D7, 0x2D660D85, 0x2E28FD39, 0xAD660D85],
        "special": [0x3F1B0CCC, 0xBFDB2DC7, 0x80000000, 0xBFE644FB],
    }.items():
        assert golden.numbers(kind, "binary32", 4).view(np.uint32).tolist() == expected


@pytest.mark.parametrize("operation", golden.STREAMS)
@pytest.mark.parametrize("dtype", ["bfloat16", "binary64"])
def test_long_rows_are_written_from_what_short_calls_return(operation: str, dtype: str, monkeypatch) -> None:
    """A piece at a time or at once: the same bits."""
    each = golden.case("long", operation, dtype, "wide", [600_001], unit=None, dtype="float64")
    at_once = golden.bits_of(each, (600_001,))
    monkeypatch.setattr(golden, "STREAMED", 1000)
    assert golden.bits_of(each, (600_001,)) == at_once


# On a GPU.


class OnGpu(golden.Host):
    """PyTorch's arrays in a GPU's memory, and the GPU's own MMAs."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch

    def array(self, x: np.ndarray) -> Any:
        raw = x.view(f"i{x.itemsize}")
        return self._torch.from_numpy(raw.copy()).cuda().view(getattr(self._torch, x.dtype.name))

    def repeated(self, x: np.ndarray, n: int) -> Any:
        return self.array(x).repeat(-(-n // x.size))[:n]

    def executor(self, unit: str, operand: str) -> Any:
        from tcu.machine.executors.gpu import GpuExecutor

        return GpuExecutor(operand)


def is_served(each: Case) -> bool:
    """Whether a GPU computes it: bounds and plans are made on the host, rows and segments have variants of their own."""
    variant = each.given.get("variant", DEFAULT_VARIANT)
    if variant not in VARIANTS:  # a scan's, of which each layout has kernels
        return each.file not in ("bounds", "plans")
    if not VARIANTS[variant].reproducible:
        return False
    operation = OPERATIONS.get(each.operation.removeprefix("segment_"))
    if operation is not None:
        layout = Ragged if each.layout.startswith("ragged") else Along if "axis" in each.given else Whole
        if layout not in operation.on_gpu and not (layout is Whole and Along in operation.on_gpu):
            return False
    if each.layout.startswith("ragged"):
        return variant in OWN_VARIANTS
    if "axis" in each.given:
        return variant in (*OWN_VARIANTS, *SEGMENTED)
    return each.file not in ("bounds", "plans") and each.operation not in (
        "matmul_error_bound",
        "polyval_error_bound",
    )


def check_on_gpu(rows: list[Case]) -> None:
    gpu = gpu_or_skip()
    unit_or_skip(gpu)
    own = {None, *(unit.name for unit in gpu.units)}
    mine = [each for each in rows if is_served(each) and each.unit in own]
    if not mine:
        pytest.skip("rows of other units, or of what no GPU computes")
    check(mine, OnGpu(library_or_skip("torch")))


@pytest.mark.gpu
@pytest.mark.parametrize("name", SHORT)
def test_a_gpu_returns_golden_bits(name: str) -> None:
    check_on_gpu(SHORT[name])


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.parametrize("name", LONG)
def test_a_gpu_returns_golden_bits_of_long_arrays(name: str) -> None:
    check_on_gpu(LONG[name])


# Versions.


def test_a_plan_carries_the_version_of_its_family() -> None:
    half, h100 = get_format("binary16"), get_unit("H100")
    for variant in VARIANTS:
        for n in (0, 1000):
            assert make_plan(n, half, h100, variant=variant).version == VERSIONS[VARIANTS[variant].family]
    assert {make_dot_plan(n, half).version for n in (0, 1000)} == {VERSIONS["dot"]}
    assert {fft_plan(n, "binary32").version for n in (1, 97, 1000)} == {VERSIONS["fft"]}
    assert make_scan_plan(1000, half).version == VERSIONS["scan"]
    for variant, row in SCAN_VARIANTS.items():
        family = "triangular" if row.uses_mma else "scan"
        assert scan_plan(1000, half, h100, variant=variant).version == VERSIONS[family]  # type: ignore[index]
    assert make_matmul_plan(1000, "f16", "f16").version == VERSIONS["matmul"]
    transform = golden.transform_plan(60, 16, "four", 1, "binary16", "float32", 14)
    assert transform is not None
    assert transform.version == VERSIONS["transform"]


@pytest.mark.parametrize("plan", [make_dot_plan(1000, get_format("f16")), make_scan_plan(1000, "f16")])
def test_a_checkpoint_of_another_version_is_refused(plan: Plan | ScanPlan, tmp_path: Path) -> None:
    path = tmp_path / "sum.checkpoint"
    Checkpoint(path, {"plan": str(plan)}).save(1, {})
    assert Checkpoint(path, {"plan": str(plan)}).load() == (1, {})
    assert "version" not in str(replace(plan, version=1)), "texts in checkpoints stay as they are"
    assert ", version 2" in str(replace(plan, version=2))
    with pytest.raises(
        DataFileError, match="belongs to another run, with other plan: delete it to begin anew"
    ):
        Checkpoint(path, {"plan": str(replace(plan, version=2))}).load()


@pytest.fixture
def bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The table's quickest file alone, in a folder of its own."""
    path = tmp_path / "golden-bounds.json"
    shutil.copy(golden.FOLDER / path.name, path)
    monkeypatch.setattr(golden, "FOLDER", tmp_path)
    alone = {"bounds": all_cases()["bounds"]}
    monkeypatch.setattr(golden, "all_cases", lambda: alone)
    return path


def spoil(path: Path, **columns: Any) -> str:
    """Other bits in the first row; what they were."""
    rows = json.loads(path.read_text("utf-8"))
    row = rows[0] = rows[0] | columns
    was = row["bits"]["33"]
    row["bits"]["33"] = "1.000000000e+00"
    path.write_text(json.dumps(rows), "utf-8")
    return was


def test_the_table_is_written_as_it_is(bounds: Path) -> None:
    before = bounds.read_bytes()
    bounds.unlink()
    assert golden.main(["write"]) == 0
    assert bounds.read_bytes() == before
    assert golden.main(["check"]) == 0


@pytest.mark.slow
def test_a_row_is_not_written_anew_unless_its_plan_has_another_version(bounds: Path, capsys) -> None:
    good = bounds.read_bytes()
    spoil(bounds)
    bad = bounds.read_bytes()
    assert golden.main(["check"]) == 1
    assert ", 33: " in capsys.readouterr().out
    assert golden.main(["write"]) == 1
    said = capsys.readouterr().out
    assert "1 results are others, and the versions of their plans are the same: nothing was written." in said
    assert "src/tcu/plan/version.py" in said
    assert bounds.read_bytes() == bad
    assert golden.main(["write", "--same-version"]) == 0
    assert bounds.read_bytes() == good
    spoil(bounds, plan="sum 0")
    assert golden.main(["write"]) == 0
    assert bounds.read_bytes() == good


@pytest.mark.parametrize("arguments", [[], ["write", "--all"], ["fill"], ["check", "--large"]])
def test_the_command_says_how_it_is_used(arguments: list[str], bounds: Path, capsys) -> None:
    assert golden.main(arguments) == 2
    assert "write --same-version" in capsys.readouterr().out


# Planted changes.

PLANTED = {
    "butterflies.LENGTHS": "(2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 15, 16, 20, 25, 27)",
    "butterflies._ONE": "1 << DIGITS - 1",
    "dot._BLOCK": "128",
    "fft.IN_BINARY16": "(1 << 13, 1 << 26)",
    "fft.LEAST": "-14",
    "fft.MOST_SHIFT": "125",
    "fft.TOP": "14",
    "fft._AT_ONCE": "{'binary16': 1 << 13, 'binary32': 1 << 14, 'binary64': 1 << 13}",
    "fft._BEHIND": "1 << 6",
    "fft._COARSE": "9.0",
    "fft._FIRST": "{'binary16': 1 << 8, 'binary32': 1 << 7, 'binary64': 1 << 6}",
    "fft._LANES_AT_ONCE": "1 << 14",
    "fft._LANES_WIDEST": "1 << 10",
    "fft._LONGEST_BUTTERFLY": "{'binary16': 16, 'binary32': 16, 'binary64': 16}",
    "fft._PRIMES": "(2, 3, 5)",
    "fft._ROOM": "13",
    "fft._SMALL_TWIDDLE": "2.0",
    "fft._TILE": "{'binary16': 16, 'binary32': 4, 'binary64': 4}",
    "fft._TWIDDLE": "2.0",
    "matmul._CHUNKS": "{'binary16': 512, 'bfloat16': 256, 'tf32': 128, 'e4m3': 128, 'e5m2': 128}",
    "matmul._MULTIPLE": "64",
    "mma_scan.WIDTH": "8",
    "mma_scan._ABOVE": "Product('LA', 'L', 'A', 'S')",
    "roots.DIGITS": "60",
    "roots._PRECISIONS": "{'binary16': 10, 'binary32': 24, 'binary64': 53}",
    "scan._GROUP_BYTES": "16",
    "scan._RADICES": "(32, 16, 16)",
    "segmented._COLUMN": "32",
    "segmented._TILE": "512",
    "segmented._CHUNK": "1 << 13",
    "variants.DEFAULT_VARIANT": "'single-pass'",
    "variants.NEIGHBOURS": "8",
    "variants.DOUBLE": "'binary32'",
    "variants.GATHERED": "1 << 8",
    "variants.LOAD": "8",
    "variants.LOADS": "16",
    "variants.WARP": "16",
    "variants._CHUNKS": "1 << 12",
}
"""What the constants of tcu/plan become for a moment; the table must see each."""
OF_NO_ORDER = {
    "fft.LONGEST": "1 << 30",  # a limit of what may be asked for
    "roots._DIRECT": "64",  # how correctly rounded roots are found
    "segmented.ALGORITHMS": "('reduction-16',)",  # names, by which nothing is chosen
    "segmented.SEGMENTED": "ALGORITHMS",  # names, which say whose version a plan has
    "variants.OWN_VARIANTS": "(DEFAULT_VARIANT,)",  # whose kernels serve every layout
    "mma_scan._LONGEST_CHAIN": "1 << 11",
    "mma_scan._PAPER": "'Dakkak et al.'",
    "variants.MAX_BLOCK": "2048",  # limits of what may be asked for
    "variants.MAX_CHAIN": "1 << 11",
}
"""The same of those that decide no order; the table must see none."""
OTHERWISE = {
    "matmul._RESULTS": "formats that may be asked for, which decide no order",
    "mma_scan.DEFAULT_SCAN": "a name, which calls that name no variant have from the option's default",
    "mma_scan.SCAN_VARIANTS": "its rows are changed one by one below",
    "load._KINDS": "the records that a file may hold; saved plans are loaded in tests/test_plan_files.py",
    "checked._MOST": "a limit of what a file may hold, as in tests/test_plan_files.py",
    "checked._SUMS": "formats that a file may name, likewise",
    **dict.fromkeys(
        ("ntt.P", "ntt._GENERATOR"),
        "of whole numbers, whose products are the same by any of them; tests of long integers have the definition of transforms",
    ),
    **dict.fromkeys(
        ("polyval.BLOCK", "polyval.BLOCKED_FROM", "polyval.CHAINED_FROM", "polyval.COLUMNS", "polyval.ROWS"),
        "Numba compiles it in, so that a change for a moment reaches nothing; tests/test_polyval.py has the definition",
    ),
    "ntt._MOST": "a limit of what may be asked for",
    "stored._FORMAT": "how a plan is written down, which decides no order",
    "stored._VERSION": "how a plan is written down, which decides no order",
    "variants.VARIANTS": "its rows are changed one by one below",
    "version.VERSIONS": "it says that an order has changed, and decides none",
    **dict.fromkeys(
        ("whole_sums.SCALE", "whole_sums.SCALE64"),
        "Numba compiles it in, so that a change for a moment reaches nothing; tests/test_exponentials.py has the definition",
    ),
    **dict.fromkeys(
        ("whole_sums.LIFTS", "whole_sums.LIFTS64", "whole_sums._NO_EPS", "whole_sums._HALFWAY"),
        "powers of two that keep numbers in range and change no bit where others do, too: tests/test_norms.py asks at the ends",
    ),
    **dict.fromkeys(
        ("row_lifts.BETWEEN", "row_lifts.BETWEEN64", "row_lifts._MOST"),
        "the same of gradients, whose bits are not in the table: tests/test_norms.py asks over the whole range",
    ),
}


def constants() -> Iterator[str]:
    """Every name in capitals that a module of tcu/plan gives a value."""
    for path in sorted(PLANS.glob("*.py")):
        for node in ast.parse(path.read_text("utf-8")).body:
            targets = {ast.Assign: lambda n: n.targets, ast.AnnAssign: lambda n: [n.target]}.get(
                type(node), lambda n: []
            )(node)
            for target in targets:
                names = target.elts if isinstance(target, ast.Tuple) else [target]
                yield from (
                    f"{path.stem}.{name.id}"
                    for name in names
                    if isinstance(name, ast.Name) and re.fullmatch("_?[A-Z][A-Z0-9_]*", name.id)
                )


def test_every_constant_has_a_planted_change() -> None:
    assert sorted(constants()) == sorted({**PLANTED, **OF_NO_ORDER, **OTHERWISE})


class _Give(ast.NodeTransformer):
    """Another value for one name."""

    def __init__(self, name: str, value: str) -> None:
        self._name, self._value = name, ast.parse(value, mode="eval").body
        self.done = 0

    def _visit(self, target: ast.expr, value: ast.expr) -> ast.expr:
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            pairs = zip(target.elts, value.elts, strict=True)
            return ast.Tuple([self._visit(*pair) for pair in pairs], ast.Load())
        if not (isinstance(target, ast.Name) and target.id == self._name):
            return value
        self.done += 1
        return self._value

    def visit_Assign(self, node: ast.Assign) -> ast.Assign:
        node.value = self._visit(node.targets[0], node.value)
        return node


SHARED = ("tcu.plan.plan", "tcu.plan.version")
"""Whose classes the model knows."""


@contextmanager
def imported_anew(name: str | None = None, value: str = "") -> Iterator[ModuleType]:
    """tcu.plan as it would be if its source said so: no default argument, copy or cache of it has the old value."""
    module, _, constant = (name or "").partition(".")
    give = _Give(constant, value or "None")

    class Loader(importlib.machinery.SourceFileLoader):
        def get_code(self, fullname: str) -> Any:
            tree = give.visit(ast.parse(Path(self.path).read_text("utf-8")))
            return compile(ast.fix_missing_locations(tree), self.path, "exec")

    class Finder:
        @staticmethod
        def find_spec(fullname: str, path: Any = None, target: Any = None) -> Any:
            if fullname != f"tcu.plan.{module}":
                return None
            return importlib.util.spec_from_loader(fullname, Loader(fullname, str(PLANS / f"{module}.py")))

    def mine() -> dict[str, ModuleType]:
        return {
            each: found
            for each, found in sys.modules.items()
            if (each == "tcu.plan" or each.startswith("tcu.plan.")) and each not in SHARED
        }

    before = mine()
    for each in before:
        del sys.modules[each]
    sys.meta_path.insert(0, Finder)  # type: ignore[arg-type]
    try:
        changed = importlib.import_module("tcu.plan")
        if name is not None:
            importlib.import_module(f"tcu.plan.{module}")  # which tcu.plan need not import
        assert give.done == (name is not None), name
        yield changed
    finally:
        sys.meta_path.remove(Finder)  # type: ignore[arg-type]
        for each in mine():
            del sys.modules[each]
        sys.modules.update(before)
        tcu.plan = before["tcu.plan"]  # type: ignore[assignment]


class Planner(golden.Host):
    def __init__(self, plans: ModuleType) -> None:
        self.plans = plans


def sees(plans: ModuleType, variant: str | None = None) -> bool:
    """Whether the table has the digest of another plan, or of none; of a variant, or of any."""
    place, rows = Planner(plans), table("plans")
    for each in all_cases()["plans"]:
        if each.operation == "transform plan" or (variant and each.given.get("variant") != variant):
            continue
        for shape in each.shapes:
            try:
                bits = golden.bits_of(each, shape, place)
            except (DtypeError, ParameterError, RecursionError):
                return True
            if bits != rows[key(each)]["bits"][golden.named(shape)]:
                return True
    return False


@pytest.mark.slow
def test_an_unchanged_copy_has_the_same_plans() -> None:
    with imported_anew() as plans:
        assert plans is not sys.modules["tcu.plan.plan"]
        assert not sees(plans)


@pytest.mark.slow(1)
@pytest.mark.parametrize("name", PLANTED)
def test_the_table_sees_a_planted_change(name: str) -> None:
    with imported_anew(name, PLANTED[name]) as plans:
        assert sees(plans)


@pytest.mark.slow(1)
@pytest.mark.parametrize("name", OF_NO_ORDER)
def test_what_decides_no_order_changes_no_plan(name: str) -> None:
    with imported_anew(name, OF_NO_ORDER[name]) as plans:
        assert not sees(plans)


@pytest.mark.parametrize("variant", [name for name, row in SCAN_VARIANTS.items() if row.uses_mma])
def test_the_table_sees_another_row_of_a_scan(variant: str) -> None:
    with imported_anew() as plans:
        rows = plans.SCAN_VARIANTS
        row = rows[variant]
        others: list[dict[str, Any]] = [{"steps": row.steps[::-1]}, {"rows": 17 - row.rows}]
        for columns in [*others, *([] if row.chain is None else [{"chain": row.chain // 2}])]:
            rows[variant] = replace(row, **columns)
            assert sees(plans, variant) or len(row.steps) == 1


WITHOUT_BLOCKS = ("recurrence", "two-mma")
"""Variants whose blocks decide nothing but a launch."""


@pytest.mark.slow(1)
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_table_sees_another_default_of_a_variant(variant: str) -> None:
    with imported_anew() as plans:
        rows = plans.VARIANTS
        row = rows[variant]

        def another(**columns: Any) -> bool:
            rows[variant] = replace(row, **columns)
            return sees(plans, variant)

        assert not another()
        assert another(block=64 if row.block == 32 else 32) == (variant not in WITHOUT_BLOCKS)
        assert another(build=rows["single-pass" if variant == "warp-shuffle" else "warp-shuffle"].build)
        if row.longest_chain(get_format("binary16")) > 1:
            assert another(chain=(row.chain or 1) + 1)


def test_the_table_sees_another_choice_of_algorithms() -> None:
    with imported_anew() as plans:
        module = sys.modules["tcu.plan.segmented"]
        before = module.choices()
        module.choices = lambda: ((1000, before[0][1]), *before)
        assert not sees(plans, "paper-002"), "it names the same algorithms"
        module.choices = lambda: before[1:]
        assert sees(plans, "paper-002")


@pytest.mark.slow(2)
@pytest.mark.parametrize("name", [each for each in PLANTED if each.startswith("variants")])
def test_the_rows_of_bits_see_it_too(name: str) -> None:
    """The shortest sums whose plans a change reaches."""
    rows = [each for each in all_cases()["sums"] if each.operation == "sum" and each.numbers == "wide"]
    with imported_anew(name, PLANTED[name]) as plans:
        for each in rows:
            options = {name: value for name, value in each.given.items() if name != "dtype"}
            if each.dtype == "binary16" or each.layout != "whole" or each.unit not in (None, "H100"):
                continue
            for shape in each.shapes:
                given = (shape[0], get_format(each.dtype), get_unit("H100"))
                one, other = make_plan(*given, **options), plans.make_plan(*given, **options)
                if golden.digest_of_plan(one) != golden.digest_of_plan(other):
                    x = golden.laid(each, shape, golden.HOST)
                    if execute(other, Elements(x), get_unit("H100")) != execute(
                        one, Elements(x), get_unit("H100")
                    ):
                        return
    raise AssertionError(f"{name} = {PLANTED[name]} reaches no bits of the table")


# What the GPU's code knows of the plans.


def cuda_constant(file: str, name: str) -> int:
    found = re.search(rf"constexpr [a-z0-9 ]+\b{name} = (\d+)\b", dict(read_sources(file))[file])
    assert found is not None, (file, name)
    return int(found[1])


def test_the_gpus_code_has_the_constants_of_the_plans() -> None:
    default = VARIANTS[DEFAULT_VARIANT]
    assert (default.block, default.block) == (segments._BLOCK, tuning.BLOCK)
    assert (
        cuda_constant("long_chunks.cu", "TILES") * cuda_constant("device/types/types.cuh", "WARP")
        == default.block
    )
    assert sums.LOAD == tcu.plan.variants.LOAD
    assert cuda_constant("device/types/types.cuh", "WARP") == tcu.plan.variants.WARP
    group = tcu.plan.scan._GROUP_BYTES
    assert (radix(1), radix(2), radix(3), group) == (scans._LANES, scans._LINES, scans._RADIX, scans._GROUP)
    assert {radix(level) for level in range(3, 9)} == {scans._RADIX}


def test_cuda_cuts_long_segments_as_the_plans_do(tmp_path: Path) -> None:
    """The header itself, compiled for the host."""
    files = dict(read_sources("device/ragged/plan_chunks.cuh"))
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    togethers = (64, 512, 1024, 2048, 3 * 96 * 8)
    lengths = [n for p in range(20, 36) for n in golden.around(1 << p, 9 << p)]
    asked = [(n, together) for n in lengths for together in togethers]
    calls = "".join(f"print({n}, {together});" for n, together in asked)
    (tmp_path / "loads.cpp").write_text(
        '#include <cstdio>\n#define __device__\n#include "device/ragged/plan_chunks.cuh"\n'
        'using namespace tcu;\nusing namespace tcu::ragged;\nvoid print(i64 n, i64 t) { std::printf("%lld %lld\\n", loads_of(n, t), chunks_of(n, t)); }\n'
        f"int main() {{ {calls} }}\n",
        "utf-8",
    )
    program = tmp_path / "loads"
    subprocess.run(
        [compiler_or_skip(), "-std=c++17", f"-I{tmp_path}", "-o", program, tmp_path / "loads.cpp"], check=True
    )
    found = subprocess.run([program], check=True, capture_output=True, text=True).stdout.splitlines()
    for (n, together), line in zip(asked, found, strict=True):
        loads = tcu.plan.variants.loads_of(n, together)
        assert line == f"{loads} {-(-n // (loads * together))}", (n, together)


def test_how_cuda_cuts_long_segments_is_written_from_the_plans(monkeypatch) -> None:
    text = dict(read_sources("device/ragged/plan_chunks.cuh"))
    assert not re.search(
        r"\b(8|16|64|8192|65536)(ll)?\b", re.sub("//.*", "", text["device/ragged/plan_chunks.cuh"])
    ), "no number twice"
    for name, value in (("LOADS", 4), ("_CHUNKS", 1 << 12)):
        monkeypatch.setattr(tcu.plan.variants, name, value)
        assert f" = {value};" in dict(read_sources("list_segments.cu"))["generated/sums/plan_chunks.inc"]
