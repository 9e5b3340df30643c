// Running sums down the columns of an array (outer, length, inner), whose inner numbers lie side by side, where columns
// are few and long.  They have the plan's bits (tcu/plan/scan.py).
//
// A strip is BYTES wide (COLUMNS); a tile is a run of the plan's first level of it.  The blocks of a strip take
// its tiles in turn, and all blocks run at the same time.  STAGES tiles of a block lie in shared memory.  A tile's totals
// are handed on AHEAD turns before its results are written.  Meanwhile warps of their own find what comes before it: one
// for each 32 columns from the totals of runs, in the same RADIX runs, and one from those of RADIX runs each.
//
// The floor is reading and writing each number once.  Shares of a copy's speed (H200; binary16, bfloat16, binary32,
// binary64): 2^15 x 8 KB 0.74, 0.69, 0.81, 0.82; 2^17 x 2 KB 0.68, 0.67, 0.76, 0.77; 2^19 x 512 bytes 0.66, 0.64, 0.73, 0.67; by
// column_scan.cu the first had 0.48, 0.42, 0.49, 0.52.  With a second tile added up ahead, binary64 has 0.84 in place of 0.75:
// blocks wait for each other's totals.  Of 16-bit numbers, a tile has 64 KB, and there is room for no more than one ahead;
// narrower strips are slower (0.65, 0.60), and so is one block of 64 KB in place of two of 32 (binary32: 0.67 and 0.75).  Of the
// strips of a few columns, blocks add up more totals of others: with one warp for both kinds of totals, and with separate
// warps, 2^19 x 512 bytes of binary32 had 0.66 and 0.68.
//
// Compiled with ELEMENT, RESULT (finish/result_code.cuh), EXCLUSIVE, LAYOUT (ALIGNED: all rows begin at multiples of 16
// bytes, and pairs of 16-bit numbers have their results at multiples of two), for sm_90 and later, and
//   BYTES       of a strip's row in shared memory: 64 or 128
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

// A row that begins anywhere in its granule of 16 bytes has one granule less, so that it has room.
constexpr int COLUMNS = (LAYOUT == ALIGNED ? BYTES : BYTES - 16) / sizeof(Code);
constexpr int UNIT = scan::MOVES ? 2 : 1, LANES = BYTES / sizeof(Code) / UNIT;  // columns of a thread, and threads of a row
constexpr int ROWS = WARP * scan::GROUP, TILE = ROWS * BYTES;
constexpr int PARTS = WARP / EACH;                     // of a tile, one below the other
constexpr int WORKERS = LANES * PARTS;                 // threads
constexpr int CARRIERS = (COLUMNS + WARP - 1) / WARP;  // warps of each kind
constexpr int THREADS = WORKERS + 2 * CARRIERS * WARP;
constexpr int GRANULES = BYTES / 16, TOGETHER = WORKERS / GRANULES;  // rows that are copied together
constexpr int FETCHED = STAGES - AHEAD - 1;                         // tiles that are on their way
constexpr int STARTS = AHEAD + 2;  // a block's next start is found when the tile before is added up
constexpr int RADIX = WARP / 2;    // of the network above the first
constexpr int MOST = 8;            // totals that a lane reads at once
constexpr int HEIGHT = PARTS == 32 ? 5 : PARTS == 16 ? 4 : PARTS == 8 ? 3 : PARTS == 4 ? 2 : 1;  // of a tile's network: its part between threads
static_assert(FETCHED > 0 && AHEAD > 0 && WORKERS % WARP == 0 && PARTS == 1 << HEIGHT, "there is a tile on its way");

typedef scan::StagedGroup<UNIT, COLUMNS / UNIT, BYTES> TileGroup;

