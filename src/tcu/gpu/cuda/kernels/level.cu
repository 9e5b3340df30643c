// One level of a discrete Fourier transform in one pass over memory: the tall products of complex rows and the
// Fourier matrix, with all that happens to a number before and after them.
//
// Number j of row r of what a level reads lies j·rows + r numbers into its transform.  Number c of row r of what it
// writes lies (r / done · LENGTH + c) · done + r % done into it (Stockham's order). So neighbouring rows are
// neighbours in memory on both sides.
//
// A block takes ROWS rows of the unit, with GROUP rows of the level in each.  It fetches their numbers, rounds them
// to inputs of the unit, and puts them into shared memory as the words of fragments.  Its warps multiply them by
// matrices, which come from the cache in the order of fragments, add the real products up to complex numbers, and
// leave these in shared memory.  Last, the block goes through them in the order in which they are written: it
// multiplies them by their twiddles (or scales them back), rounds and stores them.  Each operation is rounded by
// itself, in the order of tcu/algorithms/complex_rows.py and dft.py: the bits are those of the same steps one by one.
//
// Compiled with the macros of mma.cu and these:
//   LENGTH         numbers in a row
//   GROUP          rows of one transform side by side in a row of the unit
//   ROWS           rows of the unit that a block takes, a multiple of TILE_M
//   PRODUCT        FOUR, THREE or EMBEDDED: how complex products are made of real ones
//   PARTS          inputs that a number is split into
//   PART_BITS      bits that one of them takes
//   REAL           float or double, in which everything outside the unit is computed
//   NARROW, WIDEN  how a REAL becomes an INPUT, and back: functions of mma/narrow.cuh
//   SOURCE, SOURCE_LAYOUT, TARGET, TARGET_LAYOUT
//                  the type of elements in memory; INPUTS: planes of inputs of the unit, REALS: planes of real
//                  numbers, PAIRS: complex numbers
//   LOADS, STORES  numbers that a thread fetches and stores in one go
//   WIDTH          tiles of TILE_N columns that a warp has in its registers
//   RUN            rows in a run of neighbours in the order of writing: gcd(done, ROWS · GROUP)
//   DONE_IS_RUN    1: done divides ROWS · GROUP
//   WHOLE          1: no block has rows of two transforms, and none has fewer than the others
//   SHARED         bytes of shared memory that a block is given
//   SCALED         1: the first level scales down, the last one back
//   FIRST, LAST    1: the first, the last level

#include "device/mma/narrow.cuh"
#include "device/types/ieee.cuh"

using namespace tcu;

enum { FOUR, THREE, EMBEDDED };
enum { INPUTS, REALS, PAIRS };

#include "generated/transforms/Numbers.inc"

#include "generated/transforms/TransformLevel.inc"

constexpr int SLOTS = PRODUCT == THREE ? 3 : 2;  // real numbers that are made of each complex one
constexpr int OPERANDS = PRODUCT == EMBEDDED ? 1 : SLOTS;
constexpr int MATRICES = OPERANDS;
constexpr int PRODUCTS = PRODUCT == FOUR ? 4 : OPERANDS;
constexpr int TERMS = PARTS * (PARTS + 1) / 2;  // products of parts that a real product is the sum of
constexpr int SIDE = GROUP * LENGTH * (PRODUCT == EMBEDDED ? 2 : 1);
constexpr int DEPTH = (SIDE + TILE_K - 1) / TILE_K;
constexpr int K_WORDS = DEPTH * TILE_K / mma::INPUTS_PER_WORD;
constexpr int CHUNKS = (SIDE + WIDTH * TILE_N - 1) / (WIDTH * TILE_N);
constexpr int COLUMN_TILES = CHUNKS * WIDTH;
constexpr int STRIPES = ROWS / TILE_M;
constexpr int TILE_ROWS = ROWS * GROUP;
constexpr int RESULTS = PRODUCT == EMBEDDED ? SIDE : 2 * SIDE;
// The rows of shared memory are longer, so that the lanes of a fragment meet different banks.
constexpr int PITCH = ROWS + 32 / sizeof(WORD);
constexpr int RESULT_PITCH = ROWS + 16 / sizeof(REAL);
constexpr int WORDS_BYTES = OPERANDS * PARTS * K_WORDS * PITCH * sizeof(WORD);
static_assert(SHARED == WORDS_BYTES + RESULTS * RESULT_PITCH * sizeof(REAL), "the host gives a block what it needs");
// How many k one thread puts together into a word, and whether it does.
constexpr bool BY_WORDS = GROUP == 1 && LENGTH % mma::INPUTS_PER_WORD == 0;
constexpr int TOGETHER = BY_WORDS ? mma::INPUTS_PER_WORD : 1;
constexpr int ACROSS = TILE_ROWS / LOADS;
constexpr int ITEMS = LENGTH / TOGETHER * ACROSS;

