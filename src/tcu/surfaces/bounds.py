"""Proved bounds on the errors of sums, dot products and running sums, for arrays in the host's memory."""

from __future__ import annotations

import math
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from tcu.engines import execute
from tcu.engines.host.planned import plan_of
from tcu.formats.format import format_of
from tcu.formats.scalar import Number, decode, encode
from tcu.model.elements import Elements
from tcu.model.execute import pieces
from tcu.model.pairs import Pairs
from tcu.ops import CUMSUM, DOT, SUM
from tcu.ops.exact import Accumulator, exact_sum, tally
from tcu.ops.exact_products import PRODUCT_SCALE, sum_of_products
from tcu.ops.info import scan_info
from tcu.ops.layout import Along, scan_axis
from tcu.ops.operation import Call
from tcu.ops.result import result_format
from tcu.plan import DEFAULT_VARIANT, Plan, make_scan_plan, plan_error_bound, scan_error_bound
from tcu.units import Unit

__all__ = ["bound_of", "cumsum_error_bound", "dot_error_bound", "error_bound"]

_PIECE = 1 << 22


def error_bound(
    x: Any,
    *,
    unit: str | Unit | None = None,
    variant: str = DEFAULT_VARIANT,
    chain: int | None = None,
    block: int | None = None,
    accumulator: str | None = None,
    fraction: float | None = None,
    dtype: npt.DTypeLike | None = None,
) -> float:
    """A bound on |tcu.sum(x, ...) - exact sum of x|, with the parameters of :func:`tcu.sum`.

    Proved from n, max|x| and the sum of |x| alone
    (:func:`tcu.plan.plan_error_bound`), so it holds for every order of the
    elements.  inf where an overflow cannot be excluded; NaN where x holds inf
    or NaN.
    """
    elements = x if isinstance(x, Elements) else Elements(x)
    options = (unit, variant, chain, block, accumulator, fraction, dtype)
    plan, chosen = plan_of(SUM, elements.n, elements.format, options)
    target = result_format(elements.format, dtype)
    mass, top = Accumulator(), 0.0
    for start in range(0, elements.n, _PIECE):
        with np.errstate(invalid="ignore"):  # signalling NaN
            piece = np.abs(elements.read(start, min(start + _PIECE, elements.n)))
            top = max(top, float(piece.max()))
        mass.add_tally(piece.size, exact_sum(piece, elements.format))
    return bound_of(plan, chosen, mass, top, target.dtype)


def bound_of(plan: Plan, unit: Unit, mass: Accumulator, top: float, dtype: npt.DTypeLike) -> float:
    """The bound from the exact sum of all |x| and the largest of them."""
    if mass.nans or mass.positive_infinities:
        return math.nan
    rounded = float(mass.value())
    total = math.nextafter(rounded, math.inf) if rounded else 0.0
    # |exact sum| is at most the mass.
    return plan_error_bound(plan, unit, total, top, format_of(np.dtype(dtype)), total)


def dot_error_bound(
    x: npt.ArrayLike, y: npt.ArrayLike, *, block: int | None = None, dtype: npt.DTypeLike | None = None
) -> float:
    """A bound on |tcu.dot(x, y, ...) - exact dot product|, with the parameters of :func:`tcu.dot`.

    Proved from n, max|x·y| and the sum of |x·y| alone
    (:func:`tcu.plan.plan_error_bound`), so it holds for every order of the
    pairs.  inf where an overflow cannot be excluded; NaN where x or y holds
    inf or NaN.
    """
    pairs = Pairs(x, y)
    plan, _ = plan_of(DOT, pairs.n, pairs.format, (block, dtype))
    target = result_format(pairs.format, dtype)

    def magnitudes(start: int, stop: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        first, second = pairs.read(start, stop)
        return np.abs(first), np.abs(second)

    with np.errstate(all="ignore"):
        exact = tally(pairs.n, lambda start, stop: sum_of_products(*magnitudes(start, stop), pairs.format))
        if exact.nans or exact.positive:
            return math.nan
        top = max((_largest_product(*magnitudes(*piece)) for piece in pieces(pairs.n)), default=0.0)
    mass = _rounded_up(exact.number(PRODUCT_SCALE))
    # |exact dot product| is at most the mass.
    return plan_error_bound(plan, None, mass, top, target, mass)


def _largest_product(x: npt.NDArray[Any], y: npt.NDArray[Any]) -> float:
    """At least the largest product of two numbers, none of them negative."""
    return math.nextafter(float((x.astype(np.float64) * y.astype(np.float64)).max()), math.inf)


def _rounded_up(number: Number) -> float:
    """The smallest binary64 number that is not below ``number``."""
    return float(decode(encode(number, "binary64", "RU"), "binary64"))


def cumsum_error_bound(
    x: Any,
    axis: SupportsIndex | None = None,
    *,
    exclusive: bool = False,
    reverse: bool = False,
    dtype: npt.DTypeLike | None = None,
) -> npt.NDArray[np.float64]:
    """Bounds on |tcu.cumsum(x, ...) - exact running sums of x|, one for each result, for an array on the host.

    From the running sums of |x| and the plan's depth alone
    (:func:`tcu.plan.scan_error_bound`); inf where an overflow cannot be
    excluded, NaN where inf or NaN is among the elements that are summed.
    """
    elements = Elements(x)
    number = scan_axis(Along(axis), elements.array.ndim)
    plan = scan_info(elements.array.shape, number, elements.format).plan
    target = result_format(elements.format, dtype)
    with np.errstate(all="ignore"):
        values = elements.array.astype(np.float64)
        special = ~np.isfinite(values)
        values[special] = 0.0
        # These scans are of binary64.
        growth = 2 * make_scan_plan(plan.n, "binary64").depth * 2.0**-53
        sums, mass, specials = (
            execute(Call(CUMSUM, (numbers,), Along(number), (exclusive, reverse, None)))[0]
            for numbers in (values, np.abs(values), special.astype(np.float64))
        )
        mass = mass * (1 + growth)
        exact = np.abs(sums) + growth * mass
        bound = scan_error_bound(plan, mass, exact, target)
        # Nor where sums overflow on the way, whose difference is NaN.
        bound = np.where(exact + bound <= target.max_finite, bound, math.inf)
        return np.asarray(np.where(specials > 0, math.nan, np.where(mass == 0, 0.0, bound)))
