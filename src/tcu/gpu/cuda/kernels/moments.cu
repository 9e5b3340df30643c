// Variances and standard deviations of rows, or of ragged segments: the sums of d = x - x[0] and of d · d by the plan
// of a dot product (tcu/plan/dot.py), and what they come to.  Or dot products of rows of two arrays, or norms, by that plan.
//
// A group is a row or a segment.  With ALONE a warp has groups of one chunk to itself: several short ones side by side,
// LANES lanes each, or one of up to TILES warps of the plan.  Otherwise the blocks of a group (blockIdx.y) share its
// chunks, and the last of them waits for the others' totals.  The plan's lanes, warps and loads that a short group
// lacks would be zeros, which change no sum.
//
// The floor is reading each number once.  A number costs three instructions in binary64, and a conversion, of which a multiprocessor
// makes 16 a cycle: enough for all that memory has.  To put its bits where binary64 has them by shifts took more instructions, and as much
// time or up to 0.12 more.  A short group costs as much as 250 numbers if it is added up alone, most of it shuffles and two divisions; so
// several are added up and finished at once.  Of copying's rate variances reach, of bfloat16, 0.83 for rows of 256 numbers, 0.69 of 1000,
// 0.85 of 8192, 0.67 of 32,768, 0.83 of 131,072 and 0.62 of 50,257, which begin anywhere; of binary32 0.92 to 1.07, but 0.79 of 16,384,
// and 0.84 of 50,257 (H200).
//
// What spilled registers: places of 64 bits, of which a turn of a block's threads needs several, and shifting vectors to where their
// numbers begin (rows of 50,257 numbers of binary32 had 2.4 TB/s in place of 3.6).
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
#include "device/load/fours.cuh"
#include "device/load/row.cuh"
#include "device/ragged/plan_chunks.cuh"
#include "device/warp/multi_reduce.cuh"
#include "device/warp/tree.cuh"

using namespace tcu;

