"""Contract of sums on a GPU: the model's bits, whatever the array's place, the stream and the launch.

Random cases of every dtype, operation, R, B, size, alignment and stride, on
numbers of all kinds; the kinds on which exact sums must give up their fast
way; repetitions under load; every launch configuration.  The checker itself
is tried with a planted difference.
"""

from __future__ import annotations

import math
import threading
import zlib
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from gpu_support import gpu_or_skip, library_or_skip, unit_or_skip
from numbers_of_all_kinds import KINDS, draw
from patience import HANGS

import tcu
from tcu.errors import DtypeError, InvalidOperationError, ParameterError, ShapeError
from tcu.formats import format_of
from tcu.gpu import device
from tcu.ops import find_operation

pytestmark = pytest.mark.gpu

DTYPES = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]
CHAINS_AND_BLOCKS = [(1, 256), (1, 32), (2, 64), (3, 96), (8, 1024), (5, 160)]
SIZES = [0, 1, 2, 7, 8, 9, 31, 127, 255, 256, 257, 1021, 4096, 16383, 16384, 16385, 65537, 131071, 262144]


@pytest.fixture(scope="module", autouse=True)
def torch() -> Any:
    unit_or_skip(gpu_or_skip())
    return library_or_skip("torch")


def to_gpu(torch: Any, x: npt.NDArray[Any], offset: int = 0) -> Any:
    """A tensor with the same bits, ``offset`` elements past an aligned address."""
    code = {2: np.int16, 4: np.int32, 8: np.int64}[x.itemsize]
    room = torch.zeros(x.size + offset, dtype=getattr(torch, np.dtype(code).name), device="cuda")
    place = room[offset:]
    place.copy_(torch.from_numpy(np.ascontiguousarray(x).reshape(-1).view(code).copy()))
    return place.view(getattr(torch, x.dtype.name)).reshape(x.shape)


def bits(result: Any) -> int:
    if isinstance(result, np.generic):
        return int(np.array([result]).view(format_of(result.dtype).code_dtype)[0])
    host = result.detach().cpu().reshape(1)
    raw = host.view({2: library_or_skip("torch").int16, 4: library_or_skip("torch").int32}.get(
        host.element_size(), library_or_skip("torch").int64))  # fmt: skip
    return int(raw.item()) & ((1 << (8 * host.element_size())) - 1)


def random_size(rng: np.random.Generator, case: int) -> int:
    if case % 50 == 7:
        return int(rng.integers(1 << 20, 1 << 22))
    return int(rng.choice(SIZES)) if case % 3 else int(rng.integers(0, 40000))


