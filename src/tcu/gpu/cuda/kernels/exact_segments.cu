// Exact sums of ragged segments, each rounded once.
//
// A warp has a run of segments that follow each other, whose numbers come through a ring in shared memory.  It goes
// through them window by window, whatever the segments' lengths are, and finds the exact sums of all numbers before
// each granule (exact/prefixes.cuh).  Of its segments it has 31 at a time, with a boundary in each lane: what a window
// gives to a segment is the difference of two of those sums, with a few numbers of one granule each.
//
// With LANES lanes to a segment, each for itself, lanes idled where lengths differ, and sums over lanes cost as much as
// the numbers: segments of 64 numbers of binary16 on average took five times as long, of power-law lengths four times
// (H200).
//
// With windows of whole segments (ragged/segment_windows.cuh) and 16 numbers in each lane, one after another, the additions
// waited for each other: binary16, segments of 512 numbers on average, 1.6 in place of 3.4 TB/s, of 4 numbers 1.6 in place
// of 1.8 (H200).
//
// Lanes that have whole segments, out of shared memory, as those of exact_tile_rows.cu have rows, wait for the longest:
// binary16, segments of 1, 4, 8, 16, 32 and 64 numbers on average, 1.1, 1.2, 1.4, 1.5, 1.7 and 1.7 in place of 1.5, 1.8, 2.0,
// 2.4, 2.8 and 2.9 TB/s (H200).
//
// What the proof fails for, the warp adds up again: a segment at a time by lane sums (exact/lane_sums.cuh), and if
// their proof fails too, in limbs.  So it does where offsets are wrong.  Segments of more than `most` numbers go to a
// second launch (long_exact_segments.cu).  A segment that is invalid (it ends before it begins, or outside the array)
// gives NaN.
//
// Compiled with ELEMENT (load/array.cuh; LAYOUT SHIFTED), and
//   TILES      granules of a lane in a window: 2, 4 or 8
//   WINDOWS     windows that have room in the ring: a power of two
//   THREADS    WARP
//   RESIDENT   blocks per multiprocessor that the registers must allow
//   UNROLL     1
//   TERM       VALUE

#include "device/exact/prefixes.cuh"
#include "device/ragged/work_queue.cuh"

using namespace tcu;

#include "generated/exact_segments/ExactSegments.inc"

constexpr int AT_ONCE = WARP - 1;
constexpr u32 NONE = ~0u;
constexpr i64 LARGEST_RUN = 1 << 27;  // elements, whose bytes 32 bits count

struct ExactSegmentsMemory {
    exact::WindowRing::Memory data;
    exact::Before before;
    i64 limbs[exact::WORDS];
};

__device__ inline double not_a_number() { return __longlong_as_double(0x7fffffffffffffff); }

// The sum of a segment by all lanes, read number by number.
__device__ inline exact::Parts lane_sums(const Code* from, int length) {
    const int lane = threadIdx.x, log = 32 - __clz(static_cast<u32>(length) / WARP);  // of a lane's numbers
#if ELEMENT == BINARY16 || ELEMENT == BFLOAT16
    double sum = 0;
    exact::PairRange seen;
    for (int i = lane; i < length; i += WARP) {
        seen.see(from[i]);
        sum += moved(from[i], 0);
    }
    const int top = warp::reduce_max(seen.top(0));
    const int bottom = exact::FIELDS - warp::reduce_max(exact::FIELDS - seen.bottom(0));
    const bool proved = exact::fits_lanes(top, bottom, log, exact::logarithm(WARP));
    const int exponent = exact::last_bit(bottom == exact::FIELDS ? 1 : bottom);
    return {0, warp::reduce_add(proved ? exact::integer_of(sum, exponent) : 0), 1, exponent, proved};
#else
    u32 largest = 0;
    for (int i = lane; i < length; i += WARP)
        largest = max(largest, static_cast<u32>(from[i] >> (8 * sizeof(Code) - 32)) & 0x7fffffff);
    const int top = warp::reduce_max(exact::field_of(largest)), window = exact::Cut::clamped(exact::window_of(top, 0), log);
    exact::Cut cut;
    cut.begin(window, log);
    for (int i = lane; i < length; i += WARP) cut.add(from[i]);
    cut.empty(window, log);
    exact::Parts sum = cut.parts(window, log, top);
    sum.proved = __all_sync(ALL, sum.proved);
    sum.high = warp::reduce_add(sum.high);
    sum.low = warp::reduce_add(sum.low);
    return sum;
#endif
}

__device__ __noinline__ void sum_alone(const ExactSegments& p, i64 segment, i64 begin, int length, i64* limbs) {
    const finish::Target target = static_cast<finish::Target>(p.target);
    void* const out = finish::place(p.out, segment, target);
    const Code* const from = static_cast<const Code*>(p.data) + begin;
    const u32 divisor = p.mean ? length : 1;
    const exact::Parts sum = lane_sums(from, length);
    if (!sum.proved) exact::sum_in_limbs(from, length, 1, limbs);
    if (threadIdx.x == 0) {
        if (sum.proved && divisor) exact::store_sum(sum, divisor, out, target);
        else if (divisor) exact::store_all_limbs(limbs, divisor, out, target);
        else finish::store_rounded(out, not_a_number(), target);
    }
    __syncwarp();
}

