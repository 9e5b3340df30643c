// Running sums down the columns of an array (outer, length, inner) that has few columns side by side, and no gaps: what
// belongs to an outer index, a slab, lies in one piece.  They have the plan's bits (tcu/plan/scan.py).
//
// A tile is GROUPS groups of the plan of all columns of SLABS slabs.  A group of all columns is a block
// of 32 * COLUMNS bytes, or a multiple of the length of a row: blocks come to shared memory, where they lie so far
// apart that lanes use all banks.  A thread adds up groups, warps make the networks over groups, and one thread for each
// column of a slab those above.  SlabResults leave in the same order, so that memory sees whole lines whatever a row's length
// is.
//
// Where there are enough slabs, a block takes the tiles of some one after another (PASS 0).  Few long ones are read twice,
// so that no block waits for another: first for what tiles come to (PASS 1), of which slab_carries.cu makes what comes
// before each of them, and then for the results (PASS 2).
//
// The floor is reading and writing each number once.  Shares of a copy's speed (H100, 2 GiB in and out; binary16, bfloat16,
// binary32, binary64): 8192 x 2^15 x 2 0.92, 0.88, 0.91, 0.88, where a copy in the order of rows, their scan and a copy back had 0.20,
// 0.20, 0.28, 0.32; 5368 x 1000 x 100 0.94, 0.92, 0.93, 0.89 (column_walk.cu: 0.62, 0.53, 0.65, 0.83); 2^19 x 64 x 16 1.0;
// slabs of 40 x 3 0.51, 0.47, 0.93, 0.96: half of their groups are not whole.  With a division for each piece of 8 bytes
// instead of each thread, the first had 0.82, 0.75, 0.87, 0.87.  A tile of several runs of one slab, whose networks one
// thread made one after another, was slower than one run each of several slabs (bfloat16: 0.75 and 0.84).
//
// Few long slabs, which are read twice, can have 2/3 at most: 2^28 x 2 numbers have 0.50 (bfloat16, H200), 2^24 x 32
// 0.47 where column_look_back.cu has 0.35.
//
// Compiled with ELEMENT, RESULT (finish/result_code.cuh), EXCLUSIVE, REVERSE, LAYOUT (ALIGNED: all slabs begin at multiples
// of COPY bytes, numbers and results), and
//   COLUMNS     inner numbers
//   LEVELS      networks of the plan
//   GROUPS      of a slab in a tile, 32 at most; a power of two where a slab has more than one tile
//   SLABS       of a tile
//   SEVERAL     1 where a slab has more than one tile
//   PASS        0, or 1 and 2, where a tile is a run of the plan's first level: SLABS is 1, and GROUPS is 32
//   COPY        bytes that a thread copies at a time: 8 or 16
//   PAD, RESULT_PAD  such copies that blocks lie apart, of numbers and of results
//   STAGES      tiles that a block has room for
//   THREADS     of a block
//   RESIDENT    blocks per multiprocessor that the registers must allow

#include "device/load/async_copy.cuh"
#include "device/scan/columns.cuh"
#include "device/scan/networks.cuh"
#include "device/scan/prefix.cuh"

using namespace tcu;

#include "generated/slab_scan/SlabScan.inc"

__device__ inline int tiles_of_block(const SlabScan& p) {
    return PASS ? static_cast<int>(min(static_cast<i64>(p.share), p.slabs * p.tiles - static_cast<i64>(blockIdx.x) * p.share)) : p.tiles;
}

// The slab, or the first of the slabs, of a block's tile of that number, and the number that the tile has in its slab.
struct PlaceOfTile {
    i64 slab = static_cast<i64>(blockIdx.x) * SLABS;
    int tile;

    __device__ PlaceOfTile(const SlabScan& p, int number) : tile(number) {
        if (PASS == 0) return;
        const u32 all = blockIdx.x * static_cast<u32>(p.share) + number;
        slab = p.slabs == 1 ? 0 : all / p.tiles;
        tile = static_cast<int>(all - static_cast<u32>(slab) * p.tiles);
    }
};

