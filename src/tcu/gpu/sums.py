"""Launch the kernels of sums, dot products and exact sums on arrays in a GPU's memory."""

from __future__ import annotations

import ctypes
import math
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Literal

from tcu.errors import ParameterError
from tcu.formats.format import Format, get_format
from tcu.gpu.arrays import DeviceArray
from tcu.gpu.compiler import task_of
from tcu.gpu.device import Gpu
from tcu.gpu.functions import load
from tcu.gpu.launch import MAX_BATCH_DIMENSIONS, KernelLaunch, collapse
from tcu.gpu.structs import Struct, constants, struct
from tcu.gpu.tuning import ExactConfig, SumConfig, exact_config, sum_config
from tcu.gpu.workspace import workspace
from tcu.plan import AddStep, FmaStep, MmaStep, Plan

__all__ = [
    "COUNTS", "ELEMENTS", "EMPTY_BITS", "LIMBS", "LIMB_BITS", "LOAD", "LOWEST_BIT", "TARGETS", "WORDS_OF", "ExactLaunch", "Layout", "Array", "SumLaunch", "Sum",
    "check_address", "compiled", "contiguous", "layout_of", "loop_of", "operand_of",
]  # fmt: skip

ELEMENTS = {"binary16": "BINARY16", "bfloat16": "BFLOAT16", "binary32": "BINARY32", "binary64": "BINARY64"}
TARGETS = {name: number for number, name in enumerate(ELEMENTS)}
LOAD = 16
"""Bytes that a thread loads at once, as in cuda/device/types/element.cuh."""
LIMB_BITS, COUNTS = 16, 3
"""Of an exact sum: bits of a limb, and +inf, -inf and NaN, which are counted behind the limbs."""
LOWEST_BIT, _LOWEST_OF_PRODUCTS = -1090, -2164
"""The exponent of the lowest bit: a limb below the smallest number of binary64, or the smallest product of two."""
LIMBS, _PRODUCT_LIMBS = (
    -(-(highest + 62 - lowest) // LIMB_BITS)
    for highest, lowest in ((1024, LOWEST_BIT), (2048, _LOWEST_OF_PRODUCTS))
)
"""For up to 2^62 of the largest numbers, which do not reach 2^1024, or of the largest products."""
WORDS_OF = {False: LIMBS + COUNTS, True: _PRODUCT_LIMBS + COUNTS}
"""Of an exact sum's state, by whether it is one of products."""
EMPTY_BITS = -1074 - LOWEST_BIT
"""At the low end of every state, of sums and of products alike."""
_COPIES = 16
"""Of an exact sum, so that fewer blocks add to the same words."""
LIMBS_OF_TERMS = constants(
    LIMB=LIMB_BITS, COUNTS=COUNTS, COPIES=_COPIES, VALUE_LOWEST=LOWEST_BIT, VALUE_LIMBS=LIMBS,
    PRODUCT_LOWEST=_LOWEST_OF_PRODUCTS, PRODUCT_LIMBS=_PRODUCT_LIMBS,
)  # fmt: skip


Layout = Literal["ALIGNED", "SHIFTED", "STRIDED"]
"""As in cuda/device/load/array.cuh."""


@struct()
class Array(Struct):
    cuda = """
    const void* data;
    i64 n;
    i64 dimensions;
    i64 extents[MAX_BATCH_DIMENSIONS];  // outermost first
    i64 strides[MAX_BATCH_DIMENSIONS];  // in elements
    """


@struct()
class Sum(Struct):
    cuda = """
    load::Array x, y;  // y is used with TERM PRODUCT only
    u64* slots;        // one for each chunk, all MISSING
    void* out;
    double divisor;
    i64 loads;  // of a thread in a chunk, counted in chains of CHAIN loads
    i64 chunks;
    i64 row_stride;  // with ROWS: from row to row, in elements
    i64 root;        // whether the square root is asked for
    i64 target;
    """


@struct()
class ExactSum(Struct):
    cuda = """
    load::Array x;
    i64* limbs;  // COPIES × WORDS, all zero
    u32* arrived; // zero
    void* out;    // the rounded sum
    i64* state;   // WORDS, or null
    i64 loads;    // of a thread in a chunk, a multiple of UNROLL, at most MAX_LOADS
    i64 chunks;
    i64 target;
    i64 divisor;    // divides the sum before it is rounded; 0 gives NaN; must be 1 unless TERM is VALUE
    load::Array y;  // used with TERM PRODUCT only
    """


class SumLaunch:
    """A sum of one array, or a dot product of two, by a plan: everything but the addresses.

    The result is divided by ``divisor``, its root is taken if asked for, and
    it is rounded to ``target``.
    """

    def __init__(
        self, plan: Plan, layout: Layout, target: Format, gpu: Gpu, config: SumConfig | None = None,
        *, product: bool = False, divisor: float = 1.0, root: bool = False,
    ) -> None:  # fmt: skip
        loads, chain = loop_of(plan)
        per_load = LOAD // get_format(plan.input).dtype.itemsize
        self._chunks = -(-plan.n // (loads * chain * plan.block * per_load))
        config = config or sum_config(gpu.compute_capability, plan, self._chunks)
        self._gpu = gpu
        function = compiled(
            "sum.cu", "sum", gpu.compute_capability, ELEMENTS[plan.input], layout,
            (("THREADS", plan.block), ("CHAIN", chain), ("UNROLL", config.unroll),
             ("RESIDENT", config.resident), ("TERM", "PRODUCT" if product else "VALUE")),
        )  # fmt: skip
        whole = contiguous(0, plan.n)
        self._problem = Sum(whole, whole, 0, 0, divisor, loads, self._chunks, 0, root, TARGETS[target.name])
        self._x, self._y = self._problem.x, self._problem.y  # views, which write into the problem
        self._kernel = KernelLaunch(function, max(self._chunks, 1), plan.block, self._problem)
        self._slots_of_default = 0
        self._lock = threading.Lock()

    def __call__(self, operands: Sequence[Array], out: int, stream: int) -> None:
        """Put it on the stream; ``out`` is the address of the result."""
        slots = self._slots(stream)
        problem = self._problem
        with self._lock:  # the driver copies the parameters before the launch returns
            problem.x = operands[0]
            problem.y = operands[-1]
            problem.slots, problem.out = slots, out
            self._kernel(stream)

    def at(self, x: int, y: int, out: int, stream: int) -> None:
        """The same for contiguous operands at these addresses, in less time; not for layout STRIDED.

        x stands for y too where there is one operand.
        """
        slots = self._slots(stream) if stream else self._slots_of_default or self._slots(0)
        problem = self._problem
        with self._lock:
            self._x.data, self._y.data = x, y
            problem.slots, problem.out = slots, out
            self._kernel(stream)

    def _slots(self, stream: int) -> int:
        slots = workspace("sum", self._gpu.ordinal, stream, self._chunks, 0).slots_address
        if stream == 0:
            self._slots_of_default = slots  # which is never captured, and no piece is ever freed
        return slots


class ExactLaunch:
    """An exact sum: divided by ``divisor`` and rounded once to ``target``, its limbs and counts, or both.

    Of one array's numbers; with ``product`` of the products of two arrays;
    with ``root`` of one array's squares, and the root of it is rounded.
    """

    def __init__(
        self, n: int, element: Format, layout: Layout, target: Format, gpu: Gpu,
        config: ExactConfig | None = None, *, product: bool = False, divisor: int = 1, root: bool = False,
    ) -> None:  # fmt: skip
        term = "SQUARE" if root else "PRODUCT" if product else "VALUE"
        config = config or exact_config(gpu.compute_capability, element, n, term != "VALUE")
        function = compiled(
            "exact.cu", "exact_sum", gpu.compute_capability, ELEMENTS[element.name], layout,
            (("THREADS", config.threads), ("UNROLL", config.unroll), ("RESIDENT", config.resident), ("TERM", term)),
        )  # fmt: skip
        step = config.threads * (LOAD // element.dtype.itemsize)
        # Small arrays need many blocks more than long chunks.
        loads = config.loads
        while loads > max(config.unroll, 8) and n < 1024 * loads * step:
            loads //= 2
        chunks = -(-n // (loads * step))
        self._gpu = gpu
        self._words = _COPIES * ((LIMBS if term == "VALUE" else _PRODUCT_LIMBS) + COUNTS)
        whole = contiguous(0, n)
        self._problem = ExactSum(whole, 0, 0, 0, 0, loads, chunks, TARGETS[target.name], divisor, whole)
        self._x, self._y = self._problem.x, self._problem.y  # views, which write into the problem
        self._kernel = KernelLaunch(function, max(chunks, 1), config.threads, self._problem)
        self._lock = threading.Lock()

    def __call__(self, operands: Sequence[Array], out: int, state: int, stream: int) -> None:
        """Put it on the stream: the rounded sum to address ``out``, limbs and counts to ``state``; 0 for neither."""
        self._start((operands[0], operands[-1]), out, state, stream)

    def at(self, x: int, y: int, out: int, stream: int) -> None:
        """The rounded sum of contiguous operands at these addresses, as :meth:`SumLaunch.at`."""
        self._start((x, y), out, 0, stream)

    def _start(
        self, operands: tuple[Array, Array] | tuple[int, int], out: int, state: int, stream: int
    ) -> None:
        words = self._words
        space = workspace("exact", self._gpu.ordinal, stream, 0, words + 1).words_address
        problem = self._problem
        x, y = operands
        with self._lock:
            if isinstance(x, int):
                self._x.data, self._y.data = x, y
            else:
                problem.x, problem.y = x, y
            problem.limbs, problem.arrived = space, space + 8 * words
            problem.out, problem.state = out, state
            self._kernel(stream)


def loop_of(plan: Plan) -> tuple[int, int]:
    """(loads of a thread in a chunk, links of a chain)."""
    if not plan.parts:
        return 8, 1
    first, second = plan.parts[0].steps[:2]
    if isinstance(first, MmaStep):
        assert isinstance(second, AddStep)
        return int(second.length or 1), first.chain
    assert isinstance(first, (AddStep, FmaStep))
    return int(first.length or 1), 1


def contiguous(address: int, n: int) -> Array:
    """n elements one after another."""
    whole = ctypes.c_int64 * MAX_BATCH_DIMENSIONS
    return Array(address, n, 1, whole(n), whole(1))


def layout_of(operands: Sequence[Array]) -> Layout:
    """The layout that serves all of them."""
    if any(x.dimensions > 1 or x.strides[0] != 1 for x in operands):
        return "STRIDED"
    return "SHIFTED" if any(x.data % LOAD for x in operands) else "ALIGNED"


def check_address(address: int, size: int) -> None:
    """Raises ParameterError where elements of that size do not lie at multiples of it."""
    if address % size:
        raise ParameterError(
            f"the array lies at address {address:#x}, which is no multiple of its {size} bytes an element: "
            "copy it first"
        )


def operand_of(x: DeviceArray) -> Array:
    """The array as kernels take it, in as few dimensions as its strides allow."""
    check_address(x.address, x.dtype.itemsize)
    n = math.prod(x.shape)
    extents, (strides,) = collapse(x.shape, [x.strides]) if n > 1 else ((), [()])
    if len(extents) == 0:
        return contiguous(x.address, n)
    whole = ctypes.c_int64 * MAX_BATCH_DIMENSIONS
    return Array(x.address, n, len(extents), whole(*extents), whole(*strides))


@cache
def compiled(
    source: str, entry: str, capability: tuple[int, int], element: str, layout: str,
    macros: tuple[tuple[str, Any], ...],
) -> Any:  # fmt: skip
    given: Mapping[str, Any] = {"ELEMENT": element, "LAYOUT": layout, **dict(macros)}
    return load(task_of(source, given, "sm_{}{}".format(*capability)), entry)
