"""Proved bounds on the errors of matrix products, for arrays in the host's memory."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tcu.engines.host.matmul import as_read, factor
from tcu.formats.format import Format, format_of, get_format
from tcu.formats.tensor import is_tensor, operand_view
from tcu.model.ieee_environment import ieee
from tcu.model.mma import operand
from tcu.ops.matmul import FACTORS, MatmulCall, MatmulOptions, product_of
from tcu.plan.product_bounds import mass_of_products, product_error_bound
from tcu.units import ExactInteger, Unit

__all__ = ["matmul_error_bound"]

Values = npt.NDArray[np.float64]


@ieee
def matmul_error_bound(
    a: Any,
    b: Any,
    *,
    dtype: npt.DTypeLike | Any = None,
    plan: Literal["chunks", "chain"] = "chunks",
    rounding: Literal["nearest", "cut"] = "nearest",
    accumulator: str | None = None,
    scale_a: Any = None,
    scale_b: Any = None,
    bias: Any = None,
    unit: str | Unit | None = None,
) -> npt.NDArray[np.float64]:
    """Bounds on |tcu.matmul(a, b, ...) - exact product|, one for each number, with the parameters of :func:`tcu.matmul`.

    Proved from the plan, the unit and the sums of |a·b|
    (:func:`tcu.plan.product_error_bound`); what is lost when float32 becomes
    TF32 is computed.  Scales and bias count as they take part, in float32 or
    float64.  inf where an overflow cannot be excluded; NaN where inf or NaN is
    among the numbers that are multiplied.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> a = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float16)
    >>> errors = abs(tcu.matmul(a, a) - a.astype(np.float64) @ a.astype(np.float64))
    >>> (errors <= tcu.matmul_error_bound(a, a)).all()
    np.True_
    """
    x, y = (_array(name, each) for name, each in (("a", a), ("b", b)))
    formats = format_of(x.dtype).name, format_of(y.dtype).name
    options = MatmulOptions(plan, rounding, accumulator, unit, dtype)
    call = MatmulCall(x, y, scale_a, scale_b, bias, options)
    product = product_of(x.shape, y.shape, formats, options, factors=call.has_factors)
    row = product.instruction(unit)
    factors = [
        factor(name, None if given is None else _array(name, given), product.extent(name), product.plan)
        for name, given in zip(FACTORS, (scale_a, scale_b, bias), strict=True)
    ]
    with np.errstate(all="ignore"):
        left, right = (
            _Magnitudes(each.reshape(shape), product.plan) for each, shape in ((x, product.a), (y, product.b))
        )
        mass = mass_of_products(left.read, right.read)
        aligned = mass
        if left.has_subnormals or right.has_subnormals:
            aligned = mass_of_products(left.normal, right.normal)
        lost = product_error_bound(product.plan, row, mass, aligned)
        if not isinstance(row.arithmetic, ExactInteger) and row.arithmetic.flush_inputs:
            lost += aligned  # of which the subnormal ones are a part
        top = mass
        if "tf32" in product.plan.operands:
            lost += mass_of_products(left.lost, right.given) + mass_of_products(left.read, right.lost)
            top = mass_of_products(left.given, right.given)
        lost = _finished(
            lost,
            top,
            product.plan.accumulator,
            product.plan.outside,
            get_format(product.plan.result),
            *factors,
        )
        special = left.special.any(-1, keepdims=True) | right.special.any(-2, keepdims=True)
        return np.where(special, math.nan, lost).reshape(product.shape)


def _array(name: str, x: Any) -> npt.NDArray[Any]:
    return operand(name, operand_view(x, name) if is_tensor(x) else x)


class _Magnitudes:
    """Those of an operand: as given, as the unit reads it, and so on; where it is inf or NaN, 0."""

    def __init__(self, x: npt.NDArray[Any], plan: Any) -> None:
        fmt = get_format("tf32") if x.dtype == np.float32 else format_of(x.dtype)
        given, read = x.astype(np.float64), as_read(x, plan).astype(np.float64)
        self.special = ~np.isfinite(given)
        self.given = np.abs(np.where(self.special, 0.0, given))
        self.read = np.abs(np.where(self.special, 0.0, read))
        self.lost = np.abs(self.given - self.read)
        small = (self.read > 0) & (self.read < fmt.min_normal) if fmt.is_float else np.zeros(x.shape, bool)
        self.has_subnormals = bool(small.any())
        self.normal = np.where(small, fmt.min_normal, self.read) if self.has_subnormals else self.read


def _finished(
    lost: Values,
    top: Values,
    accumulator: str,
    outside: str,
    target: Format,
    scale_a: Any,
    scale_b: Any,
    bias: Any,
) -> Values:
    """With what steps 4 and 5 of the plan lose; top: at least the magnitudes of the exact sums."""
    wide, integers = get_format(outside), accumulator == "s32"
    u, tiny = wide.unit_roundoff, wide.min_subnormal
    scales = [
        np.abs(s.astype(np.float64))
        for s in (scale_a[..., None] if scale_a is not None else None, scale_b)
        if s is not None
    ]
    if scales or bias is not None:
        if integers:
            lost = lost + u * (top + lost)
        for scale in scales:
            lost, top = lost * scale + (u * (top + lost) * scale + tiny / 2), top * scale
            lost = np.where(top + lost > wide.max_finite, math.inf, lost)
        if bias is not None:
            top = top + np.abs(bias.astype(np.float64))
            lost = lost + u * (top + lost)
        lost = np.where(top + lost > wide.max_finite, math.inf, lost)
        integers = False
    if target.is_float and target.precision < (32 if integers else wide.precision):
        lost = np.where(
            (top == 0) & (lost == 0),
            0.0,
            lost + target.unit_roundoff * (top + lost) + target.min_subnormal / 2,
        )
    lost = np.where(top + lost > target.max_finite, math.inf, lost)
    return lost * (1 + 2.0**-40)  # the operations of this function itself
