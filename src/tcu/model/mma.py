"""D = A·B + C on a model of any unit, batched."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.errors import DtypeError, ParameterError, ShapeError
from tcu.formats.array import check_in_memory, numpy_array
from tcu.formats.format import Format, format_of, get_format
from tcu.formats.scalar import ROUNDINGS
from tcu.model import compiled, threads
from tcu.model.batches import flatten, up
from tcu.model.blocks import Scales, block_products, is_block_sum
from tcu.model.ieee_environment import ieee
from tcu.model.narrow import is_narrow, kept_and_floor, multiply_narrow
from tcu.units.arithmetic import AlignedSum, ExactInteger, FusedChain
from tcu.units.instruction import Instruction, Unit
from tcu.units.lookup import find_instruction
from tcu.units.shapes import product_shape

__all__ = [
    "PROPAGATING", "input_format", "is_narrow", "mma", "multiply_accumulate", "multiply_in_chunks", "operand", "wide_kernel",
]  # fmt: skip

_SCALES = {"ue8m0": "ue8m0", "e4m3": "ue4m3"}
"""As what a unit reads scales of a format."""
LANES = 8
PROPAGATING = ("x86", "c first")
"""Rules by which NaN results come from their operands."""
_NANS = {"nvidia": 0x7FFFFFFF, "arm": 0x7FC00000, "x86": -0x400000, "c first": -0x400000}
"""Words of binary32 that operations without a NaN operand return, where they are invalid; narrowed, those of binary16."""
_GRAIN = 1 << 14
"""Multiplications below which a second thread does not pay."""
_BLOCK_GRAIN = 1 << 20
"""The same for sums of :mod:`tcu.model.blocks`, and the work between two decodings of B."""


def mma(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    c: npt.ArrayLike | None = None,
    *,
    unit: str | Unit,
    instruction: str = "mma",
    scale_a: npt.ArrayLike | None = None,
    scale_b: npt.ArrayLike | None = None,
) -> npt.NDArray[Any]:
    """:func:`tcu.mma` for arrays on the host, by the model of a unit; its parameters, results and errors."""
    x, y = operand("a", a), operand("b", b)
    z = None if c is None else operand("c", c)
    scales = _scales(scale_a, scale_b)
    shape = product_shape(x.shape, y.shape, None if z is None else z.shape)
    row = find_instruction(
        unit, instruction, input_format(x).name, input_format(y).name,
        None,
        None if scales is None else scale_kind(x.shape, y.shape, *scales),
        None if z is None else format_of(z.dtype).name,
    )  # fmt: skip
    if z is None:
        z = np.zeros(shape[-2:], get_format(row.c).dtype)
    return multiply_accumulate(x, y, z, row, scales=scales)


def _scales(scale_a: npt.ArrayLike | None, scale_b: npt.ArrayLike | None) -> Scales | None:
    if scale_a is None and scale_b is None:
        return None
    if scale_a is None or scale_b is None:
        given, missing = ("scale_b", "scale_a") if scale_a is None else ("scale_a", "scale_b")
        raise ParameterError(f"{given} without {missing}: give both, ones where an operand has no scales")
    return operand("scale_a", scale_a), operand("scale_b", scale_b)


def scale_kind(
    a: tuple[int, ...], b: tuple[int, ...], scale_a: npt.NDArray[Any], scale_b: npt.NDArray[Any]
) -> tuple[str, int]:
    """The format of two scale operands, and how many k share one.

    Raises DtypeError, ShapeError.
    """
    names = [_SCALES.get(format_of(each.dtype).name) for each in (scale_a, scale_b)]
    if names[0] is None or names[0] != names[1]:
        raise DtypeError(
            f"scales of dtype {scale_a.dtype} and {scale_b.dtype}: give both as float8_e8m0fnu, or as float8_e4m3fn, "
            "which is read as UE4M3"
        )
    k, count = a[-1], scale_a.shape[-1] if scale_a.ndim else 0
    expected = (*a[:-1], count), (*b[:-2], count, b[-1])
    if count == 0 or k % count or (scale_a.shape, scale_b.shape) != expected:
        raise ShapeError(
            f"a {a}, b {b}, scale_a {scale_a.shape}, scale_b {scale_b.shape}: with s successive k to a scale, scale_a has "
            "shape (..., M, K/s) and scale_b (..., K/s, N), the batches those of a and b; pad K with zeros to a "
            "multiple of s"
        )
    return names[0], k // count


def operand(name: str, value: npt.ArrayLike) -> npt.NDArray[Any]:
    """An array in the host's memory as NumPy reads it; raises DtypeError or ParameterError, which name it."""
    check_in_memory(value, name)
    array = numpy_array(value, name)
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def input_format(array: npt.NDArray[Any]) -> Format:
    """The format in which an MMA reads the array: TF32 for float32."""
    fmt = format_of(array.dtype)
    return get_format("tf32") if fmt.name == "binary32" else fmt


