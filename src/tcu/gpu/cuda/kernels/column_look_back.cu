// Running sums down the columns of an array (outer, length, inner), whose inner numbers lie side by side, where columns
// are few and long.  They have the plan's bits (tcu/plan/scan.py).
//
// A strip is a line of memory wide (COLUMNS); a tile is a run of the plan's first level of it.  The blocks of a strip take
// its tiles in turn, and all blocks run at the same time.  STAGES tiles of a block lie in shared memory.  A tile's totals
// are handed on AHEAD turns before its results are written.  Meanwhile warps of their own (CARRIERS) find what comes
// before it, from the totals of the runs and of each RADIX of them.
//
// The floor is reading and writing each number once.
//
// Compiled with ELEMENT, RESULT (finish/result_code.cuh), EXCLUSIVE, LAYOUT (ALIGNED: all rows begin at multiples of 16
// bytes, and pairs of 16-bit numbers have their results at multiples of two), for sm_90 and later, and
//   LEVELS      networks of the plan above the first
//   AHEAD       tiles that are added up before the results of one are written: 1 at least
//   STAGES      two more than AHEAD at least
//   EACH        groups of a thread: a power of two
//   RESIDENT    blocks per multiprocessor that the registers must allow

#include "device/load/async_copy.cuh"
#include "device/load/bulk_copy.cuh"
#include "device/scan/columns.cuh"
#include "device/scan/prefix.cuh"

using namespace tcu;

#include "generated/column_scan/ColumnScan.inc"

// A row that begins anywhere in its granule of 16 bytes has one granule less, so that it fits in a line.
constexpr int LINE = 128, COLUMNS = (LAYOUT == ALIGNED ? LINE : LINE - 16) / sizeof(Code);
constexpr int UNIT = scan::MOVES ? 2 : 1, UNITS = COLUMNS / UNIT;
constexpr int ROWS = WARP * scan::GROUP, TILE = ROWS * LINE;
constexpr int WORKERS = UNITS * WARP / EACH;  // threads
constexpr int CARRIERS = (COLUMNS + WARP - 1) / WARP;
constexpr int THREADS = WORKERS + CARRIERS * WARP;
constexpr int GRANULES = LINE / 16, TOGETHER = WORKERS / GRANULES;  // rows that are copied together
constexpr int FETCHED = STAGES - AHEAD - 1;                 // tiles that are on their way
constexpr int STARTS = AHEAD + 2;                           // a block's next start is found when the tile before is added up
constexpr int RADIX = WARP / 2;                             // of the network above the first
constexpr int LOOKED_AT = 8;                                // totals that are read at a time
static_assert(FETCHED > 0 && AHEAD > 0 && WORKERS % WARP == 0, "there is a tile on its way");

typedef scan::StagedGroup<UNIT, UNITS, LINE> TileGroup;

// What the warps of a block tell each other.
struct LookBackBuffers {
    double totals[COLUMNS][WARP + 1];  // of a tile's groups; columns that a thread has lie apart
    double starts[STARTS][COLUMNS];    // what comes before a tile
    u64 found[STARTS];                 // barriers
};

// The strip of a block, and its tiles.
struct StripOfBlock {
    int first, step, runs;  // the block's first run, from one to the next, and how many there are
    i64 from, to;     // elements: the strip's first number, and its first result
    i64 column;       // its first, of all
    int columns;      // that exist

    __device__ explicit StripOfBlock(const ColumnScan& p) {
        const u32 items = static_cast<u32>(p.items), item = blockIdx.x % items, outer = item / p.strips;
        const i64 inner = static_cast<i64>(item - outer * p.strips) * COLUMNS;
        first = static_cast<int>(blockIdx.x / items);
        step = static_cast<int>(gridDim.x / items);
        runs = static_cast<int>(p.tiles);
        from = outer * p.outer_stride + inner;
        to = outer * p.out_outer_stride + inner;
        column = outer * p.inner + inner;
        columns = static_cast<int>(min(p.inner - inner, static_cast<i64>(COLUMNS)));
    }

    __device__ int run(int turn) const { return first + turn * step; }
};

// Called by all but the carriers.
__device__ inline void wait_for_workers() { asm volatile("bar.sync 1, %0;" ::"n"(WORKERS) : "memory"); }

