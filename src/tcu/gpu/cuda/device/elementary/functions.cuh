// Exponentials and logarithms as fixed sequences of IEEE operations: those of tcu/model/elementary.py, bit for bit.
//
// Every operation is one that rounds to nearest and that the compiler neither merges nor replaces.

#pragma once

#include "device/types/types.cuh"

namespace tcu::elementary {

constexpr int SCALE = 44, SCALE_64 = 80;

// 2^44 · exp(x), x from -104 to 0.
__device__ inline float exp_scaled(float x) {
    constexpr float ROUND = 12582912.0f + SCALE;
    const float t = __fmaf_rn(x, 1.4426950408889634f, ROUND);
    const float k = __fsub_rn(t, ROUND);
    const float r = __fmaf_rn(k, -1.4286068203094172e-06f, __fmaf_rn(k, -0.693145751953125f, x));
    float p = __fmaf_rn(0.0013814540579915047f, r, 0.00836874544620514f);
    p = __fmaf_rn(p, r, 0.04166838899254799f);
    p = __fmaf_rn(p, r, 0.1666652113199234f);
    p = __fmaf_rn(p, r, 0.4999999403953552f);
    p = __fmaf_rn(p, r, 1.0f);
    p = __fmaf_rn(p, r, 1.0f);
    return __uint_as_float(__float_as_uint(p) + (__float_as_uint(t) << 23));
}

// 2^80 · exp(x), x from -746 to 0.
__device__ inline double exp_scaled(double x) {
    constexpr double ROUND = 6755399441055744.0 + SCALE_64;
    const double t = __fma_rn(x, 1.4426950408889634, ROUND);
    const double k = __dsub_rn(t, ROUND);
    const double r = __fma_rn(k, -1.90821492927058770002e-10, __fma_rn(k, -6.93147180369123816490e-01, x));
    double p = __fma_rn(1.0 / 6227020800, r, 1.0 / 479001600);
    p = __fma_rn(p, r, 1.0 / 39916800);
    p = __fma_rn(p, r, 1.0 / 3628800);
    p = __fma_rn(p, r, 1.0 / 362880);
    p = __fma_rn(p, r, 1.0 / 40320);
    p = __fma_rn(p, r, 1.0 / 5040);
    p = __fma_rn(p, r, 1.0 / 720);
    p = __fma_rn(p, r, 1.0 / 120);
    p = __fma_rn(p, r, 1.0 / 24);
    p = __fma_rn(p, r, 1.0 / 6);
    p = __fma_rn(p, r, 0.5);
    p = __fma_rn(p, r, 1.0);
    p = __fma_rn(p, r, 1.0);
    return __longlong_as_double(__double_as_longlong(p) + (__double_as_longlong(t) << 52));
}

// log(x) of a positive normal number.
__device__ inline double log(double x) {
    const i64 bits = __double_as_longlong(x), k = (bits - 0x3fe6a09e00000000ll) >> 52;
    const double f = __dsub_rn(__longlong_as_double(bits - (k << 52)), 1.0), n = __ll2double_rn(k);
    const double s = __ddiv_rn(f, __dadd_rn(2.0, f)), z = __dmul_rn(s, s), w = __dmul_rn(z, z);
    double even = __dadd_rn(2.222219843214978396e-01, __dmul_rn(w, 1.531383769920937332e-01));
    even = __dmul_rn(w, __dadd_rn(3.999999999940941908e-01, __dmul_rn(w, even)));
    double odd = __dadd_rn(1.818357216161805012e-01, __dmul_rn(w, 1.479819860511658591e-01));
    odd = __dadd_rn(2.857142874366239149e-01, __dmul_rn(w, odd));
    odd = __dmul_rn(z, __dadd_rn(6.666666666666735130e-01, __dmul_rn(w, odd)));
    const double half = __dmul_rn(__dmul_rn(0.5, f), f);
    const double tail = __dmul_rn(s, __dadd_rn(half, __dadd_rn(odd, even)));
    const double low = __dadd_rn(tail, __dmul_rn(n, 1.90821492927058770002e-10));
    return __dsub_rn(__dmul_rn(n, 6.93147180369123816490e-01), __dsub_rn(__dsub_rn(half, low), f));
}

}  // namespace tcu::elementary
