"""Numbers from files, folders, globs and standard input, whatever their format."""

from __future__ import annotations

import io
import math
import os
import stat
import sys
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from tcu.cli.data import DataElements, summable_format
from tcu.cli.options import Numbers
from tcu.cli.output import visible
from tcu.cli.textfile import Columns, TooManyNumbers, parse_numbers
from tcu.errors import DataFileError, DtypeError
from tcu.formats.format import Format
from tcu.streams import DEFAULT_MEMORY, ArraySource, NpyPipe, Source, is_array_file, open_files
from tcu.streams.npy import Rejoined, read_header

__all__ = ["read_elements", "read_source", "rounded_elements", "source_text"]

STDIN = "-"
_NPY, _ZIP = b"\x93NUMPY", b"PK"

_KEYS = "arrays have names in .npz, HDF5 and Zarr"
_COLUMNS = (
    "columns are those of text and Parquet files: leave it out, or save the column as an array of its own"
)
_NPY_PIPE, _NPZ_PIPE = "a .npy file from a pipe", "a .npz file from a pipe"
_LINE = 1 << 20
"""Characters of a line that are read at a time."""
_FIELD = 80
"""Bytes of a field of a line beside its characters, at most."""

Place = str | BinaryIO
"""What is read: a path, or what can be read only once."""


def source_text(file: str, numbers: Numbers) -> str:
    """What is read, for a person."""
    column = f", column {numbers.column}"
    return visible(file if numbers.column is None or file.endswith(column) else file + column)


def read_elements(
    paths: str | Sequence[str], numbers: Numbers, memory: int | None = None, once: bool = False
) -> DataElements:
    """The numbers of :func:`read_source`, rounded as they are read, where the user asks for that; raises what these raise."""
    return rounded_elements(read_source(paths, numbers, memory, once), numbers)


