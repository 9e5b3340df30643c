"""Shards in the memory of GPUs that NCCL connects: nothing waits for them but the first call of each kind."""

from __future__ import annotations

from typing import Any

import torch

from tcu.distributed.places import Shards
from tcu.distributed.words import signature_of
from tcu.engines.cuda import sums
from tcu.errors import ParameterError
from tcu.formats.format import Format
from tcu.gpu.arrays import torch_dtype
from tcu.gpu.device import current, find_gpu
from tcu.gpu.merge import PACKED_OF, MergeLaunch
from tcu.gpu.sums import WORDS_OF
from tcu.ops import Call, Operation
from tcu.ops.request import Request
from tcu.surfaces.shares import total_call

__all__ = ["OnGpu"]

_checked: set[tuple[str, int]] = set()
"""Descriptions and numbers of ranks that were found to agree."""


class OnGpu:
    """The share in the GPU's memory, packed there, and rounded there once the words of all ranks are added up."""

    def __init__(self, call: Call, shards: Shards, target: Format, description: str) -> None:
        self._shards, self._target, self._description = shards, target, description
        operation, x = call.operation, shards.local[0]
        (product,), planned = operation.tallies, not operation.exact
        library, self._ordinal = sums.home_of(shards.local)
        with current(self._ordinal):
            stream = library.current_stream(self._ordinal)
            self._launch = _launch(self._ordinal, target, description, operation, product, planned)
            summed: tuple[Any, ...] = shards.local
            if planned:
                total = self._room((), torch.float64)
                whole = total_call(operation, shards.local, call.options)
                sums.reduce(Request.of(whole.operation, whole.options), whole.arrays, total)
                summed = (total,)
            state = self._room(WORDS_OF[product], torch.int64)
            sums.add_exactly(library, self._ordinal, summed, product, state.data_ptr(), stream)
            self._words = self._room(PACKED_OF[product], torch.int64)
            self._launch.pack(state.data_ptr(), self._words.data_ptr(), x.numel(), stream)

    def exchange(self, group: Any, async_op: bool) -> Any:
        return torch.distributed.all_reduce(self._words, group=group, async_op=async_op)

    def _room(self, size: Any, dtype: Any) -> Any:
        return torch.empty(size, dtype=dtype, device=self._shards.local[0].device)

    def result(self) -> Any:
        with current(self._ordinal):
            stream = sums.home_of((self._words,))[0].current_stream(self._ordinal)
            result = self._room((), torch_dtype(self._target.dtype))
            self._launch.merge(self._words.data_ptr(), result.data_ptr(), self._shards.ranks, stream)
        self._check()
        return result

    def _check(self) -> None:
        """Waits for the exchange when such a reduction is done for the first time."""
        key = self._description, self._shards.ranks
        if key in _checked:
            return
        signature = signature_of(self._description)
        if self._words[-2:].tolist() != [
            signature * self._shards.ranks,
            signature * signature * self._shards.ranks,
        ]:
            raise ParameterError(
                f"the ranks do not agree on what is reduced; this one has {self._description}: make it the same on "
                "all of them"
            )
        _checked.add(key)


_launches: dict[tuple[int, str, str], MergeLaunch] = {}


def _launch(
    ordinal: int, target: Format, description: str, operation: Operation, product: bool, planned: bool
) -> MergeLaunch:
    key = ordinal, target.name, description
    if key not in _launches:
        _launches[key] = MergeLaunch(
            find_gpu(ordinal), target, signature_of(description), product=product, planned=planned,
            divide=operation.mean, root=operation.root,
        )  # fmt: skip
    return _launches[key]
