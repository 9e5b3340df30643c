"""Reductions of arrays that lie in several places: each block's share, their exact merging, and the result.

A share is exact: of ``fsum``, ``fmean``, ``fdot`` and ``fnorm`` the numbers
or products of a block, added up without rounding; of ``sum``, ``mean``,
``dot`` and ``norm`` the block's total by the plan of its own length, in
binary64.  So merging has no order.  The exact reductions depend on the
numbers alone; the planned ones on which numbers form a block: the blocks'
totals are added exactly and rounded to binary64, and from there on it is as
for one array.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tcu.collectives import exact, exact_products, products, summation
from tcu.collectives.exact import Tally, exact_sum
from tcu.collectives.request import OPTIONS, Operation
from tcu.collectives.results import round_number, round_sum
from tcu.errors import InvalidOperationError
from tcu.formats.array import lives_on_gpu
from tcu.formats.format import Format, get_format
from tcu.formats.inexact import quotient, square_root
from tcu.formats.scalar import Number
from tcu.model.pairs import Pairs

__all__ = ["EXACT", "Share", "merged", "rounded_share", "scale_of", "share_of", "share_of_total"]

EXACT: tuple[Operation, ...] = ("fsum", "fmean", "fdot", "fnorm")
"""The operations whose result depends on the numbers alone."""
_NAN = Number("nan", False, (1 << 52) - 1)


class Share(NamedTuple):
    """What a block contributes."""

    n: int = 0
    tally: Tally = Tally()
    """In units of 2^:func:`scale_of`."""


def scale_of(operation: Operation) -> int:
    """The exponent of a tally's unit."""
    return exact_products.PRODUCT_SCALE if operation in ("fdot", "fnorm") else exact.SCALE


def share_of(operation: Operation, arrays: Sequence[Any], options: Sequence[Any]) -> Share:
    """The share of a block, on the CPU or on the GPU where it lies, which is waited for.

    ``options`` in the order of OPTIONS; the result's dtype among them has no say here.
    """
    x, y = arrays[0], arrays[-1]
    if operation in EXACT:
        if lives_on_gpu(x):
            from tcu.collectives import device

            return Share(*device.exact_tally(arrays, operation in ("fdot", "fnorm")))
        if operation in ("fsum", "fmean"):
            return Share(*exact.tally_on_host(x))
        pairs = Pairs(x, y)
        return Share(pairs.n, exact_products.tally_of_pairs(pairs))
    named = dict(zip(OPTIONS[operation][:-1], options, strict=False))
    if operation in ("sum", "mean"):
        total = summation.sum(x, dtype="float64", **named)
    else:
        total = products.dot(x, y, dtype="float64", **named)
    return share_of_total(math.prod(x.shape), float(total))


def share_of_total(n: int, total: float) -> Share:
    """The share of a block whose total is known, in binary64."""
    return Share(n, exact_sum(np.array([total]), get_format("binary64")))


def merged(shares: Iterable[Share]) -> Share:
    """All of them, in any order."""
    n, tally = 0, Tally()
    for share in shares:
        n += share.n
        tally = tally.plus(share.tally)
    return Share(n, tally)


def rounded_share(operation: Operation, share: Share, target: Format) -> Any:
    """The result, a NumPy scalar.

    Raises InvalidOperationError where an exact reduction meets inf and -inf.
    """
    if operation in EXACT:
        number = share.tally.number(scale_of(operation))
        if operation == "fmean":
            number = quotient(number, share.n) if share.n else _NAN
        if operation == "fnorm":
            number = square_root(number)
        return round_number(number, target)
    try:
        total = float(round_number(share.tally.number(exact.SCALE), None))
    except InvalidOperationError:
        total = math.nan
    if operation == "mean":
        total = total / share.n + 0.0 if share.n else math.nan
    if operation == "norm":
        total = math.sqrt(total)
    return round_sum(total, target)
