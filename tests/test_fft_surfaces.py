"""Contract of tcu.fft's functions of NumPy arrays: numpy.fft's parameters, shapes, dtypes and conventions, and values within the
bound; SciPy's cosine and sine transforms; numpy's convolutions, exact for whole numbers; and an error that names the next
step for what cannot be.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
import sys
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from bits import same
from device_stand_in import Elsewhere

import tcu
from tcu import fft
from tcu.engines import host
from tcu.errors import DtypeError, ParameterError, ShapeError, UnknownNameError
from tcu.ops.fft import FftCall
from tcu.plan.fft import fft_plan
from tcu.surfaces import convolution, cosines, fft_arrays

RNG = np.random.default_rng(7)
ONE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
SEVERAL = ("fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn")
OF_REAL = ("rfft", "ihfft", "rfft2", "rfftn")
DTYPES = (np.float64, np.float32, np.complex128, np.complex64, np.int32, np.uint8, np.bool_)


def drawn(shape: tuple[int, ...], dtype: Any) -> npt.NDArray[Any]:
    x = 3 * RNG.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        x = x + 3j * RNG.standard_normal(shape)
    return np.abs(x).astype(dtype) if np.dtype(dtype).kind == "u" else np.asarray(x.astype(dtype))


def alike(found: Any, right: Any, *what: Any) -> None:
    """The shape and dtype of NumPy's, and close; NumPy computes some float32 in float64."""
    assert type(found) is np.ndarray, what
    assert (found.shape, found.dtype) == (right.shape, right.dtype), what
    wide = found.dtype in (np.float64, np.complex128)
    size = np.abs(right).max(initial=1)
    assert np.abs(found - right).max(initial=0) <= (1e-12 if wide else 2e-5) * size, what


# numpy.fft


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        (name, dtype)
        for name in ONE
        for dtype in DTYPES
        if not (name in OF_REAL and np.dtype(dtype).kind == "c")
    ],
)
def test_one_axis_is_transformed_as_numpy_does(name: str, dtype: Any) -> None:
    x = drawn((3, 6, 4), dtype)
    for n, axis, norm in itertools.product(
        (None, 1, 3, 8, 11), (0, 1, -1, -3), (None, "backward", "ortho", "forward")
    ):
        found, right = (getattr(each, name)(x, n, axis, norm) for each in (fft, np.fft))
        alike(found, right, name, dtype, n, axis, norm)


@pytest.mark.parametrize("name", SEVERAL)
def test_several_axes_are_transformed_as_numpy_does(name: str) -> None:
    x = drawn((3, 6, 4), np.float64 if name in OF_REAL else np.complex128)
    default = {} if not name.endswith("2") else {"axes": (-2, -1)}
    for options in (
        default, {"axes": (0, 2)}, {"axes": (2, 0)}, {"axes": (-1, -2)}, {"s": (5, 3), "axes": (0, 1)}, {"s": (-1, 6), "axes": (1, 2)},
        {"axes": (1, 1)}, {"axes": (0, 1), "norm": "ortho"}, {"axes": (0, 1), "norm": "forward"},
    ):  # fmt: skip
        alike(getattr(fft, name)(x, **options), getattr(np.fft, name)(x, **options), name, options)
    if name.endswith("n"):
        alike(getattr(fft, name)(x, axes=(1,)), getattr(np.fft, name)(x, axes=(1,)))
        same(getattr(fft, name)(x, s=(4, 6)), getattr(fft, name)(x, s=(4, 6), axes=(1, 2)), "the last axes")


def test_several_axes_are_one_after_another() -> None:
    x = drawn((4, 6, 5), np.complex128)
    same(fft.fftn(x), fft.fft(fft.fft(fft.fft(x, axis=2), axis=1), axis=0))
    same(fft.rfftn(x.real), fft.fft(fft.fft(fft.rfft(x.real, axis=2), axis=1), axis=0))
    same(fft.irfftn(x), fft.irfft(fft.ifft(fft.ifft(x, axis=0), axis=1), axis=2))
    same(fft.fft2(x), fft.fftn(x, axes=(-2, -1)))


