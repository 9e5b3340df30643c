// Running sums by products with triangular matrices of ones (tcu/plan/mma_scan.py).
//
// A slot is a group of up to 16 strips of a row, or of a ragged segment.  Where a row is one strip, a slot is a row, and
// one launch does it all.  Else a first launch (TOTALS) scans the strips without storing them, and leaves what comes
// before each strip of its group and the group's total; triangular_levels.cu makes of the groups' totals what comes
// before each group; and a last launch (RESULTS) scans the strips again.  To keep the prefixes of a group in between would
// take 256 KiB of a multiprocessor.
//
// In Scan_16 a warp has 16 strips, the rows of one matrix, otherwise one.
//
// Compiled with ELEMENT and the macros of mma/chains.cuh (TILE is ROWS, CHAIN 1, LAYOUT ALIGNED), and
//   ALGORITHM   SCAN_16, SCAN_256 or WORK_EFFICIENT
//   PHASE       TOTALS or RESULTS
//   STRIPS_LOG  a slot holds 2^STRIPS_LOG strips: 0 where rows are one strip, else as many as a row has, up to 4
//   CARRIED     0: rows of one strip, 1: of one group, 2: of several groups
//   RAGGED      1: of segments between offsets
//   RESULT      format of the results (finish::Target)
//   EXCLUSIVE, REVERSE

#include "device/finish/store.cuh"
#include "device/mma/triangles.cuh"

using namespace tcu;

#define SCAN_16 0
#define SCAN_256 1
#define WORK_EFFICIENT 2
#define TOTALS 0
#define RESULTS 1

constexpr int WARPS = THREADS / WARP;
constexpr int PER_WARP = ALGORITHM == SCAN_16 ? 16 : 1;  // strips
constexpr int STRIPS = WARPS * PER_WARP;
constexpr int NUMBERS = ALGORITHM == SCAN_16 ? 16 : 256;  // of a tile
constexpr int OF_SLOT = 1 << STRIPS_LOG;
constexpr finish::Target TARGET = static_cast<finish::Target>(RESULT);

#include "generated/mma_scans/TriangularScan.inc"

struct ScanStrip {
    const Code* x;  // the row's or segment's first number
    i64 out;        // the place of its first result
    i64 length, start;
    i64 slot;
    bool exists;
};

__device__ inline ScanStrip strip_of(const TriangularScan& p, int number) {
    ScanStrip s;
    s.slot = static_cast<i64>(blockIdx.x) * (STRIPS >> STRIPS_LOG) + (number >> STRIPS_LOG);
    i64 group, begin;
#if RAGGED
    // Segment i has slots from ⌊begins/numbers of a group⌋ + i on: as many as it needs, and one more at most.
    const i64 of_group = 16 * p.chain * NUMBERS;
    i64 low = 0, high = p.rows;
    while (high - low > 1) {
        const i64 middle = (low + high) / 2;
        if (p.offsets[middle] / of_group + middle <= s.slot) low = middle;
        else high = middle;
    }
    begin = p.offsets[low];
    s.length = p.offsets[low + 1] - begin;
    if (begin < 0 || s.length < 0 || begin + s.length > p.length) begin = s.length = 0;  // offsets that nobody checked
    group = s.slot - (begin / of_group + low);
    s.out = begin;
#else
    const i64 row = s.slot / p.groups;
    group = s.slot - row * p.groups;
    begin = row * p.stride;
    s.out = row * p.out_stride;
    s.length = row < p.rows ? p.length : 0;
#endif
    s.x = static_cast<const Code*>(p.data) + begin;
    s.start = (group * 16 + (number & (OF_SLOT - 1))) * p.chain * NUMBERS;
    s.exists = s.slot < p.slots;
    return s;
}

