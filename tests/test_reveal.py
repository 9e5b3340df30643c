"""Contract of ``tcu.reveal``: a plan that returns every bit of a function's sums or products, or a refusal.

Sums of NumPy, Python, PyTorch and BLAS, every variant of tcu's own, random
trees over IEEE formats and over blocks of matrix units (the functions share no
code with what finds and replays them) are reproduced.  What is no fixed tree of
a known arithmetic is never called reproduced: it gets the smallest input on
which the best plan is wrong.  A plan is data: it is saved, loaded, executed by
the model like any other, and has an error bound that holds.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from foolers import PRODUCTS, SUMS, UNSTEADY, in_turn
from golden import codes, digest, numbers
from random_trees import WIDER, by_definition, random_arithmetic, random_tree, split_product, sum_of

import tcu
from tcu.errors import DataFileError, DtypeError, ParameterError, ShapeError, UnknownNameError
from tcu.formats import format_of, get_format
from tcu.formats.tensor import tensor_of
from tcu.model.elements import Elements
from tcu.model.execute import execute
from tcu.plan import (
    VARIANTS,
    VERSIONS,
    Additions,
    Blocks,
    Compensated,
    ExactAddition,
    FusedProducts,
    Part,
    Plan,
    TreeNode,
    TreeRegions,
    TreeStep,
    make_dot_plan,
    make_plan,
)
from tcu.probes import Revealed, predict, unit_arithmetic
from tcu.probes.black_box import black_box
from tcu.probes.special_inputs import special_inputs
from tcu.probes.sum_inputs import decisive_rows, rows_of
from tcu.units import CATALOGUE, AlignedSum, FusedChain, Instruction, Unit, find_instruction, get_unit

DTYPES = ("float16", "float32", "float64")
SEARCHED = {"sorts first", "leaves out zeros, then halves", "the guard bits are those of the largest number"}
"""For which all units are searched before they are refused."""


def tree(found: Revealed) -> TreeStep:
    assert found.plan is not None
    (part,) = found.plan.parts
    (step,) = part.steps
    assert isinstance(step, TreeStep)
    return step


def reproduced(found: Revealed) -> TreeStep:
    assert found.verdict == "reproduced", (found.conclusion, found.counterexample)
    assert found.different == 0
    assert found.counterexample is None
    assert found.compared >= 1
    return tree(found)


def kahan(x: Any) -> Any:
    total, lost = x[0], x.dtype.type(0)
    for each in x[1:]:
        each = each - lost
        after = total + each
        lost = (after - total) - each
        total = after
    return total


def neumaier(x: Any) -> Any:
    total, lost = x[0], x.dtype.type(0)
    for each in x[1:]:
        after = total + each
        lost += (total - after) + each if abs(total) >= abs(each) else (each - after) + total
        total = after
    return total + lost


def two_sum(x: Any, y: Any) -> tuple[Any, Any]:
    total = x + y
    back = total - x
    return total, (x - (total - back)) + (y - back)


def in_two_doubles(x: Any) -> Any:
    """Some 106 digits, which few inputs tell from Neumaier's sum or from an exact one."""
    high = low = np.float64(0)
    for each in x.astype(np.float64):
        high, lost = two_sum(high, each)
        high, low = two_sum(high, low + lost)
    return high + low


def rounded_twice(x: Any) -> Any:
    return np.float32(math.fsum(x))


# Sums


@pytest.mark.some(20)
@pytest.mark.slow(3)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 3, 7, 8, 9, 33, 127, 128, 129, 136, 1000, 4097])
def test_numpys_pairwise_sum(n: int, dtype: str) -> None:
    step = reproduced(tcu.reveal(np.sum, n, dtype=dtype, seed=0, outputs=1000))
    wide = "binary64" if dtype == "float64" else "binary32"
    assert all(node.operation == Additions(wide) for node in step.nodes if n > 2)
    if n == 128:  # eight lanes of sixteen in turn, in pairs
        assert [node.inputs for node in step.nodes[:2]] == [tuple(range(0, 128, 8)), tuple(range(1, 128, 8))]


@pytest.mark.some(1)
@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [20_000, 100_000])
def test_numpys_pairwise_sum_of_many(n: int, dtype: str) -> None:
    found = tcu.reveal(np.sum, n, dtype=dtype, seed=0)
    reproduced(found)
    assert found.asked < n // 10 + 10_000


def test_few_questions_are_asked() -> None:
    found = tcu.reveal(np.sum, 5000, dtype="float32", seed=0, outputs=10)
    reproduced(found)
    assert found.asked < 6000


@pytest.mark.parametrize("axis", [0, -1])
def test_numpys_sum_along_an_axis(axis: int) -> None:
    def along(x: Any) -> Any:
        return np.stack([x, x[::-1]], axis=1 - axis if axis == 0 else 0).sum(axis)[0]

    step = reproduced(tcu.reveal(along, 200, dtype="float32", seed=0, outputs=500))
    assert (len(step.nodes) == 1) == (axis == 0)  # along axis 0, rows are added in turn


@pytest.mark.parametrize("turned", [False, True])
def test_a_loop(turned: bool) -> None:
    def loop(x: Any) -> Any:
        with np.errstate(all="ignore"):
            return in_turn(x[::-1] if turned else x)

    (node,) = reproduced(tcu.reveal(loop, 100, dtype="float32", seed=0, outputs=500)).nodes
    order = tuple(range(100))[:: -1 if turned else 1]
    assert node.inputs in (order, (order[1], order[0], *order[2:]))  # an addition commutes


