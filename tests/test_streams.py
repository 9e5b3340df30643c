"""Contract: numbers of any length give the bits of one array, however they are stored, cut, interrupted and resumed.

A plan executed in pieces has the bits of the plan executed at once, also
where its state went through a file in between.  Folders, globs, Zarr, HDF5
and Parquet count as one array.  A run that is killed at any moment goes on
from its checkpoint to the same answer (``--kills 50``).  What is cut off,
damaged or mixed is an error, never a wrong sum.
"""

from __future__ import annotations

import io
import json
import math
import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time
from concurrent import futures
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from numbers_of_all_kinds import KINDS, draw
from patience import HANGS
from variants_and_dtypes import every_pair

import tcu
from tcu import streams
from tcu.errors import (
    DataFileError,
    DtypeError,
    ExtraMissingError,
    InvalidOperationError,
    ParameterError,
    ShapeError,
    SumTooLargeError,
    UnknownNameError,
    UnknownOptionError,
)
from tcu.model import execute as execute_module
from tcu.model import threads
from tcu.model.elements import Elements
from tcu.model.stream import PlanStream
from tcu.ops import OPERATIONS, Operation
from tcu.plan import GATHERED, make_plan
from tcu.streams import passes
from tcu.streams.source import Concatenation
from tcu.units import get_unit

NUMBERS = np.random.default_rng(0).standard_normal(10_000)


def bits(value: Any) -> bytes:
    return np.asarray(value).tobytes()


# Integers


INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool"]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_are_added_up_exactly(tmp_path: Path, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As those of an array, of one file and of several, in pieces."""
    monkeypatch.setattr(passes, "_STRIPS", 1 << 12)
    monkeypatch.setattr(passes, "_STRIP", 1 << 10)
    rng = np.random.default_rng(1)
    span = (0, 2) if dtype == "bool" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    x = rng.integers(
        *span, 10_001, dtype=np.dtype(dtype if dtype != "bool" else "uint8"), endpoint=dtype != "bool"
    )
    x = x.astype(dtype) // (1 if dtype == "bool" else 16_384 if dtype.endswith("64") else 1)
    names = [str(tmp_path / f"{i}.npy") for i in range(2)]
    np.save(names[0], x[:7001])
    np.save(names[1], x[7001:])
    for name in ("sum", "fsum", "mean", "fmean"):
        for target in (None, "float32", "float64", *(("int64",) if "mean" not in name else ())):
            found = getattr(streams, name)(names, dtype=target)
            wanted = getattr(tcu, name)(x, dtype=target)
            assert found.dtype == wanted.dtype
            assert bits(found) == bits(wanted), (name, target)


def test_integers_whose_sum_does_not_fit(tmp_path: Path) -> None:
    file = str(tmp_path / "x.npy")
    np.save(file, np.full(3, 2**62))
    with pytest.raises(SumTooLargeError, match=r"13835058055282163712"):
        streams.sum(file)
    assert streams.sum(file, dtype="float64") == 3 * 2.0**62
    assert streams.mean(file) == 2.0**62
    np.save(file, np.empty(0, np.int16))
    assert streams.sum(file) == 0
    assert np.isnan(streams.mean(file))


def test_what_integers_of_files_are_not_given_to(tmp_path: Path) -> None:
    file = str(tmp_path / "x.npy")
    np.save(file, np.arange(5))
    with pytest.raises(ParameterError, match="added up on the CPU: leave gpu out"):
        streams.fsum(file, gpu=0)
    with pytest.raises(DtypeError, match=r"x\.npy: x has dtype int64"):
        streams.norm(file)
    with pytest.raises(DtypeError, match=r"x\.npy: x has dtype int64"):
        streams.cumsum(file, out=str(tmp_path / "sums.npy"))


def test_integers_go_on_from_a_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "_STRIPS", 1 << 12)
    file, kept = str(tmp_path / "x.npy"), tmp_path / "kept"
    np.save(file, np.arange(10_000) - 3000)
    done = 0

    def stop(count: int) -> None:
        nonlocal done
        done += count
        if done > 4000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        streams.sum(file, checkpoint=kept, progress=stop)
    counts: list[int] = []
    assert streams.sum(file, checkpoint=kept, progress=counts.append) == sum(range(10_000)) - 3000 * 10_000
    assert counts[0] > 4000


# Plans in pieces


