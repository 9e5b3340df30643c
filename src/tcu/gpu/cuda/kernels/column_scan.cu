// Running sums down the columns of an array (outer, length, inner), whose inner numbers lie side by side: along any
// axis that is not the last, without a copy.  They have the plan's bits (tcu/plan/scan.py).
//
// A tile is GROUPS groups of 32 bytes, one below the other, of COLUMNS columns side by side, PARTS times: a run of the
// plan's first level, or whole columns that are shorter.  Tiles come into shared memory in the background, STAGES of
// them at a time.  A thread adds up its groups, a warp finds what comes before each group of a column, and a thread
// reads its numbers once more and writes the results.  What comes before a run is found from the totals of earlier
// runs: a tile hands on its own total before it waits, and waits for totals of lower levels only.  Blocks draw tiles in
// order, the runs of one height together, so what is waited for is running or done.  With AHEAD, the next tile is added
// up before the results of this one, so that its total is handed on early and those before this one have time to come.
//
// The floor is reading and writing each number once.
//
// Compiled with ELEMENT, RESULT (finish/result_code.cuh), EXCLUSIVE, LAYOUT (ALIGNED: all rows begin at multiples of 16
// bytes, and pairs of 16-bit numbers have their results at multiples of two), and
//   GROUPS      of a column in a tile: a power of two up to 32
//   COLUMNS     of a part: a power of two, 16 bytes at least
//   PARTS       a power of two up to 32
//   LEVELS      networks of the plan above the first: 0 where a column is no longer than a tile
//   AHEAD       tiles that are added up before the results of one are written: 0 or 1
//   STAGES      tiles in shared memory: one, or two more than AHEAD at least
//   THREADS     of a block
//   RESIDENT    blocks per multiprocessor that the registers must allow

#include "device/load/async_copy.cuh"
#include "device/scan/columns.cuh"
#include "device/scan/prefix.cuh"

using namespace tcu;

#include "generated/column_scan/ColumnScan.inc"

using scan::MOVES;
constexpr int UNIT = MOVES && LAYOUT == ALIGNED ? 2 : 1;  // columns of a thread
constexpr int WARPS = THREADS / WARP;
constexpr int ALL_COLUMNS = COLUMNS * PARTS, UNITS = ALL_COLUMNS / UNIT, UNITS_OF_PART = COLUMNS / UNIT;
constexpr int ROWS = GROUPS * scan::GROUP;
constexpr int BYTES = COLUMNS * sizeof(Code);                       // of a row
constexpr int PITCH = BYTES + (LAYOUT == ALIGNED ? 0 : 16);         // of a row that begins anywhere in its granule
constexpr int TILE = PARTS * ROWS * PITCH;                          // bytes
constexpr int SHORT = BYTES < 128 ? 128 / BYTES : 1;                // rows that fill all banks
constexpr int MIXED = SHORT < scan::GROUP ? SHORT : scan::GROUP;
constexpr int TOTALS = GROUPS == 1 ? 1 : GROUPS + 1;                // of a column, so that neighbours lie in different banks
constexpr int FETCHED = STAGES - AHEAD - 1;                         // tiles that are on their way; with none, a block draws a tile when it can begin it at once
constexpr int LATER = FETCHED > 1 ? FETCHED - 1 : 0;                // of them, those that may still be on their way
constexpr int RING = STAGES + 1;
constexpr int EACH = UNITS * GROUPS / THREADS;                      // groups of a thread
static_assert((FETCHED > 0 || STAGES == 1) && UNITS * GROUPS % THREADS == 0 && BYTES % 16 == 0, "tiles are whole");
static_assert(LEVELS == 0 || (GROUPS == WARP && ALL_COLUMNS <= THREADS), "a tile of a long column is a run");

// A part of a tile: the run of some columns.
struct TilePart {
    i64 from, to;       // elements: its first number, and its first result
    i64 column;         // its first, of all
    u32 run;
    int rows, columns;  // that exist
};

// Tiles under way, in the order in which the block has drawn them.
struct DrawnTiles {
    u32 numbers[RING];
    TilePart parts[RING][PARTS];
};

