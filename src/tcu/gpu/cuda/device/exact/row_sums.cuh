// Exact sums of rows, or of parts of rows, with LANES lanes to each, which take whole granules (kernels/exact_rows.cu says
// how).
//
// Compiled with LANES, TILES and LOOPS, as that kernel.

#pragma once

#include "device/exact/lane_sums.cuh"
#include "device/load/row.cuh"

namespace tcu::exact {

// Numbers of a lane between two emptyings, of binary64; others have room for a whole row.
constexpr int TERMS = TILES * PER_LOAD;
constexpr int EMPTIED_LOG = logarithm(2 * TERMS - 1);

// Merges the numbers of all lanes of a row.  Every lane has the result.
template <typename Number, typename Merge>
__device__ inline Number over_lanes(Number v, const Merge& merge) {
#pragma unroll
    for (int half = LANES / 2; half > 0; half /= 2) v = merge(v, __shfl_xor_sync(ALL, v, half));
    return v;
}
__device__ inline int largest_of_lanes(int v) {
    if constexpr (LANES == WARP) return warp::reduce_max(v);
    return over_lanes(v, [](int a, int b) { return max(a, b); });
}
__device__ inline i64 sum_of_lanes(i64 v) {
    return over_lanes(v, [](i64 a, i64 b) { return a + b; });
}

// A row, or a warp's part of one: its granules and the elements in them.
struct Span {
    const uint4* granules;
    int before, end;  // elements of the first granule that are not the row's; one behind the last element, from there
    __device__ Span(const Code* from, int length) {
        const u64 address = reinterpret_cast<u64>(from);
        granules = reinterpret_cast<const uint4*>(address & ~15ull);
        before = static_cast<int>(address % 16 / sizeof(Code));
        end = length ? before + length : 0;
    }
    __device__ uint4 ask(int granule) const {
        return granule * PER_LOAD < end ? load::read_once(granules + granule) : make_uint4(0, 0, 0, 0);
    }
    __device__ void mask(Vector& x, int granule) const {
        const int first = granule * PER_LOAD;
        if (first < before || first + PER_LOAD > end)
            load::keep(x, min(max(before - first, 0), PER_LOAD), min(max(end - first, 0), PER_LOAD));
    }
};

struct RowSum {
#if ELEMENT == BINARY16 || ELEMENT == BFLOAT16
    double sum = 0;
    PairRange seen;

    __device__ void add(const Vector (&x)[TILES], bool, int) {
#pragma unroll
        for (int t = 0; t < TILES; ++t)
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                seen.see(x[t].word[i]);
                sum += moved(x[t].word[i], 0);
                sum += moved(x[t].word[i], 1);
            }
    }
    __device__ Parts total(int log) const {
        const int top = largest_of_lanes(max(seen.top(0), seen.top(1)));
        const int bottom =
            ANY_FINITE ? 1 : FIELDS - largest_of_lanes(FIELDS - min(seen.bottom(0), seen.bottom(1)));
        const bool proved = fits_lanes(top, bottom, log, logarithm(LANES));
        const int exponent = last_bit(bottom == FIELDS ? 1 : bottom);
        return {0, sum_of_lanes(proved ? integer_of(sum, exponent) : 0), 1, exponent, proved};
    }
#else
    Cut cut;
    u32 largest = 0;
    int window = 0;

    __device__ void add(const Vector (&x)[TILES], bool first, int log) {
        u32 found = 0;
#pragma unroll
        for (int t = 0; t < TILES; ++t)
#pragma unroll
            for (int i = 0; i < PER_LOAD; ++i) found = max(found, magnitude_of(x[t], i));
        largest = max(largest, found);
        if (first)
            window = Cut::clamped(
                window_of(largest_of_lanes(field_of(found)), LOOPS ? HEADROOM : 0), log);
        if (first || ELEMENT == BINARY64) cut.begin(window, log);
#pragma unroll
        for (int t = 0; t < TILES; ++t)
#pragma unroll
            for (int i = 0; i < PER_LOAD; ++i) cut.add(x[t].codes[i]);
        if (ELEMENT == BINARY64) cut.empty(window, log);
    }
    __device__ Parts total(int log) {
        if (ELEMENT != BINARY64) cut.empty(window, log);
        Parts sum = cut.parts(window, log, field_of(largest));
        sum.proved = over_lanes(static_cast<int>(sum.proved), [](int a, int b) { return a & b; });
        sum.high = sum_of_lanes(sum.high);
        sum.low = sum_of_lanes(sum.low);
        return sum;
    }
#endif
};

#if LOOPS
// The sum of a span by a warp.
__device__ inline Parts sum_of_span(const Span& span) {
    const int lane = threadIdx.x % WARP, granules = (span.end + PER_LOAD - 1) / PER_LOAD;
    const int log = ELEMENT == BINARY64 ? EMPTIED_LOG : 32 - __clz(span.end / WARP + TERMS);
    RowSum sum;
    Vector x[TILES];
#pragma unroll
    for (int t = 0; t < TILES; ++t) x[t].words = span.ask(lane + t * WARP);
#pragma unroll 1
    for (int first = 0; first < granules; first += WARP * TILES) {
        const int at = first + lane, next = at + WARP * TILES;
        Vector y[TILES];
#pragma unroll
        for (int t = 0; t < TILES; ++t) y[t].words = span.ask(next + t * WARP);
#pragma unroll
        for (int t = 0; t < TILES; ++t) span.mask(x[t], at + t * WARP);
        sum.add(x, first == 0, log);
#pragma unroll
        for (int t = 0; t < TILES; ++t) x[t] = y[t];
    }
    return sum.total(log);
}
#endif

}  // namespace tcu::exact
