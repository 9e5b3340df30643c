"""``fnorm``: the correctly rounded Euclidean norm."""

from __future__ import annotations

from tcu.ops.layout import Whole
from tcu.ops.operation import Operation, register

__all__ = ["FNORM"]

_FUNCTION = """The Euclidean norm of all elements: the root of the exact sum of squares, rounded once.

Parameters, results and errors are those of :func:`fdot`; no square
overflows or underflows on the way.  inf where an element is, NaN where
one is NaN, +0 for no elements.
"""

FNORM = register(Operation(
    "fnorm", arithmetic="exact", term="square", finish="root", layouts=(Whole,),
    documentation=_FUNCTION,
))  # fmt: skip
