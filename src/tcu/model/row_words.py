"""Sums of rows of terms as whole numbers, which are the same in any order, and in any parts that are added up."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.model import compiled

__all__ = ["totals_of", "words_of"]

Rows = npt.NDArray[Any]


def words_of(terms: Rows) -> Rows:
    """The words (r, 2), or (r, 4) in binary64, of the sums of terms (r, n), which are 2^44 (2^80) at most."""
    kernels: Any = compiled.load("whole_sums")
    is_wide = terms.dtype == np.float64
    words = np.empty((len(terms), 4 if is_wide else 2), np.int64)
    (kernels.whole_sums64 if is_wide else kernels.whole_sums)(terms, words)
    return words


def totals_of(words: Rows) -> Rows:
    """The sums in binary64, each rounded once (twice of binary64)."""
    kernels: Any = compiled.load("whole_sums")
    totals = np.empty(len(words))
    (kernels.totals if words.shape[1] == 2 else kernels.totals64)(words, totals)
    return totals
