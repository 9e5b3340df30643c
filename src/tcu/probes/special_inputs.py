"""Infinities, NaN and sums too large for their format: what a plan is asked about once it has returned every other bit."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from tcu.probes.black_box import BlackBox
from tcu.probes.sum_inputs import encoded

__all__ = ["special_inputs"]

Values = npt.NDArray[np.float64]
Given = npt.NDArray[np.generic]


def special_inputs(box: BlackBox) -> Iterator[tuple[str, Given, Given | None]]:
    """(what is asked, the elements as the box takes them): the same ones every time, alike in all rows and columns of a product."""
    m, n, _ = box.shape
    for what, first, second in _rows(box):
        with np.errstate(all="ignore"):
            x = encoded(np.tile(first, (1, m, 1)) if box.products else first[None], box.input)
            y = encoded(np.tile(second[:, None], (1, 1, n)), box.input) if box.products else None
        yield what, x, y


def _rows(box: BlackBox) -> Iterator[tuple[str, Values, Values]]:
    k, fmt = box.n, box.input
    rng = np.random.default_rng(0)
    ordinary: Values = rng.integers(1, 4, k) * rng.choice([-1.0, 1.0], k)
    ones = np.ones(k)
    places = sorted({0, k // 2, k - 1})

    def with_numbers(*placed: tuple[int, float]) -> Values:
        row = ordinary.copy()
        for place, value in placed:
            row[place] = value
        return row

    if fmt.has_infinity:
        for number, place in enumerate(places):
            yield "one infinity", with_numbers((place, -np.inf if number % 2 else np.inf)), ones
        if k > 1:
            yield "inf and -inf", with_numbers((0, np.inf), (k - 1, -np.inf)), ones
            yield "inf and -inf", with_numbers((k // 2, -np.inf), (k // 2 - 1, np.inf)), ones
        if box.products:
            none = ones.copy()
            none[k // 2] = 0
            yield "an infinity times 0", with_numbers((k // 2, np.inf)), none
    if fmt.has_nan:
        for place in places:
            yield "one NaN", with_numbers((place, np.nan)), ones
    yield from _too_large(box)


def _too_large(box: BlackBox) -> Iterator[tuple[str, Values, Values]]:
    """Sums above the output's largest number, and such that are above it on the way; none where finite elements reach neither."""
    k, fmt, top = box.n, box.input, box.output.emax
    if box.products:
        first = min(-(-top // 2), fmt.emax - 1)
        second = min(top - first, fmt.emax - 1)
        x, y = 1.5 * 2.0**first, 1.5 * 2.0**second
    else:
        x, y = min(fmt.max_finite, box.output.max_finite), 1.0
    if k * x * y <= box.output.max_finite:  # in Python's numbers, where inf is above it, too
        return
    what = "a sum beyond the largest number"
    other = np.full(k, y)
    yield what, np.full(k, x), other
    yield what, np.full(k, -x), other
    if k > 2:
        back = np.zeros(k)
        back[:2], back[-1] = x, -x
        yield what, back, other
