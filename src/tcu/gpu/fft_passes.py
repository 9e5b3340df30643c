"""The kernel of two passes of fast Fourier transforms in one launch, between which numbers stay in the second cache.

A copy reads and writes 2^26 numbers of binary32 in 256 us; two passes in two launches are two copies.  In one launch 2^16 numbers took
444 us in place of 528, 2^17 473 (528), 2^20 547 (577), the last two passes of three of 2^24 460 (552), of 2^26 474 (558); of binary16
2^16 245 (273), 2^24 412 in place of 445 in all three (H200, 2^26 numbers in all).  Memory was read once and written once then, by 2^24
537 MB each: what is left is that blocks wait for the second cache.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

from tcu.gpu.device import Gpu
from tcu.gpu.fft_pass import pass_macros, pass_problem, pass_takes
from tcu.gpu.fft_step import FftStep, Room, pair_bytes
from tcu.gpu.fft_tiles import Tile, tile_of
from tcu.gpu.launch import SPACE, Given, KernelChoice
from tcu.gpu.structs import struct
from tcu.plan.fft import FftPlan

__all__ = ["Sharing", "passes_kernel", "sharing_of"]

_FORGETS = (8, 0)
"""The compute capability from which on lines leave the cache without being written."""
_LEAST_TURNS = 4
"""Blocks for each that multiprocessors hold, at least: with fewer the first pass is done before the second begins."""
_MOST_OWN = 32
"""Numbers of a thread, for which it has registers."""
_MOST_TILES = 4
"""Of a pass, that a block takes."""
_LEAD = 1.0
"""How many blocks the first pass is ahead, of those that multiprocessors hold.  With half as many blocks found that they had to wait: 2^24
numbers of binary32 took 778 us in place of 750, of binary16 453 in place of 412; with half as many again more was gone from the cache (H200)."""
_MOST_OF_CACHE = 0.75
"""Of the second cache, that the numbers may take by which the first pass is ahead."""


FftPasses = struct("FftPasses", """
    fourier::FftPass first, second;
    u32* arrived;  // for each group, blocks that have done their part of the first pass, and then of the second
    i64 groups;
    i64 lead;      // groups that the first pass is ahead
""")  # fmt: skip


class Sharing(NamedTuple):
    """How blocks share out the tiles of two passes."""

    first: Tile
    second: Tile
    first_tiles: int
    """Of a block."""
    second_tiles: int
    blocks: int
    """Of a group."""
    groups: int
    lead: int


def sharing_of(first: FftStep, second: FftStep, plan: FftPlan, gpu: Gpu) -> Sharing | None:
    """Of two passes between which numbers stay in the second cache; None: each is a launch of its own."""
    steps = first, second
    tiles = [tile_of(step, plan, gpu) for step in steps]
    threads = min(tile.threads for tile in tiles)
    tiles = [tile.by(threads, step, plan) for tile, step in zip(tiles, steps, strict=True)]
    own = max(step.each.length * tile.columns // threads for tile, step in zip(tiles, steps, strict=True))
    if gpu.compute_capability < _FORGETS or own > _MOST_OWN or second.columns % tiles[1].width:
        return None
    assert all(tile.cluster == 1 for tile in tiles), "blocks of a cluster have no tiles of their own"
    resident = min(tile.resident for tile in tiles)
    # In binary16, where a pass that has more blocks on a multiprocessor would have fewer: 2^18 took 306 us in place of 288 (H200).
    if first.of_lanes and any(tile.resident > resident for tile in tiles):
        return None
    before, behind = (replace(tile, resident=resident) for tile in tiles)
    if second.known:  # a group is as many rows of the first pass as a tile of the second has columns
        of_first, of_second = before.of(first) * behind.width, second.blocks
        groups, numbers = second.batches * behind.of(second), first.left * behind.width
    else:
        of_first, of_second = before.of(first), behind.of(second)
        groups, numbers = first.blocks * first.batches, first.n
    blocks, held = math.gcd(of_first, of_second), resident * gpu.multiprocessors
    lead = max(1, round(_LEAD * held / blocks))
    size = pair_bytes(first.writes.format) * numbers * lead
    few, large = groups * blocks < _LEAST_TURNS * held, size > _MOST_OF_CACHE * gpu.l2
    if few or large or max(of_first, of_second) > _MOST_TILES * blocks:
        return None
    return Sharing(before, behind, of_first // blocks, of_second // blocks, blocks, groups, lead)


def passes_kernel(
    first: FftStep, second: FftStep, sharing: Sharing, plan: FftPlan, room: Room, gpu: Gpu
) -> KernelChoice:
    """Of both, whose launch finds and leaves zeros where blocks tell each other how far they are."""
    problem = FftPasses(
        first=pass_problem(first, plan, room, gpu), second=pass_problem(second, plan, room, gpu), groups=sharing.groups,
        lead=sharing.lead,
    )  # fmt: skip
    room.groups = max(room.groups, sharing.groups)
    takes: dict[str, Given] = {
        f"{name}.{field}": place
        for name, step in (("first", first), ("second", second))
        for field, place in pass_takes(step).items()
    }
    return KernelChoice(
        "fft_passes", _macros(first, second, sharing, plan), (sharing.lead + sharing.groups) * sharing.blocks,
        sharing.first.threads, problem, takes | {"arrived": SPACE}, shared=max(sharing.first.shared, sharing.second.shared),
    )  # fmt: skip


def _macros(first: FftStep, second: FftStep, sharing: Sharing, plan: FftPlan) -> dict[str, object]:
    before = pass_macros(first, sharing.first, plan) | {"READ_ONCE": 1}
    behind = pass_macros(second, sharing.second, plan) | {
        "WRITTEN_ONCE": 1,
        "BLOCKS_INNER": int(second.known),
    }
    macros = {name: _by_pass(value, behind[name]) for name, value in before.items()}
    return macros | {
        "FIRST_TILES": sharing.first_tiles, "SECOND_TILES": sharing.second_tiles, "GROUP_BLOCKS": sharing.blocks,
    }  # fmt: skip


def _by_pass(first: object, second: object) -> object:
    """As fft_passes.cu takes it."""
    if first == second:
        return first
    return "BY_PASS({})".format(",".join(str(each).replace(",", " AND ") for each in (first, second)))
