// Products and powers of numbers in limbs modulo odd numbers, a warp for each, by Montgomery's multiplication.
//
// Lane l has limbs l·PER ... l·PER + PER - 1 of every number.  A product takes a turn for each limb of the modulus: a
// limb of b times a, and the multiple of the modulus that makes the lowest limb zero, are added to the sum, which then
// moves down by a limb.  What a lane carries belongs to the lane above, a limb's width higher; when the sum moves down
// that is the lane's own highest limb.  So turns take no carries from lane to lane, but three shuffles: the limb of b,
// the multiple, and the limb that moves down.
//
// Floor of a power of k limbs: 32·k squares and 8·k products by the window's powers, of 4 bits each, and few more; one is
// 2·k² products of 32 × 32 bits, each of which has two halves.  At 2,048 bits that is 2,574 · 16,384 = 4.2·10^7
// multiplications, 2.9 us at 64 a clock of 132 multiprocessors at 1.7 GHz: 12 ms for 4,096 powers.
//
// Widths: a lane's carry is at most 3 between turns: two products and a limb add less than 3·2^32 to it.  A sum is below
// twice the modulus after the last turn, and one subtraction reduces it.
//
// Compiled with these macros:
//   PER    limbs of a lane
//   POWERS 1: out = a^n modulo m; 0: out = a·n modulo m

#include "device/types/types.cuh"
#include "device/warp/carries.cuh"

using namespace tcu;
using namespace tcu::warp;

#include "generated/modular_powers/ModularPowers.inc"

#include "generated/modular_powers/WARPS_OF_A_BLOCK.inc"

constexpr int THREADS = WARPS_OF_A_BLOCK * WARP;
#if POWERS
constexpr int WINDOW = 4, ENTRIES = 1 << WINDOW;
#endif

struct Modulus {
    u32 limbs[PER];
    u32 inverse;  // of the lowest limb, negated, modulo 2^32
    int count;    // limbs of the numbers
};

__device__ inline int lane() { return threadIdx.x % WARP; }

// A number of `top` above all limbs and x, below twice the modulus, becomes its remainder.
__device__ inline void reduce(u32 (&x)[PER], u32 top, const Modulus& m) {
    u32 less[PER], any = 0;
    u64 borrow = 0;
#pragma unroll
    for (int k = 0; k < PER; ++k) {
        const u64 step = static_cast<u64>(x[k]) - m.limbs[k] - borrow;
        less[k] = static_cast<u32>(step);
        borrow = step >> 63;
        any |= less[k];
    }
    const Carries found = carries(__ballot_sync(ALL, borrow != 0), __ballot_sync(ALL, any == 0), 0);
    if (top < found.out) return;  // it is below the modulus; all lanes agree
    borrow = found.into >> lane() & 1;
#pragma unroll
    for (int k = 0; k < PER; ++k) {
        const u64 step = static_cast<u64>(less[k]) - borrow;
        x[k] = static_cast<u32>(step);
        borrow = step >> 63;
    }
}

__device__ inline void twice(u32 (&x)[PER], const Modulus& m) {
    const u32 highest = x[PER - 1] >> 31, below = __shfl_up_sync(ALL, highest, 1u);
    const u32 top = __shfl_sync(ALL, highest, WARP - 1);
#pragma unroll
    for (int k = PER - 1; k > 0; --k) x[k] = x[k] << 1 | x[k - 1] >> 31;
    x[0] = x[0] << 1 | (lane() ? below : 0);
    reduce(x, top, m);
}

// a·b·R^-1 modulo m, R = 2^(32·count), of numbers whose product is below R·m.
__device__ inline void multiply(u32 (&result)[PER], const u32 (&a)[PER], const u32 (&b)[PER], const Modulus& m) {
    u32 sum[PER] = {};
    u64 carry = 0;
    const auto add = [&](const u32 (&x)[PER], u32 factor) {
        u64 step = 0;
#pragma unroll
        for (int k = 0; k < PER; ++k) {
            step += static_cast<u64>(x[k]) * factor + sum[k];
            sum[k] = static_cast<u32>(step);
            step >>= 32;
        }
        carry += step;
    };
    for (int owner = 0; owner * PER < m.count; ++owner) {
#pragma unroll
        for (int k = 0; k < PER; ++k) {
            if (owner * PER + k >= m.count) break;
            add(a, __shfl_sync(ALL, b[k], owner));
            add(m.limbs, __shfl_sync(ALL, sum[0] * m.inverse, 0));
            const u32 next = __shfl_down_sync(ALL, sum[0], 1u);
#pragma unroll
            for (int i = 0; i + 1 < PER; ++i) sum[i] = sum[i + 1];
            carry += lane() < WARP - 1 ? next : 0;
            sum[PER - 1] = static_cast<u32>(carry);
            carry >>= 32;
        }
    }
    // What lanes carry goes to the lanes above.
    const u32 own = static_cast<u32>(carry), below = __shfl_up_sync(ALL, own, 1u);
    u64 step = lane() ? below : 0;
    u32 all = ALL;
#pragma unroll
    for (int k = 0; k < PER; ++k) {
        step += sum[k];
        result[k] = static_cast<u32>(step);
        step >>= 32;
        all &= result[k];
    }
    const Carries found = carries(__ballot_sync(ALL, step != 0), __ballot_sync(ALL, all == ALL), 0);
    step = found.into >> lane() & 1;
#pragma unroll
    for (int k = 0; k < PER; ++k) {
        step += result[k];
        result[k] = static_cast<u32>(step);
        step >>= 32;
    }
    reduce(result, __shfl_sync(ALL, own, WARP - 1) + found.out, m);
}

