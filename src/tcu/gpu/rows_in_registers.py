"""How rows are shared out among threads that keep them in registers: what kernels of whole rows are compiled with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tcu.formats.format import Format
from tcu.gpu.launch import OUT, KernelChoice, X
from tcu.gpu.structs import Struct
from tcu.gpu.sums import ELEMENTS, LOAD

__all__ = ["Rows", "gradients_macros", "is_wide", "kernel_of_rows"]

_WARP, _WARPS_ALONE, _MOST_WARPS = 32, 4, 32
_MOST_WARPS_BESIDE = {16: 16, 32: 32, 64: 32}
"""Warps of a block, by the bits of a number, where there are clusters: rows of 32,768 numbers of bfloat16 in a block of 32 warps
reached 0.69 of copying, of binary32 0.94 (H100)."""
_CLUSTERS = ((8, 2), (8, 4), (8, 8), (16, 8), (32, 8))
"""(warps of a block, blocks) of clusters.  Of two blocks of 16 warps that a multiprocessor holds, one reads while the other writes.
They keep up to 2^18 numbers, whose whole sums fit 64 bits (tcu/model/whole_sums.py)."""
_MOST_NUMBERS = {False: 32, True: 16}
"""That a thread keeps in registers, in binary32 and in binary64 (True)."""
_THREADS = {False: 1024, True: 512}
"""Of a multiprocessor at least, which the registers must allow."""


_WARPS_APART, _MOST_MORE = 8, 65535
"""Warps of a block where a row's threads tell each other nothing, and as many parts as a row has at most."""
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


def gradients_macros(given: tuple[Rows, Format] | None) -> dict[str, Any]:
    """What kernels that take gradients beside their rows are compiled with; None: they take none."""
    if given is None:
        return {"GIVEN_WIDE": 0, "GIVEN_ALIGNED": 0}
    rows, kind = given
    aligned = rows.aligned and (rows.count <= 1 or rows.stride * kind.dtype.itemsize % LOAD == 0)
    return {"GIVEN_WIDE": int(kind.bits == 32), "GIVEN_ALIGNED": int(aligned)}


def kernel_of_rows(
    source: str, rows: Rows, element: Format, target: Format, problem: Struct, clusters: bool,
    takes: Mapping[str, int] | None = None, apart: bool = False, **own: Any,
) -> KernelChoice:  # fmt: skip
    """A row is kept in the registers of as few lanes as that takes, of a block, or of a cluster; a longer one is read again.

    Without ``clusters``, twice as many 16-bit numbers have room as codes.  ``apart``: threads tell each other nothing, so that
    blocks share out a row in one pass.  ``takes``: what a call gives besides the numbers and the results' place.
    """
    wide = is_wide(element, target)
    per_load = LOAD // element.dtype.itemsize
    aligned = rows.aligned and (rows.count <= 1 or rows.stride % per_load == 0)
    partial = not aligned or rows.length % per_load != 0
    vectors = max(1, -(-rows.length // per_load) + (not aligned))
    most = max(_MOST_NUMBERS[wide] // per_load, 1)
    most_warps = _WARPS_APART if apart else _MOST_WARPS_BESIDE[element.bits] if clusters else _MOST_WARPS
    warps, cluster = _blocks_of(vectors, most, most_warps, clusters)
    codes = not wide and element.bits == 16 and cluster == 0 and not clusters and not apart
    if codes:
        warps, cluster = _blocks_of(vectors, 2 * most, most_warps, clusters)
        codes = cluster > 0
    passes = cluster == 0
    if passes:
        warps, cluster = (_WARPS_APART if apart else _MOST_WARPS), 1
    lanes = min(_WARP, 1 << max(vectors - 1, 0).bit_length())
    threads = (_WARPS_ALONE if warps == 1 else warps) * _WARP
    loads = (
        min(most, _LOADS_OF_PASSES) if passes else -(-vectors // (lanes if warps == 1 else threads * cluster))
    )
    together = threads // lanes if warps == 1 else 1
    macros = {
        "ELEMENT": ELEMENTS[element.name], "LAYOUT": "ALIGNED", "RESULT": ELEMENTS[target.name], **own, "WIDE": int(wide),
        "LANES": lanes, "WARPS": warps, "CLUSTER": cluster, "LOADS": loads, "PARTIAL": int(partial), "CODES": int(codes),
        "PASSES": int(passes), "RESIDENT": max(1, _THREADS[wide] // threads),
    }  # fmt: skip
    blocks = -(-rows.count // together) * cluster
    more = min(-(-vectors // (loads * threads)), _MOST_MORE) if passes and apart else 1
    given = {"data": X, "out": OUT, **(takes or {})}
    return KernelChoice(source, macros, blocks, threads, problem, given, cluster=cluster, more=more)


def _blocks_of(vectors: int, most: int, most_warps: int, clusters: bool) -> tuple[int, int]:
    """(warps of a block, blocks) that keep a row of so many vectors, a thread up to ``most``; (0, 0): there are none."""
    needed = -(-vectors // (most * _WARP))
    if needed <= most_warps:
        return 1 << (needed - 1).bit_length(), 1
    if not clusters:
        return 0, 0
    return next((each for each in _CLUSTERS if needed <= each[0] * each[1]), (0, 0))
