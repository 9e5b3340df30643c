"""Rows times a weight, plus a bias: the operator ``torch.ops.tcu.scaled`` and its gradients, exact sums over the rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch

from tcu.engines import host, load_cuda
from tcu.formats.tensor import plain_view, tensor_of
from tcu.ops.operation import Operation
from tcu.ops.result import rounding_target
from tcu.surfaces.torch.checks import check_out, of_schema, put
from tcu.surfaces.torch.derivative import Derivative, exact_sum, recorded_sum
from tcu.surfaces.torch.forms import one_by_one
from tcu.surfaces.torch.watch import in_graph, is_for_backward, is_watched, recorder, wants_gradients

__all__ = ["run"]


def run(
    operation: Operation, norm: Any, x: Any, weight: Any, bias: Any, axis: int, eps: float | None, work: str, dtype: Any,
    out: Any = None,
) -> Any:  # fmt: skip
    """The norms of the rows that ``x`` has along an axis, in binary32 or binary64 (``work``), scaled and rounded to ``dtype``.

    norm: the function of the operation, for calls that no kernel serves at once.
    """
    (kind,) = of_schema(("dtype",), (dtype,))
    if out is not None:
        check_out(out, x, tuple(x.shape))
    given = [each for each in (x, weight, bias) if each is not None]
    watched = in_graph() or any(is_watched(each, each) for each in given)
    wide = torch.float64 in (x.dtype, kind)
    if not watched and x.is_cuda and wide == (work == "float64"):
        return load_cuda().weighted_norm(
            operation, x, axis % x.dim(), weight, bias, eps, rounding_target(dtype).dtype, out
        )
    if out is None and x.is_cuda and not wide and work == "float32" and is_for_backward(given):
        return _OfNorm.apply(x, weight, bias, _Norm(operation, norm, axis % x.dim(), eps, kind))
    x = norm(x, axis, eps=eps, dtype=work)
    if not watched:
        result = _execute(x, weight, bias, axis, kind)
        return result if out is None else out.copy_(result)
    record = _recorder()
    if out is None:
        return record(x, weight, bias, axis, kind)
    return put(lambda *_: record(x, weight, bias, axis, kind), [x, *given[1:]], (), kind, out)


def _recorder() -> Any:
    return recorder("scaled", _OfScaled, "rms_norm")


def _execute(x: Any, weight: Any, bias: Any, axis: int, dtype: Any) -> Any:
    if x.is_cuda:
        return _on_gpu(x, weight, bias, axis, dtype)
    numbers, factors, terms = (None if each is None else plain_view(each, "x") for each in (x, weight, bias))
    return tensor_of(host.scaled(numbers, factors, terms, axis, rounding_target(dtype).dtype))


def _on_gpu(x: Any, weight: Any, bias: Any, axis: int, dtype: Any) -> Any:
    """By PyTorch's own kernels, one for each operation, as the compiler makes an FMA of two that it sees together."""
    if weight is not None:
        x = x * _beside(x, weight, axis)
    if bias is not None:
        x = x + _beside(x, bias, axis)
    nan = {2: 0x7FFF, 4: 0x7FFFFFFF, 8: 0x7FFFFFFFFFFFFFFF}[dtype.itemsize]
    codes = {2: torch.int16, 4: torch.int32, 8: torch.int64}[dtype.itemsize]
    if x.dtype is torch.float64 and dtype.itemsize == 2:
        x = _rounded_to_odd(x)
    return x.to(dtype, copy=True).view(codes).masked_fill_(x.isnan(), nan).view(dtype)


def _rounded_to_odd(x: Any) -> Any:
    """In binary32, from which PyTorch rounds to 16 bits: rounded to nearest on the way, some would be rounded twice."""
    near = x.to(torch.float32)
    toward_zero = torch.where(near.double().abs() > x.abs(), near.nextafter(torch.zeros_like(near)), near)
    return (toward_zero.view(torch.int32) | (toward_zero.double() != x)).view(torch.float32)


def _beside(x: Any, line: Any, axis: int) -> Any:
    """A number for each place of a row, as a factor of ``x``."""
    return line.to(x.dtype).reshape([-1 if i == axis else 1 for i in range(x.dim())])


