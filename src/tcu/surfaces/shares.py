"""Reductions of arrays that lie in several places: each block's share, their exact merging, and the result.

A share is exact: of exact operations the numbers or products of a block, added
up without rounding; of planned ones the block's total, or its moments, by the
plan of its own length, in binary64.  So merging has no order.  The exact
reductions depend on the numbers alone; the planned ones on which numbers form a
block: the blocks' totals are added exactly and rounded to binary64, and from
there on it is as for one array.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tcu.engines import execute, load_cuda
from tcu.engines.host.exact import tallies_of
from tcu.engines.host.planned import plan_of
from tcu.engines.host.source import source_of
from tcu.errors import InvalidOperationError, ParameterError
from tcu.formats.array import lives_on_gpu
from tcu.formats.format import Format, get_format
from tcu.model.elements import Elements
from tcu.model.ieee_environment import ieee
from tcu.model.moments import moments
from tcu.ops import DOT, SUM
from tcu.ops.exact import SCALE, Tally, exact_sum
from tcu.ops.exact_products import PRODUCT_SCALE
from tcu.ops.finish import finish_exactly, finish_totals
from tcu.ops.layout import WHOLE, reduced_shape
from tcu.ops.operation import Call, Operation
from tcu.ops.result import round_number, round_sum

__all__ = ["Share", "merged", "rounded_share", "row_shares", "share_of", "share_of_total", "total_call"]


class Share(NamedTuple):
    """What a block contributes."""

    n: int = 0
    tally: Tally = Tally()
    """In units of 2^:func:`scale_of`."""
    squares: Tally = Tally()
    """Of moments, in units of products."""


@ieee
def share_of(operation: Operation, arrays: Sequence[Any], options: Sequence[Any]) -> Share:
    """The share of a block, on the CPU or on the GPU where it lies, which is waited for.

    ``options`` in the order in which they travel; the result's dtype among them has no say here.
    """
    on_gpu = lives_on_gpu(arrays[0])
    if operation.moments and on_gpu:
        raise ParameterError(
            f"{operation} of an array in several places is added up in the host's memory: copy its parts there, with "
            "x.cpu() or cupy.asnumpy(x)"
        )
    if operation.exact:
        if on_gpu:
            return Share(*load_cuda().sums.exact_tally(arrays, operation.product))
        n, found = tallies_of(operation, source_of(operation, arrays))
        return Share(n, *found)
    if operation.moments:
        return _share_of_moments(operation, arrays[0], options)
    total, _ = execute(total_call(operation, arrays, options))
    return share_of_total(math.prod(arrays[0].shape), float(total))


def row_shares(
    operation: Operation, arrays: Sequence[Any], axes: Sequence[int], options: Sequence[Any], mask: Any = None
) -> npt.NDArray[Any]:
    """The share of every row along axes: an object array of :class:`Share`, of x's shape with length 1 there.

    With a ``mask``, of the elements where it is true.
    """
    found = np.empty(reduced_shape(tuple(arrays[0].shape), tuple(axes), keepdims=True), object)
    for where in np.ndindex(found.shape):
        place = tuple(slice(None) if i in axes else at for i, at in enumerate(where))
        rows = [x[place] if mask is None else x[place][mask[place]] for x in arrays]
        found[where] = share_of(operation, rows, options)
    return found


def _share_of_moments(operation: Operation, x: Any, options: Sequence[Any]) -> Share:
    """The exact sums of elements and of squares that a block's moments by its plan stand for."""
    elements = Elements(x)
    plan, _ = plan_of(operation, elements.n, elements.format, tuple(options))
    pivot, found = moments(plan, elements)
    values = (pivot, *found.tolist())
    if not all(map(math.isfinite, values)):
        return Share(elements.n, Tally(nans=1), Tally(nans=1))
    n, (at, first, second) = elements.n, map(Fraction, values)
    sums = first + n * at, second + 2 * at * first + n * at * at
    return Share(
        n, *(Tally(int(each * 2**-scale)) for each, scale in zip(sums, (SCALE, PRODUCT_SCALE), strict=True))
    )


def total_call(operation: Operation, arrays: Sequence[Any], options: Sequence[Any]) -> Call:
    """What the plan of an operation adds up of whole arrays, in binary64."""
    whole = DOT if operation.product else SUM
    given = (arrays[0], arrays[-1]) if operation.product else (arrays[0],)
    return Call(whole, given, WHOLE, (*options[: len(whole.options) - 1], "float64"))


def share_of_total(n: int, total: float) -> Share:
    """The share of a block whose total is known, in binary64."""
    return Share(n, exact_sum(np.array([total]), get_format("binary64")))


def merged(shares: Iterable[Share]) -> Share:
    """All of them, in any order."""
    n, tally, squares = Share()
    for share in shares:
        n += share.n
        tally, squares = tally.plus(share.tally), squares.plus(share.squares)
    return Share(n, tally, squares)


@ieee
def rounded_share(operation: Operation, share: Share, target: Format, options: Sequence[Any] = ()) -> Any:
    """The result, a NumPy scalar.

    Raises InvalidOperationError where an exact reduction meets inf and -inf.
    """
    if operation.exact or operation.moments:
        correction = operation.correction(options)
        return round_number(finish_exactly(operation, share[1:], share.n, correction), target)
    try:
        total = float(round_number(share.tally.number(SCALE), None))
    except InvalidOperationError:
        total = math.nan
    return round_sum(float(finish_totals(operation, np.array([[total]]), share.n)[0]), target)
