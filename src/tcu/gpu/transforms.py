"""Whole discrete Fourier transforms on a GPU: one launch a level, one pass over memory each.

What the memory must carry for n numbers on a unit of binary16, L levels, from
complex64 to complex64: 8n bytes read to find the scale, 12n by the first
level and by the last, 8n by each between them, which keep two planes of
binary16, and 8n for the largest table of twiddles.  For n = 2^24 and m = 256
(L = 6) that is 1.2 GB, 0.28 ms at the 4.3 TB/s that an H200 copies with; for
m = 4096 (L = 4) it is 0.94 GB, 0.22 ms.
"""

from __future__ import annotations

import ctypes
import math
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from tcu.formats import get_format
from tcu.gpu.arrays import DeviceArray, library_of
from tcu.gpu.device import Gpu, call, current, find_gpu
from tcu.gpu.kernels import Kernel
from tcu.gpu.launch import KernelChoice, KernelLaunch, bind
from tcu.gpu.structs import struct
from tcu.gpu.tables import DeviceTable
from tcu.gpu.tall import kernel_of
from tcu.plan.transform import Planes, Table, Transform
from tcu.units import Instruction

__all__ = [
    "LEVELS", "Largest", "LevelShape", "Memory", "between_levels", "bytes_moved", "fragments", "largest", "level_shape", "transform",
]  # fmt: skip

_VECTOR = 16
"""Bytes that a thread loads or stores in one go, at most."""
_ACCUMULATORS = 64
"""32-bit registers of a thread for sums, at most, where more than one tile of columns is in them."""
_WARPS_PER_MULTIPROCESSOR = 64
_WARP = 32
_SEARCHERS = 256
"""Threads of a block that looks for the largest magnitude."""
_MAX_ROWS = 1 << 31
"""Rows are counted in 32 bits."""
_INPUTS = {"binary16": ("to_binary16", "from_binary16"), "bfloat16": ("to_bfloat16", "from_bfloat16"),
           "tf32": ("to_tf32", "from_tf32"), "binary64": ("to_bits", "from_bits")}  # fmt: skip
"""How a number becomes an input of the unit, and back: functions of cuda/device/mma/narrow.cuh."""
_REALS = {4: "float", 8: "double"}

_prepared: WeakKeyDictionary[Transform, dict[tuple[Any, ...], _Launches | None]] = WeakKeyDictionary()
_lock = threading.Lock()


@dataclass(frozen=True)
class Memory:
    """How the numbers of transforms lie in memory."""

    layout: str
    """As in cuda/kernels/level.cu: INPUTS, REALS or PAIRS."""
    itemsize: int
    """Of an element: a real number, or an input of the unit."""
    member: int
    """From a transform to the next, in elements."""
    step: int
    """From a number to the next, in elements."""
    aligned: bool = True
    """Whether both planes begin at a multiple of 16 bytes."""

    @property
    def numbers(self) -> int:
        """That a thread moves in one go, where nothing else hinders."""
        pairs = self.layout == "PAIRS"
        most = _VECTOR // (self.itemsize * (2 if pairs else 1))
        while most > 1 and not self._together(most * (2 if pairs else 1)):
            most //= 2
        return max(1, most)

    def _together(self, elements: int) -> bool:
        close = self.layout == "PAIRS" or self.step == 1
        return close and self.aligned and self.member % elements == 0


Numbers = struct("Numbers", """
    void* real;  // null: zeros
    void* imaginary;
    i64 member;  // from a transform to the next, in elements
    i64 step;    // from a number to the next
""")  # fmt: skip


