// Inclusive scans by CUB, chosen by macros: IN and OUT are the element types; WIDEN adds in OUT where that differs
// from IN; ROWS adds the scans of rows. Each function with temp null only sets *bytes, the temporary storage that it
// needs, and returns a cudaError_t.
#include <cub/device/device_scan.cuh>
#if defined(ROWS) && __has_include(<cub/device/device_segmented_scan.cuh>)
#include <cub/device/device_segmented_scan.cuh>
#define SEGMENTED
#endif
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include <climits>
#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#ifdef WIDEN
using Plus = cuda::std::plus<OUT>;
#else
using Plus = cuda::std::plus<>;
#endif

extern "C" int cub_scan(const void* x, void* out, long long n, long long, const void*, void* temp, size_t* bytes,
                        cudaStream_t stream) {
  if (n > INT_MAX) return cudaErrorNotSupported;
  return cub::DeviceScan::InclusiveScan(temp, *bytes, static_cast<const IN*>(x), static_cast<OUT*>(out), Plus{},
                                        static_cast<int>(n), stream);
}

#ifdef ROWS
struct RowOf {
  int shift;
  __host__ __device__ int operator()(int at) const { return at >> shift; }
};

struct Begin {
  int64_t length;
  __host__ __device__ int64_t operator()(int64_t row) const { return row * length; }
};

static int log2_of(long long length) {
  int shift = 0;
  while ((1ll << shift) < length) ++shift;
  return shift;
}

// Rows of a power of two as runs of equal keys, the keys computed from the index.
extern "C" int cub_scan_by_key(const void* x, void* out, long long rows, long long length, const void*, void* temp,
                               size_t* bytes, cudaStream_t stream) {
  const int shift = log2_of(length);
  if (length != 1ll << shift || rows * length > INT_MAX) return cudaErrorNotSupported;
  const auto keys = thrust::make_transform_iterator(thrust::counting_iterator<int>(0), RowOf{shift});
  return cub::DeviceScan::InclusiveScanByKey(temp, *bytes, keys, static_cast<const IN*>(x), static_cast<OUT*>(out),
                                             Plus{}, static_cast<int>(rows * length), cuda::std::equal_to<>{}, stream);
}

// CCCL 3.3 and later.
extern "C" int cub_scan_rows(const void* x, void* out, long long rows, long long length, const void*, void* temp,
                             size_t* bytes, cudaStream_t stream) {
#ifdef SEGMENTED
  const auto begin = thrust::make_transform_iterator(thrust::counting_iterator<int64_t>(0), Begin{length});
  return cub::DeviceSegmentedScan::InclusiveSegmentedScan(temp, *bytes, static_cast<const IN*>(x),
                                                          static_cast<OUT*>(out), begin, begin + 1, rows, Plus{},
                                                          stream);
#else
  return cudaErrorNotSupported;
#endif
}
#endif
