"""Contract of ``tcu.mma``: shapes, dtypes, batches, padding, special values and errors.

What it computes is the business of test_model.py and test_vectors.py.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from adversarial import MODES, codes

import tcu
from tcu import units
from tcu.errors import DtypeError, ParameterError, ShapeError, UnknownNameError
from tcu.formats import get_format
from tcu.model.definition import dot
from tcu.units import (
    CATALOGUE,
    AlignedSum,
    ExactInteger,
    FusedChain,
    Instruction,
    Unit,
    find_instruction,
    get_unit,
    units_with,
)

RNG = np.random.default_rng(0)
F16 = RNG.standard_normal((16, 16)).astype(np.float16)


@pytest.mark.slow
@pytest.mark.parametrize("unit", CATALOGUE)
def test_small_integers_are_exact_in_every_format_and_instruction(unit: str) -> None:
    for row in get_unit(unit).instructions:
        x, y = get_format(row.a).dtype, get_format(row.b).dtype
        k = row.per_scale or 7
        a = RNG.integers(0, 3, (5, k)).astype(x)
        b = RNG.integers(0, 3, (k, 3)).astype(y)
        scales = {}
        if row.scale:
            scales = {"scale_a": np.full((5, 1), 2, get_format(row.scale).dtype),
                      "scale_b": np.full((1, 3), 4, get_format(row.scale).dtype)}  # fmt: skip
        c = RNG.integers(0, 3, (5, 3)).astype(get_format(row.c).dtype)
        d = tcu.mma(a, b, c, unit=unit, instruction=row.name, **scales)
        factor = 8 if row.scale else 1
        expected = factor * (a.astype(np.int64) @ b.astype(np.int64)) + c.astype(np.int64)
        assert d.dtype == get_format(row.output).dtype
        assert (d.astype(np.int64) == expected).all(), row.signature


def test_batches_broadcast_and_equal_one_at_a_time() -> None:
    a = RNG.standard_normal((3, 1, 4, 20)).astype(np.float16)
    b = RNG.standard_normal((2, 20, 9)).astype(np.float16)
    c = RNG.standard_normal((4, 9)).astype(np.float32)
    d = tcu.mma(a, b, c, unit="V100")
    assert d.shape == (3, 2, 4, 9)
    for i, j in itertools.product(range(3), range(2)):
        assert (tcu.mma(a[i, 0], b[j], c, unit="V100") == d[i, j]).all()


def test_rows_and_columns_do_not_influence_each_other() -> None:
    a = RNG.standard_normal((17, 33)).astype(ml_dtypes.bfloat16)
    b = RNG.standard_normal((33, 13)).astype(ml_dtypes.bfloat16)
    d = tcu.mma(a, b, unit="A100")
    for i, j in itertools.product(range(17), range(13)):
        assert tcu.mma(a[i : i + 1], b[:, j : j + 1], unit="A100")[0, 0] == d[i, j]


def test_k_is_cut_in_order_and_padded_with_zeros() -> None:
    a, b = RNG.standard_normal((2, 40)).astype(np.float16), RNG.standard_normal((40, 2)).astype(np.float16)
    c = None
    for start in range(0, 40, 16):
        c = tcu.mma(a[:, start : start + 16], b[start : start + 16], c, unit="H100")
    assert (tcu.mma(a, b, unit="H100") == c).all()


def test_layout_byte_order_and_alignment_do_not_matter() -> None:
    expected = tcu.mma(F16, F16, unit="H100")
    raw = np.zeros(F16.nbytes + 1, np.uint8)
    raw[1:] = np.frombuffer(F16.tobytes(), np.uint8)
    misaligned = raw[1:].view(np.float16).reshape(16, 16)
    wide = np.zeros((32, 48), np.float16)
    wide[::2, ::3] = F16
    for other in (np.asfortranarray(F16), F16.astype(">f2"), misaligned, wide[::2, ::3], F16.tolist()):
        given = np.float16(other) if isinstance(other, list) else other
        assert (tcu.mma(given, given, unit="H100") == expected).all()


@pytest.mark.slow
def test_tf32_drops_the_low_bits_so_a_nan_with_a_short_payload_is_an_infinity() -> None:
    a = np.array([[0x7F800001]], np.uint32).view(np.float32)
    one = np.ones((1, 1), np.float32)
    assert tcu.mma(a, one, unit="A100")[0, 0] == np.inf
    x = np.array([[0x3F801FFF]], np.uint32).view(np.float32)
    assert tcu.mma(x, one, unit="A100")[0, 0] == 1.0


@pytest.mark.slow
def test_nan_bits_are_the_units_own() -> None:
    nan = np.array([[0xFE01]], np.uint16).view(np.float16)
    one = np.ones((1, 1), np.float16)
    assert tcu.mma(nan, one, unit="H100").view(np.uint32)[0, 0] == 0x7FFFFFFF
    assert tcu.mma(nan, one, one, unit="H100").view(np.uint16)[0, 0] == 0x7FFF
    infinite = np.full((1, 1), np.inf, np.float16)
    assert np.isnan(tcu.mma(infinite, np.zeros((1, 1), np.float16), unit="H100"))[0, 0]
    assert tcu.mma(infinite, -one, unit="H100")[0, 0] == -np.inf


@pytest.mark.slow
def test_a_sum_beyond_its_carry_bits_wraps_around() -> None:
    a, b = np.full((1, 4), 1.5, np.float16), np.full((4, 1), 1.0, np.float16)
    for carry_bits, sums in ((1, (1.5, 3, -3.5, -2)), (2, (1.5, 3, 4.5, 6)), (None, (1.5, 3, 4.5, 6))):
        row = Instruction(
            "mma", "f16", "f16", "f32", (16, 8, 4), AlignedSum(4, 24, "RZ", carry_bits=carry_bits), ()
        )
        unit = Unit("mine", "-", "-", "-", (row,))
        for n, expected in enumerate(sums, 1):
            assert tcu.mma(a[:, :n], b[:n], unit=unit)[0, 0] == expected


@pytest.mark.slow
def test_a_sum_that_may_wrap_has_no_error_bound() -> None:
    row = Instruction("mma", "f16", "f16", "f32", (16, 8, 16), AlignedSum(16, 25, "RZ", carry_bits=3), ())
    x = np.ones((4, 4), np.float16)
    unit = Unit("mine", "-", "-", "-", (row,))
    for bound in (
        lambda: tcu.error_bound(x[0], unit=unit, variant="short-chain"),
        lambda: tcu.matmul_error_bound(x, x, unit=unit),
    ):
        with pytest.raises(
            ParameterError, match="carry_bits=3: a block of 16 may wrap around, so its error has no bound"
        ):
            bound()
    enough = Unit("mine", "-", "-", "-", (replace(row, arithmetic=AlignedSum(16, 25, "RZ", carry_bits=6)),))
    assert tcu.error_bound(x[0], unit=enough, variant="short-chain") >= 0


def test_integers_saturate_where_the_row_says_so() -> None:
    row = Instruction("mma", "s8", "s8", "s32", (16, 8, 4), ExactInteger(saturate=True), ())
    unit = Unit("mine", "-", "-", "-", (row,))
    a, b = np.full((1, 8), 127, np.int8), np.full((8, 1), 127, np.int8)
    b[4:] = -127
    c = np.array([[2**31 - 1]], np.int32)
    # The first instruction stops at the end of the range, the second goes down from there.
    assert tcu.mma(a, b, c, unit=unit)[0, 0] == 2**31 - 1 - 4 * 127**2


def test_integers_wrap() -> None:
    a, b = np.full((1, 4), 255, np.uint8), np.full((4, 1), 255, np.uint8)
    c = np.array([[2**31 - 1]], np.int32)
    assert tcu.mma(a, b, c, unit="H100")[0, 0] == (2**31 - 1 + 4 * 255**2) - 2**32
    assert tcu.mma(a, np.full((4, 1), -128, np.int8), unit="H100")[0, 0] == -4 * 255 * 128


def test_empty_dimensions() -> None:
    assert tcu.mma(np.ones((0, 4), np.float16), np.ones((4, 3), np.float16), unit="H100").shape == (0, 3)
    c = np.array([[5.0]], np.float32)
    assert tcu.mma(np.ones((1, 0), np.float16), np.ones((0, 1), np.float16), c, unit="H100")[0, 0] == 5.0
    assert tcu.mma(np.ones((0, 2, 2), np.float64), np.ones((2, 2), np.float64), unit="A100").shape == (
        0,
        2,
        2,
    )


def test_a_unit_of_the_users_own() -> None:
    exact = AlignedSum(block=16, fraction_bits=40, rounding="RNE")
    row = Instruction("mma", "binary16", "binary16", "binary32", (16, 8, 16), exact, ())
    mine = Unit("mine", "a drawing board", "none", "-", (row,))
    d = tcu.mma(F16, F16, unit=mine)
    assert (d == (F16.astype(np.float64) @ F16.astype(np.float64)).astype(np.float32)).all()


@pytest.mark.slow
def test_paper_003_statements_on_the_accumulator() -> None:
    """Paper 003, "Extra bits" and "NVIDIA Turing tensor cores": 1 + 2^-24 + 2^-24 on V100, T4, A100."""
    a = np.ones((1, 4), np.float16)
    b = np.array([[2.0**-24], [2.0**-24], [0], [0]], np.float16)
    one = np.ones((1, 1), np.float32)
    assert tcu.mma(a, b, one, unit="V100")[0, 0] == 1.0
    for unit in ("T4", "A100", "H100"):
        assert tcu.mma(a, b, one, unit=unit)[0, 0] == 1.0 + 2.0**-23


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: tcu.mma(F16, F16, unit="H10"), UnknownNameError, ["'H10'", "did you mean", "H100"]),
        (lambda: tcu.mma(F16, F16, unit="V100", instruction="wgmma"), UnknownNameError, ["wgmma", "V100", "mma"]),
        (lambda: tcu.mma(F16.astype(ml_dtypes.bfloat16), F16.astype(ml_dtypes.bfloat16), unit="V100"),
         DtypeError, ["bfloat16", "V100", "binary16 → binary32"]),
        (lambda: tcu.mma(F16, F16.astype(np.float32), unit="H100"), DtypeError, ["binary16 · tf32", "it computes"]),
        (lambda: tcu.mma(F16, F16, F16.astype(np.float64), unit="H100"), DtypeError, ["→ binary64"]),
        (lambda: tcu.mma(F16.astype(ml_dtypes.float8_e4m3fn), F16.astype(ml_dtypes.float8_e4m3fn),
                         unit="A100"), DtypeError, ["e4m3", "A100"]),
        (lambda: tcu.mma(F16.astype(np.float64), F16.astype(np.float64), unit="H100", instruction="wgmma"),
         DtypeError, ["binary64", "H100 has it as: mma binary64"]),
        (lambda: tcu.mma(F16.astype(complex), F16, unit="H100"), DtypeError, ["complex128", "x.real and x.imag"]),
        (lambda: tcu.mma(F16.astype(object), F16, unit="H100"), DtypeError, ["object"]),
        (lambda: tcu.mma(np.ma.masked_array(F16), F16, unit="H100"), DtypeError, ["a is a masked array", "filled"]),
        (lambda: tcu.mma(F16[0], F16, unit="H100"), ShapeError, ["a has shape (16,)", "a[None, :]"]),
        (lambda: tcu.mma(F16[:, :3], F16, unit="H100"), ShapeError, ["(16, 3)", "(16, 16)", "columns"]),
        (lambda: tcu.mma(F16, F16, np.zeros((16, 3), np.float32), unit="H100"), ShapeError, ["(16, 3)", "(16, 16)"]),
        (lambda: tcu.mma(np.stack([F16] * 2), np.stack([F16] * 3), unit="H100"), ShapeError, ["batch", "broadcast"]),
    ],
)  # fmt: skip
def test_errors_say_what_was_given_and_the_next_step(call, error, words) -> None:
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"block": 0}, "block=0"),
        ({"block": 65}, "1 to 64"),
        ({"fraction_bits": 43}, "1 to 42"),
        ({"rounding": "RN"}, "RNE, RZ, RU, RD"),
        ({"output_fraction_bits": 0}, "output_fraction_bits=0"),
        ({"order": (0, 0)}, "exactly once"),
        ({"exponent_floor": 3}, "-400 to 0"),
        ({"carry_bits": 0}, "carry_bits=0: choose 1 to 8, or None"),
        ({"nan_rule": "mine"}, "nan_rule='mine': choose one of nvidia, x86, arm, c first"),
    ],
)
def test_parameters_out_of_range(changes: dict[str, object], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        AlignedSum(**{"block": 4, "fraction_bits": 24, "rounding": "RZ", **changes})  # type: ignore[arg-type]


def test_an_instruction_must_fit_its_arithmetic() -> None:
    with pytest.raises(ParameterError, match="k = 8"):
        Instruction("mma", "tf32", "tf32", "binary32", (16, 8, 8), AlignedSum(8, 24, "RZ", order=(1, 0)), ())
    with pytest.raises(ParameterError, match="AlignedSum takes"):
        Instruction("mma", "binary64", "binary64", "binary64", (8, 8, 4), AlignedSum(8, 24, "RZ"), ())


def test_the_catalogue_has_every_unit_and_instruction() -> None:
    gpus = ["V100", "T4", "A100", "A30", "A2", "Ada", "L40S", "H100", "H200", "B200", "RTX-Blackwell",
            "MI100", "MI250", "MI300"]  # fmt: skip
    processors = ["AMX", "AVX512-BF16", "AVX512-VNNI", "Arm-BF16", "Arm-EBF16"]
    assert list(CATALOGUE) == [*gpus, *processors]
    assert units_with("mma") == gpus
    instructions = {unit.name: {row.name for row in unit.instructions} for unit in CATALOGUE.values()}
    assert instructions["H100"] == instructions["H200"] == {"mma", "wgmma"}
    assert instructions["B200"] == {"mma", "tcgen05", "mxf8f6f4", "mxf4", "mxf4nvf4"}
    assert (
        sum(
            row.name == "tcgen05" and row.k == 32 and row.output != "s32"
            for row in CATALOGUE["B200"].instructions
        )
        == 50
    )
    for unit in CATALOGUE.values():
        for row in unit.instructions:
            assert row.evidence, f"{unit.name} {row.signature} names no source"
            exact = isinstance(row.arithmetic, ExactInteger | FusedChain)
            assert exact == (row.output in ("s32", "binary64") or unit.name in processors)


FLOORS = {"V100": (-131, -19), "T4": (-132, -20), "A100": (-132, -20), "A30": (-132, -20), "A2": (-132, -20),
          "Ada": (-132, -20), "L40S": (-132, -20), "H100": (-133, -21), "H200": (-133, -21), "B200": (-133, -21), "RTX-Blackwell": (-133, -21)}  # fmt: skip


def test_every_generation_has_its_exponent_floors() -> None:
    for unit in CATALOGUE.values():
        for row in unit.instructions:
            if isinstance(row.arithmetic, AlignedSum):
                floors = FLOORS["V100" if row.name in ("mma.m8n8k4", "mma.f16c") else unit.name]
                assert row.arithmetic.exponent_floor == floors[row.output == "binary16"], f"{unit.name} {row}"


@pytest.mark.slow(3)
@pytest.mark.parametrize(("unit", "instruction", "least"), [
    ("V100", "mma", 42), ("V100", "mma.m8n8k4", 42), ("T4", "mma.m8n8k4", 42), ("T4", "mma", 44), ("A100", "mma", 44),
    ("A2", "mma", 44), ("Ada", "mma", 44), ("L40S", "mma", 44), ("H200", "mma", 46), ("B200", "tcgen05", 46),
])  # fmt: skip
def test_the_least_product_that_decides_a_tie_of_the_smallest_results(unit, instruction, least) -> None:
    """The published probe of the floor: a tie 2^-25 and a product 2^-t of two subnormal factors."""
    for t in range(36, 49):
        a = np.array([[2.0**-11, 2.0 ** (24 - t)]], np.float16)
        b = np.array([[2.0**-14], [2.0**-24]], np.float16)
        d = tcu.mma(a, b, np.zeros((1, 1), np.float16), unit=unit, instruction=instruction)
        assert d[0, 0] == (2.0**-24 if t <= least else 0), t


def test_the_instruction_of_volta_cuts_at_one_bit_less_on_turing_too() -> None:
    a, b = np.array([[1, 2.0**-12]], np.float16), np.array([[1], [2.0**-12]], np.float16)
    c = np.array([[-1]], np.float32)
    assert tcu.mma(a, b, c, unit="T4")[0, 0] == 2.0**-24
    assert tcu.mma(a, b, c, unit="T4", instruction="mma.m8n8k4")[0, 0] == 0
    assert find_instruction("T4", "mma.m8n8k4", "binary16", "binary16").k == 4


@pytest.mark.slow
def test_8_bit_formats_multiply_in_pairs() -> None:
    """Both factors keep their own exponents and fractions, whichever of them is first."""
    e4m3, e5m2 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
    wide, exact = np.array([[2.0**-3, 448]], e5m2), np.array([[1.125], [2.0**-9]], e4m3)
    for unit, instruction in (("Ada", "mma"), ("H200", "wgmma"), ("B200", "tcgen05")):
        for output in (np.float32, np.float16):
            one = tcu.mma(wide, exact, np.zeros((1, 1), output), unit=unit, instruction=instruction)
            other = tcu.mma(
                exact.T.copy(), wide.T.copy(), np.zeros((1, 1), output), unit=unit, instruction=instruction
            )
            assert one == other == 1.015625
    with pytest.raises(DtypeError, match="e4m3 · e5m2"):
        tcu.mma(exact.T.copy(), wide.T.copy(), unit="B200")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("formats", "a", "b", "c", "returned"),
    [
        (
            ("e4m3", "e5m2", "binary32"),
            (0x00, 0x81, 0x8F, 0x13, 0x00, 0x96, 0x85, 0x92, 0x04),
            (0x12, 0x6D, 0x69, 0x93, 0x01, 0xC8, 0x6A, 0x87, 0x0E), 0, 0xC2E52003,
        ),
        (
            ("e5m2", "e4m3", "binary16"),
            (0x8D, 0xEC, 0xAC, 0xB5, 0xD2, 0xF8, 0xE3, 0x3A),
            (0x89, 0x92, 0x83, 0x10, 0x8C, 0x82, 0x10, 0x83), 0x125, 0x5C15,
        ),
    ],
)  # fmt: skip
def test_mixed_pairs_go_through_binary16_on_hopper(formats, a, b, c, returned) -> None:
    """What an H200 returned; with E4M3's own subnormal exponents the last place is another."""
    x, y, z = (get_format(name) for name in formats)
    left, right = np.array([a], np.uint8).view(x.dtype), np.array([b], np.uint8).view(y.dtype).T
    addend = np.array([[c]], z.code_dtype).view(z.dtype)
    d = tcu.mma(left, right, addend, unit="H200")
    assert int(d.view(z.code_dtype)[0, 0]) == returned
    row = find_instruction("H200", "mma", *formats)
    apart = replace(row, arithmetic=replace(row.arithmetic, through_binary16=False))
    assert tcu.mma(left, right, addend, unit=Unit("apart", "-", "-", "-", (apart,))) != d


