"""Contract: exact sums along axes are rounded once, whatever the numbers are, and planned ones are the plan's, without a GPU.

The kernels of rows and of columns run on the host as their recipes say (cuda_on_host.py): every alignment and distance
of rows, every way in which lanes, warps and blocks share a sum.  Results are those of rational numbers, and of the host's
exact sums: for numbers of every exponent, cancelling, subnormal, inf and NaN, for those that just pass the proof of the
fast way and just fail it, and for ties of the last rounding.  Ordinary numbers take the fast way.  Sums of 16-bit numbers
that these kernels take for the default plan have its bits, whatever the numbers are.  No byte outside the
array's granules is read, workspaces are left empty, and an error in a kernel's text is seen.
"""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from cuda_on_host import KernelFailed
from numbers_of_all_kinds import KINDS, draw
from test_kernels_on_host import HostGpu, Result, alike, placed

import tcu
from tcu.formats import format_of, get_format
from tcu.gpu import exact_columns, exact_rows
from tcu.gpu.columns import Columns
from tcu.gpu.launch import Launch
from tcu.plan import make_plan

DTYPES = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]
dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
SLOWLY = "for (i64 i = lane; i < count; i += WARP) add_code(number(i), limbs);"
"""The slow way of a warp; without it, only proved sums are right."""


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch, built: Path) -> HostGpu:
    host = HostGpu(monkeypatch, built)
    for module in (exact_rows, exact_columns):
        monkeypatch.setattr(module, "config", host._config)
    return host


def started(host: HostGpu, recipe: Any, place: Any, result: Result) -> Any:
    Launch(recipe, host.gpu).start(place.ctypes.data, 0, result.array.ctypes.data, 0)
    result.check()
    assert not any(room.any() for room in host._workspaces.values())
    return result.array.copy()


def rows_of(
    host: HostGpu, x: Any, *, dtype: Any = None, stride: int | None = None, shift: int = 0, mean: bool = False,
    planned: bool = False,
) -> Any:  # fmt: skip
    rows, length = x.shape
    stride = length if stride is None else stride
    apart = np.full(((rows - 1) * stride + length), np.nan, x.dtype)
    for i in range(rows):
        apart[i * stride : i * stride + length] = x[i]
    place, host.readable = placed(apart, shift)
    element, target = format_of(x.dtype), format_of(np.dtype(dtype or x.dtype))
    aligned = place.ctypes.data % 16 == 0
    if planned:
        plan = make_plan(length, element, host.gpu.unit)
        recipe = exact_rows.planned_rows_recipe(plan, rows, stride, aligned, target, host.gpu, mean=mean)
        assert recipe is not None
        assert recipe.kernels[0].macros["PLANNED"] == 1
    else:
        recipe = exact_rows.exact_rows_recipe(
            rows, length, stride, aligned, element, target, host.gpu, mean=mean
        )
    return started(host, recipe, place, Result(rows, target.dtype))


def columns_of(
    host: HostGpu, x: Any, *, dtype: Any = None, gap: int = 0, shift: int = 0, mean: bool = False, planned: bool = False
) -> Any:  # fmt: skip
    outer, length, inner = x.shape
    apart = np.full((outer, length, inner + gap), np.nan, x.dtype)
    apart[:, :, :inner] = x
    place, host.readable = placed(apart.reshape(-1)[: apart.size - gap], shift)
    element, target = format_of(x.dtype), format_of(np.dtype(dtype or x.dtype))
    columns = Columns(outer, inner, length * (inner + gap), inner + gap)
    aligned = place.ctypes.data % 16 == 0
    if planned:
        plan = make_plan(length, element, host.gpu.unit)
        recipe = exact_columns.planned_columns_recipe(plan, columns, aligned, target, host.gpu, mean=mean)
        assert recipe is not None
        assert recipe.kernels[0].macros["PLANNED"] == 1
    else:
        recipe = exact_columns.exact_columns_recipe(
            columns, length, aligned, element, target, host.gpu, mean=mean
        )
    return started(host, recipe, place, Result(outer * inner, target.dtype)).reshape(outer, inner)


def wanted(x: Any, axis: int, dtype: Any = None, *, mean: bool = False) -> Any:
    function = tcu.fmean if mean else tcu.fsum
    with np.errstate(all="ignore"):
        return function(x, axis=axis, dtype=np.dtype(dtype or x.dtype).name)


LENGTHS = [1, 2, 3, 4, 5, 7, 8, 9, 17, 31, 64, 65, 100, 257, 1000, 1025, 3000]


