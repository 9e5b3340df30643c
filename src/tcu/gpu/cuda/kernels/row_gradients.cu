// The gradients of softmax, of its logarithm, of norms of rows and of variances: tcu/surfaces/torch/row_derivatives.py and
// sum_derivatives.py say every operation, all of binary32.  Sums along rows are those of tcu.sum of binary32, by its plan: threads
// have the numbers that the plan's threads load, four neighbours at a time, and add them up in its order.
//
// A row has a warp, a block of the plan, or a cluster of as many blocks as the plan has chunks, which keep it in registers: each
// number is read once, and each result written once.  With CHUNKS it is longer than that, and read again for each sum and for the
// results; most of it is in the second cache then.
//
// The few rows of norms whose squares might leave the format are multiplied by a power of two first (tcu/plan/row_lifts.py).
//
// The floor is memory: two numbers read and one written; of bfloat16 4.2 TB/s leave 47 instructions for a number, of which centred norms
// take about 40, and conversions to binary64, of which a multiprocessor makes 16 a cycle, take half of the time.  Of copying's rate, of
// bfloat16, softmax reaches 1.01 to 1.03 for rows of 256 to 32,768 numbers and 0.92 of 131,072; log_softmax 0.89 to 0.96 up to 8192, 0.72
// of 32,768; rms_norm 0.93 to 1.02 up to 32,768, 0.85 of 131,072; layer_norm 0.67 to 0.76 up to 8192, 0.57 of 32,768; variances, of which
// one number is read and one written, 0.76 to 0.87 up to 32,768.  Of binary32 all but roots of variances reach 0.97 to 1.04 up to 8192,
// softmax 1.01 and rms_norm 0.96 of 131,072.  Rows that begin anywhere are slower: of 50,257 numbers softmax 0.70 and 0.81, rms_norm 0.61
// and 0.70, layer_norm 0.36 and 0.53; so are those of 262,144, which are read again: 0.34 to 0.61 (H200).
//
// Compiled with ELEMENT and RESULT (types/options.cuh), and
//   FINISH      SHARE: of softmax, where `kept` are its results; in what follows they are the numbers:
//               LOG_SHARE: of the logarithm, without CHUNKS, the softmax being computed again as exponentials.cu does;
//               UNIT, STANDARD, DIRECTION: of norms as in norms.cu; SLOPE: of variances, where one number is given for each row;
//               TOTAL: the sums of the numbers, and no gradients
//   KEPT_WIDE, GIVEN_WIDE  1: those are of binary32; 0: of ELEMENT
//   ROW_WARPS   of a row: 1, or those of a block of the plan
//   TURNS       loads of a thread for a row, or for a chunk of it
//   CLUSTER     blocks of a row, a chunk each (sm_90)
//   CHUNKS      1: rows of several chunks, of one block; 0: a block has one
//   WEIGHT      1: what is given is first multiplied by a number of binary32 for each place of a row, of norms with weights
//   IN_FOURS    1: rows begin at multiples of 16 bytes and have whole fours; 0: they begin anywhere (load/fours.cuh)
//   WHOLE       loads of all threads of a row that hold numbers of it alone
//   FORGETS     1: numbers of 16 bits are converted again for each sum
//   CONVERTED   as in reduce/rows_in_registers.cuh, of LOG_SHARE

#include "device/finish/sixteen_bits.cuh"
#include "device/load/fours.cuh"
#include "device/types/ieee.cuh"
#include "device/warp/multi_reduce.cuh"
#include "device/warp/tree.cuh"
#include "device/warp/uniform.cuh"

// For reduce/rows_in_registers.cuh.
#define WIDE 0
#define LANES 32
#define WARPS ROW_WARPS
#define LOADS TURNS
#define PARTIAL 0
#define CODES 0
#define PASSES 0
#define STRAIGHT 1

#include "device/reduce/row_exponentials.cuh"

using namespace tcu;

