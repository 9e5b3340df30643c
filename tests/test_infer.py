"""Contract of ``tcu.infer``: an executable model from answers alone, or *not identified*.

Every arithmetic of the catalogue (16 of them, of every unit, without
``--all-cases``), units drawn at random over the whole family (``--units`` of
them; ``make verify`` takes 300), chains of IEEE operations
written in NumPy, aligned sums that are nearly such a chain, and targets that
no member of the family is: those are never identified.  An identified unit is
compared with the target once more, on inputs that the inference did not see.
Nothing is identified before every kind of question was asked.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from near_units import HOLES, Box

import tcu
from tcu.errors import DtypeError, ParameterError
from tcu.formats import get_format
from tcu.formats.scalar import ROUNDINGS
from tcu.probes import Inference, infer, inputs, kinds
from tcu.probes.edge_inputs import cancelled_products, subnormal_factors, ties_of_sums, zeros_by_place
from tcu.probes.inputs import DECIDING, adversarial, near_zero, ordinary
from tcu.probes.judge import Judge
from tcu.probes.kinds import REPEATED, in_both_formats
from tcu.probes.search import interleaved
from tcu.probes.target import Operation, Target, as_target, of_instruction
from tcu.units import (
    CATALOGUE,
    AlignedSum,
    ExactBlock,
    FlushedTree,
    FusedChain,
    GroupedSum,
    Instruction,
    LateSum,
    find_instruction,
    get_unit,
    units_with,
)

OWN = tuple(kind for kind, _ in DECIDING)
DIFFERENT = {
    (row.a, row.output, row.k, row.arithmetic, row.scale, row.per_scale): (unit.name, row)
    for unit in map(get_unit, reversed(units_with("mma")))
    for row in unit.instructions
    if row.a == row.b
}


MIXED = [
    ("H200", "wgmma", "e4m3,e5m2", "binary32"), ("H200", "mma", "e4m3,e5m2", "binary32"),
    ("H200", "mma", "e5m2,e4m3", "binary16"), ("Ada", "mma", "e5m2,e4m3", "binary32"),
]  # fmt: skip


@pytest.mark.slow(0)
@pytest.mark.some(3)
@pytest.mark.parametrize(("unit", "instruction", "formats", "output"), MIXED)
def test_pairs_of_two_formats_are_identified(unit: str, instruction: str, formats: str, output: str) -> None:
    found = infer(unit, instruction=instruction, input=formats, output=output, seed=0, outputs=100_000)
    assert found.identified, found.conclusion
    a, b = formats.split(",")
    own = find_instruction(unit, instruction, a, b, output).arithmetic
    assert isinstance(found.arithmetic, AlignedSum)
    assert isinstance(own, AlignedSum)
    names = ("block", "rounding", "order", "late_c", "through_binary16")
    assert [getattr(found.arithmetic, n) for n in names] == [getattr(own, n) for n in names]
    assert "inputs of two different formats" not in found.not_asked


@pytest.mark.parametrize("formats", ["u8,s8", "s8,u8"])
def test_integers_of_two_signednesses_are_asked_as_such(formats: str) -> None:
    """B was asked in A's format: a unit that takes B for unsigned was identified, and one that does not was not."""

    def product(a, b, c):
        assert [each.dtype.name for each in (a, b)] == [
            {"u8": "uint8", "s8": "int8"}[f] for f in formats.split(",")
        ]
        return (a.astype(np.int64) @ b.astype(np.int64) + c).astype(np.int32)

    found = infer(product, input=formats, k=16, seed=0, outputs=1000)
    assert found.arithmetic == tcu.units.ExactInteger(), found.conclusion
    assert found.identified
    assert "inputs of two different formats" not in found.not_asked


@pytest.mark.slow(1)
@pytest.mark.parametrize("output", ["binary32", "binary16"])
@pytest.mark.parametrize("first", ["e4m3", "e5m2"])
def test_subnormal_factors_tell_whether_inputs_become_binary16(first: str, output: str) -> None:
    """Random operands tell it in 7 to 20 of a million dot products on an H200."""
    row = find_instruction("H200", "mma", first, {"e4m3": "e5m2", "e5m2": "e4m3"}[first], output)
    asked, rng = of_instruction("asked", row), np.random.default_rng(0)
    other = of_instruction("other", replace(row, arithmetic=replace(row.arithmetic, through_binary16=False)))
    questions = [subnormal_factors(asked, rng) for _ in range(REPEATED["subnormal factors"])]
    assert any((asked(q.a, q.b, q.c) != other(q.a, q.b, q.c)).any() for q in questions)


@pytest.mark.slow(2)
@pytest.mark.parametrize("operand", ["e2m1", "e2m3", "e3m2", "e4m3", "e5m2"])
def test_ties_of_sums_tell_where_the_alignment_cuts(operand: str) -> None:
    """Random operands of e2m3 tell F 24 from F 25 in 3 of 200,000 outputs of binary16."""
    row = find_instruction("B200", "tcgen05", operand, operand, "binary16")
    asked, rng = of_instruction("asked", row), np.random.default_rng(0)
    questions = [ties_of_sums(asked, rng) for _ in range(REPEATED["ties of sums"])]
    answers = [asked(q.a, q.b, q.c) for q in questions]
    for fraction_bits in (23, 24, 26, 27):
        near = replace(row.arithmetic, fraction_bits=fraction_bits)
        other = of_instruction("other", replace(row, arithmetic=near))
        told = [(other(q.a, q.b, q.c) != d).any() for q, d in zip(questions, answers, strict=True)]
        assert sum(told) >= 2, fraction_bits


