"""Contract of ``tcu.matmul`` on the host: the bits of its plan, taken literally from the definition, for every format
and unit; rows and columns whose bits their neighbours do not change; the shapes of ``numpy.matmul``; one rounding to
each dtype; scales and bias in the order that the plan says; an error that names the next step for what cannot be; and
``tcu.matmul_error_bound``, which holds.

tests/test_torch_products.py and tests/test_dask_products.py ask the same of tensors and Dask arrays.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from bits import codes, same
from rationals import exact_dot

import tcu
from tcu.engines.host.matmul import as_read
from tcu.errors import DtypeError, ParameterError, ShapeError, UnknownNameError
from tcu.formats import Number, decode, encode, get_format
from tcu.model.definition import dot
from tcu.plan import MatmulPlan, make_matmul_plan
from tcu.probes import inputs
from tcu.units import AlignedSum, FusedChain, Instruction, Unit, find_instruction, product_instruction

RNG = np.random.default_rng(31)
FLOATS = ("binary16", "bfloat16", "binary32", "e4m3", "e5m2", "binary64")
PAIRS = [*((name, name) for name in FLOATS), *itertools.product(("u8", "s8"), repeat=2)]
UNITS = ("V100", "T4", "A100", "Ada", "H100", "B200")
BFLOAT16, E4M3 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn


def served() -> list[tuple[str, str, str]]:
    """(unit, format of a, format of b) of all that multiply."""
    found = []
    for unit, (a, b) in itertools.product(UNITS, PAIRS):
        plan = make_matmul_plan(1, a, b)
        try:
            product_instruction(unit, *plan.operands, plan.accumulator)
        except DtypeError:
            continue
        found.append((unit, a, b))
    return found


def drawn(name: str, shape: tuple[int, ...], mode: str = "normal") -> npt.NDArray[Any]:
    """Numbers of a format: normal, uniform, or any bit patterns by the modes of tcu.probes."""
    fmt = get_format(name)
    if not fmt.is_float or mode not in ("normal", "uniform"):
        return inputs.codes(RNG, fmt, shape, mode).view(fmt.dtype)
    values = RNG.standard_normal(shape) if mode == "normal" else RNG.random(shape)
    with np.errstate(over="ignore"):
        return values.astype(np.float32).astype(fmt.dtype) if fmt.bits < 64 else values


# The plan, taken literally.


def literally(
    plan: MatmulPlan,
    row: Instruction,
    a: Sequence[Any],
    b: Sequence[Any],
    factors: Sequence[Any] = (None, None, None),
) -> int:
    """The code of one number of the result, by the definition of an MMA and of a rounding."""
    left, right = (_operand_codes(x, name, plan) for x, name in zip((a, b), plan.inputs, strict=True))
    wide = get_format(plan.outside)
    total: int | None = None
    for start in range(0, plan.k, plan.chunk):
        stop = start + plan.chunk
        code = dot(left[start:stop], right[start:stop], 0, row)
        if plan.accumulator == "binary16":
            code = encode(decode(code, "binary16"), wide)
        total = code if total is None else _add(total, code, wide)
    total = total or 0
    held = get_format(plan.accumulator)
    if held.name == "binary16":
        held = wide
    if any(factor is not None for factor in factors):
        if held.name == "s32":
            total = encode(decode(total, "s32"), wide)
        for scale in factors[:2]:
            if scale is not None:
                total = _multiply(total, _code(scale, wide), wide)
        if factors[2] is not None:
            total = _add(total, _code(factors[2], wide), wide)
        held = wide
    target = get_format(plan.result)
    if target.name == held.name:
        return (
            _one_nan(total, target)
            if target.name != "binary64" or any(f is not None for f in factors)
            else total
        )
    return _one_nan(encode(decode(total, held), target), target)


def _operand_codes(x: Sequence[Any], name: str, plan: MatmulPlan) -> list[int]:
    words = [int(code) for code in codes(np.asarray(x))]
    if name != "binary32":
        return words
    if plan.rounding == "cut":
        return [word >> 13 for word in words]
    tf32 = get_format("tf32")
    return [_one_nan(encode(decode(word, "binary32"), tf32), tf32) for word in words]


def _code(value: Any, fmt: Any) -> int:
    return encode(Number.of(float(value)), fmt)


def _one_nan(code: int, fmt: Any) -> int:
    return fmt.nan_code if decode(code, fmt).kind == "nan" else code


def _ieee(operation: str, x: int, y: int, fmt: Any) -> int:
    """By the machine's binary32 or binary64, which rounds to nearest; one NaN."""
    p, q = (np.array(code, fmt.code_dtype).view(fmt.dtype) for code in (x, y))
    with np.errstate(all="ignore"):
        result = np.add(p, q) if operation == "+" else np.multiply(p, q)
    return _one_nan(int(result.view(fmt.code_dtype)), fmt)