@ieee
def multiply_accumulate(
    a: npt.NDArray[Any],
    b: npt.NDArray[Any],
    c: npt.NDArray[Any],
    instruction: Instruction,
    *,
    parallel: bool = True,
    scales: Scales | None = None,
) -> npt.NDArray[Any]:
    """The same for arrays that are known to fit the instruction; ``parallel=False`` stays in this thread."""
    if c.dtype == np.float16 and instruction.addend is not None:
        return _with_half_c(a, b, c, instruction, parallel)
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2], c.shape[:-2])
    shape = (*batch, a.shape[-2], b.shape[-1])
    if math.prod(shape) == 0 or a.shape[-1] == 0:
        return np.broadcast_to(c, shape).copy()
    if isinstance(instruction.arithmetic, AlignedSum) and instruction.arithmetic.through_binary16:
        x, y = (
            words.view(get_format(f).dtype).astype(np.float16)
            for words, f in ((a, instruction.a), (b, instruction.b))
        )
        row = replace(instruction.arithmetic, through_binary16=False)
        halves = replace(instruction, a="binary16", b="binary16", arithmetic=row)
        return multiply_accumulate(x, y, c, halves, parallel=parallel)
    if is_block_sum(instruction):
        return _blocks(a, b, c, batch, instruction, parallel, scales).reshape(shape)
    if is_narrow(instruction):
        result = multiply_narrow(a, b, c, batch, instruction, parallel)
        return result.astype(get_format(instruction.output).dtype, copy=False)
    if isinstance(instruction.arithmetic, AlignedSum) and instruction.arithmetic.nan_rule in PROPAGATING:
        return _with_payloads(a, b, c, instruction).reshape(shape)
    if isinstance(instruction.arithmetic, AlignedSum | FusedChain):
        return _floating(a, b, c, batch, instruction, parallel).reshape(shape)
    assert isinstance(instruction.arithmetic, ExactInteger)
    return _integer(a, b, c, shape, instruction.k if instruction.arithmetic.saturate else None)


def _with_half_c(
    a: npt.NDArray[Any], b: npt.NDArray[Any], c: npt.NDArray[Any], instruction: Instruction, parallel: bool
) -> npt.NDArray[Any]:
    """c of binary16 is one more product of the first instruction, c·1, whose exponent is that of c; from there on it is
    a c of binary32.
    """
    k, row = instruction.k, instruction.arithmetic
    assert isinstance(row, AlignedSum)
    plain = replace(instruction, addend=None)
    if a.shape[-1] == 0:
        return multiply_accumulate(a, b, c.astype(np.float32), plain)
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2], c.shape[:-2])
    places = (*batch, a.shape[-2], b.shape[-1])
    first = min(k, a.shape[-1])
    left = np.broadcast_to(a[..., :, None, None, :k], (*places, 1, first))
    right = np.broadcast_to(np.swapaxes(b[..., :k, :], -1, -2)[..., None, :, :, None], (*places, first, 1))
    addends = np.broadcast_to(c[..., None, None], (*places, 1, 1))
    one_more = replace(plain, shape=(*plain.shape[:2], k + 1), arithmetic=replace(row, block=k + 1))
    total = multiply_accumulate(
        np.concatenate([left, addends], -1), np.concatenate([right, np.ones_like(addends)], -2),
        np.zeros((1, 1), np.float32), one_more, parallel=parallel,
    )[..., 0, 0]  # fmt: skip
    return multiply_accumulate(a[..., k:], b[..., k:, :], total, plain, parallel=parallel)


