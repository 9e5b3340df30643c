"""What ranks exchange: an exact sum as integers, so that adding them up word by word merges the sums.

The layout is that of ``gpu/cuda/kernels/merge.cu``: 32 bits of the sum a word, so
that the words of 2^31 ranks add up without overflow; the counts of inf, -inf
and NaN; both again for every further sum of a share; how many numbers; the
signature of what is summed, and its square.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.ops.exact import Tally

__all__ = ["agreed", "share_of_words", "signature_of", "size_of", "words_of"]

_BITS = 32
_EMPTY = 16
"""Bits at the low end that the GPU's accumulators have for themselves."""
_LIMBS = {False: 68, True: 134}
_COUNTS, _TAIL = 3, 3


def size_of(products: Sequence[bool]) -> int:
    """How many words of 8 bytes travel for a share of these sums."""
    return sum(_LIMBS[product] + _COUNTS for product in products) + _TAIL


def signature_of(description: str) -> int:
    """24 bits, so that the squares of 2^15 ranks add up without overflow."""
    return int.from_bytes(hashlib.sha256(description.encode()).digest()[:3], "big")


def words_of(share: Sequence[Any], products: Sequence[bool], signature: int) -> npt.NDArray[np.int64]:
    """The words of one rank: ``share`` is a count and exact sums, ``products`` which of those that travel are of products."""
    words: list[Any] = []
    for tally, product in zip(share[1:], products, strict=False):
        integer = abs(tally.integer) << _EMPTY
        limbs = np.frombuffer(integer.to_bytes(_LIMBS[product] * _BITS // 8, "little"), np.uint32)
        words += [limbs * np.int64(-1 if tally.integer < 0 else 1), tally[1:]]
    return np.concatenate([*words, (share[0], signature, signature * signature)])


def share_of_words(words: npt.NDArray[Any], products: Sequence[bool]) -> tuple[Any, ...]:
    """The share that the words of all ranks, added up, stand for."""
    given, tallies = words.tolist(), []
    for product in products:
        limbs, given = given[: _LIMBS[product]], given[_LIMBS[product] :]
        integer = sum(word << (_BITS * i) for i, word in enumerate(limbs))
        tallies.append(Tally(integer >> _EMPTY, *given[:_COUNTS]))
        given = given[_COUNTS:]
    return given[0], *tallies


def agreed(words: npt.NDArray[Any], ranks: int, signature: int) -> bool:
    """Whether all ranks had that signature: mean and mean square are its own only then (Cauchy and Schwarz)."""
    wanted = np.array([ranks * signature, ranks * signature * signature], np.uint64).view(np.int64)
    return bool(np.all(words[..., -2:] == wanted))
