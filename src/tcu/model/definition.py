"""The definition: what one matrix instruction computes, in Python integers.

Slow and plain on purpose.  The fast model (:mod:`tcu.model.narrow_kernels` and
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
from tcu.formats.scalar import Number, Overflow, Rounding, decode, encode, round_shift
from tcu.model.ieee import in_units, multiply, special_sum
from tcu.model.steps import dot_steps
from tcu.units.arithmetic import AlignedSum, ExactInteger, FusedChain, GroupedSum
from tcu.units.instruction import Instruction

__all__ = [
    "BlockSum",
    "ChainStep",
    "Scales",
    "Term",
    "block_sum",
    "dot",
    "dot_blocks",
    "dot_chain",
    "next_instruction",
    "piece_of",
]

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


class ChainStep(NamedTuple):
    """One rounded operation of a chain."""

    name: str
    """What it adds up, such as "a0·b0 + c"."""
    products: tuple[int, ...]
    """The k that take part; none where sums are added."""
    sum: Number | None
    """Before the rounding; None where inf or NaN take part."""
    result: int
    """Code in the output format."""

    @property
    def exact(self) -> Fraction | None:
        """The value of the sum."""
        return None if self.sum is None else self.sum.value


_Addend = tuple[Number, ...]
"""A number, or the two factors of a product."""


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
            c = dot_chain(row, column, c, instruction)[1]
        elif isinstance(arithmetic, ExactInteger):
            c = _integer_dot(row, column, c, instruction)
        else:
            c = dot_steps(row, column, c, instruction)[1]
        instruction = next_instruction(instruction)
    return c if instruction.addend is None else encode(decode(c, instruction.addend), instruction.output)


def next_instruction(instruction: Instruction) -> Instruction:
    """What takes a result as its c: the same, but with c in the output format."""
    return instruction if instruction.addend is None else dataclasses.replace(instruction, addend=None)


def piece_of(scales: Scales | None, start: int, instruction: Instruction) -> Scales | None:
    """The scales of one instruction, from the k-th product on; those of the padding, and those that are not given, are 1."""
    if instruction.scale is None:
        return None
    count, one = instruction.k // instruction.per_scale, encode(Number.of(1), instruction.scale)
    at = start // instruction.per_scale
    left, right = ([*each[at : at + count], *[one] * count][:count] for each in scales or ([], []))
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
    if arithmetic.through_binary16:
        half = get_format("binary16")
        a, b = ([encode(decode(code, f), half) for code in codes] for codes, f in ((a, x), (b, y)))
        x = y = half
    order = arithmetic.order or tuple(range(len(a)))
    blocks: list[BlockSum] = []
    accumulator = 0 if arithmetic.late_c else c
    for start in range(0, len(order), arithmetic.block):
        ks = order[start : start + arithmetic.block]
        p, q = (_inputs([codes[k] for k in ks], f, arithmetic) for codes, f in ((a, x), (b, y)))
        if scales is not None:
            p, q = (_scaled(each, its, ks, instruction) for each, its in zip((p, q), scales, strict=True))
        factors = list(zip(p, q, strict=True))
        own = output if blocks else get_format(instruction.c)
        blocks.append(
            block_sum(factors, (accumulator, own), x, y, arithmetic, output, [f"k={k}" for k in ks])
        )
        accumulator = blocks[-1].result
    if arithmetic.late_c:
        accumulator = _add(accumulator, c, arithmetic, output)
    return blocks, accumulator


def _scaled(
    numbers: Sequence[Number], scales: Sequence[int], ks: Sequence[int], instruction: Instruction
) -> list[Number]:
    """The numbers times their scales, powers of two: exponents grow, significands stay."""
    powers = [decode(code, instruction.scale or "") for code in scales]
    return [
        Number("nan")
        if (scale := powers[k // instruction.per_scale]).kind == "nan"
        else Number(number.kind, number.negative, number.significand, number.exponent + scale.exponent)
        for k, number in zip(ks, numbers, strict=True)
    ]


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
    x, y = get_format(instruction.a), get_format(instruction.b)
    products = [multiply(decode(a[k], x), decode(b[k], y)) for k in ks]
    unit = min(each.exponent for each in products)
    total = sum(in_units(each, unit) for each in products)
    sum_of_products = Number("finite", total < 0, abs(total), unit)
    number = Number.of(multiply(multiply(sum_of_products, first), second).value)
    present = any(each.significand for each in products) and first.significand * second.significand != 0
    exponent = first.exponent + second.exponent + 2 * scale.fraction_bits
    name = f"k={ks[0]}..{ks[-1]}"
    return Term(name, number.negative, number.significand, number.exponent, exponent,
                cancelled=present and total == 0)  # fmt: skip


def _sum_of_groups(groups: Sequence[Term | None], c: int, rules: GroupedSum, output: Format) -> BlockSum:
    number = decode(c, output)
    finite = [term for term in groups if term is not None]
    special = special_sum([number, *([] if len(finite) == len(groups) else [Number("nan")])], output)
    if special is not None:
        return BlockSum((), None, None, 0, special)
    addend = Term("c", number.negative, number.significand, number.exponent,
                  number.exponent + output.fraction_bits)  # fmt: skip
    rounding = AlignedSum(1, rules.fraction_bits, "RZ", rules.exponent_floor)
    return _aligned_sum([addend, *finite], rounding, output)


def _aligned_sum(terms: list[Term], arithmetic: AlignedSum, output: Format) -> BlockSum:
    """Terms aligned to the largest exponent that takes part, truncated, added, rounded once."""
    exponents = [term.exponent for term in terms if term.significand or term.cancelled]
    if not exponents:
        zero = Number("finite", all(term.negative for term in terms))
        return BlockSum(tuple(terms), None, None, 0, _round(zero, arithmetic, output))
    common = max(exponents)
    if arithmetic.exponent_floor is not None:
        common = max(common, arithmetic.exponent_floor)

    unit = common - arithmetic.fraction_bits
    terms = [
        Term(*term[:5], _truncate(term.significand, unit - term.lowest), unit, term.cancelled)
        for term in terms
    ]
    total = sum(-term.aligned if term.negative else term.aligned for term in terms)
    if arithmetic.carry_bits is not None:
        half = 1 << arithmetic.fraction_bits + 1 + arithmetic.carry_bits
        total = (total + half) % (2 * half) - half
    negative = total < 0 or all(term.negative and term.aligned == 0 for term in terms)
    result = _round(Number("finite", negative, abs(total), unit), arithmetic, output)
    return BlockSum(tuple(terms), common, unit, total, result)


def _inputs(codes: Sequence[int], fmt: Format, arithmetic: AlignedSum) -> list[Number]:
    numbers = [decode(code, fmt) for code in codes]
    return [_flushed(number, fmt) for number in numbers] if arithmetic.flush_inputs else numbers


def block_sum(
    factors: Sequence[tuple[Number, Number]],
    c: tuple[int, Format],
    x: Format,
    y: Format,
    arithmetic: AlignedSum,
    output: Format,
    names: Sequence[str],
) -> BlockSum:
    """Rules 1 to 6 of :class:`AlignedSum`, one after another; c: its code and format."""
    (c_number,) = _inputs([c[0]], c[1], arithmetic)
    products = [multiply(p, q) for p, q in factors]
    code = special_sum([*products, c_number], output)
    if code is not None:
        of_products = [number for pair in factors for number in pair]
        operands = [c_number, *of_products] if arithmetic.nan_rule == "c first" else [*of_products, c_number]
        return BlockSum((), None, None, 0, _special(code, operands, arithmetic, output))

    terms = [Term("c", c_number.negative, c_number.significand, c_number.exponent,
                  c_number.exponent + c[1].fraction_bits)]  # fmt: skip
    fraction_bits = x.fraction_bits + y.fraction_bits
    for name, (_, negative, significand, lowest) in zip(names, products, strict=True):
        leading = significand.bit_length() - 1 if arithmetic.normalized_products else fraction_bits
        terms.append(Term(name, negative, significand, lowest, lowest + leading))

    return _aligned_sum(terms, arithmetic, output)


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


def _special(code: int, operands: Sequence[Number], arithmetic: AlignedSum, output: Format) -> int:
    """Rule 6, with its NaN; operands: in the order in which one is sought."""
    return _nan(operands, arithmetic, output) if code == output.nan_code else code


def _add(p: int, q: int, arithmetic: AlignedSum, output: Format) -> int:
    """The late addition of c: IEEE, to nearest, with the unit's NaN, zeros and overflow."""
    x, y = _inputs([p, q], output, arithmetic)
    code = special_sum([x, y], output)
    if code is not None:
        operands = [y, x] if arithmetic.nan_rule == "c first" else [x, y]
        return _special(code, operands, arithmetic, output)
    total = Number.of(x.value + y.value)
    if total.significand == 0:
        total = Number("finite", x.negative and y.negative)
    overflow: Overflow = "saturate" if arithmetic.saturate else "infinity"
    return _zero_of(encode(total, output, overflow=overflow), arithmetic, output)