@every_pair(["float16", "float32", "float64"])
def test_a_plan_in_pieces_has_the_bits_of_the_plan(
    variant: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small pieces, so that steps wait for numbers at every level; the state is written and read now and then."""
    monkeypatch.setattr(execute_module, "_PIECE", 1 << 12)
    rng = np.random.default_rng(len(variant))
    unit = get_unit("H100")
    for n in (0, 1, 31, 4096, 50_003):
        x = rng.standard_normal(n).astype(dtype)
        elements = Elements(x)
        for block in (None, 32, 256):
            plan = make_plan(n, elements.format, unit, variant=variant, block=block)
            stream, position = PlanStream(plan, unit), 0
            while position < n:
                pieces = stream.pieces(position, int(rng.integers(1, 20_000)))
                start, stop = next(iter(pieces))
                assert start == position
                stream.merge(start, stop, stream.work(start, x[start:stop]))
                position = stop
                if rng.random() < 0.3:
                    state = json.loads(json.dumps(stream.state()))
                    stream = PlanStream(plan, unit)
                    stream.restore(state)
            assert bits(stream.value()) == bits(execute_module.execute(plan, elements, unit)), (n, block)


def test_what_a_stream_keeps_hardly_grows_with_the_numbers() -> None:
    """One number for as many blocks as a warp gathers, of 512 numbers each, in 16 characters at most."""
    unit = get_unit("H100")
    sizes = []
    for n in (1 << 22, 1 << 24):
        stream = PlanStream(
            make_plan(n, Elements(np.zeros(0, np.float64)).format, unit, variant="single-pass"), unit
        )
        most = 0
        for start, stop in stream.pieces(0, 1 << 20):
            stream.merge(start, stop, stream.work(start, np.ones(stop - start)))
            most = max(most, len(json.dumps(stream.state())))
        assert stream.value() == n
        sizes.append(most)
    assert sizes[1] - sizes[0] <= 16 * (1 << 24) // (512 * GATHERED)
    assert max(sizes) < 1 << 10


# Sources


def stored(folder: Path, kind: str, x: npt.NDArray[Any]) -> tuple[list[str], dict[str, str]]:
    """The array in files of a kind: (paths, options)."""
    if kind == "npy":
        np.save(folder / "x.npy", x)
        return [str(folder / "x.npy")], {}
    if kind in ("folder", "glob", "list"):
        for i, part in enumerate(np.array_split(x, 7)):
            np.save(folder / f"part-{i}.npy", part)
        names = sorted(str(path) for path in folder.iterdir())
        return {"folder": [str(folder)], "glob": [str(folder / "part-*.npy")], "list": names}[kind], {}
    if kind == "big-endian":
        np.save(folder / "x.npy", x.astype(x.dtype.newbyteorder(">")))
        return [str(folder / "x.npy")], {}
    if kind == "fortran":
        np.save(folder / "x.npy", np.asfortranarray(x.reshape(-1, 10)))
        return [str(folder / "x.npy")], {}
    if kind.startswith("zarr"):
        zarr = pytest.importorskip("zarr", reason='Zarr is not installed: pip install "tcu[zarr]"')
        place = zarr.open_group(str(folder / "z"), mode="w")
        shape, chunks = ((x.size,), (777,)) if kind == "zarr" else ((10, x.size // 50, 5), (3, 70, 2))
        place.create_array("a/x", shape=shape, chunks=chunks, dtype=x.dtype)[...] = x.reshape(shape)
        return [str(folder / "z")], {"key": "a/x"}
    if kind.startswith("hdf5"):
        h5py = pytest.importorskip("h5py", reason='h5py is not installed: pip install "tcu[hdf5]"')
        with h5py.File(folder / "x.h5", "w") as file:
            shape = (x.size,) if kind == "hdf5" else (20, x.size // 20)
            file.create_dataset("g/x", data=x.reshape(shape), chunks=None if kind == "hdf5" else (7, 30))
            file.create_dataset("names", data=np.array([b"a"]))
        return [str(folder / "x.h5")], {}
    arrow = pytest.importorskip("pyarrow", reason='PyArrow is not installed: pip install "tcu[parquet]"')
    import pyarrow.parquet as parquet

    for i, part in enumerate(np.array_split(x, 3)):
        table = arrow.table({"x": part, "label": ["a"] * part.size})
        parquet.write_table(table, folder / f"{i}.parquet", row_group_size=999)
    return [str(folder)], {"column": "x"}


STORES = [
    "npy",
    "folder",
    "glob",
    "list",
    "big-endian",
    "fortran",
    "zarr",
    "zarr-3d",
    "hdf5",
    "hdf5-2d",
    "parquet",
]


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_every_store_is_the_same_array(kind: str, dtype: str, tmp_path: Path) -> None:
    x = NUMBERS.astype(dtype)
    paths, options = stored(tmp_path, kind, x)
    source = streams.open_files(paths, memory=1 << 16, **options)  # half of a slab's worth
    assert (source.n, source.dtype) == (x.size, x.dtype)
    rng = np.random.default_rng(1)
    for _ in range(20):
        start, stop = np.sort(rng.integers(0, x.size + 1, 2)).tolist()
        assert np.array_equal(source.read(start, stop), x[start:stop])
        out = np.empty(stop - start, x.dtype)
        assert np.array_equal(source.read(start, stop, out), x[start:stop])
    assert json.loads(json.dumps(source.identity())) == source.identity()
    plan = make_plan(x.size, Elements(x).format, get_unit("H100"))
    totals = [streams.PlannedTotal(plan, get_unit("H100")), streams.ExactTotal(), streams.Magnitudes()]
    streams.run(source, totals, memory=1 << 26)
    assert bits(np.asarray(totals[0].value()).astype(tcu.sum(x).dtype)) == bits(tcu.sum(x))
    assert bits(totals[1].value(x.dtype)) == bits(tcu.fsum(x, dtype=x.dtype))
    assert totals[2].bound(plan, get_unit("H100"), tcu.sum(x).dtype) == tcu.error_bound(x)


@pytest.mark.parametrize("dtype", [">f4", "<f8"])
def test_strips_are_the_numbers_whatever_the_files(dtype: str, tmp_path: Path) -> None:
    """Each of the size that was asked for but the last; in one piece of memory, which begins with a line of the cache."""
    rng = np.random.default_rng(7)
    x = NUMBERS.astype(dtype)
    for i, part in enumerate(np.split(x, [0, 1, 500, 500, 3333, 9000])):
        np.save(tmp_path / f"{i}.npy", part)
    source = streams.open_files(tmp_path)
    for _ in range(50):
        start, stop = np.sort(rng.integers(0, x.size + 1, 2)).tolist()
        size = int(rng.integers(1, 4000))
        room = passes._room(size, source.dtype)
        assert room.ctypes.data % 64 == 0
        at = start
        for numbers in source.strips(start, stop, size, room):
            assert numbers.size == min(size, stop - at)
            assert np.array_equal(numbers, x[at : at + numbers.size])
            assert np.shares_memory(numbers, room)
            at += numbers.size
        assert at == stop


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_totals_of_numbers_of_all_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "_STRIPS", 1 << 13)
    monkeypatch.setattr(passes, "_STRIP", 3000)
    rng = np.random.default_rng(2)
    for kind in KINDS:
        for dtype in (np.float16, np.float32, np.float64):
            x = draw(rng, 9001, dtype, kind)
            exact, magnitudes = streams.ExactTotal(), streams.Magnitudes()
            streams.run(streams.ArraySource(x), [exact, magnitudes], memory=1 << 26)
            assert exact.sum == tcu.ExactSum().add(x)
            assert magnitudes.sum == tcu.ExactSum().add(np.abs(x))
            again = streams.Magnitudes()
            again.restore(json.loads(json.dumps(magnitudes.state())))
            assert (again.sum, bits(again.top)) == (magnitudes.sum, bits(magnitudes.top))


def test_boxes_of_any_array_follow_one_another(tmp_path: Path) -> None:
    from tcu.streams.chunked import BoxSource
    from tcu.streams.source import SlabCache

    rng = np.random.default_rng(3)
    for _ in range(100):
        shape = tuple(rng.integers(1, 9, rng.integers(0, 4)).tolist())
        x = rng.standard_normal(shape)
        chunks = tuple(int(rng.integers(1, length + 3)) for length in shape) or None
        source = BoxSource("x", shape, chunks, x.dtype, lambda where, x=x: x[where] if x.shape else x, list,
                           SlabCache(int(rng.integers(8, 2000))))  # fmt: skip
        at, seen = 0, []
        while at < source.n:
            number, start, stop = source.slab_of(at)
            assert (start, source.slab_of(stop - 1)) == (at, (number, start, stop))
            seen.append(source.load(number))
            at = stop
        assert np.array_equal(np.concatenate(seen), x.reshape(-1))


def test_a_chunk_is_decoded_once(tmp_path: Path) -> None:
    paths, options = stored(tmp_path, "zarr", NUMBERS)
    source = streams.open_files(paths, **options)
    calls = []
    load = source.load
    source.load = lambda slab: calls.append(slab) or load(slab)  # type: ignore[attr-defined]
    for start in range(0, NUMBERS.size, 100):
        source.read(start, min(start + 100, NUMBERS.size))
    assert len(calls) == len(set(calls))


# The command


def program(*arguments: Any, folder: Path, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tcu", *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=HANGS, check=False, cwd=folder, **options
    )


def run(*arguments: Any) -> tuple[int, str]:
    """Exit code and what was printed, in this process."""
    from typer.testing import CliRunner

    from tcu.cli.app import app

    result = CliRunner().invoke(app, [*map(str, arguments)])
    return result.exit_code, result.output


def answer(*arguments: Any) -> dict[str, Any]:
    code, out = run(*arguments, "--json")
    assert code == 0, out
    return json.loads(out)  # type: ignore[no-any-return]


@pytest.mark.parametrize("kind", STORES)
def test_the_command_gives_the_same_answer_for_every_store(kind: str, tmp_path: Path) -> None:
    paths, options = stored(tmp_path, kind, NUMBERS)
    flags = [part for name, value in options.items() for part in (f"--{name}", value)]
    document = answer("sum", *paths, *flags)
    assert document["result"] == tcu.sum(NUMBERS)
    assert document["exact"] == math.fsum(NUMBERS)
    assert document["error_bound"] == tcu.error_bound(NUMBERS)
    exact = answer("sum", "--exact", *paths, *flags)
    assert (exact["n"], exact["result"]) == (NUMBERS.size, math.fsum(NUMBERS))
    half = answer("sum", "--exact", *paths, *flags, "--input-dtype", "float16", "--dtype", "float64")
    assert half["result"] == math.fsum(NUMBERS.astype(np.float16).astype(float))


def test_text_and_archives_take_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", NUMBERS)
    np.savez("b.npz", NUMBERS)
    Path("c.txt").write_text("1 2 3")
    assert answer("sum", "--exact", "a.npy", "b.npz", "c.txt")["result"] == math.fsum([*NUMBERS, *NUMBERS, 6])


@pytest.mark.slow
def test_a_pipe_is_read_a_piece_at_a_time(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", NUMBERS)
    data = (tmp_path / "x.npy").read_bytes()
    read, write = os.pipe()

    def slowly() -> None:
        with os.fdopen(write, "wb") as out:
            for at in range(0, len(data), 7001):
                out.write(data[at : at + 7001])
                out.flush()

    thread = threading.Thread(target=slowly)
    thread.start()
    with os.fdopen(read, "rb") as pipe:
        done = program("sum", "--exact", "--json", "-", folder=tmp_path, stdin=pipe)
    thread.join()
    assert json.loads(done.stdout)["result"] == math.fsum(NUMBERS)
    (tmp_path / "cut.npy").write_bytes(data[:-8])
    with subprocess.Popen(["cat", tmp_path / "cut.npy"], stdout=subprocess.PIPE) as cat:
        done = program("sum", "--exact", "-", folder=tmp_path, stdin=cat.stdout)
    assert done.returncode == 2
    assert "standard input ended 8 bytes before the end of its 10,000 numbers" in done.stderr


@pytest.mark.parametrize("text", ["1", "12M", "1.5G", "70MB", "2T", "100MiB"])
def test_sizes(text: str) -> None:
    from tcu.cli.options import size_of

    wanted = {"1": 1, "12M": 12 << 20, "1.5G": 3 << 29, "70MB": 70 << 20, "2T": 2 << 40, "100MiB": 100 << 20}
    assert size_of(text) == wanted[text]


# What is refused


def test_what_the_command_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tcu.cli import main

    monkeypatch.chdir(tmp_path)
    np.save("x.npy", NUMBERS)
    np.save("y.npy", NUMBERS.astype(np.float32))
    (tmp_path / "empty").mkdir()
    (tmp_path / "mixed").mkdir()
    np.save("mixed/a.npy", NUMBERS)
    Path("mixed/b.parquet").write_bytes(b"PAR1")
    for arguments, words in (
        (["none-*.npy"], "no file matches none-*.npy"),
        (["empty"], "empty: Is a directory: name a file in it"),
        (["mixed"], "the folder mixed holds npy and parquet files: name those that you mean with a glob"),
        (["x.npy", "y.npy"], "x.npy holds float64 and y.npy float32"),
        (["x.npy", "--memory", "lots"], "--memory lots: give a size such as 512M"),
        (["x.npy", "--memory", "1M"], "memory of 1,048,576 bytes: give 67,108,864 (64M) at least"),
        (["x.npy", "--exact", "--unit", "V100"], "--exact rounds once"),
        (["x.npy", "--exact", "--axis", "0", "-o", "o.npy"], "--exact and --axis"),
        (["x.npy", "--axis", "0", "-o", "o.npy", "--checkpoint", "c"], "--checkpoint c: sums along an axis"),
        (["x.npy", "x.npy", "--axis", "0", "-o", "o.npy"], "--axis takes one array"),
        (["x.npy", "--checkpoint", "no/c"], "there is no folder no"),
        (
            ["mixed/b.parquet"],
            "cannot read mixed/b.parquet as Parquet" if find_spec("pyarrow") else "needs pyarrow",
        ),
    ):
        assert main(["sum", *arguments]) == 2, arguments
        assert words in " ".join(capsys.readouterr().err.split())


def test_a_file_that_is_cut_off_or_changes(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, NUMBERS)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with pytest.raises(DataFileError, match="the last 1 bytes of its 10,000 numbers are missing"):
        streams.open_files(path)
    path.write_bytes(whole)
    source = streams.open_files(path)
    path.write_bytes(whole[:500])
    with pytest.raises(DataFileError, match="changed while it was read"):
        source.read(0, 10)
    path.unlink()
    with pytest.raises(DataFileError, match=r"cannot read .*x\.npy at byte 128"):
        source.read(0, 10)


def test_headers_that_cannot_be(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    for order in (np.ascontiguousarray, np.asfortranarray):
        np.save(path, order(NUMBERS.reshape(100, 100)))
        whole = path.read_bytes()
        path.write_bytes(whole[:-1])
        with pytest.raises(DataFileError, match="the last 1 bytes of its 10,000 numbers are missing"):
            streams.open_files(path)
        path.write_bytes(whole.replace(b"(100, 100)", b"(-10, 100)"))
        with pytest.raises(DataFileError, match=r"not a complete .npy file \(its shape is \(-10, 100\)\)"):
            streams.open_files(path)
        path.write_bytes(whole + b"more")
        assert streams.open_files(path).remarks == (
            f"{path}: 4 bytes behind its 10,000 numbers are not read",
        )


def test_boxes_of_an_array_in_fortran_order(tmp_path: Path) -> None:
    """Of any shape, with any room; and never by a map of the whole file, which a limit of memory would refuse."""
    rng = np.random.default_rng(8)
    for _ in range(60):
        shape = tuple(rng.integers(1, 9, rng.integers(2, 5)).tolist())
        x = rng.standard_normal(shape).astype([">f4", "<f8"][int(rng.integers(2))])
        np.save(tmp_path / "x.npy", np.asfortranarray(x))
        source = streams.open_files(tmp_path / "x.npy", memory=int(rng.integers(64, 4000)))
        assert not isinstance(source, streams.ArraySource)
        start, stop = np.sort(rng.integers(0, x.size + 1, 2)).tolist()
        assert np.array_equal(source.read(start, stop), x.reshape(-1)[start:stop])
    np.save(tmp_path / "x.npy", np.asfortranarray(NUMBERS.reshape(100, 100)))
    source = streams.open_files(tmp_path / "x.npy")
    os.utime(tmp_path / "x.npy", (1, 1))
    with pytest.raises(DataFileError, match=r"x\.npy changed while it was read: begin again once nobody"):
        source.read(0, 1)


class Broken(streams.ExactTotal):
    """Cannot work on what comes late."""

    def work(self, start: int, numbers: npt.NDArray[Any], share: Any = None) -> Any:
        if start >= 1024:
            raise MemoryError
        return super().work(start, numbers, share)


def test_nobody_waits_for_a_pipe_whose_reader_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "_STRIPS", 1 << 14)
    monkeypatch.setattr(passes, "_STRIP", 1 << 10)
    file = io.BytesIO()
    np.save(file, NUMBERS)
    file.seek(6)
    source = streams.NpyPipe(b"\x93NUMPY", file, "pipe")
    with pytest.raises(MemoryError):
        streams.run(source, [Broken()], memory=1 << 26)


def test_hdf5_datasets_that_are_no_numbers(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file["x"] = np.arange(5.0)
        file["pairs"] = np.zeros(5, [("a", "f4"), ("b", "f8")])
        file["none"] = h5py.Empty("f8")
        file["names"] = np.array([b"a"])
        file["nowhere"] = h5py.SoftLink("/lost")
        file["also"] = h5py.SoftLink("/x")
        chunked = file.create_dataset("chunked", shape=(100,), chunks=(10,), dtype="f8", fillvalue=7.0)
        chunked[:50] = 1
    for key, words in (
        ("pairs", r"pairs holds items of dtype .*'a'.*no real numbers: choose another array: chunked, x"),
        ("none", "none holds no items"),
        ("/names", r"names holds items of dtype \|S1"),
    ):
        with pytest.raises(DataFileError, match=words):
            streams.open_files(path, key=key)
    with pytest.raises(UnknownNameError, match=r"unknown array in .*'nowhere'.*available: chunked, x"):
        streams.open_files(path, key="nowhere")
    for key in ("x", "/x", "also"):
        assert streams.open_files(path, key=key).read(0, 5).sum() == 10
    source = streams.open_files(path, key="chunked")
    assert "5 of 10 chunks are not stored and count as the fill value, 7.0" in source.remarks[0]
    assert source.read(0, 100).sum() == 50 + 50 * 7


@pytest.mark.parametrize("kind", ["hdf5", "parquet"])
def test_files_that_change_while_they_are_read(kind: str, tmp_path: Path) -> None:
    paths, options = stored(tmp_path, kind, NUMBERS)
    source = streams.open_files(paths, **options)
    for path in tmp_path.iterdir():
        os.utime(path, (1, 1))
    with pytest.raises(
        DataFileError, match="changed while it was read: begin again once nobody writes to it"
    ):
        source.read(0, 10)


def test_damaged_chunks_and_missing_values(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = arrow.table({"x": arrow.array([1.0, None, 2.0]), "y": [1, 2, 3], "s": ["a", "b", "c"]})
    parquet.write_table(table, tmp_path / "x.parquet")
    source = streams.open_files(tmp_path / "x.parquet", column="x")
    with pytest.raises(DataFileError, match="1 values are missing in row group 0"):
        source.read(0, 3)
    with pytest.raises(UnknownNameError, match=r"unknown column in .*available: x, y, s"):
        streams.open_files(tmp_path / "x.parquet", column="z")
    with pytest.raises(DataFileError, match="2 columns of numbers: choose one with --column: x, y"):
        streams.open_files(tmp_path / "x.parquet")
    with pytest.raises(DataFileError, match="column s, has type string"):
        streams.open_files(tmp_path / "x.parquet", column="s")
    parquet.write_table(arrow.table({"x": np.ones(100_000)}), tmp_path / "large.parquet")
    with pytest.raises(ParameterError, match=r"row group 0 holds 100,000 numbers.*--memory"):
        streams.open_files(tmp_path / "large.parquet", memory=1 << 20)


def test_zarr_chunks_that_are_lost_or_damaged(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    array = zarr.create_array(str(tmp_path / "z"), shape=(100,), chunks=(10,), dtype=float, fill_value=3.0)
    array[:50] = 1.0
    source = streams.open_files(tmp_path / "z")
    assert "5 of 10 chunks are not stored and count as the fill value, 3.0" in source.remarks[0]
    code, out = run("sum", "--exact", tmp_path / "z")
    assert code == 0
    assert "200.0" in out
    chunk = tmp_path / "z" / "c" / "0"
    chunk.write_bytes(b"nonsense")
    with pytest.raises(DataFileError, match=r"cannot read .*z\[0:.*restore these chunks"):
        streams.open_files(tmp_path / "z").read(0, 5)
    with pytest.raises(DataFileError, match=r"--key a: .* is one Zarr array"):
        streams.open_files(tmp_path / "z", key="a")


def test_an_extra_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.h5").write_bytes(b"\x89HDF\r\n\x1a\n")
    (tmp_path / "x.parquet").write_bytes(b"PAR1")
    (tmp_path / "z").mkdir()
    (tmp_path / "z" / "zarr.json").write_text("{}")
    for name, library, extra in (
        ("x.h5", "h5py", "hdf5"), ("x.parquet", "pyarrow.parquet", "parquet"), ("z", "zarr", "zarr"),
    ):  # fmt: skip
        monkeypatch.setitem(sys.modules, library, None)
        with pytest.raises(ExtraMissingError, match=rf'pip install "tcu\[{extra}\]"'):
            streams.open_files(tmp_path / name)


# Checkpoints


class Failing(streams.ArraySource):
    """Fails once at a position."""

    def __init__(self, x: npt.NDArray[Any], at: int) -> None:
        super().__init__(x)
        self.at: int | None = at

    def read(self, start: int, stop: int, out: Any = None) -> npt.NDArray[Any]:
        if self.at is not None and start >= self.at:
            raise DataFileError("the disk is gone")
        return super().read(start, stop, out)


def test_after_a_failure_no_further_piece_is_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "_STRIPS", 1 << 9)
    monkeypatch.setenv("TCU_NUM_THREADS", "1")  # and two readers
    begun: list[int] = []
    failed, given_up = threading.Event(), threading.Event()

    class Slow(Failing):
        def read(self, start: int, stop: int, out: Any = None) -> npt.NDArray[Any]:
            begun.append(start)
            if start > 640:  # these are read when the failure is known, to the thread that called or to all
                of_caller = threading.current_thread() is threading.main_thread()
                assert (failed if of_caller else given_up).wait(HANGS)
                time.sleep(0.05 * of_caller)  # by then all before the failure are read
            try:
                return super().read(start, stop, out)
            except DataFileError:
                failed.set()
                raise

    def wait(*arguments: Any) -> Any:
        given_up.set()
        return futures.wait(*arguments)

    monkeypatch.setattr(threads, "wait", wait)

    with pytest.raises(DataFileError, match="the disk is gone"):
        streams.run(Slow(NUMBERS, 640), [streams.ExactTotal()], memory=1 << 26)
    assert max(begun) <= 640 + 3 * 64, (
        "two were under way, and one more may follow, of six that were asked for"
    )


@pytest.mark.parametrize("seconds", [0.0, 1e9])
def test_a_pass_that_failed_goes_on_where_it_was(
    tmp_path: Path, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passes, "_PIECE", 1 << 12)
    monkeypatch.setattr(execute_module, "_PIECE", 1 << 9)
    plan = make_plan(NUMBERS.size, Elements(NUMBERS).format, get_unit("H100"))
    task = {"operation": "test"}
    source = Failing(NUMBERS, 6000)
    for attempt in range(2):
        exact, planned = streams.ExactTotal(), streams.PlannedTotal(plan, get_unit("H100"))
        seen: list[int] = []
        checkpoint = streams.Checkpoint(tmp_path / "state", task, seconds)
        if attempt == 0:
            with pytest.raises(DataFileError, match="the disk is gone"):
                streams.run(
                    source, [planned, exact], memory=1 << 26, checkpoint=checkpoint, progress=seen.append
                )
            assert 0 < sum(seen) < NUMBERS.size
            source.at = None
    streams.run(source, [planned, exact], memory=1 << 26, checkpoint=checkpoint, progress=seen.append)
    assert seen[0] > 1
    assert sum(seen) == exact.sum.n == NUMBERS.size
    assert bits(exact.value()) == bits(np.float64(math.fsum(NUMBERS)))
    assert bits(planned.value()) == bits(tcu.sum(NUMBERS))


class Failed(streams.ExactTotal):
    """A total that cannot take the third piece, for whatever reason."""

    name = "failed"
    broken = True

    def merge(self, start: int, stop: int, share: Any) -> None:
        if self.broken and self.sum.n > 4000:
            raise DataFileError("no room")
        super().merge(start, stop, share)


ARRAYS = tuple(np.random.default_rng(9).standard_normal(100_003).astype(ml_dtypes.bfloat16) for _ in "xy")


@pytest.mark.parametrize(
    "operation", [each for each in OPERATIONS.values() if each.kind == "reduce" and each.in_parts], ids=str
)
@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float64"])
def test_an_operation_that_was_interrupted_goes_on(
    operation: Operation, dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through strips of strips' remains: small ones, of sources that end in the middle of one."""
    monkeypatch.setattr(passes, "_STRIPS", 1 << 16)
    monkeypatch.setattr(passes, "_STRIP", 10_000)
    monkeypatch.setattr(passes, "_PIECE", 1 << 12)
    function = streams.function_of(operation)
    arrays = [x.astype(tcu.formats.get_format(dtype).dtype) for x in ARRAYS[: len(operation.operands)]]
    files = [
        Concatenation([streams.ArraySource(part) for part in np.split(x, cuts)], "both")
        for x, cuts in zip(arrays, ([17, 17, 60_000], [4096]), strict=False)
    ]
    kept = tmp_path / "state.json"
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            function(*files, checkpoint=kept, progress=interrupt)
    assert 0 < json.loads(kept.read_text())["content"]["position"] < 100_003
    expected = getattr(tcu, operation.name)(*arrays)
    assert bits(function(*files, checkpoint=kept)) == bits(expected) == bits(function(*files))
    with pytest.raises(DataFileError, match="belongs to another run, with other dtype and options"):
        function(*files, checkpoint=kept, dtype="float16")


def interrupt(count: int) -> None:
    raise KeyboardInterrupt


def test_what_functions_of_files_refuse(tmp_path: Path) -> None:
    x, y = streams.ArraySource(np.ones(3), "x"), streams.ArraySource(np.ones(4), "y")
    with pytest.raises(ShapeError, match="x holds 3 numbers and y 4: give two with as many"):
        streams.dot(x, y)
    with pytest.raises(DtypeError, match="x holds float64 and z float32: save both in one dtype"):
        streams.fdot(x, streams.ArraySource(np.ones(3, np.float32), "z"))
    with pytest.raises(DtypeError, match="i: x has dtype int64"):
        streams.norm(streams.ArraySource(np.arange(3), "i"))
    with pytest.raises(
        UnknownOptionError,
        match=r"sum has no option 'out': its options are .*, beside memory, checkpoint, progress, gpu",
    ):
        streams.sum(x, out=tmp_path / "s.npy")
    for options in ({}, {"out": tmp_path / "s.npy", "gpu": 0}):
        with pytest.raises(ParameterError, match="cumsum of files is computed on the CPU and goes to a file"):
            streams.cumsum(x, **options)
    for call, message in (
        (lambda: streams.cumsum(x, out=5), "^out=5: give the path of a file$"),
        (lambda: streams.fsum(x, checkpoint=5), "^checkpoint=5: give the path of a file$"),
        (
            lambda: streams.bincount(streams.ArraySource(np.arange(3), "i"), checkpoint=5),
            "^checkpoint=5: give the path of a file$",
        ),
        (
            lambda: streams.sum(x, progress=5),
            "^progress=5: give a function that takes how many numbers are done$",
        ),
    ):
        with pytest.raises(ParameterError, match=message):
            call()
    np.save(tmp_path / "x.npy", np.ones(3))
    for given in (tmp_path / "x.npy", str(tmp_path / "*.npy"), streams.open_files(tmp_path)):
        with pytest.raises(ParameterError, match=r"x\.npy is an input, and an output never replaces one"):
            streams.cumsum(given, out=tmp_path / "x.npy")
    for function, count in ((streams.norm, 1), (streams.fnorm, 1), (streams.dot, 2), (streams.fdot, 2)):
        with pytest.raises(ParameterError, match=r"products.*are added up on the CPU: leave the GPU out"):
            function(*[x] * count, gpu=0)
    with open(tmp_path / "x.npy", "ab") as file:
        file.write(b"more")
    with pytest.warns(UserWarning, match="4 bytes behind its 3 numbers are not read"):
        assert streams.sum(tmp_path / "x.npy") == 3
    with pytest.raises(InvalidOperationError, match="1 inf and 1 -inf"):
        streams.fmean(streams.ArraySource(np.array([np.inf, -np.inf])))


def test_a_piece_that_only_some_totals_took_is_taken_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passes, "_STRIPS", 1 << 12)
    source = streams.ArraySource(NUMBERS)
    exact, failed = streams.ExactTotal(), Failed()
    checkpoint = streams.Checkpoint(tmp_path / "state", {}, 0.0)
    with pytest.raises(DataFileError, match="no room"):
        streams.run(source, [exact, failed], memory=1 << 26, checkpoint=checkpoint)
    assert exact.sum.n > failed.sum.n
    exact, failed = streams.ExactTotal(), Failed()
    failed.broken = False
    streams.run(source, [exact, failed], memory=1 << 26, checkpoint=checkpoint)
    assert exact.sum == failed.sum == tcu.ExactSum().add(NUMBERS)


