"""Arrays on which sums go wrong: of every size of number, of one sign, cancelling, inf, NaN, zeros."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.formats import format_of

__all__ = ["KINDS", "draw", "misaligned"]

Generator = np.random.Generator


def _any_code(rng: Generator, n: int, dtype: Any) -> npt.NDArray[Any]:
    fmt = format_of(dtype)
    return rng.integers(0, 1 << fmt.bits, n, dtype=np.uint64).astype(fmt.code_dtype).view(fmt.dtype)


def _finite(rng: Generator, n: int, dtype: Any) -> npt.NDArray[Any]:
    """Every exponent alike, no inf and no NaN."""
    fmt = format_of(dtype)
    x = _any_code(rng, n, dtype)
    codes = x.view(fmt.code_dtype)
    codes[(codes & (fmt.sign_code - 1)) >= fmt.infinity_code] &= fmt.sign_code
    return x


def _subnormal(rng: Generator, n: int, dtype: Any) -> npt.NDArray[Any]:
    fmt = format_of(dtype)
    codes = rng.integers(0, 4 << fmt.fraction_bits, n, dtype=np.uint64)
    codes |= rng.integers(0, 2, n, dtype=np.uint64) << np.uint64(fmt.bits - 1)
    return codes.astype(fmt.code_dtype).view(fmt.dtype)


def _cancelling(rng: Generator, n: int, dtype: Any) -> npt.NDArray[Any]:
    half = _finite(rng, n // 2, dtype)
    x = np.concatenate([half, -half, rng.standard_normal(n - 2 * (n // 2)).astype(dtype)])
    rng.shuffle(x.view(format_of(dtype).code_dtype))
    return x


def _one_large(rng: Generator, n: int, dtype: Any) -> npt.NDArray[Any]:
    x = (rng.standard_normal(n) * 2.0**-8).astype(dtype)
    if n:
        x[rng.integers(n)] = np.array(30000.0).astype(dtype)
    return x


def _special(rng: Generator, n: int, dtype: Any) -> npt.NDArray[Any]:
    x = rng.standard_normal(n).astype(dtype)
    for value in (np.inf, -np.inf, np.nan):
        if n and rng.random() < 0.5:
            x[rng.integers(n)] = value
    return x


def _zeros(rng: Generator, n: int, dtype: Any) -> npt.NDArray[Any]:
    x = np.maximum(rng.standard_normal(n), 0).astype(dtype)
    return -x if rng.random() < 0.3 else x


KINDS: dict[str, Callable[[Generator, int, Any], npt.NDArray[Any]]] = {
    "normal": lambda rng, n, dtype: rng.standard_normal(n).astype(dtype),
    "uniform": lambda rng, n, dtype: rng.random(n).astype(dtype),
    "scaled": lambda rng, n, dtype: (rng.standard_normal(n) * 2.0 ** rng.integers(-12, 12)).astype(dtype),
    "spread": lambda rng, n, dtype: (rng.standard_normal(n) * 2.0 ** rng.integers(-14, 14, n)).astype(dtype),
    "finite": _finite,
    "any code": _any_code,
    "subnormal": _subnormal,
    "cancelling": _cancelling,
    "one large": _one_large,
    "special": _special,
    "zeros": _zeros,
}


def draw(rng: Generator, n: int, dtype: Any, kind: str | None = None) -> npt.NDArray[Any]:
    """n numbers of a kind, or of any."""
    with np.errstate(all="ignore"):
        return KINDS[kind or rng.choice(list(KINDS))](rng, n, dtype)


def misaligned(x: npt.NDArray[Any], by: int) -> npt.NDArray[Any]:
    """The same numbers from an address that is ``by`` elements past a multiple of 16 bytes."""
    room = np.empty(x.size + by + 16, x.dtype)
    start = (-room.ctypes.data % 16) // x.itemsize + by
    place = room[start : start + x.size]
    place[:] = x
    return place
