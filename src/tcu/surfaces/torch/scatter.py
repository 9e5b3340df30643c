"""PyTorch's sums by index as exact ones, for :mod:`tcu.surfaces.torch.reproducible`: functions of a schema's arguments by name.

Indices on a GPU are not looked at, as PyTorch does not wait for them either; one out of range counts nowhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from tcu.errors import InvalidOperationError
from tcu.surfaces.index_sums import index_sum
from tcu.surfaces.torch.checks import FLOATS

__all__ = ["BY_INDEX"]


def _index_add(owner: Any, self: Any, dim: int, index: Any, source: Any, alpha: Any = 1) -> Any:
    if self.dtype not in FLOATS or alpha != 1 or not self.dim() or index.dim() != 1:
        return NotImplemented
    return _total(source, dim, index, self)


def _total(values: Any, dim: int, index: Any, to: Any) -> Any:
    """``to`` with what the index sends to its places, rounded once; NaN where inf and -inf meet, as PyTorch has it."""

    def added(values: Any, to: Any) -> Any:
        return index_sum(
            values, index, to.shape[dim], axis=dim, initial=to, dtype=to.dtype, check=not to.is_cuda
        )

    try:
        return added(values, to)
    except InvalidOperationError:  # infinities are added up by PyTorch: their sums know no order
        usual, there = values.isfinite(), to.isfinite()
        special = to.masked_fill(there, 0).index_add(dim, index, values.masked_fill(usual, 0))
        return added(values.masked_fill(~usual, 0), to.masked_fill(~there, 0)) + special


def _scatter_add(owner: Any, self: Any, dim: int, index: Any, src: Any) -> Any:
    if self.dtype not in FLOATS or not self.dim():
        return NotImplemented
    dim, shape = dim % self.dim(), index.shape
    place = torch.zeros(shape, dtype=torch.int64, device=self.device)
    for axis, length in enumerate(shape):
        along = torch.arange(length, device=self.device).reshape(-1, *(1,) * (self.dim() - axis - 1))
        place += (index if axis == dim else along) * math.prod(self.shape[axis + 1 :])
    if not self.is_cuda and bool(((index < 0) | (index >= self.shape[dim])).any()):
        return NotImplemented  # which PyTorch refuses in its own words
    values = src[tuple(slice(length) for length in shape)].reshape(-1)
    return _total(values, 0, place.reshape(-1), self.reshape(-1)).reshape(self.shape)


def _index_put(
    owner: Any, self: Any, indices: Any, values: Any, accumulate: bool = False, unsafe: bool = False
) -> Any:
    """Of indices of the first axes, as the gradient of x[i, j] has them."""
    if not accumulate or self.dtype not in FLOATS:
        return NotImplemented
    if not indices or any(each is None or each.dtype not in (torch.int32, torch.int64) for each in indices):
        return NotImplemented
    places = torch.broadcast_tensors(*(each.to(torch.int64) for each in indices))
    rows = self.shape[len(places) :]
    place = torch.zeros_like(places[0])
    for each, length in zip(places, self.shape, strict=False):
        if not self.is_cuda and not bool(((each >= -length) & (each < length)).all()):
            return NotImplemented
        place = place * length + torch.where(each < 0, each + length, each)
    given = values.expand(*place.shape, *rows).reshape(place.numel(), *rows)
    flat = self.reshape(math.prod(self.shape[: len(places)]), *rows)
    return _total(given, 0, place.reshape(-1), flat).reshape(self.shape)


def _embedding_gradient(
    owner: Any, grad_output: Any, indices: Any, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
) -> Any:
    if grad_output.dtype not in FLOATS or scale_grad_by_freq:
        return NotImplemented
    index = indices.reshape(-1).to(torch.int64)
    rows = grad_output.reshape(len(index), grad_output.shape[-1])
    table = _total(rows, 0, index, rows.new_zeros(num_weights, rows.shape[1]))
    if padding_idx >= 0:
        table[padding_idx] = 0
    return table


def _in_place(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(owner: Any, self: Any, **given: Any) -> Any:
        found = function(owner, self, **given)
        return found if found is NotImplemented else self.copy_(found)

    return run


BY_INDEX: dict[str, Callable[..., Any]] = {
    "index_add": _index_add, "index_add_": _in_place(_index_add), "scatter_add": _scatter_add,
    "scatter_add_": _in_place(_scatter_add), "index_put": _index_put, "index_put_": _in_place(_index_put),
    "_index_put_impl_": _in_place(_index_put), "embedding_dense_backward": _embedding_gradient,
}  # fmt: skip
"""By the name of PyTorch's operator."""
