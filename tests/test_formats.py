"""Contract of the number formats.

Decoding a code gives the exact number; encoding a number rounds once, by the
mode asked for, subnormals included.  Overflow goes to inf (NaN where a format
has no inf) or saturates.  Zeros keep their sign.  A NaN keeps its sign and
leading payload bits and becomes quiet.  The scalar functions and the array
functions obey the same tests.  8- and 16-bit formats are checked code by code
against NumPy and ml_dtypes, wider ones at every boundary and on samples.
"""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcu.errors import DtypeError, ParameterError, UnknownNameError
from tcu.formats import (
    FORMATS,
    Number,
    decode,
    decode_array,
    encode,
    encode_array,
    format_of,
    get_format,
    round_array,
    round_to,
)

TINY = ["e3m2", "e2m3", "e2m1"]
SMALL = ["binary16", "bfloat16", "e4m3", "e5m2", "e4m3fnuz", "e5m2fnuz", *TINY]
FLOATS = [*SMALL, "tf32", "binary32", "binary64"]
SCALES = ["ue8m0", "ue4m3"]
MODES = ["RNE", "RZ", "RU", "RD", "RO"]
REFERENCE = {
    "binary16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
    "e3m2": ml_dtypes.float6_e3m2fn,
    "e2m3": ml_dtypes.float6_e2m3fn,
    "e2m1": ml_dtypes.float4_e2m1fn,
    "ue8m0": ml_dtypes.float8_e8m0fnu,
    "ue4m3": ml_dtypes.float8_e4m3fn,
    "binary32": np.float32,
    "binary64": np.float64,
}


def both_decoders(codes: list[int], name: str) -> list[float]:
    """Decode by the scalar and by the array function; they must agree to the bit, NaN included."""
    scalar = np.array([float(decode(code, name)) for code in codes])
    array = decode_array(np.array(codes, np.uint64), name)
    numbers = ~np.isnan(scalar)
    assert (numbers == ~np.isnan(array)).all()
    assert (scalar.view(np.uint64) == array.view(np.uint64))[numbers].all()
    return array.tolist()


def both_encoders(values: list[float], name: str, mode: str = "RNE", overflow: str = "infinity") -> list[int]:
    """Encode by the scalar and by the array function; they must agree, NaN included."""
    scalar = [encode(Number.of(value), name, mode, overflow) for value in values]
    array = encode_array(np.array(values), name, mode, overflow).tolist()
    for value, one, other in zip(values, scalar, array, strict=True):
        assert one == other or math.isnan(value), f"{value.hex()} to {name} {mode}: {one:#x} != {other:#x}"
    return array


@pytest.mark.parametrize("name", [*SMALL, *SCALES])
def test_every_code_decodes_as_numpy_and_ml_dtypes_do(name: str) -> None:
    fmt = get_format(name)
    codes = np.arange(1 << fmt.bits, dtype=fmt.code_dtype)
    with np.errstate(invalid="ignore"):
        expected = codes.view(REFERENCE[name]).astype(np.float64)
    got = np.array(both_decoders(codes.tolist(), name))
    same = (got == expected) | (np.isnan(got) & np.isnan(expected))
    assert same.all(), f"first differing code {codes[~same][0]:#x}"
    assert (np.signbit(got) == np.signbit(expected)).all()


@pytest.mark.slow(6)
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow) if name == "tf32" else name for name in [*FLOATS, *SCALES]],
)
def test_every_or_sampled_code_survives_a_round_trip(name: str) -> None:
    fmt = get_format(name)
    if fmt.bits <= 19:
        codes = list(range(1 << fmt.bits))
    else:
        rng = np.random.default_rng(1)
        codes = boundary_codes(name) + rng.integers(0, 1 << fmt.bits - 1, 5000).tolist()
        codes += [code | fmt.sign_code for code in codes]
    numbers = [decode(code, name) for code in codes]
    quiet = 1 << max(fmt.fraction_bits - 1, 0)
    for code, number in zip(codes, numbers, strict=True):
        again = encode(number, name)
        expected = code | quiet if number.kind == "nan" and fmt.has_infinity else code
        assert again == expected, f"{name} {code:#x} came back as {again:#x}"
    back = encode_array(decode_array(np.array(codes, np.uint64), name), name)
    for code, number in zip(back.tolist(), numbers, strict=True):
        assert number.kind == decode(code, name).kind == "nan" or decode(code, name) == number


