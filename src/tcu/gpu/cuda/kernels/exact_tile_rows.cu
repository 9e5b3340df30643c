// Exact sums of rows of some numbers without gaps between them, each rounded once: a lane has whole rows.
//
// A warp takes a tile of rows as they lie in memory, which a bulk copy brings to shared memory; other warps work in the
// meantime.  A lane reads its rows from there, wherever they begin, so that none idles, no sums go over lanes, and
// neighbouring lanes store neighbouring results.
//
// What was slower: lanes that read whole rows from memory, each 256 bytes from the next lane's, and had all of them in
// registers (rows of 16 and 17 of binary16 2.0 in place of 4.2 TB/s, of bfloat16 1.8; H200).  The text of eight rows did not
// fit the registers, and an access of a warp had 32 lines of memory.  Several lanes to a row (exact_rows.cu) took longer,
// too, where rows begin anywhere (257 of bfloat16 3.0 in place of 4.2, 100 of binary16 3.1 in place of 4.0); aligned rows of
// 200 are faster there by 2 to 5 %, as are those of 3 to 5 numbers of binary32 in exact_short_rows.cu.
//
// Compiled with ELEMENT (load/array.cuh; LAYOUT ALIGNED), for sm_90 and later, and
//   LENGTH    of a row, or 0: not known
//   UNIT      the bytes, up to 16, of which the beginnings of rows are multiples
//   THREADS   WARP
//   RESIDENT  blocks per multiprocessor that the registers must allow
//   UNROLL    1
//   TERM      VALUE
//   PLANNED   1, of 16-bit numbers, 2048 at most: sums have the bits of a plan of binary64 additions, as in exact_rows.cu

#include "device/exact/lane_sums.cuh"
#include "device/load/bulk_copy.cuh"
#if PLANNED
#include "device/reduce/planned_row.cuh"
#endif

using namespace tcu;

#include "generated/exact_rows/ExactTileRows.inc"

constexpr int SIZE = sizeof(Code), UNROLLED = LENGTH ? LENGTH : UNIT == 16 ? 4 : UNIT == 8 ? 8 : 16;

// Calls `use` with the row's numbers, of which UNIT bytes are in a vector.
template <typename Use>
__device__ inline void read_row(const char* row, int length, const Use& use) {
    Vector x;
    if constexpr (UNIT == 16) {
        // Lanes whose rows begin in the same banks begin with other granules.
        const int granules = length * SIZE / 16, alike = min(granules & -granules, 8);
        int at = static_cast<int>(threadIdx.x) % 8 * alike / 8;
#pragma unroll UNROLLED
        for (int i = 0; i < granules; ++i) {
            x.words = reinterpret_cast<const uint4*>(row)[at];
            use(x);
            at = at + 1 == granules ? 0 : at + 1;
        }
    } else if constexpr (UNIT == 8) {
#pragma unroll UNROLLED
        for (int i = 0; i < length * SIZE / 8; ++i) {
            const uint2 words = reinterpret_cast<const uint2*>(row)[i];
            x.word[0] = words.x;
            x.word[1] = words.y;
            use(x);
        }
    } else if constexpr (UNIT == 4) {
#pragma unroll UNROLLED
        for (int i = 0; i < length * SIZE / 4; ++i) {
            x.word[0] = reinterpret_cast<const u32*>(row)[i];
            use(x);
        }
    } else {
        // Pairs of numbers at multiples of 4 bytes; of the first and the last one, one may be of another row.
        const int odd = static_cast<int>(reinterpret_cast<u64>(row) / 2 % 2), last = length / 2;
        const u32* const from = reinterpret_cast<const u32*>(row - 2 * odd);
        const int left = odd + length - 2 * last;  // numbers of the last pair
        x.word[0] = from[0] & (odd ? 0xffff0000 : ~0u);
        if (length == 1 && !odd) x.word[0] &= 0xffff;
        use(x);
#pragma unroll UNROLLED
        for (int i = 1; i < last; ++i) {
            x.word[0] = from[i];
            use(x);
        }
        if (last > 0) {
            x.word[0] = left ? from[last] & (left == 2 ? ~0u : 0xffff) : 0;
            use(x);
        }
    }
}

