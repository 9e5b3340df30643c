"""Contract: sums by index of what lies in several places have the bits of the whole array's, whatever the parts.

A part's share holds the exact sum of each key; shares merge in any order.  Dask arrays are lazy: nothing is computed by a
call, and each chunk once by a result.  Ranks are tested in tests/test_distributed_index_sums.py, files in
tests/test_stream_index_sums.py.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from bits import same
from numbers_of_all_kinds import draw

import tcu
from tcu.errors import DtypeError, InvalidOperationError, ParameterError, ShapeError
from tcu.surfaces.slot_shares import SlotShare, merged_slots, share_of_rows, sums_of

FORMATS = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]
formats = pytest.mark.parametrize("dtype", FORMATS, ids=lambda dtype: np.dtype(dtype).name)
KINDS = ("finite", "cancelling", "special", "subnormal", "normal")
N, SLOTS = 400, 9


def cuts(rng: np.random.Generator, n: int) -> tuple[int, ...]:
    """The lengths of some parts of n places, also of none."""
    return tuple(np.diff([0, *np.sort(rng.integers(0, n + 1, rng.integers(0, 12))), n]).tolist())


def plain(x: Any) -> Any:
    return np.ascontiguousarray(x)


def wanted_of(function: Any, *given: Any, **options: Any) -> Any:
    """The whole array's result, or None where a slot gets inf and -inf."""
    try:
        return function(*given, **options)
    except InvalidOperationError:
        return None


# ---- shares ----


@formats
@pytest.mark.parametrize("kind", KINDS)
def test_shares_of_any_parts_in_any_order_come_to_the_same_bits(dtype: Any, kind: str) -> None:
    rng = np.random.default_rng(1)
    with np.errstate(all="ignore"):
        x = draw(rng, 3 * N, np.dtype(dtype), kind).reshape(N, 3)
    index = rng.integers(0, SLOTS, N)
    wanted = wanted_of(tcu.index_sum, x, index, SLOTS, dtype=np.float32)
    for _ in range(5):
        order, ends = rng.permutation(N), np.cumsum(cuts(rng, N))[:-1]
        parts = zip(np.split(index[order], ends), np.split(x[order], ends), strict=True)
        shares = [share_of_rows(*part) for part in parts]
        share = merged_slots([merged_slots(shares[::2]), *shares[1::2]] if shares[1::2] else shares)
        if wanted is None:
            with pytest.raises(InvalidOperationError, match=r"slot \d gets inf and -inf"):
                sums_of(share, SLOTS, np.float32)
        else:
            same(plain(sums_of(share, SLOTS, np.float32)), plain(wanted))


@pytest.mark.parametrize("kind", KINDS)
def test_a_share_holds_the_exact_sums_in_few_rows(kind: str) -> None:
    rng = np.random.default_rng(2)
    with np.errstate(all="ignore"):
        x = draw(rng, N, np.dtype(np.float32), kind)
    x, index = np.where(np.isfinite(x), x, np.float32(0)), rng.integers(0, SLOTS, N)
    share = share_of_rows(index, x)
    assert len(share.rows) <= 7 * SLOTS  # binary32 has sums of 277 bits and a few more
    for slot in range(SLOTS):
        exact = sum(map(Fraction, x[index == slot].tolist()))
        assert sum(map(Fraction, share.rows[share.keys == slot].tolist())) == exact


@pytest.mark.parametrize(
    "x", [[1, 1 + 2.0**-52], [2.0**-1074, 2.0**-1021], [1, 2.0**53], [2.0**53, -1, 2]], ids=str
)
def test_a_sum_that_is_just_too_long_for_a_number_has_two(x: list[float]) -> None:
    share = share_of_rows(np.zeros(len(x), int), np.array(x))
    assert sum(map(Fraction, share.rows.tolist())) == sum(map(Fraction, x))


def test_sums_that_binary64_does_not_hold_are_kept() -> None:
    top = np.finfo(np.float64).max
    x, index = np.array([top, top, 1.5, top, -3.0]), np.array([0, 0, 0, 1, 1])
    there, back = share_of_rows(index, x), share_of_rows(index[:2], -x[:2])
    assert sum(map(Fraction, there.rows[there.keys == 0].tolist())) == 2 * Fraction(top) + Fraction(3, 2)
    same(sums_of(merged_slots([there, back]), 2, np.float64), np.array([1.5, top]))
    same(sums_of(there, 2, np.float64), np.array([np.inf, top]))


