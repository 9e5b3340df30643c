"""The derivatives of exponentials over their sum, of the logarithms of both, and of norms of rows.

What they add up along rows is added by tcu's plan of the row, so that gradients, too, have the same bits in every batch.
Where nobody watches, as in a usual backward pass, a GPU does all of it in one launch (tcu/gpu/row_gradients.py), with the same bits.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from tcu.engines import load_cuda
from tcu.plan.row_lifts import BETWEEN, BETWEEN64, most_lift
from tcu.surfaces.torch.derivative import (
    Derivative,
    keep,
    keep_axes,
    less_mean,
    recorded_of_segments,
    softmax_along,
    spread,
    sum_along,
    total_of_rows,
    wide_dtype,
    with_axes,
)
from tcu.surfaces.torch.elementary import quotient, square_root
from tcu.surfaces.torch.watch import is_unwatched_on_gpu

__all__ = ["OF_MAPS", "OfLogSumExp", "OfRowNorm", "OfSegmentLogSumExp", "OfSegmentSoftmax"]


class OfMap(Derivative):
    """A derivative along rows or segments whose Jacobian is made of x or the result, in at least binary32."""

    saves_result = False

    @classmethod
    def setup_context(cls, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        keep(ctx, inputs, output, output if cls.saves_result else inputs[0])
        ctx.axis = inputs[1]

    @staticmethod
    def wide(ctx: Any, given: Any) -> tuple[Any, Any]:
        """What was kept, and what the Jacobian is multiplied by."""
        kept, *_ = ctx.saved_tensors
        kind = wide_dtype(given.dtype, kept.dtype)
        return kept.to(kind), given.to(kind)

    @classmethod
    def times(cls, ctx: Any, given: Any) -> Any:
        """The Jacobian times a row."""
        raise NotImplementedError

    @classmethod
    def backward(cls, ctx: Any, gradient: Any) -> tuple[Any, ...]:
        """Of symmetric Jacobians."""
        return cls.times(ctx, gradient).to(ctx.dtype), *ctx.rest

    @classmethod
    def jvp(cls, ctx: Any, tangent: Any, *_: Any) -> Any:
        return cls.times(ctx, tangent).to(ctx.result_dtype)


class OfRows(OfMap):
    """Of rows along an axis, whose gradients a GPU's kernel makes in one launch where nobody watches."""

    @classmethod
    def setup_context(cls, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        super().setup_context(ctx, inputs, output)
        ctx.eps = 0.0

    @classmethod
    def backward(cls, ctx: Any, gradient: Any) -> tuple[Any, ...]:
        found, kept = None, ctx.saved_tensors[0]
        if is_unwatched_on_gpu(kept, gradient):
            found = load_cuda().row_gradient(
                cls.operation.finish, gradient, kept, ctx.axis % kept.dim(), float(ctx.eps), ctx.dtype
            )  # fmt: skip
        return (cls.transposed_times(ctx, gradient).to(ctx.dtype) if found is None else found), *ctx.rest

    @classmethod
    def transposed_times(cls, ctx: Any, given: Any) -> Any:
        """Of symmetric Jacobians the same."""
        return cls.times(ctx, given)


class OfSoftmax(OfRows):
    saves_result = True

    @classmethod
    def times(cls, ctx: Any, given: Any) -> Any:
        y, given = cls.wide(ctx, given)
        return y * (given - sum_along(given * y, ctx.axis))


class OfLogSoftmax(OfRows):
    """The softmax is computed again: the exponentials of its logarithms would be a library's."""

    @classmethod
    def transposed_times(cls, ctx: Any, given: Any) -> Any:
        x, given = cls.wide(ctx, given)
        return given - softmax_along(x, ctx.axis) * sum_along(given, ctx.axis)

    @classmethod
    def times(cls, ctx: Any, given: Any) -> Any:
        x, given = cls.wide(ctx, given)
        return given - sum_along(softmax_along(x, ctx.axis) * given, ctx.axis)


OF_MAPS = {"share": OfSoftmax, "log_share": OfLogSoftmax}


class OfRowNorm(OfRows):
    """r·(g - y·mean(g·y)), less r·mean(g) of rows that are centred; of rows over their norm sums stand for the means."""

    @classmethod
    def setup_context(cls, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        super().setup_context(ctx, inputs, output)
        wide = np.float64 if torch.float64 in (inputs[0].dtype, output.dtype) else np.float32
        ctx.eps = cls.operation.eps((inputs[2], None), wide)

    @classmethod
    def times(cls, ctx: Any, given: Any) -> Any:
        """Of rows that are multiplied by powers of two, and so are their gradients: no square leaves the format."""
        (x, given), axis = cls.wide(ctx, given), ctx.axis
        n, is_direction = x.shape[axis], cls.operation.finish == "direction"
        if not n:
            return given
        lift = _lifts(x, axis, most_lift(ctx.eps, is_direction))
        x = x * lift
        if cls.operation.finish == "standard":
            x, given = (less_mean(each, lambda x: quotient(sum_along(x, axis), n)) for each in (x, given))
        squares = sum_along(x.square(), axis)
        # Equal numbers, whose lifted eps might underflow.
        lift = lift.masked_fill(squares == 0, 1)
        wide = lift.double()
        if is_direction:
            eps = (ctx.eps * wide).to(x.dtype)
            norm = square_root(squares)
            over = 1 / norm.clamp(min=eps)
            y = x * over
            return lift * (over * (given - y * (sum_along(given * y, axis) * (norm > eps))))
        eps = (ctx.eps * wide * wide).to(x.dtype)
        over = 1 / square_root(quotient(squares, n) + eps)
        y = x * over
        return lift * (over * (given - y * quotient(sum_along(given * y, axis), n)))


def _lifts(x: Any, axis: int, most: float) -> Any:
    """What rows are multiplied by, as :mod:`tcu.plan.row_lifts` says, up to ``most``; 1 where they are not finite."""
    least, greatest = (2.0 ** (each - 1) for each in (BETWEEN64 if x.dtype == torch.float64 else BETWEEN))
    largest = x.detach().abs().amax(axis, keepdim=True)
    usual = largest.isfinite() & (largest > 0)
    below = largest / (2 * torch.frexp(largest).mantissa)  # a power of two
    return (
        (below.clamp(least, greatest) / below).clamp(max=min(most, torch.finfo(x.dtype).max)).where(usual, 1)
    )


class OfLogSumExp(Derivative):
    """The softmax of x, and 0 where all of a row is -inf."""

    @classmethod
    def setup_context(cls, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        keep(ctx, inputs, output, inputs[0], output)
        keep_axes(ctx, *inputs)

    @classmethod
    def shares(cls, ctx: Any) -> Any:
        x, result = ctx.saved_tensors
        wide = x.to(wide_dtype(x.dtype, result.dtype))
        axes, last = ctx.axes, tuple(range(-len(ctx.axes), 0))
        rows = wide.movedim(axes, last)
        line = rows.reshape(*rows.shape[: rows.dim() - len(axes)], ctx.n)
        shares = softmax_along(line, -1).reshape(rows.shape).movedim(last, axes)
        return shares.masked_fill(with_axes(ctx, result) == -math.inf, 0)

    @classmethod
    def backward(cls, ctx: Any, gradient: Any) -> tuple[Any, ...]:
        found, (x, result) = None, ctx.saved_tensors
        # A result that is narrower than x may be -inf where not all of a row is.
        serves = result.dtype in (x.dtype, torch.float32) and len(ctx.axes) == 1
        if serves and is_unwatched_on_gpu(x, gradient):
            factors = gradient.detach().to(torch.float32)
            found = load_cuda().log_gradient("log", x, ctx.axes[0], factors, None, ctx.dtype)
        if found is None:
            found = (with_axes(ctx, gradient) * cls.shares(ctx)).to(ctx.dtype)
        return found, *ctx.rest

    @classmethod
    def jvp(cls, ctx: Any, tangent: Any, *_: Any) -> Any:
        shares = cls.shares(ctx)
        return total_of_rows(ctx, shares * tangent.to(shares.dtype)).to(ctx.result_dtype)


class OfSegmentSoftmax(OfMap):
    @classmethod
    def setup_context(cls, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        keep(ctx, inputs, output, output, inputs[1])

    @classmethod
    def times(cls, ctx: Any, given: Any) -> Any:
        (y, given), offsets = cls.wide(ctx, given), ctx.saved_tensors[1]
        return y * (given - spread(recorded_of_segments("segment_sum", given * y, offsets), offsets, y))


class OfSegmentLogSumExp(Derivative):
    """The softmax of each segment, and 0 where all of it is -inf."""

    @classmethod
    def setup_context(cls, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        keep(ctx, inputs, output, inputs[0], output, inputs[1])

    @classmethod
    def shares(cls, ctx: Any) -> Any:
        x, result, offsets = ctx.saved_tensors
        wide = x.to(wide_dtype(x.dtype, result.dtype))
        shares = recorded_of_segments("segment_softmax", wide, offsets)
        return shares.masked_fill(spread(result == -math.inf, offsets, x), 0)

    @classmethod
    def backward(cls, ctx: Any, gradient: Any) -> tuple[Any, ...]:
        given = spread(gradient, ctx.saved_tensors[2], ctx.saved_tensors[0])
        return (given * cls.shares(ctx)).to(ctx.dtype), *ctx.rest

    @classmethod
    def jvp(cls, ctx: Any, tangent: Any, *_: Any) -> Any:
        shares = cls.shares(ctx)
        return recorded_of_segments(
            "segment_sum", shares * tangent.to(shares.dtype), ctx.saved_tensors[2]
        ).to(ctx.result_dtype)
