// Products of numbers in limbs by the schoolbook, many at once: bytes times a Toeplitz matrix of bytes, on tensor cores.
//
// Byte 32·p + q of the product is the sum over j and k of a[32·(p - j) + k] · b[32·j + q - k].  For each j that is a
// product of matrices: row p of the left one is row p - j of a, cut into rows of 32 bytes; column q of the right one is
// b backwards, q bytes further on.  All j add to the same sums, so columns are added up inside the MMAs, and nothing is
// left to do but the carries.
//
// Floor of la × lb bytes: la·lb / 4096 MMAs (m16n8k32) and 2·(la + lb) bytes to and from memory.  Of 2,048 × 2,048 bits
// that is 16 MMAs and 1,024 bytes: 71 ps at 132 MMAs a clock of 1.7 GHz (1 a multiprocessor), 0.21 ns at 4.8 TB/s; of
// 32,768 × 32,768 bits 4,096 MMAs and 16 kB: 18 ns and 3.4 ns.  Tiles take (lb / 32 + 1) · 4 MMAs for each 16 rows, of
// which those that meet no row of a are left out: 36 in place of 16 at 2,048 bits, 4,608 in place of 4,096 at 32,768.  A
// step of j takes 2 + 8 words from shared memory for up to 16 MMAs: rows of a come from registers, as what j has in
// group g of 8 rows, j + 8 has in group g + 1.
//
// Widths: a sum has at most lb products of two bytes, 255² each, so sums of 32 bits with a sign hold lb up to 33,025
// bytes; the host lets 8,192 through.  A limb's four sums come to less than 2^54 and are carried as 64 bits.
//
// Compiled with these macros:
//   TILES   of 16 rows of a warp: 1, 2 or 4
//   WARPS   of a number
//   NUMBERS of a block

#include "device/mma/bytes.cuh"
#include "device/types/types.cuh"
#include "device/warp/carries.cuh"
#include "device/warp/uniform.cuh"

using namespace tcu;
using namespace tcu::mma;
using namespace tcu::warp;

#include "generated/limbs/LimbProducts.inc"

constexpr int ROW_WORDS = 8;  // of 32 bytes
constexpr int OWN_ROWS = 16 * TILES;
constexpr int THREADS = WARPS * WARP;
constexpr int MOST_LINES = WARPS * OWN_ROWS * ROW_WORDS / WARP;

// Word z of copy m holds bytes 4·z + m and the three below, the highest first.
__device__ inline u32 backwards(u32 below, u32 word, int m) {
    return __byte_perm(below, word, (4 + m) | (3 + m) << 4 | (2 + m) << 8 | (1 + m) << 12);
}

