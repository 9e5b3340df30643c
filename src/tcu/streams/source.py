"""Numbers that lie somewhere, as one line in C order: read a piece at a time, by any thread."""

from __future__ import annotations

import hashlib
import threading
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tcu.errors import DataFileError, DtypeError, ShapeError

__all__ = [
    "ArraySource",
    "Concatenation",
    "Identity",
    "Pair",
    "SlabCache",
    "SlabSource",
    "SideBySide",
    "Source",
    "Strips",
    "Together",
]

Identity = list[Any]
"""What tells a source from another, or from itself after a change; goes through JSON unchanged."""
Strips = Generator[npt.NDArray[Any], None, None]
"""Numbers that follow one another, in memory that is used again and again."""


_HASHED = 1 << 20
"""Numbers whose checksum is taken at a time."""


class Source(ABC):
    """``n`` numbers of ``dtype``, in native byte order."""

    name: str
    """What messages call it."""
    n: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    remarks: tuple[str, ...] = ()
    """What whoever sums it should know."""
    from_text = False
    """Whether the numbers were rounded from decimal text."""

    @abstractmethod
    def read(self, start: int, stop: int, out: npt.NDArray[Any] | None = None) -> npt.NDArray[Any]:
        """Numbers ``start`` to ``stop``, for which ``out`` may be used; raises DataFileError."""

    def strips(self, start: int, stop: int, size: int, out: npt.NDArray[Any]) -> Strips:
        """The same, ``size`` numbers at a time; ``out`` has room for as many."""
        for at in range(start, stop, size):
            end = min(at + size, stop)
            yield self.read(at, end, out[: end - at])

    @abstractmethod
    def identity(self) -> Identity:
        """What a checkpoint remembers of it."""


class ArraySource(Source):
    """An array in memory, or mapped into it; any shape and strides."""

    def __init__(self, array: npt.NDArray[Any], name: str = "array") -> None:
        self.array = array
        self.name = name
        self.shape = array.shape
        self.n = int(array.size)
        self.dtype = array.dtype.newbyteorder("=")
        self._line = array.reshape(-1) if array.flags.c_contiguous else None

    def read(self, start: int, stop: int, out: npt.NDArray[Any] | None = None) -> npt.NDArray[Any]:
        piece = self.array.flat[start:stop] if self._line is None else self._line[start:stop]
        return piece if piece.dtype.isnative else piece.astype(self.dtype)

    def identity(self) -> Identity:
        """With a checksum: where the array came from, nobody knows here."""
        found = hashlib.sha256()
        for at in range(0, self.n, _HASHED):
            found.update(np.ascontiguousarray(self.read(at, min(at + _HASHED, self.n))).view(np.uint8).data)
        return [self.name, self.n, self.dtype.str, found.hexdigest()]


class Pair(NamedTuple):
    """Numbers of two sources, from the same place in both."""

    x: npt.NDArray[Any]
    y: npt.NDArray[Any]

    @property
    def size(self) -> int:
        return self.x.size


class Together:
    """Two sources that are read side by side, in strips of :class:`Pair`."""

    def __init__(self, x: Source, y: Source) -> None:
        _check_as_many(x, y)
        if x.dtype != y.dtype:
            raise DtypeError(f"{x.name} holds {x.dtype} and {y.name} {y.dtype}: save both in one dtype")
        self._x, self._y, self.n = x, y, x.n
        self.dtype = np.dtype([("x", x.dtype), ("y", y.dtype)])

    def strips(self, start: int, stop: int, size: int, out: npt.NDArray[Any]) -> Generator[Pair, None, None]:
        first, second = np.split(out.view(self._x.dtype), 2)  # those of x before those of y
        both = zip(
            self._x.strips(start, stop, size, first), self._y.strips(start, stop, size, second), strict=True
        )
        return (Pair(*each) for each in both)


def _check_as_many(x: Source, y: Source) -> None:
    if x.n != y.n:
        raise ShapeError(f"{x.name} holds {x.n:,} numbers and {y.name} {y.n:,}: give two with as many")


class Row(NamedTuple):
    """Numbers of several sources, from the same place in each."""

    arrays: tuple[npt.NDArray[Any], ...]

    @property
    def size(self) -> int:
        return self.arrays[0].size


