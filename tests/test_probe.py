"""Contract of ``tcu.probe``: every experiment by name, against what is published for the unit.

Paper 003's findings for V100, T4 and A100, each in the paper's words, and the
known rows of later units.  A finding's value is None only where no operands
of the formats could tell; every case shows different predictions.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tcu
from tcu.errors import DtypeError, ParameterError, ShapeError, UnknownNameError
from tcu.formats import decode, get_format
from tcu.probes import Probe, probe
from tcu.units import CATALOGUE, AlignedSum

# paper 003: the statement, the experiment, the value for V100, T4 and A100 (binary16 → binary32)
PAPER_003 = [
    ("there is full support for subnormal inputs in tensor cores", "subnormal inputs", (True, True, True)),
    ("the subnormal number c11 is not altered by the dot product", "subnormal c", (True, True, True)),
    ("subnormal inputs are used in computation", "subnormal products", (True, True, True)),
    ("2 and a subnormal product beside it are rounded down", "subnormal beside 2", (True, True, True)),
    ("the binary16 products are computed exactly, and kept in full precision", "exact products", (True, True, True)),
    ("each element of D includes four rounding errors", "several roundings", (True, True, True)),
    ("the summands are accumulated starting with the largest in absolute value", "largest addend first",
     (True, True, True)),
    ("on positive sums either round-towards-zero or round-towards-minus-infinity is used", "rounding, positive",
     ("RZ/RD", "RZ/RD", "RZ/RD")),
    ("on negative sums either round-towards-zero or round-towards-plus-infinity is used", "rounding, negative",
     ("RZ/RU", "RZ/RU", "RZ/RU")),
    ("additions are performed in round-towards-zero", "rounding mode", ("RZ", "RZ", "RZ")),
    ("V100 {3.23}; T4 and A100 have one extra bit {3.24}", "extra bits", (23, 24, 24)),
    ("V100 does not implement guard digits; T4 and A100 have an extra bit at the bottom", "guard digit",
     (False, True, True)),
    ("only the final result is normalized; the partial sums are not", "normalisation in addition",
     (False, False, False)),
    ("the result of the subtraction is not normalized", "normalisation in subtraction", (False, False, False)),
    ("the internal accumulator has at least 2 extra bits for carries", "two carry bits", (True, True, True)),
    ("the internal significand is most likely 27 (28) bits wide: a third carry bit", "third carry bit",
     (True, True, True)),
    ("the dot products in tensor cores are non-monotonic", "monotonicity", (False, False, False)),
]  # fmt: skip


@pytest.fixture(scope="module")
def probed() -> dict[tuple[str, ...], Probe]:
    return {}


def ask(probed: dict[tuple[str, ...], Probe], unit: str, given: str = "binary16", **options: str) -> Probe:
    key = (unit, given, *options.values())
    if key not in probed:
        probed[key] = probe(unit, input=given, **options)
    return probed[key]


@pytest.mark.slow(1)
@pytest.mark.parametrize(("statement", "name", "values"), PAPER_003, ids=[row[1] for row in PAPER_003])
def test_paper_003_binary16(statement: str, name: str, values: tuple[object, ...], probed) -> None:
    for unit, value in zip(("V100", "T4", "A100"), values, strict=True):
        finding = ask(probed, unit)[name]
        assert finding.value == value, f"{unit}: {statement}; {finding.conclusion}"
        assert finding.source.startswith("paper 003")


@pytest.mark.slow
@pytest.mark.parametrize("given", ["bfloat16", "tf32"])
def test_paper_003_the_other_formats_of_the_a100_behave_as_binary16_on_the_t4(given: str, probed) -> None:
    """The paper's section on Ampere: same features as binary16 on the T4; subnormal outputs too."""
    for _, name, (_, _, value) in PAPER_003:
        assert ask(probed, "A100", given)[name].value == value, name
    assert ask(probed, "A100", given)["subnormal results"].value is True


@pytest.mark.slow
@pytest.mark.parametrize("name", ["normalisation in addition", "monotonicity"])
def test_tf32_tells_normalisation_and_monotonicity_by_unequal_products(name: str, probed) -> None:
    """Four equal products at the last bit kept never show in a result beside 1; 3u, u, u and u do."""
    u = 2.0**-25
    finding = ask(probed, "A100", "tf32")[name]
    for case in finding.cases:
        assert [p * q for p, q in zip(case.a, case.b, strict=True)] == [3 * u, u, u, u]
    assert finding.cases[0].c == 1 - 2.0**-24
    assert name != "monotonicity" or finding.cases[1].c == 1.0