def test_what_goes_through_binary16_has_8_bits_and_one_nan() -> None:
    row = find_instruction("H200", "mma", "e4m3", "e5m2")
    with pytest.raises(ParameterError, match="through_binary16 takes e4m3 and e5m2, not mma bfloat16"):
        replace(row, a="bfloat16", b="bfloat16")
    with pytest.raises(ParameterError, match="nan_rule='arm': with through_binary16 it is 'nvidia'"):
        replace(row.arithmetic, nan_rule="arm")


def test_units_are_found_in_any_case_and_instructions_by_their_other_names() -> None:
    assert get_unit("h100") is CATALOGUE["H100"]
    assert find_instruction("V100", "wmma", "binary16", "binary16").name == "mma"
    assert find_instruction("A100", "mma", "binary16", "binary16").output == "binary32"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"output": "e4m3"}, "binary32 or binary16"),
        ({"a": "u8", "b": "u8"}, "AlignedSum takes"),
        ({"a": "binary32", "b": "binary32"}, "AlignedSum takes"),
        ({"arithmetic": None}, "give an instance of AlignedSum"),
        ({"arithmetic": ExactInteger()}, "ExactInteger takes u8, s8"),
        (
            {"arithmetic": FusedChain(), "output": "f64"},
            "FusedChain takes binary64 and gives binary64, or binary16,",
        ),
        ({"arithmetic": FusedChain((1, 0))}, "order has 2 entries"),
        (
            {"arithmetic": FusedChain(rounded_products=True), "a": "f64", "b": "f64", "output": "f64"},
            "leave them out",
        ),
        ({"shape": (16, 8)}, "(m, n, k)"),
        ({"shape": (16, 8, 0)}, "at least 1"),
        ({"shape": (16, 8, 4.0)}, "whole number"),
        ({"shape": None}, "no sequence"),
    ],
)
def test_an_instruction_that_nothing_could_compute_is_refused(changes, words) -> None:
    row = {"name": "mma", "a": "f16", "b": "f16", "output": "f32", "shape": (16, 8, 16),
           "arithmetic": AlignedSum(8, 24, "RZ"), "evidence": ()}  # fmt: skip
    assert Instruction(**row).signature == "mma binary16 → binary32"
    with pytest.raises(ParameterError) as caught:
        Instruction(**{**row, **changes})
    assert words in str(caught.value)


