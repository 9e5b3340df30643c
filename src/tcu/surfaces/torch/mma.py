"""``tcu.mma`` of PyTorch's tensors where torch.func is at work: a batch of vmap is one more of its own, and derivatives are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tcu.errors import ParameterError
from tcu.formats.tensor import check_no_gradient, is_tensor
from tcu.surfaces.torch.function import check_no_tangent
from tcu.surfaces.torch.watch import is_wrapped
from tcu.units.shapes import product_shape

__all__ = ["mma_in_batch"]


def mma_in_batch(call: Callable[..., Any], **arrays: Any) -> Any:
    """The results of a call with the arrays (None for what was not given) in a batch of vmap; None where there is no batch.

    Raises ParameterError for a tensor whose derivative is under way, and for other arrays beside a batch.
    """
    given = {name: x for name, x in arrays.items() if is_tensor(x)}
    for name, x in given.items():
        check_no_tangent(x, name, "tcu.mma")
        check_no_gradient(x, name, "tcu.mma")
    if not any(map(is_wrapped, given.values())):
        return None
    for name, x in arrays.items():
        if x is not None and name not in given:
            raise ParameterError(
                f"{name} is a {type(x).__name__} beside tensors: make it one, with torch.as_tensor"
            )
    return _InBatch.apply(call, *arrays.values())


class _InBatch(torch.autograd.Function):  # type: ignore[misc]
    """What vmap calls with its batches at hand; nobody asks for a derivative."""

    @staticmethod
    def forward(call: Callable[..., Any], a: Any, b: Any, c: Any, scale_a: Any, scale_b: Any) -> Any:
        return call(a, b, c, scale_a=scale_a, scale_b=scale_b)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Nothing is kept."""

    @staticmethod
    def vmap(info: Any, where: tuple[Any, ...], call: Callable[..., Any], *arrays: Any) -> Any:
        """The batch comes before all other dimensions of batches, which broadcast: as many of them as an array has."""
        places = list(where[1:])
        given = list(arrays)
        # As whoever is mapped sees them: of a row in a batch a matrix would become.
        a, b, c = (_one(x, place) for x, place in zip(given[:3], places[:3], strict=True))
        product_shape(a, b, c)
        for pair in ((0, 3), (1, 4)):  # a scale has the batches of its array
            if given[pair[1]] is not None and any(places[i] is not None for i in pair):
                for i in pair:
                    if places[i] is None:
                        given[i], places[i] = given[i].expand(info.batch_size, *given[i].shape), 0
        dims = [
            x.dim() - (place is not None) if is_tensor(x) else 0
            for x, place in zip(given, places, strict=True)
        ]
        moved = [
            x if place is None else x.movedim(place, 0)[(slice(None), *(None,) * (max(dims) - own))]
            for x, place, own in zip(given, places, dims, strict=True)
        ]
        return _InBatch.forward(call, *moved), 0


def _one(x: Any, place: int | None) -> Any:
    """The shape of one of a batch; None of nothing."""
    if x is None:
        return None
    return tuple(x.shape) if place is None else tuple(x.movedim(place, 0).shape[1:])
