"""Contract of ``tcu.fsum`` and ``tcu.ExactSum``: the exact sum, rounded once.

Equal to math.fsum where that has an answer, and to exact rational arithmetic
rounded by an independent routine elsewhere; the same bits under permutation
and any split, merge, and trip through bytes.  NaN gives NaN; inf gives inf;
inf and -inf together raise, as math.fsum does; a sum of zero is +0; a sum
beyond the largest number is inf, where math.fsum raises OverflowError.
"""

from __future__ import annotations

import contextlib
import copy
import math
import pickle
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rationals import exact_sum

import tcu
from tcu.errors import DataFileError, DtypeError, InvalidOperationError
from tcu.formats import Number, encode, format_of, get_format

DTYPES = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]


def painful(width: int) -> st.SearchStrategy[list[float]]:
    """Arrays built to hurt: cancelling pairs, ranges of 2000 binades, subnormals, signed zeros."""
    number = st.floats(width=width, allow_nan=False, allow_infinity=False)
    powers = st.builds(math.ldexp, st.sampled_from([1.0, -1.0, 1.5, -0.75]), st.integers(-1074, 1022))
    value = st.one_of(number, powers if width == 64 else number, st.sampled_from([0.0, -0.0]))
    lists = st.lists(value, max_size=60)
    cancelling = st.builds(lambda xs, more: [*xs, *more, *(-x for x in xs)], lists, lists)
    return st.one_of(lists, cancelling)


def rounded(exact: Fraction, dtype: object) -> float:
    """Independent rounding to nearest, ties to even: integer division at the right binade."""
    fmt = format_of(dtype)
    if exact == 0:
        return 0.0
    magnitude = abs(exact)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    while Fraction(2) ** (exponent + 1) <= magnitude:
        exponent += 1
    while Fraction(2) ** exponent > magnitude:
        exponent -= 1
    unit = Fraction(2) ** (max(exponent, fmt.emin) - fmt.fraction_bits)
    whole = round(magnitude / unit)  # Python rounds a Fraction to nearest, ties to even
    value = whole * unit
    if value >= Fraction(2) ** (fmt.emax + 1):
        return math.inf if exact > 0 else -math.inf
    return float(value) if exact > 0 else -float(value)


def equal(got: object, expected: float) -> bool:
    value = float(got)  # type: ignore[arg-type]
    return value == expected and math.copysign(1, value) == math.copysign(1, expected)


@given(painful(64), st.randoms())
def test_float64_equals_math_fsum(values: list[float], rng) -> None:
    x = np.array(values, np.float64)
    exact = exact_sum(values)
    expected = rounded(exact, np.float64)
    with contextlib.suppress(OverflowError):  # where an intermediate sum is too large, math.fsum gives up
        assert math.fsum(values) == expected
    assert equal(tcu.fsum(x), expected)
    rng.shuffle(values)
    assert equal(tcu.fsum(np.array(values, np.float64)), expected)


