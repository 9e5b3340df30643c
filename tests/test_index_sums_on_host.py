"""Contract: sums by index are exact, whatever the numbers and the indices are, without a GPU.

The kernels run on the host as their recipes say (cuda_on_host.py): counters in memory and of blocks, the places of every
slot brought together, slots of a lane and long ones, columns that begin anywhere.  Results are the host's exact sums, for
numbers of every exponent, cancelling, subnormal, inf and NaN.  Ordinary numbers take the fast way, what is out of range is
told and counts nowhere, and an error in a kernel's text is seen.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numbers_of_all_kinds import KINDS, draw
from test_kernels_on_host import HostGpu, Result, alike, placed

import tcu
from tcu.formats import format_of
from tcu.gpu import index_sums
from tcu.gpu.launch import Launch

DTYPES = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]
dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
SLOWLY = {"sum_what_is_left(p, left": "sum_what_is_left(p, 0"}
"""Without the slow way, only proved sums are right."""


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch, built: Path) -> HostGpu:
    monkeypatch.setattr(index_sums, "_MOST_ROWS", 24)
    return HostGpu(monkeypatch, built)


class Together:
    """What an index sends to each slot, as the launches leave it."""

    def __init__(self, host: HostGpu, index: Any, slots: int, columns: int, line: Any = None) -> None:
        self.host, n = host, index.size
        size = 0 if line is None else line.itemsize
        self.room = index_sums.Room.of(n, slots, columns, size)
        self.words = Result(8 * self.room.words, np.uint8)
        self.words.array[:] = 0xEE  # whatever was there
        self.view = self.words.array.view(np.int64)
        self.view[: self.room.zeros] = 0
        wide = index.dtype == np.int64
        host.readable = (0, 0)
        address = 0 if line is None else line.ctypes.data
        stride = 1 if line is None else line.strides[0] // size
        self.edges = self.view[self.room.edges : self.room.edges + slots + 1]
        halves = self.view[self.room.counts :].view(np.uint32)
        for number in range(self.room.passes):
            count, sort = index_sums.sort_recipes(n, slots, wide, self.room, size, stride, number)
            self.start(count, address, index.ctypes.data, 0)
            counts = count.kernels[0].blocks * count.kernels[0].threads
            halves[counts : 2 * counts] = np.cumsum(halves[:counts])
            self.start(sort, address, index.ctypes.data, 0)
        if not self.room.passes:
            self.start(index_sums.count_recipe(n, slots, wide, self.room), 0, index.ctypes.data, 0)
            self.edges[1:] = np.cumsum(self.view[self.room.counts :][:slots])
            place = index_sums.place_recipe(n, slots, wide, self.room, size, stride)
            self.start(place, address, index.ctypes.data, 0)
        kind = np.uint32 if line is None else line.dtype
        self.placed = self.view[self.room.placed : self.room.other_ranks].view(kind)[:n]

    def start(self, recipe: Any, x: int, index: int, out: int) -> None:
        Launch(recipe, self.host.gpu).start(x, index, out, 0, self.words.array.ctypes.data)
        self.words.check()

    def wrong(self) -> int:
        return int(self.view[0])


def sums(
    host: HostGpu, x: Any, index: Any, slots: int, *, dtype: Any = None, gap: int = 0, shift: int = 0, mean: bool = False
) -> Any:  # fmt: skip
    """Of the rows of an array, ``gap`` numbers apart in memory."""
    n, columns = x.shape
    together = Together(host, index, slots, columns)
    line = np.pad(x, ((0, 0), (0, gap))).reshape(-1)
    place, host.readable = placed(line[: line.size - gap], shift)
    element, target = format_of(x.dtype), format_of(np.dtype(dtype or x.dtype))
    result = Result(slots * columns, target.dtype)
    aligned = place.ctypes.data % 16 == 0
    recipe = index_sums.rows_recipe(
        n, slots, columns, columns + gap, aligned, together.room, element, target, host.gpu, mean=mean
    )
    together.start(recipe, place.ctypes.data, 0, result.array.ctypes.data)
    result.check()
    return result.array.reshape(slots, columns).copy()


def wanted(x: Any, index: Any, slots: int, dtype: Any = None, *, mean: bool = False) -> Any:
    function = tcu.index_mean if mean else tcu.index_sum
    with np.errstate(all="ignore"):
        return np.ascontiguousarray(function(x, index, slots, dtype=np.dtype(dtype or x.dtype).name))


@pytest.fixture(params=[False, True], ids=["counted", "sorted"])
def sorts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether places are sorted."""
    if request.param:
        monkeypatch.setattr(index_sums, "_LEAST_SORTED", 1)
    return bool(request.param)


@pytest.mark.some(6)
@pytest.mark.slow(1)
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("slots", [1, 100, 256, 257, 2048, 2049, 70_000])
def test_places_of_every_slot_are_brought_together(
    host: HostGpu, slots: int, wide: bool, sorts: bool
) -> None:
    rng = np.random.default_rng(slots)
    index = (rng.zipf(1.5, 5000) % slots - (rng.random(5000) < 0.5) * slots).astype(
        np.int64 if wide else np.int32
    )
    together = Together(host, index, slots, 2)
    assert together.wrong() == 0
    assert ("sort_by_digit" in host.launches) == sorts
    assert together.edges[0] == 0
    assert together.edges[-1] == index.size
    places = index % slots
    counts = np.bincount(places, minlength=slots)
    assert np.array_equal(together.edges, np.concatenate([[0], np.cumsum(counts)]))
    assert np.array_equal(places[together.placed], np.sort(places))
    assert np.array_equal(np.sort(together.placed), np.arange(5000))
    for kind in (np.float16, np.float32, np.float64):
        line = rng.standard_normal(10_000).astype(kind)[::2]
        found, wanted = Together(host, index, slots, 1, line).placed, line[np.argsort(places)]
        for own, theirs in zip(
            np.split(found, together.edges[1:-1]), np.split(wanted, together.edges[1:-1]), strict=True
        ):
            assert np.array_equal(np.sort(own), np.sort(theirs))


