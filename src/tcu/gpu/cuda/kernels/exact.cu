// The exact sum of an array in one launch, and its one rounding.
//
// A warp adds up its share in floating point without an error, and proves that there was none.  Every number x is cut
// at two fixed places (S' = S + x; q = S' - S; r = x - q is Dekker's cut, and S only ever holds multiples of its last
// place). The sums of the q and of the r are not rounded while they stay within a window of bits, and what falls out
// of the window is noticed.
//
// Where the proof fails, the warp does its share again: first in binary64, with a window placed by the share's
// largest number; then number by number, in limbs of 16 bits.  All of it is exact, so neither grid nor order matter.
// Products go the same way (exact/products.cuh). (Demmel and Nguyen, "Parallel Reproducible Summation", IEEE Trans.
// Computers 64(7), 2015, cut likewise.)
//
// Compiled with ELEMENT and LAYOUT (load/array.cuh), and
//   THREADS     of a block
//   UNROLL      loads of a thread in flight
//   RESIDENT    blocks per multiprocessor that the registers must allow
//   TERM        VALUE (sums), PRODUCT (dot products) or SQUARE (norms: the root of the sum is rounded)

#include "device/exact/rounding.cuh"
#if TERM == VALUE
#include "device/exact/values.cuh"
#else
#include "device/exact/products.cuh"
#endif

using namespace tcu;

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) exact_sum(const __grid_constant__ exact::ExactSum p) {
    __shared__ i64 total[exact::WORDS];
    __shared__ int first_used, last_used;
    __shared__ bool last;
    i64* own = p.limbs + blockIdx.x % exact::COPIES * exact::WORDS;
    for (i64 chunk = blockIdx.x; chunk < p.chunks; chunk += gridDim.x) {
#if TERM == VALUE
        exact::add_whole_chunk(p, chunk, own);
#else
        if ((chunk + 1) * p.loads * THREADS <= load::whole_vectors(p.x)) {
            exact::add_chunk(p, chunk, own, [](const load::Array& a, i64 v) { return load::whole_vector(a, v); });
        } else {
            const load::End x(p.x);
#if TERM == PRODUCT
            const load::End y(p.y);
            exact::add_chunk(p, chunk, own, [&](const load::Array& a, i64 v) {
                return load::vector_or_padding(a, &a == &p.x ? x : y, v);
            });
#else
            exact::add_chunk(p, chunk, own, [&](const load::Array& a, i64 v) { return load::vector_or_padding(a, x, v); });
#endif
        }
#endif
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        last = atomicInc(p.arrived, gridDim.x - 1) == gridDim.x - 1;  // it is zero again for the next launch
        first_used = exact::LIMBS;
        last_used = -1;
        __threadfence();
    }
    __syncthreads();
    if (!last) return;
    for (int i = threadIdx.x; i < exact::WORDS; i += THREADS) {
        i64 sum = 0;
        i64 parts[exact::COPIES];  // all loads come before the first store: one after another they took 20 us
#pragma unroll
        for (int copy = 0; copy < exact::COPIES; ++copy)
            parts[copy] = static_cast<i64>(__ldcg(reinterpret_cast<const u64*>(p.limbs + copy * exact::WORDS + i)));
#pragma unroll
        for (int copy = 0; copy < exact::COPIES; ++copy) {
            sum += parts[copy];
            if (parts[copy]) p.limbs[copy * exact::WORDS + i] = 0;
        }
        total[i] = sum;
        if (sum != 0 && i < exact::LIMBS) {
            atomicMin(&first_used, i);
            atomicMax(&last_used, i);
        }
        if (p.state) p.state[i] = sum;
    }
    __syncthreads();
    if (threadIdx.x == 0 && p.out) {
        // If all limbs are zero, the range from first to last is empty.
        exact::store_limbs(total, min(first_used, exact::LIMBS - 1), max(last_used, 0), p.divisor, p.out,
                    static_cast<finish::Target>(p.target));
    }
}
