// Exact sums along an axis that is not the last, each rounded once.
//
// The array is (outer, length, inner), and inner numbers lie side by side.  A lane has COLUMNS neighbouring ones, a
// block ACROSS such units, and what is left of its threads share their rows.  Threads of a column agree on the place
// of their integers (exact/lane_sums.cuh), and meet in shared memory; where a column has several blocks, they meet in
// limbs.  What the proof fails for, a warp adds up again in limbs.
//
// Where rows begin anywhere, a lane takes whole granules of 16 bytes all the same (ANYWHERE): the rows of a thread begin
// alike, as their distance is a multiple of 16 bytes, so that its granules hold the same columns in each of them.  Other
// threads' granules hold others; all meet by columns.  A block has one unit more across than its columns take, for what
// lies around their ends.  Numbers that were loaded one by one took longer (1000 rows of 268,435 numbers of binary16 2.1 in
// place of 3.4 TB/s, 256 of 262,143 of binary64 3.9 in place of 4.0, H200); fewer rows than some hundred do not pay for
// meeting, and pairs of numbers that are loaded at once take as long.
//
// Compiled with ELEMENT (load/array.cuh; LAYOUT ALIGNED), and
//   COLUMNS  of a lane: what it loads at once, up to 16 bytes
//   FOLD     rows that a lane loads at once, where these fill 16 bytes and an outer index is without gaps: COLUMNS are all
//            columns, FOLD times over.  With a row for each load, rows of two numbers of binary16 were read at 0.28 of
//            memory's speed, and of binary32 at 0.56 (H100)
//   ACROSS   units of a block, a power of two up to THREADS
//   ROWS     loads of a lane in flight
//   PARTS    1: a column may have several blocks
//   ANYWHERE  1: rows begin anywhere; ALONG rows further they begin alike, COLUMNS is 16 bytes, and a block has one outer
//            index
//   PLANNED  1, of 16-bit numbers without PARTS: sums have the bits of a plan of binary64 additions, as in exact_rows.cu
//   THREADS, RESIDENT   of a block, and blocks per multiprocessor that the registers must allow
//   UNROLL   1
//   TERM     VALUE

#include "device/exact/lane_sums.cuh"
#if PLANNED
#include "device/reduce/planned_row.cuh"
#endif

using namespace tcu;

#include "generated/exact_columns/ExactColumns.inc"

constexpr int OF_ROW = COLUMNS / FOLD;  // columns of a lane that are different ones
constexpr int ALONG = THREADS / ACROSS, WIDTH = ACROSS * OF_ROW;
constexpr int ADDING = ALONG * FOLD;  // sums of which a block makes one
#if ANYWHERE
constexpr int OWN = (ACROSS - 1) * COLUMNS;  // columns of a block
#endif

// Whether a warp has the sums of neighbouring columns.  Then its lanes write neighbouring words.
constexpr bool TOGETHER = !PARTS && !ANYWHERE && ACROSS % WARP == 0 && OF_ROW > 1;
constexpr int MET = ADDING > 1 ? WIDTH : 1;

// What the threads of a column tell each other.
struct Meeting {
    int top[MET], above_bottom[MET], failed[MET];
    i64 high[MET], low[MET];
};

// Lanes of a warp may have the same columns.  They come to terms among themselves, and one of them goes to the meeting: with all
// 32 there, additions to one place of shared memory took most of the time (16,384 x 32,768 rows of two numbers of binary16).
constexpr bool IN_WARP = !ANYWHERE && ACROSS < WARP;

template <typename T, typename Join>
__device__ inline T of_warp(T x, Join join) {
    if constexpr (IN_WARP) {
#pragma unroll
        for (int far = ACROSS; far < WARP; far *= 2) x = join(x, __shfl_xor_sync(ALL, x, far));
    }
    return x;
}

// The same of a column, whose FOLD numbers of a lane come first: of(c) is that of one of them.
template <typename T, typename Of, typename Join>
__device__ inline T of_column(int column, T x, Of of, Join join) {
#pragma unroll
    for (int c = column; c < COLUMNS; c += OF_ROW) x = join(x, of(c));
    return of_warp(x, join);
}