def multiply_in_chunks(
    a: npt.NDArray[Any], b: npt.NDArray[Any], instruction: Instruction, chunk: int
) -> npt.NDArray[Any]:
    """A·B, where K is cut into chunks of a multiple of 128: a chain from zero for each, added in order in binary32.

    The result is of binary32; of binary64 or s32, where that is the output.
    """
    k, dtype = a.shape[-1], get_format(instruction.output).dtype
    if dtype == np.float16:
        dtype = np.dtype(np.float32)
    zeros = np.zeros((a.shape[-2], b.shape[-1]), get_format(instruction.output).dtype)
    if k <= chunk or not is_narrow(instruction):
        total = multiply_accumulate(a[..., :chunk], b[..., :chunk, :], zeros, instruction).astype(
            dtype, copy=False
        )
        for start in range(chunk, k, chunk):
            piece = slice(start, start + chunk)
            total += multiply_accumulate(a[..., piece], b[..., piece, :], zeros, instruction)
        return total
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    if math.prod(batch) * zeros.size == 0:
        return np.zeros((*batch, *zeros.shape), dtype)
    return multiply_narrow(a, b, zeros, batch, instruction, True, chunk)


def _integer(
    a: npt.NDArray[Any], b: npt.NDArray[Any], c: npt.NDArray[Any], shape: tuple[int, ...], k: int | None
) -> npt.NDArray[Any]:
    """k: products after which the sum saturates; None: it wraps."""
    total = c.astype(np.int64)
    for start in range(0, a.shape[-1], k or a.shape[-1]):
        piece = slice(start, start + (k or a.shape[-1]))
        # binary64 holds every sum of up to 2^37 products of 8-bit integers exactly.
        product = np.matmul(a[..., piece].astype(np.float64), b[..., piece, :].astype(np.float64))
        total = total + product.astype(np.int64)
        if k is not None:
            total = np.clip(total, -(1 << 31), (1 << 31) - 1)
    return np.broadcast_to((total & 0xFFFFFFFF).astype(np.uint32).view(np.int32), shape).copy()


def _with_payloads(
    a: npt.NDArray[Any], b: npt.NDArray[Any], c: npt.NDArray[Any], instruction: Instruction
) -> npt.NDArray[Any]:
    """An aligned sum whose NaN results come from its operands: block after block, so that each finds its own."""
    row, output, k = instruction.arithmetic, get_format(instruction.output), instruction.k
    assert isinstance(row, AlignedSum)
    depth = up(a.shape[-1], k)
    a = np.concatenate([a, np.zeros((*a.shape[:-1], depth - a.shape[-1]), a.dtype)], axis=-1)
    b = np.concatenate([b, np.zeros((*b.shape[:-2], depth - b.shape[-2], b.shape[-1]), b.dtype)], axis=-2)
    left, right = (
        _quieted(words, get_format(f), output) for words, f in ((a, instruction.a), (b, instruction.b))
    )
    whole = replace(instruction, arithmetic=replace(row, nan_rule="arm"))
    plain = multiply_accumulate(a, b, c, whole)
    if not np.isnan(plain).any():
        return plain
    total = c
    for start in range(0, depth, k):
        order = start + np.array(row.order or range(k))
        before, total = total, np.zeros_like(c) if row.late_c else total
        for at in range(0, k, row.block):
            ks = order[at : at + row.block]
            rules = replace(row, nan_rule="arm", order=None, late_c=False)
            piece = replace(instruction, shape=(*instruction.shape[:2], len(ks)), arithmetic=rules)
            found = multiply_accumulate(a[..., ks], b[..., ks, :], total, piece)
            factors = [side for p in ks for side in (left[..., p, None], right[..., p, None, :])]
            total = _first_nan(found, factors, _quieted(total, output, output), row, output)
        if row.late_c:
            chunk = slice(start, start + k)
            found = multiply_accumulate(a[..., chunk], b[..., chunk, :], before, whole)
            total = _first_nan(
                found, [_quieted(total, output, output)], _quieted(before, output, output), row, output
            )
    return total


