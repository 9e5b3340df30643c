// Sums along an axis that is not the last.  Every column has the bits of its own sum by the plan of sum.cu.
//
// The array is (outer, length, inner), and inner numbers lie side by side.  A column is `length` numbers, a row
// apart.
//
// What one accumulator of the plan adds up is a leaf: rows at the distance `period`. Leaves come together two by two,
// `distance[k]` rows apart on level k.  Lanes share the first levels.  A warp goes through the levels above one leaf
// after another, in an order in which only LEVELS numbers must wait.  Warps share the last levels.  A long column is
// cut into chunks, one for each block, and another launch adds up what the chunks come to, by the plan's last steps.
//
// Compiled with ELEMENT and LAYOUT (load/array.cuh; of 16-bit numbers, ALIGNED: what is loaded begins at multiples of
// GRAIN bytes), and
//   GRAIN    16; or 8, for 16-bit numbers ALIGNED and not NARROW
//   COLUMNS  of a unit. Of 16-bit numbers: 8; or, where NARROW is 1, the inner extent, which is at most 8, and rows lie
//            without gaps. Of others: what a lane loads at once, which divides the inner extent
//   SPREAD   levels that lanes share: of 16-bit numbers up to 3, of others up to 5
//   LEVELS   levels of a warp
//   HALVES   1, of 16-bit numbers: no column has more than 16 rows, half a leaf, and two units are taken together
//   TURNS    turns at a time, so that enough is read at once
//   LOW, MOST_WITHIN   of numbers of more than 16 bits: lanes share the first LOW levels; then come those of a lane's own
//            leaves, up to MOST_WITHIN; then the other levels that lanes share
//   LOOPS    1: a chunk has more turns than TURNS
//   UNEVEN   1: the plan's warps are no power of two, so that some leaves of its trees do not exist
//   ALONG    warps that share a column; the block's other warps have other columns
//   PIPED    1: 16-bit numbers, ALIGNED and not NARROW, ALONG 1: a warp takes columns one after another, and asks for what
//            comes next before it adds up
//   THREADS, RESIDENT   of a block, and blocks per multiprocessor that the registers must allow

#include "device/finish/store.cuh"
#include "device/reduce/lane_sums.cuh"
#include "device/reduce/narrow_columns.cuh"
#if MMAS
#include "device/reduce/mma_columns.cuh"
#elif ELEMENT == BINARY16 || ELEMENT == BFLOAT16
#include "device/reduce/near_columns.cuh"
#else
#include "device/reduce/lane_columns.cuh"
#endif

using namespace tcu;

#if MMAS
typedef reduce::MmaLeaves Leaves;
#elif ELEMENT == BINARY16 || ELEMENT == BFLOAT16
typedef reduce::NearLeaves Leaves;
#else
typedef reduce::LaneLeaves Leaves;
#endif

constexpr int NUMBERS = Leaves::NUMBERS;
constexpr int UNITS = WARP / Leaves::LANES >> SPREAD;  // units of a warp
constexpr int ACROSS = THREADS / WARP / ALONG;

// A unit of neighbouring columns; it has none beyond the last unit.
struct ColumnUnit {
    u32 outer;
    i64 first;
    int columns;

    __device__ ColumnUnit(const reduce::Columns& p, u32 unit) : outer(reduce::outer_of(p, unit)) {
        first = static_cast<i64>(unit - outer * p.pieces) * Leaves::UNIT;
        columns = unit < p.units ? static_cast<int>(min(p.inner - first, i64(Leaves::UNIT))) : 0;
    }
};

struct Ahead {
#if PIPED
    Leaves::Asked asked;        // the next leaf's numbers, which are under way
    reduce::ChunkColumns next;  // the columns that follow
#endif
};
constexpr int NEXT_COLUMNS = -1;

