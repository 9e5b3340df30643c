"""Scans of numbers of any length, from files into a file: read once, written once, resumable.

By the plan of :func:`tcu.cumsum`, or exactly as :func:`tcu.fcumsum`, so the bits are those of one array.
"""

from __future__ import annotations

import io
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.engines.host import exact_scans
from tcu.errors import DataFileError
from tcu.formats.format import Format
from tcu.model import scans
from tcu.model.elements import Elements
from tcu.ops.exact import Tally, exact_sum
from tcu.ops.operation import Operation
from tcu.streams.checkpoint import Checkpoint
from tcu.streams.passes import Numbers, run
from tcu.streams.source import Strips
from tcu.streams.totals import ExactTotal, Total
from tcu.unfinished import beside, discard, give_name, open_alone

__all__ = ["ScanFile", "scan_into"]


class Reversed:
    """The same numbers from the last to the first."""

    def __init__(self, numbers: Numbers) -> None:
        self._numbers = numbers
        self.n, self.dtype = numbers.n, numbers.dtype

    def strips(self, start: int, stop: int, size: int, out: npt.NDArray[Any]) -> Strips:
        for numbers in self._numbers.strips(self.n - stop, self.n - start, stop - start, out):
            yield np.ascontiguousarray(numbers[::-1])


class ScanFile:
    """A .npy file that is written piece by piece beside its place; it gets its name and its first bytes when it is whole.

    ``resumable``: under a name by which the next run finds it, PLACE.part; what
    is left of another is written over.  ``resumed``: it is there.
    """

    _MARK = b"\x93PARTS"
    """In place of NumPy's, of a file that is not whole: what begins so is ours."""

    def __init__(self, path: Path, n: int, dtype: np.dtype[Any], resumable: bool, resumed: bool) -> None:
        self.path = path.resolve()  # a link stays one
        if self.path.exists() and not self.path.is_file():
            raise DataFileError(
                f"cannot write {path}: it is no regular file, and running sums are written in pieces: choose another place"
            )
        self.part = self.path.with_name(self.path.name + ".part") if resumable else beside(self.path)
        self._resumable = resumable
        self._dtype = dtype
        header = io.BytesIO()
        np.lib.format.write_array_header_1_0(
            header,
            {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": (n,)},
        )
        self._header, self._start = header.getvalue(), header.tell()
        size = self._start + n * dtype.itemsize
        try:
            if resumed and self.path.exists() and not self.part.exists():
                self.path.replace(self.part)  # it was whole already
            self._file = open_alone(self.part, create=not resumed)
        except FileNotFoundError:
            raise DataFileError(
                f"{self.part}, which the checkpoint continues, is not there: delete the checkpoint to begin anew"
            ) from None
        except BlockingIOError:
            raise DataFileError(
                f"another process is writing {path}: wait until it has ended, or choose another place"
            ) from None
        except OSError as error:
            raise self._unwritable(error) from None
        try:
            self._begin(size, resumed)
        except BaseException as error:
            self.close(whole=False)
            if isinstance(error, OSError) and not isinstance(error, DataFileError):
                raise self._unwritable(error) from None
            raise

    def _begin(self, size: int, resumed: bool) -> None:
        if resumed:
            found = os.fstat(self._file.fileno()).st_size
            if found != size:
                raise DataFileError(
                    f"{self.part}, which the checkpoint continues, has {found:,} bytes and not {size:,}: delete the "
                    "checkpoint to begin anew"
                )
            return
        # Ours is what a process left that was killed before its first checkpoint.
        if self._file.read(len(self._MARK)) not in (b"", self._MARK):
            raise DataFileError(
                f"{self.part}, where the sums would be until they are whole, is there already: delete it, or choose "
                "another place"
            )
        self._file.truncate(0)
        self._file.seek(0)
        self._file.write(self._MARK + self._header[len(self._MARK) :])
        self._file.truncate(size)

    def _unwritable(self, error: OSError) -> DataFileError:
        return DataFileError(f"cannot write {self.path}: {error.strerror or error}: choose another place")

    def write(self, start: int, numbers: npt.NDArray[Any]) -> None:
        """Put numbers at their place; raises DataFileError."""
        try:
            self._file.seek(self._start + start * self._dtype.itemsize)
            self._file.write(np.ascontiguousarray(numbers).view(np.uint8).data)
        except OSError as error:
            raise DataFileError(f"cannot write {self.part}: {error.strerror or error}: make room") from None

    def sync(self) -> None:
        """Return when everything is on the disk."""
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self, whole: bool) -> None:
        """Give it its name where it is whole; else keep it for the next run, or delete it; raises DataFileError."""
        kept = self._resumable
        try:
            if whole:
                self._file.seek(0)
                self._file.write(self._header)
            if whole or kept:
                self.sync()
            if whole:
                give_name(self._file, self.part, self.path)
                kept = True
        except OSError as error:
            raise DataFileError(f"cannot write {self.part}: {error.strerror or error}: make room") from None
        finally:
            if not kept:
                discard(self._file, self.part)
            with suppress(OSError):  # of what was not written after all
                self._file.close()


