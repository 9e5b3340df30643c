"""Contract of sums and means along axes: every element has the bits of its row summed alone.

The elements of several axes come in C order, whatever the order in which they
are named and whatever lies where in memory.  An empty row gives +0 and the
mean NaN, no rows give an empty array.  Short rows go through a shorter plan,
which must have the bits of the full one for every length.  Shapes are NumPy's.
"""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from bits import codes, same
from hypothesis import given, settings
from hypothesis import strategies as st
from variants_and_dtypes import every_pair, takes

import tcu
from tcu import ops
from tcu.errors import DtypeError, ParameterError
from tcu.formats import format_of, get_format
from tcu.model.elements import Elements
from tcu.model.execute import execute, run_steps
from tcu.model.rows import execute_rows
from tcu.ops import MEAN
from tcu.ops.layout import Along
from tcu.plan import VARIANTS, AddStep, make_plan, trimmed
from tcu.units import get_unit

DTYPES = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]
OPERATIONS = {"sum": tcu.sum, "mean": tcu.mean}

every_dtype = pytest.mark.parametrize("dtype", DTYPES)
every_variant = pytest.mark.parametrize("variant", VARIANTS)
both = pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)


def numbers(seed: int, shape: tuple[int, ...], dtype: Any, specials: float = 0.0) -> np.ndarray:
    """Numbers of many magnitudes; ``specials``: the share of ±0, ±inf and NaN."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape) * 2.0 ** rng.integers(-12, 5, shape)
    pool = rng.choice([0.0, -0.0, -0.0, -0.0, math.inf, -math.inf, math.nan, -math.nan], shape)
    return np.where(rng.random(shape) < specials, pool, x).astype(dtype)


def one_by_one(operation: Any, x: np.ndarray, axis: Any, **options: Any) -> np.ndarray:
    """The law, read literally."""
    named = range(x.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    axes = sorted(each % x.ndim for each in named)
    kept = [i for i in range(x.ndim) if i not in axes]
    rows = x.transpose(*kept, *axes)
    result = np.empty(rows.shape[: len(kept)], operation(np.zeros(1, x.dtype), **options).dtype)
    for where in np.ndindex(result.shape):
        result[where] = operation(np.ascontiguousarray(rows[where]), **options)
    return result


def check(operation: Any, x: np.ndarray, axis: Any, **options: Any) -> None:
    expected = one_by_one(operation, x, axis, **options)
    result = operation(x, axis, **options)
    assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
    wrong = np.argwhere(codes(result) != codes(expected))
    assert not len(wrong), f"at {wrong[0]}: {result[tuple(wrong[0])]!r}, alone {expected[tuple(wrong[0])]!r}"
    kept = operation(x, axis=axis, keepdims=True, **options)
    assert kept.shape == np.sum(np.zeros(x.shape), axis=axis, keepdims=True).shape
    assert np.array_equal(codes(kept).ravel(), codes(expected).ravel())


# The law.


@st.composite
def problems(draw: st.DrawFn) -> tuple[np.ndarray, Any, dict[str, Any], Any]:
    dtype = draw(st.sampled_from(DTYPES))
    shape = tuple(draw(st.lists(st.sampled_from([0, 1, 2, 3, 5, 16, 17, 33, 70]), min_size=1, max_size=4)))
    while math.prod(shape) > 20_000:
        shape = shape[1:]
    axis = draw(st.none() | st.integers(-len(shape), len(shape) - 1) | st.permutations(range(len(shape))).flatmap(
        lambda order: st.integers(0, len(order)).map(lambda count: tuple(order[:count]))
    ))  # fmt: skip
    if axis is None and draw(st.booleans()):
        axis = tuple(range(len(shape)))
    x = numbers(draw(st.integers(0, 99)), shape, dtype, draw(st.sampled_from([0.0, 0.01, 0.9])))
    layout = draw(st.sampled_from(["C", "F", "reversed", "spread", "swapped", "unaligned"]))
    if layout == "F":
        x = np.asfortranarray(x)
    elif layout == "reversed":
        x = x[::-1]
    elif layout == "spread":
        wide = np.zeros((*shape[:-1], 2 * shape[-1]), dtype)
        wide[..., ::2] = x
        x = wide[..., ::2]
    elif layout == "swapped" and dtype != ml_dtypes.bfloat16:
        x = x.astype(x.dtype.newbyteorder(">"))
    elif layout == "unaligned":
        raw = np.zeros(x.nbytes + 1, np.uint8)
        raw[1:] = np.frombuffer(x.tobytes(), np.uint8)
        x = raw[1:].view(dtype).reshape(shape)
    variant = draw(st.sampled_from([name for name in VARIANTS if takes(name, dtype)]))
    options: dict[str, Any] = {"variant": variant, "unit": draw(st.sampled_from(["A100", "H100"]))}
    longest = VARIANTS[variant].longest_chain(format_of(x.dtype))
    options["chain"] = draw(st.none() | st.integers(1, min(longest, 6)))
    options["block"] = draw(st.sampled_from([None, 32, 96, 1024]))
    options["dtype"] = draw(st.sampled_from([None, *DTYPES]))
    if variant == "split":
        options["fraction"] = draw(st.sampled_from([None, 0.0, 0.3, 1.0]))
    return x, axis, options, draw(st.sampled_from(list(OPERATIONS.values())))


@pytest.mark.slow
@settings(max_examples=150)
@given(problems())
def test_every_element_is_its_row_s_sum(problem: Any) -> None:
    x, axis, options, operation = problem
    if math.prod(x.shape) > 3000:
        x = x[..., :3]
    check(operation, x, axis, **options)


@every_dtype
@pytest.mark.parametrize(
    "n", [1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 128, 255, 256, 257, 300, 1023, 1025, 2049]
)
def test_borders_of_the_tiles(dtype: Any, n: int) -> None:
    x = numbers(n, (9, n), dtype, 0.002)
    check(tcu.sum, x, -1)
    check(tcu.sum, np.ascontiguousarray(x.T), 0)


def test_one_wrong_bit_in_one_row_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*arguments: Any) -> Any:
        totals = execute_rows(*arguments)
        totals[-1] = np.nextafter(np.float32(totals[-1]), np.float32(np.inf))
        return totals

    monkeypatch.setattr("tcu.engines.host.planned.execute_rows", wrong)
    with pytest.raises(AssertionError, match=r"at \[8\]: .*, alone"):
        check(tcu.sum, numbers(1, (9, 20), np.float16), 1)


@both
def test_long_rows_go_one_after_another(operation: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x = numbers(3, (3, 5, 700), np.float16)
    monkeypatch.setattr("tcu.engines.host.planned._LONG", 600)
    for each in (x, x.transpose(1, 0, 2), np.asfortranarray(x)):
        check(operation, each, 2)
        check(operation, each, (0, 2))


def test_rows_of_a_million_elements() -> None:
    x = numbers(4, (2, 1_000_003), np.float16)
    check(tcu.sum, x, 1)


def test_pieces_and_threads_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    x = numbers(5, (7, 11, 13, 20), np.float16)
    for axis in (0, 1, 3, (1, 3), (0, 2)):
        expected = tcu.sum(x, axis)
        for piece, threads in ((1, "1"), (700, "3"), (40_000, "2")):
            monkeypatch.setattr("tcu.engines.host.planned._PIECE", piece)
            monkeypatch.setenv("TCU_NUM_THREADS", threads)
            same(tcu.sum(x, axis), expected)
        monkeypatch.undo()


def test_memory_mapped_files(tmp_path: Any) -> None:
    x = numbers(6, (50, 60), np.float32)
    np.save(tmp_path / "x.npy", x)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    for axis in (0, 1):
        same(tcu.sum(mapped, axis), one_by_one(tcu.sum, x, axis))


def test_bfloat16_results_are_rounded_once() -> None:
    """2^-8 + 2^-40 is above the tie at 1 that binary32 would round it to."""
    x = np.array([[1.0, 2.0**-8, 2.0**-40]] * 3)
    assert (tcu.sum(x, axis=1, dtype="bfloat16") == ml_dtypes.bfloat16(1.0078125)).all()
    check(tcu.sum, x, 1, dtype="bfloat16")


# Shorter plans.


@pytest.mark.some(3)
@pytest.mark.slow
@every_dtype
def test_the_shorter_plan_has_the_bits_of_the_full_one(dtype: Any) -> None:
    unit, fmt = (
        get_unit("H100"),
        get_format({"float16": "binary16"}.get(np.dtype(dtype).name, np.dtype(dtype).name)),
    )
    plain, special = numbers(1, (5001,), dtype), numbers(2, (5001,), dtype, 1.0)
    minus = np.full(5001, -0.0, dtype)
    for n in range(5001):
        plan = make_plan(n, fmt, unit)
        short = trimmed(plan)
        for x in (plain,) if n % 8 else (plain, special, minus):
            expected = execute(plan, Elements(x[:n]), unit)
            for result in (execute(short, Elements(x[:n]), unit), execute_rows(plan, x[None, :n], unit)[0]):
                assert np.float64(result).tobytes() == np.float64(expected).tobytes() or (
                    math.isnan(result) and math.isnan(expected)
                ), f"n = {n}"


@pytest.mark.slow(5)
@every_pair(DTYPES)
def test_every_variant_has_a_shorter_plan_with_its_bits(dtype: Any, variant: str) -> None:
    fmt, unit = format_of(np.dtype(dtype)), get_unit("A100")
    x = numbers(7, (3000,), dtype)
    for n in [*range(70), *range(70, 3000, 97)]:
        plan = make_plan(n, fmt, unit, variant=variant)
        expected = execute(plan, Elements(x[:n]), unit)
        for result in (
            execute(trimmed(plan), Elements(x[:n]), unit),
            execute_rows(plan, x[None, :n], unit)[0],
        ):
            assert result == expected or math.isnan(result + expected), f"n = {n}"


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1 << 16, 100_001])
def test_chunks_are_added_together_as_their_steps_are_one_by_one(dtype: Any, n: int) -> None:
    x = numbers(3, (n,), dtype)
    plan = make_plan(n, format_of(np.dtype(dtype)), get_unit("H100"))
    total: Any = x
    for step in (*plan.parts[0].steps, *plan.final):
        total = run_steps(total, (step,), None)
    assert execute(plan, Elements(x)) == total[0] + 0.0


def test_a_shorter_plan_adds_no_padding() -> None:
    plan = trimmed(make_plan(1024, get_format("binary16"), get_unit("H100"), variant="short-chain"))
    assert plan.parts[0].steps[1:] == (AddStep("binary64", "tree", 16), AddStep("binary64", "tree", 4))
    assert plan.final == ()
    long = make_plan(10**7, get_format("binary16"), get_unit("H100"))
    assert trimmed(long).parts == long.parts


# Borders of shapes.


@both
@every_variant
def test_empty_rows_and_no_rows(operation: Any, variant: str) -> None:
    for dtype in DTYPES:
        if not takes(variant, dtype):
            continue
        empty = operation(np.zeros((4, 0, 3), dtype), axis=1, variant=variant)
        assert empty.shape == (4, 3)
        assert np.isnan(empty).all() if operation is tcu.mean else not codes(empty).any()
        none = operation(np.zeros((4, 0, 3), dtype), axis=2, variant=variant, keepdims=True)
        assert (none.shape, none.dtype.itemsize) == ((4, 0, 1), max(4, np.dtype(dtype).itemsize))
        assert operation(np.zeros((0, 0), dtype), axis=0).shape == (0,)


@both
def test_zeros_are_positive_and_nan_has_all_bits(operation: Any) -> None:
    for dtype in DTYPES:
        x = np.array(
            [[-0.0, -0.0], [-1.0, 1.0], [math.nan, 1.0], [math.inf, -math.inf], [-math.inf, 1]], dtype
        )
        for target in DTYPES:
            result = operation(x, axis=1, dtype=target)
            assert codes(result).tolist()[:2] == [0, 0]
            assert codes(result).tolist()[2:4] == [format_of(result.dtype).nan_code] * 2
            assert float(result[4]) == -math.inf


def test_all_axes_give_a_scalar() -> None:
    x = numbers(8, (3, 4), np.float32)
    for axis in (None, (0, 1), (1, 0), (-1, -2)):
        result = tcu.sum(x, axis=axis)
        assert type(result) is np.float32
        assert result == tcu.sum(x)
    assert tcu.sum(x, keepdims=True).shape == (1, 1)
    assert type(tcu.sum(np.float32(2.5), axis=())) is np.float32
    assert np.array_equal(tcu.sum(x, axis=()), x)


def test_lists_and_scalars() -> None:
    assert tcu.sum([[1.0, 2.0], [3.0, 4.0]], axis=0).tolist() == [4.0, 6.0]
    assert tcu.mean([[1.0, 2.0], [3.0, 4.0]], axis=[1]).tolist() == [1.5, 3.5]
    assert tcu.sum([[1.0, 2.0]], axis=np.int64(1)).tolist() == [3.0]


# Errors.


@both
@pytest.mark.parametrize(
    ("axis", "message"),
    [
        (2, "axis 2 of an array with 2 axes: choose -2 to 1"),
        (-3, "axis -3 of an array with 2 axes: choose -2 to 1"),
        ((0, 5), "axis 5 of an array with 2 axes"),
        ((0, -2), r"\(0, -2\) has axis 0 more than once: name each axis once"),
        (1.0, r"axis=1\.0: give a whole number, a tuple of them, or None"),
        (True, "axis=True: give a whole number"),
        (np.array([0, 1]), r"axis=array\(\[0, 1\]\): give a whole number"),
        (np.array(True), r"axis=array\(True\): give a whole number"),
        ("rows", "axis='rows': give a whole number"),
    ],
)
def test_axes_that_are_not_there(operation: Any, axis: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        operation(np.zeros((3, 4), np.float16), axis=axis)


def test_a_scalar_has_no_axes() -> None:
    with pytest.raises(ParameterError, match="axis 0 of an array with 0 axes: leave axis out"):
        tcu.sum(2.5, axis=0)


def test_arrays_and_options_that_are_refused_without_axis_are_refused_with_it() -> None:
    with pytest.raises(DtypeError, match="x has dtype complex128"):
        tcu.sum(np.zeros((2, 2), np.complex128), axis=0)
    with pytest.raises(ParameterError, match="chain"):
        tcu.sum(np.zeros((2, 0), np.float32), axis=1, chain=4)
    with pytest.raises(DtypeError, match="V100 has no MMA bfloat16"):
        tcu.sum(np.zeros((2, 3), ml_dtypes.bfloat16), axis=1, unit="V100", variant="short-chain")


# out and details.


@both
def test_out_takes_the_result(operation: Any) -> None:
    x = numbers(9, (4, 5, 6), np.float16)
    for keepdims in (False, True):
        expected = operation(x, axis=1, keepdims=keepdims, dtype=np.float64)
        for out in (
            np.empty(expected.shape),
            np.asfortranarray(np.empty(expected.shape)),
            np.empty(expected.shape)[::-1],
        ):
            assert operation(x, axis=1, keepdims=keepdims, out=out) is out
            assert np.array_equal(out, expected)
    out = np.empty((), np.float32)
    assert operation(x, axis=(0, 1, 2), out=out) is out
    assert out == operation(x)


def test_an_out_that_is_read_only() -> None:
    out = np.empty(2, np.float32)
    out.flags.writeable = False
    with pytest.raises(ParameterError, match="out is read-only"):
        tcu.sum(np.ones((2, 3), np.float32), axis=1, out=out)


def test_an_out_that_does_not_fit() -> None:
    x = np.ones((4, 5), np.float16)
    for out, message in (
        (np.empty(5), r"out has shape \(5,\), the result shape \(4,\): give numpy\.empty\(\(4,\), dtype\)"),
        (np.empty((4, 1)), r"out has shape \(4, 1\), the result shape \(4,\)"),
        ([0.0] * 4, r"out is a list, the result shape \(4,\)"),
        (np.lib.stride_tricks.as_strided(np.empty(1), (4,), (0,)), "out has several elements in one place"),
    ):
        with pytest.raises(ParameterError, match=message):
            tcu.sum(x, axis=1, out=out)
    with pytest.raises(ParameterError, match="out has dtype float64, the result float32"):
        tcu.sum(x, axis=1, out=np.empty(4), dtype=np.float32)
    with pytest.raises(DtypeError, match="a result is rounded to"):
        tcu.sum(x, axis=1, out=np.empty(4, np.int64))


def test_details_are_those_of_one_row() -> None:
    x = np.ones((6, 300), np.float16)
    result, info = tcu.sum(x, axis=1, return_info=True)
    alone = tcu.sum(x[0], return_info=True)[1]
    assert result.tolist() == [300] * 6
    assert (info.plan, info.levels, info.modelled_time) == (alone.plan, alone.levels, alone.modelled_time)
    assert (info.rows, info.mmas, info.bits) == (6, 6 * alone.mmas, None)
    assert (alone.rows, alone.bits) == (1, 0x43960000)
    mean, info = tcu.mean(x, axis=(0, 1), return_info=True)
    assert (mean, info.rows, info.bits) == (1, 1, 0x3F800000)


def test_an_array_on_a_gpu_goes_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a GPU that only takes notes."""
    from tcu.engines.cuda import rows as device_rows
    from tcu.engines.cuda import sums as device_sums

    asked: list[Any] = []
    done: list[int] = []
    plan = make_plan(4, get_format("binary16"), get_unit("H200"))

    def reduce(*arguments: Any) -> Any:
        asked.append(arguments)
        return "sums", plan

    monkeypatch.setattr("tcu.engines.choice.lives_on_gpu", lambda x: True)
    monkeypatch.setattr(device_sums, "home_of", lambda arrays: (None, 2))
    found = {2: SimpleNamespace(unit=get_unit("H200"))}
    monkeypatch.setattr("tcu.engines.cuda.engine.find_gpu", found.__getitem__)
    monkeypatch.setattr(device_rows, "reduce", reduce)
    x = np.zeros((3, 2, 2), np.float16)
    assert tcu.mean(x, (-1, 1), keepdims=True, block=64, out="place", progress=done.append) == "sums"
    request, given, axes, keepdims, out, keep = asked[0]
    assert (request.operation, request.block, keep) == (MEAN, 64, None)
    assert (given[0] is x, axes, keepdims, out, done) == (True, (1, 2), True, "place", [12])
    result, info = tcu.sum(x, axis=0, return_info=True)
    assert (result, info.unit, info.plan, info.rows, info.bits) == ("sums", "H200", plan, 4, None)
    with pytest.raises(ParameterError, match="axis 3 of an array with 3 axes"):
        tcu.sum(x, axis=3)


