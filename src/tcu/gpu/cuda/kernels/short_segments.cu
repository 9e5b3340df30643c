// Sums of short ragged segments of up to 32 bits a number. They have the bits of segments.cu, without MMAs, wherever an MMA would
// cut nothing off.  Those of bfloat16 and binary32 have the bits of binary64 additions, which are exact there, too.
//
// An MMA adds the numbers of a set exactly, after it has cut them at FRACTION_BITS below the largest exponent, and
// rounds once.  Let E be the largest exponent in a stretch of numbers.  If all of them are multiples of the unit 2^(E
// - FRACTION_BITS), nothing is cut, and the sum of a set is a difference of two exact running sums, rounded.  The
// running sums are integers modulo 2^32 in that unit.  All numbers of binary16 are multiples of 2^-24, so this holds
// for all numbers below 2^(FRACTION_BITS - 23) in magnitude.  Of bfloat16, numbers are taken for multiples of the unit if
// their exponents are not below E + 7 - FRACTION_BITS.
//
// The numbers i of a 64-byte chunk, counted from its first, form two sets: i mod 4 in {0, 1}, and i mod 4 in {2, 3}.
// Let Q[i] be the running sum of the numbers i, i - 4, i - 8, ... What a ring in shared memory keeps is U[i] = Q[i] +
// Q[i-1]. A chunk [s, e) needs five of these sums.  Before s, the running sums of its sets end at U[s-3] and U[s-1].
// Before e, they end at two of U[e-1], U[e-2], U[e-3] and the sum of all four classes, U[e-1] + U[e-3], less U[e-2].
//
// Of binary32 the ring keeps, for each number, the sum U[i] of all before it, an integer modulo 2^64.  A segment [s, e) is
// U[e] - U[s], and FRACTION_BITS are so few that no order of additions in binary64 rounds it.
//
// A warp goes through its run with one segment in each lane.  It goes through the run's numbers, which follow each
// other, in windows of WARP · PER_LANE, whenever the ring ends before the segments do.  Binary64 adds the chunks'
// sums without an error, so their order does not matter.  A group of segments with larger numbers begins again with a
// larger unit.  Groups with inf, NaN or numbers that are no multiples of the unit, and groups longer than the ring,
// are left to the MMAs (ragged/group_sums.cuh).
//
// Compiled with ELEMENT BINARY16, BFLOAT16 or BINARY32 and what ragged/segment_sums.cuh needs, for GPUs whose MMA adds 16 numbers at once,
// and
//   RESIDENT       blocks per multiprocessor that the registers must allow
//   MMAS           1, of binary16: with the bits of the plan of MMAs; 0: with those of binary64 additions, which are exact, too
//   FRACTION_BITS  that the MMA keeps below the largest exponent, or that sums may have there
//   PER_LANE       numbers of a lane in a window: 8, 16, or 32
//   RING           numbers whose running sums are kept: a power of two

#include "device/exact/range.cuh"
#include "device/load/async_copy.cuh"
#include "device/load/bulk_copy.cuh"
#include "device/ragged/segment_sums.cuh"
#include "device/types/lanes.cuh"

using namespace tcu;

constexpr int WINDOW = WARP * PER_LANE;
constexpr int VECTORS = PER_LANE / PER_LOAD;
constexpr u32 SPAN = RING - WINDOW - 4;  // numbers of a group of segments whose running sums have room in the ring together
// The element's fraction bits, exponent bias, and the code of its infinity; the exponent of the finest unit; and a first
// guess of the largest exponent.
#if ELEMENT == BINARY16
constexpr int FRACTION = 10, BIAS = 15, FINEST_UNIT = -24, USUAL = FINEST_UNIT + FRACTION_BITS;
constexpr u32 INFINITE = 0x7c00;
#elif ELEMENT == BINARY32
constexpr int FRACTION = 23, BIAS = 127, FINEST_UNIT = -149, USUAL = 2;
constexpr u32 INFINITE = 0x7f800000;
#else
// With a finer unit, a sum in binary32 could be rounded twice.
constexpr int FRACTION = 7, BIAS = 127, FINEST_UNIT = -126, USUAL = 1;
constexpr u32 INFINITE = 0x7f80;
#endif
constexpr u32 NOWHERE = 1u << 31;

