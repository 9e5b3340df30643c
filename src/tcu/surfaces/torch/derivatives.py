"""The derivatives of operations, in both modes, as functions of autograd."""

from __future__ import annotations

import math
from typing import Any

import torch

from tcu.errors import ParameterError
from tcu.ops.layout import Along, Ragged, Whole, reduced_axes
from tcu.ops.operation import Operation
from tcu.ops.options import defaults
from tcu.surfaces.torch.watch import recorder

__all__ = ["Derivative", "derivative_of"]


class Derivative(torch.autograd.Function):  # type: ignore[misc]
    """An operator with its derivatives, as torch.func asks for them; its registration takes them from here."""

    generate_vmap_rule = True
    operation: Operation
    operator: str

    @classmethod
    def record(cls, *arguments: Any) -> Any:
        """The operator once more, recorded."""
        return recorder(cls.operator, cls, cls.operator)(*arguments)


DERIVATIVES: dict[str, type[Derivative]] = {}
"""By operator, of those that are registered."""


def derivative_of(operation: Operation, layout: type, operator: str) -> type[Derivative]:
    """The function of autograd for an operator of that name."""
    base = _base(operation, layout)

    def forward(*arguments: Any) -> Any:
        return getattr(torch.ops.tcu, operator)(*arguments)

    names = {"forward": staticmethod(forward), "operation": operation, "operator": operator}
    found = DERIVATIVES[operator] = type(f"{base.__name__}_{operator}", (base,), names)
    return found


def _base(operation: Operation, layout: type) -> type[Derivative]:
    if operation.arithmetic == "own":
        return _OfItsOwn
    if operation.kind == "scan":
        return _OfSegmentScan if layout is Ragged else _OfScan
    if operation.moments:
        return _OfSegmentMoments if layout is Ragged else _OfMoments
    if operation.product:
        return _OfNorm if operation.root else _OfDot
    mean = operation.mean
    if layout is Ragged:
        return _OfSegmentMean if mean else _OfSegmentSum
    if layout is Along:
        return _MeanAlong if mean else _SumAlong
    assert layout is Whole
    return _OfMean if mean else _OfSum


# Of whole tensors.


def _keep(ctx: Any, x: Any, output: Any, *others: Any) -> None:
    """For both modes: the numbers, the result, and what else a derivative is made of."""
    ctx.result_dtype = output.dtype
    ctx.save_for_backward(x, output, *others)
    ctx.save_for_forward(x, output, *others)


def _product(x: Any, y: Any, dtype: Any) -> Any:
    """x·y in at least binary32: in 16 bits it overflows where the sum of products does not."""
    wide = torch.promote_types(torch.promote_types(x.dtype, dtype), torch.float32)
    return x.to(wide) * y.to(wide)


def _times(gradient: Any, y: Any) -> Any:
    """gradient · y, rounded once to y's dtype."""
    wide = torch.promote_types(gradient.dtype, y.dtype)
    return (gradient.to(wide) * y.to(wide)).to(y.dtype)


class _Whole(Derivative):
    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        x = inputs[0]
        ctx.rest = (None,) * (len(inputs) - 1)
        ctx.shape, ctx.dtype, ctx.n, ctx.result_dtype = x.shape, x.dtype, x.numel(), output.dtype


class _OfSum(_Whole):
    @staticmethod
    def backward(ctx: Any, gradient: Any) -> tuple[Any, ...]:
        return gradient.to(ctx.dtype).expand(ctx.shape), *ctx.rest

    @staticmethod
    def jvp(ctx: Any, tangent: Any, *_: Any) -> Any:
        return tangent.sum(dtype=ctx.result_dtype)


class _OfMean(_Whole):
    @staticmethod
    def backward(ctx: Any, gradient: Any) -> tuple[Any, ...]:
        return (gradient / ctx.n).to(ctx.dtype).expand(ctx.shape), *ctx.rest

    @staticmethod
    def jvp(ctx: Any, tangent: Any, *_: Any) -> Any:
        return tangent.mean(dtype=ctx.result_dtype)


