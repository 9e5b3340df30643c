"""The fast model of narrow aligned sums: sixteen columns at a time, in 32-bit words.

:func:`tcu.model.narrow.is_narrow` says which sums are narrow, and why nothing
is lost here.  A tile of the result decodes what it reads of A and B once:
values, or significands, in binary32, and exponents in 16 bits.  A block of the
sum is then three loops over rows of the tile, each lane one output: the common
exponents, the products cut to whole units of them, the rounding.  In one loop a
product would wait for its row's common exponent: measured, 10% slower.
"""
# Compiled by Numba, which types it.
# mypy: ignore-errors

from __future__ import annotations

import threading

import numpy as np

from tcu.model import narrow_steps, vector_expressions, vectors
from tcu.model.jit import fingerprint, jit
from tcu.model.narrow_steps import (
    BIASES,
    PER_WORD,
    TOGETHER,
    add_late,
    align,
    copy,
    decode_column,
    decode_row,
    end_chain,
    has_finite,
    has_numbers,
    mark,
    multiply,
    plain_from,
    round_sums,
    round_words,
)  # fmt: skip
from tcu.model.vector_expressions import LANES

__all__ = ["BIASES", "BLOCKS", "COLUMNS", "DEPTH", "LANES", "narrow_mma", "plain_from", "scratch"]

ROWS, COLUMNS, DEPTH = 64, 128, 64
"""Of the result, and the piece of K whose operands are decoded at once: what L1 holds of 16 columns, L2 of all.

A bit of a word of 64 says of each number of such a piece whether it is inf or NaN.
"""
BLOCKS = (4, 8, 16, 32)
_PART = 16
"""Products that are added up in 32 bits."""
_FINGERPRINT = fingerprint(vectors, vector_expressions, narrow_steps)
"""See :mod:`tcu.model.jit`."""


_kept = threading.local()


def scratch(depth, height, chunks):
    """What narrow_mma works in, every array from the start of a line of the cache on.

    height: of tiles, a multiple of ROWS.  chunks: K is cut into some.

    Made here: that a kernel makes its own took a sixth of the time to compile it.  A thread keeps its last, as fresh
    memory costs 0.1 ms: the kernel relies on nothing in it.
    """
    wanted = depth, height, chunks
    if getattr(_kept, "wanted", None) != wanted:
        _kept.wanted, _kept.scratch = wanted, _scratch(*wanted)
    return _kept.scratch


