"""The experiments: hypotheses that predict different bits, and operands on which they do.

An experiment names the models that could be (variations of one arithmetic,
or a reference such as IEEE additions one after another), asks dot products
on which their predictions differ, and concludes which of them the answers
confirm.  Those of paper 003 (Fasi, Higham, Mikaitis, Pranesh, 2021) use the
paper's operands, with its small constant moved to the target's own last bit,
as the paper does for the T4.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from tcu.formats.scalar import Number, decode, encode
from tcu.probes.finding import Value
from tcu.probes.infer import interleaved
from tcu.probes.target import Target
from tcu.units.arithmetic import AlignedSum

__all__ = ["EXPERIMENTS", "Dot", "Experiment", "Hypothesis"]


@dataclass(frozen=True)
class Dot:
    """c + a·b of exact values; factors that are not given are zero."""

    a: tuple[float, ...]
    b: tuple[float, ...]
    c: float = 0.0


Reference = Callable[[Target, Dot], int]
Model = AlignedSum | Reference


@dataclass(frozen=True)
class Hypothesis:
    """A model that could be the target's, and what it would mean."""

    name: str
    model: Model
    value: Value
    conclusion: str


@dataclass(frozen=True)
class Experiment:
    name: str
    source: str
    question: str
    hypotheses: Callable[[Any, Target], Sequence[Hypothesis]]
    dots: Callable[[Any, Target], Iterator[Dot]]
    """Both take the arithmetic that the hypotheses vary (None where there is none) and the target."""
    search: bool = True
    """Whether to look for further operands if the given ones do not tell the hypotheses apart."""
    several: bool = False
    """Whether more than one hypothesis may be left: the value names them all."""