E4M3_F13 = AlignedSum(16, 13, "RZ", -133, through_binary16=True)


@pytest.mark.some(2)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("operand", "rules", "seen"),
    [
        ("e4m3", E4M3_F13, True), ("e5m2", E4M3_F13, False),
        ("e4m3", replace(E4M3_F13, fraction_bits=25, late_c=True), False),
    ],
)  # fmt: skip
def test_inputs_that_become_binary16_show_where_a_subnormal_factor_raises_a_cut(operand, rules, seen) -> None:
    """E5M2's numbers count alike in binary16.  E4M3's subnormals count less there: by up to 6 places below exponents of 2,
    and products of E4M3 are multiples of 2^-18, which F = 25 keeps all with a sum that c does not join.
    """
    row = Instruction("mma", operand, operand, "binary32", (16, 8, 32), rules, ())
    target = of_instruction("through", row)
    other = of_instruction("not", replace(row, arithmetic=replace(rules, through_binary16=False)))
    asked = [q for kind, make in kinds.makers(target).items() for q in repeated(kind, make, target)]
    assert any((target.answer(q) != other.answer(q)).any() for q in asked) == seen
    found = infer(target, seed=0, outputs=20_000)
    assert found.identified, found.conclusion
    assert isinstance(found.arithmetic, AlignedSum)
    assert found.arithmetic.through_binary16 == seen


def repeated(kind, make, target):
    rng = np.random.default_rng(0)
    return [in_both_formats(make, target, rng) for _ in range(4 * REPEATED.get(kind, 1))]


@pytest.mark.slow
def test_a_target_with_scales() -> None:
    def scaled(a, b, c, scale_a, scale_b):
        with np.errstate(all="ignore"):
            return tcu.mma(a, b, c, unit="B200", instruction="mxf4", scale_a=scale_a, scale_b=scale_b)

    found = infer(scaled, input="e2m1", k=64, scale=("ue8m0", 32), seed=0, outputs=20_000)
    assert found.arithmetic == GroupedSum(64, 16, 35, -139)
    assert found.unit is not None
    assert (found.unit.instructions[0].scale, found.unit.instructions[0].per_scale) == ("ue8m0", 32)
    assert {"any scales", "cancelled groups", "sunken groups"} <= {kind for kind, _ in found.asked}


@pytest.mark.slow
def test_a_counterexample_has_scales() -> None:
    def doubled(a, b, c, scale_a, scale_b):
        with np.errstate(all="ignore"):
            one = np.ones_like(scale_b)
            return 2 * tcu.mma(a, b, c, unit="B200", instruction="mxf4", scale_a=scale_a, scale_b=one)

    found = infer(doubled, input="e2m1", k=64, scale=("ue8m0", 32), seed=0, outputs=20_000)
    assert not found.identified
    assert found.counterexample is not None
    assert (len(found.counterexample.scale_a), len(found.counterexample.scale_b)) == (2, 2)


def test_scales_that_do_not_fit() -> None:
    with pytest.raises(ParameterError, match="48 k to a scale, but k = 64 is no multiple of it"):
        infer(lambda a, b, c, p, q: c, input="e2m1", k=64, scale=("ue8m0", 48))
    with pytest.raises(DtypeError, match="no unit multiplies binary16 with scales of ue8m0 into binary32"):
        infer(lambda a, b, c, p, q: c, k=64, scale=("ue8m0", 32))
    with pytest.raises(ParameterError, match="tcu runs no instruction with scales on the gpu"):
        infer("gpu", input="e2m1", scale=("ue8m0", 32))


def test_inputs_are_one_format_or_two() -> None:
    with pytest.raises(ParameterError, match="input='e4m3,e5m2,e4m3': name one format, or those of A and B"):
        infer("H200", input="e4m3,e5m2,e4m3")
    with pytest.raises(DtypeError, match="no unit multiplies e4m3 and e4m3fnuz into binary32"):
        infer(lambda a, b, c: c, input="e4m3,e4m3fnuz", k=4)


