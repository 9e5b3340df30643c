// Rows that threads keep in registers, a granule of 16 bytes of memory at a time, and sums of whole numbers over them, which
// have no order.
//
// Compiled with ELEMENT, LAYOUT (ALIGNED: granules are), RESULT (BINARY16 ... BINARY64, types/options.cuh), and
//   WIDE     1: binary64 throughout; 0: binary32
//   LANES    of a row, where it has no more than a warp: a power of two up to 32
//   WARPS    of a row, or with fewer than 2 of a block whose warps have rows of their own
//   CLUSTER  blocks of a row, which run at the same time (sm_90); with 2 and more, WARPS are those of each
//   LOADS    vectors of a thread at a time
//   PARTIAL  1: rows may begin or end within a granule
//   WHOLE    loads of all threads of a row that hold numbers of it alone, but for what lies in front of the first one
//   CONVERTED  1: terms become whole numbers by conversions to 64 bits; 0: by additions (Terms)
//   CODES    1: 16-bit numbers alone are kept, and what is made of them is made again; so a thread has room for twice as many
//   PASSES   1: several passes over a row; 0: it is kept
//   STRAIGHT 1: WHOLE loads are made without asking whether the row has numbers, which it must have then: code without branches has the
//            fewest instructions; 0: each thread asks, and these branches keep the compiler from converting all numbers at once, for which
//            registers may be too few
//
// An instruction for each number counts: of 16-bit numbers memory has 2.3·10^12 a second, and the multiprocessors of an H200
// 33·10^12 instructions.  So numbers are converted from the words that hold two of them, nobody asks whether a number of a whole
// vector is there, and of 16 bits two are compared at once.

#pragma once

#include "device/finish/sixteen_bits.cuh"
#include "device/load/array.cuh"
#include "device/load/cluster.cuh"
#include "device/types/ieee.cuh"
#include "device/warp/uniform.cuh"
#include "device/warp/warp_reduce.cuh"

namespace tcu::reduce {

#if PASSES
typedef i64 RowIndex;
#else
typedef int RowIndex;
#endif

constexpr int BLOCK = (WARPS > 1 ? WARPS : 4) * WARP;
constexpr int ROW_THREADS = WARPS > 1 ? CLUSTER * BLOCK : LANES;
constexpr int COUNT = LOADS * PER_LOAD;     // numbers of a thread at a time
constexpr RowIndex STEP = LOADS * ROW_THREADS;   // vectors of all of them

#if WIDE
typedef double Working;
__device__ inline Working real(Code code) { return to_binary64(code); }
__device__ inline Working rounded_real(double x) { return x; }
__device__ inline Working not_below(Working x, Working least) { return x > least ? x : least; }
#else
typedef float Working;
__device__ inline Working real(Code code) { return to_binary32(code); }
__device__ inline Working rounded_real(double x) { return __double2float_rn(x); }
__device__ inline Working not_below(Working x, Working least) { return fmaxf(x, least); }
#endif

__device__ inline Working lowest() { return __uint_as_float(0xff800000); }  // -inf
constexpr Code LOWEST_CODE =
    static_cast<Code>(ELEMENT == BINARY64 ? 0xfff0000000000000 : ELEMENT == BINARY32 ? 0xff800000 : ELEMENT == BFLOAT16 ? 0xff80 : 0xfc00);

// The larger one, or NaN where there is one.
__device__ inline Working larger(Working x, Working y) {
#if __CUDA_ARCH__ >= 800 && !WIDE
    float most;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(most) : "f"(x), "f"(y));
    return most;
#else
    return x > y || x != x ? x : y;
#endif
}

#define PAIRED (__CUDA_ARCH__ >= 800 && (ELEMENT == BINARY16 || ELEMENT == BFLOAT16))

#if PAIRED
// The same of two numbers of 16 bits each, and the smaller ones.
__device__ inline u32 larger_pair(u32 x, u32 y) {
    u32 most;
#if ELEMENT == BFLOAT16
    asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(most) : "r"(x), "r"(y));
#else
    asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(most) : "r"(x), "r"(y));
