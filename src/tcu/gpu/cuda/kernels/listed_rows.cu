// Exact sums of rows that a list brings together, number by number: what an index sends to each slot.
//
// A lane has COLUMNS neighbouring numbers of a slot, reads them in all of its rows, and adds them up: numbers of 16 bits as in
// exact/lane_sums.cuh, others in two numbers of binary64 (exact/double_sum.cuh), which are soon begun and soon rounded.  What
// the proof fails for, a warp adds up again in limbs.  A slot of many rows is cut into pieces,
// which kernels of their own take: `listed_pieces` leaves two numbers of binary64 for each, whose sum is that of the piece,
// or NaN without a proof; `listed_long_slots` adds these up.
//
// Compiled with ELEMENT, LAYOUT ALIGNED (load/array.cuh), THREADS, RESIDENT, UNROLL 1, TERM VALUE, and
//   COLUMNS  of a lane: what it loads at once, up to 16 bytes
//   ROWS     loads of a lane in flight
//   SLOTS    of a lane in flight
//   RESULT   the format of the results, as finish::Target numbers them
//   MEAN     1: the sums are divided by the numbers of rows

#include "device/exact/double_sum.cuh"
#include "device/exact/lane_sums.cuh"
#include "device/finish/result_code.cuh"

using namespace tcu;

#include "generated/index_sums/ListedPiece.inc"
#include "generated/index_sums/ListedRows.inc"

constexpr finish::Target TARGET = static_cast<finish::Target>(RESULT);

// The sums of a lane's columns of listed rows.
struct ColumnSums {
#if ELEMENT == BINARY16 || ELEMENT == BFLOAT16
    double sums[COLUMNS] = {};
    exact::PairRange seen;  // of all columns: one proof for them takes a quarter of the instructions
    int log;
#else
    exact::DoubleSum sums[COLUMNS];
#endif

    // The first of the rows is there already.
    __device__ ColumnSums(const Vector& ahead, const Code* data, i64 stride, const u32* rows, int count) {
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) add(ahead, c);
#pragma unroll 1
        for (int row = 1; row < count; row += ROWS) {
            Vector x[ROWS];
#pragma unroll
            for (int i = 0; i < ROWS; ++i) {
                x[i].words = make_uint4(0, 0, 0, 0);
                if (row + i < count) x[i] = load::neighbours<COLUMNS>(data + rows[row + i] * stride);
            }
#pragma unroll
            for (int i = 0; i < ROWS; ++i)
#pragma unroll
                for (int c = 0; c < COLUMNS; ++c) add(x[i], c);
        }
#if ELEMENT == BINARY16 || ELEMENT == BFLOAT16
        log = 32 - __clz(count > 1 ? count - 1 : 0);
#endif
    }

#if ELEMENT == BINARY16 || ELEMENT == BFLOAT16
    __device__ void add(const Vector& x, int c) {
        if (c % 2 == 0) seen.see(x.word[c / 2]);
        sums[c] += exact::moved(x.word[c / 2], c % 2);
    }
    __device__ bool proved(int) const { return seen.fits(log); }
    // Two numbers whose sum it is.
    __device__ double2 pair(int c) const { return {sums[c] * exact::UP, 0}; }
    __device__ bool store_mean(int c, int count, void* out) const {
        exact::store_sum(exact::parts_of(sums[c], seen), count, out, TARGET);
        return true;
    }
#else
    __device__ void add(const Vector& x, int c) { sums[c].add(to_binary64(x.codes[c])); }
    __device__ bool proved(int c) const { return !sums[c].leftover && sums[c].high - sums[c].high == 0; }
    __device__ double2 pair(int c) const { return {sums[c].high, sums[c].low}; }
    __device__ bool store_mean(int c, int count, void* out) const { return exact::store_double_sum(sums[c], count, out, TARGET); }
#endif
};

// Rows of a slot from one on, up to `most`, and the slot's columns of a lane.
struct SlotRows {
    const Code* data;
    const u32* rows;
    i64 stride;
    int count;

    __device__ SlotRows(const ListedRows& p, i64 slot, i64 unit, i64 skipped = 0)
        : data(static_cast<const Code*>(p.data) + unit * COLUMNS), rows(p.rows + p.edges[slot] + skipped), stride(p.stride),
          count(static_cast<int>(min(p.edges[slot + 1] - p.edges[slot] - skipped, p.most + 1))) {}

    __device__ Vector first_row() const {
        Vector x;
        x.words = make_uint4(0, 0, 0, 0);
        if (count > 0) x = load::neighbours<COLUMNS>(data + *rows * stride);
        return x;
    }
    __device__ ColumnSums sums(const Vector& ahead) const { return ColumnSums(ahead, data, stride, rows, count); }
};

