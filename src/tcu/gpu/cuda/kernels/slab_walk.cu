// Running sums down the columns of an array (outer, length, inner) that has few columns side by side, and no gaps, where
// there are enough slabs for a warp each (slab_scan.cu has those of all numbers).  They have the plan's bits
// (tcu/plan/scan.py).
//
// A warp walks down a slab, some groups of the plan of all columns at a time.  Bulk copies bring them and take them back, with
// results in the places of numbers.  A lane has columns WARP apart; where they are fewer than half of a warp's lanes, it has
// one column of one of PARTS parts, of EACH groups, which lie so far apart that lanes use all banks.  No warp waits for another.
//
// The floor is reading and writing each number once: one of binary16 in 29 instructions of a lane (H200).  Rows of 100 numbers
// take 14, and rows of three 20, where slab_scan.cu takes 33 of bfloat16 and 36, with its barriers, copies of 16 bytes and networks
// by warps.  Rows of three are bound by their conversions, 3 of each number, at 16 a clock, and by few warps.
//
// Compiled with ELEMENT, RESULT (the same format), EXCLUSIVE, REVERSE, LAYOUT (SHIFTED), for sm_90
// and later, and
//   COLUMNS     inner numbers
//   LEVELS      networks of the plan: one at least
//   PARTS       of a turn: a power of two; more than one have COLUMNS * PARTS lanes
//   EACH        groups of a part: a power of two; PARTS * EACH are 32 at most
//   PAD         granules of 16 bytes between parts, if all slabs begin at multiples of that
//   STAGES      turns that a warp has room for: 3 at least
//   RESIDENT    warps per multiprocessor that the registers must allow

#include "device/load/bulk_copy.cuh"
#include "device/load/turn.cuh"
#include "device/scan/networks.cuh"
#include "device/scan/prefix.cuh"
#include "device/scan/rows_in_place.cuh"
#include "device/scan/store_run.cuh"

using namespace tcu;

#include "generated/slab_scan/SlabScan.inc"

constexpr int SIZE = sizeof(Code), ROW = COLUMNS * SIZE;
constexpr int ROWS_OF_PART = EACH * scan::GROUP, ROWS = PARTS * ROWS_OF_PART;  // of a turn
constexpr int PART = ROWS_OF_PART * ROW, PITCH = PART + PAD * scan::GRANULE;    // bytes
constexpr int STAGE = PARTS * PITCH + (PAD ? 0 : scan::GRANULE);                // slabs begin anywhere in their granules
constexpr int LANES = COLUMNS < WARP ? COLUMNS : WARP;  // that a row of a part has
constexpr int WIDEST = (COLUMNS + WARP - 1) / WARP;
constexpr int UNIT = scan::MOVES && WIDEST > 1 ? (WIDEST + 1) / 2 * 2 : WIDEST;  // columns of a lane: pairs are rounded at once
constexpr int FETCHED = STAGES - 2;              // turns that are on their way; one more is on its way out
__device__ constexpr int height_of(int count) { return count == 1 ? 0 : 1 + height_of(count / 2); }
constexpr int HEIGHT = height_of(PARTS * EACH);
static_assert(1 << HEIGHT == PARTS * EACH && HEIGHT <= 5 && PARTS * LANES <= WARP && (PARTS == 1 || UNIT == 1) && FETCHED > 0, "lanes have room");

// A lane's columns in its group.  For one that does not exist it takes its first, and writes nothing.
struct PackedGroup : scan::RowsBeside<UNIT, 1> {
    char* first;  // of the row that comes first
    int columns;  // that exist

    __device__ static int place(int c) {
        const int place = c * WARP;
        return place + WARP <= COLUMNS || c == 0 || static_cast<int>(threadIdx.x) + place < COLUMNS ? place : 0;
    }
    __device__ finish::ResultCode* place_of_result(int i, int c) const {
        return reinterpret_cast<finish::ResultCode*>(first + (REVERSE ? -i : i) * ROW) + place(c);
    }
    __device__ const Code* code(int i, int c) const { return reinterpret_cast<const Code*>(place_of_result(i, c)); }
    __device__ double number(int i, int c) const { return to_binary64(*code(i, c)); }

