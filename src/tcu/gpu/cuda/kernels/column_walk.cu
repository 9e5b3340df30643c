// Running sums down the columns of an array (outer, length, inner), whose inner numbers lie side by side, where there
// are enough columns to fill a GPU.  They have the plan's bits (tcu/plan/scan.py).
//
// A lane has BYTES bytes of a row, neighbouring columns or, where rows begin anywhere, columns WARP apart.  It walks down
// them, a group of the plan at a time, and keeps the sums of what comes before in registers.  A warp has its own ring of
// groups in shared memory, which comes in the background.  With WARPS, those of a block take groups in turn, and all hand
// their totals to each other: columns that are too few for a warp each would keep too few warps busy, which wait for
// their own additions.
//
// The floor is reading and writing each number once: one of binary16 in 31 instructions of a lane (H200), as 132
// multiprocessors issue 4 for 32 lanes in a cycle.  It takes 15 to 20, of which networks without choices are 3.
//
// Compiled with ELEMENT, RESULT (finish/result_code.cuh), EXCLUSIVE, LAYOUT (ALIGNED: all rows begin at multiples of 16
// bytes, and a lane's results at multiples of as many numbers as it has), and
//   BYTES       of a row that a lane has: 4, 8 or 16; where rows begin anywhere, also 2
//   LEVELS      networks of the plan
//   STAGES      groups in a warp's ring
//   WARPS       of a block: a power of two; one where there are no networks
//   RESIDENT    blocks per multiprocessor that the registers must allow
//   IN_PLACE    1: rows begin anywhere, and results, of the numbers' format, begin where these do in 16 bytes
//               (scan/rows_in_place.cuh)

#include "device/load/async_copy.cuh"
#include "device/scan/columns.cuh"
#include "device/scan/networks.cuh"
#include "device/scan/prefix.cuh"
#if IN_PLACE
#include "device/scan/rows_in_place.cuh"
#endif

using namespace tcu;

#include "generated/column_scan/ColumnScan.inc"

constexpr int UNIT = BYTES / sizeof(Code);                 // columns of a lane
constexpr int ROW = WARP * BYTES;                          // bytes of a warp's row
constexpr int STEP = IN_PLACE ? ROW - scan::SECTOR : ROW;            // bytes from a strip to the next, where rows begin anywhere
constexpr int BEGINS = IN_PLACE ? scan::SECTOR : scan::GRANULE;  // bytes in which a row begins anywhere
constexpr int PITCH = ROW + (LAYOUT == ALIGNED ? 0 : BEGINS);
constexpr int STAGE = PITCH * scan::GROUP;                 // bytes
constexpr int GRANULES = ROW / 16, TOGETHER = WARP / GRANULES;  // rows that are copied together
constexpr int FETCHED = STAGES > 1 ? STAGES - 1 : 1;            // groups that are on their way
constexpr int HEIGHT = WARPS == 1 ? 0 : WARPS == 2 ? 1 : WARPS == 4 ? 2 : WARPS == 8 ? 3 : 4;  // of a network: its part between warps
static_assert(1 << HEIGHT == WARPS && (LEVELS > 0 || WARPS == 1), "warps have parts of a network");

// The columns of a block, and of a lane.
struct Strip {
    u32 outer;
    i64 inner;    // a lane's first column
    int columns;  // of a lane that exist

    // Where rows are aligned, granules of 16 bytes count on from one outer index to the next; else each has strips of its own.
    __device__ explicit Strip(const ColumnScan& p) {
        const int lane = threadIdx.x % WARP;
        const u32 item = LAYOUT == ALIGNED ? blockIdx.x * GRANULES + lane * BYTES / 16 : blockIdx.x;
        outer = item / p.strips;
        const i64 rest = item - outer * p.strips;
        inner = LAYOUT == ALIGNED ? rest * PER_LOAD + lane * BYTES % 16 / static_cast<int>(sizeof(Code)) : rest * (STEP / static_cast<int>(sizeof(Code))) + lane;
        const bool exists = item < p.items && inner < p.inner;
        columns = !exists ? 0 : LAYOUT == ALIGNED ? UNIT : static_cast<int>(min((p.inner - inner + WARP - 1) / WARP, static_cast<i64>(UNIT)));
    }
};