template <typename Element, int N>
struct alignas(sizeof(Element) * N < 16 ? sizeof(Element) * N : 16) Pack {
    Element at[N];
};

__device__ inline REAL power_of_two(int exponent) {
    if constexpr (sizeof(REAL) == 4)
        return __uint_as_float(static_cast<u32>(exponent + 127) << 23);
    else
        return __longlong_as_double(static_cast<i64>(exponent + 1023) << 52);
}

// The exponent e with largest · 2^e in [2^(top - 1), 2^top), for the bits of a binary32 number; as numpy.frexp
// defines it.
__device__ inline int shift_of(u32 largest, int top) {
    const int field = static_cast<int>(largest >> 23);
    const int exponent = largest == 0 || field == 255 ? 1 : field - 126;
    return min(max(top - exponent, -126), 126);
}

// ---- where rows are ----

struct RowPlace {
    i64 member;
    u32 row;
    bool inside;
};

__device__ inline RowPlace place_of(const TransformLevel& l, int local) {
    if constexpr (WHOLE) {
        const u32 tiles = static_cast<u32>(l.rows) / TILE_ROWS;
        return {blockIdx.x / tiles, blockIdx.x % tiles * TILE_ROWS + local, true};
    } else {
        const u32 row = blockIdx.x * static_cast<u32>(TILE_ROWS) + local, padded = static_cast<u32>(l.padded);
        const u32 member = row / padded, own = row % padded;
        return {member, own, member < l.members && own < l.rows};
    }
}

// ---- numbers from memory to the words of fragments ----

template <bool CONDITION, typename A, typename B>
struct Either { typedef A Choice; };
template <typename A, typename B>
struct Either<false, A, B> { typedef B Choice; };

// Inputs of 16 bits stay in words: to take them apart and to put them together again would cost more than all else
// here.
constexpr bool HALVES = SOURCE_LAYOUT == INPUTS && mma::INPUTS_PER_WORD == 2 && LOADS % 2 == 0;
typedef Either<HALVES, Pack<u32, (LOADS + 1) / 2>, Pack<SOURCE, SOURCE_LAYOUT == PAIRS ? 2 * LOADS : LOADS>>::Choice Loaded;

struct Fetched {
    Loaded first, second;  // planes; or pairs in the first
};

__device__ inline Fetched fetched(const Numbers& x, i64 member, i64 index) {
    Fetched result = {};
    const i64 at = member * x.member + index * (LOADS == 1 || SOURCE_LAYOUT == PAIRS ? x.step : 1);
    const SOURCE* real = static_cast<const SOURCE*>(x.real);
    const SOURCE* imaginary = static_cast<const SOURCE*>(x.imaginary);
    if constexpr (SOURCE_LAYOUT == PAIRS) {
        result.first = *reinterpret_cast<const Loaded*>((real < imaginary ? real : imaginary) + at);
    } else {
        if (real) result.first = *reinterpret_cast<const Loaded*>(real + at);
        if (imaginary) result.second = *reinterpret_cast<const Loaded*>(imaginary + at);
    }
    return result;
}

__device__ inline SOURCE part_of(const Numbers& x, const Fetched& f, int number, bool imaginary) {
    if constexpr (SOURCE_LAYOUT == PAIRS)
        return imaginary != (x.imaginary < x.real) ? f.first.at[2 * number + 1] : f.first.at[2 * number];
    else
        return imaginary ? f.second.at[number] : f.first.at[number];
}

// What holds element v of a fetch: the element itself, or a word with its neighbour.
__device__ inline u64 word_of(const Loaded& x, int v) { return static_cast<u64>(x.at[HALVES ? v / 2 : v]); }

// The inputs that a number is split into: x is the sum of 2^(-PART_BITS · i) times input i, but for a rest.
__device__ inline void split(REAL x, INPUT (&inputs)[PARTS]) {
#pragma unroll
    for (int i = 0; i < PARTS; ++i) {
        inputs[i] = mma::NARROW(x);
        if constexpr (PARTS > 1)
            if (i + 1 < PARTS) x = times(plus(x, -mma::WIDEN(inputs[i])), static_cast<REAL>(1 << PART_BITS));
    }
}

