"""``tcu.matmul`` for arrays in the host's memory: its plan, executed by the model of a unit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.engines.host.planned import encoded
from tcu.formats.format import format_of, get_format
from tcu.model.mma import multiply_in_chunks, operand
from tcu.ops.matmul import (
    FACTORS,
    MatmulCall,
    MatmulOptions,
    Product,
    check_factor,
    check_segments,
    product_by,
    product_of,
    segments_of,
)
from tcu.ops.offsets import checked_offsets
from tcu.ops.result import check_dtype, check_out, put
from tcu.plan.matmul import MatmulPlan
from tcu.units import Instruction, Unit

__all__ = ["as_operand", "as_read", "factor", "finished", "multiply", "multiply_by", "multiply_segments"]

Array = npt.NDArray[Any]


def multiply(call: MatmulCall) -> Any:
    """The product, in ``out`` if there is one.  Raises what :func:`tcu.matmul` raises."""
    a, b = operand("a", call.a), operand("b", call.b)
    formats = format_of(a.dtype).name, format_of(b.dtype).name
    given = call.out.dtype if isinstance(call.out, np.ndarray) else None
    product = product_of(a.shape, b.shape, formats, call.options, given, call.has_factors)
    plan, row = product.plan, product.instruction(call.options.unit)
    target = get_format(plan.result)
    if call.out is not None:
        check_out(call.out, product.shape)
        check_dtype(call.out, target)
    factors = [factor(name, getattr(call, name), product.extent(name), plan) for name in FACTORS]
    return put(_multiplied(product, row, a, b, factors), call.out)


def multiply_by(plan: MatmulPlan, a: Any, b: Any, unit: str | Unit | None = None) -> Array:
    """The product by a plan that is given, without scales and bias; raises ShapeError, DtypeError, UnknownNameError."""
    x, y = operand("a", a), operand("b", b)
    product = product_by(plan, x.shape, y.shape, (format_of(x.dtype).name, format_of(y.dtype).name))
    return _multiplied(product, product.instruction(unit), x, y, ())


def _multiplied(
    product: Product, row: Instruction, a: Array, b: Array, factors: Sequence[Array | None]
) -> Array:
    plan = product.plan
    x, y = as_operand(a.reshape(product.a), plan), as_operand(b.reshape(product.b), plan)
    if y.ndim == 2:  # rows of one batch fill tiles that those of several would not
        x = x.reshape(math.prod(x.shape[:-1]), x.shape[-1])
    result = finished(multiply_in_chunks(x, y, row, plan.chunk).reshape(product.matrix), plan, *factors)
    return result.reshape(product.shape)


def multiply_segments(x: Any, weights: Any, offsets: Any, options: MatmulOptions, out: Any) -> Any:
    """Each segment's rows times its matrix.  Raises what :func:`tcu.segment_matmul` raises."""
    rows, matrices = operand("x", x), operand("weights", weights)
    formats = format_of(rows.dtype).name, format_of(matrices.dtype).name
    given = out.dtype if isinstance(out, np.ndarray) else None
    product = segments_of(rows.shape, matrices.shape, formats, options, given)
    product.instruction(options.unit)
    target = get_format(product.plan.result)
    edges = checked_offsets(offsets, len(rows), "rows")
    check_segments(len(edges) - 1, len(matrices))
    if out is not None:
        check_out(out, product.shape)
        check_dtype(out, target)
    result = np.empty(product.shape, target.dtype)
    for matrix, first, last in zip(matrices, edges[:-1], edges[1:], strict=True):
        if first < last:
            multiply(MatmulCall(rows[first:last], matrix, options=options, out=result[first:last]))
    return put(result, out)


def factor(name: str, given: Any, extent: int, plan: MatmulPlan) -> Array | None:
    """A scale or the bias in the format in which it takes part, rounded to nearest."""
    if given is None:
        return None
    array = operand(name, given)
    if array.dtype == np.int64 and not array.ndim:  # a whole number of Python's
        array = array.astype(np.float64)
    check_factor(name, array.shape, format_of(array.dtype), extent)
    with np.errstate(all="ignore"):
        return array.astype(get_format(plan.outside).dtype, copy=False)


def as_operand(x: Array, plan: MatmulPlan) -> Array:
    """What the unit reads: numbers of binary32 are rounded to TF32 if the plan says so; else it cuts them itself."""
    if x.dtype != np.float32 or plan.rounding == "cut":
        return x
    return nearest_tf32(x)


def as_read(x: Array, plan: MatmulPlan) -> Array:
    """The numbers that the unit multiplies."""
    if x.dtype != np.float32 or plan.rounding == "nearest":
        return as_operand(x, plan)
    return (x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


def nearest_tf32(x: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Numbers of binary32 rounded to TF32, to nearest, ties to even; inf stays, and every NaN is one."""
    words = x.view(np.uint32)
    rounded = words + (np.uint32(0xFFF) + (words >> np.uint32(13) & np.uint32(1)))
    rounded &= np.uint32(0xFFFFE000)
    special = (words & np.uint32(0x7F800000)) == 0x7F800000
    if special.any():
        rounded[special] = np.where(np.isnan(x[special]), np.uint32(0x7FFFFFFF), words[special])
    return rounded.view(np.float32)


def finished(
    total: Array,
    plan: MatmulPlan,
    scale_a: Array | None = None,
    scale_b: Array | None = None,
    bias: Array | None = None,
) -> Array:
    """Steps 4 and 5 of the plan, from the sums of the chunks."""
    target = get_format(plan.result)
    if scale_a is None and scale_b is None and bias is None:
        if total.dtype == target.dtype and target.name != "binary32":
            return total  # of a NaN of binary64, the unit's own
        if total.dtype == np.int32:
            total = total.astype(np.float64)
    else:
        with np.errstate(all="ignore"):
            total = total.astype(get_format(plan.outside).dtype, copy=False)
            if scale_a is not None:
                total *= scale_a[..., None]
            if scale_b is not None:
                total *= scale_b
            if bias is not None:
                total += bias
    return encoded(total, target).view(target.dtype)
