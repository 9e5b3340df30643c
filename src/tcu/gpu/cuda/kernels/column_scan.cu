// Running sums down the columns of an array (outer, length, inner), whose inner numbers lie side by side: along any
// axis that is not the last, without a copy.  They have the plan's bits (tcu/plan/scan.py).
//
// A block has a tile: 16 lanes, each with one column or with two neighbours, times 32 groups of 32 bytes, one below
// the other: a run of the plan's first level.  Shorter columns have PER_COLUMN groups, and the block several sets of
// columns.  A lane keeps its groups in registers.  The networks above the groups go through shared memory, where a
// warp has one column at a time and a lane a group.  What comes before a run is found from the totals of earlier runs,
// a column each lane: a tile hands on its own total before it waits, and it waits for totals of lower levels only.
// Blocks take tiles in order, runs of one height together, so what is waited for is running or done.
//
// The floor is reading and writing each number once.  16 lanes read 64 bytes of a row (binary16, bfloat16) or 128.
//
// Compiled with ELEMENT, RESULT (finish/result_code.cuh), EXCLUSIVE and REVERSE, LAYOUT ALIGNED, and
//   COLUMNS     of a lane: 2 where all rows begin at multiples of two numbers, else 1
//   PER_COLUMN  groups of a column in a tile: a power of two up to 32
//   LEVELS      networks of the plan above the first: 0 where a column is no longer than a tile
//   RESIDENT    blocks per multiprocessor that the registers must allow

#include "device/finish/result_code.cuh"
#include "device/scan/prefix.cuh"
#include "device/types/element.cuh"

using namespace tcu;

#include "generated/column_scan/ColumnScan.inc"

constexpr int LANES = 16, ROWS = WARP, THREADS = LANES * ROWS;
constexpr int GROUP = 2 * PER_LOAD;           // numbers of a group
constexpr int TILE_COLUMNS = LANES * COLUMNS;  // of a set
constexpr int SETS = ROWS / PER_COLUMN;

// A lane's numbers of one row, as they are read.
template <typename Number>
struct alignas(COLUMNS * sizeof(Number)) Side {
    Number at[COLUMNS];
};

// The totals of a run in the making: the sums of the aligned blocks that the bits of the next place name.
struct PlaceBlocks {
    double blocks[5] = {};

    // Takes total number i of a run.  Returns what the blocks that end with it come to: of the run's last, the run.
    __device__ double push(int i, double total) {
        bool is_done = false;
#pragma unroll
        for (int p = 0; p < 5; ++p) {
            if (is_done) continue;
            if (i >> p & 1) {
                total = blocks[p] + total;
            } else {
                blocks[p] = total;
                is_done = true;
            }
        }
        return total;
    }

    // The sum before total number i.
    __device__ double before(int i) const {
        double sum = 0;
#pragma unroll
        for (int p = 0; p < 5; ++p)
            if (i >> p & 1) sum = blocks[p] + sum;
        return sum;
    }
};

#if LEVELS
// The slot of a total of level `level`: of run number `run` of a column.
__device__ inline scan::Slot* slot_of_run(const ColumnScan& p, int level, i64 run, i64 column) {
    return p.slots + (p.first[level] + run) * p.columns + column;
}

