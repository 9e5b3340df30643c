// Softmax, its logarithm, and the logarithm of the sum of exponentials, of rows: tcu/model/exponentials.py says every
// operation.  The sum is one of whole numbers, so threads add up what suits them, in any order.
//
// A row has LANES lanes of a warp, or all WARPS of a block, which keep it in registers: each number is read once, and
// each result written once.  With PASSES it is longer than that, and read three times, twice most likely from the second cache.
//
// OwnNumbers are whole granules of 16 bytes of memory, wherever the row begins; elements beside it count as -inf, whose
// exponentials are 0.
//
// The floor is memory.  A number costs about 14 instructions for its exponential, 5 for the sum and its maximum, and a few
// to unpack and to round.
//
// Compiled with ELEMENT, LAYOUT (ALIGNED: granules are), RESULT (BINARY16 ... BINARY64, types/options.cuh), and
//   FINISH   SHARE: e / S; LOG_SHARE: its logarithm; LOG: log S, a number for each row
//   WIDE     1: binary64 throughout; 0: binary32
//   LANES    of a row, where it has no more than a warp: a power of two up to 32
//   WARPS    of a row, or with fewer than 2 of a block whose warps have rows of their own
//   LOADS  of a thread at a time
//   PARTIAL  1: rows may begin or end within a granule
//   PASSES   1: three passes over a row; 0: it is kept

#include "device/elementary/functions.cuh"
#include "device/finish/sixteen_bits.cuh"
#include "device/finish/store.cuh"
#include "device/load/array.cuh"

using namespace tcu;

#define SHARE 0
#define LOG_SHARE 1
#define LOG 2

#include "generated/exponentials/Exponentials.inc"

constexpr int ROW_THREADS = WARPS > 1 ? WARPS * WARP : LANES;
constexpr int BLOCK = WARPS > 1 ? ROW_THREADS : 4 * WARP;
constexpr int COUNT = LOADS * PER_LOAD;  // numbers of a thread at a time

#if WIDE
typedef double Working;
__device__ inline Working real(Code code) { return to_binary64(code); }
__device__ inline Working minus(Working x, Working y) { return __dsub_rn(x, y); }
__device__ inline Working times(Working x, Working y) { return __dmul_rn(x, y); }
__device__ inline Working rounded_real(double x) { return x; }
__device__ inline Working clamped(Working x) { return x > -746.0 ? x : -746.0; }
#else
typedef float Working;
__device__ inline Working real(Code code) { return to_binary32(code); }
__device__ inline Working minus(Working x, Working y) { return __fsub_rn(x, y); }
__device__ inline Working times(Working x, Working y) { return __fmul_rn(x, y); }
__device__ inline Working rounded_real(double x) { return __double2float_rn(x); }
__device__ inline Working clamped(Working x) { return fmaxf(x, -104.0f); }
#endif

__device__ inline Working lowest() { return __uint_as_float(0xff800000); }  // -inf

// The larger one, or NaN where there is one.
__device__ inline Working larger(Working x, Working y) {
#if __CUDA_ARCH__ >= 800 && !WIDE
    float most;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(most) : "f"(x), "f"(y));
    return most;
#else
    return x > y || x != x ? x : y;
#endif
}

constexpr int PARTS = 1 + WIDE;               // of a term: in binary64 what is above 2^-40, and what is left
constexpr int WORDS = PARTS * (1 + PASSES);  // of a sum: long rows have two for each part, high and low

// A sum of terms, each rounded to a whole number.
struct ExponentialSum {
    i64 words[WORDS] = {};

    // Of up to 2^18 of them.
    __device__ void add(const i64 (&parts)[PARTS]) {
#pragma unroll
        for (int i = 0; i < PARTS; ++i) {
#if PASSES
            words[2 * i] += parts[i] & 0xffffffff;
            words[2 * i + 1] += parts[i] >> 32;
#else
            words[i] += parts[i];
#endif
        }
    }

    __device__ void add_lanes(int lanes) {
#pragma unroll
        for (int half = lanes / 2; half > 0; half /= 2)
#pragma unroll
            for (int i = 0; i < WORDS; ++i) words[i] += __shfl_xor_sync(ALL, words[i], half);
    }

    // A part, rounded once to binary64.
    __device__ double part(int i) const {
#if PASSES
        const i64 low = words[2 * i], high = words[2 * i + 1] + (low >> 32);
        return __fma_rn(__ll2double_rn(high), 0x1p32, __ll2double_rn(low & 0xffffffff));
#else
        return __ll2double_rn(words[i]);
#endif
    }

    // In units of 2^-44, or 2^-80.
    __device__ double value() const {
#if WIDE
        return __fma_rn(part(1), 0x1p40, part(0));
#else
        return part(0);
#endif
    }
};