#endif
    return most;
}
__device__ inline u32 smaller_pair(u32 x, u32 y) {
    u32 least;
#if ELEMENT == BFLOAT16
    asm("min.NaN.bf16x2 %0, %1, %2;" : "=r"(least) : "r"(x), "r"(y));
#else
    asm("min.NaN.f16x2 %0, %1, %2;" : "=r"(least) : "r"(x), "r"(y));
#endif
    return least;
}
#endif

// Number j of a vector.
__device__ inline Working number_of(const Vector& v, int j) {
    if constexpr (sizeof(Code) == 2) return real(static_cast<Code>(v.word[j / 2] >> 16 * (j % 2)));
    else return real(v.codes[j]);
}

// The exponent of the power of two above a number that is not negative; 0 of 0.
__device__ inline int exponent_of(double x) {
    const bool tiny = x < 0x1p-1022;
    const int field = __double2hiint(tiny ? __dmul_rn(x, 0x1p64) : x) >> 20 & 0x7ff;
    return x == 0 ? 0 : field - 1022 - (tiny ? 64 : 0);
}

__device__ inline double power_of_two(int exponent) { return __hiloint2double((exponent + 1023) << 20, 0); }

constexpr int PARTS = 1 + WIDE;               // of a term: in binary64 what is above 2^-40, and what is left
constexpr int WORDS = PARTS * (1 + PASSES);  // of a sum: long rows have two for each part, high and low

// Terms that are rounded to whole numbers and added up, up to 2^8 of them.
struct Terms {
#if WIDE
    i64 above = 0, sum = 0;

    __device__ void add(Working e) {
        const i64 high = __double2ll_rn(__dmul_rn(e, 0x1p-40));
        above += high;
        sum += __double2ll_rn(__fma_rn(__ll2double_rn(high), -0x1p40, e));
    }

    __device__ void take_off(const Terms& one, int count) {
        above -= count * one.above;
        sum -= count * one.sum;
    }

    __device__ i64 part(int i) const { return i ? above : sum; }
#elif CONVERTED
    i64 sum = 0;

    __device__ void add(Working e) { sum += __float2ll_rn(e); }

    __device__ void take_off(const Terms& one, int count) { sum -= count * one.sum; }

    __device__ i64 part(int) const { return sum; }
#else
    int high = 0, low = 0;

    // Adding 1.5·2^46 rounds to a multiple of 2^23 and leaves it in the low bits; the rest is rounded likewise: 5 instructions in
    // place of 2, but conversions have an eighth of the rate.  Converted, rows of 1024 numbers of bfloat16 reach in softmax 3.80 in
    // place of 3.67 TB/s, in layer_norm 3.99 in place of 3.61, in rms_norm 3.87 in place of 3.97 (H200).
    __device__ void add(Working e) {
        const float above = __fadd_rn(e, 0x1.8p46f);
        const float rest = __fsub_rn(e, __fsub_rn(above, 0x1.8p46f));
        high += __float_as_int(above) - __float_as_int(0x1.8p46f);
        low += __float_as_int(__fadd_rn(rest, 0x1.8p23f)) - __float_as_int(0x1.8p23f);
    }

    __device__ void take_off(const Terms& one, int count) {
        high -= count * one.high;
        low -= count * one.low;
    }

    __device__ i64 part(int) const { return static_cast<i64>(high) * (1 << 23) + low; }
#endif
};

// A sum of terms, each rounded to a whole number.
struct WholeSum {
    i64 words[WORDS] = {};

    __device__ void add(const Terms& terms) {
#pragma unroll
        for (int i = 0; i < PARTS; ++i) {
            const i64 part = terms.part(i);
#if PASSES
            words[2 * i] += part & 0xffffffff;
            words[2 * i + 1] += part >> 32;
#else
            words[i] += part;
#endif
        }
    }

    // Takes off what `count` equal terms would add.
    __device__ void take_off(Working term, i64 count) {
        Terms terms;
        terms.add(term);
        WholeSum one;
        one.add(terms);
#pragma unroll
        for (int i = 0; i < WORDS; ++i) words[i] -= count * one.words[i];
    }