@pytest.mark.slow(2)
@pytest.mark.parametrize(
    ("function", "dtype", "operation"),
    [
        (math.fsum, "float64", ExactAddition("binary64")),
        (math.fsum, "float32", ExactAddition("binary64")),
        (tcu.fsum, "float32", ExactAddition("binary32")),
        (kahan, "float32", Compensated("binary32", "kahan")),
        (kahan, "float64", Compensated("binary64", "kahan")),
        (neumaier, "float64", Compensated("binary64", "neumaier")),
    ],
)
def test_exact_and_compensated_sums(function: Callable[[Any], Any], dtype: str, operation: object) -> None:
    def quiet(x: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(x)

    (node,) = reproduced(tcu.reveal(quiet, 60, dtype=dtype, seed=0, outputs=500)).nodes
    assert node.operation == operation


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("n", [3, 4])
def test_a_sum_rounded_twice_is_told_from_one_rounded_once(n: int, seed: int) -> None:
    """1 + 2^-24 + 2^-80 is 1 by way of binary64: two distances must meet in one question."""
    found = tcu.reveal(rounded_twice, n, dtype="float32", seed=seed, outputs=100)
    (node,) = reproduced(found).nodes
    assert node.operation == ExactAddition("binary64")
    x = np.array([1, 2.0**-24, 2.0**-80, 0][:n], np.float32)
    assert found.predict(x) == rounded_twice(x) == 1


@pytest.mark.slow(1)
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("n", "dtype"), [(4, "float64"), (4, "float32"), (10, "float32"), (40, "float64")])
def test_a_sum_in_two_doubles_is_no_compensated_or_exact_one(n: int, dtype: str, seed: int) -> None:
    found = tcu.reveal(in_two_doubles, n, dtype=dtype, seed=seed, outputs=100)
    refused(found, "in two doubles")
    example = found.counterexample
    assert example is not None
    assert found.plan is not None
    assert float(in_two_doubles(example.x)) == example.function != example.plan == found.predict(example.x)


@pytest.mark.parametrize(
    ("kind", "shape"), [("dot", (1, 1, 5)), ("matmul", (3, 2, 5)), ("cumsum", (1, 1, 5))]
)
@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_questions_that_tell_sums_apart_fit_every_kind(
    kind: str, shape: tuple[int, int, int], dtype: str
) -> None:
    k = shape[2]
    product = kind == "matmul"
    function = {"dot": np.dot, "matmul": np.matmul, "cumsum": np.cumsum}[kind]
    box = black_box(function, None if product else k, kind, dtype, shape if product else None)
    asked = decisive_rows(box)
    assert asked is not None
    x, y = asked
    assert x.shape[-1] == k
    assert np.isfinite(box(x, y)).all()
    assert [each.tobytes() for each in asked if each is not None] == [
        each.tobytes() for each in decisive_rows(box) or () if each is not None
    ]


@pytest.mark.some(12)
@pytest.mark.slow(4)
@pytest.mark.parametrize("n", [1, 5, 33, 100, 1000])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
def test_pytorchs_sum(n: int, dtype: str) -> None:
    torch = pytest.importorskip("torch")
    reproduced(tcu.reveal(torch.sum, n, dtype=getattr(torch, dtype), seed=0, outputs=300))


@pytest.mark.some(5)
@pytest.mark.slow(1)
@pytest.mark.parametrize("n", [40, *(pytest.param(n, marks=pytest.mark.slow) for n in (300, 600))])
@pytest.mark.parametrize(
    ("variant", "dtype"),
    [(name, dtype) for name, row in VARIANTS.items() for dtype in DTYPES if row.takes(get_format(dtype))],
)
def test_variants_of_our_own(variant: str, dtype: str, n: int) -> None:
    step = reproduced(tcu.reveal(lambda x: tcu.sum(x, variant=variant), n, dtype=dtype, seed=0, outputs=100))
    if dtype == "float16" and variant in ("short-chain", "single-pass", "two-mma"):
        (row,) = {getattr(node.operation, "arithmetic", None) for node in step.nodes} - {None}
        assert (row.fraction_bits, row.rounding) == (25, "RZ")


@pytest.mark.some(32)
@pytest.mark.slow(2)
@pytest.mark.parametrize("seed", range(200))
def test_random_trees(seed: int) -> None:
    rng = np.random.default_rng(seed)
    fmt = str(rng.choice(list(WIDER)))
    formats = WIDER[fmt] if rng.random() < 0.5 else (str(rng.choice(WIDER[fmt])),)
    output, n = str(rng.choice(WIDER[fmt])), int(rng.integers(2, 60))
    function = sum_of(random_tree(rng, np.arange(n), formats), output)
    reproduced(tcu.reveal(function, n, dtype=get_format(fmt).dtype, seed=seed, outputs=100))


# Products


@pytest.mark.slow(1)
@pytest.mark.parametrize("n", [1, 2, 3, 10, 33, 100, 500])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_dot_product_of_blas(n: int, dtype: str) -> None:
    reproduced(tcu.reveal(np.dot, n, kind="dot", dtype=dtype, seed=0, outputs=500))


@pytest.mark.slow(3)
@pytest.mark.parametrize("shape", [(8, 8, 33), (16, 16, 100)])
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_the_product_of_a_library(dtype: str, shape: tuple[int, int, int]) -> None:
    """It is reproduced, or refused truthfully, where a processor does what no tree here does."""
    function: Any = np.matmul
    kind: Any = dtype
    if dtype in ("float16", "bfloat16"):
        torch = pytest.importorskip("torch", reason="its product is asked")
        function, kind = torch.matmul, getattr(torch, dtype)
    found = tcu.reveal(function, kind="matmul", shape=shape, dtype=kind, seed=0, outputs=2000)
    if found.verdict == "reproduced":
        assert found.plan is not None
        return
    example = found.counterexample
    assert found.verdict == "outside"
    assert example is not None
    assert example.y is not None
    x, y = (example.x, example.y) if function is np.matmul else (tensor_of(example.x), tensor_of(example.y))
    assert float(function(x, y)[example.result]) == example.function
    assert float(found.predict(example.x, example.y)[example.result]) == example.plan
    assert math.copysign(1, example.function) != math.copysign(1, example.plan) or (
        example.function != example.plan
    )


