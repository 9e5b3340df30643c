"""Contract of ``tcu.dot``, ``tcu.norm`` and ``tcu.mean``: the plan's bits, rounded once, within the bound.

That the executor follows the plan of a dot product is shown in test_plan.py.
Here: every 16-bit number is multiplied as what it is; two products, which no
accumulator shares, are IEEE 754's on every combination of special values; the
bound holds on families built to hurt, underflow among them; results do not
depend on threads, pieces, layout or memory mapping.  A norm is the binary64
root of dot(x, x), a mean the binary64 quotient of the plan's sum and n.
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
from rationals import exact_dot

import tcu
from tcu.errors import DtypeError, ParameterError, ShapeError
from tcu.formats import encode, format_of, get_format
from tcu.formats.scalar import Number
from tcu.model import kernels
from tcu.plan import VARIANTS

DTYPES = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]
HALVES = DTYPES[:2]


@pytest.mark.parametrize("dtype", HALVES)
def test_every_16_bit_number_is_taken_as_what_it_is(dtype) -> None:
    codes = np.arange(1 << 16, dtype=np.uint16)
    sums = np.empty((1, 1 << 16))
    one = np.ones(1 << 16, dtype).view(np.uint16)
    kernels.fma_groups(codes, one, dtype == np.float16, 1, sums)
    with np.errstate(invalid="ignore"):
        expected = codes.view(dtype).astype(np.float64)
    same = sums[0].view(np.uint64) == expected.view(np.uint64)
    assert np.all(same | (np.isnan(sums[0]) & np.isnan(expected)))
    assert np.count_nonzero(np.isnan(expected)) == 2 * ((1 << format_of(dtype).fraction_bits) - 1)


SPECIAL = [0.0, -0.0, 1.0, -3.0, 2.0**1000, -(2.0**1000), 2.0**-600, 5e-324, math.inf, -math.inf, math.nan]


@pytest.mark.slow
def test_two_products_are_those_of_ieee_754() -> None:
    """Neighbours go to two accumulators, so that nothing is fused: Python's floats have the answer."""
    for x0, y0, x1, y1 in itertools.product(SPECIAL, repeat=4):
        got = float(tcu.dot([x0, x1], [y0, y1]))
        expected = x0 * y0 + x1 * y1 + 0.0
        assert got == expected or (math.isnan(got) and math.isnan(expected)), f"{x0} {y0} {x1} {y1}"
        assert math.copysign(1, got) == (-1 if got < 0 else 1)


def test_products_of_one_accumulator_are_fused() -> None:
    """1 + 2^-52 squared has 2^-104 too much for one rounding; the accumulator takes it in whole."""
    rows = 256 * 2
    x, y = np.zeros(8 * rows), np.zeros(8 * rows)
    x[0], y[0] = -1.0, 1 + 2.0**-51
    x[rows], y[rows] = 1 + 2.0**-52, 1 + 2.0**-52
    assert tcu.dot(x, y) == 2.0**-104
    assert tcu.dot(x[rows:], y[rows:]) + tcu.dot(x[:rows], y[:rows]) == 0


FAMILIES = {
    "normal": lambda rng, n: rng.standard_normal((2, n)),
    "positive": lambda rng, n: rng.random((2, n)),
    "squares": lambda rng, n: np.tile(rng.standard_normal(n), (2, 1)),
    "wide": lambda rng, n: rng.standard_normal((2, n)) * 2.0 ** rng.integers(-14, 5, (2, n)),
    "cancelling": lambda rng, n: [np.ones(n), np.where(np.arange(n) % 2, 1.0009765625, -1.0)],
    "one large": lambda rng, n: [np.r_[1024.0, rng.random(n - 1) * 2.0**-10], rng.random(n)],
    "tiny": lambda rng, n: rng.standard_normal((2, n)) * 2.0**-24,
    "sorted": lambda rng, n: np.sort(rng.exponential(1.0, (2, n))),
}
UNDERFLOW = {
    "below all": lambda rng, n: (1 + rng.random((2, n))) * 2.0**-538,
    "halves": lambda rng, n: [np.full(n, 3 * 2.0**-538), np.full(n, 2.0**-538)],
    "subnormal": lambda rng, n: (1 + rng.random((2, n))) * 2.0 ** rng.integers(-540, -505, (2, n)),
    "numbers": lambda rng, n: [rng.integers(-9, 9, n) * 5e-324, rng.standard_normal(n)],
}


