"""Losses of rows with a class each, and their gradients, whose bits depend on nothing but the row and its target.

With m, S and e of :mod:`tcu.model.exponentials`, all in the row's format but for what is said:

1. -((x[target] - m) - log S), with log S in binary64, rounded once.
2. With label smoothing s: that times 1 - s, plus s times -(M - log S).  M, the mean of all x - m, is an exact sum over n in
   binary64: each x - m is rounded to a multiple of 2^-44 (2^-80) of the power of two above the largest, or of 1.
3. With a z-loss z: (L · L) · z more, with L = m + log S in binary64, rounded once.
4. The gradient of a row whose loss has the gradient g: (e · (1/S)) · a - g · (s/n) as one fused multiply-add, with
   a = g · (2z · L + 1); at the target less g · (1 - s).

A row whose target is ``ignore_index`` has the loss 0 and no gradient; one whose target is no class has NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.model import compiled
from tcu.model.exponentials import logarithms_of, parts_of, total_of
from tcu.model.row_words import totals_of, words_of
from tcu.plan.losses import Weights
from tcu.plan.whole_sums import SCALE, SCALE64

__all__ = ["deviation_words", "gradients", "losses", "losses_of", "mean_deviations"]

Rows = npt.NDArray[Any]


def losses(x: Rows, target: Rows, weights: Weights) -> tuple[Rows, Rows]:
    """Of rows (r, n) of binary32 or binary64: (their losses, (m, 1/S, L) of each, which gradients are made of)."""
    counted, fits = target != weights.ignore_index, (target >= 0) & (target < x.shape[1])
    top = x.max(1, initial=-np.inf)
    with np.errstate(all="ignore"):
        totals = total_of(parts_of(x, top)[1], top)
        logs = logarithms_of(totals, x.dtype)
        found = np.full(len(x), np.nan, x.dtype)
        rows = np.flatnonzero(fits)
        found[rows] = (x[rows, target[rows]] - top[rows]) - logs[rows].astype(x.dtype)
        means = None
        if weights.label_smoothing and x.shape[1]:
            largest = top - x.min(1)
            words = deviation_words(x, top, largest)
            means = (mean_deviations(words, largest, x.shape[1]) - logs).astype(x.dtype)
        sums = np.where(np.isfinite(top), top + logs, top).astype(x.dtype)
        result = losses_of(np, found, means, sums, counted, fits, weights)
        parts = np.stack([top, (1 / totals).astype(x.dtype), sums], axis=1)
        parts[~counted] = -np.inf, np.nan, -np.inf  # of rows that a GPU does not read
        return result, parts


def losses_of(
    library: Any, found: Any, means: Any, sums: Any, counted: Any, fits: Any, weights: Weights
) -> Any:
    """Of rows: from the logarithms of the targets' softmax, the means of those of all classes, and log-sum-exps."""
    result = -found
    if weights.label_smoothing and means is not None:
        result = result * (1 - weights.label_smoothing) + -means * weights.label_smoothing
    if weights.z_loss:
        result = result + sums * sums * weights.z_loss
    result = library.where(counted & ~fits, float("nan"), result)
    return library.where(counted, result, library.zeros_like(result))


def _shift_of(largest: Rows) -> Rows:
    """The exponent of what deviations up to ``largest`` are multiplied by before they are added up."""
    usual = np.where(np.isfinite(largest), largest, 0)
    scale = SCALE64 if largest.dtype == np.float64 else SCALE
    return np.asarray(scale - np.maximum(np.frexp(usual)[1], 0))


def deviation_words(x: Rows, top: Rows, largest: Rows) -> Rows:
    """The words of the sums of x - top, which ``largest`` is the largest distance of, of rows or of parts of rows."""
    usual = np.isfinite(largest)[:, None]
    terms = np.where(usual, x - top[:, None], 0) * np.ldexp(x.dtype.type(1), _shift_of(largest))[:, None]
    return words_of(terms)


def mean_deviations(words: Rows, largest: Rows, count: int) -> Rows:
    """In binary64: -inf where the largest distance is inf."""
    means = np.ldexp(totals_of(words) / count, -_shift_of(largest))
    return np.where(np.isfinite(largest), means, -largest)


def gradients(given: Rows, x: Rows, target: Rows, parts: Rows, weights: Weights) -> Rows:
    """Of rows (r, n), from the gradients of their losses and what :func:`losses` kept of them."""
    kernels: Any = compiled.load("exponential_kernels")
    kind: Any = x.dtype.type
    counted, fits = target != weights.ignore_index, (target >= 0) & (target < x.shape[1])
    top, over, sums = parts.T
    with np.errstate(all="ignore"):
        result = parts_of(x, top)[0]
        factor = given * (kind(2 * weights.z_loss) * sums + kind(1))
        less = given * kind(weights.label_smoothing / max(x.shape[1], 1))
        kernels.gradients(result, np.where(fits, over, kind(np.nan)), factor, less)
        rows = np.flatnonzero(fits)
        result[rows, target[rows]] -= given[rows] * kind(1 - weights.label_smoothing)
    result[~counted] = 0
    return result
