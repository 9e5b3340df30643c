// The exact sum of an array in one launch, and its one rounding.
//
// A warp adds up its share in floating point without an error, and proves it: every number x is cut at
// two fixed places (S' = S + x; q = S' - S; r = x - q is Dekker's cut, and S only ever holds multiples
// of its last place), q's and r's add up without rounding within a window of bits, and what falls out of the
// window is noticed.  Where the proof fails the warp does its share again: first in binary64 with a
// window placed by the largest number of the share, then number by number in limbs of 16 bits.
// All of it is exact, so neither grid nor order matter.
// (Demmel and Nguyen, "Parallel Reproducible Summation", IEEE Trans. Computers 64(7), 2015, cut likewise.)
//
// Compiled with ELEMENT and LAYOUT (array.cuh), and
//   THREADS     of a block
//   UNROLL      loads of a thread in flight
//   RESIDENT    blocks per multiprocessor that the registers must allow
//
// The host fills the structure field by field (tcu/gpu/sums.py): change both together.

#include "array.cuh"
#include "limbs.cuh"
#include "result.cuh"

constexpr int WARPS = THREADS / WARP;
constexpr int MAX_LOADS = 128;

struct ExactSum {
    Array x;
    i64* limbs;   // COPIES × WORDS, all zero
    u32* arrived; // zero
    void* out;    // the rounded sum
    i64* state;   // WORDS, or null
    i64 loads;    // of a thread in a chunk, a multiple of UNROLL, at most MAX_LOADS
    i64 chunks;
    i64 target;
    i64 divisor;  // of the sum before it is rounded; 0 gives NaN
};

// What is known of an element's format.
#if ELEMENT == BINARY16
constexpr int FRACTION = 10, BIAS = 15, FIELDS = 31;
#elif ELEMENT == BFLOAT16
constexpr int FRACTION = 7, BIAS = 127, FIELDS = 255;
#elif ELEMENT == BINARY32
constexpr int FRACTION = 23, BIAS = 127, FIELDS = 255;
#else
constexpr int FRACTION = 52, BIAS = 1023, FIELDS = 2047;
#endif

// ROOM: bits of an accumulator's sum above its last place.  PRECISION - 2 is the most (the anchor's
// binade); in binary64 it leaves room for the sums of all emptyings and lanes in 64 bits.
template <typename Real>
struct Arithmetic;

template <>
struct Arithmetic<float> {
    typedef int Bits;
    static constexpr int PRECISION = 24, ROOM = 22, LOWEST_WINDOW = -108, HIGHEST_WINDOW = 124;
    static __device__ int bits(float x) { return __float_as_int(x); }
    static __device__ float power_and_half(int e) { return __int_as_float((e + 127) << 23 | 0x400000); }
    static __device__ float of(Code code) { return to_binary32(code); }
};

template <>
struct Arithmetic<double> {
    typedef i64 Bits;
    static constexpr int PRECISION = 53, ROOM = 47, LOWEST_WINDOW = -970, HIGHEST_WINDOW = 1015;
    static __device__ i64 bits(double x) { return __double_as_longlong(x); }
    static __device__ double power_and_half(int e) {
        return __hiloint2double((e + 1023) << 20 | 0x80000, 0);
    }
    static __device__ double of(Code code) { return to_binary64(code); }
};

// The largest exponent field of the elements seen, and the smallest but zero: enough for the proof.
struct Range {
#if ELEMENT == BINARY16 || ELEMENT == BFLOAT16
    u32 largest = 0, smallest = 0x7fff7fff;  // pairs; with the sign bit set and one subtracted, zero is apart