// What a tile comes to in the thread's column; later, what comes before it among those of its RADIX.
__device__ inline double* sum_of(const SlabScan& p, const PlaceOfTile& at) {
    return p.sums + (at.slab * p.tiles + at.tile) * COLUMNS + threadIdx.x;
}

// What comes before a tile in the thread's column.
__device__ inline double sum_before(const SlabScan& p, int number) {
    constexpr int RADIX = WARP / 2;  // of the network above the first
    const PlaceOfTile at(p, number);
    const double near = *sum_of(p, at);
    return LEVELS > 2 ? p.above[(at.slab * COLUMNS + threadIdx.x) * ((p.tiles + RADIX - 1) / RADIX) + at.tile / RADIX] + near : near;
}

constexpr int SIZE = sizeof(Code), RESULT_SIZE = sizeof(finish::ResultCode);
constexpr int UNIT = scan::MOVES && COLUMNS % 2 == 0 && LAYOUT == ALIGNED ? 2 : 1, UNITS = COLUMNS / UNIT;  // columns of a thread, and threads of a row
constexpr int BLOCKS = SLABS * GROUPS;
constexpr int LINES = SLABS * COLUMNS;  // columns of all slabs of a tile
constexpr int WIDTH = GROUPS > 16 ? 32 : GROUPS > 8 ? 16 : GROUPS > 4 ? 8 : GROUPS > 2 ? 4 : GROUPS;  // lanes of a network
constexpr int EACH = (BLOCKS * UNITS + THREADS - 1) / THREADS;  // groups of a thread
static_assert(PASS == 0 || (SLABS == 1 && GROUPS == WARP && LEVELS > 1), "a tile is a run");
static_assert((WIDTH == GROUPS || !SEVERAL) && LINES <= THREADS && EACH <= 32, "a tile has a part of a network");

// Where blocks of numbers, or of results, of so many bytes each lie in shared memory.
template <int ELEMENT_SIZE, int APART>
struct Staged {
    static constexpr int BYTES = scan::GROUP * COLUMNS * ELEMENT_SIZE;
    static constexpr int COPIES = BYTES / COPY + (LAYOUT == ALIGNED ? 0 : 1);  // one more where blocks begin anywhere
    static constexpr int PITCH = (COPIES + APART) * COPY;
    static_assert(BYTES % COPY == 0, "blocks begin alike");
};
typedef Staged<SIZE, PAD> SlabNumbers;
typedef Staged<RESULT_SIZE, RESULT_PAD> SlabResults;
constexpr int STAGE = BLOCKS * SlabNumbers::PITCH;

// What a block of threads takes at a time, its tile of that number: where its first slab's part begins in memory, in
// elements, how many rows each slab has left from there on, and how many slabs exist.  Rows that do not exist are the
// last ones in the order of the scan; the first ones in memory where that is reversed.
struct SlabTile {
    i64 from;
    int rows, slabs;

    __device__ SlabTile(const SlabScan& p, int number) {
        constexpr int ROWS = GROUPS * scan::GROUP;
        const PlaceOfTile at(p, number);
        const i64 slab = at.slab, before = static_cast<i64>(at.tile) * ROWS;
        from = (slab * p.length + (REVERSE ? p.length - before - ROWS : before)) * COLUMNS;
        rows = static_cast<int>(min(p.length - before, static_cast<i64>(ROWS)));
        slabs = static_cast<int>(max(min(p.slabs - slab, static_cast<i64>(SLABS)), static_cast<i64>(0)));
    }

    __device__ bool is_whole() const { return rows == GROUPS * scan::GROUP && slabs == SLABS; }

    // Of a block: its first element, counted from the tile's.
    __device__ int first(const SlabScan& p, int block) const {
        const int slab = SLABS > 1 ? block / GROUPS : 0, group = block % GROUPS;
        return (REVERSE ? GROUPS - 1 - group : group) * (scan::GROUP * COLUMNS) + slab * static_cast<int>(p.length) * COLUMNS;
    }

    // How many rows of it exist.
    __device__ int rows_of(int block) const {
        if (block / GROUPS >= slabs) return 0;
        return max(min(rows - block % GROUPS * scan::GROUP, scan::GROUP), 0);
    }
};

