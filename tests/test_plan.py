"""Contract of the plans: every element once, in a stated order, whoever executes.

A slow interpreter (literal_plan.py) reads plans literally (one definition call per dot
product, one rounded addition at a time) and the executor must return its
bits.  Counts and modelled times are the papers'.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from literal_plan import interpret
from variants_and_dtypes import takes

import tcu
from tcu.errors import DtypeError, ParameterError, UnknownNameError
from tcu.formats import decode, encode, format_of, get_format
from tcu.model import execute
from tcu.plan import (
    VARIANTS,
    FmaStep,
    MmaStep,
    granularity,
    make_dot_plan,
    make_plan,
    modelled_time,
    output_length,
    plan_error_bound,
    tile_order,
)
from tcu.units import get_unit

DTYPES = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]


CASES = [
    pytest.param(unit, dtype, variant, chain, block, n, id=f"{unit}-{np.dtype(dtype)}-{variant}-R{chain}-B{block}-{n}")
    for seed, (variant, row) in enumerate(VARIANTS.items())
    for dtype in DTYPES
    if takes(variant, dtype)
    for unit, chain, block, n in (
        ("V100", row.chain, 64, 1), ("H100", row.chain, 32, 3000), ("A100", 3, 96, 2579 + seed),
        ("B200", 1, row.block, 700), ("T4", 2, 128, 257),
    )
]  # fmt: skip


@pytest.mark.some(95)
@pytest.mark.slow(15)
@pytest.mark.parametrize(("unit", "dtype", "variant", "chain", "block", "n"), CASES)
def test_the_executor_returns_the_bits_of_a_literal_reading(unit, dtype, variant, chain, block, n) -> None:
    rng = np.random.default_rng(n + block)
    x = (rng.standard_normal(n) * 2.0 ** rng.integers(-3, 4, n)).astype(dtype)
    if chain is not None:
        chain = min(chain, VARIANTS[variant].longest_chain(format_of(x.dtype)))
    options = {"unit": unit, "variant": variant, "chain": chain, "block": block}
    try:
        result, info = tcu.sum(x, **options, return_info=True)
    except DtypeError:
        assert unit in ("V100", "T4")
        return
    fmt = format_of(x.dtype)
    expected = interpret(info.plan, x.view(fmt.code_dtype).tolist(), unit)
    target = format_of(np.asarray(result).dtype)
    assert info.bits == encode(decode(expected, info.plan.result), target)


@pytest.mark.slow(1)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_few_numbers_have_the_same_bits_once_a_kernel_adds_them(dtype, monkeypatch) -> None:
    """NumPy adds few numbers until the kernel of many was used; whether an array may be written to does not matter."""
    rng = np.random.default_rng(7)
    lines = []
    for n in (0, 1, 2, 7, 100, 1000, 1023, 1024, 1025, 4097, 30_000):
        x = (rng.standard_normal(n) * 10.0 ** rng.integers(-20, 20, n)).astype(dtype)
        x.setflags(write=bool(n % 2))
        lines += [x, x[::-1]]
    specials = np.array([np.inf, 1, -np.inf, np.nan, -0.0, -0.0], dtype)
    lines += [specials[:2], specials[:3], specials[2:4], specials[4:]]

    def sums() -> list[bytes]:
        found = [tcu.sum(x, variant=variant) for x in lines for variant in ("binary64", "short-chain")]
        return [each.tobytes() for each in found]

    monkeypatch.setattr(execute, "_used", set())
    by_numpy = sums()
    assert not execute._used
    tcu.sum(np.ones(1 << 17, dtype))
    assert execute._used == {np.dtype(dtype)}
    assert sums() == by_numpy


DOT_CASES = [
    pytest.param(dtype, block, n, family, id=f"{np.dtype(dtype)}-B{block}-{n}-{family}")
    for dtype in DTYPES
    for block, n in ((32, 1), (32, 700), (64, 1500), (96, 5000))
    for family in ("ordinary", "wide", "cancelling", "special")
]


def pairs_of(family: str, dtype: Any, n: int) -> tuple[Any, Any]:
    """Arrays whose products round, underflow, cancel, or are inf and NaN."""
    rng = np.random.default_rng(n)
    fmt = format_of(dtype)
    with np.errstate(all="ignore"):  # overflow to inf, signalling NaN
        x, y = (rng.standard_normal(n).astype(dtype) for _ in range(2))
        if family == "wide":
            spread = min(fmt.emax, 540)
            x, y = (
                (v.astype(float) * 2.0 ** rng.integers(-spread, spread // 8, n)).astype(dtype) for v in (x, y)
            )
        elif family == "cancelling":
            half = n // 2
            x[half : 2 * half], y[half : 2 * half] = (
                x[:half],
                -np.nextafter(y[:half].astype(np.float32), 9).astype(dtype),
            )
        elif family == "special":
            codes = rng.integers(0, 1 << fmt.bits, (2, n), dtype=np.uint64).astype(fmt.code_dtype)
            x, y = codes.view(dtype)
            if n % 3:  # without NaN, so that inf can show
                x, y = (np.where(np.isnan(v), np.array(-0.0, dtype), v) for v in (x, y))
    return x, y


def check_dot(x: Any, y: Any, block: int) -> None:
    fmt = format_of(x.dtype)
    result, info = tcu.dot(x, y, block=block, dtype="float64", return_info=True)
    assert info.plan == make_dot_plan(x.size, fmt, block)
    pairs = list(zip(x.view(fmt.code_dtype).tolist(), y.view(fmt.code_dtype).tolist(), strict=True))
    expected = interpret(info.plan, pairs, "H100")
    if np.isnan(result):
        assert decode(expected, "binary64").kind == "nan"
        expected = get_format("binary64").nan_code
    assert info.bits == expected, f"{info.bits:#x}, not {expected:#x}"


@pytest.mark.some(30)
@pytest.mark.slow(5)
@pytest.mark.parametrize(("dtype", "block", "n", "family"), DOT_CASES)
def test_a_dot_product_has_the_bits_of_a_literal_reading(dtype, block: int, n: int, family: str) -> None:
    check_dot(*pairs_of(family, dtype, n), block)


def test_a_product_that_rounds_before_the_addition_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    from tcu.model import kernels

    def unfused(x, y, half, length, sums) -> None:
        products = (x * y).reshape(sums.shape[0], length, sums.shape[1])
        sums[:] = np.add.accumulate(products, axis=1)[:, -1]

    x, y = pairs_of("cancelling", np.float64, 5000)
    check_dot(x, y, 64)
    monkeypatch.setattr(kernels, "fma_groups", unfused)
    with pytest.raises(AssertionError, match="not 0x"):
        check_dot(x, y, 64)


@given(st.integers(0, 50_000), st.sampled_from(DTYPES), st.integers(1, 32))
def test_every_pair_of_a_dot_product_is_used_exactly_once(n, dtype, warps) -> None:
    plan = make_dot_plan(n, format_of(dtype), 32 * warps)
    assert sum(part.stop - part.start for part in plan.parts) == n
    steps = list(plan.lengths())
    assert [isinstance(step, FmaStep) for step, _ in steps] == [True, *[False] * (len(steps) - 1)][
        : len(steps)
    ]
    if n:
        assert output_length(*steps[-1]) == 1
        assert all(step.length is None or step.length > 1 for step, _ in steps)


def test_a_dot_product_continues_as_the_sum_in_binary64() -> None:
    """From the accumulators on the plan is that of the sum of a float64 array with as many of them."""
    double = get_format("binary64")
    for n in (1, 5000, 1 << 24):
        dot, total = make_dot_plan(n, double, 128), make_plan(n, double, get_unit("H100"), block=128)
        assert dot.parts[0].steps[1:] == total.parts[0].steps[1:]
        assert dot.final == total.final
        first, second = dot.parts[0].steps[0], total.parts[0].steps[0]
        assert (first.length, first.inner) == (second.length, second.inner)


@given(
    st.integers(0, 5000), st.sampled_from(list(VARIANTS)), st.integers(1, 7), st.integers(1, 8),
    st.sampled_from(DTYPES), st.floats(0, 1),
)  # fmt: skip
def test_every_element_is_used_exactly_once(n, variant, chain, warps, dtype, fraction) -> None:
    row = VARIANTS[variant]
    if not takes(variant, dtype):
        dtype = np.float16
    plan = make_plan(
        n, format_of(dtype), get_unit("H100"), variant=variant, chain=min(chain, row.longest_chain(format_of(dtype))),
        block=32 * warps, fraction=fraction if variant == "split" else None,
    )  # fmt: skip
    assert [part.start for part in plan.parts] == [0, *(part.stop for part in plan.parts[:-1])][
        : len(plan.parts)
    ]
    assert sum(part.stop - part.start for part in plan.parts) == n
    for step, _ in plan.lengths():
        if isinstance(step, MmaStep):
            taken = sorted(offset for line in tile_order(step) for offset in line)
            assert taken == list(range(step.group))
        assert isinstance(step, MmaStep) or step.length is None or step.length > 1
    lengths = list(plan.lengths())
    if n:
        assert output_length(*lengths[-1]) == 1


def test_fragment_order_is_that_of_the_ptx_isa() -> None:
    """mma.m16n8k16, operand A: register i of thread 4g + t (PTX ISA, matrix fragments)."""
    step = MmaStep((16, 8, 16), "binary16", "binary32", 16, 1, "fragment")
    order = np.array(tile_order(step))  # [k, row]
    for lane in range(32):
        g, t = lane // 4, lane % 4
        for i in range(8):
            row = g if i < 2 or 4 <= i < 6 else g + 8
            column = t * 2 + (i & 1) + (8 if i >= 4 else 0)
            assert order[column, row] == 8 * lane + i


def test_one_block_never_adds_up_more_than_8192_chunks() -> None:
    for fmt in map(format_of, DTYPES):
        for n in (1, 1 << 20, (1 << 27) - 1, 1 << 27, (1 << 31) + 1, 1 << 40):
            for plan in (make_plan(n, fmt, get_unit("H100")), make_dot_plan(n, fmt)):
                assert -(-n // granularity(plan.parts[0].steps)) <= 8192


def test_counts_of_the_papers() -> None:
    """R + 1 MMAs for R m² numbers (paper 000, 4.3), two for m² (paper 001, IV)."""
    f16, h100 = get_format("binary16"), get_unit("H100")
    for chain in (1, 4, 5):
        plan = make_plan(chain * 256, f16, h100, variant="single-pass", chain=chain)
        assert plan.mmas == chain + 1
    assert make_plan(256, f16, h100, variant="two-mma").mmas == 2
    assert make_plan(256**2, f16, h100, variant="two-mma").mmas == 2 * 257
    assert make_plan(10**6, f16, h100, variant="warp-shuffle").mmas == 0
    assert make_plan(1, f16, h100, variant="recurrence").mmas == 6


def test_modelled_times_of_the_papers() -> None:
    time = modelled_time(256**3, chain=1, m=16)
    assert time.two_mma == pytest.approx(15)  # 5 log_{m²} n
    assert time.chained == pytest.approx(15)  # R = 1 is the two-MMA algorithm
    assert time.classic == pytest.approx(4 * 24)  # 4 log2 n
    assert time.speedup_two_mma == pytest.approx(time.classic / time.two_mma) == pytest.approx(6.4)
    assert modelled_time(100, m=4).speedup_two_mma == pytest.approx(3.2)  # paper 001, V
    chained = modelled_time(10**9, chain=4, m=4)
    assert chained.chained == pytest.approx(11 * math.log(10**9) / math.log(64))
    assert chained.speedup_chained == pytest.approx(chained.classic / chained.chained)
    assert modelled_time(1).classic == modelled_time(0).two_mma == 0


def test_granularity_is_what_the_steps_reduce_on_their_own() -> None:
    h100, f16 = get_unit("H100"), get_format("binary16")
    single_pass = make_plan(10**6, f16, h100, variant="single-pass", chain=4, block=128)
    assert granularity(single_pass.parts[0].steps) == 4 * 256 * 4
    assert granularity(make_plan(10**6, f16, h100).parts[0].steps) == 16384


def test_a_plan_prints_its_steps() -> None:
    text = str(make_plan(10**5, get_format("binary16"), get_unit("V100"), variant="split"))
    for words in (
        "split, version 2: 100000 binary16 numbers",
        "elements 0 to",
        "m16n16k16",
        "tree binary32",
        "tree binary32 additions of 32 numbers",
    ):
        assert words in text
    atomic = make_plan(10**5, get_format("binary16"), get_unit("V100"), variant="split-atomic")
    assert "atomic binary32 additions of all numbers, in any order" in str(atomic)
    assert not atomic.reproducible


def test_a_dot_plan_prints_its_steps() -> None:
    text = str(make_dot_plan(10**5, get_format("binary16")))
    assert "dot: 100000 binary16 numbers, 0 MMAs" in text
    assert "sequential binary64 FMAs of 8 pairs at stride 2048" in text


def test_a_plan_does_not_depend_on_the_unit_where_the_unit_can_execute_it() -> None:
    f16 = get_format("binary16")
    for variant in VARIANTS:
        plans = {
            make_plan(12345, f16, get_unit(unit), variant=variant)
            for unit in ("V100", "A100", "H100", "B200")
        }
        assert len(plans) == 1


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"variant": "singlepass"}, UnknownNameError, ["'singlepass'", "did you mean single-pass"]),
        ({"variant": "two-mma", "chain": 2}, ParameterError, ["chain (R) = 2", "two-mma chains no MMAs"]),
        ({"chain": 2}, ParameterError, ["chain (R) = 2", "binary64 chains no MMAs"]),
        ({"variant": "short-chain", "chain": 0}, ParameterError, ["chain (R) = 0", "1 to 1024"]),
        ({"variant": "short-chain", "chain": 2.5}, ParameterError, ["2.5", "whole number"]),
        ({"variant": "short-chain", "chain": True}, ParameterError, ["True"]),
        ({"block": 16}, ParameterError, ["block (B) = 16", "32 to 1024"]),
        ({"block": 48}, ParameterError, ["48", "multiple of 32"]),
        ({"block": 2048}, ParameterError, ["2048"]),
        ({"fraction": 0.5}, ParameterError, ["only the variant split"]),
        ({"variant": "split", "fraction": 1.5}, ParameterError, ["fraction=1.5", "0 to 1"]),
        ({"accumulator": "float16"}, ParameterError, ["binary64 has its own"]),
        ({"variant": "short-chain", "accumulator": "float16"}, ParameterError, ["short-chain has its own"]),
        ({"variant": "single-pass", "accumulator": "float128"}, DtypeError, ["float128"]),
        (
            {"variant": "single-pass", "accumulator": "float64"},
            DtypeError,
            ["binary16 → binary64", "warp-shuffle"],
        ),
    ],
)
def test_errors_say_what_was_given_and_the_next_step(options, error, words) -> None:
    with pytest.raises(error) as caught:
        tcu.sum(np.ones(10, np.float16), **options)
    for word in words:
        assert word in str(caught.value)


def test_a_unit_without_the_mma_is_named() -> None:
    with pytest.raises(DtypeError, match=r"V100 has no MMA tf32 → binary32.*astype\('float16'\)"):
        tcu.sum(np.ones(10, np.float32), unit="V100", variant="single-pass")
    with pytest.raises(DtypeError, match="V100 has no MMA bfloat16"):
        tcu.sum(np.ones(10, ml_dtypes.bfloat16), unit="V100", variant="short-chain")


def test_the_bound_of_nothing_is_nothing_and_of_an_overflow_infinite() -> None:
    plan = make_plan(10**6, get_format("binary16"), get_unit("H100"), variant="recurrence")
    single = get_format("binary32")
    assert plan_error_bound(plan, get_unit("H100"), 0.0, 0.0, single, 0.0) == 0
    assert plan_error_bound(plan, get_unit("H100"), 1e9, 1e3, single, 1e9) == math.inf
    assert Fraction(plan_error_bound(plan, get_unit("H100"), 1.0, 1e-6, single, 1.0)) > 0