struct Larger {
    __device__ int operator()(int x, int y) const { return max(x, y); }
};
struct Added {
    __device__ i64 operator()(i64 x, i64 y) const { return x + y; }
};

union Room {
    Meeting meeting;
    u64 results[TOGETHER ? exact::WARPS : 1][TOGETHER ? WARP * OF_ROW : 1];  // when all have met
};

extern "C" __global__ void __launch_bounds__(THREADS, resident(RESIDENT, THREADS))
    exact_columns(const __grid_constant__ ExactColumns p) {
    __shared__ i64 all_limbs[exact::WARPS][exact::WORDS];
    __shared__ Room room;
    Meeting& meeting = room.meeting;
    i64* const limbs = all_limbs[threadIdx.x / WARP];
    const int across = threadIdx.x % ACROSS, along = threadIdx.x / ACROSS, lane = threadIdx.x % WARP;
    const bool speaks = !IN_WARP || lane < ACROSS;  // for the lanes of its warp that have the same columns
    const finish::Target target = static_cast<finish::Target>(p.target);
    const i64 begin = PARTS ? blockIdx.y * p.part : 0;
#if ANYWHERE
    const i64 outer = blockIdx.x / p.pieces, first_own = (blockIdx.x - outer * p.pieces) * OWN;
    const Code* const row_of_own =
        static_cast<const Code*>(p.data) + outer * p.outer_stride + (begin + along) * p.stride + first_own;
    // Where the lane's columns begin in the block's own ones, and how many those are.
    const int at = across * COLUMNS - static_cast<int>(reinterpret_cast<u64>(row_of_own) % 16 / sizeof(Code));
    const int own = static_cast<int>(min(p.inner - first_own, static_cast<i64>(OWN)));
    const i64 first = first_own + at;
    const bool is_there = at + COLUMNS > 0 && at < own;
    const auto is_own = [&](int c) { return at + c >= 0 && at + c < own; };
    const auto place_of = [&](int c) { return (at + c) % COLUMNS * ACROSS + (at + c) / COLUMNS; };
#else
    const i64 unit = static_cast<i64>(blockIdx.x) * ACROSS + across;
    const bool is_there = unit < p.units;
    const i64 outer = is_there ? unit / p.pieces : 0, first = is_there ? (unit - outer * p.pieces) * COLUMNS : 0;
    const auto is_own = [](int) { return true; };
    // Neighbouring lanes meet in neighbouring words: with COLUMNS words between them, one bank had them all.
    const auto place_of = [&](int c) { return c % OF_ROW * ACROSS + across; };
#endif
    const int rows = static_cast<int>(min(p.length - begin, p.part));
    const int log = ELEMENT == BINARY64 ? exact::logarithm(ROWS) : static_cast<int>(p.log);
    const u64 divisor = p.mean ? p.length * FOLD : 1;
    const Code* const data = static_cast<const Code*>(p.data) + outer * p.outer_stride + begin * p.stride + first;
    if (ADDING > 1) {
        for (int i = threadIdx.x; i < WIDTH; i += THREADS) {
            meeting.top[i] = meeting.above_bottom[i] = meeting.failed[i] = 0;
            meeting.high[i] = meeting.low[i] = 0;
        }
        __syncthreads();
    }

#if ELEMENT == BINARY16 || ELEMENT == BFLOAT16
    double sums[COLUMNS] = {};
    exact::PairRange seen[(COLUMNS + 1) / 2];
#else
    exact::Cut sums[COLUMNS];
    u32 largest[COLUMNS] = {};
    int window[COLUMNS] = {};
#endif
    bool is_first = true;
#pragma unroll 1
    for (int row = along; row < rows || is_first; row += ROWS * ALONG, is_first = false) {
        Vector x[ROWS];
#pragma unroll
        for (int i = 0; i < ROWS; ++i) {
            x[i].words = make_uint4(0, 0, 0, 0);
            if (is_there && row + i * ALONG < rows) x[i] = load::neighbours<COLUMNS>(data + (row + i * ALONG) * p.stride);
        }
#if ELEMENT == BINARY16 || ELEMENT == BFLOAT16
#pragma unroll
        for (int i = 0; i < ROWS; ++i)
#pragma unroll
            for (int c = 0; c < COLUMNS; ++c) {
                if (c % 2 == 0) seen[c / 2].see(x[i].word[c / 2]);
                sums[c] += moved(x[i].word[c / 2], c % 2);
            }
#else
        if (is_first) {
#pragma unroll
            for (int c = 0; c < COLUMNS; ++c) {
                u32 found = 0;
#pragma unroll
                for (int i = 0; i < ROWS; ++i) found = max(found, exact::magnitude_of(x[i], c));
                window[c] = exact::field_of(found);
            }
            if (ADDING > 1) {
#pragma unroll
                for (int c = 0; c < OF_ROW; ++c) {
                    const int top = of_column(c, 0, [&](int i) { return window[i]; }, Larger());
                    if (speaks && is_own(c)) atomicMax(&meeting.top[place_of(c)], top);
                }
                __syncthreads();
            }
#pragma unroll
            for (int c = 0; c < COLUMNS; ++c) {
                const int top = ADDING > 1 && is_own(c) ? meeting.top[place_of(c)] : window[c];
                window[c] = exact::Cut::clamped(exact::window_of(top, exact::HEADROOM), log);
            }
        }
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) {
            if (is_first || ELEMENT == BINARY64) sums[c].begin(window[c], log);
#pragma unroll
            for (int i = 0; i < ROWS; ++i) {
                largest[c] = max(largest[c], exact::magnitude_of(x[i], c));
                sums[c].add(x[i].codes[c]);
            }
            if (ELEMENT == BINARY64) sums[c].empty(window[c], log);
        }
#endif
    }

    exact::Parts parts[COLUMNS];
