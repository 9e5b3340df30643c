"""The definition of the sums that are no aligned block: exact blocks, flushed trees, late sums, in Python integers."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from tcu.formats.format import Format, get_format
from tcu.formats.scalar import Number, decode, encode
from tcu.model.ieee import add, multiply, special_sum
from tcu.units.arithmetic import ExactBlock, FlushedTree, Instruction, LateSum

__all__ = ["SumStep", "dot_steps"]


class SumStep(NamedTuple):
    """One operation, and what it left."""

    name: str
    exact: Fraction | None
    """Before anything was cut or rounded; None where inf or NaN take part."""
    result: int | Fraction
    """A code of the output format, or a number that the unit holds wider."""


def dot_steps(
    a: Sequence[int], b: Sequence[int], c: int, instruction: Instruction, first: int = 0, start: str = "c"
) -> tuple[list[SumStep], int]:
    """The steps of one instruction, and the code of its result.

    first, start: what the names of the steps call the first k, and c.
    """
    rules, output = instruction.arithmetic, get_format(instruction.output)
    x, y = get_format(instruction.a), get_format(instruction.b)
    pairs = [(decode(p, x), decode(q, y), first + k) for k, (p, q) in enumerate(zip(a, b, strict=True))]
    steps: list[SumStep] = []
    if isinstance(rules, FlushedTree):
        pairs = [(_flushed_input(p, x), _flushed_input(q, y), k) for p, q, k in pairs]
        c = encode(_flushed_input(decode(c, output), output), output)
        for at in range(0, len(pairs), rules.group):
            c = _tree(pairs[at : at + rules.group], c, start, output, steps)
            start = "sum"
        return steps, c
    assert isinstance(rules, ExactBlock | LateSum)
    for at in range(0, len(pairs), rules.block):
        block = pairs[at : at + rules.block]
        if isinstance(rules, ExactBlock):
            c = _exact_block(block, c, start, output, steps)
        else:
            c = _late_sum(block, c, start, rules, (x.fraction_bits + y.fraction_bits, output), steps)
        start = "sum"
    return steps, c


_Pair = tuple[Number, Number, int]
"""Two factors, and their k."""


def _listed(pairs: Sequence[_Pair]) -> str:
    names = [f"a{k}·b{k}" for _, _, k in pairs]
    return " + ".join(names) if len(names) < 3 else f"products {pairs[0][2]} to {pairs[-1][2]}"


def _rounded(total: Fraction, output: Format) -> int:
    return encode(Number.of(total), output)


def _exact_block(pairs: Sequence[_Pair], c: int, start: str, output: Format, steps: list[SumStep]) -> int:
    """The rules of :class:`ExactBlock`."""
    terms = [decode(c, output), *(multiply(p, q) for p, q, _ in pairs)]
    special, total = special_sum(terms, output), None
    if special is None:
        total = sum((term.value for term in terms), Fraction(0))
        special = _rounded(total, output)
    steps.append(SumStep(f"{start} + {_listed(pairs)}", total, special))
    return special


def _flushed_input(number: Number, fmt: Format) -> Number:
    """Subnormal numbers and both zeros as +0."""
    small = number.kind == "finite" and number.significand < 1 << fmt.fraction_bits
    return Number("finite") if small else number


def _tree(pairs: Sequence[_Pair], c: int, start: str, output: Format, steps: list[SumStep]) -> int:
    """One group of :class:`FlushedTree`, and its total added to c."""

    def step(name: str, exact: Number) -> Number:
        code = output.nan_code if exact.kind == "nan" else encode(exact, output)
        if code & (output.sign_code - 1) < 1 << output.fraction_bits:
            code &= output.sign_code
        steps.append(SumStep(name, exact.value if exact.kind == "finite" else None, code))
        return decode(code, output)

    sums = [(f"a{k}·b{k}", step(f"a{k}·b{k}", multiply(p, q))) for p, q, k in pairs]
    while len(sums) > 1:
        couples = list(zip(sums[::2], sums[1::2], strict=False))
        lone = sums[len(couples) * 2 :]
        sums = [(f"({p} + {q})", step(f"{p} + {q}", add(left, right))) for (p, left), (q, right) in couples]
        sums += lone
    step(f"{start} + {sums[0][0]}", add(decode(c, output), sums[0][1]))
    code = steps[-1].result
    assert isinstance(code, int)
    return code


def _floor(value: Fraction, exponent: int) -> Fraction:
    """The largest multiple of 2^exponent that is not above."""
    unit = Fraction(2) ** exponent
    return value // unit * unit


def _toward_zero(value: Fraction, exponent: int) -> Fraction:
    return -_floor(-value, exponent) if value < 0 else _floor(value, exponent)


def _leading(value: Fraction) -> int:
    """The exponent of the first bit of a binary number that is not zero."""
    number = Number.of(value)
    return number.significand.bit_length() - 1 + number.exponent


def _late_sum(
    pairs: Sequence[_Pair],
    c: int,
    start: str,
    rules: LateSum,
    formats: tuple[int, Format],
    steps: list[SumStep],
) -> int:
    """The rules of :class:`LateSum`; formats: the fraction bits of both factors together, and the output."""
    fraction_bits, output = formats
    addend = decode(c, output)
    products = [multiply(p, q) for p, q, _ in pairs]
    limit = Fraction(2) ** (output.emax + 1)
    products = [
        Number("inf", each.negative) if each.kind == "finite" and abs(each.value) >= limit else each
        for each in products
    ]
    special = special_sum([*products, addend], output)
    if special is not None:
        steps.append(SumStep(f"{start} + {_listed(pairs)}", None, special))
        return special

    kept = rules.fraction_bits
    exact, sums = Fraction(0), []
    for group in range(rules.groups):
        members = [each for each in products[group :: rules.groups] if each.significand]
        exponents = [each.exponent + fraction_bits for each in members]
        if members:
            total = sum((_toward_zero(each.value, max(exponents) - kept) for each in members), Fraction(0))
            sums.append((max(exponents), total))
            exact += sum((each.value for each in members), Fraction(0))
    top = max((exponent for exponent, _ in sums), default=None)
    cut = sum((_floor(total, (top or 0) - kept) for _, total in sums), Fraction(0))
    steps.append(SumStep(_listed(pairs), exact, cut))

    exponent = max(addend.exponent + output.fraction_bits, output.emin)
    common = exponent if top is None else max(top, exponent)
    late = addend.value
    if rules.drops_small_c and exponent < common - kept - 1:
        late = Fraction(0)
    total = _floor(cut, common - rules.late_bits - 1) + _floor(late, common - kept)
    if total:
        total = _floor(total, max(_leading(abs(total)), output.emin) - rules.late_bits)
    steps.append(SumStep(f"{start} + products", cut + addend.value, total))
    code = _rounded(total, output)
    steps.append(SumStep("rounded", total, code))
    return code
