"""Fourier transforms of arrays in a GPU's memory: their plans, executed there."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from tcu.gpu.arrays import DeviceArray, Library, joined, library_of
from tcu.gpu.device import Gpu, current, find_gpu
from tcu.gpu.errors import GpuError
from tcu.gpu.fft import MOST_ROWS, Chirp, FftLaunch, FftLines, SourceKind, transform_recipe
from tcu.gpu.tables import DeviceTable
from tcu.model.fft import convolution_kernel
from tcu.ops.fft import FftCall, Kind, complex_dtype, plan_of, real_format, result_shape
from tcu.plan.fft import FftPlan

__all__ = ["fft"]


class _Problem(NamedTuple):
    """All that a launch depends on."""

    plan: FftPlan
    kind: Kind
    source: FftLines
    target: FftLines
    factor: float


def fft(call: FftCall) -> Any:
    """The transforms along an axis, as complex numbers, pairs or real ones.  Raises DtypeError, ParameterError."""
    library = library_of(call.x)
    assert library is not None
    ordinal = library.ordinal("x", call.x)
    with current(find_gpu(ordinal)):
        stream = library.current_stream(ordinal)
        view = library.view("x", call.x, stream)
        plan = plan_of(call, real_format(view.dtype))
        axes = len(view.shape) - call.pairs
        if call.axis != axes - 1 and not _along_any_axis(call, plan):
            order = (*(i for i in range(axes) if i != call.axis), call.axis)
            x = library.ordered(call.x, (*order, axes) if call.pairs else order)
            call, view = call._replace(x=x, axis=axes - 1), library.view("x", x, stream)
            result = _run(call, view, library, plan, stream)
            back = tuple(order.index(i) for i in range(axes))
            result = library.ordered(result, (*back, axes) if call.in_pairs else back)
        else:
            result = _run(call, view, library, plan, stream)
        return library.finish(result, call.x, stream)


def _along_any_axis(call: FftCall, plan: FftPlan) -> bool:
    """Whether kernels find the numbers of a transform, and leave its results, wherever these lie."""
    return call.kind in ("forward", "inverse") and len(plan.passes) == 1


def _run(call: FftCall, view: DeviceArray, library: Library, plan: FftPlan, stream: int) -> Any:
    """Into new memory without gaps."""
    x, ordinal = call.x, view.ordinal
    sides = _sides(view, call, plan)
    if sides is None:
        x = library.ordered(x, tuple(range(len(view.shape))))
        view = library.view("x", x, stream)
        sides = _sides(view, call, plan)
        assert sides is not None
    real = real_format(view.dtype)
    made = result_shape(call, view.shape[:-1] if call.pairs else view.shape)
    if call.kind == "to_real":
        result, address = library.empty(x, made, real.dtype, ordinal)
    elif call.in_pairs:
        result, address = library.empty(x, (*made, 2), real.dtype, ordinal)
    else:
        result, address = library.empty(x, made, complex_dtype(real), ordinal)
    if math.prod(made):
        if sides[0].rows > MOST_ROWS:
            raise GpuError(
                f"x holds {sides[0].rows:,} transforms, of which a launch takes at most 2^31: cut it, each has the same bits alone"
            )
        launch = _launch(_Problem(plan, call.kind, *sides, call.factor), ordinal)
        room = library.empty(x, (launch.room,), np.dtype(np.int64), ordinal) if launch.room else (None, 0)
        launch.start(view.address, 0, address, stream, room[1])
    return result


def _sides(view: DeviceArray, call: FftCall, plan: FftPlan) -> tuple[FftLines, FftLines] | None:
    """Where numbers lie, and results, these without gaps; None where kernels cannot take numbers so."""
    size, shape, axis = view.dtype.itemsize, view.shape, call.axis
    # The stride of a dimension of extent 1 says nothing.
    strides = tuple(s if extent > 1 else 0 for extent, s in zip(shape, view.strides, strict=True))
    kind: SourceKind = "PAIRS" if call.pairs or view.dtype.kind == "c" else "REALS"
    if call.pairs:
        if strides[-1] != 1 or any(s % 2 for s in strides[:-1]):
            return None
        shape, strides, size = shape[:-1], tuple(s // 2 for s in strides[:-1]), 2 * size
    made = result_shape(call, shape)
    gapless = tuple(math.prod(made[i + 1 :]) for i in range(len(made)))
    others = [i for i in range(len(shape)) if i != axis]
    extents, (begins, ends) = joined(
        tuple(shape[i] for i in others), [tuple(each[i] for i in others) for each in (strides, gapless)]
    )
    number, count, numbers = strides[axis], min(shape[axis], call.taken), made[axis]
    target_kind: SourceKind = "PAIRS"
    halved = call.n % 2 == 0  # real numbers are transformed as half as many complex ones
    if call.kind == "from_real" and halved:
        kind, target_kind = "NEIGHBOURS", "HALVES"
        even = count % 2 == 0 and number in (0, 1) and not any(s % 2 for s in begins)
        if even and view.address % (2 * size) == 0:
            kind, begins, number, count = "PAIRS", tuple(s // 2 for s in begins), 1, count // 2
    elif call.kind == "to_real" and halved:
        kind, ends, numbers = "HALVES", tuple(s // 2 for s in ends), numbers // 2
    elif call.kind == "to_real":
        kind, target_kind = "HERMITIAN", "REALS"
    alone = len(plan.passes) == 1
    if view.address % size or len(extents) > (3 if alone else 2):
        return None
    name = real_format(view.dtype).name
    return (
        FftLines(name, kind, extents, begins, number, count, view.address % (2 * size) == 0),
        FftLines(name, target_kind, extents, ends, gapless[axis], numbers),
    )


@lru_cache(maxsize=256)
def _launch(problem: _Problem, ordinal: int) -> FftLaunch:
    plan, kind, source, target, factor = problem
    gpu = find_gpu(ordinal)
    chirp = None if plan.chirp is None else _chirp(plan.length, plan.chirp.length, plan.work, gpu)
    inverse = kind in ("inverse", "to_real")
    return FftLaunch(*transform_recipe(plan, source, target, factor, inverse, chirp, gpu), gpu)


@lru_cache(maxsize=16)
def _chirp(n: int, length: int, work: str, gpu: Gpu) -> Chirp:
    kernel = convolution_kernel(n, length, work)
    return DeviceTable(kernel.chirp, gpu), DeviceTable(kernel.transformed, gpu)