@given(painful(16), st.sampled_from(DTYPES), st.sampled_from(DTYPES))
def test_every_format_equals_rational_arithmetic(values: list[float], dtype, target) -> None:
    with np.errstate(over="ignore"):
        x = np.array(values, np.float32).astype(dtype)
    x = x[np.isfinite(x)]
    exact = exact_sum(x)
    assert equal(tcu.fsum(x, dtype=target), rounded(exact, target))


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_finite_code_at_once(dtype) -> None:
    fmt = format_of(dtype)
    rng = np.random.default_rng(0)
    codes = (
        np.arange(1 << 16, dtype=np.uint16) if fmt.bits == 16
        else rng.integers(0, 1 << 64, 200_000, dtype=np.uint64).astype(fmt.code_dtype)
    )  # fmt: skip
    x = codes[codes % fmt.sign_code <= fmt.max_finite_code].view(dtype)
    x = np.concatenate([x, x[: x.size // 3], -x[: x.size // 5]])
    exact = exact_sum(x)
    for target in DTYPES:
        assert equal(tcu.fsum(x, dtype=target), rounded(exact, target))


def test_rounded_once_straight_to_the_result() -> None:
    # Rounding to binary64 first would make a tie of this, and then round it down.
    x = np.array([1.0, 2.0**-24, 2.0**-80])
    assert tcu.fsum(x, dtype=np.float32) == np.float32(1 + 2.0**-23)
    assert np.float32(math.fsum(x)) == 1.0
    y = np.array([1.0, 2.0**-8, 2.0**-60])
    assert float(tcu.fsum(y, dtype=ml_dtypes.bfloat16)) == 1 + 2.0**-7


@given(
    st.lists(st.floats(), max_size=40), st.lists(st.integers(0, 40), max_size=5), st.randoms(),
    st.sampled_from([np.float32, np.float64]),
)  # fmt: skip
def test_any_split_order_and_merge_gives_the_same_state(values, cuts, rng, dtype) -> None:
    with np.errstate(over="ignore"):
        x = np.array(values).astype(dtype)
    whole = tcu.ExactSum().add(x)
    shuffled = x.copy()
    rng.shuffle(shuffled)
    parts = [
        tcu.ExactSum().add(piece) for piece in np.split(shuffled, sorted(min(cut, x.size) for cut in cuts))
    ]
    rng.shuffle(parts)
    total = tcu.ExactSum()
    for part in parts:
        total.merge(pickle.loads(pickle.dumps(part)))
    assert total == whole
    assert total.n == len(values)
    assert tcu.ExactSum.from_bytes(whole.to_bytes()).to_bytes() == whole.to_bytes()


@given(st.lists(st.floats(), min_size=1, max_size=30))
@example([math.inf, math.nan, -math.inf])
def test_inf_and_nan_as_math_fsum(values: list[float]) -> None:
    x = np.array(values)
    if any(map(math.isnan, values)):
        assert math.isnan(tcu.fsum(x))
        # math.fsum may give up before it sees the NaN, and refuses inf and -inf beside it.
        with contextlib.suppress(OverflowError, ValueError):
            assert math.isnan(math.fsum(values))
    elif math.inf in values and -math.inf in values:
        with pytest.raises((ValueError, OverflowError)):
            math.fsum(values)
        with pytest.raises(ValueError, match="inf"):
            tcu.fsum(x)
    elif math.inf in values or -math.inf in values:
        assert tcu.fsum(x) == (math.inf if math.inf in values else -math.inf)
        with contextlib.suppress(OverflowError):
            assert tcu.fsum(x) == math.fsum(values)


def test_formats_mix_in_one_sum() -> None:
    total = tcu.ExactSum()
    total.add(np.float16([1.5])).add(np.array([2.0**-100], np.float32)).add([2.0**-1074]).add(
        np.array([-1.5], ml_dtypes.bfloat16)
    )
    assert total.value() == 2.0**-100
    total.add([-(2.0**-100)])
    assert total.value() == 2.0**-1074
    assert total.value("float32") == 0.0


def test_overflow_is_infinite_and_intermediate_overflow_is_none() -> None:
    big = np.finfo(np.float64).max
    assert tcu.fsum([big, big, -big]) == big
    assert tcu.fsum([big, big]) == math.inf
    assert tcu.fsum(np.full(3, -65504, np.float16), dtype=np.float16) == -math.inf
    assert tcu.fsum(np.full(3, -65504, np.float16)) == -3 * 65504.0


def test_zero_is_positive_and_nothing_is_zero() -> None:
    for values in ([], [-0.0], [-0.0, -0.0], [1.0, -1.0]):
        result = tcu.fsum(np.array(values, np.float32))
        assert result == 0
        assert not np.signbit(result)
        assert result.dtype == np.float32


def test_nan_has_all_fraction_bits_set() -> None:
    x = np.array([0xFFC00001], np.uint32).view(np.float32)
    assert np.array([tcu.fsum(x)]).view(np.uint32)[0] == 0x7FFFFFFF


def test_result_dtypes() -> None:
    assert tcu.fsum(np.float16([1])).dtype == np.float32
    assert tcu.fsum(np.array([1], ml_dtypes.bfloat16)).dtype == np.float32
    assert tcu.fsum(np.float32([1])).dtype == np.float32
    assert tcu.fsum([1.0]).dtype == np.float64
    assert tcu.fsum([1.0], dtype="float16").dtype == np.float16


def test_layouts_do_not_matter() -> None:
    rng = np.random.default_rng(5)
    x = rng.standard_normal((30, 40)).astype(np.float32)
    expected = tcu.fsum(x)
    for other in (x.T, x[::-1, ::-1], np.asfortranarray(x), x.astype(">f4"), x.reshape(2, -1, 5)):
        assert tcu.fsum(other) == expected
    assert tcu.fsum(x[::2, 1::3]) == rounded(sum(map(Fraction, x[::2, 1::3].ravel().tolist())), np.float32)
    assert tcu.fsum(np.float32(2.5)) == 2.5


def test_long_arrays_cross_every_piece_border(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tcu.model.execute._PIECE", 1000)
    x = np.random.default_rng(6).standard_normal(12_345)
    assert tcu.fsum(x) == math.fsum(x)
    done: list[int] = []
    tcu.ExactSum().add(x, progress=done.append)
    assert sum(done) == x.size


def test_copies_are_independent() -> None:
    total = tcu.ExactSum().add([1.0])
    other = copy.deepcopy(total).add([1.0])
    assert (total.value(), other.value()) == (1.0, 2.0)
    assert total != other
    assert (total == 1.0) is False


def test_the_serialised_form_is_stable() -> None:
    """These bytes were written by version 0.1; later versions must read and write them."""
    text = (
        "54435558020000000000000000020000000000000001000000000000000000000000000000000b"
        "bd92f2add3fc19eeeff7b0d9336c2510ac9eaacb3ba6a9a247e96f3d147c09e2"
    )
    total = tcu.ExactSum().add([11 * 2.0**-1074, math.inf])
    assert total.to_bytes().hex() == text
    assert tcu.ExactSum.from_bytes(bytes.fromhex(text)) == total


def test_no_damaged_state_is_taken_for_another_sum() -> None:
    """Each byte changed in each of three ways, each cut, bytes added at either end, two states joined."""
    total = tcu.ExactSum().add([1.5, -(2.0**-1074), 1e300, math.inf, math.nan])
    whole = total.to_bytes()
    damaged = [
        whole[:at] + bytes([whole[at] ^ flip]) + whole[at + 1 :]
        for at in range(len(whole)) for flip in (1, 0x80, 0xFF)
    ]  # fmt: skip
    damaged += [whole[:at] for at in range(len(whole))] + [whole[at:] for at in range(1, len(whole))]
    damaged += [whole + b"\0", b"\0" + whole, whole + whole]
    for data in damaged:
        with pytest.raises(DataFileError):
            tcu.ExactSum.from_bytes(data)
    for kind in (bytes, bytearray, memoryview):
        assert tcu.ExactSum.from_bytes(kind(whole)) == total


def test_states_of_an_older_version_are_refused_in_words() -> None:
    """Version 1 had no checksum: 171 of 3,000 damaged ones passed for other sums."""
    old = bytes.fromhex(
        "54435558010000000000000000010000000000000000000000000000000000000000000000000000000101"
    )
    with pytest.raises(
        DataFileError, match="is of version 1, and this tcu reads version 2, which has a checksum: add"
    ):
        tcu.ExactSum.from_bytes(old)


def test_representation() -> None:
    assert repr(tcu.ExactSum().add([1.5, 2.0])) == "ExactSum(n=2, value=3.5)"
    assert repr(tcu.ExactSum().add([math.inf, -math.inf])) == "ExactSum(n=2, value=inf - inf)"


@pytest.mark.parametrize("data", [b"", b"TCUX", b"x" * 60, tcu.ExactSum().add([1.0]).to_bytes()[:-1]])
def test_foreign_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(DataFileError, match=r"no state of an ExactSum|is damaged .* whose checksum is wrong"):
        tcu.ExactSum.from_bytes(data)


@pytest.mark.parametrize(
    ("x", "words"),
    [
        (np.array([1j]), ["complex128", "x.real"]),
        (np.array([1, "a"], dtype=object), ["object"]),
        (["a"], ["x is text", "numpy.load"]),
        ([[1.0], [1.0, 2.0]], ["no array of numbers"]),
        (np.ones(3, ml_dtypes.float8_e4m3fn), ["float8_e4m3fn"]),
        (np.ma.masked_array([1.0]), ["masked", "compressed"]),
    ],
)
def test_arrays_that_cannot_be_summed(x, words) -> None:
    for call in (tcu.fsum, tcu.sum, lambda x: tcu.ExactSum().add(x), *_OF_FLOATS):
        with pytest.raises(DtypeError) as caught:
            call(x)
        for word in words:
            assert word in str(caught.value)


_OF_FLOATS = (tcu.error_bound, tcu.norm)


@pytest.mark.parametrize(
    ("x", "words"),
    [
        (np.arange(3), ["int64", "float16, bfloat16, float32 and float64", "astype"]),
        (np.array([True]), ["bool"]),
    ],
)
def test_integers_that_are_not_summed_exactly_are_refused(x, words) -> None:
    for call in _OF_FLOATS:
        with pytest.raises(DtypeError) as caught:
            call(x)
        for word in words:
            assert word in str(caught.value)


def test_a_refused_array_leaves_the_sum_alone() -> None:
    total = tcu.ExactSum().add([1.0])
    with pytest.raises(DtypeError):
        total.add(["a"])
    assert total.value() == 1.0
    assert total.n == 1


@pytest.mark.parametrize("dtype", [np.int32, np.complex64, ml_dtypes.float8_e5m2, "nonsense"])
def test_results_that_cannot_be_rounded_to(dtype) -> None:
    with pytest.raises(DtypeError, match="float16, bfloat16, float32 or float64"):
        tcu.fsum([1.0], dtype=dtype)


def test_inf_minus_inf_names_the_counts() -> None:
    with pytest.raises(InvalidOperationError, match="2 inf and 1 -inf"):
        tcu.fsum([math.inf, -math.inf, math.inf])


def test_the_checker_of_rounding_itself() -> None:
    """``rounded`` against the library's encoder, and shown to notice a wrong last bit."""
    rng = np.random.default_rng(7)
    for value in rng.standard_normal(200) * 2.0 ** rng.integers(-1080, 1000, 200):
        exact = Fraction(float(value)) * 3
        for dtype in DTYPES:
            code = encode(Number.of(exact), format_of(dtype))
            from tcu.formats import decode

            number = decode(code, format_of(dtype))
            assert equal(rounded(exact, dtype), float(number))
    assert not equal(np.nextafter(1.0, 2.0), rounded(Fraction(1), np.float64))
    assert get_format("binary64").max_finite == np.finfo(np.float64).max


def test_a_state_that_is_no_bytes() -> None:
    with pytest.raises(DataFileError, match="NoneType is no state of an ExactSum"):
        tcu.ExactSum.from_bytes(None)