// Called by a warp.
__device__ inline void put_tile(const ColumnScan& p, DrawnTiles& tiles, int turn, u32 number) {
    const int lane = threadIdx.x % WARP;
    if (lane == 0) tiles.numbers[turn % RING] = number;
    if (lane >= PARTS) return;
    TilePart& part = tiles.parts[turn % RING][lane];
    const i64 item = static_cast<i64>(number) * PARTS + lane;
    part.columns = part.rows = 0;
    if (item >= p.items) return;
    const u32 rest = static_cast<u32>(item) / p.strips, strip = static_cast<u32>(item) - rest * p.strips;
    const u32 run = rest / p.outer, outer = rest - run * p.outer;
    const i64 row = static_cast<i64>(run) * ROWS;
    part.run = run;
    part.column = outer * p.inner + static_cast<i64>(strip) * COLUMNS;
    part.from = outer * p.outer_stride + row * p.stride + static_cast<i64>(strip) * COLUMNS;
    part.to = outer * p.out_outer_stride + row * p.out_stride + static_cast<i64>(strip) * COLUMNS;
    part.rows = static_cast<int>(min(p.length - row, static_cast<i64>(ROWS)));
    part.columns = static_cast<int>(min(p.inner - static_cast<i64>(strip) * COLUMNS, static_cast<i64>(COLUMNS)));
}

// Where a row of a part lies in its tile.  Rows of fewer bytes than there are banks are mixed, so that the lanes of a
// warp, which read the same row of several groups, read from all banks.
__device__ inline int place_of_row(int part, int row) {
    const int group = row / scan::GROUP, key = (group * PARTS + part) % MIXED;
    return (part * ROWS + (row ^ key)) * PITCH;
}

// Starts to copy a tile into its stage; rows and columns that do not exist are zeros.
__device__ inline void fetch(const ColumnScan& p, const TilePart (&parts)[PARTS], char* stage) {
    constexpr int GRANULES = PITCH / 16, COPIES = PARTS * ROWS * GRANULES;
#pragma unroll
    for (int at = threadIdx.x; at < COPIES; at += THREADS) {
        const int granule = at % GRANULES, row = at / GRANULES % ROWS, number = at / GRANULES / ROWS;
        const TilePart& part = parts[number];
        const char* const first = reinterpret_cast<const char*>(static_cast<const Code*>(p.data) + part.from + row * p.stride);
        const int shift = LAYOUT == ALIGNED ? 0 : static_cast<int>(reinterpret_cast<u64>(first) % 16);
        const int bytes = part.columns * static_cast<int>(sizeof(Code));
        const bool any = row < part.rows && granule * 16 < bytes + shift && bytes > 0;
        const u32 to = static_cast<u32>(__cvta_generic_to_shared(stage + place_of_row(number, row) + granule * 16));
        load::copy_if(any, to, first - shift + granule * 16);
    }
}

// A thread's group of one unit of columns, in shared memory.
struct ColumnGroup : scan::StagedGroup<UNIT, 1, PITCH> {
    int part, group, column;  // the column in its part

    __device__ ColumnGroup(const ColumnScan& p, const TilePart (&parts)[PARTS], const char* stage, int at) {
        const int unit = at % UNITS;
        group = at / UNITS;
        part = unit / UNITS_OF_PART;
        column = unit % UNITS_OF_PART * UNIT;
        columns = UNIT;
        key = (group * PARTS + part) % MIXED;
        rows = stage + (part * ROWS + group * scan::GROUP) * PITCH + column * sizeof(Code);
        step = static_cast<u32>(p.stride * static_cast<i64>(sizeof(Code)));
        skew = static_cast<u32>(reinterpret_cast<u64>(static_cast<const Code*>(p.data) + parts[part].from)) +
               group * scan::GROUP * step;
    }
};

// The place of a column's totals: columns that a thread has lie apart, so that a warp writes to all banks.
__device__ inline int place_of_column(int unit, int c) { return c * UNITS + unit; }

// The results of a group, of which `left` rows exist, where `carry` is the sum before it, which is never -0.
__device__ inline void write_results(const ColumnScan& p, const ColumnGroup& at, finish::ResultCode* to, int left,
                                     const double (&carry)[UNIT]) {
    double sums[UNIT];
    left = min(left, scan::GROUP);
    if (scan::write_plain(at, to, p.out_stride, left, carry, sums)) return;
#pragma unroll
    for (int c = 0; c < UNIT; ++c) scan::scan_any<scan::StagedGroup<UNIT, 1, PITCH>>(at, to + c, p.out_stride, left, carry[c], c);
}