@pytest.mark.some(14)
@pytest.mark.slow
@dtypes
@pytest.mark.parametrize("length", LENGTHS)
def test_rows_of_every_length(host: HostGpu, dtype: Any, length: int) -> None:
    rng = np.random.default_rng(length)
    for case, kind in enumerate(KINDS):
        x = draw(rng, 37 * length, dtype, kind).reshape(37, length)
        target = DTYPES[case % 4]
        found = rows_of(host, x, dtype=target, shift=case % 3, stride=length + case % 4, mean=case % 5 == 4)
        assert alike(found, wanted(x, 1, target, mean=case % 5 == 4)), kind


@pytest.mark.some(12)
@pytest.mark.slow
@dtypes
@pytest.mark.parametrize("length", [1, 2, 3, 4, 6, 8, 16, 17, 20, 33, 64, 100])
def test_rows_of_tiles(host: HostGpu, dtype: Any, length: int) -> None:
    """A lane has whole rows, which begin anywhere, and the last tile is not full."""
    size = np.dtype(dtype).itemsize
    host.tuned |= {"tile": (64 * length * size, 4, 1, 100, 100)}
    rng = np.random.default_rng(length)
    for case, kind in enumerate(KINDS if length < 20 else ["special", "spread"]):
        x = draw(rng, 167 * length, dtype, kind).reshape(167, length)
        target = DTYPES[case % 4]
        found = rows_of(host, x, dtype=target, shift=case % 3, mean=case % 5 == 4)
        assert host.launches[-1] == "exact_tile_rows"
        assert alike(found, wanted(x, 1, target, mean=case % 5 == 4)), kind


@pytest.mark.some(12)
@pytest.mark.slow(1)
@pytest.mark.parametrize("dtype", DTYPES[:2], ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize("length", [4, 5, 17, 31, 100, 257, 2049, 3000, 4097, 20_001])
def test_rows_have_the_bits_of_the_default_plan(host: HostGpu, dtype: Any, length: int) -> None:
    """By tiles where they are short, and by lanes; numbers of many sizes are added up in the plan's order."""
    host.tuned |= {"least_part": 1 << 30}
    rows = 101 if length < 1000 else 53
    rng = np.random.default_rng(length)
    for case, kind in enumerate(KINDS):
        x = draw(rng, rows * length, dtype, kind).reshape(rows, length)
        if case % 2:  # further apart than binary64 is wide, in some rows
            x[::7, ::3] = np.float64(2.0**-24 if dtype == np.float16 else 2.0**-90)
        target, mean = DTYPES[case % 4], case % 5 == 4
        found = rows_of(host, x, dtype=target, shift=1 + case % 3, mean=mean, planned=True)
        assert host.launches[-1] == ("exact_tile_rows" if length < 1000 else "exact_rows")
        with np.errstate(all="ignore"):
            function = tcu.mean if mean else tcu.sum
            assert alike(found, function(x, axis=1, dtype=np.dtype(target).name)), kind


def test_copies_of_tiles_keep_memory_s_lines(host: HostGpu) -> None:
    """Wherever rows begin: 16 bytes away from a sector's begin, copies took 15 % longer."""
    host.tuned |= {"tile": (64 * 17 * 2, 4, 1, 100, 100)}
    x = draw(np.random.default_rng(7), 400 * 17, np.float16, "normal").reshape(400, 17)
    for shift in (0, 1, 9):
        rows_of(host, x, shift=shift)
        assert host.launches[-1] == "exact_tile_rows"
    assert host.lines_apart == 0
    host.changes = {"exact_tile_rows": {"copy_bulk(memory + place / 16,": "copy_bulk(memory + shift / 16,"}}
    rows_of(host, x, shift=9)
    assert host.lines_apart > 0, "the comparison does not see it"


@pytest.mark.slow
@dtypes
def test_long_rows_that_warps_share(host: HostGpu, dtype: Any) -> None:
    host.tuned |= {"least_part": 4096}
    rng = np.random.default_rng(0)
    for rows, length, kind in (
        (2, 9000, "normal"),
        (1, 20_001, "spread"),
        (3, 8192, "special"),
        (2, 7777, "cancelling"),
    ):
        x = draw(rng, rows * length, dtype, kind).reshape(rows, length)
        for mean in (False, True):
            found = rows_of(host, x, dtype=np.float64, shift=rows, mean=mean)
            assert host.macros[-1]["PARTS"] == 1
            assert alike(found, wanted(x, 1, np.float64, mean=mean)), kind


@pytest.mark.slow
@dtypes
def test_many_groups_of_rows_in_a_warp(host: HostGpu, dtype: Any) -> None:
    host.tuned |= {"full": 0, "tile": (0, 1, 1, 0, 0)}
    rng = np.random.default_rng(1)
    for length in (23, 64, 130, 700):
        x = draw(rng, 150 * length, dtype, "scaled").reshape(150, length)
        assert alike(rows_of(host, x, shift=1), wanted(x, 1))
        assert host.problems["exact_rows"].groups > 1


@pytest.mark.slow(1)
@dtypes
def test_empty_rows(host: HostGpu, dtype: Any) -> None:
    x = np.zeros((5, 0), dtype)
    assert alike(rows_of(host, np.zeros((5, 0), dtype)), wanted(x, 1))
    assert np.isnan(rows_of(host, x, mean=True).astype(np.float64)).all()


SHAPES = [
    (1, 16, 4096),
    (1, 1000, 64),
    (3, 40, 24),
    (2, 300, 17),
    (1, 5000, 8),
    (1, 20_000, 3),
    (5, 2, 130),
    (40, 33, 2),
]


@pytest.mark.some(15)
@pytest.mark.slow(1)
@dtypes
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "x".join(map(str, shape)))
def test_columns_of_every_shape(host: HostGpu, dtype: Any, shape: tuple[int, int, int]) -> None:
    rng = np.random.default_rng(shape)
    kinds = list(KINDS) if math.prod(shape) < 20_000 else ["normal", "special", "spread"]
    for case, kind in enumerate(kinds):
        x = draw(rng, math.prod(shape), dtype, kind).reshape(shape)
        target = DTYPES[case % 4]
        found = columns_of(host, x, dtype=target, gap=[0, 8, 3][case % 3], shift=case % 2, mean=case % 5 == 4)
        assert alike(found, wanted(x, 1, target, mean=case % 5 == 4)), kind