extern "C" __global__ void __launch_bounds__(THREADS * NUMBERS) limb_products(const __grid_constant__ LimbProducts p) {
    extern __shared__ __align__(16) u32 shared[];
    __shared__ u32 generates[NUMBERS * MOST_LINES];
    __shared__ u32 propagates[NUMBERS * MOST_LINES];
    __shared__ u32 into[NUMBERS * MOST_LINES];
    const int lane = threadIdx.x % WARP, warp = static_cast<int>(uniform(threadIdx.x / WARP));
    const int slot = warp / WARPS, part = warp % WARPS, thread = part * WARP + lane;
    const i64 number = static_cast<i64>(blockIdx.x) * NUMBERS + slot;
    const bool here = number < p.count;
    u32* const rows = shared + slot * p.room;
    u32* const copies = rows + ROW_WORDS * p.rows;
    const u32* const a = p.a + number * p.a_stride;
    const u32* const b = p.b + number * p.b_stride;

    for (int i = thread; i < ROW_WORDS * p.rows; i += THREADS) rows[i] = here && i < p.a_limbs ? a[i] : 0;
    for (int i = thread; i < p.copy; i += THREADS) {
        const int z = i - ROW_WORDS;
        const u32 word = here && 0 <= z && z < p.b_limbs ? b[z] : 0;
        const u32 below = here && 1 <= z && z <= p.b_limbs ? b[z - 1] : 0;
#pragma unroll
        for (int m = 0; m < 4; ++m) copies[m * p.copy + i] = backwards(below, word, m);
    }
    __syncthreads();

    // Words 2·t and 2·t + 1 of a row stand for the MMA's k = 4·t and 4·t + 16, and b's rows are in that order, too.
    const int group = lane / 4, t = lane % 4, top = part * OWN_ROWS;
    u32 sums[TILES][4][4] = {};
    const int first = max(0, top - p.rows + 1), last = min(p.last, top + OWN_ROWS - 1);
    const auto take = [&](u32 (&words)[2], int row) {
        const bool there = 0 <= row && row < p.rows;
        const uint2 pair = there ? reinterpret_cast<const uint2*>(rows)[ROW_WORDS / 2 * row + t] : make_uint2(0, 0);
        words[0] = pair.x;
        words[1] = pair.y;
    };
    const u32* const own = copies + group % 4 * p.copy + ROW_WORDS + group / 4 - 2 * t;
    for (int turn = 0; turn < 8; ++turn) {
        int j = first + turn;
        u32 taken[2 * TILES][2];
#pragma unroll
        for (int g = 1; g < 2 * TILES; ++g) take(taken[g], top + 8 * g - j + group);
        for (; j <= last; j += 8) {
            take(taken[0], top - j + group);
            u32 words[4][2];
#pragma unroll
            for (int n = 0; n < 4; ++n) {
                words[n][0] = own[ROW_WORDS * j + 2 * n];
                words[n][1] = own[ROW_WORDS * j + 2 * n - 1];
            }
#pragma unroll
            for (int tile = 0; tile < TILES; ++tile) {
                const int row = top + 16 * tile - j;
                if (row + 15 < 0 || row >= p.rows) continue;
#pragma unroll
                for (int n = 0; n < 4; ++n)
                    multiply_bytes(sums[tile][n], taken[2 * tile][0], taken[2 * tile + 1][0], taken[2 * tile][1],
                                   taken[2 * tile + 1][1], words[n][0], words[n][1]);
            }
#pragma unroll
            for (int g = 2 * TILES - 1; g > 0; --g) {
                taken[g][0] = taken[g - 1][0];
                taken[g][1] = taken[g - 1][1];
            }
        }
    }
    __syncthreads();

    // Two lanes have the four bytes of a limb: one makes that of row `group`, the other that of the row 8 below.
    u64* const limbs = reinterpret_cast<u64*>(rows);
#pragma unroll
    for (int tile = 0; tile < TILES; ++tile)
#pragma unroll
        for (int n = 0; n < 4; ++n) {
            const u32(&d)[4] = sums[tile][n];
            const u64 upper = d[0] + (static_cast<u64>(d[1]) << 8), lower = d[2] + (static_cast<u64>(d[3]) << 8);
            const bool odd = t % 2;
            const u64 other = __shfl_xor_sync(ALL, odd ? upper : lower, 1);
            const int row = top + 16 * tile + group + 8 * odd;
            limbs[ROW_WORDS * row + 2 * n + t / 2] = odd ? other + (lower << 16) : upper + (other << 16);
        }
    __syncthreads();

    const int count = p.a_limbs + p.b_limbs, lines = (count + WARP - 1) / WARP;
    const auto limb = [&](int i) {
        return static_cast<u64>(static_cast<u32>(limbs[i])) + (i ? limbs[i - 1] >> 32 : 0);
    };
    u32* const generate = generates + slot * MOST_LINES;
    u32* const propagate = propagates + slot * MOST_LINES;
    u32* const in = into + slot * MOST_LINES;
    for (int line = part; line < lines; line += WARPS) {
        const u64 sum = limb(WARP * line + lane);
        const u32 ones = __ballot_sync(ALL, sum >> 32 != 0), all = __ballot_sync(ALL, static_cast<u32>(sum) == ALL);
        if (lane == 0) {
            generate[line] = ones;
            propagate[line] = all;
        }
    }
    __syncthreads();
    if (part == 0) {
        u32 carried = 0;
        for (int begin = 0; begin < lines; begin += WARP) {
            const int line = begin + lane;
            const bool there = line < lines;
            const u32 ones = there ? generate[line] : 0, all = there ? propagate[line] : 0;
            const Carries found = carries(__ballot_sync(ALL, carries(ones, all, 0).out != 0), __ballot_sync(ALL, all == ALL), carried);
            if (there) in[line] = found.into >> lane & 1;
            carried = found.out;
        }
    }
    __syncthreads();
    for (int line = part; line < lines; line += WARPS) {
        const int i = WARP * line + lane;
        const u32 carried = carries(generate[line], propagate[line], in[line]).into >> lane & 1;
        if (here && i < count) p.out[number * count + i] = static_cast<u32>(limb(i)) + carried;
    }
}
