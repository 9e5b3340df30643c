"""How the operands of D = A·B + C fit each other, whoever executes it."""

from __future__ import annotations

from itertools import zip_longest

from tcu.errors import ShapeError

__all__ = ["matrices", "product_shape", "result_shape"]

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
    return _product_shape(", ".join(f"{name} {shape}" for name, shape in shapes.items()), a, b, c)


def matrices(a: Shape, b: Shape) -> tuple[Shape, Shape, Shape]:
    """(shape of A, of B, of A·B) where a vector stands for one row of A, or for one column of B.

    Raises ShapeError.
    """
    for name, shape in (("a", a), ("b", b)):
        if not shape:
            raise ShapeError(f"{name} is a number: give a vector or a matrix, or multiply by *")
    first, second = a if len(a) > 1 else (1, *a), b if len(b) > 1 else (*b, 1)
    return first, second, _product_shape(f"a {a}, b {b}", first, second, None)


def result_shape(a: Shape, b: Shape, matrix: Shape) -> Shape:
    """That of A·B, ``matrix``, without M where a is a vector, without N where b is."""
    rows, columns = matrix[-2:-1] if len(a) > 1 else (), matrix[-1:] if len(b) > 1 else ()
    return (*matrix[:-2], *rows, *columns)


def _product_shape(given: str, a: Shape, b: Shape, c: Shape | None) -> Shape:
    if a[-1] != b[-2]:
        raise ShapeError(f"{given}: a needs as many columns as b has rows")
    matrix = (a[-2], b[-1])
    if c is not None and c[-2:] != matrix:
        raise ShapeError(f"{given}: c must end in {matrix}, the shape of a·b")
    batch = []
    for sizes in zip_longest(*(shape[-3::-1] for shape in (a, b, c or ())), fillvalue=1):
        size = 1
        for each in sizes:
            if each != 1 and size not in (1, each):
                raise ShapeError(f"{given}: the batch dimensions (all but the last two) do not broadcast")
            size = size if each == 1 else each
        batch.append(size)
    return (*reversed(batch), *matrix)
