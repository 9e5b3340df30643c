// A sum, a dot product or a norm in one launch, in the plan's order (tcu/plan/variants.py, binary64 and short-chain).
//
// A block of THREADS threads reduces a chunk to one number in binary64; a thread has `loads` 16-byte loads in a
// chunk.  The last block waits for all of these numbers and adds them up.
//
// Compiled with ELEMENT and LAYOUT (load/array.cuh), and
//   THREADS     of a block: the plan's B
//   MMAS        1: 16-bit numbers by MMAs (short-chain); 0: by binary64 additions
//   CHAIN       the plan's R
//   UNROLL      loads of a thread in flight, a power of two up to 8
//   RESIDENT    blocks per multiprocessor that the registers must allow
//   TERM        VALUE (sums), PRODUCT (dot products) or SQUARE (norms)
//   ROWS        1: many rows; each has a sum of its own, and a block for each of its chunks

#include "device/reduce/chunk.cuh"

using namespace tcu;

// The sum of one array.  `blocks` blocks share its chunks; this is number `block` of them.
__device__ inline void sum_array(const reduce::Sum& p, const load::Array& a, i64 block, i64 blocks, u64* slots, void* out) {
    double number = 0;
    for (i64 chunk = block; chunk < p.chunks; chunk += blocks) {
        number = reduce::chunk_sum(p, a, chunk);
        if (threadIdx.x == 0 && p.chunks > 1) grid::publish(slots + chunk, number);
    }
    // The last block starts last, so those that it waits for are running or done.
    if (block != blocks - 1) return;
    if (p.chunks > 1) number = grid::sum_of_chunks<THREADS>(slots, p.chunks);
    if (threadIdx.x != 0) return;
    if (p.divisor != 1) number /= p.divisor;
    if (p.root) number = __dsqrt_rn(number);
    finish::store_rounded(out, number, static_cast<finish::Target>(p.target));
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) sum(const __grid_constant__ reduce::Sum p) {
#if ROWS
    const i64 row = blockIdx.x / p.chunks;
    load::Array x = p.x;
    x.data = static_cast<const Code*>(p.x.data) + row * p.row_stride;
    sum_array(p, x, blockIdx.x % p.chunks, p.chunks, p.slots + row * p.chunks,
              finish::place(p.out, row, static_cast<finish::Target>(p.target)));
#else
    sum_array(p, p.x, blockIdx.x, gridDim.x, p.slots, p.out);
#endif
}
