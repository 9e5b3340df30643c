// The elements of an array in C order, 16 bytes at a time, whatever its alignment and strides.
//
// Compiled for one ELEMENT (types/element.cuh) and one LAYOUT:
//   ALIGNED  contiguous, from a multiple of 16 bytes on
//   SHIFTED  contiguous, from any element on: two aligned loads and a shift; the second load hits L1
//   STRIDED  anything else, element by element

#pragma once

#include "device/types/element.cuh"

namespace tcu::load {

#include "generated/sums/Array.inc"

// A load of data that are read once: they are not kept in L1.
__device__ inline uint4 read_once(const void* at) {
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(at));
    return v;
}

// COUNT neighbouring numbers, a power of two of up to 16 bytes, from a multiple of their bytes on.
template <int COUNT>
__device__ inline Vector neighbours(const Code* from) {
    constexpr int BYTES = COUNT * sizeof(Code);
    Vector x;
    if constexpr (BYTES == 16) {
        x.words = read_once(from);
    } else if constexpr (BYTES == 8) {
        const uint2 words = __ldg(reinterpret_cast<const uint2*>(from));
        x.word[0] = words.x;
        x.word[1] = words.y;
    } else if constexpr (BYTES == 4) {
        x.word[0] = __ldg(reinterpret_cast<const u32*>(from));
    } else {
        x.word[0] = *from;
    }
    return x;
}

#if LAYOUT == STRIDED
// Not inline: copies of these divisions in a hundred places took 40 s to compile.
__device__ __noinline__ Code element(const Array& a, i64 i) {
    i64 offset = 0;
    for (int d = static_cast<int>(a.dimensions) - 1; d > 0; --d) {
        const i64 outer = i / a.extents[d];
        offset += (i - outer * a.extents[d]) * a.strides[d];
        i = outer;
    }
    if (a.dimensions > 0) offset += i * a.strides[0];
    return static_cast<const Code*>(a.data)[offset];
}
#else
__device__ inline Code element(const Array& a, i64 i) { return static_cast<const Code*>(a.data)[i]; }
#endif

// Vector v: elements v * PER_LOAD and up.  All must be in the array.  Where SHIFTED, the 16 bytes that follow must be
// too.
__device__ inline Vector whole_vector(const Array& a, i64 v) {
    Vector r;
    if constexpr (LAYOUT == ALIGNED) {
        r.words = read_once(static_cast<const uint4*>(a.data) + v);
    } else if constexpr (LAYOUT == SHIFTED) {
        const u64 address = reinterpret_cast<u64>(a.data), shift = address % 16;
        const uint4* from = reinterpret_cast<const uint4*>(address - shift) + v;
        const uint4 low = __ldg(from), high = __ldg(from + 1);
        const u32 words[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
        // The shift is the same for all threads, so that nothing diverges, and no array is indexed at run time.
        const u32 bits = shift % 4 * 8;
#pragma unroll
        for (int skip = 0; skip < 4; ++skip) {
            if (shift / 4 != skip) continue;
#pragma unroll
            for (int i = 0; i < 4; ++i) r.word[i] = __funnelshift_r(words[skip + i], words[(skip + i + 1) % 8], bits);
        }
    } else {
#pragma unroll
        for (int i = 0; i < PER_LOAD; ++i) r.codes[i] = element(a, v * PER_LOAD + i);
    }
    return r;
}

// How many vectors whole_vector may read.
__device__ inline i64 whole_vectors(const Array& a) {
    const i64 vectors = a.n / PER_LOAD;
    return LAYOUT == SHIFTED && vectors > 0 ? vectors - 1 : vectors;
}

// Vector v with +0 beyond the end.
__device__ inline Vector padded_vector(const Array& a, i64 v) {
    Vector r;
#pragma unroll
    for (int i = 0; i < PER_LOAD; ++i) {
        const i64 at = v * PER_LOAD + i;
        r.codes[i] = at < a.n ? element(a, at) : Code(0);
    }
    return r;
}

// The vectors at the end of an array that whole_vector cannot read.
struct End {
    static constexpr int VECTORS = LAYOUT == SHIFTED ? 2 : 1;
    Vector vectors[VECTORS];

    __device__ explicit End(const Array& a) {
#pragma unroll
        for (int i = 0; i < VECTORS; ++i) vectors[i] = padded_vector(a, whole_vectors(a) + i);
    }
};

// Vector v, with +0 beyond the end of the array.  The load is under a condition and not in a branch, so that loads
// overlap.  A function call in place of End made the compiler keep the accumulators in memory, and the loop took
// twice as long.
__device__ inline Vector vector_or_padding(const Array& a, const End& end, i64 v) {
    const i64 whole = whole_vectors(a);
    Vector r;
    r.words = make_uint4(0, 0, 0, 0);
    if (v < whole) r = whole_vector(a, v);
#pragma unroll
    for (int i = 0; i < End::VECTORS; ++i)
        if (v == whole + i) r = end.vectors[i];
    return r;
}

}  // namespace tcu::load