// Hands on what run `run` of a column comes to, and returns the sum of all runs before it, level by level.
__device__ inline double before_run(const ColumnScan& p, i64 run, i64 column, double total, u32 launch) {
    constexpr int AHEAD = 4;  // looks at once
    double before[LEVELS];
    bool is_known = true;  // whether `total` is that of a whole run of the level
#pragma unroll
    for (int level = 0; level < LEVELS; ++level) {
        const int radix = level ? 32 : 16, place = static_cast<int>(run % radix);
        if (is_known) scan::hand_on(slot_of_run(p, level, run, column), total, launch);
        PlaceBlocks known;
#pragma unroll 1
        for (int first = 0; first < place; first += AHEAD) {
            scan::Slot seen[AHEAD];
            const i64 at = run - place + first;
#pragma unroll
            for (int i = 0; i < AHEAD; ++i)
                if (first + i < place) seen[i] = scan::glance(slot_of_run(p, level, at + i, column));
#pragma unroll
            for (int i = 0; i < AHEAD; ++i)
                if (first + i < place)
                    known.push(first + i, scan::wait_for(slot_of_run(p, level, at + i, column), seen[i], launch));
        }
        before[level] = known.before(place);
        is_known = is_known && place == radix - 1;
        if (is_known) total = known.push(place, total);
        run /= radix;
    }
    double sum = 0;
#pragma unroll
    for (int level = LEVELS - 1; level >= 0; --level) sum += before[level];
    return sum;
}
#endif

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) column_scan(const __grid_constant__ ColumnScan p) {
    __shared__ double totals[TILE_COLUMNS][ROWS + 1];
    __shared__ double starts[TILE_COLUMNS];
    const int lane = threadIdx.x % LANES, row = threadIdx.x / LANES, group = row % PER_COLUMN;
    const i64 run = LEVELS ? blockIdx.x / p.tiles : 0, tile = LEVELS ? blockIdx.x % p.tiles : blockIdx.x;
    const i64 column = (tile * SETS + row / PER_COLUMN) * TILE_COLUMNS + lane * COLUMNS;
    const bool is_there = column < p.columns;
    const i64 outer = is_there ? column / p.inner : 0, inner = is_there ? column - outer * p.inner : 0;
    // The group's numbers in the order of the scan: `count` of them are in the array.
    const i64 from = (run * PER_COLUMN + group) * GROUP;
    const int count = is_there ? static_cast<int>(max(min(p.length - from, i64(GROUP)), i64(0))) : 0;
    const i64 first = REVERSE ? p.length - 1 - from : from;
    constexpr int STEP = REVERSE ? -1 : 1;
    const Code* const data = static_cast<const Code*>(p.data) + outer * p.outer_stride + first * p.stride + inner;
    Side<Code> x[GROUP];
#pragma unroll
    for (int i = 0; i < GROUP; ++i) {
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) x[i].at[c] = 0;
        if (i < count) x[i] = *reinterpret_cast<const Side<Code>*>(data + STEP * i * p.stride);
    }
#if LEVELS
    const u32 launch = scan::launches_before(p.shared) + 1;
#endif
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c) {
        double sum = to_binary64(x[0].at[c]);
#pragma unroll
        for (int i = 1; i < GROUP; ++i) sum += to_binary64(x[i].at[c]);
        totals[lane * COLUMNS + c][row] = sum;
    }
    __syncthreads();
    for (int c = threadIdx.x / WARP; c < TILE_COLUMNS; c += THREADS / WARP) {
        const int place = threadIdx.x % WARP;
        const double sum = scan::inclusive<PER_COLUMN>(totals[c][place], place);
        totals[c][place] = scan::exclusive<PER_COLUMN>(sum, place);
        if (place == WARP - 1) starts[c] = sum;  // the total of a whole run; of use where there are levels
    }
    __syncthreads();
#if LEVELS
    if (threadIdx.x < TILE_COLUMNS) {
        const i64 own = tile * TILE_COLUMNS + threadIdx.x;
        if (own < p.columns) starts[threadIdx.x] = before_run(p, run, own, starts[threadIdx.x], launch);
    }
    __syncthreads();
#endif
    finish::ResultCode* const out =
        static_cast<finish::ResultCode*>(p.out) + outer * p.out_outer_stride + first * p.out_stride + inner;
    double carry[COLUMNS], sum[COLUMNS];
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c) {
        carry[c] = (LEVELS ? starts[lane * COLUMNS + c] + totals[lane * COLUMNS + c][row] : totals[lane * COLUMNS + c][row]) + 0.0;
        sum[c] = 0;
    }
#pragma unroll
    for (int i = 0; i < GROUP; ++i) {
        Side<finish::ResultCode> result;
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) {
            const double earlier = i ? carry[c] + sum[c] : carry[c], number = to_binary64(x[i].at[c]);
            sum[c] = i ? sum[c] + number : number;
            const double value = EXCLUSIVE ? earlier : carry[c] + sum[c];
            result.at[c] = value != value ? finish::not_a_number() : finish::rounded(value);
        }
        if (i < count) {
            finish::ResultCode* const at = out + STEP * i * p.out_stride;
            if (p.wide)
                *reinterpret_cast<Side<finish::ResultCode>*>(at) = result;
            else
#pragma unroll
                for (int c = 0; c < COLUMNS; ++c) at[c] = result.at[c];
        }
    }
#if LEVELS
    // The last block to leave prepares the counters for the next launch.
    if (threadIdx.x == 0 && atomicInc(&p.shared->left, gridDim.x - 1) == gridDim.x - 1) p.shared->launch = launch;
#endif
}
