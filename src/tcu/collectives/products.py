"""``tcu.dot`` and ``tcu.norm``: products added up by a plan, and how far off they can be."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt

from tcu.collectives.exact import tally
from tcu.collectives.exact_products import PRODUCT_SCALE, sum_of_products
from tcu.collectives.request import Request
from tcu.collectives.results import result_format, round_sum, stored, target_of
from tcu.formats.array import is_dask, lives_on_gpu
from tcu.formats.format import get_format
from tcu.formats.scalar import Number, decode, encode
from tcu.formats.tensor import is_tensor
from tcu.model.execute import execute, pieces
from tcu.model.pairs import Pairs
from tcu.plan import Plan, make_dot_plan, plan_error_bound

__all__ = ["DotInfo", "dot", "dot_error_bound", "norm"]


@dataclass(frozen=True)
class DotInfo:
    """How a dot product or a norm came about."""

    plan: Plan
    levels: int
    """Reducing steps one after another."""
    bits: int
    """The result's bit pattern."""


@overload
def dot(
    x: Any, y: Any, *, block: int | None = ..., dtype: npt.DTypeLike | Any = ..., out: Any = ...,
    return_info: Literal[False] = ...,
) -> Any: ...  # fmt: skip
@overload
def dot(
    x: Any, y: Any, *, block: int | None = ..., dtype: npt.DTypeLike | Any = ..., out: Any = ...,
    return_info: Literal[True],
) -> tuple[Any, DotInfo]: ...  # fmt: skip
def dot(
    x: Any,
    y: Any,
    *,
    block: int | None = None,
    dtype: npt.DTypeLike | Any = None,
    out: Any = None,
    return_info: bool = False,
) -> Any:
    """The dot product of x and y by a plan of binary64 fused multiply-adds and additions, bit for bit.

    Parameters
    ----------
    x, y:
        Arrays of one shape and one dtype: float16, bfloat16, float32 or
        float64; any size, 0 pairs give 0.  Both of NumPy or PyTorch, or both
        on one GPU (as :func:`tcu.sum`).
    block:
        B: threads per block, a multiple of 32 up to 1024; None: 256.
    dtype:
        Format that the result is rounded to.  None: float32 for 16-bit
        inputs, x's own dtype otherwise.
    out:
        A 0-d array of the same library that takes the result; its dtype
        stands in for ``dtype``.
    return_info:
        Also return a :class:`DotInfo`; on a GPU this waits for the result.

    Returns
    -------
    A NumPy scalar, a 0-d tensor, or a 0-d array on the GPU of x and y, without waiting for
    it; with ``return_info``, (result, DotInfo).  Zero is +0, and a NaN is the one with
    all fraction bits set.  Products of float16, bfloat16 and float32 are
    exact; those of float64 round with the addition that takes them in:
    beyond binary64's range they are inf, below 2^-1022 they lose bits.
    :func:`fdot` has no such limits.

    Raises
    ------
    DtypeError, ShapeError, ParameterError:
        Arrays that cannot be multiplied, or not with each other; B out of
        range.
    """
    if is_dask(x) or is_dask(y):
        import tcu.collectives.dask_arrays as dask_arrays

        return dask_arrays.reduce("dot", (x, y), (block, dtype), out=out, return_info=return_info)
    if is_tensor(x) or is_tensor(y):
        import tcu.collectives.torch_operators as operators

        return operators.reduce("dot", (x, y), (block, dtype), out, return_info)
    if lives_on_gpu(x) or lives_on_gpu(y):
        return on_gpu(Request("dot", block=block, dtype=dtype), (x, y), out, return_info)
    total, plan = _dot_on_host(x, y, block)
    return _outcome(total, plan, dtype, out, return_info)


