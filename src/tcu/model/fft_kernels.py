"""Levels of butterflies on one core; compiled by Numba from their programs (tcu.plan.butterflies).

Numbers are in lanes: that many transforms beside each other, real and imaginary parts apart, so that a step is one
instruction for all of them.
"""
# Compiled by Numba, which types them.
# mypy: ignore-errors

from __future__ import annotations

from functools import cache

from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from tcu.model import elementary
from tcu.model.elementary import fma
from tcu.model.jit import fingerprint, jit
from tcu.plan import butterflies, roots
from tcu.plan.butterflies import butterfly

__all__ = ["LANES", "fold", "gather", "join", "level", "multiply", "scatter", "times", "unfold"]

LANES = {"binary16": 16, "binary32": 16, "binary64": 8}
"""Transforms beside each other: 64 bytes.  Numbers of binary16 are held as binary32."""
_FINGERPRINT = fingerprint(butterflies, elementary, roots)


_CONVERTS = bool(get_host_cpu_features().get("f16c"))
"""Whether this processor converts to binary16: then a transform takes three fifths of the time."""
_F32, _I32 = ir.FloatType(), ir.IntType(32)
_INFINITE, _LEAST, _MOST = 0x7F800000, 0x3F000000, 65504.0
"""Bits of binary32's infinity; of 1/2, whose unit in the last place is binary16's least number; and binary16's largest number."""


def _of_halves(builder, vector):
    """(what rounds to binary16, its FMA) of vectors, or numbers, of binary32 that hold numbers of binary16.

    A sum or a product of binary16 that is rounded to binary32 first is the same as if it were not.  An FMA's product is exact in
    binary32; its sum is rounded to odd there (S. Boldo, G. Melquiond, 2008).
    """
    whole = ir.VectorType(_I32, vector.count) if isinstance(vector, ir.VectorType) else _I32

    def constant(kind, value):
        return ir.Constant(kind, [value] * kind.count if isinstance(kind, ir.VectorType) else value)

    def at_most(x, least):
        return builder.select(builder.icmp_signed(">", x, least), x, least)

    def rounded(x):
        if _CONVERTS:
            half = ir.HalfType()
            half = ir.VectorType(half, vector.count) if isinstance(vector, ir.VectorType) else half
            return builder.fpext(builder.fptrunc(x, half), vector)
        bits = builder.bitcast(x, whole)
        sign = builder.and_(bits, constant(whole, -(1 << 31)))
        exponent = builder.and_(bits, constant(whole, _INFINITE))
        # A number 2^13 times as large as the power of two in x: what is added to it is rounded to 11 digits.
        large = at_most(builder.add(exponent, constant(whole, 13 << 23)), constant(whole, _LEAST))
        large = builder.bitcast(builder.or_(large, sign), vector)
        found = builder.bitcast(builder.fsub(builder.fadd(x, large), large), whole)
        found = builder.and_(found, constant(whole, (1 << 31) - 1))
        most = builder.bitcast(constant(vector, _MOST), whole)
        beyond = builder.icmp_signed(">", found, most)
        nan = builder.fcmp_unordered("uno", x, x)
        found = builder.select(beyond, constant(whole, _INFINITE), found)
        found = builder.bitcast(builder.or_(found, sign), vector)
        return builder.select(nan, x, found)

    def fused(x, y, z):
        product = builder.fmul(x, y)
        total = builder.fadd(product, z)
        back = builder.fsub(total, product)
        rest = builder.fadd(builder.fsub(product, builder.fsub(total, back)), builder.fsub(z, back))
        zero, one = constant(vector, 0.0), constant(whole, 1)
        bits = builder.bitcast(total, whole)
        toward = builder.or_(
            builder.ashr(builder.xor(bits, builder.bitcast(rest, whole)), constant(whole, 31)), one
        )
        even = builder.icmp_signed("==", builder.and_(bits, one), constant(whole, 0))
        off = builder.and_(even, builder.fcmp_ordered("one", rest, zero))
        odd = builder.select(off, builder.add(bits, toward), bits)
        return rounded(builder.bitcast(odd, vector))

    return rounded, fused


@intrinsic
def _rounded(typingctx, x):
    """To binary16, as binary32."""

    def codegen(context, builder, signature, args):
        return _of_halves(builder, _F32)[0](*args)

    return types.float32(types.float32), codegen


