"""Numbers from text: .csv, .txt, and whatever else comes down a pipe."""

from __future__ import annotations

import csv
import math
import re
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import numpy.typing as npt

from tcu.errors import DataFileError, unknown_name
from tcu.formats.format import Format

__all__ = ["Columns", "TooManyNumbers", "parse_numbers"]

_DELIMITER = re.compile("[,;]")
_QUOTED = re.compile('"[^"]*"')
_DIGIT_FIRST = re.compile(r"[^A-Za-z_]*\d")
_POSITION = re.compile(r"#?\d{1,9}", re.ASCII)
_TOGETHER = 1 << 16
"""Fields that are converted at a time."""
_YEARS = range(1800, 2200)


@dataclass(frozen=True)
class Columns:
    """Which column of a text, None for all; and whether its first line names them, None where it shows."""

    column: str | None = None
    header: bool | None = None


_ALL = Columns()


def parse_numbers(
    lines: Iterable[str],
    name: str,
    columns: Columns = _ALL,
    target: Format | None = None,
    most: int | None = None,
) -> tuple[npt.NDArray[np.float64], tuple[str, ...]]:
    """All numbers of the lines, in order, or those of one column; and what whoever sums them should know.

    Numbers are separated by commas, semicolons or blanks.  A "#" starts a
    comment; blank lines are skipped.  Where commas or semicolons separate,
    every line needs as many fields as the first, so that a lost one is noticed.

    A first line of words names the columns, and one of numbers is numbers.  One
    of both is refused, unless the chosen column shows what it is; ``header``
    says it.  A column is chosen by its name, or by its number from 1 ("2" or
    "#2"); what stands in other columns need not be a number.

    Each number is rounded to binary64, and in such a way that rounding it to
    ``target`` gives what rounding the text at once gives.

    Raises DataFileError, which names the line and what stands there,
    UnknownNameError for a column that the header does not name, and
    TooManyNumbers for more than ``most``.
    """
    found = _Numbers(name, target, most)
    first: _First | None = None
    remark: tuple[str, ...] = ()
    try:
        for at, line in enumerate(lines, 1):
            content = line.partition("#")[0].strip()
            if not content:
                continue
            fields, delimited = _fields(content, name, at)
            if first is None:
                first = _First(name, at, fields, delimited)
                place, named = first.place(columns)
                undecided = columns.header is None and not named
                if named:
                    continue
            elif (delimited or first.delimited) and len(fields) != len(first.fields):
                raise DataFileError(
                    f"{name}, line {at}: {_count(fields)} ({_excerpt(content)}) where line {first.at} has "
                    f"{len(first.fields)}: fill the gap, or separate by blanks alone, then any number to a line will do"
                )
            elif place is not None and place >= len(fields):
                raise DataFileError(
                    f"{name}, line {at}: {_count(fields)} ({_excerpt(content)}), so no column {columns.column}: fill "
                    "the gap"
                )
            elif undecided:
                remark, undecided = first.doubt(fields), False
            found.add(fields if place is None else [fields[place]], at)
    except DataFileError:
        found.settled()  # something before may be wrong, too, and is told first
        raise
    numbers = found.settled()
    if not numbers.size:
        raise DataFileError(f"{name} holds no numbers: give numbers separated by commas, blanks or lines")
    return numbers, remark


class _Numbers:
    """Fields become numbers, many at a time."""

    def __init__(self, name: str, target: Format | None, most: int | None) -> None:
        self._name, self._target, self._most = name, target, most
        self._done = array("d")
        self._fields: list[str] = []
        self._lines: list[tuple[int, int]] = []
        """How many of the fields came before a line, and its number."""

    def add(self, fields: list[str], at: int) -> None:
        self._lines.append((len(self._fields), at))
        self._fields += fields
        if len(self._fields) >= _TOGETHER:
            self._settle()

    def settled(self) -> npt.NDArray[np.float64]:
        self._settle()
        return np.frombuffer(self._done, np.float64) if self._done else np.empty(0)

    def _settle(self) -> None:
        fields, lines = self._fields, self._lines
        self._fields, self._lines = [], []
        try:
            values = np.fromiter(map(float, fields), np.float64, len(fields))
            odd = np.isinf(values).any() or "_" in "".join(fields)
        except ValueError:
            odd = True
        if odd:
            ends = [*(start for start, _ in lines[1:]), len(fields)]
            for (start, at), end in zip(lines, ends, strict=True):
                for field in fields[start:end]:
                    _check(field, self._name, at)
        if self._target is not None:
            _off_ties(values, fields, self._target)
        self._done.frombytes(values.tobytes())
        if self._most is not None and len(self._done) > self._most:
            raise TooManyNumbers


class TooManyNumbers(Exception):
    """More than were allowed."""


def _off_ties(values: npt.NDArray[np.float64], fields: list[str], target: Format) -> None:
    """Move numbers off the ties of a narrower format on which only the rounding to binary64 put them.

    Ties are binary64 numbers.  So what lies beside one is rounded to the same
    side of it, or onto it, and then only the text says to which side it belongs.
    """
    if target.fraction_bits >= 52:
        return
    with np.errstate(all="ignore"):
        _, exponents = np.frexp(values)
        half_units = np.maximum(exponents - 1, target.emin) - target.fraction_bits - 1
        on_ties = np.abs(np.fmod(np.ldexp(values, -half_units), 2)) == 1
    for i in np.flatnonzero(on_ties & np.isfinite(values)).tolist():
        exact, value = Decimal(fields[i]), Decimal(float(values[i]))
        if exact != value:
            values[i] = math.nextafter(values[i], math.inf if exact > value else -math.inf)


