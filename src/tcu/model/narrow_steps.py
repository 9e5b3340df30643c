"""What a kernel of narrow aligned sums does with four rows of sixteen outputs: decode, align, multiply, round.

In 32-bit words and binary32; the rounding toward zero, too (round_words).  Four
rows of which one does not fit them, and results in binary16, are rounded in
binary64 (round_sums).  What is plain needs no care for the ends of binary32's
range.  For AVX-512, sixteen products of binary16 are then six vector operations,
four of them the product itself: multiplied, scaled, cut, added.
"""
# Compiled by Numba, which types them; the intrinsics take one argument less than Python sees.
# mypy: ignore-errors

from __future__ import annotations

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from tcu.model.vector_expressions import (
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    LANES,
    element,
    has_rounding,
    load,
    splat,
    store,
    store_narrow,
)  # fmt: skip

__all__ = [
    "BIASES", "PER_WORD", "TOGETHER", "add_late", "align", "copy", "decode_column", "decode_row", "end_chain",
    "has_finite", "has_numbers", "mark", "multiply", "plain_from", "round_sums", "round_words",
]  # fmt: skip

TOGETHER = 4
"""Rows of A for which a row of B is read once; 1 was 10% slower, 2 and 8 were 2%."""


def plain_from(fraction_bits):
    """How large C is, where it is not zero, for sums that are plain: products are values, results binary32, rounded toward zero.

    Products are at least 2^-64, where they are not zero, and a unit is then at least 2^-(64 + F): every sum is a whole number
    of the least one, as C is.  So no sum needs a smaller unit, and units and their inverses are powers of two of binary32.
    """
    return 2.0 ** (23 - 64 - fraction_bits)


PER_WORD = (4, 2)
"""Exponents in a word, of values and of significands that are apart from them: four products take one addition of 64 bytes.

Biased, of two numbers' products by BIASES; zeros, inf and NaN have 0, so that no sum with theirs reaches one of two numbers.
"""
BIASES = (192, 2000)
_LEAST = (128, 1400)
"""Of biased exponents of products that are not zero."""
_NAN, _INFINITY, _ONE = 0x7FFFFFFF, 0x7F800000, 0x3F800000


def _decoded(builder, code, fmt, apart):
    """Of codes: significands or values; exponents, of subnormals the least of normal numbers; which are numbers but 0; which are special.

    fmt: (shift, exponent bits, fraction bits, largest finite code, what makes biased exponents of fields).
    apart: significands in (-2, 2), below 1 with subnormals, without their exponents; else values.
    """
    shift, width, fraction, largest = (builder.extract_value(fmt, i) for i in range(4))
    if code.kind != I32:
        code = code.convert("zext", I32)
    one = ir.Constant(I32, 1)
    sign_at, hidden = builder.add(width, fraction), builder.shl(one, fraction)
    bias = builder.sub(builder.shl(one, builder.sub(width, one)), one)
    up = splat(builder, builder.sub(ir.Constant(I32, 23), fraction))
    code = code.logical_shift(splat(builder, shift))
    magnitude = code & splat(builder, builder.sub(builder.shl(one, sign_at), one))
    field = magnitude.logical_shift(splat(builder, fraction))
    rest = magnitude & splat(builder, builder.sub(hidden, one))
    if apart:
        value = (rest << up | _ONE).floats()
        value = field.equals(0).select(value - 1.0, value).words()
    else:
        # Subnormal numbers of binary32 on the way took a sixth of the time of e4m3's, of which one of 16 is subnormal.
        value = (magnitude << up) + (splat(builder, builder.sub(ir.Constant(I32, 127), bias)) << 23)
        lowest = splat(builder, builder.sub(ir.Constant(I32, 128), bias)) << 23
        value = field.equals(0).select(((magnitude << up | lowest).floats() - lowest.floats()).words(), value)
    special = magnitude >= splat(builder, builder.add(largest, one))
    value = special.select(rest.equals(0).select(rest * 0 + _INFINITY, _NAN), value)
    value = value | (code.logical_shift(splat(builder, sign_at)) << 31)
    return value, field.max(1), (magnitude - 1).below(splat(builder, largest)), special


