// Variances and standard deviations of rows, or of ragged segments: the sums of d = x - x[0] and of d · d by the plan
// of a dot product (tcu/plan/dot.py), and what they come to.  Or dot products of rows of two arrays, or norms, by that plan.
//
// A group is a row or a segment.  With ALONE a warp has groups of one chunk to itself: several short ones side by side,
// LANES lanes each, or one of up to TILES warps of the plan.  Otherwise the blocks of a group (blockIdx.y) share its
// chunks, and the last of them waits for the others' totals.  The plan's lanes, warps and loads that a short group
// lacks would be zeros, which change no sum.
//
// The floor is reading each number once.  A number costs two fused multiply-adds and an addition in binary64, and two or three
// instructions that put its bits where binary64 has them: conversions have an eighth of the additions' rate.  A short group costs
// as much as 250 numbers if it is added up alone, most of it shuffles and two divisions; so several are added up and finished at once.
// Variances of rows of 256 and 1024 numbers of bfloat16 have 3.2 and 3.6 TB/s in place of 1.2 and 2.2, of binary32 4.6 and 4.5 in place of
// 2.3 and 3.1; of 4096 and 8192 of bfloat16 2.8 and 3.3, of binary32 3.9 and 3.8; of 131,072 2.7 and 3.8; of 50,257, which begin anywhere,
// 1.7 and 2.4 (H200).
//
// Compiled with ELEMENT and LAYOUT (load/array.cuh; ALIGNED: every group begins at a multiple of 16 bytes), and
//   PLAN_WARPS  of a block of the plan
//   ALONE       1: warps for groups of up to `most` numbers; 0: blocks of PLAN_WARPS warps for each longer one
//   LANES       with ALONE: of a group, a power of two
//   TILES       with ALONE: warps of the plan that a group reaches, up to 8; 1 where LANES are fewer than 32
//   TURNS       with ALONE: groups of a warp, or of LANES lanes, one after another
//   LONGER      with ALONE: 1: groups may have numbers beyond their tiles, which follow by turns
//   AHEAD       with ALONE: 1: a lane has LONGER vectors of a tile, which are asked for before those of the tile in front of it are added
//   RAGGED      1: groups are segments; 0: rows
//   WHOLE       1: every vector of a row has no numbers beside it; 2: and each lane has one in every tile
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

// The bits of a finite number's exponent and fraction, where binary64 has those bits, are the number over this.
constexpr double SHRUNK_BY = ELEMENT == BINARY16 ? 0x1p1008 : 0x1p896;

__device__ inline double shrunk_number(const Vector& v, int i) {
    if constexpr (sizeof(Code) == 8) return number_of(v, i);
    if constexpr (sizeof(Code) == 4) {
        const u32 code = v.word[i];
        return __hiloint2double((static_cast<int>(code) >> 3) & 0x8fffffff, code << 29);
    }
    constexpr int RIGHT = ELEMENT == BINARY16 ? 6 : 3;
    constexpr u32 KEPT = ELEMENT == BINARY16 ? 0x81fffc00 : 0x8fffe000;
    const u32 code = i % 2 ? v.word[i / 2] : v.word[i / 2] << 16;
    return __hiloint2double((static_cast<int>(code) >> RIGHT) & KEPT, 0);
}

// Whether a vector's numbers are taken by their bits: only finite ones can be.  Numbers of rows that begin anywhere are converted:
// shifting their vectors keeps the pipe of integers busy, and conversions have another.
__device__ inline bool are_shrunk(const Vector& v) {
    if constexpr (sizeof(Code) == 8 || LAYOUT != ALIGNED) return false;
    // What is added to the exponents of inf and NaN reaches the sign's bit.
    constexpr u32 SIGNS = sizeof(Code) == 4 ? 0x80000000 : 0x80008000;
    constexpr u32 ONE = ELEMENT == BINARY32 ? 0x00800000 : ELEMENT == BFLOAT16 ? 0x00800080 : 0x04000400;
    u32 reached = 0;
#pragma unroll
    for (u32 word : v.word) reached |= (word & ~SIGNS) + ONE;
    return !(reached & SIGNS);
}

struct TwoSums {
    double first, second;
};

// The accumulators of a lane for one warp of the plan: two for each number of a load.
struct MomentSums {
    double first[PER_LOAD] = {}, second[PER_LOAD] = {};