def _add(x: int, y: int, fmt: Any) -> int:
    return _ieee("+", x, y, fmt)


def _multiply(x: int, y: int, fmt: Any) -> int:
    return _ieee("*", x, y, fmt)


def check(
    a: Any, b: Any, unit: str | Unit = "H100", factors: Sequence[Any] = (None, None, None), **options: Any
) -> None:
    """Every number of a·b against the definition."""
    formats = tcu.formats.format_of(a.dtype).name, tcu.formats.format_of(b.dtype).name
    order = options.get("plan", "chunks")
    dtype = options.get("dtype")
    plan = make_matmul_plan(
        a.shape[1], *formats, order=order, rounding=options.get("rounding", "nearest"),
        accumulator=options.get("accumulator"), result=None if dtype is None else get_format(dtype).name,
    )  # fmt: skip
    row = product_instruction(unit, *plan.operands, plan.accumulator)
    names = dict(zip(("scale_a", "scale_b", "bias"), factors, strict=True))
    found = tcu.matmul(a, b, unit=unit, **names, **options)
    assert found.dtype == get_format(plan.result).dtype
    for i, j in np.ndindex(found.shape):
        of_one = [f if f is None or not np.ndim(f) else f[i if n == 0 else j] for n, f in enumerate(factors)]
        expected = literally(plan, row, a[i], b[:, j], of_one)
        assert int(codes(found)[i, j]) == expected, (unit, formats, options, i, j)


@pytest.mark.slow(6)
@pytest.mark.parametrize(("unit", "a", "b"), served())
def test_every_format_on_every_unit_by_the_definition(unit: str, a: str, b: str) -> None:
    for mode in ("normal", "bits", "wide", "binade", "zero", "overflow"):
        k = int(RNG.choice([5, 128, 300, 389]))
        x, y = drawn(a, (2, k), mode), drawn(b, (k, 2), mode)
        check(x, y, unit)
        check(x, y, unit, plan="chain")


@pytest.mark.parametrize("unit", ["H100", "A100", "Ada"])
def test_chains_in_binary16_are_added_up_in_binary32(unit: str) -> None:
    for mode in ("normal", "wide", "overflow"):
        x, y = drawn("binary16", (2, 600), mode), drawn("binary16", (600, 2), mode)
        check(x, y, unit, accumulator="float16")
        check(x, y, unit, accumulator="float16", dtype="float32")
    x, y = drawn("e4m3", (2, 300)), drawn("e4m3", (300, 2))
    if unit != "A100":
        check(x, y, unit, accumulator="binary16")


@pytest.mark.slow(2)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("name", ["binary16", "binary32", "e5m2", "s8", "binary64"])
def test_scales_bias_and_one_rounding_by_the_definition(name: str, dtype: str) -> None:
    k = 270
    x, y = drawn(name, (3, k)), drawn(name, (k, 2))
    rows, columns, bias = RNG.standard_normal(3), RNG.standard_normal(2), RNG.standard_normal(2) * 1000
    wide = np.float64 if name == "binary64" else np.float32
    rows, columns, bias = (v.astype(wide) for v in (rows, columns, bias))
    check(x, y, dtype=dtype)
    check(x, y, dtype=dtype, factors=(rows, columns, bias))
    check(x, y, dtype=dtype, factors=(None, columns[0], None))
    check(x, y, dtype=dtype, factors=(rows, None, bias[1]))
    check(x, y, dtype=dtype, factors=(np.array(1e30, wide), np.array(1e30, wide), np.array(-np.inf, wide)))


