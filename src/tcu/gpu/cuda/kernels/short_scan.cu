// Running sums of rows of binary16 without gaps between them.  A row has a power of two of groups up to 512, or whole
// pieces up to 32 chunks.
//
// A warp takes a piece at a time: some lines, or, of a row of more lines, some of its lines.  A piece is copied to
// shared memory; results take the places of numbers there and leave together.  No warp waits for another.
//
// Compiled with ELEMENT and RESULT (binary16), LAYOUT (ALIGNED: the array and the result begin at multiples of 16
// bytes), for sm_90 and later, and
//   PER_ROW    groups of a row
//   EXCLUSIVE, REVERSE
//   TOGETHER   lines of a piece: 1, 2, 4, 8 or 16
//   BUFFERS    pieces of a warp in shared memory; 1 where a row has no more than one
//   RESIDENT   warps per multiprocessor that the registers must allow

#include "device/load/bulk_copy.cuh"
#include "device/scan/exact_lines.cuh"
#include "device/scan/rows.cuh"

using namespace tcu;

constexpr int LINE = WARP * scan::GROUP;                  // elements
constexpr int PIECE = TOGETHER * LINE;                    // elements
constexpr int IN_LINE = PER_ROW < WARP ? PER_ROW : WARP;  // groups of a row in a line
constexpr int LINES_OF_ROW = PER_ROW / IN_LINE;
// Pieces of a row, which a warp takes one after another.
constexpr int PIECES = LINES_OF_ROW > TOGETHER ? LINES_OF_ROW / TOGETHER : 1;
// Chunks of a row: sums of more lines than a chunk's may not be exact.
constexpr int CHUNKS = (LINES_OF_ROW + scan::LINES - 1) / scan::LINES;
constexpr int PENDING = BUFFERS > 2 ? 1 : 0;  // stores that may still be under way when the next numbers are waited for

static_assert(CHUNKS <= WARP && scan::LINES % TOGETHER == 0,
              "each lane has the total of a chunk, and a chunk whole pieces");
static_assert(PIECES == 1 ? BUFFERS == 1 : BUFFERS > 1 && PIECES * TOGETHER == LINES_OF_ROW, "a row has whole pieces");

struct ShortScanBuffers {
    scan::Group groups[BUFFERS][TOGETHER * WARP];
    u64 full[BUFFERS];
};

// A warp's pieces, in the order of the scan.
struct LinePiece {
    int number = 0;
    int buffer = 0;
    u32 odd = 0;

    __device__ void next() {
        ++number;
        if (++buffer == BUFFERS) {
            buffer = 0;
            odd ^= 1;
        }
    }

    __device__ i64 first() const {
        return (static_cast<i64>(blockIdx.x) * PIECES + (REVERSE ? PIECES - 1 - number : number)) * PIECE;
    }

    // Elements; the last ones may be fewer, and whole rows.
    __device__ int count(i64 all) const { return static_cast<int>(min(all - first(), static_cast<i64>(PIECE))); }
};

extern "C" __global__ void __launch_bounds__(WARP, RESIDENT) short_scan(const __grid_constant__ scan::Scan p) {
    extern __shared__ uint4 memory[];
    ShortScanBuffers& b = *reinterpret_cast<ShortScanBuffers*>(memory);
    const int lane = threadIdx.x;
    const i64 all = p.rows * p.length;
    if (lane == 0)
        for (int i = 0; i < BUFFERS; ++i) load::prepare(&b.full[i]);
    __syncwarp();
    LinePiece ahead;
    const auto load = [&] {
        if (ahead.number < PIECES && lane == 0)
            load::copy_bulk(b.groups[ahead.buffer], static_cast<const Code*>(p.data) + ahead.first(),
                      ahead.count(all) * sizeof(Code), &b.full[ahead.buffer]);
        ahead.next();
    };
    for (int i = 0; i < BUFFERS; ++i) load();
    double earlier = 0;  // the sum of the row's lines before, in this chunk
    [[maybe_unused]] double chunks_before = 0, total = 0;  // `total`: of the chunk with the lane's number
#pragma unroll 1
    for (LinePiece piece; piece.number < PIECES; piece.next()) {
        load::wait_for_copy(&b.full[piece.buffer], piece.odd);
        const int count = piece.count(all), lines = (count + LINE - 1) / LINE;
        scan::Group* const groups = b.groups[piece.buffer];
        const int chunk = piece.number * TOGETHER / scan::LINES;
        if (CHUNKS > 1 && piece.number && piece.number * TOGETHER % scan::LINES == 0) {
            if (lane == chunk - 1) total = earlier;
            chunks_before = __shfl_sync(ALL, scan::inclusive<WARP>(total, lane), chunk - 1);
            earlier = 0;
        }
#pragma unroll 2
        for (int i = 0; i < lines; ++i) {
            // If a line has fewer groups, all rows are shorter than a line, and what is scanned beyond them is not
            // stored.
            scan::Group* const at = groups + (REVERSE ? lines - 1 - i : i) * WARP + (REVERSE ? WARP - 1 - lane : lane);
            if (i % LINES_OF_ROW == 0 && PIECES == 1) earlier = 0;
            const scan::Group x = *at;
            const double start = CHUNKS > 1 ? chunks_before + earlier : earlier;
            double sum;
            if (__all_sync(ALL, scan::finite(x)) && start - start == 0) {
                const scan::ExactRunningSums<IN_LINE> running(x);
                scan::put<16>(running, reinterpret_cast<char*>(at), start);
                sum = running.all;
            } else {
                sum = scan::scan_any<IN_LINE, 16>(reinterpret_cast<char*>(at), start);
            }
            if (LINES_OF_ROW > 1) earlier += __shfl_sync(ALL, sum, WARP - 1);
        }
        load::release_to_copies();
        __syncwarp();
        if (lane == 0) {
            load::start_store(static_cast<finish::ResultCode*>(p.out) + piece.first(), groups, count * sizeof(Code));
            load::commit_stores();
            if (piece.number + 1 < PIECES)
                load::wait_for_stores<PENDING>();
            else
                load::wait_for_stores();
        }
        if (piece.number >= PENDING) load();
    }
}
