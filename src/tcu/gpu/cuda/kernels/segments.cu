// Sums of ragged segments.  Each has the bits of its own sum by the plan of sum.cu.
//
// A warp takes AT_ONCE segments at a time, one in each lane (ragged/group_sums.cuh). Segments follow each other, so
// where the architecture has bulk copies, those of a warp come through a ring in shared memory: 24 bytes at any place
// took 10 cycles of L1 from memory, and take 4 from the ring.  Groups at the array's end, or with wrong offsets, are
// read from memory.
//
// Compiled with what ragged/segment_sums.cuh needs, and
//   RESIDENT   blocks per multiprocessor that the registers must allow
//   AT_ONCE    segments of a warp at a time: 8, 16 or 32
//   COPY, COPIES   bytes of a copy into a warp's ring, and how many have room there (sm_90)
//   PERMUTED_K 1, of 16-bit numbers: an MMA adds all 16 numbers of a row at once (mma/permuted_k.cuh)

#include "device/load/ring.cuh"
#include "device/ragged/segment_sums.cuh"
#if BULK && PERMUTED_K
#include "device/ragged/aligned_chunks64.cuh"
#endif

using namespace tcu;

// The data are marked as read once (evict first) only where segments are long enough: with many results, or where a
// window has no room for numbers and they are read from memory again, it is slower.  H200, 2^30 numbers of binary16
// with it in place of without: 64 numbers of a segment on average 594 in place of 589 us, 100 numbers 721 in place of
// 595, 512 numbers 505 in place of 522. Of binary32, segments of 12 to 100 numbers take as long either way; those of
// 512 take 598 in place of 605 us.
typedef load::Ring<COPY, COPIES, ragged::LANES * 16, WITH_RESTS == 1> SegmentRing;
// A turn reads 32 whole 64-byte chunks, and between them less than one of each segment but the last.
static_assert(COPY * (COPIES - 1) > (WARP + AT_ONCE - 1) * 64 && COPY <= 2048,
              "what a turn reads has room, a long segment more than two");

struct SegmentsMemory {
#if BULK
    SegmentRing::Memory data;
#endif
    ragged::SegmentRun run;
    ragged::GroupMemory shared;
};

#if BULK
// Reads chunks from the ring.  One word holds a place, for one shuffle: the address in the ring, and the bits to
// shift by.
struct Ringed {
    static constexpr bool CAREFUL = false;
    const SegmentRing& data;
    u32 own;
    __device__ Ringed(const SegmentRing& data, int number)
        : data(data), own(load::shared_address(data.memory->bytes) + number * 16) {}
    __device__ u32 place(u32 at) const { return __byte_perm(at * 8, data.place(at) & ~7u, 0x5410); }
    __device__ load::Raw fetch(u32 place, int) const { return fetch_at(place >> 16, place); }
    __device__ load::Raw fetch_of_tile(u32 at, int) const {
        const u32 position = at + threadIdx.x % WARP * 16;
        return fetch_at(data.place(position) & ~7u, position * 8);
    }
    __device__ load::Raw fetch_at(u32 place, u32 bits) const {
        load::Raw r;
        r.at = bits;
        const u32 from = own + place;
        load::load_pair(r.words[0], r.words[1], from);
        load::load_pair(r.words[2], r.words[3], from + 8);
        if (ELEMENT != BINARY64) load::load_pair(r.words[4], r.words[5], from + 16);
        return r;
    }
    __device__ static Vector vector(const load::Raw& r) { return load::shifted(r.words, r.at); }
};

// Where a warp finds the chunks of its segments: in the ring.  That holds for whole chunks always, and for the
// partial chunks at the segments' ends, where they have a turn of their own, if the window fits the ring.
struct Inside {
    static constexpr bool IN_RING = true;
    SegmentRing& data;
    u32 all;  // the end of the run, in bytes from the base
    u32 end = 0;
    bool fits = true, is_lost = false;

    // Whether all bytes from `first` to `behind` have room in the ring.
    __device__ bool holds(u32 first, u32 behind) const { return behind - first / COPY * COPY <= SegmentRing::SIZE; }
    // Begins a window of bytes `first` to `behind`. From `limit` on, nothing is needed for a while.
    __device__ void begin(u32 first, u32 behind, u32 limit) {
        end = behind;
        fits = holds(first, behind);
        // Otherwise leave() has asked for all of it.
        const bool is_outside = data.asked - first > SegmentRing::SIZE || is_lost;
        if (is_outside || data.asked < behind || data.end != min(limit, all)) {
            data.end = min(limit, all);
            if (is_outside) data.skip(first);
            is_lost = false;
            go_on(first);
        }
        if (fits) data.wait(behind);
    }
    // Waits for a turn whose chunks begin at the lanes' `at`.
    __device__ void need(u32 at) {
        if (!fits) need(__shfl_sync(ALL, at, 0), __shfl_sync(ALL, at, WARP - 1) + 64);
    }
    // Waits for all bytes `from` to `to`.
    __device__ void need(u32 from, u32 to) {
        if (fits) return;
        go_on(from);
        data.wait(min(to, end));
    }
    // Nothing of the window is needed any more: what comes next is copied while the sums are put together.
    __device__ void leave() { go_on(end); }
    __device__ void go_on(u32 first) {
        data.wait(min(first, data.asked));  // a copy at a time has a place in the ring
        data.go_on(first);
    }
    template <bool WHOLE>
    __device__ void put(u32 at, int left, double* numbers, int to, int chunks64) const {
        const int number = threadIdx.x % ragged::LANES;
        if (WHOLE || WITH_RESTS || fits) {
#if PERMUTED_K
            ragged::put_aligned_chunks64<WHOLE, WITH_RESTS>(data, at, left, numbers, to, chunks64);
#else
            const Ringed source(data, number);
            ragged::put_chunks64<WHOLE>(source, source.place(at), left, numbers, to, chunks64);
#endif
        } else {
            ragged::put_chunks64<WHOLE>(ragged::Direct(data.from, number), to < 0 ? 0 : at, left, numbers, to, chunks64);
        }
    }
    // The address in shared memory of a byte that has arrived.
    __device__ u32 address(u32 at) const { return load::shared_address(data.memory->bytes) + data.place_inside(at); }
    template <bool WHOLE, int COUNT>
    __device__ void put_tiles(u32 at, int left, int step, double (&sums)[COUNT]) const {
        ragged::sum_tiles<WHOLE>(Ringed(data, 0), at, left, step, sums);
    }
};
#endif

