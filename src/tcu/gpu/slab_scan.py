"""The kernels of running sums down few columns that fill memory without gaps: series of a few channels, points of a few coordinates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from tcu.formats.format import Format, get_format
from tcu.gpu.columns import Columns
from tcu.gpu.configs import SlabScanConfig
from tcu.gpu.device import Gpu
from tcu.gpu.launch import OUT, ROOM, Given, KernelChoice, Recipe, X
from tcu.gpu.structs import constants, struct
from tcu.gpu.sums import ELEMENTS, TARGETS
from tcu.gpu.tuning import config
from tcu.plan.scan import ScanPlan

__all__ = ["fills_memory", "slab_scan_recipe"]

_WARP, _BANKS, _WORD = 32, 32, 4
_BLOCKS = 16
"""That a multiprocessor has room for on every GPU (CUDA C++ Programming Guide, "Compute Capabilities")."""
_GRANULE = 16
_RUN = 32
"""Groups of a run of the plan's first level."""
_MOST_COLUMNS = 256
"""Each has a thread of the block."""
_MAX_BLOCKS = (1 << 31) - 1
_MAX_TILES = (1 << 31) - 1
_MOST_PAD = 4
_NARROW = 2
"""Bytes of a number whose rows may leave up to half of a warp's lanes idle: 640 x 24 numbers of binary32 have 0.87 of a copy's speed
by slab_walk.cu and 0.94 by slab_scan.cu, but of binary16 0.89 and 0.77 (H200)."""
_MOST_PARTS = 8
"""Of a warp's turn in slab_walk.cu: two columns, of which a warp has sixteen, have 0.73 of a copy's speed there and 0.78 by slab_scan.cu
(8192 x 2^15 x 2 numbers of binary16, H200)."""

_MAX_LEVELS = 8
_CARRY_THREADS = 256
BLOCK = constants(CARRY_THREADS=_CARRY_THREADS)

SlabScan = struct("SlabScan", """
    const void* data;
    void* out;
    double* sums;   // of each tile, where there are two passes: what it comes to, and then what comes before it in its run
    double* above;  // what comes before each run of tiles
    i64 slabs, length;
    int tiles;  // of a slab
    int share;  // tiles of a block, where there are two passes
""")  # fmt: skip

SlabCarries = struct("SlabCarries", f"""
    double* sums;
    double* above;
    i64 lines;  // columns of all slabs
    i64 inner, tiles;
    i64 counts[{_MAX_LEVELS}];  // numbers of a column on each level above the second
    i64 first[{_MAX_LEVELS}];   // number of each such level
""")  # fmt: skip


def fills_memory(columns: Columns, length: int) -> bool:
    """Whether nothing lies between the numbers of columns like these, which are few."""
    gapless = columns.outer <= 1 or columns.outer_stride == columns.inner * length
    return gapless and (length <= 1 or columns.stride == columns.inner) and columns.inner <= _MOST_COLUMNS


