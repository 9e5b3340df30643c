"""The kernels of sums in any order along an axis that is not the last, one for each column of an array; see exact_rows.py."""

from __future__ import annotations

import math
from collections.abc import Mapping

from tcu.formats.format import Format, get_format
from tcu.gpu.columns import Columns
from tcu.gpu.configs import ExactColumnsConfig
from tcu.gpu.device import Gpu
from tcu.gpu.exact_rows import MOST_TERMS, WORDS, Order, macros_of, order_of, turns_of
from tcu.gpu.launch import OUT, SPACE, Given, KernelChoice, Recipe, Space, X
from tcu.gpu.structs import struct
from tcu.gpu.sums import ELEMENTS, LINE, LOAD, TARGETS
from tcu.gpu.tuning import config
from tcu.plan import Plan

__all__ = ["exact_columns_recipe", "planned_columns_recipe"]

_THREADS = 256
_WARP = 32
_SHORT = 32
"""Rows of binary16 up to which a plan's order takes longer, however they lie."""
_BANKS, _BANK = 32, 4
"""Of shared memory, and the bytes of one."""
_LONG_ROW = 1024
"""Bytes of rows that begin anywhere from which on lanes load 16 bytes all the same."""
_MOST_SHARED = 1 << 16
"""Columns that several blocks may share: each has limbs in memory."""
_MOST_PARTS = (1 << 16) - 1
"""Of a grid in its second direction."""


ExactColumns = struct("ExactColumns", """
    const void* data;
    i64 outer_stride;  // in elements, as is `stride`
    i64 stride;        // from row to row
    i64 inner;
    i64 pieces;  // units of columns in a row of `inner` numbers; blocks across, if ANYWHERE
    i64 units;   // in all rows of all outer indices together
    i64 length;
    i64 part;    // rows of a block
    i64 log;     // the logarithm of a lane's numbers of a column, rounded up
    void* out;
    i64 target;
    i64 mean;      // whether the sums are divided by the length
    i64* limbs;    // with PARTS: WORDS for each column, all zero
    u32* arrived;  // with PARTS: one for each block across, all zero
    i64 turns, chunks;  // with PLANNED: turns of a chunk of the plan, and chunks of a column, up to WARP
""")  # fmt: skip


ExactTileColumns = struct("ExactTileColumns", """
    const void* data;
    i64 outer, length;
    i64 tile;    // outer indices of a block
    i64 place;   // bytes from one to the next in shared memory
    void* out;
    i64 target;
    i64 mean;    // whether the sums are divided by the length
    i64 log;     // the logarithm of the length, rounded up
""")  # fmt: skip


