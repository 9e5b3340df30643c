"""``tcu.mean``: a sum by a plan, divided by n."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt

from tcu.collectives import summation
from tcu.collectives.request import Axes, Request
from tcu.collectives.results import round_sum, stored, target_of
from tcu.collectives.summation import SumInfo
from tcu.formats.array import is_dask, lives_on_gpu
from tcu.formats.format import get_format
from tcu.formats.tensor import is_tensor
from tcu.model.execute import Progress
from tcu.plan import DEFAULT_VARIANT
from tcu.units import Unit

__all__ = ["mean"]


@overload
def mean(
    x: Any, axis: Axes = ..., *, keepdims: bool = ..., unit: str | Unit | None = ..., variant: str = ..., chain: int | None = ...,
    block: int | None = ..., accumulator: str | None = ..., fraction: float | None = ...,
    dtype: npt.DTypeLike | Any = ..., out: Any = ..., return_info: Literal[False] = ..., progress: Progress | None = ...,
) -> Any: ...  # fmt: skip
@overload
def mean(
    x: Any, axis: Axes = ..., *, keepdims: bool = ..., unit: str | Unit | None = ..., variant: str = ..., chain: int | None = ...,
    block: int | None = ..., accumulator: str | None = ..., fraction: float | None = ...,
    dtype: npt.DTypeLike | Any = ..., out: Any = ..., return_info: Literal[True], progress: Progress | None = ...,
) -> tuple[Any, SumInfo]: ...  # fmt: skip
def mean(
    x: Any,
    axis: Axes = None,
    *,
    keepdims: bool = False,
    unit: str | Unit | None = None,
    variant: str = DEFAULT_VARIANT,
    chain: int | None = None,
    block: int | None = None,
    accumulator: str | None = None,
    fraction: float | None = None,
    dtype: npt.DTypeLike | Any = None,
    out: Any = None,
    return_info: bool = False,
    progress: Progress | None = None,
) -> Any:
    """The mean of all elements, or along axes: their sum as ``unit`` computes it by a plan, divided by n in binary64.

    Parameters and errors are those of :func:`tcu.sum`, and so is the plan.
    The sum in the plan's result format is not rounded before the division,
    the quotient is rounded once more, to ``dtype``.  The mean of nothing is
    NaN; a sum that overflows within the plan gives inf.
    """
    if axis is not None or keepdims:
        import tcu.collectives.rows as rows

        given = (unit, variant, chain, block, accumulator, fraction, dtype)
        return rows.reduce("mean", x, axis, keepdims, given, out, return_info, progress)
    if is_dask(x):
        import tcu.collectives.dask_arrays as dask_arrays

        return dask_arrays.reduce(
            "mean",
            (x,),
            (unit, variant, chain, block, accumulator, fraction, dtype),
            out=out,
            return_info=return_info,
            progress=progress,
        )
    if is_tensor(x):
        import tcu.collectives.torch_operators as operators

        given = (unit, variant, chain, block, accumulator, fraction, dtype)
        return operators.reduce("mean", (x,), given, out, return_info, progress)
    if lives_on_gpu(x):
        request = Request("mean", unit, variant, chain, block, accumulator, fraction, dtype)
        return summation.sum_on_gpu(request, x, out, return_info, progress)
    options = {
        "unit": unit, "variant": variant, "chain": chain, "block": block,
        "accumulator": accumulator, "fraction": fraction, "progress": progress,
    }  # fmt: skip
    total, info = _sum_on_host(x, options)
    target = target_of(get_format(info.plan.input), dtype, out)
    result = round_sum(total / info.plan.n + 0.0 if info.plan.n else math.nan, target)
    bits = int(np.array([result]).view(target.code_dtype)[0])
    result = stored(result, out)
    return (result, replace(info, bits=bits)) if return_info else result


def _sum_on_host(x: Any, options: dict[str, Any]) -> tuple[float, SumInfo]:
    """The sum in binary64, which holds every plan's result exactly."""
    total, info = summation.sum(x, dtype="float64", return_info=True, **options)
    return float(total), info
