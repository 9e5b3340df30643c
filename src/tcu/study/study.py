"""What a study is: points to measure, and what is made of them: figures, tables and verdicts.

Data alone.  A study measures point by point, so that an interruption loses one
point at most (:mod:`tcu.study.run`); who draws its figures is not its business.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from tcu.plan.tree import TreeStep

__all__ = [
    "Figure",
    "Line",
    "Outcome",
    "Point",
    "Row",
    "Rows",
    "Shown",
    "Source",
    "Study",
    "Table",
    "Tree",
    "Verdict",
]

Point = dict[str, Any]
"""The parameters of one measurement, as JSON has them."""
Row = dict[str, Any]
"""Parameters and what was measured."""
Rows = list[Row]

Outcome = Literal["reproduced", "differs", "not measured"]
Need = Literal["gpu", "torch", "nvcc", "cupy", "scipy"]


@dataclass(frozen=True)
class Line:
    """One curve; None in ``y`` is a gap, such as a sum that overflowed."""

    name: str
    x: Sequence[float]
    y: Sequence[float | None]
    dashed: bool = False
    """For what is no measurement: a bound, a formula, a paper's figure."""
    low: Sequence[float | None] = ()
    high: Sequence[float | None] = ()
    """The spread of what was drawn more than once, around ``y``; empty where it was not."""
    series: str = ""
    """What it is a curve of, where others are curves of the same, such as a variant on several units; else its name."""


def series_of(who: str) -> str:
    """The series of one who sums: tcu's variants whatever their parameters, CUB's guarantees whatever the types."""
    words = who.split()
    if words[0] == "tcu.sum" and len(words) > 1:
        return words[1]
    return " ".join(word for word in words if "→" not in word)


@dataclass(frozen=True)
class Figure:
    """Curves over one variable."""

    title: str
    x: str
    y: str
    """Names of the axes, with their units."""
    lines: Sequence[Line]
    log_x: bool = False
    log_y: bool = False
    note: str = ""


@dataclass(frozen=True)
class Table:
    """A table; every cell is text already."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    open: bool = False
    """Shown whole, however long."""


@dataclass(frozen=True)
class Tree:
    """A drawing of who is added with whom."""

    title: str
    step: TreeStep
    note: str = ""


@dataclass(frozen=True)
class Verdict:
    """What a paper states, in our words, and what became of it."""

    place: str
    """Such as "paper 000, figure 3, section 7; paper 001, eq. 16" or "tcu"."""
    statement: str
    measured: str
    outcome: Outcome
    why: str = ""
    """Where it differs or could not be measured: the reason."""
    check: str = ""
    """What must hold of the rows, in words."""
    rows: Rows = field(default_factory=list)
    """Those that it rests on; empty: all rows of the study, or none where nothing could be measured."""
    fields: tuple[str, ...] = ()
    """What it reads in them of what was measured: other values there turn it."""

    @classmethod
    def of(
        cls,
        place: str,
        statement: str,
        measured: str,
        held: bool,
        why: str = "",
        *,
        check: str = "",
        rows: Rows | None = None,
        fields: tuple[str, ...] = (),
    ) -> Verdict:
        """Reproduced if ``held``; else it differs, and ``why`` is kept."""
        outcome: Outcome = "reproduced" if held else "differs"
        return cls(place, statement, measured, outcome, "" if held else why, check, rows or [], fields)

    @property
    def basis(self) -> str:
        """The check, and the rows and their fields that it was made on."""
        count = f"{len(self.rows):,} row{'' if len(self.rows) == 1 else 's'}" if self.rows else ""
        on = " of ".join(part for part in (", ".join(self.fields), count) if part)
        return f"{self.check} ({on})" if self.check and on else self.check

    @property
    def items(self) -> tuple[str, ...]:
        """What it is a verdict on, one by one: "000 figure 3", "000 section 7"; nothing for what is our own."""
        parts = [part.strip().split(", ") for part in self.place.split(";")]
        return tuple(
            f"{paper.removeprefix('paper ')} {item}"
            for paper, *items in parts if paper.startswith("paper ") for item in items
        )  # fmt: skip

    @property
    def word(self) -> str:
        """The outcome; what nobody stated before us holds, or does not."""
        own = {"reproduced": "holds", "differs": "does not hold"} if self.place.startswith("tcu") else {}
        return own.get(self.outcome, self.outcome)


@dataclass(frozen=True)
class Shown:
    """What a study's rows amount to."""

    parts: Sequence[Figure | Table | Tree]
    verdicts: Sequence[Verdict]


@dataclass(frozen=True)
class Source:
    """Results that another program has stored, and how its figures become a study's rows."""

    file: str
    """In benchmarks/results."""
    rows: Callable[[Any], Rows]


@dataclass(frozen=True)
class Study:
    """One entry of the registry."""

    name: str
    title: str
    covers: tuple[str, ...]
    """Figures, tables and statements of the papers, such as "000 figure 3"; empty: a study of our own."""
    question: str
    show: Callable[[Rows], Shown]
    points: Callable[[bool], list[Point]] = field(default=lambda quick: [])
    """What to measure; few points if quick."""
    measure: Callable[[Point], Rows] | None = None
    """The rows of a point; None: a benchmark measures it, and its results are read."""
    seconds: tuple[float, float] = (0.0, 0.0)
    """How long it takes on two cores: quick, and in full."""
    needs: tuple[Need, ...] = ()
    seed: int | None = None
    stored: Source | None = None
    """Results of a benchmark that has a format of its own."""
    command: str = ""
    """The benchmark that measures it, where ``measure`` is None."""
    sources: tuple[str, ...] = ()
    """The parts of tcu (:mod:`tcu.study.sources`) that it measures by; empty: those of what it covers and needs."""