// The copies into a warp's ring of groups.  The granules of a row, and those of TOGETHER rows, are copied by one lane
// each; a row that begins anywhere has one more.
struct ColumnRing {
    const char* from;  // the lane's row
    i64 step, row;     // bytes from one row to the next, and the row of the next copy
    u32 at;            // in shared memory
    int bytes;         // of a row that exist, from the lane's granule on

    __device__ ColumnRing(const ColumnScan& p, const char* ring) {
        const int lane = threadIdx.x % WARP;
        const u32 item = LAYOUT == ALIGNED ? blockIdx.x * GRANULES + lane % GRANULES : blockIdx.x, outer = item / p.strips;
        const i64 rest = item - outer * p.strips;
        row = threadIdx.x / WARP * scan::GROUP + lane / GRANULES;
        step = p.stride * static_cast<i64>(sizeof(Code));
        from = reinterpret_cast<const char*>(static_cast<const Code*>(p.data) + outer * p.outer_stride) + row * step +
               rest * (LAYOUT == ALIGNED ? 16 : STEP);
        at = static_cast<u32>(__cvta_generic_to_shared(ring)) + lane / GRANULES * PITCH + lane % GRANULES * 16;
        bytes = item < p.items ? 16 : 0;
        const i64 left = p.inner * static_cast<i64>(sizeof(Code)) - rest * STEP;
        if (LAYOUT != ALIGNED) bytes = static_cast<int>(min(left, static_cast<i64>(ROW))) - lane % GRANULES * 16;
    }

    // Starts to copy the warp's next group; rows and columns that do not exist are zeros.
    __device__ void fetch(const ColumnScan& p, int stage) {
        const u32 to = at + stage * STAGE;
        if (LAYOUT != ALIGNED) fetch_last(p, to);
#pragma unroll
        for (int i = 0; i < scan::GROUP; i += TOGETHER) {
            const int shift = LAYOUT == ALIGNED ? 0 : static_cast<int>(reinterpret_cast<u64>(from) % BEGINS);
            const int place = LAYOUT == ALIGNED ? 0 : threadIdx.x % GRANULES * 16;
            load::copy_if(bytes + shift > 0 && place + 16 > shift && row < p.length, to + i * PITCH, from - shift + place);
            from += step * TOGETHER;
            row += TOGETHER;
        }
        from += step * ((WARPS - 1) * scan::GROUP);
        row += (WARPS - 1) * scan::GROUP;
    }

    // The last granules of rows that begin anywhere.
    __device__ void fetch_last(const ColumnScan& p, u32 to) const {
        constexpr int LAST = BEGINS / 16;
        const int lane = threadIdx.x % WARP, number = lane / LAST, down = number - lane / GRANULES;
        if (number >= scan::GROUP) return;
        const char* const start = from + down * step;
        const int shift = static_cast<int>(reinterpret_cast<u64>(start) % BEGINS), place = ROW + lane % LAST * 16;
        const u32 first = to - lane / GRANULES * PITCH - lane % GRANULES * 16;
        const bool any = bytes + lane % GRANULES * 16 + shift > place && row + down < p.length;
        load::copy_if(any, first + number * PITCH + place, start - shift + place);
    }
};

typedef scan::StagedGroup<UNIT, WARP, PITCH, BEGINS> LaneGroup;

#if LEVELS
typedef double Totals[WARPS][UNIT][WARP];  // of a turn's groups

// The sum of COUNT neighbouring totals, pairwise.
template <int COUNT>
__device__ inline double sum_of(const Totals& totals, int first, int c) {
    if constexpr (COUNT == 1)
        return totals[first][c][threadIdx.x % WARP];
    else
        return sum_of<COUNT / 2>(totals, first, c) + sum_of<COUNT / 2>(totals, first + COUNT / 2, c);
}

// The sum of a turn's totals before a warp's.
template <int BIT = 1>
__device__ inline double sum_before(const Totals& totals, int warp, int c, double later = 0) {
    if constexpr (BIT < WARPS) {
        if (warp & BIT) {
            const double sum = sum_of<BIT>(totals, (warp & ~(BIT - 1)) - BIT, c);
            later = warp & (BIT - 1) ? sum + later : sum;
        }
        return sum_before<2 * BIT>(totals, warp, c, later);
    }
    return later;
}
#endif

