"""Files that get their name when they are whole.

Contract: a place holds what was there before or what is written, whole,
whatever happens meanwhile, also kill -9.  Of a process that was killed one file
stays at most, PLACE.tcu-unfinished, and the next run that writes to the same
place leaves none.  Processes that keep their state in one file take turns; two
that write running sums to one file are told so.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import tcu
from tcu import streams
from tcu.cli import main
from tcu.unfinished import beside, open_alone, replacing

NUMBERS = np.random.default_rng(4).standard_normal(1000)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", NUMBERS)
    return tmp_path


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def killed(*lines: str) -> None:
    """A process that runs these lines and kills itself."""
    source = "\n".join(["import os, signal", "def die(*_): os.kill(os.getpid(), signal.SIGKILL)", *lines])
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr


def test_a_process_killed_while_it_keeps_its_state(folder: Path) -> None:
    kept = streams.Checkpoint("state", {})
    kept.save(1, {"exact": "x"})
    for _ in range(3):
        killed("os.fsync = die", "from tcu.streams import Checkpoint", "Checkpoint('state', {}).save(2, {})")
        assert names(folder) == ["state", "state.tcu-unfinished", "x.npy"]
        assert kept.load() == (1, {"exact": "x"})
    kept.save(3, {})
    assert kept.load() == (3, {})
    assert names(folder) == ["state", "x.npy"]


@pytest.mark.slow
def test_a_process_killed_while_it_writes_running_sums(folder: Path) -> None:
    Path("sums.npy").write_text("before")
    for _ in range(2):
        killed(
            "from tcu.streams import scans",
            "scans.ScanFile.write = die",
            "from tcu.cli import main",
            "main(['cumsum', 'x.npy', '-o', 'sums.npy'])",
        )
        assert names(folder) == ["sums.npy", "sums.npy.tcu-unfinished", "x.npy"]
        assert Path("sums.npy").read_text() == "before"
    assert main(["cumsum", "x.npy", "-o", "sums.npy"]) == 0
    assert np.array_equal(np.load("sums.npy"), tcu.cumsum(NUMBERS))
    assert names(folder) == ["sums.npy", "x.npy"]


@pytest.mark.parametrize("more", [[], ["--checkpoint", "state"]])
def test_two_processes_do_not_write_running_sums_to_one_file(
    folder: Path, more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    place = Path("sums.npy.part") if more else beside(Path("sums.npy"))
    with open_alone(place) as other:
        other.write(b"the other's")
        other.flush()
        assert main(["cumsum", "x.npy", "-o", "sums.npy", *more]) == 2
        assert "another process is writing sums.npy: wait until it has ended" in capsys.readouterr().err
        assert place.read_bytes() == b"the other's"


def keep(times: int) -> None:
    state = streams.Checkpoint("state", {})
    for position in range(times):
        state.save(position, {"exact": "x" * 10_000})


@pytest.mark.slow
def test_processes_that_share_a_checkpoint_take_turns(folder: Path) -> None:
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=keep, args=(50,)) for _ in range(3)]
    for each in workers:
        each.start()
    while any(each.is_alive() for each in workers):
        streams.Checkpoint("state", {}).load()  # raises for one that is not whole
        time.sleep(0.001)
    assert [each.exitcode for each in workers] == [0, 0, 0]
    assert names(folder) == ["state", "x.npy"]


def test_a_file_that_is_renamed_while_another_waits_for_it_is_not_written_over(folder: Path) -> None:
    place = Path("data")
    written: list[str] = []

    def second() -> None:
        with replacing(place) as file:
            written.append(place.read_text())
            file.write(b"second")

    thread = threading.Thread(target=second)
    with replacing(place) as file:
        file.write(b"first, and longer")
        thread.start()
        time.sleep(0.1)  # it waits, or will wait
    thread.join()
    assert written == ["first, and longer"]
    assert place.read_text() == "second"
    assert names(folder) == ["data", "x.npy"]


def test_what_fails_leaves_everything_as_it_was(folder: Path) -> None:
    place = Path("data")
    place.write_text("before")
    with pytest.raises(TypeError), replacing(place) as file:
        file.writelines([b"half", None])  # type: ignore[list-item]
    assert place.read_text() == "before"
    assert names(folder) == ["data", "x.npy"]
    assert not os.path.lexists(beside(place))
