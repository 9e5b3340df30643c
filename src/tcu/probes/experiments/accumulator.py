"""Paper 003 on the accumulator: extra bits, guard digit, normalisation, carries, monotonicity."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tcu.probes.experiments.experiment import Dot, Experiment, Hypothesis
from tcu.probes.experiments.operands import dots, first_block, first_cut, growing, result_bits
from tcu.probes.experiments.references import (
    dropped_carry,
    normalised_after_each,
    one_after_another,
    rounded_once,
    wrapped_carry,
)
from tcu.probes.target import Target
from tcu.units.arithmetic import MAX_FRACTION_BITS, AlignedSum

__all__ = ["ACCUMULATOR_EXPERIMENTS"]

_ALIGNMENT = "paper 003, Extra bits in the alignment of significands"
_CARRY = "paper 003, Extra bits for carry out"


# Extra bits


def _extra_bits(base: AlignedSum, target: Target) -> list[Hypothesis]:
    z, own = target.output, base.fraction_bits

    def hypothesis(bits: int) -> Hypothesis:
        extra = f"{bits - z.fraction_bits:+d} against {z.name}'s own {z.fraction_bits}"
        text = f"Aligned addends keep {bits} bits after the point, {extra}."
        return Hypothesis(f"F = {bits}", replace(base, fraction_bits=bits), bits, text)

    return [hypothesis(bits) for bits in range(max(1, own - 2), min(MAX_FRACTION_BITS, own + 2) + 1)]


def _extra_bit_dots(base: AlignedSum, target: Target) -> Iterator[Dot]:
    places = first_block(base, target)
    for bits in (base.fraction_bits, base.fraction_bits + 1):
        if len(places) >= 2 and not base.late_c:
            yield from dots(target, [-1.0, 2.0**-bits], 1.0, places)
        yield from dots(target, [1.0, -1.0, 2.0**-bits], 0.0, places)
        yield from dots(target, [-1.0], 1 - 2.0**-bits, places[:1])


def _guard_digit(base: AlignedSum, target: Target) -> list[Hypothesis]:
    p = target.output.fraction_bits
    without = replace(base, fraction_bits=min(base.fraction_bits, p))
    guarded = replace(base, fraction_bits=max(base.fraction_bits, p + 1))
    off = f"There is no guard digit: 1 - (1 - 2^-{p + 1}) is off by a factor of two."
    return [
        Hypothesis("no guard digit", without, False, off),
        Hypothesis("a guard digit", guarded, True, "A cancelling subtraction keeps a bit below the last place."),
    ]  # fmt: skip


def _guard_digit_dots(base: AlignedSum, target: Target) -> Iterator[Dot]:
    yield from dots(target, [1.0], -1 + target.output.unit_roundoff)


# Normalisation


def _normalisation(base: AlignedSum, target: Target) -> list[Hypothesis]:
    only_last = "Partial sums are not normalised; only the final sum is."
    return [
        Hypothesis("only at the end", base, False, only_last),
        Hypothesis(
            "after each addition", normalised_after_each(base), True, "Every partial sum is normalised."
        ),
    ]


def _addition_dots(base: AlignedSum, target: Target) -> Iterator[Dot]:
    sum_that_grows = growing(base, target)
    if sum_that_grows is not None:
        c, products, places = sum_that_grows
        yield from dots(target, products, c, places)


def _subtraction_dots(base: AlignedSum, target: Target) -> Iterator[Dot]:
    small = first_cut(base)
    places = first_block(base, target)
    yield from dots(target, [1.0, -small], -1 + small, places[:2])
    yield from dots(target, [1.0, -0.5, -0.5, small * 2, -small], 0.0, places[:5])
    yield from dots(target, [1.0, -small, -small], -1 + 2 * small, places[:3])


# Carries


def _two_carry_bits(base: AlignedSum, target: Target) -> list[Hypothesis]:
    dropped = dropped_carry(base, 0)
    return [
        Hypothesis("kept", base, True, "There are at least two bits above the significand for carries."),
        Hypothesis("dropped", dropped, False, "The last bits are dropped while the sum grows."),
    ]


def _two_carry_dots(base: AlignedSum, target: Target) -> Iterator[Dot]:
    """1 + 2^-(p-1) + 2^-p as c, then 1, 1, 1 and 2^-p in every order (paper 003)."""
    u = 2.0 ** -min(result_bits(base, target), base.fraction_bits)
    places = first_block(base, target)
    for small in range(4):
        products = [1.0] * 4
        products[small] = u
        yield from dots(target, products, 1 + 3 * u, places[:4])
    # Where the alignment keeps more bits than a result has: its last one, seen after the rest cancels.
    last = 2.0**-base.fraction_bits
    yield from dots(target, [1.0, 1.0, 1.0, last, -1.0, -1.0, -1.0, -1.0], 1.0, places[:8])


def _third_carry_bit(base: AlignedSum, target: Target) -> list[Hypothesis]:
    wrapped = wrapped_carry(base, 2)
    return [
        Hypothesis("a third bit", base, True, "There is a third carry bit: the sum of 8 comes back whole."),
        Hypothesis("two bits", wrapped, False, "Two carry bits overflow: 8 comes back as 0."),
    ]


def _third_carry_dots(base: AlignedSum, target: Target) -> Iterator[Dot]:
    if len(first_block(base, target)) >= 4 and target.k >= 4 and base.order is None:
        yield Dot((1.0,) * 4, (1.0, 1.5, 1.75, 1.875), 1.875)


# Monotonicity


def _monotonicity(base: AlignedSum, target: Target) -> list[Hypothesis]:
    return [
        Hypothesis("not monotonic", base, False, "Raising c from just below 1 to 1 lowers the sum."),
        Hypothesis("monotonic", one_after_another, True, "Raising an addend never lowers the sum."),
        Hypothesis(
            "rounded once", rounded_once(base.rounding), True, "Raising an addend never lowers the sum."
        ),
    ]


def _monotonicity_dots(base: AlignedSum, target: Target) -> Iterator[Dot]:
    """Small addends and c just below 1, then c = 1: the second sum must not be smaller (paper 003)."""
    sum_that_grows = growing(base, target)
    if sum_that_grows is not None:
        c, products, places = sum_that_grows
        yield from dots(target, products, c, places)
        yield from dots(target, products, 1.0, places)


ACCUMULATOR_EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment(
        "extra bits", _ALIGNMENT, "How many bits survive the alignment to the largest addend?",
        _extra_bits, _extra_bit_dots,
    ),
    Experiment(
        "guard digit", _ALIGNMENT, "Does a cancelling subtraction keep a bit below the last place?",
        _guard_digit, _guard_digit_dots, search=False,
    ),
    Experiment(
        "normalisation in addition", "paper 003, Normalization in addition",
        "Is a partial sum normalised before the next addition?", _normalisation, _addition_dots, search=False,
    ),
    Experiment(
        "normalisation in subtraction", "paper 003, Normalization in subtraction",
        "Is a partial difference normalised before the next addition?", _normalisation, _subtraction_dots,
        search=False,
    ),
    Experiment(
        "two carry bits", _CARRY, "Do the last bits survive while the sum grows by two places?",
        _two_carry_bits, _two_carry_dots, search=False,
    ),
    Experiment(
        "third carry bit", _CARRY, "Does a sum of 8 from addends below 2 come back whole?",
        _third_carry_bit, _third_carry_dots, search=False,
    ),
    Experiment(
        "monotonicity", "paper 003, Monotonicity of dot product", "Can raising an addend lower the sum?",
        _monotonicity, _monotonicity_dots, search=False,
    ),
)  # fmt: skip
