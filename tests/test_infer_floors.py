"""``tcu.infer`` and the floor of the common exponent: c alone reaches every floor, products of the formats only some.

Members of the family with a floor anywhere are identified right; a target that no member tried is, is refused.
"""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from near_units import AMPERE

import tcu
from tcu.errors import ParameterError
from tcu.formats import decode_array, get_format
from tcu.probes import infer, kinds
from tcu.probes.edge_inputs import c_alone, c_beside_a_smallest_product, small_products_alone
from tcu.probes.floors import cut_of_a_product, cut_of_c
from tcu.probes.kinds import in_both_formats
from tcu.probes.target import Operation, Question, Target, of_instruction
from tcu.units import AlignedSum, GroupedSum, Instruction

DAZ = 2.0**-126


def member(
    rules: AlignedSum | GroupedSum, formats: str = "binary16", output: str = "binary32", k: int = 8
) -> Target:
    scale = ("ue8m0", 32) if isinstance(rules, GroupedSum) else (None, 0)
    return of_instruction(
        "member", Instruction("mma", formats, formats, output, (16, 8, k), rules, (), *scale)
    )


def a100(a, b, c):
    return tcu.mma(a, b, c, unit="A100")


def flushes_c(a, b, c):
    return a100(a, b, np.where(np.abs(c) < DAZ, np.copysign(np.float32(0), c), c))


def subnormal_c_is_positive_zero(a, b, c):
    return a100(a, b, np.where(np.abs(c) < DAZ, np.float32(0), c))


def drops_small_c(a, b, c):
    return a100(a, b, np.where(np.abs(c) < 2.0**-100, np.copysign(np.float32(0), c), c))


def questions(target: Target, seed: int) -> list[Question]:
    """Every kind, and c alone with a last bit that a floor cuts, at every exponent."""
    rng, z = np.random.default_rng(seed), target.output
    asked = [in_both_formats(make, target, rng) for make in kinds.makers(target).values() for _ in range(8)]
    c = np.ldexp(1 + 2.0 ** (1 - z.fraction_bits), -np.arange(-z.emin + 1))
    last = Question(
        np.zeros((1, target.k), target.input.code_dtype),
        np.zeros((target.k, c.size), target.right.code_dtype),
        target.output_codes(c)[None],
    )
    return [*asked, last] if target.scale is None else asked


def identified_right(target: Target, seed: int) -> bool:
    """Whether it was identified; then the model must be right."""
    found = infer(target, seed=seed, outputs=20_000)
    if not found.identified:
        return False
    assert found.unit is not None
    model = of_instruction("model", found.unit.instructions[0])
    different = sum(int((target.answer(q) != model.answer(q)).sum()) for q in questions(target, seed))
    assert not different, found.conclusion
    return True


@pytest.mark.slow(1)
@pytest.mark.parametrize(
    ("floor", "fraction_bits", "formats", "seed"),
    [
        (-60, 24, "binary16", 0), (-20, 24, "binary16", 0), (-58, 24, "binary16", 0), (-75, 24, "binary16", 1),
        (-60, 25, "binary16", 0), (-60, 24, "e4m3", 0), (-60, 24, "bfloat16", 0), (-28, 24, "binary16", 0),
        (-40, 24, "binary16", 0), (-90, 24, "binary16", 0), (-120, 24, "binary16", 0), (-10, 23, "binary16", 0),
    ],
)  # fmt: skip
def test_a_floor_is_found_wherever_it_lies(floor: int, fraction_bits: int, formats: str, seed: int) -> None:
    """Of binary16, -60 was taken for -28, and -20 was of no member."""
    found = infer(member(AlignedSum(8, fraction_bits, "RZ", floor), formats), seed=seed, outputs=20_000)
    assert found.arithmetic == AlignedSum(8, fraction_bits, "RZ", floor), found.conclusion


def random_member(draw: random.Random) -> Target:
    operand = draw.choice(["binary16", "bfloat16", "tf32", "e4m3", "e5m2"])
    narrow = operand in ("binary16", "e4m3", "e5m2") and draw.random() < 0.2
    rules = AlignedSum(
        block=draw.choice([1, 2, 4, 8, 16]),
        fraction_bits=draw.choice([23, 24, 25, draw.randint(8, 40)]),
        rounding=draw.choice(["RZ", "RNE", "RU", "RD"]),
        exponent_floor=draw.randint(-60, -10) if narrow else draw.randint(-150, -10),
        late_c=draw.random() < 0.1,
        flush_inputs=draw.random() < 0.15,
        flush_outputs=draw.random() < 0.15,
    )
    return member(rules, operand, "binary16" if narrow else "binary32", draw.choice([4, 8, 16]))


@pytest.mark.slow
@pytest.mark.some(6)
@pytest.mark.parametrize("number", range(30))
def test_members_with_any_floor_are_identified_right(number: int) -> None:
    assert identified_right(random_member(random.Random(number)), number)


@pytest.mark.some(2)
@pytest.mark.slow
@pytest.mark.parametrize("floor", [-139, -100, -40])
def test_a_floor_of_scaled_products_is_found(floor: int) -> None:
    rules = GroupedSum(64, 16, 35, floor)
    found = infer(member(rules, "e2m1", k=64), seed=0, outputs=20_000)
    assert found.arithmetic == rules, found.conclusion


