"""Fourier transforms of arrays in the host's memory: their plans, executed by the model."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.model.fft import from_real, to_real, transform
from tcu.ops.fft import FftCall, complex_dtype, plan_of, real_format, result_shape

__all__ = ["fft"]

Array = npt.NDArray[Any]


def fft(call: FftCall) -> Array:
    """The transforms along an axis, as complex numbers, pairs or real ones.  Raises DtypeError, ParameterError."""
    x: Array = np.asarray(call.x)
    real = real_format(x.dtype)
    plan = plan_of(call, real)
    work: Any = np.float64 if plan.work == "binary64" else np.float32
    shape = x.shape[:-1] if call.pairs else x.shape
    lines = _lines(x, call, work)
    made = result_shape(call, shape)
    if call.kind in ("forward", "inverse"):
        result = transform(lines, plan, call.factor, inverse=call.kind == "inverse")
    elif call.kind == "from_real":
        result = _from_real(lines, call, plan)
    else:
        result = _to_real(lines, call, plan)
    with np.errstate(over="ignore"):
        result = result.astype(real.dtype, copy=False)
    outer = (*made[: call.axis], *made[call.axis + 1 :], made[call.axis])
    if call.kind == "to_real":
        return np.moveaxis(result.reshape(outer), -1, call.axis)
    result = np.moveaxis(result.reshape(*outer, 2), -2, call.axis)
    if call.in_pairs:
        return result
    return np.ascontiguousarray(result).view(complex_dtype(real))[..., 0]


def _lines(x: Array, call: FftCall, work: Any) -> Array:
    """(transforms, numbers), or of complex numbers with their parts: cut or padded along the axis, contiguous."""
    complex_in = call.kind != "from_real"
    if complex_in and not call.pairs:
        parts = x if x.dtype.kind == "c" else None
        pairs = np.zeros((*x.shape, 2), work)
        pairs[..., 0] = x if parts is None else parts.real
        if parts is not None:
            pairs[..., 1] = parts.imag
        x = pairs
    axis = call.axis
    x = np.moveaxis(x, axis, -2 if complex_in else -1)
    count = x.shape[-2] if complex_in else x.shape[-1]
    taken = call.taken
    shape = (*x.shape[:-2], taken, 2) if complex_in else (*x.shape[:-1], taken)
    if count == taken:
        result = np.ascontiguousarray(x, dtype=work)
    else:
        result = np.zeros(shape, work)
        kept = min(count, taken)
        if complex_in:
            result[..., :kept, :] = x[..., :kept, :]
        else:
            result[..., :kept] = x[..., :kept]
    return result.reshape(-1, taken, 2) if complex_in else result.reshape(-1, taken)


def _from_real(lines: Array, call: FftCall, plan: Any) -> Array:
    if call.n % 2 == 0:
        return from_real(lines, plan, call.factor)
    pairs = np.zeros((*lines.shape, 2), lines.dtype)
    pairs[..., 0] = lines
    return transform(pairs, plan, call.factor, inverse=False)[:, : call.made]


def _to_real(lines: Array, call: FftCall, plan: Any) -> Array:
    n = call.n
    if n % 2 == 0:
        return to_real(lines, plan, call.factor)
    whole = np.empty((len(lines), n, 2), lines.dtype)
    whole[:, : n // 2 + 1] = lines
    whole[:, 0, 1] = 0
    whole[:, n // 2 + 1 :] = lines[:, :0:-1]
    whole[:, n // 2 + 1 :, 1] *= -1
    return transform(whole, plan, call.factor, inverse=True)[..., 0]
