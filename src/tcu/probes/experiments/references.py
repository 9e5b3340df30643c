"""Arithmetics that could be a unit's, and that no aligned sum is."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

from tcu.formats.scalar import Number, Rounding, decode, encode
from tcu.probes.experiments.experiment import Dot, Reference
from tcu.probes.target import Target
from tcu.units.arithmetic import AlignedSum

__all__ = [
    "aligned_to_output",
    "chain",
    "dropped_carry",
    "exact_once",
    "flushed_products",
    "normalised_after_each",
    "one_after_another",
    "rounded_once",
    "rounded_products",
    "wrapped_carry",
]


def _terms(target: Target, dot: Dot) -> list[Fraction]:
    """c and the products, exactly."""

    def value(x: float, fmt: str) -> Fraction:
        return decode(encode(Number.of(x), fmt), fmt).value

    x, y, z = target.input.name, target.right.name, target.output.name
    return [value(dot.c, z), *(value(p, x) * value(q, y) for p, q in zip(dot.a, dot.b, strict=True))]


def _top(terms: Iterable[Fraction]) -> int:
    """The exponent of the largest term; 0 where all are zero."""
    return max((math.floor(math.log2(abs(term))) for term in terms if term), default=0)


def _cut(term: Fraction, unit: Fraction) -> Fraction:
    return math.trunc(term / unit) * unit


def rounded_once(rounding: Rounding) -> Reference:
    """The exact sum, rounded once."""

    def predict(target: Target, dot: Dot) -> int:
        return encode(Number.of(sum(_terms(target, dot), Fraction(0))), target.output, rounding)

    return predict


exact_once = rounded_once("RNE")


def one_after_another(target: Target, dot: Dot) -> int:
    """IEEE additions in order, starting from c, each rounded to nearest."""
    total = Fraction(0)
    for term in _terms(target, dot):
        number = decode(encode(Number.of(total + term), target.output), target.output)
        if number.kind != "finite":
            return encode(number, target.output)
        total = number.value
    return encode(Number.of(total), target.output)


def rounded_products(base: AlignedSum) -> Reference:
    """Products rounded to the input format before they are added."""

    def predict(target: Target, dot: Dot) -> int:
        total, *products = _terms(target, dot)
        for product in products:
            number = decode(encode(Number.of(product), target.input), target.input)
            if number.kind == "finite":
                total += number.value
        return encode(Number.of(total), target.output, base.rounding)

    return predict


def flushed_products(base: AlignedSum) -> Reference:
    """Products below the smallest normal number of the output count as zero."""

    def predict(target: Target, dot: Dot) -> int:
        c, *products = _terms(target, dot)
        smallest = Fraction(2) ** target.output.emin
        total = c + sum((product for product in products if abs(product) >= smallest), Fraction(0))
        return encode(Number.of(total), target.output, base.rounding)

    return predict


def normalised_after_each(base: AlignedSum) -> Reference:
    """Additions one after another in order of size, each cut to F bits of its own sum."""

    def predict(target: Target, dot: Dot) -> int:
        total = Fraction(0)
        for term in sorted((term for term in _terms(target, dot) if term), key=abs, reverse=True):
            unit = Fraction(2) ** (_top((total, term)) - base.fraction_bits)
            total = _cut(total, unit) + _cut(term, unit)
            if total:
                total = _cut(total, Fraction(2) ** (_top((total,)) - base.fraction_bits))
        return encode(Number.of(total), target.output, base.rounding)

    return predict


def dropped_carry(base: AlignedSum, bits: int) -> Reference:
    """A sum that shifts right, and loses its last bits, once it outgrows ``bits`` carry bits."""

    def predict(target: Target, dot: Dot) -> int:
        terms = _terms(target, dot)
        top = _top(terms)
        unit = Fraction(2) ** (top - base.fraction_bits)
        total = Fraction(0)
        for term in terms:
            total += _cut(term, unit)
            while abs(total) >= Fraction(2) ** (top + 1 + bits):
                unit *= 2
                top += 1
                total = _cut(total, unit)
        return encode(Number.of(total), target.output, base.rounding)

    return predict


def wrapped_carry(base: AlignedSum, bits: int) -> Reference:
    """A sum that wraps around once it outgrows ``bits`` carry bits."""

    def predict(target: Target, dot: Dot) -> int:
        terms = _terms(target, dot)
        top = _top(terms)
        unit = Fraction(2) ** (top - base.fraction_bits)
        total = sum((_cut(term, unit) for term in terms), Fraction(0))
        limit = Fraction(2) ** (top + 1 + bits)
        return encode(Number.of(total - limit * math.floor(total / limit)), target.output, base.rounding)

    return predict


def aligned_to_output(rounding: Rounding) -> Reference:
    """All addends cut to the result's last bit beside the largest, added, and rounded once."""

    def predict(target: Target, dot: Dot) -> int:
        terms = _terms(target, dot)
        unit = Fraction(2) ** (_top(terms) - target.output.fraction_bits)
        total = sum((_cut(term, unit) for term in terms), Fraction(0))
        return encode(Number.of(total), target.output, rounding)

    return predict


def chain(
    rounding: Rounding = "RNE", *, fused: bool = True, by_size: bool = False, last_c: bool = False
) -> Reference:
    """Additions one after another, each rounded; c comes first unless ``last_c``."""

    def predict(target: Target, dot: Dot) -> int:
        z = target.output

        def rounded(exact: Fraction) -> Fraction:
            return decode(encode(Number.of(exact), z, rounding), z).value

        c, *products = _terms(target, dot)
        products += [Fraction(0)] * (target.k - len(products))
        if not fused:
            products = [rounded(product) for product in products]
        terms = [*products, c] if last_c else [c, *products]
        if by_size:
            terms.sort(key=abs, reverse=True)
        total = terms[0]
        for term in terms[1:]:
            total = rounded(total + term)
        return encode(Number.of(total), z)

    return predict