def test_fused_products_are_told_from_rounded_ones() -> None:
    def loop(a: Any, b: Any) -> Any:
        total = np.zeros((len(a), b.shape[1]), a.dtype)
        with np.errstate(all="ignore"):
            for k in range(a.shape[1]):
                total = total + a[:, k : k + 1] * b[k : k + 1]
        return total

    (node,) = reproduced(
        tcu.reveal(loop, kind="matmul", shape=(4, 5, 20), dtype="float32", seed=0, outputs=1000)
    ).nodes
    assert node.operation == Additions("binary32")

    row = find_instruction("A100", "mma", "binary64", "binary64")

    def fused(a: Any, b: Any) -> Any:
        return split_product(row, [range(20)], False)(a, b)

    (node,) = reproduced(
        tcu.reveal(fused, kind="matmul", shape=(4, 5, 20), dtype="float64", seed=0, outputs=1000)
    ).nodes
    assert node.operation == FusedProducts("binary64")


FLUSHING = find_instruction("AVX512-BF16", "vdpbf16ps", "bfloat16", "bfloat16")


def flushing_product(a: Any, b: Any) -> Any:
    """Two chains of AVX512-BF16's instruction, by its definition in Python integers, whose sum is flushed, too."""
    half = a.shape[1] // 2
    first, second = (
        split_product(FLUSHING, [ks], False, by_definition)(a, b)
        for ks in (range(half), range(half, a.shape[1]))
    )
    total = first + second
    return np.where(
        np.abs(total) < get_format("binary32").min_normal, np.copysign(np.float32(0), total), total
    )


@pytest.mark.slow
def test_products_that_flush_subnormals() -> None:
    found = tcu.reveal(
        flushing_product, kind="matmul", shape=(3, 4, 16), dtype="bfloat16", seed=0, outputs=1000
    )
    step = reproduced(found)
    assert [(node.operation, node.inputs) for node in step.nodes] == [
        (FusedProducts("binary32", True), (1, 0, 3, 2, 5, 4, 7, 6)),
        (FusedProducts("binary32", True), (9, 8, 11, 10, 13, 12, 15, 14)),
        (Additions("binary32", True), (16, 17)),
    ]
    assert str(step) == (
        "a tree of 16 pairs: binary32 FMAs that flush subnormals; binary32 additions that flush subnormals"
    )
    rng = np.random.default_rng(1)
    for scale in (0, -60, -125, -133):  # there the bound is of what is read, and all that is not
        x = np.ldexp(rng.standard_normal((3, 16)), scale).astype(get_format("bfloat16").dtype)
        y = np.ldexp(rng.standard_normal((16, 4)), 3).astype(x.dtype)
        exact = x.astype(np.float64) @ y.astype(np.float64)
        assert (np.abs(found.predict(x, y) - exact) <= found.bound(x, y) * (1 + 2.0**-40) + 2.0**-1000).all()


@pytest.mark.slow
def test_a_chain_of_one_instruction_of_avx512_is_told_from_fmas_that_do_not_flush() -> None:
    steps = [
        reproduced(tcu.reveal(
            lambda a, b, unit=unit: tcu.mma(a, b, unit=unit, instruction="vdpbf16ps"), kind="matmul", shape=(5, 6, 20), dtype="bfloat16", seed=0, outputs=2000,
        ))
        for unit in ("AVX512-BF16", CHAIN_WITHOUT_FLUSHES)
    ]  # fmt: skip
    assert [node.operation for step in steps for node in step.nodes] == [
        FusedProducts("binary32", True), FusedProducts("binary32"),
    ]  # fmt: skip


def of_amx(a: Any, b: Any) -> Any:
    return tcu.mma(a, b, unit="AMX", instruction="tdpbf16ps")


@pytest.mark.parametrize(("k", "zero"), [(16, "last"), (32, "last"), (64, "begin"), (256, "begin")])
def test_products_by_amx_are_chains_of_even_and_odd_products_and_their_sums(k: int, zero: str) -> None:
    """Every chain begins from +0, and the sums of chains are added to +0, which shows where all of them underflow."""
    found = tcu.reveal(of_amx, kind="matmul", shape=(4, 5, k), dtype="bfloat16", seed=0)
    step = reproduced(found)
    assert {node.operation for node in step.nodes} == {
        FusedProducts("binary32", True), Additions("binary32", True),
    }  # fmt: skip
    assert step.zero == zero
    chains = [node.inputs for node in step.nodes if isinstance(node.operation, FusedProducts)]
    assert sorted(chains) == sorted(
        tuple(range(first + odd, min(first + 32, k), 2)) for first in range(0, k, 32) for odd in (0, 1)
    )


