r"""What commands print where a terminal reads it.

Contract: nothing that others wrote makes a terminal do anything: no control
character and nothing else that is not shown (escape sequences, newlines, marks
that turn the direction of writing) goes from names of files, arrays and
columns, from what stands in files or from another program's words to stdout or
stderr; it is written as an escape, such as \x1b.  A message stays one line.
What is between brackets is text, not markup.  A JSON document holds it
unchanged, as escapes of JSON.
"""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from tcu.cli import main
from tcu.cli.output import complain, console, error_console, print_json, visible
from tcu.gpu.errors import CompileError
from tcu.probes.vectors import collect

EVIL = "a\x1b[31m\nerror: b\r\t\x07\x7f\x9b\u202e\u2028[bold]z[/nothing]"
SHOWN = r"a\x1b[31m\nerror: b\r\t\x07\x7f\x9b\u202e\u2028[bold]z[/nothing]"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    return tmp_path


def is_shown(text: str) -> bool:
    return text.replace("\n", "").isprintable()


def test_what_is_visible_stays() -> None:
    for text in ("", "a b", "Größe × 2^-24 ≈ 日本語 🙂 \\x1b"):
        assert visible(text) == text
    assert visible(EVIL) == SHOWN
    assert visible("\udcff\x00\U000e0001") == r"\udcff\x00\U000e0001"
    assert visible(visible(EVIL)) == visible(EVIL)


def test_a_string_is_one_line_without_markup(capsys: pytest.CaptureFixture[str]) -> None:
    for screen in (console(), error_console()):
        screen.print(EVIL, soft_wrap=True)
    assert capsys.readouterr() == (SHOWN + "\n", SHOWN + "\n")


@pytest.mark.parametrize("terminal", [False, True])
def test_panels_tables_and_titles(terminal: bool, capsys: pytest.CaptureFixture[str]) -> None:
    screen = console()
    screen._force_terminal = terminal
    table = Table(title=Text(EVIL))
    table.add_column(Text(EVIL))
    table.add_row(EVIL)
    table.add_row(Text(EVIL, style="bold"))
    screen.print(Panel(table, title=Text(EVIL), subtitle=Text(EVIL)), Text(EVIL))
    out = re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out.replace("\x1b[31m", "BAD"))
    assert "BAD" not in out
    assert is_shown(out)
    assert out.count(r"a\x1b[31m") >= 4
    assert "[bold]z[/nothing]" in out


def test_messages_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    complain("error", "bold red", EVIL)
    assert capsys.readouterr().err == f"error: {SHOWN}\n"
    complain("error", "bold red", "does not compile", EVIL)
    assert capsys.readouterr().err == f"error: does not compile\n{SHOWN}\n"


def test_a_compiler_s_log_keeps_its_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def failing(*_: object, **__: object) -> None:
        raise CompileError("x.cu does not compile\nline \x1b[1m1\nline 2")

    monkeypatch.setattr("tcu.cli.reductions.read_source", failing)
    assert main(["sum", "x.npy"]) == 2
    assert capsys.readouterr().err == "error: x.cu does not compile\nline \\x1b[1m1\nline 2\n"


def test_json_is_the_same_document(capsys: pytest.CaptureFixture[str]) -> None:
    document = {"name": EVIL, "list": ["\x80", "ä×", "\udcff", "\U000e0001"]}
    print_json(document)
    out = capsys.readouterr().out
    assert is_shown(out)
    assert "ä×" in out
    assert json.loads(out) == document


NAME = EVIL.replace("/", "\\")
"""As a name of a file."""


@pytest.mark.parametrize("json_too", [False, True])
def test_names_of_files(json_too: bool, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(f"{NAME}.npy", np.ones((2, 3), np.float32))
    Path(f"{NAME}.csv").write_text("1,2\n3,4\n")
    Path(f"{NAME}.txt").write_text("1,x\n")
    Path(f"{NAME}.npz").write_bytes(b"PK")
    more = ["--json"] if json_too else []
    for command, code in (
        (["sum", f"{NAME}.npy"], 0),
        (["sum", f"{NAME}.npy", "--exact"], 0),
        (["sum", f"{NAME}.csv", "--column", "1"], 0),
        (["sum", f"{NAME}.npy", "--axis", "0", "-o", f"{NAME}-sums.npy"], 0),
        (["cumsum", f"{NAME}.npy", "-o", f"{NAME}-sums.npy"], 0),
        (["compare", f"{NAME}.csv", "--unit", "H100"], 0),
        (["sum", f"{NAME}.txt"], 2),
        (["sum", f"{NAME}.npz"], 2),
        (["sum", f"{NAME}.npy", "--key", EVIL], 2),
        (["sum", f"{NAME}.csv", "--column", EVIL], 2),
        (["sum", f"{NAME}-none"], 2),
        (["sum", "x", "--unit", EVIL], 2),
        (["sum", "x", f"--{EVIL}"], 2),
        (["explain", EVIL], 2),
        (["verify", f"{NAME}.npz"], 2),
        ([EVIL], 2),
    ):
        assert main([*command, *more]) == code, command
        out, err = capsys.readouterr()
        assert is_shown(out + err)
        assert not any(line.startswith("error: b") for line in (out + err).splitlines())
        assert err.count("\n") == (code != 0)
        assert code or r"a\x1b[31m" in out or json_too


def test_what_stands_in_files(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    line = "a\x1b[31m\x07\x7f\x9b\u202e"
    for text in (f"{line},b\n1,2\n", f"1\n{line}\n", f'"{line}",1;2\n'):
        for column in ([], ["--column", "none"], ["--column", line], ["--column", "1"]):
            monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
            main(["sum", "-", *column])
            out, err = capsys.readouterr()
            assert is_shown(out + err)
    np.savez("x.npz", **{line: np.ones(3), f"{line}2": np.ones(3)})
    np.save("y.npy", np.ones(3, [(line, "f4")]))
    for arguments in (["x.npz"], ["x.npz", "--key", line], ["x.npz", "--key", "y"], ["y.npy"]):
        main(["sum", *arguments])
        out, err = capsys.readouterr()
        assert is_shown(out + err)


def test_names_in_hdf5(capsys: pytest.CaptureFixture[str]) -> None:
    h5py = pytest.importorskip("h5py", reason='h5py is not installed: pip install "tcu[hdf5]"')
    line = "a\x1b[31m\n\x07"
    with h5py.File("x.h5", "w") as file:
        file[line] = np.ones(3)
        file[b"\xff\x1b"] = np.ones(3)
        file["out"] = h5py.ExternalLink(line, line)
    for arguments in ([], ["--key", line], ["--key", "out"], ["--key", "none"]):
        main(["sum", "x.h5", *arguments])
        out, err = capsys.readouterr()
        assert is_shown(out + err)
        assert out or err.count("\n") == 1


def test_what_another_machine_s_file_says(capsys: pytest.CaptureFixture[str]) -> None:
    vectors = collect("H200", instruction="mma", input="bf16", outputs=100)
    machine = replace(vectors.machine, kind="gpu", name=EVIL, driver=EVIL)
    replace(vectors, machine=machine, date=EVIL).save(Path(f"{NAME}.npz"))
    for more in ([], ["--unit", "V100"]):
        assert main(["verify", f"{NAME}.npz", *more]) in (0, 1)
        out, err = capsys.readouterr()
        assert is_shown(out + err)
        assert out.startswith(r"a\x1b[31m\nerror: b")
        assert out.count("\nerror") == 0
