"""The fast model of narrow aligned sums: sixteen columns at a time, in 32-bit words.

:func:`tcu.model.mma.is_narrow` says which sums are narrow, and why nothing is
lost here.  A tile of the result decodes what it reads of A and B once: values,
or significands, in binary32, and exponents in 16 bits.  A block of the sum is
then three loops over the rows of the tile, each lane one output: the common
exponents, the products cut to whole units of them, the rounding.  In one loop
a product would wait for its row's common exponent: measured, 10% slower.

The rounding toward zero stays in 32-bit words (_round_words); four rows of
which one does not fit them, and results in binary16, are rounded in binary64
(_round).  What is PLAIN needs no care for the ends of binary32's range.  For
AVX-512, sixteen products of binary16 are then 6.7 vector operations, four of
them the product itself: multiplied, scaled, cut, added.
"""
# Compiled by Numba, which types them; the intrinsics take one argument less than Python sees.
# mypy: ignore-errors

from __future__ import annotations

import threading

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from tcu.model.kernels import _FINGERPRINT, _compiled
from tcu.model.vectors import data_of

__all__ = ["BLOCKS", "COLUMNS", "DEPTH", "LANES", "TOGETHER", "narrow_mma", "scratch"]

LANES = 16
ROWS, COLUMNS, DEPTH = 64, 128, 64
"""Of the result, and the piece of K whose operands are decoded at once: what L1 holds of 16 columns, L2 of all."""
TOGETHER = 4
"""Rows of A for which a row of B is read once; 1 was 10% slower, 2 and 8 were 2%."""
BLOCKS = (4, 8, 16, 32)
PLAIN = 2.0**-101
"""C, where it is not zero, is at least so large, products are values, results binary32, rounded toward zero.

Then every sum is zero or at least so large: a unit is at least 2^-(64 + 25) where a product is not zero, and else C stays.
So a power of two that makes units whole, of at most 25 bits behind the largest, is one of binary32, as is its inverse.
"""
_PART = 16
"""Products that are added up in 32 bits."""
_BIAS = 1000
"""Of an operand's exponent in 16 bits; zeros have 0, so that no sum with theirs reaches one of two numbers or a floor."""

_I1, _I16, _I32, _I64 = ir.IntType(1), ir.IntType(16), ir.IntType(32), ir.IntType(64)
_F32, _F64 = ir.FloatType(), ir.DoubleType()
_INTEGERS = {_F32: _I32, _F64: _I64}
_NAN, _INFINITY, _ONE = 0x7FFFFFFF, 0x7F800000, 0x3F800000


