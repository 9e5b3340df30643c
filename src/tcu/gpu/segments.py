"""The kernels of ragged segments: what is short in one launch, what is long in others, beside it if it is much."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import NamedTuple

from tcu.formats.format import Format
from tcu.gpu.configs import SegmentsConfig, ShortSegmentsConfig
from tcu.gpu.device import Gpu
from tcu.gpu.launch import OTHER, OUT, ROOM, SPACE, Given, KernelChoice, Recipe, Space, X
from tcu.gpu.structs import Struct, struct
from tcu.gpu.sums import LOAD, TARGETS, elements
from tcu.gpu.tuning import config, sum_config
from tcu.plan import DEFAULT_VARIANT, make_plan, variants
from tcu.units import AlignedSum, find_instruction, input_formats

__all__ = ["STATES", "Lists", "WorkQueue", "segments_recipe"]

_TILES, _WARP = 8, 32
"""As in cuda/device/ragged/group_trees.cuh."""
STATES = 8
"""Words of the list's state, as in cuda/device/ragged/work_queue.cuh."""
_BLOCK = 256
"""Threads of the plan's blocks, by whose tiles segments.cu sums."""
_MOST_EXACT = 1 << 13
"""Of binary16, numbers whose sums are exact in binary64, in whatever order they are added up."""
_FRACTIONS = {"binary16": 25, "bfloat16": 25, "binary32": 41}
"""Fraction bits of short_segments.cu for exact additions: as many as leave room for the sum of 64 bytes in 32 bits, or of a
whole ring in binary64."""


WorkItem = struct("WorkItem", """
    i64 segment, begin, length;
    u32 first;  // the segment's first item in the queue
    u32 place;  // the segment's number among those with several chunks
""")  # fmt: skip


WorkQueue = struct("WorkQueue", """
    WorkItem* items;
    u32* arrived;  // in the place of a segment's first item: how many of the segment's chunks are done
    u32* state;    // STATES words, all zero before the first launch and after the last
    u64* slots;    // for each item, its chunk's sum, and MISSING until then; or null
    u32 room;      // items
    u32 several;   // segments of several chunks that have room
""")  # fmt: skip


Segments = struct("Segments", """
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
""")  # fmt: skip


LongSegments = struct("LongSegments", """
    const void* data;
    i64 n;
    void* out;
    i64 target;
    i64 mean;    // whether the sums are divided by the lengths
    i64 listed;  // whether list_segments.cu was launched before
    i64 early;   // whether this launch lies between that one and the short segments', and another follows these
    WorkQueue queue;
""")  # fmt: skip