__device__ inline void add_term(i64 (&parts)[PARTS], Working e) {
#if WIDE
    const i64 above = __double2ll_rn(__dmul_rn(e, 0x1p-40));
    parts[1] += above;
    parts[0] += __double2ll_rn(__fma_rn(__ll2double_rn(above), -0x1p40, e));
#else
    parts[0] += __float2ll_rn(e);
#endif
}

// The vectors of a thread.
struct OwnNumbers {
    Working x[COUNT];

    // Of the row's vectors, those from `first` on that are this thread's.
    __device__ void load(const Code* granules, int beside, i64 length, i64 first, int at) {
        Vector v[LOADS];
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            const i64 offset = (first + i * ROW_THREADS + at) * PER_LOAD - beside;
            v[i].words = make_uint4(0, 0, 0, 0);
            if (offset < length) v[i].words = load::read_once(granules + offset + beside);
        }
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            const i64 offset = (first + i * ROW_THREADS + at) * PER_LOAD - beside;
            const int low = PARTIAL && offset < 0 ? static_cast<int>(-offset) : 0;
            const int high = static_cast<int>(min(max(length - offset, i64(0)), i64(PER_LOAD)));
#pragma unroll
            for (int j = 0; j < PER_LOAD; ++j) {
                const bool is_there = PARTIAL ? j >= low && j < high : high > 0;
                x[i * PER_LOAD + j] = is_there ? real(v[i].codes[j]) : lowest();
            }
        }
    }

    __device__ Working largest(Working most) const {
#pragma unroll
        for (int j = 0; j < COUNT; ++j) most = larger(most, x[j]);
        return most;
    }

    // Puts scaled exponentials in the numbers' place, or with LOG_SHARE their differences from the largest.
    __device__ void exponentials(Working most, ExponentialSum& sum) {
        i64 parts[PARTS] = {};
#pragma unroll
        for (int j = 0; j < COUNT; ++j) {
            const Working d = minus(x[j], most), e = elementary::exp_scaled(clamped(d));
            add_term(parts, e);
            x[j] = FINISH == LOG_SHARE ? d : e;
        }
        sum.add(parts);
    }
};

typedef
#if RESULT == BINARY64
    u64
#elif RESULT == BINARY32
    u32
#else
    u16
#endif
        ResultNumber;

union ResultVector {
    u32 words[PER_LOAD * sizeof(ResultNumber) / 4];
    ResultNumber codes[PER_LOAD];
};

__device__ inline ResultNumber rounded_code(Working x) {
    const bool nan = x != x;
#if RESULT == BINARY64
    return nan ? 0x7fffffffffffffff : __double_as_longlong(x);
#elif RESULT == BINARY32
    return nan ? 0x7fffffff : __float_as_uint(rounded_real(x));
#else
    return nan ? 0x7fff : finish::rounded_16(x);
#endif
}

// What becomes of numbers: each times the reciprocal of the sum, or less its logarithm.
__device__ inline Working shared(Working x, Working of_row) { return FINISH == SHARE ? times(x, of_row) : minus(x, of_row); }

__device__ inline void store(const OwnNumbers& own, ResultNumber* out, int beside, i64 length, i64 first, int at, Working of_row) {
#pragma unroll
    for (int i = 0; i < LOADS; ++i) {
        const i64 offset = (first + i * ROW_THREADS + at) * PER_LOAD - beside;
        if (offset >= length) continue;
        ResultVector r;
#if RESULT == BINARY16 || RESULT == BFLOAT16
#if WIDE
#pragma unroll
        for (int j = 0; j < PER_LOAD; ++j) r.codes[j] = rounded_code(shared(own.x[i * PER_LOAD + j], of_row));
#else
#pragma unroll
        for (int j = 0; j < PER_LOAD; j += 2)
            r.words[j / 2] = finish::rounded_pair(shared(own.x[i * PER_LOAD + j], of_row), shared(own.x[i * PER_LOAD + j + 1], of_row));
#endif
#else
#pragma unroll
        for (int j = 0; j < PER_LOAD; ++j) r.codes[j] = rounded_code(shared(own.x[i * PER_LOAD + j], of_row));
#endif
        constexpr int BYTES = sizeof(ResultVector) < 16 ? sizeof(ResultVector) : 16;  // of a store
        const bool is_whole = !PARTIAL || (offset >= 0 && offset + PER_LOAD <= length);
        if (is_whole && reinterpret_cast<u64>(out + offset) % BYTES == 0) {
            u32* const to = reinterpret_cast<u32*>(out + offset);
#pragma unroll
            for (int word = 0; word < static_cast<int>(sizeof(ResultVector) / 4); word += BYTES / 4) {
                if constexpr (BYTES == 16)
                    *reinterpret_cast<uint4*>(to + word) = make_uint4(r.words[word], r.words[word + 1], r.words[word + 2], r.words[word + 3]);
                else if constexpr (BYTES == 8)
                    *reinterpret_cast<uint2*>(to + word) = uint2{r.words[word], r.words[word + 1]};
                else
                    to[word] = r.words[word];
            }
        } else {
#pragma unroll
            for (int j = 0; j < PER_LOAD; ++j)
                if (offset + j >= 0 && offset + j < length) out[offset + j] = r.codes[j];
        }
    }
}