def test_checkpoints_that_do_not_belong(tmp_path: Path) -> None:
    state = tmp_path / "state"
    first = streams.Checkpoint(state, {"operation": "sum", "files": ["a"]})
    assert first.load() is None
    first.save(5, {"exact": "x"})
    assert first.load() == (5, {"exact": "x"})
    assert [path.name for path in tmp_path.iterdir()] == ["state"]
    with pytest.raises(DataFileError, match="belongs to another run, with other files: delete it"):
        streams.Checkpoint(state, {"operation": "sum", "files": ["b"]}).load()
    text = state.read_text()
    for damaged in (text[:-9], text.replace('"position": 5', '"position": 6'), text.replace("content", "c")):
        state.write_text(damaged)
        with pytest.raises(DataFileError, match=r"is damaged .*: delete it to begin anew"):
            first.load()
    state.write_text(text.replace("checkpoint 2", "checkpoint 1"))
    with pytest.raises(
        DataFileError, match="of version 1, and this tcu keeps version 2: go on with the tcu that"
    ):
        first.load()
    np.save(tmp_path / "x.npy", NUMBERS)
    for data in (
        b"",
        b"[]",
        b"1 2 3",
        (tmp_path / "x.npy").read_bytes(),
    ):  # somebody's data, named by mistake
        state.write_bytes(data)
        with pytest.raises(DataFileError, match=r"state is no checkpoint of tcu: name another file"):
            first.load()
    with pytest.raises(DataFileError, match="there is no folder"):
        streams.Checkpoint(tmp_path / "no" / "state", {})
    state.unlink()
    state.mkdir()
    with pytest.raises(DataFileError, match=r"cannot read the checkpoint .*: Is a directory: name another"):
        first.load()
    with pytest.raises(DataFileError, match="cannot write"):
        first.save(1, {})