def test_a_function_that_is_almost_a_chain_of_fmas_is_refused_without_a_search_of_all_units(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """That took minutes for 40 products, and longer for more."""
    tried: list[int] = []
    wanted = unit_arithmetic._searched

    def searched(way: Any, *arguments: Any) -> Any:
        tried.append(way.block)
        return wanted(way, *arguments)

    monkeypatch.setattr(unit_arithmetic, "_searched", searched)

    def other_at_one_exponent(a: Any, b: Any) -> Any:
        result = of_amx(a, b)
        bits = result.view(np.uint32).copy()
        bits[np.frexp(result)[1] == 3] ^= 1
        return bits.view(np.float32)

    found = tcu.reveal(other_at_one_exponent, kind="matmul", shape=(4, 4, 64), dtype="bfloat16", seed=0)
    assert found.verdict == "outside"
    assert found.counterexample is not None
    assert 1 not in tried


@pytest.mark.parametrize(
    ("operand", "arithmetic"),
    [
        ("e4m3", AlignedSum(1, 17, "RZ", -133)), ("e4m3", AlignedSum(1, 19, "RZ", -133)), ("e5m2", AlignedSum(1, 26, "RZ")),
        ("binary16", AlignedSum(1, 24, "RNE")), ("bfloat16", AlignedSum(1, 25, "RNE", -133)),
    ],
    ids=str,
)  # fmt: skip
def test_units_that_add_one_product_at_a_time_are_searched_however_seldom_they_differ_from_fmas(
    monkeypatch: pytest.MonkeyPatch, operand: str, arithmetic: AlignedSum
) -> None:
    """Sums of eight-bit products are exact nearly always."""
    tried: list[int] = []

    def searched(way: Any, *_: Any) -> Any:
        tried.append(way.block)
        return iter(())

    monkeypatch.setattr(unit_arithmetic, "_searched", searched)
    row = Instruction("mma", operand, operand, "binary32", (16, 8, 1), arithmetic, ())
    function = split_product(row, [range(5), range(5, 8)], False)
    tcu.reveal(function, kind="matmul", shape=(4, 3, 8), dtype=get_format(operand).dtype, seed=0, outputs=100)
    assert 1 in tried


CHAIN_WITHOUT_FLUSHES = Unit(
    "no flushes", "-", "-", "-", (replace(FLUSHING, arithmetic=FusedChain(order=(1, 0))),)
)

DIFFERENT = list(
    {
        (row.a, row.output, row.arithmetic): (f"{unit.name} {row.signature}", row)
        for unit in CATALOGUE.values()
        for row in unit.instructions
        if row.a == row.b and isinstance(row.arithmetic, AlignedSum) and row.scale is None
        # Numbers of six and four bits have too few exponents for the questions.
        if get_format(row.a).bits >= 8
    }.values()
)


@pytest.mark.slow(1)
@pytest.mark.parametrize("row", [row for _, row in DIFFERENT], ids=[name for name, _ in DIFFERENT])
def test_every_aligned_sum_of_the_catalogue(row: Instruction) -> None:
    function = split_product(row, [range(70)], False)
    step = reproduced(
        tcu.reveal(
            function, kind="matmul", shape=(16, 8, 70), dtype=get_format(row.a).dtype, seed=0, outputs=2000
        )
    )
    (found,) = {getattr(node.operation, "arithmetic", None) for node in step.nodes} - {None}
    wanted = row.arithmetic
    assert isinstance(wanted, AlignedSum)
    assert (found.block, found.fraction_bits) == (wanted.block, wanted.fraction_bits)


@pytest.mark.slow(1)
@pytest.mark.parametrize("name", ["e4m3", "e5m2", "binary16"])
def test_results_of_one_product_that_are_added_up_otherwise(name: str) -> None:
    """Eight bits' masks have another second factor at their large numbers, and so a result each."""
    row = find_instruction("H100", "wgmma", name, name, "binary32")
    one, other = split_product(row, [range(64)], False), split_product(row, [range(32), range(32, 64)], False)

    def product(a: Any, b: Any) -> Any:
        return np.concatenate([one(a, b[:, :5].copy()), other(a, b[:, 5:].copy())], axis=1)

    found = tcu.reveal(
        product, kind="matmul", shape=(6, 8, 64), dtype=get_format(name).dtype, seed=0, outputs=1000
    )
    assert found.verdict == "reproduced", found.conclusion
    assert found.plan is not None
    (step,) = found.plan.parts[0].steps
    assert isinstance(step, TreeRegions)
    assert set(step.regions) == {step.regions[0]}
    assert len(set(step.regions[0][:5])) == len(set(step.regions[0][5:])) == 1
    assert len(step.trees) == 2


@pytest.mark.slow
def test_the_definition_is_reproduced() -> None:
    row = find_instruction("H100", "mma", "binary16", "binary16")
    function = split_product(row, [range(16), range(16, 40)], False, by_definition)
    step = reproduced(
        tcu.reveal(function, kind="matmul", shape=(2, 2, 40), dtype="float16", seed=0, outputs=100)
    )
    assert [len(node.inputs) for node in step.nodes] == [16, 24, 2]


@pytest.mark.some(24)
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(200))
def test_random_trees_of_blocks(seed: int) -> None:
    """Rows of the catalogue, K split into chains side by side."""
    rng = np.random.default_rng(seed)
    _, row = DIFFERENT[int(rng.integers(len(DIFFERENT)))]
    ks, parts = np.arange(int(rng.integers(2, 80))), int(rng.integers(1, 5))
    chains = np.array_split(ks, parts) if rng.random() < 0.6 else [ks[start::parts] for start in range(parts)]
    function = split_product(row, [each.tolist() for each in chains if each.size], bool(rng.random() < 0.5))
    shape = (4, 3, ks.size)
    reproduced(
        tcu.reveal(
            function, kind="matmul", shape=shape, dtype=get_format(row.a).dtype, seed=seed, outputs=1000
        )
    )


@pytest.mark.some(5)
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_random_units(seed: int) -> None:
    """Any member of the family: reproduced, but for the few whose blocks no question tells apart in time."""
    rng = np.random.default_rng(seed)
    _, row = DIFFERENT[int(rng.integers(len(DIFFERENT)))]
    arithmetic = random_arithmetic(rng, row.output)
    block = arithmetic.block
    own = Instruction("mma", row.a, row.b, row.output, (16, 8, block), arithmetic, ())
    chains = [range(3 * block), range(3 * block, 5 * block)]
    function, shape = split_product(own, chains, False), (4, 3, 5 * block)
    found = tcu.reveal(
        function, kind="matmul", shape=shape, dtype=get_format(row.a).dtype, seed=seed, outputs=1000
    )
    reproduced(found)