@pytest.mark.parametrize("name", ONE)
def test_empty_batches_stay_empty(name: str) -> None:
    for n in (8, 11):
        for shape in ((0, n), (2, 0, n), (n, 0)):
            axis = -1 if shape[-1] else 0
            found, right = (getattr(each, name)(np.zeros(shape), None, axis) for each in (fft, np.fft))
            assert (found.shape, found.dtype) == (right.shape, right.dtype)


@pytest.mark.parametrize("name", ["fftshift", "ifftshift"])
def test_frequencies_are_put_in_order_as_numpy_does(name: str) -> None:
    for shape in ((5,), (6,), (4, 5), (3, 4, 6)):
        x = RNG.standard_normal(shape)
        for axes in (None, 0, -1, (0,), tuple(range(len(shape)))):
            same(getattr(fft, name)(x, axes), getattr(np.fft, name)(x, axes))
    assert fft.ifftshift(fft.fftshift([1, 2, 3])).tolist() == [1, 2, 3]


@pytest.mark.parametrize("name", ["fftfreq", "rfftfreq"])
def test_frequencies_are_numpy_s(name: str) -> None:
    for n, d in itertools.product((1, 2, 5, 8, 1001), (1.0, 0.1, 2, 1 / 3)):
        same(getattr(fft, name)(n, d), getattr(np.fft, name)(n, d))


def test_the_parameters_are_numpy_s() -> None:
    for name in (*ONE, *SEVERAL, "fftshift", "ifftshift"):
        theirs, ours = (list(inspect.signature(getattr(each, name)).parameters) for each in (np.fft, fft))
        assert [each for each in ours[1:] if each != "pairs"] == [
            each for each in theirs[1:] if each != "out"
        ], name


def test_16_bits_are_computed_in_float32() -> None:
    x = drawn((3, 20), np.float16)
    for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "dct", "dst", "fft2"):
        for narrow in (x, x.astype(ml_dtypes.bfloat16)):
            same(getattr(fft, name)(narrow), getattr(fft, name)(narrow.astype(np.float32)), name)
    same(fft.convolve(x, x[0]), fft.convolve(x.astype(np.float32), x[0].astype(np.float32)))


def test_whole_numbers_and_lists_are_float64() -> None:
    assert fft.fft([True, False]).dtype == np.complex128
    same(fft.rfft(np.arange(9)), fft.rfft(np.arange(9.0)))
    same(fft.fft(np.arange(9.0)), fft.fft(np.arange(9) + 0j), "real numbers have imaginary parts of zero")


