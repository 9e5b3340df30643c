// Running sums within ragged segments, each by the plan of tcu/plan/scan.py.
//
// A block takes some segments one after another.  A lane scans a short segment, a warp one of up to a chunk, and the
// whole block a longer one, a chunk at a time.  A segment that is invalid (it ends before it begins, or outside the
// array) is left out.
//
// Compiled with ELEMENT, LAYOUT (SHIFTED), RESULT (finish/result_code.cuh), EXCLUSIVE and REVERSE.

#include "device/scan/group.cuh"

using namespace tcu;

#include "generated/scans/BLOCK.inc"
constexpr int WARPS = THREADS / WARP;
constexpr int UNROLL = scan::LINES / WARPS;  // lines of a warp
constexpr int IN_CHUNK = scan::LINES * WARP;  // groups of a chunk
constexpr int SHORT = 4;  // groups that a lane scans by itself
constexpr i64 ELEMENTS_OF_CHUNK = static_cast<i64>(IN_CHUNK) * scan::GROUP;

#include "generated/segment_scans/SegmentScan.inc"

struct Segment {
    const Code* data;
    finish::ResultCode* out;
    i64 length;

    __device__ Segment(const SegmentScan& p, i64 number) : data(nullptr), out(nullptr), length(0) {
        if (number >= p.segments) return;
        const i64 begin = p.offsets[number], end = p.offsets[number + 1];
        if (begin < 0 || begin > end || end > p.n) return;
        length = end - begin;
        data = static_cast<const Code*>(p.data) + begin;
        out = static_cast<finish::ResultCode*>(p.out) + begin;
    }
};

// Totals that come one after another.  For each bit b that is set in the present position, blocks[b] holds the sum of
// the aligned block of 2^b totals that this bit stands for.
template <int BITS>
struct PendingTotals {
    double blocks[BITS];

    __device__ double before(int position) const {
        double sum = 0;
#pragma unroll
        for (int b = 0; b < BITS; ++b)
            if (position >> b & 1) sum = blocks[b] + sum;
        return sum;
    }

    // Adds a total.  Returns the total of the run if the run ends here.
    __device__ double push(int position, double total) {
#pragma unroll
        for (int b = 0; b < BITS; ++b) {
            if (!(position >> b & 1)) {
                blocks[b] = total;
                return 0;
            }
            total = blocks[b] + total;
        }
        return total;
    }
};

__device__ inline void scan_by_lane(const Segment& s) {
    PendingTotals<2> groups;
    for (int g = 0; g * scan::GROUP < s.length; ++g) {
        const scan::Group x = scan::read_group(s.data, s.length, g);
        finish::ResultCode codes[scan::GROUP];
        scan::scanned(x, groups.before(g), codes);
        groups.push(g, scan::total(x));
        const i64 offset = scan::offset_of(s.length, g);
#pragma unroll
        for (int i = 0; i < scan::GROUP; ++i)
            if (offset + i >= 0 && offset + i < s.length) s.out[offset + i] = codes[i];
    }
}

// Called by one warp: stores the results of a line's groups.
__device__ inline void store_line(
    const Segment& s, scan::Exchange& exchange, i64 first_group, const finish::ResultCode (&codes)[scan::GROUP]) {
    constexpr int PIECE = scan::GROUP < scan::Exchange::PIECE ? scan::GROUP : scan::Exchange::PIECE;
    const int lane = threadIdx.x % WARP;
#pragma unroll
    for (int piece = 0; piece < scan::GROUP; piece += PIECE) {
        __syncwarp();
#pragma unroll
        for (int i = 0; i < PIECE; ++i) exchange.codes[lane * PIECE + i] = codes[piece + i];
        __syncwarp();
#pragma unroll
        for (int i = 0; i < PIECE; ++i) {
            const int at = i * WARP + lane;
            const i64 offset = scan::offset_of(s.length, first_group + at / PIECE) + piece + at % PIECE;
            if (offset >= 0 && offset < s.length) s.out[offset] = exchange.codes[at];
        }
    }
    __syncwarp();
}

