"""What Fourier transforms of any library's arrays share: what is read, and who executes a transform along one axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from tcu.engines import engine_of
from tcu.errors import DtypeError, ParameterError, ShapeError
from tcu.formats.array import is_dask, lives_on_gpu, numpy_array, whole_number
from tcu.formats.tensor import is_tensor
from tcu.model.ieee_environment import ieee
from tcu.ops.fft import Divisor, FftCall, Kind, inverse_of, real_format
from tcu.ops.layout import Along, row_axis

__all__ = [
    "axis_of",
    "check_norm",
    "conjugate",
    "dask_arrays",
    "divisor_of",
    "length_of",
    "taken",
    "tensors",
    "transformed",
]

_NORMS = (None, "backward", "ortho", "forward")
_WIDENED = ("float16", "bfloat16")
"""Which NumPy has no complex numbers of."""
_factor_of = ieee(inverse_of)
"""In whatever environment the caller is."""


def transformed(x: Any, kind: Kind, n: int, axis: int, divisor: Divisor = "1", *, pairs: bool = False) -> Any:
    """The transforms along an axis of an array that was :func:`taken`, in the array's library."""
    if is_tensor(x):
        return tensors().run(FftCall(x, kind, n, axis, pairs=pairs), divisor)
    call = FftCall(x, kind, n, axis, _factor_of(divisor, n), pairs)
    if is_dask(x):
        return dask_arrays().run(call)
    if kind == "to_real" and not pairs and lives_on_gpu(x):
        call = call._replace(
            x=x.astype(np.result_type(x.dtype, np.complex64))
        )  # whose kernels take complex numbers
    return engine_of([x]).fft(call)


def tensors() -> Any:
    """What serves tensors, which were met."""
    from tcu.surfaces.torch import fft  # registers an operator, which imports PyTorch

    return fft


def dask_arrays() -> Any:
    """What serves Dask arrays, which were met."""
    from tcu.surfaces import dask_fft  # loads Dask's arrays

    return dask_fft


def taken(x: Any, *, real: str = "", pairs: bool = False, wide: bool = False) -> Any:
    """An array in a format that is transformed: whole numbers and truth values become floating-point numbers.

    ``real``: the function that takes real numbers alone.  ``pairs``: a last axis of two holds a number's parts.
    ``wide``: numbers of 16 bits become float32, as they do in any case where no complex numbers of them are.

    Raises DtypeError, ShapeError.
    """
    if is_tensor(x):
        x = tensors().taken(x, wide)
    else:
        if not (is_dask(x) or lives_on_gpu(x)):
            x = numpy_array(x, "x")
        name = np.dtype(x.dtype).name
        if np.dtype(x.dtype).kind in "biu":
            x = x.astype(np.float64)
        elif name in _WIDENED and not (pairs and name == "float16"):
            x = x.astype(np.float32)
        real_format(np.dtype(x.dtype))
    if (real or pairs) and "complex" in str(x.dtype):
        advice = (
            f"{real} takes real numbers: give x.real, or use fft"
            if real
            else "pairs are of real numbers: leave pairs out"
        )
        raise DtypeError(f"x has dtype {x.dtype}, and {advice}")
    if pairs and (not x.ndim or x.shape[-1] != 2):
        raise ShapeError(
            f"x has shape {tuple(x.shape)}: pairs have a last axis of two, real and imaginary parts"
        )
    return x


def axis_of(axis: Any, ndim: int, name: str = "x") -> int:
    """From 0 on.  Raises ParameterError, with the array's name."""
    return row_axis(Along(axis), ndim, name)


def length_of(n: Any, there: int, axis: int, name: str = "n") -> int:
    """The length of a transform: what was asked for, or what is there.  Raises ParameterError."""
    if n is None:
        if there < 1:
            raise ParameterError(f"axis {axis} has no number that is transformed: give {name}, from 1 on")
        return there
    # A graph's symbol is an int in torch.compile, and in torch.export a class of its own.
    number = n if type(n) is int or type(n).__name__ == "SymInt" else whole_number(n)
    if number is None or number < 1:
        raise ParameterError(f"{name}={n!r}: give a whole number from 1 on")
    return number


def check_norm(norm: Any) -> None:
    """Raises ParameterError."""
    if norm not in _NORMS:
        raise ParameterError(f"norm={norm!r}: choose 'backward', 'ortho' or 'forward'")


def divisor_of(norm: Any, *, inverse: bool) -> Divisor:
    """What the results of a transform are divided by.  Raises ParameterError."""
    check_norm(norm)
    if norm == "ortho":
        return "√n"
    return "n" if inverse == (norm != "forward") else "1"


def conjugate(x: Any) -> Any:
    return tensors().conjugate(x) if is_tensor(x) else x.conj()
