"""The last step of a product: its scales, its bias, and the format of its result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tcu.gpu.structs import struct

__all__ = ["RESULTS", "Factor", "Factors", "set_factors"]

RESULTS = {"binary16": 0, "bfloat16": 1, "binary32": 2, "binary64": 3, "s32": 4}
"""As device/types/options.cuh and device/finish/factors.cuh number them."""

Factor = struct("Factor", """
    const void* numbers;  // null: one number
    double number;
    int kind;  // their format, as RESULT
    int step;  // 0: the first for all
""")  # fmt: skip

Factors = struct("Factors", """
    Factor scale_a, scale_b, bias;
""")  # fmt: skip


def set_factors(problem: Any, factors: Sequence[Any]) -> None:
    """The scales and the bias of a product, if it has any."""
    for name, factor in zip(("scale_a", "scale_b", "bias"), factors, strict=False):
        setattr(problem.factors, name, factor)
