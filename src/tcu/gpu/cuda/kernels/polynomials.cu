// Steps between the tensor calls of a polynomial: powers of all points, and terms added in pairs, each in one pass.
//
// Every product and every sum is rounded by itself, in the order of the program's steps.  So the bits are those of
// the same steps on the host; a compiler's fused multiply-adds would change them.
//
// Compiled with these macros:
//   WIDTH   powers of each point
//   LEVELS  of pairs: 2^LEVELS is the number of terms or more
//   THREADS threads per block

#include "device/types/ieee.cuh"
#include "device/types/types.cuh"

using namespace tcu;

#include "generated/polynomials/Powers.inc"

#include "generated/polynomials/Pairs.inc"

constexpr int CHUNK = 4;  // terms that are loaded at once

constexpr int PER = (WIDTH + WARP - 1) / WARP;  // powers of a lane

// x^e is the product of the squares x^1, x^2, x^4, ... that e's bits name, the lowest first.
extern "C" __global__ void __launch_bounds__(THREADS) powers(const __grid_constant__ Powers p) {
    const i64 point = static_cast<i64>(blockIdx.x) * (THREADS / WARP) + threadIdx.x / WARP;
    if (point >= p.points) return;
    const int lane = threadIdx.x % WARP;
    double square = p.x[point * p.step], power[PER];
    power[0] = 1;
#pragma unroll
    for (int bit = 1; bit < WARP && bit < WIDTH; bit *= 2) {
        if (lane & bit) power[0] = times(power[0], square);
        square = times(square, square);
    }
#pragma unroll
    for (int c = 1; c < PER; ++c) {
        const bool first = (c & (c - 1)) == 0;  // 32·c is the next square
        if (first && c > 1) square = times(square, square);
        int rest = c;
        for (int bit = 1; bit <= c; bit *= 2) rest = c - bit;
        power[c] = times(power[rest], square);
    }
#pragma unroll
    for (int c = 0; c < PER; ++c)
        if (lane + WARP * c < WIDTH) p.out[point * WIDTH + lane + WARP * c] = power[c];
}

// Works as a binary counter does: a sum of 2^l terms waits at level l for the 2^l terms to its right.
extern "C" __global__ void __launch_bounds__(THREADS) add_in_pairs(const __grid_constant__ Pairs p) {
    const i64 item = static_cast<i64>(blockIdx.x) * THREADS + threadIdx.x;
    if (item >= p.members * p.points) return;
    const i64 point = item % p.points;
    const double* values = p.values + point * p.point + item / p.points * p.member;
    double base[LEVELS], waiting[LEVELS + 1];
    base[0] = p.base[point * p.base_step];
#pragma unroll
    for (int l = 1; l < LEVELS; ++l) base[l] = times(base[l - 1], base[l - 1]);
    for (i64 first = 0; first < p.count; first += CHUNK) {
        double term[CHUNK];
#pragma unroll
        for (int k = 0; k < CHUNK; ++k) term[k] = first + k < p.count ? values[(first + k) * p.step] : 0;
#pragma unroll
        for (int k = 0; k < CHUNK; ++k) {
            const i64 i = first + k;
            if (i >= p.count) break;
            bool carried = true;
#pragma unroll
            for (int l = 0; l < LEVELS; ++l) {
                const bool odd = i >> l & 1;
                if (carried && odd) term[k] = plus(waiting[l], times(term[k], base[l]));
                if (carried && !odd) waiting[l] = term[k];
                carried = carried && odd;
            }
            if (carried) waiting[LEVELS] = term[k];
        }
    }
    // Sums without a partner to their right are added to those on their left.
    double total = 0;
    bool begun = false;
#pragma unroll
    for (int l = 0; l <= LEVELS; ++l) {
        if (!(p.count >> l & 1)) continue;
        if (begun && l < LEVELS) total = plus(waiting[l], times(total, base[l]));
        if (!begun) total = waiting[l];
        begun = true;
    }
    p.out[item] = total;
}
