// Sums by index by CUB: a radix sort by slot, ReduceByKey, and the sums to their slots.  IN is the type of numbers, results and
// additions, as it is that of PyTorch's atomics.  With temp null only sets *bytes, the temporary storage that it needs.  Returns a
// cudaError_t.
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_reduce.cuh>

#include <algorithm>
#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

__global__ void place(const int64_t* unique, const IN* sums, const int* runs, IN* slots) {
  for (long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x; i < *runs;
       i += gridDim.x * static_cast<long long>(blockDim.x)) {
    slots[unique[i]] = sums[i];
  }
}

// Indices in order need no sort: sorted is null.  The other arrays have room for n; sums, unique and runs are ReduceByKey's.
extern "C" int cub_by_key(const void* index, const void* x, void* out, void* sorted, void* sorted_x, void* unique, void* sums,
                          void* runs, long long n, long long slots, int bits, void* temp, size_t* bytes,
                          cudaStream_t stream) {
  const int64_t* keys = static_cast<const int64_t*>(index);
  const IN* numbers = static_cast<const IN*>(x);
  const int count = static_cast<int>(n);
  size_t of_sort = temp == nullptr ? 0 : *bytes, of_sums = of_sort;
  if (sorted != nullptr) {
    const int status = cub::DeviceRadixSort::SortPairs(temp, of_sort, keys, static_cast<int64_t*>(sorted), numbers,
                                                       static_cast<IN*>(sorted_x), count, 0, bits, stream);
    if (status != cudaSuccess) return status;
    keys = static_cast<const int64_t*>(sorted);
    numbers = static_cast<const IN*>(sorted_x);
  }
  int status =
      cub::DeviceReduce::ReduceByKey(temp, of_sums, keys, static_cast<int64_t*>(unique), numbers, static_cast<IN*>(sums),
                                     static_cast<int*>(runs), cuda::std::plus<>{}, count, stream);
  if (status != cudaSuccess) return status;
  if (temp == nullptr) {
    *bytes = std::max(of_sort, of_sums);
    return cudaSuccess;
  }
  status = cudaMemsetAsync(out, 0, slots * sizeof(IN), stream);
  if (status != cudaSuccess) return status;
  const long long most = std::min(n, slots);
  place<<<static_cast<int>(std::min((most + 255) / 256, 4096LL)), 256, 0, stream>>>(
      static_cast<const int64_t*>(unique), static_cast<const IN*>(sums), static_cast<const int*>(runs), static_cast<IN*>(out));
  return cudaGetLastError();
}