def check_bound(x: np.ndarray, y: np.ndarray, **options: object) -> None:
    result = tcu.dot(x, y, **options)
    bound = tcu.dot_error_bound(x, y, **options)
    if math.isinf(bound):
        return
    assert math.isfinite(float(result)), f"overflow within a finite bound {bound}"
    error = abs(Fraction(float(result)) - exact_dot(x, y))
    assert error <= Fraction(bound), f"error {float(error):.3e} above the bound {bound:.3e}"


@pytest.mark.slow(3)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_bound_holds(dtype, family: str) -> None:
    rng = np.random.default_rng(len(family))
    for n, block in itertools.product((1, 2, 17, 1025, 20_000), (32, 256)):
        x, y = (np.asarray(values).astype(dtype) for values in FAMILIES[family](rng, n))
        for target in (None, "float64"):
            check_bound(x, y, block=block, dtype=target)


@pytest.mark.parametrize("family", UNDERFLOW)
def test_the_bound_holds_where_products_underflow(family: str) -> None:
    rng = np.random.default_rng(len(family))
    for n in (1, 2, 600, 5000):
        check_bound(*map(np.asarray, UNDERFLOW[family](rng, n)))
    x, y = UNDERFLOW["halves"](rng, 5000)  # each product is 0.75 of the smallest subnormal
    assert abs(Fraction(float(tcu.dot(x, y))) - exact_dot(x, y)) >= 1250 * Fraction(5e-324)


NUMBER = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(st.tuples(NUMBER, NUMBER), max_size=700), st.sampled_from(DTYPES), st.integers(1, 4))
def test_the_bound_holds_on_anything(pairs, dtype, warps) -> None:
    with np.errstate(over="ignore"):
        x, y = np.array(pairs).reshape(-1, 2).T.astype(dtype)
    keep = np.isfinite(x) & np.isfinite(y)
    check_bound(x[keep], y[keep], block=32 * warps)


def test_a_bound_that_is_too_small_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).random(20_000).astype(np.float32)
    monkeypatch.setattr("tcu.surfaces.bounds.plan_error_bound", lambda *arguments: 1e-12)
    with pytest.raises(AssertionError, match="above the bound"):
        check_bound(x, x)


def test_the_bound_is_of_use() -> None:
    x, y = np.random.default_rng(0).random((2, 10**6))
    exact = float(tcu.fdot(x, y))
    assert tcu.dot_error_bound(x, y) < 40 * 2.0**-53 * exact
    halves = x.astype(np.float16), y.astype(np.float16)
    assert tcu.dot_error_bound(*halves) < 1.01 * 2.0**-24 * exact


def test_bounds_of_special_arrays() -> None:
    assert tcu.dot_error_bound([], []) == 0
    assert tcu.dot_error_bound(np.zeros(5, np.float16), np.ones(5, np.float16)) == 0
    assert math.isnan(tcu.dot_error_bound([math.inf], [0.0]))
    assert math.isnan(tcu.dot_error_bound([math.inf, 1.0], [1.0, 1.0]))
    assert math.isnan(tcu.dot_error_bound([1.0], [math.nan]))
    assert tcu.dot_error_bound([2.0**600], [2.0**600]) == math.inf
    assert tcu.dot_error_bound([2.0**512, 2.0**512], [2.0**511, -(2.0**511)]) == math.inf
    assert tcu.dot_error_bound([1000.0] * 99, [1.0] * 99, dtype="float16") == math.inf


