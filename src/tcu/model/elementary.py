"""Exponentials and logarithms as fixed sequences of IEEE operations, which a GPU executes as they stand.

Additions, multiplications, fused multiply-adds and divisions round to nearest; no library's exp or log takes part,
whose last bits differ from one to the next.  ``cuda/device/elementary/functions.cuh`` has the same sequences.

=================  =========================================  ==============================================
function           arguments                                  largest error, and how it is known
=================  =========================================  ==============================================
``exp``            every number of binary32                   0.892 ulp: all 2^32 arguments
``log``            every number of binary32                   0.501 ulp: all 2^32 arguments
``exp_scaled``     binary32 from -104 to 0; 2^44·exp          that of ``exp``, without its subnormals
``exp_scaled64``   binary64 from -746 to 0; 2^80·exp          below 1 ulp: 10^6 arguments
``log64``          binary64, positive and normal              below 1 ulp: 10^6 arguments; fdlibm's sequence
=================  =========================================  ==============================================
"""
# Compiled by Numba, which types them; the intrinsics take one argument less than Python sees.
# mypy: ignore-errors

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from tcu.model.jit import jit
from tcu.plan.whole_sums import SCALE, SCALE64

__all__ = ["exp", "exp_scaled", "exp_scaled64", "log", "log64", "nearest"]

F32, F64 = np.float32, np.float64

# exp(x) = 2^k · exp(r), r = x - k·ln 2 with ln 2 in two parts, the first so short that k times it is exact.  Adding
# 1.5·2^23 (1.5·2^52) rounds to a whole number, and leaves it in the low bits.
_LOG2E, _LN2_HIGH, _LN2_LOW = F32(1.4426950408889634), F32(0.693145751953125), F32(1.4286068203094172e-06)
_ROUND = F32(1.5 * 2**23)
_ROUND_SCALED = F32(1.5 * 2**23 + SCALE)
# (exp(r) - 1 - r) / r² by Remez' algorithm on |r| <= ln 2 / 2: within 0.05 ulp of exp(r) once rounded to binary32.
_P0, _P1, _P2 = F32(0.4999999403953552), F32(0.1666652113199234), F32(0.04166838899254799)
_P3, _P4 = F32(0.00836874544620514), F32(0.0013814540579915047)

_LOG2E_64, _LN2_HIGH_64, _LN2_LOW_64 = (
    1.4426950408889634,
    6.93147180369123816490e-01,
    1.90821492927058770002e-10,
)
_ROUND_SCALED_64 = 1.5 * 2.0**52 + SCALE64
# Taylor's: the first term left out, r^14 / 14!, is below 2^-57.
_T13, _T12, _T11, _T10 = 1 / 6227020800, 1 / 479001600, 1 / 39916800, 1 / 3628800
_T9, _T8, _T7, _T6, _T5, _T4, _T3 = 1 / 362880, 1 / 40320, 1 / 5040, 1 / 720, 1 / 120, 1 / 24, 1 / 6

# log(1 + f) = f - (f²/2 - s·(f²/2 + R)), s = f / (2 + f), R a polynomial in s², of fdlibm's e_log.c.
_L1, _L2, _L3 = 6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01
_L4, _L5, _L6, _L7 = (
    2.222219843214978396e-01, 1.818357216161805012e-01, 1.531383769920937332e-01, 1.479819860511658591e-01,
)  # fmt: skip
_HALF_SQUARE = np.int64(0x3FE6A09E00000000)
"""The bits of the root of 1/2, about: a number's fraction is between it and its double."""


def _cast(kind, like):
    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], kind)

    return like, codegen


@intrinsic
def bits32(typingctx, x):
    return _cast(ir.IntType(32), types.int32(types.float32))


@intrinsic
def float32_of(typingctx, bits):
    return _cast(ir.FloatType(), types.float32(types.int32))


@intrinsic
def bits64(typingctx, x):
    return _cast(ir.IntType(64), types.int64(types.float64))


@intrinsic
def float64_of(typingctx, bits):
    return _cast(ir.DoubleType(), types.float64(types.int64))


