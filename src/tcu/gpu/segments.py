"""Launch the kernels of ragged segments: what is short in one launch, what is long in others, beside it if it is much."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from tcu.formats.format import Format
from tcu.gpu.device import Gpu
from tcu.gpu.functions import find_function, prefer_shared
from tcu.gpu.launch import KernelLaunch
from tcu.gpu.structs import Struct, constants, struct
from tcu.gpu.sums import ELEMENTS, LOAD, TARGETS, compiled
from tcu.gpu.tuning import sum_config
from tcu.gpu.workspace import workspace
from tcu.plan import make_plan, variants
from tcu.units import AlignedSum, find_instruction, input_formats

__all__ = ["STATES", "WorkQueue", "Room", "SegmentsLaunch"]

_TILES, _WARP = 8, 32
"""As in cuda/device/ragged/group_trees.cuh."""
STATES = 8
"""Words of the list's state, as in cuda/device/ragged/work_queue.cuh."""
_BLOCK = 256
"""Threads of the plan's blocks, by whose tiles segments.cu sums."""
_DATA = {2: 48 << 10, 4: 128 << 10, 8: 64 << 10}
"""Bytes of data and offsets that a warp goes through, by the bytes of an element: enough to forget its start, and
little enough that the last warps do not keep all others waiting."""
_MOST_PER_WARP = 512
"""Segments that a warp goes through at most, however short."""
_AT_ONCE = (8, 32)
"""The least and the most segments that a warp takes at a time: few where they are long, so that many warps have some."""
_WITH_RESTS = {2: 256, 4: 144, 8: 144}
"""By the bytes of an element: the average bytes of a segment from which on its last, partial 64-byte chunk is taken together
with its whole ones.  Below that, the partial chunks of a group of segments have a turn of their own; and of binary32 and
binary64, a lane has a segment to itself.

H200, together and in a turn of their own, of memory's speed: binary32, means of 24, 32 and 40 numbers 0.600 and 0.707, 0.624
and 0.641, 0.615 and 0.548; bfloat16, 40, 64 and 100 numbers 0.645 and 0.729, 0.746 and 0.842, 0.766 and 0.793; binary64, 16
and 20 numbers 2.76 and 2.92, 2.90 and 2.63 TB/s.
"""
_RINGS = {2: (1664, 4, 22), 4: (2048, 3, 24), 8: (2048, 3, 24)}
"""By the bytes of an element: bytes of a copy into a warp's ring in shared memory, copies that have room there, and as many
blocks of segments.cu, each a warp, per multiprocessor as have registers and shared memory (sm_90).

With smaller rings more warps have room beside those that add up long segments, and less is asked for that these read again;
with too small ones warps wait for copies.  H200, binary16, 4 copies of 1792, 1664, 1536 and 1408 bytes, of memory's speed:
a power law 0.854, 0.857, 0.858 and 0.860; segments of 64 numbers on average 0.875, 0.871, 0.863 and 0.848, of 100 numbers
0.847, 0.835, 0.824 and 0.814.
"""
_ROOM = {2: 128, 4: 352, 8: 352}
"""Numbers that a warp keeps in shared memory, one or four of every 64 bytes: few, so that all blocks have room."""
_MOST_EXACT = 1 << 13
"""Of binary16, numbers whose sums are exact in binary64, in whatever order they are added up."""
_SHORT_MEAN = 20
"""Numbers of a segment, on average, up to which short_segments.cu is the faster kernel: for 16, 20 and 24 of them 0.582,
0.571 and 0.563 of memory's speed, and segments.cu 0.475, 0.550 and 0.617 (H200)."""
_SHORT_DATA, _SHORT_MOST_PER_WARP = 32 << 10, 2048
"""As _DATA and _MOST_PER_WARP, of short_segments.cu, whose warps work ahead of what they need."""
_SHORT_PER_LANE = 16
"""Numbers of a lane in a window, as cuda/kernels/short_segments.cu says."""
_SHORT_RINGS = ((10, 1024, 24), (_SHORT_MEAN, 2048, 18))
"""Of short_segments.cu: the mean up to which a ring nearly always has room for the segments of a turn, its numbers, and
as many warps as leave each its registers and its shared memory (sm_90)."""
_LONG_THREADS, _LONG_RESIDENT, _EARLY = 64, {2: 9, 4: 8, 8: 8}, 4
"""Of long_chunks.cu, by the bytes of an element: as many blocks as leave every thread its registers; and those for each
multiprocessor that are beside short segments (a power law of binary16, H200: with three 0.844, with four 0.853, with five,
of which each has a ring of 11 KB, 0.814 of memory's speed)."""
_LONG_RING = 4 << 10, 3
"""Of long_chunks.cu, bytes of a copy and copies (sm_90)."""
_LISTED, _SAMPLED = 1 << 26, 1 << 13
"""Bytes from which on long segments may be listed ahead: of less, the launches that this takes would be much; and segments
from which on a sample of them, a thread's each, says whether it is worth it."""
_LIST_THREADS, _LIST_RESIDENT, _LISTING = 512, 2, 1
"""Of list_segments.cu: as many blocks as leave every thread its registers, and those for each multiprocessor, which leave
room for the launches behind it: with two, these began 11 us later (H200)."""
_MORE, _LAST = 4, 1 / 5
"""How many times as many segments the first warps have, which forget their starts, and what the others have of all, which
do not keep each other waiting at the end."""
_BUSY = 1 << 13
"""Warps that keep a GPU busy: with fewer segments, each has fewer of them."""