@pytest.mark.slow
@dtypes
@pytest.mark.parametrize("shape", [(101, 16, 16), (97, 33, 8), (100, 5, 24)], ids=str)
def test_columns_of_tiles(host: HostGpu, dtype: Any, shape: tuple[int, int, int]) -> None:
    """Few numbers lie side by side, and a lane has whole columns."""
    rng = np.random.default_rng(shape)
    for case, kind in enumerate(KINDS):
        x = draw(rng, math.prod(shape), dtype, kind).reshape(shape)
        x = x[:, :, : shape[2] * 2 // x.itemsize].copy()
        target = DTYPES[case % 4]
        found = columns_of(host, x, dtype=target, mean=case % 5 == 4)
        assert host.launches[-1] == "exact_tile_columns"
        assert alike(found, wanted(x, 1, target, mean=case % 5 == 4)), kind


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "inner"), [(np.float16, 2), (np.float16, 4), (ml_dtypes.bfloat16, 2), (np.float32, 2)], ids=str
)
@pytest.mark.parametrize("shape", [(300, 8), (3, 200), (2, 5000), (1, 40_000)], ids=str)
def test_rows_that_a_lane_loads_together(
    host: HostGpu, dtype: Any, inner: int, shape: tuple[int, int]
) -> None:
    """Columns of a block, and of several, meet with those that a lane has besides."""
    host.tuned |= {"loads": 1}
    rng = np.random.default_rng(shape)
    for case, kind in enumerate(KINDS if math.prod(shape) < 10_000 else ["normal", "special", "spread"]):
        x = draw(rng, math.prod(shape) * inner, dtype, kind).reshape(*shape, inner)
        target = DTYPES[case % 4]
        found = columns_of(host, x, dtype=target, mean=case % 5 == 4)
        assert host.macros[-1]["FOLD"] == 16 // (inner * x.itemsize)
        assert alike(found, wanted(x, 1, target, mean=case % 5 == 4)), kind


