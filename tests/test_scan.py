"""Contract of running sums: the bits are those of the plan, read literally by tests/scan_definition.py.

Every row and every segment has the bits that it has alone; ``reverse`` is the
scan of the flipped numbers; the shapes are those of numpy.cumsum.  A sum of
zero is +0, every NaN has all fraction bits set, and inf and NaN touch nothing
that comes before them or lies in another row.  The error is bounded element by
element.  Neither threads nor pieces nor memory layouts change a bit.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from bits import codes, same
from hypothesis import given, settings
from hypothesis import strategies as st
from numbers_of_all_kinds import KINDS, draw
from rationals import in_units
from scan_definition import GROUP_BYTES, carries, codes_of, prefixes, run_length

import tcu
from tcu.errors import DtypeError, ParameterError, ShapeError
from tcu.formats import format_of, get_format
from tcu.model import scans
from tcu.plan import make_scan_plan

DTYPES = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]
DIRECTIONS = [(False, False), (True, False), (False, True), (True, True)]

every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
every_direction = pytest.mark.parametrize(("exclusive", "reverse"), DIRECTIONS)


def by_definition(x: Any, dtype: Any, exclusive: bool, reverse: bool) -> Any:
    dtype = np.dtype(dtype or (np.float32 if x.dtype.itemsize == 2 else x.dtype))
    return codes_of(prefixes(x, exclusive, reverse), dtype).view(dtype)


# The plan.


@pytest.mark.slow(2)
@every_dtype
@every_direction
def test_every_length_has_the_bits_of_the_plan(dtype: Any, exclusive: bool, reverse: bool) -> None:
    rng = np.random.default_rng(5)
    group = GROUP_BYTES // np.dtype(dtype).itemsize
    borders = [32 * group - 1, 32 * group, 32 * group + 1, 2048, 2049, 2303, 512 * group, 512 * group + 5]
    for case, n in enumerate([*range(1, 3 * group + 2), *borders]):
        x = draw(rng, n, dtype, list(KINDS)[case % len(KINDS)])
        target = DTYPES[case % 4]
        found = tcu.cumsum(x, exclusive=exclusive, reverse=reverse, dtype=target)
        same(found, by_definition(x, target, exclusive, reverse))


@pytest.mark.slow
@settings(max_examples=120)
@given(
    st.sampled_from(DTYPES), st.sampled_from([None, *DTYPES]), st.sampled_from(DIRECTIONS), st.integers(0, 3000),
    st.sampled_from(list(KINDS)), st.integers(0, 10**6),
)  # fmt: skip
def test_random_lines_have_the_bits_of_the_plan(
    dtype: Any, target: Any, direction: Any, n: int, kind: str, seed: int
) -> None:
    x = draw(np.random.default_rng(seed), n, dtype, kind)
    found = tcu.cumsum(x, exclusive=direction[0], reverse=direction[1], dtype=target)
    same(found, by_definition(x, target, *direction))


@pytest.mark.parametrize("threads", ["1", "3"])
@every_direction
def test_lines_of_many_pieces(
    exclusive: bool, reverse: bool, threads: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Longer than 32 pieces, so that all five levels carry something."""
    monkeypatch.setenv("TCU_NUM_THREADS", threads)
    n = 34 * scans.piece_length(get_format("binary64")) + 12345
    x = np.random.default_rng(2).standard_normal(n) * 2.0 ** np.arange(n % 40, n % 40 + n) ** 0.1
    plan = make_scan_plan(n, "binary64")
    assert plan.levels == 5
    found = tcu.cumsum(x, exclusive=exclusive, reverse=reverse)
    same(found, _by_arrays(x[::-1], exclusive)[::-1] if reverse else _by_arrays(x, exclusive))


