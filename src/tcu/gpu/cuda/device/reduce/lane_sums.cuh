// A lane's sums of its loads by binary64 additions, and those of lanes.
//
// Of 16-bit numbers, those of a load come together first, and then those of lanes that are neighbours
// (tcu/plan/variants.py, binary64_chunks).

#pragma once

#include "device/types/element.cuh"
#include "device/warp/multi_reduce.cuh"
#include "device/warp/tree.cuh"

namespace tcu::reduce {

#if ELEMENT == BINARY16 || ELEMENT == BFLOAT16

// The tree over a load's numbers; `code` gives number i.  Conversions wait for a unit that does 16 a clock; at 4.6 TB/s
// there are 10 (H200).  Moving bits (2.5 instructions and a test for inf and NaN in place of one) was as fast.
// Sums of 2^30 numbers read 4.61 TB/s with 64 registers a thread or more, where MMAs read 4.64; 4.39 with 40 (H200).
template <typename CodeOf>
__device__ inline double sum_of_load(const CodeOf& code) {
    double v[PER_LOAD];
#pragma unroll
    for (int i = 0; i < PER_LOAD; ++i) v[i] = to_binary64(code(i));
    return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}
__device__ inline double sum_of_load(const Vector& x) {
    return sum_of_load([&](int i) { return x.codes[i]; });
}

struct LaneSums {
    double total = 0;
    __device__ void add(const Vector& x) { total += sum_of_load(x); }
    __device__ double sum() const { return total; }
};

// The tree over a warp's lanes; lane 0 has the sum.
__device__ inline double of_lanes(double v) { return warp::multi_reduce_near<WARP>(v); }

#else

// One accumulator for each number of a load.
struct LaneSums {
    double sums[PER_LOAD] = {};
    __device__ void add(const Vector& x) {
#pragma unroll
        for (int i = 0; i < PER_LOAD; ++i) sums[i] += to_binary64(x.codes[i]);
    }
    // The tree over them.
    __device__ double sum() {
#pragma unroll
        for (int half = PER_LOAD / 2; half > 0; half /= 2)
#pragma unroll
            for (int i = 0; i < half; ++i) sums[i] += sums[i + half];
        return sums[0];
    }
};

__device__ inline double sum_of_load(const Vector& x) {
    LaneSums sums;
    sums.add(x);
    return sums.sum();
}

__device__ inline double of_lanes(double v) { return warp::tree<WARP>(v); }

#endif

// Whether trees over lanes go over neighbours first.
constexpr bool NEAR = !MMAS && sizeof(Code) == 2;

}  // namespace tcu::reduce
