"""Contract of PyTorch tensors on a GPU: the model's bits through every way that PyTorch has to run a function.

Eager, compiled, captured in graphs and replayed, on any stream; nothing waits
for the GPU; and what a call leaves is found by those like it, and by no others.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from bits import same
from gpu_support import gpu_or_skip, unit_or_skip

import tcu
from tcu.errors import DtypeError, ParameterError, ShapeError
from tcu.formats.tensor import host_view
from tcu.ops import find_operation

pytestmark = [
    pytest.mark.gpu,
    # PyTorch warns about itself: of torch.jit.script in forward mode, of what torch.compile imports.
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"),
]

torch = pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)

DTYPES = ("float16", "bfloat16", "float32", "float64")
SIZES = (0, 1, 7, 1000, 4096, 100_003, 3_000_001)


def _of_two(x: Any, **options: Any) -> Any:
    return tcu.dot(x, x.flip(0) if torch.is_tensor(x) else x[::-1], **options)


OPERATIONS: dict[str, Callable[..., Any]] = {
    "sum": tcu.sum, "mean": tcu.mean, "dot": _of_two, "norm": tcu.norm, "fsum": tcu.fsum, "fmean": tcu.fmean,
    "fnorm": tcu.fnorm, "fdot": lambda x, **options: tcu.fdot(x, x.flip(0) if torch.is_tensor(x) else x[::-1], **options),
}  # fmt: skip
every_operation = pytest.mark.parametrize("name", OPERATIONS)
every_dtype = pytest.mark.parametrize("dtype", DTYPES)


@pytest.fixture(scope="module")
def unit() -> str:
    return unit_or_skip(gpu_or_skip()).name


@pytest.fixture(autouse=True)
def ready(unit: str) -> None:
    if not torch.cuda.is_available():
        pytest.skip("this PyTorch finds no GPU")


def tensor(dtype: str, n: int = 100_003, seed: int = 7) -> Any:
    """On the host."""
    x = np.random.default_rng(seed).standard_normal(n)
    return torch.from_numpy(x).to(getattr(torch, dtype))


def modelled(name: str, x: Any, unit: str, **options: Any) -> bytes:
    if name in ("sum", "mean"):
        options["unit"] = unit
    return np.asarray(OPERATIONS[name](host_view(x), **options)).tobytes()


def bits(x: Any) -> bytes:
    return host_view(x.detach().reshape(()).cpu()).tobytes()


class NothingWaits:
    """Raises where PyTorch would wait for the GPU."""

    def __enter__(self) -> None:
        torch.cuda.synchronize()
        torch.cuda.set_sync_debug_mode("error")

    def __exit__(self, *_: object) -> None:
        torch.cuda.set_sync_debug_mode("default")


def compiled(function: Callable[..., Any], **options: Any) -> Any:
    torch._dynamo.reset()
    return torch.compile(function, fullgraph=True, **options)


# Eager.


@every_operation
@every_dtype
def test_the_model_s_bits_in_a_tensor_on_the_gpu(name: str, dtype: str, unit: str) -> None:
    for n in SIZES:
        x = tensor(dtype, n)
        expected = modelled(name, x, unit)
        there = x.cuda()
        for _ in range(3):  # the long way once, then addresses alone
            result = OPERATIONS[name](there)
            assert type(result) is torch.Tensor
            assert (result.device, result.shape) == (there.device, ())
            assert bits(result) == expected, n


@every_dtype
def test_results_of_every_dtype_and_out(dtype: str, unit: str) -> None:
    x = tensor(dtype)
    there = x.cuda()
    for wanted in DTYPES:
        expected = modelled("sum", x, unit, dtype=wanted)
        out = torch.zeros((), dtype=getattr(torch, wanted), device="cuda")
        before = out._version
        assert bits(tcu.sum(there, dtype=getattr(torch, wanted))) == expected
        assert tcu.sum(there, out=out) is out
        assert bits(out) == expected
        assert out._version > before


@every_operation
@every_dtype
def test_any_strides_and_any_address(name: str, dtype: str, unit: str) -> None:
    x = tensor(dtype, 12_000)
    there = x.cuda()
    for view in (
        lambda x: x[1:], lambda x: x[3:-2], lambda x: x[::3], lambda x: x.reshape(100, 120).T,
        lambda x: x.reshape(20, 30, 20).permute(2, 0, 1)[::2], lambda x: x[:5, None].expand(5, 999),
    ):  # fmt: skip
        for _ in range(2):
            assert bits(OPERATIONS[name](view(there))) == modelled(name, view(x), unit)


def test_a_tensor_with_the_negative_bit() -> None:
    x = torch.tensor([1 + 2j, 3 - 5j], device="cuda").conj().imag
    for _ in range(2):
        assert tcu.sum(x).item() == 3
        assert tcu.dot(x, x.clone()).item() == 29


def test_nothing_waits_for_the_gpu() -> None:
    x = tensor("float16").cuda()
    out = torch.zeros((), device="cuda")
    leaf = tensor("float32").cuda().requires_grad_()
    for function in OPERATIONS.values():
        function(x), function(leaf)  # compiles the kernels
    with NothingWaits():
        for function in OPERATIONS.values():
            function(x)
            function(x, out=out)
            function(leaf).backward()


def test_the_second_sum_asks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    from tcu.engines.cuda import sums as device_sums

    x, y = torch.ones(5000, device="cuda"), torch.ones(5000, device="cuda")
    first = tcu.sum(x), tcu.dot(x, y), tcu.fsum(x)
    monkeypatch.setattr(device_sums, "reduce", lambda *_: pytest.fail("the long way"))
    assert [one.item() for one in (tcu.sum(y), tcu.dot(y, x), tcu.fsum(y))] == [one.item() for one in first]


def test_a_thread_that_has_done_nothing_yet(unit: str) -> None:
    x = tensor("float32")
    there = x.cuda()
    tcu.sum(there)  # so that only addresses are missing
    torch.cuda.synchronize()
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(bits(tcu.sum(there))))
    thread.start()
    thread.join()
    assert results == [modelled("sum", x, unit)]


def test_another_gpu_than_the_current_one(unit: str) -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("this machine has one GPU")
    x = tensor("float32")
    there = x.to("cuda:1")
    for _ in range(3):
        result = tcu.sum(there)
        assert result.device == there.device
        assert bits(result) == modelled("sum", x, unit)
    assert torch.cuda.current_device() == 0
    with torch.cuda.device(1):
        assert bits(tcu.sum(there)) == modelled("sum", x, unit)
    for y in (x.cuda(), x):
        with pytest.raises(ParameterError, match="move both to one device"):
            tcu.dot(there, y)


def on_side_streams(function: Callable[[Any], Any], sources: list[Any], times: int) -> list[Any]:
    """Of all sources, so often: each has a stream, on which numbers come late that only that stream has waited for."""
    streams = [torch.cuda.Stream() for _ in sources]
    targets = [torch.zeros_like(x) for x in sources]
    torch.cuda.synchronize()
    results: list[Any] = []
    for _ in range(times):
        for stream, source, target in zip(streams, sources, targets, strict=True):
            with torch.cuda.stream(stream):
                target.zero_()
                torch.cuda._sleep(100_000)
                target.copy_(source)
                results.append(function(target))
    torch.cuda.synchronize()
    return results


def test_side_streams(unit: str) -> None:
    sources = [tensor("float32", 1_000_003, seed).cuda() for seed in range(4)]
    expected = [modelled("sum", x.cpu(), unit) for x in sources]
    results = on_side_streams(tcu.sum, sources, 20)
    assert [bits(result) for result in results] == expected * 20


def test_the_details(unit: str) -> None:
    for wanting in (False, True):
        x = tensor("float16").cuda().requires_grad_(wanting)
        seen: list[int] = []
        result, info = tcu.sum(x, return_info=True, progress=seen.append)
        assert (info.unit, info.bits) == (unit, int.from_bytes(bits(result), "little"))
        assert (result.requires_grad, seen) == (wanting, [x.numel()])
        dot, details = tcu.dot(x, x, return_info=True)
        assert details.bits == int.from_bytes(bits(dot), "little")


# Calls along an axis, from element to element and of segments.

SHAPE = (50, 1000)
EDGES = (0, 0, 3, 40, 41, 5000, 50_000)
"""Of segments of all its numbers; the last ones are beyond what a warp sums."""


def with_offsets(name: str, narrow: bool = False) -> Callable[..., Any]:
    """The function on a line that EDGES cut, as they are on the GPU, with 32 bits if ``narrow``."""

    def function(x: Any, **options: Any) -> Any:
        line = x.reshape(-1)
        offsets = edges_of(line) if torch.is_tensor(x) else np.array(EDGES)
        if torch.is_tensor(x):
            options["check"] = False
            offsets = offsets.int() if narrow else offsets
        return getattr(tcu, name)(line, offsets, **options)

    return function


_edges: dict[Any, Any] = {}


def edges_of(line: Any) -> Any:
    if line.device not in _edges:
        _edges[line.device] = torch.tensor(EDGES, device=line.device)
    return _edges[line.device]


CALLS: dict[str, Callable[..., Any]] = {
    "sum of rows": lambda x, **options: tcu.sum(x, -1, **options),
    "mean of columns": lambda x, **options: tcu.mean(x, (0,), keepdims=True, **options),
    "sum of long columns": lambda x, **options: tcu.sum(x.reshape(-1, 2), 0, **options),
    "fsum of rows": lambda x, **options: tcu.fsum(x, 1),
    "fmean of columns": lambda x, **options: tcu.fmean(x, 0),
    "fsum of all": lambda x, **options: tcu.fsum(x, keepdims=True),
    "cumsum": lambda x, **options: tcu.cumsum(x, exclusive=True),
    "cumsum of rows": lambda x, **options: tcu.cumsum(x, -1, reverse=True),
    "cumsum of columns": lambda x, **options: tcu.cumsum(x, 0),
    "segment_sum": with_offsets("segment_sum"),
    "segment_sum by int32": with_offsets("segment_sum", narrow=True),
    "segment_mean": with_offsets("segment_mean"),
    "segment_fsum": lambda x, **options: with_offsets("segment_fsum")(x),
    "segment_fmean": lambda x, **options: with_offsets("segment_fmean")(x),
    "segment_cumsum": lambda x, **options: with_offsets("segment_cumsum")(x),
}  # fmt: skip
every_call = pytest.mark.parametrize("call", CALLS)


def matrix(seed: int = 7) -> Any:
    """On the host."""
    return tensor("float32", math.prod(SHAPE), seed).reshape(SHAPE)


def equal(a: Any, b: Any) -> bool:
    """As torch.equal, a NaN being what it is."""
    return torch.equal(a.nan_to_num(), b.nan_to_num()) and torch.equal(a.isnan(), b.isnan())


def alike(found: Any, call: str, x: Any, unit: str) -> bool:
    """Whether the bits are the model's for x, which is on the host."""
    with np.errstate(all="ignore"):
        expected = np.ascontiguousarray(CALLS[call](host_view(x), unit=unit))
    mine = host_view(found.cpu())
    return mine.shape == expected.shape and mine.tobytes() == expected.tobytes()


