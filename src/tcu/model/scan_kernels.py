"""The kernels of the scans' model: whatever lies in one piece of memory, on one core, compiled by Numba.

The numbers go through a buffer of binary64 that stays in the first cache:
decoded, scanned in place, rounded on the way out.
"""
# Compiled by Numba, which types them; the intrinsics take one argument less than Python sees.
# mypy: ignore-errors

from __future__ import annotations

import numpy as np
from numba import njit, types
from numba.extending import overload

from tcu.model import lanes, vectors
from tcu.model.jit import fingerprint, jit
from tcu.plan import scan as plan

__all__ = ["LEVELS", "scan_segments", "total_of_piece"]

LEVELS = 3
"""Networks inside a kernel: a longer segment is cut in pieces of as many groups as these take."""
_FIRST, _SECOND, _THIRD = (plan.radix(level) for level in range(1, LEVELS + 1))
_SECOND_BLOCKS, _THIRD_BLOCKS = _SECOND.bit_length(), _THIRD.bit_length()
_LANES = vectors.LANES
_BATCH = 2048
"""Numbers in the buffer: 16 KiB; several runs of the widest group."""

# As in tcu.model.kernels: the disk cache must see that another file has changed.
_FINGERPRINT = fingerprint(vectors, lanes, plan)


@njit(nogil=True)
def _load(x, half, start, size, values, last):
    """values[:size] = x[start : start + size] in binary64; ``last``: room for eight elements of x."""
    register = lanes.f64_register()
    whole = size // _LANES * _LANES
    for i in range(0, whole, _LANES):
        lanes.load_wide(register, x, start + i, half)
        lanes.store(register, values, i)
    if whole < size:
        for i in range(whole, size):
            last[i - whole] = x[start + i]
        lanes.load_wide(register, last, 0, half)
        lanes.store(register, values, whole)


def _store(values, small, size, rounding, nan, out, start):
    """out[start : start + size] = values, each rounded once to nearest; every NaN becomes ``nan[0]``."""
    raise NotImplementedError  # Numba takes one of those below


@overload(_store)
def _store_of(values, small, size, rounding, nan, out, start):
    if isinstance(out.dtype, types.Float):

        def store_floats(values, small, size, rounding, nan, out, start):
            for i in range(size):
                value = values[i]
                out[start + i] = value if value == value else nan[0]

        return store_floats

    def store_codes(values, small, size, rounding, nan, out, start):
        # In binary64's own bits; a subnormal is rounded by the addition that leaves its code in the low bits.
        shift, rebias, infinity, smallest, magic = rounding
        half = (np.int64(1) << (shift - 1)) - 1
        for i in range(size):
            small[i] = abs(values[i]) + magic
        codes, small_codes = values.view(np.int64), small.view(np.int64)
        base = np.int64(np.array([magic]).view(np.int64)[0])
        largest = np.int64(0x7FF) << 52
        for i in range(size):
            magnitude = codes[i] & np.int64(0x7FFFFFFFFFFFFFFF)
            rounded = ((magnitude + half + ((magnitude >> shift) & 1)) >> shift) - rebias
            code = min(rounded, infinity)
            code = small_codes[i] - base if magnitude < smallest else code
            code |= (codes[i] >> 63) & np.int64(0x8000)
            code = np.int64(nan[0]) if magnitude > largest else code
            out[start + i] = np.uint16(code)

    return store_codes