__device__ inline void inputs_of(const Numbers& source, const Fetched& f, int v, REAL down, INPUT (&inputs)[SLOTS][PARTS]) {
    if constexpr (SOURCE_LAYOUT == INPUTS) {
        inputs[0][0] = static_cast<INPUT>(HALVES ? word_of(f.first, v) >> (16 * (v % 2)) : word_of(f.first, v));
        inputs[SLOTS - 1][0] = static_cast<INPUT>(HALVES ? word_of(f.second, v) >> (16 * (v % 2)) : word_of(f.second, v));
    } else {
        REAL real = static_cast<REAL>(part_of(source, f, v, false));
        REAL imaginary = static_cast<REAL>(part_of(source, f, v, true));
        if constexpr (FIRST && SCALED) {
            real = times(real, down);
            imaginary = times(imaginary, down);
        }
        if constexpr (PRODUCT == THREE) split(plus(real, imaginary), inputs[0]);
        split(real, inputs[SLOTS - 2]);
        split(imaginary, inputs[SLOTS - 1]);
    }
}

__device__ inline void fill(const TransformLevel& l, WORD* words) {
    constexpr int EACH = (ITEMS + THREADS - 1) / THREADS;
    constexpr int ROOM = 128 / static_cast<int>(TOGETHER * sizeof(Fetched));
    constexpr int AT_ONCE = EACH < ROOM ? EACH : ROOM > 1 ? ROOM : 1;  // fetches on their way at a time
    if constexpr (SIDE % TILE_K != 0) {
        for (int i = threadIdx.x; i < OPERANDS * PARTS * K_WORDS * PITCH; i += THREADS) words[i] = 0;
        __syncthreads();
    }
#pragma unroll 1
    for (int first = threadIdx.x; first < ITEMS; first += THREADS * AT_ONCE) {
        Fetched data[AT_ONCE][TOGETHER] = {};
        RowPlace places[AT_ONCE];
#pragma unroll
        for (int n = 0; n < AT_ONCE; ++n) {
            const int item = first + n * THREADS;
            places[n] = {0, 0, false};
            if (ITEMS % (THREADS * AT_ONCE) != 0 && item >= ITEMS) continue;
            places[n] = place_of(l, item % ACROSS * LOADS);
#pragma unroll
            for (int i = 0; i < TOGETHER; ++i) {
                const i64 j = item / ACROSS * TOGETHER + i;
                if (places[n].inside) data[n][i] = fetched(l.source, places[n].member, j * l.rows + places[n].row);
            }
        }
#pragma unroll
        for (int n = 0; n < AT_ONCE; ++n) {
            const int item = first + n * THREADS;
            if (ITEMS % (THREADS * AT_ONCE) != 0 && item >= ITEMS) continue;
            REAL down = 0;
            if constexpr (FIRST && SCALED) {
                if (places[n].inside) {
                    const u32 largest = l.largest[places[n].member];
                    down = largest < 0x7f800000 ? power_of_two(shift_of(largest, static_cast<int>(l.top)))
                                                : static_cast<REAL>(__uint_as_float(0x7fc00000));
                }
            }
            Pack<WORD, LOADS> packed[SLOTS][PARTS] = {};
            if (HALVES && TOGETHER == 2) {
                const Fetched &even = data[n][0], &odd = data[n][TOGETHER - 1];  // zeros outside
#pragma unroll
                for (int v = 0; v < LOADS; ++v) {
                    const u32 selector = v % 2 ? 0x7632 : 0x5410;
                    packed[0][0].at[v] = __byte_perm(word_of(even.first, v), word_of(odd.first, v), selector);
                    packed[SLOTS - 1][0].at[v] = __byte_perm(word_of(even.second, v), word_of(odd.second, v), selector);
                }
            } else if (places[n].inside) {
#pragma unroll
                for (int v = 0; v < LOADS; ++v)
#pragma unroll
                    for (int i = 0; i < TOGETHER; ++i) {
                        INPUT inputs[SLOTS][PARTS];
                        inputs_of(l.source, data[n][i], v, down, inputs);
#pragma unroll
                        for (int s = 0; s < SLOTS; ++s)
#pragma unroll
                            for (int p = 0; p < PARTS; ++p)
                                packed[s][p].at[v] |= static_cast<WORD>(inputs[s][p]) << (8 * sizeof(INPUT) * i);
                    }
            }
            const int local = item % ACROSS * LOADS, j = item / ACROSS * TOGETHER;
#pragma unroll
            for (int s = 0; s < SLOTS; ++s) {
                // Embedded: the numbers of a row, real parts and then imaginary ones, are one operand.
                const int operand = PRODUCT == EMBEDDED ? 0 : s, before = PRODUCT == EMBEDDED ? s * LENGTH : 0;
#pragma unroll
                for (int p = 0; p < PARTS; ++p) {
                    WORD* plane = words + (operand * PARTS + p) * K_WORDS * PITCH;
                    if constexpr (BY_WORDS) {
                        *reinterpret_cast<Pack<WORD, LOADS>*>(plane + (before + j) / mma::INPUTS_PER_WORD * PITCH + local) =
                            packed[s][p];
                    } else {
#pragma unroll
                        for (int v = 0; v < LOADS; ++v) {
                            const int k = (local + v) % GROUP * (SIDE / GROUP) + before + j;
                            INPUT* word =
                                reinterpret_cast<INPUT*>(plane + k / mma::INPUTS_PER_WORD * PITCH + (local + v) / GROUP);
                            word[k % mma::INPUTS_PER_WORD] = static_cast<INPUT>(packed[s][p].at[v]);
                        }
                    }
                }
            }
        }
    }
}

