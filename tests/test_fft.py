"""Contract of transforms on the host: the bits of their plans, taken literally from the definition (tests/fft_definition.py);
errors within tcu.fft.error_bound, for every length from 1 to 600 and long ones; the laws of the transform; bits that no
batch, stride, axis or number of threads changes; binary16 that neither overflows nor loses small numbers between passes; and
inf and NaN that stay in their own transform.

tests/test_fft_surfaces.py holds the functions to NumPy's conventions, tests/test_torch_fft.py and tests/test_dask_fft.py
other libraries' arrays.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import fft_definition
import numpy as np
import numpy.typing as npt
import pytest
from bits import same

import tcu
from tcu.engines import host
from tcu.model.fft import error_of, transform
from tcu.ops.fft import FftCall, plan_of, real_format
from tcu.plan import fft as plans
from tcu.plan.fft import IN_BINARY16, FftPlan, Pass, fft_plan

RNG = np.random.default_rng(36)
KINDS = ("forward", "inverse", "from_real", "to_real")
DTYPES = (np.float16, np.float32, np.float64)
UNIT = {np.float16: 2.0**-24, np.float32: 2.0**-24, np.float64: 2.0**-53}


def request(x: npt.NDArray[Any], kind: Any, n: int, factor: float = 1.0) -> FftCall:
    """Along the last axis of numbers; complex ones are pairs."""
    pairs = kind != "from_real"
    return FftCall(x, kind, n, x.ndim - 1 - pairs, factor, pairs)


def drawn(kind: str, n: int, dtype: Any, rows: int = 3, rng: Any = RNG) -> npt.NDArray[Any]:
    count = n // 2 + 1 if kind == "to_real" else n
    return np.asarray(
        rng.standard_normal((rows, count) if kind == "from_real" else (rows, count, 2)).astype(dtype)
    )


def as_complex(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Pairs, or complex numbers, in long double."""
    x = np.asarray(x)
    return (
        x.astype(np.clongdouble) if x.dtype.kind == "c" else x[..., 0].astype(np.clongdouble) + 1j * x[..., 1]
    )


def parts(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.stack([x.real, x.imag], -1) if x.dtype.kind == "c" else x


def exact(x: npt.NDArray[Any], kind: str, n: int) -> npt.NDArray[Any]:
    """By SciPy in long double, whose errors are a thousandth of binary64's."""
    fft = pytest.importorskip("scipy.fft", reason="SciPy is not installed")
    if np.finfo(np.longdouble).nmant < 60:
        pytest.skip("long double has no more digits than binary64 here")
    if kind == "from_real":
        return np.asarray(fft.rfft(x.astype(np.longdouble), n))
    wide = as_complex(x)
    if kind == "to_real":
        wide[..., 0] = wide[..., 0].real
        return np.asarray(fft.irfft(wide, n, norm="forward"))
    return np.asarray(fft.fft(wide, n) if kind == "forward" else fft.ifft(wide, n, norm="forward"))


def ratio(x: npt.NDArray[Any], kind: Any, n: int) -> float:
    """The largest error of the lines of x over its bound."""
    found, right = host.fft(request(x, kind, n)), exact(x, kind, n)
    found = as_complex(found) if kind != "to_real" else found.astype(np.longdouble)
    size = np.linalg.norm(right, axis=-1)
    if kind == "from_real":  # of all n numbers
        size = np.sqrt(n) * np.linalg.norm(x.astype(np.longdouble), axis=-1)
    off = np.linalg.norm(found - right, axis=-1) / size
    return float(off.max()) / tcu.fft.error_bound(n, x.dtype, kind)


# The bits are those of the plan.

LENGTHS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 15, 16, 17, 20, 27, 34, 35, 60, 64)
"""One level and two, of every butterfly; primes; twice a prime."""