__device__ inline i64 end_at(const i64* at) {
    i64 end;
    asm volatile("ld.global.nc.s64 %0, [%1];" : "=l"(end) : "l"(at));
    return end;
}

__device__ inline void sum_run(const ragged::Segments& p, SegmentsMemory& room
#if BULK
                               , SegmentRing& data
#endif
) {
    const ragged::SegmentRun& run = room.run;
    const u32 lane = threadIdx.x;
    const u32 count = warp::uniform(run.count), bytes = warp::uniform(run.bytes);
    const u32 shift = warp::uniform(bytes - run.size * static_cast<u32>(sizeof(Code)));
    [[maybe_unused]] const u32 most = static_cast<u32>(p.most);
    const i64* const ends = reinterpret_cast<const i64*>(warp::uniform(reinterpret_cast<u64>(p.offsets + run.first + 1)));
    // Lanes without a segment get an empty one, which begins and ends where the last one ends.
    const u32 one = AT_ONCE == WARP ? lane : min(lane, AT_ONCE - 1u);
    i64 next = end_at(ends + min(one, count - 1));
    u32 so_far = 0;
#if BULK
    Inside where = {data, bytes};
#endif
#pragma unroll 1
    for (u32 done = 0; done < count; done += AT_ONCE) {
        u64 relative = static_cast<u64>(next - run.begin);
        // So the next load goes to its register at once, and is not moved there when it arrives.
        asm volatile("" : "+l"(relative));
        next = end_at(ends + min(done + AT_ONCE + one, count - 1));
        const u32 end = relative >> 32 ? ~0u : static_cast<u32>(relative);
        u32 begin = __shfl_up_sync(ALL, end, 1);
        if (lane == 0) begin = so_far;
        [[maybe_unused]] const u32 before = so_far;
        so_far = __shfl_sync(ALL, end, WARP - 1);
        const bool has_lane = (AT_ONCE == WARP || lane < AT_ONCE) && done + lane < count;
#if BULK
        const u32 length = end - begin;
        const bool is_odd = end >= run.careful || end < begin, is_long = length > most;
        u32 longs = 0;
        if (__any_sync(ALL, is_odd || is_long)) {
            if (__any_sync(ALL, is_odd)) {
                ragged::sum_group_from_memory(p, run, done, has_lane, begin, end, room.shared);
                where.is_lost = true;  // by wrong offsets, the next segments may lie before what is in the ring
                continue;
            }
            longs = __ballot_sync(ALL, is_long);
            ragged::append_unlisted(p, run.first + done + lane, run.begin + begin, is_long ? length : 0);
        }
        constexpr u32 SIZE = sizeof(Code);
        const u32 from = begin * SIZE + shift, numbers = is_long ? 0 : length;
        const u32 first = before * SIZE + shift, behind = so_far * SIZE + shift;
        const double sum =
            ragged::sums_of_group<AT_ONCE, WITH_RESTS>(where, from, numbers, longs, first, behind, room.shared);
        if (__any_sync(ALL, run.plain != 0)) {
            if (has_lane && !is_long) static_cast<float*>(p.out)[run.first + done + lane] = ragged::rounded(sum);
        } else if (has_lane && !is_long) {
            ragged::store_any(p, run.first + done + lane, sum, length);
        }
#else
        ragged::sum_group_from_memory(p, run, done, has_lane, begin, end, room.shared);
#endif
    }
}

extern "C" __global__ void __launch_bounds__(WARP, resident(RESIDENT, WARP))
    segments(const __grid_constant__ ragged::Segments p) {
    __shared__ SegmentsMemory room;
    if (p.listed) grid::launch_dependents();
    const auto offset = [&](i64 i) { return p.offsets[i]; };
#if BULK
    SegmentRing data(room.data);
    ragged::for_each_run(p, room.run, offset, [&] {
        const ragged::SegmentRun& run = room.run;
        // The first bytes are asked for before the offsets are known, unless most of them probably belong to a long
        // segment.
        data.begin(p.data, static_cast<const Code*>(p.data) + run.begin, run.size * static_cast<u32>(sizeof(Code)));
        if (run.size < static_cast<u64>(p.most / 2) * run.count) data.go_on(0);
        sum_run(p, room, data);
    });
    data.finish();
#else
    ragged::for_each_run(p, room.run, offset, [&] { sum_run(p, room); });
#endif
    // The last block waits, so that this launch does not end before the one ahead of it.
    if (p.listed && blockIdx.x == gridDim.x - 1) grid::wait_for_prior_launch();
}
