"""Every error that tcu raises on purpose.

Each says what was given and names the next step.  All derive from
:class:`TcuError`, and from the built-in exception that callers would expect,
so ``except ValueError`` keeps working.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class TcuError(Exception):
    """Base of all errors raised by tcu.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> try:
    ...     tcu.sum(np.array(["1", "2"]))
    ... except tcu.TcuError as error:
    ...     print(error)
    x is text: load the file that it names, with numpy.load, or turn it into numbers
    """

    ends_in_log = False
    """Whether lines of another program's log follow the first, which is the message."""


class UnknownNameError(TcuError, KeyError):
    """A unit, instruction, format or variant that does not exist."""

    def __str__(self) -> str:  # KeyError would print the repr of the message
        return str(self.args[0])


class DtypeError(TcuError, TypeError):
    """An array whose dtype the operation or the unit does not have."""


class ShapeError(TcuError, ValueError):
    """Arrays whose shapes do not fit the operation."""


class ParameterError(TcuError, ValueError):
    """A parameter out of its range."""


class UnknownOptionError(TcuError, TypeError):
    """An option that the function does not have."""


class InvalidOperationError(TcuError, ValueError):
    """An operation without a value, such as the exact sum of inf and -inf."""


class SubnormalError(TcuError, ArithmeticError):
    """Subnormal numbers count as zero in this thread, or it rounds otherwise than to nearest, and tcu cannot change that."""


class SumTooLargeError(InvalidOperationError):
    """(a sum of integers, the dtype that does not hold it, words for where it is, its place among all results)"""

    def __init__(self, total: int, dtype: object, where: str, place: int) -> None:
        super().__init__(total, dtype, where, place)

    def __str__(self) -> str:
        total, dtype, where, _ = self.args
        return (
            f"the sum{where} is {total}, which {dtype} does not hold: pass a wider dtype, or dtype='float64', to which "
            "it is rounded once"
        )


class DataFileError(TcuError, OSError):
    """A file or bytes that cannot be read as numbers, or a file that cannot be written."""


class ExtraMissingError(TcuError, ImportError):
    """An optional package that the operation needs is not installed."""


def no_real_numbers(name: str, dtype: object) -> DtypeError:
    """The error for an array of complex numbers."""
    return DtypeError(
        f"{name} has dtype {dtype}, and only real numbers are taken: a sum or a mean is that of {name}.real, and 1j times "
        f"that of {name}.imag; a product is made of those of both, and a norm is that of both as one array"
    )


_LISTED = 100
"""Names that an error lists; a module of a library may have hundreds."""


def nearest(given: object, names: list[str]) -> str:
    """A question for the names that look like it, or nothing."""
    near = difflib.get_close_matches(str(given).lower(), [name.lower() for name in names], 3, 0.5)
    found = [name for name in names if name.lower() in near]
    return f"did you mean {' or '.join(found)}? " if found else ""


def unknown_name(what: str, given: object, known: Iterable[str]) -> UnknownNameError:
    """The error for a name that is not among ``known``, with the nearest ones."""
    names = list(known)
    hint = nearest(given, names)
    available = f"available: {', '.join(names)}" if len(names) <= _LISTED else f"{len(names)} are available"
    return UnknownNameError(f"unknown {what} {given!r}: {hint}{available}")
