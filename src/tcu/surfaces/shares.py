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

from tcu.engines import execute, load_cuda
from tcu.engines.host.exact import scale_of, tally_of
from tcu.errors import InvalidOperationError
from tcu.formats.array import lives_on_gpu
from tcu.formats.format import Format, get_format
from tcu.ops import DOT, SUM
from tcu.ops.exact import SCALE, Tally, exact_sum
from tcu.ops.finish import finish_exactly, finish_totals
from tcu.ops.layout import WHOLE
from tcu.ops.operation import Call, Operation
from tcu.ops.result import round_number, round_sum

__all__ = ["Share", "merged", "rounded_share", "share_of", "share_of_total", "total_call"]


class Share(NamedTuple):
    """What a block contributes."""

    n: int = 0
    tally: Tally = Tally()
    """In units of 2^:func:`scale_of`."""


def share_of(operation: Operation, arrays: Sequence[Any], options: Sequence[Any]) -> Share:
    """The share of a block, on the CPU or on the GPU where it lies, which is waited for.

    ``options`` in the order in which they travel; the result's dtype among them has no say here.
    """
    if operation.exact:
        if lives_on_gpu(arrays[0]):
            return Share(*load_cuda().sums.exact_tally(arrays, operation.product))
        return Share(*tally_of(operation, tuple(arrays)))
    total, _ = execute(total_call(operation, arrays, options))
    return share_of_total(math.prod(arrays[0].shape), float(total))


def total_call(operation: Operation, arrays: Sequence[Any], options: Sequence[Any]) -> Call:
    """What the plan of an operation adds up of whole arrays, in binary64."""
    whole = DOT if operation.product else SUM
    given = (arrays[0], arrays[-1]) if operation.product else (arrays[0],)
    return Call(whole, given, WHOLE, (*options[: len(whole.options) - 1], "float64"))


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
    if operation.exact:
        return round_number(
            finish_exactly(operation, share.tally.number(scale_of(operation)), share.n), target
        )
    try:
        total = float(round_number(share.tally.number(SCALE), None))
    except InvalidOperationError:
        total = math.nan
    return round_sum(float(finish_totals(operation, np.array([total]), share.n)[0]), target)
