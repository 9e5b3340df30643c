"""``tcu.polyval`` of PyTorch's tensors: the operator ``torch.ops.tcu.polyval``, which has no gradients."""

from __future__ import annotations

from typing import Any

import torch

from tcu.engines import engine_of, host
from tcu.formats.array import lives_on_gpu
from tcu.formats.tensor import plain_view, tensor_of
from tcu.surfaces.torch.function import check_no_tangent
from tcu.surfaces.torch.watch import in_graph, is_watched

__all__ = ["run"]


def run(x: Any, c: Any) -> Any:
    """The values, of tensors of one format that want no gradient."""
    for name, each in (("x", x), ("c", c)):
        check_no_tangent(each, name, "tcu.polyval")
    if in_graph() or is_watched(x, c):
        return torch.ops.tcu.polyval(x, c)
    return _execute(x, c)


def _execute(x: Any, c: Any) -> Any:
    if lives_on_gpu(x) or lives_on_gpu(c):
        return engine_of((x, c)).polyval(x, c)
    return tensor_of(host.polyval(plain_view(x, "x"), plain_view(c, "c")))


def _shape_alone(x: Any, c: Any) -> Any:
    return x.new_empty((*c.shape[1:], *x.shape))


def _batched(info: Any, where: tuple[Any, ...], x: Any, c: Any) -> Any:
    """More points, or more polynomials; one call after another where each polynomial has its own points."""
    of_x, of_c = where
    if of_c is None:
        values = torch.ops.tcu.polyval(x.movedim(of_x, -1), c)
        return values, values.dim() - 1
    if of_x is None:
        return torch.ops.tcu.polyval(x, c.movedim(of_c, 1)), 0
    pairs = zip(x.unbind(of_x), c.unbind(of_c), strict=True)
    return torch.stack([torch.ops.tcu.polyval(*pair) for pair in pairs]), 0


_operator = torch.library.custom_op(
    "tcu::polyval", _execute, mutates_args=(), device_types=("cpu", "cuda"),
    schema="(Tensor x, Tensor c) -> Tensor",
)  # fmt: skip
_operator.register_fake(_shape_alone)
_operator.register_vmap(_batched)