#define SHARE 0
#define LOG_SHARE 1
#define UNIT 2
#define STANDARD 3
#define DIRECTION 4
#define SLOPE 5
#define TOTAL 6

#include "generated/row_gradients/RowGradients.inc"
#include "generated/row_gradients/ROW_LIFTS.inc"

constexpr int TOGETHER = 4;                          // numbers of a load
constexpr int ROWS = ROW_WARPS == 1 ? 4 : 1;         // of a block
constexpr int THREADS = WARP * ROW_WARPS * ROWS;
constexpr bool HAS_GRADIENTS = FINISH != SLOPE && FINISH != TOTAL;  // one for each number

typedef
#if RESULT == BINARY32
    u32
#else
    u16
#endif
        GradientCode;

template <bool IS_32>
struct FourCodeOf {
    typedef u16 FourCode;
};
template <>
struct FourCodeOf<true> {
    typedef u32 FourCode;
};

// Four neighbours as they lie in memory; 0 where the row has none, or with LOG_SHARE, of the numbers, -inf.
template <bool IS_WIDE, bool IS_KEPT>
struct Four {
    static constexpr bool IS_32 = IS_WIDE || sizeof(Code) == 4;
    static constexpr u32 ABSENT = FINISH != LOG_SHARE || !IS_KEPT ? 0 : IS_32 ? 0xff800000 : reduce::LOWEST_CODE * 0x10001u;
    typedef typename FourCodeOf<IS_32>::FourCode FourCode;
    static constexpr int WORDS = sizeof(FourCode);
    u32 words[WORDS];

    // `beyond` the place `first` of a row, which has so many `left` from there on.
    template <bool IS_WHOLE>
    __device__ void read(const void* row, int first, int beyond, int left) {
        const FourCode* const own = static_cast<const FourCode*>(row) + first;
        if constexpr (!IN_FOURS) {
            load::read_own<IS_WHOLE>(own, beyond, left, ABSENT, words);
        } else {
#pragma unroll
            for (u32& word : words) word = ABSENT;
            if (IS_WHOLE || left > 0) load::read_granule(own + beyond, words);
        }
    }

    __device__ float number(int i) const {
        if constexpr (IS_32) return __uint_as_float(words[i]);
        else return to_binary32(static_cast<Code>(words[i / 2] >> 16 * (i % 2)));
    }

    // With FORGETS numbers are converted again from here on: converted ones take twice the registers, and went to memory.
    __device__ void forget_numbers() {
        if constexpr (!IS_32 && FORGETS) {
#pragma unroll
            for (u32& word : words) word = warp::opaque(word);
        }
    }
};

struct RowOfBoth {
    const char* kept;
    const char* given;
    GradientCode* out;
    int length, chunks;
    const float* weight;  // from a multiple of 16 bytes on, in whole fours

    // Where a thread's load `turn` of a chunk begins.
    __device__ static int at(int chunk, int turn) {
        return (chunk * TURNS + turn) * APART + static_cast<int>(ROW_WARPS == 1 ? threadIdx.x % WARP : threadIdx.x) * TOGETHER;
    }
    static constexpr int APART = ROW_WARPS * WARP * TOGETHER;  // from a turn to the next

    // The chunk that a block keeps.
    __device__ static int own_chunk() { return CLUSTER > 1 ? blockIdx.x % CLUSTER : 0; }

    // Whether all of a chunk is there, where that has to be asked.
    __device__ bool has_chunk(int chunk) const {
        return !IN_FOURS && (CLUSTER > 1 || CHUNKS) && (chunk + 1) * TURNS * APART <= length;
    }

    // Whether it has number i of a load, and all of them.
    __device__ bool has(int at, int i) const { return (IN_FOURS ? at : at + i) < length; }
    __device__ bool has_all(int turn, int at) const { return turn < WHOLE || has(at, TOGETHER - 1); }
};

// The weights of a load.
struct Weights {
    float numbers[TOGETHER];

