// Copies the matrices of a batch into lines along k that begin at multiples of 16 bytes, with zeros behind each: for the
// copy engine, where k is not contiguous.
//
//   INPUT     an unsigned type as wide as the elements

#include "device/types/types.cuh"

using namespace tcu;

namespace {

#include "generated/tensor_copy/PackedLines.inc"

constexpr int TILE = 64;

}  // namespace

extern "C" __global__ void __launch_bounds__(256) pack_matrix(const __grid_constant__ PackedLines p) {
    __shared__ INPUT tile[TILE][TILE + (sizeof(INPUT) < 4 ? 4 / sizeof(INPUT) : 1)];
    const u32 fast = threadIdx.x % TILE, slow = threadIdx.x / TILE;
    for (i64 t = blockIdx.x; t < p.tiles; t += gridDim.x) {
        const i64 k0 = t % p.tiles_k * TILE, line0 = t / p.tiles_k % p.tiles_lines * TILE;
        const i64 batch = t / p.tiles_k / p.tiles_lines;
        const INPUT* const from = static_cast<const INPUT*>(p.source) + batch * p.batch_stride;
        INPUT* const to = static_cast<INPUT*>(p.to) + batch * p.lines * p.pitch;
        for (u32 i = slow; i < TILE; i += 256 / TILE) {  // neighbouring lanes have neighbours in memory
            const u32 l = p.along_lines ? fast : i, k = p.along_lines ? i : fast;
            if (line0 + l < p.lines && k0 + k < p.pitch)
                tile[l][k] = k0 + k < p.k ? __ldg(from + (line0 + l) * p.line_stride + (k0 + k) * p.k_stride) : INPUT(0);
        }
        __syncthreads();
        for (u32 l = slow; l < TILE; l += 256 / TILE)
            if (line0 + l < p.lines && k0 + fast < p.pitch) to[(line0 + l) * p.pitch + k0 + fast] = tile[l][fast];
        __syncthreads();
    }
}
