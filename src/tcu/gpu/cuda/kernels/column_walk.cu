// Running sums down the columns of an array (outer, length, inner), whose inner numbers lie side by side, where there
// are enough columns to fill a GPU.  They have the plan's bits (tcu/plan/scan.py).
//
// A lane has BYTES bytes of neighbouring columns and walks down them, a group of the plan at a time; it keeps the sums
// of what comes before in registers.  A warp has its own ring of groups in shared memory, which comes in the background.
// With WARPS, those of a block take groups in turn, and all hand their totals to each other: columns that are too few
// for a warp each would keep too few warps busy, which wait for their own additions.
//
// Compiled with ELEMENT, RESULT (finish/result_code.cuh), EXCLUSIVE, LAYOUT (ALIGNED: all rows begin at multiples of 16
// bytes, and a lane's results at multiples of as many numbers as it has), and
//   BYTES       of a row that a lane has: 4, 8 or 16; where rows begin anywhere, a number
//   LEVELS      networks of the plan
//   STAGES      groups in a warp's ring
//   WARPS       of a block: a power of two; one where there are no networks
//   RESIDENT    blocks per multiprocessor that the registers must allow

#include "device/load/async_copy.cuh"
#include "device/scan/columns.cuh"
#include "device/scan/prefix.cuh"

using namespace tcu;

#include "generated/column_scan/ColumnScan.inc"

constexpr int UNIT = BYTES / sizeof(Code);  // columns of a lane
constexpr int ROW = WARP * BYTES;           // bytes of a warp's row
constexpr int PITCH = ROW + (LAYOUT == ALIGNED ? 0 : 16);  // of a row that begins anywhere in its granule
constexpr int STAGE = PITCH * scan::GROUP;                 // bytes
constexpr int GRANULES = ROW / 16, TOGETHER = WARP / GRANULES;  // rows that are copied together
constexpr int FETCHED = STAGES > 1 ? STAGES - 1 : 1;            // groups that are on their way
constexpr int HEIGHT = WARPS == 1 ? 0 : WARPS == 2 ? 1 : WARPS == 4 ? 2 : WARPS == 8 ? 3 : 4;  // of a network: its part between warps
static_assert(1 << HEIGHT == WARPS && (LEVELS > 0 || WARPS == 1), "warps have parts of a network");

// The columns of a block, and of a lane.
struct Strip {
    u32 outer;
    i64 inner;  // a lane's first column
    bool exists;

    // Where rows are aligned, granules of 16 bytes count on from one outer index to the next; else each has strips of its own.
    __device__ explicit Strip(const ColumnScan& p) {
        const int lane = threadIdx.x % WARP;
        const u32 item = LAYOUT == ALIGNED ? blockIdx.x * GRANULES + lane * BYTES / 16 : blockIdx.x;
        outer = item / p.strips;
        const i64 rest = item - outer * p.strips;
        inner = LAYOUT == ALIGNED ? rest * PER_LOAD + lane * BYTES % 16 / static_cast<int>(sizeof(Code)) : rest * WARP + lane;
        exists = item < p.items && inner < p.inner;
    }
};

// The copies into a warp's ring of groups.
struct ColumnRing {
    const char* from;
    i64 step, row;  // bytes from one copy of the lane to the next, and the row of the next one
    u32 at;         // in shared memory
    int bytes;      // of a row that exist

#if LAYOUT == ALIGNED
    __device__ ColumnRing(const ColumnScan& p, const char* ring) {
        const int lane = threadIdx.x % WARP;
        const u32 granule = blockIdx.x * GRANULES + lane % GRANULES, outer = granule / p.strips;
        row = threadIdx.x / WARP * scan::GROUP + lane / GRANULES;
        from = reinterpret_cast<const char*>(static_cast<const Code*>(p.data) + outer * p.outer_stride + row * p.stride) +
               static_cast<i64>(granule - outer * p.strips) * 16;
        step = p.stride * static_cast<i64>(TOGETHER * sizeof(Code));
        at = static_cast<u32>(__cvta_generic_to_shared(ring)) + lane * 16;
        bytes = granule < p.items ? 16 : 0;
    }

