"""Losses of rows with a class each: the operators ``torch.ops.tcu.cross_entropy`` and ``cross_entropy_gradient``."""

from __future__ import annotations

from typing import Any

import torch

from tcu.engines import host, load_cuda
from tcu.errors import ParameterError
from tcu.formats.tensor import plain_view, tensor_of
from tcu.plan.losses import Weights
from tcu.surfaces.classes import check_classes
from tcu.surfaces.torch.checks import check_arrays, check_numbers
from tcu.surfaces.torch.derivative import logsumexp_along, softmax_along, sum_along
from tcu.surfaces.torch.function import Function
from tcu.surfaces.torch.watch import in_graph, is_watched, recorder

__all__ = ["cross_entropy"]

_OPTIONS = "int axis, float label_smoothing, float z_loss, int ignore_index"


def cross_entropy(x: Any, target: Any, axis: int, weights: Weights) -> Any:
    """The losses of the rows along an axis that is not negative, in binary32, or in binary64 of float64."""
    check_arrays((x,))
    if x.device != target.device:
        raise ParameterError(f"x is on {x.device}, target on {target.device}: move both to one device")
    if in_graph() or is_watched(x, target):
        if not in_graph():
            check_numbers((x,))
        return recorder("cross_entropy", _Losses, "cross_entropy")(x, target, axis, *weights)[0]
    return _executed(x, target, axis, *weights)[0]


def _executed(x: Any, target: Any, axis: int, *weights: Any) -> tuple[Any, Any]:
    given = Weights(*weights)
    if x.is_cuda:
        found: tuple[Any, Any] = load_cuda().cross_entropy(x, target, axis, given)
        return found
    target = target.to(torch.int64)
    check_classes(target, x.shape[axis], given.ignore_index)
    classes = plain_view(target, "target")
    losses, parts = host.cross_entropy(plain_view(x, "x"), classes, axis, given)
    return tensor_of(losses), tensor_of(parts)


def _gradient(given: Any, x: Any, target: Any, parts: Any, axis: int, *weights: Any) -> Any:
    options = Weights(*weights)
    if x.is_cuda:
        return load_cuda().cross_entropy_gradient(given, x, target, parts, axis, options)
    classes = plain_view(target.to(torch.int64), "target")
    slopes, numbers, kept = (plain_view(each, "x") for each in (given, x, parts))
    found = host.cross_entropy_gradient(slopes, numbers, classes, kept, axis, options)
    return tensor_of(found)


def _jacobian(x: Any, target: Any, axis: int, weights: Weights) -> tuple[Any, Any, Any]:
    """(softmax, its factor, what a loss changes by with each number), in the losses' format; made of operators with derivatives."""
    shares = softmax_along(x, axis)
    factor = 2 * weights.z_loss * logsumexp_along(x, axis) + 1 if weights.z_loss else 1
    places = torch.arange(x.shape[axis], device=x.device).reshape(
        [-1 if i == axis else 1 for i in range(x.dim())]
    )
    at_target = (places == target.unsqueeze(axis)).to(x.dtype)
    counted = (target != weights.ignore_index).unsqueeze(axis)
    change = (
        shares * factor
        - at_target * (1 - weights.label_smoothing)
        - weights.label_smoothing / max(x.shape[axis], 1)
    )
    return shares, factor, torch.where(counted, change, torch.zeros_like(change))


class _Losses(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(*arguments: Any) -> Any:
        return torch.ops.tcu.cross_entropy(*arguments)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        x, target, ctx.axis, *weights = inputs
        ctx.weights = Weights(*weights)
        ctx.save_for_backward(x, target, output[1])
        ctx.save_for_forward(x, target, output[1])
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx: Any, gradient: Any, _: Any) -> tuple[Any, ...]:
        x, target, parts = ctx.saved_tensors
        record = recorder("cross_entropy_gradient", _Gradients, "cross_entropy")
        return record(gradient, x, target, parts, ctx.axis, *ctx.weights), *(None,) * 5

    @staticmethod
    def jvp(ctx: Any, tangent: Any, *_: Any) -> Any:
        x, target, parts = ctx.saved_tensors
        wide = x.to(parts.dtype)
        change = _jacobian(wide, target, ctx.axis, ctx.weights)[2]
        return sum_along(change * tangent.to(wide.dtype), ctx.axis).squeeze(ctx.axis), None