constexpr int WARPS = ALONE ? 4 : PLAN_WARPS;       // of a block
constexpr int TOGETHER = 4;                         // loads of a lane in flight
constexpr int TURN = PLAN_WARPS * WARP * PER_LOAD;  // numbers that a block of the plan loads at a time
constexpr bool READ_SINGLY = LAYOUT != ALIGNED && sizeof(Code) < 8;  // not in granules, which would have to be shifted

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

    // IS_FIRST: its sums are 0 so far.  Then +0 is not added to d: a sum of zeros may be -0 in between, but not a group's in the
    // end, since the first number's d is +0.
    template <bool IS_FIRST>
    __device__ void add_number(int i, const Vector& x, const Vector& y, double pivot, bool is_there) {
        const double own = number_of(x, i);
#if TERM == MOMENTS
        const double d = is_there ? __dsub_rn(own, pivot) : 0;
        first[i] = IS_FIRST ? d : __dadd_rn(first[i], d);
        second[i] = IS_FIRST ? __dmul_rn(d, d) : __fma_rn(d, d, second[i]);
#else
        second[i] = __fma_rn(own, TERM == PRODUCT ? number_of(y, i) : own, IS_FIRST ? 0 : second[i]);
#endif
    }

    // The numbers of a vector, of which the first `count` belong to the group; IS_ALL: that is known to be all of them.  Of products
    // and squares the others are +0, and change no sum.
    template <bool IS_FIRST, bool IS_ALL>
    __device__ void add(const Vector& x, const Vector& y, double pivot, int count) {
        if (!IS_ALL && count <= 0) return;
        if (IS_ALL || WHOLE || TERM != MOMENTS || (!ARE_SHORT && count >= PER_LOAD)) {  // nobody asks for each whether it is there
#pragma unroll
            for (int i = 0; i < PER_LOAD; ++i) add_number<IS_FIRST>(i, x, y, pivot, true);
        } else {
#pragma unroll
            for (int i = 0; i < PER_LOAD; ++i) add_number<IS_FIRST>(i, x, y, pivot, i < count);
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

    template <bool IS_ALL>
    __device__ static load::Granules asked(const Code* data, int length, int at) {
        if constexpr (IS_ALL && LAYOUT == ALIGNED) return {load::read_once(data + at), {}};
        if constexpr (READ_SINGLY) {
            u32 words[4];
            load::read_own<IS_ALL>(data, at, length - at, 0, words);
            return {make_uint4(words[0], words[1], words[2], words[3]), {}};
        }
        return load::ask(data, length, at);
    }

    template <bool IS_ALL>
    __device__ static Vector assembled(const load::Granules& granules, const Code* data, int length, int at) {
        if constexpr (WHOLE == 0 && !READ_SINGLY && !(IS_ALL && LAYOUT == ALIGNED)) return load::assemble(granules, data, length, at);
        Vector v;
        v.words = granules.first;
        return v;
    }

    // IS_ALL: a lane is known to have all of the vector.
    template <bool IS_ALL = WHOLE == 2>
    __device__ void ask(int i, const Code* data, const Code* other, int length, int at) {
        x[i] = asked<IS_ALL>(data, length, at);
        if constexpr (TERM == PRODUCT) y[i] = asked<IS_ALL>(other, length, at);
    }

    template <bool IS_FIRST = false, bool IS_ALL = WHOLE == 2>
    __device__ void add_to(MomentSums& sums, int i, const Code* data, const Code* other, int length, int at, double pivot) {
        const Vector mine = assembled<IS_ALL>(x[i], data, length, at);
        if constexpr (TERM == PRODUCT)
            sums.add<IS_FIRST, IS_ALL>(mine, assembled<IS_ALL>(y[i], other, length, at), pivot, length - at);
        else
            sums.add<IS_FIRST, IS_ALL>(mine, mine, pivot, length - at);
    }
};

// The next TOGETHER of every TURN-th vector, the first of which begins at `data`, where a chunk has so many numbers `left`.
template <bool ARE_ALL>
__device__ inline void add_turn(MomentSums& sums, const Code* data, const Code* other, int left, double pivot) {
    AskedOfBoth<TOGETHER> asked;
#pragma unroll
    for (int i = 0; i < TOGETHER; ++i) asked.template ask<ARE_ALL>(i, data, other, left, i * TURN);
#pragma unroll
    for (int i = 0; i < TOGETHER; ++i) asked.template add_to<false, ARE_ALL>(sums, i, data, other, left, i * TURN, pivot);
}

// The loads from `at` on of every TURN-th vector, up to the end of a chunk.
__device__ inline void add_turns(MomentSums& sums, const Code* chunk, const Code* other, int length, double pivot, int at) {
    constexpr int STEP = TOGETHER * TURN;
    const Code *data = chunk + at, *beside = TERM == PRODUCT ? other + at : nullptr;
    int left = length - at;
    const int whole = ALONE ? 0 : length / STEP;
#pragma unroll 1
    for (int turn = 0; turn < whole; ++turn, left -= STEP) {
        add_turn<true>(sums, data, beside, left, pivot);
        data += STEP;
        if (TERM == PRODUCT) beside += STEP;
    }
#pragma unroll 1
    for (; __any_sync(ALL, left > 0); left -= STEP) {
        add_turn<false>(sums, data, beside, left, pivot);
        data += STEP;
        if (TERM == PRODUCT) beside += STEP;
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

    // What lanes that have a group to themselves read of it; they store nothing of a longer one.
    __device__ int within_reach() const { return static_cast<int>(min(length, i64(0x7fffffff))); }

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
            asked.ask(turn * TILES + tile, own.data, own.other, own.within_reach(), (tile * WARP + lane) * PER_LOAD);
    }
#pragma unroll
    for (int turn = 0; turn < TURNS; ++turn) {
        const MomentGroup own(p, first_group + turn * GROUPS);
#pragma unroll
        for (int tile = 0; tile < TILES; ++tile) {
            MomentSums of_lane;
            asked.template add_to<true>(of_lane, turn * TILES + tile, own.data, own.other, own.within_reach(), (tile * WARP + lane) * PER_LOAD, pivots[turn]);
            of_lane.fold();
            put(tile, turn, of_lane);
        }
    }
#elif AHEAD
    const MomentGroup own(p, first_group);
    const double pivot = own.pivot();
    const auto place = [lane](int tile, int i) { return (tile * WARP + lane) * PER_LOAD + i * TURN; };
    AskedOfBoth<LONGER> asked, next;
    const auto ask = [&](int tile) {
#pragma unroll
        for (int i = 0; i < LONGER; ++i) next.ask(i, own.data, own.other, tile < TILES ? own.within_reach() : 0, place(tile, i));
    };
    ask(0);
    // One tile's text for all: with eight, registers went to memory, and rows of 8192 numbers of bfloat16 had 1.71 TB/s (H200).
#pragma unroll 1
    for (int tile = 0; tile < TILES; ++tile) {
        asked = next;
        ask(tile + 1);
        MomentSums of_lane;
        asked.template add_to<true>(of_lane, 0, own.data, own.other, own.within_reach(), place(tile, 0), pivot);
#pragma unroll
        for (int i = 1; i < LONGER; ++i) asked.add_to(of_lane, i, own.data, own.other, own.within_reach(), place(tile, i), pivot);
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
        add_turns(of_lane, own.data, own.other, own.within_reach(), pivot, (tile * WARP + lane) * PER_LOAD);
        of_lane.fold();
#pragma unroll
        for (int i = 0; i < TILES; ++i)
            if (i == tile) put(i, 0, of_lane);
    }
#else
    const MomentGroup own(p, first_group);
    const int length = own.length <= p.most ? own.within_reach() : 0;
    const double pivot = length ? own.pivot() : 0;
#pragma unroll
    for (int some = 0; some < TILES; some += TOGETHER) {
        AskedOfBoth<TOGETHER> asked;
#pragma unroll
        for (int i = 0; i < TOGETHER; ++i)
            if (some + i < TILES) asked.ask(i, own.data, own.other, length, ((some + i) * WARP + lane) * PER_LOAD);
#pragma unroll
        for (int i = 0; i < TOGETHER; ++i) {
            if (some + i >= TILES) continue;
            const int at = ((some + i) * WARP + lane) * PER_LOAD;
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
// The sums of a block's threads, in thread 0: of each warp its lanes' first, half of which add up the one and half the other, then the
// warps'.
__device__ inline TwoSums across_block(double first, double second) {
    constexpr int WIDTH = warp::power_of_two(WARPS);
    __shared__ double of_warps[2][WARPS];
    const int lane = threadIdx.x % WARP;
    double both[] = {first, second};
    const double of_warp = warp::multi_reduce<2, WARP / 2, 1>(both);
    if (lane % (WARP / 2) == 0) of_warps[lane / (WARP / 2)][threadIdx.x / WARP] = of_warp;
    __syncthreads();
    if (threadIdx.x >= WARP) return {0, 0};
    const auto of_block = [&](int which) { return warp::tree<WIDTH>(lane < WARPS ? of_warps[which][lane] : 0.0); };
    return {of_block(0), of_block(1)};
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, RESIDENT) moments(const __grid_constant__ Moments p) {
    const i64 group = blockIdx.x;
    const MomentGroup own(p, group);
    // Groups that have a warp to themselves, and wrong ones among them, are stored there.
    if (p.most > 0 && (own.length <= p.most || own.is_wrong)) return;
    const double pivot = own.pivot();
    TwoSums sums = {0, 0};
    const i64 size = ragged::loads_of(own.length, TURN) * TURN, chunks = own.length ? ragged::chunks_of(own.length, TURN) : 0;
    const bool alone = chunks <= 1 && gridDim.y == 1;
    // The slots of a segment begin where those of all before it have ended at the latest.
    constexpr i64 LEAST = ragged::LEAST_LOADS * TURN;
    u64* const slots = p.slots + 2 * (RAGGED ? own.begin / LEAST + group : group * chunks);
#pragma unroll 1
    for (i64 chunk = blockIdx.y; chunk < chunks; chunk += gridDim.y) {
        const i64 at = chunk * size;
        MomentSums part;
        add_turns(part, own.data + at, own.other + at, static_cast<int>(min(own.length - at, size)), pivot, static_cast<int>(threadIdx.x) * PER_LOAD);
        part.fold();
        if (chunk != blockIdx.y) __syncthreads();  // the sums of the chunk before have been read
        const TwoSums both = across_block(part.first[0], part.second[0]);
        if (threadIdx.x != 0) continue;
        if (alone) {
            sums = both;
        } else {
            grid::publish(slots + 2 * chunk, both.first);
            grid::publish(slots + 2 * chunk + 1, both.second);
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
        sums = across_block(sums.first, sums.second);
    }
    if (threadIdx.x == 0) store(p, group, own.length, own.is_wrong, sums);
}
#endif
