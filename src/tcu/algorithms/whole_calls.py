"""The theorems' bounds for every size: with the whole tensor calls that their proofs take for granted.

The theorems are printed for sizes that fill the unit: n ≥ m, multiples of √m.
A program cannot make less than a whole call, so below those sizes no constant
holds for what is printed, and Theorem 6 assumes a base case that is cheaper
than any call.  Each bound here is the printed one where that is right, and
what its own proof gives where it is not; a constant then holds for every n ≥ 1.
"""

from __future__ import annotations

import math
from typing import Any

from tcu.algorithms.dft import dft_bound
from tcu.algorithms.integers import schoolbook_bound
from tcu.algorithms.matmul import matmul_bound, strassen_like_bound
from tcu.algorithms.parameters import MachineLike, parameters
from tcu.algorithms.polynomials import polynomial_bound
from tcu.algorithms.reductions import SumVariant, sum_bound
from tcu.algorithms.schemes import BilinearScheme
from tcu.algorithms.sparse import sparse_bound
from tcu.machine import Machine

__all__ = [
    "whole_dft_bound",
    "whole_karatsuba_bound",
    "whole_matmul_bound",
    "whole_polynomial_bound",
    "whole_schoolbook_bound",
    "whole_sparse_bound",
    "whole_strassen_like_bound",
    "whole_sum_bound",
]


def whole_matmul_bound(machine: MachineLike, rows: int, inner: int, columns: int) -> float:
    """Theorem 2, where a size below √m counts as √m: the operands of a call are padded to it."""
    side = math.isqrt(parameters(machine)[0])
    return matmul_bound(machine, max(rows, side), max(inner, side), max(columns, side))


def whole_strassen_like_bound(
    machine: MachineLike, rows: int, inner: int, columns: int, scheme: str | BilinearScheme
) -> float:
    """Theorem 1, likewise: its proof charges m + ℓ for every n ≤ m."""
    side = math.isqrt(parameters(machine)[0])
    return strassen_like_bound(machine, max(rows, side), max(inner, side), max(columns, side), scheme)


def whole_sparse_bound(
    machine: MachineLike, inner: int, nonzeros: int, entries: int, exponent: float = 1.5
) -> float:
    """Theorem 3, where a side below √m counts as √m: its dense products are calls of that many rows."""
    side = math.isqrt(parameters(machine)[0])
    return sparse_bound(machine, max(inner, side), nonzeros, entries, exponent)


def whole_dft_bound(machine: MachineLike, n: int) -> float:
    """Theorem 4, where n below m counts as m: its proof charges m + ℓ for every n ≤ m."""
    return dft_bound(machine, max(n, parameters(machine)[0]))


def whole_schoolbook_bound(machine: MachineLike, bits: int, word_bits: int = 64) -> float:
    """Theorem 5 and one call whose right matrix is not full: w·√m + m + ℓ more, for w = n / κ words.

    The proof has n / m full right matrices: n ≥ κ·m.
    """
    m, latency = parameters(machine)
    words = bits / _word_bits(machine, word_bits)
    return schoolbook_bound(machine, bits, word_bits) + words * math.sqrt(m) + m + latency


def whole_karatsuba_bound(machine: MachineLike, bits: int, word_bits: int = 64) -> float:
    """(w / m)^(log₂ 3) · (m^{3/2} + ℓ) for w = n / κ ≥ m words, and w·√m + m + ℓ below.

    Theorem 6 ends its recursion at κ·√m bits, whose product it says to cost
    √m + ℓ / √m: less than the m + ℓ of any call.  The cheapest end is where a
    right matrix is full, at κ·m bits.  Against Theorem 6 as printed that is
    m^0.21 times as much for the products, and m^-0.29 times the latency.
    """
    m, latency = parameters(machine)
    words = bits / _word_bits(machine, word_bits)
    leaf = min(words, m)
    return float((words / leaf) ** math.log2(3) * (leaf * math.sqrt(m) + m + latency))


def _word_bits(machine: MachineLike, word_bits: int) -> int:
    return machine.word_bits if isinstance(machine, Machine) else word_bits


def whole_polynomial_bound(machine: MachineLike, n: int, points: int) -> float:
    """Theorem 7 with ℓ for a call that is not full, where fewer points than √m count as √m."""
    m, latency = parameters(machine)
    return polynomial_bound(machine, n, max(points, math.isqrt(m))) + latency


def whole_sum_bound(machine: MachineLike, n: int, variant: SumVariant = "tall", chain: int = 1) -> float:
    """:func:`sum_bound`, where fewer numbers than a call takes count as so many."""
    m: Any = parameters(machine)[0]
    return sum_bound(machine, max(n, chain * m), variant, chain)
