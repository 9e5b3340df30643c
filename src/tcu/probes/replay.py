"""What a plan returns, that of a revealed function or one from a file: its results without the function."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.engines.host.matmul import multiply_by
from tcu.errors import ParameterError, ShapeError
from tcu.formats.format import format_of, get_format
from tcu.model.ieee_environment import ieee
from tcu.model.tree import evaluate_tree, rounded
from tcu.plan.matmul import MatmulPlan
from tcu.plan.plan import Plan
from tcu.plan.tree import TreeRegions, TreeStep
from tcu.units.instruction import Unit
from tcu.units.lookup import get_unit

__all__ = ["RUNNING", "check_no_unit", "is_running", "multiplies", "predict", "results_of", "tree_of"]

Values = npt.NDArray[Any]
RUNNING = "revealed running sums"
"""Variant of a plan of running sums."""


@ieee
def predict(plan: Plan | MatmulPlan, *arrays: Any, unit: str | Unit | None = None) -> Values:
    """The results of a plan whose one step is a tree, or of one of :func:`tcu.matmul`, signs of zeros included.

    x of shape (..., n), of which running sums are, too; of a plan of products
    x (..., n) and y (n,), or A (M, n) and B (n, N).  By a plan of tcu.matmul
    whatever that multiplies, on the model of a unit, None: "H100"; a tree has
    its arithmetic in itself, and takes none.  Raises ParameterError, ShapeError,
    DtypeError or UnknownNameError.
    """
    products = multiplies(plan)
    if len(arrays) != 1 + products:
        raise ParameterError(f"the plan takes {'two arrays' if products else 'one array'}, not {len(arrays)}")
    if isinstance(plan, MatmulPlan):
        a, b = arrays
        return multiply_by(plan, a, b, unit)
    step = tree_of(plan)
    check_no_unit(unit)
    given = [np.asarray(each) for each in arrays]
    shapes = ", ".join(str(each.shape) for each in given)
    if products:
        x, y = given
        if x.ndim not in (1, 2) or y.ndim not in (1, 2) or x.shape[-1] != plan.n or y.shape[0] != plan.n:
            raise ShapeError(f"arrays of shape {shapes}: the plan multiplies (M, {plan.n}) by ({plan.n}, N)")
        if isinstance(step, TreeRegions) and (*x.shape[:-1], *y.shape[1:]) != step.shape:
            raise ShapeError(f"arrays of shape {shapes}: the plan is of a product of shape {step.shape}")
        found = results_of(plan, x.reshape(1, -1, plan.n), y.reshape(1, plan.n, -1))
        return np.asarray(found.reshape(x.shape[:-1] + y.shape[1:]))
    (x,) = given
    if x.ndim < 1 or x.shape[-1] != plan.n:
        raise ShapeError(
            f"an array of shape {shapes}: the plan adds up {plan.n} numbers, along the last axis"
        )
    found = results_of(plan, x.reshape(-1, plan.n), None)
    return np.asarray(found.T.reshape(x.shape if is_running(plan) else x.shape[:-1]))


def check_no_unit(unit: str | Unit | None) -> None:
    """Raises ParameterError where a plan whose step is a tree is given a unit, UnknownNameError for one that does not exist."""
    if unit is not None:
        name = get_unit(unit).name
        raise ParameterError(f"unit={name!r}: this plan has its arithmetic in itself: leave unit out")


def multiplies(plan: Plan | MatmulPlan) -> bool:
    """Whether a plan is of products; raises ParameterError for a plan of other steps than a tree."""
    return isinstance(plan, MatmulPlan) or tree_of(plan).products


def is_running(plan: Plan) -> bool:
    """Whether a plan is of running sums, of one number, too."""
    return plan.variant == RUNNING


def tree_of(plan: Plan) -> TreeStep | TreeRegions:
    """The tree that is all of a plan; raises ParameterError for a plan of other steps."""
    steps = [step for part in plan.parts for step in part.steps]
    if len(steps) == 1 and isinstance(steps[0], TreeStep | TreeRegions) and not plan.final:
        return steps[0]
    raise ParameterError("the plan is no tree: run it on the model with tcu.sum, or save one of tcu.reveal's")


def results_of(plan: Plan, x: Values, y: Values | None) -> Values:
    """Of rows x (rows, n), or of products x (batch, M, n) and y (batch, n, N); raises ParameterError for other dtypes."""
    fmt, result = get_format(plan.input), get_format(plan.result)
    for array in (x, y):
        if array is not None and format_of(array.dtype) != fmt:
            raise ParameterError(f"an array of {array.dtype}: the plan takes {fmt.dtype}")
    with np.errstate(all="ignore"):
        return rounded(evaluate_tree(tree_of(plan), x, y), result)
