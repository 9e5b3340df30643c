"""How the operands of D = A·B + C fit each other, whoever executes it."""

from __future__ import annotations

import numpy as np

from tcu.errors import ShapeError

__all__ = ["product_shape"]

Shape = tuple[int, ...]


def product_shape(a: Shape, b: Shape, c: Shape | None) -> Shape:
    """(..., M, N) for A of shape (..., M, K), B (..., K, N) and C (..., M, N), whose batches broadcast.

    Raises ShapeError.
    """
    shapes = {"a": a, "b": b} | ({} if c is None else {"c": c})
    for name, shape in shapes.items():
        if len(shape) < 2:
            raise ShapeError(
                f"{name} has shape {shape}: give at least two dimensions, {name}[None, :] for a row"
            )
    given = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
    if a[-1] != b[-2]:
        raise ShapeError(f"{given}: a needs as many columns as b has rows")
    matrix = (a[-2], b[-1])
    if c is not None and c[-2:] != matrix:
        raise ShapeError(f"{given}: c must end in {matrix}, the shape of a·b")
    try:
        batch = np.broadcast_shapes(*(shape[:-2] for shape in shapes.values()))
    except ValueError:
        raise ShapeError(f"{given}: the batch dimensions (all but the last two) do not broadcast") from None
    return (*batch, *matrix)