#if ELEMENT == BINARY16 || ELEMENT == BFLOAT16
    if (ADDING > 1) {
#pragma unroll
        for (int c = 0; c < OF_ROW; ++c) {
            const int top = of_column(c, 0, [&](int i) { return seen[i / 2].top(i % 2); }, Larger());
            const int above = ANY_FINITE ? 0 : of_column(c, 0, [&](int i) { return exact::FIELDS - seen[i / 2].bottom(i % 2); }, Larger());
            if (!speaks || !is_own(c)) continue;
            atomicMax(&meeting.top[place_of(c)], top);
            if (!ANY_FINITE) atomicMax(&meeting.above_bottom[place_of(c)], above);
        }
        __syncthreads();
    }
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c) {
        int top = seen[c / 2].top(c % 2), bottom = seen[c / 2].bottom(c % 2);
        if (ADDING > 1 && is_own(c)) {
            top = meeting.top[place_of(c)];
            if (!ANY_FINITE) bottom = exact::FIELDS - meeting.above_bottom[place_of(c)];
        }
        const bool proved = exact::fits_lanes(top, bottom, log, exact::logarithm(ADDING));
        const int exponent = exact::last_bit(bottom == exact::FIELDS ? 1 : bottom);
        parts[c] = {0, proved ? exact::integer_of(sums[c], exponent) : 0, 1, exponent, proved};
    }
#else
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c) {
        if (ELEMENT != BINARY64) sums[c].empty(window[c], log);
        parts[c] = sums[c].parts(window[c], log, exact::field_of(largest[c]));
    }