_FORMAT = types.UniTuple(types.int32, 5)


@intrinsic(prefer_literal=True)
def decode_row(typingctx, codes, index, fmt, apart, significands, at, exponents, word):
    """Decode codes[index : index + 16] of A to significands[at : at + 16], their exponents side by side to words of exponents.

    Bit n of what is returned: whether number n is inf or NaN.
    """
    alone = apart.literal_value

    def codegen(context, builder, signature, args):
        array, index, fmt, _, significands, at, exponents, word = args
        kinds = signature.args
        value, exponent, is_number, special = _decoded(
            builder, load(context, builder, kinds[0], array, index), fmt, alone
        )
        store(context, builder, kinds[4], significands, at, value)
        exponent = exponent + splat(builder, builder.extract_value(fmt, 4))
        exponent = is_number.select(exponent, 0).convert("trunc", I16 if alone else I8)
        store_narrow(context, builder, kinds[6], exponents, word, exponent)
        return builder.zext(special.mask(), I64)

    i = types.intp
    return types.int64(codes, i, _FORMAT, apart, significands, i, exponents, i), codegen


@intrinsic(prefer_literal=True)
def decode_column(typingctx, codes, index, fmt, apart, significands, at, exponents, word, part):
    """Decode codes[index : index + 16] of B, a number for each column, to significands[at : at + 16].

    Their exponents become the part ``part`` of 16 words; part 0 clears the others.
    True if one is inf or NaN.
    """
    alone = apart.literal_value

    def codegen(context, builder, signature, args):
        array, index, fmt, _, significands, at, exponents, word, part = args
        kinds = signature.args
        value, exponent, is_number, special = _decoded(
            builder, load(context, builder, kinds[0], array, index), fmt, alone
        )
        store(context, builder, kinds[4], significands, at, value)
        width = 32 // PER_WORD[alone]
        exponent = is_number.select(exponent + splat(builder, builder.extract_value(fmt, 4)), 0)
        part = builder.trunc(part, I32)
        first = builder.icmp_signed("==", part, ir.Constant(I32, 0))
        exponent = exponent << splat(builder, builder.mul(part, ir.Constant(I32, width)))
        before = load(context, builder, kinds[6], exponents, word)
        store(
            context, builder, kinds[6], exponents, word,
            splat(builder, first).select(exponent, before | exponent),
        )  # fmt: skip
        return special.any()

    i = types.intp
    return types.boolean(codes, i, _FORMAT, apart, significands, i, exponents, i, i), codegen


def _nearest(total, lowest, kept):
    """binary64 rounded to nearest: ``kept`` bits behind the first, and none below 2^lowest."""
    field = total.words().logical_shift(52) & 0x7FF
    drop = (field.convert("trunc", I32) - 1023 - kept).max(lowest)
    return (total * (drop * -1).wide_power_of_two()).nearest() * drop.wide_power_of_two()


def _limited(value, limit):
    """Infinite from ``limit`` on."""
    infinite = (value.words() & -(1 << 63) | 0x7FF0 << 48).doubles()
    return (value.magnitude() >= limit).select(infinite, value)


_ROW = types.Tuple((*[types.int32] * 5, types.float32))


def _terms(context, builder, kinds, x, i, stride, y, j):
    """A function of n: the numbers n of rows of A, each in all lanes, and those of B, from i and from j on."""

    def terms(n):
        starts = [builder.add(i, builder.mul(stride, ir.Constant(i.type, r))) for r in range(TOGETHER)]
        left = [
            element(context, builder, kinds[0], x, builder.add(start, ir.Constant(i.type, n)))
            for start in starts
        ]
        return left, load(context, builder, kinds[1], y, builder.add(j, ir.Constant(j.type, n * LANES)))

    return terms


def _places(builder, at):
    return [builder.add(at, ir.Constant(at.type, r * LANES)) for r in range(TOGETHER)]


