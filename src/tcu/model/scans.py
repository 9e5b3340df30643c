"""Execute the plan of a scan: of many segments at once, or of one long line by all cores."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.formats.format import Format, format_of, get_format
from tcu.model import compiled, threads
from tcu.plan.scan import group_of, radix

__all__ = ["Carries", "piece_length", "scan_line", "scan_segments"]

Read = Callable[[int, int], npt.NDArray[Any]]
"""Elements from one index up to another: one-dimensional, contiguous, in native byte order."""


def piece_length(fmt: Format) -> int:
    """Elements of a piece of a long line: three levels of the plan; no longer segment goes through one kernel."""
    scan_kernels = compiled.load("scan_kernels")

    return group_of(fmt) * math.prod(radix(level) for level in range(1, scan_kernels.LEVELS + 1))


def scan_segments(
    x: npt.NDArray[Any],
    offsets: npt.NDArray[np.int64],
    out: npt.NDArray[Any],
    exclusive: bool,
    reverse: bool,
    carry: float = 0.0,
) -> float:
    """Put the running sums of each segment into ``out``, on one core; the total of a segment that is a full piece.

    x: as :data:`Read` gives it; offsets from 0 to x.size, of segments of at
    most :func:`piece_length` elements; out: as many elements of the result's
    format, laid out in any way, or where x lies; ``carry`` is the sum before a
    single segment that is a piece of a line.
    """
    scan_kernels = compiled.load("scan_kernels")

    fmt, target = format_of(x.dtype), format_of(out.dtype)
    fits = out.flags.c_contiguous and out.flags.aligned and out.dtype.isnative
    results = out if fits else np.empty(out.shape, target.dtype)
    nan = _line(np.array([target.nan_code], target.code_dtype), target)
    total = scan_kernels.scan_segments[group_of(fmt)](
        _line(x, fmt), fmt.name == "binary16", offsets, exclusive, reverse, carry, _rounding(target), nan,
        _line(results.reshape(-1), target),
    )  # fmt: skip
    if not fits:
        out[...] = results
    return float(total)


def scan_line(
    n: int,
    fmt: Format,
    read: Read,
    out: npt.NDArray[Any],
    exclusive: bool,
    reverse: bool,
    progress: Callable[[int], None] | None = None,
) -> None:
    """Put the running sums of one line of any length into ``out``, a line of n elements or where x itself lies."""
    scan_kernels = compiled.load("scan_kernels")

    length = piece_length(fmt)
    places = [(at, min(at + length, n)) for at in range(0, n, length)]
    if reverse:
        places = [(n - stop, n - start) for start, stop in places]

    def total_of(place: tuple[int, int]) -> float:
        x = _line(read(*place), fmt)
        return float(scan_kernels.total_of_piece(x, fmt.name == "binary16", group_of(fmt), reverse))

    def scan(work: tuple[tuple[int, int], float]) -> tuple[int, float]:
        (start, stop), carry = work
        edges = np.array([0, stop - start])
        total = scan_segments(read(start, stop), edges, out[start:stop], exclusive, reverse, carry)
        return stop - start, total

    def one_after_another() -> Iterator[int]:
        carries = Carries()
        for place in places:
            done, total = scan((place, carries.carry))
            carries.push(total)
            yield done

    def side_by_side() -> Iterator[int]:
        carries, known = Carries(), [0.0]
        for total in threads.in_order(total_of, places[:-1]):  # reads x a second time
            carries.push(total)
            known.append(carries.carry)
        for done, _ in threads.in_order(scan, zip(places, known, strict=True)):
            yield done

    alone = len(places) < 2 or threads.worker_count() == 1
    for done in one_after_another() if alone else side_by_side():
        if progress is not None:
            progress(done)


class Carries:
    """The levels above the pieces: totals of pieces come in, the carry of the next one is known."""

    def __init__(self) -> None:
        self.carry = 0.0
        self._levels: list[_Run] = []

    def push(self, total: float) -> None:
        for level in self._levels:
            full = level.push(total)
            if full is None:
                break
            total = full
        else:
            self._levels.append(_Run(_radix_above(len(self._levels))))
            self._levels[-1].push(total)
        self.carry = 0.0
        for level in reversed(self._levels):
            self.carry += level.exclusive()

    def state(self) -> list[list[Any]]:
        """What :meth:`restore` needs, as JSON: bits of numbers in hexadecimal."""
        return [[self.carry.hex()], *(level.state() for level in self._levels)]

    def restore(self, state: list[list[Any]]) -> None:
        (carry,), *levels = state
        self.carry = float.fromhex(carry)
        self._levels = [_Run(_radix_above(i)) for i in range(len(levels))]
        for level, saved in zip(self._levels, levels, strict=True):
            level.restore(saved)


def _radix_above(levels: int) -> int:
    """Of the level with that many between it and the pieces."""
    scan_kernels = compiled.load("scan_kernels")

    return radix(scan_kernels.LEVELS + levels + 1)


class _Run:
    """The totals of a run, as far as they have come; ``_blocks[p]``: D of the block that bit p of the position names."""

    def __init__(self, length: int) -> None:
        self._length = length
        self._position = 0
        self._blocks = [0.0] * length.bit_length()

    def state(self) -> list[Any]:
        return [self._position, *(block.hex() for block in self._blocks)]

    def restore(self, state: list[Any]) -> None:
        self._position, self._blocks = state[0], [float.fromhex(block) for block in state[1:]]

    def push(self, total: float) -> float | None:
        """Take the next total; that of the whole run, which then begins again, if this was its last."""
        p = 0
        while self._position >> p & 1:
            total = self._blocks[p] + total
            p += 1
        self._blocks[p] = total
        self._position = (self._position + 1) % self._length
        return None if self._position else total

    def exclusive(self) -> float:
        e = 0.0
        for p, block in enumerate(self._blocks):
            if self._position >> p & 1:
                e = block + e
        return e


def _line(array: npt.NDArray[Any], fmt: Format) -> npt.NDArray[Any]:
    """As the kernels take it: codes where Numba has no numbers of the format."""
    return array.view(fmt.code_dtype if fmt.bits == 16 else fmt.dtype)


def _rounding(target: Format) -> tuple[int, int, int, int, float]:
    """How binary64 becomes 16 bits, of which other formats take no notice.

    (bits to drop, difference of the exponents' biases in place, inf, the
    smallest normal number in binary64, a power of two whose last bit is the
    smallest subnormal)
    """
    fmt = target if target.bits == 16 else get_format("binary16")
    return (
        52 - fmt.fraction_bits,
        1023 - fmt.bias << fmt.fraction_bits,
        fmt.infinity_code,
        fmt.emin + 1023 << 52,
        2.0 ** (52 + fmt.quantum_exponent),
    )
