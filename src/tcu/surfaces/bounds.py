"""Proved bounds on the errors of sums, dot products and running sums, for arrays in the host's memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from tcu.engines import execute
from tcu.engines.host.planned import plan_of
from tcu.formats.format import Format, format_of, get_format
from tcu.formats.scalar import Number, decode, encode
from tcu.model.elements import Elements
from tcu.model.execute import pieces
from tcu.model.ieee_environment import ieee
from tcu.model.pairs import Pairs
from tcu.ops import CUMSUM, DOT, SUM
from tcu.ops.exact import SCALE, Accumulator, Tally, exact_sum, tally
from tcu.ops.exact_products import PRODUCT_SCALE, sum_of_products
from tcu.ops.info import scan_info
from tcu.ops.layout import WHOLE, Along, scan_axis
from tcu.ops.operation import Call, Operation
from tcu.ops.result import result_format
from tcu.plan import (
    DEFAULT_SCAN,
    DEFAULT_VARIANT,
    MmaScanPlan,
    Plan,
    make_scan_plan,
    mma_scan_error_bound,
    plan_error_bound,
    scan_error_bound,
)
from tcu.surfaces.signatures import REQUIRED, Parameters, dressed, keywords_of
from tcu.units import DEFAULT_UNIT, Unit, get_unit

__all__ = ["bound_of", "bound_of_moments", "cumsum_error_bound", "dot_error_bound", "error_bound"]

_PIECE = 1 << 22


@ieee
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

    Examples
    --------
    >>> import numpy as np, tcu
    >>> x = np.full(1000, 0.1, np.float32)
    >>> error = abs(float(tcu.sum(x)) - float(tcu.fsum(x, dtype=np.float64)))
    >>> error <= tcu.error_bound(x)
    True
    """
    elements = Elements.of(x)
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
    return plan_error_bound(plan, unit, total, top, format_of(dtype), total)


@ieee
def dot_error_bound(
    x: npt.ArrayLike, y: npt.ArrayLike, *, block: int | None = None, dtype: npt.DTypeLike | None = None
) -> float:
    """A bound on |tcu.dot(x, y, ...) - exact dot product|, with the parameters of :func:`tcu.dot`.

    Proved from n, max|x·y| and the sum of |x·y| alone
    (:func:`tcu.plan.plan_error_bound`), so it holds for every order of the
    pairs.  inf where an overflow cannot be excluded; NaN where x or y holds
    inf or NaN.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> x = np.full(1000, 0.1, np.float32)
    >>> error = abs(float(tcu.dot(x, x)) - float(tcu.fdot(x, x, dtype=np.float64)))
    >>> error <= tcu.dot_error_bound(x, x)
    True
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


_OF_MOMENTS = """A bound on |tcu.{name}(x, ...) - exact {what} of x|, with the parameters of :func:`tcu.{name}`.

Proved from n, the sums of |x - x[0]| and of its square, and the largest of
them.  inf where an overflow cannot be excluded, or where the correction leaves
nothing to divide by; NaN where x holds inf or NaN, or nothing.