# Refusals


@pytest.mark.slow(4)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SEARCHED)) for name in SUMS]
)
def test_sums_that_fool(name: str) -> None:
    found = tcu.reveal(SUMS[name], 40, dtype="float32", seed=0)
    refused(found, name)
    example = found.counterexample
    if example is not None:
        assert found.plan is not None
        assert example.y is None
        assert float(SUMS[name](example.x)) == example.function or math.isnan(example.function)
        assert float(found.predict(example.x)) == example.plan


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SEARCHED)) for name in PRODUCTS]
)
def test_products_that_fool(name: str) -> None:
    found = tcu.reveal(PRODUCTS[name], kind="matmul", shape=(4, 3, 40), dtype="float16", seed=0)
    refused(found, name)
    example = found.counterexample
    assert example is not None
    assert float(PRODUCTS[name](example.x, example.y)[example.result]) == example.function
    assert float(found.predict(example.x, example.y)[example.result]) == example.plan


def refused(found: Revealed, name: str) -> None:
    assert found.verdict == ("not a fixed tree" if name in UNSTEADY else "outside"), found.conclusion
    assert (found.different > 0) == (found.counterexample is not None)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("often", [100, 1500])
def test_a_sum_that_changes_now_and_then_is_no_fixed_tree(often: int, seed: int) -> None:
    """It passes the first check of its repetition, and what it once returned is no counterexample."""
    calls = 0

    def now_and_then(x: Any) -> Any:
        nonlocal calls
        calls += 1
        total = x.sum()
        return np.nextafter(total, np.float32(np.inf)) if calls % often == 99 else total

    found = tcu.reveal(now_and_then, 20, dtype="float32", seed=seed)
    assert found.verdict == "not a fixed tree", (found.conclusion, found.counterexample)
    assert found.counterexample is None


# Infinities, NaN and overflow


def saturated(a: Any, b: Any) -> Any:
    with np.errstate(invalid="ignore"):  # which some BLAS flags for what it pads with
        return np.clip(a.astype(np.float32) @ b.astype(np.float32), -65504, 65504).astype(np.float16)


def test_a_sum_that_leaves_out_nan_is_reproduced_but_for_that() -> None:
    found = tcu.reveal(np.nansum, 16, dtype="float32", seed=0, outputs=100)
    reproduced(found)
    (special,) = found.special
    assert special.what == "one NaN"
    assert np.isnan(special.x).sum() == 1
    assert float(np.nansum(special.x)) == special.function
    assert math.isnan(special.plan)
    assert found.conclusion == (
        f"reproduced: 100 fresh results, none different; but special values differ: for one NaN it returns "
        f"{special.function}, the plan nan"
    )


def test_a_product_that_saturates_is_reproduced_but_for_that() -> None:
    found = tcu.reveal(saturated, kind="matmul", shape=(4, 4, 16), dtype="float16", seed=0, outputs=200)
    reproduced(found)
    assert [each.what for each in found.special] == ["one infinity", "a sum beyond the largest number"]
    for each in found.special:
        assert (each.function, each.plan) == (65504, math.inf)
        assert saturated(each.x, each.y)[each.result] == each.function
        with np.errstate(all="ignore"):
            assert found.predict(each.x, each.y)[each.result] == each.plan


def at_one_place(x: Any) -> Any:
    """A sum in turn, but for NaN at 3, and an infinity at 13 alone, of 20."""
    if np.isnan(x[3]) or (np.isinf(x[13]) and np.isinf(x).sum() == 1):
        return np.float32(7)
    with np.errstate(all="ignore"):
        return in_turn(x)


def overflows_from_there(x: Any) -> Any:
    """Saturates where it is the numbers from the fourth on that are too large together."""
    with np.errstate(all="ignore"):
        total = in_turn(x)
        late = not x[:3].any() and np.isinf(total) and np.isfinite(x).all()
    return np.copysign(np.finfo(np.float32).max, total) if late else total


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (at_one_place, {"one NaN", "one infinity"}),
        (overflows_from_there, {"a sum beyond the largest number"}),
    ],
)
def test_special_values_are_asked_about_at_every_place(function: Any, expected: set[str], seed: int) -> None:
    """The first, the middle and the last place said nothing of the others."""
    found = tcu.reveal(function, 20, dtype="float32", seed=seed, outputs=200)
    reproduced(found)
    assert {each.what for each in found.special} == expected
    for each in found.special:
        assert float(function(each.x)) == each.function
        assert found.predict(each.x) == each.plan or math.isnan(each.plan)


def test_a_sum_that_refuses_infinities_is_reproduced_but_for_that() -> None:
    found = tcu.reveal(math.fsum, 9, seed=0, outputs=100)
    reproduced(found)
    assert {each.what: (each.function, each.raised) for each in found.special} == {
        "inf and -inf": (None, "ValueError: -inf + inf in fsum"),
        "a sum beyond the largest number": (None, "OverflowError: intermediate overflow in fsum"),
    }
    assert "for inf and -inf it raises ValueError: -inf + inf in fsum, the plan nan" in found.conclusion


@pytest.mark.slow(1)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["sum", "dot", "cumsum"])
def test_special_values_of_numpy_are_the_plans(kind: Any, dtype: str) -> None:
    found = tcu.reveal(
        {"sum": np.sum, "dot": np.dot, "cumsum": np.cumsum}[kind],
        12,
        kind=kind,
        dtype=dtype,
        seed=0,
        outputs=100,
    )
    if found.verdict == "reproduced":  # of a product some processors add up what no tree here does
        assert found.special == ()
        assert found.conclusion.endswith(" fresh results, none different")


