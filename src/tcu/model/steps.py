"""The definition of the sums that are no aligned block: exact blocks, flushed trees, late sums, in Python integers."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from tcu.formats.format import Format, get_format
from tcu.formats.scalar import Number, decode, encode
from tcu.model.ieee import add, in_units, multiply, special_sum
from tcu.units.arithmetic import ExactBlock, FlushedTree, LateSum
from tcu.units.instruction import Instruction

__all__ = ["SumStep", "dot_steps"]


class SumStep(NamedTuple):
    """One operation, and what it left."""

    name: str
    sum: Number | None
    """Before anything was cut or rounded; None where inf or NaN take part."""
    result: int | Fraction
    """A code of the output format, or a number that the unit holds wider."""

    @property
    def exact(self) -> Fraction | None:
        """The value of the sum."""
        return None if self.sum is None else self.sum.value


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


def _exact_block(pairs: Sequence[_Pair], c: int, start: str, output: Format, steps: list[SumStep]) -> int:
    """The rules of :class:`ExactBlock`."""
    terms = [decode(c, output), *(multiply(p, q) for p, q, _ in pairs)]
    code, total = special_sum(terms, output), None
    if code is None:
        total = _signed(*_added(terms))
        code = encode(total, output)
    steps.append(SumStep(f"{start} + {_listed(pairs)}", total, code))
    return code


def _added(terms: Sequence[Number]) -> tuple[int, int]:
    """(total, unit): the exact sum is total · 2^unit."""
    unit = min(term.exponent for term in terms)
    return sum(in_units(term, unit) for term in terms), unit


def _signed(total: int, unit: int) -> Number:
    return Number("finite", total < 0, abs(total), unit)


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
        steps.append(SumStep(name, exact if exact.kind == "finite" else None, code))
        return decode(code, output)

    sums = [([pair], step(_listed([pair]), multiply(*pair[:2]))) for pair in pairs]
    while len(sums) > 1:
        couples = list(zip(sums[::2], sums[1::2], strict=False))
        lone = sums[len(couples) * 2 :]
        sums = [(p + q, step(_listed(p + q), add(left, right))) for (p, left), (q, right) in couples]
        sums += lone
    name = f"({_listed(pairs)})" if len(pairs) == 2 else _listed(pairs)
    step(f"{start} + {name}", add(decode(c, output), sums[0][1]))
    code = steps[-1].result
    assert isinstance(code, int)
    return code


def _floor(total: int, below: int) -> int:
    """Without its last bits, toward -inf."""
    return total >> below << below if below > 0 else total


def _toward_zero(total: int, below: int) -> int:
    return -_floor(-total, below) if total < 0 else _floor(total, below)


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
    products = [
        Number("inf", each.negative)
        if each.significand.bit_length() + each.exponent > output.emax + 1
        else each
        for each in (multiply(p, q) for p, q, _ in pairs)
    ]
    special = special_sum([*products, addend], output)
    if special is not None:
        steps.append(SumStep(f"{start} + {_listed(pairs)}", None, special))
        return special

    # Every sum is in units of 2^unit, which all terms are multiples of.
    kept, unit = rules.fraction_bits, min(each.exponent for each in (*products, addend))
    exact = sum(in_units(each, unit) for each in products)
    sums = []
    for group in range(rules.groups):
        members = [each for each in products[group :: rules.groups] if each.significand]
        if members:
            own = max(each.exponent for each in members) + fraction_bits
            sums.append((own, sum(_toward_zero(in_units(each, unit), own - kept - unit) for each in members)))
    exponent = max(addend.exponent + output.fraction_bits, output.emin)
    top = max((own for own, _ in sums), default=exponent)
    cut = sum(_floor(total, top - kept - unit) for _, total in sums)
    steps.append(SumStep(_listed(pairs), _signed(exact, unit), _signed(cut, unit).value))

    common = max(top, exponent)
    late = in_units(addend, unit)
    before = cut + late
    if rules.drops_small_c and exponent < common - kept - 1:
        late = 0
    total = _floor(cut, common - rules.late_bits - 1 - unit) + _floor(late, common - kept - unit)
    if total:
        leading = max(total.bit_length() - 1 + unit, output.emin)
        total = _floor(total, leading - rules.late_bits - unit)
    wide = _signed(total, unit)
    steps.append(SumStep(f"{start} + products", _signed(before, unit), wide.value))
    code = encode(wide, output)
    steps.append(SumStep("rounded", wide, code))
    return code