// Eight numbers of a row from `at` on, +0 beyond its end.
__device__ inline Vector load_numbers(const ScanStrip& s, i64 at) {
    Vector r;
    r.words = make_uint4(0, 0, 0, 0);
    const i64 left = s.length - at;
    if (!s.exists || left <= 0) return r;
    const Code* from = s.x + (REVERSE ? left - PER_LOAD : at);
    if (left >= PER_LOAD && reinterpret_cast<u64>(from) % 16 == 0) {
        const Vector v = {load::read_once(from)};
#pragma unroll
        for (int i = 0; i < PER_LOAD; ++i) r.codes[i] = v.codes[REVERSE ? PER_LOAD - 1 - i : i];
        return r;
    }
#pragma unroll
    for (int i = 0; i < PER_LOAD; ++i)
        if (i < left) r.codes[i] = __ldg(s.x + (REVERSE ? left - 1 - i : at + i));
    return r;
}

__device__ inline void store_result(const TriangularScan& p, const ScanStrip& s, i64 at, float number) {
    if (!s.exists || at >= s.length) return;
    void* place = finish::place(p.out, s.out + (REVERSE ? s.length - 1 - at : at), TARGET);
    if (TARGET == finish::TO_BINARY32)
        *static_cast<u32*>(place) = number != number ? 0x7fffffff : __float_as_uint(number + 0.0f);
    else
        finish::store_rounded(place, number, TARGET);
}

// Two neighbouring prefixes of a strip.
__device__ inline void store_prefixes(const TriangularScan& p, const ScanStrip& s, i64 at, float carry, float x, float y) {
    if (CARRIED) x = mma::plus(carry, x), y = mma::plus(carry, y);
#if EXCLUSIVE
    const i64 stop = s.start + p.chain * NUMBERS;
    store_result(p, s, at + 1, x);
    if (at + 2 < stop) store_result(p, s, at + 2, y);
#else
    store_result(p, s, at, x);
    store_result(p, s, at + 1, y);
#endif
}

// The prefixes of a tile, from the sums before it: of all of it, or of rows g and g + 8, where g is lane / 4.
__device__ inline void scan_tile(const uint4* tile, float before, float before_lower, mma::Half (&r)[2]) {
    mma::Word a[mma::A_WORDS], b[mma::B_WORDS];
    mma::load_matrices(a, tile, 0);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        r[half] = mma::Half();
        if (ALGORITHM != WORK_EFFICIENT) mma::put(r[half], before, before_lower);
        mma::upper(b, half);
        r[half].multiply(a, b);
    }
    if (ALGORITHM == SCAN_16) return;
    mma::Word below[mma::A_WORDS];
    mma::lower(below);
#if ALGORITHM == WORK_EFFICIENT
    mma::last_column(r[1], b);
    mma::Half above;
    mma::put(above, before, before_lower);
    above.multiply(below, b);
    const float rows[2] = {mma::value(above, 0), mma::value(above, 2)};
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const mma::Half own = r[half];
        mma::put_all(r[half], mma::plus(rows[0], mma::value(own, 0)), mma::plus(rows[0], mma::value(own, 1)),
                     mma::plus(rows[1], mma::value(own, 2)), mma::plus(rows[1], mma::value(own, 3)));
    }
#else
    mma::Word columns[2][mma::B_WORDS];
    mma::load_columns(columns, tile);
    mma::Half above[2];
    above[0].multiply(below, columns[0]);
    above[1].multiply(below, columns[1]);
    mma::as_operand(above, a);
    b[0] = b[1] = mma::ones();
    r[0].multiply(a, b);
    r[1].multiply(a, b);
#endif
}