@pytest.mark.some(34)
@pytest.mark.slow(2)
@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_bits_are_those_of_the_definition(kind: Any, n: int) -> None:
    rng = np.random.default_rng(n)
    for dtype in DTYPES:
        x = drawn(kind, n, dtype, 1, rng)[0]
        x.reshape(-1)[: x.size // 3] *= -0.0
        for factor in (1.0, 1 / n):
            found = parts(host.fft(request(x, kind, n, factor)))
            same(found, fft_definition.call(request(x, kind, n, factor)).astype(dtype), kind, n, dtype)


PASSES = (((4,), (5,)), ((4, 3), (5, 2)), ((3, 2), (6,), (2, 2)))


@pytest.mark.some(7)
@pytest.mark.slow(1)
@pytest.mark.parametrize("radices", PASSES)
@pytest.mark.parametrize("storage", ["binary16", "binary32", "binary64"])
@pytest.mark.parametrize("inverse", [False, True])
def test_the_bits_of_several_passes_are_those_of_the_definition(
    radices: tuple[tuple[int, ...], ...], storage: Any, inverse: bool
) -> None:
    """Of plans shorter than those that lengths would have; numbers at both ends of the range, zeros of both signs, inf."""
    work: Any = "binary64" if storage == "binary64" else "binary32"
    passes = tuple(Pass(int(np.prod(each)), each) for each in radices)
    n = int(np.prod([each.length for each in passes]))
    plan = FftPlan(n, work, storage, passes)
    x = RNG.standard_normal((5, n, 2)) * np.array([1, 1e-30, 1e-42, 3e30, 1])[:, None, None]
    x[3:, ::2] *= 0.0
    x[4, 3, 1] = np.inf
    x = x.astype(np.float64 if work == "binary64" else np.float32)
    with np.errstate(all="ignore"):
        found = transform(x, plan, 1 / 3, inverse=inverse)
        for line, result in zip(x, found, strict=True):
            numbers = [(float(re), float(im)) for re, im in line]
            right = np.array(fft_definition.transform(numbers, plan, 1 / 3, inverse=inverse)).astype(x.dtype)
            there = ~np.isnan(result)
            assert (there == ~np.isnan(right)).all()
            same(result[there], right[there], plan)


HALVES = (((4, 3),), ((5,),), ((4,), (5,)), ((4, 3), (5, 2)), ((3, 2), (6,), (2, 2)))
"""Of the first two, a transform has as many numbers of even place as of odd."""


@pytest.mark.some(5)
@pytest.mark.slow(1)
@pytest.mark.parametrize("radices", HALVES)
@pytest.mark.parametrize("inverse", [False, True])
def test_the_bits_of_transforms_in_binary16_are_those_of_the_definition(
    radices: tuple[tuple[int, ...], ...], inverse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of plans shorter than those that lengths have, where less is divided by so much that it shows; as above."""
    monkeypatch.setattr(plans, "_ROOM", 3)
    passes = tuple(Pass(int(np.prod(each)), each) for each in radices)
    n = int(np.prod([each.length for each in passes])) * (1 + (len(passes) == 1))
    plan = FftPlan(n, "binary16", "binary16", passes, halved=len(passes) == 1)
    assert any(plan.falls)
    x = RNG.standard_normal((8, n, 2)) * np.array([1, 1e-4, 1e-7, 1e4, 1, 1, 1, 1])[:, None, None]
    x[4:, ::2] *= 0.0
    x[5, 3, 1], x[6, 2, 0], x[7] = np.inf, np.nan, 0
    x[1:4] *= 2.0 ** RNG.integers(-12, 1, (3, n, 1))
    x = x.astype(np.float16).astype(np.float32)
    with np.errstate(all="ignore"):
        for factor in (1.0, 1 / 3):
            found = transform(x, plan, factor, inverse=inverse)
            for line, result in zip(x, found, strict=True):
                numbers = [(float(re), float(im)) for re, im in line]
                right = np.array(fft_definition.transform(numbers, plan, factor, inverse=inverse)).astype(
                    x.dtype
                )
                there = ~np.isnan(result)
                assert (there == ~np.isnan(right)).all()
                same(result[there], right[there], plan)


def test_the_bits_of_a_length_that_is_transformed_in_binary16() -> None:
    x = drawn("forward", 4096, np.float16, 1)[0]
    assert plan_of(request(x, "forward", 4096), real_format(x.dtype)).work == "binary16"
    same(
        host.fft(request(x, "forward", 4096)),
        fft_definition.call(request(x, "forward", 4096)).astype(np.float16),
    )


def test_a_wrong_root_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the definition is compared with decides: one root of a table off by one unit changes bits."""
    x = drawn("forward", 20, np.float64, 1)[0]
    right = fft_definition.call(request(x, "forward", 20))
    real = fft_definition.unit_roots

    def wrong(n: int, work: str) -> npt.NDArray[Any]:
        table = real(n, work).copy()
        table[1] = np.nextafter(table[1], 0)
        return table

    monkeypatch.setattr(fft_definition, "unit_roots", wrong)
    assert (fft_definition.call(request(x, "forward", 20)) != right).any()


# The error.


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_errors_of_every_length_to_600_are_below_the_bound(
    dtype: Any, kind: Any, request: pytest.FixtureRequest
) -> None:
    """Without --all-cases, of every length to 128, and of some beyond."""
    rng = np.random.default_rng(5)
    some = {*range(1, 129), 509, 512, 600, *rng.integers(129, 601, 50).tolist()}
    lengths = range(1, 601) if request.config.getoption("--all-cases") else sorted(some)
    found = {n: ratio(drawn(kind, n, dtype, 4, rng), kind, n) for n in lengths}
    worst = max(found, key=lambda n: found[n])
    assert found[worst] <= 1, f"n = {worst}: {found[worst]:.2f} of the bound"
    assert found[worst] > 0.05, f"the bound says little: the worst is n = {worst}, {found[worst]:.2g} of it"


@pytest.mark.slow(2)
@pytest.mark.parametrize("n", [1, 2, 7, 16, 23, 30])
@pytest.mark.parametrize("kind", KINDS)
def test_errors_beside_exact_sums_are_below_the_bound(kind: Any, n: int) -> None:
    mpmath = pytest.importorskip("mpmath", reason="mpmath is not installed")
    x = drawn(kind, n, np.float64, 1)[0]
    line = x if kind == "from_real" else as_complex(x)
    with mpmath.workprec(200):
        given = [mpmath.mpc(float(each.real), float(each.imag)) for each in np.atleast_1d(line)]
        if kind == "to_real":
            given[0] = mpmath.mpc(given[0].real)
            if n % 2 == 0:
                given[-1] = mpmath.mpc(given[-1].real)
            given += [mpmath.conj(each) for each in given[1 : (n + 1) // 2][::-1]]
        sign = -2 if kind in ("forward", "from_real") else 2
        right = [
            sum(a * mpmath.expjpi(mpmath.mpf(sign * j * k) / n) for j, a in enumerate(given))
            for k in range(n)
        ]
        size = mpmath.sqrt(sum(abs(each) ** 2 for each in right))
        found = parts(np.atleast_1d(host.fft(request(x, kind, n))))
        if kind == "to_real":
            got = [mpmath.mpc(float(each)) for each in found]
        else:
            got = [mpmath.mpc(*map(float, each)) for each in found]
        off = mpmath.sqrt(sum(abs(a - b) ** 2 for a, b in zip(got, right, strict=False)))
        assert float(off / size) <= tcu.fft.error_bound(n, "float64", kind)


LONG = (1 << 14, 1 << 15, 3 * 5 * 7 << 8, 3**9, 5 << 12, 10007, 1 << 16, 1 << 20)


@pytest.mark.some(9)
@pytest.mark.slow(2)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [*LONG, pytest.param(1 << 24, marks=pytest.mark.slow)])
def test_errors_of_long_transforms_are_below_the_bound(n: int, dtype: Any) -> None:
    rng = np.random.default_rng(n)
    for kind in ("forward", "from_real") if n < 1 << 24 else ("forward",):
        assert ratio(drawn(kind, n, dtype, 1, rng), kind, n) <= 1, kind


def test_a_result_that_is_off_by_the_bound_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    x = drawn("forward", 48, np.float64, 1)
    right = host.fft(request(x, "forward", 48))

    def off(call: FftCall) -> Any:
        return right * (1 + 2 * tcu.fft.error_bound(48, "float64"))

    monkeypatch.setattr(host, "fft", off)
    assert ratio(x, "forward", 48) > 1


def test_the_bound_is_the_plans_and_a_little_more() -> None:
    for n in (8, 1000, 1 << 15, 1 << 20, 1009):
        for dtype in DTYPES:
            plan = plan_of(FftCall(None, "forward", n, 0), real_format(np.dtype(dtype)))
            own, more = error_of(plan), tcu.fft.error_bound(n, dtype)
            rounding = 2.0**-11 if dtype is np.float16 else 0.0
            assert own < more < (own + 4 * UNIT[dtype] + rounding) * (1 + 2.0**-9)
    assert tcu.fft.error_bound(256, "complex64") == tcu.fft.error_bound(256, np.float32)
    assert tcu.fft.error_bound(256, "complex32") == tcu.fft.error_bound(256, np.float16)


# Laws.

SOME = (1, 2, 12, 30, 97, 256, 1000)


def close(
    found: npt.NDArray[Any], right: npt.NDArray[Any], n: int, times: float = 1, kind: Any = "forward"
) -> None:
    off = np.linalg.norm((found - right).astype(np.clongdouble), axis=-1)
    assert (off <= times * tcu.fft.error_bound(n, "float64", kind) * np.linalg.norm(right, axis=-1)).all()


def line(n: int) -> npt.NDArray[np.complex128]:
    return RNG.standard_normal((4, n)) + 1j * RNG.standard_normal((4, n))


@pytest.mark.parametrize("n", SOME)
def test_a_transform_is_linear(n: int) -> None:
    x, y = line(n), line(n)
    left, right = tcu.fft.fft(x + 2 * y), tcu.fft.fft(x) + 2 * tcu.fft.fft(y)
    size = np.linalg.norm(np.abs(x) + 2 * np.abs(y), axis=-1) * np.sqrt(n)
    bound = 3 * tcu.fft.error_bound(n, "float64") + 2.0**-51
    assert (np.linalg.norm(left - right, axis=-1) <= bound * size).all()
    same(tcu.fft.fft(4 * x), 4 * tcu.fft.fft(x), "a power of two is a factor of every step")


@pytest.mark.parametrize("n", SOME)
def test_an_impulse_becomes_roots_of_unity(n: int) -> None:
    for at in {0, 1 % n, n // 3, n - 1}:
        x = np.zeros(n)
        x[at] = 1
        right = np.exp(-2j * np.pi * (at * np.arange(n) % n) / n)
        close(tcu.fft.fft(x), right, n, 1.5)
    x = np.zeros(n)
    x[0] = 1
    if fft_plan(n, "binary64").chirp is None:
        same(tcu.fft.fft(x), np.ones(n) + 0j, "of number 0: ones")


@pytest.mark.parametrize("n", SOME)
def test_a_shift_turns_what_comes_out(n: int) -> None:
    x, by = line(n), max(1, n // 3)
    turned = tcu.fft.fft(x) * np.exp(-2j * np.pi * (by * np.arange(n) % n) / n)
    close(tcu.fft.fft(np.roll(x, by, -1)), turned, n, 3)
    close(
        np.roll(tcu.fft.fft(x), by, -1),
        tcu.fft.fft(x * np.exp(2j * np.pi * (by * np.arange(n) % n) / n)),
        n,
        3,
    )


@pytest.mark.parametrize("n", SOME)
def test_energy_stays_and_the_inverse_undoes_it(n: int) -> None:
    x = line(n)
    y = tcu.fft.fft(x, norm="ortho")
    bound = tcu.fft.error_bound(n, "float64")
    assert np.abs(np.linalg.norm(y, axis=-1) / np.linalg.norm(x, axis=-1) - 1).max() <= 2 * bound
    close(tcu.fft.ifft(tcu.fft.fft(x)), x, n, 2.5)
    real = x.real.copy()
    back = tcu.fft.irfft(tcu.fft.rfft(real), n)
    size = np.linalg.norm(real, axis=-1)
    both = tcu.fft.error_bound(n, "float64", "from_real") * np.sqrt(2) + tcu.fft.error_bound(
        n, "float64", "to_real"
    )
    assert (np.linalg.norm(back - real, axis=-1) <= 1.01 * both * size).all()
    close(np.conj(tcu.fft.fft(np.conj(x))), tcu.fft.ifft(x, norm="forward"), n, 2.5)


# The same bits.

SHAPES = (7, 60, 97, 256, 1000)


@pytest.mark.parametrize("n", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_transform_has_the_same_bits_in_every_batch(kind: Any, dtype: Any, n: int) -> None:
    x = drawn(kind, n, dtype, 1000)
    all_of_them = host.fft(request(x, kind, n))
    for at in (0, 1, 15, 16, 500, 999):
        same(host.fft(request(x[at], kind, n)), all_of_them[at], kind, n, at)
    for count in (2, 3):
        same(host.fft(request(x[17 : 17 + count], kind, n)), all_of_them[17 : 17 + count])
    strided = np.repeat(x, 3, axis=1)[:, ::3]
    same(host.fft(request(strided, kind, n)), all_of_them, "strided")
    same(host.fft(request(x[::-2], kind, n)), all_of_them[::-2], "backwards")
    folded = x.reshape(8, 125, *x.shape[1:])
    for axis in (0, 1):
        moved = np.moveaxis(folded, 2, axis)
        call = FftCall(moved, kind, n, axis, 1.0, kind != "from_real")
        same(
            np.moveaxis(host.fft(call), axis, 2),
            all_of_them.reshape(8, 125, *all_of_them.shape[1:]),
            "axis",
            axis,
        )


@pytest.mark.parametrize("n", [48, 1 << 15, 10007])
def test_threads_change_no_bit(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x = drawn("forward", n, np.float16, 40 if n < 1000 else 3)
    found = []
    for threads in (1, 2, 3, 8):
        monkeypatch.setenv("TCU_NUM_THREADS", str(threads))
        found.append(host.fft(request(x, "forward", n)))
    for each in found[1:]:
        same(each, found[0])


def test_what_is_cut_and_padded_has_the_bits_of_what_is_transformed() -> None:
    x = line(50)
    same(tcu.fft.fft(x, 40), tcu.fft.fft(x[:, :40]))
    same(tcu.fft.fft(x, 64), tcu.fft.fft(np.pad(x, ((0, 0), (0, 14)))))
    same(tcu.fft.rfft(x.real, 64), tcu.fft.rfft(np.pad(x.real, ((0, 0), (0, 14)))))
    same(tcu.fft.irfft(x, 64), tcu.fft.irfft(x[:, :33]))


# binary16, and numbers that are none.


@pytest.mark.slow(2)
@pytest.mark.parametrize("n", [1 << 10, 1 << 15, 1 << 16, 45 << 10])
@pytest.mark.parametrize("magnitude", [2.0**-24, 2.0**-14, 1.0, 6e4])
def test_pairs_of_binary16_neither_overflow_nor_vanish_between_passes(magnitude: float, n: int) -> None:
    """What comes out is scaled by 1/8√n: inside, numbers are much larger."""
    x = (magnitude * np.sign(RNG.standard_normal((2, n, 2)))).astype(np.float16)
    found = host.fft(request(x, "forward", n, 1 / np.sqrt(64 * n)))
    assert np.isfinite(found).all()
    right = exact(x, "forward", n) / np.sqrt(64 * n)
    off = np.linalg.norm(as_complex(found) - right, axis=-1)
    bound = tcu.fft.error_bound(n, np.float16) * np.linalg.norm(right, axis=-1)
    assert (off <= bound + 2.0**-25 * np.sqrt(2 * n)).all()


@pytest.mark.parametrize("n", [1 << 15, 1 << 18])
def test_one_large_number_beside_small_ones_keeps_them_within_the_bound(n: int) -> None:
    x = np.full((1, n, 2), 2.0**-14, np.float16)
    x[0, 5] = 4e4
    assert ratio(x, "forward", n) <= 1
    rng, factor = (
        np.random.default_rng(n),
        2.0**-10,
    )  # by which no result comes near binary16's largest number
    spread = np.ldexp(np.sign(rng.standard_normal((2, n, 2))), rng.integers(-24, 16, (2, n, 1)))
    spread = spread.astype(np.float16)
    found = host.fft(request(spread, "forward", n, factor))
    right = exact(spread, "forward", n) * factor
    off = np.linalg.norm(as_complex(found) - right, axis=-1)
    bound = tcu.fft.error_bound(n, np.float16) * np.linalg.norm(right, axis=-1)
    assert (off <= bound + 2.0**-25 * np.sqrt(2 * n)).all()


@pytest.mark.parametrize("n", [16, 30, 97, 1 << 15])
@pytest.mark.parametrize("kind", KINDS)
def test_inf_and_nan_touch_no_other_transform(kind: Any, n: int) -> None:
    for dtype in DTYPES:
        x = drawn(kind, n, dtype, 40 if n < 100 else 4)
        with np.errstate(all="ignore"):
            right = host.fft(request(x, kind, n))
            for value in (np.inf, -np.inf, np.nan):
                spoiled = x.copy()
                spoiled[2].reshape(-1)[5] = value
                found = host.fft(request(spoiled, kind, n))
                rest = [each for each in range(len(x)) if each != 2]
                same(found[rest], right[rest], kind, n, dtype, value)
                assert not np.isfinite(parts(found[2])).all()


def test_zeros_keep_the_signs_that_the_plan_gives_them() -> None:
    """Like signs add up to that sign, unlike ones to +0; alone and among others."""
    zeros = np.array([[0.0, 0.0], [0.0, -0.0], [-0.0, 0.0], [-0.0, -0.0]])
    for n in (1, 2, 4, 6, 15):
        x = zeros[RNG.integers(0, 4, (20, n))]
        found = parts(host.fft(request(x, "forward", n)))
        assert not found.any()
        for at, given in enumerate(x):
            same(found[at], fft_definition.call(request(given, "forward", n)))
    same(tcu.fft.fft(np.array([-0.0, -0.0], complex)).real, np.array([-0.0, 0.0]))
    same(tcu.fft.fft(np.zeros(1000)), np.zeros(1000, complex))


# Plans.


def test_lengths_have_as_few_passes_as_there_can_be() -> None:
    for storage, most in (("binary16", 1 << 15), ("binary32", 1 << 15), ("binary64", 1 << 13)):
        assert len(fft_plan(most, storage).passes) == 1  # type: ignore[arg-type]
        assert len(fft_plan(2 * most, storage).passes) == 2  # type: ignore[arg-type]
    for n in (1, 12, 1000, 3**9, 1 << 20, 1 << 26, 1 << 30):
        plan = fft_plan(n, "binary32")
        assert np.prod([each.length for each in plan.passes]) == n
        for each in plan.passes:
            assert np.prod(each.radices) == each.length
        assert plan.operations >= 0
    assert fft_plan(1009, "binary16").storage == "binary32", "a chirp's numbers stay wide"
    assert str(fft_plan(48, "binary32")) == "fft 48 = 12·4 in binary32"
    assert str(fft_plan(1009, "binary64")).startswith("fft 1009: chirp, fft 2")
    assert ", stored as binary16" in str(fft_plan(3**9, "binary16"))
    least, most = IN_BINARY16
    assert [fft_plan(n, "binary16").work for n in (least - 2, least, least + 1, most, 2 * most)] == [
        "binary32", "binary16", "binary32", "binary16", "binary32",
    ]  # fmt: skip
    assert str(fft_plan(least, "binary16")) == "fft 4096 = 16·16·8 and 2 in binary16"


@pytest.mark.parametrize("converts", [False, True])
def test_numbers_are_rounded_to_binary16_alike_on_every_processor(
    monkeypatch: pytest.MonkeyPatch, converts: bool
) -> None:
    """Also on those that do not convert; and FMAs are rounded once."""
    from numba import njit

    from tcu.model import fft_kernels

    if converts and not fft_kernels._CONVERTS:
        pytest.skip("this processor does not convert to binary16")
    monkeypatch.setattr(fft_kernels, "_CONVERTS", converts)
    rounded, fused = fft_kernels._rounded, fft_kernels._fused

    @njit
    def all_rounded(x: Any) -> Any:
        return np.array([rounded(each) for each in x])

    @njit
    def all_fused(x: Any, y: Any, z: Any) -> Any:
        return np.array([fused(x[i], y[i], z[i]) for i in range(x.size)])

    rng = np.random.default_rng(7)
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
    finite = halves[np.isfinite(halves)]
    ties = ((finite[:-1].astype(np.float64) + finite[1:]) / 2).astype(np.float32)
    x = np.concatenate([
        halves, ties, np.nextafter(ties, np.float32(np.inf)), np.nextafter(ties, np.float32(-np.inf)),
        rng.integers(1 << 32, size=1 << 16, dtype=np.uint32).view(np.float32), np.float32([65519.99, 65520, -65520, 1e-45]),
    ])  # fmt: skip
    with np.errstate(over="ignore", invalid="ignore"):
        wanted = x.astype(np.float16).astype(np.float32)
    found = all_rounded(x)
    assert np.array_equal(found, wanted, equal_nan=True)
    assert np.array_equal(np.signbit(found)[~np.isnan(x)], np.signbit(wanted)[~np.isnan(x)])

    a, b = (rng.choice(finite, 4000) for _ in range(2))
    with np.errstate(over="ignore"):
        near = -(a * b).astype(np.float16).astype(np.float32)
    c = np.where(rng.random(4000) < 0.5, rng.choice(finite, 4000), near)
    c[~np.isfinite(c)] = 1
    for x, y, z, got in zip(a, b, c, all_fused(a, b, c), strict=True):
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        assert abs(exact) >= 65520 or got == nearest_half(exact), (x, y, z)


def nearest_half(exact: Fraction) -> float:
    """To nearest, ties to even, of less than binary16's largest number."""
    unit = Fraction(2) ** -24
    while abs(exact) >= 2048 * unit:
        unit *= 2
    return float(round(exact / unit) * unit)
