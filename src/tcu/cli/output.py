"""What every command prints with: the two consoles, JSON, and plain numbers."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from tcu.errors import DataFileError

__all__ = [
    "console",
    "error_console",
    "headline",
    "json_number",
    "print_json",
    "short",
    "complain",
    "visible",
    "warn",
    "write_page",
]

MAX_WIDTH = 120
"""Wider terminals gain nothing from lines that the eye cannot follow."""


def headline(documentation: str) -> str:
    """The first line of a docstring, as a person reads it."""
    return re.sub(r":func:`(?:tcu\.)?(\w+)`|``(\w+)``", r"\1\2", documentation.partition("\n")[0])


def visible(text: str) -> str:
    """``text`` with escapes for all that a terminal does not show but obey: control characters and their like.

    Names of files, arrays and columns may hold any, and so may what stands in files.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


class _Terminal(Console):
    """Shows what others wrote, and never obeys it: a string is one line, without markup, and of a text the lines stay."""

    def print(self, *objects: Any, **options: Any) -> None:
        super().print(
            *(Text(visible(each)) if isinstance(each, str) else each for each in objects), **options
        )

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                lines = segment.text.split("\n")
                yield Segment("\n".join(map(visible, lines)), segment.style)


def console() -> Console:
    """stdout, as it is at the time of the call (tests and pipes replace it)."""
    made = _Terminal(highlight=False, emoji=False, markup=False)
    made.width = min(made.width, MAX_WIDTH)
    return made


def error_console() -> Console:
    return _Terminal(stderr=True, highlight=False, emoji=False, markup=False)


def warn(message: str) -> None:
    complain("warning", "bold yellow", message)


def complain(kind: str, style: str, message: str, *more: str) -> None:
    """One line on stderr, whatever is in the message; ``more``: lines behind it."""
    lines = "\n".join(map(visible, (message, *more)))
    error_console().print(Text.assemble((f"{kind}: ", style), lines), soft_wrap=True)


def print_json(document: Any) -> None:
    """The document on stdout; what JSON has no number for must be a string already."""
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    lines = (
        line if line.isprintable() else "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in line)
        for line in text.split("\n")
    )  # fmt: skip
    sys.stdout.write("\n".join(lines) + "\n")


def json_number(value: float) -> float | str:
    """``value``, or "inf", "-inf" or "nan", which JSON has no numbers for."""
    if math.isfinite(value):
        return value
    return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"


def short(value: float) -> str:
    """Three digits, enough for an error or a bound; 0 stays 0."""
    return "0" if value == 0 else f"{value:.3g}"


def write_page(path: Path, text: str) -> None:
    """A file of text, such as HTML, SVG or JSON; raises DataFileError where it cannot be written."""
    try:
        path.write_text(text, encoding="utf-8", errors="xmlcharrefreplace")
    except OSError as error:
        raise DataFileError(f"cannot write {path}: {error.strerror or error}: choose another place") from None