// ---- products ----

// The index, among the terms, of the product of part i of the left operand and part j of the right one.
__device__ constexpr int term(int i, int j) { return (i + j) * (i + j + 1) / 2 + j; }

__device__ inline REAL value_of(const WORD (&d)[mma::D_WORDS], int i) {
    if constexpr (sizeof(OUTPUT) == 8)
        return static_cast<REAL>(__longlong_as_double(static_cast<i64>(d[i])));
    else if constexpr (sizeof(OUTPUT) == 4)
        return static_cast<REAL>(__uint_as_float(static_cast<u32>(d[i])));
    else
        return static_cast<REAL>(mma::from_binary16(static_cast<u16>(d[i / 2] >> (16 * (i % 2)))));
}

// The smallest terms first.
__device__ inline REAL sum_of_terms(const WORD (&d)[TERMS][WIDTH][mma::D_WORDS], int w, int i) {
    REAL total = value_of(d[TERMS - PARTS][w], i);
#pragma unroll
    for (int order = PARTS - 1; order >= 0; --order)
#pragma unroll
        for (int j = order == PARTS - 1; j <= order; ++j) {
            if (j == 0) total = times(total, static_cast<REAL>(1) / (1 << PART_BITS));
            total = plus(total, value_of(d[term(order - j, j)][w], i));
        }
    return total;
}