def slab_scan_recipe(
    plan: ScanPlan, outer: int, inner: int, aligned: bool, target: Format, gpu: Gpu, *, exclusive: bool, reverse: bool
) -> Recipe | None:  # fmt: skip
    """The running sums of each column by the plan of one; None where another kernel is faster.

    ``aligned``: whether numbers and results begin at multiples of 16 bytes.
    """
    tuned = config(SlabScanConfig, gpu.compute_capability, plan.input)
    size, result = get_format(plan.input).dtype.itemsize, target.dtype.itemsize
    of_group = plan.group * inner  # numbers
    row = inner * size
    if of_group * result % _GRANULE or not plan.n or not outer or (row % tuned.strip == 0 and aligned):
        return None
    given: dict[str, object] = {
        "ELEMENT": ELEMENTS[plan.input], "RESULT": TARGETS[target.name], "EXCLUSIVE": int(exclusive), "REVERSE": int(reverse),
    }  # fmt: skip
    whole = aligned and all(plan.n * inner * each % _GRANULE == 0 for each in (size, result))
    walk = (
        _walk(plan, outer, inner, size, whole, tuned, gpu) if aligned and target.name == plan.input else None
    )
    if walk is not None:
        return _by_warps(plan, outer, inner, walk, given)
    groups = -(-plan.n // plan.group)
    wanted = min(max(_power_below(tuned.tile_bytes // (of_group * size)), tuned.least_groups), _RUN)
    in_tile = min(wanted, groups)
    tiles = -(-groups // in_tile)
    slabs = max(
        min(tuned.tile_bytes // (in_tile * of_group * size), outer // (tuned.many * gpu.multiprocessors), tuned.threads // inner), 1
    )  # fmt: skip
    blocks = -(-outer // slabs)
    twice = blocks < tuned.enough * gpu.multiprocessors and tiles > tuned.few
    if twice:
        slabs, in_tile, tiles = 1, _RUN, -(-groups // _RUN)
        if (
            row > tuned.row_twice
            or groups <= _RUN
            or outer * inner > _MAX_BLOCKS
            or outer * tiles > _MAX_TILES
        ):
            return None
    elif blocks > _MAX_BLOCKS or tiles > _MAX_TILES:
        return None
    unit = 2 if size == 2 and inner % 2 == 0 and whole else 1
    staged = _staged(inner, size, result, plan.group, unit, whole)
    lines = slabs * inner
    threads = -(-max(min(in_tile * lines // unit, tuned.threads), lines) // _WARP) * _WARP
    stages = min(tuned.stages, tiles)
    share, sums = 0, _sums_bytes(lines, in_tile)
    resident = max(min(tuned.threads_resident // threads, _BLOCKS), 1)

    def room(results: bool) -> int:
        return in_tile * slabs * (stages * staged.pitch + results * staged.result_pitch)

    if room(True) + sums > gpu.shared_memory:
        return None
    if twice:
        share = max(-(-outer * tiles // (gpu.multiprocessors * resident * tuned.turns)), 1)
        blocks = -(-outer * tiles // share)
    macros = given | {
        "LAYOUT": "ALIGNED" if whole else "SHIFTED", "COLUMNS": inner, "LEVELS": plan.levels, "GROUPS": in_tile,
        "SLABS": slabs, "SEVERAL": int(tiles > 1), "COPY": staged.copy, "PAD": staged.pad, "RESULT_PAD": staged.result_pad,
        "STAGES": stages, "THREADS": threads,
    }  # fmt: skip

    def kernel(number: int, takes: dict[str, Given]) -> KernelChoice:
        held = room(number != 1)
        fit = max(min(resident, gpu.shared_memory // (held + sums)), 1)
        problem = SlabScan(0, 0, 0, 0, outer, plan.n, tiles, share)
        return KernelChoice(
            "slab_scan",
            macros | {"PASS": number, "RESIDENT": fit},
            blocks,
            threads,
            problem,
            takes,
            shared=held,
        )

    if not twice:
        return Recipe((kernel(0, {"data": X, "out": OUT}),))
    of_tiles: dict[str, Given] = {"sums": ROOM, "above": (ROOM, 8 * outer * inner * tiles)}
    carries, above = _carries(plan, outer, inner, tiles, of_tiles)
    kernels = kernel(1, {"data": X, **of_tiles}), *carries, kernel(2, {"data": X, "out": OUT, **of_tiles})
    return Recipe(kernels, room=outer * inner * tiles + above)


class _Walk(NamedTuple):
    """What a warp of slab_walk.cu takes in a turn."""

    parts: int
    each: int
    """Groups of a part."""
    pad: int
    """Granules between parts."""
    stages: int
    bytes: int
    """Of a turn in shared memory."""
    resident: int


def _walk(
    plan: ScanPlan, outer: int, inner: int, size: int, whole: bool, tuned: SlabScanConfig, gpu: Gpu
) -> _Walk | None:
    """None where slab_scan.cu is faster, or has to do it.  ``whole``: whether all slabs begin at multiples of 16 bytes."""
    columns, turns, on_their_way, most = tuned.walk
    parts = _power_below(_WARP // inner) if inner <= _WARP // 2 else 1
    kind = 0 if parts > 1 else 1 if inner <= 4 * _WARP else 2
    resident, least = tuned.walk_resident[kind], tuned.walk_least[kind]
    pads = range(_MOST_PAD if whole and parts > 1 else 1)
    each, pad = min(most, _RUN // parts) if parts > 1 else 1, 0
    while True:
        part = each * plan.group * inner * size
        accesses = {
            pad: _accesses(
                (
                    i * (part + pad * _GRANULE) + column * size
                    for i in range(parts)
                    for column in range(inner)
                ),
                size,
            )
            for pad in pads
        }
        pad = min(pads, key=lambda pad: accesses[pad])
        if each == 1 or accesses[pad] <= size:
            break
        each //= 2
    if (
        gpu.compute_capability < (9, 0) or not plan.levels or inner > columns or parts > _MOST_PARTS
        or (size > _NARROW and _WARP // 2 < inner < _WARP) or not least * gpu.multiprocessors <= outer <= _MAX_BLOCKS
        or plan.n < turns * parts * each * plan.group
    ):  # fmt: skip
        return None
    turn = parts * (part + pad * _GRANULE) + (0 if pad else _GRANULE)
    warps = min(-(-outer // gpu.multiprocessors), resident)
    stages = max(2 + -(-on_their_way // (warps * turn)), 3)
    return _Walk(parts, each, pad, stages, turn, resident) if stages * turn <= gpu.shared_memory else None


def _by_warps(plan: ScanPlan, outer: int, inner: int, walk: _Walk, macros: dict[str, object]) -> Recipe:
    turns = -(-plan.n // (plan.group * walk.parts * walk.each))
    choice = KernelChoice(
        "slab_walk",
        macros | {
            "LAYOUT": "SHIFTED", "COLUMNS": inner, "LEVELS": plan.levels, "PARTS": walk.parts, "EACH": walk.each,
            "PAD": walk.pad, "STAGES": walk.stages, "RESIDENT": walk.resident,
        },
        outer, _WARP, SlabScan(0, 0, 0, 0, outer, plan.n, turns, 0), {"data": X, "out": OUT}, shared=walk.stages * walk.bytes,
    )  # fmt: skip
    return Recipe((choice,))


def _carries(
    plan: ScanPlan, outer: int, inner: int, tiles: int, takes: dict[str, Given]
) -> tuple[list[KernelChoice], int]:
    """The kernels that make what comes before tiles, of what they come to; and how many numbers there are above those of tiles."""
    lines = outer * inner
    problem = SlabCarries(0, 0, lines, inner, tiles)
    count, numbers = tiles, 0
    for level, radix in enumerate(plan.radices[1:-1]):
        count = -(-count // radix)
        problem.counts[level], problem.first[level] = count, numbers
        numbers += count * lines
    macros = {"LEVELS": plan.levels}
    warps = lines * -(-tiles // _WARP)
    blocks = {"slab_runs": -(-warps * _WARP // _CARRY_THREADS), "slab_carries": lines}
    entries = list(blocks)[: min(plan.levels - 1, 2)]
    return [
        KernelChoice("slab_carries", macros, blocks[entry], _CARRY_THREADS, problem, takes, entry)
        for entry in entries
    ], numbers


def _sums_bytes(lines: int, groups: int) -> int:
    """What the threads of a block tell each other, at most."""
    return 8 * lines * (groups + 1 + 1 + 6)


def _power_below(n: int) -> int:
    """The largest power of two that is not above n; 1 where there is none."""
    return 1 << max(n.bit_length() - 1, 0)


class _Staged(NamedTuple):
    """How blocks of numbers and of results lie in shared memory."""

    copy: int
    """Bytes of a copy."""
    pad: int
    """Copies between blocks, as is ``result_pad``."""
    pitch: int
    result_pad: int
    result_pitch: int


@lru_cache(maxsize=1024)
def _staged(inner: int, size: int, result: int, group: int, unit: int, whole: bool) -> _Staged:
    """With the least conflicts of banks, and then the fewest copies."""

    def choices(copy: int, each: int) -> Iterator[tuple[int, int, int]]:
        of_block = group * inner * each // copy + (not whole)
        for pad in range(_MOST_PAD):
            pitch = (of_block + pad) * copy
            yield _turns(pitch, inner, each, unit), pad, pitch

    found = []
    for copy in (_GRANULE, _GRANULE // 2) if result * unit <= _GRANULE // 2 else (_GRANULE,):
        (reads, pad, pitch), (writes, result_pad, result_pitch) = (
            min(choices(copy, each)) for each in (size, result)
        )
        found.append((2 * reads + writes, -copy, _Staged(copy, pad, pitch, result_pad, result_pitch)))
    return min(found)[2]


def _turns(pitch: int, inner: int, size: int, unit: int) -> int:
    """How often shared memory is accessed for a warp's numbers, or results, of a row of each of its blocks."""
    width = size * unit
    at_once = max(_WORD * _BANKS // max(width, _WORD), 1)
    turns = 0
    for first in range(0, _WARP, at_once):
        places = (divmod(lane, inner // unit) for lane in range(first, first + at_once))
        turns += _accesses((block * pitch + place * width for block, place in places), width)
    return turns


def _accesses(begins: Iterable[int], width: int) -> int:
    """How often shared memory is accessed for what begins at these bytes, so wide each: words that one bank has of it."""
    words: dict[int, set[int]] = {}
    for begin in begins:
        for word in range(begin // _WORD, -(-(begin + width) // _WORD)):
            words.setdefault(word % _BANKS, set()).add(word)
    return max(len(each) for each in words.values())