@intrinsic
def _fused(typingctx, x, y, z):
    """x · y + z of binary16, as binary32."""

    def codegen(context, builder, signature, args):
        return _of_halves(builder, _F32)[1](*args)

    return types.float32(types.float32, types.float32, types.float32), codegen


@intrinsic(prefer_literal=True)
def _butterfly(typingctx, radix, lanes, half, source, at, apart, target, to, step, twiddles, row):
    """Numbers at + j·apart of the source, transformed; number k times the row's twiddle goes to place to + k·step.

    A row below 0 has no twiddles.  Places count lanes' pairs of real and imaginary parts.
    """
    length, width = radix.literal_value, lanes.literal_value
    real = source.dtype
    program = butterfly(length)
    in_halves = bool(half.literal_value)
    work = "binary64" if real == types.float64 else "binary16" if in_halves else "binary32"

    def codegen(context, builder, signature, args):
        scalar = ir.DoubleType() if real == types.float64 else ir.FloatType()
        vector, size = ir.VectorType(scalar, width), width * (8 if real == types.float64 else 4)
        fused = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(vector, [vector] * 3),
            f"llvm.fma.v{width}f{64 if real == types.float64 else 32}",
        )
        _, _, _, x, at, apart, y, to, step, w, row = args
        rounded, fma = _of_halves(builder, vector)
        if not in_halves:
            rounded, fma = (lambda x: x), (lambda *given: builder.call(fused, given))
        places = []
        for kind, array in ((source, x), (target, y)):
            data = context.make_array(kind)(context, builder, array).data
            places.append(builder.bitcast(data, vector.as_pointer()))

        def place(base, number, part):
            index = builder.add(builder.mul(number, number.type(2)), number.type(part))
            return builder.gep(base, [index])

        def splat(value):
            one = builder.insert_element(ir.Constant(vector, ir.Undefined), value, ir.IntType(32)(0))
            zeros = ir.Constant(ir.VectorType(ir.IntType(32), width), [ir.IntType(32)(0)] * width)
            return builder.shuffle_vector(one, ir.Constant(vector, ir.Undefined), zeros)

        def constant(value):
            return ir.Constant(vector, [scalar(value)] * width)

        values = []
        for j in range(length):
            number = builder.add(at, builder.mul(apart, apart.type(j)))
            values += [builder.load(place(places[0], number, part), align=size) for part in (0, 1)]
        for each in program.steps:
            first = values[each.x]
            second = values[each.y] if each.y >= 0 else None
            if each.kind == "add":
                values.append(rounded(builder.fadd(first, second)))
            elif each.kind == "sub":
                values.append(rounded(builder.fsub(first, second)))
            elif each.kind == "mul":
                values.append(rounded(builder.fmul(constant(each.factor(work)), first)))
            else:
                values.append(fma(constant(each.factor(work)), first, second))
        results = [values[place] for place in program.results]

        def put(k, re, im):
            number = builder.add(to, builder.mul(step, step.type(k)))
            for part, value in enumerate((re, im)):
                builder.store(value, place(places[1], number, part), align=size)

        put(0, *results[:2])
        table = context.make_array(twiddles)(context, builder, w).data
        first = builder.mul(row, row.type(2 * (length - 1)))
        turned = builder.icmp_signed(">=", row, row.type(0))
        with builder.if_else(turned) as (then, otherwise):
            with then:
                for k in range(1, length):
                    c, s = (
                        splat(
                            builder.load(
                                builder.gep(table, [builder.add(first, row.type(2 * (k - 1) + part))])
                            )
                        )
                        for part in (0, 1)
                    )
                    re, im = results[2 * k : 2 * k + 2]
                    put(
                        k,
                        fma(re, c, builder.fneg(rounded(builder.fmul(im, s)))),
                        fma(re, s, rounded(builder.fmul(im, c))),
                    )
            with otherwise:
                for k in range(1, length):
                    put(k, *results[2 * k : 2 * k + 2])
        return context.get_dummy_value()

    if not all(isinstance(each, types.IntegerLiteral) for each in (radix, lanes, half)):
        return None
    return types.none(radix, lanes, half, source, at, apart, target, to, step, twiddles, row), codegen


