"""Contract of offsets: m segments of n elements are named by m + 1 whole numbers from 0 to n that never decrease.

Anything else is refused with an error that names the first offset that is wrong.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcu.errors import DtypeError, ParameterError, ShapeError
from tcu.ops.offsets import checked_offsets


@given(st.lists(st.integers(-1, 6), min_size=1, max_size=8), st.integers(0, 6))
def test_exactly_the_offsets_that_cut_a_line_are_taken(offsets: list[int], n: int) -> None:
    pieces = [range(start, stop) for start, stop in itertools.pairwise(offsets)]
    fits = [i for piece in pieces for i in piece] == list(range(n)) and offsets == sorted(offsets)
    fits = fits and (offsets[0], offsets[-1]) == (0, n)
    for given_as in (offsets, np.array(offsets, np.int32), np.array(offsets)):
        try:
            result = checked_offsets(given_as, n)
        except ParameterError:
            assert not fits
        else:
            assert fits
            assert result.tolist() == offsets
            assert result.dtype == np.int64


def test_int64_is_not_copied_and_other_layouts_are() -> None:
    offsets = np.array([0, 2, 5])
    assert np.shares_memory(checked_offsets(offsets, 5), offsets)
    assert checked_offsets(offsets[::-1][::-1], 5).tolist() == [0, 2, 5]
    spread = np.zeros(6, np.int64)
    spread[::2] = offsets
    assert checked_offsets(spread[::2], 5).flags.c_contiguous
    assert checked_offsets(offsets.astype(">i4"), 5).tolist() == [0, 2, 5]
    assert checked_offsets([0], 0).tolist() == [0]


REFUSED: list[tuple[Any, type[Exception], str]] = [
    ([1, 5], ParameterError, "offsets start at 1: the first segment starts at 0"),
    ([0, 3], ParameterError, "offsets end at 3, and x has 5 elements: the last offset is 5"),
    ([0, 4, 2, 1, 5], ParameterError, "offsets decrease from 4 to 2 at index 2: sort them"),
    ([0, 2**62, 5], ParameterError, "offsets decrease from 4611686018427387904 to 5 at index 2"),
    ([], ShapeError, r"offsets is empty: m segments have m \+ 1 offsets"),
    ([[0, 5]], ShapeError, r"offsets has shape \(1, 2\): give one line of them"),
    (5, ShapeError, r"offsets has shape \(\): give one line of them"),
    ([0.0, 5.0], DtypeError, "offsets has dtype float64: give int32 or int64"),
    ([False, True], DtypeError, "offsets has dtype bool"),
    (np.array([0, 5], np.uint64), DtypeError, "offsets has dtype uint64"),
    ([0, 2**70], DtypeError, "offsets has dtype object"),
    ("05", DtypeError, "offsets has dtype str"),
    (None, DtypeError, "offsets has dtype object"),
    (
        [0, [1, 2]],
        DtypeError,
        r"offsets is no line of whole numbers \(.*\): use numpy\.cumsum of lengths",
    ),
    (np.ma.array([0, 5]), DtypeError, "offsets is a masked array"),
]
"""Offsets of 5 elements."""


@pytest.mark.parametrize(("offsets", "error", "message"), REFUSED)
def test_what_is_refused(offsets: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        checked_offsets(offsets, 5)


def test_tensors() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)
    for dtype in (torch.int32, torch.int64):
        assert checked_offsets(torch.tensor([0, 2, 5], dtype=dtype), 5).tolist() == [0, 2, 5]
    with pytest.raises(DtypeError, match="offsets has dtype float32"):
        checked_offsets(torch.tensor([0.0, 5.0]), 5)
    with pytest.raises(ParameterError, match="offsets is on the meta device and holds no numbers"):
        checked_offsets(torch.zeros(2, dtype=torch.int64, device="meta"), 5)
