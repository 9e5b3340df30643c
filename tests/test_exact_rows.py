"""Contract of exact sums along axes and of segments: every element has the bits of ``tcu.fsum`` for its row alone.

And these are right: rational arithmetic, rounded independently, on numbers
built to hurt, in every pair of formats, near ties, beyond the largest number
and below the smallest.  NaN, inf and zero as for whole arrays; inf and -inf
in one row raise and name it.
"""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from bits import codes, same
from hypothesis import given
from hypothesis import strategies as st
from numbers_of_all_kinds import KINDS, draw
from rationals import exact_sum
from test_exact import painful, rounded

import tcu
from tcu.errors import InvalidOperationError, ParameterError
from tcu.formats import format_of
from tcu.ops import FMEAN

DTYPES = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]
OPERATIONS = {"fsum": tcu.fsum, "fmean": tcu.fmean}

both = pytest.mark.parametrize("name", OPERATIONS)
every_dtype = pytest.mark.parametrize("dtype", DTYPES)


def calm(x: np.ndarray) -> np.ndarray:
    """Without -inf, so that no row has inf and -inf."""
    with np.errstate(invalid="ignore"):  # signalling NaN
        return np.where(np.isneginf(x.astype(np.float64)), x.dtype.type(1), x)


def check(name: str, x: np.ndarray, axis: Any, **options: Any) -> None:
    named = axis if isinstance(axis, tuple) else (axis,)
    axes = sorted(each % x.ndim for each in named)
    kept = [i for i in range(x.ndim) if i not in axes]
    rows = x.transpose(*kept, *axes)
    result = OPERATIONS[name](x, axis, **options)
    assert result.shape == rows.shape[: len(kept)]
    for where in np.ndindex(result.shape):
        alone = OPERATIONS[name](np.ascontiguousarray(rows[where]), **options)
        assert codes(result[where]) == codes(alone), f"row {where}: {result[where]!r}, alone {alone!r}"
    assert np.array_equal(
        codes(OPERATIONS[name](x, axis, keepdims=True, **options)).ravel(), codes(result).ravel()
    )


# Right.


@pytest.mark.slow
@given(st.lists(painful(64), min_size=1, max_size=8), st.sampled_from(DTYPES), st.sampled_from(DTYPES))
def test_segments_equal_rational_arithmetic(lists: list[list[float]], dtype: Any, target: Any) -> None:
    with np.errstate(all="ignore"):
        pieces = [np.array(values, np.float64).astype(dtype) for values in lists]
    pieces = [np.where(np.isfinite(piece.astype(np.float64)), piece, piece.dtype.type(3)) for piece in pieces]
    x = np.concatenate(pieces).astype(dtype)
    offsets = np.concatenate([[0], np.cumsum([piece.size for piece in pieces])])
    sums = tcu.segment_fsum(x, offsets, dtype=target)
    means = tcu.segment_fmean(x, offsets, dtype=target)
    for piece, total, mean in zip(pieces, sums, means, strict=True):
        exact = exact_sum(piece)
        for found, wanted in ((total, exact), (mean, exact / max(piece.size, 1))):
            if piece.size or found is total:
                expected = rounded(wanted, target)
                assert float(found) == expected
                assert math.copysign(1, float(found)) == math.copysign(1, expected)
            else:
                assert codes(found) == format_of(np.dtype(target)).nan_code


@every_dtype
def test_ties_and_what_lies_beside_them(dtype: Any) -> None:
    """1 + u/2 (a tie) and a crumb more or less, which only an exact sum sees."""
    for target in DTYPES:
        u = 2.0 ** -format_of(np.dtype(target)).fraction_bits
        if u / 2 < float(np.finfo(np.float64).tiny) or (dtype != np.float64 and u < 2.0**-23):
            continue
        tiny = format_of(np.dtype(dtype)).min_subnormal
        x = np.array([[1, u / 2, 0], [1, u / 2, tiny], [1, u / 2, -tiny], [1 + u, u / 2, 0]]).astype(dtype)
        found = tcu.fsum(x, axis=1, dtype=target).astype(np.float64)
        exact = [rounded(exact_sum(row), target) for row in x]
        assert found.tolist() == exact


def test_the_largest_and_the_smallest() -> None:
    top, tiny = np.finfo(np.float64).max, 5e-324
    x = np.array(
        [[top, top, -top], [top, top, top], [tiny, -tiny, tiny], [-top, 2.0**970, 0], [tiny, tiny, 0]]
    )
    assert tcu.fsum(x, axis=1).tolist() == [top, math.inf, tiny, -top + 2.0**970, 2 * tiny]
    assert tcu.fmean(x, axis=1)[1] == top
    assert tcu.fmean(-x, axis=1)[1] == -top
    down = tcu.fmean(np.array([[tiny, 0, 0], [-tiny, 0, 0], [tiny, tiny, 0]]), axis=1)
    assert codes(down).tolist() == [0, 1 << 63, 1]  # a mean too small keeps its sign
    assert codes(tcu.fsum(np.full((1, 2), -tiny), axis=1, dtype=np.float16)).tolist() == [1 << 15]


@every_dtype
def test_permutations_change_nothing(dtype: Any) -> None:
    rng = np.random.default_rng(1)
    x = draw(rng, 3000, dtype, "finite").reshape(30, 100)
    expected = codes(tcu.fsum(x, axis=1))
    for _ in range(3):
        assert np.array_equal(codes(tcu.fsum(rng.permuted(x, axis=1), axis=1)), expected)


# The law.