// Starts to copy a run into its stage; rows and columns that do not exist are zeros.
__device__ inline void fetch(const ColumnScan& p, const StripOfBlock& strip, int run, u32 stage) {
    const i64 step = p.stride * static_cast<i64>(sizeof(Code)), rows = p.length - static_cast<i64>(run) * ROWS;
    const int bytes = strip.columns * static_cast<int>(sizeof(Code)), granule = threadIdx.x % GRANULES * 16;
    int row = threadIdx.x / GRANULES;
    const char* from = reinterpret_cast<const char*>(static_cast<const Code*>(p.data) + strip.from) + (static_cast<i64>(run) * ROWS + row) * step;
#pragma unroll
    for (int i = 0; i < ROWS; i += TOGETHER) {
        const int shift = LAYOUT == ALIGNED ? 0 : static_cast<int>(reinterpret_cast<u64>(from) % 16);
        if (ROWS % TOGETHER == 0 || row < ROWS)
            load::copy_if(row < rows && granule < bytes + shift, stage + row * LINE + granule, from - shift + granule);
        from += step * TOGETHER;
        row += TOGETHER;
    }
}

// The slot of a run's total, or of that of RADIX runs.
__device__ inline scan::Slot* slot_of(const ColumnScan& p, int level, int run, i64 column) {
    return p.slots + (p.first[level] + run) * p.columns + column;
}

// Called by a whole warp: waits for so many totals of a column, one below the other, and gives each to `take`.
template <int MOST, typename Take>
__device__ inline void take_totals(const ColumnScan& p, const scan::Slot* from, int count, u32 launch, const Take& take) {
    scan::Slot seen[MOST];
    bool there;
    do {
        there = true;
#pragma unroll
        for (int i = 0; i < MOST; ++i)
            if (i < count) seen[i] = scan::glance(from + i * p.columns);
#pragma unroll
        for (int i = 0; i < MOST; ++i) there &= i >= count || scan::is_there(seen[i], launch);
    } while (!__all_sync(ALL, there));
#pragma unroll
    for (int i = 0; i < MOST; ++i)
        if (i < count) take(i, scan::number_of(seen[i]));
}

