"""Contract of tcu.fft's functions of Dask arrays: lazy, with the bits of arrays in memory whatever the chunks of the other
axes, and an error, before anything is computed, for what cannot be.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from bits import same

from tcu import fft
from tcu.errors import DtypeError, ParameterError

da = pytest.importorskip("dask.array", reason="Dask is not installed")

X = np.random.default_rng(5).standard_normal((6, 10, 4))
FUNCTIONS: list[Any] = [
    lambda x: fft.fft(x, axis=1), lambda x: fft.ifft(x, 7, axis=1), lambda x: fft.rfft(x, 12, axis=1), lambda x: fft.irfft(x, axis=1),
    lambda x: fft.hfft(x, axis=1), lambda x: fft.ihfft(x, axis=1), lambda x: fft.fft(x.astype("f4"), axis=1), lambda x: fft.fft(x.astype("i2"), axis=1),
    lambda x: fft.fft(x.astype("f2"), axis=1), lambda x: fft.dct(x, axis=1), lambda x: fft.dct(x.astype("f2"), axis=1),
    lambda x: fft.dst(x, 3, n=13, axis=1, norm="ortho"), lambda x: fft.idct(x, axis=1), lambda x: fft.fftshift(fft.fft(x, axis=1), 1),
    lambda x: fft.fft(x[..., :2].rechunk((2, -1, -1)) if isinstance(x, da.Array) else x[..., :2], axis=1, pairs=True),
]  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_bits_are_those_of_arrays_whatever_the_chunks(function: Any) -> None:
    right = function(X)
    for chunks in ((2, -1, 3), (1, -1, 1), (4, -1, -1)):
        lazy = function(da.from_array(X, chunks=chunks))
        assert isinstance(lazy, da.Array)
        assert (lazy.shape, lazy.dtype) == (right.shape, right.dtype)
        same(lazy.compute(), np.ascontiguousarray(right), chunks)
        same(lazy.compute(scheduler="synchronous"), np.ascontiguousarray(right), chunks)


def test_several_axes_are_transformed_where_they_are_whole() -> None:
    lazy = da.from_array(X, chunks=(1, -1, -1))
    same(fft.fft2(lazy).compute(), fft.fft2(X))
    same(fft.rfft2(lazy).compute(), fft.rfft2(X))
    same(fft.irfft2(fft.rfft2(lazy)).compute(), fft.irfft2(fft.rfft2(X)))


def test_nothing_is_computed_before_it_is_asked_for() -> None:
    def fail(block: Any) -> Any:
        raise AssertionError("computed")

    lazy = da.ones((20, 20), chunks=(5, -1)).map_blocks(fail, dtype=np.float64, meta=np.empty((0, 0)))
    assert fft.fft(lazy).numblocks == (4, 1)
    assert fft.dct(lazy).numblocks == (4, 1)


Y = da.ones((4, 6), chunks=(2, 3))


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: fft.fft(Y), ParameterError, r"x has 2 chunks along axis 1, all of which a transform takes: make them one, with x\.rechunk\({1: -1}\)"),
        (lambda: fft.dct(Y, n=1 << 62), ParameterError, r"a transform of .* numbers: give at most 2\^31"),
        (lambda: fft.dct(Y, axis=0), ParameterError, "x has 2 chunks along axis 0, all of which a transform takes"),
        (lambda: fft.fft(da.ones((4, 6, 2), chunks=(2, -1, 1)), axis=1, pairs=True), ParameterError, "x has 2 chunks along axis 2"),
        (lambda: fft.fft(Y[Y[:, 0] > 0].rechunk({1: -1}), axis=1), ParameterError, r"x has chunks of unknown sizes: compute them, with x\.compute_chunk_sizes\(\)"),
        (lambda: fft.fft(Y.astype(np.longdouble).rechunk(-1)), DtypeError, "x has dtype .*128: give complex64"),
        (lambda: fft.dct(Y.astype(np.longdouble).rechunk(-1)), DtypeError, "x has dtype .*128: give complex64"),
        (lambda: fft.convolve(Y, Y), ParameterError, "x is a Dask array, which this function would compute as a whole"),
        (lambda: fft.rfft(Y + 1j), DtypeError, "x has dtype complex128, and rfft takes real numbers"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_said_at_once(call: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        call()
