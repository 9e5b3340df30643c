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
#include "device/scan/numbers.cuh"
#include "device/scan/prefix.cuh"

using namespace tcu;

#include "generated/column_scan/ColumnScan.inc"

constexpr bool MOVES = sizeof(Code) == 2;  // numbers become binary64 by moving their bits
constexpr int UNIT = BYTES / sizeof(Code), WORDS = BYTES / 4;
constexpr int ROW = WARP * BYTES;                  // bytes of a warp's row
constexpr int STAGE = ROW * scan::GROUP;           // bytes
constexpr int GRANULES = ROW / 16, ROWS_AT_ONCE = WARP / GRANULES;

struct alignas(BYTES) Word {
    u32 words[WORDS];
};

__device__ inline Code code_in(const Word& x, int c) {
    if constexpr (sizeof(Code) == 2) return static_cast<Code>(x.words[c / 2] >> 16 * (c % 2));
    if constexpr (sizeof(Code) == 4) return static_cast<Code>(x.words[c]);
    if constexpr (sizeof(Code) == 8) return static_cast<Code>(x.words[2 * c] | static_cast<u64>(x.words[WORDS > 1 ? 2 * c + 1 : 0]) << 32);
}

// A number; where MOVES, divided by UP.
__device__ inline double number_in(const Word& x, int c) {
    if constexpr (MOVES) return scan::moved(x.words[c / 2], c % 2);
    return to_binary64(code_in(x, c));
}

struct alignas(UNIT * sizeof(finish::ResultCode) < 16 ? UNIT * sizeof(finish::ResultCode) : 16) Results {
    finish::ResultCode codes[UNIT];
};

__device__ inline void store(finish::ResultCode* to, const double (&values)[UNIT]) {
    Results r;
    if constexpr (MOVES && sizeof(finish::ResultCode) == 2) {
#pragma unroll
        for (int c = 0; c < UNIT; c += 2) {
            const u32 pair = scan::rounded_pair(values[c], values[c + 1]);
            r.codes[c] = static_cast<finish::ResultCode>(pair);
            r.codes[c + 1] = static_cast<finish::ResultCode>(pair >> 16);
        }
    } else {
#pragma unroll
        for (int c = 0; c < UNIT; ++c) r.codes[c] = finish::rounded(values[c]);
    }
    *reinterpret_cast<Results*>(to) = r;
}

