"""What PyTorch's functions and operators become in :mod:`tcu.surfaces.torch.reproducible`.

Each takes the owner of the mode and what PyTorch's takes, by its names, and gives the result, or NotImplemented, where PyTorch's own serves.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from tcu.ops import OPERATIONS
from tcu.ops.operation import Term
from tcu.surfaces import fft, functions, row_norms
from tcu.surfaces.cross_entropy import Reduction, cross_entropy
from tcu.surfaces.matmul import matmul
from tcu.surfaces.torch.checks import FLOATS
from tcu.surfaces.torch.derivative import exact_sum
from tcu.surfaces.torch.elementary import quotient, square_root
from tcu.surfaces.torch.scatter import BY_INDEX
from tcu.surfaces.torch.watch import is_wrapped

__all__ = ["FUNCTIONS", "OPERATORS", "given_back", "is_complex"]


def given_back(result: Any, outs: list[torch.Tensor]) -> Any:
    """The results, or ``out=`` with them, which takes their shape as PyTorch's does; NotImplemented where its dtype is another."""
    if result is NotImplemented or not outs:
        return result
    results = result if isinstance(result, tuple) else (result,)
    if [each.dtype for each in results] != [each.dtype for each in outs]:
        return NotImplemented
    for each, out in zip(results, outs, strict=True):
        (out if out.shape == each.shape else out.resize_(each.shape)).copy_(each)
    return tuple(outs) if isinstance(result, tuple) else outs[0]


def is_complex(x: Any) -> bool:
    return x.is_complex() if isinstance(x, torch.Tensor) else isinstance(x, complex)