@pytest.mark.slow(1)
@pytest.mark.parametrize("name", ["e4m3", "e5m2", "binary16"])
def test_special_values_of_a_unit_are_the_plans(name: str) -> None:
    row = find_instruction("H100", "wgmma", name, name, "binary32")
    found = tcu.reveal(
        split_product(row, [range(40)], False), kind="matmul", shape=(4, 3, 40), dtype=get_format(name).dtype, seed=0, outputs=100
    )  # fmt: skip
    assert (found.verdict, found.special) == ("reproduced", ())


KINDS_ASKED = (("sum", 1, None), ("cumsum", 2, None), ("dot", 3, None), ("matmul", None, (2, 3, 4)))


@pytest.mark.parametrize(
    ("kind", "n", "shape", "dtype"),
    [
        (*of, dtype)
        for of in KINDS_ASKED
        for dtype in (*DTYPES, *(("e4m3", "e5m2") if of[0] in ("dot", "matmul") else ()))
    ],
)
def test_what_is_asked_of_special_values(kind: str, n: int | None, shape: Any, dtype: str) -> None:
    function = {"sum": np.sum, "cumsum": np.cumsum, "dot": np.dot, "matmul": np.matmul}[kind]
    if dtype.startswith("e"):
        function = lambda a, b, f=function: f(a.astype(np.float32), b.astype(np.float32))  # noqa: E731
    box = black_box(function, n, kind, get_format(dtype).dtype, shape)
    asked: dict[str, bool] = {}
    for what, x, y in special_inputs(box, np.random.default_rng(0)):
        asked[what] = asked.get(what, True) and not np.isfinite(box(x, y)).all()
        values = x.astype(np.float64)
        assert np.isnan(values).any() == (what == "one NaN")
        assert np.isinf(values).any() == ("inf" in what)
    fmt = get_format(dtype)
    expected = {"one NaN"} | ({"one infinity"} if fmt.has_infinity else set())
    if fmt.has_infinity and box.n > 1:
        expected.add("inf and -inf")
    if fmt.has_infinity and box.products:
        expected.add("an infinity times 0")
    if dtype in DTYPES and box.n > 1:
        expected.add("a sum beyond the largest number")
    assert set(asked) == expected


def test_a_plan_is_of_one_length() -> None:
    def turns(x: Any) -> Any:
        with np.errstate(all="ignore"):
            return in_turn(x if x.size < 50 else x[::-1])

    found = tcu.reveal(turns, 40, dtype="float32", seed=0, outputs=200)
    reproduced(found)
    with pytest.raises(ShapeError, match=r"an array of shape \(60,\): the plan adds up 40 numbers"):
        found.predict(np.zeros(60, np.float32))


# The plan


@pytest.fixture(scope="module")
def pairwise() -> Revealed:
    return tcu.reveal(np.sum, 300, dtype="float32", seed=0, outputs=500)


def test_prediction_and_execution_are_one(pairwise: Revealed) -> None:
    x = np.random.default_rng(1).standard_normal((20, 300)).astype(np.float32)
    expected = x.sum(axis=1)
    assert pairwise.predict(x).tolist() == expected.tolist()
    assert pairwise.predict(x.reshape(4, 5, 300)).shape == (4, 5)
    assert pairwise.plan is not None
    assert [execute(pairwise.plan, Elements(row)) for row in x] == expected.tolist()


def test_the_bound_holds(pairwise: Revealed) -> None:
    rng = np.random.default_rng(2)
    for scale in (1.0, 1e-30, 1e30):
        x = (rng.standard_normal(300) * scale).astype(np.float32)
        exact = sum(map(Fraction, x.tolist()))
        bound = pairwise.bound(x)
        assert abs(Fraction(float(pairwise.predict(x))) - exact) <= Fraction(bound)
        assert bound < 1e-4 * np.abs(x).sum(dtype=np.float64)


@pytest.mark.parametrize("name", ["H100", "V100"])
def test_the_bound_of_a_product_holds(name: str) -> None:
    row = find_instruction(name, "mma", "binary16", "binary16", "binary32")
    found = tcu.reveal(
        split_product(row, [range(50)], False), kind="matmul", shape=(8, 8, 50), dtype="float16", seed=0, outputs=500
    )  # fmt: skip
    rng = np.random.default_rng(3)
    for scale in (1.0, 1e-3):
        a = (rng.standard_normal((8, 50)) * scale).astype(np.float16)
        b = (rng.standard_normal((50, 8)) * scale).astype(np.float16)
        exact = a.astype(np.float64) @ b.astype(np.float64)
        bound = found.bound(a, b)
        assert bound.shape == (8, 8)
        assert (np.abs(found.predict(a, b).astype(np.float64) - exact) <= bound).all()


def test_plans_are_saved_and_loaded(pairwise: Revealed, tmp_path: Path) -> None:
    place = tmp_path / "plan.json"
    unit = get_unit("H100")
    row = find_instruction("H100", "wgmma", "e4m3", "e4m3")
    of_blocks = tcu.reveal(
        split_product(row, [range(64), range(64, 100)], False), kind="matmul", shape=(4, 3, 100),
        dtype=get_format("e4m3").dtype, seed=0, outputs=100,
    ).plan  # fmt: skip
    f16 = get_format("binary16")
    for plan in (pairwise.plan, of_blocks, make_plan(5000, f16, unit), make_dot_plan(5000, f16)):
        assert isinstance(plan, Plan)
        plan.save(place)
        loaded = tcu.load_plan(place)
        assert loaded == plan
        assert str(loaded) == str(plan)
        hash(loaded)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda text: "[", "it is not JSON"),
        (lambda text: "{}", "it does not say that its format is 'tcu plan'"),
        (lambda text: text.replace('"version": 1, "plan"', '"version": 7, "plan"'), "its version is 7, and this tcu reads 1"),
        (lambda text: text.replace('"TreeStep"', '"Twig"'), "KeyError: 'Twig'"),
        (lambda text: text.replace('"leaves"', '"leafs"'), "TypeError"),
        (lambda text: text.replace('"nodes": [[0, 0, ', '"nodes": [[0, 999999, '), "adds up values that come after it"),
        (lambda text: text.replace('"roots": [', '"roots": [999999, '), "lacks a root"),
    ],
)  # fmt: skip
def test_a_file_that_holds_no_plan(
    pairwise: Revealed, tmp_path: Path, change: Callable[[str], str], why: str
) -> None:
    place = tmp_path / "plan.json"
    assert pairwise.plan is not None
    pairwise.plan.save(place)
    text = place.read_text("utf-8")
    assert change(text) != text
    place.write_text(change(text), "utf-8")
    with pytest.raises(DataFileError, match="holds no plan") as error:
        tcu.load_plan(place)
    assert why in str(error.value)


