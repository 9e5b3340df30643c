"""Eight numbers at a time: the few vector operations that the model's kernels need.

Numba leaves inner loops of eight scalars scalar (measured: half the speed, for
the alignment alone, of these vectors with the rounding included), so the
operations are spelled as LLVM vectors.  A *register* is a stack slot that
LLVM promotes to a machine register and lowers to whatever the processor has
(SSE2, AVX2, AVX-512, NEON).
"""
# Numba intrinsics are typed by the compiler, not by annotations.
# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc"

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from tcu.model import vectors as vec
from tcu.model.vectors import LANES, ZERO_EXPONENT

__all__ = [
    "LANES",
    "ROWS",
    "add",
    "add_product",
    "add_to_odd",
    "add_truncated",
    "clear",
    "clear_negative",
    "decode",
    "exponent_scale",
    "exponents_of",
    "f64_register",
    "f64_rows",
    "flush",
    "fma",
    "fma_registers",
    "fma_rows",
    "from_units",
    "i32_register",
    "load_f64",
    "load_rows",
    "load_wide",
    "max_exponent",
    "max_product_exponent",
    "move",
    "multiply",
    "negative_nan",
    "quiet",
    "round_down",
    "round_nearest",
    "round_odd",
    "round_up",
    "round_zero",
    "store",
    "store_f32",
    "store_rows",
    "to_units",
    "truncate",
    "wrap",
]

_F64_POINTER, _I32_POINTER = types.CPointer(types.float64), types.CPointer(types.int32)


@intrinsic
def f64_register(typingctx):
    """A register of eight float64."""

    def codegen(context, builder, signature, args):
        slot = cgutils.alloca_once(builder, vec.V64)
        return builder.bitcast(slot, vec.F64.as_pointer())

    return _F64_POINTER(), codegen


@intrinsic
def i32_register(typingctx):
    """A register of eight int32."""

    def codegen(context, builder, signature, args):
        slot = cgutils.alloca_once(builder, vec.W32)
        return builder.bitcast(slot, vec.I32.as_pointer())

    return _I32_POINTER(), codegen


@intrinsic
def clear(typingctx, register):
    """register = 0."""

    def codegen(context, builder, signature, args):
        vector = vec.V64 if signature.args[0] == _F64_POINTER else vec.W32
        vec.store(builder, ir.Constant(vector, None), args[0])
        return context.get_dummy_value()

    return types.void(register), codegen


@intrinsic
def clear_negative(typingctx, register):
    """register = -0, to which any number can be added without a trace."""

    def codegen(context, builder, signature, args):
        vec.store(builder, vec.constant(vec.V64, -0.0), args[0])
        return context.get_dummy_value()

    return types.void(register), codegen


@intrinsic
def move(typingctx, target, source):
    """target = source."""

    def codegen(context, builder, signature, args):
        vector = vec.V64 if signature.args[0] == _F64_POINTER else vec.W32
        vec.store(builder, vec.load(builder, args[1], vector), args[0])
        return context.get_dummy_value()

    return types.void(target, source), codegen


@intrinsic
def load_f64(typingctx, register, array, index):
    """register = array[index : index + 8]."""

    def codegen(context, builder, signature, args):
        vec.store(
            builder, vec.elements(context, builder, signature.args[1], args[1], args[2], vec.V64), args[0]
        )
        return context.get_dummy_value()

    return types.void(register, array, types.intp), codegen


