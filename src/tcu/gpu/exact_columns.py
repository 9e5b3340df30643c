"""The kernel of exact sums along an axis that is not the last, one for each column of an array."""

from __future__ import annotations

import math

from tcu.formats.format import Format
from tcu.gpu.columns import Columns
from tcu.gpu.configs import ExactColumnsConfig
from tcu.gpu.device import Gpu
from tcu.gpu.exact_rows import MOST_TERMS, WORDS
from tcu.gpu.launch import OUT, SPACE, Given, KernelChoice, Recipe, Space, X
from tcu.gpu.structs import struct
from tcu.gpu.sums import ELEMENTS, LOAD, TARGETS
from tcu.gpu.tuning import config

__all__ = ["exact_columns_recipe"]

_THREADS = 256
_LINE = 128
"""Bytes of a row that a block reads together, where there are as many: a line of memory."""
_MOST_SHARED = 1 << 16
"""Columns that several blocks may share: each has limbs in memory."""
_MOST_PARTS = (1 << 16) - 1
"""Of a grid in its second direction."""


ExactColumns = struct("ExactColumns", """
    const void* data;
    i64 outer_stride;  // in elements, as is `stride`
    i64 stride;        // from row to row
    i64 inner;
    i64 pieces;  // units of columns in a row of `inner` numbers
    i64 units;   // in all rows of all outer indices together
    i64 length;
    i64 part;    // rows of a block
    i64 log;     // the logarithm of a lane's numbers of a column, rounded up
    void* out;
    i64 target;
    i64 mean;      // whether the sums are divided by the length
    i64* limbs;    // with PARTS: WORDS for each column, all zero
    u32* arrived;  // with PARTS: one for each block across, all zero
""")  # fmt: skip


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
    tuned = config(ExactColumnsConfig, gpu.compute_capability, element.name)
    size = element.dtype.itemsize
    outer, inner, outer_stride, stride = columns
    # All loads of a lane begin at multiples of what it loads.
    unit = math.gcd(LOAD // size if aligned else 1, inner, stride, outer_stride if outer > 1 else 0)
    pieces = inner // unit
    units = outer * pieces
    loads = min(tuned.loads * (LOAD // (size * unit)), 2 * tuned.loads)
    wanted = gpu.multiprocessors * tuned.resident * tuned.full
    across = _THREADS
    least = max(1, min(_LINE // (size * unit), 1 << (units - 1).bit_length()))
    while across > least and (
        across >= 2 * units or (-(-units // across) < wanted and length >= 2 * loads * (_THREADS // across))
    ):
        across //= 2
    along, blocks = _THREADS // across, -(-units // across)
    parts = -(-length // (along * min(MOST_TERMS, (1 << 17) // along)))
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
        {"ELEMENT": ELEMENTS[element.name], "LAYOUT": "ALIGNED", "TERM": "VALUE", "THREADS": _THREADS, "COLUMNS": unit,
         "ACROSS": across, "ROWS": loads, "PARTS": int(parts > 1), "UNROLL": 1, "RESIDENT": tuned.resident},
        blocks, _THREADS,
        ExactColumns(0, outer_stride, stride, inner, pieces, units, length, part, (part // along - 1).bit_length(), 0,
                     TARGETS[target.name], mean, 0, 0),
        takes, more=parts,
    )  # fmt: skip
    return Recipe((every,), space=Space("exact columns", limbs + -(-blocks // 2)) if parts > 1 else None)