    // IS_FIRST: its sums are 0 so far.  Then +0 is not added to d: a sum of zeros may be -0 in between, but not a group's in the
    // end, since the first number's d is +0.
    template <bool IS_FIRST, bool IS_SHRUNK>
    __device__ void add_number(int i, const Vector& x, const Vector& y, double pivot, bool is_there) {
#if TERM == MOMENTS
        const double difference =
            IS_SHRUNK ? __fma_rn(shrunk_number(x, i), SHRUNK_BY, -pivot) : __dsub_rn(number_of(x, i), pivot);
        const double d = is_there ? difference : 0;
        first[i] = IS_FIRST ? d : __dadd_rn(first[i], d);
        second[i] = IS_FIRST ? __dmul_rn(d, d) : __fma_rn(d, d, second[i]);
#else
        const auto number = [i](const Vector& v) {
            return IS_SHRUNK ? __dmul_rn(shrunk_number(v, i), SHRUNK_BY) : number_of(v, i);
        };
        const double own = number(x);
        second[i] = __fma_rn(own, TERM == PRODUCT ? number(y) : own, IS_FIRST ? 0 : second[i]);
#endif
    }

    // IS_MASKED: only the first `count` are there; of products and squares the others are +0, and change no sum.
    template <bool IS_FIRST, bool IS_SHRUNK, bool IS_MASKED>
    __device__ void add_numbers(const Vector& x, const Vector& y, double pivot, i64 count) {
#pragma unroll
        for (int i = 0; i < PER_LOAD; ++i) add_number<IS_FIRST, IS_SHRUNK>(i, x, y, pivot, !IS_MASKED || i < count);
    }