    template <int COUNT>
    __device__ void read_rows(typename PackedGroup::Row (&x)[COUNT], int from) const {
#pragma unroll
        for (int i = 0; i < COUNT; ++i)
#pragma unroll
            for (int c = 0; c < UNIT; ++c) x[i].parts[c] = *reinterpret_cast<const scan::RowNumbers<1>*>(code(from + i, c));
    }
    __device__ void put(int i, const double (&values)[UNIT]) const {
        scan::store_apart<WARP>(place_of_result(i, 0), values, COLUMNS % WARP == 0 && UNIT == WIDEST ? UNIT : columns);
    }
    __device__ void name_nans(int c) const {
        if (c < columns) scan::name_nans(*this, c);
    }
};

// A warp's slab, and what of it a turn has.
struct Slab {
    const Code* from;
    finish::ResultCode* to;
    i64 length;
    int shift;  // bytes of a turn's first granule before it

    __device__ explicit Slab(const SlabScan& p) : length(p.length) {
        const i64 at = static_cast<i64>(blockIdx.x) * p.length * COLUMNS;
        from = static_cast<const Code*>(p.data) + at;
        to = static_cast<finish::ResultCode*>(p.out) + at;
        shift = static_cast<int>(reinterpret_cast<u64>(REVERSE ? from + p.length * COLUMNS : from) % scan::GRANULE);
    }
};

struct TurnOfSlab {
    i64 at;            // of its first row that exists, in memory's order
    int before, rows;  // rows of its place that do not exist before that one, and those that exist

    __device__ TurnOfSlab(const Slab& slab, int turn) {
        const i64 done = static_cast<i64>(turn) * ROWS;
        rows = static_cast<int>(min(slab.length - done, static_cast<i64>(ROWS)));
        before = REVERSE ? ROWS - rows : 0;
        at = REVERSE ? slab.length - done - rows : done;
    }
    __device__ int begin(const Slab& slab) const { return slab.shift + before * ROW; }
    __device__ int end(const Slab& slab) const { return begin(slab) + rows * ROW; }
};

// Called by a whole warp.  A turn's bytes from `begin` to `end` of its place, of which each part has a copy if parts lie apart.
// `take` is called with where such a piece lies there, where in shared memory, and how long it is.
template <typename Take>
__device__ inline void for_pieces(int begin, int end, const Take& take) {
    const int lane = threadIdx.x % WARP;
    if (PAD == 0) {
        if (lane == 0) take(begin, begin, end - begin);
    } else if (lane < PARTS) {
        const int first = max(lane * PART, begin), behind = min(lane * PART + PART, end);
        if (first < behind) take(first, first + lane * (PITCH - PART), behind - first);
    }
}

__device__ inline void fetch(const Slab& slab, int turn, char* stage, u64* full) {
    const TurnOfSlab own(slab, turn);
    const int first = own.begin(slab) / scan::GRANULE * scan::GRANULE, skipped = own.begin(slab) - first;
    const int behind = (own.end(slab) + scan::GRANULE - 1) / scan::GRANULE * scan::GRANULE;
    const char* const from = reinterpret_cast<const char*>(slab.from + own.at * COLUMNS) - skipped - first;
    if (threadIdx.x == 0) load::expect(behind - first, full);
    __syncwarp();
    for_pieces(first, behind, [&](int at, int place, int bytes) { load::start_copy(stage + place, from + at, bytes, full); });
}

// Called by a whole warp.
__device__ inline void store(const Slab& slab, const TurnOfSlab& here, const char* stage) {
    if (PAD == 0) {
        scan::store_run(slab.to + here.at * COLUMNS, stage + here.begin(slab), here.rows * COLUMNS);
        return;
    }
    load::release_to_copies();
    __syncwarp();
    const int begin = here.begin(slab), whole = here.rows * ROW / scan::GRANULE * scan::GRANULE;
    char* const to = reinterpret_cast<char*>(slab.to + here.at * COLUMNS) - begin;
    for_pieces(begin, begin + whole, [&](int at, int place, int bytes) { load::start_store(to + at, stage + place, bytes); });
    load::commit_stores();
}

