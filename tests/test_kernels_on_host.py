"""Contract: the kernels of ragged sums, of scans and of sums of columns have the bits of the model, without a GPU.

They run on the host, thread by thread (cuda_on_host.py), as the launches of
``tcu.gpu`` compile and start them: macros, grids and structures are theirs.
What is copied in the background comes at any time, warps and blocks take
turns by chance, and no byte outside the array is read.  Results are those of
the plans executed by the model: for segments of every length, for numbers of
every kind, for rows of one line and of many chunks.  Segments keep their sums
where offsets beside theirs are wrong.  An error in a kernel's text is seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cuda_on_host import (
    ENDLESS,
    LEFT_BEHIND,
    OUTSIDE,
    STUCK,
    TOO_EARLY,
    WRONG_COPY,
    KernelFailed,
    compiled_for_host,
    compiler_or_skip,
)
from launches import ends_here
from numbers_of_all_kinds import KINDS, draw

import tcu
from tcu.formats import format_of, get_format
from tcu.gpu import column_scan, columns, launch, moments, scans, segments, slab_scan, tuning
from tcu.gpu.configs import ScanConfig, SegmentsConfig
from tcu.gpu.device import Gpu
from tcu.gpu.launch import KernelChoice, Launch
from tcu.plan import DEFAULT_VARIANT, OWN_VARIANTS, make_dot_plan, make_plan
from tcu.plan.scan import make_scan_plan
from tcu.units import AlignedSum, find_instruction, get_unit

STRUCTURES = {
    "list_segments": "Segments", "segments": "Segments", "short_segments": "Segments", "long_chunks": "LongSegments",
    "short_scan": "Scan", "tile_scan": "Scan", "scan": "Scan", "long_scan": "Scan", "columns": "Columns", "moments": "Moments", "column_scan": "ColumnScan",
    "column_walk": "ColumnScan", "column_look_back": "ColumnScan", "slab_scan": "SlabScan", "slab_walk": "SlabScan", "slab_runs": "SlabCarries", "slab_carries": "SlabCarries",
    "exact_rows": "ExactRows", "exact_short_rows": "ExactShortRows", "exact_tile_rows": "ExactTileRows", "exact_tile_columns": "ExactTileColumns",
    "exact_columns": "ExactColumns",
    "segment_tiles": "SegmentTiles", "segment_chunks": "SegmentChunks", "levels_together": "ChainLevels",
    "exponentials": "Exponentials", "cross_entropy": "CrossEntropy", "cross_entropy_gradient": "CrossEntropyGradient", "norms": "Norms", "row_gradients": "RowGradients", "exact_segments": "ExactSegments", "long_exact_segments": "LongExactSegments",
    "count_slots": "IndexSlots", "place_in_slots": "IndexSlots", "count_digits": "SlotSort", "sort_by_digit": "SlotSort", "begin_of_slots": "SlotSort", "listed_rows": "ListedRows", "listed_windows": "ListedRows", "listed_pieces_of_windows": "ListedRows", "listed_pieces": "ListedRows",
    "listed_long_slots": "ListedRows", **dict.fromkeys(("see_numbers", "clear_words", "add_to_slots", "round_slots"), "SlotSums"), "fft_pass": "FftPass", "fft_passes": "FftPasses", "fft_unfold": "FftUnfold", "triangular_scan": "TriangularScan", "triangular_levels": "TriangularScan",
    "limb_products": "LimbProducts", "modular_powers": "ModularPowers", "horner": "Polyval", "blocked": "Polyval", **dict.fromkeys(("ntt_roots", "ntt_pass", "ntt_pass_back", "ntt_reorder"), "Ntt"),
    **dict.fromkeys(("carry_lines", "carry_blocks", "carry_limbs"), "LimbCarries"),
}  # fmt: skip
MULTIPROCESSORS, L2 = 3, 5120
TUNED = tuning.config(ScanConfig, (9, 0), "binary16")
MORE = tuning.config(SegmentsConfig, (9, 0), "binary16").more
GUARD = 64
"""Bytes before and behind a result, which no kernel writes."""
LINE = 128
"""Bytes of memory that are read together."""
BITS = "other bits"


class HostGpu:
    """Stands in for the driver: kernels are compiled for the host, changed as a test wants it, and run at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        compiler_or_skip()
        self._folder = folder
        self._workspaces: dict[str, Any] = {}
        self.changes: dict[str, Mapping[str, str]] = {}
        self.launches: list[str] = []
        self.listed: list[int] = []
        """Behind each launch, the items of long segments that have been listed."""
        self.problems: dict[str, Any] = {}
        self.macros: list[dict[str, Any]] = []
        self.readable = (0, 0)
        self.lines_apart = 0
        self.seed = 0
        self.gpu = Gpu(0, "H200", (9, 0))
        object.__setattr__(self.gpu, "multiprocessors", MULTIPROCESSORS)
        object.__setattr__(self.gpu, "l2", L2)
        object.__setattr__(self.gpu, "shared_memory", 227 << 10)
        ends_here(monkeypatch, self._start, self._found)
        monkeypatch.setattr(launch, "workspace", self._workspace)
        # A few thousand segments are as many as a GPU has in a warp's run of many.
        self.tuned: dict[str, Any] = {"busy": 4}
        """Values in place of those that an H200 has."""
        for module in (segments, scans, columns, column_scan, slab_scan):
            monkeypatch.setattr(module, "config", self._config)
        # Arrays without gaps have kernels, and tests, of their own (test_slab_scans_on_host.py); others may have few columns here.
        monkeypatch.setattr(column_scan, "fills_memory", lambda *given: False)
        monkeypatch.setattr(column_scan, "_LEAST_BYTES", 0)

    def _config(self, *given: Any) -> Any:
        found = tuning.config(*given)
        return replace(found, **{name: each for name, each in self.tuned.items() if hasattr(found, name)})

    def _found(self, source: str, entry: str, macros: Mapping[str, Any], gpu: Any) -> Any:
        if "ELEMENT" in macros or "RADICES" in macros:
            self.macros.append(dict(macros))
        return compiled_for_host(
            source, entry, STRUCTURES[entry], {name: str(value) for name, value in macros.items()},
            self._folder, changes=self.changes.get(entry) or self.changes.get(source),
        )  # fmt: skip

    def _start(self, choice: KernelChoice, kernel: Any, stream: int) -> None:
        entry, problem = choice.entry or choice.source, choice.problem
        assert choice.cooperative == (
            entry in ("long_scan", "column_look_back", "segment_chunks", "levels_together")
        )  # whose blocks wait for each other
        self.launches.append(entry)
        self.problems[entry] = problem
        self.seed += 1
        first, last = self.readable
        # What the chunks come to has memory of its own.
        later = entry in ("slab_runs", "slab_carries") or (
            entry == "columns" and not first <= problem.data < last
        )
        kernel(
            problem, choice.blocks, choice.threads, more=choice.more,
            together=choice.blocks if choice.cooperative else MULTIPROCESSORS, cluster=choice.cluster,
            readable=(0, 0) if later else self.readable, seed=self.seed,
        )  # fmt: skip
        self.lines_apart += kernel.lines_apart()
        if "segments" in self._workspaces:
            self.listed.append(int(self._workspaces["segments"].view(np.uint32)[0]))

    def _workspace(self, kind: str, words: int, ones: bool, ordinal: int, stream: int) -> Any:
        """Zeros that launches leave behind as the next one needs them."""
        empty = np.full(1 << 14, ~np.uint64(0) if ones else np.uint64(0))
        room = self._workspaces.setdefault(kind, empty)
        assert words <= room.size

        def start(stream: int, *launches: Any) -> None:
            for each in launches:
                each(stream)

        return SimpleNamespace(address=room.ctypes.data, start=start)

    def state_is_clean(self) -> bool:
        return not self._workspaces["segments"].any()


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch, built: Path) -> HostGpu:
    return HostGpu(monkeypatch, built)


CHOSEN = {"variant": DEFAULT_VARIANT}
"""By which plans the kernels and the model add up."""


