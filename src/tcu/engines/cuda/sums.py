"""Reductions of arrays in a GPU's memory: on that GPU, and the same kind of array comes back.

Nothing waits for the GPU: the result is a 0-d array there, on the caller's
current stream.  What a launch needs besides addresses is made once for each
shape of problem and kept.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from tcu.errors import ParameterError
from tcu.formats.format import Format
from tcu.gpu.arrays import DeviceArray, Library, library_of
from tcu.gpu.device import Gpu, call, current, find_gpu, read
from tcu.gpu.launch import Launch
from tcu.gpu.sums import (
    COUNTS,
    EMPTY_BITS,
    LIMB_BITS,
    WORDS_OF,
    Layout,
    Operand,
    check_address,
    contiguous,
    exact_recipe,
    layout_of,
    operand_of,
    sum_recipe,
)
from tcu.gpu.variants import variant_recipe
from tcu.model.elements import summable
from tcu.model.pairs import check_alike
from tcu.ops.exact import Tally
from tcu.ops.request import Request
from tcu.ops.result import result_format
from tcu.plan import OWN_VARIANTS, MmaStep, Plan, make_dot_plan, make_plan
from tcu.units import Unit, find_instruction, get_unit

__all__ = [
    "Keep",
    "Order",
    "Outcome",
    "check_same_mma",
    "check_unit",
    "exact_tally",
    "home_of",
    "reduce",
    "start",
]


def start(
    launch: Launch,
    library: Library,
    like: Any,
    ordinal: int,
    x: int,
    other: int,
    out: int,
    stream: int,
    beside: int = 0,
) -> None:
    """Put a launch on the stream, with room by the side of the array ``like``; one without takes a third array, ``beside``."""
    room = beside
    if launch.room:
        _, room = library.empty(like, (launch.room,), np.dtype(np.int64), ordinal)
    if room:
        launch.start(x, other, out, stream, room)
    else:
        launch.start(x, other, out, stream)


Order = tuple[int, ...] | None
"""Of the dimensions of an array in a copy without gaps; None: there is no copy."""


class Keep(Protocol):
    """Takes a launch that serves whoever asks for the same elsewhere in memory."""

    def __call__(self, launch: Launch, written: Any, order: Order = None, back: Order = None) -> None:
        """``order``: of the copy of x that it reads; ``back``: of the copy of what it has written that is the result."""


@dataclass(frozen=True)
class Prepared:
    """What a problem of one kind needs, besides addresses."""

    launch: Launch
    target: Format
    gpu: Gpu
    unit: Unit
    plan: Plan | None
    """None for exact sums, which need no order."""


@dataclass(frozen=True)
class Outcome:
    """A result in the GPU's memory, and how it came about."""

    result: Any
    prepared: Prepared
    address: int
    stream: int

    def bits(self) -> int:
        """The result's bit pattern; waits for it."""
        with current(self.prepared.gpu):
            call("cuStreamSynchronize", self.stream)
            return int.from_bytes(read(self.address, self.prepared.target.dtype.itemsize), "little")


def reduce(request: Request, arrays: Sequence[Any], out: Any = None) -> Outcome:
    """Put the reduction on the caller's current stream.

    Raises what :func:`tcu.sum` raises, and tcu.gpu.GpuError where the way to
    the GPU is not there.
    """
    library, ordinal = home_of(arrays, out)
    with current(ordinal):
        stream = library.current_stream(ordinal)
        operands, dtype = _operands(library, arrays, stream)
        n = operands[0].n
        place = None if out is None else library.view("out", out, stream)
        element = summable(dtype, "x", "sum")
        target = result_format(element, request.dtype, None if place is None else place.dtype)
        layout = layout_of(operands)
        prepared = prepare(request, target, element, n, ordinal, layout, _strided(operands, layout))
        if place is None:
            result, address = library.empty(arrays[0], (), prepared.target.dtype, ordinal)
        else:
            result, address = out, _checked(place, prepared.target).address
        prepared.launch.start(operands[0].address, operands[-1].address, address, stream)
        if place is None:
            result = library.finish(result, arrays[0], stream)
        return Outcome(result, prepared, address, stream)


def _strided(operands: Sequence[Operand], layout: Layout) -> tuple[Operand, ...]:
    """How operands lie that are not contiguous, without their addresses."""
    return tuple(each._replace(address=0) for each in operands) if layout == "STRIDED" else ()


def exact_tally(arrays: Sequence[Any], product: bool = False) -> tuple[int, Tally]:
    """(n, the exact sum in units of 2^-1074) of an array in a GPU's memory; waits for it.

    With ``product``: of the products of two arrays, or the squares of one, in units of 2^-2148.
    """
    library, ordinal = home_of(arrays)
    with current(ordinal):
        stream = library.current_stream(ordinal)
        words, size = (
            library.empty(arrays[0], (WORDS_OF[product],), np.dtype(np.int64), ordinal),
            8 * WORDS_OF[product],
        )
        state, address = words
        n = add_exactly(library, ordinal, arrays, product, address, stream)
        call("cuStreamSynchronize", stream)
        found = np.frombuffer(read(address, size), np.int64).tolist()
        del state  # it held the memory until here
    integer = sum(word << (LIMB_BITS * i) for i, word in enumerate(found[:-COUNTS]))
    return n, Tally(integer >> EMPTY_BITS, *found[-COUNTS:])


