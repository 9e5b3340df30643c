"""The kernels of sums by index: what brings together the numbers of each slot, and exact sums of rows that a list brings together."""

from __future__ import annotations

import math
from typing import NamedTuple

from tcu.formats.format import Format
from tcu.gpu.device import Gpu
from tcu.gpu.launch import OTHER, OUT, ROOM, Given, KernelChoice, Recipe, X
from tcu.gpu.structs import Struct, struct
from tcu.gpu.sums import ELEMENTS, LOAD, TARGETS

__all__ = ["Room", "count_recipe", "place_recipe", "rows_recipe"]

_THREADS, _ITEMS = 256, 8
_MOST_COUNTERS = 1 << 11
"""Slots whose counters a block has in shared memory.  Of more slots, a block's places hardly meet."""
_MOST_ROWS = 256
"""Of a slot that a lane adds up by itself."""
_RESIDENT = {2: 4, 4: 3, 8: 3}
"""Blocks of a multiprocessor, by the bytes of a number."""
_WRONG, _ITEM_COUNT, _LONG_COUNT, _COUNTS = 0, 8, 12, 2
"""In the room: bytes from its beginning, and the word where the slots' counters begin."""


IndexSlots = struct("IndexSlots", """
    const void* index;
    i64 n, slots;
    u32* counts;        // one for each slot, all zero at first
    u32* ranks;         // of each place in its slot
    u64* wrong;         // n less the first place whose index is out of range, or zero
    const i64* edges;   // where each slot begins, and the end of the last
    const void* numbers;
    i64 stride;         // from number to number
    void* placed;       // numbers or places, slot by slot
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
    counts: int
    edges: int
    ranks: int
    placed: int
    pieces: int
    long_slots: int
    sums: int
    words: int

    @classmethod
    def of(cls, n: int, slots: int, columns: int, size: int) -> Room:
        """``size``: bytes of what is brought together; of rows their places are, in 4 bytes."""
        assert max(n, slots) < 1 << 31  # kernels number both by 32 bits
        items = 2 * (n // _MOST_ROWS) if size == 0 else 0
        edges = _COUNTS + -(-slots // 2)
        ranks = edges + slots + 1
        placed = ranks + -(-n // 2)
        placed += placed % 2
        pieces = placed + -(-n * (size or 4) // 8)
        long_slots = pieces + items
        sums = long_slots + items // 2
        return cls(
            edges + 1, _COUNTS, edges, ranks, placed, pieces, long_slots, sums, sums + 2 * items * columns
        )


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
    macros = {"WIDE": int(wide), "COUNTERS": counters, "BYTES": size, "THREADS": _THREADS, "ITEMS": _ITEMS}
    return KernelChoice(
        "index_slots", macros, -(-n // (_THREADS * _ITEMS)), _THREADS, problem, takes, entry=entry
    )


def rows_recipe(
    n: int, slots: int, columns: int, stride: int, aligned: bool, room: Room, element: Format, target: Format, gpu: Gpu,
    *, mean: bool = False,
) -> Recipe:  # fmt: skip
    """The exact sum of each column of each slot's rows, rounded once, or its mean; ``aligned``: the rows' memory begins at a
    multiple of 16 bytes.
    """
    unit = math.gcd(LOAD // element.dtype.itemsize if aligned else 1, columns, stride)
    loads = 4 if n > 2 * slots else 2
    resident = _RESIDENT[element.dtype.itemsize]
    macros = {
        "ELEMENT": ELEMENTS[element.name], "LAYOUT": "ALIGNED", "TERM": "VALUE", "THREADS": _THREADS, "UNROLL": 1,
        "RESIDENT": resident, "COLUMNS": unit, "ROWS": loads, "RESULT": TARGETS[target.name],
        "MEAN": int(mean),
    }  # fmt: skip
    problem = ListedRows(0, stride, slots, columns, 0, 0, 0, _MOST_ROWS, 0, 0, 0, 0, 0)
    takes: dict[str, Given] = {
        "data": X, "out": OUT, "edges": (ROOM, 8 * room.edges), "rows": (ROOM, 8 * room.placed), "items": (ROOM, _ITEM_COUNT),
        "longs": (ROOM, _LONG_COUNT), "pieces": (ROOM, 8 * room.pieces), "long_slots": (ROOM, 8 * room.long_slots),
        "sums": (ROOM, 8 * room.sums),
    }  # fmt: skip
    every = -(-slots * (columns // unit) // _THREADS)
    filled = gpu.multiprocessors * resident
    long = n > _MOST_ROWS
    return Recipe(
        tuple(
            KernelChoice("listed_rows", macros, blocks, _THREADS, problem, takes, entry=entry)
            for entry, blocks in (
                ("listed_rows", every),
                ("listed_pieces", filled),
                ("listed_long_slots", filled),
            )[: 3 if long else 1]
        ),
        room.words,
    )
