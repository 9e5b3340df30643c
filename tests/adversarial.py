"""Operands built to hurt, for tests: the library's own, with what TF32 must drop."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.formats import get_format
from tcu.probes import inputs

MODES = list(inputs.CODE_MODES)


def codes(rng: np.random.Generator, name: str, shape: tuple[int, ...], mode: str) -> npt.NDArray[Any]:
    """Codes of a format, as they lie in memory."""
    fmt = get_format(name)
    word = inputs.codes(rng, fmt, shape, mode)
    if fmt.storage_shift:
        word |= rng.integers(0, 1 << fmt.storage_shift, shape, dtype=np.uint64).astype(word.dtype)
    return word
