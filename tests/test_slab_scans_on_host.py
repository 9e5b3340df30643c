"""Contract: running sums down few columns that fill memory have the bits of the model, without a GPU.

The kernels run on the host as their recipes say (cuda_on_host.py): slabs of part of a group up to many runs of the
networks, one after another, some at a time, and read twice; of numbers of every kind, in every order, in narrower and
wider formats; from any element on.  No byte outside the array's granules is read, none outside the result is written,
and an error in a kernel's text is seen.  Blocks lie in shared memory so that few lanes wait for the same bank.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda_on_host import OUTSIDE, WRONG_COPY
from test_kernels_on_host import (
    BITS,
    ORDERS,
    HostGpu,
    alike,
    column_scans,
    complaint_about,
    model_column_scans,
    numbers_of,
)

from tcu.formats import get_format
from tcu.gpu import column_scan, columns, slab_scan
from tcu.gpu.launch import Launch
from tcu.plan.scan import make_scan_plan

DTYPES = ["float16", "bfloat16", "float32", "float64"]
WALKS = {
    "alone": {"enough": 0, "tile_bytes": 1024, "many": 1 << 20},
    "together": {"enough": 0, "tile_bytes": 4096, "many": 1},
}
"""Slabs of a block, and tiles that are small enough for a few of each."""
TWICE = {"enough": 1 << 30, "few": 0, "turns": 1}


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch, built: Path) -> HostGpu:
    host = HostGpu(monkeypatch, built)
    monkeypatch.setattr(column_scan, "fills_memory", slab_scan.fills_memory)
    host.tuned |= {"strip": 1 << 20, "row_twice": 1 << 20, "walk": (0, 0, 0, 1)}
    return host


def drawn(shape: tuple[int, int, int], dtype: Any) -> Any:
    """Of all sizes; some columns have inf, NaN or -0."""
    rng = np.random.default_rng(shape[1])
    x = numbers_of(rng, "spread", int(np.prod(shape)), dtype).reshape(shape)
    if shape[1] > 1:
        x[:, shape[1] // 2, 1] = np.array([np.inf]).astype(dtype)
        x[:, -1, 1] = np.array([-np.inf]).astype(dtype)
        x[:, 0, 0] = np.array([-0.0]).astype(dtype)
    return x


@pytest.mark.slow
@pytest.mark.some(8)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("exclusive", "reverse"), ORDERS)
@pytest.mark.parametrize("walk", WALKS)
@pytest.mark.parametrize("shift", [0, 1])
def test_slabs_one_after_another(
    host: HostGpu, dtype: str, exclusive: bool, reverse: bool, walk: str, shift: int
) -> None:
    """Of one tile, of a few and of many; rows of 2 to 100 numbers."""
    host.tuned |= WALKS[walk]
    fmt = get_format(dtype).dtype
    run = 32 * 32 // fmt.itemsize
    shapes = ((5, 1, 4), (9, run // 20, 6), (7, run // 8, 16), (2, run + 188, 100), (3, 18 * run + 5, 2))
    for shape, target in zip(shapes, ("float32", "float64", "bfloat16", dtype, dtype), strict=True):
        wide = get_format(target).dtype
        x = drawn(shape, fmt)
        found = column_scans(host, x, wide, shift=shift, exclusive=exclusive, reverse=reverse)
        assert host.launches[-1] == "slab_scan"
        assert alike(found, model_column_scans(x, wide, exclusive, reverse)), (shape, target)


@pytest.mark.slow
@pytest.mark.some(8)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("exclusive", "reverse"), ORDERS)
def test_a_warp_for_each_slab(host: HostGpu, dtype: str, exclusive: bool, reverse: bool) -> None:
    """Of rows of one number up to many of a lane; of part of a turn up to many runs; some begin anywhere in a granule."""
    host.tuned |= {"walk": (256, 0, 16384, 4), "walk_least": (0, 0, 0)}
    fmt = get_format(dtype).dtype
    group = 32 // fmt.itemsize
    shapes = ((5, group + 1, 3), (3, 3 * group + 2, 33), (2, 40 * group + 1, 100), (3, 70 * group + 3, 5), (2, 600 * group + 8, 4),
              (2, 5 * group, 64), (4, 2 * group - 1, 16))  # fmt: skip
    for shape in shapes:
        x = drawn(shape, fmt)
        found = column_scans(host, x, fmt, exclusive=exclusive, reverse=reverse)
        assert host.launches[-1] == "slab_walk"
        assert alike(found, model_column_scans(x, fmt, exclusive, reverse)), shape


@pytest.mark.slow
@pytest.mark.some(4)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("exclusive", "reverse"), ORDERS)
@pytest.mark.parametrize("shift", [0, 1])
def test_slabs_that_are_read_twice(
    host: HostGpu, dtype: str, exclusive: bool, reverse: bool, shift: int
) -> None:
    """Of two, three and four networks."""
    host.tuned |= TWICE
    fmt = get_format(dtype).dtype
    run = 32 * 32 // fmt.itemsize
    for shape, levels in (((2, 3 * run + 5, 7), 2), ((3, 35 * run, 2), 3), ((1, 16 * 33 * run + 1, 2), 4)):
        x = drawn(shape, fmt)
        found = column_scans(host, x, fmt, shift=shift, exclusive=exclusive, reverse=reverse)
        assert host.launches == ["slab_scan", "slab_runs", *["slab_carries"] * (levels > 2), "slab_scan"]
        assert alike(found, model_column_scans(x, fmt, exclusive, reverse)), shape
        host.launches.clear()


@pytest.mark.parametrize("tuned", [WALKS["alone"], TWICE], ids=["walk", "twice"])
def test_results_take_the_places_of_numbers(host: HostGpu, tuned: dict[str, Any]) -> None:
    """A tile is read before its results are written, and no other tile is where they are."""
    host.tuned |= tuned
    x = drawn((1, 2000, 3), np.dtype(np.float32))
    place = x.reshape(-1).copy()
    host.readable = (place.ctypes.data // 16 * 16, place.ctypes.data + place.nbytes + 16)
    array = columns.Columns(1, 3, 6000, 3)
    recipe = column_scan.column_scan_recipe(
        make_scan_plan(2000, "binary32"), array, array, False, get_format("binary32"), host.gpu, exclusive=False, reverse=True
    )  # fmt: skip
    assert recipe is not None
    room = np.empty(recipe.room + 1, np.int64)
    Launch(recipe, host.gpu).start(place.ctypes.data, 0, place.ctypes.data, 0, room.ctypes.data)
    assert alike(place, model_column_scans(x, np.float32, reverse=True).reshape(-1))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tuned", "shape", "right", "wrong", "seen"),
    [
        (WALKS["alone"], (2, 3005, 3), "networks.push(number, totals);", "", BITS),
        (WALKS["alone"], (2, 3005, 3), "b.before[i][threadIdx.x] = networks.piece(i, 0);", "b.before[i][threadIdx.x] = 0;", BITS),
        (WALKS["alone"], (2, 3005, 3), "exact(0) || turn % radix(0) >> height & 1", "true", BITS),
        (WALKS["alone"], (2, 3005, 3), "return pieces[0] + carry;", "return carry;", BITS),
        (WALKS["alone"], (2, 3005, 3), "load::wait_for_copies<STAGES == 1 ? 0 : STAGES - 2>();", "load::wait_for_copies<STAGES - 1>();", BITS),
        (WALKS["together"], (9, 40, 6), "if (block / GROUPS >= slabs) return 0;", "", OUTSIDE),
        (WALKS["together"], (9, 40, 6), "line(block / GROUPS * COLUMNS + column)", "line(column)", BITS),
        (WALKS["together"], (9, 37, 3), "offset < end", "true", OUTSIDE),
        (WALKS["together"], (9, 37, 3), "SLABS > 1 ? tile + first : tile", "tile", WRONG_COPY),
        (TWICE, (2, 36005, 2), "+ at.tile / RADIX] + near : near", "+ at.tile / RADIX] : near", BITS),
        (TWICE, (2, 36005, 2), "if (number + 1 < tiles) before = sum_before(p, number + 1);", "", BITS),
        (TWICE, (2, 36005, 2), "*sum_of(p, PlaceOfTile(p, number)) = b.totals[threadIdx.x];", "*sum_of(p, PlaceOfTile(p, number)) = 0;", BITS),
    ],
)  # fmt: skip
def test_an_error_in_the_kernel_of_slabs_is_seen(
    host: HostGpu, tuned: dict[str, Any], shape: tuple[int, int, int], right: str, wrong: str, seen: str
) -> None:
    host.tuned |= tuned
    x = np.random.default_rng(4).standard_normal(shape) * 2.0 ** np.arange(shape[2])
    x = x.astype(np.float64)
    wanted = model_column_scans(x, np.float64)
    found = complaint_about(
        host, "slab_scan", right, wrong, lambda: column_scans(host, x, np.float64), wanted
    )
    assert found == seen


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "reverse", "right", "wrong", "seen"),
    [
        ((2, 1205, 3), False, "before[k] = earlier + before[k];", ";", BITS),
        ((2, 1205, 3), False, "networks.push(turn, all);", "", BITS),
        ((2, 1205, 33), False, "networks.push(turn, carry);", "", BITS),
        ((2, 1205, 33), True, "REVERSE ? from + p.length * COLUMNS : from", "from", WRONG_COPY),
        ((2, 1205, 5), True, "(PARTS - 1 - part) * PITCH + PART - ROW", "(PARTS - 1) * PITCH + PART - ROW", BITS),
    ],
)  # fmt: skip
def test_an_error_in_the_walk_down_slabs_is_seen(
    host: HostGpu, shape: tuple[int, int, int], reverse: bool, right: str, wrong: str, seen: str
) -> None:
    host.tuned |= {"walk": (256, 0, 16384, 4), "walk_least": (0, 0, 0)}
    x = np.random.default_rng(4).standard_normal(shape).astype(np.float16)
    wanted = model_column_scans(x, np.float16, reverse=reverse)
    found = complaint_about(
        host, "slab_walk", right, wrong, lambda: column_scans(host, x, np.float16, reverse=reverse), wanted
    )
    assert found == seen


@pytest.mark.slow
@pytest.mark.parametrize(
    ("entry", "right", "wrong"),
    [
        ("slab_runs", "*own = before;", "*own = sum;"),
        ("slab_runs", "tile % RADIX == RADIX - 1 ||", ""),
        ("slab_carries", "own[at] = above[at / WARP] + own[at];", ";"),
        ("slab_carries", "level_of(level + 1)[at / WARP] = sum;", ";"),
    ],
)
def test_an_error_in_the_kernels_of_carries_is_seen(
    host: HostGpu, entry: str, right: str, wrong: str
) -> None:
    host.tuned |= TWICE
    x = np.random.default_rng(4).standard_normal((1, 16 * 33 * 128 + 5, 2))
    wanted = model_column_scans(x, np.float64)
    assert (
        complaint_about(host, entry, right, wrong, lambda: column_scans(host, x, np.float64), wanted) == BITS
    )


def test_lanes_have_their_own_banks() -> None:
    """Or few wait for the same one: at most half of what reading in order would take besides."""
    for size, group in ((2, 16), (4, 8), (8, 4)):
        for inner in range(2, 65):
            for whole in (True, False):
                unit = 2 if size == 2 and inner % 2 == 0 and whole else 1
                found = slab_scan._staged(inner, size, size, group, unit, whole)
                assert found.pitch % found.copy == 0
                least = -(-32 * unit * size // 128)
                assert slab_scan._turns(found.pitch, inner, size, unit) <= 2 * least + 1, (inner, size, whole)


def test_arrays_with_gaps_do_not_fill_memory() -> None:
    assert slab_scan.fills_memory(columns.Columns(4, 3, 30, 3), 10)
    assert slab_scan.fills_memory(columns.Columns(1, 3, 0, 3), 10)
    assert not slab_scan.fills_memory(columns.Columns(4, 3, 31, 3), 10)
    assert not slab_scan.fills_memory(columns.Columns(4, 3, 30, 4), 10)
    assert not slab_scan.fills_memory(columns.Columns(4, 257, 2570, 257), 10)