// In the ring, each block of BLOCK sums is preceded by a second copy of the four sums before it.  So the vectors of
// neighbouring lanes lie in different banks, and all sums that a chunk needs at its end lie together.  Of binary32, room for
// two sums lies behind each block, for the former reason alone.
#define WIDE_NUMBERS (ELEMENT == BINARY32)
constexpr bool WIDE = WIDE_NUMBERS;
constexpr int BLOCK = WIDE ? PER_LANE : 32, PAD = WIDE ? 2 : 4, SUM_BYTES = WIDE ? 8 : 4;
constexpr u32 RING_BYTES = RING / BLOCK * (BLOCK + PAD) * SUM_BYTES, WINDOW_BYTES = WINDOW / BLOCK * (BLOCK + PAD) * SUM_BYTES;

static_assert(ELEMENT == BINARY16 || !MMAS, "others' sums by MMAs have no kernel here");
static_assert(WIDE || FRACTION_BITS + (MMAS ? 6 : 7) <= 32, "the sum of 16 numbers, or of 32, with its sign, is a number of 32 bits");
static_assert(!WIDE || SPAN <= 1ull << (WIDE ? 52 - FRACTION_BITS : 0), "no order rounds a segment's sum");
static_assert((RING & (RING - 1)) == 0 && RING > WINDOW + ragged::CHUNK64, "the ring has room for a chunk64 and a window");

// Turns whose offsets are under way or in use at once: as many as have room.  Offsets and numbers go to shared memory
// without passing registers: if a register is loaded a turn ahead, the compiler waits for it long before it is used.
constexpr u32 TURN_BYTES = WARP * sizeof(i64), OTHER_BYTES = RING_BYTES + WARP * PER_LANE * sizeof(Code) + 128;
constexpr u32 TURNS = RESIDENT * (OTHER_BYTES + 4 * TURN_BYTES + 1024) <= 228 * 1024 ? 4 : 2;  // the shared memory of sm_90

struct ShortSegmentsMemory {
    union {
        ragged::GroupMemory shared;
        uint4 ring[RING_BYTES / 16];
    };
    ragged::SegmentRun run;
    // A lane alone writes and reads its part of these.
    i64 ends[TURNS * WARP];
    uint4 ahead[WARP * VECTORS];  // numbers of the next window
    u64 arrivals;                 // a barrier for the arrival of numbers: a phase for each window
};

// Shared memory is accessed by addresses of 32 bits: the compiler would recompute those of 64 bits each time.
__device__ inline i64 load_long(u32 at) {
    i64 v;
    asm volatile("ld.shared.s64 %0, [%1];" : "=l"(v) : "r"(at) : "memory");
    return v;
}

__device__ inline void fetch_end(u32 to, const i64* from) {
    load::copy_bytes<8>(to, from);
    load::end_copies();
}

// A phase of the barrier ends when all vectors that the lanes have asked for have arrived.
__device__ inline void arrive_with_vectors(u32 arrivals) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(arrivals) : "memory");
}

__device__ inline void begin_arrivals(u32 arrivals) {
    if (threadIdx.x % WARP == 0) asm volatile("mbarrier.init.shared.b64 [%0], 32;" ::"r"(arrivals) : "memory");
    __syncwarp();
    asm volatile("{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }" ::"r"(arrivals) : "memory");
}

__device__ inline void wait_for_arrivals(u32 arrivals, u32 phase) {
    asm volatile("{ .reg .pred p; again_%=: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @!p bra again_%=; }"
                 ::"r"(arrivals), "r"(phase) : "memory");
}

__device__ inline void store_result(u64 at, float v) { asm volatile("st.global.f32 [%0], %1;" ::"l"(at), "f"(v) : "memory"); }

__device__ inline void store_vector(u32 at, uint4 v) {
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w));
}

#if ELEMENT == BINARY16

// What is left of each number of a pair after its largest multiple of 2^-FRACTION · `whole`: +0 if nothing.  `whole`
// holds a power of two in both halves.
__device__ inline u32 leftover(u32 pair, u32 whole) {
    u32 rest;
    asm("{ .reg .b32 x, s; abs.f16x2 x, %1; min.f16x2 x, x, %2; add.rn.f16x2 s, x, %2; sub.rn.f16x2 s, s, %2;\n"
        "sub.rn.f16x2 %0, x, s; }"
        : "=r"(rest)
        : "r"(pair), "r"(whole));
    return rest;
}

#endif

__device__ inline u32 reduce_max(u32 v) { return __reduce_max_sync(ALL, v); }