def test_a_unit_of_ones_own_whose_sums_are_wide() -> None:
    arithmetic = AlignedSum(block=8, fraction_bits=30, rounding="RNE")
    row = Instruction("mma", "binary16", "binary16", "binary32", (16, 8, 16), arithmetic, ())
    chains = (
        FusedChain(rounded_products=True),
        FusedChain(lanes=2, late_c=True, flush_inputs=True, flush_outputs=True, nan_rule="x86"),
        FusedChain((*range(1, 16), 0), True, "RO", group=2, flush_outputs=True, nan_rule="arm"),
    )
    for each in (row, *(replace(row, arithmetic=chain) for chain in chains)):
        unit = Unit("mine", "a chip on paper", "none", "-", (each,))
        for mode in ("normal", "bits", "wide"):
            check(drawn("binary16", (2, 300), mode), drawn("binary16", (300, 2), mode), unit)


def test_float32_is_rounded_to_tf32_as_the_formats_round() -> None:
    words = np.concatenate([
        RNG.integers(0, 1 << 32, 3000, dtype=np.uint64).astype(np.uint32),
        (RNG.integers(0, 1 << 19, 1000) << 13 | RNG.choice([0, 1, 0xFFF, 0x1000, 0x1001, 0x1FFF], 1000)).astype(np.uint32),
        np.array([0x7F7FFFFF, 0x7F7FF000, 0x7F7FEFFF, 0x7F800000, 0x7F800001, 0xFF800001, 0x7FC00000, 0x80000000, 0x00001000], np.uint32),
    ])  # fmt: skip
    plan = make_matmul_plan(1, "binary32", "binary32")
    found = as_read(words.view(np.float32), plan).view(np.uint32)
    assert [int(word) >> 13 for word in found] == _operand_codes(words.view(np.float32), "binary32", plan)
    cut = as_read(words.view(np.float32), replace(plan, rounding="cut")).view(np.uint32)
    assert ((cut >> 13) == (words >> 13)).all()


# Laws.


def test_one_chain_is_the_mma_of_the_unit() -> None:
    for name, instruction in (
        ("binary16", "wgmma"),
        ("bfloat16", "wgmma"),
        ("e4m3", "wgmma"),
        ("binary64", "mma"),
    ):
        a, b = drawn(name, (70, 700)), drawn(name, (700, 40))
        same(tcu.matmul(a, b, plan="chain"), tcu.mma(a, b, instruction=instruction), name)
    a, b = drawn("binary32", (30, 300)), drawn("binary32", (300, 30))
    same(tcu.matmul(a, b, plan="chain", rounding="cut"), tcu.mma(a, b))
    same(tcu.matmul(a, b, plan="chain", unit="A100", rounding="cut"), tcu.mma(a, b, unit="A100"))
    same(
        tcu.matmul(a, b, plan="chain", unit="B200", rounding="cut"),
        tcu.mma(a, b, unit="B200", instruction="tcgen05"),
    )


@pytest.mark.slow(3)
@pytest.mark.parametrize("name", FLOATS)
def test_rows_have_the_same_bits_alone_and_in_every_batch(name: str) -> None:
    a, b = drawn(name, (2, 67, 523)), drawn(name, (523, 131))
    whole = tcu.matmul(a, b)
    same(tcu.matmul(a[1], b), whole[1])
    same(tcu.matmul(a[1, 5], b), whole[1, 5])
    same(tcu.matmul(a[0, 3:5], b), whole[0, 3:5])
    same(tcu.matmul(a[0], b[:, 17]), whole[0, :, 17])
    same(tcu.matmul(a[0, 66], b[:, 130]), whole[0, 66, 130])
    same(tcu.matmul(a[:, 9:40], b[:, 30:99]), whole[:, 9:40, 30:99])


