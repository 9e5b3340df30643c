"""The kernel of softmax, its logarithm, and the logarithm of a sum of exponentials, of rows, and of gradients of the logarithms."""

from __future__ import annotations

from tcu.formats.format import Format
from tcu.gpu.device import Gpu
from tcu.gpu.launch import OTHER, ROOM, Recipe
from tcu.gpu.rows_in_registers import Rows, Straight, Tuned, gradients_macros, kernel_of_rows
from tcu.gpu.structs import struct

__all__ = ["exponentials_recipe", "log_gradients_recipe", "tuned_of"]

_FINISHES = {"share": "SHARE", "log_share": "LOG_SHARE", "log": "LOG"}
_GRADIENTS = {"log_share": "OF_LOG_SHARE", "log": "OF_LOG"}
_TUNED = {
    "share": Tuned(threads=1280, most_kept=128), "log_share": Tuned(),
    "log": Tuned(threads=1536, threads_of_codes=1280, most_kept=15, lanes=8),
}  # fmt: skip
"""Of rows of 256 to 262,144 numbers of bfloat16 (H200); for gradients what is made of the numbers is kept as long as there is room."""
_STRAIGHT: dict[tuple[str, int], Straight] = {
    ("share", 16): "in one block", ("log_share", 16): "where what is made of numbers is kept",
    ("log_share", 32): "where rows begin anywhere", ("log", 16): "where what is made of numbers is kept", ("log", 32): "always",
}  # fmt: skip
"""By the bits of a number, too."""


Exponentials = struct("Exponentials", """
    const void* data;
    void* out;
    i64 rows, length;
    i64 stride, out_stride;  // from row to row, in elements
    const void* factors;     // a number for each row
    const void* given;       // gradients
    i64 given_stride;
""")  # fmt: skip


def exponentials_recipe(
    finish: str, rows: Rows, out_stride: int, element: Format, target: Format, gpu: Gpu
) -> Recipe:
    """What serves one row or several; ``finish`` is that of the operation."""
    problem = Exponentials(0, 0, rows.count, rows.length, rows.stride, out_stride, 0, 0, 0)
    kernel = kernel_of_rows(
        "exponentials", rows, element, target, problem, gpu.most_of_cluster, tuned=tuned_of(finish, element), **gradients_macros(None),
        FINISH=_FINISHES[finish],
    )  # fmt: skip
    return Recipe((kernel,))


def log_gradients_recipe(
    finish: str, rows: Rows, element: Format, target: Format, gpu: Gpu, given: tuple[Rows, Format] | None
) -> Recipe:
    """The gradients of logarithms of shares, or of their sums, row after row, in binary32 before they are rounded.

    A call gives a number of binary32 for each row as its room.  ``given``: gradients, of binary32 or ``element``, a call's
    other array; None of sums.
    """
    stride = given[0].stride if given else 0
    problem = Exponentials(0, 0, rows.count, rows.length, rows.stride, rows.length, 0, 0, stride)
    takes = {"factors": ROOM} | ({"given": OTHER} if given else {})
    kernel = kernel_of_rows(
        "exponentials", rows, element, target, problem, gpu.most_of_cluster, takes,
        tuned=Tuned(most_kept=128, converted=element.bits == 16, straight=_STRAIGHT.get(("share", element.bits), "never")),
        **gradients_macros(given), FINISH=_GRADIENTS[finish],
    )  # fmt: skip
    return Recipe((kernel,))


def tuned_of(finish: str, element: Format) -> Tuned:
    """Conversions are faster where memory is not the limit: of 16 bits, and where one number comes of a row."""
    straight = _STRAIGHT.get((finish, element.bits), "never")
    return _TUNED[finish]._replace(converted=finish == "log" or element.bits == 16, straight=straight)