def read_source(
    paths: str | Sequence[str], numbers: Numbers, memory: int | None = None, once: bool = False
) -> Source:
    """The numbers of files, folders and globs ("-": standard input), each recognised by how it begins.

    .npz members and text are read whole, everything else a piece at a time;
    a .npy file from a pipe only where ``once`` says that nobody reads it again.
    ``memory``: bytes, where the user may say so; half of them are for what is whole.
    Raises DataFileError, DtypeError, UnknownNameError, ParameterError, ExtraMissingError.
    """
    target = _target(numbers)
    room = _Room((memory or DEFAULT_MEMORY) // 2, memory is not None)

    def read(path: str) -> Source | None:
        source = None if os.path.isdir(path) else _read(path, numbers, target, room, once)
        if source is None and numbers.header is not None:
            raise _no_header(path, numbers)
        return source

    return open_files(
        paths, key=numbers.key, column=numbers.column, memory=memory or DEFAULT_MEMORY, other=read
    )


def _target(numbers: Numbers) -> Format | None:
    given = numbers.input_dtype
    return None if given is None else summable_format(given, "--input-dtype")


def rounded_elements(source: Source, numbers: Numbers) -> DataElements:
    """What is read, rounded to the format that the user asks for.  Raises DtypeError."""
    target = _target(numbers)
    try:
        return DataElements(source, target)
    except DtypeError as error:
        raise DtypeError(f"{source.name}: {error}{_option(source.dtype, target)}") from None


@dataclass(frozen=True)
class _Room:
    """Bytes for what is read whole."""

    size: int
    asked: bool
    """Whether the user may ask for more."""

    def exceeded(self, what: str, whole: str) -> DataFileError:
        more = "give --memory more, or " if self.asked else ""
        return DataFileError(
            f"{what} need more than half of the memory for numbers, {self.size:,} bytes, and {whole} is read whole: "
            f"{more}save them as a .npy file, which is read a piece at a time"
        )


def _option(dtype: np.dtype[Any], target: Format | None) -> str:
    """How to say on the command line what the library advises, where that can help."""
    if target is not None:
        return ""
    if dtype.str == "|V2":
        return "; NumPy saves bfloat16 as such raw items: then give --input-dtype bfloat16"
    if dtype.kind in "biuf":
        holds = ", which holds whole numbers up to 2^53" if dtype.kind in "iu" and dtype.itemsize == 8 else ""
        return f"; on the command line: --input-dtype float64{holds}"
    return ""


def _name(path: str) -> str:
    return "standard input" if path == STDIN else path


def _no_header(name: str, numbers: Numbers) -> DataFileError:
    option = "--header" if numbers.header else "--no-header"
    return DataFileError(f"{option}: {name} is no text, whose first line may name columns: leave it out")


def _read(path: str, numbers: Numbers, target: Format | None, room: _Room, once: bool) -> Source | None:
    """A source for what only the command line reads; None for the others."""
    name = _name(path)
    try:
        place, start = _open(path)
        key, column = numbers.key, numbers.column
        binary = start.startswith((_ZIP, _NPY))
        if column is not None and binary:
            raise DataFileError(f"--column {column}: {name} is a NumPy file, and {_COLUMNS}")
        if numbers.header is not None and binary:
            raise _no_header(name, numbers)
        if start.startswith(_ZIP):
            return ArraySource(_read_npz(_whole(place, name, room), name, key, room), name)
        if isinstance(place, str) and is_array_file(place):
            return None
        if key is not None:
            kind = "one array" if start.startswith(_NPY) else "text"
            raise DataFileError(f"--key {key}: {name} is {kind}, and {_KEYS}: leave it out")
        if start.startswith(_NPY):
            assert not isinstance(place, str)  # open_files reads such files
            if once:
                return NpyPipe(b"", place, name)
            data = io.BytesIO(_all(place, name, _NPY_PIPE, room))
            return ArraySource(_read_npy(data, name, _NPY_PIPE, room), name)
        if path.lower().endswith((".npy", ".npz")):
            raise DataFileError(
                f"{name} does not begin as a NumPy file does: write it with numpy.save or numpy.savez"
            )
        found, remarks = _read_text(place, name, Columns(column, numbers.header), target, room)
        source = ArraySource(found, name)
        source.remarks, source.from_text = remarks, True
        return source
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


def _open(path: str) -> tuple[Place, bytes]:
    """Where it can be read, and its first bytes."""
    if path != STDIN and stat.S_ISREG(os.stat(path).st_mode):
        with open(path, "rb") as file:
            return path, file.read(8)
    if path == STDIN and sys.stdin is None:
        raise DataFileError("standard input is closed: give a file, or pipe numbers in")
    pipe: BinaryIO = sys.stdin.buffer if path == STDIN else open(path, "rb")  # noqa: SIM115  as long as the source
    start = pipe.read(8)
    return io.BufferedReader(Rejoined(start, pipe, close=path != STDIN)), start


def _binary(source: Place) -> BinaryIO:
    return open(source, "rb") if isinstance(source, str) else source


def _whole(place: Place, name: str, room: _Room) -> BinaryIO:
    """A file to go back and forth in."""
    return _binary(place) if isinstance(place, str) else io.BytesIO(_all(place, name, _NPZ_PIPE, room))


def _all(pipe: BinaryIO, name: str, what: str, room: _Room) -> bytes:
    data = pipe.read(room.size + 1)
    if len(data) > room.size:
        raise room.exceeded(f"the bytes of {name}", what)
    return data


def _read_npy(file: BinaryIO, name: str, what: str, room: _Room) -> npt.NDArray[Any]:
    """The array, of any order."""
    shape, fortran, dtype = read_header(file, name)
    n = math.prod(shape)
    if n * dtype.itemsize > room.size:
        raise room.exceeded(f"the {n:,} numbers of {name}", what)
    found = np.empty(n, dtype)
    rest = memoryview(found.view(np.uint8) if found.nbytes else b"")  # type: ignore[arg-type]
    while rest:
        count = file.readinto(rest)  # type: ignore[attr-defined]
        if not count:
            raise DataFileError(
                f"{name} is damaged or not a complete .npy file (the last {len(rest):,} bytes of its {n:,} numbers are "
                "missing): write it again with numpy.save"
            )
        rest = rest[count:]
    return found.reshape(shape[::-1]).T if fortran else found.reshape(shape)


def _read_npz(file: BinaryIO, name: str, key: str | None, room: _Room) -> npt.NDArray[Any]:
    try:
        with file, zipfile.ZipFile(file) as archive:
            members = {each.removesuffix(".npy"): each for each in archive.namelist()}
            key = _choose(list(members), name, key)
            with archive.open(members[key]) as member:
                return _read_npy(member, f"{name}, array {key}", "an array of a .npz file", room)  # type: ignore[arg-type]
    except DataFileError:
        raise
    except (OSError, MemoryError):
        raise
    except Exception as error:  # of a damaged archive, which raises many kinds
        reason = (str(error).strip() or "unexpected end").splitlines()[0].rstrip(".")
        raise DataFileError(
            f"{name} is damaged or not a complete .npz file ({reason}): write it again with numpy.savez"
        ) from None


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


def _read_text(
    source: Place, name: str, columns: Columns, target: Format | None, room: _Room
) -> tuple[npt.NDArray[np.float64], tuple[str, ...]]:
    with io.TextIOWrapper(_binary(source), encoding="utf-8-sig") as text:
        try:
            return parse_numbers(_lines(text, name, room), name, columns, target, room.size // 8)
        except TooManyNumbers:
            raise room.exceeded(f"the numbers of {name}", "text") from None
        except (UnicodeDecodeError, _NotText):
            raise DataFileError(
                f"{name} is neither .npy, .npz nor UTF-8 text: save it in one of these formats"
            ) from None


class _NotText(Exception):
    """A NUL character, which no text of numbers has."""


def _lines(text: io.TextIOWrapper, name: str, room: _Room) -> Iterator[str]:
    """The lines; none that would need more memory than there is, to be cut into fields."""
    parts: list[str] = []
    size = count = 0
    while piece := text.readline(_LINE):
        if "\0" in piece:
            raise _NotText
        if not parts and piece.endswith("\n"):
            count += 1
            yield piece
            continue
        parts.append(piece)
        size += len(piece) + _FIELD * sum(map(piece.count, " \t,;"))
        if size > room.size:
            raise room.exceeded(f"the fields of {name}, line {count + 1},", "a line")
        if piece.endswith("\n"):
            count += 1
            yield "".join(parts)
            parts.clear()
            size = 0
    if parts:
        yield "".join(parts)