    // The sum over groups of LANES_OF lanes, in all of them; each has terms of up to LIMBS · 27 bits.
    template <int LANES_OF, int LIMBS>
    __device__ void add_lanes() {
        if constexpr (LANES_OF == WARP && WORDS == 1) {
            // Of limbs of 27 bits 32 have room in a word.
            i64 left = words[0], sum = 0;
#pragma unroll
            for (int i = 0; i < LIMBS - 1; ++i, left >>= 27)
                sum += static_cast<i64>(warp::reduce_add(static_cast<u32>(left) & 0x7ffffff)) << 27 * i;
            words[0] = sum + (static_cast<i64>(static_cast<int>(warp::reduce_add(static_cast<u32>(left)))) << 27 * (LIMBS - 1));
        } else {
#pragma unroll
            for (int half = LANES_OF / 2; half > 0; half /= 2)
#pragma unroll
                for (int i = 0; i < WORDS; ++i) words[i] += __shfl_xor_sync(ALL, words[i], half);
        }
    }

    // A part, rounded once to binary64.
    __device__ double part(int i) const {
#if PASSES
        const i64 low = words[2 * i], high = words[2 * i + 1] + (low >> 32);
        return __fma_rn(__ll2double_rn(high), 0x1p32, __ll2double_rn(low & 0xffffffff));
#else
        return __ll2double_rn(words[i]);
#endif
    }

    // In units of 2^-44, or 2^-80.
    __device__ double value() const {
#if WIDE
        return __fma_rn(part(1), 0x1p40, part(0));
#else
        return part(0);
#endif
    }
};

// The number of this thread's row, and which of the row's threads it is.  Where a row has all of a block its number does not depend on the
// thread's, so that a warp computes addresses once; else the thread is hidden from the compiler, which would join it with each load's
// place, and compute an address of 64 bits for each.
__device__ inline i64 row_number() {
    if constexpr (WARPS > 1) return blockIdx.x / CLUSTER;
    return static_cast<i64>(blockIdx.x) * (BLOCK / ROW_THREADS) + threadIdx.x / ROW_THREADS;
}
__device__ inline int thread_of_row() {
    if constexpr (WARPS > 1) return static_cast<int>(blockIdx.x % CLUSTER * BLOCK + threadIdx.x);
    return static_cast<int>(warp::opaque(threadIdx.x % ROW_THREADS));
}

// The row that this thread reads.  Where the last block has room for more rows than are left, threads without a row read the last one and
// write nothing.
__device__ inline i64 row_to_read(i64 rows) { return WARPS > 1 ? row_number() : min(row_number(), rows - 1); }
__device__ inline bool has_row(i64 rows) { return WARPS > 1 || row_number() < rows; }

// A row in memory, and which of its vectors are this thread's.
struct RowInMemory {
    const Code* granules;  // where the one begins that holds its first number
    int beside, at;        // numbers of that granule in front of it; the thread among the row's
    RowIndex length;       // 0 of a row that is not read

    __device__ RowInMemory(const Code* data, RowIndex length, int at)
        : beside(PARTIAL && length > 0 ? static_cast<int>(reinterpret_cast<u64>(data) % 16 / sizeof(Code)) : 0), at(at), length(length) {
        granules = data - beside;
    }

    __device__ RowIndex vectors() const { return (length + beside + PER_LOAD - 1) / PER_LOAD; }

    // What lies in front of the thread's vector i of those from `first` on, in numbers from the thread's first vector.
    __device__ static RowIndex behind(RowIndex first, int i) { return (first + i * ROW_THREADS) * PER_LOAD; }

    // The place in the row where that vector begins; it may be negative.
    __device__ RowIndex offset(RowIndex first, int i) const { return behind(first, i) + at * PER_LOAD - beside; }

    // Whether vector i, which begins there, has numbers of the row.
    __device__ bool has(int i, RowIndex offset) const { return i < WHOLE ? STRAIGHT || length > 0 : offset < length; }

    // Whether it has no others.
    __device__ bool is_whole(int i, RowIndex offset) const {
        if (!PARTIAL || (i > 0 && i < WHOLE)) return true;
        return offset >= 0 && (i < WHOLE || offset + PER_LOAD <= length);
    }

    // Whether the number there is the row's.
    __device__ bool has_number(RowIndex place) const { return !PARTIAL || (place >= 0 && place < length); }
};

