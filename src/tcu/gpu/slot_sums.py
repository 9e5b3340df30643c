"""The kernels of sums of numbers by index, which add integers to slots by atomic additions."""

from __future__ import annotations

from dataclasses import dataclass

from tcu.formats.format import Format
from tcu.gpu.device import Gpu
from tcu.gpu.launch import OTHER, OUT, ROOM, Given, KernelChoice, Recipe, X
from tcu.gpu.structs import Struct, struct
from tcu.gpu.sums import ELEMENTS, TARGETS

__all__ = ["SlotWords", "slot_sums_recipe"]

_THREADS, _ITEMS = 512, 4
_RESIDENT = {2: 3, 4: 3, 8: 2}
"""Blocks of a multiprocessor, by the bytes of a number."""
_MOST_BITS = 40
"""Of a word: three of them are rounded as 128 bits (cuda/device/exact/fixed_point.cuh)."""
_PART_BYTES = 1 << 24
"""Of the first words of the slots that are served at a time, or a third of the second cache: additions wait for memory where that
does not hold them.  Into 2^20 slots 2^26 numbers of binary32 took 884 us, into 2^22 at once 1,589 (H100, 50 MB)."""
_MOST_PARTS = 8
"""Each reads all indices, so that a sort takes less time from there on."""
_WRONG, _SEEN, _HEAD = 0, 8, 4
"""In the room: bytes from its beginning, and the word where arrays begin."""


SlotSums = struct("SlotSums", """
    const void* index;
    const void* numbers;
    i64 stride;      // from number to number
    i64 n, slots;
    i64 bits;        // of the numbers in a word
    i64 counts;      // the word that counts a slot's numbers
    u64* wrong;      // n less the first place whose index is out of range, or zero
    i64 from, to;    // the slots that are served
    i64 is_part;     // whether there are others
    int* seen;       // exact::Extent's top and depth, and how many samples of the index are near, zero at first
    u64* words;      // word k of a slot lies k · slots behind its first
    u32* specials;   // of slots
    void* out;
""")  # fmt: skip


@dataclass(frozen=True)
class SlotWords:
    """Where what the kernels hand each other lies, in words of 8 bytes from a multiple of 16 bytes on."""

    bits: int
    """Of the numbers in a word of 64 bits, which has room for the carries of all."""
    planes: int
    """Words of a slot, if the numbers have every exponent; and the count of a mean."""
    words: int
    """In all."""

    zeros = _HEAD

    @classmethod
    def of(cls, n: int, slots: int, element: Format, mean: bool, gpu: Gpu) -> SlotWords | None:
        """None where a sort takes less time, or less memory."""
        bits = min(63 - max(n - 1, 1).bit_length(), _MOST_BITS)
        lowest, above = element.quantum_exponent, element.emax + 1
        planes = -(-(above - lowest) // bits) + mean
        if not slots or _parts(slots, gpu) > _MOST_PARTS or planes * slots > 2 * n:
            return None
        return cls(bits, planes, _HEAD + planes * slots + -(-slots // 2))


def _parts(slots: int, gpu: Gpu) -> int:
    return -(-8 * slots // min(_PART_BYTES, gpu.l2 // 3))


def slot_sums_recipe(
    n: int, slots: int, wide: bool, room: SlotWords, stride: int, packed: bool, element: Format, target: Format, gpu: Gpu,
    *, mean: bool = False,
) -> Recipe:  # fmt: skip
    """The exact sum of each slot's numbers, rounded once, or their mean; ``wide``: indices of 64 bits; ``packed``: both lie without
    gaps from a multiple of 16 bytes on.
    """
    resident = _RESIDENT[element.dtype.itemsize]
    macros = {
        "ELEMENT": ELEMENTS[element.name], "LAYOUT": "ALIGNED", "TERM": "VALUE", "THREADS": _THREADS, "UNROLL": 1,
        "RESIDENT": resident, "WIDE": int(wide), "PACKED": int(packed), "RESULT": TARGETS[target.name], "MEAN": int(mean),
        "ITEMS": _ITEMS,
    }  # fmt: skip
    parts = _parts(slots, gpu)

    def problem(part: int) -> Struct:
        bounds = slots * part // parts, slots * (part + 1) // parts
        return SlotSums(
            0, 0, stride, n, slots, room.bits, room.planes - 1, 0, *bounds, int(parts > 1), 0, 0, 0, 0
        )

    takes: dict[str, Given] = {
        "index": OTHER, "numbers": X, "out": OUT, "wrong": (ROOM, _WRONG), "seen": (ROOM, _SEEN), "words": (ROOM, 8 * _HEAD),
        "specials": (ROOM, 8 * (_HEAD + room.planes * slots)),
    }  # fmt: skip
    filled = gpu.multiprocessors * resident
    some = min(filled, -(-n // (_ITEMS * _THREADS)))
    return Recipe(
        tuple(
            KernelChoice("slot_sums", macros, blocks, _THREADS, problem(part), takes, entry=entry)
            for entry, blocks, part in (
                ("see_numbers", some, 0),
                ("clear_words", min(filled, -(-slots // _THREADS)), 0),
                *(("add_to_slots", some, part) for part in range(parts)),
                ("round_slots", -(-slots // _THREADS), 0),
            )
        ),
        room.words,
    )
