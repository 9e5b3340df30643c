"""PyTorch's sums by index as exact ones, for :mod:`tcu.surfaces.torch.reproducible`: functions of a schema's arguments by name.

Indices on a GPU are not looked at, as PyTorch does not wait for them either; one out of range counts nowhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from tcu.surfaces.index_sums import index_sum
from tcu.surfaces.keyed_sums import embedding_gradient

__all__ = ["BY_INDEX"]

_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def _index_add(owner: Any, self: Any, dim: int, index: Any, source: Any, alpha: Any = 1) -> Any:
    if self.dtype not in _FLOATS or alpha != 1 or not self.dim() or index.dim() != 1:
        return NotImplemented
    return index_sum(
        source, index, self.shape[dim], axis=dim, initial=self, dtype=self.dtype, check=not self.is_cuda
    )


def _scatter_add(owner: Any, self: Any, dim: int, index: Any, src: Any) -> Any:
    if self.dtype not in _FLOATS or not self.dim():
        return NotImplemented
    dim, shape = dim % self.dim(), index.shape
    place = torch.zeros(shape, dtype=torch.int64, device=self.device)
    for axis in range(self.dim()):
        step = math.prod(self.shape[axis + 1 :])
        at = (
            index
            if axis == dim
            else torch.arange(shape[axis], device=self.device).reshape(-1, *(1,) * (self.dim() - axis - 1))
        )
        place += at * step
    if bool((index < 0).any()) if not self.is_cuda else False:
        return NotImplemented  # which PyTorch refuses in its own words
    values = src[tuple(slice(length) for length in shape)].reshape(-1)
    return _flat(self, place.reshape(-1), values)


def _index_put(
    owner: Any, self: Any, indices: Any, values: Any, accumulate: bool = False, unsafe: bool = False
) -> Any:
    """Of indices of the first axes, as the gradient of x[i, j] has them."""
    if not accumulate or self.dtype not in _FLOATS:
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
    return index_sum(
        given, place.reshape(-1), len(flat), initial=flat, dtype=self.dtype, check=not self.is_cuda
    ).reshape(self.shape)


def _embedding_gradient(
    owner: Any, grad_output: Any, indices: Any, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
) -> Any:
    if grad_output.dtype not in _FLOATS or scale_grad_by_freq:
        return NotImplemented
    return embedding_gradient(
        grad_output, indices, num_weights, padding_index=padding_idx if padding_idx >= 0 else None,
        check=not grad_output.is_cuda,
    )  # fmt: skip


def _flat(self: Any, place: Any, values: Any) -> Any:
    """The tensor with values added to its elements in C order."""
    line = self.reshape(-1)
    return index_sum(
        values, place, line.shape[0], initial=line, dtype=self.dtype, check=not self.is_cuda
    ).reshape(self.shape)


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
