"""Numbers of a .npy file, read where they lie; and of one that comes down a pipe."""

from __future__ import annotations

import io
import math
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from tcu.errors import DataFileError
from tcu.streams.source import Identity, Source, Strips

__all__ = ["MAGIC", "NpyPipe", "NpySource", "Rejoined", "read_header"]

MAGIC = b"\x93NUMPY"


class NpySource(Source):
    """Every read opens the file anew, so threads do not disturb each other, and a file that was cut off meanwhile is noticed.

    The file is open only while it is read: a folder may hold more files than a
    process may have open.
    """

    def __init__(self, path: str) -> None:
        self.name = path
        with open(path, "rb") as file:
            self.shape, self.fortran, self._stored = read_header(file, path)
            self._offset = file.tell()
            self._size, self._changed = _state_of(file.fileno())
        self.n = math.prod(self.shape)
        self.dtype = self._stored.newbyteorder("=")
        missing = self._offset + self.n * self.dtype.itemsize - self._size
        if missing > 0:
            raise DataFileError(
                f"{path} is damaged or not a complete .npy file (the last {missing:,} bytes of its {self.n:,} "
                "numbers are missing): write it again with numpy.save"
            )
        if missing < 0:
            self.remarks = (f"{path}: {-missing:,} bytes behind its {self.n:,} numbers are not read",)

    def read(self, start: int, stop: int, out: npt.NDArray[Any] | None = None) -> npt.NDArray[Any]:
        if out is None:
            out = np.empty(stop - start, self.dtype)
        with self._opened(start) as file:
            self._fill(file, start, _bytes_of(out))
        return out if self._stored.isnative else out.byteswap(inplace=True)

    def strips(self, start: int, stop: int, size: int, out: npt.NDArray[Any]) -> Strips:
        raw = _bytes_of(out)
        with self._opened(start) as file:
            for at in range(start, stop, size):
                if at + size > stop:
                    out = out[: stop - at]
                    raw = _bytes_of(out)
                self._fill(file, at, raw)
                yield out if self._stored.isnative else out.byteswap(inplace=True)

    def box(self, where: tuple[slice, ...]) -> npt.NDArray[Any]:
        """Part of an array in Fortran order, as it is stored: what lies together is read at once."""
        shape, starts = self.shape[::-1], [each.start for each in where[::-1]]
        lengths = tuple(each.stop - each.start for each in where[::-1])
        outer = len(shape) - 1  # axes before this one are walked through, those behind it are whole
        while outer > 0 and lengths[outer] == shape[outer]:
            outer -= 1
        strides = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
        first = sum(start * stride for start, stride in zip(starts, strides, strict=True))
        found = np.empty(lengths, self._stored)
        runs = found.reshape(math.prod(lengths[:outer]), -1)
        with self._opened(first) as file:
            for run, index in zip(runs, np.ndindex(lengths[:outer]), strict=True):
                at = first + sum(i * stride for i, stride in zip(index, strides, strict=False))
                self._fill(file, at, _bytes_of(run))
        return found.T

    @contextmanager
    def _opened(self, start: int) -> Iterator[io.FileIO]:
        """The file, for the caller alone; it must be the same before and after it is read."""
        try:
            file = open(self.name, "rb", buffering=0)  # noqa: SIM115  its errors are told apart from the caller's
        except OSError as error:
            raise self._unreadable(self._byte(start), error) from error
        with file:
            self._check(file)
            yield file
            self._check(file)

    def _check(self, file: io.FileIO) -> None:
        if _state_of(file.fileno()) != (self._size, self._changed):
            raise DataFileError(
                f"{self.name} changed while it was read: begin again once nobody writes to it"
            )

    def _fill(self, file: io.FileIO, start: int, rest: memoryview) -> None:
        at = self._byte(start)
        while rest:
            try:
                file.seek(at)
                count = file.readinto(rest)
            except OSError as error:
                raise self._unreadable(at, error) from error
            if not count:
                raise DataFileError(
                    f"{self.name} ended at byte {at:,} while it was read: begin again once it is whole"
                )
            rest, at = rest[count:], at + count

    def _byte(self, position: int) -> int:
        return self._offset + position * self.dtype.itemsize

    def _unreadable(self, at: int, error: OSError) -> DataFileError:
        return DataFileError(
            f"cannot read {self.name} at byte {at:,}: {error.strerror or error}: check its disk"
        )

    def identity(self) -> Identity:
        return [os.path.abspath(self.name), self._size, self._changed, self.n, self.dtype.str]


def _state_of(file: int) -> tuple[int, int]:
    """Size and time of the last change."""
    status = os.fstat(file)
    return status.st_size, status.st_mtime_ns