def test_progress_counts_every_element() -> None:
    for shape, axis in (((300, 5000), 1), ((3, 300_000), 1), ((0, 7), 1)):
        done: list[int] = []
        tcu.sum(np.ones(shape, np.float16), axis=axis, progress=done.append)
        assert sum(done) == math.prod(shape)


@pytest.mark.slow
@settings(max_examples=2000, deadline=None)
@given(st.floats(width=32), st.floats(width=32), st.integers(-40, 40))
def test_a_sum_of_two_of_binary32_may_be_rounded_twice(x: float, y: float, shift: int) -> None:
    """By which the GPU adds what a short row comes to in binary32, where the plan says binary64 and then binary32."""
    with np.errstate(all="ignore"):
        a, b = np.float32(x), np.float32(y)
        for second in (b, np.ldexp(a, shift) * np.float32(0.75), -np.nextafter(a, b)):
            once = a + np.float32(second)
            twice = np.float32(np.float64(a) + np.float64(second))
            assert once.view(np.uint32) == twice.view(np.uint32) or (np.isnan(once) and np.isnan(twice))


@pytest.mark.parametrize("name", [each.name for each in ops.OPERATIONS.values() if Along in each.layouts])
def test_dim_and_keepdim_are_pytorchs_names_of_axis_and_keepdims(name: str) -> None:
    function, x = getattr(tcu, name), np.arange(12.0, dtype=np.float32).reshape(3, 4)
    arrays = [x for _ in ops.OPERATIONS[name].operands]
    keep = {"keepdims": True} if ops.OPERATIONS[name].kind == "reduce" else {}
    expected = function(*arrays, axis=1, **keep)
    assert np.array_equal(function(*arrays, dim=1, **({"keepdim": True} if keep else {})), expected)
    with pytest.raises(ParameterError, match="axis=0 and dim=1: give one of them"):
        function(*arrays, axis=0, dim=1)
    with pytest.raises(ParameterError, match=r"^dim=1\.5: give a whole number"):
        function(*arrays, dim=1.5)
    if not keep:
        with pytest.raises(ParameterError, match=r"^dim=\(0, 1\): give a whole number"):
            function(*arrays, dim=(0, 1))