def test_a_subnormal_product_beside_2_has_a_subnormal_factor(probed) -> None:
    """Paper 003's own operands on the V100: 2^-23 + 2^-24 beside 2."""
    case = ask(probed, "V100")["subnormal beside 2"].cases[0]
    assert sorted(zip(case.a, case.b, strict=True)) == [(1.0, 2.0**-23 + 2.0**-24), (1.0, 2.0)]
    assert case.predictions["cut"] != case.predictions["rounded to nearest"]


@pytest.mark.slow(1)
@pytest.mark.parametrize(
    ("given", "planted", "expected"),
    [
        ("binary16", {"flush_inputs": True}, {"subnormal products": False, "subnormal beside 2": False}),
        ("tf32", {"flush_inputs": True}, {"subnormal products": False, "subnormal beside 2": False}),
    ],
)
def test_a_unit_that_flushes_is_told_by_its_subnormal_products(given: str, planted, expected) -> None:
    row = next(r for r in CATALOGUE["A100"].instructions if (r.a, r.output) == (given, "binary32"))
    flushing = replace(row, arithmetic=replace(row.arithmetic, **planted))
    found = probe(replace(CATALOGUE["A100"], name="flushing", instructions=(flushing,)), input=given)
    assert {name: found[name].value for name in expected} == expected


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["V100", "T4", "A100"])
def test_paper_003_binary16_output(unit: str, probed) -> None:
    """What the sections on subnormals, accuracy and rounding say of the binary16 mode."""
    found = ask(probed, unit, output="binary16")
    assert found["subnormal inputs"].value is True
    assert found["subnormal results"].value is True
    assert found["exact products"].value is True
    assert found["rounding mode"].value == "RNE"
    assert found["extra bits"].value == (23 if unit == "V100" else 24)


def test_paper_003_binary64_of_the_a100_is_ieee_arithmetic(probed) -> None:
    """Round to nearest, normalised after each addition, no start from the largest, monotonic."""
    found = ask(probed, "A100", "binary64")
    assert found.kind == "chain"
    expected = {
        "rounding mode": "RNE", "normalisation in addition": True, "largest addend first": False,
        "monotonicity": True, "several roundings": True, "subnormal inputs": True, "exact products": True,
    }  # fmt: skip
    assert {name: found[name].value for name in expected} == expected


@pytest.mark.slow(1)
@pytest.mark.parametrize("carry", [None, 2, 3, 4])
def test_the_carry_bits_of_a_unit_are_told(carry: int | None) -> None:
    row = next(r for r in CATALOGUE["H100"].instructions if (r.a, r.output) == ("binary16", "binary32"))
    wrapping = replace(row, arithmetic=replace(row.arithmetic, carry_bits=carry))
    found = probe(replace(CATALOGUE["H100"], name="wrapping", instructions=(wrapping,)))
    assert found["carry bits"].value == (carry or "all")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("unit", "given", "instruction", "first"),
    [
        ("H100", "binary16", "mma", "none"), ("A100", "binary64", "mma", "b"), ("AMX", "bfloat16", "tdpbf16ps", "c"),
        ("AVX512-BF16", "bfloat16", "vdpbf16ps", "a"), ("Arm-BF16", "bfloat16", "bfdot", "none"),
    ],
)  # fmt: skip
def test_which_nan_comes_back(unit: str, given: str, instruction: str, first: str) -> None:
    assert probe(unit, input=given, instruction=instruction)["NaN priority"].value == first


@pytest.mark.slow
def test_the_nan_of_c_may_come_first() -> None:
    row = next(r for r in CATALOGUE["H100"].instructions if (r.a, r.output) == ("binary16", "binary32"))
    other = replace(row, arithmetic=replace(row.arithmetic, nan_rule="c first"))
    found = probe(replace(CATALOGUE["H100"], name="other", instructions=(other,)))
    assert found["NaN priority"].value == "c"


