"""``tcu.torch.reproducible``: PyTorch's own sums, products and row functions by tcu's operators, in programs as they are.

A dispatch mode sees what PyTorch executes below autograd, so gradients take the same operators.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from types import FunctionType
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from tcu.errors import ParameterError
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

__all__ = ["reproducible", "set_reproducible"]

_EXACT = frozenset((
    "_local_scalar_dense", "_to_copy", "_unsafe_view", "abs", "add", "add_", "alias", "all", "allclose", "amax", "amin",
    "_conj_physical", "any", "bucketize", "copysign", "cummax", "cummin", "hardtanh", "index_copy", "index_fill", "leaky_relu", "masked_scatter",
    "new_empty_strided", "searchsorted", "arange", "argmax", "argmin", "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "bool", "cat",
    "ceil", "clamp", "clamp_", "clamp_max", "clamp_max_", "clamp_min", "clamp_min_", "clone", "constant_pad_nd", "contiguous", "copy", "copy_", "detach", "diff",
    "div", "div_", "dropout", "embedding", "empty", "empty_like", "empty_strided", "eq", "equal", "eye", "fill",
    "fill_", "flip", "floor", "floor_divide", "frexp", "full", "full_like", "gather", "ge", "gt", "index", "index_select",
    "isfinite", "isinf", "isnan", "item", "le", "lift_fresh", "linspace", "logical_and", "logical_not", "logical_or",
    "lt", "masked_fill", "masked_fill_", "masked_select", "max", "maximum", "min", "minimum", "mul", "mul_",
    "nan_to_num", "narrow", "ne", "neg", "neg_", "new_empty", "new_full", "new_ones", "new_zeros", "nll_loss_backward",
    "nonzero", "one_hot", "ones", "ones_like", "promote_types", "reciprocal", "relu", "relu_", "remainder", "repeat",
    "roll", "round", "scalar_tensor", "select_backward", "set_", "sgn", "sign", "slice_backward", "sort",
    "squeeze_", "stack", "sub", "sub_", "t_", "transpose_", "unsqueeze_", "threshold_backward", "tril", "tril_indices", "triu", "trunc", "unbind",
    "unfold_backward", "where", "zero_", "zeros", "zeros_like",
))  # fmt: skip
"""Operators of PyTorch that move numbers, compare them, or make one IEEE operation of each, by themselves or with a second
number: their bits have nothing to do with the batch, and are the same on CPUs and GPUs."""


_OF_WHOLE = frozenset((
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cos", "cosh", "deg2rad", "digamma", "erf", "erfc", "erfinv", "exp", "exp2",
    "expm1", "lgamma", "log", "log10", "log1p", "log2", "logit", "pow", "rad2deg", "rsqrt", "sigmoid", "sin", "sinc", "sinh", "sqrt",
    "tan", "tanh", "xlogy",
))  # fmt: skip
"""Those which make floating-point numbers of whole ones by a library's functions."""


_OF_REAL = frozenset((
    "abs", "div", "div_", "mul", "mul_", "reciprocal", "sgn",
))  # fmt: skip
"""Those which of complex numbers take several operations, whose roundings compilers and libraries choose; but a complex number
times a real one is two products."""


