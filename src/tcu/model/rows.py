"""Execute one plan on many rows at once, on the model of a unit.

The steps of a plan pad a vector to whole groups and reduce these independently.
So rows that are padded one by one can go through a step as one long vector.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.formats.format import get_format
from tcu.model.execute import _order_array, multiply_tiles, run_steps
from tcu.plan.plan import AddStep, FmaStep, MmaStep, Plan, Step
from tcu.plan.tree import TreeRegions, TreeStep
from tcu.plan.trim import trimmed
from tcu.units.instruction import Unit

__all__ = ["execute_rows", "row_width"]


def execute_rows(plan: Plan, rows: npt.NDArray[Any], unit: Unit | None = None) -> npt.NDArray[np.float64]:
    """The sums of the rows of an array (rows, plan.n), each by ``plan``; zero is always +0.

    Of two arrays (2, rows, plan.n) the sums of their products, where the plan multiplies.
    """
    if not plan.parts or not rows.size:
        return np.zeros(rows.shape[-2])
    plan = _short(plan)
    with np.errstate(all="ignore"):
        partial = [_run(rows[..., part.start : part.stop], part.steps, unit) for part in plan.parts]
        numbers = partial[0] if len(partial) == 1 else np.concatenate(partial, axis=1)
        totals = _run(numbers, plan.final, unit)[:, 0].astype(get_format(plan.result).dtype, copy=False)
        return np.asarray(totals.astype(np.float64) + 0.0)


_short = lru_cache(maxsize=256)(trimmed)


def row_width(plan: Plan) -> int:
    """Numbers that a row takes in memory, padding included, in the widest step."""
    width = plan.n
    for step, length in _short(plan).lengths():
        if isinstance(step, MmaStep):
            live = _live(step, length)
            width = max(width, step.group if live is None else live[1].size)
        elif not (isinstance(step, AddStep) and step.length is None):
            width = max(width, step.group)
    return width


def _run(numbers: npt.NDArray[Any], steps: tuple[Step, ...], unit: Unit | None) -> npt.NDArray[Any]:
    for step in steps:
        if isinstance(step, FmaStep) or (isinstance(step, TreeStep | TreeRegions) and step.products):
            pairs = [_padded(each, step.group).reshape(-1) for each in numbers]
            numbers = run_steps(pairs, (step,), unit).reshape(numbers.shape[1], -1)
            continue
        if isinstance(step, MmaStep):
            live = _live(step, numbers.shape[1])
            if live is not None:
                numbers = _live_dots(numbers, step, *live, unit)
                continue
        elif isinstance(step, AddStep) and step.length is None:
            values = numbers.astype(get_format(step.format).dtype, copy=False)
            numbers = np.add.accumulate(values, axis=1)[:, -1:]
            continue
        count = numbers.shape[0]
        line = _padded(numbers, step.group).reshape(-1)
        numbers = run_steps(line, (step,), unit).reshape(count, -1)
    return numbers


def _padded(rows: npt.NDArray[Any], multiple: int) -> npt.NDArray[Any]:
    """Every row with zeros to a multiple of that length."""
    missing = -rows.shape[1] % multiple
    if not missing:
        return np.ascontiguousarray(rows)
    padded = np.zeros((rows.shape[0], rows.shape[1] + missing), rows.dtype)
    padded[:, : rows.shape[1]] = rows
    return padded


@lru_cache(maxsize=4096)
def _live(step: MmaStep, length: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]] | None:
    """The dot products of an MMA that a short row reaches, and the order of their factors.

    With them those whose numbers lie between theirs; None where that makes all.
    """
    order = _order_array(step)
    while length < step.group:
        dots = np.flatnonzero((order < length).any(axis=0))
        mine = np.ascontiguousarray(order[:, dots])
        if mine.max() < mine.size:
            return (dots, mine) if len(dots) < step.dots else None
        length = int(mine.max()) + 1
    return None


def _live_dots(
    rows: npt.NDArray[Any], step: MmaStep, dots: npt.NDArray[np.int64], order: npt.NDArray[np.int64],
    unit: Unit | None,
) -> npt.NDArray[Any]:  # fmt: skip
    """The results of an MMA of which the other dot products add up zeros."""
    numbers = rows.astype(get_format(step.operand).dtype, copy=False)
    sums = multiply_tiles(_padded(numbers, order.size).reshape(-1), step, order, unit)
    results = np.zeros((rows.shape[0], step.dots), sums.dtype)
    results[:, dots] = sums.reshape(-1, len(dots))
    return results
