"""Contract of sums along axes on a GPU: every row has the bits that the model gives it alone.

Random shapes, axes, layouts, dtypes and lengths, on numbers of all kinds: inf
and NaN stay in their rows.  Every length up to a few loads of a warp, for all
the ways in which rows share one.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from gpu_support import gpu_or_skip, library_or_skip, unit_or_skip
from numbers_of_all_kinds import KINDS, draw
from test_gpu_sums import to_gpu

import tcu
from tcu.errors import ParameterError, ShapeError
from tcu.formats import format_of

pytestmark = pytest.mark.gpu

DTYPES = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]
dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)


@pytest.fixture(scope="module", autouse=True)
def torch() -> Any:
    unit_or_skip(gpu_or_skip())
    return library_or_skip("torch")


def codes(result: Any) -> Any:
    if isinstance(result, np.ndarray | np.generic):
        array = np.asarray(result)
        return array.view(format_of(array.dtype).code_dtype)
    torch = library_or_skip("torch")
    raw = {2: torch.int16, 4: torch.int32, 8: torch.int64}[result.element_size()]
    return result.contiguous().view(raw).cpu().numpy().view(f"u{result.element_size()}")


def check(x: Any, tensor: Any, **options: Any) -> None:
    unit = gpu_or_skip().units[0].name
    with np.errstate(all="ignore"):
        expected = codes(tcu.sum(x, unit=unit, **options))
    found = codes(tcu.sum(tensor, **options))
    assert found.shape == expected.shape
    assert np.array_equal(found, expected), (x.shape, options, np.argwhere(found != expected)[:3])


@dtypes
def test_rows_of_every_short_length(torch, dtype) -> None:
    rng = np.random.default_rng(7)
    for length in [*range(70), 100, 127, 128, 129, 255, 256, 257, 300, 511, 512, 777, 1000, 1023, 1024, 1025]:
        kind = list(KINDS)[length % len(KINDS)]
        x = draw(rng, 41 * length, dtype, kind).reshape(41, length)
        check(x, to_gpu(torch, x, length % 3), axis=-1)


@dtypes
def test_rows_of_every_long_length(torch, dtype) -> None:
    rng = np.random.default_rng(8)
    for length in (2047, 2048, 2049, 4096, 5000, 16383, 16384, 16385, 40000, 65537, 300001):
        for rows in (1, 7):
            x = draw(rng, rows * length, dtype, "scaled").reshape(rows, length)
            check(x, to_gpu(torch, x, rows % 2), axis=1)


@dtypes
def test_single_short_rows_at_multiples_of_16_bytes_and_elsewhere(torch, dtype) -> None:
    rng = np.random.default_rng(12)
    for length in range(1, 18):
        for shift in range(3):
            x = draw(rng, length, dtype, "scaled").reshape(1, length)
            check(x, to_gpu(torch, x, shift), axis=1)


@pytest.mark.parametrize("dtype", [np.float16, np.float32], ids=["float16", "float32"])
@pytest.mark.parametrize("length", [16_384, 16_385, 32_768, 40_001])
def test_so_many_long_rows_that_each_has_a_warp(torch, dtype, length) -> None:
    x = draw(np.random.default_rng(13), 4096 * length, dtype, "normal").reshape(4096, length)
    check(x, to_gpu(torch, x), axis=1)


def test_more_dimensions_than_a_kernel_takes(torch) -> None:
    x = draw(np.random.default_rng(14), 1024, np.float32).reshape((2,) * 10).transpose()
    tensor = to_gpu(torch, np.ascontiguousarray(x.transpose())).permute(*range(9, -1, -1))
    for axis in ((0,), (3, 5), tuple(range(9))):
        check(x, tensor, axis=axis)
    with pytest.raises(ShapeError, match="needs 10 dimensions, a kernel takes 8: reshape, or copy"):
        tcu.sum(tensor)


@dtypes
def test_any_axes_of_any_layout(torch, dtype) -> None:
    rng = np.random.default_rng(9)
    for case in range(60):
        shape = tuple(
            int(extent) for extent in rng.integers(0 if case % 9 == 0 else 1, 14, rng.integers(1, 5))
        )
        x = draw(rng, int(np.prod(shape)), dtype).reshape(shape)
        tensor = to_gpu(torch, x, int(rng.integers(3)))
        if case % 3 == 1:
            order = tuple(int(axis) for axis in rng.permutation(x.ndim))
            x, tensor = x.transpose(order), tensor.permute(order)
        elif case % 3 == 2:
            x, tensor = x[..., ::2], tensor[..., ::2]
        axes = tuple(int(axis) for axis in rng.choice(x.ndim, rng.integers(1, x.ndim + 1), replace=False))
        check(x, tensor, axis=axes if case % 2 else axes[0], keepdims=bool(case % 4 == 0))


def test_options_means_and_out(torch) -> None:
    rng = np.random.default_rng(10)
    x = draw(rng, 33 * 3000, np.float16, "normal").reshape(33, 3000)
    tensor = to_gpu(torch, x)
    unit = gpu_or_skip().units[0].name
    for options in ({"chain": 3}, {"block": 64}, {"dtype": "float64"}, {"dtype": "bfloat16"}):
        check(x, tensor, axis=1, **options)
    assert np.array_equal(codes(tcu.mean(tensor, axis=1)), codes(tcu.mean(x, axis=1, unit=unit)))
    out = torch.empty(33, device="cuda")
    assert tcu.sum(tensor, axis=1, out=out) is out
    assert np.array_equal(codes(out), codes(tcu.sum(x, axis=1, unit=unit)))
    with pytest.raises(ParameterError, match=r"out has shape \(32,\), the result \(33,\)"):
        tcu.sum(tensor, axis=1, out=torch.empty(32, device="cuda"))
    with pytest.raises(ParameterError, match="variant='single-pass' with axis on a GPU"):
        tcu.sum(tensor, axis=1, variant="single-pass")


def test_cupy_and_jax(torch) -> None:
    x = np.random.default_rng(0).standard_normal((50, 300)).astype(np.float32)
    cupy = library_or_skip("cupy")
    for axis in (0, 1, (0, 1)):
        found = tcu.sum(cupy.asarray(x), axis=axis)
        assert isinstance(found, cupy.ndarray)
        assert np.array_equal(found.get(), tcu.sum(x, axis=axis))
    jax = library_or_skip("jax")
    assert np.array_equal(np.asarray(tcu.sum(jax.numpy.asarray(x), axis=1)), tcu.sum(x, axis=1))


@pytest.mark.parametrize(("shape", "axis"), [((100, 40_000), 1), ((40_000, 100), 0)], ids=["rows", "columns"])
def test_a_captured_graph(torch, shape, axis) -> None:
    x = torch.randn(*shape, device="cuda")
    tcu.sum(x, axis=axis)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = tcu.sum(x, axis=axis)
    x.copy_(torch.randn(*shape, device="cuda"))
    graph.replay()
    assert np.array_equal(codes(result), codes(tcu.sum(x, axis=axis)))
