// The last steps of a matrix product's plan: scales of a row and a column, a bias, and one rounding.
//
//   FACTORS   whether there are any
//   RESULT    the result's format, S32 where integers stay

#pragma once

#include "device/finish/sixteen_bits.cuh"
#include "device/types/options.cuh"
#include "device/types/types.cuh"

#define S32 4

namespace tcu::finish {

#include "generated/factors/Factor.inc"
#include "generated/factors/Factors.inc"

// Number i, in the format outside the unit: float or double.
template <typename Real>
__device__ inline Real number(const Factor& f, i64 i) {
    if (f.numbers == nullptr) return static_cast<Real>(f.number);
    i *= f.step;
    if (f.kind == BINARY64) return static_cast<Real>(__ldg(static_cast<const double*>(f.numbers) + i));
    if (f.kind == BINARY32) return __ldg(static_cast<const float*>(f.numbers) + i);
    const u16 code = __ldg(static_cast<const u16*>(f.numbers) + i);
    if (f.kind == BFLOAT16) return __uint_as_float(static_cast<u32>(code) << 16);
    float value;
    asm("{ .reg .b16 h; mov.b16 h, %1; cvt.f32.f16 %0, h; }" : "=f"(value) : "h"(code));
    return value;
}

__device__ inline float multiply(float a, float b) { return __fmul_rn(a, b); }
__device__ inline double multiply(double a, double b) { return __dmul_rn(a, b); }
__device__ inline float add(float a, float b) { return __fadd_rn(a, b); }
__device__ inline double add(double a, double b) { return __dadd_rn(a, b); }
__device__ inline int add(int a, int b) { return static_cast<int>(static_cast<u32>(a) + static_cast<u32>(b)); }

// In the order of the plan.
template <typename Real>
__device__ inline Real scaled(const Factors& f, Real x, Real of_row, i64 column) {
    return add(multiply(multiply(x, of_row), number<Real>(f.scale_b, column)), number<Real>(f.bias, column));
}

// A sum as a number whose rounding to RESULT is that of the sum; an integer's bits where it stays one.
__device__ inline float carried(float sum) { return sum; }
__device__ inline float carried(int sum) {
    if constexpr (FACTORS || RESULT == BINARY32) return __int2float_rn(sum);
    if constexpr (RESULT == S32 || RESULT == BINARY64) return __int_as_float(sum);
    const float cut = __int2float_rz(sum);  // rounded to odd, which a second rounding does not see
    return __uint_as_float(__float_as_uint(cut) | (static_cast<double>(cut) != sum));
}

// Result number i.
template <typename Real>
__device__ inline void store_result(void* out, i64 i, Real x) {
    const bool nan = x != x;
    if constexpr (RESULT == BINARY64) static_cast<double*>(out)[i] = x;
    else if constexpr (RESULT == BINARY32) static_cast<u32*>(out)[i] = nan ? 0x7fffffff : __float_as_uint(static_cast<float>(x));
    else static_cast<u16*>(out)[i] = nan ? 0x7fff : rounded_16(x);
}

__device__ inline void store_result(void* out, i64 i, int x) {
    if constexpr (RESULT == S32) static_cast<int*>(out)[i] = x;
    else store_result(out, i, static_cast<double>(x));
}

}  // namespace tcu::finish
