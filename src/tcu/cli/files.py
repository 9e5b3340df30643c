"""An array from a file or from standard input, whatever its format."""

from __future__ import annotations

import io
import os
import stat
import sys
import zipfile
import zlib
from collections.abc import Callable
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from tcu.cli.data import DataElements, summable_format
from tcu.cli.options import Numbers
from tcu.cli.textfile import parse_numbers
from tcu.errors import DataFileError, DtypeError
from tcu.formats.format import Format

__all__ = ["read_elements"]

STDIN = "-"
_NPY, _ZIP = b"\x93NUMPY", b"PK"

Source = str | io.BytesIO
"""What NumPy can read: a path, or the bytes of what can be read only once."""


def read_elements(path: str, numbers: Numbers) -> DataElements:
    """The numbers of a file ("-": standard input), recognised by how it begins.

    A .npy file is memory-mapped; .npz members and text are read whole.
    Raises DataFileError, DtypeError, UnknownNameError.
    """
    given = numbers.input_dtype
    target = None if given is None else summable_format(given, "--input-dtype")
    array = _read(path, numbers)
    try:
        return DataElements(array, target)
    except DtypeError as error:
        raise DtypeError(f"{_name(path)}: {error}{_option(array.dtype, target)}") from None


def _option(dtype: np.dtype[Any], target: Format | None) -> str:
    """How to say on the command line what the library advises, where that can help."""
    if target is not None:
        return ""
    if dtype.str == "|V2":
        return "; NumPy saves bfloat16 as such raw items: then give --input-dtype bfloat16"
    return "; on the command line: --input-dtype float64" if dtype.kind in "biuf" else ""


def _name(path: str) -> str:
    return "standard input" if path == STDIN else path


def _read(path: str, numbers: Numbers) -> npt.NDArray[Any]:
    name = _name(path)
    try:
        source, start = _open(path)
        key, column = numbers.key, numbers.column
        is_array = start.startswith((_ZIP, _NPY))
        if column is not None and is_array:
            raise DataFileError(
                f"--column {column}: {name} is a NumPy file, and columns are those of text files: leave it out, "
                "or save the column as an array of its own"
            )
        if start.startswith(_ZIP):
            return _read_npz(source, name, key)
        if key is not None:
            kind = "one array" if is_array else "text"
            raise DataFileError(f"--key {key}: {name} is {kind}, not a .npz file: leave --key out")
        if start.startswith(_NPY):
            return _read_npy(source, name)
        if path.lower().endswith((".npy", ".npz")):
            raise DataFileError(
                f"{name} does not begin as a NumPy file does: write it with numpy.save or numpy.savez"
            )
        return _read_text(source, name, column)
    except DataFileError:
        raise
    except OSError as error:
        raise DataFileError(f"cannot read {name}: {error.strerror or error}: {_remedy(error)}") from None


def _remedy(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "check the path, or give - for standard input"
    if isinstance(error, IsADirectoryError):
        return "name a file in it"
    if isinstance(error, PermissionError):
        return "check who may read it"
    return "check that it is a readable file"


def _open(path: str) -> tuple[Source, bytes]:
    """The source, and its first bytes."""
    if path == STDIN:
        if sys.stdin is None:
            raise DataFileError("standard input is closed: give a file, or pipe numbers in")
        data = sys.stdin.buffer.read()
        return io.BytesIO(data), data[:8]
    with open(path, "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            data = file.read()
            return io.BytesIO(data), data[:8]
        return path, file.read(8)


def _binary(source: Source) -> BinaryIO:
    return open(source, "rb") if isinstance(source, str) else source


def _guarded(read: Callable[[], npt.NDArray[Any]], name: str, kind: str, writer: str) -> npt.NDArray[Any]:
    """``read()``, with NumPy's errors put into words."""
    try:
        return read()
    except (ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error, NotImplementedError) as error:
        reason = (str(error).strip() or "unexpected end").splitlines()[0].rstrip(".")
        if "bject" in reason and ("pickle" in reason or "Python" in reason):
            raise DataFileError(
                f"{name} holds Python objects, which are never loaded because that can run code: "
                "save plain numbers, with x.astype('float64')"
            ) from None
        raise DataFileError(
            f"{name} is damaged or not a complete {kind} file ({reason}): write it again with {writer}"
        ) from None


def _read_npy(source: Source, name: str) -> npt.NDArray[Any]:
    def load() -> npt.NDArray[Any]:
        mapped = isinstance(source, str)
        return np.asarray(np.load(source, mmap_mode="r" if mapped else None, allow_pickle=False))

    return _guarded(load, name, ".npy", "numpy.save")


def _read_npz(source: Source, name: str, key: str | None) -> npt.NDArray[Any]:
    def load() -> npt.NDArray[Any]:
        # Opened here, because np.load leaves a damaged archive open.
        with _binary(source) as raw, np.load(raw, allow_pickle=False) as archive:
            return np.asarray(archive[_choose(list(archive.files), name, key)])

    return _guarded(load, name, ".npz", "numpy.savez")


def _choose(names: list[str], file: str, key: str | None) -> str:
    listed = ", ".join(names)
    if key is None and len(names) == 1:
        return names[0]
    if not names:
        raise DataFileError(f"{file} holds no array: write one with numpy.savez")
    if key is None:
        raise DataFileError(f"{file} holds {len(names)} arrays: choose one with --key: {listed}")
    if key not in names:
        raise DataFileError(f"{file} has no array {key!r}: it holds {listed}")
    return key


def _read_text(source: Source, name: str, column: str | None) -> npt.NDArray[np.float64]:
    with io.TextIOWrapper(_binary(source), encoding="utf-8-sig") as lines:
        try:
            return parse_numbers(_checked(lines), name, column)
        except (UnicodeDecodeError, _NotText):
            raise DataFileError(
                f"{name} is neither .npy, .npz nor UTF-8 text: save it in one of these formats"
            ) from None


class _NotText(Exception):
    """A NUL character, which no text of numbers has."""


def _checked(lines: io.TextIOWrapper) -> Any:
    for line in lines:
        if "\0" in line:
            raise _NotText
        yield line
