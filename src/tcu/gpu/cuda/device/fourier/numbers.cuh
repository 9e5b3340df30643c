// Complex numbers in registers, and in memory: pairs of real numbers of any format.  What is computed with them is rounded
// step by step.
//
// Compiled with
//   WORK             BINARY32 or BINARY64: in which all is computed
//   ELEMENT, RESULT  formats of real numbers that are read and written

#pragma once

#include "device/finish/sixteen_bits.cuh"
#include "device/types/element.cuh"

namespace tcu::fourier {

#if WORK == BINARY64
typedef double Real;
#else
typedef float Real;
#endif

struct alignas(2 * sizeof(Real)) Complex {
    Real re, im;
};

__device__ inline float plus(float x, float y) { return __fadd_rn(x, y); }
__device__ inline double plus(double x, double y) { return __dadd_rn(x, y); }
__device__ inline float minus(float x, float y) { return __fsub_rn(x, y); }
__device__ inline double minus(double x, double y) { return __dsub_rn(x, y); }
__device__ inline float times(float x, float y) { return __fmul_rn(x, y); }
__device__ inline double times(double x, double y) { return __dmul_rn(x, y); }
__device__ inline float fused(float x, float y, float z) { return __fmaf_rn(x, y, z); }
__device__ inline double fused(double x, double y, double z) { return __fma_rn(x, y, z); }

__device__ inline Complex times(Complex x, Complex w) {
    return {fused(x.re, w.re, -times(x.im, w.im)), fused(x.re, w.im, times(x.im, w.re))};
}

__device__ inline Complex times(Complex x, Real factor) { return {times(x.re, factor), times(x.im, factor)}; }

__device__ inline Complex swapped(Complex x) { return {x.im, x.re}; }

struct alignas(2 * sizeof(Code)) CodePair {
    Code re, im;
};

__device__ inline Real widened(Code code) {
    if constexpr (WORK == BINARY64) return static_cast<Real>(to_binary64(code));
    return static_cast<Real>(to_binary32(code));
}

__device__ inline Complex read_pair(const void* source, i64 at) {
    const CodePair pair = static_cast<const CodePair*>(source)[at];
    return {widened(pair.re), widened(pair.im)};
}

__device__ inline Complex read_real(const void* source, i64 at) {
    return {widened(static_cast<const Code*>(source)[at]), 0};
}

__device__ inline void write_pair(void* target, i64 at, Complex x) {
#if RESULT == BINARY16
    static_cast<u32*>(target)[at] = finish::rounded_pair(static_cast<float>(x.re), static_cast<float>(x.im));
#else
    static_cast<Complex*>(target)[at] = x;
#endif
}

__device__ inline void write_real(void* target, i64 at, Complex x) {
#if RESULT == BINARY16
    static_cast<u16*>(target)[at] = finish::rounded_16(static_cast<float>(x.re));
#else
    static_cast<Real*>(target)[at] = x.re;
#endif
}

}  // namespace tcu::fourier
