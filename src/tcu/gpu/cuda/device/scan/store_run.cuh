// Results that lie one after another in shared memory and leave it together, for sm_90 and later.
//
// Compiled with RESULT (finish/result_code.cuh).

#pragma once

#include "device/finish/result_code.cuh"
#include "device/load/bulk_copy.cuh"

namespace tcu::scan {

// Called by a whole warp: stores results that lie in shared memory.  Where these and their places begin alike in 16
// bytes, the copy engine takes whole granules; those that share a granule with other numbers are stored one by one.
__device__ inline void store_run(finish::ResultCode* to, const char* results, int count) {
    const int lane = threadIdx.x % WARP, shift = static_cast<int>(reinterpret_cast<u64>(to) % 16);
    constexpr int SIZE = sizeof(finish::ResultCode);
    const finish::ResultCode* const codes = reinterpret_cast<const finish::ResultCode*>(results);
    load::release_to_copies();
    __syncwarp();
    if (reinterpret_cast<u64>(results) % 16 != shift) {
        for (int i = lane; i < count; i += WARP) to[i] = codes[i];
        return;
    }
    const int bytes = count * SIZE, head = min(-shift & 15, bytes), whole = (bytes - head) / 16 * 16;
    if (lane == 0 && whole) {
        load::start_store(reinterpret_cast<char*>(to) + head, results + head, whole);
        load::commit_stores();
    }
    if (lane < head / SIZE) to[lane] = codes[lane];
    const int rest = (head + whole) / SIZE + lane;
    if (rest < count) to[rest] = codes[rest];
}

}  // namespace tcu::scan
