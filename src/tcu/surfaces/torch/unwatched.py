"""Operations on PyTorch tensors that have numbers, while nobody watches."""

from __future__ import annotations

from typing import Any

import torch

from tcu.engines import host, load_cuda
from tcu.formats.tensor import host_view, plain_view, tensor_of
from tcu.ops.layout import Along, Ragged
from tcu.ops.operation import Call
from tcu.surfaces.torch import launch_cache
from tcu.surfaces.torch.checks import check_arrays, check_out
from tcu.surfaces.torch.forms import form_of

__all__ = ["executed", "quickly"]


def quickly(call: Call) -> Any:
    """The result on a GPU, by a launch that is known if there was such a call."""
    key = launch_cache.key_of(*call[:4])
    result = launch_cache.again(key, call.arrays, call.layout)
    if result is not None:
        return result
    check_arrays(call.arrays)
    return load_cuda().execute(call, launch_cache.keeper(key))[0]


def executed(call: Call) -> tuple[Any, Any]:
    """The result, and how it came about."""
    operation, arrays, layout, options, out, return_info, progress = call
    x = arrays[0]
    if isinstance(layout, Along):
        form_of(operation, Along).arguments(layout, x)  # which looks at the axes
    check_arrays(arrays, data=True)
    if out is not None:
        form = form_of(operation, type(layout))
        if isinstance(layout, Ragged):
            layout = Ragged(*form.arguments(layout, x))
        check_out(out, x, form.shape(x, layout))
    if x.is_cuda:
        result, info = load_cuda().execute(call._replace(layout=layout))
    else:
        view = plain_view(x, "x")
        y = arrays[-1]
        views = (view,) if len(arrays) == 1 else (view, view if y is x else plain_view(y, "y"))
        place = None if out is None else host_view(out, "out")
        result, info = host.execute(Call(operation, views, layout, options, place, return_info, progress))
        result = tensor_of(result) if out is None else out
    if out is not None and not out.is_inference():
        torch.autograd.graph.increment_version(out)
    return result, info
