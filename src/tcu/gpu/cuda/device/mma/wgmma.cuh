// wgmma.mma_async of m64nNk32 bytes, both operands in shared memory, and their descriptors (PTX ISA, "Asynchronous
// warpgroup level matrix instructions").
//
//   WGMMA_TYPES     what follows the shape's n in the instruction's name, such as "k16.f32.f16.f16"
//   WGMMA_SCALES    the scales of A and B, ", 1, 1", or "" for integers
//   INTEGERS        whether D is of s32
//   HALVES          whether D is of binary16; else it is of binary32
//   WGMMA_MAJOR     for 16-bit inputs, whether each is M- or N-major, ", 0, 0", else ""

#pragma once

#include "device/types/types.cuh"

#if INTEGERS || HALVES
#define WGMMA_REGISTER(x) "r"(x)
#else
#define WGMMA_REGISTER(x) "f"(x)
#endif

namespace tcu::mma {

// A number of D outside the unit, and a register of D.
#if INTEGERS
typedef int DNumber;
typedef int DWord;
#elif HALVES
typedef float DNumber;
typedef u32 DWord;
#else
typedef float DNumber;
typedef float DWord;
#endif

constexpr int PER_WORD = HALVES ? 2 : 1;
constexpr int SWIZZLED = 128;  // bytes of a line in shared memory whose 16-byte units are swizzled
constexpr int ATOM = 8 * SWIZZLED;

// A tile in shared memory, at a multiple of 1024 bytes, with the 128-byte swizzle of the copy engine.  K-major: lines of 128 bytes of
// k.  Otherwise blocks of 64 numbers of m or n, each `block` bytes: a line for each k.
__device__ inline u64 descriptor(u32 address, bool k_major, u32 block) {
    const u64 leading = k_major ? 1 : block >> 4, stride = ATOM >> 4, swizzle = 1;
    return (address & 0x3ffff) >> 4 | leading << 16 | stride << 32 | swizzle << 62;
}

// From one MMA to the next along k: 32 bytes of k.
__device__ constexpr u64 next_k(bool k_major) { return (k_major ? 32 : 16 * SWIZZLED) >> 4; }

#if __CUDA_ARCH_FEAT_SM90_ALL
__device__ inline void fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

template <int PENDING>
__device__ inline void wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

// The registers belong to MMAs under way: nothing is moved across this.
template <int COUNT>
__device__ inline void hold(DWord (&d)[COUNT]) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) asm volatile("" : "+" WGMMA_REGISTER(d[i])::"memory");
}

#include "generated/matmul/wgmma.inc"

// Number i of a thread's share of D.
__device__ inline DNumber value(const DWord* d, int i) {
    if constexpr (!HALVES) return static_cast<DNumber>(d[i]);
    float value;
    asm("{ .reg .b16 h; mov.b16 h, %1; cvt.f32.f16 %0, h; }" : "=f"(value) : "h"(static_cast<u16>(static_cast<u32>(d[i / PER_WORD]) >> i % PER_WORD * 16)));
    return value;
}
#endif

}  // namespace tcu::mma
