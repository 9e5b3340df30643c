"""Contract of the rows of arrays in the host's memory: however they lie, they become lines without gaps and with the same
numbers, and arrays with an empty axis have as many results as the others say.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tcu
from tcu.engines.host.rows import lines_of

DTYPES = ("float16", "float32", "float64", ">f4")
SHAPES = (
    (300, 70),
    (70, 300),
    (5, 64, 33),
    (33, 5, 64),
    (200, 1, 90),
    (64, 17, 3),
    (4096, 128),
    (7,),
    (3, 0, 5),
    (0, 4),
)


def layouts(shape: tuple[int, ...], dtype: str) -> Iterator[np.ndarray[Any, Any]]:
    x = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    yield x
    yield np.asfortranarray(x)
    yield x[::2]
    yield x[..., ::-1]
    yield x.swapaxes(0, -1)
    yield np.broadcast_to(x, (3, *shape))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_rows_become_lines(shape: tuple[int, ...], dtype: str) -> None:
    for x in layouts(shape, dtype):
        for order in itertools.permutations(range(x.ndim)):
            for along in range(1, x.ndim + 1):
                rows = x.transpose(order)
                lines = lines_of(rows, "float32", along)
                count = int(np.prod(rows.shape[: rows.ndim - along]))
                assert lines.shape == (count, int(np.prod(rows.shape[rows.ndim - along :])))
                assert lines.flags.c_contiguous
                assert lines.flags.aligned
                assert lines.dtype == np.dtype("float32")
                np.testing.assert_array_equal(lines, np.array(rows, "float32").reshape(lines.shape))


def test_lines_that_lie_there_already_are_not_copied() -> None:
    x = np.zeros((100, 4, 5), np.float32)
    assert np.shares_memory(lines_of(x, np.float32, 2), x)
    assert not np.shares_memory(lines_of(x.T, np.float32), x)


@pytest.mark.parametrize("axis", [(0, 1), (1, 2), (0, 1, 2), 1])
@pytest.mark.parametrize(
    ("name", "empty"), [("sum", 0.0), ("fsum", 0.0), ("norm", 0.0), ("logsumexp", -np.inf)]
)
def test_of_empty_axes_beside_others(name: str, empty: float, axis: int | tuple[int, ...]) -> None:
    """The logarithm of a sum over two axes, one of them empty, was an error of NumPy's once."""
    x = np.empty((3, 0, 5), np.float32)
    found = getattr(tcu, name)(x, axis=axis)
    np.testing.assert_array_equal(found, np.full_like(x.sum(axis=axis), empty))
