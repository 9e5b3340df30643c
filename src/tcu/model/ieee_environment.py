"""Floating-point work in IEEE 754's default environment, whatever the thread's is.

``torch.set_flush_denormal(True)``, and libraries that are compiled for fast mathematics, make the processor take subnormal
numbers for zero, and C code may choose another direction of rounding.  Both belong to a thread, and a thread that it starts
inherits them: results would depend on who called, and when the pool's threads began.

So every way into the model goes through :func:`ieee`: the host engine's functions (``tcu/engines/host/__init__.py``), which all
surfaces ask, pieces of work that threads share (:mod:`tcu.model.threads`), and what else is computed, of shares, bounds, files and
checks.  The functions below them need not think of it, nor do NumPy's operations there; one way in within another costs a look.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from typing import ParamSpec, TypeVar

from tcu.errors import SubnormalError

__all__ = ["ieee", "is_ieee"]

P = ParamSpec("P")
R = TypeVar("R")

_KNOWN: tuple[float, ...] = struct.unpack(
    "5d", struct.pack("=5Q", 1, *((1023 + power) << 52 for power in (1000, -73, 0, -60)))
)
_LEAST, _UP, _TWICE, _ONE, _LITTLE = _KNOWN
"""2^-1074, 2^1000, 2^-73, 1 and 2^-60, from their bits: in another environment arithmetic, and Python's compiler, do not come to them."""
_ROOM = 256
"""Bytes for an environment: the largest, glibc's on x86-64, has 32."""


def is_ieee() -> bool:
    """Whether this thread keeps subnormal numbers and rounds to nearest: computed, which takes a tenth of what asking takes."""
    # 1.5 of the least number is 2 of them, to nearest and upward; 0 where they are flushed.
    return _LEAST * 1.5 * _UP == _TWICE and _ONE + _LITTLE == _ONE


def ieee(function: Callable[P, R]) -> Callable[P, R]:
    """The function in IEEE 754's default environment; the caller's own is there again afterwards.

    Not for generators, whose callers would have it in between.  Raises what the function raises, and SubnormalError where the
    caller's environment is another one and cannot be left.
    """

    @wraps(function)
    def run(*args: P.args, **named: P.kwargs) -> R:
        if is_ieee():
            return function(*args, **named)
        with _default():
            return function(*args, **named)

    return run


@contextmanager
def _default() -> Iterator[None]:
    library, default = _library()
    before = ctypes.create_string_buffer(_ROOM)
    library.fegetenv(before)
    library.fesetenv(default)
    try:
        if not is_ieee():
            raise _stays()
        yield
    finally:
        library.fesetenv(before)


@cache
def _library() -> tuple[ctypes.CDLL, ctypes.c_void_p]:
    """C's functions, and its FE_DFL_ENV: an address that stands for it, or on macOS that of an environment."""
    try:
        library = ctypes.CDLL(None)
        for function in (library.fegetenv, library.fesetenv):
            function.argtypes = [ctypes.c_void_p]
        if sys.platform != "darwin":
            return library, ctypes.c_void_p(-1)
        return library, ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(library, "_FE_DFL_ENV")))
    except (OSError, TypeError, AttributeError, ValueError):
        raise _stays() from None


def _stays() -> SubnormalError:
    return SubnormalError(
        "this thread takes subnormal numbers for zero, or rounds otherwise than to nearest, and this system's C library does not "
        "change that: switch it off before the call, with torch.set_flush_denormal(False) where PyTorch did it"
    )
