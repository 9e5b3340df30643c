"""How products of wgmma are cut into tiles: of speed alone, never of bits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from tcu.gpu.tensor_copy import LINE

__all__ = [
    "ALIGNED",
    "COLUMNS",
    "Tiling",
    "any_major_tiling",
    "kept_tiling",
    "room_of_block",
    "rows_together",
    "tiling",
]

SWAPPED_ROWS = 128
"""Rows of a product up to which its columns take their place, 64 of them a block."""
COLUMNS = (8, 16, 32, 64, 128, 208, 256)
"""Of a tile: the n of wgmma."""
_SHARED, _OF_SYSTEM = 228 * 1024, 1024
"""Bytes of shared memory of a multiprocessor, and of them those that the system takes of each block (CUDA C++ Programming Guide)."""
ALIGNED = 1024
"""Bytes to which what the copy engine swizzles is aligned."""
_LINKED = {1: 16, 4: 8}
_LINKED_FEW = {1: 4, 4: 2}
"""By the stages of a chunk: chains that run into each other, of tiles of many rows and of few.

64 rows by 4096 (K = 4096) on an H200, over cuBLAS: float16 0.88 without, 0.97 by two and by four; e4m3 0.78 without, 0.91
by two, 0.93 by four.  1024 and 4096 rows by 4096, two warpgroups of 64 x 128: float16 0.90 and 0.92 without, 0.914 and 0.95
by two, 0.92 and 0.96 by four, 0.929 and 0.965 by eight, the same by sixteen; e4m3 0.857 and 0.856 without.
e4m3 with two buffers of results, 1024 and 4096 rows by 4096, 4096 rows by 11,008: 0.945, 0.927, 0.931 by two, 0.92, 0.92, 0.91
by four, 0.93, 0.934, 0.942 by eight, 0.93, 0.94, 0.95 by sixteen.
A loop of chains, each begun before the sums of the last one are added up: float16 0.003, e4m3 0.035 slower.
"""
_REGISTERS = {(1, 1): 232, (1, 2): 200, (1, 4): 96, (2, 1): 232, (3, 1): 160, (2, 2): 112}
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
    whole_rows: bool = False
    """Whether the copy engine writes 16 rows of C as one piece of memory; else 128 bytes of each row at a time."""

    @property
    def registers(self) -> int:
        """Of a thread that multiplies."""
        return _REGISTERS[self.consumers, self.resident]

    def staged(self, size: int) -> int:
        """Bytes of results on their way to memory, of so many each."""
        return 64 * self.consumers * self.buffers * (self.columns * size if self.whole_rows else LINE)

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
Results that the copy engine writes, in place of threads: chunks 0.01 to 0.02 faster, one chain 0 to 0.05; two buffers of a
warp in place of one, as long as they cost no stage of the ring: 0 to 0.01 more.
"""


def room_of_block(resident: int) -> int:
    """Bytes of shared memory behind the first multiple of ALIGNED."""
    return _SHARED // resident - _OF_SYSTEM - ALIGNED


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


_GROUP = 16
_GROUPS = (8, 32)
_GROUP_BYTES = 1 << 24
"""Rows of tiles that are finished together: of one chain, of chunks at least and at most, and what of A such rows take then.

Over cuBLASLt's best on an H200, chunks, 8, 16 and 32 rows of 128: e4m3 4096 x 4096 x 4096 0.933, 0.925, 0.941, 4096 x 11008 x
4096 0.90, 0.92, 0.93, 8192 x 8192 x 8192 0.979, 0.976, 0.967; bfloat16 0.943, 0.962, 0.942, 0.953, 0.955, 0.929, 0.981, 0.976,
0.967.  One chain 0.99 to 1.01 with each.
"""


def rows_together(height: int, bytes_of_k: int, chunked: bool) -> int:
    """How many rows of tiles of that height are finished together: a power of two."""
    if not chunked:
        return _GROUP
    least, most = _GROUPS
    together = _GROUP_BYTES // (height * bytes_of_k)
    return min(max(1 << (max(together, 1).bit_length() - 1), least), most)


class _Kept(NamedTuple):
    """A way to cut a tall product whose B stays in shared memory."""

    widest: int
    """Columns up to which."""
    whole_rows: bool
    consumers: int
    resident: int
    in_a_row: int
    buffers: int
    least_ring: int
    """Stages of A that a block asks for ahead."""


_KEPT = (
    _Kept(48, False, 3, 1, 1, 2, 4),
    _Kept(64, True, 1, 4, 1, 1, 3),
    _Kept(64, True, 3, 1, 2, 1, 4),
    _Kept(64, False, 1, 2, 1, 4, 4),
    _Kept(128, True, 3, 1, 1, 1, 4),
    _Kept(128, True, 2, 1, 2, 1, 4),
    _Kept(128, False, 2, 1, 2, 4, 4),
    _Kept(208, True, 1, 2, 1, 1, 4),
    _Kept(256, True, 2, 1, 1, 1, 3),
    _Kept(256, False, 1, 1, 2, 2, 4),
)
"""The first that has room is taken.

What such products take is decided by the order in which reads and writes come to memory.  A kernel that multiplies nothing,
reads 64 rows of 64 numbers of binary16 at a time and writes 64 of binary32 each, both by the copy engine, takes 102 us for
1,048,576 of them where it writes whole rows, 105 to 110 where it writes a line of 128 bytes of each, and 3 to 4 more without the
marks of device/load/tensor_copy.cuh; 80 rows at a time 101, 128 and more 103 (H200).

Share of the speed of the fastest that cuBLASLt proposes (PyTorch's choice has 0.93 to 0.98 of it), whole rows and lines of them,
float16 to binary32, 1,048,576 x 64 (K = 64): 1.011, 0.97; x 64 (128): 1.010, 0.97; x 128 (64): 1.037, 0.986; x 128 (128): 1.037,
1.019; x 200 (64): 1.038, 1.005; x 256 (64): 1.005, 0.988; x 256 (256), where there is no room for rows: 1.007; x 32 (64): 0.98,
1.00; x 33 (64): 2.8 in place of 2.0, where threads wrote.  64 columns, K = 64: two warpgroups in each of two blocks 1.003,
three in one 1.00, 64 rows written at once the same to 0.005.
Tiles of 128 rows whose threads write and whose B comes with each tile, 64, 128 and 256 columns: 0.90, 0.95, 0.93.
"""


def kept_tiling(
    rows: int, columns: int, stages_k: int, multiprocessors: int, size: int, *, gapless: bool, boxes: bool
) -> Tiling | None:
    """For a product of one chain by a B of so many lines of k; None if B is too large, or the rows are few.

    ``size``: bytes of a result; ``gapless``: whether C has no gaps; ``boxes``: whether the copy engine can write parts of rows.
    """
    by_engine = [way for way in _KEPT if (gapless if way.whole_rows else boxes)]
    by_threads = [way for way in _KEPT if not way.whole_rows]
    for way in by_engine + by_threads:
        if columns > way.widest:
            continue
        cut = Tiling(
            False, way.consumers, _width(columns), 1, way.resident, True, way.in_a_row, way.buffers, way.whole_rows
        )  # fmt: skip
        # Fewer rows leave multiprocessors idle at the end.
        high = rows >= 2 * 64 * cut.consumers * cut.resident * cut.in_a_row * multiprocessors
        of_b = stages_k * -(-cut.columns // 64) * 64 * LINE
        room = room_of_block(cut.resident) - ALIGNED - cut.staged(size) - of_b
        if high and room >= way.least_ring * 64 * cut.consumers * LINE:
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