// Does something with each of the thread's vectors from `first` on that have numbers of the row, and of its place there.
template <typename Action>
__device__ inline void every_vector(const RowInMemory& row, RowIndex first, Action action) {
#pragma unroll
    for (int i = 0; i < LOADS; ++i) {
        const RowIndex offset = row.offset(first, i);
        if (row.has(i, offset)) action(i, offset);
    }
}

enum Sign { OWN, TURNED, NONE };

// The numbers of a thread, as they lie in memory.
struct OwnNumbers {
    Vector v[LOADS];

    __device__ Working number(int i, int j) const { return number_of(v[i], j); }

    // From vector `first` of the row on; what a vector has beside the row becomes a number of the row that it has, too.  With loads that
    // L1 does not keep (read_once) kernels that write as much as they read are slower: rms_norm of rows of 1000 numbers of bfloat16
    // reached 3.95 in place of 4.12 TB/s, of 8192 of binary32 3.85 in place of 4.08 (H200).
    __device__ void load(const RowInMemory& row, RowIndex first) {
        const Code* const own = row.granules + row.at * PER_LOAD;
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            v[i].words = make_uint4(0, 0, 0, 0);
            if (row.has(i, row.offset(first, i))) v[i].words = __ldg(reinterpret_cast<const uint4*>(own + row.behind(first, i)));
        }
        if (!PARTIAL) return;
        every_vector(row, first, [&](int i, RowIndex offset) {
            if (row.is_whole(i, offset)) return;
            Code code = 0;
#pragma unroll
            for (int j = 0; j < PER_LOAD; ++j)
                if (row.has_number(offset + j)) code = v[i].codes[j];
#pragma unroll
            for (int j = 0; j < PER_LOAD; ++j)
                if (!row.has_number(offset + j)) v[i].codes[j] = code;
        });
    }

    // The largest number, with its own sign, with that turned, or without; NaN where there is one.
    template <Sign SIGN>
    __device__ Working largest(const RowInMemory& row, RowIndex first) const {
#if PAIRED
        constexpr u32 SIGNS = 0x80008000, TURN = SIGN == TURNED ? SIGNS : 0;
        u32 most = LOWEST_CODE * 0x10001u ^ TURN;
        every_vector(row, first, [&](int i, RowIndex) {
#pragma unroll
            for (u32 word : v[i].word)
                most = SIGN == TURNED ? smaller_pair(most, word) : larger_pair(most, SIGN == NONE ? word & ~SIGNS : word);
        });
        most ^= TURN;
        return larger(real(static_cast<Code>(most)), real(static_cast<Code>(most >> 16)));
#else
        Working most = lowest();
        every_vector(row, first, [&](int i, RowIndex) {
#pragma unroll
            for (int j = 0; j < PER_LOAD; ++j) {
                const Working x = number(i, j);
                most = larger(most, SIGN == TURNED ? -x : SIGN == NONE ? fabs(x) : x);
            }
        });
        return most;
#endif
    }
};

typedef
#if RESULT == BINARY64
    u64
#elif RESULT == BINARY32
    u32
#else
    u16
#endif
        ResultNumber;

union ResultVector {
    u32 words[PER_LOAD * sizeof(ResultNumber) / 4];
    ResultNumber codes[PER_LOAD];
};

__device__ inline ResultNumber rounded_code(Working x) {
    const bool nan = x != x;
#if RESULT == BINARY64
    return nan ? 0x7fffffffffffffff : __double_as_longlong(x);
#elif RESULT == BINARY32
    return nan ? 0x7fffffff : __float_as_uint(rounded_real(x));
#else
    return nan ? 0x7fff : finish::rounded_16(x);
#endif
}

// Does something from vector 0 on, and with PASSES every STEP vectors; in passes of odd numbers from the row's end on, as
// what was read last is still in the second cache.
template <int PASS, typename Action>
__device__ inline void every_step(const RowInMemory& row, Action action) {
#if PASSES
    const RowIndex steps = (row.vectors() + STEP - 1) / STEP;
#pragma unroll 1
    for (RowIndex step = 0; step < steps; ++step) action((PASS % 2 ? steps - 1 - step : step) * STEP);
#else
    action(0);
#endif
}