@cache
def level(radix: int, work: str):
    """The kernel of a level: (source, target, twiddles, stride) of groups of transforms, (groups, length, 2, lanes).

    ``stride``: the lengths of the levels before, multiplied.  Twiddles: (length/radix, radix - 1, 2), where any are left.
    """
    return _build_level(radix, LANES[work], int(work == "binary16"), _FINGERPRINT)


def _build_level(radix, lanes, half, fingerprint):
    @jit
    def level(source, target, twiddles, stride):
        fingerprint  # noqa: B018
        length = source.shape[1]
        apart = length // radix
        blocks = apart // stride
        for group in range(source.shape[0]):
            first = group * length
            for q in range(blocks):
                row = q if blocks > 1 else -1
                for p in range(stride):
                    _butterfly(
                        radix, lanes, half, source, first + p + stride * q, apart,
                        target, first + p + stride * radix * q, stride, twiddles, row,
                    )  # fmt: skip

    return level


def _build_gather(lanes, fingerprint):
    @jit
    def gather(x, starts, step, swapped, z):
        """Into lanes: number l of line i is at starts[i] + l·step of x, which is real and imaginary parts in turns."""
        fingerprint  # noqa: B018
        first, second = (1, 0) if swapped else (0, 1)
        length = z.shape[1]
        for group in range(z.shape[0]):
            count = min(lanes, starts.size - group * lanes)
            for number in range(length):
                for lane in range(count):
                    at = 2 * (starts[group * lanes + lane] + number * step)
                    z[group, number, 0, lane] = x[at + first]
                    z[group, number, 1, lane] = x[at + second]
                for lane in range(count, lanes):
                    z[group, number, 0, lane] = z[group, number, 1, lane] = 0

    return gather


@njit(nogil=True, inline="always")
def _times(re, im, c, s):
    """The product of complex numbers, in their parts: every one of a plan."""
    return fma(re, c, -(im * s)), fma(re, s, im * c)


@njit(nogil=True, inline="always")
def _root(place, high, low, shift):
    coarse, fine = high[place >> shift], low[place & ((1 << shift) - 1)]
    return _times(coarse[0], coarse[1], fine[0], fine[1])


@njit(nogil=True, inline="always")
def _times_of_halves(re, im, c, s):
    """The same in binary16, of a root in binary32."""
    c, s = _rounded(c), _rounded(s)
    return _fused(re, c, -_rounded(im * s)), _fused(re, s, _rounded(im * c))


@njit(nogil=True, inline="always")
def _turned(re, im, a, b, c, s):
    """By two roots."""
    c, s = _times(a, b, c, s)
    return _times(re, im, c, s)


@njit(nogil=True, inline="always")
def _turned_in_halves(re, im, a, b, c, s):
    c, s = _times_of_halves(_rounded(a), _rounded(b), c, s)
    return _times_of_halves(re, im, c, s)


def _build_scatter(lanes, half, fingerprint):
    @jit
    def scatter(z, y, starts, step, turns, apart, high, low, shift, drop, swapped, powers, factor):
        """Out of lanes, as :func:`gather`.  If there are turns, number k of line i is multiplied first by the roots of
        (k mod apart)·turns[i], times ``drop``, and of what is left of k·turns[i]; by powers[i], if there are any, and by ``factor`` last,
        unless it is 1.
        """
        fingerprint  # noqa: B018
        first, second = (1, 0) if swapped else (0, 1)
        for group in range(z.shape[0]):
            count = min(lanes, starts.size - group * lanes)
            for number in range(z.shape[1]):
                near = number % apart
                for lane in range(count):
                    re, im = z[group, number, 0, lane], z[group, number, 1, lane]
                    if turns.size:
                        turn = turns[group * lanes + lane]
                        a, b = _root(near * turn, high, low, shift)
                        c, s = _root((number - near) * turn, high, low, shift)
                        # Not a function of the closure: no process would find what another one has compiled with it.
                        if half:
                            re, im = _turned_in_halves(re, im, a * drop, b * drop, c, s)
                        else:
                            re, im = _turned(re, im, a * drop, b * drop, c, s)
                    if powers.size:
                        power = powers[group * lanes + lane]
                        re, im = re * power, im * power
                    if factor != 1:
                        re, im = re * factor, im * factor
                    at = 2 * (starts[group * lanes + lane] + number * step)
                    y[at + first] = re
                    y[at + second] = im

    return scatter