def _by_arrays(x: Any, exclusive: bool) -> Any:
    """The definition again, for binary64 and all groups at once: Sklansky's network as it is drawn."""
    padded = np.concatenate([x, np.zeros(-x.size % 4)]).reshape(-1, 4)
    local = np.add.accumulate(padded, axis=1)
    vector, levels, repeats = local[:, -1], [], 1
    while vector.size > 1:
        size = run_length(len(levels) + 1)
        v = np.concatenate([vector, np.zeros(-vector.size % size)]).reshape(-1, size)
        for p in range(size.bit_length() - 1):
            upper = [j for j in range(size) if j >> p & 1]
            v[:, upper] = v[:, [((j >> p) << p) - 1 for j in upper]] + v[:, upper]
        exclusives = np.concatenate([np.zeros((len(v), 1)), v[:, :-1]], axis=1).reshape(-1)[: vector.size]
        levels.append(np.repeat(exclusives, repeats)[: len(local)])
        vector, repeats = v[:, -1], repeats * size
    c = np.zeros(len(local))
    for level in reversed(levels):
        c = c + level
    inclusive = c[:, None] + local
    result = np.concatenate([c[:, None], inclusive[:, :-1]], axis=1) if exclusive else inclusive
    return result.reshape(-1)[: x.size]


def test_both_definitions_agree() -> None:
    x = draw(np.random.default_rng(1), 5000, np.float64, "spread")
    for exclusive in (False, True):
        same(_by_arrays(x, exclusive) + 0.0, by_definition(x, np.float64, exclusive, False))


def test_one_wrong_bit_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    right = scans.scan_segments

    def wrong(x: Any, offsets: Any, out: Any, *rest: Any) -> float:
        total = right(x, offsets, out, *rest)
        out[-1] = np.nextafter(out[-1], np.float32(math.inf))
        return total

    monkeypatch.setattr(scans, "scan_segments", wrong)
    x = draw(np.random.default_rng(1), 100, np.float32, "normal")
    with pytest.raises(AssertionError, match=r"at \(99,\) .*; 1 of 100 differ"):
        same(tcu.cumsum(x), by_definition(x, None, False, False))


def test_the_plan_as_data() -> None:
    radices = (32, 16, 32, 32, 32)
    depths = (0, 6, 11, 17, 23, 29)  # of the networks and the carries
    for fmt, group in (("binary16", 16), ("bfloat16", 16), ("binary32", 8), ("binary64", 4)):
        for groups, levels in ((0, 0), (1, 0), (32, 1), (512, 2), (512 * 32, 3), (512 * 32**2, 4)):
            for n in (groups * group, groups * group + 1):
                plan = make_scan_plan(n, fmt)
                deep = levels + (n > 1 and n > groups * group)
                assert (plan.n, plan.group, plan.radices, plan.levels) == (n, group, radices[:deep], deep)
                assert plan.depth == max(min(n, group) - 1, 0) + depths[deep]
    assert str(make_scan_plan(1000, "f32")) == (
        "scan of 1,000 binary32: 125 groups of 8, 2 levels of radix 32 × 16, depth 18, in binary64"
    )
    assert str(make_scan_plan(5, "f64")).startswith("scan of 5 binary64: 2 groups of 4, 1 level of radix 32,")
    assert str(make_scan_plan(3, "f64")).startswith("scan of 3 binary64: 1 group of 4, 0 levels, depth 2,")


def test_pieces_of_long_lines_are_three_levels() -> None:
    for fmt, length in (("binary16", 1 << 18), ("binary32", 1 << 17), ("binary64", 1 << 16)):
        assert scans.piece_length(get_format(fmt)) == length


class Count(float):
    """The additions that a number went through; a plain 0.0 stands for nothing to add."""

    def __add__(self, other: float) -> Count:
        return Count(float(max(self, other)) + 1.0) if isinstance(other, Count) else self

    __radd__ = __add__


@every_dtype
def test_the_depth_is_the_most_additions_on_the_way(dtype: Any) -> None:
    width = GROUP_BYTES // np.dtype(dtype).itemsize
    full = (1, width, 31 * width, 32 * width, 512 * width)  # where the last group has everything before it
    for n in (*full, width + 1, 70 * width, 600 * width):
        local = [[Count(i) for i in range(min(width, n - at))] for at in range(0, n, width)]
        sums = [
            c + value
            for c, group in zip(carries([group[-1] for group in local]), local, strict=True)
            for value in group
        ]
        depth = make_scan_plan(n, format_of(dtype)).depth
        assert max(sums) <= depth
        assert max(sums) >= depth - (0 if n in full else 5)


