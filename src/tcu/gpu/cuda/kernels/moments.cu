// Variances and standard deviations of rows, or of ragged segments: the sums of d = x - x[0] and of d · d by the plan
// of a dot product (tcu/plan/dot.py), and what they come to.  Or dot products of rows of two arrays, or norms, by that plan.
//
// A group is a row or a segment.  With ALONE a warp has groups of one chunk to itself: several short ones side by side,
// LANES lanes each, or one of up to TILES warps of the plan.  Otherwise the blocks of a group (blockIdx.y) share its
// chunks, and the last of them waits for the others' totals.  The plan's lanes, warps and loads that a short group
// lacks would be zeros, which change no sum.
//
// The floor is reading each number once.  A number costs a conversion, a subtraction, an addition and a fused
// multiply-add in binary64.
//
// Compiled with ELEMENT and LAYOUT (load/array.cuh; ALIGNED: every group begins at a multiple of 16 bytes), and
//   PLAN_WARPS  of a block of the plan
//   ALONE       1: warps for groups of up to `most` numbers; 0: blocks of PLAN_WARPS warps for each longer one
//   LANES       with ALONE: of a group, a power of two
//   TILES       with ALONE: warps of the plan that a group reaches, up to 8; 1 where LANES are fewer than 32
//   TERM        MOMENTS; PRODUCT or SQUARE: only the second sum, of x · y or of x · x
//   RESIDENT    blocks per multiprocessor that the registers must allow

#include "device/finish/store.cuh"
#include "device/grid/slots.cuh"
#include "device/load/row.cuh"
#include "device/ragged/plan_chunks.cuh"
#include "device/warp/multi_reduce.cuh"
#include "device/warp/tree.cuh"

using namespace tcu;

constexpr int WARPS = ALONE ? 4 : PLAN_WARPS;       // of a block
constexpr int TOGETHER = 4;                         // loads of a lane in flight
constexpr i64 TURN = PLAN_WARPS * WARP * PER_LOAD;  // numbers that a block of the plan loads at a time

#if ALONE
constexpr bool ARE_SHORT = LANES < WARP;  // groups, most of which end within a vector
#else
constexpr bool ARE_SHORT = false;
#endif

#include "generated/moments/Moments.inc"

// Number i of a vector, from the word that holds it: from an array of codes it would take three instructions.
__device__ inline double number_of(const Vector& v, int i) {
    if constexpr (sizeof(Code) == 2) return to_binary64(static_cast<Code>(v.word[i / 2] >> 16 * (i % 2)));
    else return to_binary64(v.codes[i]);
}

struct TwoSums {
    double first, second;
};

// The accumulators of a lane for one warp of the plan: two for each number of a load.
struct MomentSums {
    double first[PER_LOAD] = {}, second[PER_LOAD] = {};

    __device__ void add_number(int i, const Vector& x, const Vector& y, double pivot, bool is_there = true) {
        const double number = number_of(x, i);
#if TERM == MOMENTS
        const double d = is_there ? __dsub_rn(number, pivot) : 0;
        first[i] = __dadd_rn(first[i], d);
        second[i] = __fma_rn(d, d, second[i]);
#else
        second[i] = __fma_rn(number, TERM == PRODUCT ? number_of(y, i) : number, second[i]);
#endif
    }

    // The numbers of a vector, of which the first `count` belong to the group; the others are +0, and change no sum.
    __device__ void add(const Vector& x, const Vector& y, double pivot, i64 count) {
        if (TERM != MOMENTS || (!ARE_SHORT && count >= PER_LOAD)) {  // nobody asks for each number whether it is there
#pragma unroll
            for (int i = 0; i < PER_LOAD; ++i) add_number(i, x, y, pivot);
        } else if (ARE_SHORT) {
#pragma unroll
            for (int i = 0; i < PER_LOAD; ++i) add_number(i, x, y, pivot, i < count);
        } else if (count > 0) {
#pragma unroll
            for (int i = 0; i < PER_LOAD - 1; ++i)
                if (i < static_cast<int>(count)) add_number(i, x, y, pivot);
        }
    }

    // The lane's two sums, in first[0] and second[0].
    __device__ void fold() {
#pragma unroll
        for (int half = PER_LOAD / 2; half > 0; half /= 2)
#pragma unroll
            for (int i = 0; i < half; ++i) {
                first[i] += first[i + half];
                second[i] += second[i + half];
            }
    }
};

