"""Contract: running sums within ragged segments have the bits of the model, whatever the lengths are, without a GPU.

The kernels run on the host as their recipes say (cuda_on_host.py).  Each segment has the running sums that it has
alone: empty ones, those of a group, of many lines, of a chunk, of many chunks; of numbers of every kind, in every
order, in narrower and wider formats; from any element on, of the array and of the result.  Where offsets are wrong,
valid segments keep theirs.  No byte outside the array's granules is read, and an error in a kernel's text is seen.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from cuda_on_host import STUCK, TOO_EARLY
from numbers_of_all_kinds import KINDS, draw
from test_kernels_on_host import BITS, ORDERS, HostGpu, Result, alike, complaint_about, placed

import tcu
from tcu.formats import format_of
from tcu.gpu import segment_scans
from tcu.gpu.launch import Launch

ONE_BLOCK = {"chunks": (224, 3, 1)}
"""Of segment_chunks.cu on a multiprocessor: no more run at a time here, and they wait for each other."""
DTYPES = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]
dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
orders = pytest.mark.parametrize(("exclusive", "reverse"), ORDERS)


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch, built: Path) -> HostGpu:
    host = HostGpu(monkeypatch, built)
    monkeypatch.setattr(segment_scans, "config", host._config)
    host.tuned = ONE_BLOCK
    monkeypatch.setattr(segment_scans, "_per_warp", lambda *given: host.tuned.get("per_warp", 40))
    return host


def scanned(
    host: HostGpu, x: Any, offsets: Any, exclusive: bool = False, reverse: bool = False, dtype: Any = None,
    shifts: tuple[int, int] = (0, 0), begin: Any = None,
) -> Any:  # fmt: skip
    """Of the kernels; x and the result lie so many elements behind a granule."""
    element, target = format_of(x.dtype), format_of(np.dtype(dtype or x.dtype))
    place, host.readable = placed(x, shifts[0])
    offsets = np.ascontiguousarray(offsets, np.int64)
    result = Result(x.size, target.dtype, shifts[1])
    recipe = segment_scans.segment_scan_recipe(
        x.size, offsets.size - 1, element, target, host.gpu, exclusive=exclusive, reverse=reverse
    )
    launch = Launch(recipe, host.gpu)
    room = np.full(launch.room, 0xFF, np.uint64)
    if begin is not None:
        result.array[...] = begin
    launch.start(place.ctypes.data, offsets.ctypes.data, result.array.ctypes.data, 0, room.ctypes.data)
    result.check()
    assert not any(room.any() for room in host._workspaces.values())
    return result.array.copy()


def wanted(x: Any, offsets: Any, exclusive: bool = False, reverse: bool = False, dtype: Any = None) -> Any:
    with np.errstate(all="ignore"):
        return tcu.segment_cumsum(
            x,
            np.asarray(offsets),
            exclusive=exclusive,
            reverse=reverse,
            dtype=np.dtype(dtype or x.dtype).name,
        )


def offsets_of(rng: Any, lengths: Any) -> Any:
    return np.concatenate([[0], np.cumsum(rng.permutation(lengths))])


def ragged(rng: Any, mean: float, count: int) -> Any:
    return offsets_of(rng, rng.geometric(1 / (mean + 1), count) - 1)


@pytest.mark.some(4)
@pytest.mark.slow
@dtypes
@orders
def test_segments_of_every_length(host: HostGpu, dtype: Any, exclusive: bool, reverse: bool) -> None:
    rng = np.random.default_rng(1)
    for case, kind in enumerate(KINDS):
        offsets = ragged(rng, [0.5, 4, 17, 64, 300][case % 5], 150)
        x = draw(rng, int(offsets[-1]), dtype, kind)
        target = dtype if case % 2 else DTYPES[case // 2 % 4]
        options = exclusive, reverse, target
        found = scanned(host, x, offsets, *options, (case % 9, case * 3 % 9))
        assert alike(found, wanted(x, offsets, *options)), (kind, case)


@pytest.mark.some(4)
@pytest.mark.slow
@dtypes
@orders
def test_long_segments_among_short_ones(host: HostGpu, dtype: Any, exclusive: bool, reverse: bool) -> None:
    rng = np.random.default_rng(2)
    chunk = 16384 // np.dtype(dtype).itemsize
    for case, kind in enumerate(("normal", "spread", "special")):
        host.tuned = {**ONE_BLOCK, "mean": case % 2 * 1000_000}
        lengths = [
            0,
            0,
            chunk // 2,
            chunk // 2 + 1,
            chunk,
            chunk + 1,
            3 * chunk,
            35 * chunk - 3,
            chunk - 1,
            *rng.integers(0, 20, 60),
        ]
        offsets = offsets_of(rng, lengths)
        x = draw(rng, int(offsets[-1]), dtype, kind)
        target = [dtype, np.float64, np.float16][case]
        found = scanned(host, x, offsets, exclusive, reverse, target, (case, case // 2))
        assert host.launches[-1] == "segment_chunks"
        assert alike(found, wanted(x, offsets, exclusive, reverse, target)), kind


@pytest.mark.slow(1)
@dtypes
def test_few_segments_and_empty_arrays(host: HostGpu, dtype: Any) -> None:
    rng = np.random.default_rng(3)
    for lengths in (
        [0, 0],
        [0] * 170,
        [1, 1],
        [7, 0, 0],
        [5000, 2],
        [3] * 31,
        [3] * 32,
        [3] * 63,
        [256] * 33,
    ):
        offsets = offsets_of(rng, lengths)
        x = draw(rng, int(offsets[-1]), dtype, "normal")
        assert alike(scanned(host, x, offsets), wanted(x, offsets)), lengths


@pytest.mark.slow(1)
@dtypes
def test_valid_segments_keep_their_sums_beside_wrong_offsets(host: HostGpu, dtype: Any) -> None:
    rng = np.random.default_rng(4)
    for case in range(12):
        offsets = ragged(rng, 20, 150)
        x = draw(rng, int(offsets[-1]), dtype, "normal")
        right = offsets.copy()
        wrong = rng.integers(1, offsets.size - 1, 3)
        offsets[wrong] = [[-5, x.size + 1, 1 << 60], [-(1 << 62), x.size + 7, -1]][case % 2]
        found, every = scanned(host, x, offsets, begin=77), wanted(x, right)
        for segment in range(offsets.size - 1):
            part = slice(right[segment], right[segment + 1])
            left_out = {segment, segment + 1} & set(wrong)
            assert alike(found[part], np.full_like(x[part], 77) if left_out else every[part])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "entry", "right", "wrong"),
    [
        (np.float64, "segment_tiles", "            load::wait_for_copy(full, odd);\n", ""),
        (np.float16, "segment_tiles", "if (marks >> (i + j) & 1) running = 0;", ""),
        (np.float16, "segment_tiles", "below ? earlier - at_mark : before_pass + earlier;", "before_pass + earlier;"),
        (np.float16, "segment_tiles", "before_pass = marked ? total - at_last_mark : before_pass + total;", ""),
        (np.float64, "segment_tiles", "start = first ? 0 : before_line;", "start = 0;"),
        (np.float64, "segment_tiles", "first = 31 - __clz(starts & ((2u << lane) - 1) | 1);", "first = 0;"),
        (np.float32, "segment_tiles", "    if (rest < count) to[rest] = codes[rest];\n", ""),
        (ml_dtypes.bfloat16, "segment_tiles", "return exact::fits(seen.top(), seen.bottom(), 32 - __clz(window.count - 1), 53);", "return true;"),
        (np.float32, "segment_chunks", "    load::wait_for_copy(&room.found[stage], turn.odd);\n", ""),
        (np.float32, "segment_chunks", "const double start = carry +", "const double start ="),
        (np.float32, "segment_chunks", "total = __shfl_sync(ALL, sums, WARP - 1);", ""),
        (np.float32, "segment_chunks", "if (place) before[level]", "before[level]"),
    ],
)  # fmt: skip
def test_an_error_in_a_kernel_is_seen(host: HostGpu, dtype: Any, entry: str, right: str, wrong: str) -> None:
    rng = np.random.default_rng(5)
    chunk = 16384 // np.dtype(dtype).itemsize
    offsets = offsets_of(
        rng, [*rng.geometric(1 / 30, 40), *rng.geometric(1 / 600, 5), 40 * chunk, chunk + 1, 2]
    )
    x = draw(rng, int(offsets[-1]), dtype, "normal")
    if dtype is ml_dtypes.bfloat16:
        x[::97] = 2.0**100  # which numbers of other segments must not meet
    seen = complaint_about(host, entry, right, wrong, lambda: scanned(host, x, offsets), wanted(x, offsets))
    assert seen in (BITS, STUCK, TOO_EARLY)
