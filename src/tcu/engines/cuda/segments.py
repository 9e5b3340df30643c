"""Sums of ragged segments of arrays in a GPU's memory, and the same kind of array comes back.

An array with gaps between its elements is first copied without them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from tcu.engines.cuda.offsets import device_offsets
from tcu.engines.cuda.rows import checked_address
from tcu.engines.cuda.sums import Keep, check_unit, home_of, start
from tcu.errors import ParameterError
from tcu.formats.format import Format
from tcu.gpu.device import current, find_gpu
from tcu.gpu.exact_segments import exact_segments_recipe
from tcu.gpu.launch import Launch
from tcu.gpu.moments import moments_recipe
from tcu.gpu.segments import segments_recipe
from tcu.gpu.sums import check_address
from tcu.model.elements import summable
from tcu.ops.request import Request
from tcu.ops.result import result_format
from tcu.plan import OWN_VARIANTS, make_dot_plan, make_plan
from tcu.units import get_unit

__all__ = ["reduce"]


def reduce(request: Request, x: Any, offsets: Any, out: Any, check: bool, keep: Keep | None = None) -> Any:
    """The sums or means of the segments of one line.  Raises what :func:`tcu.segment_sum` raises."""
    if request.variant not in OWN_VARIANTS:
        raise ParameterError(
            f"variant={request.variant!r} with segments on a GPU: leave variant out, or pass host arrays"
        )
    library, ordinal = home_of((x,), out)
    with current(ordinal):
        stream = library.current_stream(ordinal)
        view = library.view("x", x, stream)
        element = summable(view.dtype, "x", "sum")
        n = view.shape[0]
        order = (0,) if n > 1 and view.strides != (1,) else None
        if order is not None:
            view = library.view("x", library.ordered(x, order), stream)
        check_address(view.address, element.dtype.itemsize)
        edges = device_offsets(library, x, offsets, n, ordinal, stream, check)
        shape = (edges.shape[0] - 1,)
        place = None if out is None else library.view("out", out, stream)
        target = result_format(element, request.dtype, None if place is None else place.dtype)
        launch = _launch(request, target, element, n, shape[0], ordinal)
        if place is None:
            result, address = library.empty(x, shape, target.dtype, ordinal)
        else:
            result, address = out, checked_address(place, shape, target.dtype)
        if shape[0]:
            start(launch, library, x, ordinal, view.address, edges.address, address, stream)
            if keep is not None:
                keep(launch, result, order)
        return result if place is not None else library.finish(result, x, stream)


@lru_cache(maxsize=1024)
def _launch(request: Request, target: Format, element: Format, n: int, segments: int, ordinal: int) -> Launch:
    """What segments like these need besides addresses."""
    gpu = find_gpu(ordinal)
    mean = request.operation.mean
    if request.operation.exact:
        return Launch(exact_segments_recipe(n, segments, element, target, gpu, mean=mean), gpu)
    if request.operation.term != "value":
        moments = moments_recipe(
            make_dot_plan(n, element, request.block), segments, target, gpu, correction=request.correction,
            root=request.operation.root, term=request.operation.term,
        )  # fmt: skip
        return Launch(moments, gpu)
    plan = make_plan(
        n, element, gpu.unit, variant=request.variant, chain=request.chain, block=request.block,
        accumulator=request.accumulator, fraction=request.fraction,
    )  # fmt: skip
    if request.unit is not None:
        check_unit(plan, get_unit(request.unit), gpu.unit, gpu)
    chain = plan.chain or 1
    recipe = segments_recipe(
        n,
        segments,
        element,
        target,
        gpu,
        chain=chain,
        block=plan.block,
        mean=mean,
        mmas=plan.chain is not None,
    )
    return Launch(recipe, gpu)
