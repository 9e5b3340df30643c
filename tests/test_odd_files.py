"""Array files that are odd, damaged or made to harm.

Contract: what is read is what lies in the file that was named.  Where HDF5
names other files (external links, external storage, virtual datasets) the
answer is an error that says which; links that lead back to themselves, headers
that are no plain values, sizes that no array has and metadata that contradict
the data are errors, too: never a traceback, never a number.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tcu import streams
from tcu.cli import main
from tcu.errors import DataFileError, TcuError, UnknownNameError

NUMBERS = np.arange(5.0)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


# Headers of .npy


def npy(header: str, body: bytes = bytes(80)) -> Path:
    text = header.encode().ljust(117) + b"\n"
    Path("x.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + body)
    return Path("x.npy")


DESCR = "{{'descr': {}, 'fortran_order': {}, 'shape': {}}}"


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (DESCR.format("f('<f8')", False, "(5,)"), "does not say its shape and dtype as plain values"),
        (DESCR.format("'<f8'", False, "(10**2,)"), "does not say its shape and dtype as plain values"),
        (DESCR.format("('<f8',)", False, "(5,)"), "does not say its shape and dtype as plain values"),
        ("{[]: 1}", "does not say its shape and dtype as plain values"),
        ("{'descr': '''", "does not say its shape and dtype as plain values"),
        ("(" * 5000, "does not say its shape and dtype as plain values"),
        (DESCR.format("[('a',)]", False, "(5,)"), "not enough values to unpack"),
        (DESCR.format("'<f8'", False, "(True, 3)"), r"its shape is \(True, 3\)"),
        (DESCR.format("'<f8'", False, f"({2**63},)"), r"its shape is \(9223372036854775808,\)"),
        (DESCR.format("'<f8'", False, f"(0, {2**63})"), r"its shape is \(0, 9223372036854775808\)"),
        (DESCR.format("'<f8'", False, f"({10**4000}, {10**4000})"), r"its shape is \(10000.*\.\.\."),
    ],
)
def test_npy_headers_that_are_no_plain_values(folder: Path, header: str, words: str) -> None:
    path = npy(header)
    with pytest.raises(
        DataFileError, match=rf"x.npy is damaged .*{words}.*write it again with numpy"
    ) as told:
        streams.open_files(path)
    assert " object at " not in str(told.value)
    assert len(str(told.value)) < 400
    with path.open("rb") as pipe, pytest.raises(DataFileError, match=words):
        streams.NpyPipe(b"", pipe, "x.npy")


@pytest.mark.parametrize("descr", ["'V0'", "('<u1', (2,))", "[('a', '<f8')]"])
@pytest.mark.parametrize("fortran", [False, True])
def test_items_that_are_no_numbers(
    folder: Path, descr: str, fortran: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    npy(DESCR.format(descr, fortran, "(2, 5)"))
    for more in ([], ["--input-dtype", "bfloat16"], ["--input-dtype", "float64"]):
        assert main(["sum", "x.npy", *more]) == 2
        assert "error: x.npy" in capsys.readouterr().err


# HDF5


@pytest.fixture
def h5py(folder: Path) -> Any:
    module = pytest.importorskip("h5py", reason='h5py is not installed: pip install "tcu[hdf5]"')
    with module.File("other.h5", "w") as file:
        file["y"] = NUMBERS
    NUMBERS.tofile("raw.bin")
    return module


def refused(key: str | None, words: str) -> None:
    with pytest.raises(DataFileError, match=words):
        streams.open_files("x.h5", key=key)


def test_links_are_followed_inside_of_a_file_alone(h5py: Any) -> None:
    with h5py.File("x.h5", "w") as file:
        file["g/x"] = NUMBERS
        file["relative"] = h5py.SoftLink("g/x")
        file["g/second"] = h5py.SoftLink("/relative")
        file["h"] = h5py.SoftLink("./g")
        file["loop"] = h5py.SoftLink("/loop")
        file["g/there"] = h5py.SoftLink("/back")
        file["back"] = h5py.SoftLink("g/there")
        file["deeper"] = h5py.SoftLink("/deeper/and/deeper")
        file["out"] = h5py.ExternalLink("other.h5", "/y")
        file["g/out"] = h5py.SoftLink("/out")
        file["gone"] = h5py.ExternalLink("gone.h5", "/y")
        file["door"] = h5py.ExternalLink("other.h5", "/")
    for key in (None, "g/x", "/g/x/", "relative", "g/second", "h/x", "h/second"):
        assert streams.open_files("x.h5", key=key).read(0, 5).sum() == 10
    for key in ("loop", "back", "g/there", "deeper"):
        refused(key, f"x.h5/{key} is a link that leads back to itself: choose another array")
    for key, where, other in (("out", "/y", "other"), ("g/out", "/y", "other"), ("gone", "/y", "gone")):
        refused(
            key,
            f"x.h5/{key} is a link to {where} in another file, {other}.h5, .* give that file, with --key y",
        )
    refused("door/y", "x.h5/door/y is a link to / in another file, other.h5")
    for key in ("", "/", "g", "g/x/x", "nowhere", "loop2"):
        with pytest.raises(UnknownNameError, match="available: g/x"):
            streams.open_files("x.h5", key=key)


def test_chains_of_links_have_an_end(h5py: Any) -> None:
    with h5py.File("x.h5", "w") as file:
        file["x"] = NUMBERS
        file["0"] = h5py.SoftLink("/x")
        for i in range(200):
            file[str(i + 1)] = h5py.SoftLink(f"/{i}")
    assert streams.open_files("x.h5", key="50").n == 5
    refused("200", "x.h5/200 is a link that leads back to itself")


def test_numbers_in_other_files_are_not_read(h5py: Any) -> None:
    with h5py.File("x.h5", "w") as file:
        file.create_dataset("x", (5,), "f8", external=[("raw.bin", 0, 40)])
    refused(None, r"the numbers of x.h5/x lie in another file, .*raw\.bin, which is not read .*: copy them")


@pytest.mark.parametrize("other", ["other.h5", "gone.h5", "pipe.h5"])
@pytest.mark.parametrize("unlimited", [False, True])
def test_virtual_datasets_of_other_files_are_not_read(h5py: Any, other: str, unlimited: bool) -> None:
    """HDF5 would take the fill value for what is gone, and wait for whoever writes to a pipe."""
    layout = h5py.VirtualLayout((5,), "f8", maxshape=(None,) if unlimited else None)
    if unlimited:
        layout[: h5py.h5s.UNLIMITED] = h5py.VirtualSource(other, "y", (5,), maxshape=(None,))[
            : h5py.h5s.UNLIMITED
        ]
    else:
        layout[:] = h5py.VirtualSource(other, "y", (5,))
    with h5py.File("x.h5", "w") as file:
        file.create_virtual_dataset("v", layout)
    os.mkfifo("pipe.h5")
    refused(
        None, rf"x.h5/v is a virtual dataset, made of parts of other files, {other}, .*: give those files"
    )


def test_virtual_datasets_of_the_same_file(h5py: Any) -> None:
    def virtual(file: Any, name: str, part: str) -> None:
        layout = h5py.VirtualLayout((8,), "f8")
        layout[:5] = h5py.VirtualSource(".", part, (5,))
        file.create_virtual_dataset(name, layout, fillvalue=2.0)

    with h5py.File("x.h5", "w") as file:
        file["y"] = NUMBERS
        file["out"] = h5py.ExternalLink("other.h5", "/y")
        file.create_dataset("raw", (5,), "f8", external=[("raw.bin", 0, 40)])
        for part in ("y", "none", "itself", "out", "raw"):
            virtual(file, "itself" if part == "itself" else f"v-{part}", part)
    source = streams.open_files("x.h5", key="v-y")
    assert source.read(0, 8).sum() == 16
    assert source.remarks == (
        "x.h5/v-y: 3 of 8 numbers are in no part of this virtual dataset and count as the fill value, 2.0",
    )
    refused("v-none", "x.h5/v-none is a virtual dataset, and its part none is not there")
    refused("itself", "its part itself is not there")
    refused("v-out", "x.h5/out is a link to /y in another file, other.h5")
    refused("v-raw", "the numbers of x.h5/raw lie in another file")


def test_hdf5_files_with_damage(h5py: Any) -> None:
    with h5py.File("x.h5", "w") as file:
        file["g/x"] = NUMBERS
        file["l"] = h5py.SoftLink("/g/x")
    whole = Path("x.h5").read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(100):
        data = bytearray(whole)
        for at in rng.integers(0, len(data), 5):
            data[at] = rng.integers(256)
        Path("x.h5").write_bytes(data)
        for key in (None, "g/x", "l"):
            try:
                source = streams.open_files("x.h5", key=key)
                source.read(0, min(source.n, 1000))
            except TcuError as error:
                assert "x.h5" in str(error)  # noqa: PT017


# Zarr


def test_zarr_with_links(folder: Path) -> None:
    zarr = pytest.importorskip("zarr", reason='Zarr is not installed: pip install "tcu[zarr]"')
    zarr.open_group("z", mode="w").create_array("a/x", shape=(20,), chunks=(5,), dtype=float)[...] = 1
    Path("z/a/x/nowhere").symlink_to("gone")
    Path("z/a/x/c").rename("chunks")
    Path("z/a/x/c").symlink_to(Path("chunks").absolute())
    source = streams.open_files("z")
    assert source.read(0, 20).sum() == 20
    before = source.identity()
    os.utime("chunks/0", (1, 1))
    assert streams.open_files("z").identity() != before
    Path("z/a/up").symlink_to("..")
    Path("z/self").symlink_to(".")
    with pytest.raises(DataFileError, match="z holds a link that leads back to itself: remove it"):
        streams.open_files("z")
    Path("z/a/x/up").symlink_to("..")
    assert streams.open_files("z/a/x").identity()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"shape": [-5]}, "cannot read z as Zarr: .*: write it again"),
        ({"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [0]}}}, "cannot read z as Zarr"),
        ({"data_type": "numpy.datetime64"}, "cannot read z as Zarr"),
        ({"codecs": [{"name": "numcodecs.pickle", "configuration": {}}]}, "cannot read z as Zarr"),
    ],
)
def test_zarr_metadata_that_cannot_be(folder: Path, change: dict[str, Any], words: str) -> None:
    zarr = pytest.importorskip("zarr", reason='Zarr is not installed: pip install "tcu[zarr]"')
    zarr.create_array("z", shape=(5,), chunks=(5,), dtype=float)[...] = 1
    file = Path("z/zarr.json")
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(DataFileError, match=words):
        streams.open_files("z")


def test_zarr_that_claims_more_chunks_than_can_be_listed(folder: Path) -> None:
    zarr = pytest.importorskip("zarr", reason='Zarr is not installed: pip install "tcu[zarr]"')
    zarr.create_array("z", shape=(10**12,), chunks=(1,), dtype=float)[:3] = 1
    source = streams.open_files("z")
    assert "of 1,000,000,000,000 chunks are not stored and count as the fill value" in source.remarks[0]


# Parquet


def test_parquet_files_with_damage(folder: Path) -> None:
    arrow = pytest.importorskip("pyarrow", reason='PyArrow is not installed: pip install "tcu[parquet]"')
    import pyarrow.parquet as parquet

    parquet.write_table(arrow.table({"x": np.arange(500.0)}), "x.parquet", row_group_size=100)
    whole = Path("x.parquet").read_bytes()
    rng = np.random.default_rng(1)
    refusals = 0
    for _ in range(500):
        data = bytearray(whole)
        for at in rng.integers(4, len(data), 3):
            data[at] = rng.integers(256)
        Path("x.parquet").write_bytes(data)
        try:
            source = streams.open_files("x.parquet", column="x")
            assert source.read(0, min(source.n, 1000)).size == min(source.n, 1000)
        except TcuError as error:
            assert "x.parquet" in str(error)  # noqa: PT017
            refusals += 1
    assert refusals > 100


def test_parquet_metadata_that_name_another_file(folder: Path) -> None:
    arrow = pytest.importorskip("pyarrow", reason='PyArrow is not installed: pip install "tcu[parquet]"')
    import pyarrow.parquet as parquet

    parquet.write_table(arrow.table({"x": np.arange(500.0)}), "other.parquet")
    metadata = parquet.read_metadata("other.parquet")
    metadata.set_file_path("other.parquet")
    metadata.write_metadata_file("x.parquet")
    with pytest.raises(DataFileError, match=r"cannot read row group 0 of x\.parquet, column x"):
        streams.open_files("x.parquet").read(0, 500)
