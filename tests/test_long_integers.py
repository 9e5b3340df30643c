"""Contract: functions of long integers are Python's, whoever computes them: GMP, the transform of tcu's own, Python.

Every test runs with GMP, where gmpy2 is installed, and without it.  Lengths stand around those at which another way is taken,
and around limbs; numbers are random, zeros, all ones and powers of two ± 1, of both signs.  Numbers in limbs give what Python's
integers give.  Sums of a transform's products are driven to their bound.
"""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tcu
from tcu.errors import DtypeError, InvalidOperationError, ParameterError, ShapeError
from tcu.integers import MODULUS, numbers, polynomials
from tcu.model import gmp, ntt
from tcu.plan.ntt import product_length

DTYPES = [np.uint32, np.uint64]


@pytest.fixture(params=["with GMP", "without"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Who computes; without GMP the transform, early."""
    if request.param == "without":
        monkeypatch.setattr(gmp, "library", None)
        monkeypatch.setattr(gmp, "load", lambda: None)
        monkeypatch.setattr(numbers, "_TRANSFORM", 5000)
    else:
        pytest.importorskip("gmpy2", reason='gmpy2 is not installed: pip install "tcu[gmp]"')
    return str(request.param)


def edges(bits: int) -> list[int]:
    top = 1 << bits
    return [top - 1, top, top + 1, random.Random(bits).getrandbits(bits) | top >> 1]


LENGTHS = [1, 31, 32, 63, 64, 65, 699, 700, 701, 2000, 4999, 5000, 5001, 16_384, 40_000]
NUMBERS = [0, 1, 2, *(number for bits in LENGTHS for number in edges(bits))]


def test_products_and_squares() -> None:
    source = random.Random(1)
    for a in NUMBERS:
        assert tcu.integers.square(a) == tcu.integers.square(-a) == a * a
        for b in source.sample(NUMBERS, 12):
            for x, y in ((a, b), (-a, b), (a, -b), (-a, -b)):
                found = tcu.integers.multiply(x, y)
                assert type(found) is int
                assert found == x * y


LIMB, TILE, DIGIT = 32, 4096, 16
"""Bits of a limb, of the columns of an MMA's tile (tcu/gpu/limbs.py), and of a transform's number."""
AROUND = sorted(
    {unit * count + off for unit, counts in (
        (LIMB, range(1, 17)), (TILE, (1, 2, 3, 8, 16)), (DIGIT, (1 << level for level in range(1, 13))),
    ) for count in counts for off in (-1, 0, 1)}
)  # fmt: skip


@pytest.mark.parametrize("kind", ["ones", "power of two", "random"])
def test_lengths_around_limbs_tiles_and_transforms(kind: str) -> None:
    source = random.Random(7)

    def number(bits: int) -> int:
        top = 1 << bits
        return {"ones": top - 1, "power of two": top >> 1, "random": source.getrandbits(bits) | top >> 1}[
            kind
        ]

    for bits in AROUND:
        a = number(bits)
        assert tcu.integers.square(a) == a * a
        for other in (bits, *source.sample(AROUND, 4)):
            b = number(other)
            assert tcu.integers.multiply(a, -b) == -(a * b)
            assert tcu.integers.divmod(-a, b) == divmod(-a, b)


PRIMES = [(1 << 61) - 1, (1 << 89) - 1]
"""What does not hold holds modulo both once in 2^150 times."""


def test_random_pairs(way: str, request: pytest.FixtureRequest) -> None:
    """``--integer-pairs`` of up to ``--integer-bits`` bits, by remainders; tests/test_integers.py has Python's own products."""
    pairs, bits = (request.config.getoption(name) for name in ("--integer-pairs", "--integer-bits"))
    source = random.Random(8)
    for place in range(pairs):
        # Lengths evenly spread over their logarithms, the longest among them.
        lengths = [bits if place == 0 else int(2 ** source.uniform(0, math.log2(bits))) for _ in range(2)]
        a, b = ((source.getrandbits(length) | 1) * source.choice((1, -1)) for length in lengths)
        product, square = tcu.integers.multiply(a, b), tcu.integers.square(a)
        for p in PRIMES:
            assert (product - (a % p) * (b % p)) % p == 0
            assert (square - (a % p) ** 2) % p == 0
        if way == "without" and max(lengths) > 50_000:
            continue  # Python's own quotients, roots and text take a time that grows as the square
        quotient, rest = tcu.integers.divmod(product + a, b)
        assert abs(rest) < abs(b)
        assert rest == 0 or (rest < 0) == (b < 0)
        assert tcu.integers.mod(product + a, b) == rest
        root = tcu.integers.isqrt(abs(a))
        left = abs(a) - tcu.integers.square(root)
        assert 0 <= left <= 2 * root
        for p in PRIMES:
            assert (quotient % p * (b % p) + rest - product - a) % p == 0
            assert (abs(a) - (root % p) ** 2 - left) % p == 0
        assert tcu.integers.from_text(tcu.integers.to_text(a)) == a


def test_quotients_and_remainders() -> None:
    source = random.Random(2)
    for a in NUMBERS:
        for b in source.sample(NUMBERS[1:], 12):
            for x, y in ((a, b), (-a, b), (a, -b), (-a, -b)):
                assert tcu.integers.divmod(x, y) == divmod(x, y)
                assert tcu.integers.mod(x, y) == x % y


def test_roots() -> None:
    for a in NUMBERS:
        for x in (a, a * a, max(a * a - 1, 0), a * a + 1):
            assert tcu.integers.isqrt(x) == math.isqrt(x)


@pytest.mark.slow
def test_powers() -> None:
    for a in (0, 1, -1, 2, -3, 12345678901234567890, -(1 << 70) + 1, NUMBERS[-1]):
        for n in (0, 1, 2, 3, 7, 64, 257):
            assert tcu.integers.power(a, n) == a**n
    assert tcu.integers.power(-1, 10**40) == 1
    assert tcu.integers.power(0, 10**40) == 0


def test_powers_modulo_a_number() -> None:
    source = random.Random(3)
    for m in [each for each in NUMBERS if 0 < each < 1 << 710]:
        a, n = source.getrandbits(800) - (1 << 799), source.getrandbits(90)
        assert tcu.integers.powmod(a, n, m) == pow(a, n, m)
        assert tcu.integers.powmod(a, 0, m) == 1 % m
        if math.gcd(a, m) == 1:
            assert tcu.integers.powmod(a, -n, m) == pow(a, -n, m)
    prime = (1 << 521) - 1
    assert tcu.integers.powmod(3, prime - 1, prime) == 1  # Fermat


@given(st.integers(), st.integers(), st.integers(min_value=1))
@settings(deadline=None)
def test_laws(a: int, b: int, m: int) -> None:
    integers = tcu.integers
    shift = 3000
    x, y = (a << shift) + b, (b << shift) - a
    assert integers.multiply(x, y) == x * y
    assert integers.multiply(x, y + 1) == integers.multiply(x, y) + x
    quotient, remainder = integers.divmod(integers.multiply(x, m) + m - 1, m)
    assert (quotient, remainder) == (x, m - 1)
    assert integers.mod(integers.multiply(x, y), 10**9 + 7) == x % (10**9 + 7) * (y % (10**9 + 7)) % (
        10**9 + 7
    )
    assert integers.from_text(integers.to_text(x)) == x


def test_a_wrong_digit_is_seen(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if way == "without":
        right = ntt.convolve

        def wrong(a: Any, b: Any) -> Any:
            found = right(a, b)
            found[0, 7] ^= 1
            return found

        monkeypatch.setattr(ntt, "convolve", wrong)
    else:
        monkeypatch.setattr(gmp, "library", SimpleNamespace(mul=lambda a, b: a * b + 1))
    a = (1 << 40_000) - 1
    assert tcu.integers.multiply(a, a - 2) != a * (a - 2)


def test_products_of_many() -> None:
    source = random.Random(4)
    for count in (0, 1, 2, 3, 64, 501):
        numbers = [source.getrandbits(source.choice((3, 40, 900))) - 5 for _ in range(count)]
        assert tcu.integers.product(numbers) == math.prod(numbers)
    assert tcu.integers.product(range(1, 2001)) == math.factorial(2000)
    assert tcu.integers.product(np.array([[2, 3], [5, -7]], np.int8)) == -210


def by_definition(a: list[int], b: list[int]) -> list[int]:
    found = [0] * (len(a) + len(b) - 1)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            found[i + j] += x * y
    return found


@given(*[st.lists(st.integers(-(2**90), 2**90) | st.integers(-2, 2), min_size=1, max_size=30)] * 2)
@settings(deadline=None)
def test_products_of_polynomials(a: list[int], b: list[int]) -> None:
    assert tcu.integers.multiply_polynomials(a, b).tolist() == by_definition(a, b)


@pytest.mark.parametrize("bits", [1, 7, 8, 63, 64])
@pytest.mark.parametrize("signs", [(1, 1), (-1, 1), (-1, -1)])
def test_coefficients_of_the_largest_magnitude(bits: int, signs: tuple[int, int]) -> None:
    """Their sums are at the bound of the width."""
    a, b = ([sign * ((1 << bits) - 1)] * length for sign, length in zip(signs, (128, 255), strict=True))
    assert tcu.integers.multiply_polynomials(a, b).tolist() == by_definition(a, b)
    a[::2] = [-x for x in a[::2]]
    assert tcu.integers.multiply_polynomials(a, b).tolist() == by_definition(a, b)


def shifted_by_definition(a: list[int], c: int) -> list[int]:
    """Terms by the binomial theorem: a_i·(x + c)^i."""
    return [
        sum(each * math.comb(i, k) * c ** (i - k) for i, each in enumerate(a) if i >= k)
        for k in range(len(a))
    ]


@given(st.lists(st.integers(-(2**90), 2**90) | st.integers(-2, 2), min_size=1, max_size=30), st.integers())
@settings(deadline=None)
def test_taylor_shifts(a: list[int], c: int) -> None:
    found = tcu.integers.taylor_shift(a, c)
    assert found.tolist() == shifted_by_definition(a, c)
    assert tcu.integers.taylor_shift(found, -c).tolist() == a


@pytest.mark.slow(8)
@pytest.mark.parametrize("n", [63, 64, 65, 66, 128, 129, 300])
@pytest.mark.parametrize("c", [0, 1, -1, 10, -(2**70) - 1])
def test_taylor_shifts_in_halves(n: int, c: int) -> None:
    source = random.Random(n)
    a = [source.getrandbits(65) - (1 << 64) for _ in range(n)]
    assert tcu.integers.taylor_shift(a, c).tolist() == shifted_by_definition(a, c)
    zeros = [0] * (n - 1) + [-1]
    assert tcu.integers.taylor_shift(zeros, c).tolist() == shifted_by_definition(zeros, c)


def test_laws_of_taylor_shifts() -> None:
    source = random.Random(6)
    a = [source.getrandbits(200) - (1 << 199) for _ in range(1000)]
    found = tcu.integers.taylor_shift(a, 3)
    assert found[0] == sum(each * 3**i for i, each in enumerate(a))
    assert found[-1] == a[-1]
    assert sum(found) == sum(each * 4**i for i, each in enumerate(a))  # at 1 it is p(4)
    assert tcu.integers.taylor_shift(found, -5).tolist() == tcu.integers.taylor_shift(a, -2).tolist()


def test_a_wrong_power_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    right = polynomials._power_of_binomial
    monkeypatch.setattr(polynomials, "_power_of_binomial", lambda c, n: [1, *right(c, n)[1:]])
    a = list(range(-50, 50))
    assert tcu.integers.taylor_shift(a, 2).tolist() != shifted_by_definition(a, 2)


def test_text() -> None:
    for digits in (1, 599, 600, 601, 602, 603, 1200, 4300, 4301, 10_000, 33_333):
        for number in (10 ** (digits - 1), 10**digits - 1, int("7" * min(digits, 4300)), 3 ** (2 * digits)):
            for signed in (number, -number):
                text = tcu.integers.to_text(signed)
                assert tcu.integers.from_text(text) == signed
                assert tcu.integers.from_text(f" +{text} \n" if signed > 0 else f"{text} ") == signed
        assert tcu.integers.to_text(10**digits) == "1" + digits * "0"
    assert tcu.integers.to_text([0, -10]).tolist() == ["0", "-10"]
    assert tcu.integers.from_text("-0") == 0


def test_text_where_python_writes_few_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    try:
        assert tcu.integers.from_text(tcu.integers.to_text(7**9000)) == 7**9000
    finally:
        sys.set_int_max_str_digits(before)


def test_arrays_broadcast() -> None:
    a = np.array([[3], [-(10**30)]], object)
    b = np.array([2, 7], np.int8)
    assert tcu.integers.multiply(a, b).tolist() == [[6, 21], [-2 * 10**30, -7 * 10**30]]
    quotients, remainders = tcu.integers.divmod(a, b)
    assert [quotients.tolist(), remainders.tolist()] == [
        [[1, 0], [-5 * 10**29, -(10**30) // 7]],
        [[1, 3], [0, -(10**30) % 7]],
    ]
    assert tcu.integers.powmod(a, b, 11).tolist() == [[pow(int(x), int(n), 11) for n in b] for x in a.flat]
    assert tcu.integers.isqrt([0, 15, 16]).tolist() == [0, 3, 4]
    assert tcu.integers.multiply([], []).shape == (0,)


def limb_arrays(dtype: Any, batch: tuple[int, ...], lengths: tuple[int, ...], seed: int = 0) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [rng.integers(0, np.iinfo(dtype).max, (*batch, n), dtype=dtype, endpoint=True) for n in lengths]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lengths", [(1, 1), (3, 1), (5, 8), (100, 200), (1500, 1400)])
def test_limbs(dtype: Any, lengths: tuple[int, int]) -> None:
    integers = tcu.integers
    for kind in ("random", "ones", "zeros", "one"):
        a, b = limb_arrays(dtype, (2, 3), lengths)
        if kind != "random":
            a[0], b[...] = {"ones": (-1, -1), "zeros": (0, 0), "one": (1, 0)}[kind] if kind != "ones" else (
                np.iinfo(dtype).max, np.iinfo(dtype).max)  # fmt: skip
        x, y = integers.from_limbs(a), integers.from_limbs(b)
        product = integers.multiply_limbs(a, b)
        assert product.dtype == dtype
        assert product.shape == (2, 3, sum(lengths))
        assert integers.from_limbs(product).tolist() == (x * y).tolist()
        assert integers.from_limbs(integers.square_limbs(a)).tolist() == (x * x).tolist()
        assert np.array_equal(integers.to_limbs(x * y, sum(lengths), dtype=dtype), product)
        first = integers.multiply_limbs(a[0, 0], b)  # broadcast
        assert integers.from_limbs(first).tolist() == (x[0, 0] * y).tolist()
    m = limb_arrays(dtype, (3,), (lengths[1],), 5)[0] | dtype(1)
    a, b = limb_arrays(dtype, (2, 1), lengths)
    x, y, z = (integers.from_limbs(each) for each in (a, b, m))
    found = integers.multiply_mod_limbs(a, b, m)
    assert found.shape == (2, 3, lengths[1])
    assert integers.from_limbs(found).tolist() == (x * y % z).tolist()
    if lengths[1] < 300:
        n = np.array([77, 1][: lengths[0]], dtype)
        found = integers.from_limbs(integers.powmod_limbs(a, n, m))
        exponent = integers.from_limbs(n)
        assert found.tolist() == [
            [pow(int(x[i, 0]), exponent, int(z[j])) for j in range(3)] for i in range(2)
        ]


def test_limbs_there_and_back() -> None:
    numbers = [[0, 1], [2**64 - 1, 2**64]]
    assert tcu.integers.from_limbs(tcu.integers.to_limbs(numbers)).tolist() == numbers
    assert tcu.integers.to_limbs(5, 3, dtype=np.uint32).tolist() == [5, 0, 0]
    assert tcu.integers.from_limbs(np.array([1, 2], np.uint32).astype(">u4")) == 2**33 + 1
    assert tcu.integers.to_limbs([]).shape == (0, 1)
    assert tcu.integers.multiply_limbs(np.ones((0, 3), np.uint32), np.ones(2, np.uint32)).shape == (0, 5)


def test_tensors_of_limbs() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)
    a, b = limb_arrays(np.uint32, (3,), (5, 4))
    x, y = torch.from_numpy(a), torch.from_numpy(b)
    found = tcu.integers.multiply_limbs(x, y)
    assert isinstance(found, torch.Tensor)
    assert np.array_equal(found.numpy(), tcu.integers.multiply_limbs(a, b))
    assert tcu.integers.from_limbs(found).tolist() == tcu.integers.from_limbs(found.numpy()).tolist()
    assert np.array_equal(tcu.integers.powmod_limbs(x, x, y).numpy(), tcu.integers.powmod_limbs(a, a, b))
    line = torch.arange(8).to(torch.uint64)
    assert tcu.integers.ntt(line).numpy().tolist() == tcu.integers.ntt(line.numpy()).tolist()


RESULTS = Path(__file__).parents[1] / "benchmarks" / "results" / "cpu-integers.json"
OVERHEAD = 250
"""Nanoseconds that a call of Python's may take beside the arithmetic, on the slowest machine that was measured."""


def test_who_computes_is_chosen_by_measured_rows() -> None:
    rows = json.loads(RESULTS.read_text())["figures"]["rows"]
    assert {row["function"] for row in rows} == {
        *(
            "multiply",
            "square",
            "divmod",
            "mod",
            "isqrt",
            "power",
            "powmod",
            "to_text",
            "from_text",
            "product",
        )
    }
    for row in rows:
        times = row["nanoseconds"]
        fastest = min(times["GMP"], times["Python"])
        assert row["right"]
        most = (
            1.4 if row["function"] == "from_text" else 1.2
        )  # GMP skips what is no digit, so tcu looks at each first
        assert times["tcu"] <= most * times["GMP"] + OVERHEAD, row
        chosen = times["GMP" if row["by GMP"] else "Python"]
        assert min(chosen, times["tcu"]) <= 1.2 * fastest + OVERHEAD, row  # tcu.integers.product takes both


# Transforms


def definition(x: list[int], root: int) -> list[int]:
    n = len(x)
    return [sum(each * pow(root, i * k, MODULUS) for i, each in enumerate(x)) % MODULUS for k in range(n)]


@pytest.mark.parametrize("n", [1, 2, 4, 8, 32, 128])
def test_transforms_are_those_of_the_definition(n: int) -> None:
    x = np.random.default_rng(n).integers(0, 1 << 64, (2, n), dtype=np.uint64)
    x[0, :: max(n // 3, 1)] = [MODULUS - 1, MODULUS, 2**64 - 1, 0, 1][n % 5]
    root = pow(7, (MODULUS - 1) // n, MODULUS)
    found = tcu.integers.ntt(x)
    assert found.tolist() == [definition([int(each) for each in row], root) for row in x]
    back = tcu.integers.intt(x)
    inverse = pow(n, -1, MODULUS)
    wanted = [
        [each * inverse % MODULUS for each in definition([int(e) for e in row], pow(root, -1, MODULUS))]
        for row in x
    ]
    assert back.tolist() == wanted
    assert np.array_equal(tcu.integers.intt(found), x % np.uint64(MODULUS))


@given(st.integers(0, 12), st.integers(0, 2**32))
@settings(deadline=None, max_examples=30)
def test_laws_of_transforms(levels: int, seed: int) -> None:
    n, rng = 1 << levels, np.random.default_rng(seed)
    x, y = (rng.integers(0, MODULUS, n, dtype=np.uint64) for _ in range(2))
    total = ((x.astype(object) + y) % MODULUS).astype(np.uint64)
    f, g = (tcu.integers.ntt(each).astype(object) for each in (x, y))
    assert np.array_equal(tcu.integers.ntt(total), ((f + g) % MODULUS).astype(np.uint64))  # linear
    step = int(rng.integers(n))
    shifted = tcu.integers.ntt(np.roll(x, step))
    root = pow(7, (MODULUS - 1) // n, MODULUS)
    factors = np.array([pow(root, step * k, MODULUS) for k in range(n)], object)
    assert np.array_equal(shifted, (f * factors % MODULUS).astype(np.uint64))  # shifts
    assert np.array_equal(tcu.integers.intt(tcu.integers.ntt(x)), x)


def test_sums_of_a_convolution_stay_below_the_modulus() -> None:
    """All ones: n·(2^16 - 1)^2, and the bound holds for every length that is let through."""
    digits = np.full((1, 3000), 0xFFFF, np.uint16)
    number = (1 << 48_000) - 1
    found = ntt.convolve(digits, digits)
    assert int.from_bytes(found.astype("<u2").tobytes(), "little") == number * number
    assert MODULUS > (1 << 31) * (2**16 - 1) ** 2
    assert product_length(1 << 31, 1 << 31) == 1 << 32
    assert [product_length(*pair) for pair in ((1, 1), (1, 2), (2, 2), (4, 5), (5, 5))] == [
        1,
        2,
        4,
        8,
        16,
    ]


@pytest.mark.slow(1)
def test_gmp_is_loaded_when_it_is_asked_for(way: str) -> None:
    from test_import import fresh

    code = "import sys, tcu; tcu.integers.multiply(3, 5); print('gmpy2' in sys.modules)"
    assert fresh(code).strip() == "False"
    code = "import sys; sys.modules['gmpy2'] = None; import tcu; a = 3**9000; print(tcu.integers.multiply(a, a) == a * a)"
    assert fresh(code).strip() == "True"


# Errors


def test_errors_of_integers() -> None:
    integers = tcu.integers
    with pytest.raises(
        ParameterError,
        match=r"algorithm='karatsuba' is a machine's: give the machine, too, machine=tcu\.Machine",
    ):
        integers.multiply(1, 2, algorithm="karatsuba")
    with pytest.raises(ParameterError, match="executor='cpu': choose 'gpu', or leave it out"):
        integers.multiply(1, 2, executor="cpu")
    with pytest.raises(
        ParameterError, match="machine and executor='gpu' are two ways to multiply: give one of them"
    ):
        integers.multiply(1, 2, machine=tcu.Machine(16), executor="gpu")
    with pytest.raises(
        ParameterError,
        match=r"machine=5: multiply takes two numbers, and a machine=tcu\.Machine\(256\) on which",
    ):
        integers.multiply(3, -4, 5)
    for single in (5, np.array(5)):
        with pytest.raises(
            ShapeError, match=r"numbers is .*5.*: give a list of integers, or an array with an axis"
        ):
            integers.product(single)  # type: ignore[arg-type]
    with pytest.raises(DtypeError, match="numbers is a masked array"):
        integers.product(np.ma.masked_equal([1, 2], 2))
    with pytest.raises(DtypeError, match=r"n holds 0\.5, a float: give integers"):
        integers.power(2, 0.5)
    with pytest.raises(ShapeError, match=r"a \(2,\), n \(1,\), m \(3,\): the arrays do not broadcast"):
        integers.powmod([1, 2], [1], [1, 2, 3])
    for wrong in ([], 3, [[1]]):
        with pytest.raises(
            ShapeError, match=r"b has shape \(.*\): give a line of coefficients, at least one"
        ):
            integers.multiply_polynomials([1], wrong)
    with pytest.raises(DtypeError, match=r"a holds 1\.5"):
        integers.multiply_polynomials([1.5], [1])
    with pytest.raises(ShapeError, match=r"a has shape \(0,\): give a line of coefficients, at least one"):
        integers.taylor_shift([], 1)
    with pytest.raises(ShapeError, match=r"c has shape \(2,\): give one integer"):
        integers.taylor_shift([1], [1, 2])
    with pytest.raises(DtypeError, match=r"c holds 0\.5, a float: give integers"):
        integers.taylor_shift([1], 0.5)
    with pytest.raises(ParameterError, match="n=-1: give an exponent of 0 or more, or take powmod"):
        integers.power(3, -1)
    with pytest.raises(ParameterError, match=r"more than 2\^36 bits, as n=10+ and a has 2: take powmod"):
        integers.power(3, 10**30)
    with pytest.raises(InvalidOperationError, match="b is 0, by which nothing can be divided: leave it out"):
        integers.divmod(3, 0)
    with pytest.raises(InvalidOperationError, match="b is 0"):
        integers.mod([1 << 9000], [0])
    with pytest.raises(ParameterError, match="m=0: give a modulus of 1 or more"):
        integers.powmod(3, 1, 0)
    with pytest.raises(InvalidOperationError, match="a has no inverse modulo m, so take n of 0 or more"):
        integers.powmod(6, -1, 9)
    with pytest.raises(
        InvalidOperationError, match="a is negative, and has no square root among the integers: take -a"
    ):
        integers.isqrt(-4)
    for text in ("", "-", "1_000", "0x10", "1.5", "٣"):
        with pytest.raises(
            ParameterError, match=r"is no decimal integer: give digits, behind [+] or - or nothing"
        ):
            integers.from_text(text)
    with pytest.raises(ParameterError, match=r"'1{35}\.\.\. is no decimal integer"):
        integers.from_text("1" * 50 + "x")


def test_tensors_and_dask_arrays_of_integers() -> None:
    integers = tcu.integers
    torch = pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)
    x = torch.arange(1, 5).reshape(2, 2)
    assert integers.product(x) == integers.product(x[0]) * integers.product(x[1]) == 24
    assert (integers.multiply(x, 10**20) == 10**20 * np.arange(1, 5, dtype=object).reshape(2, 2)).all()
    for wrong, message in (
        (x.float(), r"a holds .*1\.0.*, a float32: give integers"),
        (x > 2, "a holds .*False"),
    ):
        with pytest.raises(DtypeError, match=message):
            integers.multiply(wrong, 2)
    with pytest.raises(ParameterError, match="a is on the meta device and holds no numbers"):
        integers.multiply(x.to("meta"), 2)
    with pytest.raises(ShapeError, match=r"numbers is tensor\(5\): give a list of integers"):
        integers.product(torch.tensor(5))
    da = pytest.importorskip("dask.array", reason="needs dask: pip install 'tcu[dask]'")
    for function, label in ((integers.square, "a"), (integers.product, "numbers")):
        with pytest.raises(
            ParameterError, match=f"{label} is a Dask array, which this function would compute"
        ):
            function(da.arange(4))


def test_errors_of_limbs(way: str) -> None:
    integers, ones = tcu.integers, np.ones(2, np.uint32)
    with pytest.raises(DtypeError, match="a has dtype int64: limbs are uint32 or uint64"):
        integers.multiply_limbs(np.arange(3), ones)
    with pytest.raises(DtypeError, match="a and b have limbs of uint32 and uint64: give one dtype"):
        integers.multiply_limbs(ones, ones.astype(np.uint64))
    with pytest.raises(ShapeError, match="b has no axis: give limbs along the last one, the lowest first"):
        integers.multiply_limbs(ones, np.uint32(3))
    with pytest.raises(
        ShapeError, match="a has no limbs: give limbs along the last one, the lowest first, and one for a 0"
    ):
        integers.multiply_limbs(np.ones((3, 0), np.uint32), ones)
    with pytest.raises(ShapeError, match=r"a \(2, 2\), b \(3, 2\): axes before the limbs do not broadcast"):
        integers.multiply_limbs(np.ones((2, 2), np.uint32), np.ones((3, 2), np.uint32))
    with pytest.raises(
        InvalidOperationError,
        match="m holds a modulus of 0, of which there are no remainders: give 1 or more",
    ):
        integers.powmod_limbs(ones, ones, np.array([[1, 0], [0, 0]], np.uint32))
    with pytest.raises(DtypeError, match="dtype=int32: limbs are uint32 or uint64"):
        integers.to_limbs(3, dtype=np.int32)
    with pytest.raises(
        ParameterError, match="numbers holds a negative one, and limbs have no sign: give its magnitude"
    ):
        integers.to_limbs([1, -1])
    with pytest.raises(DtypeError, match="dtype='foo': limbs are uint32 or uint64, as NumPy has them"):
        integers.to_limbs(3, dtype="foo")
    with pytest.raises(
        ParameterError, match=r"length=2\.0: give a whole number, or None for as many limbs as"
    ):
        integers.to_limbs(5, length=2.0)  # type: ignore[arg-type]
    for length in (1, 0, -1):
        with pytest.raises(
            ParameterError, match=f"length={length}: the longest number has 65 bits and takes 2 limbs"
        ):
            integers.to_limbs([1, 1 << 64], length)
    on_gpu = SimpleNamespace(__cuda_array_interface__={}, dtype=np.dtype(np.uint32), shape=(2,), is_cuda=True)
    with pytest.raises(
        ParameterError,
        match="a and b are arrays of two libraries, or in the host's memory and a GPU's: give all of one",
    ):
        integers.multiply_limbs(ones, on_gpu)
    with pytest.raises(
        ParameterError,
        match=r"x is in a GPU's memory: copy it to the host first, with x\.cpu\(\) or x\.get\(\)",
    ):
        integers.from_limbs(on_gpu)


def test_errors_of_transforms(way: str) -> None:
    with pytest.raises(DtypeError, match="x has dtype uint32: transforms modulo p take uint64"):
        tcu.integers.ntt(np.ones(4, np.uint32))
    with pytest.raises(DtypeError, match="x has dtype int64: transforms modulo p take uint64"):
        tcu.integers.ntt([1, 2])
    with pytest.raises(ShapeError, match="x has no axis: give numbers along the last one, a power of two"):
        tcu.integers.ntt(np.uint64(3))
    for n in (0, 3, 12):
        with pytest.raises(
            ParameterError, match=rf"x has {n} numbers along its last axis: give a power of two, up to 2\^32"
        ):
            tcu.integers.intt(np.ones(n, np.uint64))
    with pytest.raises(
        ParameterError, match=r"a product of 68719476736 and 32 bits has more than 2\^32 digits"
    ):
        product_length(1 << 32, 2)