// For any numbers.  Returns the sum of the group.
__device__ __noinline__ double any_column(const char* stage, finish::ResultCode* to, i64 stride, int left, double carry, int c) {
    double sum = 0, value = carry;
#pragma unroll 1
    for (int i = 0; i < left; ++i) {
        const double number = to_binary64(reinterpret_cast<const Code*>(stage + i * ROW)[c]);
        const double earlier = value;
        sum = i ? sum + number : number;
        value = carry + sum;
        const double result = EXCLUSIVE ? earlier : value;
        to[i * stride + c] = result != result ? finish::not_a_number() : finish::rounded(result);
    }
    return sum;
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) column_walk(const __grid_constant__ ColumnScan p) {
    extern __shared__ uint4 memory[];
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const i64 first = (static_cast<i64>(blockIdx.x) * (THREADS / WARP) + warp) * GRANULES;
    if (first >= p.items) return;
    char* const ring = reinterpret_cast<char*>(memory) + warp * STAGES * STAGE;
    const int groups = static_cast<int>((p.length + scan::GROUP - 1) / scan::GROUP);

    const u32 copied = static_cast<u32>(first) + lane % GRANULES, copied_outer = copied / p.strips;
    const char* from = static_cast<const char*>(p.data) + (copied_outer * p.outer_stride + lane / GRANULES * p.stride) * static_cast<i64>(sizeof(Code)) +
                       static_cast<i64>(copied - copied_outer * p.strips) * 16;
    const i64 step = p.stride * static_cast<i64>(ROWS_AT_ONCE * sizeof(Code));
    const bool copies = copied < p.items;
    const u32 ring_at = static_cast<u32>(__cvta_generic_to_shared(ring)) + lane * 16;
    i64 next_row = lane / GRANULES;
    const auto fetch = [&](int stage) {
#pragma unroll
        for (int k = 0; k < scan::GROUP; k += ROWS_AT_ONCE) {
            load::copy_if(copies && next_row < p.length, ring_at + stage * STAGE + k * ROW, from);
            from += step;
            next_row += ROWS_AT_ONCE;
        }
    };

    const u32 own = static_cast<u32>(first) + lane * BYTES / 16, outer = own / p.strips;
    const i64 column = static_cast<i64>(own - outer * p.strips) * (16 / sizeof(Code)) + lane * BYTES % 16 / sizeof(Code);
    const bool exists = own < p.items && column < p.inner;
    finish::ResultCode* to = static_cast<finish::ResultCode*>(p.out) + outer * p.out_outer_stride + column;

    scan::AlignedBlocks<5> blocks[LEVELS ? LEVELS : 1][UNIT];
    double above[UNIT] = {};
#pragma unroll
    for (int i = 0; i < STAGES - 1; ++i) {
        if (i < groups) fetch(i);
        load::end_copies();
    }
    int stage = 0, last = STAGES - 1;
#pragma unroll 1
    for (int group = 0; group < groups; ++group) {
        if (STAGES > 1) {
            load::wait_for_copies<(STAGES > 1 ? STAGES - 2 : 0)>();
        } else {
            fetch(0);
            load::end_copies();
            load::wait_for_copies<0>();
        }
        __syncwarp();
        if (STAGES > 1) {
            if (group + STAGES - 1 < groups) fetch(last);
            load::end_copies();
        }
        const char* const rows = ring + stage * STAGE + lane * BYTES;
        Word x[scan::GROUP];
        u32 found = 0;
#pragma unroll
        for (int i = 0; i < scan::GROUP; ++i) {
            x[i] = *reinterpret_cast<const Word*>(rows + i * ROW);
            if (MOVES)
#pragma unroll
                for (int w = 0; w < WORDS; ++w) scan::look_for_others(found, x[i].words[w]);
        }
        const u32 position = static_cast<u32>(group) % WARP;
        double carry[UNIT], totals[UNIT];
        bool is_plain = !MOVES || !scan::found_others(found);
#pragma unroll
        for (int c = 0; c < UNIT; ++c) {
            carry[c] = 0;
            if (LEVELS) carry[c] = blocks[0][c].before<0, 5>(position);
            if (LEVELS > 1) carry[c] = above[c] + carry[c];
            carry[c] += 0.0;  // so that no result is -0
            is_plain &= carry[c] - carry[c] == 0;
        }
        const int left = static_cast<int>(min(p.length - static_cast<i64>(group) * scan::GROUP, static_cast<i64>(scan::GROUP)));
        if (exists) {
            bool is_number = is_plain;
            if (is_plain) {
                double sums[UNIT], values[UNIT];
                finish::ResultCode* place = to;
#pragma unroll
                for (int i = 0; i < scan::GROUP; ++i) {
                    double earlier[UNIT];
#pragma unroll
                    for (int c = 0; c < UNIT; ++c) {
                        earlier[c] = i ? values[c] : carry[c];
                        sums[c] = i ? sums[c] + number_in(x[i], c) : number_in(x[i], c);
                        values[c] = MOVES ? fma(sums[c], scan::UP, carry[c]) : carry[c] + sums[c];
                    }
                    if (i < left) store(place, EXCLUSIVE ? earlier : values);
                    place += p.out_stride;
                }
#pragma unroll
                for (int c = 0; c < UNIT; ++c) {
                    is_number &= values[c] == values[c];  // a NaN anywhere would have made the last value NaN
                    totals[c] = MOVES ? sums[c] * scan::UP : sums[c];
                }
            }
            if (!is_number)
#pragma unroll
                for (int c = 0; c < UNIT; ++c) totals[c] = any_column(rows, to, p.out_stride, left, carry[c], c);
        }
        to += p.out_stride * scan::GROUP;
        if (LEVELS) {
            const bool ends = position == WARP - 1;
#pragma unroll
            for (int c = 0; c < UNIT; ++c) totals[c] = blocks[0][c].push(position, totals[c]);
            if (LEVELS > 1 && ends) {
                u32 run = static_cast<u32>(group) / WARP;
                bool goes_on = true;
#pragma unroll
                for (int c = 0; c < UNIT; ++c) above[c] = 0;
                u32 places[LEVELS + 1];
#pragma unroll
                for (int level = 1; level < LEVELS; ++level) {
                    const u32 radix = level == 1 ? WARP / 2 : WARP, place = run % radix;
#pragma unroll
                    for (int c = 0; c < UNIT; ++c)
                        if (goes_on) totals[c] = blocks[level][c].push(place, totals[c]);
                    goes_on &= place == radix - 1;
                    run /= radix;
                }
                run = static_cast<u32>(group) / WARP + 1;
#pragma unroll
                for (int level = 1; level < LEVELS; ++level) {
                    places[level] = run % (level == 1 ? WARP / 2 : WARP);
                    run /= level == 1 ? WARP / 2 : WARP;
                }
#pragma unroll
                for (int level = LEVELS - 1; level > 0; --level)
#pragma unroll
                    for (int c = 0; c < UNIT; ++c) {
                        const double sum = blocks[level][c].before<0, 5>(places[level]);
                        above[c] = level == LEVELS - 1 ? sum : above[c] + sum;
                    }
            }
        }
        stage = stage == STAGES - 1 ? 0 : stage + 1;
        last = last == STAGES - 1 ? 0 : last + 1;
    }
}