__device__ inline void multiply(const TransformLevel& l, const WORD* words, REAL* results) {
    typedef Pack<WORD, mma::B_WORDS> Fragment;
    // The real products of each way: which operand times which matrix.
    constexpr int LEFT[3][4] = {{0, 1, 0, 1}, {0, 1, 2, 0}, {0, 0, 0, 0}};
    constexpr int RIGHT[3][4] = {{0, 0, 1, 1}, {0, 1, 2, 0}, {0, 0, 0, 0}};
    const int lane = threadIdx.x % WARP;
#pragma unroll 1
    for (int unit = threadIdx.x / WARP; unit < STRIPES * CHUNKS; unit += THREADS / WARP) {
        const int row0 = unit % STRIPES * TILE_M, tile0 = unit / STRIPES * WIDTH;
        WORD d[PRODUCTS][TERMS][WIDTH][mma::D_WORDS] = {};
#pragma unroll 1
        for (int step = 0; step < DEPTH; ++step) {
            WORD a[OPERANDS][PARTS][mma::A_WORDS];
#pragma unroll
            for (int o = 0; o < OPERANDS; ++o)
#pragma unroll
                for (int p = 0; p < PARTS; ++p)
#pragma unroll
                    for (int w = 0; w < mma::A_WORDS; ++w) {
                        const int k = step * (TILE_K / mma::INPUTS_PER_WORD) + w / mma::ROW_GROUPS * 4 + lane % 4;
                        a[o][p][w] = words[((o * PARTS + p) * K_WORDS + k) * PITCH + row0 + mma::fragment_row(w)];
                    }
#pragma unroll
            for (int m = 0; m < MATRICES; ++m)
#pragma unroll
                for (int j = 0; j < PARTS; ++j)
#pragma unroll
                    for (int w = 0; w < WIDTH; ++w) {
                        const int tile = ((m * PARTS + j) * COLUMN_TILES + tile0 + w) * DEPTH + step;
                        const Fragment b = reinterpret_cast<const Fragment*>(l.matrices)[tile * WARP + lane];
#pragma unroll
                        for (int i = 0; i + j < PARTS; ++i)
#pragma unroll
                            for (int q = 0; q < PRODUCTS; ++q)
                                if (RIGHT[PRODUCT][q] == m) mma::mma(d[q][term(i, j)][w], a[LEFT[PRODUCT][q]][i], b.at);
                    }
        }
#pragma unroll
        for (int w = 0; w < WIDTH; ++w)
#pragma unroll
            for (int i = 0; i < mma::D_WORDS * mma::OUTPUTS_PER_WORD; ++i) {
                const int row = row0 + lane / 4 + 8 * (i / 2), column = (tile0 + w) * TILE_N + 2 * (lane % 4) + i % 2;
                if (SIDE % (WIDTH * TILE_N) != 0 && column >= SIDE) continue;
                REAL* at = results + column * RESULT_PITCH + row;
                const REAL first = sum_of_terms(d[0], w, i);
                if constexpr (PRODUCT == EMBEDDED) {
                    at[0] = first;
                } else if constexpr (PRODUCT == THREE) {
                    at[0] = plus(first, -sum_of_terms(d[2], w, i));
                    at[SIDE * RESULT_PITCH] = plus(first, sum_of_terms(d[1], w, i));
                } else {
                    at[0] = plus(first, -sum_of_terms(d[3], w, i));
                    at[SIDE * RESULT_PITCH] = plus(sum_of_terms(d[1], w, i), sum_of_terms(d[2], w, i));
                }
            }
    }
}

// ---- numbers to memory ----

template <int N>
__device__ inline Pack<REAL, N> results_of(const REAL* results, int local, int c, int plane) {
    const int column = PRODUCT == EMBEDDED ? local % GROUP * 2 * LENGTH + plane * LENGTH + c
                                           : plane * SIDE + local % GROUP * LENGTH + c;
    return *reinterpret_cast<const Pack<REAL, N>*>(results + column * RESULT_PITCH + local / GROUP);
}

// row / done, without a division for each number where the host could save it.
__device__ inline u32 block_of(const TransformLevel& l, u32 row) {
    const u32 done = static_cast<u32>(l.done);
    if constexpr (DONE_IS_RUN)
        return row / RUN;
    else if constexpr (WHOLE && RUN == TILE_ROWS)
        return place_of(l, 0).row / done;  // the same for all rows of the block
    else
        return row / done;
}

// The twiddles of numbers c to c + STORES - 1 in a run of rows, and of the next number's if there are fewer rows.
__device__ inline void twiddles_of(const TransformLevel& l, u32 block, int first, REAL (&cosine)[STORES],
                                   REAL (&sine)[STORES]) {
    typedef Pack<REAL, STORES> Neighbours;
    const i64 row = static_cast<i64>(block) * LENGTH, plane = l.rows / l.done * LENGTH;
    const int c = first / RUN % LENGTH;
    if constexpr (RUN == 1) {
        const Neighbours x = *reinterpret_cast<const Neighbours*>(l.twiddles + row + c);
        const Neighbours y = *reinterpret_cast<const Neighbours*>(l.twiddles + plane + row + c);
#pragma unroll
        for (int v = 0; v < STORES; ++v) cosine[v] = x.at[v], sine[v] = y.at[v];
    } else {
        const REAL x = l.twiddles[row + c], y = l.twiddles[plane + row + c];
#pragma unroll
        for (int v = 0; v < STORES; ++v) {
            const int own = (first + v) / RUN % LENGTH;
            cosine[v] = RUN % STORES == 0 ? x : l.twiddles[row + own];
            sine[v] = RUN % STORES == 0 ? y : l.twiddles[plane + row + own];
        }
    }
}