class SideBySide:
    """Sources of any dtypes that are read together, in strips of :class:`Row`."""

    def __init__(self, *sources: Source) -> None:
        for each in sources[1:]:
            _check_as_many(sources[0], each)
        self._sources, self.n = sources, sources[0].n
        self.dtype = np.dtype([(f"{i}", each.dtype) for i, each in enumerate(sources)])

    def strips(self, start: int, stop: int, size: int, out: npt.NDArray[Any]) -> Generator[Row, None, None]:
        raw, at, given = out.view(np.uint8), 0, {}
        # The wide ones first: so all begin where their numbers may.
        for each in sorted(range(len(self._sources)), key=lambda i: -self._sources[i].dtype.itemsize):
            source = self._sources[each]
            end = at + out.size * source.dtype.itemsize
            given[each] = source.strips(start, stop, size, raw[at:end].view(source.dtype))
            at = end
        return (Row(each) for each in zip(*(given[i] for i in range(len(given))), strict=True))


class SlabCache:
    """The slabs decoded last, of all sources that are read together: at most ``room`` bytes, or one slab."""

    def __init__(self, room: int) -> None:
        self.room = room
        self._kept: OrderedDict[tuple[int, int], npt.NDArray[Any]] = OrderedDict()
        self._lock = threading.Lock()
        self._loading: dict[tuple[int, int], threading.Lock] = {}

    def slab(self, source: SlabSource, number: int) -> npt.NDArray[Any]:
        key = id(source), number
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
            loading = self._loading.setdefault(key, threading.Lock())
        with loading:  # the second thread that needs it waits for the first
            with self._lock:
                if key in self._kept:
                    return self._kept[key]
            slab = source.load(number)
            with self._lock:
                self._kept[key] = slab
                self._loading.pop(key, None)
                while len(self._kept) > 1 and sum(each.nbytes for each in self._kept.values()) > self.room:
                    self._kept.popitem(last=False)
            return slab


class SlabSource(Source):
    """What is stored in chunks: a slab, chunks that are read together, is decoded once and kept for the next piece."""

    def __init__(self, cache: SlabCache) -> None:
        self._cache = cache

    @abstractmethod
    def slab_of(self, position: int) -> tuple[int, int, int]:
        """(number, start, stop) of the slab in which a number lies."""

    @abstractmethod
    def load(self, slab: int) -> npt.NDArray[Any]:
        """All numbers of a slab, one-dimensional, in ``dtype``."""

    def read(self, start: int, stop: int, out: npt.NDArray[Any] | None = None) -> npt.NDArray[Any]:
        if out is None:
            out = np.empty(stop - start, self.dtype)
        at = start
        while at < stop:
            number, first, last = self.slab_of(at)
            end = min(last, stop)
            out[at - start : end - start] = self._cache.slab(self, number)[at - first : end - first]
            at = end
        return out


class Concatenation(Source):
    """Sources of one dtype, one after another."""

    def __init__(self, sources: Sequence[Source], name: str) -> None:
        self.sources = list(sources)
        self.name = name
        self.dtype = sources[0].dtype
        for source in sources[1:]:
            if source.dtype != self.dtype:
                raise DataFileError(
                    f"{sources[0].name} holds {self.dtype} and {source.name} {source.dtype}: sum them one by one, "
                    "or save all in one dtype"
                )
        self.remarks = tuple(remark for source in sources for remark in source.remarks)
        self.from_text = any(source.from_text for source in sources)
        self._ends: list[int] = []
        self.n = 0
        for source in sources:
            self.n += source.n
            self._ends.append(self.n)
        self.shape = (self.n,)

    def read(self, start: int, stop: int, out: npt.NDArray[Any] | None = None) -> npt.NDArray[Any]:
        i = bisect_right(self._ends, start)
        if out is None:
            if stop <= self._ends[i]:
                first = self._ends[i] - self.sources[i].n
                return self.sources[i].read(start - first, stop - first)
            out = np.empty(stop - start, self.dtype)
        at = start
        while at < stop:
            first, end = self._ends[i] - self.sources[i].n, min(self._ends[i], stop)
            if end > at:
                part = out[at - start : end - start]
                found = self.sources[i].read(at - first, end - first, part)
                if found is not part:
                    part[...] = found
            at, i = end, i + 1
        return out

    def strips(self, start: int, stop: int, size: int, out: npt.NDArray[Any]) -> Strips:
        """Those that lie in one source, as it has them."""
        at = start
        while at < stop:
            i = bisect_right(self._ends, at)
            first = self._ends[i] - self.sources[i].n
            inside = min(self._ends[i], stop) - at
            count = inside if at + inside == stop else inside // size * size
            if count:
                yield from self.sources[i].strips(at - first, at + count - first, size, out)
            else:
                count = min(size, stop - at)
                yield self.read(at, at + count, out[:count])
            at += count

    def identity(self) -> Identity:
        return [source.identity() for source in self.sources]