extern "C" __global__ void __launch_bounds__(THREADS) triangular_scan(const __grid_constant__ TriangularScan p) {
    __shared__ uint4 staged[2][WARPS][WARP];
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, g = lane / 4, t = lane % 4;
    // The strips that this lane loads from, and those of which it has prefixes.
    const ScanStrip source = strip_of(p, warp * PER_WARP + (PER_WARP > 1 ? lane / 2 : 0));
    ScanStrip strips[2] = {source, source};
    if (PER_WARP > 1) strips[0] = strip_of(p, warp * PER_WARP + g), strips[1] = strip_of(p, warp * PER_WARP + g + 8);

    float carry[2] = {0, 0};
    if (PHASE == RESULTS && CARRIED) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            if (!strips[i].exists) continue;
            const int number = warp * PER_WARP + (PER_WARP > 1 ? g + 8 * i : 0);
            carry[i] = p.before[(strips[i].slot << STRIPS_LOG) + (number & (OF_SLOT - 1))];
            if (CARRIED == 2) carry[i] = mma::plus(p.carries[strips[i].slot], carry[i]);
        }
    }
    if (PHASE == RESULTS && EXCLUSIVE && (PER_WARP > 1 ? t == 0 : lane == 0)) {
        store_result(p, strips[0], strips[0].start, carry[0]);
        if (PER_WARP > 1) store_result(p, strips[1], strips[1].start, carry[1]);
    }

    // A lane loads half a row of a tile.
    const i64 mine = source.start + (PER_WARP > 1 ? lane % 2 : lane) * PER_LOAD;
    float before[2] = {0, 0};
    Vector next = load_numbers(source, mine);
#pragma unroll 1
    for (i64 link = 0; link < p.chain; ++link) {
        // Behind the end nothing is left to store, and sums stay as they are.
        if (!__any_sync(ALL, source.exists && source.start + link * NUMBERS < source.length)) break;
        uint4* tile = staged[link % 2][warp];
        tile[mma::place_of(lane)] = next.words;
        if (link + 1 < p.chain) next = load_numbers(source, mine + (link + 1) * NUMBERS);
        // One barrier is enough: before a buffer is written again, all lanes have met at the other's.
        __syncwarp();
        mma::Half r[2];
        scan_tile(tile, before[0], before[1], r);
        if (PER_WARP > 1) {
            before[0] = __shfl_sync(ALL, mma::value(r[1], 1), lane | 3);
            before[1] = __shfl_sync(ALL, mma::value(r[1], 3), lane | 3);
        } else {
            before[0] = before[1] = __shfl_sync(ALL, mma::value(r[1], 3), WARP - 1);
        }
#if PHASE == RESULTS
#pragma unroll
        for (int half = 0; half < 2; ++half)
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const ScanStrip& s = strips[i];
                const int row = PER_WARP > 1 ? 0 : g + 8 * i;
                const i64 at = s.start + link * NUMBERS + row * 16 + 8 * half + 2 * t;
                store_prefixes(p, s, at, carry[i], mma::value(r[half], 2 * i), mma::value(r[half], 2 * i + 1));
            }
#endif
    }

#if PHASE == TOTALS
    // The totals of strips to what comes before each: 16 slots for a warp.
    __shared__ float totals[STRIPS];
    if (PER_WARP > 1) {
        if (t == 0) totals[warp * PER_WARP + g] = before[0], totals[warp * PER_WARP + g + 8] = before[1];
    } else if (lane == 0) {
        totals[warp] = before[0];
    }
    __syncthreads();
    constexpr int SLOTS = STRIPS >> STRIPS_LOG;
    const i64 first = static_cast<i64>(blockIdx.x) * SLOTS;
    if (warp * 16 >= SLOTS) return;
    const auto is_there = [&](int run) { return warp * 16 + run < SLOTS && first + warp * 16 + run < p.slots; };
    mma::scan_totals(
        [&](int run, int i) {
            return is_there(run) && i < OF_SLOT ? totals[((warp * 16 + run) << STRIPS_LOG) + i] : 0.0f;
        },
        [&](int run, int i, float e) {
            if (is_there(run) && i < OF_SLOT) p.before[((first + warp * 16 + run) << STRIPS_LOG) + i] = e;
        },
        [&](int run, float sum) {
            if (CARRIED == 2 && is_there(run)) p.carries[first + warp * 16 + run] = sum;
        });
#endif
}