    __device__ void see(const Vector& x) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const u32 t = (x.word[i] | 0x80008000) - 0x00010001;
#if __CUDA_ARCH__ >= 900
            asm("max.u16x2 %0, %0, %1;" : "+r"(largest) : "r"(t));
            asm("min.s16x2 %0, %0, %1;" : "+r"(smallest) : "r"(t));
#else
            largest = __vmaxu2(largest, t);
            smallest = __vmins2(smallest, t);
#endif
        }
    }

    // Of a nonzero number; 0 where there is none.
    __device__ int top() const {
        const u32 a = largest & 0xffff, b = largest >> 16, m = a > b ? a : b;
        return m < 0x8000 ? 0 : static_cast<int>((m & 0x7fff) + 1) >> FRACTION;
    }
    __device__ int bottom() const {
        const int a = static_cast<short>(smallest & 0xffff), b = static_cast<short>(smallest >> 16), m = a < b ? a : b;
        return m >= 0 ? FIELDS : ((m & 0x7fff) + 1) >> FRACTION;
    }
#else
    u32 largest = 0;

    __device__ void see(const Vector& x) {
#pragma unroll
        for (int i = 0; i < PER_LOAD; ++i) {
            const u32 high = x.word[(i + 1) * (4 / PER_LOAD) - 1] & 0x7fffffff;
            largest = max(largest, high);
        }
    }
    __device__ int top() const { return largest >> (ELEMENT == BINARY64 ? 20 : 23); }
#endif
};

__device__ inline int largest_of_warp(int v) {
#if __CUDA_ARCH__ >= 800
    return __reduce_max_sync(ALL, v);
#else
    for (int half = 16; half > 0; half /= 2) v = max(v, __shfl_xor_sync(ALL, v, half));
    return v;
#endif
}

__device__ inline i64 sum_of_warp(i64 v) {
    for (int half = 16; half > 0; half /= 2) v += __shfl_xor_sync(ALL, v, half);
    return v;
}

// A warp's sum: high · 2^high_exponent + low · 2^low_exponent, if proved.
struct Share {
    i64 high, low;
    int high_exponent, low_exponent;
    bool proved;
    int top;  // the largest exponent field
};

__device__ inline i64 vector_of(const ExactSum& p, i64 chunk, int step) {
    return (chunk * p.loads + step) * THREADS + threadIdx.x;
}

__device__ constexpr int logarithm(int power) { return power < 2 ? 0 : 1 + logarithm(power / 2); }

// With `window` the numbers must be below 2^window; without (UNKNOWN) the first of them place it.
constexpr int UNKNOWN = 1 << 20;

