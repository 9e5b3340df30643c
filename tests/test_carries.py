"""Contract: scans of arrays in several places.

On Dask arrays and over ranks (torchrun runs the end of this file): the scan
of each block plus the exact sum before it, checked against that law in
rational arithmetic.  In files, however they are cut, interrupted and resumed:
the bits of one array.
"""

from __future__ import annotations

import json
import math
import os
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from ranks import check_ranks, run_rank

import tcu
from tcu.errors import DataFileError, ParameterError
from tcu.ops import FSUM, OPERATIONS
from tcu.ops.exact import Tally
from tcu.surfaces.carries import carries, carry_of
from tcu.surfaces.shares import row_shares


def law(
    rows: npt.NDArray[Any], cuts: list[int], target: Any, exclusive: bool, reverse: bool
) -> npt.NDArray[Any]:
    """The scan of each row (rows, n), cut into blocks at ``cuts``."""
    result = np.empty(rows.shape, target)
    blocks = list(zip([0, *cuts], [*cuts, rows.shape[1]], strict=True))
    for i, row in enumerate(rows):
        before = Fraction(0)
        for start, stop in blocks[::-1] if reverse else blocks:
            scan = tcu.cumsum(row[start:stop], exclusive=exclusive, reverse=reverse, dtype="float64")
            wide = np.asarray(scan, np.float64) + float(before) + 0.0
            result[i, start:stop] = wide.astype(target)
            before += sum(map(Fraction, row[start:stop].astype(float).tolist()))
    return result


def test_carries_are_exact_prefixes() -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((3, 50)) * 2.0 ** rng.integers(-300, 300, (3, 50))
    blocks = np.split(x, [7, 7, 20, 49], axis=1)
    found = list(
        carries(OPERATIONS["cumsum"], [row_shares(FSUM, (block,), (1,), (None,)) for block in blocks])
    )
    at = 0
    for block, carry in zip(blocks, found, strict=True):
        assert carry.tolist() == [[math.fsum(row[:at])] for row in x]
        at += block.shape[1]
    assert math.isnan(carry_of(Tally(0, 1, 1, 0)))
    assert carry_of(Tally(0, 1, 0, 0)) == math.inf


# Dask


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_dask(exclusive: bool, reverse: bool, dtype: Any) -> None:
    da = pytest.importorskip("dask.array", reason='pip install "tcu[dask]"')
    x = (np.random.default_rng(2).standard_normal((6, 40)) * 2.0 ** np.arange(-3, 3)[:, None]).astype(dtype)
    options: Any = {"exclusive": exclusive, "reverse": reverse}
    target = np.float32 if dtype == np.float16 else dtype
    lazy = da.from_array(x, chunks=((4, 2), (7, 1, 32)))
    along = tcu.cumsum(lazy, -1, **options)
    assert (along.shape, along.dtype, along.chunks) == (x.shape, target, lazy.chunks)
    assert np.array_equal(along.compute(), law(x, [7, 8], target, **options))
    down = tcu.cumsum(lazy, axis=0, **options).compute()
    assert np.array_equal(down, law(np.ascontiguousarray(x.T), [4], target, **options).T)
    line = da.from_array(x.reshape(-1), chunks=((100, 100, 40),))
    flat = tcu.cumsum(line, **options).compute(scheduler="synchronous")
    assert np.array_equal(flat, law(x.reshape(1, -1), [100, 200], target, **options)[0])
    narrow = tcu.cumsum(line, dtype="float16", **options)
    assert np.array_equal(narrow.compute(), law(x.reshape(1, -1), [100, 200], np.float16, **options)[0])


def test_dask_refuses() -> None:
    da = pytest.importorskip("dask.array", reason='pip install "tcu[dask]"')
    with pytest.raises(ParameterError, match="out with a Dask array"):
        tcu.cumsum(da.ones(3), out=np.empty(3))
    with pytest.raises(ParameterError, match="axis 1 of an array with 1 axis"):
        tcu.cumsum(da.ones(3), axis=1)
    assert tcu.cumsum(da.ones((2, 3), chunks=1)).compute().tolist() == [1, 2, 3, 4, 5, 6]


# Files


PIECE = 1 << 16
"""Numbers of float64 that are written at a time: what three levels of the plan hold."""


@pytest.fixture
def numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> npt.NDArray[np.float64]:
    monkeypatch.chdir(tmp_path)
    x = np.random.default_rng(3).standard_normal(3 * PIECE + 12_345) * 1e3
    for i, part in enumerate(np.split(x, [999, 2 * PIECE])):
        np.save(f"part-{i}.npy", part)
    return x


def call(*arguments: str, operation: str = "cumsum") -> None:
    from tcu.cli.app import app

    app([operation, *arguments], standalone_mode=False)