__device__ inline uint4 two_sums(i64 a, i64 b) {
    return make_uint4(static_cast<u32>(a), static_cast<u32>(a >> 32), static_cast<u32>(b), static_cast<u32>(b >> 32));
}

__device__ inline u32 in_both_halves(u32 code) { return code * 0x10001; }

// The unit that numbers must be multiples of, given by the largest exponent that they may have.
struct SumUnit {
    static constexpr int FINEST = FINEST_UNIT + FRACTION_BITS;  // with this exponent, nothing is cut off of any number of binary16
    int exponent = USUAL;

    // A code above those of all allowed magnitudes.
    __device__ u32 limit() const { return (exponent + 1 + BIAS) << FRACTION; }
    __device__ u32 whole() const { return in_both_halves((exponent - FRACTION_BITS + FRACTION + BIAS) << FRACTION); }
    // Whether numbers may have these exponent fields.
    __device__ bool allows(int top, int bottom) const {
        return top <= exponent + BIAS && bottom >= exponent + BIAS + FRACTION - FRACTION_BITS;
    }
    __device__ float value() const { return __uint_as_float((exponent - FRACTION_BITS + 127) << 23); }
    __device__ double wide_value() const {
        return __longlong_as_double(static_cast<i64>(exponent - FRACTION_BITS + 1023) << 52);
    }
    // A multiple of 2^32 units.  Near it, neighbouring numbers of binary64 are one unit apart.
    __device__ double anchor() const {
        return __longlong_as_double(static_cast<i64>(2 * (exponent - FRACTION_BITS + 52 + 1023) + 1) << 51);
    }
};

// The value of this lane itself, which the compiler must not recompute either.
__device__ inline u32 of_lane(u32 v) { return __shfl_sync(ALL, v, threadIdx.x % WARP); }

