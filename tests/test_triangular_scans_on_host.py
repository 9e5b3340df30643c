"""Contract: running sums by MMAs have the bits of the model, without a GPU.

The kernels run on the host as their recipes say (cuda_on_host.py), with the arithmetic of an H200's MMAs.  Rows of one
strip, of one group and of several levels of groups; ragged segments, empty ones among them; of numbers of every kind;
from any element on; in every order, format, accumulator and R.  No byte outside the result is written, none outside
the array's granules is read, and an error in a kernel's text is seen.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numbers_of_all_kinds import KINDS, draw
from test_kernels_on_host import BITS, ORDERS, HostGpu, Result, alike, complaint_about, placed

import tcu
from tcu.formats import format_of
from tcu.gpu import UnsupportedInstructionError, mma_scans
from tcu.gpu.launch import Launch
from tcu.plan import SCAN_VARIANTS, MmaScanPlan, scan_plan
from tcu.units import get_unit

BY_MMAS = [name for name, row in SCAN_VARIANTS.items() if row.uses_mma]
DTYPES = [np.float16, ml_dtypes.bfloat16]
dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
orders = pytest.mark.parametrize(("exclusive", "reverse"), ORDERS)
variants = pytest.mark.parametrize("variant", BY_MMAS)


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch, built: Any) -> HostGpu:
    return HostGpu(monkeypatch, built)


def plan_of(n: int, dtype: Any, **way: Any) -> MmaScanPlan:
    plan = scan_plan(n, format_of(np.dtype(dtype)), get_unit("H200"), **way)
    assert isinstance(plan, MmaScanPlan)
    return plan


def started(host: HostGpu, recipe: Any, x: Any, offsets: Any, target: Any, shifts: tuple[int, int]) -> Any:
    place, host.readable = placed(x, shifts[0])
    result = Result(x.size, target.dtype, shifts[1])
    room = np.full(recipe.room, 0xFF, np.uint64)
    other = 0 if offsets is None else offsets.ctypes.data
    Launch(recipe, host.gpu).start(place.ctypes.data, other, result.array.ctypes.data, 0, room.ctypes.data)
    result.check()
    return result.array.copy()


def rows_scanned(
    host: HostGpu, x: Any, exclusive: bool = False, reverse: bool = False, dtype: Any = "float32",
    shifts: tuple[int, int] = (0, 0), **way: Any,
) -> Any:  # fmt: skip
    rows, n = x.shape
    target = format_of(np.dtype(dtype))
    recipe = mma_scans.mma_scan_recipe(
        plan_of(n, x.dtype, **way), rows, n, n, target, host.gpu, exclusive=exclusive, reverse=reverse
    )
    return started(host, recipe, x.reshape(-1), None, target, shifts).reshape(x.shape)


def segments_scanned(
    host: HostGpu, x: Any, offsets: Any, exclusive: bool = False, reverse: bool = False, dtype: Any = "float32",
    shifts: tuple[int, int] = (0, 0), **way: Any,
) -> Any:  # fmt: skip
    target, offsets = format_of(np.dtype(dtype)), np.ascontiguousarray(offsets, np.int64)
    recipe = mma_scans.mma_segment_scan_recipe(
        plan_of(x.size, x.dtype, **way),
        x.size,
        offsets.size - 1,
        target,
        host.gpu,
        exclusive=exclusive,
        reverse=reverse,
    )
    return started(host, recipe, x, offsets, target, shifts)


def wanted_rows(
    x: Any, exclusive: bool = False, reverse: bool = False, dtype: Any = "float32", **way: Any
) -> Any:
    return tcu.cumsum(
        x, axis=1, unit="H200", exclusive=exclusive, reverse=reverse, dtype=np.dtype(dtype).name, **way
    )


def lengths_of(variant: str, chain: int | None) -> list[int]:
    """Of one strip, of parts of one, of several, of a group and a bit, and of several groups."""
    strip = (16 if variant == "scan-16" else 256) * (chain or 1)
    return [1, 15, 17, strip, strip + 1, 5 * strip - 3, 16 * strip + 7, 37 * strip + 11]


@pytest.mark.some(3)
@pytest.mark.slow
@variants
@dtypes
@orders
def test_rows_of_every_length(
    host: HostGpu, variant: str, dtype: Any, exclusive: bool, reverse: bool
) -> None:
    """16 cases each: 256 in all, of which no two have the same numbers."""
    rng = np.random.default_rng(1)
    targets = ("float32", "float16", "bfloat16", "float64")
    for case in range(16):
        chain = None if variant == "scan-256" else 1 + case % 2 * (2 if variant == "scan-16" else 1)
        n = lengths_of(variant, chain)[case % 8]
        rows = 1 if n > 4000 else int(rng.integers(1, 4 if n > 300 else 40))
        x = draw(rng, rows * n, dtype, list(KINDS)[case % len(KINDS)]).reshape(rows, n)
        way: dict[str, Any] = {"variant": variant, "chain": chain}
        if dtype == np.float16 and case % 4 == 3:
            way["accumulator"] = "float16"
        order = exclusive, reverse, targets[case % 4]
        found = rows_scanned(host, x, *order, (case % 9, case * 3 % 9), **way)
        assert alike(found, wanted_rows(x, *order, **way)), (variant, case, rows, n, way, order)


@pytest.mark.some(8)
@pytest.mark.slow(1)
@variants
@dtypes
@orders
def test_segments_of_every_length(
    host: HostGpu, variant: str, dtype: Any, exclusive: bool, reverse: bool
) -> None:
    """48 or more segments each, in 2 cases: over 1,500 in all."""
    rng = np.random.default_rng(2)
    for case in range(2):
        chain = None if variant == "scan-256" else 1
        strip = (16 if variant == "scan-16" else 256) * (chain or 1)
        lengths = [0, 1, strip - 1, strip, strip + 1, *rng.integers(0, 40, 40), 3 * strip + 5, 17 * strip + 9]
        offsets = np.concatenate([[0], np.cumsum(rng.permutation(lengths))])
        x = draw(rng, int(offsets[-1]), dtype, list(KINDS)[(case + exclusive * 2 + reverse) % len(KINDS)])
        way: dict[str, Any] = {"variant": variant, "chain": chain}
        order = exclusive, reverse, ("float32", "float16")[case]
        found = segments_scanned(host, x, offsets, *order, (case * 3, case * 5), **way)
        wanted = tcu.segment_cumsum(
            x, offsets, unit="H200", exclusive=exclusive, reverse=reverse, dtype=order[2], **way
        )
        assert alike(found, wanted), (variant, case)


@variants
def test_which_kernels_are_started(host: HostGpu, variant: str) -> None:
    one = (16 if variant == "scan-16" else 256) * (SCAN_VARIANTS[variant].chain or 1)
    levels = ["triangular_scan", "triangular_levels", "triangular_scan"]
    for n, launches in (
        (one, levels[:1]),
        (one + 1, levels[::2]),
        (16 * one, levels[::2]),
        (16 * one + 1, levels),
    ):
        recipe = mma_scans.mma_scan_recipe(
            plan_of(n, np.float16, variant=variant), 3, n, n, format_of(np.dtype("float32")), host.gpu,
            exclusive=False, reverse=False,
        )  # fmt: skip
        assert [each.source for each in recipe.kernels] == launches
        assert bool(recipe.room) == (len(launches) > 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variant", "right", "wrong"),
    [
        ("scan-16", "PER_WARP > 1 ? lane / 2 : 0", "PER_WARP > 1 ? lane / 4 : 0"),
        ("scan-16", "mma::value(r[1], 1), lane | 3", "mma::value(r[1], 1), lane | 1"),
        ("scan-256", "mma::load_columns(columns, tile);", "mma::load_columns(columns, staged_elsewhere);"),
        ("scan-256", "r[1].multiply(a, b);\n#endif", "#endif"),
        ("scan-256n", "if (CARRIED) x =", "if (CARRIED == 2) x ="),
        ("scan-256n", "mma::value(r[1], 3), WARP - 1", "mma::value(r[1], 3), WARP - 2"),
        ("scan-256n-work-efficient", "mma::put(above, before, before_lower);", ""),
        ("scan-256n-work-efficient", "mma::last_column(r[1], b);", "mma::last_column(r[0], b);"),
    ],
)
def test_an_error_in_a_kernel_is_seen(host: HostGpu, variant: str, right: str, wrong: str) -> None:
    wrong = wrong.replace("staged_elsewhere", "tile + WARP")
    chain = None if variant == "scan-256" else 2
    n = 700 if variant != "scan-16" else 300
    x = draw(np.random.default_rng(3), 2 * n, np.float16, "normal").reshape(2, n)
    way: dict[str, Any] = {"variant": variant, "chain": chain}
    found = complaint_about(
        host, "triangular_scan", right, wrong, lambda: rows_scanned(host, x, **way), wanted_rows(x, **way)
    )
    assert found == BITS


def test_a_gpu_without_the_mmas_says_so() -> None:
    for capability, dtype, words in (
        ((7, 0), np.float16, "binary16 MMAs need compute capability 7.5, Old has 7.0: leave the variant out"),
        (
            (7, 5),
            ml_dtypes.bfloat16,
            "bfloat16 MMAs need compute capability 8.0, Old has 7.5: leave the variant out",
        ),
    ):
        old: Any = SimpleNamespace(compute_capability=capability, name="Old")
        with pytest.raises(UnsupportedInstructionError, match=words):
            mma_scans.mma_scan_recipe(
                plan_of(40, dtype, variant="scan-16"), 1, 40, 40, format_of(np.dtype("float32")), old,
                exclusive=False, reverse=False,
            )  # fmt: skip
