"""Contract: the kernels of ragged sums and of scans have the bits of the model, without a GPU.

They run on the host, thread by thread (cuda_on_host.py), as the launches of
``tcu.gpu`` compile and start them: macros, grids and structures are theirs.
What is copied in the background comes at any time, warps and blocks take
turns by chance, and no byte outside the array is read.  Results are those of
the plans executed by the model: for segments of every length, for numbers of
every kind, for rows of one line and of many chunks.  Segments keep their sums
where offsets beside theirs are wrong.  An error in a kernel's text is seen.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cuda_on_host import KernelFailed, compiled_for_host, compiler_or_skip
from numbers_of_all_kinds import KINDS, draw

import tcu
from tcu.formats import format_of, get_format
from tcu.gpu import scans, segments
from tcu.gpu.device import Gpu
from tcu.plan.scan import make_scan_plan
from tcu.units import AlignedSum, find_instruction

STRUCTURES = {
    "segments": "Segments", "short_segments": "Segments", "long_chunks": "LongSegments", "short_scan": "Scan",
    "long_scan": "Scan",
}  # fmt: skip
MULTIPROCESSORS = 3
GUARD = 64
"""Bytes before and behind a result, which no kernel writes."""


class HostGpu:
    """Stands in for the driver: kernels are compiled for the host, changed as a test wants it, and run at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        compiler_or_skip()
        self._folder = folder
        self._workspaces: dict[str, Any] = {}
        self.changes: dict[str, Mapping[str, str]] = {}
        self.launches: list[str] = []
        self.readable = (0, 0)
        self.seed = 0
        self.gpu = Gpu(0, "H200", (9, 0))
        object.__setattr__(self.gpu, "multiprocessors", MULTIPROCESSORS)
        for module in (segments, scans):
            monkeypatch.setattr(module, "compiled", self._compiled)
            monkeypatch.setattr(module, "KernelLaunch", self._launch)
            monkeypatch.setattr(module, "workspace", self._workspace)
        monkeypatch.setattr(scans, "allow_shared", lambda *_: None)
        # A few thousand segments are as many as a GPU has in a warp's run of many.
        monkeypatch.setattr(segments, "_BUSY", 4)

    def _compiled(
        self, source: str, entry: str, capability: Any, element: str, layout: str, macros: Any
    ) -> Any:
        given = {"ELEMENT": element, "LAYOUT": layout, **dict(macros)}
        kernel = compiled_for_host(
            source, entry, STRUCTURES[entry], {name: str(value) for name, value in given.items()},
            self._folder, changes=self.changes.get(entry),
        )  # fmt: skip
        return entry, kernel

    def _launch(self, function: Any, blocks: int, threads: int, problem: Any, shared: int = 0) -> Any:
        entry, kernel = function

        def launch(stream: int) -> None:
            self.launches.append(entry)
            self.seed += 1
            kernel(
                problem, blocks, threads, together=MULTIPROCESSORS, readable=self.readable, seed=self.seed
            )

        return launch

    def _workspace(self, kind: str, ordinal: int, stream: int, slots: int, words: int) -> Any:
        """Zeros that launches leave behind as the next one needs them."""
        room = self._workspaces.setdefault(kind, np.zeros(1 << 12, np.uint64))
        assert words <= room.size
        return SimpleNamespace(words_address=room.ctypes.data)

    def state_is_clean(self) -> bool:
        return not self._workspaces["segments"].any()


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> HostGpu:
    folder = tmp_path_factory.getbasetemp() / "kernels_on_host"  # compiled once for all tests
    folder.mkdir(exist_ok=True)
    return HostGpu(monkeypatch, folder)


