"""Numbers from text: .csv, .txt, and whatever else comes down a pipe."""

from __future__ import annotations

import csv
import math
import re
from array import array
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from tcu.errors import DataFileError, unknown_name

__all__ = ["parse_numbers"]

_DELIMITER = re.compile("[,;]")
_QUOTED = re.compile('"[^"]*"')
_DIGIT_FIRST = re.compile(r"[^A-Za-z_]*\d")


def parse_numbers(lines: Iterable[str], name: str, column: str | None = None) -> npt.NDArray[np.float64]:
    """All numbers of the lines, in order, each rounded to binary64; or those of one column.

    Numbers are separated by commas, semicolons or blanks.  A "#" starts a
    comment; blank lines are skipped; a first line of words is a header.  Where
    commas or semicolons separate, every line needs as many fields as the
    first, so that a lost one is noticed.  ``column`` is a name in the header,
    or a number from 1; what stands in other columns need not be a number.

    Raises DataFileError, which names the line and what stands there, and
    UnknownNameError for a column that the header does not name.
    """
    numbers = array("d")
    first: _Shape | None = None
    place: int | None = None
    for at, line in enumerate(lines, 1):
        content = line.partition("#")[0].strip()
        if not content:
            continue
        fields, delimited = _fields(content, name, at)
        if first is None:
            first = _Shape(at, len(fields), delimited)
            place, named = (None, False) if column is None else _place(column, fields, name, at)
            if named or not any(map(_like_a_number, _of(fields, place))):
                continue
        elif (delimited or first.delimited) and len(fields) != first.count:
            raise DataFileError(
                f"{name}, line {at}: {_count(len(fields))} ({_excerpt(content)}) where line {first.line} has "
                f"{first.count}: fill the gap, or separate by blanks alone, then any number to a line will do"
            )
        elif place is not None and place >= len(fields):
            raise DataFileError(
                f"{name}, line {at}: {_count(len(fields))} ({_excerpt(content)}), so no column {column}: fill the gap"
            )
        for field in _of(fields, place):
            numbers.append(_number(field, name, at))
    if not numbers:
        raise DataFileError(f"{name} holds no numbers: give numbers separated by commas, blanks or lines")
    return np.frombuffer(numbers, np.float64)


def _like_a_number(field: str) -> bool:
    """A number, or a digit before any letter: what a header does not begin with, but a mistyped number does."""
    return bool(_DIGIT_FIRST.match(field)) or _is_number(field)


class _Shape:
    """What the first line looks like."""

    def __init__(self, line: int, count: int, delimited: bool) -> None:
        self.line, self.count, self.delimited = line, count, delimited


def _of(fields: list[str], place: int | None) -> list[str]:
    return fields if place is None else [fields[place]]


def _place(column: str, fields: list[str], name: str, at: int) -> tuple[int, bool]:
    """Where the column stands in the first line, from 0, and whether that line names it."""
    if column.isdecimal() and 1 <= float(column) <= len(fields):
        return int(column) - 1, False
    places = [place for place, field in enumerate(fields) if field == column]
    if len(places) == 1:
        return places[0], True
    if places:
        listed = " and ".join(str(place + 1) for place in places)
        raise DataFileError(
            f"--column {column}: {name} has several of this name: choose one by number, {listed}"
        )
    if column.isdecimal():
        raise DataFileError(
            f"--column {column}: {name}, line {at} has {_count(len(fields))}: choose 1 to {len(fields)}"
        )
    if all(map(_is_number, fields)):
        raise DataFileError(
            f"--column {column}: {name}, line {at} names no columns: choose a number from 1 to {len(fields)}"
        )
    raise unknown_name(f"column of {name}", column, fields)


def _fields(content: str, name: str, at: int) -> tuple[list[str], bool]:
    """The fields, and whether a delimiter separates them; one in quotes does not."""
    delimiters = set(_DELIMITER.findall(_QUOTED.sub("", content)))
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
        fields = next(csv.reader([content], delimiter=delimiter, skipinitialspace=True))
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


def _number(field: str, name: str, at: int) -> float:
    if not field:
        raise DataFileError(f"{name}, line {at}: an empty field: write nan or 0 there, as you mean it")
    if not _is_number(field):
        raise DataFileError(f"{name}, line {at}: {_excerpt(field)} is not a number: correct or remove it")
    value = float(field)
    if math.isinf(value) and "inf" not in field.lower():
        raise DataFileError(
            f"{name}, line {at}: {_excerpt(field)} is beyond the largest binary64 number: write inf if you mean it"
        )
    return value


def _count(fields: int) -> str:
    return f"{fields} field{'' if fields == 1 else 's'}"


def _excerpt(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")
