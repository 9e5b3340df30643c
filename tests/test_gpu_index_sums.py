"""Contract of sums by index on a GPU: the bits of the CPU, for every format, number of slots and order of the indices."""

from __future__ import annotations

from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from bits import same
from gpu_support import gpu_or_skip, library_or_skip
from numbers_of_all_kinds import KINDS, draw
from test_gpu_sums import to_gpu

import tcu
from tcu.errors import ParameterError

pytestmark = [
    pytest.mark.gpu,
    # PyTorch warns about itself: of torch.jit.script in forward mode, of what torch.compile imports, of a graph that is empty.
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"),
]

DTYPES = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]
dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)


@pytest.fixture(scope="module", autouse=True)
def torch() -> Any:
    gpu_or_skip()
    return library_or_skip("torch")


def drawn(shape: tuple[int, ...], dtype: Any, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(shape) * 10.0 ** rng.integers(-4, 5, shape)).astype(dtype)


@dtypes
@pytest.mark.parametrize("size", [1, 250, 60_000])
def test_numbers_and_rows(torch: Any, dtype: Any, size: int) -> None:
    rng = np.random.default_rng(size)
    for shape in ((100_000,), (3000, 33), (777, 1, 5)):
        x, index = drawn(shape, dtype, size), rng.zipf(1.3, shape[0]) % size - size // 2
        tensor, places = to_gpu(torch, x), torch.from_numpy(index).cuda()
        for check in (True, False):
            same(tcu.index_sum(tensor, places, size, check=check).contiguous(), tcu.index_sum(x, index, size))
        order = rng.permutation(shape[0])
        again = tcu.index_sum(to_gpu(torch, x[order]), places[torch.from_numpy(order).cuda()], size)
        same(again.contiguous(), tcu.index_sum(x, index, size))
        same(tcu.index_mean(tensor, places, size).contiguous(), tcu.index_mean(x, index, size))


def test_weights_histograms_and_keys(torch: Any) -> None:
    rng = np.random.default_rng(1)
    x, weights, index = (
        drawn((5000, 3), np.float32, 1),
        drawn((5000,), np.float16, 2),
        rng.integers(0, 90, 5000),
    )
    tensor, factors, places = (torch.from_numpy(each).cuda() for each in (x, weights, index))
    same(
        tcu.index_sum(tensor, places, 90, weights=factors).contiguous(),
        tcu.index_sum(x, index, 90, weights=weights),
    )
    for mine, theirs in zip(
        tcu.histogram(factors, 12, weights=tensor[:, 0]),
        tcu.histogram(weights, 12, weights=x[:, 0]),
        strict=True,
    ):
        same(mine, theirs)
    for mine, theirs in zip(tcu.reduce_by_key(places, tensor), tcu.reduce_by_key(index, x), strict=True):
        same(mine.contiguous(), theirs)
    same(tcu.bincount(places, factors), tcu.bincount(index, weights))


def test_what_is_out_of_range(torch: Any) -> None:
    x, index = torch.ones(3, device="cuda"), torch.tensor([0, 7, 1], device="cuda")
    with pytest.raises(ParameterError, match=r"index\[1\] is 7, and the slots are 0 to 2"):
        tcu.index_sum(x, index, 3)
    assert tcu.index_sum(x, index, 3, check=False).tolist() == [1, 1, 0]
    graph = torch.cuda.CUDAGraph()
    refused = pytest.raises(ParameterError, match="while a graph is captured, an index cannot be looked at")
    with refused, torch.cuda.graph(graph):
        tcu.index_sum(x, index, 3)


@dtypes
def test_random_rows_and_indices(torch: Any, dtype: Any) -> None:
    """Every alignment and distance of rows, slots of a lane and long ones, indices of both widths."""
    rng = np.random.default_rng(11)
    for case in range(60):
        n, columns = int(rng.integers(0, 4000)), int(rng.choice([1, 2, 3, 8, 16, 33, 64, 200]))
        slots, gap = int(rng.choice([1, 2, 7, 300, 5000])), int(rng.choice([0, 0, 1, 8]))
        index = (rng.zipf(1.2, n) % slots - rng.integers(0, 2, n) * slots).astype(
            [np.int64, np.int32][case % 2]
        )
        x = drawn((n, columns + gap), dtype, case)[:, gap:]
        tensor, places = to_gpu(torch, np.ascontiguousarray(x)), torch.from_numpy(index).cuda()
        if gap:
            wider = torch.zeros(n, columns + gap, device="cuda", dtype=tensor.dtype)
            wider[:, gap:] = tensor
            tensor = wider[:, gap:]
        function = (tcu.index_sum, tcu.index_mean)[case % 3 == 0]
        target = [None, "float64", "float32", "bfloat16", "float16"][case % 5]
        found = function(tensor, places, slots, dtype=target, check=case % 2 == 0)
        same(found, np.ascontiguousarray(function(x, index, slots, dtype=target)), case)


