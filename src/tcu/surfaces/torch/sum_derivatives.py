"""The derivatives of sums, means, products, norms, variances and running sums, of rows and of segments."""

from __future__ import annotations

from typing import Any

import torch

from tcu.engines import load_cuda
from tcu.ops.options import defaults
from tcu.surfaces.torch.derivative import (
    DERIVATIVES,
    Derivative,
    keep,
    keep_axes,
    less_mean,
    recorded_sum,
    spread,
    times_rounded,
    total_of_rows,
    wide_product,
    with_axes,
)
from tcu.surfaces.torch.elementary import quotient
from tcu.surfaces.torch.watch import is_unwatched_on_gpu

__all__ = [
    "OfDot",
    "OfMoments",
    "OfNorm",
    "OfScan",
    "OfSegmentDot",
    "OfSegmentMoments",
    "OfSegmentNorm",
    "OfSegmentScan",
    "OfSegmentSums",
    "OfSums",
]


class OfSums(Derivative):
    @classmethod
    def setup_context(cls, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        keep(ctx, inputs, output)
        keep_axes(ctx, *inputs)

    @classmethod
    def backward(cls, ctx: Any, gradient: Any) -> tuple[Any, ...]:
        given = quotient(gradient, ctx.n) if cls.operation.mean else gradient
        return with_axes(ctx, given).to(ctx.dtype).expand(ctx.shape), *ctx.rest

    @classmethod
    def jvp(cls, ctx: Any, tangent: Any, *_: Any) -> Any:
        if cls.operation.mean and ctx.axes:
            return tangent.mean(ctx.axes, keepdim=ctx.keepdims, dtype=ctx.result_dtype)
        return total_of_rows(ctx, tangent, ctx.result_dtype)


class OfDot(Derivative):
    @classmethod
    def setup_context(cls, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        x, y, *rest = inputs
        keep(ctx, inputs, output, x, y)
        keep_axes(ctx, x, *rest)

    @classmethod
    def spread(cls, ctx: Any, each: Any) -> Any:
        """A number for each row, beside its elements."""
        return with_axes(ctx, each)

    @classmethod
    def totals(cls, ctx: Any, terms: Any) -> Any:
        """The sums of what belongs to each row."""
        return total_of_rows(ctx, terms, ctx.result_dtype)

    @classmethod
    def backward(cls, ctx: Any, gradient: Any) -> tuple[Any, ...]:
        x, y, *_ = ctx.saved_tensors
        gradient = cls.spread(ctx, gradient)
        first = times_rounded(gradient, y) if ctx.needs_input_grad[0] else None
        second = times_rounded(gradient, x) if ctx.needs_input_grad[1] else None
        return first, second, *ctx.rest[1:]

    @classmethod
    def jvp(cls, ctx: Any, first: Any, second: Any, *_: Any) -> Any:
        x, y, *_ = ctx.saved_tensors
        pairs = [(a, b) for a, b in ((first, y), (x, second)) if a is not None and b is not None]
        return sum(cls.totals(ctx, wide_product(a, b, ctx.result_dtype)) for a, b in pairs)


class OfNorm(Derivative):
    """As torch.linalg.norm: where the norm is 0, so is the gradient, which is a subgradient."""

    @classmethod
    def setup_context(cls, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        keep(ctx, inputs, output, inputs[0], output)
        keep_axes(ctx, *inputs)

    spread, totals = OfDot.spread, OfDot.totals

    @classmethod
    def backward(cls, ctx: Any, gradient: Any) -> tuple[Any, ...]:
        x, norm, *_ = ctx.saved_tensors
        wide = torch.promote_types(norm.dtype, x.dtype)
        share = (gradient.to(wide) / norm.to(wide)).masked_fill(norm == 0, 0)
        return times_rounded(cls.spread(ctx, share), x), *ctx.rest

    @classmethod
    def jvp(cls, ctx: Any, tangent: Any, *_: Any) -> Any:
        x, norm, *_ = ctx.saved_tensors
        total = cls.totals(ctx, wide_product(x, tangent, ctx.result_dtype))
        return (total / norm).masked_fill(norm == 0, 0)


class _Segments:
    """What rows and segments differ in; offsets are saved last, and not looked at again."""

    @staticmethod
    def spread(ctx: Any, each: Any) -> Any:
        return spread(each, ctx.saved_tensors[-1], ctx.saved_tensors[0])

    @staticmethod
    def totals(ctx: Any, terms: Any) -> Any:
        sums = DERIVATIVES["segment_sum"].record(terms, ctx.saved_tensors[-1], False)
        return sums.to(ctx.result_dtype)


class OfSegmentDot(_Segments, OfDot):
    @classmethod
    def setup_context(cls, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        keep(ctx, inputs, output, *inputs[:3])


class OfSegmentNorm(_Segments, OfNorm):
    @classmethod
    def setup_context(cls, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        keep(ctx, inputs, output, inputs[0], output, inputs[1])


class OfSegmentSums(Derivative):
    """Offsets that were in order once are not looked at again."""

    @classmethod
    def setup_context(cls, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        keep(ctx, inputs, output, inputs[1])

    @classmethod
    def backward(cls, ctx: Any, gradient: Any) -> tuple[Any, ...]:
        lengths = ctx.saved_tensors[0].diff()
        if cls.operation.mean:
            # In binary64: formats of 16 bits do not have all lengths.  The mean of an empty segment is NaN whatever
            # x is: nothing flows through it, in second derivatives as well.
            gradient = gradient.double() / lengths.clamp(min=1)
        return gradient.to(ctx.dtype).repeat_interleave(lengths, output_size=ctx.shape[0]), *ctx.rest

    @classmethod
    def jvp(cls, ctx: Any, tangent: Any, *_: Any) -> Any:
        """The results of the tangents, in at least binary32."""
        (offsets,) = ctx.saved_tensors
        options = defaults(cls.operation.options[:-1])
        result = cls.record(tangent, offsets, False, *options, ctx.result_dtype)
        return result.masked_fill(offsets.diff() == 0, 0.0) if cls.operation.mean else result


# Of variances and standard deviations.


class OfMoments(Derivative):
    """2·(x - mean) / (n - correction), and half of that over the standard deviation; 0 where that is 0, a subgradient."""

    @classmethod
    def setup_context(cls, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        keep(ctx, inputs, output, inputs[0], output)
        ctx.correction = float((*keep_axes(ctx, *inputs), 0.0)[0])

    @classmethod
    def slope(cls, x: Any, ctx: Any) -> Any:
        """(x - mean) / (n - correction), in at least binary32; NaN or inf where the variance is."""
        wide = x.to(torch.promote_types(x.dtype, torch.float32))

        def mean_of(rows: Any) -> Any:
            return recorded_sum("mean_along", rows, list(ctx.axes), True) if ctx.axes else rows

        return quotient(less_mean(wide, mean_of), cls.left(ctx))

    @classmethod
    def backward(cls, ctx: Any, gradient: Any) -> tuple[Any, ...]:
        x, result = ctx.saved_tensors
        found, share = None, cls.share(gradient, result)
        serves = len(ctx.axes) == 1 and share.dtype != torch.float64
        if serves and is_unwatched_on_gpu(x, gradient):
            each = share.detach().to(torch.float32)
            found = load_cuda().variance_gradient(x, ctx.axes[0], each, cls.left(ctx), x.dtype)
        if found is None:
            found = times_rounded(with_axes(ctx, share), cls.slope(x, ctx)).to(x.dtype)
        return found, *ctx.rest

    @staticmethod
    def left(ctx: Any) -> float:
        """The numbers of a row less the correction."""
        return float(max(ctx.n - ctx.correction, 0.0))

    @classmethod
    def jvp(cls, ctx: Any, tangent: Any, *_: Any) -> Any:
        x, result = ctx.saved_tensors
        slope = cls.slope(x, ctx)
        total = total_of_rows(ctx, slope * tangent.to(slope.dtype))
        return cls.share(total, result).to(ctx.result_dtype)

    @classmethod
    def share(cls, gradient: Any, result: Any, empty: Any = False) -> Any:
        """What a slope is multiplied by."""
        if not cls.operation.root:
            return 2 * gradient
        wide, nothing = torch.promote_types(gradient.dtype, result.dtype), (result == 0) | empty
        divisor = result.to(wide).masked_fill(
            nothing, 1
        )  # in second derivatives, too, nothing is divided by 0
        return (gradient.to(wide) / divisor).masked_fill(nothing, 0)


class OfSegmentMoments(OfMoments):
    """The same of every segment, by the means of the segments; nothing flows through an empty one."""

    @classmethod
    def setup_context(cls, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        x, offsets, _, *options = inputs
        keep(ctx, inputs, output, x, output, offsets)
        ctx.correction = float((*options, 0.0)[0])

    @classmethod
    def slope(cls, x: Any, ctx: Any) -> Any:
        offsets = ctx.saved_tensors[2]
        wide = x.to(torch.promote_types(x.dtype, torch.float32))

        def mean_of(line: Any) -> Any:
            return spread(DERIVATIVES["segment_mean"].record(line, offsets, False), offsets, line)

        left = (offsets.diff().to(wide.dtype) - ctx.correction).clamp(min=0)
        return less_mean(wide, mean_of) / spread(left, offsets, x)

    @classmethod
    def backward(cls, ctx: Any, gradient: Any) -> tuple[Any, ...]:
        x, result, offsets = ctx.saved_tensors
        given = spread(cls.share(gradient, result, offsets.diff() == 0), offsets, x)
        return times_rounded(given, cls.slope(x, ctx)).to(x.dtype), *ctx.rest

    @classmethod
    def jvp(cls, ctx: Any, tangent: Any, *_: Any) -> Any:
        x, result, offsets = ctx.saved_tensors
        slope = cls.slope(x, ctx)
        totals = DERIVATIVES["segment_sum"].record(slope * tangent.to(slope.dtype), offsets, False)
        empty = offsets.diff() == 0
        return cls.share(totals, result, empty).to(ctx.result_dtype).masked_fill(empty, 0)


# Of running sums, which are linear: forward themselves, backward the running sums from the other end; by binary64
# additions, as gradients have the result's dtype, of which MMAs may take none.


class OfScan(Derivative):
    @classmethod
    def setup_context(cls, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        keep(ctx, inputs, output)
        ctx.axis, ctx.exclusive, ctx.reverse = inputs[1:4]

    @classmethod
    def backward(cls, ctx: Any, gradient: Any) -> tuple[Any, ...]:
        return cls.again(ctx, gradient, not ctx.reverse, ctx.dtype).reshape(ctx.shape), *ctx.rest

    @classmethod
    def jvp(cls, ctx: Any, tangent: Any, *_: Any) -> Any:
        return cls.again(ctx, tangent, ctx.reverse, ctx.result_dtype)

    @classmethod
    def again(cls, ctx: Any, x: Any, reverse: bool, dtype: Any) -> Any:
        return cls.record(x, ctx.axis, ctx.exclusive, reverse, *defaults(cls.operation.options[2:-1]), dtype)


class OfSegmentScan(OfScan):
    """Offsets that were in order once are not looked at again."""

    @classmethod
    def setup_context(cls, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        keep(ctx, inputs, output, inputs[1])
        ctx.exclusive, ctx.reverse = inputs[3:5]

    @classmethod
    def again(cls, ctx: Any, x: Any, reverse: bool, dtype: Any) -> Any:
        return cls.record(
            x,
            *ctx.saved_tensors,
            False,
            ctx.exclusive,
            reverse,
            *defaults(cls.operation.options[2:-1]),
            dtype,
        )
