"""Contract of sums along axes on a GPU: every row has the bits that the model gives it alone.

Random shapes, axes, layouts and dtypes (``--rows`` says how many), on numbers
of all kinds: inf and NaN stay in their rows.  Every length up to a few loads of
a warp, for all the ways in which rows share one.
"""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from bits import same
from gpu_support import cases_of, gpu_or_skip, library_or_skip, shares, unit_or_skip
from numbers_of_all_kinds import KINDS, draw
from random_layouts import random_layout, random_shape
from test_gpu_sums import to_gpu

import tcu
from tcu.errors import InvalidOperationError, ParameterError, ShapeError

pytestmark = pytest.mark.gpu

DTYPES = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]
dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)


@pytest.fixture(scope="module", autouse=True)
def torch() -> Any:
    unit_or_skip(gpu_or_skip())
    return library_or_skip("torch")


def check(x: Any, tensor: Any, **options: Any) -> None:
    unit = gpu_or_skip().units[0].name
    with np.errstate(all="ignore"):
        expected = tcu.sum(x, unit=unit, **options)
    same(tcu.sum(tensor, **options), expected, x.shape, options)


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


def check_exact(x: Any, tensor: Any, axis: int, dtype: str | None = None) -> None:
    for function in (tcu.fsum, tcu.fmean):
        with np.errstate(all="ignore"):
            try:
                expected = function(x, axis=axis, dtype=dtype)
            except InvalidOperationError:  # inf and -inf in one row
                continue
        same(function(tensor, axis=axis, dtype=dtype), expected, x.shape, function.__name__)


@dtypes
def test_exact_sums_of_rows(torch, dtype) -> None:
    """Lanes, warps and parts of rows; alignments, distances, and numbers that fail the proof of the fast way."""
    rng = np.random.default_rng(21)
    for case, length in enumerate([*range(1, 20), 64, 65, 257, 1000, 2049, 5000, 65_000, 300_001]):
        rows, gap = max(2, min(500, 100_000 // length)), case % 4
        x = draw(rng, rows * (length + gap), dtype, list(KINDS)[case % len(KINDS)]).reshape(
            rows, length + gap
        )
        tensor = to_gpu(torch, x, case % 9)
        target = ["float16", "bfloat16", "float32", "float64"][case % 4]
        check_exact(x[:, :length], tensor[:, :length], 1, target)


@shares
def test_random_axes_of_random_layouts(torch, request, share) -> None:
    rng = np.random.default_rng([9, share])
    for case in cases_of(share, request.config.getoption("--rows")):
        shape = random_shape(rng, case)
        x = draw(rng, math.prod(shape), DTYPES[int(rng.integers(4))]).reshape(shape)
        x, tensor = random_layout(rng, x, to_gpu(torch, x, int(rng.integers(9))))
        axes = tuple(int(axis) for axis in rng.choice(x.ndim, rng.integers(1, x.ndim + 1), replace=False))
        target = [None, "float16", "bfloat16", "float32", "float64"][int(rng.integers(5))]
        check(x, tensor, axis=axes if case % 2 else axes[0], keepdims=case % 4 == 0, dtype=target)


def test_options_means_and_out(torch) -> None:
    rng = np.random.default_rng(10)
    x = draw(rng, 33 * 3000, np.float16, "normal").reshape(33, 3000)
    tensor = to_gpu(torch, x)
    unit = gpu_or_skip().units[0].name
    for options in (
        {"variant": "short-chain", "chain": 3},
        {"block": 64},
        {"dtype": "float64"},
        {"dtype": "bfloat16"},
    ):
        check(x, tensor, axis=1, **options)
    same(tcu.mean(tensor, axis=1), tcu.mean(x, axis=1, unit=unit))
    out = torch.empty(33, device="cuda")
    assert tcu.sum(tensor, axis=1, out=out) is out
    same(out, tcu.sum(x, axis=1, unit=unit))
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
    same(result, tcu.sum(x, axis=axis))
