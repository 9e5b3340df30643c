"""How a product of long integers is done on a machine: the length of digits, the depth of the recursion."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from tcu.errors import ParameterError
from tcu.machine import Machine

__all__ = ["Algorithm", "Plan", "carried_bound", "digit_bits", "plan_of"]

Algorithm = Literal["auto", "schoolbook", "karatsuba"]
_INT64 = 62
"""Coefficients stay below 2^62 in int64, so that a sum of two is still one."""


def digit_bits(machine: Machine, *, redundant: bool = False) -> int:
    """κ' = κ / 4, or fewer: the longest digits whose products the machine sums without overflow.

    √m products of two digits stay below 2^min(κ, s), where sums of s bits are
    exact in the unit.  For a unit of u8 operands and s32 sums these are 8
    bits: √m · 255² is below 2^31 up to √m = 33025.  ``redundant``: digits up
    to 2^bits + 1, as the carries of Karatsuba's recursion leave them.

    Raises ParameterError where not even one bit (two, if redundant) fits.
    """
    limit = _operand_limit(machine, 1)
    # The most with 2^bits + 1, or 2^bits - 1, up to the limit.
    longest = (limit - 1 if redundant else limit + 1).bit_length() - 1
    bits = min(machine.word_bits // 4, longest)
    if bits < (2 if redundant else 1):
        raise ParameterError(
            f"{machine!r} sums {machine.side} products of digits up to {limit}: too short for "
            f"{'Karatsuba' if redundant else 'a product of integers'}; take a smaller m or longer words"
        )
    return bits


def _operand_limit(machine: Machine, digits: int) -> int:
    """The largest digit of which √m products fit the unit and a word, and ``digits`` products 2^62."""
    dtypes = machine.executor.dtypes
    top = (1 << min(dtypes.sum_bits, machine.word_bits)) - 1
    limit = math.isqrt(top // machine.side)
    if machine.word_bits <= 64:  # longer words are Python's integers
        limit = min(limit, math.isqrt((1 << _INT64) // max(digits, machine.side)))
    return min(limit, (1 << min(dtypes.integer_bits, machine.word_bits)) - 1)


@dataclass(frozen=True)
class Plan:
    """How a product is done; lengths in digits of ``bits`` bits."""

    bits: int
    longer: int
    shorter: int
    pieces: int
    """The longer factor is cut into so many, each as long as the shorter."""
    depth: int
    """Karatsuba's recursions."""
    limit: int
    """The largest digit that may enter the unit."""
    coefficients: int
    """The largest coefficient of a product that a sum may still meet."""


def plan_of(machine: Machine, longer: int, shorter: int, algorithm: Algorithm) -> Plan:
    dtypes = machine.executor.dtypes
    key = (machine.side, machine.latency, machine.weak, machine.word_bits)
    if dtypes.integer_bits < 1:
        raise ParameterError(f"{machine.executor!r} takes no integers without rounding: take another")
    return _cached_plan(
        _Shape(machine, key, dtypes.integer_bits, dtypes.sum_bits), longer, shorter, algorithm
    )


class _Shape:
    """A machine as far as plans see it: equal where plans are."""

    def __init__(self, machine: Machine, *key: Any) -> None:
        self.machine = machine
        self._key = key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Shape) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


@lru_cache(maxsize=4096)
def _cached_plan(shape: _Shape, longer: int, shorter: int, algorithm: Algorithm) -> Plan:
    machine = shape.machine
    found: list[tuple[float, Plan]] = []
    if algorithm != "karatsuba":
        bits = digit_bits(machine)
        na, nb = -(-longer // bits), -(-shorter // bits)
        found.append((_schoolbook_cost(machine, na, nb), _make(machine, bits, na, nb, 1, 0)))
    if algorithm != "schoolbook":
        try:
            bits = digit_bits(machine, redundant=True)
        except ParameterError:
            if algorithm == "karatsuba":
                raise
            return found[0][1]
        na, nb = -(-longer // bits), -(-shorter // bits)
        pieces = max(1, round(na / nb))
        size = max(-(-na // pieces), nb)
        for depth in range(1, max(2, size.bit_length())):
            plan = _make(machine, bits, pieces * size, size, pieces, depth)
            found.append((pieces * _karatsuba_cost(machine, plan), plan))
    return min(found, key=lambda pair: pair[0])[1]


def _make(machine: Machine, bits: int, longer: int, shorter: int, pieces: int, depth: int) -> Plan:
    # Up to four of the largest coefficients are added where pieces join.
    top = 1 << (8 * machine.word_bits if machine.word_bits > 64 else _INT64 - 2)
    # Each level may add a digit for a carry.
    leaf = -(-shorter // 2**depth) + 2 * (depth > 0)
    # Room for the sums of a few levels: a carry there meets fewer digits than one of all the smallest products.
    leaf *= 5 ** min(depth, _ROOM)
    return Plan(bits, longer, shorter, pieces, depth, _operand_limit(machine, leaf), top)


def _schoolbook_cost(machine: Machine, na: int, nb: int) -> float:
    """What :func:`_schoolbook` costs."""
    side = machine.side
    columns = -(-nb // side)
    rows = na + side - 1
    strips = -(-rows // side)
    calls = strips if machine.weak else 1
    moved = na + 2 * (side - 1) + rows * side + (2 * columns + strips) * side
    return -(-columns // side) * (rows * side + calls * machine.latency) + moved + 2 * columns * strips * side


def _karatsuba_cost(machine: Machine, plan: Plan) -> float:
    """What the recursion on one piece costs, but for carries: to choose its depth by."""
    size, bound, splits = plan.shorter, (1 << plan.bits) - 1, 0.0
    for level in range(plan.depth):
        splits += 3**level * _LINEAR * size
        size, bound = -(-size // 2), 2 * bound
        if bound > plan.limit:  # the digit that a carry adds can take another column, or another call
            size, bound = size + 1, carried_bound(bound, plan.bits)
    return float(3**plan.depth * _schoolbook_cost(machine, size, size) + splits)


_ROOM = 4
"""Levels above the smallest products whose sums fit a word without a carry."""
_LINEAR = 10
"""Steps for each digit of a subproblem: four to take halves and their sums of both factors, six to put the three
products together."""


def carried_bound(bound: int, bits: int) -> int:
    """Of magnitudes, by :func:`carried`; the floor of a negative quotient is one more."""
    return (1 << bits) + (bound >> bits)
