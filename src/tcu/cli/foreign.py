"""A function of the user's: loaded from a file or a module by its name, and guarded."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from tcu.errors import DataFileError, ParameterError, UnknownNameError, unknown_name

__all__ = ["foreign_function", "told"]


def foreign_function(text: str, option: str) -> Callable[..., Any]:
    """FILE.py:NAME or PACKAGE.MODULE:NAME, which ``option`` was given; raises ParameterError and others that name it."""
    place, _, name = text.rpartition(":")
    if not place or not name:
        raise ParameterError(f"{option} {text}: write FILE.py:NAME or PACKAGE.MODULE:NAME")
    is_file = place.endswith(".py")
    if is_file and not Path(place).is_file():
        raise DataFileError(f"{option} {text}: there is no file {place}")
    with told(f"{option} {text}: loading it"):
        module = _from_file(Path(place).resolve()) if is_file else _from_folder(Path.cwd(), place)
    found = getattr(module, name, None)
    if found is None:
        own = [
            key for key, each in vars(module).items() if getattr(each, "__module__", None) == module.__name__
        ]
        if not own:
            raise UnknownNameError(f"{option} {text}: {place} defines no function")
        raise unknown_name(f"function of {place}", name, own)
    if not callable(found):
        raise ParameterError(f"{option} {text}: {name} is of type {type(found).__name__}, not a function")
    return found  # type: ignore[no-any-return]


def _from_file(path: Path) -> ModuleType:
    # A name of its own, so that mine/random.py does not replace what others import as random.
    spec = importlib.util.spec_from_file_location(f"_tcu_target_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    with _importable(path.parent):
        spec.loader.exec_module(module)
    return module


def _from_folder(folder: Path, name: str) -> ModuleType:
    with _importable(folder):
        return importlib.import_module(name)


@contextlib.contextmanager
def _importable(folder: Path) -> Iterator[None]:
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(str(folder))


@contextlib.contextmanager
def told(what: str) -> Iterator[None]:
    """Foreign code: its failures become one line, and what it prints goes to stderr."""
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except (Exception, SystemExit) as error:
        message = " ".join(str(error).split())
        raise ParameterError(f"{what} raised {type(error).__name__}{message and f': {message}'}") from None
