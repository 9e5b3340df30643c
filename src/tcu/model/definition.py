"""The definition: what one matrix instruction computes, in Python integers.

Slow and plain on purpose.  The fast model (:mod:`tcu.model.narrow` and
:mod:`tcu.model.kernels`) goes through the same tests and must match it bit for
bit.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from tcu.formats.format import Format, get_format
from tcu.formats.scalar import Number, Overflow, decode, encode
from tcu.units.arithmetic import AlignedSum, ExactInteger, FusedChain, Instruction

__all__ = ["BlockSum", "Term", "block_sum", "dot", "dot_blocks"]


class Term(NamedTuple):
    """One addend of a block: c, or a product of two inputs."""

    name: str
    negative: bool
    significand: int
    """Exact magnitude = significand · 2^lowest."""
    lowest: int
    exponent: int
    """The exponent that takes part in the alignment."""
    aligned: int = 0
    """Magnitude in units of 2^unit_exponent, truncated; set by the alignment."""
    unit_exponent: int | None = None
    """common exponent - F, once aligned."""

    @property
    def exact(self) -> Fraction:
        magnitude = self.significand * Fraction(2) ** self.lowest
        return -magnitude if self.negative else magnitude

    @property
    def lost(self) -> bool:
        """Whether the alignment cut bits that were not zero."""
        if self.unit_exponent is None:
            return False
        return abs(self.exact) != self.aligned * Fraction(2) ** self.unit_exponent


@dataclass(frozen=True)
class BlockSum:
    """Every step of one aligned sum: what ``tcu explain`` draws."""

    terms: tuple[Term, ...]
    common_exponent: int | None
    """None where no term is non-zero, or one is inf or NaN."""
    unit_exponent: int | None
    total: int
    """The exact sum of the aligned terms, in units of 2^unit_exponent."""
    result: int
    """Code of the rounded sum in the output format."""

    @property
    def exact(self) -> Fraction:
        """The sum before anything was cut."""
        return sum((term.exact for term in self.terms), Fraction(0))


def dot(a: Sequence[int], b: Sequence[int], c: int, instruction: Instruction) -> int:
    """One element of D = A·B + C: codes of a row of A, a column of B, and of c; any length.

    K is cut into the instruction's k in order, the last piece padded with zeros.
    """
    k = instruction.k
    for start in range(0, len(a), k):
        pad = [0] * (k - len(a[start : start + k]))
        row, column = [*a[start : start + k], *pad], [*b[start : start + k], *pad]
        if isinstance(instruction.arithmetic, AlignedSum):
            c = dot_blocks(row, column, c, instruction)[1]
        elif isinstance(instruction.arithmetic, FusedChain):
            for i in instruction.arithmetic.order or range(k):
                c = _chain_step(row[i], column[i], c, instruction)
        else:
            c = _integer_dot(row, column, c, instruction)
    return c


def dot_blocks(
    a: Sequence[int], b: Sequence[int], c: int, instruction: Instruction
) -> tuple[list[BlockSum], int]:
    """The blocks of one instruction with an aligned sum, and the code of its result."""
    arithmetic = instruction.arithmetic
    assert isinstance(arithmetic, AlignedSum)
    output = get_format(instruction.output)
    x, y = get_format(instruction.a), get_format(instruction.b)
    order = arithmetic.order or tuple(range(len(a)))
    blocks: list[BlockSum] = []
    accumulator = 0 if arithmetic.late_c else c
    for start in range(0, len(order), arithmetic.block):
        ks = order[start : start + arithmetic.block]
        factors = [(_input(a[k], x, arithmetic), _input(b[k], y, arithmetic)) for k in ks]
        blocks.append(block_sum(factors, accumulator, x, y, arithmetic, output, [f"k={k}" for k in ks]))
        accumulator = blocks[-1].result
    if arithmetic.late_c:
        accumulator = _add(accumulator, c, arithmetic, output)
    return blocks, accumulator


def _input(code: int, fmt: Format, arithmetic: AlignedSum) -> Number:
    number = decode(code, fmt)
    subnormal = number.kind == "finite" and number.significand < 1 << fmt.fraction_bits
    return number._replace(significand=0) if arithmetic.flush_inputs and subnormal else number


def block_sum(
    factors: Sequence[tuple[Number, Number]],
    c: int,
    x: Format,
    y: Format,
    arithmetic: AlignedSum,
    output: Format,
    names: Sequence[str],
) -> BlockSum:
    """Rules 1 to 6 of :class:`AlignedSum`, one after another."""
    c_number = _input(c, output, arithmetic)
    products = [number for pair in factors for number in pair]
    operands = [c_number, *products] if arithmetic.nan_rule == "c first" else [*products, c_number]
    special = _special(
        [_multiply_special(p, q) for p, q in factors] + [c_number], operands, arithmetic, output
    )
    if special is not None:
        return BlockSum((), None, None, 0, special)

    terms = [Term("c", c_number.negative, c_number.significand, c_number.exponent,
                  c_number.exponent + output.fraction_bits)]  # fmt: skip
    for name, (p, q) in zip(names, factors, strict=True):
        significand, lowest = p.significand * q.significand, p.exponent + q.exponent
        exponent = lowest + x.fraction_bits + y.fraction_bits
        if arithmetic.normalized_products:
            exponent = lowest + significand.bit_length() - 1
        terms.append(Term(name, p.negative != q.negative, significand, lowest, exponent))

    exponents = [term.exponent for term in terms if term.significand]
    if not exponents:
        zero = Number("finite", all(term.negative for term in terms))
        return BlockSum(tuple(terms), None, None, 0, _round(zero, arithmetic, output))
    common = max(exponents)
    if arithmetic.exponent_floor is not None:
        common = max(common, arithmetic.exponent_floor)

    unit = common - arithmetic.fraction_bits
    terms = [
        term._replace(aligned=_truncate(term.significand, unit - term.lowest), unit_exponent=unit)
        for term in terms
    ]
    total = sum(-term.aligned if term.negative else term.aligned for term in terms)
    if arithmetic.carry_bits is not None:
        half = 1 << arithmetic.fraction_bits + 1 + arithmetic.carry_bits
        total = (total + half) % (2 * half) - half
    negative = total < 0 or all(term.negative and term.aligned == 0 for term in terms)
    result = _round(Number("finite", negative, abs(total), unit), arithmetic, output)
    return BlockSum(tuple(terms), common, unit, total, result)


def _truncate(magnitude: int, shift: int) -> int:
    return magnitude >> shift if shift >= 0 else magnitude << -shift


def _round(number: Number, arithmetic: AlignedSum, output: Format) -> int:
    kept = output.fraction_bits
    if arithmetic.output_fraction_bits is not None:
        kept = min(kept, arithmetic.output_fraction_bits)
    overflow: Overflow = "saturate" if arithmetic.saturate else "infinity"
    narrow = _narrowed(output, kept)
    code = encode(number, narrow, arithmetic.rounding, overflow) << (output.fraction_bits - kept)
    return _zero_of(code, arithmetic, output)


@lru_cache
def _narrowed(fmt: Format, fraction_bits: int) -> Format:
    """The format with fewer fraction bits."""
    bits = fmt.bits - fmt.fraction_bits + fraction_bits
    return dataclasses.replace(fmt, name="narrow", bits=bits, fraction_bits=fraction_bits)


def _zero_of(code: int, arithmetic: AlignedSum, output: Format) -> int:
    """The zero that the unit returns in place of one, and of a subnormal result that it flushes; else the code."""
    magnitude = code & (output.sign_code - 1)
    subnormal = magnitude < 1 << output.fraction_bits
    if magnitude == 0 or (arithmetic.flush_outputs and subnormal):
        return code & output.sign_code if arithmetic.signed_zeros else 0
    return code


def _multiply_special(p: Number, q: Number) -> Number:
    """The kind and sign of a product, as far as inf and NaN are concerned."""
    negative = p.negative != q.negative
    if "nan" in (p.kind, q.kind):
        return Number("nan")
    if "inf" in (p.kind, q.kind):
        zero = any(n.kind == "finite" and n.significand == 0 for n in (p, q))
        return Number("nan") if zero else Number("inf", negative)
    return Number("finite")


def _special(
    numbers: Sequence[Number], operands: Sequence[Number], arithmetic: AlignedSum, output: Format
) -> int | None:
    """Rule 6: the code of the sum if a term is inf or NaN, else None; operands: in the order in which a NaN is sought."""
    signs = {number.negative for number in numbers if number.kind == "inf"}
    if any(number.kind == "nan" for number in numbers) or len(signs) == 2:
        return _nan(operands, arithmetic, output)
    if signs:
        return output.infinity_code | (output.sign_code if True in signs else 0)
    return None


def _nan(operands: Sequence[Number], arithmetic: AlignedSum, output: Format) -> int:
    """The NaN of an operation on these operands."""
    if arithmetic.nan_rule == "nvidia":
        return output.nan_code
    default = output.infinity_code | 1 << (output.fraction_bits - 1)
    if arithmetic.nan_rule == "arm":
        return default
    found = (encode(each, output) for each in operands if each.kind == "nan")
    return next(found, output.sign_code | default)


def _add(p: int, q: int, arithmetic: AlignedSum, output: Format) -> int:
    """The late addition of c: IEEE, to nearest, with the unit's NaN, zeros and overflow."""
    x, y = _input(p, output, arithmetic), _input(q, output, arithmetic)
    operands = [y, x] if arithmetic.nan_rule == "c first" else [x, y]
    special = _special([x, y], operands, arithmetic, output)
    if special is not None:
        return special
    total = Number.of(x.value + y.value)
    if total.significand == 0:
        total = Number("finite", x.negative and y.negative)
    overflow: Overflow = "saturate" if arithmetic.saturate else "infinity"
    return _zero_of(encode(total, output, overflow=overflow), arithmetic, output)


