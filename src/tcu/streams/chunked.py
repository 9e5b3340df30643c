"""Numbers that do not lie in order: Zarr arrays, HDF5 datasets, columns of Parquet files, .npy in Fortran order.

The libraries are loaded when such a file is met.
"""

from __future__ import annotations

import errno
import hashlib
import importlib
import math
import os
import warnings
from bisect import bisect_right
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.errors import DataFileError, ExtraMissingError, ParameterError, TcuError, unknown_name
from tcu.streams.npy import NpySource
from tcu.streams.source import Identity, SlabCache, SlabSource

__all__ = ["BoxSource", "FortranSource", "ParquetSource", "open_hdf5", "open_zarr"]

_TOGETHER = 1 << 20
"""Numbers that are read at once at least, where the chunks are smaller and the room allows."""
_COUNTED = 1 << 20
"""Chunks of a Zarr array of which those that are stored are counted one by one."""
_LINKS = 100
"""Links of an HDF5 file, one after another, that are followed at most."""


def _library(name: str, extra: str, path: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise ExtraMissingError(
            f'{path} needs {package}, which is not installed: pip install "tcu[{extra}]"'
        ) from error


class BoxSource(SlabSource):
    """An array of any dimensions in boxes that follow one another in C order.

    A box takes whole chunks where they fit the cache; where they do not,
    it is thinner than a chunk, which is then decoded several times.
    """

    def __init__(
        self, name: str, shape: tuple[int, ...], chunks: tuple[int, ...] | None, dtype: np.dtype[Any],
        read: Callable[[tuple[slice, ...]], Any], identity: Callable[[], Identity], cache: SlabCache,
    ) -> None:  # fmt: skip
        super().__init__(cache)
        self.name = name
        self.shape = shape
        self.n = math.prod(shape)
        self.dtype = dtype.newbyteorder("=")
        self._read = read
        self._identity = identity
        self._extents = shape = shape or (1,)
        chunks = chunks or (1,) * len(shape)
        most = max(1, cache.room // 2 // max(dtype.itemsize, 1))  # one is read while another is summed
        for axis in range(len(shape)):
            self._inner = math.prod(shape[axis + 1 :])
            if self._inner <= most:
                break
        self._axis = axis
        rows = max(1, most // max(self._inner, 1))
        height = min(chunks[axis], shape[axis]) or 1
        wanted = height * max(1, _TOGETHER // max(1, height * self._inner))
        self._height = min(wanted, rows // height * height) if rows >= height else rows
        self._outer = shape[axis] * self._inner
        self._per_outer = max(1, -(-shape[axis] // self._height))

    def slab_of(self, position: int) -> tuple[int, int, int]:
        outer, rest = divmod(position, self._outer)
        box = rest // (self._height * self._inner)
        start = outer * self._outer + box * self._height * self._inner
        stop = min(start + self._height * self._inner, (outer + 1) * self._outer)
        return outer * self._per_outer + box, start, stop

    def load(self, slab: int) -> npt.NDArray[Any]:
        outer, box = divmod(slab, self._per_outer)
        where: list[slice] = []
        if self._axis:
            outside = np.unravel_index(outer, self._extents[: self._axis])
            where = [slice(int(i), int(i) + 1) for i in outside]
        where.append(slice(box * self._height, min((box + 1) * self._height, self._extents[self._axis])))
        where.extend(slice(0, length) for length in self._extents[self._axis + 1 :])
        try:
            numbers = np.ascontiguousarray(self._read(tuple(where)))
        except DataFileError:
            raise
        except (
            Exception
        ) as error:  # of a codec, a file system, a network: whatever it is, these numbers are missing
            reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
            box_text = ", ".join(f"{each.start}:{each.stop}" for each in where)
            raise DataFileError(
                f"cannot read {self.name}[{box_text}] ({reason}): restore these chunks, then begin again or go on "
                "from the checkpoint"
            ) from error
        return numbers.reshape(-1).astype(self.dtype, copy=False)

    def identity(self) -> Identity:
        return self._identity()


class FortranSource(BoxSource):
    """A .npy file in Fortran order, whose numbers in C order are gathered from all over it: by boxes as large as the room."""

    def __init__(self, file: NpySource, cache: SlabCache) -> None:
        super().__init__(file.name, file.shape, file.shape, file.dtype, file.box, file.identity, cache)
        self.remarks = file.remarks


def open_zarr(path: str, key: str | None, cache: SlabCache) -> BoxSource:
    """A Zarr array, or the only one of a group, or that named ``key``."""
    zarr = _library("zarr", "zarr", path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of files in it that are not Zarr's
            return _open_zarr(zarr, path, key, cache)
    except TcuError:
        raise
    except Exception as error:  # of the library, which raises many kinds for damaged files
        if isinstance(error, OSError) and error.errno == errno.ELOOP:
            raise DataFileError(f"{path} holds a link that leads back to itself: remove it") from error
        raise DataFileError(f"cannot read {path} as Zarr: {_first_line(error)}: write it again") from error


def _open_zarr(zarr: Any, path: str, key: str | None, cache: SlabCache) -> BoxSource:
    node = zarr.open(path, mode="r")
    if isinstance(node, zarr.Group):
        names = [name for name, each in node.members(max_depth=None) if isinstance(each, zarr.Array)]
        key = _chosen(names, path, key)
        node, path = node[key], f"{path}/{key}"
    elif key is not None:
        raise DataFileError(f"--key {key}: {path} is one Zarr array: leave --key out")
    chunks = getattr(node, "shards", None) or node.chunks

    def identity() -> Identity:
        return [_absolute(path), list(node.shape), str(node.dtype), list(chunks), _state_of_folder(path)]

    found = BoxSource(
        path, node.shape, chunks, node.dtype, lambda where: node[where if node.shape else ()], identity, cache
    )
    # Zarr goes through the names of all chunks that there could be.
    stored = node.nchunks_initialized if node.nchunks <= _COUNTED else len(_files_in(path))
    found.remarks = _missing(path, stored, node.nchunks, node.fill_value)
    return found


def _files_in(path: str) -> list[str]:
    """All files, also behind links, of a folder; none of what is no folder, but somewhere else."""
    found: list[str] = []
    walked: set[str] = set()
    for folder, folders, names in os.walk(path, followlinks=True):
        if os.path.realpath(folder) in walked:  # a link that leads back
            folders.clear()
            continue
        walked.add(os.path.realpath(folder))
        folders.sort()
        found += [os.path.join(folder, name) for name in sorted(names)]
    return found


def _missing(name: str, stored: int, chunks: int, fill_value: Any) -> tuple[str, ...]:
    if stored >= chunks:
        return ()
    return (
        f"{name}: {chunks - stored:,} of {chunks:,} chunks are not stored and count as the fill value, {fill_value}",
    )


def _state_of_folder(path: str) -> str:
    """A checksum of the sizes and times of all files in it."""
    found = hashlib.sha256()
    for place in _files_in(path):
        state = _state_of(place) if os.path.exists(place) else None
        found.update(repr((os.path.relpath(place, path), state)).encode())
    return found.hexdigest()


def _state_of(path: str) -> list[int]:
    """Size and time of the last change."""
    status = os.stat(path)
    return [status.st_size, status.st_mtime_ns]


def _check_unchanged(path: str, state: list[int]) -> None:
    if _state_of(path) != state:
        raise DataFileError(f"{path} changed while it was read: begin again once nobody writes to it")


def open_hdf5(path: str, key: str | None, cache: SlabCache) -> BoxSource:
    """The only dataset of numbers of an HDF5 file, or that named ``key``: what lies in this file, and in no other."""
    h5py = _library("h5py", "hdf5", path)
    try:
        return _Hdf5(h5py, path).open(key, cache)
    except TcuError:
        raise
    except Exception as error:  # of the library, which raises many kinds for damaged files
        raise DataFileError(f"cannot read {path} as HDF5: {_first_line(error)}: write it again") from error


class _Hdf5:
    """An HDF5 file, of which no link leads elsewhere.

    External links, external storage and virtual datasets name other files,
    which whoever wrote this one chose; HDF5 itself opens them without a word,
    and takes the fill value for what it does not find.
    """

    def __init__(self, h5py: Any, path: str) -> None:
        self._h5py, self._path = h5py, path
        self._file = h5py.File(path, "r")
        self._state = _state_of(path)

    def open(self, key: str | None, cache: SlabCache) -> BoxSource:
        names: list[str] = []
        self._file.visit(names.append)  # which goes along no soft and no external link
        names = sorted(name for name in names if self._holds_numbers(self._file[name]))
        place = None if key is None else self._place(key)
        data = None if place is None else self._file[place or "/"]
        if isinstance(data, self._h5py.Dataset):
            shown = str(key).strip("/")
            if not self._holds_numbers(data):
                what = "no items" if data.shape is None else f"items of dtype {data.dtype}"
                raise DataFileError(
                    f"{self._path}/{shown} holds {what}, no real numbers: choose another array: {', '.join(names)}"
                )
        else:
            place = shown = _chosen(names, self._path, key)
            data = self._file[place]
        self._check_that_it_lies_here(data, str(place), ())

        def read(where: tuple[slice, ...]) -> Any:
            numbers = data[where if data.shape else ()]
            _check_unchanged(self._path, self._state)
            return numbers

        source = BoxSource(
            f"{self._path}/{shown}", data.shape, data.chunks, data.dtype, read,
            lambda: [os.path.abspath(self._path), shown, *self._state, list(data.shape), str(data.dtype)], cache,
        )  # fmt: skip
        if data.chunks:
            chunks = math.prod(
                -(-length // chunk) for length, chunk in zip(data.shape, data.chunks, strict=True)
            )
            source.remarks = _missing(source.name, data.id.get_num_chunks(), chunks, data.fillvalue)
        if data.is_virtual:
            covered = sum(part.vspace.get_select_npoints() for part in data.virtual_sources())
            if covered < source.n:
                source.remarks = (
                    f"{source.name}: {source.n - covered:,} of {source.n:,} numbers are in no part of this virtual "
                    f"dataset and count as the fill value, {data.fillvalue}",
                )
        return source

    def _holds_numbers(self, node: Any) -> bool:
        if not isinstance(node, self._h5py.Dataset):
            return False
        try:
            kind = node.dtype.kind
        except TypeError:  # a type that NumPy has not
            return False
        # The shape of a virtual dataset may depend on the files that it names.
        return kind in "fiu" and (node.is_virtual or node.shape is not None)

    def _place(self, key: str) -> str | None:
        """Where the key leads, by soft links inside of the file; None where nothing is there."""
        at, rest, links = "", _parts(key), self._h5py.h5l
        seen = {("", *rest)}
        while rest:
            group, name = self._file[at or "/"], rest.pop(0).encode("utf-8", "surrogateescape")
            if not isinstance(group, self._h5py.Group) or not group.id.links.exists(name):
                return None
            kind = group.id.links.get_info(name).type
            if kind == links.TYPE_HARD:
                at = f"{at}/{_text(name)}"
                continue
            if kind == links.TYPE_EXTERNAL:
                file, where = map(_text, group.id.links.get_val(name))
                raise DataFileError(
                    f"{self._path}/{key.strip('/')} is a link to {where} in another file, {file}, and links are not "
                    f"followed from file to file: give that file, with --key {where.strip('/')}"
                )
            if kind != links.TYPE_SOFT:
                raise DataFileError(
                    f"{self._path}/{key.strip('/')} is a link of a kind that only its program follows: copy the "
                    "numbers into this file"
                )
            target = _text(group.id.links.get_val(name))
            at, rest = "" if target.startswith("/") else at, [*_parts(target), *rest]
            if (at, *rest) in seen or len(seen) > _LINKS:
                raise DataFileError(
                    f"{self._path}/{key.strip('/')} is a link that leads back to itself: choose another array"
                )
            seen.add((at, *rest))
        return at.strip("/")

    def _check_that_it_lies_here(self, data: Any, name: str, within: tuple[str, ...]) -> None:
        """Raises DataFileError where numbers of a dataset lie in other files, or nowhere; ``within``: what it is part of."""
        if data.external is not None:
            files = ", ".join(dict.fromkeys(str(file) for file, _, _ in data.external))
            raise DataFileError(
                f"the numbers of {self._path}/{name} lie in another file, {files}, which is not read because this one "
                "names it: copy them into this file, or save them as .npy"
            )
        if not data.is_virtual:
            return
        parts = data.virtual_sources()
        files = ", ".join(dict.fromkeys(str(part.file_name) for part in parts if part.file_name != "."))
        if files:
            raise DataFileError(
                f"{self._path}/{name} is a virtual dataset, made of parts of other files, {files}, which are not read "
                "because this one names them: give those files themselves, or copy the numbers into one dataset"
            )
        for part in dict.fromkeys(str(part.dset_name) for part in parts):
            place = None if "%" in part else self._place(part)
            if place is None or place in (name, *within):
                raise DataFileError(
                    f"{self._path}/{name} is a virtual dataset, and its part {part} is not there: copy the numbers "
                    "into one dataset"
                )
            self._check_that_it_lies_here(self._file[place], place, (name, *within))


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def _chosen(names: list[str], path: str, key: str | None) -> str:
    names = sorted(names)
    if not names:
        raise DataFileError(f"{path} holds no array of numbers: write one into it")
    if key is None:
        if len(names) == 1:
            return names[0]
        shown = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
        raise DataFileError(
            f"{path} holds {len(names)} arrays: choose one with --key, or key= of open_files: {shown}"
        )
    if key.strip("/") not in names:
        raise unknown_name(f"array in {path}:", key, names)
    return key.strip("/")


class ParquetSource(SlabSource):
    """One column of a Parquet file, a row group at a time."""

    def __init__(self, path: str, column: str | None, cache: SlabCache) -> None:
        super().__init__(cache)
        parquet = _library("pyarrow.parquet", "parquet", path)
        self._path = path
        self._parquet = parquet
        self._state = _state_of(path)
        try:
            with parquet.ParquetFile(path) as file:
                self._metadata, schema = file.metadata, file.schema_arrow
        except Exception as error:
            raise DataFileError(
                f"cannot read {path} as Parquet: {_first_line(error)}: write it again"
            ) from error
        numeric = {field.name: field.type for field in schema if _is_number(field.type)}
        if column is None:
            if len(numeric) != 1:
                what = f"{len(numeric)} columns of numbers" if numeric else "no column of numbers"
                shown = ", ".join(list(numeric)[:20])
                raise DataFileError(
                    f"{path} has {what}: choose one with --column{': ' + shown if shown else ''}"
                )
            (column,) = numeric
        if column not in schema.names:
            raise unknown_name(f"column in {path}:", column, schema.names)
        if column not in numeric:
            raise DataFileError(
                f"{path}, column {column}, has type {schema.field(column).type}: choose a column of numbers, "
                f"{', '.join(numeric) or 'of which there is none'}"
            )
        self.column = column
        self.name = f"{path}, column {column}"
        self.dtype = np.dtype(numeric[column].to_pandas_dtype())
        self._ends: list[int] = []
        self.n = 0
        for i in range(self._metadata.num_row_groups):
            rows = self._metadata.row_group(i).num_rows
            if rows < 0:
                raise DataFileError(
                    f"cannot read {path} as Parquet: row group {i} has {rows:,} rows: write it again"
                )
            self.n += rows
            self._ends.append(self.n)
            if 2 * rows * self.dtype.itemsize > cache.room:
                need = -(-2 * rows * self.dtype.itemsize // (1 << 20))
                raise ParameterError(
                    f"{self.name}: row group {i} holds {rows:,} numbers, which are decoded at once: give the "
                    f"chunks {need} MiB (twice that with --memory), or write smaller row groups"
                )
        self.shape = (self.n,)

    def slab_of(self, position: int) -> tuple[int, int, int]:
        i = bisect_right(self._ends, position)
        return i, self._ends[i - 1] if i else 0, self._ends[i]

    def load(self, slab: int) -> npt.NDArray[Any]:
        try:
            with self._parquet.ParquetFile(self._path, metadata=self._metadata) as file:
                numbers = file.read_row_group(slab, columns=[self.column], use_threads=False).column(0)
        except Exception as error:
            raise DataFileError(
                f"cannot read row group {slab} of {self.name} ({_first_line(error)}): restore it, then begin "
                "again or go on from the checkpoint"
            ) from error
        _check_unchanged(self._path, self._state)
        rows = self._ends[slab] - (self._ends[slab - 1] if slab else 0)
        if len(numbers) != rows:
            raise DataFileError(
                f"row group {slab} of {self.name} holds {len(numbers):,} numbers, and its metadata say {rows:,}: "
                "write the file again"
            )
        if numbers.null_count:
            raise DataFileError(
                f"{self.name}: {numbers.null_count:,} values are missing in row group {slab}: fill or drop them first"
            )
        return numbers.to_numpy()  # type: ignore[no-any-return]

    def identity(self) -> Identity:
        return [os.path.abspath(self._path), self.column, *self._state, self.n, self.dtype.str]


def _is_number(kind: Any) -> bool:
    name = str(kind)
    return name in ("halffloat", "float", "double") or name.startswith(("int", "uint"))


def _absolute(path: str) -> str:
    return path if "://" in path else os.path.abspath(path)


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
