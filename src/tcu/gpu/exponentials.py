"""The kernel of softmax, its logarithm, and the logarithm of a sum of exponentials, of rows."""

from __future__ import annotations

from tcu.formats.format import Format
from tcu.gpu.device import Gpu
from tcu.gpu.launch import Recipe
from tcu.gpu.rows_in_registers import Rows, kernel_of_rows
from tcu.gpu.structs import struct

__all__ = ["exponentials_recipe"]

_FINISHES = {"share": "SHARE", "log_share": "LOG_SHARE", "log": "LOG"}


Exponentials = struct("Exponentials", """
    const void* data;
    void* out;
    i64 rows, length;
    i64 stride, out_stride;  // from row to row, in elements
""")  # fmt: skip


def exponentials_recipe(
    finish: str, rows: Rows, out_stride: int, element: Format, target: Format, gpu: Gpu
) -> Recipe:
    """What serves one row or several; ``finish`` is that of the operation."""
    problem = Exponentials(0, 0, rows.count, rows.length, rows.stride, out_stride)
    return Recipe(
        (kernel_of_rows("exponentials", rows, element, target, problem, gpu, FINISH=_FINISHES[finish]),)
    )
