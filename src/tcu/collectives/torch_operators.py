"""The reductions as PyTorch operators: ``torch.ops.tcu.sum`` and so on, with gradients and fake kernels.

Importing this module registers them, so it is imported where a tensor has
been met.  Plain tensors whose gradient nobody asks for go past the operators,
straight to the launch or to the model, because PyTorch's dispatch of an
operator in Python takes longer than all the rest of a small sum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from tcu.collectives import averages, exact, exact_products, products, summation
from tcu.collectives.request import OF_TWO, OPTIONS, Operation, Request
from tcu.collectives.torch_again import again, has_plain_memory, keeper, typed
from tcu.collectives.torch_shared import (
    PLAIN,
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
from tcu.formats.tensor import check_data, host_view, is_tensor, tensor_of
from tcu.model.execute import Progress

__all__ = ["reduce"]

_ON_HOST: dict[Operation, Callable[..., Any]] = {
    "sum": summation.sum, "mean": averages.mean, "dot": products.dot, "norm": products.norm,
    "fsum": exact.fsum, "fmean": exact.fmean, "fdot": exact_products.fdot, "fnorm": exact_products.fnorm,
}  # fmt: skip


def reduce(
    operation: Operation,
    arrays: Sequence[Any],
    options: tuple[Any, ...],
    out: Any = None,
    return_info: bool = False,
    progress: Progress | None = None,
) -> Any:
    """What ``tcu.sum`` and the others do with tensors; ``options`` in the order of OPTIONS."""
    if in_graph():
        return _recorded(operation, arrays, options, out, return_info, progress)
    x, y = arrays[0], arrays[-1]
    if is_watched(x, y):
        return _dispatched(operation, arrays, options, out, return_info, progress)
    if out is None and not return_info and progress is None and x.is_cuda and y.is_cuda:
        return _quickly(operation, x, y, options)
    return _executed(operation, arrays, options, out, return_info, progress)


def _quickly(operation: Operation, x: Any, y: Any, options: tuple[Any, ...]) -> Any:
    """A reduction on the GPU, if nothing but its result is wanted."""
    key = None
    if has_plain_memory(x) and x.is_contiguous():
        first = second = x.data_ptr()
        if y is not x:
            second = y.data_ptr() if _alike(x, y) else 0
        if first and second:  # else there is nothing to read, or nothing to read it from
            key = operation, typed(options), x.dtype, x.numel(), x.get_device(), (first | second) & 15
            result = again(key, x, y)
            if result is not None:
                return result
    arrays = (x, y) if operation in OF_TWO else (x,)
    check_arrays(arrays)
    from tcu.collectives import device

    outcome = device.reduce(Request.of(operation, options), arrays)
    launch = outcome.prepared.launch
    if key is not None and launch is not None:
        keeper(key)(device.Ready(launch.at), outcome.result)
    return outcome.result


def _alike(x: Any, y: Any) -> bool:
    return bool(
        has_plain_memory(y)
        and y.dtype is x.dtype
        and y.shape == x.shape
        and y.get_device() == x.get_device()
        and y.is_contiguous()
    )


def _executed(
    operation: Operation,
    arrays: Sequence[Any],
    options: tuple[Any, ...],
    out: Any = None,
    return_info: bool = False,
    progress: Progress | None = None,
) -> Any:
    """The reduction of tensors that hold numbers, nobody recording it."""
    check_arrays(arrays)
    for name, x in zip(("x", "y"), arrays, strict=False):
        check_data(x, name)
    place = None
    if out is not None:
        check_out(out, arrays[0])
        place = host_view(out, "out") if out.device.type == "cpu" and type(out) in PLAIN else None
    if arrays[0].is_cuda:
        result = _on_gpu(operation, arrays, options, out, return_info, progress)
    else:
        result = _on_host(operation, arrays, options, place, return_info, progress)
    if out is not None and not out.is_inference():
        torch.autograd.graph.increment_version(out)
    return result if out is None else (out, result[1]) if return_info else out


def _on_host(
    operation: Operation, arrays: Sequence[Any], options: tuple[Any, ...], place: Any,
    return_info: bool, progress: Progress | None,
) -> Any:  # fmt: skip
    views = [host_view(arrays[0])]
    if len(arrays) == 2:
        views.append(views[0] if arrays[1] is arrays[0] else host_view(arrays[1], "y"))
    named = dict(zip(OPTIONS[operation], options, strict=False), out=place)
    if return_info:
        named["return_info"] = True
    if progress is not None:
        named["progress"] = progress
    result = _ON_HOST[operation](*views, **named)
    if not return_info:
        return tensor_of(result)
    return tensor_of(result[0]), result[1]


def _on_gpu(
    operation: Operation, arrays: Sequence[Any], options: tuple[Any, ...], out: Any,
    return_info: bool, progress: Progress | None,
) -> Any:  # fmt: skip
    request = Request.of(operation, options)
    if operation in ("sum", "mean"):
        return summation.sum_on_gpu(request, arrays[0], out, return_info, progress)
    if operation in ("dot", "norm"):
        return products.on_gpu(request, (arrays[0], arrays[-1]), out, return_info)
    return exact.on_gpu(request, arrays, out)


def _dispatched(
    operation: Operation, arrays: Sequence[Any], options: tuple[Any, ...], out: Any,
    return_info: bool, progress: Progress | None,
) -> Any:  # fmt: skip
    """The reduction as an operator: a gradient is wanted, or somebody watches or transforms."""
    check_arrays(arrays)
    check_numbers(arrays)
    if not return_info:
        result = _recorded(operation, arrays, options, out, False, None)
        if progress is not None:
            progress(arrays[0].numel())
        return result
    if not holds_numbers(arrays):
        raise ParameterError(
            "return_info=True tells the result's bits, which tensors without numbers and functions that are "
            "transformed do not have: leave it out"
        )
    # Whoever wants gradients and the details pays for two reductions, which have the same bits.
    plain = [x.detach() for x in arrays]
    if len(plain) == 2 and arrays[0] is arrays[1]:
        plain[1] = plain[0]
    _, info = _executed(operation, plain, options, None, True, progress)
    return _recorded(operation, arrays, options, out, False, None), info


def _recorded(
    operation: Operation, arrays: Sequence[Any], options: tuple[Any, ...], out: Any,
    return_info: bool, progress: Progress | None,
) -> Any:  # fmt: skip
    """The call of the operator; torch.compile reads this code."""
    refuse_details_in_graph(return_info, progress)
    if len(arrays) == 2 and not (is_tensor(arrays[0]) and is_tensor(arrays[1])):
        check_arrays(arrays)
    record = recorder(operation, _FUNCTIONS[operation], operation)
    *rest, dtype = of_schema(OPTIONS[operation], options)
    if out is None:
        return record(*arrays, *rest, dtype)
    check_out(out, arrays[0])
    return put(record, arrays, rest, dtype, out)


# The operators.


def _product(x: Any, y: Any, dtype: Any) -> Any:
    """x·y in at least binary32: in 16 bits it overflows where the sum of products does not."""
    wide = torch.promote_types(torch.promote_types(x.dtype, dtype), torch.float32)
    return x.to(wide) * y.to(wide)


def _times(gradient: Any, y: Any) -> Any:
    """gradient · y, rounded once to y's dtype."""
    wide = torch.promote_types(gradient.dtype, y.dtype)
    return (gradient.to(wide) * y.to(wide)).to(y.dtype)


