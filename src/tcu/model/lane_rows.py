"""Eight rows of eight float64 in registers: a block of a product of matrices, by fused multiply-adds."""
# Numba intrinsics are typed by the compiler, not by annotations.
# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc"

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from tcu.model import vectors as vec
from tcu.model.vectors import LANES

__all__ = ["ROWS", "f64_rows", "fma_rows", "load_rows", "store_rows"]

_F64_POINTER = types.CPointer(types.float64)
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