// A lane's group.  Writes the results of `left` rows, and makes of what comes before the group its total.
__device__ inline void scan_group(const ColumnScan& p, const LaneGroup& group, finish::ResultCode* to, int left,
                                  double (&carry)[UNIT]) {
    double sums[UNIT];
    if (scan::write_plain(group, to, p.out_stride, left, carry, sums)) {
#pragma unroll
        for (int c = 0; c < UNIT; ++c) carry[c] = scan::MOVES ? sums[c] * UP : sums[c];
        return;
    }
#pragma unroll
    for (int c = 0; c < UNIT; ++c)
        if (c < group.columns) carry[c] = scan::scan_any(group, to + group.place(c), p.out_stride, left, carry[c], c);
}

extern "C" __global__ void __launch_bounds__(WARPS * WARP, RESIDENT) column_walk(const __grid_constant__ ColumnScan p) {
    extern __shared__ uint4 memory[];
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const char* const groups = reinterpret_cast<const char*>(memory) + warp * STAGES * STAGE;
    ColumnRing ring(p, groups);
    const Strip strip(p);
    LaneGroup group = {nullptr, static_cast<u32>(reinterpret_cast<u64>(ring.from) - lane / GRANULES * ring.step), static_cast<u32>(ring.step), strip.columns};
    finish::ResultCode* to = static_cast<finish::ResultCode*>(p.out) + strip.outer * p.out_outer_stride + strip.inner +
                             warp * scan::GROUP * p.out_stride;
#if LEVELS
    scan::Networks<UNIT, HEIGHT> networks;
#endif
#if LEVELS && WARPS > 1
    __shared__ Totals totals[2];
#endif
#pragma unroll
    for (int i = 0; i < FETCHED; ++i) {
        ring.fetch(p, i);
        load::end_copies();
    }
#if IN_PLACE
    const i64 there = (p.inner - (strip.inner - lane)) * static_cast<i64>(sizeof(Code));
    // Where results are to overwrite the numbers, the next strip's may be gone.
    const bool cut = p.data == p.out;
    const scan::StripBytes bytes = {static_cast<int>(min(there, static_cast<i64>(ROW))), STEP, cut || strip.inner == lane, cut};
#endif
    int stage = 0, fetched = FETCHED;
    i64 left = p.length - warp * scan::GROUP;
#pragma unroll 1
    for (u32 turn = 0; turn < p.tiles; ++turn, left -= WARPS * scan::GROUP) {
        load::wait_for_copies<FETCHED - 1>();
        __syncwarp();  // all lanes have read the group before
        if (STAGES > 1) {
            if (ring.row < p.length) ring.fetch(p, fetched);
            load::end_copies();
        }
        group.rows = groups + stage * STAGE + lane * (LAYOUT == ALIGNED ? BYTES : static_cast<int>(sizeof(Code)));
        double carry[UNIT] = {};
#if LEVELS && WARPS > 1
        double sums[UNIT];
        scan::add_up(group, sums);
#pragma unroll
        for (int c = 0; c < UNIT; ++c) totals[turn % 2][warp][c][lane] = sums[c];
        __syncthreads();
#pragma unroll
        for (int c = 0; c < UNIT; ++c) {
            carry[c] = sum_before(totals[turn % 2], warp, c);
            sums[c] = sum_of<WARPS>(totals[turn % 2], 0, c);
        }
#endif
#if LEVELS
        networks.before(turn, carry);
#endif
#if LEVELS && WARPS > 1
        networks.push(turn, sums);
#endif
        const int rows = static_cast<int>(min(left, static_cast<i64>(scan::GROUP)));
#if IN_PLACE
        const char* const numbers = groups + stage * STAGE;
        scan::scan_in_place(group, carry);
        __syncwarp();
        scan::store_rows<ROW, PITCH>(reinterpret_cast<char*>(to - lane), p.out_stride * static_cast<i64>(sizeof(Code)), bytes, rows, numbers,
                                    [&](int i) { return group.begin(i); });
#else
        if (strip.columns) scan_group(p, group, to, rows, carry);
#endif
#if LEVELS && WARPS == 1
        networks.push(turn, carry);
#endif
        to += p.out_stride * (WARPS * scan::GROUP);
        group.skew += WARPS * scan::GROUP * group.step;
        stage = stage == STAGES - 1 ? 0 : stage + 1;
        fetched = fetched == STAGES - 1 ? 0 : fetched + 1;
    }
}