// Adds a term of each of the thread's numbers that are the row's: term(i, j) of number j of vector i.
template <typename Term>
__device__ inline void add_terms(Terms& terms, const RowInMemory& row, RowIndex first, Term term) {
    every_vector(row, first, [&](int i, RowIndex offset) {
#pragma unroll
        for (int j = 0; j < PER_LOAD; ++j) terms.add(term(i, j));
        if (row.is_whole(i, offset)) return;
        // All that is beside the row is the same number.
        const int low = static_cast<int>(max(-offset, RowIndex(0))), high = static_cast<int>(min(row.length - offset, RowIndex(PER_LOAD)));
        Terms beside;
        beside.add(low ? term(i, 0) : term(i, PER_LOAD - 1));
        terms.take_off(beside, PER_LOAD - high + low);
    });
}

// Stores what `finished` makes of number j of vector i, in whole vectors where they lie so; `ahead` hears before where in the row a
// vector begins.
template <typename Ahead, typename Finished>
__device__ inline void store_at_places(const RowInMemory& row, ResultNumber* out, RowIndex first, Ahead ahead, Finished finished) {
    constexpr int BYTES = sizeof(ResultVector) < 16 ? sizeof(ResultVector) : 16;  // of a store
    ResultNumber* const own = out + (row.at * PER_LOAD - row.beside);
    const bool lie_so = reinterpret_cast<u64>(own) % BYTES == 0;
#pragma unroll
    for (int i = 0; i < LOADS; ++i) {
        const RowIndex offset = row.offset(first, i);
        if (!row.has(i, offset)) continue;
        ahead(offset);
        ResultVector r;
#if (RESULT == BINARY16 || RESULT == BFLOAT16) && !WIDE
#pragma unroll
        for (int j = 0; j < PER_LOAD; j += 2) r.words[j / 2] = finish::rounded_pair(finished(i, j), finished(i, j + 1));
#else
#pragma unroll
        for (int j = 0; j < PER_LOAD; ++j) r.codes[j] = rounded_code(finished(i, j));
#endif
        ResultNumber* const place = own + row.behind(first, i);
        if (row.is_whole(i, offset) && lie_so) {
            u32* const to = reinterpret_cast<u32*>(place);
#pragma unroll
            for (int word = 0; word < static_cast<int>(sizeof(ResultVector) / 4); word += BYTES / 4) {
                if constexpr (BYTES == 16)
                    *reinterpret_cast<uint4*>(to + word) = make_uint4(r.words[word], r.words[word + 1], r.words[word + 2], r.words[word + 3]);
                else if constexpr (BYTES == 8)
                    *reinterpret_cast<uint2*>(to + word) = uint2{r.words[word], r.words[word + 1]};
                else
                    to[word] = r.words[word];
            }
        } else {
#pragma unroll
            for (int j = 0; j < PER_LOAD; ++j)
                if (row.has_number(offset + j)) place[j] = r.codes[j];
        }
    }
}

template <typename Finished>
__device__ inline void store(const RowInMemory& row, ResultNumber* out, RowIndex first, Finished finished) {
    store_at_places(row, out, first, [](RowIndex) {}, finished);
}

// The first talk of a row's blocks that is about a sum, behind those about largest numbers; and the first that is free in a kernel with
// one sum.
constexpr int TALK_OF_SUM = 2, FURTHER_TALK = 3;

#if CLUSTER > 1
constexpr int TALKS = 9;
constexpr int MOST_WORDS = 2;

// What a row's blocks tell each other, each of them all others: so many times a word or two.
struct Talk {
    u64 arrived, words[CLUSTER][MOST_WORDS];
};
typedef const u64 (*WordsOfBlocks)[MOST_WORDS];
__device__ inline Talk& talk_of(int which) {
    __shared__ Talk talks[TALKS];
    return talks[which];
}

