"""Contract of ``tcu.fdot``, ``tcu.fnorm`` and ``tcu.fmean``: the exact result, rounded once.

Equal to rational arithmetic rounded by an independent routine, in every
format, over arrays built to hurt: products beyond both ends of binary64's
range, sums that cancel to the last bit, ties that a sticky bit decides.  The
same bits in every order.  Specials: a product with inf or NaN is IEEE 754's
(0 · inf is NaN); NaN wins; inf and -inf together raise; zero is +0.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rationals import exact_dot, exact_sum
from test_exact import equal, painful, rounded

import tcu
from tcu.errors import DtypeError, InvalidOperationError, ParameterError
from tcu.formats import decode, format_of
from tcu.model import kernels

DTYPES = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]


def check_dot(x: np.ndarray, y: np.ndarray, target: object) -> None:
    got, expected = tcu.fdot(x, y, dtype=target), rounded(exact_dot(x, y), target)
    assert equal(got, expected), f"{float(got).hex()}, not {float(expected).hex()}"


def check_norm(x: np.ndarray, target: object) -> None:
    """The root lies between the halfway points to its neighbours; on one, it is even."""
    fmt = format_of(target)
    got = np.array([tcu.fnorm(x, dtype=target)])
    code = int(got.view(fmt.code_dtype)[0])
    assert got.dtype == np.dtype(target)
    square = exact_dot(x, x)

    def value(code: int) -> Fraction:
        beyond = Fraction(2) ** (fmt.emax + 1)
        return decode(code, fmt).value if code <= fmt.max_finite_code else beyond

    assert 0 <= code <= fmt.infinity_code
    if code > 0:
        half = ((value(code - 1) + value(code)) / 2) ** 2
        assert half < square or (half == square and code % 2 == 0), f"{code:#x} is too large"
    if code < fmt.infinity_code:
        half = ((value(code) + value(code + 1)) / 2) ** 2
        assert square < half or (half == square and code % 2 == 0), f"{code:#x} is too small"


def finite(values: list[float], dtype: object) -> np.ndarray:
    with np.errstate(over="ignore"):
        x = np.array(values, np.float64).astype(dtype)
    return x[np.isfinite(x)]


@given(painful(64), st.randoms(), st.sampled_from(DTYPES), st.sampled_from(DTYPES))
def test_dot_equals_rational_arithmetic_in_every_order(values, rng, dtype, target) -> None:
    x = finite(values, dtype)
    y = x.copy()
    rng.shuffle(y)
    check_dot(x, y, target)
    order = list(range(x.size))
    rng.shuffle(order)
    assert equal(tcu.fdot(x[order], y[order], dtype=target), float(tcu.fdot(x, y, dtype=target)))
    assert equal(tcu.fdot(y, x, dtype=target), float(tcu.fdot(x, y, dtype=target)))


@pytest.mark.slow
@given(painful(64), st.sampled_from(DTYPES), st.sampled_from(DTYPES))
def test_cancellation_leaves_the_last_bit(values, dtype, target) -> None:
    x = finite(values, dtype)
    ones = np.ones(x.size, dtype)
    check_dot(np.concatenate([x, x, [dtype(1.5)]]), np.concatenate([x, -x, [dtype(0.75)]]), target)
    check_dot(x, ones, target)
    assert equal(tcu.fdot(x, ones, dtype=target), float(tcu.fsum(x, dtype=target)))


@given(painful(64), st.sampled_from(DTYPES), st.sampled_from(DTYPES))
def test_norm_equals_rational_arithmetic(values, dtype, target) -> None:
    check_norm(finite(values, dtype), target)


@given(painful(64), st.sampled_from(DTYPES), st.sampled_from(DTYPES))
def test_mean_equals_rational_arithmetic(values, dtype, target) -> None:
    x = finite(values, dtype)
    if x.size:
        exact = exact_sum(x) / x.size
        assert equal(tcu.fmean(x, dtype=target), rounded(exact, target))


@pytest.mark.slow(1)
@pytest.mark.parametrize("dtype", DTYPES)
def test_all_kinds_of_codes_at_once(dtype) -> None:
    fmt = format_of(dtype)
    codes = np.random.default_rng(0).integers(0, 1 << fmt.bits, (2, 30_000), dtype=np.uint64)
    codes = codes.astype(fmt.code_dtype)
    codes[:, ::7] &= (1 << fmt.fraction_bits) - 1 | fmt.sign_code  # subnormal
    keep = np.all(codes % fmt.sign_code <= fmt.max_finite_code, axis=0)
    x, y = codes[:, keep].view(dtype)
    for target in DTYPES:
        check_dot(x, y, target)
        check_norm(x, target)
    check_dot(np.r_[x, x[1:]], np.r_[y, -y[1:]], dtype)


def test_the_widest_products_fill_their_digits() -> None:
    """A whole piece of the largest significands, of one sign, all in one bin."""
    n = (1 << 20) + 3
    largest = np.nextafter(2.0, 1.0)
    x = np.full(n, largest)
    assert tcu.fdot(x, x) == rounded(n * Fraction(largest) ** 2, np.float64)
    assert tcu.fdot(-x, x) == -rounded(n * Fraction(largest) ** 2, np.float64)


def test_nothing_overflows_or_underflows_on_the_way() -> None:
    big, tiny = np.finfo(np.float64).max, 5e-324
    assert tcu.fdot([big, 1.0, -big], [big, tiny, big]) == tiny
    assert tcu.fdot([tiny] * 4, [0.25] * 4) == tiny
    assert tcu.fdot([tiny, tiny, 1.0], [tiny, -tiny, 2.0]) == 2
    assert tcu.fdot([big, big], [1.0, 1.0]) == math.inf
    assert tcu.fdot([tiny], [tiny]) == 0
    assert tcu.fnorm([big]) == big
    assert tcu.fnorm([-tiny]) == tiny
    assert tcu.fnorm([3 * 2.0**1000, 4 * 2.0**1000]) == 5 * 2.0**1000
    assert tcu.fnorm([3 * 2.0**-1070, 4 * 2.0**-1070]) == 5 * 2.0**-1070
    assert tcu.fnorm([big, big]) == math.inf
    assert tcu.fmean([big, big, big]) == big
    assert tcu.fmean([tiny, tiny, tiny]) == tiny


def test_rounded_once_straight_to_the_result() -> None:
    """Rounding to binary64 first would make ties of these, and then round them down."""
    x = np.array([1.0, 2.0**-24, 2.0**-80])
    assert tcu.fdot(x, np.ones(3), dtype=np.float32) == np.float32(1 + 2.0**-23)
    assert tcu.fmean(x * 3, dtype=np.float32) == np.float32(1 + 2.0**-23)
    # 1 + 2^-24 lies halfway between two binary32 numbers; 2^-60 more decides.
    z = np.array([1 + 2.0**-24, 2.0**-60])
    assert tcu.fnorm(z, dtype=np.float32) == np.float32(1 + 2.0**-23)
    assert tcu.fnorm(z[:1], dtype=np.float32) == 1
    assert np.float32(tcu.fnorm(z)) == 1


SPECIAL = [0.0, -0.0, 2.0, -3.0, math.inf, -math.inf, math.nan]


@pytest.mark.slow(1)
@pytest.mark.parametrize("dtype", DTYPES)
def test_specials_are_those_of_ieee_products(dtype) -> None:
    for values in itertools.product(SPECIAL, repeat=4):
        x, y = np.array(values[:2], dtype), np.array(values[2:], dtype)
        with np.errstate(invalid="ignore"):
            products = (x.astype(float) * y.astype(float)).tolist()
        if any(map(math.isnan, products)):
            assert math.isnan(tcu.fdot(x, y))
        elif math.inf in products and -math.inf in products:
            with pytest.raises(InvalidOperationError, match="1 inf and 1 -inf"):
                tcu.fdot(x, y)
        else:
            assert equal(tcu.fdot(x, y), sum(products) + 0.0)


def test_specials_of_norm_and_mean() -> None:
    assert tcu.fnorm([math.inf, -math.inf, 1.0]) == math.inf
    for call in (tcu.fnorm, tcu.fmean):
        assert math.isnan(call([math.nan, math.inf]))
        nan = call(np.array([0xFFC00001], np.uint32).view(np.float32))
        assert np.array([nan]).view(np.uint32)[0] == 0x7FFFFFFF
    assert tcu.fmean([1.0, -math.inf]) == -math.inf
    with pytest.raises(InvalidOperationError, match=r"1 inf and 1 -inf.*numpy.isinf"):
        tcu.fmean([math.inf, -math.inf])


def test_nothing_and_zeros() -> None:
    for dtype in DTYPES:
        nothing = np.zeros((0, 3), dtype)
        assert equal(tcu.fdot(nothing, nothing), 0.0)
        assert equal(tcu.fnorm(nothing), 0.0)
        assert math.isnan(tcu.fmean(nothing))
        assert equal(tcu.fdot(np.array([-0.0], dtype), np.array([1], dtype)), 0.0)
        assert equal(tcu.fnorm(np.array([-0.0], dtype)), 0.0)
        assert equal(tcu.fmean(np.array([-0.0], dtype)), 0.0)


def test_result_dtypes() -> None:
    for dtype in DTYPES:
        x = np.ones(3, dtype)
        for call in (lambda x, **options: tcu.fdot(x, x, **options), tcu.fnorm, tcu.fmean):
            assert call(x).dtype == (np.float64 if dtype == np.float64 else np.float32)
            assert call(x, dtype="bf16").dtype == ml_dtypes.bfloat16
            with pytest.raises(DtypeError, match="float16, bfloat16, float32 or float64"):
                call(x, dtype="int8")


def test_out_takes_the_result_and_its_dtype() -> None:
    x, out = np.arange(4, dtype=np.float32), np.zeros((), np.float64)
    assert tcu.fdot(x, x, out=out) is out
    assert out == 14
    assert tcu.fnorm(x, out=out) is out
    assert out == math.sqrt(14)
    for call in (lambda **options: tcu.fdot(x, x, **options), lambda **options: tcu.fnorm(x, **options)):
        with pytest.raises(ParameterError, match="out has dtype float64, the result float32"):
            call(dtype="float32", out=out)
        with pytest.raises(ParameterError, match=r"out is an array of shape \(3,\)"):
            call(out=np.zeros(3))


def test_layouts_pieces_and_threads_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    for dtype in DTYPES:
        x, y = rng.standard_normal((2, 110, 120)).astype(dtype)
        results = tcu.fdot(x, y), tcu.fnorm(y), tcu.fmean(y)
        assert equal(results[0], rounded(exact_dot(x, y), results[0].dtype))
        raw = np.zeros(y.nbytes + 1, np.uint8)
        raw[1:] = np.frombuffer(y.tobytes(), np.uint8)
        others = [np.asfortranarray(y), y[::-1][::-1], raw[1:].view(dtype).reshape(y.shape)]
        if dtype != ml_dtypes.bfloat16:
            others.append(y.astype(y.dtype.newbyteorder(">")))
        for other in others:
            assert (tcu.fdot(x, other), tcu.fnorm(other), tcu.fmean(other)) == results
        for piece, threads in ((999, "1"), (5000, "2")):
            with monkeypatch.context() as patch:
                patch.setattr("tcu.model.execute._PIECE", piece)
                patch.setenv("TCU_NUM_THREADS", threads)
                assert (tcu.fdot(x, y), tcu.fnorm(y), tcu.fmean(y)) == results
    assert tcu.fdot(2.5, 4.0) == 10
    assert tcu.fnorm(-2.5) == tcu.fmean(2.5) == 2.5


def test_a_mean_of_parts_is_the_mean_of_all() -> None:
    x = np.random.default_rng(6).standard_normal(1000)
    total = tcu.ExactSum()
    for part in np.split(x, [1, 10, 500]):
        total.merge(tcu.ExactSum().add(part))
    assert total.mean() == tcu.fmean(x) == rounded(sum(map(Fraction, x.tolist())) / 1000, np.float64)
    assert total.mean("float32").dtype == np.float32
    assert math.isnan(tcu.ExactSum().mean())
    with pytest.raises(DtypeError):
        total.mean("int8")


def test_a_lost_product_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = np.random.default_rng(7).standard_normal((2, 100))
    check_dot(x, y, np.float64)
    check_norm(x, np.float64)
    true = kernels.add_products_to_bins

    def low_digit_lost(first, second, bins) -> bool:
        special = true(first, second, bins)
        bins[..., :2] = 0
        return bool(special)

    monkeypatch.setattr(kernels, "add_products_to_bins", low_digit_lost)
    with pytest.raises(AssertionError, match="not"):
        check_dot(np.r_[x, x], np.r_[y, -np.nextafter(y, 9)], np.float64)
    monkeypatch.setattr("tcu.ops.finish.square_root", lambda number: number)
    with pytest.raises(AssertionError, match="is too"):
        check_norm(x, np.float64)
