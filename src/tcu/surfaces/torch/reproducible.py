"""``tcu.torch.reproducible``: PyTorch's own sums, products and row functions by tcu's operators, in programs as they are.

A dispatch mode sees what PyTorch executes below autograd, so gradients take the same operators.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import cache
from types import FunctionType
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from tcu.errors import ParameterError
from tcu.surfaces.torch.checks import FLOATS
from tcu.surfaces.torch.replacements import FUNCTIONS, OPERATORS, given_back, is_complex

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


class _Functions(TorchFunctionMode):  # type: ignore[misc]
    """What PyTorch takes apart differently on CPUs and GPUs or by strides, or differentiates by a library's exponentials."""

    def __init__(self, owner: reproducible) -> None:
        super().__init__()
        self._owner = owner

    def __torch_function__(self, function: Any, types: Any, given: Any = (), named: Any = None) -> Any:
        named = named or {}
        if function is torch.nn.functional.multi_head_attention_forward:
            with self:  # which sees its products
                return _taken_apart(function)(*given, **named)
        own = FUNCTIONS.get(function)
        result = NotImplemented if own is None else own(self._owner, *given, **named)
        return function(*given, **named) if result is NotImplemented else result


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


class _Operators(TorchDispatchMode):  # type: ignore[misc]
    def __init__(self, owner: reproducible) -> None:
        super().__init__()
        self._owner = owner

    def __torch_dispatch__(self, function: Any, types: Any, given: Any = (), named: Any = None) -> Any:
        named, owner = named or {}, self._owner
        namespace, name = function.namespace, function._schema.name.partition("::")[2]
        if namespace == "tcu" or function.is_view:
            return function(*given, **named)
        own = OPERATORS.get(name)
        if own is not None:
            bound = _bound(function, given, named)
            outs = [bound.pop(each.name) for each in function._schema.arguments if each.is_out]
            result = given_back(own(owner, **bound), outs)
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
        return name in ("mul", "mul_") and sum(map(is_complex, given[:2])) == 1
    alpha = named.get("alpha", given[2] if name in ("add", "sub", "add_", "sub_") and len(given) > 2 else 1)
    return name in _EXACT and alpha == 1