def _quieted(words: npt.NDArray[Any], fmt: Format, output: Format) -> npt.NDArray[Any]:
    """Where there is a NaN, the code of the same NaN in the output format, quieted; else 0."""
    code = words.view(fmt.code_dtype).astype(np.int64) >> fmt.storage_shift
    magnitude, fraction = code & (fmt.sign_code - 1), code & ((1 << fmt.fraction_bits) - 1)
    nan = (magnitude > fmt.max_finite_code) & ~((fraction == 0) & fmt.has_infinity)
    up = output.fraction_bits - fmt.fraction_bits
    payload = fraction << up if up >= 0 else fraction >> -up
    quiet = output.infinity_code | 1 << (output.fraction_bits - 1)
    return np.where(nan, np.where(code & fmt.sign_code, output.sign_code, 0) | quiet | payload, 0)


def _first_nan(
    found: npt.NDArray[Any],
    factors: list[npt.NDArray[Any]],
    c: npt.NDArray[Any],
    row: AlignedSum,
    output: Format,
) -> npt.NDArray[Any]:
    """The results with the NaN of the first operand that is one, or the negative default one, where there is a NaN."""
    operands = [c, *factors] if row.nan_rule == "c first" else [*factors, c]
    code = np.full(
        found.shape, output.sign_code | output.infinity_code | 1 << (output.fraction_bits - 1), np.int64
    )
    for operand in reversed(operands):
        code = np.where(operand, operand, code)
    return np.where(np.isnan(found), code.astype(output.code_dtype).view(output.dtype), found)


