"""The code blocks of a Markdown page, run one after another in one namespace and one folder.

``pycon`` blocks are doctests; of ``python`` blocks nothing is shown; each ``$``
line of a ``console`` block is run, and what is shown below it is part of what
it prints, where ``...`` stands for whatever differs from machine to machine.
A comment ``<!-- needs: torch -->`` before a block names packages, or ``cpu``,
``gpu`` or ``cluster``, without which it is left out.  Blocks of other kinds are
no code.

    python tests/blocks.py docs/tour.md

writes what pycon and console blocks print into the page, to be read before it
is believed.
"""

from __future__ import annotations

import contextlib
import doctest
import importlib.util
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
import textwrap
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from tcu.cli.app import main

ROOT = Path(__file__).parents[1]
COLUMNS = "80"
OPTIONS = doctest.ELLIPSIS
_ANY_LENGTH = r"[^\n]*?(?:\n[^\n]*?)??"
_SPACES = re.compile(r"(?:\\ )+")
"""Of ``...``, and of spaces behind it or before: the line that it makes longer may be wrapped there."""
_FENCE = re.compile(r"(?:<!-- needs: ([\w, ]+) -->\n)?^( *)```(\w+)?[^\n]*\n(.*?)^\2```", re.S | re.M)


@dataclass(frozen=True)
class Block:
    kind: str
    text: str
    needs: tuple[str, ...]
    line: int
    span: tuple[int, int]
    """Where the text is in the page."""

    @property
    def missing(self) -> list[str]:
        return [name for name in self.needs if not _is_here(name)]


def _is_here(name: str) -> bool:
    if name == "cluster":  # many machines, or somebody's files
        return False
    if name == "cpu":  # one with matrix instructions
        from tcu.cpu import find_cpu

        return bool(find_cpu().instructions)
    if name == "gpu":
        from tcu.errors import TcuError
        from tcu.gpu import find_gpu

        try:
            find_gpu()
        except TcuError:
            return False
        return True
    return importlib.util.find_spec(name) is not None


def blocks(page: str) -> Iterator[Block]:
    for found in _FENCE.finditer(page):
        needs = tuple(name.strip() for name in (found[1] or "").split(",") if name.strip())
        line = page.count("\n", 0, found.start(4)) + 1
        yield Block(found[3] or "", textwrap.dedent(found[4]), needs, line, found.span(4))


class Session:
    """One page's namespace and folder, with the repository's data and examples in it."""

    def __init__(self, folder: Path, name: str) -> None:
        self.namespace: dict[str, Any] = {"__name__": "page"}
        self.folder, self.name = folder, name
        for shared in ("data", "examples"):
            (folder / shared).symlink_to(ROOT / shared)

    def check(self, block: Block) -> None:
        """Run it; AssertionError where it fails or prints something else."""
        with contextlib.chdir(self.folder), warnings.catch_warnings():
            if block.needs:  # what other libraries deprecate is their business
                warnings.simplefilter("ignore", DeprecationWarning)
            if block.kind == "python":
                exec(compile(block.text, f"{self.name}:{block.line}", "exec"), self.namespace)
            elif block.kind == "pycon":
                self._doctest(block)
            elif block.kind == "console":
                for command, shown in commands(block.text):
                    printed = self.command(command)
                    at = 0
                    for line in filter(str.strip, shown):
                        parts = line.rstrip().split("...")
                        if len(parts) > 1:  # what stands there may be longer or shorter
                            parts = [part.strip() for part in parts]
                            parts = [_SPACES.sub(r"(?:\g<0>| *\n)", re.escape(part)) for part in parts]
                        pattern = _ANY_LENGTH.join(parts) if len(parts) > 1 else re.escape(line.rstrip())
                        found = re.compile(pattern).search(printed, at)
                        assert found, f"{self.name}: $ {command} does not print {line!r} there:\n{printed}"
                        at = found.end()

    def _doctest(self, block: Block) -> None:
        test = doctest.DocTestParser().get_doctest(block.text, {}, self.name, self.name, block.line)
        test.globs = self.namespace
        assert test.examples, f"{self.name}:{block.line} has no prompt"
        told = io.StringIO()
        runner = doctest.DocTestRunner(optionflags=OPTIONS, verbose=False)
        runner.run(test, out=told.write, clear_globs=False)
        assert runner.failures == 0, told.getvalue()

    def command(self, line: str) -> str:
        """What a command prints; it must succeed."""
        words = shlex.split(line)
        out, err = io.StringIO(), io.StringIO()
        if words[0] == "tcu":  # in this process; tests/test_cold.py begins new ones
            columns = mock.patch.dict(os.environ, COLUMNS=COLUMNS)
            with columns, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = main(words[1:])
        elif words[0] == "python":
            environment = os.environ | {"COLUMNS": COLUMNS, "PYTHONPATH": str(ROOT / "src")}
            done = subprocess.run(
                [sys.executable, *words[1:]], capture_output=True, text=True, cwd=self.folder, env=environment
            )
            code = done.returncode
            out.write(done.stdout)
            err.write(done.stderr)
        else:
            raise AssertionError(f"{self.name}: $ {line}: only tcu and python are run")
        assert code == 0, f"{self.name}: $ {line}: {err.getvalue()}"
        return out.getvalue()

    def shown(self, block: Block) -> str:
        """The block with what it prints."""
        with contextlib.chdir(self.folder):
            if block.kind == "pycon":
                return "".join(self._examples(block))
            if block.kind == "console":
                return "".join(f"$ {command}\n{self.command(command)}" for command, _ in commands(block.text))
            self.check(block)
        return block.text

    def _examples(self, block: Block) -> Iterator[str]:
        for example in doctest.DocTestParser().get_examples(block.text):
            source = example.source.splitlines()
            yield "".join(
                f"{'...' if at else '>>>'} {line}".rstrip() + "\n" for at, line in enumerate(source)
            )
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                try:
                    exec(compile(example.source, self.name, "single"), self.namespace)
                except Exception as error:
                    last = "".join(traceback.format_exception_only(error))
                    print(f"Traceback (most recent call last):\n  ...\n{last}", end="")
            yield printed.getvalue()


def commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """(command, the lines shown below it)."""
    parts = re.split(r"^\$ ", text, flags=re.M)
    assert not parts[0].strip(), f"output before any command: {parts[0]!r}"
    for part in parts[1:]:
        command, *shown = part.splitlines()
        yield command, shown


def fill(page: Path) -> None:
    """Write what its blocks print into a page."""
    text = page.read_text(encoding="utf-8")
    pieces, at = [], 0
    with tempfile.TemporaryDirectory() as folder:
        session = Session(Path(folder), page.name)
        for block in blocks(text):
            if block.missing:
                print(f"{page}:{block.line} left alone: needs {', '.join(block.missing)}")
                continue
            pieces += [text[at : block.span[0]], session.shown(block)]
            at = block.span[1]
    page.write_text("".join(pieces) + text[at:], encoding="utf-8")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        fill(Path(name))
