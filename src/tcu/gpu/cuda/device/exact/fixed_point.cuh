// Sums in fixed point: integers of 64 bits, words, each of which takes so many bits of the numbers and has room above them for
// the carries of all of them.  Words are sums of integers, which have no order: they may be added up by atomic additions.
//
// The first word takes the highest bits of the largest number, so that most numbers lie in it: of 2^26 numbers of binary32
// it has 37 bits, and each number 24.

#pragma once

#include "device/exact/parts.cuh"

namespace tcu::exact {

__device__ inline bool is_special(Code code) { return (static_cast<int>(code >> FRACTION) & FIELDS) == FIELDS; }

// The largest and the smallest number that was seen, but zero, by their codes without a sign; the latter less one, so that zero
// is none of the small ones.
struct Extent {
    static constexpr Code DIGITS = (static_cast<Code>(1) << (8 * sizeof(Code) - 1)) - 1;
    Code largest = 0, smallest = DIGITS;

    __device__ void see(Code code) {
        const Code digits = code & DIGITS, less = (digits - 1) & DIGITS;
        largest = digits > largest ? digits : largest;
        smallest = less < smallest ? less : smallest;
    }
    // The largest exponent field; of inf and NaN FIELDS.
    __device__ int top() const { return static_cast<int>(largest >> FRACTION); }
    // How far the smallest exponent field lies below FIELDS; zero where only zeros were seen.
    __device__ int depth() const {
        return largest == 0 ? 0 : FIELDS - max(static_cast<int>((smallest + 1ull) >> FRACTION), 1);
    }
};

// Where the words lie: word k counts multiples of 2^(unit - k · bits).
struct Words {
    int bits, unit, count;

    // Of numbers of that extent.
    __device__ Words(int bits, int top, int depth) : bits(bits), unit(max(min(top, FIELDS - 1), 1) - BIAS + 1 - bits) {
        const int lowest = FIELDS - depth - BIAS - FRACTION;  // the exponent of the smallest number's last bit
        count = lowest >= unit ? 1 : 1 + (unit - lowest + bits - 1) / bits;
    }

    // Returns what a finite number adds to word 0; what it adds to others goes to add_lower(word, part).
    template <typename Add>
    __device__ i64 split(Code code, Add add_lower) const {
        const int field = static_cast<int>(code >> FRACTION) & FIELDS;
        const u64 rest = code & ((static_cast<Code>(1) << FRACTION) - 1), digits = field ? rest | 1ull << FRACTION : rest;
        const bool negative = code >> (8 * sizeof(Code) - 1);
        const int place = max(field, 1) - BIAS - FRACTION - unit;
        const auto with_sign = [=](u64 part) { return negative ? -static_cast<i64>(part) : static_cast<i64>(part); };
        if (digits == 0) return 0;
        if (place >= 0) return with_sign(digits << place);
        const int word = (bits - 1 - place) / bits, shift = word * bits + place;
        const u64 mask = (1ull << bits) - 1, low = digits << shift & mask, above = digits >> (bits - shift);
        if (low) add_lower(word, with_sign(low));
        if (word == 1) return with_sign(above);
        if (above & mask) add_lower(word - 1, with_sign(above & mask));
        if (sizeof(Code) < 8 || above >> bits == 0) return 0;
        if (word == 2) return with_sign(above >> bits);
        add_lower(word - 2, with_sign(above >> bits));
        return 0;
    }

    // Gives see(word, digit) each digit of the magnitude, from the lowest to the one above word 0.
    template <typename See>
    __device__ void each_digit(const i64* words, i64 step, bool negative, See see) const {
        const i64 mask = (1ll << bits) - 1;
        i64 rest = 0;
        for (int k = count - 1; k >= -1; --k) {
            const i64 word = k < 0 ? 0 : words[k * step];
            rest += negative ? -word : word;
            see(k, static_cast<u64>(rest & mask));
            rest >>= bits;
        }
    }

    // Stores the number that the words hold, `step` words apart, divided and rounded once.
    __device__ void store(const i64* words, i64 step, u32 divisor, void* out, finish::Target target) const {
        if (count <= 2) {
            store_sum({words[0], count == 2 ? words[step] : 0, bits, unit - bits, true}, divisor, out, target);
            return;
        }
        // Carries go up from the lowest word.  The first time they tell the sign, then the highest digit that is not zero, then
        // the three highest digits, and whether anything is below them.
        i64 carry = 0;
        for (int k = count - 1; k >= 0; --k) carry = (carry + words[k * step]) >> bits;
        const bool negative = carry < 0;
        int first = count;
        each_digit(words, step, negative, [&](int k, u64 digit) {
            if (digit) first = k;
        });
        u64 digits[3] = {};
        bool sticky = false;
        each_digit(words, step, negative, [&](int k, u64 digit) {
            if (k > first + 2)
                sticky |= digit != 0;
            else if (k >= first)
                digits[2] = digits[1], digits[1] = digits[0], digits[0] = digit;
        });
        u64 magnitude[2] = {digits[0] << (2 * bits - 64) | digits[1] >> (64 - bits), digits[1] << bits | digits[2]};
        store_magnitude(magnitude, sticky, negative, unit - (first + 2) * bits, divisor, out, target);
    }
};

}  // namespace tcu::exact
