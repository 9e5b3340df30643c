// Sums of 64-byte chunks of 16-bit numbers in a ring in shared memory, with permuted k (mma/permuted_k.cuh).
//
// The lane that gives a chunk also completes its first vector.  So that each lane meets the first vector of its own
// chunk, the lanes take the vectors of a chunk in different orders.

#pragma once

#include "device/load/ring.cuh"
#include "device/mma/permuted_k.cuh"
#include "device/ragged/chunks64.cuh"

namespace tcu::ragged {

static_assert(PARTS == 1, "others than 16-bit numbers are added in order");

// As put_chunks64. MOSTLY: most chunks are whole, so that it pays to look whether all chunks of an MMA are.
template <bool WHOLE, bool MOSTLY, typename Data>
__device__ inline void put_aligned_chunks64(const Data& data, u32 at, int left, double* numbers, int to, int chunks64) {
    const u32 lane = threadIdx.x % LANES, ring = load::shared_address(data.memory->bytes), first = data.place(at) & ~15u;
    // In bits, counted from the begin of the first vector.
    const int begin = static_cast<int>(at % 16 * 8), end = begin + left * 16;
    // The chunk's place in the ring, and the selector of its bytes: in one word, for one shuffle.
    const u32 place = mma::selected(mma::selector_at(at), first, 0x5410);
    const mma::OwnBits own(begin);
    Vector behind;
    behind.words = load::load_vector(ring + first + LANES * 16);
    u32 partial = 0;
    if constexpr (!WHOLE) {
        behind = load::lowest(behind, end - LANES * 128);
        partial = MOSTLY ? __ballot_sync(ALL, left < CHUNK64) : ALL;
    }
#if MMAS
    mma::OwnRows rows;
#else
    double sums[LANES] = {};
#endif
#pragma unroll
    for (int number = 0; number < LANES; number += AHEAD) {
        if (number && chunks64 <= number * (WARP / LANES)) break;
        u32 places[AHEAD];
        Vector loaded[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; ++i) {
            places[i] = __shfl_sync(ALL, place, number + i, LANES);
            loaded[i].words = load::load_vector(ring + (lane ^ number + i) * 16 + (places[i] >> 16));
        }
#pragma unroll
        for (int i = 0; i < AHEAD; ++i) {
            const int j = number + i;
            Vector v = loaded[i];
            if (!WHOLE && partial & 0x11111111u << j)
                v = load::lowest(v, __shfl_sync(ALL, end, j, LANES) - static_cast<int>(lane ^ j) * 128);
            if (lane == j) own.complete(v, behind);
#if MMAS
            rows.add(j, mma::in_rows(v, places[i]));
#else
            sums[j] = sum_of(v);
#endif
        }
    }
#if MMAS
    if (to >= 0) numbers[to] = static_cast<double>(rows.low) + static_cast<double>(rows.high);
#else
    const double sum = warp::multi_reduce<LANES, LANES / 2, 1>(sums);
    if (to >= 0) numbers[to] = sum;
#endif
}

}  // namespace tcu::ragged
