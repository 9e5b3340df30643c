"""What the benchmark of segments and scans measures: dtypes, lengths, layouts, and where torch.compile takes part."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from gpu_compiled import Task
from gpu_segment_data import RAGGED

DTYPES = ("float16", "bfloat16", "float32")
ELEMENTS = {"float16": 1 << 30, "bfloat16": 1 << 30, "float32": 1 << 29}
"""2 GiB of each."""
SCANNED = 1 << 29
SCAN_SIZES = (SCANNED, 1 << 24)
SCAN_PAIRS = (("float16", "float16"), ("float16", "float32"), ("float32", "float32"))
ROWSCAN_PAIRS = (("float16", "float16"),)
DRY_RUN_SHIFT = 14
"""A dry run takes 2^-14 of the elements."""

POWERS = tuple(1 << power for power in range(4, 31))
AWKWARD = (3, 17, 100, 999, 1000, 3000, 65537)
ROWSCAN_LENGTHS = tuple(1 << power for power in range(4, 21))
QUICK_LENGTHS = frozenset({*(1 << power for power in (4, 6, 8, 10, 12, 14, 20, 25, 30)), 17, 1000, 65537})
FIRST_CALL_LENGTHS = (1024, 16384)

COMPILED_ROWS = {
    "float16": frozenset({*(1 << power for power in (4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 20)), 100, 1000}),
    "bfloat16": frozenset({64, 512, 4096}),
    "float32": frozenset({64, 512, 4096}),
}
"""It compiles anew for each shape, for a second or more."""
COMPILED_SCANS = frozenset(1 << power for power in (4, 5, 6, 7, 8, 9, 10, 12, 14))
FIRST, MIDDLE = "first axis", "middle axis"


Along = tuple[str, tuple[int, ...], int]
"""Layout, shape and axis."""


def axes_of(n: int) -> list[Along]:
    """Arrays of n elements, a power of two, or a little fewer."""
    first: list[Along] = [
        (FIRST, (length, n // length), 0) for length in (16, 256, 4096, 1 << 15, 1 << 24) if length < n
    ]
    middle: list[Along] = [
        (MIDDLE, (n // (length * inner), length, inner), 1)
        for length, inner in ((16, 1024), (64, 16), (1024, 1024), (1000, 100), (1 << 15, 2))
        if length * inner <= n
    ]
    return first + middle


class Asked:
    """The points that the command line asks for."""

    def __init__(
        self, dtypes: Sequence[str], lengths: Sequence[int] | None, quick: bool, dry_run: bool
    ) -> None:
        self.dtypes = tuple(dtypes)
        self._lengths = None if lengths is None else frozenset(lengths)
        self._quick = quick
        self._shift = DRY_RUN_SHIFT if dry_run else 0
        self.ragged_dtypes = tuple(dtype for dtype in ("float16", "float32") if dtype in dtypes)
        self.ragged = RAGGED[::3] if quick else RAGGED
        self.scanned = SCANNED >> self._shift
        self.scan_sizes = tuple(n >> self._shift for n in SCAN_SIZES)
        pairs = SCAN_PAIRS[:1] if quick else SCAN_PAIRS
        self.scan_pairs = tuple(pair for pair in pairs if pair[0] in dtypes)
        self.rowscan_pairs = tuple(pair for pair in ROWSCAN_PAIRS if pair[0] in dtypes)
        self.rowscan_lengths = [n for n in ROWSCAN_LENGTHS if self._chosen(n) and n <= self.scanned]

    def elements(self, dtype: str) -> int:
        return ELEMENTS[dtype] >> self._shift

    def _chosen(self, length: int) -> bool:
        if self._lengths is not None:
            return length in self._lengths
        return not self._quick or length in QUICK_LENGTHS

    def row_lengths(self, dtype: str) -> list[int]:
        lengths = (*POWERS, *AWKWARD, *sorted(self._lengths or ()))
        return [n for n in dict.fromkeys(lengths) if self._chosen(n) and n <= self.elements(dtype)]

    def along(self, dtype: str) -> list[Along]:
        shapes = axes_of(self.elements(dtype))
        if self._lengths is not None:
            return [one for one in shapes if one[1][one[2]] in self._lengths]
        return shapes[::3] if self._quick else shapes

    def row_task(self, dtype: str, length: int) -> Task:
        return Task("sum", dtype, "float32", (self.elements(dtype) // length, length), 1)

    def along_task(self, dtype: str, shape: tuple[int, ...], axis: int) -> Task:
        return Task("sum", dtype, "float32", shape, axis)

    def rowscan_task(self, dtype: str, out: str, length: int) -> Task:
        return Task("cumsum", dtype, out, (self.scanned // length, length), 1)

    def tasks(self, parts: Iterable[str]) -> list[Task]:
        """What torch.compile compiles; none in a dry run, where it would be for another processor."""
        if self._shift:
            return []
        found: list[Task] = []
        if "rows" in parts:
            for dtype in self.dtypes:
                found += [
                    self.row_task(dtype, n) for n in self.row_lengths(dtype) if n in COMPILED_ROWS[dtype]
                ]
                if dtype == "float16":
                    found += [self.along_task(dtype, shape, axis) for _, shape, axis in self.along(dtype)]
        if "rowscans" in parts:
            for dtype, out in self.rowscan_pairs:
                found += [
                    self.rowscan_task(dtype, out, n) for n in self.rowscan_lengths if n in COMPILED_SCANS
                ]
        return found


def is_power(length: float) -> bool:
    return length >= 1 and math.log2(length).is_integer()
