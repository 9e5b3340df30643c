// Sums of segments by the algorithms of paper 002 (tcu/plan/segmented.py) in one launch, with the same plan for every
// row.
//
// A warp takes 512 bytes for each link of its groups: 16 columns of 16 numbers.  In Reduction_16 every column is a
// group of its own; otherwise all columns are one group.  The numbers of a group follow each other.
//
// Compiled with ELEMENT and LAYOUT (load/array.cuh; ALIGNED: every row begins at a multiple of 16 bytes; STRIDED: one
// row) and the macros of mma/chains.cuh (TILE is ROWS, CHAIN 1), and
//   ALGORITHM  REDUCTION_16, REDUCTION_256N or WORK_INEFFICIENT
//   AT_ONCE    links of a group in flight: 1, 2 or 4
//   UNROLL     groups of a warp in flight
//   LONG       0: a block holds whole rows, one or several; 1: a row has one block or several
//   RESIDENT   blocks per multiprocessor that the registers must allow

#include "device/finish/store.cuh"
#include "device/grid/slots.cuh"
#include "device/mma/chains.cuh"

using namespace tcu;

#define REDUCTION_16 0
#define REDUCTION_256N 1
#define WORK_INEFFICIENT 2

constexpr int WARPS = THREADS / WARP;
constexpr int GROUPS = ALGORITHM == REDUCTION_16 ? 16 : 1;  // groups of a warp at once
constexpr int SLOTS = WARPS * GROUPS;                       // groups of a block at once
constexpr int LINK = 256 / GROUPS;                          // numbers of a group in one link

// Eight lanes store vectors of several links.  Turned by this, the vectors lie in different banks.
constexpr int TURN = 8 / AT_ONCE;

#include "generated/segmented/Segmented.inc"

// A group of a row; in row p.rows there is none.
struct RowGroup {
    i64 row, number;
};

// Loads eight numbers of a row from `offset` on.  Sets how many of them belong to the row, which keep() takes:
// masking is a step of its own, so that no load waits for another.
__device__ inline Vector load_at(const Segmented& p, i64 row, i64 offset, int& kept) {
    Vector r;
    r.words = make_uint4(0, 0, 0, 0);
    const i64 left = row < p.rows ? p.length - offset : 0;
    kept = PER_LOAD;
    if (left <= 0) return r;
#if LAYOUT == STRIDED
    const bool whole = false;
    const load::Array& rest = p.x;
    const i64 start = offset;
#else
    // The array from here to the end of the last row: a vector may continue in the next row.
    load::Array rest = p.x;
    rest.data = static_cast<const Code*>(p.x.data) + row * p.stride + offset;
    rest.n = p.x.n - row * p.stride - offset;
    const bool whole = load::whole_vectors(rest) > 0;
    const i64 start = 0;
#endif
    if (whole) {
        r = load::whole_vector(rest, 0);
        if (left < PER_LOAD) kept = static_cast<int>(left);
        return r;
    }
#pragma unroll
    for (int i = 0; i < PER_LOAD; ++i) r.codes[i] = i < left ? load::element(rest, start + i) : Code(0);
    return r;
}

// Puts +0 in place of all numbers but the first `kept`.
__device__ inline void keep(Vector& r, int kept) {
    if (kept == PER_LOAD) return;
#pragma unroll
    for (int i = 0; i < PER_LOAD; ++i) r.codes[i] = i < kept ? r.codes[i] : Code(0);
}

// The sums of a warp's groups: one sum, in all lanes; or those of columns g and g + 8, where g is lane / 4.
struct Sums {
#if ALGORITHM == REDUCTION_16
    mma::Partial columns;

    __device__ void add(const mma::Word (&a)[mma::A_WORDS]) {
        const mma::Word b[mma::B_WORDS] = {mma::ones(), mma::ones()};
        columns.multiply(a, b);
    }
    __device__ void finish() {}
    __device__ double upper() const { return columns.number(); }
    __device__ double lower() const { return columns.lower(); }
#else
    mma::Partial columns;
    mma::Total total;

    __device__ void add(const mma::Word (&a)[mma::A_WORDS]) {
        const mma::Word b[mma::B_WORDS] = {mma::ones(), mma::ones()};
        columns.multiply(a, b);
        if (ALGORITHM == REDUCTION_256N) return;
        add_columns();
        columns = mma::Partial();
    }
    __device__ void finish() {
        if (ALGORITHM == REDUCTION_256N) add_columns();
    }
    __device__ void add_columns() {
        const mma::Word a[mma::A_WORDS] = {mma::ones(), mma::ones(), mma::ones(), mma::ones()};
        mma::Word b[mma::B_WORDS];
        mma::close(columns, 0, b);
        total.multiply(a, b);
    }
    __device__ double upper() const { return total.number(); }
    __device__ double lower() const { return 0; }
#endif
};

