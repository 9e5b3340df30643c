"""Scans over ranks: every rank scans its shard, and adds what the ranks before it have, exactly."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.distributed.agreement import agree, described, disagreement, gathered, telling
from tcu.distributed.places import Shards, shards_of
from tcu.distributed.words import share_of_words, words_of
from tcu.errors import ParameterError
from tcu.formats.tensor import host_view, tensor_of
from tcu.model.ieee_environment import ieee
from tcu.ops import FSUM
from tcu.ops.exact import Tally
from tcu.ops.operation import Call, Operation
from tcu.ops.request import ScanRequest
from tcu.surfaces.carries import as_carries, scan_of_block
from tcu.surfaces.shares import row_shares

__all__ = ["scan"]


@ieee
def scan(call: Call, group: Any) -> Any:
    """The result, of which each rank gets its part."""
    if not call.operation.exact:
        ScanRequest(*call.options).check_in_parts("shards")
    shards = shards_of(call, group)
    x = shards.local[0]
    with telling(call, shards):
        target, description = described(call, shards)
        if x.is_cuda and not call.operation.on_gpu:
            raise ParameterError(
                f"{call.operation} has no kernel for GPUs: pass shards in the host's memory, x.cpu()"
            )
    (axis,), exclusive, reverse = shards.axes.reduced, call.option("exclusive"), call.option("reverse")
    given = x if x.is_cuda else host_view(x)
    if not agree(shards, description):
        raise disagreement(shards, description)
    carry = _carry(call.operation, given, axis, shards, reverse)
    result = scan_of_block(call.operation, given, carry, axis, target, exclusive, reverse)
    return shards.wrap(result if x.is_cuda else tensor_of(result))


def _carry(operation: Operation, given: Any, axis: int, shards: Shards, reverse: bool) -> npt.NDArray[Any]:
    """What the ranks before this one have, for every row."""
    if not shards.groups:
        return as_carries(operation, [Tally()] * math.prod(shards.axes.shape)).reshape(shards.axes.shape)
    (group,) = shards.groups
    shares = row_shares(FSUM, (given,), (axis,), (None,)).flat
    words = np.array([words_of(share, FSUM.tallies, 0) for share in shares], np.int64)
    rank = sys.modules["torch"].distributed.get_rank(group)
    everybody = gathered(words, group)
    before = everybody[rank + 1 :] if reverse else everybody[:rank]
    total = sum(before, np.zeros_like(words))
    tallies = [share_of_words(row, FSUM.tallies)[1] for row in total]
    return as_carries(operation, tallies).reshape(shards.axes.shape)
