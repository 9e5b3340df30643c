// The arguments of a scan of rows.
//
// The host fills the structure Scan field by field (tcu/gpu/scans.py): change both together.

#pragma once

#include "device/scan/prefix.cuh"

namespace tcu::scan {

struct Scan {
    const void* data;
    void* out;
    i64 rows;
    i64 length;
    i64 stride;  // from row to row, in elements
    i64 out_stride;
    Slot* slots;
    ScanCounters* shared;
    Levels levels;
    i64 shares;  // pieces of work: chunks of all rows; or, of short rows, as many as a block or a warp takes at a time
};

}  // namespace tcu::scan
