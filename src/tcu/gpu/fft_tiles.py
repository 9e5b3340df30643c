"""How blocks share the numbers of a pass of fast Fourier transforms: tiles of a few columns, or clusters of blocks."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tcu.gpu.device import CLUSTERED, MOST_OF_CLUSTER, REGISTERS, Gpu
from tcu.gpu.fft_step import FftStep, pair_bytes
from tcu.plan.fft import FftPlan

__all__ = ["Tile", "cluster_of", "has_room", "tile_of"]

_BANKS = 128
"""Bytes of a row of shared memory's banks."""
_TILE = {"binary16": 8192, "binary32": 4096, "binary64": 2048}
"""Numbers of a block, unless its columns would be shorter than a few sectors of memory: four blocks and more on a multiprocessor."""
_MOST = {"binary16": 1 << 15, "binary32": 1 << 14, "binary64": 1 << 13}
"""Numbers of a block, at most: one block on a multiprocessor."""
_SECTOR = 32
"""Bytes of neighbouring columns, at least: of 16, as two blocks write parts of a sector, passes took 2 to 3 times as long (H200)."""
_NEIGHBOURS = 16
"""Columns of a block, if two blocks on a multiprocessor have room for them."""
_STATIC = 8192
"""Bytes of shared memory that a block takes besides, at most."""


