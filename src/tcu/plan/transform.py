"""A discrete Fourier transform as data: what an executor needs to do all levels of it at once."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.plan.version import VERSIONS

__all__ = ["Planes", "Table", "Transform", "TransformLevel"]

Planes = tuple[Any, Any]
"""Real and imaginary parts, each (transforms, numbers); None: zeros."""


@dataclass(frozen=True)
class Table:
    """An array of constants by what makes it: equal tables need one place in an executor's memory."""

    build: Callable[..., npt.NDArray[Any]]
    args: tuple[Hashable, ...]

    def __call__(self) -> npt.NDArray[Any]:
        return self.build(*self.args)


@dataclass(frozen=True)
class TransformLevel:
    """Rows of ``length`` numbers times the Fourier matrix, and the twiddles after it."""

    length: int
    left: int
    """What is left of the transform's length after this level."""
    done: int
    """The lengths of the levels before, multiplied."""
    group: int
    """Rows of one transform side by side in a row of the unit."""
    matrices: Table
    """(kinds, parts, side, side): the right operands, as the way of complex products orders them."""
    twiddles: Table | None
    """(2, left, 1, length): what number c of row b is multiplied by; None after the last level."""

    @property
    def rows(self) -> int:
        """Of one transform."""
        return self.left * self.done

    @property
    def padded(self) -> int:
        """With rows of zeros, so that each row of the unit is full."""
        return -(-self.rows // self.group) * self.group


@dataclass(frozen=True, eq=False)
class Transform:
    """The levels of transforms of one length, and what is done before and after them."""

    length: int
    product: str
    """"four", "three" or "embedded": how complex products are made of real ones."""
    parts: int
    part_bits: int
    work: np.dtype[Any]
    """Of everything outside the unit."""
    top: int | None
    """Each transform is scaled by a power of two, magnitudes below 2^top, and back; None: not at all."""
    back: float
    """The power of two that the twiddles took out."""
    levels: tuple[TransformLevel, ...]
    version: int = VERSIONS["transform"]
    """Of the levels and of the order of additions between them (tcu.plan.version)."""