__device__ inline void scan_by_warp(const Segment& s, scan::Exchange& exchange) {
    const int lane = threadIdx.x % WARP;
    PendingTotals<4> lines;
    for (int line = 0; static_cast<i64>(line) * WARP * scan::GROUP < s.length; ++line) {
        const scan::Group x = scan::read_group(s.data, s.length, line * WARP + lane);
        const double sum = scan::inclusive<WARP>(scan::total(x), lane);
        finish::ResultCode codes[scan::GROUP];
        scan::scanned(x, lines.before(line) + scan::exclusive<WARP>(sum, lane), codes);
        lines.push(line, __shfl_sync(ALL, sum, WARP - 1));
        store_line(s, exchange, line * WARP, codes);
    }
}

__device__ inline void scan_by_block(const Segment& s, scan::Exchange& exchange) {
    __shared__ PendingTotals<5> levels[scan::MAX_LEVELS];
    __shared__ double totals[scan::LINES], carried;
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    for (i64 chunk = 0; chunk * ELEMENTS_OF_CHUNK < s.length; ++chunk) {
        scan::Group x[UNROLL];
        double lanes[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
            x[u] = scan::read_group(s.data, s.length, chunk * IN_CHUNK + (warp * UNROLL + u) * WARP + lane);
            const double sum = scan::inclusive<WARP>(scan::total(x[u]), lane);
            lanes[u] = scan::exclusive<WARP>(sum, lane);
            if (lane == WARP - 1) totals[warp * UNROLL + u] = sum;
        }
        __syncthreads();
        const double lines = scan::inclusive<scan::LINES>(totals[lane % scan::LINES], lane);
        if (threadIdx.x == scan::LINES - 1) {
            double carry = 0;
            for (int level = scan::MAX_LEVELS - 1; level >= 0; --level) carry += levels[level].before(chunk >> 5 * level & 31);
            carried = carry;
            double sum = lines;
            for (int level = 0; level < scan::MAX_LEVELS; ++level) {
                const int position = chunk >> 5 * level & 31;
                sum = levels[level].push(position, sum);
                if (position != 31) break;
            }
        }
        const double line = scan::exclusive<scan::LINES>(lines, lane);
        __syncthreads();
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
            finish::ResultCode codes[scan::GROUP];
            scan::scanned(x[u], carried + __shfl_sync(ALL, line, warp * UNROLL + u) + lanes[u], codes);
            store_line(s, exchange, chunk * IN_CHUNK + (warp * UNROLL + u) * WARP, codes);
        }
        __syncthreads();
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) segment_scan(const __grid_constant__ SegmentScan p) {
    __shared__ scan::Exchange exchanges[WARPS];
    __shared__ int longest[THREADS], count;
    scan::Exchange& exchange = exchanges[threadIdx.x / WARP];
    const i64 first = blockIdx.x * p.per_block, end = min(first + p.per_block, p.segments);
    for (i64 base = first; base < end; base += THREADS) {
        __syncthreads();
        if (threadIdx.x == 0) count = 0;
        __syncthreads();
        const i64 mine = base + threadIdx.x;
        const Segment own(p, mine < end ? mine : p.segments);
        if (own.length <= SHORT * scan::GROUP)
            scan_by_lane(own);
        else if (own.length > ELEMENTS_OF_CHUNK)
            longest[atomicAdd(&count, 1)] = threadIdx.x;
        __syncwarp();
        u32 left = __ballot_sync(ALL, own.length > SHORT * scan::GROUP && own.length <= ELEMENTS_OF_CHUNK);
        for (; left; left &= left - 1)
            scan_by_warp(Segment(p, base + threadIdx.x / WARP * WARP + __ffs(left) - 1), exchange);
        __syncthreads();
        for (int i = 0; i < count; ++i) scan_by_block(Segment(p, base + longest[i]), exchange);
    }
}