@every_call
@every_dtype
def test_calls_that_take_turns_have_the_models_bits(call: str, dtype: str, unit: str) -> None:
    """Layouts, alignments and streams; the long way once for each, then addresses alone."""
    n, wide = math.prod(SHAPE), (50, 1100)
    room = tensor(dtype, math.prod(wide))
    views: list[Callable[[Any], Any]] = [
        lambda x: x[:n].reshape(SHAPE), lambda x: x[1 : n + 1].reshape(SHAPE), lambda x: x[8 : n + 8].reshape(SHAPE),
        lambda x: x[:n].reshape(1000, 50), lambda x: x[:n].reshape(1000, 50).T, lambda x: x[3 : n + 3].reshape(5, 10_000),
        lambda x: x.reshape(wide)[:, :1000], lambda x: x.reshape(wide)[:, 4:1004],
        lambda x: torch._neg_view(x[:n].reshape(SHAPE)), lambda x: x[:n].reshape(SHAPE).requires_grad_(),
    ]  # fmt: skip
    stream = torch.cuda.Stream()
    for turn in range(4):
        there = room.cuda()  # elsewhere, other numbers
        stream.wait_stream(torch.cuda.current_stream())
        for view in views:
            with torch.cuda.stream(stream) if turn % 2 else contextlib.nullcontext(), torch.no_grad():
                result = CALLS[call](view(there))
            torch.cuda.synchronize()
            with torch.no_grad():
                assert alike(result, call, view(room).clone(), unit), turn
        room = room.flip(0)