class _OfDot(Derivative):
    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.rest = (None,) * (len(inputs) - 2)
        ctx.result_dtype = output.dtype
        ctx.save_for_backward(inputs[0], inputs[1])
        ctx.save_for_forward(inputs[0], inputs[1])

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> tuple[Any, ...]:
        x, y = ctx.saved_tensors
        first = _times(gradient, y) if ctx.needs_input_grad[0] else None
        second = _times(gradient, x) if ctx.needs_input_grad[1] else None
        return first, second, *ctx.rest

    @staticmethod
    def jvp(ctx: Any, first: Any, second: Any, *_: Any) -> Any:
        x, y = ctx.saved_tensors
        pairs = [(a, b) for a, b in ((first, y), (x, second)) if a is not None and b is not None]
        return sum(_product(a, b, ctx.result_dtype).sum(dtype=ctx.result_dtype) for a, b in pairs)


class _OfNorm(Derivative):
    """As torch.linalg.norm: where the norm is 0, so is the gradient, which is a subgradient."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.rest = (None,) * (len(inputs) - 1)
        _keep(ctx, inputs[0], output)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> tuple[Any, ...]:
        x, norm = ctx.saved_tensors
        wide = torch.promote_types(norm.dtype, x.dtype)
        share = (gradient.to(wide) / norm.to(wide)).masked_fill(norm == 0, 0)
        return _times(share, x), *ctx.rest

    @staticmethod
    def jvp(ctx: Any, tangent: Any, *_: Any) -> Any:
        x, norm = ctx.saved_tensors
        total = _product(x, tangent, ctx.result_dtype).sum(dtype=ctx.result_dtype)
        return (total / norm).masked_fill(norm == 0, 0)


# Of rows.


class _Along(Derivative):
    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        x, axes, keepdims = inputs[:3]
        ctx.rest = (None,) * (len(inputs) - 1)
        ctx.shape, ctx.dtype, ctx.result_dtype = x.shape, x.dtype, output.dtype
        ctx.axes, ctx.keepdims = reduced_axes(axes, x.dim()), keepdims
        ctx.n = math.prod(x.shape[i] for i in ctx.axes)

    @staticmethod
    def spread(ctx: Any, gradient: Any) -> Any:
        """The gradient of a row's sum, for each of its elements."""
        return _with_axes(gradient, ctx.axes, ctx.keepdims).to(ctx.dtype).expand(ctx.shape)