// What the warps of a block tell each other.
struct LookBackBuffers {
    double totals[2][PARTS][UNIT][LANES];  // of a tile's parts
    double starts[STARTS][2][COLUMNS];     // what comes before a tile: in its RADIX runs, and before them
    u64 found[STARTS], freed[STARTS];      // barriers
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

// Which row lies where a part has row 0: if rows fill half of the banks, lanes that read from two parts read from all.
__device__ inline int key_of(int row) { return BYTES == 128 ? 0 : row / (EACH * scan::GROUP) % 2; }

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
            load::copy_if(row < rows && granule < bytes + shift, stage + (row ^ key_of(row)) * BYTES + granule, from - shift + granule);
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

// Called by a whole warp: adds up the first `count` totals of RADIX runs.  Returns the sum of all if there are as many.
__device__ inline double take_run(const ColumnScan& p, int run, int count, i64 column, u32 launch, scan::AlignedBlocks<4>& blocks) {
    double sum = 0;
#pragma unroll
    for (int first = 0; first < RADIX; first += MOST)
        take_totals<MOST>(p, slot_of(p, 0, run + first, column), min(count - first, MOST), launch,
                          [&](int i, double total) { sum = blocks.push(first + i, total); });
    return sum;
}

// Called by a whole warp: tells the workers what comes before a tile in each lane's column.
__device__ inline void tell(LookBackBuffers& b, int turn, int kind, int place, double start) {
    if (turn >= STARTS) load::wait_for_copy(&b.freed[turn % STARTS], (turn / STARTS - 1) % 2);
    if (place < COLUMNS) b.starts[turn % STARTS][kind][place] = start;
    __syncwarp();
    if (threadIdx.x % WARP == 0) load::arrive(&b.found[turn % STARTS]);
}

// Called by a warp of its own, with a column for each lane: adds up what comes before the block's tiles in their RADIX
// runs, and hands on the totals of those of which the block has the last.
__device__ inline void add_runs(const ColumnScan& p, LookBackBuffers& b, const StripOfBlock& strip, int place, i64 column, u32 launch) {
#pragma unroll 1
    for (int turn = 0; strip.run(turn) < strip.runs; ++turn) {
        const int own = strip.run(turn), position = own % RADIX;
        scan::AlignedBlocks<4> blocks;
        take_run(p, own - position, position, column, launch, blocks);
        tell(b, turn, 0, place, blocks.before<0, 4>(position));
        if (LEVELS > 1 && position == RADIX - 1) {
            double total = 0;
            take_totals<1>(p, slot_of(p, 0, own, column), 1, launch, [&](int, double last) { total = blocks.push(RADIX - 1, last); });
            scan::hand_on(slot_of(p, 1, own / RADIX, column), total, launch);
        }
    }
}

// The same of what comes before these runs.  The last RADIX of them are added up once more: their total would be handed
// on later, when another block has seen them all.
__device__ inline void add_levels(const ColumnScan& p, LookBackBuffers& b, const StripOfBlock& strip, int place, i64 column, u32 launch) {
    scan::AlignedBlocks<5> above[LEVELS > 1 ? LEVELS - 1 : 1];
    int known = 0;  // of the totals of RADIX runs
    double start = 0;
#pragma unroll 1
    for (int turn = 0; strip.run(turn) < strip.runs; ++turn) {
        const int before = strip.run(turn) / RADIX;
        const auto push = [&](int number, double total) {
            bool ends = true;
#pragma unroll
            for (int level = 0; level + 1 < LEVELS; ++level) {
                if (ends) total = above[level].push(number % WARP, total);
                ends = ends && number % WARP == WARP - 1;
                number /= WARP;
            }
        };
        if (LEVELS > 1 && known < before) {
#pragma unroll 1
            while (known < before - 1) {
                const int count = min(before - 1 - known, MOST);
                take_totals<MOST>(p, slot_of(p, 1, known, column), count, launch,
                                  [&](int i, double total) { push(known + i, total); });
                known += count;
            }
            scan::AlignedBlocks<4> blocks;
            push(known, take_run(p, known * RADIX, RADIX, column, launch, blocks));
            known = before;
            start = 0;
#pragma unroll
            for (int level = LEVELS - 2; level >= 0; --level)
                start += above[level].template before<0, 5>(static_cast<u32>(known) >> 5 * level & (WARP - 1));
        }
        tell(b, turn, 1, place, start);
    }
}

// A thread's network, of the totals of the groups in its part, and of the parts before it.
struct TileNetwork {
    double groups[EACH][UNIT];  // what comes before each group in its part
    double total[UNIT];

