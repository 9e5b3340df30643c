"""What ranks exchange: an exact sum as integers, so that adding them up word by word merges the sums.

The layout is that of ``gpu/cuda/kernels/merge.cu``: 32 bits of the sum a word, so
that the words of 2^31 ranks add up without overflow; the counts of inf, -inf
and NaN; how many numbers; the signature of what is summed, and its square.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.ops.exact import Tally
from tcu.surfaces.shares import Share

__all__ = ["WORDS", "agreed", "share_of_words", "signature_of", "words_of"]

_BITS = 32
_EMPTY = 16
"""Bits at the low end that the GPU's accumulators have for themselves."""
_LIMBS = {False: 68, True: 134}
_TAIL = 6
WORDS = {product: limbs + _TAIL for product, limbs in _LIMBS.items()}
"""How many words of 8 bytes travel, by whether the sum is one of products."""


def signature_of(description: str) -> int:
    """24 bits, so that the squares of 2^15 ranks add up without overflow."""
    return int.from_bytes(hashlib.sha256(description.encode()).digest()[:3], "big")


def words_of(share: Share, product: bool, signature: int) -> npt.NDArray[np.int64]:
    """The words of one rank."""
    words = np.zeros(WORDS[product], np.int64)
    integer = abs(share.tally.integer) << _EMPTY
    limbs = np.frombuffer(integer.to_bytes(_LIMBS[product] * _BITS // 8, "little"), np.uint32)
    words[: _LIMBS[product]] = limbs
    if share.tally.integer < 0:
        words *= -1
    words[_LIMBS[product] :] = (*share.tally[1:], share.n, signature, signature * signature)
    return words


def share_of_words(words: npt.NDArray[Any], product: bool) -> Share:
    """The share that the words of all ranks, added up, stand for."""
    given = words.tolist()
    integer = sum(word << (_BITS * i) for i, word in enumerate(given[: _LIMBS[product]]))
    positive, negative, nans, n = given[_LIMBS[product] : -2]
    return Share(n, Tally(integer >> _EMPTY, positive, negative, nans))


def agreed(words: npt.NDArray[Any], ranks: int, signature: int) -> bool:
    """Whether all ranks had that signature: mean and mean square are its own only then (Cauchy and Schwarz)."""
    wanted = np.array([ranks * signature, ranks * signature * signature], np.uint64).view(np.int64)
    return bool(np.array_equal(words[-2:], wanted))
