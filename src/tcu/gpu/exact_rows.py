"""The kernels of exact sums of the rows of an array."""

from __future__ import annotations

import math
from typing import NamedTuple

from tcu.formats.format import Format
from tcu.gpu.configs import ExactRowsConfig
from tcu.gpu.device import Gpu
from tcu.gpu.launch import OUT, SPACE, Given, KernelChoice, Recipe, Space, X
from tcu.gpu.structs import struct
from tcu.gpu.sums import ELEMENTS, LOAD, TARGETS, WORDS_OF
from tcu.gpu.tuning import config

__all__ = ["MOST_PART", "MOST_TERMS", "WORDS", "exact_rows_recipe"]

WORDS = WORDS_OF[False]
MOST_TERMS = 1 << 13
"""Numbers that a lane adds up: of more of binary16, sums in binary64 could be rounded."""
_THREADS = 256
_LANES = 32
_UNROLLED = 32
"""Numbers of a row up to which a kernel is compiled for its length."""
_SHORT, _SHORT_LENGTH = 24, 8
"""Bytes of a row, and its numbers, up to which a lane has whole rows."""
_EVEN = 0.9
"""The least share of the multiprocessors' time that rows may fill, a warp each; below it, rows have parts.  Parts meet in
memory: 4129 rows of 65,000 numbers of binary16 were read at 4.1 TB/s whole, and at 3.4 in three parts each (H200)."""
MOST_PART = 1 << 17
"""Elements of a warp's part of a row: 32 lanes' MOST_TERMS, with room for what they share unevenly."""


ExactRows = struct("ExactRows", """
    const void* data;
    i64 rows, length;
    i64 stride;  // from row to row, in elements
    void* out;
    i64 target;
    i64 mean;    // whether the sums are divided by the length
    i64 log;     // the logarithm of a lane's numbers, rounded up
    i64 groups;  // of rows of a warp, one after another
    i64 parts;   // of a row, each a warp's
    i64 part;    // elements of one
    i64* limbs;    // with PARTS: WORDS for each row, all zero
    u32* arrived;  // with PARTS: one for each row, all zero
""")  # fmt: skip


ExactShortRows = struct("ExactShortRows", """
    const void* data;
    i64 rows;
    i64 stride;  // from row to row, in elements
    void* out;
    i64 target;
    i64 mean;    // whether the sums are divided by the length
""")  # fmt: skip


ExactTileRows = struct("ExactTileRows", """
    const void* data;
    i64 rows, length;
    i64 tile;    // rows of a block
    void* out;
    i64 target;
    i64 mean;    // whether the sums are divided by the length
    i64 log;     // the logarithm of the length, rounded up
""")  # fmt: skip


class _Shape(NamedTuple):
    """How lanes share a row."""

    lanes: int
    tiles: int
    loops: bool