def test_threads_leave_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = drawn("binary16", (3, 200, 800)), drawn("binary16", (800, 260))
    whole = tcu.matmul(a, b, dtype="bfloat16")
    for count in ("1", "3"):
        monkeypatch.setenv("TCU_NUM_THREADS", count)
        same(tcu.matmul(a, b, dtype="bfloat16"), whole)


@pytest.mark.parametrize("name", ["binary16", "binary32", "binary64", "s8"])
def test_operands_of_any_strides(name: str) -> None:
    a, b = drawn(name, (40, 300)), drawn(name, (300, 50))
    whole = tcu.matmul(a, b)
    same(tcu.matmul(np.asfortranarray(a), np.ascontiguousarray(b.T).T), whole)
    wide = np.repeat(np.repeat(a, 2, 0), 3, 1)
    same(tcu.matmul(wide[::2, ::3], b), whole)
    same(tcu.matmul(a[::-1], b[:, ::-1]), whole[::-1, ::-1])
    same(tcu.matmul(a.astype(a.dtype.newbyteorder(">")), b), whole)
    same(tcu.matmul(np.broadcast_to(a, (3, 40, 300)), b), np.broadcast_to(whole, (3, 40, 50)).copy())
    shifted = np.frombuffer(b"\0" + a.tobytes(), np.uint8)[1:].view(a.dtype).reshape(a.shape)
    same(tcu.matmul(shifted, b), whole)


SHAPES = [
    ((3, 4), (4, 5)), ((4,), (4, 5)), ((3, 4), (4,)), ((4,), (4,)), ((2, 3, 4), (4, 5)), ((3, 4), (2, 4, 5)),
    ((2, 1, 3, 4), (1, 6, 4, 5)), ((7, 2, 3, 4), (2, 4, 5)), ((2, 3, 4), (4,)), ((4,), (2, 4, 5)), ((0, 4), (4, 5)),
    ((3, 0), (0, 5)), ((3, 4), (4, 0)), ((0,), (0,)), ((2, 0, 3, 4), (4, 5)), ((1, 3, 4), (0, 4, 5)), ((2, 3, 0), (2, 0, 1)),
]  # fmt: skip