@intrinsic
def load_wide(typingctx, register, array, index, half):
    """register = array[index : index + 8], converted exactly from float32, binary16 or bfloat16 codes, or float64.

    half: whether 16-bit codes are those of binary16.
    """
    dtype = array.dtype

    def codegen(context, builder, signature, args):
        slot, _, index, is_half = args
        data = vec.data_of(context, builder, signature.args[1], args[1])
        pointer = builder.gep(data, [index])
        if dtype == types.uint16:
            codes = builder.load(builder.bitcast(pointer, vec.W16.as_pointer()), align=2)
            codes = builder.zext(codes, vec.W32)
            with builder.if_else(is_half) as (then, otherwise):
                with then:
                    vec.store(builder, vec.from_binary16(builder, codes), slot)
                with otherwise:
                    bits = builder.shl(codes, vec.constant(vec.W32, 16))
                    vec.store(builder, builder.fpext(builder.bitcast(bits, vec.V32), vec.V64), slot)
        else:
            vector = vec.V64 if dtype == types.float64 else vec.V32
            value = builder.load(builder.bitcast(pointer, vector.as_pointer()), align=dtype.bitwidth // 8)
            vec.store(builder, value if vector == vec.V64 else builder.fpext(value, vec.V64), slot)
        return context.get_dummy_value()

    if dtype not in (types.uint16, types.float32, types.float64):
        return None
    return types.void(register, array, types.intp, types.boolean), codegen


@intrinsic
def decode(
    typingctx,
    codes,
    index,
    shift,
    exponent_bits,
    fraction_bits,
    max_finite,
    flush,
    values,
    exponents,
    specials,
):
    """Decode codes[index : index + 8] into three registers; true if one is inf or NaN.

    values: the number (0 for inf and NaN); exponents: as it takes part in the
    alignment (ZERO_EXPONENT for zero, inf and NaN); specials: what
    multiplication and addition of specials must see, namely inf, NaN, or the
    sign of the number as -1, 0 or 1.
    """

    def codegen(context, builder, signature, args):
        array, at, down, width, fraction, largest, flushing, value_slot, exponent_slot, special_slot = args
        bits = signature.args[0].dtype.bitwidth
        raw = vec.elements(
            context, builder, signature.args[0], array, at, ir.VectorType(ir.IntType(bits), LANES)
        )
        code = raw if bits == 32 else builder.zext(raw, vec.W32)
        code = builder.lshr(code, vec.splat(builder, down, vec.W32))
        one = vec.constant(vec.W32, 1)
        f = vec.splat(builder, fraction, vec.W32)
        sign_at = vec.splat(builder, builder.add(width, fraction), vec.W32)
        negative = builder.icmp_unsigned(
            "!=", builder.and_(builder.lshr(code, sign_at), one), vec.constant(vec.W32, 0)
        )
        magnitude = builder.and_(code, builder.sub(builder.shl(one, sign_at), one))
        field = builder.lshr(magnitude, f)
        hidden = builder.shl(one, f)
        rest = builder.and_(magnitude, builder.sub(hidden, one))
        normal = builder.icmp_unsigned("!=", field, vec.constant(vec.W32, 0))
        significand = builder.select(normal, builder.or_(rest, hidden), rest)
        flushed = vec.splat(
            builder,
            builder.icmp_unsigned("!=", flushing, ir.Constant(flushing.type, 0)),
            ir.VectorType(ir.IntType(1), LANES),
        )
        significand = builder.select(
            builder.and_(flushed, builder.not_(normal)), vec.constant(vec.W32, 0), significand
        )
        special = builder.icmp_unsigned(">", magnitude, vec.splat(builder, largest, vec.W32))
        infinite = builder.icmp_unsigned("==", rest, vec.constant(vec.W32, 0))
        significand = builder.select(special, vec.constant(vec.W32, 0), significand)
        bias = builder.sub(
            builder.shl(ir.Constant(vec.I32, 1), builder.sub(width, ir.Constant(vec.I32, 1))),
            ir.Constant(vec.I32, 1),
        )
        exponent = builder.sub(
            vec.call(builder, "smax", vec.W32, field, one), vec.splat(builder, bias, vec.W32)
        )
        zero = builder.icmp_unsigned("==", significand, vec.constant(vec.W32, 0))
        scale = vec.power_of_two(builder, builder.sub(exponent, f))
        value = builder.fmul(builder.sitofp(significand, vec.V64), scale)
        value = builder.select(negative, builder.fneg(value), value)
        kind = builder.select(
            infinite, vec.constant(vec.V64, float("inf")), vec.constant(vec.V64, float("nan"))
        )
        kind = builder.select(
            special, kind, builder.select(zero, vec.constant(vec.V64, 0.0), vec.constant(vec.V64, 1.0))
        )
        kind = builder.select(negative, builder.fneg(kind), kind)
        vec.store(builder, value, value_slot)
        vec.store(
            builder, builder.select(zero, vec.constant(vec.W32, ZERO_EXPONENT), exponent), exponent_slot
        )
        vec.store(builder, kind, special_slot)
        packed = builder.bitcast(special, ir.IntType(LANES))
        return builder.icmp_unsigned("!=", packed, ir.Constant(ir.IntType(LANES), 0))

    i32 = types.int32
    return (
        types.boolean(codes, types.intp, i32, i32, i32, i32, types.boolean, values, exponents, specials),
        codegen,
    )


@intrinsic
def max_exponent(typingctx, exponents, scalar, array, index):
    """exponents = max(exponents, scalar + array[index : index + 8])."""

    def codegen(context, builder, signature, args):
        element = vec.elements(context, builder, signature.args[2], args[2], args[3], vec.W32)
        total = builder.add(vec.splat(builder, args[1], vec.W32), element)
        vec.store(
            builder, vec.call(builder, "smax", vec.W32, vec.load(builder, args[0], vec.W32), total), args[0]
        )
        return context.get_dummy_value()

    return types.void(exponents, types.int32, array, types.intp), codegen


@intrinsic
def max_product_exponent(typingctx, exponents, scalar, array, index):
    """exponents = max(exponents, exponent of the leading bit of scalar · array[...]); zeros are left out."""

    def codegen(context, builder, signature, args):
        element = vec.elements(context, builder, signature.args[2], args[2], args[3], vec.V64)
        product = builder.fmul(vec.splat(builder, args[1], vec.V64), element)
        exponent = vec.exponent_of(builder, product)
        zero = builder.fcmp_ordered("==", product, vec.constant(vec.V64, 0.0))
        exponent = builder.select(zero, vec.constant(vec.W32, ZERO_EXPONENT), exponent)
        vec.store(
            builder,
            vec.call(builder, "smax", vec.W32, vec.load(builder, args[0], vec.W32), exponent),
            args[0],
        )
        return context.get_dummy_value()

    return types.void(exponents, types.float64, array, types.intp), codegen


@intrinsic
def exponent_scale(typingctx, scale, exponents, floor, fraction_bits, sign):
    """exponents = max(exponents, floor); scale = 2^(sign · (fraction_bits - exponents))."""

    def codegen(context, builder, signature, args):
        exponent = vec.call(
            builder,
            "smax",
            vec.W32,
            vec.load(builder, args[1], vec.W32),
            vec.splat(builder, args[2], vec.W32),
        )
        power = builder.sub(vec.splat(builder, args[3], vec.W32), exponent)
        vec.store(
            builder,
            vec.power_of_two(builder, builder.mul(power, vec.splat(builder, args[4], vec.W32))),
            args[0],
        )
        return context.get_dummy_value()

    i32 = types.int32
    return types.void(scale, exponents, i32, i32, i32), codegen


@intrinsic
def truncate(typingctx, target, value, scale):
    """target = trunc(value · scale)."""

    def codegen(context, builder, signature, args):
        product = builder.fmul(vec.load(builder, args[1], vec.V64), vec.load(builder, args[2], vec.V64))
        vec.store(builder, vec.call(builder, "trunc", vec.V64, product), args[0])
        return context.get_dummy_value()

    return types.void(target, value, scale), codegen


@intrinsic
def add_truncated(typingctx, target, scalar, array, index, scale):
    """target += trunc(scalar · array[index : index + 8] · scale)."""

    def codegen(context, builder, signature, args):
        element = vec.elements(context, builder, signature.args[2], args[2], args[3], vec.V64)
        product = builder.fmul(vec.splat(builder, args[1], vec.V64), element)
        whole = vec.call(
            builder, "trunc", vec.V64, builder.fmul(product, vec.load(builder, args[4], vec.V64))
        )
        vec.store(builder, builder.fadd(vec.load(builder, args[0], vec.V64), whole), args[0])
        return context.get_dummy_value()

    return types.void(target, types.float64, array, types.intp, scale), codegen


@intrinsic
def wrap(typingctx, target, half):
    """target modulo 2 · half, from -half on, half being a power of two: target stays below 2^53 on the way."""

    def codegen(context, builder, signature, args):
        x, limit = vec.load(builder, args[0], vec.V64), vec.splat(builder, args[1], vec.V64)
        width = builder.fadd(limit, limit)
        turns = vec.call(builder, "floor", vec.V64, builder.fdiv(builder.fadd(x, limit), width))
        vec.store(builder, builder.fsub(x, builder.fmul(turns, width)), args[0])
        return context.get_dummy_value()

    return types.void(target, types.float64), codegen


@intrinsic
def add_product(typingctx, target, scalar, array, index):
    """target += scalar · array[index : index + 8], rounded twice."""

    def codegen(context, builder, signature, args):
        element = vec.elements(context, builder, signature.args[2], args[2], args[3], vec.V64)
        product = builder.fmul(vec.splat(builder, args[1], vec.V64), element)
        vec.store(builder, builder.fadd(vec.load(builder, args[0], vec.V64), product), args[0])
        return context.get_dummy_value()

    return types.void(target, types.float64, array, types.intp), codegen


@intrinsic
def add(typingctx, target, source):
    """target += source."""

    def codegen(context, builder, signature, args):
        total = builder.fadd(vec.load(builder, args[0], vec.V64), vec.load(builder, args[1], vec.V64))
        vec.store(builder, total, args[0])
        return context.get_dummy_value()

    return types.void(target, source), codegen


@intrinsic
def add_to_odd(typingctx, target, source):
    """target += source, rounded to odd: rounding to a narrower format afterwards rounds the exact sum."""

    def codegen(context, builder, signature, args):
        x, y = (vec.load(builder, slot, vec.V64) for slot in args)
        total = builder.fadd(x, y)
        moved = builder.fsub(total, x)
        lost = builder.fadd(builder.fsub(x, builder.fsub(total, moved)), builder.fsub(y, moved))
        zero, one = vec.constant(vec.V64, 0.0), vec.constant(vec.W64, 1)
        bits = builder.bitcast(total, vec.W64)
        even = builder.icmp_unsigned("==", builder.and_(bits, one), vec.constant(vec.W64, 0))
        inexact = builder.fcmp_ordered("!=", lost, zero)
        # The other neighbour of the exact sum is the odd one; more bits are a larger magnitude.
        up, positive = builder.fcmp_ordered(">", lost, zero), builder.fcmp_ordered(">", total, zero)
        outward = builder.icmp_unsigned("==", up, positive)
        odd = builder.select(outward, builder.add(bits, one), builder.sub(bits, one))
        bits = builder.select(builder.and_(inexact, even), odd, bits)
        vec.store(builder, builder.bitcast(bits, vec.V64), args[0])
        return context.get_dummy_value()

    return types.void(target, source), codegen


@intrinsic
def multiply(typingctx, target, source):
    """target *= source."""

    def codegen(context, builder, signature, args):
        product = builder.fmul(vec.load(builder, args[0], vec.V64), vec.load(builder, args[1], vec.V64))
        vec.store(builder, product, args[0])
        return context.get_dummy_value()

    return types.void(target, source), codegen


@intrinsic
def to_units(typingctx, value, quantum, emin, fraction_bits):
    """quantum = the unit in the last place of ``value`` in a format, value /= quantum; both exact."""

    def codegen(context, builder, signature, args):
        x = vec.load(builder, args[0], vec.V64)
        exponent = vec.exponent_of(builder, x)
        exponent = vec.call(builder, "smax", vec.W32, exponent, vec.splat(builder, args[2], vec.W32))
        low = builder.sub(exponent, vec.splat(builder, args[3], vec.W32))
        vec.store(builder, builder.fmul(x, vec.power_of_two(builder, builder.neg(low))), args[0])
        vec.store(builder, vec.power_of_two(builder, low), args[1])
        return context.get_dummy_value()

    return types.void(value, quantum, types.int32, types.int32), codegen


def _rounding(llvm_name: str, meaning: str) -> Any:
    def round_(typingctx, value):
        def codegen(context, builder, signature, args):
            vec.store(
                builder, vec.call(builder, llvm_name, vec.V64, vec.load(builder, args[0], vec.V64)), args[0]
            )
            return context.get_dummy_value()

        return types.void(value), codegen

    round_.__doc__ = meaning
    return intrinsic(round_)


round_nearest = _rounding("rint", "Round to integers, ties to even.")
round_zero = _rounding("trunc", "Round to integers, toward zero.")
round_up = _rounding("ceil", "Round to integers, toward +inf.")
round_down = _rounding("floor", "Round to integers, toward -inf.")


@intrinsic
def round_odd(typingctx, value):
    """Round to integers: what is no integer becomes the odd one beside it."""

    def codegen(context, builder, signature, args):
        x = vec.load(builder, args[0], vec.V64)
        below = vec.call(builder, "floor", vec.V64, x)
        half = builder.fmul(below, vec.constant(vec.V64, 0.5))
        even = builder.fcmp_ordered("==", vec.call(builder, "floor", vec.V64, half), half)
        up = builder.and_(even, builder.fcmp_ordered("!=", below, x))
        vec.store(
            builder, builder.select(up, builder.fadd(below, vec.constant(vec.V64, 1.0)), below), args[0]
        )
        return context.get_dummy_value()

    return types.void(value), codegen


@intrinsic
def from_units(typingctx, value, quantum, specials, limit, most, smallest, zero):
    """value *= quantum; at ``limit`` and above ``most``, or where that is inf, inf joins the specials; below ``smallest``, 0.

    zero: +0 makes +0 of -0; -0 leaves it.
    """

    def codegen(context, builder, signature, args):
        infinity = vec.constant(vec.V64, float("inf"))
        x = builder.fmul(vec.load(builder, args[0], vec.V64), vec.load(builder, args[1], vec.V64))
        zero = vec.call(builder, "copysign", vec.V64, vec.constant(vec.V64, 0.0), x)
        magnitude = vec.call(builder, "fabs", vec.V64, x)
        over = builder.fcmp_ordered(">=", magnitude, vec.splat(builder, args[3], vec.V64))
        infinite = vec.call(builder, "copysign", vec.V64, infinity, x)
        most = vec.splat(builder, args[4], vec.V64)
        endless = builder.fcmp_ordered("==", most, infinity)
        # Where a term was inf or NaN the finite rest decides nothing, so it cannot overflow either.
        kind = vec.load(builder, args[2], vec.V64)
        calm = builder.fcmp_ordered("<", vec.call(builder, "fabs", vec.V64, kind), infinity)
        kind = builder.select(builder.and_(builder.and_(over, endless), calm), infinite, kind)
        tiny = builder.fcmp_ordered("<", magnitude, vec.splat(builder, args[5], vec.V64))
        largest = builder.select(endless, zero, vec.call(builder, "copysign", vec.V64, most, x))
        x = builder.select(over, largest, builder.select(tiny, zero, x))
        vec.store(builder, builder.fadd(x, vec.splat(builder, args[6], vec.V64)), args[0])
        vec.store(builder, kind, args[2])
        return context.get_dummy_value()

    f64 = types.float64
    return types.void(value, quantum, specials, f64, f64, f64, f64), codegen


@intrinsic
def exponents_of(typingctx, exponents, value, emin):
    """exponents = those of ``value`` in a format (emin for subnormals, ZERO_EXPONENT for zero)."""

    def codegen(context, builder, signature, args):
        x = vec.load(builder, args[1], vec.V64)
        exponent = vec.exponent_of(builder, x)
        exponent = vec.call(builder, "smax", vec.W32, exponent, vec.splat(builder, args[2], vec.W32))
        zero = builder.fcmp_ordered("==", x, vec.constant(vec.V64, 0.0))
        vec.store(builder, builder.select(zero, vec.constant(vec.W32, ZERO_EXPONENT), exponent), args[0])
        return context.get_dummy_value()

    return types.void(exponents, value, types.int32), codegen


@intrinsic
def flush(typingctx, value, smallest):
    """value = 0, of its sign, where it is smaller than ``smallest`` in magnitude."""

    def codegen(context, builder, signature, args):
        x = vec.load(builder, args[0], vec.V64)
        tiny = builder.fcmp_ordered(
            "<", vec.call(builder, "fabs", vec.V64, x), vec.splat(builder, args[1], vec.V64)
        )
        zero = vec.call(builder, "copysign", vec.V64, vec.constant(vec.V64, 0.0), x)
        vec.store(builder, builder.select(tiny, zero, x), args[0])
        return context.get_dummy_value()

    return types.void(value, types.float64), codegen


@intrinsic
def store_f32(typingctx, value, specials, array, index, nan_code):
    """array[index : index + 8] = the bits of float32(value), or the inf or NaN among the specials."""

    def codegen(context, builder, signature, args):
        value, kind = vec.load(builder, args[0], vec.V64), vec.load(builder, args[1], vec.V64)
        infinite = builder.fcmp_ordered(
            "==", vec.call(builder, "fabs", vec.V64, kind), vec.constant(vec.V64, float("inf"))
        )
        bits = builder.bitcast(builder.fptrunc(builder.select(infinite, kind, value), vec.V32), vec.W32)
        nan = builder.fcmp_unordered("uno", kind, kind)
        bits = builder.select(nan, vec.splat(builder, args[4], vec.W32), bits)
        data = vec.data_of(context, builder, signature.args[2], args[2])
        vec.store(builder, bits, builder.gep(data, [args[3]]))
        return context.get_dummy_value()

    return types.void(value, specials, array, types.intp, types.int32), codegen


@intrinsic
def store(typingctx, register, array, index):
    """array[index : index + 8] = register."""

    def codegen(context, builder, signature, args):
        vector = vec.V64 if signature.args[0] == _F64_POINTER else vec.W32
        data = vec.data_of(context, builder, signature.args[1], args[1])
        vec.store(builder, vec.load(builder, args[0], vector), builder.gep(data, [args[2]]))
        return context.get_dummy_value()

    return types.void(register, array, types.intp), codegen


ROWS = 8
"""Of a block of rows in registers."""


@intrinsic
def f64_rows(typingctx):
    """Eight registers of eight float64: a block of rows."""

    def codegen(context, builder, signature, args):
        slot = cgutils.alloca_once(builder, ir.ArrayType(vec.V64, ROWS))
        return builder.bitcast(slot, vec.F64.as_pointer())

    return _F64_POINTER(), codegen


def _places(builder, index, stride, last):
    """Where rows begin; those behind the last are the last once more."""
    for r in range(ROWS):
        row = ir.Constant(last.type, r)
        row = builder.select(builder.icmp_signed("<", row, last), row, last)
        yield r, builder.add(index, builder.mul(row, stride))


def _row(builder, rows, r):
    return builder.gep(rows, [ir.Constant(vec.I32, r * LANES)])


@intrinsic
def load_rows(typingctx, rows, array, index, stride, last):
    """rows[r] = array[at : at + 8], at = index + stride · min(r, last)."""

    def codegen(context, builder, signature, args):
        rows, array, *where = args
        for r, at in _places(builder, *where):
            element = vec.elements(context, builder, signature.args[1], array, at, vec.V64)
            vec.store(builder, element, _row(builder, rows, r))
        return context.get_dummy_value()

    return types.void(rows, array, types.intp, types.intp, types.intp), codegen


@intrinsic
def store_rows(typingctx, rows, array, index, stride, last):
    """The same, the other way."""

    def codegen(context, builder, signature, args):
        rows, array, *where = args
        data = vec.data_of(context, builder, signature.args[1], array)
        for r, at in _places(builder, *where):
            vec.store(builder, vec.load(builder, _row(builder, rows, r), vec.V64), builder.gep(data, [at]))
        return context.get_dummy_value()

    return types.void(rows, array, types.intp, types.intp, types.intp), codegen


@intrinsic
def fma_rows(typingctx, rows, a, index, stride, last, b, column):
    """rows[r] = a[index + stride · min(r, last)] · b[column : column + 8] + rows[r], rounded once."""

    def codegen(context, builder, signature, args):
        rows, a, *where, b, column = args
        data = vec.data_of(context, builder, signature.args[1], a)
        right = vec.elements(context, builder, signature.args[5], b, column, vec.V64)
        for r, at in _places(builder, *where):
            left = vec.splat(builder, builder.load(builder.gep(data, [at])), vec.V64)
            pointer = _row(builder, rows, r)
            total = vec.call(builder, "fma", vec.V64, left, right, vec.load(builder, pointer, vec.V64))
            vec.store(builder, total, pointer)
        return context.get_dummy_value()

    return types.void(rows, a, types.intp, types.intp, types.intp, b, types.intp), codegen


@intrinsic
def fma_registers(typingctx, target, x, y):
    """target = x · y + target, rounded once."""

    def codegen(context, builder, signature, args):
        total, first, second = (vec.load(builder, slot, vec.V64) for slot in args)
        vec.store(builder, vec.call(builder, "fma", vec.V64, first, second, total), args[0])
        return context.get_dummy_value()

    return types.void(target, x, y), codegen


@intrinsic
def fma(typingctx, x, y, z):
    """x · y + z, rounded once."""

    def codegen(context, builder, signature, args):
        return vec.call(builder, "fma", vec.F64, *args)

    return types.float64(types.float64, types.float64, types.float64), codegen


@intrinsic
def quiet(typingctx, nan):
    """The NaN with its quiet bit set."""

    def codegen(context, builder, signature, args):
        bits = builder.or_(builder.bitcast(args[0], vec.I64), ir.Constant(vec.I64, 1 << 51))
        return builder.bitcast(bits, vec.F64)

    return types.float64(types.float64), codegen


@intrinsic
def negative_nan(typingctx):
    """The default NaN of an invalid operation, 0xfff8000000000000."""

    def codegen(context, builder, signature, args):
        return builder.bitcast(ir.Constant(vec.I64, 0xFFF8 << 48), vec.F64)

    return types.float64(), codegen
