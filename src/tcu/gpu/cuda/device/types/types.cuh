// Short names for integers of each width, and the constants of a warp and a multiprocessor.

#pragma once

namespace tcu {

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

constexpr int WARP = 32;
constexpr u32 ALL = 0xffffffff;  // the mask of all lanes

// The most blocks and threads that a multiprocessor holds at a time (CUDA C++ Programming Guide, "Compute
// Capabilities").
#if __CUDA_ARCH__ == 750 || __CUDA_ARCH__ == 860 || __CUDA_ARCH__ == 870
constexpr int MOST_BLOCKS = 16;
#elif __CUDA_ARCH__ == 890 || __CUDA_ARCH__ >= 1100
constexpr int MOST_BLOCKS = 24;
#else
constexpr int MOST_BLOCKS = 32;
#endif

#if __CUDA_ARCH__ == 750
constexpr int MOST_THREADS = 1024;
#elif __CUDA_ARCH__ == 800 || (__CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1100)
constexpr int MOST_THREADS = 2048;
#else
constexpr int MOST_THREADS = 1536;
#endif

// For __launch_bounds__: `blocks` per multiprocessor, or as many as it can hold.
__device__ constexpr int resident(int blocks, int threads) {
    const int most = MOST_THREADS / threads < MOST_BLOCKS ? MOST_THREADS / threads : MOST_BLOCKS;
    return blocks < most ? blocks : most;
}

}  // namespace tcu
