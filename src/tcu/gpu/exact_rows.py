"""The kernels of sums of the rows of an array in any order: exact ones, and plans' where additions are exact."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from tcu.formats.format import Format, get_format
from tcu.gpu.configs import ExactRowsConfig
from tcu.gpu.device import Gpu
from tcu.gpu.launch import OUT, SPACE, Given, KernelChoice, Recipe, Space, X
from tcu.gpu.structs import struct
from tcu.gpu.sums import ELEMENTS, LINE, LOAD, TARGETS, WORDS_OF, has_mmas, loop_of
from tcu.gpu.tuning import config
from tcu.plan import Plan

__all__ = [
    "MOST_PART",
    "MOST_TERMS",
    "WORDS",
    "Order",
    "exact_rows_recipe",
    "macros_of",
    "order_of",
    "planned_rows_recipe",
    "turns_of",
]

WORDS = WORDS_OF[False]
MOST_TERMS = 1 << 13
"""Numbers that a lane adds up: of more of binary16, sums in binary64 could be rounded."""
_THREADS = 256
_LANES = 32
_UNROLLED = 32
"""Numbers of a row up to which a kernel is compiled for its length."""
_SHORT, _SHORT_LENGTH = 24, 8
"""Bytes of a row, and its numbers, up to which a lane has whole rows."""
_LEAST_PLANNED = 4
"""Numbers of a row of a plan: those of 3 of bfloat16 were read at 2.8 TB/s here, and at 3.5 in the plan's order (H200)."""
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
    i64 turns, chunks;  // with PLANNED: turns of a chunk of the plan, and chunks of a row, up to WARP
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
    rows: int, length: int, unit: int, tile: int, resident: int, element: Format, number: int, mean: bool,
    planned: Mapping[str, object],
) -> Recipe:  # fmt: skip
    """Of cuda/kernels/exact_tile_rows.cu: a lane of a warp has as many rows of a tile as the others."""
    size = element.dtype.itemsize
    count = max(tile // (_LANES * length * size), 1) * _LANES
    every = KernelChoice(
        "exact_tile_rows",
        {"ELEMENT": ELEMENTS[element.name], "LAYOUT": "ALIGNED", "TERM": "VALUE", "THREADS": _LANES, "UNROLL": 1,
         "LENGTH": length if length <= _UNROLLED else 0, "UNIT": unit, "RESIDENT": resident, **planned},
        -(-rows // count), _LANES, ExactTileRows(0, rows, length, count, 0, number, mean, (length - 1).bit_length()),
        {"data": X, "out": OUT}, shared=(count * length * size + LINE + LOAD - 1) // LOAD * LOAD,
    )  # fmt: skip
    return Recipe((every,))


def exact_rows_recipe(
    rows: int, length: int, stride: int, aligned: bool, element: Format, target: Format, gpu: Gpu,
    *, mean: bool = False,
) -> Recipe:  # fmt: skip
    """The exact sum of each row, rounded once, or its mean.

    Rows of ``length`` elements lie ``stride`` elements apart; ``aligned``: the first begins at a multiple of 16 bytes.
    """
    return _recipe(rows, length, stride, aligned, element, target, gpu, mean, None)


class Order(NamedTuple):
    """In which a plan of binary64 additions takes numbers, and whether sums of all finite ones are exact."""

    turns: int
    """Of a chunk."""
    chunks: int
    any_finite: bool


def order_of(plan: Plan) -> Order | None:
    """None: not of 16-bit numbers, not of the usual block, by MMAs, or of more chunks than a warp has lanes."""
    size, (loads, chain) = get_format(plan.input).dtype.itemsize, loop_of(plan)
    if size != 2 or has_mmas(plan) or (chain, plan.block) != (1, _THREADS):
        return None
    turn = _THREADS * LOAD // size
    turns = max(1, min(loads, -(-plan.n // turn)))
    order = Order(turns, -(-plan.n // (turns * turn)), plan.input == "binary16" and plan.n <= MOST_TERMS)
    return order if order.chunks <= _LANES else None


def macros_of(order: Order | None) -> dict[str, object]:
    """What kernels of sums in any order are compiled with for a plan."""
    return {} if order is None else {"MMAS": 0, "PLANNED": 1, "ANY_FINITE": int(order.any_finite)}


def turns_of(order: Order | None) -> tuple[int, int]:
    """Turns of a chunk, and chunks, of a plan."""
    return (0, 0) if order is None else order[:2]


def planned_rows_recipe(
    plan: Plan, rows: int, stride: int, aligned: bool, target: Format, gpu: Gpu, *, mean: bool = False
) -> Recipe | None:  # fmt: skip
    """The same with the bits of a plan of binary64 additions, of 16-bit numbers; None where the plan's order is as fast.

    Additions of numbers that are not too far apart are exact, and then any order has the plan's bits.  That is faster
    where the plan's loads begin anywhere, or some are empty: rows of 257 numbers of bfloat16 were read at 4.40 in place of
    2.68 TB/s, of 17 at 4.46 in place of 3.25, of 3000 at 4.43 in place of 3.72 (H200).
    """
    element, length = get_format(plan.input), plan.n
    size, order = element.dtype.itemsize, order_of(plan)
    if order is None:
        return None
    turn = _THREADS * LOAD // size
    # Aligned rows of 64 of binary16 were read at 4.39 in place of 4.08 TB/s, of bfloat16 at 4.39 and 4.41.
    is_odd = not aligned or stride * size % LOAD != 0 or (order.any_finite and length >= _LANES)
    tuned = config(ExactRowsConfig, gpu.compute_capability, element.name)
    if length > turn:
        if length % turn == 0:
            return None
    elif not (is_odd and length >= _LEAST_PLANNED and _has_tiles(rows, length, stride, size, gpu, tuned)):
        return None
    recipe = _recipe(rows, length, stride, aligned, element, target, gpu, mean, order)
    return None if recipe.space else recipe


def _has_tiles(rows: int, length: int, stride: int, size: int, gpu: Gpu, tuned: ExactRowsConfig) -> bool:
    """Whether there are enough rows without gaps, neither too short nor too long, for lanes that have whole rows of a tile."""
    _, _, least, *most = tuned.tile
    in_tiles = stride == length and least <= length <= most[length * size % LOAD != 0]
    return gpu.compute_capability >= (9, 0) and in_tiles and rows >= _LANES * gpu.multiprocessors


def _recipe(
    rows: int, length: int, stride: int, aligned: bool, element: Format, target: Format, gpu: Gpu, mean: bool,
    order: Order | None,
) -> Recipe:  # fmt: skip
    """``order``: of a plan; none for exact sums."""
    tuned = config(ExactRowsConfig, gpu.compute_capability, element.name)
    size, number = element.dtype.itemsize, TARGETS[target.name]
    planned = macros_of(order)
    if _has_tiles(rows, length, stride, size, gpu, tuned):
        tile, tiles_resident, *_ = tuned.tile
        unit = math.gcd(LOAD, length * size) if aligned else size
        return _tiles(rows, length, unit, tile, tiles_resident, element, number, mean, planned)
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
         "UNROLL": 1, "RESIDENT": max(1, tuned.resident - (parts > 1)), **planned},
        -(-warps // (_THREADS // 32)), _THREADS,
        ExactRows(0, rows, length, stride, 0, number, mean, (terms - 1).bit_length(), groups, parts, part, 0, 0, *turns_of(order)), takes,
    )  # fmt: skip
    return Recipe((every,), space=Space("exact rows", rows * WORDS + -(-rows // 2)) if parts > 1 else None)