def boundary_codes(name: str) -> list[int]:
    """Codes next to zero, the subnormal edge, one, the overflow edge, and NaNs of every payload bit."""
    fmt = get_format(name)
    one = fmt.bias << fmt.fraction_bits
    edges = [0, 1 << fmt.fraction_bits, one, fmt.max_finite_code]
    near = {edge + step for edge in edges for step in range(-3, 4)}
    payloads = (
        {fmt.infinity_code | 1 << bit for bit in range(fmt.fraction_bits)} if fmt.has_infinity else set()
    )
    return sorted(code for code in near | payloads if 0 <= code < fmt.magnitude_codes)


def neighbourhood(name: str) -> list[float]:
    """Values at 0, 0.3, 0.49, 0.5, 0.51 and 1 of the way between neighbouring boundary codes, both signs."""
    fmt = get_format(name)
    values: list[float] = []
    for code in boundary_codes(name):
        low = decode(code, name)
        if low.kind != "finite":
            continue
        beyond = Fraction(2) ** (fmt.emax + 1)
        gap = (beyond if code >= fmt.max_finite_code else decode(code + 1, name).value) - low.value
        for numerator in (0, 19661, 32113, 32768, 33423, 65536):
            exact = low.value + gap * Fraction(numerator, 65536)
            if exact <= Fraction(np.finfo(np.float64).max):
                values += [float(exact), -float(exact)]
    return values


def expected_rounding(value: float, name: str, mode: str, overflow: str) -> Fraction | float:
    """An independent rounding: search the two neighbours in the sorted list of all magnitudes."""
    fmt = get_format(name)
    exact = abs(Fraction(value))
    low = bisect_code(exact, name)
    below = decode(low, name).value
    above = decode(low + 1, name).value if low < fmt.max_finite_code else None
    if above is None:  # the next number, were the exponent range unbounded
        above = below + Fraction(2) ** (fmt.emax - fmt.fraction_bits)
    if exact == below:
        chosen, up = below, False
    else:
        away = {"RZ": False, "RU": value > 0, "RD": value < 0, "RO": low % 2 == 0}.get(mode)
        if away is None:
            twice = 2 * exact
            away = twice > below + above or (twice == below + above and low % 2 == 1)
        chosen, up = (above, True) if away else (below, False)
    if low == fmt.max_finite_code and (up or exact >= above):
        if overflow == "saturate" or not fmt.has_nan:
            chosen = decode(fmt.max_finite_code, name).value
        else:
            return math.nan if not fmt.has_infinity else math.copysign(math.inf, value)
    return -chosen if value < 0 else chosen


def bisect_code(exact: Fraction, name: str) -> int:
    low, high = 0, get_format(name).max_finite_code
    while low < high:
        middle = (low + high + 1) // 2
        if decode(middle, name).value <= exact:
            low = middle
        else:
            high = middle - 1
    return low


