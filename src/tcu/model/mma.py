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
from tcu.model.blocks import Scales, block_products, is_block_sum
from tcu.units.arithmetic import AlignedSum, ExactInteger, FusedChain, Instruction, Unit
from tcu.units.lookup import find_instruction
from tcu.units.shapes import product_shape

__all__ = [
    "PROPAGATING", "input_format", "is_narrow", "mma", "multiply_accumulate", "multiply_in_chunks", "operand", "wide_kernel",
]  # fmt: skip

_SCALES = {"ue8m0": "ue8m0", "e4m3": "ue4m3"}
"""As what a unit reads scales of a format."""
LANES = 8
_COPIED = 1 << 27
"""Bytes of an operand that may only be read, up to which it is copied."""
_LOOK = 32
"""Rows and columns from which on the exponents of operands are looked at: it takes as long as a few products each."""
_NO_FLOOR = -600
"""Below every exponent that a product of two inputs can have."""
PROPAGATING = ("x86", "c first")
"""Rules by which NaN results come from their operands."""
_NANS = {"nvidia": 0x7FFFFFFF, "arm": 0x7FC00000, "x86": -0x400000, "c first": -0x400000}
"""Words of binary32 that operations without a NaN operand return, where they are invalid; narrowed, those of binary16."""
_GRAIN = 1 << 14
"""Multiplications below which a second thread does not pay."""
_BLOCK_GRAIN = 1 << 20
"""The same for sums of :mod:`tcu.model.blocks`, and the work between two decodings of B."""
_HEIGHTS = (64, 128, 256)
"""Of tiles of narrow sums: the operands of their columns are decoded once for all rows, which took a tenth of the time for 64."""
_NARROW_GRAIN = 1 << 21
"""The same for narrow sums: so many take 0.2 ms, and a piece more 0.03 ms here and 0.05 to 0.1 in another thread (measured)."""


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
        result = _narrow(a, b, c, batch, instruction, parallel)
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
    return _narrow(a, b, zeros, batch, instruction, True, chunk)


