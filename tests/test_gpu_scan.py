"""Contract of running sums on a GPU: every bit is the model's, whatever the layout, the stream, the run and the load.

Random shapes, axes, layouts, dtypes, directions and offsets, on numbers of all
kinds (``--scans`` says how many); every length around the borders of groups,
runs and the shares of a block; segments from none and empty ones to millions.
"""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from bits import same
from gpu_support import cases_of, gpu_or_skip, library_or_skip, shares, unit_or_skip
from numbers_of_all_kinds import draw
from random_layouts import random_layout, random_shape
from test_gpu_sums import to_gpu

import tcu
from tcu.errors import DtypeError, ParameterError
from tcu.gpu.configs import ScanConfig
from tcu.gpu.tuning import config
from tcu.plan import SCAN_VARIANTS

pytestmark = [
    pytest.mark.gpu,
    # PyTorch warns about itself, of what torch.compile imports.
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"),
]

DTYPES = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]
BY_MMAS = [name for name, row in SCAN_VARIANTS.items() if row.uses_mma]
DIRECTIONS = [(False, False), (True, False), (False, True), (True, True)]
REPETITIONS = 200

dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
every_direction = pytest.mark.parametrize(("exclusive", "reverse"), DIRECTIONS)


@pytest.fixture(scope="module", autouse=True)
def torch() -> Any:
    gpu_or_skip()
    return library_or_skip("torch")


def options_of(rng: Any) -> dict[str, Any]:
    target = [None, "float16", "bfloat16", "float32", "float64"][int(rng.integers(5))]
    return {"exclusive": bool(rng.integers(2)), "reverse": bool(rng.integers(2)), "dtype": target}


@shares
def test_random_scans(torch, request, share) -> None:
    rng = np.random.default_rng([21, share])
    for case in cases_of(share, request.config.getoption("--scans")):
        shape = random_shape(rng, case)
        x = draw(rng, math.prod(shape), DTYPES[case % 4]).reshape(shape)
        x, tensor = random_layout(rng, x, to_gpu(torch, x, int(rng.integers(9))))
        axis = None if case % 7 == 0 else int(rng.integers(-x.ndim, x.ndim))
        options = options_of(rng)
        expected = tcu.cumsum(x, axis, **options)
        if case % 3:
            same(tcu.cumsum(tensor, axis, **options), expected, case, x.shape, axis, options)
            continue
        out = to_gpu(torch, np.zeros(expected.shape, expected.dtype), int(rng.integers(9)))
        if case % 2:
            order = tuple(int(each) for each in rng.permutation(expected.ndim))
            wide = [expected.shape[each] for each in order]
            out = to_gpu(torch, np.zeros(wide, expected.dtype)).permute(*np.argsort(order).tolist())
        assert tcu.cumsum(tensor, axis, out=out, **options) is out
        same(out, expected, case, x.shape, axis, options)


