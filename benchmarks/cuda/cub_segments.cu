// Sums of segments by CUB, chosen by macros: IN and OUT are the element types; WIDEN adds in OUT where that differs
// from IN. Each function with temp null only sets *bytes, the temporary storage that it needs, and returns a
// cudaError_t.
#include <cub/device/device_reduce.cuh>
#include <cub/device/device_segmented_reduce.cuh>

#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#ifdef WIDEN
using Plus = cuda::std::plus<OUT>;
#else
using Plus = cuda::std::plus<>;
#endif

// Segments of any lengths, by offsets.
extern "C" int cub_segments(const void* x, void* out, long long segments, long long, const void* offsets, void* temp,
                            size_t* bytes, cudaStream_t stream) {
  const int64_t* begin = static_cast<const int64_t*>(offsets);
  return cub::DeviceSegmentedReduce::Reduce(temp, *bytes, static_cast<const IN*>(x), static_cast<OUT*>(out), segments,
                                            begin, begin + 1, Plus{}, OUT{}, stream);
}

// Segments of one length, which CCCL takes since 3.1.
extern "C" int cub_rows(const void* x, void* out, long long rows, long long length, const void*, void* temp,
                        size_t* bytes, cudaStream_t stream) {
#if CCCL_VERSION >= 3001000
  return cub::DeviceSegmentedReduce::Reduce(temp, *bytes, static_cast<const IN*>(x), static_cast<OUT*>(out), rows,
                                            static_cast<int>(length), Plus{}, OUT{}, stream);
#else
  return cudaErrorNotSupported;
#endif
}

// Few long rows: DeviceReduce for one after another.
extern "C" int cub_each(const void* x, void* out, long long rows, long long length, const void*, void* temp,
                        size_t* bytes, cudaStream_t stream) {
  const IN* in = static_cast<const IN*>(x);
  OUT* result = static_cast<OUT*>(out);
  for (long long row = 0; row < rows; ++row) {
    const int status = cub::DeviceReduce::Reduce(temp, *bytes, in + row * length, result + row,
                                                 static_cast<int>(length), Plus{}, OUT{}, stream);
    if (status != cudaSuccess || temp == nullptr) return status;
  }
  return cudaSuccess;
}