@pytest.mark.parametrize("kind", [np.int8, np.int64, np.uint64])
def test_shares_of_integers_are_exact_also_beyond_64_bits(kind: Any) -> None:
    rng = np.random.default_rng(4)
    limits = np.iinfo(kind)
    for n in (1, 2, 7, 50):
        x = rng.integers(limits.min, limits.max, (n, 2), kind, endpoint=True)
        keys, cut = rng.integers(0, 3, n), int(rng.integers(n + 1))
        merged = merged_slots(share_of_rows(keys[part], x[part]) for part in (slice(cut), slice(cut, None)))
        for key in range(3):
            for column in range(2):
                found, wanted = (
                    sum(map(int, rows[of == key, column]))
                    for of, rows in ((merged.keys, merged.rows), (keys, x))
                )
                assert found == wanted
    most = np.array([2**63 - 1, 1, 5, -9])
    with pytest.raises(InvalidOperationError, match="the sum of slot 0 is 9223372036854775808, which int64"):
        sums_of(share_of_rows(np.zeros(2, int), most[:2]), 1, None)
    assert sums_of(share_of_rows(np.zeros(4, int), most), 1, None).tolist() == [2**63 - 4]


def test_integers_of_chunks_that_64_bits_do_not_hold_are_an_error(da: Any) -> None:
    x = da.from_array(np.array([2**63 - 1, 1, 4]), chunks=1)
    with pytest.raises(InvalidOperationError, match="slot 0"):
        tcu.index_sum(x, np.array([0, 0, 1]), 2).compute()


def test_a_row_that_is_lost_is_noticed() -> None:
    """The comparisons of this file see one bit of one row."""
    share = share_of_rows(np.zeros(5, int), np.array([1e8, 1, 2.0**-40, -1e8, 2.0**-80], np.float32))
    assert len(share.rows) == 2
    for wrong in (
        SlotShare(share.keys[1:], share.rows[1:]),
        SlotShare(share.keys, np.nextafter(share.rows, np.inf)),
        SlotShare(share.keys[[0, 0, 1]], share.rows[[0, 0, 1]]),
    ):
        with pytest.raises(AssertionError):
            same(sums_of(wrong, 1, np.float64), sums_of(share, 1, np.float64))


# ---- Dask ----


@pytest.fixture(scope="module")
def da() -> Any:
    return pytest.importorskip("dask.array", reason='Dask is not installed: pip install "tcu[dask]"')


@pytest.mark.some(10)
@formats
@pytest.mark.parametrize("kind", KINDS)
def test_chunks_leave_no_trace(da: Any, dtype: Any, kind: str) -> None:
    rng = np.random.default_rng(3)
    with np.errstate(all="ignore"):
        x = draw(rng, 3 * N, np.dtype(dtype), kind).reshape(N, 3)
    index = rng.integers(-SLOTS, SLOTS, N)
    for function in (tcu.index_sum, tcu.index_mean):
        wanted = wanted_of(function, x, index, SLOTS)
        for columns in ((3,), (1, 2)):
            lazy = da.from_array(x, chunks=(cuts(rng, N), columns))
            for places in (index, da.from_array(index, chunks=77)):
                found = function(lazy, places, SLOTS)
                assert isinstance(found, da.Array)
                if wanted is None:
                    with pytest.raises(InvalidOperationError, match="gets inf and -inf"):
                        found.compute()
                    continue
                assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
                same(plain(found.compute()), plain(wanted))


