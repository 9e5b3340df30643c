"""The kernel of softmax, its logarithm, and the logarithm of a sum of exponentials, of rows."""

from __future__ import annotations

from dataclasses import dataclass

from tcu.formats.format import Format
from tcu.gpu.launch import OUT, KernelChoice, Recipe, X
from tcu.gpu.structs import struct
from tcu.gpu.sums import ELEMENTS, LOAD
from tcu.ops.operation import Operation

__all__ = ["Rows", "exponentials_recipe"]

_WARP, _WARPS_ALONE, _MOST_WARPS = 32, 4, 32
_MOST_NUMBERS = {False: 32, True: 16}
"""That a thread keeps in registers, in binary32 and in binary64 (True)."""
_THREADS = {False: 1024, True: 512}
"""Of a multiprocessor at least, which the registers must allow."""
_FINISHES = {"share": "SHARE", "log_share": "LOG_SHARE", "log": "LOG"}


@dataclass(frozen=True)
class Rows:
    """How rows lie, in elements."""

    count: int
    length: int
    stride: int
    aligned: bool
    """Whether every row begins at a multiple of 16 bytes."""


Exponentials = struct("Exponentials", """
    const void* data;
    void* out;
    i64 rows, length;
    i64 stride, out_stride;  // from row to row, in elements
""")  # fmt: skip


def exponentials_recipe(
    operation: Operation, rows: Rows, out_stride: int, element: Format, target: Format
) -> Recipe:
    """What serves an operation on one row or several.

    A row is kept in the registers of as few lanes as that takes, or of a block; a longer one is read three times.
    """
    wide = "binary64" in (element.name, target.name)
    per_load = LOAD // element.dtype.itemsize
    partial = not rows.aligned or rows.length % per_load != 0
    vectors = max(1, -(-rows.length // per_load) + (not rows.aligned))
    most = max(_MOST_NUMBERS[wide] // per_load, 1)
    passes = vectors > most * _WARP * _MOST_WARPS
    lanes = min(_WARP, 1 << max(vectors - 1, 0).bit_length())
    warps = _MOST_WARPS if passes else -(-vectors // (most * _WARP))
    warps = 1 << (warps - 1).bit_length()
    own = most if passes else -(-vectors // (lanes if warps == 1 else warps * _WARP))
    threads = (_WARPS_ALONE if warps == 1 else warps) * _WARP
    together = threads // lanes if warps == 1 else 1
    macros = {
        "ELEMENT": ELEMENTS[element.name], "LAYOUT": "ALIGNED", "RESULT": ELEMENTS[target.name],
        "FINISH": _FINISHES[operation.finish], "WIDE": int(wide), "LANES": lanes, "WARPS": warps, "LOADS": own,
        "PARTIAL": int(partial), "PASSES": int(passes), "RESIDENT": max(1, _THREADS[wide] // threads),
    }  # fmt: skip
    problem = Exponentials(0, 0, rows.count, rows.length, rows.stride, out_stride)
    return Recipe((
        KernelChoice(
            "exponentials", macros, -(-rows.count // together), threads, problem, {"data": X, "out": OUT},
        ),
    ))  # fmt: skip