@struct()
class WorkItem(Struct):
    cuda = """
    i64 segment;
    i64 begin;
    i64 length;
    u32 first;  // the segment's first item in the queue
    u32 place;  // the segment's number among those with several chunks
    """


@struct()
class WorkQueue(Struct):
    cuda = """
    WorkItem* items;
    u32* arrived;  // in the place of a segment's first item: how many of the segment's chunks are done
    u32* state;    // STATES words, all zero before the first launch and after the last
    u64* slots;    // for each item, its chunk's sum, and MISSING until then; or null
    u32 room;      // items
    u32 several;   // segments of several chunks that have room
    """


@struct()
class Segments(Struct):
    cuda = """
    const void* data;
    i64 n;
    const i64* offsets;
    i64 segments;
    void* out;
    i64 target;
    i64 mean;      // whether the sums are divided by the lengths
    i64 per_warp;  // segments, which follow each other
    i64 first;     // the first so many warps have MORE times as many
    i64 most;      // a segment of more numbers is long
    i64 together;  // numbers that a block of the plan for long segments loads at a time
    i64 listed;    // whether list_segments.cu was launched before
    WorkQueue queue;
    """


@struct()
class LongSegments(Struct):
    cuda = """
    const void* data;
    i64 n;
    void* out;
    i64 target;
    i64 mean;    // whether the sums are divided by the lengths
    i64 listed;  // whether list_segments.cu was launched before
    i64 early;   // whether this launch lies between that one and the short segments', and another follows these
    WorkQueue queue;
    """


def plan_chunks() -> str:
    """What kernels that make plans of their own, for segments whose lengths only the GPU knows, take from the plans."""
    return constants("i64", LEAST_LOADS=variants.LOADS, MOST_CHUNKS=variants._CHUNKS)