class _Lanes:
    """Numbers of an LLVM type side by side, with Python's operators; a plain number is one for all of them."""

    def __init__(self, builder, value):
        self.builder, self.value = builder, value
        self.kind, self.size = value.type.element, value.type.count

    def _lift(self, other):
        return other.value if isinstance(other, _Lanes) else ir.Constant(self.value.type, [other] * self.size)

    def _with(self, name, other):
        name = f"f{name}" if self.kind in _INTEGERS else name
        return _Lanes(self.builder, getattr(self.builder, name)(self.value, self._lift(other)))

    def __add__(self, other):
        return self._with("add", other)

    def __sub__(self, other):
        return self._with("sub", other)

    def __mul__(self, other):
        return self._with("mul", other)

    def __and__(self, other):
        return self._with("and_", other)

    def __xor__(self, other):
        return self._with("xor", other)

    def __or__(self, other):
        return self._with("or_", other)

    def __lshift__(self, other):
        return self._with("shl", other)

    def logical_shift(self, other):
        return self._with("lshr", other)

    def _compare(self, sign, other):
        compare = self.builder.fcmp_ordered if self.kind in _INTEGERS else self.builder.icmp_signed
        return _Lanes(self.builder, compare(sign, self.value, self._lift(other)))

    def __lt__(self, other):
        return self._compare("<", other)

    def __ge__(self, other):
        return self._compare(">=", other)

    def equals(self, other):
        return self._compare("==", other)

    def below(self, other):
        """Of unsigned numbers."""
        return _Lanes(self.builder, self.builder.icmp_unsigned("<", self.value, self._lift(other)))

    def select(self, yes, no):
        return _Lanes(self.builder, self.builder.select(self.value, yes.value, yes._lift(no)))

    def any(self):
        word = ir.IntType(self.size)
        return self.builder.icmp_unsigned("!=", self.builder.bitcast(self.value, word), ir.Constant(word, 0))

    def _call(self, name, *others):
        letter, bits = (
            ("f", {_F32: 32, _F64: 64}[self.kind]) if self.kind in _INTEGERS else ("i", self.kind.width)
        )
        vector = self.value.type
        kind = ir.FunctionType(vector, [vector] * (1 + len(others)))
        name = f"llvm.{name}.v{self.size}{letter}{bits}"
        function = cgutils.get_or_insert_function(self.builder.module, kind, name)
        return _Lanes(self.builder, self.builder.call(function, [self.value, *map(self._lift, others)]))

    def multiply_add(self, other, total):
        """Once or twice rounded, whatever is faster."""
        return self._call("fmuladd", other, total)

    def max(self, other):
        return self._call("smax", other)

    def min(self, other):
        return self._call("smin", other)

    def saturating_sub(self, other):
        """Of unsigned numbers, at least 0."""
        return self._call("usub.sat", other)

    def magnitude(self):
        """Of the least integer, itself."""
        return self._call("fabs") if self.kind in _INTEGERS else self.max(self * -1)

    def opposite(self):
        return _Lanes(self.builder, self.builder.not_(self.value))

    def cut(self):
        """Toward zero, to a whole number."""
        return self._call("trunc")

    def nearest(self):
        return self._call("rint")

    def convert(self, how, kind):
        count = self.size
        if how == "bitcast":
            width = {_F32: 32, _F64: 64}
            count = count * width.get(self.kind, getattr(self.kind, "width", 0))
            count //= width.get(kind, getattr(kind, "width", 0))
        return _Lanes(self.builder, getattr(self.builder, how)(self.value, ir.VectorType(kind, count)))

    def to(self, kind):
        """The same numbers as _F32 or _F64; binary64 rounds to nearest, even."""
        if self.kind not in _INTEGERS:
            return self.convert("sitofp", kind)
        return self.convert("fpext" if kind == _F64 else "fptrunc", kind)

    def cut_to_words(self):
        return self.convert("fptosi", _I32)

    def to_float_toward_zero(self, by_instruction):
        """The words of binary32.  by_instruction: see _has_rounding."""
        if by_instruction:
            floats, vector = ir.VectorType(_F32, self.size), self.value.type
            kind = ir.FunctionType(floats, [vector, _I32])
            function = cgutils.get_or_insert_function(
                self.builder.module, kind, "llvm.x86.avx512.sitofp.round.v16f32.v16i32"
            )
            return _Lanes(
                self.builder, self.builder.call(function, [self.value, ir.Constant(_I32, 11)])
            ).words()
        # Without the bit behind the 24 that binary32 keeps, the nearest number is the one toward zero.
        magnitude = self.magnitude()
        number = (magnitude & magnitude.logical_shift(24).opposite()).to(_F32).words()
        return number | (self & -(1 << 31))

    def words(self):
        """The bits of floating-point numbers."""
        return self.convert("bitcast", _INTEGERS[self.kind])

    def floats(self):
        return self.convert("bitcast", _F32)

    def doubles(self):
        return self.convert("bitcast", _F64)

    def halves(self):
        """Words of 32 bits as two of 16 each, the low one first."""
        return self.convert("bitcast", _I16)

    def full_words(self):
        return self.convert("bitcast", _I32)

    def ones_above(self):
        """-1 shifted to the left so far."""
        return _Lanes(self.builder, self.builder.shl(self._lift(-1), self.value))

    def power_of_two(self):
        """2^exponent, of exponents in the normal range of binary32."""
        return ((self + 127) << 23).floats()

    def wide_power_of_two(self):
        """2^exponent, of exponents in the normal range of binary64."""
        return ((self + 1023).convert("zext", _I64) << 52).doubles()


