"""Contract: ``tcu.polyval`` gives, operation by operation, what its plan says (tcu/plan/polyval.py), within its bound of the exact value.

The plan is written here once more, in exact rational arithmetic rounded once for each operation: for every number of coefficients
around its borders, both formats, ordinary points and extreme ones.  A point has the same bits alone, among others and for any number
of threads; where powers overflow and the value does not, the value is Horner's.  What is refused is refused in words.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from torch_support import compiled

import tcu
from tcu.errors import DtypeError, ParameterError, ShapeError
from tcu.plan.polyval import BLOCKED_FROM, is_blocked

LENGTHS = (1, 2, 3, 4, 5, 7, 8, 9, 63, 79, 80, 81, 511, 575, 576, 577, 640, 1023, 1024, 1025, 1601)
DTYPES = (np.float64, np.float32)


def rounded(x: Fraction, dtype: Any) -> float:
    """To nearest, ties to even; to binary32 by binary64 rounded to odd, that nothing is rounded twice."""
    near = float(x)
    if dtype == np.float64 or Fraction(near) == x:
        return float(dtype(near))
    other = math.nextafter(near, math.inf if x > Fraction(near) else -math.inf)
    odd = next(each for each in (near, other) if np.float64(each).view(np.int64) & 1)
    return float(dtype(odd))


def fma(x: float, y: float, z: float, dtype: Any) -> float:
    return rounded(Fraction(x) * Fraction(y) + Fraction(z), dtype)


def times(x: float, y: float, dtype: Any = np.float64) -> float:
    return rounded(Fraction(x) * Fraction(y), dtype)


def in_one_chain(a: list[float], x: float, dtype: Any) -> float:
    total = 0.0
    for each in reversed(a):
        total = fma(total, x, each, dtype)
    return total


def in_two_chains(a: list[float], x: float, dtype: Any) -> float:
    square = times(x, x, dtype)
    sums = [0.0, 0.0]
    for i in reversed(range(len(a))):
        sums[i % 2] = fma(sums[i % 2], square, a[i], dtype)
    return fma(sums[1], x, sums[0], dtype)


def in_blocks(a: list[float], x: float) -> float:
    z = x
    for _ in range(4):
        z = times(z, z)
    powers = [1.0, z, times(z, z)]
    powers += [times(powers[2], z), times(powers[2], powers[2])]
    fourth = powers.pop()
    while len(powers) < 32:
        powers.append(times(powers[-4], fourth))
    step = fourth
    for _ in range(3):
        step = times(step, step)
    sums = [0.0] * 16
    top = (len(a) - 1) // 512
    for block in range(top, -1, -1):
        for r in range(16):
            if block < top:
                sums[r] = times(sums[r], step)
            for k in range(32):
                i = 512 * block + 16 * k + r
                sums[r] = fma(a[i] if i < len(a) else 0.0, powers[k], sums[r], np.float64)
    square = times(x, x)
    fourth = times(square, square)
    for half, power in ((8, times(fourth, fourth)), (4, fourth), (2, square), (1, x)):
        sums = [fma(sums[r + half], power, sums[r], np.float64) for r in range(half)]
    return sums[0]


def shifted(x: float) -> tuple[int, int]:
    """m and s with x = m / 2^s."""
    numerator, denominator = x.as_integer_ratio()
    return numerator, denominator.bit_length() - 1


def error_over_bound(a: list[float], x: float, value: float, bound: float) -> float:
    """In whole numbers, for fractions would look for common divisors."""
    (point, down), pairs = shifted(x), [shifted(each) for each in a]
    most = max(s for _, s in pairs)
    total, n = 0, len(a)
    for i in reversed(range(n)):
        m, s = pairs[i]
        total = total * point + (m << most - s + down * (n - 1 - i))
    (m, s), (limit, below) = shifted(value), shifted(bound)
    shift = most + down * (n - 1)  # the exact value is total / 2^shift
    error = abs((m << shift) - (total << s))
    return (error << below) / (limit << shift + s) if error else 0.0


def numbers(n: int, points: int, dtype: Any, seed: int = 0) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    rng = np.random.default_rng([n, seed])
    x = rng.uniform(-1.1, 1.1, points).astype(dtype)
    few = np.array([0.0, -1.0, 1e-30, 1.0, 0.1, -0.0], dtype)[:points]
    x[: few.size] = few
    return rng.standard_normal(n).astype(dtype), x


@pytest.mark.slow(2)
@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_operation_is_the_plans(dtype: Any, n: int) -> None:
    c, x = numbers(n, 7, dtype)
    found = tcu.polyval(x, c)
    assert found.dtype == dtype
    a = c.tolist()
    if is_blocked(n, "binary64" if dtype == np.float64 else "binary32"):
        wanted = [in_blocks(a, each) for each in x.tolist()]
    else:
        chain = in_one_chain if n < 80 and dtype == np.float64 else in_two_chains
        wanted = [chain(a, each, dtype) for each in x.tolist()]
    assert found.tolist() == wanted


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
def test_errors_are_below_their_bound(dtype: Any) -> None:
    worst = 0.0
    for n in LENGTHS:
        c, x = numbers(n, 20, dtype, 1)
        signs = np.where(np.arange(n) % 2, -1, 1).astype(dtype)
        wide = c * (10.0 ** np.random.default_rng(n).uniform(-15, 15, n)).astype(dtype)
        for coefficients in (c, abs(c) * signs, wide):
            bounds = tcu.polyval_error_bound(x, coefficients)
            for value, bound, point in zip(tcu.polyval(x, coefficients).tolist(), bounds.tolist(), x.tolist(), strict=True):  # fmt: skip
                if math.isinf(bound):  # 1.1^1600 overflows binary32
                    continue
                ratio = error_over_bound(coefficients.tolist(), point, value, bound)
                assert ratio <= 1, (n, point)
                worst = max(worst, ratio)
    assert 0.1 < worst <= 1, "a bound that is far off says nothing"


def test_the_bound_says_what_it_cannot_say() -> None:
    c = np.ones(1000)
    assert np.isinf(tcu.polyval_error_bound([2.5, -3.0], c)).all()
    assert np.isnan(tcu.polyval_error_bound([np.nan, np.inf], c)).all()
    assert np.isnan(tcu.polyval_error_bound([0.5], np.where(np.arange(1000) == 7, np.nan, c))).all()
    assert tcu.polyval_error_bound(np.ones((2, 3)), np.ones((4, 5))).shape == (5, 2, 3)
    assert tcu.polyval_error_bound(0.5, np.zeros(3)) < 1e-300


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 3, 64, BLOCKED_FROM, 1500])
def test_where_powers_overflow_horners_rule_decides(dtype: Any, n: int) -> None:
    tiny = np.finfo(dtype).tiny
    c = np.zeros(n, dtype)
    c[[0, -1]] = 3, 3
    points = np.array([np.inf, -np.inf, np.finfo(dtype).max], dtype)
    assert (tcu.polyval(points, c) == ([3] * 3 if n == 1 else [np.inf, (-np.inf) ** (n - 1), np.inf])).all()
    assert np.isnan(tcu.polyval(dtype(np.nan), c)) == (n > 1)
    c[n // 2] = np.nan
    codes = tcu.polyval(np.array([0.5, -2], dtype), c).view(f"u{c.itemsize}")
    assert set(codes.tolist()) == {(1 << 8 * c.itemsize - 1) - 1}  # all fraction bits set
    if n > 3:
        small = np.zeros(n, dtype)
        small[:2] = 1, tiny
        found = tcu.polyval(np.array([1 / tiny, -1 / tiny], dtype), small)  # whose squares overflow
        assert found.tolist() == [2, 0]


def test_a_point_has_its_bits_alone_and_in_any_company(monkeypatch: pytest.MonkeyPatch) -> None:
    for dtype, n in ((np.float64, 70), (np.float64, 1300), (np.float32, 1300)):
        c, x = numbers(n, 1001, dtype)
        found = tcu.polyval(x, c)
        for i in (0, 63, 64, 500, 1000):
            assert tcu.polyval(x[i], c) == found[i]
        assert tcu.polyval(x[::-3], c).tobytes() == found[::-3].tobytes()
        assert tcu.polyval(x.reshape(7, 143).T, c).tobytes() == found.reshape(7, 143).T.tobytes()
        for threads in ("1", "3", "8"):
            monkeypatch.setenv("TCU_NUM_THREADS", threads)
            assert tcu.polyval(x, c).tobytes() == found.tobytes()


def test_shapes_are_numpys() -> None:
    c, x = np.random.default_rng(1).standard_normal((6, 2, 3)), np.linspace(-1, 1, 8).reshape(4, 2)
    found = tcu.polyval(x, c)
    assert found.shape == (2, 3, 4, 2)
    assert np.allclose(found, np.polynomial.polynomial.polyval(x, c))
    assert (found[1, 2] == tcu.polyval(x, c[:, 1, 2])).all()
    assert tcu.polyval(0.5, [1, 2, 4]) == 3
    assert tcu.polyval(np.empty((0, 3)), c).shape == (2, 3, 0, 3)
    assert tcu.polyval(x, np.ones((3, 0))).shape == (0, 4, 2)


def test_formats() -> None:
    x, c = np.arange(4), np.array([1, 2], np.int8)
    assert tcu.polyval(x, c).dtype == np.float64
    assert tcu.polyval(x, c).tolist() == [1, 3, 5, 7]
    assert tcu.polyval(np.float32([2]), np.float64([1, 2])).dtype == np.float64
    assert tcu.polyval(np.array([2.0], ">f8"), np.array([1.0, 2.0], ">f4")).tolist() == [5.0]


def test_tensors() -> None:
    torch = pytest.importorskip("torch")
    c, x = numbers(900, 50, np.float64)
    found = tcu.polyval(torch.from_numpy(x), torch.from_numpy(c))
    assert isinstance(found, torch.Tensor)
    assert found.numpy().tobytes() == tcu.polyval(x, c).tobytes()
    assert tcu.polyval(torch.arange(3), torch.tensor([1.0, 1.0])).tolist() == [1, 2, 3]
    bounds = tcu.polyval_error_bound(torch.from_numpy(x), torch.from_numpy(c))
    assert bounds.tobytes() == tcu.polyval_error_bound(x, c).tobytes()
    with pytest.raises(
        ParameterError, match=r"^c wants a gradient, which tcu\.polyval does not have: pass c\.detach\(\)$"
    ):
        tcu.polyval(torch.from_numpy(x), torch.from_numpy(c).requires_grad_())
    with pytest.raises(ParameterError, match="x and c are of different libraries"):
        tcu.polyval(x, torch.from_numpy(c))
    with pytest.raises(DtypeError, match="x has dtype bfloat16: polynomials are of float32 or float64"):
        tcu.polyval(torch.ones(2, dtype=torch.bfloat16), torch.ones(2))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_tensors_in_a_vmap_and_a_graph() -> None:
    torch = pytest.importorskip("torch")
    c, x = (torch.from_numpy(each) for each in numbers(36, 12, np.float64))
    c, x = c.reshape(6, 3, 2), x.reshape(3, 4)
    for in_dims in ((0, None), (1, None), (None, 1), (None, 2), (0, 1)):
        function = torch.func.vmap(tcu.polyval, in_dims)
        count = next(each.shape[at] for each, at in zip((x, c), in_dims, strict=True) if at is not None)
        for i, found in enumerate(function(x, c)):
            point, polynomial = (
                each if at is None else each.select(at, i) for each, at in zip((x, c), in_dims, strict=True)
            )
            assert torch.equal(found, tcu.polyval(point, polynomial))
        assert i + 1 == count
    twice = torch.func.vmap(torch.func.vmap(lambda x: tcu.polyval(x, c)))(x)
    assert torch.equal(twice, tcu.polyval(x, c).movedim((2, 3), (0, 1)))
    for points in (x, torch.arange(3)):
        assert torch.equal(compiled(tcu.polyval)(points, c), tcu.polyval(points, c))
    assert set(torch.library.opcheck(torch.ops.tcu.polyval.default, (x, c)).values()) == {"SUCCESS"}
    with pytest.raises(ParameterError, match=r"x wants a gradient, which tcu\.polyval does not have"):
        torch.func.grad(lambda x: tcu.polyval(x, c).sum())(x)


def test_at_inf_and_nan_horner_s_rule_decides_and_no_zero_times_x_does() -> None:
    c = [3.0], [3.0, 0.0, 3.0], [1.0, -2.0]
    for point, expected in ((np.inf, (3, np.inf, -np.inf)), (np.nan, (3, np.nan, np.nan))):
        found = [tcu.polyval(point, each) for each in c]
        np.testing.assert_array_equal(found, expected)
        with np.errstate(invalid="ignore"):
            assert all(np.isnan(np.polynomial.polynomial.polyval(point, each)) for each in c)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: tcu.polyval(1.0, np.ones((0, 3))), ShapeError, r"c has shape \(0, 3\): give coefficients"),
        (lambda: tcu.polyval(1.0, 2.0), ShapeError, r"c has shape \(\): give coefficients"),
        (lambda: tcu.polyval([1j], [1.0]), DtypeError, "x has dtype complex128: polynomials are of float32 or"),
        (lambda: tcu.polyval(np.float16([1]), [1.0]), DtypeError, "x has dtype float16"),
        (lambda: tcu.polyval([[1.0], [1.0, 2.0]], [1.0]), DtypeError, "x is no array of numbers"),
        (lambda: tcu.fft.convolve([1.0], [[1.0], [1.0, 2.0]]), DtypeError, "y is no array of numbers"),
        (lambda: tcu.fft.fft([[1.0], [1.0, 2.0]]), DtypeError, "x is no array of numbers"),
        (lambda: tcu.matmul([[1.0], [1.0, 2.0]], [[1.0]]), DtypeError, "a is no array of numbers"),
        (lambda: tcu.polyval([1.0], ["a"]), DtypeError, "c has dtype str"),
        (lambda: tcu.polyval([1.0], np.ma.array([1.0], mask=[True])), DtypeError, "c is a masked array: fill it"),
        (lambda: tcu.fft.convolve([1.0], np.ma.array([1.0], mask=[True])), DtypeError, "y is a masked array: fill it"),
    ],
)  # fmt: skip
def test_what_is_refused(call: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()


def test_dask_is_refused() -> None:
    dask = pytest.importorskip("dask.array")
    with pytest.raises(ParameterError, match="x is a Dask array"):
        tcu.polyval(dask.ones(3), [1.0])
