"""``tcu.matmul`` of PyTorch's tensors: the operator ``torch.ops.tcu.matmul``, its gradients, and a linear layer."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from tcu.engines import host, load_cuda
from tcu.errors import ParameterError, ShapeError
from tcu.formats.format import named_format
from tcu.formats.tensor import is_tensor, operand_view, tensor_of
from tcu.ops.matmul import FACTORS, MatmulCall, MatmulOptions, Product, product_of
from tcu.ops.options import defaults
from tcu.surfaces.torch import run as _sums  # registers sums, which gradients take
from tcu.surfaces.torch.checks import check_out, of_schema, put
from tcu.surfaces.torch.derivative import DERIVATIVES
from tcu.surfaces.torch.forms import one_by_one
from tcu.surfaces.torch.function import Function, has_tangent
from tcu.surfaces.torch.product_cache import keeper, shortcut
from tcu.surfaces.torch.watch import constant, in_graph, is_watched, recorder, wants_gradients

__all__ = ["check_gradient", "executed", "linear", "run", "schema_of", "shortcut", "torch_dtype"]

_NUMBERS = (np.floating, np.integer)
_NAMES = ("a", "b", *FACTORS)
del _sums


def run(call: MatmulCall) -> Any:
    """The result of a call with tensors."""
    if any(isinstance(x, _NUMBERS) for x in call[2:5]):
        call = call._replace(**{name: _plain(getattr(call, name)) for name in FACTORS})
    _check(call)
    if not in_graph():
        factors = (x for x in call[2:5] if is_tensor(x))
        if not is_watched(call.a, call.b) and not any(is_watched(x, x) for x in factors):
            return executed(call)
    tensors = _tensors(call)
    for name, x in zip(_NAMES, tensors, strict=True):
        check_gradient(name, x)
    record, options = _record(), call.options
    if call.out is None:
        return record(*tensors, *schema_of(options))
    given = [x for x in tensors if x is not None]
    check_out(call.out, tensors[0], _product(call).shape)
    rest = schema_of(options if options.dtype is not None else options._replace(dtype=call.out.dtype))
    return put(lambda *_: record(*tensors, *rest), given, (), None, call.out)


def linear(
    x: Any,
    weight: Any,
    bias: Any = None,
    *,
    dtype: Any = None,
    plan: str = "chunks",
    rounding: str = "nearest",
    unit: str | None = None,
) -> Any:
    """x·weightᵀ + bias, as ``torch.nn.functional.linear``, by :func:`tcu.matmul`.

    ``x``: (..., K), ``weight``: (N, K), ``bias``: (N).  The result has the
    dtype of ``x`` unless ``dtype`` asks for another.  Each row has the same
    bits in every batch, so a model's answers do not depend on what else is
    asked at the same time.  The options are those of :func:`tcu.matmul`.
    Raises what :func:`tcu.matmul` raises.
    """
    for name, given in (("x", x), ("weight", weight)):
        if not is_tensor(given):
            raise ParameterError(
                f"{name} is a {type(given).__name__}: make it a tensor, with torch.as_tensor, or call tcu.matmul(x, weight.T)"
            )
    if weight.dim() > 2:
        raise ShapeError(
            f"weight has shape {tuple(weight.shape)}: give (N, K), or call tcu.matmul(x, weight.mT)"
        )
    options = MatmulOptions(plan, rounding, None, unit, x.dtype if dtype is None else dtype)
    return run(MatmulCall(x, weight.t(), bias=bias, options=options))


def _check(call: MatmulCall) -> None:
    """Raises ParameterError unless the arrays are tensors on one device; scales and a bias may be numbers."""
    for name, x in zip(_NAMES, call[:5], strict=True):
        if is_tensor(x):
            if x.device != call.a.device:
                raise ParameterError(
                    f"a is on {call.a.device}, {name} on {x.device}: move both to one device"
                )
        elif name in ("a", "b") or not isinstance(x, float | int | None):
            raise ParameterError(
                f"{name} is a {type(x).__name__} beside tensors: make it one, with torch.as_tensor"
            )


def _plain(factor: Any) -> Any:
    """A number of NumPy's as one of Python's."""
    return factor.item() if isinstance(factor, _NUMBERS) else factor


def _tensors(call: MatmulCall) -> tuple[Any, ...]:
    """a, b, the scales and the bias, as operators take them."""
    a, b, *factors = call[:5]
    wide = torch.float64 if a.dtype == torch.float64 else torch.float32
    return a, b, *(a.new_full((), x, dtype=wide) if isinstance(x, float | int) else x for x in factors)


def check_gradient(name: str, x: Any) -> None:
    if x is None or not ((x.requires_grad and wants_gradients()) or has_tangent(x)):
        return
    if name.startswith("scale"):
        raise ParameterError(f"{name} wants a gradient, which scales do not have: pass {name}.detach()")
    if x.dtype.itemsize == 1:
        raise ParameterError(
            f"{name} wants a gradient in {x.dtype}, which has too few digits for it: multiply in bfloat16, "
            f"or pass {name}.detach()"
        )


def _record() -> Any:
    return recorder("matmul", _Derivative, "matmul")


def schema_of(options: MatmulOptions) -> tuple[Any, ...]:
    """The options as operators take them."""
    dtype = options.dtype
    if dtype is not None and not isinstance(dtype, torch.dtype):
        dtype = torch_dtype(dtype)
    named = of_schema(("accumulator", "unit"), (options.accumulator, options.unit))
    return options.plan, options.rounding, *named, dtype


@constant
def torch_dtype(dtype: Any) -> Any:
    return getattr(torch, named_format(dtype).dtype.name)


def _product(call: MatmulCall) -> Product:
    a, b, out = call.a, call.b, None if call.out is None else call.out.dtype
    formats = named_format(a.dtype).name, named_format(b.dtype).name
    return product_of(tuple(a.shape), tuple(b.shape), formats, call.options, out, call.has_factors)


def executed(call: MatmulCall) -> Any:
    """With numbers, nobody recording it."""
    out = call.out
    if out is not None:
        check_out(out, call.a, _product(call).shape)
    if call.a.is_cuda:
        result = load_cuda().multiply(call, keep=keeper(call))
    else:
        views = (
            operand_view(x, name) if is_tensor(x) else x for name, x in zip(_NAMES, call[:5], strict=True)
        )
        place = None if out is None else operand_view(out, "out")
        result = host.multiply(MatmulCall._make((*views, call.options, place)))
        result = tensor_of(result) if out is None else out
    if out is not None and not out.is_inference():
        torch.autograd.graph.increment_version(out)
    return result


# The operator.


def _execute(
    a: Any, b: Any, scale_a: Any = None, scale_b: Any = None, bias: Any = None, *options: Any
) -> Any:
    return executed(MatmulCall(a, b, scale_a, scale_b, bias, MatmulOptions(*options)))


def _shape_alone(
    a: Any,
    b: Any,
    scale_a: Any = None,
    scale_b: Any = None,
    bias: Any = None,
    *options: Any,
    dtype: Any = None,
) -> Any:
    given = MatmulOptions(*options)
    given = given if dtype is None else given._replace(dtype=dtype)
    product = _product(MatmulCall(a, b, scale_a, scale_b, bias, given))
    return a.new_empty(product.shape, dtype=torch_dtype(product.plan.result))


def _backward(ctx: Any, gradient: Any) -> tuple[Any, ...]:
    a, b, scale_a, scale_b, bias = ctx.saved_tensors
    x, y = _matrix(a, 0), _matrix(b, 1)
    g = gradient if a.dim() > 1 else gradient.unsqueeze(-1 if b.dim() == 1 else -2)
    g = g if b.dim() > 1 else g.unsqueeze(-1)
    needs = ctx.needs_input_grad
    of_bias = None
    if bias is not None and needs[4]:
        axes = list(range(g.dim() - 1 if bias.dim() else g.dim()))
        of_bias = _total(g, axes, bias.dtype)
    for scale in (None if scale_a is None else scale_a.unsqueeze(-1) if scale_a.dim() else scale_a, scale_b):
        g = g if scale is None else g.to(torch.promote_types(g.dtype, torch.float32)) * scale
    of_a = _of_left(g, x, y, ctx.options).reshape(a.shape) if needs[0] else None
    of_b = _of_right(g, x, y, ctx.options).reshape(b.shape) if needs[1] else None
    return of_a, of_b, None, None, of_bias, *(None,) * len(MatmulOptions._fields)


def _total(g: Any, axes: list[int], dtype: Any) -> Any:
    total = DERIVATIVES["sum_along"]
    return total.record(g, axes, False, *defaults(total.operation.options[:-1]), dtype)


def _matrix(x: Any, axis: int) -> Any:
    return x if x.dim() > 1 else x.unsqueeze(axis)


def _of_left(g: Any, x: Any, y: Any, options: MatmulOptions) -> Any:
    """G·Bᵀ, summed over the batch dimensions along which A is broadcast: they become part of K."""
    kept, folded = _split(g, x)
    left = g.permute(*kept, -2, *folded, -1)
    right = _spread(y, g).permute(*kept, *folded, -1, -2)
    return _again(*_folded(left, right, len(kept)), x.dtype, options)


def _of_right(g: Any, x: Any, y: Any, options: MatmulOptions) -> Any:
    """Aᵀ·G, likewise."""
    kept, folded = _split(g, y)
    left = _spread(x, g).permute(*kept, -1, *folded, -2)
    right = g.permute(*kept, *folded, -2, -1)
    return _again(*_folded(left, right, len(kept)), y.dtype, options)


def _folded(left: Any, right: Any, kept: int) -> tuple[Any, Any]:
    """(kept..., M, K) and (kept..., K, N), where K was several dimensions; by no flatten, which a batch of gradients lacks."""
    batches, k = left.shape[:kept], math.prod(left.shape[kept + 1 :])
    return left.reshape(*batches, left.shape[kept], k), right.reshape(*batches, k, right.shape[-1])


def _split(g: Any, operand: Any) -> tuple[list[int], list[int]]:
    """The batch dimensions of the product that an operand has, and those along which it is broadcast."""
    count, own = g.dim() - 2, operand.dim() - 2
    folded = [
        i
        for i in range(count)
        if i < count - own or (operand.shape[i - count + own] == 1 and g.shape[i] != 1)
    ]
    return [i for i in range(count) if i not in folded], folded


def _spread(x: Any, g: Any) -> Any:
    return x.expand(*g.shape[:-2], *x.shape[-2:])


def _again(left: Any, right: Any, dtype: Any, options: MatmulOptions) -> Any:
    """Their product in the format of an operand, to which a gradient is rounded first."""
    return _record()(left.to(dtype), right.to(dtype), None, None, None, *options._replace(dtype=dtype))


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.options = MatmulOptions(*inputs[5:])
    ctx.shape, ctx.result_dtype = output.shape, output.dtype
    ctx.save_for_backward(*inputs[:5])
    ctx.save_for_forward(*inputs[:5])


class _Derivative(Function):
    """The operator with its derivatives, as torch.func asks for them."""

    generate_vmap_rule = True
    setup_context = staticmethod(_setup_context)
    backward = staticmethod(_backward)

    @staticmethod
    def forward(*arguments: Any) -> Any:
        return torch.ops.tcu.matmul(*arguments)

    @staticmethod
    def jvp(ctx: Any, of_a: Any, of_b: Any, of_scale_a: Any, of_scale_b: Any, of_bias: Any, *_: Any) -> Any:
        a, b, scale_a, scale_b, _ = ctx.saved_tensors
        options = ctx.options._replace(dtype=ctx.result_dtype)
        pairs = [(x, y) for x, y in ((of_a, b), (a, of_b)) if x is not None and y is not None]
        total = sum(_record()(x, y, scale_a, scale_b, None, *options) for x, y in pairs)
        if of_bias is None:
            return total
        if not ctx.shape:  # of vectors, whose bias may be a line of one number
            of_bias = of_bias.reshape(())
        return total + of_bias.to(ctx.result_dtype).expand(ctx.shape)


def _batched(info: Any, where: tuple[Any, ...], *arguments: Any, **named: Any) -> Any:
    """The batch is one more dimension of batches; one by one where scales or the bias differ."""
    if any(axis is not None for axis in where[2:5]):
        return one_by_one(torch.ops.tcu.matmul)(info, where, *arguments, **named)
    lines = [x.dim() - (axis is not None) == 1 for x, axis in zip(arguments, where[:2], strict=False)]
    moved = [x if axis is None else x.movedim(axis, 0) for x, axis in zip(arguments, where[:2], strict=False)]
    moved = [x.unsqueeze(at) if line else x for x, line, at in zip(moved, lines, (-2, -1), strict=True)]
    count = max(x.dim() - (axis is not None) for x, axis in zip(moved, where, strict=False))
    for i, axis in enumerate(where[:2]):
        if axis is not None:
            x = moved[i]
            moved[i] = x.reshape(x.shape[0], *(1,) * (count + 1 - x.dim()), *x.shape[1:])
    result = torch.ops.tcu.matmul(*moved, *arguments[2:], **named)
    if lines[1]:
        result = result.squeeze(-1)
    if lines[0]:
        result = result.squeeze(-1 if lines[1] else -2)
    return result, 0


_operator = torch.library.custom_op(
    "tcu::matmul", _execute, mutates_args=(), device_types=("cpu", "cuda"),
    schema="(Tensor a, Tensor b, Tensor? scale_a=None, Tensor? scale_b=None, Tensor? bias=None, str plan='chunks', "
    "str rounding='nearest', str? accumulator=None, str? unit=None, ScalarType? dtype=None) -> Tensor",
)  # fmt: skip
_operator.register_fake(_shape_alone)
_operator.register_autograd(_backward, setup_context=_setup_context)
_operator.register_vmap(_batched)
