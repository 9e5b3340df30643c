"""Matrices as the copy engine of sm_90 reads them: boxes of a tensor map, and copies of what it does not take."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from tcu.formats.format import Format
from tcu.gpu.device import call
from tcu.gpu.imports import cuda_module
from tcu.gpu.launch import KernelChoice
from tcu.gpu.structs import struct

__all__ = ["LINE", "UNIT", "Lines", "PackedLines", "Room", "Side", "Tensor", "TensorMap", "map_at", "side_of"]

LINE = 128
"""Bytes of k in a stage of a kernel's ring: a line of shared memory that is swizzled."""
UNIT = 16
"""Bytes to which the copy engine aligns."""
_INPUTS = {1: "u8", 2: "u16", 4: "u32", 8: "u64"}

TensorMap = struct("TensorMap", """
    u64 words[16];
""", alignment=64)  # fmt: skip
"""CUtensorMap: what the copy engine knows of a tensor and of its boxes."""

PackedLines = struct("PackedLines", """
    const void* source;
    void* to;
    i64 line_stride, k_stride, batch_stride;  // elements
    i64 lines, k, pitch, batches;
    i64 tiles, tiles_k, tiles_lines;  // the last two of pack_matrix.cu alone
    i64 along_lines;  // whether neighbouring lines are neighbours in memory
""")  # fmt: skip


class Lines(NamedTuple):
    """Where the rows of A or the columns of B lie: strides in elements."""

    line: int
    k: int
    batch: int
    """0: the same matrix for the whole batch."""
    aligned: bool
    """Whether the first begins at a multiple of 16 bytes."""


@dataclass(frozen=True)
class Tensor:
    """Lines as the copy engine reads them."""

    kind: str
    size: int
    """Bytes of an element."""
    extents: tuple[int, int, int]
    """The contiguous one first."""
    pitches: tuple[int, int]
    """Bytes."""
    box: tuple[int, int]
    swizzled: bool = True

    def at(self, address: int) -> Any:
        """The tensor map of what lies there."""
        driver = cuda_module("cuda.bindings.driver")
        wide, narrow = driver.cuuint64_t, driver.cuuint32_t
        kinds, swizzles = driver.CUtensorMapDataType, driver.CUtensorMapSwizzle
        return call(
            "cuTensorMapEncodeTiled",
            getattr(kinds, f"CU_TENSOR_MAP_DATA_TYPE_{self.kind}"),
            3,
            address,
            [wide(x) for x in self.extents],
            [wide(x) for x in self.pitches],
            [narrow(x) for x in (*self.box, 1)],
            [narrow(1)] * 3,
            driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            swizzles.CU_TENSOR_MAP_SWIZZLE_128B if self.swizzled else swizzles.CU_TENSOR_MAP_SWIZZLE_NONE,
            driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
            driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )


@lru_cache(4096)
def map_at(tensor: Tensor, address: int) -> Any:
    """Kept: an allocator gives the same addresses again and again, and the driver is called with lists of its numbers."""
    return tensor.at(address)


@dataclass(frozen=True)
class Side:
    """An operand on its way to the copy engine."""

    tensor: Tensor
    k_major: bool
    pack: KernelChoice | None
    """Copies it first."""
    offset: int
    """Where the copy lies in the room, in bytes."""


class Room:
    def __init__(self) -> None:
        self.size = 0

    def take(self, size: int) -> int:
        first = self.size
        self.size += -(-size // 128) * 128
        return first


def side_of(
    x: Lines,
    lines: int,
    k: int,
    batch: int,
    element: Format,
    kind: str,
    box_lines: int,
    room: Room,
    parts: int = 1,
) -> Side:
    """``parts``: of a tile, of which each block of a cluster asks for one."""
    size = element.dtype.itemsize
    steps = (x.batch * size,) if batch > 1 and x.batch else ()

    def fits(along: int, across: int, extent: int) -> bool:
        pitches = (*((across * size,) if extent > 1 else ()), *steps)
        return x.aligned and along == 1 and all(0 < each < 1 << 40 and each % UNIT == 0 for each in pitches)

    batches = batch if x.batch else 1
    per_line = LINE // size // (4 if size == 8 else 1)  # of binary64, four boxes of four

    def pitch_of(step: int, extent: int) -> int:
        return step * size if extent > 1 else UNIT

    if k and fits(x.k, x.line, lines):
        pitches = pitch_of(x.line, lines), pitch_of(x.batch, batches)
        return Side(
            Tensor(kind, size, (k, lines, batches), pitches, (per_line, box_lines // parts), size < 8),
            True,
            None,
            0,
        )
    if k and size == 2 and fits(x.line, x.k, k):
        pitches = pitch_of(x.k, k), pitch_of(x.batch, batches)
        return Side(Tensor(kind, size, (lines, k, batches), pitches, (64, per_line // parts)), False, None, 0)
    pitch = max(-(-k * size // UNIT) * UNIT, UNIT) // size
    offset = room.take(batches * lines * pitch * size)
    pack = _pack(x, lines, k, pitch, batches, size)
    pitches = pitch * size, lines * pitch * size
    return Side(
        Tensor(kind, size, (pitch, lines, batches), pitches, (per_line, box_lines // parts), size < 8),
        True,
        pack,
        offset,
    )


_THREADS, _TURNS = 256, 4
"""Of a block, and units of 16 bytes that a thread of pack_lines.cu copies in each tile."""


def _pack(x: Lines, lines: int, k: int, pitch: int, batches: int, size: int) -> KernelChoice:
    """Copies lines, each to a multiple of ``pitch`` elements.

    Where k is contiguous, 16 bytes at a time: number by number, 1,048,576 lines of 200 bytes and their product by 48 columns
    took 479 us (H200), cuBLAS 187.
    """
    tiles_k, tiles_lines = -(-pitch // 64), -(-lines // 64)
    source, tiles = "pack_matrix", tiles_k * tiles_lines * batches
    macros: dict[str, object] = {"INPUT": _INPUTS[size]}
    if x.k == 1:
        source, tiles = "pack_lines", -(-lines * batches * (pitch * size // UNIT) // (_THREADS * _TURNS))
        macros["TURNS"] = _TURNS
    problem = PackedLines(
        0, 0, x.line, x.k, x.batch, lines, k, pitch, batches, tiles, tiles_k, tiles_lines,
        int(abs(x.line) < abs(x.k)),
    )  # fmt: skip
    return KernelChoice(source, macros, min(tiles, 1 << 20), _THREADS, problem)
