"""The kernels of long integers in limbs: products by the schoolbook, and by number-theoretic transforms."""

from __future__ import annotations

from tcu.gpu.launch import OTHER, OUT, Given, KernelChoice, Recipe, X
from tcu.gpu.structs import struct

__all__ = ["MOST_LIMBS", "product_recipe"]

MOST_LIMBS = 4096
"""Of 32 bits, of a product by the schoolbook: what a block's shared memory holds, and its sums."""
_WARP, _ROW_WORDS, _TILE_ROWS = 32, 8, 16
_WARPS_OF_A_BLOCK = 4
"""Where a number has fewer, a block has several numbers."""


LimbProducts = struct("LimbProducts", """
    const u32* a;
    const u32* b;
    u32* out;
    i64 a_stride, b_stride;  // from number to number, in words
    i64 count;
    int a_limbs, b_limbs;    // b's are the fewer, or as many
    int rows;                // of 32 bytes of a
    int last;                // rows of 32 bytes of b
    int copy;                // words of each copy of b
    int room;                // words of shared memory of a number
""")  # fmt: skip


def product_recipe(count: int, a_limbs: int, b_limbs: int, a_stride: int, b_stride: int) -> Recipe:
    """Products of ``count`` pairs of numbers of so many words of 32 bits, b's the fewer or as many."""
    assert 0 < b_limbs <= a_limbs
    assert a_limbs + b_limbs <= MOST_LIMBS
    rows, last = -(-a_limbs // _ROW_WORDS), -(-b_limbs // _ROW_WORDS)
    tiles = -(-(a_limbs + b_limbs) // (_ROW_WORDS * _TILE_ROWS))
    own = 4 if tiles > 2 else tiles
    warps = -(-tiles // own)
    numbers = max(1, _WARPS_OF_A_BLOCK // warps)
    copy = _ROW_WORDS * last + 2 * _ROW_WORDS
    copy += (
        _ROW_WORDS - copy
    ) % _WARP  # lanes of one column's copies read other banks than those of the next
    sums = 2 * warps * own * _TILE_ROWS * _ROW_WORDS
    room = max(_ROW_WORDS * rows + 4 * copy, sums)
    room += -room % 4
    problem = LimbProducts(0, 0, 0, a_stride, b_stride, count, a_limbs, b_limbs, rows, last, copy, room)
    takes: dict[str, Given] = {"a": X, "b": OTHER, "out": OUT}
    macros = {"TILES": own, "WARPS": warps, "NUMBERS": numbers}
    return Recipe((
        KernelChoice(
            "limb_products", macros, -(-count // numbers), numbers * warps * _WARP, problem, takes, shared=4 * numbers * room
        ),
    ))  # fmt: skip