__device__ __noinline__ void sum_in_limbs(const Code* data, const u32* rows, i64 stride, i64 count, i64* limbs) {
    exact::sum_numbers_in_limbs(count, limbs, [=](i64 i) { return data[rows[i] * stride]; });
}

// Called by a whole warp: of the lanes that have some left, one after another, whole sums of columns in limbs.
__device__ inline void sum_what_is_left(const ListedRows& p, u32 left, i64 slot, i64 column, i64* limbs) {
    for (u32 rest = __ballot_sync(ALL, left != 0); rest; rest &= rest - 1) {
        const int who = __ffs(rest) - 1;
        const i64 its_slot = __shfl_sync(ALL, slot, who), its_column = __shfl_sync(ALL, column, who);
        const i64 first = p.edges[its_slot], count = p.edges[its_slot + 1] - first;
        for (u32 some = __shfl_sync(ALL, left, who); some; some &= some - 1) {
            const i64 at = its_column + (__ffs(some) - 1);
            const Code* const data = static_cast<const Code*>(p.data) + at;
            const u32* const rows = p.rows + first;
            const i64 stride = p.stride;
            sum_in_limbs(data, rows, stride, count, limbs);
            if (threadIdx.x % WARP == 0)
                exact::store_all_limbs(limbs, MEAN ? count : 1, finish::place(p.out, its_slot * p.columns + at, TARGET), TARGET);
            __syncwarp();
        }
    }
}

// Results of neighbouring columns, which are stored at once.
union SlotResults {
    finish::ResultCode codes[COLUMNS];
    u64 wide[(COLUMNS * sizeof(finish::ResultCode) + 7) / 8];
    u32 words[(COLUMNS * sizeof(finish::ResultCode) + 3) / 4];

    // Returns the columns without a proof.
    __device__ u32 of(const SlotRows& share, const Vector& ahead) {
        u32 left = 0;
        if (share.count <= 1) {
#pragma unroll
            for (int c = 0; c < COLUMNS; ++c) {
                if (MEAN && share.count == 0)
                    codes[c] = finish::not_a_number();
                else
                    finish::store_rounded(&codes[c], to_binary64(ahead.codes[c]), TARGET);
            }
            return 0;
        }
        const ColumnSums own = share.sums(ahead);
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) {
            bool done = own.proved(c);
            const double2 sum = own.pair(c);
            if (done && MEAN)
                done = own.store_mean(c, share.count, &codes[c]);
            else if (done && exact::PLAIN)
                finish::store_rounded(&codes[c], sum.x, TARGET);
            else if (done)
                exact::store_doubles(sum.x, sum.y, &codes[c], TARGET);
            left |= static_cast<u32>(!done) << c;
        }
        return left;
    }

    __device__ void store(void* to) const {
        constexpr int STORED = COLUMNS * sizeof(finish::ResultCode);
        if constexpr (STORED % 16 == 0) {
#pragma unroll
            for (int i = 0; i < STORED / 16; ++i) static_cast<ulonglong2*>(to)[i] = ulonglong2{wide[2 * i], wide[2 * i + 1]};
        } else if constexpr (STORED == 8) {
            *static_cast<u64*>(to) = wide[0];
        } else if constexpr (STORED == 4) {
            *static_cast<u32*>(to) = words[0];
        } else {
            *static_cast<finish::ResultCode*>(to) = codes[0];
        }
    }
};

__device__ __noinline__ void list_pieces(const ListedRows& p, u32 slot) {
    const i64 count = p.edges[slot + 1] - p.edges[slot];
    const u32 pieces = static_cast<u32>((count + p.most - 1) / p.most), first = atomicAdd(p.items, pieces);
    p.long_slots[atomicAdd(p.longs, 1u)] = {slot, first};
    for (u32 i = 0; i < pieces; ++i) p.pieces[first + i] = {slot, i};
}

