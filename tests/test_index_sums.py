"""Contract: each slot holds the exact sum of what its indices send there, rounded once, whatever their order.

Against sums of fractions; tensors have the bits of arrays; what NumPy and PyTorch have, too, agrees within rounding; bad
indices are named by their position.
"""

from __future__ import annotations

import pickle
from fractions import Fraction
from itertools import pairwise
from math import prod
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from bits import same
from hypothesis import given, settings
from hypothesis import strategies as st

import tcu
from tcu.errors import DtypeError, InvalidOperationError, ParameterError, ShapeError
from tcu.surfaces import sums_by_index

FORMATS = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]
formats = pytest.mark.parametrize("dtype", FORMATS, ids=lambda dtype: np.dtype(dtype).name)


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)


def spread(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Any:
    """Numbers of many magnitudes, of which some cancel."""
    x = rng.standard_normal(shape) * 10.0 ** rng.integers(-4, 5, shape)
    line = x.reshape(-1)
    line[1::3] = -line[: len(line[1::3])]
    return x.astype(dtype)


def plain(x: Any) -> Any:
    return np.ascontiguousarray(x)


def exact_slots(x: Any, index: Any, size: int, weights: Any = None) -> list[Fraction]:
    """Sums of a line, as fractions."""
    slots = [Fraction(0)] * size
    for i, place in enumerate(index):
        factor = 1 if weights is None else Fraction(float(weights[i]))
        slots[int(place)] += Fraction(float(x[i])) * factor
    return slots


def rounded(number: Fraction, dtype: Any) -> Any:
    """To nearest, ties to even, by tcu's exact sum of a few float64 that make it up (a quotient but for its far digits)."""
    left, parts = number, []
    while left and len(parts) < 9:
        parts.append(float(left))
        left -= Fraction(parts[-1])
    return tcu.fsum(np.array(parts, np.float64), dtype=dtype)


@pytest.mark.slow(6)
@formats
@pytest.mark.parametrize("size", [1, 3, 40, 1000])
def test_slots_are_exact_sums_rounded_once(dtype: Any, size: int) -> None:
    rng = np.random.default_rng(size)
    x, index = spread(rng, (700,), dtype), rng.integers(0, size, 700)
    for target in (None, "float16", "bfloat16", "float32", "float64"):
        found = tcu.index_sum(x, index, size, dtype=target)
        wanted = [rounded(slot, found.dtype) for slot in exact_slots(x, index, size)]
        same(found, np.array(wanted, found.dtype), target)
    assert tcu.index_sum(x, index, size).dtype == (np.float32 if np.dtype(dtype).itemsize == 2 else x.dtype)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.integers(-5, 4), st.floats(allow_nan=False, allow_infinity=False, width=32), st.integers(-9, 9)
        ),
        max_size=30,
    )
)
def test_any_numbers_with_and_without_weights(rows: list[tuple[int, float, int]]) -> None:
    index = np.array([row[0] for row in rows], np.int64)
    x = np.array([row[1] for row in rows], np.float32)
    weights = np.array([row[2] / 7 for row in rows], np.float32)
    for factors in (None, weights):
        found = tcu.index_sum(x, index, 5, weights=factors)
        wanted = [rounded(slot, np.float32) for slot in exact_slots(x, index, 5, factors)]
        same(found, np.array(wanted, np.float32))


