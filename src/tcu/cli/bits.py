"""Rows of bits under one common exponent: which are kept, which are cut."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rich.text import Text

__all__ = ["Columns", "Magnitude", "columns_for"]

BAR = "│"
GAP = "⋯"
KEPT, LEADING, CUT, DROPPED = "bold", "dim", "red", "bold red"
_MIN_GAP = 3
"""A run of zero columns shorter than this is drawn."""
_LONG_GAP = 8
"""Where one run gives way, so does every run of this length: then no distance looks truer than another."""


@dataclass(frozen=True)
class Magnitude:
    """significand · 2^lowest."""

    significand: int
    lowest: int

    @property
    def high(self) -> int:
        """Exponent of the leading bit."""
        return self.lowest + self.significand.bit_length() - 1

    @property
    def low(self) -> int:
        """Exponent of the last bit that is not zero."""
        return self.lowest + (self.significand & -self.significand).bit_length() - 1

    def bit(self, exponent: int) -> str:
        at = exponent - self.lowest
        return "1" if at >= 0 and self.significand >> at & 1 else "0"


@dataclass(frozen=True)
class Columns:
    """What every row of a block shows, from left to right."""

    high: int
    """Exponent of the first column."""
    point: int
    """The common exponent: a binary point follows its column."""
    unit: int
    """Exponent of the last kept column; the bar follows it."""
    cut: tuple[range, ...]
    """Exponents drawn beyond the bar; an elision stands between two ranges."""
    more: bool
    """Whether bits beyond the last range are left out."""

    @property
    def kept_width(self) -> int:
        """Characters before the bar: the sign, the bits and the point."""
        return 1 + self.high - self.unit + 1 + (self.unit < self.point)

    @property
    def width(self) -> int:
        beyond = sum(len(run) for run in self.cut) + max(len(self.cut) - 1, 0) + self.more
        return self.kept_width + 1 + beyond

    def row(self, magnitude: Magnitude, *, negative: bool, last: int | None = None) -> Text:
        """The bits of a number: zeros that only fill are dim, those beyond the bar red.

        ``last``: the bits below this exponent are about to be dropped by a
        rounding and are marked, too.
        """
        text = self._sign(magnitude, negative=negative)
        for exponent in range(self._first(magnitude), self.unit - 1, -1):
            if magnitude.significand == 0 or exponent > magnitude.high or exponent < magnitude.low:
                style = LEADING
            else:
                style = KEPT
            if last is not None and exponent < last:
                style = DROPPED if magnitude.bit(exponent) == "1" else CUT
            text.append(magnitude.bit(exponent), style)
            if exponent == self.point and self.unit < self.point:
                text.append(".")
        text.append(BAR, "bold")
        if magnitude.significand and magnitude.low < self.unit:
            self._append_cut(text, magnitude)
        return text

    def _append_cut(self, text: Text, magnitude: Magnitude) -> None:
        for index, run in enumerate(self.cut):
            if index:
                if magnitude.low >= run.start + 1:
                    return
                text.append(GAP, CUT)
            for exponent in run:
                if exponent < magnitude.low:
                    return
                bit = magnitude.bit(exponent)
                text.append(bit, DROPPED if bit == "1" else CUT)
        if self.more and magnitude.low < (self.cut[-1][-1] if self.cut else self.unit):
            text.append(GAP, CUT)

    def result(self, magnitude: Magnitude, *, negative: bool, last: int) -> Text:
        """A rounded number: its bits down to its last place, and nothing after."""
        text = self._sign(magnitude, negative=negative)
        for exponent in range(self._first(magnitude), max(self.unit, last) - 1, -1):
            filled = magnitude.significand == 0 or exponent > magnitude.high
            text.append(magnitude.bit(exponent), LEADING if filled else KEPT)
            if exponent == self.point and max(self.unit, last) < self.point:
                text.append(".")
        return text

    def _first(self, magnitude: Magnitude) -> int:
        """Exponent of the first digit: a zero before the point, at least."""
        return max(magnitude.high, self.point) if magnitude.significand else self.point

    def _sign(self, magnitude: Magnitude, *, negative: bool) -> Text:
        blanks = " " * (self.high - self._first(magnitude))
        return Text(blanks + ("-" if negative and magnitude.significand else " "))

    def axis(self) -> Text:
        """The exponents of the first column before the point, and of the last before the bar."""
        left, right = f"2^{self.point}", f"2^{self.unit}"
        start = 1 + self.high - self.point
        text = Text(" " * start + left, "cyan")
        space = self.kept_width - len(text.plain) - len(right)
        if space > 0:
            text.append(" " * space + right, "cyan")
        else:
            text.append(" " * max(0, self.kept_width - len(text.plain)))
        text.append(BAR, "bold")
        if self.cut:
            text.append("cut", CUT)
        return text


def columns_for(
    point: int, unit: int, kept: Iterable[Magnitude], terms: Iterable[Magnitude], width: int
) -> Columns:
    """Columns for ``terms`` aligned at ``point`` and for ``kept`` (sum and result), in ``width`` characters.

    Runs of columns without a 1 give way first, the longest before the
    others; then the last bits.
    """
    drawn = [term for term in terms if term.significand]
    high = max([point, *(each.high for each in (*drawn, *kept) if each.significand)])
    ones = sorted(
        {e for term in drawn for e in range(unit - 1, term.low - 1, -1) if term.bit(e) == "1"}, reverse=True
    )
    bare = Columns(high, point, unit, (), False)
    if not ones:
        return bare
    room = max(width - bare.width, 4)
    runs = [range(unit - 1, ones[-1] - 1, -1)]
    if _needed(runs) > room:
        runs = _elided(runs, ones, room)
    if _needed(runs) > room:
        return Columns(high, point, unit, tuple(_first(runs, room - 1)), True)
    return Columns(high, point, unit, tuple(runs), False)


def _elided(runs: list[range], ones: list[int], room: int) -> list[range]:
    """The runs without their longest gaps: as many as it takes, and all long ones."""
    while True:
        longest = max(_gaps(runs, ones), key=len, default=range(0))
        if len(longest) < (_MIN_GAP if _needed(runs) > room else _LONG_GAP):
            return runs
        runs = [piece for run in runs for piece in _without(run, longest)]


def _needed(runs: list[range]) -> int:
    return sum(map(len, runs)) + len(runs) - 1


def _gaps(runs: list[range], ones: list[int]) -> list[range]:
    """The inner parts of the runs of columns without a 1; one zero stays on the left side."""
    gaps = []
    for run in runs:
        before = run.start + 1
        for one in [each for each in ones if run.start >= each > run.stop]:
            gaps.append(range(before - 2, one, -1))
            before = one
    return gaps


def _without(run: range, gap: range) -> list[range]:
    if not (run.start >= gap.start and gap.stop >= run.stop and len(gap)):
        return [run]
    return [piece for piece in (range(run.start, gap.start, -1), range(gap.stop, run.stop, -1)) if len(piece)]


def _first(runs: list[range], room: int) -> list[range]:
    """The leading columns of the runs that fit, with one character for each elision."""
    chosen = []
    for run in runs:
        if room < 1:
            break
        chosen.append(run[:room])
        room -= len(chosen[-1]) + 1
    return chosen
