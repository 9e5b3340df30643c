"""Sums by index of tensors in a GPU's memory.

Numbers are added to their slots by atomic additions of integers where the slots are few enough to stay in the second cache.  Otherwise
counters or a sort bring the places of each slot together, whose numbers or rows are added up exactly.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from tcu.engines.cuda import segments
from tcu.engines.cuda.sums import home_of
from tcu.gpu.device import current, find_gpu
from tcu.gpu.index_sums import Room, count_recipe, place_recipe, rows_recipe, sort_recipes
from tcu.gpu.launch import Launch, Recipe
from tcu.gpu.slot_sums import SlotWords, slot_sums_recipe
from tcu.gpu.sums import LOAD
from tcu.model.elements import summable
from tcu.ops import FMEAN, FSUM
from tcu.ops.request import Request
from tcu.ops.result import result_format

__all__ = ["sum_by_index"]


def sum_by_index(rows: Any, index: Any, slots: int, mean: bool, dtype: Any) -> tuple[Any, Any]:
    """(the exact sums or means of each column of each slot's rows, n less the first place whose index is out of range, or 0).

    ``rows`` are (n, columns), ``index`` a line of whole numbers of 32 or 64 bits; what is out of range counts nowhere.  Both
    results are tensors that nobody waits for.
    """
    (n, columns), torch = rows.shape, sys.modules["torch"]
    library, ordinal = home_of((rows,))
    with current(ordinal):
        stream = library.current_stream(ordinal)
        if columns > 1 and rows.stride(1) != 1:
            rows = rows.contiguous()
        view, places = library.view("x", rows, stream), library.view("index", index.contiguous(), stream)
        element = summable(view.dtype, "x", "sum")
        target = result_format(element, dtype)
        wide, stride = bool(places.dtype == np.int64), view.strides[0] if n > 1 else columns
        slot_words = SlotWords.of(n, slots, element, mean, find_gpu(ordinal)) if columns == 1 else None
        if slot_words is not None:
            words, address = library.empty(rows, (slot_words.words,), np.dtype(np.int64), ordinal)
            words[: slot_words.zeros].zero_()
            packed = stride == 1 and view.address % LOAD == 0 and places.address % LOAD == 0
            given = n, slots, wide, slot_words, stride, packed, element, target
            launch = _launch(slot_sums_recipe, given, mean, ordinal)
            result, out = library.empty(rows, (slots, 1), target.dtype, ordinal)
            launch.start(view.address, places.address, out, stream, address)
            return result, words[:1]
        size = element.dtype.itemsize if columns == 1 else 0
        room = Room.of(n, slots, columns, size)
        words, address = library.empty(rows, (room.words,), np.dtype(np.int64), ordinal)
        words[: room.zeros].zero_()
        steps = _steps(n, slots, wide, room, size, stride, ordinal) if n else ()
        edges = words[room.edges : room.edges + slots + 1]
        halves = words[room.counts :].view(torch.int32)
        for launch, counts in steps:
            launch.start(view.address, places.address, 0, stream, address)
            if counts and room.passes:
                torch.cumsum(halves[:counts], 0, dtype=torch.int32, out=halves[counts : 2 * counts])
            elif counts:
                torch.cumsum(words[room.counts : room.counts + counts], 0, out=edges[1:])
        if not n:
            edges.zero_()
        if columns == 1:
            line = words[room.placed : room.other_ranks].view(rows.dtype)[:n]
            request = Request(FMEAN if mean else FSUM, dtype=dtype)
            result = segments.reduce(request, line, edges, None, check=False).reshape(slots, 1)
        else:
            aligned = view.address % LOAD == 0
            launch = _launch(
                rows_recipe, (n, slots, columns, stride, aligned, room, element, target), mean, ordinal
            )
            result, out = library.empty(rows, (slots, columns), target.dtype, ordinal)
            if slots and columns:
                launch.start(view.address, 0, out, stream, address)
        return result, words[:1]


@lru_cache(maxsize=1024)
def _steps(
    n: int, slots: int, wide: bool, room: Room, size: int, stride: int, ordinal: int
) -> tuple[tuple[Launch, int], ...]:
    """Launches, and how many counts of digits or slots have to be added up behind each."""
    gpu = find_gpu(ordinal)
    if not room.passes:
        count, place = count_recipe(n, slots, wide, room), place_recipe(n, slots, wide, room, size, stride)
        return (Launch(count, gpu), slots), (Launch(place, gpu), 0)
    found = []
    for number in range(room.passes):
        count, sort = sort_recipes(n, slots, wide, room, size, stride, number)
        found += [
            (Launch(count, gpu), count.kernels[0].blocks * count.kernels[0].threads),
            (Launch(sort, gpu), 0),
        ]
    return tuple(found)


@lru_cache(maxsize=1024)
def _launch(recipe_of: Callable[..., Recipe], given: tuple[Any, ...], mean: bool, ordinal: int) -> Launch:
    gpu = find_gpu(ordinal)
    return Launch(recipe_of(*given, gpu, mean=mean), gpu)