@every_call
def test_the_second_call_of_a_kind_asks_nobody(call: str, unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from tcu.engines.cuda import rows as device_rows
    from tcu.engines.cuda import scans as device_scans
    from tcu.engines.cuda import segments as device_segments

    x, y = (matrix(seed) for seed in (1, 2))
    first, second = x.cuda(), y.cuda()
    CALLS[call](first)
    for module, name in ((device_rows, "reduce"), (device_segments, "reduce"), (device_scans, "cumsum"),
                         (device_scans, "segment_cumsum")):  # fmt: skip
        monkeypatch.setattr(module, name, lambda *_, **__: pytest.fail("the long way"))
    with NothingWaits():
        results = [CALLS[call](given) for given in (first, second, first)]
    for result, given in zip(results, (x, y, x), strict=True):
        assert alike(result, call, given, unit)


@every_call
def test_a_graph_of_a_call_replayed_on_other_numbers(call: str, unit: str) -> None:
    x = torch.zeros(SHAPE, device="cuda")
    one, two = (captured(x, lambda x: CALLS[call](x)) for _ in range(2))
    for seed in range(3):
        host = matrix(seed)
        x.copy_(host)
        for graph in (one, two, one):
            graph.graph.replay()
            assert alike(graph.result, call, host, unit)
        assert alike(CALLS[call](x), call, host, unit)


@every_call
def test_a_call_on_every_stream(call: str, unit: str) -> None:
    hosts = [matrix(seed) for seed in range(4)]
    sources = [host.cuda() for host in hosts]
    CALLS[call](torch.zeros_like(sources[0]))
    for i, result in enumerate(on_side_streams(CALLS[call], sources, 10)):
        assert alike(result, call, hosts[i % 4], unit)


@every_call
def test_a_call_from_a_thread_that_has_done_nothing_yet(call: str, unit: str) -> None:
    x = matrix()
    there = x.cuda()
    CALLS[call](there)  # so that only addresses are missing
    torch.cuda.synchronize()
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(CALLS[call](there)))
    thread.start()
    thread.join()
    assert alike(results[0], call, x, unit)


