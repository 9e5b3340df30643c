// The arguments of a scan of rows.

#pragma once

#include "device/scan/prefix.cuh"

namespace tcu::scan {

#include "generated/scans/Scan.inc"

}  // namespace tcu::scan