class reproducible:
    """A context in which PyTorch's own operators are executed by tcu's, with gradients: the same bits for every batch size.

    ``with tcu.torch.reproducible(): loss = model(x); loss.backward()``.  Sums, means, variances, norms of vectors,
    running sums, softmax, log-softmax, log-sum-exp, cross entropy, layer_norm, rms_norm, products of matrices
    (mm, addmm, bmm, baddbmm, matmul, linear, attention, which is made of its parts), sums by index (index_add, scatter_add,
    the gradients of indexing and of an embedding) and Fourier transforms (torch.fft, stft, by :mod:`tcu.fft`) of float16,
    bfloat16, float32 and float64, and of complex numbers made of them, on CPUs and GPUs.

    Square roots and quotients by one number are rounded once, as PyTorch's roots on CPUs with MKL and its quotients on GPUs are
    not.  Products of float32 are computed in float64 and rounded once; those of 16 bits have the bits of ``unit``,
    on the CPU by its model.

    Not covered are, among others, exp, tanh and other functions of a library, products of complex numbers, and
    convolutions: they run as ever, and
    ``uncovered`` names them.

    Parameters
    ----------
    strict:
        Raise ParameterError for an operator that is not covered, in place of running it.
    unit:
        Whose products those of 16-bit formats are, as in :func:`tcu.matmul`.

    Attributes
    ----------
    uncovered:
        The names of operators of PyTorch that ran uncovered.
    """

    def __init__(self, strict: bool = False, *, unit: str | None = None) -> None:
        self.strict, self.unit = strict, unit
        self.uncovered: set[str] = set()
        self._stacks: list[ExitStack] = []

    def __enter__(self) -> reproducible:
        with ExitStack() as stack:
            stack.enter_context(sdpa_kernel(SDPBackend.MATH))
            stack.enter_context(_Functions(self))
            stack.enter_context(_Operators(self))
            self._stacks.append(stack.pop_all())
        return self

    def __exit__(self, *error: Any) -> None:
        self._stacks.pop().close()


_switched: list[reproducible] = []


def set_reproducible(on: bool, strict: bool = False, *, unit: str | None = None) -> reproducible | None:
    """Turn :class:`reproducible` on, or off again, for the rest of this thread; returns what is on now."""
    while _switched:
        _switched.pop().__exit__()
    if not on:
        return None
    _switched.append(reproducible(strict, unit=unit).__enter__())
    return _switched[-1]


_RMS_NORMS = (torch.rms_norm, torch.nn.functional.rms_norm)


class _Functions(TorchFunctionMode):  # type: ignore[misc]
    """What PyTorch takes apart differently on CPUs and GPUs or by strides, or differentiates by a library's exponentials."""

    def __init__(self, owner: reproducible) -> None:
        super().__init__()
        self._owner = owner

    def __torch_function__(self, function: Any, types: Any, given: Any = (), named: Any = None) -> Any:
        named = named or {}
        if function in _RMS_NORMS:
            found = _named(("input", "normalized_shape", "weight", "eps"), given, named)
            x = found["input"]
            if _fits(x) and tuple(found["normalized_shape"]) == x.shape[-1:]:
                return row_norms.rms_norm(x, weight=found["weight"], eps=found["eps"])
        if function is torch.nn.functional.linear:
            result = _linear(self._owner, *given, **named)
            if result is not NotImplemented:
                return result
        if function in (torch.logsumexp, torch.Tensor.logsumexp):
            found = _named(("input", "dim", "keepdim"), given, named)
            x, out = found["input"], named.get("out")
            axes = found["dim"] if _fits(x) and x.dim() else None
            result = (
                functions.logsumexp(x, axes, keepdims=bool(found["keepdim"]), dtype=x.dtype)
                if _fits(x)
                else NotImplemented
            )
            result = _given_back(result, [] if out is None else [out])
            if result is not NotImplemented:
                return result
        if function is torch.nn.functional.multi_head_attention_forward:
            with self:  # which sees its products
                return _taken_apart(function)(*given, **named)
        if function is torch.nn.functional.cross_entropy:
            result = _cross_entropy(*given, **named)
            if result is not NotImplemented:
                return result
        return function(*given, **named)


