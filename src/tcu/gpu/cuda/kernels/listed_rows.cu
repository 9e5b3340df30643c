// Exact sums of rows that a list brings together, number by number: what an index sends to each slot.
//
// A lane has COLUMNS neighbouring numbers of a slot, reads them in all of its rows, and adds them up in binary64
// (exact/slot_columns.cuh).  What no proof holds for, a warp adds up again in limbs.  A slot of many rows is cut into pieces,
// which kernels of their own take: `listed_pieces` leaves two numbers of binary64 for each, whose sum is that of the piece,
// or NaN without a proof; `listed_long_slots` adds these up.
//
// Compiled with ELEMENT, LAYOUT ALIGNED (load/array.cuh), THREADS, RESIDENT, UNROLL 1, TERM VALUE, what exact/slot_columns.cuh
// lists, and
//   SLOTS  of a lane in flight

#include "device/exact/slot_columns.cuh"

using namespace tcu;
using exact::ListedPiece;
using exact::ListedRows;
using exact::SlotResults;
using exact::TARGET;

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
        if (count > 0) x = row(0);
        return x;
    }
    __device__ Vector row(int i) const { return load::neighbours<COLUMNS>(data + rows[i] * stride); }
};

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
        u32 left = 0;
        if (slot < p.slots) {
            const SlotRows share = share_of(slot, s);
            if (share.count > p.most) {
                left = unit == 0 ? exact::IS_LONG : 0;
            } else {
                SlotResults results;
                const auto row = [&](int i) { return share.row(i); };
                left = results.of(ahead[s], share.count, row, row);
                results.store(finish::place(p.out, slot * p.columns + unit * COLUMNS, TARGET));
            }
        }
        exact::do_what_is_left(p, left, slot, unit * COLUMNS, all_limbs[threadIdx.x / WARP]);
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
        const auto row = [&](int i) { return share.row(i); };
        exact::store_pairs(p.sums + 2 * (item * p.columns + unit * COLUMNS), share.first_row(), share.count, row, row);
    }
}

constexpr int TOGETHER = 16;  // lanes that share the pieces of a long slot's column

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
#pragma unroll 8
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
        exact::do_what_is_left(p, is_mine && !proved, first.slot, column, all_limbs[threadIdx.x / WARP]);
    }
}
