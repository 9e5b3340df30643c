"""How rows are shared out among threads that keep them in registers: what kernels of whole rows are compiled with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from tcu.formats.format import Format
from tcu.gpu.launch import OUT, KernelChoice, X
from tcu.gpu.structs import Struct
from tcu.gpu.sums import ELEMENTS, LOAD

__all__ = ["Rows", "Straight", "Tuned", "gradients_macros", "is_wide", "kernel_of_rows"]

_WARP, _WARPS_ALONE, _MOST_WARPS = 32, 4, 32
_MOST_WARPS_BESIDE = 8
"""Warps of a block where there are clusters: so a multiprocessor has several rows at work while others wait for each other.  Softmax of
16,384 numbers of bfloat16 reaches 3.48 TB/s, with 16 warps 3.24; of 32,768 of binary32 4.10, with 32 warps 3.62 (H200)."""
_LEAST_WARPS = 8
"""Of each block of a cluster."""
_LONGEST = 1 << 18
"""Numbers of a row that a cluster keeps: their whole sums fit 64 bits (tcu/model/whole_sums.py)."""
_MOST_NUMBERS = {False: 32, True: 16}
"""That a thread keeps in registers, in binary32 and in binary64 (True)."""
_THREADS_WIDE = 512
"""Of a multiprocessor at least, which the registers must allow, in binary64."""
_FEW_LANES = {16: 8, 32: 16, 64: 8}
"""Of a row at least, if it has as many vectors, by the bits of a number: 8 read 128 bytes side by side.  Otherwise a row has as few lanes as
keep it, and what each does once for a row counts less: of 256 numbers of bfloat16 softmax reaches with 8 lanes 3.9 TB/s, with 16 3.5, with
32 3.2; of binary32 4.07, 4.14 and 4.2, but layer_norm 4.08, 4.09 and 3.4 (H200)."""
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


Straight = Literal[
    "never", "where rows begin anywhere", "in one block", "where what is made of numbers is kept", "always"
]
"""Rows whose loads are made without asking whether the row has numbers (STRAIGHT)."""


class Tuned(NamedTuple):
    """What is fastest differs from kernel to kernel."""

    threads: int = 1024
    """Of a multiprocessor at least, which the registers must allow."""
    threads_of_codes: int = 1024
    """The same where 16-bit numbers alone are kept, a thread twice as many."""
    most_kept: int = 31
    """Warps of a row up to which what is made of 16-bit numbers is kept, too; beyond it is made again: of 32,768 numbers of bfloat16
    softmax, which would make exponentials twice, reaches 2.74 TB/s in place of 3.21, but log_softmax 3.57 in place of 2.91, and rms_norm
    4.00 in place of 3.50 (H200)."""
    lanes: int = 0
    """Of a row at least, if not those of ``_FEW_LANES``."""
    converted: bool = False
    """Whether terms become whole numbers by conversions (CONVERTED)."""
    straight: Straight = "never"
    """Of rows of 8192 numbers of bfloat16 softmax reaches 0.95 of copying's rate then in place of 0.93, layer_norm 0.90 in place of 0.82;
    but rms_norm of 32,768, which spills registers then, 0.72 in place of 0.96, and softmax of 1000 of binary32 0.89 in place of 0.96
    (H200)."""


_TUNED = Tuned()


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
    source: str, rows: Rows, element: Format, target: Format, problem: Struct, most_blocks: int,
    takes: Mapping[str, int] | None = None, apart: bool = False, tuned: Tuned = _TUNED, **own: Any,
) -> KernelChoice:  # fmt: skip
    """A row is kept in the registers of as few lanes as that takes, of a block, or of a cluster; a longer one is read again.

    ``most_blocks``: of a cluster. Where a row needs more, and of long rows, twice as many 16-bit numbers have room as codes.  ``apart``: threads tell each other nothing, so that
    blocks share out a row in one pass.  ``takes``: what a call gives besides the numbers and the results' place.
    """
    wide = is_wide(element, target)
    per_load = LOAD // element.dtype.itemsize
    aligned = rows.aligned and (rows.count <= 1 or rows.stride % per_load == 0)
    partial = not aligned or rows.length % per_load != 0
    vectors = max(1, -(-rows.length // per_load) + (not aligned))
    most = max(_MOST_NUMBERS[wide] // per_load, 1)
    if rows.length > _LONGEST:
        most_blocks = 1
    most_warps = _WARPS_APART if apart else _MOST_WARPS_BESIDE if most_blocks > 1 else _MOST_WARPS
    warps, cluster = _blocks_of(vectors, most, most_warps, most_blocks)
    codes = not wide and element.bits == 16 and not apart and not 0 < warps * cluster <= tuned.most_kept
    if codes:
        most *= 2
        warps, cluster = _blocks_of(vectors, most, most_warps, most_blocks)
        codes = cluster > 0
    passes = cluster == 0
    if passes:
        warps, cluster = (_WARPS_APART if apart else _MOST_WARPS), 1
    few = max(tuned.lanes or _FEW_LANES[element.bits], _power_of_two(-(-vectors // most)))
    lanes = min(few, _power_of_two(vectors)) if warps == 1 else _WARP
    threads = (_WARPS_ALONE if warps == 1 else warps) * _WARP
    of_row = lanes if warps == 1 else threads * cluster
    loads = min(most, _LOADS_OF_PASSES) if passes else -(-vectors // of_row)
    # Where a row begins anywhere, its last numbers may be in the vector before the last one.
    whole = 0 if passes else (-(-rows.length // per_load) - partial) // of_row
    together = threads // lanes if warps == 1 else 1
    resident = _THREADS_WIDE if wide else tuned.threads_of_codes if codes else tuned.threads
    straight = {
        "never": False, "where rows begin anywhere": partial, "in one block": not codes and (cluster == 1 or partial),
        "where what is made of numbers is kept": not codes, "always": True,
    }[tuned.straight]  # fmt: skip
    macros = {
        "ELEMENT": ELEMENTS[element.name], "LAYOUT": "ALIGNED", "RESULT": ELEMENTS[target.name], **own, "WIDE": int(wide),
        "LANES": lanes, "WARPS": warps, "CLUSTER": cluster, "LOADS": loads, "PARTIAL": int(partial), "WHOLE": whole,
        "CODES": int(codes), "PASSES": int(passes), "STRAIGHT": int(straight), "CONVERTED": int(tuned.converted and not wide),
        "RESIDENT": max(1, resident // threads),
    }  # fmt: skip
    blocks = -(-rows.count // together) * cluster
    more = min(-(-vectors // (loads * threads)), _MOST_MORE) if passes and apart else 1
    given = {"data": X, "out": OUT, **(takes or {})}
    return KernelChoice(source, macros, blocks, threads, problem, given, cluster=cluster, more=more)


def _power_of_two(count: int) -> int:
    """The least that is not below."""
    return 1 << (count - 1).bit_length()


def _blocks_of(vectors: int, most: int, most_warps: int, most_blocks: int) -> tuple[int, int]:
    """(warps of a block, blocks) that keep a row of so many vectors, a thread up to ``most``; (0, 0): there are none."""
    needed = -(-vectors // (most * _WARP))
    if needed <= most_warps:
        return max(needed, 1), 1
    shapes = [
        (warps, blocks)
        for warps in range(_LEAST_WARPS, _MOST_WARPS + 1)
        for blocks in range(2, most_blocks + 1)
        if warps * blocks >= needed
    ]
    # As few idle warps as possible, of rows and of a multiprocessor.
    return max(shapes, key=lambda shape: _MOST_WARPS // shape[0] / shape[1], default=(0, 0))