@every_call
def test_a_call_on_another_gpu_than_the_current_one(call: str, unit: str) -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("this machine has one GPU")
    x = matrix()
    for place in ("cuda:1", "cuda:0", "cuda:1", "cuda:0"):
        there = x.to(place)
        for current in (0, 1):
            with torch.cuda.device(current):
                result = CALLS[call](there)
                assert result.device == there.device
                assert alike(result, call, x, unit)


@every_call
def test_whoever_watches_is_not_passed_by(call: str, unit: str) -> None:
    """Gradients, modes, transformations and inference, after calls that left a launch."""

    class Mine(torch.Tensor):  # type: ignore[misc]
        pass

    x = matrix()
    there = x.cuda()
    function = CALLS[call]
    plain = function(there)
    leaf = there.clone().requires_grad_()
    result = function(leaf)
    assert result.requires_grad
    result.sum().backward()
    assert leaf.grad is not None
    with torch.no_grad():
        assert not function(leaf).requires_grad
    batch = torch.vmap(function)(torch.stack([there, 2 * there]))
    assert equal(batch[0], plain)
    with torch.inference_mode():
        inside = function(there.clone())
        assert inside.is_inference()
        assert equal(inside, plain)
    assert type(function(there.as_subclass(Mine))) is Mine
    assert equal(compiled(function)(there), plain)
    with torch.device("cuda"):  # a mode of functions
        assert equal(function(there), plain)


def test_outputs_and_details_of_calls_that_left_a_launch(unit: str) -> None:
    x = matrix()
    there = x.cuda()
    for name, axis in (("sum", -1), ("mean", 0), ("fsum", 1), ("cumsum", -1)):
        function = getattr(tcu, name)
        plain = function(there, axis)
        out = torch.empty_like(plain)
        before = out._version
        assert function(there, axis, out=out) is out
        assert out._version > before
        assert torch.equal(out, plain)
        if name != "fsum":
            seen: list[int] = []
            result, info = function(there, axis, return_info=True, progress=seen.append)
            assert torch.equal(result, plain)
            assert (info.rows * info.plan.n, seen) == (x.numel(), [x.numel()])


