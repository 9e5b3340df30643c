// Exact sums along an axis that is not the last, each rounded once, where few numbers lie side by side: a lane has whole
// columns.
//
// The array is (outer, length, INNER), without gaps.  A warp takes a tile, what belongs to some outer indices, that bulk
// copies bring to shared memory; other warps work in the meantime.  A lane reads the words of 4 bytes (binary64: 8) of one
// place in all rows of an outer index.
//
// What was slower: lanes that load 16 bytes of each row from memory, where a warp's access had a line for each outer index
// (exact_columns.cu; H200, 64 rows of 16 numbers of binary16 3.0 in place of 4.1 TB/s, 33 rows of 8 2.0 in place of 4.0).
//
// Compiled with ELEMENT (load/array.cuh; LAYOUT ALIGNED), for sm_90 and later, and
//   INNER     numbers side by side: multiples of 16 bytes
//   THREADS   WARP
//   RESIDENT  blocks per multiprocessor that the registers must allow
//   UNROLL    8
//   TERM      VALUE
//   PLANNED   1, of 16-bit numbers, 2048 rows at most: sums have the bits of a plan of binary64 additions, as in exact_rows.cu

#include "device/exact/lane_sums.cuh"
#include "device/load/bulk_copy.cuh"
#if PLANNED
#include "device/reduce/planned_row.cuh"
#endif

using namespace tcu;

#include "generated/exact_columns/ExactTileColumns.inc"

constexpr int SIZE = sizeof(Code), COLUMNS = SIZE < 4 ? 4 / SIZE : 1, WORDS_OF_ROW = INNER / COLUMNS;

__device__ inline Vector word_at(const char* from) {
    Vector x;
    x.word[0] = *reinterpret_cast<const u32*>(from);
    if (SIZE == 8) x.word[1] = reinterpret_cast<const u32*>(from)[1];
    return x;
}

extern "C" __global__ void __launch_bounds__(WARP, RESIDENT) exact_tile_columns(const __grid_constant__ ExactTileColumns p) {
    extern __shared__ __align__(128) uint4 memory[];  // so that copies keep memory's sectors
    __shared__ u64 full;
    [[maybe_unused]] __shared__ i64 limbs[exact::WORDS];
    const int lane = threadIdx.x, length = static_cast<int>(p.length), log = static_cast<int>(p.log);
    const finish::Target target = static_cast<finish::Target>(p.target);
    const i64 first = static_cast<i64>(blockIdx.x) * p.tile;
    const int outers = static_cast<int>(min(p.tile, p.outer - first)), bytes = length * INNER * SIZE;
    const int place = static_cast<int>(p.place);
    const Code* const data = static_cast<const Code*>(p.data) + first * length * INNER;
    char* const numbers = reinterpret_cast<char*>(memory);
    if (lane == 0) {
        load::prepare(&full);
        load::expect(outers * bytes, &full);
    }
    __syncwarp();
    for (int i = lane; i < outers; i += WARP)
        load::start_copy(numbers + i * place, reinterpret_cast<const char*>(data) + static_cast<i64>(i) * bytes, bytes, &full);
    load::wait_for_copy(&full, 0);
#pragma unroll 1
    for (int begin = 0; begin < outers * WORDS_OF_ROW; begin += WARP) {
        const int item = begin + lane;
        const bool is_there = item < outers * WORDS_OF_ROW;
        const int outer = is_there ? item / WORDS_OF_ROW : 0, column = is_there ? item % WORDS_OF_ROW * COLUMNS : 0;
        const char* const from = numbers + outer * place + column * SIZE;
        const i64 result = (first + outer) * INNER + column;
#if ELEMENT == BINARY16 || ELEMENT == BFLOAT16
        double sums[2] = {};
        exact::PairRange seen;
#pragma unroll UNROLL
        for (int row = 0; row < length; ++row) {
            const u32 word = word_at(from + row * INNER * SIZE).word[0];
            seen.see(word);
            sums[0] += moved(word, 0);
            sums[1] += moved(word, 1);
        }
        const bool proved = seen.fits(log);
        if (is_there && proved) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                void* const out = finish::place(p.out, result + i, target);
#if PLANNED
                reduce::store_planned(sums[i] * UP, p.mean ? length : 1, out, target);
#else
                if (p.mean) exact::store_sum(exact::parts_of(sums[i], seen), length, out, target);
                else finish::store_rounded(out, sums[i] * UP, target);
#endif
            }
        }
#else
        u32 largest = 0;
#pragma unroll UNROLL
        for (int row = 0; row < length; ++row)
            largest = max(largest, exact::magnitude_of(word_at(from + row * INNER * SIZE), 0));
        const int top = exact::field_of(largest), window = exact::Cut::clamped(exact::window_of(top, 0), log);
        exact::Cut sum;
        sum.begin(window, log);
#pragma unroll UNROLL
        for (int row = 0; row < length; ++row) sum.add(word_at(from + row * INNER * SIZE).codes[0]);
        sum.empty(window, log);
        const exact::Parts parts = sum.parts(window, log, top);
        const bool proved = parts.proved;
        if (is_there && proved) exact::store_sum(parts, p.mean ? length : 1, finish::place(p.out, result, target), target);
#endif
        for (u32 rest = __ballot_sync(ALL, is_there && !proved); rest; rest &= rest - 1) {
            const i64 other = __shfl_sync(ALL, result, __ffs(rest) - 1);
            for (int i = 0; i < COLUMNS; ++i) {
                const i64 its = (other + i) / INNER - first;
                const Code* const from = data + its * length * INNER + (other + i) % INNER;
                void* const out = finish::place(p.out, other + i, target);
#if PLANNED
                reduce::store_in_order(from, length, INNER, 1, 1, p.mean ? length : 1, out, target);
#else
                exact::sum_in_limbs(from, length, INNER, limbs);
                if (lane == 0) exact::store_all_limbs(limbs, p.mean ? length : 1, out, target);
                __syncwarp();
#endif
            }
        }
    }
}
