// Running sums within ragged segments, each by the plan of tcu/plan/scan.py.
//
// A warp takes windows of segments (ragged/segment_windows.cuh): results take the places of numbers, or have a place
// behind them, and leave together.  Longer segments go to a second launch (segment_chunks.cu).  A segment that is
// invalid (it ends before it begins, or outside the array) is left out.
//
// Compiled with what ragged/running_sums.cuh needs, for sm_90 and later, and
//   APART      1: results have a place of their own
//   RESIDENT   warps per multiprocessor that the registers must allow

#include "device/ragged/chunk_queue.cuh"
#include "device/ragged/running_sums.cuh"

using namespace tcu;

#include "generated/segment_scans/SegmentTiles.inc"

extern "C" __global__ void __launch_bounds__(WARP, RESIDENT) segment_tiles(const __grid_constant__ SegmentTiles p) {
    extern __shared__ uint4 memory[];
    u64* const full = reinterpret_cast<u64*>(memory);
    u32* const list = reinterpret_cast<u32*>(memory + 1);
    u32* const marks = list + WARP;
    ragged::for_each_window(
        p, full, marks, ragged::mark_of, [](i64) {},
        [&](i64 segment, i64 begin, i64 length) { ragged::put_chunks(p.queue, segment, begin, length); },
        [&](const ragged::SegmentWindow& window) {
            if (window.count == 0) return;
            finish::ResultCode* const to = static_cast<finish::ResultCode*>(p.out) + window.begin;
            char* const apart = reinterpret_cast<char*>(marks) + p.results + reinterpret_cast<u64>(to) % ragged::LINE;
            char* const results = APART ? apart : window.numbers;
            ragged::scan_tile({window, results}, list);
            scan::store_run(to, results, window.count);
            if (threadIdx.x == 0) load::wait_for_stores();
        });
}
