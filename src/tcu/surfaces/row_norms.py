"""``tcu.rms_norm`` and ``tcu.layer_norm``: norms of rows, with what models put before and behind them."""

from __future__ import annotations

from typing import Any, Never

import numpy.typing as npt

from tcu.engines import host
from tcu.errors import DtypeError, ParameterError, ShapeError
from tcu.formats.tensor import is_tensor
from tcu.ops import LAYER_NORM, RMS_NORM
from tcu.ops.layout import Along, axis_number, one_axis, row_axis
from tcu.ops.operation import unknown_option
from tcu.ops.options import OPTIONS
from tcu.surfaces import functions
from tcu.surfaces.call import tensors
from tcu.surfaces.one_library import as_array, ieee_of_arrays, library_of

__all__ = ["layer_norm", "rms_norm"]

_NORMS = {each.name: each for each in (RMS_NORM, LAYER_NORM)}
_BESIDE = ("axis", "dim", "out")
"""What functions take beside options."""


def rms_norm(
    x: Any,
    axis: Any = -1,
    *,
    weight: Any = None,
    residual: Any = None,
    eps: float | None = None,
    dtype: npt.DTypeLike | Any = None,
    dim: Any = None,
    out: Any = None,
    **others: Never,
) -> Any:
    """The numbers of each row over the root of their mean square, with the same bits everywhere.

    x · r with r = 1 / sqrt(v + eps) in binary64, rounded once to binary32 (binary64 where x, the weight or the
    result is float64), and v the mean of the squares.  Each square is rounded to a
    multiple of 2^-44 (2^-80) of a power of two next to the largest square, and their sum is exact:
    so the bits of a row depend on its numbers alone, not on the batch, the layout, the
    number of threads, or whether a CPU or a GPU computes them.  Nothing overflows.

    Parameters
    ----------
    x, axis, dim, dtype, out:
        As in :func:`softmax`.
    weight:
        A number for each place of a row, by which results are multiplied before they are rounded to ``dtype``.
    residual:
        An array of x's shape and dtype that is added to x first, rounded to that dtype.
    eps:
        Added to the mean square, 0 or more.  None: 2^-23, or 2^-52 in binary64.
    **others:
        There are none: UnknownOptionError names what there is.

    Returns
    -------
    An array of x's library and shape; ``out`` where it is given.  With a residual a pair: that array, and the sum
    of x and the residual.  A row with NaN has NaN everywhere; one with inf has NaN in its place, and 0 elsewhere, as in
    PyTorch.  The gradient's sums are those of :func:`tcu.sum` along the row; the weight's is exact over the rows
    (:func:`fsum`), so their order has no say.

    Raises
    ------
    DtypeError, ParameterError:
        As :func:`softmax`; an eps below 0; arrays of several libraries; with a weight or residual, an array of
        another library than NumPy and PyTorch.
    ShapeError:
        A weight that is not a line as long as rows; a residual of another shape.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> x = np.array([[1, 2, 3], [4, 5, 7]], np.float32)
    >>> tcu.rms_norm(x, weight=np.array([1, 1, 2], np.float32))
    array([[0.46291006, 0.9258201 , 2.7774603 ],
           [0.73029673, 0.9128709 , 2.5560386 ]], dtype=float32)
    """
    if others:
        raise unknown_option("rms_norm", next(iter(others)), ("weight", "residual", "eps", "dtype"), _BESIDE)
    return _normed("rms_norm", x, axis, dim, weight, None, residual, eps, dtype, out)


def layer_norm(
    x: Any,
    axis: Any = -1,
    *,
    weight: Any = None,
    bias: Any = None,
    residual: Any = None,
    eps: float | None = None,
    dtype: npt.DTypeLike | Any = None,
    dim: Any = None,
    out: Any = None,
    **others: Never,
) -> Any:
    """The numbers of each row less their mean, over the root of their variance, with the same bits everywhere.

    d · r, with d = x - mean and r and v of d as in :func:`rms_norm`.  The mean is taken off in two parts, of binary64 the
    second from the exact sum: of numbers far larger than their deviations as many bits are left as x has.

    Parameters
    ----------
    x, axis, dim, dtype, out:
        As in :func:`softmax`.
    weight, bias:
        A number for each place of a row, by which results are multiplied, and which is added then: in binary32
        (binary64 where x, one of them or the result is float64), each step rounded, before results are rounded to ``dtype``.
    residual:
        As in :func:`rms_norm`.
    eps:
        Added to the variance, 0 or more.  None: 1e-5.
    **others:
        There are none: UnknownOptionError names what there is.

    Returns
    -------
    As :func:`rms_norm`; a row with NaN or inf has NaN everywhere, as in PyTorch.

    Raises
    ------
    DtypeError, ParameterError, ShapeError:
        As :func:`rms_norm`.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> x = np.array([[1, 2, 3], [4, 5, 7]], np.float32)
    >>> tcu.layer_norm(x)
    array([[-1.2247357 ,  0.        ,  1.2247357 ],
           [-1.0690415 , -0.26726037,  1.3363018 ]], dtype=float32)
    """
    if others:
        options = ("weight", "bias", "residual", "eps", "dtype")
        raise unknown_option("layer_norm", next(iter(others)), options, _BESIDE)
    return _normed("layer_norm", x, axis, dim, weight, bias, residual, eps, dtype, out)


