"""Execute the plans of scans by MMAs, on the model of a unit."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.formats.format import get_format
from tcu.model import threads
from tcu.model.mma import multiply_accumulate
from tcu.plan.mma_scan import WIDTH, MmaScanPlan, Product, TileStep
from tcu.units.instruction import Instruction, Unit
from tcu.units.lookup import find_instruction

__all__ = ["prefixes"]

Values = npt.NDArray[Any]
_PIECE = 1 << 17
"""Numbers that one thread takes at a time."""


def prefixes(plan: MmaScanPlan, rows: Values, unit: Unit, exclusive: bool, reverse: bool) -> Values:
    """The running sums of the rows of an array (r, plan.n), each by ``plan``, in the accumulator's format."""
    wide = get_format(plan.accumulator).dtype
    if not rows.size:
        return np.zeros(rows.shape, wide)
    if reverse:
        return prefixes(plan, rows[:, ::-1], unit, exclusive, False)[:, ::-1]
    count, strips, strip = rows.shape[0], plan.strips, plan.strip
    padded = np.zeros((count, strips * strip), get_format(plan.input).dtype)
    padded[:, : plan.n] = rows
    numbers, local = padded.reshape(-1, strip), np.empty((count * strips, strip), wide)
    together = max(1, _PIECE // strip)

    def scan(at: int) -> None:
        with np.errstate(all="ignore"):  # a thread has its own
            local[at : at + together] = _strips(plan, numbers[at : at + together], unit)

    threads.each(scan, range(0, len(numbers), together))
    with np.errstate(all="ignore"):
        carry = _carries(plan, local[:, -1].reshape(count, strips), unit).reshape(-1, 1)
        if exclusive:
            before = np.empty_like(local)
            before[:, :1] = 0
            before[:, 1:] = local[:, :-1]
            local = before
        local += carry
    return local.reshape(count, -1)[:, : plan.n]


def _strips(plan: MmaScanPlan, numbers: Values, unit: Unit) -> Values:
    """The prefixes of each strip (m, plan.strip) alone."""
    row = _instruction(plan, unit)
    wide = get_format(plan.accumulator).dtype
    tiles = numbers.reshape(len(numbers), plan.chain, plan.rows, WIDTH)
    results = np.empty(tiles.shape, wide)
    before = np.zeros((len(numbers), 1, 1), wide)
    for link in range(plan.chain):
        values = {"A": tiles[:, link], "S": before, "0": np.zeros((1, 1, 1), wide)}
        for step in plan.steps:
            values[step.result] = _result(step, values, row)
            if step.result == "AU":
                values["T"] = values["AU"][..., -1:]  # which all columns are
        results[:, link] = values["R"]
        before = values["R"][..., -1:, -1:]
    return results.reshape(len(numbers), -1)


def _result(step: TileStep, values: dict[str, Values], row: Instruction) -> Values:
    if not isinstance(step, Product):
        return np.asarray(values[step.left] + values[step.right])
    if step.left in values:
        return _times(values[step.left], step.right, values[step.addend], row)
    # X·Y is the transpose of Yᵀ·Xᵀ, and a product does not depend on the order of its factors.
    right, addend = (np.swapaxes(values[name], -1, -2) for name in (step.right, step.addend))
    return np.swapaxes(_times(right, f"{step.left}ᵀ", addend, row), -1, -2)


def _times(left: Values, constant: str, addend: Values, row: Instruction) -> Values:
    """left · a matrix of ones + addend, of many matrices ``left`` (..., m, 16)."""
    operand, wide = get_format(row.a).dtype, get_format(row.output).dtype
    lines = np.ascontiguousarray(left.astype(operand, copy=False)).reshape(-1, WIDTH)
    added = np.ascontiguousarray(np.broadcast_to(addend, left.shape), wide).reshape(-1, WIDTH)
    ones = _constant(constant).astype(operand)
    return multiply_accumulate(lines, ones, added, row, parallel=False).reshape(left.shape)


@cache
def _constant(name: str) -> Values:
    ones = np.ones((WIDTH, WIDTH))
    return {"U": np.triu(ones), "Lᵀ": np.triu(ones, 1), "J": ones}[name]


def _carries(plan: MmaScanPlan, totals: Values, unit: Unit) -> Values:
    """What comes before each strip, from the totals (r, plan.strips) of all strips of rows."""
    row = _instruction(plan, unit)
    levels: list[Values] = []
    while totals.shape[1] > 1:
        count, size = totals.shape
        groups = np.zeros((count, -(-size // WIDTH), WIDTH), totals.dtype)
        groups.reshape(count, -1)[:, :size] = totals
        sums = _times(groups, "U", np.zeros((1, 1, 1), totals.dtype), row)
        before = np.zeros_like(sums)
        before[..., 1:] = sums[..., :-1]
        levels.append(before.reshape(count, -1)[:, :size])
        totals = sums[..., -1]
    if not levels:
        return np.zeros_like(totals)
    carry = levels.pop()
    while levels:
        own = levels.pop()
        carry = np.repeat(carry, WIDTH, axis=1)[:, : own.shape[1]] + own
    return carry


def _instruction(plan: MmaScanPlan, unit: Unit) -> Instruction:
    return find_instruction(unit, "mma", plan.input, plan.input, plan.accumulator)
