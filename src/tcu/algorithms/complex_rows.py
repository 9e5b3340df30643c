"""Rows of complex numbers times a Fourier matrix, by products of real matrices on the unit.

A complex array is two planes, real and imaginary, in front of its other
dimensions: the unit multiplies real numbers, and no library's complex product
(fused or not) then has a say in the bits.
"""

from __future__ import annotations

import operator
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from tcu.algorithms.fourier import fourier_matrix
from tcu.algorithms.matmul import matmul
from tcu.errors import ParameterError
from tcu.formats import get_format
from tcu.machine import Machine
from tcu.machine.executors.unit import narrowed
from tcu.machine.shapes import ShapeArray, empty

__all__ = [
    "ComplexProduct",
    "check_product",
    "multiply_rows",
    "part_bits",
    "row_groups",
    "unit_matrices",
    "unit_matrix",
    "widest_row",
]

ComplexProduct = Literal["four", "three", "embedded"]
"""How a complex product is made of real ones (section 4.3 says four):

four: XᵣWᵣ - XᵢWᵢ and XᵣWᵢ + XᵢWᵣ, two calls with both planes of X below each other;
three: (Xᵣ + Xᵢ)Wᵣ, Xᵣ(Wᵢ - Wᵣ) and Xᵢ(Wᵣ + Wᵢ), three calls;
embedded: [Xᵣ Xᵢ] times [[Wᵣ, Wᵢ], [-Wᵢ, Wᵣ]], one call for rows of up to √m / 2 numbers; the unit adds.
"""


def part_bits(operand: str) -> int:
    """What one part takes of a number: the significant bits of the operands.  The rest is scaled up by them."""
    return get_format(operand).precision


def check_product(product: str) -> None:
    """Raises ParameterError for a way that does not exist."""
    if product not in get_args(ComplexProduct):
        raise ParameterError(f"product={product!r}: choose one of {', '.join(get_args(ComplexProduct))}")


def widest_row(side: int, product: ComplexProduct) -> int:
    """The longest DFT that one matrix in the unit does.  Raises ParameterError where that is none."""
    widest = side // 2 if product == "embedded" else side
    if widest < 2:
        needed = 16 if product == "embedded" else 4
        raise ParameterError(
            f"m={side * side}: a unit of side {side} does no {product!r} DFT; take m={needed} or more"
        )
    return widest


