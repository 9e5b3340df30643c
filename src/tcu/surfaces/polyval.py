"""``tcu.polyval``: a polynomial, or several, at many points."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.engines import engine_of
from tcu.errors import DtypeError, ShapeError
from tcu.formats.array import in_host_memory
from tcu.formats.format import format_of
from tcu.formats.tensor import check_data, check_dense, check_no_gradient, is_tensor, plain_view
from tcu.model.ieee_environment import ieee
from tcu.plan.polyval import polyval_error_bound as plan_bound
from tcu.surfaces.one_library import cast, is_whole, of_one_library

__all__ = ["polyval", "polyval_error_bound"]

_DTYPES = ("float32", "float64")


def polyval(x: Any, c: Any) -> Any:
    """c[0] + c[1]·x + c[2]·x² + ... at every point x, with the same bits on every CPU and every GPU.

    The conventions are those of ``numpy.polynomial.polynomial.polyval``, which adds 0·x, NaN where x is inf or NaN.  Here a
    single coefficient is its own value even there, and at inf the sum of others what Horner's rule makes of them.  Each value depends on its point and its polynomial
    alone: Horner's rule by fused multiply-adds, or of 576 and more coefficients of float64 chains of the unit's MMAs, which
    from 4,096 on take half of Horner's time on an H100 (:mod:`tcu.plan.polyval` says every operation).

    Parameters
    ----------
    x:
        Points, of any shape: an array of NumPy, PyTorch, CuPy or JAX, on the host or in a GPU's memory; float32 or
        float64, or whole numbers, which become float64.
    c:
        (n, ...) coefficients, the constant term first, n from 1 on; what follows the first axis are polynomials.  Where one of x and
        c is float64, both are.

    Returns
    -------
    An array of x's kind, of shape ``c.shape[1:] + x.shape``; its error is bounded by :func:`polyval_error_bound`.

    Raises
    ------
    DtypeError, ShapeError, ParameterError:
        Other dtypes; no coefficients; arrays of two libraries, or of Dask; tensors that want a gradient.

    Source of the algorithm in blocks: Theorem 7 of Silvestri and Vella, section 4.5.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> tcu.polyval([0.5, 2.0], [1.0, 0.0, 3.0])  # 1 + 3·x²
    array([ 1.75, 13.  ])
    """
    x, c = _operands(x, c)
    if is_tensor(x):
        from tcu.surfaces.torch.polyval import run  # registers an operator, which imports PyTorch

        return run(x, c)
    return engine_of((x, c)).polyval(x, c)


@ieee
def polyval_error_bound(x: npt.ArrayLike, c: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Bounds on |tcu.polyval(x, c) - exact value|, for arrays in the host's memory; the parameters are those of :func:`polyval`.

    From the number of roundings that a term goes through (:func:`tcu.plan.polyval_error_bound`), and what underflow loses;
    inf where an overflow cannot be excluded, NaN where inf or NaN is among the numbers.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> x, c = np.linspace(-1, 1, 5), np.ones(1000)
    >>> tcu.polyval_error_bound(x, c).max() < 2e-10
    np.True_
    """
    points, coefficients = _operands(in_host_memory(x), in_host_memory(c))
    if is_tensor(points):
        points, coefficients = plain_view(points, "x"), plain_view(coefficients, "c")
    rows = coefficients.reshape(len(coefficients), -1).T
    bounds = [plan_bound(row, points.reshape(-1), format_of(points.dtype)) for row in rows]
    return np.reshape(bounds, (*coefficients.shape[1:], *points.shape))


def _operands(x: Any, c: Any) -> tuple[Any, Any]:
    """Both in one format; raises what :func:`polyval` raises."""
    x, c = of_one_library(x=x, c=c)
    x, c = (_of_format(name, each) for name, each in (("x", x), ("c", c)))
    if not len(c.shape) or not c.shape[0]:
        raise ShapeError(
            f"c has shape {tuple(c.shape)}: give coefficients along its first axis, the constant term first"
        )
    if _name(x) != _name(c):
        x, c = cast(x, "float64"), cast(c, "float64")
    return x, c


def _of_format(name: str, array: Any) -> Any:
    if is_tensor(array):
        if not _in_graph():
            check_data(array, name)
            check_dense(array, name, "take")
        check_no_gradient(array, name, "tcu.polyval")
    dtype = _name(array)
    if dtype in _DTYPES:
        # Of NumPy in the machine's order of bytes.
        return cast(array, dtype) if isinstance(array, np.ndarray) else array
    if is_whole(array):
        return cast(array, "float64")
    raise DtypeError(f"{name} has dtype {dtype}: polynomials are of float32 or float64")


def _in_graph() -> bool:
    return bool(sys.modules["torch"].compiler.is_dynamo_compiling())


def _name(array: Any) -> str:
    return str(array.dtype).removeprefix("torch.") if is_tensor(array) else np.dtype(array.dtype).name
