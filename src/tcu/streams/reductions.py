"""Operations on all numbers of files: the totals that each takes in a pass, and its result."""

from __future__ import annotations

from typing import Any

from tcu.engines.host.planned import encoded, plan_of
from tcu.formats.format import Format
from tcu.ops.finish import finish_totals
from tcu.ops.operation import Operation
from tcu.streams.totals import ExactProducts, ExactTotal, OwnTotal, PlannedMoments, PlannedTotal, Total
from tcu.surfaces.shares import Share, rounded_share

__all__ = ["result_of", "totals_of"]


def totals_of(operation: Operation, numbers: Any, element: Format, options: tuple[Any, ...]) -> list[Total]:
    """What a pass over numbers, or pairs, of a format must find out; raises what the options deserve."""
    if operation.arithmetic == "own":
        return [OwnTotal(operation, element)]
    if operation.exact:
        return [ExactProducts() if product else ExactTotal() for product in operation.tallies]
    plan, unit = plan_of(operation, numbers.n, element, options)
    if operation.moments:  # about the first number, which is read before the others
        return [PlannedMoments(plan, unit, float(numbers.read(0, 1)[0]) if numbers.n else 0.0)]
    return [PlannedTotal(plan, unit, operation.product)]


def result_of(operation: Operation, n: int, totals: Any, target: Format, options: tuple[Any, ...]) -> Any:
    """A NumPy scalar, once the pass is over; raises InvalidOperationError where an exact sum has no value."""
    if operation.exact:
        return rounded_share(operation, Share(n, *(total.sum.tally for total in totals)), target, options)
    (total,) = totals
    own = operation.arithmetic == "own"
    correction = operation.correction(options)
    values = total.values(n) if own else finish_totals(operation, total.totals(), n, correction)
    return encoded(values, target).view(target.dtype)[0]