def _scratch(depth, height, chunks):
    def line(size, dtype=np.int32):
        memory = np.zeros(size + 16, np.int32)
        skip = (-memory.ctypes.data % 64) // 4
        return memory[skip : skip + size].view(dtype)

    tile = height * COLUMNS
    floats = (height * DEPTH, DEPTH * COLUMNS, tile, ROWS * LANES, tile if chunks else 0)
    parts = -(-depth // _PART)
    return (
        *(line(size, np.float32) for size in floats),
        line(height * DEPTH // 2), line(DEPTH * COLUMNS // 2),
        line(ROWS * LANES), line(parts * ROWS * LANES),
        np.zeros(height // TOGETHER, np.int64), np.zeros(COLUMNS // LANES, np.int64),
        line(ROWS // TOGETHER + 1), line(ROWS // TOGETHER + 1),
    )  # fmt: skip


def _build(depth, apart, to_nearest, plain, fingerprint):
    part, parts = min(depth, _PART), -(-depth // _PART)
    per, block = PER_WORD[apart], (1 << depth) - 1

    @jit
    def narrow_mma(
        a, b, d, shape, ia, ib, start, stop, in_a, in_b, row, late, late_c, k_step, used, chunk, scratch
    ):
        """D = A·B + D, by narrow aligned sums, in the tiles from ``start`` to ``stop``, COLUMNS wide and as high as scratch is.

        a: codes of (batches of A, M, K), flat; b: (.., K, N); d: (batch, M, N) binary32; shape: (M, K, N);
        ia, ib: which of them batch member t takes.  N and K are multiples of 16, of K a multiple of k_step is used.
        in_a, in_b: see _decoded; row: see round_sums; late: see add_late, where c is added last.
        K is cut into chunks, of a multiple of DEPTH each; D is the C of the first one's chain, the others begin from
        zero, and what they give is added up in order.
        """
        fingerprint  # noqa: B018
        M, K, N = shape
        (
            xs,
            ys,
            state,
            early,
            total,
            xp,
            yp,
            powers,
            words,
            of_rows,
            of_columns,
            with_numbers,
            with_finite,
        ) = scratch
        height = state.size // COLUMNS
        down, across = (M + height - 1) // height, (N + COLUMNS - 1) // COLUMNS
        for tile in range(start, stop):
            t = tile // (down * across)
            i0, j0 = tile // across % down * height, tile % across * COLUMNS
            rows, panels = min(height, M - i0), min(COLUMNS, N - j0) // LANES
            for i in range(rows):
                for j in range(panels):
                    copy(d, (t * M + i0 + i) * N + j0 + j * LANES, state, (j * height + i) * LANES)
            total[:] = np.float32(0)
            for k0 in range(0, used, DEPTH):
                if k0 and k0 % chunk == 0:
                    for j in range(panels):
                        for i in range(rows):
                            end_chain(total, state, (j * height + i) * LANES)
                count = min(DEPTH, used - k0)
                of_rows[:] = 0
                for i in range(rows):
                    for k in range(0, count, LANES):
                        at = i * DEPTH + k
                        special = decode_row(
                            a, (ia[t] * M + i0 + i) * K + k0 + k, in_a, apart, xs, at, xp, at // per
                        )
                        of_rows[i // TOGETHER] |= special << k
                of_columns[:] = 0
                for k in range(count):
                    for j in range(panels):
                        at = j * DEPTH + k
                        special = decode_column(
                            b, (ib[t] * K + k0 + k) * N + j0 + j * LANES, in_b, apart,
                            ys, at * LANES, yp, at // per * LANES, k % per,
                        )  # fmt: skip
                        of_columns[j] |= np.int64(special) << k
                for j in range(panels):
                    for i1 in range(0, rows, ROWS):
                        first = (j * height + i1) * LANES
                        sums = state[first : first + ROWS * LANES]
                        special = of_columns[j]
                        for r in range(i1 // TOGETHER, (i1 + ROWS) // TOGETHER):
                            special |= of_rows[r]
                        marked = finite = 0
                        for i in range(0, min(ROWS, rows - i1), TOGETHER):
                            with_numbers[marked] = i
                            marked += has_numbers(sums, i * LANES)
                            with_finite[finite] = i
                            # A c that is added last is added to any sum.
                            finite += has_numbers(sums, i * LANES) if late_c else has_finite(sums, i * LANES)
                        live = with_finite[:finite]
                        for s0 in range(0, count, k_step):
                            if late_c:
                                for i in range(ROWS):
                                    copy(sums, i * LANES, early, i * LANES)
                                sums[:] = np.float32(0)
                            for p0 in range(s0, s0 + k_step, depth):
                                left, right = i1 * DEPTH + p0, j * DEPTH * LANES + p0 * LANES
                                if special >> p0 & block:
                                    for i in with_numbers[:marked]:
                                        bits = (of_columns[j] | of_rows[(i1 + i) // TOGETHER]) >> p0 & block
                                        for n in range(depth):
                                            if bits >> n & 1:
                                                mark(
                                                    xs, left + i * DEPTH + n, DEPTH, ys, right + n * LANES,
                                                    sums, i * LANES,
                                                )  # fmt: skip
                                for i in live:
                                    align(
                                        depth, apart, plain, xp, (left + i * DEPTH) // per, DEPTH // per, yp, right // per,
                                        sums, i * LANES, row, powers,
                                    )  # fmt: skip
                                for p in range(parts):
                                    for i in live:
                                        x, y = left + i * DEPTH + p * part, right + p * part * LANES
                                        multiply(
                                            part, apart, plain, xs, xp, x, x // 2, DEPTH, ys, yp, y, y // 2,
                                            powers, i * LANES, words, (p * ROWS + i) * LANES,
                                        )  # fmt: skip
                                for i in live:
                                    if to_nearest or not round_words(
                                        parts, plain, sums, i * LANES, powers, words, ROWS * LANES, row
                                    ):
                                        for r in range(i, i + TOGETHER):
                                            round_sums(
                                                parts, to_nearest, plain,
                                                sums, r * LANES, powers, words, ROWS * LANES, row,
                                            )  # fmt: skip
                            if late_c:
                                for i in range(ROWS):
                                    add_late(sums, i * LANES, late, early, i * LANES)
            sums = total if used > chunk else state
            for i in range(rows):
                for j in range(panels):
                    if used > chunk:
                        end_chain(total, state, (j * height + i) * LANES)
                    copy(sums, (j * height + i) * LANES, d, (t * M + i0 + i) * N + j0 + j * LANES)

    return narrow_mma


narrow_mma = {
    (depth, *way): _build(depth, *way, _FINGERPRINT)
    for depth in BLOCKS
    for way in ((0, 0, 1), (0, 0, 0), (0, 1, 0), (1, 0, 0), (1, 1, 0))
}
"""By the products of a block, whether significands and exponents are apart, the rounding, and what is plain."""
