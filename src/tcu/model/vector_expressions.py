"""LLVM vectors with Python's operators: sixteen numbers side by side, as AVX-512 has them; LLVM cuts them up for others."""
# Numba's code generators are typed by the compiler, not by annotations.
# mypy: ignore-errors

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils

from tcu.model.vectors import data_of

__all__ = [
    "F32", "F64", "I8", "I16", "I32", "I64", "LANES", "Lanes", "element", "has_rounding", "load", "splat", "store",
    "store_narrow",
]  # fmt: skip

LANES = 16
I8, I16, I32, I64 = (ir.IntType(width) for width in (8, 16, 32, 64))
F32, F64 = ir.FloatType(), ir.DoubleType()
_INTEGERS = {F32: I32, F64: I64}


class Lanes:
    """Numbers of an LLVM type side by side, with Python's operators; a plain number is one for all of them."""

    def __init__(self, builder, value):
        self.builder, self.value = builder, value
        self.kind, self.size = value.type.element, value.type.count

    def _lift(self, other):
        return other.value if isinstance(other, Lanes) else ir.Constant(self.value.type, [other] * self.size)

    def _with(self, name, other):
        name = f"f{name}" if self.kind in _INTEGERS else name
        return Lanes(self.builder, getattr(self.builder, name)(self.value, self._lift(other)))

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
        return Lanes(self.builder, compare(sign, self.value, self._lift(other)))

    def __lt__(self, other):
        return self._compare("<", other)

    def __ge__(self, other):
        return self._compare(">=", other)

    def equals(self, other):
        return self._compare("==", other)

    def below(self, other):
        """Of unsigned numbers."""
        return Lanes(self.builder, self.builder.icmp_unsigned("<", self.value, self._lift(other)))

    def select(self, yes, no):
        return Lanes(self.builder, self.builder.select(self.value, yes.value, yes._lift(no)))

    def mask(self):
        """Of conditions, an integer of a bit for each."""
        return self.builder.bitcast(self.value, ir.IntType(self.size))

    def any(self):
        mask = self.mask()
        return self.builder.icmp_unsigned("!=", mask, ir.Constant(mask.type, 0))

    def _call(self, name, *others):
        letter, bits = (
            ("f", {F32: 32, F64: 64}[self.kind]) if self.kind in _INTEGERS else ("i", self.kind.width)
        )
        vector = self.value.type
        kind = ir.FunctionType(vector, [vector] * (1 + len(others)))
        name = f"llvm.{name}.v{self.size}{letter}{bits}"
        function = cgutils.get_or_insert_function(self.builder.module, kind, name)
        return Lanes(self.builder, self.builder.call(function, [self.value, *map(self._lift, others)]))

    def multiply_add(self, other, total):
        """Once or twice rounded, whatever is faster."""
        return self._call("fmuladd", other, total)

    def max(self, other):
        return self._call("smax", other)

    def min(self, other):
        return self._call("smin", other)

    def larger(self, other):
        """Of floating-point numbers; ``other`` where one is NaN."""
        return Lanes(
            self.builder, self.builder.select(self._compare(">", other).value, self.value, self._lift(other))
        )

    def unsigned_max(self, other):
        return self._call("umax", other)

    def saturating_sub(self, other):
        """Of unsigned numbers, at least 0."""
        return self._call("usub.sat", other)

    def magnitude(self):
        """Of the least integer, itself."""
        return self._call("fabs") if self.kind in _INTEGERS else self.max(self * -1)

    def opposite(self):
        return Lanes(self.builder, self.builder.not_(self.value))

    def cut(self):
        """Toward zero, to a whole number."""
        return self._call("trunc")

    def nearest(self):
        return self._call("rint")

    def convert(self, how, kind):
        count = self.size
        if how == "bitcast":
            width = {F32: 32, F64: 64}
            count = count * width.get(self.kind, getattr(self.kind, "width", 0))
            count //= width.get(kind, getattr(kind, "width", 0))
        return Lanes(self.builder, getattr(self.builder, how)(self.value, ir.VectorType(kind, count)))

    def to(self, kind):
        """The same numbers as F32 or F64; binary64 rounds to nearest, even."""
        if self.kind not in _INTEGERS:
            return self.convert("sitofp", kind)
        return self.convert("fpext" if kind == F64 else "fptrunc", kind)

    def cut_to_words(self):
        return self.convert("fptosi", I32)

    def to_float_toward_zero(self, by_instruction):
        """The words of binary32.  by_instruction: see has_rounding."""
        if by_instruction:
            floats, vector = ir.VectorType(F32, self.size), self.value.type
            kind = ir.FunctionType(floats, [vector, I32])
            function = cgutils.get_or_insert_function(
                self.builder.module, kind, "llvm.x86.avx512.sitofp.round.v16f32.v16i32"
            )
            return Lanes(
                self.builder, self.builder.call(function, [self.value, ir.Constant(I32, 11)])
            ).words()
        # Without the bit behind the 24 that binary32 keeps, the nearest number is the one toward zero.
        magnitude = self.magnitude()
        number = (magnitude & magnitude.logical_shift(24).opposite()).to(F32).words()
        return number | (self & -(1 << 31))

    def words(self):
        """The bits of floating-point numbers."""
        return self.convert("bitcast", _INTEGERS[self.kind])

    def floats(self):
        return self.convert("bitcast", F32)

    def doubles(self):
        return self.convert("bitcast", F64)

    def parts(self, count):
        """Words of 32 bits as so many numbers each, the low one first."""
        return self.convert("bitcast", ir.IntType(32 // count))

    def full_words(self):
        return self.convert("bitcast", I32)

    def ones_above(self):
        """-1 shifted to the left so far."""
        return Lanes(self.builder, self.builder.shl(self._lift(-1), self.value))

    def power_of_two(self):
        """2^exponent, of exponents in the normal range of binary32."""
        return ((self + 127) << 23).floats()

    def wide_power_of_two(self):
        """2^exponent, of exponents in the normal range of binary64."""
        return ((self + 1023).convert("zext", I64) << 52).doubles()


def has_rounding(context):
    """Whether the processor that code is made for has conversions with a rounding of their own, as AVX-512 has."""
    _, _, features = context.codegen().magic_tuple()
    return "+avx512f" in features.split(",")


def splat(builder, scalar):
    vector = ir.VectorType(scalar.type, LANES)
    undefined = ir.Constant(vector, ir.Undefined)
    seed = builder.insert_element(undefined, scalar, ir.Constant(I32, 0))
    mask = ir.Constant(ir.VectorType(I32, LANES), [0] * LANES)
    return Lanes(builder, builder.shuffle_vector(seed, undefined, mask))


def _pointer(context, builder, array_type, array, index):
    return builder.gep(data_of(context, builder, array_type, array), [index])


def load(context, builder, array_type, array, index):
    pointer = _pointer(context, builder, array_type, array, index)
    vector = ir.VectorType(pointer.type.pointee, LANES)
    align = array_type.dtype.bitwidth // 8
    return Lanes(builder, builder.load(builder.bitcast(pointer, vector.as_pointer()), align=align))


def store(context, builder, array_type, array, index, lanes):
    pointer = _pointer(context, builder, array_type, array, index)
    builder.store(lanes.value, builder.bitcast(pointer, lanes.value.type.as_pointer()), align=4)


def store_narrow(context, builder, array_type, array, index, lanes):
    """Numbers that are narrower than the array's, side by side from its element ``index`` on."""
    pointer = _pointer(context, builder, array_type, array, index)
    builder.store(lanes.value, builder.bitcast(pointer, lanes.value.type.as_pointer()), align=4)


def element(context, builder, array_type, array, index):
    """One element in all lanes."""
    return splat(builder, builder.load(_pointer(context, builder, array_type, array, index)))
