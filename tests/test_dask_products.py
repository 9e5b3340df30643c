"""Contract of ``tcu.matmul`` on Dask arrays: lazy, with the bits of arrays in memory whatever the chunks, and an error,
before anything is computed, for what cannot be.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from bits import same

import tcu
from tcu.errors import DtypeError, ParameterError, ShapeError

da = pytest.importorskip("dask.array", reason="Dask is not installed")

RNG = np.random.default_rng(5)
SHAPES = [
    ((30, 400), (400, 50)), ((400,), (400, 50)), ((30, 400), (400,)), ((400,), (400,)), ((2, 30, 400), (400, 50)),
    ((4, 1, 30, 400), (3, 400, 50)), ((0, 4), (4, 5)), ((3, 0), (0, 5)),
]  # fmt: skip


@pytest.mark.parametrize(("a", "b"), SHAPES)
def test_the_bits_are_those_of_arrays_whatever_the_chunks(a: Any, b: Any) -> None:
    x, y = (RNG.standard_normal(shape).astype(np.float16) for shape in (a, b))
    bias = RNG.standard_normal(b[-1] if len(b) > 1 else 1).astype(np.float32)
    expected = tcu.matmul(x, y, bias=bias, scale_a=2.5)
    for chunks in ((7, 11), (16, 3), (-1, -1)):
        lazy = [da.from_array(each, chunks=size) for each, size in zip((x, y), chunks, strict=True)]
        found = tcu.matmul(*lazy, bias=da.from_array(bias, chunks=13), scale_a=2.5)
        assert isinstance(found, da.Array)
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
        same(np.asarray(found.compute()), np.asarray(expected))
    mixed = tcu.matmul(da.from_array(x, chunks=9), y, plan="chain", dtype="bfloat16")
    same(np.asarray(mixed.compute()), np.asarray(tcu.matmul(x, y, plan="chain", dtype="bfloat16")))


def test_nothing_is_computed_before_it_is_asked_for() -> None:
    def fail(block: Any) -> Any:
        raise AssertionError("computed")

    lazy = da.ones((20, 20), chunks=5, dtype=np.float16).map_blocks(
        fail, dtype=np.float16, meta=np.empty((0, 0), np.float16)
    )
    assert tcu.matmul(lazy, lazy, scale_b=2).numblocks == (4, 4)


X = da.ones((4, 6), chunks=2)


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: tcu.matmul(X, X), ShapeError, "a needs as many columns as b has rows"),
        (lambda: tcu.matmul(X, X.T, out=np.empty((4, 4))), ParameterError, "out with a Dask array: a lazy result has no place yet"),
        (lambda: tcu.matmul(X, X.T, unit="V100"), DtypeError, "V100 does not compute binary64"),
        (lambda: tcu.matmul(X, X.T, bias=np.ones(3)), ShapeError, r"bias has shape \(3,\)"),
        (lambda: tcu.matmul(X[X[:, 0] > 0], X.T), ParameterError, r"a has chunks of unknown sizes: compute them, with a.compute_chunk_sizes\(\)"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_said_at_once(call: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        call()
