"""Numbers that do not lie in order: Zarr arrays, HDF5 datasets, columns of Parquet files, .npy in Fortran order.

The libraries are loaded when such a file is met.
"""

from __future__ import annotations

import hashlib
import importlib
import math
import os
from bisect import bisect_right
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.errors import DataFileError, ExtraMissingError, ParameterError, unknown_name
from tcu.streams.npy import NpySource
from tcu.streams.source import Identity, SlabCache, SlabSource

__all__ = ["BoxSource", "FortranSource", "ParquetSource", "open_hdf5", "open_zarr"]

_TOGETHER = 1 << 20
"""Numbers that are read at once at least, where the chunks are smaller and the room allows."""


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
        most = max(1, cache.room // 2 // dtype.itemsize)  # one is read while another is summed
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
        node = zarr.open(path, mode="r")
    except Exception as error:
        raise DataFileError(f"cannot read {path} as Zarr: {_first_line(error)}: write it again") from error
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
    found.remarks = _missing(path, node.nchunks_initialized, node.nchunks, node.fill_value)
    return found


def _missing(name: str, stored: int, chunks: int, fill_value: Any) -> tuple[str, ...]:
    if stored >= chunks:
        return ()
    return (
        f"{name}: {chunks - stored:,} of {chunks:,} chunks are not stored and count as the fill value, {fill_value}",
    )


def _state_of_folder(path: str) -> str:
    """A checksum of the sizes and times of all files in it; nothing for what is no folder, but somewhere else."""
    found = hashlib.sha256()
    for folder, folders, names in os.walk(path):
        folders.sort()
        for name in sorted(names):
            place = os.path.join(folder, name)
            found.update(repr((os.path.relpath(place, path), _state_of(place))).encode())
    return found.hexdigest()


def _state_of(path: str) -> list[int]:
    """Size and time of the last change."""
    status = os.stat(path)
    return [status.st_size, status.st_mtime_ns]


def _check_unchanged(path: str, state: list[int]) -> None:
    if _state_of(path) != state:
        raise DataFileError(f"{path} changed while it was read: begin again once nobody writes to it")


def open_hdf5(path: str, key: str | None, cache: SlabCache) -> BoxSource:
    """The only dataset of numbers of an HDF5 file, or that named ``key``."""
    h5py = _library("h5py", "hdf5", path)
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise DataFileError(f"cannot read {path} as HDF5: {_first_line(error)}: write it again") from error
    state = _state_of(path)
    names: list[str] = []

    def visit(name: str, node: Any) -> None:
        if isinstance(node, h5py.Dataset) and node.dtype.kind in "fiu" and node.shape is not None:
            names.append(name)

    file.visititems(visit)
    if key is not None and key.strip("/") not in names and isinstance(file.get(key), h5py.Dataset):
        before = sorted(names)
        visit(key.strip("/"), file[key])  # a link, perhaps, which is not visited by itself
        if len(names) == len(before):
            what = "no items" if file[key].shape is None else f"items of dtype {file[key].dtype}"
            raise DataFileError(
                f"{path}/{key.strip('/')} holds {what}, no real numbers: choose another array: {', '.join(before)}"
            )
    key = _chosen(names, path, key)
    data = file[key]

    def read(where: tuple[slice, ...]) -> Any:
        numbers = data[where if data.shape else ()]
        _check_unchanged(path, state)
        return numbers

    source = BoxSource(
        f"{path}/{key}", data.shape, data.chunks, data.dtype, read,
        lambda: [os.path.abspath(path), key, *state, list(data.shape), str(data.dtype)], cache,
    )  # fmt: skip
    if data.chunks:
        chunks = math.prod(-(-length // chunk) for length, chunk in zip(data.shape, data.chunks, strict=True))
        source.remarks = _missing(source.name, data.id.get_num_chunks(), chunks, data.fillvalue)
    return source


def _chosen(names: list[str], path: str, key: str | None) -> str:
    names = sorted(names)
    if not names:
        raise DataFileError(f"{path} holds no array of numbers: write one into it")
    if key is None:
        if len(names) == 1:
            return names[0]
        shown = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
        raise DataFileError(f"{path} holds {len(names)} arrays: choose one with --key: {shown}")
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