LATER = [
    ("A100", "binary16", {}, {"block size": 8, "order of blocks": "ascending", "place of c": "aligned"}),
    ("A100", "tf32", {}, {"block size": 4, "exponent floor": -132}),
    ("Ada", "e4m3", {}, {"extra bits": 13, "output fraction bits": 13, "block size": 16, "rounding mode": "RZ"}),
    ("L40S", "e5m2", {"output": "binary16"}, {"extra bits": 13, "block size": 16, "rounding mode": "RNE"}),
    ("H100", "binary16", {}, {"extra bits": 25, "block size": 16, "output fraction bits": 23, "guard digit": True}),
    ("H100", "bfloat16", {}, {"extra bits": 25, "exponent floor": -133, "normalised products": False}),
    ("H200", "tf32", {"instruction": "wgmma"}, {"extra bits": 25, "block size": 8}),
    ("H200", "e4m3", {"instruction": "wgmma"}, {"extra bits": 13, "output fraction bits": 13, "block size": 32}),
    ("H100", "e5m2", {}, {"extra bits": 25, "place of c": "late", "order of blocks": "k mod 4", "block size": 16}),
    ("B200", "binary16", {}, {"extra bits": 25, "block size": 16, "rounding mode": "RZ"}),
    ("B200", "e4m3", {"instruction": "tcgen05"}, {"extra bits": 25, "block size": 32, "place of c": "aligned"}),
]  # fmt: skip


@pytest.mark.some(2)
@pytest.mark.slow
@pytest.mark.parametrize(("unit", "given", "options", "expected"), LATER)
def test_known_rows_of_later_units(unit, given, options, expected, probed) -> None:
    found = ask(probed, unit, given, **options)
    assert {name: found[name].value for name in expected} == expected
    assert found["NaN bits"].value == "all ones"
    assert found["sign of zero"].value == "+0"


@pytest.mark.slow
def test_every_case_tells_hypotheses_apart_and_says_what_was_asked(probed) -> None:
    for unit in ("V100", "A100", "H100"):
        found = ask(probed, unit)
        row = CATALOGUE[unit].instructions[0]
        for finding in found.findings:
            assert finding.question.endswith("?")
            assert finding.conclusion.endswith(".")
            for case in finding.cases:
                assert len(case.a) == len(case.b) <= found.k
                a, b = np.zeros((1, found.k)), np.zeros((found.k, 1))
                a[0, : len(case.a)], b[: len(case.b), 0] = case.a, case.b
                c = np.array([[case.c]], np.float32)
                again = tcu.mma(a.astype(np.float16), b.astype(np.float16), c, unit=unit).view(np.uint32)[
                    0, 0
                ]
                assert case.returned == again
                if len(case.predictions) > 1 and finding.source.startswith("paper"):
                    assert len(set(case.predictions.values())) > 1, finding.name
        assert row.k == found.k


@pytest.mark.slow
def test_a_finding_is_none_only_where_nothing_could_be_asked_or_nothing_fits(probed) -> None:
    for unit in ("V100", "T4", "A100", "H100"):
        for finding in ask(probed, unit).findings:
            if finding.value is None:
                assert finding.name in ("subnormal results", "exponent floor", "order of blocks"), finding


@pytest.mark.slow
def test_a_planted_deviation_is_found() -> None:
    """A unit that differs in one parameter gets another value in the experiment of that parameter."""
    base = AlignedSum(8, 24, "RZ", -133)
    for change, name, value in [
        ({"fraction_bits": 26}, "extra bits", 26),
        ({"rounding": "RU"}, "rounding mode", "RU"),
        ({"block": 4}, "block size", 4),
        ({"flush_inputs": True}, "subnormal inputs", False),
        ({"normalized_products": True}, "normalised products", True),
        ({"late_c": True}, "place of c", "late"),
        ({"output_fraction_bits": 20}, "output fraction bits", 20),
        ({"exponent_floor": -126}, "exponent floor", -126),
    ]:
        from dataclasses import replace

        row = tcu.Instruction(
            "mma", "bfloat16", "bfloat16", "binary32", (16, 8, 16), replace(base, **change), ()
        )  # type: ignore[arg-type]
        found = probe(tcu.Unit("planted", "-", "-", "-", (row,)), input="bfloat16")
        assert found[name].value == value, name


@pytest.mark.slow
def test_a_function_is_a_target_like_any_other() -> None:
    def mine(a, b, c):
        return tcu.mma(a, b, c, unit="A100")

    found = probe(mine, k=16)
    assert found.target == "mine"
    assert found["extra bits"].value == 24
    assert found["block size"].value == 8


@pytest.mark.slow
@pytest.mark.parametrize(("output", "rounded"), [("f32", None), ("f16", False)])
def test_a_chain_of_ieee_operations_is_asked_as_such(output: str, rounded: bool | None) -> None:
    """In binary16 the product is rounded before it is added; in binary32 it is exact, and nothing can tell."""

    def chain(a, b, c):
        with np.errstate(all="ignore"):
            for k in range(a.shape[1]):
                c = c + np.multiply.outer(a[:, k].astype(c.dtype), b[k].astype(c.dtype))
        return c

    found = probe(chain, k=4, output=output)
    assert found.kind == "chain"
    assert found["exact products"].value is rounded
    expected = {
        "rounding mode": "RNE", "several roundings": True, "largest addend first": False, "place of c": "first",
        "normalisation in addition": True, "monotonicity": True,
    }  # fmt: skip
    assert {name: found[name].value for name in expected} == expected