    // Starts to copy the warp's next group; rows and columns that do not exist are zeros.
    __device__ void fetch(const ColumnScan& p, int stage) {
#pragma unroll
        for (int i = 0; i < scan::GROUP; i += TOGETHER) {
            load::copy_if(bytes && row < p.length, at + stage * STAGE + i * ROW, from);
            from += step;
            row += TOGETHER;
        }
        from += p.stride * static_cast<i64>((WARPS - 1) * scan::GROUP * sizeof(Code));
        row += (WARPS - 1) * scan::GROUP;
    }
#else
    __device__ ColumnRing(const ColumnScan& p, const char* ring) {
        const Strip strip(p);
        const i64 first = strip.inner - threadIdx.x % WARP;
        row = threadIdx.x / WARP * scan::GROUP;
        from = reinterpret_cast<const char*>(static_cast<const Code*>(p.data) + strip.outer * p.outer_stride + row * p.stride + first);
        step = p.stride * static_cast<i64>(sizeof(Code));
        at = static_cast<u32>(__cvta_generic_to_shared(ring));
        bytes = static_cast<int>(min(p.inner - first, static_cast<i64>(WARP)) * sizeof(Code));
    }

    __device__ void fetch(const ColumnScan& p, int stage) {
        constexpr int PIECES = PITCH / 16, COPIES = PIECES * scan::GROUP;
#pragma unroll
        for (int i = threadIdx.x % WARP; i < COPIES; i += WARP) {
            const int down = i / PIECES, piece = i % PIECES;
            const char* const start = from + down * step;
            const int shift = static_cast<int>(reinterpret_cast<u64>(start) % 16);
            const bool any = row + down < p.length && piece * 16 < bytes + shift;
            load::copy_if(any, at + stage * STAGE + i * 16, start - shift + piece * 16);
        }
        from += step * (WARPS * scan::GROUP);
        row += WARPS * scan::GROUP;
    }
#endif
};

// A lane's group in shared memory.
struct LaneGroup {
    const char* rows;
    u32 skew, step;  // where rows begin anywhere: the address of the first, and bytes from one to the next

    __device__ const char* row(int i) const { return rows + i * PITCH + (LAYOUT == ALIGNED ? 0 : (skew + i * step) % 16); }
    __device__ double number(int i, int c) const { return to_binary64(reinterpret_cast<const Code*>(row(i))[c]); }

    // All rows.  Returns whether their numbers can be moved.
    __device__ bool read(scan::RowNumbers<UNIT> (&x)[scan::GROUP]) const {
        u32 found = 0;
#pragma unroll
        for (int i = 0; i < scan::GROUP; ++i) {
            x[i] = *reinterpret_cast<const scan::RowNumbers<UNIT>*>(row(i));
            x[i].look_for_others(found);
        }
        return !scan::MOVES || !scan::found_others(found);
    }
};

#if LEVELS
// The networks of the plan, of a lane's columns; the lowest heights are those between warps.
struct Networks {
    scan::AlignedBlocks<5> blocks[LEVELS][UNIT];
    double above[UNIT] = {};  // what comes before the present run, of all levels but the first

    // What comes before a group, of which `carry` lies in the same turn of the block's warps; never -0.
    __device__ void before(u32 turn, bool any, double (&carry)[UNIT]) const {
#pragma unroll
        for (int c = 0; c < UNIT; ++c) {
            carry[c] = blocks[0][c].before<0, 5 - HEIGHT>(turn % radix(0), carry[c], any);
            if (LEVELS > 1) carry[c] = above[c] + carry[c];
            carry[c] += 0.0;  // so that no result is -0
        }
    }

    // Takes the totals of a turn.
    __device__ void push(u32 turn, double (&totals)[UNIT]) {
        u32 next = turn;
        bool ends = true;
#pragma unroll
        for (int level = 0; level < LEVELS; ++level) {
            const u32 place = next % radix(level);
            if (ends)
#pragma unroll
                for (int c = 0; c < UNIT; ++c) totals[c] = blocks[level][c].push(place, totals[c]);
            ends = ends && place == radix(level) - 1;
            if (level == 0 && (LEVELS == 1 || !ends)) return;
            next /= radix(level);
        }
        u32 places[LEVELS];
        next = (turn + 1) / radix(0);
#pragma unroll
        for (int level = 1; level < LEVELS; ++level) {
            places[level] = next % radix(level);
            next /= radix(level);
        }
#pragma unroll
        for (int c = 0; c < UNIT; ++c)
#pragma unroll
            for (int level = LEVELS - 1; level > 0; --level) {
                const double sum = blocks[level][c].before<0, 5>(places[level]);
                above[c] = level == LEVELS - 1 ? sum : above[c] + sum;
            }
    }

    // Totals in a run; on the lowest level, turns.
    __device__ static constexpr u32 radix(int level) { return level == 0 ? WARP / WARPS : level == 1 ? WARP / 2 : WARP; }
};

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

