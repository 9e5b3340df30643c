// Exact sums of many segments, or of the rows of an array: LANES lanes to each.
//
// Every lane cuts its numbers at two fixed places below the segment's largest and adds up the parts without
// rounding, as values.cuh does for whole arrays, here in binary64 alone; what falls out of both is noticed.
// Then a warp does the segment again, number by number, in limbs.  Segments of more than MOST numbers go to a
// second launch (long_exact_segments.cu).  All of it is exact, so the order does not matter.  A segment that is
// none (it ends before it begins, or elsewhere than in the array) gives NaN.
//
// Compiled with ELEMENT (array.cuh; LAYOUT SHIFTED), and
//   LANES      1 to 32, a power of two
//   THREADS, RESIDENT   of a block, and blocks per multiprocessor that the registers must allow
//   UNROLL     1
//   TERM       VALUE
//
// The host fills the structure field by field (tcu/gpu/exact_segments.py): change both together.

#include "anywhere.cuh"
#include "exact_chunks.cuh"
#include "items.cuh"
#include "rounding.cuh"
#include "values.cuh"

constexpr int VECTORS = 64;  // of a lane
constexpr int MOST = LANES * VECTORS * PER_LOAD;
constexpr int TERMS = VECTORS * PER_LOAD / 2;  // of each of two accumulators
constexpr int READ = 24 / sizeof(Code);        // elements that are read from one on

struct ExactSegments {
    const void* data;
    i64 n;
    const i64* offsets;  // null: rows
    i64 stride;            // of rows, in elements
    i64 length;            // of every row
    i64 segments;
    void* out;
    i64 target;
    i64 mean;    // whether the sums are divided by the lengths
    i64* limbs;  // WORDS for each segment of several chunks
    List list;
};

typedef Arithmetic<double> Wide;

enum Seen { A_NAN = 1, AN_INFINITY = 2, A_NEGATIVE_INFINITY = 4 };

__device__ inline u32 seen_in(const Vector& x) {
    u32 seen = 0;
#pragma unroll
    for (int i = 0; i < PER_LOAD; ++i) {
        const u64 code = x.codes[i], rest = code & ((1ull << FRACTION) - 1);
        if ((static_cast<int>(code >> FRACTION) & FIELDS) == FIELDS)
            seen |= rest ? A_NAN : code >> (8 * sizeof(Code) - 1) ? A_NEGATIVE_INFINITY : AN_INFINITY;
    }
    return seen;
}

// Over the lanes of a segment, in all of them.
template <typename Number, typename Merge>
__device__ inline Number over_lanes(Number v, const Merge& merge) {
#pragma unroll
    for (int half = LANES / 2; half > 0; half /= 2) v = merge(v, __shfl_xor_sync(ALL, v, half));
    return v;
}

// high · 2^exponent · 2^shift + low · 2^exponent, divided and rounded once.
__device__ inline void store_parts(i64 high, i64 low, int shift, int exponent, u32 divisor, void* out, Target target) {
    u64 lower = static_cast<u64>(high) << shift;
    i64 upper = high >> (64 - shift);
    lower += static_cast<u64>(low);
    upper += (low >> 63) + (lower < static_cast<u64>(low));
    const bool negative = upper < 0;
    if (negative) {
        lower = ~lower + 1;
        upper = ~upper + (lower == 0);
    }
    u64 magnitude[2] = {static_cast<u64>(upper), lower};
    bool sticky = false;
    const auto normalize = [&] {
        if (magnitude[0] == 0) magnitude[0] = magnitude[1], magnitude[1] = 0, exponent -= 64;
        const int zeros = __clzll(magnitude[0]);
        if (zeros) magnitude[0] = magnitude[0] << zeros | magnitude[1] >> (64 - zeros), magnitude[1] <<= zeros;
        exponent -= zeros;
    };
    u64 code = 0;
    if (magnitude[0] | magnitude[1]) {
        normalize();
        if (divisor > 1) {  // long division by digits of 32 bits; 128 bits give at least 96
            u64 rest = 0;
            for (int i = 0; i < 2; ++i) {
                const u64 first = rest << 32 | magnitude[i] >> 32, upper_digit = first / divisor;
                const u64 second = (first % divisor) << 32 | (magnitude[i] & 0xffffffff);
                magnitude[i] = upper_digit << 32 | second / divisor;
                rest = second % divisor;
            }
            sticky = rest != 0;
            normalize();
        }
        const int fraction = target == TO_BINARY16 ? 10 : target == TO_BFLOAT16 ? 7 : target == TO_BINARY32 ? 23 : 52;
        const int bias = target == TO_BINARY16 ? 15 : target == TO_BINARY64 ? 1023 : 127;
        code = rounded(magnitude[0], exponent + 64, sticky || magnitude[1], fraction, bias, 2 * bias + 1);
    }
    store_code(code, negative, out, target);
}