@pytest.mark.slow(1)
@both
@every_dtype
def test_every_element_is_its_row_s_sum(name: str, dtype: Any) -> None:
    rng = np.random.default_rng(2)
    for case, kind in enumerate(KINDS):
        x = calm(draw(rng, 5 * 7 * 11, dtype, kind).reshape(5, 7, 11))
        for layout in (x, np.asfortranarray(x), x[::-1, ::2]):
            check(name, layout, (0, (1, 2), -1, (0, 2), ())[case % 5], dtype=DTYPES[case % 4])


@both
def test_long_rows_pieces_and_threads(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = draw(np.random.default_rng(3), 7 * 11 * 90, np.float32, "finite").reshape(7, 11, 90)
    offsets = np.array([0, 3, 3, 1000, 1010, 6000, x.size])

    def results() -> tuple[Any, ...]:
        segments = getattr(tcu, f"segment_{name}")(x.reshape(-1), offsets)
        return segments, *(OPERATIONS[name](x, axes) for axes in ((0, 2), 2))

    expected = results()
    for long, piece, threads in ((600, 1, "1"), (1 << 18, 700, "3"), (1, 1 << 18, "2")):
        monkeypatch.setattr("tcu.engines.host.exact._LONG", long)
        monkeypatch.setattr("tcu.engines.host.exact._PIECE", piece)
        monkeypatch.setenv("TCU_NUM_THREADS", threads)
        for one, other in zip(results(), expected, strict=True):
            same(one, other)


@both
@every_dtype
def test_segments_equal_whole_arrays(name: str, dtype: Any) -> None:
    rng = np.random.default_rng(4)
    lengths = rng.choice([0, 1, 2, 9, 70, 400], 60)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    for kind in KINDS:
        x = calm(draw(rng, int(offsets[-1]), dtype, kind))
        found = getattr(tcu, f"segment_{name}")(x, offsets)
        for a, b, one in zip(offsets[:-1], offsets[1:], found, strict=True):
            assert codes(one) == codes(OPERATIONS[name](x[a:b]))


def test_empty_rows_and_no_rows() -> None:
    for dtype in DTYPES:
        assert not codes(tcu.fsum(np.zeros((4, 0, 3), dtype), axis=1)).any()
        assert np.isnan(tcu.fmean(np.zeros((4, 0, 3), dtype), axis=1)).all()
        assert tcu.fsum(np.zeros((0, 5), dtype), axis=1).shape == (0,)
        assert tcu.fsum(np.zeros((4, 0, 3), dtype), axis=2, keepdims=True).shape == (4, 0, 1)


def test_all_axes_give_a_scalar() -> None:
    x = draw(np.random.default_rng(5), 12, np.float32, "normal").reshape(3, 4)
    for axis in ((0, 1), (-1, 0)):
        assert type(tcu.fsum(x, axis)) is np.float32
        assert tcu.fsum(x, axis) == tcu.fsum(x)
    assert tcu.fmean(x, keepdims=True).shape == (1, 1)


@every_dtype
def test_nan_and_infinities(dtype: Any) -> None:
    inf, nan = math.inf, math.nan
    x = np.array([[inf, 1, inf], [-inf, 1, 2], [nan, inf, -inf], [1, -nan, 0], [0, -0.0, -0.0]]).astype(dtype)
    for target in DTYPES:
        found = tcu.fsum(x, axis=1, dtype=target)
        assert found.astype(np.float64).tolist()[:2] == [inf, -inf]
        assert codes(found).tolist()[2:] == [*[format_of(np.dtype(target)).nan_code] * 2, 0]


def test_inf_and_minus_inf_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.ones((3, 4, 5))
    x[2, 1, :2] = math.inf, -math.inf
    for _ in range(2):
        with pytest.raises(InvalidOperationError, match=r"row \(2, 1\) holds inf and -inf"):
            tcu.fsum(x, axis=2)
        with pytest.raises(InvalidOperationError, match=r"row \(1,\) holds inf and -inf"):
            tcu.fmean(x, axis=(0, 2))
        with pytest.raises(
            InvalidOperationError, match="segment 11 holds inf and -inf, so its sum has no value"
        ):
            tcu.segment_fsum(x.reshape(-1), [*range(0, 60, 4), 60])
        monkeypatch.setattr("tcu.engines.host.exact._LONG", 1)


def test_out_and_what_does_not_fit() -> None:
    x = np.arange(12, dtype=np.float16).reshape(3, 4)
    out = np.zeros(3)
    assert tcu.fsum(x, axis=1, out=out) is out
    assert out.tolist() == [6, 22, 38]
    assert tcu.fmean(x, axis=0).dtype == np.float32
    with pytest.raises(ParameterError, match=r"out has shape \(3,\), the result shape \(4,\)"):
        tcu.fsum(x, axis=0, out=out)
    with pytest.raises(ParameterError, match="axis 2 of an array with 2 axes"):
        tcu.fmean(x, axis=2)
    with pytest.raises(ParameterError, match=r"axis=<class 'numpy.float32'>: give a whole number"):
        tcu.fsum(x, np.float32)


def test_an_array_on_a_gpu_goes_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a GPU that only takes notes."""
    from tcu.engines.cuda import rows as device_rows

    asked: list[Any] = []
    monkeypatch.setattr("tcu.engines.choice.lives_on_gpu", lambda x: True)
    monkeypatch.setattr(device_rows, "reduce", lambda *given: asked.append(given) or ("sums", None))
    x = np.zeros((3, 2, 2), np.float16)
    assert tcu.fmean(x, (-1, 1), keepdims=True, dtype="float64", out="place") == "sums"
    request, given_, axes, keepdims, out, keep = asked[0]
    assert (request.operation, request.dtype, keep) == (FMEAN, "float64", None)
    assert (given_[0] is x, axes, keepdims, out) == (True, (1, 2), True, "place")