@formats
@pytest.mark.parametrize(("shape", "axis"), [((40, 6), 0), ((5, 40, 3), 1), ((4, 40), -1), ((40, 1, 2), 0)])
def test_rows_of_any_axis_are_added_number_by_number(
    dtype: Any, shape: tuple[int, ...], axis: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(3)
    x, index = spread(rng, shape, dtype), rng.integers(-7, 7, 40)
    found = tcu.index_sum(x, index, 7, axis=axis)
    lines = np.moveaxis(x, axis, 0).reshape(40, -1)
    columns = [tcu.index_sum(np.ascontiguousarray(line), index, 7) for line in lines.T]
    wanted = np.stack(columns, 1).reshape(7, *np.moveaxis(x, axis, 0).shape[1:])
    same(np.ascontiguousarray(found), np.ascontiguousarray(np.moveaxis(wanted, 0, axis)))
    monkeypatch.setattr(sums_by_index, "_TOGETHER", 100)  # two columns at a time
    same(np.ascontiguousarray(tcu.index_sum(x, index, 7, axis=axis)), np.ascontiguousarray(found))


def test_the_order_of_the_indices_leaves_no_trace() -> None:
    rng = np.random.default_rng(4)
    x, index = spread(rng, (5000, 3), np.float32), rng.zipf(1.3, 5000) % 50
    weights = rng.standard_normal(5000).astype(np.float32)
    for factors in (None, weights):
        wanted = tcu.index_sum(x, index, 50, weights=factors)
        for _ in range(3):
            order = rng.permutation(5000)
            shuffled = None if factors is None else factors[order]
            same(tcu.index_sum(x[order], index[order], 50, weights=shuffled), wanted)


def test_products_of_float64_are_exact() -> None:
    """Also where binary64 holds neither a product nor its rounding error, and where products overflow and cancel."""
    rng = np.random.default_rng(13)
    index = rng.integers(0, 5, 200)
    for low, high in ((-5, 5), (-540, -500), (500, 511)):
        x, weights = rng.standard_normal((2, 200)) * 2.0 ** rng.integers(low, high, (2, 200))
        x[1::2], weights[1::2], index[1::2] = -x[::2], weights[::2] * (1 + 2.0**-50), index[::2]
        with np.errstate(over="ignore"):
            wanted = [tcu.fdot(x[index == j], weights[index == j]) for j in range(5)]
        same(tcu.index_sum(x, index, 5, weights=weights), np.array(wanted))
    exact = exact_slots(x, index, 5, weights)
    assert [Fraction(each) for each in wanted] != exact  # and so they are rounded
    rows, initial = rng.standard_normal((2, 4, 200)), rng.standard_normal((4, 5))
    for factors in (weights, rows[1]):
        found = tcu.index_sum(rows[0], index, 5, axis=1, weights=factors, initial=initial)
        for i, line in enumerate(found):
            given = factors if factors.ndim == 1 else factors[i]
            slots = exact_slots(rows[0, i], index, 5, given)
            same(
                plain(line),
                np.array(
                    [rounded(a + Fraction(b), np.float64) for a, b in zip(slots, initial[i], strict=True)]
                ),
            )
    narrow = rows[0, 0].astype(np.float16)
    same(
        tcu.index_sum(narrow, index, 5, weights=weights),
        tcu.index_sum(narrow, index, 5, weights=weights, dtype="float32"),
    )
    with pytest.raises(InvalidOperationError, match="slot 1 gets inf and -inf"):
        tcu.index_sum(
            np.array([1e300, np.inf, -np.inf, -2]), [0, 1, 1, 0], 2, weights=np.array([1e300, -2, -3, 9])
        )


def test_means_are_rounded_once_and_nothing_has_none() -> None:
    rng = np.random.default_rng(5)
    x, index = spread(rng, (300,), np.float32), rng.integers(0, 9, 300)
    found = tcu.index_mean(x, index, 10)
    slots = exact_slots(x, index, 9)
    same(
        found[:9],
        np.array([rounded(slot / int((index == j).sum()), np.float32) for j, slot in enumerate(slots)]),
    )
    same(found[:9], np.array([tcu.fmean(x[index == j]) for j in range(9)]))
    assert np.isnan(found[9])


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int32, np.int64, bool])
def test_integers_are_added_as_integers(kind: Any) -> None:
    rng = np.random.default_rng(6)
    x, index = rng.integers(0, 2 if kind is bool else 100, 500).astype(kind), rng.integers(0, 4, 500)
    found = tcu.index_sum(x, index, 4)
    assert found.dtype.kind in "iu"
    assert found.tolist() == [int(x[index == j].astype(int).sum()) for j in range(4)]


