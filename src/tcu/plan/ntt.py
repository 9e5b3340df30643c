"""Number-theoretic transforms modulo p = 2^64 - 2^32 + 1: their roots, and the lengths that products of long integers take.

A product of numbers of 16-bit digits is a cyclic convolution.  With n digits in the shorter factor, its sums are at most
n · (2^16 - 1)^2, which is below p for n up to 2^31: those of every length that is let through are exact.
"""

from __future__ import annotations

from tcu.errors import ParameterError

__all__ = ["P", "product_length", "root_of_unity"]

P = (1 << 64) - (1 << 32) + 1
"""A prime, whose multiplicative group has a subgroup of order 2^32."""
_GENERATOR = 7
"""Of the group."""
_MOST = 32
"""Of transforms, the logarithm of the length."""


def root_of_unity(n: int) -> int:
    """The n-th root modulo p that transforms of a length n take, a power of two."""
    return pow(_GENERATOR, (P - 1) // n, P)


def product_length(left: int, right: int) -> int:
    """The length of the transform that makes a product of numbers of so many digits of 16 bits.

    Raises ParameterError where sums could reach p.
    """
    length = 1 << max(left + right - 2, 0).bit_length()
    if length > 1 << _MOST:
        raise ParameterError(
            f"a product of {16 * left} and {16 * right} bits has more than 2^32 digits, which no transform modulo "
            "2^64 - 2^32 + 1 holds: cut the numbers into parts"
        )
    return length