@pytest.mark.parametrize(("a", "b"), SHAPES)
def test_shapes_are_those_of_numpy(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    x, y = (RNG.integers(-3, 4, shape).astype(np.float16) for shape in (a, b))
    expected = np.matmul(x.astype(np.float32), y.astype(np.float32))
    same(tcu.matmul(x, y), np.asarray(expected) if expected.ndim else expected[()])
    integers = tcu.matmul(x.astype(np.int8), y.astype(np.int8))
    assert (integers == expected).all()
    assert integers.dtype == np.int32


def test_without_k_the_result_is_zero_and_still_scaled_and_shifted() -> None:
    a, b = np.empty((2, 0), np.float16), np.empty((0, 3), np.float16)
    same(tcu.matmul(a, b), np.zeros((2, 3), np.float32))
    same(tcu.matmul(a, b, scale_a=2.0, bias=[1.0, 2.0, 3.0]), np.array([[1, 2, 3]] * 2, np.float32))
    same(tcu.matmul(a, b, bias=[1.0, 2.0, 3.0], dtype="bfloat16"), np.array([[1, 2, 3]] * 2, BFLOAT16))


def test_integers_wrap_and_are_rounded_once() -> None:
    a, b = np.full((1, 40000), 255, np.uint8), np.full((40000, 1), 255, np.uint8)
    exact = 255 * 255 * 40000
    assert tcu.matmul(a, b)[0, 0] == exact - (1 << 32)
    x = np.array([[127, 127, 3]], np.int8)
    y = np.array(
        [[127], [127], [1]], np.int8
    )  # 32261: between two of binary16, above the middle of two of bfloat16
    assert tcu.matmul(x, y, dtype="float16")[0, 0] == np.float64(32261).astype(np.float16)
    assert int(codes(tcu.matmul(x, y, dtype="bfloat16"))[0, 0]) == encode(Number.of(32261), "bfloat16")
    assert tcu.matmul(x, y, dtype=np.int32).dtype == np.int32


def test_with_scales_or_a_bias_integers_become_float32() -> None:
    x = np.array([[3]], np.int8)
    for options in ({"scale_a": 0.9}, {"scale_b": 0.9}, {"bias": 0.75}, {"bias": 3e9}):
        same(tcu.matmul(x, x, **options), tcu.matmul(x, x, dtype="float32", **options))
        with pytest.raises(
            DtypeError, match="dtype=int32: with scales or a bias, sums of integers become numbers of float32"
        ):
            tcu.matmul(x, x, dtype="int32", **options)
        with pytest.raises(DtypeError, match="dtype=int32: with scales or a bias"):
            tcu.matmul(x, x, out=np.empty((1, 1), np.int32), **options)
    exact = 9 * Fraction(0.9)
    error = abs(Fraction(float(tcu.matmul(x, x, scale_a=0.9)[0, 0])) - exact)
    assert (
        0
        < error
        <= Fraction(float(tcu.matmul_error_bound(x, x, scale_a=np.float64(0.9))[0, 0]))
        + 9 * Fraction(1, 2**25)
    )


def test_the_plan_depends_on_k_and_the_formats_alone() -> None:
    assert make_matmul_plan(4096, "f16", "f16") == MatmulPlan(
        4096, ("binary16", "binary16"), "nearest", "binary32", 256, "binary32"
    )
    chunks = {
        name: make_matmul_plan(5000, name, name).chunk for name in ("f16", "bf16", "f32", "e4m3", "e5m2")
    }
    assert chunks == {"f16": 256, "bf16": 256, "f32": 128, "e4m3": 128, "e5m2": 128}
    for name, options in (("f16", {"order": "chain"}), ("f64", {}), ("s8", {})):
        plan = make_matmul_plan(5000, name, name, **options)
        assert (plan.chains, plan.chunk) == (1, 5120)
    empty = make_matmul_plan(0, "u8", "s8")
    assert (empty.chains, empty.operands, empty.outside) == (0, ("u8", "s8"), "binary32")
    assert "16 chains of MMAs from zero, 256 of K each, in binary32\nsequential" in str(
        make_matmul_plan(4096, "f16", "f16")
    )
    assert "tf32 (cut)" in str(make_matmul_plan(4, "f32", "f32", rounding="cut"))


def test_the_instruction_is_the_widest_that_the_unit_has() -> None:
    assert product_instruction("H100", "binary16", "binary16", "binary32").name == "wgmma"
    assert product_instruction("B200", "e4m3", "e4m3", "binary32").name == "tcgen05"
    assert product_instruction("A100", "binary16", "binary16", "binary32").name == "mma"
    assert product_instruction("H100", "binary64", "binary64", "binary64").name == "mma"


# Outputs.


def test_out_takes_the_result_and_may_be_an_operand() -> None:
    a, b = drawn("binary16", (30, 30)), drawn("binary16", (30, 30))
    expected = tcu.matmul(a, b, dtype="float16")
    out = np.empty((30, 30), np.float32)
    assert tcu.matmul(a, b, out=out) is out
    same(out, tcu.matmul(a, b))
    turned = np.empty((30, 30), np.float16).T
    same(tcu.matmul(a, b, out=turned), expected)
    assert tcu.matmul(a, b, out=a) is a  # which overlaps
    same(a, expected)
    place = np.empty((), np.float32)
    assert tcu.matmul(b[0], b[:, 0], out=place) is place


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (
            np.empty((3, 3), np.float32),
            r"out has shape \(3, 3\), the result shape \(2, 3\): give numpy.empty",
        ),
        (np.empty((2, 3), np.int32), r"dtype=dtype\('int32'\): a result is rounded to float16"),
        ([0.0], r"out is a list, the result shape \(2, 3\)"),
        (np.broadcast_to(np.float32(0), (2, 3)), "out is read-only"),
        (
            np.lib.stride_tricks.as_strided(np.zeros(3, np.float32), (2, 3), (0, 4)),
            "several elements in one place",
        ),
    ],
)
def test_an_out_that_cannot_take_the_result(out: Any, message: str) -> None:
    with pytest.raises((ParameterError, DtypeError), match=message):
        tcu.matmul(np.ones((2, 4), np.float16), np.ones((4, 3), np.float16), out=out)