def _tiles(
    outer: int,
    inner: int,
    length: int,
    tuned: ExactColumnsConfig,
    element: Format,
    target: Format,
    mean: bool,
    planned: Mapping[str, object],
) -> Recipe | None:
    """Of cuda/kernels/exact_tile_columns.cu, if what a warp's lanes have is no more than a tile."""
    most, resident = tuned.tile
    size = element.dtype.itemsize
    banks = inner * size // _BANK  # of a row
    # The next outer index begins in the bank behind a row's last one.
    place = length * inner * size + (banks - length * banks) % _BANKS * _BANK
    lanes = banks if size <= _BANK else inner
    tile = _WARP // math.gcd(_WARP, lanes)
    if tile * place > most:
        return None
    tile *= max(most // 2 // (tile * place), 1)
    every = KernelChoice(
        "exact_tile_columns",
        {"ELEMENT": ELEMENTS[element.name], "LAYOUT": "ALIGNED", "TERM": "VALUE", "THREADS": _WARP, "UNROLL": 8,
         "INNER": inner, "RESIDENT": resident, **planned},
        -(-outer // tile), _WARP,
        ExactTileColumns(0, outer, length, tile, place, 0, TARGETS[target.name], mean, (length - 1).bit_length()),
        {"data": X, "out": OUT}, shared=tile * place,
    )  # fmt: skip
    return Recipe((every,))


def exact_columns_recipe(
    columns: Columns,
    length: int,
    aligned: bool,
    element: Format,
    target: Format,
    gpu: Gpu,
    *,
    mean: bool = False,
) -> Recipe:
    """The exact sum of each column, rounded once, or its mean; ``aligned``: the array begins at a multiple of 16 bytes."""
    return _recipe(columns, length, aligned, element, target, gpu, mean, None)


def planned_columns_recipe(
    plan: Plan, columns: Columns, aligned: bool, target: Format, gpu: Gpu, *, mean: bool = False
) -> Recipe | None:
    """The same with the bits of a plan of binary64 additions, of 16-bit numbers; None where the plan's order is as fast.

    As of rows (tcu/gpu/exact_rows.py).  64 rows of 16 numbers of bfloat16 side by side were read at 4.33 in place of 3.30
    TB/s, 1000 rows that begin anywhere at 4.18 in place of 3.40, and 16 rows of binary16 at 3.96 in place of 3.58 (H200).
    """
    order = order_of(plan)
    if order is None:
        return None
    recipe = _recipe(columns, plan.n, aligned, get_format(plan.input), target, gpu, mean, order)
    (every,) = recipe.kernels
    is_short = order.any_finite and plan.n <= _SHORT
    assert every.source != "exact_tile_columns" or turns_of(order) in (
        (1, 0),
        (1, 1),
    )  # as that kernel has it
    if recipe.space or not (every.source == "exact_tile_columns" or every.macros["ANYWHERE"] or is_short):
        return None
    return recipe


def _recipe(
    columns: Columns, length: int, aligned: bool, element: Format, target: Format, gpu: Gpu, mean: bool, order: Order | None
) -> Recipe:  # fmt: skip
    """``order``: of a plan; none for exact sums."""
    planned = macros_of(order)
    tuned = config(ExactColumnsConfig, gpu.compute_capability, element.name)
    size = element.dtype.itemsize
    outer, inner, outer_stride, stride = columns
    dense = stride == inner and outer_stride == length * inner
    if (
        gpu.compute_capability >= (9, 0) and aligned and dense and length and inner * size % LOAD == 0
        and inner * size < LINE and outer >= _WARP * gpu.multiprocessors
    ):  # fmt: skip
        tiles = _tiles(outer, inner, length, tuned, element, target, mean, planned)
        if tiles is not None:
            return tiles
    per_load = LOAD // size
    fold = per_load // inner if order is None and dense and aligned and inner else 0
    if fold > 1 and per_load % inner == length * inner % per_load == 0:
        stride, length = per_load, length // fold
        outer_stride = length * stride
    else:
        fold = 1
    # All loads of a lane begin at multiples of what it loads.
    unit = math.gcd(per_load if aligned else 1, inner * fold, stride, outer_stride if outer > 1 else 0)
    shifted = unit * size <= tuned.shifted and inner * size >= _LONG_ROW and length >= tuned.least
    if shifted:
        unit = per_load
    pieces = -(-inner * fold // unit)
    units = outer * pieces
    loads = min(tuned.loads * (LOAD // (size * unit)), 2 * tuned.loads)
    wanted = gpu.multiprocessors * tuned.resident * tuned.full

    def blocks_of(across: int) -> int:
        return outer * -(-inner // ((across - 1) * unit)) if shifted else -(-units // across)

    # Where shifted, rows as far apart as a thread's begin alike.
    across = min(_WARP, _THREADS * math.gcd(per_load, stride) // per_load) if shifted else _THREADS
    # A line of a row, where there is as much.
    least = 1 if fold > 1 else max(1, min(LINE // (size * unit), 1 << (units - 1).bit_length()))
    while across > least and (
        across >= 2 * units
        or ((fold > 1 or blocks_of(across) < wanted) and length >= 2 * loads * (_THREADS // across))
    ):
        across //= 2
    along, blocks = _THREADS // across, blocks_of(across)
    if shifted:
        pieces = blocks // outer
    parts = -(-length // (along * min(MOST_TERMS, (1 << 17) // (along * fold))))
    if outer * inner <= _MOST_SHARED and blocks < wanted // 2:
        parts = max(parts, min(-(-wanted // blocks), length // (4 * loads * along), _MOST_PARTS))
    step = along * loads
    part = -(-length // (max(parts, 1) * step)) * step
    parts = max(1, -(-length // max(part, 1)))
    assert part <= MOST_TERMS * along
    assert parts <= _MOST_PARTS
    takes: dict[str, Given] = {"data": X, "out": OUT}
    limbs = outer * inner * WORDS
    if parts > 1:
        takes |= {"limbs": SPACE, "arrived": (SPACE, 8 * limbs)}
    every = KernelChoice(
        "exact_columns",
        {"ELEMENT": ELEMENTS[element.name], "LAYOUT": "ALIGNED", "TERM": "VALUE", "THREADS": _THREADS, "COLUMNS": unit, "FOLD": fold,
         "ACROSS": across, "ROWS": loads, "PARTS": int(parts > 1), "ANYWHERE": int(shifted), "UNROLL": 1, "RESIDENT": tuned.resident,
         **planned},
        blocks, _THREADS,
        ExactColumns(0, outer_stride, stride, inner, pieces, units, length, part, (part // along - 1).bit_length(),
                     0, TARGETS[target.name], mean, 0, 0, *turns_of(order)),
        takes, more=parts,
    )  # fmt: skip
    return Recipe((every,), space=Space("exact columns", limbs + -(-blocks // 2)) if parts > 1 else None)
