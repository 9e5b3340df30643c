"""Losses of rows with a class each, and their gradients, along an axis of arrays in the host's memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.engines.host.planned import encoded
from tcu.engines.host.rows import lines_of, row_pieces
from tcu.formats.format import format_of
from tcu.model import cross_entropy as model
from tcu.model import threads
from tcu.plan.losses import Weights

__all__ = ["cross_entropy", "cross_entropy_gradient"]

Array = npt.NDArray[Any]
_PIECE = 1 << 16
"""Numbers of rows that one thread takes at a time."""


def cross_entropy(x: Array, target: Array, axis: int, weights: Weights) -> tuple[Array, Array]:
    """(the losses of the rows along an axis that is not negative, three numbers for each that gradients are made of)."""
    work = _work(x)

    def found(piece: tuple[Array, ...]) -> tuple[Array, Array]:
        rows, classes = piece
        return model.losses(lines_of(rows, work), classes.reshape(-1), weights)

    parts = list(threads.in_order(found, _pieces(np.moveaxis(x, axis, -1), target)))
    form = format_of(work)
    results = [
        encoded(np.concatenate([each[i] for each in parts] or [np.empty((0, 3)[: i + 1], work)]), form).view(
            work
        )
        for i in (0, 1)
    ]
    return results[0].reshape(target.shape), results[1].reshape(*target.shape, 3)


def cross_entropy_gradient(
    given: Array, x: Array, target: Array, parts: Array, axis: int, weights: Weights
) -> Array:
    """Of x and in its format, from the gradients of the losses and what was kept of the rows."""
    work, form = _work(x), format_of(x.dtype)
    result = np.empty(x.shape, x.dtype)

    def put(piece: tuple[Array, ...]) -> None:
        rows, places, classes, gradients, kept = piece
        lines = lines_of(rows, work)
        found = model.gradients(
            gradients.reshape(-1), lines, classes.reshape(-1), kept.reshape(-1, 3), weights
        )
        places[...] = encoded(found, form).view(form.dtype).reshape(places.shape)

    rows, places = (np.moveaxis(each, axis, -1) for each in (x, result))
    threads.each(put, _pieces(rows, places, target, given, parts))
    return result


def _work(x: Array) -> Any:
    return np.float64 if x.dtype == np.float64 else np.float32


def _pieces(rows: Array, *beside: Array) -> Iterator[tuple[Array, ...]]:
    """Some rows at a time, and what goes with them in other arrays."""
    axes, together = rows.ndim - 1, max(1, _PIECE // max(rows.shape[-1], 1))
    return zip(*(row_pieces(each, axes, together) for each in (rows, *beside)), strict=True)
