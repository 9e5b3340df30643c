// Variances and standard deviations of rows, or of ragged segments: the sums of d = x - x[0] and of d · d by the plan
// of a dot product (tcu/plan/dot.py), and what they come to.
//
// A group is a row or a segment.  With ALONE a warp has a group of one chunk to itself: it takes the plan's warps one
// after another.  Otherwise the blocks of a group (blockIdx.y) share its chunks, and the last of them waits for the
// others' totals.  The plan's lanes, warps and loads that a short group lacks would be zeros, which change no sum.
//
// The floor is reading each number once.  A number costs a conversion, a subtraction, an addition and a fused
// multiply-add in binary64.
//
// Compiled with ELEMENT and LAYOUT (load/array.cuh; ALIGNED: every group begins at a multiple of 16 bytes), and
//   PLAN_WARPS  of a block of the plan
//   ALONE       1: a warp for each group of up to `most` numbers; 0: blocks of PLAN_WARPS warps for each longer one
//   RESIDENT    blocks per multiprocessor that the registers must allow

#include "device/finish/store.cuh"
#include "device/grid/slots.cuh"
#include "device/load/row.cuh"
#include "device/ragged/plan_chunks.cuh"
#include "device/warp/tree.cuh"

using namespace tcu;

constexpr int WARPS = ALONE ? 4 : PLAN_WARPS;            // of a block
constexpr int TOGETHER = 4;                              // loads of a lane in flight
constexpr i64 TURN = PLAN_WARPS * WARP * PER_LOAD;       // numbers that a block of the plan loads at a time

#include "generated/moments/Moments.inc"

struct TwoSums {
    double first, second;
};

// The accumulators of a lane for one warp of the plan: two for each number of a load.
struct MomentSums {
    double first[PER_LOAD] = {}, second[PER_LOAD] = {};

    // The numbers of a vector, of which the first `count` belong to the group.
    __device__ void add(const Vector& x, double pivot, i64 count) {
#pragma unroll
        for (int i = 0; i < PER_LOAD; ++i) {
            const double d = i < count ? __dsub_rn(to_binary64(x.codes[i]), pivot) : 0;
            first[i] = __dadd_rn(first[i], d);
            second[i] = __fma_rn(d, d, second[i]);
        }
    }

    // In lane 0.
    __device__ TwoSums of_warp() {
#pragma unroll
        for (int half = PER_LOAD / 2; half > 0; half /= 2)
#pragma unroll
            for (int i = 0; i < half; ++i) {
                first[i] += first[i + half];
                second[i] += second[i + half];
            }
        const double all = warp::tree<WARP>(first[0]);
        return {all, warp::tree<WARP>(second[0])};
    }
};

// What warp `warp` of the plan adds up of a chunk of `length` numbers; in lane 0.
__device__ inline TwoSums sums_of_warp(const Code* chunk, i64 length, double pivot, int warp) {
    MomentSums sums;
#pragma unroll 1
    for (i64 turn = static_cast<i64>(warp) * WARP * PER_LOAD; turn < length; turn += TOGETHER * TURN) {
        const i64 at = turn + threadIdx.x % WARP * PER_LOAD;
        load::Granules x[TOGETHER];
#pragma unroll
        for (int i = 0; i < TOGETHER; ++i) x[i] = load::ask(chunk, length, at + i * TURN);
#pragma unroll
        for (int i = 0; i < TOGETHER; ++i)
            sums.add(load::assemble(x[i], chunk, length, at + i * TURN), pivot, length - (at + i * TURN));
    }
    return sums.of_warp();
}