@pytest.mark.parametrize("changes", [{"block": 4.0}, {"block": "4"}, {"fraction_bits": 23.5}, {"block": True},
                                     {"exponent_floor": -3.5}, {"order": 3}])  # fmt: skip
def test_parameters_are_whole_numbers(changes) -> None:
    with pytest.raises(ParameterError, match="whole number"):
        AlignedSum(**{"block": 4, "fraction_bits": 24, "rounding": "RZ", **changes})
    assert AlignedSum(np.int64(4), np.int32(23), "RZ") == AlignedSum(4, 23, "RZ")


def test_an_order_has_every_k_once() -> None:
    for order, words in (((0, 0), "exactly once"), ((0, 1.5), "whole number"), (3, "no sequence")):
        with pytest.raises(ParameterError, match=words):
            FusedChain(order)  # type: ignore[arg-type]
    assert FusedChain([1, 0]) == FusedChain((1, 0))


def test_c_of_binary16_has_its_own_exponent_where_the_instruction_takes_it() -> None:
    rng = np.random.default_rng(16)
    for unit in ("V100", "T4"):
        row = find_instruction(unit, "mma.m8n8k4.f32.f16.f16.f16", "binary16", "binary16")
        assert (row.name, row.c, row.output) == ("mma.f16c", "binary16", "binary32")
        for mode in MODES:
            a, b = codes(rng, "binary16", (5, 9), mode), codes(rng, "binary16", (9, 6), mode)
            c = codes(rng, "binary16", (5, 6), mode)
            halves = a.view(np.float16), b.view(np.float16), c.view(np.float16)
            d = tcu.mma(*halves, unit=unit, instruction="mma.f16c")
            wide = tcu.mma(*halves[:2], halves[2].astype(np.float32), unit=unit, instruction="mma.m8n8k4")
            assert d.dtype == np.float32
            ordinary = (c & 0x7C00 > 0) | (c & 0x7FFF == 0)
            assert (d.view(np.uint32) == wide.view(np.uint32))[ordinary].all()
            for i, j in np.ndindex(d.shape):
                assert dot(a[i].tolist(), b[:, j].tolist(), int(c[i, j]), row) == int(d.view(np.uint32)[i, j])
    ones = np.ones((4, 4), np.float16)
    assert (tcu.mma(ones, ones, unit="V100", instruction="mma.f16c") == 4).all()
    small, normal = np.full((1, 1), 2.0**-24, np.float16), np.full((1, 1), 2.0**-14, np.float16)
    cut = tcu.mma(small, normal, small, unit="V100", instruction="mma.f16c")
    kept = tcu.mma(small, normal, small.astype(np.float32), unit="V100", instruction="mma.m8n8k4")
    assert (cut[0, 0], kept[0, 0]) == (2.0**-24, 2.0**-24 + 2.0**-38)
    empty = tcu.mma(ones[:, :0], ones[:0], ones, unit="V100", instruction="mma.f16c")
    assert empty.dtype == np.float32
    assert (empty == 1).all()
    with pytest.raises(
        DtypeError, match=r"with C in binary32; it computes: binary16 → binary32, C in binary16"
    ):
        tcu.mma(ones, ones, ones.astype(np.float32), unit="V100", instruction="mma.f16c")


@pytest.mark.parametrize(
    "changes",
    [{"addend": "binary32"}, {"output": "binary16"}, {"arithmetic": FusedChain()}, {"addend": "bfloat16"}],
)
def test_another_format_of_c_where_none_is_known(changes: dict[str, Any]) -> None:
    row = find_instruction("V100", "mma.f16c", "binary16", "binary16")
    with pytest.raises(
        ParameterError,
        match=r"addend='.*': binary16 with inputs of binary16 into binary32, by an AlignedSum of one",
    ):
        replace(row, **changes)


def test_rules_show_what_differs_from_the_defaults() -> None:
    rules = AlignedSum(16, 25, "RZ", -133, order=(1, 0), late_c=True)
    assert (
        repr(rules)
        == "AlignedSum(block=16, fraction_bits=25, rounding='RZ', exponent_floor=-133, order=(1, 0), late_c=True)"
    )
    assert (repr(FusedChain()), repr(FusedChain(lanes=2))) == ("FusedChain()", "FusedChain(lanes=2)")
    for unit in CATALOGUE.values():
        for row in unit.instructions:
            assert eval(repr(row.arithmetic), vars(units)) == row.arithmetic
