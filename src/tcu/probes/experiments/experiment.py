"""What an experiment is: hypotheses that predict different bits, and operands on which they do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tcu.formats.scalar import Rounding
from tcu.probes.finding import Value
from tcu.probes.judge import Candidate
from tcu.probes.target import Target
from tcu.units.arithmetic import AlignedSum

__all__ = ["LATER", "ROUNDING_NAMES", "Dot", "Experiment", "Hypothesis", "Reference", "parameter_hypotheses"]

LATER = "after paper 003, for later chips"
"""The source of what the paper does not ask."""

ROUNDING_NAMES: dict[Rounding, str] = {
    "RNE": "to nearest, ties to even", "RZ": "toward zero", "RU": "toward +inf", "RD": "toward -inf",
}  # fmt: skip


@dataclass(frozen=True)
class Dot:
    """c + a·b of exact values; factors that are not given are zero."""

    a: tuple[float, ...]
    b: tuple[float, ...]
    c: float = 0.0
    scale_a: tuple[float, ...] = ()
    scale_b: tuple[float, ...] = ()
    """Ones where a target takes scales and none are given."""


Reference = Callable[[Target, Dot], int]
"""The code of one dot product, by an arithmetic that no model is."""


@dataclass(frozen=True)
class Hypothesis:
    """A model that could be the target's, and what it would mean."""

    name: str
    model: Candidate | Reference
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


def parameter_hypotheses(
    base: AlignedSum, parameter: str, **rows: tuple[object, Value, str]
) -> list[Hypothesis]:
    """One hypothesis for each setting of one parameter: its name=(setting, value, conclusion)."""
    return [
        Hypothesis(label.replace("_", " "), replace(base, **{parameter: setting}), value, text)  # type: ignore[arg-type]
        for label, (setting, value, text) in rows.items()
    ]
