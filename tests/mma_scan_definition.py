"""The plan of a scan by MMAs read literally, matrix by matrix in Python, and what tests of such scans share.

Over any arithmetic: that of a unit, by the definition's dot products; or one that counts steps.
"""

from __future__ import annotations

from typing import Any, Protocol

from literal_plan import interpret_additions

from tcu.formats import decode, encode
from tcu.formats.scalar import Number
from tcu.model.definition import dot
from tcu.plan import AddStep, MmaScanPlan, Product
from tcu.units import Unit, find_instruction

__all__ = ["Arithmetic", "OfAUnit", "Steps", "prefixes"]

Matrix = list[list[Any]]


class Arithmetic(Protocol):
    zero: Any
    """Of C and D."""
    nothing: Any
    """0 and 1 as factors."""
    one: Any

    def dot(self, row: list[Any], column: list[Any], addend: Any) -> Any: ...

    def plus(self, x: Any, y: Any) -> Any: ...

    def factor(self, x: Any) -> Any:
        """A result, rounded to what an MMA takes."""


class OfAUnit:
    """Codes; and how many matrices were multiplied."""

    def __init__(self, plan: MmaScanPlan, unit: Unit | str) -> None:
        self._plan = plan
        self._row = find_instruction(unit, "mma", plan.input, plan.input, plan.accumulator)
        self.zero = self.nothing = 0
        self.one = encode(Number.of(1), plan.input)

    def dot(self, row: list[int], column: list[int], addend: int) -> int:
        return dot(row, column, addend, self._row)

    def plus(self, x: int, y: int) -> int:
        return interpret_additions(AddStep(self._plan.accumulator, "sequential", 2), [x, y])[0]

    def factor(self, x: int) -> int:
        return encode(decode(x, self._plan.accumulator), self._plan.input)


class Steps:
    """For numbers, how many operations they have gone through at most; None: a constant."""

    zero = nothing = None
    one = "1"

    def dot(self, row: list[Any], column: list[Any], addend: Any) -> Any:
        pairs = zip([*row, addend], [*column, self.one], strict=True)
        met = [each for pair in pairs if None not in pair for each in pair if each != self.one]
        return max(met) + 1 if met else None

    def plus(self, x: Any, y: Any) -> Any:
        return None if x is None and y is None else max(0 if each is None else each for each in (x, y)) + 1

    def factor(self, x: Any) -> Any:
        return x


class _Execution:
    """``mmas``: how many products of 16 × 16 matrices there were, each of Scan_16's with one of 16 rows."""

    def __init__(self, plan: MmaScanPlan, by: Arithmetic) -> None:
        self.plan, self.by = plan, by
        self.products = self.level_products = 0
        nothing, one = by.nothing, by.one
        self.constants: dict[str, Matrix] = {
            "U": [[one if k <= j else nothing for j in range(16)] for k in range(16)],
            "L": [[one if k < i else nothing for k in range(16)] for i in range(16)],
            "J": [[one] * 16 for _ in range(16)],
        }

    def multiply(self, left: Matrix, right: Matrix, addend: Matrix) -> Matrix:
        columns = list(zip(*right, strict=True))
        return [
            [self.by.dot(row, list(column), addend[i][j]) for j, column in enumerate(columns)]
            for i, row in enumerate(left)
        ]

    def tile(self, numbers: list[Any], before: Any) -> list[Any]:
        rows = len(numbers) // 16
        values: dict[str, Matrix] = {
            "A": [numbers[16 * i : 16 * i + 16] for i in range(rows)],
            "S": [[before] * 16 for _ in range(rows)],
            "0": [[self.by.zero] * 16 for _ in range(rows)],
        }

        def factor(name: str) -> Matrix:
            if name in self.constants:
                return self.constants[name]
            if name == "A":
                return values["A"]
            if name == "T":
                return [[self.by.factor(row[-1])] * 16 for row in values["AU"]]
            return [[self.by.factor(each) for each in row] for row in values[name]]

        for step in self.plan.steps:
            if isinstance(step, Product):
                self.products += 1
                values[step.result] = self.multiply(
                    factor(step.left), factor(step.right), values[step.addend]
                )
            else:
                pairs = zip(values[step.left], values[step.right], strict=True)
                values[step.result] = [
                    [self.by.plus(x, y) for x, y in zip(*pair, strict=True)] for pair in pairs
                ]
        return [each for row in values["R"] for each in row]

    def strip(self, numbers: list[Any]) -> list[Any]:
        results: list[Any] = []
        for link in range(self.plan.chain):
            tile = numbers[link * self.plan.tile : (link + 1) * self.plan.tile]
            results += self.tile(tile, results[-1] if results else self.by.zero)
        return results

    def carries(self, totals: list[Any]) -> list[Any]:
        """c of every strip; no additions where there is one level."""
        levels: list[list[Any]] = []
        size = len(totals)
        while len(totals) > 1:
            before, sums = [], []
            for at in range(0, len(totals), 16):
                group = [self.by.factor(each) for each in totals[at : at + 16]]
                group += [self.by.nothing] * (16 - len(group))
                self.level_products += 1
                (found,) = self.multiply([group], self.constants["U"], [[self.by.zero] * 16])
                before += [self.by.zero, *found[:-1]]
                sums.append(found[-1])
            levels.append(before)
            totals = sums
        found = []
        for strip in range(size):
            c = levels[-1][strip // 16 ** (len(levels) - 1)]
            for below in range(len(levels) - 2, -1, -1):
                c = self.by.plus(c, levels[below][strip // 16**below])
            found.append(c)
        return found


def prefixes(
    plan: MmaScanPlan, numbers: list[Any], by: Arithmetic, exclusive: bool = False, reverse: bool = False
) -> tuple[list[Any], int, int]:
    """(the running sums, products of tiles, products of totals)"""
    assert len(numbers) == plan.n
    if reverse:
        found, *counts = prefixes(plan, numbers[::-1], by, exclusive)
        return found[::-1], counts[0], counts[1]
    execution = _Execution(plan, by)
    numbers = numbers + [by.nothing] * (-len(numbers) % plan.strip)
    strips = [execution.strip(numbers[at : at + plan.strip]) for at in range(0, len(numbers), plan.strip)]
    carries = execution.carries([strip[-1] for strip in strips]) if len(strips) > 1 else []
    results: list[Any] = []
    for s, strip in enumerate(strips):
        own = [by.zero, *strip[:-1]] if exclusive else strip
        results += [by.plus(carries[s], each) for each in own] if carries else own
    return results[: plan.n], execution.products, execution.level_products
