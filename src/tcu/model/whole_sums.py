"""Sums of rows of terms, each rounded to a whole number, on one core; compiled by Numba.

Terms of binary32 are 2^44 at most; those of binary64 2^80, each in two whole numbers, one 2^40 times the other's unit.  A sum is
of words, high · 2^32 + low (of binary64 twice two): those of a row's parts add up to those of the row.
"""
# Compiled by Numba, which types them.
# mypy: ignore-errors

from __future__ import annotations

import numpy as np
from numba import njit

from tcu.model import elementary
from tcu.model.elementary import fma, nearest
from tcu.model.jit import fingerprint, jit
from tcu.plan import whole_sums as plan
from tcu.plan.whole_sums import SCALE64

__all__ = ["PIECE", "of_two", "totals", "totals64", "whole_sums", "whole_sums64"]

_FINGERPRINT = fingerprint(elementary, plan)
PIECE = 1 << 18
"""Terms whose sum stays in a word; then it goes into two."""
_HALF, _MINUS, _UP = 2.0 ** -(SCALE64 // 2), -(2.0 ** (SCALE64 // 2)), 2.0 ** (SCALE64 // 2)


@njit(nogil=True, inline="always")
def _joined(high, low):
    """high · 2^32 + low, rounded once to binary64."""
    return fma(np.float64(high + (low >> 32)), 4294967296.0, np.float64(low & 0xFFFFFFFF))


@njit(nogil=True, inline="always")
def of_two(term):
    """A term of binary64 as (units of 2^40, units)."""
    above = nearest(term * _HALF)
    return np.int64(above), np.int64(nearest(fma(above, _MINUS, term)))


def _build_whole_sums(fingerprint):
    @jit
    def whole_sums(terms, words):
        """Of rows of binary32."""
        fingerprint  # noqa: B018
        for row in range(terms.shape[0]):
            high, low = np.int64(0), np.int64(0)
            for first in range(0, terms.shape[1], PIECE):
                part = np.int64(0)
                for i in range(first, min(first + PIECE, terms.shape[1])):
                    part += np.int64(nearest(terms[row, i]))
                high += part >> 32
                low += part & 0xFFFFFFFF
            words[row, 0], words[row, 1] = high, low

    return whole_sums


def _build_whole_sums64(fingerprint):
    @jit
    def whole_sums64(terms, words):
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
            words[row, 0], words[row, 1], words[row, 2], words[row, 3] = high, low, high_below, low_below

    return whole_sums64


def _build_totals(fingerprint):
    @jit
    def totals(words, out):
        """The sums in binary64, from their words or from sums of several parts' words."""
        fingerprint  # noqa: B018
        for row in range(words.shape[0]):
            out[row] = _joined(words[row, 0], words[row, 1])

    return totals


def _build_totals64(fingerprint):
    @jit
    def totals64(words, out):
        """Of rows of binary64."""
        fingerprint  # noqa: B018
        for row in range(words.shape[0]):
            out[row] = fma(_joined(words[row, 0], words[row, 1]), _UP, _joined(words[row, 2], words[row, 3]))

    return totals64


totals = _build_totals(_FINGERPRINT)
totals64 = _build_totals64(_FINGERPRINT)
whole_sums = _build_whole_sums(_FINGERPRINT)
whole_sums64 = _build_whole_sums64(_FINGERPRINT)