def test_an_out_of_another_dtype_than_asked_for() -> None:
    with pytest.raises(
        ParameterError, match="out has dtype float32, the result float16: give them the same dtype"
    ):
        tcu.matmul(np.ones((2, 4)), np.ones((4, 3)), dtype="float16", out=np.empty((2, 3), np.float32))


# Errors.

ONES, HALF = np.ones((2, 3)), np.ones((2, 3), np.float16)


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: tcu.matmul(ONES, ONES), ShapeError, r"a \(2, 3\), b \(2, 3\): a needs as many columns as b has rows"),
        (lambda: tcu.matmul(ONES[0], ONES[:, 0]), ShapeError, r"a \(3,\), b \(2,\): a needs as many columns"),
        (lambda: tcu.matmul(2.0, ONES), ShapeError, r"a is a number: give a vector or a matrix, or multiply by \*"),
        (lambda: tcu.matmul(np.ones((2, 3, 4)), np.ones((3, 4, 5))), ShapeError, "the batch dimensions"),
        (lambda: tcu.matmul(HALF, HALF.T.astype(BFLOAT16)), DtypeError, "does not compute binary16 · bfloat16 → binary32; it"),
        (lambda: tcu.matmul(HALF.astype(BFLOAT16), HALF.T.astype(BFLOAT16), unit="V100"), DtypeError, "V100 does not compute bf"),
        (lambda: tcu.matmul(np.ones((2, 2), int), np.ones((2, 2), int)), DtypeError, r"no tensor-core format has dtype int64: convert the array first, for example with x\.astype\('float64'\), or 'int8' where"),
        (lambda: tcu.matmul(ONES > 0, ONES.T > 0), DtypeError, r"dtype bool: convert .* x\.astype\('float64'\), or 'int8'"),
        (lambda: tcu.matmul(ONES * 1j, ONES.T), DtypeError, r"dtype complex128: make a product of x\.real and x\.imag, as a\.real·b\.real - a\.imag·b\.imag and"),
        (lambda: tcu.matmul(HALF, HALF.T, unit="AMX"), UnknownNameError, "AMX has no product that tcu.matmul uses, only tdpbf16ps, .*, which tcu.mma takes: give a unit with an mma, V100, T4, A100"),
        (lambda: tcu.matmul(HALF, HALF.T, unit="arm-bf16"), UnknownNameError, "Arm-BF16 has no product that tcu.matmul uses, only bfmmla, bfdot"),
        (lambda: tcu.matmul(HALF, HALF.T, unit="AVX512-VNNI"), UnknownNameError, "AVX512-VNNI has no product that tcu.matmul uses"),
        (lambda: tcu.matmul(np.ones((2, 2), np.int32), np.ones((2, 2), np.int32)), DtypeError, "does not compute s32 · s32"),
        (lambda: tcu.matmul(np.ma.ones((2, 2)), np.ones((2, 2))), DtypeError, "a is a masked array"),
        (lambda: tcu.matmul(ONES, ONES.T, plan="split"), ParameterError, "order of additions 'split': choose 'chunks', or 'chain'"),
        (lambda: tcu.plan.make_matmul_plan(-1, "float16", "float16"), ParameterError, "k=-1: a sum has a whole number of products"),
        (lambda: tcu.plan.make_matmul_plan(True, "float16", "float16"), ParameterError, "k=True: a sum has a whole number"),
        (lambda: tcu.plan.make_matmul_plan(2.0, "float16", "float16"), ParameterError, "k=2.0: a sum has a whole number"),  # type: ignore[arg-type]
        (lambda: tcu.matmul(ONES, ONES.T, rounding="up"), ParameterError, "rounding='up': choose 'nearest' or 'cut'"),
        (lambda: tcu.matmul(ONES, ONES.T, accumulator="f16"), DtypeError, "accumulator='f16': products of binary64 are added up in bin"),
        (lambda: tcu.matmul(ONES, ONES.T, accumulator="f17"), UnknownNameError, "unknown format 'f17'"),
        (lambda: tcu.matmul(ONES, ONES.T, unit="H101"), UnknownNameError, "unknown unit 'H101'"),
        (lambda: tcu.matmul(ONES, ONES.T, dtype="int8"), DtypeError, "dtype='int8': a result is rounded to float16"),
        (lambda: tcu.matmul(ONES, ONES.T, dtype="int32"), DtypeError, "dtype='int32': a result is rounded to float16"),
        (lambda: tcu.matmul(ONES, ONES.T, scale_a=ONES[0]), ShapeError, r"scale_a has shape \(3,\): give one number, or a vector of one for each row, 2"),
        (lambda: tcu.matmul(ONES, ONES.T, bias=ONES), ShapeError, r"bias has shape \(2, 3\): .* one for each column, 2"),
        (lambda: tcu.matmul(ONES, ONES.T, scale_b=np.ones(2, np.int8)), DtypeError, "scale_b has dtype int8: give a floating-point"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_said(call: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        call()


# The error.


def exact_product(a: Any, b: Any) -> list[list[Fraction | None]]:
    """None where inf or NaN takes part."""
    rows, columns = (np.isfinite(x.astype(np.float64)).all(axis) for x, axis in ((a, 1), (b, 0)))
    return [
        [exact_dot(a[i], b[:, j]) if rows[i] and columns[j] else None for j in range(b.shape[1])]
        for i in range(a.shape[0])
    ]


def errors(found: Any, exact: Any, factors: Sequence[Any] = (None, None, None)) -> npt.NDArray[np.float64]:
    """|found - exact|, inf where found is not finite, NaN where nothing exact is."""
    lost = np.full(found.shape, np.inf)
    for i, j in np.ndindex(found.shape):
        value = exact[i][j]
        if value is None:
            lost[i, j] = np.nan
        elif np.isfinite(float(found[i, j])):
            for n, f in enumerate(factors):
                if f is not None:
                    number = Fraction(float(f[i if n == 0 else j]))
                    value = value + number if n == 2 else value * number
            lost[i, j] = float(abs(Fraction(float(found[i, j])) - value))
    return lost


@pytest.mark.slow(4)
@pytest.mark.parametrize(("unit", "a", "b"), served())
def test_the_bound_holds(unit: str, a: str, b: str) -> None:
    for mode, k in itertools.product(("normal", "uniform", "binade", "zero", "wide"), (1, 100, 1000)):
        x, y = drawn(a, (2, k), mode), drawn(b, (k, 2), mode)
        exact = None
        factors = [RNG.standard_normal(2).astype(np.float32) for _ in range(3)]
        for plan, dtype, given in (
            ("chunks", None, (None, None, None)), ("chain", None, (None, None, None)),
            ("chunks", "bfloat16", (None, None, None)), ("chunks", "float32", factors),
        ):  # fmt: skip
            options = {"plan": plan, "dtype": dtype, "unit": unit}
            options |= dict(zip(("scale_a", "scale_b", "bias"), given, strict=True))
            bound = tcu.matmul_error_bound(x, y, **options)
            proved = np.isfinite(bound)
            assert proved.all() or (mode not in ("normal", "uniform")), (mode, k, options)
            if proved.any():
                exact = exact or exact_product(x, y)
                lost = errors(tcu.matmul(x, y, **options), exact, given)
                assert (lost[proved] <= bound[proved]).all(), (mode, k, options)


@pytest.mark.parametrize("rounding", ["nearest", "cut"])
def test_the_bound_counts_what_tf32_loses(rounding: Any) -> None:
    a, b = drawn("binary32", (2, 500)), drawn("binary32", (500, 2))
    bound = tcu.matmul_error_bound(a, b, rounding=rounding)
    lost = errors(tcu.matmul(a, b, rounding=rounding), exact_product(a, b))
    assert (lost <= bound).all()
    short = as_read(a, make_matmul_plan(1, "f32", "f32")), as_read(b, make_matmul_plan(1, "f32", "f32"))
    assert (tcu.matmul_error_bound(*short, rounding=rounding) < bound / 2).all()


@pytest.mark.parametrize("name", ["binary16", "binary32", "e4m3"])
@pytest.mark.parametrize("mode", ["normal", "uniform"])
def test_chunks_lose_less_than_one_chain(name: str, mode: str) -> None:
    for k in (1 << 10, 1 << 13, 1 << 16):
        a, b = drawn(name, (8, k), mode), drawn(name, (k, 8), mode)
        if name == "binary32":
            a, b = (as_read(x, make_matmul_plan(1, "f32", "f32")) for x in (a, b))
        exact = a.astype(np.float64) @ b.astype(np.float64)
        lost = [
            np.abs(tcu.matmul(a, b, plan=plan).astype(np.float64) - exact) for plan in ("chunks", "chain")
        ]
        bounds = [tcu.matmul_error_bound(a, b, plan=plan) for plan in ("chunks", "chain")]
        assert np.sqrt((lost[0] ** 2).mean()) < np.sqrt((lost[1] ** 2).mean())
        assert (lost[0] <= bounds[0]).all()
        assert (lost[1] <= bounds[1]).all()
        assert (bounds[0] < bounds[1]).all()


def test_bounds_of_what_has_no_error_or_no_bound() -> None:
    zeros, ones = np.zeros((2, 300), np.float16), np.ones((300, 2), np.float16)
    assert (tcu.matmul_error_bound(zeros, ones) == 0).all()
    assert (tcu.matmul_error_bound(np.ones((2, 9), np.int8), np.ones((9, 2), np.uint8)) == 0).all()
    big = np.full((1, 40000), 255, np.uint8)
    assert np.isinf(tcu.matmul_error_bound(big, big.T)).all()
    large = np.full((1, 300), 6e4, np.float16)
    assert np.isinf(tcu.matmul_error_bound(large, large.T, accumulator="f16")).all()
    assert np.isinf(tcu.matmul_error_bound(large, large.T, dtype="f16")).all()
    assert np.isfinite(tcu.matmul_error_bound(large, large.T)).all()
    special = zeros.copy()
    special[0, 3] = np.inf
    assert np.isnan(tcu.matmul_error_bound(special, ones)).tolist() == [[True, True], [False, False]]
    edge = np.full((1, 1), 3.4028235e38, np.float32)  # which TF32 has no number for
    assert np.isinf(tcu.matmul_error_bound(edge, np.ones((1, 1), np.float32))).all()
    assert tcu.matmul_error_bound(np.ones(4), np.ones(4)).shape == ()


def test_a_row_of_the_catalogue_is_found_by_its_formats() -> None:
    assert find_instruction("H100", "wgmma", "tf32", "tf32").k == 8


def test_the_bound_holds_where_products_of_binary64_round_to_its_smallest_numbers() -> None:
    x, y = np.full((1, 3), 1.5 * 2.0**-537), np.array([[2.0**-537], [2.0**-537], [0.0]])
    exact = 3 * Fraction(2) ** -1074
    found, bound = tcu.matmul(x, y), tcu.matmul_error_bound(x, y)
    assert 0 < abs(Fraction(float(found[0, 0])) - exact) <= Fraction(float(bound[0, 0]))
    small = np.array([[1e-162, 0.0]])
    assert (
        tcu.matmul(small, small.T)[0, 0]
        == 0
        < Fraction(1e-162) ** 2
        <= Fraction(float(tcu.matmul_error_bound(small, small.T)[0, 0]))
    )
    assert tcu.matmul_error_bound(small, np.array([[0.0], [1.0]]))[0, 0] == 0
