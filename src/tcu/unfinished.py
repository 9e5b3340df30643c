"""Files that are written beside their place and get their name when they are whole.

Each has one name of its own and is locked while it is written.  The system
takes the lock back from a process that is killed, so the next one that writes
to the same place writes over what was left: there is never more than one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from tcu.errors import DataFileError, ParameterError

try:
    import fcntl
except ImportError:  # a system without such locks
    fcntl = None  # type: ignore[assignment]

__all__ = ["beside", "check_place", "discard", "give_name", "open_alone", "path_of", "replacing"]


def path_of(name: str, place: Any) -> Path:
    """Raises ParameterError, with the parameter's name, for what is no path."""
    if not isinstance(place, str | os.PathLike):
        raise ParameterError(f"{name}={place!r}: give the path of a file")
    return Path(place)


def beside(path: Path) -> Path:
    """Where ``path`` is until it is whole; nobody else names a file so."""
    return path.with_name(path.name + ".tcu-unfinished")


def open_alone(place: Path, *, create: bool = True, wait: bool = False) -> BinaryIO:
    """A file to read and write, as it was left, for this process alone until it is closed.

    Raises BlockingIOError where another process has it, unless ``wait``; and OSError.
    """
    flags = os.O_RDWR | (os.O_CREAT if create else 0) | getattr(os, "O_NOFOLLOW", 0)
    while True:
        file = os.fdopen(os.open(place, flags, 0o666), "r+b")
        try:
            _lock(file, wait)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(file.fileno()), os.stat(place)):
                    return file
        except BaseException:
            file.close()
            raise
        file.close()  # whoever had it has renamed or deleted it


def _lock(file: BinaryIO, wait: bool) -> None:
    if fcntl is None:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        raise
    except OSError:
        pass  # a file system without locks: then two processes must not write to one place


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file that takes the place of ``path`` when the block ends, and leaves it alone where the block raises.

    Processes that write to one place take turns.  Raises OSError.
    """
    place = beside(path)
    with open_alone(place, wait=True) as file:
        try:
            file.truncate()
            yield file
            file.flush()
            os.fsync(file.fileno())
            give_name(file, place, path)
        except BaseException:
            discard(file, place)
            raise


def check_place(file: Path, inputs: Iterable[str | os.PathLike[str]] = ()) -> None:
    """Raises DataFileError or ParameterError where nothing must be written: before anything is computed.

    Another file that is there is replaced; one of ``inputs``, what is read, never.
    """
    problem = None
    if file.is_dir():
        problem = "it is a folder"
    elif not file.parent.is_dir():
        problem = f"there is no folder {file.parent}"
    elif not os.access(file if file.exists() else file.parent, os.W_OK):
        problem = "Permission denied"
    if problem is not None:
        raise DataFileError(f"cannot write {file}: {problem}: choose another place")
    for each in map(Path, inputs):
        if not each.exists():
            continue  # whoever reads it says so
        if file.exists() and file.samefile(each):
            raise ParameterError(
                f"{file} is an input, and an output never replaces one: choose another place"
            )
        if each.is_dir() and file.resolve().is_relative_to(each.resolve()):
            raise ParameterError(f"{file} lies inside {each}, which is an input: choose another place")


def give_name(file: BinaryIO, place: Path, path: Path) -> None:
    """Rename an open file from ``place`` to ``path``, locked where there are locks; elsewhere it is closed."""
    _released(file)
    place.replace(path)


def discard(file: BinaryIO, place: Path) -> None:
    """Delete an open file, as :func:`give_name` renames it."""
    _released(file)
    place.unlink(missing_ok=True)


def _released(file: BinaryIO) -> None:
    if fcntl is None:  # Windows, which neither renames nor deletes an open file
        file.close()
