"""Contract of sums along axes that are not the last, as far as it can be seen without a GPU.

Leaves that come together level by level, as the kernel takes them, give the
bits of the plan; an array is seen as columns exactly where every element is found so.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from numbers_of_all_kinds import draw

from tcu.engines.cuda.rows import side_by_side
from tcu.formats import format_of
from tcu.gpu.arrays import DeviceArray
from tcu.gpu.columns import leaf_rows, levels_of
from tcu.model.rows import execute_rows
from tcu.plan import make_plan
from tcu.units import get_unit

UNIT = get_unit("H200")


def level_by_level(leaf: Any, length: int, steps: Any) -> npt.NDArray[np.float64]:
    """As sum_below in cuda/kernels/columns.cu."""
    levels = [rows for rows in levels_of(steps) if rows < length]

    def below(level: int, row: int) -> npt.NDArray[np.float64]:
        if level == 0:
            return np.asarray(leaf(row))
        return below(level - 1, row) + below(level - 1, row + levels[level - 1])

    return below(len(levels), 0)


def leaf(x: npt.NDArray[Any], plan: Any, period: int, row: int) -> npt.NDArray[np.float64]:
    """The sums of a leaf's rows, those of a turn by the plan."""
    found = np.zeros(len(x))
    for at in range(row, x.shape[1] if row < period else 0, period):
        turn = np.zeros((len(x), plan.n), x.dtype)
        turn[:, : min(plan.n, x.shape[1] - at)] = x[:, at : at + plan.n]
        found += execute_rows(plan, turn, UNIT)
    return found


@pytest.mark.parametrize("block", [32, 96, 256, 1024])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_leaves_come_together_as_in_the_plan(dtype: Any, block: int) -> None:
    period = block * 16 // np.dtype(dtype).itemsize
    # What two accumulators add up over several turns is no sum of the model's: there, one turn.
    turns = (2 * period + 7, 8 * period) if dtype is not np.float16 else ()
    for n in (1, 2, 3, 31, 33, 100, period // 2, period - 5, period, *turns):
        x = draw(np.random.default_rng(n), 5 * n, dtype, "spread").reshape(5, n)
        plan = make_plan(n, format_of(dtype), UNIT, block=block)
        steps = plan.parts[0].steps
        rows = leaf_rows(steps)
        small = make_plan(rows, format_of(dtype), UNIT, block=block)

        found = level_by_level(partial(leaf, x, small, period), min(n, period), steps)
        assert np.array_equal(found + 0.0, execute_rows(plan, x, UNIT)), n


@pytest.mark.parametrize("chunks", [2, 3, 33, 255, 257, 1000])
def test_chunks_come_together_as_in_the_plan(chunks: int) -> None:
    plan = make_plan(chunks * 8 * 256 * 2, format_of(np.float64), UNIT)
    totals = draw(np.random.default_rng(chunks), chunks, np.float64, "spread")

    x = np.zeros((1, plan.n))
    x[0, :: plan.n // chunks] = totals
    one = make_plan(1, format_of(np.float64), UNIT)
    found = level_by_level(partial(leaf, totals[None], one, plan.block), min(chunks, plan.block), plan.final)
    assert np.array_equal(found, execute_rows(plan, x, None))


def seen(x: npt.NDArray[Any], kept: tuple[int, ...], axes: tuple[int, ...]) -> npt.NDArray[Any] | None:
    """The array as (columns, rows), read through the strides that the kernel would take."""
    strides = tuple(step // x.itemsize for step in x.strides)
    view = DeviceArray(x.ctypes.data, x.shape, strides, x.dtype, 0, x)
    columns = side_by_side(view, kept, axes)
    if columns is None:
        return None
    length = int(np.prod([x.shape[axis] for axis in axes]))
    steps = (columns.outer_stride, columns.stride, 1)
    shape = (columns.outer, length, columns.inner)
    whole = np.lib.stride_tricks.as_strided(x, shape, tuple(step * x.itemsize for step in steps))
    return whole.transpose(0, 2, 1).reshape(-1, length)


def test_which_arrays_are_columns() -> None:
    x = np.arange(4 * 6 * 5 * 8, dtype=np.float32).reshape(4, 6, 5, 8)
    cases: list[tuple[npt.NDArray[Any], tuple[int, ...], bool]] = [
        (x, (0,), True), (x, (1,), True), (x, (2,), True), (x, (0, 1), True), (x, (1, 2), True),
        (x, (3,), False),  # rows
        (x, (0, 2), False),  # whose rows do not lie in even steps
        (x[:, :, ::2], (1,), False), (x[:, ::2], (1,), True), (x[:, :, :, :5], (2,), True), (x[:, ::-1], (1,), True),
        (x[:, :, :, ::2], (1,), False),  # no neighbours
        (x.transpose(0, 1, 3, 2), (1,), False), (x.transpose(3, 0, 1, 2), (0,), False),
        (x.transpose(2, 0, 1, 3), (0,), True), (x[0, 0].T, (1,), True),
        (x[:, :1, 0, :1], (0,), False),  # one alone
        (x[0].reshape(30, 8)[:, :].T.copy().T, (1,), True),
        (np.broadcast_to(x[0, 0], (7, 5, 8)), (0,), True),
    ]  # fmt: skip
    for given, axes, expected in cases:
        kept = tuple(axis for axis in range(given.ndim) if axis not in axes)
        found = seen(given, kept, axes)
        assert (found is not None) == expected, (given.shape, given.strides, axes)
        if found is not None:
            length = int(np.prod([given.shape[axis] for axis in axes]))
            assert np.array_equal(found, given.transpose(kept + axes).reshape(-1, length))