// What nobody needs to add up: NaN and inf.
__device__ inline void store_special(u32 seen, void* out, Target target) {
    const bool nan = seen & A_NAN || (seen & AN_INFINITY && seen & A_NEGATIVE_INFINITY);
    const double infinity = __longlong_as_double(0x7ff0000000000000);
    store_rounded(out, nan ? infinity - infinity : seen & AN_INFINITY ? infinity : -infinity, target);
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) exact_segments(const __grid_constant__ ExactSegments p) {
    __shared__ i64 all_limbs[WARPS][WORDS];
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, mine = lane % LANES;
    const Target target = static_cast<Target>(p.target);
    const i64 segment = (static_cast<i64>(blockIdx.x) * WARPS + warp) * (WARP / LANES) + lane / LANES;
    const bool is_there = segment < p.segments;
    i64 begin = 0, end = 0;
    if (is_there && p.offsets) begin = p.offsets[segment], end = p.offsets[segment + 1];
    if (is_there && !p.offsets) begin = segment * p.stride, end = begin + p.length;
    const bool is_one = begin >= 0 && begin <= end && end <= p.n;
    const bool is_long = is_one && end - begin > MOST, is_short = is_there && is_one && !is_long;
    const int length = is_short ? static_cast<int>(end - begin) : 0, vectors = (length + PER_LOAD - 1) / PER_LOAD;
    const Code* const from = static_cast<const Code*>(p.data) + (is_one ? begin : 0);
    const u64 address = reinterpret_cast<u64>(from);
    const char* const base = reinterpret_cast<const char*>(address & ~15ull);
    const auto read = [&](int v) {
        const u32 at = static_cast<u32>(address % 16) + v * 16;
        const int left = length - v * PER_LOAD;
        return begin + v * PER_LOAD + READ <= p.n ? aligned(fetch(base, at, left)) : one_by_one(base, at, left);
    };

    Range range;
#if ELEMENT != BINARY16
    for (int v = mine; v < vectors; v += LANES) range.see(read(v));
    const int top = over_lanes(range.top(), [](int a, int b) { return max(a, b); });
    // HIGHEST_WINDOW leaves room for an anchor of a few terms.
    const int window =
        min(max(max(top, 1) - BIAS + 1, Wide::LOWEST_WINDOW), Wide::HIGHEST_WINDOW - logarithm(TERMS));
    const int high_exponent = window + logarithm(TERMS) - Wide::ROOM;
#else
    const int high_exponent = -BIAS + 1 - FRACTION;  // of which all numbers are multiples
#endif
    const int low_exponent = high_exponent + logarithm(TERMS) - 1 - Wide::ROOM;
    const double high_anchor = Wide::power_and_half(high_exponent + Wide::PRECISION - 1);
    double s[2] = {high_anchor, high_anchor};
#if ELEMENT != BINARY16
    const double low_anchor = Wide::power_and_half(low_exponent + Wide::PRECISION - 1);
    double c[2] = {low_anchor, low_anchor}, leftover = 0;
#endif
    for (int v = mine; v < vectors; v += LANES) {
        const Vector x = read(v);
#if ELEMENT == BINARY16
        range.see(x);
#endif
#pragma unroll
        for (int i = 0; i < PER_LOAD; ++i) {
            const double value = to_binary64(x.codes[i]), next = s[i % 2] + value;
#if ELEMENT != BINARY16
            const double rest = value - (next - s[i % 2]), lower = c[i % 2] + rest;
            leftover += fabs(rest - (lower - c[i % 2]));
            c[i % 2] = lower;
#endif
            s[i % 2] = next;
        }
    }
#if ELEMENT == BINARY16
    const int top = over_lanes(range.top(), [](int a, int b) { return max(a, b); });
    i64 low = 0;
    bool proved = true;
#else
    i64 low = Wide::bits(c[0]) + Wide::bits(c[1]) - 2 * Wide::bits(low_anchor);
    bool proved = top < min(window + BIAS, FIELDS) && leftover == 0;
    proved = over_lanes(static_cast<int>(proved), [](int a, int b) { return a & b; });
#endif
    i64 high = Wide::bits(s[0]) + Wide::bits(s[1]) - 2 * Wide::bits(high_anchor);
    const auto plus = [](i64 a, i64 b) { return a + b; };
    high = over_lanes(high, plus);
    low = over_lanes(low, plus);

    void* const out = place(p.out, segment, target);
    const bool special = top == FIELDS;
    u32 seen = 0;
    if (special)
        for (int v = mine; v < vectors; v += LANES) seen |= seen_in(read(v));
    seen = over_lanes(seen, [](u32 a, u32 b) { return a | b; });
    if (is_there && mine == 0) {
        if (!is_one || (p.mean && length == 0 && !is_long))
            store_special(A_NAN, out, target);
        else if (is_short && special)
            store_special(seen, out, target);
        else if (is_short && proved)
            store_parts(high, low, high_exponent - low_exponent, low_exponent, p.mean ? length : 1, out, target);
    }

    u32 rest = __ballot_sync(ALL, mine == 0 && is_short && !special && !proved);
    for (; rest; rest &= rest - 1) {
        const int who = __ffs(rest) - 1;
        const int count = __shfl_sync(ALL, length, who);
        const Code* const codes = reinterpret_cast<const Code*>(__shfl_sync(ALL, address, who));
        i64* const limbs = all_limbs[warp];
        for (int i = lane; i < WORDS; i += WARP) limbs[i] = 0;
        __syncwarp();
        for (int i = lane; i < count; i += WARP) add_code(codes[i], limbs);
        __syncwarp();
        if (lane == who) store_all_limbs(limbs, p.mean ? count : 1, out, target);
        __syncwarp();
    }
    for (rest = __ballot_sync(ALL, mine == 0 && is_there && is_long); rest; rest &= rest - 1) {
        const int who = __ffs(rest) - 1;
        const i64 count = __shfl_sync(ALL, end - begin, who), chunks = exact_chunks_of(count);
        const u32 place = append(p.list, __shfl_sync(ALL, segment, who), __shfl_sync(ALL, begin, who), count, chunks);
        if (place == NO_ROOM) {
            if (lane == who) store_special(A_NAN, out, target);
        } else if (chunks > 1)
            for (int i = lane; i < WORDS; i += WARP) p.limbs[static_cast<i64>(place) * WORDS + i] = 0;
    }
}
