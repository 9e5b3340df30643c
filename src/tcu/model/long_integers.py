"""Products of Python's integers by number-theoretic transforms, for where GMP is not installed."""

from __future__ import annotations

from typing import Any

import numpy as np

from tcu.model import ntt

__all__ = ["product_by_transform"]


def product_by_transform(a: int, b: int) -> int:
    """a·b; the same object twice is transformed once."""
    x = _halves(a)
    found = ntt.convolve(x, x if a is b else _halves(b))
    number = int.from_bytes(found.astype("<u2", copy=False).tobytes(), "little")
    return number if (a < 0) == (b < 0) else -number


def _halves(a: int) -> Any:
    """The digits of 16 bits of its magnitude, as a row."""
    length = -(-a.bit_length() // 16)
    line = np.frombuffer(abs(a).to_bytes(2 * length, "little"), "<u2")
    return line.astype(np.uint16, copy=False)[None]
