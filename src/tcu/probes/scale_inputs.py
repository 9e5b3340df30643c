"""Scales for any operands, and the operands that tell apart what units make of scales."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tcu.formats.format import Format
from tcu.probes.target import Codes, Operation, Question

__all__ = ["any_scales", "cancelled_groups", "sunken_groups", "with_scales"]

ROWS, COLUMNS = 16, 8


def with_scales(operation: Operation, rng: np.random.Generator, q: Question) -> Question:
    """The question with scales: ones, powers that undo each other, any of a window, or such as make all products tiny."""
    rows, columns = q.c.shape
    runs = operation.k // operation.per_scale
    mode = rng.choice(["ones", "opposite", "near", "far", "tiny"])
    left, right = np.zeros((rows, runs), int), np.zeros((runs, columns), int)
    if mode == "opposite":
        power = rng.integers(-40, 41, runs)
        left, right = left + power, right - power[:, None]
    elif mode != "ones":
        low, high = {"near": (-3, 4), "far": (-22, 23), "tiny": (-80, -60)}[mode]
        left, right = (rng.integers(low, high, each.shape) for each in (left, right))
    return replace(q, scales=(_scales(operation, rng, left), _scales(operation, rng, right)))


def any_scales(operation: Operation, rng: np.random.Generator) -> Question:
    """Scales of any code, NaN among them, of any operands."""
    scale = _format(operation)
    runs = operation.k // operation.per_scale
    q = _numbers(operation, rng)
    codes = [
        np.asarray(rng.integers(0, scale.magnitude_codes, shape), scale.code_dtype)
        for shape in ((ROWS, runs), (runs, COLUMNS))
    ]
    return replace(q, scales=(codes[0], codes[1]))


def cancelled_groups(operation: Operation, rng: np.random.Generator) -> Question:
    """Two products under one scale cancel each other, and others, or c, lie far below: the result shows what was cut of them."""
    runs = operation.k // operation.per_scale
    q = _numbers(operation, rng)
    first = int(rng.integers(0, runs)) * operation.per_scale
    if rng.random() < 0.7:  # nothing else stands beside the two
        q.a[:, first : first + operation.per_scale] = 0
    near = rng.random() < 0.5
    places = first + (
        np.arange(2) if near else rng.choice(operation.per_scale, min(2, operation.per_scale), replace=False)
    )
    if operation.per_scale > 1:
        one, other = int(places[0]), int(places[1])
        top = operation.codes(np.array([operation.input.max_finite, -operation.input.max_finite]))
        q.a[:, one], q.a[:, other] = top
        q.b[one] = q.b[other] = operation.right_codes(np.ones(1))[0]
    distance = int(rng.integers(10, 52))
    shares = [int(rng.integers(0, distance + 1))]
    shares.append(distance - shares[0])
    exponents = []
    highest = min(12, _format(operation).emax)
    for share, shape in zip(shares, ((ROWS, runs), (runs, COLUMNS)), strict=True):
        below = highest - share - rng.integers(0, 3, shape)
        exponents.append(below)
    exponents[0][:, first // operation.per_scale] = highest
    exponents[1][first // operation.per_scale] = highest
    c = np.where(
        rng.random((ROWS, COLUMNS)) < 0.5, 0.0,
        _signs(rng, (ROWS, COLUMNS)) * (1 + rng.random((ROWS, COLUMNS)))
        * 2.0 ** (2 * highest - rng.integers(0, distance + 1, (ROWS, COLUMNS))),
    )  # fmt: skip
    return Question(
        q.a, q.b, operation.output_codes(c),
        (_scales(operation, rng, exponents[0]), _scales(operation, rng, exponents[1])),
    )  # fmt: skip


def sunken_groups(operation: Operation, rng: np.random.Generator) -> Question:
    """Sums about the smallest number of the output, and far smaller ones that decide, if the common exponent sinks so far."""
    runs = operation.k // operation.per_scale
    q = _numbers(operation, rng)
    goal = operation.output.quantum_exponent - int(rng.integers(-2, 16))
    exponents = [
        np.full((ROWS, runs), goal // 2), np.full((runs, COLUMNS), goal - goal // 2)
    ]  # fmt: skip
    if runs > 1:
        first = int(rng.integers(0, runs))
        below = rng.integers(0, 50, (ROWS, runs))
        below[:, first] = 0
        exponents[0] = exponents[0] - below
    c = np.where(
        rng.random((ROWS, COLUMNS)) < 0.8, 0.0, _signs(rng, (ROWS, COLUMNS)) * operation.output.min_subnormal
    )
    return Question(
        q.a, q.b, operation.output_codes(c),
        (_scales(operation, rng, exponents[0]), _scales(operation, rng, exponents[1])),
    )  # fmt: skip


def _numbers(operation: Operation, rng: np.random.Generator) -> Question:
    """Finite numbers of any exponent, some of them zero, all products of one sign in half of the questions; c is zero."""
    found = []
    one_sign = rng.random() < 0.5
    for fmt, shape in ((operation.input, (ROWS, operation.k)), (operation.right, (operation.k, COLUMNS))):
        codes = rng.integers(0, fmt.max_finite_code + 1, shape, dtype=np.uint64)
        codes[rng.random(shape) < 0.1] = 0
        sign = np.uint64(fmt.sign_code) * rng.integers(0, 2, shape, dtype=np.uint64)
        found.append((codes | (np.uint64(0) if one_sign else sign)).astype(fmt.code_dtype))
    if one_sign:
        found[0][np.arange(ROWS) % 2 == 1] |= operation.input.code_dtype.type(operation.input.sign_code)
    return Question(found[0], found[1], np.zeros((ROWS, COLUMNS), operation.output.code_dtype))


def _scales(operation: Operation, rng: np.random.Generator, exponents: np.ndarray) -> Codes:
    """Codes of scales with these exponents, as far as the format goes, and any fraction in half of the questions."""
    scale = _format(operation)
    field = np.clip(exponents + scale.bias, scale.least_field, scale.max_finite_code >> scale.fraction_bits)
    code = field << scale.fraction_bits
    if rng.random() < 0.5:
        code = code | rng.integers(0, 1 << scale.fraction_bits, code.shape)
    return np.asarray(np.minimum(code, scale.max_finite_code), scale.code_dtype)


def _format(operation: Operation) -> Format:
    assert operation.scale is not None
    return operation.scale


def _signs(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.choice([-1.0, 1.0], shape)
