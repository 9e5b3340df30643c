// What the sums are measured against: reading alone, and the classic reduction of paper 000.
#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

constexpr int kThreads = 256;

// Reads everything in 16-byte loads, LOADS of them independent, tiles strided over the grid. The XOR keeps the
// loads alive; it is stored only if it equals `never`, which the host draws at random.
template <int LOADS, int RESIDENT>
__global__ void __launch_bounds__(kThreads, RESIDENT)
    read_kernel(const uint4* __restrict__ x, int64_t n, unsigned never, unsigned* out) {
  constexpr int64_t kTile = int64_t{LOADS} * kThreads;
  unsigned bits = 0;
  for (int64_t tile = blockIdx.x * kTile; tile < n; tile += gridDim.x * kTile) {
    uint4 loaded[LOADS];
#pragma unroll
    for (int i = 0; i < LOADS; ++i) {
      const int64_t at = tile + i * kThreads + threadIdx.x;
      loaded[i] = at < n ? x[at] : uint4{};
    }
#pragma unroll
    for (int i = 0; i < LOADS; ++i) bits ^= loaded[i].x ^ loaded[i].y ^ loaded[i].z ^ loaded[i].w;
  }
  if (bits == never) *out = bits;
}

template <int LOADS, int RESIDENT>
static void launch_read(const void* x, int64_t n, int waves, unsigned never, unsigned* out, cudaStream_t stream) {
  int device = 0, multiprocessors = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  const int64_t tiles = (n + LOADS * kThreads - 1) / (LOADS * kThreads);
  const int64_t most = int64_t{waves} * RESIDENT * multiprocessors;
  const unsigned blocks = static_cast<unsigned>(tiles < most ? tiles : most);
  read_kernel<LOADS, RESIDENT><<<blocks, kThreads, 0, stream>>>(static_cast<const uint4*>(x), n, never, out);
}

// `bytes` is a multiple of 16; `loads` is 4 or 8; 8 blocks of at most 32 registers a thread fit on a
// multiprocessor, so `waves` = 8 makes 64 blocks for each.
extern "C" int read_all(const void* x, void* out, long long bytes, int loads, int waves, unsigned never,
                        cudaStream_t stream) {
  unsigned* result = static_cast<unsigned*>(out);
  if (loads == 4) launch_read<4, 8>(x, bytes / 16, waves, never, result, stream);
  else if (loads == 8) launch_read<8, 8>(x, bytes / 16, waves, never, result, stream);
  else return cudaErrorInvalidValue;
  return cudaGetLastError();
}

// Paper 000, 5.4: one element a thread, binary32, blocks of 1024, blocks added by atomicAdd in any order.
template <typename T>
__global__ void __launch_bounds__(1024) warp_shuffle_kernel(const T* __restrict__ x, int64_t n, float* out) {
  __shared__ float warps[32];
  const int64_t at = int64_t{blockIdx.x} * 1024 + threadIdx.x;
  const int lane = threadIdx.x % 32;
  float sum = at < n ? static_cast<float>(x[at]) : 0.0f;
  for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(~0u, sum, step);
  if (lane == 0) warps[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  sum = warps[lane];
  for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(~0u, sum, step);
  if (lane == 0) atomicAdd(out, sum);
}

template <typename T>
static int launch_warp_shuffle(const void* x, void* out, int64_t n, cudaStream_t stream) {
  const cudaError_t error = cudaMemsetAsync(out, 0, sizeof(float), stream);
  if (error != cudaSuccess) return error;
  const unsigned blocks = static_cast<unsigned>((n + 1023) / 1024);
  warp_shuffle_kernel<<<blocks, 1024, 0, stream>>>(static_cast<const T*>(x), n, static_cast<float*>(out));
  return cudaGetLastError();
}

extern "C" int warp_shuffle_float16(const void* x, void* out, long long n, cudaStream_t stream) {
  return launch_warp_shuffle<__half>(x, out, n, stream);
}

extern "C" int warp_shuffle_bfloat16(const void* x, void* out, long long n, cudaStream_t stream) {
  return launch_warp_shuffle<__nv_bfloat16>(x, out, n, stream);
}

extern "C" int warp_shuffle_float32(const void* x, void* out, long long n, cudaStream_t stream) {
  return launch_warp_shuffle<float>(x, out, n, stream);
}
