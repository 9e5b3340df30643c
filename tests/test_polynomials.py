"""Contract: a polynomial's values are within ``evaluate_error_bound`` of the exact rational ones, and modulo an
integer they are exact, on every machine and for every number of coefficients and points.
"""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tcu
from tcu.algorithms import evaluate, evaluate_error_bound, polynomial_bound
from tcu.errors import DtypeError, ParameterError, ShapeError
from tcu.machine.executors import ModelExecutor

MACHINES = {
    "m=1": tcu.Machine(1),
    "m=9": tcu.Machine(9, 2),
    "m=16": tcu.Machine(16, 3),
    "m=65536": tcu.Machine(65536),
    "weak": tcu.Machine(16, weak=True),
    "systolic": tcu.Machine(16, executor="systolic"),
    "A100": tcu.Machine(64, executor=ModelExecutor("A100", "binary64")),
}
LENGTHS = (1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 81, 130, 257)


def exact(coefficients: Any, x: float) -> Fraction:
    total = Fraction(0)
    for a in reversed(coefficients):
        total = total * Fraction(x) + Fraction(a)
    return total


def excess(machine: Any, coefficients: Any, points: Any) -> float:
    """The largest error over its bound."""
    values = evaluate(machine, coefficients, points)
    bounds = evaluate_error_bound(machine, coefficients, points)
    assert values.shape == bounds.shape == np.shape(points)
    worst = 0.0
    for value, bound, x in zip(values.flat, bounds.flat, np.asarray(points).flat, strict=True):
        error = abs(Fraction(float(value)) - exact(coefficients, float(x)))
        if error:
            worst = max(worst, float(error / Fraction(float(bound))))
    return worst


@pytest.mark.slow(1)
@pytest.mark.parametrize("name", MACHINES)
def test_values_are_within_their_bound(name: str) -> None:
    rng = np.random.default_rng(1)
    for n in LENGTHS:
        random_ones = rng.standard_normal(n)
        alternating = np.where(np.arange(n) % 2, -1.0, 1.0) * rng.uniform(0.9, 1.1, n)
        wide = rng.standard_normal(n) * 10.0 ** rng.uniform(-100, 100, n)
        points = np.concatenate([rng.uniform(-1.2, 1.2, 4), [0.0, 1.0, -1.0, 1 - 2.0**-30]])
        for coefficients in (random_ones, alternating, wide):
            assert excess(MACHINES[name], coefficients, points) <= 1


def test_underflow_and_powers_that_overflow() -> None:
    machine = MACHINES["m=16"]
    assert excess(machine, np.array([0.0, 0.0, 1e-200]), np.array([1e-70, 1e-100, 1e150])) <= 1
    assert excess(machine, np.full(40, 5e-324), np.array([0.3, 1.0])) <= 1
    # x^2 overflows, and takes no part where the coefficients from there on are 0.
    assert evaluate(machine, np.array([1.0, 2.0, 0.0, 0.0]), np.array(1e200)) == 2e200
    assert evaluate(machine, np.zeros(7), np.array([1e300, 2.0])).tolist() == [0, 0]
    assert evaluate_error_bound(machine, [1.0, 2.0, 0.0, 0.0], 1e200) < 1e186
    with np.errstate(over="ignore"):
        assert evaluate(machine, np.array([0, 0, 1e-200]), np.array([1e160])) == np.inf
    assert evaluate_error_bound(machine, [0.0, 0.0, 1e-200], 1e160) == np.inf


def test_the_bound_is_no_larger_than_twice_that_of_horner() -> None:
    """γ_2n Σ|a||x|^i (Higham, section 5.1), which has two roundings for each coefficient."""
    a, x = np.ones(1000), np.array([0.5, 1.0])
    horner = 2 * 1000 * 2.0**-53 * np.array([2.0, 1000.0])
    assert (evaluate_error_bound(MACHINES["m=16"], a, x) < horner).all()


def test_a_planted_error_exceeds_the_bound() -> None:
    class Wrong(ModelExecutor):
        def multiply(self, a: Any, b: Any) -> Any:
            return super().multiply(a, b) * (1 + 1e-13)

    a = np.random.default_rng(2).uniform(1, 2, 40)
    assert excess(tcu.Machine(16, executor=Wrong("A100", "binary64")), a, np.array([0.7])) > 1


