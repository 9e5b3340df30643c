"""Exact sums: pieces added up in bins, and an accumulator that never rounds."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from tcu.errors import DataFileError, DtypeError, InvalidOperationError
from tcu.formats.format import Format, format_of
from tcu.formats.inexact import quotient
from tcu.formats.scalar import Number
from tcu.model import compiled, threads
from tcu.model.elements import Elements
from tcu.model.execute import Progress, pieces
from tcu.ops.result import round_number, rounding_target

__all__ = [
    "SCALE",
    "Accumulator",
    "ExactBins",
    "Tally",
    "count_specials",
    "exact_sum",
    "tally",
    "tally_on_host",
]

SCALE = -1074
"""Every number of the four formats is an integer multiple of 2 to this power."""
_KIND, _VERSION = b"TCUX", 2
_HEADER = struct.Struct(">4sB?QQQQ")
_CHECKSUM = hashlib.sha256


class Tally(NamedTuple):
    """An exact sum of finite numbers, in units that go with it, and counts of what is not finite."""

    integer: int = 0
    positive: int = 0
    """inf"""
    negative: int = 0
    """-inf"""
    nans: int = 0

    def plus(self, other: Tally) -> Tally:
        return Tally(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))

    def number(self, exponent: int) -> Number:
        """The sum in units of 2^exponent; raises InvalidOperationError for inf - inf."""
        if self.nans:
            return Number("nan", False, (1 << 52) - 1)
        if self.positive and self.negative:
            raise InvalidOperationError(
                f"the sum holds {self.positive} inf and {self.negative} -inf, so it has no value: "
                "find them with numpy.isinf and remove them"
            )
        if self.positive or self.negative:
            return Number("inf", self.negative > 0)
        return Number("finite", self.integer < 0, abs(self.integer), exponent)


def tally(n: int, work: Callable[[int, int], Tally], progress: Progress | None = None) -> Tally:
    """The sum of ``work(start, stop)`` over the pieces of n elements, by all threads."""
    total = Tally()
    both = threads.in_order(lambda piece: (piece[1] - piece[0], work(*piece)), pieces(n))
    for done, part in both:
        total = total.plus(part)
        if progress is not None:
            progress(done)
    return total


class Accumulator:
    """The state behind :class:`tcu.ExactSum`: one integer multiple of 2^-1074, and counts of what is not finite."""

    __slots__ = ("n", "tally")

    def __init__(self) -> None:
        self.n = 0
        """Numbers added so far."""
        self.tally = Tally()
        """The state, in units of 2^-1074."""

    def add_tally(self, n: int, part: Tally) -> Self:
        """Add n numbers that were added up elsewhere, in units of 2^-1074; returns self."""
        self.n += n
        self.tally = self.tally.plus(part)
        return self

    def merge(self, other: Accumulator) -> Self:
        """Add everything that ``other`` holds; returns self."""
        if not isinstance(other, Accumulator):
            raise DtypeError(f"merge takes an ExactSum, not {type(other).__name__}: use add for numbers")
        return self.add_tally(other.n, other.tally)

    @property
    def positive_infinities(self) -> int:
        return self.tally.positive

    @property
    def negative_infinities(self) -> int:
        return self.tally.negative

    @property
    def nans(self) -> int:
        return self.tally.nans

    def value(self, dtype: npt.DTypeLike | None = None) -> Any:
        """The sum rounded once, to nearest, to ``dtype`` (float64 if None), as a NumPy scalar.

        NaN if one was added, else the inf that was; a sum of zero is +0; a sum
        beyond the largest number of ``dtype`` is inf.  Raises
        InvalidOperationError (a ValueError, as math.fsum raises) if inf and
        -inf were added and no NaN.
        """
        return round_number(self._number(), None if dtype is None else rounding_target(dtype))

    def mean(self, dtype: npt.DTypeLike | None = None) -> Any:
        """The sum divided by n, rounded once, as :meth:`value`; NaN where nothing was added."""
        mean = quotient(self._number(), self.n) if self.n else Tally(nans=1).number(SCALE)
        return round_number(mean, None if dtype is None else rounding_target(dtype))

    def _number(self) -> Number:
        return self.tally.number(SCALE)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Accumulator):
            return NotImplemented
        return self.to_bytes() == other.to_bytes()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        try:
            value = str(self.value())
        except InvalidOperationError:
            value = "inf - inf"
        return f"ExactSum(n={self.n}, value={value})"

    def to_bytes(self) -> bytes:
        """The state: equal sums give equal bytes, on every machine and in every later version.

        Layout, big-endian: "TCUX" 2; sign; n, +inf, -inf and NaN counts (8 bytes
        each); magnitude in units of 2^-1074, of as many bytes as it needs;
        SHA-256 of all that (32 bytes).
        """
        integer, *counts = self.tally
        body = abs(integer).to_bytes((integer.bit_length() + 7) // 8, "big")
        state = _HEADER.pack(_KIND, _VERSION, integer < 0, self.n, *counts) + body
        return state + _CHECKSUM(state).digest()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The sum that ``to_bytes`` wrote; raises DataFileError for anything else."""
        if not isinstance(data, bytes | bytearray | memoryview):
            raise DataFileError(
                f"{type(data).__name__} is no state of an ExactSum: use what to_bytes returned"
            )
        data = bytes(data)
        state, checksum = data[: -_CHECKSUM().digest_size], data[-_CHECKSUM().digest_size :]
        if not data.startswith(_KIND) or len(data) <= len(_KIND):
            raise DataFileError(f"{len(data)} bytes are no state of an ExactSum: use what to_bytes returned")
        if data[len(_KIND)] != _VERSION:
            raise DataFileError(
                f"the state of an ExactSum is of version {data[len(_KIND)]}, and this tcu reads version {_VERSION}, "
                "which has a checksum: add up the numbers anew, or read it with the tcu that wrote it"
            )
        if len(state) < _HEADER.size or _CHECKSUM(state).digest() != checksum:
            raise DataFileError(
                f"the state of an ExactSum is damaged ({len(data)} bytes, whose checksum is wrong): use what to_bytes "
                "returned, whole"
            )
        _, _, negative, n, *counts = _HEADER.unpack_from(state)
        magnitude = int.from_bytes(state[_HEADER.size :], "big")
        return cls().add_tally(n, Tally(-magnitude if negative else magnitude, *counts))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_bytes, (self.to_bytes(),)


