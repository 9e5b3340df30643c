// Exact sums of rows that a list brings together (listed_rows.cu), where a lane has 16 bytes of a row: a stream of copies.
//
// There a lane waits for where a slot begins, for the number of its row, and for the row, and once more for each few further rows:
// 2.6 of 4.2 TB/s (262,144 rows of 512 numbers of bfloat16 to 50,000 slots, H200).  Here LANES lanes have a window of
// neighbouring slots, whose rows follow each other in the list, or a piece of a long slot.  STAGED - 1 rows are always on their way
// to shared memory.  Each lane copies, and waits for, what it adds up itself, so that no lane waits for another: 3.75 TB/s.  Where
// a lane had two such loads of each row, it took 0.97 of the time with 16 warps, 1.05 with 24, which spilled registers.
//
// Compiled with ELEMENT, LAYOUT ALIGNED (load/array.cuh), THREADS, RESIDENT, UNROLL 1, TERM VALUE, what exact/slot_columns.cuh
// lists, where COLUMNS are 16 bytes, and
//   LANES   that share a row, or LANES * COLUMNS numbers of it; a power of two up to 32
//   SLOTS   of a window
//   STAGED  rows that have room in shared memory

#include "device/exact/slot_columns.cuh"
#include "device/load/async_copy.cuh"

using namespace tcu;
using exact::ListedPiece;
using exact::ListedRows;
using exact::SlotResults;
using exact::TARGET;

constexpr int GROUPS = THREADS / LANES;
constexpr u32 NEXT_ROW = LANES * 16, LAST_ROW = (STAGED - 1) * NEXT_ROW;  // in bytes

// A lane's share of rows that follow each other in the list.
struct RowStream {
    const char* data;
    u32 stride;             // in bytes
    const u32* list;
    int next = 0, end = 0;  // in the list: the row whose copy begins next, and the end
    u32 number = 0;         // of the next row
    const char* own;        // the lane's first bytes in shared memory
    u32 at = 0, before = LAST_ROW;  // behind these: the next row to be taken, and the one before it

    __device__ RowStream(const ListedRows& p, u32 unit, const u32* rows, const Vector* staged)
        : data(static_cast<const char*>(p.data) + unit * 16), stride(static_cast<u32>(p.stride * sizeof(Code))), list(rows),
          own(reinterpret_cast<const char*>(staged)) {}

    __device__ void begin(int from, int to) {
        load::wait_for_copies<0>();
        next = from;
        end = to;
        if (next < end) number = list[next];
#pragma unroll
        for (int i = 0; i < STAGED - 1; ++i) ask(i * NEXT_ROW);
        at = 0;
        before = LAST_ROW;
    }

    __device__ const char* row(u32 number) const { return data + static_cast<u64>(number) * stride; }

    __device__ void ask(u32 place) {
        const char* const from = row(number);
        const bool is_there = next++ < end;
        if (is_there) load::copy_bytes<16>(static_cast<u32>(__cvta_generic_to_shared(own)) + place, from);
        load::end_copies();
        if (next < end) number = list[next];
    }

    // The next copy goes where the row before this one was.
    __device__ Vector take() {
        ask(before);
        load::wait_for_copies<STAGED - 1>();
        before = at;
        at = at == LAST_ROW ? 0 : at + NEXT_ROW;
        return *reinterpret_cast<const Vector*>(own + before);
    }

    // Any row, without the stream.
    __device__ Vector again(int i) const {
        return load::neighbours<COLUMNS>(reinterpret_cast<const Code*>(row(list[i])));
    }
};

// What a group of lanes has: a window or a piece, and which part of its rows.
struct GroupShare {
    u32 units, number, unit;

    __device__ GroupShare(const ListedRows& p, u32 group) : units(static_cast<u32>(p.columns / COLUMNS)) {
        const u32 across = (units + LANES - 1) / LANES;
        number = group / across;
        unit = (group - number * across) * LANES + threadIdx.x % LANES;
    }
};

extern "C" __global__ void __launch_bounds__(THREADS, resident(RESIDENT, THREADS))
    listed_windows(const __grid_constant__ ListedRows p) {
    extern __shared__ __align__(16) Vector staged[];
    __shared__ int begins[GROUPS][SLOTS + 1];
    __shared__ i64 all_limbs[exact::WARPS][exact::WORDS];
    const int group = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    const GroupShare share(p, blockIdx.x * GROUPS + group);
    const i64 first = static_cast<i64>(share.number) * SLOTS, begin = p.edges[min(first, p.slots)];
    for (int s = lane; s <= SLOTS; s += LANES) begins[group][s] = static_cast<int>(p.edges[min(first + s, p.slots)] - begin);
    __syncwarp();
    const int most = static_cast<int>(p.most);
    RowStream rows(p, share.unit, p.rows + begin, staged + group * (STAGED * LANES) + lane);
    bool is_begun = false;
#pragma unroll 1
    for (int s = 0; s < SLOTS; ++s) {
        const i64 slot = first + s;
        const int at = begins[group][s], count = begins[group][s + 1] - at;
        u32 left = 0;
        if (slot < p.slots && share.unit < share.units) {
            if (count > most) {
                left = share.unit == 0 ? exact::IS_LONG : 0;
                is_begun = false;  // its rows are skipped
            } else {
                if (!is_begun) rows.begin(at, begins[group][SLOTS]);
                is_begun = true;
                Vector of_first;
                of_first.words = make_uint4(0, 0, 0, 0);
                if (count > 0) of_first = rows.take();
                SlotResults results;
                left = results.of(of_first, count, [&](int) { return rows.take(); }, [&](int i) { return rows.again(at + i); });
                results.store(finish::place(p.out, slot * p.columns + share.unit * COLUMNS, TARGET));
            }
        }
        exact::do_what_is_left(p, left, slot, share.unit * COLUMNS, all_limbs[threadIdx.x / WARP]);
    }
    load::wait_for_copies<0>();  // of a long slot's rows that nobody takes
}

extern "C" __global__ void __launch_bounds__(THREADS, resident(RESIDENT, THREADS))
    listed_pieces_of_windows(const __grid_constant__ ListedRows p) {
    extern __shared__ __align__(16) Vector staged[];
    const u32 group = threadIdx.x / LANES, lane = threadIdx.x % LANES, groups = gridDim.x * GROUPS, items = *p.items;
    for (u32 number = blockIdx.x * GROUPS + group;; number += groups) {
        const GroupShare share(p, number);
        if (share.number >= items) break;
        if (share.unit >= share.units) continue;
        const ListedPiece piece = p.pieces[share.number];
        const i64 begin = p.edges[piece.slot] + piece.number * p.most;
        const int count = static_cast<int>(min(p.most, p.edges[piece.slot + 1] - begin));
        RowStream rows(p, share.unit, p.rows + begin, staged + group * (STAGED * LANES) + lane);
        rows.begin(0, count);
        const Vector of_first = rows.take();
        exact::store_pairs(p.sums + 2 * (share.number * p.columns + share.unit * COLUMNS), of_first, count,
                           [&](int) { return rows.take(); }, [&](int i) { return rows.again(i); });
    }
}