def test_offsets_that_are_looked_at_every_time(unit: str) -> None:
    x = matrix().reshape(-1)
    there = x.cuda()
    good = edges_of(there)
    bad = good.clone()
    bad[3] = 2
    for name in ("segment_sum", "segment_mean", "segment_fsum", "segment_cumsum"):
        function = getattr(tcu, name)
        for _ in range(3):
            for offsets in (good, good.int(), torch.stack([good, bad], 1)[:, 0], torch._neg_view(-good)):
                for check in (True, False):
                    assert alike(function(there, offsets, check=check), name, x, unit)
            for offsets in (bad, bad.int()):
                with pytest.raises(ParameterError, match="offsets decrease from 3 to 2 at index 3"):
                    function(there, offsets)
            with pytest.raises(ParameterError, match="offsets end at 50000, and x has 49999 elements"):
                function(there[1:], good)


def looked_at(x: Any) -> list[tuple[Any, Any, str]]:
    """(offsets that are right, others that are not, what is said of those) of 50,000 numbers: few, and many."""
    few, many = edges_of(x), torch.arange(0, 50_001, 10, device="cuda")
    falling, ending = few.clone(), many.clone()
    falling[3] = 2
    ending[-1] = 49_999
    back_and_forth = torch.tensor([0, 50_000] * 1000, device="cuda")  # long segments that lie on each other
    even = 25 * torch.arange(2000, device="cuda")
    even[-1] = 50_000
    return [
        (few, falling, "offsets decrease from 3 to 2 at index 3"),
        (even, back_and_forth, "offsets decrease from 50000 to 0 at index 2"),
        (many, ending, "offsets end at 49999, and x has 50000 elements"),
    ]