@pytest.mark.parametrize("dtype", DTYPES)
def test_border_lengths_of_exact_data(dtype) -> None:
    for n in [0, 1, 2, 3, 31, 32, 33, 511, 512, 513, 4095, 4096, 4097, 16383, 16384, 16385, 40_000]:
        x = (np.arange(n) % 2).astype(dtype)
        result = tcu.dot(x, x)
        assert result == n // 2, f"n = {n}"
        assert result.dtype == (np.float64 if dtype == np.float64 else np.float32)
        assert tcu.norm(x, dtype="float64") == math.sqrt(n // 2)


def test_layout_order_and_memory_mapping_do_not_matter(tmp_path) -> None:
    rng = np.random.default_rng(3)
    for dtype in DTYPES:
        x, y = rng.standard_normal((2, 120, 250)).astype(dtype)
        expected, norm = tcu.dot(x, y), tcu.norm(y)
        path = tmp_path / "y.npy"
        path.write_bytes(np.asfortranarray(y).tobytes(order="F"))
        mapped = np.memmap(path, dtype, "r", shape=(120, 250), order="F")
        wide = np.zeros((240, 750), dtype)
        wide[::2, ::3] = y
        raw = np.zeros(y.nbytes + 1, np.uint8)
        raw[1:] = np.frombuffer(y.tobytes(), np.uint8)
        others = [
            np.asfortranarray(y),
            mapped,
            wide[::2, ::3],
            raw[1:].view(dtype).reshape(120, 250),
            y[::-1][::-1],
        ]
        if dtype != ml_dtypes.bfloat16:
            others.append(y.astype(y.dtype.newbyteorder(">")))
        for other in others:
            assert tcu.dot(x, other) == tcu.dot(other, x) == expected
            assert tcu.norm(other) == norm


def test_pieces_and_threads_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    for dtype in DTYPES:
        x, y = np.random.default_rng(4).standard_normal((2, 100_003)).astype(dtype)
        expected = tcu.dot(x, y, dtype="float64")
        for piece, threads in ((1, "1"), (5000, "2"), (40_000, "3")):
            with monkeypatch.context() as patch:
                patch.setattr("tcu.model.execute._PIECE", piece)
                patch.setenv("TCU_NUM_THREADS", threads)
                assert tcu.dot(x, y, dtype="float64") == expected


def test_a_file_is_read_piece_by_piece(tmp_path) -> None:
    """2^26 pairs of a sparse file: more than what the pieces in flight hold, by far."""
    import tracemalloc

    x = np.memmap(tmp_path / "x", np.float16, "w+", shape=1 << 26)
    x[::12345] = 2.0
    tracemalloc.start()
    try:
        assert tcu.dot(x, x) == 4 * -(-x.size // 12345)
        assert tracemalloc.get_traced_memory()[1] < x.nbytes / 4
    finally:
        tracemalloc.stop()


def test_scalars_lists_and_one_array_twice() -> None:
    assert tcu.dot(2.5, 4.0) == 10.0
    assert tcu.dot([[1.0, 2.0], [3.0, 4.0]], [[1.0, 10.0], [100.0, 1000.0]]) == 4321.0
    x = np.float32([3, 4])
    assert tcu.dot(x, x) == tcu.dot(x, x.copy()) == 25
    assert tcu.norm(x) == tcu.norm(np.float16([3, 4])) == tcu.norm([3.0, 4.0]) == 5
    assert tcu.norm(-2.0) == 2
    assert tcu.norm(np.zeros((3, 0))) == 0
    twos = np.broadcast_to(np.float16(2), (1000, 1000))
    assert tcu.dot(twos, twos) == tcu.fdot(twos, twos) == 4e6


def test_rounded_to_the_dtype_asked_for() -> None:
    x, y = np.random.default_rng(6).random((2, 5000)).astype(np.float32)
    for function in (lambda dtype: tcu.dot(x, y, dtype=dtype), lambda dtype: tcu.norm(x, dtype=dtype),
                     lambda dtype: tcu.mean(x, dtype=dtype)):  # fmt: skip
        wide = Number.of(float(function("float64")))
        for dtype in DTYPES:
            narrow = function(dtype)
            assert narrow.dtype == dtype
            fmt = format_of(dtype)
            assert np.array([narrow]).view(fmt.code_dtype)[0] == encode(wide, fmt)


def test_info_tells_how_it_came_about() -> None:
    x = np.full(10**5, 2.0, np.float16)
    result, info = tcu.dot(x, x, block=128, return_info=True)
    assert result == 4e5
    assert (info.plan.variant, info.plan.block, info.plan.n, info.plan.mmas) == ("dot", 128, 10**5, 0)
    assert info.levels == info.plan.levels == 6
    assert info.bits == 0x48C35000
    assert tcu.norm(x[:4], return_info=True)[1].bits == 0x40800000
    nan, info = tcu.norm([math.nan, math.inf], return_info=True)
    assert math.isnan(nan)
    assert info.bits == (1 << 63) - 1


def test_a_norm_is_the_root_of_the_dot_product() -> None:
    for x in (np.random.default_rng(0).standard_normal(3000), np.float32([1, 1]), [2.0**511, 2.0**511]):
        assert tcu.norm(x, dtype="float64") == math.sqrt(tcu.dot(x, x, dtype="float64"))
    assert tcu.norm([-math.inf]) == math.inf
    # The limits that the documentation states.
    assert tcu.norm([2.0**512]) == math.inf
    assert tcu.norm([2.0**-537]) > 0
    assert tcu.norm([2.0**-538]) == 0
    for exponent, exact in ((-511, True), (-530, False)):
        x = 2.0**exponent * (1 + 2.0**-52)
        assert bool(tcu.norm([x]) == x) is exact
    for dtype in DTYPES[:3]:
        fmt = format_of(dtype)
        for value in (fmt.max_finite, fmt.min_subnormal):
            assert tcu.norm(np.array([value], dtype), dtype="float64") == value


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_mean_is_the_plan_s_sum_divided_by_n(variant: str) -> None:
    x = np.random.default_rng(1).random(4097).astype(np.float16)
    options = {"variant": variant, "unit": "V100", "block": 64}
    total, of_sum = tcu.sum(x, **options, dtype="float64", return_info=True)
    mean, info = tcu.mean(x, **options, return_info=True)
    quotient = Fraction(float(total)) / x.size
    wide = tcu.mean(x, **options, dtype="float64")
    assert abs(Fraction(float(wide)) - quotient) <= Fraction(float(np.spacing(wide))) / 2
    assert mean == np.float32(wide)
    assert mean.dtype == np.float32
    assert info.plan == of_sum.plan
    assert info.bits == np.array([mean]).view(np.uint32)[0]


def test_means_of_little() -> None:
    assert math.isnan(tcu.mean([]))
    assert np.array([tcu.mean(np.zeros(0, np.float16))]).view(np.uint32)[0] == 0x7FFFFFFF
    assert tcu.mean(2.5) == 2.5
    assert tcu.mean([1.0, 2.0]) == 1.5
    assert tcu.mean([math.inf, 1.0]) == math.inf
    assert math.isnan(tcu.mean([math.inf, -math.inf]))
    assert math.copysign(1, tcu.mean([-0.0])) == 1
    assert tcu.mean(np.full(3, 65504, np.float16), dtype="float16") == 65504  # the sum exceeds binary16
    done: list[int] = []
    tcu.mean(np.ones(10**5), progress=done.append)
    assert sum(done) == 10**5


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (([1.0], [1.0, 2.0]), ShapeError, ["(1,) and y (2,)", "one shape", "broadcast_to(y, x.shape)"]),
        ((np.ones((2, 3)), np.ones((3, 2))), ShapeError, ["(2, 3) and y (3, 2)", "y.reshape(x.shape)"]),
        ((np.ones(2, np.float16), np.ones(2)), DtypeError, ["float16 and y float64", "astype('float64')"]),
        (
            (np.ones(2, np.float16), np.ones(2, ml_dtypes.bfloat16)), DtypeError,
            ["float16 and y bfloat16", "astype('float32')"],
        ),
        (([1.0], [1]), DtypeError, ["y has dtype int64", "y.astype('float64')"]),
        (([1j], [1.0]), DtypeError, ["x has dtype complex128, and only real numbers are taken: a sum or a mean is that of x.real, and 1j times that of x.imag; a product is made"]),
        (([1.0], [None]), DtypeError, ["y holds Python objects"]),
        (([1.0], np.ma.masked_array([1.0])), DtypeError, ["y is a masked array", "y.filled(0)"]),
        (([1.0], [[1.0], [1.0, 2.0]]), DtypeError, ["y is no array of numbers"]),
    ],
)  # fmt: skip
def test_pairs_that_cannot_be_multiplied(arguments, error, words) -> None:
    for call in (tcu.dot, tcu.fdot, tcu.dot_error_bound):
        with pytest.raises(error) as caught:
            call(*arguments)
        for word in words:
            assert word in str(caught.value)


@pytest.mark.parametrize("block", [0, 16, 48, 2048, 32.0, "32", True])
def test_blocks_that_are_no_whole_warps(block) -> None:
    for call in (tcu.norm, lambda x, block: tcu.dot(x, x, block=block)):
        with pytest.raises(ParameterError, match=r"block \(B\) = .*: choose a"):
            call([1.0], block=block)


def test_results_that_cannot_be_rounded_to() -> None:
    for call in (tcu.norm, tcu.mean, lambda x, dtype: tcu.dot(x, x, dtype=dtype)):
        with pytest.raises(DtypeError, match=r"dtype='int8'.*float16, bfloat16, float32 or float64"):
            call([1.0], dtype="int8")
    assert get_format("binary64").dtype == tcu.norm([1.0]).dtype