def dot_chain(
    a: Sequence[int], b: Sequence[int], c: int, instruction: Instruction, first: int = 0, start: str = "c"
) -> tuple[list[ChainStep], int]:
    """The steps of one instruction with a chain, and the code of its result.

    first, start: what the names of the steps call the first k, and c.
    """
    rules, output = instruction.arithmetic, get_format(instruction.output)
    assert isinstance(rules, FusedChain)
    steps: list[ChainStep] = []

    def step(name: str, ks: Sequence[int], *addends: _Addend) -> int:
        code, exact = _chain_sum(addends, rules, output)
        steps.append(ChainStep(name, tuple(first + k for k in ks), exact, code))
        return code

    x, y = get_format(instruction.a), get_format(instruction.b)

    def operand(code: int, fmt: Format, flush: bool) -> Number:
        return _flushed(decode(code, fmt), fmt) if flush else decode(code, fmt)

    def product(k: int) -> _Addend:
        return operand(a[k], x, rules.flush_inputs), operand(b[k], y, rules.flush_inputs)

    def number(code: int) -> _Addend:
        return (operand(code, output, rules.flush_outputs),)

    lanes = [(0, "0")] * rules.lanes
    if not rules.late_c:
        lanes[0] = (c, start)
    several = rules.lanes > 1
    order = rules.order or tuple(range(len(a)))
    for at in range(0, len(order), rules.group):
        ks, lane = order[at : at + rules.group], at // rules.group % rules.lanes
        names = [f"a{first + k}·b{first + k}" for k in ks]
        terms = [product(k) for k in ks]
        if rules.rounded_products:
            terms = [number(step(name, [k], term)) for name, k, term in zip(names, ks, terms, strict=True)]
        before, before_name = lanes[lane]
        if rules.group > 1:
            joint = number(step(" + ".join(names), ks, *terms))
            code = step(f"{before_name} + pair", ks, number(before), joint)
        elif rules.rounded_products:
            code = step(f"{before_name} + product", ks, number(before), *terms)
        else:
            code = step(f"{names[0]} + {before_name}", ks, *terms, number(before))
        lanes[lane] = code, f"sum {lane}" if several else "sum"
    total, name = lanes[0]
    for code, other in lanes[1:]:
        total, name = step(f"{name} + {other}", [], number(total), number(code)), "sum"
    if rules.late_c:
        total = step(f"{start} + {name}", [], number(c), number(total))
    return steps, total