class _Scan(ABC):
    """A total that writes as it merges: what is pending is what comes before the next piece."""

    name = "scan"
    nothing: type[Any]
    """What comes before the first piece; it goes through a checkpoint."""

    def __init__(
        self, file: ScanFile, n: int, element: Format, target: Format, exclusive: bool, reverse: bool
    ) -> None:
        self._file = file
        self._n, self.element, self._target = n, element, target
        self.exclusive, self._reverse = exclusive, reverse
        self.before = self.nothing()

    @abstractmethod
    def length(self, most: int) -> int:
        """Of pieces; ``most``: as long as the memory allows."""

    @abstractmethod
    def work(self, start: int, numbers: npt.NDArray[Any], share: None = None) -> Any:
        """The numbers, and what any thread can find out before their turn comes."""

    @abstractmethod
    def put(self, share: Any, result: npt.NDArray[Any]) -> None:
        """Put the running sums of the next piece there; then it comes before."""

    def pieces(self, start: int, most: int) -> Iterator[tuple[int, int]]:
        length = self.length(most)
        return ((at, min(at + length, self._n)) for at in range(start, self._n, length))

    def merge(self, start: int, stop: int, share: Any) -> None:
        result = np.empty(stop - start, self._target.dtype)
        self.put(share, result)
        if self._reverse:
            self._file.write(self._n - stop, result[::-1])
        else:
            self._file.write(start, result)

    def state(self) -> Any:
        self._file.sync()  # before anything says that it is there
        return self.before.state()

    def restore(self, state: Any) -> None:
        self.before.restore(state)


class _PlannedScan(_Scan):
    """In binary64: before a piece come the sums of the plan's levels."""

    nothing = scans.Carries

    def length(self, most: int) -> int:
        """The plan's own, whatever the memory."""
        return scans.piece_length(self.element)

    def work(self, start: int, numbers: npt.NDArray[Any], share: None = None) -> npt.NDArray[Any]:
        return numbers.copy()

    def put(self, share: npt.NDArray[Any], result: npt.NDArray[Any]) -> None:
        edges = np.array([0, share.size])
        carry = self.before.carry
        self.before.push(scans.scan_segments(share, edges, result, self.exclusive, False, carry))


class _ExactScan(_Scan):
    """Each rounded once from the exact sum: before a piece comes that of all numbers there, so any length is right."""

    nothing = ExactTotal

    def length(self, most: int) -> int:
        return most

    def work(
        self, start: int, numbers: npt.NDArray[Any], share: None = None
    ) -> tuple[npt.NDArray[Any], Tally]:
        return numbers.copy(), exact_sum(numbers, self.element)

    def put(self, share: tuple[npt.NDArray[Any], Tally], result: npt.NDArray[Any]) -> None:
        (numbers, tally), before = share, self.before.sum.tally
        n, read = numbers.size, Elements(numbers).read
        exact_scans.scan_line(n, self.element, read, result, self.exclusive, False, before=before)
        self.before.merge(0, n, tally)


def scan_into(
    operation: Operation, path: Path, numbers: Numbers, element: Format, target: Format, *, exclusive: bool,
    reverse: bool, memory: int, checkpoint: Checkpoint | None = None, progress: Callable[[int], None] | None = None,
    beside: Sequence[Total] = (),
) -> None:  # fmt: skip
    """Write the running sums of all numbers, in C order, as the operation has them, to a .npy file.

    ``element`` is the format of what is read; ``beside``: further totals of
    the same pass.  Raises what :func:`tcu.streams.run` raises; without a
    checkpoint an unfinished file is deleted.
    """
    resumed = checkpoint is not None and checkpoint.load() is not None
    file = ScanFile(path, numbers.n, target.dtype, checkpoint is not None, resumed)
    kind = _ExactScan if operation.exact else _PlannedScan
    scan = kind(file, numbers.n, element, target, exclusive, reverse)
    given = Reversed(numbers) if reverse else numbers
    whole = False
    try:
        run(given, [scan, *beside], memory=memory, checkpoint=checkpoint, progress=progress)
        whole = True
    finally:
        file.close(whole)