template <typename Real, int TOGETHER, typename Read>
__device__ inline Share add_share(const ExactSum& p, i64 chunk, int window, const Read& read) {
    typedef Arithmetic<Real> A;
    // Two accumulators of each kind, emptied after TERMS numbers.
    constexpr bool NARROW = A::PRECISION == 24;
    constexpr int LOADS = NARROW ? 1 : TOGETHER;
    constexpr int TERMS = LOADS * PER_LOAD / 2;
    constexpr int ROOM = A::ROOM;
    constexpr int HEADROOM = ELEMENT == BINARY16 ? 0 : NARROW ? 3 : 8;

    Range range;
    Real high_anchor, low_anchor;
    i64 high = 0, low = 0;
    Real leftover = 0;
    int high_exponent = 0, low_exponent = 0;
    int escaped = 0;

#pragma unroll 1
    for (int step = 0; step < p.loads; step += TOGETHER) {
        Vector x[TOGETHER];
#pragma unroll
        for (int i = 0; i < TOGETHER; ++i) x[i] = read(vector_of(p, chunk, step + i));
        if (ELEMENT != BINARY16 || !NARROW) {
#pragma unroll
            for (int i = 0; i < TOGETHER; ++i) range.see(x[i]);
        }
        if (step == 0) {
            if (ELEMENT == BINARY16)
                window = 16;
            else if (window == UNKNOWN)
                window = max(largest_of_warp(range.top()), 1) - BIAS + 1 + HEADROOM;
            window = min(max(window, A::LOWEST_WINDOW), A::HIGHEST_WINDOW);
            high_exponent = window + logarithm(TERMS) - ROOM;
            low_exponent = high_exponent + logarithm(TERMS) - 1 - ROOM;
            high_anchor = A::power_and_half(high_exponent + A::PRECISION - 1);
            low_anchor = A::power_and_half(low_exponent + A::PRECISION - 1);
        }
#pragma unroll
        for (int first = 0; first < TOGETHER; first += LOADS) {
            Real s[2] = {high_anchor, high_anchor}, c[2] = {low_anchor, low_anchor};
#pragma unroll
            for (int i = 0; i < LOADS * PER_LOAD; ++i) {
                const Real value = A::of(x[first + i / PER_LOAD].codes[i % PER_LOAD]);
                const Real next = s[i % 2] + value;
                const Real rest = value - (next - s[i % 2]);
                s[i % 2] = next;
                const Real lower = c[i % 2] + rest;
                if (!NARROW) leftover += fabs(rest - (lower - c[i % 2]));
                c[i % 2] = lower;
            }
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                high += A::bits(s[i]) - A::bits(high_anchor);
                low += A::bits(c[i]) - A::bits(low_anchor);
                if (ELEMENT == BINARY16 && NARROW) escaped |= A::bits(s[i]) ^ A::bits(high_anchor);
            }
        }
    }

    bool proved;
    if (NARROW && ELEMENT == BINARY16) {
        proved = (escaped & 0x7f800000) == 0;  // inf and NaN; all others fit the window
    } else {
        proved = range.top() < min(window + BIAS, FIELDS) && leftover == 0;
#if ELEMENT == BFLOAT16
        // A number's last bit, 2^(field - BIAS - FRACTION), must be in the window.
        if (NARROW) proved = proved && max(range.bottom(), 1) - BIAS - FRACTION >= low_exponent;
#endif
    }
    proved = __all_sync(ALL, proved);
    return {sum_of_warp(high), sum_of_warp(low), high_exponent, low_exponent, proved, largest_of_warp(range.top())};
}

// Number by number, for anything: inf and NaN are counted.
__device__ __noinline__ void add_numbers(const ExactSum& p, i64 chunk, i64* limbs) {
    __shared__ int shared_limbs[WARPS][WORDS];
    int* own = shared_limbs[threadIdx.x / WARP];
    const int lane = threadIdx.x % WARP;
    constexpr int BETWEEN = 64;  // loads after which no limb of 32 bits can have overflowed
    for (int i = lane; i < WORDS; i += WARP) own[i] = 0;
    __syncwarp();
#pragma unroll 1
    for (int step = 0; step < p.loads; ++step) {
        const i64 first = vector_of(p, chunk, step) * PER_LOAD;
#pragma unroll 1
        for (int i = 0; i < PER_LOAD && first + i < p.x.n; ++i) {
            const u64 code = element(p.x, first + i);
            const bool negative = code >> (8 * sizeof(Code) - 1);
            const int field = static_cast<int>(code >> FRACTION) & FIELDS;
            u64 digits = code & ((1ull << FRACTION) - 1);
            if (field == FIELDS) {
                const int which = digits ? NAN_COUNT : negative ? NEGATIVE_INFINITY : POSITIVE_INFINITY;
                atomicAdd(own + LIMBS + which, 1);
                continue;
            }
            if (field) digits |= 1ull << FRACTION;
            const int place = max(field, 1) - BIAS - FRACTION - LOWEST, shift = place % LIMB;
            const u64 parts[2] = {(digits & 0xffffffff) << shift, digits >> 32 << shift};
            for (int half = 0; half < (FRACTION > 31 ? 2 : 1); ++half)
                for (int l = 0; l < 3; ++l) {
                    const int part = static_cast<int>(parts[half] >> (LIMB * l) & 0xffff);
                    if (part) atomicAdd(own + place / LIMB + 2 * half + l, negative ? -part : part);
                }
        }
        if (step % BETWEEN < BETWEEN - 1 && step < p.loads - 1) continue;
        __syncwarp();
        for (int i = lane; i < WORDS; i += WARP) {
            if (own[i]) atomicAdd(reinterpret_cast<u64*>(limbs + i), static_cast<u64>(static_cast<i64>(own[i])));
            own[i] = 0;
        }
        __syncwarp();
    }
}