// The largest number of a row's threads, in all of them.
__device__ inline Working largest_of_row(Working most) {
#pragma unroll
    for (int half = (WARPS > 1 ? WARP : LANES) / 2; half > 0; half /= 2) most = larger(most, __shfl_xor_sync(ALL, most, half));
#if WARPS > 1
    __shared__ Working of_warps[WARPS];
    if (threadIdx.x % WARP == 0) of_warps[threadIdx.x / WARP] = most;
    __syncthreads();
    most = of_warps[threadIdx.x % WARP % WARPS];
#pragma unroll
    for (int half = WARP / 2; half > 0; half /= 2) most = larger(most, __shfl_xor_sync(ALL, most, half));
#endif
    return most;
}

// The sum of a row's threads, in all of them.
__device__ inline double total_of_row(ExponentialSum sum) {
    sum.add_lanes(WARPS > 1 ? WARP : LANES);
#if WARPS > 1
    __shared__ i64 of_warps[WARPS * WORDS];
    if (threadIdx.x % WARP == 0) {
#pragma unroll
        for (int i = 0; i < WORDS; ++i) of_warps[threadIdx.x / WARP * WORDS + i] = sum.words[i];
    }
    __syncthreads();
    sum = ExponentialSum();
#pragma unroll
    for (int i = 0; i < WARPS * WORDS; ++i) sum.words[i % WORDS] += of_warps[i];
#endif
    return sum.value();
}

extern "C" __global__ void __launch_bounds__(BLOCK, RESIDENT) exponentials(const __grid_constant__ Exponentials p) {
    const i64 row = static_cast<i64>(blockIdx.x) * (BLOCK / ROW_THREADS) + threadIdx.x / ROW_THREADS;
    const int at = threadIdx.x % ROW_THREADS;
    const i64 length = row < p.rows ? p.length : 0;
    const Code* const data = static_cast<const Code*>(p.data) + (length ? row * p.stride : 0);
    const int beside = PARTIAL ? static_cast<int>(reinterpret_cast<u64>(data) % 16 / sizeof(Code)) : 0;
    const Code* const granules = data - beside;
    OwnNumbers own;
    Working most = lowest();
    ExponentialSum sum;
#if PASSES
    const i64 vectors = (length + beside + PER_LOAD - 1) / PER_LOAD;
    constexpr i64 STEP = LOADS * ROW_THREADS;
#pragma unroll 1
    for (i64 first = 0; first < vectors; first += STEP) {
        own.load(granules, beside, length, first, at);
        most = own.largest(most);
    }
    most = largest_of_row(most);
#pragma unroll 1
    for (i64 first = 0; first < vectors; first += STEP) {
        own.load(granules, beside, length, first, at);
        own.exponentials(most, sum);
    }
#else
    own.load(granules, beside, length, 0, at);
    most = largest_of_row(own.largest(most));
    own.exponentials(most, sum);
#endif
    const double total = total_of_row(sum);
    const bool usual = most - most == 0;  // neither NaN nor inf
    constexpr double UNIT = WIDE ? 0x1p-80 : 0x1p-44;
#if FINISH == LOG
    const double result = usual ? __dadd_rn(most, elementary::log(__dmul_rn(total, UNIT))) : static_cast<double>(most);
    if (at == 0 && row < p.rows) finish::store_rounded(finish::place(p.out, row, finish::Target(RESULT)), result, finish::Target(RESULT));
#else
    Working of_row = rounded_real(FINISH == SHARE ? __ddiv_rn(1.0, total) : elementary::log(__dmul_rn(total, UNIT)));
    if (!usual) of_row = __uint_as_float(0x7fffffff);
    ResultNumber* const out = static_cast<ResultNumber*>(p.out) + (length ? row * p.out_stride : 0);
#if PASSES
#pragma unroll 1
    for (i64 first = 0; first < vectors; first += STEP) {
        own.load(granules, beside, length, first, at);
        ExponentialSum again;
        own.exponentials(most, again);
        store(own, out, beside, length, first, at, of_row);
    }
#else
    store(own, out, beside, length, 0, at, of_row);
#endif
#endif
}