def different_outputs(target: Target, found: Inference, outputs: int, seed: int) -> int:
    """Fresh outputs on which the inferred unit and the target differ."""
    assert found.unit is not None
    model = of_instruction("model", found.unit.instructions[0])
    rng = np.random.default_rng(seed)
    different = 0
    asked = (adversarial, ordinary, near_zero, *OWN) if target.input.is_float else (adversarial,)
    for number in range(-(-outputs // 4096)):
        q = in_both_formats(asked[number % len(asked)], target, rng, 64, 64)
        different += int(np.count_nonzero(target.answer(q) != model.answer(q)))
    return different


@pytest.mark.slow(1)
@pytest.mark.some(16)
@pytest.mark.parametrize(
    ("unit", "row"), DIFFERENT.values(), ids=[f"{unit} {row.signature}" for unit, row in DIFFERENT.values()]
)
def test_every_arithmetic_of_the_catalogue_is_identified(unit: str, row: Instruction) -> None:
    target = of_instruction("target", row)
    found = infer(target, seed=0, outputs=200_000)
    assert found.identified, found.conclusion
    assert found.counterexample is None
    assert different_outputs(target, found, 200_000, 1) == 0
    if isinstance(row.arithmetic, AlignedSum) and row.output == "binary32":
        # 11 bits of output hide where a sum of 8-bit inputs was cut, so this holds of binary32 only.
        assert isinstance(found.arithmetic, AlignedSum)
        names = ("fraction_bits", "rounding", "late_c", "order")
        assert [getattr(found.arithmetic, n) for n in names] == [getattr(row.arithmetic, n) for n in names]
        assert found.arithmetic.block == row.arithmetic.block
    elif not isinstance(row.arithmetic, AlignedSum):
        assert found.arithmetic == row.arithmetic


def random_unit(draw: random.Random) -> Instruction:
    """One member of the family: a chain, a sum of another kind, or block 1 to 32, F 8 to 40, four roundings, and all the rest."""
    kind = draw.random()
    if kind < 0.2:
        return random_chain(draw)
    if kind < 0.45:
        return random_block(draw)
    if kind < 0.6:
        return random_scaled(draw)
    operand = draw.choice(["binary16", "bfloat16", "tf32", "e4m3", "e5m2"])
    narrow = operand in ("binary16", "e4m3", "e5m2") and draw.random() < 0.33
    output = "binary16" if narrow else "binary32"
    full = get_format(output).fraction_bits
    k = draw.choice([4, 8, 16, 32])
    emulated = k >= 8 and draw.random() < 0.15
    floors = [None, -21, -20, -14, -24] if narrow else [None, -133, -132, -126, -140]
    return Instruction("mma", operand, operand, output, (16, 8, k), AlignedSum(
        block=draw.choice([1, 2, 4, 8, 16, 32]) if draw.random() < 0.6 else draw.randint(1, 32),
        fraction_bits=draw.randint(8, 40),
        rounding=draw.choice(["RNE", "RZ", "RU", "RD"]),
        exponent_floor=draw.choice(floors),
        output_fraction_bits=draw.choice([None, None, draw.randint(8, full)]),
        order=interleaved(k, 4) if emulated else None,
        late_c=emulated or draw.random() < 0.3,
        normalized_products=draw.random() < 0.25,
        flush_inputs=draw.random() < 0.2,
        flush_outputs=draw.random() < 0.2,
        carry_bits=draw.choice([None, None, None, 1, 2, 3, 4]),
        signed_zeros=draw.random() < 0.3,
        nan_rule=(rule := draw.choice(["nvidia", "nvidia", "x86", "c first", "arm"])),
        saturate=draw.random() < 0.2,
        through_binary16=operand == "e4m3" and rule == "nvidia" and draw.random() < 0.5,
    ), ())  # fmt: skip


def random_chain(draw: random.Random) -> Instruction:
    operand, output = draw.choice(
        [("binary16", "binary32"), ("bfloat16", "binary32"), ("binary16", "binary16")]
    )
    k = draw.choice([4, 8, 16, 32])
    return Instruction("mma", operand, operand, output, (16, 8, k), FusedChain(
        order=draw.choice([None, None, tuple(range(k))[::-1], tuple(i ^ 1 for i in range(k))]),
        rounded_products=draw.random() < 0.3,
        rounding=draw.choice(ROUNDINGS),
        group=draw.choice([1, 1, 2]),
        lanes=draw.choice([1, 1, 2, 4]) if k > 4 else draw.choice([1, 2]),
        late_c=draw.random() < 0.3,
        flush_inputs=draw.random() < 0.3,
        flush_outputs=draw.random() < 0.3,
        nan_rule=draw.choice(["nvidia", "x86", "arm"]),
    ), ())  # fmt: skip


def random_block(draw: random.Random) -> Instruction:
    """An exact block, a flushed tree or a late sum."""
    operand = draw.choice(["binary16", "bfloat16", "tf32", "e4m3", "e5m2", "e4m3fnuz", "e5m2fnuz"])
    k = draw.choice([4, 8, 16, 32])
    fraction_bits = draw.choice([24, draw.randint(8, 28)])
    rules = draw.choice([
        ExactBlock(draw.randint(1, k)),
        FlushedTree(draw.choice([2, 4, 8, 16])),
        LateSum(
            draw.randint(1, k), fraction_bits, draw.randint(max(fraction_bits, 24), 32), draw.choice([1, 2]),
            draw.random() < 0.5,
        ),
    ])  # fmt: skip
    return Instruction("mma", operand, operand, "binary32", (16, 8, k), rules, ())


def random_scaled(draw: random.Random) -> Instruction:
    """A grouped sum, or an aligned sum with scales."""
    if draw.random() < 0.5:
        per_scale = draw.choice([16, 32])
        group = draw.choice([1, 2, 4, 8, 16, per_scale])
        grouped = GroupedSum(
            draw.choice([group, 64 // group * group]), group, draw.choice([35, draw.randint(20, 36)]),
            draw.choice([-139, -126, -133, -145]),
        )  # fmt: skip
        scale = draw.choice(["ue8m0", "ue4m3"])
        return Instruction("mma", "e2m1", "e2m1", "binary32", (16, 8, 64), grouped, (), scale, per_scale)
    operand, per_scale = draw.choice(["e4m3", "e5m2", "e3m2", "e2m3", "e2m1"]), draw.choice([16, 32])
    aligned = AlignedSum(
        draw.choice([4, 8, 16, 32, draw.randint(1, 32)]), draw.choice([25, draw.randint(12, 36)]),
        draw.choice(["RZ", "RNE", "RU", "RD"]), draw.choice([None, -133, -132, -126]),
    )  # fmt: skip
    return Instruction("mma", operand, operand, "binary32", (16, 8, 32), aligned, (), "ue8m0", per_scale)


@pytest.mark.slow
def test_units_drawn_at_random_are_identified(request: pytest.FixtureRequest) -> None:
    count = request.config.getoption("--units")
    draw = random.Random(2026)
    missed = []
    for number in range(count):
        row = random_unit(draw)
        target = of_instruction(f"unit {number}", row)
        found = infer(target, seed=number)
        if not found.identified:
            assert found.counterexample is not None, f"{row}: neither identified nor refuted"
            missed.append(row)
            continue
        assert different_outputs(target, found, 100_000, number) == 0, f"{row} taken for {found.arithmetic}"
    assert len(missed) <= 0.03 * count, missed


# Chains of IEEE operations


def one_nan(d):
    """Every NaN with all bits but the sign's set."""
    words = d.view(np.uint16 if d.dtype == np.float16 else np.uint32)
    return np.where(np.isnan(d), words.dtype.type(np.iinfo(words.dtype).max >> 1), words).view(d.dtype)


def to_odd(x, y):
    """x + y in binary64, rounded to odd: narrowed, it is the exact sum rounded once."""
    total = x + y
    moved = total - x
    lost = (x - (total - moved)) + (y - moved)
    bits = total.view(np.int64)
    inexact = (lost != 0) & np.isfinite(total) & (bits & 1 == 0)
    return np.where(inexact, bits + np.where((lost > 0) == (total > 0), 1, -1), bits).view(np.float64)


def chain(fused: bool, step: int = 1):
    """d = c + a0·b0, d = d + a1·b1, ..., or from the last k on; fused: one rounding for each k, not two."""

    def chain(a, b, c):
        d = c
        with np.errstate(all="ignore"):
            for k in range(a.shape[1])[::step]:
                product = a[:, k, None].astype(np.float64) * b[None, k].astype(np.float64)
                if fused:
                    d = to_odd(d.astype(np.float64), product).astype(c.dtype)
                else:
                    d = d + product.astype(c.dtype)
        return one_nan(d)

    return chain


@pytest.mark.slow
def test_chains_are_identified(request: pytest.FixtureRequest) -> None:
    draw = random.Random(18)
    for number in range(request.config.getoption("--units") // 2 + 1):
        fused, step, k = draw.random() < 0.5, draw.choice([1, -1]), draw.choice([1, 2, 4, 8, 16])
        formats = draw.choice([("binary16", "binary32"), ("bfloat16", "binary32"), ("binary16", "binary16")])
        function = chain(fused, step)
        target = as_target(function, input=formats[0], output=formats[1], k=k)
        found = infer(target, seed=number, outputs=20_000)
        assert found.identified, found.conclusion
        assert isinstance(found.arithmetic, FusedChain), found.arithmetic
        assert found.arithmetic.order == (tuple(range(k))[::-1] if step < 0 and k > 1 else None)
        # The products of two binary16 are exact in binary32: one rounding or two are the same there.
        assert found.arithmetic.rounded_products == (not fused and formats != ("binary16", "binary32"))
        assert different_outputs(target, found, 50_000, number) == 0
        assert "FusedChain" in found.conclusion


@pytest.mark.slow
def test_aligned_sums_that_are_nearly_a_chain_are_told_from_it(request: pytest.FixtureRequest) -> None:
    """One product at a time, and so many bits that random operands hardly ever need more."""
    draw = random.Random(18)
    for number in range(request.config.getoption("--units") // 2 + 1):
        operand = draw.choice(["binary16", "bfloat16", "tf32", "e4m3", "e5m2"])
        fraction_bits, rounding = draw.randint(30, 42), draw.choice(["RNE", "RZ"])
        row = Instruction("mma", operand, operand, "binary32", (16, 8, draw.choice([1, 2, 4, 8, 16])),
                          AlignedSum(1, fraction_bits, rounding, draw.choice([None, -133])), ())  # fmt: skip
        target = of_instruction("target", row)
        found = infer(target, seed=number, outputs=20_000)
        assert isinstance(found.arithmetic, AlignedSum), f"{row} taken for {found.arithmetic}"
        assert found.identified, found.conclusion
        assert (found.arithmetic.fraction_bits, found.arithmetic.rounding) == (fraction_bits, rounding)
        assert different_outputs(target, found, 50_000, number) == 0


@pytest.mark.slow
def test_a_tail_tells_any_number_of_bits_from_a_chain_in_one_question(
    request: pytest.FixtureRequest,
) -> None:
    for operand in ("binary16", "bfloat16", "tf32", "e4m3", "e5m2"):
        row = Instruction("mma", operand, operand, "binary32", (16, 8, 4), FusedChain(), ())
        target = of_instruction("chain", row)
        for seed in range(5 if request.config.getoption("--all-cases") else 2):
            q = inputs.tail_of_c(target, np.random.default_rng(seed), early=seed % 2 == 0)
            answer = target(q.a, q.b, q.c)
            for fraction_bits in range(8, 43):
                other = of_instruction("sum", replace(row, arithmetic=AlignedSum(1, fraction_bits, "RNE")))
                assert (other(q.a, q.b, q.c) != answer).any(), (operand, seed, fraction_bits)


def test_a_tail_behind_a_tie() -> None:
    """The product is half of the last place of 1, and 2^-43 of 1 more: 36 bits do not see that."""
    a, b = np.zeros((1, 4), np.float16), np.zeros((4, 1), np.float16)
    a[0, 0], b[0, 0] = 6.204843521118164e-05, 0.0009608268737792969
    c = np.ones((1, 1), np.float32)
    assert chain(fused=False)(a, b, c) == chain(fused=True)(a, b, c) == np.nextafter(c, np.float32(2))
    row = Instruction("mma", "f16", "f16", "f32", (16, 8, 4), AlignedSum(1, 36, "RNE"), ())
    assert tcu.mma(a, b, c, unit=tcu.Unit("near", "-", "-", "-", (row,))) == 1


@pytest.mark.parametrize("operand", ["binary16", "bfloat16", "tf32", "e4m3", "e5m2", "binary64"])
@pytest.mark.parametrize("k", [1, 2, 3, 16])
def test_deciding_kinds_hold_what_they_claim(operand: str, k: int) -> None:
    output = get_format("binary64" if operand == "binary64" else "binary32")
    operation = Operation(get_format(operand), output, k)
    rng = np.random.default_rng(0)

    def values(q):
        shift = np.array(operation.input.storage_shift, q.a.dtype)
        a, b = (tcu.formats.decode_array(words >> shift, operation.input) for words in (q.a, q.b))
        return a, b, tcu.formats.decode_array(q.c, output)

    a, b, c = values(inputs.tail_of_c(operation, rng))
    assert (np.count_nonzero(a, axis=1) == 1).all()
    ratio = np.abs(c / (a @ b))
    assert (np.frexp(a @ b)[0].__abs__() == 0.5).all()
    assert (ratio <= output.unit_roundoff * 2).all()
    tie = ratio[(ratio > output.unit_roundoff) & (ratio < 1.5 * output.unit_roundoff)]
    assert len(tie)
    assert tie.min() == output.unit_roundoff * (1 + 2.0**-output.fraction_bits) or operand == "binary64"

    a, b, c = values(inputs.tail_of_a_product(operation, rng, 64, 64))
    assert (np.count_nonzero(a, axis=1) + (c != 0).all(axis=1) == 2).all()
    assert (c != 0).all() == (k == 1)
    pairs = inputs.just_over_two(operation.input.fraction_bits)
    if operand != "binary64":
        assert ((pairs.prod(axis=1) > 2) & (pairs < 2).all(axis=1)).all()

    a, b, c = values(inputs.product_far_below_c(operation, rng))
    assert (np.count_nonzero(a, axis=1) == 1).all()
    distance = np.log2(np.abs(c / (a @ b)))
    if operand != "binary64":
        assert set(range(output.fraction_bits, 49)) <= set(distance.ravel())

    a, b, c = values(inputs.about_the_limit(operation, rng))
    assert (np.isfinite(a).all(), np.isfinite(b).all(), np.isfinite(c).all()) == (True, True, True)
    assert np.abs(c).max() >= 2.0**output.emax

    a, b, c = values(inputs.zeros_of_one_sign(operation, rng))
    assert not a.any()
    assert not c.any()
    assert np.signbit(a).all(axis=1).any()
    assert set(np.signbit(c).ravel()) == {True, False}


@pytest.mark.parametrize(
    ("operand", "output"), [("bfloat16", "binary32"), ("tf32", "binary32"), ("e5m2", "binary16")]
)
def test_products_that_cancel_are_beyond_the_range_and_their_sum_is_finite(operand: str, output: str) -> None:
    x, z = get_format(operand), get_format(output)
    operation, rng = Operation(x, z, 8), np.random.default_rng(0)
    beyond = 0
    for _ in range(REPEATED["cancelled products"]):
        q = cancelled_products(operation, rng)
        a, b = (tcu.formats.decode_array(w >> np.array(x.storage_shift, w.dtype), x) for w in (q.a, q.b))
        size = np.abs(a[:, None, :] * b.T[None])
        most = size.max(axis=2, keepdims=True)
        assert ((size >= most).sum(axis=2) % 2 == 0).all() or size.max() < 2.0**z.emax
        beyond += bool(size.max() > z.max_finite)
        assert np.abs((a[:, None, :] * b.T[None]).sum(axis=2)).max() < 2.0**z.emax
    assert beyond >= REPEATED["cancelled products"] // 3


@pytest.mark.parametrize("operand", ["binary16", "e2m1", "s8"])
def test_zeros_by_place_are_where_a_pattern_says_and_nowhere_else(operand: str) -> None:
    integer = operand == "s8"
    operation = Operation(get_format(operand), get_format("s32" if integer else "binary32"), 16)
    rng = np.random.default_rng(0)
    seen = [set(), set()]
    for _ in range(2 * REPEATED["zeros by place"]):
        q = zeros_by_place(operation, rng)
        for found, lines in zip(seen, (q.a, q.b.T), strict=True):
            found |= {tuple(line) for line in (lines != 0).tolist()}
    wanted = [np.arange(16) == place for place in range(16)]
    wanted += [np.arange(16) < 8, np.arange(16) >= 8, np.arange(16) % 2 == 0, np.arange(16) % 2 == 1]
    wanted += [~each for each in wanted]
    for found in seen:
        assert {tuple(each.tolist()) for each in wanted} | {(True,) * 16} <= found


@pytest.mark.slow
def test_every_kind_of_question_is_asked_however_few_outputs_are_compared(monkeypatch) -> None:
    asked: list[str] = []

    def spied(name, kind):
        return lambda *arguments: asked.append(name) or kind(*arguments)

    module = sys.modules["tcu.probes.infer"]
    monkeypatch.setattr(
        module,
        "makers",
        lambda operation: {name: spied(name, kind) for name, kind in kinds.makers(operation).items()},
    )
    for unit, operand in (("V100", "binary16"), ("A100", "binary64")):
        asked.clear()
        target = as_target(unit, input=operand)
        assert infer(target, seed=1, outputs=1).identified
        found = infer(target, seed=0, outputs=1)
        assert found.identified
        expected = {name: kinds.REPEATED.get(name, 1) for name in kinds.makers(target)}
        assert Counter(asked) == {name: 2 * count for name, count in expected.items()}
        compared = dict(found.asked)
        assert compared.pop("any shape") >= 3 * sum(size**2 for size in range(1, 65))
        assert compared == {name: 128 * count for name, count in expected.items()} | {"any": 4096}
        assert found.bound == 3 / found.tried
    asked.clear()
    assert infer("A100", input="u8", seed=0, outputs=1).identified
    assert Counter(asked) == {
        "adversarial bits": 1, "extremes": 1, "saturation": 4, "all zeros": 1, "zeros by place": 64,
    }  # fmt: skip


# Targets that no member of the family is


def f64(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Terms (M, N, k + 1) in binary64, c first."""
    with np.errstate(all="ignore"):
        products = a.astype(np.float64)[:, None, :] * b.astype(np.float64).T[None, :, :]
        return np.concatenate([c.astype(np.float64)[..., None], products], axis=-1)


def kahan(a, b, c):
    terms = f64(a, b, c)
    total, lost = np.zeros(c.shape, np.float32), np.zeros(c.shape, np.float32)
    with np.errstate(all="ignore"):
        for i in range(terms.shape[-1]):
            y = terms[..., i].astype(np.float32) - lost
            t = total + y
            lost = (t - total) - y
            total = t
    return total


def pairwise(a, b, c):
    terms = f64(a, b, c)
    with np.errstate(all="ignore"):
        level = [terms[..., i].astype(np.float32) for i in range(1, terms.shape[-1])]
        while len(level) > 1:
            level = [level[i] + level[i + 1] for i in range(0, len(level), 2)]
        return level[0] + c


def exact_pairs(a, b, c):
    """Two products at a time are added to the sum exactly, and rounded once."""
    terms, d = f64(a, b, c), c
    with np.errstate(all="ignore"):
        for i in range(1, terms.shape[-1], 2):
            pair = terms[..., i] + terms[..., i + 1]  # exact but where the two are 2^31 apart
            d = to_odd(d.astype(np.float64), pair).astype(np.float32)
        return one_nan(d)


def toward_zero(a, b, c):
    """A chain of fused multiply-adds, each rounded toward zero."""
    terms, d = f64(a, b, c), c
    with np.errstate(all="ignore"):
        for i in range(1, terms.shape[-1]):
            exact = to_odd(d.astype(np.float64), terms[..., i])
            d = exact.astype(np.float32)
            d = np.where(np.abs(d.astype(np.float64)) > np.abs(exact), np.nextafter(d, np.float32(0)), d)
        return one_nan(d)


@np.errstate(all="ignore")
def no_negative_zero(a, b, c):
    return chain(fused=True)(a, b, c) + np.float32(0)


def no_positive_zero(a, b, c):
    d = chain(fused=True)(a, b, c)
    return np.where(d == 0, np.float32(-0.0), d)


def own_nan(a, b, c):
    """A chain with a NaN that no rule has."""
    d = chain(fused=True)(a, b, c)
    return np.where(np.isnan(d), np.uint32(0x7FABCDEF).view(np.float32), d)


class Noise:
    """Another answer at every call."""

    __name__ = "noise"

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)

    def __call__(self, a, b, c):
        return self.rng.standard_normal(c.shape).astype(np.float32)


class Counting:
    """A function of how often it was called."""

    __name__ = "counting"

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, a, b, c):
        self.calls += 1
        return tcu.mma(a, b, c, unit="H100" if self.calls % 7 else "V100")


def nearly(a, b, c):
    """The H100, but for one operand pattern."""
    d = tcu.mma(a, b, c, unit="H100")
    return np.where(c == np.float32(1.0), np.nextafter(d, np.float32(0)), d).astype(np.float32)


FOREIGN = (
    kahan, pairwise, exact_pairs, no_positive_zero, own_nan, Noise(), Counting(), nearly,
)  # fmt: skip


@pytest.mark.some(5)
@pytest.mark.slow
@pytest.mark.parametrize("function", FOREIGN, ids=lambda f: f.__name__)
def test_foreign_targets_are_never_identified(function) -> None:
    found = infer(function, k=16, seed=0, outputs=300_000)
    assert not found.identified
    assert found.unit is None
    assert found.conclusion.startswith("not identified")


@pytest.mark.slow
def test_a_chain_without_negative_zeros_is_one_of_lanes() -> None:
    """Lanes of one product each begin with +0; products of binary16 are exact there."""
    found = infer(no_negative_zero, k=16, seed=0, outputs=300_000)
    assert found.identified
    assert found.arithmetic == FusedChain(lanes=16)


@pytest.mark.some(3)
@pytest.mark.slow
@pytest.mark.parametrize("box", HOLES, ids=lambda box: box.name)
def test_what_is_wrong_in_one_place_alone_is_never_identified(box: Box) -> None:
    found = infer(
        box.function, input=box.input, output=box.output, k=box.k, scale=box.scale, seed=2, outputs=100_000
    )
    assert not found.identified, found.conclusion


def test_the_boxes_are_seventy() -> None:
    assert len({box.name for box in HOLES}) == len(HOLES) >= 70


@pytest.mark.slow
def test_a_plain_chain_is_a_chain_whatever_the_seed(request: pytest.FixtureRequest) -> None:
    """It was taken for an aligned sum of block 1, F 36, RNE at 14 of 20 seeds."""
    for seed in range(20 if request.config.getoption("--all-cases") else 6):
        found = infer(chain(fused=False), k=4, seed=seed, outputs=20_000)
        assert found.arithmetic == FusedChain(), found.conclusion


@pytest.mark.some(1)
@pytest.mark.slow
@pytest.mark.parametrize("function", [kahan, pairwise, nearly])
def test_a_counterexample_is_small_and_real(function) -> None:
    found = infer(function, k=16, seed=3)
    example = found.counterexample
    assert example is not None
    assert example.target != example.model
    a = np.array([example.a], np.uint16).view(np.float16)
    b = np.array([example.b], np.uint16).view(np.float16).T
    c = np.array([[example.c]], np.uint32).view(np.float32)
    assert int(np.asarray(function(a, b, c)).view(np.uint32)[0, 0]) == example.target
    used = [p for p, q in zip(example.a, example.b, strict=True) if p or q]
    assert len(used) <= 4


@pytest.mark.slow
def test_a_chain_toward_zero_is_one() -> None:
    found = infer(toward_zero, k=16, seed=0, outputs=20_000)
    assert found.arithmetic == FusedChain(rounding="RZ"), found.conclusion
    assert "rounding RZ" in found.conclusion


def test_another_nan_is_told_by_the_nearest_model_and_ends_the_search() -> None:
    calls = 0

    def counted(a, b, c):
        nonlocal calls
        calls += 1
        return own_nan(a, b, c)

    found = infer(counted, k=1, seed=0)
    assert not found.identified
    assert found.arithmetic == FusedChain()
    assert found.counterexample is not None
    assert (found.counterexample.target, found.counterexample.model) == (0x7FABCDEF, 0x7FFFFFFF)
    assert len(found.pinned) == 3
    assert calls < 1000


@pytest.mark.slow(2)
@pytest.mark.parametrize(
    "deviates",
    [
        lambda m, n: m == 32,
        lambda m, n: n == 1,
        lambda m, n: m == n == 24,
        lambda m, n: m > 48 and n < 16,
    ],
    ids=["32 rows", "one column", "24 × 24", "tall"],
)
def test_bits_that_depend_on_the_shape_are_no_units(deviates) -> None:
    def shaped(a, b, c):
        return tcu.mma(a, b, c, unit="A100" if deviates(*c.shape) else "H100")

    found = infer(shaped, k=16, seed=0, outputs=20_000)
    assert not found.identified, found.conclusion
    if not deviates(16, 1):
        assert found.counterexample is None
        rows, columns = map(int, found.conclusion.split("in a product of ")[1].split(" it ")[0].split(" × "))
        assert deviates(rows, columns)
        assert "other bits than for some of its rows and columns alone" in found.conclusion


def test_what_refutes_a_candidate_fills_the_lanes_of_the_kernel(monkeypatch) -> None:
    """The judge's kernels write eight columns at a time: of one column they wrote into other memory."""
    widths: list[int] = []
    wanted = sys.modules["tcu.probes.infer"]._part

    def spied(q, rows, columns):
        part = wanted(q, rows, columns)
        widths.append(part.c.shape[1])
        return part

    def narrow(a, b, c):
        return tcu.mma(a, b, c, unit="A100" if 1 < c.shape[1] < 8 else "H100")

    monkeypatch.setattr(sys.modules["tcu.probes.infer"], "_part", spied)
    assert not infer(narrow, k=16, seed=0, outputs=1000).identified
    assert set(widths) == {8}
    judge = Judge(as_target("H100"))
    q = ordinary(judge.target, np.random.default_rng(0), 16, 3)
    judge.questions = [(q, judge.target.answer(q), ...)]
    with pytest.raises(AssertionError, match="eight columns at a time"):
        judge.agrees(AlignedSum(16, 25, "RZ", -133))


def test_a_function_that_changes_after_many_calls_is_not_said_to_depend_on_the_shape() -> None:
    calls = 0

    def now_and_then(a, b, c):
        nonlocal calls
        calls += 1
        return tcu.mma(a, b, c, unit="A100" if calls > 800 and calls % 7 == 0 else "H100")

    found = infer(now_and_then, k=16, seed=0, outputs=20_000)
    assert found.conclusion == "not identified: it does not return the same bits for the same inputs"


A_NUMBER_ONLY = {
    "zeros": lambda a, b, c: np.zeros_like(c),
    "ones": lambda a, b, c: np.ones_like(c),
    "NaN": lambda a, b, c: np.full_like(c, np.nan),
    "c": lambda a, b, c: c,
    "c where it is large": lambda a, b, c: np.where(np.abs(c) > 2.0**60, c, 0),
}


@pytest.mark.parametrize("name", A_NUMBER_ONLY)
def test_what_multiplies_nothing_is_refused_before_a_search(name: str) -> None:
    """Every candidate agrees with zeros as far as zeros count, and the search for the best of them did not end."""
    found = infer(A_NUMBER_ONLY[name], k=4, seed=0)
    assert found.conclusion == "not identified: its results do not depend on A and B: let it return A·B + C"
    assert (found.identified, found.unit, found.pinned) == (False, None, ())


def test_a_target_that_flushes_every_ordinary_result_is_refused() -> None:
    """So does one of which the questions that decide the alignment show zeros only."""

    def large(a, b, c):
        d = chain(fused=True)(a, b, c)
        return np.where(np.abs(d) > 2.0**90, d, np.float32(0))

    found = infer(large, k=4, seed=0, outputs=1000)
    assert not found.identified
    assert found.pinned[0].candidates == 0


@pytest.mark.slow
def test_an_inferred_unit_can_be_executed() -> None:
    found = infer("A100", input="tf32", seed=0, outputs=50_000)
    x = np.random.default_rng(0).standard_normal((20, 20)).astype(np.float32)
    assert found.unit is not None
    assert (tcu.mma(x, x, unit=found.unit) == tcu.mma(x, x, unit="A100")).all()


@pytest.mark.slow
def test_what_was_compared_is_told() -> None:
    found = infer("V100", seed=0, outputs=30_000)
    assert found.tried >= 30_000
    assert found.different == 0
    assert [stage.parameters for stage in found.pinned] == [
        "alignment and rounding",
        "blocks and order",
        "floor and flushes",
    ]
    assert all(stage.candidates >= 1 and stage.dots > 1000 for stage in found.pinned)
    assert "block 4, F 23, rounding RZ" in found.conclusion
    stages: list[str] = []
    infer("A100", input="binary64", seed=0, outputs=1000, progress=stages.append)
    assert stages[-1] == "fresh adversarial inputs"
    assert isinstance(infer("A100", input="f64", seed=0, outputs=1000).arithmetic, FusedChain)


def test_a_bad_number_of_outputs() -> None:
    with pytest.raises(ParameterError, match="outputs=0"):
        infer("V100", outputs=0)


@pytest.mark.slow
def test_two_models_that_no_input_tells_apart_count_as_one() -> None:
    """Blocks longer than k, and a floor that binary16 products never reach."""
    row = CATALOGUE["H100"].instructions[0]
    assert isinstance(row.arithmetic, AlignedSum)
    other = replace(row, arithmetic=replace(row.arithmetic, block=20, exponent_floor=None))
    target = of_instruction("other", other)
    found = infer(target, seed=0, outputs=100_000)
    assert found.identified
    assert different_outputs(target, found, 100_000, 2) == 0


@pytest.mark.slow
def test_units_that_answer_alike_are_named() -> None:
    assert infer("V100", outputs=5000, seed=0).units[0] == "V100"
    found = infer("H100", outputs=5000, seed=0)
    assert {"H100", "H200"} <= set(found.units)
    assert ", as H100, H200" in found.conclusion
    assert not {"V100", "A100"} & set(found.units)
    other = infer(chain(True, 1), k=4, outputs=5000, seed=0)
    assert other.identified
    assert "as no unit of the catalogue" in other.conclusion


def test_a_function_may_return_the_same_array_each_time() -> None:
    kept: dict[tuple[int, ...], np.ndarray] = {}

    def again(a, b, c):
        d = tcu.mma(a, b, c, unit="H100")
        result = kept.setdefault(d.shape, np.empty_like(d))
        result[...] = d
        return result

    assert infer(again, k=16, seed=0, outputs=20_000).identified


@pytest.mark.parametrize("scale", ["ue8m0/32", ("ue8m0",), 32])
def test_scales_are_a_format_and_how_many_share_one(scale) -> None:
    with pytest.raises(
        ParameterError, match=r'give a format and how many k share one, such as \("ue8m0", 32\)'
    ):
        infer(lambda a, b, c, x, y: c, k=64, input="e2m1", scale=scale)