// How many bytes after a multiple of COPY a tile begins, and so do its blocks, but those of other slabs.
template <typename Element>
__device__ inline int shift_of(const Element* tile, int first) {
    if (LAYOUT == ALIGNED) return 0;
    return static_cast<int>(reinterpret_cast<u64>(SLABS > 1 ? tile + first : tile) % COPY);
}

// Calls `take` for each piece of COPY bytes that holds something of a tile, with where it lies behind the tile's first byte
// and where in shared memory, and which bytes of it exist.  A thread has the same piece of each STEP-th block: with
// a division for each piece, pieces of 8 bytes took as many instructions as their four numbers.
template <typename Block, typename Element, typename Take>
__device__ inline void for_pieces(const SlabScan& p, const SlabTile& tile, const Element* from, const Take& take) {
    constexpr int ROW = COLUMNS * sizeof(Element), STEP = THREADS / Block::COPIES, TURNS = STEP ? (BLOCKS + STEP - 1) / STEP : 1;
    const auto one = [&](int block, int piece, bool is_whole) {
        const int first = tile.first(p, block), offset = piece - shift_of(from, first);
        const int there = first * static_cast<int>(sizeof(Element)) + offset, place = block * Block::PITCH + piece;
        if (LAYOUT == ALIGNED && is_whole) {
            take(there, place, 0, COPY);
            return;
        }
        const int rows = tile.rows_of(block), begin = REVERSE ? (scan::GROUP - rows) * ROW : 0, end = REVERSE ? Block::BYTES : rows * ROW;
        if (rows && offset + COPY > begin && offset < end) take(there, place, max(begin - offset, 0), min(end - offset, COPY));
    };
    if constexpr (STEP == 0) {
#pragma unroll 1
        for (int at = threadIdx.x; at < BLOCKS * Block::COPIES; at += THREADS) one(at / Block::COPIES, at % Block::COPIES * COPY, false);
    } else {
        const int own = threadIdx.x / Block::COPIES, piece = threadIdx.x % Block::COPIES * COPY;
        const auto all = [&](bool is_whole) {
#pragma unroll 8
            for (int turn = 0; turn < TURNS; ++turn)
                if (own < STEP && (turn + 1 < TURNS || turn * STEP + own < BLOCKS)) one(turn * STEP + own, piece, is_whole);
        };
        if (tile.is_whole())
            all(true);
        else
            all(false);
    }
}

// Starts to copy a tile, as far as it exists.
__device__ inline void fetch_tile(const SlabScan& p, const SlabTile& tile, char* stage) {
    const Code* const from = static_cast<const Code*>(p.data) + tile.from;
    const u32 to = static_cast<u32>(__cvta_generic_to_shared(stage));
    for_pieces<SlabNumbers>(p, tile, from, [&](int offset, int place, int, int) {
        load::copy_bytes<COPY>(to + place, reinterpret_cast<const char*>(from) + offset);
    });
}

// Writes the results of a tile to memory.
__device__ inline void store_tile(const SlabScan& p, const SlabTile& tile, const char* results) {
    struct alignas(COPY) Piece {
        u32 words[COPY / 4];
    };
    finish::ResultCode* const to = static_cast<finish::ResultCode*>(p.out) + tile.from;
    for_pieces<SlabResults>(p, tile, to, [&](int offset, int place, int begin, int end) {
        char* const there = reinterpret_cast<char*>(to) + offset;
        if (begin == 0 && end == COPY) {
            *reinterpret_cast<Piece*>(there) = *reinterpret_cast<const Piece*>(results + place);
            return;
        }
#pragma unroll 1
        for (int i = begin; i < end; i += RESULT_SIZE)  // an end of what exists
            *reinterpret_cast<finish::ResultCode*>(there + i) = *reinterpret_cast<const finish::ResultCode*>(results + place + i);
    });
}

// A thread's group of neighbouring columns in shared memory.  LOOKS: whether its numbers can be moved is not known yet.
template <bool LOOKS>
struct SlabGroup : scan::RowsBeside<UNIT> {
    const Code* first;  // of the row that is first in memory
    bool moves;