def _shape(granules: int, most: int) -> _Shape:
    """The least work for a row: idle loads cost as much as others, and so do sums over lanes."""
    if granules > 32 * most:
        tiles = min(
            range(most, most // 2, -1), key=lambda tiles: -(-granules // (32 * tiles)) * (tiles + 0.5)
        )
        return _Shape(32, tiles, True)

    def work(lanes: int) -> float:
        return lanes * (-(-granules // lanes) + 0.5 * math.log2(lanes) + 1)

    lanes = min((lanes for lanes in (2, 4, 8, 16, 32) if lanes * most >= granules), key=work)
    return _Shape(lanes, -(-granules // lanes), False)


def _is_even(rows: int, resident: int, gpu: Gpu) -> bool:
    """Whether warps that have a row each keep memory busy, and all multiprocessors have as many."""
    turns = rows / (gpu.multiprocessors * (_THREADS // 32))
    return 2 * rows >= resident and turns >= _EVEN * math.ceil(turns)


def _tiles(
    rows: int, length: int, unit: int, tile: int, resident: int, element: Format, number: int, mean: bool
) -> Recipe:  # fmt: skip
    """Of cuda/kernels/exact_tile_rows.cu: a lane of a warp has as many rows of a tile as the others."""
    size = element.dtype.itemsize
    count = max(tile // (_LANES * length * size), 1) * _LANES
    every = KernelChoice(
        "exact_tile_rows",
        {"ELEMENT": ELEMENTS[element.name], "LAYOUT": "ALIGNED", "TERM": "VALUE", "THREADS": _LANES, "UNROLL": 1,
         "LENGTH": length if length <= _UNROLLED else 0, "UNIT": unit, "RESIDENT": resident},
        -(-rows // count), _LANES, ExactTileRows(0, rows, length, count, 0, number, mean, (length - 1).bit_length()),
        {"data": X, "out": OUT}, shared=(count * length * size + 2 * LOAD - 1) // LOAD * LOAD,
    )  # fmt: skip
    return Recipe((every,))


def exact_rows_recipe(
    rows: int, length: int, stride: int, aligned: bool, element: Format, target: Format, gpu: Gpu,
    *, mean: bool = False,
) -> Recipe:  # fmt: skip
    """The exact sum of each row, rounded once, or its mean.

    Rows of ``length`` elements lie ``stride`` elements apart; ``aligned``: the first begins at a multiple of 16 bytes.
    """
    tuned = config(ExactRowsConfig, gpu.compute_capability, element.name)
    size, number = element.dtype.itemsize, TARGETS[target.name]
    tile, tiles_resident, least, *most = tuned.tile
    in_tiles = stride == length and least <= length <= most[length * size % LOAD != 0]
    if gpu.compute_capability >= (9, 0) and in_tiles and rows >= _LANES * gpu.multiprocessors:
        unit = math.gcd(LOAD, length * size) if aligned else size
        return _tiles(rows, length, unit, tile, tiles_resident, element, number, mean)
    aligned = aligned and stride * size % LOAD == 0
    macros = {"ELEMENT": ELEMENTS[element.name], "LAYOUT": "ALIGNED", "TERM": "VALUE", "THREADS": _THREADS}
    takes: dict[str, Given] = {"data": X, "out": OUT}
    per_load = LOAD // size
    blocks = [3 - i for i, most in enumerate(tuned.dense_up_to) if tuned.dense <= length <= most]
    dense = stride == length and bool(blocks)
    if dense or (0 < length * size <= _SHORT and length <= _SHORT_LENGTH):
        unroll = per_load if dense else max(1, min(8, tuned.short_loads // length))
        short = KernelChoice(
            "exact_short_rows",
            {**macros, "LENGTH": length, "UNROLL": unroll, "DENSE": int(dense),
             "RESIDENT": blocks[0] if dense else tuned.short_resident},
            -(-rows // (_THREADS * unroll)), _THREADS, ExactShortRows(0, rows, stride, 0, number, mean), takes,
        )  # fmt: skip
        return Recipe((short,))
    granules = -(-(length * size if aligned else (length - 1) * size + LOAD) // LOAD)
    lanes, tiles, loops = _shape(max(granules, 1), tuned.tiles)
    resident = gpu.multiprocessors * tuned.resident * (_THREADS // 32)
    parts = 1
    if loops:
        parts = -(-length // MOST_PART)
        if not _is_even(rows, resident, gpu):
            parts = max(parts, min(-(-2 * resident // rows), length * size // tuned.least_part))
        parts = max(parts, 1)
    step = 32 * per_load * tiles
    part = length if parts == 1 else -(-length // (parts * step)) * step
    parts = max(1, -(-length // max(part, 1)))
    at_once, groups = 32 // lanes, 1
    while parts == 1 and 2 * groups <= lanes and rows >= 2 * groups * at_once * resident * tuned.full:
        groups *= 2
    turns = -(-(part // per_load + 2) // (lanes * tiles))
    terms = turns * tiles * per_load
    assert terms <= MOST_TERMS
    if parts > 1:  # which needs some registers more
        takes |= {"limbs": SPACE, "arrived": (SPACE, 8 * rows * WORDS)}
    warps = rows * parts if parts > 1 else -(-rows // (groups * at_once))
    every = KernelChoice(
        "exact_rows",
        {**macros, "LANES": lanes, "TILES": tiles, "LOOPS": int(loops), "PARTS": int(parts > 1), "AHEAD": tuned.ahead,
         "UNROLL": 1, "RESIDENT": max(1, tuned.resident - (parts > 1))},
        -(-warps // (_THREADS // 32)), _THREADS,
        ExactRows(0, rows, length, stride, 0, number, mean, (terms - 1).bit_length(), groups, parts, part, 0, 0), takes,
    )  # fmt: skip
    return Recipe((every,), space=Space("exact rows", rows * WORDS + -(-rows // 2)) if parts > 1 else None)