def _has_rounding(context):
    """Whether the processor that code is made for has conversions with a rounding of their own, as AVX-512 has."""
    _, _, features = context.codegen().magic_tuple()
    return "+avx512f" in features.split(",")


def _splat(builder, scalar):
    vector = ir.VectorType(scalar.type, LANES)
    undefined = ir.Constant(vector, ir.Undefined)
    seed = builder.insert_element(undefined, scalar, ir.Constant(_I32, 0))
    mask = ir.Constant(ir.VectorType(_I32, LANES), [0] * LANES)
    return _Lanes(builder, builder.shuffle_vector(seed, undefined, mask))


def _pointer(context, builder, array_type, array, index):
    return builder.gep(data_of(context, builder, array_type, array), [index])


def _load(context, builder, array_type, array, index):
    pointer = _pointer(context, builder, array_type, array, index)
    vector = ir.VectorType(pointer.type.pointee, LANES)
    align = array_type.dtype.bitwidth // 8
    return _Lanes(builder, builder.load(builder.bitcast(pointer, vector.as_pointer()), align=align))


def _store(context, builder, array_type, array, index, lanes):
    pointer = _pointer(context, builder, array_type, array, index)
    builder.store(lanes.value, builder.bitcast(pointer, lanes.value.type.as_pointer()), align=4)


def _element(context, builder, array_type, array, index):
    """One element in all lanes."""
    return _splat(builder, builder.load(_pointer(context, builder, array_type, array, index)))


@intrinsic(prefer_literal=True)
def _decode(typingctx, codes, index, fmt, apart, significands, exponents, at, odd):
    """Decode codes[index : index + 16] to significands[at : at + 16] and exponents; true if one is inf or NaN.

    fmt: (shift, exponent bits, fraction bits, largest finite code).  apart:
    significands in (-2, 2), below 1 with subnormals, without their exponents;
    else values.  Exponents of 16 bits go to exponents[at : at + 16]; those of
    pairs of rows, where the array has 32, to the halves of its words.
    """
    alone = apart.literal_value

    def codegen(context, builder, signature, args):
        array, index, fmt, _, significands, exponents, at, odd = args
        shift, width, fraction, largest = (builder.extract_value(fmt, i) for i in range(4))
        code = _load(context, builder, signature.args[0], array, index)
        if code.kind != _I32:
            code = code.convert("zext", _I32)
        one = ir.Constant(_I32, 1)
        sign_at, hidden = builder.add(width, fraction), builder.shl(one, fraction)
        bias = builder.sub(builder.shl(one, builder.sub(width, one)), one)
        up = _splat(builder, builder.sub(ir.Constant(_I32, 23), fraction))
        code = code.logical_shift(_splat(builder, shift))
        magnitude = code & _splat(builder, builder.sub(builder.shl(one, sign_at), one))
        field = magnitude.logical_shift(_splat(builder, fraction))
        rest = magnitude & _splat(builder, builder.sub(hidden, one))
        if alone:
            value = (rest << up | _ONE).floats()
            value = field.equals(0).select(value - 1.0, value).words()
        else:
            # Subnormal numbers of binary32 on the way took a sixth of the time of e4m3's, of which one of 16 is subnormal.
            value = (magnitude << up) + (_splat(builder, builder.sub(ir.Constant(_I32, 127), bias)) << 23)
            lowest = _splat(builder, builder.sub(ir.Constant(_I32, 128), bias)) << 23
            value = field.equals(0).select(
                ((magnitude << up | lowest).floats() - lowest.floats()).words(), value
            )
        special = magnitude >= _splat(builder, builder.add(largest, one))
        value = special.select(rest.equals(0).select(rest * 0 + _INFINITY, _NAN), value)
        value = value | (code.logical_shift(_splat(builder, sign_at)) << 31)
        number = (magnitude - 1).below(_splat(builder, largest))
        exponent = field.max(1) + _splat(builder, builder.sub(ir.Constant(_I32, _BIAS), bias))
        exponent = number.select(exponent, 0)
        _store(context, builder, signature.args[4], significands, at, value)
        if signature.args[5].dtype == types.int16:
            _store(context, builder, signature.args[5], exponents, at, exponent.convert("trunc", _I16))
        else:
            at = builder.sub(
                builder.lshr(at, ir.Constant(at.type, 1)), builder.mul(odd, ir.Constant(at.type, 8))
            )
            even = _load(context, builder, signature.args[5], exponents, at)
            isodd = _splat(builder, builder.trunc(odd, _I1))
            _store(
                context,
                builder,
                signature.args[5],
                exponents,
                at,
                isodd.select(even | exponent << 16, exponent),
            )
        return special.any()

    fields = types.UniTuple(types.int32, 4)
    return (
        types.boolean(codes, types.intp, fields, apart, significands, exponents, types.intp, types.intp),
        codegen,
    )


