"""The correctly rounded dot product and norm: exact products, added up exactly."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.collectives.exact import Tally, count_specials, exact_sum, on_gpu, tally
from tcu.collectives.request import Request
from tcu.collectives.results import round_number, stored, target_of
from tcu.formats.array import is_dask, lives_on_gpu
from tcu.formats.format import Format, get_format
from tcu.formats.inexact import square_root
from tcu.formats.scalar import Number
from tcu.formats.tensor import is_tensor
from tcu.model import compiled
from tcu.model.pairs import Pairs

__all__ = ["fdot", "fnorm"]

PRODUCT_SCALE = -2 * 1074
"""Every product of two numbers of the four formats is an integer multiple of 2 to this power."""


def fdot(x: Any, y: Any, dtype: npt.DTypeLike | Any = None, *, out: Any = None) -> Any:
    """The dot product of x and y, rounded once: one answer, whatever the order, split or machine.

    Parameters
    ----------
    x, y:
        Arrays of one shape and one dtype: float16, bfloat16, float32 or
        float64.  Both of NumPy or PyTorch, or both on one GPU (as
        :func:`tcu.sum`).
    dtype:
        Format of the result, rounded to it directly.  None: float32 for
        16-bit inputs, x's own dtype otherwise.
    out:
        A 0-d array of the same library that takes the result; its dtype
        stands in for ``dtype``.

    Returns
    -------
    A NumPy scalar, a 0-d tensor, or a 0-d array on the GPU of x and y, without waiting for
    it.  No product and no sum of them overflows or underflows on
    the way: a result beyond the largest number of ``dtype`` is inf, and a sum
    of zero is +0.  A product with inf or NaN is what IEEE 754 says, so
    0 · inf is NaN, and NaN wins over everything else.

    Raises
    ------
    DtypeError, ShapeError, InvalidOperationError, ParameterError:
        Arrays that cannot be multiplied, or not with each other; products of
        inf and of -inf, and no NaN, on the CPU (on a GPU, which is not waited
        for, the result is NaN then); an unfit ``out``.
    """
    if is_dask(x) or is_dask(y):
        import tcu.collectives.dask_arrays as dask_arrays

        return dask_arrays.reduce("fdot", (x, y), (dtype,), out=out)
    if is_tensor(x) or is_tensor(y):
        import tcu.collectives.torch_operators as operators

        return operators.reduce("fdot", (x, y), (dtype,), out)
    if lives_on_gpu(x) or lives_on_gpu(y):
        return on_gpu(Request("fdot", dtype=dtype), (x, y), out)
    number, fmt = _exact_on_host(x, y)
    return stored(round_number(number, target_of(fmt, dtype, out)), out)


def fnorm(x: Any, dtype: npt.DTypeLike | Any = None, *, out: Any = None) -> Any:
    """The Euclidean norm of all elements: the root of the exact sum of squares, rounded once.

    Parameters, results and errors are those of :func:`fdot`; no square
    overflows or underflows on the way.  inf where an element is, NaN where
    one is NaN, +0 for no elements.
    """
    if is_dask(x):
        import tcu.collectives.dask_arrays as dask_arrays

        return dask_arrays.reduce("fnorm", (x,), (dtype,), out=out)
    if is_tensor(x):
        import tcu.collectives.torch_operators as operators

        return operators.reduce("fnorm", (x,), (dtype,), out)
    if lives_on_gpu(x):
        return on_gpu(Request("fnorm", dtype=dtype), (x,), out)
    number, fmt = _exact_on_host(x, x)
    return stored(round_number(square_root(number), target_of(fmt, dtype, out)), out)


def _exact_on_host(x: npt.ArrayLike, y: npt.ArrayLike) -> tuple[Number, Format]:
    """The exact sum of products, and the format of the elements."""
    pairs = Pairs(x, y)
    return tally_of_pairs(pairs).number(PRODUCT_SCALE), pairs.format


def tally_of_pairs(pairs: Pairs) -> Tally:
    """The exact sum of all products, in units of 2^-2148."""
    return tally(pairs.n, lambda start, stop: sum_of_products(*pairs.read(start, stop), pairs.format))


def sum_of_products(x: npt.NDArray[Any], y: npt.NDArray[Any], fmt: Format) -> Tally:
    """The sum of one piece in units of 2^-2148."""
    with np.errstate(all="ignore"):
        if fmt.name == "binary64":
            return _sum_of_wide_products(x, y)
        products = x.astype(np.float64) * y.astype(np.float64)  # exact: at most 48 bits, from 2^-298 up
    part = exact_sum(products, get_format("binary64"))
    return part._replace(integer=part.integer << 1074)


def _sum_of_wide_products(x: npt.NDArray[Any], y: npt.NDArray[Any]) -> Tally:
    kernels = compiled.load("kernels")

    ways = np.zeros((2, 1 << 12, 4), np.int64)
    special = kernels.add_products_to_bins(x.view(np.int64), y.view(np.int64), ways)
    bins = ways.sum(axis=0)
    integer = 0
    for field in np.flatnonzero(bins.any(axis=1)).tolist():
        digits = enumerate(bins[field].tolist())
        integer += sum(digit << 27 * place for place, digit in digits) << (field - 2)
    if not special:
        return Tally(integer)
    at = ~(np.isfinite(x) & np.isfinite(y))
    return Tally(integer).plus(count_specials(x[at] * y[at]))