// For any numbers of a column.  Returns the total.
__device__ __noinline__ double scan_any(const ColumnScan& p, LaneGroup group, finish::ResultCode* to, int left, double carry, int c) {
    double sum = 0, value = carry;
#pragma unroll 1
    for (int i = 0; i < left; ++i) {
        const double number = group.number(i, c), earlier = value;
        sum = i ? sum + number : number;
        value = carry + sum;
        const double result = EXCLUSIVE ? earlier : value;
        to[i * p.out_stride + c] = result != result ? finish::not_a_number() : finish::rounded(result);
    }
    return sum;
}

// The totals of a lane's group.
__device__ inline void add_up(const LaneGroup& group, double (&totals)[UNIT]) {
    scan::RowNumbers<UNIT> x[scan::GROUP];
    if (group.read(x)) {
#pragma unroll
        for (int c = 0; c < UNIT; ++c) {
            totals[c] = x[0].number(c);
#pragma unroll
            for (int i = 1; i < scan::GROUP; ++i) totals[c] += x[i].number(c);
            if (scan::MOVES) totals[c] *= scan::UP;
        }
        return;
    }
#pragma unroll
    for (int c = 0; c < UNIT; ++c) {
        totals[c] = group.number(0, c);
#pragma unroll 1
        for (int i = 1; i < scan::GROUP; ++i) totals[c] += group.number(i, c);
    }
}

// A lane's group.  Writes the results of `left` rows, and makes of what comes before the group its total.
__device__ inline void scan_group(const ColumnScan& p, const LaneGroup& group, finish::ResultCode* to, int left,
                                  double (&carry)[UNIT]) {
    scan::RowNumbers<UNIT> x[scan::GROUP];
    bool is_plain = group.read(x);
#pragma unroll
    for (int c = 0; c < UNIT; ++c) is_plain &= carry[c] - carry[c] == 0;
    if (is_plain) {
        double sums[UNIT], values[UNIT];
        finish::ResultCode* place = to;
#pragma unroll
        for (int i = 0; i < scan::GROUP; ++i) {
            double earlier[UNIT];
#pragma unroll
            for (int c = 0; c < UNIT; ++c) {
                earlier[c] = i ? values[c] : carry[c];
                sums[c] = i ? sums[c] + x[i].number(c) : x[i].number(c);
                values[c] = scan::MOVES ? fma(sums[c], scan::UP, carry[c]) : carry[c] + sums[c];
            }
            if (i < left) scan::store(place, EXCLUSIVE ? earlier : values);
            place += p.out_stride;
        }
        bool is_number = true;  // a NaN anywhere would have made the last value NaN
#pragma unroll
        for (int c = 0; c < UNIT; ++c) is_number &= values[c] == values[c];
        if (is_number) {
#pragma unroll
            for (int c = 0; c < UNIT; ++c) carry[c] = scan::MOVES ? sums[c] * scan::UP : sums[c];
            return;
        }
    }
#pragma unroll
    for (int c = 0; c < UNIT; ++c) carry[c] = scan_any(p, group, to, left, carry[c], c);
}

extern "C" __global__ void __launch_bounds__(WARPS * WARP, RESIDENT) column_walk(const __grid_constant__ ColumnScan p) {
    extern __shared__ uint4 memory[];
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const char* const groups = reinterpret_cast<const char*>(memory) + warp * STAGES * STAGE;
    ColumnRing ring(p, groups);
    const Strip strip(p);
    LaneGroup group = {nullptr, static_cast<u32>(reinterpret_cast<u64>(ring.from)), static_cast<u32>(ring.step)};
    finish::ResultCode* to = static_cast<finish::ResultCode*>(p.out) + strip.outer * p.out_outer_stride + strip.inner +
                             warp * scan::GROUP * p.out_stride;
#if LEVELS
    Networks networks;
#endif
#if LEVELS && WARPS > 1
    __shared__ Totals totals[2];
#endif
#pragma unroll
    for (int i = 0; i < FETCHED; ++i) {
        ring.fetch(p, i);
        load::end_copies();
    }
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
        group.rows = groups + stage * STAGE + lane * BYTES;
        double carry[UNIT] = {};
#if LEVELS && WARPS > 1
        double sums[UNIT];
        add_up(group, sums);
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
        networks.before(turn, warp > 0, carry);
#endif
#if LEVELS && WARPS > 1
        networks.push(turn, sums);
#endif
        if (strip.exists)
            scan_group(p, group, to, static_cast<int>(min(left, static_cast<i64>(scan::GROUP))), carry);
#if LEVELS && WARPS == 1
        networks.push(turn, carry);
#endif
        to += p.out_stride * (WARPS * scan::GROUP);
        group.skew += WARPS * scan::GROUP * group.step;
        stage = stage == STAGES - 1 ? 0 : stage + 1;
        fetched = fetched == STAGES - 1 ? 0 : fetched + 1;
    }
}
