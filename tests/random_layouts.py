"""Shapes and layouts at random: long lines, a few long rows, many short ones, up to four dimensions, some empty."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["random_layout", "random_shape"]


def random_shape(rng: np.random.Generator, case: int) -> tuple[int, ...]:
    if case % 100 == 7:
        return (int(rng.integers(1 << 20, 1 << 22)),)
    if case % 10 == 3:
        return (int(rng.integers(1, 40)), int(rng.integers(1, 60_000)))
    if case % 10 == 4:
        return (int(rng.integers(1, 3000)), int(rng.integers(1, 200)))
    most = 14 if case % 2 else 40
    return tuple(int(n) for n in rng.integers(0 if case % 9 == 0 else 1, most, rng.integers(1, 5)))


def random_layout(rng: np.random.Generator, x: Any, tensor: Any) -> tuple[Any, Any]:
    """The same part of an array and of a tensor with its numbers: whole, transposed, with gaps or cut."""
    way = int(rng.integers(4))
    if way == 1:
        order = tuple(int(axis) for axis in rng.permutation(x.ndim))
        return x.transpose(order), tensor.permute(order)
    if way == 2:
        return x[..., ::2], tensor[..., ::2]
    if way == 3:
        return x[1:], tensor[1:]
    return x, tensor