#if ELEMENT == BINARY16 || ELEMENT == BFLOAT16
typedef float Fast;
#else
typedef double Fast;
#endif

template <typename Read>
__device__ inline void add_chunk(const ExactSum& p, i64 chunk, i64* limbs, const Read& read) {
    // Shifting takes twice the registers.
    constexpr int TOGETHER = LAYOUT == STRIDED ? 1 : LAYOUT == SHIFTED && UNROLL > 1 ? UNROLL / 2 : UNROLL;
    Share share = add_share<Fast, TOGETHER>(p, chunk, UNKNOWN, read);
    if (!share.proved && ELEMENT != BINARY16 && share.top < FIELDS)
        share = add_share<double, 1>(p, chunk, max(share.top, 1) - BIAS + 1, read);
    if (share.proved)
        add_to_limbs(limbs, share.high, share.high_exponent, share.low, share.low_exponent);
    else
        add_numbers(p, chunk, limbs);
}

// magnitude · 2^exponent, the highest bit set, a little more if `sticky`: the code in a format.
__device__ inline u64 rounded(u64 magnitude, int exponent, bool sticky, int fraction, int bias, int fields) {
    const int unbiased = exponent + 63, lowest = 1 - bias;
    const int drop = 63 - fraction + max(0, lowest - unbiased);
    if (drop > 64) return 0;
    const u64 kept = drop < 64 ? magnitude >> drop : 0;
    const u64 rest = drop < 64 ? magnitude << (64 - drop) : magnitude, half = 1ull << 63;
    const u64 up = rest > half || (rest == half && (sticky || (kept & 1)));
    const u64 base = unbiased >= lowest ? static_cast<u64>(unbiased - lowest) << fraction : 0;
    const u64 code = base + kept + up, infinity = static_cast<u64>(fields) << fraction;
    return code < infinity && unbiased <= bias ? code : infinity;
}

