"""Functions of Python's integers, of any size and sign, and elementwise of arrays of them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from tcu.engines.choice import load_cuda
from tcu.engines.host.limbs import number_of, row_of
from tcu.errors import ParameterError, ShapeError
from tcu.integers.operands import each, integers_of
from tcu.model import long_integers

__all__ = [
    "divmod",
    "from_text",
    "isqrt",
    "mod",
    "multiply",
    "power",
    "powmod",
    "product",
    "square",
    "to_text",
]

_LEAST_BITS = 1 << 17
"""Of factors that go to a GPU: an estimate, as GMP takes 0.3 ms for them, and conversions, copies and launches 0.15 ms."""
_INTEGER = re.compile(r"\s*([+-]?)([0-9]+)\s*")


def multiply(
    a: Any, b: Any, *, machine: Any = None, algorithm: str = "auto", executor: str | None = None
) -> Any:  # fmt: skip
    """a·b of integers of any size and sign.

    Parameters
    ----------
    a, b:
        Python integers, or arrays (lists, NumPy arrays of integers or of Python integers as objects), which broadcast.
    machine:
        A :class:`tcu.Machine` on which the product runs as a counted algorithm (Theorems 5 and 6).
    algorithm:
        The machine's: "schoolbook", "karatsuba" or "auto".
    executor:
        "gpu": factors of 2^17 bits and more go to the first GPU, and their product comes back; shorter ones take less time
        here.  None: all are multiplied here.

    Returns
    -------
    An int, or an array of Python integers (dtype object).

    Raises
    ------
    DtypeError, ShapeError:
        Anything but integers; arrays that do not broadcast.
    ParameterError:
        An algorithm without a machine; what :meth:`tcu.Machine.integer_multiply` refuses; another executor; on a GPU a
        product of more than 2^30 bits.
    NoGpuError, ExtraMissingError:
        ``executor="gpu"`` where there is none, or without the packages that it needs.

    Examples
    --------
    >>> import tcu
    >>> tcu.integers.multiply(3**50, -(2**70)) == -(3**50) * 2**70
    True
    >>> tcu.integers.multiply([10**20, -1], 10**20)
    array([10000000000000000000000000000000000000000, -100000000000000000000],
          dtype=object)
    """
    if executor not in (None, "gpu"):
        raise ParameterError(f"executor={executor!r}: choose 'gpu', or leave it out")
    if machine is not None:
        if executor:
            raise ParameterError("machine and executor='gpu' are two ways to multiply: give one of them")
        return machine.integer_multiply(a, b, algorithm=algorithm)
    if algorithm != "auto":
        raise ParameterError(
            f"algorithm={algorithm!r} is a machine's: give the machine, too, machine=tcu.Machine(...)"
        )
    return each(_product_on_gpu if executor else long_integers.product, a=a, b=b)


def _product_on_gpu(a: int, b: int) -> int:
    if min(a.bit_length(), b.bit_length()) < _LEAST_BITS:
        return long_integers.product(a, b)
    x = _limbs(a)
    product = number_of(load_cuda().product_on_gpu(x, x if a is b else _limbs(b)))
    return product if (a < 0) == (b < 0) else -product


def _limbs(a: int) -> Any:
    return row_of(abs(a), -(-a.bit_length() // 32), np.dtype(np.uint32))


def square(a: Any) -> Any:
    """a·a; parameters, results and errors are those of :func:`multiply`.

    Examples
    --------
    >>> import tcu
    >>> tcu.integers.square(-(10**30)) == 10**60
    True
    """
    return each(lambda x: long_integers.product(x, x), a=a)


def power(a: Any, n: Any) -> Any:
    """a to the n-th, n ≥ 0, elementwise; 0 to the 0th is 1.

    Examples
    --------
    >>> import tcu
    >>> tcu.integers.power(-3, 5)
    -243
    >>> tcu.integers.power(2, [0, 1, 70])
    array([1, 2, 1180591620717411303424], dtype=object)
    """
    return each(long_integers.power, a=a, n=n)


def divmod(a: Any, b: Any) -> Any:
    """(a // b, a % b), rounded downwards as Python does: the remainder has the sign of b.

    Raises InvalidOperationError where b is 0.

    Examples
    --------
    >>> import tcu
    >>> tcu.integers.divmod(-(10**30), 7)
    (-142857142857142857142857142858, 6)
    """
    pairs = each(long_integers.divided, a=a, b=b)
    if isinstance(pairs, tuple):
        return pairs
    found = tuple(np.empty(pairs.shape, object) for _ in range(2))
    for place, both in enumerate(pairs.flat):
        for array, number in zip(found, both, strict=True):
            array.flat[place] = number
    return found


def mod(a: Any, b: Any) -> Any:
    """a % b as Python has it; errors are those of :func:`divmod`.

    Examples
    --------
    >>> import tcu
    >>> tcu.integers.mod(-(10**30), 7)
    6
    """
    return each(lambda x, y: long_integers.divided(x, y)[1], a=a, b=b)


def powmod(a: Any, n: Any, m: Any) -> Any:
    """a to the n-th modulo m ≥ 1, elementwise; of a negative n by the inverse of a.

    Raises ParameterError unless m ≥ 1, InvalidOperationError where a has no inverse modulo m and n is negative.

    Examples
    --------
    >>> import tcu
    >>> tcu.integers.powmod(3, 10**30, 10**9 + 7) == pow(3, 10**30, 10**9 + 7)
    True
    >>> tcu.integers.powmod(3, -1, 10)
    7
    """
    return each(long_integers.powmod, a=a, n=n, m=m)


def isqrt(a: Any) -> Any:
    """The square root of a ≥ 0, rounded downwards.

    Raises InvalidOperationError for a negative number.

    Examples
    --------
    >>> import tcu
    >>> tcu.integers.isqrt(10**60 - 1) == 10**30 - 1
    True
    """
    return each(long_integers.isqrt, a=a)


def product(numbers: Iterable[Any]) -> int:
    """The product of many integers, of none 1: neighbours first, then pairs of pairs, so that factors are of like lengths.

    Examples
    --------
    >>> import math, tcu
    >>> tcu.integers.product(range(1, 101)) == math.factorial(100)
    True
    """
    return long_integers.product_of_all([*integers_of("numbers", list(numbers)).flat])


def multiply_polynomials(a: Any, b: Any) -> Any:
    """The coefficients of the product of two polynomials with integer coefficients, of any size and sign, a_0 first.

    An exact convolution, by one product of two long integers.

    Parameters
    ----------
    a, b:
        Lines of integers, at least one each.

    Returns
    -------
    An array of Python integers, of len(a) + len(b) - 1.

    Raises
    ------
    DtypeError, ShapeError:
        Anything but integers; what is no line, or has no coefficient.

    Examples
    --------
    >>> import tcu
    >>> tcu.integers.multiply_polynomials([1, -(10**20)], [1, 10**20])
    array([1, 0, -10000000000000000000000000000000000000000], dtype=object)
    """
    lines = []
    for label, value in (("a", a), ("b", b)):
        line = integers_of(label, value)
        if line.ndim != 1 or not line.size:
            raise ShapeError(f"{label} has shape {line.shape}: give a line of coefficients, at least one")
        lines.append(line.tolist())
    return np.array(long_integers.convolved(*lines), object)


def to_text(a: Any) -> Any:
    """The decimal digits of an integer, of any number of them, behind a "-" where it is negative.

    Python's own ``str`` refuses more than 4,300 digits, and before Python 3.12 its time grows as their square.

    Examples
    --------
    >>> import tcu
    >>> len(tcu.integers.to_text(-(7**20000)))
    16903
    """
    return each(long_integers.to_text, a=a)


def from_text(text: str) -> int:
    """The integer that decimal digits name, behind "+", "-" or nothing; spaces around it are skipped.

    Raises ParameterError for any other text.

    Examples
    --------
    >>> import tcu
    >>> tcu.integers.from_text("-1" + 5000 * "0") == -(10**5000)
    True
    """
    found = _INTEGER.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        shown = repr(text) if len(repr(text)) < 40 else repr(text)[:36] + "..."
        raise ParameterError(f"{shown} is no decimal integer: give digits, behind + or - or nothing")
    sign, digits = found.groups()
    number = long_integers.from_digits(digits)
    return -number if sign == "-" else number
