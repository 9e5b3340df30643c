// The one rounding of the number that limbs hold.

#pragma once

#include "device/exact/limbs.cuh"
#include "device/finish/store.cuh"

namespace tcu::exact {

// The code of magnitude · 2^exponent, rounded to nearest.  The magnitude's highest bit is set; with `sticky` the
// number is a little larger.
__device__ inline u64 rounded(u64 magnitude, int exponent, bool sticky, int fraction, int bias, int fields) {
    const int unbiased = exponent + 63, lowest = 1 - bias;
    const int drop = 63 - fraction + max(0, lowest - unbiased);
    if (drop > 64) return 0;
    const u64 kept = drop < 64 ? magnitude >> drop : 0;
    const u64 rest = drop < 64 ? magnitude << (64 - drop) : magnitude, half = 1ull << 63;
    const u64 up = rest > half || (rest == half && (sticky || (kept & 1)));
    const u64 base = unbiased >= lowest ? static_cast<u64>(unbiased - lowest) << fraction : 0;
    const u64 code = base + kept + up, infinity = static_cast<u64>(fields) << fraction;
    return code < infinity && unbiased <= bias ? code : infinity;
}

// The integer part of the root of high · 2^64 + low, where high is at least 2^62. Sets `sticky` if the root is larger
// than that.
__device__ inline u64 root_of(u64 high, u64 low, bool& sticky) {
    const double guess = __dsqrt_rn(__ull2double_rn(high)) * 0x1p32;
    u64 root = guess < 0x1p64 ? __double2ull_rz(guess) : ~0ull;
    for (int step = 0;; ++step) {
        // The remainder: high · 2^64 + low - root · root, in two's complement.
        const u64 square = root * root;
        const u64 rest = low - square, more = high - __umul64hi(root, root) - (low < square);
        if (step == 0) {  // a Newton step from at most 2^12 away; it stays below, as root + 1 may be 2^64
            const double missing = static_cast<double>(static_cast<i64>(more)) * 0x1p64 + __ull2double_rn(rest);
            root += static_cast<i64>(floor(missing / (2 * __ull2double_rn(root)))) - 1;
        } else if (static_cast<i64>(more) < 0) {
            --root;
        } else if (more > root >> 63 || (more == root >> 63 && rest > root << 1)) {
            ++root;
        } else {
            sticky |= (more | rest) != 0;
            return root;
        }
    }
}

__device__ inline void store_code(u64 code, bool negative, void* out, finish::Target target) {
    const int width = target == finish::TO_BINARY64 ? 64 : target == finish::TO_BINARY32 ? 32 : 16;
    code |= static_cast<u64>(negative) << (width - 1);
    if (width == 64)
        *static_cast<u64*>(out) = code;
    else if (width == 32)
        *static_cast<u32*>(out) = static_cast<u32>(code);
    else
        *static_cast<u16*>(out) = static_cast<u16>(code);
}

// Called by one thread: rounds the number in the limbs to nearest; with TERM SQUARE, its root.  Limbs outside `first`
// to `last` are zero.  The sum of inf and -inf is NaN.
__device__ inline void store_limbs(i64* limbs, int first, int last, u64 divisor, void* out, finish::Target target) {
    const int fraction =
        target == finish::TO_BINARY16 ? 10 : target == finish::TO_BFLOAT16 ? 7 : target == finish::TO_BINARY32 ? 23 : 52;
    const int bias = target == finish::TO_BINARY16 ? 15 : target == finish::TO_BINARY64 ? 1023 : 127, fields = 2 * bias + 1;
    const int width = target == finish::TO_BINARY64 ? 64 : target == finish::TO_BINARY32 ? 32 : 16;
    const i64* counts = limbs + LIMBS;
    u64 code, magnitude = 0;
    bool negative = false;
    if (divisor == 0 || counts[NAN_COUNT] || (counts[POSITIVE_INFINITY] && counts[NEGATIVE_INFINITY])) {
        code = (1ull << (width - 1)) - 1;
    } else if (counts[POSITIVE_INFINITY] || counts[NEGATIVE_INFINITY]) {
        code = static_cast<u64>(fields) << fraction;
        negative = counts[NEGATIVE_INFINITY] != 0;
    } else {
        last = min(last + 4, LIMBS - 1);  // the carry of the highest limb reaches no further
        i64 carry = 0;
        for (int i = first; i <= last; ++i) {
            carry += limbs[i];
            limbs[i] = carry & 0xffff;
            carry >>= LIMB;
        }
        negative = carry < 0;
        if (negative) {
            carry = 1;
            for (int i = first; i <= last; ++i) {
                carry += 0xffff - limbs[i];
                limbs[i] = carry & 0xffff;
                carry >>= LIMB;
            }
        }
        bool sticky = false;
        if (divisor > 1) {  // long division; the lowest limb of a sum is empty, so there is room for the rounding bit
            u64 rest = 0;
            for (int i = last; i >= 0; --i) {
                rest = rest << LIMB | (i >= first ? limbs[i] : 0);
                limbs[i] = static_cast<i64>(rest / divisor);
                rest %= divisor;
            }
            first = 0;
            sticky = rest != 0;
        }
        while (last >= first && limbs[last] == 0) --last;
        int exponent = 0;
        if (last >= first) {
            if constexpr (TERM == SQUARE) {
                // The highest 128 bits, at an even exponent.  Their root has 64 bits, the highest of which is set.
                u64 highest[3] = {};
                for (int i = 0; i < 12; ++i)
                    highest[i / 4] = highest[i / 4] << LIMB | (last - i >= 0 ? limbs[last - i] : 0);
                const int zeros = __clzll(highest[0]) & ~1;
                for (int i = 0; i < 2; ++i)
                    if (zeros) highest[i] = highest[i] << zeros | highest[i + 1] >> (64 - zeros);
                sticky = highest[2] << zeros != 0;
                for (int i = first; i < last - 11; ++i) sticky |= limbs[i] != 0;
                exponent = (LOWEST + LIMB * (last - 7) - zeros) / 2;
                magnitude = root_of(highest[0], highest[1], sticky);
            } else {
                for (int i = 0; i < 4; ++i) magnitude = magnitude << LIMB | (last - i >= 0 ? limbs[last - i] : 0);
                const int zeros = __clzll(magnitude);
                const u64 next = last - 4 >= 0 ? limbs[last - 4] : 0;
                if (zeros) magnitude = magnitude << zeros | next >> (LIMB - zeros);
                sticky |= (next & (0xffff >> zeros)) != 0;
                for (int i = first; i < last - 4; ++i) sticky |= limbs[i] != 0;
                exponent = LOWEST + LIMB * (last - 3) - zeros;
            }
        }
        code = magnitude ? rounded(magnitude, exponent, sticky, fraction, bias, fields) : 0;
        if (!magnitude && !sticky) negative = false;  // zero is +0; what is merely too small for the format keeps its sign
    }
    store_code(code, negative, out, target);
}

}  // namespace tcu::exact