def _nearest(total, lowest, kept):
    """binary64 rounded to nearest: ``kept`` bits behind the first, and none below 2^lowest."""
    field = total.words().logical_shift(52) & 0x7FF
    drop = (field.convert("trunc", _I32) - 1023 - kept).max(lowest)
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
            _element(context, builder, kinds[0], x, builder.add(start, ir.Constant(i.type, n)))
            for start in starts
        ]
        return left, _load(context, builder, kinds[1], y, builder.add(j, ir.Constant(j.type, n * LANES)))

    return terms


def _places(builder, at):
    return [builder.add(at, ir.Constant(at.type, r * LANES)) for r in range(TOGETHER)]


@intrinsic(prefer_literal=True)
def _mark(typingctx, depth, x, i, stride, y, j, state, at):
    """state[at : at + 16] is inf or NaN where the next products, or their sum with it, are so; for rows of state."""
    size = depth.literal_value

    def codegen(context, builder, signature, args):
        _, x, i, stride, y, j, state, at = args
        kinds = signature.args
        terms = _terms(context, builder, (kinds[1], kinds[4]), x, i, stride, y, j)
        places = _places(builder, at)
        before = sums = [_load(context, builder, kinds[6], state, place) for place in places]
        for n in range(size):
            left, right = terms(n)
            sums = [one.multiply_add(right, total) for one, total in zip(left, sums, strict=True)]
        for c, total, place in zip(before, sums, places, strict=True):
            _store(
                context, builder, kinds[6], state, place, (total.magnitude() < float("inf")).select(c, total)
            )
        return context.get_dummy_value()

    i = types.intp
    return types.void(depth, x, i, i, y, i, state, i), codegen


@intrinsic
def _lives(typingctx, state, at):
    """Whether one of rows of state is not NaN, which stays NaN."""

    def codegen(context, builder, signature, args):
        lives = None
        for place in _places(builder, args[1]):
            lanes = _load(context, builder, signature.args[0], args[0], place)
            numbers = lanes.equals(lanes)
            lives = numbers if lives is None else lives | numbers
        return lives.any()

    return types.boolean(state, types.intp), codegen