# Rows and segments.


def one_by_one(x: Any, axis: int, **options: Any) -> Any:
    rows = np.moveaxis(x, axis, -1)
    result = np.empty(rows.shape, tcu.cumsum(np.zeros(1, x.dtype), **options).dtype)
    for where in np.ndindex(rows.shape[:-1]):
        result[where] = tcu.cumsum(np.ascontiguousarray(rows[where]), **options)
    return np.ascontiguousarray(np.moveaxis(result, -1, axis))


LAYOUTS = ("C", "F", "reversed", "spread", "swapped", "unaligned", "read-only")


def laid_out(x: Any, layout: str) -> Any:
    if layout == "F":
        return np.asfortranarray(x)
    if layout == "reversed":
        return np.ascontiguousarray(x[::-1])[::-1]
    if layout == "spread":
        wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)
        wide[..., ::2] = x
        return wide[..., ::2]
    if layout == "swapped" and x.dtype != ml_dtypes.bfloat16:
        return x.astype(x.dtype.newbyteorder(">"))
    if layout == "unaligned":
        raw = np.zeros(x.nbytes + 1, np.uint8)
        raw[1:] = np.frombuffer(x.tobytes(), np.uint8)
        return raw[1:].view(x.dtype).reshape(x.shape)
    if layout == "read-only":
        x = x.copy()
        x.flags.writeable = False
    return x


@st.composite
def problems(draw_from: st.DrawFn) -> tuple[Any, int, dict[str, Any], Any]:
    lengths = st.sampled_from([0, 1, 2, 3, 5, 16, 17, 33, 70, 300])
    shape = draw_from(st.lists(lengths, min_size=1, max_size=4))
    while math.prod(shape) > 5000:
        shape = shape[1:]
    dtype = draw_from(st.sampled_from(DTYPES))
    seed = draw_from(st.integers(0, 10**6))
    x = draw(np.random.default_rng(seed), math.prod(shape), dtype).reshape(shape)
    x = laid_out(x, draw_from(st.sampled_from(LAYOUTS)))
    axis = draw_from(st.integers(-len(shape), len(shape) - 1))
    exclusive, reverse = draw_from(st.sampled_from(DIRECTIONS))
    target = draw_from(st.sampled_from([None, *DTYPES]))
    out = draw_from(st.sampled_from([None, "C", "F", "reversed", "spread", "swapped", "unaligned"]))
    return x, axis, {"exclusive": exclusive, "reverse": reverse, "dtype": target}, out


@pytest.mark.slow
@settings(max_examples=120)
@given(problems())
def test_every_row_has_the_bits_that_it_has_alone(problem: Any) -> None:
    x, axis, options, layout = problem
    expected = one_by_one(x, axis, **options)
    assert expected.shape == np.cumsum(np.zeros(x.shape), axis).shape
    same(tcu.cumsum(x, axis, **options), expected)
    flat = tcu.cumsum(x, **options)
    same(flat, tcu.cumsum(np.ascontiguousarray(x).reshape(-1), **options))
    if layout is not None:
        out = laid_out(np.zeros(expected.shape, expected.dtype), layout)
        assert tcu.cumsum(x, axis, out=out, **options) is out
        same(out.astype(expected.dtype), expected)


def test_long_rows_and_pieces_and_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    x = draw(np.random.default_rng(3), 4 * 70_000, np.float64, "normal").reshape(2, 70_000, 2)
    expected = one_by_one(x, 1)
    short = one_by_one(x[:, :900], 0, reverse=True)
    for piece, workers in ((1, "1"), (700, "3"), (1 << 18, "2")):
        monkeypatch.setattr("tcu.engines.host.scans._PIECE", piece)
        monkeypatch.setenv("TCU_NUM_THREADS", workers)
        same(tcu.cumsum(x, 1), expected)
        same(tcu.cumsum(x[:, :900], 0, reverse=True), short)


