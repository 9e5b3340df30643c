"""Contract: dense products equal NumPy's, exactly on integers, for any shape, scheme, executor and word.

A scheme is taken only if Brent's equations hold, all of them, exactly.  In
binary64 each entry is within (inner + growth) · 2^-53 of Σ|a||b| for the
resident product, and within the recursion's bound for Strassen-like ones.
The count of calls is the theorem's.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tcu
from tcu.algorithms import (
    LADERMAN,
    SCHEMES,
    STANDARD,
    STRASSEN,
    BilinearScheme,
    matmul,
    matmul_bound,
    matmul_lower_bound,
    strassen_like,
    strassen_like_bound,
)
from tcu.algorithms.schemes import find_scheme, standard
from tcu.errors import DtypeError, ParameterError, ShapeError, UnknownNameError
from tcu.machine import ModelExecutor

RNG = np.random.default_rng(3)
SHAPES = [(1, 1, 1), (4, 4, 4), (5, 3, 2), (17, 8, 33), (40, 3, 5), (3, 40, 50), (27, 27, 27), (36, 20, 70)]

# ⟨3, 2, 2; 11⟩: Strassen on the first two rows, the definition on the third.
ROWS_3 = BilinearScheme(
    "strassen with a row below", (3, 2, 2),
    tuple((*row, 0, 0) for row in STRASSEN.u) + tuple((0, 0, 0, 0, 1, 0) if k % 2 == 0 else (0, 0, 0, 0, 0, 1) for k in range(4)),
    (*STRASSEN.v, (1, 0, 0, 0), (0, 0, 1, 0), (0, 1, 0, 0), (0, 0, 0, 1)),
    tuple((*row, 0, 0) for row in STRASSEN.w) + tuple((0, 0, 0, 0, 1, 0) if k < 2 else (0, 0, 0, 0, 0, 1) for k in range(4)),
)  # fmt: skip
ALL_SCHEMES = (*SCHEMES.values(), ROWS_3, standard(1, 2, 1), standard(1, 1, 1))


def brent_by_hand(scheme: BilinearScheme) -> bool:
    """The bilinear identity, coefficient by coefficient, in Python integers."""
    r, s, t = scheme.shape
    for i in range(r):
        for j in range(s):
            for k in range(s):
                for q in range(t):
                    for x in range(r):
                        for y in range(t):
                            weight = sum(
                                u[i * s + j] * v[k * t + q] * w[x * t + y]
                                for u, v, w in zip(scheme.u, scheme.v, scheme.w, strict=True)
                            )
                            if weight != (j == k and i == x and q == y):
                                return False
    return True


@pytest.mark.parametrize("scheme", ALL_SCHEMES, ids=lambda scheme: scheme.name)
def test_schemes_satisfy_the_bilinear_identity(scheme: BilinearScheme) -> None:
    assert brent_by_hand(scheme)


def test_published_counts_and_exponents() -> None:
    assert [scheme.products for scheme in (STANDARD, STRASSEN, LADERMAN)] == [8, 7, 23]
    assert STANDARD.exponent == 1.5
    assert math.isclose(STRASSEN.exponent, math.log(7, 4))
    assert math.isclose(LADERMAN.exponent, math.log(23, 9))


@pytest.mark.parametrize("scheme", [STRASSEN, LADERMAN], ids=lambda scheme: scheme.name)
def test_every_changed_sign_is_refused(scheme: BilinearScheme) -> None:
    for product in range(scheme.products):
        for part in ("u", "v", "w"):
            rows = [list(row) for row in getattr(scheme, part)]
            place = next(i for i, weight in enumerate(rows[product]) if weight)
            rows[product][place] *= -1
            with pytest.raises(
                ParameterError, match=r"does not multiply: a\d\d·b\d\d has the wrong weight in c\d\d"
            ):
                replace(scheme, **{part: tuple(map(tuple, rows))})


def test_malformed_schemes_are_refused() -> None:
    with pytest.raises(ParameterError, match="7, 7 and 6 rows of u, v and w: give as many of each"):
        replace(STRASSEN, w=STRASSEN.w[:-1])
    with pytest.raises(ParameterError, match="every row of u needs 4 weights"):
        replace(STRASSEN, u=tuple(row[:-1] for row in STRASSEN.u))
    with pytest.raises(UnknownNameError, match=r"unknown scheme 'strasen': did you mean .*strassen"):
        find_scheme("strasen")


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("weak", [False, True])
def test_products_of_integers_are_exact(shape: tuple[int, int, int], weak: bool) -> None:
    rows, inner, columns = shape
    a, b = RNG.integers(-1000, 1000, (rows, inner)), RNG.integers(-1000, 1000, (inner, columns))
    m = tcu.Machine(16, 5, weak=weak)
    got = m.matmul(a, b)
    assert got.dtype == np.int64
    assert (got == a @ b).all()
    assert m.cost >= matmul_lower_bound(m, *shape)
    for scheme in ALL_SCHEMES:
        for levels in (None, 0, 1):
            assert (m.strassen(a, b, scheme, levels=levels) == a @ b).all(), (scheme.name, levels)


def exact_errors(a: np.ndarray, b: np.ndarray, product: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """|product - A·B| by rational arithmetic, and |A|·|B|."""
    x, y, z = (np.vectorize(Fraction, otypes=[object])(v) for v in (a, b, product))
    return np.vectorize(float)(abs(z - x @ y)), abs(a) @ abs(b)


def test_real_products_are_within_their_bounds() -> None:
    a, b = (
        RNG.standard_normal((19, 23)) * 10.0 ** RNG.integers(-3, 4, (19, 23)),
        RNG.standard_normal((23, 14)),
    )
    m = tcu.Machine(16)
    error, scale = exact_errors(a, b, m.matmul(a, b))
    assert (error <= (23 + 4) * 2.0**-53 * scale).all()
    # A Strassen-like product is bounded by norms, not entry by entry: each level multiplies by its growth.
    error, _ = exact_errors(a, b, m.strassen(a, b))
    norms = 23 * float(abs(a).max() * abs(b).max())
    assert error.max() <= STRASSEN.growth ** (3 * 3) * (23 + 4) * 2.0**-53 * norms
    planted, _ = exact_errors(a, b, m.matmul(a, b) * (1 + 2.0**-45))
    assert not (planted <= (23 + 4) * 2.0**-53 * scale).all()


@pytest.mark.parametrize("product", [matmul, strassen_like])
def test_complex_products(product: object) -> None:
    a = RNG.integers(-9, 9, (7, 6)) + 1j * RNG.integers(-9, 9, (7, 6))
    b = RNG.integers(-9, 9, (6, 5)) + 1j * RNG.integers(-9, 9, (6, 5))
    m = tcu.Machine(16)
    for x, y in ((a, b), (a.real, b), (a, b.imag)):
        assert (product(m, x, y) == x @ y).all()  # type: ignore[operator]


@settings(max_examples=30, deadline=None)
@given(
    st.integers(1, 90),
    st.integers(1, 7),
    st.integers(1, 12),
    st.sampled_from(["matmul", "strassen", "laderman"]),
)
def test_integers_of_any_width(bits: int, rows: int, inner: int, way: str) -> None:
    top = (1 << bits) - 1
    rng = np.random.default_rng(bits)
    signs = rng.choice([-1, 1], (rows, inner)).astype(object)
    a = signs * top
    b = rng.choice([-1, 1], (inner, 5)).astype(object) * top
    if bits <= 63:
        a, b = a.astype(np.int64), b.astype(np.int64)
    m = tcu.Machine(4, word_bits=400)
    got = m.matmul(a, b) if way == "matmul" else m.strassen(a, b, way)
    assert (got.astype(object) == a.astype(object) @ b.astype(object)).all()


def test_results_beyond_a_word_are_refused() -> None:
    big = np.full((8, 8), 1 << 30)
    small = tcu.Machine(16, word_bits=62)
    with pytest.raises(ParameterError, match="the product needs 63 bits: words have 62"):
        small.matmul(big, big)
    wide = np.full((8, 8), 1 << 31)
    for way in (matmul, strassen_like):
        with pytest.raises(ParameterError, match=r"needs 6[3-9] bits: words have 62"):
            way(small, wide, wide)


@pytest.mark.slow
def test_units_add_strips_outside() -> None:
    """On a unit, a long inner side is strips that the CPU adds in the result's dtype: the same bits by hand."""
    a, b = RNG.standard_normal((20, 40)).astype(np.float16), RNG.standard_normal((40, 20)).astype(np.float16)
    m = tcu.Machine(256, executor=ModelExecutor("A100", "binary16"))
    parts = [tcu.mma(a[:, i : i + 16], b[i : i + 16], unit="A100") for i in (0, 16, 32)]
    assert m.matmul(a, b).tobytes() == ((parts[0] + parts[1]) + parts[2]).tobytes()
    bytes_ = tcu.Machine(256, word_bits=32, executor=ModelExecutor("H100", "u8"))
    x = RNG.integers(0, 256, (30, 50)).astype(np.uint8)
    assert (bytes_.matmul(x, x.T) == x.astype(int) @ x.T).all()