extern "C" __global__ void __launch_bounds__(WARP, resident(RESIDENT, WARP))
exact_tile_rows(const __grid_constant__ ExactTileRows p) {
    extern __shared__ __align__(128) uint4 memory[];
    __shared__ u64 full;
    [[maybe_unused]] __shared__ i64 limbs[exact::WORDS];
    const int lane = threadIdx.x, length = LENGTH ? LENGTH : static_cast<int>(p.length);
    const int log = static_cast<int>(p.log);
    const finish::Target target = static_cast<finish::Target>(p.target);
    const i64 first = static_cast<i64>(blockIdx.x) * p.tile;
    const int rows = static_cast<int>(min(p.tile, p.rows - first));
    const Code* const data = static_cast<const Code*>(p.data) + first * length;
    // Copies keep memory's lines: 16 bytes away from a sector's begin, they took 15 % longer.
    const int place = static_cast<int>(reinterpret_cast<u64>(data) % load::LINE), shift = place % 16;
    if (lane == 0) {
        load::prepare(&full);
        load::copy_bulk(memory + place / 16, reinterpret_cast<const char*>(data) - shift, (shift + rows * length * SIZE + 15) / 16 * 16, &full);
    }
    const char* const numbers = reinterpret_cast<const char*>(memory) + place;
    __syncwarp();
    load::wait_for_copy(&full, 0);
#pragma unroll 1
    for (int begin = 0; begin < rows; begin += WARP) {
        const int row = begin + lane;
        const bool is_there = row < rows;
        const char* const mine = numbers + (is_there ? row : begin) * length * SIZE;
        void* const out = finish::place(p.out, first + row, target);
#if ELEMENT == BINARY16 || ELEMENT == BFLOAT16
        double sums[2] = {};
        exact::PairRange seen;
        read_row(mine, length, [&](const Vector& x) {
#pragma unroll
            for (int i = 0; i < (UNIT + 3) / 4; ++i) {
                seen.see(x.word[i]);
                sums[0] += moved(x.word[i], 0);
                sums[1] += moved(x.word[i], 1);
            }
        });
        const bool proved = seen.fits(log);
        if (is_there && proved) {
            const double sum = sums[0] + sums[1];
#if PLANNED
            reduce::store_planned(sum * UP, p.mean ? length : 1, out, target);
#else
            if (p.mean) exact::store_sum(exact::parts_of(sum, seen), length, out, target);
            else finish::store_rounded(out, sum * UP, target);
#endif
        }
#else
        constexpr int NUMBERS = UNIT / SIZE;
        u32 largest = 0;
        read_row(mine, length, [&](const Vector& x) {
#pragma unroll
            for (int i = 0; i < NUMBERS; ++i) largest = max(largest, exact::magnitude_of(x, i));
        });
        const int top = exact::field_of(largest), window = exact::Cut::clamped(exact::window_of(top, 0), log);
        exact::Cut sum;
        sum.begin(window, log);
        read_row(mine, length, [&](const Vector& x) {
#pragma unroll
            for (int i = 0; i < NUMBERS; ++i) sum.add(x.codes[i]);
        });
        sum.empty(window, log);
        const exact::Parts parts = sum.parts(window, log, top);
        const bool proved = parts.proved;
        if (is_there && proved) exact::store_sum(parts, p.mean ? length : 1, out, target);
#endif
        for (u32 rest = __ballot_sync(ALL, is_there && !proved); rest; rest &= rest - 1) {
            const int other = begin + __ffs(rest) - 1;
#if PLANNED
            reduce::store_in_order(data + static_cast<i64>(other) * length, length, 1, 1, 1, p.mean ? length : 1,
                                   finish::place(p.out, first + other, target), target);
#else
            exact::sum_in_limbs(data + static_cast<i64>(other) * length, length, 1, limbs);
            if (lane == 0)
                exact::store_all_limbs(limbs, p.mean ? length : 1, finish::place(p.out, first + other, target), target);
            __syncwarp();
#endif
        }
    }
}
