"""Values of polynomials, for arrays in the host's memory."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from tcu.model.polyval import values

__all__ = ["polyval"]


def polyval(x: npt.NDArray[Any], c: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The values, of shape c.shape[1:] + x.shape; both arrays are of one format, and c has coefficients along its first axis."""
    rows = c.reshape(len(c), -1).T
    return values(rows, x.reshape(-1)).reshape((*c.shape[1:], *x.shape))