def test_the_smaller_operand_is_resident() -> None:
    for rows, columns in ((400, 4), (4, 400)):
        m = tcu.Machine(16, 1000, executor="count")
        m.matmul(m.shape((rows, 8)), m.shape((8, columns)))
        assert m.ledger.tensor_calls == 2
        assert m.ledger.tensor_cost == matmul_bound(m, rows, 8, columns)


def test_calls_are_those_of_the_theorems() -> None:
    m = tcu.Machine(16, 7, executor="count")
    x = m.shape((32, 32))
    for scheme, depth in ((STANDARD, 3), (STRASSEN, 3)):
        m.reset()
        m.strassen(x, x, scheme)
        assert m.ledger.tensor_calls == scheme.products**depth
        assert math.isclose(m.ledger.tensor_cost, strassen_like_bound(m, 32, 32, 32, scheme))
    m.reset()
    y = m.shape((36, 36))
    m.strassen(y, y, "laderman")
    assert m.ledger.tensor_calls == 23**2
    m.reset()
    m.matmul(x, x)
    assert (m.ledger.tensor_calls, m.ledger.tensor_cost) == (64, 64 * (32 * 4 + 7))
    # Seven sums of strips, and the blocks of the result put beside each other.
    assert m.ledger.steps == 7 * 32 * 32 + 32 * 32


def test_empty_products() -> None:
    m = tcu.Machine(16)
    for way in (m.matmul, m.strassen):
        assert way(np.ones((3, 0)), np.ones((0, 2))).tolist() == [[0, 0]] * 3
        assert way(np.ones((0, 3)), np.ones((3, 2))).shape == (0, 2)
        assert way(np.ones((2, 0), int), np.ones((0, 2), int)).dtype == np.int64
    assert m.cost == 0


def test_errors() -> None:
    m = tcu.Machine(16)
    square = np.ones((4, 4))
    with pytest.raises(ShapeError, match=r"a has shape \(4,\): give a matrix, a\[None, :\] for a row"):
        m.matmul(np.ones(4), square)
    with pytest.raises(ShapeError, match="a needs as many columns as b has rows"):
        m.strassen(np.ones((4, 3)), square)
    with pytest.raises(DtypeError, match="a has dtype <U1"):
        m.matmul(np.array([["x"]]), square)
    for levels in (-1, 1.5, True):
        with pytest.raises(ParameterError, match="levels="):
            m.strassen(square, square, levels=levels)
    with pytest.raises(ParameterError, match="m=15"):
        matmul_bound((15, 0), 4, 4, 4)
