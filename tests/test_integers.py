"""Contract: products of integers are Python's, for any size and sign, on every machine that takes integers.

Digits are so short that no sum overflows: what :func:`digit_bits` promises is
checked where it is tight, with all digits at their largest.  ``--integer-pairs``
random pairs of up to ``--integer-bits`` bits are compared.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from device_stand_in import ElsewhereExecutor
from hypothesis import given
from hypothesis import strategies as st

import tcu
from tcu.algorithms import integer_multiply, karatsuba_bound, karatsuba_bound_of_calls, schoolbook_bound
from tcu.algorithms.digits import carried, from_digits, to_digits
from tcu.algorithms.integer_plan import digit_bits
from tcu.errors import DtypeError, ParameterError, ShapeError
from tcu.machine.executors import ModelExecutor

ALGORITHMS = ("schoolbook", "karatsuba", "auto")
MACHINES = {
    "m=1": tcu.Machine(1),
    "m=16": tcu.Machine(16, 3),
    "m=256": tcu.Machine(256, 100),
    "m=65536": tcu.Machine(65536, 10),
    "weak": tcu.Machine(256, 5, weak=True),
    "8-bit words": tcu.Machine(16, word_bits=8),
    "20-bit words": tcu.Machine(256, word_bits=20),
    "128-bit words": tcu.Machine(16, word_bits=128),
    "systolic": tcu.Machine(16, executor="systolic"),
    "u8": tcu.Machine(256, 4, executor=ModelExecutor("H100", "u8")),
    "binary16": tcu.Machine(256, 4, executor=ModelExecutor("V100", "binary16")),
    "binary64": tcu.Machine(64, 4, executor=ModelExecutor("A100", "binary64")),
}
EDGES = [0, 1, 2, 3, 254, 255, 256, 257, (1 << 64) - 1, 1 << 64, (1 << 2048) - 1, 1 << 2048, (1 << 4096) - (1 << 2000),
         int("10" * 500, 2), int("01" * 500, 2), (1 << 1000) + 1]  # fmt: skip


@pytest.mark.slow(8)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("name", MACHINES)
def test_products_are_python_s(name: str, algorithm: Any) -> None:
    machine = MACHINES[name]
    source = random.Random(1)
    for bits in (1, 8, 60, 500, 3000) if name == "systolic" else (1, 8, 60, 500, 3000, 20000):
        a, b = (
            source.getrandbits(size) * source.choice((1, -1))
            for size in (bits, source.choice((bits, bits // 3 + 1)))
        )
        assert integer_multiply(machine, a, b, algorithm=algorithm) == a * b
        assert integer_multiply(machine, b, a, algorithm=algorithm) == a * b


@pytest.mark.slow(1)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("name", ["m=16", "20-bit words", "u8", "binary16"])
def test_adversarial_digits(name: str, algorithm: Any) -> None:
    signed = [sign * edge for edge in EDGES for sign in (1, -1)]
    products = integer_multiply(MACHINES[name], np.array(signed, object)[:, None], EDGES, algorithm=algorithm)
    assert products.tolist() == [[a * b for b in EDGES] for a in signed]


def test_random_pairs(request: pytest.FixtureRequest) -> None:
    pairs, bits = (request.config.getoption(name) for name in ("--integer-pairs", "--integer-bits"))
    source = random.Random(2)
    for number in range(pairs):
        # Sizes evenly spread over their logarithms, the largest among them.
        sizes = [bits if number == 0 else int(2 ** source.uniform(0, np.log2(bits))) for _ in range(2)]
        a, b = (source.getrandbits(size) * source.choice((1, -1)) for size in sizes)
        assert tcu.integers.multiply(a, b) == a * b


@given(st.lists(st.tuples(st.integers(), st.integers()), min_size=1, max_size=5))
def test_batches(pairs: list[tuple[int, int]]) -> None:
    a, b = (list(numbers) for numbers in zip(*pairs, strict=True))
    product = tcu.integers.multiply(a, b, machine=MACHINES["m=16"])
    assert product.dtype == object
    assert product.tolist() == [x * y for x, y in pairs]
    assert all(type(x) is int for x in product)


def test_laws() -> None:
    source = random.Random(3)
    for algorithm in ALGORITHMS:

        def times(x: int, y: int, algorithm: Any = algorithm) -> int:
            return int(integer_multiply(MACHINES["u8"], x, y, algorithm=algorithm))

        a, b, c = (source.getrandbits(9000) - (1 << 8999) for _ in range(3))
        assert times(a, b + c) == times(a, b) + times(a, c)  # distributivity
        assert times(a, b) == times(b, a) == -times(-a, b)
        assert times(a, 1) == a
        assert times(a, 0) == 0
        assert times(a << 777, b) == times(a, b) << 777
        for prime in (2, 3, 5, 7, 11, 13, 101, 65537, 998244353):  # residues
            assert times(a, b) % prime == (a % prime) * (b % prime) % prime


def test_a_wrong_digit_is_seen() -> None:
    class Wrong(ModelExecutor):
        def multiply(self, a: Any, b: Any) -> Any:
            product = super().multiply(a, b)
            product[..., 3, 0] += 1
            return product

    a, b = (1 << 3000) - 12345, (1 << 2900) + 54321
    assert integer_multiply(tcu.Machine(256, executor=Wrong("H100", "u8")), a, b) != a * b


def test_arrays_of_any_integers() -> None:
    machine = MACHINES["m=16"]
    a = np.array([[1, -2, 3]], np.int8)
    b = np.array([[(1 << 64) - 1], [7]], np.uint64)
    assert tcu.integers.multiply(a, b, machine=machine).tolist() == [
        [(1 << 64) - 1, 2 - (1 << 65), 3 * ((1 << 64) - 1)],
        [7, -14, 21],
    ]
    assert tcu.integers.multiply(np.int64(-3), 5) == -15
    assert type(tcu.integers.multiply(3, 5)) is int
    assert tcu.integers.multiply([], [], machine=machine).shape == (0,)


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("redundant", [False, True])
def test_digits_are_as_long_as_they_can_be_without_overflow(name: str, redundant: bool) -> None:
    machine = MACHINES[name]
    dtypes, words = machine.executor.dtypes, machine.word_bits

    def fits(bits: int) -> bool:
        largest = (1 << bits) + 1 if redundant else (1 << bits) - 1
        in_sums = machine.side * largest**2 < 1 << min(dtypes.sum_bits, words)
        return in_sums and largest < 1 << min(dtypes.integer_bits, words)

    bits = digit_bits(machine, redundant=redundant)
    assert bits <= words // 4
    assert fits(bits)
    room = words > 64 or machine.side * ((2 << bits) + 1) ** 2 < 1 << 62
    assert bits == words // 4 or not (fits(bits + 1) and room)


def test_u8_units_sum_digits_of_eight_bits_exactly() -> None:
    """√m · 255² < 2^31 for every m that a call takes: the largest sums, and every pair of digits, through the unit."""
    machine = tcu.Machine(65536, executor=ModelExecutor("H100", "u8"))
    assert digit_bits(machine) == 8
    assert digit_bits(machine, redundant=True) == 7
    assert 256 * 255**2 < 1 << 31
    full = np.full((256, 256), 255, np.uint8)
    assert (machine.multiply(full, full) == 256 * 255**2).all()
    digits = np.arange(256, dtype=np.uint8)
    table = machine.multiply(digits[:, None], digits[None, :])
    assert np.array_equal(table, np.multiply.outer(np.arange(256), np.arange(256)))
    with pytest.raises(ParameterError, match="cut them into shorter digits"):
        machine.multiply(full.astype(np.int64) + 1, full.astype(np.int64))
    a = (1 << 20000) - 1
    for algorithm in ALGORITHMS:
        assert integer_multiply(machine, a, a, algorithm=algorithm) == a * a


@pytest.mark.parametrize("bits", [1, 2, 5, 7, 8, 13, 16, 20, 32])
def test_digits_there_and_back(bits: int) -> None:
    source = random.Random(bits)
    numbers = [0, 1, (1 << 200) - 1, source.getrandbits(200)]
    digits = to_digits(numbers, -(-200 // bits), bits)
    assert digits.min() >= 0
    assert digits.max() < 1 << bits
    assert from_digits(digits, bits) == numbers
    rng = np.random.default_rng(bits)
    wild = rng.integers(-(1 << 60), 1 << 60, (5, 40))
    exact = [sum(int(d) << (bits * i) for i, d in enumerate(row)) for row in wild]
    assert from_digits(wild, bits) == exact
    assert from_digits(wild.astype(object), bits) == exact
    once = carried(tcu.Machine(4), wild, bits)
    assert from_digits(once, bits) == exact
    assert np.abs(once[:, :-1]).max() <= (1 << bits) + (1 << 60 >> bits)


def test_digits_stay_on_the_device() -> None:
    inside = ModelExecutor("H100", "u8")
    machine = tcu.Machine(256, executor=ElsewhereExecutor(inside))
    a, b = random.Random(4).getrandbits(5000), -random.Random(5).getrandbits(7000)
    for algorithm in ALGORITHMS:
        assert integer_multiply(machine, a, b, algorithm=algorithm) == a * b


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_counting_runs_the_same_program(algorithm: Any) -> None:
    for bits_a, bits_b in ((1000, 1000), (20000, 20000), (30000, 9000)):
        real, counting = tcu.Machine(64, 50), tcu.Machine(64, 50, executor="count")
        integer_multiply(real, (1 << bits_a) - 1, (1 << bits_b) - 1, algorithm=algorithm)
        product = integer_multiply(
            counting, counting.shape(bits_a, bool), counting.shape(bits_b, bool), algorithm=algorithm
        )
        assert product.shape == (bits_a + bits_b,)
        assert real.ledger == counting.ledger


def test_auto_is_the_cheapest() -> None:
    for m, latency in ((16, 0), (256, 256), (65536, 0)):
        for bits in (1000, 100_000, 10_000_000):
            costs = {}
            for algorithm in ALGORITHMS:
                machine = tcu.Machine(m, latency, executor="count")
                number = machine.shape(bits, bool)
                integer_multiply(machine, number, number, algorithm=algorithm)
                costs[algorithm] = machine.cost
            assert costs["auto"] <= 1.1 * min(costs.values())
    assert costs["karatsuba"] < 0.6 * costs["schoolbook"]


def test_bounds() -> None:
    assert schoolbook_bound((256, 10), 64 * 512) == 512**2 / 16 + 20
    assert karatsuba_bound((256, 16), 64 * 16 * 4) == pytest.approx(9 * 17)
    assert karatsuba_bound_of_calls((256, 10), 64 * 256 * 2) == pytest.approx(3 * (4096 + 10))
    assert schoolbook_bound(tcu.Machine(256, word_bits=32), 32 * 512) == 512**2 / 16


def test_errors() -> None:
    multiply = tcu.integers.multiply
    with pytest.raises(DtypeError, match=r"a holds 1\.5, a float: give integers"):
        multiply(1.5, 2)
    with pytest.raises(DtypeError, match="b holds True, a bool: give integers"):
        multiply(1, [True])
    with pytest.raises(ShapeError, match=r"a \(2,\), b \(3,\): the arrays do not broadcast"):
        multiply([1, 2], [1, 2, 3])
    with pytest.raises(ShapeError, match="lists of different lengths is no array"):
        multiply([np.zeros((1, 2), int), np.zeros((1, 3), int)], 1)
    with pytest.raises(ParameterError, match="algorithm='fft': choose one of auto, schoolbook, karatsuba"):
        multiply(1, 2, machine=tcu.Machine(16), algorithm="fft")
    with pytest.raises(
        ParameterError, match="too short for a product of integers; take a smaller m or longer words"
    ):
        multiply(1, 2, machine=tcu.Machine(256, word_bits=4))
    with pytest.raises(ParameterError, match="too short for Karatsuba"):
        multiply(1, 2, machine=tcu.Machine(256, word_bits=8), algorithm="karatsuba")
    assert multiply(300, -70000, machine=tcu.Machine(256, word_bits=8)) == -21_000_000
    machine = tcu.Machine(16)
    with pytest.raises(ParameterError, match="computes: give integers, or take executor='count' for shapes"):
        integer_multiply(machine, machine.shape(8, bool), machine.shape(8, bool))