__device__ inline void drain(const TransformLevel& l, const REAL* results) {
    // Neighbouring rows are neighbours in shared memory too, but in groups.
    constexpr int WIDEST = 16 / sizeof(REAL);
    constexpr int BESIDE = GROUP > 1 || RUN % STORES != 0 ? 1 : STORES < WIDEST ? STORES : WIDEST;
    constexpr int STEPS = (TILE_ROWS * LENGTH + THREADS * STORES - 1) / (THREADS * STORES);
#pragma unroll 2
    for (int step = 0; step < STEPS; ++step) {
        const int first = (step * THREADS + threadIdx.x) * STORES;
        if (TILE_ROWS * LENGTH % (THREADS * STORES) != 0 && first >= TILE_ROWS * LENGTH) break;
        const int run = first / (RUN * LENGTH) * RUN;
        const RowPlace place = place_of(l, run + first % RUN);
        if (!place.inside) continue;
        // All STORES numbers belong to one run of rows, in one block of the result.
        const u32 block = block_of(l, place.row);
        const i64 index = (static_cast<i64>(block) * LENGTH + first / RUN % LENGTH) * l.done + (place.row - block * l.done);
        REAL real[STORES], imaginary[STORES];
#pragma unroll
        for (int v = 0; v < STORES; v += BESIDE) {
            const int c = (first + v) / RUN % LENGTH, local = run + (first + v) % RUN;
            const Pack<REAL, BESIDE> x = results_of<BESIDE>(results, local, c, 0);
            const Pack<REAL, BESIDE> y = results_of<BESIDE>(results, local, c, 1);
#pragma unroll
            for (int b = 0; b < BESIDE; ++b) real[v + b] = x.at[b], imaginary[v + b] = y.at[b];
        }
        if constexpr (!LAST) {
            REAL cosine[STORES], sine[STORES];
            twiddles_of(l, block, first, cosine, sine);
#pragma unroll
            for (int v = 0; v < STORES; ++v) {
                const REAL x = real[v], y = imaginary[v];
                real[v] = plus(times(x, cosine[v]), -times(y, sine[v]));
                imaginary[v] = plus(times(x, sine[v]), times(y, cosine[v]));
            }
        }
        if constexpr (LAST) {
            REAL up = 1;
            if constexpr (SCALED) up = power_of_two(-shift_of(l.largest[place.member], static_cast<int>(l.top)));
#pragma unroll
            for (int v = 0; v < STORES; ++v) {
                if constexpr (SCALED) {
                    real[v] = times(times(real[v], up), l.back);
                    imaginary[v] = times(times(imaginary[v], up), l.back);
                }
                real[v] = times(real[v], l.factor);
                imaginary[v] = times(imaginary[v], l.factor);
            }
        }
        const Numbers& y = l.target;
        const i64 at = place.member * y.member + index * y.step;
        TARGET* to_real = static_cast<TARGET*>(y.real);
        TARGET* to_imaginary = static_cast<TARGET*>(y.imaginary);
        if constexpr (TARGET_LAYOUT == PAIRS) {
            const bool swapped = to_imaginary < to_real;
            Pack<TARGET, 2 * STORES> pairs;
#pragma unroll
            for (int v = 0; v < STORES; ++v) {
                pairs.at[2 * v] = swapped ? imaginary[v] : real[v];
                pairs.at[2 * v + 1] = swapped ? real[v] : imaginary[v];
            }
            *reinterpret_cast<Pack<TARGET, 2 * STORES>*>((swapped ? to_imaginary : to_real) + at) = pairs;
        } else {
            Pack<TARGET, STORES> first_plane, second_plane;
#pragma unroll
            for (int v = 0; v < STORES; ++v) {
                if constexpr (TARGET_LAYOUT == INPUTS) {
                    first_plane.at[v] = mma::NARROW(real[v]);
                    second_plane.at[v] = mma::NARROW(imaginary[v]);
                } else {
                    first_plane.at[v] = real[v];
                    second_plane.at[v] = imaginary[v];
                }
            }
            *reinterpret_cast<Pack<TARGET, STORES>*>(to_real + at) = first_plane;
            *reinterpret_cast<Pack<TARGET, STORES>*>(to_imaginary + at) = second_plane;
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) transform_level(const __grid_constant__ TransformLevel level) {
    extern __shared__ __align__(16) unsigned char shared[];
    WORD* words = reinterpret_cast<WORD*>(shared);
    REAL* results = reinterpret_cast<REAL*>(shared + WORDS_BYTES);
    fill(level, words);
    __syncthreads();
    multiply(level, words, results);
    __syncthreads();
    drain(level, results);
}
