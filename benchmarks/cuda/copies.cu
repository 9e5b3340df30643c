// What scans are measured against: copying alone, and widening binary16 to binary32 alone. Every value is read and
// written once, a warp's loads and stores lie side by side.
#include <cstdint>

#include <cuda_fp16.h>

constexpr int kThreads = 256;

__device__ inline uint4 converted(uint4 x, uint4*) { return x; }

__device__ inline float4 converted(uint2 x, float4*) {
  const float2 low = __half22float2(*reinterpret_cast<const __half2*>(&x.x));
  const float2 high = __half22float2(*reinterpret_cast<const __half2*>(&x.y));
  return {low.x, low.y, high.x, high.y};
}

template <typename In, typename Out, int UNROLL, bool STREAMING>
__global__ void __launch_bounds__(kThreads) copy_kernel(const In* __restrict__ x, Out* __restrict__ out, int64_t n) {
  constexpr int64_t kTile = int64_t{UNROLL} * kThreads;
  for (int64_t tile = blockIdx.x * kTile; tile < n; tile += gridDim.x * kTile) {
    In loaded[UNROLL];
#pragma unroll
    for (int i = 0; i < UNROLL; ++i) {
      const int64_t at = tile + i * kThreads + threadIdx.x;
      if (at < n) loaded[i] = STREAMING ? __ldcs(x + at) : x[at];
    }
#pragma unroll
    for (int i = 0; i < UNROLL; ++i) {
      const int64_t at = tile + i * kThreads + threadIdx.x;
      if (at >= n) continue;
      const Out value = converted(loaded[i], static_cast<Out*>(nullptr));
      if (STREAMING) __stcs(out + at, value);
      else out[at] = value;
    }
  }
}

template <typename In, typename Out, int UNROLL>
static int launch(const void* x, void* out, int64_t n, int waves, bool streaming, cudaStream_t stream) {
  const auto kernel = streaming ? copy_kernel<In, Out, UNROLL, true> : copy_kernel<In, Out, UNROLL, false>;
  const int64_t tiles = (n + UNROLL * kThreads - 1) / (UNROLL * kThreads);
  int device = 0, multiprocessors = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  const int64_t most = waves == 0 ? tiles : int64_t{waves} * 8 * multiprocessors;
  const unsigned blocks = static_cast<unsigned>(tiles < most ? tiles : most);
  kernel<<<blocks, kThreads, 0, stream>>>(static_cast<const In*>(x), static_cast<Out*>(out), n);
  return cudaGetLastError();
}

template <typename In, typename Out>
static int choose(const void* x, void* out, int64_t n, int unroll, int waves, int streaming, cudaStream_t stream) {
  if (unroll == 2) return launch<In, Out, 2>(x, out, n, waves, streaming, stream);
  if (unroll == 4) return launch<In, Out, 4>(x, out, n, waves, streaming, stream);
  if (unroll == 8) return launch<In, Out, 8>(x, out, n, waves, streaming, stream);
  return cudaErrorInvalidValue;
}

// `bytes` is a multiple of 16; `waves` of 8 blocks a multiprocessor, or 0: a block for each tile.
extern "C" int copy_all(const void* x, void* out, long long bytes, int unroll, int waves, int streaming,
                        cudaStream_t stream) {
  return choose<uint4, uint4>(x, out, bytes / 16, unroll, waves, streaming, stream);
}

// binary16 to binary32; `bytes` read, a multiple of 8.
extern "C" int widen_all(const void* x, void* out, long long bytes, int unroll, int waves, int streaming,
                         cudaStream_t stream) {
  return choose<uint2, float4>(x, out, bytes / 8, unroll, waves, streaming, stream);
}
