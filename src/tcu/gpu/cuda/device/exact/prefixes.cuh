// The exact sums of all numbers before each granule of a window: of WARP · TILES granules that follow each other and lie
// in a ring.  The sum of any stretch of them is a difference of two, without an error.
//
// Numbers of 16 bits are added up in binary64 as they are, and others after a cut (exact/lane_sums.cuh says how and
// when that is exact): at a place so far below the window's largest number that the sums of what is above fit 53 bits.
// What is below is cut once more, in binary64 always, and in binary32 only where a number has anything there.
//
// A lane adds up every 32nd granule, so that lanes read neighbouring ones; then it adds up the sums of TILES that follow
// each other, and the lanes' totals are scanned once.

#pragma once

#include "device/exact/lane_sums.cuh"
#include "device/exact/double_sum.cuh"
#include "device/load/ring.cuh"
#include "device/load/unaligned.cuh"
#include "device/warp/warp_scan.cuh"

namespace tcu::exact {

constexpr int LEVELS = PLAIN ? 1 : 2;
constexpr u32 GRANULES = WARP * TILES, WINDOW = GRANULES * 16;
constexpr int WINDOW_LOG = logarithm(GRANULES * PER_LOAD);

typedef load::Ring<WINDOW, WINDOWS> WindowRing;
static_assert(WindowRing::MASKED && WINDOWS > 1, "a window lies in one piece, while the next one is copied");

// The sum before granule g lies in place g + g / TILES · 2: so lanes that read TILES of them read other banks.
constexpr u32 STRIDE = TILES + 2;
struct Before {
    alignas(16) double sums[LEVELS][WARP * STRIDE + 2];
};
__device__ inline u32 place_of(u32 granule) { return granule + granule / TILES * 2; }

struct Prefixes {
    struct Prefix {
        double of[LEVELS];
    };

    WindowRing& data;
    Before& memory;
    u32 begin = 0, end = 0;  // positions in the ring
    bool proved = true;
    bool has_low = ELEMENT == BINARY64;
    double anchors[2] = {0, 0};

    __device__ Prefixes(WindowRing& data, Before& memory) : data(data), memory(memory) {}

    __device__ Vector granule(u32 position) const {
        Vector x;
        x.words = *reinterpret_cast<const uint4*>(data.memory->bytes + data.place_inside(position & ~15u));
        return x;
    }