@pytest.mark.slow
def test_shares_travel_between_processes(da: Any) -> None:
    rng = np.random.default_rng(7)
    x, index = draw(rng, N, np.dtype(np.float32), "cancelling"), rng.integers(0, SLOTS, N)
    found = tcu.index_sum(da.from_array(x, chunks=150), index, SLOTS).compute(scheduler="processes")
    same(found, tcu.index_sum(x, index, SLOTS))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_every_axis_weights_and_what_is_there(da: Any, axis: int) -> None:
    rng = np.random.default_rng(4)
    x = rng.standard_normal((12, 10, 11)).astype(np.float32)
    index = rng.integers(0, 5, x.shape[axis])
    lazy = da.from_array(x, chunks=(5, 4, 6))
    shape = list(x.shape)
    shape[axis] = 5
    initial = rng.standard_normal(shape).astype(np.float32)
    for weights in (None, rng.standard_normal(x.shape[axis]).astype(np.float32), x):
        for options in ({}, {"dtype": "float64"}, {"initial": initial}):
            wanted = tcu.index_sum(x, index, 5, axis=axis, weights=weights, **options)
            if weights is not None:
                options = {**options, "weights": da.from_array(weights, chunks=3)}
            same(plain(tcu.index_sum(lazy, index, 5, axis=axis, **options).compute()), plain(wanted))


def test_nothing_is_computed_by_a_call_and_each_chunk_once_by_a_result(da: Any) -> None:
    computed = []

    def chunk(block: Any, block_info: Any = None) -> Any:
        computed.append(block_info[None]["chunk-location"])
        return block

    x = da.ones((40, 4), chunks=(7, 2)).map_blocks(chunk, dtype=np.float64, meta=np.empty((0, 0)))
    index = da.arange(40, chunks=40) % 3
    results = [
        tcu.index_sum(x, index, 3), tcu.index_mean(x, index, 3), tcu.reduce_by_key(index, x)[1],
        tcu.embedding_gradient(x, index, 3), tcu.histogram(x, 3, (0, 2))[0],
    ]  # fmt: skip
    assert computed == []
    for result in results:
        result.compute(scheduler="synchronous")
        assert sorted(computed) == [(i, j) for i in range(6) for j in range(2)]
        computed.clear()


def test_what_is_made_of_them(da: Any) -> None:
    rng = np.random.default_rng(5)
    x, index = rng.standard_normal((300, 2)).astype(np.float16), rng.integers(0, 8, 300)
    lazy, places = da.from_array(x, chunks=(70, 1)), da.from_array(index, chunks=70)
    same(tcu.bincount(places, size=11).compute(), tcu.bincount(index, size=11))
    line = plain(x[:, 0])
    same(tcu.bincount(places, lazy[:, 0], 8).compute(), tcu.bincount(index, line, 8))
    for bins, ends in ((7, (-1, 2)), ([-3, -1, 0, 0.5, 9], None)):
        for weights, given in ((None, None), (x, lazy)):
            for found, wanted in zip(
                tcu.histogram(lazy, bins, ends, given), tcu.histogram(x, bins, ends, weights), strict=True
            ):
                same(found.compute(), wanted)
    for kind in (np.int64, np.float32, "U3"):
        keys, sums = tcu.reduce_by_key(places.astype(kind), lazy)
        unique, wanted = tcu.reduce_by_key(index.astype(kind), x)
        assert keys.compute().tolist() == unique.tolist()
        same(plain(sums.compute()), plain(wanted))
    # A key whose numbers cancel is there.
    keys, sums = tcu.reduce_by_key(da.from_array([5, 5, 7], chunks=1), da.from_array([2.0, -2, 1], chunks=1))
    assert (keys.compute().tolist(), sums.compute().tolist()) == ([5, 7], [0, 1])
    gradient = rng.standard_normal((4, 6, 3)).astype(np.float16)
    words = rng.integers(-7, 7, (4, 6))
    for padding in (None, 2):
        for initial in (None, gradient.reshape(-1, 3)[:7]):
            given: dict[str, Any] = {"padding_index": padding, "initial": initial}
            wanted = tcu.embedding_gradient(gradient, words, 7, **given)
            found = tcu.embedding_gradient(da.from_array(gradient, chunks=2), words, 7, **given)
            same(plain(found.compute()), plain(wanted))


def test_integers_are_added_as_integers(da: Any) -> None:
    rng = np.random.default_rng(6)
    index = rng.integers(0, 4, 90)
    for kind in (np.int8, np.uint8, np.int64, bool):
        x = rng.integers(0, 2 if kind is bool else 100, 90).astype(kind)
        same(tcu.index_sum(da.from_array(x, chunks=20), index, 4).compute(), tcu.index_sum(x, index, 4))
    lazy = da.from_array(x, chunks=20)
    initial = np.arange(4)
    same(tcu.index_sum(lazy, index, 4, initial=initial).compute(), tcu.index_sum(x, index, 4) + initial)
    with pytest.raises(DtypeError, match="means of integers are rounded in the host's memory alone"):
        tcu.index_mean(lazy, index, 4)
    with pytest.raises(DtypeError, match="sums of integers are int64 outside"):
        tcu.index_sum(lazy, index, 4, dtype="float32")