_LEVEL = """
    Numbers source, target;
    const WORD* matrices;  // [matrix][part][tile of columns][step of k][lane][word of B]
    const REAL* twiddles;  // [plane][rows / done][LENGTH]
    const u32* largest;    // the bits of the largest magnitude in each transform
    i64 members;           // transforms
    i64 rows;              // of LENGTH, in each
    i64 padded;            // the same with zeros up to a multiple of GROUP
    i64 done;              // the lengths of the levels before, multiplied
    i64 top;               // magnitudes are scaled below 2^top
    REAL back;             // the last factors, one after the other
    REAL factor;
"""
TransformLevel = struct("TransformLevel", _LEVEL, REAL=ctypes.c_double)
LEVELS = {4: struct("TransformLevel", _LEVEL, REAL=ctypes.c_float), 8: TransformLevel}
"""By the size of a real number."""
Largest = struct("Largest", """
    const SOURCE* planes[2];  // null: zeros
    i64 member;               // from a transform to the next, in elements
    i64 step;                 // from an element to the next
    i64 members;              // transforms
    i64 elements;             // in each plane of each
    i64 share;                // elements that one warp takes, a multiple of WARP · LOADS
    u32* largest;             // for each transform; zeros before the launch
""")  # fmt: skip


@dataclass(frozen=True)
class LevelShape:
    """How one level is cut into blocks, and what level.cu leaves open."""

    macros: Mapping[str, str]
    tiles: int
    """Of columns, with those of zeros."""
    blocks: int
    threads: int
    shared: int


def transform(
    plan: Transform, source: Planes, target: Planes, factor: float, instruction: Instruction
) -> bool:
    """All levels of transforms, with the bits of the steps one by one; False where it takes the steps.

    Parameters
    ----------
    plan:
        What to do.
    source, target:
        Real and imaginary parts, (transforms, numbers) of float32 or float64
        of one library on one GPU; None for zeros, in the source.  The target's are
        planes without gaps, or the parts of complex numbers without gaps.
    factor:
        Of the result.
    instruction:
        A mma row of the catalogue with equal input formats.
    """
    given = [x for x in (*source, *target) if x is not None]
    library = library_of(given[0])
    if library is None or any(library_of(x) is not library for x in given):
        return False
    gpu = find_gpu(library.ordinal("x", given[0]))
    with current(gpu):
        stream = library.current_stream(gpu.ordinal)
        views = [None if x is None else library.view("x", x, stream) for x in (*source, *target)]
        reads, writes = _memory_of(views[0], views[1]), _memory_of(views[2], views[3])
        if reads is None or writes is None:
            return False
        batch = target[0].shape[0]
        launches = _launches(plan, batch, reads, writes, instruction, gpu)
        if launches is None:
            return False
        _scratch, address = library.empty(given[0], (launches.scratch,), np.dtype(np.uint8), gpu.ordinal)
        launches([0 if view is None else view.address for view in views], address, factor, stream)
    return True


def largest(z: Any) -> npt.NDArray[Any] | None:
    """The largest magnitude in each transform of planes (2, transforms, numbers) of float32, on the host."""
    library = library_of(z)
    if library is None or z.dtype != np.float32 or not z.size:
        return None
    gpu = find_gpu(library.ordinal("z", z))
    with current(gpu):
        stream = library.current_stream(gpu.ordinal)
        planes = [library.view("z", plane, stream) for plane in (z[0], z[1])]
        memory = _memory_of(*planes)
        if memory is None:
            return None
        batch, n = z.shape[1:]
        kept, address = library.empty(z, (batch,), np.dtype(np.uint32), gpu.ordinal)
        search = _Search(memory, batch, n, gpu)
        search(planes[0].address, planes[1].address, address, stream)
        found = np.empty(batch, np.float32)
        call("cuStreamSynchronize", stream)
        call("cuMemcpyDtoH", found.ctypes.data, address, found.nbytes)
        del kept
    return found


def _memory_of(real: DeviceArray | None, imaginary: DeviceArray | None) -> Memory | None:
    """How both planes lie; None where they differ, or hold anything but real numbers."""
    first = real or imaginary
    if first is None or first.dtype not in (np.float32, np.float64):
        return None
    size = first.dtype.itemsize
    batch, n = first.shape
    # The stride of a dimension that has one element says nothing.
    member, step = (
        stride if extent > 1 else 0 for extent, stride in zip((batch, n), first.strides, strict=True)
    )
    if real is not None and imaginary is not None:
        if (real.dtype, real.shape) != (imaginary.dtype, imaginary.shape):
            return None
        if batch * n > 1 and real.strides != imaginary.strides:
            return None
        low = min(real.address, imaginary.address)
        if abs(real.address - imaginary.address) == size and step == 2 and low % (2 * size) == 0:
            return Memory("PAIRS", size, member, 2, low % _VECTOR == 0)
    aligned = all(x is None or x.address % _VECTOR == 0 for x in (real, imaginary))
    return Memory("REALS", size, member, step, aligned)


