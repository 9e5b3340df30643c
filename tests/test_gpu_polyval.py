"""Contract of ``tcu.polyval`` on a GPU: the CPU's bits, for every format, length, layout and number of points, and in a graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gpu_support import gpu_or_skip, library_or_skip, on_gpu
from test_polyval import numbers

import tcu
from tcu.errors import ParameterError

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module", autouse=True)
def torch() -> Any:
    gpu_or_skip()
    return library_or_skip("torch")


def same(torch: Any, x: Any, c: Any) -> None:
    found = tcu.polyval(on_gpu(torch, x), on_gpu(torch, c))
    assert found.is_cuda
    assert found.cpu().numpy().tobytes() == tcu.polyval(x, c).tobytes()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", [1, 2, 3, 8, 9, 64, 500, 511, 512, 513, 576, 577, 1008, 1009, 1024, 1025, 5000])
def test_values_are_the_cpus(torch: Any, dtype: Any, n: int) -> None:
    for points in (1, 33, 1000, 40_000, 70_001, 300_000):
        c, x = numbers(n, points, dtype, points)
        x[-3:] = np.array([np.inf, -7, np.nan])[-points:]
        same(torch, x, c)


def test_many_values_are_the_cpus(torch: Any) -> None:
    """3·10^7 in all."""
    for n, dtype in ((300, np.float64), (1100, np.float64), (100, np.float32)):
        c, x = numbers(n, 10_000_019, dtype)
        same(torch, x, c)


def test_layouts(torch: Any) -> None:
    c, x = (
        np.random.default_rng(1).standard_normal((700, 3, 2)),
        np.linspace(-1, 1, 1001 * 4).reshape(1001, 4),
    )
    points, coefficients = on_gpu(torch, x), on_gpu(torch, c)
    for p, q in (
        (points, x),
        (points.T, x.T),
        (points[::3, ::2], x[::3, ::2]),
        (points[5, 1], x[5, 1]),
        (points[:0], x[:0]),
    ):
        for a, b in (
            (coefficients, c),
            (coefficients[::2, :, 1], c[::2, :, 1]),
            (coefficients[:, 0, 0], c[:, 0, 0]),
        ):
            assert tcu.polyval(p, a).cpu().numpy().tobytes() == tcu.polyval(q, b).tobytes()
    many = np.random.default_rng(2).standard_normal((5, 70_000))
    same(torch, np.array([0.5, -0.25]), many)


def test_cupy(torch: Any) -> None:
    cupy = library_or_skip("cupy")
    c, x = numbers(900, 777, np.float64)
    found = tcu.polyval(cupy.asarray(x), cupy.asarray(c))
    assert isinstance(found, cupy.ndarray)
    assert found.get().tobytes() == tcu.polyval(x, c).tobytes()


def test_a_graph_keeps_the_launch(torch: Any) -> None:
    c, x = numbers(900, 777, np.float64)
    coefficients, points = on_gpu(torch, c), on_gpu(torch, x)
    tcu.polyval(points, coefficients)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = tcu.polyval(points, coefficients)
    points.copy_(on_gpu(torch, x[::-1]))
    graph.replay()
    assert found.cpu().numpy().tobytes() == tcu.polyval(x[::-1], c).tobytes()


def test_arrays_of_two_places_are_refused(torch: Any) -> None:
    with pytest.raises(ParameterError, match=r"c is a PyTorch tensor on cpu: move it with c\.cuda\(\)"):
        tcu.polyval(torch.ones(3).cuda(), torch.ones(3))
    with pytest.raises(ParameterError, match=r"x is a PyTorch tensor on cpu: move it"):
        tcu.polyval(torch.ones(3), torch.ones(3).cuda())