@dataclass(frozen=True)
class Room:
    """Memory that a launch needs besides its operands, for as long as it runs, in bytes."""

    items: int
    arrived: int
    rest: int
    """Of the sums: slots; of the exact sums: limbs."""

    @property
    def size(self) -> int:
        return self.items + self.arrived + self.rest

    @staticmethod
    def of(items: int, rest: int) -> Room:
        return Room(ctypes.sizeof(WorkItem) * items, -(-4 * items // 16) * 16, rest)

    def place(self, at: int, lists: Iterable[WorkQueue], state: int) -> int:
        """Gives lists that address and that of their state; returns where the rest is."""
        arrived = at + self.items
        for each in lists:
            each.items, each.arrived, each.state = at, arrived, state
        return arrived + self.arrived


class SegmentsLaunch:
    """The sum of each segment by the plan of one: everything but the addresses.

    ``n`` elements in ``segments`` segments.  With ``mean`` each sum is divided
    by its segment's length.
    """

    def __init__(
        self, n: int, segments: int, element: Format, target: Format, gpu: Gpu,
        *, chain: int = 1, block: int = _BLOCK, mean: bool = False,
    ) -> None:  # fmt: skip
        self._gpu = gpu
        self._lock = threading.Lock()
        size = element.dtype.itemsize
        together = chain * block * LOAD // size
        usual = (chain, block) == (1, _BLOCK)
        fraction = _exact_fraction(element, gpu) if usual and n <= _SHORT_MEAN * segments else None
        with_rests = fraction is None and n * size >= _WITH_RESTS[size] * segments
        most = _most(element, fraction is not None) if usual else 0
        permuted_k = ("PERMUTED_K", int(_sum_of_all(element, gpu) is not None))
        longs = min(segments, n // (most + 1))
        items = longs + n // (variants.LOADS * together) if longs else 0
        # Not beside short_segments.cu, which took 3 % longer then (segments of 8 on average, H200).
        may_be_listed = fraction is None and usual and longs > 0 and gpu.compute_capability >= (9, 0)
        listed = may_be_listed and n * size >= _LISTED and segments >= _SAMPLED
        state = WorkQueue(0, 0, 0, 0, items, items)
        if fraction is None:
            way = _any_way(n, segments, element, with_rests, permuted_k)
        else:
            way = _short_way(n, segments, size, fraction)
        first = _first(segments, way.per_warp)
        self._short = Segments(
            0, n, 0, segments, 0, TARGETS[target.name], mean, way.per_warp, first, most, together, listed, state
        )  # fmt: skip
        self._longs = [
            LongSegments(0, n, 0, TARGETS[target.name], mean, listed, early, state)
            for early in ((True, False) if listed else (False,))
        ]
        # Views, which write into the problems.
        self._queues = [each.queue for each in (self._short, *self._longs)]
        self.room = Room.of(items, 8 * items)
        function = compiled(
            f"{way.source}.cu", way.source, gpu.compute_capability, ELEMENTS[element.name], "SHIFTED",
            (*way.macros, ("MORE", _MORE)),
        )  # fmt: skip
        if listed:
            prefer_shared(function, gpu.ordinal)
        blocks = max(1, -(-segments // way.per_warp) - (_MORE - 1) * first)
        self._launches = [KernelLaunch(function, blocks, _WARP, self._short, overlaps=listed)]
        if longs and usual:
            ahead, behind = self._chunk_launches(items, element, listed, permuted_k)
            self._launches = [*ahead, *self._launches, behind]
        elif longs:
            self._launches.append(self._segment_launch(items, element, chain, block))

    def _segment_launch(self, items: int, element: Format, chain: int, block: int) -> KernelLaunch:
        """That of the long segments, by any plan."""
        gpu = self._gpu
        plan = make_plan(max(self._short.n, 1), element, gpu.unit, chain=chain, block=block)
        tuned = sum_config(gpu.compute_capability, plan, items)
        function = compiled(
            "long_segments.cu", "long_segments", gpu.compute_capability, ELEMENTS[element.name], "SHIFTED",
            (("THREADS", block), ("CHAIN", chain), ("UNROLL", tuned.unroll),
             ("RESIDENT", tuned.resident), ("TERM", "VALUE")),
        )  # fmt: skip
        blocks = min(items, gpu.multiprocessors * tuned.resident)
        return KernelLaunch(function, blocks, block, self._longs[-1])

    def _chunk_launches(
        self, items: int, element: Format, listed: bool, permuted_k: tuple[str, int]
    ) -> tuple[list[KernelLaunch], KernelLaunch]:
        """By the usual plan: those ahead of the short segments' launch, where long ones are listed ahead, and the one behind."""
        capability, multiprocessors = self._gpu.compute_capability, self._gpu.multiprocessors
        resident = _LONG_RESIDENT[element.dtype.itemsize]
        function = compiled(
            "long_chunks.cu", "long_chunks", capability, ELEMENTS[element.name], "SHIFTED",
            (("THREADS", _LONG_THREADS), ("RESIDENT", resident), ("COPY", _LONG_RING[0]), ("COPIES", _LONG_RING[1]),
             permuted_k),
        )  # fmt: skip
        most = -(-items // (_LONG_THREADS // _WARP))

        def launch(each: int, problem: LongSegments) -> KernelLaunch:
            blocks = min(most, multiprocessors * each)
            return KernelLaunch(function, blocks, _LONG_THREADS, problem, overlaps=listed)

        behind = launch(resident, self._longs[-1])
        if not listed:
            return [], behind
        macros = {"THREADS": str(_LIST_THREADS), "RESIDENT": str(_LIST_RESIDENT)}
        lister = find_function("list_segments.cu", "list_segments", macros, self._gpu)
        for each in (lister, function):
            prefer_shared(each, self._gpu.ordinal)
        # A warp has 32 segments at least.  With as many for each of its lanes, and few warps, 10,000 segments of 100,000
        # numbers on average took 902 in place of 524 us (H200, binary16).
        parts = -(-self._short.segments // _LIST_THREADS)
        blocks = min(parts, multiprocessors * _LISTING)
        return [
            KernelLaunch(lister, blocks, _LIST_THREADS, self._short),
            launch(_EARLY, self._longs[0]),
        ], behind

    def __call__(self, x: int, offsets: int, out: int, room: int, stream: int) -> None:
        """Put it on the stream; ``room`` is the address of that much memory, at a multiple of 16 bytes."""
        short = self._short
        with self._lock:  # the driver copies the parameters before the launch returns
            short.data, short.offsets, short.out = x, offsets, out
            if len(self._launches) == 1:
                self._launches[0](stream)
                return
            space = workspace("segments", self._gpu.ordinal, stream, 0, STATES // 2)
            slots = self.room.place(room, self._queues, space.words_address)
            for each in self._queues:
                each.slots = slots
            for long in self._longs:
                long.data, long.out = x, out
            space.start(stream, *self._launches)


class _Way(NamedTuple):
    """A kernel of the first launch, how it is compiled, and how many segments each of its last warps has."""

    source: str
    macros: tuple[tuple[str, int], ...]
    per_warp: int


def _most(element: Format, short: bool) -> int:
    """Numbers of a segment that is not long, by the usual plan."""
    size = element.dtype.itemsize
    if short or element.name != "binary16":
        return _TILES * _WARP * LOAD // size
    return _MOST_EXACT


def _any_way(n: int, segments: int, element: Format, with_rests: bool, permuted_k: tuple[str, int]) -> _Way:
    size = element.dtype.itemsize
    per_warp = _per_warp(n * size, segments, _DATA[size], _MOST_PER_WARP)
    copy, copies, resident = _RINGS[size]
    turn_by_turn = with_rests and element.name == "binary16"
    macros = (
        ("AT_ONCE", min(per_warp, _AT_ONCE[1])), ("WITH_RESTS", int(with_rests)), ("RESIDENT", resident),
        ("COPY", copy), ("COPIES", copies), ("ROOM", 1 if turn_by_turn else _ROOM[size]), permuted_k,
    )  # fmt: skip
    return _Way("segments", macros, per_warp)


def _short_way(n: int, segments: int, size: int, fraction: int) -> _Way:
    per_warp = max(_per_warp(n * size, segments, _SHORT_DATA, _SHORT_MOST_PER_WARP), _WARP)
    ring, resident = next((ring, r) for mean, ring, r in _SHORT_RINGS if n <= mean * segments)
    macros = (
        ("RESIDENT", resident), ("FRACTION_BITS", fraction), ("PER_LANE", _SHORT_PER_LANE), ("RING", ring),
        ("WITH_RESTS", 0), ("ROOM", _ROOM[size]),
    )  # fmt: skip
    return _Way("short_segments", macros, per_warp)


def _sum_of_all(element: Format, gpu: Gpu) -> AlignedSum | None:
    """The arithmetic of an MMA that adds all its k = 16 numbers at once, in whatever order; else None."""
    narrow = {"binary16", "bfloat16"}.intersection(input_formats(gpu.unit))
    if not gpu.units or element.name not in narrow:
        return None
    instruction = find_instruction(gpu.unit, "mma", element.name, element.name, "binary32")
    arithmetic = instruction.arithmetic
    if not isinstance(arithmetic, AlignedSum):
        return None
    plain = AlignedSum(instruction.k, arithmetic.fraction_bits, "RZ", arithmetic.exponent_floor)
    return arithmetic if arithmetic == plain and instruction.k == 16 else None


def _exact_fraction(element: Format, gpu: Gpu) -> int | None:
    """The fraction bits that short_segments.cu can have, if it computes as the unit's MMA does; else None."""
    arithmetic = _sum_of_all(element, gpu) if element.name == "binary16" else None
    return arithmetic.fraction_bits if arithmetic and 24 <= arithmetic.fraction_bits <= 26 else None


def _per_warp(size: int, segments: int, data: int, most: int) -> int:
    """How many segments a warp goes through: a power of two."""
    if not segments:
        return _AT_ONCE[0]
    average = size / segments + 12
    count = 1
    while 2 * count * average <= data and count < most and segments >= 2 * count * _BUSY:
        count *= 2
    return max(count, _AT_ONCE[0])


def _first(segments: int, per_warp: int) -> int:
    """How many warps go through _MORE times as many segments: none, unless there is much for all."""
    more = _MORE * per_warp
    first = int((1 - _LAST) * segments) // more
    return first if first >= _BUSY else 0