class NpyPipe(Source):
    """A .npy file that can be read only once, in order: whoever asks for a later piece waits for the earlier ones."""

    def __init__(self, start: bytes, file: BinaryIO, name: str) -> None:
        """``start``: what was read of it already."""
        self.name = name
        self._file = file
        self.shape, fortran, self._stored = read_header(Rejoined(start, file), name)
        if fortran:
            raise DataFileError(
                f"{name} is in Fortran order, so its numbers do not come in the order in which they are summed: "
                "send numpy.ascontiguousarray(x), or save it as a file"
            )
        self.n = math.prod(self.shape)
        self.dtype = self._stored.newbyteorder("=")
        self._at = 0
        self._failed: DataFileError | None = None
        self._turn = threading.Condition()

    def read(self, start: int, stop: int, out: npt.NDArray[Any] | None = None) -> npt.NDArray[Any]:
        if out is None:
            out = np.empty(stop - start, self.dtype)
        with self._turn:
            self._turn.wait_for(lambda: self._failed or self._at == start)
            if self._failed:
                raise self._failed
            rest = _bytes_of(out)
            while rest:
                count = self._file.readinto(rest)  # type: ignore[attr-defined]
                if not count:
                    missing = (self.n - stop) * self.dtype.itemsize + len(rest)
                    self._failed = DataFileError(
                        f"{self.name} ended {missing:,} bytes before the end of its {self.n:,} numbers: "
                        "whatever writes it has failed"
                    )
                    self._turn.notify_all()
                    raise self._failed
                rest = rest[count:]
            self._at = stop
            self._turn.notify_all()
        if not self._stored.isnative:
            out.byteswap(inplace=True)
        return out

    def strips(self, start: int, stop: int, size: int, out: npt.NDArray[Any]) -> Strips:
        try:
            yield from super().strips(start, stop, size, out)
        finally:
            with self._turn:
                if self._at < stop and self._failed is None:  # whoever waits for the rest waits in vain
                    self._failed = DataFileError(f"{self.name} was not read to its end")
                    self._turn.notify_all()

    def identity(self) -> Identity:
        raise DataFileError(
            f"{self.name} can be read only once, so there is no going back to a checkpoint: save it as a file first"
        )


def _bytes_of(array: Any) -> memoryview:
    return memoryview(array.view(np.uint8)) if array.size else memoryview(b"")


class Rejoined(io.RawIOBase):
    """A file of which the first bytes were read already; ``close``: that is closed with this one."""

    def __init__(self, start: bytes, rest: BinaryIO, close: bool = False) -> None:
        self._start, self._rest, self._close = start, rest, close

    def readable(self) -> bool:
        return True

    def readinto(self, room: Any) -> int:
        taken = self._start[: len(room)]
        if not taken:
            return self._rest.readinto(room)  # type: ignore[attr-defined, no-any-return]
        room[: len(taken)] = taken
        self._start = self._start[len(taken) :]
        return len(taken)

    def close(self) -> None:
        if self._close:
            self._rest.close()
        super().close()


_LARGEST = 1 << 63
"""No array has as many numbers, or bytes."""


def read_header(file: Any, name: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether in Fortran order, and dtype as stored; the file is left at its first number."""
    try:
        version = np.lib.format.read_magic(file)
        if version == (1, 0):
            shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
        elif version == (2, 0):
            shape, fortran, dtype = np.lib.format.read_array_header_2_0(file)
        else:
            raise ValueError(f"version {version[0]}.{version[1]}, which arrays of plain numbers do not need")
        if any(type(length) is not int or not 0 <= length < _LARGEST for length in shape) or (
            math.prod(shape) * max(dtype.itemsize, 1) >= _LARGEST
        ):
            raise ValueError(f"its shape is {shape}")
        if dtype.subdtype is not None:
            raise ValueError(f"its items are arrays, {dtype}")
    except OSError:
        raise
    except Exception as error:  # a header is Python's text, and NumPy's parser of it raises many kinds
        raise DataFileError(
            f"{name} is damaged or not a complete .npy file ({_in_words(error)}): write it again with numpy.save"
        ) from None
    if dtype.hasobject:
        raise DataFileError(
            f"{name} holds Python objects, which are never loaded because that can run code: "
            "save plain numbers, with x.astype('float64')"
        )
    return shape, fortran and len(shape) > 1, dtype


def _in_words(error: Exception) -> str:
    reason = (str(error).strip() or "unexpected end").splitlines()[0].rstrip(".")
    if not isinstance(error, ValueError | EOFError) or " object at 0x" in reason:
        return "its header does not say its shape and dtype as plain values"
    return reason if len(reason) <= 200 else f"{reason[:200]}..."
