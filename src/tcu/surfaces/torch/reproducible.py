"""``tcu.torch.reproducible``: PyTorch's own sums, products and row functions by tcu's operators, in programs as they are.

A dispatch mode sees what PyTorch executes below autograd, so gradients take the same operators.
"""

from __future__ import annotations

import math
from contextlib import ExitStack
from functools import cache
from types import FunctionType
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from tcu.errors import ParameterError
from tcu.surfaces.torch.replacements import FUNCTIONS, OPERATORS, given_back, is_complex

__all__ = ["reproducible", "set_reproducible"]

_EXACT = frozenset((
    "abs", "adaptive_max_pool2d", "adaptive_max_pool3d", "add", "alias", "all", "allclose", "amax", "amin", "aminmax", "any", "arange",
    "argmax", "argmin", "bernoulli", "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "block_diag", "bool", "bucketize", "cat",
    "ceil", "channel_shuffle", "clamp", "clamp_max", "clamp_min", "clone", "complex", "_conj_physical", "constant_pad_nd", "contiguous",
    "copy", "copysign", "count_nonzero", "cummax", "cummin", "detach", "detach_", "diag_embed", "diagonal_scatter", "diff", "div",
    "dropout", "embedding", "empty", "empty_like", "empty_strided", "eq", "equal", "eye", "fill", "flip", "floor", "fmax",
    "fmin", "frac", "fractional_max_pool2d", "fractional_max_pool3d", "frexp", "full", "full_like", "gather", "ge", "gt",
    "hardshrink", "hardshrink_backward", "hardtanh", "hardtanh_backward", "heaviside", "im2col", "index", "index_copy", "index_fill",
    "index_put", "_index_put_impl_", "index_select", "isfinite", "isin", "isinf", "isnan", "isneginf", "isposinf", "item", "kthvalue",
    "le", "leaky_relu", "leaky_relu_backward", "lift_fresh", "linspace", "_local_scalar_dense", "logical_and", "logical_not",
    "logical_or", "logical_xor", "lt", "masked_fill", "masked_scatter", "masked_select", "max", "max_pool2d_with_indices",
    "max_pool3d_with_indices", "max_unpool2d", "max_unpool3d", "maximum", "median", "min", "minimum", "mode", "mul", "nan_to_num",
    "nanmedian", "narrow", "native_dropout", "native_dropout_backward", "ne", "neg", "new_empty", "new_empty_strided", "new_full",
    "new_ones", "new_zeros", "nextafter", "nll_loss_backward", "nonzero", "one_hot", "ones", "ones_like", "pixel_shuffle",
    "pixel_unshuffle", "_prelu_kernel", "_prelu_kernel_backward", "promote_types", "put", "reciprocal", "reflection_pad1d",
    "reflection_pad2d", "reflection_pad3d", "relu", "repeat", "replication_pad1d", "replication_pad2d", "replication_pad3d",
    "resize_", "roll", "rot90", "round", "rsub", "scalar_tensor", "scatter", "searchsorted", "select_backward", "select_scatter", "set_",
    "sgn", "sign", "signbit", "slice_backward", "slice_scatter", "softshrink", "sort", "squeeze_", "stack", "sub", "t_", "take",
    "threshold", "threshold_backward", "_to_copy", "topk", "transpose_", "tril", "tril_indices", "triu", "trunc", "unbind",
    "unfold_backward", "_unique2", "unique_consecutive", "unique_dim", "_unsafe_index", "unsafe_split", "unsafe_split_with_sizes",
    "_unsafe_view", "unsqueeze_", "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "_upsample_nearest_exact1d",
    "_upsample_nearest_exact2d", "_upsample_nearest_exact3d", "where", "zero_", "zeros", "zeros_like",
))  # fmt: skip
"""Operators of PyTorch that move numbers, select them, compare them, or make one IEEE operation of each, by themselves or with a second
number: their bits have nothing to do with the batch, and are the same on CPUs and GPUs.  In place they have the same names with one
more underscore.  Masks of dropout are the generator's; and where two numbers go to one place, PyTorch says of none that it stays."""


_OF_REAL = frozenset((
    "abs", "div", "mul", "reciprocal", "sgn",
))  # fmt: skip
"""Those which of complex numbers take several operations, whose roundings compilers and libraries choose; but a complex number
times a real one is two products."""


_PASSED = ("tcu", "profiler")
"""Namespaces of operators: tcu's own, and the profiler's, which mark an optimizer's steps and compute nothing."""


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
        if namespace in _PASSED or function.is_view:
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
        tensors = _tensors(given)
        if tensors and not any(map(_is_of_fractions, tensors)):
            result = function(*given, **named)
            if any(map(_is_of_fractions, _tensors(result))):  # by a library's functions; else all is exact
                self._name(function)
            return result
        if function._can_decompose():  # in inference mode, past autograd
            with self:
                result = function.decompose(*given, **named)
            if result is not NotImplemented:
                return result
        if function._schema.is_mutable:  # nothing is changed by what is refused
            self._name(function)
            return function(*given, **named)
        result = function(*given, **named)  # first, as PyTorch says better what it refuses itself
        self._name(function)
        return result

    def _name(self, function: Any) -> None:
        """As one whose bits may depend on something; raises ParameterError where that is wanted."""
        if self._owner.strict:
            raise ParameterError(
                f"{function} is not among the operators that tcu.torch.reproducible covers, and its bits may depend on "
                "the batch or the device: replace it, or leave strict out"
            )
        self._owner.uncovered.add(str(function))


def _bound(function: Any, given: Any, named: dict[str, Any]) -> dict[str, Any]:
    """All arguments by name, as the schema has them."""
    found = {each.name: each.default_value for each in function._schema.arguments if each.has_default_value()}
    found |= dict(zip((each.name for each in function._schema.arguments), given, strict=False))
    return found | named


def _is_of_fractions(x: Any) -> bool:
    return bool(x.is_floating_point() or x.is_complex())


def _tensors(given: Any) -> list[Any]:
    """Among arguments, or of a result."""
    every = given if isinstance(given, tuple | list) else (given,)
    return [each for each in every if isinstance(each, torch.Tensor)]


def _is_exact(function: Any, name: str, given: Any, named: dict[str, Any]) -> bool:
    if name == "arange" and any(isinstance(each, float) and not each.is_integer() for each in given):
        return False  # each thread begins with a product, and what follows are sums
    if name == "linalg_vector_norm":  # the largest or the least magnitude
        chosen = abs(_bound(function, given, named)["ord"]) == math.inf
        return chosen and not any(map(torch.is_complex, _tensors(given)))
    base = name if name in _EXACT else name.removesuffix("_")
    if base in _OF_REAL and any(map(torch.is_complex, _tensors(given))):
        return base == "mul" and sum(map(is_complex, given[:2])) == 1
    if base not in _EXACT:
        return False
    bound = _bound(function, given, named)
    adds = bound.get("accumulate") or bound.get("reduce") or bound.get("alpha", 1) != 1
    return not adds and bound.get("rounding_mode") is None  # as some of these can be asked to