    __device__ Weights(const RowOfBoth& row, int turn, int at) {
#if WEIGHT
        const uint4 v = turn < WHOLE || at < row.length ? __ldg(reinterpret_cast<const uint4*>(row.weight + at)) : make_uint4(0, 0, 0, 0);
        memcpy(numbers, &v, sizeof v);
#endif
    }

    __device__ float of(float g, int i) const { return WEIGHT ? times(g, numbers[i]) : g; }
};

// What a thread has of a row, or of a chunk.
struct OwnOfBoth {
    Four<KEPT_WIDE, true> kept[TURNS];
    Four<GIVEN_WIDE, false> given[TURNS];
#if FINISH == LOG_SHARE
    float shares[TURNS * TOGETHER];  // of kept
#endif

    __device__ void load(const RowOfBoth& row, int chunk) {
        if (row.has_chunk(chunk)) load_turns<0, true>(row, chunk);
        else load_turns<0, false>(row, chunk);
    }

    template <int TURN, bool IS_WHOLE>
    __device__ void load_turns(const RowOfBoth& row, int chunk) {
        constexpr bool IS_ALL = IS_WHOLE || TURN < WHOLE;
        const int first = RowOfBoth::at(chunk, 0), beyond = TURN * RowOfBoth::APART, left = row.length - first - beyond;
        kept[TURN].template read<IS_ALL>(row.kept, first, beyond, left);
        if constexpr (HAS_GRADIENTS) given[TURN].template read<IS_ALL>(row.given, first, beyond, left);
        if constexpr (TURN + 1 < TURNS) load_turns<TURN + 1, IS_WHOLE>(row, chunk);
    }

    __device__ void forget_numbers() {
#pragma unroll
        for (int turn = 0; turn < TURNS; ++turn) {
            if (FINISH != LOG_SHARE) kept[turn].forget_numbers();
            if (HAS_GRADIENTS) given[turn].forget_numbers();
        }
    }

    __device__ float number(int turn, int i) const {
#if FINISH == LOG_SHARE
        return shares[turn * TOGETHER + i];
#else
        return kept[turn].number(i);
#endif
    }

    __device__ float gradient(const Weights& weights, int turn, int i) const {
        return HAS_GRADIENTS ? weights.of(given[turn].number(i), i) : 0;
    }
};

template <typename Action>
__device__ inline void every_chunk(OwnOfBoth& own, const RowOfBoth& row, Action action) {
#if CHUNKS
#pragma unroll 1
    for (int chunk = 0; chunk < row.chunks; ++chunk) {
        own.load(row, chunk);
        action(chunk);
    }
#else
    action(RowOfBoth::own_chunk());
#endif
}

// Terms of numbers for as many sums of a row, and those.
template <int SUMS>
struct TermsOfSums {
    float of[SUMS];
};
template <int SUMS>
struct RowSums {
    double of[SUMS];
};

