"""``tcu.sum``: a sum as a tensor core would compute it, and how it came about."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt

from tcu.collectives.exact import ExactSum, result_format, round_sum
from tcu.formats.format import format_of
from tcu.model.elements import Elements
from tcu.model.execute import Progress, execute
from tcu.plan import DEFAULT_VARIANT, ModelledTime, Plan, make_plan, modelled_time, plan_error_bound
from tcu.units import DEFAULT_UNIT, Unit, get_unit

__all__ = ["SumInfo", "error_bound", "sum"]


@dataclass(frozen=True)
class SumInfo:
    """How a sum came about."""

    unit: str
    plan: Plan
    mmas: int
    """Warp-level MMA operations in the plan."""
    levels: int
    """Reducing steps one after another."""
    modelled_time: ModelledTime
    """The papers' formulas for this n and R, with m = 16."""
    bits: int
    """The result's bit pattern."""


@overload
def sum(
    x: npt.ArrayLike | Elements, *, unit: str | Unit = ..., variant: str = ..., chain: int | None = ...,
    block: int | None = ..., accumulator: str | None = ..., fraction: float | None = ...,
    dtype: npt.DTypeLike | None = ..., return_info: Literal[False] = ..., progress: Progress | None = ...,
) -> Any: ...  # fmt: skip
@overload
def sum(
    x: npt.ArrayLike | Elements, *, unit: str | Unit = ..., variant: str = ..., chain: int | None = ...,
    block: int | None = ..., accumulator: str | None = ..., fraction: float | None = ...,
    dtype: npt.DTypeLike | None = ..., return_info: Literal[True], progress: Progress | None = ...,
) -> tuple[Any, SumInfo]: ...  # fmt: skip
def sum(
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
    """The sum of all elements as ``unit`` computes it by a plan, bit for bit.

    Parameters
    ----------
    x:
        Array of float16, bfloat16, float32 or float64, any shape and size;
        0 elements give 0.
    unit:
        A name of the catalogue, or a :class:`tcu.Unit` of your own.
    variant:
        "short-chain" (tcu's own: 16-bit numbers by R MMAs from zero in
        binary32, everything outside the unit, and float32 and float64 arrays
        throughout, by binary64 additions); "single-pass", "recurrence", "split" (paper 000, 5.1 to
        5.3), "two-mma" (paper 001, Algorithms 1 and 2), "warp-shuffle" (the
        classic reduction without MMAs).  The papers' variants take float32
        arrays as TF32 and float64 arrays by binary64 MMAs.
    chain:
        R: MMAs in a row on one accumulator; None: the variant's default.
    block:
        B: threads per block, a multiple of 32 up to 1024; None: the default.
    accumulator:
        Format of C and D in the chains: "float32" or "float16" (binary16
        elements only); None: the widest.
    fraction:
        Share of the elements that "split" gives to the tensor cores (0.5).
    dtype:
        Format that the result is rounded to.  None: float32 for 16-bit
        inputs, x's own dtype otherwise.
    return_info:
        Also return a :class:`SumInfo`.
    progress:
        Called with the number of elements just finished.

    Returns
    -------
    A NumPy scalar, or (scalar, SumInfo).  A sum of zero is +0, and a NaN is the one
    with all fraction bits set, as tensor cores return it.

    Raises
    ------
    UnknownNameError, DtypeError, ParameterError:
        No such unit or variant; an array that cannot be summed, or for which
        the unit has no MMA; R, B, accumulator or fraction out of range.
    """
    elements, chosen, plan = prepare(x, unit, variant, chain, block, accumulator, fraction)
    target = result_format(elements.format, dtype)
    result = round_sum(execute(plan, elements, chosen, progress), target)
    if not return_info:
        return result
    bits = int(np.array([result]).view(target.code_dtype)[0])
    time = modelled_time(plan.n, plan.chain or 1)
    return result, SumInfo(chosen.name, plan, plan.mmas, plan.levels, time, bits)


def error_bound(
    x: npt.ArrayLike | Elements,
    *,
    unit: str | Unit = DEFAULT_UNIT,
    variant: str = DEFAULT_VARIANT,
    chain: int | None = None,
    block: int | None = None,
    accumulator: str | None = None,
    fraction: float | None = None,
    dtype: npt.DTypeLike | None = None,
) -> float:
    """A bound on |tcu.sum(x, ...) - exact sum of x|, with the parameters of :func:`sum`.

    Proved from n, max|x| and the sum of |x| alone
    (:func:`tcu.plan.plan_error_bound`), so it holds for every order of the
    elements.  inf where an overflow cannot be excluded; NaN where x holds inf
    or NaN.
    """
    elements, chosen, plan = prepare(x, unit, variant, chain, block, accumulator, fraction)
    target = result_format(elements.format, dtype)
    return bound_for(plan, chosen, elements, target.dtype)


def bound_for(plan: Plan, unit: Unit, elements: Elements, dtype: npt.DTypeLike) -> float:
    """The bound for a plan that is already made."""
    mass, top = ExactSum(), 0.0
    for start in range(0, elements.n, 1 << 22):
        with np.errstate(invalid="ignore"):  # signalling NaN
            piece = np.abs(elements.read(start, min(start + (1 << 22), elements.n)))
            top = max(top, float(piece.max()))
        mass.add(piece)
    if mass.nans or mass.positive_infinities:
        return math.nan
    rounded = float(mass.value())
    total = math.nextafter(rounded, math.inf) if rounded else 0.0
    # |exact sum| is at most the mass.
    return plan_error_bound(plan, unit, total, top, format_of(dtype), total)


def prepare(
    x: npt.ArrayLike | Elements,
    unit: str | Unit,
    variant: str,
    chain: int | None,
    block: int | None,
    accumulator: str | None,
    fraction: float | None,
) -> tuple[Elements, Unit, Plan]:
    elements = x if isinstance(x, Elements) else Elements(x)
    chosen = get_unit(unit)
    plan = make_plan(
        elements.n, elements.format, chosen,
        variant=variant, chain=chain, block=block, accumulator=accumulator, fraction=fraction,
    )  # fmt: skip
    return elements, chosen, plan
