// Sums of quads of 16-bit numbers in a ring in shared memory, in any order (any_order.cuh).
//
// The lane that gives a quad completes its first vector: in each MMA the lanes have other vectors of their quads, so that
// each has the first one of its own.

#pragma once

#include "any_order.cuh"
#include "quads.cuh"
#include "ring.cuh"

static_assert(PARTS == 1, "others than 16-bit numbers are added in order");

// As put_quads.  MOSTLY: most quads are whole, and it is worth a look whether all of an MMA are.
template <bool WHOLE, bool MOSTLY, typename Data>
__device__ inline void put_aligned_quads(const Data& data, u32 at, int left, double* numbers, int to, int quads) {
    const u32 lane = threadIdx.x % LANES, ring = shared_address(data.memory->bytes), first = data.place(at) & ~15u;
    const int begin = static_cast<int>(at % 16 * 8), end = begin + left * 16;  // bits from the first vector on
    // Where it is, and which bytes of two words are of one row: in one word for one shuffle.
    const u32 place = selected(selector_at(at), first, 0x5410);
    const Own own(begin);
    Vector behind;
    behind.words = load_vector(ring + first + LANES * 16);
    u32 partial = 0;
    if constexpr (!WHOLE) {
        behind = lowest(behind, end - LANES * 128);
        partial = MOSTLY ? __ballot_sync(ALL, left < QUAD) : ALL;
    }
    OwnRows rows;
#pragma unroll
    for (int number = 0; number < LANES; number += AHEAD) {
        if (number && quads <= number * (WARP / LANES)) break;
        u32 places[AHEAD];
        Vector loaded[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; ++i) {
            places[i] = __shfl_sync(ALL, place, number + i, LANES);
            loaded[i].words = load_vector(ring + (lane ^ number + i) * 16 + (places[i] >> 16));
        }
#pragma unroll
        for (int i = 0; i < AHEAD; ++i) {
            const int j = number + i;
            Vector v = loaded[i];
            if (!WHOLE && partial & 0x11111111u << j)
                v = lowest(v, __shfl_sync(ALL, end, j, LANES) - static_cast<int>(lane ^ j) * 128);
            if (lane == j) own.complete(v, behind);
            rows.add(j, in_rows(v, places[i]));
        }
    }
    if (to >= 0) numbers[to] = static_cast<double>(rows.low) + static_cast<double>(rows.high);
}