@dtypes
def test_lines_of_all_kinds_of_numbers(torch: Any, dtype: Any) -> None:
    """Added to slots by atomic additions: even, crowded, sorted indices, of numbers of every exponent; packed, or not."""
    rng = np.random.default_rng(21)
    n = 400_003
    for case, kind in enumerate(KINDS):
        x = draw(rng, n, dtype, kind)
        with np.errstate(all="ignore"):
            x[np.isneginf(x.astype(float))] = 1  # whose sum with inf the CPU refuses
        slots = (1, 777, 12_007)[case % 3]
        even = rng.integers(0, slots, n)
        for number, index in enumerate((even, np.sort(even), rng.zipf(1.2, n) % slots)):
            gap = 1 + (case + number) % 2
            line = to_gpu(torch, np.repeat(x, gap))[::gap]
            for function in (tcu.index_sum, tcu.index_mean):
                target = [None, "float64", "float16"][number]
                found = function(line, torch.from_numpy(index).cuda(), slots, dtype=target)
                with np.errstate(all="ignore"):
                    same(found, function(x, index, slots, dtype=target), (kind, number))


def test_whole_tables(torch: Any) -> None:
    """25 million sums of each format, ten rows to a slot on average."""
    generator = torch.Generator("cuda").manual_seed(1)
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        x = torch.randn(262_144, 512, device="cuda", generator=generator).to(dtype)
        index = torch.randint(50_000, (262_144,), device="cuda", generator=generator)
        found, again = (tcu.index_sum(x, index, 50_000) for _ in range(2))
        assert torch.equal(found, again)
        double = torch.zeros(50_000, 512, device="cuda", dtype=torch.float64).index_add_(0, index, x.double())
        if dtype != torch.float64:  # ordinary numbers, whose sums in binary64 have no error to speak of
            close = (found.double() - double).abs() <= double.abs() * 2.0**-23 + 1e-30
            assert close.all()
        same(found, tcu.index_sum(x.cpu(), index.cpu(), 50_000))


def test_gradients_transformations_and_graphs(torch: Any) -> None:
    generator = torch.Generator("cuda").manual_seed(2)
    index = torch.randint(-6, 6, (20,), device="cuda", generator=generator)
    x = torch.randn(20, 3, device="cuda", dtype=torch.float64, generator=generator, requires_grad=True)
    every = torch.arange(20, device="cuda") % 5  # no slot is empty, whose mean is NaN
    for function in (tcu.index_sum, tcu.index_mean):
        torch.autograd.gradcheck(partial(function, index=every, size=5), x)
        torch.autograd.gradgradcheck(partial(function, index=every, size=5), x)
    line = x[:, 0].detach().requires_grad_()
    torch.autograd.gradcheck(
        partial(tcu.index_sum, index=index, size=7, check=False), line, check_forward_ad=True
    )
    outside = torch.tensor([0, 9, 1], device="cuda")
    (tcu.index_sum(x[:3], outside, 2, check=False) * 3).sum().backward()
    assert x.grad[:4].tolist() == [[3.0] * 3, [0.0] * 3, [3.0] * 3, [0.0] * 3]
    many = torch.randn(4, 30, 2, device="cuda", generator=generator)
    places = torch.randint(0, 7, (4, 30), device="cuda", generator=generator)
    wanted = torch.stack([tcu.index_sum(each, of_it, 7) for each, of_it in zip(many, places, strict=True)])
    found = torch.func.vmap(lambda x, i: tcu.index_sum(x, i, 7, check=False))(many, places)
    assert torch.equal(found, wanted)
    wanted = torch.stack([tcu.index_sum(each, places[0], 7) for each in many])
    assert torch.equal(torch.func.vmap(lambda x: tcu.index_sum(x, places[0], 7, check=False))(many), wanted)
    compiled = torch.compile(lambda x, i: tcu.index_sum(x, i, 7, check=False) + 1, fullgraph=True)
    assert torch.equal(compiled(many[0], places[0]), wanted[0] + 1)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        inside = tcu.index_sum(many[1], places[0], 7, check=False)
    many[1] *= 2
    graph.replay()
    assert torch.equal(inside, 2 * wanted[1])
