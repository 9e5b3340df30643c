"""From a path, a folder or a glob to the numbers that lie there."""

from __future__ import annotations

import glob
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tcu.errors import DataFileError, DtypeError, ParameterError
from tcu.formats.array import whole_number
from tcu.streams.chunked import FortranSource, ParquetSource, open_hdf5, open_zarr
from tcu.streams.npy import MAGIC, NpySource
from tcu.streams.source import Concatenation, SlabCache, Source

__all__ = ["DEFAULT_MEMORY", "expand", "is_array_file", "listed_paths", "naming", "open_files", "sources_of"]

DEFAULT_MEMORY = 1 << 30
"""Bytes."""
_HDF5, _PARQUET = b"\x89HDF\r\n\x1a\n", b"PAR1"
_ENDINGS: dict[str, tuple[str, ...]] = {
    "npy": (".npy",),
    "hdf5": (".h5", ".hdf5", ".nc"),
    "parquet": (".parquet", ".pq"),
}
_ZARR = ("zarr.json", ".zarray", ".zgroup")
"""What the folder of a Zarr array or group holds."""


def listed_paths(given: Any) -> list[str]:
    """One path or several.  Raises ParameterError for what is none."""
    try:
        listed = [os.fspath(each) for each in ([given] if isinstance(given, str | os.PathLike) else given)]
    except TypeError:
        raise ParameterError(
            f"{type(given).__name__} where files are summed: give a path, a glob or several; arrays are summed by tcu's functions of the same names"
        ) from None
    if not listed:
        raise ParameterError("no files: give a path, a glob or several")
    return listed


def expand(paths: Sequence[str]) -> list[str]:
    """The files behind paths, folders and globs: each folder's and each glob's in the order of their names.

    A folder of a Zarr array or group is one of them; any other must hold
    files of one kind.  Raises DataFileError where there is nothing.
    """
    found: list[str] = []
    for path in paths:
        if not os.path.lexists(path) and glob.has_magic(path):
            names = sorted(glob.glob(path, recursive=True))
            if not names:
                raise DataFileError(f"no file matches {path}: check the pattern")
            found.extend(each for name in names for each in _of_folder(name, named=False))
        else:
            found.extend(_of_folder(path, named=True))
    return found


def _of_folder(path: str, named: bool) -> list[str]:
    if not os.path.isdir(path) or _is_zarr(path):
        return [path]
    names = sorted(os.listdir(path))
    by_kind: dict[str, list[str]] = {}
    for name in names:
        whole = os.path.join(path, name)
        if os.path.isdir(whole):
            kind = "zarr" if _is_zarr(whole) else None
        else:
            kind = next((kind for kind, ending in _ENDINGS.items() if name.lower().endswith(ending)), None)
        if kind is not None:
            by_kind.setdefault(kind, []).append(whole)
    if len(by_kind) > 1:
        raise DataFileError(
            f"the folder {path} holds {' and '.join(sorted(by_kind))} files: name those that you mean with a glob"
        )
    if not by_kind:
        if not named:
            return []
        raise DataFileError(
            f"cannot read {path}: Is a directory: name a file in it (there is no .npy, Parquet, HDF5 or Zarr in it "
            "to be taken together)"
        )
    return next(iter(by_kind.values()))


def _is_zarr(path: str) -> bool:
    return any(os.path.isfile(os.path.join(path, name)) for name in _ZARR)


def is_array_file(path: str) -> bool:
    """Whether :func:`open_files` reads what lies there; raises OSError."""
    return _opener(path) is not None


def _opener(path: str) -> Callable[[str, str | None, str | None, SlabCache], Source] | None:
    if os.path.isdir(path):
        return _zarr if _is_zarr(path) else None
    with open(path, "rb") as file:
        start = file.read(8)
    if start.startswith(MAGIC):
        return _npy
    if start == _HDF5:
        return _hdf5
    return _parquet if start.startswith(_PARQUET) else None