#if LEVELS
constexpr int AT_ONCE = 4;                           // totals that a thread looks at
constexpr int LOOKING = 4 + 8 * (LEVELS - 1);        // threads of a column
constexpr int LOOKS = (LOOKING * ALL_COLUMNS + THREADS - 1) / THREADS;

// Where column `place` of a tile is.
struct ColumnPlace {
    int part, column;

    __device__ explicit ColumnPlace(int place) {
        const int unit = place % UNITS;
        part = unit / UNITS_OF_PART;
        column = unit % UNITS_OF_PART * UNIT + place / UNITS;
    }
};

__device__ inline scan::Slot* slot_of_run(const ColumnScan& p, int level, i64 run, i64 column) {
    return p.slots + (p.first[level] + run) * p.columns + column;
}

// The run of a level that a tile belongs to: level 1 has 16 totals, those above 32.
__device__ inline u32 run_of(u32 run, int level) { return level ? run >> (5 * level - 1) : run; }
__device__ inline u32 place_in_run(u32 run, int level) { return run_of(run, level) % (level ? WARP : WARP / 2); }

__device__ inline int level_of(int quad) { return quad < 4 ? 0 : 1 + (quad - 4) / 8; }

// Four totals at most of an aligned quarter or eighth of a run, which a thread looks at for one column.
struct TotalsBefore {
    int level, quad, place, count = 0;
    const scan::Slot* from = nullptr;
    scan::Slot seen[AT_ONCE];

    __device__ TotalsBefore(const ColumnScan& p, const TilePart (&parts)[PARTS], int number) {
        place = number % ALL_COLUMNS;
        quad = number / ALL_COLUMNS;
        level = level_of(quad);
        if (quad >= LOOKING) return;
        const ColumnPlace at(place);
        const TilePart& part = parts[at.part];
        if (at.column >= part.columns) return;
        const int before = place_in_run(part.run, level), first = AT_ONCE * (quad < 4 ? quad : (quad - 4) % 8);
        count = max(min(before - first, AT_ONCE), 0);
        from = slot_of_run(p, level, static_cast<i64>(run_of(part.run, level)) - before + first, part.column + at.column);
#pragma unroll
        for (int i = 0; i < AT_ONCE; ++i)
            if (i < count) seen[i] = scan::glance(from + i * p.columns);
    }

    // Waits for them.  Of all four, or of less, in the plan's order: what the first two come to, and what is behind them.
    __device__ void add_up(const ColumnScan& p, u32 launch, double& first, double& second) const {
        double totals[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; ++i)
            if (i < count) totals[i] = scan::wait_for(from + i * p.columns, seen[i], launch);
        first = count > 1 ? totals[0] + totals[1] : count > 0 ? totals[0] : 0;
        second = count > 3 ? totals[2] + totals[3] : count > 2 ? totals[2] : 0;
    }
};

// What the threads have added up, for all columns: of level 0, and of the levels above in memory that the totals of
// groups have had, in turn.
struct SumsBefore {
    double (&lowest)[2 * 4 * ALL_COLUMNS];
    double (&others)[ALL_COLUMNS * TOTALS];

    // The sum of the first two totals of a quad; the other sum lies ALL_COLUMNS further.
    __device__ double* of(int level, int quad, int place) const {
        double* const sums = level ? others + level % 2 * 16 * ALL_COLUMNS : lowest;
        return sums + (level ? (quad - 4) % 8 : quad) * 2 * ALL_COLUMNS + place;
    }

