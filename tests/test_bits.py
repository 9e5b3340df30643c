"""Contract of the comparison that tests of bits make: it passes what has the same bits, and names what has not."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from bits import codes, same

NUMBERS = np.array([[1.5, -0.0, np.nan], [0.0, np.inf, 2.0]])


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_the_same_bits_pass_in_any_layout(dtype: Any) -> None:
    x = NUMBERS.astype(dtype)
    same(x, x.copy(order="F"))
    same(np.stack([x, x], -1)[..., 0], x)
    same(x[0, 1], np.asarray(x[0, 1]))
    assert codes(x).dtype == f"u{x.itemsize}"


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (NUMBERS.reshape(3, 2), r"\(3, 2\)"),
        (NUMBERS.astype(np.float32), "float32"),
        (np.where(NUMBERS == 0, 0.0, NUMBERS), r"at \(0, 1\) 0x0, expected 0x80{15}; 1 of 6 differ"),
        (np.where(np.isnan(NUMBERS), -np.nan, NUMBERS), r"at \(0, 2\) 0xf.*; 1 of 6 differ"),
        (np.nextafter(NUMBERS, 9), r"at \(0, 0\) 0x3ff80{11}1, expected 0x3ff80{12}; 5 of 6 differ"),
    ],
    ids=["shape", "dtype", "sign of zero", "sign of NaN", "last bits"],
)
def test_what_differs_is_named(found: Any, message: str) -> None:
    with pytest.raises(AssertionError, match=f"a sum.*{message}"):
        same(found, NUMBERS, "a sum")


def test_tensors_are_compared_with_arrays() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        x = torch.tensor(NUMBERS).to(dtype)
        array = codes(x).view(ml_dtypes.bfloat16 if dtype is torch.bfloat16 else str(dtype)[6:])
        same(x, array)
        same(array.T, x.T)
        with pytest.raises(AssertionError, match="1 of 6 differ"):
            same(x.abs(), array)