BLOCKS = [
    ("MI100", {}, {"kind of sum": "exact", "block size": 4}),
    ("MI250", {}, {"kind of sum": "tree", "group size": 4}),
    ("MI300", {}, {"kind of sum": "late", "block size": 8, "extra bits": 24, "late bits": 31,
                   "even and odd products": False, "small c": True}),
    ("MI300", {"input": "e4m3fnuz"}, {"kind of sum": "late", "block size": 16, "extra bits": 24, "late bits": 31,
                                      "even and odd products": True, "small c": False}),
    ("B200", {"instruction": "mxf8f6f4", "input": "e4m3", "scale": ("ue8m0", 32)},
     {"block size": 32, "extra bits": 25, "rounding mode": "RZ", "exponent floor": -133}),
    ("B200", {"instruction": "mxf4", "input": "e2m1", "scale": ("ue8m0", 32)},
     {"kind of sum": "grouped", "block size": 64, "group size": 16, "extra bits": 35, "exponent floor": -139}),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("unit", "options", "expected"), BLOCKS)
def test_sums_of_blocks_are_asked_for_their_own_parameters(unit, options, expected) -> None:
    found = probe(unit, **options)
    assert found.kind == "block"
    assert {name: found[name].value for name in expected} == expected
    for finding in found.findings:
        for case in finding.cases:
            assert len(case.predictions) < 2 or len(set(case.predictions.values())) > 1, finding.name
            assert len(case.scale_a) == len(case.scale_b)


@pytest.mark.slow
def test_a_late_sum_with_another_parameter_is_told() -> None:
    row = next(r for r in CATALOGUE["MI300"].instructions if r.a == "binary16")
    for name, change, value in (
        ("late bits", {"late_bits": 28}, 28),
        ("small c", {"drops_small_c": True}, False),
    ):
        other = replace(row, arithmetic=replace(row.arithmetic, **change))
        assert probe(replace(CATALOGUE["MI300"], instructions=(other,)))[name].value == value


@pytest.mark.slow
def test_integers_and_codes() -> None:
    assert probe("H100", input="u8")["integer overflow"].value == "wraps"
    finding = probe("V100")["extra bits"]
    for case in finding.cases:
        assert decode(case.returned, get_format("binary32")).kind == "finite"
        assert case.agreeing == ("F = 23",) or "F = 23" in case.agreeing
    with pytest.raises(KeyError):
        probe("V100", input="f16")["no such experiment"]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: probe("H1000"), UnknownNameError, "did you mean"),
        (lambda: probe("V100", input="bf16"), DtypeError, "V100"),
        (lambda: probe(lambda a, b, c: c), ParameterError, "k=..."),
        (lambda: probe(lambda a, b, c: c, k=0), ParameterError, "k=0: a function needs k=..., 1 or more"),
        (
            lambda: probe(lambda a, b: a @ b, k=4),
            ParameterError,
            r"called as f\(a, b, c\), and takes other arguments",
        ),
        (
            lambda: probe(lambda a, b: a @ b, k=4),
            ParameterError,
            r"tcu.reveal\(f, kind='matmul', shape=\(M, N, K\)\)",
        ),
        (lambda: probe(np.zeros((2, 2))), ParameterError, "target is of type ndarray: give a unit's name"),
        (
            lambda: probe(lambda a, b, c: c, k=4, input="s8", output="f32"),
            DtypeError,
            "no unit multiplies s8 into binary32",
        ),
        (lambda: probe(lambda a, b, c: c[:1], k=4), ShapeError, "must return"),
        (lambda: probe(lambda a, b, c: c.astype(np.float64), k=4), ShapeError, "float64"),
    ],
)
def test_errors_say_what_was_given(call, error, words) -> None:
    with pytest.raises(error, match=words):
        call()


@pytest.mark.slow
def test_a_rounding_after_each_addition_is_no_exact_sum_whatever_the_order() -> None:
    """Halves of a last bit beside 1 tell a sum that is rounded once only with something smaller."""

    def last_c(a, b, c):
        total = np.zeros_like(c)
        for k in reversed(range(a.shape[1])):  # the small ones meet before they meet the 1
            total = total + a[:, k, None].astype(np.float32) * b[k].astype(np.float32)
        return total + c

    found = probe(last_c, k=16)
    assert found["several roundings"].value is not False
