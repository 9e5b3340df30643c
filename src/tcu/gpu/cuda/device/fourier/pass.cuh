// A pass of fast Fourier transforms, for a kernel of one pass or of two: included once for each, in a namespace of its own, PASS.
//
// Compiled with
//   WORK            as device/fourier/numbers.cuh says
//   LENGTH, RADICES  of the pass's transforms, and of its levels
//   COLUMNS         that a block takes
//   CLUSTER         blocks that share a transform (sm_90), where COLUMNS is 1: each has butterflies of the first level, and sends each
//                   result to the block that has all numbers of that k, as a column of a shorter transform; else 1
//   THREADS, RESIDENT  of a block, and blocks of a multiprocessor, at least
//   WHOLE           1: blocks have all their columns
//   FLAT            1: there are no batches and blocks of columns
//   TILES, BLOCKS   tiles of a block of columns, and p.blocks, where these are known beforehand, else 0
//   BLOCKS_INNER    1: neighbouring tiles are of neighbouring blocks of columns; 0: of one
//   AHEAD           how many blocks later the block comes whose numbers the second cache is to fetch; 0: none
//   READ_ONCE, WRITTEN_ONCE  1: numbers, results leave the second cache first (load/first_out.cuh)
//   READ_STEP, WRITE_STEP, UP_STEP  from a number of a column to the next, where that is known beforehand, else 0
//   ROWS_IN, ROWS_OUT  1: neighbouring threads take neighbouring numbers of one column; 0: neighbouring columns
//   BY_COLUMN, PITCH  1: shared memory holds a column after the other, so many places apart; 0: the columns of a number beside each other
//   IN_PARTS        1: shared memory has room for real numbers alone; real and imaginary parts, of each lane, are exchanged one after the other
//   SOURCE, TARGET  formats of real numbers in memory
//   SOURCE_KIND, TARGET_KIND  of SourceKind
//   SWAP_IN, SWAP_OUT, SWAP_LAST
//                   1: real and imaginary parts are exchanged when read, behind the last level, behind the table
//   SHORT           1: numbers from p.taken on are zero, results from p.made on are not wanted
//   TABLE_IN, TABLE_OUT  1: numbers, results are multiplied by a table's
//   SCALED          1: results are multiplied by p.factor
//   TURNED          results are multiplied by roots of unity, behind them transforms are left: BY_PRODUCTS of a table's; of a first level
//                   alone by its twiddle factors, BY_TABLE; 0: they are not
//   UP, DOWN        1: numbers are multiplied by what their column was divided by; columns are divided by powers of two
//   HALVED, TWO_IN, TWO_OUT, UP_BESIDE, FALL, DROP  of binary16 (device/fourier/pass_of_lanes.cuh): lanes are even and odd numbers;
//                   lanes are beside each other in memory, where 8 bytes begin; from a lane's place in p.up to the next's; columns
//                   are divided by 2^FALL besides before the first level, by 2^DROP with roots of unity

#include "device/fourier/pass_levels.cuh"
#include "device/load/forget.cuh"
#if WORK == BINARY16
#include "device/fourier/pass_of_lanes.cuh"
#else
#include "device/fourier/pass_of_numbers.cuh"
#endif

namespace tcu::fourier::PASS {

// Has the second cache fetch what the block reads that follows on this multiprocessor.
__device__ inline void fetch_ahead(const FftPass& p) {
#if AHEAD
    constexpr u32 BYTES = SOURCE == BINARY16 ? 4 : sizeof(Complex);  // of a number
    if (threadIdx.x >= WIDTH || blockIdx.x + AHEAD >= gridDim.x) return;
    const FftTile next(p, blockIdx.x + AHEAD);
    load::fetch_ahead(static_cast<const char*>(p.source) + next.at(p.reads, threadIdx.x) * BYTES, LENGTH * (1 + HALVED) * BYTES);
#endif
}

template <int AT>
__device__ inline void go_on(
    const FftPass& p, const FftTile& tile, Complex* shared, Butterflies<AT>& level, const Complex* turns, u32* largest) {
#pragma unroll
    for (u32 j = 0; j < Butterflies<AT>::OWN; ++j) Butterfly<Butterflies<AT>::RADIX>::run(level.x[j]);
    if constexpr (AT + 1 < LEVELS) {
        Butterflies<AT + 1> next;
        exchange<AT>(p, shared, level, next);
        go_on<AT + 1>(p, tile, shared, next, turns, largest);
    } else {
#if WORK == BINARY16
        store(p, tile, level, turns, largest);
#else
        store(p, tile, level, shared, turns, largest);
#endif
    }
}

// Tile `number` of the pass; `meanwhile` is done while numbers are on their way.
template <typename Meanwhile>
__device__ inline void run(const FftPass& p, u32 number, unsigned char* memory, Meanwhile meanwhile) {
    typedef Butterflies<LEVELS - 1> Last;
    __shared__ Complex turns[TURNED == BY_PRODUCTS ? Last::RADIX * COLUMNS : 1];
    __shared__ u32 largest[DOWN || WORK == BINARY16 ? WIDTH : 1];
#if CLUSTER > 1
    if (threadIdx.x == 0) load::prepare(&sent());
    load::arrive_in_cluster();
#endif
    const FftTile tile(p, number);
    const auto fill_turns = [&] {
        for (u32 own = threadIdx.x; own < Last::RADIX * COLUMNS; own += THREADS) {
            const u32 column = tile.column + SIDE * (own % COLUMNS);
            const bool second = WHOLE || column + 1 < p.columns;
            if (WHOLE || column < p.columns) turns[own] = roots(p, own / COLUMNS * Last::APART, column, second);
        }
    };
    Butterflies<0> first;
#if WORK == BINARY16
    if constexpr (TURNED == BY_PRODUCTS) fill_turns();
    fetch(p, tile, first, largest);
    fetch_ahead(p);
    meanwhile();
#else
    fetch(p, tile, first);
    fetch_ahead(p);
    meanwhile();
    if constexpr (TURNED == BY_PRODUCTS) fill_turns();
    if constexpr (DOWN)
        for (u32 own = threadIdx.x; own < WIDTH; own += THREADS) largest[own] = 0;
    if constexpr (LEVELS == 1 && (TURNED == BY_PRODUCTS || DOWN)) __syncthreads();
#endif
    go_on(p, tile, reinterpret_cast<Complex*>(memory), first, turns, largest);
}

// Of what the block has read, where the numbers of a column are side by side: whole lines of memory.
__device__ inline void forget(const FftPass& p, u32 number) {
    constexpr u32 BYTES = LENGTH * (SOURCE == BINARY16 ? 4 : sizeof(Complex)), LINES = BYTES / load::FORGOTTEN;
    const FftTile tile(p, number);
    if constexpr (LEVELS == 1) __syncthreads();  // what others read
    for (u32 own = threadIdx.x; own < LINES * WIDTH; own += THREADS) {
        const char* const column = static_cast<const char*>(p.source) + tile.at(p.reads, own / LINES) * (BYTES / LENGTH);
        const u32 beside = static_cast<u32>(reinterpret_cast<u64>(column) % load::FORGOTTEN);
        const u32 first = (beside ? load::FORGOTTEN - beside : 0) + own % LINES * load::FORGOTTEN;
        if (first + load::FORGOTTEN <= BYTES) load::forget(column + first);
    }
}

}  // namespace tcu::fourier::PASS