// One thread: the number in the limbs, of which `first` to `last` are not zero, rounded to nearest.
// The sum of inf and -inf is NaN.
__device__ inline void store_limbs(i64* limbs, int first, int last, u64 divisor, void* out, Target target) {
    const int fraction = target == TO_BINARY16 ? 10 : target == TO_BFLOAT16 ? 7 : target == TO_BINARY32 ? 23 : 52;
    const int bias = target == TO_BINARY16 ? 15 : target == TO_BINARY64 ? 1023 : 127, fields = 2 * bias + 1;
    const int width = target == TO_BINARY64 ? 64 : target == TO_BINARY32 ? 32 : 16;
    const i64* counts = limbs + LIMBS;
    u64 code, magnitude = 0;
    bool negative = false;
    if (divisor == 0 || counts[NAN_COUNT] || (counts[POSITIVE_INFINITY] && counts[NEGATIVE_INFINITY])) {
        code = (1ull << (width - 1)) - 1;
    } else if (counts[POSITIVE_INFINITY] || counts[NEGATIVE_INFINITY]) {
        code = static_cast<u64>(fields) << fraction;
        negative = counts[NEGATIVE_INFINITY] != 0;
    } else {
        last = min(last + 4, LIMBS - 1);  // where the carry of the highest can get to
        i64 carry = 0;
        for (int i = first; i <= last; ++i) {
            carry += limbs[i];
            limbs[i] = carry & 0xffff;
            carry >>= LIMB;
        }
        negative = carry < 0;
        if (negative) {
            carry = 1;
            for (int i = first; i <= last; ++i) {
                carry += 0xffff - limbs[i];
                limbs[i] = carry & 0xffff;
                carry >>= LIMB;
            }
        }
        bool sticky = false;
        if (divisor > 1) {  // long division; a sum's lowest limb is empty, so it takes in the rounding bit
            u64 rest = 0;
            for (int i = last; i >= 0; --i) {
                rest = rest << LIMB | (i >= first ? limbs[i] : 0);
                limbs[i] = static_cast<i64>(rest / divisor);
                rest %= divisor;
            }
            first = 0;
            sticky = rest != 0;
        }
        while (last >= first && limbs[last] == 0) --last;
        int exponent = 0;
        if (last >= first) {
            for (int i = 0; i < 4; ++i) magnitude = magnitude << LIMB | (last - i >= 0 ? limbs[last - i] : 0);
            const int zeros = __clzll(magnitude);
            const u64 next = last - 4 >= 0 ? limbs[last - 4] : 0;
            if (zeros) magnitude = magnitude << zeros | next >> (LIMB - zeros);
            sticky |= (next & (0xffff >> zeros)) != 0;
            for (int i = first; i < last - 4; ++i) sticky |= limbs[i] != 0;
            exponent = LOWEST + LIMB * (last - 3) - zeros;
        }
        code = magnitude ? rounded(magnitude, exponent, sticky, fraction, bias, fields) : 0;
        if (!magnitude && !sticky) negative = false;  // zero; what is merely too small keeps its sign
    }
    code |= static_cast<u64>(negative) << (width - 1);
    if (width == 64)
        *static_cast<u64*>(out) = code;
    else if (width == 32)
        *static_cast<u32*>(out) = static_cast<u32>(code);
    else
        *static_cast<u16*>(out) = static_cast<u16>(code);
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) exact_sum(const __grid_constant__ ExactSum p) {
    __shared__ i64 total[WORDS];
    __shared__ int first_used, last_used;
    __shared__ bool last;
    i64* own = p.limbs + blockIdx.x % COPIES * WORDS;
    const i64 vectors = p.loads * THREADS;
    for (i64 chunk = blockIdx.x; chunk < p.chunks; chunk += gridDim.x) {
        if ((chunk + 1) * vectors <= whole_vectors(p.x)) {
            add_chunk(p, chunk, own, [&](i64 v) { return whole_vector(p.x, v); });
        } else {
            const End end(p.x);
            add_chunk(p, chunk, own, [&](i64 v) { return vector_or_padding(p.x, end, v); });
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        last = atomicInc(p.arrived, gridDim.x - 1) == gridDim.x - 1;  // and zero for the next launch
        first_used = LIMBS;
        last_used = -1;
        __threadfence();
    }
    __syncthreads();
    if (!last) return;
    for (int i = threadIdx.x; i < WORDS; i += THREADS) {
        i64 sum = 0;
        i64 parts[COPIES];  // all loads before the first store: one after another they took 20 us
#pragma unroll
        for (int copy = 0; copy < COPIES; ++copy)
            parts[copy] = static_cast<i64>(__ldcg(reinterpret_cast<const u64*>(p.limbs + copy * WORDS + i)));
#pragma unroll
        for (int copy = 0; copy < COPIES; ++copy) {
            sum += parts[copy];
            if (parts[copy]) p.limbs[copy * WORDS + i] = 0;
        }
        total[i] = sum;
        if (sum != 0 && i < LIMBS) {
            atomicMin(&first_used, i);
            atomicMax(&last_used, i);
        }
        if (p.state) p.state[i] = sum;
    }
    __syncthreads();
    if (threadIdx.x == 0 && p.out) {
        // Nothing but zeros: an empty range.
        store_limbs(total, min(first_used, LIMBS - 1), max(last_used, 0), p.divisor, p.out,
                    static_cast<Target>(p.target));
    }
}
