// Exact sums of rows that a list brings together, number by number: what an index sends to each slot.
//
// A lane has COLUMNS neighbouring numbers of a slot, reads them in all of its rows, and adds them up as in
// exact/lane_sums.cuh.  What the proof fails for, a warp adds up again in limbs.  A slot of many rows is cut into pieces,
// which kernels of their own take: `listed_pieces` leaves two numbers of binary64 for each, whose sum is that of the piece,
// or NaN without a proof; `listed_long_slots` adds these up.
//
// Compiled with ELEMENT, LAYOUT ALIGNED (load/array.cuh), THREADS, RESIDENT, UNROLL 1, TERM VALUE, and
//   COLUMNS  of a lane: what it loads at once, up to 16 bytes
//   ROWS     loads of a lane in flight

#include "device/exact/double_sum.cuh"
#include "device/exact/lane_sums.cuh"

using namespace tcu;

#include "generated/index_sums/ListedPiece.inc"
#include "generated/index_sums/ListedRows.inc"

constexpr int BYTES = COLUMNS * sizeof(Code);

__device__ inline Vector numbers_at(const Code* from) {
    Vector x;
    if constexpr (BYTES == 16) {
        x.words = load::read_once(from);
    } else if constexpr (BYTES == 8) {
        const uint2 words = __ldg(reinterpret_cast<const uint2*>(from));
        x.word[0] = words.x;
        x.word[1] = words.y;
    } else if constexpr (BYTES == 4) {
        x.word[0] = __ldg(reinterpret_cast<const u32*>(from));
    } else {
        x.word[0] = *from;
    }
    return x;
}

// The sums of a lane's columns of listed rows.
struct ColumnSums {
    exact::LaneSum sums[COLUMNS] = {};
    exact::Parts parts[COLUMNS];

