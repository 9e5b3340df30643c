"""Contract of ragged segments, and of exact sums along axes, on a GPU: every result has the bits that the model gives it.

Random offsets of every kind of length (empty, single numbers, beyond every
border between a lane, 64 bytes, a tile, a warp and blocks, the whole array), at
every misalignment, on numbers of all kinds (``--segments`` says how many): inf
and NaN stay in their segments.  What lies behind the array is never read as if
it were in it.
"""

from __future__ import annotations

import warnings
import zlib
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from bits import codes, same
from gpu_support import gpu_or_skip, library_or_skip, unit_or_skip
from numbers_of_all_kinds import KINDS, draw
from test_gpu_sums import to_gpu

import tcu
from tcu.errors import InvalidOperationError, ParameterError
from tcu.formats import format_of
from tcu.gpu import segments, tuning

pytestmark = pytest.mark.gpu

DTYPES = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]
dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
TARGETS = [None, None, "float16", "bfloat16", "float32", "float64"]
SEGMENTS: dict[str, Any] = {
    "sum": tcu.segment_sum, "mean": tcu.segment_mean, "fsum": tcu.segment_fsum, "fmean": tcu.segment_fmean,
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def torch() -> Any:
    unit_or_skip(gpu_or_skip())
    return library_or_skip("torch")


def offsets_of(lengths: Any) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def lengths_of(rng: np.random.Generator, case: int) -> Any:
    count = int(rng.integers(1, 400))
    kinds = (
        lambda: rng.geometric(1 / 8, 4 * count) - int(rng.integers(2)),
        lambda: rng.geometric(1 / 64, count),
        lambda: rng.geometric(1 / 512, count // 4 + 1),
        lambda: (rng.pareto(1.0, count) * 3).clip(0, 50_000).astype(int),
        lambda: np.where(rng.random(20 * count) < 0.02, rng.integers(1, 300, 20 * count), 0),
        lambda: rng.choice([0, 1, 7, 8, 9, 31, 32, 33, 255, 256, 257, 511, 512, 513, 1023, 1024, 1025, 2047, 2048, 2049, 4096, 4097, 8192, 8193], count),
        lambda: np.full(count, int(rng.integers(1, 100))),
        lambda: rng.choice([0, 3, 16383, 16384, 16385, 40_000, 70_000], 12),
        lambda: rng.permutation([0, 1, 500, int(rng.integers(1 << 20, 1 << 21))]),
    )  # fmt: skip
    return kinds[case % len(kinds)]()


def expected(name: str, x: np.ndarray, offsets: np.ndarray, dtype: Any) -> Any:
    """Of the model; sums of inf and -inf, which raise there, are NaN on a GPU."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if name in ("sum", "mean"):
            return codes(SEGMENTS[name](x, offsets, dtype=dtype, unit=gpu_or_skip().units[0].name))
        wide = x.astype(np.float64)
        both = np.isposinf(wide).astype(int), np.isneginf(wide).astype(int)
        seen = [np.diff(np.concatenate([[0], np.cumsum(each)])[offsets]) for each in both]
        clashing = np.repeat((seen[0] > 0) & (seen[1] > 0), np.diff(offsets))
        calm = np.where(np.isinf(wide) & clashing, x.dtype.type(np.nan), x)
        return codes(SEGMENTS[name](calm, offsets, dtype=dtype))


def check(torch: Any, name: str, x: np.ndarray, lengths: Any, shift: int, dtype: Any = None) -> None:
    offsets = offsets_of(lengths)
    wanted = expected(name, x, offsets, dtype)
    found = codes(SEGMENTS[name](to_gpu(torch, x, shift), torch.from_numpy(offsets).cuda(), dtype=dtype))
    wrong = np.flatnonzero(found != wanted)
    assert not wrong.size, (
        f"{name} of {x.dtype} to {dtype}, shift {shift}: {wrong.size} of {wanted.size} segments differ, first "
        f"{wrong[0]} of length {offsets[wrong[0] + 1] - offsets[wrong[0]]} from {offsets[wrong[0]]}: "
        f"{int(found[wrong[0]]):#x}, model {int(wanted[wrong[0]]):#x}"
    )


@pytest.mark.parametrize("name", SEGMENTS)
@dtypes
def test_segments_of_every_kind(torch, name, dtype, request) -> None:
    rng = np.random.default_rng(zlib.crc32(f"{name} {np.dtype(dtype).name}".encode()))
    for case in range(request.config.getoption("--segments")):
        lengths = lengths_of(rng, case)
        x = draw(rng, int(np.sum(lengths)), dtype, list(KINDS)[case % len(KINDS)])
        check(torch, name, x, lengths, int(rng.integers(9)), TARGETS[int(rng.integers(len(TARGETS)))])


@dtypes
def test_every_length_at_every_misalignment(torch, dtype) -> None:
    rng = np.random.default_rng(1)
    for shift in range(16 // np.dtype(dtype).itemsize):
        lengths = rng.permutation([*range(70), *range(250, 262), *range(505, 520), 1024, 1025, 2048, 2049])
        x = draw(rng, int(lengths.sum()), dtype, "spread")
        for name in ("sum", "fsum"):
            check(torch, name, x, lengths, shift)


@dtypes
def test_so_many_segments_that_a_warp_takes_32_at_a_time(torch, dtype) -> None:
    rng = np.random.default_rng(9)
    for mean in (2, 8, 60):
        lengths = rng.geometric(1 / (mean + 1), 600_000) - 1
        check(torch, "sum", draw(rng, int(lengths.sum()), dtype, "spread"), lengths, mean % 3)


MAGNITUDES: dict[str, Any] = {
    "below 4": lambda rng, n: rng.uniform(-4, 4, n),
    "all above 4": lambda rng, n: rng.normal(0, 64, n).round() + np.where(rng.random(n) < 0.5, 300, -300),
    "counts": lambda rng, n: rng.integers(0, 256, n),
    "sixteenfold": lambda rng, n: rng.standard_normal(n).astype(np.float16) * 16.0,
    "a few large": lambda rng, n: np.where(rng.random(n) < 0.001, 30_000, rng.standard_normal(n)),
    "large and tiny": lambda rng, n: np.where(rng.random(n) < 0.001, 60_000, rng.standard_normal(n) * 2.0**-20),
    "growing and falling": lambda rng, n: rng.standard_normal(n) * 2.0 ** (8 * np.sin(np.arange(n) / 700)),
    "a few NaN and inf": lambda rng, n: np.where(rng.random(n) < 0.002, rng.choice([np.nan, np.inf], n), rng.normal(size=n)),
    "-0": lambda rng, n: np.where(rng.random(n) < 0.7, -0.0, rng.standard_normal(n)),
}  # fmt: skip
"""What decides in which unit running sums are taken, and where there can be none."""


def power_law(rng: np.random.Generator, count: int, longest: int) -> Any:
    return np.minimum((1 - rng.random(count)) ** (-1 / 0.75), longest).astype(np.int64)


@dtypes
def test_lengths_by_a_power_law(torch, dtype) -> None:
    """A warp takes 32 at a time, long ones among them that it leaves out, in windows that are longer than its ring."""
    rng = np.random.default_rng(10)
    count = 300_000
    lengths = power_law(rng, count, 1 << 17)
    some = np.where(rng.random(count) < 0.01, rng.integers(1500, 2500, count), lengths.clip(max=200))
    for shift, lot in enumerate((lengths, some)):
        check(torch, "sum", draw(rng, int(lot.sum()), dtype, "spread"), lot, shift)


@dtypes
def test_long_segments_that_are_listed_ahead(torch, dtype, monkeypatch) -> None:
    """Four launches that overlap: alone, on several streams beside other work, and in a captured graph."""

    def config(*given: Any) -> Any:
        found = tuning.config(*given)
        return replace(found, listed=0) if hasattr(found, "listed") else found

    monkeypatch.setattr(segments, "config", config)
    rng = np.random.default_rng(11)
    lengths = power_law(rng, 100_000, 1 << 19)
    x = draw(rng, int(lengths.sum()), dtype, "spread")
    check(torch, "sum", x, lengths, 1)
    check(torch, "mean", x, lengths, 0)
    tensor, offsets = to_gpu(torch, x, 1), torch.from_numpy(offsets_of(lengths)).cuda()
    wanted = codes(tcu.segment_sum(tensor, offsets))
    streams = [torch.cuda.Stream() for _ in range(3)]
    load = torch.randn(4096, 4096, device="cuda")
    torch.cuda.synchronize()
    found = []
    for turn in range(60):
        with torch.cuda.stream(streams[turn % 3]):
            if turn % 4 == 0:
                load @ load
            found.append(tcu.segment_sum(tensor, offsets, check=False))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = [tcu.segment_sum(tensor, offsets, check=False) for _ in range(3)]
    for _ in range(5):
        for each in captured:
            each.zero_()
        graph.replay()
        found += [each.clone() for each in captured]
    torch.cuda.synchronize()
    assert all(np.array_equal(codes(each), wanted) for each in found)


@pytest.mark.parametrize("kind", MAGNITUDES)
def test_short_segments_of_every_magnitude(torch, kind) -> None:
    """Of binary16, where sums come from running sums: every border of 64-byte chunks, windows and the ring among short ones."""
    rng = np.random.default_rng(len(kind))
    borders = [31, 32, 33, 63, 64, 65, 128, 129, 256, 511, 512, 513, 1500, 1533, 2048, 2049]
    for mean in (1, 2, 5, 8, 12, 16, 19):
        lengths = rng.geometric(1 / (mean + 1), 20_000) - 1
        lengths[rng.integers(0, lengths.size, 16)] = borders
        lengths[5000:5100] = 0
        x = MAGNITUDES[kind](rng, int(lengths.sum())).astype(np.float16)
        for name, dtype in (("sum", None), ("sum", "float64"), ("mean", None)):
            check(torch, name, x, lengths, mean % 8, dtype)


@dtypes
def test_one_segment_and_a_million_empty_ones(torch, dtype) -> None:
    rng = np.random.default_rng(2)
    for length in (1, 40_000, 3_000_001):
        x = draw(rng, length, dtype, "normal")
        for name in SEGMENTS:
            check(torch, name, x, [length], length % 2)
    for where in (0, 500_000, 1_000_000):
        lengths = np.zeros(1_000_001, np.int64)
        lengths[where] = 777
        for name in SEGMENTS:
            check(torch, name, draw(rng, 777, dtype, "normal"), lengths, 1)


def test_neighbours_do_not_matter(torch) -> None:
    """inf and NaN between the numbers of short segments, whose sums share an MMA."""
    rng = np.random.default_rng(3)
    for dtype in (np.float16, ml_dtypes.bfloat16):
        for share in (0.001, 0.05, 0.9):
            lengths = rng.geometric(1 / 5, 3000)
            x = rng.standard_normal(int(lengths.sum())).astype(dtype)
            special = rng.choice(np.array([np.inf, -np.inf, np.nan], dtype), x.size)
            check(torch, "sum", np.where(rng.random(x.size) < share, special, x), lengths, 3)


def test_numbers_behind_the_array_are_not_read(torch) -> None:
    memory = torch.full((4096,), float("nan"), device="cuda", dtype=torch.float16)
    for n in (1, 5, 8, 9, 31, 300, 2048, 2050, 4000):
        for first in (0, 3, 8):
            x = memory[first : first + n]
            x.fill_(1)
            assert tcu.segment_sum(x, torch.tensor([0, n // 2, n], device="cuda")).tolist() == [
                n // 2,
                n - n // 2,
            ]
            assert tcu.segment_fsum(x, torch.tensor([0, n // 3, n], device="cuda")).tolist() == [
                n // 3,
                n - n // 3,
            ]
            x.fill_(float("nan"))


@dtypes
def test_exact_sums_along_axes(torch, dtype) -> None:
    rng = np.random.default_rng(4)
    for case in range(40):
        length = int(
            rng.choice([0, 1, 3, 8, 9, 30, 64, 100, 300, 1000, 5000, 70_000], p=[0.05] + 10 * [0.09] + [0.05])
        )
        rows = int(rng.integers(1, 200_000 // (length + 100) + 2))
        kind = [kind for kind in KINDS if kind not in ("special", "any code")][case % 9]
        x = draw(rng, rows * length, dtype, kind).reshape(rows, length)
        tensor = to_gpu(torch, x, int(rng.integers(3)))
        target = TARGETS[int(rng.integers(len(TARGETS)))]
        for function in (tcu.fsum, tcu.fmean):
            for axis in (0, 1, (0, 1)):
                found = codes(function(tensor, axis=axis, dtype=target))
                assert np.array_equal(found, codes(function(x, axis=axis, dtype=target))), (
                    x.shape,
                    kind,
                    axis,
                    target,
                )
    x = np.array([[np.inf, -np.inf], [np.nan, 1], [np.inf, 1], [-np.inf, 1]]).astype(dtype)
    with pytest.raises(InvalidOperationError):
        tcu.fsum(x, axis=1)
    found = tcu.fsum(to_gpu(torch, x), axis=1)
    nan = format_of(np.dtype(str(found.dtype).removeprefix("torch."))).nan_code
    assert codes(found).tolist()[:2] == [nan, nan]
    assert found.tolist()[2:] == [np.inf, -np.inf]


def test_offsets_that_are_wrong(torch) -> None:
    x = torch.ones(100, device="cuda", dtype=torch.float16)
    for wrong in ([0, 50, 40, 100], [0, 200], [-5, 100], [0, 1 << 40, 100], [7, 3]):
        offsets = torch.tensor(wrong, device="cuda")
        with pytest.raises(ParameterError, match="offsets"):
            tcu.segment_sum(x, offsets)
        for name, function in SEGMENTS.items():
            sums = function(x, offsets, check=False).tolist()
            for a, b, found in zip(wrong[:-1], wrong[1:], sums, strict=True):
                if 0 <= a <= b <= 100:
                    assert found == (1 if "mean" in name else b - a)
                else:
                    assert found != found, (wrong, name)


def test_options_out_libraries_and_offsets_anywhere(torch) -> None:
    rng = np.random.default_rng(5)
    lengths = rng.geometric(1 / 300, 200)
    offsets = offsets_of(lengths)
    x = draw(rng, int(offsets[-1]), np.float16, "normal")
    tensor, edges = to_gpu(torch, x), torch.from_numpy(offsets).cuda()
    unit = gpu_or_skip().units[0].name
    short = {"variant": "short-chain"}
    for options in (
        {**short, "chain": 3},
        {"block": 64},
        {**short, "chain": 2, "block": 1024, "dtype": "float64"},
    ):
        wanted = codes(tcu.segment_sum(x, offsets, unit=unit, **options))
        assert np.array_equal(codes(tcu.segment_sum(tensor, edges, **options)), wanted), options
    wanted = codes(tcu.segment_sum(x, offsets, unit=unit))
    for other in (edges.int(), offsets, offsets.tolist(), edges.repeat_interleave(2)[::2]):
        assert np.array_equal(codes(tcu.segment_sum(tensor, other)), wanted)
    out = torch.empty(200, device="cuda")
    assert tcu.segment_sum(tensor, edges, out=out) is out
    assert np.array_equal(codes(out), wanted)
    gaps = torch.stack([tensor, tensor], 1)[:, 0]
    assert np.array_equal(codes(tcu.segment_sum(gaps, edges)), wanted)
    cupy = library_or_skip("cupy")
    found = tcu.segment_sum(cupy.asarray(x), cupy.asarray(offsets))
    assert isinstance(found, cupy.ndarray)
    assert np.array_equal(codes(found.get()), wanted)
    assert np.array_equal(cupy.asnumpy(tcu.fsum(cupy.asarray(x[:6000].reshape(60, 100)), axis=0)), tcu.fsum(x[:6000].reshape(60, 100), axis=0))  # fmt: skip


def test_jax(torch) -> None:
    jax = library_or_skip("jax")
    x = np.random.default_rng(6).standard_normal(5000).astype(np.float32)
    offsets = np.array([0, 10, 10, 3000, 5000], np.int32)
    found = tcu.segment_sum(jax.numpy.asarray(x), jax.numpy.asarray(offsets))
    assert np.array_equal(np.asarray(found), tcu.segment_sum(x, offsets))


def test_gradients_and_a_captured_graph(torch) -> None:
    x = torch.randn(100_000, device="cuda", requires_grad=True)
    offsets = torch.tensor([0, 10, 10, 50_000, 100_000], device="cuda")
    (tcu.segment_mean(x, offsets)[[0, 2, 3]] * torch.tensor([1.0, 2, 3], device="cuda")).sum().backward()
    assert torch.equal(x.grad[[0, 10, 99_999]], torch.tensor([0.1, 2 / 49_990, 3 / 50_000], device="cuda"))
    plain = x.detach().clone()
    tcu.segment_sum(plain, offsets, check=False)
    tcu.segment_fsum(plain, offsets, check=False)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        sums = tcu.segment_sum(plain, offsets, check=False)
        exact = tcu.segment_fsum(plain, offsets, check=False)
    for _ in range(3):
        plain.copy_(torch.randn(100_000, device="cuda"))
        graph.replay()
        same(sums, tcu.segment_sum(plain, offsets))
        same(exact, tcu.segment_fsum(plain, offsets))


def test_repetitions_on_several_streams_give_the_same_bits(torch) -> None:
    rng = np.random.default_rng(8)
    lengths = np.concatenate([lengths_of(rng, case) for case in range(8)])
    x = to_gpu(torch, draw(rng, int(lengths.sum()), ml_dtypes.bfloat16, "spread"), 3)
    offsets = torch.from_numpy(offsets_of(lengths)).cuda()
    wanted = [codes(function(x, offsets)) for function in SEGMENTS.values()]
    torch.cuda.synchronize()
    streams = [torch.cuda.Stream() for _ in range(4)]
    load = torch.randn(4096, 4096, device="cuda")
    results = []
    for turn in range(200):
        with torch.cuda.stream(streams[turn % 4]):
            if turn % 3 == 0:
                load @ load
            results.append([function(x, offsets, check=False) for function in SEGMENTS.values()])
    torch.cuda.synchronize()
    for each in results:
        for found, one in zip(each, wanted, strict=True):
            assert np.array_equal(codes(found), one)
