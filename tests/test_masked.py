"""Contract: no function reads what is masked.

Every public function refuses masked arrays of NumPy for each of its arrays, in words that name the argument: NumPy itself
would hand out what is masked, too.  Of sums by index: tests/test_index_sums.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from operations import ROWS, needed

import tcu
from tcu.errors import DtypeError
from tcu.surfaces.functions import FUNCTIONS


def masked(x: Any, dtype: Any = np.float32) -> Any:
    array = np.array(x, dtype)
    return np.ma.array(array, mask=np.arange(array.size).reshape(array.shape) == 1)


LINE, TABLE, SQUARE = masked([1, 2, 3, 4]), masked(np.ones((2, 3))), np.ones((2, 2), np.float32)
PLAIN, LINES, LIMBS = np.ones(4, np.float32), np.ones((2, 3), np.float32), masked([[1, 2]], np.uint64)
GOOD: dict[str, Any] = {"x": PLAIN, "y": PLAIN, "offsets": [0, 2, 4]}
BAD = {"x": LINE, "y": LINE, "offsets": masked([0, 2, 4], np.int64)}
CALLS: dict[str, Callable[[], Any]] = {
    **{f"{bad} of {name}": partial(getattr(tcu, name), *(BAD[each] if each == bad else GOOD[each] for each in needed(function)))
       for name, function in FUNCTIONS.items() for bad in needed(function)},
    "weight of layer_norm": lambda: tcu.layer_norm(LINES, weight=masked([1, 2, 3])),
    "bias of layer_norm": lambda: tcu.layer_norm(LINES, bias=masked([1, 2, 3])),
    "residual of rms_norm": lambda: tcu.rms_norm(LINES, residual=TABLE),
    "where of sum": lambda: tcu.sum(PLAIN, where=masked([1, 0, 1, 1], bool)),
    "x of cross_entropy": lambda: tcu.cross_entropy(TABLE, [0, 1]),
    "x of polyval": lambda: tcu.polyval(LINE, PLAIN),
    "c of polyval": lambda: tcu.polyval(PLAIN, LINE),
    "b of matmul": lambda: tcu.matmul(SQUARE, masked(SQUARE)),
    "weights of segment_matmul": lambda: tcu.segment_matmul(LINES, masked(np.ones((2, 3, 2))), [0, 1, 2]),
    "b of mma": lambda: tcu.mma(SQUARE, masked(SQUARE), unit="V100"),
    "x of fft": lambda: tcu.fft.fft(LINE),
    "x of rfft": lambda: tcu.fft.rfft(LINE),
    "x of dct": lambda: tcu.fft.dct(LINE),
    "y of convolve": lambda: tcu.fft.convolve(PLAIN, LINE),
    "a of multiply": lambda: tcu.integers.multiply(masked([3, 4], object), 5),
    "b of multiply_polynomials": lambda: tcu.integers.multiply_polynomials([1, 2], masked([3, 4], object)),
    "a of multiply_limbs": lambda: tcu.integers.multiply_limbs(LIMBS, LIMBS),
    "n of powmod_limbs": lambda: tcu.integers.powmod_limbs(LIMBS.data, LIMBS, LIMBS.data),
    "x of ntt": lambda: tcu.integers.ntt(masked([1, 2, 3, 4], np.uint64)),
    "x of Machine.matmul": lambda: tcu.Machine(4, 0).matmul(masked(SQUARE), SQUARE),
    "x of ExactSum": lambda: tcu.ExactSum().add(LINE),
}  # fmt: skip


def test_every_operation_is_called() -> None:
    assert {f"x of {name}" for name in ROWS} | {"y of dot", "offsets of segment_sum"} <= CALLS.keys()


@pytest.mark.parametrize("where", CALLS)
def test_masked_arrays_are_refused(where: str) -> None:
    with pytest.raises(DtypeError, match=rf"\b{where.partition(' ')[0]} is a masked array: "):
        CALLS[where]()