def test_a_finished_run_answers_again_and_notices_other_files(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", NUMBERS)
    arguments = ("sum", tmp_path / "x.npy", "--checkpoint", tmp_path / "state", "--input-dtype", "float16")
    first = answer(*arguments)
    assert answer(*arguments) == first
    code, _ = run(*arguments, "--variant", "recurrence")
    assert code != 0
    os.utime(tmp_path / "x.npy", (1, 1))
    from tcu.cli.app import app

    with pytest.raises(DataFileError, match="with other files"):
        app([*map(str, arguments)], standalone_mode=False)


@pytest.mark.parametrize(
    ("position", "states"), [(-1, None), (10**6, None), (0, {}), (0, {"exact": "AAAA"}), (0, {"exact": 5})]
)
def test_a_checkpoint_that_holds_something_else(tmp_path: Path, position: int, states: Any) -> None:
    exact = streams.ExactTotal()
    state = streams.Checkpoint(tmp_path / "state", {})
    state.save(position, {"exact": exact.state()} if states is None else states)
    with pytest.raises(DataFileError, match=r"is damaged .*: delete it to begin anew"):
        streams.run(streams.ArraySource(NUMBERS), [exact], memory=1 << 26, checkpoint=state)


@pytest.mark.parametrize("kind", [*STORES, "text", "npz"])
def test_numbers_that_changed_between_two_runs_are_noticed(kind: str, tmp_path: Path) -> None:
    """As many as before, in files of the same names and sizes."""

    def store(x: npt.NDArray[Any]) -> tuple[list[str], dict[str, str]]:
        if kind == "text":
            np.savetxt(tmp_path / "x.txt", x)
            return [str(tmp_path / "x.txt")], {}
        if kind == "npz":
            np.savez(tmp_path / "x.npz", x=x)
            return [str(tmp_path / "x.npz")], {}
        (tmp_path / "data").mkdir(exist_ok=True)
        return stored(tmp_path / "data", kind, x)

    paths, options = store(NUMBERS)
    flags = [each for name, value in options.items() for each in (f"--{name}", value)]
    command = ("sum", "--exact", *paths, *flags, "--checkpoint", str(tmp_path / "state"))
    assert answer(*command)["result"] == answer(*command)["result"] == math.fsum(NUMBERS)
    changed = NUMBERS.copy()
    changed[-1] += 1
    store(changed)
    from tcu.cli.app import app

    with pytest.raises(DataFileError, match="belongs to another run, with other files"):
        app([*command, "--json"], standalone_mode=False)


def test_that_numbers_became_inf_is_not_forgotten(tmp_path: Path) -> None:
    from tcu.cli.data import Changes, DataElements
    from tcu.formats import get_format

    elements = DataElements(np.array([1e9]), get_format("binary16"))
    elements.read(0, 1)
    state = Changes(elements).state()
    fresh = DataElements(np.array([1.0]), get_format("binary16"))
    Changes(fresh).restore(state)
    assert fresh.overflowed
    assert fresh.changed


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("large")
    rng = np.random.default_rng(5)
    for i in range(4):
        np.save(folder / f"{i}.npy", rng.standard_normal(3_000_000) * 2.0 ** rng.integers(-30, 30, 3_000_000))
    return folder


@pytest.mark.some(1)
@pytest.mark.slow
@pytest.mark.parametrize("exact", [True, False])
def test_killed_at_random_moments(
    large: Path, tmp_path: Path, exact: bool, request: pytest.FixtureRequest
) -> None:
    """kill -9, again and again until a run ends by itself; the answer has the bits of an undisturbed run.

    The first run is killed as soon as there is a checkpoint, so that there is one to go on from.
    """
    kills = request.config.getoption("--kills")
    flags = ["--exact"] if exact else []
    undisturbed = program("sum", *flags, large, "--json", folder=tmp_path)
    assert undisturbed.returncode == 0, undisturbed.stderr
    start = time.perf_counter()
    program("sum", *flags, large, "--json", folder=tmp_path)
    whole = time.perf_counter() - start
    rng = random.Random(6)
    killed = resumed = 0
    while killed < kills:
        state = tmp_path / f"state-{killed}"
        command = [sys.executable, "-m", "tcu", "sum", *flags, str(large), "--json", "--checkpoint", str(state),
                   "--checkpoint-every", "0", "--memory", "64M"]  # fmt: skip
        moments = [0.0, *(whole * rng.uniform(0.4, 1.2) for _ in range(rng.randint(0, 4)))]
        for moment in (*moments, None):
            resumed += state.exists()
            with subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            ) as process:
                while not state.exists() and process.poll() is None:
                    time.sleep(0.001)
                try:
                    out, err = process.communicate(timeout=moment)
                except subprocess.TimeoutExpired:
                    process.send_signal(signal.SIGKILL)
                    process.communicate()
                    killed += 1
                    continue
            assert process.returncode == 0, err
            assert out == undisturbed.stdout
            break
        state.unlink()
    assert resumed > 0


