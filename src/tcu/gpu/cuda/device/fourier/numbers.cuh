// Complex numbers in registers, and in memory: pairs of real numbers of any FORMAT, BINARY16, BINARY32 or BINARY64.  What is
// computed with them is rounded step by step.
//
// Compiled with WORK: BINARY16, BINARY32 or BINARY64, in which all is computed.  In binary16 an instruction takes two numbers, those
// of two transforms beside each other: their lanes.

#pragma once

#include "device/load/first_out.cuh"
#include "device/types/ieee.cuh"
#include "device/types/lanes.cuh"
#include "device/types/options.cuh"
#include "device/types/types.cuh"

namespace tcu::fourier {

#if WORK == BINARY64
typedef double Floating;
#elif WORK == BINARY32
typedef float Floating;
#else
typedef Lanes Floating;
#endif

template <typename Real>
struct alignas(2 * sizeof(Real)) ComplexOf {
    Real re, im;
};
typedef ComplexOf<Floating> Complex;

using tcu::times;  // beside those of complex numbers

template <typename Real>
__device__ inline ComplexOf<Real> times(ComplexOf<Real> x, ComplexOf<Real> w) {
    return {fused(x.re, w.re, -times(x.im, w.im)), fused(x.re, w.im, times(x.im, w.re))};
}

template <typename Real>
__device__ inline ComplexOf<Real> times(ComplexOf<Real> x, Real factor) { return {times(x.re, factor), times(x.im, factor)}; }

__device__ inline Complex swapped(Complex x) { return {x.im, x.re}; }

// A constant, rounded to each format; the last is a code of binary16.
#if WORK == BINARY16
__device__ constexpr Floating constant(double, float, u32 code) { return {code * 0x10001}; }

// A factor of all lanes: its real part's code below its imaginary part's.
typedef u32 Twiddle;
__device__ inline Complex times(Complex x, Twiddle w) { return times(x, Complex{low_of(w), high_of(w)}); }
#else
__device__ constexpr Floating constant(double wide, float narrow, u32) {
    return WORK == BINARY64 ? static_cast<Floating>(wide) : static_cast<Floating>(narrow);
}

typedef Complex Twiddle;
#endif

#if WORK != BINARY16
// A number's bits.
typedef
#if WORK == BINARY64
    uint4
#else
    uint2
#endif
        PairWords;

__device__ inline Floating from_binary16(u32 code) {
    float value;
    asm("{ .reg .b16 h; mov.b16 h, %1; cvt.f32.f16 %0, h; }" : "=f"(value) : "h"(static_cast<u16>(code)));
    return static_cast<Floating>(value);
}

// A NaN has all fraction bits set.
__device__ inline u32 to_binary16(Complex x) {
    return lanes_of(static_cast<float>(x.re), static_cast<float>(x.im)).codes;
}

// LINES: the second cache fetches the whole line of a number of 4 bytes, as another block is about to read the rest.  Passes along
// columns took 1 to 4 % less time, of numbers of 8 bytes as long (H200).  ONCE: the line of a larger number leaves it first.
template <int FORMAT, bool LINES = false, bool ONCE = false>
__device__ inline Complex read_pair(const void* source, i64 at) {
    if constexpr (FORMAT == BINARY16) {
        const u32* const from = static_cast<const u32*>(source) + at;
        u32 codes;
        if constexpr (LINES)
            asm volatile("ld.global.L2::128B.b32 %0, [%1];" : "=r"(codes) : "l"(from));
        else
            codes = *from;
        return {from_binary16(codes), from_binary16(codes >> 16)};
    } else if constexpr (ONCE) {
        const PairWords words = load::read_first_out(static_cast<const PairWords*>(source) + at);
        Complex x;
        memcpy(&x, &words, sizeof x);
        return x;
    } else {
        return static_cast<const Complex*>(source)[at];
    }
}

template <int FORMAT>
__device__ inline Floating read_real(const void* source, i64 at) {
    if constexpr (FORMAT == BINARY16) return from_binary16(static_cast<const u16*>(source)[at]);
    return static_cast<const Floating*>(source)[at];
}

template <int FORMAT, bool ONCE = false>
__device__ inline void write_pair(void* target, i64 at, Complex x) {
    if constexpr (FORMAT == BINARY16) {
        static_cast<u32*>(target)[at] = to_binary16(x);
    } else if constexpr (ONCE) {
        PairWords words;
        memcpy(&words, &x, sizeof x);
        load::write_first_out(static_cast<PairWords*>(target) + at, words);
    } else {
        static_cast<Complex*>(target)[at] = x;
    }
}

template <int FORMAT>
__device__ inline void write_real(void* target, i64 at, Floating x) {
    if constexpr (FORMAT == BINARY16)
        static_cast<u16*>(target)[at] = static_cast<u16>(to_binary16({x, x}));
    else
        static_cast<Floating*>(target)[at] = x;
}

// Numbers k and half - k of the transforms of neighbouring real numbers as complex ones make number k of the transform of the
// real numbers, w = exp(-πik/half); and back.  The CPU takes the same steps (tcu/model/fft_kernels.py).
__device__ inline Complex unfolded(Complex near, Complex far, Complex w, Floating factor) {
    const Complex even = {plus(near.re, far.re), minus(near.im, far.im)};
    const Complex odd = times(Complex{plus(near.im, far.im), minus(far.re, near.re)}, w);
    return times(Complex{plus(even.re, odd.re), plus(even.im, odd.im)}, factor);
}

__device__ inline Complex folded(Complex near, Complex far, Complex w) {
    const Complex even = {plus(near.re, far.re), minus(near.im, far.im)};
    const Complex odd = times(Complex{minus(near.re, far.re), plus(near.im, far.im)}, Complex{w.re, -w.im});
    return {minus(even.re, odd.im), plus(even.im, odd.re)};
}

#endif  // WORK

}  // namespace tcu::fourier