@settings(max_examples=150)
@given(
    st.sampled_from(DTYPES), st.sampled_from([None, *DTYPES]), st.sampled_from(DIRECTIONS),
    st.lists(st.sampled_from([0, 0, 1, 4, 7, 8, 9, 100, 256, 257, 512, 1500, 2048]), max_size=40), st.integers(0, 10**6),
    st.sampled_from([np.int32, np.int64, list]),
)  # fmt: skip
def test_segments_are_rows_of_many_lengths(
    dtype: Any, target: Any, direction: Any, lengths: list[int], seed: int, kind: Any
) -> None:
    options: dict[str, Any] = {"exclusive": direction[0], "reverse": direction[1], "dtype": target}
    offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    x = draw(np.random.default_rng(seed), int(offsets[-1]), dtype)
    parts = [tcu.cumsum(x[a:b], **options) for a, b in itertools.pairwise(offsets)]
    expected = np.concatenate([tcu.cumsum(x[:0], **options), *parts])
    given_as = offsets.tolist() if kind is list else offsets.astype(kind)
    same(tcu.segment_cumsum(x, given_as, **options), expected)


def test_long_segments_among_short_ones() -> None:
    rng = np.random.default_rng(4)
    lengths = [3, 0, 65_536, 65_537, 1, 0, 300_000, 2, 65_535, 5, 0]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    x = rng.standard_normal(offsets[-1])
    for exclusive, reverse in DIRECTIONS:
        options: dict[str, Any] = {"exclusive": exclusive, "reverse": reverse}
        parts = [tcu.cumsum(x[a:b], **options) for a, b in itertools.pairwise(offsets)]
        same(tcu.segment_cumsum(x, offsets, **options), np.concatenate(parts))
        spread = laid_out(x, "spread")
        out = laid_out(np.zeros(x.size), "spread")
        assert tcu.segment_cumsum(spread, offsets, out=out, **options) is out
        same(np.ascontiguousarray(out), np.concatenate(parts))


def test_many_segments() -> None:
    x = np.ones(1_000_000, np.float16)
    ones = tcu.segment_cumsum(x, np.arange(x.size + 1))
    assert (ones == 1).all()
    empty = np.zeros(2_000_001, np.int32)
    empty[1_234_567:] = x.size
    same(tcu.segment_cumsum(x, empty), tcu.cumsum(x))
    assert tcu.segment_cumsum(x[:0], empty[:1000]).shape == (0,)


# Laws.


@every_dtype
def test_laws_on_whole_numbers(dtype: Any) -> None:
    """Sums that are exact in every order: up to 2048 in binary16."""
    x = np.random.default_rng(6).integers(-3, 4, 40_000).astype(dtype)
    sums = tcu.cumsum(x, dtype=np.float64)
    assert np.array_equal(np.diff(sums, prepend=0.0), x.astype(np.float64))
    assert np.array_equal(sums, np.cumsum(x.astype(np.int64)))
    before = tcu.cumsum(x, exclusive=True, dtype=np.float64)
    assert before[0] == 0
    assert np.array_equal(before + x.astype(np.float64), sums)
    after = tcu.cumsum(x, reverse=True, dtype=np.float64)
    assert np.array_equal(after + before, np.full(x.size, sums[-1]))
    left, right = tcu.cumsum(x[:12345], dtype=np.float64), tcu.cumsum(x[12345:], dtype=np.float64)
    assert np.array_equal(sums, np.concatenate([left, left[-1] + right]))
    same(
        tcu.segment_cumsum(x, [0, 12345, x.size]),
        np.concatenate([tcu.cumsum(x[:12345]), tcu.cumsum(x[12345:])]),
    )