    // The window in which a position lies, which is not before the present window's end.
    __device__ void open(u32 position) {
        begin = position / WINDOW * WINDOW, end = begin + WINDOW;
        data.wait(min(begin, data.asked));
        if (begin > data.asked) data.skip(begin);
        data.go_on(begin);
        data.wait(min(end, data.end));
        Vector x[TILES];
#pragma unroll
        for (int t = 0; t < TILES; ++t) {
            const u32 at = begin + (t * WARP + threadIdx.x % WARP) * 16;
            x[t].words = make_uint4(0, 0, 0, 0);
            if (at < data.end) x[t] = granule(at);
            if (at < data.end && data.end - at < 16) x[t] = load::lowest(x[t], static_cast<int>(data.end - at) * 8);
        }
        sum(x);
    }

#if ELEMENT == BINARY16 || ELEMENT == BFLOAT16
    __device__ Prefix sum_of(const Vector& x) const {
        double low = 0, high = 0;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            low += moved(x.word[i], 0);
            high += moved(x.word[i], 1);
        }
        return {{low + high}};
    }
    __device__ void sum(const Vector (&x)[TILES]) {
        PairRange seen;
#pragma unroll
        for (int t = 0; t < TILES; ++t)
#pragma unroll
            for (int i = 0; i < 4; ++i) seen.see(x[t].word[i]);
        const int top = warp::reduce_max(max(seen.top(0), seen.top(1)));
        const int bottom =
            ELEMENT == BINARY16 ? 1 : FIELDS - warp::reduce_max(FIELDS - min(seen.bottom(0), seen.bottom(1)));
        proved = fits(top, bottom, WINDOW_LOG, 53);
        double sums[TILES];
#pragma unroll
        for (int t = 0; t < TILES; ++t) sums[t] = sum_of(x[t]).of[0];
        scan(sums, 0);
    }
    __device__ void add_difference(const Prefix& here, const Prefix& there, DoubleSum& total) const {
        const double sum = (here.of[0] - there.of[0]) * UP;
        if (ELEMENT == BINARY16) total.high += sum;  // of so few numbers, no sum is rounded
        else total.add(sum);
    }
#else
    // The part of a number above a place, which is a multiple of it; the number becomes the rest.
    static __device__ double take(double& value, double anchor) {
        const double part = (value + anchor) - anchor;
        value -= part;
        return part;
    }
    static __device__ u32 left_of(double rest) {  // -0 leaves -0, and binary32 leaves no subnormal numbers
        return static_cast<u32>(__double2hiint(rest)) << 1 | (ELEMENT == BINARY64 ? static_cast<u32>(__double2loint(rest)) : 0);
    }
    template <bool LOW>
    __device__ Prefix cut(const Vector& x, u32& left) const {
        Prefix sum = {{0, 0}};
#pragma unroll
        for (int i = 0; i < PER_LOAD; ++i) {
            double value = to_binary64(x.codes[i]);
            sum.of[0] += take(value, anchors[0]);
            if (LOW) sum.of[1] += take(value, anchors[1]);
            left |= left_of(value);
        }
        return sum;
    }
    __device__ Prefix sum_of(const Vector& x) const {
        u32 left = 0;
        if (has_low) return cut<true>(x, left);
        return cut<false>(x, left);
    }
    template <bool LOW>
    __device__ bool cut_all(const Vector (&x)[TILES], double (&high)[TILES], double (&low)[TILES]) const {
        u32 left = 0;
#pragma unroll
        for (int t = 0; t < TILES; ++t) {
            const Prefix sum = cut<LOW>(x[t], left);
            high[t] = sum.of[0];
            low[t] = sum.of[1];
        }
        return __all_sync(ALL, left == 0);
    }
    __device__ void sum(const Vector (&x)[TILES]) {
        u32 largest = 0;
#pragma unroll
        for (int t = 0; t < TILES; ++t)
#pragma unroll
            for (int i = 0; i < PER_LOAD; ++i) largest = max(largest, magnitude_of(x[t], i));
        const int top = warp::reduce_max(field_of(largest));
        // Numbers below 2^size: the sums of what is above 2^above fit 53 bits, and then of what is above 2^below.
        const int size = min(max(window_of(top, 0), -1074 + 2 * (53 - WINDOW_LOG) + 1), 1022 - WINDOW_LOG);
        const int above = size + WINDOW_LOG - 53, below = above - 1 + WINDOW_LOG - 53;
        anchors[0] = Arithmetic<double>::power_and_half(above + 52);
        anchors[1] = Arithmetic<double>::power_and_half(below + 52);
        double high[TILES], low[TILES];
        bool whole = false;
        has_low = ELEMENT == BINARY64;
        if (!has_low) {
            whole = cut_all<false>(x, high, low);
            has_low = !whole;
        }
        if (has_low) whole = cut_all<true>(x, high, low);
        proved = whole && top < FIELDS && window_of(top, 0) <= size;
        scan(high, 0);
        if (has_low) scan(low, 1);
    }
    __device__ void add_difference(const Prefix& here, const Prefix& there, DoubleSum& total) const {
        total.add(here.of[0] - there.of[0]);
        if (has_low) total.add(here.of[1] - there.of[1]);
    }
#endif

    // The lanes' granules' sums become sums of all granules before.
    __device__ void scan(const double (&sums)[TILES], int level) {
        double* const all = memory.sums[level];
        const u32 lane = threadIdx.x % WARP;
        struct alignas(16) Two {
            double first, second;
        };
        Two* const own = reinterpret_cast<Two*>(all + lane * STRIDE);
        __syncwarp();
#pragma unroll
        for (int t = 0; t < TILES; ++t) all[place_of(t * WARP + lane)] = sums[t];
        __syncwarp();
        Two two[TILES / 2];
        double sum = 0;
#pragma unroll
        for (int i = 0; i < TILES / 2; ++i) {
            const Two given = own[i];
            two[i].first = sum;
            sum += given.first;
            two[i].second = sum;
            sum += given.second;
        }
        const double behind = warp::inclusive_scan<WARP>(sum), base = behind - sum;
#pragma unroll
        for (int i = 0; i < TILES / 2; ++i) own[i] = {two[i].first + base, two[i].second + base};
        if (lane == WARP - 1) all[WARP * STRIDE] = behind;
        __syncwarp();
    }

    // The sum of all numbers of the window before a position.
    __device__ Prefix before(u32 position) const {
        const u32 place = place_of((position - begin) / 16);
        Prefix sum = sum_of(load::lowest(granule(position), static_cast<int>(position % 16 * 8)));
#pragma unroll
        for (int level = 0; level < LEVELS; ++level)
            if (level == 0 || has_low) sum.of[level] += memory.sums[level][place];
        return sum;
    }

    // The same of the lane below.
    __device__ Prefix of_lane_below(const Prefix& own) const {
        Prefix sum = {};
#pragma unroll
        for (int level = 0; level < LEVELS; ++level)
            if (level == 0 || has_low) sum.of[level] = __shfl_up_sync(ALL, own.of[level], 1);
        return sum;
    }
};

}  // namespace tcu::exact
