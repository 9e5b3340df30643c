"""The derivatives of operations, in both modes, as functions of autograd."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from tcu.errors import ParameterError
from tcu.ops.layout import Ragged, reduced_axes
from tcu.ops.operation import Operation
from tcu.ops.options import defaults
from tcu.surfaces.torch.elementary import quotient, square_root
from tcu.surfaces.torch.watch import recorder

__all__ = [
    "DERIVATIVES",
    "Derivative",
    "derivative_of",
    "exact_sum",
    "logsumexp_along",
    "softmax_along",
    "sum_along",
]


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
    if operation.arithmetic == "exponentials" and layout is Ragged:
        return _OfSegmentLogSumExp if operation.kind == "reduce" else _OfSegmentSoftmax
    if operation.arithmetic == "exponentials":
        return _OfLogSumExp if operation.kind == "reduce" else _OF_MAPS[operation.finish]
    if operation.arithmetic == "norms":
        return _OfRowNorm
    if operation.kind == "scan":
        return _OfSegmentScan if layout is Ragged else _OfScan
    if operation.moments:
        return _OfSegmentMoments if layout is Ragged else _OfMoments
    if operation.product:
        if layout is Ragged:
            return _OfSegmentNorm if operation.root else _OfSegmentDot
        return _OfNorm if operation.root else _OfDot
    return _OfSegmentSums if layout is Ragged else _OfSums


# What contexts keep.


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Any, *saved: Any) -> None:
    """For both modes: what kinds of numbers there were, and the tensors that a derivative is made of."""
    ctx.shape, ctx.dtype, ctx.result_dtype = inputs[0].shape, inputs[0].dtype, output.dtype
    ctx.rest = (None,) * (len(inputs) - 1)
    ctx.save_for_backward(*saved)
    ctx.save_for_forward(*saved)


def _keep_axes(ctx: Any, x: Any, *rest: Any) -> tuple[Any, ...]:
    """The axes that rows run along, all of them where an operator has none; returns the options."""
    along = bool(rest) and isinstance(rest[0], list | tuple)
    ctx.axes = reduced_axes(rest[0] if along else None, x.dim())
    ctx.keepdims = along and bool(rest[1])
    ctx.n = math.prod(x.shape[i] for i in ctx.axes)
    return rest[2:] if along else rest


def _with_axes(ctx: Any, x: Any) -> Any:
    """Results with their reduced axes, of length 1."""
    if not ctx.keepdims:
        for axis in ctx.axes:
            x = x.unsqueeze(axis)
    return x


def _total(ctx: Any, x: Any, dtype: Any = None) -> Any:
    """The sums of rows, by PyTorch, which takes no axes for all of them."""
    return x.sum(ctx.axes, keepdim=ctx.keepdims, dtype=dtype) if ctx.axes else x.to(dtype or x.dtype)


def _product(x: Any, y: Any, dtype: Any) -> Any:
    """x·y in at least binary32: in 16 bits it overflows where the sum of products does not."""
    wide = torch.promote_types(torch.promote_types(x.dtype, dtype), torch.float32)
    return x.to(wide) * y.to(wide)


def _times(gradient: Any, y: Any) -> Any:
    """gradient · y, rounded once to y's dtype."""
    wide = torch.promote_types(gradient.dtype, y.dtype)
    return (gradient.to(wide) * y.to(wide)).to(y.dtype)


# Of sums and means, of products, and of norms.


