"""One dot product d = c + a0·b0 + a1·b1 + ..., step by step on a unit and by other ways."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from tcu.cli.expression import ONE, ZERO, Given, Value, parse_expression, parse_list, parse_number
from tcu.errors import ParameterError, ShapeError
from tcu.formats.format import Format, get_format
from tcu.formats.scalar import Number, decode, encode
from tcu.model.definition import BlockSum, Scales, dot, dot_blocks, dot_chain, next_instruction, piece_of
from tcu.model.ieee import multiply
from tcu.model.steps import dot_steps
from tcu.units import CATALOGUE, AlignedSum, ExactInteger, FusedChain, GroupedSum, Instruction, Unit

__all__ = [
    "Block",
    "Operand",
    "Problem",
    "Step",
    "Trace",
    "alternatives",
    "exact_value",
    "problem_of",
    "trace",
    "with_scales",
]

MAX_PRODUCTS = 64
_LOWEST = -1140
"""Below the smallest number of every format, and half of it."""


@dataclass(frozen=True)
class Operand:
    """One input, rounded to nearest to its format."""

    name: str
    given: Given
    code: int
    format: Format

    @property
    def number(self) -> Number:
        return decode(self.code, self.format)

    @property
    def rounded(self) -> bool:
        """Whether the format could not hold what was given."""
        value = self.given.value
        return isinstance(value, Fraction) and (self.number.kind != "finite" or self.number.value != value)


@dataclass(frozen=True)
class Problem:
    """The inputs of one dot product."""

    a: tuple[Operand, ...]
    b: tuple[Operand, ...]
    c: Operand
    scale_a: tuple[Operand, ...] = ()
    scale_b: tuple[Operand, ...] = ()
    """One for each ``per_scale`` successive k."""
    per_scale: int = 0

    @property
    def operands(self) -> list[Operand]:
        pairs = zip(self.a, self.b, strict=True)
        return [self.c, *(operand for pair in pairs for operand in pair), *self.scale_a, *self.scale_b]

    @property
    def scales(self) -> Scales | None:
        """Their codes, if the instruction takes any."""
        if not self.per_scale:
            return None
        return [x.code for x in self.scale_a], [y.code for y in self.scale_b]

    def factors(self, k: int) -> tuple[Number, Number]:
        """a and b of one k, times their scales."""
        x, y = self.a[k].number, self.b[k].number
        if not self.per_scale:
            return x, y
        at = k // self.per_scale
        return multiply(x, self.scale_a[at].number), multiply(y, self.scale_b[at].number)


def with_scales(problem: Problem, row: Instruction, scale_a: str | None, scale_b: str | None) -> Problem:
    """The problem with the scales that the instruction takes; those that are not listed are 1."""
    if row.scale is None:
        if scale_a is not None or scale_b is not None:
            raise ParameterError(
                f"{row.signature} takes no scales: choose --instruction mxf8f6f4, mxf4 or mxf4nvf4"
            )
        return problem
    count, fmt = max(1, -(-len(problem.a) // row.per_scale)), get_format(row.scale)
    both = []
    for name, text in (("scale_a", scale_a), ("scale_b", scale_b)):
        listed = [] if text is None else parse_list(text)
        if len(listed) > count:
            raise ShapeError(
                f"--{name.replace('_', '-')} has {len(listed)} numbers: {row.per_scale} products share one, so "
                f"{len(problem.a)} of them take {count}"
            )
        listed = [*listed, *[ONE] * (count - len(listed))]
        both.append(tuple(_operand(f"{name}[{at}]", each, fmt) for at, each in enumerate(listed)))
    return replace(problem, scale_a=both[0], scale_b=both[1], per_scale=row.per_scale)


def problem_of(
    expression: str | None, a: str | None, b: str | None, c: str | None, inputs: Format, output: Format
) -> Problem:
    """The inputs from an expression, or from the lists ``a`` and ``b``; ``c`` overrides.

    In an expression without ``c`` a first term that is no product is c; every
    other plain number x is the product 1·x, as in equation (3) of paper 003.
    """
    if expression is None:
        if a is None and b is None and c is None:
            raise ParameterError(
                "nothing to explain: give an expression, such as '1 + 2^-24', or --a and --b"
            )
        pairs = _paired(a, b)
        addend = ZERO
    else:
        if a is not None or b is not None:
            raise ParameterError("both an expression and --a or --b: give one of them")
        addend, pairs = _split(expression, c is None)
    if c is not None:
        addend = parse_number(c)
    if len(pairs) > MAX_PRODUCTS:
        raise ParameterError(f"{len(pairs)} products: explain draws at most {MAX_PRODUCTS}")
    return Problem(
        tuple(_operand(f"a{k}", x, inputs) for k, (x, _) in enumerate(pairs)),
        tuple(_operand(f"b{k}", y, inputs) for k, (_, y) in enumerate(pairs)),
        _operand("c", addend, output),
    )


def _paired(a: str | None, b: str | None) -> list[tuple[Given, Given]]:
    left = None if a is None else parse_list(a)
    right = None if b is None else parse_list(b)
    if left is None or right is None:
        ones = [ONE] * len(left or right or ())
        left, right = left or ones, right or ones
    if len(left) != len(right):
        raise ShapeError(f"--a has {len(left)} numbers and --b has {len(right)}: give as many of each")
    return list(zip(left, right, strict=True))


def _split(expression: str, first_is_c: bool) -> tuple[Given, list[tuple[Given, Given]]]:
    terms = parse_expression(expression)
    addend = ZERO
    if first_is_c and terms[0][1] is None:
        addend = terms.pop(0)[0]
    return addend, [(ONE, x) if y is None else (x, y) for x, y in terms]


def _operand(name: str, given: Given, fmt: Format) -> Operand:
    return Operand(name, given, encode(_binary(given.value), fmt), fmt)


def _binary(value: Value) -> Number:
    """``value``, or a number that every format rounds as it rounds ``value``."""
    if isinstance(value, float):
        return Number.of(value)
    scaled = abs(value) / Fraction(2) ** _LOWEST
    quotient, rest = divmod(scaled.numerator, scaled.denominator)
    return Number("finite", value < 0, 2 * quotient + (rest > 0), _LOWEST - 1)


@dataclass(frozen=True)
class Block:
    """One aligned sum and the names of what it adds."""

    sum: BlockSum
    addend: str
    """What the block starts from: "c", or the result of the block before."""
    addend_code: int
    products: tuple[int, ...]
    """Which products take part, in order; those of the padding are left out."""
    groups: tuple[str, ...] = ()
    """What the terms are called, where a term is a group of products."""

    @property
    def idle(self) -> bool:
        """Whether all products are zero and the block only passes on what it starts from."""
        zero = bool(self.sum.terms) and not any(term.significand for term in self.sum.terms[1:])
        return self.sum.result == self.addend_code and (zero or not self.products)


@dataclass(frozen=True)
class Step:
    """One operation outside a block: a fused multiply-add, the late addition of c, a sum that is cut."""

    label: str
    exact: Fraction | None
    """Before the rounding; None where inf or NaN take part."""
    result: int | Fraction
    """A code of the output format, or a number that the unit holds wider."""

    def number(self, output: Format) -> Number:
        return Number.of(self.result) if isinstance(self.result, Fraction) else decode(self.result, output)


@dataclass(frozen=True)
class Trace:
    """What one instruction of one unit does with a problem."""

    unit: Unit
    instruction: Instruction
    steps: tuple[Block | Step, ...]
    result: int

    @property
    def aligned(self) -> AlignedSum:
        """By which rules the terms of a block are aligned and added."""
        rules = self.instruction.arithmetic
        if isinstance(rules, GroupedSum):
            return AlignedSum(rules.block // rules.group, rules.fraction_bits, "RZ", rules.exponent_floor)
        assert isinstance(rules, AlignedSum)
        return rules

    @property
    def blocks(self) -> list[Block]:
        return [step for step in self.steps if isinstance(step, Block)]

    @property
    def busy_blocks(self) -> list[Block]:
        """The first block, and those that change the sum."""
        return [block for at, block in enumerate(self.blocks) if at == 0 or not block.idle]


def trace(problem: Problem, unit: Unit, instruction: Instruction) -> Trace:
    """Every step of the definition (:mod:`tcu.model.definition`)."""
    if isinstance(instruction.arithmetic, AlignedSum):
        steps = _aligned_steps(problem, instruction, instruction.arithmetic)
    elif isinstance(instruction.arithmetic, GroupedSum):
        steps = _grouped_steps(problem, instruction, instruction.arithmetic)
    elif isinstance(instruction.arithmetic, FusedChain):
        steps = _chain_steps(problem, instruction)
    elif not isinstance(instruction.arithmetic, ExactInteger):
        steps = _sum_steps(problem, instruction)
    else:
        raise ParameterError(
            f"{instruction.signature} is exact integer arithmetic, with nothing to explain: "
            "choose a floating-point --input, such as f16"
        )
    return Trace(unit, instruction, tuple(steps), evaluate(problem, instruction))


def evaluate(problem: Problem, instruction: Instruction) -> int:
    """The code of d, by the definition."""
    a, b = [x.code for x in problem.a], [y.code for y in problem.b]
    return dot(a or [0], b or [0], problem.c.code, instruction, problem.scales)


def _aligned_steps(problem: Problem, row: Instruction, arithmetic: AlignedSum) -> list[Block | Step]:
    steps: list[Block | Step] = []
    order = arithmetic.order or tuple(range(row.k))
    accumulator, name = problem.c.code, "c"
    count = len(problem.a)
    for start in range(0, max(count, 1), row.k):
        a, b = _padded(problem.a, start, row.k), _padded(problem.b, start, row.k)
        sums, result = dot_blocks(a, b, accumulator, row, piece_of(problem.scales, start, row))
        before, before_name = (0, "0") if arithmetic.late_c else (accumulator, name)
        for index, block in enumerate(sums):
            ks = order[index * arithmetic.block : (index + 1) * arithmetic.block]
            products = tuple(start + k for k in ks if start + k < count)
            steps.append(Block(block, before_name, before, products))
            before, before_name = block.result, "sum"
        if arithmetic.late_c:
            steps.append(_late(name, accumulator, before, result, get_format(row.output)))
        accumulator, name, row = result, "sum", next_instruction(row)
    return steps


def _grouped_steps(problem: Problem, row: Instruction, rules: GroupedSum) -> list[Block | Step]:
    steps: list[Block | Step] = []
    accumulator, name, count = problem.c.code, "c", len(problem.a)
    for start in range(0, max(count, 1), row.k):
        a, b = _padded(problem.a, start, row.k), _padded(problem.b, start, row.k)
        sums, result = dot_blocks(a, b, accumulator, row, piece_of(problem.scales, start, row))
        for index, block in enumerate(sums):
            first = start + index * rules.block
            ks = range(first, min(first + rules.block, start + row.k, count))
            firsts = range(first, ks.stop, rules.group)
            groups = tuple(f"k {k} to {min(k + rules.group, ks.stop) - 1}" for k in firsts)
            steps.append(Block(block, name, accumulator, tuple(ks), groups))
            accumulator, name = block.result, "sum"
        accumulator = result
    return steps


def _sum_steps(problem: Problem, row: Instruction) -> list[Block | Step]:
    """Those of the definition, the padding's zeros among them."""
    steps: list[Block | Step] = []
    count, accumulator = len(problem.a), problem.c.code
    for start in range(0, max(count, 1), row.k):
        a, b = _padded(problem.a, start, row.k), _padded(problem.b, start, row.k)
        found, accumulator = dot_steps(a, b, accumulator, row, start, "sum" if start else "c")
        steps += [Step(step.name, step.exact, step.result) for step in found]
    return steps


