"""Sums of exponentials, exactly, on one core; compiled by Numba.

A file of its own, as Numba's disk cache looks at the file of a kernel alone: the sequences are those of
:mod:`tcu.model.elementary`, whose text counts by its checksum, and sums those of :mod:`tcu.model.whole_sums`.
"""
# Compiled by Numba, which types them.
# mypy: ignore-errors

from __future__ import annotations

import numpy as np

from tcu.model import elementary, whole_sums
from tcu.model.elementary import exp_scaled, exp_scaled64, fma, log64, nearest
from tcu.model.jit import fingerprint, jit
from tcu.model.whole_sums import PIECE, of_two
from tcu.plan import whole_sums as plan

__all__ = ["add_exponentials", "add_exponentials64", "gradients", "logarithms"]

_FINGERPRINT = fingerprint(elementary, whole_sums, plan)
_LOWEST, _LOWEST64 = np.float32(-104), np.float64(-746)
"""What lies lower has the exponential of this, of which no result has a bit."""


def _build_add_exponentials(fingerprint):
    @jit
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
    @jit
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


def _build_gradients(fingerprint):
    @jit
    def gradients(scaled, over, factor, less):
        """Of rows of scaled exponentials, in their place: each over the sum, times the row's factor, less the row's number."""
        fingerprint  # noqa: B018
        for row in range(scaled.shape[0]):
            for i in range(scaled.shape[1]):
                scaled[row, i] = fma(scaled[row, i] * over[row], factor[row], -less[row])

    return gradients


def _build_logarithms(fingerprint):
    @jit
    def logarithms(x, out):
        """out = log(x), lines of positive numbers of binary64."""
        fingerprint  # noqa: B018
        for i in range(x.size):
            out[i] = log64(x[i])

    return logarithms


add_exponentials = _build_add_exponentials(_FINGERPRINT)
add_exponentials64 = _build_add_exponentials64(_FINGERPRINT)
gradients = _build_gradients(_FINGERPRINT)
logarithms = _build_logarithms(_FINGERPRINT)