def fragments(matrices: npt.NDArray[Any], kernel: Kernel, tiles: int) -> npt.NDArray[Any]:
    """Right operands in the order in which the threads of a warp take them.

    (kinds, parts, side, side) becomes (kinds, parts, tiles of columns, steps
    of k, lanes, words), with zeros around.
    """
    fmt = get_format(kernel.a)
    codes = np.ascontiguousarray(matrices.astype(fmt.dtype, copy=False)).view(fmt.code_dtype)
    kinds, parts, side, _ = codes.shape
    steps = -(-side // kernel.k)
    per_word = max(1, 4 // fmt.dtype.itemsize)
    columns = kernel.shape[1]
    padded = np.zeros((kinds, parts, steps * kernel.k, tiles * columns), codes.dtype)
    padded[:, :, :side, :side] = codes
    # k is (step, word, lane % 4, place in the word), a column (tile, lane / 4).
    words = padded.reshape(kinds, parts, steps, -1, 4, per_word, tiles, columns)
    return np.ascontiguousarray(words.transpose(0, 1, 6, 2, 7, 4, 3, 5))


def level_shape(
    kernel: Kernel, plan: Transform, number: int, batch: int, source: Memory, target: Memory,
    multiprocessors: int, shared_limit: int,
) -> LevelShape | None:  # fmt: skip
    """How a level is done; None where a block would need more shared memory than there is."""
    level = plan.levels[number]
    tile_m, tile_n, tile_k = kernel.shape
    embedded = plan.product == "embedded"
    word = 8 if kernel.a == "binary64" else 4
    per_word = word // get_format(kernel.a).dtype.itemsize
    real = plan.work.itemsize
    side = level.group * level.length * (2 if embedded else 1)
    operands = {"four": 2, "three": 3, "embedded": 1}[plan.product]
    k_words = -(-side // tile_k) * tile_k // per_word

    def shared_of(rows: int) -> int:
        words = operands * plan.parts * k_words * (rows + 32 // word) * word
        return words + (side if embedded else 2 * side) * (rows + 16 // real) * real

    unit_rows = batch * level.padded // level.group
    rows = 128 if side <= 16 else 64 if side <= 128 else 32
    # Two blocks at least on a multiprocessor, one of which loads while the other multiplies; and work for all of these.
    while rows > 16 and (2 * shared_of(rows) > shared_limit or -(-unit_rows // rows) < multiprocessors):
        rows //= 2
    shared = shared_of(rows)
    if shared > shared_limit:
        return None
    tile_rows = rows * level.group
    terms = plan.parts * (plan.parts + 1) // 2
    products = 4 if plan.product == "four" else operands
    sums = products * terms * tile_m * tile_n // _WARP * get_format(kernel.output).dtype.itemsize // 4
    tiles = -(-side // tile_n)
    width = 1
    while 2 * width <= tiles and 2 * width * sums <= _ACCUMULATORS:
        width *= 2
    full = level.padded == level.rows
    run = math.gcd(level.done, tile_rows)
    loads = stores = 1
    if full:
        loads = math.gcd(source.numbers, level.rows, tile_rows)
        stores = math.gcd(target.numbers, level.rows, tile_rows * level.length)
        while not (run % stores == 0 or (run == level.done and run * level.length % stores == 0)):
            stores //= 2
    threads = 128 if rows * side <= 2048 else 256
    first, last = number == 0, level.twiddles is None
    input_type = kernel.macros["INPUT"]
    narrow, widen = _INPUTS[kernel.a]
    own: dict[str, Any] = {
        "LENGTH": level.length, "GROUP": level.group, "ROWS": rows, "PRODUCT": plan.product.upper(),
        "PARTS": plan.parts, "PART_BITS": plan.part_bits, "REAL": _REALS[real], "NARROW": narrow, "WIDEN": widen,
        "SOURCE": input_type if source.layout == "INPUTS" else _REALS[source.itemsize],
        "SOURCE_LAYOUT": source.layout,
        "TARGET": input_type if target.layout == "INPUTS" else _REALS[target.itemsize],
        "TARGET_LAYOUT": target.layout,
        "LOADS": loads, "STORES": stores, "WIDTH": width, "RUN": run, "DONE_IS_RUN": int(run == level.done),
        "WHOLE": int(full and level.rows % tile_rows == 0), "SHARED": shared, "SCALED": int(plan.top is not None),
        "FIRST": int(first), "LAST": int(last), "THREADS": threads,
    }  # fmt: skip
    macros = {**kernel.macros, **{name: str(value) for name, value in own.items()}}
    return LevelShape(
        macros, -(-tiles // width) * width, -(-batch * level.padded // tile_rows), threads, shared
    )


def between_levels(plan: Transform, kernel: Kernel) -> Memory:
    """How numbers lie between two levels: as the unit's inputs, where rounding to them is the next thing they meet."""
    narrow = get_format(kernel.a).dtype.itemsize < plan.work.itemsize
    if narrow and plan.parts == 1 and plan.product != "three":
        return Memory("INPUTS", get_format(kernel.a).dtype.itemsize, plan.length, 1)
    return Memory("REALS", plan.work.itemsize, plan.length, 1)


@lru_cache(maxsize=64)
def _twiddles(table: Table, gpu: Gpu) -> DeviceTable:
    return DeviceTable(np.ascontiguousarray(table()), gpu)


@lru_cache(maxsize=64)
def _matrices(table: Table, kernel: Kernel, tiles: int, gpu: Gpu) -> DeviceTable:
    return DeviceTable(fragments(table(), kernel, tiles), gpu)


class _Launches:
    """The launches of one transform: everything but the addresses."""

    def __init__(
        self, plan: Transform, batch: int, source: Memory, target: Memory, kernel: Kernel, gpu: Gpu,
        shapes: list[LevelShape],
    ) -> None:  # fmt: skip
        between = between_levels(plan, kernel)
        planes = 2 * batch * plan.length * between.itemsize
        self._plane = planes // 2
        # From the scratch memory's address on: planes of numbers between levels, taken in turn, and the search's results.
        self._places = [-(-planes // _VECTOR) * _VECTOR * i for i in range(min(2, len(plan.levels) - 1))]
        self.scratch = -(-planes // _VECTOR) * _VECTOR * len(self._places) + 4 * batch
        self._largest: _Search | None = None
        if plan.top is not None:
            self._largest = _Search(source, batch, plan.length, gpu)
        self._tables: list[DeviceTable] = []
        self._levels: list[Any] = []
        self._kernels: list[KernelLaunch] = []
        for number, (level, shape) in enumerate(zip(plan.levels, shapes, strict=True)):
            tables = [_matrices(level.matrices, kernel, shape.tiles, gpu)]
            if level.twiddles is not None:
                tables.append(_twiddles(level.twiddles, gpu))
            self._tables += tables
            reads = source if number == 0 else between
            writes = target if level.twiddles is None else between
            problem = LEVELS[plan.work.itemsize](
                Numbers(0, 0, reads.member, reads.step), Numbers(0, 0, writes.member, writes.step),
                tables[0].address, tables[-1].address, 0, batch, level.rows, level.padded, level.done,
                plan.top or 0, plan.back, 1.0,
            )  # fmt: skip
            self._levels.append(problem)
            choice = KernelChoice(
                "level", shape.macros, shape.blocks, shape.threads, problem, entry="transform_level", shared=shape.shared
            )  # fmt: skip
            self._kernels.append(bind(choice, gpu))
        self._batch = batch
        self._lock = threading.Lock()

    def __call__(self, addresses: list[int], scratch: int, factor: float, stream: int) -> None:
        """Put them on the stream.  addresses: of the source's planes and the target's."""
        found = 0
        if self._largest is not None:
            found = scratch + self.scratch - 4 * self._batch
            self._largest(addresses[0], addresses[1], found, stream)
        planes = [
            addresses[:2],
            *((scratch + place, scratch + place + self._plane) for place in self._places),
        ]
        with self._lock:  # the driver copies the parameters before the launch returns
            for number, (level, kernel) in enumerate(zip(self._levels, self._kernels, strict=True)):
                last = number + 1 == len(self._levels)
                reads = planes[0] if number == 0 else planes[1 + (number - 1) % 2]
                writes = addresses[2:] if last else planes[1 + number % 2]
                level.source.real, level.source.imaginary = reads
                level.target.real, level.target.imaginary = writes
                level.largest, level.factor = found, factor
                kernel(stream)


class _Search:
    """The search for the largest magnitude of each transform."""

    def __init__(self, memory: Memory, batch: int, n: int, gpu: Gpu) -> None:
        self._pairs = memory.layout == "PAIRS"
        elements, step = (2 * n, 1) if self._pairs else (n, memory.step)
        loads = math.gcd(memory.numbers * elements // n, elements)
        # As many warps as fit the GPU at a time, but each with a few loads for every lane.
        enough = gpu.multiprocessors * _WARPS_PER_MULTIPROCESSOR
        least = 8 * loads * _WARP
        share = max(least, -(-elements * batch // enough // least) * least)
        self._macros = {"SOURCE": _REALS[memory.itemsize], "LOADS": loads, "THREADS": _SEARCHERS}
        self._gpu, self._batch, self._problem = gpu, batch, (memory.member, step, batch, elements, share)
        self._blocks = -(-batch * -(-elements // share) // (_SEARCHERS // _WARP))

    def __call__(self, real: int, imaginary: int, largest: int, stream: int) -> None:
        """Put it on the stream; results from address ``largest`` on."""
        if self._pairs:
            real, imaginary = min(real, imaginary), 0
        call("cuMemsetD32Async", largest, 0, self._batch, stream)
        problem = Largest((real, imaginary), *self._problem, largest)
        bind(KernelChoice("largest", self._macros, self._blocks, _SEARCHERS, problem), self._gpu)(stream)


def _launches(
    plan: Transform, batch: int, source: Memory, target: Memory, instruction: Instruction, gpu: Gpu
) -> _Launches | None:
    key = (batch, source, target, instruction, gpu)
    with _lock:
        known = _prepared.setdefault(plan, {})
        if key not in known:
            known[key] = _prepare(plan, batch, source, target, instruction, gpu)
        return known[key]


def _prepare(
    plan: Transform, batch: int, source: Memory, target: Memory, instruction: Instruction, gpu: Gpu
) -> _Launches | None:
    kernel = kernel_of(instruction, gpu)
    limit = gpu.shared_memory
    between = between_levels(plan, kernel)
    shapes = []
    for number, level in enumerate(plan.levels):
        reads = source if number == 0 else between
        writes = target if level.twiddles is None else between
        shape = level_shape(kernel, plan, number, batch, reads, writes, gpu.multiprocessors, limit)
        if shape is None or batch * level.padded >= _MAX_ROWS:
            return None
        shapes.append(shape)
    return _Launches(plan, batch, source, target, kernel, gpu, shapes)


def bytes_moved(plan: Transform, batch: int, real: int, kernel: Kernel) -> int:
    """What the launches must read and write of memory, for complex numbers of ``real`` bytes a part.

    Every table of twiddles once, however many transforms share it.
    """
    between = between_levels(plan, kernel).itemsize
    numbers = batch * plan.length
    search = 0 if plan.top is None else 2 * real * numbers
    levels = 2 * (real + plan.work.itemsize + 2 * (len(plan.levels) - 1) * between) * numbers
    tables = sum(
        2 * plan.work.itemsize * level.left * level.length for level in plan.levels if level.twiddles
    )
    return search + levels + tables