// The sums of the row's terms by the plan of tcu.sum, in binary64, in all threads of the row.  TALK: as in
// reduce/rows_in_registers.cuh; ARE_ALL_0: so are the terms of numbers and gradients that are 0.
template <int TALK, int SUMS, bool ARE_ALL_0, typename Term>
__device__ inline RowSums<SUMS> wide_sums_of_row(OwnOfBoth& own, const RowOfBoth& row, Term term) {
    own.forget_numbers();
    // Of a load, each number added to its own sum.
    const auto add_load = [&](double (&sums)[SUMS][TOGETHER], int chunk, int turn) {
        const int at = RowOfBoth::at(chunk, turn);
        const Weights weights(row, turn, at);
        const auto add = [&](int i) {
            const TermsOfSums<SUMS> terms = term(own.number(turn, i), own.gradient(weights, turn, i));
#pragma unroll
            for (int sum = 0; sum < SUMS; ++sum) sums[sum][i] = plus(sums[sum][i], static_cast<double>(terms.of[sum]));
        };
        if (ARE_ALL_0 || row.has_all(turn, at)) {
#pragma unroll
            for (int i = 0; i < TOGETHER; ++i) add(i);
        } else if (!IN_FOURS) {
#pragma unroll
            for (int i = 0; i < TOGETHER; ++i)
                if (row.has(at, i)) add(i);
        }
    };
    const auto of_a_load = [](const double (&sums)[TOGETHER]) { return plus(plus(sums[0], sums[2]), plus(sums[1], sums[3])); };
    RowSums<SUMS> result;
#if ROW_WARPS == 1
    constexpr int WIDTH = warp::power_of_two(TURNS);
    double tiles[WIDTH * SUMS] = {};
#pragma unroll
    for (int turn = 0; turn < TURNS; ++turn) {
        double sums[SUMS][TOGETHER] = {};
        add_load(sums, 0, turn);
#pragma unroll
        for (int sum = 0; sum < SUMS; ++sum) tiles[turn * SUMS + sum] = of_a_load(sums[sum]);
    }
    const double of_lane = warp::sum_of_tiles<WIDTH, 1>(tiles);
#pragma unroll
    for (int sum = 0; sum < SUMS; ++sum) result.of[sum] = __shfl_sync(ALL, of_lane, sum * (WARP / WIDTH / SUMS));
#else
    const int lane = threadIdx.x % WARP;
    constexpr int WIDTH = warp::power_of_two(ROW_WARPS);
    __shared__ double of_warps[SUMS][CHUNKS ? WARP : 1][WIDTH];
    every_chunk(own, row, [&](int chunk) {
        double sums[SUMS][TOGETHER] = {};
#pragma unroll
        for (int turn = 0; turn < TURNS; ++turn) add_load(sums, chunk, turn);
        double of_thread[SUMS];
#pragma unroll
        for (int sum = 0; sum < SUMS; ++sum) of_thread[sum] = of_a_load(sums[sum]);
        const double of_warp = warp::multi_reduce<SUMS, WARP / 2, 1>(of_thread);
        if (lane % (WARP / SUMS) == 0) of_warps[lane / (WARP / SUMS)][CHUNKS ? chunk : 0][threadIdx.x / WARP] = of_warp;
    });
    __syncthreads();
#pragma unroll
    for (int sum = 0; sum < SUMS; ++sum) {
        // Each lane adds up the warps of a chunk: what a warp's lanes tell each other takes longer.
        double warps[WIDTH];
#pragma unroll
        for (int i = 0; i < WIDTH; ++i) warps[i] = i < ROW_WARPS ? of_warps[sum][CHUNKS ? lane : 0][i] : 0.0;
#pragma unroll
        for (int half = WIDTH / 2; half > 0; half /= 2)
#pragma unroll
            for (int i = 0; i < half; ++i) warps[i] = plus(warps[i], warps[i + half]);
        result.of[sum] = warps[0];
    }
#if CLUSTER > 1
    u64 told[SUMS];
#pragma unroll
    for (int sum = 0; sum < SUMS; ++sum) told[sum] = __double_as_longlong(result.of[sum]);
    const reduce::WordsOfBlocks words = reduce::heard_blocks<TALK>(told);
#pragma unroll
    for (int sum = 0; sum < SUMS; ++sum) result.of[sum] = lane < CLUSTER ? __longlong_as_double(words[lane][sum]) : 0.0;
#elif CHUNKS
#pragma unroll
    for (int sum = 0; sum < SUMS; ++sum)
        if (lane >= row.chunks) result.of[sum] = 0.0;
#endif
    if constexpr (CLUSTER > 1 || CHUNKS) {
#pragma unroll
        for (int sum = 0; sum < SUMS; ++sum) result.of[sum] = __shfl_sync(ALL, warp::tree<WARP>(result.of[sum]), 0);
    }
#endif
    return result;
}

// The talks of a row, beside those of share_out.
enum Talks { FIRST = reduce::FURTHER_TALK, LOOK, LIFTED_FIRST, DEVIATIONS, ALONG };