def _padded(operands: Sequence[Operand], start: int, k: int) -> list[int]:
    codes = [operand.code for operand in operands[start : start + k]]
    return codes + [0] * (k - len(codes))


def _late(name: str, code: int, total: int, result: int, output: Format) -> Step:
    p, q = decode(total, output), decode(code, output)
    finite = p.kind == q.kind == "finite"
    return Step(f"sum + {name}", p.value + q.value if finite else None, result)


def _chain_steps(problem: Problem, row: Instruction) -> list[Block | Step]:
    """Those of the definition; steps of the padding alone are left out."""
    steps: list[Block | Step] = []
    count, accumulator = len(problem.a), problem.c.code
    for start in range(0, count, row.k):
        a, b = _padded(problem.a, start, row.k), _padded(problem.b, start, row.k)
        found, accumulator = dot_chain(a, b, accumulator, row, start, "sum" if start else "c")
        steps += [
            Step(step.name, step.exact, step.result)
            for step in found
            if not step.products or min(step.products) < count
        ]
    return steps


def exact_value(problem: Problem) -> Value:
    """The sum in real arithmetic; inf and NaN as IEEE 754 has them."""
    terms = [_product(*problem.factors(k)) for k in range(len(problem.a))]
    c = problem.c.number
    terms.append(c.value if c.kind == "finite" else float(c))
    special = [term for term in terms if isinstance(term, float)]
    if special:
        return sum(special)
    return sum((term for term in terms if isinstance(term, Fraction)), Fraction(0))


