"""``tcu.segment_matmul`` of PyTorch's tensors: two operators, each of which the other's gradients are made of."""

from __future__ import annotations

from typing import Any

import torch

from tcu.engines import load_cuda
from tcu.errors import ParameterError, ShapeError
from tcu.formats.format import named_format
from tcu.formats.tensor import is_tensor
from tcu.ops.matmul import MatmulCall, MatmulOptions, Product, check_segments, segments_of
from tcu.ops.offsets import checked_offsets
from tcu.surfaces.torch.checks import check_offsets, check_out, edges_of, put
from tcu.surfaces.torch.forms import one_by_one
from tcu.surfaces.torch.function import Function
from tcu.surfaces.torch.matmul import check_gradient, executed, schema_of, torch_dtype
from tcu.surfaces.torch.watch import in_graph, is_watched, recorder

__all__ = ["run"]

_SCHEMA = "Tensor offsets, bool check=True, str plan='chunks', str rounding='nearest', str? accumulator=None, str? unit=None, ScalarType? dtype=None"


def run(x: Any, weights: Any, offsets: Any, check: bool, options: MatmulOptions, out: Any) -> Any:
    """The result of a call with tensors."""
    for name, each in (("x", x), ("weights", weights)):
        if not is_tensor(each):
            raise ParameterError(
                f"{name} is a {type(each).__name__} beside tensors: make it one, with torch.as_tensor"
            )
        check_gradient(name, each)
    if x.device != weights.device:
        raise ParameterError(f"x is on {x.device}, weights on {weights.device}: move both to one device")
    edges = edges_of(offsets)
    if out is not None:
        check_out(out, x, _product(x, weights, options, out.dtype).shape)
        options = options if options.dtype is not None else options._replace(dtype=out.dtype)
    if in_graph() or is_watched(x, weights):
        record, rest = recorder("segment_matmul", _Rows, "segment_matmul"), schema_of(options)
    else:
        record, rest = _multiply, tuple(options)
    if out is None:
        return record(x, weights, edges, check, *rest)
    return put(lambda *_: record(x, weights, edges, check, *rest), (x, weights), (), None, out)


def _product(x: Any, weights: Any, options: MatmulOptions, out: Any = None) -> Product:
    formats = named_format(x.dtype).name, named_format(weights.dtype).name
    return segments_of(tuple(x.shape), tuple(weights.shape), formats, options, out)


def _edges(offsets: Any, rows: int) -> list[int]:
    """Waits for offsets on a GPU."""
    edges: list[int] = checked_offsets(offsets.cpu(), rows, "rows").tolist()
    return edges


def _multiply(x: Any, weights: Any, offsets: Any, check: bool = True, *options: Any) -> Any:
    given = MatmulOptions(*options)
    product = _product(x, weights, given)
    check_offsets(offsets, offsets.shape)
    check_segments(offsets.shape[0] - 1, weights.shape[0])
    result = x.new_empty(product.shape, dtype=torch_dtype(product.plan.result))
    if x.is_cuda and load_cuda().multiply_segments(x, weights, offsets, product, given.unit, check, result):
        return result
    edges = _edges(offsets, x.shape[0])
    for matrix, first, last in zip(weights.unbind(0), edges[:-1], edges[1:], strict=True):
        if first < last:
            executed(MatmulCall(x[first:last], matrix, options=given, out=result[first:last]))
    return result


def _shape_of_rows(
    x: Any, weights: Any, offsets: Any, check: bool = True, *options: Any, **named: Any
) -> Any:
    product = _product(x, weights, MatmulOptions(*options)._replace(**named))
    check_offsets(offsets, offsets.shape)
    check_segments(offsets.shape[0] - 1, weights.shape[0])
    return x.new_empty(product.shape, dtype=torch_dtype(product.plan.result))