// One of them, whose terms are 0 of numbers and gradients that are 0.
template <int TALK, typename Term>
__device__ inline double wide_sum_of_row(OwnOfBoth& own, const RowOfBoth& row, Term term) {
    return wide_sums_of_row<TALK, 1, true>(own, row, [&](float x, float g) { return TermsOfSums<1>{{term(x, g)}}; }).of[0];
}

template <int TALK, typename Term>
__device__ inline float sum_of_row(OwnOfBoth& own, const RowOfBoth& row, Term term) {
    return __double2float_rn(wide_sum_of_row<TALK>(own, row, term));
}

// The same where terms of 0 are not.
template <int TALK, typename Term>
__device__ inline float sum_of_deviations(OwnOfBoth& own, const RowOfBoth& row, Term term) {
    return __double2float_rn(
        wide_sums_of_row<TALK, 1, FINISH != STANDARD>(own, row, [&](float x, float g) { return TermsOfSums<1>{{term(x, g)}}; }).of[0]);
}

#if FINISH == LOG_SHARE
// Makes a row's numbers their softmax, as exponentials.cu does; what is not in the row is -inf.
__device__ inline void share_out(OwnOfBoth& own) {
    float most = reduce::lowest();
#pragma unroll
    for (int k = 0; k < TURNS * TOGETHER; ++k) most = reduce::larger(most, own.kept[k / TOGETHER].number(k % TOGETHER));
    most = reduce::largest_of_row<1>(most);
    reduce::Terms terms;
#pragma unroll
    for (int k = 0; k < TURNS * TOGETHER; ++k) {
        own.shares[k] = reduce::exponential(minus(own.kept[k / TOGETHER].number(k % TOGETHER), most));
        terms.add(own.shares[k]);
    }
    reduce::WholeSum sum;
    sum.add(terms);
    const double total = reduce::total_of_row(sum);
    const bool usual = most - most == 0;  // neither NaN nor inf
    const float over = usual ? __double2float_rn(__ddiv_rn(1.0, total)) : reduce::not_a_number();
#pragma unroll
    for (float& share : own.shares) share = times(share, over);
}
#endif

// What a row is multiplied by, from the code of its largest number (tcu/plan/row_lifts.py); 1 if that is not finite.
__device__ inline float lift_of(int largest, float most) {
    if (largest == 0 || largest >= 0x7f800000) return 1;
    const int exponent = largest >> 23 ? (largest >> 23) - 126 : -117 - __clz(largest);
    const int shift = min(max(exponent, LOWEST), HIGHEST) - exponent;
    return fminf(__int_as_float((shift + 127) << 23), most);
}

// 2^(2·exponent)
__device__ inline float square_of(int exponent) { return __int_as_float((2 * exponent + 127) << 23); }

typedef load::StagedFours<GradientCode> GradientsOfWarp;
__device__ inline GradientsOfWarp& staged_of_warp() {
    __shared__ GradientsOfWarp staged[THREADS / WARP];
    return staged[threadIdx.x / WARP];
}

// Stores what `finished` makes of the numbers of a chunk, from TURN on.
template <int TURN, bool IS_CHUNK, typename Finished>
__device__ inline void store_turns(OwnOfBoth& own, const RowOfBoth& row, int chunk, Finished finished) {
    constexpr bool IS_WHOLE = IS_CHUNK || TURN < WHOLE;
    const int at = RowOfBoth::at(chunk, TURN);
    const Weights weights(row, TURN, at);
    float x[TOGETHER];
#pragma unroll
    for (int i = 0; i < TOGETHER; ++i) x[i] = finished(own.number(TURN, i), own.gradient(weights, TURN, i));
    u32 words[sizeof(GradientCode)];
#if RESULT == BINARY32
#pragma unroll
    for (int i = 0; i < TOGETHER; ++i) words[i] = x[i] != x[i] ? 0x7fffffff : __float_as_uint(x[i]);
#else
    words[0] = finish::rounded_pair(x[0], x[1]);
    words[1] = finish::rounded_pair(x[2], x[3]);
#endif
#if IN_FOURS
    if (IS_WHOLE || at < row.length) load::write_granule(row.out + at, words);
#else
    load::write_fours<IS_WHOLE>(row.out + RowOfBoth::at(chunk, 0), TURN * RowOfBoth::APART, row.length - at, words, staged_of_warp());
#endif
    if constexpr (TURN + 1 < TURNS) store_turns<TURN + 1, IS_CHUNK>(own, row, chunk, finished);
}

