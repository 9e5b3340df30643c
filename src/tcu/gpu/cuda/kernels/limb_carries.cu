// Sums of products of 16-bit digits become limbs: digits are added up where sums overlap, and carries go through all.
//
// Sum i counts 2^(16·i) and has less than 2^64, four digits: digit i of the number is what the sums i, i - 1, i - 2 and
// i - 3 have for it, less than 2^18.  Limb l takes two digits and what limb l - 1 has left over, so it carries 0 or 1
// on.  Those carries are found in lines of 32 limbs, in blocks of 32 lines, and over the blocks of a number: three
// launches, of which the first and the last read each sum once.
//
// Floor: 8 bytes for each digit in two launches, and 4 for each limb: of 2^24 digits 300 MB, 63 us at 4.8 TB/s.

#include "device/types/types.cuh"
#include "device/warp/carries.cuh"

using namespace tcu;
using namespace tcu::warp;

#include "generated/ntt/LimbCarries.inc"

#include "generated/ntt/LIMITS.inc"

constexpr int WARPS = THREADS / WARP;
constexpr u32 GENERATES = 1, PROPAGATES = 2, CARRIED = 4;

struct CarryBlock {
    i64 number, first;  // limb
    const u64* sums;

    __device__ explicit CarryBlock(const LimbCarries& p)
        : number(blockIdx.x / p.blocks), first(blockIdx.x % p.blocks * (CARRY_LINES * WARP)), sums(p.sums + number * p.length) {}

    __device__ u64 digit(const LimbCarries& p, i64 i) const {
        u64 total = 0;
#pragma unroll
        for (int k = 0; k < 4; ++k)
            if (0 <= i - k && i - k < p.length) total += sums[i - k] >> (16 * k) & 0xffff;
        return total;
    }
    __device__ u64 pair(const LimbCarries& p, i64 limb) const {
        return digit(p, 2 * limb) + (digit(p, 2 * limb + 1) << 16);
    }
    // A limb and what the one below has left over.
    __device__ u64 limb(const LimbCarries& p, i64 i, int lane) const {
        const u64 own = pair(p, i);
        u64 lower = __shfl_up_sync(ALL, own, 1u);
        if (lane == 0) lower = i ? pair(p, i - 1) : 0;
        return static_cast<u64>(static_cast<u32>(own)) + (lower >> 32);
    }
};

extern "C" __global__ void __launch_bounds__(THREADS) carry_lines(const __grid_constant__ LimbCarries p) {
    __shared__ u32 generates[CARRY_LINES];
    __shared__ u32 propagates[CARRY_LINES];
    const CarryBlock block(p);
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    u32* const lines = p.lines + static_cast<i64>(blockIdx.x) * (2 * CARRY_LINES);
    for (int line = warp; line < CARRY_LINES; line += WARPS) {
        const i64 i = block.first + line * WARP + lane;
        const u64 sum = block.limb(p, i, lane);
        const bool there = i < p.limbs;
        const u32 ones = __ballot_sync(ALL, there && sum >> 32 != 0);
        const u32 all = __ballot_sync(ALL, there && static_cast<u32>(sum) == ALL);
        if (lane == 0) {
            generates[line] = lines[2 * line] = ones;
            propagates[line] = lines[2 * line + 1] = all;
        }
    }
    __syncthreads();
    if (warp == 0) {
        const u32 ones = generates[lane], all = propagates[lane];
        const u32 generate = __ballot_sync(ALL, carries(ones, all, 0).out != 0);
        const u32 propagate = __ballot_sync(ALL, all == ALL);
        if (lane == 0) p.states[blockIdx.x] = carries(generate, propagate, 0).out * GENERATES | (propagate == ALL) * PROPAGATES;
    }
}

// A warp for each number.
extern "C" __global__ void __launch_bounds__(WARP) carry_blocks(const __grid_constant__ LimbCarries p) {
    const int lane = threadIdx.x;
    u32* const states = p.states + static_cast<i64>(blockIdx.x) * p.blocks;
    u32 carried = 0;
    for (i64 begin = 0; begin < p.blocks; begin += WARP) {
        const i64 i = begin + lane;
        const u32 state = i < p.blocks ? states[i] : 0;
        const u32 generate = __ballot_sync(ALL, (state & GENERATES) != 0);
        const u32 propagate = __ballot_sync(ALL, (state & PROPAGATES) != 0);
        const Carries found = carries(generate, propagate, carried);
        if (i < p.blocks) states[i] = state | (found.into >> lane & 1) * CARRIED;
        carried = found.out;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) carry_limbs(const __grid_constant__ LimbCarries p) {
    const CarryBlock block(p);
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const u32* const lines = p.lines + static_cast<i64>(blockIdx.x) * (2 * CARRY_LINES);
    const u32 generate = __ballot_sync(ALL, carries(lines[2 * lane], lines[2 * lane + 1], 0).out != 0);
    const u32 propagate = __ballot_sync(ALL, lines[2 * lane + 1] == ALL);
    const u32 into = carries(generate, propagate, (p.states[blockIdx.x] & CARRIED) != 0).into;
    for (int line = warp; line < CARRY_LINES; line += WARPS) {
        const i64 i = block.first + line * WARP + lane;
        const u64 sum = block.limb(p, i, lane);
        const u32 carried = carries(lines[2 * line], lines[2 * line + 1], into >> line & 1).into >> lane & 1;
        if (i < p.limbs) p.out[block.number * p.limbs + i] = static_cast<u32>(sum) + carried;
    }
}
