"""How products of wgmma are cut into tiles: of speed alone, never of bits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from tcu.gpu.tensor_copy import LINE

__all__ = ["ALIGNED", "COLUMNS", "RESERVED", "SHARED", "Tiling", "any_major_tiling", "kept_tiling", "tiling"]

SWAPPED_ROWS = 128
"""Rows of a product up to which its columns take their place, 64 of them a block."""
COLUMNS = (8, 16, 32, 64, 128, 208, 256)
"""Of a tile: the n of wgmma."""
SHARED = 227 * 1024
"""Bytes that a block may have."""
ALIGNED = 1024
"""Bytes to which what the copy engine swizzles is aligned."""
RESERVED = ALIGNED + 1024
"""Bytes that the ring's alignment costs, and that the system takes of each block."""
_LINKED = {1: 2, 4: 8}
_LINKED_FEW = {1: 4, 4: 2}
"""By the stages of a chunk: chains that run into each other, of tiles of many rows and of few.

64 rows by 4096 (K = 4096) on an H200, over cuBLAS: float16 0.88 without, 0.97 by two and by four; e4m3 0.78 without, 0.91
by two, 0.93 by four.  1024 and 4096 rows by 4096, two warpgroups of 64 x 128: float16 0.90 and 0.92 without, 0.914 and 0.95
by two, 0.92 and 0.96 by four, 0.929 and 0.965 by eight; e4m3 0.857 and 0.856 without, 0.922 and 0.96 by two, 0.907 and 0.93
by four, 0.92 and 0.945 by eight.  Without an end, each chain begun when the one before has ended and before that one's sums
are added up, so that a loop can hold them: float16 0.003, e4m3 0.035 slower.
"""
_REGISTERS = {(1, 1): 232, (1, 2): 200, (2, 1): 232, (3, 1): 160, (2, 2): 112}
"""Of a thread that multiplies, by the warpgroups of a block and the blocks of a multiprocessor."""
_BESIDE_SUMS = 40
"""Of them, for everything but sums."""


class Tiling(NamedTuple):
    """How a product is cut: of speed alone, never of bits."""

    swapped: bool
    """Whether the columns of the product are rows of tiles: matmul_skinny.cu, else matmul.cu."""
    consumers: int
    """Warpgroups, each of 64 rows of a tile."""
    columns: int
    """Of a tile."""
    cluster: int
    """Blocks that share tiles of one operand."""
    resident: int
    """Blocks on a multiprocessor."""
    kept: bool = False
    """Whether B is one column of tiles and stays in shared memory."""
    in_a_row: int = 1
    """Tiles one after the other that a block takes at a time."""
    buffers: int = 1
    """In which each warp stages results."""

    @property
    def registers(self) -> int:
        """Of a thread that multiplies."""
        return _REGISTERS[self.consumers, self.resident]

    @property
    def staged(self) -> int:
        """Bytes of results on their way to memory."""
        return 64 * self.consumers * LINE * self.buffers

    def linked(self, chunk: int, halves: bool) -> int:
        """Chains of so many stages that run into each other; 0 if registers do not hold two of them beside the sums of all before.

        ``halves``: whether the unit adds up in binary16.
        """
        if self.swapped:
            return _LINKED_FEW.get(chunk, 0)
        sums, chain = self.columns // 2, self.columns // (4 if halves else 2)
        return _LINKED.get(chunk, 0) if sums + 2 * chain <= self.registers - _BESIDE_SUMS else 0


_CHAINED = ((2, 256, 1.0), (2, 208, 0.98), (2, 128, 0.9), (2, 64, 0.7))
_CHUNKED = ((2, 128, 1.0), (2, 208, 0.95), (2, 64, 0.7))
"""(warpgroups, columns of a tile, share of cuBLAS's speed while all multiprocessors have a tile), of one chain and of chunks.

H200, one chain of float16 and of e4m3, beside the fastest that cuBLASLt proposes: two warpgroups of 64 x 256 (pairs of
blocks share tiles of B) 1.00 and 0.98 at 4096 x 4096 x 4096, of 64 x 208 0.97 and 0.96; at 4096 x 11008 x 4096, where 208
columns come out evenly, 0.91 and 0.92, 0.97 and 0.93.
Chunks of 256 of float16, 4096 x 4096 x 4096: two warpgroups of 64 x 128, whose chains run into each other, 0.965;
of 64 x 208, where registers hold one chain at a time, 0.925; three of 64 x 128 0.81; two of 64 x 256, a quarter of whose
sums waited in shared memory, 0.84.  4096 x 11008 x 4096: 1.03, 0.97, 0.94, 0.85; 1024 x 4096 x 4096: 0.93, 0.62, 0.68,
0.865.  e4m3, chunks of 128: 0.96, 0.925, 0.86, 0.67; 1.04, 0.985, 0.97, 0.655; 0.92, 0.62, 0.705, 0.71.  What is left is how
evenly the tiles come out.  The GPU runs at its power limit: the same launch varies by 10 % with what ran before.
Blocks that share tiles of B: one chain of 256 columns 1.03 in place of 1.00, chunks 0.95 in place of 0.96.
Warpgroups that start the MMAs of a stage in turn, so that one adds up while the other multiplies: 64 x 208 0.94 in place
of 0.925 (float16), 0.91 in place of 0.925 (e4m3); chains that run into each other the same or less.
Results that the copy engine writes, in place of threads: chunks 0.01 to 0.02 faster, one chain 0 to 0.05.
"""