@pytest.mark.parametrize("kind", [np.int64, np.uint64])
def test_integers_that_their_dtype_does_not_hold_are_named_by_slot(kind: Any) -> None:
    most = int(np.iinfo(kind).max)
    x, index = np.array([3, most, 1, most], kind), np.array([0, 1, 1, 0])
    said = f"the sum of slot 0 is {most + 3}, which {np.dtype(kind).name} does not hold: pass a wider dtype"
    for call in (tcu.index_sum, lambda x, index, size: tcu.bincount(index, x, size)):
        with pytest.raises(InvalidOperationError, match=said):
            call(x, index, 2)
    with pytest.raises(InvalidOperationError, match=f"the sum of slot 1 is {most + 1}"):
        tcu.index_sum(x[1:3], index[1:3], 2)
    with pytest.raises(
        InvalidOperationError, match="the sum of slot 1 is 200, which int8 does not hold"
    ) as caught:
        tcu.index_sum(np.array([100, 100]), [1, 1], 2, dtype=np.int8)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value), "as it goes to another process"
    assert tcu.index_sum(x, index, 2, dtype=np.float64).tolist() == [most + 3.0, most + 1.0]


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_results_lie_in_order(axis: int) -> None:
    x = np.arange(60.0).reshape(3, 4, 5)
    index = np.arange(x.shape[axis]) % 2
    assert tcu.index_sum(x, index, 2, axis=axis).flags.c_contiguous


def test_an_array_is_added_to_before_the_rounding() -> None:
    x = np.array([2.0**-20, 2.0**-20], np.float16)
    found = tcu.index_sum(x, [0, 0], 2, initial=np.array([1, 3], np.float32), dtype=np.float64)
    assert found.tolist() == [1 + 2.0**-19, 3]
    assert tcu.index_sum(np.arange(3), [0, 0, 1], 2, initial=np.array([5, 7])).tolist() == [6, 9]
    rows = tcu.index_sum(np.ones((2, 3), np.float32), [1, 1], 2, initial=np.full((2, 3), 0.5, np.float32))
    assert rows.tolist() == [[0.5] * 3, [2.5] * 3]
    columns = tcu.index_sum(
        np.ones((3, 2), np.float32), [1, 1], 2, axis=1, initial=np.full((3, 2), 0.5, np.float32)
    )
    assert columns.tolist() == [[0.5, 2.5]] * 3


def test_infinities_nan_and_nothing() -> None:
    inf, nan = np.inf, np.nan
    found = tcu.index_sum(np.array([inf, 1, nan, -inf, -0.0]), [0, 0, 1, 2, 3], 5)
    assert np.isnan(found[1])
    assert [*found[[0, 2, 3, 4]]] == [inf, -inf, 0, 0]
    assert not np.signbit(found[3:]).any()
    with pytest.raises(InvalidOperationError, match="slot 2 gets inf and -inf, so its sum has no value"):
        tcu.index_sum(np.array([[1, inf], [1, -inf]]), [2, 2], 4)
    for shape, size in (((0, 3), 4), ((4, 0), 4), ((0, 3), 0), ((0,), 2)):
        index = np.zeros(shape[0], np.int64)
        assert tcu.index_sum(np.zeros(shape), index, size).shape == (size, *shape[1:])
        assert not tcu.index_sum(np.zeros(shape), index, size).any()


def test_what_is_out_of_range_is_named_or_counts_nowhere() -> None:
    x = np.arange(5.0)
    with pytest.raises(
        ParameterError, match=r"index\[3\] is 9, and the slots are 0 to 2, or -3 to -1 from the end"
    ):
        tcu.index_sum(x, [0, 0, 1, 9, -4], 3)
    with pytest.raises(ParameterError, match=r"index\[0\] is 0, and the slots are none"):
        tcu.index_sum(x, [0] * 5, 0)
    assert tcu.index_sum(x, [0, 0, 1, 9, -4], 3, check=False).tolist() == [1, 2, 0]
    assert tcu.index_sum(x, np.array([0, 0, 1, 2**62, -(2**62)]), 3, check=False).tolist() == [1, 2, 0]
    # What counts nowhere has no infinities either.
    assert tcu.index_sum(np.array([np.inf, -np.inf, 1]), [7, 7, 0], 2, check=False).tolist() == [1, 0]


def test_a_place_for_the_result() -> None:
    x, index = np.arange(6, dtype=np.float32).reshape(3, 2), np.array([1, 0, 1])
    out = np.empty((2, 2), np.float64)
    assert tcu.index_sum(x, index, 2, out=out) is out
    assert out.tolist() == [[2, 3], [4, 6]]
    place = np.zeros((2, 2, 2))[:, :, 0]
    tcu.index_mean(x, index, 2, out=place)
    assert place.tolist() == [[2, 3], [2, 3]]
    with pytest.raises(ParameterError, match="out has shape"):
        tcu.index_sum(x, index, 3, out=out)
    with pytest.raises(ParameterError, match="out has dtype float64, the result float32"):
        tcu.index_sum(x, index, 2, dtype="float32", out=out)
    with pytest.raises(ParameterError, match="out has dtype int32, the result int64"):
        tcu.index_sum(np.arange(3), index, 2, dtype=np.int64, out=np.empty(2, np.int32))


