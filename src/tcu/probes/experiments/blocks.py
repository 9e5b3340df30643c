"""Experiments for exact blocks, flushed trees, late sums, and sums with scales: after paper 003, which knew none of them.

The models that they vary predict every bit, so operands on which they differ are drawn at random and kept where they do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from tcu.errors import ParameterError
from tcu.probes.experiments.experiment import LATER, ROUNDING_NAMES, Dot, Experiment, Hypothesis
from tcu.probes.experiments.operands import dots
from tcu.probes.finding import Value
from tcu.probes.judge import Candidate, fits
from tcu.probes.target import Target
from tcu.units.arithmetic import AlignedSum, ExactBlock, FlushedTree, GroupedSum, LateSum

__all__ = ["BLOCK_EXPERIMENTS"]


def _varied(parameter: str, settings: Callable[[Any, Target], Sequence[tuple[Any, Value, str]]]) -> Any:
    """Hypotheses for each (setting, value, conclusion) of one parameter; none where the arithmetic has no such parameter."""

    def hypotheses(base: Any, target: Target) -> list[Hypothesis]:
        if not hasattr(base, parameter):
            return []
        found = []
        for setting, value, text in settings(base, target):
            try:
                row = replace(base, **{parameter: setting})
            except ParameterError:
                continue
            if fits(target, row):
                found.append(Hypothesis(f"{parameter.replace('_', ' ')} {setting}", row, value, text))
        return found

    return hypotheses


def _no_dots(base: Any, target: Target) -> Iterator[Dot]:
    """None of its own: the search finds operands on which the hypotheses differ."""
    return iter(())


def _kinds(base: Any, target: Target) -> list[Hypothesis]:
    block = min(getattr(base, "block", getattr(base, "group", 1)), target.k)
    rows: list[tuple[str, Candidate, str]] = [
        ("exact", ExactBlock(block), "The products of a block and c are added exactly, and rounded once."),
        ("tree", FlushedTree(1 << max(1, (block - 1).bit_length())),
         "Products are rounded and added by a tree, and what is subnormal becomes zero."),
        ("late", LateSum(block, 24, 31), "The products of a block are cut and added among themselves, then with c."),
        ("aligned", AlignedSum(block, 25, "RZ", -133), "The products and c are aligned together, cut, and added."),
        ("grouped", GroupedSum(target.per_scale or 1, target.per_scale or 1, 35, -139),
         "The products of a group are added exactly, and the groups aligned by their scales."),
    ]  # fmt: skip
    found = [
        Hypothesis(name, base if type(row) is type(base) else row, name, text) for name, row, text in rows
    ]
    return [each for each in found if fits(target, each.model)]  # type: ignore[arg-type]


def _sizes(parameter: str, text: str) -> Any:
    def settings(base: Any, target: Target) -> list[tuple[int, int, str]]:
        most = target.per_scale if parameter == "group" and target.scale is not None else target.k
        own = getattr(base, parameter)
        sizes = sorted({min(size, most) for size in (1, 2, 4, 8, 16, 32, 64, own)})
        return [(own if size == min(own, most) else size, size, text.format(size)) for size in sizes]

    return _varied(parameter, settings)


def _bits(parameter: str, text: str) -> Any:
    def settings(base: Any, target: Target) -> list[tuple[int, int, str]]:
        own = getattr(base, parameter)
        return [(bits, bits, text.format(bits)) for bits in range(own - 2, own + 3)]

    return _varied(parameter, settings)


def _late_dots(base: LateSum, target: Target) -> Iterator[Dot]:
    """Beside c = 1 half of its last place, and less than that at every place below: unless it is cut, it decides a tie."""
    half = target.output.unit_roundoff
    for place in range(1, 10):
        yield from dots(
            target, [half, half * 2.0**-place], 1.0, [0, min(base.groups, target.k - 1)], range(0, 28, 4)
        )


def _floors(base: Any, target: Target) -> list[tuple[int | None, Value, str]]:
    usual = (None, -126, -132, -133, -134, -138, -139, -140)
    return [
        (floor, "none" if floor is None else floor,
         "The common exponent sinks as far as the terms do." if floor is None
         else f"The common exponent does not sink below {floor}.")
        for floor in dict.fromkeys([base.exponent_floor, *usual])
        if floor is not None or isinstance(base, AlignedSum)
    ]  # fmt: skip


def _experiment(name: str, question: str, hypotheses: Any, given: Any = _no_dots) -> Experiment:
    return Experiment(name, LATER, question, hypotheses, given)


BLOCK_EXPERIMENTS: tuple[Experiment, ...] = (
    _experiment("kind of sum", "What kind of sum is it?", _kinds),
    _experiment(
        "block size", "How many products are added together?", _sizes("block", "{} products at a time are added.")
    ),
    _experiment(
        "group size", "How many products are added before anything else joins them?",
        _sizes("group", "Groups of {} products are added on their own."),
    ),
    _experiment(
        "extra bits", "How many bits survive the alignment to the largest addend?",
        _bits("fraction_bits", "Aligned addends keep {} bits after the point."),
    ),
    _experiment(
        "late bits", "How many bits of a total survive until it is rounded?",
        _bits("late_bits", "A total is cut to {} bits before it is rounded."), _late_dots,
    ),
    _experiment(
        "even and odd products", "Are the even products of a block and the odd ones aligned apart?",
        _varied("groups", lambda base, target: [
            (1, False, "All products of a block are aligned together."),
            (2, True, "The even products of a block and the odd ones are aligned apart."),
        ]),
    ),
    _experiment(
        "small c", "Does a tiny negative c take a unit off the sum?",
        _varied("drops_small_c", lambda base, target: [
            (True, False, "A c that is too small to be seen counts as zero."),
            (False, True, "A negative c that is too small to be seen takes one unit off the sum."),
        ]),
    ),
    _experiment(
        "rounding mode", "Which rounding explains both signs?",
        _varied("rounding", lambda base, target: [
            (mode, mode, f"The sum is rounded {name} ({mode}).") for mode, name in ROUNDING_NAMES.items()
        ]),
    ),
    _experiment(
        "exponent floor", "How far can the common exponent sink?", _varied("exponent_floor", _floors),
    ),
)  # fmt: skip
