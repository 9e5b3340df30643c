"""Eight numbers of binary64 rounded to a format: to units in the last place, to whole ones of these, and back."""
# Numba intrinsics are typed by the compiler, not by annotations.
# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc"

from __future__ import annotations

from typing import Any

from numba.core import types
from numba.extending import intrinsic

from tcu.model import vectors as vec
from tcu.model.vectors import ZERO_EXPONENT

__all__ = [
    "exponents_of", "flush", "from_units", "round_down", "round_nearest", "round_odd", "round_up", "round_zero",
    "to_units",
]  # fmt: skip


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
