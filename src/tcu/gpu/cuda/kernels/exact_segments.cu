// Exact sums of many segments, with LANES lanes to each.
//
// Every lane cuts its numbers at two fixed places below the segment's largest number, and adds up the parts without
// rounding.  exact/values.cuh does the same for whole arrays; here it is done in binary64 only.  What falls out of
// both parts is noticed: then a warp does the segment again, number by number, in limbs.  Segments of more than MOST
// numbers go to a second launch (long_exact_segments.cu). All of it is exact, so the order does not matter.  A
// segment that is invalid (it ends before it begins, or outside the array) gives NaN.
//
// Compiled with ELEMENT (load/array.cuh; LAYOUT SHIFTED), and
//   LANES      1 to 32, a power of two
//   THREADS, RESIDENT   of a block, and blocks per multiprocessor that the registers must allow
//   UNROLL     1
//   TERM       VALUE

#include "device/exact/parts.cuh"
#include "device/ragged/work_queue.cuh"
#include "device/load/unaligned.cuh"

using namespace tcu;

// VECTORS: 16-byte vectors of a lane, at most.
#include "generated/exact_segments/LANE.inc"
constexpr int MOST = LANES * VECTORS * PER_LOAD;
constexpr int TERMS = VECTORS * PER_LOAD / 2;  // numbers of each of two accumulators
constexpr int READ = 24 / sizeof(Code);        // elements that an unaligned load reads

#include "generated/exact_segments/ExactSegments.inc"

typedef exact::Arithmetic<double> ExactArithmetic;

enum Seen { A_NAN = 1, AN_INFINITY = 2, A_NEGATIVE_INFINITY = 4 };

__device__ inline u32 seen_in(const Vector& x) {
    u32 seen = 0;
#pragma unroll
    for (int i = 0; i < PER_LOAD; ++i) {
        const u64 code = x.codes[i], rest = code & ((1ull << exact::FRACTION) - 1);
        if ((static_cast<int>(code >> exact::FRACTION) & exact::FIELDS) == exact::FIELDS)
            seen |= rest ? A_NAN : code >> (8 * sizeof(Code) - 1) ? A_NEGATIVE_INFINITY : AN_INFINITY;
    }
    return seen;
}

// Merges the numbers of all lanes of a segment.  Every lane has the result.
template <typename Number, typename Merge>
__device__ inline Number over_lanes(Number v, const Merge& merge) {
#pragma unroll
    for (int half = LANES / 2; half > 0; half /= 2) v = merge(v, __shfl_xor_sync(ALL, v, half));
    return v;
}