@ieee_of_arrays
def _normed(
    name: str, x: Any, axis: Any, dim: Any, weight: Any, bias: Any, residual: Any, eps: Any, dtype: Any, out: Any
) -> Any:  # fmt: skip
    norm = getattr(functions, name)
    if weight is None and bias is None and residual is None:
        return norm(x, axis, eps=eps, dtype=dtype, dim=dim, out=out)
    if dim is not None:
        axis = one_axis(None if axis == -1 else axis, dim, "map")
    given = {"weight": weight, "bias": bias, "residual": residual}
    x, given = _of_one_library(name, x, given)
    axis = row_axis(Along(axis), len(x.shape))
    _check_shapes(x, axis, given)
    total = x if residual is None else x + given["residual"]
    if weight is None and bias is None:
        return norm(total, axis, eps=eps, dtype=dtype, out=out), total
    found = _weighted(name, total, axis, given["weight"], given["bias"], eps, dtype, out)
    return found if residual is None else (found, total)


def _weighted(name: str, x: Any, axis: int, weight: Any, bias: Any, eps: Any, dtype: Any, out: Any) -> Any:
    kinds = [each.dtype for each in (x, weight, bias, out) if each is not None]
    work = "float64" if any("float64" in str(each) for each in (*kinds, dtype)) else "float32"
    kind = dtype or (x.dtype if out is None else out.dtype)
    if is_tensor(x):
        check = OPTIONS["eps"].check
        assert check is not None
        eps = check("eps", eps)
        return tensors().scaled(
            _NORMS[name], getattr(functions, name), x, weight, bias, axis, eps, work, kind, out
        )
    normed = getattr(functions, name)(x, axis, eps=eps, dtype=work)
    return host.scaled(normed, weight, bias, axis_number(axis, x.ndim), kind, out)


def _of_one_library(name: str, x: Any, given: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """All as arrays of NumPy, or as tensors; raises ParameterError."""
    arrays = {"x": x, **{key: each for key, each in given.items() if each is not None}}
    if all(map(is_tensor, arrays.values())):
        if any(each.device != x.device for each in arrays.values()):
            said = ", ".join(f"{key} is on {each.device}" for key, each in arrays.items())
            raise ParameterError(f"{said}: move all to one device")
        return x, given
    library_of(
        arrays,
        f"{name} with {', '.join(list(arrays)[1:])} takes arrays in the host's memory, or tensors: make all of them "
        "tensors, with torch.from_dlpack",
    )
    return as_array(x, "x"), {
        key: None if each is None else as_array(each, key) for key, each in given.items()
    }


def _check_shapes(x: Any, axis: int, given: dict[str, Any]) -> None:
    """Raises ShapeError or DtypeError."""
    for key in ("weight", "bias"):
        each = given[key]
        if each is None:
            continue
        if tuple(each.shape) != (x.shape[axis],):
            raise ShapeError(
                f"{key} has shape {tuple(each.shape)}: give one number for each place of a row, ({x.shape[axis]},)"
            )
        if "float" not in str(each.dtype):
            raise DtypeError(f"{key} has dtype {each.dtype}: give floating-point numbers")
    residual = given["residual"]
    if residual is not None and tuple(residual.shape) != tuple(x.shape):
        raise ShapeError(f"residual has shape {tuple(residual.shape)}, x {tuple(x.shape)}: give them one")
    if residual is not None and residual.dtype != x.dtype:
        raise DtypeError(f"residual has dtype {residual.dtype}, x {x.dtype}: give them one")
