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
from tcu.formats.scalar import Number, decode, encode
from tcu.model.ieee import multiply_special, special_sum
from tcu.model.steps import dot_steps
from tcu.units.arithmetic import AlignedSum, ExactInteger, FusedChain, GroupedSum, Instruction

__all__ = ["BlockSum", "Scales", "Term", "block_sum", "dot", "dot_blocks"]

Scales = tuple[Sequence[int], Sequence[int]]
"""Codes of the scales of a row of A, and of a column of B."""


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
    cancelled: bool = False
    """A sum of products that cancel: zero, and its exponent takes part all the same."""

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


def dot(
    a: Sequence[int], b: Sequence[int], c: int, instruction: Instruction, scales: Scales | None = None
) -> int:
    """One element of D = A·B + C: codes of a row of A, a column of B, and of c; any length.

    K is cut into the instruction's k in order, the last piece padded with zeros.
    """
    k, arithmetic = instruction.k, instruction.arithmetic
    for start in range(0, len(a), k):
        pad = [0] * (k - len(a[start : start + k]))
        row, column = [*a[start : start + k], *pad], [*b[start : start + k], *pad]
        if isinstance(arithmetic, AlignedSum | GroupedSum):
            c = dot_blocks(row, column, c, instruction, piece_of(scales, start, instruction))[1]
        elif isinstance(arithmetic, FusedChain):
            for i in arithmetic.order or range(k):
                c = _chain_step(row[i], column[i], c, instruction)
        elif isinstance(arithmetic, ExactInteger):
            c = _integer_dot(row, column, c, instruction)
        else:
            c = dot_steps(row, column, c, instruction)[1]
    return c


def piece_of(scales: Scales | None, start: int, instruction: Instruction) -> Scales | None:
    """The scales of one instruction, from the k-th product on; those of the padding are 1."""
    if scales is None or instruction.scale is None:
        return None
    count, one = instruction.k // instruction.per_scale, encode(Number.of(1), instruction.scale)
    at = start // instruction.per_scale
    left, right = ([*each[at : at + count], *[one] * count][:count] for each in scales)
    return left, right


def dot_blocks(
    a: Sequence[int], b: Sequence[int], c: int, instruction: Instruction, scales: Scales | None = None
) -> tuple[list[BlockSum], int]:
    """The blocks of one instruction with an aligned or a grouped sum, and the code of its result."""
    arithmetic = instruction.arithmetic
    if isinstance(arithmetic, GroupedSum):
        assert scales is not None
        return _grouped_blocks(a, b, c, instruction, arithmetic, scales)
    assert isinstance(arithmetic, AlignedSum)
    output = get_format(instruction.output)
    x, y = get_format(instruction.a), get_format(instruction.b)
    order = arithmetic.order or tuple(range(len(a)))
    blocks: list[BlockSum] = []
    accumulator = 0 if arithmetic.late_c else c
    for start in range(0, len(order), arithmetic.block):
        ks = order[start : start + arithmetic.block]
        factors = [(_input(a[k], x, arithmetic), _input(b[k], y, arithmetic)) for k in ks]
        if scales is not None:
            factors = [
                (_scaled(p, scales[0], k, instruction), _scaled(q, scales[1], k, instruction))
                for k, (p, q) in zip(ks, factors, strict=True)
            ]
        blocks.append(block_sum(factors, accumulator, x, y, arithmetic, output, [f"k={k}" for k in ks]))
        accumulator = blocks[-1].result
    if arithmetic.late_c:
        accumulator = _add(accumulator, c, arithmetic, output)
    return blocks, accumulator


