"""Contract: exact blocks, flushed trees, late, grouped and scaled sums.

The definition is what the families' rules say in rational arithmetic, written
here once more with fractions and no shared code; the fast model equals the
definition bit for bit, for the rows of the catalogue and for units drawn at
random over the families' parameters.  Scales multiply what they belong to.
"""

from __future__ import annotations

import os
import random
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from adversarial import MODES, codes
from sums_in_arrays import dots_by_definition

import tcu
from tcu.errors import DtypeError, ParameterError, ShapeError
from tcu.formats import decode, encode, get_format
from tcu.formats.scalar import ROUNDINGS, Number
from tcu.model.blocks import is_block_sum
from tcu.model.definition import dot
from tcu.model.mma import multiply_accumulate
from tcu.model.threads import worker_count
from tcu.units import (
    CATALOGUE,
    AlignedSum,
    ExactBlock,
    FlushedTree,
    GroupedSum,
    Instruction,
    LateSum,
)

SINGLE = get_format("binary32")
UE8M0, UE4M3 = ml_dtypes.float8_e8m0fnu, ml_dtypes.float8_e4m3fn


# The rules in rational arithmetic


def value(code: int, fmt: str) -> Fraction | float:
    """A number, or inf or NaN as a float."""
    number = decode(code, fmt)
    return number.value if number.kind == "finite" else float(number)


def exponent(code: int, fmt: str) -> int:
    """floor(log2 |x|), but never below emin."""
    x = abs(decode(code, fmt).value)
    e = get_format(fmt).emin
    while Fraction(2) ** (e + 1) <= x:
        e += 1
    return e


def floor(x: Fraction, place: int) -> Fraction:
    unit = Fraction(2) ** place
    return (x / unit).__floor__() * unit


def trunc(x: Fraction, place: int) -> Fraction:
    return floor(x, place) if x >= 0 else -floor(-x, place)


def rounded(x: Fraction, rounding: str = "RNE") -> int:
    return encode(Number.of(x), SINGLE, rounding)  # type: ignore[arg-type]


def special(terms: list[Fraction | float]) -> int | None:
    """The code of a sum that has inf or NaN in it."""
    floats = [x for x in terms if isinstance(x, float)]
    if not floats:
        return None
    total = sum(floats)
    return SINGLE.nan_code if total != total else encode(Number.of(total), SINGLE)


def product(x: Fraction | float, y: Fraction | float) -> Fraction | float:
    if isinstance(x, Fraction) and isinstance(y, Fraction):
        return x * y
    signs = [each if isinstance(each, float) else float((each > 0) - (each < 0)) for each in (x, y)]
    return signs[0] * signs[1]