def _chain_sum(addends: Sequence[_Addend], rules: FusedChain, output: Format) -> tuple[int, Number | None]:
    """Numbers, and products of two, added exactly and rounded once; the exact sum, None where inf or NaN take part."""
    terms = [addend[0] if len(addend) == 1 else multiply(*addend) for addend in addends]
    code = special_sum(terms, output)
    if code is not None:
        operands = [factor for addend in addends for factor in addend]
        return (_nan(operands, rules, output) if code == output.nan_code else code), None
    lowest = min(term.exponent for term in terms)
    total = sum(in_units(term, lowest) for term in terms)
    number = exact = Number("finite", total < 0, abs(total), lowest)
    if total == 0:
        zeros = {term.negative for term in terms} if all(term.significand == 0 for term in terms) else set()
        number = Number("finite", rules.rounding == "RD" if len(zeros) != 1 else True in zeros)
    elif rules.flush_outputs and _is_tiny(number, rules.rounding, output):
        number = Number("finite", number.negative)
    return encode(number, output, rules.rounding), exact


def _flushed(number: Number, fmt: Format) -> Number:
    subnormal = number.kind == "finite" and number.significand < 1 << fmt.fraction_bits
    return number._replace(significand=0) if subnormal else number


def _is_tiny(number: Number, rounding: Rounding, output: Format) -> bool:
    """Whether it is below the smallest normal number when rounded as if exponents went on."""
    shift = number.significand.bit_length() - output.fraction_bits - 1
    rounded = round_shift(number.significand, shift, rounding, number.negative)
    return rounded.bit_length() - 1 + number.exponent + shift < output.emin


def _nan(operands: Sequence[Number], rules: AlignedSum | FusedChain, output: Format) -> int:
    """The NaN of an operation on these operands."""
    if rules.nan_rule == "nvidia" and output.name != "binary64":
        return output.nan_code
    default = output.infinity_code | 1 << (output.fraction_bits - 1)
    if rules.nan_rule == "arm":
        return default
    if rules.nan_rule == "nvidia":  # b, the sum, a
        operands = [*operands[1:], operands[0]]
    for operand in operands:
        if operand.kind == "nan":
            return encode(operand, output)
    return output.sign_code | default


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