@pytest.mark.slow
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("c % OF_ROW * ACROSS + across", "0"),
        ("p.length * FOLD", "p.length"),
        ("static_cast<i64>(rows) * FOLD, p.stride / FOLD", "rows, p.stride / FOLD"),
        ("* COLUMNS + i % OF_ROW;", "* COLUMNS + i % COLUMNS + 1;"),
    ],
)
def test_an_error_where_rows_are_loaded_together_is_seen(host: HostGpu, right: str, wrong: str) -> None:
    host.tuned |= {"loads": 1}  # so that a column has several blocks
    x = draw(np.random.default_rng(3), 80_000, np.dtype(np.float16), "normal").reshape(1, 40_000, 2)
    if "rows" in right:
        x[0, 39_999, 1] = np.inf
    mean = "length" in right
    expected = wanted(x, 1, np.float64, mean=mean)
    assert alike(columns_of(host, x, dtype=np.float64, mean=mean), expected)
    host.changes = {"exact_columns.cu": {right: wrong}}
    try:
        unseen = alike(columns_of(host, x, dtype=np.float64, mean=mean), expected)
    except (KernelFailed, AssertionError):
        unseen = False
    assert not unseen


@pytest.mark.slow
@dtypes
@pytest.mark.parametrize("shape", [(1, 70, 601), (2, 100, 307), (1, 3000, 70), (3, 65, 514)], ids=str)
def test_columns_of_rows_that_begin_anywhere(
    host: HostGpu, dtype: Any, shape: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lanes load 16 bytes all the same; blocks have columns and some around them, or parts of rows."""
    host.tuned |= {"shifted": 8, "least": 64, "loads": 2}
    monkeypatch.setattr(exact_columns, "_LONG_ROW", 64)
    rng = np.random.default_rng(shape)
    for case, kind in enumerate(("normal", "special", "spread")):
        x = draw(rng, math.prod(shape), dtype, kind).reshape(shape)
        target = DTYPES[case]
        found = columns_of(host, x, dtype=target, gap=[0, 3, 1][case], shift=case, mean=case == 2)
        assert alike(found, wanted(x, 1, target, mean=case == 2)), kind


@pytest.mark.slow
@dtypes
def test_ordinary_numbers_take_the_fast_way(host: HostGpu, dtype: Any) -> None:
    rng = np.random.default_rng(2)
    change = {SLOWLY: ""}
    host.changes = {f"exact_{name}.cu": change for name in ("rows", "short_rows", "tile_rows", "columns")}
    for numbers in (rng.standard_normal, rng.random, lambda n: rng.standard_normal(n) * 1e-3 + 5, np.zeros):
        for length in (3, 17, 64, 257, 5000):
            rows = 20 if length > 17 else 100  # of which tiles are made
            x = numbers(rows * length).astype(dtype).reshape(rows, length)
            x[:, 1] = -0.0
            assert alike(rows_of(host, x), wanted(x, 1)), length
        for shape in ((1, 16, 512), (2, 700, 32)):
            x = numbers(math.prod(shape)).astype(dtype).reshape(shape)
            assert alike(columns_of(host, x), wanted(x, 1)), shape
    x = rng.standard_normal((3, 64)).astype(dtype)
    x[1, 7] = np.inf
    assert not alike(rows_of(host, x), wanted(x, 1)), "the slow way is there for something"


@pytest.mark.slow
@dtypes
def test_sums_at_the_edge_of_the_proof(host: HostGpu, dtype: Any) -> None:
    """A large number, its negative, and ever smaller ones, which the fast way can hold up to some place."""
    fmt = format_of(dtype)
    lowest = -fmt.bias - fmt.fraction_bits + 1
    top = min(fmt.bias - 1, 100)
    x = np.zeros((min(top - lowest, 220), 40), np.float64)
    for i in range(len(x)):
        x[i, 3], x[i, 30], x[i, 20], x[i, 21] = 2.0**top, -(2.0**top), 2.0 ** (top - i), 2.0**lowest
    x = x.astype(dtype)
    expected = [float(sum(map(Fraction, map(float, row)), Fraction(0))) for row in x]
    assert alike(rows_of(host, x, dtype=np.float64), np.array(expected))
    assert alike(columns_of(host, np.ascontiguousarray(x.T)[None], dtype=np.float64)[0], np.array(expected))
    assert alike(rows_of(host, x[:, [3, 20, 30]], dtype=np.float64), x[:, 20].astype(np.float64))


@pytest.mark.slow(1)
@dtypes
@pytest.mark.parametrize("target", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_ties_of_the_last_rounding(host: HostGpu, dtype: Any, target: Any) -> None:
    """1 + half a last place of the result, and a little more or less."""
    fmt, last = format_of(dtype), format_of(target)
    half = 2.0 ** -(last.fraction_bits + 1)
    little = 2.0 ** max(-fmt.bias - fmt.fraction_bits + 1, -last.fraction_bits - 40)
    numbers = [[s, s * k * half, t * little] for s in (1, -1) for k in (1, 3, 5) for t in (-1, 0, 1)]
    x = np.array(numbers).astype(dtype)
    wide = np.concatenate([x, np.zeros((len(x), 30), dtype)], axis=1)
    expected = wanted(x, 1, target)
    assert alike(rows_of(host, x, dtype=target), expected)
    assert alike(rows_of(host, wide, dtype=target), expected)
    assert alike(columns_of(host, np.ascontiguousarray(wide.T)[None], dtype=target)[0], expected)


@pytest.mark.slow
def test_the_most_numbers_of_the_largest_size(host: HostGpu) -> None:
    """Of binary16, a lane adds up 2^13: one more bit, and the sum would be rounded."""
    x = np.full((2, exact_rows.MOST_PART), 65504, np.float16)
    x[:, ::2] = -65504
    x[0, -1], x[1, 0] = 2.0**-24, 65504
    assert alike(rows_of(host, x, dtype=np.float64), wanted(x, 1, np.float64))


@pytest.mark.some(5)
@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES[:2], ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize(
    ("shape", "shift", "entry"),
    [
        ((130, 64, 16), 0, "exact_tile_columns"),
        ((200, 5, 8), 0, "exact_tile_columns"),
        ((1, 1000, 803), 0, "exact_columns"),
        ((2, 2500, 650), 1, "exact_columns"),
        ((1, 20_001, 515), 1, "exact_columns"),
    ],
)
def test_columns_have_the_bits_of_the_default_plan(
    host: HostGpu, dtype: Any, shape: tuple[int, int, int], shift: int, entry: str
) -> None:
    host.tuned |= {"least": 100, "shifted": 8, "full": 0}
    rng = np.random.default_rng(shape[1])
    for case, kind in enumerate(KINDS if shape[1] < 100 else ["special", "spread", "normal"]):
        x = draw(rng, math.prod(shape), dtype, kind).reshape(shape)
        if case % 2:
            x[:, ::3, ::7] = np.float64(2.0**-24 if dtype == np.float16 else 2.0**-90)
        target, mean = DTYPES[case % 4], case % 5 == 4
        found = columns_of(host, x, dtype=target, shift=shift, mean=mean, planned=True)
        assert host.launches[-1] == entry
        with np.errstate(all="ignore"):
            function = tcu.mean if mean else tcu.sum
            assert alike(found, function(x, axis=1, dtype=np.dtype(target).name)), kind


def test_few_rows_of_binary16_are_summed_in_any_order(host: HostGpu) -> None:
    x = draw(np.random.default_rng(2), 16 * 300, np.float16, "special").reshape(1, 16, 300)
    with np.errstate(all="ignore"):
        assert alike(columns_of(host, x, dtype=np.float32, planned=True), tcu.sum(x, axis=1))
    assert host.macros[-1]["ANY_FINITE"] == 1


def test_plans_that_other_kernels_take(host: HostGpu) -> None:
    """Of wider formats, of MMAs, of other blocks, of many chunks; and rows that the plan's own kernel reads as fast."""

    def of(rows: int, length: int, dtype: str = "bfloat16", **options: Any) -> Any:
        plan = make_plan(length, get_format(dtype), host.gpu.unit, **options)
        return exact_rows.planned_rows_recipe(plan, rows, length, True, get_format("binary32"), host.gpu)

    assert of(10_000, 257)
    assert of(10_000, 3000)
    assert of(10_000, 64, "float16")
    for rows, length, options in (
        (10_000, 257, {"dtype": "float32"}), (10_000, 257, {"variant": "short-chain"}), (10_000, 257, {"block": 128}),
        (10_000, 3, {}), (10_000, 64, {}), (10_000, 256, {}), (10_000, 4096, {}), (10_000, (1 << 19) + 1, {}), (50, 257, {}), (10_000, 0, {}),
    ):  # fmt: skip
        assert of(rows, length, **options) is None, (rows, length, options)


PLANTED_PLANS = {
    "row": (3000, "exact_rows.cu", "PLANNED ? 53 : 62", "62"),
    "tile": (100, "exact_tile_rows.cu", "52 - FRACTION - log", "60 - FRACTION - log"),
    "order": (
        3000,
        "exact_rows.cu",
        "* WARP + lane) * PER_LOAD",
        "* WARP + lane / 2 + lane % 2 * 16) * PER_LOAD",
    ),
    "turns": (3000, "exact_rows.cu", "turn < turns", "turn < 1"),
    "chunks": (20_001, "exact_rows.cu", "if (lane == chunk) total", "if (lane == chunk / 2) total"),
}


@pytest.mark.slow
@pytest.mark.parametrize("planted", PLANTED_PLANS)
def test_an_error_in_a_plan_s_sum_is_seen(host: HostGpu, planted: str) -> None:
    length, source, right, wrong = PLANTED_PLANS[planted]
    host.tuned |= {"least_part": 1 << 30}
    rng = np.random.default_rng(6)
    x = rng.uniform(1.5, 2, (97, length)).astype(ml_dtypes.bfloat16)
    for i in range(
        97
    ):  # between the least that a lane's proof takes and the least of the row's, and below both
        x[i, i % 3 :: 5] = (2 * rng.integers(64, 128, x[i, i % 3 :: 5].shape) + 1) * 2.0 ** -(41 + i % 8)
    expected = tcu.sum(x, axis=1, dtype="float64")

    def run() -> Any:
        return rows_of(host, x, shift=1, dtype=np.float64, planned=True)

    assert alike(run(), expected)
    host.changes = {source: {right: wrong}}
    assert not alike(run(), expected)


PLANTED = {
    "mask": (np.float16, "exact_rows.cu", "min(max(before - first, 0), PER_LOAD)", "0"),
    "end": (np.float32, "exact_rows.cu", "min(max(end - first, 0), PER_LOAD)", "PER_LOAD"),
    "largest": (np.float32, "exact_rows.cu", "top < min(window + BIAS, FIELDS) &&", ""),
    "leftover": (np.float64, "exact_rows.cu", "FIELDS) && leftover == 0)", "FIELDS))"),
    "other threads": (np.float64, "exact_columns.cu", "if (failed) atomicMax", "if (false) atomicMax"),
    "other lanes": (np.float32, "exact_columns.cu", "x = join(x, __shfl_xor_sync(ALL, x, far))", "x = join(x, T())"),
    "other rows": (np.float16, "exact_columns.cu", "x = join(x, of(c));", "if (c == column) x = join(x, of(c));"),
    "bits": (ml_dtypes.bfloat16, "exact_rows.cu", "last_bit(bottom) + bits;", "last_bit(bottom) + bits + 40;"),
    "nan": (np.float16, "exact_columns.cu", "(found >> 16 * half & 0x7fff) ? FIELDS", "false ? FIELDS"),
    "odd": (np.float32, "exact_rows.cu", "(rest > 0) == (x > 0) ? 1 : -1", "0"),
    "parts": (np.float32, "exact_rows.cu", "if (__shfl_sync(ALL, before, 0) != p.parts - 1) return;", ""),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("planted", PLANTED)
def test_an_error_is_seen(host: HostGpu, planted: str) -> None:
    dtype, source, right, wrong = PLANTED[planted]
    host.tuned |= {"least_part": 4096, "tiles": 4}
    rng = np.random.default_rng(5)
    if planted == "odd":
        x = np.tile(np.array([1, 2.0**-24, 2.0**-80], dtype), (4, 20))[:, :24].copy()
        x[:, 3:] = 0
    elif planted == "parts":
        x = draw(rng, 2 * 9000, dtype, "normal").reshape(2, 9000)
    else:
        x = np.ones((20, 400), dtype)
        for i in range(20):  # the largest number stands anywhere, the smallest elsewhere
            x[i, 19 * i], x[i, (19 * i + 200) % 400] = (
                (np.nan if planted == "nan" else 2.0**14),
                2.0 ** (-2 * i - 10),
            )
            x[i, (19 * i + 100) % 400] = 0 if planted == "nan" else -x[i, 19 * i]
        if planted in ("leftover", "other threads"):  # what is left is the smallest number
            x[abs(x) < 2] = 0
            x[:, 7] = 2.0**-200
        x = np.tile(x, (1, 10)) if planted == "largest" else x
        if planted == "largest":
            x[:, 3000], x[:, 3100] = 2.0**100, 2.0**100
    x = x[:2] if planted == "other rows" else x  # 16 bytes of several rows
    by_rows = "rows" in source

    def run() -> Any:
        return rows_of(host, x, shift=1) if by_rows else columns_of(host, np.ascontiguousarray(x.T)[None])

    expected = wanted(x, 1) if by_rows else wanted(x, 1)[None]
    assert alike(run(), expected)
    host.changes = {source: {right: wrong}}
    try:
        unseen = alike(run(), expected)
    except KernelFailed:
        unseen = False
    assert not unseen