@pytest.mark.parametrize("name", ["segment_sum", "segment_mean", "segment_fsum", "segment_cumsum"])
def test_offsets_that_are_looked_at_ask_nobody_and_are_seen_in_their_streams_order(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tcu.engines.cuda import offsets as device_offsets
    from tcu.engines.cuda import scans as device_scans
    from tcu.engines.cuda import segments as device_segments

    x = matrix().reshape(-1).cuda()
    function = getattr(tcu, name)
    cases = [(good, bad, said, function(x, good, check=False)) for good, bad, said in looked_at(x)]
    for module, named in ((device_segments, "reduce"), (device_scans, "segment_cumsum"), (device_offsets, "device_offsets")):  # fmt: skip
        monkeypatch.setattr(module, named, lambda *_, **__: pytest.fail("the long way"))
    for stream in (torch.cuda.current_stream(), torch.cuda.Stream()):
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            for good, bad, said, expected in cases:
                place = bad.clone()
                for _ in range(5):
                    torch.cuda._sleep(100_000)
                    place.copy_(good)
                    assert equal(function(x, place), expected)
                    assert equal(function(x, place.int()), expected)
                    torch.cuda._sleep(100_000)
                    place.copy_(bad)
                    with pytest.raises(ParameterError, match=said):
                        function(x, place)


def test_long_segments_that_lie_on_each_other_are_not_summed() -> None:
    """Their lists would have no room: the sums go ahead of the answer, by a copy that has none of them."""
    x = matrix().reshape(-1).cuda()
    for good, bad, said in looked_at(x):
        for function in (tcu.segment_sum, tcu.segment_fsum, tcu.segment_cumsum):
            expected = function(x, good)
            for _ in range(3):
                for offsets in (bad, bad.int()):
                    with pytest.raises(ParameterError, match=said):
                        function(x, offsets)
                torch.cuda.synchronize()
                assert equal(function(x, good), expected)


def test_offsets_that_are_looked_at_by_many_threads() -> None:
    x = matrix().reshape(-1).cuda()
    good, bad, said = looked_at(x)[0]
    expected = tcu.segment_sum(x, good)
    torch.cuda.synchronize()
    failures: list[Any] = []

    def work(mine: Any) -> None:
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                for _ in range(200):
                    if mine is bad:
                        with pytest.raises(ParameterError, match=said):
                            tcu.segment_sum(x, mine)
                    else:
                        assert equal(tcu.segment_sum(x, mine), expected)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=((good, bad)[i % 2],)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


# Gradients.


@every_operation
def test_derivatives(name: str) -> None:
    x = torch.arange(1, 8, dtype=torch.float64, device="cuda").div_(4).requires_grad_()
    function = OPERATIONS[name]
    assert torch.autograd.gradcheck(function, x, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(function, x)
    function(x).backward()
    assert torch.equal(torch.func.grad(function)(x.detach()), x.grad)
    batch = torch.stack([x.detach(), 2 * x.detach()])
    assert torch.equal(torch.vmap(function)(batch), torch.stack([function(row) for row in batch]))


@every_operation
@every_dtype
def test_gradients_are_those_of_the_host(name: str, dtype: str) -> None:
    x = tensor(dtype, 1000).requires_grad_()
    there = x.detach().cuda().requires_grad_()
    assert bits(OPERATIONS[name](there)) == bits(OPERATIONS[name](there.detach()))
    OPERATIONS[name](x).backward()
    OPERATIONS[name](there).backward()
    assert there.grad.dtype is there.dtype
    assert torch.allclose(there.grad.cpu().double(), x.grad.double(), rtol=2 * torch.finfo(x.dtype).eps)


# Operators and compiled functions.


@every_operation
def test_opcheck(name: str) -> None:
    tcu.sum(torch.ones(3))  # registers them
    operator = getattr(torch.ops.tcu, name).default
    for dtype in DTYPES:
        x = tensor(dtype, 500).cuda()
        for one in (x, x.reshape(20, 25).T, x.clone().requires_grad_()):
            torch.library.opcheck(
                operator, (one, one.detach().flip(0)) if len(find_operation(name).operands) == 2 else (one,)
            )


@every_operation
@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_compiled_whole(name: str, mode: str, unit: str) -> None:
    function = compiled(lambda x: OPERATIONS[name](x.flip(0)), mode=mode)
    x = torch.empty(100_003, device="cuda")
    for seed in range(6):  # warms up, captures, replays: on other numbers each time
        host = tensor("float32", seed=seed)
        x.copy_(host)
        assert bits(function(x)) == modelled(name, host.flip(0), unit), seed


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_compiled_with_a_gradient(mode: str) -> None:
    def loss(x: Any) -> Any:
        return tcu.sum(x * x) / tcu.norm(x) + tcu.dot(x, x.sin())

    function = compiled(loss, mode=mode)
    for seed in range(5):
        x = tensor("float64", 5000, seed).cuda()
        mine, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
        result = function(mine)
        result.backward()
        loss(theirs).backward()
        assert torch.allclose(mine.grad, theirs.grad, rtol=1e-12)


def test_compiled_with_options(unit: str) -> None:
    x = tensor("float16")
    options: dict[str, Any] = {"variant": "short-chain", "chain": 2, "block": 512, "dtype": torch.float64}
    assert bits(compiled(lambda x: tcu.sum(x, **options))(x.cuda())) == modelled("sum", x, unit, **options)
    out = torch.zeros((), device="cuda")
    compiled(lambda x, out: tcu.sum(x, out=out))(x.cuda(), out)
    assert bits(out) == modelled("sum", x, unit)


# Graphs.


def captured(x: Any, function: Callable[[Any], Any]) -> Any:
    """A graph of the function on x, and where its result lies."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        function(x)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = function(x)
    return SimpleNamespace(graph=graph, result=result)


@every_operation
@every_dtype
def test_a_graph_replayed_on_other_numbers(name: str, dtype: str, unit: str) -> None:
    x = torch.zeros(300_007, dtype=getattr(torch, dtype), device="cuda")
    one = captured(x, OPERATIONS[name])
    for seed in range(4):
        host = tensor(dtype, 300_007, seed)
        x.copy_(host)
        for _ in range(3):  # what the blocks share is left as it was found
            one.graph.replay()
        assert bits(one.result) == modelled(name, host, unit)
        assert bits(OPERATIONS[name](x)) == bits(one.result)


def test_a_graph_captured_before_anything_ran() -> None:
    """Sizes and options that nobody has asked for yet: the kernel is loaded, its memory made, while capturing."""
    x = torch.ones(123_457, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        result = tcu.sum(x, block=96)
    graph.replay()
    assert result.item() == 123_457


def test_a_graph_with_gradients(unit: str) -> None:
    x = torch.zeros(10_007, device="cuda").requires_grad_()

    def step(x: Any) -> Any:
        x.grad = None
        result = tcu.norm(x)
        result.backward()
        return result.detach()

    one = captured(x, step)
    host = tensor("float32", 10_007)
    with torch.no_grad():
        x.copy_(host)
    one.graph.replay()
    assert bits(one.result) == modelled("norm", host, unit)
    assert torch.allclose(x.grad.cpu(), host / one.result.cpu(), rtol=1e-6)


@pytest.mark.parametrize("name", ["sum", "dot", "fsum"])
def test_two_graphs_at_the_same_time(name: str, unit: str) -> None:
    """Two graphs, one of them of two sums, on two streams, beside eager sums on a third."""
    hosts = [tensor("float32", 2_000_003, seed) for seed in range(3)]
    tensors = [host.cuda() for host in hosts]
    expected = [modelled(name, host, unit) for host in hosts]
    function = OPERATIONS[name]
    first = captured(tensors[0], lambda x: (function(x), function(tensors[2])))
    second = captured(tensors[1], function)
    streams = [torch.cuda.Stream() for _ in range(2)]
    torch.cuda.synchronize()
    for _ in range(50):
        for result in (*first.result, second.result):
            result.zero_()
        torch.cuda.synchronize()
        eager = []
        for _ in range(4):
            for stream, one in zip(streams, (first, second), strict=True):
                with torch.cuda.stream(stream):
                    one.graph.replay()
            eager.append(function(tensors[2]))
        torch.cuda.synchronize()
        assert [bits(one) for one in (first.result[0], second.result)] == expected[:2]
        assert {bits(one) for one in (*eager, first.result[1])} == {expected[2]}


def test_streams_that_fork_within_a_capture(unit: str) -> None:
    hosts = [tensor("float32", 1_000_003, seed) for seed in range(2)]
    tensors = [host.cuda() for host in hosts]
    for x in tensors:
        tcu.sum(x)
    graph, side = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        main = torch.cuda.current_stream()
        side.wait_stream(main)
        first = tcu.sum(tensors[0])
        with torch.cuda.stream(side):
            second = tcu.sum(tensors[1])
        main.wait_stream(side)
    for _ in range(50):
        graph.replay()
    assert [bits(first), bits(second)] == [modelled("sum", host, unit) for host in hosts]


# What cannot be.


def test_errors() -> None:
    x = torch.ones(8, device="cuda")
    for bad, message in (
        (x.to(torch.complex64), "torch.complex64, and only real numbers are taken"),
        (x.to_sparse(), r"torch\.sparse_coo tensor: make it dense, with x\.to_dense\(\)"),
    ):
        for function in (tcu.sum, tcu.mean, tcu.norm, tcu.fsum, tcu.fmean):
            with pytest.raises(DtypeError, match=message):
                function(bad)
    with pytest.raises(
        DtypeError, match=r"x has dtype torch\.int64, none of float16.*x\.to\(torch\.float64\)"
    ):
        tcu.norm(x.long())
    for y, kind, message in (
        (x.cpu(), ParameterError, "x is on cuda:0, y on cpu: move both to one device"),
        (x[1:], ShapeError, "give both one shape"),
        (x.double(), DtypeError, "convert one of them"),
        (np.ones(8, np.float32), ParameterError, "arrays of PyTorch, numpy: pass arrays of one library"),
    ):
        with pytest.raises(kind, match=message):
            tcu.dot(x, y)
    for out, message in (
        (torch.zeros(()), "x is on cuda:0, out on cpu"),
        (torch.zeros(2, device="cuda"), r"out has shape \(2,\): give a 0-d tensor"),
        (np.zeros(()), "out is a ndarray, x a tensor"),
    ):
        with pytest.raises(ParameterError, match=message):
            tcu.sum(x, out=out)
    with pytest.raises(ParameterError, match="otherwise than V100"):
        tcu.sum(x.half(), unit="V100", variant="short-chain")
    with pytest.raises(ParameterError, match=r"torch\.no_grad\(\)"):
        tcu.sum(x.requires_grad_(), out=torch.zeros((), device="cuda"))


def test_a_call_like_one_before_takes_the_shortcut(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = (torch.randn(40, 50, device="cuda") for _ in range(2))
    offsets = torch.tensor([0, 7, 7, 2000], device="cuda")
    functions = (
        lambda x: tcu.sum(x), lambda x: tcu.mean(x, axis=0, dtype=torch.float64), lambda x: tcu.fsum(x, -1),
        lambda x: tcu.cumsum(x, 1), lambda x: tcu.dot(x, y), lambda x: tcu.segment_sum(x.reshape(-1), offsets),
    )  # fmt: skip
    expected = [function(x) for function in functions]

    def fail(*_: object) -> None:
        raise AssertionError("the long way")

    monkeypatch.setattr("tcu.surfaces.call.Call", fail)
    for function, result in zip(functions, expected, strict=True):
        same(function(x), result)
        with pytest.raises(AssertionError, match="the long way"):
            function(x.requires_grad_())
        x.requires_grad_(False)