@pytest.mark.parametrize(
    ("error", "match", "call"),
    [
        (DtypeError, "index has dtype float64", lambda x: tcu.index_sum(x, [0.0, 1, 2], 3)),
        (DtypeError, "index has dtype bool", lambda x: tcu.index_sum(x, [True, False, True], 3)),
        (ShapeError, r"index has shape \(2,\): give one slot for each of 3", lambda x: tcu.index_sum(x, [0, 1], 3)),
        (ParameterError, "size=-1: give the number of slots", lambda x: tcu.index_sum(x, [0, 1, 2], -1)),
        (ParameterError, r"size=2\.5", lambda x: tcu.index_mean(x, [0, 1, 2], 2.5)),
        (ParameterError, r"size=9223372036854775808: give the number of slots, from 0 to 2\^63 - 1", lambda x: tcu.index_sum(x, [0, 1, 2], 1 << 63)),
        (DtypeError, "index has dtype <U1: give whole numbers", lambda x: tcu.bincount(["a"])),
        (ParameterError, "axis 1 of an array with 1 axis: choose -1 to 0", lambda x: tcu.index_sum(x, [0, 1, 2], 3, axis=1)),
        (DtypeError, "weights has dtype int64, of which there are no weighted sums: give", lambda x: tcu.index_sum(x, [0, 1, 2], 3, weights=np.ones(3, int))),
        (ShapeError, r"weights have shape \(2,\)", lambda x: tcu.index_sum(x, [0, 1, 2], 3, weights=x[:2])),
        (ShapeError, r"initial has shape \(2,\)", lambda x: tcu.index_sum(x, [0, 1, 2], 3, initial=x[:2])),
        (DtypeError, "initial has dtype int64 and x float32", lambda x: tcu.index_sum(x, [0, 1, 2], 3, initial=np.arange(3))),
        (DtypeError, "complex", lambda x: tcu.index_sum(x.astype(complex), [0, 1, 2], 3)),
        (ShapeError, r"index has shape \(1, 3\): give one line", lambda x: tcu.bincount([[0, 1, 2]])),
        (ParameterError, r"index\[1\] is -1, and the slots are 0 to 3", lambda x: tcu.bincount([0, -1, 3])),
        (ParameterError, r"index\[1\] is 5, and the slots are 0 to 2", lambda x: tcu.bincount([0, 5], size=3)),
        (ParameterError, r"index\[0\] is -1, and the slots are counted from 0", lambda x: tcu.bincount([-1])),
        (ShapeError, r"weights have shape \(2,\): give x's", lambda x: tcu.histogram(x, weights=x[:2])),
        (ParameterError, "bins='auto': give their number", lambda x: tcu.histogram(x, "auto")),
        (ParameterError, r"bins=0, range=None: `bins` must be positive", lambda x: tcu.histogram(x, 0)),
        (ParameterError, r"bins=\[2, 1\], range=None: `bins` must increase", lambda x: tcu.histogram(x, [2, 1])),
        (ParameterError, r"bins=\[1\.0\]: give two edges or more", lambda x: tcu.histogram(x, [1.0])),
        (ParameterError, r"bins=\[\]: give two edges", lambda x: tcu.histogram(x, [])),
        (ParameterError, "bins hold 9007199254740993, which float64, the edges' dtype, does not", lambda x: tcu.histogram(x, [0, 2**53 + 1])),
        (DtypeError, "x has dtype complex64, of which there is no histogram: give integers, float16", lambda x: tcu.histogram(x * 1j, 2)),
        (DtypeError, "x has dtype <U1, of which", lambda x: tcu.histogram(np.array(["1", "2"]), 2)),
        (DtypeError, "x has dtype object", lambda x: tcu.histogram(x.astype(object), 2)),
        (ShapeError, r"keys have shape \(2,\): give one for each of 3 places", lambda x: tcu.reduce_by_key([1, 2], x)),
        (ShapeError, r"keys have shape \(1, 3\)", lambda x: tcu.reduce_by_key([[1, 2, 3]], x)),
        (ShapeError, r"gradient has shape \(3,\)", lambda x: tcu.embedding_gradient(x, [0, 1, 2], 3)),
        (DtypeError, "gradient has dtype int64", lambda x: tcu.embedding_gradient(np.ones((3, 2), int), [0, 1, 2], 3)),
        (ParameterError, "padding_index=4: choose a row", lambda x: tcu.embedding_gradient(x[:, None], [0, 1, 2], 3, padding_index=4)),
    ],
)  # fmt: skip
def test_what_is_refused(error: Any, match: str, call: Any) -> None:
    with pytest.raises(error, match=match):
        call(np.ones(3, np.float32))


