"""Scans over ranks: every rank scans its shard, and adds what the ranks before it have, exactly."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.distributed.agreement import agree, described, disagreement, gathered, telling
from tcu.distributed.places import Shards, shards_of
from tcu.distributed.words import share_of_words, words_of
from tcu.formats.tensor import host_view, tensor_of
from tcu.ops import FSUM
from tcu.ops.operation import Call
from tcu.ops.request import ScanRequest
from tcu.surfaces.carries import carried, carry_of, local_scan
from tcu.surfaces.shares import row_shares

__all__ = ["scan"]


def scan(call: Call, group: Any) -> Any:
    """The result, of which each rank gets its part."""
    ScanRequest(*call.options).check_in_parts("shards")
    shards = shards_of(call, group)
    with telling(call, shards):
        target, description = described(call, shards)
    x = shards.local[0]
    (axis,), exclusive, reverse = shards.axes.reduced, call.option("exclusive"), call.option("reverse")
    given = x if x.is_cuda else host_view(x)
    if not agree(shards, description):
        raise disagreement(shards, description)
    carry = _carry(given, axis, shards, reverse)
    result = carried(local_scan(given, axis, exclusive=exclusive, reverse=reverse), carry, axis, target)
    return shards.wrap(result if x.is_cuda else tensor_of(result))


def _carry(given: Any, axis: int, shards: Shards, reverse: bool) -> npt.NDArray[np.float64]:
    """What the ranks before this one have, for every row."""
    if not shards.groups:
        return np.zeros(shards.axes.shape)
    (group,) = shards.groups
    shares = row_shares(FSUM, given, (axis,), (None,)).flat
    words = np.array([words_of(share, FSUM.tallies, 0) for share in shares], np.int64)
    rank = sys.modules["torch"].distributed.get_rank(group)
    everybody = gathered(words, group)
    before = everybody[rank + 1 :] if reverse else everybody[:rank]
    total = sum(before, np.zeros_like(words))
    carries = [carry_of(share_of_words(row, FSUM.tallies)[1]) for row in total]
    return np.array(carries, np.float64).reshape(shards.axes.shape)
