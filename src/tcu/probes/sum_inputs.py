"""Numbers to add up on which any two trees, or any two arithmetics, are likely to differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from tcu.formats.array import encode_array
from tcu.formats.format import Format
from tcu.probes.black_box import BlackBox

__all__ = ["batches", "decisive_rows", "draw", "encoded", "rows_of", "sums_of_two_products"]

Values = npt.NDArray[np.float64]
_DIGITS = (8, 11, 14, 24, 25, 53)
"""Of accumulators that there are: distances at which numbers decide a rounding."""
_DECISIVE, _DECISIVE_NUMBERS = 256, 1 << 21
"""Rows of either kind that are always asked, of so many numbers in all if those are more, but 32 rows at least."""
_EXPONENTS, _ROUNDINGS = 16, 64
"""Sums of two products have so many exponents, and so many results of each at least."""


def rows_of(
    box: BlackBox, rng: np.random.Generator, rows: int
) -> tuple[npt.NDArray[np.generic], npt.NDArray[np.generic] | None]:
    """Elements in the format of the box, as it takes them; each row, or each product of matrices, of one kind."""
    m, n, k = box.shape
    if not box.products:
        return encoded(draw(rng, box.input, box.output, rows, k), box.input), None
    x, y = np.empty((rows, m, k)), np.empty((rows, k, n))
    for number in range(rows):
        a, b = _pairs(rng, box.input, box.output, m, n, k)
        x[number], y[number] = a, b
    return encoded(x, box.input), encoded(y, box.input)


def sums_of_two_products(
    box: BlackBox, rng: np.random.Generator, leaves: tuple[int, ...]
) -> Iterator[tuple[npt.NDArray[np.generic], npt.NDArray[np.generic]]]:
    """Operands of which only two leaves are not zero: normal numbers, whose products are about as far apart as both matter.

    One exponent of the larger product at a time.
    """
    m, n, k = box.shape
    low, high = 2 * box.input.emin, 2 * (box.input.emax - 1)
    matters = box.output.fraction_bits + 2
    last = min(high, max(_EXPONENTS // 2, low + matters))
    rows = -(-_ROUNDINGS // (m * n))
    for top in range(max(low, last - _EXPONENTS + 1), last + 1):
        x, y = np.zeros((rows, m, k)), np.zeros((rows, k, n))
        farthest = min(matters, top - low)
        apart = rng.integers(farthest // 2, farthest + 1, (rows, m))
        for leaf, exponents, least in zip(
            leaves, (np.full_like(apart, top), top - apart), (top, top - farthest), strict=False
        ):
            x[:, :, leaf] = _normal(rng, box.input, exponents - least // 2)
            y[:, leaf, :] = _normal(rng, box.input, np.full((rows, n), least // 2))
        yield encoded(x, box.input), encoded(y, box.input)


def _normal(rng: np.random.Generator, fmt: Format, exponents: npt.NDArray[np.int64]) -> Values:
    """Numbers of either sign with given exponents."""
    fraction = 1 + rng.integers(0, 1 << fmt.fraction_bits, exponents.shape) / 2.0**fmt.fraction_bits
    return np.asarray(np.ldexp(fraction * rng.choice([-1.0, 1.0], exponents.shape), exponents))


def decisive_rows(box: BlackBox) -> tuple[npt.NDArray[np.generic], npt.NDArray[np.generic] | None] | None:
    """The same questions every time, on which sums that lose little or nothing differ: two distances decide a rounding.

    None of fewer than three numbers, which no such sum adds up in another way.
    """
    m, n, k = box.shape
    if k < 3:
        return None
    rng = np.random.default_rng(0)
    count = int(np.clip(_DECISIVE_NUMBERS // k, 32, _DECISIVE))
    top = min(box.input.emax, box.output.emax) - k.bit_length() - 1
    x = np.zeros((2 * count, k))
    for number, row in enumerate(x):
        values = _two_roundings(rng, top) if number % 2 else _cancelling_to_a_tie(rng, box.input, top)
        few = min(values.size, k)
        start = int(rng.choice([0, k - few, int(rng.integers(0, k - few + 1))]))
        row[start : start + few] = values[:few]
    x = x[: len(x) // m * m or len(x)]
    if not box.products:
        return encoded(x, box.input), None
    x = x.reshape(-1, m, k) if len(x) >= m else np.resize(x, (1, m, k))
    return encoded(x, box.input), encoded(np.ones((len(x), k, n)), box.input)


def _two_roundings(rng: np.random.Generator, top: int) -> Values:
    """A number, another that is half of its last bit for some format, and one that decides that tie, but not for every accumulator."""
    near, far = sorted(rng.choice([8, 11, 24, 53, 64, 106], 2, replace=False))
    odd = 2.0 ** (1 - near) if rng.random() < 0.5 else 0.0
    least = 2.0 ** -(far + 1.0 + rng.integers(0, 3))
    values = np.array([1 + odd, 2.0**-near, least]) * rng.choice([-1.0, 1.0], 3)
    return np.asarray(rng.permutation(np.ldexp(values, top if rng.random() < 0.5 else min(top, 0))))


def _cancelling_to_a_tie(rng: np.random.Generator, fmt: Format, top: int) -> Values:
    """A number that all but cancels, one that it hides, and half of that one's last bit."""
    digits = int(rng.choice([24, 53]))
    hidden = digits + int(rng.integers(0, 2))
    tie = hidden + int(rng.choice([digits - 1, digits, digits + 1, 24]))
    a, b, d = 1 + rng.integers(0, 1 << fmt.fraction_bits, 3) / 2.0**fmt.fraction_bits
    if rng.random() < 0.5:
        d = 1.0
    again = -a * (1 + int(rng.integers(-1, 2)) * 2.0**-fmt.fraction_bits)
    b, d = np.ldexp([b, d], [-hidden, -tie]) * rng.choice([-1.0, 1.0], 2)
    values = np.array([a, b, again, d])[list(rng.permutation(4)) if rng.random() < 0.4 else [0, 1, 2, 3]]
    return np.asarray(np.ldexp(values, top if rng.random() < 0.5 else min(top, 0)))