def test_files_that_are_not_there(pairwise: Revealed, tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match="cannot read"):
        tcu.load_plan(tmp_path / "none.json")
    assert pairwise.plan is not None
    with pytest.raises(DataFileError, match=r"cannot write .*: choose another place"):
        pairwise.plan.save(tmp_path / "no" / "plan.json")
    whole = tmp_path / "part.json"
    document = {
        "format": "tcu plan",
        "version": 1,
        "operations": [],
        "plan": {"kind": "Additions", "format": "binary32"},
    }
    whole.write_text(json.dumps(document), "utf-8")
    with pytest.raises(DataFileError, match="holds a Additions, not a whole plan"):
        tcu.load_plan(whole)


@pytest.mark.parametrize("path", [3, None, b"plan.json", 1.5])
def test_a_path_must_be_one(pairwise: Revealed, path: Any) -> None:
    assert pairwise.plan is not None
    for use in (tcu.load_plan, pairwise.plan.save, tcu.plan.make_matmul_plan(64, "float16", "float16").save):
        with pytest.raises(ParameterError) as error:
            use(path)
        assert str(error.value) == (
            f"path is of type {type(path).__name__}: give the path of a plan's file, such as 'plan.json'"
        )


def test_a_tree_must_be_one() -> None:
    with pytest.raises(ParameterError, match="node 0 of a tree adds up values that come after it"):
        TreeStep(2, (TreeNode(Additions("binary32"), (0, 2)),), (2,), False, "binary32")


def fixed_trees() -> dict[str, Plan]:
    """Trees of every operation, which never change."""
    f16, e4m3 = AlignedSum(8, 24, "RZ", -133), AlignedSum(4, 13, "RZ", -133, output_fraction_bits=13)
    chain, turned = tuple(range(12)), tuple(reversed(range(12)))
    steps = {
        "additions": ("binary32", False, [(Additions("binary32"), chain[:5]), (Additions("binary64"), (12, *chain[5:]))]),
        "kahan": ("binary32", False, [(Compensated("binary32", "kahan"), turned)]),
        "neumaier": ("binary32", False, [(Compensated("binary32", "neumaier"), chain)]),
        "exact": ("binary32", False, [(ExactAddition("binary32"), chain)]),
        "products": ("binary32", True, [(FusedProducts("binary32"), chain[:6]), (Additions("binary32"), (12, *chain[6:]))]),
        "flushed products": ("bfloat16", True, [
            (FusedProducts("binary32", True), (1, 0, *chain[2:6])), (FusedProducts("binary32", True), chain[6:]),
            (Additions("binary32", True), (12, 13)),
        ]),
        "wide products": ("binary64", True, [(FusedProducts("binary64"), turned)]),
        "blocks": ("binary16", True, [
            (Blocks("binary16", "binary32", f16, False), chain[:8]), (Blocks("binary16", "binary32", f16, True), (12, *chain[8:])),
        ]),
        "blocks of bytes": ("e4m3", True, [(Blocks("e4m3", "binary32", e4m3, False), chain)]),
    }  # fmt: skip
    return {
        name: Plan(
            12, operand, "revealed", None, 0,
            (Part(0, 12, (TreeStep(12, tuple(TreeNode(*node) for node in nodes), (11 + len(nodes),), products, operand),)),),
            (), "binary64" if operand == "binary64" else "binary32", VERSIONS["tree"],
        )
        for name, (operand, products, nodes) in steps.items()
    }  # fmt: skip


def digest_of_tree(plan: Plan) -> str:
    (step,) = plan.parts[0].steps
    assert isinstance(step, TreeStep)
    x = numbers("ordinary", plan.input, 40 * 12, "x").reshape(40, 12)
    if not step.products:
        return digest(codes(predict(plan, x)))
    y = numbers("ordinary", plan.input, 12 * 3, "y").reshape(12, 3)
    return digest(codes(predict(plan, x, y)))


GOLDEN = {
    "additions": "d8de46ca4a74a88d",
    "kahan": "3e09a1976daf0ef1",
    "neumaier": "e9346b3d20324613",
    "exact": "e9346b3d20324613",
    "products": "073ca9d73420f570",
    "flushed products": "11410ca9ffec08e4",
    "wide products": "b694419690c56d8d",
    "blocks": "9e3781d90b367d9e",
    "blocks of bytes": "9b25c5532a835c1b",
}


@pytest.mark.parametrize("name", fixed_trees())
def test_golden_bits_of_trees(name: str) -> None:
    """Another way to evaluate a tree changes no bit; if how its data are read changes, so does its version."""
    assert VERSIONS["tree"] == 1
    assert digest_of_tree(fixed_trees()[name]) == GOLDEN[name]


# What is asked for


