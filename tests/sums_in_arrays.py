"""Aligned, grouped and late sums once more: their rules over NumPy arrays, all outputs at once, for comparisons of millions.

Plain int64 and the tables of the scalar formats; no code of the fast model.
It equals the definition in Python integers, as tests/test_sums_in_arrays.py
shows, and takes a few microseconds an output, where the definition takes
hundreds.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tcu.formats import decode, get_format
from tcu.formats.format import Format
from tcu.units import AlignedSum, GroupedSum, Instruction, LateSum

__all__ = ["covers", "dots_by_definition", "outputs"]

Array = npt.NDArray[Any]
ABSENT = -(1 << 20)
"""The exponent of what takes no part."""
FINITE, INFINITE, NAN = 0, 1, 2


def covers(row: Instruction) -> bool:
    """Whether the rules here are all that the row has: those of the catalogue."""
    rules = row.arithmetic
    if isinstance(rules, AlignedSum):
        plain = not (rules.flush_inputs or rules.flush_outputs or rules.signed_zeros or rules.saturate)
        return (
            plain
            and rules.carry_bits is None
            and not rules.normalized_products
            and rules.nan_rule == "nvidia"
        )
    return isinstance(rules, GroupedSum | LateSum)


def dots_by_definition(row: Instruction, dots: int) -> int:
    """How many of the dot products meet the definition in Python integers: where the arrays take them all, 20,000."""
    return min(dots, 20_000) if covers(row) else dots


class Numbers(NamedTuple):
    """value = significand · 2^lowest, where kind is FINITE; the sign of inf is that of the significand."""

    significand: Array
    lowest: Array
    kind: Array

    def __getitem__(self, index: Any) -> Numbers:  # type: ignore[override]
        return Numbers(*(part[index] for part in tuple.__iter__(self)))


@lru_cache
def _table(fmt: Format) -> tuple[Array, Array, Array]:
    numbers = [decode(code, fmt) for code in range(1 << fmt.bits)]
    signs = [-1 if number.negative else 1 for number in numbers]
    sizes = [
        1 if number.kind == "inf" else number.significand if number.kind == "finite" else 0
        for number in numbers
    ]
    kinds = [("finite", "inf", "nan").index(number.kind) for number in numbers]
    return (
        np.array(signs, np.int64) * np.array(sizes),
        np.array([number.exponent for number in numbers], np.int64),
        np.array(kinds, np.int64),
    )


def numbers_of(words: Array, fmt: Format) -> Numbers:
    codes = words.astype(np.int64) >> fmt.storage_shift & (1 << fmt.bits) - 1
    if fmt.bits <= 16:
        return Numbers(*(part[codes] for part in _table(fmt)))
    fraction = codes & (1 << fmt.fraction_bits) - 1
    field = codes >> fmt.fraction_bits & (1 << fmt.exponent_bits) - 1
    special = field == (1 << fmt.exponent_bits) - 1
    kind = np.where(special, np.where(fraction != 0, NAN, INFINITE), FINITE)
    size = np.where(special, 1, fraction + (np.minimum(field, 1) << fmt.fraction_bits))
    return Numbers(
        np.where(codes & fmt.sign_code, -size, size),
        np.maximum(field, 1) - fmt.bias - fmt.fraction_bits,
        kind,
    )


def trunc(values: Array, below: Array) -> Array:
    """values · 2^-below toward zero."""
    return np.sign(values) * _shifted(np.abs(values), below)


def floor(values: Array, below: Array) -> Array:
    """The same toward -inf."""
    return _shifted(values, below)


def _shifted(values: Array, below: Array) -> Array:
    return values >> np.clip(below, 0, 63) << np.clip(-below, 0, 63)


def leading(values: Array) -> Array:
    """floor(log2 |x|) of integers below 2^53; of zero something small."""
    return np.where(values == 0, ABSENT, np.frexp(np.abs(values).astype(np.float64))[1] - 1)


def encoded(
    total: Array, unit: Array, fmt: Format, rounding: str, kept: int | None = None, signed: bool = False
) -> Array:
    """Codes of total · 2^unit, rounded once; signed: what rounds to zero keeps its sign."""
    kept = fmt.fraction_bits if kept is None else min(kept, fmt.fraction_bits)
    size, exponent = np.abs(total), np.maximum(leading(total) + unit, fmt.emin)
    below = exponent - kept - unit
    low = np.clip(below, 0, 62)
    code = _shifted(size, below)
    rest, half = size - (_shifted(size, low) << low), np.int64(1) << np.maximum(low - 1, 0)
    negative, inexact = total < 0, rest > 0
    up = {
        "RNE": (rest > half) | ((rest == half) & (code & 1 == 1)),
        "RZ": np.zeros_like(inexact),
        "RU": inexact & ~negative,
        "RD": inexact & negative,
        "RO": inexact & (code & 1 == 0),
    }[rounding] & (below > 0)
    code = ((exponent - fmt.emin << kept) + code + up) << fmt.fraction_bits - kept
    code = np.minimum(code, fmt.infinity_code)
    return np.where((code == 0) & (not signed), 0, code | np.where(negative, fmt.sign_code, 0))


def with_specials(codes: Array, terms: Numbers, c: Numbers, fmt: Format) -> Array:
    """The codes, but inf and NaN where they take part; terms: along the last axis."""
    infinite = terms.kind == INFINITE
    plus = (infinite & (terms.significand > 0)).any(-1) | ((c.kind == INFINITE) & (c.significand > 0))
    minus = (infinite & (terms.significand < 0)).any(-1) | ((c.kind == INFINITE) & (c.significand < 0))
    nan = (terms.kind == NAN).any(-1) | (c.kind == NAN) | (plus & minus)
    codes = np.where(minus, fmt.infinity_code | fmt.sign_code, np.where(plus, fmt.infinity_code, codes))
    return np.where(nan, fmt.nan_code, codes)


def products_of(p: Numbers, q: Numbers) -> Numbers:
    significand = p.significand * q.significand
    infinite = (p.kind == INFINITE) | (q.kind == INFINITE)
    nan = (p.kind == NAN) | (q.kind == NAN) | (infinite & (significand == 0))
    return Numbers(significand, p.lowest + q.lowest, np.where(nan, NAN, np.where(infinite, INFINITE, FINITE)))


def exponents(terms: Numbers, fraction_bits: int) -> Array:
    return np.where(terms.significand == 0, ABSENT, terms.lowest + fraction_bits)


def outputs(
    row: Instruction, a: Array, b: Array, c: Array, scales: tuple[Array, Array] | None = None
) -> Array:
    """Codes of A·B + C for words of A (M, K), B (K, N), C (M, N), and codes of the scales."""
    rules, fmt = row.arithmetic, get_format(row.output)
    x, y = get_format(row.a), get_format(row.b)
    more = -a.shape[1] % row.k
    a, b = np.pad(a, ((0, 0), (0, more))), np.pad(b, ((0, more), (0, 0)))
    if isinstance(rules, AlignedSum) and rules.through_binary16:
        a, b = (np.asarray(w).view(f.dtype).astype(np.float16).view(np.uint16) for w, f in ((a, x), (b, y)))
        x = y = get_format("binary16")
    fraction_bits = x.fraction_bits + y.fraction_bits
    left, right = numbers_of(a, x)[:, None, :], numbers_of(np.ascontiguousarray(b.T), y)[None]
    if row.scale:
        assert scales is not None
        scale = get_format(row.scale)
        of_a, of_b = (
            numbers_of(codes, scale)[index]
            for codes, index in (
                (scales[0], np.s_[:, None, :]),
                (np.ascontiguousarray(scales[1].T), np.s_[None]),
            )
        )
    codes = c.astype(np.int64)
    for start in range(0, a.shape[1], row.k):
        before = codes
        if isinstance(rules, AlignedSum) and rules.late_c:
            codes = np.zeros_like(codes)
        ks = np.array(getattr(rules, "order", None) or range(row.k)) + start
        for at in range(0, row.k, rules.block):
            k = ks[at : at + rules.block]
            products = products_of(left[..., k], right[..., k])
            addend = numbers_of(codes, fmt)
            if isinstance(rules, GroupedSum):
                s = k[:: rules.group] // row.per_scale
                codes = _grouped(
                    rules, products, fraction_bits, of_a[..., s], of_b[..., s], scale, addend, fmt
                )
            elif isinstance(rules, LateSum):
                codes = _late(rules, products, fraction_bits, addend, fmt)
            else:
                assert isinstance(rules, AlignedSum)
                if row.scale:
                    s = k // row.per_scale
                    products = _raised(products, of_a[..., s], of_b[..., s])
                codes = _aligned(rules, products, fraction_bits, addend, fmt)
        if isinstance(rules, AlignedSum) and rules.late_c:
            codes = _sum_of_two(codes, before, fmt)
    return codes.astype(fmt.code_dtype)


def _raised(products: Numbers, of_a: Numbers, of_b: Numbers) -> Numbers:
    nan = (of_a.kind == NAN) | (of_b.kind == NAN)
    return Numbers(
        products.significand, products.lowest + of_a.lowest + of_b.lowest, np.where(nan, NAN, products.kind)
    )


def _aligned(rules: AlignedSum, products: Numbers, fraction_bits: int, c: Numbers, fmt: Format) -> Array:
    """The rules of AlignedSum for one block."""
    common = np.maximum(exponents(products, fraction_bits).max(-1), exponents(c, fmt.fraction_bits))
    if rules.exponent_floor is not None:
        common = np.maximum(common, rules.exponent_floor)
    unit = common - rules.fraction_bits
    total = trunc(products.significand, unit[..., None] - products.lowest).sum(-1)
    total = total + trunc(c.significand, unit - c.lowest)
    codes = encoded(total, unit, fmt, rules.rounding, rules.output_fraction_bits)
    return with_specials(codes, products, c, fmt)


def _sum_of_two(first: Array, second: Array, fmt: Format) -> Array:
    """An IEEE addition to nearest, whose zeros are +0 and whose NaN is NVIDIA's: binary64 holds sums of binary16."""
    with np.errstate(all="ignore"):
        wide = np.float64 if fmt.name == "binary16" else np.float32
        one, two = (codes.astype(fmt.code_dtype).view(fmt.dtype).astype(wide) for codes in (first, second))
        total = (one + two).astype(fmt.dtype)
    codes = (total + fmt.dtype.type(0)).view(fmt.code_dtype).astype(np.int64)
    return np.where(np.isnan(total), fmt.nan_code, codes)