    __device__ const Code* row(int i) const { return first + (REVERSE ? scan::GROUP - 1 - i : i) * COLUMNS; }
    __device__ double number(int i, int c) const { return to_binary64(row(i)[c]); }
    __device__ bool is_whole() const { return true; }

    // All rows.  Returns whether their numbers can be moved.
    __device__ bool read(typename SlabGroup::Row (&x)[scan::GROUP]) const {
        u32 found = 0;
#pragma unroll
        for (int i = 0; i < scan::GROUP; ++i) {
            x[i].parts[0] = *reinterpret_cast<const scan::RowNumbers<UNIT>*>(row(i));
            if (LOOKS) x[i].parts[0].look_for_others(found);
        }
        return LOOKS ? !scan::MOVES || !scan::found_others(found) : moves;
    }

    template <bool WHOLE>
    __device__ void store(finish::ResultCode* to, const double (&values)[UNIT]) const {
        if constexpr (UNIT > 1)
            scan::store(to, values);
        else
            *to = scan::rounded_one(values[0]);
    }
};

// Which block a thread has, and which columns of it.
struct UnitPlace {
    int block, column, line;

    __device__ explicit UnitPlace(int at) : block(at / UNITS), column(at % UNITS * UNIT), line(block / GROUPS * COLUMNS + column) {}
};

template <bool LOOKS>
__device__ inline SlabGroup<LOOKS> group_of(const SlabScan& p, const SlabTile& tile, const UnitPlace& place, const char* stage, bool moves = true) {
    const int shift = shift_of(static_cast<const Code*>(p.data) + tile.from, tile.first(p, place.block));
    return {{}, reinterpret_cast<const Code*>(stage + place.block * SlabNumbers::PITCH + shift) + place.column, moves};
}

#if LEVELS
constexpr int HEIGHT = WIDTH == 32 ? 5 : WIDTH == 16 ? 4 : WIDTH == 8 ? 3 : WIDTH / 2;
typedef scan::Networks<1, HEIGHT> SlabNetworks;
constexpr int PIECES = SlabNetworks::pieces();

// What the threads of a block tell each other.
struct SlabSums {
    double groups[LINES][GROUPS + 1];  // their totals, then what comes before them in the tile
    double totals[LINES];              // of the tile
    double before[PIECES][LINES];      // what comes before it
};

// Makes the networks over a tile's groups.
__device__ inline void add_groups(SlabSums& b) {
    constexpr int TOGETHER = WARP / WIDTH;
    const int lane = threadIdx.x % WARP, group = lane % WIDTH;
#pragma unroll 1
    for (int first = threadIdx.x / WARP * TOGETHER; first < LINES; first += THREADS / WARP * TOGETHER) {
        const int line = first + lane / WIDTH;
        const bool exists = line < LINES && group < GROUPS;
        const double sum = scan::inclusive<WIDTH>(exists ? b.groups[line][group] : 0, lane), before = scan::exclusive<WIDTH>(sum, lane);
        if (exists) b.groups[line][group] = before;
        if (exists && group == GROUPS - 1) b.totals[line] = sum;
    }
}

// Adds up a tile's groups.  Returns whether the numbers of the thread's groups can be moved: a bit for each.
__device__ inline u32 add_up_tile(const SlabScan& p, const SlabTile& tile, const char* stage, SlabSums& b) {
    u32 moves = ~0u;
#pragma unroll 1
    for (int k = 0, at = threadIdx.x; at < BLOCKS * UNITS; ++k, at += THREADS) {
        const UnitPlace place(at);
        double sums[UNIT];
        if (!scan::add_up(group_of<true>(p, tile, place, stage), sums)) moves &= ~(1u << k);
#pragma unroll
        for (int c = 0; c < UNIT; ++c) b.groups[place.line + c][place.block % GROUPS] = sums[c];
    }
    return moves;
}

// What comes before a thread's group in one of its columns; never -0.
__device__ inline double carry_of(const SlabSums& b, const UnitPlace& place, int c, int number) {
    const double near = b.groups[place.line + c][place.block % GROUPS];
    return (SEVERAL ? SlabNetworks::before_by(number, &b.before[0][place.line + c], LINES, near) : near) + 0.0;
}
#else
struct SlabSums {};