def row_groups(most: int, rows: int) -> tuple[int, int]:
    """How many of the rows of a transform share a row of the unit, at most ``most``, and how many those make."""
    group = max(1, min(most, rows))
    wide_rows = -(-rows // group)
    return -(-rows // wide_rows), wide_rows


def multiply_rows(
    machine: Machine, x: Any, inner: int, *, product: ComplexProduct, parts: int, operand: str
) -> Any:
    """The DFT of every row of x.

    Parameters
    ----------
    machine:
        Where it runs.
    x:
        (2, batch, ..., f): planes, transforms, the rows of each, and the f
        numbers of a row, in the work dtype.
    inner:
        The rows of one transform: the product of the dimensions "...".  Short
        rows share a row of the unit with others of their own transform, never
        with another's, whose NaN would spread.
    product, parts:
        How complex products are made; into how many operands each number is
        split.
    operand:
        The format of the unit's operands.

    Rows longer than the unit's are multiplied by the Fourier matrix in blocks.

    Returns
    -------
    An array like x.
    """
    f = x.shape[-1]
    batch = x.shape[1]
    embedded = product == "embedded"
    width = 2 * f if embedded else f
    if embedded:
        x = np.moveaxis(x, 0, -2)
    shape = x.shape
    lead = (batch,) if embedded else (2, batch)
    group, wide_rows = row_groups(machine.side // width, inner)
    rows = empty((*lead, group * wide_rows, width), x.dtype, like=x)
    machine.cpu.put(rows[..., :inner, :].reshape(shape), x, "gather rows")
    if group * wide_rows > inner:
        machine.cpu.put(rows[..., inner:, :], 0, "pad rows")
    rows = rows.reshape(*lead, wide_rows, group * width)
    result = _PRODUCTS[product](machine, rows, f, group, parts, operand)
    if group * wide_rows > inner:
        result = result.reshape(*lead, group * wide_rows, width)[..., :inner, :]
    result = result.reshape(shape)
    return np.moveaxis(result, -2, 0) if embedded else result


def _four(machine: Machine, x: Any, f: int, group: int, parts: int, operand: str) -> Any:
    matrices = partial(_matrix, machine, x, f, group, parts, operand)
    pieces = _split(machine, x, parts, operand)
    by_real = _real_product(machine, pieces, matrices("real"), operand, x.dtype)
    by_imaginary = _real_product(machine, pieces, matrices("imaginary"), operand, x.dtype)
    result = by_real  # its own memory: written over plane by plane
    machine.cpu.update(operator.isub, result[0], by_imaginary[1], name="add real products")
    machine.cpu.update(operator.iadd, result[1], by_imaginary[0], name="add real products")
    return result


def _three(machine: Machine, x: Any, f: int, group: int, parts: int, operand: str) -> Any:
    matrices = partial(_matrix, machine, x, f, group, parts, operand)
    each = partial(machine.cpu.each, name="add real products")
    pieces = [
        _split(machine, plane, parts, operand) for plane in (each(operator.add, x[0], x[1]), x[0], x[1])
    ]
    first = _real_product(machine, pieces[0], matrices("real"), operand, x.dtype)
    second = _real_product(machine, pieces[1], matrices("difference"), operand, x.dtype)
    third = _real_product(machine, pieces[2], matrices("sum"), operand, x.dtype)
    result = empty((2, *first.shape), first.dtype, like=first)
    each(np.subtract, first, third, out=result[0])
    each(np.add, first, second, out=result[1])
    return result


def _embedded(machine: Machine, x: Any, f: int, group: int, parts: int, operand: str) -> Any:
    matrix = _matrix(machine, x, f, group, parts, operand, "embedded")
    return _real_product(machine, _split(machine, x, parts, operand), matrix, operand, x.dtype)


_PRODUCTS = {"four": _four, "three": _three, "embedded": _embedded}


def _split(machine: Machine, x: Any, parts: int, operand: str) -> Any:
    """(parts, ...) operands; x is the sum of 2^(-bits · i) times the i-th, but for the rest."""
    if parts == 1:  # the executor rounds as it reads
        return x[None]
    if operand != "binary16" and not isinstance(x, np.ndarray | ShapeArray):
        raise ParameterError(
            f"parts={parts}: {type(x).__module__.partition('.')[0]} has no arrays of {operand}; take parts=1, "
            "a unit of binary16, or NumPy arrays"
        )
    pieces = empty((parts, *x.shape), get_format(operand).dtype, like=x)
    each = partial(machine.cpu.each, name="split")
    for i in range(parts):
        machine.cpu.put(pieces[i], x, "split")
        if i + 1 < parts:
            x = each(operator.sub, x, machine.stored(pieces[i], x.dtype))
            x = each(operator.mul, x, x.dtype.type(1 << part_bits(operand)))
    return pieces


def _real_product(machine: Machine, x: Any, w: Any, operand: str, work: np.dtype[Any]) -> Any:
    """Sum of 2^(-bits · (i + j)) x_i w_j for i + j below the number of parts; the smallest terms first."""
    parts, width = len(x), x.shape[-1]
    fits = width <= machine.side
    multiply = (
        partial(machine.tall_multiply, name="rows times Fourier matrix") if fits else partial(matmul, machine)
    )
    products = [
        machine.stored(multiply(x[: parts - j].reshape(-1, width), w[j]), work).reshape(
            parts - j, *x.shape[1:]
        )
        for j in range(parts)
    ]
    each = partial(machine.cpu.each, name="add parts")
    total: Any = None
    for order in reversed(range(parts)):
        for j in range(order + 1):
            term = products[j][order - j]
            if j == 0 and total is not None:
                total = each(operator.mul, total, work.type(2.0 ** -part_bits(operand)))
            total = term if total is None else each(operator.add, total, term)
    return total


def _matrix(machine: Machine, like: Any, f: int, group: int, parts: int, operand: str, kind: str) -> Any:
    width = group * f * (2 if kind == "embedded" else 1)
    return machine.cpu.table(
        like, unit_matrix, f, group, parts, operand, kind, shape=(parts, width, width), name="Fourier matrix"
    )


_KINDS = {"four": ("real", "imaginary"), "three": ("real", "difference", "sum"), "embedded": ("embedded",)}


def unit_matrices(f: int, group: int, parts: int, operand: str, product: ComplexProduct) -> npt.NDArray[Any]:
    """(kinds, parts, w, w): every matrix that a way of complex products takes."""
    return np.stack([unit_matrix(f, group, parts, operand, kind) for kind in _KINDS[product]])


def unit_matrix(f: int, group: int, parts: int, operand: str, kind: str) -> npt.NDArray[Any]:
    """(parts, w, w): the Fourier matrix of size f, ``group`` times along the diagonal, split into parts."""
    exact = fourier_matrix(f)
    r, i = exact.real, exact.imag
    kinds = {"real": [[r]], "imaginary": [[i]], "difference": [[i - r]], "sum": [[r + i]],
             "embedded": [[r, i], [-i, r]]}  # fmt: skip
    fmt = get_format(operand)
    rest = np.kron(np.eye(group), np.block(kinds[kind]))
    pieces = []
    for _ in range(parts):
        pieces.append(narrowed(rest, fmt))
        rest = (rest - pieces[-1].astype(np.float64)) * 2.0 ** part_bits(operand)
    # Next to rows in binary32, which the executor rounds as it reads them, in binary32 too.
    stored = np.dtype(np.float32) if parts == 1 and fmt.name != "binary64" else fmt.dtype
    return np.stack(pieces).astype(stored, copy=False)
