// Long segments, which segments.cu has left.
//
// The host fills the structure field by field (tcu/gpu/segments.py): change both together.

#pragma once

#include "device/grid/work_queue.cuh"

namespace tcu::ragged {

struct LongSegments {
    const void* data;
    i64 n;
    void* out;
    i64 target;
    i64 mean;    // whether the sums are divided by the lengths
    i64 listed;  // whether list_segments.cu has been launched ahead
    i64 early;   // whether this launch is between that one and that of the short segments, and there is one behind them
    grid::WorkQueue queue;
};

}  // namespace tcu::ragged