    // The sum of a column's totals before its place in its run of a level.  If the run ends with the column's own total
    // of that level, `own` becomes the run's total.
    __device__ double before(int level, int place, u32 position, double& own) const {
        const int quads = position / AT_ONCE, rest = position % AT_ONCE;
        const double* sums = of(level, level ? 4 : 0, place);
        scan::AlignedBlocks<3> blocks;
#pragma unroll 1
        for (int i = 0; i < quads; ++i, sums += 2 * ALL_COLUMNS) blocks.push(i, sums[0] + sums[ALL_COLUMNS]);
        const double near = sums[0], behind = sums[ALL_COLUMNS];
        own = blocks.push(quads, near + (behind + own));
        return blocks.before<0, 3>(quads, rest == 3 ? near + behind : near, rest != 0);
    }
};
static_assert(32 <= TOTALS, "two levels have room");
#endif

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) column_scan(const __grid_constant__ ColumnScan p) {
    extern __shared__ uint4 memory[];
    __shared__ DrawnTiles tiles;
    __shared__ double totals[ALL_COLUMNS * TOTALS];
    double before_groups[AHEAD + 1][EACH][UNIT] = {};  // of tile `turn`, and of those that are added up ahead
    char* const stages = reinterpret_cast<char*>(memory);
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
#if LEVELS
    __shared__ double lowest[2 * 4 * ALL_COLUMNS];
    __shared__ double runs[AHEAD + 1][ALL_COLUMNS];
    __shared__ double starts[LEVELS][ALL_COLUMNS];  // of each level, and then of all
    const u32 launch = scan::launches_before(p.shared) + 1;
    // Blocks draw their tiles, so that they wait only for running blocks.
    const auto draw = [&](int) {
        u32 number = 0;
        if (lane == 0) number = atomicAdd(&p.shared->ticket, 1);
        return __shfl_sync(ALL, number, 0);
    };
#else
    const auto draw = [&](int turn) { return blockIdx.x + turn * gridDim.x; };
#endif
    const auto parts_of = [&](int turn) -> const TilePart(&)[PARTS] { return tiles.parts[turn % RING]; };
    const auto stage_of = [&](int turn) { return stages + turn % STAGES * TILE; };
    if (warp == 0)
        for (int i = 0; i <= FETCHED; ++i) put_tile(p, tiles, i, draw(i));
    __syncthreads();
    const auto fetch_tile = [&](int turn) {
        if (tiles.numbers[turn % RING] < p.tiles) fetch(p, parts_of(turn), stage_of(turn));
        load::end_copies();
    };
    for (int i = 0; i < FETCHED; ++i) fetch_tile(i);
#pragma unroll 1
    for (int turn = -AHEAD; turn < 0 || tiles.numbers[turn % RING] < p.tiles; ++turn) {
        const int summed = turn + AHEAD;
        u32 next = 0;
        if (FETCHED > 0) {
            load::wait_for_copies<LATER>();
            __syncthreads();
            fetch_tile(summed + FETCHED);
            if (warp == 0) next = draw(summed + FETCHED + 1);
        } else {
            fetch_tile(turn);
            load::wait_for_copies<0>();
            __syncthreads();
        }
        if (GROUPS > 1) {
#pragma unroll 1
            for (int at = threadIdx.x; at < UNITS * GROUPS; at += THREADS) {
                double sums[UNIT];
                scan::add_up(ColumnGroup(p, parts_of(summed), stage_of(summed), at), sums);
#pragma unroll
                for (int c = 0; c < UNIT; ++c)
                    totals[place_of_column(at % UNITS, c) * TOTALS + at / UNITS] = sums[c];
            }
        }
        const auto take_sums = [&] {
#pragma unroll
            for (int k = 0; k < EACH; ++k) {
                const int at = k * THREADS + threadIdx.x;
#pragma unroll
                for (int c = 0; c < UNIT; ++c) {
                    if (AHEAD) before_groups[0][k][c] = before_groups[AHEAD][k][c];
                    before_groups[AHEAD][k][c] = totals[place_of_column(at % UNITS, c) * TOTALS + at / UNITS];
                }
            }
        };
        if (FETCHED > 0 && warp == 0) put_tile(p, tiles, summed + FETCHED + 1, next);
        if (GROUPS > 1) {
            __syncthreads();
#if LEVELS
            // Asked for here, and needed only after the networks; before the sums, registers were too few.
            const int done = max(turn, 0);
            const auto look = [&](int i) {
                return TotalsBefore(p, parts_of(done), turn < 0 ? LOOKING * ALL_COLUMNS : i * THREADS + threadIdx.x);
            };
            const TotalsBefore looked = look(0);
#endif
            constexpr int TOGETHER = WARP / GROUPS;
#pragma unroll 1
            for (int first = warp * TOGETHER; first < ALL_COLUMNS; first += WARPS * TOGETHER) {
                double& own = totals[(first + lane / GROUPS) * TOTALS + lane % GROUPS];
                const double sum = scan::inclusive<GROUPS>(own, lane);
                own = scan::exclusive<GROUPS>(sum, lane);
#if LEVELS
                const ColumnPlace at(first);
                const TilePart& part = parts_of(summed)[at.part];
                if (lane == WARP - 1 && at.column < part.columns) {
                    runs[summed % (AHEAD + 1)][first] = sum;
                    scan::hand_on(slot_of_run(p, 0, part.run, part.column + at.column), sum, launch);
                }
#endif
            }
#if LEVELS
            const SumsBefore sums_before = {lowest, totals};
            double own = 0;
            bool ends = true;
#pragma unroll 1
            for (int level = 0; level < LEVELS; ++level) {
#pragma unroll 1
                for (int i = 0; i < LOOKS; ++i) {
                    if (level_of((i * THREADS + static_cast<int>(threadIdx.x)) / ALL_COLUMNS) != level) continue;
                    const TotalsBefore some = i ? look(i) : looked;
                    if (some.quad >= LOOKING) continue;
                    double* const sums = sums_before.of(level, some.quad, some.place);
                    some.add_up(p, launch, sums[0], sums[ALL_COLUMNS]);
                }
                __syncthreads();
                if (level == 0) {
                    take_sums();
                    if (LEVELS > 1) __syncthreads();
                }
                const int place = threadIdx.x;
                if (place >= ALL_COLUMNS || turn < 0) continue;
                const ColumnPlace at(place);
                const TilePart& part = parts_of(done)[at.part];
                if (at.column >= part.columns) continue;
                if (level == 0) own = runs[done % (AHEAD + 1)][place];
                const u32 position = place_in_run(part.run, level);
                starts[level][place] = sums_before.before(level, place, position, own);
                ends = ends && position == (level ? WARP : WARP / 2) - 1;
                if (ends && level + 1 < LEVELS)
                    scan::hand_on(slot_of_run(p, level + 1, run_of(part.run, level + 1), part.column + at.column), own, launch);
            }
            if (LEVELS > 1 && threadIdx.x < ALL_COLUMNS) {
                double start = starts[LEVELS - 1][threadIdx.x];
#pragma unroll
                for (int level = LEVELS - 2; level >= 0; --level) start += starts[level][threadIdx.x];
                starts[0][threadIdx.x] = start;
            }
#endif
            __syncthreads();
#if !LEVELS
            take_sums();
#endif
        }
        if (turn < 0) continue;
        if (FETCHED == 0 && warp == 0) next = draw(turn + 1);
        const TilePart(&parts)[PARTS] = parts_of(turn);
#pragma unroll
        for (int k = 0; k < EACH; ++k) {
            const int at = k * THREADS + threadIdx.x;
            const ColumnGroup place(p, parts, stage_of(turn), at);
            const TilePart& part = parts[place.part];
            const int row = place.group * scan::GROUP;
            if (place.column >= part.columns || row >= part.rows) continue;
            double carry[UNIT];
#pragma unroll
            for (int c = 0; c < UNIT; ++c) {
                carry[c] = before_groups[0][k][c];
#if LEVELS
                carry[c] = starts[0][place_of_column(at % UNITS, c)] + carry[c];
#endif
                carry[c] += 0.0;  // so that no result is -0
            }
            write_results(p, place, static_cast<finish::ResultCode*>(p.out) + part.to + row * p.out_stride + place.column,
                          part.rows - row, carry);
        }
        if (FETCHED == 0) {
            if (warp == 0) put_tile(p, tiles, turn + 1, next);
            __syncthreads();
        }
    }
#if LEVELS
    // The last block to leave prepares the counters for the next launch.
    if (threadIdx.x == 0 && atomicInc(&p.shared->left, gridDim.x - 1) == gridDim.x - 1) {
        p.shared->ticket = 0;
        p.shared->launch = launch;
    }
#endif
}
