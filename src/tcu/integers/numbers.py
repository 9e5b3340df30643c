"""Functions of Python's integers, of any size and sign, and elementwise of arrays of them.

Integers of a machine word or two are multiplied in less time than Python takes to call a function.  So a function looks at its
arguments once, calls nothing of tcu's on its way, and gives GMP's functions Python's integers as they are: to make `mpz` of them
first takes longer.  Parameters that must be named would cost a call 65 ns more, so none must.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from tcu.engines.choice import load_cuda
from tcu.errors import InvalidOperationError, ParameterError
from tcu.integers.operands import each, line_of, number_of, row_of
from tcu.model import gmp
from tcu.model.long_integers import product_by_transform

__all__ = [
    "divmod",
    "isqrt",
    "mod",
    "multiply",
    "power",
    "powmod",
    "product",
    "square",
]

# Bits from which GMP is the faster, conversions there and back included: read from the rows of benchmarks/results/cpu-integers.json,
# which a test compares with what is chosen.  Where Python's time grows as the product of two lengths, and GMP's hardly at all, they
# meet on a hyperbola (x - p)·(y - q) = area.
_FACTOR, _FACTORS = 420, 1500
"""Of each factor, and of both together."""
_SQUARE = 1300
"""Bits of a number that is squared."""
_DIVISOR, _QUOTIENT, _DIVIDE = 40, 200, 550_000
"""p of the divisor, q of the quotient, and the area, where both results are asked for."""
_MODULUS, _MULTIPLE, _REMAIN = -60, 220, 460_000
"""Likewise for the remainder alone, where there is no quotient to convert."""
_ROOT = 1 << 64
"""A number: below it Python's root is one of a machine word."""
_POWER = 850
"""Bits of a power."""
_DIGIT, _WORD = 1 << 30, 1 << 64
_BELOW_DIGIT, _BELOW_WORD, _BEYOND = 512, 8, 2
"""Exponents from which GMP is the faster, of a modulus of one of Python's digits, of a word, and of more."""
_PRODUCT, _GROUP = 4000, 400
"""Bits of all numbers of a product, and of neighbours that Python multiplies before GMP has them."""
_TRANSFORM = 60_000
"""Bits of the shorter factor from which the transform is faster than Python, where GMP is not there."""
_UNEVEN = 8
"""The longer factor is at most so many times as long then: Python cuts it into parts otherwise."""
_MOST_BITS = 1 << 36
"""Of a power: GMP ends the process where memory does not suffice."""
_LEAST_BITS = 1 << 17
"""Of factors that go to a GPU: an estimate, as GMP takes 0.3 ms for them, and conversions, copies and launches 0.15 ms."""