def test_what_is_out_of_range_is_told_and_counts_nowhere(host: HostGpu, sorts: bool) -> None:
    index = np.arange(1000) % 7
    index[[300, 301, 999]] = 7, -8, 1 << 40
    together = Together(host, index, 7, 2)
    assert together.wrong() == index.size - 300
    assert together.edges[-1] == index.size - 3
    x = np.ones((1000, 2), np.float32)
    found = sums(host, x, index, 7)
    assert found.sum() == 2 * 997


@pytest.mark.some(3)
@pytest.mark.slow
@dtypes
@pytest.mark.parametrize("columns", [2, 8, 33, 300])
def test_rows_have_the_sums_of_the_host(host: HostGpu, dtype: Any, columns: int) -> None:
    rng = np.random.default_rng(columns)
    for case, kind in enumerate(KINDS):
        n, slots = (400, 150) if case % 2 else (300, 20)
        index = rng.zipf(1.4, n) % slots  # some slots are long
        x = draw(rng, n * columns, dtype, kind).reshape(n, columns)
        target, mean = DTYPES[case % 4], case % 3 == 2
        found = sums(host, x, index, slots, dtype=target, gap=case % 3, shift=case % 2, mean=mean)
        assert host.launches[-1] == "listed_long_slots"
        assert alike(found, wanted(x, index, slots, target, mean=mean)), kind


@pytest.mark.some(5)
@pytest.mark.slow
@dtypes
@pytest.mark.parametrize("loads", [1, 4, 32])
def test_slots_of_about_one_row(host: HostGpu, dtype: Any, loads: int) -> None:
    """Windows of slots whose rows are read at once, and some beyond them; empty slots, long ones, and the last window's end."""
    rng = np.random.default_rng(loads)
    columns = loads * 16 // np.dtype(dtype).itemsize
    for case, kind in enumerate(KINDS):
        n, slots = 300, (151, 307, 1000)[case % 3]
        index = rng.zipf(1.5, n) % slots if case % 2 else rng.integers(0, slots, n)
        x = draw(rng, n * columns, dtype, kind).reshape(n, columns)
        gap = case % 2 * 16 // np.dtype(dtype).itemsize
        for target, mean in ((dtype, False), (np.float64, True)):
            found = sums(host, x, index, slots, dtype=target, gap=gap, mean=mean)
            assert host.launches[-3] == "listed_windows"
            assert alike(found, wanted(x, index, slots, target, mean=mean)), kind


@pytest.mark.slow
@dtypes
def test_one_slot_has_all(host: HostGpu, dtype: Any) -> None:
    rng = np.random.default_rng(3)
    for kind in ("normal", "spread", "special", "cancelling"):
        x = draw(rng, 500 * 12, dtype, kind).reshape(500, 12)
        for mean in (False, True):
            index = np.full(500, 2)
            found = sums(host, x, index, 4, dtype=np.float64, mean=mean)
            assert alike(found, wanted(x, index, 4, np.float64, mean=mean)), kind


@pytest.mark.slow(1)
@dtypes
def test_ordinary_numbers_take_the_fast_way(host: HostGpu, dtype: Any) -> None:
    rng = np.random.default_rng(2)
    host.changes = {"listed_rows.cu": SLOWLY}
    for numbers in (rng.standard_normal, rng.random, np.zeros):
        x, index = numbers((300, 40)).astype(dtype), rng.integers(0, 60, 300)
        assert alike(sums(host, x, index, 60), wanted(x, index, 60))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("entry", "text", "error"),
    [
        ("index_slots.cu", "if (slot < 0) slot += slots;", ""),
        ("index_slots.cu", "__popc(mates[i] & ((1u << lane) - 1))", "0"),
        ("listed_rows.cu", "i < pieces && column", "i < pieces - 1 && column"),
        ("listed_rows.cu", "left |= static_cast<u32>(!done) << c;", ""),
        ("listed_rows.cu", "row + i < count", "row + i <= count"),
        ("listed_windows.cu", "at + i < STAGED ?", "true ?"),
        ("listed_windows.cu", "data + numbers[i] * p.stride", "data + numbers[0] * p.stride"),
        ("listed_windows.cu", "if (of_slot > 0) of_first", "of_first"),
    ],
)
def test_an_error_in_a_kernel_is_seen(host: HostGpu, entry: str, text: str, error: str) -> None:
    rng = np.random.default_rng(5)
    index = rng.integers(-9, 9, 300)
    index[:40] = 3
    cases = []
    slots = 200 if entry == "listed_windows.cu" else 9
    for kind in ("spread", "finite"):  # proved sums, and others
        x = draw(rng, 300 * 8, np.float32, kind).reshape(300, 8)
        cases.append((x, wanted(x, index, slots)))
        assert alike(sums(host, x, index, slots), cases[-1][1])
    host.changes = {entry: {text: error}}

    def is_seen(x: Any, right_sums: Any) -> bool:
        try:
            return not alike(sums(host, x, index, slots), right_sums)
        except AssertionError:  # it wrote or read outside of its memory
            return True

    assert any(is_seen(*case) for case in cases)