@pytest.fixture(params=OWN_VARIANTS)
def variant(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each of the two whose kernels serve every layout."""
    monkeypatch.setitem(CHOSEN, "variant", request.param)
    return str(request.param)


@pytest.fixture
def short_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CHOSEN, "variant", "short-chain")


def placed(numbers: Any, shift: int = 0) -> tuple[Any, tuple[int, int]]:
    """The numbers, so many elements behind the beginning of a line; and the granules that hold some of them."""
    room = np.full(numbers.nbytes + 2 * LINE, 0xFF, np.uint8)
    begin = -room.ctypes.data % LINE + shift * numbers.itemsize
    place = room[begin : begin + numbers.nbytes].view(numbers.dtype)
    place[:] = numbers
    first, last = place.ctypes.data, place.ctypes.data + numbers.nbytes
    return place, (first // 16 * 16, -(-last // 16) * 16)


class Result:
    """Memory for a result, so many elements behind a granule, with guards around it."""

    def __init__(self, count: int, dtype: Any, shift: int = 0) -> None:
        size = count * np.dtype(dtype).itemsize
        self._room = np.full(size + 4 * GUARD, 0xA5, np.uint8)
        self._begin = -self._room.ctypes.data % 16 + GUARD + shift * np.dtype(dtype).itemsize
        self.array = self._room[self._begin : self._begin + size].view(dtype)

    def check(self) -> None:
        before, behind = self._room[: self._begin], self._room[self._begin + self.array.nbytes :]
        assert (np.concatenate([before, behind]) == 0xA5).all(), "written outside the result"


def alike(found: Any, wanted: Any) -> bool:
    return bool(np.array_equal(found.view(np.uint8), np.asarray(wanted).view(np.uint8)))


def complaint(run: Callable[[], Any], wanted: Any) -> str:
    """What is wrong with a kernel in one of a few runs, each with other turns of its warps and copies; or nothing."""
    for _ in range(8):
        try:
            if not alike(run(), wanted):
                return BITS
        except KernelFailed as fault:
            return str(fault)
    return ""


def complaint_about(
    host: HostGpu, entry: str, right: str, wrong: str, run: Callable[[], Any], wanted: Any
) -> str:
    """What is wrong with a kernel that has an error in its text, and is right without."""
    assert alike(run(), wanted)
    host.changes = {entry: {right: wrong}}
    return complaint(run, wanted)


# ---- sums of segments ----


def sums(
    host: HostGpu, x: Any, offsets: Any, dtype: Any = np.float32, *, shift: int = 0, mean: bool = False
) -> Any:
    """Of the kernels, as the host starts them."""
    element, target = format_of(x.dtype), format_of(dtype)
    place, host.readable = placed(x, shift)
    edges = np.ascontiguousarray(offsets, np.int64)
    result = Result(edges.size - 1, target.dtype)
    mmas = CHOSEN["variant"] == "short-chain" and element.bits == 16
    recipe = segments.segments_recipe(x.size, edges.size - 1, element, target, host.gpu, mean=mean, mmas=mmas)
    room = Result(8 * recipe.room, np.uint8)
    room.array[:] = 0xEE  # whatever was there
    Launch(recipe, host.gpu).start(
        place.ctypes.data, edges.ctypes.data, result.array.ctypes.data, 0, room.array.ctypes.data
    )
    result.check()
    room.check()
    assert not recipe.room or host.state_is_clean()
    return result.array


def ragged(rng: np.random.Generator, mean: float, numbers: int, longs: tuple[int, ...] = ()) -> Any:
    """Offsets of segments, many of them empty, some of the given lengths; the first begins anywhere."""
    count = int(numbers / mean)
    lengths = rng.geometric(1 / mean, count) * (rng.random(count) < 0.8)
    lengths[rng.integers(0, count // 2) :][: count // 8] = 0
    lengths[rng.choice(count, len(longs), replace=False)] = longs
    return np.cumsum(np.concatenate([[rng.integers(0, 12)], lengths]))


def numbers_of(rng: np.random.Generator, kind: str, n: int, dtype: Any) -> Any:
    """Of a kind, each stretch of another scale, with inf and NaN here and there."""
    x = draw(rng, n, dtype, kind)
    if n > 200 and rng.random() < 0.3:
        x[rng.choice(n, 3)] = np.array([np.inf, -np.inf, np.nan]).astype(dtype)
    return x


def model_sums(x: Any, offsets: Any, dtype: Any, mean: bool = False) -> Any:
    function = tcu.segment_mean if mean else tcu.segment_sum
    with np.errstate(all="ignore"):
        inner = x[offsets[0] : offsets[-1]]
        return function(inner, offsets - offsets[0], dtype=np.dtype(dtype), unit="h200", **CHOSEN)


def test_the_hosts_mma_adds_as_the_unit_does() -> None:
    """cuda_on_host.cpp says it in 20 lines."""
    for fmt in ("binary16", "bfloat16"):
        arithmetic = find_instruction("H200", "mma", fmt, fmt, "binary32").arithmetic
        assert arithmetic == AlignedSum(16, 25, "RZ", -133)


@pytest.mark.slow(1)
@pytest.mark.parametrize("kind", KINDS)
def test_short_segments(host: HostGpu, kind: str, variant: str) -> None:
    rng = np.random.default_rng(list(KINDS).index(kind))
    for mean, longs in ((1.5, (3000,)), (8, (2049,)), (16, ())):
        offsets = ragged(rng, mean, 4000, longs)
        x = numbers_of(rng, kind, int(offsets[-1]), np.float16)  # nothing behind the last segment
        host.launches.clear()
        found = sums(host, x, offsets, shift=int(rng.integers(LINE // x.itemsize)))
        assert host.launches == ["short_segments", "long_chunks"]
        assert alike(found, model_sums(x, offsets, np.float32)), (mean, longs)


SHORT = {"means": (5, 20), "per_lane": (8, 16), "rings": (512, 2048)}
"""Of segments of every length up to 20, also where an H200 has a faster way."""


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("kind", KINDS)
def test_short_segments_of_wide_ranges(host: HostGpu, kind: str, dtype: str) -> None:
    """Also where the numbers' sizes change from place to place, which asks for another unit or for the plan's order."""
    rng = np.random.default_rng(list(KINDS).index(kind))
    fmt = get_format(dtype).dtype
    host.tuned |= SHORT
    for mean, longs in ((1.5, (3000,)), (8, (2049,)), (16, ())):
        offsets = ragged(rng, mean, 4000, longs)
        x = numbers_of(rng, kind, int(offsets[-1]), fmt)
        for at in range(0, len(x), 700):
            with np.errstate(all="ignore"):
                x[at : at + 350] *= np.array(2.0 ** rng.integers(-120, 90), fmt)
        host.launches.clear()
        target, of_means = (np.float64, True) if mean == 8 else (np.float32, False)
        found = sums(host, x, offsets, target, mean=of_means, shift=int(rng.integers(LINE // x.itemsize)))
        assert host.launches == ["short_segments", "long_chunks"]
        assert alike(found, model_sums(x, offsets, target, of_means)), (mean, longs)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "right", "wrong"),
    [
        ("bfloat16", "bottom >= exponent + BIAS", "bottom + 9 >= exponent + BIAS"),
        ("bfloat16", "top <= exponent + BIAS &&", "top <= exponent + BIAS + 6 &&"),
        ("bfloat16", "FINEST_UNIT = -126", "FINEST_UNIT = -140"),
        ("float32", "bottom >= exponent + BIAS", "bottom + 30 >= exponent + BIAS"),
        ("float32", "if (lane == WARP - 1) store_vector(slot,", "if (lane == WARP) store_vector(slot,"),
        ("float32", "behind += before;", ";"),
    ],
)
def test_an_error_in_short_segments_of_wide_ranges_is_seen(
    host: HostGpu, dtype: str, right: str, wrong: str
) -> None:
    host.tuned |= SHORT
    rng = np.random.default_rng(3)
    offsets = ragged(rng, 16, 9000)
    n = int(offsets[-1])
    x = rng.standard_normal(n) * 2.0 ** (rng.integers(-26, 1, n) if "30" in wrong else rng.integers(-3, 7, n))
    x = (x * 2.0**-122 if "FINEST" in right else x).astype(get_format(dtype).dtype)
    if "WARP" in right:  # a segment ends with a window
        x, offsets = np.ones(8192, np.float32), np.arange(0, 8193, 16)
    wanted = model_sums(x, offsets, np.float64 if "30" in wrong else np.float32)
    target = wanted.dtype
    found = complaint_about(
        host, "short_segments", right, wrong, lambda: sums(host, x, offsets, target, shift=0), wanted
    )
    assert found == BITS


@pytest.mark.slow(1)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("mean", [30, 300])
def test_segments_of_any_length(host: HostGpu, dtype: str, mean: int, variant: str) -> None:
    rng = np.random.default_rng(mean)
    fmt = get_format(dtype)
    for kind in ("spread", "special", "any code"):
        offsets = ragged(rng, mean, 9000, (2500, 6000, 20_000))  # of one chunk, and of several
        x = numbers_of(rng, kind, int(offsets[-1]), fmt.dtype)
        host.launches.clear()
        found = sums(host, x, offsets, np.float64, shift=int(rng.integers(LINE // x.itemsize)))
        assert host.launches == ["segments", "long_chunks"]
        assert alike(found, model_sums(x, offsets, np.float64)), kind


def take_rests(host: HostGpu, with_whole_chunks: bool) -> None:
    """What is left of segments behind their whole 64-byte chunks: with these, or in a turn of its own."""
    host.tuned["with_rests"] = 0 if with_whole_chunks else 1 << 40


@pytest.mark.slow
@pytest.mark.parametrize("per_warp", [8, 16, 64])
@pytest.mark.parametrize("with_rests", [True, False])
def test_each_way_of_a_warp_through_its_segments(
    host: HostGpu, monkeypatch: pytest.MonkeyPatch, per_warp: int, with_rests: bool
) -> None:
    """Few and many at a time, their last 64-byte chunks with the others or in a turn of their own, a few long ones among them."""
    monkeypatch.setattr(segments, "_per_warp", lambda *_: per_warp)
    take_rests(host, with_rests)
    rng = np.random.default_rng(per_warp)
    for dtype in ("float16", "bfloat16", "float64"):
        offsets = ragged(rng, 90, 28_000, (1900, 2048, 2049, 4096, 4097, 4500, 8192, 8193))
        x = numbers_of(rng, "special", int(offsets[-1]), get_format(dtype).dtype)
        found = sums(host, x, offsets, shift=int(rng.integers(LINE // x.itemsize)))
        assert host.macros[0]["AT_ONCE"] == min(per_warp, 32)
        assert alike(found, model_sums(x, offsets, np.float32)), dtype


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("per_warp", [8, 64])
def test_each_length_by_tiles_and_by_64_byte_chunks(
    host: HostGpu, monkeypatch: pytest.MonkeyPatch, dtype: str, per_warp: int
) -> None:
    """Whichever way a group of segments takes by how long they are, both ways have the same bits for all lengths."""
    take_rests(host, True)
    monkeypatch.setattr(segments, "_per_warp", lambda *_: per_warp)
    rng = np.random.default_rng(per_warp)
    most = 8192 // np.dtype(dtype).itemsize // 2  # numbers of a segment that is not long
    lengths = rng.permutation(
        np.concatenate([np.arange(0, most, 23), np.arange(most - 3, most + 4), np.arange(300)])
    )
    offsets = np.cumsum(np.concatenate([[3], lengths]))
    x = numbers_of(rng, "special", int(offsets[-1]), np.dtype(dtype))
    wanted = model_sums(x, offsets, np.float64)
    for tiled in ("0", "300", "1 << 20"):
        host.changes = {"segments": {"TILED = 300": f"TILED = {tiled}"}}
        assert alike(sums(host, x, offsets, np.float64, shift=5), wanted), tiled


@pytest.mark.slow
@pytest.mark.parametrize(
    ("right", "wrong", "seen"),
    [
        ("v = load::lowest(v, left_of(i) * 8 * static_cast<int>(sizeof(Code)));", "", BITS),
        ("if (partial & ((1 << SOME) - 1))", "if (partial & 1)", BITS),
        ("shared.numbers[end - left + step", "shared.numbers[step", BITS),
        ("__shfl_sync(ALL, stops, min(step + SOME, left) - 1)", "__shfl_sync(ALL, stops, step)", BITS),
    ],
)
def test_an_error_in_sums_of_tiles_is_seen(host: HostGpu, right: str, wrong: str, seen: str) -> None:
    rng = np.random.default_rng(2)
    offsets = ragged(rng, 400, 40_000, (1500, 1024))
    x = rng.standard_normal(int(offsets[-1])).astype(np.float32)
    wanted = model_sums(x, offsets, np.float64)
    found = complaint_about(
        host, "segments", right, wrong, lambda: sums(host, x, offsets, np.float64), wanted
    )
    assert found == seen


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_each_length_that_a_lane_has_alone(
    host: HostGpu, monkeypatch: pytest.MonkeyPatch, dtype: str
) -> None:
    """Up to a tile and beyond, by lanes and by 64-byte chunks: six of them in a group of 32, so that the ring has room for all."""
    take_rests(host, False)
    monkeypatch.setattr(segments, "_per_warp", lambda *_: 64)
    rng = np.random.default_rng(3)
    tile = 512 // np.dtype(dtype).itemsize
    groups = [np.concatenate([n + np.arange(6), rng.integers(0, 4, 26)]) for n in range(0, tile + 6, 6)]
    lengths = np.concatenate([rng.permutation(group) for group in groups])
    offsets = np.cumsum(np.concatenate([[1], lengths]))
    x = numbers_of(rng, "finite", int(offsets[-1]) + 9, np.dtype(dtype))
    for chunks in ("8", "4", "0"):
        host.changes = {"segments": {"LANE_CHUNKS64 = 8": f"LANE_CHUNKS64 = {chunks}"}}
        for shift in range(0, 16, 5):
            found = sums(host, x, offsets, np.float64, shift=shift)
            assert alike(found, model_sums(x, offsets, np.float64)), (chunks, shift)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("right", "wrong", "seen"),
    [
        ("if (!(mask & 1u << number)) continue;", "", BITS),
        ("add(first + 4, half[0]);", "add(first + 6, half[0]);", BITS),
        ("add(first + 2, half[1]);", "add(first + 2, half[0]);", BITS),
        ("add(first + 1, sums[1]);", "add(first + 1, sums[0]);", BITS),
        ("if constexpr (FEW) {", "if constexpr (true) {", BITS),
        ("if (fits) data.wait(behind);", "", BITS),
        ("!longs && where.holds(begin, stop)", "!longs", TOO_EARLY),
    ],
)
def test_an_error_in_sums_of_lanes_is_seen(
    host: HostGpu, monkeypatch: pytest.MonkeyPatch, right: str, wrong: str, seen: str
) -> None:
    take_rests(host, False)
    rng = np.random.default_rng(4)
    short = rng.geometric(1 / 10, 2400).clip(max=64)
    more_than_the_ring = rng.integers(40, 64, 160)
    offsets = np.cumsum(np.concatenate([[0], short, more_than_the_ring]))
    x = rng.standard_normal(int(offsets[-1]))
    wanted = model_sums(x, offsets, np.float64)
    found = complaint_about(
        host, "segments", right, wrong, lambda: sums(host, x, offsets, np.float64), wanted
    )
    assert found == seen


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("permuted_k", [True, False])
def test_64_byte_chunks_that_begin_anywhere(
    host: HostGpu, monkeypatch: pytest.MonkeyPatch, dtype: str, permuted_k: bool, variant: str
) -> None:
    """Segments of all lengths between others of which no number is finite, whatever the order of a row's numbers."""
    any_order = permuted_k and (variant == "short-chain" or dtype == "float16")
    if not any_order:
        monkeypatch.setattr(segments, "_any_order", lambda *_: False)
    rng = np.random.default_rng(13)
    lengths = np.stack([rng.integers(1, 5, 280), rng.permutation(280) % 70 + 1], axis=1).reshape(-1)
    offsets = np.cumsum(np.concatenate([[3], lengths]))
    x = draw(rng, int(offsets[-1]), get_format(dtype).dtype, "spread")
    for begin, end in zip(offsets[:-1:2], offsets[1::2], strict=True):
        x[begin:end] = rng.choice([np.inf, -np.inf, np.nan])
    host.tuned["means"] = (0, 0)
    for with_rests in (True, False):
        take_rests(host, with_rests)
        host.macros.clear()
        found = sums(host, x, offsets, shift=int(rng.integers(LINE // x.itemsize)))
        assert host.macros[0]["PERMUTED_K"] == any_order
        assert np.isfinite(found[1::2]).all()
        assert alike(found, model_sums(x, offsets, np.float32)), with_rests


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_copies_into_a_ring_keep_memorys_lines(host: HostGpu, dtype: str) -> None:
    """Whatever numbers they begin with: others took a fifth more of what L2 can give."""
    rng = np.random.default_rng(16)
    offsets = ragged(rng, 60, 20_000, (2500, 6000, 40_000))
    x = numbers_of(rng, "normal", int(offsets[-1]), np.dtype(dtype))
    sums(host, x, offsets)
    assert host.launches == ["segments", "long_chunks"]
    assert host.lines_apart == 0
    host.changes = {entry: {"address & ~(LINE - 1ull)": "address & ~15ull"} for entry in host.launches}
    sums(host, x, offsets)
    assert host.lines_apart > 10, "the comparison does not see it"


@pytest.mark.slow(1)
@pytest.mark.parametrize(("mean", "entry"), [(6, "short_segments"), (40, "segments"), (200, "segments")])
def test_the_first_warps_have_more_segments(
    host: HostGpu, monkeypatch: pytest.MonkeyPatch, mean: int, entry: str
) -> None:
    host.tuned["busy"] = 1
    monkeypatch.setattr(segments, "_per_warp", lambda *_: 16)
    rng = np.random.default_rng(mean)
    for count in (500, 501, 527):
        offsets = ragged(rng, mean, count * mean, (6000,))
        x = numbers_of(rng, "special", int(offsets[-1]), np.float16)
        found = sums(host, x, offsets)
        assert host.problems[entry].first > 2
        assert alike(found, model_sums(x, offsets, np.float32)), count


@pytest.mark.slow(1)
@pytest.mark.parametrize("mean", [4, 60])
def test_means_and_narrow_results(host: HostGpu, mean: int, variant: str) -> None:
    rng = np.random.default_rng(mean)
    offsets = ragged(rng, mean, 3000)
    x = draw(rng, int(offsets[-1]) + 100, np.float16, "spread")
    for target in (np.float16, np.float64):
        found = sums(host, x, offsets, target, mean=True)
        assert alike(found, model_sums(x, offsets, target, True))


def valid_ones(offsets: Any, n: int, per_warp: int, more: int = 0) -> Any:
    """Which segments have sums, where some offsets are wrong.

    Of those that a warp goes through, it takes as many of the last ones
    together as have their first and last offsets in order: what lies outside
    is none of theirs.  The first ``more`` warps have more of them than others.
    """
    begins, ends = offsets[:-1], offsets[1:]
    valid = (begins >= 0) & (begins <= ends) & (ends <= n)
    many = MORE * per_warp
    firsts = [*range(0, more * many, many), *range(more * many, begins.size, per_warp)]
    for first, behind in zip(firsts, [*firsts[1:], begins.size], strict=True):
        last = min(behind, begins.size)
        for one in range(first, last):
            if 0 <= offsets[one] <= offsets[last] <= n:
                valid[one:last] &= (begins[one:last] >= offsets[one]) & (ends[one:last] <= offsets[last])
                break
    return valid


def sums_of_valid_ones(x: Any, offsets: Any, valid: Any) -> Any:
    """Each is summed as if alone, so that copies of them side by side have the same sums."""
    begins, ends = offsets[:-1][valid], offsets[1:][valid]
    copies = np.concatenate([x[begin:end] for begin, end in zip(begins, ends, strict=True)])
    sums = np.full(valid.size, np.uint32(0x7FFFFFFF).view(np.float32))
    sums[valid] = model_sums(copies, np.cumsum([0, *(ends - begins)]), np.float32)
    return sums


@pytest.mark.parametrize(("mean", "entry"), [(6, "short_segments"), (40, "segments")])
def test_valid_segments_keep_their_sums_beside_wrong_offsets(host: HostGpu, mean: int, entry: str) -> None:
    rng = np.random.default_rng(mean)
    for _ in range(4):
        offsets = ragged(rng, mean, 1500)
        n = int(offsets[-1])
        x = draw(rng, n, np.float16, "spread")
        for at in rng.choice(offsets.size, 3, replace=False):
            anywhere = int(rng.integers(n))
            offsets[at] = rng.choice([1 << 40, (1 << 32) + 5, -5, n + 1, anywhere, anywhere])
        host.launches.clear()
        found = sums(host, x, offsets)
        assert host.launches[0] == entry
        valid = valid_ones(offsets, n, host.problems[entry].per_warp, host.problems[entry].first)
        assert valid.any()
        assert not valid.all()
        assert alike(found, sums_of_valid_ones(x, offsets, valid))


@pytest.mark.slow(1)
@pytest.mark.parametrize(("copies", "entry"), [(2, "segments"), (100, "segments"), (2000, "short_segments")])
def test_long_segments_that_overlap_fill_no_more_than_their_memory(
    host: HostGpu, monkeypatch: pytest.MonkeyPatch, copies: int, entry: str
) -> None:
    """All have their sums where there is room, and others are NaN."""
    x = np.random.default_rng(11).standard_normal(16_384).astype(np.float16)  # a chunk
    offsets = np.tile([0, x.size], copies)
    whole = model_sums(x, np.array([0, x.size]), np.float32)[0]
    wrong = np.uint32(0x7FFFFFFF)
    for per_warp in (64, 256):
        monkeypatch.setattr(segments, "_per_warp", lambda *_, count=per_warp: count)
        host.launches.clear()
        found = sums(host, x, offsets).view(np.uint32)
        assert host.launches == [entry, "long_chunks"]
        assert set(found[1::2]) == {wrong}
        right = {whole.view(np.uint32)}
        assert set(found[::2]) == right if copies == 2 else {wrong} <= set(found[::2]) <= {wrong} | right


AHEAD = ["list_segments", "long_chunks"]


def list_ahead(host: HostGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of small arrays too, and by several blocks."""
    host.tuned["listed"] = 0
    host.tuned["sampled"] = 1
    host.tuned["busy"] = 1
    host.tuned["list_threads"] = 256
    host.launches.clear()
    host.listed.clear()


def skewed(rng: np.random.Generator) -> Any:
    """Offsets of thousands of short segments, a few long ones, and a few that have most of the numbers."""
    lengths = rng.geometric(1 / 12, 9000) * (rng.random(9000) < 0.9)
    lengths[rng.choice(9000, 8, replace=False)] = rng.integers(1000, 9000, 8)
    lengths[rng.choice(9000, 10, replace=False)] = rng.integers(30_000, 60_000, 10)
    return np.cumsum(np.concatenate([[rng.integers(0, 12)], lengths]))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("with_rests", [True, False])
def test_long_segments_are_listed_ahead(
    host: HostGpu, monkeypatch: pytest.MonkeyPatch, dtype: str, with_rests: bool
) -> None:
    """Where they have much of the array; what the launches behind the first one find is on the list, and no more."""
    list_ahead(host, monkeypatch)
    take_rests(host, with_rests)
    fmt = get_format(dtype)
    for seed in range(2):
        rng = np.random.default_rng(seed)
        offsets = skewed(rng)
        x = numbers_of(rng, "spread", int(offsets[-1]), fmt.dtype)
        found = sums(host, x, offsets, np.float64, shift=int(rng.integers(LINE // x.itemsize)))
        assert host.launches[-4:] == [*AHEAD, "segments", "long_chunks"]
        ahead, early, short, late = host.listed[-4:]
        assert ahead == early == short > 0 == late
        assert alike(found, model_sums(x, offsets, np.float64))


def test_few_long_segments_are_not_listed_ahead(host: HostGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    list_ahead(host, monkeypatch)
    rng = np.random.default_rng(21)
    offsets = ragged(rng, 60, 90_000, (9000, 12_000))
    x = numbers_of(rng, "spread", int(offsets[-1]), np.dtype(np.float16))
    found = sums(host, x, offsets)
    assert host.launches == [*AHEAD, "segments", "long_chunks"]
    assert host.listed == [0, 0, 2, 0]
    assert alike(found, model_sums(x, offsets, np.float32))


def complaint_beside_wrong_offsets(host: HostGpu, monkeypatch: pytest.MonkeyPatch, per_warp: int) -> str:
    """What is wrong, or nothing: sums of all that have some without a list, NaN of all that are no segments, else either."""
    list_ahead(host, monkeypatch)
    monkeypatch.setattr(segments, "_per_warp", lambda *_: per_warp)
    later = 0
    for seed in range(2):
        rng = np.random.default_rng(seed)
        offsets = skewed(rng)
        n = int(offsets[-1])
        x = draw(rng, n, np.float16, "normal")
        long = rng.permutation(np.flatnonzero(np.diff(offsets) > 5000))[:3]
        for at in (*(long // 32 * 32 + (long + 16) % 32), *rng.choice(offsets.size, 2, replace=False)):
            offsets[at] = rng.choice([1 << 40, -5, n + 1, rng.integers(n)])
        try:
            found = sums(host, x, offsets)
        except KernelFailed as fault:
            return str(fault)
        ahead, _, behind, _ = host.listed[-4:]
        assert ahead > 0
        later += behind - ahead
        begins, ends = offsets[:-1], offsets[1:]
        own = (begins >= 0) & (begins <= ends) & (ends <= n)
        right = found.view(np.uint32) == sums_of_valid_ones(x, offsets, own).view(np.uint32)
        nothing = found.view(np.uint32) == 0x7FFFFFFF
        must = valid_ones(offsets, n, per_warp, host.problems["segments"].first)
        if not (right[must].all() and nothing[~own].all() and (right | nothing).all()):
            return BITS
    return "" if later else "no long segment is left to the launches behind"


@pytest.mark.slow
@pytest.mark.parametrize("per_warp", [8, 64])
def test_what_is_listed_ahead_beside_wrong_offsets(
    host: HostGpu, monkeypatch: pytest.MonkeyPatch, per_warp: int
) -> None:
    assert complaint_beside_wrong_offsets(host, monkeypatch, per_warp) == ""


@pytest.mark.slow
def test_few_blocks_take_what_wrong_offsets_have_left(host: HostGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    host.changes = {"long_chunks": {"constexpr u32 WAITING = 64;": "constexpr u32 WAITING = 2;"}}
    assert complaint_beside_wrong_offsets(host, monkeypatch, 64) == ""


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("copies", [2, 50])
def test_a_list_that_is_full_has_no_gaps(
    host: HostGpu, monkeypatch: pytest.MonkeyPatch, ahead: bool, copies: int
) -> None:
    """The array again and again, each time in two other segments of one chunk or several: all that have room have sums, and
    whoever has none is NaN, however little the next one asks for.
    """
    if ahead:
        list_ahead(host, monkeypatch)
    monkeypatch.setattr(segments, "_per_warp", lambda *_: 32)
    monkeypatch.setattr(segments, "_first", lambda *_: 0)
    host.tuned["means"] = (0, 0)
    n = 60_000
    x = np.random.default_rng(17).standard_normal(n).astype(np.float16)
    ends = np.random.default_rng(18).choice([10, 9000, 16_000, 40_000, n - 10], copies)
    # 32 segments in order, which end the array, and 32 that begin it anew.
    offsets = np.append(np.concatenate([[*[0] * 31, end, n, *[0] * 31] for end in ends]), 0)
    found = sums(host, x, offsets).view(np.uint32)
    nothing = np.uint32(0x7FFFFFFF)
    longs = without = 0
    for at, end in enumerate(ends):
        for number, begin, behind in ((30, 0, end), (31, end, n)):
            wanted = model_sums(x, np.array([begin, behind]), np.float32)[0].view(np.uint32)
            one = found[64 * at + number]
            assert one == wanted or (one == nothing and behind - begin > 10), (begin, behind)
            longs += behind - begin > 10
            without += one == nothing
    assert (found[32:-1:64] == nothing).all(), "they end before they begin"
    if copies == 2:
        assert without == 0
        assert not ahead or host.listed[0] > 0
    else:  # a block that lists ahead asks for all of its own at once
        assert 0 < without < longs + ahead


@pytest.mark.slow
@pytest.mark.parametrize(
    ("entry", "right", "wrong", "seen"),
    [
        ("list_segments", "end[i] - begin[i] > p.most", "end[i] - begin[i] > 4 * p.most", BITS),
        (
            "list_segments",
            "add_found(p, found, known, is_long, segment_in(rest)",
            "add_found(p, found, known, is_long, segment_in(rest) + 32",
            BITS,
        ),
        ("list_segments", "++i, those &= those - 1", "++i", BITS),
        ("segments", "if (is_here && is_valid) found", "if (is_here) found", BITS),
        ("long_chunks", "!p.early && blockIdx.x < waiting", "false", BITS),
    ],
)
def test_an_error_in_listing_ahead_is_seen(
    host: HostGpu, monkeypatch: pytest.MonkeyPatch, entry: str, right: str, wrong: str, seen: str
) -> None:
    host.changes = {entry: {right: wrong}}
    assert complaint_beside_wrong_offsets(host, monkeypatch, 64) == seen


@pytest.mark.slow
def test_what_is_listed_twice_is_seen(host: HostGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    list_ahead(host, monkeypatch)
    offsets = skewed(np.random.default_rng(5))
    x = np.ones(int(offsets[-1]), np.float16)
    for again, change in ((False, {}), (True, {"found = longs >> segment % WARP & 1": "found = false"})):
        host.changes = {"segments": change}
        sums(host, x, offsets)
        assert (host.listed[-2] > host.listed[-4]) == again


@pytest.mark.slow
def test_a_turn_far_behind_what_the_ring_has_skipped(host: HostGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind as many 64-byte chunks as have room, more than a ring of them, come a copy's short ones, which have a turn of their own."""
    take_rests(host, False)
    host.tuned["ring"] = (1024, 6)
    monkeypatch.setattr(segments, "_per_warp", lambda *_: 64)
    rng = np.random.default_rng(12)
    lengths = np.concatenate([[9400 + 50 * i, 4096, *[31] * 28, 1969, 1900] for i in range(16)])
    offsets = np.cumsum(np.concatenate([[0], lengths]))
    x = rng.standard_normal(int(offsets[-1])).astype(np.float16)
    wanted = model_sums(x, offsets, np.float32)
    waits = "data.wait(min(first, data.asked));  // a copy"
    assert (
        complaint_about(host, "segments", waits, "// a copy", lambda: sums(host, x, offsets), wanted) == STUCK
    )


# Groups of 32 segments in one warp's run: a long one at the end of the first, for which the ring skips ahead; a second
# group there; two more that wrong offsets send back to before what has been skipped; and on where the second ended.
THERE_AND_BACK = np.array([
    *range(0, 320, 10), *range(20_310, 20_640, 10), *range(18_500, 19_140, 10), *range(20_640, 20_960, 10),
])  # fmt: skip
SKIP = "                where.is_lost = true;  // by wrong offsets, the next segments may lie before what is in the ring\n"


def goes_there_and_back(host: HostGpu, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setattr(segments, "_per_warp", lambda *_: 256)
    x = np.random.default_rng(3).standard_normal(30_000).astype(np.float16)
    valid = valid_ones(THERE_AND_BACK, x.size, 256)
    assert np.flatnonzero(~valid).tolist() == [64]
    host.launches.clear()
    found = sums(host, x, THERE_AND_BACK)
    assert host.launches[0] == "segments"
    return alike(found, sums_of_valid_ones(x, THERE_AND_BACK, valid))


@pytest.mark.slow
def test_groups_behind_what_the_ring_has_skipped(host: HostGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    assert goes_there_and_back(host, monkeypatch)
    host.changes = {"segments": {SKIP: ""}}
    assert not goes_there_and_back(host, monkeypatch), "the comparison does not see a missing skip"


BY_MMAS = (
    "ragged::sum_group_from_memory(p, run, group, number < count, begin - shift, valid - shift, room.shared);"
)


@pytest.mark.slow
def test_what_lies_before_the_first_segment_sends_none_to_the_mmas(host: HostGpu) -> None:
    """Of the lines' numbers before it, only those of its first 16 bytes are looked at."""
    host.changes = {"short_segments": {BY_MMAS: ""}}
    rng = np.random.default_rng(14)
    for first in range(0, 64, 5):
        offsets = first + np.arange(400) * 3
        x = rng.standard_normal(int(offsets[-1]) + 8).astype(np.float16)
        x[: first // 8 * 8] = rng.choice([np.inf, np.nan, 60000])
        assert alike(sums(host, x, offsets), model_sums(x, offsets, np.float32)), first


@pytest.mark.slow
def test_an_offset_before_a_warps_first_one_is_none_of_its_own(
    host: HostGpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The segments on its two sides are NaN, also where it is in the warp's first line, or in its first 16 bytes."""
    monkeypatch.setattr(segments, "_per_warp", lambda *_: 64)
    x = np.random.default_rng(15).standard_normal(480).astype(np.float16)
    for before in (7, 57, 60, 61):
        # The last of a group of 32 segments ends there.
        offsets = np.array([60, *range(60, 370, 10), before, *range(380, 480, 10)])
        valid = valid_ones(offsets, x.size, 64)
        assert np.flatnonzero(~valid).tolist() == ([31] if before >= 60 else [31, 32])
        assert alike(sums(host, x, offsets), sums_of_valid_ones(x, offsets, valid)), before
    assert host.launches == ["short_segments"] * 4


@pytest.mark.usefixtures("short_chain")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("entry", "right", "wrong", "seen"),
    [
        ("short_segments", "length & 2 ? to1 : to3", "length & 2 ? to3 : to1", BITS),
        ("short_segments", "fill = [&](u32& most) {\n        wait();", "fill = [&](u32& most) {\n", STUCK),
        ("short_segments", "wrong |= leftover(ahead[i / 4].word[i % 4], whole);", ";", BITS),
        ("segments", "bits - 32 * word", "bits - 16 * word", BITS),
        ("segments", "0x76543210, 0x76543210, at * 4", "0x76543210, 0, at * 4", BITS),
        ("segments", "max(begin - 64, 0)", "begin", BITS),
        ("segments", "        behind = load::lowest(behind, end - LANES * 128);\n", "", BITS),
        ("segments", "if (fits) data.wait(behind);", "", BITS),
        (
            "segments",
            "bytes = min((end - asked + 15) & ~15u, most)",
            "bytes = most",
            OUTSIDE,
        ),
        ("segments", "(end - asked + 15) & ~15u", "(end - asked + 15) & ~7u", WRONG_COPY),
        ("long_chunks", "threadIdx.x % 4 == number", "threadIdx.x % 4 <= number", BITS),
        ("long_chunks", "                data.wait(at + ASKED * BYTES);\n", "", STUCK),
        ("long_chunks", "        data.wait(at + some * static_cast<u32>(sizeof(Code)));\n", "", BITS),
        ("long_chunks", "if (lane % 4 == j) own", "if (lane % 4 == 3 - j) own", BITS),
    ],
)
def test_an_error_in_a_kernel_of_segments_is_seen(
    host: HostGpu, entry: str, right: str, wrong: str, seen: str
) -> None:
    rng = np.random.default_rng(1)
    longs = (16_383, 34_815) if entry == "long_chunks" else (2500, 4000, 5000)
    offsets = ragged(rng, 8 if entry == "short_segments" else 60, 9000, longs)
    n = int(offsets[-1])
    x = rng.standard_normal(n) * rng.choice([1, 2.0**-9], n)  # so that the sums of a chunk's sets are rounded
    x[n // 2 :] *= 4  # so that their unit is a larger one
    x = x.astype(np.float16)
    wanted = model_sums(x, offsets, np.float32)
    found = complaint_about(host, entry, right, wrong, lambda: sums(host, x, offsets, shift=21), wanted)
    assert found == seen


# ---- scans ----


def scanned(
    host: HostGpu, x: Any, exclusive: bool, reverse: bool, dtype: Any = None, shifts: tuple[int, int] = (0, 0)
) -> Any:
    """Of the kernels, as the host starts them, for rows of x; x and the result lie so many elements behind a granule."""
    fmt, target = format_of(x.dtype), format_of(dtype or x.dtype)
    rows, length = x.shape
    place, host.readable = placed(x.reshape(-1), shifts[0])
    result = Result(x.size, target.dtype, shifts[1])
    aligned = (each.ctypes.data % 16 == 0 for each in (place, result.array))
    recipe = scans.scan_recipe(
        make_scan_plan(length, fmt), rows, length, length, *aligned, target, host.gpu,
        exclusive=exclusive, reverse=reverse,
    )  # fmt: skip
    Launch(recipe, host.gpu).start(place.ctypes.data, 0, result.array.ctypes.data, 0)
    result.check()
    return result.array.reshape(x.shape)


def model_scan(x: Any, exclusive: bool, reverse: bool, dtype: Any = None) -> Any:
    with np.errstate(all="ignore"):
        return tcu.cumsum(x, axis=1, exclusive=exclusive, reverse=reverse, dtype=dtype or x.dtype)


ORDERS = [(False, False), (True, False), (False, True), (True, True)]


@pytest.mark.slow
@pytest.mark.parametrize(("exclusive", "reverse"), ORDERS)
def test_short_rows(host: HostGpu, monkeypatch: pytest.MonkeyPatch, exclusive: bool, reverse: bool) -> None:
    """Many in a line, a line each, lines that a warp takes at once, more of them, and several chunks."""
    host.tuned["even"] = 0  # few rows are as good as many
    rng = np.random.default_rng(4)
    for rows, length in ((77, 16), (9, 128), (5, 512), (3, 2048), (2, 8192), (2, 6144), (2, 3 * 8192 + 2048)):
        for kind in ("normal", "special"):
            x = draw(rng, rows * length, np.float16, kind).reshape(rows, length)
            host.launches.clear()
            found = scanned(host, x, exclusive, reverse)
            assert host.launches == ["short_scan"]
            assert alike(found, model_scan(x, exclusive, reverse)), (rows, length, kind)
    assert not host._workspaces, "nobody waits for another warp"


@pytest.mark.some(3)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "result"),
    [
        ("float16", "float16"), ("bfloat16", "bfloat16"), ("float32", "float32"), ("float64", "float64"),
        ("float16", "float32"), ("float32", "float64"), ("float64", "float16"), ("float64", "bfloat16"), ("float32", "bfloat16"),
    ],
)  # fmt: skip
@pytest.mark.parametrize(("exclusive", "reverse"), ORDERS)
def test_rows_of_any_length(host: HostGpu, dtype: str, result: str, exclusive: bool, reverse: bool) -> None:
    """A number and more of a group, of a line, of a chunk, and of two chunks; from any element on."""
    host.tuned["many"] = 0  # few rows are as good as many
    rng = np.random.default_rng(41)
    number, target = get_format(dtype).dtype, get_format(result).dtype
    group = 32 // number.itemsize
    for rows, length, shifts in (
        (700, 1, (0, 0)), (310, 3, (1, 1)), (150, group - 2, (0, 0)), (150, group, (1, 0)), (99, group + 1, (0, 0)), (40, 3 * group + 4, (0, 3)), (37, 4 * group, (1, 0)),
        (9, 16 * group + 1, (0, 0)), (5, 32 * group - 1, (1, 0)), (5, 63 * group - 8, (0, 0)), (2, 9 * 32 * group + 1, (0, 0)),
        (3, 512 * group + 1, (0, 0)),
    ):  # fmt: skip
        if length > 512 * group and target.itemsize > number.itemsize:
            continue
        for kind in ("normal", "special"):
            x = draw(rng, rows * length, number, kind).reshape(rows, length)
            host.launches.clear()
            found = scanned(host, x, exclusive, reverse, target, shifts)
            assert host.launches == ["tile_scan"], (rows, length)
            assert alike(found, model_scan(x, exclusive, reverse, target)), (rows, length, shifts, kind)


@pytest.mark.some(7)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "result"),
    [
        ("float16", "float16"), ("bfloat16", "bfloat16"), ("float32", "float32"), ("float64", "float64"),
        ("float16", "float32"), ("bfloat16", "float32"), ("float32", "float64"), ("float16", "bfloat16"),
    ],
)  # fmt: skip
@pytest.mark.parametrize(("exclusive", "reverse"), ORDERS)
def test_long_rows(host: HostGpu, dtype: str, result: str, exclusive: bool, reverse: bool) -> None:
    """Several chunks each, the last one partial; the workspace serves one launch after another."""
    rng = np.random.default_rng(5)
    number = get_format(dtype).dtype
    chunk = (16 << 10) // number.itemsize
    group = 32 // number.itemsize
    cases = [(3, 3 * chunk + chunk // 2 + 3 * group, "normal"), (2, chunk + group, "special")]
    if not exclusive:
        cases.append((2 - reverse, 33 * chunk + 5 * group, "spread"))  # totals of runs of chunks
    if not reverse:
        cases.append((1, chunk + group - 1, "any code"))  # the last numbers are no whole granule
    for rows, length, kind in cases:
        x = draw(rng, rows * length, number, kind).reshape(rows, length)
        host.launches.clear()
        found = scanned(host, x, exclusive, reverse, get_format(result).dtype)
        assert host.launches == ["long_scan"]
        assert alike(found, model_scan(x, exclusive, reverse, get_format(result).dtype)), (rows, length, kind)


@pytest.mark.some(9)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "result", "shifts"),
    [
        ("float16", "float16", (0, 0)), ("bfloat16", "bfloat16", (0, 0)), ("float32", "float32", (0, 0)), ("float64", "float64", (0, 0)),
        ("float16", "float16", (1, 1)), ("float16", "float32", (0, 0)), ("bfloat16", "bfloat16", (3, 1)), ("float32", "float64", (1, 0)),
        ("float64", "bfloat16", (0, 3)), ("float64", "float32", (1, 1)), ("float32", "float32", (0, 3)),
    ],
)  # fmt: skip
@pytest.mark.parametrize(("exclusive", "reverse"), ORDERS)
def test_long_rows_that_begin_anywhere(
    host: HostGpu, dtype: str, result: str, shifts: tuple[int, int], exclusive: bool, reverse: bool
) -> None:
    """The places of their chunks in memory, and how many numbers share a granule with others, differ from row to row."""
    rng = np.random.default_rng(6)
    number, target = get_format(dtype).dtype, get_format(result).dtype
    chunk, group = (16 << 10) // number.itemsize, 32 // number.itemsize
    cases = [
        (3, 3 * chunk + chunk // 2 + 1, "normal"),
        (2, chunk + 1, "special"),
        (3, 2 * chunk - 1, "spread"),
    ]
    if exclusive == reverse:
        cases.append((2, 33 * chunk + 5 * group + 3, "spread"))  # totals of runs of chunks
    for rows, length, kind in cases:
        x = draw(rng, rows * length, number, kind).reshape(rows, length)
        host.launches.clear()
        found = scanned(host, x, exclusive, reverse, target, shifts)
        assert host.launches == ["long_scan"]
        assert alike(found, model_scan(x, exclusive, reverse, target)), (rows, length, kind)


@pytest.mark.slow
def test_rows_of_more_than_1024_chunks(host: HostGpu) -> None:
    """Whose totals have three levels, which one block finds for the others."""
    x = draw(np.random.default_rng(7), 1026 * 2048 + 20, np.dtype(np.float64), "spread").reshape(1, -1)
    assert alike(scanned(host, x, True, True), model_scan(x, True, True))
    assert host.launches == ["long_scan"]


@pytest.mark.slow
def test_several_rows_of_more_than_1024_chunks(host: HostGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of chunks that are an eighth as long, which are other sums: of integers, that are the same in any order."""
    lines = 2
    monkeypatch.setattr(scans, "_LINES", lines)
    monkeypatch.setattr(scans, "_CHUNK", 32 * lines)
    host.tuned["summing"] = lines
    smaller = {
        "constexpr int LINES = 16;": f"constexpr int LINES = {lines};",
        "PLACES = 2 * ADDING": "PLACES = 6 * ADDING",  # of few warps
    }
    x = np.random.default_rng(9).integers(-9, 10, (2, 1060 * lines * 32 * 4 + 4)).astype(np.float64)

    def found() -> Any:
        return scanned(host, x, False, False)

    host.changes = {"long_scan": smaller}
    wanted = x.cumsum(axis=1)
    assert alike(found(), wanted)
    of_the_rows = {
        "const bool is_set = group >> height & 1;": "const bool is_set = first / WARP >> height & 1;"
    }
    for wrong in (of_the_rows, {"before_all += before;": ""}):
        host.changes = {"long_scan": {**smaller, **wrong}}
        assert not alike(found(), wanted), wrong


@pytest.mark.slow
@pytest.mark.parametrize(
    ("entry", "right", "wrong", "seen"),
    [
        ("short_scan", "LINES_OF_ROW == 0 && PIECES == 1", "LINES_OF_ROW == 0", BITS),
        ("short_scan", "if (lane == chunk - 1) total = earlier;", "total = earlier;", BITS),
        ("short_scan", "        load::wait_for_copy(&b.full[piece.buffer], piece.odd);\n", "", BITS),
        (
            "short_scan",
            "    double earlier = 0;  ",
            "    return;\n    double earlier = 0;  ",
            LEFT_BEHIND,
        ),
        ("long_scan", "if (lane < run.place) v = wait_for(run.slots + lane, seen, launch);", "v = 1;", BITS),
        ("long_scan", "lines[turn.buffer][first + (REVERSE", "lines[turn.buffer][(REVERSE", BITS),
        ("long_scan", "        load::wait_for_copy(&b.found[turn.buffer], turn.odd);\n", "", BITS),
        (
            "long_scan",
            "load::wait_for_stores();\n            load::arrive(&b.empty[turn.buffer]);",
            "load::wait_for_stores();",
            STUCK,
        ),
        ("tile_scan", "    load::wait_for_copy(full, 0);\n", "", BITS),
        ("tile_scan", "    if (thread < head / RESULT_SIZE) to[thread] = codes[thread];\n", "", BITS),
        (
            "tile_scan",
            "double sum = lane < line ? totals[lane] : 0;",
            "double sum = lane < 1 ? totals[lane] : 0;",
            BITS,
        ),
        ("tile_scan", "return place ? before : 0;", "return before;", BITS),
    ],
)
def test_an_error_in_a_kernel_of_scans_is_seen(
    host: HostGpu, monkeypatch: pytest.MonkeyPatch, entry: str, right: str, wrong: str, seen: str
) -> None:
    host.tuned["even"] = 0
    host.tuned |= {"buffers": 4, "summing": 4}  # few, so that each is used again
    rows, length = {
        "short_scan": (2, 4 * 8192),
        "long_scan": (2, 3 * 8192 + 4096 + 48),
        "tile_scan": (5, 1999),
    }[entry]
    x = np.random.default_rng(6).standard_normal((rows, length)).astype(np.float16)
    wanted = model_scan(x, False, False)
    assert complaint_about(host, entry, right, wrong, lambda: scanned(host, x, False, False), wanted) == seen


@pytest.mark.slow
@pytest.mark.parametrize("wrong", ["0x3fff", "0"])
def test_bfloat16_is_rounded_once(host: HostGpu, wrong: str) -> None:
    """By way of binary32, which cuts off what decides between two neighbours."""
    up = np.array([1, 2.0**-8, 2.0**-24])
    x = np.tile(np.concatenate([up, -up[::-1]]), 4000)[None].astype(get_format("bfloat16").dtype)
    wanted = model_scan(x, False, False)
    assert len(set(wanted[0, :3].view(np.uint16))) == 2, "halfway, and a little more"
    found = complaint_about(
        host,
        "long_scan",
        "cut >> 14) & 0x7fff",
        f"cut >> 14) & {wrong}",
        lambda: scanned(host, x, False, False),
        wanted,
    )
    assert found == BITS


@pytest.mark.slow
@pytest.mark.parametrize(
    ("right", "wrong", "seen"),
    [
        (
            "hand_on(carry_of_chunk(p, own), start + earlier,",
            "hand_on(carry_of_chunk(p, own), earlier,",
            BITS,
        ),
        ("load::wait_for_copy(&known.found[place], odd);", "", BITS),
        # Two blocks with four chunks each never have all 32 of a run under way.
        ("!is_new && load::has_arrived(&known.found[place], odd)", "false", ENDLESS),
    ],
)
def test_an_error_in_what_one_block_finds_for_others_is_seen(
    host: HostGpu, monkeypatch: pytest.MonkeyPatch, right: str, wrong: str, seen: str
) -> None:
    host.tuned |= {"buffers": 4, "summing": 4}
    x = np.random.default_rng(8).standard_normal((1, 66 * 2048 + 20))
    wanted = model_scan(x, False, False)
    assert (
        complaint_about(host, "long_scan", right, wrong, lambda: scanned(host, x, False, False), wanted)
        == seen
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("right", "wrong", "seen"),
    [
        ("load::wait_for_stores();  // of the line before", "// of the line before", BITS),
        ("    if (!IN_PLACE) load::wait_for_stores();", "", LEFT_BEHIND),
        ("own[(i + turned) % 4]", "own[i]", BITS),
        (
            "                if (lane == 0) load::arrive(&b.empty[turn.buffer]);  // all that is needed is in registers\n",
            "",
            STUCK,
        ),
    ],
)
def test_an_error_in_a_scan_to_wider_numbers_is_seen(
    host: HostGpu, monkeypatch: pytest.MonkeyPatch, right: str, wrong: str, seen: str
) -> None:
    host.tuned |= {"buffers": 4, "summing": 4}
    x = np.random.default_rng(6).standard_normal((2, 5 * 8192 + 4096 + 48)).astype(np.float16)
    wide = np.dtype(np.float32)
    wanted = model_scan(x, False, False, wide)
    found = complaint_about(
        host, "long_scan", right, wrong, lambda: scanned(host, x, False, False, wide), wanted
    )
    assert found == seen


def test_one_multiprocessor_has_no_blocks_that_wait_for_each_other(host: HostGpu) -> None:
    for multiprocessors in (1, 2):
        object.__setattr__(host.gpu, "multiprocessors", multiprocessors)
        assert scans._is_long(2, 2, host.gpu, TUNED) == (multiprocessors > 1)


@pytest.mark.parametrize("wide", [False, True])
def test_all_multiprocessors_scan_long_rows(host: HostGpu, wide: bool) -> None:
    """One of them finds what comes before chunks; none has more memory than there is on sm_90."""
    for levels, shares in ((1, 5), (1, 1000), (2, 5), (3, 100_000)):
        grid = scans._long_grid(levels, shares, (2, 4 if wide else 2), [2, 2], True, host.gpu, TUNED)
        assert grid.blocks == min(shares + (levels > 1), host.gpu.multiprocessors)
        assert grid.shared <= 227 << 10


# ---- columns ----


def placed_columns(x: Any, shift: int) -> tuple[columns.Columns, Any, tuple[int, int]]:
    """An array (outer, length, inner) as columns, and as :func:`placed` places all of it, gaps of rows included."""
    outer, length, inner = x.shape
    steps = [step // x.itemsize for step in x.strides]
    last = (outer - 1) * steps[0] + (length - 1) * steps[1] + inner
    line = np.lib.stride_tricks.as_strided(x, (last,), (x.itemsize,))
    return columns.Columns(outer, inner, steps[0], steps[1]), *placed(line, shift)


def column_sums(
    host: HostGpu, x: Any, dtype: Any = np.float32, *, shift: int = 0, mean: bool = False, block: int = 256
) -> Any:
    """Of an array (outer, length, inner), of which the last numbers of each row may be left out."""
    element, target = format_of(x.dtype), format_of(dtype)
    outer, length, inner = x.shape
    array, place, host.readable = placed_columns(x, shift)
    result = Result(outer * inner, target.dtype)
    plan = make_plan(length, element, get_unit("H200"), block=block, **CHOSEN)
    recipe = columns.columns_recipe(
        plan, array, shift * x.itemsize % 16 == 0, target, host.gpu,
        float(length) if mean else 1.0,
    )  # fmt: skip
    room = np.full(recipe.room, np.nan)
    host.launches.clear()
    Launch(recipe, host.gpu).start(place.ctypes.data, 0, result.array.ctypes.data, 0, room.ctypes.data)
    assert host.launches == ["columns"] * (2 if recipe.room else 1)
    result.check()
    return result.array.reshape(outer, inner)


def model_columns(x: Any, dtype: Any = np.float32, mean: bool = False, **options: Any) -> Any:
    function = tcu.mean if mean else tcu.sum
    with np.errstate(all="ignore"):
        return function(
            np.ascontiguousarray(x), axis=1, dtype=np.dtype(dtype), unit="h200", **CHOSEN, **options
        )


SHAPES = [
    (1, 16, 9000), (9, 13, 264), (1, 7, 3000), (2, 8, 900), (2, 5, 72),  # a leaf of 16 rows at most
    (1, 30, 600), (1, 40, 4000), (3, 64, 16), (40, 64, 16), (5, 33, 100), (2, 128, 136),  # few leaves
    (1, 700, 40), (3, 2100, 9), (6, 1000, 100), (1, 4090, 24), (1, 4500, 64),  # several turns
    (2, 9, 136), (3, 16, 1000), (5, 70, 72), (1, 32, 4096),  # rows in whole lines and others
    (2, 3000, 2), (1, 12_000, 2), (1, 12_000, 3), (1, 5000, 1), (700, 70, 4), (50, 300, 7),  # narrow rows
    (1, 17_000, 3), (1, 9000, 17),  # several chunks
]  # fmt: skip


@pytest.mark.some(2)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "busy", "capability"),
    [
        ("float16", False, (8, 0)),
        ("bfloat16", True, (8, 0)),
        ("float16", False, (9, 0)),
        ("float16", True, (9, 0)),
        ("bfloat16", True, (9, 0)),
        ("float32", False, (9, 0)),
        ("float32", True, (9, 0)),
        ("float64", True, (9, 0)),
    ],
)
def test_columns(
    host: HostGpu,
    dtype: str,
    busy: bool,
    capability: tuple[int, int],
    monkeypatch: pytest.MonkeyPatch,
    variant: str,
) -> None:
    """Lanes, warps and blocks that share a column, and columns of which a warp has many."""
    object.__setattr__(host.gpu, "compute_capability", capability)
    host.tuned["enough"] = 1 if busy else 64
    host.tuned["waves"] = 1
    rng = np.random.default_rng(busy)
    kinds = list(KINDS)
    for number, shape in enumerate(SHAPES):
        x = numbers_of(rng, kinds[number % len(kinds)], int(np.prod(shape)), get_format(dtype).dtype)
        x = x.reshape(shape)
        for shift in {0, int(rng.integers(16 // x.itemsize))}:
            found = column_sums(host, x, shift=shift)
            assert alike(found, model_columns(x)), (shape, shift)
    wide = dtype in ("float32", "float64")
    values = {"SPREAD": range(3), "LOOPS": (0, 1), "ALONG": (1,) if busy else (1, 8)}
    values |= {} if wide else dict.fromkeys(("NARROW", "HALVES", "PIPED"), (0, 1))
    values |= {"TURNS": (1, 4) if wide else (1, 2, 4, 8)}
    values |= (
        {"LOW": range(3), "MOST_WITHIN": (2, 4)}
        if wide
        else {"LAYOUT": ("ALIGNED", "SHIFTED"), "GRAIN": (8, 16)}
    )
    values |= {"COLUMNS": (1, 2)} if dtype == "float32" else {}
    direct = [macros for macros in host.macros if "STAGES" not in macros]
    for name, wanted in values.items():
        assert {macros[name] for macros in direct} >= set(wanted), name
    if not wide and variant == "short-chain" and capability >= (9, 0):
        staged = [macros for macros in host.macros if "STAGES" in macros]
        wanted = {"HALVES": (0, 1), "LOOPS": (0, 1), "ALONG": (1,) if busy else (1, 8)}
        for name, each in wanted.items():
            assert {macros[name] for macros in staged} >= set(each), name
    else:
        assert len(direct) == len(host.macros)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_columns_of_several_chunks(host: HostGpu, dtype: str, variant: str) -> None:
    """By a plan of one warp, whose chunks are short; the last chunk is shorter, and so are the last rows' ends."""
    rng = np.random.default_rng(6)
    for outer, length, inner, there in (
        (1, 5000, 72, 72),
        (3, 2500, 64, 64),
        (2, 2060, 72, 67),
        (1, 2050, 96, 96),
    ):
        x = numbers_of(rng, "spread", outer * length * inner, get_format(dtype).dtype)
        x = x.reshape(outer, length, inner)[:, :, :there]
        assert alike(column_sums(host, x, block=32), model_columns(x, block=32)), (length, inner)
    assert 8 in {macros["ALONG"] for macros in host.macros if macros["LOOPS"]}


@pytest.mark.usefixtures("short_chain")
@pytest.mark.slow
def test_short_columns_alone_go_by_way_of_shared_memory(host: HostGpu) -> None:
    for length, staged in ((2048, True), (4096, True), (4097, False), (16_384, False), (16_385, False)):
        x = numbers_of(np.random.default_rng(length), "normal", length * 24, np.float16)
        x = x.reshape(1, length, 24)
        host.macros.clear()
        assert alike(column_sums(host, x), model_columns(x))
        assert ("STAGES" in host.macros[0]) == staged, length


@pytest.mark.slow
@pytest.mark.usefixtures("short_chain")
def test_numbers_leave_the_cache_first_where_results_are_few(host: HostGpu) -> None:
    for inner, keeps in ((L2 // 10, 1), (L2 // 10 + 8, 0)):
        x = numbers_of(np.random.default_rng(inner), "normal", 256 * inner, np.float16).reshape(1, 256, inner)
        assert alike(column_sums(host, x), model_columns(x))
        assert host.macros[-1]["EVICT_FIRST"] == keeps, inner


@pytest.mark.slow
def test_columns_of_parts_of_rows_and_means(host: HostGpu, variant: str) -> None:
    rng = np.random.default_rng(2)
    for dtype in (np.float16, np.float32):
        x = numbers_of(rng, "spread", 5 * 90 * 48, dtype).reshape(5, 90, 48)
        for part in (x[:, :, :33], x[:, ::3, 8:], x[::2, 7:20, :3], x[1:, :, 5:6]):
            for target in (np.float16, np.float64):
                assert alike(column_sums(host, part, target, mean=True), model_columns(part, target, True))
    x = numbers_of(rng, "spread", 5 * 40 * 104, np.float16).reshape(5, 40, 104)
    for part in (x[:, :, :71], x[:, ::2, 8:], x[::2, 7:20, 32:101]):
        for target in (np.float16, np.float32, np.float64):
            assert alike(column_sums(host, part, target, mean=True), model_columns(part, target, True))
    assert ("STAGES" in host.macros[-1]) == (variant == "short-chain")


@pytest.mark.slow
def test_plans_of_few_warps(host: HostGpu, monkeypatch: pytest.MonkeyPatch, variant: str) -> None:
    """Few levels and several turns; warps in other numbers than powers of two."""
    host.tuned["enough"] = 1
    rng = np.random.default_rng(4)
    for dtype in (np.float16, np.float32):
        for block in (32, 96):
            for shape in ((2, 600, 72), (1, 70, 264), (20, 900, 3)):
                x = numbers_of(rng, "spread", int(np.prod(shape)), dtype).reshape(shape)
                found = column_sums(host, x, block=block)
                assert alike(found, model_columns(x, block=block)), (dtype, block, shape)


@pytest.mark.slow
def test_two_columns_of_a_lane_in_several_turns(host: HostGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which rows are wide enough for them; and their sums by plans of few warps, whose turns are short."""
    rng = np.random.default_rng(8)

    def asked(block: int, *shape: int) -> tuple[int, ...]:
        x = numbers_of(rng, "spread", int(np.prod(shape)), np.float32).reshape(shape)
        host.macros.clear()
        assert alike(column_sums(host, x, block=block), model_columns(x, block=block)), (block, shape)
        return tuple(host.macros[0][name] for name in ("COLUMNS", "TURNS", "MOST_WITHIN", "LOOPS"))

    assert asked(32, 1, 200, 126) == (1, 2, 4, 0)
    assert asked(32, 1, 200, 128) == (2, 2, 2, 0)
    assert asked(32, 1, 500, 128) == (2, 4, 1, 0)
    assert asked(32, 1, 600, 128) == (1, 2, 4, 1)
    assert asked(32, 1, 600, 2048) == (2, 4, 1, 1)
    host.tuned["paired"] = (0, 0, 0)
    for busy in (1, 64):
        host.tuned["enough"] = busy
        for block in (32, 96, 256):
            for shape in ((3, 4 * block + 9, 18), (2, 8 * block + 1, 24), (1, 25 * block, 20)):
                assert asked(block, *shape)[0] == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "block", "shape"),
    [
        ("float32", 288, (1, 3000, 2)), ("float64", 288, (1, 3000, 3)), ("float64", 352, (2, 3000, 2)),
        ("float16", 288, (1, 18432 * 9 + 5, 3)), ("float32", 96, (1, 40_000, 2)),
    ],
)  # fmt: skip
def test_leaves_of_warps_that_the_plan_does_not_have(
    host: HostGpu, monkeypatch: pytest.MonkeyPatch, dtype: str, block: int, shape: tuple[int, ...]
) -> None:
    """Between warps in other numbers than powers of two, where a lane has several leaves at once."""
    if block == 96:
        host.tuned["enough"] = 1
    x = numbers_of(np.random.default_rng(5), "normal", int(np.prod(shape)), get_format(dtype).dtype)
    x = x.reshape(shape)
    assert alike(column_sums(host, x, block=block), model_columns(x, block=block))
    assert any(macros.get("UNEVEN") and macros["LEVELS"] for macros in host.macros)


@pytest.mark.slow
def test_inf_and_nan_stay_in_their_columns(host: HostGpu, variant: str) -> None:
    rng = np.random.default_rng(3)
    for dtype in (np.float16, np.float32):
        for shape in ((1, 16, 700), (1, 16, 704), (2, 6, 512), (1, 32, 256), (40, 20, 5)):
            x = rng.standard_normal(shape).astype(dtype)
            for value in (np.inf, -np.inf, np.nan):
                for _ in range(5):
                    x[rng.integers(shape[0]), rng.integers(shape[1]), rng.integers(shape[2])] = value
            assert alike(column_sums(host, x), model_columns(x)), (dtype, shape)


@pytest.mark.slow
def test_rows_that_lanes_read_together(host: HostGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where columns are short, so few that a lane has leaves enough of its own."""
    host.tuned["enough"] = 1
    for length, levels in ((16, (1, 3)), (32, (1, 4)), (64, (2, 4)), (128, (2, 5))):
        x = np.ones((40, length, 16), np.float32)
        assert alike(column_sums(host, x), model_columns(x))
        assert (host.macros[-1]["SPREAD"], host.macros[-1]["LEVELS"]) == levels, length


@pytest.mark.slow
def test_lanes_that_split_two_columns(host: HostGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of few numbers of binary32, of one turn; inf, NaN and the signs of zeros stay in their columns."""
    rng = np.random.default_rng(7)
    shapes = (3, 2, 2), (17, 16, 16), (5, 13, 6), (33, 31, 4), (9, 64, 16), (2, 200, 2), (40, 100, 12)
    for enough, block in ((1, 256), (64, 256), (64, 96)):
        host.tuned["enough"] = enough
        for shape in shapes:
            x = rng.standard_normal(shape).astype(np.float32)
            for outer in x[1:]:
                outer[:, rng.integers(shape[2])] = -0.0
                outer[rng.integers(shape[1]), rng.integers(shape[2])] = rng.choice([np.inf, -np.inf, np.nan])
            for there in {2, shape[2]}:
                part = x[:, :, :there]
                found = column_sums(host, part, block=block)
                assert alike(found, model_columns(part, block=block)), (part.shape, enough, block)
    once = {"COLUMNS": 2, "TURNS": 1, "LOOPS": 0}
    assert all(macros[name] == value for macros in host.macros for name, value in once.items())
    several = {"LOW": {1, 2}, "ALONG": {1, 8}, "UNEVEN": {0, 1}}
    for name, values in several.items():
        assert {macros[name] for macros in host.macros} >= values, name
    assert min(macros["SPREAD"] for macros in host.macros) > 0


def complaint_about_columns(
    host: HostGpu, entry: str, shape: tuple[int, ...], dtype: Any, right: str, wrong: str
) -> str:
    x = np.random.default_rng(5).standard_normal(shape).astype(dtype)
    x[0, 3, 5 % shape[2]] = np.inf
    return complaint_about(host, entry, right, wrong, lambda: column_sums(host, x), model_columns(x))


@pytest.mark.usefixtures("short_chain")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "dtype", "right", "wrong", "seen"),
    [
        ((1, 16, 700), np.float16, "if (__any_sync(ALL, nan)) {", "if (false) {", BITS),
        ((1, 16, 700), np.float16, "part() == 1 ? mma::ONES : 0", "mma::ONES", BITS),
        ((2, 64, 60), np.float16, "return i % 2 * 8 + i / 2 * 2;", "return i % 2 * 8 + i / 2 * 2 % 6;", BITS),
        ((1, 33, 3604), np.float16, "x = ahead.next;", ";", BITS),
        ((2, 40, 68), np.float16, "columns > PER_LOAD / 2", "columns > 0", OUTSIDE),
        ((2, 60, 60), np.float16, "row + SUMS::row_of(i) < x.rows", "true", OUTSIDE),
        ((1, 12_000, 3), np.float16, "turn += TURNS * period", "turn += period", BITS),
        ((1, 4088, 2), np.float16, "first() + DEPTH <= x.rows", "first() <= x.rows", OUTSIDE),
        ((1, 12_000, 2), np.float32, "k < LOW ? k : k + WITHIN", "k", BITS),
        ((1, 12_000, 2), np.float32, "ask(p, x, row + turn * period", "ask(p, x, row", BITS),
        ((2, 70, 66), np.float32, "row < rows && x.columns > 0", "x.columns > 0", OUTSIDE),
        ((2, 70, 66), np.float32, "if (c == 0 || column() == c) own[n]", "own[n]", BITS),
        ((9, 64, 16), np.float32, "across_lanes<SPLIT, LOW>", "across_lanes<0, LOW>", BITS),
        ((9, 64, 16), np.float32, "other = is_second ? first : second", "other = second", BITS),
        ((9, 64, 16), np.float32, "lane - column()", "lane", BITS),
        ((9, 70, 30), np.float32, "high = (p.inverse >> 32) * unit + (low >> 32)", "high = (p.inverse >> 32) * unit", BITS),
    ],
)  # fmt: skip
def test_an_error_in_the_kernel_of_columns_is_seen(
    host: HostGpu, monkeypatch: pytest.MonkeyPatch, shape: Any, dtype: Any, right: str, wrong: str, seen: str
) -> None:
    host.tuned["waves"] = 1
    assert complaint_about_columns(host, "columns", shape, dtype, right, wrong) == seen


@pytest.mark.usefixtures("short_chain")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "dtype", "right", "wrong", "seen"),
    [
        ((2, 64, 72), np.float16, "k / 2 * 8 | matrix / 2 * 2", "k / 2 * 8 | matrix % 2 * 2", BITS),
        ((1, 16, 704), np.float16, "k / 4 * 4 | matrix % 2 * 2", "k / 4 * 4 | matrix % 2 * 4", BITS),
        ((2, 60, 72), np.float16, "any && there && row + own + number < rows", "any", OUTSIDE),
        ((3, 64, 16), np.float16, "any && there && row", "any && row", OUTSIDE),
        ((2, 64, 72), np.float16, "any = unit < p.units", "any = true", OUTSIDE),
        ((2, 64, 72), np.float16, "wait_for_copies<STAGES - 1>()", "wait_for_copies<STAGES>()", BITS),
        ((1, 16, 9000), np.float16, "units += step;\n            go_to_units();", "go_to_units();", BITS),
        ((1, 4000, 64), np.float16, "if (LOOPS && row < rows) return;", "", BITS),
    ],
)  # fmt: skip
def test_an_error_in_the_kernel_of_columns_from_shared_memory_is_seen(
    host: HostGpu, monkeypatch: pytest.MonkeyPatch, shape: Any, dtype: Any, right: str, wrong: str, seen: str
) -> None:
    host.tuned["waves"] = 1
    host.tuned["enough"] = 1
    source = "staged_columns.cu"  # not the kernel that adds up what chunks come to
    assert complaint_about_columns(host, source, shape, dtype, right, wrong) == seen


# ---- running sums of columns ----


def column_scans(
    host: HostGpu, x: Any, dtype: Any, *, shift: int = 0, exclusive: bool = False, reverse: bool = False
) -> Any:
    """Of an array (outer, length, inner), of which the last numbers of each row may be left out."""
    element, target = format_of(x.dtype), format_of(dtype)
    outer, length, inner = x.shape
    array, place, host.readable = placed_columns(x, shift)
    result = Result(x.size, target.dtype)
    recipe = column_scan.column_scan_recipe(
        make_scan_plan(length, element), array,
        columns.Columns(outer, inner, length * inner, inner), shift * x.itemsize % 16 == 0, target, host.gpu,
        exclusive=exclusive, reverse=reverse,
    )  # fmt: skip
    assert recipe is not None
    room = Result(8 * recipe.room, np.uint8)
    room.array[:] = 0xEE  # whatever was there
    Launch(recipe, host.gpu).start(place.ctypes.data, 0, result.array.ctypes.data, 0, room.array.ctypes.data)
    result.check()
    room.check()
    return result.array.reshape(x.shape)


def put_special_numbers(x: Any) -> None:
    """Into some columns: +inf before -inf, and a -0 that comes first."""
    x[:, x.shape[1] // 2, 3] = np.array([np.inf]).astype(x.dtype)
    x[:, -1, 3] = np.array([-np.inf]).astype(x.dtype)
    x[:, 0, 5] = np.array([-0.0]).astype(x.dtype)


def model_column_scans(x: Any, dtype: Any, exclusive: bool = False, reverse: bool = False) -> Any:
    with np.errstate(all="ignore"):
        return tcu.cumsum(x, 1, dtype=dtype, exclusive=exclusive, reverse=reverse)


NEVER = (8, 1, 1, 1, 1 << 30)
TILES = {
    "walks": (), "walks_anywhere": (), "walks_in_place": (), "short_walk": NEVER, "short_walk_anywhere": NEVER, "busy": 2, "many_runs": (256, 3, 2, 1),
}  # fmt: skip
"""Columns are too few for warps that walk down them."""


@pytest.mark.some(4)
@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_running_sums_of_columns(host: HostGpu, dtype: str, exclusive: bool, reverse: bool) -> None:
    """Of every height of a tile; in the end inf, NaN and the signs of zeros."""
    host.tuned |= TILES
    rng = np.random.default_rng(3)
    fmt = get_format(dtype)
    run = 32 * 32 // fmt.dtype.itemsize
    shapes = (
        (2, 1, 37),
        (3, run // 32 + 1, 20),
        (1, run // 8 - 3, 70),
        (2, run // 2, 17),
        (1, run, 34),
        (1, 2 * run + 5, 18),
    )
    for shape, target in zip(
        shapes, ("float16", "float32", "float64", "bfloat16", "float32", dtype), strict=True
    ):
        x = numbers_of(rng, "spread", int(np.prod(shape)), fmt.dtype).reshape(shape)
        if shape[1] > 1:
            put_special_numbers(x)
        for there in {shape[2], shape[2] - 1}:
            part, wide = x[:, :, :there], get_format(target).dtype
            found = column_scans(host, part, wide, shift=there % 2, exclusive=exclusive, reverse=reverse)
            assert alike(found, model_column_scans(part, wide, exclusive, reverse)), (part.shape, target)


@pytest.mark.slow
def test_long_columns_of_several_levels(host: HostGpu) -> None:
    host.tuned |= TILES
    x = np.random.default_rng(4).standard_normal((1, 128 * 16 * 2 + 300, 16))
    assert alike(column_scans(host, x, np.float64), model_column_scans(x, np.float64))
    assert host.macros[-1]["LEVELS"] == 2


def test_running_sums_of_slim_columns_in_place(host: HostGpu) -> None:
    """Whose runs share tiles; each result lies where its number was."""
    host.tuned |= TILES
    x = draw(np.random.default_rng(6), 2 * 3000 * 16, np.dtype(np.float16), "normal").reshape(2, 3000, 16)
    place, host.readable = placed(x.reshape(-1))
    given = columns.Columns(2, 16, 3000 * 16, 16)
    recipe = column_scan.column_scan_recipe(
        make_scan_plan(3000, "binary16"), given, given, True, get_format("binary16"), host.gpu, exclusive=False,
        reverse=True,
    )  # fmt: skip
    assert recipe is not None
    Launch(recipe, host.gpu).start(place.ctypes.data, 0, place.ctypes.data, 0, 0)
    assert host.macros[-1]["PARTS"] > 1
    assert alike(place, model_column_scans(x, np.float16, reverse=True).reshape(-1))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "right", "wrong", "seen"),
    [
        (np.float64, "if (ends && level + 1 < LEVELS)", "if (false)", STUCK),
        (np.float64, "near + (behind + own)", "near + behind + own", BITS),
        (np.float64, "rest == 3 ? near + behind : near", "near", BITS),
        (np.float64, "start += starts[level]", "start = starts[level]", BITS),
        (np.float64, "? totals[2] + totals[3]", "? totals[2]", BITS),
        (np.float64, "any ? sums[height] + later : sums[height]", "sums[height]", BITS),
        (np.float64, "before_groups[0][k][c] = before_groups[AHEAD][k][c];", ";", BITS),
        (np.float64, "load::wait_for_copies<LATER>();", "load::wait_for_copies<LATER + 1>();", BITS),
        (np.float64, "(level ? WARP : WARP / 2) - 1", "WARP / 4 - 1", BITS),
        (np.float16, "return (part * ROWS + (row ^ key)) * PITCH;", "return (part * ROWS + row) * PITCH;", BITS),
        (np.float16, "if (MOVES) totals[c] *= UP;", "", BITS),
        (np.float16, "!found_others(found)", "true", BITS),
    ],
)  # fmt: skip
def test_an_error_in_the_kernel_of_running_sums_of_columns_is_seen(
    host: HostGpu, dtype: Any, right: str, wrong: str, seen: str
) -> None:
    host.tuned |= TILES
    rng = np.random.default_rng(4)
    x = rng.standard_normal((1, 128 * 16 * 3 + 300, 16)) * 2.0 ** rng.integers(-20, 20, 16)
    if dtype is np.float16:
        x = np.clip(x, -4, 4)
        x[0, 77, 3] = np.inf
    x = x.astype(dtype)
    wanted = model_column_scans(x, np.float64)
    found = complaint_about(
        host, "column_scan", right, wrong, lambda: column_scans(host, x, np.float64), wanted
    )
    assert found == seen


@pytest.mark.some(3)
@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize(
    ("walk", "exclusive", "reverse"),
    [((8, 2, 1, 8), False, True), ((8, 3, 8, 1), True, False), ((16, 4, 4, 2), False, False)],
)
def test_warps_that_walk_down_columns(
    host: HostGpu,
    monkeypatch: pytest.MonkeyPatch,
    dtype: str,
    walk: tuple[int, ...],
    exclusive: bool,
    reverse: bool,
) -> None:
    """Columns of part of a group up to several runs of the second network; some columns have inf, NaN and -0.

    Rows begin at multiples of 16 bytes, or anywhere.
    """
    monkeypatch.setattr(column_scan, "_MOST_WASTE", 100)
    monkeypatch.setattr(column_scan, "_LEAST_TURNS", 0)
    each = (*walk, 0)
    host.tuned |= {
        "walks": (each,),
        "walks_anywhere": (each,),
        "walks_in_place": (each,),
        "short_walk": (8, 1, 1, 8, 0),
    }
    host.tuned["short_walk_anywhere"] = (walk[0], 1, 1, 8, 0)
    rng = np.random.default_rng(5)
    fmt = get_format(dtype)
    run = 32 * 32 // fmt.dtype.itemsize
    shapes = (
        (2, 1, 40),
        (3, run // 32 + 1, 24),
        (1, run // 8 - 3, 80),
        (2, 2 * run + 5, 24),
        (1, 18 * run + 3, 16),
    )
    for shape, target in zip(shapes, ("float16", "float32", "float64", "bfloat16", dtype), strict=True):
        x = numbers_of(rng, "spread", int(np.prod(shape)), fmt.dtype).reshape(shape)
        if shape[1] > 1:
            put_special_numbers(x)
        wide = get_format(target).dtype
        for there in (shape[2], shape[2] - 1):
            part = x[:, :, :there]
            found = column_scans(host, part, wide, shift=there % 2, exclusive=exclusive, reverse=reverse)
            assert host.launches[-1] == "column_walk"
            assert alike(found, model_column_scans(part, wide, exclusive, reverse)), (part.shape, target)


@pytest.mark.slow
@pytest.mark.some(4)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize(
    ("walk", "exclusive", "reverse"),
    [((8, 2, 1, 8), False, True), ((16, 3, 4, 2), True, False), ((8, 2, 2, 2), False, False)],
)
def test_results_take_the_places_of_numbers_in_a_walk(
    host: HostGpu,
    monkeypatch: pytest.MonkeyPatch,
    dtype: str,
    walk: tuple[int, ...],
    exclusive: bool,
    reverse: bool,
) -> None:
    """Rows begin anywhere, and each with its results: narrower and wider than a strip; with inf, NaN and -0."""
    monkeypatch.setattr(column_scan, "_MOST_WASTE", 100)
    monkeypatch.setattr(column_scan, "_LEAST_IN_PLACE", 0)
    host.tuned |= {"walks_in_place": ((*walk, 0),)}
    rng = np.random.default_rng(6)
    fmt = get_format(dtype).dtype
    run = 32 * 32 // fmt.itemsize
    behind = 448 // fmt.itemsize + 1  # columns, of which the last strip has no sector of its own
    for shape in (
        (3, 35, 41),
        (2, run // 8 - 3, 137),
        (1, 2 * run + 5, 7),
        (3, run // 32 + 1, behind),
        (1, 37, 259),
    ):
        x = numbers_of(rng, "spread", int(np.prod(shape)), fmt).reshape(shape)
        put_special_numbers(x)
        found = column_scans(host, x, fmt, exclusive=exclusive, reverse=reverse)
        assert host.launches[-1] == "column_walk"
        assert host.macros[-1]["IN_PLACE"] == 1
        assert alike(found, model_column_scans(x, fmt, exclusive, reverse)), shape


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "right", "wrong", "seen"),
    [
        (np.float16, "|| strip.all < ROW)", ")", BITS),
        (np.float16, "cut || strip.inner == lane", "false", BITS),
        (np.float16, "reinterpret_cast<u64>(row) + strip.own) & SECTOR - 1", "reinterpret_cast<u64>(row) + strip.own) & 0", BITS),
        (np.float32, "if (values[c] != values[c]) group.name_nans(c);", "", BITS),
    ],
)  # fmt: skip
def test_an_error_where_results_take_the_places_of_numbers_is_seen(
    host: HostGpu, monkeypatch: pytest.MonkeyPatch, dtype: Any, right: str, wrong: str, seen: str
) -> None:
    monkeypatch.setattr(column_scan, "_LEAST_IN_PLACE", 0)
    monkeypatch.setattr(column_scan, "_MOST_WASTE", 100)
    host.tuned |= {"walks_in_place": ((8, 2, 1, 8, 0),)}
    x = np.random.default_rng(4).standard_normal((3, 301, 450 // np.dtype(dtype).itemsize + 2)).astype(dtype)
    x[1, 100, 3] = np.nan
    wanted = model_column_scans(x, dtype)
    found = complaint_about(host, "column_walk", right, wrong, lambda: column_scans(host, x, dtype), wanted)
    assert found == seen


def test_a_walk_overwrites_its_numbers(host: HostGpu) -> None:
    """Strips end where they begin then: the next strip's numbers may be results by now."""
    host.tuned |= {"walks_in_place": ((8, 2, 1, 8, 0),)}
    x = np.random.default_rng(8).standard_normal((1, 300, 259)).astype(np.float32)
    room = np.zeros(x.size + 4, np.float32)
    begin = -room.ctypes.data % 16 // 4
    place = room[begin : begin + x.size]
    place[:] = x.reshape(-1)
    host.readable = (place.ctypes.data, place.ctypes.data + -(-place.nbytes // 16) * 16)
    array = columns.Columns(1, 259, 300 * 259, 259)
    recipe = column_scan.column_scan_recipe(
        make_scan_plan(300, "binary32"), array, array, True, get_format("binary32"), host.gpu, exclusive=False, reverse=False
    )  # fmt: skip
    assert recipe is not None
    Launch(recipe, host.gpu).start(place.ctypes.data, 0, place.ctypes.data, 0)
    assert host.macros[-1]["IN_PLACE"] == 1
    assert alike(place, model_column_scans(x, np.float32).reshape(-1))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "right", "wrong", "seen"),
    [
        (np.float64, "above[c] += sum[c];", "above[c] = sum[c];", BITS),
        (np.float64, "carry[c] = above[c] + carry[c];", ";", BITS),
        (np.float64, "level == 1 ? 4 : 5", "5", BITS),
        (np.float64, "add_to(later, sums[LEVEL][height]);", "add_to(later, sums[LEVEL][0]);", BITS),
        (np.float64, "carry[c] = above[c] + carry[c];", "if (above[c] != 0) carry[c] += above[c];", BITS),
        (np.float64, "load::wait_for_copies<FETCHED - 1>();", "load::wait_for_copies<FETCHED>();", BITS),
        (np.float64, "place + 16 > shift && row < p.length", "place + 16 > shift", OUTSIDE),
        (np.float64, "bytes = item < p.items ? 16 : 0;", "bytes = 16;", OUTSIDE),
        (np.float64, "warp & (BIT - 1) ? sum + later : sum", "sum", BITS),
        (np.float16, "if (MOVES) totals[c] *= UP;", "", BITS),
        (np.float16, "!found_others(found)", "true", BITS),
    ],
)  # fmt: skip
def test_an_error_in_the_walk_down_columns_is_seen(
    host: HostGpu, dtype: Any, right: str, wrong: str, seen: str
) -> None:
    host.tuned |= {"walks": ((8, 2, 4, 4, 0),)}
    rng = np.random.default_rng(4)
    x = rng.standard_normal((1, 128 * 16 * 3 + 301, 16)) * 2.0 ** rng.integers(-20, 20, 16)
    x[0, :, 2] = -0.0
    if dtype is np.float16:
        x = np.clip(x, -4, 4)
        x[0, 77, 3] = np.inf
    x = x.astype(dtype)
    wanted = model_column_scans(x, np.float64)
    found = complaint_about(
        host, "column_walk", right, wrong, lambda: column_scans(host, x, np.float64), wanted
    )
    assert found == seen


@pytest.mark.some(3)
@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize(
    ("width", "exclusive", "reverse"), [(128, False, True), (128, True, False), (64, False, False)]
)
def test_blocks_that_look_back_along_columns(
    host: HostGpu, dtype: str, width: int, exclusive: bool, reverse: bool
) -> None:
    """Of a few runs up to several runs of the networks above; some columns have inf, NaN and -0."""
    back = (width, 4 if width == 128 else 2, 1, 3, 1)
    host.tuned |= {
        "walks": (),
        "walks_anywhere": (),
        "walks_in_place": (),
        "look_back": back,
        "look_back_anywhere": back,
        "busy": 0,
        "waste": 100,
    }
    rng = np.random.default_rng(7)
    fmt = get_format(dtype)
    line, run = width // fmt.dtype.itemsize, 32 * 32 // fmt.dtype.itemsize
    shapes = (
        (1, 2 * run + 5, line),
        (3, 3 * run, line // 2),
        (1, 18 * run - 1, line + 16 // fmt.dtype.itemsize),
    )
    for shape, target in zip(shapes, ("float32", "float64", dtype), strict=True):
        x = numbers_of(rng, "spread", int(np.prod(shape)), fmt.dtype).reshape(shape)
        x[:, shape[1] // 2, 3] = np.array([np.inf]).astype(x.dtype)
        x[:, -1, 3] = np.array([-np.inf]).astype(x.dtype)
        x[:, :, 1] = np.array([-0.0]).astype(x.dtype)
        wide = get_format(target).dtype
        for there in (shape[2], shape[2] - 1):
            part = x[:, :, :there]
            found = column_scans(host, part, wide, shift=there % 2, exclusive=exclusive, reverse=reverse)
            assert host.launches[-1] == "column_look_back"
            assert alike(found, model_column_scans(part, wide, exclusive, reverse)), (part.shape, target)


@pytest.mark.some(4)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("right", "wrong", "seen"),
    [
        ("blocks.before<0, 4>(position)", "blocks.before<0, 3>(position)", BITS),
        pytest.param(  # waits until nobody moves
            "scan::hand_on(slot_of(p, 1, own / RADIX, column), total, launch);", ";", ENDLESS, marks=pytest.mark.slow
        ),
        ("(starts[1][at] + starts[0][at])", "starts[0][at]", BITS),
        ("load::wait_for_copies<FETCHED - 1>();", "load::wait_for_copies<FETCHED>();", BITS),
        ("(part >> BIT << BIT) - (1 << BIT)", "(part >> BIT << BIT)", BITS),
        ("network.groups[k][c] = sum + network.groups[k][c];", ";", BITS),
        ("network.total[c] = sum + network.total[c];", ";", BITS),
    ],
)  # fmt: skip
def test_an_error_in_blocks_that_look_back_is_seen(host: HostGpu, right: str, wrong: str, seen: str) -> None:
    """So many blocks that some of the sums are handed on by others."""
    host.tuned |= {"walks": (), "look_back": (128, 8, 1, 3, 1), "busy": 0, "waste": 100}
    object.__setattr__(host.gpu, "multiprocessors", 34)
    rng = np.random.default_rng(4)
    x = rng.standard_normal((1, 128 * 16 * 4 + 300, 16)) * 2.0 ** rng.integers(-20, 20, 16)
    wanted = model_column_scans(x, np.float64)
    found = complaint_about(
        host, "column_look_back", right, wrong, lambda: column_scans(host, x, np.float64), wanted
    )
    assert found == seen


# ---- variances ----


def variances(
    host: HostGpu, x: Any, offsets: Any = None, *, shift: int = 0, gap: int = 0, correction: float = 0.0,
    root: bool = False, block: int = 256,
) -> Any:  # fmt: skip
    """Of the rows of an array, ``gap`` numbers apart, or of the segments of a line; in binary64."""
    element, target = format_of(x.dtype), get_format("binary64")
    rows, n = (len(offsets) - 1, x.size) if offsets is not None else x.shape
    line = x if offsets is not None else np.pad(x, ((0, 0), (0, gap))).reshape(-1)
    place, host.readable = placed(line, shift)
    edges = np.ascontiguousarray([0] if offsets is None else offsets, np.int64)
    result = Result(rows, target.dtype)
    stride = None if offsets is not None else n + gap
    aligned = shift * x.itemsize % 16 == 0 and (stride or 0) * x.itemsize % 16 == 0
    recipe = moments.moments_recipe(
        make_dot_plan(n, element, block), rows, target, host.gpu, correction=correction, root=root, stride=stride,
        aligned=aligned and stride is not None,
    )  # fmt: skip
    host.launches.clear()
    Launch(recipe, host.gpu).start(place.ctypes.data, edges.ctypes.data, result.array.ctypes.data, 0, 0)
    result.check()
    if "moments" in host._workspaces:
        assert (host._workspaces["moments"] == ~np.uint64(0)).all(), "slots are not as they were"
    return result.array


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_variances_of_rows(host: HostGpu, dtype: str) -> None:
    rng, kind = np.random.default_rng(6), get_format(dtype).dtype
    for shape, block in (
        ((5, 0), 256), ((7, 1), 256), ((40, 33), 256), ((9, 129), 96), ((3, 700), 32), ((2, 4096), 256), ((1, 9001), 64),
        ((2, 33_000), 64), ((1, 20_000), 256),
    ):  # fmt: skip
        x = numbers_of(rng, "spread", int(np.prod(shape)), kind).reshape(shape)
        for shift, gap, correction, name in ((0, 0, 0, "var"), (1, 3, 1, "std")):
            found = variances(
                host, x, shift=shift, gap=gap, correction=correction, root=name == "std", block=block
            )
            with np.errstate(all="ignore"):
                wanted = getattr(tcu, name)(x, 1, correction=correction, block=block, dtype="float64")
            assert alike(found, wanted), (shape, block, shift)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_variances_of_rows_that_a_warp_goes_on_with(
    host: HostGpu, monkeypatch: pytest.MonkeyPatch, dtype: str
) -> None:
    monkeypatch.setattr(moments, "_ENOUGH", 1)
    rng, kind = np.random.default_rng(6), get_format(dtype).dtype
    ahead = set()
    for n in (1032, 3000, 4096, 4104, 6000, 8192, 12_000):
        x = numbers_of(rng, "spread", 2 * n, kind).reshape(2, n)
        for shift, gap in ((0, 0), (1, 3)):
            found = variances(host, x, shift=shift, gap=gap)
            with np.errstate(all="ignore"):
                wanted = tcu.var(x, 1, dtype="float64")
            assert alike(found, wanted), (n, shift)
            ahead.add(tuple(host.macros[-1].get(name) for name in ("LONGER", "AHEAD")))
    assert (1, 0) in ahead
    assert ((3, 1) in ahead) == (dtype != "float64"), "which has no time to gain"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("ask(tile + 1);", "ask(tile);"),
        ("for (int i = 1; i < LONGER; ++i) asked", "for (int i = 2; i < LONGER; ++i) asked"),
        ("* PER_LOAD + i * TURN; };", "* PER_LOAD + i * WARP; };"),
    ],
)
def test_an_error_in_vectors_asked_for_ahead_is_seen(
    host: HostGpu, monkeypatch: pytest.MonkeyPatch, right: str, wrong: str
) -> None:
    monkeypatch.setattr(moments, "_ENOUGH", 1)
    x = (np.random.default_rng(8).standard_normal((2, 4096)) + 3).astype(np.float32)
    wanted = tcu.var(x, 1, dtype="float64")
    assert complaint_about(host, "moments", right, wrong, lambda: variances(host, x), wanted)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_variances_of_segments(host: HostGpu, dtype: str) -> None:
    rng, kind = np.random.default_rng(7), get_format(dtype).dtype
    for mean, longs in ((3, (2500,)), (40, (9000, 17_000)), (700, (33_000,))):
        offsets = ragged(rng, mean, 9000, longs)
        offsets[0] = 0
        x = numbers_of(rng, "spread", int(offsets[-1]), kind)
        found = variances(host, x, offsets, shift=int(rng.integers(8)), correction=0.5)
        with np.errstate(all="ignore"):
            wanted = tcu.segment_var(x, offsets, correction=0.5, dtype="float64")
        assert alike(found, wanted), mean
        # Offsets that nobody has looked at.
        wrong = offsets.copy()
        wrong[5], wrong[9] = x.size + 3, -4
        found = variances(host, x, wrong, correction=0.5)
        bad = [4, 5, 8, 9]
        assert np.isnan(found[bad]).all()
        assert alike(np.delete(found, bad), np.delete(wanted, bad))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("__fma_rn(d, d, second[i]);", "__fma_rn(d, d, first[i]);"),
        ("IS_FIRST ? __dmul_rn(d, d)", "IS_FIRST ? d"),
        ("pivot, i < count);", "pivot, true);"),
        ("const double d = is_there ?", "const double d = true ?"),
        ("length ? to_binary64(*data) : 0;", "length ? to_binary64(data[length - 1]) : 0;"),
        ("ARE_APART ? other : sums[i", "ARE_APART ? sums[0] : sums[i"),
        ("of_warps[which][lane] : 0.0", "of_warps[0][lane] : 0.0"),
        ("of_warps[lane / (WARP / 2)][", "of_warps[0]["),
        ("ALONE ? 0 : length / STEP", "ALONE ? 0 : length / STEP + 1"),
        ("min(own.length - at, size)", "size"),
    ],
)
def test_an_error_in_variances_is_seen(host: HostGpu, right: str, wrong: str) -> None:
    x = (np.random.default_rng(8).standard_normal(9000) + 3).astype(np.float32)
    x[600] = np.inf
    offsets = np.array([0, 7, 100, 500, 9000])
    rows = x[:900].reshape(9, 100), x[:90].reshape(9, 10)
    wanted = np.concatenate([
        tcu.segment_var(x, offsets, dtype="float64"), *(tcu.var(each, 1, dtype="float64") for each in rows)
    ])  # fmt: skip

    def run() -> Any:
        return np.concatenate([variances(host, x, offsets), *(variances(host, each) for each in rows)])

    assert complaint_about(host, "moments", right, wrong, run, wanted)


# ---- dot products and norms of rows, norms of segments: the same kernel ----


def products(
    host: HostGpu,
    x: Any,
    y: Any = None,
    offsets: Any = None,
    *,
    shift: int = 0,
    gap: int = 0,
    block: int = 256,
) -> Any:
    """Of the rows of one array or two, ``gap`` numbers apart, or of the segments of a line; in binary64."""
    element, target = format_of(x.dtype), get_format("binary64")
    rows, n = (len(offsets) - 1, x.size) if offsets is not None else x.shape
    lines = [
        each if offsets is not None else np.pad(each, ((0, 0), (0, gap))).reshape(-1)
        for each in ((x,) if y is None else (x, y))
    ]
    between = -lines[0].size % (16 // x.itemsize)  # so that both begin alike
    place, host.readable = placed(np.concatenate([lines[0], np.zeros(between, x.dtype), lines[-1]]), shift)
    second = place.ctypes.data + (lines[0].size + between) * x.itemsize
    edges = np.ascontiguousarray([0] if offsets is None else offsets, np.int64)
    result = Result(rows, target.dtype)
    stride = None if offsets is not None else n + gap
    aligned = shift * x.itemsize % 16 == 0 and (stride or 0) * x.itemsize % 16 == 0
    recipe = moments.moments_recipe(
        make_dot_plan(n, element, block), rows, target, host.gpu, root=y is None, stride=stride,
        aligned=aligned and stride is not None, term="square" if y is None else "product",
    )  # fmt: skip
    host.launches.clear()
    Launch(recipe, host.gpu).start(
        place.ctypes.data, edges.ctypes.data if y is None else second, result.array.ctypes.data, 0, 0
    )
    result.check()
    return result.array


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_dot_products_and_norms_of_rows(host: HostGpu, dtype: str) -> None:
    rng, kind = np.random.default_rng(9), get_format(dtype).dtype
    for shape, block in (
        ((5, 0), 256), ((7, 1), 256), ((40, 33), 256), ((9, 129), 96), ((3, 700), 32), ((2, 4096), 256), ((1, 9001), 64),
        ((1, 20_000), 256),
    ):  # fmt: skip
        x, y = (numbers_of(rng, "spread", int(np.prod(shape)), kind).reshape(shape) for _ in "xy")
        for shift, gap in ((0, 0), (1, 3)):
            with np.errstate(all="ignore"):
                wanted = tcu.dot(x, y, 1, block=block, dtype="float64")
                root = tcu.norm(x, 1, block=block, dtype="float64")
            assert alike(products(host, x, y, shift=shift, gap=gap, block=block), wanted), (shape, shift)
            assert alike(products(host, x, shift=shift, gap=gap, block=block), root), (shape, shift)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_norms_of_segments(host: HostGpu, dtype: str) -> None:
    rng, kind = np.random.default_rng(10), get_format(dtype).dtype
    for mean, longs in ((3, (2500,)), (40, (9000, 17_000))):
        offsets = ragged(rng, mean, 9000, longs)
        offsets[0] = 0
        x = numbers_of(rng, "spread", int(offsets[-1]), kind)
        with np.errstate(all="ignore"):
            wanted = tcu.segment_norm(x, offsets, dtype="float64")
        assert alike(products(host, x, offsets=offsets, shift=int(rng.integers(8))), wanted), mean
        wrong = offsets.copy()
        wrong[5], wrong[9] = x.size + 3, -4
        found, bad = products(host, x, offsets=wrong), [4, 5, 8, 9]
        assert np.isnan(found[bad]).all()
        assert alike(np.delete(found, bad), np.delete(wanted, bad))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("TERM == PRODUCT ? number_of(y, i) : own", "own"),
        ("static_cast<const Code*>(p.other) + begin", "static_cast<const Code*>(p.other)"),
        ("y[i] = asked<IS_ALL>(other, length, at);", "y[i] = asked<IS_ALL>(data, length, at);"),
        ("own.other + at, static_cast", "own.other, static_cast"),
    ],
)
def test_an_error_in_products_of_rows_is_seen(host: HostGpu, right: str, wrong: str) -> None:
    rng = np.random.default_rng(8)
    x, y = rng.standard_normal((2, 2, 9000)).astype(np.float32)
    wanted = np.concatenate(
        [tcu.dot(x, y, 1, dtype="float64"), tcu.dot(x[:, :50], y[:, :50], 1, dtype="float64")]
    )

    def run() -> Any:
        return np.concatenate([products(host, x, y), products(host, x[:, :50], y[:, :50])])

    assert complaint_about(host, "moments", right, wrong, run, wanted)
