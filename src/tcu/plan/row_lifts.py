"""Powers of two by which rows are multiplied before gradients of their norms add up squares: they keep all bits."""

from __future__ import annotations

import math

__all__ = ["BETWEEN", "BETWEEN64", "most_lift"]

BETWEEN, BETWEEN64 = (-24, 40), (-400, 400)
"""Exponents that the largest number of a row may have, of binary32 and of binary64: sums of squares do not overflow then, and
squares of differences by one unit in its last place do not underflow.  A row is multiplied by the power of two that is
nearest to 1 and brings it there."""

_MOST = 1000
"""Above what any row needs."""


def most_lift(eps: float, is_direction: bool) -> float:
    """The largest of these powers beside an eps, which becomes 1 at most: it hides what smaller numbers come to."""
    room = max(-math.frexp(eps)[1] // (1 if is_direction else 2), 0) if eps else _MOST
    return 2.0 ** min(room, _MOST)