// Called by a warp of its own, with a column for each lane: finds what comes before the block's tiles.
__device__ inline void carry_on(const ColumnScan& p, LookBackBuffers& b, const StripOfBlock& strip, int place, u32 launch) {
    const i64 column = strip.column + min(place, strip.columns - 1);  // no lane runs ahead
    scan::AlignedBlocks<5> above[LEVELS > 1 ? LEVELS - 1 : 1];
    int above_known = 0;  // runs of RADIX runs
    double start = 0;     // what comes before the next of them
#pragma unroll 1
    for (int turn = 0; strip.run(turn) < strip.runs; ++turn) {
        const int own = strip.run(turn), position = own % RADIX, before = own / RADIX;
        scan::AlignedBlocks<4> blocks;
#pragma unroll
        for (int first = 0; first < RADIX; first += LOOKED_AT)
            take_totals<LOOKED_AT>(p, slot_of(p, 0, own - position + first, column), min(position - first, LOOKED_AT), launch,
                                   [&](int i, double total) { blocks.push(first + i, total); });
        if (LEVELS > 1 && position == RADIX - 1) {
            double total = 0;
            take_totals<1>(p, slot_of(p, 0, own, column), 1, launch, [&](int, double last) { total = blocks.push(RADIX - 1, last); });
            scan::hand_on(slot_of(p, 1, before, column), total, launch);
        }
#pragma unroll 1
        while (LEVELS > 1 && above_known < before) {
            const int count = min(before - above_known, LOOKED_AT / 2);
            take_totals<LOOKED_AT / 2>(p, slot_of(p, 1, above_known, column), count, launch, [&](int i, double total) {
                u32 next = above_known + i;
                bool ends = true;
#pragma unroll
                for (int level = 0; level + 1 < LEVELS; ++level) {
                    if (ends) total = above[level].push(next % WARP, total);
                    ends = ends && next % WARP == WARP - 1;
                    next /= WARP;
                }
            });
            above_known += count;
            start = 0;
#pragma unroll
            for (int level = LEVELS - 2; level >= 0; --level)
                start += above[level].template before<0, 5>(static_cast<u32>(above_known) >> 5 * level & (WARP - 1));
        }
        if (place < COLUMNS) b.starts[turn % STARTS][place] = start + blocks.before<0, 4>(position);
        __syncwarp();
        if (threadIdx.x % WARP == 0) load::arrive(&b.found[turn % STARTS]);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) column_look_back(const __grid_constant__ ColumnScan p) {
    extern __shared__ uint4 memory[];
    __shared__ LookBackBuffers b;
    if (threadIdx.x < STARTS) load::prepare(&b.found[threadIdx.x], CARRIERS);
    __syncthreads();
    const StripOfBlock strip(p);
    const u32 launch = scan::launches_before(p.shared) + 1;
    if (threadIdx.x >= WORKERS) {
        carry_on(p, b, strip, threadIdx.x - WORKERS, launch);
        return;
    }
    char* const stages = reinterpret_cast<char*>(memory);
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, unit = threadIdx.x % UNITS, column = unit * (LAYOUT == ALIGNED ? UNIT : 1);
    const auto fetch_turn = [&](int turn) {
        if (strip.run(turn) < strip.runs)
            fetch(p, strip, strip.run(turn), static_cast<u32>(__cvta_generic_to_shared(stages + turn % STAGES * TILE)));
        load::end_copies();
    };
    const int exist = LAYOUT == ALIGNED ? (column < strip.columns ? UNIT : 0) : (strip.columns - column + UNITS - 1) / UNITS;
    const u32 step = static_cast<u32>(p.stride * static_cast<i64>(sizeof(Code)));
    const u32 skew = static_cast<u32>(reinterpret_cast<u64>(static_cast<const Code*>(p.data) + strip.from));
    const auto group_of = [&](int turn, int k) {
        const int group = threadIdx.x / UNITS + k * (WORKERS / UNITS), row = group * scan::GROUP;
        const char* const rows = stages + turn % STAGES * TILE + row * LINE + column * sizeof(Code);
        return TileGroup{rows, skew + (static_cast<u32>(strip.run(turn)) * ROWS + row) * step, step, min(exist, UNIT)};
    };
    double before_groups[AHEAD + 1][EACH][UNIT] = {};  // of tile `turn`, and of those that are added up ahead
    for (int i = 0; i < FETCHED; ++i) fetch_turn(i);
#pragma unroll 1
    for (int turn = -AHEAD; strip.run(turn) < strip.runs; ++turn) {
        const int summed = turn + AHEAD;
        load::wait_for_copies<FETCHED - 1>();
        wait_for_workers();
        fetch_turn(summed + FETCHED);
        if (strip.run(summed) < strip.runs) {
#pragma unroll
            for (int k = 0; k < EACH; ++k) {
                double sums[UNIT];
                scan::add_up(group_of(summed, k), sums);
#pragma unroll
                for (int c = 0; c < UNIT; ++c) b.totals[c * UNITS + unit][threadIdx.x / UNITS + k * (WORKERS / UNITS)] = sums[c];
            }
        }
        wait_for_workers();
        if (strip.run(summed) < strip.runs) {
#pragma unroll
            for (int i = warp; i < COLUMNS; i += WORKERS / WARP) {
                const double sum = scan::inclusive<WARP>(b.totals[i][lane], lane);
                b.totals[i][lane] = scan::exclusive<WARP>(sum, lane);
                const int at = LAYOUT == ALIGNED ? i % UNITS * UNIT + i / UNITS : i;
                if (lane == WARP - 1 && at < strip.columns) scan::hand_on(slot_of(p, 0, strip.run(summed), strip.column + at), sum, launch);
            }
        }
        wait_for_workers();
#pragma unroll
        for (int k = 0; k < EACH; ++k)
#pragma unroll
            for (int c = 0; c < UNIT; ++c) {
#pragma unroll
                for (int i = 0; i < AHEAD; ++i) before_groups[i][k][c] = before_groups[i + 1][k][c];
                before_groups[AHEAD][k][c] = b.totals[c * UNITS + unit][threadIdx.x / UNITS + k * (WORKERS / UNITS)];
            }
        if (turn < 0) continue;
        load::wait_for_copy(&b.found[turn % STARTS], turn / STARTS % 2);
        const int run = strip.run(turn);
#pragma unroll
        for (int k = 0; k < EACH; ++k) {
            const TileGroup group = group_of(turn, k);
            const i64 row = static_cast<i64>(run) * ROWS + (threadIdx.x / UNITS + k * (WORKERS / UNITS)) * scan::GROUP;
            if (exist <= 0 || row >= p.length) continue;
            double carry[UNIT], sums[UNIT];
#pragma unroll
            for (int c = 0; c < UNIT; ++c) carry[c] = b.starts[turn % STARTS][column + group.place(c)] + before_groups[0][k][c];
            finish::ResultCode* const to = static_cast<finish::ResultCode*>(p.out) + strip.to + row * p.out_stride + column;
            const int left = static_cast<int>(min(p.length - row, static_cast<i64>(scan::GROUP)));
            if (scan::write_plain(group, to, p.out_stride, left, carry, sums)) continue;
#pragma unroll
            for (int c = 0; c < UNIT; ++c)
                if (c < group.columns) scan::scan_any(group, to + group.place(c), p.out_stride, left, carry[c], c);
        }
    }
    // The last block to leave prepares the counter for the next launch.
    if (threadIdx.x == 0 && atomicInc(&p.shared->left, gridDim.x - 1) == gridDim.x - 1) p.shared->launch = launch;
}