ARGUMENTS: dict[str, Any] = {
    "x of index_sum": lambda x: tcu.index_sum(x, [0, 1], 2),
    "index of index_mean": lambda x: tcu.index_mean([1.0, 2], x, 2),
    "weights of index_sum": lambda x: tcu.index_sum([1.0, 2], [0, 1], 2, weights=x),
    "initial of index_sum": lambda x: tcu.index_sum([1.0, 2], [0, 1], 2, initial=x),
    "index of bincount": tcu.bincount,
    "weights of bincount": lambda x: tcu.bincount([0, 1], x),
    "x of histogram": lambda x: tcu.histogram(x, 2),
    "weights of histogram": lambda x: tcu.histogram([1.0, 2], 2, weights=x),
    "keys of reduce_by_key": lambda x: tcu.reduce_by_key(x, [1.0, 2]),
    "x of reduce_by_key": lambda x: tcu.reduce_by_key([1, 2], x),
    "gradient of embedding_gradient": lambda x: tcu.embedding_gradient(x, [0, 1], 2),
    "target of cross_entropy": lambda x: tcu.cross_entropy(np.ones((2, 3), np.float32), x),
}


@pytest.mark.parametrize("where", ARGUMENTS)
def test_masked_arrays_and_what_is_no_array_are_refused(where: str) -> None:
    """NumPy would read what is masked, too."""
    name = where.partition(" ")[0]
    with pytest.raises(
        DtypeError, match=rf"{name} is a masked array: fill it first, with {name}\.filled\(0\)"
    ):
        ARGUMENTS[where](np.ma.array([1, 0], mask=[False, True]))
    with pytest.raises(DtypeError, match=f"{name} is no array of numbers"):
        ARGUMENTS[where]([[1], [1, 2]])


# ---- what is made of them ----


def test_counts_are_numpys_and_sums_of_weights_exact() -> None:
    rng = np.random.default_rng(7)
    index, weights = rng.integers(0, 30, 1000), spread(rng, (1000,), np.float64)
    same(tcu.bincount(index), np.bincount(index))
    same(tcu.bincount(index, size=40), np.bincount(index, minlength=40))
    same(tcu.bincount(index, weights, 40), tcu.index_sum(weights, index, 40))
    assert tcu.bincount(np.array([], int)).tolist() == []


@pytest.mark.parametrize(
    ("bins", "ends"), [(10, None), (1, None), (7, (-1, 2)), ([-3, -1, 0, 0.5, 9], None), (5, (0, 0))], ids=str
)
def test_histograms_are_numpys_and_their_sums_exact(bins: Any, ends: Any) -> None:
    rng = np.random.default_rng(8)
    x, weights = rng.standard_normal(999).astype(np.float16), spread(rng, (999,), np.float32)
    x[:4] = x[4]  # on an edge of one bin at least
    counts, edges = tcu.histogram(x, bins, ends)
    wanted, borders = np.histogram(x.astype(np.float64), bins, ends)
    same(counts, wanted.astype(np.int64))
    same(edges, borders.astype(np.float64))
    sums, _ = tcu.histogram(x, bins, ends, weights)
    for i, (low, high) in enumerate(pairwise(edges)):
        last = i == len(edges) - 2
        inside = (x >= low) & ((x <= high) if last else (x < high))
        assert sums[i] == tcu.fsum(weights[inside])


