"""Paper 003 on subnormal numbers, exact products, and how often and where a sum is rounded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tcu.probes.experiments.experiment import (
    ROUNDING_NAMES,
    Dot,
    Experiment,
    Hypothesis,
    parameter_hypotheses,
)
from tcu.probes.experiments.operands import (
    cut_count,
    dots,
    factors,
    first_block,
    first_cut,
    result_bits,
)
from tcu.probes.experiments.references import (
    exact_once,
    flushed_products,
    one_after_another,
    rounded_products,
)
from tcu.probes.target import Target
from tcu.units.arithmetic import AlignedSum

__all__ = ["ROUNDING_EXPERIMENTS"]

_SUPPORT = "paper 003, Support for subnormal numbers"
_ACCURACY = "paper 003, Accuracy of the dot products"
_ROUNDING = "paper 003, Rounding modes in tensor core computations"


# Subnormal numbers


def _subnormal_inputs(base: AlignedSum, target: Target) -> list[Hypothesis]:
    return parameter_hypotheses(
        base, "flush_inputs",
        used=(False, True, "Subnormal inputs are used as they are."),
        flushed=(True, False, "Subnormal inputs are flushed to zero."),
    )  # fmt: skip


def _subnormal_input_dots(base: AlignedSum, target: Target) -> Iterator[Dot]:
    for scale in (4.0, 2.0 ** min(target.right.emax, 20)):
        yield Dot((target.input.min_subnormal,), (scale,))


def _subnormal_c(base: AlignedSum, target: Target) -> list[Hypothesis]:
    preserved = replace(base, flush_inputs=False, flush_outputs=False)
    flushed = replace(base, flush_inputs=True, flush_outputs=True)
    return [
        Hypothesis("preserved", preserved, True, "A subnormal c comes back unchanged."),
        Hypothesis("flushed", flushed, False, "A subnormal c becomes zero."),
    ]


def _subnormal_c_dots(base: AlignedSum, target: Target) -> Iterator[Dot]:
    yield Dot((), (), target.output.min_subnormal)


def _subnormal_results(base: AlignedSum, target: Target) -> list[Hypothesis]:
    return parameter_hypotheses(
        base, "flush_outputs",
        returned=(False, True, "Subnormal results are returned."),
        flushed=(True, False, "Subnormal results are flushed to zero."),
    )  # fmt: skip


def _subnormal_result_dots(base: AlignedSum, target: Target) -> Iterator[Dot]:
    smallest = target.output.min_normal
    yield from dots(target, [smallest / 2], scales=[0])
    yield from dots(target, [smallest], -smallest / 2, scales=[0])


def _subnormal_products(base: AlignedSum, target: Target) -> list[Hypothesis]:
    whole = "Products with subnormal factors, and products that are subnormal themselves, are used whole."
    found = [
        Hypothesis("whole", replace(base, flush_inputs=False), True, whole),
        Hypothesis("factors flushed", replace(base, flush_inputs=True), False, "Subnormal factors count as zero."),
    ]  # fmt: skip
    if (
        target.input.quantum_exponent + target.right.quantum_exponent < target.output.emin
    ):  # products of binary16 are normal in binary32
        flushed = flushed_products(base)
        found.append(Hypothesis("products flushed", flushed, False, "Subnormal products count as zero."))
    return found


def _subnormal_product_dots(base: AlignedSum, target: Target) -> Iterator[Dot]:
    x, z = target.input, target.output
    least = x.min_subnormal
    most = x.min_normal - least  # all fraction bits are set
    for factor in (1.0, most, least, 2.0 ** min(x.emax, 20)):
        yield Dot((most, least), (factor, factor))
    # Normal factors of a product that the output holds as a subnormal number.
    yield from dots(target, [z.min_normal / 4, z.min_normal / 2], scales=[0])


def _subnormal_beside_two(base: AlignedSum, target: Target) -> list[Hypothesis]:
    own = "A subnormal product beside 2 is cut as the unit cuts: subnormal numbers are its own work."
    return [
        Hypothesis("cut", replace(base, flush_inputs=False), True, own),
        Hypothesis("rounded to nearest", exact_once, False, "It is rounded to nearest, as CUDA cores round."),
        Hypothesis("flushed", replace(base, flush_inputs=True), False, "Subnormal factors count as zero."),
    ]


def _beside_two_dots(base: AlignedSum, target: Target) -> Iterator[Dot]:
    """2 beside three quarters of its last bit, and beside one: both products with a subnormal factor (paper 003)."""
    x = target.input
    places = first_block(base, target)[:2]
    if len(places) < 2:
        return
    quarter = -result_bits(base, target) - 1  # of the last bit of 2, as an exponent
    for multiple in (3, 4):
        for scale in range(32):
            large = factors(2.0 ** (1 + scale), target)
            exponent = quarter + scale - x.quantum_exponent
            if large is None or not x.emin <= exponent <= x.emax or multiple >= 2**x.fraction_bits:
                continue
            a, b = [0.0] * (max(places) + 1), [0.0] * (max(places) + 1)
            a[places[0]], b[places[0]] = 2.0**exponent, multiple * x.min_subnormal
            a[places[1]], b[places[1]] = large
            yield Dot(tuple(a), tuple(b))
            break


# Accuracy


def _exact_products(base: AlignedSum, target: Target) -> list[Hypothesis]:
    return [
        Hypothesis("exact", base, True, "The products are held exactly until they are added."),
        Hypothesis("rounded", rounded_products(base), False, "Products are rounded before they are added."),
    ]


def _exact_product_dots(base: AlignedSum, target: Target) -> Iterator[Dot]:
    u = target.input.unit_roundoff
    count = min(4, base.block, target.k)
    yield Dot((1 - u,) * count, (1 - u,) * count)
    yield Dot((1 - u, 1 - u), (1 - u, u))


def _several_roundings(base: AlignedSum, target: Target) -> list[Hypothesis]:
    each = "Small addends are lost one by one beside the largest: as many errors as additions."
    return [
        Hypothesis("each on its own", base, True, each),
        Hypothesis("once", exact_once, False, "The exact sum is rounded once."),
    ]


def _largest_first(base: AlignedSum, target: Target) -> list[Hypothesis]:
    aligned = "Every addend is aligned to the largest before anything is added, wherever it stands."
    return [
        Hypothesis("aligned to the largest", base, True, aligned),
        Hypothesis("one after another", one_after_another, False, "Addends follow in a fixed order."),
    ]


def _one_large_dots(base: AlignedSum, target: Target) -> Iterator[Dot]:
    """One addend is 1, the others are cut beside it; the 1 takes every place in turn."""
    places = first_block(base, target)[: cut_count(base, target)]
    small = first_cut(base)
    if not base.late_c:
        yield from dots(target, [small] * len(places), 1.0, places)
    for one in dict.fromkeys([*range(min(4, len(places))), len(places) - 1]):
        products = [small] * len(places)
        products[one] = 1.0
        yield from dots(target, products, 0.0 if base.late_c else small, places)


# Rounding


def _roundings(base: AlignedSum, target: Target) -> list[Hypothesis]:
    return [
        Hypothesis(mode, replace(base, rounding=mode), mode, f"The sum is rounded {name} ({mode}).")
        for mode, name in ROUNDING_NAMES.items()
    ]


def _between_dots(base: AlignedSum, target: Target, signs: Sequence[float]) -> Iterator[Dot]:
    """1 + 1 and addends that leave the sum one quarter, one half or three quarters between two numbers."""
    places = first_block(base, target)
    last = 2.0 ** -min(result_bits(base, target), base.fraction_bits)
    for sign in signs:
        for parts in ((1.0, 2 * last, last), (1.0, last), (1.0, last, last / 2), (1.0, last / 2), (last,)):
            products = [sign * part for part in parts] + [sign] * base.late_c
            c = 0.0 if base.late_c else sign
            yield from dots(target, products, c, places[: len(products)])
            more = [*products, *(sign * last / 4,) * 2]
            yield from dots(target, more, c, places[: len(more)])


def _between_positive_dots(base: AlignedSum, target: Target) -> Iterator[Dot]:
    return _between_dots(base, target, [1.0])


def _between_negative_dots(base: AlignedSum, target: Target) -> Iterator[Dot]:
    return _between_dots(base, target, [-1.0])


def _between_either_dots(base: AlignedSum, target: Target) -> Iterator[Dot]:
    return _between_dots(base, target, [1.0, -1.0])


ROUNDING_EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment(
        "subnormal inputs", _SUPPORT, "Are subnormal inputs used, or flushed to zero?",
        _subnormal_inputs, _subnormal_input_dots,
    ),
    Experiment("subnormal c", _SUPPORT, "Does a subnormal c come back unchanged?", _subnormal_c, _subnormal_c_dots),
    Experiment(
        "subnormal results", _SUPPORT, "Do normal inputs give subnormal results?",
        _subnormal_results, _subnormal_result_dots, search=False,
    ),
    Experiment(
        "subnormal products", _SUPPORT, "Are products of subnormal factors, and subnormal products, used whole?",
        _subnormal_products, _subnormal_product_dots, search=False,
    ),
    Experiment(
        "subnormal beside 2", _SUPPORT, "Is a subnormal product beside 2 cut, as the unit cuts?",
        _subnormal_beside_two, _beside_two_dots, search=False,
    ),
    Experiment(
        "exact products", _ACCURACY, "Are the products held exactly until they are added?",
        _exact_products, _exact_product_dots,
    ),
    Experiment(
        "several roundings", _ACCURACY, "Is each sum rounded once, or does every small addend lose on its own?",
        _several_roundings, _one_large_dots, search=False,
    ),
    Experiment(
        "largest addend first", _ACCURACY, "Does the sum start from the largest addend, wherever it stands?",
        _largest_first, _one_large_dots, search=False,
    ),
    Experiment(
        "rounding, positive", _ROUNDING, "Where does a positive sum between two numbers go?",
        _roundings, _between_positive_dots, search=False, several=True,
    ),
    Experiment(
        "rounding, negative", _ROUNDING, "Where does a negative sum between two numbers go?",
        _roundings, _between_negative_dots, search=False, several=True,
    ),
    Experiment(
        "rounding mode", _ROUNDING, "Which rounding explains both signs?", _roundings, _between_either_dots,
    ),
)  # fmt: skip
