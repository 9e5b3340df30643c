"""Contract: Dask arrays of CuPy chunks give the bits of those of NumPy chunks, as CuPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gpu_support import gpu_or_skip, library_or_skip, unit_or_skip

import tcu

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("operation", ["sum", "mean", "norm", "fsum", "fmean", "fnorm", "dot", "fdot"])
def test_cupy_chunks(operation: str, dtype: Any) -> None:
    unit = unit_or_skip(gpu_or_skip()).name
    cupy = library_or_skip("cupy")
    da = pytest.importorskip("dask.array")
    x = np.random.default_rng(1).standard_normal((60, 70)).astype(dtype)
    chunks = ((13, 40, 7), (70,))
    on_host = da.from_array(x, chunks=chunks)
    on_gpu = da.from_array(cupy.asarray(x), chunks=chunks, asarray=False)
    function, options = getattr(tcu, operation), {"unit": unit} if operation in ("sum", "mean") else {}
    arrays = 2 if operation in ("dot", "fdot") else 1
    wanted = function(*[on_host] * arrays, **options).compute()
    found = function(*[on_gpu] * arrays).compute(scheduler="synchronous")
    assert isinstance(found, cupy.ndarray)
    assert found.get().tobytes() == wanted.tobytes()
    if options:
        rows = function(on_gpu, axis=0).compute(scheduler="synchronous")
        assert isinstance(rows, cupy.ndarray)
        assert np.array_equal(rows.get(), function(on_host, axis=0, **options).compute())


def test_cupy_scans() -> None:
    unit_or_skip(gpu_or_skip())
    cupy = library_or_skip("cupy")
    da = pytest.importorskip("dask.array")
    x = np.arange(1000, dtype=np.float32)
    found = tcu.cumsum(da.from_array(cupy.asarray(x), chunks=300, asarray=False)).compute(
        scheduler="synchronous"
    )
    assert isinstance(found, cupy.ndarray)
    assert np.array_equal(found.get(), np.cumsum(x))