// The sums of a run, whose bytes 32 bits can count.  Positions count numbers, from a multiple of 16 bytes on.
__device__ inline void sum_run(const ragged::Segments& p, ShortSegmentsMemory& room, u32& phase) {
    const ragged::SegmentRun& run = room.run;
    const u32 lane = threadIdx.x % WARP;
    const u64 address = reinterpret_cast<u64>(static_cast<const Code*>(p.data) + run.begin);
    const u32 shift = static_cast<u32>(address % 16 / sizeof(Code)), stop = warp::uniform(shift + run.size);
    const uint4* const base = reinterpret_cast<const uint4*>(address & ~15ull);
    const i64 origin = warp::uniform(run.begin - shift);
    const bool plain = p.target == finish::TO_BINARY32 && !p.mean;
    // A segment of so many numbers needs sums of several chunks.
    [[maybe_unused]] const u32 few = warp::uniform(plain ? ragged::CHUNK64 + 1u : 0u);
    // A group of so many numbers goes to the MMAs; of an empty run, no window is loaded.
    const u32 many = warp::uniform(run.size ? SPAN + 1 : 0u);
    const u32 count = warp::uniform(run.count);
    const i64* const ends = reinterpret_cast<const i64*>(warp::uniform(reinterpret_cast<u64>(p.offsets + run.first + 1)));
    const u64 out = warp::uniform(reinterpret_cast<u64>(p.out) + run.first * sizeof(float));
    const u32 ring = warp::uniform(load::shared_address(&room)), ring_end = warp::uniform(ring + RING_BYTES);
    const u32 place_of_lane = of_lane((lane * PER_LANE + lane * PER_LANE / BLOCK * PAD + (WIDE ? 0 : PAD)) * SUM_BYTES);

    SumUnit unit;
    double anchor = unit.anchor();
    [[maybe_unused]] u32 above = in_both_halves(0x8000 - unit.limit());  // a magnitude plus this has its highest bit set if it is too large
    // The end of the sums, a multiple of WINDOW, and its place in the ring; 0: the ring begins again.
    u32 filled = 0, slot = 0;
    const u32 vector_of_lane = of_lane(lane * VECTORS), last_vector = warp::uniform((stop - 1) / PER_LOAD);
    const u32 ahead_of_lane = of_lane(load::shared_address(room.ahead) + vector_of_lane * 16);
    const u32 arrivals = warp::uniform(load::shared_address(&room.arrivals));

    // There is always a window under way or arrived: a phase to wait for.
    const auto wait = [&] {
        wait_for_arrivals(arrivals, phase);
        phase ^= 1;
    };
    // Beyond the last vector of the run, that vector is loaded again: what follows the last segment's end does not
    // matter.
    const auto load = [&] {
#pragma unroll
        for (int i = 0; i < VECTORS; ++i)
            load::copy_bytes<16>(ahead_of_lane + i * 16, base + min(filled / PER_LOAD + vector_of_lane + i, last_vector));
        arrive_with_vectors(arrivals);
    };
    const auto begin_at = [&](u32 position) {
        asm volatile("" : "+r"(position));  // so that nothing of this is computed where no run begins again
        filled = position / WINDOW * WINDOW;
        slot = ring + filled % RING / WINDOW * WINDOW_BYTES;
        __syncwarp();
        if (lane == 0) store_vector(slot, make_uint4(0, 0, 0, 0));
        __syncwarp();
        wait();
        load();
    };
    // Puts the running sums of the next window into the ring.  If some lane's numbers cannot be added in this way,
    // returns false and sets `most` to the lane's largest magnitudes.
    const auto fill = [&](u32& most) {
        wait();
        Vector ahead[VECTORS];
#pragma unroll
        for (int i = 0; i < VECTORS; ++i) ahead[i].words = load::load_vector(ahead_of_lane + i * 16);
        filled += WINDOW;
        load();
#if ELEMENT == BINARY16
        Lanes mosts[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            mosts[i] = {ahead[0].word[i]};
#pragma unroll
            for (int j = 1; j < VECTORS; ++j) mosts[i] = larger(mosts[i], Lanes{ahead[j].word[i]});
        }
        most = larger(larger(mosts[0], mosts[1]), larger(mosts[2], mosts[3])).codes;
        u32 wrong = most + above & 0x80008000;
        if (__any_sync(ALL, unit.exponent != SumUnit::FINEST)) {
            const u32 whole = unit.whole();
#pragma unroll
            for (int i = 0; i < 4 * VECTORS; ++i) wrong |= leftover(ahead[i / 4].word[i % 4], whole);
        }
#elif WIDE_NUMBERS
        u32 least = ALL;  // of magnitudes less one, so that zero stands apart
        most = 0;
#pragma unroll
        for (int i = 0; i < PER_LANE; ++i) {
            const u32 magnitude = ahead[i / PER_LOAD].codes[i % PER_LOAD] & 0x7fffffff;
            most = max(most, magnitude);
            least = min(least, magnitude - 1);
        }
        const u32 wrong = !unit.allows(most >> FRACTION, least == ALL ? INFINITE >> FRACTION : least + 1 >> FRACTION);
#else
        exact::Range seen;
#pragma unroll
        for (int j = 0; j < VECTORS; ++j) seen.see(ahead[j]);
        most = static_cast<u32>(seen.top()) << FRACTION;
        const u32 wrong = !unit.allows(seen.top(), seen.bottom());
#endif
        if (__any_sync(ALL, wrong != 0)) return false;

#if WIDE_NUMBERS
        double sums[PER_LANE], sum = anchor;  // what comes before each of the lane's own numbers
#pragma unroll
        for (int i = 0; i < PER_LANE; ++i) {
            sums[i] = sum;
            sum += to_binary64(ahead[i / PER_LOAD].codes[i % PER_LOAD]);
        }
        const i64 own = __double_as_longlong(sum) - __double_as_longlong(anchor), before = load_long(slot);
        i64 behind = own;
#pragma unroll
        for (int step = 1; step < WARP; step *= 2) {
            const i64 other = __shfl_up_sync(ALL, behind, step);
            if (lane >= static_cast<u32>(step)) behind += other;
        }
        behind += before;
        const i64 more = behind - own - __double_as_longlong(anchor);
        const u32 place = slot + place_of_lane;
        slot += WINDOW_BYTES;
        if (slot == ring_end) slot = ring;
        __syncwarp();
#pragma unroll
        for (int i = 0; i < PER_LANE; i += 2)
            store_vector(place + i * SUM_BYTES, two_sums(__double_as_longlong(sums[i]) + more, __double_as_longlong(sums[i + 1]) + more));
        // A segment may end with the window.  What it overwrites besides lies before all that is needed.
        if (lane == WARP - 1) store_vector(slot, two_sums(behind, behind));
#else
        u32 sums[PER_LANE];  // running sums of the lane's own numbers
        double q[4] = {anchor, anchor, anchor, anchor};
#pragma unroll
        for (int i = 0; i < PER_LANE; ++i) {
            q[i % 4] += to_binary64(ahead[i / PER_LOAD].codes[i % PER_LOAD]);
            sums[i] = static_cast<u32>(__double_as_longlong(q[i % 4]));
        }
        const uint4 before = load::load_vector(slot);
        const u32 place = slot + place_of_lane;
        slot += WINDOW_BYTES;
        if (slot == ring_end) slot = ring;
#pragma unroll
        for (int i = PER_LANE - 1; i > 0; --i) sums[i] += sums[i - 1];
        // The sums of all numbers before the lane's, for the four classes i mod 4. The first and the third together
        // are as much as the other two.
        const u32 own[3] = {sums[PER_LANE - 3], sums[PER_LANE - 2], sums[PER_LANE - 1]};
        u32 more[4];
        more[1] = warp::inclusive_scan(own[0]) - own[0] + before.y;
        more[2] = warp::inclusive_scan(own[1]) - own[1] + before.z;
        more[3] = warp::inclusive_scan(own[2]) - own[2] + before.w;
        more[0] = more[1] + more[3] - more[2];
        __syncwarp();
        uint4 four;
#pragma unroll
        for (int i = 0; i < PER_LANE; i += 4) {
            four = make_uint4(sums[i] + more[0], sums[i + 1] + more[1], sums[i + 2] + more[2], sums[i + 3] + more[3]);
            store_vector(place + i * 4, four);
        }
        const u32 behind = place + PER_LANE * 4;
        if ((lane + 1) * PER_LANE % BLOCK == 0) store_vector(behind == ring_end ? ring : behind, four);
#endif
        __syncwarp();
        return true;
    };
    const auto place_of = [&](u32 position) {
        const u32 word = position % RING;
        return ring + (word + word / BLOCK * PAD) * SUM_BYTES;
    };
#if WIDE_NUMBERS
    const auto sum_of = [&](u32 begin, u32 end) {
        return static_cast<double>(load_long(place_of(end)) - load_long(place_of(begin))) * unit.wide_value();
    };
#elif !MMAS
    // The sum of a chunk, in units.
    const auto sum_of_chunk64 = [&](u32 begin, u32 end) {
        const u32 s = place_of(begin), e = place_of(end);
        return static_cast<int>(load::load_word(e + 12) + load::load_word(e + 4) - load::load_word(s + 12) - load::load_word(s + 4));
    };
#else
    // The sums of a chunk's two sets, in units, rounded as an MMA rounds them.
    const auto sums_of_chunk64 = [&](u32 begin, u32 end, float& low, float& high) {
        const u32 s = place_of(begin), e = place_of(end), length = end - begin;
        const u32 to1 = load::load_word(e + 12), to2 = load::load_word(e + 8), to3 = load::load_word(e + 4);
        const u32 all = to1 + to3;
        const u32 even = length & 2 ? to1 : to3, odd = length & 2 ? to2 : all - to2, first = length & 1 ? odd : even;
        low = __int2float_rz(static_cast<int>(first - load::load_word(s + 4)));
        high = __int2float_rz(static_cast<int>(all - first - load::load_word(s + 12)));
    };
#endif

    const u32 ends_of_lane = of_lane(load::shared_address(room.ends) + lane * sizeof(i64));
    const auto place_of_end = [&](u32 group) { return ends_of_lane + group * sizeof(i64) % (TURNS * TURN_BYTES); };
    const auto fetch = [&](u32 group) { fetch_end(place_of_end(group), ends + min(group + lane, count - 1)); };
    for (u32 turn = 0; turn < TURNS - 1; ++turn) fetch(turn * WARP);
    u32 so_far = shift;
#pragma unroll 1
    for (u32 group = 0; group < count; group += WARP) {
        const u32 number = group + lane;
        load::wait_for_copies<TURNS - 2>();
        const u64 relative = static_cast<u64>(load_long(place_of_end(group)) - origin);
        fetch(group + (TURNS - 1) * WARP);
        const u32 end = static_cast<u32>(relative);
        u32 begin = __shfl_up_sync(ALL, end, 1);
        if (lane == 0) begin = so_far;
        const u32 length = end - begin, last = reduce_max(end);
        bool by_mmas = __any_sync(
            ALL, relative >> 32 != 0 || end > stop || length > SPAN || last - so_far >= many);
        if (!by_mmas && __any_sync(ALL, filled < last)) {
            bool raised = false;
            do {
                if (__any_sync(ALL, filled == 0)) begin_at(so_far);
                u32 most;
                if (fill(most)) continue;
                // The unit grows and shrinks with the numbers.  It does not shrink where it has grown for others of
                // the same group.
                const u32 code = reduce_max(WIDE ? most : max(most & 0xffff, most >> 16));
                const int wanted = max(SumUnit::FINEST, static_cast<int>(code >> FRACTION) - BIAS);
                by_mmas = __any_sync(
                    ALL, code >= INFINITE || wanted == unit.exponent || (raised && wanted < unit.exponent));
                if (by_mmas) break;
                raised = raised || wanted > unit.exponent;
                unit.exponent = wanted;
                anchor = unit.anchor();
                above = in_both_halves(0x8000 - unit.limit());
                filled = 0;
            } while (__any_sync(ALL, filled < last));
        }
        if (by_mmas) {
            // An offset outside the run becomes a position that is too large, and too far from all others.
            const u64 same = static_cast<u64>(load_long(place_of_end(group)) - origin);
            const u32 valid = same - shift <= run.size ? static_cast<u32>(same) : NOWHERE;
            begin = __shfl_up_sync(ALL, valid, 1);
            if (lane == 0) begin = so_far;
            __syncwarp();
            ragged::sum_group_from_memory(p, run, group, number < count, begin - shift, valid - shift, room.shared);
            __syncwarp();
            so_far = warp::uniform(lane == WARP - 1 ? valid : 0);
            filled = 0;
            continue;
        }
        so_far = last;
#if WIDE_NUMBERS
        const double sum = sum_of(begin, end);
        if (__any_sync(ALL, plain)) {
            if (number < count) store_result(out + number * sizeof(float), __double2float_rn(sum));
        } else if (number < count) {
            ragged::store_any(p, run.first + number, sum, length);
        }
#elif !MMAS
        const int first_sum = sum_of_chunk64(begin, min(end, begin + ragged::CHUNK64));
        float sum = static_cast<float>(first_sum);
        if (__any_sync(ALL, length >= few)) {
            double chunks64 = first_sum;
            for (u32 chunk64 = begin + ragged::CHUNK64; __any_sync(ALL, chunk64 < end); chunk64 += ragged::CHUNK64)
                if (chunk64 < end) chunks64 += sum_of_chunk64(chunk64, min(end, chunk64 + ragged::CHUNK64));
            sum = __double2float_rn(chunks64);
            if (__any_sync(ALL, few == 0)) {
                if (number < count) ragged::store_any(p, run.first + number, chunks64 * unit.value(), length);
                continue;
            }
        }
        if (number < count) store_result(out + number * sizeof(float), sum * unit.value());
#else
        float low, high;
        sums_of_chunk64(begin, min(end, begin + ragged::CHUNK64), low, high);
        float sum = low + high;
        if (__any_sync(ALL, length >= few)) {
            double chunks64 = static_cast<double>(low) + static_cast<double>(high);
            for (u32 chunk64 = begin + ragged::CHUNK64; __any_sync(ALL, chunk64 < end); chunk64 += ragged::CHUNK64) {
                if (chunk64 >= end) continue;
                sums_of_chunk64(chunk64, min(end, chunk64 + ragged::CHUNK64), low, high);
                chunks64 += static_cast<double>(low) + static_cast<double>(high);
            }
            sum = __double2float_rn(chunks64);
            if (__any_sync(ALL, few == 0)) {
                if (number < count) ragged::store_any(p, run.first + number, chunks64 * unit.value(), length);
                continue;
            }
        }
        if (number < count) store_result(out + number * sizeof(float), sum * unit.value());
#endif
    }
    load::wait_for_copies<0>();
}

extern "C" __global__ void __launch_bounds__(WARP, resident(RESIDENT, WARP))
    short_segments(const __grid_constant__ ragged::Segments p) {
    __shared__ ShortSegmentsMemory room;
    const u32 arrivals = load::shared_address(&room.arrivals);
    begin_arrivals(arrivals);
    u32 phase = 0;
    ragged::for_each_run(
        p, room.run, [&](i64 i) { return warp::uniform(p.offsets[i]); }, [&] { sum_run(p, room, phase); });
    wait_for_arrivals(arrivals, phase);
}
