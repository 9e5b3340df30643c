"""Square roots of tensors, and their quotients by one number, rounded to nearest on every device.

PyTorch's roots are so on GPUs.  On CPUs with MKL they are not: of 2^20 random numbers, 208,534 of float32 and 14,450 of float64
were one ulp off (PyTorch 2.13, AVX-512).  Its quotients by a number of Python's are so on CPUs.  GPUs multiply by the
number's reciprocal, which rounds twice.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from tcu.surfaces.torch.function import Function
from tcu.surfaces.torch.watch import recorder

__all__ = ["quotient", "square_root"]


def _square_root(x: torch.Tensor) -> torch.Tensor:
    if x.device.type != "cpu":
        return x.sqrt()
    # Roots of narrower formats that binary32 rounds first are those of one rounding: 24 bits are 2 · 11 + 2.
    wide = x if x.dtype in (torch.float32, torch.float64) else x.float()
    with np.errstate(invalid="ignore"):
        return torch.from_numpy(np.asarray(np.sqrt(wide.detach().numpy()))).to(x.dtype)


def _setup_context(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(output)
    ctx.save_for_forward(output)


def _backward(ctx: Any, given: Any) -> Any:
    (root,) = ctx.saved_tensors
    return given / (2 * root)


class _Derivative(Function):
    """The operator with its derivatives, as torch.func asks for them."""

    generate_vmap_rule = True
    setup_context = staticmethod(_setup_context)
    backward = jvp = staticmethod(_backward)

    @staticmethod
    def forward(x: Any) -> Any:
        return torch.ops.tcu.square_root(x)


def _batched(info: Any, places: Any, x: Any) -> Any:
    return torch.ops.tcu.square_root(x), places[0]


_operator = torch.library.custom_op(
    "tcu::square_root", _square_root, mutates_args=(), schema="(Tensor x) -> Tensor"
)
_operator.register_fake(torch.empty_like)
_operator.register_autograd(_backward, setup_context=_setup_context)
_operator.register_vmap(_batched)


def quotient(x: Any, divisor: float) -> Any:
    """x / divisor, in at least binary32, in the dtype of x."""
    wide = torch.promote_types(x.dtype, torch.float32)
    return (x.to(wide) / torch.full((), float(divisor), dtype=wide, device=x.device)).to(x.dtype)


def square_root(x: Any) -> Any:
    """Of each number, of float16, bfloat16, float32 or float64."""
    return recorder("square_root", _Derivative, "square_root")(x)
