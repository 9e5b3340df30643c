"""``tcu.fft`` of PyTorch's tensors: the operator ``torch.ops.tcu.fft`` and its gradients.

The operator takes and gives real tensors, a complex number as a pair along the last axis, and transforms along the last axis
of numbers.  It is linear, and its transpose is one of itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from tcu.engines import host, load_cuda
from tcu.errors import DtypeError, ParameterError, ShapeError, unknown_name
from tcu.formats.tensor import check_data, check_dense, check_memory, tensor_of
from tcu.model.ieee_environment import ieee
from tcu.ops.fft import DIVISORS, KINDS, Divisor, FftCall, inverse_of
from tcu.surfaces.cosine_tables import tables
from tcu.surfaces.torch.function import Function
from tcu.surfaces.torch.watch import constant, in_graph, is_watched, is_wrapped, recorder

__all__ = ["conjugate", "cosine_tables", "magnitude", "run", "taken"]

_factor_of = ieee(inverse_of)

_UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)
_FORMATS = (torch.float16, torch.float32, torch.float64)


def taken(x: Any, wide: bool) -> Any:
    """A tensor in a format that is transformed; ``wide``: none of 16 bits.  Raises DtypeError, ParameterError."""
    if not in_graph():
        check_dense(x, "x", "transform")
        if x.is_quantized:
            raise DtypeError(f"x is quantized, {x.dtype}: transform x.dequantize()")
        if x.device.type not in ("cpu", "cuda", "meta"):
            raise ParameterError(
                f"x is on {x.device}, where tcu has no transforms: move it with x.cpu() or x.cuda()"
            )
    if x.dtype == torch.bfloat16 or (wide and x.dtype == torch.float16):
        return x.to(torch.float32)
    if wide and x.dtype == torch.complex32:
        return x.to(torch.complex64)
    if x.is_complex() or x.dtype in _FORMATS:
        return x
    if x.is_floating_point():
        raise DtypeError(f"x has dtype {x.dtype}: convert it first, with x.to(torch.float32)")
    default = torch.get_default_dtype()
    narrow = default == torch.bfloat16 or (wide and default == torch.float16)
    return x.to(torch.float32 if narrow else default)


def magnitude(x: Any, name: str) -> int:
    """The largest of whole numbers, of which there are some, without its sign.  Raises ParameterError where nobody sees them."""
    if in_graph():
        raise _unseen(name)
    check_data(x, name)
    if x.dtype in _UNSIGNED:  # which have no maximum; from 2^53 on nothing is proved to be exact
        x = x.to(torch.float64)
    try:
        return max(int(x.max()), -int(x.min()))
    except RuntimeError:
        if is_wrapped(x):
            raise _unseen(name) from None
        raise


def _unseen(name: str) -> ParameterError:
    return ParameterError(
        f"{name} has whole numbers, whose magnitudes nobody sees in torch.compile or torch.func.vmap, and exactness is "
        f"proved from these: call outside of it, or give {name}.double() for a result that is rounded"
    )


def conjugate(x: Any) -> Any:
    """No view, of which forward mode in a batch knows nothing; in a batch of both parts, as PyTorch has no other way for an empty one."""
    if x.is_complex() and not in_graph() and is_wrapped(x):
        return torch.complex(x.real, -x.imag)
    return x.conj_physical()


def run(call: FftCall, divisor: Divisor) -> Any:
    """The result of a call with a tensor that was :func:`taken`, divided."""
    if in_graph() or is_watched(call.x, call.x):
        return _recorded(call, divisor)
    return _executed(call._replace(factor=_factor_of(divisor, call.n)))


def _executed(call: FftCall) -> Any:
    """With numbers, nobody recording it."""
    x, given = call.x.detach(), call.pairs
    call = call._replace(x=x)
    if not given and (x.is_complex() or call.kind == "to_real"):
        call = call._replace(x=_as_pairs(x), pairs=True)
    found = _found(call)
    return found if given or call.kind == "to_real" else _as_complex(found)


def _found(call: FftCall) -> Any:
    """By the engine where the tensor, a real one, lives; complex numbers as it gives them or as pairs."""
    if call.x.is_cuda:
        return load_cuda().fft(call._replace(x=call.x.resolve_neg()))
    check_data(call.x, "x")
    plain = call.x.detach().resolve_neg()
    check_memory(plain, "x")
    found = tensor_of(np.ascontiguousarray(host.fft(call._replace(x=plain.numpy()))))
    # NumPy's strides of nothing are such that a view as complex numbers is refused.
    return found if found.numel() else torch.empty_like(found, memory_format=torch.contiguous_format)


def _as_pairs(x: Any) -> Any:
    return (
        torch.view_as_real(x.resolve_conj()) if x.is_complex() else torch.stack((x, torch.zeros_like(x)), -1)
    )


def _as_complex(x: Any) -> Any:
    return x if x.is_complex() else torch.view_as_complex(x)


def _recorded(call: FftCall, divisor: Divisor) -> Any:
    """By the operator, which others watch."""
    x, kind, n, axis, factor, pairs = call
    if kind == "from_real":
        result = _record()(x.movedim(axis, -1), kind, n, factor, divisor)
        return _as_complex(result).movedim(-1, axis)
    if not pairs:
        x = _as_pairs(x)
    result = _record()(x.movedim(axis, -2), kind, n, factor, divisor)
    if kind == "to_real":
        return result.movedim(-1, axis)
    return result.movedim(-2, axis) if pairs else _as_complex(result).movedim(-1, axis)


def _record() -> Any:
    return recorder("fft", _Derivative, "fft")


# Tables, as tensors.


@constant
def cosine_tables(n: int, kind: int, scale: str, dtype: Any, device: Any) -> tuple[Any, ...]:
    """Those of :mod:`tcu.surfaces.cosine_tables`."""
    return tuple(
        torch.from_numpy(each).to(device)
        for each in tables(n, kind, scale, str(dtype).removeprefix("torch."))
    )


# The operator.


def _call(x: Any, kind: str, n: Any, divisor: str) -> FftCall:
    """Raises UnknownNameError, ShapeError, DtypeError, ParameterError for what the operator does not take."""
    if kind not in KINDS:
        raise unknown_name("kind of transform", kind, KINDS)
    if divisor not in DIVISORS:
        raise unknown_name("divisor", divisor, DIVISORS)
    pairs = kind != "from_real"
    if x.dtype not in _FORMATS:
        raise DtypeError(
            f"x has dtype {x.dtype}: the operator takes float16, float32 or float64, complex numbers as pairs"
        )
    if x.dim() < 1 + pairs or (pairs and x.shape[-1] != 2):
        raise ShapeError(
            f"x has shape {tuple(x.shape)}: {kind} takes {'(..., numbers, 2)' if pairs else '(..., numbers)'}"
        )
    if n < 1:
        raise ParameterError(f"n = {n}: a transform has at least one number")
    return FftCall(x, kind, n, x.dim() - 1 - pairs, pairs=pairs)


def _execute(x: Any, kind: str, n: int, factor: float, divisor: Any = "1") -> Any:
    call = _call(x, kind, n, divisor)
    found = _found(call._replace(factor=factor * _factor_of(divisor, n)))
    return torch.view_as_real(found) if found.is_complex() else found


def _shape_alone(x: Any, kind: str, n: Any, factor: Any, divisor: str = "1") -> Any:
    call = _call(x, kind, n, divisor)
    outer = x.shape[: call.axis]
    return x.new_empty((*outer, call.made) if kind == "to_real" else (*outer, call.made, 2))


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    x, ctx.kind, ctx.n, *ctx.scale = inputs
    ctx.count = x.shape[-1 if ctx.kind == "from_real" else -2]


def _backward(ctx: Any, g: Any) -> tuple[Any, ...]:
    """By the transpose: numbers that were cut off have no gradient, those that were zeros get none."""
    kind, n, record = ctx.kind, ctx.n, _record()
    if kind == "from_real":
        # Numbers of the second half, mirrored, count twice in to_real, and there are none here.
        found = record(g * _weights(g, n, 0.5), "to_real", n, *ctx.scale)
    elif kind == "to_real":
        found = record(g, "from_real", n, *ctx.scale)
        found = found * _weights(found, n, 2.0)
    else:
        found = record(g, "inverse" if kind == "forward" else "forward", n, *ctx.scale)
    axis = -1 if kind == "from_real" else -2
    missing = ctx.count - found.shape[axis]
    if missing > 0:
        found = torch.nn.functional.pad(found, (0, missing) if axis == -1 else (0, 0, 0, missing))
    elif missing < 0:
        found = found.narrow(axis, 0, ctx.count)
    return found, None, None, None, None


def _weights(pairs: Any, n: Any, inner: float) -> Any:
    """1 for numbers that are their own mirror image, else ``inner``."""
    k = torch.arange(pairs.shape[-2], device=pairs.device)
    own = (2 * k) % n == 0
    one = torch.ones((), dtype=pairs.dtype, device=pairs.device)
    return torch.where(own, one, inner * one).unsqueeze(-1)


class _Derivative(Function):
    """The operator with its derivatives, as torch.func asks for them."""

    generate_vmap_rule = True
    setup_context = staticmethod(_setup_context)
    backward = staticmethod(_backward)

    @staticmethod
    def forward(*arguments: Any) -> Any:
        return torch.ops.tcu.fft(*arguments)

    @staticmethod
    def jvp(ctx: Any, of_x: Any, *_: Any) -> Any:
        return _record()(of_x, ctx.kind, ctx.n, *ctx.scale)


def _batched(info: Any, where: tuple[Any, ...], x: Any, *rest: Any) -> Any:
    """The batch is one more axis before all others."""
    return torch.ops.tcu.fft(x.movedim(where[0], 0), *rest), 0


_operator = torch.library.custom_op(
    "tcu::fft", _execute, mutates_args=(), device_types=("cpu", "cuda"),
    schema="(Tensor x, str kind, SymInt n, float factor, str divisor='1') -> Tensor",
)  # fmt: skip
_operator.register_fake(_shape_alone)
_operator.register_autograd(_backward, setup_context=_setup_context)
_operator.register_vmap(_batched)