def _with_axes(x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    """Results with their reduced axes, of length 1."""
    if not keepdims:
        for axis in axes:
            x = x.unsqueeze(axis)
    return x


class _SumAlong(_Along):
    @staticmethod
    def backward(ctx: Any, gradient: Any) -> tuple[Any, ...]:
        return _Along.spread(ctx, gradient), *ctx.rest

    @staticmethod
    def jvp(ctx: Any, tangent: Any, *_: Any) -> Any:
        if not ctx.axes:  # which PyTorch takes for all of them
            return tangent.to(ctx.result_dtype)
        return tangent.sum(ctx.axes, keepdim=ctx.keepdims, dtype=ctx.result_dtype)


class _MeanAlong(_Along):
    @staticmethod
    def backward(ctx: Any, gradient: Any) -> tuple[Any, ...]:
        return _Along.spread(ctx, gradient / ctx.n), *ctx.rest

    @staticmethod
    def jvp(ctx: Any, tangent: Any, *_: Any) -> Any:
        if not ctx.axes:
            return tangent.to(ctx.result_dtype)
        return tangent.mean(ctx.axes, keepdim=ctx.keepdims, dtype=ctx.result_dtype)


# Of ragged segments.


class _OfSegments(Derivative):
    """Offsets that were in order once are not looked at again."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        x, offsets = inputs[:2]
        ctx.rest = (None,) * (len(inputs) - 1)
        ctx.n, ctx.dtype, ctx.result_dtype = x.shape[0], x.dtype, output.dtype
        ctx.save_for_backward(offsets)
        ctx.save_for_forward(offsets)

    @staticmethod
    def spread(ctx: Any, gradient: Any, lengths: Any) -> tuple[Any, ...]:
        """The gradient of each segment's sum, for each of its elements."""
        return gradient.to(ctx.dtype).repeat_interleave(lengths, output_size=ctx.n), *ctx.rest

    @classmethod
    def again(cls, ctx: Any, tangent: Any) -> Any:
        """The results of the tangents, in at least binary32."""
        (offsets,) = ctx.saved_tensors
        return cls.record(tangent, offsets, False, *defaults(cls.operation.options[:-1]), ctx.result_dtype)


class _OfSegmentSum(_OfSegments):
    @staticmethod
    def backward(ctx: Any, gradient: Any) -> tuple[Any, ...]:
        return _OfSegments.spread(ctx, gradient, ctx.saved_tensors[0].diff())

    @classmethod
    def jvp(cls, ctx: Any, tangent: Any, *_: Any) -> Any:
        return cls.again(ctx, tangent)


class _OfSegmentMean(_OfSegments):
    @staticmethod
    def backward(ctx: Any, gradient: Any) -> tuple[Any, ...]:
        lengths = ctx.saved_tensors[0].diff()
        # In binary64: formats of 16 bits do not have all lengths.  The mean of an empty segment is NaN whatever x is:
        # nothing flows through it, in second derivatives as well.
        return _OfSegments.spread(ctx, gradient.double() / lengths.clamp(min=1), lengths)

    @classmethod
    def jvp(cls, ctx: Any, tangent: Any, *_: Any) -> Any:
        return cls.again(ctx, tangent).masked_fill(ctx.saved_tensors[0].diff() == 0, 0.0)


# Of variances and standard deviations.


class _OfMoments(Derivative):
    """2·(x - mean) / (n - correction), and half of that over the standard deviation; 0 where that is 0, a subgradient."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        x, *rest = inputs
        ctx.rest = (None,) * len(rest)
        along = bool(rest) and isinstance(rest[0], list | tuple)
        ctx.axes = reduced_axes(rest[0], x.dim()) if along else tuple(range(x.dim()))
        ctx.keepdims = along and bool(rest[1])
        ctx.correction = float((*rest[2 if along else 0 :], 0.0)[0])
        _keep(ctx, x, output)

    @staticmethod
    def slope(x: Any, ctx: Any) -> Any:
        """(x - mean) / (n - correction), in at least binary32; NaN or inf where the variance is."""
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        n = math.prod(x.shape[i] for i in ctx.axes)
        mean = wide.mean(ctx.axes, keepdim=True) if ctx.axes else wide
        return (wide - mean) / max(n - ctx.correction, 0.0)

    @classmethod
    def backward(cls, ctx: Any, gradient: Any) -> tuple[Any, ...]:
        x, result = ctx.saved_tensors
        given = _with_axes(cls.share(gradient, result), ctx.axes, ctx.keepdims)
        return _times(given, cls.slope(x, ctx)).to(x.dtype), *ctx.rest

    @classmethod
    def jvp(cls, ctx: Any, tangent: Any, *_: Any) -> Any:
        x, result = ctx.saved_tensors
        slope = cls.slope(x, ctx)
        products = slope * tangent.to(slope.dtype)
        total = products.sum(ctx.axes, keepdim=ctx.keepdims) if ctx.axes else products
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


class _OfSegmentMoments(_OfMoments):
    """The same of every segment, by the means of the segments; nothing flows through an empty one."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        x, offsets, _, *options = inputs
        ctx.rest = (None,) * (len(inputs) - 1)
        ctx.correction = float((*options, 0.0)[0])
        _keep(ctx, x, output, offsets)

    @staticmethod
    def spread(ctx: Any, each: Any) -> Any:
        """A number for each segment, for each of its elements."""
        lengths = ctx.saved_tensors[2].diff()
        return each.repeat_interleave(lengths, output_size=ctx.saved_tensors[0].shape[0])

    @classmethod
    def slope(cls, x: Any, ctx: Any) -> Any:
        offsets = ctx.saved_tensors[2]
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        means = DERIVATIVES["segment_mean"].record(wide, offsets, False)
        left = (offsets.diff().to(wide.dtype) - ctx.correction).clamp(min=0)
        return (wide - cls.spread(ctx, means)) / cls.spread(ctx, left)

    @classmethod
    def backward(cls, ctx: Any, gradient: Any) -> tuple[Any, ...]:
        x, result, offsets = ctx.saved_tensors
        given = cls.spread(ctx, cls.share(gradient, result, offsets.diff() == 0))
        return _times(given, cls.slope(x, ctx)).to(x.dtype), *ctx.rest

    @classmethod
    def jvp(cls, ctx: Any, tangent: Any, *_: Any) -> Any:
        x, result, offsets = ctx.saved_tensors
        slope = cls.slope(x, ctx)
        totals = DERIVATIVES["segment_sum"].record(slope * tangent.to(slope.dtype), offsets, False)
        empty = offsets.diff() == 0
        return cls.share(totals, result, empty).to(ctx.result_dtype).masked_fill(empty, 0)


# Of running sums, which are linear: forward themselves, backward the running sums from the other end.


class _OfScan(Derivative):
    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        x, ctx.axis, ctx.exclusive, ctx.reverse = inputs[:4]
        ctx.rest = (None,) * (len(inputs) - 1)
        ctx.shape, ctx.dtype, ctx.result_dtype = x.shape, x.dtype, output.dtype

    @classmethod
    def backward(cls, ctx: Any, gradient: Any) -> tuple[Any, ...]:
        given = cls.record(gradient, ctx.axis, ctx.exclusive, not ctx.reverse, ctx.dtype)
        return given.reshape(ctx.shape), *ctx.rest

    @classmethod
    def jvp(cls, ctx: Any, tangent: Any, *_: Any) -> Any:
        return cls.record(tangent, ctx.axis, ctx.exclusive, ctx.reverse, ctx.result_dtype)


class _OfSegmentScan(Derivative):
    """Offsets that were in order once are not looked at again."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        x, offsets, _, ctx.exclusive, ctx.reverse = inputs[:5]
        ctx.rest = (None,) * (len(inputs) - 1)
        ctx.dtype, ctx.result_dtype = x.dtype, output.dtype
        ctx.save_for_backward(offsets)
        ctx.save_for_forward(offsets)

    @classmethod
    def backward(cls, ctx: Any, gradient: Any) -> tuple[Any, ...]:
        (offsets,) = ctx.saved_tensors
        return cls.record(gradient, offsets, False, ctx.exclusive, not ctx.reverse, ctx.dtype), *ctx.rest

    @classmethod
    def jvp(cls, ctx: Any, tangent: Any, *_: Any) -> Any:
        (offsets,) = ctx.saved_tensors
        return cls.record(tangent, offsets, False, ctx.exclusive, ctx.reverse, ctx.result_dtype)


# Of operations of a program's own.


class _OfItsOwn(Derivative):
    """By the operation's ``derivative``, if it has one."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.inputs = inputs[1:]
        ctx.rest = (None,) * (len(inputs) - 1)
        ctx.save_for_backward(inputs[0], output)

    @classmethod
    def backward(cls, ctx: Any, gradient: Any) -> tuple[Any, ...]:
        function = cls.operation.derivative
        if function is None:
            raise ParameterError(
                f"{cls.operation.name} has no gradient: detach x, or register it with a derivative"
            )
        x, result = ctx.saved_tensors
        whole = not ctx.inputs or not isinstance(ctx.inputs[0], list | tuple)
        axes = tuple(range(x.dim())) if whole else reduced_axes(ctx.inputs[0], x.dim())
        keepdims = not whole and bool(ctx.inputs[1])
        given, result = (_with_axes(each, axes, keepdims) for each in (gradient, result))
        return (given * function(torch, x, axes, result)).to(x.dtype), *ctx.rest
