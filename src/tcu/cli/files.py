"""Numbers from files, folders, globs and standard input, whatever their format."""

from __future__ import annotations

import io
import os
import stat
import sys
import zipfile
import zlib
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from tcu.cli.data import DataElements, summable_format
from tcu.cli.options import Numbers
from tcu.cli.textfile import parse_numbers
from tcu.errors import DataFileError, DtypeError
from tcu.formats.format import Format
from tcu.streams import DEFAULT_MEMORY, ArraySource, NpyPipe, Source, is_array_file, open_files

__all__ = ["read_elements"]

STDIN = "-"
_NPY, _ZIP = b"\x93NUMPY", b"PK"

_KEYS = "arrays have names in .npz, HDF5 and Zarr"
_COLUMNS = (
    "columns are those of text and Parquet files: leave it out, or save the column as an array of its own"
)

Place = str | io.BytesIO
"""What NumPy can read: a path, or the bytes of what can be read only once."""


def read_elements(
    paths: str | Sequence[str], numbers: Numbers, memory: int = DEFAULT_MEMORY, once: bool = False
) -> DataElements:
    """The numbers of files, folders and globs ("-": standard input), each recognised by how it begins.

    .npz members and text are read whole, everything else a piece at a time;
    a .npy file from a pipe only where ``once`` says that nobody reads it again.
    Raises DataFileError, DtypeError, UnknownNameError, ParameterError, MissingPackageError.
    """
    given = numbers.input_dtype
    target = None if given is None else summable_format(given, "--input-dtype")

    def read(path: str) -> Source | None:
        return None if os.path.isdir(path) else _read(path, numbers, once)

    source = open_files(paths, key=numbers.key, column=numbers.column, memory=memory, other=read)
    try:
        return DataElements(source, target)
    except DtypeError as error:
        raise DtypeError(f"{source.name}: {error}{_option(source.dtype, target)}") from None


def _option(dtype: np.dtype[Any], target: Format | None) -> str:
    """How to say on the command line what the library advises, where that can help."""
    if target is not None:
        return ""
    if dtype.str == "|V2":
        return "; NumPy saves bfloat16 as such raw items: then give --input-dtype bfloat16"
    return "; on the command line: --input-dtype float64" if dtype.kind in "biuf" else ""


def _name(path: str) -> str:
    return "standard input" if path == STDIN else path


def _read(path: str, numbers: Numbers, once: bool) -> Source | None:
    """A source for what only the command line reads; None for the others."""
    name = _name(path)
    try:
        place, start = _open(path, once)
        if isinstance(place, Source):
            return place
        key, column = numbers.key, numbers.column
        if column is not None and start.startswith((_ZIP, _NPY)):
            raise DataFileError(f"--column {column}: {name} is a NumPy file, and {_COLUMNS}")
        if start.startswith(_ZIP):
            return ArraySource(_read_npz(place, name, key), name)
        if isinstance(place, str) and is_array_file(place):
            return None
        if key is not None:
            kind = "one array" if start.startswith(_NPY) else "text"
            raise DataFileError(f"--key {key}: {name} is {kind}, and {_KEYS}: leave it out")
        if start.startswith(_NPY):
            return ArraySource(
                _guarded(lambda: np.load(place, allow_pickle=False), name, ".npy", "numpy.save"), name
            )
        if path.lower().endswith((".npy", ".npz")):
            raise DataFileError(
                f"{name} does not begin as a NumPy file does: write it with numpy.save or numpy.savez"
            )
        return ArraySource(_read_text(place, name, column), name)
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


def _open(path: str, once: bool) -> tuple[Place | Source, bytes]:
    """Where NumPy can read it, and its first bytes; a .npy file from a pipe is a source at once."""
    if path != STDIN and stat.S_ISREG(os.stat(path).st_mode):
        with open(path, "rb") as file:
            return path, file.read(8)
    if path == STDIN and sys.stdin is None:
        raise DataFileError("standard input is closed: give a file, or pipe numbers in")
    pipe: BinaryIO = sys.stdin.buffer if path == STDIN else open(path, "rb")  # noqa: SIM115  as long as the source
    start = pipe.read(len(_NPY))
    if once and start == _NPY:
        return NpyPipe(start, pipe, _name(path)), start
    data = start + pipe.read()
    return io.BytesIO(data), data[:8]


def _binary(source: Place) -> BinaryIO:
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


def _read_npz(source: Place, name: str, key: str | None) -> npt.NDArray[Any]:
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


def _read_text(source: Place, name: str, column: str | None) -> npt.NDArray[np.float64]:
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