def tally_on_host(x: Any, progress: Progress | None = None) -> tuple[int, Tally]:
    elements = Elements.of(x)

    def work(start: int, stop: int) -> Tally:
        return exact_sum(elements.read(start, stop), elements.format)

    return elements.n, tally(elements.n, work, progress)


def exact_sum(numbers: npt.NDArray[Any], fmt: Format) -> Tally:
    """The sum of one piece in units of 2^-1074."""
    if numbers.size == 0:
        return Tally()
    bins = ExactBins(fmt)
    bins.add(numbers)
    return bins.tally()


class ExactBins:
    """A sum of one format's numbers in the making: fields of 64 bits, which hold more than 2^36 numbers.

    Adding costs what the numbers cost; it is the tally, Python's integers, that small arrays would wait for.
    """

    def __init__(self, fmt: Format) -> None:
        self._format = fmt
        self._fields = 1 << fmt.exponent_bits
        self._narrow = np.zeros((4, 1 if fmt.bits == 64 else self._fields), np.int64)
        self._wide = np.zeros((2, 1 << 11, 2), np.int64)
        self._specials = Tally()
        self._codes = np.dtype(np.int64) if fmt.bits == 64 else fmt.code_dtype
        self._layout = (
            fmt.name == "binary16", fmt.fraction_bits, fmt.bits - 1, self._fields - 1, self._narrow, self._wide,
        )  # fmt: skip

    def add(self, numbers: npt.NDArray[Any]) -> None:
        """Numbers of that format, in native byte order."""
        codes = numbers.view(self._codes)
        if compiled.load("cuts").add_by_cuts(
            codes if self._format.bits == 16 else numbers, codes, *self._layout
        ):
            self._specials = self._specials.plus(count_specials(numbers))

    def tally(self) -> Tally:
        """What was added so far, in units of 2^-1074."""
        fmt = self._format
        integer = 0
        # Reductions over these axes would take half of the time of a sum of 1,000 numbers.
        halves = self._wide[0] + self._wide[1]
        for field in np.flatnonzero(halves[:, 0] | halves[:, 1]).tolist():
            if fmt.bits < 64 or field < self._fields - 1:  # else counts of inf and NaN
                low, high = halves[field].tolist()
                integer += (low + (high << 26)) << (max(field, 1) - 1)
        sums, low = self._narrow.sum(axis=0), fmt.quantum_exponent - SCALE
        for field in np.flatnonzero(sums).tolist():
            if field < self._fields - 1:
                integer += int(sums[field]) << (max(field, 1) - 1 + low)
        return Tally(integer).plus(self._specials)


def count_specials(numbers: npt.NDArray[Any]) -> Tally:
    """How many are inf, -inf and NaN."""
    fmt = format_of(numbers.dtype)
    codes = numbers.view(fmt.code_dtype)
    magnitude = codes & np.array(fmt.sign_code - 1, codes.dtype)
    infinite = magnitude == fmt.infinity_code
    negative = int(np.count_nonzero(infinite & (codes != magnitude)))
    nans = int(np.count_nonzero(magnitude > fmt.infinity_code))
    return Tally(0, int(np.count_nonzero(infinite)) - negative, negative, nans)
