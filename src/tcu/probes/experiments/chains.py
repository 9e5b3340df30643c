"""Experiments for units that round after every operation: binary64 on the A100 and later.

Paper 003, "NVIDIA Ampere tensor cores", finds IEEE arithmetic there: nearest
rounding, a normalisation after each addition, and no start from the largest.
"""

from __future__ import annotations

from collections.abc import Iterator

from tcu.probes.experiments.experiment import ROUNDING_NAMES, Dot, Experiment, Hypothesis
from tcu.probes.experiments.references import aligned_to_output, chain, exact_once
from tcu.probes.target import Target

__all__ = ["CHAIN_EXPERIMENTS"]

_AMPERE = "paper 003, NVIDIA Ampere tensor cores (binary64)"


def _roundings(base: None, target: Target) -> list[Hypothesis]:
    return [
        Hypothesis(mode, chain(mode), mode, f"Every addition is rounded {name} ({mode}).")
        for mode, name in ROUNDING_NAMES.items()
    ]


def _half_way(base: None, target: Target) -> Iterator[Dot]:
    half = target.output.unit_roundoff
    for sign in (1.0, -1.0):
        for addend in (half * 1.5, half, half * 3, half / 2):
            yield Dot((1.0,), (sign * addend,), sign)


def _one_large(base: None, target: Target) -> Iterator[Dot]:
    """One addend is 1, the others half of its last bit; the 1 takes every place in turn."""
    half = target.output.unit_roundoff
    count = min(4, target.k)
    yield Dot((1.0,) * count, (half,) * count, 1.0)
    for one in range(count):
        yield Dot((1.0,) * count, tuple(1.0 if i == one else half for i in range(count)), half)
    if (
        count > 2
    ):  # exactly, it is above 1 and half of a last bit; rounded at any addition, in any order, it is 1
        yield Dot((1.0, 1.0, half), (1.0, half, half))


def _growing(base: None, target: Target) -> Iterator[Dot]:
    half = target.output.unit_roundoff
    count = min(4, target.k)
    yield Dot((1.0,) * count, (half,) * count, 1 - half)
    yield Dot((1.0,) * count, (half,) * count, 1.0)


def _product_dots(base: None, target: Target) -> Iterator[Dot]:
    u = 2.0 ** -(target.input.precision // 2 + 1)
    yield Dot((1 + u,), (1 - u,), -1.0)


def _orders(base: None, target: Target) -> list[Hypothesis]:
    return [
        Hypothesis(
            "from c, in order of k", chain(), False, "Addends follow in a fixed order, whatever their size."
        ),
        Hypothesis("largest first", chain(by_size=True), True, "The sum starts from the largest addend."),
        Hypothesis(
            "aligned", aligned_to_output("RNE"), True, "Every addend is aligned to the largest first."
        ),
    ]


CHAIN_EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment(
        "subnormal inputs", _AMPERE, "Are subnormal inputs used, or flushed to zero?",
        lambda base, t: [
            Hypothesis("used", chain(), True, "Subnormal inputs are used as they are."),
            Hypothesis("flushed", lambda t, dot: 0, False, "Subnormal inputs are flushed to zero."),
        ],
        lambda base, t: iter([Dot((t.input.min_subnormal,), (4.0,)), Dot((), (), t.output.min_subnormal)]),
        search=False,
    ),
    Experiment(
        "exact products", _AMPERE, "Is a product rounded before it is added?",
        lambda base, t: [
            Hypothesis("fused", chain(), True, "A product is added exactly: a fused multiply-add."),
            Hypothesis("rounded", chain(fused=False), False, "A product is rounded before it is added."),
        ],
        _product_dots, search=False,
    ),
    Experiment(
        "several roundings", _AMPERE, "Is each sum rounded once, or after every addition?",
        lambda base, t: [
            Hypothesis("every addition", chain(), True, "Every addition is rounded."),
            Hypothesis("once", exact_once, False, "The exact sum is rounded once."),
        ],
        _one_large, search=False,
    ),
    Experiment("largest addend first", _AMPERE, "Does the sum start from the largest addend?", _orders, _one_large,
               search=False),
    Experiment("rounding mode", _AMPERE, "Which rounding explains both signs?", _roundings, _half_way, search=False),
    Experiment(
        "normalisation in addition", _AMPERE, "Is a partial sum normalised before the next addition?",
        lambda base, t: [
            Hypothesis("after each addition", chain(), True, "Every partial sum is normalised and rounded."),
            Hypothesis("only at the end", aligned_to_output("RNE"), False, "Partial sums are not normalised."),
        ],
        _growing, search=False,
    ),
    Experiment(
        "monotonicity", _AMPERE, "Can raising an addend lower the sum?",
        lambda base, t: [
            Hypothesis("monotonic", chain(), True, "Raising an addend does not lower the sum."),
            Hypothesis("not monotonic", aligned_to_output("RZ"), False, "Raising c from just below 1 to 1 lowers the sum."),
        ],
        _growing, search=False,
    ),
    Experiment(
        "place of c", _AMPERE, "Does c come first or last?",
        lambda base, t: [
            Hypothesis("first", chain(), "first", "The chain starts from c."),
            Hypothesis("last", chain(last_c=True), "late", "c is added last."),
        ],
        _one_large, search=False,
    ),
)  # fmt: skip