template <typename Finished>
__device__ inline void store(OwnOfBoth& own, const RowOfBoth& row, Finished finished) {
    own.forget_numbers();
    every_chunk(own, row, [&](int chunk) {
        if (row.has_chunk(chunk)) store_turns<0, true>(own, row, chunk, finished);
        else store_turns<0, false>(own, row, chunk, finished);
    });
}

#if FINISH == UNIT || FINISH == STANDARD || FINISH == DIRECTION
// The first sums of a row: where it is centred of the numbers and of the gradients, else of the numbers' squares.
struct FirstSums {
    float of_x, of_g = 0;

    template <int TALK, typename Lifted>
    static __device__ FirstSums of(OwnOfBoth& own, const RowOfBoth& row, Lifted lifted) {
#if FINISH == STANDARD
        const RowSums<2> sums = wide_sums_of_row<TALK, 2, true>(own, row, [&](float x, float g) { return TermsOfSums<2>{{lifted(x), g}}; });
        return {__double2float_rn(sums.of[0]), __double2float_rn(sums.of[1])};
#else
        return {sum_of_row<TALK>(own, row, [&](float x, float) { return times(lifted(x), lifted(x)); })};
#endif
    }
};

// Stores the gradients of a row whose numbers are multiplied by `lift`; `first`: the first sums, of a row that is not.  In one text
// for both, registers of rows of 1000 numbers of binary32 went to memory.
template <bool LIFTED>
__device__ inline void store_of_norm(OwnOfBoth& own, const RowOfBoth& row, const RowGradients& p, FirstSums first, float lift) {
    [[maybe_unused]] const float count = static_cast<float>(p.length);
    const auto lifted = [&](float x) { return LIFTED ? times(x, lift) : x; };
    const auto centred = [](float x, float mean) { return FINISH == STANDARD ? minus(x, mean) : x; };
    if (LIFTED) first = FirstSums::of<LIFTED_FIRST>(own, row, lifted);
    float mean_of_x = 0, mean_of_g = 0, squares = first.of_x;
#if FINISH == STANDARD
    mean_of_x = __fdiv_rn(first.of_x, count);
    mean_of_g = __fdiv_rn(first.of_g, count);
#endif
    const auto deviation = [&](float x) { return centred(lifted(x), mean_of_x); };
#if FINISH == STANDARD
    squares = sum_of_deviations<DEVIATIONS>(own, row, [&](float x, float) {
        const float d = deviation(x);
        return times(d, d);
    });
#endif
    const float back = LIFTED && squares != 0 ? lift : 1;  // 1 of equal numbers, whose lifted eps might underflow
    const double eps_lifted = __dmul_rn(p.eps, back);
    const float eps = __double2float_rn(FINISH == DIRECTION ? eps_lifted : __dmul_rn(eps_lifted, back));
    const float root = __fsqrt_rn(FINISH == DIRECTION ? squares : plus(__fdiv_rn(squares, count), eps));
    const float factor = __fdiv_rn(1.0f, FINISH == DIRECTION && root < eps ? eps : root);
    float along = sum_of_deviations<ALONG>(own, row, [&](float x, float g) {
        return times(centred(g, mean_of_g), times(deviation(x), factor));
    });
    // Of a DIRECTION a zero is divided, and stays what it is.  Its branch keeps the compiler from computing here already what is stored of
    // all numbers: without it rows of 1000 numbers of bfloat16 spilled 52 words.
    if (FINISH == DIRECTION && !(root > eps)) along = __fdiv_rn(times(along, 0.0f), count);
    if (FINISH != DIRECTION) along = __fdiv_rn(along, count);
    store(own, row, [&](float x, float g) {
        const float y = times(deviation(x), factor);
        const float gradient = times(factor, minus(centred(g, mean_of_g), times(y, along)));
        return LIFTED ? times(back, gradient) : gradient;
    });
}
#endif

