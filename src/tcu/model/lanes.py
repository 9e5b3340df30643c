"""Eight numbers at a time: the few vector operations that the model's kernels need.

Numba leaves inner loops of eight scalars scalar (measured: 360,000 m16n8k16
MMAs per second with the alignment alone, on one core of a Xeon 8488C class
machine), so these operations are spelled as LLVM vectors.  A *register* is a
stack slot that LLVM promotes to a machine register; LLVM lowers it to whatever
the processor has (SSE2, AVX2, AVX-512, NEON).
"""
# Numba intrinsics are typed by the compiler, not by annotations.
# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc"

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

__all__ = [
    "LANES",
    "add",
    "add_product",
    "add_truncated",
    "clear",
    "decode",
    "exponent_scale",
    "exponents_of",
    "f64_register",
    "flush",
    "fma",
    "fma_lanes",
    "from_units",
    "i32_register",
    "load_f64",
    "load_i32",
    "max_exponent",
    "max_product_exponent",
    "move",
    "multiply",
    "negative_nan",
    "quiet",
    "round_down",
    "round_nearest",
    "round_up",
    "round_zero",
    "store",
    "store_f32",
    "to_units",
    "truncate",
]

LANES = 8
ZERO_EXPONENT = -(1 << 20)
"""Exponent of a zero: smaller than every sum of two real ones."""

_F64, _F32, _I64, _I32 = ir.DoubleType(), ir.FloatType(), ir.IntType(64), ir.IntType(32)
_V64, _V32 = ir.VectorType(_F64, LANES), ir.VectorType(_F32, LANES)
_W64, _W32 = ir.VectorType(_I64, LANES), ir.VectorType(_I32, LANES)
_F64_POINTER, _I32_POINTER = types.CPointer(types.float64), types.CPointer(types.int32)


def _splat(builder: Any, scalar: Any, vector: ir.VectorType) -> Any:
    seed = builder.insert_element(ir.Constant(vector, ir.Undefined), scalar, ir.Constant(_I32, 0))
    mask = ir.Constant(ir.VectorType(_I32, LANES), [0] * LANES)
    return builder.shuffle_vector(seed, ir.Constant(vector, ir.Undefined), mask)


def _constant(vector: ir.VectorType, value: Any) -> Any:
    return ir.Constant(vector, [value] * LANES)


def _call(builder: Any, name: str, vector: Any, *arguments: Any) -> Any:
    suffix = {_V64: "v8f64", _V32: "v8f32", _W32: "v8i32", _W64: "v8i64", _F64: "f64"}[vector]
    kind = ir.FunctionType(vector, [argument.type for argument in arguments])
    function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}.{suffix}")
    return builder.call(function, arguments)


def _load(builder: Any, pointer: Any, vector: ir.VectorType) -> Any:
    return builder.load(builder.bitcast(pointer, vector.as_pointer()), align=4)


def _store(builder: Any, value: Any, pointer: Any) -> None:
    builder.store(value, builder.bitcast(pointer, value.type.as_pointer()), align=4)