class Lists(NamedTuple):
    """How a launch's room holds the lists of long segments: items, how many of each are done, and what the rest is for."""

    items: int
    rest: int
    """Bytes: of the sums slots, of the exact sums limbs."""

    @property
    def arrived(self) -> int:
        return ctypes.sizeof(WorkItem) * self.items

    @property
    def behind(self) -> int:
        """Where the rest is."""
        return self.arrived + -(-4 * self.items // 16) * 16

    @property
    def room(self) -> int:
        """Numbers of 8 bytes."""
        return (self.behind + self.rest) // 8

    @property
    def queue(self) -> dict[str, Given]:
        """The fields of a queue of them."""
        return {"queue.items": ROOM, "queue.arrived": (ROOM, self.arrived), "queue.state": SPACE}


def segments_recipe(
    n: int, segments: int, element: Format, target: Format, gpu: Gpu,
    *, chain: int = 1, block: int = _BLOCK, mean: bool = False, mmas: bool = False,
) -> Recipe:  # fmt: skip
    """The sum of each segment by the plan of one: ``n`` elements in ``segments`` segments.

    With ``mean`` each sum is divided by its segment's length.
    """
    tuned = config(SegmentsConfig, gpu.compute_capability, element.name)
    size, number = element.dtype.itemsize, TARGETS[target.name]
    together = chain * block * LOAD // size
    usual = (chain, block) == (1, _BLOCK)
    short = _short(n, segments, element, gpu, mmas) if usual else None
    most = _most(element, short is not None) if usual else 0
    permuted_k = int(_any_order(n, element, gpu, mmas))
    longs = min(segments, n // (most + 1))
    items = longs + n // (variants.LOADS * together) if longs else 0
    # Not beside short_segments.cu, which took 3 % longer then (segments of 8 on average, H200).
    may_be_listed = short is None and usual and longs > 0 and gpu.compute_capability >= (9, 0)
    listed = may_be_listed and n * size >= tuned.listed and segments >= tuned.sampled
    if short is None:
        source, macros, per_warp = _any_segments(n, segments, element, permuted_k, tuned)
    else:
        source, macros, per_warp = _short_segments(n, segments, size, *short, tuned)
    first = _first(segments, per_warp, tuned)
    queue, lists = WorkQueue(0, 0, 0, 0, items, items), Lists(items, 8 * items)
    shared: dict[str, Given] = {"data": X, "out": OUT}
    if longs:
        shared |= {**lists.queue, "queue.slots": (ROOM, lists.behind)}
    of_elements = {**elements(element.name, mmas), "LAYOUT": "SHIFTED"}
    whole = Segments(0, n, 0, segments, 0, number, mean, per_warp, first, most, together, listed, queue)
    blocks = max(1, -(-segments // per_warp) - (tuned.more - 1) * first)
    every = KernelChoice(
        source, {**of_elements, **macros, "MORE": tuned.more}, blocks, _WARP, whole, {**shared, "offsets": OTHER},
        overlaps=listed, prefers_shared=listed,
    )  # fmt: skip
    if not longs:
        return Recipe((every,))
    early, late = (LongSegments(0, n, 0, number, mean, listed, each, queue) for each in (True, False))
    if not usual:
        variant = "short-chain" if mmas else DEFAULT_VARIANT
        plan = make_plan(max(n, 1), element, gpu.unit, variant=variant, chain=chain, block=block)
        sums = sum_config(gpu.compute_capability, plan, items)
        plain: dict[str, object] = {
            **of_elements, "THREADS": block, "CHAIN": chain, "UNROLL": sums.unroll, "RESIDENT": sums.resident,
            "TERM": "VALUE",
        }  # fmt: skip
        blocks = min(items, gpu.multiprocessors * sums.resident)
        kernels = [every, KernelChoice("long_segments", plain, blocks, block, late, shared)]
    else:
        kernels = [every, _chunks(late, items, of_elements, gpu, permuted_k, shared, tuned)]
    if listed:
        # A warp has 32 segments at least.  With as many for each of its lanes, and few warps, 10,000 segments of
        # 100,000 numbers on average took 902 in place of 524 us (H200, binary16).
        blocks = min(-(-segments // tuned.list_threads), gpu.multiprocessors * tuned.listing)
        macros = {"THREADS": tuned.list_threads, "RESIDENT": tuned.list_resident}
        # Its structure is that of the launch of all segments, and filled for both.
        lister = KernelChoice("list_segments", macros, blocks, tuned.list_threads, whole, prefers_shared=True)
        kernels = [lister, _chunks(early, items, of_elements, gpu, permuted_k, shared, tuned), *kernels]
    return Recipe(tuple(kernels), lists.room, Space("segments", STATES // 2))


def _chunks(
    problem: Struct,
    items: int,
    of_elements: Mapping[str, object],
    gpu: Gpu,
    permuted_k: int,
    takes: Mapping[str, Given],
    tuned: SegmentsConfig,
) -> KernelChoice:
    """The chunks of long segments by the usual plan; some go ahead of the short segments' launch where they are listed."""
    threads, (copy, copies) = tuned.long_threads, tuned.long_ring
    macros = {
        **of_elements, "THREADS": threads, "RESIDENT": tuned.long_resident,
        "COPY": copy, "COPIES": copies, "PERMUTED_K": permuted_k,
    }  # fmt: skip
    each = gpu.multiprocessors * (tuned.early if problem.early else tuned.long_resident)
    blocks = min(-(-items // (threads // _WARP)), each)
    listed = bool(problem.listed)
    return KernelChoice(
        "long_chunks", macros, blocks, threads, problem, takes, overlaps=listed, prefers_shared=listed
    )


def _most(element: Format, short: bool) -> int:
    """Numbers of a segment that is not long, by the usual plan."""
    size = element.dtype.itemsize
    if short or element.name != "binary16":
        return _TILES * _WARP * LOAD // size
    return _MOST_EXACT


def _any_segments(
    n: int, segments: int, element: Format, permuted_k: int, tuned: SegmentsConfig
) -> tuple[str, dict[str, int], int]:
    """The kernel of the first launch, how it is compiled, and how many segments each of its last warps has."""
    nbytes = n * element.dtype.itemsize
    with_rests = nbytes >= tuned.with_rests * segments
    per_warp = _per_warp(nbytes, segments, tuned.data, tuned.most_per_warp, tuned)
    copy, copies = tuned.ring
    turn_by_turn = with_rests and element.name == "binary16"
    macros = {
        "AT_ONCE": min(per_warp, tuned.at_once[1]), "WITH_RESTS": int(with_rests), "RESIDENT": tuned.resident, "COPY": copy,
        "COPIES": copies, "ROOM": 1 if turn_by_turn else tuned.room, "PERMUTED_K": permuted_k,
    }  # fmt: skip
    return "segments", macros, per_warp


def _short_segments(
    n: int, segments: int, size: int, fraction: int, short: ShortSegmentsConfig, tuned: SegmentsConfig
) -> tuple[str, dict[str, int], int]:
    """The same for segments that are short on average."""
    per_warp = max(_per_warp(n * size, segments, short.data, short.most_per_warp, tuned), _WARP)
    longer = n > short.means[0] * segments
    macros = {
        "RESIDENT": short.resident[longer], "FRACTION_BITS": fraction, "PER_LANE": short.per_lane[longer],
        "RING": short.rings[longer], "WITH_RESTS": 0, "ROOM": tuned.room,
    }  # fmt: skip
    return "short_segments", macros, per_warp


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


def _any_order(n: int, element: Format, gpu: Gpu, mmas: bool) -> bool:
    """Whether the numbers of a load of four lanes may come in any order.

    An MMA that adds them at once allows it.  So do binary64 additions of up to 2^13 binary16 numbers, which are exact:
    those of four lanes in a plan's chunk, where there are not more than 2^32 numbers.
    """
    if mmas:
        return _sum_of_all(element, gpu) is not None
    return element.name == "binary16" and n <= 1 << 32


def _short(
    n: int, segments: int, element: Format, gpu: Gpu, mmas: bool
) -> tuple[int, ShortSegmentsConfig] | None:
    """The fraction bits of short_segments.cu, and how it is tuned, where segments are short enough on average; else None."""
    fraction = _exact_fraction(element, gpu, mmas)
    if fraction is None:
        return None
    short = config(ShortSegmentsConfig, gpu.compute_capability, element.name)
    return (fraction, short) if n <= short.means[1] * segments else None


def _exact_fraction(element: Format, gpu: Gpu, mmas: bool) -> int | None:
    """The fraction bits of short_segments.cu, if it gives the bits of the unit's MMA, or of exact additions; else None."""
    if not mmas:
        return _FRACTIONS.get(element.name) if gpu.compute_capability >= (9, 0) else None
    arithmetic = _sum_of_all(element, gpu) if element.name == "binary16" else None
    return arithmetic.fraction_bits if arithmetic and 24 <= arithmetic.fraction_bits <= 26 else None


def _per_warp(size: int, segments: int, data: int, most: int, tuned: SegmentsConfig) -> int:
    """How many segments a warp goes through: a power of two."""
    least = tuned.at_once[0]
    if not segments:
        return least
    average = size / segments + 12
    count = 1
    while 2 * count * average <= data and count < most and segments >= 2 * count * tuned.busy:
        count *= 2
    return max(count, least)


def _first(segments: int, per_warp: int, tuned: SegmentsConfig) -> int:
    """How many warps go through more segments than the others: none, unless there is much for all."""
    first = int((1 - tuned.last) * segments) // (tuned.more * per_warp)
    return first if first >= tuned.busy else 0
