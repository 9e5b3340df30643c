"""From a call to its result, for arrays in a GPU's memory."""

from __future__ import annotations

import math
import sys
from typing import Any

from tcu.engines import library_integers
from tcu.engines.cuda import row_functions, rows, scans, segments, sums
from tcu.engines.cuda.sums import Keep
from tcu.engines.host.integers import wide_dtype
from tcu.errors import ParameterError
from tcu.formats.array import holds_integers
from tcu.gpu.device import find_gpu
from tcu.ops.info import DotInfo, sum_info
from tcu.ops.layout import Along, Ragged, Whole, check_line, reduced_axes, row_axis, scan_axis
from tcu.ops.operation import Call
from tcu.ops.request import Request, ScanRequest

__all__ = ["execute"]


def execute(call: Call, keep: Keep | None = None) -> tuple[Any, Any]:
    """(the result, how it came about or None), put on the library's current stream.

    Of whole arrays and rows "how it came about" is made if ``call.return_info``
    asks for it; of whole arrays that waits for the result.  ``keep`` takes the
    launch.  Raises what the operation's function raises, and tcu.gpu.GpuError
    where the way to the GPU is not there.
    """
    operation, layout = call.operation, call.layout
    operation.check_layout(layout)
    if type(layout) not in operation.on_gpu:
        name = f"segment_{operation}" if isinstance(layout, Ragged) else str(operation)
        if isinstance(layout, Along) and operation.on_gpu:
            name += " along axes"
        raise ParameterError(
            f"{name} has no kernel for GPUs: pass an array in the host's memory, such as numpy.asarray(x)"
        )
    cupy = sys.modules.get("cupy")
    if (
        cupy is not None
        and operation.of_integers
        and isinstance(call.arrays[0], cupy.ndarray)
        and holds_integers(call.arrays[0])
    ):
        result, info = library_integers.execute(call, cupy, wide_dtype(call.arrays[0].dtype)), None
    else:
        how = {"scan": _scan, "map": _map, "reduce": _reduce}[operation.kind]
        result, info = how(call, keep)
    if call.progress is not None:
        call.progress(math.prod(call.arrays[0].shape))
    return result, info


def _scan(call: Call, keep: Keep | None) -> tuple[Any, Any]:
    (x,) = call.arrays
    request = ScanRequest(*call.options)
    if isinstance(call.layout, Ragged):
        check_line(tuple(x.shape))
        offsets, check = call.layout
        return scans.segment_cumsum(x, offsets, request, call.out, check, keep), None
    return scans.cumsum(x, scan_axis(call.layout, len(x.shape)), request, call.out, keep)


def _map(call: Call, keep: Keep | None) -> tuple[Any, Any]:
    (x,) = call.arrays
    axis = row_axis(call.layout, len(x.shape))
    return row_functions.of_rows(call, x, axis, keep), None


def _reduce(call: Call, keep: Keep | None) -> tuple[Any, Any]:
    x = call.arrays[0]
    request = Request.of(call.operation, call.options)
    if isinstance(call.layout, Ragged):
        check_line(tuple(x.shape))
        offsets, check = call.layout
        return segments.reduce(request, x, offsets, call.out, check, keep), None
    if isinstance(call.layout, Whole) and not call.operation.moments and call.operation.in_parts:
        return _whole(request, call, keep)
    axis, keepdims = (None, False) if isinstance(call.layout, Whole) else call.layout
    axes = reduced_axes(axis, len(x.shape))
    result, plan = rows.reduce(request, call.arrays, axes, keepdims, call.out, keep)
    if not call.return_info or plan is None:
        return result, None
    if call.operation.product:
        return result, DotInfo(plan, plan.levels, None)
    count = math.prod(length for i, length in enumerate(x.shape) if i not in axes)
    unit = find_gpu(sums.home_of((x,))[1]).unit
    return result, sum_info(unit, plan, None, count)


def _whole(request: Request, call: Call, keep: Keep | None) -> tuple[Any, Any]:
    arrays = call.arrays
    if request.operation.product and not request.operation.exact:
        arrays = (arrays[0], arrays[-1])  # a plan's kernel takes two, also for squares
    outcome = sums.reduce(request, arrays, call.out)
    if keep is not None:
        keep(outcome.prepared.launch, outcome.result)
    plan = outcome.prepared.plan
    if not call.return_info or plan is None:
        return outcome.result, None
    if request.operation.product:
        return outcome.result, DotInfo(plan, plan.levels, outcome.bits())
    return outcome.result, sum_info(outcome.prepared.unit, plan, outcome.bits())
