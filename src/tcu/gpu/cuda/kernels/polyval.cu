// Values of polynomials at many points, by the plan of tcu/plan/polyval.py.
//
// horner: every thread has PER points, each of CHAINS chains, and coefficients come from shared memory, CHUNK at a time, to all
// of them.
//
// blocked: a warp has 8·TILES points.  Of each block of coefficients, 16 rows of 32, the columns are multiplied by the powers of
// x^16, which stay in registers, and what earlier blocks gave, times x^512, is where the chains of the unit begin.
//
// Floor, for n coefficients and p points of binary64: 16·p bytes, and n·p multiply-adds, which the unit of an H100 does at
// 33.5·10^12 a second, twice what its cores do.  Besides, a block costs a point 16 multiplications, which is 1/16 of the
// unit's time for it, and a point takes 56 instructions of a lane for its powers and its last sums.
// Measured there: 24.5·10^12 of 4,096 coefficients at 2^20 points; chains of 500 reach 12.1.
//
// Compiled with these macros:
//   NUMBER           float or double
//   STRIDED          1: coefficients and points lie a_step and x_step apart; 0: one after another
// for horner:
//   PER              points of a thread
//   CHAINS           1: Horner's rule in x; 2: in x², for odd and for even powers
//   LOOPS            0: all coefficients, and the zeros in front of them, are at most CHUNK
//   SEVERAL          1: there may be more polynomials than one
//   GROUP            16 bytes of coefficients that are loaded while as many are in use
//   FILL             coefficients that a thread brings to shared memory at once
// for blocked:
//   TILES            of 8 points, of a warp
// for both:
//   RESIDENT         blocks of threads on a multiprocessor

#include "device/mma/doubles.cuh"
#include "device/types/ieee.cuh"
#include "device/types/types.cuh"

using namespace tcu;

#include "generated/polyval/Polyval.inc"

#include "generated/polyval/CONSTANTS.inc"

__device__ inline i64 a_step(const Polyval& p) { return STRIDED ? p.a_step : 1; }
__device__ inline i64 x_step(const Polyval& p) { return STRIDED ? p.x_step : 1; }

__device__ inline float not_a_number(float) { return __uint_as_float(0x7FFFFFFF); }
__device__ inline double not_a_number(double) { return __longlong_as_double(0x7FFFFFFFFFFFFFFF); }

// Without arithmetic, of which binary64 has little.
__device__ inline bool is_finite(float y) { return (__float_as_uint(y) << 1) < 0xFF000000; }
__device__ inline bool is_finite(double y) { return (static_cast<u32>(__double2hiint(y)) << 1) < 0xFFE00000; }

// Where y is not finite, Horner's rule in x decides: powers overflow earlier than values.
__device__ inline NUMBER by_horner(const Polyval& p, const NUMBER* a, NUMBER x) {
    NUMBER y = a[(p.n - 1) * a_step(p)];
#pragma unroll 1
    for (i64 i = p.n - 2; i >= 0; --i) y = fused(y, x, a[i * a_step(p)]);
    return y == y ? y : not_a_number(y);
}

#ifdef PER
#if LOOPS
using CoefficientIndex = i64;
#else
using CoefficientIndex = int;
#endif

struct alignas(16) Coefficients {
    NUMBER numbers[16 / sizeof(NUMBER)];
};
constexpr int WIDE = 16 / sizeof(NUMBER);

// A group of coefficients but the first so many.
//
// Registers lie in two banks, of which a clock reads one register each.  An FMA of binary32 has three, but needs none again that the
// FMA before it had in the same place.  So every other coefficient takes the points backwards, and its first FMA has the factor of
// the last one before it: 1.4 clocks for an FMA in place of 1.5.
__device__ inline void add(NUMBER (&sums)[CHAINS][PER], const NUMBER (&factor)[PER], const Coefficients (&group)[GROUP], int skipped) {
#pragma unroll
    for (int k = 0; k < GROUP * WIDE; ++k) {
        if (k < skipped) continue;
#pragma unroll
        for (int turn = 0; turn < PER; ++turn) {
            const int i = sizeof(NUMBER) == 4 && k % 2 ? PER - 1 - turn : turn;
            NUMBER& sum = sums[k % CHAINS][i];
            sum = fused(sum, factor[i], group[k / WIDE].numbers[k % WIDE]);
        }
    }
}