gather = {work: _build_gather(lanes, _FINGERPRINT) for work, lanes in LANES.items()}
scatter = {work: _build_scatter(lanes, work == "binary16", _FINGERPRINT) for work, lanes in LANES.items()}


def _build_multiply(fingerprint):
    @jit
    def multiply(z, factors):
        """Numbers in lanes times those of (groups, length or 1, lanes), rounded to binary16."""
        fingerprint  # noqa: B018
        for group in range(z.shape[0]):
            for number in range(z.shape[1]):
                row = min(number, factors.shape[1] - 1)
                for part in range(2):
                    for lane in range(z.shape[3]):
                        z[group, number, part, lane] = _rounded(
                            z[group, number, part, lane] * factors[group, row, lane]
                        )

    return multiply


multiply = _build_multiply(_FINGERPRINT)


def _build_join(fingerprint):
    @jit
    def join(z, table):
        """Of lanes of even and odd numbers: the first half of both's transform, and the second."""
        fingerprint  # noqa: B018
        one, zero = table[0, 0], table[0, 1]
        for group in range(z.shape[0]):
            for k in range(z.shape[1]):
                c, s = table[k, 0], table[k, 1]
                for lane in range(0, z.shape[3], 2):
                    ar, ai = _times_of_halves(z[group, k, 0, lane], z[group, k, 1, lane], one, zero)
                    br, bi = _times_of_halves(z[group, k, 0, lane + 1], z[group, k, 1, lane + 1], c, s)
                    z[group, k, 0, lane], z[group, k, 1, lane] = _rounded(ar + br), _rounded(ai + bi)
                    z[group, k, 0, lane + 1], z[group, k, 1, lane + 1] = _rounded(ar - br), _rounded(ai - bi)

    return join


join = _build_join(_FINGERPRINT)


def _build_times(fingerprint):
    @jit
    def times(x, table, count, factor, y):
        """Rows of y: numbers of those of x times the table's, and then zeros."""
        fingerprint  # noqa: B018
        for row in range(y.shape[0]):
            for k in range(count):
                re, im, c, s = x[row, k, 0], x[row, k, 1], table[k, 0], table[k, 1]
                first, second = _times(re, im, c, s)
                if factor != 1:
                    first, second = first * factor, second * factor
                y[row, k, 0], y[row, k, 1] = first, second
            y[row, count:] = 0

    return times


times = _build_times(_FINGERPRINT)


def _build_unfold(fingerprint):
    @jit
    def unfold(z, table, factor, y):
        """Rows of transforms of real numbers from those of half the length, of even and odd numbers as complex ones.

        ``factor`` is half of what the results are multiplied by.
        """
        fingerprint  # noqa: B018
        half = z.shape[1]
        for row in range(z.shape[0]):
            for k in range(half + 1):
                near, far = k % half, (half - k) % half
                er = z[row, near, 0] + z[row, far, 0]
                ei = z[row, near, 1] - z[row, far, 1]
                or_ = z[row, near, 1] + z[row, far, 1]
                oi = z[row, far, 0] - z[row, near, 0]
                odd_r, odd_i = _times(or_, oi, table[k, 0], table[k, 1])
                y[row, k, 0] = (er + odd_r) * factor
                y[row, k, 1] = (ei + odd_i) * factor

    return unfold


unfold = _build_unfold(_FINGERPRINT)


def _build_fold(fingerprint):
    @jit
    def fold(x, table, z):
        """The inverse of :func:`unfold`, twice as large; imaginary parts of the first and the last number count as zero."""
        fingerprint  # noqa: B018
        half = z.shape[1]
        for row in range(z.shape[0]):
            for k in range(half):
                ar, ai = x[row, k, 0], x[row, k, 1]
                br, bi = x[row, half - k, 0], x[row, half - k, 1]
                if k == 0:
                    ai = bi = table[0, 1]  # zero
                er, ei = ar + br, ai - bi
                dr, di = ar - br, ai + bi
                odd_r, odd_i = _times(dr, di, table[k, 0], -table[k, 1])
                z[row, k, 0] = er - odd_i
                z[row, k, 1] = ei + odd_r

    return fold


fold = _build_fold(_FINGERPRINT)