// Tells all blocks of a cluster these words, and returns theirs.  A block writes into the others' memory: with reads from there by all
// threads, rows of bfloat16 took up to half as long again.  WHICH: each talk comes once, after wait_for_cluster.
template <int WHICH, int COUNT>
__device__ inline WordsOfBlocks heard_blocks(const u64 (&told)[COUNT]) {
    static_assert(WHICH < TALKS && COUNT <= MOST_WORDS);
    Talk& talk = talk_of(WHICH);
    if (threadIdx.x == 0) load::expect(CLUSTER * COUNT * sizeof(u64), &talk.arrived);
    if (threadIdx.x < CLUSTER) {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) load::tell_block(&talk.words[blockIdx.x % CLUSTER][i], &talk.arrived, threadIdx.x, told[i]);
    }
    load::wait_for_copy(&talk.arrived, 0);
    return talk.words;
}
#endif

// Called first, by all threads.
__device__ inline void begin_row() {
#if CLUSTER > 1
    if (threadIdx.x < TALKS) load::prepare(&talk_of(threadIdx.x).arrived);
    __syncwarp();
    load::arrive_in_cluster();
#endif
}

// The largest number of groups of LANES_OF lanes, in all of them; NaN where there is one.
template <int LANES_OF>
__device__ inline Working largest_of_lanes(Working most) {
    if constexpr (LANES_OF == WARP && !WIDE) {
        // Codes in the order of numbers, NaN above all.
        const auto ordered = [](int code) { return code ^ (code >> 31 & 0x7fffffff); };
        const int code = most != most ? 0x7fffffff : __float_as_int(static_cast<float>(most));
        return __int_as_float(ordered(warp::reduce_max(ordered(code))));
    } else {
#pragma unroll
        for (int half = LANES_OF / 2; half > 0; half /= 2) most = larger(most, __shfl_xor_sync(ALL, most, half));
        return most;
    }
}

// The largest number of a row's threads, in all of them.  WHICH: calls of a kernel have memory of their own.
template <int WHICH = 0>
__device__ inline Working largest_of_row(Working most) {
    most = largest_of_lanes<(WARPS > 1 ? WARP : LANES)>(most);
#if WARPS > 1
    __shared__ Working of_warps[WARPS];
    if (threadIdx.x % WARP == 0) of_warps[threadIdx.x / WARP] = most;
    __syncthreads();
    most = largest_of_lanes<WARP>(of_warps[threadIdx.x % WARP % WARPS]);
#endif
#if CLUSTER > 1
    if (WHICH == 0) load::wait_for_cluster();  // the first talk of kernels that have it
    const double of_this = most;  // a NaN stays one
    const u64 told[] = {static_cast<u64>(__double_as_longlong(of_this))};
    const WordsOfBlocks words = heard_blocks<WHICH>(told);
#pragma unroll
    for (int block = 0; block < CLUSTER; ++block) most = larger(most, static_cast<Working>(__longlong_as_double(words[block][0])));
#endif
    return most;
}

// The sum of a row's threads, in all of them.  WHICH: as above.
template <int WHICH = 0>
__device__ inline WholeSum whole_sum_of_row(WholeSum sum) {
    sum.add_lanes<(WARPS > 1 ? WARP : LANES), 2>();
#if WARPS > 1
    __shared__ i64 of_warps[WARPS * WORDS];
    const int lane = threadIdx.x % WARP;
    if (lane == 0) {
#pragma unroll
        for (int i = 0; i < WORDS; ++i) of_warps[threadIdx.x / WARP * WORDS + i] = sum.words[i];
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < WORDS; ++i) sum.words[i] = lane < WARPS ? of_warps[lane * WORDS + i] : 0;
    sum.add_lanes<WARP, 3>();
#endif
#if CLUSTER > 1
    u64 told[WORDS];
#pragma unroll
    for (int i = 0; i < WORDS; ++i) told[i] = sum.words[i];
    sum = WholeSum();
    const WordsOfBlocks words = heard_blocks<TALK_OF_SUM + WHICH>(told);
#pragma unroll
    for (int block = 0; block < CLUSTER; ++block)
#pragma unroll
        for (int i = 0; i < WORDS; ++i) sum.words[i] += words[block][i];
#endif
    return sum;
}

// The same, rounded to binary64.
template <int WHICH = 0>
__device__ inline double total_of_row(const WholeSum& sum) {
    return whole_sum_of_row<WHICH>(sum).value();
}

}  // namespace tcu::reduce
