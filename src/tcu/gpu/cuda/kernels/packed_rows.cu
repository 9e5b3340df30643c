// Sums of rows that lie in memory without gaps.  Each has the bits of its own sum by the plan of sum.cu.
//
// A warp, which is a block, reads its rows through a ring in shared memory.  It takes PIECES pieces of 32 · 16 bytes
// at a time.  In a piece, 32 / LANES rows have LANES lanes each, or one row has one of its TILES. The plan's other
// lanes, rows of fragments, warps and loads would be zeros, which change no sum.  Rows of more than 8 tiles are read
// chunk by chunk, each chunk in the plan's turns of 8 tiles.
//
// Compiled with ELEMENT and LAYOUT (load/array.cuh; ALIGNED: every row begins at a multiple of 16 bytes), and
//   LANES    1 to 32, a power of two
//   TILES    1 to 8; more than 1 with 32 lanes alone
//   WORDS    words of 4 bytes that may hold a lane's part of a row, up to 5; less than 5 with one lane alone
//   LOOPS    1: rows of more than 8 tiles (TILES is 8)
//   RESIDENT   blocks per multiprocessor that the registers must allow
//
// Reading rows of 3 to 100 numbers from memory directly (rows.cu) took 80 to 180 instructions a piece, two to three
// times what memory speed allows.

#include "device/finish/store.cuh"
#include "device/load/ring_read.cuh"
#include "device/reduce/rows.cuh"
#include "device/warp/tree.cuh"

using namespace tcu;

typedef load::Ring<2048, 4> RowRing;

constexpr int WIDTH = warp::power_of_two(TILES);
// Pieces at once; with TILES, those of PIECES / WIDTH rows.  Twice as many leave too little of the ring for copies
// under way.
constexpr int PIECES = WIDTH > 4 ? WIDTH : LANES < 4 ? LANES : 4;
// Turns of PIECES pieces between two requests for more of memory.
[[maybe_unused]] constexpr int TURNS = WORDS == 2 ? 8 : PIECES < 4 ? 4 / PIECES : 1;
[[maybe_unused]] constexpr int ROWS = WARP / LANES * (PIECES / WIDTH);  // rows of a turn

#include "generated/rows/PackedRows.inc"

// The first `left` elements, and +0 in place of the others.
__device__ inline Vector masked(const Vector& v, int left) {
    return load::lowest(v, 8 * static_cast<int>(sizeof(Code)) * left);
}

// 16 bytes of the ring, not masked.
__device__ inline Vector vector_at(const RowRing& data, u32 at) {
    if constexpr (LAYOUT == ALIGNED) {
        Vector v;
        v.words = *reinterpret_cast<const uint4*>(data.at(at));
        return v;
    } else {
        return load::shifted(load::read<(LANES <= 4), WORDS>(data, at));
    }
}