def _product(x: Number, y: Number) -> Value:
    if x.kind == y.kind == "finite":
        return x.value * y.value

    def rough(number: Number) -> float:  # only zero, sign, inf and NaN matter here
        if number.kind != "finite":
            return float(number)
        return float((number.value > 0) - (number.value < 0))

    return rough(x) * rough(y)


@dataclass(frozen=True)
class Alternative:
    """Who returns a result for the same inputs."""

    who: tuple[str, ...]
    code: int
    rows: tuple[tuple[Unit, Instruction], ...] = ()


def in_order(problem: Problem, fmt: Format) -> int:
    """The code of c + a0·b0 + a1·b1 + ..., each operation rounded to nearest as IEEE 754 says."""
    kind: Any = fmt.dtype.type
    with np.errstate(all="ignore"):
        total = kind(float(problem.c.number))
        for k in range(len(problem.a)):
            x, y = problem.factors(k)
            total = kind(total + kind(kind(float(x)) * kind(float(y))))
    return int(np.array([total]).view(fmt.code_dtype)[0])


def correctly_rounded(value: Value, fmt: Format) -> int:
    return encode(_binary(value), fmt)


def alternatives(problem: Problem, like: Instruction) -> list[Alternative]:
    """What every instruction of the catalogue with these formats returns, equal results together."""
    groups: dict[int, list[tuple[Unit, Instruction]]] = {}
    signature = like.a, like.b, like.output, like.c, like.scale, like.per_scale
    for unit in CATALOGUE.values():
        for row in unit.instructions:
            if (row.a, row.b, row.output, row.c, row.scale, row.per_scale) == signature:
                groups.setdefault(evaluate(problem, row), []).append((unit, row))
    everyone = [pair for rows in groups.values() for pair in rows]
    return [Alternative(_names(rows, everyone), code, tuple(rows)) for code, rows in groups.items()]


def _names(rows: list[tuple[Unit, Instruction]], everyone: list[tuple[Unit, Instruction]]) -> tuple[str, ...]:
    """Unit names; with the instruction where the unit's instructions disagree."""
    names = []
    for unit, row in rows:
        mine = sum(other.name == unit.name for other, _ in rows)
        total = sum(other.name == unit.name for other, _ in everyone)
        names.append(unit.name if mine == total else f"{unit.name} {row.name}")
    return tuple(dict.fromkeys(names))
