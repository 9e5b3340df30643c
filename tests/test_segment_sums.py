"""Contract of sums and means of ragged segments: every element has the bits of its segment summed alone.

Whatever the lengths, the neighbours (inf and NaN stay in their segments), the
layout of x, the options, the pieces and the threads.  An empty segment gives
+0 and the mean NaN; segments joined are the segments of the joined data.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from bits import codes, same
from hypothesis import given, settings
from hypothesis import strategies as st
from numbers_of_all_kinds import draw
from variants_and_dtypes import takes

import tcu
from tcu.engines.host import planned
from tcu.errors import DtypeError, ParameterError, ShapeError
from tcu.formats import format_of
from tcu.model.rows import execute_rows
from tcu.ops import FSUM, MEAN
from tcu.plan import VARIANTS

DTYPES = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]
OPERATIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "sum": (tcu.segment_sum, tcu.sum), "mean": (tcu.segment_mean, tcu.mean),
}  # fmt: skip

both = pytest.mark.parametrize("name", OPERATIONS)
every_dtype = pytest.mark.parametrize("dtype", DTYPES)


def edges(lengths: Any) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def check(name: str, x: np.ndarray, offsets: np.ndarray, **options: Any) -> None:
    """The law, read literally."""
    function, alone = OPERATIONS[name]
    result = function(x, offsets, **options)
    expected = [alone(x[a:b], **options) for a, b in pairwise(offsets)]
    assert result.shape == (len(offsets) - 1,)
    for i, one in enumerate(expected):
        assert result.dtype == one.dtype
        assert codes(result[i]) == codes(one), (
            f"segment {i}, {offsets[i]} to {offsets[i + 1]}: {result[i]!r}, alone {one!r}"
        )


@st.composite
def problems(draw_: st.DrawFn) -> tuple[str, np.ndarray, np.ndarray, dict[str, Any]]:
    dtype = draw_(st.sampled_from(DTYPES))
    lengths = draw_(st.lists(st.sampled_from([0, 0, 1, 2, 7, 8, 9, 31, 32, 33, 100, 257, 600]), max_size=12))
    rng = np.random.default_rng(draw_(st.integers(0, 999)))
    offsets = edges(lengths)
    x = draw(rng, int(offsets[-1]), dtype)
    if draw_(st.booleans()):
        wide = np.zeros(2 * x.size, dtype)
        wide[::2] = x
        x = wide[::2]
    taking = [variant for variant in VARIANTS if takes(variant, dtype)]
    variant = draw_(st.sampled_from([*taking, "short-chain", "short-chain"]))
    longest = VARIANTS[variant].longest_chain(format_of(x.dtype))
    options: dict[str, Any] = {"variant": variant, "unit": draw_(st.sampled_from(["A100", "H100"]))}
    options["chain"] = draw_(st.none() | st.integers(1, min(longest, 5)))
    options["block"] = draw_(st.sampled_from([None, 32, 96]))
    options["dtype"] = draw_(st.sampled_from([None, *DTYPES]))
    return draw_(st.sampled_from(list(OPERATIONS))), x, offsets, options


@pytest.mark.slow
@settings(max_examples=120)
@given(problems())
def test_every_element_is_its_segment_s_sum(problem: Any) -> None:
    name, x, offsets, options = problem
    with np.errstate(all="ignore"):
        check(name, x, offsets, **options)


@pytest.mark.slow(1)
@every_dtype
def test_every_length(dtype: Any) -> None:
    """The padding to common widths changes no bits, for any length."""
    rng = np.random.default_rng(1)
    lengths = rng.permutation([*range(530), *range(530, 6000, 61)])
    offsets = edges(lengths)
    x = draw(rng, int(offsets[-1]), dtype, "scaled")
    with np.errstate(all="ignore"):
        check("sum", x, offsets)


def test_widths_are_few_and_hardly_longer() -> None:
    lengths = np.arange(1, 1 << 18, 7)
    widths = planned._rounded_up(lengths)
    assert (widths >= lengths).all()
    assert (widths <= np.maximum(lengths + 8, lengths * 1.125 + 1)).all()
    assert np.unique(widths).size < 150
    assert planned._rounded_up(np.array([0, 1, 8, 9])).tolist() == [0, 8, 8, 16]


def test_one_wrong_bit_in_one_segment_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*arguments: Any) -> Any:
        totals = execute_rows(*arguments)
        totals[-1] = np.nextafter(np.float32(totals[-1]), np.float32(np.inf))
        return totals

    monkeypatch.setattr("tcu.engines.host.planned.execute_rows", wrong)
    with pytest.raises(AssertionError, match=r"segment 2, 60 to 90: .*, alone"):
        check("sum", draw(np.random.default_rng(1), 90, np.float16, "normal"), edges([30, 30, 30]))


@both
def test_long_segments_pieces_and_threads(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    offsets = edges([5, 700, 0, 1300, 40, 2, 900, 12])
    x = draw(rng, int(offsets[-1]), np.float16, "normal")
    expected = OPERATIONS[name][0](x, offsets)
    for long, piece, threads in ((600, 1, "1"), (1 << 18, 700, "3"), (1, 1 << 18, "2")):
        monkeypatch.setattr("tcu.engines.host.planned._LONG", long)
        monkeypatch.setattr("tcu.engines.host.planned._PIECE", piece)
        monkeypatch.setenv("TCU_NUM_THREADS", threads)
        same(OPERATIONS[name][0](x, offsets), expected)


def test_a_segment_of_a_million() -> None:
    x = draw(np.random.default_rng(4), 1_200_000, np.float16, "normal")
    check("sum", x, np.array([0, 3, 1_100_000, 1_200_000]))


@both
def test_empty_segments_and_none(name: str) -> None:
    for dtype in DTYPES:
        result = OPERATIONS[name][0](np.ones(3, dtype), [0, 0, 3, 3])
        assert codes(result).tolist()[1] == codes(np.array([3 if name == "sum" else 1], result.dtype))[0]
        empty = codes(result).tolist()[::2]
        assert empty == [0, 0] if name == "sum" else [format_of(result.dtype).nan_code] * 2
        for x in (np.zeros(0, dtype), np.ones(0, dtype)):
            assert OPERATIONS[name][0](x, [0]).shape == (0,)
            assert OPERATIONS[name][0](x, [0, 0, 0]).shape == (2,)


def test_joined_segments_are_the_segments_of_the_joined_data() -> None:
    rng = np.random.default_rng(5)
    x, y = (draw(rng, 500, np.float16, "normal") for _ in range(2))
    a, b = edges([100, 0, 399, 1]), edges([250, 250])
    joined = tcu.segment_sum(np.concatenate([x, y]), np.concatenate([a, b[1:] + 500]))
    assert np.array_equal(joined, np.concatenate([tcu.segment_sum(x, a), tcu.segment_sum(y, b)]))


def test_rows_are_segments() -> None:
    x = draw(np.random.default_rng(6), 70 * 33, np.float32, "normal").reshape(70, 33)
    for name, (function, alone) in OPERATIONS.items():
        assert np.array_equal(function(x.reshape(-1), 33 * np.arange(71)), alone(x, axis=1)), name


def test_sums_of_whole_numbers_are_exact() -> None:
    rng = np.random.default_rng(7)
    offsets = edges(rng.geometric(1 / 50, 300))
    x = rng.integers(-8, 9, int(offsets[-1]))
    expected = np.add.reduceat(x, offsets[:-1])
    for dtype in DTYPES:
        assert np.array_equal(tcu.segment_sum(x.astype(dtype), offsets), expected)


def test_memory_mapped_files_and_foreign_byte_order(tmp_path: Any) -> None:
    x = draw(np.random.default_rng(8), 3000, np.float32, "normal")
    offsets = edges([1000, 0, 500, 1500])
    np.save(tmp_path / "x.npy", x)
    expected = tcu.segment_sum(x, offsets)
    assert np.array_equal(tcu.segment_sum(np.load(tmp_path / "x.npy", mmap_mode="r"), offsets), expected)
    assert np.array_equal(tcu.segment_sum(x.astype(">f4"), offsets), expected)


def test_means_that_underflow() -> None:
    x = np.array([-5e-324, 0, 0])
    assert not np.signbit(tcu.segment_mean(x, [0, 3])[0])
    check("mean", x, np.array([0, 3]))
    check("mean", np.array([-6e-8, 0, 0], np.float16), np.array([0, 3]), dtype="float16")


def test_out_takes_the_result() -> None:
    x = np.arange(10, dtype=np.float16)
    out = np.zeros(3)
    for function in (tcu.segment_sum, tcu.segment_mean, tcu.segment_fsum, tcu.segment_fmean):
        assert function(x, [0, 4, 4, 10], out=out) is out
        assert out[0] == (1.5 if "mean" in function.__name__ else 6)
    for wrong, message in (
        (np.zeros(4), r"out has shape \(4,\), the result shape \(3,\)"),
        ([0.0] * 3, "out is a list"),
    ):
        with pytest.raises(ParameterError, match=message):
            tcu.segment_sum(x, [0, 4, 4, 10], out=wrong)


@pytest.mark.parametrize(
    "function", [tcu.segment_sum, tcu.segment_mean, tcu.segment_fsum, tcu.segment_fmean], ids=lambda f: f.__name__
)  # fmt: skip
def test_what_is_refused(function: Any) -> None:
    x = np.ones(4, np.float16)
    for array, offsets, error, message in (
        (x.reshape(2, 2), [0, 4], ShapeError, r"x has shape \(2, 2\): segments are cut from one line"),
        (x, [0, 5], ParameterError, "offsets end at 5, and x has 4 elements"),
        (x, [0, 3, 2, 4], ParameterError, "offsets decrease from 3 to 2 at index 2"),
        (x, [0.0, 4.0], DtypeError, "offsets has dtype float64"),
        (x.astype(np.complex64), [0, 4], DtypeError, "x has dtype complex64"),
    ):
        with pytest.raises(error, match=message):
            function(array, offsets)
    with pytest.raises(DtypeError, match="a result is rounded to"):
        function(x, [0, 4], dtype="int32")


def test_options_are_looked_at_without_segments() -> None:
    with pytest.raises(ParameterError, match="chain"):
        tcu.segment_sum(np.zeros(0, np.float32), [0], chain=4)
    with pytest.raises(DtypeError, match="V100 has no MMA bfloat16"):
        tcu.segment_sum(np.ones(3, ml_dtypes.bfloat16), [0, 3], unit="V100", variant="short-chain")


def test_an_array_on_a_gpu_goes_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a GPU that only takes notes."""
    from tcu.engines.cuda import segments as device_segments

    asked: list[Any] = []
    monkeypatch.setattr(device_segments, "reduce", lambda *arguments: asked.append(arguments) or "sums")
    monkeypatch.setattr("tcu.engines.choice.lives_on_gpu", lambda x: True)
    x = np.zeros(4, np.float16)
    assert tcu.segment_mean(x, "offsets", block=64, out="place", check=False) == "sums"
    request, given, offsets, out, looked, keep = asked[0]
    assert (request.operation, request.block, keep) == (MEAN, 64, None)
    assert (given is x, offsets, out, looked) == (True, "offsets", "place", False)
    assert tcu.segment_fsum(x, "offsets", dtype="float64") == "sums"
    assert (asked[1][0].operation, asked[1][0].dtype, asked[1][4]) == (FSUM, "float64", True)
    with pytest.raises(ShapeError, match="segments are cut from one line"):
        tcu.segment_sum(x.reshape(2, 2), [0, 4])


def test_segments_of_one_number_are_the_numbers() -> None:
    x = draw(np.random.default_rng(9), 1000, np.float16, "normal")
    assert np.array_equal(tcu.segment_sum(x, np.arange(1001)), x.astype(np.float32))
