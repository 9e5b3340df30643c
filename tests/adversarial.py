"""Operands built to hurt: windows of exponents, cancellation, subnormals, inf, NaN, any bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.formats import get_format

MODES = ["any bits", "one binade", "three binades", "wide", "powers of two", "near zero", "near overflow"]


def codes(rng: np.random.Generator, name: str, shape: tuple[int, ...], mode: str) -> npt.NDArray[Any]:
    """Codes of a floating-point format, as they lie in memory."""
    fmt = get_format(name)
    if not fmt.is_float:
        return rng.integers(0, 1 << fmt.bits, shape, dtype=np.uint64).astype(fmt.code_dtype)
    if mode == "any bits":
        code = rng.integers(0, 1 << fmt.bits, shape, dtype=np.uint64)
    else:
        top = (1 << fmt.exponent_bits) - 1
        low = {"near zero": 0, "near overflow": top - 3}.get(mode, int(rng.integers(0, top + 1)))
        span = {"one binade": 1, "powers of two": 60, "wide": 40}.get(mode, 3)
        field = np.minimum(low + rng.integers(0, span, shape), top).astype(np.uint64)
        fraction = rng.integers(0, 1 << fmt.fraction_bits, shape, dtype=np.uint64)
        plain = mode == "powers of two" or mode == "wide"
        fraction[rng.random(shape) < (0.7 if plain else 0.2)] = 0
        sign = rng.integers(0, 2, shape).astype(np.uint64)
        code = sign << np.uint64(fmt.bits - 1) | field << np.uint64(fmt.fraction_bits) | fraction
        code[rng.random(shape) < 0.05] = 0
    word = code << np.uint64(fmt.storage_shift)
    if fmt.storage_shift:  # what TF32 must drop
        word |= rng.integers(0, 1 << fmt.storage_shift, shape, dtype=np.uint64)
    return word.astype(fmt.code_dtype)