class _OfSums(Derivative):
    @classmethod
    def setup_context(cls, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        _keep(ctx, inputs, output)
        _keep_axes(ctx, *inputs)

    @classmethod
    def backward(cls, ctx: Any, gradient: Any) -> tuple[Any, ...]:
        given = quotient(gradient, ctx.n) if cls.operation.mean else gradient
        return _with_axes(ctx, given).to(ctx.dtype).expand(ctx.shape), *ctx.rest

    @classmethod
    def jvp(cls, ctx: Any, tangent: Any, *_: Any) -> Any:
        if cls.operation.mean and ctx.axes:
            return tangent.mean(ctx.axes, keepdim=ctx.keepdims, dtype=ctx.result_dtype)
        return _total(ctx, tangent, ctx.result_dtype)


class _OfDot(Derivative):
    @classmethod
    def setup_context(cls, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        x, y, *rest = inputs
        _keep(ctx, inputs, output, x, y)
        _keep_axes(ctx, x, *rest)

    @classmethod
    def spread(cls, ctx: Any, each: Any) -> Any:
        """A number for each row, beside its elements."""
        return _with_axes(ctx, each)

    @classmethod
    def totals(cls, ctx: Any, terms: Any) -> Any:
        """The sums of what belongs to each row."""
        return _total(ctx, terms, ctx.result_dtype)

    @classmethod
    def backward(cls, ctx: Any, gradient: Any) -> tuple[Any, ...]:
        x, y, *_ = ctx.saved_tensors
        gradient = cls.spread(ctx, gradient)
        first = _times(gradient, y) if ctx.needs_input_grad[0] else None
        second = _times(gradient, x) if ctx.needs_input_grad[1] else None
        return first, second, *ctx.rest[1:]

    @classmethod
    def jvp(cls, ctx: Any, first: Any, second: Any, *_: Any) -> Any:
        x, y, *_ = ctx.saved_tensors
        pairs = [(a, b) for a, b in ((first, y), (x, second)) if a is not None and b is not None]
        return sum(cls.totals(ctx, _product(a, b, ctx.result_dtype)) for a, b in pairs)


class _OfNorm(Derivative):
    """As torch.linalg.norm: where the norm is 0, so is the gradient, which is a subgradient."""

    @classmethod
    def setup_context(cls, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        _keep(ctx, inputs, output, inputs[0], output)
        _keep_axes(ctx, *inputs)

    spread, totals = _OfDot.spread, _OfDot.totals

    @classmethod
    def backward(cls, ctx: Any, gradient: Any) -> tuple[Any, ...]:
        x, norm, *_ = ctx.saved_tensors
        wide = torch.promote_types(norm.dtype, x.dtype)
        share = (gradient.to(wide) / norm.to(wide)).masked_fill(norm == 0, 0)
        return _times(cls.spread(ctx, share), x), *ctx.rest

    @classmethod
    def jvp(cls, ctx: Any, tangent: Any, *_: Any) -> Any:
        x, norm, *_ = ctx.saved_tensors
        total = cls.totals(ctx, _product(x, tangent, ctx.result_dtype))
        return (total / norm).masked_fill(norm == 0, 0)


class _Segments:
    """What rows and segments differ in; offsets are saved last, and not looked at again."""

    @staticmethod
    def spread(ctx: Any, each: Any) -> Any:
        """A number for each segment, for each of its elements."""
        return each.repeat_interleave(ctx.saved_tensors[-1].diff(), output_size=ctx.shape[0])

    @staticmethod
    def totals(ctx: Any, terms: Any) -> Any:
        sums = DERIVATIVES["segment_sum"].record(terms, ctx.saved_tensors[-1], False)
        return sums.to(ctx.result_dtype)


class _OfSegmentDot(_Segments, _OfDot):
    @classmethod
    def setup_context(cls, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        _keep(ctx, inputs, output, *inputs[:3])


class _OfSegmentNorm(_Segments, _OfNorm):
    @classmethod
    def setup_context(cls, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        _keep(ctx, inputs, output, inputs[0], output, inputs[1])


class _OfSegmentSums(Derivative):
    """Offsets that were in order once are not looked at again."""

    @classmethod
    def setup_context(cls, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        _keep(ctx, inputs, output, inputs[1])

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


class _OfMoments(Derivative):
    """2·(x - mean) / (n - correction), and half of that over the standard deviation; 0 where that is 0, a subgradient."""

    @classmethod
    def setup_context(cls, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        _keep(ctx, inputs, output, inputs[0], output)
        ctx.correction = float((*_keep_axes(ctx, *inputs), 0.0)[0])

    @classmethod
    def slope(cls, x: Any, ctx: Any) -> Any:
        """(x - mean) / (n - correction), in at least binary32; NaN or inf where the variance is."""
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        mean = _recorded_sum("mean_along", wide, list(ctx.axes), True) if ctx.axes else wide
        return quotient(wide - mean, max(ctx.n - ctx.correction, 0.0))

    @classmethod
    def backward(cls, ctx: Any, gradient: Any) -> tuple[Any, ...]:
        x, result = ctx.saved_tensors
        given = _with_axes(ctx, cls.share(gradient, result))
        return _times(given, cls.slope(x, ctx)).to(x.dtype), *ctx.rest

    @classmethod
    def jvp(cls, ctx: Any, tangent: Any, *_: Any) -> Any:
        x, result = ctx.saved_tensors
        slope = cls.slope(x, ctx)
        total = _total(ctx, slope * tangent.to(slope.dtype))
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

    @classmethod
    def setup_context(cls, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        x, offsets, _, *options = inputs
        _keep(ctx, inputs, output, x, output, offsets)
        ctx.correction = float((*options, 0.0)[0])

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


# Of exponentials over their sum, of the logarithms of both, and of norms of rows.  What they add up along rows is added by
# tcu's plan of the row, so that gradients, too, have the same bits in every batch.


class _OfMap(Derivative):
    """A derivative along rows whose Jacobian is made of x or the result, in at least binary32."""

    saves_result = False

    @classmethod
    def setup_context(cls, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        _keep(ctx, inputs, output, output if cls.saves_result else inputs[0])
        ctx.axis = inputs[1]

    @staticmethod
    def wide(ctx: Any, given: Any) -> tuple[Any, Any]:
        """What was kept, and what the Jacobian is multiplied by."""
        (kept,) = ctx.saved_tensors
        kind = torch.promote_types(torch.promote_types(given.dtype, kept.dtype), torch.float32)
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


class _OfSoftmax(_OfMap):
    saves_result = True

    @classmethod
    def times(cls, ctx: Any, given: Any) -> Any:
        y, given = cls.wide(ctx, given)
        return y * (given - sum_along(given * y, ctx.axis))


class _OfLogSoftmax(_OfMap):
    """The softmax is computed again: the exponentials of its logarithms would be a library's."""

    @classmethod
    def backward(cls, ctx: Any, gradient: Any) -> tuple[Any, ...]:
        x, given = cls.wide(ctx, gradient)
        return (given - softmax_along(x, ctx.axis) * sum_along(given, ctx.axis)).to(ctx.dtype), *ctx.rest

    @classmethod
    def times(cls, ctx: Any, given: Any) -> Any:
        x, given = cls.wide(ctx, given)
        return given - sum_along(softmax_along(x, ctx.axis) * given, ctx.axis)


_OF_MAPS = {"share": _OfSoftmax, "log_share": _OfLogSoftmax}


class _OfRowNorm(_OfMap):
    """r·(g - y·mean(g·y)), less r·mean(g) of rows that are centred; of rows over their norm sums stand for the means."""

    @classmethod
    def setup_context(cls, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        super().setup_context(ctx, inputs, output)
        wide = np.float64 if torch.float64 in (inputs[0].dtype, output.dtype) else np.float32
        ctx.eps = cls.operation.eps((inputs[2], None), wide)

    @classmethod
    def times(cls, ctx: Any, given: Any) -> Any:
        (x, given), axis = cls.wide(ctx, given), ctx.axis
        n = x.shape[axis]
        if cls.operation.finish == "direction":
            norm = square_root(sum_along(x.square(), axis))
            over = 1 / norm.clamp(min=ctx.eps)
            y = x * over
            return over * (given - y * (sum_along(given * y, axis) * (norm > ctx.eps)))
        if cls.operation.finish == "standard":
            x, given = (each - quotient(sum_along(each, axis), n) for each in (x, given))
        over = 1 / square_root(quotient(sum_along(x.square(), axis), n) + ctx.eps)
        y = x * over
        return over * (given - y * quotient(sum_along(given * y, axis), n))


def sum_along(x: Any, axis: int) -> Any:
    """The sums of rows by their plan, with the axis, of length 1."""
    return _recorded_sum("sum_along", x, [axis], True)


def _recorded_sum(operator: str, x: Any, axes: list[int], keepdims: bool) -> Any:
    total = DERIVATIVES[operator]
    return total.record(x, axes, keepdims, *defaults(total.operation.options[:-1]), x.dtype)


def logsumexp_along(x: Any, axis: int) -> Any:
    """With the axis, of length 1."""
    return DERIVATIVES["logsumexp_along"].record(x, [axis], True, x.dtype)


def softmax_along(x: Any, axis: int) -> Any:
    return DERIVATIVES["softmax"].record(x, axis, x.dtype)


def exact_sum(terms: Any, axes: list[int]) -> Any:
    """The exact sums along axes, rounded once: what weights get from rows, in whatever order these come.

    On the CPU inf and -inf in one exact sum are an error, and NaN here, as on a GPU.
    """
    if terms.device.type == "cuda":
        return _recorded_sum("fsum_along", terms, axes, False)
    usual = terms.isfinite()
    total = _recorded_sum("fsum_along", terms.masked_fill(~usual, 0), axes, False)
    return total + terms.masked_fill(usual, 0).sum(axes)


class _OfLogSumExp(Derivative):
    """The softmax of x, and 0 where all of a row is -inf."""

    @classmethod
    def setup_context(cls, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        _keep(ctx, inputs, output, inputs[0], output)
        _keep_axes(ctx, *inputs)

    @classmethod
    def shares(cls, ctx: Any) -> Any:
        x, result = ctx.saved_tensors
        wide = x.to(torch.promote_types(torch.promote_types(x.dtype, result.dtype), torch.float32))
        axes, last = ctx.axes, tuple(range(-len(ctx.axes), 0))
        rows = wide.movedim(axes, last)
        line = rows.reshape(*rows.shape[: rows.dim() - len(axes)], ctx.n)
        shares = softmax_along(line, -1).reshape(rows.shape).movedim(last, axes)
        return shares.masked_fill(_with_axes(ctx, result) == -math.inf, 0)

    @classmethod
    def backward(cls, ctx: Any, gradient: Any) -> tuple[Any, ...]:
        return (_with_axes(ctx, gradient) * cls.shares(ctx)).to(ctx.dtype), *ctx.rest

    @classmethod
    def jvp(cls, ctx: Any, tangent: Any, *_: Any) -> Any:
        shares = cls.shares(ctx)
        return _total(ctx, shares * tangent.to(shares.dtype)).to(ctx.result_dtype)


class _OfSegmentSoftmax(Derivative):
    @classmethod
    def setup_context(cls, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        _keep(ctx, inputs, output, output, inputs[1])

    @classmethod
    def times(cls, ctx: Any, given: Any) -> Any:
        (y, offsets), kind = ctx.saved_tensors, given.dtype
        kind = torch.promote_types(torch.promote_types(kind, y.dtype), torch.float32)
        y, given = y.to(kind), given.to(kind)
        return y * (given - _spread(_segment("segment_sum", given * y, offsets), offsets, y))

    @classmethod
    def backward(cls, ctx: Any, gradient: Any) -> tuple[Any, ...]:
        return cls.times(ctx, gradient).to(ctx.dtype), *ctx.rest

    @classmethod
    def jvp(cls, ctx: Any, tangent: Any, *_: Any) -> Any:
        return cls.times(ctx, tangent).to(ctx.result_dtype)


class _OfSegmentLogSumExp(Derivative):
    """The softmax of each segment, and 0 where all of it is -inf."""

    @classmethod
    def setup_context(cls, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        _keep(ctx, inputs, output, inputs[0], output, inputs[1])

    @classmethod
    def shares(cls, ctx: Any) -> Any:
        x, result, offsets = ctx.saved_tensors
        wide = x.to(torch.promote_types(torch.promote_types(x.dtype, result.dtype), torch.float32))
        shares = _segment("segment_softmax", wide, offsets)
        return shares.masked_fill(_spread(result == -math.inf, offsets, x), 0)

    @classmethod
    def backward(cls, ctx: Any, gradient: Any) -> tuple[Any, ...]:
        given = _spread(gradient, ctx.saved_tensors[2], ctx.saved_tensors[0])
        return (given * cls.shares(ctx)).to(ctx.dtype), *ctx.rest

    @classmethod
    def jvp(cls, ctx: Any, tangent: Any, *_: Any) -> Any:
        shares = cls.shares(ctx)
        return _segment("segment_sum", shares * tangent.to(shares.dtype), ctx.saved_tensors[2]).to(
            ctx.result_dtype
        )


def _segment(operator: str, x: Any, offsets: Any) -> Any:
    """Of offsets that were in order once, which are not looked at again."""
    found = DERIVATIVES[operator]
    return found.record(x, offsets, False, *defaults(found.operation.options[:-1]), x.dtype)


def _spread(each: Any, offsets: Any, like: Any) -> Any:
    """A number for each segment, for each of its elements."""
    return each.repeat_interleave(offsets.diff(), output_size=like.shape[0])


# Of running sums, which are linear: forward themselves, backward the running sums from the other end; by binary64
# additions, as gradients have the result's dtype, of which MMAs may take none.


class _OfScan(Derivative):
    @classmethod
    def setup_context(cls, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        _keep(ctx, inputs, output)
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


class _OfSegmentScan(_OfScan):
    """Offsets that were in order once are not looked at again."""

    @classmethod
    def setup_context(cls, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        _keep(ctx, inputs, output, inputs[1])
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


# Of operations of a program's own.


class _OfItsOwn(Derivative):
    """By the operation's ``derivative``, if it has one."""

    @classmethod
    def setup_context(cls, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        _keep(ctx, inputs, output, inputs[0], output)
        _keep_axes(ctx, *inputs)

    @classmethod
    def backward(cls, ctx: Any, gradient: Any) -> tuple[Any, ...]:
        function = cls.operation.derivative
        if function is None:
            raise ParameterError(
                f"{cls.operation.name} has no gradient: detach x, or register it with a derivative"
            )
        x, result = ctx.saved_tensors
        given, result = (_with_axes(ctx, each) for each in (gradient, result))
        return (given * function(torch, x, ctx.axes, result)).to(x.dtype), *ctx.rest
