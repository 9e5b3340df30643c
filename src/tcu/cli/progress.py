"""A progress bar that shows up only where somebody waits in front of it."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn, TransferSpeedColumn
from rich.text import Text

from tcu.cli.output import error_console

__all__ = ["STEPS", "ProgressBar", "in_steps", "waiting"]

DELAY = 2.0
"""Seconds of silence: most sums are over by then."""
STEPS = 1000
"""The total of a bar that :func:`in_steps` advances."""


class ProgressBar:
    """Counts numbers; after ``DELAY`` seconds draws a bar on stderr, if that is a terminal.

    With ``itemsize``, the bytes of a number, it shows how many bytes a second go by.
    """

    def __init__(self, total: int, console: Console | None = None, itemsize: int | None = None) -> None:
        self._console = console or error_console()
        self._itemsize = itemsize
        self._total = total * (itemsize or 1)
        self._done = 0
        self._since = time.monotonic()
        self._lock = threading.Lock()
        self._bar: Progress | None = None
        self._task = TaskID(0)

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self, count: int) -> None:
        """``count`` more numbers were read; any thread may say so."""
        if not self._console.is_terminal:
            return
        with self._lock:
            self._done += count * (self._itemsize or 1)
            if self._bar is None and time.monotonic() - self._since >= DELAY:
                self._start()
            if self._bar is not None:
                self._bar.update(self._task, completed=self._done)

    def _start(self) -> None:
        rate = () if self._itemsize is None else (TransferSpeedColumn(),)
        columns = TextColumn("{task.percentage:>3.0f} %"), BarColumn(), *rate, TimeRemainingColumn()
        self._bar = Progress(*columns, console=self._console, transient=True)
        self._task = self._bar.add_task("", total=self._total, completed=self._done)
        self._bar.start()


def in_steps(bar: ProgressBar) -> Callable[[int, int], None]:
    """Advances the bar when it is told (done, total)."""
    before = 0

    def told(done: int, total: int) -> None:
        nonlocal before
        now = STEPS * done // total
        bar.advance(now - before)
        before = now

    return told


@contextlib.contextmanager
def waiting(what: str) -> Iterator[Callable[[str], None]]:
    """Says on stderr what is going on, if somebody watches there."""
    screen = error_console()
    if not screen.is_terminal:
        yield lambda _: None
        return
    with screen.status(Text(what)) as status:
        yield lambda stage: status.update(Text(f"{what}: {stage}"))
