"""Contract: sums by index of files have the bits of the arrays', however the files are cut, interrupted and resumed.

Pieces are as small as some numbers here, so that shares meet in many ways.  What is cut off, damaged or out of range is an
error, never a wrong sum.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bits import same
from numbers_of_all_kinds import draw

import tcu
from tcu import streams
from tcu.errors import DataFileError, DtypeError, InvalidOperationError, ParameterError, ShapeError
from tcu.streams import index_sums, passes
from tcu.streams.source import ArraySource, SideBySide

N, SLOTS = 5000, 13


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "_PIECE", 1 << 12)
    monkeypatch.setattr(index_sums, "_WAITING", 50)


@pytest.fixture
def saved(tmp_path: Path) -> Any:
    """(a glob of the files into which an array is cut)"""

    def save(name: str, x: Any, parts: int = 3) -> str:
        for i, part in enumerate(np.array_split(x, parts)):
            np.save(tmp_path / f"{name}-{i}.npy", part)
        return str(tmp_path / f"{name}-*.npy")

    return save


@pytest.mark.slow(2)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("kind", ["finite", "cancelling", "special", "subnormal", "normal"])
def test_files_have_the_bits_of_arrays(saved: Any, dtype: Any, kind: str) -> None:
    rng = np.random.default_rng(1)
    with np.errstate(all="ignore"):
        x = draw(rng, N, np.dtype(dtype), kind)
    index = rng.integers(-SLOTS, SLOTS, N).astype(np.int32)
    files = saved("x", x, 4), saved("index", index, 3)
    for name in ("index_sum", "index_mean"):
        for options in ({}, {"dtype": "float16"}):
            try:
                wanted = getattr(tcu, name)(x, index, SLOTS, **options)
            except InvalidOperationError:
                with pytest.raises(InvalidOperationError, match=r"slot \d+ gets inf and -inf"):
                    getattr(streams, name)(*files, SLOTS, **options)
                continue
            same(getattr(streams, name)(*files, SLOTS, **options), wanted)


def test_what_is_made_of_them(saved: Any) -> None:
    rng = np.random.default_rng(2)
    x, weights = rng.standard_normal((2, N)).astype(np.float32)
    index = rng.integers(0, SLOTS, N)
    of_x, of_weights, of_index = saved("x", x), saved("w", weights, 2), saved("i", index, 1)
    wanted = tcu.index_sum(x, index, SLOTS, weights=weights)
    same(streams.index_sum(of_x, of_index, SLOTS, weights=of_weights), wanted)
    for size in (None, 40):
        same(streams.bincount(of_index, size=size), tcu.bincount(index, size=size))
        same(streams.bincount(of_index, of_x, size), tcu.bincount(index, x, size))
    for bins, ends in ((7, (-1, 2)), ([-3, -1, 0, 0.5, 9], None)):
        for given, array in ((None, None), (of_weights, weights)):
            found = streams.histogram(of_x, bins, ends, given)
            for mine, theirs in zip(found, tcu.histogram(x, bins, ends, array), strict=True):
                same(mine, theirs)
    for keys in (index * 7 - 9, index / np.float32(3)):
        found = streams.reduce_by_key(saved("k", keys), of_x, weights=of_weights)
        for mine, theirs in zip(found, tcu.reduce_by_key(keys, x, weights=weights), strict=True):
            same(mine, theirs)
    same(streams.index_sum(of_index, of_index, SLOTS), tcu.index_sum(index, index, SLOTS))
    few = np.where(index == 3, index, 99)
    same(
        streams.index_sum(of_x, saved("f", few), SLOTS, check=False),
        tcu.index_sum(x, few, SLOTS, check=False),
    )


def test_integers_that_64_bits_do_not_hold_are_an_error(saved: Any) -> None:
    x, index = saved("x", np.array([2**63 - 1, 4, 1])), saved("index", np.array([0, 1, 0]))
    for call in (
        lambda: streams.index_sum(x, index, 2),
        lambda: streams.bincount(index, x),
        lambda: streams.reduce_by_key(index, x),
    ):
        with pytest.raises(InvalidOperationError, match="the sum of slot 0 is 9223372036854775808"):
            call()


def test_nothing_to_add() -> None:
    none, index = ArraySource(np.zeros(0, np.float32)), ArraySource(np.zeros(0, np.int64))
    same(streams.index_sum(none, index, 3), np.zeros(3, np.float32))
    assert np.isnan(streams.index_mean(none, index, 3)).all()
    assert streams.bincount(index).tolist() == []
    assert [each.tolist() for each in streams.reduce_by_key(index, none)] == [[], []]


@pytest.mark.slow(1)
@pytest.mark.parametrize("name", ["index_sum", "index_mean"])
def test_a_pass_goes_on_from_its_checkpoint(saved: Any, tmp_path: Path, name: str) -> None:
    rng = np.random.default_rng(3)
    x, index = draw(rng, N, np.dtype(np.float64), "finite"), rng.integers(0, SLOTS, N)
    files, state, seen = (saved("x", x), saved("i", index)), tmp_path / "state", []

    def interrupt(count: int) -> None:
        seen.append(count)
        if len(seen) == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        getattr(streams, name)(*files, SLOTS, checkpoint=state, progress=interrupt)
    assert 0 < json.loads(state.read_text())["content"]["position"] < N
    rest: list[int] = []
    found = getattr(streams, name)(*files, SLOTS, checkpoint=state, progress=rest.append)
    same(found, getattr(tcu, name)(x, index, SLOTS))
    assert sum(rest) == N
    with pytest.raises(DataFileError, match="belongs to another run, with other options"):
        getattr(streams, name)(*files, SLOTS + 1, checkpoint=state)


def test_a_checkpoint_without_its_rows_is_damaged(saved: Any, tmp_path: Path, monkeypatch: Any) -> None:
    files = saved("x", np.ones(N)), saved("i", np.zeros(N, int))
    streams.index_sum(*files, 1, checkpoint=tmp_path / "state")
    monkeypatch.setattr(
        streams.Checkpoint, "load", lambda self: (N, {"index_sum 0": [["int64", 1, ""], ["float64", 1, ""]]})
    )
    with pytest.raises(DataFileError, match="is damaged"):
        streams.index_sum(*files, 1, checkpoint=tmp_path / "state")


def test_sources_of_any_dtypes_are_read_side_by_side() -> None:
    arrays = np.arange(100, dtype=np.int8), np.arange(100) / 3, np.arange(100, dtype=np.float16)
    both = SideBySide(*map(ArraySource, arrays))
    rows = list(both.strips(7, 98, 30, np.empty(30, both.dtype)))
    assert [each.size for each in rows] == [30, 30, 30, 1]
    for i, x in enumerate(arrays):
        same(np.concatenate([each.arrays[i] for each in rows]), x[7:98])


def test_what_is_refused(saved: Any) -> None:
    x, index, wide = saved("x", np.ones(9, np.float32)), saved("i", np.arange(9)), saved("w", np.ones(9))
    refused: list[tuple[Any, str, Any]] = [
        (ParameterError, r"index\[3\] is 3, and the slots are 0 to 2", lambda: streams.index_sum(x, index, 3)),
        (ParameterError, r"index\[8\] is 8, and the slots are 0 to 7", lambda: streams.bincount(index, size=8)),
        (ParameterError, "size=-1: give the number", lambda: streams.index_sum(x, index, -1)),
        (DtypeError, "index has dtype float32", lambda: streams.index_sum(x, x, 3)),
        (DtypeError, "index has dtype float32", lambda: streams.bincount(x)),
        (ShapeError, "holds 9 numbers and .* 2: give two", lambda: streams.index_sum(x, saved("s", index_of(2)), 9)),
        (DtypeError, "weights has dtype float64", lambda: streams.index_sum(x, index, 9, weights=wide)),
        (DtypeError, "complex", lambda: streams.index_sum(saved("c", np.ones(9, complex)), index, 9)),
        (DtypeError, "means of integers", lambda: streams.index_mean(index, index, 9)),
        (DtypeError, "a result is rounded to float16", lambda: streams.index_sum(x, index, 9, dtype="int32")),
        (ParameterError, "range=None with files", lambda: streams.histogram(x, 3)),
        (DataFileError, "no file matches", lambda: streams.index_sum("nothing-*.npy", index, 9)),
    ]  # fmt: skip
    for error, words, call in refused:
        with pytest.raises(error, match=words):
            call()


def index_of(n: int) -> Any:
    return np.zeros(n, int)


def test_what_whoever_adds_them_should_know_is_a_warning(saved: Any, tmp_path: Path) -> None:
    index = saved("i", np.zeros(3, int), 1)
    with open(tmp_path / "x.npy", "wb") as file:
        np.save(file, np.ones(3))
        file.write(b"more")
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        assert streams.index_sum(tmp_path / "x.npy", index, 1).tolist() == [3]
        assert streams.bincount(index, tmp_path / "x.npy").tolist() == [3]
    assert {each.filename for each in found} == {__file__}
    assert len(found) == 2
