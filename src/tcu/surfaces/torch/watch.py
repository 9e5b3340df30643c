"""Who watches a call: autograd, torch.func, modes, torch.compile; and what records it then."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch.autograd import forward_ad

from tcu.errors import ParameterError

__all__ = [
    "PLAIN", "constant", "has_numbers_in_batch", "has_watchers", "hidden", "holds_numbers", "in_graph", "is_for_backward",
    "is_mode_on", "is_unwatched_on_gpu", "is_watched", "is_wrapped", "recorder", "wants_gradients",
]  # fmt: skip

PLAIN = (torch.Tensor, torch.nn.Parameter)


def hidden(owner: Any, name: str, otherwise: Any) -> Any:
    """A function that PyTorch does not document, or what stands in for it: slower, equally right."""
    return getattr(owner, name, otherwise)


_function_modes = hidden(torch._C, "_len_torch_function_stack", lambda: 1)
_dispatch_modes = hidden(torch._C, "_len_torch_dispatch_stack", lambda: 1)
_transforms = hidden(
    hidden(torch._C, "_functorch", None), "get_dynamic_layer_stack_depth", lambda: 1
)  # torch.func
is_wrapped = hidden(hidden(torch._C, "_functorch", None), "is_functorch_wrapped_tensor", lambda x: True)
wants_gradients = torch.is_grad_enabled
in_graph = torch.compiler.is_dynamo_compiling


def is_watched(x: Any, y: Any) -> bool:
    """Whether a call with these tensors must go through an operator; x and y may be one."""
    return not (
        type(x) in PLAIN
        and (y is x or type(y) in PLAIN)
        and not ((x.requires_grad or (y is not x and y.requires_grad)) and wants_gradients())
        and not _transforms()
        and not is_mode_on()
    )


def is_unwatched_on_gpu(x: Any, y: Any) -> bool:
    """Whether x is in a GPU's memory and nobody watches, as in a usual backward pass: a kernel may be launched past the operators."""
    return x.is_cuda and not in_graph() and not is_watched(x, y)


def is_mode_on() -> bool:
    """Whether forward mode, or a mode of a program's own, watches all that is done with tensors."""
    return bool(_dispatch_modes() or _function_modes() or forward_ad._current_level >= 0)


def is_for_backward(arrays: Sequence[Any]) -> bool:
    """Whether, of all that may watch a call with these tensors, at most a later backward pass does."""
    return not in_graph() and all(type(x) in PLAIN for x in arrays) and not _transforms() and not is_mode_on()


def holds_numbers(arrays: Sequence[Any]) -> bool:
    """Whether these are tensors with numbers of their own, which no transformation replaces."""
    return all(type(x) in PLAIN for x in arrays) and not _transforms() and not _dispatch_modes()


def has_numbers_in_batch(x: Any) -> bool:
    """The same of one tensor that a vmap, which is a transformation, has unwrapped."""
    return type(x) in PLAIN and not _dispatch_modes() and not is_wrapped(x)


def has_watchers() -> bool:
    """Whether a mode or a transformation may give numbers to tensors that have none."""
    return bool(_dispatch_modes() or _function_modes() or _transforms())


def constant(function: Any) -> Any:
    """torch.compiler.assume_constant_result, which imports torch._dynamo: two seconds before a first sum."""
    function._dynamo_marked_constant = True
    return function


@constant
def _derives() -> bool:
    """Whether a derivative of torch.func or forward mode is under way; vmap is none."""
    stack = torch._C._functorch.get_interpreter_stack() or ()
    return forward_ad._current_level >= 0 or any(
        level.key() != torch._C._functorch.TransformType.Vmap for level in stack
    )


class _Axes(list[int]):
    """A list that PyTorch takes for one argument.

    A plain list counts as an argument for each of its numbers, and vmap of forward mode fails, as it has one tangent for all.
    """


def _apply(function: Any, *arguments: Any) -> Any:
    return function.apply(*(_Axes(each) if isinstance(each, list) else each for each in arguments))


def recorder(operator: str, function: Any, name: str) -> Any:
    """What records a call: the operator, or where torch.func and forward mode ask for more, a function of autograd.

    ``name`` is what the caller knows it by.
    """
    if in_graph():
        if _derives():
            raise ParameterError(
                f"tcu.{name} under torch.func.grad or in forward mode does not go through torch.compile: "
                "compile the function alone and call backward, or leave torch.compile out"
            )
    elif _transforms() or forward_ad._current_level >= 0:
        return partial(_apply, function)
    return getattr(torch.ops.tcu, operator)
