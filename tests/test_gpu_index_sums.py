"""Contract of sums by index on a GPU: the bits of the CPU, for every format, number of slots and order of the indices."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from bits import same
from gpu_support import gpu_or_skip, library_or_skip
from test_gpu_sums import to_gpu

import tcu
from tcu.errors import ParameterError

pytestmark = pytest.mark.gpu

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
