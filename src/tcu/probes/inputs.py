"""Operands that tell arithmetics apart: one small matrix product holds 128 dot products or more."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from tcu.formats.array import decode_array
from tcu.formats.format import Format
from tcu.probes.target import Codes, Operation, Question

__all__ = [
    "CODE_MODES", "DECIDING", "MODES", "about_the_limit", "adversarial", "codes", "factors", "just_over_two", "near_zero", "ordinary", "pair", "product_far_below_c", "tail_of_a_product", "tail_of_c", "zeros_of_one_sign",
]  # fmt: skip


def _powers(rng: np.random.Generator, fmt: Format, low: int, high: int, shape: tuple[int, ...]) -> np.ndarray:
    """Values of random sign and fraction with exponents from low to high, within the format's normal range."""
    low, high = max(low, fmt.emin), min(high, fmt.emax - 1)
    exponent = rng.integers(low, max(low, high) + 1, shape)
    fraction = rng.integers(0, 1 << fmt.fraction_bits, shape) / (1 << fmt.fraction_bits)
    fraction[rng.random(shape) < 0.4] = 0
    return np.where(rng.random(shape) < 0.5, -1.0, 1.0) * (1 + fraction) * 2.0**exponent


def ordinary(
    operation: Operation, rng: np.random.Generator, rows: int = 16, columns: int = 8, wide: bool = True
) -> Question:
    """Wide exponents and cancellation, clear of inf, NaN, overflow, subnormals and small common exponents."""
    if wide and operation.k > 2 and rng.random() < 0.4:
        return beside(operation, rng, int(rng.integers(0, 8)), rows, columns)
    x, k = operation.input, operation.k
    span = int(rng.choice([0, 2, 6, 14, 30] if operation.output.bits > 16 else [0, 2, 4, 6]))
    top = int(rng.integers(0, 6)) if operation.output.bits > 16 else int(rng.integers(0, 3))
    low, low_b, top_b = top - span, -(span // 4), 1
    if x.bits == 8 and operation.output.bits > 16 and rng.random() < 0.5:
        # Only the whole range of an 8-bit format makes sums longer than 24 bits.
        low, top, low_b, top_b = x.emin, x.emax - 1, x.emin, x.emax - 1
    a = _powers(rng, x, low, top, (rows, k))
    b = _powers(rng, x, low_b, top_b, (k, columns))
    c = _powers(rng, operation.output, 2 * top - 2 * span, 2 * top + 2, (rows, columns))
    # One large product and c keep the common exponent up; pairs cancel the rest.
    if k > 1:
        i, j = rng.integers(0, k, (2, rows))
        flip = rng.random(rows) < 0.6
        index = np.arange(rows)[flip & (i != j)]
        a[index, j[index]] = -a[index, i[index]]
        b[j[index]] = b[i[index]]
    a[rng.random(a.shape) < 0.1] = 0
    c[rng.random(c.shape) < 0.3] = 0
    near = rng.random(c.shape) < 0.3
    if near.any():  # c close to minus the sum
        total = a @ b
        c = np.where(near & (np.abs(total) > 2.0**-4), -total, c)
    return Question(operation.codes(a), operation.codes(b), operation.output_codes(c))


def pair(operation: Operation, rng: np.random.Generator, rows: int = 16, columns: int = 8) -> Question:
    """c and the first two products only, so that hardly anything depends on how the rest of K is cut."""
    if rng.random() < 0.3:
        return beside(operation, rng, int(rng.integers(0, 8)), rows, columns, with_c=True)
    q = ordinary(operation, rng, rows, columns, wide=False)
    if operation.k > 1 and rng.random() < 0.5:  # let the two cancel in part
        q.a[:, 1] = operation.codes(-_values(operation, q.a[:, 0]) * (1 + 2.0 ** -rng.integers(1, 8, rows)))
        q.b[1] = q.b[0]
    q.a[:, 2:] = 0
    return q


def _values(operation: Operation, codes: Codes) -> np.ndarray:
    return decode_array(codes >> np.array(operation.input.storage_shift, codes.dtype), operation.input)


def near_zero(operation: Operation, rng: np.random.Generator, rows: int = 16, columns: int = 8) -> Question:
    """Subnormal inputs, c and results, and common exponents about the floor."""
    x, z = operation.input, operation.output
    mode = int(rng.integers(0, 5))
    if mode == 4 and operation.k > 2:
        return beside(operation, rng, z.quantum_exponent + int(rng.integers(0, 5)), rows, columns)
    shape_a, shape_b = (rows, operation.k), (operation.k, columns)
    low = x.emin - x.fraction_bits
    goal = int(rng.integers(z.emin - z.fraction_bits - 3, z.emin + 12))  # exponent of the products
    middle = int(np.clip(goal // 2, low, x.emax - 1))
    a = _small(rng, x, middle - 2, middle + 2, shape_a)
    b = _small(rng, x, goal - middle - 2, goal - middle + 2, shape_b)
    c = _small(rng, z, z.emin - z.fraction_bits, z.emin + int(rng.integers(0, 14)), (rows, columns))
    if mode == 0:
        c[:] = 0
    elif mode == 1:
        a[rng.random(shape_a) < 0.8] = 0
    elif mode == 2:
        a = _small(rng, x, low, x.emin, shape_a)
        b = _powers(rng, x, -2, 6, shape_b)
    c[rng.random(c.shape) < 0.2] = 0
    return Question(operation.codes(a), operation.codes(b), operation.output_codes(c))


def beside(
    operation: Operation, rng: np.random.Generator, top: int, rows: int, columns: int, with_c: bool = False
) -> Question:
    """2^top, about half of its last place, and a far smaller addend that decides the rounding if it survives.

    Whether it does is up to the bits that the alignment keeps, and to how far the common exponent may sink.
    """
    x, z = operation.input, operation.output
    last = top - z.fraction_bits - 1 if top > z.emin else z.quantum_exponent - 1
    first = np.full(rows, top)
    second = last + rng.integers(-1, 3, rows)
    third = top - rng.integers(1, 47, rows)
    middle = int(np.clip(top // 2, x.emin, x.emax - 1))
    exponents = np.stack([second, third] if with_c else [first, second, third], axis=1) - middle
    low = x.emin if top > z.emin else x.emin - x.fraction_bits  # ordinary questions have no subnormals
    values = np.ldexp(1.0, np.clip(exponents, low, x.emax - 1))
    values *= np.where(rng.random(values.shape) < 0.5, -1.0, 1.0)
    a = np.zeros((rows, operation.k))
    count = min(values.shape[1], operation.k)
    for i in range(rows):
        places = (
            rng.permutation(operation.k)[:count] if not with_c and rng.random() < 0.5 else np.arange(count)
        )
        a[i, places] = values[i, :count]
    shift = rng.integers(-2, 3, columns) if top <= z.emin else np.zeros(columns, int)
    b = np.tile(np.ldexp(1.0, np.clip(middle + shift, x.emin, x.emax - 1)), (operation.k, 1))
    c = np.ldexp(np.where(rng.random((rows, columns)) < 0.5, -1.0, 1.0), top) * with_c
    return Question(operation.codes(a), operation.codes(b), operation.output_codes(c))


def _small(rng: np.random.Generator, fmt: Format, low: int, high: int, shape: tuple[int, ...]) -> np.ndarray:
    low = int(np.clip(low, fmt.emin - fmt.fraction_bits, fmt.emax - 1))
    high = int(np.clip(high, low, fmt.emax - 1))
    value = (1 + rng.integers(0, 16, shape) / 16) * 2.0 ** rng.integers(low, high + 1, shape)
    return np.where(rng.random(shape) < 0.5, -value, value)


def tail_of_c(
    operation: Operation, rng: np.random.Generator, rows: int = 16, columns: int = 8, early: bool = False
) -> Question:
    """A power of two as product, and a c whose last bit decides the rounding, if the unit sees it.

    The bit takes every place below the result's last one, as far as c goes:
    alone, which directed roundings show, and behind a tie, which nearest
    rounding shows.  ``early`` as in :func:`tail_of_a_product`.
    """
    x, z, k = operation.input, operation.output, operation.k
    f, far = z.fraction_bits, max(2 * z.fraction_bits + 2, 48)
    alone = [sign * 2.0**-place for sign in (1, -1) for place in range(f + 1, far + 1)]
    # Below a power of two the last place, and so the tie, is half as large.
    ties = [
        sign * (2.0**-tie + 2.0**-place)
        for sign, tie in ((1, f + 1), (-1, f + 2))
        for place in range(tie + 1, tie + f + 1)
    ]
    share = np.resize(rng.permutation(ties + alone), (rows, columns))
    low, high = (7, 14) if early else (z.emin + f + 2, min(z.emax, 2 * x.emax - 1) - 1)
    top = int(rng.integers(max(low, 2 * x.emin), high + 1))
    share = np.where(np.abs(share) * 2.0**top < z.min_normal, 2.0**-f, share)
    left, right = factors(x, top)
    sign, other = _signs(rng, (rows, 1)), _signs(rng, (1, columns))
    a = np.zeros((rows, k))
    a[np.arange(rows), rng.integers(0, min(k, 2) if early else k, rows)] = 2.0**left
    b = np.repeat(other * 2.0**right, k, axis=0)
    return Question(
        operation.codes(a * sign), operation.codes(b), operation.output_codes(sign * other * 2.0**top * share)
    )


def tail_of_a_product(
    operation: Operation, rng: np.random.Generator, rows: int = 16, columns: int = 8, early: bool = False
) -> Question:
    """The same with the tail in a product, whose factors multiply to just over 2, beside c or a larger product.

    early: only the first two products, and exponents clear of any floor.
    """
    x, z, k = operation.input, operation.output, operation.k
    f, shape, least = z.fraction_bits, (rows, columns), 0 if early else z.emin
    low, high = max(2 * x.emin + 1, least - f), min(z.emax - 1, 2 * (x.emax - 1)) - f - 3
    small = int(rng.integers(low, max(low, high) + 1))  # exponent of the product with the tail
    heads = small + f + np.array([0, 1, 1, 1, 2, 2, 3])  # of the larger term: mostly, the product is a tie
    places = rng.permutation(min(k, 2) if early else k)
    little, large = places[::2], places[1::2]  # of the products with a tail, and of larger ones
    a, b = np.zeros((rows, k)), np.zeros((k, columns))
    left, right = factors(x, small - 1)
    middle, _ = factors(x, small + f + 1)
    pairs = just_over_two(x.fraction_bits)
    chosen = pairs[(len(pairs) ** rng.random(k) ** 2).astype(int) - 1]  # the farthest tails most often
    every, at = np.arange(rows), rng.choice(little, rows)
    a[every, at] = chosen[at, 0] * 2.0**left
    b[little] = (chosen[little, 1] * 2.0**right)[:, None]
    c = 2.0 ** rng.choice(heads, shape)
    if len(large):
        beside = rng.random(rows) < 0.5
        a[every, rng.choice(large, rows)] = np.where(beside, 2.0**middle, 0)
        b[large] = 2.0 ** np.clip(rng.choice(heads, columns) - middle, x.emin, x.emax - 1)
        c[beside] = 0
    a, b, c = (values * _signs(rng, values.shape) for values in (a, b, c))
    return Question(operation.codes(a), operation.codes(b), operation.output_codes(c))


def product_far_below_c(
    operation: Operation, rng: np.random.Generator, rows: int = 16, columns: int = 8, early: bool = False
) -> Question:
    """A product at every distance below c, which directed roundings show as far as the unit sees it.

    early as in :func:`tail_of_a_product`.
    """
    x, z, k = operation.input, operation.output, operation.k
    f, least = z.fraction_bits, 0 if early else z.emin
    low, high = max(2 * x.emin, least - f), min(2 * (x.emax - 1), z.emax - 50)
    if high < low:  # a narrow output: c is as large as it can be, and the product as small
        low, high = 2 * x.emin, 2 * x.emin + 8
    small = int(rng.integers(low, high + 1))
    left, right = factors(x, small)
    a, b = np.zeros((rows, k)), np.full((k, columns), 2.0**right)
    a[np.arange(rows), rng.integers(0, min(k, 2) if early else k, rows)] = 2.0**left
    distance = np.resize(rng.permutation(np.arange(f, max(f + 2, 49))), (rows, columns))
    c = 2.0 ** np.clip(small + distance, least, z.emax - 1)
    a, b, c = (values * _signs(rng, values.shape) for values in (a, b, c))
    return Question(operation.codes(a), operation.codes(b), operation.output_codes(c))


@lru_cache
def just_over_two(fraction_bits: int) -> np.ndarray:
    """Significands (pairs, 2) of so many fraction bits that multiply to just over 2, the nearest first."""
    one = 1 << fraction_bits
    found = []
    for first in range(one + 1, 2 * one, max(1, one >> 10)):
        second = -(-2 * one * one // first)
        if first * second != 2 * one * one:
            found.append((first * second, first, second))
    return np.array([pair for _, *pair in sorted(found)]) / one


def about_the_limit(
    operation: Operation, rng: np.random.Generator, rows: int = 16, columns: int = 8
) -> Question:
    """One or two products and c about the largest number: is one infinite before the others are added?"""
    x, z, k = operation.input, operation.output, operation.k
    left, right = factors(x, z.emax)
    a = _powers(rng, x, left, left + 1, (rows, k))
    a[rng.random(a.shape) < 1 - 1.5 / k] = 0
    b = _powers(rng, x, right - 1, right + 1, (k, columns))
    shape = rows, columns
    c = (
        _signs(rng, shape)
        * (2 - 2.0 ** -rng.integers(0, 9, shape))
        * 2.0 ** rng.integers(z.emax - 2, z.emax + 1, shape)
    )
    c[rng.random(shape) < 0.2] = 0
    return Question(operation.codes(a), operation.codes(b), operation.output_codes(c))


def zeros_of_one_sign(
    operation: Operation, rng: np.random.Generator, rows: int = 16, columns: int = 8
) -> Question:
    """Zeros that are all negative, or all but one: what is the sign of their sum?"""
    k = operation.k
    a = np.repeat(_signs(rng, (rows, 1)), k, axis=1)
    a[np.arange(rows), rng.integers(0, k, rows)] *= _signs(rng, (rows,))
    return Question(
        operation.codes(0 * a),
        operation.codes(np.ones((k, columns)) * _signs(rng, (1, columns)) * rng.integers(0, 2, (1, columns))),
        operation.output_codes(0 * _signs(rng, (rows, columns))),
    )


DECIDING = (
    (tail_of_c, 2), (tail_of_a_product, 6), (product_far_below_c, 4), (about_the_limit, 2), (zeros_of_one_sign, 1),
)  # fmt: skip
"""Kinds that tell apart what random operands tell apart once in a million dot products, or never; and how many of each
tell all that they can."""


def _signs(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.choice([-1.0, 1.0], shape)


def factors(fmt: Format, exponent: int) -> tuple[int, int]:
    """Exponents of two normal factors whose product is 2^exponent, or as near to it as the format comes."""
    left = int(np.clip(exponent // 2, fmt.emin, fmt.emax - 1))
    return left, int(np.clip(exponent - left, fmt.emin, fmt.emax - 1))


CODE_MODES = ("bits", "binade", "window", "wide", "powers", "zero", "overflow")
MODES = (*CODE_MODES, "ordinary", "near zero", "beside", "beside")


def adversarial(operation: Operation, rng: np.random.Generator, rows: int = 16, columns: int = 8) -> Question:
    """Anything: any bits (inf and NaN included), windows of exponents, overflow, both kinds above."""
    mode = str(rng.choice(MODES)) if operation.input.is_float else "bits"
    if mode == "beside":
        top = int(
            rng.integers(operation.output.emin, min(operation.output.emax, 2 * operation.input.emax) - 1)
        )
        return beside(operation, rng, top, rows, columns)
    if mode == "ordinary":
        return ordinary(operation, rng, rows, columns)
    if mode == "near zero":
        return near_zero(operation, rng, rows, columns)
    a = codes(rng, operation.input, (rows, operation.k), mode)
    b = codes(
        rng,
        operation.input,
        (operation.k, columns),
        mode if rng.random() < 0.5 else str(rng.choice(CODE_MODES)),
    )
    c = codes(
        rng, operation.output, (rows, columns), mode if rng.random() < 0.5 else str(rng.choice(CODE_MODES))
    )
    return Question(a, b, c)


def codes(rng: np.random.Generator, fmt: Format, shape: tuple[int, ...], mode: str) -> Codes:
    if not fmt.is_float or mode == "bits":
        code = rng.integers(0, 1 << fmt.bits, shape, dtype=np.uint64, endpoint=False)
    else:
        top = (1 << fmt.exponent_bits) - 1
        low = {"zero": 0, "overflow": top - 3}.get(mode, int(rng.integers(0, top + 1)))
        span = {"binade": 1, "wide": 40, "powers": 60}.get(mode, 3)
        field = np.minimum(low + rng.integers(0, span, shape), top).astype(np.uint64)
        fraction = rng.integers(0, 1 << fmt.fraction_bits, shape, dtype=np.uint64)
        fraction[rng.random(shape) < (0.7 if mode in ("wide", "powers") else 0.2)] = 0
        sign = rng.integers(0, 2, shape).astype(np.uint64)
        code = sign * np.uint64(fmt.sign_code) | field << np.uint64(fmt.fraction_bits) | fraction
        code[rng.random(shape) < 0.05] = 0
        if fmt.specials == "negative zero":
            code[code == fmt.sign_code] = 0  # else most questions are full of NaN
    return (code << np.uint64(fmt.storage_shift)).astype(fmt.code_dtype)
