"""The kernels of sums, dot products and exact sums of arrays in a GPU's memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

from tcu.errors import ParameterError
from tcu.formats.format import Format, get_format
from tcu.gpu.arrays import MAX_BATCH_DIMENSIONS, DeviceArray, collapse
from tcu.gpu.device import Gpu
from tcu.gpu.launch import OTHER, OUT, SPACE, Given, KernelChoice, Recipe, Space, X
from tcu.gpu.structs import Struct, constants, struct
from tcu.gpu.tuning import ExactConfig, SumConfig, exact_config, sum_config
from tcu.plan import AddStep, FmaStep, MmaStep, Plan, variants

__all__ = [
    "COUNTS", "ELEMENTS", "EMPTY_BITS", "LIMBS", "LIMB_BITS", "LINE", "LOAD", "LOWEST_BIT", "TARGETS", "WORDS_OF", "Array", "Layout",
    "Operand", "Sum", "check_address", "contiguous", "elements", "exact_recipe", "has_mmas", "layout_of", "loop_of", "operand_of", "sum_recipe",
]  # fmt: skip

ELEMENTS = {"binary16": "BINARY16", "bfloat16": "BFLOAT16", "binary32": "BINARY32", "binary64": "BINARY64"}
TARGETS = {name: number for number, name in enumerate(ELEMENTS)}
LOAD = 16
"""Bytes that a thread loads at once, as in cuda/device/types/element.cuh."""
LINE = 128
"""Bytes of memory that are read together, as in cuda/device/load/bulk_copy.cuh."""
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


def plan_chunks() -> str:
    """What kernels that make plans of their own, for segments whose lengths only the GPU knows, take from the plans."""
    return constants("i64", LEAST_LOADS=variants.LOADS, MOST_CHUNKS=variants._CHUNKS)


Array = struct("Array", f"""
    const void* data;
    i64 n, dimensions;
    i64 extents[{MAX_BATCH_DIMENSIONS}];  // outermost first
    i64 strides[{MAX_BATCH_DIMENSIONS}];  // in elements
""")  # fmt: skip


class Operand(NamedTuple):
    """An array as kernels take it: its elements in C order."""

    address: int
    n: int
    extents: tuple[int, ...]
    strides: tuple[int, ...]

    def array(self) -> Struct:
        return Array(self.address, self.n, len(self.extents), self.extents, self.strides)


Sum = struct("Sum", """
    load::Array x, y;  // y is used with TERM PRODUCT only
    u64* slots;        // one for each chunk, all MISSING
    void* out;
    double divisor;
    i64 loads;  // of a thread in a chunk, counted in chains of CHAIN loads
    i64 chunks;
    i64 row_stride;  // with ROWS: from row to row, in elements
    i64 root;        // whether the square root is asked for
    i64 target;
""")  # fmt: skip


ExactSum = struct("ExactSum", """
    load::Array x;
    i64* limbs;  // COPIES × WORDS, all zero
    u32* arrived; // zero
    void* out;    // the rounded sum
    i64* state;   // WORDS, or null
    i64 loads;    // of a thread in a chunk, a multiple of UNROLL, at most MAX_LOADS
    i64 chunks, target;
    i64 divisor;    // divides the sum before it is rounded; 0 gives NaN; must be 1 unless TERM is VALUE
    load::Array y;  // used with TERM PRODUCT only