OPERATIONS: dict[str, Any] = {
    "sum": tcu.sum, "mean": tcu.mean, "dot": tcu.dot, "norm": tcu.norm, "fsum": tcu.fsum, "fmean": tcu.fmean,
    "fdot": tcu.fdot, "fnorm": tcu.fnorm,
}  # fmt: skip
TARGETS = [None, np.float16, ml_dtypes.bfloat16, np.float32, np.float64]


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_a_gpu_returns_the_bits_of_the_model(torch, operation, dtype, request) -> None:
    rng = np.random.default_rng(zlib.crc32(f"{operation} {np.dtype(dtype).name}".encode()))
    unit = gpu_or_skip().units[0].name
    for case in range(request.config.getoption("--sums")):
        n = random_size(rng, case)
        x, target = draw(rng, n, dtype), TARGETS[int(rng.integers(len(TARGETS)))]
        options: dict[str, Any] = {"dtype": target}
        host: dict[str, Any] = {}
        chain, block = CHAINS_AND_BLOCKS[int(rng.integers(len(CHAINS_AND_BLOCKS)))]
        if operation in ("sum", "mean", "dot", "norm"):
            options["block"] = block
        if operation in ("sum", "mean"):
            if x.itemsize == 2 and case % 2:
                options |= {"variant": "short-chain", "chain": chain}
            host["unit"] = unit
        arrays = [x, draw(rng, n, dtype)] if len(find_operation(operation).operands) == 2 else [x]
        tensors = [to_gpu(torch, one, int(rng.choice([0, 0, 1, 3, 8]))) for one in arrays]
        if n > 1 and rng.random() < 0.25:  # strided, in two dimensions
            step = int(rng.choice([2, 3]))
            tensors = [tensor[: n // step * step].reshape(-1, step).T for tensor in tensors]
            arrays = [one[: n // step * step].reshape(-1, step).T for one in arrays]
        with np.errstate(all="ignore"):
            try:
                expected = bits(OPERATIONS[operation](*arrays, **options, **host))
            except InvalidOperationError:  # inf and -inf: a GPU, which is not waited for, returns NaN
                expected = None
        result = OPERATIONS[operation](*tensors, **options)
        if expected is None:
            assert math.isnan(float(result)), (case, n, options)
            continue
        assert bits(result) == expected, (case, n, options, [t.stride() for t in tensors])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_exact_sums_of_large_arrays_of_every_kind(torch, dtype, kind) -> None:
    """Long enough that every warp goes its fast way, fails it, or counts number by number."""
    x = draw(np.random.default_rng(3), (1 << 21) + 77, dtype, kind)
    mine = tcu.ExactSum().add(to_gpu(torch, x))
    theirs = tcu.ExactSum().add(x)
    assert mine == theirs
    assert mine.merge(theirs) == tcu.ExactSum().add(x).add(x)


def same(torch: Any, operation: str, *arrays: npt.NDArray[Any], dtype: Any = None) -> None:
    """The GPU's bits are the CPU's; NaN where the CPU says that there is no value."""
    result = OPERATIONS[operation](*(to_gpu(torch, x) for x in arrays), dtype=dtype)
    try:
        expected = bits(OPERATIONS[operation](*arrays, dtype=dtype))
    except InvalidOperationError:
        assert math.isnan(float(result))
    else:
        assert bits(result) == expected


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_exact_products_of_large_arrays_of_every_kind(torch, dtype, kind) -> None:
    """Long enough for the fast way; what two arrays cancel to shows the last bit of every product."""
    rng = np.random.default_rng(4)
    x, y = draw(rng, (1 << 20) + 77, dtype, kind), draw(rng, (1 << 20) + 77, dtype, kind)
    with np.errstate(all="ignore"):
        for target in (None, np.float16):
            same(torch, "fdot", x, y, dtype=target)
            same(torch, "fnorm", x, dtype=target)
        few = x[:1000]
        few = few[np.isfinite(few)]
        same(torch, "fdot", np.concatenate([x, x, few]), np.concatenate([y, -y, few]), dtype=np.float64)


@pytest.mark.parametrize("count", [1, 3, 5000])
def test_products_beyond_both_ends_of_binary64(torch, count) -> None:
    big, tiny = np.finfo(np.float64).max, 5e-324
    for pairs in (
        [(1e300, 1e300), (-1e300, 1e300), (tiny, 1.0)], [(big, big), (1.0, tiny), (-big, big)],
        [(big, big), (big, -big), (tiny, tiny), (1e-200, 1e-200)], [(tiny, tiny)], [(tiny, -tiny)], [(big, big)],
        [(big, -1.0), (-big, 1.0)], [(tiny, 0.25)], [(tiny, 0.0), (-0.0, 3.0)], [(1e-160, 1e-160), (1e-155, 1e-155)],
        [(1 + 2.0**-52, 1 + 2.0**-52), (-1.0, 1.0), (-(2.0**-51), 1.0)], [(2.0**-484, 1 + 2.0**-52)],
        [(1 + 2.0**-52, (1 + 2.0**-52) * 2.0**-968), (-1.0, 2.0**-968)],
        [(1 + 2.0**-52, (1 + 2.0**-52) * 2.0**-969), (-1.0, 2.0**-969)],
        [(math.inf, 0.0)], [(math.inf, tiny)], [(math.inf, -tiny), (big, big)], [(math.inf, 1.0), (-math.inf, 1.0)],
        [(math.nan, math.inf)], [(math.nan, 0.0), (1.0, 1.0)],
    ):  # fmt: skip
        x, y = np.array(pairs * count).T.copy()
        for target in DTYPES:
            same(torch, "fdot", x, y, dtype=target)
            same(torch, "fnorm", x, dtype=target)
            same(torch, "fnorm", y, dtype=target)


def test_roots_next_to_ties_are_rounded_once(torch) -> None:
    """Squares of numbers halfway between two of the result's format, and a little more or less."""
    rng = np.random.default_rng(8)
    for target, last in ((np.float16, -11), (ml_dtypes.bfloat16, -8), (np.float32, -24)):
        for _ in range(20):
            halfway = 1 + 2.0**last + int(rng.integers(0, 100)) * 2.0 ** (last + 1)
            for more in (0.0, 2.0**-60, 5e-324):
                same(
                    torch, "fnorm", np.array([halfway, more]) * 2.0 ** int(rng.integers(-9, 9)), dtype=target
                )
    x = np.array([3.0, 4.0, 5e-324])
    for scale in (2.0**1020, 1.0, 2.0**-1070):
        same(torch, "fnorm", x * scale)


def test_numbers_of_opposite_ends(torch) -> None:
    """1e300 and its like beside numbers that a window of bits cannot hold at the same time."""
    x = np.array([1e300, 1.0, -1e300, 1e-300, 5e-324, -1.0] * 5000)
    assert bits(tcu.fsum(to_gpu(torch, x))) == bits(tcu.fsum(x))


def test_a_planted_difference_is_seen(torch) -> None:
    x = np.random.default_rng(0).standard_normal(5000).astype(np.float32)
    y = x.copy()
    y[4321] = np.nextafter(y[4321], np.float32(np.inf))
    assert tcu.ExactSum().add(to_gpu(torch, x)) != tcu.ExactSum().add(y)
    assert bits(tcu.sum(to_gpu(torch, x), dtype=np.float64)) != bits(tcu.sum(y, dtype=np.float64))
    z = np.ones(5000, np.float32)
    assert bits(tcu.fdot(to_gpu(torch, x), to_gpu(torch, z))) == bits(tcu.fdot(x, z))
    assert bits(tcu.fdot(to_gpu(torch, x), to_gpu(torch, z), dtype=np.float64)) != bits(
        tcu.fdot(y, z, dtype=np.float64)
    )


def test_a_large_array(torch) -> None:
    x = draw(np.random.default_rng(5), 1 << 24, np.float16, "normal")
    unit = gpu_or_skip().units[0].name
    assert bits(tcu.sum(to_gpu(torch, x))) == bits(tcu.sum(x, unit=unit))
    assert bits(tcu.fsum(to_gpu(torch, x))) == bits(tcu.fsum(x))


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_200_repetitions_under_load(torch, dtype) -> None:
    """Beside a kernel that keeps the GPU busy, so that blocks come and go in another order each time."""
    x = to_gpu(torch, draw(np.random.default_rng(1), 1_234_567, dtype, "normal"))
    y = torch.randn(4096, 4096, device="cuda")
    busy = torch.cuda.Stream()
    sums, exact = [], []
    for i in range(200):
        with torch.cuda.stream(busy):
            y = torch.tanh(y @ y) if i % 3 else torch.tanh(y)
        sums.append(tcu.sum(x))
        exact.append(tcu.fsum(x))
    torch.cuda.synchronize()
    assert len({bits(result) for result in sums}) == 1
    assert len({bits(result) for result in exact}) == 1


def test_streams_have_their_own_memory(torch) -> None:
    """Eight streams at once, none of which waits for another."""
    arrays = [
        to_gpu(torch, draw(np.random.default_rng(i), 300_000 + i, np.float16, "normal")) for i in range(8)
    ]
    expected = [(bits(tcu.sum(x)), bits(tcu.fsum(x))) for x in arrays]
    streams = [torch.cuda.Stream() for _ in arrays]
    torch.cuda.synchronize()
    results: list[list[Any]] = [[] for _ in arrays]
    for _ in range(20):
        for x, stream, mine in zip(arrays, streams, results, strict=True):
            with torch.cuda.stream(stream):
                mine.append((tcu.sum(x), tcu.fsum(x)))
    torch.cuda.synchronize()
    for mine, pair in zip(results, expected, strict=True):
        assert {(bits(a), bits(b)) for a, b in mine} == {pair}


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_a_launch_configuration_changes_no_bits(torch, dtype, monkeypatch) -> None:
    from tcu.engines.cuda import sums as device_sums
    from tcu.gpu import sums
    from tcu.gpu.tuning import ExactConfig, SumConfig
    from tcu.surfaces.torch import launch_cache

    def forget() -> None:
        """What was prepared, which a tensor finds by its call and everything else by its kind."""
        launch_cache._calls.clear()
        device_sums.prepare.cache_clear()

    def chosen(unroll: int, resident: int) -> SumConfig:
        asked.add((unroll, resident))
        return SumConfig(unroll, resident)

    asked: set[tuple[int, int]] = set()
    x = to_gpu(torch, draw(np.random.default_rng(2), 777_777, dtype, "spread"), 1)
    both = set()
    for unroll in (1, 2, 4, 8):
        for resident in (1, 4, 8):
            for loads in (8, 64):
                exact = ExactConfig(256, unroll, min(resident, 4), loads)
                monkeypatch.setattr(sums, "sum_config", lambda *_, u=unroll, r=resident: chosen(u, r))
                monkeypatch.setattr(sums, "exact_config", lambda *_, config=exact: config)
                forget()
                both.add((bits(tcu.sum(x)), bits(tcu.fsum(x)), bits(tcu.fdot(x, x)), bits(tcu.fnorm(x))))
    forget()
    assert len(both) == 1
    assert asked == {(unroll, resident) for unroll in (1, 2, 4, 8) for resident in (1, 4, 8)}


def test_results_stay_on_the_gpu_and_nothing_waits(torch) -> None:
    x = torch.randn(100_000, device="cuda")
    y = x.to(torch.float16)
    calls = [
        lambda: tcu.sum(x), lambda: tcu.sum(y), lambda: tcu.fsum(x), lambda: tcu.mean(y), lambda: tcu.dot(x, x),
        lambda: tcu.norm(x), lambda: tcu.fmean(y), lambda: tcu.fdot(x, x), lambda: tcu.fnorm(y),
    ]  # fmt: skip
    for call in calls:
        call()  # compiles and allocates
    torch.cuda.synchronize()
    gate, behind = torch.zeros(1, dtype=torch.int32).pin_memory(), torch.cuda.Event()
    device.call("cuStreamWaitValue32", torch.cuda.current_stream().cuda_stream, gate.data_ptr(), 1, 0)
    behind.record()
    given_up = threading.Timer(HANGS, gate.fill_, (1,))  # lets a call go on that waits
    given_up.start()
    try:
        results = [call() for call in calls]
        assert not behind.query(), "a call waited for the GPU"
    finally:
        given_up.cancel()
        gate.fill_(1)
    for result in results:
        assert (result.device.type, result.shape) == ("cuda", torch.Size([]))


def test_out_takes_the_result(torch) -> None:
    x = torch.randn(1000, device="cuda")
    out = torch.empty((), dtype=torch.float64, device="cuda")
    assert tcu.sum(x, out=out) is out
    assert out.item() == tcu.sum(x, dtype=np.float64).item()
    assert tcu.fsum(x, out=out) is out
    assert tcu.fdot(x, x, out=out) is out
    assert tcu.fnorm(x, out=out) is out
    assert out.item() == tcu.fnorm(x, dtype=np.float64).item()
    with pytest.raises(ParameterError, match=r"out has shape \(2,\)"):
        tcu.sum(x, out=torch.empty(2, device="cuda"))
    with pytest.raises(ParameterError, match="out is a ndarray, x a tensor"):
        tcu.sum(x, out=np.empty((), np.float32))


def test_info_says_how_the_sum_came_about(torch) -> None:
    x = torch.randn(1000, device="cuda").to(torch.float16)
    result, info = tcu.sum(x, return_info=True)
    assert (info.bits, info.unit) == (bits(result), gpu_or_skip().units[0].name)
    result, dot = tcu.dot(x, x, return_info=True)
    assert dot.bits == bits(result)
    seen: list[int] = []
    tcu.sum(x, progress=seen.append)
    assert seen == [1000]


def test_errors(torch) -> None:
    x = torch.randn(1000, device="cuda")
    with pytest.raises(DtypeError, match=r"x has dtype torch\.int32"):
        tcu.norm(x.to(torch.int32))
    with pytest.raises(ShapeError, match=r"x has shape \(1000,\) and y \(999,\)"):
        tcu.dot(x, x[1:])
    with pytest.raises(DtypeError, match=r"x has dtype torch\.float32 and y torch\.float16"):
        tcu.dot(x, x.half())
    with pytest.raises(ParameterError, match=r"computes .* otherwise than V100"):
        tcu.sum(x.half(), unit="V100", variant="short-chain")
    assert bits(tcu.sum(x, unit="H100")) == bits(tcu.sum(x))  # no MMA, so any unit


@pytest.mark.parametrize("name", ["cupy", "jax", "numba.cuda"])
def test_the_same_kind_comes_back(torch, name) -> None:
    library = library_or_skip(name)
    x = np.random.default_rng(0).standard_normal(10_000).astype(np.float32)
    array = {"cupy": lambda: library.asarray(x), "jax": lambda: library.numpy.asarray(x),
             "numba.cuda": lambda: library.to_device(x)}[name]()  # fmt: skip
    for function in (tcu.sum, tcu.fsum, tcu.mean, tcu.norm, tcu.fnorm):
        result = function(array)
        assert type(result).__module__.partition(".")[0] == type(array).__module__.partition(".")[0]
        value = result.copy_to_host() if name == "numba.cuda" else result
        assert float(value) == float(function(x))
    assert tcu.ExactSum().add(array) == tcu.ExactSum().add(x)
    if name == "numba.cuda":
        strided = array[::3]
        assert float(tcu.sum(strided).copy_to_host()) == float(tcu.sum(x[::3]))
    elif name == "cupy":
        assert float(tcu.sum(array[::-1][3:].reshape(-1, 1))) == float(tcu.sum(x[::-1][3:]))


def test_a_captured_graph_sums_what_the_array_holds_at_replay(torch) -> None:
    x = torch.zeros(500_000, dtype=torch.float16, device="cuda")
    tcu.sum(x), tcu.fsum(x), tcu.fdot(x, x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        a, b, c = tcu.sum(x), tcu.fsum(x), tcu.fdot(x, x)
    for seed in range(5):
        host = draw(np.random.default_rng(seed), 500_000, np.float16, "normal")
        x.copy_(to_gpu(torch, host))
        graph.replay()
        assert (bits(a), bits(b), bits(c)) == (bits(tcu.sum(x)), bits(tcu.fsum(x)), bits(tcu.fdot(x, x)))


def test_two_captured_graphs_may_run_at_once(torch) -> None:
    arrays = [
        to_gpu(torch, draw(np.random.default_rng(i), 2_000_000, np.float16, "normal")) for i in range(2)
    ]
    expected = [(bits(tcu.sum(x)), bits(tcu.fsum(x))) for x in arrays]
    graphs, results = [], []
    for x in arrays:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            results.append([(tcu.sum(x), tcu.fsum(x)) for _ in range(10)])
        graphs.append(graph)
    streams = [torch.cuda.Stream() for _ in graphs]
    for _ in range(10):
        for graph, stream in zip(graphs, streams, strict=True):
            with torch.cuda.stream(stream):
                graph.replay()
        torch.cuda.synchronize()
        for mine, pair in zip(results, expected, strict=True):
            assert {(bits(a), bits(b)) for a, b in mine} == {pair}


def test_a_large_problem_does_not_disturb_a_small_one(torch) -> None:
    """The memory that blocks share grows, and is left as it was found."""
    small = to_gpu(torch, draw(np.random.default_rng(0), 1000, np.float32, "normal"))
    first = bits(tcu.sum(small))
    large = torch.ones(1 << 27, dtype=torch.float16, device="cuda")
    assert tcu.sum(large).item() == 1 << 27
    assert tcu.fsum(large).item() == 1 << 27
    assert bits(tcu.sum(small)) == first
    assert replace(tcu.sum(small, return_info=True)[1], bits=0).plan.n == 1000