@intrinsic
def mark(typingctx, x, i, stride, y, j, state, at):
    """state[at : at + 16] is inf or NaN where the next product, or its sum with it, is so; for rows of state."""

    def codegen(context, builder, signature, args):
        x, i, stride, y, j, state, at = args
        kinds = signature.args
        left, right = _terms(context, builder, (kinds[0], kinds[3]), x, i, stride, y, j)(0)
        for one, place in zip(left, _places(builder, at), strict=True):
            c = load(context, builder, kinds[5], state, place)
            total = one.multiply_add(right, c)
            store(
                context, builder, kinds[5], state, place, (total.magnitude() < float("inf")).select(c, total)
            )
        return context.get_dummy_value()

    i = types.intp
    return types.void(x, i, i, y, i, state, i), codegen


def _any(holds):
    def of(typingctx, state, at):
        def codegen(context, builder, signature, args):
            found = None
            for place in _places(builder, args[1]):
                lanes = holds(load(context, builder, signature.args[0], args[0], place))
                found = lanes if found is None else found | lanes
            return found.any()

        return types.boolean(state, types.intp), codegen

    return of


has_numbers = intrinsic(_any(lambda lanes: lanes.equals(lanes)))
"""Whether one of rows of state, from ``at`` on, is not NaN, which stays NaN."""
has_finite = intrinsic(_any(lambda lanes: lanes.magnitude() < float("inf")))
"""Whether one of rows of state, from ``at`` on, is finite."""