def test_numbers_that_are_none_fall_into_no_bin() -> None:
    counts, _ = tcu.histogram(np.array([np.nan, 0.5, 2, -1]), 2, (0, 1))
    assert counts.tolist() == [0, 1]
    counts, edges = tcu.histogram(np.array([]), 3)
    assert counts.tolist() == [0, 0, 0]
    same(edges, np.histogram([], 3)[1])


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int64, np.uint64, bool])
def test_integers_are_compared_with_edges_as_such(kind: Any) -> None:
    """Also those that binary64 does not hold, and edges that no number reaches."""
    rng = np.random.default_rng(11)
    wide = np.dtype(np.uint8 if kind is bool else kind)
    least, most = (0, 1) if kind is bool else (int(np.iinfo(kind).min), int(np.iinfo(kind).max))
    large = rng.integers(least, most, 20, wide, endpoint=True)
    small = large // 2 ** max(most.bit_length() - 5, 0)
    x = np.array([least, most, most, *large, *small], kind)
    for edges in (
        [0, 1, 3, 9],
        [-np.inf, 0.5, np.inf],
        [-1e30, -5.5, 2, 2],
        [2.0**62, 2.0**63],
        [1e25, 1e26],
        [-9.0, -3.0],
    ):
        wanted = [0] * (len(edges) - 1)
        for number in map(int, x):
            for i, (low, high) in enumerate(pairwise(edges)):
                if low <= number < high or (i == len(edges) - 2 and low <= number == high):
                    wanted[i] += 1
                    break
        assert tcu.histogram(x, edges)[0].tolist() == wanted, edges
    assert tcu.histogram(x, 3)[0].sum() == len(x)  # of the smallest to the largest: none is left out


def test_keys_of_any_kind() -> None:
    rng = np.random.default_rng(9)
    x, keys = spread(rng, (500, 2), np.float32), rng.integers(0, 6, 500)
    for kind in (np.int64, np.float32, "U3"):
        unique, sums = tcu.reduce_by_key(keys.astype(kind), x)
        assert unique.tolist() == np.unique(keys.astype(kind)).tolist()
        same(sums, tcu.index_sum(x, keys, 6))
    order = np.argsort(keys, kind="stable")
    same(tcu.reduce_by_key(keys[order], x[order])[1], tcu.index_sum(x, keys, 6))


def test_gradients_of_a_table() -> None:
    rng = np.random.default_rng(10)
    gradient, index = spread(rng, (4, 6, 3), np.float16), rng.integers(-7, 7, (4, 6))
    found = tcu.embedding_gradient(gradient, index, 7)
    same(found, tcu.index_sum(gradient.reshape(-1, 3), index.reshape(-1), 7, dtype=np.float16))
    padded = tcu.embedding_gradient(gradient, index, 7, padding_index=2)
    assert not padded[2].any()
    same(np.delete(padded, 2, 0), np.delete(found, 2, 0))
    before = spread(rng, (7, 3), np.float16)
    added = tcu.embedding_gradient(gradient, index, 7, padding_index=2, initial=before)
    wanted = tcu.index_sum(gradient.reshape(-1, 3), index.reshape(-1), 7, initial=before, dtype=np.float16)
    wanted[2] = before[2]
    same(added, wanted)


# ---- PyTorch ----


@formats
def test_tensors_have_the_bits_of_arrays(torch: Any, dtype: Any) -> None:
    rng = np.random.default_rng(11)
    x, index = spread(rng, (90, 4), dtype), rng.integers(-8, 8, 90)
    tensor = torch.from_numpy(x.astype(np.float64)).to(getattr(torch, np.dtype(dtype).name))
    places = torch.from_numpy(index)
    for options in ({}, {"axis": 0, "dtype": "float64"}, {"check": False}):
        same(tcu.index_sum(tensor, places, 8, **options).contiguous(), tcu.index_sum(x, index, 8, **options))
    same(tcu.index_mean(tensor, places.int(), 8).contiguous(), tcu.index_mean(x, index, 8))
    for kind in (np.float32, np.float64):
        factors = rng.standard_normal(90).astype(kind)
        found = tcu.index_sum(tensor, places, 8, weights=torch.from_numpy(factors))
        same(found.contiguous(), tcu.index_sum(x, index, 8, weights=factors))
    out = torch.empty(8, 4, dtype=torch.float64)
    assert tcu.index_sum(tensor, places, 8, out=out) is out
    same(out, tcu.index_sum(x, index, 8, dtype="float64"))
    line = np.ascontiguousarray(x[:, 0])
    for mine, theirs in zip(tcu.histogram(tensor[:, 0], 5), tcu.histogram(line, 5), strict=True):
        same(mine, theirs)
    unique, sums = tcu.reduce_by_key(places, tensor)
    same(sums.contiguous(), tcu.reduce_by_key(index, x)[1])
    assert unique.tolist() == np.unique(index).tolist()
    same(tcu.bincount(places % 8, tensor[:, 1]), tcu.bincount(index % 8, np.ascontiguousarray(x[:, 1])))


