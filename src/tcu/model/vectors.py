"""LLVM vectors of eight numbers: the pieces that :mod:`tcu.model.lanes` is built from."""
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils

LANES = 8
ZERO_EXPONENT = -(1 << 20)
"""Exponent of a zero: smaller than every sum of two real ones."""

F64, F32, I64, I32 = ir.DoubleType(), ir.FloatType(), ir.IntType(64), ir.IntType(32)
V64, V32 = ir.VectorType(F64, LANES), ir.VectorType(F32, LANES)
W64, W32 = ir.VectorType(I64, LANES), ir.VectorType(I32, LANES)
W16 = ir.VectorType(ir.IntType(16), LANES)


def splat(builder: Any, scalar: Any, vector: ir.VectorType) -> Any:
    seed = builder.insert_element(ir.Constant(vector, ir.Undefined), scalar, ir.Constant(I32, 0))
    mask = ir.Constant(ir.VectorType(I32, LANES), [0] * LANES)
    return builder.shuffle_vector(seed, ir.Constant(vector, ir.Undefined), mask)


def constant(vector: ir.VectorType, value: Any) -> Any:
    return ir.Constant(vector, [value] * LANES)


def call(builder: Any, name: str, vector: Any, *arguments: Any) -> Any:
    suffix = {V64: "v8f64", V32: "v8f32", W32: "v8i32", W64: "v8i64", F64: "f64"}[vector]
    kind = ir.FunctionType(vector, [argument.type for argument in arguments])
    function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}.{suffix}")
    return builder.call(function, arguments)


def load(builder: Any, pointer: Any, vector: ir.VectorType) -> Any:
    return builder.load(builder.bitcast(pointer, vector.as_pointer()), align=4)


def store(builder: Any, value: Any, pointer: Any) -> None:
    builder.store(value, builder.bitcast(pointer, value.type.as_pointer()), align=4)


def data_of(context: Any, builder: Any, array_type: Any, array: Any) -> Any:
    """The pointer to an array's first element.

    Read from the array's fields: a structure of Numba's for each use took LLVM half of the time to compile a kernel.
    """
    return builder.extract_value(array, context.data_model_manager[array_type].get_field_position("data"))


def elements(context: Any, builder: Any, array_type: Any, array: Any, index: Any, vector: Any) -> Any:
    """Eight elements of a one-dimensional contiguous array, from ``index`` on."""
    data = data_of(context, builder, array_type, array)
    pointer = builder.gep(data, [index])
    return builder.load(builder.bitcast(pointer, vector.as_pointer()), align=array_type.dtype.bitwidth // 8)


def power_of_two(builder: Any, exponent: Any) -> Any:
    """2^exponent for i32 lanes in the normal range of binary64."""
    biased = builder.add(builder.sext(exponent, W64), constant(W64, 1023))
    return builder.bitcast(builder.shl(biased, constant(W64, 52)), V64)


def exponent_of(builder: Any, value: Any) -> Any:
    """The exponents of float64 lanes as i32 lanes; -1023 for zero and subnormals."""
    field = builder.lshr(builder.bitcast(value, W64), constant(W64, 52))
    return builder.sub(builder.trunc(builder.and_(field, constant(W64, 0x7FF)), W32), constant(W32, 1023))


def from_binary16(builder: Any, codes: Any) -> Any:
    """The float64 values of binary16 codes in i32 lanes, without the half type that not every processor has."""
    magnitude = builder.and_(codes, constant(W32, 0x7FFF))
    sign = builder.shl(builder.and_(codes, constant(W32, 0x8000)), constant(W32, 16))
    shifted = builder.shl(magnitude, constant(W32, 13))
    bits = builder.add(shifted, constant(W32, 127 - 15 << 23))
    special = builder.icmp_unsigned(">=", magnitude, constant(W32, 0x7C00))
    bits = builder.select(special, builder.or_(shifted, constant(W32, 0xFF << 23)), bits)
    tiny = builder.icmp_unsigned("<", magnitude, constant(W32, 0x0400))
    small = builder.fmul(builder.sitofp(magnitude, V32), constant(V32, 2.0**-24))
    bits = builder.select(tiny, builder.bitcast(small, W32), bits)
    return builder.fpext(builder.bitcast(builder.or_(bits, sign), V32), V64)
