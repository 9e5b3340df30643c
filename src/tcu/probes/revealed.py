"""What is known of a function after the questions: its plan, the results and bounds by it, and where it is wrong."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tcu.errors import ParameterError
from tcu.formats.format import get_format
from tcu.plan.bounds import plan_error_bound
from tcu.plan.plan import Part, Plan
from tcu.plan.product_bounds import mass_of_products
from tcu.plan.tree import TreeStep
from tcu.probes.replay import predict, tree_of

__all__ = ["Revealed", "SpecialDifference", "SumCounterexample", "Verdict"]

Verdict = Literal["reproduced", "not a fixed tree", "outside"]
Values = npt.NDArray[Any]


@dataclass(frozen=True)
class SumCounterexample:
    """An input on which the best plan and the function differ, made as small as possible."""

    x: Values
    y: Values | None
    result: tuple[int, ...]
    """Where in the function's answer: () for a single number, (i,) of running sums, (i, j) of a product."""
    function: float
    plan: float


@dataclass(frozen=True)
class SpecialDifference:
    """Infinities, NaN or sums too large for their format, of which the function does not return what its plan does."""

    what: str
    """Such as "one NaN"."""
    x: Values
    y: Values | None
    result: tuple[int, ...]
    """Where in the function's answer, as in :class:`SumCounterexample`."""
    function: float | None
    """None where it raised an error."""
    plan: float
    raised: str = ""
    """The error, if there was one."""

    def __str__(self) -> str:
        answer = f"raises {self.raised}" if self.function is None else f"returns {self.function}"
        return f"for {self.what} it {answer}, the plan {self.plan}"


@dataclass(frozen=True)
class Revealed:
    """What is known about a function after the questions."""

    function: str
    kind: str
    shape: tuple[int, int, int]
    """(M, N, n)"""
    output: str
    """Format of the function's answers."""
    verdict: Verdict
    plan: Plan | None
    """The plan that returns every bit; of other verdicts the best one that was found, if any."""
    compared: int
    """Fresh results that were compared with the plan's."""
    different: int
    counterexample: SumCounterexample | None
    asked: int
    """Calls of the function in all."""
    conclusion: str
    special: tuple[SpecialDifference, ...] = ()
    """Where a plan that is found does not hold: one example of each kind of question after infinities, NaN and overflow."""

    def predict(self, *arrays: Any) -> Values:
        """What the function returns, by the plan, which must have been found; see :func:`predict`."""
        if self.plan is None:
            raise ParameterError(f"there is no plan of {self.function} to predict by: {self.conclusion}")
        return predict(self.plan, *arrays)

    def bound(self, *arrays: Any) -> Any:
        """A bound on |result by the plan - exact result|, for each result; inf where an overflow cannot be excluded."""
        if self.plan is None:
            raise ParameterError(f"there is no plan of {self.function} to bound: {self.conclusion}")
        plan, result = self.plan, get_format(self.output)
        x, *rest = (np.abs(np.asarray(each).astype(np.float64)) for each in arrays)
        top = float(np.max(x, initial=0)) * float(np.max(rest[0], initial=0) if rest else 1)

        def bounds(plan: Plan, mass: Any) -> Any:
            mass = np.atleast_1d(mass) * (1 + 2.0**-40 * plan.n)
            found = [
                plan_error_bound(plan, None, float(each), top, result, float(each)) for each in mass.flat
            ]
            return found[0] if len(found) == 1 else np.reshape(found, mass.shape)

        def mass_of(x: Values, y: Values) -> Values:
            found = mass_of_products(np.atleast_2d(x), y if y.ndim > 1 else y[:, None])
            return np.reshape(found, x.shape[:-1] + y.shape[1:])

        if self.kind == "cumsum":
            plans, mass = map(_one_result, [plan] * plan.n, range(plan.n)), x.cumsum(-1)
            columns = [bounds(each, mass[..., place]) for place, each in enumerate(plans)]
            return np.stack(columns, axis=-1).reshape(x.shape)
        if not rest:
            return bounds(plan, x.sum(-1))
        (y,) = rest
        if not tree_of(plan).flushes:
            return bounds(plan, mass_of(x, y))
        least = get_format(plan.input).min_normal
        read_x, read_y = (np.where(each < least, 0.0, each) for each in (x, y))
        # What the tree takes for zero, of any magnitude.
        unread = mass_of(x - read_x, y) + mass_of(read_x, y - read_y)
        return bounds(plan, mass_of(read_x, read_y)) + unread * (1 + 2.0**-40 * plan.n)


def _one_result(plan: Plan, number: int) -> Plan:
    """The part of a plan that one of several results comes from."""
    step = tree_of(plan)
    assert isinstance(step, TreeStep)
    root = step.roots[number]
    alone = replace(step, nodes=step.nodes[: max(root + 1 - step.leaves, 0)], roots=(root,))
    return replace(plan, parts=(Part(0, plan.n, (alone,)),))
