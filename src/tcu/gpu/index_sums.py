"""The kernels of sums by index that bring together the numbers or rows of each slot, and exact sums of rows that a list brings together."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import accumulate
from typing import NamedTuple

from tcu.formats.format import Format
from tcu.gpu.device import Gpu
from tcu.gpu.launch import OTHER, OUT, ROOM, Given, KernelChoice, Recipe, X
from tcu.gpu.structs import Struct, struct
from tcu.gpu.sums import ELEMENTS, LOAD, TARGETS

__all__ = ["Room", "count_recipe", "place_recipe", "rows_recipe", "sort_recipes"]

_THREADS = 256
_ITEMS = {True: 8, False: 2}
"""Indices of a thread, by whether a block has counters, which it clears and gives back."""
_MOST_COUNTERS = 1 << 11
"""Slots whose counters a block has in shared memory.  Of more slots, a block's places hardly meet."""
_MOST_ROWS = 256
"""Of a slot that a lane adds up by itself, and of a piece of a longer one, unless there would be too many pieces."""
_MOST_SUMS = 1 << 23
"""Pieces' columns, of 16 bytes each: eight for each lane that an H200 has at once, so that none waits long for others."""
_RESIDENT = {2: 4, 4: 3, 8: 3}
"""Blocks of a multiprocessor, by the bytes of a number."""
_WINDOW, _WINDOW_ROWS, _WAVES = 8, 64, 5
"""Slots of a window, at most, but not more than have so many rows, or than leave each place for a warp so many windows."""
_STAGED = 8
"""Rows of a warp that have room in shared memory."""
_PIECE_THREADS = 128
"""Of a block for pieces of long slots: blocks of a warp, that find none, take 3.7 us in place of 1.5 (H200)."""
_WARP = 32
"""Lanes, of which a window's rows have at most all."""
_LEAST_SORTED = 1 << 22
"""Places of an index that are sorted; fewer are counted, in two launches in place of three for every eight bits of a slot."""
_DIGIT_BITS = 8
_DIGITS = 1 << _DIGIT_BITS
_EDGES = 1024
"""Slots of which a warp looks for the beginnings."""
_WRONG, _ITEM_COUNT, _LONG_COUNT, _THERE, _HEAD = 0, 8, 12, 16, 4
"""In the room: bytes from its beginning, and the word where arrays begin."""


IndexSlots = struct("IndexSlots", """
    const void* index;
    i64 n, slots;
    u64* counts;        // one for each slot, all zero at first
    u32* ranks;         // of each place in its slot
    u64* wrong;         // n less the first place whose index is out of range, or zero
    const i64* edges;   // where each slot begins, and the end of the last
    const void* numbers;
    i64 stride;         // from number to number
    void* placed;       // numbers or places, slot by slot
""")  # fmt: skip


SlotSort = struct("SlotSort", """
    const void* index;
    i64 n, slots;
    i64 shift;            // of the digit in a slot
    i64 tiles;            // of numbers, a block's each
    const u32* from;      // slots, unless this is the first pass
    u32* to;
    u32* counts;          // of each digit in each tile
    const u32* sums;      // of those of lower digits, of earlier tiles of this one, and of this
    u32* there;           // how many numbers are within the range
    u64* wrong;           // n less the first place whose index is out of range, or zero
    const void* numbers;
    i64 stride;           // from number to number, in the first pass
    void* placed;
    i64* edges;           // where each slot begins, and the end of the last
""")  # fmt: skip


ListedPiece = struct("ListedPiece", """
    u32 slot;
    u32 number;  // of the piece in its slot; of a long slot, of its first piece among all
""")  # fmt: skip


ListedRows = struct("ListedRows", """
    const void* data;
    i64 stride;                // from row to row, in elements
    i64 slots, columns;
    const i64* edges;          // where each slot begins in the list, and the end of the last
    const u32* rows;           // the list
    void* out;
    i64 shift;                 // the logarithm of a slot's lanes, if they are a power of two, else -1
    i64 most;                  // rows of a piece; a slot of more is long
    u32* items;                // the number of pieces of long slots, zero at first
    u32* longs;                // of long slots, zero at first
    ListedPiece* pieces;
    ListedPiece* long_slots;
    double* sums;              // two for each piece and column
""")  # fmt: skip