    __device__ void add(const Code* data, i64 stride, const u32* rows, int count) {
        const int log = ELEMENT == BINARY64 ? exact::logarithm(ROWS) : 32 - __clz(count > 1 ? count - 1 : 0);
#if ELEMENT == BINARY16 || ELEMENT == BFLOAT16
        exact::PairRange seen[(COLUMNS + 1) / 2];
#else
        u32 largest[COLUMNS] = {};
        int window[COLUMNS] = {};
#endif
        bool is_first = true;
#pragma unroll 1
        for (int row = 0; row < count || is_first; row += ROWS, is_first = false) {
            Vector x[ROWS];
#pragma unroll
            for (int i = 0; i < ROWS; ++i) {
                x[i].words = make_uint4(0, 0, 0, 0);
                if (row + i < count) x[i] = numbers_at(data + rows[row + i] * stride);
            }
#if ELEMENT == BINARY16 || ELEMENT == BFLOAT16
#pragma unroll
            for (int i = 0; i < ROWS; ++i)
#pragma unroll
                for (int c = 0; c < COLUMNS; ++c) {
                    if (c % 2 == 0) seen[c / 2].see(x[i].word[c / 2]);
                    sums[c] += exact::moved(x[i].word[c / 2], c % 2);
                }
#else
#pragma unroll
            for (int c = 0; c < COLUMNS; ++c) {
                if (is_first) {
                    u32 found = 0;
#pragma unroll
                    for (int i = 0; i < ROWS; ++i) found = max(found, exact::magnitude_of(x[i], c));
                    window[c] = exact::Cut::clamped(exact::window_of(exact::field_of(found), exact::HEADROOM), log);
                }
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
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) {
#if ELEMENT == BINARY16 || ELEMENT == BFLOAT16
            const int top = seen[c / 2].top(c % 2), bottom = seen[c / 2].bottom(c % 2);
            const bool proved = exact::fits(top, bottom, log, 53);
            const int exponent = exact::last_bit(bottom == exact::FIELDS ? 1 : bottom);
            parts[c] = {0, proved ? exact::integer_of(sums[c], exponent) : 0, 1, exponent, proved};
#else
            if (ELEMENT != BINARY64) sums[c].empty(window[c], log);
            parts[c] = sums[c].parts(window[c], log, exact::field_of(largest[c]));
#endif
        }
    }
};

// Rows of a slot from its first one on, and the slot's columns of a lane.
struct Share {
    i64 slot, column, first;
    int count;
    const Code* data;
};

__device__ inline Share share_of(const ListedRows& p, i64 slot, i64 unit, i64 skipped = 0) {
    const i64 column = unit * COLUMNS, first = p.edges[slot] + skipped;
    return {slot, column, first, static_cast<int>(min(p.edges[slot + 1] - first, p.most)), static_cast<const Code*>(p.data) + column};
}

__device__ inline void store_nan(void* out, finish::Target target) {
    exact::store_code((1ull << ((target == finish::TO_BINARY64 ? 64 : target == finish::TO_BINARY32 ? 32 : 16) - 1)) - 1, false, out, target);
}

// Called by a whole warp: of the lanes that have some left, one after another, whole sums of columns in limbs.
__device__ inline void sum_what_is_left(const ListedRows& p, u32 left, i64 slot, i64 column, i64* limbs) {
    const finish::Target target = static_cast<finish::Target>(p.target);
    for (u32 rest = __ballot_sync(ALL, left != 0); rest; rest &= rest - 1) {
        const int who = __ffs(rest) - 1;
        const i64 its_slot = __shfl_sync(ALL, slot, who), its_column = __shfl_sync(ALL, column, who);
        const i64 first = p.edges[its_slot], count = p.edges[its_slot + 1] - first;
        for (u32 some = __shfl_sync(ALL, left, who); some; some &= some - 1) {
            const i64 at = its_column + (__ffs(some) - 1);
            const Code* const data = static_cast<const Code*>(p.data) + at;
            const u32* const rows = p.rows + first;
            const i64 stride = p.stride;
            exact::sum_numbers_in_limbs(count, limbs, [=](i64 i) { return data[rows[i] * stride]; });
            if (threadIdx.x % WARP == 0)
                exact::store_all_limbs(limbs, p.mean ? count : 1, finish::place(p.out, its_slot * p.columns + at, target), target);
            __syncwarp();
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, resident(RESIDENT, THREADS))
    listed_rows(const __grid_constant__ ListedRows p) {
    __shared__ i64 all_limbs[exact::WARPS][exact::WORDS];
    __shared__ u64 all_results[exact::WARPS][WARP * COLUMNS];
    const int lane = threadIdx.x % WARP;
    const finish::Target target = static_cast<finish::Target>(p.target);
    const i64 units = p.columns / COLUMNS, all = p.slots * units;
    const i64 number = static_cast<i64>(blockIdx.x) * THREADS + threadIdx.x;
    const bool is_there = number < all;
    const i64 slot = is_there ? number / units : 0, unit = is_there ? number - slot * units : 0;
    const Share share = share_of(p, slot, unit);
    const i64 count = p.edges[slot + 1] - share.first;
    const bool is_long = count > p.most;
    if (is_there && is_long && unit == 0) {  // its pieces
        const u32 pieces = static_cast<u32>((count + p.most - 1) / p.most), first = atomicAdd(p.items, pieces);
        p.long_slots[atomicAdd(p.longs, 1u)] = {static_cast<u32>(slot), first};
        for (u32 i = 0; i < pieces; ++i) p.pieces[first + i] = {static_cast<u32>(slot), i};
    }
    ColumnSums own;
    own.add(share.data, p.stride, p.rows + share.first, is_there && !is_long ? share.count : 0);
    u32 left = 0;  // columns without a proof
    const u32 divisor = p.mean ? static_cast<u32>(count) : 1;
    u64* const results = all_results[threadIdx.x / WARP];
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c) {
        void* const out = finish::place(results, lane * COLUMNS + c, target);
        if (divisor == 0)
            store_nan(out, target);
        else if (own.parts[c].proved)
            exact::store_lane_sum(own.sums[c], own.parts[c], divisor, out, target);
        else
            left |= 1u << c;
    }
    __syncwarp();
    const i64 begin = (number - lane) * COLUMNS;  // long slots have their sums later
    const i64 there = min(all * COLUMNS - begin, static_cast<i64>(WARP * COLUMNS));
    if (there > 0) finish::copy_results(results, finish::place(p.out, begin, target), static_cast<int>(there), target);
    __syncwarp();
    sum_what_is_left(p, is_there ? left : 0, slot, share.column, all_limbs[threadIdx.x / WARP]);
}

extern "C" __global__ void __launch_bounds__(THREADS, resident(RESIDENT, THREADS))
    listed_pieces(const __grid_constant__ ListedRows p) {
    const i64 units = p.columns / COLUMNS, across = (units + WARP - 1) / WARP, all = *p.items * across;
    const i64 warps = static_cast<i64>(gridDim.x) * exact::WARPS;
    for (i64 number = static_cast<i64>(blockIdx.x) * exact::WARPS + threadIdx.x / WARP; number < all; number += warps) {
        const i64 item = number / across, unit = (number - item * across) * WARP + threadIdx.x % WARP;
        const ListedPiece piece = p.pieces[item];
        if (unit >= units) continue;
        const Share share = share_of(p, piece.slot, unit, piece.number * p.most);
        ColumnSums own;
        own.add(share.data, p.stride, p.rows + share.first, share.count);
        double* const to = p.sums + 2 * (item * p.columns + share.column);
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) {
            const exact::Parts& sum = own.parts[c];
            const bool proved = sum.proved && sum.exponent >= -1022 && sum.exponent + sum.shift <= 900;
            to[2 * c] = proved ? static_cast<double>(sum.high) * exact::power(proved ? sum.exponent + sum.shift : 0) : __longlong_as_double(~0ll);
            to[2 * c + 1] = proved ? static_cast<double>(sum.low) * exact::power(proved ? sum.exponent : 0) : 0;
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, resident(RESIDENT, THREADS))
    listed_long_slots(const __grid_constant__ ListedRows p) {
    __shared__ i64 all_limbs[exact::WARPS][exact::WORDS];
    const finish::Target target = static_cast<finish::Target>(p.target);
    const i64 across = (p.columns + WARP - 1) / WARP, all = *p.longs * across;
    const i64 warps = static_cast<i64>(gridDim.x) * exact::WARPS;
    for (i64 number = static_cast<i64>(blockIdx.x) * exact::WARPS + threadIdx.x / WARP; number < all; number += warps) {
        const ListedPiece first = p.long_slots[number / across];
        const i64 column = number % across * WARP + threadIdx.x % WARP;
        const bool is_there = column < p.columns;
        const i64 count = p.edges[first.slot + 1] - p.edges[first.slot], pieces = (count + p.most - 1) / p.most;
        exact::DoubleSum sum;
        if (is_there) {
            const double* from = p.sums + 2 * (first.number * p.columns + column);
#pragma unroll 1
            for (i64 i = 0; i < pieces; ++i, from += 2 * p.columns) {
                sum.add(from[0]);
                sum.add(from[1]);
            }
        }
        void* const out = finish::place(p.out, first.slot * p.columns + column, target);
        bool proved = !sum.leftover && sum.high - sum.high == 0;
        if (is_there && proved) {
            if (p.mean)
                proved = exact::store_double_sum(sum, static_cast<u32>(count), out, target);
            else
                exact::store_doubles(sum.high, sum.low, out, target);
        }
        sum_what_is_left(p, is_there && !proved, first.slot, column, all_limbs[threadIdx.x / WARP]);
    }
}