@dataclass(frozen=True)
class Tile:
    """What a block has in hand."""

    columns: int
    threads: int
    resident: int
    """Blocks on a multiprocessor."""
    pitch: int
    shared: int
    in_parts: bool
    """Whether real and imaginary parts take turns in shared memory."""
    cluster: int = 1
    """Blocks that share a transform."""
    side: int = 1
    """Transforms in each of the columns."""

    @property
    def width(self) -> int:
        """Transforms of a block."""
        return self.columns * self.side

    def of(self, step: FftStep) -> int:
        """Tiles of a block of columns."""
        return -(-step.columns // self.width)

    def by(self, threads: int, step: FftStep, plan: FftPlan) -> Tile:
        """The same, of fewer threads."""
        if threads == self.threads:
            return self
        own = step.each.length * self.columns // threads
        return replace(self, threads=threads, resident=_resident(step, own, threads, plan))


def tile_of(step: FftStep, plan: FftPlan, gpu: Gpu) -> Tile:
    each, side = step.each, step.side
    # Of binary16, the numbers of both lanes.
    whole = 8 if step.of_lanes else pair_bytes(plan.work)
    cluster = cluster_of(step, gpu)
    if cluster > 1:
        first = each.radices[0]
        pitch, shared = _places(each.length // first, first // cluster, whole, by_column=True)
        threads, resident = _threads(step, each.length // cluster, plan)
        return Tile(1, threads, resident, pitch, shared, in_parts=False, cluster=cluster)
    count = _columns(step, plan, gpu)
    # Complex numbers, or where there is no room for them their parts, of each lane, which take turns.
    sizes = (whole,) if step.writes.kind == "HALVES" else (whole, 2) if step.of_lanes else (whole, whole // 2)
    exchanges = len(each.radices) > 1 or step.writes.kind == "HALVES"
    while True:
        for size in sizes:
            pitch, shared = _places(each.length, count // side, size, by_column=step.by_column)
            shared = shared if exchanges else 0
            if shared + _STATIC <= gpu.shared_memory:
                threads, resident = _threads(step, each.length * count // side, plan)
                return Tile(count // side, threads, resident, pitch, shared, size != whole, side=side)
        count = max(side, count // 2)


def _columns(step: FftStep, plan: FftPlan, gpu: Gpu) -> int:
    """Of a block."""
    length, tile = step.each.length * (2 if step.halved else 1), _TILE[plan.work]
    most = 1 << max(1, _MOST[plan.work] // length).bit_length() - 1
    sides = ((step.reads, step.rows_in), (step.writes, step.rows_out))
    # Bytes of neighbouring columns' numbers; 0 where a column's numbers are neighbours.
    narrow = min((pair_bytes(lines.format) for lines, in_rows in sides if not in_rows), default=0)
    count = 1 << max(1, tile // length).bit_length() - 1

    def tiles(count: int) -> int:
        return -(-step.columns // count) * step.blocks * step.batches

    if narrow:
        least = min(_SECTOR // narrow, most)
        count = max(count, min(_NEIGHBOURS, most))
        while count > least and (count * length > 2 * tile or 2 * tiles(count) <= gpu.multiprocessors):
            count //= 2
        # So many that none are left over, if that is possible.
        fitting = range(min(count, _NEIGHBOURS), min(2 * count, 2 * tile // length + 1))
        count = min(
            (c for c in fitting if step.columns % c == 0 and c % step.side == 0),
            key=lambda c: abs(c - count),
            default=count,
        )
    # A few columns, or few transforms, are shared among more blocks.
    lines = step.blocks * step.batches * step.columns
    while count > 1 and (
        count // 2 >= step.columns or (not narrow and lines < count * 2 * gpu.multiprocessors)
    ):
        count //= 2
    return max(step.side, count)


def _threads(step: FftStep, numbers: int, plan: FftPlan) -> tuple[int, int]:
    """(threads of a block of so many numbers, blocks of a multiprocessor)."""
    # Numbers of a thread: of one of the longest butterflies, or of several; so that no thread is without.
    longest = max((1, *step.each.radices))
    own = longest * max(1, 16 // longest)
    threads = min(512 if plan.work == "binary64" else 1024, -(-numbers // own))
    return threads, _resident(step, own, threads, plan)


def _resident(step: FftStep, own: int, threads: int, plan: FftPlan) -> int:
    """Blocks of a multiprocessor whose threads have so many numbers each."""
    # Those of powers of two, of each lane, beside numbers: within 64, three passes of 2^24 took 511 us in place of 443 (H200).
    powers = step.of_lanes and step.ups.column
    registers = 128 if plan.work == "binary64" or own > 16 else 80 if powers else 64
    return max(1, REGISTERS // registers // threads)


def has_room(length: int, work: str, gpu: Gpu, *, parts: bool) -> bool:
    """Whether a block has room for a transform: for its complex numbers, or for their ``parts``, which take turns."""
    size = pair_bytes(work) // (2 if parts else 1)
    return (
        length <= _MOST[work] and _places(length, 1, size, by_column=True)[1] + _STATIC <= gpu.shared_memory
    )


def cluster_of(step: FftStep, gpu: Gpu) -> int:
    """Blocks that share a transform that one has no room for, if they can; else 1."""
    length = step.each.length
    if length <= _MOST["binary32"] or step.writes.format != "binary32" or gpu.compute_capability < CLUSTERED:
        return 1
    if not step.by_column or step.writes.kind == "HALVES":
        return 1
    first, size = step.each.radices[0], pair_bytes("binary32") // (2 if step.writes.kind == "REALS" else 1)
    blocks = [
        b for b in range(2, MOST_OF_CLUSTER + 1)
        if first % b == 0 and length // first % b == 0 and first // b * size >= _SECTOR and length // b <= 2 * _TILE["binary32"]
    ]  # fmt: skip
    return next((b for b in blocks if length // b <= _TILE["binary32"]), blocks[-1] if blocks else 1)


def _places(length: int, columns: int, size: int, *, by_column: bool) -> tuple[int, int]:
    """(places from column to column, bytes) of shared memory for numbers of ``size`` bytes."""
    if length % 2:
        return length, columns * length * size
    banks = _BANKS // size
    pitch = -(-(length + -(-length // banks)) // banks) * banks + banks // min(columns, banks)
    places = columns * pitch if by_column else length * columns + length * columns // banks + 1
    return pitch, places * size