@every_dtype
def test_laws_on_all_numbers(dtype: Any) -> None:
    rng = np.random.default_rng(7)
    for kind in KINDS:
        x = draw(rng, 3000, dtype, kind)
        sums = tcu.cumsum(x)
        same(tcu.cumsum(x, reverse=True), np.ascontiguousarray(tcu.cumsum(x[::-1])[::-1]))
        before = tcu.cumsum(x, exclusive=True)
        group = GROUP_BYTES // x.dtype.itemsize
        inside = np.arange(1, x.size) % group != 0  # elsewhere the carry has another order
        same(before[1:][inside], sums[:-1][inside])
        assert codes(before)[0] == 0
        # What comes later, inf and NaN included, leaves no trace.
        same(tcu.cumsum(x[:1111]), sums[:1111])


@every_dtype
def test_inf_and_nan_stay_where_they_belong(dtype: Any) -> None:
    for n in (1, 7, 40, 700):
        for at in {0, n // 2, n - 1}:
            for value in (math.inf, -math.inf, math.nan, -math.nan):
                x = np.ones(n, dtype)
                x[at] = value
                for target in DTYPES:
                    nan = format_of(target).nan_code
                    sums = tcu.cumsum(x, dtype=target)
                    assert np.isfinite(sums[:at].astype(np.float64)).all()
                    late = sums[at:].astype(np.float64)
                    if math.isnan(value):
                        assert (codes(sums)[at:] == nan).all()
                    else:
                        assert (late == value).all()
                    x2 = np.append(x, -np.array(value, dtype))
                    assert codes(tcu.cumsum(x2, dtype=target))[-1] == nan


@every_dtype
def test_zeros_are_positive(dtype: Any) -> None:
    for x in (np.full(1000, -0.0, dtype), np.array([-0.0], dtype), np.array([1, -1] * 300, dtype)):
        for exclusive, reverse in DIRECTIONS:
            sums = tcu.cumsum(x, exclusive=exclusive, reverse=reverse)
            assert not np.signbit(sums[np.asarray(sums == 0)].astype(np.float64)).any()


@pytest.mark.slow(1)
@pytest.mark.parametrize("target", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_every_rounding(target: Any) -> None:
    """Exclusive scans of pairs round single numbers: all codes of 16 bits, their neighbours and the ties between them."""
    fmt = format_of(target)
    values = np.array([fmt.min_subnormal / 2, math.inf, -math.inf, math.nan, 1e300, 5e-324])
    if fmt.bits == 16:
        largest = np.arange(fmt.max_finite_code + 1).astype(fmt.code_dtype).view(fmt.dtype).astype(np.float64)
        beyond = 2 * largest[-1] - largest[-2]  # where inf begins, as far as rounding knows
        ties = (largest + np.append(largest[1:], beyond)) / 2
        near = [np.nextafter(ties, math.inf), np.nextafter(ties, -math.inf)]
        positive = np.concatenate([largest, ties, *near])
        values = np.concatenate([values, positive, -positive])
    values = np.append(values, draw(np.random.default_rng(0), 30_000, np.float64, "any code"))
    x = np.zeros((values.size, 2))
    x[:, 0] = values
    found = tcu.cumsum(x, 1, exclusive=True, dtype=target)[:, 1]
    same(found, codes_of(values.tolist(), target).view(fmt.dtype))


# The bound.


def check_bound(x: Any, found: Any, **options: Any) -> float:
    """The largest share of the bound that an error uses up; raises AssertionError beyond it."""
    exclusive, reverse = options.get("exclusive", False), options.get("reverse", False)
    bounds = tcu.cumsum_error_bound(x, **options)
    flip = slice(None, None, -1) if reverse else slice(None)
    total, worst = 0, 0.0
    for i, (value, result, bound) in enumerate(
        zip(x[flip].tolist(), found[flip].tolist(), bounds[flip].tolist(), strict=True)
    ):
        before = total
        total += in_units(value)
        if not math.isfinite(bound):
            continue
        error, allowed = abs(in_units(result) - (before if exclusive else total)), in_units(bound)
        assert error <= allowed, (
            f"at {i}: {result!r} is {error / in_units(1):g} from the exact sum, bound {bound:g}"
        )
        if bound:
            worst = max(worst, error / allowed)
    return worst


@every_dtype
@every_direction
def test_errors_stay_within_the_bound(dtype: Any, exclusive: bool, reverse: bool) -> None:
    rng, shares = np.random.default_rng(8), {}
    for kind in KINDS:
        for target in DTYPES:
            x = draw(rng, 1500, dtype, kind)
            with np.errstate(invalid="ignore"):  # signalling NaN
                x = x[np.isfinite(x.astype(np.float64))]
            options: dict[str, Any] = {"exclusive": exclusive, "reverse": reverse, "dtype": target}
            shares[kind, np.dtype(target).name] = check_bound(x, tcu.cumsum(x, **options), **options)
    assert max(shares.values()) > 0.3, shares  # a bound that is never near says little


def test_a_result_that_is_off_breaks_the_bound() -> None:
    x = draw(np.random.default_rng(9), 2000, np.float32, "uniform")
    for dtype in (np.float32, np.float64):
        found = tcu.cumsum(x, dtype=dtype)
        off = 4 * tcu.cumsum_error_bound(x, dtype=dtype)[1500]
        found[1500] += off
        with pytest.raises(AssertionError, match=r"at 1500: .* from the exact sum, bound"):
            check_bound(x, found, dtype=dtype)


def test_bounds_of_what_overflows_and_of_inf() -> None:
    x = np.array([60000.0, 60000.0, -60000.0, math.inf, 1.0], np.float16)
    bound = tcu.cumsum_error_bound(x, dtype=np.float16)
    assert bound[0] < 40
    assert bound[1] == math.inf
    assert np.isnan(bound[3:]).all()
    assert np.isnan(tcu.cumsum_error_bound(x, reverse=True)[:4]).all()
    assert tcu.cumsum_error_bound(np.zeros((2, 0)), 1).shape == (2, 0)
    assert not tcu.cumsum_error_bound(np.zeros((3, 5)), 0).any()
    huge = np.full(3, 1e308)
    assert tcu.cumsum_error_bound(huge)[2] == math.inf
    back = 1e308 * np.array([1, 1, -1, 1, -1, -1])  # whose sums overflow on the way, to both sides
    for dtype in ("float32", "float64"):
        assert not np.isnan(tcu.cumsum_error_bound(back, dtype=dtype)).any()
        assert tcu.cumsum_error_bound(back, dtype=dtype)[-1] == math.inf


# Shapes, dtypes, out.


def test_directions_that_are_none() -> None:
    x = np.ones(3)
    for wrong in ("yes", [], None, 0.5):
        with pytest.raises(ParameterError, match=r"exclusive=.*: give True or False"):
            tcu.cumsum(x, exclusive=wrong)  # type: ignore[call-overload]
        with pytest.raises(ParameterError, match=r"reverse=.*: give True or False"):
            tcu.segment_cumsum(x, [0, 3], reverse=wrong)
    assert tcu.cumsum(x, exclusive=np.True_, reverse=1).tolist() == [2, 1, 0]  # type: ignore[call-overload]


def test_shapes_are_those_of_numpy() -> None:
    for shape in ((), (0,), (3,), (2, 0, 4), (2, 3, 4)):
        x = np.ones(shape, np.float32)
        for axis in (None, *range(-len(shape), len(shape))):
            assert tcu.cumsum(x, axis).shape == np.cumsum(x, axis).shape
            assert np.array_equal(tcu.cumsum(x, axis), np.cumsum(x, axis))
    assert tcu.cumsum(2.5).tolist() == [2.5]
    assert tcu.cumsum([[1.0, 2.0], [3.0, 4.0]], axis=np.int64(0)).tolist() == [[1.0, 2.0], [4.0, 6.0]]


def test_dtypes_are_those_of_sums() -> None:
    for dtype in DTYPES:
        x = np.ones(5, dtype)
        assert tcu.cumsum(x).dtype == tcu.sum(x).dtype
        for target in (*DTYPES, "f16", "bfloat16"):
            assert tcu.cumsum(x, dtype=target).dtype == tcu.sum(x, dtype=target).dtype
    for bad in (np.complex64, object):
        with pytest.raises(DtypeError, match="x "):
            tcu.cumsum(np.zeros(3, bad))
        with pytest.raises(DtypeError, match="x "):
            tcu.segment_cumsum(np.zeros(3, bad), [0, 3])
    with pytest.raises(DtypeError, match="a result is rounded to float16, bfloat16, float32 or float64"):
        tcu.cumsum(np.zeros(3), dtype=np.int32)
    with pytest.raises(DtypeError, match="x is a masked array"):
        tcu.cumsum(np.ma.zeros(3))


@pytest.mark.parametrize(
    ("axis", "message"),
    [
        (2, "axis 2 of an array with 2 axes: choose -2 to 1"),
        (-3, "axis -3 of an array with 2 axes: choose -2 to 1"),
        ((0, 1), r"axis=\(0, 1\): give a whole number, or None for all elements as one line"),
        (True, "axis=True: give a whole number"),
        (np.array([0, 1]), r"axis=array\(\[0, 1\]\): give a whole number"),
        (1.0, r"axis=1\.0: give a whole number"),
    ],
)
def test_axes_that_are_not_there(axis: Any, message: str) -> None:
    for function in (tcu.cumsum, tcu.cumsum_error_bound):
        with pytest.raises(ParameterError, match=message):
            function(np.zeros((3, 4), np.float16), axis)
    with pytest.raises(ParameterError, match="axis 0 of an array with 0 axes: leave axis out"):
        tcu.cumsum(2.5, axis=0)


def test_segments_of_other_shapes_and_offsets() -> None:
    with pytest.raises(
        ShapeError, match=r"x has shape \(2, 3\): segments are cut from one line, x\.reshape\(-1\)"
    ):
        tcu.segment_cumsum(np.zeros((2, 3)), [0, 6])
    with pytest.raises(ParameterError, match="offsets end at 3, and x has 6 elements"):
        tcu.segment_cumsum(np.zeros(6), [0, 3])
    with pytest.raises(ParameterError, match="offsets decrease"):
        tcu.segment_cumsum(np.zeros(6), [0, 4, 3, 6], check=False)


def test_an_out_that_does_not_fit() -> None:
    x = np.ones((4, 5), np.float16)
    for out, message in (
        (np.empty((5, 4)), r"out has shape \(5, 4\), the result shape \(4, 5\)"),
        ([0.0] * 20, "out is a list"),
    ):
        with pytest.raises(ParameterError, match=message):
            tcu.cumsum(x, 1, out=out)
    with pytest.raises(ParameterError, match=r"out has shape \(4, 5\), the result shape \(20,\)"):
        tcu.cumsum(x, out=np.empty((4, 5)))
    with pytest.raises(ParameterError, match="out has dtype float64, the result float32"):
        tcu.cumsum(x, 1, out=np.empty((4, 5)), dtype=np.float32)
    out = np.empty((4, 5))
    out.flags.writeable = False
    with pytest.raises(ParameterError, match="out is read-only"):
        tcu.cumsum(x, 1, out=out)
    with pytest.raises(ParameterError, match="out is read-only"):
        tcu.segment_cumsum(x.reshape(-1), [0, 20], out=out.reshape(-1))


@every_dtype
@every_direction
def test_in_place(dtype: Any, exclusive: bool, reverse: bool) -> None:
    options: dict[str, Any] = {"exclusive": exclusive, "reverse": reverse, "dtype": dtype}
    line = draw(np.random.default_rng(10), 70_000, dtype, "normal")
    for layout in ("C", "F", "reversed", "spread"):
        for axis in (0, 1, None):
            x = laid_out(line.reshape(70, 1000).copy(), layout)
            if axis is None and layout != "C":
                continue
            expected = tcu.cumsum(x, axis, **options)
            out = x if axis is not None else x.reshape(-1)
            assert tcu.cumsum(x, axis, out=out, **options) is out
            same(np.ascontiguousarray(out), expected)
    x = line.copy()
    expected = tcu.segment_cumsum(x, [0, 5, 60_000, 70_000], **options)
    tcu.segment_cumsum(x, [0, 5, 60_000, 70_000], out=x, **options)
    same(x, expected)


def test_outputs_that_overlap_their_input_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    for workers in ("1", "3"):
        monkeypatch.setenv("TCU_NUM_THREADS", workers)
        room = np.random.default_rng(11).standard_normal(300_001)
        for x, out in (
            (room[:-1], room[1:]),
            (room[1:], room[:-1]),
            (room[:-1], room[:-1][::-1]),
            (room[:-1].reshape(600, 500), room[:-1].reshape(500, 600).T),
            (room[:150_000], room.view(np.float32)[: 2 * 150_000 : 2]),
        ):
            before = room.copy()
            expected = tcu.cumsum(x.copy(), -1, dtype=out.dtype)
            assert tcu.cumsum(x, -1, out=out) is out
            same(np.ascontiguousarray(out), expected)
            room[:] = before
    spread = np.broadcast_to(np.float64(1.0), (4, 5))
    assert tcu.cumsum(spread, 0)[:, 0].tolist() == [1, 2, 3, 4]


def test_details_and_progress() -> None:
    x = np.ones((6, 300), np.float16)
    result, info = tcu.cumsum(x, 1, return_info=True)
    assert (info.rows, info.plan) == (6, make_scan_plan(300, "binary16"))
    assert result[0, -1] == 300
    assert tcu.cumsum(x, return_info=True)[1] == tcu.ScanInfo(make_scan_plan(1800, "binary16"), 1)
    for shape, axis in (((300, 500), 1), ((2, 300_000), 1), ((400_000,), None), ((0, 7), 1)):
        done: list[int] = []
        tcu.cumsum(np.ones(shape), axis, progress=done.append)
        assert sum(done) == math.prod(shape)


@pytest.mark.slow
def test_memory_mapped_files(tmp_path: Any) -> None:
    x = draw(np.random.default_rng(12), 200_000, np.float32, "normal")
    np.save(tmp_path / "x.npy", x)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    out = np.lib.format.open_memmap(tmp_path / "y.npy", "w+", np.float32, x.shape)
    same(np.asarray(tcu.cumsum(mapped, out=out)), tcu.cumsum(x))


# Arrays on a GPU go there.


def test_an_array_on_a_gpu_goes_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a GPU that only takes notes."""
    from tcu.engines.cuda import scans as device_scans

    asked: list[Any] = []
    done: list[int] = []
    info = tcu.ScanInfo(make_scan_plan(4, "binary16"), 3)
    monkeypatch.setattr("tcu.engines.choice.lives_on_gpu", lambda x: True)
    monkeypatch.setattr(device_scans, "cumsum", lambda *given: asked.append(given) or ("sums", info))
    monkeypatch.setattr(device_scans, "segment_cumsum", lambda *given: asked.append(given) or "sums")
    x = np.zeros((3, 4), np.float16)
    assert tcu.cumsum(x, -1, exclusive=True, dtype="f64", out="place", progress=done.append) == "sums"
    _, axis, request, *rest = asked.pop()
    assert (axis, request.exclusive, request.reverse, request.dtype, rest) == (
        1,
        True,
        False,
        "f64",
        ["place", None],
    )
    assert done == [12]
    assert tcu.cumsum(x, return_info=True) == ("sums", info)
    assert tcu.segment_cumsum(x[0], "edges", reverse=True, check=False) == "sums"
    _, edges, request, *rest = asked.pop()
    assert (edges, request.exclusive, request.reverse, request.dtype, rest) == (
        "edges",
        False,
        True,
        None,
        [None, False, None],
    )
    with pytest.raises(ParameterError, match="axis 3 of an array with 2 axes"):
        tcu.cumsum(x, axis=3)
    with pytest.raises(ShapeError, match="segments are cut from one line"):
        tcu.segment_cumsum(x, [0, 12])