@pytest.mark.slow(20)
@pytest.mark.parametrize("overflow", ["infinity", "saturate"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", FLOATS)
def test_rounding_at_every_boundary(name: str, mode: str, overflow: str) -> None:
    values, fmt = neighbourhood(name), get_format(name)
    for value, code in zip(values, both_encoders(values, name, mode, overflow), strict=True):
        expected = expected_rounding(value, name, mode, overflow)
        got = decode(code, name)
        if isinstance(expected, float):
            assert got.kind == ("nan" if math.isnan(expected) else "inf"), f"{value.hex()} {name} {mode}"
        else:
            assert got.kind == "finite"
            assert got.value == expected, f"{value.hex()} to {name} {mode}: {got.value} instead of {expected}"
        if fmt.specials == "negative zero":
            assert got.negative == (got.kind == "nan" or got.value < 0)
        else:
            assert got.negative == (math.copysign(1, value) < 0)


@pytest.mark.parametrize("name", [*SMALL, "binary32", "ue8m0"])
def test_to_nearest_agrees_with_numpy_and_ml_dtypes_on_samples(name: str) -> None:
    rng = np.random.default_rng(2)
    # float32 sources: ml_dtypes converts float64 by way of float32, which would round twice.
    source = rng.integers(0, 2**32, 50_000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    scaled = (rng.standard_normal(50_000) * 2.0 ** rng.integers(-30, 18, 50_000)).astype(np.float32)
    values = np.concatenate([source, scaled])
    values = values[~np.isnan(values)]
    if name == "ue8m0":
        # ml_dtypes rounds some subnormals of binary32 elsewhere than to nearest.
        values = values[np.abs(values) >= 2.0**-126]
    with np.errstate(all="ignore"):
        expected = values.astype(REFERENCE[name]).astype(np.float64)
    got = round_array(values.astype(np.float64), name)
    same = (got == expected) | (np.isnan(got) & np.isnan(expected))
    assert same.all(), f"{values[~same][0]!r}: {got[~same][0]!r}, not {expected[~same][0]!r}"
    assert (np.signbit(got) == np.signbit(expected))[~np.isnan(got)].all()


@given(
    st.floats(), st.sampled_from(FLOATS), st.sampled_from(MODES), st.sampled_from(["infinity", "saturate"])
)
def test_scalar_and_array_encoders_agree(value: float, name: str, mode: str, overflow: str) -> None:
    if math.isnan(value) and not get_format(name).has_nan:
        return
    (code,) = both_encoders([value], name, mode, overflow)
    if not math.isnan(value) and not math.isinf(value):
        expected = expected_rounding(value, name, mode, overflow)
        got = float(decode(code, name))
        assert (
            (math.isnan(got) and math.isnan(expected)) or Fraction(got) == expected
            if math.isfinite(got)
            else not math.isfinite(float(expected))
        )


def test_infinities_and_nan() -> None:
    for name in FLOATS:
        fmt = get_format(name)
        plus, minus = both_encoders([math.inf, -math.inf], name)
        if fmt.has_infinity:
            assert (plus, minus) == (fmt.infinity_code, fmt.infinity_code | fmt.sign_code)
        elif fmt.has_nan:
            assert (plus, minus) == (fmt.nan_code, fmt.nan_code | fmt.sign_code)
        else:
            assert (plus, minus) == (fmt.max_finite_code, fmt.max_finite_code | fmt.sign_code)
        saturated = both_encoders([math.inf, -math.inf], name, "RNE", "saturate")
        assert saturated == [fmt.max_finite_code, fmt.max_finite_code | fmt.sign_code]
        if fmt.has_nan:
            assert decode(encode(Number.of(math.nan), name), name).kind == "nan"
        one_zero = fmt.specials == "negative zero"
        assert both_encoders([0.0, -0.0], name) == [0, 0 if one_zero else fmt.sign_code]


def test_scales_have_no_sign() -> None:
    values = [-1.0, -0.0, 0.0, 2.0**-140, 1.0, 1.5, 2.0**127, 2.0**128, math.inf, -math.inf, math.nan]
    assert both_encoders(values, "ue8m0") == [255, 255, 255, 0, 127, 128, 254, 255, 255, 255, 255]
    assert both_encoders([-1.0, -0.0, 0.0, 2.0**-9, 448.0, 500.0, math.inf, math.nan], "ue4m3") == [
        127, 0, 0, 1, 126, 127, 127, 127,
    ]  # fmt: skip
    assert both_encoders([2.0**127 * 1.5, math.inf], "ue8m0", "RNE", "saturate") == [254, 254]
    for mode, code in (("RZ", 127), ("RU", 128), ("RD", 127), ("RNE", 128)):
        assert both_encoders([1.5], "ue8m0", mode) == [code]


def test_nan_payloads_survive_as_far_as_they_fit() -> None:
    wide = np.array([0x7FF4000000000001, 0xFFFDEADBEEF00000], np.uint64).view(np.float64)
    assert [hex(code) for code in encode_array(wide, "binary32").tolist()] == ["0x7fe00000", "0xffef56df"]
    assert (
        decode_array(np.array([0x7F812345], np.uint32), "binary32").view(np.uint64)[0] == 0x7FF82468A0000000
    )


def test_derived_properties_match_ieee_and_paper_003() -> None:
    # p, emax, emin: paper 003, table 3; the others from their specifications
    table = {
        "binary16": (11, 15, -14, 65504.0, 2.0**-24),
        "bfloat16": (8, 127, -126, float(ml_dtypes.finfo(ml_dtypes.bfloat16).max), 2.0**-133),
        "tf32": (11, 127, -126, (2 - 2.0**-10) * 2.0**127, 2.0**-136),
        "binary32": (24, 127, -126, float(np.finfo(np.float32).max), 2.0**-149),
        "binary64": (53, 1023, -1022, float(np.finfo(np.float64).max), 2.0**-1074),
        "e4m3": (4, 8, -6, 448.0, 2.0**-9),
        "e5m2": (3, 15, -14, 57344.0, 2.0**-16),
        "e4m3fnuz": (4, 7, -7, 240.0, 2.0**-10),
        "e5m2fnuz": (3, 15, -15, 57344.0, 2.0**-17),
        "e3m2": (3, 4, -2, 28.0, 2.0**-4),
        "e2m3": (4, 2, 0, 7.5, 2.0**-3),
        "e2m1": (2, 2, 0, 6.0, 2.0**-1),
        "ue4m3": (4, 8, -6, 448.0, 2.0**-9),
    }
    for name, (precision, emax, emin, largest, smallest) in table.items():
        fmt = FORMATS[name]
        got = (fmt.precision, fmt.emax, fmt.emin, fmt.max_finite, fmt.min_subnormal)
        assert got == (precision, emax, emin, largest, smallest), name
        assert float(decode(fmt.max_finite_code, fmt)) == largest
        assert float(decode(1, fmt)) == smallest
        assert float(decode(1 << fmt.fraction_bits, fmt)) == fmt.min_normal


@pytest.mark.parametrize(("name", "dtype"), [("u8", np.uint8), ("s8", np.int8), ("s32", np.int32)])
def test_integer_formats(name: str, dtype: type) -> None:
    info = np.iinfo(dtype)
    values = [info.min, -1, 0, 1, 2, info.max] if info.min else [0, 1, 2, info.max]
    codes = [value & (1 << FORMATS[name].bits) - 1 for value in values]
    assert both_decoders(codes, name) == values
    assert both_encoders([float(v) for v in values], name) == codes
    beyond = both_encoders([info.max + 1.0, info.min - 1.0], name)
    assert [int(decode(code, name).value) for code in beyond] == [info.max, info.min]
    halves = [0.5, 1.5, 2.5]
    assert both_encoders(halves, name, "RNE") == [0, 2, 2]
    assert both_encoders(halves, name, "RU") == [1, 2, 3]
    assert both_encoders(halves, name, "RZ") == both_encoders(halves, name, "RD") == [0, 1, 2]


def test_round_to_is_exact_on_representable_values() -> None:
    assert round_to(Fraction(1, 4), "binary16") == 0.25
    assert round_to(2049, "binary16") == 2048.0
    assert round_to(2049, "binary16", "RU") == 2050.0


def test_formats_of_dtypes() -> None:
    assert format_of(">f4").name == "binary32"
    assert format_of(ml_dtypes.bfloat16).name == "bfloat16"
    assert get_format("F16") is get_format("half") is FORMATS["binary16"]
    assert get_format(FORMATS["e4m3"]) is FORMATS["e4m3"]
    assert format_of(ml_dtypes.float4_e2m1fn).name == get_format("float4_e2m1fn").name == "e2m1"
    assert format_of(ml_dtypes.float8_e4m3fn).name == "e4m3", "ue4m3 is how a unit reads a scale"


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: get_format("binary17"), UnknownNameError, ["binary17", "did you mean", "binary16"]),
        (lambda: format_of(np.complex64), DtypeError, ["complex64", "x.real and x.imag", "float16"]),
        (lambda: decode(-1, "binary16"), ParameterError, ["16 bits", "binary16"]),
        (lambda: decode(1 << 16, "binary16"), ParameterError, ["0x10000"]),
        (lambda: Number.of(Fraction(1, 3)), ParameterError, ["1/3", "power of two"]),
        (lambda: Number("inf").value, ParameterError, ["inf", ".kind"]),
        (lambda: encode(Number.of(1), "binary16", "up"), ParameterError, ["'up'", "RNE, RZ, RU, RD, RO"]),
        (lambda: encode(Number.of(1), "binary16", "RZ", "wrap"), ParameterError, ["'wrap'", "saturate"]),
        (lambda: encode(Number("nan"), "s8"), ParameterError, ["s8", "nan", "floating-point"]),
        (lambda: encode(Number("nan"), "e2m1"), ParameterError, ["e2m1", "NaN", "remove it"]),
        (lambda: encode_array([1.0, math.nan], "e2m1"), ParameterError, ["e2m1", "NaN", "remove it"]),
        (lambda: encode_array([1.0], "e4m3", "up"), ParameterError, ["'up'", "RNE, RZ, RU, RD, RO"]),
        (lambda: encode_array([1.0], "e4m3", "RZ", "wrap"), ParameterError, ["'wrap'", "saturate"]),
        (lambda: encode_array([math.inf], "u8"), ParameterError, ["u8", "inf"]),
        (lambda: decode_array([0.5], "binary16"), DtypeError, ["float64", "view"]),
        (lambda: decode_array([1 << 16], "binary16"), ParameterError, ["16 bits", "mask"]),
    ],
)
def test_errors_say_what_was_given_and_the_next_step(call, error, words) -> None:
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)