""")  # fmt: skip


def sum_recipe(
    plan: Plan, layout: Layout, target: Format, gpu: Gpu, config: SumConfig | None = None,
    *, operands: Sequence[Operand] = (), product: bool = False, divisor: float = 1.0, root: bool = False,
) -> Recipe:  # fmt: skip
    """A sum of one array, or a dot product of two, by a plan; with ``root`` the root of a dot product of one with itself.

    ``operands``: where they lie, of layout STRIDED.  The result is divided by ``divisor`` and rounded to ``target``.
    """
    loads, chain = loop_of(plan)
    per_load = LOAD // get_format(plan.input).dtype.itemsize
    chunks = -(-plan.n // (loads * chain * plan.block * per_load))
    config = config or sum_config(gpu.compute_capability, plan, chunks)
    term = "SQUARE" if root else "PRODUCT" if product else "VALUE"
    macros = {
        **elements(plan.input, has_mmas(plan)), "LAYOUT": layout, "THREADS": plan.block, "CHAIN": chain,
        "UNROLL": config.unroll, "RESIDENT": config.resident, "TERM": term,
    }  # fmt: skip
    x, y = _pair(operands, plan.n)
    problem = Sum(x, y, 0, 0, divisor, loads, chunks, 0, root, TARGETS[target.name])
    takes: dict[str, Given] = {"x.data": X, "slots": SPACE, "out": OUT}
    if term == "PRODUCT":
        takes["y.data"] = OTHER
    choice = KernelChoice("sum", macros, max(chunks, 1), plan.block, problem, takes)
    return Recipe((choice,), space=Space("sum", chunks, ones=True))


def exact_recipe(
    n: int, element: Format, layout: Layout, target: Format, gpu: Gpu, config: ExactConfig | None = None,
    *, operands: Sequence[Operand] = (), product: bool = False, divisor: int = 1, root: bool = False, state: bool = False,
) -> Recipe:  # fmt: skip
    """An exact sum: divided by ``divisor`` and rounded once to ``target``; with ``state`` its limbs and counts instead.

    Of one array's numbers; with ``product`` of the products of two arrays;
    with ``root`` of one array's squares, and the root of it is rounded.
    """
    term = "SQUARE" if root else "PRODUCT" if product else "VALUE"
    config = config or exact_config(gpu.compute_capability, element, n, term != "VALUE")
    macros = {
        "ELEMENT": ELEMENTS[element.name], "LAYOUT": layout, "THREADS": config.threads, "UNROLL": config.unroll,
        "RESIDENT": config.resident, "TERM": term,
    }  # fmt: skip
    step = config.threads * (LOAD // element.dtype.itemsize)
    # Small arrays need many blocks more than long chunks.
    loads = config.loads
    while loads > max(config.unroll, 8) and n < 1024 * loads * step:
        loads //= 2
    chunks = -(-n // (loads * step))
    words = _COPIES * WORDS_OF[term != "VALUE"]
    x, y = _pair(operands, n)
    problem = ExactSum(x, 0, 0, 0, 0, loads, chunks, TARGETS[target.name], divisor, y)
    takes: dict[str, Given] = {
        "x.data": X, "limbs": SPACE, "arrived": (SPACE, 8 * words), "state" if state else "out": OUT
    }  # fmt: skip
    if product:
        takes["y.data"] = OTHER
    choice = KernelChoice("exact", macros, max(chunks, 1), config.threads, problem, takes, "exact_sum")
    return Recipe((choice,), space=Space("exact", words + 1))


def _pair(operands: Sequence[Operand], n: int) -> tuple[Struct, Struct]:
    given = operands or (contiguous(0, n),)
    return given[0].array(), given[-1].array()


def loop_of(plan: Plan) -> tuple[int, int]:
    """(loads of a thread in a chunk, links of a chain)."""
    if not plan.parts:
        return 8, 1
    first, second = plan.parts[0].steps[:2]
    if isinstance(first, MmaStep):
        assert isinstance(second, AddStep)
        return int(second.length or 1), first.chain
    assert isinstance(first, (AddStep, FmaStep))
    if isinstance(first, AddStep) and first.order == "tree":  # of a load's numbers
        assert isinstance(second, AddStep)
        return int(second.length or 1), 1
    return int(first.length or 1), 1


def has_mmas(plan: Plan) -> bool:
    """Whether a plan of our own begins with MMAs, and not with binary64 additions."""
    return bool(plan.parts) and isinstance(plan.parts[0].steps[0], MmaStep)


def elements(element: str, mmas: bool) -> dict[str, object]:
    """The macros of elements, and of what adds them up."""
    return {"ELEMENT": ELEMENTS[element], "MMAS": int(mmas)}


def contiguous(address: int, n: int) -> Operand:
    """n elements one after another."""
    return Operand(address, n, (n,), (1,))


def layout_of(operands: Sequence[Operand]) -> Layout:
    """The layout that serves all of them."""
    if any(x.strides != (1,) for x in operands):
        return "STRIDED"
    return "SHIFTED" if any(x.address % LOAD for x in operands) else "ALIGNED"


def check_address(address: int, size: int) -> None:
    """Raises ParameterError where elements of that size do not lie at multiples of it."""
    if address % size:
        raise ParameterError(
            f"the array lies at address {address:#x}, which is no multiple of its {size} bytes an element: "
            "copy it first"
        )


def operand_of(x: DeviceArray) -> Operand:
    """The array as kernels take it, in as few dimensions as its strides allow."""
    check_address(x.address, x.dtype.itemsize)
    n = math.prod(x.shape)
    extents, (strides,) = collapse(x.shape, [x.strides]) if n > 1 else ((), [()])
    return Operand(x.address, n, extents, strides) if extents else contiguous(x.address, n)
