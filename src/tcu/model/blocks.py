"""The fast model of late, grouped, scaled and exact sums, and of flushed trees, for operands that fit each other."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.formats.array import decode_array
from tcu.formats.format import Format, get_format
from tcu.formats.scalar import ROUNDINGS
from tcu.model import compiled
from tcu.units.arithmetic import AlignedSum, ExactBlock, FlushedTree, GroupedSum, LateSum
from tcu.units.instruction import Instruction

__all__ = ["block_products", "is_block_sum"]

_NO_FLOOR = -5000
"""Below every exponent that a product of two scaled inputs can have."""

Array = npt.NDArray[Any]
Scales = tuple[Array, Array]


def is_block_sum(row: Instruction) -> bool:
    """Whether this module computes the instruction."""
    return row.scale is not None or isinstance(row.arithmetic, ExactBlock | FlushedTree | LateSum)


def block_products(a: Array, b: Array, c: Array, row: Instruction, scales: Scales | None) -> Array:
    """D of one product: a (M, K), b (K, N), K a multiple of k; c, D (M, N) in binary32; scales (M, K/s), (K/s, N)."""
    rules, x, y = row.arithmetic, get_format(row.a), get_format(row.b)
    kernels = compiled.load("block_kernels")
    if isinstance(rules, FlushedTree):
        total = np.empty(c.shape, np.float32)
        kernels.flushed_trees(*_read(a, x, _normal), *_read(b, y, _normal), c, row.k, rules.group, total)
        total.view(np.uint32)[np.isnan(total)] = get_format(row.output).nan_code
        return total
    codes, result = c.view(np.uint32), np.empty(c.shape, np.uint32)
    column = np.ascontiguousarray(b.T)
    fractions = x.fraction_bits + y.fraction_bits
    if isinstance(rules, GroupedSum):
        assert scales is not None
        scale = get_format(row.scale or "")
        units = [
            np.ldexp(_values(each, fmt), -fmt.quantum_exponent).astype(np.int32)
            for each, fmt in ((a, x), (column, y))
        ]
        parts = [part for each in (scales[0], scales[1].T) for part in _scale_parts(each, scale)]
        kernels.grouped_sums(
            *units, *parts, codes, row.k, row.per_scale, -(x.quantum_exponent + y.quantum_exponent),
            scale.fraction_bits, (rules.block, rules.group, rules.fraction_bits, rules.exponent_floor), result,
        )  # fmt: skip
        return result.view(np.float32)
    left, right = _read(a, x, _parts), _read(column, y, _parts)
    if scales is not None:
        assert isinstance(rules, AlignedSum)
        powers = []
        for each, part in zip((scales[0], scales[1].T), (left, right), strict=True):
            exponents, significands = _scale_parts(each, get_format(row.scale or ""))
            nan = np.repeat(significands < 0, row.per_scale, axis=1)
            part[2][nan] = kernels.NAN
            powers.append(exponents)
        floor = _NO_FLOOR if rules.exponent_floor is None else rules.exponent_floor
        kernels.scaled_sums(
            *left, *right, bool(left[2].any() or right[2].any()), *powers, codes, row.k, row.per_scale, fractions,
            (rules.block, rules.fraction_bits, floor, ROUNDINGS.index(rules.rounding)), result,
        )  # fmt: skip
        return result.view(np.float32)
    common = (*left, *right, bool(left[2].any() or right[2].any()), codes, row.k, fractions)
    if isinstance(rules, LateSum):
        late = (rules.block, rules.fraction_bits, rules.late_bits, rules.groups, rules.drops_small_c)
        kernels.late_sums(*common, late, result)
    else:
        assert isinstance(rules, ExactBlock)
        kernels.exact_blocks(*common, rules.block, result)
    return result.view(np.float32)


def _codes(array: Array, fmt: Format) -> Array:
    words = array.view(fmt.code_dtype) >> np.array(fmt.storage_shift, fmt.code_dtype)
    return np.asarray(words & np.array((1 << fmt.bits) - 1, fmt.code_dtype))


def _values(array: Array, fmt: Format) -> Array:
    return decode_array(_codes(array, fmt), fmt)


def _read(array: Array, fmt: Format, how: Callable[[Array, Format], tuple[Array, ...]]) -> tuple[Array, ...]:
    """What ``how`` makes of the codes, by a table where the format is short: a tenth of the time, or less."""
    codes = _codes(array, fmt)
    return tuple(part[codes] for part in _table(fmt, how)) if fmt.bits <= 16 else how(codes, fmt)


@lru_cache
def _table(fmt: Format, how: Callable[[Array, Format], tuple[Array, ...]]) -> tuple[Array, ...]:
    return how(np.arange(1 << fmt.bits, dtype=fmt.code_dtype), fmt)


def _normal(codes: Array, fmt: Format) -> tuple[Array]:
    """Values in binary32, +0 in place of subnormal numbers and of -0."""
    values = decode_array(codes, fmt)
    return (np.where(np.abs(values) < fmt.min_normal, 0, values).astype(np.float32),)


def _parts(codes: Array, fmt: Format) -> tuple[Array, Array, Array]:
    """Significands with their sign, exponents as they take part in an alignment, and what is inf or NaN."""
    kernels = compiled.load("block_kernels")
    codes = codes.astype(np.int32)
    magnitude = codes & (fmt.magnitude_codes - 1)
    field, fraction = magnitude >> fmt.fraction_bits, magnitude & ((1 << fmt.fraction_bits) - 1)
    significand = np.where(field > 0, fraction | 1 << fmt.fraction_bits, fraction)
    negative = codes & fmt.sign_code != 0
    special = codes == fmt.nan_code if fmt.specials == "negative zero" else magnitude > fmt.max_finite_code
    kind = np.zeros(codes.shape, np.int8)
    if special.any():
        infinite = special & (fraction == 0) & fmt.has_infinity
        kind[special] = kernels.NAN
        kind[infinite & ~negative], kind[infinite & negative] = kernels.INFINITE, kernels.NEGATIVE
        significand[special] = 0
    exponent = np.where(significand == 0, kernels.NONE, np.maximum(field, 1) - fmt.bias)
    return np.where(negative, -significand, significand), exponent.astype(np.int32), kind


def _scale_parts(array: Array, fmt: Format) -> tuple[Array, Array]:
    """Exponents and significands; the significand of NaN is -1."""
    codes = _codes(np.ascontiguousarray(array), fmt).astype(np.int32)
    field = codes >> fmt.fraction_bits
    significand = codes & ((1 << fmt.fraction_bits) - 1)
    significand = np.where(field >= fmt.least_field, significand | 1 << fmt.fraction_bits, significand)
    significand[codes > fmt.max_finite_code] = -1
    return (np.maximum(field, fmt.least_field) - fmt.bias).astype(np.int32), significand.astype(np.int32)