class _Gradients(Function):
    """Its own derivatives are made of softmax and sums, which have all further ones."""

    generate_vmap_rule = True

    @staticmethod
    def forward(*arguments: Any) -> Any:
        return torch.ops.tcu.cross_entropy_gradient(*arguments)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        given, x, target, parts, ctx.axis, *weights = inputs
        ctx.weights = Weights(*weights)
        ctx.save_for_backward(given, x, target, parts)
        ctx.save_for_forward(given, x, target, parts)

    @staticmethod
    def _change(ctx: Any, tangent: Any) -> tuple[Any, Any]:
        """(the tangent times the Jacobian of the row's gradient, and what a loss changes by with each number)"""
        given, x, target, parts = ctx.saved_tensors
        axis, weights = ctx.axis, ctx.weights
        wide, tangent = x.to(parts.dtype), tangent.to(parts.dtype)
        shares, factor, change = _jacobian(wide, target, axis, weights)
        total = sum_along(tangent * shares, axis)
        found = shares * (factor * (tangent - total) + 2 * weights.z_loss * total)
        counted = (target != weights.ignore_index).unsqueeze(axis)
        return torch.where(counted, found, torch.zeros_like(found)) * given.unsqueeze(axis), change

    @classmethod
    def backward(cls, ctx: Any, gradient: Any) -> tuple[Any, ...]:
        _, x, *_ = ctx.saved_tensors
        of_x, change = cls._change(ctx, gradient)
        of_given = sum_along(change * gradient.to(change.dtype), ctx.axis).squeeze(ctx.axis)
        return of_given, of_x.to(x.dtype), *(None,) * 6

    @classmethod
    def jvp(cls, ctx: Any, of_given: Any, of_x: Any, *_: Any) -> Any:
        _, x, target, parts = ctx.saved_tensors
        found: Any = 0
        if of_x is not None:
            found = found + cls._change(ctx, of_x)[0]
        if of_given is not None:
            change = _jacobian(x.to(parts.dtype), target, ctx.axis, ctx.weights)[2]
            found = found + change * of_given.unsqueeze(ctx.axis)
        return found.to(x.dtype)


def _shapes(x: Any, target: Any, axis: int, *_: Any) -> tuple[Any, Any]:
    work = torch.float64 if x.dtype is torch.float64 else torch.float32
    return target.new_empty(target.shape, dtype=work), target.new_empty((*target.shape, 3), dtype=work)


def _gradient_shape(given: Any, x: Any, target: Any, parts: Any, axis: int, *_: Any) -> Any:
    if not x.is_cuda:
        return x.new_empty(x.shape)
    return x.new_empty((*target.shape, x.shape[axis])).movedim(-1, axis)


def _batched(operator: Any, arrays: int) -> Any:
    """The batch is one more axis of rows."""

    def run(info: Any, where: tuple[Any, ...], *arguments: Any) -> Any:
        batches = [
            each.unsqueeze(0).expand(info.batch_size, *each.shape) if at is None else each.movedim(at, 0)
            for each, at in zip(arguments[:arrays], where, strict=False)
        ]
        axis, *rest = arguments[arrays:]
        found = operator(*batches, axis + 1, *rest)
        return found, (0, 0) if isinstance(found, tuple) else 0

    return run


def _register() -> None:
    for name, execute, shapes, derivative, tensors, results in (
        ("cross_entropy", _executed, _shapes, _Losses, ("x", "target"), "(Tensor, Tensor)"),
        ("cross_entropy_gradient", _gradient, _gradient_shape, _Gradients, ("given", "x", "target", "parts"), "Tensor"),
    ):  # fmt: skip
        schema = f"({', '.join(f'Tensor {each}' for each in tensors)}, {_OPTIONS}) -> {results}"
        operator = torch.library.custom_op(
            f"tcu::{name}", execute, mutates_args=(), device_types=("cpu", "cuda"), schema=schema
        )
        operator.register_fake(shapes)
        operator.register_autograd(derivative.backward, setup_context=derivative.setup_context)
        operator.register_vmap(_batched(operator, len(tensors)))


_register()
