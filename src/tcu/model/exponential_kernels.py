"""Sums of exponentials, exactly, on one core; compiled by Numba.

A file of its own, as Numba's disk cache looks at the file of a kernel alone: the sequences are those of
:mod:`tcu.model.elementary`, whose text counts by its checksum, and sums those of :mod:`tcu.model.whole_sums`.
"""
# Compiled by Numba, which types them.
# mypy: ignore-errors

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np

from tcu.model import elementary, whole_sums
from tcu.model.elementary import exp_scaled, exp_scaled64, fma, log64, nearest
from tcu.model.kernels import _compiled
from tcu.model.whole_sums import PIECE, UP, joined, of_two
from tcu.plan import whole_sums as plan

__all__ = ["add_exponentials", "add_exponentials64", "logarithms", "totals", "totals64"]

_FINGERPRINT = zlib.crc32(
    b"".join(Path(each.__file__).read_bytes() for each in (elementary, whole_sums, plan))
)
_LOWEST, _LOWEST64 = np.float32(-104), np.float64(-746)
"""What lies lower has the exponential of this, of which no result has a bit."""


def _build_add_exponentials(fingerprint):
    @_compiled
    def add_exponentials(x, top, scaled, words):
        """Of rows of binary32: the exponentials of x - top, scaled, and their sums as whole numbers, high · 2^32 + low."""
        fingerprint  # noqa: B018
        for row in range(x.shape[0]):
            high, low = np.int64(0), np.int64(0)
            for first in range(0, x.shape[1], PIECE):
                part = np.int64(0)
                for i in range(first, min(first + PIECE, x.shape[1])):
                    e = exp_scaled(max(x[row, i] - top[row], _LOWEST))
                    scaled[row, i] = e
                    part += np.int64(nearest(e))
                high += part >> 32
                low += part & 0xFFFFFFFF
            words[row, 0], words[row, 1] = high, low

    return add_exponentials


def _build_add_exponentials64(fingerprint):
    @_compiled
    def add_exponentials64(x, top, scaled, words):
        """The same of rows of binary64: each term in two whole numbers, one 2^40 times the other's unit."""
        fingerprint  # noqa: B018
        for row in range(x.shape[0]):
            high, low = np.int64(0), np.int64(0)
            high_below, low_below = np.int64(0), np.int64(0)
            for first in range(0, x.shape[1], PIECE):
                upper, lower = np.int64(0), np.int64(0)
                for i in range(first, min(first + PIECE, x.shape[1])):
                    e = exp_scaled64(max(x[row, i] - top[row], _LOWEST64))
                    scaled[row, i] = e
                    above, below = of_two(e)
                    upper += above
                    lower += below
                high += upper >> 32
                low += upper & 0xFFFFFFFF
                high_below += lower >> 32
                low_below += lower & 0xFFFFFFFF
            words[row, 0], words[row, 1], words[row, 2], words[row, 3] = high, low, high_below, low_below

    return add_exponentials64


def _build_totals(fingerprint):
    @_compiled
    def totals(words, out):
        """The sums in binary64, from their words or from sums of several parts' words."""
        fingerprint  # noqa: B018
        for row in range(words.shape[0]):
            out[row] = joined(words[row, 0], words[row, 1])

    return totals


def _build_totals64(fingerprint):
    @_compiled
    def totals64(words, out):
        """Of rows of binary64."""
        fingerprint  # noqa: B018
        for row in range(words.shape[0]):
            out[row] = fma(joined(words[row, 0], words[row, 1]), UP, joined(words[row, 2], words[row, 3]))

    return totals64


def _build_logarithms(fingerprint):
    @_compiled
    def logarithms(x, out):
        """out = log(x), lines of positive numbers of binary64."""
        fingerprint  # noqa: B018
        for i in range(x.size):
            out[i] = log64(x[i])

    return logarithms


add_exponentials = _build_add_exponentials(_FINGERPRINT)
add_exponentials64 = _build_add_exponentials64(_FINGERPRINT)
logarithms = _build_logarithms(_FINGERPRINT)
totals = _build_totals(_FINGERPRINT)
totals64 = _build_totals64(_FINGERPRINT)