@intrinsic
def fma(typingctx, x, y, z):
    """x · y + z of one format, rounded once."""
    kind, suffix = {types.float32: (ir.FloatType(), "f32"), types.float64: (ir.DoubleType(), "f64")}[z]

    def codegen(context, builder, signature, args):
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(kind, [kind] * 3), f"llvm.fma.{suffix}"
        )
        return builder.call(function, args)

    return z(z, z, z), codegen


@intrinsic
def nearest(typingctx, x):
    """The nearest whole number, ties to even."""
    kind, suffix = {types.float32: (ir.FloatType(), "f32"), types.float64: (ir.DoubleType(), "f64")}[x]

    def codegen(context, builder, signature, args):
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(kind, [kind]), f"llvm.rint.{suffix}"
        )
        return builder.call(function, args)

    return x(x), codegen


@njit(nogil=True, inline="always")
def _polynomial(r):
    """exp(r) for |r| <= ln 2 / 2."""
    p = fma(_P4, r, _P3)
    p = fma(p, r, _P2)
    p = fma(p, r, _P1)
    p = fma(p, r, _P0)
    p = fma(p, r, F32(1))
    return fma(p, r, F32(1))


@njit(nogil=True, inline="always")
def exp_scaled(x):
    """2^44 · exp(x), x from -104 to 0."""
    t = fma(x, _LOG2E, _ROUND_SCALED)
    k = t - _ROUND_SCALED
    r = fma(k, -_LN2_LOW, fma(k, -_LN2_HIGH, x))
    return float32_of(np.int32(bits32(_polynomial(r)) + np.int32(bits32(t) << np.int32(23))))


@njit(nogil=True, inline="always")
def _exp(x):
    """exp(x) of any number: 2^k in two factors, of which the last product alone rounds."""
    c = min(max(x, F32(-104)), F32(89))
    t = fma(c, _LOG2E, _ROUND)
    k = t - _ROUND
    r = fma(k, -_LN2_LOW, fma(k, -_LN2_HIGH, c))
    whole = np.int32(bits32(t) << np.int32(23)) >> np.int32(23)
    half = whole >> np.int32(1)
    first = float32_of(np.int32((half + np.int32(127)) << np.int32(23)))
    second = float32_of(np.int32((whole - half + np.int32(127)) << np.int32(23)))
    return x if x != x else _polynomial(r) * first * second


@njit(nogil=True, inline="always")
def exp_scaled64(x):
    """2^80 · exp(x), x from -746 to 0."""
    t = fma(x, _LOG2E_64, _ROUND_SCALED_64)
    k = t - _ROUND_SCALED_64
    r = fma(k, -_LN2_LOW_64, fma(k, -_LN2_HIGH_64, x))
    p = fma(_T13, r, _T12)
    p = fma(p, r, _T11)
    p = fma(p, r, _T10)
    p = fma(p, r, _T9)
    p = fma(p, r, _T8)
    p = fma(p, r, _T7)
    p = fma(p, r, _T6)
    p = fma(p, r, _T5)
    p = fma(p, r, _T4)
    p = fma(p, r, _T3)
    p = fma(p, r, 0.5)
    p = fma(p, r, 1.0)
    p = fma(p, r, 1.0)
    return float64_of(bits64(p) + (bits64(t) << np.int64(52)))


@njit(nogil=True, inline="always")
def log64(x):
    """log(x) of a positive normal number."""
    k = (bits64(x) - _HALF_SQUARE) >> np.int64(52)
    f = float64_of(bits64(x) - (k << np.int64(52))) - 1.0
    n = F64(k)
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    even = w * (_L2 + w * (_L4 + w * _L6))
    odd = z * (_L1 + w * (_L3 + w * (_L5 + w * _L7)))
    half = 0.5 * f * f
    return n * _LN2_HIGH_64 - ((half - (s * (half + (odd + even)) + n * _LN2_LOW_64)) - f)


@jit
def exp(x, out):
    """The exponentials of a line of binary32."""
    for i in range(x.size):
        out[i] = _exp(x[i])


@jit
def log(x, out):
    """The logarithms of a line of binary32, by way of binary64."""
    for i in range(x.size):
        wide = F64(x[i])
        if x[i] > 0 and x[i] <= F32(3.4028234663852886e38):
            out[i] = F32(log64(wide))
        elif x[i] == 0:
            out[i] = F32(-np.inf)
        else:
            out[i] = x[i] if x[i] > 0 or x[i] != x[i] else F32(np.nan)