// Left alone, the compiler saves more registers than so many blocks need, and squares points again in every turn: of binary64 that took
// an eighth longer.
//
// Of few coefficients most of the time is what comes before the first of them: 64 at 10^6 points take 4.7 us, of which the FMAs
// are 1.9 (H200).  So indices are of 32 bits where they may be, and the first coefficients are asked for ahead of the points.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) horner(const __grid_constant__ Polyval p) {
    __shared__ Coefficients chunk[CHUNK / WIDE + GROUP];
    const i64 polynomial = SEVERAL ? blockIdx.y : 0;
    const NUMBER* const a = reinterpret_cast<const NUMBER*>(p.a) + polynomial * p.a_stride;
    const i64 first = static_cast<i64>(blockIdx.x) * (THREADS * PER) + threadIdx.x;
    const i64 left = p.points - first;
    const int mine = left < THREADS * PER ? static_cast<int>(left) : THREADS * PER;
    const NUMBER* const points = reinterpret_cast<const NUMBER*>(p.x) + first * x_step(p);
    NUMBER* const out = reinterpret_cast<NUMBER*>(p.out) + polynomial * p.points + first;
    // From the highest coefficient on, behind so many empty places that the last group is full: groups begin with an odd power.
    // Of binary32 they have zeros: to leave them out took up to a quarter longer, which of binary64 saves a twentieth.
    const int before = -static_cast<int>(p.n) & (GROUP * WIDE - 1);
    const CoefficientIndex places = static_cast<CoefficientIndex>(p.n) + before;
    const NUMBER* source = a + (places - 1 - threadIdx.x) * a_step(p);
    NUMBER some[FILL];
    const auto read = [&](int place, int count, int skipped) {
#pragma unroll
        for (int k = 0; k < FILL; ++k) {
            const int at = place + k * THREADS;
            some[k] = at >= skipped && at < count ? source[-k * THREADS * a_step(p)] : 0;
        }
        source -= FILL * THREADS * a_step(p);
    };
    const auto count_from = [&](CoefficientIndex done) { return places - done < CHUNK ? static_cast<int>(places - done) : CHUNK; };
    int count = count_from(0), skipped = before;
    read(threadIdx.x, count, skipped);
    NUMBER x[PER], factor[PER], sums[CHAINS][PER] = {};
    const bool is_full = mine == THREADS * PER;  // so each store needs no comparison
#pragma unroll
    for (int i = 0; i < PER; ++i) x[i] = is_full || i * THREADS < mine ? points[i * THREADS * x_step(p)] : 0;
    CoefficientIndex done = 0;
    do {
        if (LOOPS && done > 0) __syncthreads();
#pragma unroll 1
        for (int j = threadIdx.x;;) {
#pragma unroll
            for (int k = 0; k < FILL; ++k)
                if (j + k * THREADS < count) reinterpret_cast<NUMBER*>(chunk)[j + k * THREADS] = some[k];
            j += FILL * THREADS;
            if (j >= count) break;
            read(j, count, skipped);
        }
        __syncthreads();
        const int there = count, empty = skipped;
        done += CHUNK;
        if (LOOPS) {
            count = count_from(done);
            skipped = 0;
            read(threadIdx.x, count, 0);
        }
        if (!LOOPS || done == CHUNK) {
#pragma unroll
            for (int i = 0; i < PER; ++i) factor[i] = CHAINS == 1 ? x[i] : times(x[i], x[i]);
        }
        Coefficients now[GROUP];
#pragma unroll
        for (int g = 0; g < GROUP; ++g) now[g] = chunk[g];
        int j = GROUP;
        if (sizeof(NUMBER) == 8 && empty > 0) {
            add(sums, factor, now, empty);
#pragma unroll
            for (int g = 0; g < GROUP; ++g) now[g] = chunk[j + g];
            j += GROUP;
        }
#pragma unroll 2
        for (; j <= there / WIDE; j += GROUP) {
            Coefficients next[GROUP];  // behind the last ones they are of no use
#pragma unroll
            for (int g = 0; g < GROUP; ++g) next[g] = chunk[j + g];
            add(sums, factor, now, 0);
#pragma unroll
            for (int g = 0; g < GROUP; ++g) now[g] = next[g];
        }
    } while (LOOPS && done < places);
    NUMBER zero = 0;  // unless some value is not finite: of binary32 that costs an FMA, which is twice as fast as a comparison
    bool again = false;
