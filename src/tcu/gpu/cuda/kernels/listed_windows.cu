// Exact sums of rows that a list brings together (listed_rows.cu), where a slot has about one row.
//
// There a lane waits for where a slot begins, for the number of its row, and for the row, and once more for each further row.  Here
// the lanes that share a row have a window of neighbouring slots, whose rows follow each other in the list: all of them are on
// their way to shared memory at once.  What is beyond STAGED rows is read when its turn comes.
//
// Compiled with ELEMENT, LAYOUT ALIGNED (load/array.cuh), THREADS, RESIDENT, UNROLL 1, TERM VALUE, what exact/slot_columns.cuh
// lists, where COLUMNS are 16 bytes, and
//   LANES   that share a row, a power of two up to 32
//   SLOTS   of a window
//   STAGED  rows of a window in shared memory

#include "device/exact/slot_columns.cuh"
#include "device/load/async_copy.cuh"

using namespace tcu;
using exact::ListedRows;
using exact::SlotResults;
using exact::TARGET;

constexpr int GROUPS = THREADS / LANES;

extern "C" __global__ void __launch_bounds__(THREADS, resident(RESIDENT, THREADS))
    listed_windows(const __grid_constant__ ListedRows p) {
    extern __shared__ __align__(16) Vector staged[];
    __shared__ int begins[GROUPS][SLOTS + 1];
    __shared__ i64 all_limbs[exact::WARPS][exact::WORDS];
    const int group = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    const i64 first = (static_cast<i64>(blockIdx.x) * GROUPS + group) * SLOTS, begin = p.edges[min(first, p.slots)];
    for (int s = lane; s <= SLOTS; s += LANES) begins[group][s] = static_cast<int>(p.edges[min(first + s, p.slots)] - begin);
    __syncwarp();
    const int count = begins[group][SLOTS];
    const u32* const rows = p.rows + begin;
    const Code* const data = static_cast<const Code*>(p.data) + lane * COLUMNS;
    Vector* const own = staged + group * STAGED * LANES + lane;
    u32 numbers[STAGED];
#pragma unroll
    for (int i = 0; i < STAGED; ++i)
        if (i < count) numbers[i] = rows[i];
#pragma unroll
    for (int i = 0; i < STAGED; ++i)
        if (i < count) load::copy_if(true, static_cast<u32>(__cvta_generic_to_shared(own + i * LANES)), data + numbers[i] * p.stride);
    load::end_copies();
    load::wait_for_copies<0>();
#pragma unroll 1
    for (int s = 0; s < SLOTS; ++s) {
        const i64 slot = first + s;
        const int at = begins[group][s], of_slot = begins[group][s + 1] - at;
        const auto row = [&](int i) {
            return at + i < STAGED ? own[(at + i) * LANES] : load::neighbours<COLUMNS>(data + rows[at + i] * p.stride);
        };
        u32 left = 0;  // columns without a proof
        if (slot < p.slots) {
            if (of_slot > p.most) {
                if (lane == 0) exact::list_pieces(p, static_cast<u32>(slot));
            } else {
                Vector of_first;
                of_first.words = make_uint4(0, 0, 0, 0);
                if (of_slot > 0) of_first = row(0);
                SlotResults results;
                left = results.of(of_first, of_slot, row);
                results.store(finish::place(p.out, slot * p.columns + lane * COLUMNS, TARGET));
            }
        }
        exact::sum_what_is_left(p, left, slot, lane * COLUMNS, all_limbs[threadIdx.x / WARP]);
    }
}