// Stores the sum of a segment with NaN or inf, which need not be added up.
__device__ inline void store_special(u32 seen, void* out, finish::Target target) {
    const bool nan = seen & A_NAN || (seen & AN_INFINITY && seen & A_NEGATIVE_INFINITY);
    const double infinity = __longlong_as_double(0x7ff0000000000000);
    finish::store_rounded(out, nan ? infinity - infinity : seen & AN_INFINITY ? infinity : -infinity, target);
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) exact_segments(const __grid_constant__ ExactSegments p) {
    __shared__ i64 all_limbs[exact::WARPS][exact::WORDS];
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, mine = lane % LANES;
    const finish::Target target = static_cast<finish::Target>(p.target);
    const i64 segment = (static_cast<i64>(blockIdx.x) * exact::WARPS + warp) * (WARP / LANES) + lane / LANES;
    const bool is_there = segment < p.segments;
    i64 begin = 0, end = 0;
    if (is_there) begin = p.offsets[segment], end = p.offsets[segment + 1];
    const bool is_one = begin >= 0 && begin <= end && end <= p.n;
    const bool is_long = is_one && end - begin > MOST, is_short = is_there && is_one && !is_long;
    const int length = is_short ? static_cast<int>(end - begin) : 0, vectors = (length + PER_LOAD - 1) / PER_LOAD;
    const Code* const from = static_cast<const Code*>(p.data) + (is_one ? begin : 0);
    const u64 address = reinterpret_cast<u64>(from);
    const char* const base = reinterpret_cast<const char*>(address & ~15ull);
    const auto read = [&](int v) {
        const u32 at = static_cast<u32>(address % 16) + v * 16;
        const int left = length - v * PER_LOAD;
        return begin + v * PER_LOAD + READ <= p.n ? load::aligned(load::fetch(base, at, left)) : load::one_by_one(base,
                                                                                                                  at, left);
    };

    exact::Range range;
#if ELEMENT != BINARY16
    for (int v = mine; v < vectors; v += LANES) range.see(read(v));
    const int top = over_lanes(range.top(), [](int a, int b) { return max(a, b); });
    // HIGHEST_WINDOW leaves room for the anchor of a few terms; here there are TERMS of them.
    const int window =
        min(max(max(top, 1) - exact::BIAS + 1, ExactArithmetic::LOWEST_WINDOW),
            ExactArithmetic::HIGHEST_WINDOW - exact::logarithm(TERMS));
    const int high_exponent = window + exact::logarithm(TERMS) - ExactArithmetic::ROOM;
#else
    const int high_exponent = -exact::BIAS + 1 - exact::FRACTION;  // all numbers are multiples of 2 to this power
#endif
    const int low_exponent = high_exponent + exact::logarithm(TERMS) - 1 - ExactArithmetic::ROOM;
    const double high_anchor = ExactArithmetic::power_and_half(high_exponent + ExactArithmetic::PRECISION - 1);
    double s[2] = {high_anchor, high_anchor};
#if ELEMENT != BINARY16
    const double low_anchor = ExactArithmetic::power_and_half(low_exponent + ExactArithmetic::PRECISION - 1);
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
    i64 low = ExactArithmetic::bits(c[0]) + ExactArithmetic::bits(c[1]) - 2 * ExactArithmetic::bits(low_anchor);
    bool proved = top < min(window + exact::BIAS, exact::FIELDS) && leftover == 0;
    proved = over_lanes(static_cast<int>(proved), [](int a, int b) { return a & b; });
#endif
    i64 high = ExactArithmetic::bits(s[0]) + ExactArithmetic::bits(s[1]) - 2 * ExactArithmetic::bits(high_anchor);
    const auto plus = [](i64 a, i64 b) { return a + b; };
    high = over_lanes(high, plus);
    low = over_lanes(low, plus);

    void* const out = finish::place(p.out, segment, target);
    const bool special = top == exact::FIELDS;
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
            exact::store_parts(high, low, high_exponent - low_exponent, low_exponent, p.mean ? length : 1, out, target);
    }

    u32 rest = __ballot_sync(ALL, mine == 0 && is_short && !special && !proved);
    for (; rest; rest &= rest - 1) {
        const int who = __ffs(rest) - 1;
        const int count = __shfl_sync(ALL, length, who);
        const Code* const codes = reinterpret_cast<const Code*>(__shfl_sync(ALL, address, who));
        i64* const limbs = all_limbs[warp];
        exact::sum_in_limbs(codes, count, 1, limbs);
        if (lane == who) exact::store_all_limbs(limbs, p.mean ? count : 1, out, target);
        __syncwarp();
    }
    for (rest = __ballot_sync(ALL, mine == 0 && is_there && is_long); rest; rest &= rest - 1) {
        const int who = __ffs(rest) - 1;
        const i64 count = __shfl_sync(ALL, end - begin, who), chunks = exact::exact_chunks_of(count);
        const u32 place = ragged::append(p.queue, __shfl_sync(ALL, segment, who), __shfl_sync(ALL, begin, who), count,
                                         chunks);
        if (place == ragged::NO_ROOM) {
            if (lane == who) store_special(A_NAN, out, target);
        } else if (chunks > 1)
            for (int i = lane; i < exact::WORDS; i += WARP) p.limbs[static_cast<i64>(place) * exact::WORDS + i] = 0;
    }
}
