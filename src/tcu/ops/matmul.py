"""A matrix product as a call asks for it, and what follows from it before anybody multiplies: shapes, plan, checks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from tcu.errors import DtypeError, ShapeError
from tcu.formats.format import Format, get_format, named_format
from tcu.ops.result import rounding_target
from tcu.plan.matmul import MatmulPlan, make_matmul_plan
from tcu.units.instruction import Instruction, Unit
from tcu.units.lookup import DEFAULT_UNIT, product_instruction
from tcu.units.shapes import matrices, result_shape

__all__ = [
    "FACTORS",
    "MatmulCall",
    "MatmulOptions",
    "Product",
    "check_factor",
    "check_segments",
    "fitting_matrices",
    "product_by",
    "product_of",
    "segments_of",
]

Shape = tuple[int, ...]
FACTORS = ("scale_a", "scale_b", "bias")


class MatmulOptions(NamedTuple):
    """As :func:`tcu.matmul` explains them, in the order in which they travel."""

    plan: Any = "chunks"
    rounding: Any = "nearest"
    accumulator: Any = None
    unit: str | Unit | None = None
    dtype: Any = None


class MatmulCall(NamedTuple):
    """A call as it travels from the function to whoever executes it."""

    a: Any
    b: Any
    scale_a: Any = None
    scale_b: Any = None
    bias: Any = None
    options: MatmulOptions = MatmulOptions()
    out: Any = None

    @property
    def arrays(self) -> tuple[Any, ...]:
        """Those that a call has, without ``out``."""
        return tuple(x for x in self[:5] if x is not None)

    @property
    def has_factors(self) -> bool:
        """Whether there are scales or a bias."""
        return any(x is not None for x in self[2:5])


@dataclass(frozen=True)
class Product:
    """What is multiplied: matrices, or batches of them that broadcast."""

    a: Shape
    """(..., M, K)."""
    b: Shape
    """(..., K, N)."""
    matrix: Shape
    """(..., M, N)."""
    shape: Shape
    """Of the result: without M where a is a vector, without N where b is."""
    plan: MatmulPlan

    def extent(self, factor: str) -> int:
        """How many numbers a scale of rows, a scale of columns or a bias has."""
        return self.matrix[-2 if factor == "scale_a" else -1]

    def instruction(self, unit: str | Unit | None) -> Instruction:
        """That of a unit; None: the default one.  Raises UnknownNameError, DtypeError."""
        find = product_instruction if isinstance(unit, Unit) else _instruction
        return find(DEFAULT_UNIT if unit is None else unit, *self.plan.operands, self.plan.accumulator)


_instruction = lru_cache(1024)(product_instruction)
"""Of units by name."""


def product_of(
    a: Shape, b: Shape, formats: tuple[str, str], options: MatmulOptions, out: Any = None, factors: bool = False
) -> Product:  # fmt: skip
    """The product of arrays of these shapes and formats; ``out`` is the dtype of an output, if there is one, and ``factors``
    tells whether there are scales or a bias.

    Raises ShapeError, DtypeError, ParameterError.
    """
    order, rounding, accumulator, _, dtype = options
    given = a, b, formats, order, rounding, accumulator, out if dtype is None else dtype, factors
    try:
        return _made(*given)
    except DtypeError:
        raise
    except TypeError:  # of what has no hash, as symbols of torch.compile for a length
        return _made.__wrapped__(*given)


@lru_cache(4096)
def _made(
    a: Shape, b: Shape, formats: tuple[str, str], order: Any, rounding: Any, accumulator: Any, wanted: Any, factors: bool
) -> Product:  # fmt: skip
    """Kept, as a call on a GPU takes few microseconds."""
    first, second, matrix = matrices(a, b)
    plan = make_matmul_plan(
        first[-1], *formats, order=order, rounding=rounding, accumulator=accumulator,
        result=_result(wanted, formats, factors),
    )  # fmt: skip
    return Product(first, second, matrix, result_shape(a, b, matrix), plan)


def product_by(plan: MatmulPlan, a: Shape, b: Shape, formats: tuple[str, str]) -> Product:
    """The product of arrays of these shapes and formats by a plan that is given; raises ShapeError, DtypeError."""
    first, second, matrix = fitting_matrices(plan.k, plan.inputs, a, b, formats)
    return Product(first, second, matrix, result_shape(a, b, matrix), plan)


def fitting_matrices(
    k: int, inputs: tuple[str, str], a: Shape, b: Shape, formats: tuple[str, str]
) -> tuple[Shape, Shape, Shape]:
    """As :func:`matrices`, of arrays for a plan of sums of k products of ``inputs``; raises ShapeError, DtypeError."""
    first, second, matrix = matrices(a, b)
    if first[-1] != k:
        raise ShapeError(f"a {a}, b {b}: the plan multiplies (..., {k}) by ({k}, ...)")
    for name, given, wanted in zip("ab", formats, inputs, strict=True):
        if given != wanted:
            raise DtypeError(
                f"{name} has dtype {get_format(given).dtype}: the plan takes {get_format(wanted).dtype}"
            )
    return first, second, matrix


def _result(wanted: Any, formats: tuple[str, str], factors: bool) -> str | None:
    """The name of a result's format, None for the accumulator's: where integers are multiplied, s32 too."""
    integers = formats[0] in ("u8", "s8")
    if wanted is None:
        return "binary32" if integers and factors else None
    if integers:
        try:
            is_integer = named_format(wanted).name == "s32"
        except DtypeError:
            is_integer = False
        if is_integer and factors:
            raise DtypeError(
                "dtype=int32: with scales or a bias, sums of integers become numbers of float32: pass dtype='float32', and "
                "round these"
            )
        if is_integer:
            return "s32"
    return rounding_target(wanted).name


def check_factor(name: str, shape: Shape, fmt: Format, extent: int) -> None:
    """Raises DtypeError or ShapeError for what is no number and no vector of a number for each row or column."""
    if not fmt.is_float:
        raise DtypeError(f"{name} has dtype {fmt.dtype}: give a floating-point number or an array of them")
    if shape not in ((), (extent,)):
        lines = "row" if name == "scale_a" else "column"
        raise ShapeError(
            f"{name} has shape {shape}: give one number, or a vector of one for each {lines}, {extent}"
        )


def segments_of(
    x: Shape, weights: Shape, formats: tuple[str, str], options: MatmulOptions, out: Any = None
) -> Product:
    """The product of all rows with a matrix for each segment, as if it were one.

    Raises ShapeError, DtypeError, ParameterError.
    """
    if len(x) != 2 or len(weights) != 3:
        raise ShapeError(f"x has shape {x}, weights {weights}: give x (rows, K) and weights (segments, K, N)")
    if x[1] != weights[1]:
        raise ShapeError(f"x {x}, weights {weights}: x needs as many columns as a matrix of weights has rows")
    return product_of(x, weights[1:], formats, options, out)


def check_segments(count: int, weights: int) -> None:
    """Raises ShapeError unless each segment has its matrix."""
    if count != weights:
        raise ShapeError(
            f"offsets name {count} segments, and weights has {weights} matrices: give one for each"
        )