def _split(product: float, target: Target) -> tuple[float, float] | None:
    """Two factors of a power of two, normal numbers of the input format."""
    x = target.input
    exponent = round(math.log2(abs(product)))
    first = min(max(exponent // 2, x.emin), x.emax)
    second = exponent - first
    if not x.emin <= second <= x.emax:
        return None
    return math.copysign(2.0**first, product), 2.0**second


def _dot(
    target: Target,
    products: Sequence[float],
    c: float = 0.0,
    at: Sequence[int] | None = None,
    scales: Sequence[int] = (0, 4, 8, 12, 16),
) -> Iterator[Dot]:
    """The products of signed powers of two, at the given k; nothing where the formats cannot hold them.

    All may be multiplied by one power of two, since 8-bit formats hold few small numbers.
    """
    places = list(range(len(products)) if at is None else at)
    if len(places) < len(products) or (places and max(places) >= target.k):
        return
    for scale in scales:
        factors = [_split(math.ldexp(product, scale), target) for product in products]
        held = decode(encode(Number.of(math.ldexp(c, scale)), target.output), target.output)
        if None in factors or held.kind != "finite" or held.value != Fraction(c) * 2**scale:
            continue
        a, b = [0.0] * (max(places, default=-1) + 1), [0.0] * (max(places, default=-1) + 1)
        for place, pair in zip(places, factors, strict=False):
            assert pair is not None
            a[place], b[place] = pair
        yield Dot(tuple(a), tuple(b), math.ldexp(c, scale))
        return


def _block(base: AlignedSum, target: Target) -> list[int]:
    """The k of the first block."""
    order = base.order or tuple(range(target.k))
    return list(order[: base.block])


def _vary(base: AlignedSum, name: str, **rows: tuple[object, Value, str]) -> list[Hypothesis]:
    """One hypothesis for each value of one parameter."""
    return [
        Hypothesis(label.replace("_", " "), replace(base, **{name: setting}), value, text)  # type: ignore[arg-type]
        for label, (setting, value, text) in rows.items()
    ]


# References that no aligned sum is


def _terms(target: Target, dot: Dot) -> list[Fraction]:
    def value(x: float, fmt: str) -> Fraction:
        return decode(encode(Number.of(x), fmt), fmt).value

    x, z = target.input.name, target.output.name
    return [value(dot.c, z), *(value(p, x) * value(q, x) for p, q in zip(dot.a, dot.b, strict=True))]


def exact_once(target: Target, dot: Dot) -> int:
    """The exact sum, rounded once to nearest."""
    return encode(Number.of(sum(_terms(target, dot), Fraction(0))), target.output)


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
        total = _terms(target, dot)[0]
        for term in _terms(target, dot)[1:]:
            number = decode(encode(Number.of(term), target.input), target.input)
            if number.kind == "finite":
                total += number.value
        return encode(Number.of(total), target.output, base.rounding)

    return predict


# The experiments of paper 003


def _subnormal_input_dots(base: AlignedSum, t: Target) -> Iterator[Dot]:
    tiny = t.input.min_subnormal
    for scale in (4.0, 2.0 ** min(t.input.emax, 20)):
        yield Dot((tiny,), (scale,))


def _subnormal_result_dots(base: AlignedSum, t: Target) -> Iterator[Dot]:
    yield from _dot(t, [t.output.min_normal / 2], scales=[0])
    yield from _dot(t, [t.output.min_normal], -t.output.min_normal / 2, scales=[0])


def _exact_product_dots(base: AlignedSum, t: Target) -> Iterator[Dot]:
    u = t.input.unit_roundoff
    count = min(4, base.block, t.k)
    yield Dot((1 - u,) * count, (1 - u,) * count)
    yield Dot((1 - u, 1 - u), (1 - u, u))


def _small(base: AlignedSum) -> float:
    return 2.0 ** -(base.fraction_bits + 1)


def _count(base: AlignedSum, t: Target) -> int:
    """Addends just below the last kept bit that together would reach the result's last bit."""
    kept = base.output_fraction_bits or t.output.fraction_bits
    return min(max(4, 1 << max(base.fraction_bits + 1 - kept, 0)), len(_block(base, t)))


def _five_orders(base: AlignedSum, t: Target) -> Iterator[Dot]:
    """One addend is 1, the others are cut beside it; the 1 takes every place in turn."""
    places = _block(base, t)[: _count(base, t)]
    small = _small(base)
    if not base.late_c:
        yield from _dot(t, [small] * len(places), 1.0, places)
    for one in dict.fromkeys([*range(min(4, len(places))), len(places) - 1]):
        products = [small] * len(places)
        products[one] = 1.0
        yield from _dot(t, products, 0.0 if base.late_c else small, places)


def _half_way(base: AlignedSum, t: Target, signs: Sequence[float]) -> Iterator[Dot]:
    """1 + 1 and addends that leave the sum one quarter, one half or three quarters between two numbers."""
    kept = base.output_fraction_bits or t.output.fraction_bits
    places = _block(base, t)
    last = 2.0 ** -min(kept, base.fraction_bits)
    for sign in signs:
        for parts in ((1.0, 2 * last, last), (1.0, last), (1.0, last, last / 2), (1.0, last / 2), (last,)):
            lead = 1.0 if base.late_c else None
            products = [sign * part for part in parts] + ([sign * 1.0] if lead else [])
            yield from _dot(t, products, 0.0 if lead else sign * 1.0, places[: len(products)])
            more = [*products, *(sign * last / 4,) * 2]
            yield from _dot(t, more, 0.0 if lead else sign * 1.0, places[: len(more)])


def _roundings(base: AlignedSum, t: Target) -> list[Hypothesis]:
    names = {"RNE": "to nearest, ties to even", "RZ": "toward zero", "RU": "toward +inf", "RD": "toward -inf"}
    return [
        Hypothesis(mode, replace(base, rounding=mode), mode, f"The sum is rounded {name} ({mode}).")  # type: ignore[arg-type]
        for mode, name in names.items()
    ]


def _extra_bits_dots(base: AlignedSum, t: Target) -> Iterator[Dot]:
    places = _block(base, t)
    for bits in (base.fraction_bits, base.fraction_bits + 1):
        if len(places) >= 2 and not base.late_c:
            yield from _dot(t, [-1.0, 2.0**-bits], 1.0, places)
        yield from _dot(t, [1.0, -1.0, 2.0**-bits], 0.0, places)
        yield from _dot(t, [-1.0], 1 - 2.0**-bits, places[:1])


def _extra_bits(base: AlignedSum, t: Target) -> list[Hypothesis]:
    own = t.output.fraction_bits
    f = base.fraction_bits
    return [
        Hypothesis(
            f"F = {bits}", replace(base, fraction_bits=bits), bits,
            f"Aligned addends keep {bits} bits after the point, {bits - own:+d} against {t.output.name}'s own {own}.",
        )
        for bits in range(max(1, f - 2), min(42, f + 2) + 1)
    ]  # fmt: skip


def _guard_dots(base: AlignedSum, t: Target) -> Iterator[Dot]:
    bits = t.output.fraction_bits + 1
    yield from _dot(t, [1.0], -1 + 2.0**-bits)


def _guard(base: AlignedSum, t: Target) -> list[Hypothesis]:
    p = t.output.fraction_bits
    none = replace(base, fraction_bits=min(base.fraction_bits, p))
    some = replace(base, fraction_bits=max(base.fraction_bits, p + 1))
    return [
        Hypothesis("no guard digit", none, False, f"There is no guard digit: 1 - (1 - 2^-{p + 1}) is off by a factor of two."),
        Hypothesis("a guard digit", some, True, "A cancelling subtraction keeps a bit below the last place."),
    ]  # fmt: skip


def normalised_after_each(base: AlignedSum) -> Reference:
    """Additions one after another in order of size, each cut to F bits of its own sum."""

    def predict(target: Target, dot: Dot) -> int:
        terms = sorted((term for term in _terms(target, dot) if term), key=abs, reverse=True)
        total = Fraction(0)
        for term in terms:
            top = max(abs(total), abs(term))
            exponent = math.floor(math.log2(top))
            unit = Fraction(2) ** (exponent - base.fraction_bits)
            total = math.trunc(total / unit) * unit + math.trunc(term / unit) * unit
            if total:
                unit = Fraction(2) ** (math.floor(math.log2(abs(total))) - base.fraction_bits)
                total = math.trunc(total / unit) * unit
        return encode(Number.of(total), target.output, base.rounding)

    return predict


def _normalisation(base: AlignedSum, t: Target) -> list[Hypothesis]:
    return [
        Hypothesis("only at the end", base, False, "Partial sums are not normalised; only the final sum is."),
        Hypothesis(
            "after each addition", normalised_after_each(base), True, "Every partial sum is normalised."
        ),
    ]


def _growing(base: AlignedSum, t: Target) -> tuple[float, float, list[int]] | None:
    """c just below 1, an addend at the last bit kept beside it, and as many places as show in the result.

    On the V100 these are the paper's 1 - 2^-24 and four times 2^-24.
    """
    kept = min(base.fraction_bits, t.output.fraction_bits)
    reach, show = 2 ** (base.fraction_bits - kept), 2 ** (base.fraction_bits + 1 - kept)
    places = _block(base, t)
    count = max(reach + show, min(4, len(places)))
    return (1 - 2.0 ** -(kept + 1), _small(base), places[:count]) if count <= len(places) else None


def _normalise_add_dots(base: AlignedSum, t: Target) -> Iterator[Dot]:
    growing = _growing(base, t)
    if growing is not None:
        c, small, places = growing
        yield from _dot(t, [small] * len(places), c, places)


def _normalise_subtract_dots(base: AlignedSum, t: Target) -> Iterator[Dot]:
    small = 2.0 ** -(base.fraction_bits + 1)
    places = _block(base, t)
    yield from _dot(t, [1.0, -small], -1 + small, places[:2])
    yield from _dot(t, [1.0, -0.5, -0.5, small * 2, -small], 0.0, places[:5])
    yield from _dot(t, [1.0, -small, -small], -1 + 2 * small, places[:3])


def dropped_carry(base: AlignedSum, bits: int) -> Reference:
    """A sum that shifts right, and loses its last bits, once it outgrows ``bits`` carry bits."""

    def predict(target: Target, dot: Dot) -> int:
        terms = [term for term in _terms(target, dot) if term]
        top = max((math.floor(math.log2(abs(term))) for term in terms), default=0)
        unit = Fraction(2) ** (top - base.fraction_bits)
        total = Fraction(0)
        for term in terms:
            total += math.trunc(term / unit) * unit
            while abs(total) >= Fraction(2) ** (top + 1 + bits):
                unit *= 2
                top += 1
                total = math.trunc(total / unit) * unit
        return encode(Number.of(total), target.output, base.rounding)

    return predict


def wrapped_carry(base: AlignedSum, bits: int) -> Reference:
    """A sum that wraps around once it outgrows ``bits`` carry bits."""

    def predict(target: Target, dot: Dot) -> int:
        terms = [term for term in _terms(target, dot) if term]
        top = max((math.floor(math.log2(abs(term))) for term in terms), default=0)
        unit = Fraction(2) ** (top - base.fraction_bits)
        total = sum((math.trunc(term / unit) * unit for term in terms), Fraction(0))
        limit = Fraction(2) ** (top + 1 + bits)
        return encode(Number.of(total - limit * math.floor(total / limit)), target.output, base.rounding)

    return predict


def _two_carry_dots(base: AlignedSum, t: Target) -> Iterator[Dot]:
    """1 + 2^-(p-1) + 2^-p as c, then 1, 1, 1 and 2^-p in every order (paper 003)."""
    p = min(base.output_fraction_bits or t.output.fraction_bits, base.fraction_bits)
    u = 2.0**-p
    places = _block(base, t)[:4]
    for small in range(4):
        products = [1.0] * 4
        products[small] = u
        yield from _dot(t, products, 1 + 3 * u, places)
    # Where the alignment keeps more bits than a result has: its last one, seen after the rest cancels.
    last = 2.0**-base.fraction_bits
    yield from _dot(t, [1.0, 1.0, 1.0, last, -1.0, -1.0, -1.0, -1.0], 1.0, _block(base, t)[:8])


def _three_carry_dots(base: AlignedSum, t: Target) -> Iterator[Dot]:
    if len(_block(base, t)) >= 4 and t.k >= 4 and base.order is None:
        yield Dot((1.0,) * 4, (1.0, 1.5, 1.75, 1.875), 1.875)


def _monotonic_dots(base: AlignedSum, t: Target) -> Iterator[Dot]:
    """Small addends and c just below 1, then c = 1: the second sum must not be smaller (paper 003)."""
    growing = _growing(base, t)
    if growing is not None:
        c, small, places = growing
        yield from _dot(t, [small] * len(places), c, places)
        yield from _dot(t, [small] * len(places), 1.0, places)


# What later chips made uncertain


def _blocks(base: AlignedSum, t: Target) -> list[Hypothesis]:
    sizes = sorted({min(b, t.k) for b in (1, 2, 4, 8, 16, 32, base.block)})
    own = min(base.block, t.k)
    return [
        Hypothesis(
            f"{size} at a time", replace(base, block=base.block if size == own else size), size,
            f"{size} product{'s' * (size > 1)} at a time {'are' if size > 1 else 'is'} aligned and added.",
        )
        for size in sizes
    ]  # fmt: skip


def _block_dots(base: AlignedSum, t: Target) -> Iterator[Dot]:
    """A large pair that cancels, in places further and further apart, and a small addend beside it."""
    kept = base.output_fraction_bits or t.output.fraction_bits
    small = 2.0 ** -(base.fraction_bits + 2)
    order = base.order or tuple(range(t.k))
    for last in (1, 2, 3, 4, 8, 16, t.k - 1):
        if 2 <= last < t.k:
            yield from _dot(t, [1.0, -1.0, small], 0.0, [order[0], order[1], order[last]])
    yield from _dot(t, [1.0, 2.0 ** -(kept + 1), 2.0 ** -(kept + 1)], 0.0, list(order[:3]))


def _orders(base: AlignedSum, t: Target) -> list[Hypothesis]:
    hypotheses = [
        Hypothesis("ascending k", replace(base, order=None), "ascending", "Blocks follow in order of k.")
    ]
    for period in (2, 4, 8):
        if t.k % period == 0 and t.k > period:
            order = interleaved(t.k, period)
            half = ", ".join(map(str, range(period // 2)))
            hypotheses.append(Hypothesis(
                f"k mod {period} in {{{half}}} first", replace(base, order=order), f"k mod {period}",
                f"The products with k mod {period} in {{{half}}} are added first.",
            ))  # fmt: skip
    return hypotheses


def _late_c_dots(base: AlignedSum, t: Target) -> Iterator[Dot]:
    small = _small(base)
    places = _block(base, t)
    yield from _dot(t, [small] * _count(base, t), 1.0, places[: _count(base, t)])
    kept = t.output.fraction_bits
    yield from _dot(t, [2.0 ** -(kept + 1), 2.0 ** -(kept + 2)], 1.0, places[:2])


def _normalised_product_dots(base: AlignedSum, t: Target) -> Iterator[Dot]:
    """(2 - u)² - (2 - u)² and an addend at the last bit of a sum aligned at 1, but not of one aligned at 2."""
    x = t.input
    top = 2 - 2.0**-x.fraction_bits
    factors = _split(2.0**-base.fraction_bits, t)
    places = _block(base, t)
    if factors and len(places) >= 3 and base.order is None:
        yield Dot((top, -top, factors[0]), (top, top, factors[1]))
    yield Dot((top,), (top,), -1.0)


def _output_bits(base: AlignedSum, t: Target) -> list[Hypothesis]:
    full = t.output.fraction_bits
    own = base.output_fraction_bits or full
    return [
        Hypothesis(
            f"{bits} bits", replace(base, output_fraction_bits=None if bits == full else bits), bits,
            f"Results keep {bits} of the {full} fraction bits of {t.output.name}." if bits < full
            else f"Results have all {full} fraction bits of {t.output.name}.",
        )
        for bits in sorted({max(1, own - 1), own, min(own + 1, full), full})
    ]  # fmt: skip


def _output_bit_dots(base: AlignedSum, t: Target) -> Iterator[Dot]:
    own = base.output_fraction_bits or t.output.fraction_bits
    for bits in (own, own + 1):
        yield from _dot(t, [1.0, 2.0**-bits], 0.0, _block(base, t)[:2])
        yield from _dot(t, [2.0**-bits], 1.0, _block(base, t)[:1])


def _floors(base: AlignedSum, t: Target) -> list[Hypothesis]:
    own = base.exponent_floor
    floors = [None, -126, -132, -133, -134] if t.output.bits > 16 else [None, -14, -19, -20, -21, -22]
    return [
        Hypothesis(
            "none" if floor is None else f"{floor}", replace(base, exponent_floor=floor),
            "none" if floor is None else floor,
            "The common exponent sinks as far as the products do." if floor is None
            else f"The common exponent does not sink below {floor}.",
        )
        for floor in dict.fromkeys([own, *floors])
    ]  # fmt: skip


def _floor_dots(base: AlignedSum, t: Target) -> Iterator[Dot]:
    """A result next to the smallest number, and an addend that decides its rounding if the floor lets it live."""
    q = t.output.min_subnormal
    if base.exponent_floor is None:
        return
    for sunk in (0, 1):
        tiny = 2.0 ** (base.exponent_floor - base.fraction_bits - sunk)
        yield from _dot(t, [2 * q, -tiny], 0.0, _block(base, t)[:2], [0])
        yield from _dot(t, [q, q / 2, -tiny], 0.0, _block(base, t)[:3], [0])


def _no_dots(base: AlignedSum, t: Target) -> Iterator[Dot]:
    return iter(())


_SUPPORT = "paper 003, Support for subnormal numbers"
_ACCURACY = "paper 003, Accuracy of the dot products"
_ROUNDING = "paper 003, Rounding modes in tensor core computations"
_CARRY = "paper 003, Extra bits for carry out"
_LATER = "after paper 003, for later chips"

EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment(
        "subnormal inputs", _SUPPORT, "Are subnormal inputs used, or flushed to zero?",
        lambda base, t: _vary(
            base, "flush_inputs", used=(False, True, "Subnormal inputs are used as they are."),
            flushed=(True, False, "Subnormal inputs are flushed to zero."),
        ),
        _subnormal_input_dots,
    ),
    Experiment(
        "subnormal c", _SUPPORT, "Does a subnormal c come back unchanged?",
        lambda base, t: [
            Hypothesis("preserved", replace(base, flush_inputs=False, flush_outputs=False), True,
                       "A subnormal c comes back unchanged."),
            Hypothesis("flushed", replace(base, flush_inputs=True, flush_outputs=True), False,
                       "A subnormal c becomes zero."),
        ],
        lambda base, t: iter([Dot((), (), t.output.min_subnormal)]),
    ),
    Experiment(
        "subnormal results", _SUPPORT, "Do normal inputs give subnormal results?",
        lambda base, t: _vary(
            base, "flush_outputs", returned=(False, True, "Subnormal results are returned."),
            flushed=(True, False, "Subnormal results are flushed to zero."),
        ),
        _subnormal_result_dots, search=False,
    ),
    Experiment(
        "exact products", _ACCURACY, "Are the products held exactly until they are added?",
        lambda base, t: [
            Hypothesis("exact", base, True, "The products are held exactly until they are added."),
            Hypothesis("rounded", rounded_products(base), False, "Products are rounded before they are added."),
        ],
        _exact_product_dots,
    ),
    Experiment(
        "several roundings", _ACCURACY, "Is each sum rounded once, or does every small addend lose on its own?",
        lambda base, t: [
            Hypothesis("each on its own", base, True,
                       "Small addends are lost one by one beside the largest: as many errors as additions."),
            Hypothesis("once", exact_once, False, "The exact sum is rounded once."),
        ],
        _five_orders, search=False,
    ),
    Experiment(
        "largest addend first", _ACCURACY, "Does the sum start from the largest addend, wherever it stands?",
        lambda base, t: [
            Hypothesis("aligned to the largest", base, True,
                       "Every addend is aligned to the largest before anything is added, wherever it stands."),
            Hypothesis("one after another", one_after_another, False, "Addends follow in a fixed order."),
        ],
        _five_orders, search=False,
    ),
    Experiment("rounding, positive", _ROUNDING, "Where does a positive sum between two numbers go?",
               _roundings, lambda base, t: _half_way(base, t, [1.0]), search=False, several=True),
    Experiment("rounding, negative", _ROUNDING, "Where does a negative sum between two numbers go?",
               _roundings, lambda base, t: _half_way(base, t, [-1.0]), search=False, several=True),
    Experiment("rounding mode", _ROUNDING, "Which rounding explains both signs?",
               _roundings, lambda base, t: _half_way(base, t, [1.0, -1.0])),
    Experiment("extra bits", "paper 003, Extra bits in the alignment of significands",
               "How many bits survive the alignment to the largest addend?", _extra_bits, _extra_bits_dots),
    Experiment("guard digit", "paper 003, Extra bits in the alignment of significands",
               "Does a cancelling subtraction keep a bit below the last place?", _guard, _guard_dots, search=False),
    Experiment("normalisation in addition", "paper 003, Normalization in addition",
               "Is a partial sum normalised before the next addition?", _normalisation, _normalise_add_dots,
               search=False),
    Experiment("normalisation in subtraction", "paper 003, Normalization in subtraction",
               "Is a partial difference normalised before the next addition?", _normalisation,
               _normalise_subtract_dots, search=False),
    Experiment(
        "two carry bits", _CARRY, "Do the last bits survive while the sum grows by two places?",
        lambda base, t: [
            Hypothesis("kept", base, True, "There are at least two bits above the significand for carries."),
            Hypothesis("dropped", dropped_carry(base, 0), False, "The last bits are dropped while the sum grows."),
        ],
        _two_carry_dots, search=False,
    ),
    Experiment(
        "third carry bit", _CARRY, "Does a sum of 8 from addends below 2 come back whole?",
        lambda base, t: [
            Hypothesis("a third bit", base, True, "There is a third carry bit: the sum of 8 comes back whole."),
            Hypothesis("two bits", wrapped_carry(base, 2), False, "Two carry bits overflow: 8 comes back as 0."),
        ],
        _three_carry_dots, search=False,
    ),
    Experiment(
        "monotonicity", "paper 003, Monotonicity of dot product", "Can raising an addend lower the sum?",
        lambda base, t: [
            Hypothesis("not monotonic", base, False, "Raising c from just below 1 to 1 lowers the sum."),
            Hypothesis("monotonic", one_after_another, True, "Raising an addend never lowers the sum."),
        ],
        _monotonic_dots, search=False,
    ),
    Experiment(
        "place of c", _LATER, "Is c aligned with the products, or added after them?",
        lambda base, t: _vary(
            base, "late_c", aligned=(False, "aligned", "c is aligned and added together with the products."),
            late=(True, "late", "c is added after the products, by an addition of its own."),
        ),
        _late_c_dots,
    ),
    Experiment("block size", _LATER, "How many products are aligned together?", _blocks, _block_dots),
    Experiment("order of blocks", _LATER, "Which products come first?", _orders, _no_dots),
    Experiment(
        "normalised products", _LATER, "Is a product in [2, 4) normalised before the alignment?",
        lambda base, t: _vary(
            base, "normalized_products",
            not_normalised=(False, False, "A product counts with the sum of its factors' exponents."),
            normalised=(True, True, "A product in [2, 4) counts with its own exponent."),
        ),
        _normalised_product_dots,
    ),
    Experiment("output fraction bits", _LATER, "How many fraction bits does a result have?", _output_bits,
               _output_bit_dots),
    Experiment("exponent floor", _LATER, "How far can the common exponent sink?", _floors, _floor_dots),
)  # fmt: skip