def _pair(x: Any, g: Any, options: tuple[Any, ...], named: Any = None) -> Product:
    """Of the products xᵀ·g of a segment's rows, whose K is their number."""
    if x.dim() != 2 or g.dim() != 2:
        raise ShapeError(
            f"x has shape {tuple(x.shape)}, g {tuple(g.shape)}: give matrices with a row for each"
        )
    given = MatmulOptions(*options)._replace(**(named or {}))
    formats = named_format(x.dtype).name, named_format(g.dtype).name
    return segments_of((x.shape[1], x.shape[0]), (1, *g.shape), formats, given)


def _outer(x: Any, g: Any, offsets: Any, check: bool = True, *options: Any) -> Any:
    given, product = MatmulOptions(*options), _pair(x, g, options)
    edges = _edges(offsets, x.shape[0])
    result = x.new_empty((len(edges) - 1, *product.shape), dtype=torch_dtype(product.plan.result))
    for matrix, first, last in zip(result.unbind(0), edges[:-1], edges[1:], strict=True):
        executed(MatmulCall(x[first:last].t(), g[first:last], options=given, out=matrix))
    return result


def _shape_of_outer(x: Any, g: Any, offsets: Any, check: bool = True, *options: Any, **named: Any) -> Any:
    product = _pair(x, g, options, named)
    return x.new_empty((offsets.shape[0] - 1, *product.shape), dtype=torch_dtype(product.plan.result))


class _Pair(Function):
    """Both operators are linear in each of two operands."""

    generate_vmap_rule = True

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        x, y, offsets, ctx.check, *options = inputs
        ctx.options, ctx.result_dtype = MatmulOptions(*options), output.dtype
        ctx.save_for_backward(x, y, offsets)
        ctx.save_for_forward(x, y, offsets)

    @classmethod
    def jvp(cls, ctx: Any, of_x: Any, of_y: Any, *_: Any) -> Any:
        x, y, offsets = ctx.saved_tensors
        pairs = [(p, q) for p, q in ((of_x, y), (x, of_y)) if p is not None and q is not None]
        return sum(_again(cls, p, q, offsets, ctx, ctx.result_dtype) for p, q in pairs)


class _Rows(_Pair):
    @staticmethod
    def forward(*arguments: Any) -> Any:
        return torch.ops.tcu.segment_matmul(*arguments)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any, ...]:
        x, weights, offsets = ctx.saved_tensors
        g, needs = g.to(x.dtype), ctx.needs_input_grad
        of_x = _again(_Rows, g, weights.mT, offsets, ctx, x.dtype) if needs[0] else None
        of_weights = _again(_Matrices, x, g, offsets, ctx, weights.dtype) if needs[1] else None
        return of_x, of_weights, *(None,) * 7


class _Matrices(_Pair):
    @staticmethod
    def forward(*arguments: Any) -> Any:
        return torch.ops.tcu.segment_matmul_of_rows(*arguments)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any, ...]:
        x, y, offsets = ctx.saved_tensors
        g, needs = g.to(x.dtype), ctx.needs_input_grad
        of_x = _again(_Rows, y, g.mT, offsets, ctx, x.dtype) if needs[0] else None
        of_y = _again(_Rows, x, g, offsets, ctx, y.dtype) if needs[1] else None
        return of_x, of_y, *(None,) * 7


_OPERATORS = {_Rows: "segment_matmul", _Matrices: "segment_matmul_of_rows"}


def _again(function: Any, x: Any, y: Any, offsets: Any, ctx: Any, dtype: Any) -> Any:
    name = _OPERATORS[function]
    return recorder(name, function, name)(x, y, offsets, ctx.check, *ctx.options._replace(dtype=dtype))


for _function, _execute, _shape, _operands in (
    (_Rows, _multiply, _shape_of_rows, "Tensor x, Tensor weights"),
    (_Matrices, _outer, _shape_of_outer, "Tensor x, Tensor y"),
):
    _operator = torch.library.custom_op(
        f"tcu::{_OPERATORS[_function]}", _execute, mutates_args=(), device_types=("cpu", "cuda"),
        schema=f"({_operands}, {_SCHEMA}) -> Tensor",
    )  # fmt: skip
    _operator.register_fake(_shape)
    _operator.register_autograd(_function.backward, setup_context=_function.setup_context)
    _operator.register_vmap(one_by_one(_operator, _shape))