class Room(NamedTuple):
    """Where what the launches hand each other lies, in words of 8 bytes from a multiple of 16 bytes on."""

    zeros: int
    """From the first word on so many are zero at first."""
    passes: int
    """Of the sort; 0: slots have counters."""
    counts: int
    """Of slots; or of digits in tiles, with their sums behind them."""
    edges: int
    ranks: int
    """Of places; or sorted slots."""
    placed: int
    other_ranks: int
    """That passes take turns with."""
    other_placed: int
    pieces: int
    long_slots: int
    sums: int
    words: int
    most: int
    """Rows of a piece; a slot of more is long."""

    @classmethod
    def of(cls, n: int, slots: int, columns: int, size: int) -> Room:
        """``size``: bytes of what is brought together; 0: the places of rows, in 4 bytes."""
        assert max(n, slots) < 1 << 31  # kernels number both by 32 bits
        passes = -(-max((slots - 1).bit_length(), 1) // _DIGIT_BITS) if n >= _LEAST_SORTED else 0
        most = max(_MOST_ROWS, -(-2 * n * columns // _MOST_SUMS))
        items = 2 * (n // most) if size == 0 else 0
        lengths = {
            "counts": _DIGITS * _tiles(n, size) if passes else slots,
            "edges": slots + 1,
            "ranks": -(-n // 2),
            "placed": -(-n * (size or 4) // 8),
            "other_ranks": -(-n // 2) if passes > 1 else 0,
            "other_placed": -(-n * (size or 4) // 8) if passes > 1 else 0,
            "pieces": items,
            "long_slots": items // 2,
            "sums": 2 * items * columns,
        }
        ends = list(accumulate((length + length % 2 for length in lengths.values()), initial=_HEAD))
        places = dict(zip(lengths, ends, strict=False))
        return cls(_HEAD if passes else places["edges"] + 1, passes, **places, words=ends[-1], most=most)


def _tiles(n: int, size: int) -> int:
    return -(-n // (_DIGITS * _sorted_items(size)))


def _sorted_items(size: int) -> int:
    """Numbers of a thread of the sort, whose block has a tile of them in shared memory."""
    return 8 if size == 8 else 16


def sort_recipes(
    n: int, slots: int, wide: bool, room: Room, size: int, stride: int, number: int
) -> tuple[Recipe, Recipe]:
    """Of a pass of the sort: what counts, and what sorts when the counts are added up; the last one tells where slots begin."""
    tiles, is_last = _tiles(n, size), number == room.passes - 1
    turns = (room.ranks, room.placed), (room.other_ranks, room.other_placed)
    to, placed = turns[(room.passes - 1 - number) % 2]
    source, numbers = turns[(room.passes - number) % 2]
    problem = SlotSort(0, n, slots, _DIGIT_BITS * number, tiles, 0, 0, 0, 0, 0, 0, 0, stride, 0, 0)
    takes: dict[str, Given] = {
        "index": OTHER, "counts": (ROOM, 8 * room.counts), "sums": (ROOM, 8 * room.counts + 4 * _DIGITS * tiles),
        "there": (ROOM, _THERE), "wrong": (ROOM, _WRONG), "edges": (ROOM, 8 * room.edges), "from": (ROOM, 8 * source),
        "to": (ROOM, 8 * to), "placed": (ROOM, 8 * placed), "numbers": (ROOM, 8 * numbers) if number else X,
    }  # fmt: skip
    macros = {
        "FIRST": int(number == 0),
        "WIDE": int(wide),
        "BYTES": size,
        "ITEMS": _sorted_items(size),
        "ALONE": int(room.passes == 1),
        "EDGES": _EDGES,
    }

    def kernel(entry: str, blocks: int, **other: Given) -> KernelChoice:
        own = type(problem).from_buffer_copy(problem)
        return KernelChoice("sort_slots", macros, blocks, _DIGITS, own, {**takes, **other}, entry=entry)

    sort: tuple[KernelChoice, ...] = (kernel("sort_by_digit", tiles),)
    if is_last:
        of_block = _DIGITS if room.passes == 1 else _DIGITS // _WARP * _EDGES
        sort += (kernel("begin_of_slots", slots // of_block + 1, **{"from": (ROOM, 8 * to)}),)
    return Recipe((kernel("count_digits", tiles),), room.words), Recipe(sort, room.words)


def count_recipe(n: int, slots: int, wide: bool, room: Room) -> Recipe:
    """Counts the places of each slot, and ranks them; ``wide``: indices of 64 bits."""
    counters = 1 << max(slots - 1, 1).bit_length() if slots <= _MOST_COUNTERS else 0
    problem = IndexSlots(0, n, slots, 0, 0, 0, 0, 0, 0, 0)
    takes: dict[str, Given] = {
        "index": OTHER, "counts": (ROOM, 8 * room.counts), "ranks": (ROOM, 8 * room.ranks), "wrong": (ROOM, _WRONG),
    }  # fmt: skip
    return Recipe((_slots_kernel("count_slots", n, wide, counters, 0, problem, takes),), room.words)


def place_recipe(n: int, slots: int, wide: bool, room: Room, size: int, stride: int) -> Recipe:
    """Brings numbers of so many bytes together, or, with 0, the places of rows."""
    problem = IndexSlots(0, n, slots, 0, 0, 0, 0, 0, stride, 0)
    takes: dict[str, Given] = {
        "index": OTHER, "ranks": (ROOM, 8 * room.ranks), "edges": (ROOM, 8 * room.edges), "placed": (ROOM, 8 * room.placed),
        "numbers": X,
    }  # fmt: skip
    return Recipe((_slots_kernel("place_in_slots", n, wide, 0, size, problem, takes),), room.words)


def _slots_kernel(
    entry: str, n: int, wide: bool, counters: int, size: int, problem: Struct, takes: dict[str, Given]
) -> KernelChoice:  # fmt: skip
    items = _ITEMS[counters > 0]
    macros = {"WIDE": int(wide), "COUNTERS": counters, "BYTES": size, "THREADS": _THREADS, "ITEMS": items}
    return KernelChoice(
        "index_slots", macros, -(-n // (_THREADS * items)), _THREADS, problem, takes, entry=entry
    )


def rows_recipe(
    n: int, slots: int, columns: int, stride: int, aligned: bool, room: Room, element: Format, target: Format, gpu: Gpu,
    *, mean: bool = False,
) -> Recipe:  # fmt: skip
    """The exact sum of each column of each slot's rows, rounded once, or its mean; ``aligned``: the rows' memory begins at a
    multiple of 16 bytes.
    """
    unit = math.gcd(LOAD // element.dtype.itemsize if aligned else 1, columns, stride)
    lanes = columns // unit
    shift = lanes.bit_length() - 1 if lanes & (lanes - 1) == 0 else -1
    loads, together = (4, 1) if n > 2 * slots else (2, 4)
    resident = _RESIDENT[element.dtype.itemsize] if together == 1 else 3
    macros = {
        "ELEMENT": ELEMENTS[element.name], "LAYOUT": "ALIGNED", "TERM": "VALUE", "THREADS": _THREADS, "UNROLL": 1,
        "RESIDENT": resident, "COLUMNS": unit, "ROWS": loads, "SLOTS": together, "RESULT": TARGETS[target.name],
        "MEAN": int(mean),
    }  # fmt: skip
    problem = ListedRows(0, stride, slots, columns, 0, 0, 0, shift, room.most, 0, 0, 0, 0, 0)
    takes: dict[str, Given] = {
        "data": X, "out": OUT, "edges": (ROOM, 8 * room.edges), "rows": (ROOM, 8 * room.placed), "items": (ROOM, _ITEM_COUNT),
        "longs": (ROOM, _LONG_COUNT), "pieces": (ROOM, 8 * room.pieces), "long_slots": (ROOM, 8 * room.long_slots),
        "sums": (ROOM, 8 * room.sums),
    }  # fmt: skip
    filled = gpu.multiprocessors * resident
    rows = KernelChoice(
        "listed_rows", macros, -(-slots * lanes // (_THREADS * together)), _THREADS, problem, takes
    )
    pieces = replace(rows, blocks=filled, entry="listed_pieces")
    step = stride * element.dtype.itemsize  # which listed_windows keeps in 32 bits
    if unit * element.dtype.itemsize == LOAD and step < 1 << 32:
        rows, pieces = _windows(n, slots, lanes, rows, gpu)
    long_slots = KernelChoice(
        "listed_rows", macros, filled, _THREADS, problem, takes, entry="listed_long_slots"
    )
    return Recipe((rows, pieces, long_slots) if n > room.most else (rows,), room.words)


def _windows(
    n: int, slots: int, lanes: int, rows: KernelChoice, gpu: Gpu
) -> tuple[KernelChoice, KernelChoice]:
    """The kernels of windows of slots and of pieces, in place of that of single slots."""
    together = min(_WARP, 1 << (lanes - 1).bit_length())
    across = -(-lanes // together)
    # 32 warps leave a lane 64 registers.  Two numbers of binary64 for each column take more: 358 in place of 328 us for 2^20 rows of
    # 128 numbers of binary32 (H200).
    is_narrow = rows.macros["ELEMENT"] in ("BINARY16", "BFLOAT16")
    resident = 32 if across == 1 and is_narrow else 24
    staged = _STAGED if gpu.shared_memory >= resident * _WARP * _STAGED * LOAD else _STAGED // 2
    groups = gpu.multiprocessors * resident * _WARP // together
    window = max(1, min(_WINDOW, _WINDOW_ROWS * slots // max(n, 1), int(slots * across / (_WAVES * groups))))
    macros = {
        **rows.macros, "THREADS": _WARP, "RESIDENT": resident, "LANES": together, "SLOTS": window, "STAGED": staged, "ROWS": 2
    }  # fmt: skip
    windows = replace(
        rows, source="listed_windows", macros=macros, blocks=-(-(-(-slots // window) * across * together) // _WARP),
        threads=_WARP, shared=_WARP * staged * LOAD,
    )  # fmt: skip
    warps = _PIECE_THREADS // _WARP
    pieces = replace(
        windows, macros={**macros, "THREADS": _PIECE_THREADS, "RESIDENT": resident // warps},
        blocks=gpu.multiprocessors * resident // warps, threads=_PIECE_THREADS, shared=warps * windows.shared,
        entry="listed_pieces_of_windows",
    )  # fmt: skip
    return windows, pieces
