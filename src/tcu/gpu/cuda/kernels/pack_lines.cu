// Copies lines along k, which is contiguous, into lines that begin at multiples of 16 bytes, with zeros behind each: for the
// copy engine, where theirs begin anywhere.
//
//   INPUT     an unsigned type as wide as the elements
//   TURNS     units of 16 bytes that a thread copies in each tile

#include "device/types/types.cuh"

using namespace tcu;

namespace {

#include "generated/tensor_copy/PackedLines.inc"

constexpr int THREADS = 256, UNIT = 16, WORD = 8, IN_WORD = WORD / sizeof(INPUT);

// 16 bytes of a line from `at` on, by loads of 8 where all that they read is the line's.
__device__ inline ulonglong2 unit_of(const char* line, i64 at, i64 bytes) {
    const u64 address = reinterpret_cast<u64>(line + at);
    const u32 off = address % WORD;
    ulonglong2 found{0, 0};
    if (at + UNIT + (off ? WORD : 0) <= bytes && (off == 0 || at > 0)) {
        const u64* const words = reinterpret_cast<const u64*>(address - off);
        found.x = __ldg(words), found.y = __ldg(words + 1);
        if (off) {
            found.x = found.x >> 8 * off | found.y << (64 - 8 * off);
            found.y = found.y >> 8 * off | __ldg(words + 2) << (64 - 8 * off);
        }
        return found;
    }
#pragma unroll
    for (int i = 0; i < 2 * IN_WORD; ++i) {
        const i64 byte = at + i * static_cast<i64>(sizeof(INPUT));
        if (byte >= bytes) continue;
        const u64 number = __ldg(reinterpret_cast<const INPUT*>(line + byte));
        (i < IN_WORD ? found.x : found.y) |= number << i % IN_WORD * 8 * sizeof(INPUT);
    }
    return found;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS) pack_lines(const __grid_constant__ PackedLines p) {
    constexpr i64 SIZE = sizeof(INPUT);
    const u32 units = static_cast<u32>(p.pitch * SIZE / UNIT);  // of a line
    const i64 lines = p.lines * p.batches;
    for (i64 tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
        const i64 first = tile * (TURNS * THREADS) + threadIdx.x;
        i64 line = first / units;
        u32 unit = static_cast<u32>(first - line * units);
        ulonglong2 found[TURNS];
#pragma unroll
        for (int i = 0; i < TURNS; ++i) {
            if (line < lines) {
                const i64 batch = line < p.lines ? 0 : line / p.lines;
                const i64 begin = batch * p.batch_stride + (line - batch * p.lines) * p.line_stride;
                found[i] = unit_of(static_cast<const char*>(p.source) + begin * SIZE, static_cast<i64>(unit) * UNIT, p.k * SIZE);
            }
            unit += THREADS;
            const u32 further = unit / units;
            line += further, unit -= further * units;
        }
        const i64 end = lines * units;
#pragma unroll
        for (int i = 0; i < TURNS; ++i)
            if (first + i * THREADS < end) static_cast<ulonglong2*>(p.to)[first + i * THREADS] = found[i];
    }
}