@pytest.mark.parametrize(
    ("given", "error", "why"),
    [
        ({"n": 3, "kind": "product"}, ParameterError, "kind='product': choose one of sum, dot, matmul"),
        ({"n": None}, ParameterError, "kind='sum' needs n=..., and no shape"),
        ({"n": 3, "kind": "matmul"}, ParameterError, r"kind='matmul' needs shape=\(M, N, K\), and no n"),
        (
            {"n": None, "kind": "matmul", "shape": (2, 3)},
            ParameterError,
            r"shape=\(2, 3\): give three, M, N and K, of 1 or more",
        ),
        ({"n": 0}, ParameterError, "n=0: give a whole number of 1 or more"),
        ({"n": 3, "dtype": "int8"}, DtypeError, "a sum of s8 is no sum in floating point"),
        ({"n": 3, "outputs": 0}, ParameterError, "outputs=0: compare at least one output"),
        (
            {"n": 3, "outputs": 1.5},
            ParameterError,
            "outputs=1.5: compare at least one output, a whole number of them",
        ),
        ({"n": 3, "outputs": "a"}, ParameterError, "outputs='a': compare at least one output"),
        (
            {"n": None, "kind": "matmul", "shape": 5},
            ParameterError,
            "shape=5: give three, M, N and K, of 1 or more",
        ),
        ({"n": 3, "progress": 3}, ParameterError, "progress=3: give a function of a text, or None"),
        (
            {"n": 3, "seed": -1},
            ParameterError,
            "seed=-1: give a whole number of 0 or more, or None for a fresh one",
        ),
        ({"n": 3, "seed": 1.5}, ParameterError, "seed=1.5: give a whole number"),
        ({"n": 3, "seed": "a"}, ParameterError, "seed='a': give a whole number"),
        ({"n": 3, "seed": [1, 2]}, ParameterError, r"seed=\[1, 2\]: give a whole number"),
        (
            {"n": 10**12},
            ParameterError,
            "n=1000000000000: a question has 1,000,000,000,000 numbers in one array, and may have",
        ),
        (
            {"n": None, "kind": "matmul", "shape": (10**6,) * 3},
            ParameterError,
            r"shape=\(1000000, 1000000, 1000000\): a question has 1,000,000,000,000 numbers",
        ),
    ],
)
def test_what_cannot_be_asked(given: dict[str, Any], error: type[Exception], why: str) -> None:
    with pytest.raises(error, match=why):
        tcu.reveal(np.sum, **given)


def test_what_functions_must_return() -> None:
    with pytest.raises(ParameterError, match=r"is of type int: give a function of arrays"):
        tcu.reveal(3, 3)  # type: ignore[arg-type]
    with pytest.raises(DtypeError, match=r"returns .*int.*: it must return floating-point numbers"):
        tcu.reveal(np.size, 3)
    with pytest.raises(
        ShapeError, match=r"returns an array of shape \(3,\): a sum of 3 numbers has a single number"
    ):
        tcu.reveal(np.negative, 3)
    with pytest.raises(ShapeError, match=r"a matmul of 2 × 4 by 4 × 3 has \(2, 3\)"):
        tcu.reveal(lambda a, b: (a @ b).T, kind="matmul", shape=(2, 3, 4))


@pytest.mark.parametrize(
    ("later", "error", "why"),
    [
        (np.zeros(3, np.float32), ShapeError, r"array of shape \(3,\): a sum of 5 numbers has a single number"),
        (np.float64(1), DtypeError, "returns float64 for some inputs, and float32 for zeros: it must always return numbers of one"),
        ("text", DtypeError, "returns <U4 for some inputs"),
        (10**400, DtypeError, "returns object for some inputs"),
        (np.complex64(1), DtypeError, "returns complex64 for some inputs"),
        (None, DtypeError, "returns object for some inputs"),
        ([[1.0], [1.0, 2.0]], ShapeError, "returns a list, of which NumPy makes no array"),
    ],
)  # fmt: skip
def test_every_answer_is_of_one_shape_and_dtype(later: Any, error: type[Exception], why: str) -> None:
    with pytest.raises(error, match=why):
        tcu.reveal(lambda x: later if x.any() else x.sum(), 5, dtype="float32")


def test_a_seed_may_be_numpys() -> None:
    found = [tcu.reveal(np.sum, 5, seed=seed, outputs=20) for seed in (3, np.int64(3))]
    assert found[0] == found[1]


def test_a_revealed_plan_takes_no_unit(pairwise: Revealed) -> None:
    assert pairwise.plan is not None
    x = np.zeros(300, np.float32)
    with pytest.raises(
        ParameterError, match="unit='A100': this plan has its arithmetic in itself: leave unit out"
    ):
        predict(pairwise.plan, x, unit="a100")
    with pytest.raises(UnknownNameError, match="unknown unit 'FOO'"):
        predict(pairwise.plan, x, unit="FOO")


def test_what_a_plan_does_not_take(pairwise: Revealed) -> None:
    x = np.zeros(300, np.float32)
    with pytest.raises(ParameterError, match="the plan takes one array, not 2"):
        pairwise.predict(x, x)
    with pytest.raises(ParameterError, match="an array of float64: the plan takes float32"):
        pairwise.predict(x.astype(np.float64))
    with pytest.raises(ParameterError, match="the plan is no tree"):
        predict(make_plan(300, get_format("binary16"), get_unit("H100")), x)
    unsteady = tcu.reveal(SUMS["rounds at random"], 40, dtype="float32")
    for ask in (unsteady.predict, unsteady.bound):
        with pytest.raises(ParameterError, match=r"there is no plan of .* to"):
            ask(x)


def test_inputs_are_finite_and_of_every_exponent() -> None:
    """A sum that is wrong at one exponent only is asked about it."""
    box = black_box(np.sum, 20, "sum", "float32", None)
    x, _ = rows_of(box, np.random.default_rng(0), 5000)
    assert np.isfinite(x).all()
    assert format_of(x.dtype).name == "binary32"
    assert set(range(-149, 122)) <= set((np.frexp(x[x != 0])[1] - 1).tolist())
