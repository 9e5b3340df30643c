"""Contract: the rules of aligned, grouped and late sums over arrays equal the definition, and the fast model equals them.

The definition takes up to a millisecond a dot product, the arrays a few
microseconds: so the fast model meets millions of adversarial dot products of
every row (``--dots``; ``make verify`` takes a million), and the arrays meet the
definition on rows of the catalogue and on units drawn at random.
"""

from __future__ import annotations

import random
import zlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import test_blocks
import test_model
from adversarial import MODES
from sums_in_arrays import covers, outputs
from test_blocks import Operands, defined, dots, of_one_block, operands

from tcu.formats import get_format
from tcu.model.mma import multiply_accumulate
from tcu.units import AlignedSum, GroupedSum, Instruction, LateSum

SIDE = 64
ROWS = [
    pytest.param(row, id=f"{unit} {row.signature}")
    for unit, row in (*test_model.DIFFERENT.values(), *test_blocks.DIFFERENT.values())
    if covers(row)
]


def seed_of(row: Instruction) -> int:
    return zlib.crc32(repr(row.signature).encode())


def fast(row: Instruction, mine: Operands) -> Any:
    a, b, c, scales = mine
    x, y, z = (get_format(name) for name in (row.a, row.b, row.output))
    views = None
    if scales is not None and row.scale:
        views = scales[0].view(get_format(row.scale).dtype), scales[1].view(get_format(row.scale).dtype)
    d = multiply_accumulate(a.view(x.dtype), b.view(y.dtype), c.view(z.dtype), row, scales=views)
    return d.view(z.code_dtype)


def about_the_floor(rng: np.random.Generator, row: Instruction, mine: Operands) -> Operands:
    """The same with c subnormal or zero, and with products about the least results, where exponents go that far."""
    a, b, c, scales = mine
    fmt = get_format(row.output)
    middle = 127 + (fmt.emin - 16) // 2
    fields = []
    for words, name in ((a, row.a), (b, row.b)):
        own = get_format(name)
        at = own.fraction_bits + own.storage_shift
        if own.exponent_bits == 8:
            field = rng.integers(middle - 9, middle + 10, words.shape).astype(words.dtype) << at
            words = words & ~np.array(0xFF << at, words.dtype) | field
        fields.append(words)
    if row.scale == "ue8m0" and scales is not None:
        scales = tuple(rng.integers(middle - 9, middle + 10, each.shape).astype(np.uint8) for each in scales)  # type: ignore[assignment]
    c = c & np.array(fmt.sign_code | (1 << fmt.fraction_bits) - 1, c.dtype)
    return fields[0], fields[1], np.where(rng.random(c.shape) < 0.5, 0, c).astype(c.dtype), scales


def adversarial(
    rng: np.random.Generator, row: Instruction, number: int, rows: int, columns: int, k: int
) -> Operands:
    mine = operands(rng, row, MODES[number % len(MODES)], rows, columns, k)
    return about_the_floor(rng, row, mine) if number % 5 == 4 else mine


def differing(row: Instruction, mine: Operands) -> list[str]:
    """Where the definition and the arrays differ."""
    found = outputs(row, *mine)
    return [
        f"{row} {case}: {found[place]:#x}"
        for place, case in dots(row, mine)
        if defined(row, case) != int(found[place])
    ]


@pytest.mark.some(70)
@pytest.mark.slow(12)
@pytest.mark.parametrize("row", ROWS)
def test_the_arrays_equal_the_definition_on_every_row(row: Instruction) -> None:
    rng = np.random.default_rng(seed_of(row))
    for number in range(len(MODES)):
        k = row.k * int(rng.integers(1, 3)) if row.scale else int(rng.integers(1, 2 * row.k + 2))
        assert differing(row, adversarial(rng, row, number, 3, 4, k)) == []


@pytest.mark.slow(1)
@pytest.mark.parametrize("family", [AlignedSum, GroupedSum, LateSum])
def test_the_arrays_equal_the_definition_over_the_families(family: type) -> None:
    draw, rng = random.Random(4), np.random.default_rng(4)
    for number in range(60):
        row = of_one_block(draw, family, 8)
        rules = replace(row.arithmetic, block=draw.choice([4, 8]))
        if isinstance(rules, AlignedSum) and draw.random() < 0.6:
            rules = replace(rules, output_fraction_bits=draw.choice([None, 5, 13]), late_c=draw.random() < 0.5,
                            order=tuple(draw.sample(range(8), 8)))  # fmt: skip
            row = replace(row, scale=None, output=draw.choice(["binary32", "binary16"]), arithmetic=rules)
        else:
            row = replace(row, arithmetic=rules)
        assert covers(row)
        assert differing(row, adversarial(rng, row, number, 3, 4, 16)) == []


def test_what_the_arrays_do_not_have_is_left_to_the_definition() -> None:
    rules = AlignedSum(8, 24, "RZ")
    row = Instruction("mma", "binary16", "binary16", "binary32", (16, 8, 8), rules, ())
    assert covers(row)
    for changes in (
        {"saturate": True},
        {"carry_bits": 3},
        {"nan_rule": "x86"},
        {"normalized_products": True},
    ):
        assert not covers(replace(row, arithmetic=replace(rules, **changes)))


@pytest.mark.slow(2)
@pytest.mark.parametrize(
    ("family", "changes"),
    [
        (AlignedSum, {"fraction_bits": 24}),
        (AlignedSum, {"exponent_floor": -132}),
        (GroupedSum, {"fraction_bits": 34}),
        (LateSum, {"late_bits": 27}),
        (LateSum, {"drops_small_c": False}),
    ],
)
def test_a_planted_difference_is_seen(family: type, changes: dict[str, Any]) -> None:
    (row, *_) = [
        row
        for row in (each.values[0] for each in ROWS)
        if isinstance(row, Instruction)
        and isinstance(row.arithmetic, family)
        and all(getattr(row.arithmetic, name) != value for name, value in changes.items())
        and ("exponent_floor" not in changes or (row.arithmetic.exponent_floor, row.a) == (-133, "bfloat16"))
    ]
    wrong = replace(row, arithmetic=replace(row.arithmetic, **changes))
    rng, seen = np.random.default_rng(1), 0
    for number in range(3 * len(MODES)):
        mine = adversarial(rng, row, number, SIDE, SIDE, row.k)
        assert (outputs(row, *mine) == fast(row, mine)).all()
        seen += int((outputs(wrong, *mine) != fast(row, mine)).sum())
    assert seen > 0


@pytest.mark.slow(8)
@pytest.mark.parametrize("row", ROWS)
def test_the_fast_model_equals_the_arrays(row: Instruction, request: pytest.FixtureRequest) -> None:
    rng = np.random.default_rng(seed_of(row) + 1)
    for number in range(-(-request.config.getoption("--dots") // SIDE**2)):
        k = row.k * (1 + number % 2) if row.scale or number % 3 else int(rng.integers(1, 2 * row.k + 2))
        mine = adversarial(rng, row, number, SIDE, SIDE, k)
        expected, found = outputs(row, *mine), fast(row, mine)
        assert (expected == found).all(), f"{row}: {int((expected != found).sum())} of {found.size} differ"