@shares
def test_random_scans_by_mmas(torch, request, share) -> None:
    """Rows, columns, lines and ragged segments by every variant, of this GPU's unit."""
    gpu = gpu_or_skip()
    unit = unit_or_skip(gpu).name
    rng = np.random.default_rng([35, share])
    for case in cases_of(share, request.config.getoption("--scans")):
        variant = BY_MMAS[case % 4]
        dtype = DTYPES[case // 4 % 2] if gpu.compute_capability >= (8, 0) else np.float16
        way: dict[str, Any] = {"variant": variant}
        if variant != "scan-256" and case % 3:
            way["chain"] = int(rng.integers(1, 20))
        if dtype == np.float16 and case % 5 == 0:
            way["accumulator"] = "float16"
        options = {**options_of(rng), **way}
        if case % 2:
            lengths = random_lengths(rng, case)[:2000]
            offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
            x = draw(rng, int(offsets[-1]), dtype)
            edges = torch.from_numpy(offsets).cuda() if case % 4 == 1 else offsets
            found = tcu.segment_cumsum(to_gpu(torch, x, int(rng.integers(9))), edges, **options)
            same(found, tcu.segment_cumsum(x, offsets, unit=unit, **options), case, x.shape, options)
            continue
        shape = random_shape(rng, case)
        x = draw(rng, math.prod(shape), dtype).reshape(shape)
        x, tensor = random_layout(rng, x, to_gpu(torch, x, int(rng.integers(9))))
        axis = None if case % 7 == 0 else int(rng.integers(-x.ndim, x.ndim))
        expected = tcu.cumsum(x, axis, unit=unit, **options)
        same(tcu.cumsum(tensor, axis, **options), expected, case, x.shape, axis, options)


def test_another_unit_is_refused(torch) -> None:
    own = unit_or_skip(gpu_or_skip()).name
    other = "V100" if own != "V100" else "H100"
    x = to_gpu(torch, np.ones(40, np.float16))
    for call in (
        lambda: tcu.cumsum(x, variant="scan-16", unit=other),
        lambda: tcu.segment_cumsum(x, [0, 3, 40], variant="scan-16", unit=other),
    ):
        with pytest.raises(ParameterError, match=f"otherwise than {other}: pass a host array"):
            call()


@shares
def test_random_columns(torch, request, share) -> None:
    """Short and long ones, many and few, slim and wide rows with and without gaps, from any element on; in place, too."""
    rng = np.random.default_rng([32, share])
    for case in cases_of(share, request.config.getoption("--scans") // 4):
        outer, length, inner = [
            (int(rng.integers(1, 5)), int(rng.integers(1, 3000)), int(rng.integers(4, 300))),
            (1, int(rng.integers(1, 70)), int(rng.integers(16, 20_000))),
            (1, int(rng.integers(10_000, 60_000)), int(rng.integers(4, 70))),
            (int(rng.integers(1, 300)), int(rng.integers(1, 600)), int(rng.integers(4, 65))),
            (int(rng.integers(300, 5000)), int(rng.integers(1, 1000)), int(rng.integers(2, 9))),
            (int(rng.integers(1, 3)), int(rng.integers(10_000, 600_000)), int(rng.integers(2, 9))),
        ][case // 4 % 6]
        if case % 3 == 0 and inner > 8:
            inner = -(-inner // 8) * 8
        gap = 0 if inner < 9 else 8 * (case % 5 == 0) + (case % 7 == 0)
        x = draw(rng, outer * length * (inner + gap), DTYPES[case % 4]).reshape(outer, length, inner + gap)
        tensor, options = to_gpu(torch, x, int(rng.integers(9)) * (case % 2))[:, :, :inner], options_of(rng)
        if case % 6 == 1:
            options["dtype"], options["out"] = np.dtype(DTYPES[case % 4]).name, tensor
        found = tcu.cumsum(tensor, 1, **options)
        options.pop("out", None)
        same(found, tcu.cumsum(x[:, :, :inner], 1, **options), case, x.shape, gap, options)


def random_lengths(rng: Any, case: int) -> Any:
    count = int(rng.integers(0, 3000))
    if case % 50 == 5:
        return rng.integers(0, 3, (1 << 20) + int(rng.integers(1 << 20)))
    if case % 50 == 6:
        return rng.permutation([0, 1, 77, int(rng.integers(1 << 20, 1 << 21))])
    if case % 5 == 0:
        return rng.geometric(1 / rng.choice([1.5, 8, 64, 512]), count) - int(rng.integers(2))
    if case % 5 == 1:
        return np.minimum(rng.zipf(1.5, count), 200_000)
    if case % 5 == 2:
        return np.where(rng.random(count) < 0.9, 0, rng.integers(0, 5000, count))
    if case % 5 == 3:
        return rng.choice([0, 1, 7, 8, 9, 255, 256, 257, 1 << 13, (1 << 18) + 1], min(count, 40))
    return np.ones(count, np.int64)


@shares
def test_random_segments(torch, request, share) -> None:
    rng = np.random.default_rng([22, share])
    for case in cases_of(share, request.config.getoption("--scans") // 4):
        offsets = np.concatenate([[0], np.cumsum(random_lengths(rng, case), dtype=np.int64)])
        x = draw(rng, int(offsets[-1]), DTYPES[case % 4])
        tensor, options = to_gpu(torch, x, int(rng.integers(9))), options_of(rng)
        expected = tcu.segment_cumsum(x, offsets, **options)
        edges = [offsets, torch.from_numpy(offsets).cuda(), torch.from_numpy(offsets).int().cuda()][case % 3]
        found = tcu.segment_cumsum(tensor, edges, check=case % 2 == 0, **options)
        same(found, expected, case, offsets[:9], options)


@dtypes
@every_direction
def test_rows_of_every_short_length(torch, dtype, exclusive, reverse) -> None:
    rng = np.random.default_rng(23)
    group = 32 // np.dtype(dtype).itemsize
    borders = [
        n * group + d for n in (16, 31, 32, 33, 64, 128, 256, 512, 1023, 1024, 1025, 2048) for d in (-1, 0, 1)
    ]
    for n in [*range(1, 5 * group), *borders]:
        x = draw(rng, 37 * n, dtype).reshape(37, n)
        options = {"exclusive": exclusive, "reverse": reverse, "dtype": DTYPES[n % 4]}
        same(tcu.cumsum(to_gpu(torch, x, n % 3), -1, **options), tcu.cumsum(x, -1, **options), n)


@every_direction
def test_rows_of_chunks_each_of_one_warp(torch, exclusive, reverse) -> None:
    """As many rows as keep a GPU's warps busy: 61 of them, again and again."""
    rng = np.random.default_rng(31)
    count = (
        torch.cuda.get_device_properties(0).multi_processor_count
        * config(ScanConfig, (9, 0), "binary16").pieces[2]
        * 9
        // 10
    )
    options = {"exclusive": exclusive, "reverse": reverse, "dtype": np.float16}
    for n, kind in ((10_240, "normal"), (3 * 8192, "special")):
        few = draw(rng, 61 * n, np.float16, kind).reshape(61, n)
        expected = np.resize(tcu.cumsum(few, -1, **options), (count, n))
        same(tcu.cumsum(to_gpu(torch, np.resize(few, (count, n)), 0), -1, **options), expected, n, kind)


@dtypes
@every_direction
def test_long_lines(torch, dtype, exclusive, reverse) -> None:
    """Around runs of chunks of 512 groups, so that every level carries something."""
    rng = np.random.default_rng(24)
    chunk = 512 * 32 // np.dtype(dtype).itemsize
    for n in (
        2 * chunk - 1,
        31 * chunk,
        32 * chunk + 1,
        33 * chunk,
        1024 * chunk // 2 + 77,
        1056 * chunk + 5,
    ):
        x = draw(rng, n, dtype, "normal")
        options = {"exclusive": exclusive, "reverse": reverse}
        same(tcu.cumsum(to_gpu(torch, x, n % 2), **options), tcu.cumsum(x, **options), n)
    x = draw(rng, 7 * 40 * chunk, dtype, "spread").reshape(7, -1)
    same(tcu.cumsum(to_gpu(torch, x), 1, **options), tcu.cumsum(x, 1, **options))


def test_repeated_under_load(torch) -> None:
    """The blocks of a launch meet in another order each time; the bits do not know."""
    x = np.random.default_rng(25).standard_normal(20_000_001).astype(np.float32)
    offsets = np.unique(np.concatenate([[0, x.size], np.random.default_rng(1).integers(0, x.size, 100_000)]))
    tensor, rows = to_gpu(torch, x), to_gpu(torch, x[:20_000_000].reshape(200, -1))
    edges = torch.from_numpy(offsets).cuda()
    expected = tcu.cumsum(x), tcu.cumsum(x[:20_000_000].reshape(200, -1), 1), tcu.segment_cumsum(x, offsets)
    wanted = [to_gpu(torch, each).view(torch.int32) for each in expected]
    other, noise = torch.cuda.Stream(), torch.randn(4096, 4096, device="cuda")
    differ = torch.zeros((), dtype=torch.int64, device="cuda")
    for repetition in range(REPETITIONS):
        with torch.cuda.stream(other):
            for _ in range(repetition % 4):
                noise = (noise @ noise).clamp(-1, 1)
        found = tcu.cumsum(tensor), tcu.cumsum(rows, 1), tcu.segment_cumsum(tensor, edges, check=False)
        for each, right in zip(found, wanted, strict=True):
            differ += (each.view(torch.int32) != right).sum()
    assert differ.item() == 0


# Streams, graphs, outputs.


def test_on_every_stream(torch) -> None:
    x = np.random.default_rng(26).standard_normal(3_000_000).astype(np.float16)
    expected = tcu.cumsum(x)
    streams = [torch.cuda.Stream() for _ in range(4)]
    tensor = to_gpu(torch, x)
    torch.cuda.synchronize()
    found = []
    for _ in range(5):
        for stream in streams:
            with torch.cuda.stream(stream):
                found.append(tcu.cumsum(tensor))
    torch.cuda.synchronize()
    for each in found:
        same(each, expected)


def test_a_captured_graph(torch) -> None:
    x, rows = (
        torch.randn(3_000_000, device="cuda"),
        torch.randn(50, 40_000, device="cuda", dtype=torch.float16),
    )
    edges = torch.arange(0, 3_000_001, 30, device="cuda")

    def run() -> Any:
        return tcu.cumsum(x), tcu.cumsum(rows, 1, reverse=True), tcu.cumsum(rows, 0), tcu.segment_cumsum(
            x, edges, check=False
        )  # fmt: skip

    run()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = run()
    for _ in range(3):
        x.copy_(torch.randn_like(x))
        rows.copy_(torch.randn_like(rows))
        graph.replay()
        for found, expected in zip(results, run(), strict=True):
            same(found, expected)
    same(results[0], tcu.cumsum(x.cpu().numpy()))
    message = (
        "while a graph is captured, offsets cannot be looked at: check them before, and pass check=False"
    )
    with pytest.raises(ParameterError, match=message), torch.cuda.graph(torch.cuda.CUDAGraph()):
        tcu.segment_cumsum(x, edges)


@every_direction
def test_in_place(torch, exclusive, reverse) -> None:
    rng = np.random.default_rng(27)
    for dtype in DTYPES:
        options = {"exclusive": exclusive, "reverse": reverse, "dtype": np.dtype(dtype).name}
        for shape, axis in (((3_000_001,), 0), ((1000, 33), 1), ((1000, 33), 0), ((31, 40_003), 1)):
            x = draw(rng, math.prod(shape), dtype, "normal").reshape(shape)
            tensor = to_gpu(torch, x, int(rng.integers(3)))
            assert tcu.cumsum(tensor, axis, out=tensor, **options) is tensor
            same(tensor, tcu.cumsum(x, axis, **options), shape, axis)
        offsets = [0, 5, 5, 1_000_000, 3_000_001]
        x = draw(rng, 3_000_001, dtype, "normal")
        tensor = to_gpu(torch, x)
        tcu.segment_cumsum(tensor, offsets, out=tensor, **options)
        same(tensor, tcu.segment_cumsum(x, offsets, **options))
        room = to_gpu(torch, x)
        tcu.cumsum(room[:-1], out=room[1:], **options)
        same(room[1:], tcu.cumsum(x[:-1], **options))


def test_what_is_refused(torch) -> None:
    x = torch.ones(6, device="cuda")
    with pytest.raises(ParameterError, match="offsets end at 5, and x has 6 elements"):
        tcu.segment_cumsum(x, torch.tensor([0, 5], device="cuda"))
    with pytest.raises(ParameterError, match="offsets is on a GPU, x in the host's memory"):
        tcu.segment_cumsum(x.cpu(), torch.tensor([0, 6], device="cuda"))
    with pytest.raises(DtypeError, match="offsets has dtype float32"):
        tcu.segment_cumsum(x, torch.tensor([0.0, 6.0], device="cuda"))
    with pytest.raises(ParameterError, match=r"out has shape \(5,\)"):
        tcu.cumsum(x, out=torch.ones(5, device="cuda"))
    with pytest.raises(ParameterError, match="x is on cuda:0, out on cpu"):
        tcu.cumsum(x, out=torch.ones(6))


# Libraries.


def test_gradients_and_compiled_code(torch) -> None:
    x = torch.randn(40, 300, device="cuda", dtype=torch.float64, requires_grad=True)
    edges = torch.tensor([0, 100, 100, 12_000], device="cuda")
    for function in (
        lambda x: tcu.cumsum(x, 0, exclusive=True),
        lambda x: tcu.cumsum(x, 1, reverse=True),
        lambda x: tcu.segment_cumsum(x.reshape(-1), edges.to(x.device)),
    ):
        host = x.detach().cpu().requires_grad_()
        weights = torch.randn(function(host).shape, dtype=torch.float64)
        (expected,) = torch.autograd.grad((function(host) * weights).sum(), host)
        for each in (function, torch.compile(function, fullgraph=True)):
            (found,) = torch.autograd.grad((each(x) * weights.cuda()).sum(), x)
            same(found, expected.numpy())


def test_cupy_jax_and_numba(torch) -> None:
    x = np.random.default_rng(28).standard_normal((50, 300)).astype(np.float32)
    cupy = library_or_skip("cupy")
    for axis in (0, 1, None):
        found = tcu.cumsum(cupy.asarray(x), axis, reverse=True)
        assert isinstance(found, cupy.ndarray)
        same(found.get(), tcu.cumsum(x, axis, reverse=True))
        out = cupy.zeros(found.shape, np.float64)
        assert tcu.cumsum(cupy.asarray(x), axis, out=out) is out
        same(out.get(), tcu.cumsum(x, axis, dtype=np.float64))
    offsets = np.array([0, 7, 7, 15_000])
    for edges in (offsets, cupy.asarray(offsets), cupy.asarray(offsets.astype(np.int32))):
        found = tcu.segment_cumsum(cupy.asarray(x.reshape(-1)), edges)
        same(found.get(), tcu.segment_cumsum(x.reshape(-1), offsets))
    jax = library_or_skip("jax")
    for axis in (0, 1, None):
        same(np.asarray(tcu.cumsum(jax.numpy.asarray(x), axis)), tcu.cumsum(x, axis))
    found = tcu.segment_cumsum(jax.numpy.asarray(x.reshape(-1)), offsets)
    same(np.asarray(found), tcu.segment_cumsum(x.reshape(-1), offsets))
    same(np.asarray(tcu.cumsum(jax.numpy.asarray(x[:, :3]), 0)), tcu.cumsum(x[:, :3], 0))
    cuda = library_or_skip("numba.cuda")
    found = tcu.cumsum(cuda.to_device(x), 1)
    same(np.asarray(found.copy_to_host()), tcu.cumsum(x, 1))
