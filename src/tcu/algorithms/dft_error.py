"""How far a discrete Fourier transform on a machine can be from the exact one: a proved bound."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from tcu.algorithms.complex_rows import ComplexProduct, part_bits, unit_matrix
from tcu.algorithms.dft_levels import ComplexDft
from tcu.algorithms.fourier import bluestein_length, chirp, fourier_matrix, levels, twiddle_shift
from tcu.formats import format_of, get_format
from tcu.machine import Machine
from tcu.plan.mma_losses import chain_errors
from tcu.units import AlignedSum, ExactInteger, Instruction

__all__ = ["dft_error_bound"]

_TWIDDLE = 6
"""Unit roundoffs that a product by a tabulated root loses: √2·2 of the product, 1 of the table, 1 or 2 of the root."""
_MASS = {"four": 1.0, "three": 3.0, "embedded": 1.0}
"""Σ|x||w| of the real products of one complex product, over that of the complex numbers; for three rather 2√2."""
_ROUNDED = {"four": 1.0, "three": 8.0, "embedded": 1.0}
"""What rounding the operands does to the result: for three, ‖Wᵣ‖√2 + ‖Wᵢ - Wᵣ‖ + ‖Wᵣ + Wᵢ‖ and the sum of both."""


def dft_error_bound(machine: Machine, n: int, *, product: ComplexProduct = "four", parts: int = 1) -> float:
    """The relative error of ``dft(machine, x)`` in the Euclidean norm, at most, for any x of n numbers.

    ‖computed - exact‖₂ ≤ bound · ‖exact‖₂, where ‖exact‖₂ = √n·‖x‖₂; so no
    element is further off than bound · √n·‖x‖₂.  For ``idft`` and the
    transforms of real numbers of odd length it is the same.

    The levels' errors add up, in the manner of N. J. Higham, Accuracy and
    Stability of Numerical Algorithms, 2nd ed., theorem 24.2.  Each level has
    that of rounding its rows (into so many parts), of the Fourier matrix as
    the unit holds it (measured), of the unit's sums (by its block, its
    fraction bits and its rounding), of additions and twiddle factors, and of
    underflow of operands that were scaled to 2^13 and more.  Numbers that leave
    the range of binary32 are outside of the bound.

    Raises the errors of :func:`~tcu.algorithms.dft.dft`.
    """
    transforms = ComplexDft(machine, product, parts)
    if n < 2:
        return 0.0
    instruction = getattr(machine.executor, "instruction", None)
    work = format_of(transforms.work)
    entered = work.unit_roundoff if transforms.scaled else 0.0
    return (_transform(transforms, n, instruction) + entered) * (1 + 2.0**-20)


def _transform(transforms: ComplexDft, n: int, instruction: Instruction | None) -> float:
    """The relative error of one transform, of numbers that are in the work dtype."""
    plan = levels(n, transforms.widest)
    work = format_of(transforms.work)
    total = 0.0
    # The Euclidean norm of the scaled numbers, at least: their largest part is 2^(top - 1) or more.
    norm = 2.0 ** (transforms.top_of(plan) - 1)
    for number, level in enumerate(plan):
        f = level.length
        if level.convolved:
            local = _convolution(transforms, f, instruction)
        else:
            local = _rows(transforms, f, instruction)
            if transforms.scaled:
                local += _underflow(transforms, n, f, instruction) / norm
        if number + 1 < len(plan):
            local += _TWIDDLE * work.unit_roundoff
            norm *= math.sqrt(f) * (2.0 ** -twiddle_shift(f) if transforms.scaled else 1.0)
        total = total + local + total * local
    return total


def _rows(transforms: ComplexDft, f: int, instruction: Instruction | None) -> float:
    """Of DFTs of length f by the unit."""
    parts, product, u_work = transforms.parts, transforms.product, format_of(transforms.work).unit_roundoff
    width = 2 * f if product == "embedded" else f
    mass = math.sqrt(2 * f) * _MASS[product]
    # Every term of the sums of parts is rounded at most so often, and that of real products once.
    additions = parts * (parts + 1) // 2 + (width - 1) // transforms.machine.side
    local = mass * (_sum_error(width, instruction) + additions * u_work)
    if not transforms.scaled:
        # The Fourier matrix has its roots within 2 roundoffs.
        return local + 2 * u_work * math.sqrt(f)
    u = transforms.operand.unit_roundoff
    dropped = sum((2 * parts - 1 - t) * u**t for t in range(parts, 2 * parts - 1))
    rounded = _ROUNDED[product] * (u**parts + (u_work if product == "three" else 0.0))
    matrix = _matrix_error(f, product, parts, transforms.operand.name)
    # A thousandth: parts are up to 1 + u as large as what they stand for.
    return (local + mass * dropped + rounded + matrix) * 1.001 + rounded * matrix


@lru_cache(maxsize=256)
def _matrix_error(f: int, product: ComplexProduct, parts: int, operand: str) -> float:
    """‖W - Ŵ‖₂ / ‖W‖₂ of the Fourier matrix as the unit holds it."""
    exact = fourier_matrix(f)
    r, i = exact.real, exact.imag
    kinds = {"four": {"real": r, "imaginary": i}, "three": {"real": r, "difference": i - r, "sum": i + r},
             "embedded": {"real": r, "imaginary": i}}  # fmt: skip
    weights = {"real": math.sqrt(2) if product == "three" else 1.0}
    total = 0.0
    for kind, matrix in kinds[product].items():
        held = unit_matrix(f, 1, parts, operand, kind).astype(np.float64)
        seen = sum(piece * 2.0 ** -(part_bits(operand) * j) for j, piece in enumerate(held))
        total += weights.get(kind, 1.0) * float(np.linalg.norm(matrix - seen, 2))
    return total / math.sqrt(f) + 2.0**-50


def _sum_error(width: int, instruction: Instruction | None) -> float:
    """What the unit's sum of ``width`` products loses, over the sum of their magnitudes."""
    if instruction is None:
        return math.expm1(width * math.log1p(2.0**-53))
    row, output = instruction.arithmetic, get_format(instruction.output)
    if not isinstance(row, AlignedSum):
        operations, relative, _ = chain_errors(instruction, width)
        return math.expm1(operations * math.log1p(relative))
    blocks = -(-width // row.block) + 1
    kept = output.fraction_bits
    if row.output_fraction_bits is not None:
        kept = min(kept, row.output_fraction_bits)
    relative = 2.0 ** -(kept + 1 if row.rounding == "RNE" else kept)
    late = output.unit_roundoff * -(-width // instruction.k) if row.late_c else 0.0
    each = relative + (row.block + 1) * 2.0**-row.fraction_bits
    return math.expm1(blocks * each + late)


def _underflow(transforms: ComplexDft, n: int, f: int, instruction: Instruction | None) -> float:
    """What underflow loses of n numbers, in the Euclidean norm, over the √f by which a level enlarges it."""
    operand = transforms.operand
    last = 2.0 ** -(part_bits(transforms.operand.name) * (transforms.parts - 1))
    lost = operand.min_subnormal / 2 * last * _ROUNDED[transforms.product]
    if instruction is not None:
        row, output = instruction.arithmetic, get_format(instruction.output)
        if not isinstance(row, AlignedSum):
            blocks, _, small = chain_errors(instruction, 2 * f)
        else:
            small = output.min_subnormal
            blocks = -(-2 * f // row.block) + 1
            floor = 2.0 ** max(operand.emin, output.emin, row.exponent_floor or -1000)
            small += (row.block + 1) * 2.0**-row.fraction_bits * floor
            if row.flush_inputs or row.flush_outputs:
                small += output.min_normal
        if not isinstance(row, ExactInteger) and (row.flush_inputs or row.flush_outputs):
            lost += operand.min_normal
        # Two real products for each part of the result, of which there are f times as many as rows.
        lost += _MASS[transforms.product] * 2 * blocks * small
    return math.sqrt(2 * n) * lost


def _convolution(transforms: ComplexDft, p: int, instruction: Instruction | None) -> float:
    """Of Bluestein's DFT of length p: two transforms of length L, around a product by the kernel."""
    work = format_of(transforms.work)
    length = bluestein_length(p, transforms.widest)
    kernel = length * float(np.abs(chirp(p, transforms.widest).kernel).max())
    inner = _transform(transforms, length, instruction)
    tables = 3 * _TWIDDLE * work.unit_roundoff + 8 * math.log2(length) * 2.0**-53
    growth = kernel / math.sqrt(p)
    return growth * math.expm1(2 * math.log1p(inner) + math.log1p(tables))