    __device__ void push(int k, const double (&sums)[UNIT]) {
#pragma unroll
        for (int c = 0; c < UNIT; ++c) {
            groups[k][c] = blocks[c].template before<0, 5 - HEIGHT>(k);
            total[c] = blocks[c].push(k, sums[c]);
        }
    }

private:
    scan::AlignedBlocks<5 - HEIGHT + (HEIGHT == 5)> blocks[UNIT];
};

typedef double PartTotals[PARTS][UNIT][LANES];

// The sum of COUNT neighbouring totals, pairwise.
template <int COUNT>
__device__ inline double sum_of(const PartTotals& totals, int first, int c, int lane) {
    if constexpr (COUNT == 1)
        return totals[first][c][lane];
    else
        return sum_of<COUNT / 2>(totals, first, c, lane) + sum_of<COUNT / 2>(totals, first + COUNT / 2, c, lane);
}

// Adds what the parts before a thread's come to, to what comes before its groups, and to its total if there is no more.
template <int BIT = 0>
__device__ inline void add_parts(const PartTotals& totals, int part, int lane, TileNetwork& network) {
    if constexpr (BIT < HEIGHT) {
        if (part >> BIT & 1) {
#pragma unroll
            for (int c = 0; c < UNIT; ++c) {
                const double sum = sum_of<1 << BIT>(totals, (part >> BIT << BIT) - (1 << BIT), c, lane);
#pragma unroll
                for (int k = 0; k < EACH; ++k) network.groups[k][c] = sum + network.groups[k][c];
                network.total[c] = sum + network.total[c];
            }
        }
        add_parts<BIT + 1>(totals, part, lane, network);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) column_look_back(const __grid_constant__ ColumnScan p) {
    extern __shared__ uint4 memory[];
    __shared__ LookBackBuffers b;
    if (threadIdx.x < STARTS) {
        load::prepare(&b.found[threadIdx.x], 2 * CARRIERS);
        load::prepare(&b.freed[threadIdx.x]);
    }
    __syncthreads();
    const StripOfBlock strip(p);
    const u32 launch = scan::launches_before(p.shared) + 1;
    if (threadIdx.x >= WORKERS) {
        const int place = (threadIdx.x - WORKERS) % (CARRIERS * WARP);
        const i64 own = strip.column + min(place, strip.columns - 1);
        if (threadIdx.x < WORKERS + CARRIERS * WARP)
            add_runs(p, b, strip, place, own, launch);
        else
            add_levels(p, b, strip, place, own, launch);
        return;
    }
    char* const stages = reinterpret_cast<char*>(memory);
    const int lane = threadIdx.x % LANES, part = threadIdx.x / LANES, column = lane * (LAYOUT == ALIGNED ? UNIT : 1);
    const auto fetch_turn = [&](int turn) {
        if (strip.run(turn) < strip.runs)
            fetch(p, strip, strip.run(turn), static_cast<u32>(__cvta_generic_to_shared(stages + turn % STAGES * TILE)));
        load::end_copies();
    };
    const int all = min(strip.columns, COLUMNS), exist = lane * UNIT >= COLUMNS ? 0 : LAYOUT == ALIGNED ? (column < all ? UNIT : 0) : (all - column + COLUMNS / UNIT - 1) / (COLUMNS / UNIT);
    const u32 step = static_cast<u32>(p.stride * static_cast<i64>(sizeof(Code)));
    const u32 skew = static_cast<u32>(reinterpret_cast<u64>(static_cast<const Code*>(p.data) + strip.from));
    const auto group_of = [&](int turn, int k) {
        const int row = (part * EACH + k) * scan::GROUP;
        const char* const rows = stages + turn % STAGES * TILE + row * BYTES + column * sizeof(Code);
        return TileGroup{rows, skew + (static_cast<u32>(strip.run(turn)) * ROWS + row) * step, step, min(exist, UNIT), key_of(row)};
    };
    double before_groups[AHEAD + 1][EACH][UNIT] = {};  // of tile `turn`, and of those that are added up ahead
    for (int i = 0; i < FETCHED; ++i) fetch_turn(i);
#pragma unroll 1
    for (int turn = -AHEAD; strip.run(turn) < strip.runs; ++turn) {
        const int summed = turn + AHEAD;
        load::wait_for_copies<FETCHED - 1>();
        wait_for_workers();
        if (threadIdx.x == 0 && turn > 0) load::arrive(&b.freed[(turn - 1) % STARTS]);
        fetch_turn(summed + FETCHED);
        TileNetwork network;
        PartTotals& totals = b.totals[summed % 2];
        if (strip.run(summed) < strip.runs) {
#pragma unroll
            for (int k = 0; k < EACH; ++k) {
                double sums[UNIT];
                scan::add_up(group_of(summed, k), sums);
                network.push(k, sums);
            }
#pragma unroll
            for (int c = 0; c < UNIT; ++c) totals[part][c][lane] = network.total[c];
        }
        wait_for_workers();
        if (strip.run(summed) < strip.runs) {
            add_parts(totals, part, lane, network);
            if (part == PARTS - 1)
#pragma unroll
                for (int c = 0; c < UNIT; ++c)
                    if (c < exist) scan::hand_on(slot_of(p, 0, strip.run(summed), strip.column + column + TileGroup::place(c)), network.total[c], launch);
        }
#pragma unroll
        for (int k = 0; k < EACH; ++k)
#pragma unroll
            for (int c = 0; c < UNIT; ++c) {
#pragma unroll
                for (int i = 0; i < AHEAD; ++i) before_groups[i][k][c] = before_groups[i + 1][k][c];
                before_groups[AHEAD][k][c] = network.groups[k][c];
            }
        if (turn < 0) continue;
        load::wait_for_copy(&b.found[turn % STARTS], turn / STARTS % 2);
        const double(&starts)[2][COLUMNS] = b.starts[turn % STARTS];
        const int run = strip.run(turn);
#pragma unroll
        for (int k = 0; k < EACH; ++k) {
            const TileGroup group = group_of(turn, k);
            const i64 row = static_cast<i64>(run) * ROWS + (part * EACH + k) * scan::GROUP;
            if (exist <= 0 || row >= p.length) continue;
            double carry[UNIT], sums[UNIT];
#pragma unroll
            for (int c = 0; c < UNIT; ++c) {
                const int at = column + group.place(c);
                carry[c] = (starts[1][at] + starts[0][at]) + before_groups[0][k][c];
            }
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
