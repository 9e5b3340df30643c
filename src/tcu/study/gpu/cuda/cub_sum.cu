// One sum by CUB, chosen by macros: IN and OUT are the element types; WIDEN adds in OUT where that differs from
// IN (Sum of half into float does not compile: plus<void> is ambiguous for float + half); DETERMINISM asks for a
// level through the environment argument of CCCL 3.1 and later.
#include <cub/device/device_reduce.cuh>

#include <climits>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#ifdef DETERMINISM
#include <cuda/__execution/determinism.h>
#include <cuda/__execution/require.h>
#include <cuda/std/__execution/env.h>
#include <cuda/stream_ref>
#endif

#ifdef WIDEN
using Plus = cuda::std::plus<OUT>;
#else
using Plus = cuda::std::plus<>;
#endif

// With temp null only *bytes is set, the temporary storage that the sum needs. Returns a cudaError_t.
// CUB is fastest with a 32-bit count, so that is what it gets wherever n fits.
extern "C" int cub_sum(const void* x, void* out, long long n, void* temp, size_t* bytes, cudaStream_t stream) {
  const IN* in = static_cast<const IN*>(x);
  OUT* result = static_cast<OUT*>(out);
#ifdef DETERMINISM
  if (n > INT_MAX) return cudaErrorNotSupported;  // gpu_to_gpu of CCCL 3.1 takes no wider count
  if (temp == nullptr) {
    // CUB takes its storage from the stream-ordered pool, which keeps its memory from now on.
    *bytes = 1;
    cudaMemPool_t pool;
    int device;
    unsigned long long all = ~0ull;
    cudaError_t error = cudaGetDevice(&device);
    if (error == cudaSuccess) error = cudaDeviceGetDefaultMemPool(&pool, device);
    if (error == cudaSuccess) error = cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all);
    return error;
  }
  auto environment = cuda::std::execution::env{
      cuda::stream_ref{stream}, cuda::execution::require(cuda::execution::determinism::DETERMINISM)};
  return cub::DeviceReduce::Reduce(in, result, static_cast<int>(n), Plus{}, OUT{}, environment);
#else
  if (n > INT_MAX) return cub::DeviceReduce::Reduce(temp, *bytes, in, result, n, Plus{}, OUT{}, stream);
  return cub::DeviceReduce::Reduce(temp, *bytes, in, result, static_cast<int>(n), Plus{}, OUT{}, stream);
#endif
}