def tiling(rows: int, columns: int, chunked: bool, multiprocessors: int, segments: int = 0) -> Tiling:
    """For a product of that shape; ``segments``: of its rows, if each has a matrix of its own."""
    if segments:
        return _segment_tiling(rows, columns, chunked, multiprocessors, segments)
    if rows <= SWAPPED_ROWS:
        # 128 rows by 4096 (K = 4096): two blocks that share the weights 1.01 of cuBLAS's speed, blocks alone 0.65.
        # 64 rows: pairs 0.92 (float16, one chain) and 0.92 (e4m3), blocks alone 0.99 and 1.01 (H200).
        pair = rows > 64 and columns <= 64 * multiprocessors // 2
        return Tiling(True, 1, _width(-(-rows // 2) if pair else rows), 2 if pair else 1, 1)
    if columns <= 64:
        return Tiling(False, 2, _width(columns), 1, 2)
    consumers, across = _fastest(_CHUNKED if chunked else _CHAINED, rows, columns, multiprocessors)
    return Tiling(False, consumers, across, 2 if across == 256 and not chunked else 1, 1)


_KEPT = ((48, 3, 1, 1, 2), (64, 1, 2, 1, 4), (128, 2, 1, 2, 4), (256, 1, 1, 2, 2))
"""(columns up to which, warpgroups, blocks of a multiprocessor, tiles at a time, buffers of a warp) of a tall product whose B
stays in shared memory: the first that has room.

What such products take is decided by the order in which reads and writes come to memory.  H200, float16 to binary32, share
of the speed of the fastest that cuBLASLt proposes (PyTorch's choice has 0.93 to 0.98 of it), 1,048,576 x 32 (K = 64), x 64 x
64, x 128 x 128, x 256 x 256: these 1.00, 0.97, 1.00, 1.01.  Tiles of 128 rows whose threads write and whose B comes with each
tile, 64, 128 and 256 columns: 0.90, 0.95, 0.93, with any number of blocks, stages and hints to the second cache.  32 columns:
one warpgroup in each of two blocks 0.99; 64 columns: three warpgroups 0.96, two 0.96, four blocks 0.97, 3 to 12 stages in
place of as many as there is room for 0.96 to 0.97; 128 columns: three warpgroups 0.99, two blocks 0.995.  Without the marks
of device/load/tensor_copy.cuh, 256 columns 0.98, a tile at a time 0.96, three 0.96, two warpgroups 0.95; boxes of 64 rows,
for which a warpgroup meets, in place of a warp's 16: the same to 0.01 less.
"""
_LEAST_RING = 4
"""Stages of A that a block asks for ahead, beside a B that stays."""


def kept_tiling(rows: int, columns: int, stages_k: int, multiprocessors: int) -> Tiling | None:
    """For a product of one chain by a B of so many lines of k; None if B is too large, or the rows are few."""
    for widest, consumers, resident, in_a_row, buffers in _KEPT:
        cut = Tiling(False, consumers, _width(columns), 1, resident, True, in_a_row, buffers)
        # Fewer rows leave multiprocessors idle at the end.
        high = rows >= 2 * 64 * consumers * resident * in_a_row * multiprocessors
        of_b = stages_k * -(-cut.columns // 64) * 64 * LINE
        room = SHARED // resident - RESERVED - ALIGNED - cut.staged - of_b
        if columns <= widest and high and room >= _LEAST_RING * 64 * consumers * LINE:
            return cut
    return None


def _fastest(
    candidates: Sequence[tuple[int, int, float]],
    rows: int,
    columns: int,
    multiprocessors: int,
    segments: int = 1,
) -> tuple[int, int]:
    """Warpgroups and columns of the tiles by which so many rows in each segment take the least time."""

    def speed(candidate: tuple[int, int, float]) -> float:
        consumers, across, share = candidate
        height = 64 * consumers
        turns = -(-(segments * -(-rows // height) * -(-columns // across)) // multiprocessors)
        return share / (turns * height * across)

    consumers, across, _ = max(candidates, key=speed)
    return consumers, across


def _segment_tiling(rows: int, columns: int, chunked: bool, multiprocessors: int, segments: int) -> Tiling:
    """By the mean length of segments: the host does not know more of them.

    H200, bfloat16, us: 64 segments of 8 rows (N = 1408, K = 2048) tiles of 16 rows 90, of 128 128; 64 of 128 rows, tiles of
    128 x 128 114, weights as rows of tiles 129; 8 of 1024 rows (4096, 4096) two warpgroups 398, three 428.  torch's grouped
    product: 120, 123, 375.
    """
    mean = -(-rows // segments)
    if mean <= SWAPPED_ROWS // 2:
        across = _width(mean + 2 * math.isqrt(mean))  # of random lengths, most fit
        return Tiling(True, 1, across, 1, 2 if across <= 64 else 1)
    if columns <= 64:
        return Tiling(False, 2, _width(columns), 1, 2)
    # Beside the sums of chunks and of a chain in 208 columns there are no registers for the segments of a warp.
    candidates = [each for each in _CHUNKED if each[1] <= 128] if chunked else _CHAINED
    return Tiling(False, *_fastest(candidates, mean, columns, multiprocessors, segments), 1, 1)


def any_major_tiling(rows: int, columns: int, chunked: bool) -> Tiling:
    """Where k is not contiguous in an operand: the tiles whose bits were compared on an H200."""
    if rows <= SWAPPED_ROWS:
        across = _width(rows)
        return Tiling(True, 1, across, 1, 2 if across <= 64 else 1)
    return Tiling(False, 2, min(_width(columns), 128) if chunked else _width(columns), 1, 1)


def _width(columns: int) -> int:
    return next((n for n in COLUMNS if n >= columns), COLUMNS[-1])