def test_gradients_are_those_of_pytorch(torch: Any) -> None:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(20, 3, generator=generator, dtype=torch.float64, requires_grad=True)
    index = torch.randint(0, 6, (20,), generator=generator)
    torch.autograd.gradcheck(lambda x: tcu.index_sum(x, index, 6), x)
    torch.autograd.gradcheck(lambda x: tcu.index_mean(x, index % 5, 5), x)
    initial = torch.randn(6, 3, dtype=torch.float64, requires_grad=True)
    torch.autograd.gradcheck(lambda x, y: tcu.index_sum(x, index, 6, initial=y), (x, initial))
    wide = torch.randn(20, dtype=torch.float64, requires_grad=True)
    torch.autograd.gradcheck(lambda x, w: tcu.index_sum(x, index, 6, weights=w), (x, wide))
    a, w = (torch.randn(20, generator=generator, requires_grad=True) for _ in range(2))
    tcu.index_sum(a, index, 6, weights=w).square().sum().backward()
    mine = a.grad, w.grad
    a.grad = w.grad = None
    torch.zeros(6).index_add(0, index, a * w).square().sum().backward()
    for found, wanted in zip(mine, (a.grad, w.grad), strict=True):
        torch.testing.assert_close(found, wanted)
    table = torch.nn.Embedding(6, 3, padding_idx=4)
    upstream = torch.randn(20, 3, generator=generator)
    table(index).backward(upstream)
    torch.testing.assert_close(tcu.embedding_gradient(upstream, index, 6, padding_index=4), table.weight.grad)


@pytest.mark.slow
def test_graphs_and_batches(torch: Any) -> None:
    x, index = torch.randn(4, 30, 2), torch.arange(30) % 7
    wanted = torch.stack([tcu.index_sum(each, index, 7) for each in x])
    same(torch.func.vmap(lambda each: tcu.index_sum(each, index, 7))(x).contiguous(), wanted)
    graph = torch.compile(
        lambda each, index: tcu.index_sum(each, index, 7, check=False), fullgraph=True, backend="aot_eager"
    )
    same(graph(x[0], index).contiguous(), wanted[0])
    index[3] = 9
    kept = [i for i in range(30) if i != 3]
    same(graph(x[0], index).contiguous(), tcu.index_sum(x[0][kept], index[kept], 7))


def test_arrays_of_two_libraries(torch: Any) -> None:
    x, index = np.ones(3), np.zeros(3, int)
    with pytest.raises(
        ParameterError, match="x and index take two arrays in the host's memory, or two tensors"
    ):
        tcu.index_sum(x, torch.from_numpy(index), 1)
    with pytest.raises(ParameterError, match="weights are of another library than x"):
        tcu.index_sum(torch.ones(3), torch.from_numpy(index), 1, weights=x)
    with pytest.raises(ParameterError, match="initial is of another library than x"):
        tcu.index_sum(torch.ones(3), torch.from_numpy(index), 1, initial=np.ones(1))
    with pytest.raises(ParameterError, match="x is on cpu, index on meta"):
        tcu.index_sum(torch.ones(3), torch.zeros(3, dtype=torch.int64, device="meta"), 1)


def test_a_small_piece_at_a_time_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(12)
    x, index = spread(rng, (50, 33), np.float32), rng.integers(0, 9, 50)
    wanted = tcu.index_sum(x, index, 9)
    for together in (1, 50, 149, 10**9):
        monkeypatch.setattr(sums_by_index, "_TOGETHER", together)
        same(tcu.index_sum(x, index, 9), wanted)
    assert wanted.size == prod((9, 33))


def test_nans_are_one_key_of_arrays_and_tensors() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)
    keys, x = np.array([np.nan, 1, np.nan, 2]), np.array([1.0, 2, 3, 4])
    for function in (np.asarray, torch.tensor):
        unique, sums = tcu.reduce_by_key(function(keys), function(x))
        np.testing.assert_array_equal(np.asarray(unique), [1, 2, np.nan])
        np.testing.assert_array_equal(np.asarray(sums), [2, 4, 4])