class _OfSum(Derivative):
    @staticmethod
    def backward(ctx: Any, gradient: Any) -> tuple[Any, ...]:
        return gradient.to(ctx.dtype).expand(ctx.shape), *ctx.rest

    @staticmethod
    def jvp(ctx: Any, tangent: Any, *_: Any) -> Any:
        return tangent.sum(dtype=ctx.result_dtype)


class _OfMean(Derivative):
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
        ctx.result_dtype = output.dtype
        ctx.save_for_backward(inputs[0], output)
        ctx.save_for_forward(inputs[0], output)

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


_FUNCTIONS: dict[Operation, type[Derivative]] = {
    "sum": differentiable("sum", _OfSum), "mean": differentiable("mean", _OfMean), "dot": differentiable("dot", _OfDot),
    "norm": differentiable("norm", _OfNorm), "fsum": differentiable("fsum", _OfSum), "fmean": differentiable("fmean", _OfMean),
    "fdot": differentiable("fdot", _OfDot), "fnorm": differentiable("fnorm", _OfNorm),
}  # fmt: skip


def _register(operation: Operation) -> None:
    operands = ("x", "y") if operation in OF_TWO else ("x",)
    count = len(operands)

    def execute(*arguments: Any) -> Any:
        arrays, given = arguments[:count], arguments[count:]
        options = given + _DEFAULTS[operation][len(given) :]
        if arrays[0].is_cuda:
            return _quickly(operation, arrays[0], arrays[-1], options)
        return _executed(operation, arrays, options)

    def shape_alone(*arguments: Any, dtype: Any = None, **_: Any) -> Any:
        check_arrays(arguments[:count])
        given = arguments[count:]
        if len(given) == len(OPTIONS[operation]):
            dtype = given[-1]
        return arguments[0].new_empty((), dtype=result_dtype(arguments[0], dtype))

    def one_by_one(info: Any, where: tuple[Any, ...], *arguments: Any, **named: Any) -> Any:
        if info.batch_size == 0:
            return shape_alone(*arguments, **named).new_empty((0,)), 0
        results = [
            operator(
                *(
                    x if axis is None else x.select(axis, i)
                    for x, axis in zip(arguments, where, strict=False)
                ),
                *arguments[len(where) :],
                **named,
            )
            for i in range(info.batch_size)
        ]
        return torch.stack(results), 0

    operator = add_operator(
        operation, schema_of(*operands, *OPTIONS[operation]), execute, shape_alone, _FUNCTIONS[operation], one_by_one
    )  # fmt: skip


_DEFAULTS = {operation: defaults(names) for operation, names in OPTIONS.items()}

for _operation in OPTIONS:
    _register(_operation)