@intrinsic(prefer_literal=True)
def _align(typingctx, depth, plain, p, i, stride, q, j, state, at, row, powers):
    """powers[at : at + 16] = those of two that make units of the next block's sum whole, for rows of state.

    p, q: exponents of rows of A and of B, in pairs.  row: see _round.  plain: see PLAIN; as binary32, else exponents.
    """
    size, plain_ = depth.literal_value, plain.literal_value

    def codegen(context, builder, signature, args):
        _, _, p, i, stride, q, j, state, at, row, powers = args
        kinds = signature.args
        fraction_bits, floor, emin = (_splat(builder, builder.extract_value(row, n)) for n in range(3))
        least = (fraction_bits - 126).max(floor) + 2 * _BIAS
        pairs = _terms(context, builder, (kinds[2], kinds[5]), p, i, stride, q, j)
        commons = None
        for n in range(size // 2):
            left, right = pairs(n)
            sums = [one.halves() + right.halves() for one in left]
            commons = sums if commons is None else [c.max(s) for c, s in zip(commons, sums, strict=True)]
        for common, place in zip(commons, _places(builder, at), strict=True):
            twice = _load(context, builder, kinds[7], state, place).words() << 1
            exponent = twice.logical_shift(24)
            common = common.full_words()
            common = (common & 0xFFFF).max(common.logical_shift(16))
            if plain_:
                common = common.max(exponent + (2 * _BIAS - 127)).max(least)
                power = (fraction_bits + (2 * _BIAS + 127) - common) << 23
            else:
                exponent = exponent.max(emin + 127) + (2 * _BIAS - 127)
                common = common.max((twice - 1).below((_INFINITY << 1) - 1).select(exponent, 0))
                # Where all is zero, any unit will do.
                common = (common < 2 * _BIAS - 600).select(common * 0 + 2 * _BIAS, common)
                power = fraction_bits + 2 * _BIAS - common.max(floor + 2 * _BIAS)
            _store(context, builder, kinds[10], powers, place, power)
        return context.get_dummy_value()

    i = types.intp
    return types.void(depth, plain, p, i, i, q, i, state, i, _ROW, powers), codegen


@intrinsic(prefer_literal=True)
def _multiply(
    typingctx, depth, apart, plain, x, p, i, pair_i, stride, y, q, j, pair_j, powers, at, words, to
):
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
        units = [_load(context, builder, kinds[12], powers, place) for place in places]
        # Values: below 2^-64 nothing is left of a product; subnormal ones would be slow.
        if plain_:
            scales = [unit.max((127 - 64) << 23).floats() for unit in units]
        else:
            scales = [unit.max(-64).min(127).power_of_two() for unit in units]
        # Significands: where a power of two has no binary32, it becomes 0, and nothing is left of a product, either.
        bases = [unit * -1 + (2 * _BIAS - 127) for unit in units]
        bases = [(base | base << 16).halves() for base in bases]
        sums = None
        for n in range(size):
            left, right = terms(n)
            if alone:
                if n % 2 == 0:
                    of_a, of_b = pairs(n // 2)
                    fields = [
                        (one.halves() + of_b.halves()).saturating_sub(base).full_words()
                        for one, base in zip(of_a, bases, strict=True)
                    ]
                scales = [((field.logical_shift(16) if n % 2 else field) << 23).floats() for field in fields]
            cut = [(one * right * scale).cut_to_words() for one, scale in zip(left, scales, strict=True)]
            sums = cut if sums is None else [total + term for total, term in zip(sums, cut, strict=True)]
        for total, place in zip(sums, _places(builder, to), strict=True):
            _store(context, builder, kinds[14], words, place, total)
        return context.get_dummy_value()

    i = types.intp
    return types.void(depth, apart, plain, x, p, i, i, i, y, q, i, i, powers, i, words, i), codegen


@intrinsic(prefer_literal=True)
def _round_words(typingctx, groups, plain, state, at, powers, words, stride, row):
    """As _round does toward zero, for rows of state.

    False, and nothing is done, where a sum leaves 32 bits, or a power of two or its inverse the normal range of binary32.
    """
    count, plain_ = groups.literal_value, plain.literal_value

    def codegen(context, builder, signature, args):
        _, _, state, at, powers, words, stride, row = args
        kinds = signature.args
        cut = (_splat(builder, builder.extract_value(row, 3)) * -1 + 23).ones_above()
        results, fails = [], None
        for place in _places(builder, at):
            c = _load(context, builder, kinds[2], state, place)
            scale = _load(context, builder, kinds[4], powers, place)
            finite, over = c.magnitude() < float("inf"), None
            if not plain_:
                wrong = (scale + 126).below(253).opposite()
                scale = (scale + 127) << 23
            total = (c * scale.floats()).cut_to_words()
            for n in range(count):
                term = builder.add(place, builder.mul(stride, ir.Constant(place.type, n)))
                term = _load(context, builder, kinds[5], words, term)
                before, total = total, total + term
                now = (before ^ total) & (term ^ total)
                over = now if over is None else over | now
            if not plain_:
                over = over | wrong.convert("sext", _I32)
            over = finite.select(over, 0)
            fails = over if fails is None else fails | over
            number = (total.to_float_toward_zero(_has_rounding(context)) & cut).floats() * (
                scale * -1 + (254 << 23)
            ).floats()
            results.append((place, finite.select(number, c)))
        fits = builder.not_((fails < 0).any())
        with builder.if_then(fits, likely=True):
            for place, number in results:
                _store(context, builder, kinds[2], state, place, number)
        return fits

    i = types.intp
    return types.boolean(groups, plain, state, i, powers, words, i, _ROW), codegen


@intrinsic(prefer_literal=True)
def _round(typingctx, groups, to_nearest, plain, state, at, powers, words, stride, row):
    """state[at : at + 16] = that and ``groups`` sums of products, ``stride`` words apart, rounded.

    row: (F, floor, emin of the output, kept bits, exponent of the lowest bit, limit).
    to_nearest: rounded so, to binary16; else toward zero, to binary32.
    """
    count, nearest, plain_ = groups.literal_value, to_nearest.literal_value, plain.literal_value

    def codegen(context, builder, signature, args):
        _, _, _, state, at, powers, words, stride, row = args
        kinds = signature.args
        kept, low, limit = (_splat(builder, builder.extract_value(row, n)) for n in (3, 4, 5))
        c = _load(context, builder, kinds[3], state, at)
        power = _load(context, builder, kinds[5], powers, at)
        power = power.logical_shift(23) - 127 if plain_ else power
        scale = power.wide_power_of_two()
        total = (c.to(_F64) * scale).cut()
        for n in range(count):
            place = builder.add(at, builder.mul(stride, ir.Constant(at.type, n)))
            total = total + _load(context, builder, kinds[6], words, place).to(_F64)
        # down = 2^-low / scale: bits below the lowest are cut, too.
        down = (low * -1 + 2046).convert("zext", _I64) << 52
        down, up = (down - scale.words()).doubles(), low.wide_power_of_two()
        if nearest:
            value = _limited(_nearest(total, low + power, kept) * down * up, limit.to(_F64)).to(_F32)
        else:
            mask = (kept * -1 + 52).convert("zext", _I64)
            value = (((total.words() & mask.ones_above()).doubles() * down).cut() * up).to(_F32)
        value = (c.magnitude() < float("inf")).select(value + 0.0, c)
        _store(context, builder, kinds[3], state, at, value)
        return context.get_dummy_value()

    i = types.intp
    return types.void(groups, to_nearest, plain, state, i, powers, words, i, _ROW), codegen


@intrinsic
def _add_late(typingctx, state, at, out, early, index):
    """state[at : at + 16] += early[index : index + 16], by an IEEE addition to nearest."""

    def codegen(context, builder, signature, args):
        state, at, out, early, index = args
        kept, low, limit = (_splat(builder, builder.extract_value(out, n)) for n in range(3))
        x = _load(context, builder, signature.args[0], state, at)
        y = _load(context, builder, signature.args[3], early, index)
        value = _limited(_nearest(x.to(_F64) + y.to(_F64), low, kept), limit.to(_F64)).to(_F32)
        kind = x + y
        finite = (x.magnitude() < float("inf")) & (y.magnitude() < float("inf"))
        _store(context, builder, signature.args[0], state, at, finite.select(value + 0.0, kind))
        return context.get_dummy_value()

    fields = types.Tuple((types.int32, types.int32, types.float32))
    return types.void(state, types.intp, fields, early, types.intp), codegen


@intrinsic
def _copy(typingctx, source, i, target, j):
    """target[j : j + 16] = source[i : i + 16], of NaN the model's."""

    def codegen(context, builder, signature, args):
        lanes = _load(context, builder, signature.args[0], args[0], args[1])
        words = lanes.equals(lanes).select(lanes.words(), _NAN)
        _store(context, builder, signature.args[2], args[2], args[3], words)
        return context.get_dummy_value()

    return types.void(source, types.intp, target, types.intp), codegen


@intrinsic
def _end_chain(typingctx, total, state, at):
    """Add a chain's results to those of the chains before it, in binary32, and begin the next one from zero."""

    def codegen(context, builder, signature, args):
        total, state, at = args
        kinds = signature.args
        last = _load(context, builder, kinds[1], state, at)
        _store(context, builder, kinds[0], total, at, _load(context, builder, kinds[0], total, at) + last)
        _store(context, builder, kinds[1], state, at, last.words() * 0)
        return context.get_dummy_value()

    return types.void(total, state, types.intp), codegen


_kept = threading.local()


def scratch(depth, height, chunks):
    """What narrow_mma works in, every array from the start of a line of the cache on.

    height: of tiles, a multiple of ROWS.  chunks: K is cut into some.

    Made here: that a kernel makes its own took a sixth of the time to compile it.  A thread keeps its last, as fresh
    memory costs 0.1 ms: the kernel relies on nothing in it.
    """
    wanted = depth, height, chunks
    if getattr(_kept, "wanted", None) != wanted:
        _kept.wanted, _kept.scratch = wanted, _scratch(*wanted)
    return _kept.scratch


def _scratch(depth, height, chunks):
    def line(size, dtype=np.int32):
        memory = np.zeros(size + 16, np.int32)
        skip = (-memory.ctypes.data % 64) // 4
        return memory[skip : skip + size].view(dtype)

    tile = height * COLUMNS
    floats = (height * DEPTH, DEPTH * COLUMNS, tile, ROWS * LANES, tile if chunks else 0)
    pairs = line(height * DEPTH // 2)
    parts = -(-depth // _PART)
    return (
        *(line(size, np.float32) for size in floats),
        pairs.view(np.int16), pairs, line(DEPTH * COLUMNS // 2),
        line(ROWS * LANES), line(parts * ROWS * LANES),
        np.zeros(height // TOGETHER, np.bool_), np.zeros(COLUMNS // LANES, np.bool_), line(ROWS // TOGETHER + 1),
    )  # fmt: skip


def _build(depth, apart, to_nearest, plain, fingerprint):
    part, parts = min(depth, _PART), -(-depth // _PART)

    @_compiled
    def narrow_mma(
        a, b, d, shape, ia, ib, start, stop, in_a, in_b, row, late, late_c, k_step, used, chunk, scratch
    ):
        """D = A·B + D, by narrow aligned sums, in the tiles from ``start`` to ``stop``, COLUMNS wide and as high as scratch is.

        a: codes of (batches of A, M, K), flat; b: (.., K, N); d: (batch, M, N) binary32; shape: (M, K, N);
        ia, ib: which of them batch member t takes.  N and K are multiples of 16, of K a multiple of k_step is used.
        in_a, in_b: see _decode; row: see _round; late: see _add_late, where c is added last.
        K is cut into chunks, of a multiple of DEPTH each; D is the C of the first one's chain, the others begin from
        zero, and what they give is added up in order.
        """
        fingerprint  # noqa: B018
        M, K, N = shape
        (
            xs,
            ys,
            state,
            early,
            total,
            x_exponents,
            xp,
            yp,
            powers,
            words,
            row_special,
            column_special,
            starts,
        ) = scratch
        height = state.size // COLUMNS
        down, across = (M + height - 1) // height, (N + COLUMNS - 1) // COLUMNS
        for tile in range(start, stop):
            t = tile // (down * across)
            i0, j0 = tile // across % down * height, tile % across * COLUMNS
            rows, panels = min(height, M - i0), min(COLUMNS, N - j0) // LANES
            for i in range(rows):
                for j in range(panels):
                    _copy(d, (t * M + i0 + i) * N + j0 + j * LANES, state, (j * height + i) * LANES)
            total[:] = np.float32(0)
            for k0 in range(0, used, DEPTH):
                if k0 and k0 % chunk == 0:
                    for j in range(panels):
                        for i in range(rows):
                            _end_chain(total, state, (j * height + i) * LANES)
                count = min(DEPTH, used - k0)
                row_special[:] = False
                for i in range(rows):
                    for k in range(0, count, LANES):
                        row_special[i // TOGETHER] |= _decode(
                            a, (ia[t] * M + i0 + i) * K + k0 + k, in_a, apart,
                            xs, x_exponents, i * DEPTH + k, 0,
                        )  # fmt: skip
                column_special[:] = False
                for k in range(count):
                    for j in range(panels):
                        column_special[j] |= _decode(
                            b, (ib[t] * K + k0 + k) * N + j0 + j * LANES, in_b, apart,
                            ys, yp, (j * DEPTH + k) * LANES, k & 1,
                        )  # fmt: skip
                for j in range(panels):
                    for i1 in range(0, rows, ROWS):
                        first = (j * height + i1) * LANES
                        sums = state[first : first + ROWS * LANES]
                        special = row_special[i1 // TOGETHER : (i1 + ROWS) // TOGETHER]
                        has_special = column_special[j] or special.any()
                        count_live = 0
                        for i in range(0, min(ROWS, rows - i1), TOGETHER):
                            starts[count_live] = i
                            count_live += _lives(sums, i * LANES)
                        live = starts[:count_live]
                        for s0 in range(0, count, k_step):
                            if late_c:
                                early[:] = sums
                                sums[:] = np.float32(0)
                            for p0 in range(s0, s0 + k_step, depth):
                                left, right = i1 * DEPTH + p0, j * DEPTH * LANES + p0 * LANES
                                if has_special:
                                    for i in live:
                                        if column_special[j] or special[i // TOGETHER]:
                                            _mark(
                                                depth, xs, left + i * DEPTH, DEPTH, ys, right, sums, i * LANES
                                            )
                                for i in live:
                                    _align(
                                        depth, plain, xp, (left + i * DEPTH) // 2, DEPTH // 2, yp, right // 2,
                                        sums, i * LANES, row, powers,
                                    )  # fmt: skip
                                for p in range(parts):
                                    for i in live:
                                        x, y = left + i * DEPTH + p * part, right + p * part * LANES
                                        _multiply(
                                            part, apart, plain, xs, xp, x, x // 2, DEPTH, ys, yp, y, y // 2,
                                            powers, i * LANES, words, (p * ROWS + i) * LANES,
                                        )  # fmt: skip
                                for i in live:
                                    if to_nearest or not _round_words(
                                        parts, plain, sums, i * LANES, powers, words, ROWS * LANES, row
                                    ):
                                        for r in range(i, i + TOGETHER):
                                            _round(
                                                parts, to_nearest, plain,
                                                sums, r * LANES, powers, words, ROWS * LANES, row,
                                            )  # fmt: skip
                            if late_c:
                                for i in range(ROWS):
                                    _add_late(sums, i * LANES, late, early, i * LANES)
            sums = total if used > chunk else state
            for i in range(rows):
                for j in range(panels):
                    if used > chunk:
                        _end_chain(total, state, (j * height + i) * LANES)
                    _copy(sums, (j * height + i) * LANES, d, (t * M + i0 + i) * N + j0 + j * LANES)

    return narrow_mma


narrow_mma = {
    (depth, *way): _build(depth, *way, _FINGERPRINT)
    for depth in BLOCKS
    for way in ((0, 0, 1), (0, 0, 0), (0, 1, 0), (1, 0, 0), (1, 1, 0))
}
"""By the products of a block, whether significands and exponents are apart, the rounding, and what is PLAIN."""