def _grouped(
    rules: GroupedSum, products: Numbers, fraction_bits: int, of_a: Numbers, of_b: Numbers, scale: Format, c: Numbers,
    fmt: Format,
) -> Array:  # fmt: skip
    """The rules of GroupedSum for one block; e2m1 has no inf and no NaN."""
    shape = (*products.significand.shape[:-1], -1, rules.group)
    unit = get_format("e2m1").quantum_exponent * 2  # of every product
    sums = (products.significand << products.lowest - unit).reshape(shape)
    scales = products_of(of_a, of_b)
    terms = sums.sum(-1) * scales.significand
    present = (sums != 0).any(-1) & (scales.significand != 0)
    own = np.where(present, scales.lowest + 2 * scale.fraction_bits, ABSENT)
    common = np.maximum(np.maximum(own.max(-1), exponents(c, fmt.fraction_bits)), rules.exponent_floor)
    cut = common - rules.fraction_bits
    total = trunc(terms, cut[..., None] - scales.lowest - unit).sum(-1) + trunc(c.significand, cut - c.lowest)
    codes = encoded(total, cut, fmt, "RZ")
    return with_specials(codes, scales, c, fmt)


def _late(rules: LateSum, products: Numbers, fraction_bits: int, c: Numbers, fmt: Format) -> Array:
    """The rules of LateSum for one block."""
    large = (products.kind == FINITE) & (leading(products.significand) + products.lowest > fmt.emax)
    products = products._replace(kind=np.where(large, INFINITE, products.kind))
    mine, kept = exponents(products, fraction_bits), rules.fraction_bits
    top = mine.max(-1)
    total = np.zeros_like(top)
    for group in range(rules.groups):
        own = mine[..., group :: rules.groups].max(-1)
        below = own[..., None] - kept - products.lowest[..., group :: rules.groups]
        total += floor(trunc(products.significand[..., group :: rules.groups], below).sum(-1), top - own)
    total = np.where(top == ABSENT, 0, total)
    exponent = c.lowest + fmt.fraction_bits
    common = np.maximum(top, exponent)
    late = rules.late_bits + 1
    addend = floor(c.significand, common - kept - c.lowest) << late - kept
    if rules.drops_small_c:
        addend = np.where(exponent < common - kept - 1, 0, addend)
    total = floor(total, common - late - (top - kept)) + addend
    unit = common - late
    own = np.maximum(leading(total) + unit, fmt.emin) - rules.late_bits
    below = np.maximum(own - unit, 0)
    codes = encoded(floor(total, below), unit + below, fmt, "RNE", signed=True)
    return with_specials(codes, products, c, fmt)