def placed(numbers: Any, shift: int = 0) -> tuple[Any, tuple[int, int]]:
    """The numbers, so many elements behind a multiple of 16 bytes; and the granules that hold some of them."""
    room = np.full(numbers.nbytes + 64, 0xFF, np.uint8)
    begin = -room.ctypes.data % 16 + shift * numbers.itemsize
    place = room[begin : begin + numbers.nbytes].view(numbers.dtype)
    place[:] = numbers
    first, last = place.ctypes.data, place.ctypes.data + numbers.nbytes
    return place, (first // 16 * 16, -(-last // 16) * 16)


class Result:
    """Memory for a result, with guards around it."""

    def __init__(self, count: int, dtype: Any) -> None:
        size = count * np.dtype(dtype).itemsize
        self._room = np.full(size + 2 * GUARD + 16, 0xA5, np.uint8)
        self._begin = -self._room.ctypes.data % 16 + GUARD
        self.array = self._room[self._begin : self._begin + size].view(dtype)

    def check(self) -> None:
        before, behind = self._room[: self._begin], self._room[self._begin + self.array.nbytes :]
        assert (before == 0xA5).all() and (behind == 0xA5).all(), "written outside the result"


# ---- sums of segments ----


def sums(
    host: HostGpu, x: Any, offsets: Any, dtype: Any = np.float32, *, shift: int = 0, mean: bool = False
) -> Any:
    """Of the kernels, as the host starts them."""
    element, target = format_of(x.dtype), format_of(dtype)
    place, host.readable = placed(x, shift)
    edges = np.ascontiguousarray(offsets, np.int64)
    result = Result(edges.size - 1, target.dtype)
    launch = segments.SegmentsLaunch(x.size, edges.size - 1, element, target, host.gpu, mean=mean)
    room = np.full(launch.room.size // 16 + 1, np.nan, np.complex128)
    room[:] = np.frombuffer(b"\xff" * 16, np.complex128)  # slots of numbers that are not there yet
    launch(place.ctypes.data, edges.ctypes.data, result.array.ctypes.data, room.ctypes.data, 0)
    result.check()
    assert not launch.room.size or host.state_is_clean()
    return result.array


def alike(found: Any, wanted: Any) -> bool:
    return bool(np.array_equal(found.view(np.uint8), np.asarray(wanted).view(np.uint8)))


def ragged(rng: np.random.Generator, mean: float, numbers: int, longs: int = 0) -> Any:
    """Offsets of segments, many of them empty, a few long; the first begins anywhere."""
    count = int(numbers / mean)
    lengths = rng.geometric(1 / mean, count) * (rng.random(count) < 0.8)
    lengths[rng.integers(0, count // 2) :][: count // 8] = 0
    lengths[rng.choice(count, longs, replace=False)] = rng.integers(2049, 6000, longs)
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
        return function(inner, offsets - offsets[0], dtype=np.dtype(dtype), unit="h200")


def test_the_hosts_mma_adds_as_the_unit_does() -> None:
    """cuda_on_host.h says it in 20 lines."""
    for fmt in ("binary16", "bfloat16"):
        arithmetic = find_instruction("H200", "mma", fmt, fmt, "binary32").arithmetic
        assert arithmetic == AlignedSum(16, 25, "RZ", -133)


@pytest.mark.parametrize("kind", KINDS)
def test_short_segments(host: HostGpu, kind: str) -> None:
    rng = np.random.default_rng(list(KINDS).index(kind))
    for mean, longs in ((1.5, 0), (8, 1), (18, 0)):
        offsets = ragged(rng, mean, 4000, longs)
        x = numbers_of(rng, kind, int(offsets[-1]), np.float16)  # nothing behind the last segment
        host.launches.clear()
        found = sums(host, x, offsets, shift=int(rng.integers(8)))
        assert host.launches == ["short_segments", "long_chunks"]
        assert alike(found, model_sums(x, offsets, np.float32)), (mean, longs)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("mean", [30, 300])
def test_segments_of_any_length(host: HostGpu, dtype: str, mean: int) -> None:
    rng = np.random.default_rng(mean)
    fmt = get_format(dtype)
    for kind in ("spread", "special", "any code"):
        offsets = ragged(rng, mean, 9000, 2)
        x = numbers_of(rng, kind, int(offsets[-1]), fmt.dtype)
        host.launches.clear()
        found = sums(host, x, offsets, np.float64, shift=int(rng.integers(16 // x.itemsize)))
        assert host.launches == ["segments", "long_chunks"]
        assert alike(found, model_sums(x, offsets, np.float64)), kind


@pytest.mark.parametrize("mean", [4, 60])
def test_means_and_narrow_results(host: HostGpu, mean: int) -> None:
    rng = np.random.default_rng(mean)
    offsets = ragged(rng, mean, 3000)
    x = draw(rng, int(offsets[-1]) + 100, np.float16, "spread")
    for target in (np.float16, np.float64):
        found = sums(host, x, offsets, target, mean=True)
        assert alike(found, model_sums(x, offsets, target, True))


def sums_beside_wrong_ones(x: Any, offsets: Any, per_run: int, most: int) -> tuple[Any, Any]:
    """(sums, whether a segment has one).

    A run of segments whose first and last offsets are in order counts whole:
    what lies outside it is none of its segments.
    """
    begins, ends = offsets[:-1], offsets[1:]
    valid = (begins >= 0) & (begins <= ends) & (ends <= x.size)
    for first in range(0, begins.size, per_run):
        last = min(first + per_run, begins.size)
        if 0 <= offsets[first] <= offsets[last] <= x.size:
            inside = (begins >= offsets[first]) & (ends <= offsets[last])
            valid[first:last] &= inside[first:last]
    sums = [
        model_sums(x, np.array([begin, end]), np.float32)[0] if good else np.uint32(0x7FFFFFFF).view(np.float32)
        for begin, end, good in zip(begins, ends, valid, strict=True)
    ]
    return np.array(sums, np.float32), valid


@pytest.mark.parametrize("mean", [6, 40])
def test_valid_segments_keep_their_sums_beside_wrong_offsets(host: HostGpu, mean: int) -> None:
    rng = np.random.default_rng(mean)
    for _ in range(4):
        offsets = ragged(rng, mean, 1500)
        n = int(offsets[-1])
        x = draw(rng, n, np.float16, "spread")
        for at in rng.choice(offsets.size, 3, replace=False):
            offsets[at] = rng.choice([1 << 40, (1 << 32) + 5, -5, n + 1, int(rng.integers(n)), int(rng.integers(n))])
        wanted, valid = sums_beside_wrong_ones(x, offsets, per_run_of(n, offsets.size - 1, mean), 2048)
        assert valid.any()
        assert alike(sums(host, x, offsets), wanted)


def per_run_of(n: int, count: int, mean: int) -> int:
    short = n <= segments._SHORT_MEAN * count
    data, most = (
        (segments._SHORT_DATA, segments._SHORT_MOST_PER_WARP) if short else (segments._DATA[2], segments._MOST_PER_WARP)
    )
    per_warp = segments._per_warp(2 * n, count, data, most)
    return max(per_warp, 32) if short else per_warp


def test_a_way_back_behind_what_the_ring_has_skipped(host: HostGpu) -> None:
    """Offsets that jump ahead, back, and ahead again: groups of 8 segments, each valid but where they jump."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal(30_000).astype(np.float16)
    offsets = np.array([
        *range(0, 80, 10), *range(20_070, 20_160, 10), *range(19_300, 19_460, 10), *range(20_160, 20_240, 10),
    ])  # fmt: skip
