"""Sums of rows of terms, each rounded to a whole number, on one core; compiled by Numba.

Terms of binary32 are 2^44 at most; those of binary64 2^80, each in two whole numbers, one 2^40 times the other's unit.
"""
# Compiled by Numba, which types them.
# mypy: ignore-errors

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
from numba import njit

from tcu.model import elementary
from tcu.model.elementary import SCALE64, fma, nearest
from tcu.model.kernels import _compiled

__all__ = ["PIECE", "UP", "joined", "of_two", "whole_sums", "whole_sums64"]

_FINGERPRINT = zlib.crc32(Path(elementary.__file__).read_bytes())
PIECE = 1 << 18
"""Terms whose sum stays in a word; then it goes into two."""
_HALF, _MINUS, UP = 2.0 ** -(SCALE64 // 2), -(2.0 ** (SCALE64 // 2)), 2.0 ** (SCALE64 // 2)


@njit(nogil=True, inline="always")
def joined(high, low):
    """high · 2^32 + low, rounded once to binary64."""
    return fma(np.float64(high + (low >> 32)), 4294967296.0, np.float64(low & 0xFFFFFFFF))


@njit(nogil=True, inline="always")
def of_two(term):
    """A term of binary64 as (units of 2^40, units)."""
    above = nearest(term * _HALF)
    return np.int64(above), np.int64(nearest(fma(above, _MINUS, term)))


def _build_whole_sums(fingerprint):
    @_compiled
    def whole_sums(terms, totals):
        """Of rows of binary32, in binary64."""
        fingerprint  # noqa: B018
        for row in range(terms.shape[0]):
            high, low = np.int64(0), np.int64(0)
            for first in range(0, terms.shape[1], PIECE):
                part = np.int64(0)
                for i in range(first, min(first + PIECE, terms.shape[1])):
                    part += np.int64(nearest(terms[row, i]))
                high += part >> 32
                low += part & 0xFFFFFFFF
            totals[row] = joined(high, low)

    return whole_sums


def _build_whole_sums64(fingerprint):
    @_compiled
    def whole_sums64(terms, totals):
        """Of rows of binary64."""
        fingerprint  # noqa: B018
        for row in range(terms.shape[0]):
            high, low = np.int64(0), np.int64(0)
            high_below, low_below = np.int64(0), np.int64(0)
            for first in range(0, terms.shape[1], PIECE):
                upper, lower = np.int64(0), np.int64(0)
                for i in range(first, min(first + PIECE, terms.shape[1])):
                    above, below = of_two(terms[row, i])
                    upper += above
                    lower += below
                high += upper >> 32
                low += upper & 0xFFFFFFFF
                high_below += lower >> 32
                low_below += lower & 0xFFFFFFFF
            totals[row] = fma(joined(high, low), UP, joined(high_below, low_below))

    return whole_sums64


whole_sums = _build_whole_sums(_FINGERPRINT)
whole_sums64 = _build_whole_sums64(_FINGERPRINT)
