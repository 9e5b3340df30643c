"""Numbers from text: .csv, .txt, and whatever else comes down a pipe."""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from tcu.errors import DataFileError

__all__ = ["parse_numbers"]

_DELIMITER = re.compile("[,;]")


def parse_numbers(lines: Iterable[str], name: str) -> npt.NDArray[np.float64]:
    """All numbers of the lines, in order, each rounded to binary64.

    Numbers are separated by commas, semicolons or blanks.  A "#" starts a
    comment; blank lines are skipped; a first line of words is a header.  Where commas or semicolons separate, every line needs as many
    numbers as the first, so that a lost field is noticed.

    Raises DataFileError, which names the line and what stands there.
    """
    numbers = array("d")
    first: _Shape | None = None
    for at, line in enumerate(lines, 1):
        content = line.partition("#")[0].strip()
        if not content:
            continue
        fields, delimited = _fields(content, name, at)
        if first is None:
            first = _Shape(at, len(fields), delimited)
            if not any(_LIKE_A_NUMBER.match(field) or _is_number(field) for field in fields):
                continue
        elif (delimited or first.delimited) and len(fields) != first.count:
            raise DataFileError(
                f"{name}, line {at}: {_count(len(fields))} ({_excerpt(content)}) where line {first.line} has "
                f"{first.count}: fill the gap, or separate by blanks alone, then any number to a line will do"
            )
        for field in fields:
            numbers.append(_number(field, name, at))
    if not numbers:
        raise DataFileError(f"{name} holds no numbers: give numbers separated by commas, blanks or lines")
    return np.frombuffer(numbers, np.float64)


_LIKE_A_NUMBER = re.compile(r"[^A-Za-z_]*\d")
"""A digit before any letter: what a header does not begin with, but a mistyped number does."""


class _Shape:
    """What the first line looks like."""

    def __init__(self, line: int, count: int, delimited: bool) -> None:
        self.line, self.count, self.delimited = line, count, delimited


def _fields(content: str, name: str, at: int) -> tuple[list[str], bool]:
    delimiters = set(_DELIMITER.findall(content))
    if len(delimiters) == 2:
        raise DataFileError(
            f"{name}, line {at}: both , and ; in {_excerpt(content)}: separate by one of them, "
            "and write decimals with a point"
        )
    if not delimiters:
        return content.split(), False
    return [field.strip().strip('"') for field in content.split(delimiters.pop())], True


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