def encoded(values: Values, fmt: Format) -> npt.NDArray[np.generic]:
    """Values in an array of the format's dtype."""
    if fmt.bits >= 32:
        return values.astype(fmt.dtype)
    return encode_array(values, fmt).view(fmt.dtype)


def draw(rng: np.random.Generator, fmt: Format, output: Format, rows: int, n: int) -> Values:
    """(rows, n) finite numbers whose sums stay finite in both formats, as far as their exponents say."""
    found = np.empty((rows, n))
    kinds = rng.choice(len(_KINDS), rows, p=_SHARES)
    room = n.bit_length() + 1
    highest = min(fmt.emax, output.emax) - room
    lowest = fmt.emin - fmt.fraction_bits
    for number, kind in enumerate(kinds):
        top = int(rng.integers(lowest + 1, max(highest, lowest + 1) + 1))
        found[number] = _KINDS[kind](rng, fmt, n, min(top, highest), lowest)
    return found


def _window(rng: np.random.Generator, fmt: Format, n: int, top: int, lowest: int) -> Values:
    """Exponents from a range of any width, up to the highest one of the row."""
    width = int(rng.choice([0, 1, 3, 8, 16, 30, 60, top - lowest]))
    low = max(top - width, lowest)
    exponent = rng.integers(low, top + 1, n) if rng.random() < 0.7 else np.full(n, low)
    value = np.ldexp(1 + rng.random(n), exponent)
    return np.asarray(np.where(rng.random(n) < 0.5, -value, value))


def _one_sign(rng: np.random.Generator, fmt: Format, n: int, top: int, lowest: int) -> Values:
    sign = 1 if rng.random() < 0.5 else -1
    return np.asarray(sign * np.abs(_window(rng, fmt, n, top, lowest)))


def _cancelling(rng: np.random.Generator, fmt: Format, n: int, top: int, lowest: int) -> Values:
    """Most numbers have their negative somewhere, perhaps with another last bit."""
    value = _window(rng, fmt, n, top, lowest)
    half = n // 2
    value[half : 2 * half] = -value[:half]
    if rng.random() < 0.5:
        value[:half] *= 1 + 2.0**-fmt.fraction_bits
    return rng.permutation(value) if rng.random() < 0.7 else value


def _sparse(rng: np.random.Generator, fmt: Format, n: int, top: int, lowest: int) -> Values:
    """Zeros but for one number, or a few, often neighbours, that absorb or cancel each other."""
    count = 1 if rng.random() < 0.15 else min(n, int(rng.integers(2, 13)))
    reach = n if rng.random() < 0.5 else min(n, 4 * count)
    start = int(rng.integers(0, n - reach + 1))
    at = start + rng.choice(reach, count, replace=False)
    value = np.zeros(n)
    value[at] = (_ties if count > 1 else _window)(rng, fmt, count, top, lowest)
    if count > 2:
        value[at[1]] = -value[at[0]]
    return value