@overload
def norm(
    x: Any, *, block: int | None = ..., dtype: npt.DTypeLike | Any = ..., out: Any = ...,
    return_info: Literal[False] = ...,
) -> Any: ...  # fmt: skip
@overload
def norm(
    x: Any, *, block: int | None = ..., dtype: npt.DTypeLike | Any = ..., out: Any = ...,
    return_info: Literal[True],
) -> tuple[Any, DotInfo]: ...  # fmt: skip
def norm(
    x: Any,
    *,
    block: int | None = None,
    dtype: npt.DTypeLike | Any = None,
    out: Any = None,
    return_info: bool = False,
) -> Any:
    """The Euclidean norm of all elements: the binary64 root of what :func:`dot` adds up for x and x.

    Parameters, results and errors are those of :func:`dot`.  Nothing is
    scaled: the norm of float64 elements is inf where the sum of squares
    exceeds 2^1024 (one element of 2^512 is enough); squares of elements below
    2^-511 lose bits, and below 2^-538 all of them.  :func:`fnorm` has no such
    limits, and the other dtypes do not reach them.
    """
    if is_dask(x):
        import tcu.collectives.dask_arrays as dask_arrays

        return dask_arrays.reduce("norm", (x,), (block, dtype), out=out, return_info=return_info)
    if is_tensor(x):
        import tcu.collectives.torch_operators as operators

        return operators.reduce("norm", (x,), (block, dtype), out, return_info)
    if lives_on_gpu(x):
        return on_gpu(Request("norm", block=block, dtype=dtype), (x, x), out, return_info)
    total, plan = _dot_on_host(x, x, block)
    return _outcome(math.sqrt(total), plan, dtype, out, return_info)


def dot_error_bound(
    x: npt.ArrayLike, y: npt.ArrayLike, *, block: int | None = None, dtype: npt.DTypeLike | None = None
) -> float:
    """A bound on |tcu.dot(x, y, ...) - exact dot product|, with the parameters of :func:`dot`.

    Proved from n, max|x·y| and the sum of |x·y| alone
    (:func:`tcu.plan.plan_error_bound`), so it holds for every order of the
    pairs.  inf where an overflow cannot be excluded; NaN where x or y holds
    inf or NaN.
    """
    pairs = Pairs(x, y)
    plan = make_dot_plan(pairs.n, pairs.format, block)
    target = result_format(pairs.format, dtype)

    def magnitudes(start: int, stop: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        first, second = pairs.read(start, stop)
        return np.abs(first), np.abs(second)

    with np.errstate(all="ignore"):
        exact = tally(pairs.n, lambda start, stop: sum_of_products(*magnitudes(start, stop), pairs.format))
        if exact.nans or exact.positive:
            return math.nan
        top = max((_largest_product(*magnitudes(*piece)) for piece in pieces(pairs.n)), default=0.0)
    mass = _rounded_up(exact.number(PRODUCT_SCALE))
    # |exact dot product| is at most the mass.
    return plan_error_bound(plan, None, mass, top, target, mass)


def _dot_on_host(x: npt.ArrayLike, y: npt.ArrayLike, block: int | None) -> tuple[float, Plan]:
    """What the plan adds up, in binary64, and the plan."""
    pairs = Pairs(x, y)
    plan = make_dot_plan(pairs.n, pairs.format, block)
    return execute(plan, pairs), plan


def _outcome(value: float, plan: Plan, dtype: npt.DTypeLike | None, out: Any, return_info: bool) -> Any:
    target = target_of(get_format(plan.input), dtype, out)
    result = round_sum(value, target)
    bits = int(np.array([result]).view(target.code_dtype)[0])
    result = stored(result, out)
    return (result, DotInfo(plan, plan.levels, bits)) if return_info else result


def on_gpu(request: Request, arrays: tuple[Any, Any], out: Any, return_info: bool) -> Any:
    from tcu.collectives import device

    outcome = device.reduce(request, arrays, out)
    plan = outcome.prepared.plan
    if not return_info or plan is None:
        return outcome.result
    return outcome.result, DotInfo(plan, plan.levels, outcome.bits())


def _largest_product(x: npt.NDArray[Any], y: npt.NDArray[Any]) -> float:
    """At least the largest product of two numbers, none of them negative."""
    return math.nextafter(float((x.astype(np.float64) * y.astype(np.float64)).max()), math.inf)


def _rounded_up(number: Number) -> float:
    """The smallest binary64 number that is not below ``number``."""
    return float(decode(encode(number, "binary64", "RU"), "binary64"))
