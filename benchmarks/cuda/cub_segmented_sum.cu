// Sums of equal segments by CUB, chosen by macros: IN and OUT are the element types; WIDEN adds in OUT where that
// differs from IN.
#include <cub/device/device_segmented_reduce.cuh>
#include <cub/version.cuh>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#if CUB_VERSION < 300100  // which takes no segment size
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

struct Begin {
  long long length;
  __host__ __device__ long long operator()(long long segment) const { return segment * length; }
};
#endif

#ifdef WIDEN
using Plus = cuda::std::plus<OUT>;
#else
using Plus = cuda::std::plus<>;
#endif

// With temp null only *bytes is set, the temporary storage that the sums need. Returns a cudaError_t.
extern "C" int cub_segmented_sum(const void* x, void* out, long long segments, long long length, void* temp,
                                 size_t* bytes, cudaStream_t stream) {
  const IN* in = static_cast<const IN*>(x);
  OUT* results = static_cast<OUT*>(out);
#if CUB_VERSION < 300100
  const auto begin = thrust::make_transform_iterator(thrust::counting_iterator<long long>(0), Begin{length});
  return cub::DeviceSegmentedReduce::Reduce(temp, *bytes, in, results, segments, begin, begin + 1, Plus{}, OUT{}, stream);
#else
  return cub::DeviceSegmentedReduce::Reduce(temp, *bytes, in, results, segments, static_cast<int>(length), Plus{}, OUT{},
                                            stream);
#endif
}
