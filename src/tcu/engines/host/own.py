"""Operations by functions of their own (``share``, ``merge``, ``finished``), with the layouts and checks of all others."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.engines.host.planned import encoded
from tcu.model.elements import Elements
from tcu.ops.layout import Axes, Ragged, check_line
from tcu.ops.offsets import checked_offsets
from tcu.ops.operation import Call, Operation
from tcu.ops.result import put, target_of

__all__ = ["own_shares", "reduce"]


def reduce(call: Call) -> tuple[Any, None]:
    """(the results, None)"""
    elements = Elements.of(call.arrays[0])
    if isinstance(call.layout, Ragged):
        check_line(elements.array.shape)
        edges = checked_offsets(call.layout.offsets, elements.n)
        shape: tuple[int, ...] = (edges.size - 1,)
        target = target_of(elements.format, call.dtype, call.out, shape)
        line = elements.read(0, elements.n)
        pieces = [line[start:stop].reshape(1, -1) for start, stop in pairwise(edges.tolist())]
        results = [_results(call.operation, piece) for piece in pieces]
        values = np.concatenate(results) if results else np.empty(0)
    else:
        axes = Axes.of(call.layout, elements.array.shape)
        shape = axes.shape
        target = target_of(elements.format, call.dtype, call.out, shape)
        values = _results(call.operation, _as_rows(elements.array, axes))
    return put(encoded(values, target).view(target.dtype).reshape(shape), call.out), None


def own_shares(operation: Operation, x: npt.NDArray[Any], axes: Axes) -> npt.NDArray[Any]:
    """The shares (r, s) of an array's rows."""
    assert operation.share is not None
    return np.asarray(operation.share(_as_rows(x, axes)))


def _as_rows(array: npt.NDArray[Any], axes: Axes) -> npt.NDArray[Any]:
    count = math.prod(array.shape[i] for i in axes.kept)
    return array.transpose(*axes.kept, *axes.reduced).reshape(count, axes.n)


def _results(operation: Operation, rows: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    assert operation.share is not None
    assert operation.finished is not None
    return np.asarray(operation.finished(np.asarray(operation.share(rows)), rows.shape[1]), np.float64)
