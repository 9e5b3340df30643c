// Sums of quads of 16-bit numbers in a ring in shared memory, for units whose MMA adds the 16 numbers of a row at once.
//
// There the order in a row does not matter, only which row has a number: those at i mod 4 in {0, 1} from the quad's first
// on are in one, the others in another.  So a lane reads 16 bytes where they are aligned, by one load in place of three,
// and by where the quad begins among 8 bytes, each two words become one of either row.
//
// A quad's bytes behind its fourth vector take the place of those in its first that come before it: they are as many, and
// of the same rows.  The lane that gives the quad sees to that: in each MMA the lanes have other vectors of their quads,
// so that each has the first one of its own.

#pragma once

#include "quads.cuh"
#include "ring.cuh"

static_assert(PARTS == 1, "others than 16-bit numbers are added in order");

// Bytes of two words by a selector in the lower half of a word: __byte_perm would clear its upper half first.
__device__ inline u32 selected(u32 low, u32 high, u32 selector) {
    u32 v;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(v) : "r"(low), "r"(high), "r"(selector));
    return v;
}

// The bits of two words from that one on.
__device__ inline u64 bits_from(int bit) {
    u64 v;
    asm("shl.b64 %0, %1, %2;" : "=l"(v) : "l"(~0ull), "r"(bit));
    return v;
}

// As put_quads.  MOSTLY: most quads are whole, and it is worth a look whether all of an MMA are.
template <bool WHOLE, bool MOSTLY, typename Data>
__device__ inline void put_aligned_quads(const Data& data, u32 at, int left, double* numbers, int to, int quads) {
    const u32 lane = threadIdx.x % LANES, ring = shared_address(data.memory->bytes), first = data.place(at) & ~15u;
    const int begin = static_cast<int>(at % 16 * 8), end = begin + left * 16;  // bits from the first vector on
    // Where it is, and which bytes of two words are of one row: in one word for one shuffle.
    const u32 place = selected(__funnelshift_r(0x76543210, 0x76543210, at * 4), first, 0x5410);
    const u64 low = bits_from(begin), high = bits_from(max(begin - 64, 0));
    const u32 own[4] = {static_cast<u32>(low), static_cast<u32>(low >> 32), static_cast<u32>(high),
                        static_cast<u32>(high >> 32)};
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
            Vector v = loaded[i], x;
            if (!WHOLE && partial & 0x11111111u << j)
                v = lowest(v, __shfl_sync(ALL, end, j, LANES) - static_cast<int>(lane ^ j) * 128);
            if (lane == j) {
#pragma unroll
                for (int word = 0; word < 4; ++word)
                    v.word[word] = v.word[word] & own[word] | behind.word[word] & ~own[word];
            }
#pragma unroll
            for (int word = 0; word < 4; word += 2) {
                x.word[word] = selected(v.word[word], v.word[word + 1], places[i]);
                x.word[word + 1] = selected(v.word[word + 1], v.word[word], places[i]);
            }
            rows.add(j, x);
        }
    }
    if (to >= 0) numbers[to] = static_cast<double>(rows.low) + static_cast<double>(rows.high);
}