def is_narrow(instruction: Instruction) -> bool:
    """Whether a block's sum fits the words of :mod:`tcu.model.narrow`, which then computes it with equal bits.

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
    narrow = compiled.load("narrow")
    return (
        row.fraction_bits <= 25
        and row.block in narrow.BLOCKS
        and instruction.k % row.block == 0
        and narrow.DEPTH % instruction.k == 0
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


def _are_values(x: npt.NDArray[Any], y: npt.NDArray[Any], formats: tuple[Format, Format]) -> bool:
    """The same of the products of these numbers; false also where it is not worth looking, and for inf and NaN."""
    if all(_has_values(fmt) for fmt in formats):
        return True
    if min(x.shape[-2], y.shape[-1]) < _LOOK:
        return False
    least = most = 0
    for numbers, fmt in zip((x, y), formats, strict=True):
        twice, shift = numbers.view(fmt.code_dtype) << 1, 1 + fmt.storage_shift + fmt.fraction_bits
        # One less, zeros are the largest of all.
        least += ((int((twice - 1).min()) + 1) >> shift) - fmt.bias
        most += (int(twice.max()) >> shift) - fmt.bias + 1
    return least >= -64 and most <= 64


def _has_tiny(numbers: npt.NDArray[Any], limit: float) -> bool:
    """Whether some of these binary32 numbers are not zero and nearer to it."""
    twice = numbers.view(np.uint32) << np.uint32(1)
    twice -= np.uint32(1)  # zeros are the largest of all
    return bool(twice.min() < (np.float32(limit).view(np.uint32) << np.uint32(1)) - np.uint32(1))


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
    depth = _up(a.shape[-1], k)
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


def _flatten(array: npt.NDArray[Any], batch: tuple[int, ...], rows: int, columns: int) -> Any:
    """(distinct batch members, rows, columns), zero-padded, and which of them each member takes."""
    own = array.shape[:-2]
    flat = array.reshape(math.prod(own), *array.shape[-2:])
    if flat.shape[1:] != (rows, columns):
        padded = np.zeros((flat.shape[0], rows, columns), array.dtype)
        padded[:, : flat.shape[1], : flat.shape[2]] = flat
        flat = padded
    index = np.broadcast_to(np.arange(math.prod(own)).reshape(own), batch).reshape(-1)
    # Numba compiles a kernel once more for arrays that may only be read, which takes longer than a copy of most.
    if flat.nbytes <= _COPIED:
        return np.require(flat, requirements=["C", "A", "W"]), index.copy()
    return np.require(flat, requirements=["C", "A"]), index.copy()


def _up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


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
    used = _up(a.shape[-1], instruction.k)
    x, ia = _flatten(a, batch, m, used)
    y, ib = _flatten(b, batch, used, n)
    z, ic = _flatten(c, batch, m, n)
    if scales is not None:  # of the padding they are 0 or 2^-127, whose products with zeros take no part
        count = used // instruction.per_scale
        p, q = _flatten(scales[0], batch, m, count)[0], _flatten(scales[1], batch, count, n)[0]
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
    for _ in threads.in_order(run, threads.split(len(bands), grain if parallel else len(bands))):
        pass
    return result


def _narrow(
    a: npt.NDArray[Any],
    b: npt.NDArray[Any],
    c: npt.NDArray[Any],
    batch: tuple[int, ...],
    instruction: Instruction,
    parallel: bool,
    chunk: int | None = None,
) -> npt.NDArray[Any]:
    """In binary32; ``chunk``: see narrow_mma, None: all of K."""
    narrow = compiled.load("narrow")

    row = instruction.arithmetic
    assert isinstance(row, AlignedSum)
    m, n = a.shape[-2], b.shape[-1]
    used = _up(a.shape[-1], instruction.k)
    depth, width = _up(used, narrow.LANES), _up(n, narrow.LANES)
    x, ia = _flatten(a, batch, m, depth)
    y, ib = _flatten(b, batch, depth, width)
    if row.order is not None:
        order = np.arange(used).reshape(-1, instruction.k)[:, row.order].reshape(-1)
        order = np.concatenate([order, np.arange(used, depth)])
        x, y = np.take(x, order, 2), np.take(y, order, 1)
    count = math.prod(batch)
    result = np.zeros((count, m, width), np.float32)
    result.reshape(*batch, m, width)[..., :n] = c

    formats = get_format(instruction.a), get_format(instruction.b), get_format(instruction.output)
    i32, output = np.int32, formats[2]
    kept, floor = _kept_and_floor(row, output)
    limit = np.float32(np.inf if output.name == "binary32" else 2.0 ** (output.emax + 1))
    apart = not _are_values(x, y, formats[:2])
    to_nearest = output.name != "binary32"
    plain = not (apart or to_nearest or _has_tiny(c, narrow.PLAIN))
    kernel = narrow.narrow_mma[row.block, int(apart), int(to_nearest), int(plain)]
    fields = [(i32(f.storage_shift), i32(f.exponent_bits), i32(f.fraction_bits), i32(f.max_finite_code))
              for f in formats[:2]]  # fmt: skip
    arguments = (
        *fields,
        (i32(row.fraction_bits), i32(floor), i32(output.emin), i32(kept), i32(output.emin - kept), limit),
        (i32(output.fraction_bits), i32(output.emin - output.fraction_bits), limit),
        row.late_c, instruction.k, used,
    )  # fmt: skip

    chunk = used if chunk is None else chunk
    codes = [x.reshape(-1).view(formats[0].code_dtype), y.reshape(-1).view(formats[1].code_dtype)]
    shape = m, depth, width

    across: int = -(-width // narrow.COLUMNS)

    def tiles_of(height: int) -> int:
        return int(count * -(-m // height) * across)

    least = 2 * threads.worker_count() if parallel else 1
    height = max((h for h in _HEIGHTS if tiles_of(h) >= least), default=min(_HEIGHTS))

    def run(piece: tuple[int, int]) -> None:
        scratch = narrow.scratch(row.block, height, used > chunk)
        kernel(*codes, result.reshape(-1), shape, ia, ib, *piece, *arguments, chunk, scratch)

    tiles = tiles_of(height)
    work = min(m, height) * min(width, narrow.COLUMNS) * used
    for _ in threads.in_order(run, threads.split(tiles, _NARROW_GRAIN // work + 1 if parallel else tiles)):
        pass
    return np.ascontiguousarray(result.reshape(*batch, m, width)[..., :n])


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
    used, double = _up(a.shape[-1], instruction.k), instruction.output == "binary64"
    depth, width = _up(used, LANES), _up(n, LANES)
    x, ia = _flatten(a, batch, m, used if double else depth)
    y, ib = _flatten(b, batch, used if double else depth, width)
    z, ic = _flatten(c, batch, m, width)
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

    for _ in threads.in_order(run, threads.split(pieces, _GRAIN // work + 1 if parallel else pieces)):
        pass
    if double:
        return np.ascontiguousarray(wide[:, :, :n])
    # Every finite binary16 result is exact in binary32, and a NaN of binary16, widened, narrows to itself.
    dtype = get_format(instruction.output).dtype
    return np.ascontiguousarray(single.view(np.float32)[:, :, :n].astype(dtype, copy=False))


def _kept_and_floor(row: AlignedSum, output: Format) -> tuple[int, int]:
    """The fraction bits that a result keeps, and the least common exponent of a block."""
    kept = output.fraction_bits
    if row.output_fraction_bits is not None:
        kept = min(kept, row.output_fraction_bits)
    return kept, _NO_FLOOR if row.exponent_floor is None else row.exponent_floor


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
    kept, floor = _kept_and_floor(row, output)
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