__device__ inline void take(u32 (&x)[PER], const u32* from, int count) {
#pragma unroll
    for (int k = 0; k < PER; ++k) {
        const int limb = lane() * PER + k;
        x[k] = limb < count ? from[limb] : 0;
    }
}

// R modulo m: the power of two above m less m, doubled for each zero in front of m.
__device__ inline void radix(u32 (&x)[PER], const Modulus& m) {
    int bits = 0;
#pragma unroll
    for (int k = 0; k < PER; ++k)
        if (m.limbs[k]) bits = 32 * (lane() * PER + k + 1) - __clz(m.limbs[k]);
    const u32 there = __ballot_sync(ALL, bits != 0);
    bits = __shfl_sync(ALL, bits, 31 - __clz(there));
    u32 inside = 0;
#pragma unroll
    for (int k = 0; k < PER; ++k) {
        x[k] = bits / 32 == lane() * PER + k ? 1u << bits % 32 : 0;
        inside |= x[k];
    }
    reduce(x, !__any_sync(ALL, inside != 0), m);
    reduce(x, 0, m);
    for (int i = bits; i < 32 * m.count; ++i) twice(x, m);
}

extern "C" __global__ void __launch_bounds__(THREADS) modular_powers(const __grid_constant__ ModularPowers p) {
    const i64 number = static_cast<i64>(blockIdx.x) * WARPS_OF_A_BLOCK + threadIdx.x / WARP;
    if (number >= p.count) return;
    Modulus m;
    m.count = p.limbs;
    take(m.limbs, p.m + number * p.m_stride, p.limbs);
    const u32 lowest = __shfl_sync(ALL, m.limbs[0], 0);
    u32* const out = p.out + number * p.limbs;
    if (lowest % 2 == 0) {  // Montgomery's multiplication has odd moduli only
        for (int limb = lane(); limb < p.limbs; limb += WARP) out[limb] = 0;
        return;
    }
    u32 inverse = lowest;  // right for 3 bits, and each turn doubles them
    for (int i = 0; i < 4; ++i) inverse *= 2 - lowest * inverse;
    m.inverse = 0 - inverse;

    u32 one[PER], x[PER], power[PER];
    radix(one, m);
#pragma unroll
    for (int k = 0; k < PER; ++k) power[k] = one[k];
    // R² is 2^(32·count)·R: an exponent of two is doubled by a square.
    for (int bit = 31 - __clz(32 * p.limbs); bit >= 0; --bit) {
        multiply(power, power, power, m);
        if (32 * p.limbs >> bit & 1) twice(power, m);
    }
    take(x, p.a + number * p.a_stride, p.a_limbs);
    multiply(x, x, power, m);  // a·R
    const u32* const n = p.n + number * p.n_stride;
#if POWERS
    extern __shared__ __align__(16) u32 tables[];
    u32* const table = tables + threadIdx.x / WARP * (ENTRIES * WARP * PER) + lane();
    const auto entry = [&](int digit) { return table + digit * (WARP * PER); };
#pragma unroll
    for (int k = 0; k < PER; ++k) {
        power[k] = one[k];
        entry(0)[k * WARP] = one[k];
    }
    for (int digit = 1; digit < ENTRIES; ++digit) {
        multiply(power, power, x, m);
#pragma unroll
        for (int k = 0; k < PER; ++k) entry(digit)[k * WARP] = power[k];
    }
    bool begun = false;
    for (int limb = p.n_limbs - 1; limb >= 0; --limb) {
        const u32 word = n[limb];
        for (int shift = 32 - WINDOW; shift >= 0; shift -= WINDOW) {
            const int digit = word >> shift & (ENTRIES - 1);
            if (begun)
                for (int i = 0; i < WINDOW; ++i) multiply(one, one, one, m);
            if (digit) {
                u32 factor[PER];
#pragma unroll
                for (int k = 0; k < PER; ++k) factor[k] = entry(digit)[k * WARP];
                multiply(one, one, factor, m);
                begun = true;
            }
        }
    }
#pragma unroll
    for (int k = 0; k < PER; ++k) {
        x[k] = one[k];
        power[k] = lane() + k == 0;
    }
#else
    take(power, n, p.n_limbs);
#endif
    multiply(x, x, power, m);
#pragma unroll
    for (int k = 0; k < PER; ++k) {
        const int limb = lane() * PER + k;
        if (limb < p.limbs) out[limb] = x[k];
    }
}