#endif
    if (ADDING > 1) {
#pragma unroll
        for (int c = 0; c < OF_ROW; ++c) {
            const int failed = of_column(c, 0, [&](int i) { return parts[i].proved ? 0 : 1; }, Larger());
            const i64 high = exact::PLAIN ? 0 : of_column(c, i64{0}, [&](int i) { return parts[i].high; }, Added());
            const i64 low = of_column(c, i64{0}, [&](int i) { return parts[i].low; }, Added());
            if (!speaks || !is_own(c)) continue;
            if (failed) atomicMax(&meeting.failed[place_of(c)], 1);
            if (!exact::PLAIN) atomicAdd(reinterpret_cast<u64*>(&meeting.high[place_of(c)]), static_cast<u64>(high));
            atomicAdd(reinterpret_cast<u64*>(&meeting.low[place_of(c)]), static_cast<u64>(low));
        }
        __syncthreads();
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) {
            if (!is_own(c)) continue;
            parts[c].proved = !meeting.failed[place_of(c)];
            parts[c].high = meeting.high[place_of(c)];
            parts[c].low = meeting.low[place_of(c)];
        }
    }

    // The first of a column's threads has its sum.
    if (TOGETHER && ADDING > 1) __syncthreads();
    [[maybe_unused]] void* const results = room.results[TOGETHER ? threadIdx.x / WARP : 0];
    const i64 result = outer * p.inner + first;
    const auto is_mine = [&](int c) { return is_there && along == 0 && is_own(c) && first + c < p.inner; };
    u32 left = 0;  // columns without a proof
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c) {
        if (!is_mine(c)) continue;
        if (!parts[c].proved || divisor == 0) {
            left |= 1 << c;
            continue;
        }
#if PARTS
        i64* const of_all = p.limbs + (result + c) * exact::WORDS;
        for (int i = 0; i < 5; ++i) {
            if (!exact::PLAIN) exact::add_limb(of_all, parts[c].high, parts[c].exponent + parts[c].shift, i);
            exact::add_limb(of_all, parts[c].low, parts[c].exponent, i);
        }
#else
        void* const out = TOGETHER ? finish::place(results, lane * OF_ROW + c, target)
                                   : finish::place(p.out, result + c, target);
#if PLANNED
        const double sum = ADDING == 1 ? sums[c] * UP
                                      : static_cast<double>(parts[c].low) * exact::power(parts[c].exponent);
        reduce::store_planned(sum, divisor, out, target);
#else
        if (ADDING == 1)
            exact::store_lane_sum(sums[c], parts[c], static_cast<u32>(divisor), out, target);
        else
            exact::store_sum(parts[c], static_cast<u32>(divisor), out, target);
#endif
#endif
    }
#if !ANYWHERE
    if (TOGETHER) {
        __syncwarp();
        const i64 begin = (unit - lane) * OF_ROW;
        const i64 count = min(p.units * OF_ROW - begin, static_cast<i64>(WARP * OF_ROW));
        if (along == 0) finish::copy_results(results, finish::place(p.out, begin, target), static_cast<int>(count), target);
        __syncwarp();
    }
#endif
    for (u32 rest = __ballot_sync(ALL, left != 0); rest; rest &= rest - 1) {
        const int who = __ffs(rest) - 1;
        const Code* const from = reinterpret_cast<const Code*>(__shfl_sync(ALL, reinterpret_cast<u64>(data), who));
        const i64 place = __shfl_sync(ALL, result, who);
        for (u32 some = __shfl_sync(ALL, left, who); some; some &= some - 1) {
            const int c = __ffs(some) - 1;
#if PLANNED
            reduce::store_in_order(from + c, rows, p.stride, static_cast<int>(p.turns), static_cast<int>(p.chunks), divisor,
                                   finish::place(p.out, place + c, target), target);
            continue;
#endif
            exact::sum_in_limbs(from + c, static_cast<i64>(rows) * FOLD, p.stride / FOLD, limbs);
#if PARTS
            exact::share_limbs(limbs, p.limbs + (place + c) * exact::WORDS);
#else
            if (lane == 0) exact::store_all_limbs(limbs, divisor, finish::place(p.out, place + c, target), target);
#endif
            __syncwarp();
        }
    }
#if PARTS
    __shared__ u32 others;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) others = atomicInc(p.arrived + blockIdx.x, gridDim.y - 1);
    __syncthreads();
    if (others != gridDim.y - 1) return;
    __threadfence();
    for (int i = threadIdx.x / WARP; i < WIDTH; i += exact::WARPS) {
#if ANYWHERE
        if (i >= own) break;
        const i64 row = outer, at = first_own + i;
#else
        const i64 own = static_cast<i64>(blockIdx.x) * ACROSS + i / OF_ROW;
        if (own >= p.units) continue;
        const i64 row = own / p.pieces, at = (own - row * p.pieces) * COLUMNS + i % OF_ROW;
        if (at >= p.inner) continue;
#endif
        exact::take_limbs(p.limbs + (row * p.inner + at) * exact::WORDS, limbs);
        if (lane == 0)
            exact::store_all_limbs(limbs, divisor, finish::place(p.out, row * p.inner + at, target), target);
        __syncwarp();
    }
#endif
}
