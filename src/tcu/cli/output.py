"""What every command prints with: the two consoles, JSON, and plain numbers."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from tcu.errors import DataFileError, ParameterError

__all__ = [
    "check_place",
    "console",
    "error_console",
    "json_number",
    "print_json",
    "short",
    "warn",
    "write_page",
]

MAX_WIDTH = 120
"""Wider terminals gain nothing from lines that the eye cannot follow."""


def console() -> Console:
    """stdout, as it is at the time of the call (tests and pipes replace it)."""
    made = Console(highlight=False, emoji=False)
    made.width = min(made.width, MAX_WIDTH)
    return made


def error_console() -> Console:
    return Console(stderr=True, highlight=False, emoji=False)


def warn(message: str) -> None:
    error_console().print(Text.assemble(("warning: ", "bold yellow"), message), soft_wrap=True)


def print_json(document: Any) -> None:
    """The document on stdout; what JSON has no number for must be a string already."""
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def json_number(value: float) -> float | str:
    """``value``, or "inf", "-inf" or "nan", which JSON has no numbers for."""
    if math.isfinite(value):
        return value
    return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"


def short(value: float) -> str:
    """Three digits, enough for an error or a bound; 0 stays 0."""
    return "0" if value == 0 else f"{value:.3g}"


def write_page(path: Path, text: str) -> None:
    """An HTML or SVG file; raises DataFileError where it cannot be written."""
    try:
        path.write_text(text, encoding="utf-8", errors="xmlcharrefreplace")
    except OSError as error:
        raise DataFileError(f"cannot write {path}: {error.strerror or error}: choose another place") from None


def check_place(file: Path, inputs: Iterable[str | os.PathLike[str]] = ()) -> None:
    """Raises DataFileError or ParameterError where a command must not write: before anything is computed.

    Another file that is there is replaced; one of ``inputs``, what the command reads, never.
    """
    problem = None
    if file.is_dir():
        problem = "it is a folder"
    elif not file.parent.is_dir():
        problem = f"there is no folder {file.parent}"
    elif not os.access(file if file.exists() else file.parent, os.W_OK):
        problem = "Permission denied"
    if problem is not None:
        raise DataFileError(f"cannot write {file}: {problem}: choose another place")
    for each in map(Path, inputs):
        if not each.exists():
            continue  # whoever reads it says so
        if file.exists() and file.samefile(each):
            raise ParameterError(
                f"{file} is an input, and an output never replaces one: choose another place"
            )
        if each.is_dir() and file.resolve().is_relative_to(each.resolve()):
            raise ParameterError(f"{file} lies inside {each}, which is an input: choose another place")