__device__ inline void store(const Moments& p, i64 group, i64 length, const TwoSums& sums) {
    const double count = static_cast<double>(length), mean = __ddiv_rn(sums.first, count);
    double squares = __dsub_rn(sums.second, __dmul_rn(sums.first, mean));
    if (squares < 0) squares = 0;  // where rounding would have it so, the elements are as good as equal
    if (sums.second > 0x1.fffffffffffffp1023 && sums.first - sums.first == 0) squares = sums.second;  // inf, not NaN
    const double left = __dsub_rn(count, p.correction);
    const double variance = __ddiv_rn(squares, left < 0 ? 0 : left);
    const finish::Target target = static_cast<finish::Target>(p.target);
    finish::store_rounded(finish::place(p.out, group, target), p.root ? __dsqrt_rn(variance) : variance, target);
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, RESIDENT) moments(const __grid_constant__ Moments p) {
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const i64 group = ALONE ? static_cast<i64>(blockIdx.x) * WARPS + warp : blockIdx.x;
    if (group >= p.groups) return;
    i64 begin = group * p.stride, length = p.length;
    if (p.offsets) {
        begin = p.offsets[group];
        length = p.offsets[group + 1] - begin;
        // Nobody may have looked at the offsets: a segment that ends before it begins, or elsewhere than in x, gives NaN.
        if (begin < 0 || length < 0 || length > p.length - begin) {
            if (ALONE && lane == 0) store(p, group, 0, {0, 0});
            if (!ALONE && p.most == 0 && threadIdx.x == 0 && blockIdx.y == 0) store(p, group, 0, {0, 0});
            return;
        }
    }
    if (ALONE ? length > p.most : p.most > 0 && length <= p.most) return;
    const Code* const data = static_cast<const Code*>(p.data) + begin;
    const double pivot = length ? to_binary64(*data) : 0;
    TwoSums sums = {0, 0};
#if ALONE
#pragma unroll 1
    for (int each = 0; each < PLAN_WARPS && each * WARP * PER_LOAD < length; ++each) {
        const TwoSums found = sums_of_warp(data, length, pivot, each);
        const double first = __shfl_sync(ALL, found.first, 0), second = __shfl_sync(ALL, found.second, 0);
        if (lane == each) sums = {first, second};
    }
    constexpr int WIDTH = warp::power_of_two(PLAN_WARPS);
    const double all = warp::tree<WIDTH>(sums.first);
    sums = {all, warp::tree<WIDTH>(sums.second)};
    if (lane == 0) store(p, group, length, sums);
#else
    const i64 size = ragged::loads_of(length, TURN) * TURN, chunks = (length + size - 1) / size;
    const bool alone = chunks <= 1 && gridDim.y == 1;
    // The slots of a segment begin where those of all before it have ended at the latest.
    constexpr i64 LEAST = ragged::LEAST_LOADS * TURN;
    u64* const slots = p.slots + 2 * (p.offsets ? begin / LEAST + group : group * chunks);
#pragma unroll 1
    for (i64 chunk = blockIdx.y; chunk < chunks; chunk += gridDim.y) {
        const i64 at = chunk * size;
        const TwoSums own = sums_of_warp(data + at, min(length - at, size), pivot, warp);
        const double first = warp::across_warps<WARPS>(own.first), second = warp::across_warps<WARPS>(own.second);
        if (threadIdx.x != 0) continue;
        if (alone) {
            sums = {first, second};
        } else {
            grid::publish(slots + 2 * chunk, first);
            grid::publish(slots + 2 * chunk + 1, second);
        }
    }
    // The last block starts last, so those that it waits for are running or done.
    if (blockIdx.y != gridDim.y - 1) return;
    if (!alone) {
        __syncthreads();
        for (i64 chunk = threadIdx.x; chunk < chunks; chunk += 32 * WARPS) {
            sums.first += grid::take(slots + 2 * chunk, grid::look(slots + 2 * chunk));
            sums.second += grid::take(slots + 2 * chunk + 1, grid::look(slots + 2 * chunk + 1));
        }
        const double first = warp::across_warps<WARPS>(warp::tree<WARP>(sums.first));
        sums = {first, warp::across_warps<WARPS>(warp::tree<WARP>(sums.second))};
    }
    if (threadIdx.x == 0) store(p, group, length, sums);
#endif
}
