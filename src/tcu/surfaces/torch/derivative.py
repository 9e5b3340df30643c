"""What the derivatives of all operators have in common: their class, what their contexts keep, sums that are recorded."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from tcu.ops.layout import Along, reduced_axes
from tcu.ops.operation import Call, Operation
from tcu.ops.options import defaults
from tcu.surfaces.torch.function import Function
from tcu.surfaces.torch.unwatched import quickly
from tcu.surfaces.torch.watch import is_unwatched_on_gpu, recorder

__all__ = [
    "DERIVATIVES",
    "Derivative",
    "exact_sum",
    "keep",
    "keep_axes",
    "less_mean",
    "logsumexp_along",
    "recorded_of_segments",
    "recorded_sum",
    "softmax_along",
    "spread",
    "sum_along",
    "times_rounded",
    "total_of_rows",
    "wide_dtype",
    "wide_product",
    "with_axes",
]


class Derivative(Function):
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


# What contexts keep.


def keep(ctx: Any, inputs: tuple[Any, ...], output: Any, *saved: Any) -> None:
    """For both modes: what kinds of numbers there were, and the tensors that a derivative is made of."""
    ctx.shape, ctx.dtype, ctx.result_dtype = inputs[0].shape, inputs[0].dtype, output.dtype
    ctx.rest = (None,) * (len(inputs) - 1)
    ctx.save_for_backward(*saved)
    ctx.save_for_forward(*saved)


def keep_axes(ctx: Any, x: Any, *rest: Any) -> tuple[Any, ...]:
    """The axes that rows run along, all of them where an operator has none; returns the options."""
    along = bool(rest) and isinstance(rest[0], list | tuple)
    ctx.axes = reduced_axes(rest[0] if along else None, x.dim())
    ctx.keepdims = along and bool(rest[1])
    ctx.n = math.prod(x.shape[i] for i in ctx.axes)
    return rest[2:] if along else rest


def with_axes(ctx: Any, x: Any) -> Any:
    """Results with their reduced axes, of length 1."""
    if not ctx.keepdims:
        for axis in ctx.axes:
            x = x.unsqueeze(axis)
    return x


def total_of_rows(ctx: Any, x: Any, dtype: Any = None) -> Any:
    """The sums of rows, by PyTorch, which takes no axes for all of them."""
    return x.sum(ctx.axes, keepdim=ctx.keepdims, dtype=dtype) if ctx.axes else x.to(dtype or x.dtype)


def wide_dtype(first: Any, second: Any) -> Any:
    """What holds numbers of both, and is binary32 at least."""
    return torch.promote_types(torch.promote_types(first, second), torch.float32)


def wide_product(x: Any, y: Any, dtype: Any) -> Any:
    """x·y in at least binary32: in 16 bits it overflows where the sum of products does not."""
    wide = wide_dtype(x.dtype, dtype)
    return x.to(wide) * y.to(wide)


def times_rounded(gradient: Any, y: Any) -> Any:
    """gradient · y, rounded once to y's dtype."""
    wide = torch.promote_types(gradient.dtype, y.dtype)
    return (gradient.to(wide) * y.to(wide)).to(y.dtype)


# What is recorded once more.


def sum_along(x: Any, axis: int) -> Any:
    """The sums of rows by their plan, with the axis, of length 1."""
    return recorded_sum("sum_along", x, [axis], True)


def recorded_sum(operator: str, x: Any, axes: list[int], keepdims: bool, dtype: Any = None) -> Any:
    """Past the operator where nobody watches, as in a usual backward pass: its dispatch takes longer than a launch."""
    total = DERIVATIVES[operator]
    options = *defaults(total.operation.options[:-1]), dtype or x.dtype
    if is_unwatched_on_gpu(x, x):
        return quickly(Call(total.operation, (x,), Along(tuple(axes), keepdims), options))
    return total.record(x, axes, keepdims, *options)


def less_mean(x: Any, mean_of: Callable[[Any], Any]) -> Any:
    """The deviations, of binary64 by two means: one is rounded, by as much as the deviations from a large mean may be."""
    for _ in range(2 if x.dtype == torch.float64 else 1):
        x = x - mean_of(x)
    return x


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
        return recorded_sum("fsum_along", terms, axes, False)
    usual = terms.isfinite()
    total = recorded_sum("fsum_along", terms.masked_fill(~usual, 0), axes, False)
    return total + terms.masked_fill(usual, 0).sum(axes)


def recorded_of_segments(operator: str, x: Any, offsets: Any) -> Any:
    """Of offsets that were in order once, which are not looked at again."""
    found = DERIVATIVES[operator]
    return found.record(x, offsets, False, *defaults(found.operation.options[:-1]), x.dtype)


def spread(each: Any, offsets: Any, like: Any) -> Any:
    """A number for each segment, for each of its elements."""
    return each.repeat_interleave(offsets.diff(), output_size=like.shape[0])