def _like_a_number(field: str) -> bool:
    """A number, or a digit before any letter: what a header does not begin with, but a mistyped number does."""
    return bool(_DIGIT_FIRST.match(field)) or _is_number(field)


class _First:
    """The first line: names of columns, or numbers."""

    def __init__(self, name: str, at: int, fields: list[str], delimited: bool) -> None:
        self._name, self.at, self.fields, self.delimited = name, at, fields, delimited

    def place(self, columns: Columns) -> tuple[int | None, bool]:
        """Where the column stands, from 0, None for all; and whether this line names the columns."""
        numbers, alike = list(map(_is_number, self.fields)), list(map(_like_a_number, self.fields))
        named = columns.header
        if named is None and all(numbers):
            named = False
        elif named is None and not any(alike):
            named = True
        if columns.column is None:
            if named is None:
                raise self._no_number(self.fields[numbers.index(False)])
            return None, named
        place, by_name = self._find(columns.column, named)
        if named is not None:
            return place, named
        if by_name or not alike[place]:
            return place, True
        if not numbers[place]:
            raise self._no_number(self.fields[place])
        if all(alike):
            return place, False
        raise DataFileError(
            f"--column {columns.column}: {self._name}, line {self.at} holds words and numbers, so "
            f"{_excerpt(self.fields[place])} may be a name or a number: give --header if the line names the columns, "
            "or --no-header"
        )

    def _find(self, column: str, named: bool | None) -> tuple[int, bool]:
        """Where it stands, and whether by its name."""
        count = len(self.fields)
        number = int(column.lstrip("#")) if _POSITION.fullmatch(column) else None
        by_number = number - 1 if number is not None and 1 <= number <= count else None
        by_name = [place for place, field in enumerate(self.fields) if field == column and place != by_number]
        told = f"--column {column}: {self._name}, line {self.at}"
        if by_number is not None:
            if named and by_name:
                raise DataFileError(
                    f"{told} has this name in column {by_name[0] + 1}: choose by number, --column '#{by_name[0] + 1}' "
                    f"or --column '#{number}'"
                )
            return by_number, False
        if named is False and by_name:
            raise DataFileError(
                f"{told} holds numbers, so it counts as data: give --header if it names the columns, or choose a "
                f"column by its number, 1 to {count}"
            )
        if named is False and number is None:
            raise DataFileError(f"{told} names no columns: choose a number from 1 to {count}")
        if len(by_name) == 1:
            return by_name[0], True
        if by_name:
            listed = " and ".join(str(place + 1) for place in by_name)
            raise DataFileError(
                f"--column {column}: {self._name} has several of this name: choose one by number, {listed}"
            )
        if number is not None:
            raise DataFileError(f"{told} has {_count(self.fields)}: choose 1 to {count}")
        raise unknown_name(f"column of {self._name}", column, self.fields)

    def _no_number(self, field: str) -> DataFileError:
        what = f"{_excerpt(field)} is not a number" if field else "an empty field"
        return DataFileError(
            f"{self._name}, line {self.at}: {what}: correct or remove it, or give --header if the line names the "
            "columns"
        )

    def doubt(self, second: list[str]) -> tuple[str, ...]:
        """What to say where the line was taken for numbers and looks like names, years or 0, 1, 2: of another kind
        than the next line.
        """
        if not all(re.fullmatch(r"\d{1,4}", field, re.ASCII) for field in self.fields):
            return ()
        values, count = list(map(int, self.fields)), len(self.fields)
        whole = all(re.fullmatch(r"\d{1,9}", field, re.ASCII) for field in second)
        years = values == sorted({*values}.intersection(_YEARS))
        counted = count > 1 and values[0] <= 1 and values == list(range(values[0], values[0] + count))
        if whole and years:
            doubtful = count > 1 and not all(int(field) in _YEARS for field in second)
        elif whole:
            doubtful = counted and count > 2 and int(second[0]) != values[-1] + 1
        else:
            doubtful = years or counted
        if not doubtful:
            return ()
        line = _excerpt((", " if self.delimited else " ").join(self.fields))
        return (
            f"{self._name}, line {self.at}: {line} counts as data: give --header if it names the columns, or "
            "--no-header if it does not",
        )


def _fields(content: str, name: str, at: int) -> tuple[list[str], bool]:
    """The fields, and whether a delimiter separates them; one in quotes does not."""
    delimiters = set(_DELIMITER.findall(_QUOTED.sub("", content) if '"' in content else content))
    if len(delimiters) == 2:
        raise DataFileError(
            f"{name}, line {at}: both , and ; in {_excerpt(content)}: separate by one of them, "
            "and write decimals with a point"
        )
    if not delimiters:
        return content.split(), False
    delimiter = delimiters.pop()
    if '"' not in content:
        return [field.strip() for field in content.split(delimiter)], True
    try:
        fields = next(csv.reader([content], delimiter=delimiter, skipinitialspace=True, strict=True))
    except csv.Error as error:
        raise DataFileError(
            f"{name}, line {at}: {error}: correct the quotes in {_excerpt(content)}"
        ) from None
    return [field.strip() for field in fields], True


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return "_" not in field


def _check(field: str, name: str, at: int) -> None:
    if not field:
        raise DataFileError(f"{name}, line {at}: an empty field: write nan or 0 there, as you mean it")
    if not _is_number(field):
        raise DataFileError(f"{name}, line {at}: {_excerpt(field)} is not a number: correct or remove it")
    if math.isinf(float(field)) and "inf" not in field.lower():
        raise DataFileError(
            f"{name}, line {at}: {_excerpt(field)} is beyond the largest binary64 number: write inf if you mean it"
        )


def _count(fields: list[str]) -> str:
    return f"{len(fields)} field{'' if len(fields) == 1 else 's'}"


def _excerpt(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")
