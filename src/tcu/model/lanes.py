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

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from tcu.model import vectors as vec
from tcu.model.vectors import LANES, ZERO_EXPONENT

__all__ = [
    "LANES",
    "add",
    "add_product",
    "add_to_odd",
    "add_truncated",
    "clear",
    "clear_negative",
    "decode",
    "exponent_scale",
    "f64_register",
    "fma",
    "fma_registers",
    "i32_register",
    "load_f64",
    "load_wide",
    "max_exponent",
    "max_product_exponent",
    "move",
    "multiply",
    "negative_nan",
    "quiet",
    "store",
    "store_f32",
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
