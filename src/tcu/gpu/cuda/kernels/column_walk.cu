// Running sums down the columns of an array (outer, length, inner), whose inner numbers lie side by side, where there
// are enough columns to fill a GPU.  They have the plan's bits (tcu/plan/scan.py).
//
// A lane has BYTES bytes of neighbouring columns and walks down them, a group of the plan at a time; it keeps the sums
// of what comes before in registers.  A warp has its own ring of groups in shared memory, which comes in the background,
// and waits for no other warp.
//
// Compiled with ELEMENT, RESULT (finish/result_code.cuh), EXCLUSIVE, and
//   BYTES       of a row that a lane has: 4, 8 or 16
//   LEVELS      networks of the plan
//   STAGES      groups in a warp's ring
//   THREADS     of a block
//   RESIDENT    blocks per multiprocessor that the registers must allow

#include "device/load/async_copy.cuh"
#include "device/scan/columns.cuh"
#include "device/scan/prefix.cuh"

using namespace tcu;

#include "generated/column_scan/ColumnScan.inc"

constexpr int UNIT = BYTES / sizeof(Code);  // columns of a lane
constexpr int ROW = WARP * BYTES;           // bytes of a warp's row
constexpr int STAGE = ROW * scan::GROUP;    // bytes
constexpr int GRANULES = ROW / 16, TOGETHER = WARP / GRANULES;  // rows that are copied together
constexpr int FETCHED = STAGES > 1 ? STAGES - 1 : 1;            // groups that are on their way
typedef scan::RowNumbers<UNIT> Numbers;

// A warp's ring of groups in shared memory, and the lane's part of the copies into it.
struct Ring {
    const char* from;
    i64 step, row;  // of the lane's copies: bytes from one to the next, and the row of the next one
    u32 at;         // in shared memory
    bool exists;

    __device__ Ring(const ColumnScan& p, u32 first, const char* ring) {
        const int lane = threadIdx.x % WARP;
        const u32 granule = first + lane % GRANULES, outer = granule / p.strips;
        row = lane / GRANULES;
        from = reinterpret_cast<const char*>(static_cast<const Code*>(p.data) + outer * p.outer_stride + row * p.stride) +
               static_cast<i64>(granule - outer * p.strips) * 16;
        step = p.stride * static_cast<i64>(TOGETHER * sizeof(Code));
        at = static_cast<u32>(__cvta_generic_to_shared(ring)) + lane * 16;
        exists = granule < p.items;
    }

    // Starts to copy the next group; rows and columns that do not exist are zeros.
    __device__ void fetch(const ColumnScan& p, int stage) {
#pragma unroll
        for (int i = 0; i < scan::GROUP; i += TOGETHER) {
            load::copy_if(exists && row < p.length, at + stage * STAGE + i * ROW, from);
            from += step;
            row += TOGETHER;
        }
    }
};

// The networks of the plan, of a lane's columns.
struct Networks {
    scan::AlignedBlocks<5> blocks[LEVELS ? LEVELS : 1][UNIT];
    double above[UNIT] = {};  // what comes before the present run, of all levels but the first

    // What comes before a group; never -0.
    __device__ void before(u32 group, double (&carry)[UNIT]) const {
#pragma unroll
        for (int c = 0; c < UNIT; ++c) {
            carry[c] = LEVELS ? blocks[0][c].before<0, 5>(group % WARP) : 0;
            if (LEVELS > 1) carry[c] = above[c] + carry[c];
            carry[c] += 0.0;  // so that no result is -0
        }
    }

    // Takes the totals of a group.
    __device__ void push(u32 group, double (&totals)[UNIT]) {
        if (!LEVELS) return;
        u32 next = group;
        bool ends = true;
#pragma unroll
        for (int level = 0; level < LEVELS; ++level) {
            const u32 size = radix(level), place = next % size;
            if (ends)
#pragma unroll
                for (int c = 0; c < UNIT; ++c) totals[c] = blocks[level][c].push(place, totals[c]);
            ends = ends && place == size - 1;
            if (level == 0 && (LEVELS == 1 || !ends)) return;
            next /= size;
        }
        u32 places[LEVELS + 1];
        next = (group + 1) / WARP;
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

    // Totals in a run.
    __device__ static constexpr u32 radix(int level) { return level == 1 ? WARP / 2 : WARP; }
};

// For any numbers.  Returns the total.
__device__ __noinline__ double scan_any(const ColumnScan& p, const Code* rows, finish::ResultCode* to, int left, double carry) {
    double sum = 0, value = carry;
#pragma unroll 1
    for (int i = 0; i < left; ++i) {
        const double number = to_binary64(rows[i * ROW / sizeof(Code)]), earlier = value;
        sum = i ? sum + number : number;
        value = carry + sum;
        const double result = EXCLUSIVE ? earlier : value;
        to[i * p.out_stride] = result != result ? finish::not_a_number() : finish::rounded(result);
    }
    return sum;
}

// A lane's group.  Writes the results of `left` rows, and makes of what comes before the group its total.
__device__ inline void scan_group(const ColumnScan& p, const char* rows, finish::ResultCode* to, int left,
                                  double (&carry)[UNIT]) {
    Numbers x[scan::GROUP];
    u32 found = 0;
#pragma unroll
    for (int i = 0; i < scan::GROUP; ++i) {
        x[i] = *reinterpret_cast<const Numbers*>(rows + i * ROW);
        x[i].look_for_others(found);
    }
    bool is_plain = !scan::MOVES || !scan::found_others(found);
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
    for (int c = 0; c < UNIT; ++c) carry[c] = scan_any(p, reinterpret_cast<const Code*>(rows) + c, to + c, left, carry[c]);
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) column_walk(const __grid_constant__ ColumnScan p) {
    extern __shared__ uint4 memory[];
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const u32 first = (blockIdx.x * (THREADS / WARP) + warp) * GRANULES;
    if (first >= p.items) return;
    const char* const groups = reinterpret_cast<const char*>(memory) + warp * STAGES * STAGE;
    Ring ring(p, first, groups);
    const u32 granule = first + lane * BYTES / 16, outer = granule / p.strips;
    const i64 column = static_cast<i64>(granule - outer * p.strips) * PER_LOAD + lane * BYTES % 16 / static_cast<int>(sizeof(Code));
    const bool exists = granule < p.items && column < p.inner;
    finish::ResultCode* to = static_cast<finish::ResultCode*>(p.out) + outer * p.out_outer_stride + column;
    Networks networks;
#pragma unroll
    for (int i = 0; i < FETCHED; ++i) {
        ring.fetch(p, i);
        load::end_copies();
    }
    int stage = 0, fetched = FETCHED;
    i64 left = p.length;
#pragma unroll 1
    for (u32 group = 0; left > 0; ++group, left -= scan::GROUP) {
        load::wait_for_copies<FETCHED - 1>();
        __syncwarp();  // all lanes have read the group before
        if (STAGES > 1) {
            if (ring.row < p.length) ring.fetch(p, fetched);
            load::end_copies();
        }
        double carry[UNIT];
        networks.before(group, carry);
        if (exists)
            scan_group(p, groups + stage * STAGE + lane * BYTES, to, static_cast<int>(min(left, static_cast<i64>(scan::GROUP))), carry);
        networks.push(group, carry);
        to += p.out_stride * scan::GROUP;
        stage = stage == STAGES - 1 ? 0 : stage + 1;
        fetched = fetched == STAGES - 1 ? 0 : fetched + 1;
    }
}