#pragma unroll
    for (int i = 0; i < PER; ++i) {
        const NUMBER y = CHAINS == 1 ? sums[0][i] : fused(sums[0][i], x[i], sums[CHAINS - 1][i]);
        if (is_full || i * THREADS < mine) out[i * THREADS] = y;
        if constexpr (sizeof(NUMBER) == 4) zero = fused(y, 0, zero);
        else again = again || !is_finite(y);
    }
    again = again || zero != 0;
    if (!again) return;
#pragma unroll 1
    for (int i = 0; i < PER; ++i) {
        const int at = i * THREADS;
        if (at < mine && !is_finite(out[at])) out[at] = by_horner(p, a, points[at * x_step(p)]);
    }
}

#endif

#ifdef TILES
constexpr int STEPS = COLUMNS / 16;  // MMAs that a block takes
constexpr int POINTS = 8 * TILES;    // of a warp
constexpr int WARPS = THREADS / WARP;
constexpr int PAIRS = BLOCK / 2;     // of coefficients of a block, 8 rows apart
constexpr int TURNS = PAIRS / THREADS;
constexpr int BEYOND = WARPS * 4 * ROWS;  // coefficients from a thread's pair to its next

// What the lanes of a warp hand each other: at first powers of x^16, then what is added up.  Lines lie 64 bytes apart, modulo all
// banks.
struct PointLines {
    double lines[ROWS][POINTS + 8];
};
enum { FOURTH = 4, STEP = 5 };  // z^4 and z^32; the lines before have 1, z, z^2 and z^3

struct Points {
    double powers[TILES][4 * STEPS];  // of x^16, as the unit takes them
    double2 step[TILES];              // x^512 of the points whose sums the lane has
};

// Lane l makes those of point l.
__device__ inline void prepare(Points& points, PointLines& shared, double x) {
    const int lane = threadIdx.x % WARP;
    if (lane < POINTS) {
        double z = x;
#pragma unroll
        for (int i = 1; i < ROWS; i *= 2) z = times(z, z);
        const double square = times(z, z), fourth = times(square, square);
        double step = fourth;
#pragma unroll
        for (int i = 4; i < COLUMNS; i *= 2) step = times(step, step);
        const double all[] = {1, z, square, times(square, z), fourth, step};
#pragma unroll
        for (int line = 0; line <= STEP; ++line) shared.lines[line][lane] = all[line];
    }
    __syncwarp();
#pragma unroll
    for (int tile = 0; tile < TILES; ++tile) {
        const int column = 8 * tile + lane / 4;
        const double fourth = shared.lines[FOURTH][column];
        points.powers[tile][0] = shared.lines[lane % 4][column];
#pragma unroll
        for (int w = 1; w < 4 * STEPS; ++w) points.powers[tile][w] = times(points.powers[tile][w - 1], fourth);
        points.step[tile] = *reinterpret_cast<const double2*>(&shared.lines[STEP][8 * tile + lane % 4 * 2]);
    }
    __syncwarp();
}

__device__ inline void add_block(double (&sums)[TILES][4], const double2* pairs, const Points& points) {
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
        double a[8];
#pragma unroll
        for (int w = 0; w < 4; ++w) {
            const double2 pair = pairs[(step * 4 + w) * WARP + threadIdx.x % WARP];
            a[2 * w] = pair.x;
            a[2 * w + 1] = pair.y;
        }
#pragma unroll
        for (int tile = 0; tile < TILES; ++tile) {
            double b[4];
#pragma unroll
            for (int w = 0; w < 4; ++w) b[w] = points.powers[tile][4 * step + w];
            mma::multiply(sums[tile], a, b);
        }
    }
}