def _blocks(
    a: npt.NDArray[Any],
    b: npt.NDArray[Any],
    c: npt.NDArray[Any],
    batch: tuple[int, ...],
    instruction: Instruction,
    parallel: bool,
    scales: Scales | None,
) -> npt.NDArray[Any]:
    """Members of the batch, and bands of rows, side by side."""
    m, n = a.shape[-2], b.shape[-1]
    used = up(a.shape[-1], instruction.k)
    x, ia = flatten(a, batch, m, used)
    y, ib = flatten(b, batch, used, n)
    z, ic = flatten(c, batch, m, n)
    if scales is not None:  # of the padding they are 0 or 2^-127, whose products with zeros take no part
        count = used // instruction.per_scale
        p, q = flatten(scales[0], batch, m, count)[0], flatten(scales[1], batch, count, n)[0]
    result = np.empty((math.prod(batch), m, n), np.float32)
    work = n * used
    rows = max(1, min(m, _BLOCK_GRAIN // work + 1))
    bands = [(t, i) for t in range(len(result)) for i in range(0, m, rows)]

    def run(piece: tuple[int, int]) -> None:
        for t, i in bands[piece[0] : piece[1]]:
            lines = slice(i, i + rows)
            own = None if scales is None else (p[ia[t], lines], q[ib[t]])
            result[t, lines] = block_products(x[ia[t], lines], y[ib[t]], z[ic[t], lines], instruction, own)

    grain = _BLOCK_GRAIN // (work * rows) + 1
    threads.each(run, threads.split(len(bands), grain if parallel else len(bands)))
    return result


def _floating(
    a: npt.NDArray[Any],
    b: npt.NDArray[Any],
    c: npt.NDArray[Any],
    batch: tuple[int, ...],
    instruction: Instruction,
    parallel: bool,
) -> npt.NDArray[Any]:
    kernels = compiled.load("kernels")

    m, n = a.shape[-2], b.shape[-1]
    used, double = up(a.shape[-1], instruction.k), instruction.output == "binary64"
    depth, width = up(used, LANES), up(n, LANES)
    x, ia = flatten(a, batch, m, used if double else depth)
    y, ib = flatten(b, batch, used if double else depth, width)
    z, ic = flatten(c, batch, m, width)
    count = math.prod(batch)
    pieces, work = count, m * width * used
    if double:
        down = -(-m // kernels.CHAIN_ROWS)
        pieces, work = count * down, min(m, kernels.CHAIN_ROWS) * width * used
        wide = np.empty((count, m, width))
        arguments = (x, y, z, ia, ib, ic)

        def run(piece: tuple[int, int]) -> None:
            kernels.fused_chain(*arguments, *piece, wide)

    else:
        single = np.empty((count, m, width), np.int32)
        kernel, rules = wide_kernel(instruction, used)
        codes = [array.view(get_format(f).code_dtype) for array, f in
                 ((x, instruction.a), (y, instruction.b), (z, instruction.output))]  # fmt: skip

        def run(piece: tuple[int, int]) -> None:
            kernel(*codes, ia, ib, ic, *piece, *rules, single)

    threads.each(run, threads.split(pieces, _GRAIN // work + 1 if parallel else pieces))
    if double:
        return np.ascontiguousarray(wide[:, :, :n])
    # Every finite binary16 result is exact in binary32, and a NaN of binary16, widened, narrows to itself.
    dtype = get_format(instruction.output).dtype
    return np.ascontiguousarray(single.view(np.float32)[:, :, :n].astype(dtype, copy=False))


def wide_kernel(instruction: Instruction, used: int) -> tuple[Any, tuple[Any, ...]]:
    """The kernel of an aligned sum, or of a chain of narrow formats, and its parameters; ``used``: K, a multiple of k."""
    i32 = np.int32
    row, output = instruction.arithmetic, get_format(instruction.output)
    a, b, c = (
        (i32(f.storage_shift), i32(f.exponent_bits), i32(f.fraction_bits), i32(f.max_finite_code))
        for f in (get_format(instruction.a), get_format(instruction.b), output)
    )
    assert isinstance(row, AlignedSum | FusedChain)
    order = np.array(row.order or range(instruction.k), np.int64)
    rounding = i32(ROUNDINGS.index(row.rounding))
    if isinstance(row, FusedChain):
        flushed_below = 2.0**output.emin if row.flush_outputs else 0.0
        return compiled.load("chains").chain_mma, (
            a, b, c, used, order,
            (rounding, i32(output.emin), i32(output.fraction_bits), flushed_below, 2.0 ** (output.emax + 1)),
            (row.rounded_products, row.group, row.lanes, row.late_c),
            (row.flush_inputs, row.flush_outputs),
            (i32(_NANS[row.nan_rule]), row.nan_rule == "x86"),
        )  # fmt: skip
    kept, floor = kept_and_floor(row, output)
    most = [
        (2 - 2.0**-bits) * 2.0**output.emax if row.saturate else np.inf
        for bits in (kept, output.fraction_bits)
    ]
    wraps_at = 0.0 if row.carry_bits is None else 2.0 ** (row.fraction_bits + 1 + row.carry_bits)
    return compiled.load("kernels").aligned_mma, (
        (*a, used),
        (*b, used),
        (*c, rounding, i32(kept), i32(output.emin), i32(_NANS[row.nan_rule]), row.signed_zeros, *most),
        (row.block, i32(row.fraction_bits), i32(floor), wraps_at),
        order,
        row.late_c,
        row.normalized_products,
        (row.flush_inputs, row.flush_outputs),
    )  # fmt: skip