// Where a lane's load number i of AT_ONCE belongs: its vector in a link, and the link, counted from the first.  The
// loads of Reduction_16 go along the columns, AT_ONCE times 32 bytes of each.
struct Lane {
    int link, vector;

    __device__ explicit Lane(int i) {
        const int lane = threadIdx.x % WARP;
        constexpr int COLUMN = 2 * AT_ONCE;  // vectors of a column
        link = GROUPS > 1 ? lane % COLUMN / 2 : i;
        vector = GROUPS > 1 ? 2 * (lane / COLUMN + i * (WARP / COLUMN)) + lane % 2 : lane;
    }
    __device__ int slot() const { return threadIdx.x / WARP * GROUPS + (GROUPS > 1 ? vector / 2 : 0); }
    // The offset in the group's row, for the links from `first` on.
    __device__ i64 offset(const Segmented& p, const RowGroup& group, i64 first) const {
        return (group.number * p.chain + first + link) * LINK + (GROUPS > 1 ? vector % 2 : vector) * PER_LOAD;
    }
    __device__ int place() const { return mma::place_of(vector) ^ TURN * link; }
};

// Turns the vectors of AT_ONCE links into operands, and multiplies them.
__device__ inline void add_links(const Segmented& p, Vector (&x)[UNROLL][AT_ONCE], i64 first, Sums (&sums)[UNROLL]) {
    __shared__ uint4 staged[WARPS][UNROLL * AT_ONCE][WARP];
    uint4(*mine)[WARP] = staged[threadIdx.x / WARP];
    __syncwarp();  // the vectors of the links before have been read
#pragma unroll
    for (int u = 0; u < UNROLL; ++u)
#pragma unroll
        for (int i = 0; i < AT_ONCE; ++i) {
            const Lane lane(i);
            mine[u * AT_ONCE + lane.link][lane.place()] = x[u][i].words;
        }
    __syncwarp();
#pragma unroll
    for (int u = 0; u < UNROLL; ++u)
#pragma unroll
        for (int link = 0; link < AT_ONCE; ++link) {
            if (first + link >= p.chain) continue;
            mma::Word a[mma::A_WORDS];
            mma::load_matrices(a, mine[u * AT_ONCE + link], TURN * link);
            sums[u].add(a);
        }
}

// Adds up one group of each slot, UNROLL times.  `where` gives the group of (which of the UNROLL, slot). `whole`:
// every number of these groups is in the array, and so is the vector after the last.
template <typename Where>
__device__ inline void add_up(const Segmented& p, bool whole, const Where& where, Sums (&sums)[UNROLL]) {
    Vector x[UNROLL][AT_ONCE];
    if (whole) {
        // The checks of the other branch are some 400 instructions for 2 KiB: as many as a multiprocessor of an H200
        // can start while its share of the memory brings these bytes.  Here there are 100.
        load::Array from[UNROLL][AT_ONCE];
#pragma unroll
        for (int u = 0; u < UNROLL; ++u)
#pragma unroll
            for (int i = 0; i < AT_ONCE; ++i) {
                const Lane lane(i);
                const RowGroup group = where(u, lane.slot());
                from[u][i].data = static_cast<const Code*>(p.x.data) + group.row * p.stride + lane.offset(p, group, 0);
            }
#pragma unroll 1
        for (i64 first = 0; first < p.chain; first += AT_ONCE) {
#pragma unroll
            for (int u = 0; u < UNROLL; ++u)
#pragma unroll
                for (int i = 0; i < AT_ONCE; ++i) {
                    x[u][i] = load::whole_vector(from[u][i], 0);
                    from[u][i].data = static_cast<const Code*>(from[u][i].data) + AT_ONCE * LINK;
                }
            add_links(p, x, first, sums);
        }
    } else {
#pragma unroll 1
        for (i64 first = 0; first < p.chain; first += AT_ONCE) {
            int kept[UNROLL][AT_ONCE];
#pragma unroll
            for (int u = 0; u < UNROLL; ++u)
#pragma unroll
                for (int i = 0; i < AT_ONCE; ++i) {
                    const Lane lane(i);
                    const RowGroup group = where(u, lane.slot());
                    const i64 row = first + lane.link < p.chain ? group.row : p.rows;
                    x[u][i] = load_at(p, row, lane.offset(p, group, first), kept[u][i]);
                }
#pragma unroll
            for (int u = 0; u < UNROLL; ++u)
#pragma unroll
                for (int i = 0; i < AT_ONCE; ++i) keep(x[u][i], kept[u][i]);
            add_links(p, x, first, sums);
        }
    }
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) sums[u].finish();
}

