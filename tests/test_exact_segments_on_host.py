"""Contract: exact sums of ragged segments are rounded once, whatever the numbers and the offsets are, without a GPU.

The kernels run on the host as their recipes say (cuda_on_host.py).  Results are the host's exact sums: for segments of
every length, empty and long ones, numbers of every exponent, cancelling, subnormal, inf and NaN.  Ordinary numbers take
the fast way.  Where offsets are wrong, segments that are valid keep their sums and the others are NaN.  No byte outside
the array's granules is read, and an error in a kernel's text is seen.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from cuda_on_host import KernelFailed
from numbers_of_all_kinds import KINDS, draw
from test_kernels_on_host import HostGpu, Result, alike, placed

import tcu
from tcu.formats import format_of
from tcu.gpu import exact_segments
from tcu.gpu.launch import Launch

DTYPES = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]
dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
SLOWLY = {
    "is_mine && is_summed && !proved": "false",
    "if (done < last) sum_one_by_one(p, done, last, room.limbs);": "",
}
"""The slow ways; without them, only proved sums are right."""


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch, built: Path) -> HostGpu:
    host = HostGpu(monkeypatch, built)
    monkeypatch.setattr(exact_segments, "config", host._config)
    host.tuned = {"full": 0, "long": 16384}
    monkeypatch.setattr(exact_segments, "_per_warp", lambda *given: host.tuned.get("per_warp", 62))
    return host


def segments_of(
    host: HostGpu, x: Any, offsets: Any, *, dtype: Any = None, shift: int = 0, mean: bool = False
) -> Any:
    place, host.readable = placed(x, shift)
    offsets = np.ascontiguousarray(offsets, np.int64)
    element, target = format_of(x.dtype), format_of(np.dtype(dtype or x.dtype))
    count = offsets.size - 1
    recipe = exact_segments.exact_segments_recipe(x.size, count, element, target, host.gpu, mean=mean)
    result = Result(count, target.dtype)
    launch = Launch(recipe, host.gpu)
    room = np.full(launch.room, 0xFF, np.uint64)
    launch.start(place.ctypes.data, offsets.ctypes.data, result.array.ctypes.data, 0, room.ctypes.data)
    result.check()
    assert not any(room.any() for room in host._workspaces.values())
    return result.array.copy()


def wanted(x: Any, offsets: Any, dtype: Any = None, *, mean: bool = False) -> Any:
    function = tcu.segment_fmean if mean else tcu.segment_fsum
    with np.errstate(all="ignore"):
        return function(x, np.asarray(offsets), dtype=np.dtype(dtype or x.dtype).name)


def offsets_of(rng: Any, lengths: Any) -> Any:
    return np.concatenate([[0], np.cumsum(rng.permutation(lengths))])


def ragged(rng: Any, mean: float, count: int) -> Any:
    return offsets_of(rng, rng.geometric(1 / (mean + 1), count) - 1)


@pytest.mark.some(12)
@pytest.mark.slow(1)
@dtypes
@pytest.mark.parametrize("mean", [0.5, 4, 17, 64, 300])
def test_segments_of_every_length(host: HostGpu, dtype: Any, mean: float) -> None:
    rng = np.random.default_rng(int(mean))
    for case, kind in enumerate(KINDS):
        offsets = ragged(rng, mean, 150)
        x = draw(rng, int(offsets[-1]), dtype, kind)
        target = DTYPES[case % 4]
        found = segments_of(host, x, offsets, dtype=target, shift=case % 3, mean=case % 3 == 2)
        assert alike(found, wanted(x, offsets, target, mean=case % 3 == 2)), kind


@pytest.mark.slow
@dtypes
def test_long_segments_among_short_ones(host: HostGpu, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    most = 16384 // np.dtype(dtype).itemsize
    for case, kind in enumerate(("normal", "spread", "special", "cancelling")):
        lengths = [0, 0, most, most + 1, 3 * most, 40_000, most - 1, *rng.integers(0, 20, 60)]
        offsets = offsets_of(rng, lengths)
        x = draw(rng, int(offsets[-1]), dtype, kind)
        for mean in (False, True):
            found = segments_of(host, x, offsets, dtype=np.float64, shift=case, mean=mean)
            assert host.launches[-1] == "long_exact_segments"
            assert alike(found, wanted(x, offsets, np.float64, mean=mean)), kind


@pytest.mark.slow(1)
@dtypes
def test_few_segments_and_empty_arrays(host: HostGpu, dtype: Any) -> None:
    rng = np.random.default_rng(3)
    for lengths in ([0], [0] * 70, [1], [7, 0, 0], [5000], [3] * 31, [3] * 32, [3] * 63):
        offsets = offsets_of(rng, lengths)
        x = draw(rng, int(offsets[-1]), dtype, "normal")
        for mean in (False, True):
            assert alike(segments_of(host, x, offsets, mean=mean), wanted(x, offsets, mean=mean)), lengths


@pytest.mark.slow(1)
@dtypes
def test_numbers_of_neighbours_change_nothing(host: HostGpu, dtype: Any) -> None:
    """Segments of other sizes, NaN and inf share windows with ordinary ones."""
    rng = np.random.default_rng(4)
    offsets = ragged(rng, 12, 200)
    fmt = format_of(dtype)
    x = rng.standard_normal(int(offsets[-1]))
    for segment, (begin, end) in enumerate(pairwise(offsets)):
        x[begin:end] *= 2.0 ** rng.integers(-fmt.bias + 3, fmt.bias - 6)
        if segment % 17 == 5 and end > begin:
            x[begin] = [np.nan, np.inf, -np.inf][segment % 3]
    x = x.astype(dtype)
    for target in DTYPES:
        assert alike(segments_of(host, x, offsets, dtype=target), wanted(x, offsets, target))
        assert alike(
            segments_of(host, x, offsets, dtype=target, mean=True), wanted(x, offsets, target, mean=True)
        )


@pytest.mark.slow(1)
@dtypes
def test_ordinary_numbers_take_the_fast_way(host: HostGpu, dtype: Any) -> None:
    rng = np.random.default_rng(2)
    host.changes = {"exact_segments.cu": SLOWLY}
    for numbers in (rng.standard_normal, rng.random, lambda n: rng.standard_normal(n) * 1e-3 + 5, np.zeros):
        for mean in (4, 100):
            offsets = ragged(rng, mean, 100)
            x = numbers(int(offsets[-1])).astype(dtype)
            x[1] = -0.0
            assert alike(segments_of(host, x, offsets), wanted(x, offsets)), mean
            assert alike(segments_of(host, x, offsets, mean=True), wanted(x, offsets, mean=True)), mean
    x[offsets[50]] = np.inf
    offsets[51] = max(offsets[51], offsets[50] + 1)
    offsets[51:] = np.maximum(offsets[51:], offsets[51])
    assert not alike(segments_of(host, x, offsets), wanted(x, offsets)), "the slow way is there for something"


@pytest.mark.slow(1)
@dtypes
def test_wrong_offsets(host: HostGpu, dtype: Any) -> None:
    rng = np.random.default_rng(6)
    n = 3000
    x = draw(rng, n, dtype, "normal")
    whole = np.sort(rng.integers(0, n, 200))
    for at, wrong in ((0, -5), (3, n + 10), (70, -(2**40)), (150, 2**40), (199, n + 1), (100, 0), (31, n)):
        offsets = whole.copy()
        offsets[at] = wrong
        found = segments_of(host, x, offsets, dtype=np.float64)
        for i in range(199):
            begin, end = int(offsets[i]), int(offsets[i + 1])
            right = tcu.fsum(x[begin:end], dtype="float64") if 0 <= begin <= end <= n else np.nan
            assert np.array_equal(found[i : i + 1], [right], equal_nan=True), (at, wrong, i)


PLANTED = {
    "low digits": (np.float16, "static_cast<int>(position % 16 * 8)", "128"),
    "leftover": (np.float64, "proved = whole && top", "proved = top"),
    "second part": (np.float32, "if (has_low) total.add(here.of[1] - there.of[1]);", ""),
    "nan": (np.float16, "proved &= window.proved;", ""),
    "total": (np.float64, "proved &= total.leftover == 0;", ""),
    "skip": (np.float32, "if (begin > data.asked) data.skip(begin);", ""),
    "odd": (np.float32, "(rest > 0) == (x > 0) ? 1 : -1", "0"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("planted", PLANTED)
def test_an_error_is_seen(host: HostGpu, planted: str) -> None:
    dtype, right, wrong = PLANTED[planted]
    rng = np.random.default_rng(5)
    target = dtype
    offsets = ragged(rng, 300, 60)
    x = rng.standard_normal(int(offsets[-1])).astype(dtype)
    if planted in ("leftover", "second part"):
        large = 2.0**60 if planted == "leftover" else 2.0**20
        x[1::40], x[21::40], x[::4] = large, -large, 1 / large
        target = np.float64
    elif planted == "nan":
        x[::90] = np.nan
    elif planted == "total":
        host.tuned |= {"long": 1 << 15}
        offsets = np.array([0, 2560])
        x = np.zeros(2560)  # each number in a window of its own
        x[[1, 600, 1100, 1600, 2100]] = 2.0**300, 1, 2.0**-70, -(2.0**300), -1
    elif planted == "skip":
        offsets = np.array([0, 10, 10_000, 10_100])
        x = rng.standard_normal(10_100).astype(dtype)
    elif planted == "odd":
        x = np.tile(np.array([1, 2.0**-24, 2.0**-80], dtype), 100)
        offsets = np.arange(0, 301, 3)
    expected = wanted(x, offsets, target)
    assert alike(segments_of(host, x, offsets, dtype=target), expected)
    host.changes = {"exact_segments.cu": {right: wrong}}
    try:
        seen = not alike(segments_of(host, x, offsets, dtype=target), expected)
    except (KernelFailed, AssertionError):
        seen = True
    assert seen