extern "C" __global__ void __launch_bounds__(THREADS, resident(RESIDENT, THREADS))
    listed_rows(const __grid_constant__ ListedRows p) {
    __shared__ i64 all_limbs[exact::WARPS][exact::WORDS];
    const i64 units = p.columns / COLUMNS, first = static_cast<i64>(blockIdx.x) * THREADS * SLOTS + threadIdx.x;
    const auto slot_of = [&](int s) {
        const i64 number = first + s * THREADS;
        return p.shift >= 0 ? number >> p.shift : number / units;
    };
    const auto share_of = [&](i64 slot, int s) { return SlotRows(p, slot, first + s * THREADS - slot * units); };
    // The first rows of all slots are on their way before one of them is used: a slot takes three loads, one after another.
    Vector ahead[SLOTS];
#pragma unroll
    for (int s = 0; s < SLOTS; ++s)
        if (const i64 slot = slot_of(s); slot < p.slots) ahead[s] = share_of(slot, s).first_row();
#pragma unroll
    for (int s = 0; s < SLOTS; ++s) {
        const i64 slot = slot_of(s), unit = first + s * THREADS - slot * units;
        u32 left = 0;  // columns without a proof
        if (slot < p.slots) {
            const SlotRows share = share_of(slot, s);
            if (share.count > p.most) {
                if (unit == 0) list_pieces(p, static_cast<u32>(slot));
            } else {
                SlotResults results;
                left = results.of(share, ahead[s]);
                results.store(finish::place(p.out, slot * p.columns + unit * COLUMNS, TARGET));
            }
        }
        sum_what_is_left(p, left, slot, unit * COLUMNS, all_limbs[threadIdx.x / WARP]);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, resident(RESIDENT, THREADS))
    listed_pieces(const __grid_constant__ ListedRows p) {
    const i64 units = p.columns / COLUMNS, across = (units + WARP - 1) / WARP, all = *p.items * across;
    const i64 warps = static_cast<i64>(gridDim.x) * exact::WARPS;
    for (i64 number = static_cast<i64>(blockIdx.x) * exact::WARPS + threadIdx.x / WARP; number < all; number += warps) {
        const i64 item = number / across, unit = (number - item * across) * WARP + threadIdx.x % WARP;
        const ListedPiece piece = p.pieces[item];
        if (unit >= units) continue;
        SlotRows share(p, piece.slot, unit, piece.number * p.most);
        share.count = static_cast<int>(min(static_cast<i64>(share.count), p.most));
        const ColumnSums own = share.sums(share.first_row());
        double2* const to = reinterpret_cast<double2*>(p.sums) + item * p.columns + unit * COLUMNS;
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c)
            to[c] = own.proved(c) ? own.pair(c) : double2{__longlong_as_double(~0ll), 0};
    }
}

constexpr int TOGETHER = 8;  // lanes that share the pieces of a long slot's column

extern "C" __global__ void __launch_bounds__(THREADS, resident(RESIDENT, THREADS))
    listed_long_slots(const __grid_constant__ ListedRows p) {
    __shared__ i64 all_limbs[exact::WARPS][exact::WORDS];
    constexpr int WIDTH = WARP / TOGETHER;
    const int lane = threadIdx.x % WARP;
    const i64 across = (p.columns + WIDTH - 1) / WIDTH, all = *p.longs * across;
    const i64 warps = static_cast<i64>(gridDim.x) * exact::WARPS;
    for (i64 number = static_cast<i64>(blockIdx.x) * exact::WARPS + threadIdx.x / WARP; number < all; number += warps) {
        const ListedPiece first = p.long_slots[number / across];
        const i64 column = number % across * WIDTH + lane % WIDTH;
        const i64 count = p.edges[first.slot + 1] - p.edges[first.slot], pieces = (count + p.most - 1) / p.most;
        exact::DoubleSum sum;
        const double2* const from = reinterpret_cast<const double2*>(p.sums) + first.number * p.columns + column;
#pragma unroll 4
        for (i64 i = lane / WIDTH; i < pieces && column < p.columns; i += TOGETHER) {
            const double2 piece = from[i * p.columns];
            sum.add(piece.x);
            sum.add(piece.y);
        }
        for (int half = WARP / 2; half >= WIDTH; half /= 2) {
            const double high = __shfl_xor_sync(ALL, sum.high, half), low = __shfl_xor_sync(ALL, sum.low, half);
            sum.leftover |= __shfl_xor_sync(ALL, sum.leftover, half);
            sum.add(high);
            sum.add(low);
        }
        const bool is_mine = lane < WIDTH && column < p.columns;
        void* const out = finish::place(p.out, first.slot * p.columns + column, TARGET);
        bool proved = !sum.leftover && sum.high - sum.high == 0;
        if (is_mine && proved) {
            if (MEAN)
                proved = exact::store_double_sum(sum, static_cast<u32>(count), out, TARGET);
            else
                exact::store_doubles(sum.high, sum.low, out, TARGET);
        }
        sum_what_is_left(p, is_mine && !proved, first.slot, column, all_limbs[threadIdx.x / WARP]);
    }
}