@njit(nogil=True, inline="always")
def _flip(values, size):
    for i in range(size // 2):
        values[i], values[size - 1 - i] = values[size - 1 - i], values[i]


@njit(nogil=True, inline="always")
def _network(totals, count):
    """Sklansky's network on one run: the inclusive prefixes, of which e_j is the one at j - 1."""
    half = 1
    while half < count:
        for start in range(half, count, 2 * half):
            left = totals[start - 1]
            for i in range(start, min(start + half, count)):
                totals[i] = left + totals[i]
        half *= 2


@njit(nogil=True, inline="always")
def _push(blocks, position, total):
    """Totals that come one after another: ``blocks[p]`` is D of the aligned block that bit p of a position names."""
    p = 0
    while position >> p & 1:
        total = blocks[p] + total
        p += 1
    blocks[p] = total


@njit(nogil=True, inline="always")
def _exclusive(blocks, position):
    """e at a position, from the blocks before it."""
    e, p = 0.0, 0
    while position >> p:
        if position >> p & 1:
            e = blocks[p] + e
        p += 1
    return e


@njit(nogil=True, inline="always")
def _scan_last_run(numbers, group, exclusive, totals, above):
    """The numbers of a run that may not be full, after ``above``, in place."""
    count = 0
    for g in range(0, numbers.size, group):
        for k in range(g + 1, min(g + group, numbers.size)):
            numbers[k] += numbers[k - 1]
        totals[count] = numbers[min(g + group, numbers.size) - 1]
        count += 1
    _network(totals, count)
    for j in range(count):
        c = above + (totals[j - 1] if j > 0 else 0.0)
        g, end = j * group, min(j * group + group, numbers.size)
        if exclusive:
            for k in range(end - 1, g, -1):
                numbers[k] = c + numbers[k - 1]
            numbers[g] = c
        else:
            for k in range(g, end):
                numbers[k] = c + numbers[k]


@njit(nogil=True)
def _scan_batch(group_of, values, offsets, backwards, exclusive, carry, place, second, third, totals):
    """Scan numbers in place, and return how many: all but an incomplete run of a segment that goes on.

    What remains from batch to batch: place, of four (segment, elements of
    it that are done, runs within a run of runs, such runs); second, third:
    the blocks of these two levels, see _push, the last ones those of full
    runs; carry[0]: of the first segment.  ``backwards``: the last segment comes first.
    ``group_of``: a tuple of as many as a group has, so that its loops are of known lengths.
    """
    group = len(group_of)
    run = _FIRST * group
    segment, inside, j2, j3 = place[0], place[1], place[2], place[3]
    before, last, size, done = carry[0], offsets.size - 2, values.size, 0
    while done < size:
        i = last - segment if backwards else segment
        left = offsets[i + 1] - offsets[i] - inside
        if left == 0:
            segment, inside, j2, j3, before = segment + 1, 0, 0, 0, 0.0
            continue
        take = min(left, size - done)
        if take < left:
            take -= take % run
            if take == 0:
                break  # the next batch starts with it
        inside += take
        while take >= run:  # loops of known lengths: 630 instead of 320 million float32 a second
            numbers = values[done : done + run]
            for j in range(_FIRST):
                for k in range(1, group):
                    numbers[j * group + k] += numbers[j * group + k - 1]
                totals[j] = numbers[j * group + group - 1]
            _network(totals, _FIRST)
            c = above = (before + _exclusive(third, j3)) + _exclusive(second, j2)
            for j in range(_FIRST):
                if j > 0:
                    c = above + totals[j - 1]
                if exclusive:
                    for k in range(group - 1, 0, -1):
                        numbers[j * group + k] = c + numbers[j * group + k - 1]
                    numbers[j * group] = c
                else:
                    for k in range(group):
                        numbers[j * group + k] = c + numbers[j * group + k]
            _push(second, j2, totals[_FIRST - 1])
            j2 += 1
            if j2 == _SECOND:
                _push(third, j3, second[-1])
                j2 = 0
                j3 += 1
            done += run
            take -= run
        if take > 0:
            above = (before + _exclusive(third, j3)) + _exclusive(second, j2)
            _scan_last_run(values[done : done + take], group, exclusive, totals, above)
            done += take
    place[0], place[1], place[2], place[3], carry[0] = segment, inside, j2, j3, before
    return done


def _build_scan_segments(group, fingerprint):
    """The kernel for inputs whose groups have that many numbers.

    It closes over numbers alone: the disk cache takes a function that it closes over for another in every process.
    """
    group_of = (0,) * group

    @jit
    def scan_segments(x, half, offsets, exclusive, reverse, carry, rounding, nan, out):
        """Scan every segment of x into out, and return the total of the last if that is a full piece.

        x: a line of float32, float64 or 16-bit codes (``half``: binary16);
        offsets: segments + 1 of them from 0 to x.size, no segment longer than
        a piece; carry: what comes before the first segment that is
        scanned; rounding, nan: of the target, see _store; out: a line of
        float32, float64 or uint16, which may be x.
        """
        fingerprint  # noqa: B018
        n = x.size
        values, small, last = np.empty(_BATCH), np.empty(_BATCH), np.zeros(_LANES, x.dtype)
        totals, second, third = np.empty(_FIRST), np.zeros(_SECOND_BLOCKS), np.zeros(_THIRD_BLOCKS)
        before, place = np.full(1, carry), np.zeros(4, np.int64)
        at = 0
        while at < n:
            size = min(_BATCH, n - at)
            _load(x, half, n - at - size if reverse else at, size, values, last)
            if reverse:
                _flip(values, size)
            done = _scan_batch(
                group_of, values[:size], offsets, reverse, exclusive, before, place, second, third, totals
            )
            if reverse:
                _flip(values, done)
            _store(values, small, done, rounding, nan, out, n - at - done if reverse else at)
            at += done
        return third[-1]

    return scan_segments


scan_segments = {group: _build_scan_segments(group, _FINGERPRINT) for group in (4, 8, 16)}


def _build_total_of_piece(fingerprint):
    @jit
    def total_of_piece(x, half, group, reverse):
        """The total that scan_segments returns for a full piece, without the prefixes."""
        fingerprint  # noqa: B018
        n = x.size
        values, last = np.empty(_BATCH), np.zeros(_LANES, x.dtype)
        totals = np.empty(n // group)
        for at in range(0, n, _BATCH):
            size = min(_BATCH, n - at)
            _load(x, half, n - at - size if reverse else at, size, values, last)
            if reverse:
                _flip(values, size)
            for g in range(0, size, group):
                local = values[g]
                for k in range(g + 1, g + group):
                    local += values[k]
                totals[(at + g) // group] = local
        count = totals.size
        while count > 1:
            count //= 2
            for i in range(count):
                totals[i] = totals[2 * i] + totals[2 * i + 1]
        return totals[0]

    return total_of_piece


total_of_piece = _build_total_of_piece(_FINGERPRINT)