def aligned(row: Instruction, a: list[int], b: list[int], c: int, sa: list[int], sb: list[int]) -> int:
    rules = row.arithmetic
    assert isinstance(rules, AlignedSum)
    scales = [
        product(value(p, row.scale or ""), value(q, row.scale or "")) for p, q in zip(sa, sb, strict=True)
    ]
    pairs = [(value(p, row.a), value(q, row.b)) for p, q in zip(a, b, strict=True)]
    terms = [product(product(x, y), scales[k // row.per_scale]) for k, (x, y) in enumerate(pairs)]
    terms.append(value(c, "binary32"))
    found = special(terms)
    if found is not None:
        return found
    numbers = [(x, exponent(c, "binary32")) for x in terms[-1:] if isinstance(x, Fraction)]
    for k, x in enumerate(terms[:-1]):
        s = k // row.per_scale
        raised = exponent(sa[s], row.scale or "") + exponent(sb[s], row.scale or "")
        assert isinstance(x, Fraction)
        numbers.append((x, exponent(a[k], row.a) + exponent(b[k], row.b) + raised))
    common = max((e for x, e in numbers if x), default=None)
    if common is None:
        return 0
    place = max(common, -9999 if rules.exponent_floor is None else rules.exponent_floor) - rules.fraction_bits
    code = rounded(sum((trunc(x, place) for x, _ in numbers), Fraction(0)), rules.rounding)
    return 0 if code == SINGLE.sign_code else code


def grouped(row: Instruction, a: list[int], b: list[int], c: int, sa: list[int], sb: list[int]) -> int:
    rules, scale = row.arithmetic, row.scale or ""
    assert isinstance(rules, GroupedSum)
    addend = value(c, "binary32")
    found = special(
        [addend, *(x for s in (sa, sb) for x in (value(p, scale) for p in s) if isinstance(x, float))]
    )
    if found is not None:
        return found
    assert isinstance(addend, Fraction)
    terms = [(addend, exponent(c, "binary32"), addend != 0)]
    for at in range(0, len(a), rules.group):
        products = [
            decode(p, row.a).value * decode(q, row.b).value
            for p, q in zip(a[at : at + rules.group], b[at : at + rules.group], strict=True)
        ]
        p, q = sa[at // row.per_scale], sb[at // row.per_scale]
        factor = decode(p, scale).value * decode(q, scale).value
        takes_part = any(products) and factor != 0
        total = sum(products, Fraction(0)) * factor
        terms.append((total, exponent(p, scale) + exponent(q, scale), takes_part))
    common = max((e for _, e, takes_part in terms if takes_part), default=None)
    if common is None:
        return 0
    place = max(common, rules.exponent_floor) - rules.fraction_bits
    code = rounded(sum((trunc(x, place) for x, _, _ in terms), Fraction(0)), "RZ")
    return 0 if code == SINGLE.sign_code else code


def exact_block(row: Instruction, a: list[int], b: list[int], c: int) -> int:
    terms = [product(value(p, row.a), value(q, row.b)) for p, q in zip(a, b, strict=True)]
    terms.append(value(c, "binary32"))
    found = special(terms)
    return rounded(sum(terms, Fraction(0))) if found is None else found  # type: ignore[arg-type]


def late(row: Instruction, a: list[int], b: list[int], c: int) -> int:
    rules = row.arithmetic
    assert isinstance(rules, LateSum)
    f, addend = rules.fraction_bits, value(c, "binary32")
    products = [product(value(p, row.a), value(q, row.b)) for p, q in zip(a, b, strict=True)]
    for k, x in enumerate(products):
        if isinstance(x, Fraction) and abs(x) >= 2**128:
            products[k] = float("inf") if x > 0 else -float("inf")
    found = special([*products, addend])
    if found is not None:
        return found
    exponents = [
        exponent(p, row.a) + exponent(q, row.b) if x else None for p, q, x in zip(a, b, products, strict=True)
    ]
    top = max((e for e in exponents if e is not None), default=None)
    total = Fraction(0)
    for group in range(rules.groups):
        members = range(group, len(a), rules.groups)
        own = max((exponents[k] for k in members if exponents[k] is not None), default=None)
        if own is not None:
            part = sum((trunc(products[k], own - f) for k in members), Fraction(0))  # type: ignore[arg-type]
            total += floor(part, (top or 0) - f)
    assert isinstance(addend, Fraction)
    mine = exponent(c, "binary32")
    common = mine if top is None else max(top, mine)
    small = floor(addend, common - f)
    if rules.drops_small_c and mine < common - f - 1:
        small = Fraction(0)
    total = floor(total, common - rules.late_bits - 1) + small
    if total:
        own = -126
        while Fraction(2) ** (own + 1) <= abs(total):
            own += 1
        total = floor(total, own - rules.late_bits)
    return rounded(total)


def flushed_tree(row: Instruction, a: list[int], b: list[int], c: int) -> int:
    """By NumPy's binary32, one number at a time."""
    least = np.float32(2.0**-126)

    def flush(x: Any) -> np.float32:
        return np.float32(np.copysign(0, x)) if abs(x) < least else np.float32(x)

    def read(code: int, fmt: str) -> np.float32:
        x = float(decode(code, fmt))
        return np.float32(0) if abs(x) < get_format(fmt).min_normal else np.float32(x)

    assert isinstance(row.arithmetic, FlushedTree)
    with np.errstate(all="ignore"):
        sums = [flush(read(p, row.a) * read(q, row.b)) for p, q in zip(a, b, strict=True)]
        while len(sums) > 1:
            sums = [flush(p + q) for p, q in zip(sums[::2], sums[1::2], strict=True)]
        total = flush(read(c, "binary32") + sums[0])
    return SINGLE.nan_code if np.isnan(total) else int(total.view(np.uint32))


ORACLES = {
    AlignedSum: aligned,
    GroupedSum: grouped,
    ExactBlock: exact_block,
    LateSum: late,
    FlushedTree: flushed_tree,
}
SMALL = ["e5m2", "e4m3", "e3m2", "e2m3", "e2m1"]


def of_one_block(draw: random.Random, family: type, k: int = 8) -> Instruction:
    """An instruction of one block of k, its parameters drawn at random."""
    pair = [draw.choice(["binary16", "bfloat16", "tf32", "e4m3fnuz", "e5m2fnuz"])] * 2
    if family is LateSum:
        f = draw.randint(1, 28)
        rules: Any = LateSum(k, f, draw.randint(f, 32), draw.choice([1, 2]), draw.random() < 0.5)
    elif family is AlignedSum:
        rules = AlignedSum(k, draw.randint(1, 42), draw.choice(ROUNDINGS), draw.choice([None, -133, -20, 0]))
        pair = [draw.choice(SMALL), draw.choice(SMALL)]
        return Instruction("mma", *pair, "binary32", (16, 8, k), rules, (), "ue8m0", draw.choice([1, 2, k]))
    elif family is GroupedSum:
        group = draw.choice([1, 2, 4])
        rules = GroupedSum(k, group, draw.randint(1, 36), draw.choice([-139, -20, -400]))
        scale = draw.choice(["ue8m0", "ue4m3"])
        return Instruction(
            "mma", "e2m1", "e2m1", "binary32", (16, 8, k), rules, (), scale, draw.choice([4, 8])
        )
    else:
        rules = family(k)
    return Instruction("mma", pair[0], pair[1], "binary32", (16, 8, k), rules, ())


Operands = tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any], tuple[Any, Any] | None]


def operands(
    rng: np.random.Generator, row: Instruction, mode: str, rows: int, columns: int, k: int
) -> Operands:
    """Words of A, B and C, and of the scales, near one another half of the time."""
    other = str(rng.choice([mode, rng.choice(MODES)]))
    a, b = codes(rng, row.a, (rows, k), mode), codes(rng, row.b, (k, columns), other)
    c = codes(rng, row.output, (rows, columns), str(rng.choice([mode, other])))
    if row.scale is None:
        return a, b, c, None
    count = -(-k // row.per_scale)
    scales = tuple(
        codes(rng, row.scale, shape, str(rng.choice(MODES))) for shape in ((rows, count), (count, columns))
    )
    if rng.random() < 0.6:  # near 1, as otherwise one scale decides
        one = encode(Number.of(1), row.scale)
        scales = tuple((rng.integers(one - 12, one + 12, each.shape)).astype(np.uint8) for each in scales)
        field = rng.integers(0x70, 0x8C, c.shape).astype(np.uint32) << 23
        c = np.where(rng.random(c.shape) < 0.7, (c & 0x807FFFFF) | field, c).astype(np.uint32)
    return a, b, c, (scales[0], scales[1])


def dots(row: Instruction, mine: Operands) -> list[tuple[tuple[int, int], list[Any]]]:
    """The place of every dot product, and its codes."""
    a, b, c, scales = mine
    shift = get_format(row.a).storage_shift
    mask_a, mask_b = (1 << get_format(row.a).bits) - 1, (1 << get_format(row.b).bits) - 1
    found = []
    for i, j in np.ndindex(c.shape):
        left = [(int(x) >> shift) & mask_a for x in a[i]]
        right = [(int(x) >> shift) & mask_b for x in b[:, j]]
        both = [] if scales is None else [scales[0][i].tolist(), scales[1][:, j].tolist()]
        found.append(((i, j), [left, right, int(c[i, j]), *both]))
    return found


def fast(row: Instruction, mine: Operands) -> npt.NDArray[Any]:
    a, b, c, scales = mine
    x, y = get_format(row.a), get_format(row.b)
    views = None
    if scales is not None:
        dtype = get_format(row.scale or "").dtype
        views = tuple(each.view(dtype) for each in scales)
    d = multiply_accumulate(a.view(x.dtype), b.view(y.dtype), c.view(np.float32), row, scales=views)  # type: ignore[arg-type]
    return d.view(np.uint32)


def defined(row: Instruction, case: list[Any]) -> int:
    left, right, c, *scales = case
    return dot(left, right, c, row, tuple(scales) if scales else None)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("family", ORACLES)
def test_the_definition_is_the_rules_in_rational_arithmetic(family: type) -> None:
    draw, rng = random.Random(1), np.random.default_rng(1)
    results = set()
    for number in range(120):
        row = of_one_block(draw, family)
        for _, case in dots(row, operands(rng, row, MODES[number % len(MODES)], 2, 3, row.k)):
            expected = ORACLES[family](row, *case)
            assert defined(row, case) == expected, f"{row} {case}"
            results.add(expected)
    assert len(results) > 200


@pytest.mark.slow
@pytest.mark.parametrize("family", ORACLES)
def test_the_fast_model_equals_the_definition_over_the_whole_family(family: type) -> None:
    draw, rng = random.Random(2), np.random.default_rng(2)
    for number in range(40):
        row = of_one_block(draw, family, draw.choice([8, 16]))
        blocks = draw.choice([1, 2])
        if family is FlushedTree:  # groups of which the last one of an instruction is short, too
            row = replace(row, shape=(16, 8, row.k - draw.choice([0, 0, 1, 2, 3])))
            row = replace(row, arithmetic=FlushedTree(draw.choice([2, 4, 8, 16])))
        else:
            row = replace(row, arithmetic=replace(row.arithmetic, block=row.k // blocks))
        k = row.k * draw.choice([1, 2]) if row.scale else draw.choice([row.k, row.k + 3, 1])
        mine = operands(rng, row, MODES[number % len(MODES)], 3, 4, k)
        found = fast(row, mine)
        for place, case in dots(row, mine):
            assert defined(row, case) == int(found[place]), f"{row} {case}"


DIFFERENT: dict[tuple[object, ...], tuple[str, Instruction]] = {}
for _unit in CATALOGUE.values():
    for _row in _unit.instructions:
        if is_block_sum(_row):
            key = (_row.a, _row.b, _row.output, _row.k, _row.arithmetic, _row.scale, _row.per_scale)
            DIFFERENT.setdefault(key, (_unit.name, _row))
ROWS = [pytest.param(row, id=f"{unit} {row.signature}") for unit, row in DIFFERENT.values()]


def differing(row: Instruction, count: int, seed: int) -> list[str]:
    os.environ["TCU_NUM_THREADS"] = "1"
    rng, found = np.random.default_rng(seed), []
    for number in range(-(-count // 144)):
        k = row.k * (1 + number % 2)
        mine = operands(rng, row, MODES[number % len(MODES)], 12, 12, k)
        result = fast(row, mine)
        for place, case in dots(row, mine):
            if defined(row, case) != int(result[place]):
                found.append(f"{row} {case}")
    return found


@pytest.mark.some(22)
@pytest.mark.slow(2)
@pytest.mark.parametrize("row", ROWS)
def test_the_fast_model_equals_the_definition_on_every_row(
    row: Instruction, request: pytest.FixtureRequest
) -> None:
    """``--dots`` adversarial dot products each, 20,000 at most where tests/test_sums_in_arrays.py takes more."""
    count = dots_by_definition(row, request.config.getoption("--dots"))
    if count <= 20_000:
        assert differing(row, count // 3, 0) == []
        return
    pieces = range(-(-count // 10_000))
    with ProcessPoolExecutor(worker_count()) as pool:
        for found in pool.map(differing, [row] * len(pieces), [10_000] * len(pieces), pieces):
            assert found == []


@pytest.mark.slow
def test_a_zero_below_an_instruction_of_a_flushed_tree_is_positive() -> None:
    """A sum that is flushed to -0 is the c of the next instruction, which takes it for +0."""
    (row,) = [each for each in CATALOGUE["MI250"].instructions if each.name == "mfma.bf16"]
    a, b = np.zeros((1, 8), ml_dtypes.bfloat16), np.zeros((8, 1), ml_dtypes.bfloat16)
    a[0, :4] = [-1.5 * 2.0**-66, 0, 2.0**-66, 0]
    b[:4, 0] = 2.0**-60
    a[0, 4:] = -1  # times +0
    mine = a.view(np.uint16), b.view(np.uint16), np.zeros((1, 1), np.uint32), None
    ((_, case),) = dots(row, mine)
    assert defined(row, case) == int(fast(row, mine)[0, 0]) == 0
    assert defined(row, [case[0][:4], case[1][:4], 0]) == 0x80000000


# Scales in tcu.mma, and errors


def ones(shape: tuple[int, ...], dtype: Any) -> npt.NDArray[Any]:
    return np.ones(shape, dtype)


FOUR = ml_dtypes.float4_e2m1fn


@pytest.mark.slow
def test_scales_belong_to_their_k_and_batches_broadcast() -> None:
    a, b = ones((2, 1, 3, 64), FOUR), ones((5, 64, 4), FOUR)
    rng = np.random.default_rng(0)
    scale_a = (2.0 ** rng.integers(-3, 4, (2, 1, 3, 2))).astype(UE8M0)
    scale_b = (2.0 ** rng.integers(-3, 4, (5, 2, 4))).astype(UE8M0)
    for instruction in ("mxf4", "mxf4nvf4", "nvf4", "mxf8f6f4"):
        d = tcu.mma(a, b, unit="B200", instruction=instruction, scale_a=scale_a, scale_b=scale_b)
        expected = 32 * np.einsum("xbis,ysj->xyij", scale_a.astype(float), scale_b.astype(float))
        assert d.shape == (2, 5, 3, 4)
        assert (d == expected).all()


@pytest.mark.slow
def test_a_scale_of_e4m3_has_no_sign_and_its_nan_is_one() -> None:
    a, b = ones((1, 64), FOUR), ones((64, 1), FOUR)
    scale = np.array([[1.0, -2.0, 0.5, -0.0]], UE4M3)
    arguments = {"unit": "RTX-Blackwell", "instruction": "nvf4", "scale_b": ones((4, 1), UE4M3)}
    assert tcu.mma(a, b, scale_a=scale, **arguments)[0, 0] == 16 * 3.5
    scale[0, 1] = np.nan
    assert tcu.mma(a, b, scale_a=scale, **arguments).view(np.uint32)[0, 0] == 0x7FFFFFFF


def test_a_group_that_cancels_cuts_what_lies_below_its_scales() -> None:
    a, b = np.zeros((1, 64), FOUR), ones((64, 1), FOUR)
    a[0, :2] = 1, -1
    c = np.array([[2.0**-20 + 2.0**-43]], np.float32)
    scales = {"scale_a": np.full((1, 2), 2.0**8, UE8M0), "scale_b": np.full((2, 1), 2.0**7, UE8M0)}
    assert tcu.mma(a, b, c, unit="B200", instruction="mxf4", **scales)[0, 0] == 2.0**-20
    a[0, :2] = 0
    assert tcu.mma(a, b, c, unit="B200", instruction="mxf4", **scales)[0, 0] == c[0, 0]


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"scale_b": None}, ParameterError, "scale_a without scale_b: give both"),
        ({"scale_a": None, "scale_b": None}, DtypeError, "give its scales, scale_a and scale_b"),
        ({"scale_a": np.ones((1, 2), np.float32)}, DtypeError, "float8_e8m0fnu, or as float8_e4m3fn"),
        ({"scale_b": ones((2, 1), UE4M3)}, DtypeError, "give both as"),
        ({"scale_a": ones((1, 3), UE8M0)}, ShapeError, r"scale_a \(1, 3\).*multiple of s"),
        (
            {"scale_a": ones((1, 8), UE8M0), "scale_b": ones((8, 1), UE8M0)},
            DtypeError,
            "8 to a scale of ue8m0",
        ),
        ({"instruction": "tcgen05"}, DtypeError, "does not compute e2m1 · e2m1, 32 to a scale"),
        ({"executor": "gpu"}, ParameterError, "by the model alone"),
        ({"executor": "cpu"}, ParameterError, "by the model alone"),
    ],
)
def test_scales_that_do_not_fit(changes: dict[str, Any], error: type[Exception], words: str) -> None:
    given = {
        "unit": "B200",
        "instruction": "mxf4",
        "scale_a": ones((1, 2), UE8M0),
        "scale_b": ones((2, 1), UE8M0),
    }
    with pytest.raises(error, match=words):
        tcu.mma(ones((1, 64), FOUR), ones((64, 1), FOUR), **given | changes)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ExactBlock(0), "block=0: choose 1 to 64"),
        (lambda: FlushedTree(3), "group=3: choose 2, 4"),
        (lambda: LateSum(8, 29, 31), "fraction_bits=29: choose 1 to 28"),
        (lambda: LateSum(8, 24, 23), "late_bits=23: choose fraction_bits=24 to 32"),
        (lambda: LateSum(8, 24, 31, 3), "groups=3: choose 1 or 2"),
        (lambda: GroupedSum(64, 24, 35, -139), "group=24: choose a divisor of block=64"),
        (lambda: GroupedSum(64, 16, 37, -139), "fraction_bits=37: choose 1 to 36"),
        (lambda: GroupedSum(64, 16, 35, 1), "exponent_floor=1: choose -400 to 0"),
    ],
)
def test_parameters_out_of_range(make: Any, words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        make()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"scale": None}, "GroupedSum takes scales: give scale"),
        ({"per_scale": 24}, "per_scale=24: choose a divisor of k = 64"),
        ({"per_scale": 8}, "per_scale=8: choose a multiple of group=16"),
        ({"a": "e4m3"}, "GroupedSum takes e2m1 and gives binary32"),
        ({"arithmetic": AlignedSum(32, 25, "RZ"), "scale": "ue4m3"}, "AlignedSum takes ue8m0"),
        ({"arithmetic": AlignedSum(32, 25, "RZ", late_c=True)}, "no more than block, fraction_bits"),
        ({"arithmetic": ExactBlock(4)}, "a GroupedSum takes scales, or an AlignedSum"),
    ],
)
def test_an_instruction_whose_scales_do_not_fit(changes: dict[str, Any], words: str) -> None:
    row = Instruction(
        "mx", "e2m1", "e2m1", "binary32", (16, 8, 64), GroupedSum(64, 16, 35, -139), (), "ue8m0", 32
    )
    with pytest.raises(ParameterError, match=words):
        replace(row, **changes)


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["MI100", "MI250", "MI300"])
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_sums_and_products_stay_within_their_bounds(unit: str, dtype: Any) -> None:
    rng = np.random.default_rng(7)
    for spread in (0, 6, 30, 100):
        power = np.clip(rng.integers(-spread, spread + 1, 3000), -14 if dtype is np.float16 else -130, 14)
        x = (rng.standard_normal(3000) * 2.0**power).astype(dtype)
        y = rng.standard_normal(3000).astype(dtype)
        exact = sum(map(Fraction, x.astype(float).tolist()), Fraction(0))
        found = Fraction(float(tcu.sum(x, unit=unit)))
        assert abs(found - exact) <= Fraction(float(tcu.error_bound(x, unit=unit)))
        a, b = x.reshape(3, 1000), y.reshape(1000, 3)
        bound = tcu.matmul_error_bound(a, b, unit=unit, dtype="float32")
        product = tcu.matmul(a, b, unit=unit, dtype="float32")
        for i, j in np.ndindex(3, 3):
            dot = sum(
                (
                    Fraction(p) * Fraction(q)
                    for p, q in zip(a[i].astype(float), b[:, j].astype(float), strict=True)
                ),
                Fraction(0),
            )
            assert abs(Fraction(float(product[i, j])) - dot) <= Fraction(float(bound[i, j]))