@cache
def _taken_apart(function: Any) -> Any:
    """A function of PyTorch's that does not ask once more whether a mode wants it, which would never end."""
    asked = dict.fromkeys(
        ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic"), lambda *_: False
    )
    made = FunctionType(
        function.__code__, function.__globals__ | asked, function.__name__, function.__defaults__
    )
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def _cross_entropy(
    input: Any, target: Any, weight: Any = None, size_average: Any = None, ignore_index: int = -100, reduce: Any = None,
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


def _named(names: tuple[str, ...], given: Any, named: dict[str, Any]) -> dict[str, Any]:
    """Arguments by PyTorch's names, None where there is none."""
    return dict.fromkeys(names) | dict(zip(names, given, strict=False)) | named


def _linear(owner: reproducible, input: Any, weight: Any, bias: Any = None) -> Any:
    """With its bias in one rounding.  PyTorch adds it apart where rows do not lie one behind the other, or in a batch of vmap."""
    if bias is None or not _fits(input) or not input.dim():
        return NotImplemented
    rows = input.reshape(-1, input.shape[-1]) if input.numel() else input
    in_batch = any(map(is_wrapped, (input, weight, bias)))
    if in_batch and weight.dim() == 2 and not torch.is_autocast_enabled(input.device.type):
        found = _product(owner, rows, weight.t(), bias.to(_wide(bias)[0].dtype))
    elif input.dim() != 2 and input.numel():
        found = torch.nn.functional.linear(rows, weight, bias)
    else:
        return NotImplemented
    return found if found is NotImplemented else found.reshape(*input.shape[:-1], *found.shape[1:])


class _Operators(TorchDispatchMode):  # type: ignore[misc]
    def __init__(self, owner: reproducible) -> None:
        super().__init__()
        self._owner = owner

    def __torch_dispatch__(self, function: Any, types: Any, given: Any = (), named: Any = None) -> Any:
        named, owner = named or {}, self._owner
        namespace, name = function.namespace, function._schema.name.partition("::")[2]
        if namespace == "tcu" or function.is_view:
            return function(*given, **named)
        own = _BY_TCU.get(name)
        if own is not None:
            bound = _bound(function, given, named)
            outs = [bound.pop(each.name) for each in function._schema.arguments if each.is_out]
            result = _given_back(own(owner, **bound), outs)
            if result is not NotImplemented:
                return result
        if _is_exact(function, name, given, named):
            return function(*given, **named)
        if function._can_decompose():  # in inference mode, past autograd
            with self:
                result = function.decompose(*given, **named)
            if result is not NotImplemented:
                return result
        if owner.strict:
            raise ParameterError(
                f"{function} is not among the operators that tcu.torch.reproducible covers, and its bits may depend on "
                "the batch or the device: replace it, or leave strict out"
            )
        owner.uncovered.add(str(function))
        return function(*given, **named)


def _given_back(result: Any, outs: list[torch.Tensor]) -> Any:
    """The results, or ``out=`` with them, which takes their shape as PyTorch's does; NotImplemented where its dtype is another."""
    if result is NotImplemented or not outs:
        return result
    results = result if isinstance(result, tuple) else (result,)
    if [each.dtype for each in results] != [each.dtype for each in outs]:
        return NotImplemented
    for each, out in zip(results, outs, strict=True):
        (out if out.shape == each.shape else out.resize_(each.shape)).copy_(each)
    return tuple(outs) if isinstance(result, tuple) else outs[0]


def _bound(function: Any, given: Any, named: dict[str, Any]) -> dict[str, Any]:
    """All arguments by name, as the schema has them."""
    found = {each.name: each.default_value for each in function._schema.arguments if each.has_default_value()}
    found |= dict(zip((each.name for each in function._schema.arguments), given, strict=False))
    return found | named


def _is_exact(function: Any, name: str, given: Any, named: dict[str, Any]) -> bool:
    tensors = [each for each in given if isinstance(each, torch.Tensor)]
    whole = bool(tensors) and not any(each.is_floating_point() or each.is_complex() for each in tensors)
    if whole and name not in _OF_WHOLE and named.get("dtype") not in FLOATS:
        return True
    if name == "arange" and any(isinstance(each, float) and not each.is_integer() for each in given):
        return False  # each thread begins with a product, and what follows are sums
    if name in _OF_REAL and any(each.is_complex() for each in tensors):
        return name in ("mul", "mul_") and sum(map(_is_complex, given[:2])) == 1
    alpha = named.get("alpha", given[2] if name in ("add", "sub", "add_", "sub_") and len(given) > 2 else 1)
    return name in _EXACT and alpha == 1


def _is_complex(x: Any) -> bool:
    return x.is_complex() if isinstance(x, torch.Tensor) else isinstance(x, complex)


def _fits(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.dtype in FLOATS


def _axes(x: Any, dim: Any) -> Any:
    """None: all of them, or those of a tensor that has none."""
    return None if dim is None or dim == [] or not x.dim() else dim


# What operators become: functions of their arguments by the schema's names, or NotImplemented.


def _reduction(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(owner: Any, self: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
        if not _fits(self) or (dtype is not None and dtype not in FLOATS):
            return NotImplemented
        axes = _axes(self, dim)
        return function(self, axes, keepdims=keepdim, dtype=dtype or self.dtype)

    return run


def _moments(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(
        owner: Any, self: Any, dim: Any = None, correction: Any = None, keepdim: bool = False, unbiased: bool = True
    ) -> Any:  # fmt: skip
        if not _fits(self):
            return NotImplemented
        count = float(unbiased) if correction is None else float(correction)
        axes = _axes(self, dim)
        return function(self, axes, keepdims=keepdim, correction=count, dtype=self.dtype)

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
    axes = _axes(self, dim)
    total = functions.sum(wide * wide, axes, keepdims=keepdim)
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
    """Squares and cubes, which multiplications make; x itself in the gradient of squares."""
    if (
        not isinstance(self, torch.Tensor)
        or not isinstance(exponent, int | float)
        or exponent not in (1, 2, 3)
        or (exponent > 1 and self.is_complex())
    ):
        return NotImplemented
    return (self.clone(), self * self, self * self * self)[int(exponent) - 1]


def _div(owner: Any, self: Any, other: Any, rounding_mode: Any = None) -> Any:
    """By one number for all: on a GPU PyTorch multiplies by its reciprocal, which rounds twice."""
    single = other.dim() == 0 and other.device.type == "cpu" if isinstance(other, torch.Tensor) else True
    if not _fits(self) or not self.dim() or not single or rounding_mode is not None or _is_complex(other):
        return NotImplemented
    if not abs(float(other)) <= torch.finfo(self.dtype).max:
        return NotImplemented
    return quotient(self, float(other)).to(torch.result_type(self, other))


def _div_(owner: Any, self: Any, other: Any, rounding_mode: Any = None) -> Any:
    found = _div(owner, self, other, rounding_mode)
    return found if found is NotImplemented else self.copy_(found)


def _sqrt(owner: Any, self: Any) -> Any:
    return square_root(self) if _fits(self) else NotImplemented


def _sqrt_(owner: Any, self: Any) -> Any:
    return self.copy_(square_root(self)) if _fits(self) else NotImplemented


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
_BY_TCU: dict[str, Callable[..., Any]] = {
    **_by_plan("value", _reduction), **_MOMENTS, **{f"{name}_mean": _and_mean(own) for name, own in _MOMENTS.items()},
    "linalg_vector_norm": _vector_norm, "cumsum": _cumsum,
    "_softmax": _softmax, "_log_softmax": _log_softmax, "_safe_softmax": _safe_softmax,
    "_softmax_backward_data": _softmax_backward, "_log_softmax_backward_data": _log_softmax_backward,
    "nll_loss_forward": _nll_loss, "native_layer_norm": _layer_norm, "native_layer_norm_backward": _layer_norm_backward,
    "mm": _mm, "bmm": _mm, "addmm": _addmm, "baddbmm": _baddbmm, "mv": _mv, "dot": _dot, "pow": _pow, "sqrt": _sqrt, "sqrt_": _sqrt_,
    "rsqrt": _rsqrt,
    "div": _div, "div_": _div_, "_fft_c2c": _fft_c2c, "_fft_r2c": _fft_r2c, "_fft_c2r": _fft_c2r,
    **BY_INDEX,
}  # fmt: skip
"""By the name of PyTorch's operator."""
