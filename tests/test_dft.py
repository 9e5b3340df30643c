"""Contract: transforms of any length, on any machine, are as near to the exact ones as they say.

On a machine of binary64 every number is within 4·log₂(n) ulps of SciPy's, where
an ulp is that of the largest number of the transform, and for random input that
of their root mean square, ‖x‖₂ (within twice as many by three real products for a complex one): a transform's rounding errors spread over all of
its numbers, so that a number far below the others has none of its own size.
On a unit of narrow operands the error is within ``dft_error_bound`` in the
Euclidean norm.  A transform does not see the others of its batch, and who
executes it does not change a bit.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from device_stand_in import Elsewhere, ElsewhereExecutor

import tcu
from tcu.algorithms import dft, dft_bound, dft_error_bound, dftn, idft, idftn, irdft, rdft
from tcu.algorithms.fourier import bluestein_length, levels, roots
from tcu.errors import DtypeError, ParameterError, ShapeError
from tcu.machine.executors import ModelExecutor
from tcu.units import FusedChain, Instruction, Unit

scipy_fft = pytest.importorskip("scipy.fft", reason="SciPy is the reference")

PRODUCTS = ("four", "three", "embedded")
LENGTHS = (*range(1, 40), 64, 97, 128, 210, 257, 509, 1000, 1024, 1021, 2 * 17 * 31, 2048, 2053)
HALF_UNITS = [
    ("V100", "binary16"),
    ("H100", "binary16"),
    ("A100", "bfloat16"),
    ("A100", "tf32"),
    ("H100", "e4m3"),
]


def ulps(computed: Any, exact: Any, scale: Any) -> float:
    """The largest error in ulps of ``scale``, one for each transform (the last axis)."""
    return float((np.abs(computed - exact) / np.spacing(scale)[..., None]).max())


def limit(n: int, product: str = "four") -> float:
    """Three products add numbers that cancel: twice as much."""
    return 4 * max(1.0, np.log2(n)) * (2 if product == "three" else 1)


def random(rng: np.random.Generator, *shape: int) -> Any:
    return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)


@pytest.mark.slow(2)
@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize("m", [16, 36, 256, 65536])
def test_near_scipy(m: int, product: Any) -> None:
    rng = np.random.default_rng(m)
    machine = tcu.Machine(m, 1)
    for n in LENGTHS:
        x = random(rng, 2, n)
        y = dft(machine, x, product=product)
        assert y.dtype == np.complex128
        rms = np.linalg.norm(x, axis=1)
        assert ulps(y, scipy_fft.fft(x), rms) <= limit(n, product), n
        assert ulps(idft(machine, x, product=product), scipy_fft.ifft(x), rms / n) <= limit(n, product), n


@pytest.mark.slow
def test_near_scipy_with_a_million_numbers() -> None:
    rng = np.random.default_rng(0)
    for n in (1 << 20, 10**6):
        x = random(rng, n)
        assert ulps(dft(tcu.Machine(256), x), scipy_fft.fft(x), np.linalg.norm(x)) <= limit(n)


def structured(n: int) -> list[Any]:
    k = np.arange(n)
    impulse = np.zeros(n)
    impulse[n // 3] = 1
    return [np.full(n, 0.1), impulse, np.cos(np.pi * k), np.exp(2j * np.pi * k * (n // 5) / n), 10.0 ** (k % 37),
            k + 0.5, np.where(k % 7, 0, 1e300), np.full(n, 1e-300)]  # fmt: skip


@pytest.mark.parametrize("product", PRODUCTS)
def test_near_scipy_on_structured_numbers(product: Any) -> None:
    for n in (16, 60, 256, 257, 1000, 4096):
        for x in structured(n):
            exact = scipy_fft.fft(x)
            assert ulps(dft(tcu.Machine(256), x, product=product), exact, np.abs(exact).max()) <= limit(
                n, product
            )
    assert not dft(tcu.Machine(256), np.zeros(100), product=product).any()


def test_the_comparison_sees_small_errors() -> None:
    x = random(np.random.default_rng(1), 1024)
    exact, rms = scipy_fft.fft(x), np.linalg.norm(x)
    y = exact.copy()
    y[77] += 1e-13 * rms
    assert ulps(y, exact, rms) > limit(1024)
    assert ulps(exact[::-1], exact, rms) > 1e12


def test_laws() -> None:
    rng = np.random.default_rng(2)
    for m, n in ((16, 96), (256, 1000), (256, 1021), (4096, 65536)):
        machine = tcu.Machine(m)
        x, y = random(rng, 2, n)
        fx, fy = dft(machine, np.stack([x, y]))
        tiny = 1e-14 * np.linalg.norm(x) * np.log2(n)
        assert np.abs(dft(machine, 2 * x - 3j * y) - (2 * fx - 3j * fy)).max() < 10 * tiny  # linearity
        shifted = fx * roots(n)[np.arange(n) * 5 % n]
        assert np.abs(dft(machine, np.roll(x, 5)) - shifted).max() < tiny  # shift
        energy = np.vdot(fx, fx).real / n
        assert abs(energy - np.vdot(x, x).real) < 1e-13 * energy  # Parseval
        assert np.abs(idft(machine, fx) - x).max() < 1e-13  # inverse
        assert (
            np.abs(dft(machine, dft(machine, x)) / n - np.roll(x[::-1], 1)).max() < 1e-13
        )  # twice is a reversal
        product = idft(machine, fx * fy)[7]  # convolution
        assert abs(product - (x * np.roll(y[::-1], 8)).sum()) < 1e-11
        real = dft(machine, x.real)
        assert np.abs(real[1:] - real[:0:-1].conj()).max() < tiny  # real numbers


@pytest.mark.parametrize("product", PRODUCTS)
def test_real_numbers(product: Any) -> None:
    rng = np.random.default_rng(3)
    machine = tcu.Machine(64)
    for n in (*range(1, 20), 96, 97, 1000, 1001):
        x = rng.standard_normal((3, n))
        rms = np.linalg.norm(x, axis=1)
        y = rdft(machine, x, product=product)
        assert y.shape == (3, n // 2 + 1)
        assert ulps(y, scipy_fft.rfft(x), rms) <= limit(n, product)
        z = random(rng, 3, n // 2 + 1)
        back = irdft(machine, z, n, product=product)
        assert back.dtype == np.float64
        assert ulps(back, scipy_fft.irfft(z, n), 2 * np.linalg.norm(z, axis=1) / n) <= limit(n, product)
    assert np.allclose(irdft(machine, scipy_fft.rfft(x[:, :-1])), x[:, :-1])


def test_half_the_work_for_real_numbers() -> None:
    full, half = tcu.Machine(256), tcu.Machine(256)
    x = np.random.default_rng(0).standard_normal(1 << 16)
    dft(full, x)
    rdft(half, x)
    assert half.ledger.tensor_cost * 2 == full.ledger.tensor_cost


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward", None])
def test_axes_lengths_and_norms(norm: Any) -> None:
    rng = np.random.default_rng(4)
    machine = tcu.Machine(16)
    x = random(rng, 6, 5, 12)
    for axis in (0, 1, 2, -1, -3):
        for n in (None, 3, 12, 20):
            for ours, theirs in ((dft, scipy_fft.fft), (idft, scipy_fft.ifft)):
                assert np.allclose(ours(machine, x, n, axis, norm), theirs(x, n, axis, norm), atol=1e-12)
            assert np.allclose(
                rdft(machine, x.real, n, axis, norm), scipy_fft.rfft(x.real, n, axis, norm), atol=1e-12
            )
            assert np.allclose(
                irdft(machine, x, n, axis, norm), scipy_fft.irfft(x, n, axis, norm), atol=1e-12
            )
    for s, axes in ((None, None), ((4, 7), None), (None, (0, 2)), ((3, 9), (1, 0))):
        assert np.allclose(dftn(machine, x, s, axes, norm), scipy_fft.fftn(x, s, axes, norm), atol=1e-11)
        assert np.allclose(idftn(machine, x, s, axes, norm), scipy_fft.ifftn(x, s, axes, norm), atol=1e-11)
    assert np.array_equal(machine.dftn(x, norm=norm), dftn(machine, x, norm=norm))


def test_integers_bools_and_single_precision_are_numbers() -> None:
    machine = tcu.Machine(16)
    x = np.random.default_rng(5).integers(0, 9, 30)
    for dtype in (np.int64, np.uint8, np.float32, np.float16, bool, np.complex64):
        assert np.allclose(dft(machine, x.astype(dtype)), scipy_fft.fft(x.astype(dtype).astype(complex)))
    assert dft(machine, np.zeros((0, 8))).shape == (0, 8)


@pytest.mark.slow(5)
@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize(("unit", "operand"), HALF_UNITS)
def test_narrow_units_keep_their_bound(unit: str, operand: str, product: Any) -> None:
    rng = np.random.default_rng(6)
    machine = tcu.Machine(256, 1, executor=ModelExecutor(unit, operand))
    for parts in (1, 2, 3) if operand != "tf32" else (1,):
        for n in (2, 16, 60, 256, 509):
            wide = random(rng, n) * 10.0 ** rng.uniform(-9, 9, n)
            x = np.stack([random(rng, n), wide, np.full(n, 0.1), np.cos(np.arange(n) ** 2), 1e-30 * wide])
            exact = scipy_fft.fft(x)
            error = np.linalg.norm(dft(machine, x, product=product, parts=parts) - exact, axis=1)
            bound = dft_error_bound(machine, n, product=product, parts=parts)
            assert (error <= bound * np.linalg.norm(exact, axis=1)).all(), (n, parts)
            back = idft(machine, x, product=product, parts=parts)
            assert (
                np.linalg.norm(back - scipy_fft.ifft(x), axis=1) * n <= bound * np.linalg.norm(exact, axis=1)
            ).all()


@pytest.mark.slow
@pytest.mark.parametrize("chain", [FusedChain(), FusedChain(tuple(range(16))[::-1], rounded_products=True)])
@pytest.mark.parametrize("output", ["binary16", "binary32"])
def test_chains_keep_their_bound(output: str, chain: FusedChain) -> None:
    rng = np.random.default_rng(6)
    row = Instruction("mma", "binary16", "binary16", output, (16, 8, 16), chain, ())
    unit = Unit("chain", "-", "-", "-", (row,))
    machine = tcu.Machine(256, 1, executor=ModelExecutor(unit, "binary16", output))
    for parts, n in ((1, 60), (2, 256), (3, 509)):
        wide = random(rng, n) * 10.0 ** rng.uniform(-9, 9, n)
        for x in (random(rng, n), wide, 1e-30 * wide):
            assert relative_error(machine, x, parts=parts) <= dft_error_bound(machine, n, parts=parts)


def relative_error(machine: Any, x: Any, **options: Any) -> float:
    exact = scipy_fft.fft(x)
    return float(np.linalg.norm(dft(machine, x, **options) - exact) / np.linalg.norm(exact))


def test_bounds_are_within_a_small_factor_where_roundings_of_operands_decide() -> None:
    machine = tcu.Machine(256, executor=ModelExecutor("H100"))
    x = random(np.random.default_rng(7), 4096)
    assert dft_error_bound(machine, 4096) < 10 * relative_error(machine, x)
    # A unit of a third of the bits does not keep it: the bound is not one that anything keeps.
    coarse = tcu.Machine(256, executor=ModelExecutor("H100", "e4m3"))
    assert relative_error(coarse, x) > 10 * dft_error_bound(machine, 4096)


def test_splitting_gains_what_it_says() -> None:
    machine = tcu.Machine(256, executor=ModelExecutor("H100"))
    x = random(np.random.default_rng(8), 1024)
    one, two, three = (relative_error(machine, x, parts=parts) for parts in (1, 2, 3))
    assert two < one / 1000
    assert three < two
    bounds = [dft_error_bound(machine, 1024, parts=parts) for parts in (1, 2, 3)]
    assert bounds[1] < bounds[0] / 50
    assert bounds[2] < bounds[1]


def test_binary64_units_and_the_systolic_array_keep_their_bound() -> None:
    rng = np.random.default_rng(9)
    for executor in (ModelExecutor("H100", "binary64"), "systolic", "ideal"):
        machine = tcu.Machine(16, executor=executor)
        for n in (16, 60, 97):
            assert relative_error(machine, random(rng, n)) <= dft_error_bound(machine, n) < 1e-12


def test_nothing_overflows_on_a_unit_of_narrow_results() -> None:
    machine = tcu.Machine(256, executor=ModelExecutor("H100", "binary16", "binary16"))
    x = np.full(4096, 65504.0)
    assert relative_error(machine, x) <= dft_error_bound(machine, 4096)


@pytest.mark.parametrize("operand", ["binary16", "tf32", "binary64"])
def test_a_transform_does_not_see_the_others(operand: str) -> None:
    rng = np.random.default_rng(10)
    for n in (4, 12, 64, 97, 60):
        machine = tcu.Machine(256, executor=ModelExecutor("H100", operand))
        x = random(rng, 5, n)
        alone = [dft(machine, row, parts=2 if operand == "binary16" else 1) for row in x]
        x[1] *= 1e-20
        x[3, n // 2] = np.nan
        x[2, 0] = np.inf
        together = dft(machine, x, parts=2 if operand == "binary16" else 1)
        for i in (0, 4):
            assert np.array_equal(together[i], alone[i])
        assert np.isnan(together[3]).all()
        assert not np.isfinite(together[2]).any()


@pytest.mark.parametrize("product", PRODUCTS)
def test_split_numbers_have_the_same_bits_from_another_array_library(product: Any) -> None:
    rng = np.random.default_rng(11)
    machine = tcu.Machine(256, executor=ElsewhereExecutor(ModelExecutor("A100")))
    here = tcu.Machine(256, executor=ModelExecutor("A100"))
    for n in (16, 60, 97, 509):
        x = random(rng, 3, n) * np.array([[1e-9], [1], [1e9]])
        there = idft(machine, Elsewhere(x), product=product, parts=3)
        assert there.get().tobytes() == idft(here, x, product=product, parts=3).tobytes()


@pytest.mark.parametrize("product", PRODUCTS)
def test_counting_runs_the_same_program(product: Any) -> None:
    rng = np.random.default_rng(12)
    for n in (16, 60, 97, 509, 1018, 4096):
        real, counting = tcu.Machine(64, 5), tcu.Machine(64, 5, executor="count")
        x = random(rng, 3, n)
        for machine in (real, counting):
            assert dft(machine, x, product=product).shape == (3, n)
            rdft(machine, x.real, product=product)
            irdft(machine, x, product=product)
        assert real.ledger == counting.ledger


def test_one_tall_call_for_each_level_and_matrix() -> None:
    for product, calls, rows in (("four", 2, 2), ("three", 3, 1)):
        machine = tcu.Machine(256, 7, executor="count")
        n = 16**5
        dft(machine, machine.shape(n, complex), product=product)
        tensor = [entry for entry in machine.ledger if entry.kind == "tensor"]
        assert [(e.rows, e.count) for e in tensor] == [(rows * n // 16, calls)] * 5
        assert {entry.path for entry in tensor} == {("dft", f"level {i}, length 16") for i in range(1, 6)}


def test_lengths_are_cut_into_the_fewest_dfts() -> None:
    for widest in (2, 4, 16, 100):
        for n in range(2, 600):
            plan = levels(n, widest)
            assert np.prod([level.length for level in plan]) == n
            assert not any(level.convolved for level in plan if level.length <= widest)
            assert bluestein_length(n, widest) >= 2 * n - 1
    assert [level.length for level in levels(16**3 * 2, 16)] in ([16, 16, 16, 2], [16, 16, 8, 4])
    assert levels(1000003, 16)[0].convolved
    assert not levels(17, 16)[0].convolved


def fullest_split(n: int, widest: int) -> tuple[int, float]:
    """The fewest factors up to ``widest``, and the least sum of what each takes of the columns that it can use."""
    best = {1: (0, 0.0)}
    for value in range(2, n + 1):
        if n % value == 0:
            best[value] = min(
                ((best[value // d][0] + 1, best[value // d][1] + widest / (d * (widest // d)))
                 for d in range(2, min(widest, value) + 1) if value % d == 0 and value // d in best),
                default=(n, 0.0),
            )  # fmt: skip
    return best[n]


@pytest.mark.parametrize("widest", [2, 3, 4, 5, 8, 16, 31, 100])
def test_among_as_few_dfts_those_that_fill_the_unit(widest: int) -> None:
    for n in (*range(2, 300), 720, 1024, 1260, 2520, 5040, 7560, 10080, 55440, 2 * 3 * 5 * 7 * 11 * 13):
        plan = [level.length for level in levels(n, widest) if level.length <= widest]
        count, width = fullest_split(int(np.prod(plan, initial=1)), widest)
        assert len(plan) == count
        assert sum(widest / (f * (widest // f)) for f in plan) == pytest.approx(width)


@pytest.mark.parametrize(
    ("n", "primes"),
    [
        (1 << 64, [2] * 64),
        ((1 << 61) - 1, [(1 << 61) - 1]),
        (10**18 + 3, [10**18 + 3]),
        (18446744073709551557, [18446744073709551557]),
        (4294967291 * 4294967279, [4294967279, 4294967291]),
        (4294967291**2, [4294967291] * 2),
        (2097143**3, [2097143] * 3),
        (6 * 1021 * 1031 * 1031 * 999999937, [2, 3, 1021, 1031, 1031, 999999937]),
        (3215031751, [151, 751, 28351]),  # passes for a prime with the witnesses 2, 3, 5 and 7
        (3825123056546413051, [149491, 747451, 34233211]),  # and with all up to 23
    ],
)
def test_every_length_up_to_2_64_has_its_primes(n: int, primes: list[int]) -> None:
    assert sorted(level.length for level in levels(n, 2)) == primes
    counted = tcu.Machine(256, executor="count")
    counted.dft(counted.shape(n, complex))
    assert counted.cost > n


def test_roots_have_the_symmetries_of_the_circle() -> None:
    for n in (1, 2, 3, 4, 7, 8, 12, 97, 360, 1000):
        w = roots(n)
        assert w[0] == 1
        assert np.array_equal(w[1:], w[:0:-1].conj())
        pi = np.longdouble("3.14159265358979323846264338327950288")
        exact = np.exp(-2j * pi * np.arange(n) / np.longdouble(n))
        assert np.abs((w - exact).astype(complex)).max() < 2e-16
        if n % 4 == 0:
            assert np.array_equal(w[n // 4 :], -1j * w[: -n // 4])


def test_errors() -> None:
    machine, x = tcu.Machine(16), np.ones((2, 3))
    with pytest.raises(ShapeError, match=r"axis=2: x has shape \(2, 3\)"):
        dft(machine, x, axis=2)
    with pytest.raises(ShapeError, match="a DFT of length 0: give at least one number"):
        dft(machine, x, 0)
    with pytest.raises(ShapeError, match=r"a DFT of length 18446744073709551617: give .* and at most 2\^64"):
        dft(machine, x, (1 << 64) + 1)
    with pytest.raises(ShapeError, match=r"a DFT of length about 10\^5000: give at least one number"):
        dft(machine, x, 10**5000)
    with pytest.raises(
        ParameterError,
        match=r"a DFT of length 2432902008176640000: 41,040 divisors, 4,976 of them up to 1048576, make too many "
        r"products to compare; take a length of fewer divisors, such as 2\^61, or a smaller m",
    ):
        levels(math.factorial(20), 1 << 20)
    with pytest.raises(ParameterError, match="m=1: log_m n has no value; take m=4 or more"):
        dft_bound((1, 0), 8)
    with pytest.raises(ShapeError, match="axis=-1: x has shape"):
        dft(machine, 3.0)
    with pytest.raises(ParameterError, match=r"n=2\.5: give the length"):
        dft(machine, x, 2.5)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="axis='x': give an integer"):
        dft(machine, x, axis="x")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="norm='none': choose 'backward', 'ortho' or 'forward'"):
        dft(machine, x, norm="none")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="product='five': choose one of four, three, embedded"):
        dft(machine, x, product="five")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="parts=4: split each number into 1, 2 or 3"):
        dft(machine, x, parts=4)
    with pytest.raises(
        ParameterError, match="parts=2: <executor ideal> takes binary64; numbers are split for"
    ):
        dft(machine, x, parts=2)
    with pytest.raises(ParameterError, match="m=1: a unit of side 1 does no 'four' DFT; take m=4 or more"):
        dft(tcu.Machine(1), x)
    with pytest.raises(
        ParameterError, match="m=4: a unit of side 2 does no 'embedded' DFT; take m=16 or more"
    ):
        dft(tcu.Machine(4), x, product="embedded")
    for several in ({"axes": 0}, {"s": 4}):
        with pytest.raises(
            ParameterError, match=r"(axes=0|s=4): give one for each axis, such as \((0|4),\), or"
        ):
            tcu.Machine(16).dftn(x, **several)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match=r"s=\(2, 3\), axes=\(0,\): give one length for each axis"):
        dftn(machine, x, (2, 3), (0,))
    with pytest.raises(
        DtypeError, match="x has dtype complex128: rdft takes real numbers; dft takes complex ones"
    ):
        rdft(machine, x + 0j)
    with pytest.raises(DtypeError, match="x has dtype object: give real or complex numbers"):
        dft(machine, np.array([1, 2], object))
    with pytest.raises(DtypeError, match="multiplies integers only: a DFT needs a unit of real numbers"):
        dft(tcu.Machine(256, executor=ModelExecutor("H100", "u8")), x)
    bfloat = ElsewhereExecutor(ModelExecutor("A100", "bfloat16"))
    with pytest.raises(
        ParameterError, match="parts=2: device_stand_in has no arrays of bfloat16; take parts=1"
    ):
        dft(tcu.Machine(256, executor=bfloat), Elsewhere(x), parts=2)