def _refuse(path: str, kind: str, **given: str | None) -> None:
    where = {
        "key": "arrays have names in .npz, HDF5 and Zarr: leave it out",
        "column": "columns are those of text and Parquet files: leave it out, or save the column as an array of its own",
    }
    for option, value in given.items():
        if value is not None:
            raise DataFileError(f"--{option} {value}: {path} is {kind}, and {where[option]}")


def _npy(path: str, key: str | None, column: str | None, cache: SlabCache) -> Source:
    _refuse(path, "one array", key=key)
    _refuse(path, "a NumPy file", column=column)
    file = NpySource(path)
    return FortranSource(file, cache) if file.fortran else file


def _hdf5(path: str, key: str | None, column: str | None, cache: SlabCache) -> Source:
    _refuse(path, "an HDF5 file", column=column)
    return open_hdf5(path, key, cache)


def _zarr(path: str, key: str | None, column: str | None, cache: SlabCache) -> Source:
    _refuse(path, "Zarr", column=column)
    return open_zarr(path, key, cache)


def _parquet(path: str, key: str | None, column: str | None, cache: SlabCache) -> Source:
    _refuse(path, "a Parquet file", key=key)
    return ParquetSource(path, column, cache)


def open_files(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], *, key: str | None = None,
    column: str | None = None, memory: int = DEFAULT_MEMORY, other: Callable[[str], Source | None] | None = None,
) -> Source:  # fmt: skip
    """The numbers of files, one after another: .npy, Zarr, HDF5 and Parquet, in folders and globs.

    Parameters
    ----------
    paths:
        A path, a glob, or several.  A folder stands for the files in it, a
        folder's and a glob's files are taken in the order of their names.
    key:
        Which array of an HDF5 file or a Zarr group.
    column:
        Which column of a Parquet file.
    memory:
        Bytes; half of them are for decoded chunks.
    other:
        Asked first for every single path; None leaves it to this function.

    Raises
    ------
    DataFileError, UnknownNameError, ParameterError, ExtraMissingError:
        No such file, array or column; one that is none; a format whose package is missing.
    """
    listed = listed_paths(paths)
    if whole_number(memory) is None:
        raise ParameterError(f"memory={memory!r}: give a number of bytes, such as 1 << 30")
    sources: list[Source] = []
    cache = SlabCache(memory // 2)
    for path in expand(listed):
        try:
            source = other(path) if other is not None else None
            if source is not None:
                sources.append(source)
                continue
            opener = _opener(path)
            if opener is None:
                raise DataFileError(
                    f"{path} is neither .npy, Zarr, HDF5 nor Parquet: convert it to one of them"
                )
            sources.append(opener(path, key, column, cache))
        except DataFileError:
            raise
        except OSError as error:
            raise DataFileError(f"cannot read {path}: {error.strerror or error}: check the path") from None
    if not sources:
        raise DataFileError(f"{', '.join(map(str, listed))}: no files there: check the path")
    return sources[0] if len(sources) == 1 else Concatenation(sources, _together(listed, len(sources)))


def sources_of(files: Sequence[Any], memory: int, stacklevel: int) -> list[Source]:
    """The numbers of what a function of files was given, after a warning of what whoever sums them should know."""
    sources = [x if isinstance(x, Source) else open_files(x, memory=memory) for x in files]
    for remark in (remark for source in sources for remark in source.remarks):
        warnings.warn(remark, stacklevel=stacklevel + 1)
    return sources


def _together(listed: Sequence[Any], count: int) -> str:
    return f"{listed[0]} ({count:,} files)" if len(listed) == 1 else f"{count:,} files from {listed[0]} on"


@contextmanager
def naming(sources: Sequence[Source]) -> Iterator[None]:
    """A DtypeError of x says in which file x lies, where there is one."""
    try:
        yield
    except DtypeError as error:
        raise DtypeError(f"{sources[0].name}: {error}" if sources else str(error)) from None