@intrinsic(prefer_literal=True)
def align(typingctx, depth, apart, plain, p, i, stride, q, j, state, at, row, powers):
    """powers[at : at + 16] = those of two that make units of the next block's sum whole, for rows of state.

    p, q: exponents of rows of A and of B, see PER_WORD.  row: see round_sums.  plain: see plain_from; as binary32, else exponents.
    """
    size, alone, plain_ = depth.literal_value, apart.literal_value, plain.literal_value
    per, bias = PER_WORD[alone], BIASES[alone]

    def codegen(context, builder, signature, args):
        _, _, _, p, i, stride, q, j, state, at, row, powers = args
        kinds = signature.args
        fraction_bits, floor, emin = (splat(builder, builder.extract_value(row, n)) for n in range(3))
        least = (floor.max(_LEAST[0] - bias) + 127) << 23
        words = _terms(context, builder, (kinds[3], kinds[6]), p, i, stride, q, j)
        commons = None
        for n in range(size // per):
            left, right = words(n)
            sums = [one.parts(per) + right.parts(per) for one in left]
            commons = (
                sums if commons is None else [c.unsigned_max(s) for c, s in zip(commons, sums, strict=True)]
            )
        for common, place in zip(commons, _places(builder, at), strict=True):
            for width in (16, 8)[: per // 2]:
                common = common.unsigned_max(common.full_words().logical_shift(width).parts(per))
            # The largest is the lowest part now; the others hold what is left of the search.
            common = common.full_words()
            c = load(context, builder, kinds[8], state, place)
            if plain_:
                # As powers of two in binary32: Intel's processors start two maxima a cycle of those, of whole numbers one.
                products = ((common << 23) & _INFINITY) - ((bias - 127) << 23)
                largest = c.magnitude().larger(products.floats()).larger(least.floats()).words()
                power = ((fraction_bits + 254) << 23) - (largest & _INFINITY)
            else:
                twice = c.words() << 1
                exponent = twice.logical_shift(24).max(emin + 127) + (bias - 127)
                common = common & (1 << 32 // per) - 1
                common = common.below(_LEAST[alone]).select(common * 0, common)
                common = common.max((twice - 1).below((_INFINITY << 1) - 1).select(exponent, 0))
                # Where all is zero, any unit will do.
                common = common.equals(0).select(common * 0 + bias, common)
                power = fraction_bits + bias - common.max(floor + bias)
            store(context, builder, kinds[11], powers, place, power)
        return context.get_dummy_value()

    i = types.intp
    return types.void(depth, apart, plain, p, i, i, q, i, state, i, _ROW, powers), codegen


@intrinsic(prefer_literal=True)
def multiply(typingctx, depth, apart, plain, x, p, i, pair_i, stride, y, q, j, pair_j, powers, at, words, to):
    """words[to : to + 16] = sums of ``depth`` products, each cut to a whole number of units; for rows of words.

    x, y: values; or, where they are apart, significands, with their exponents in pairs in p and q.
    """
    size, alone, plain_ = depth.literal_value, apart.literal_value, plain.literal_value

    def codegen(context, builder, signature, args):
        _, _, _, x, p, i, pair_i, stride, y, q, j, pair_j, powers, at, words, to = args
        kinds = signature.args
        places = _places(builder, at)
        terms = _terms(context, builder, (kinds[3], kinds[8]), x, i, stride, y, j)
        pair_stride = builder.lshr(stride, ir.Constant(stride.type, 1))
        pairs = _terms(context, builder, (kinds[4], kinds[9]), p, pair_i, pair_stride, q, pair_j)
        units = [load(context, builder, kinds[12], powers, place) for place in places]
        # Values: below 2^-64 nothing is left of a product; subnormal ones would be slow.
        if plain_:
            scales = [unit.floats().larger(2.0**-64) for unit in units]
        else:
            scales = [unit.max(-64).min(127).power_of_two() for unit in units]
        # Significands: where a power of two has no binary32, it becomes 0, and nothing is left of a product, either.
        bases = [unit * -1 + (BIASES[1] - 127) for unit in units]
        bases = [(base | base << 16).parts(2) for base in bases]
        sums = None
        for n in range(size):
            left, right = terms(n)
            if alone:
                if n % 2 == 0:
                    of_a, of_b = pairs(n // 2)
                    fields = [
                        (one.parts(2) + of_b.parts(2)).saturating_sub(base).full_words()
                        for one, base in zip(of_a, bases, strict=True)
                    ]
                scales = [((field.logical_shift(16) if n % 2 else field) << 23).floats() for field in fields]
            cut = [(one * right * scale).cut_to_words() for one, scale in zip(left, scales, strict=True)]
            sums = cut if sums is None else [total + term for total, term in zip(sums, cut, strict=True)]
        for total, place in zip(sums, _places(builder, to), strict=True):
            store(context, builder, kinds[14], words, place, total)
        return context.get_dummy_value()

    i = types.intp
    return types.void(depth, apart, plain, x, p, i, i, i, y, q, i, i, powers, i, words, i), codegen


@intrinsic(prefer_literal=True)
def round_words(typingctx, groups, plain, state, at, powers, words, stride, row):
    """As round_sums does toward zero, for rows of state.

    False, and nothing is done, where a sum leaves 32 bits, or a power of two or its inverse the normal range of binary32.
    """
    count, plain_ = groups.literal_value, plain.literal_value

    def codegen(context, builder, signature, args):
        _, _, state, at, powers, words, stride, row = args
        kinds = signature.args
        cut = (splat(builder, builder.extract_value(row, 3)) * -1 + 23).ones_above()
        results, fails = [], None
        for place in _places(builder, at):
            c = load(context, builder, kinds[2], state, place)
            scale = load(context, builder, kinds[4], powers, place)
            finite, over = c.magnitude() < float("inf"), None
            if not plain_:
                wrong = (scale + 126).below(253).opposite()
                scale = (scale + 127) << 23
            total = (c * scale.floats()).cut_to_words()
            for n in range(count):
                term = builder.add(place, builder.mul(stride, ir.Constant(place.type, n)))
                term = load(context, builder, kinds[5], words, term)
                before, total = total, total + term
                now = (before ^ total) & (term ^ total)
                over = now if over is None else over | now
            if not plain_:
                over = over | wrong.convert("sext", I32)
            over = finite.select(over, 0)
            fails = over if fails is None else fails | over
            number = (total.to_float_toward_zero(has_rounding(context)) & cut).floats() * (
                scale * -1 + (254 << 23)
            ).floats()
            results.append((place, finite.select(number, c)))
        fits = builder.not_((fails < 0).any())
        with builder.if_then(fits, likely=True):
            for place, number in results:
                store(context, builder, kinds[2], state, place, number)
        return fits

    i = types.intp
    return types.boolean(groups, plain, state, i, powers, words, i, _ROW), codegen


@intrinsic(prefer_literal=True)
def round_sums(typingctx, groups, to_nearest, plain, state, at, powers, words, stride, row):
    """state[at : at + 16] = that and ``groups`` sums of products, ``stride`` words apart, rounded.

    row: (F, floor, emin of the output, kept bits, exponent of the lowest bit, limit).
    to_nearest: rounded so, to binary16; else toward zero, to binary32.
    """
    count, nearest, plain_ = groups.literal_value, to_nearest.literal_value, plain.literal_value

    def codegen(context, builder, signature, args):
        _, _, _, state, at, powers, words, stride, row = args
        kinds = signature.args
        kept, low, limit = (splat(builder, builder.extract_value(row, n)) for n in (3, 4, 5))
        c = load(context, builder, kinds[3], state, at)
        power = load(context, builder, kinds[5], powers, at)
        power = power.logical_shift(23) - 127 if plain_ else power
        scale = power.wide_power_of_two()
        total = (c.to(F64) * scale).cut()
        for n in range(count):
            place = builder.add(at, builder.mul(stride, ir.Constant(at.type, n)))
            total = total + load(context, builder, kinds[6], words, place).to(F64)
        # down = 2^-low / scale: bits below the lowest are cut, too.
        down = (low * -1 + 2046).convert("zext", I64) << 52
        down, up = (down - scale.words()).doubles(), low.wide_power_of_two()
        if nearest:
            value = _limited(_nearest(total, low + power, kept) * down * up, limit.to(F64)).to(F32)
        else:
            mask = (kept * -1 + 52).convert("zext", I64)
            value = (((total.words() & mask.ones_above()).doubles() * down).cut() * up).to(F32)
        value = (c.magnitude() < float("inf")).select(value + 0.0, c)
        store(context, builder, kinds[3], state, at, value)
        return context.get_dummy_value()

    i = types.intp
    return types.void(groups, to_nearest, plain, state, i, powers, words, i, _ROW), codegen


@intrinsic
def add_late(typingctx, state, at, out, early, index):
    """state[at : at + 16] += early[index : index + 16], by an IEEE addition to nearest."""

    def codegen(context, builder, signature, args):
        state, at, out, early, index = args
        kept, low, limit = (splat(builder, builder.extract_value(out, n)) for n in range(3))
        x = load(context, builder, signature.args[0], state, at)
        y = load(context, builder, signature.args[3], early, index)
        value = _limited(_nearest(x.to(F64) + y.to(F64), low, kept), limit.to(F64)).to(F32)
        kind = x + y
        finite = (x.magnitude() < float("inf")) & (y.magnitude() < float("inf"))
        store(context, builder, signature.args[0], state, at, finite.select(value + 0.0, kind))
        return context.get_dummy_value()

    fields = types.Tuple((types.int32, types.int32, types.float32))
    return types.void(state, types.intp, fields, early, types.intp), codegen


@intrinsic
def copy(typingctx, source, i, target, j):
    """target[j : j + 16] = source[i : i + 16], of NaN the model's."""

    def codegen(context, builder, signature, args):
        lanes = load(context, builder, signature.args[0], args[0], args[1])
        words = lanes.equals(lanes).select(lanes.words(), _NAN)
        store(context, builder, signature.args[2], args[2], args[3], words)
        return context.get_dummy_value()

    return types.void(source, types.intp, target, types.intp), codegen


@intrinsic
def end_chain(typingctx, total, state, at):
    """Add a chain's results to those of the chains before it, in binary32, and begin the next one from zero."""

    def codegen(context, builder, signature, args):
        total, state, at = args
        kinds = signature.args
        last = load(context, builder, kinds[1], state, at)
        store(context, builder, kinds[0], total, at, load(context, builder, kinds[0], total, at) + last)
        store(context, builder, kinds[1], state, at, last.words() * 0)
        return context.get_dummy_value()

    return types.void(total, state, types.intp), codegen
