"""What the benchmark of segments and scans measures: dtypes, lengths, layouts, and where torch.compile takes part."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from gpu_compiled import Task
from gpu_segment_data import RAGGED

DTYPES = ("float16", "bfloat16", "float32", "float64")
ELEMENTS = {"float16": 1 << 30, "bfloat16": 1 << 30, "float32": 1 << 29, "float64": 1 << 28}
"""2 GiB of each."""
SCANNED = {"float16": 1 << 29, "bfloat16": 1 << 29, "float32": 1 << 28, "float64": 1 << 27}
SCAN_PAIRS = (("float16", "float16"), ("float16", "float32"), ("float32", "float32"))
ROWSCAN_PAIRS = (
    ("float16", "float16"), ("bfloat16", "bfloat16"), ("float32", "float32"), ("float64", "float64"), ("float16", "float32"),
)  # fmt: skip
TRIANGLE_PAIRS = (
    ("float16", "float32"), ("bfloat16", "float32"), ("float16", "float16"), ("bfloat16", "bfloat16"),
)  # fmt: skip
"""Of scans by MMAs, which round to 16 bits between strips in any case."""
DRY_RUN_SHIFT = 14
"""A dry run takes 2^-14 of the elements."""

POWERS = tuple(1 << power for power in range(4, 31, 2))
AWKWARD = (3, 17, 100, 257, 999, 1000, 3000, 4097, 65_000, (1 << 20) + 1)
LENGTHS = tuple(sorted((*AWKWARD, 64, 1024)))
"""Of rows that are summed exactly or scanned."""
COMPILED_LENGTHS = frozenset({16, 256, 1000, 4096, 1 << 16, 1 << 20})
"""Of scans by MMAs where torch.compile takes part: it compiles anew for each, and for long rows falls back on PyTorch."""
QUICK_LENGTHS = frozenset({64, 1 << 14, 17, 1000, 4097})
FIRST_CALL_LENGTHS = (1024, 16384)
NORMS = ("norm", "dot")
FIRST, MIDDLE = "first axis", "middle axis"

Along = tuple[str, tuple[int, ...], int]
"""Layout, shape and axis."""


def axes_of(n: int) -> list[Along]:
    """Arrays of n elements, a power of two, or a little fewer."""
    first: list[Along] = [
        (FIRST, (length, n // length), 0)
        for length in (16, 256, 999, 1000, 1 << 15, 1 << 20, 1 << 24)
        if length < n
    ]
    middle: list[Along] = [
        (MIDDLE, (n // (length * inner), length, inner), 1)
        for length, inner in ((16, 1024), (64, 16), (512, 2048), (1000, 100), (100_000, 3), (1 << 15, 2))
        if length * inner <= n
    ]
    return first + middle


class Asked:
    """The points that the command line asks for."""

    def __init__(
        self, dtypes: Sequence[str], lengths: Sequence[int] | None, quick: bool, dry_run: bool, elements: int | None = None
    ) -> None:  # fmt: skip
        self.dtypes = tuple(dtypes)
        self._lengths = None if lengths is None else frozenset(lengths)
        self._quick = quick
        self._shift = DRY_RUN_SHIFT if dry_run else 0
        self._elements = elements
        self.ragged = RAGGED[::3] if quick else RAGGED
        pairs = SCAN_PAIRS[:1] if quick else SCAN_PAIRS
        self.scan_pairs = tuple(pair for pair in pairs if pair[0] in dtypes)
        self.scan_sizes = tuple((elements or n) >> self._shift for n in (1 << 29, 1 << 24))
        self.triangle_pairs = tuple(pair for pair in TRIANGLE_PAIRS if pair[0] in dtypes)
        self.rowscan_pairs = tuple(pair for pair in ROWSCAN_PAIRS if pair[0] in dtypes)

    def elements(self, dtype: str) -> int:
        return (self._elements or ELEMENTS[dtype]) >> self._shift

    def scanned(self, dtype: str) -> int:
        return (self._elements or SCANNED[dtype]) >> self._shift

    def norm_sizes(self, dtype: str) -> tuple[int, ...]:
        return tuple(dict.fromkeys((self.elements(dtype), (self._elements or 1 << 26) >> self._shift)))

    def _chosen(self, lengths: Iterable[int], n: int) -> list[int]:
        if self._lengths is not None:
            lengths = sorted(self._lengths)
        elif self._quick:
            lengths = (length for length in lengths if length in QUICK_LENGTHS)
        return [length for length in dict.fromkeys(lengths) if length <= n]

    def row_lengths(self, dtype: str) -> list[int]:
        return self._chosen((*POWERS, *AWKWARD), self.elements(dtype))

    def exact_lengths(self, dtype: str) -> list[int]:
        return self._chosen(LENGTHS, self.elements(dtype))

    def rowscan_lengths(self, dtype: str) -> list[int]:
        return self._chosen(LENGTHS, self.scanned(dtype))

    def triangle_lengths(self, dtype: str) -> list[int]:
        """As in the figures of the algorithms' paper, powers of two from 16 on; and the awkward ones."""
        powers = tuple(1 << power for power in range(4, 31))
        return self._chosen((*powers, *AWKWARD), self.scanned(dtype))

    def along(self, n: int) -> list[Along]:
        shapes = axes_of(n)
        if self._lengths is not None:
            return [one for one in shapes if one[1][one[2]] in self._lengths]
        return shapes[::3] if self._quick else shapes

    def tasks(self, parts: Iterable[str]) -> list[Task]:
        """What torch.compile compiles; none in a dry run, where it would be for another processor."""
        if self._shift:
            return []
        found: list[Task] = []
        for part in parts:
            if part in ("rows", "exactrows"):
                lengths = self.row_lengths if part == "rows" else self.exact_lengths
                for dtype in self.dtypes:
                    n = self.elements(dtype)
                    found += [sum_task(dtype, (n // length, length), 1) for length in lengths(dtype)]
                    found += [sum_task(dtype, shape, axis) for _, shape, axis in self.along(n)]
            if part == "norms":
                found += [
                    norm_task(operation, dtype, n)
                    for dtype in self.dtypes for operation in NORMS for n in self.norm_sizes(dtype)
                ]  # fmt: skip
            if part == "rowscans":
                for dtype, out in self.rowscan_pairs:
                    n = self.scanned(dtype)
                    found += [
                        Task("cumsum", dtype, out, (n // length, length), 1)
                        for length in self.rowscan_lengths(dtype)
                    ]
            if part == "trianglescans":
                for dtype, out in self.triangle_pairs:
                    n = self.scanned(dtype)
                    found += [
                        Task("cumsum", dtype, out, (n // length, length), 1)
                        for length in self.triangle_lengths(dtype) if length in COMPILED_LENGTHS
                    ]  # fmt: skip
            if part == "columnscans":
                for dtype in self.dtypes:
                    n = self.scanned(dtype)
                    found += [Task("cumsum", dtype, dtype, shape, axis) for _, shape, axis in self.along(n)]
        return found


def sum_result(dtype: str) -> str:
    return "float64" if dtype == "float64" else "float32"


def sum_task(dtype: str, shape: tuple[int, ...], axis: int) -> Task:
    return Task("sum", dtype, sum_result(dtype), shape, axis)


def norm_task(operation: str, dtype: str, n: int) -> Task:
    return Task(operation, dtype, sum_result(dtype), (2, n) if operation == "dot" else (n,), 0)


def is_power(length: float) -> bool:
    return length >= 1 and math.log2(length).is_integer()
