// Offsets of ragged segments: copied as contiguous numbers of 64 bits, and looked at.
//
// The host fills the structure field by field (tcu/gpu/offsets.py): change both together.

#include "types.cuh"

struct Offsets {
    const void* offsets;
    i64 count;
    i64 stride;  // in elements
    i64 wide;    // whether they have 64 bits, else 32
    i64* to;     // null: not copied
    i64 n;       // what the last one must be
    u32* wrong;  // not 0 afterwards if they cannot be offsets; null: not looked at
};

extern "C" __global__ void offsets(const __grid_constant__ Offsets p) {
    const auto offset = [&](i64 i) {
        return p.wide ? static_cast<const i64*>(p.offsets)[i * p.stride] : static_cast<const int*>(p.offsets)[i * p.stride];
    };
    const i64 step = static_cast<i64>(gridDim.x) * blockDim.x;
    for (i64 i = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; i < p.count; i += step) {
        const i64 here = offset(i);
        if (p.to) p.to[i] = here;
        if (p.wrong && (here < (i ? offset(i - 1) : 0) || (i == 0 && here) || (i == p.count - 1 && here != p.n)))
            *p.wrong = 1;
    }
}
