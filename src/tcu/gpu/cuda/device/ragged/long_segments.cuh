// The arguments of the kernels for long segments, which segments.cu and short_segments.cu have left.
//
// The host fills the structure field by field (tcu/gpu/segments.py): change both together.

#pragma once

#include "device/ragged/work_queue.cuh"

namespace tcu::ragged {

struct LongSegments {
    const void* data;
    i64 n;
    void* out;
    i64 target;
    i64 mean;    // whether the sums are divided by the lengths
    i64 listed;  // whether list_segments.cu was launched before
    i64 early;   // whether this launch lies between that one and the short segments', and another follows these
    WorkQueue queue;
};

}  // namespace tcu::ragged
