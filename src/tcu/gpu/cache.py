"""Compiled kernels on disk, so that the next process does not compile them again.

An entry is found under the hash of everything that it depends on, and holds
that hash and one of its own content: what is truncated, damaged, or was meant
for something else is a miss and is written anew.  Entries appear whole (a
temporary file, then a rename), so that any number of processes may share the
folder.  Where there is no usable folder there is no cache, and one warning.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

from tcu.gpu.compiler import CompileTask
from tcu.gpu.errors import KernelCacheWarning

__all__ = ["cache_folder", "key_of", "load_or_compile"]

FORMAT = 1
"""Part of every key: raise it when the layout of an entry, or of a kernel's parameters, changes."""

_MAGIC = b"tcu kernel\n"
_warned: set[str] = set()


def cache_folder() -> Path:
    """Where entries live: ``TCU_CACHE_DIR``, or the user's cache folder, and in it "kernels"."""
    given = os.environ.get("TCU_CACHE_DIR")
    if given:
        return Path(given).expanduser() / "kernels"
    import platformdirs

    return Path(platformdirs.user_cache_dir("tcu")) / "kernels"


def key_of(task: CompileTask, compiler: tuple[int, int], version: int = FORMAT) -> str:
    """The name of the entry: a hash of sources, options, architecture, compiler and format version."""
    digest = hashlib.sha256()

    def add(text: str) -> None:  # with its length, so that no two lists of texts run together
        data = text.encode()
        digest.update(len(data).to_bytes(8, "little") + data)

    for text in (str(version), "{}.{}".format(*compiler), task.architecture, str(len(task.options))):
        add(text)
    for option in task.options:
        add(option)
    for name, text in task.files:
        add(name)
        add(text)
    return digest.hexdigest()


def load_or_compile(key: str, compile_entry: Callable[[], bytes], folder: Path | None = None) -> bytes:
    """The entry's content, from disk if it is there and sound, else compiled and kept."""
    where = _usable(folder or cache_folder())
    if where is None:
        return compile_entry()
    found = _read(where / f"{key}.cubin", key)
    if found is not None:
        return found
    content = compile_entry()
    _write(where / f"{key}.cubin", key, content)
    return content


def _seal(key: str, content: bytes) -> bytes:
    return hashlib.sha256(_MAGIC + key.encode() + content).digest()


def _read(path: Path, key: str) -> bytes | None:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        _warn(path.parent, error)
        return None
    head, seal, content = data[: len(_MAGIC)], data[len(_MAGIC) : len(_MAGIC) + 32], data[len(_MAGIC) + 32 :]
    return content if head == _MAGIC and seal == _seal(key, content) else None


def _write(path: Path, key: str, content: bytes) -> None:
    temporary = None
    try:
        handle, temporary = tempfile.mkstemp(prefix=".writing-", dir=path.parent)  # mode 0600
        with os.fdopen(handle, "wb") as file:
            file.write(_MAGIC + _seal(key, content) + content)
        os.replace(temporary, path)
    except OSError as error:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        _warn(path.parent, error)


def _usable(folder: Path) -> Path | None:
    """The folder, made if need be; None, with a warning, where it cannot be used or is not ours alone to write."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        state = folder.stat()
        if hasattr(os, "geteuid") and (state.st_uid != os.geteuid() or stat.S_IMODE(state.st_mode) & 0o022):
            # Machine code of someone else's making must not run under this user's name.
            raise PermissionError(f"others can write to it: chmod 700 {folder}")
    except OSError as error:
        _warn(folder, error)
        return None
    return folder


def _warn(folder: Path, error: OSError) -> None:
    """Once per folder and process."""
    if str(folder) in _warned:
        return
    _warned.add(str(folder))
    warnings.warn(
        f"compiled kernels are not kept in {folder} ({error}), so every process compiles them again: "
        f"set TCU_CACHE_DIR to a folder that you can write to",
        KernelCacheWarning,
        stacklevel=2,
    )
