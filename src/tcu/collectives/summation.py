"""``tcu.sum``: a sum as a tensor core would compute it, and how it came about."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt

from tcu.collectives.exact import ExactSum
from tcu.collectives.request import Axes, Request
from tcu.collectives.results import result_format, round_sum, stored, target_of
from tcu.formats.array import is_dask, lives_on_gpu
from tcu.formats.format import Format, format_of
from tcu.formats.tensor import is_tensor
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
    """With an axis, the plan of every single row, to which ``levels`` and ``modelled_time`` belong."""
    mmas: int
    """Warp-level MMA operations of all rows."""
    levels: int
    """Reducing steps one after another."""
    modelled_time: ModelledTime
    """The papers' formulas for this n and R, with m = 16."""
    bits: int | None
    """The result's bit pattern; with an axis, None on a GPU and where there is more than one number."""
    rows: int = 1
    """How many sums there are, each by ``plan``."""


@overload
def sum(
    x: Any, axis: Axes = ..., *, keepdims: bool = ..., unit: str | Unit | None = ..., variant: str = ..., chain: int | None = ...,
    block: int | None = ..., accumulator: str | None = ..., fraction: float | None = ...,
    dtype: npt.DTypeLike | Any = ..., out: Any = ..., return_info: Literal[False] = ..., progress: Progress | None = ...,
) -> Any: ...  # fmt: skip
@overload
def sum(
    x: Any, axis: Axes = ..., *, keepdims: bool = ..., unit: str | Unit | None = ..., variant: str = ..., chain: int | None = ...,
    block: int | None = ..., accumulator: str | None = ..., fraction: float | None = ...,
    dtype: npt.DTypeLike | Any = ..., out: Any = ..., return_info: Literal[True], progress: Progress | None = ...,
) -> tuple[Any, SumInfo]: ...  # fmt: skip
def sum(
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
    """The sum of all elements as ``unit`` computes it by a plan, bit for bit.

    Parameters
    ----------
    x:
        Array of float16, bfloat16, float32 or float64, any shape, strides and
        size, in C order; 0 elements give 0.  Of NumPy or PyTorch, or on a
        GPU: PyTorch, CuPy, JAX, Numba, anything with ``__dlpack__`` or
        ``__cuda_array_interface__``.  The array's home decides who executes
        the plan: the model on the CPU, or that GPU; for a unit of the GPU's
        kind the bits are the same.  Gradients flow through PyTorch's tensors.
    axis:
        The axis or axes to sum along, as in numpy.sum; None: all of them.
        Each element of the result has the bits of this function for its row
        alone: ``tcu.sum(x, axis=-1)[i] == tcu.sum(x[i])``, the elements of
        several axes in C order.
    keepdims:
        Leave the axes that were summed in the result, with length 1.
    unit:
        A name of the catalogue, or a :class:`tcu.Unit` of your own.  None:
        "H100" on the model; on a GPU, that GPU.
    variant:
        "short-chain" (tcu's own: 16-bit numbers by R MMAs from zero in
        binary32, everything outside the unit, and float32 and float64 arrays
        throughout, by binary64 additions); "single-pass", "recurrence", "split" (paper 000, 5.1 to
        5.3), "two-mma" (paper 001, Algorithms 1 and 2), "warp-shuffle" (the
        classic reduction without MMAs).  These take float32 arrays as TF32 and
        float64 arrays by binary64 MMAs.  For float16 and bfloat16 alone:
        "reduction-16", "reduction-256", "reduction-256n" and
        "reduction-256n-work-inefficient" (paper 002), and "paper-002", the
        one of them that a table shipped with tcu names for the row's length,
        on every unit and machine.  The last three of them are the same MMAs
        up to 256 numbers and differ beyond; reduction-16 always differs, and
        never rounds partial sums to 16 bits.
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
        Format that the result is rounded to, as a dtype of NumPy or PyTorch.
        None: float32 for 16-bit inputs, x's own dtype otherwise.
    out:
        An array of the same library and of the result's shape that takes the
        result; its dtype stands in for ``dtype``.
    return_info:
        Also return a :class:`SumInfo`; on a GPU this waits for the result.
    progress:
        Called with the number of elements just finished.

    Returns
    -------
    A NumPy scalar, a 0-d tensor, or a 0-d array of x's library on the same GPU, which is
    computed on the library's current stream without waiting for it; an array
    of them where axes are left; ``out`` where it is given.  With ``return_info``, (result, SumInfo).  A sum of zero
    is +0, and a NaN is the one with all fraction bits set, as tensor cores
    return it.

    Raises
    ------
    UnknownNameError, DtypeError, ParameterError:
        No such unit or variant; an array that cannot be summed, or for which
        the unit has no MMA; R, B, accumulator or fraction out of range; a
        unit whose bits the GPU at hand does not give; an axis that x does not
        have, or twice; an unfit ``out``.
    ShapeError:
        x is on a GPU, summed whole, and has more than eight dimensions of
        which none continues its neighbour in memory.
    tcu.gpu.GpuError:
        x is on a GPU and the way to it is not there.
    """
    if axis is not None or keepdims:
        import tcu.collectives.rows as rows

        options = (unit, variant, chain, block, accumulator, fraction, dtype)
        return rows.reduce("sum", x, axis, keepdims, options, out, return_info, progress)
    if is_dask(x):
        import tcu.collectives.dask_arrays as dask_arrays

        return dask_arrays.reduce(
            "sum",
            (x,),
            (unit, variant, chain, block, accumulator, fraction, dtype),
            out=out,
            return_info=return_info,
            progress=progress,
        )
    if is_tensor(x):
        import tcu.collectives.torch_operators as operators

        options = (unit, variant, chain, block, accumulator, fraction, dtype)
        return operators.reduce("sum", (x,), options, out, return_info, progress)
    if lives_on_gpu(x):
        request = Request("sum", unit, variant, chain, block, accumulator, fraction, dtype)
        return sum_on_gpu(request, x, out, return_info, progress)
    elements, chosen, plan = prepare(x, unit, variant, chain, block, accumulator, fraction)
    target = target_of(elements.format, dtype, out)
    result = round_sum(execute(plan, elements, chosen, progress), target)
    bits = int(np.array([result]).view(target.code_dtype)[0])
    result = stored(result, out)
    return (result, sum_info(chosen, plan, bits)) if return_info else result


def sum_on_gpu(request: Request, x: Any, out: Any, return_info: bool, progress: Progress | None) -> Any:
    """A sum or a mean by a plan, of an array in a GPU's memory."""
    from tcu.collectives import device

    outcome = device.reduce(request, (x,), out)
    plan = outcome.prepared.plan
    if progress is not None and plan is not None:
        progress(plan.n)
    if not return_info or plan is None:
        return outcome.result
    return outcome.result, sum_info(outcome.prepared.unit, plan, outcome.bits())


def sum_info(unit: Unit, plan: Plan, bits: int | None, rows: int = 1) -> SumInfo:
    time = modelled_time(plan.n, plan.chain or 1)
    return SumInfo(unit.name, plan, plan.mmas_of(rows), plan.levels, time, bits, rows)


def error_bound(
    x: Any,
    *,
    unit: str | Unit | None = None,
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
    return bound_of(plan, unit, mass, top, dtype)


def bound_of(plan: Plan, unit: Unit, mass: ExactSum, top: float, dtype: npt.DTypeLike) -> float:
    """The bound from the exact sum of all |x| and the largest of them."""
    if mass.nans or mass.positive_infinities:
        return math.nan
    rounded = float(mass.value())
    total = math.nextafter(rounded, math.inf) if rounded else 0.0
    # |exact sum| is at most the mass.
    return plan_error_bound(plan, unit, total, top, format_of(dtype), total)


def prepare(x: Any, unit: str | Unit | None, *options: Any) -> tuple[Elements, Unit, Plan]:
    """The array's elements, the unit and the plan; ``options``: variant, chain, block, accumulator, fraction."""
    elements = x if isinstance(x, Elements) else Elements(x)
    return elements, *prepare_plan(elements.n, elements.format, unit, *options)


def prepare_plan(
    n: int,
    fmt: Format,
    unit: str | Unit | None,
    variant: str,
    chain: int | None,
    block: int | None,
    accumulator: str | None,
    fraction: float | None,
) -> tuple[Unit, Plan]:
    chosen = get_unit(DEFAULT_UNIT if unit is None else unit)
    plan = make_plan(
        n, fmt, chosen,
        variant=variant, chain=chain, block=block, accumulator=accumulator, fraction=fraction,
    )  # fmt: skip
    return chosen, plan