extern "C" __global__ void __launch_bounds__(WARP, resident(RESIDENT, WARP))
    packed_rows(const __grid_constant__ PackedRows p) {
    __shared__ RowRing::Memory memory;
    const int lane = threadIdx.x;
    RowRing data(memory);
    const i64 begin = blockIdx.x * p.share;
    const i64 end = min(begin + p.share, p.rows);
    if (begin >= end) return;
    const u32 length = static_cast<u32>(p.length), bytes = length * static_cast<u32>(sizeof(Code));
    const u32 rows = static_cast<u32>(end - begin);
    const u32 shift = data.begin(p.data, static_cast<const Code*>(p.data) + begin * p.length, rows * bytes);
    data.go_on(0);
    u32 at = shift + lane / LANES * bytes + lane % LANES * 16;
    const finish::Target target = static_cast<finish::Target>(p.target);
#if LOOPS
    constexpr u32 TURN = TILES * WARP * 16;  // bytes
#pragma unroll 1
    for (u32 done = 0; done < rows; ++done) {
        double total = 0;  // the sum of chunk number `lane`
        u32 to_come = bytes;
#pragma unroll 1
        for (int chunk = 0; chunk < static_cast<int>(p.chunks); ++chunk) {
            reduce::RowTile tiles[TILES];
#pragma unroll 1
            for (int turn = 0; turn < static_cast<int>(p.turns) && to_come; ++turn) {
                const u32 some = min(to_come, TURN), behind = at - lane * 16 + some;
                data.wait(behind);
                if (some == TURN) {
#pragma unroll
                    for (int t = 0; t < TILES; ++t) tiles[t].add(vector_at(data, at + t * WARP * 16));
                } else {
#pragma unroll
                    for (int t = 0; t < TILES; ++t) tiles[t].add(masked(vector_at(data, at + t * WARP * 16),
                        (static_cast<int>(some) - (t * WARP + lane) * 16) / static_cast<int>(sizeof(Code))));
                }
                at += some;
                to_come -= some;
                data.go_on(behind);
            }
            double v[TILES];
#pragma unroll
            for (int t = 0; t < TILES; ++t) v[t] = tiles[t].sum();
            const double number = reduce::sum_of_tiles<TILES>(v);
            if (lane == chunk) total = number;
        }
        total = warp::tree<WARP>(total);
        if (p.divisor != 1) total /= p.divisor;
        if (lane == 0) finish::store_rounded(finish::place(p.out, begin + done, target), total, target);
    }
#else
    // In the last tile, what lies behind the end of the row is masked.
    const int left = static_cast<int>(length) - ((TILES - 1) * WARP + lane % LANES) * PER_LOAD;
    Vector mask;
    mask.words = make_uint4(ALL, ALL, ALL, ALL);
    mask = masked(mask, left);
    // Lanes that have nothing of the row read its beginning, as another lane does.
    if (TILES == 1 && left <= 0) at -= lane % LANES * 16;
    [[maybe_unused]] const bool plain = reduce::Pieces<PIECES>::PLAIN && target == finish::TO_BINARY32 && p.divisor == 1;
    const int piece = TILES > 1 ? (reduce::NEAR ? lane : lane / (WARP / PIECES)) : reduce::Pieces<PIECES>::number();
    const int row = piece % (PIECES / WIDTH) * (WARP / LANES) + lane / LANES;
    const bool stores = TILES > 1 ? (reduce::NEAR || lane % (WARP / PIECES) == 0) && piece < PIECES / WIDTH : reduce::Pieces<PIECES>::stores();
    u32 done = 0;
#pragma unroll 1
    while (done < rows) {
        data.wait(shift + min(done + ROWS * TURNS, rows) * bytes);
#pragma unroll
        for (int turn = 0; turn < TURNS; ++turn, done += ROWS) {
#if TILES > 1
            double v[PIECES] = {};
#else
            reduce::Pieces<PIECES> pieces;
#endif
#pragma unroll
            for (int u = 0; u < PIECES / WIDTH; ++u, at += WARP / LANES * bytes)
#pragma unroll
                for (int t = 0; t < TILES; ++t) {
                    Vector x = vector_at(data, at + t * WARP * 16);
                    if (t == TILES - 1)
#pragma unroll
                        for (int i = 0; i < 4; ++i) x.word[i] &= mask.word[i];
#if TILES > 1
                    v[t * (PIECES / WIDTH) + u] = reduce::number_of(reduce::sum_of(x));
#else
                    pieces.take(u, reduce::sum_of(x));
#endif
                }
            const bool any = stores && done + row < rows;
#if TILES > 1
            double sum = reduce::sum_of_tiles<WIDTH>(v);
#else
            if (plain) {
                if (any) static_cast<float*>(p.out)[begin + done + row] = pieces.plain_sum();
                continue;
            }
            double sum = pieces.sum();
#endif
            if (p.divisor != 1) sum /= p.divisor;
            if (any) finish::store_rounded(finish::place(p.out, begin + done + row, target), sum, target);
        }
        data.go_on(shift + min(done, rows) * bytes);
    }
#endif
    data.finish();
}