def _ties(rng: np.random.Generator, fmt: Format, n: int, top: int, lowest: int) -> Values:
    """Powers of two and their neighbours at the distances that decide a rounding, or half of them anywhere."""
    digits = int(rng.choice(_DIGITS))
    exponent = top - digits * rng.integers(0, 3, n) - rng.integers(-1, 2, n) * (rng.random(n) < 0.4)
    if rng.random() < 0.1:
        exponent = np.where(rng.random(n) < 0.5, exponent, rng.integers(lowest, top + 1, n))
    exponent = np.clip(exponent, lowest, top)
    value = np.ldexp(1 + (rng.random(n) < 0.3) * 2.0 ** -rng.integers(1, fmt.fraction_bits + 1, n), exponent)
    return np.asarray(np.where(rng.random(n) < 0.5, -value, value))


def _masks(rng: np.random.Generator, fmt: Format, n: int, top: int, lowest: int) -> Values:
    """Small numbers that are alike, and a few large ones, at a distance that decides a rounding or at any, that cancel."""
    below = int(rng.choice(_DIGITS)) + int(rng.integers(0, 5))
    if rng.random() < 0.2:
        below = int(rng.integers(0, top - lowest + 1))
    value = np.full(n, np.ldexp(1.0, max(top - below, lowest)))
    pairs = min(n // 2, int(rng.integers(1, 4)))
    at = rng.choice(n, (2, pairs), replace=False)
    value[at[0]] = np.ldexp(1.0, top)
    value[at[1]] = -value[at[0]]
    return value


def _tiny(rng: np.random.Generator, fmt: Format, n: int, top: int, lowest: int) -> Values:
    """Subnormals, and what is just above them."""
    value = np.ldexp(rng.integers(0, 1 << min(fmt.fraction_bits + 2, 40), n).astype(float), lowest)
    return np.asarray(np.where(rng.random(n) < 0.5, -value, value))


def _zeros(rng: np.random.Generator, fmt: Format, n: int, top: int, lowest: int) -> Values:
    """Zeros of both signs, or of one."""
    value = np.where(rng.random(n) < rng.choice([0.0, 0.5, 1.0]), 0.0, -0.0)
    return np.asarray(value)


_KINDS: tuple[Callable[[np.random.Generator, Format, int, int, int], Values], ...] = (
    _window, _one_sign, _cancelling, _sparse, _ties, _masks, _tiny, _zeros,
)  # fmt: skip
_SHARES = (0.26, 0.1, 0.14, 0.2, 0.14, 0.1, 0.05, 0.01)


def _pairs(
    rng: np.random.Generator, fmt: Format, output: Format, m: int, n: int, k: int
) -> tuple[Values, Values]:
    """A (m, k) and B (k, n): one has the character of the sum, the other shares of its exponents."""
    low, high = fmt.emin - fmt.fraction_bits, fmt.emax - 1
    room = k.bit_length() + 1
    highest = min(2 * high, output.emax - room)
    lowest = max(2 * low, output.emin - output.fraction_bits - 2)
    goal = int(rng.integers(lowest, highest + 1)) if rng.random() < 0.8 else int(rng.integers(-8, 8))
    goal = min(goal, highest)
    if rng.random() < 0.5:  # the second factors are powers of two, so that products have few digits
        share = int(np.clip(goal // 2 + rng.integers(-3, 4), low, high))
        other = np.ldexp(1.0, np.full((k, n), share))
    else:
        share = int(np.clip(goal // 2, low + 2, high - 2))
        other = np.ldexp(1 + rng.random((k, n)), rng.integers(share - 2, share + 1, (k, n)))
        share += 1
    other *= np.where(rng.random((1, n) if rng.random() < 0.5 else (k, n)) < 0.5, -1, 1)
    top = int(np.clip(goal - share, low + 1, high - 1))
    kinds = rng.choice(len(_KINDS), m, p=_SHARES)
    first = np.stack([_KINDS[kind](rng, fmt, k, top, low) for kind in kinds])
    return (first, other) if rng.random() < 0.5 or m != n else (other.T.copy(), first.T.copy())


def batches(total: int, size: int) -> Iterator[int]:
    """``total`` in pieces of ``size`` or fewer, small ones first, for most that is wrong is wrong at once."""
    done, piece = 0, 8
    while done < total:
        piece = min(2 * piece, size, total - done)
        yield piece
        done += piece
