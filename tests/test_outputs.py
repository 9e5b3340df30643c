"""Where commands write.

Contract: an output never replaces what the command reads, by whatever name
either goes (a link, another path, a member of a folder or a glob), and is
refused before anything is computed; the input keeps its bytes.  Another file
that is there is replaced.  A place that cannot be written to is refused.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from tcu.cli import main

SAME = "is an input, and an output never replaces one: choose another place"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    m = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.save("m.npy", m)
    np.save("c.npy", m.reshape(-1))
    np.savez("m.npz", m=m)
    np.savetxt("m.csv", m)
    Path("run").mkdir()
    np.save("run/a.npy", m[0])
    np.save("run/b.npy", m[1])
    Path("link.npy").symlink_to("m.npy")
    os.link("m.npy", "other-name.npy")
    Path("mine.py").write_text("def f(a, b, c):\n    return a.astype('f4') @ b.astype('f4') + c\n")
    return tmp_path


def contents(folder: Path) -> dict[str, bytes]:
    return {str(each): each.read_bytes() for each in sorted(folder.rglob("*")) if each.is_file()}


@pytest.mark.parametrize(
    ("command", "place"),
    [
        ("sum m.npy --axis -1 -o m.npy", "m.npy"),
        ("sum m.npz --axis 0 -o ./m.npz", "m.npz"),
        ("sum m.csv --input-dtype float32 --axis 0 -o run/../m.csv", "run/../m.csv"),
        ("sum m.npy --axis -1 -o link.npy", "link.npy"),
        ("sum link.npy --axis -1 -o m.npy", "m.npy"),
        ("sum m.npy --axis -1 -o other-name.npy", "other-name.npy"),
        ("cumsum c.npy -o c.npy", "c.npy"),
        ("cumsum c.npy m.npy -o m.npy", "m.npy"),
        ("cumsum m.npy --axis 0 -o m.npy", "m.npy"),
        ("cumsum c.npy --reverse --checkpoint s.json -o c.npy", "c.npy"),
        ("cumsum run -o run/b.npy", "run/b.npy"),
        ("cumsum run/*.npy -o run/b.npy", "run/b.npy"),
        ("probe --module mine.py:f --k 4 --html mine.py", "mine.py"),
        ("infer --module mine.py:f --k 4 --html mine.py", "mine.py"),
    ],
)
def test_an_output_never_replaces_an_input(
    command: str, place: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(folder)
    assert main(command.split()) == 2
    assert capsys.readouterr().err == f"error: {Path(place)} {SAME}\n"
    assert contents(folder) == before


def test_nothing_is_written_into_an_array_that_is_a_folder(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("z").mkdir()
    Path("z/.zarray").write_text("{}")  # all that tells such a folder
    assert main(["cumsum", "z", "-o", "z/sums.npy"]) == 2
    assert capsys.readouterr().err == (
        "error: z/sums.npy lies inside z, which is an input: choose another place\n"
    )


@pytest.mark.slow(4)
@pytest.mark.parametrize(
    ("command", "place"),
    [
        ("sum m.npy --axis -1 -o there.npy", "there.npy"),
        ("cumsum m.npy --axis -1 -o there.npy", "there.npy"),
        ("cumsum m.npy -o there.npy", "there.npy"),
        ("cumsum run -o run.npy", "run.npy"),
        ("explain 1+1 --svg there.svg", "there.svg"),
        ("explain 1+1 --html there.html", "there.html"),
        ("cost matmul --sweep there.csv", "there.csv"),
        ("probe V100 --html there.html", "there.html"),
    ],
)
def test_another_file_is_replaced(
    command: str, place: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(place).write_bytes(b"old")
    assert main(command.split()) == 0, capsys.readouterr().err
    assert not Path(place).read_bytes().startswith(b"old")
    if place.endswith(".npy"):
        assert np.load(place).size


@pytest.mark.parametrize(
    "command", ["sum m.npy --axis -1 -o", "cumsum m.npy -o", "explain 1+1 --svg", "probe V100 --html"]
)
def test_places_that_cannot_be_written_to(
    command: str, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for place, problem in (("run", "it is a folder"), ("none/out", "there is no folder none")):
        assert main([*command.split(), place]) == 2
        assert capsys.readouterr().err == f"error: cannot write {place}: {problem}: choose another place\n"
    Path("mine.npy").write_bytes(b"old")
    access = os.access  # root may write anywhere
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK and access(path, mode))
    assert main([*command.split(), "mine.npy"]) == 2
    assert (
        capsys.readouterr().err == "error: cannot write mine.npy: Permission denied: choose another place\n"
    )
