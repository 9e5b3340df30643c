// The arguments of the kernels for long segments, which segments.cu and short_segments.cu have left.

#pragma once

#include "device/ragged/work_queue.cuh"

namespace tcu::ragged {

#include "generated/segments/LongSegments.inc"

}  // namespace tcu::ragged
