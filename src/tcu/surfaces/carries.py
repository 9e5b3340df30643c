"""Scans of arrays that lie in several places: what comes before a block, exactly, and the block's own scan.

Two levels.  A block is scanned by :func:`tcu.cumsum` in binary64.  The carry
of a block is the exact sum of everything before it, rounded once to binary64:
exact sums of blocks merged in order.  Each element is their sum, rounded to
binary64 and from there to the result.  So its bits depend on the numbers and
on where its block begins, not on how what comes before is cut, nor on who
computed it; and errors do not grow from block to block.  Of :func:`tcu.fcumsum` the
carry is the exact sum itself, so where blocks begin leaves no trace.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.engines import execute
from tcu.engines.host import exact_scans
from tcu.engines.host.planned import encoded
from tcu.errors import InvalidOperationError, ParameterError
from tcu.formats.array import lives_on_gpu
from tcu.formats.format import Format
from tcu.formats.tensor import is_tensor
from tcu.model.elements import Elements
from tcu.model.ieee_environment import ieee
from tcu.ops import CUMSUM, SUM
from tcu.ops.exact import SCALE, Tally
from tcu.ops.layout import Along
from tcu.ops.operation import Call, Operation
from tcu.ops.options import defaults
from tcu.ops.result import round_number
from tcu.surfaces.shares import Share, merged

__all__ = ["as_carries", "carried", "carries", "carry_of", "local_scan", "scan_of_block"]


def carry_of(before: Tally) -> float:
    """The exact sum of what comes before, rounded once; NaN where inf and -inf meet."""
    try:
        return float(round_number(before.number(SCALE), None))
    except InvalidOperationError:
        return math.nan


def carries(operation: Operation, shares: Iterable[npt.NDArray[Any]]) -> Iterable[npt.NDArray[Any]]:
    """What comes before each of the blocks' rows, from the shares of the blocks' rows in order."""
    before: Any = None
    for block in shares:
        if before is None:
            before = np.empty(block.shape, object)
            before.fill(Share())
        yield as_carries(operation, [share.tally for share in before.flat]).reshape(before.shape)
        both: Any = np.empty(block.shape, object)
        for where in np.ndindex(block.shape):
            both[where] = merged([before[where], block.item(where)])
        before = both


@ieee
def as_carries(operation: Operation, before: Iterable[Tally]) -> npt.NDArray[Any]:
    """Exact sums as a block's scan takes them: themselves, or rounded to binary64."""
    if not operation.exact:
        return np.array([carry_of(each) for each in before], np.float64)
    found = list(before)
    carries = np.empty(len(found), object)
    for i, each in enumerate(found):
        carries[i] = each
    return carries


@ieee
def scan_of_block(
    operation: Operation, x: Any, carry: npt.NDArray[Any], axis: int, target: Format, exclusive: bool, reverse: bool
) -> Any:  # fmt: skip
    """A block's part of the result; ``carry`` lacks the axis.  Raises ParameterError."""
    if not operation.exact:
        return carried(local_scan(x, axis, exclusive=exclusive, reverse=reverse), carry, axis, target)
    if lives_on_gpu(x):
        raise ParameterError(
            f"{operation} has no kernel for GPUs: copy the parts to the host's memory, with x.cpu() or cupy.asnumpy(x)"
        )
    return exact_scans.scan_behind(Elements(x), carry, axis, target, exclusive, reverse)


def local_scan(x: Any, axis: int, *, exclusive: bool, reverse: bool) -> Any:
    """The scan of a block alone, in binary64."""
    options = CUMSUM.values({"exclusive": exclusive, "reverse": reverse, "dtype": "float64"})
    return execute(Call(CUMSUM, (x,), Along(axis), options))[0]


def carried(scan: Any, carry: npt.NDArray[np.float64], axis: int, target: Format) -> Any:
    """A block's scan with its rows' carries, rounded, in the library of the scan; ``carry`` lacks the axis."""
    carry = np.expand_dims(carry, axis)
    if is_tensor(scan):
        torch = sys.modules["torch"]
        scan = scan + torch.from_numpy(carry).to(scan.device)
        if target.name == "bfloat16":  # to which PyTorch rounds binary64 twice; a sum of one number does once
            options = (*defaults(SUM.options[:-1]), torch.bfloat16)
            return execute(Call(SUM, (scan.unsqueeze(-1),), Along(-1), options))[0]
        return scan.to(getattr(torch, target.dtype.name))
    with np.errstate(all="ignore"):
        if lives_on_gpu(scan):
            return (scan + sys.modules["cupy"].asarray(carry)).astype(target.dtype)
        return encoded(scan + carry + 0.0, target).view(target.dtype)
