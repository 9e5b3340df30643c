"""Contract: no function reads what is masked.

Every public function refuses masked arrays of NumPy for each of its arrays, in words that name the argument: NumPy itself
would hand out what is masked, too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import tcu
from tcu.errors import DtypeError


def masked(x: Any, dtype: Any = np.float32) -> Any:
    array = np.array(x, dtype)
    return np.ma.array(array, mask=np.arange(array.size).reshape(array.shape) == 1)


LINE, TABLE, SQUARE = masked([1, 2, 3, 4]), masked(np.ones((2, 3))), np.ones((2, 2), np.float32)
PLAIN, ROWS = np.ones(4, np.float32), np.ones((2, 3), np.float32)
WHOLE, LIMBS = masked([0, 1, 1, 0], np.int64), masked([[1, 2]], np.uint64)
CALLS: dict[str, Callable[[], Any]] = {
    **{f"x of {name}": partial(getattr(tcu, name), LINE)
       for name in ("sum", "mean", "var", "std", "norm", "cumsum", "fsum", "fmean", "fvar", "fstd", "fnorm", "fcumsum")},
    **{f"x of {name}": partial(getattr(tcu, name), TABLE, axis=1)
       for name in ("softmax", "log_softmax", "logsumexp", "layer_norm", "rms_norm", "normalize")},
    **{f"y of {name}": partial(getattr(tcu, name), PLAIN, LINE) for name in ("dot", "fdot")},
    **{f"x of {name}": partial(getattr(tcu, name), LINE, [0, 2, 4])
       for name in ("segment_sum", "segment_fsum", "segment_mean", "segment_var", "segment_cumsum", "segment_norm")},
    "offsets of segment_sum": lambda: tcu.segment_sum(PLAIN, masked([0, 2, 4], np.int64)),
    "weight of layer_norm": lambda: tcu.layer_norm(ROWS, weight=masked([1, 2, 3])),
    "bias of layer_norm": lambda: tcu.layer_norm(ROWS, bias=masked([1, 2, 3])),
    "residual of rms_norm": lambda: tcu.rms_norm(ROWS, residual=TABLE),
    "where of sum": lambda: tcu.sum(PLAIN, where=masked([1, 0, 1, 1], bool)),
    "x of cross_entropy": lambda: tcu.cross_entropy(TABLE, [0, 1]),
    "x of index_sum": lambda: tcu.index_sum(LINE, [0, 1, 0, 1], 2),
    "index of index_mean": lambda: tcu.index_mean(PLAIN, WHOLE, 2),
    "index of bincount": lambda: tcu.bincount(WHOLE),
    "x of histogram": lambda: tcu.histogram(LINE),
    "keys of reduce_by_key": lambda: tcu.reduce_by_key(WHOLE, PLAIN),
    "gradient of embedding_gradient": lambda: tcu.embedding_gradient(TABLE, [0, 1], 2),
    "x of polyval": lambda: tcu.polyval(LINE, PLAIN),
    "c of polyval": lambda: tcu.polyval(PLAIN, LINE),
    "b of matmul": lambda: tcu.matmul(SQUARE, masked(SQUARE)),
    "weights of segment_matmul": lambda: tcu.segment_matmul(ROWS, masked(np.ones((2, 3, 2))), [0, 1, 2]),
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


@pytest.mark.parametrize("where", CALLS)
def test_masked_arrays_are_refused(where: str) -> None:
    with pytest.raises(DtypeError, match=rf"\b{where.partition(' ')[0]} is a masked array: "):
        CALLS[where]()
