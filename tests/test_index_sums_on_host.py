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
SLOWLY = {"do_what_is_left(p, left": "do_what_is_left(p, 0"}
"""Without the slow way, only proved sums are right."""


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch, built: Path) -> HostGpu:
    monkeypatch.setattr(index_sums, "_MOST_ROWS", 24)
    monkeypatch.setattr(index_sums, "_WAVES", 0.001)  # windows of several slots, though these are few
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


@pytest.mark.some(8)
@pytest.mark.slow
@dtypes
@pytest.mark.parametrize("loads", [1, 3, 4, 32, 45])
def test_windows_of_slots(host: HostGpu, dtype: Any, loads: int) -> None:
    """Of one slot and of several, whose rows are read in a stream; empty slots, long ones, and the last window's end."""
    rng = np.random.default_rng(loads)
    columns = loads * 16 // np.dtype(dtype).itemsize
    for case, kind in enumerate(KINDS):
        n, slots = 300, (40, 307, 151, 1000, 9)[case % 5]
        index = rng.zipf(1.5, n) % slots if case % 2 else rng.integers(0, slots, n)
        x = draw(rng, n * columns, dtype, kind).reshape(n, columns)
        gap = case % 2 * 16 // np.dtype(dtype).itemsize
        for target, mean in ((dtype, False), (np.float64, True)):
            found = sums(host, x, index, slots, dtype=target, gap=gap, mean=mean)
            assert host.launches[-3:] == ["listed_windows", "listed_pieces_of_windows", "listed_long_slots"]
            assert alike(found, wanted(x, index, slots, target, mean=mean)), kind


def test_no_row_at_all(host: HostGpu) -> None:
    room = index_sums.Room.of(0, 5, 8, 0)
    words, result = Result(8 * room.words, np.uint8), Result(40, np.float32)
    words.array[:] = 0
    element = format_of(np.dtype(np.float32))
    recipe = index_sums.rows_recipe(0, 5, 8, 8, True, room, element, element, host.gpu)
    Launch(recipe, host.gpu).start(0, 0, result.array.ctypes.data, 0, words.array.ctypes.data)
    result.check()
    assert not result.array.any()


@pytest.mark.parametrize("columns", [8, 11])
def test_sums_of_pieces_have_a_limit(host: HostGpu, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    """Of many rows, pieces are longer, so that there are fewer."""
    rng = np.random.default_rng(columns)
    for most, rows in ((40 * columns, 24), (11 * columns, 55), (3 * columns, 200), (columns, 600)):
        monkeypatch.setattr(index_sums, "_MOST_SUMS", most)
        room = index_sums.Room.of(300, 4, columns, 0)
        assert room.most == rows
        assert room.words - room.sums <= 2 * most + 1
        x, index = (
            draw(rng, 300 * columns, np.float16, "spread").reshape(300, columns),
            rng.zipf(1.5, 300) % 4,
        )
        assert alike(sums(host, x, index, 4), wanted(x, index, 4))


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
    host.changes = {"listed_rows": SLOWLY, "listed_windows": SLOWLY}
    for numbers in (rng.standard_normal, rng.random, np.zeros):
        for columns, entry in ((40, "listed_windows"), (41, "listed_rows")):
            x, index = numbers((300, columns)).astype(dtype), rng.integers(0, 60, 300)
            assert alike(sums(host, x, index, 60), wanted(x, index, 60))
            assert host.launches[-3] == entry


@pytest.mark.slow
@pytest.mark.parametrize(
    ("entry", "text", "error"),
    [
        ("index_slots.cu", "if (slot < 0) slot += slots;", ""),
        ("index_slots.cu", "__popc(mates[i] & ((1u << lane) - 1))", "0"),
        ("sort_slots.cu", "if (lower) first += (lower - 1) * step + 1;", "if (lower) first += lower * step;"),
        ("listed_rows.cu", "i < pieces && column", "i < pieces - 1 && column"),
        ("listed_rows.cu", "left |= static_cast<u32>(!is_done) << c;", ""),
        ("listed_rows.cu", "row + i < count", "row + i <= count"),
        ("listed_windows.cu", "wait_for_copies<STAGED - 1>", "wait_for_copies<STAGED>"),
        ("listed_windows.cu", "if (next < end) number = list[next];\n    }", "}"),
        ("listed_windows.cu", "is_begun = false;  //", "//"),
        ("listed_windows.cu", "if (count > 0) of_first", "of_first"),
        ("listed_windows.cu", "piece.number * p.most", "0"),
        ("listed_windows.cu", "rows.again(at + i)", "rows.again(i)"),
        (
            "listed_windows.cu",
            "(smallest) <= static_cast<u32>(52 - FRACTION - log)",
            "(smallest) <= static_cast<u32>(54 - FRACTION)",
        ),
    ],
)
def test_an_error_in_a_kernel_is_seen(
    host: HostGpu, monkeypatch: pytest.MonkeyPatch, entry: str, text: str, error: str
) -> None:
    rng = np.random.default_rng(5)
    index = rng.integers(-9, 9, 300)
    index[:40] = 3
    cases = []
    slots, columns = {"listed_windows.cu": (100, 8), "sort_slots.cu": (5000, 7)}.get(entry, (9, 7))
    if entry == "sort_slots.cu":
        monkeypatch.setattr(index_sums, "_LEAST_SORTED", 1)
    # Sums in one number of binary64, in two, and in limbs; and one that is behind a tie by a bit that binary64 does not hold.
    tie = np.zeros((300, columns), np.float32)
    tie[np.flatnonzero(index == 5)[:3]] = np.array([1, 2**-24 - 2**-31, 2**-31 + 2**-54], np.float32)[:, None]
    for x in (
        *(
            draw(rng, tie.size, np.float32, kind).reshape(tie.shape)
            for kind in ("normal", "spread", "finite")
        ),
        tie,
    ):
        cases.append((x, wanted(x, index, slots)))
        assert alike(sums(host, x, index, slots), cases[-1][1])
    host.changes = {entry: {text: error}}

    def is_seen(x: Any, right_sums: Any) -> bool:
        try:
            return not alike(sums(host, x, index, slots), right_sums)
        except AssertionError:  # it wrote or read outside of its memory
            return True

    assert any(is_seen(*case) for case in cases)
