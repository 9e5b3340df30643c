// Exact sums that several GPUs share.  Each GPU packs its sum; the packed words are added up as integers on the way
// between the GPUs; and every GPU rounds what arrives.
//
// Packed, two limbs make a word, so that the words of 2^31 GPUs add up without overflow.  The words are: PACKED words
// of limbs, COUNTS counts, how many numbers, the signature, and its square.  The signature says what is summed
// (dtype, operation, version). If all GPUs have the same one, the sums of these two words are `ranks` times it and
// its square; by Cauchy and Schwarz, in no other case.  Otherwise the result is NaN, and never a wrong number.
//
// Compiled with TERM (exact/limbs.cuh).

#include "device/exact/rounding.cuh"

using namespace tcu;

constexpr int PACKED = exact::LIMBS / 2;
static_assert(exact::LIMBS % 2 == 0);
#include "generated/merge/BLOCK.inc"

enum Finish { EXACT, PLANNED };  // PLANNED: rounded to binary64, then divided and rooted in binary64

#include "generated/merge/Merge.inc"

extern "C" __global__ void __launch_bounds__(THREADS) pack(const __grid_constant__ Merge p) {
    __shared__ i64 limbs[exact::WORDS];
    for (int i = threadIdx.x; i < exact::WORDS; i += THREADS) limbs[i] = p.state[i];
    __syncthreads();
    if (threadIdx.x == 0) {
        i64 carry = 0;
        for (int i = 0; i < exact::LIMBS - 1; ++i) {
            carry += limbs[i];
            limbs[i] = carry & 0xffff;
            carry >>= exact::LIMB;
        }
        limbs[exact::LIMBS - 1] += carry;  // keeps the sign
    }
    __syncthreads();
    for (int i = threadIdx.x; i < PACKED; i += THREADS) p.words[i] = limbs[2 * i] + (limbs[2 * i + 1] << exact::LIMB);
    if (threadIdx.x < exact::COUNTS) p.words[PACKED + threadIdx.x] = limbs[exact::LIMBS + threadIdx.x];
    if (threadIdx.x == 0) {
        i64* tail = p.words + PACKED + exact::COUNTS;
        tail[0] = p.n;
        tail[1] = p.signature;
        tail[2] = p.signature * p.signature;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) merge(const __grid_constant__ Merge p) {
    __shared__ i64 limbs[exact::WORDS];
    __shared__ int first_used, last_used;
    if (threadIdx.x == 0) {
        first_used = exact::LIMBS - 1;
        last_used = 0;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < PACKED; i += THREADS) {
        const i64 word = p.words[i];
        limbs[2 * i] = word & 0xffff;
        limbs[2 * i + 1] = word >> exact::LIMB;
        if (word) {
            atomicMin(&first_used, 2 * i);
            atomicMax(&last_used, 2 * i + 1);
        }
    }
    if (threadIdx.x < exact::COUNTS) limbs[exact::LIMBS + threadIdx.x] = p.words[PACKED + threadIdx.x];
    __syncthreads();
    if (threadIdx.x != 0) return;
    const i64* tail = p.words + PACKED + exact::COUNTS;
    const bool alike = tail[1] == p.ranks * p.signature && tail[2] == p.ranks * p.signature * p.signature;
    const finish::Target target = static_cast<finish::Target>(p.target);
    const u64 divisor = !alike ? 0 : p.finish == EXACT && p.divide ? static_cast<u64>(tail[0]) : 1;
    if (p.finish == EXACT) {
        exact::store_limbs(limbs, first_used, last_used, divisor, p.out, target);
        return;
    }
    double number;
    exact::store_limbs(limbs, first_used, last_used, divisor, &number, finish::TO_BINARY64);
    if (p.divide) number /= static_cast<double>(tail[0]);
    if (p.root) number = __dsqrt_rn(number);
    finish::store_rounded(p.out, number, target);
}