// The vectors that lanes ask for at once, of both arrays where there are two.
template <int COUNT>
struct AskedOfBoth {
    load::Granules x[COUNT], y[TERM == PRODUCT ? COUNT : 1];

    __device__ void ask(int i, const Code* data, const Code* other, i64 length, i64 at) {
        x[i] = load::ask(data, length, at);
        if constexpr (TERM == PRODUCT) y[i] = load::ask(other, length, at);
    }

    __device__ void add_to(MomentSums& sums, int i, const Code* data, const Code* other, i64 length, i64 at, double pivot) {
        const Vector mine = load::assemble(x[i], data, length, at);
        if constexpr (TERM == PRODUCT)
            sums.add(mine, load::assemble(y[i], other, length, at), pivot, length - at);
        else
            sums.add(mine, mine, pivot, length - at);
    }
};

// The loads from `at` on of every TURN-th vector, up to the end of a chunk.
__device__ inline void add_turns(MomentSums& sums, const Code* chunk, const Code* other, i64 length, double pivot, i64 at) {
#pragma unroll 1
    for (; __any_sync(ALL, at < length); at += TOGETHER * TURN) {
        AskedOfBoth<TOGETHER> asked;
#pragma unroll
        for (int i = 0; i < TOGETHER; ++i) asked.ask(i, chunk, other, length, at + i * TURN);
#pragma unroll
        for (int i = 0; i < TOGETHER; ++i) asked.add_to(sums, i, chunk, other, length, at + i * TURN, pivot);
    }
}

// `is_wrong`: the group has no numbers, and its result is NaN.
__device__ inline void store(const Moments& p, i64 group, i64 length, bool is_wrong, const TwoSums& sums) {
    const finish::Target target = static_cast<finish::Target>(p.target);
#if TERM != MOMENTS
    const double number = is_wrong ? __longlong_as_double(0x7fffffffffffffff) : sums.second;
    finish::store_rounded(finish::place(p.out, group, target), p.root ? __dsqrt_rn(number) : number, target);
#else
    const double count = static_cast<double>(length), mean = __ddiv_rn(sums.first, count);
    double squares = __dsub_rn(sums.second, __dmul_rn(sums.first, mean));
    if (squares < 0) squares = 0;  // where rounding would have it so, the elements are as good as equal
    if (sums.second > 0x1.fffffffffffffp1023 && sums.first - sums.first == 0) squares = sums.second;  // inf, not NaN
    const double left = __dsub_rn(count, p.correction);
    const double variance = __ddiv_rn(squares, left < 0 ? 0 : left);
    finish::store_rounded(finish::place(p.out, group, target), p.root ? __dsqrt_rn(variance) : variance, target);
#endif
}

// A row, or a segment.
struct MomentGroup {
    const Code* data = nullptr;
    const Code* other = nullptr;
    i64 begin = 0, length = 0;
    bool is_wrong = false;  // its offsets are: it ends before it begins, or elsewhere than in x

    __device__ MomentGroup(const Moments& p, i64 group) {
        if (group >= p.groups) return;
        begin = group * p.stride;
        length = p.length;
        if (p.offsets) {
            begin = p.offsets[group];
            length = p.offsets[group + 1] - begin;
            is_wrong = begin < 0 || length < 0 || length > p.length - begin;
            if (is_wrong) begin = length = 0;
        }
        data = static_cast<const Code*>(p.data) + begin;
        if (TERM == PRODUCT) other = static_cast<const Code*>(p.other) + begin;
    }

    __device__ double pivot() const { return TERM == MOMENTS && length ? to_binary64(*data) : 0; }
};

#if ALONE
constexpr int GROUPS = WARP / LANES;                // of a warp at a time
constexpr int TURNS = LANES < WARP ? TOGETHER : 1;  // of a warp, one group for each of its lanes' loads