def _element(context: Any, builder: Any, array_type: Any, array: Any, index: Any, vector: Any) -> Any:
    """Eight elements of a one-dimensional contiguous array, from ``index`` on."""
    data = context.make_array(array_type)(context, builder, array).data
    pointer = builder.gep(data, [index])
    return builder.load(builder.bitcast(pointer, vector.as_pointer()), align=array_type.dtype.bitwidth // 8)


def _power_of_two(builder: Any, exponent: Any) -> Any:
    """2^exponent for i32 lanes in the normal range of binary64."""
    biased = builder.add(builder.sext(exponent, _W64), _constant(_W64, 1023))
    return builder.bitcast(builder.shl(biased, _constant(_W64, 52)), _V64)


@intrinsic
def f64_register(typingctx):
    """A register of eight float64."""

    def codegen(context, builder, signature, args):
        slot = cgutils.alloca_once(builder, _V64)
        return builder.bitcast(slot, _F64.as_pointer())

    return _F64_POINTER(), codegen


@intrinsic
def i32_register(typingctx):
    """A register of eight int32."""

    def codegen(context, builder, signature, args):
        slot = cgutils.alloca_once(builder, _W32)
        return builder.bitcast(slot, _I32.as_pointer())

    return _I32_POINTER(), codegen


@intrinsic
def clear(typingctx, register):
    """register = 0."""

    def codegen(context, builder, signature, args):
        vector = _V64 if signature.args[0] == _F64_POINTER else _W32
        _store(builder, ir.Constant(vector, None), args[0])
        return context.get_dummy_value()

    return types.void(register), codegen


@intrinsic
def move(typingctx, target, source):
    """target = source."""

    def codegen(context, builder, signature, args):
        vector = _V64 if signature.args[0] == _F64_POINTER else _W32
        _store(builder, _load(builder, args[1], vector), args[0])
        return context.get_dummy_value()

    return types.void(target, source), codegen


@intrinsic
def load_f64(typingctx, register, array, index):
    """register = array[index : index + 8]."""

    def codegen(context, builder, signature, args):
        _store(builder, _element(context, builder, signature.args[1], args[1], args[2], _V64), args[0])
        return context.get_dummy_value()

    return types.void(register, array, types.intp), codegen


@intrinsic
def load_i32(typingctx, register, array, index):
    """register = array[index : index + 8]."""

    def codegen(context, builder, signature, args):
        _store(builder, _element(context, builder, signature.args[1], args[1], args[2], _W32), args[0])
        return context.get_dummy_value()

    return types.void(register, array, types.intp), codegen


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
        raw = _element(context, builder, signature.args[0], array, at, ir.VectorType(ir.IntType(bits), LANES))
        code = raw if bits == 32 else builder.zext(raw, _W32)
        code = builder.lshr(code, _splat(builder, down, _W32))
        one = _constant(_W32, 1)
        f = _splat(builder, fraction, _W32)
        sign_at = _splat(builder, builder.add(width, fraction), _W32)
        negative = builder.icmp_unsigned(
            "!=", builder.and_(builder.lshr(code, sign_at), one), _constant(_W32, 0)
        )
        magnitude = builder.and_(code, builder.sub(builder.shl(one, sign_at), one))
        field = builder.lshr(magnitude, f)
        hidden = builder.shl(one, f)
        rest = builder.and_(magnitude, builder.sub(hidden, one))
        normal = builder.icmp_unsigned("!=", field, _constant(_W32, 0))
        significand = builder.select(normal, builder.or_(rest, hidden), rest)
        flushed = _splat(
            builder,
            builder.icmp_unsigned("!=", flushing, ir.Constant(flushing.type, 0)),
            ir.VectorType(ir.IntType(1), LANES),
        )
        significand = builder.select(
            builder.and_(flushed, builder.not_(normal)), _constant(_W32, 0), significand
        )
        special = builder.icmp_unsigned(">", magnitude, _splat(builder, largest, _W32))
        infinite = builder.icmp_unsigned("==", rest, _constant(_W32, 0))
        significand = builder.select(special, _constant(_W32, 0), significand)
        bias = builder.sub(
            builder.shl(ir.Constant(_I32, 1), builder.sub(width, ir.Constant(_I32, 1))), ir.Constant(_I32, 1)
        )
        exponent = builder.sub(_call(builder, "smax", _W32, field, one), _splat(builder, bias, _W32))
        zero = builder.icmp_unsigned("==", significand, _constant(_W32, 0))
        scale = _power_of_two(builder, builder.sub(exponent, f))
        value = builder.fmul(builder.sitofp(significand, _V64), scale)
        value = builder.select(negative, builder.fneg(value), value)
        kind = builder.select(infinite, _constant(_V64, float("inf")), _constant(_V64, float("nan")))
        kind = builder.select(special, kind, builder.select(zero, _constant(_V64, 0.0), _constant(_V64, 1.0)))
        kind = builder.select(negative, builder.fneg(kind), kind)
        _store(builder, value, value_slot)
        _store(builder, builder.select(zero, _constant(_W32, ZERO_EXPONENT), exponent), exponent_slot)
        _store(builder, kind, special_slot)
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
        element = _element(context, builder, signature.args[2], args[2], args[3], _W32)
        total = builder.add(_splat(builder, args[1], _W32), element)
        _store(builder, _call(builder, "smax", _W32, _load(builder, args[0], _W32), total), args[0])
        return context.get_dummy_value()

    return types.void(exponents, types.int32, array, types.intp), codegen


@intrinsic
def max_product_exponent(typingctx, exponents, scalar, array, index):
    """exponents = max(exponents, exponent of the leading bit of scalar · array[...]); zeros are left out."""

    def codegen(context, builder, signature, args):
        element = _element(context, builder, signature.args[2], args[2], args[3], _V64)
        product = builder.fmul(_splat(builder, args[1], _V64), element)
        field = builder.and_(
            builder.lshr(builder.bitcast(product, _W64), _constant(_W64, 52)), _constant(_W64, 0x7FF)
        )
        exponent = builder.sub(builder.trunc(field, _W32), _constant(_W32, 1023))
        zero = builder.fcmp_ordered("==", product, _constant(_V64, 0.0))
        exponent = builder.select(zero, _constant(_W32, ZERO_EXPONENT), exponent)
        _store(builder, _call(builder, "smax", _W32, _load(builder, args[0], _W32), exponent), args[0])
        return context.get_dummy_value()

    return types.void(exponents, types.float64, array, types.intp), codegen


@intrinsic
def exponent_scale(typingctx, scale, exponents, floor, fraction_bits, sign):
    """exponents = max(exponents, floor); scale = 2^(sign · (fraction_bits - exponents))."""

    def codegen(context, builder, signature, args):
        exponent = _call(builder, "smax", _W32, _load(builder, args[1], _W32), _splat(builder, args[2], _W32))
        power = builder.sub(_splat(builder, args[3], _W32), exponent)
        _store(builder, _power_of_two(builder, builder.mul(power, _splat(builder, args[4], _W32))), args[0])
        return context.get_dummy_value()

    i32 = types.int32
    return types.void(scale, exponents, i32, i32, i32), codegen


@intrinsic
def truncate(typingctx, target, value, scale):
    """target = trunc(value · scale)."""

    def codegen(context, builder, signature, args):
        product = builder.fmul(_load(builder, args[1], _V64), _load(builder, args[2], _V64))
        _store(builder, _call(builder, "trunc", _V64, product), args[0])
        return context.get_dummy_value()

    return types.void(target, value, scale), codegen


@intrinsic
def add_truncated(typingctx, target, scalar, array, index, scale):
    """target += trunc(scalar · array[index : index + 8] · scale)."""

    def codegen(context, builder, signature, args):
        element = _element(context, builder, signature.args[2], args[2], args[3], _V64)
        product = builder.fmul(_splat(builder, args[1], _V64), element)
        whole = _call(builder, "trunc", _V64, builder.fmul(product, _load(builder, args[4], _V64)))
        _store(builder, builder.fadd(_load(builder, args[0], _V64), whole), args[0])
        return context.get_dummy_value()

    return types.void(target, types.float64, array, types.intp, scale), codegen


@intrinsic
def add_product(typingctx, target, scalar, array, index):
    """target += scalar · array[index : index + 8], rounded twice."""

    def codegen(context, builder, signature, args):
        element = _element(context, builder, signature.args[2], args[2], args[3], _V64)
        product = builder.fmul(_splat(builder, args[1], _V64), element)
        _store(builder, builder.fadd(_load(builder, args[0], _V64), product), args[0])
        return context.get_dummy_value()

    return types.void(target, types.float64, array, types.intp), codegen


@intrinsic
def add(typingctx, target, source):
    """target += source."""

    def codegen(context, builder, signature, args):
        total = builder.fadd(_load(builder, args[0], _V64), _load(builder, args[1], _V64))
        _store(builder, total, args[0])
        return context.get_dummy_value()

    return types.void(target, source), codegen


@intrinsic
def multiply(typingctx, target, source):
    """target *= source."""

    def codegen(context, builder, signature, args):
        product = builder.fmul(_load(builder, args[0], _V64), _load(builder, args[1], _V64))
        _store(builder, product, args[0])
        return context.get_dummy_value()

    return types.void(target, source), codegen


@intrinsic
def to_units(typingctx, value, quantum, emin, fraction_bits):
    """quantum = the unit in the last place of ``value`` in a format, value /= quantum; both exact."""

    def codegen(context, builder, signature, args):
        x = _load(builder, args[0], _V64)
        field = builder.lshr(builder.bitcast(x, _W64), _constant(_W64, 52))
        exponent = builder.trunc(builder.and_(field, _constant(_W64, 0x7FF)), _W32)
        exponent = builder.sub(exponent, _constant(_W32, 1023))
        exponent = _call(builder, "smax", _W32, exponent, _splat(builder, args[2], _W32))
        low = builder.sub(exponent, _splat(builder, args[3], _W32))
        _store(builder, builder.fmul(x, _power_of_two(builder, builder.neg(low))), args[0])
        _store(builder, _power_of_two(builder, low), args[1])
        return context.get_dummy_value()

    return types.void(value, quantum, types.int32, types.int32), codegen


def _rounding(llvm_name: str, meaning: str) -> Any:
    def round_(typingctx, value):
        def codegen(context, builder, signature, args):
            _store(builder, _call(builder, llvm_name, _V64, _load(builder, args[0], _V64)), args[0])
            return context.get_dummy_value()

        return types.void(value), codegen

    round_.__doc__ = meaning
    return intrinsic(round_)


round_nearest = _rounding("rint", "Round to integers, ties to even.")
round_zero = _rounding("trunc", "Round to integers, toward zero.")
round_up = _rounding("ceil", "Round to integers, toward +inf.")
round_down = _rounding("floor", "Round to integers, toward -inf.")


@intrinsic
def from_units(typingctx, value, quantum, specials, limit, smallest):
    """value *= quantum; -0 becomes +0; at ``limit`` and above inf joins the specials; below ``smallest``, 0."""

    def codegen(context, builder, signature, args):
        zero = _constant(_V64, 0.0)
        x = builder.fmul(_load(builder, args[0], _V64), _load(builder, args[1], _V64))
        magnitude = _call(builder, "fabs", _V64, x)
        over = builder.fcmp_ordered(">=", magnitude, _splat(builder, args[3], _V64))
        infinite = _call(builder, "copysign", _V64, _constant(_V64, float("inf")), x)
        # Where a term was inf or NaN the finite rest decides nothing, so it cannot overflow either.
        kind = _load(builder, args[2], _V64)
        calm = builder.fcmp_ordered("<", _call(builder, "fabs", _V64, kind), _constant(_V64, float("inf")))
        kind = builder.select(builder.and_(over, calm), infinite, kind)
        tiny = builder.fcmp_ordered("<", magnitude, _splat(builder, args[4], _V64))
        x = builder.select(builder.or_(over, tiny), zero, x)
        _store(builder, builder.fadd(x, zero), args[0])
        _store(builder, kind, args[2])
        return context.get_dummy_value()

    return types.void(value, quantum, specials, types.float64, types.float64), codegen


@intrinsic
def exponents_of(typingctx, exponents, value, emin):
    """exponents = those of ``value`` in a format (emin for subnormals, ZERO_EXPONENT for zero)."""

    def codegen(context, builder, signature, args):
        x = _load(builder, args[1], _V64)
        field = builder.lshr(builder.bitcast(x, _W64), _constant(_W64, 52))
        exponent = builder.trunc(builder.and_(field, _constant(_W64, 0x7FF)), _W32)
        exponent = builder.sub(exponent, _constant(_W32, 1023))
        exponent = _call(builder, "smax", _W32, exponent, _splat(builder, args[2], _W32))
        zero = builder.fcmp_ordered("==", x, _constant(_V64, 0.0))
        _store(builder, builder.select(zero, _constant(_W32, ZERO_EXPONENT), exponent), args[0])
        return context.get_dummy_value()

    return types.void(exponents, value, types.int32), codegen


@intrinsic
def flush(typingctx, value, smallest):
    """value = 0 where it is smaller than ``smallest`` in magnitude."""

    def codegen(context, builder, signature, args):
        x = _load(builder, args[0], _V64)
        tiny = builder.fcmp_ordered("<", _call(builder, "fabs", _V64, x), _splat(builder, args[1], _V64))
        _store(builder, builder.select(tiny, _constant(_V64, 0.0), x), args[0])
        return context.get_dummy_value()

    return types.void(value, types.float64), codegen


@intrinsic
def store_f32(typingctx, value, specials, array, index, nan_code):
    """array[index : index + 8] = the bits of float32(value), or the inf or NaN among the specials."""

    def codegen(context, builder, signature, args):
        value, kind = _load(builder, args[0], _V64), _load(builder, args[1], _V64)
        infinite = builder.fcmp_ordered(
            "==", _call(builder, "fabs", _V64, kind), _constant(_V64, float("inf"))
        )
        bits = builder.bitcast(builder.fptrunc(builder.select(infinite, kind, value), _V32), _W32)
        nan = builder.fcmp_unordered("uno", kind, kind)
        bits = builder.select(nan, _splat(builder, args[4], _W32), bits)
        data = context.make_array(signature.args[2])(context, builder, args[2]).data
        _store(builder, bits, builder.gep(data, [args[3]]))
        return context.get_dummy_value()

    return types.void(value, specials, array, types.intp, types.int32), codegen


@intrinsic
def store(typingctx, register, array, index):
    """array[index : index + 8] = register."""

    def codegen(context, builder, signature, args):
        vector = _V64 if signature.args[0] == _F64_POINTER else _W32
        data = context.make_array(signature.args[1])(context, builder, args[1]).data
        _store(builder, _load(builder, args[0], vector), builder.gep(data, [args[2]]))
        return context.get_dummy_value()

    return types.void(register, array, types.intp), codegen


@intrinsic
def fma_lanes(typingctx, target, scalar, array, index):
    """target = scalar · array[index : index + 8] + target, rounded once; true if one is NaN."""

    def codegen(context, builder, signature, args):
        element = _element(context, builder, signature.args[2], args[2], args[3], _V64)
        total = _call(
            builder, "fma", _V64, _splat(builder, args[1], _V64), element, _load(builder, args[0], _V64)
        )
        _store(builder, total, args[0])
        nan = builder.bitcast(builder.fcmp_unordered("uno", total, total), ir.IntType(LANES))
        return builder.icmp_unsigned("!=", nan, ir.Constant(ir.IntType(LANES), 0))

    return types.boolean(target, types.float64, array, types.intp), codegen


@intrinsic
def fma(typingctx, x, y, z):
    """x · y + z, rounded once."""

    def codegen(context, builder, signature, args):
        return _call(builder, "fma", _F64, *args)

    return types.float64(types.float64, types.float64, types.float64), codegen


@intrinsic
def quiet(typingctx, nan):
    """The NaN with its quiet bit set."""

    def codegen(context, builder, signature, args):
        bits = builder.or_(builder.bitcast(args[0], _I64), ir.Constant(_I64, 1 << 51))
        return builder.bitcast(bits, _F64)

    return types.float64(types.float64), codegen


@intrinsic
def negative_nan(typingctx):
    """The default NaN of an invalid operation, 0xfff8000000000000."""

    def codegen(context, builder, signature, args):
        return builder.bitcast(ir.Constant(_I64, 0xFFF8 << 48), _F64)

    return types.float64(), codegen