// The same of the last block, of so many coefficients.
__device__ inline void begin(double (&sums)[TILES][4], const double2* pairs, const Points& points, int count) {
#pragma unroll
    for (int w = 0; w < 4 * STEPS; ++w) {
        if (w * 4 * ROWS >= count) break;
        const double2 pair = pairs[w * WARP + threadIdx.x % WARP];
        const double a[] = {pair.x, pair.y};
#pragma unroll
        for (int tile = 0; tile < TILES; ++tile) {
            const double b[] = {points.powers[tile][w]};
            mma::multiply(sums[tile], a, b);
        }
    }
}

// The value at point l of the warp, in lane l.
__device__ inline double joined(const double (&sums)[TILES][4], PointLines& shared, double x) {
    const int lane = threadIdx.x % WARP;
#pragma unroll
    for (int tile = 0; tile < TILES; ++tile) {
#pragma unroll
        for (int half = 0; half < 2; ++half)
            *reinterpret_cast<double2*>(&shared.lines[8 * half + lane / 4][8 * tile + lane % 4 * 2]) =
                make_double2(sums[tile][2 * half], sums[tile][2 * half + 1]);
    }
    __syncwarp();
    double power[4] = {x}, sum[ROWS / 2];
#pragma unroll
    for (int i = 1; i < 4; ++i) power[i] = times(power[i - 1], power[i - 1]);
    const int column = lane % POINTS;
#pragma unroll
    for (int r = 0; r < ROWS / 2; ++r) sum[r] = fused(shared.lines[8 + r][column], power[3], shared.lines[r][column]);
#pragma unroll
    for (int i = 2; i >= 0; --i) {
#pragma unroll
        for (int r = 0; r < 1 << i; ++r) sum[r] = fused(sum[r + (1 << i)], power[i], sum[r]);
    }
    return sum[0];
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) blocked(const __grid_constant__ Polyval p) {
    __shared__ double2 pairs[2][PAIRS];
    __shared__ PointLines lines_of[WARPS];
    const double* const a = reinterpret_cast<const double*>(p.a) + blockIdx.y * p.a_stride;
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const i64 mine = static_cast<i64>(blockIdx.x) * (WARPS * POINTS) + warp * POINTS + lane;
    const bool is_mine = lane < POINTS && mine < p.points;
    const double x = is_mine ? reinterpret_cast<const double*>(p.x)[mine * x_step(p)] : 0;

    // A pair of coefficients lies where the lane that takes it reads 16 bytes, without conflicts between banks.
    const int at = (warp * 4 + lane % 4) * ROWS + lane / 4;
    i64 block = (p.n - 1) / BLOCK;
    const int count = static_cast<int>(p.n - block * BLOCK);
    const double* source = a + (block * BLOCK + at) * a_step(p);
    const auto load = [&](int i) { return source[i * a_step(p)]; };
    double2 next[TURNS];
#pragma unroll
    for (int turn = 0; turn < TURNS; ++turn) {
        const int i = turn * BEYOND;
        next[turn] = make_double2(at + i < count ? load(i) : 0, at + i + 8 < count ? load(i + 8) : 0);
    }
    Points points;
    prepare(points, lines_of[warp], x);
    double sums[TILES][4] = {};
    for (int odd = 0;; odd ^= 1) {
#pragma unroll
        for (int turn = 0; turn < TURNS; ++turn) pairs[odd][threadIdx.x + turn * THREADS] = next[turn];
        __syncthreads();
        if (block > 0) {
            source -= BLOCK * a_step(p);
#pragma unroll
            for (int turn = 0; turn < TURNS; ++turn) next[turn] = make_double2(load(turn * BEYOND), load(turn * BEYOND + 8));
        }
        if (block == (p.n - 1) / BLOCK) {
            begin(sums, pairs[odd], points, count);
        } else {
            // Not before the barrier, where every warp would wait for its last MMAs: that took a quarter longer.
#pragma unroll
            for (int tile = 0; tile < TILES; ++tile) {
#pragma unroll
                for (int w = 0; w < 4; ++w)
                    sums[tile][w] = times(sums[tile][w], w % 2 ? points.step[tile].y : points.step[tile].x);
            }
            add_block(sums, pairs[odd], points);
        }
        if (block-- == 0) break;
    }
    const double y = joined(sums, lines_of[warp], x);
    if (is_mine) reinterpret_cast<double*>(p.out)[blockIdx.y * p.points + mine] = is_finite(y) ? y : by_horner(p, a, x);
}
#endif