@pytest.mark.slow
def test_a_file_larger_than_the_memory_allowed(tmp_path: Path) -> None:
    """Sparse, so that it takes no time to write; benchmarks/file_rate.py does the same with 16 GB under 2 GB."""
    n = 3 * (1 << 29) // 8
    path = tmp_path / "zeros.npy"
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": (n,)})
        header = file.tell()
        file.truncate(header + 8 * n)
        file.seek(header + 8 * (n - 1))
        file.write(np.float64(2.5).tobytes())
    limit = 5 << 28  # 1.25 GiB of address space

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    done = program("sum", "--exact", "--json", path, "--memory", "128M", folder=tmp_path, preexec_fn=limited)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["result"] == 2.5
    assert json.loads(done.stdout)["n"] == n
    refused = subprocess.run(
        [sys.executable, "-c", f"import numpy; numpy.fromfile({str(path)!r}, float)"], preexec_fn=limited,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "Error" in refused.stderr, "the limit holds"


@pytest.mark.parametrize("given", [None, 5, np.ones(3), ["a.npy", 3]], ids=repr)
def test_what_is_no_path_is_refused(given: Any) -> None:
    with pytest.raises(
        ParameterError, match="where files are summed: give a path, a glob or several; arrays"
    ):
        streams.fsum(given)


def test_no_files_and_no_number_of_bytes_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.ones(3))
    with pytest.raises(ParameterError, match="no files: give a path, a glob or several"):
        streams.fsum([])
    with pytest.raises(ParameterError, match="memory='1GB': give a number of bytes"):
        streams.fsum(tmp_path / "a.npy", memory="1GB")