def multiply(
    a: Any, b: Any, machine: Any = None, algorithm: str = "auto", executor: str | None = None
) -> Any:  # fmt: skip
    """a·b of integers of any size and sign.

    Parameters
    ----------
    a, b:
        Python integers, or arrays (lists, NumPy arrays of integers or of Python integers as objects, tensors in the host's
        memory), which broadcast.
    machine:
        A :class:`tcu.Machine` on which the product runs as a counted algorithm (Theorems 5 and 6).
    algorithm:
        The machine's: "schoolbook", "karatsuba" or "auto".
    executor:
        "gpu": factors of 2^17 bits and more go to the first GPU, and their product comes back; shorter ones take less time
        here.  16 MB of the GPU's memory, and as much pinned memory, are kept for the next call.  None: all are multiplied here.

    Returns
    -------
    An int, or an array of Python integers (dtype object).

    Raises
    ------
    DtypeError, ShapeError:
        Anything but integers; arrays that do not broadcast.
    ParameterError:
        An algorithm without a machine, or what is no machine; what :meth:`tcu.Machine.integer_multiply` refuses; another executor; on a GPU a
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
    if type(a) is int and type(b) is int and machine is None and executor is None and algorithm == "auto":
        m, n = a.bit_length(), b.bit_length()
        if m + n < _FACTORS or m < _FACTOR or n < _FACTOR:
            return a * b
        library = gmp.library or gmp.load()
        if library is not None:
            return int(library.mul(a, b))
        shorter, longer = sorted((m, n))
        return a * b if shorter < _TRANSFORM or longer > _UNEVEN * shorter else product_by_transform(a, b)
    if executor not in (None, "gpu"):
        raise ParameterError(f"executor={executor!r}: choose 'gpu', or leave it out")
    if type(a) is int and type(b) is int and machine is None and algorithm == "auto":
        return _product_on_gpu(a, b)
    if machine is not None:
        if executor:
            raise ParameterError("machine and executor='gpu' are two ways to multiply: give one of them")
        if not hasattr(machine, "integer_multiply"):
            raise ParameterError(
                f"machine={machine!r}: multiply takes two numbers, and a machine=tcu.Machine(256) on which the product "
                "runs; product multiplies several numbers"
            )
        return machine.integer_multiply(a, b, algorithm=algorithm)
    if algorithm != "auto":
        raise ParameterError(
            f"algorithm={algorithm!r} is a machine's: give the machine, too, machine=tcu.Machine(...)"
        )
    return each(_product_on_gpu if executor else multiply, a=a, b=b)


def _product_on_gpu(a: int, b: int) -> int:
    if min(a.bit_length(), b.bit_length()) < _LEAST_BITS:
        return int(multiply(a, b))
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
    if type(a) is not int:
        return each(square, a=a)
    if a.bit_length() < _SQUARE:
        return a * a
    library = gmp.library or gmp.load()
    if library is not None:
        return int(library.square(a))
    return a * a if a.bit_length() < _TRANSFORM else product_by_transform(a, a)


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
    if not (type(a) is int and type(n) is int):
        return each(power, a=a, n=n)
    bits = n * a.bit_length()
    if 0 <= bits < _POWER and n >= 0:
        result: int = a**n
        return result
    if n == 2:
        return square(a)
    if n < 0:
        raise ParameterError(f"n={n}: give an exponent of 0 or more, or take powmod")
    if bits > _MOST_BITS:
        if abs(a) == 1:
            return a if n % 2 else 1
        if (abs(a) - 1).bit_length() * n > _MOST_BITS:  # a power of two has as many bits as its exponent
            raise ParameterError(
                f"the power has more than 2^36 bits, as n={n} and a has {a.bit_length()}: take powmod"
            )
    library = gmp.library or gmp.load()
    if library is not None:
        return int(library.mpz(a) ** n)
    if bits < _TRANSFORM:
        return int(a**n)
    found = 1
    for bit in bin(n)[2:]:
        found = square(found)
        if bit == "1":
            found = multiply(found, a)
    return found


def divmod(a: Any, b: Any) -> Any:
    """(a // b, a % b), rounded downwards as Python does: the remainder has the sign of b.

    Raises InvalidOperationError where b is 0.

    Examples
    --------
    >>> import tcu
    >>> tcu.integers.divmod(-(10**30), 7)
    (-142857142857142857142857142858, 6)
    """
    if not (type(a) is int and type(b) is int):
        return each(divmod, results=2, a=a, b=b)
    bits = b.bit_length()
    try:
        if (bits - _DIVISOR) * (a.bit_length() - bits - _QUOTIENT) < _DIVIDE:
            return builtins.divmod(a, b)
        library = gmp.library or gmp.load()
        if library is None:
            return builtins.divmod(a, b)
        quotient, rest = library.f_divmod(a, b)
        return int(quotient), int(rest)
    except ZeroDivisionError:
        raise _no_divisor() from None


def mod(a: Any, b: Any) -> Any:
    """a % b as Python has it; errors are those of :func:`divmod`.

    Examples
    --------
    >>> import tcu
    >>> tcu.integers.mod(-(10**30), 7)
    6
    """
    if not (type(a) is int and type(b) is int):
        return each(mod, a=a, b=b)
    bits = b.bit_length()
    try:
        if (bits - _MODULUS) * (a.bit_length() - bits - _MULTIPLE) < _REMAIN:
            return a % b
        library = gmp.library or gmp.load()
        return a % b if library is None else int(library.f_mod(a, b))
    except ZeroDivisionError:
        raise _no_divisor() from None


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
    if not (type(a) is int and type(n) is int and type(m) is int):
        return each(powmod, a=a, n=n, m=m)
    if m < 1:
        raise ParameterError(f"m={m}: give a modulus of 1 or more")
    few = _BELOW_DIGIT if m < _DIGIT else _BELOW_WORD if m < _WORD else _BEYOND
    library = None if 0 <= n < few else gmp.library or gmp.load()
    try:
        return pow(a, n, m) if library is None else int(library.powmod(a, n, m))
    except (ValueError, ZeroDivisionError):
        raise InvalidOperationError(
            "n is negative, and a has a divisor in common with m: a has no inverse modulo m, so take n of 0 or more"
        ) from None


def isqrt(a: Any) -> Any:
    """The square root of a ≥ 0, rounded downwards.

    Raises InvalidOperationError for a negative number.

    Examples
    --------
    >>> import tcu
    >>> tcu.integers.isqrt(10**60 - 1) == 10**30 - 1
    True
    """
    if type(a) is not int:
        return each(isqrt, a=a)
    if a < _ROOT:
        if a < 0:
            raise InvalidOperationError("a is negative, and has no square root among the integers: take -a")
        return math.isqrt(a)
    library = gmp.library or gmp.load()
    return math.isqrt(a) if library is None else int(library.isqrt(a))


def product(numbers: Iterable[Any]) -> int:
    """The product of many integers, of none 1: neighbours first, then pairs of pairs, so that factors are of like lengths.

    Raises DtypeError for anything but integers, ShapeError for a single number.

    Examples
    --------
    >>> import math, tcu
    >>> tcu.integers.product(range(1, 101)) == math.factorial(100)
    True
    """
    line = line_of("numbers", numbers)
    bits = sum(map(int.bit_length, line))
    if bits < _PRODUCT:
        return math.prod(line)
    group = _GROUP * len(line) // bits
    level: Sequence[Any] = line
    if group > 1:
        level = [math.prod(line[i : i + group]) for i in range(0, len(line), group)]
    library = gmp.library or gmp.load()
    multiplied: Callable[[Any, Any], Any] = multiply if library is None else library.mul
    while len(level) > 1:
        level = [*map(multiplied, level[::2], level[1::2]), *level[len(level) & ~1 :]]
    return int(level[0])


def _no_divisor() -> InvalidOperationError:
    return InvalidOperationError("b is 0, by which nothing can be divided: leave it out")