def test_nothing_to_add(da: Any) -> None:
    for shape in ((0,), (0, 3), (4, 0)):
        found = tcu.index_sum(da.zeros(shape, chunks=2), np.zeros(shape[0], int), 4)
        same(found.compute(), np.zeros((4, *shape[1:])))
    assert np.isnan(tcu.index_mean(da.zeros(2, chunks=1), [0, 0], 2).compute()[1])
    assert tcu.reduce_by_key(da.zeros(0, dtype=int), da.zeros(0))[1].compute().tolist() == []
    # What is out of range counts nowhere, and has no infinities.
    x = da.from_array(np.array([np.inf, -np.inf, 1]), chunks=1)
    assert tcu.index_sum(x, [7, -9, 0], 2, check=False).compute().tolist() == [1, 0]


def test_an_index_out_of_range_is_named_by_its_place_in_the_whole(da: Any) -> None:
    found = tcu.index_sum(da.ones(9, chunks=2), np.array([0, 0, 1, 1, 1, 9, 0, 0, 0]), 3)
    with pytest.raises(ParameterError, match=r"index\[5\] is 9, and the slots are 0 to 2, or -3"):
        found.compute()
    with pytest.raises(ParameterError, match=r"index\[3\] is -1, and the slots are 0 to 3:?$"):
        tcu.bincount(da.from_array([0, 1, 2, -1], chunks=2), size=4).compute()


def test_what_is_refused(da: Any) -> None:
    x = da.ones(3, chunks=2)
    unknown = x[x > 0]
    torch = pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)
    refused: list[tuple[Any, str, Any]] = [
        (ParameterError, "out with a Dask array", lambda: tcu.index_sum(x, [0, 1, 2], 3, out=np.ones(3))),
        (ParameterError, "x has chunks of unknown sizes", lambda: tcu.index_sum(unknown, [0, 1, 2], 3)),
        (ParameterError, "index is a tensor beside Dask", lambda: tcu.index_sum(x, torch.arange(3), 3)),
        (ParameterError, "size=-1: give the number of slots", lambda: tcu.index_sum(x, [0, 1, 2], -1)),
        (ShapeError, r"index has shape \(2,\): give one slot", lambda: tcu.index_sum(x, [0, 1], 3)),
        (DtypeError, "index has dtype float64", lambda: tcu.index_sum(x, x, 3)),
        (DtypeError, "complex", lambda: tcu.index_sum(x.astype(complex), [0, 1, 2], 3)),
        (DtypeError, "x has dtype float64, of which there are no weighted sums outside of one array", lambda: tcu.index_sum(x, [0, 1, 2], 3, weights=x)),
        (ShapeError, r"initial has shape \(2,\)", lambda: tcu.index_sum(x, [0, 1, 2], 3, initial=np.ones(2))),
        (DtypeError, "a result is rounded to float16", lambda: tcu.index_sum(x, [0, 1, 2], 3, dtype="int32")),
        (ParameterError, "size=None with a Dask array", lambda: tcu.bincount(x.astype(int))),
        (ShapeError, "index has shape", lambda: tcu.bincount(da.zeros((2, 2), dtype=int), size=1)),
        (ParameterError, "range=None with a Dask array", lambda: tcu.histogram(x)),
        (ParameterError, "bins='auto': give their number", lambda: tcu.histogram(x, "auto")),
        (ShapeError, r"weights have shape \(2,\): give x's", lambda: tcu.histogram(x, 3, (0, 1), x[:2])),
        (ShapeError, "keys have shape", lambda: tcu.reduce_by_key(da.zeros((3, 1)), x)),
        (ShapeError, "keys have shape", lambda: tcu.reduce_by_key(x[:2], x)),
        (ShapeError, "gradient has shape", lambda: tcu.embedding_gradient(x, [0, 1, 2], 3)),
    ]  # fmt: skip
    for error, words, call in refused:
        with pytest.raises(error, match=words):
            call()