#if PARTS > 1
// The network of a turn: what comes before each group of a lane, and what all come to.
struct TurnNetwork {
    double before[EACH], all;

    __device__ TurnNetwork(const double (&totals)[EACH], int part) {
        scan::AlignedBlocks<height_of(EACH) + (EACH == 1)> blocks;
        double sum = 0;
#pragma unroll
        for (int k = 0; k < EACH; ++k) {
            before[k] = blocks.template before<0, height_of(EACH)>(k);
            sum = blocks.push(k, totals[k]);
        }
        const int lane = threadIdx.x % WARP;
#pragma unroll
        for (int bit = 1; bit < PARTS; bit *= 2) {
            const double earlier = __shfl_sync(ALL, sum, lane + ((part & ~(bit - 1)) - 1 - part) * LANES);
            if (!(part & bit)) continue;
            sum = earlier + sum;
#pragma unroll
            for (int k = 0; k < EACH; ++k) before[k] = earlier + before[k];
        }
        all = __shfl_sync(ALL, sum, lane + (PARTS - 1 - part) * LANES);
    }
};
#endif

extern "C" __global__ void __launch_bounds__(WARP, RESIDENT) slab_walk(const __grid_constant__ SlabScan p) {
    extern __shared__ uint4 memory[];
    __shared__ u64 full[STAGES];
    char* const stages = reinterpret_cast<char*>(memory);
    const int lane = threadIdx.x;
    const Slab slab(p);
    if (lane == 0)
        for (int i = 0; i < STAGES; ++i) load::prepare(&full[i]);
    __syncwarp();
    for (int i = 0; i < FETCHED && i < p.tiles; ++i) fetch(slab, i, stages + i * STAGE, &full[i]);
    const int used = PARTS * LANES, own = lane < used ? lane : 0, part = PARTS > 1 ? own / LANES : 0, column = own % LANES;
    // Of the part's first group in the order of the scan.
    const int place = (REVERSE ? (PARTS - 1 - part) * PITCH + PART - ROW : part * PITCH) + column * SIZE;
    const int columns = lane < used ? (COLUMNS - column + WARP - 1) / WARP : 0;
    scan::Networks<UNIT, HEIGHT> networks;
    load::Turn<STAGES> now, next;
    next.next(FETCHED);
#pragma unroll 1
    for (int turn = 0; turn < p.tiles; ++turn, now.next(), next.next()) {
        load::wait_for_stores<1>();
        __syncwarp();
        if (turn + FETCHED < p.tiles) fetch(slab, turn + FETCHED, stages + next.buffer * STAGE, &full[next.buffer]);
        load::wait_for_copy(&full[now.buffer], now.odd);
        const TurnOfSlab here(slab, turn);
        char* const stage = stages + now.buffer * STAGE;
        char* const first = stage + slab.shift + place;
        const auto group_of = [&](int k) { return PackedGroup{{}, first + (REVERSE ? -k : k) * scan::GROUP * ROW, columns}; };
#if PARTS > 1
        double totals[EACH];
#pragma unroll
        for (int k = 0; k < EACH; ++k) {
            const PackedGroup group = group_of(k);
            PackedGroup::Row x[scan::GROUP];
            group.read_rows(x, 0);
            totals[k] = x[0].value(0);
#pragma unroll
            for (int i = 1; i < scan::GROUP; ++i) totals[k] += x[i].value(0);
        }
        const TurnNetwork network(totals, part);
#pragma unroll
        for (int k = 0; k < EACH; ++k) {
            double carry[1] = {network.before[k]};
            networks.before(turn, carry);
            scan::scan_in_place(group_of(k), carry);
        }
        double all[1] = {network.all};
        networks.push(turn, all);
#else
        double carry[UNIT] = {};
        networks.before(turn, carry);
        scan::scan_in_place(group_of(0), carry);
        networks.push(turn, carry);
#endif
        store(slab, here, stage);
        __syncwarp();
    }
    load::wait_for_stores();
}
