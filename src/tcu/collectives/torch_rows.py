"""Sums and means along axes as PyTorch operators: ``torch.ops.tcu.sum_along``, ``mean_along`` and the exact ones.

As :mod:`tcu.collectives.torch_operators` for whole tensors; here vmap takes
the batch as one more axis that is left, and so reduces all of it at once.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from tcu.collectives import exact_rows, rows
from tcu.collectives.request import OPTIONS, Request
from tcu.collectives.rows import Operation, reduced_axes, reduced_shape
from tcu.collectives.torch_again import again, keeper, key_of, typed
from tcu.collectives.torch_shared import (
    Derivative,
    add_operator,
    check_arrays,
    check_numbers,
    check_out,
    defaults,
    differentiable,
    holds_numbers,
    in_graph,
    is_watched,
    of_schema,
    put,
    recorder,
    refuse_details_in_graph,
    result_dtype,
    schema_of,
)
from tcu.errors import ParameterError
from tcu.formats.tensor import check_data, host_view, tensor_of
from tcu.model.execute import Progress

__all__ = ["reduce"]


def reduce(
    operation: Operation, x: Any, axis: Any, keepdims: bool, options: tuple[Any, ...], out: Any,
    return_info: bool, progress: Progress | None,
) -> Any:  # fmt: skip
    """What ``tcu.sum`` and the others do with tensors where an axis is given."""
    if in_graph():
        axes = reduced_axes(axis, x.dim())
        refuse_details_in_graph(return_info, progress)
        return _recorded(operation, x, axes, keepdims, options, out)
    if out is None and not return_info and progress is None and x.is_cuda and not is_watched(x, x):
        return _quickly(operation, x, axis, keepdims, options)
    axes = reduced_axes(axis, x.dim())
    check_arrays((x,))
    check_numbers((x,))
    if not is_watched(x, x):
        return _executed(operation, x, axes, keepdims, options, out, return_info, progress)
    info = None
    if return_info:
        if not holds_numbers((x,)):
            raise ParameterError(
                "return_info=True tells of bits, which tensors without numbers and functions that are "
                "transformed do not have: leave it out"
            )
        _, info = _executed(operation, x.detach(), axes, keepdims, options, None, True, None)
    result = _recorded(operation, x, axes, keepdims, options, out)
    if progress is not None:
        progress(x.numel())
    return (result, info) if return_info else result


def _quickly(operation: Operation, x: Any, axis: Any, keepdims: bool, options: tuple[Any, ...]) -> Any:
    """The reduction of a tensor on the GPU, if nothing but its result is wanted."""
    axes = axis if type(axis) is int else reduced_axes(axis, x.dim())  # True equals 1, and is no axis
    key = key_of(x, "along", operation, axes, bool(keepdims), typed(options))
    result = again(key, x, x)
    if result is None:
        axes = reduced_axes(axis, x.dim())
        check_arrays((x,))
        from tcu.collectives import device_rows

        request = Request.of(operation, options)
        result, _ = device_rows.reduce(request, x, axes, keepdims, keep=keeper(key))
    return result


def _executed(
    operation: Operation, x: Any, axes: tuple[int, ...], keepdims: bool, options: tuple[Any, ...], out: Any,
    return_info: bool, progress: Progress | None,
) -> Any:  # fmt: skip
    """The reduction of a tensor that holds numbers, nobody recording it."""
    if out is not None:
        check_out(out, x, reduced_shape(tuple(x.shape), axes, keepdims))
    info: Any = None
    if x.is_cuda:
        answer = rows.on_gpu(operation, x, axes, keepdims, options, out, return_info, progress)
        result, info = answer if return_info else (answer, None)
    else:
        place = None if out is None else host_view(out, "out")
        if operation == "fsum" or operation == "fmean":
            result = exact_rows.reduce(operation, host_view(x), axes, keepdims, options[-1], place)
        else:
            result, info = rows.reduce(
                operation, host_view(x), axes, keepdims, options, place, True, progress
            )
        result = out if out is not None else tensor_of(result)
    if out is not None and not out.is_inference():
        torch.autograd.graph.increment_version(out)
    return (result, info) if return_info else result


def _recorded(
    operation: Operation, x: Any, axes: tuple[int, ...], keepdims: bool, options: tuple[Any, ...], out: Any
) -> Any:
    """The call of the operator; torch.compile reads this code."""
    record = recorder(f"{operation}_along", _FUNCTIONS[operation], operation)
    *rest, dtype = (list(axes), keepdims, *of_schema(OPTIONS[operation], options))
    if out is None:
        return record(x, *rest, dtype)
    check_out(out, x, reduced_shape(tuple(x.shape), axes, keepdims))
    return put(record, (x,), rest, dtype, out)


# The operators.


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
        if not ctx.keepdims:
            for axis in ctx.axes:
                gradient = gradient.unsqueeze(axis)
        return gradient.to(ctx.dtype).expand(ctx.shape)


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


_FUNCTIONS: dict[Operation, type[_Along]] = {
    "sum": differentiable("sum_along", _SumAlong), "mean": differentiable("mean_along", _MeanAlong),
    "fsum": differentiable("fsum_along", _SumAlong), "fmean": differentiable("fmean_along", _MeanAlong),
}  # fmt: skip


def _register(operation: Operation) -> None:
    def execute(x: Any, axes: Any, keepdims: bool = False, *options: Any) -> Any:
        given = options + missing[len(options) :]
        if x.is_cuda:
            return _quickly(operation, x, axes, keepdims, given)
        check_arrays((x,))
        check_data(x, "x")
        return _executed(operation, x, reduced_axes(axes, x.dim()), keepdims, given, None, False, None)

    def shape_alone(
        x: Any, axes: Any, keepdims: bool = False, *options: Any, dtype: Any = None, **_: Any
    ) -> Any:
        check_arrays((x,))
        if len(options) == len(OPTIONS[operation]):
            dtype = options[-1]
        shape = reduced_shape(tuple(x.shape), reduced_axes(axes, x.dim()), keepdims)
        return x.new_empty(shape, dtype=result_dtype(x, dtype))

    def all_at_once(info: Any, where: tuple[Any, ...], x: Any, axes: Any, *rest: Any, **named: Any) -> Any:
        inside = reduced_axes(axes, x.dim() - 1)
        return operator(x.movedim(where[0], 0), [axis + 1 for axis in inside], *rest, **named), 0

    missing = defaults(OPTIONS[operation])
    operator = add_operator(
        f"{operation}_along", f"Tensor x, int[] axes, bool keepdims=False, {schema_of(*OPTIONS[operation])}",
        execute, shape_alone, _FUNCTIONS[operation], all_at_once,
    )  # fmt: skip


for _operation in _FUNCTIONS:
    _register(_operation)