    // The numbers of a vector, of which the first `count` belong to the group.
    template <bool IS_FIRST>
    __device__ void add(const Vector& x, const Vector& y, double pivot, i64 count) {
        constexpr bool ARE_ALL = WHOLE || TERM != MOMENTS;
        if (WHOLE < 2 && count <= 0) return;
        const bool is_shrunk = are_shrunk(x) && (TERM != PRODUCT || are_shrunk(y));
        if (!ARE_ALL && ARE_SHORT) {
            if (is_shrunk) add_numbers<IS_FIRST, true, true>(x, y, pivot, count);
            else add_numbers<IS_FIRST, false, true>(x, y, pivot, count);
        } else if (ARE_ALL || count >= PER_LOAD) {  // nobody asks for each number whether it is there
            if (is_shrunk) add_numbers<IS_FIRST, true, false>(x, y, pivot, count);
            else add_numbers<IS_FIRST, false, false>(x, y, pivot, count);
        } else {
            add_numbers<IS_FIRST, false, true>(x, y, pivot, count);
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

    __device__ static load::Granules asked(const Code* data, i64 length, i64 at) {
        if constexpr (WHOLE < 2) return load::ask(data, length, at);
        return {load::read_once(data + at), {}};
    }

    __device__ static Vector assembled(const load::Granules& granules, const Code* data, i64 length, i64 at) {
        if constexpr (WHOLE == 0) return load::assemble(granules, data, length, at);
        Vector v;
        v.words = granules.first;
        return v;
    }

    __device__ void ask(int i, const Code* data, const Code* other, i64 length, i64 at) {
        x[i] = asked(data, length, at);
        if constexpr (TERM == PRODUCT) y[i] = asked(other, length, at);
    }

    template <bool IS_FIRST = false>
    __device__ void add_to(MomentSums& sums, int i, const Code* data, const Code* other, i64 length, i64 at, double pivot) {
        const Vector mine = assembled(x[i], data, length, at);
        if constexpr (TERM == PRODUCT)
            sums.add<IS_FIRST>(mine, assembled(y[i], other, length, at), pivot, length - at);
        else
            sums.add<IS_FIRST>(mine, mine, pivot, length - at);
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
        if (group >= p.groups) {
            if (WHOLE < 2) return;
            group = p.groups - 1;  // any row will do: each lane reads one
        }
        begin = group * p.stride;
        length = p.length;
        if constexpr (RAGGED) {
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
constexpr int GROUPS = WARP / LANES;  // of a warp at a time
constexpr int SUMS = TERM == MOMENTS ? 2 : 1;
constexpr int WIDTH = warp::power_of_two(TILES);
constexpr int OF_GROUPS = TURNS * SUMS;  // sums of the groups of LANES lanes
constexpr int NUMBERS = WIDTH * OF_GROUPS;
constexpr int KEPT = NUMBERS > LANES ? NUMBERS / LANES : 1;      // sums that a lane has in the end
constexpr int APART = NUMBERS > LANES ? 1 : LANES / NUMBERS;     // lanes from one sum to the next
static_assert(TILES == 1 || (LANES == WARP && NUMBERS <= WARP), "tiles have whole warps");

__device__ inline void store_group(const Moments& p, i64 group, double first, double second) {
    const MomentGroup own(p, group);
    if (group < p.groups && (own.length <= p.most || own.is_wrong)) store(p, group, own.length, own.is_wrong, {first, second});
}

// Adds up the sums that each lane has for its groups, and stores what they come to, unless a group is too long for a warp: in the
// index of `sums` the tile stands above the group, and that above the kind of sum.
__device__ inline void store_alone(const Moments& p, i64 first_group, double (&sums)[NUMBERS]) {
    warp::multi_reduce<NUMBERS, LANES / 2, 1>(sums);
#pragma unroll
    for (int half = WARP / 2; half > WARP / 2 / WIDTH; half /= 2) sums[0] += __shfl_xor_sync(ALL, sums[0], half);
    constexpr bool ARE_APART = KEPT < SUMS;  // the two sums of a group
    double other = 0;
    if constexpr (ARE_APART) other = __shfl_xor_sync(ALL, sums[0], APART);
    const int lane = threadIdx.x % LANES;
    if (lane >= OF_GROUPS * APART || lane % (ARE_APART ? SUMS * APART : APART)) return;
    const int place = lane / APART * KEPT;
#pragma unroll
    for (int i = 0; i < KEPT; i += SUMS)
        store_group(p, first_group + (place + i) / SUMS * GROUPS, sums[i], ARE_APART ? other : sums[i + (SUMS - 1) % KEPT]);
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, RESIDENT) moments(const __grid_constant__ Moments p) {
    const int lane = threadIdx.x % LANES;
    const i64 first_group = (static_cast<i64>(blockIdx.x) * WARPS + threadIdx.x / WARP) * TURNS * GROUPS + threadIdx.x % WARP / LANES;
    double sums[NUMBERS] = {};
    const auto put = [&](int tile, int turn, const MomentSums& of_lane) {
        double* const to = sums + (tile * TURNS + turn) * SUMS;
        to[0] = of_lane.first[0];
        to[SUMS - 1] = of_lane.second[0];
    };
#if TURNS > 1
    AskedOfBoth<TURNS * TILES> asked;
    double pivots[TURNS];
#pragma unroll
    for (int turn = 0; turn < TURNS; ++turn) {
        const MomentGroup own(p, first_group + turn * GROUPS);
        pivots[turn] = own.pivot();
#pragma unroll
        for (int tile = 0; tile < TILES; ++tile)
            asked.ask(turn * TILES + tile, own.data, own.other, own.length, (tile * WARP + lane) * PER_LOAD);
    }
#pragma unroll
    for (int turn = 0; turn < TURNS; ++turn) {
        const MomentGroup own(p, first_group + turn * GROUPS);
#pragma unroll
        for (int tile = 0; tile < TILES; ++tile) {
            MomentSums of_lane;
            asked.template add_to<true>(of_lane, turn * TILES + tile, own.data, own.other, own.length, (tile * WARP + lane) * PER_LOAD, pivots[turn]);
            of_lane.fold();
            put(tile, turn, of_lane);
        }
    }
#elif AHEAD
    const MomentGroup own(p, first_group);
    const double pivot = own.pivot();
    const auto place = [lane](int tile, int i) { return (tile * WARP + lane) * i64(PER_LOAD) + i * TURN; };
    AskedOfBoth<LONGER> asked, next;
    const auto ask = [&](int tile) {
#pragma unroll
        for (int i = 0; i < LONGER; ++i) next.ask(i, own.data, own.other, tile < TILES ? own.length : 0, place(tile, i));
    };
    ask(0);
    // One tile's text for all: with eight, registers went to memory, and rows of 8192 numbers of bfloat16 had 1.71 TB/s (H200).
#pragma unroll 1
    for (int tile = 0; tile < TILES; ++tile) {
        asked = next;
        ask(tile + 1);
        MomentSums of_lane;
        asked.template add_to<true>(of_lane, 0, own.data, own.other, own.length, place(tile, 0), pivot);
#pragma unroll
        for (int i = 1; i < LONGER; ++i) asked.add_to(of_lane, i, own.data, own.other, own.length, place(tile, i), pivot);
        of_lane.fold();
#pragma unroll
        for (int i = 0; i < TILES; ++i)
            if (i == tile) put(i, 0, of_lane);
    }
#elif LONGER && !RAGGED
    const MomentGroup own(p, first_group);
    const double pivot = own.pivot();
#pragma unroll 1
    for (int tile = 0; tile < TILES; ++tile) {
        MomentSums of_lane;
        add_turns(of_lane, own.data, own.other, own.length, pivot, (tile * WARP + lane) * i64(PER_LOAD));
        of_lane.fold();
#pragma unroll
        for (int i = 0; i < TILES; ++i)
            if (i == tile) put(i, 0, of_lane);
    }
#else
    const MomentGroup own(p, first_group);
    const i64 length = own.length <= p.most ? own.length : 0;
    const double pivot = length ? own.pivot() : 0;
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
            MomentSums of_lane;
            asked.template add_to<true>(of_lane, i, own.data, own.other, length, at, pivot);
            if (LONGER && length > TURN) add_turns(of_lane, own.data, own.other, length, pivot, at + TURN);
            of_lane.fold();
            put(some + i, 0, of_lane);
        }
    }
#endif
    store_alone(p, first_group, sums);
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
    u64* const slots = p.slots + 2 * (RAGGED ? own.begin / LEAST + group : group * chunks);
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
