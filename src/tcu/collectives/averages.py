"""``tcu.mean``: a sum by a plan, divided by n."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt

from tcu.collectives import summation
from tcu.collectives.exact import result_format, round_sum
from tcu.collectives.summation import SumInfo
from tcu.formats.format import get_format
from tcu.model.elements import Elements
from tcu.model.execute import Progress
from tcu.plan import DEFAULT_VARIANT
from tcu.units import DEFAULT_UNIT, Unit

__all__ = ["mean"]


@overload
def mean(
    x: npt.ArrayLike | Elements, *, unit: str | Unit = ..., variant: str = ..., chain: int | None = ...,
    block: int | None = ..., accumulator: str | None = ..., fraction: float | None = ...,
    dtype: npt.DTypeLike | None = ..., return_info: Literal[False] = ..., progress: Progress | None = ...,
) -> Any: ...  # fmt: skip
@overload
def mean(
    x: npt.ArrayLike | Elements, *, unit: str | Unit = ..., variant: str = ..., chain: int | None = ...,
    block: int | None = ..., accumulator: str | None = ..., fraction: float | None = ...,
    dtype: npt.DTypeLike | None = ..., return_info: Literal[True], progress: Progress | None = ...,
) -> tuple[Any, SumInfo]: ...  # fmt: skip
def mean(
    x: npt.ArrayLike | Elements,
    *,
    unit: str | Unit = DEFAULT_UNIT,
    variant: str = DEFAULT_VARIANT,
    chain: int | None = None,
    block: int | None = None,
    accumulator: str | None = None,
    fraction: float | None = None,
    dtype: npt.DTypeLike | None = None,
    return_info: bool = False,
    progress: Progress | None = None,
) -> Any:
    """The mean of all elements: their sum as ``unit`` computes it by a plan, divided by n in binary64.

    Parameters and errors are those of :func:`tcu.sum`, and so is the plan.
    The sum in the plan's result format is not rounded before the division,
    the quotient is rounded once more, to ``dtype``.  The mean of nothing is
    NaN; a sum that overflows within the plan gives inf.
    """
    options = {
        "unit": unit, "variant": variant, "chain": chain, "block": block,
        "accumulator": accumulator, "fraction": fraction, "progress": progress,
    }  # fmt: skip
    total, info = _sum_on_host(x, options)
    target = result_format(get_format(info.plan.input), dtype)
    result = round_sum(total / info.plan.n if info.plan.n else math.nan, target)
    if not return_info:
        return result
    return result, replace(info, bits=int(np.array([result]).view(target.code_dtype)[0]))


def _sum_on_host(x: npt.ArrayLike | Elements, options: dict[str, Any]) -> tuple[float, SumInfo]:
    """The sum in binary64, which holds every plan's result exactly."""
    total, info = summation.sum(x, dtype="float64", return_info=True, **options)
    return float(total), info