// Stores what the lanes of a group have added up, unless it is too long for a warp.
__device__ inline void store_alone(const Moments& p, i64 group, const MomentGroup& own, const TwoSums& sums) {
    if (threadIdx.x % LANES == 0 && group < p.groups && (own.length <= p.most || own.is_wrong))
        store(p, group, own.length, own.is_wrong, sums);
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, RESIDENT) moments(const __grid_constant__ Moments p) {
    const int lane = threadIdx.x % LANES;
    const i64 first_group = (static_cast<i64>(blockIdx.x) * WARPS + threadIdx.x / WARP) * TURNS * GROUPS + threadIdx.x % WARP / LANES;
#if LANES < 32
    AskedOfBoth<TURNS> asked;
    double pivots[TURNS];
#pragma unroll
    for (int i = 0; i < TURNS; ++i) {
        const MomentGroup own(p, first_group + i * GROUPS);
        pivots[i] = own.pivot();
        asked.ask(i, own.data, own.other, own.length, lane * PER_LOAD);
    }
#pragma unroll
    for (int i = 0; i < TURNS; ++i) {
        const i64 group = first_group + i * GROUPS;
        const MomentGroup own(p, group);
        MomentSums sums;
        asked.add_to(sums, i, own.data, own.other, own.length, lane * PER_LOAD, pivots[i]);
        sums.fold();
#pragma unroll
        for (int half = LANES / 2; half > 0; half /= 2) {
            sums.first[0] += __shfl_xor_sync(ALL, sums.first[0], half);
            sums.second[0] += __shfl_xor_sync(ALL, sums.second[0], half);
        }
        store_alone(p, group, own, {sums.first[0], sums.second[0]});
    }
#else
    const MomentGroup own(p, first_group);
    const i64 length = own.length <= p.most ? own.length : 0;
    const double pivot = length ? own.pivot() : 0;
    constexpr int WIDTH = warp::power_of_two(TILES);
    double first[WIDTH] = {}, second[WIDTH] = {};
#pragma unroll
    for (int some = 0; some < TILES; some += TOGETHER) {
        AskedOfBoth<TOGETHER> asked;
#pragma unroll
        for (int i = 0; i < TOGETHER; ++i)
            if (some + i < TILES) asked.ask(i, own.data, own.other, length, ((some + i) * WARP + lane) * i64(PER_LOAD));
#pragma unroll
        for (int i = 0; i < TOGETHER; ++i) {
            if (some + i >= TILES) continue;
            const i64 at = ((some + i) * WARP + lane) * i64(PER_LOAD);
            MomentSums sums;
            asked.add_to(sums, i, own.data, own.other, length, at, pivot);
            if (length > TURN) add_turns(sums, own.data, own.other, length, pivot, at + TURN);
            sums.fold();
            first[some + i] = sums.first[0];
            second[some + i] = sums.second[0];
        }
    }
    const double all = warp::sum_of_tiles<WIDTH, 1>(first);
    store_alone(p, first_group, own, {all, warp::sum_of_tiles<WIDTH, 1>(second)});
#endif
}
#else
extern "C" __global__ void __launch_bounds__(32 * WARPS, RESIDENT) moments(const __grid_constant__ Moments p) {
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const i64 group = blockIdx.x;
    const MomentGroup own(p, group);
    // Groups that have a warp to themselves, and wrong ones among them, are stored there.
    if (p.most > 0 && (own.length <= p.most || own.is_wrong)) return;
    const double pivot = own.pivot();
    TwoSums sums = {0, 0};
    const i64 size = ragged::loads_of(own.length, TURN) * TURN, chunks = (own.length + size - 1) / size;
    const bool alone = chunks <= 1 && gridDim.y == 1;
    // The slots of a segment begin where those of all before it have ended at the latest.
    constexpr i64 LEAST = ragged::LEAST_LOADS * TURN;
    u64* const slots = p.slots + 2 * (p.offsets ? own.begin / LEAST + group : group * chunks);
#pragma unroll 1
    for (i64 chunk = blockIdx.y; chunk < chunks; chunk += gridDim.y) {
        const i64 at = chunk * size;
        MomentSums part;
        add_turns(part, own.data + at, own.other + at, min(own.length - at, size), pivot, (warp * WARP + lane) * i64(PER_LOAD));
        part.fold();
        const double first = warp::across_warps<WARPS>(warp::tree<WARP>(part.first[0]));
        const double second = warp::across_warps<WARPS>(warp::tree<WARP>(part.second[0]));
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
    if (threadIdx.x == 0) store(p, group, own.length, own.is_wrong, sums);
}
#endif
