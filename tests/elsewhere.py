"""A process as on Windows, as far as Python on Linux can show it: run before anything is imported.

What only some systems have is gone: names of os, modules, /proc and /dev.  A
file that is open is neither renamed nor deleted.  Text without a named
encoding is an error in tcu's modules (with -X warn_default_encoding).  So are
packages that tcu can do without.  What C libraries ask of the system, and
integers of 32 bits, it does not show.
"""

import builtins
import io
import os
import sys
import warnings
from importlib.machinery import ModuleSpec
from typing import Any

NAMES = (
    "sched_getaffinity", "sched_setaffinity", "fork", "forkpty", "preadv", "pread", "pwritev", "pwrite", "readv", "writev",
    "posix_fadvise", "posix_fallocate", "posix_spawn", "sendfile", "splice", "copy_file_range", "memfd_create", "eventfd",
    "mkfifo", "geteuid", "getuid", "getpgid", "killpg", "nice", "statvfs", "fchown", "chown", "getloadavg",
    "register_at_fork", "sysconf", "O_NOFOLLOW", "O_CLOEXEC", "O_DIRECTORY", "O_NONBLOCK", "O_DIRECT", "O_SYNC",
)  # fmt: skip
MODULES = {"fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "syslog"}
OPTIONAL = {"torch", "cupy", "cuda", "pynvml", "dask", "zarr", "h5py", "pyarrow", "scipy", "plotly"}


class _Missing:
    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name.partition(".")[0] in MODULES | OPTIONAL:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


def _refusing(function: Any) -> Any:
    def call(path: Any, *rest: Any, **options: Any) -> Any:
        if str(path).startswith(("/proc", "/dev", "/sys")) and path != os.devnull:
            raise FileNotFoundError(2, "No such file or directory", path)
        return function(path, *rest, **options)

    return call


def _closed_only(function: Any) -> Any:
    list_folder, read_link = os.listdir, os.readlink

    def call(*paths: Any, **options: Any) -> Any:
        for number in list_folder("/proc/self/fd"):
            try:
                opened = read_link(f"/proc/self/fd/{number}")
            except OSError:  # that of the list itself
                continue
            if opened in [os.path.realpath(path) for path in paths]:
                raise PermissionError(
                    13, "The process cannot access the file because it is being used", opened
                )
        return function(*paths, **options)

    return call


def move() -> None:
    for name in NAMES:
        if hasattr(os, name):
            delattr(os, name)
    for name in MODULES:
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, _Missing)
    builtins.open = io.open = _refusing(io.open)
    os.open = _refusing(os.open)
    for name in ("replace", "rename", "unlink", "remove"):
        setattr(os, name, _closed_only(getattr(os, name)))
    warnings.filterwarnings("error", category=EncodingWarning, module=r"tcu\b")