Examples
--------
>>> import numpy as np, tcu
>>> x = np.arange(1000, dtype=np.float32)
>>> abs(float(tcu.{name}(x)) - float(tcu.f{name}(x, dtype=np.float64))) <= tcu.{name}_error_bound(x)
True
"""


def bound_of_moments(operation: Operation) -> Callable[..., Any]:
    """The function that bounds the error of a variance or of its root, as ``tcu.var_error_bound`` does."""
    variance = replace(operation, finish="variance")

    @ieee
    def bound(x: npt.ArrayLike, **options: Any) -> float:
        elements, given = Elements.of(x), operation.values(options)
        lost, top = _lost_of_variance(operation, elements, given)
        if operation.root:
            if lost and math.isfinite(lost):
                # |a - b| = |a^2 - b^2| / (a + b), and is at most the root of |a^2 - b^2|.
                value, _ = execute(Call(variance, (elements.array,), WHOLE, (*given[:-1], "float64")))
                least = math.sqrt(max(float(value) * (1 - 2.0**-50) - lost, 0.0))
                lost = min(math.sqrt(lost), lost / least if least else math.inf) * (1 + 2.0**-40)
            top = math.sqrt(top)
        return _rounded(lost, top, result_format(elements.format, given[-1]))

    name, what = operation.name, "standard deviation" if operation.root else "variance"
    documentation = _OF_MOMENTS.format(name=name, what=what)
    parameters: Parameters = [("x", REQUIRED, "npt.ArrayLike")]
    return dressed(
        bound, f"{name}_error_bound", "tcu", documentation, parameters, keywords_of(operation), "float"
    )


def _lost_of_variance(
    operation: Operation, elements: Elements, options: tuple[Any, ...]
) -> tuple[float, float]:
    """(a bound on the error of a variance before its rounding, a bound on the variance itself)"""
    plan, _ = plan_of(operation, elements.n, elements.format, options)
    n, unit = elements.n, get_format("binary64").unit_roundoff
    left = n - operation.correction(options)
    if not n:
        return math.nan, math.nan
    pivot, first, second, top = float(elements.read(0, 1)[0]), Tally(), Tally(), 0.0
    with np.errstate(all="ignore"):
        for start in range(0, n, _PIECE):
            piece = np.abs(elements.read(start, min(start + _PIECE, n)).astype(np.float64) - pivot)
            top = max(top, float(piece.max()))
            first = first.plus(exact_sum(piece, get_format("binary64")))
            second = second.plus(sum_of_products(piece, piece, get_format("binary64")))
    if (
        first.nans or first.positive
    ):  # which they are where x holds inf or NaN, or where a difference overflows
        finite = all(np.isfinite(elements.read(*piece)).all() for piece in pieces(n))
        return (math.inf, math.inf) if finite else (math.nan, math.nan)
    if not first.integer:
        return (0.0, 0.0) if left > 0 else (math.nan, math.nan)
    # Of deviations that were rounded once, hence the factors.
    mass = _rounded_up(first.number(SCALE)) * (1 + 4 * unit)
    squares = _rounded_up(second.number(PRODUCT_SCALE)) * (1 + 8 * unit)
    wide, double = replace(plan, input="binary64"), get_format("binary64")
    of_sum = plan_error_bound(wide, None, mass, top, double, mass) + unit * mass
    of_squares = (
        plan_error_bound(wide, None, squares, top * top * (1 + 4 * unit), double, squares)
        + 3 * unit * squares
    )
    of_square = (2 * mass * of_sum + of_sum * of_sum + 3 * unit * (mass + of_sum) * (mass + of_sum)) / n
    lost = of_squares + of_square + double.min_normal * n  # the last for what underflows on the way
    lost += 2 * unit * (squares + lost)
    if left <= 0 or not math.isfinite(lost):
        return math.inf, math.inf
    return lost / left * (1 + 2.0**-40) + double.min_normal, (squares + lost) / left


def _rounded(lost: float, top: float, target: Format) -> float:
    """With the rounding to the result of what is at most ``top``."""
    if lost == 0 or math.isnan(lost):
        return lost
    if top + lost > target.max_finite:
        return math.inf
    unit = target.unit_roundoff + 2 * get_format("binary64").unit_roundoff
    return (lost + unit * (top + lost) + target.min_subnormal / 2) * (1 + 2.0**-40)


@ieee
def cumsum_error_bound(
    x: Any,
    axis: SupportsIndex | None = None,
    *,
    exclusive: bool = False,
    reverse: bool = False,
    unit: str | Unit | None = None,
    variant: str = DEFAULT_SCAN,
    chain: int | None = None,
    accumulator: str | None = None,
    dtype: npt.DTypeLike | None = None,
) -> npt.NDArray[np.float64]:
    """Bounds on |tcu.cumsum(x, ...) - exact running sums of x|, one for each result, for an array on the host.

    From the running sums of |x| and the plan alone
    (:func:`tcu.plan.scan_error_bound`, of variants with MMAs :func:`tcu.plan.mma_scan_error_bound`, which also
    takes the row's sum of |x| and max|x|); inf where an overflow cannot be excluded, NaN where inf or NaN is among
    the elements that are summed, of variants with MMAs among those of the row.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> x = np.full(1000, 0.1, np.float32)
    >>> errors = abs(tcu.cumsum(x).astype(np.float64) - tcu.fcumsum(x.astype(np.float64)))
    >>> (errors <= tcu.cumsum_error_bound(x)).all()
    np.True_
    """
    elements = Elements(x)
    number = scan_axis(Along(axis), elements.array.ndim)
    way: dict[str, Any] = {"unit": unit, "variant": variant, "chain": chain, "accumulator": accumulator}
    plan = scan_info(elements.array.shape, number, elements.format, **way).plan
    target = result_format(elements.format, dtype)
    with np.errstate(all="ignore"):
        values = elements.array.astype(np.float64)
        special = ~np.isfinite(values)
        values[special] = 0.0
        # These scans are of binary64.
        options = CUMSUM.values({"exclusive": exclusive, "reverse": reverse})
        growth = 2 * make_scan_plan(plan.n, "binary64").depth * 2.0**-53
        sums, mass, specials = (
            execute(Call(CUMSUM, (numbers,), Along(number), options))[0]
            for numbers in (values, np.abs(values), special.astype(np.float64))
        )
        mass = mass * (1 + growth)
        exact = np.abs(sums) + growth * mass
        if isinstance(plan, MmaScanPlan):
            chosen = get_unit(DEFAULT_UNIT if unit is None else unit)
            magnitudes = np.abs(values)
            top = magnitudes.max(number, keepdims=number is not None, initial=0.0)
            total = magnitudes.sum(number, keepdims=number is not None) * (1 + plan.n * 2.0**-52)
            bound = mma_scan_error_bound(plan, chosen, mass, exact, total, top, target)
            specials = special.any(number, keepdims=number is not None) & np.ones(mass.shape, np.bool_)
        else:
            bound = scan_error_bound(plan, mass, exact, target)
        # Nor where sums overflow on the way, whose difference is NaN.
        bound = np.where(exact + bound <= target.max_finite, bound, math.inf)
        return np.asarray(np.where(specials > 0, math.nan, np.where(mass == 0, 0.0, bound)))