// The sums of the leaves below a level.  The first leaf begins at `row`, the one that follows all of them at `after`.
template <int LEVEL>
__device__ inline void sum_below(const reduce::Columns& p, const reduce::ChunkColumns& x, int rows, int row, int after,
                                 Ahead& ahead,
                                 double (&v)[NUMBERS]) {
    if constexpr (LEVEL == Leaves::WITHIN) {
        Leaves leaves;
        const int period = static_cast<int>(p.period);
        if (row >= period) row = rows;  // the plan's warps may be no power of two: there is no such leaf
#if PIPED
        if (after >= period) after = rows;
#pragma unroll 1
        do {
            const int turn = row + period;
            leaves.add(x, row, ahead.asked, [&] {
                const bool again = LOOPS && turn < rows, here = again || after != NEXT_COLUMNS;
                // Chosen field by field: a choice between addresses would need memory.
                const reduce::ChunkColumns& y = ahead.next;
                const reduce::ChunkColumns from = {here ? x.data : y.data, x.stride, here ? x.columns : y.columns,
                                                   here ? x.rows : y.rows};
                Leaves::ask_for(from, again ? turn : here ? after : 0, ahead.asked);
            });
            row = turn;
        } while (LOOPS && row < rows);
#else
        if (!LOOPS) leaves.add(p, x, row);
        else
#pragma unroll 1
            for (int turn = row; turn < rows; turn += TURNS * period) leaves.add(p, x, turn);
#endif
        leaves.sums(v);
    } else {
        double first[NUMBERS];
#pragma unroll 1
        for (int half = 0; half < 2; ++half) {
            const int second = row + p.distance[SPREAD + LEVEL - 1];
            sum_below<LEVEL - 1>(p, x, rows, half ? second : row, half ? after : second, ahead, v);
#pragma unroll
            for (int n = 0; n < NUMBERS; ++n) {
                if (half == 0) first[n] = v[n];
                else v[n] += first[n];
            }
        }
    }
}

// A warp's position: its first unit, and its chunk of rows.
struct Here {
    u32 units;
    i64 begin;
    int rows;

    // The lane's columns of the chunk, from the lane's own leaf on.
    __device__ reduce::ChunkColumns chunk(const reduce::Columns& p) const {
        const int own = Leaves::unit();
        const ColumnUnit unit(p, units + (own >> SPREAD));
        int leaf = 0;
#pragma unroll
        for (int k = 0; k < SPREAD; ++k)
            if (own >> k & 1) leaf += p.distance[Leaves::level_of_lane(k)];
        const Code* data = static_cast<const Code*>(p.data) + unit.outer * p.outer_stride + unit.first;
        return {data + (begin + leaf) * p.stride, p.stride, unit.columns, rows - leaf};
    }

    __device__ void store(const reduce::Columns& p, double (&v)[NUMBERS]) const {
        const finish::Target target = static_cast<finish::Target>(p.target);
        Leaves::arrange(v);
#pragma unroll
        for (int n = 0; n < NUMBERS; ++n) {
            const int owner = Leaves::owner(n), column = Leaves::column(n);
            const ColumnUnit unit(p, units + (owner >> SPREAD));
            if (owner % (1 << SPREAD) != 0 || column >= unit.columns) continue;
            if (p.divisor != 1) v[n] /= p.divisor;
            const i64 result = blockIdx.y * p.results + unit.outer * p.inner + unit.first + column;
            finish::store_rounded(finish::place(p.out, result, target), v[n], target);
        }
    }
};

extern "C" __global__ void __launch_bounds__(THREADS, resident(RESIDENT, THREADS))
    columns(const __grid_constant__ reduce::Columns p) {
    const int warp = threadIdx.x / WARP;
    Here here;
    here.units = (blockIdx.x * ACROSS + warp / ALONG) * UNITS;
    here.begin = blockIdx.y * p.chunk;
    here.rows = static_cast<int>(min(p.length - here.begin, p.chunk));
    double v[NUMBERS];
    Ahead ahead;
#if PIPED
    // A warp has many columns: the next ones are asked for as soon as there is room.
    const u32 step = gridDim.x * ACROSS * UNITS;
    reduce::ChunkColumns x = here.chunk(p);
    Leaves::ask_for(x, 0, ahead.asked);
#pragma unroll 1
    for (; here.units < p.units; here.units += step) {
        const Here later = {here.units + step, here.begin, here.rows};
        ahead.next = later.chunk(p);
        sum_below<LEVELS>(p, x, here.rows, 0, NEXT_COLUMNS, ahead, v);
        here.store(p, v);
        x = ahead.next;
    }
#else
    const int along = warp % ALONG;
    int row = 0;  // where the warp's leaves begin
#pragma unroll
    for (int k = 0; 1 << k < ALONG; ++k)
        if (along >> k & 1) row += p.distance[SPREAD + LEVELS + k];
    sum_below<LEVELS>(p, here.chunk(p), here.rows, row, NEXT_COLUMNS, ahead, v);
    reduce::across_warps_of_columns(v);
    if (along == 0) here.store(p, v);
#endif
}
