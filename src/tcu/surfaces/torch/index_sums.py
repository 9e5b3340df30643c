"""Sums by index of PyTorch's tensors on a GPU: the operator ``tcu::index_sum``, which is linear in its rows."""

from __future__ import annotations

from typing import Any

import torch

from tcu.engines import load_cuda
from tcu.formats.format import named_format
from tcu.ops.result import result_format
from tcu.surfaces.torch.function import Function
from tcu.surfaces.torch.watch import in_graph, is_watched, recorder

__all__ = ["sum_by_index"]

_SCHEMA = "(Tensor x, Tensor index, int size, bool mean=False, ScalarType? dtype=None) -> (Tensor, Tensor)"


def sum_by_index(rows: Any, index: Any, size: int, mean: bool, dtype: Any) -> tuple[Any, Any]:
    """(the sums or means of the rows of each slot, n less the first place whose index is out of range, or 0)."""
    watched = in_graph() or is_watched(rows, index)
    record = recorder("index_sum", _Sum, "index_sum") if watched else load_cuda().sum_by_index
    named = None if dtype is None else getattr(torch, named_format(dtype).dtype.name)
    found: tuple[Any, Any] = record(rows, index, size, mean, named)
    return found


def _executed(x: Any, index: Any, size: int, mean: bool = False, dtype: Any = None) -> Any:
    sums, wrong = load_cuda().sum_by_index(x, index, size, mean, dtype)
    return sums, wrong.clone()  # without the room that it lies in


def _shapes(x: Any, index: Any, size: int, mean: bool = False, dtype: Any = None) -> Any:
    target = result_format(named_format(x.dtype), dtype)
    result = x.new_empty((size, x.shape[1]), dtype=getattr(torch, target.dtype.name))
    return result, x.new_empty(1, dtype=torch.int64)


class _Sum(Function):
    """Each row goes to one slot, so that the gradient of a row is that of its slot."""

    generate_vmap_rule = True

    @staticmethod
    def forward(*arguments: Any) -> Any:
        return torch.ops.tcu.index_sum(*arguments)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        x, index, ctx.size, ctx.mean, _ = inputs
        ctx.dtype, ctx.result_dtype = x.dtype, output[0].dtype
        ctx.save_for_backward(index)
        ctx.save_for_forward(index)
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx: Any, g: Any, _: Any) -> tuple[Any, ...]:
        (index,) = ctx.saved_tensors
        fits = (index >= -ctx.size) & (index < ctx.size)
        if not ctx.size:
            return g.new_zeros((index.shape[0], g.shape[1]), dtype=ctx.dtype), *(None,) * 4
        if ctx.mean:
            ones = torch.ones((index.shape[0], 1), dtype=torch.float64, device=g.device)
            g = g / torch.ops.tcu.index_sum(ones, index, ctx.size)[0]
        places = torch.where(fits, index, 0).long()
        rows = g[torch.where(places < 0, places + ctx.size, places)]
        return torch.where(fits[:, None], rows, 0).to(ctx.dtype), *(None,) * 4

    @staticmethod
    def jvp(ctx: Any, of_x: Any, *_: Any) -> Any:
        (index,) = ctx.saved_tensors
        return recorder("index_sum", _Sum, "index_sum")(of_x, index, ctx.size, ctx.mean, ctx.result_dtype)[
            0
        ], None


def _batched(info: Any, where: tuple[Any, ...], x: Any, index: Any, size: int, *rest: Any) -> Any:
    """One call for all: other columns of the same rows, or other slots where the index is another one each."""
    batch, (of_x, of_index) = info.batch_size, where[:2]
    x = x.movedim(of_x, 0) if of_x is not None else x.expand(batch, *x.shape)
    if of_index is None:
        rows = x.movedim(0, 1).reshape(x.shape[1], batch * x.shape[2])
        sums, wrong = torch.ops.tcu.index_sum(rows, index, size, *rest)
        return (sums.reshape(size, batch, x.shape[2]), wrong.expand(batch, 1)), (1, 0)
    index = index.movedim(of_index, 0).long()
    fits = (index >= -size) & (index < size)
    first = size * torch.arange(batch, device=index.device)[:, None]
    places = torch.where(fits, torch.where(index < 0, index + size, index) + first, batch * size)
    sums, _ = torch.ops.tcu.index_sum(x.reshape(-1, x.shape[2]), places.reshape(-1), batch * size, *rest)
    behind = torch.arange(index.shape[1], 0, -1, device=index.device)
    return (sums.reshape(batch, size, x.shape[2]), torch.where(fits, 0, behind).amax(1, keepdim=True)), (0, 0)


_operator = torch.library.custom_op(
    "tcu::index_sum", _executed, mutates_args=(), device_types=("cuda",), schema=_SCHEMA
)
_operator.register_fake(_shapes)
_operator.register_autograd(_Sum.backward, setup_context=_Sum.setup_context)
_operator.register_vmap(_batched)