@pytest.mark.parametrize(("dtype", "half"), [(np.float32, 2.0**127), (np.float64, 2.0**1023)])
def test_rfft_overflows_from_half_of_what_overflows_on(dtype: Any, half: float) -> None:
    below = np.nextafter(dtype(half), dtype(0))
    for n in (2, 4, 6, 8, 10, 30, 32):
        for place in (0, 1):
            x = np.zeros(n, dtype)
            x[place] = below
            if not place:
                assert (fft.rfft(x) == below).all()
            assert np.isfinite(fft.rfft(x)).all()
            x[place] = half
            assert np.isfinite(fft.fft(x)).all()
            assert not np.isfinite(fft.rfft(x)).any(), n
            assert np.isfinite(fft.irfft(fft.fft(x)[: n // 2 + 1] / n, norm="forward")).all()
    # The odd numbers' transform alone is too large: the results' parts are smaller, by a factor of √2.
    x = np.zeros(8, dtype)
    x[1], x[5] = 0.6 * half, -0.6 * half
    parts = fft.fft(x).view(dtype)
    assert np.abs(parts).max() < half
    assert not np.isfinite(fft.rfft(x)[1])
    assert np.isfinite(fft.rfft(x * dtype(0.8))).all()


def test_pairs_are_complex_numbers() -> None:
    x = RNG.standard_normal((3, 30, 4, 2))
    for dtype, complex_dtype in ((np.float32, np.complex64), (np.float64, np.complex128)):
        pairs = x.astype(dtype)
        numbers = pairs.view(complex_dtype)[..., 0]
        for name, axis in itertools.product(("fft", "ifft"), (0, 1, -1)):
            for n in (None, 16, 40):
                found = getattr(fft, name)(pairs, n, axis, pairs=True)
                same(found.view(complex_dtype)[..., 0], getattr(fft, name)(numbers, n, axis))
    half = fft.fft(x.astype(np.float16), axis=1, pairs=True)
    assert half.dtype == np.float16
    wide = fft.fft(x.astype(np.float16).astype(np.float32), axis=1, pairs=True)
    same(half, wide.astype(np.float16), "one pass: rounded at its end alone")
    assert fft.fft(np.arange(6).reshape(3, 2), axis=0, pairs=True).dtype == np.float64


# SciPy's


@pytest.mark.slow(2)
@pytest.mark.parametrize("type", [2, 3])
@pytest.mark.parametrize("name", ["dct", "idct", "dst", "idst"])
def test_cosine_and_sine_transforms_are_scipy_s(name: str, type: int) -> None:
    scipy_fft = pytest.importorskip("scipy.fft", reason="SciPy is not installed")
    for n, norm, dtype in itertools.product(
        (1, 2, 3, 4, 5, 8, 13, 30), (None, "ortho", "forward"), (np.float64, np.float32)
    ):
        x = RNG.standard_normal((2, n, 3)).astype(dtype)
        for length, axis in ((None, 1), (n + 3, 1), (max(1, n - 2), -2), (5, 0)):
            found, right = (getattr(each, name)(x, type, length, axis, norm) for each in (fft, scipy_fft))
            alike(found, right, name, n, norm, dtype, length, axis)


@pytest.mark.parametrize("type", [2, 3])
@pytest.mark.parametrize("name", ["dct", "idct", "dst", "idst"])
def test_cosine_transforms_of_nothing_are_padded_with_zeros(name: str, type: int) -> None:
    for x, axis in (([], -1), (np.zeros((4, 0), np.float32), 1), (np.zeros((0, 2)), 0)):
        found = getattr(fft, name)(x, type, 3, axis)
        assert found.shape == np.fft.fft(x, 3, axis).shape
        assert found.dtype == np.asarray(x).dtype
        assert not found.any()


def test_the_bits_of_a_cosine_transform_do_not_depend_on_the_batch() -> None:
    x = RNG.standard_normal((100, 36)).astype(np.float32)
    for function, type in itertools.product((fft.dct, fft.idct, fft.dst, fft.idst), (2, 3)):
        all_of_them = function(x, type)
        same(function(x[7], type), all_of_them[7])
        same(function(x[::3].T, type, axis=0).T, all_of_them[::3])


def test_products_by_twiddle_factors_are_rounded_one_by_one() -> None:
    """As the words say, of NumPy's numbers one at a time."""
    n = 10
    x = RNG.standard_normal(n).astype(np.float32)
    v = np.concatenate([x[::2], x[1::2][::-1]])
    z = fft.rfft(v)
    _, _, c, s = cosines.tables(n, 2, "none", "float32")
    assert c[0] == 1
    assert not np.signbit(s[0])
    found = fft.dct(x)
    for k in range(n // 2 + 1):
        a, b = np.float32(z[k].real * c[k]), np.float32(z[k].imag * s[k])
        assert found[k] == 2 * np.float32(a + b)


# Convolutions


@pytest.mark.slow(1)
@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("name", ["convolve", "correlate"])
def test_convolutions_are_numpy_s(name: str, mode: Any) -> None:
    ours, theirs = getattr(fft, name), getattr(np, name)
    for n, m in itertools.product((1, 2, 3, 4, 7, 10, 31), repeat=2):
        x, y = RNG.integers(-1000, 1000, n), RNG.integers(-1000, 1000, m)
        found = ours(x, y, mode)
        assert found.dtype == np.int64
        assert found.tolist() == theirs(x, y, mode).tolist(), (n, m)
        for dtype in (np.float32, np.float64, np.complex64, np.complex128):
            x, y = drawn((n,), dtype), drawn((m,), dtype)
            alike(ours(x, y, mode), theirs(x, y, mode), n, m, dtype)
    alike(ours(x.real, y, mode), theirs(x.real, y, mode))
    default = inspect.signature(ours).parameters["mode"].default
    assert default == inspect.signature(theirs).parameters["mode"].default


def test_whole_numbers_beside_others_are_float64() -> None:
    large = (1 << 24) + 1
    for dtype, result in ((np.float32, np.float64), (np.float64, np.float64), (np.complex64, np.complex128)):
        for function in (fft.convolve, fft.correlate):
            for x, y in ((np.array([large]), np.ones(1, dtype)), (np.ones(1, dtype), np.array([large]))):
                found = function(x, y)
                assert (found.dtype, found[0]) == (result, large)


def test_convolutions_of_lines_broadcast() -> None:
    x, y = RNG.standard_normal((4, 3, 20)), RNG.standard_normal((3, 5))
    found = fft.convolve(x, y)
    for i, j in itertools.product(range(4), range(3)):
        same(found[i, j], fft.convolve(x[i, j], y[j]))
    same(fft.convolve(np.moveaxis(x, -1, 0), y[0], axis=0), np.moveaxis(fft.convolve(x, y[0]), -1, 0))


def test_whole_numbers_are_convolved_exactly_up_to_the_bound() -> None:
    """At the largest magnitudes for which exactness is proved, with signs that add everything up, and that cancel."""
    for n, m in ((3, 3), (100, 7), (1000, 1000), (40_000, 3000)):
        low, high = 1, 1 << 62
        while high - low > 1:
            middle = (low + high) // 2
            proved = convolution._error((n, m), (middle, middle), convolution._length(n + m - 1)) < 0.25
            low, high = (middle, high) if proved else (low, middle)
        for x, y in (
            (np.full(n, low), np.full(m, low)),
            (RNG.integers(-low, low + 1, n), RNG.integers(-low, low + 1, m)),
        ):
            x[0], y[0] = low, -low
            found = fft.convolve(x, y)
            if n * m < 1 << 20:
                assert found.tolist() == np.convolve(x, y).tolist()
            else:  # modulo 2^64, at some places
                for k in (0, 1, m // 2, n // 2, n, n + m - 2):
                    j = np.arange(max(0, k - m + 1), min(n, k + 1))
                    assert found[k] == (x[j] * y[k - j]).sum(), k
        with pytest.raises(ParameterError, match=r"before it is rounded the result may be off by 0\.2"):
            fft.convolve(np.full(n, low), np.full(m, low + 1 + low // 1000))


def test_the_error_of_a_convolution_is_below_its_bound() -> None:
    for n, m in ((5, 3), (64, 64), (1000, 33), (4000, 4000)):
        x, y = RNG.integers(-1000, 1000, n), RNG.integers(-1000, 1000, m)
        length = convolution._length(n + m - 1)
        off = np.abs(
            convolution._product(np, x.astype(float), y.astype(float), length)[: n + m - 1]
            - np.convolve(x, y)
        ).max()
        assert off <= convolution._error((n, m), (1000, 1000), length)


def test_lengths_of_convolutions_are_of_small_factors() -> None:
    for least in (1, 2, 3, 17, 100, 1025, 99_999):
        n = convolution._length(least)
        assert n >= least
        assert n % 2 == 0
        for factor in (2, 3):
            while n % factor == 0:
                n //= factor
        assert n in (1, 5)


# What cannot be.

X = np.ones((4, 6))
CALLS: list[tuple[Any, type[Exception], str]] = [
    (lambda: fft.fft(X, axis=2), ParameterError, "axis 2 of an array with 2 axes: choose -2 to 1"),
    (lambda: fft.fft(X, axis=None), ParameterError, "axis=None: give a whole number, the axis whose rows are mapped"),
    (lambda: fft.fft(3.0), ParameterError, r"^x is one number without an axis: give a line of it, with x\.reshape\(1\)$"),
    (lambda: fft.convolve(X[0], 3.0), ParameterError, r"^y is one number without an axis: give a line of it, with y\.reshape\(1\)$"),
    (lambda: fft.fft("abc"), DtypeError, "x has dtype <U3: give complex64, complex128, float32 or float64"),
    (lambda: fft.fft(None), DtypeError, "x has dtype object: give complex64"),
    (lambda: fft.fftn(None), DtypeError, "x has dtype object: give complex64"),
    (lambda: fft.fftn(X, s=3), ParameterError, "^s=3: give a list of whole numbers, one for each axis$"),
    (lambda: fft.fftn(X, axes=0), ParameterError, "^axes=0: give a list of whole numbers, one for each axis$"),
    (lambda: fft.fftn(X[0], s=(4, 4)), ShapeError, "^s has 2 lengths, x 1 axes: give at most one for each axis$"),
    (lambda: fft.ifftn(X, s=(4, 4, 4)), ShapeError, "s has 3 lengths, x 2 axes: give at most one for each axis"),
    (lambda: fft.rfftn(X, s=(4, 4, 4)), ShapeError, "s has 3 lengths, x 2 axes"),
    (lambda: fft.irfftn(X, s=(4, 4, 4)), ShapeError, "s has 3 lengths, x 2 axes"),
    (lambda: fft.fft2(X[0], s=(4, 4), axes=None), ShapeError, "s has 2 lengths, x 1 axes"),
    (lambda: fft.fftshift(X, "a"), ParameterError, "axis='a': give a whole number"),
    (lambda: fft.fftshift(X, 1.5), ParameterError, r"^axes=1\.5: give a list of whole numbers, one for each axis$"),
    (lambda: fft.ifftshift(X, (0, 1.5)), ParameterError, r"axis=1\.5: give a whole number"),
    (lambda: fft.fftfreq(5, 0), ParameterError, "^d=0: give a number other than 0, how far samples are apart$"),
    (lambda: fft.fftfreq(5, np.float64(0)), ParameterError, r"d=np\.float64\(0\.0\): give a number other than 0"),
    (lambda: fft.fftfreq(5, "a"), ParameterError, "d='a': give a number other than 0"),
    (lambda: fft.rfftfreq(5, None), ParameterError, "d=None: give a number other than 0"),
    (lambda: fft.fft(X, 0), ParameterError, "n=0: give a whole number from 1 on"),
    (lambda: fft.rfft(X, 2.5), ParameterError, "n=2.5: give a whole number from 1 on"),
    (lambda: fft.fft(X, True), ParameterError, "n=True: give a whole number from 1 on"),
    (lambda: fft.fft(np.ones((3, 0))), ParameterError, "axis 1 has no number that is transformed: give n, from 1 on"),
    (lambda: fft.irfft(np.ones((3, 1))), ParameterError, "axis 1 has no number that is transformed: give n, from 1 on"),
    (lambda: fft.fft(X, norm="none"), ParameterError, "norm='none': choose 'backward', 'ortho' or 'forward'"),
    (lambda: fft.hfft(X, norm="none"), ParameterError, "norm='none': choose 'backward', 'ortho' or 'forward'"),
    (lambda: fft.hfft(X, norm=1), ParameterError, "norm=1: choose 'backward', 'ortho' or 'forward'"),
    (lambda: fft.dct(X, norm="none"), ParameterError, "norm='none': choose 'backward', 'ortho' or 'forward'"),
    (lambda: fft.rfft(X + 1j), DtypeError, r"x has dtype complex128, and rfft takes real numbers: give x\.real, or use fft"),
    (lambda: fft.ihfft(X + 1j), DtypeError, r"x has dtype complex128, and ihfft takes real numbers"),
    (lambda: fft.rfft2(np.ones((2, 2)) + 1j), DtypeError, "and rfft2 takes real numbers"),
    (lambda: fft.rfftn(X + 1j), DtypeError, "x has dtype complex128, and rfftn takes real numbers"),
    (lambda: fft.fft(X + 1j, pairs=True), DtypeError, "x has dtype complex128, and pairs are of real numbers: leave pairs out"),
    (lambda: fft.fft(X, pairs=True), ShapeError, r"x has shape \(4, 6\): pairs have a last axis of two, real and imaginary parts"),
    (lambda: fft.fft(X.astype(np.longdouble)), DtypeError, "x has dtype .*128: give complex64, complex128, float32 or float64"),
    (lambda: fft.fft(X.astype(object)), DtypeError, "x has dtype object: give complex64, complex128, float32 or float64"),
    (lambda: fft.fft(["a"]), DtypeError, "x has dtype <U1: give complex64, complex128, float32 or float64"),
    (lambda: fft.fft(X.astype(ml_dtypes.float8_e4m3fn)), DtypeError, "x has dtype float8_e4m3fn: give complex64"),
    (lambda: fft.fft(np.ma.masked_array(X, X > 2)), DtypeError, r"x is a masked array: fill it first, with x\.filled\(0\)"),
    (lambda: fft.fftn(X, s=(4,), axes=(0, 1)), ShapeError, "s has 1 lengths, axes 2: give a length for each axis"),
    (lambda: fft.fftn(X, s=(4, 0)), ParameterError, "s=0: give a whole number from 1 on"),
    (lambda: fft.fftn(X, axes=(0, 2)), ParameterError, "axis 2 of an array with 2 axes"),
    (lambda: fft.rfftn(X, axes=()), ParameterError, "axes is empty: name the axis of the real numbers"),
    (lambda: fft.irfftn(X, axes=()), ParameterError, "axes is empty: name the axis of the real numbers"),
    (lambda: fft.fftfreq(0), ParameterError, "n=0: give a whole number from 1 on"),
    (lambda: fft.fftshift(X, 2), ParameterError, "axis 2 of an array with 2 axes"),
    (lambda: fft.dct(X, type=1), ParameterError, "type=1: choose 2 or 3"),
    (lambda: fft.dst(X + 1j), DtypeError, r"x has dtype complex128: transform x\.real and x\.imag one after the other"),
    (lambda: fft.convolve(X, X, "all"), ParameterError, "mode='all': choose 'full', 'same' or 'valid'"),
    (lambda: fft.convolve(X, np.ones(0)), ShapeError, "x has 6 numbers along the axis, y 0: give at least one of each"),
    (lambda: fft.convolve(X, np.ones((3, 6))), ShapeError, r"x \(4, 6\), y \(3, 6\), the axis last: the other axes must broadcast"),
    (lambda: fft.error_bound(8, "int32"), DtypeError, "x has dtype int32: give complex64"),
    (lambda: fft.error_bound(8, "foo"), DtypeError, "^dtype='foo': give float16, float32, complex64, float64 or complex128$"),
    (lambda: fft.error_bound(8, None), DtypeError, "dtype=None: give float16"),
    (lambda: fft_plan(0, "binary32"), ParameterError, "n=0: give a whole number from 1 on"),
    (lambda: fft_plan(-1, "binary32"), ParameterError, "n=-1: give a whole number from 1 on"),
    (lambda: fft_plan(10.0, "binary32"), ParameterError, r"n=10\.0: give a whole number from 1 on"),  # type: ignore[arg-type]
    (lambda: fft_plan(10, "float32"), UnknownNameError, "^unknown format of a transform 'float32': available: binary16, binary32, binary64$"),  # type: ignore[arg-type]
    (lambda: fft.error_bound(8, "float32", "real"), ParameterError, "kind='real': choose one of forward, inverse, from_real, to_real"),
    (lambda: fft.error_bound(0, "float32"), ParameterError, "n=0: give a whole number from 1 on"),
    (lambda: fft.fft(X, (1 << 31) + 1), ParameterError, "a transform of 2,147,483,649 numbers: give at most"),
    (lambda: fft.dct(X, n=1 << 62), ParameterError, "a transform of 2,305,843,009,213,693,952 numbers: give at most"),
    (lambda: fft.idst(X[:, :0], n=(1 << 70) + 1), ParameterError, "a transform of 1,180,591,620,717,411,303,425 numbers: give"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "kind", "message"), CALLS)
def test_what_cannot_be_is_said_in_words(call: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        call()


def test_arrays_of_two_libraries_are_refused() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)
    with pytest.raises(
        ParameterError, match="x and y are of different libraries: make both NumPy arrays, tensors, or"
    ):
        fft.convolve(torch.ones(3), np.ones(3))


# The module


def test_the_module_is_there_when_it_is_asked_for() -> None:
    assert tcu.fft is importlib.import_module("tcu.fft") is sys.modules["tcu.fft"]
    assert "fft" in dir(tcu)
    for name in fft.__all__:
        assert callable(getattr(fft, name))
    numpy_s = {name for name in np.fft.__all__ if not name.startswith("_")}
    assert numpy_s - set(fft.__all__) <= {"test"}


# Arrays on a GPU, of a library that is neither NumPy nor PyTorch.


class Namespace:
    """NumPy's functions of arrays behind glass, and none that mixes them with others."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def asarray(self, x: Any) -> Any:
        return Elsewhere(x)


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> list[FftCall]:
    """The calls that an engine was asked for."""
    asked: list[FftCall] = []

    class Engine:
        @staticmethod
        def fft(call: FftCall) -> Any:
            assert isinstance(call.x, Elsewhere)
            asked.append(call)
            return Elsewhere(host.fft(call._replace(x=call.x.get())))

    monkeypatch.setattr(Elsewhere, "__dlpack_device__", lambda self: (2, 0), raising=False)
    monkeypatch.setattr(Elsewhere, "__array_namespace__", lambda self: Namespace(), raising=False)
    monkeypatch.setattr(
        fft_arrays, "engine_of", lambda arrays: Engine if isinstance(arrays[0], Elsewhere) else host
    )
    return asked


ON_GPU: list[Any] = [
    lambda x: fft.fft(x), lambda x: fft.rfft(x, axis=0), lambda x: fft.irfft(x), lambda x: fft.hfft(x), lambda x: fft.ihfft(x),
    lambda x: fft.irfft2(x), lambda x: fft.fftn(x), lambda x: fft.fftshift(x), lambda x: fft.dct(x), lambda x: fft.dct(x, 3, n=14, axis=0),
    lambda x: fft.dst(x, 3), lambda x: fft.idst(x, norm="ortho"), lambda x: fft.convolve(x, x[0]), lambda x: fft.correlate(x, x, "same", 0),
    lambda x: fft.convolve(x * (1 + 1j), x[1]),
]  # fmt: skip


@pytest.mark.parametrize("function", ON_GPU)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int32])
def test_arrays_on_a_gpu_stay_there(function: Any, dtype: Any, elsewhere: list[FftCall]) -> None:
    x = (10 * RNG.standard_normal((5, 12))).astype(dtype)
    found = function(Elsewhere(x))
    assert isinstance(found, Elsewhere)
    same(np.ascontiguousarray(found.get()), np.ascontiguousarray(function(x)))
    for call in elsewhere:  # as kernels take them
        assert call.pairs or call.kind != "to_real" or np.dtype(call.x.dtype).kind == "c"
        assert np.dtype(call.x.dtype) != np.float16
