"""How rows are shared out among threads that keep them in registers: what kernels of whole rows are compiled with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tcu.formats.format import Format
from tcu.gpu.launch import OUT, KernelChoice, X
from tcu.gpu.structs import Struct
from tcu.gpu.sums import ELEMENTS, LOAD

__all__ = ["Rows", "is_wide", "kernel_of_rows"]

_WARP, _WARPS_ALONE, _MOST_WARPS = 32, 4, 32
_MOST_NUMBERS = {False: 32, True: 16}
"""That a thread keeps in registers, in binary32 and in binary64 (True)."""
_THREADS = {False: 1024, True: 512}
"""Of a multiprocessor at least, which the registers must allow."""


_LOADS_OF_PASSES = 4
"""Vectors of a thread at a time; with eight of binary32 or binary64 registers spill."""


@dataclass(frozen=True)
class Rows:
    """How rows lie, in elements."""

    count: int
    length: int
    stride: int
    aligned: bool
    """Whether the first row begins at a multiple of 16 bytes."""


def is_wide(element: Format, target: Format) -> bool:
    """Whether rows are computed in binary64."""
    return "binary64" in (element.name, target.name)


def kernel_of_rows(
    source: str, rows: Rows, element: Format, target: Format, problem: Struct, **own: Any
) -> KernelChoice:
    """A row is kept in the registers of as few lanes as that takes, or of a block; a longer one is read once for each step.

    Of 16-bit numbers twice as many have room as codes.
    """
    wide = is_wide(element, target)
    per_load = LOAD // element.dtype.itemsize
    aligned = rows.aligned and (rows.count <= 1 or rows.stride % per_load == 0)
    partial = not aligned or rows.length % per_load != 0
    vectors = max(1, -(-rows.length // per_load) + (not aligned))
    most = max(_MOST_NUMBERS[wide] // per_load, 1)
    codes = not wide and element.bits == 16 and vectors > most * _WARP * _MOST_WARPS
    most *= 1 + codes
    passes = vectors > most * _WARP * _MOST_WARPS
    if passes and codes:
        codes, most = False, most // 2
    lanes = min(_WARP, 1 << max(vectors - 1, 0).bit_length())
    warps = _MOST_WARPS if passes else -(-vectors // (most * _WARP))
    warps = 1 << (warps - 1).bit_length()
    loads = min(most, _LOADS_OF_PASSES) if passes else -(-vectors // (lanes if warps == 1 else warps * _WARP))
    threads = (_WARPS_ALONE if warps == 1 else warps) * _WARP
    together = threads // lanes if warps == 1 else 1
    macros = {
        "ELEMENT": ELEMENTS[element.name], "LAYOUT": "ALIGNED", "RESULT": ELEMENTS[target.name], **own, "WIDE": int(wide),
        "LANES": lanes, "WARPS": warps, "LOADS": loads, "PARTIAL": int(partial), "CODES": int(codes), "PASSES": int(passes),
        "RESIDENT": max(1, _THREADS[wide] // threads),
    }  # fmt: skip
    blocks = -(-rows.count // together)
    return KernelChoice(source, macros, blocks, threads, problem, {"data": X, "out": OUT})
