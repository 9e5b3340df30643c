"""Scans of numbers of any length, from files into a file: read once, written once, resumable.

Two levels, as :mod:`tcu.collectives.carries`: segments of SEGMENT numbers,
counted from where the scan begins, each scanned in binary64, plus the exact
sum of everything before, rounded once.  The bits depend on the numbers alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.collectives.carries import carried, carry_of, local_scan
from tcu.collectives.exact import exact_sum
from tcu.errors import DataFileError, ParameterError
from tcu.formats.format import Format, format_of
from tcu.model import threads
from tcu.streams.checkpoint import Checkpoint
from tcu.streams.passes import Numbers, run
from tcu.streams.totals import ExactTotal, Total

__all__ = ["SEGMENT", "ScanFile", "scan_into"]

SEGMENT = 1 << 20


class Reversed:
    """The same numbers from the last to the first."""

    def __init__(self, numbers: Numbers) -> None:
        self._numbers = numbers
        self.n, self.dtype = numbers.n, numbers.dtype

    def read(self, start: int, stop: int, out: npt.NDArray[Any] | None = None) -> npt.NDArray[Any]:
        return np.ascontiguousarray(self._numbers.read(self.n - stop, self.n - start, out)[::-1])


class ScanFile:
    """A .npy file that is written piece by piece; it gets its name when it is whole."""

    def __init__(self, path: Path, n: int, dtype: np.dtype[Any], resumed: bool) -> None:
        self._path, self._part = path, path.with_name(path.name + ".part")
        self._n, self._dtype = n, dtype
        try:
            if resumed and path.exists() and not self._part.exists():
                path.replace(self._part)  # it was whole already
            self._file = self._part.open("r+b" if resumed else "w+b")
            header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": (n,)}
            np.lib.format.write_array_header_1_0(self._file, header)
            self._start = self._file.tell()
            self._file.truncate(self._start + n * dtype.itemsize)
        except FileNotFoundError:
            raise DataFileError(
                f"{self._part}, which the checkpoint continues, is not there: delete the checkpoint to begin anew"
            ) from None
        except OSError as error:
            raise DataFileError(
                f"cannot write {path}: {error.strerror or error}: choose another place"
            ) from None

    def write(self, start: int, numbers: npt.NDArray[Any]) -> None:
        try:
            self._file.seek(self._start + start * self._dtype.itemsize)
            self._file.write(np.ascontiguousarray(numbers).view(np.uint8).data if numbers.size else b"")
        except OSError as error:
            raise DataFileError(f"cannot write {self._part}: {error.strerror or error}: make room") from None

    def sync(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self, whole: bool) -> None:
        self.sync()
        self._file.close()
        if whole:
            self._part.replace(self._path)


class _Scan(ExactTotal):
    """A total that writes as it merges: its state is the exact sum so far, and what is on the disk."""

    name = "scan"

    def __init__(self, n: int, target: Format, exclusive: bool, reverse: bool) -> None:
        super().__init__()
        self.file: ScanFile | None = None
        self._n, self._target, self._exclusive, self._reverse = n, target, exclusive, reverse

    def pieces(self, start: int, most: int) -> Iterator[tuple[int, int]]:
        del most
        return ((at, min(at + SEGMENT, self._n)) for at in range(start, self._n, SEGMENT))

    def work(self, start: int, numbers: npt.NDArray[Any]) -> Any:
        with threads.alone():
            scan = local_scan(numbers, 0, exclusive=self._exclusive, reverse=False)
        return exact_sum(numbers, format_of(numbers.dtype)), scan

    def merge(self, start: int, stop: int, share: Any) -> None:
        assert self.file is not None
        tally, scan = share
        result = carried(scan, np.asarray(carry_of(self.sum.tally)), 0, self._target)
        if self._reverse:
            self.file.write(self._n - stop, result[::-1])
        else:
            self.file.write(start, result)
        super().merge(start, stop, tally)

    def state(self) -> str:
        assert self.file is not None
        self.file.sync()  # before anything says that it is there
        return super().state()


def scan_into(
    path: Path, numbers: Numbers, target: Format, *, exclusive: bool, reverse: bool, memory: int,
    checkpoint: Checkpoint | None = None, progress: Callable[[int], None] | None = None,
    beside: Sequence[Total] = (),
) -> None:  # fmt: skip
    """Write the cumulative sums of all numbers, in C order, to a .npy file.

    Raises what :func:`tcu.streams.run` raises; without a checkpoint an
    unfinished file is deleted.  ``beside``: further totals of the same pass.
    """
    if format_of(target.dtype).name == "bfloat16":
        raise ParameterError("cumulative sums in bfloat16 have no .npy format: choose float32 or float16")
    resumed = checkpoint is not None and checkpoint.load() is not None
    scan = _Scan(numbers.n, target, exclusive, reverse)
    scan.file = ScanFile(path, numbers.n, target.dtype, resumed)
    whole = False
    try:
        given = Reversed(numbers) if reverse else numbers
        run(given, [scan, *beside], memory=memory, checkpoint=checkpoint, progress=progress)
        whole = True
    finally:
        scan.file.close(whole)
        if not whole and checkpoint is None:
            path.with_name(path.name + ".part").unlink(missing_ok=True)
