"""Aligned sums that fit 32-bit words: which these are, and the call of their kernel."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.formats.format import Format, get_format
from tcu.model import compiled, threads
from tcu.model.batches import flatten, up
from tcu.units.arithmetic import AlignedSum
from tcu.units.instruction import Instruction

__all__ = ["is_narrow", "kept_and_floor", "multiply_narrow"]

_LOOK = 32
"""Rows and columns from which on the exponents of operands are looked at: it takes as long as a few products each."""
_NO_FLOOR = -600
"""Below every exponent that a product of two inputs can have."""
_HEIGHTS = (64, 128, 256)
"""Of tiles: the operands of their columns are decoded once for all rows, which took a tenth of the time for 64."""
_GRAIN = 1 << 21
"""Multiplications below which a second thread does not pay: they take 0.2 ms, another piece of work 0.03, a thread to wake 0.05."""


@cache
def is_narrow(instruction: Instruction) -> bool:
    """Whether a block's sum fits the words of :mod:`tcu.model.narrow_kernels`, which then computes it with equal bits.

    - A product of two significands has at most 22 bits, so binary32 holds it, whatever power of two scales it.
    - Scaled to units of 2^(e - F) it is below 2^(F + 2), and F is at most 25: its conversion to int32 cuts it
      toward zero, as the rule says, and 16 of them are at most 16 · (2^27 - 1) < 2^31.
    - Two such sums and c, below 2^(F + 1), add up exactly in binary64.
    - c and every result have at most 24 bits: binary32 holds them between blocks, those of binary16, too.

    The kernel has the roundings of the catalogue, and no code for what no row of it does.
    """
    row = instruction.arithmetic
    if not isinstance(row, AlignedSum) or instruction.scale is not None:
        return False
    kernels = compiled.load("narrow_kernels")
    return (
        row.fraction_bits <= 25
        and row.block in kernels.BLOCKS
        and instruction.k % row.block == 0
        and kernels.DEPTH % instruction.k == 0
        and row.rounding == ("RZ" if instruction.output == "binary32" else "RNE")
        and replace(
            row,
            block=1,
            fraction_bits=1,
            exponent_floor=None,
            output_fraction_bits=None,
            order=None,
            late_c=False,
        )
        == AlignedSum(1, 1, row.rounding)
    )


def _has_values(fmt: Format) -> bool:
    """Whether products of two such numbers lie within 2^-64 and 2^64, so that binary32 holds them as values."""
    return 2 * (fmt.emax + 1) <= 64 and 2 * (fmt.emin - fmt.fraction_bits) >= -64


def _largest_exponents(
    x: npt.NDArray[Any], y: npt.NDArray[Any], formats: tuple[Format, Format]
) -> tuple[int, int] | None:
    """Bounds of the exponents of x and of y where the same holds of the products of these numbers.

    None also where it is not worth looking, for inf and NaN, and for subnormal numbers, whose exponents are not their fields'.
    """
    if all(_has_values(fmt) for fmt in formats):
        return formats[0].emax, formats[1].emax
    if min(x.shape[-2], y.shape[-1]) < _LOOK:
        return None
    least, most = [], []
    for numbers, fmt in zip((x, y), formats, strict=True):
        twice, shift = numbers.view(fmt.code_dtype) << 1, 1 + fmt.storage_shift + fmt.fraction_bits
        # One less, zeros are the largest of all.
        lowest, highest = (int((twice - 1).min()) + 1) >> shift, int(twice.max())
        if not lowest:
            return None
        least.append(lowest - fmt.bias if highest else 0)
        most.append((highest >> shift) - fmt.bias if highest else 0)
    return (most[0], most[1]) if sum(least) >= -64 and sum(most) <= 62 else None


def _offsets(largest: tuple[int, int] | None, biases: tuple[int, int]) -> tuple[int, int]:
    """What biases exponents of A and of B, see narrow_steps.PER_WORD.

    Those of values have a byte: at most 127 is left to A's, and to B's, as the largest add up to at most 62; the least add up
    to at least -64, so A's is at least 1, and B's.
    """
    of_a = biases[1] // 2 if largest is None else 127 - largest[0]
    return of_a, biases[largest is None] - of_a


def _has_tiny(numbers: npt.NDArray[Any], limit: float) -> bool:
    """Whether some of these binary32 numbers are not zero and nearer to it."""
    twice = numbers.view(np.uint32) << np.uint32(1)
    twice -= np.uint32(1)  # zeros are the largest of all
    return bool(twice.min() < (np.float32(limit).view(np.uint32) << np.uint32(1)) - np.uint32(1))


def multiply_narrow(
    a: npt.NDArray[Any],
    b: npt.NDArray[Any],
    c: npt.NDArray[Any],
    batch: tuple[int, ...],
    instruction: Instruction,
    parallel: bool,
    chunk: int | None = None,
) -> npt.NDArray[Any]:
    """A·B + C in binary32; ``chunk``: see :mod:`tcu.model.narrow_kernels`, None: all of K."""
    kernels = compiled.load("narrow_kernels")
    row = instruction.arithmetic
    assert isinstance(row, AlignedSum)
    m, n = a.shape[-2], b.shape[-1]
    used = up(a.shape[-1], instruction.k)
    depth, width = up(used, kernels.LANES), up(n, kernels.LANES)
    x, ia = flatten(a, batch, m, depth)
    y, ib = flatten(b, batch, depth, width)
    if row.order is not None:
        order = np.arange(used).reshape(-1, instruction.k)[:, row.order].reshape(-1)
        order = np.concatenate([order, np.arange(used, depth)])
        x, y = np.take(x, order, 2), np.take(y, order, 1)
    count = math.prod(batch)
    result = np.zeros((count, m, width), np.float32)
    result.reshape(*batch, m, width)[..., :n] = c

    formats = get_format(instruction.a), get_format(instruction.b), get_format(instruction.output)
    i32, output = np.int32, formats[2]
    kept, floor = kept_and_floor(row, output)
    limit = np.float32(np.inf if output.name == "binary32" else 2.0 ** (output.emax + 1))
    largest = _largest_exponents(x, y, formats[:2])
    apart = largest is None
    offsets = _offsets(largest, kernels.BIASES)
    to_nearest = output.name != "binary32"
    plain = not (apart or to_nearest or _has_tiny(c, kernels.plain_from(row.fraction_bits)))
    kernel = kernels.narrow_mma[row.block, int(apart), int(to_nearest), int(plain)]
    fields = [
        (i32(f.storage_shift), i32(f.exponent_bits), i32(f.fraction_bits), i32(f.max_finite_code), i32(offset))
        for f, offset in zip(formats, (offsets[0] - formats[0].bias, offsets[1] - formats[1].bias), strict=False)
    ]  # fmt: skip
    arguments = (
        *fields,
        (i32(row.fraction_bits), i32(floor), i32(output.emin), i32(kept), i32(output.emin - kept), limit),
        (i32(output.fraction_bits), i32(output.emin - output.fraction_bits), limit),
        row.late_c, instruction.k, used,
    )  # fmt: skip

    chunk = used if chunk is None else chunk
    codes = [x.reshape(-1).view(formats[0].code_dtype), y.reshape(-1).view(formats[1].code_dtype)]
    shape = m, depth, width
    width_of_tiles: int = kernels.COLUMNS
    across = count * -(-width // width_of_tiles)
    height = _height_of_tiles(m, across, 2 * threads.worker_count() if parallel else 1)

    def run(piece: tuple[int, int]) -> None:
        scratch = kernels.scratch(row.block, height, used > chunk)
        kernel(*codes, result.reshape(-1), shape, ia, ib, *piece, *arguments, chunk, scratch)

    tiles = across * -(-m // height)
    work = min(m, height) * min(width, width_of_tiles) * used
    threads.each(run, threads.split(tiles, _GRAIN // work + 1 if parallel else tiles))
    return np.ascontiguousarray(result.reshape(*batch, m, width)[..., :n])


def _height_of_tiles(m: int, across: int, least: int) -> int:
    """The largest with which ``across`` of them, side by side, make at least so many."""
    return max((height for height in _HEIGHTS if across * -(-m // height) >= least), default=min(_HEIGHTS))


def kept_and_floor(row: AlignedSum, output: Format) -> tuple[int, int]:
    """The fraction bits that a result keeps, and the least common exponent of a block."""
    kept = output.fraction_bits
    if row.output_fraction_bits is not None:
        kept = min(kept, row.output_fraction_bits)
    return kept, _NO_FLOOR if row.exponent_floor is None else row.exponent_floor