@pytest.mark.parametrize("modulus", [2, 3, 257, 65537, (1 << 31) - 1, 1 << 31, (1 << 61) - 1, 10**40 + 121])
@pytest.mark.parametrize("name", ["m=1", "m=16", "u8", "8-bit words", "binary16"])
def test_values_modulo_an_integer_are_exact(name: str, modulus: int) -> None:
    machine = {
        "u8": tcu.Machine(256, executor=ModelExecutor("H100", "u8")),
        "8-bit words": tcu.Machine(16, word_bits=8),
        "binary16": tcu.Machine(64, executor=ModelExecutor("V100")),
    }.get(name) or MACHINES[name]
    source = random.Random(modulus)
    for n in (1, 4, 17, 70):
        a = [source.randrange(-(1 << 70), 1 << 70) for _ in range(n)]
        x = [0, 1, -1, modulus - 1, *(source.randrange(modulus) for _ in range(4))]
        values = evaluate(machine, a, np.array(x, object).reshape(2, 4), modulus=modulus)
        assert values.shape == (2, 4)
        assert values.dtype == (np.int64 if modulus <= 1 << 31 else object)
        assert values.ravel().tolist() == [
            sum(c * pow(p, i, modulus) for i, c in enumerate(a)) % modulus for p in x
        ]


def test_laws_modulo_a_prime() -> None:
    machine, q, rng = MACHINES["m=16"], 998244353, np.random.default_rng(3)
    a, b = rng.integers(0, q, (2, 100))
    x = rng.integers(0, q, 50)

    def value(c: Any, p: Any = x) -> Any:
        return evaluate(machine, c, p, modulus=q)

    assert np.array_equal(value(a + b), (value(a) + value(b)) % q)
    assert np.array_equal(value(np.concatenate([[0], a])), value(a) * x % q)
    assert np.array_equal(value(a, -x), value(np.where(np.arange(100) % 2, -a, a)))
    roots = rng.integers(0, q, 12)  # a product of x - r is zero at its roots, and nowhere else
    product = [1]
    for r in roots:
        product = [(u - int(r) * v) % q for u, v in zip([0, *product], [*product, 0], strict=True)]
    assert not value(product, roots).any()
    assert value(product, np.setdiff1d(x, roots)).all()


def test_integers_of_every_dtype() -> None:
    machine = MACHINES["m=16"]
    assert evaluate(machine, np.array([1, 2], np.uint8), np.array([3, 255], np.uint8)).tolist() == [
        7.0,
        511.0,
    ]
    assert evaluate(machine, np.array([1, 2], np.uint64), [(1 << 64) - 1], modulus=1000) == [231]
    assert evaluate(machine, np.array([1.0]), np.zeros((0, 3))).shape == (0, 3)
    assert evaluate(machine, np.zeros(0), [1.0, 2.0]).tolist() == [0.0, 0.0]
    assert evaluate(machine, [2, 3], np.array(5), modulus=7) == 3


def test_counting_runs_the_same_program() -> None:
    for n, p in ((3, 5), (16, 1), (300, 7), (5000, 3)):
        for options in ({}, {"modulus": 65537}, {"modulus": 3}):
            real, counting = tcu.Machine(16, 5), tcu.Machine(16, 5, executor="count")
            dtype = np.int64 if options else np.float64
            evaluate(real, np.ones(n, dtype), np.ones(p, dtype), **options)
            evaluate(counting, counting.shape(n, dtype), counting.shape(p, dtype), **options)
            assert real.ledger == counting.ledger


def test_one_call_for_each_right_matrix() -> None:
    machine = tcu.Machine(256, 9, executor="count")
    evaluate(machine, machine.shape(256 * 12), machine.shape(1000))
    tensor = [entry for entry in machine.ledger if entry.kind == "tensor"]
    assert [(entry.rows, entry.count) for entry in tensor] == [(1000, 12)]
    assert polynomial_bound(machine, 256 * 12, 1000) == 1000 * 192 + 1000 * 16 + 12 * 9


def test_errors() -> None:
    machine = MACHINES["m=16"]
    with pytest.raises(
        ShapeError, match=r"coefficients of shape \(1, 2\): give a vector, the constant term first"
    ):
        evaluate(machine, [[1.0, 2.0]], [1.0])
    with pytest.raises(DtypeError, match="points of dtype complex128: give real numbers"):
        evaluate(machine, [1.0], [1j])
    with pytest.raises(DtypeError, match="coefficients of dtype float64: give integers for a modulus"):
        evaluate(machine, [1.0], [1], modulus=5)
    with pytest.raises(ParameterError, match="modulus=1: give an integer of at least 2"):
        evaluate(machine, [1], [1], modulus=1)
    half = tcu.Machine(256, executor=ModelExecutor("H100"))
    with pytest.raises(
        DtypeError, match="multiplies float16: evaluate needs a unit of binary64, or a modulus"
    ):
        evaluate(half, [1.0], [1.0])
    with pytest.raises(DtypeError, match="multiplies uint8"):
        evaluate(tcu.Machine(256, executor=ModelExecutor("H100", "u8")), [1.0], [1.0])