def add_exactly(
    library: Library, ordinal: int, arrays: Sequence[Any], product: bool, address: int, stream: int
) -> int:
    """Put an exact sum on the stream, of which limbs and counts go to an address; returns n."""
    found, dtype = _operands(library, arrays, stream)
    element = summable(dtype, "x", "sum")
    layout = layout_of(found)
    launch = _exact_launch(
        found[0].n, element, layout, ordinal, product, len(arrays), _strided(found, layout)
    )
    launch.start(found[0].address, found[-1].address, address, stream)
    return found[0].n


@lru_cache(maxsize=1024)
def _exact_launch(
    n: int,
    element: Format,
    layout: Layout,
    ordinal: int,
    product: bool,
    count: int,
    operands: tuple[Operand, ...],
) -> Launch:
    gpu = find_gpu(ordinal)
    recipe = exact_recipe(
        n, element, layout, element, gpu, operands=operands, product=product and count == 2, root=product and count == 1,
        state=True,
    )  # fmt: skip
    return Launch(recipe, gpu)


def home_of(arrays: Sequence[Any], out: Any = None, names: str = "xy") -> tuple[Library, int]:
    """The library and the GPU that all arrays belong to; ``names``: theirs."""
    labels = [*names[: len(arrays)]]
    if out is not None:
        arrays, labels = [*arrays, out], [*labels, "out"]
    libraries = [library_of(x) for x in arrays]
    library = libraries[0]
    if library is None or any(other is not library for other in libraries):
        names = ", ".join("NumPy" if one is None else one.name for one in libraries)
        raise ParameterError(f"arrays of {names}: pass arrays of one library, all on one GPU")
    ordinals = [library.ordinal(label, x) for label, x in zip(labels, arrays, strict=True)]
    if len(set(ordinals)) > 1:
        raise ParameterError(f"arrays on GPUs {', '.join(map(str, ordinals))}: move all to one GPU")
    return library, ordinals[0]


def _operands(library: Library, arrays: Sequence[Any], stream: int) -> tuple[list[Operand], np.dtype[Any]]:
    plain = [library.plain(x) for x in arrays]
    if None not in plain:
        for address, _, dtype in plain:  # type: ignore[misc]
            check_address(address, dtype.itemsize)
        found = [contiguous(address, n) for address, n, _ in plain]  # type: ignore[misc]
        dtypes = [dtype for *_, dtype in plain]  # type: ignore[misc]
    else:
        views = [library.view("x", x, stream) for x in arrays]
        found = [operand_of(view) for view in views]
        dtypes = [view.dtype for view in views]
    if len(arrays) == 2:
        check_alike([tuple(x.shape) for x in arrays], dtypes, "with reshape", "with astype")
    return found, dtypes[0]


@lru_cache(maxsize=4096)
def prepare(
    request: Request, target: Format, element: Format, n: int, ordinal: int, layout: Layout,
    operands: tuple[Operand, ...],
) -> Prepared:  # fmt: skip
    """What a problem of that kind needs besides addresses: made once, and kept."""
    gpu = find_gpu(ordinal)
    own = gpu.unit
    operation = request.operation
    divisor = n if operation.mean else 1
    if operation.exact:
        recipe = exact_recipe(
            n, element, layout, target, gpu, operands=operands, product=operation.product, root=operation.root,
            divisor=divisor,
        )  # fmt: skip
        return Prepared(Launch(recipe, gpu), target, gpu, own, None)
    if operation.product:
        plan = make_dot_plan(n, element, request.block)
        recipe = sum_recipe(plan, layout, target, gpu, operands=operands, product=True, root=operation.root)
        return Prepared(Launch(recipe, gpu), target, gpu, own, plan)
    plan = make_plan(
        n, element, own, variant=request.variant, chain=request.chain, block=request.block,
        accumulator=request.accumulator, fraction=request.fraction,
    )  # fmt: skip
    if request.unit is not None:
        check_unit(plan, get_unit(request.unit), own, gpu)
    if request.variant in OWN_VARIANTS:
        recipe = sum_recipe(plan, layout, target, gpu, operands=operands, divisor=divisor)
    else:
        recipe = variant_recipe(plan, (operands or (contiguous(0, n),))[0], layout, target, gpu, divisor)
    return Prepared(Launch(recipe, gpu), target, gpu, own, plan)


def check_unit(plan: Plan, asked: Unit, own: Unit, gpu: Gpu) -> None:
    for step, _ in plan.lengths():
        if isinstance(step, MmaStep):
            check_same_mma(step.operand, step.accumulator, asked, own, gpu)


def check_same_mma(operand: str, accumulator: str, asked: Unit, own: Unit, gpu: Gpu) -> None:
    """Raises ParameterError where the GPU's MMA has other bits than that of the unit that was asked for."""
    formats = ("mma", operand, operand, accumulator)
    mine, other = find_instruction(own, *formats), find_instruction(asked, *formats)
    if (mine.arithmetic, mine.k) != (other.arithmetic, other.k):
        raise ParameterError(
            f"{gpu.name} computes {mine.signature} otherwise than {asked.name}: pass a host array "
            "for the model of that unit, or leave unit out for the bits of this GPU"
        )


def _checked(out: DeviceArray, target: Format) -> DeviceArray:
    """``out``, if it can take the result."""
    if math.prod(out.shape) != 1 or out.dtype != target.dtype:
        raise ParameterError(
            f"out has shape {out.shape} and dtype {out.dtype}: give a 0-d array of {target.dtype} on the GPU"
        )
    return out
