// Sums of 64-byte chunks, pieces of memory of 64 bytes, that a warp takes side by side wherever they lie, each by four lanes.

#pragma once

#include "device/load/unaligned.cuh"
#include "device/mma/ones.cuh"

namespace tcu::ragged {

constexpr int LANES = 4;  // of a 64-byte chunk, 16 bytes each
constexpr int CHUNK64 = LANES * PER_LOAD;  // numbers
// Loads that are under way before the first is used: more would take registers, of which the warps beside this one have
// need.
constexpr int AHEAD = 2;

// Where the bytes are: each returns the 16 of this lane, which has number `number` of a 64-byte chunk, of the 64-byte chunk at `at`
// bytes; of which the first `left` elements of the lane's matter.  Of a tile (ragged/tiles.cuh), the lane has 16 bytes too.
//
// In memory: all bytes of a 64-byte chunk are read, and 16 behind it, whatever is left.
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

// In memory, where it may end before the 64-byte chunk does.
struct Careful {
    static constexpr bool CAREFUL = true;
    const char* own;
    __device__ Careful(const char* base, int number) : own(base + number * 16) {}
    __device__ u32 place(u32 at) const { return at; }
    __device__ Vector fetch(u32 place, int left) const { return load::one_by_one(own, place, left); }
    __device__ static Vector vector(const Vector& v) { return v; }
    __device__ Vector fetch_of_tile(u32 at, int some) const { return load::one_by_one(own, at + threadIdx.x % WARP * 16, some); }
};

// Four 64-byte chunks for each four lanes: each lane gives one (its place in the source, and numbers from there on), and has
// 16 bytes of each in turn.  Of each MMA the 64-byte chunks are numbered one after another: only the first `64-byte chunks` need sums.
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

#if ELEMENT == BINARY16 || ELEMENT == BFLOAT16

constexpr int PARTS = 1;  // of a 64-byte chunk that the plan does not add up at once

// The sums of the lanes' 64-byte chunks, each lane's to the place of that number, if it is not
// negative.
template <bool WHOLE, typename Source>
__device__ inline void put_chunks64(const Source& source, u32 place, int left, double* numbers, int to, int chunks64) {
    mma::OwnRows rows;
    for_each_chunk64<WHOLE>(source, place, left, chunks64, [&](int j, const Vector& x) { rows.add(j, x); });
    if (to >= 0) numbers[to] = static_cast<double>(rows.low) + static_cast<double>(rows.high);
}

#else

constexpr int PARTS = 4;

__device__ inline double sum_of(const Vector& x) {
    double v[PER_LOAD];
#pragma unroll
    for (int i = 0; i < PER_LOAD; ++i) v[i] = to_binary64(x.codes[i]);
#pragma unroll
    for (int half = PER_LOAD / 2; half > 0; half /= 2)
#pragma unroll
        for (int i = 0; i < half; ++i) v[i] += v[i + half];
    return v[0];
}

template <bool WHOLE, typename Source>
__device__ inline void put_chunks64(const Source& source, u32 place, int left, double* numbers, int to, int chunks64) {
    for_each_chunk64<WHOLE>(source, place, left, chunks64, [&](int j, const Vector& x) {
        const int its = __shfl_sync(ALL, to, j, LANES);
        const double sum = sum_of(x);
        if (its >= 0) numbers[its * PARTS + threadIdx.x % LANES] = sum;
    });
}

#endif

}  // namespace tcu::ragged