__device__ inline double carry_of(const SlabSums&, const UnitPlace&, int, int) { return 0; }
#endif

// Writes the results of a tile of that number to where they have room.  `moves` as above.
__device__ inline void write_tile(const SlabScan& p, const SlabTile& tile, int number, const char* stage, char* results, const SlabSums& b, u32 moves) {
    constexpr int STEP = REVERSE ? -COLUMNS : COLUMNS;
#pragma unroll 1
    for (int k = 0, at = threadIdx.x; at < BLOCKS * UNITS; ++k, at += THREADS) {
        const UnitPlace place(at);
        const int rows = tile.rows_of(place.block);
        if (rows == 0) continue;
        const SlabGroup<LEVELS == 0> group = group_of<LEVELS == 0>(p, tile, place, stage, moves >> k & 1);
        double carry[UNIT], sums[UNIT];
#pragma unroll
        for (int c = 0; c < UNIT; ++c) carry[c] = carry_of(b, place, c, number);
        const int shift = shift_of(static_cast<finish::ResultCode*>(p.out) + tile.from, tile.first(p, place.block));
        finish::ResultCode* const to = reinterpret_cast<finish::ResultCode*>(results + place.block * SlabResults::PITCH + shift) +
                                       (REVERSE ? (scan::GROUP - 1) * COLUMNS : 0) + place.column;
        if (scan::write_plain(group, to, STEP, rows, carry, sums)) continue;
#pragma unroll
        for (int c = 0; c < UNIT; ++c) scan::scan_any(group, to + c, STEP, rows, carry[c], c);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) slab_scan(const __grid_constant__ SlabScan p) {
    extern __shared__ uint4 memory[];
    char* const stages = reinterpret_cast<char*>(memory);
    char* const results = stages + STAGES * STAGE;  // not where numbers were: rare ones are read twice
    const int tiles = tiles_of_block(p);
    __shared__ SlabSums b;
#if LEVELS
    SlabNetworks networks;
    const bool has_line = SEVERAL && threadIdx.x < LINES;
    double before = PASS == 2 && has_line ? sum_before(p, 0) : 0;
#endif
#pragma unroll
    for (int i = 0; i < STAGES - 1; ++i) {
        if (i < tiles) fetch_tile(p, SlabTile(p, i), stages + i * STAGE);
        load::end_copies();
    }
#pragma unroll 1
    for (int number = 0; number < tiles; ++number) {
        const SlabTile tile(p, number);
        char* const stage = stages + number % STAGES * STAGE;
        if (STAGES == 1) {
            if (number) __syncthreads();
            fetch_tile(p, tile, stage);
            load::end_copies();
        }
        load::wait_for_copies<STAGES == 1 ? 0 : STAGES - 2>();
#if LEVELS
        if (has_line && PASS == 0)
#pragma unroll
            for (int i = 0; i < PIECES; ++i) b.before[i][threadIdx.x] = networks.piece(i, 0);
        if (has_line && PASS == 2) {
            b.before[0][threadIdx.x] = before;
            if (number + 1 < tiles) before = sum_before(p, number + 1);
        }
#endif
        __syncthreads();
        if (STAGES > 1) {
            const int next = number + STAGES - 1;
            if (next < tiles) fetch_tile(p, SlabTile(p, next), stages + next % STAGES * STAGE);
            load::end_copies();
        }
        u32 moves = 0;
#if LEVELS
        moves = add_up_tile(p, tile, stage, b);
        __syncthreads();
        add_groups(b);
        __syncthreads();
        if (has_line && PASS == 0) {
            double totals[1] = {b.totals[threadIdx.x]};
            networks.push(number, totals);
        }
        if (has_line && PASS == 1) *sum_of(p, PlaceOfTile(p, number)) = b.totals[threadIdx.x];
#endif
        if constexpr (PASS != 1) {
            write_tile(p, tile, number, stage, results, b, moves);
            __syncthreads();
            store_tile(p, tile, results);
        }
    }
}
