"""How kernels are compiled and launched: speed, never bits.

Rows of tuning.json were found by ``tcu tune`` on the GPU that they name; a
formula stands in for GPUs without a row.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from tcu.formats.format import Format
from tcu.plan import Plan

__all__ = ["ExactConfig", "SumConfig", "exact_config", "sum_config"]


@dataclass(frozen=True)
class SumConfig:
    """How cuda/sum.cu is compiled."""

    unroll: int
    """Loads of a thread in flight: 1, 2, 4 or 8."""
    resident: int
    """Blocks per multiprocessor that the registers must allow."""


@dataclass(frozen=True)
class ExactConfig:
    """How cuda/exact.cu is compiled and launched."""

    threads: int
    """Of a block."""
    unroll: int
    resident: int
    loads: int
    """Loads of a thread in a chunk, at most 128."""


def sum_config(capability: tuple[int, int], plan: Plan, chunks: int) -> SumConfig:
    """For a plan whose sum takes that many blocks."""
    row = _rows(capability).get("sum", {})
    size = "large" if chunks > _FEW else "small"
    if size in row and plan.block == 256:
        return SumConfig(**row[size])
    return SumConfig(4, max(1, min(8, 2048 // plan.block)))


_FEW = 1056
"""Blocks that an H200 runs at once."""


def exact_config(capability: tuple[int, int], element: Format) -> ExactConfig:
    """For elements of a format."""
    row = _rows(capability).get("exact", {})
    return ExactConfig(**row[element.name]) if element.name in row else ExactConfig(256, 4, 4, 64)


@cache
def _rows(capability: tuple[int, int]) -> dict[str, Any]:
    text = resources.files("tcu.gpu").joinpath("tuning.json").read_text(encoding="utf-8")
    rows: dict[str, dict[str, Any]] = json.loads(text)
    return rows.get("{}.{}".format(*capability), {})