extern "C" __global__ void __launch_bounds__(THREADS, resident(RESIDENT, THREADS)) row_gradients(const __grid_constant__ RowGradients p) {
    reduce::begin_row();
    const i64 number = static_cast<i64>(blockIdx.x / CLUSTER) * ROWS + (ROWS > 1 ? threadIdx.x / WARP : 0);
    if (number >= p.rows) return;
    constexpr int KEPT_BYTES = KEPT_WIDE ? 4 : sizeof(Code), GIVEN_BYTES = GIVEN_WIDE ? 4 : sizeof(Code);
    const RowOfBoth row = {
        static_cast<const char*>(p.kept) + number * p.kept_stride * KEPT_BYTES,
        static_cast<const char*>(p.given) + number * p.given_stride * GIVEN_BYTES,
        static_cast<GradientCode*>(p.out) + number * p.length, static_cast<int>(p.length), static_cast<int>(p.chunks),
        static_cast<const float*>(p.weight)};
    OwnOfBoth own;
    if (!CHUNKS) own.load(row, RowOfBoth::own_chunk());
#if CLUSTER > 1
    load::wait_for_cluster();  // before blocks write into each other's memory
#endif
#if FINISH == SHARE
    const float total = sum_of_row<FIRST>(own, row, [](float y, float g) { return times(g, y); });
    store(own, row, [&](float y, float g) { return times(y, minus(g, total)); });
#elif FINISH == LOG_SHARE
    share_out(own);
    const float total = sum_of_row<FIRST>(own, row, [](float, float g) { return g; });
    store(own, row, [&](float share, float g) { return minus(g, times(share, total)); });
#elif FINISH == SLOPE
    const float given = static_cast<const float*>(p.given)[number];
    const double sum = wide_sum_of_row<FIRST>(own, row, [](float x, float) { return x; });
    const float mean = __double2float_rn(__ddiv_rn(sum, static_cast<double>(p.length)));
    const float left = __double2float_rn(p.left);
    store(own, row, [&](float x, float) { return times(given, __fdiv_rn(minus(x, mean), left)); });
#elif FINISH == TOTAL
    const float total = sum_of_row<FIRST>(own, row, [](float x, float) { return x; });
    if (threadIdx.x % (WARP * ROW_WARPS) == 0 && RowOfBoth::own_chunk() == 0) static_cast<float*>(p.out)[number] = total;
#else
    float largest = 0;
    const auto look = [&](float x) {
        largest = reduce::larger(largest, fabsf(x));
        return x;
    };
    const FirstSums first = FirstSums::of<FIRST>(own, row, [&](float x) { return FINISH == STANDARD ? look(x) : x; });
    bool is_far = ELEMENT != BINARY16 || KEPT_WIDE;  // all numbers of binary16 are between the ends
#if FINISH != STANDARD
    // The largest square is no more than the sum and no less than the mean, but for what is rounded.
    const float least = __fmul_rn(static_cast<float>(p.length), square_of(LOWEST)), most = __fmul_rn(0.25f, square_of(HIGHEST));
    is_far = is_far && !(first.of_x >= least && first.of_x < most);
    if (is_far) sum_of_row<LOOK>(own, row, [&](float x, float) { return look(x); });
#endif
    const float lift = is_far ? lift_of(__float_as_int(reduce::largest_of_row<1>(largest)), __double2float_rn(p.most_lift)) : 1;
    if (lift == 1)
        store_of_norm<false>(own, row, p, first, 1);
    else
        store_of_norm<true>(own, row, p, first, lift);
#endif
}