@pytest.mark.slow
@pytest.mark.parametrize("operation", ["cumsum", "fcumsum"])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_files_have_the_bits_of_one_array(
    numbers: npt.NDArray[np.float64], operation: str, exclusive: bool, reverse: bool
) -> None:
    function = getattr(tcu, operation)
    flags = [name for name, given in (("--exclusive", exclusive), ("--reverse", reverse)) if given]
    options: Any = {"exclusive": exclusive, "reverse": reverse}
    for memory in ("64M", "2G"):
        call("part-*.npy", "-o", "sums.npy", "--memory", memory, *flags, operation=operation)
        assert np.load("sums.npy").tobytes() == function(numbers, **options).tobytes()
    given = ("-o", "narrow.npy", "--input-dtype", "float32", "--dtype", "float16", *flags)
    call("part-*.npy", *given, operation=operation)
    with np.errstate(over="ignore"):
        wanted = function(numbers.astype(np.float32), dtype="float16", **options)
    assert np.load("narrow.npy").tobytes() == wanted.tobytes()


@pytest.mark.slow
def test_exact_sums_in_files_go_through_inf_and_cancel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What binary64 loses on the way, and what is no number, from one piece to the next."""
    from tcu.streams import passes

    length = PIECE
    monkeypatch.setattr(passes, "_PIECE", 8 * PIECE)
    x = np.zeros(3 * length + 5)
    x[[0, 1, length, length + 1]] = 1e308, 1e-300, 1e308, -1e308
    x[[2 * length, 2 * length + 9, 3 * length]] = -1e308, np.inf, -np.inf
    np.save(tmp_path / "x.npy", x)
    tcu.streams.fcumsum(tmp_path / "x.npy", out=tmp_path / "sums.npy")
    found = np.load(tmp_path / "sums.npy")
    assert found.tobytes() == tcu.fcumsum(x).tobytes()
    assert found[[length, length + 1, 2 * length, 2 * length + 9]].tolist() == [np.inf, 1e308, 1e-300, np.inf]
    assert np.isnan(found[3 * length :]).all()


@pytest.mark.slow(1)
@pytest.mark.parametrize("operation", ["cumsum", "fcumsum"])
@pytest.mark.parametrize("reverse", [False, True])
def test_files_go_on_where_they_were(
    numbers: npt.NDArray[np.float64], monkeypatch: pytest.MonkeyPatch, operation: str, reverse: bool
) -> None:
    from tcu.streams import passes, scans

    monkeypatch.setattr(passes, "_PIECE", 8 * PIECE)
    into = partial(call, operation=operation)
    flags = ["--reverse"] if reverse else []
    wanted = getattr(tcu, operation)(numbers, reverse=reverse).tobytes()
    written: list[int] = []
    write = scans.ScanFile.write

    def failing(self: Any, start: int, result: npt.NDArray[Any]) -> None:
        if len(written) == 2:
            written.append(-1)
            raise DataFileError("the disk is full")
        written.append(start)
        write(self, start, result)

    monkeypatch.setattr(scans.ScanFile, "write", failing)
    arguments = [
        "part-*.npy",
        "-o",
        "sums.npy",
        "--checkpoint",
        "state.json",
        "--checkpoint-every",
        "0",
        *flags,
    ]
    with pytest.raises(DataFileError, match="the disk is full"):
        into(*arguments)
    assert not Path("sums.npy").exists()
    into(*arguments)
    places = [0, PIECE, 2 * PIECE, 3 * PIECE]
    if reverse:
        places = [max(0, numbers.size - PIECE - place) for place in places]
    assert written == [*places[:2], -1, *places[2:]]
    assert np.load("sums.npy").tobytes() == wanted
    into(*arguments)  # finished already
    assert np.load("sums.npy").tobytes() == wanted
    assert not Path("sums.npy.part").exists()
    Path("sums.npy").write_bytes(Path("sums.npy").read_bytes()[:-8])
    with pytest.raises(
        DataFileError, match=r"sums.npy.part, which the checkpoint continues, has .* bytes and"
    ):
        into(*arguments)
    Path("sums.npy.part").unlink()
    with pytest.raises(DataFileError, match=r"sums.npy.part, which the checkpoint continues, is not there"):
        into(*arguments)
    with pytest.raises(DataFileError, match="with other output"):
        into("part-*.npy", "-o", "other.npy", "--checkpoint", "state.json", *flags)


def test_what_carries_keep_goes_through_a_file() -> None:
    from tcu.model.scans import Carries

    rng = np.random.default_rng(5)
    carries = Carries()
    for total in rng.standard_normal(3000).tolist():
        carries.push(total)
        again = Carries()
        again.restore(json.loads(json.dumps(carries.state())))
        if total > 0:
            carries = again
        assert again.carry.hex() == carries.carry.hex()
    straight = Carries()
    for total in np.random.default_rng(5).standard_normal(3000).tolist():
        straight.push(total)
    assert straight.state() == carries.state()


def test_an_unfinished_file_does_not_stay(
    numbers: npt.NDArray[np.float64], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tcu.streams import scans

    def failing(*_: Any) -> None:
        raise DataFileError("the disk is full")

    monkeypatch.setattr(scans.ScanFile, "write", failing)
    with pytest.raises(DataFileError, match="the disk is full"):
        call("part-*.npy", "-o", "sums.npy")
    assert not list(Path().glob("sums*"))


def test_what_is_no_file_of_ours_stays(numbers: npt.NDArray[np.float64]) -> None:
    wanted = tcu.cumsum(numbers)
    Path("far").mkdir()
    Path("link.npy").symlink_to("far/sums.npy")
    call("part-*.npy", "-o", "link.npy")
    assert Path("link.npy").is_symlink()
    assert np.array_equal(np.load("far/sums.npy"), wanted)
    os.mkfifo("pipe")
    with pytest.raises(DataFileError, match="cannot write pipe: it is no regular file"):
        call("part-*.npy", "-o", "pipe")
    assert Path("pipe").is_fifo()
    # Neither an input that is named as the sums might be for a while, nor anything else.
    np.save("sums.npy.part", numbers)
    Path("sums.npy.part.npy").rename("sums.npy.part")
    before = Path("sums.npy.part").read_bytes()
    call("sums.npy.part", "-o", "sums.npy")
    assert np.array_equal(np.load("sums.npy"), wanted)
    Path("sums.npy").unlink()
    for names in ("part-*.npy", "sums.npy.part"):
        with pytest.raises(DataFileError, match=r"sums\.npy\.part, where .*, is there already: delete it"):
            call(names, "-o", "sums.npy", "--checkpoint", "state.json")
    assert Path("sums.npy.part").read_bytes() == before
    assert sorted(str(path) for path in Path().glob("sums*")) == ["sums.npy.part"]


def test_what_a_killed_process_left_is_written_anew(
    numbers: npt.NDArray[np.float64], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tcu.streams import scans

    def killed(*_: Any) -> None:
        raise DataFileError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(scans.ScanFile, "write", killed)
        with pytest.raises(DataFileError, match="killed"):
            call("part-*.npy", "-o", "sums.npy", "--checkpoint", "state.json")
    assert Path("sums.npy.part").exists()
    assert not Path("state.json").exists()
    with pytest.raises(ValueError, match="pickled"):
        np.load("sums.npy.part")  # nobody takes it for an array
    call("part-*.npy", "-o", "sums.npy", "--checkpoint", "state.json")
    assert np.array_equal(np.load("sums.npy"), tcu.cumsum(numbers))
    assert not Path("sums.npy.part").exists()


def test_files_refuse(numbers: npt.NDArray[np.float64]) -> None:
    for arguments, words in (
        (["-o", "no/sums.npy"], "there is no folder no"),
        (["-o", "sums.npy", "--checkpoint", "./sums.npy"], "is where the sums go: name two files"),
        (["-o", "sums.npy", "--gpu"], "--gpu: the running sums of files are computed on the CPU"),
        (["-o", "sums.npy", "--axis", "0"], "--axis takes one array"),
        (["-o", "sums.npy", "--axis", "0", "--checkpoint", "c"], "--checkpoint c: sums along an axis"),
    ):
        with pytest.raises(tcu.TcuError, match=words):
            call("part-*.npy", *arguments)
    assert not list(Path().glob("sums*"))


# Ranks


@pytest.mark.parametrize("ranks", [3])
def test_ranks(ranks: int) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)
    check_ranks(__file__, ranks)


def check_scans(rank: int, ranks: int) -> None:
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    rng = np.random.default_rng(4)
    x = rng.standard_normal((5, 200)).astype(np.float32)
    for exclusive in (False, True):
        for reverse in (False, True):
            options: Any = {"exclusive": exclusive, "reverse": reverse}
            cuts = np.sort(rng.integers(0, 201, ranks - 1)).tolist()
            mine = torch.from_numpy(np.split(x, cuts, axis=1)[rank].copy())
            found = tcu.distributed.cumsum(mine, 1, **options)
            wanted = law(x, cuts, np.float32, **options)
            assert np.array_equal(found.numpy(), np.split(wanted, cuts, axis=1)[rank])
            flat = torch.from_numpy(np.split(x.reshape(-1), cuts)[rank].copy())
            found = tcu.distributed.cumsum(flat, dtype=torch.float64, **options)
            wanted = law(x.reshape(1, -1), cuts, np.float64, **options)[0]
            assert np.array_equal(found.numpy(), np.split(wanted, cuts)[rank])
    mesh = init_device_mesh("cpu", (ranks,))
    step = -(-200 // ranks)
    for placements, cuts in (
        ([Shard(1)], list(range(step, 200, step))),
        ([Shard(0)], []),
        ([Replicate()], []),
    ):
        d = distribute_tensor(torch.from_numpy(x), mesh, placements)
        found = tcu.distributed.cumsum(d, 1)
        assert found.placements == d.placements
        assert np.array_equal(found.full_tensor().numpy(), law(x, cuts, np.float32, False, False))
    half = torch.ones(3, dtype=torch.bfloat16)
    assert tcu.distributed.cumsum(half, dtype=torch.bfloat16).dtype == torch.bfloat16
    with pytest.raises(ParameterError, match=r"the ranks do not agree.*rows"):
        tcu.distributed.cumsum(torch.ones(2 + (rank == 0), 4), 1)
    with pytest.raises(ParameterError, match="axis=None of a DTensor with 2 dimensions"):
        tcu.distributed.cumsum(d)


if __name__ == "__main__":
    run_rank(check_scans)