// Whether everything from a block's first row up to `stop` in that row exists.  Links come in whole batches.
__device__ inline bool is_whole(const Segmented& p, i64 row, i64 stop) {
    if (LAYOUT == STRIDED || p.chain % AT_ONCE != 0 || row >= p.rows || stop > p.length) return false;
    return LAYOUT == ALIGNED || row * p.stride + stop + PER_LOAD <= p.x.n;
}

__device__ inline void store(const Segmented& p, i64 row, double number) {
    if (p.divisor != 1) number /= p.divisor;
    const finish::Target target = static_cast<finish::Target>(p.target);
    finish::store_rounded(finish::place(p.out, row, target), number, target);
}

#if LONG

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) segmented(const __grid_constant__ Segmented p) {
    const i64 row = blockIdx.x / p.chunks, chunk = blockIdx.x % p.chunks, first = chunk * p.turns * SLOTS;
    const i64 turns = min(p.turns, (p.groups - first + SLOTS - 1) / SLOTS);
    double upper = 0, lower = 0;
#pragma unroll 1
    for (i64 turn = 0; turn < turns; turn += UNROLL) {
        Sums sums[UNROLL];
        const bool whole =
            turn + UNROLL <= turns && is_whole(p, row, (first + (turn + UNROLL) * SLOTS) * p.chain * LINK);
        add_up(p, whole, [&](int u, int slot) {
            return RowGroup{turn + u < turns ? row : p.rows, first + (turn + u) * SLOTS + slot};
        }, sums);
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
            upper += sums[u].upper();
            lower += sums[u].lower();
        }
    }
    double number = upper + lower;
    // The tree over the columns; the four lanes of a row of the fragment have the same numbers.
#pragma unroll
    for (int half = GROUPS / 4; half > 0; half /= 2) number += __shfl_down_sync(ALL, number, 4 * half);
    number = warp::across_warps<WARPS>(number);
    if (p.chunks > 1) {
        u64* slots = p.slots + row * p.chunks;
        if (threadIdx.x == 0) grid::publish(slots + chunk, number);
        // The row's last block starts last of its blocks, so those that it waits for are running or done.
        if (chunk != p.chunks - 1) return;
        number = grid::sum_of_chunks<THREADS>(slots, p.chunks);
    }
    if (threadIdx.x == 0) store(p, row, number);
}

#else

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) segmented(const __grid_constant__ Segmented p) {
    const int width = static_cast<int>(p.width), lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const int held = max(1, SLOTS >> width);  // rows of a block at once
    const i64 first = static_cast<i64>(blockIdx.x) * UNROLL * held;
    const bool whole = held << width == SLOTS && is_whole(p, first + UNROLL * held - 1, p.chain * LINK << width);
    Sums sums[UNROLL];
    add_up(p, whole, [&](int u, int slot) {
        const int row = slot >> width;
        return RowGroup{row < held ? first + u * held + row : p.rows, slot - (row << width)};
    }, sums);

    constexpr int COLUMNS_WIDTH = GROUPS == 16 ? 4 : 0;
    const bool shared = width > COLUMNS_WIDTH;  // several warps share a row
    __shared__ double warps[UNROLL][WARPS];
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
        double upper = sums[u].upper(), lower = sums[u].lower();
        int column = 0;  // the column that this lane has the sum of
        if (GROUPS == 16) {
            // The tree over the columns of a row: as many as it has slots.
            if (width >= 4) upper += lower;
#pragma unroll
            for (int half = 4; half > 0; half /= 2) {
                if (half >> width) continue;
                upper += __shfl_down_sync(ALL, upper, 4 * half);
                lower += __shfl_down_sync(ALL, lower, 4 * half);
            }
            if (lane % 4 == 1 && width < 4) upper = lower;
            column = lane / 4 + lane % 4 * 8;
        }
        const int slot = warp * GROUPS + column, row = slot >> width;
        const bool owner = column < GROUPS && (GROUPS == 16 || lane == 0) && slot == row << width;
        if (shared) {
            if (lane == 0) warps[u][warp] = upper;
        } else if (owner && first + u * held + row < p.rows) {
            store(p, first + u * held + row, upper);
        }
    }
    if (!shared) return;
    __syncthreads();
    // One thread for each row goes through the tree over its warps.
    if (threadIdx.x >= UNROLL * held) return;
    const int u = threadIdx.x / held, team = 1 << (width - COLUMNS_WIDTH), at = threadIdx.x % held * team;
#pragma unroll 1
    for (int half = team / 2; half > 0; half /= 2)
        for (int i = at; i < at + half && i + half < WARPS; ++i) warps[u][i] += warps[u][i + half];
    if (first + threadIdx.x < p.rows) store(p, first + threadIdx.x, warps[u][at]);
}

#endif
