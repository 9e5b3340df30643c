// Additions, multiplications and FMAs of IEEE 754, each rounded by itself: a compiler joins what operators write to FMAs, and
// then the bits are not those of the same steps on the host.

#pragma once

namespace tcu {

__device__ inline float plus(float x, float y) { return __fadd_rn(x, y); }
__device__ inline double plus(double x, double y) { return __dadd_rn(x, y); }
__device__ inline float minus(float x, float y) { return __fsub_rn(x, y); }
__device__ inline double minus(double x, double y) { return __dsub_rn(x, y); }
__device__ inline float times(float x, float y) { return __fmul_rn(x, y); }
__device__ inline double times(double x, double y) { return __dmul_rn(x, y); }
__device__ inline float fused(float x, float y, float z) { return __fmaf_rn(x, y, z); }
__device__ inline double fused(double x, double y, double z) { return __fma_rn(x, y, z); }

}  // namespace tcu