class _OfScaled(Derivative):
    operator = "scaled"

    @staticmethod
    def forward(*arguments: Any) -> Any:
        return torch.ops.tcu.scaled(*arguments)

    @classmethod
    def setup_context(cls, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        x, weight, bias, ctx.axis, _ = inputs
        ctx.result_dtype, ctx.bias_dtype = output.dtype, None if bias is None else bias.dtype
        ctx.save_for_backward(x, weight)
        ctx.save_for_forward(x, weight)

    @classmethod
    def backward(cls, ctx: Any, gradient: Any) -> tuple[Any, ...]:
        (x, weight), axis = ctx.saved_tensors, ctx.axis
        rows, given = [i for i in range(x.dim()) if i != axis], gradient.to(x.dtype)
        needs = ctx.needs_input_grad
        of_x = given if weight is None else given * _beside(x, weight, axis)
        of_weight = exact_sum(given * x, rows).to(weight.dtype) if weight is not None and needs[1] else None
        of_bias = (
            exact_sum(given, rows).to(ctx.bias_dtype) if ctx.bias_dtype is not None and needs[2] else None
        )
        return of_x if needs[0] else None, of_weight, of_bias, None, None

    @classmethod
    def jvp(cls, ctx: Any, *tangents: Any) -> Any:
        (x, weight), axis = ctx.saved_tensors, ctx.axis
        of_x, of_weight, of_bias = tangents[:3]
        parts = []
        if of_x is not None:
            parts.append(of_x if weight is None else of_x * _beside(x, weight, axis))
        if of_weight is not None:
            parts.append(x * _beside(x, of_weight, axis))
        if of_bias is not None:
            parts.append(_beside(x, of_bias, axis).expand(x.shape))
        return sum(parts[1:], parts[0]).to(ctx.result_dtype)


class _Norm(NamedTuple):
    """A norm of rows in binary32, but for its tensors."""

    operation: Operation
    norm: Any
    axis: int
    eps: float | None
    dtype: Any

    def in_steps(self, x: Any, weight: Any, bias: Any) -> Any:
        """By operators, each with derivatives of its own."""
        x = self.norm(x, self.axis, eps=self.eps, dtype="float32")
        return _recorder()(x, weight, bias, self.axis, self.dtype)


class _OfNorm(torch.autograd.Function):  # type: ignore[misc]
    """The norm and its scaling in one launch, for a backward pass alone, which has the bits of the derivatives of both steps.

    It keeps x and the weight, not the norms.
    """

    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any, bias: Any, call: _Norm) -> Any:
        ctx.save_for_backward(x, weight, bias)
        ctx.call = call
        return load_cuda().weighted_norm(
            call.operation, x, call.axis, weight, bias, call.eps, rounding_target(call.dtype).dtype, None
        )

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> tuple[Any, ...]:
        given, call = ctx.saved_tensors, ctx.call
        found = None if is_watched(gradient, given[0]) else _gradients_at_once(ctx, gradient)
        if found is None:
            again = wants_gradients()
            with torch.enable_grad():
                leaves = [
                    None if each is None else each if again else each.detach().requires_grad_()
                    for each in given
                ]
                result = call.in_steps(*leaves)
            wanted = [each for each, needs in zip(leaves, ctx.needs_input_grad, strict=False) if needs]
            of_wanted = iter(torch.autograd.grad(result, wanted, gradient, create_graph=again))
            found = [next(of_wanted) if needs else None for needs in ctx.needs_input_grad[:3]]
        return *found, None


def _gradients_at_once(ctx: Any, gradient: Any) -> list[Any] | None:
    """Of x, the weight and the bias, where they are needed; None where no kernel serves."""
    (x, weight, bias), (operation, _, axis, eps, _) = ctx.saved_tensors, ctx.call
    needs, engine = ctx.needs_input_grad, load_cuda()
    rows = [i for i in range(x.dim()) if i != axis]
    of_x = of_weight = of_bias = None
    if not x.numel() or gradient.dtype not in (x.dtype, torch.float32):
        return None
    if needs[0]:
        least = float(operation.eps((eps, None), np.float32))
        of_x = engine.row_gradient(operation.finish, gradient, x, axis, least, x.dtype, weight)
        if of_x is None:
            return None
    if weight is not None and needs[1]:
        products = engine.norms_times(operation, x, gradient, axis, eps)
        of_weight = exact_sum(products, rows).to(weight.dtype)
    if bias is not None and needs[2]:
        of_bias = recorded_sum("fsum_along", gradient, rows, False, torch.float32).to(bias.dtype)
    return [of_x, of_weight, of_bias]


def _shape_alone(x: Any, weight: Any, bias: Any, axis: int, dtype: Any) -> Any:
    return x.new_empty(x.shape, dtype=dtype)


def _register() -> None:
    operator = torch.library.custom_op(
        "tcu::scaled", _execute, mutates_args=(), device_types=("cpu", "cuda"),
        schema="(Tensor x, Tensor? weight, Tensor? bias, int axis, ScalarType dtype) -> Tensor",
    )  # fmt: skip
    operator.register_fake(_shape_alone)
    operator.register_autograd(_OfScaled.backward, setup_context=_OfScaled.setup_context)

    def mapped(
        info: Any, where: tuple[Any, ...], x: Any, weight: Any, bias: Any, axis: int, dtype: Any
    ) -> Any:
        """The batch is one more axis of rows, unless each has weights of its own."""
        if where[0] is not None and where[1] is None and where[2] is None:
            return operator(x.movedim(where[0], 0), weight, bias, axis + 1, dtype), 0
        return one_by_one(operator)(info, where, x, weight, bias, axis, dtype)

    operator.register_vmap(mapped)


_register()