def _scaled(number: Number, scales: Sequence[int], k: int, instruction: Instruction) -> Number:
    """The number times its scale, a power of two: its exponent grows, its significand stays."""
    scale = decode(scales[k // instruction.per_scale], instruction.scale or "")
    if scale.kind == "nan":
        return Number("nan")
    return number._replace(exponent=number.exponent + scale.exponent)


def _grouped_blocks(
    a: Sequence[int], b: Sequence[int], c: int, instruction: Instruction, rules: GroupedSum, scales: Scales
) -> tuple[list[BlockSum], int]:
    """The rules of :class:`GroupedSum`."""
    blocks: list[BlockSum] = []
    for start in range(0, len(a), rules.block):
        terms = []
        for at in range(start, min(start + rules.block, len(a)), rules.group):
            ks = range(at, min(at + rules.group, len(a)))
            terms.append(_group(a, b, ks, instruction, scales))
        blocks.append(_sum_of_groups(terms, c, rules, get_format(instruction.output)))
        c = blocks[-1].result
    return blocks, c


def _group(
    a: Sequence[int], b: Sequence[int], ks: range, instruction: Instruction, scales: Scales
) -> Term | None:
    """Its scaled sum; None where a scale is NaN."""
    scale = get_format(instruction.scale or "")
    first, second = (decode(each[ks[0] // instruction.per_scale], scale) for each in scales)
    if "nan" in (first.kind, second.kind):
        return None
    factors = [(decode(a[k], instruction.a), decode(b[k], instruction.b)) for k in ks]
    products = [Number.of(p.value * q.value) for p, q in factors]
    total = sum((each.value for each in products), Fraction(0)) * first.value * second.value
    number = Number.of(total)
    present = any(each.significand for each in products) and first.significand * second.significand != 0
    exponent = first.exponent + second.exponent + 2 * scale.fraction_bits
    name = f"k={ks[0]}..{ks[-1]}"
    return Term(name, total < 0, number.significand, number.exponent, exponent,
                cancelled=present and total == 0)  # fmt: skip


def _sum_of_groups(groups: Sequence[Term | None], c: int, rules: GroupedSum, output: Format) -> BlockSum:
    number = decode(c, output)
    finite = [term for term in groups if term is not None]
    special = special_sum([number, *([] if len(finite) == len(groups) else [Number("nan")])], output)
    if special is not None:
        return BlockSum((), None, None, 0, special)
    addend = Term("c", number.negative, number.significand, number.exponent,
                  number.exponent + output.fraction_bits)  # fmt: skip
    return _aligned_sum([addend, *finite], rules, AlignedSum(1, 1, "RZ"), output)


def _aligned_sum(
    terms: list[Term], rules: AlignedSum | GroupedSum, rounding: AlignedSum, output: Format
) -> BlockSum:
    """Terms aligned to the largest exponent that takes part, truncated, added, rounded once."""
    exponents = [term.exponent for term in terms if term.significand or term.cancelled]
    if not exponents:
        return BlockSum(tuple(terms), None, None, 0, 0)
    common = max(exponents)
    if rules.exponent_floor is not None:
        common = max(common, rules.exponent_floor)
    unit = common - rules.fraction_bits
    terms = [
        term._replace(aligned=_truncate(term.significand, unit - term.lowest), unit_exponent=unit)
        for term in terms
    ]
    total = sum(-term.aligned if term.negative else term.aligned for term in terms)
    result = _round(Number("finite", total < 0, abs(total), unit), rounding, output)
    return BlockSum(tuple(terms), common, unit, total, result)


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
    special = special_sum([multiply_special(p, q) for p, q in factors] + [c_number], output)
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

    return _aligned_sum(terms, arithmetic, arithmetic, output)


def _truncate(magnitude: int, shift: int) -> int:
    return magnitude >> shift if shift >= 0 else magnitude << -shift


def _round(number: Number, arithmetic: AlignedSum, output: Format) -> int:
    kept = output.fraction_bits
    if arithmetic.output_fraction_bits is not None:
        kept = min(kept, arithmetic.output_fraction_bits)
    code = encode(number, _narrowed(output, kept), arithmetic.rounding) << (output.fraction_bits - kept)
    return _without_negative_zero(code, arithmetic, output)


@lru_cache
def _narrowed(fmt: Format, fraction_bits: int) -> Format:
    """The format with fewer fraction bits."""
    bits = fmt.bits - fmt.fraction_bits + fraction_bits
    return dataclasses.replace(fmt, name="narrow", bits=bits, fraction_bits=fraction_bits)


def _without_negative_zero(code: int, arithmetic: AlignedSum, output: Format) -> int:
    magnitude = code & (output.sign_code - 1)
    subnormal = magnitude < 1 << output.fraction_bits
    return 0 if magnitude == 0 or (arithmetic.flush_outputs and subnormal) else code


def _add(p: int, q: int, arithmetic: AlignedSum, output: Format) -> int:
    """The late addition of c: IEEE, to nearest, with the unit's NaN."""
    x, y = _input(p, output, arithmetic), _input(q, output, arithmetic)
    special = special_sum([x, y], output)
    if special is not None:
        return special
    return _without_negative_zero(encode(Number.of(x.value + y.value), output), arithmetic, output)


def _chain_step(a: int, b: int, c: int, instruction: Instruction) -> int:
    """c + a·b by the rules of :class:`FusedChain`."""
    assert isinstance(instruction.arithmetic, FusedChain)
    output = get_format(instruction.output)
    x, y, z = decode(a, instruction.a), decode(b, instruction.b), decode(c, output)
    for code, number in ((b, y), (c, z), (a, x)):
        if number.kind == "nan":
            return code | _QUIET if output.name == "binary64" else output.nan_code
    product = multiply_special(x, y)
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
    return (integer(c, instruction.output) + sum(products)) & 0xFFFFFFFF