// Leaves a segment to the second launch.
__device__ __noinline__ void leave(const ExactSegments& p, i64 segment, i64 begin, i64 length) {
    const finish::Target target = static_cast<finish::Target>(p.target);
    const u32 place = ragged::append(p.queue, segment, begin, length, exact::parts_of(length));
    if (place == ragged::NO_ROOM) {
        if (threadIdx.x == 0) finish::store_rounded(finish::place(p.out, segment, target), not_a_number(), target);
    } else {
        for (int i = threadIdx.x; i < exact::WORDS; i += WARP) p.limbs[static_cast<i64>(place) * exact::WORDS + i] = 0;
    }
}

// Any segments, one after another.
__device__ __noinline__ void sum_one_by_one(const ExactSegments& p, i64 first, i64 last, i64* limbs) {
    const finish::Target target = static_cast<finish::Target>(p.target);
    for (i64 segment = first; segment < last; ++segment) {
        const i64 begin = p.offsets[segment], end = p.offsets[segment + 1];
        if (begin < 0 || end < begin || end > p.n) {
            if (threadIdx.x == 0) finish::store_rounded(finish::place(p.out, segment, target), not_a_number(), target);
        } else if (end - begin > p.most) {
            leave(p, segment, begin, end - begin);
        } else {
            sum_alone(p, segment, begin, static_cast<int>(end - begin), limbs);
        }
    }
}

extern "C" __global__ void __launch_bounds__(WARP, resident(RESIDENT, WARP))
    exact_segments(const __grid_constant__ ExactSegments p) {
    __shared__ ExactSegmentsMemory room;
    const u32 lane = threadIdx.x;
    const finish::Target target = static_cast<finish::Target>(p.target);
    const i64 first = static_cast<i64>(blockIdx.x) * p.per_warp, last = min(first + p.per_warp, p.segments);
    if (first >= last) return;
    const i64 run_begin = p.offsets[first], run_end = p.offsets[last];
    const bool is_run = run_begin >= 0 && run_begin <= run_end && run_end <= p.n && run_end - run_begin <= LARGEST_RUN;
    const u32 size = is_run ? static_cast<u32>(run_end - run_begin) : 0;
    exact::WindowRing data(room.data);
    u32 shift = 0;
    if (size) {
        shift = data.begin(p.data, static_cast<const Code*>(p.data) + run_begin, size * static_cast<u32>(sizeof(Code)));
        data.go_on(0);
    }
    exact::Prefixes window(data, room.before);
    i64 done = first;
    i64 next = p.offsets[min(done + lane, last)];
#pragma unroll 1
    while (is_run && done < last) {
        const u64 relative = static_cast<u64>(next - run_begin);
        next = p.offsets[min(done + AT_ONCE + lane, last)];
        const u32 boundary = relative > size ? NONE : static_cast<u32>(relative);
        u32 before = __shfl_up_sync(ALL, boundary, 1);
        if (lane == 0) before = boundary;
        if (__any_sync(ALL, boundary == NONE || before > boundary)) break;
        const u32 length = boundary - before;
        const bool is_long = length > p.most, is_mine = lane > 0 && done + lane <= last;
        for (u32 longs = __ballot_sync(ALL, is_long); longs; longs &= longs - 1) {
            const int who = __ffs(longs) - 1;
            leave(p, done + who - 1, run_begin + __shfl_sync(ALL, before, who), __shfl_sync(ALL, length, who));
        }
        const u32 begin = before * static_cast<u32>(sizeof(Code)) + shift;
        const u32 end = boundary * static_cast<u32>(sizeof(Code)) + shift;
        const bool is_summed = length && !is_long;
        exact::DoubleSum total;
        bool proved = true;
        u32 seen = 0;  // what lies before has been added
        for (;;) {
            const u32 needed = warp::reduce_min(is_summed && end > seen ? max(begin, seen) : NONE);
            if (needed == NONE) break;
            if (needed >= window.end) window.open(needed);
            const u32 from = min(max(begin, window.begin), window.end), to = min(max(end, window.begin), window.end);
            const exact::Prefixes::Prefix here = window.before(to);
            const exact::Prefixes::Prefix there = window.of_lane_below(here);
            if (is_summed && from < to) {
                window.add_difference(here, there, total);
                proved &= window.proved;
            }
            seen = window.end;
        }
        const i64 segment = done + lane - 1;
        proved &= total.leftover == 0;
        if (is_mine && !is_long) {
            if (p.mean && !length) finish::store_rounded(finish::place(p.out, segment, target), not_a_number(), target);
            else if (proved)
                proved = exact::store_double_sum(total, p.mean ? length : 1, finish::place(p.out, segment, target), target);
        }
        for (u32 rest = __ballot_sync(ALL, is_mine && is_summed && !proved); rest; rest &= rest - 1) {
            const int who = __ffs(rest) - 1;
            sum_alone(p, done + who - 1, run_begin + __shfl_sync(ALL, before, who), __shfl_sync(ALL, length, who),
                      room.limbs);
        }
        done += AT_ONCE;
    }
    data.finish();
    if (done < last) sum_one_by_one(p, done, last, room.limbs);
}
