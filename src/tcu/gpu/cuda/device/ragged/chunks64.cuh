// Sums of 64-byte chunks: pieces of memory of 64 bytes that begin anywhere.  A warp takes 32 of them side by side,
// and four lanes work on each.

#pragma once

#include "device/load/unaligned.cuh"
#include "device/mma/ones.cuh"
#include "device/reduce/lane_sums.cuh"
#include "device/warp/multi_reduce.cuh"

namespace tcu::ragged {

constexpr int LANES = 4;  // lanes of a chunk, 16 bytes each
constexpr int CHUNK64 = LANES * PER_LOAD;  // numbers of a chunk
// Loads that are under way before the first is used.  More would take registers that the warps beside this one need.
constexpr int AHEAD = 2;

// Sources of bytes.  Each returns the 16 bytes of this lane, which is lane `number` of a 64-byte chunk, of the chunk
// at `at` bytes.  Of them, the first `left` elements matter.  Of a tile (ragged/tiles.cuh), the lane has 16 bytes,
// too.
//
// This one reads memory directly: all bytes of a chunk and 16 more, whatever is left.
struct Direct {
    static constexpr bool CAREFUL = false;
    const char* own;
    __device__ Direct(const char* base, int number) : own(base + number * 16) {}
    __device__ u32 place(u32 at) const { return at; }
    __device__ load::Raw fetch(u32 place, int) const { return load::fetch(own, place, 0); }
    __device__ static Vector vector(const load::Raw& raw) { return load::shifted(raw); }
    __device__ load::Raw fetch_of_tile(u32 at, int some) const {
        return load::fetch(own, some > 0 ? at + threadIdx.x % WARP * 16 : at, 0);
    }
};

// Reads memory element by element, where the array may end before the chunk does.
struct Careful {
    static constexpr bool CAREFUL = true;
    const char* own;
    __device__ Careful(const char* base, int number) : own(base + number * 16) {}
    __device__ u32 place(u32 at) const { return at; }
    __device__ Vector fetch(u32 place, int left) const { return load::one_by_one(own, place, left); }
    __device__ static Vector vector(const Vector& v) { return v; }
    __device__ Vector fetch_of_tile(u32 at,
                                    int some) const { return load::one_by_one(own, at + threadIdx.x % WARP * 16, some); }
};

// Goes through four 64-byte chunks for each group of four lanes.  Each lane gives one: its place in the source, and
// how many numbers it has from there on.  Each lane gets 16 bytes of every chunk in turn.  The chunks of each MMA are
// numbered one after another, and only the first `chunks64` of all need sums.
template <bool WHOLE, typename Source, typename Use>
__device__ inline void for_each_chunk64(const Source& source, u32 place, int left, int chunks64, const Use& use) {
    const int bits = left * 8 * static_cast<int>(sizeof(Code));
    const auto left_of = [&](int j) {
        return __shfl_sync(ALL, bits, j, LANES) - static_cast<int>(threadIdx.x) % LANES * 128;
    };
#pragma unroll
    for (int first = 0; first < LANES; first += AHEAD) {
        if (first && chunks64 <= first * (WARP / LANES)) break;
        decltype(source.fetch(0, 0)) loaded[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; ++i) {
            const u32 from = __shfl_sync(ALL, place, first + i, LANES);
            int some = 0;
            if constexpr (Source::CAREFUL) some = left_of(first + i) / 8 / static_cast<int>(sizeof(Code));
            loaded[i] = source.fetch(from, some);
        }
#pragma unroll
        for (int i = 0; i < AHEAD; ++i) {
            Vector v = Source::vector(loaded[i]);
            if constexpr (!WHOLE && !Source::CAREFUL) v = load::lowest(v, left_of(first + i));
            use(first + i, v);
        }
    }
}

#if MMAS

constexpr int PARTS = 1;  // numbers that stand for a chunk: the plan does not add them up at once

// Stores the sum of each lane's 64-byte chunk in numbers[to], unless `to` is negative.
template <bool WHOLE, typename Source>
__device__ inline void put_chunks64(const Source& source, u32 place, int left, double* numbers, int to, int chunks64) {
    mma::OwnRows rows;
    for_each_chunk64<WHOLE>(source, place, left, chunks64, [&](int j, const Vector& x) { rows.add(j, x); });
    if (to >= 0) numbers[to] = static_cast<double>(rows.low) + static_cast<double>(rows.high);
}

#else

__device__ inline double sum_of(const Vector& x) { return reduce::sum_of_load(x); }

#if ELEMENT == BINARY16 || ELEMENT == BFLOAT16
constexpr int PARTS = 1;

template <bool WHOLE, typename Source>
__device__ inline void put_chunks64(const Source& source, u32 place, int left, double* numbers, int to, int chunks64) {
    double v[LANES] = {};
    for_each_chunk64<WHOLE>(source, place, left, chunks64, [&](int j, const Vector& x) { v[j] = sum_of(x); });
    const double sum = warp::multi_reduce<LANES, LANES / 2, 1>(v);
    if (to >= 0) numbers[to] = sum;
}

#else
constexpr int PARTS = 4;

template <bool WHOLE, typename Source>
__device__ inline void put_chunks64(const Source& source, u32 place, int left, double* numbers, int to, int chunks64) {
    for_each_chunk64<WHOLE>(source, place, left, chunks64, [&](int j, const Vector& x) {
        const int its = __shfl_sync(ALL, to, j, LANES);
        const double sum = sum_of(x);
        if (its >= 0) numbers[its * PARTS + threadIdx.x % LANES] = sum;
    });
}
#endif

#endif

}  // namespace tcu::ragged
