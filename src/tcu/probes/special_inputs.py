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

_PLACES, _FEWEST, _NUMBERS = 32, 8, 1 << 17
"""Places at which a number stands: so many, fewer of long rows, which cost so many numbers in all, but not below the fewest."""


def special_inputs(box: BlackBox, rng: np.random.Generator) -> Iterator[tuple[str, Given, Given | None]]:
    """(what is asked, the elements as the box takes them), alike in all rows and columns of a product."""
    m, n, _ = box.shape
    for what, first, second in _rows(box, rng):
        with np.errstate(all="ignore"):
            x = encoded(np.tile(first, (1, m, 1)) if box.products else first[None], box.input)
            y = encoded(np.tile(second[:, None], (1, 1, n)), box.input) if box.products else None
        yield what, x, y


def _rows(box: BlackBox, rng: np.random.Generator) -> Iterator[tuple[str, Values, Values]]:
    """The first, the middle and the last place, then any: of rows of few numbers every one."""
    k, fmt = box.n, box.input
    ordinary: Values = rng.integers(1, 4, k) * rng.choice([-1.0, 1.0], k)
    ones = np.ones(k)
    count = int(np.clip(_NUMBERS // k, _FEWEST, _PLACES))
    places = list(dict.fromkeys((0, k // 2, k - 1, *_some(rng, k, count))))

    def with_numbers(*placed: tuple[int, float]) -> Values:
        row = ordinary.copy()
        for place, value in placed:
            row[place] = value
        return row

    if fmt.has_infinity:
        for number, place in enumerate(places):
            yield "one infinity", with_numbers((place, -np.inf if number % 2 else np.inf)), ones
        if k > 1:
            pairs = [(0, k - 1), (k // 2 - 1, k // 2), *(_some(rng, k, 2) for _ in range(_FEWEST))]
            for number, (one, other) in enumerate(pairs):
                infinity = -np.inf if number % 2 else np.inf
                yield "inf and -inf", with_numbers((one, infinity), (other, -infinity)), ones
        if box.products:
            for place in places[1 : 1 + _FEWEST]:
                none = ones.copy()
                none[place] = 0
                yield "an infinity times 0", with_numbers((place, np.inf)), none
    if fmt.has_nan:
        for place in places:
            yield "one NaN", with_numbers((place, np.nan)), ones
    yield from _too_large(box, rng)


def _too_large(box: BlackBox, rng: np.random.Generator) -> Iterator[tuple[str, Values, Values]]:
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
    for number in range(
        2 * _FEWEST if k > 2 else 0
    ):  # two or more, and one back, at any places; then of any sizes and signs
        back = np.zeros(k)
        places = _some(rng, k, int(rng.integers(3, 10)))
        back[places] = x
        back[places[-1]] = -x
        if number % 2:
            back *= 2.0 ** -rng.integers(0, 4, k) * rng.choice([-1.0, 1.0], k)
        yield what, back, other


def _some(rng: np.random.Generator, k: int, count: int) -> list[int]:
    """Places of so many numbers, or of all."""
    return list(rng.choice(k, min(k, count), replace=False).tolist())