def _chain_step(a: int, b: int, c: int, instruction: Instruction) -> int:
    """c + a·b by the rules of :class:`FusedChain`."""
    assert isinstance(instruction.arithmetic, FusedChain)
    output = get_format(instruction.output)
    x, y, z = decode(a, instruction.a), decode(b, instruction.b), decode(c, output)
    for code, number in ((b, y), (c, z), (a, x)):
        if number.kind == "nan":
            return code | _QUIET if output.name == "binary64" else output.nan_code
    product = _multiply_special(x, y)
    if product.kind == "finite":
        exact = Number.of(x.value * y.value)
        product = exact._replace(negative=x.negative != y.negative)
        if instruction.arithmetic.rounded_products:
            product = decode(encode(product, output), output)
    if product.kind == "nan" or (product.kind == z.kind == "inf" and product.negative != z.negative):
        return _INVALID if output.name == "binary64" else output.nan_code
    if product.kind == "inf" or z.kind == "inf":
        return encode(product if product.kind == "inf" else z, output)
    total = product.value + z.value
    if total == 0:
        both_zero = z.significand == 0 and product.negative == z.negative
        return encode(Number("finite", product.negative and both_zero), output)
    return encode(Number.of(total), output)


_QUIET = 1 << 51
_INVALID = 0xFFF8 << 48
"""Of binary64: the quiet bit, and the NaN of an invalid operation."""


def _integer_dot(a: Sequence[int], b: Sequence[int], c: int, instruction: Instruction) -> int:
    def integer(code: int, fmt: str) -> int:
        number = decode(code, fmt)
        return -number.significand if number.negative else number.significand

    products = (integer(p, instruction.a) * integer(q, instruction.b) for p, q in zip(a, b, strict=True))
    total = integer(c, instruction.output) + sum(products)
    assert isinstance(instruction.arithmetic, ExactInteger)
    if instruction.arithmetic.saturate:
        total = min(max(total, -(1 << 31)), (1 << 31) - 1)
    return total & 0xFFFFFFFF