def _fits(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.dtype in FLOATS


def _axes(x: Any, dim: Any) -> Any:
    """None: all of them, or those of a tensor that has none."""
    return None if dim is None or dim == [] or not x.dim() else dim


# Functions, above autograd.


def _rms_norm(owner: Any, input: Any, normalized_shape: Any, weight: Any = None, eps: Any = None) -> Any:
    if not _fits(input) or tuple(normalized_shape) != input.shape[-1:]:
        return NotImplemented
    return row_norms.rms_norm(input, weight=weight, eps=eps)


def _logsumexp(
    owner: Any, input: Any = None, dim: Any = None, keepdim: bool = False, out: Any = None, **others: Any
) -> Any:
    if not _fits(input) or others:  # names of NumPy's, which PyTorch takes, too
        return NotImplemented
    result = functions.logsumexp(input, _axes(input, dim), keepdims=keepdim, dtype=input.dtype)
    return given_back(result, [] if out is None else [out])


def _cross_entropy(
    owner: Any, input: Any, target: Any, weight: Any = None, size_average: Any = None, ignore_index: int = -100, reduce: Any = None,
    reduction: Reduction = "mean", label_smoothing: float = 0.0,
) -> Any:  # fmt: skip
    """Of classes, without weights; the names are PyTorch's."""
    plain = weight is None and size_average is None and reduce is None
    if (
        not plain
        or not _fits(input)
        or target.is_floating_point()
        or not input.dim()
        or input.dim() != target.dim() + 1
    ):
        return NotImplemented
    axis = min(1, input.dim() - 1)
    losses = cross_entropy(
        input, target, axis=axis, label_smoothing=label_smoothing, ignore_index=ignore_index, reduction=reduction
    )  # fmt: skip
    return losses.to(input.dtype)


def _linear(owner: Any, input: Any, weight: Any, bias: Any = None) -> Any:
    """With its bias in one rounding.  PyTorch adds it apart where rows do not lie one behind the other, or in a batch of vmap."""
    if bias is None or not _fits(input) or not input.dim() or not input.numel():
        return NotImplemented
    rows = input.reshape(-1, input.shape[-1])
    in_batch = any(map(is_wrapped, (input, weight, bias)))
    if in_batch and weight.dim() == 2 and not torch.is_autocast_enabled(input.device.type):
        found = _product(owner, rows, weight.t(), *_wide(bias))
    elif input.dim() != 2:
        found = torch.nn.functional.linear(rows, weight, bias)
    else:
        return NotImplemented
    return found if found is NotImplemented else found.reshape(*input.shape[:-1], *found.shape[1:])


# Operators, below it.


def _reduction(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(owner: Any, self: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
        if not _fits(self) or (dtype is not None and dtype not in FLOATS):
            return NotImplemented
        return function(self, _axes(self, dim), keepdims=keepdim, dtype=dtype or self.dtype)

    return run


def _moments(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(
        owner: Any, self: Any, dim: Any = None, correction: Any = None, keepdim: bool = False, unbiased: bool = True
    ) -> Any:  # fmt: skip
        if not _fits(self):
            return NotImplemented
        count = float(unbiased) if correction is None else float(correction)
        return function(self, _axes(self, dim), keepdims=keepdim, correction=count, dtype=self.dtype)

    return run


def _and_mean(moments: Callable[..., Any]) -> Callable[..., Any]:
    """As ``var_mean`` and ``std_mean``."""

    def run(owner: Any, self: Any, dim: Any = None, correction: Any = None, keepdim: bool = False) -> Any:
        found = moments(owner, self, dim, correction, keepdim)
        return found if found is NotImplemented else (found, _mean(owner, self, dim, keepdim))

    return run


_mean = _reduction(functions.mean)


def _vector_norm(
    owner: Any, self: Any, ord: Any = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None
) -> Any:
    if not _fits(self) or ord != 2:
        return NotImplemented
    wide = self.to(torch.promote_types(dtype or self.dtype, torch.float32))
    total = functions.sum(wide * wide, _axes(self, dim), keepdims=keepdim)
    return square_root(total).to(dtype or self.dtype)


def _cumsum(owner: Any, self: Any, dim: int, dtype: Any = None) -> Any:
    return (
        functions.cumsum(self, dim, dtype=dtype or self.dtype)
        if _fits(self) and self.dim() and (dtype is None or dtype in FLOATS)
        else NotImplemented
    )


def _softmax(owner: Any, self: Any, dim: int, half_to_float: bool = False, dtype: Any = None) -> Any:
    return _row_function(functions.softmax, self, dim, torch.float32 if half_to_float else dtype)


def _log_softmax(owner: Any, self: Any, dim: int, half_to_float: bool = False, dtype: Any = None) -> Any:
    return _row_function(functions.log_softmax, self, dim, torch.float32 if half_to_float else dtype)


def _row_function(function: Callable[..., Any], x: Any, dim: int, dtype: Any) -> Any:
    return function(x, dim, dtype=dtype or x.dtype) if _fits(x) and x.dim() else NotImplemented


def _safe_softmax(owner: Any, self: Any, dim: int, dtype: Any = None) -> Any:
    found = _softmax(owner, self, dim, dtype=dtype)
    return (
        found
        if found is NotImplemented
        else found.masked_fill((self == -torch.inf).all(dim, keepdim=True), 0)
    )


def _along(x: Any, axis: int) -> Any:
    return functions.sum(x, axis, keepdims=True)


def _wide(*given: Any) -> list[Any]:
    kind = torch.float64 if any(each.dtype is torch.float64 for each in given) else torch.float32
    return [each.to(kind) for each in given]


def _softmax_backward(owner: Any, grad_output: Any, output: Any, dim: int, input_dtype: Any) -> Any:
    given, y = _wide(grad_output, output)
    return (y * (given - _along(given * y, dim))).to(input_dtype)


def _log_softmax_backward(owner: Any, grad_output: Any, output: Any, dim: int, input_dtype: Any) -> Any:
    given, logs = _wide(grad_output, output)
    return (given - functions.softmax(logs, dim) * _along(given, dim)).to(input_dtype)


def _nll_loss(owner: Any, self: Any, target: Any, weight: Any, reduction: int, ignore_index: int) -> Any:
    if not _fits(self) or weight is not None or self.dim() != 2:
        return NotImplemented
    counted = target != ignore_index
    place = target.masked_fill(~counted, 0)
    losses = (-self.gather(1, place.unsqueeze(1)).squeeze(1)).masked_fill(~counted, 0)
    count = counted.sum().to(self.dtype)
    if reduction == 0:
        return losses, self.new_zeros(())
    total = exact_sum(losses, [0])
    return (total / count if reduction == 1 else total), count


def _layer_norm(owner: Any, input: Any, normalized_shape: Any, weight: Any, bias: Any, eps: float) -> Any:
    if not _fits(input) or list(input.shape[-len(normalized_shape) :]) != list(normalized_shape):
        return NotImplemented
    rows = input.reshape(*input.shape[: input.dim() - len(normalized_shape)], math.prod(normalized_shape))
    lines = [None if each is None else each.reshape(-1) for each in (weight, bias)]
    found = row_norms.layer_norm(rows, weight=lines[0], bias=lines[1], eps=eps)
    (wide,) = _wide(rows)
    mean = functions.mean(wide, -1, keepdims=True)
    over = 1 / square_root(functions.var(wide, -1, keepdims=True) + eps)
    shape = (*input.shape[: input.dim() - len(normalized_shape)], *(1 for _ in normalized_shape))
    return found.reshape(input.shape), mean.reshape(shape), over.reshape(shape)


def _layer_norm_backward(
    owner: Any, grad_out: Any, input: Any, normalized_shape: Any, mean: Any, rstd: Any, weight: Any, bias: Any, output_mask: Any
) -> Any:  # fmt: skip
    if not _fits(input):
        return NotImplemented
    count = input.dim() - len(normalized_shape)
    given, x, mean, over = (
        each.reshape(*input.shape[:count], -1) for each in _wide(grad_out, input, mean, rstd)
    )
    n, y, rows = x.shape[-1], (x - mean) * over, list(range(count))
    g = given if weight is None else given * weight.reshape(-1).to(x.dtype)
    of_x = over * (g - quotient(_along(g, -1), n) - y * quotient(_along(g * y, -1), n))
    of_weight, of_bias = (
        exact_sum(terms, rows).to(like.dtype).reshape(like.shape) if like is not None and wanted else None
        for terms, like, wanted in ((given * y, weight, output_mask[1]), (given, bias, output_mask[2]))
    )
    return of_x.to(input.dtype).reshape(input.shape) if output_mask[0] else None, of_weight, of_bias


def _product(owner: Any, a: Any, b: Any, bias: Any = None) -> Any:
    """Of float32 in binary64, which has all bits of its products; TF32 would cut them."""
    if not _fits(a) or a.dtype != b.dtype or (a.dim() == b.dim() == 3 and len(a) != len(b)):
        return NotImplemented
    if a.dtype is torch.float32:
        found = matmul(a.double(), b.double(), bias=None if bias is None else bias.double())
        return found.to(torch.float32)
    return matmul(a, b, bias=bias, dtype=a.dtype, unit=owner.unit if a.dtype.itemsize == 2 else None)


def _mm(owner: Any, self: Any, mat2: Any) -> Any:
    return _product(owner, self, mat2)


def _sum_of_product(owner: Any, term: Any, a: Any, b: Any, beta: Any, alpha: Any) -> Any:
    if beta == 1 and alpha == 1 and term.dim() == 1 and term.shape[0] == b.shape[-1]:
        wide = torch.float64 if a.dtype is torch.float64 else torch.float32
        return _product(owner, a, b, term.to(wide))
    found = _product(owner, a, b)
    return found if found is NotImplemented else found * alpha + term * beta if beta else found * alpha


def _addmm(owner: Any, self: Any, mat1: Any, mat2: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    return _sum_of_product(owner, self, mat1, mat2, beta, alpha)


def _baddbmm(owner: Any, self: Any, batch1: Any, batch2: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    return _sum_of_product(owner, self, batch1, batch2, beta, alpha)


def _mv(owner: Any, self: Any, vec: Any) -> Any:
    return _product(owner, self, vec)


def _dot(owner: Any, self: Any, tensor: Any) -> Any:
    return functions.dot(self, tensor, dtype=self.dtype) if _fits(self) else NotImplemented


_NORMS: tuple[fft.Norm, ...] = ("backward", "ortho", "forward")
"""Of transforms by PyTorch's numbers of them: nothing, 1/√n and 1/n times a forward one; of inverse ones the other way around."""


def _fft_c2c(owner: Any, self: Any, dim: Any, normalization: int, forward: bool) -> Any:
    if not dim:
        return NotImplemented
    if forward:
        return fft.fftn(self, axes=dim, norm=_NORMS[normalization])
    return fft.ifftn(self, axes=dim, norm=_NORMS[2 - normalization])


def _fft_r2c(owner: Any, self: Any, dim: Any, normalization: int, onesided: bool) -> Any:
    if not dim or not self.is_floating_point():
        return NotImplemented
    return (fft.rfftn if onesided else fft.fftn)(self, axes=dim, norm=_NORMS[normalization])


def _fft_c2r(owner: Any, self: Any, dim: Any, normalization: int, last_dim_size: int) -> Any:
    if not dim:
        return NotImplemented
    lengths = [*(self.shape[axis] for axis in dim[:-1]), last_dim_size]
    return fft.irfftn(self, lengths, dim, _NORMS[2 - normalization])


def _pow(owner: Any, self: Any, exponent: Any) -> Any:
    """Squares and cubes, which multiplications make; x itself in the gradient of squares, and 1 in that of x."""
    if (
        not isinstance(self, torch.Tensor)
        or not isinstance(exponent, int | float)
        or exponent not in (0, 1, 2, 3)
        or (exponent > 1 and self.is_complex())
    ):
        return NotImplemented
    x = self.to(torch.result_type(self, exponent))  # of whole numbers and truth values often another format
    return (torch.ones_like, torch.clone, lambda x: x * x, lambda x: x * x * x)[int(exponent)](x)


def _div(owner: Any, self: Any, other: Any, rounding_mode: Any = None) -> Any:
    """By one number for all: on a GPU PyTorch multiplies by its reciprocal, which rounds twice."""
    single = other.dim() == 0 and other.device.type == "cpu" if isinstance(other, torch.Tensor) else True
    if not _fits(self) or not self.dim() or not single or rounding_mode is not None or is_complex(other):
        return NotImplemented
    if not abs(float(other)) <= torch.finfo(self.dtype).max:
        return NotImplemented
    return quotient(self, float(other)).to(torch.result_type(self, other))


def _sqrt(owner: Any, self: Any) -> Any:
    return square_root(self) if _fits(self) else NotImplemented


def _in_place(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same into its first argument; where that does not hold the result, PyTorch says so."""

    def into(owner: Any, self: Any, *given: Any, **named: Any) -> Any:
        found = function(owner, self, *given, **named)
        if found is NotImplemented or not torch.can_cast(found.dtype, self.dtype):
            return NotImplemented
        return self.copy_(found)

    return into


def _rsqrt(owner: Any, self: Any) -> Any:
    return 1 / square_root(self) if _fits(self) else NotImplemented


def _by_plan(term: Term, made: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    """Of tcu's own operations, whose names PyTorch has too, those that reduce what has this term."""
    return {
        name: made(functions.FUNCTIONS[name])
        for name, each in OPERATIONS.items()
        if name in functions.FUNCTIONS
        and (each.kind, each.arithmetic, each.term) == ("reduce", "planned", term)
    }


_MOMENTS = _by_plan("moments", _moments)
OPERATORS: dict[str, Callable[..., Any]] = {
    **_by_plan("value", _reduction), **_MOMENTS, **{f"{name}_mean": _and_mean(own) for name, own in _MOMENTS.items()},
    "linalg_vector_norm": _vector_norm, "cumsum": _cumsum,
    "_softmax": _softmax, "_log_softmax": _log_softmax, "_safe_softmax": _safe_softmax,
    "_softmax_backward_data": _softmax_backward, "_log_softmax_backward_data": _log_softmax_backward,
    "nll_loss_forward": _nll_loss, "native_layer_norm": _layer_norm, "native_layer_norm_backward": _layer_norm_backward,
    "mm": _mm, "bmm": _mm, "addmm": _addmm, "baddbmm": _baddbmm, "mv": _mv, "dot": _dot, "pow": _pow, "pow_": _in_place(_pow), "sqrt": _sqrt, "sqrt_": _in_place(_sqrt),
    "rsqrt": _rsqrt,
    "div": _div, "div_": _in_place(_div), "_fft_c2c": _fft_c2c, "_fft_r2c": _fft_r2c, "_fft_c2r": _fft_c2r,
    **BY_INDEX,
}  # fmt: skip
"""By the name of PyTorch's operator."""

FUNCTIONS: dict[Any, Callable[..., Any]] = {
    **dict.fromkeys((torch.rms_norm, torch.nn.functional.rms_norm), _rms_norm),
    **dict.fromkeys((torch.logsumexp, torch.Tensor.logsumexp), _logsumexp),
    torch.nn.functional.linear: _linear, torch.nn.functional.cross_entropy: _cross_entropy,
}  # fmt: skip