@pytest.mark.parametrize("floor", [None, -133, -124, -123, -100, -60, -28, -10])
@pytest.mark.parametrize("flush", [False, True])
@pytest.mark.parametrize("fraction_bits", [12, 24, 40])
def test_c_alone_tells_the_floor(floor: int | None, flush: bool, fraction_bits: int) -> None:
    """Every floor that cuts any c, subnormal numbers flushed or not."""
    target = member(AlignedSum(8, fraction_bits, "RZ", floor, flush_inputs=flush, flush_outputs=flush))
    found, known = cut_of_c(target).floor(fraction_bits)
    cut = -126 if floor is None else floor
    assert known == (cut > max(-126, -149 + fraction_bits))
    assert found == floor if known else found >= cut


@pytest.mark.parametrize("floor", [None, -30, -24, -20, -5])
@pytest.mark.parametrize("late", [False, True])
def test_a_product_alone_tells_the_floor(floor: int | None, late: bool) -> None:
    """Of binary16 the lowest bit of a product is 2^-48, which F = 25 cuts under floors above -23."""
    target = member(AlignedSum(8, 25, "RZ", floor, late_c=late, flush_inputs=True))
    assert cut_of_a_product(target).floor(25) == ((floor, True) if floor and floor > -23 else (-23, False))


def test_a_product_alone_is_no_measure_where_the_result_has_fewer_bits() -> None:
    """12 bits come back of any product: that is no floor."""
    target = member(AlignedSum(8, 25, "RZ", -40, output_fraction_bits=11, late_c=True))
    assert not cut_of_a_product(target).floor(25)[1]


@pytest.mark.parametrize("output", ["binary32", "binary16"])
@pytest.mark.parametrize("make", [c_alone, c_beside_a_smallest_product])
def test_c_has_every_exponent(make, output: str) -> None:
    operation, z = Operation(get_format("binary16"), get_format(output), 8), get_format(output)
    rng = np.random.default_rng(0)
    asked = [make(operation, rng) for _ in range(40)]
    c = np.abs(np.concatenate([decode_array(q.c, z).ravel() for q in asked]))
    assert np.isfinite(c).all()
    assert set(range(z.emin, z.emax + 1)) <= set(np.frexp(c)[1] - 1)
    assert 0.2 < (c < z.min_normal).mean() < 0.35
    products = [decode_array(q.a, operation.input) @ decode_array(q.b, operation.input) for q in asked]
    assert all((np.count_nonzero(each) > 0) == (make is c_beside_a_smallest_product) for each in products)
    assert max(np.abs(each).max() for each in products) <= 2.0**-28


def test_small_products_alone_tell_floors_of_sums_that_c_does_not_join() -> None:
    """Subnormal sums are flushed before c is added: only products of 2^-126 to 2^-125 and a smaller one are told apart."""
    rules, rng = AlignedSum(8, 23, "RZ", -124, late_c=True, flush_inputs=True), np.random.default_rng(0)
    target, other = (member(each, "bfloat16") for each in (rules, replace(rules, exponent_floor=-133)))
    asked = [small_products_alone(target, rng) for _ in range(kinds.REPEATED["small products alone"])]
    assert sum(int((target.answer(q) != other.answer(q)).any()) for q in asked) >= 4


def test_the_questions_tell_what_becomes_of_small_c() -> None:
    rng = np.random.default_rng(0)
    for function in (flushes_c, subnormal_c_is_positive_zero, drops_small_c):
        box = replace(member(AMPERE), function=function)
        for make in (c_alone, c_beside_a_smallest_product):
            different = [
                box.answer(q) != member(AMPERE).answer(q) for q in (make(box, rng) for _ in range(4))
            ]
            assert np.any(different) == (make is c_alone), function.__name__


@pytest.mark.slow
@pytest.mark.parametrize("function", [flushes_c, subnormal_c_is_positive_zero])
def test_units_that_differ_in_subnormal_c_alone_are_not_named(function) -> None:
    found = infer(function, k=8, seed=0, outputs=20_000)
    assert found.arithmetic == replace(AMPERE, exponent_floor=-133, flush_outputs=True)
    assert found.units == ()
    assert "as no unit of the catalogue" in found.conclusion


@pytest.mark.slow
def test_a_threshold_of_c_is_no_floor() -> None:
    """It was taken for a floor of -28."""
    found = infer(drops_small_c, k=8, seed=0, outputs=20_000)
    assert not found.identified
    assert found.conclusion == (
        "not identified: none of the members of the family that were tried agrees on every bit"
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"k": 1.5}, "k=1.5: a function needs k=..., 1 or more: the whole number of products"),
        ({"k": "8"}, "k='8': a function needs k=..., 1 or more"),
        ({"k": 8, "outputs": 1.5}, "outputs=1.5: compare a whole number of outputs, 1 or more"),
        ({"k": 8, "seed": 1.5}, "seed=1.5: give a whole number of 0 or more, or None for a fresh one"),
        ({"k": 8, "seed": -1}, "seed=-1: give a whole number of 0 or more, or None for a fresh one"),
        ({"k": 64, "input": "e2m1", "scale": ("ue8m0", 1.5)}, "1.5 k to a scale, but k = 64 is no multiple"),
    ],
)
def test_numbers_that_are_not_whole(given: dict, message: str) -> None:
    function = (lambda a, b, c, p, q: c) if "scale" in given else (lambda a, b, c: c)
    with pytest.raises(ParameterError) as refused:
        infer(function, **given)
    assert message in str(refused.value)
