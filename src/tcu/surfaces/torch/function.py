"""What functions of autograd have in common: forward mode over forward mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.autograd import forward_ad

from tcu.formats.tensor import check_no_gradient

__all__ = ["Function", "check_no_tangent", "has_tangent", "lines_of_batch"]


class Function(torch.autograd.Function):  # type: ignore[misc]
    """A function of autograd whose tangents have tangents of their own.

    PyTorch turns forward mode off while it calls a function's jvp, so torch.func.jvp of torch.func.jvp took what
    the function had kept for constants, and its second derivatives were wrong without a word (torch 2.13).
    """

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        given = cls.__dict__.get("jvp")
        if isinstance(given, staticmethod | classmethod):
            cls.jvp = type(given)(_with_tangents(given.__func__, isinstance(given, classmethod)))


def _with_tangents(jvp: Callable[..., Any], of_class: bool) -> Callable[..., Any]:
    def with_tangents(*arguments: Any) -> Any:
        owner, ctx, tangents = arguments[:of_class], arguments[of_class], arguments[of_class + 1 :]
        with forward_ad._set_fwd_grad_enabled(True):
            return jvp(*owner, _Kept(ctx), *tangents)

    return with_tangents


class _Kept:
    """A context whose tensors have no tangents of the level at hand: these are what its function is given."""

    def __init__(self, ctx: Any) -> None:
        self._ctx = ctx
        self.saved_tensors = tuple(None if each is None else _primal(each) for each in ctx.saved_tensors)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ctx, name)


def _primal(x: Any) -> Any:
    """Of a batch, which has no such operator, that of its numbers."""
    functorch = torch._C._functorch
    if functorch.is_batchedtensor(x):
        numbers = _primal(functorch.get_unwrapped(x))
        return functorch._add_batch_dim(numbers, functorch.maybe_get_bdim(x), functorch.maybe_get_level(x))
    return forward_ad.unpack_dual(x, level=0).primal


def lines_of_batch(x: Any) -> Any:
    """All lines of a batch of lines, which has no such operator, in two dimensions."""
    functorch = torch._C._functorch
    length = x.shape[-1]
    while functorch.is_batchedtensor(x):
        x = functorch.get_unwrapped(x).movedim(functorch.maybe_get_bdim(x), 0)
    return x.reshape(-1, length)


def has_tangent(x: Any) -> bool:
    """Whether forward mode follows a tensor, also one that a batch consists of."""
    if forward_ad._current_level < 0:
        return False
    functorch = torch._C._functorch
    while functorch.is_batchedtensor(x):
        x = functorch.get_unwrapped(x)
    return forward_ad.unpack_dual(x, level=0).tangent is not None


def check_no_tangent(x: Any, name: str, function: str) -> None:
    """Raises ParameterError, in the words for a gradient, for a tensor that forward mode follows, of a function without derivatives."""
    if has_tangent(x):
        check_no_gradient(torch.empty(0, requires_grad=True), name, function)
