"""The kernels of losses of rows with a class each, and of their gradients."""

from __future__ import annotations

from tcu.formats.format import Format, get_format
from tcu.gpu.device import Gpu
from tcu.gpu.exponentials import tuned_of
from tcu.gpu.launch import OTHER, ROOM, Recipe
from tcu.gpu.rows_in_registers import Rows, is_wide, kernel_of_rows
from tcu.gpu.structs import struct
from tcu.plan.losses import Weights

__all__ = ["cross_entropy_recipe", "gradient_recipe"]


CrossEntropy = struct("CrossEntropy", """
    const void* data;
    const void* targets;
    void* out;
    void* parts;        // of each row: the largest number, 1 / S, the logarithm of the sum
    i64 rows, length;
    i64 stride;         // from row to row, in elements
    i64 ignored;
    double kept, smoothing, z_loss;
""")  # fmt: skip
CrossEntropyGradient = struct("CrossEntropyGradient", """
    const void* data;
    const void* targets;
    void* out;
    const void* parts;  // as above, and the gradient of the loss
    i64 rows, length;
    i64 stride;
    i64 ignored;
    double kept, share, twice_z_loss;
""")  # fmt: skip
_TAKES = {"targets": OTHER, "parts": ROOM}
_THREADS, _OF_A_BLOCK = 1280, 1 << 15
"""Of a multiprocessor, for numbers of binary32, and up to which length: with registers for as many threads as logarithms of sums have,
of rows of 1000 46 words went to memory."""


def cross_entropy_recipe(rows: Rows, element: Format, weights: Weights, gpu: Gpu) -> Recipe:
    """Losses, and what gradients are made of, in binary32, or in binary64 where numbers are."""
    target = get_format("binary64" if element.bits == 64 else "binary32")
    smoothing = weights.label_smoothing
    numbers = [float(target.dtype.type(each)) for each in (1 - smoothing, smoothing, weights.z_loss)]
    problem = CrossEntropy(0, 0, 0, 0, rows.count, rows.length, rows.stride, weights.ignore_index, *numbers)
    tuned = tuned_of("log", element)._replace(straight="never")  # a row that does not count is not read
    if element.bits == 32 and rows.length <= _OF_A_BLOCK:
        tuned = tuned._replace(threads=_THREADS)
    kernel = kernel_of_rows(
        "cross_entropy", rows, element, target, problem, gpu.most_of_cluster, takes=_TAKES, tuned=tuned,
        SMOOTH=int(bool(smoothing)),
    )  # fmt: skip
    return Recipe((kernel,))


def gradient_recipe(rows: Rows, element: Format, weights: Weights) -> Recipe:
    """Of the numbers' format, row after row."""
    kind = get_format("binary64" if is_wide(element, element) else "binary32").dtype.type
    share = weights.label_smoothing / max(rows.length, 1)
    numbers = [float(kind(each)) for each in (1 - weights.label_smoothing, share, 2 * weights.z_loss)]
    problem = CrossEntropyGradient(
        0, 0, 0, 0, rows.count, rows.length, rows.stride, weights.ignore_index, *numbers
    )
    kernel = kernel_of_rows(
        "cross_entropy_gradient", rows, element, element, problem, 1, takes=_TAKES, apart=True
    )
    return Recipe((kernel,))
