"""Products of matrices on sm_90 at the speed of its matrix unit, by the plan of ``tcu.plan.matmul``.

The copy engine brings tiles of A and B, wgmma multiplies them.  It takes lines
that begin at multiples of 16 bytes, along k or, of 16-bit formats, across it;
what lies otherwise is copied first.
"""

from __future__ import annotations

import ctypes
import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from tcu.formats import get_format
from tcu.gpu.device import Gpu
from tcu.gpu.factors import RESULTS, set_factors
from tcu.gpu.kernels import KERNELS, Kernel
from tcu.gpu.launch import KernelChoice, bind
from tcu.gpu.structs import struct
from tcu.gpu.tensor_copy import LINE, UNIT, Lines, Room, Side, Tensor, map_at, side_of
from tcu.gpu.workspace import workspace
from tcu.plan.matmul import MatmulPlan

__all__ = [
    "MatmulLaunch",
    "MatmulRecipe",
    "Operands",
    "double_recipe",
    "has_double",
    "matmul_recipe",
    "wgmma",
]

SWAPPED_ROWS = 128
"""Rows of a product up to which its columns take their place, 64 of them a block."""
_MAP_TYPES = {"binary16": "FLOAT16", "bfloat16": "BFLOAT16", "tf32": "TFLOAT32", "binary64": "FLOAT64"}
"""Of a tensor map; the engine rounds numbers of binary32 to TF32 if it is told that they are. All others are bytes."""

Product = struct("Product", """
    load::TensorMap a, b;
    finish::Factors factors;
    void* c;
    i64 c_row_stride;  // bytes
    i64 c_batch_stride;
    int rows, columns, k_stages;  // of C, and of the ring for all of k
    int aligned;  // whether 16 bytes of C may be written at once
    int a_batched, b_batched;  // 0: the same matrix for the whole batch
    u32 tiles, tile_rows, tile_columns;  // of clusters
    u32 parts, slots;  // blocks that share a tile along k, and places for their results
    u32 segments;  // of the rows, each with a matrix of its own; else 0
    void* room;
    void* flags;  // zeros between launches
    const i64* offsets;  // of segments
    u64 padding[3];
    load::TensorMap of_results;  // if the copy engine writes them
""")  # fmt: skip

COLUMNS = (8, 16, 32, 64, 128, 208, 256)
"""Of a tile: the n of wgmma."""


def wgmma() -> str:
    """A function for each n of wgmma.mma_async, chosen by the registers of D."""
    wide, halves = ("".join(_multiply(n, n // per) for n in COLUMNS) for per in (2, 4))
    return f"#if HALVES\n{halves}#else\n{wide}#endif\n"


def _multiply(n: int, words: int) -> str:
    registers = ", ".join(f"%{i}" for i in range(words))
    outputs = ", ".join(f'"+" WGMMA_REGISTER(d[{i}])' for i in range(words))
    return f"""
__device__ inline void multiply(DWord (&d)[{words}], u64 a, u64 b, int keeps) {{
    asm volatile("{{ .reg .pred p; setp.ne.b32 p, %{words + 2}, 0;\\n"
                 "wgmma.mma_async.sync.aligned.m64n{n}" WGMMA_TYPES " {{{registers}}}, %{words}, %{words + 1}, p"
                 WGMMA_SCALES WGMMA_MAJOR "; }}"
                 : {outputs}
                 : "l"(a), "l"(b), "r"(keeps));
}}
"""


class Operands(NamedTuple):
    """A batch of products, but for the addresses."""

    rows: int
    columns: int
    k: int
    batch: int
    a: Lines
    b: Lines
    c_row: int
    """Elements from one row of C to the next; columns are neighbours."""
    c_batch: int
    c_aligned: bool
    segments: int = 0
    """Of the rows, if each has a matrix of its own: B is the batch of these."""


@dataclass(frozen=True)
class MatmulRecipe:
    """Launches for products of one kind, without a GPU."""

    swapped: bool
    """Whether the columns of the product take the place of rows."""
    sides: tuple[Side, Side]
    """Of the operand whose lines are rows of tiles, and of the other one."""
    product: KernelChoice
    room: int
    """Bytes that a call gives, from a multiple of 128 on."""
    shared_room: int
    """Where in it blocks hand each other sums."""
    flags: int
    """Words of 4 bytes, zeros between launches."""
    results: Tensor | None = None
    """C as the copy engine writes it; None: threads write it."""


class Tiling(NamedTuple):
    """How a product is cut: of speed alone, never of bits."""

    swapped: bool
    """Whether the columns of the product are rows of tiles: matmul_skinny.cu, else matmul.cu."""
    consumers: int
    """Warpgroups, each of 64 rows of a tile."""
    columns: int
    """Of a tile."""
    cluster: int
    """Blocks that share tiles of one operand."""
    resident: int
    """Blocks on a multiprocessor."""
    kept: bool = False
    """Whether B is one column of tiles and stays in shared memory."""
    in_a_row: int = 1
    """Tiles one after the other that a block takes at a time."""
    buffers: int = 1
    """In which each warp stages results."""


_CHAINED = ((2, 256, 1.0), (2, 208, 0.98), (2, 128, 0.9), (2, 64, 0.7))
_CHUNKED = ((2, 128, 1.0), (2, 208, 0.95), (2, 64, 0.7))
"""(warpgroups, columns of a tile, share of cuBLAS's speed while all multiprocessors have a tile), of one chain and of chunks.

H200, one chain of float16 and of e4m3, beside the fastest that cuBLASLt proposes: two warpgroups of 64 x 256 (pairs of
blocks share tiles of B) 1.00 and 0.98 at 4096 x 4096 x 4096, of 64 x 208 0.97 and 0.96; at 4096 x 11008 x 4096, where 208
columns come out evenly, 0.91 and 0.92, 0.97 and 0.93.
Chunks of 256 of float16, 4096 x 4096 x 4096: two warpgroups of 64 x 128, whose chains run into each other, 0.965;
of 64 x 208, where registers hold one chain at a time, 0.925; three of 64 x 128 0.81; two of 64 x 256, a quarter of whose
sums waited in shared memory, 0.84.  4096 x 11008 x 4096: 1.03, 0.97, 0.94, 0.85; 1024 x 4096 x 4096: 0.93, 0.62, 0.68,
0.865.  e4m3, chunks of 128: 0.96, 0.925, 0.86, 0.67; 1.04, 0.985, 0.97, 0.655; 0.92, 0.62, 0.705, 0.71.  What is left is how
evenly the tiles come out.  The GPU runs at its power limit: the same launch varies by 10 % with what ran before.
Blocks that share tiles of B: one chain of 256 columns 1.03 in place of 1.00, chunks 0.95 in place of 0.96.
Warpgroups that start the MMAs of a stage in turn, so that one adds up while the other multiplies: 64 x 208 0.94 in place
of 0.925 (float16), 0.91 in place of 0.925 (e4m3); chains that run into each other the same or less.
Results that the copy engine writes, in place of threads: chunks 0.01 to 0.02 faster, one chain 0 to 0.05.
"""


def tiling(rows: int, columns: int, chunked: bool, multiprocessors: int, segments: int = 0) -> Tiling:
    """For a product of that shape; ``segments``: of its rows, if each has a matrix of its own."""
    if segments:
        return _segment_tiling(rows, columns, chunked, multiprocessors, segments)
    if rows <= SWAPPED_ROWS:
        # 128 rows by 4096 (K = 4096): two blocks that share the weights 1.01 of cuBLAS's speed, blocks alone 0.65.
        # 64 rows: pairs 0.92 (float16, one chain) and 0.92 (e4m3), blocks alone 0.99 and 1.01 (H200).
        pair = rows > 64 and columns <= 64 * multiprocessors // 2
        return Tiling(True, 1, _width(-(-rows // 2) if pair else rows), 2 if pair else 1, 1)
    if columns <= 64:
        return Tiling(False, 2, _width(columns), 1, 2)
    consumers, across = _fastest(_CHUNKED if chunked else _CHAINED, rows, columns, multiprocessors)
    return Tiling(False, consumers, across, 2 if across == 256 and not chunked else 1, 1)


_KEPT = ((48, 3, 1, 1, 2), (64, 1, 2, 1, 4), (128, 2, 1, 2, 4), (256, 1, 1, 2, 2))
"""(columns up to which, warpgroups, blocks of a multiprocessor, tiles at a time, buffers of a warp) of a tall product whose B
stays in shared memory: the first that has room.

What such products take is decided by the order in which reads and writes come to memory.  H200, float16 to binary32, share
of the speed of the fastest that cuBLASLt proposes (PyTorch's choice has 0.93 to 0.98 of it), 1,048,576 x 32 (K = 64), x 64 x
64, x 128 x 128, x 256 x 256: these 1.00, 0.97, 1.00, 1.01.  Tiles of 128 rows whose threads write and whose B comes with each
tile, 64, 128 and 256 columns: 0.90, 0.95, 0.93, with any number of blocks, stages and hints to the second cache.  32 columns:
one warpgroup in each of two blocks 0.99; 64 columns: three warpgroups 0.96, two 0.96, four blocks 0.97, 3 to 12 stages in
place of as many as there is room for 0.96 to 0.97; 128 columns: three warpgroups 0.99, two blocks 0.995.  Without the marks
of device/load/tensor_copy.cuh, 256 columns 0.98, a tile at a time 0.96, three 0.96, two warpgroups 0.95; boxes of 64 rows,
for which a warpgroup meets, in place of a warp's 16: the same to 0.01 less.
"""
_LEAST_RING = 4
"""Stages of A that a block asks for ahead, beside a B that stays."""


def kept_tiling(rows: int, columns: int, stages_k: int, multiprocessors: int) -> Tiling | None:
    """For a product of one chain by a B of so many lines of k; None if B is too large, or the rows are few."""
    for widest, consumers, resident, in_a_row, buffers in _KEPT:
        cut = Tiling(False, consumers, _width(columns), 1, resident, True, in_a_row, buffers)
        # Fewer rows leave multiprocessors idle at the end.
        high = rows >= 2 * 64 * consumers * resident * in_a_row * multiprocessors
        of_b = stages_k * -(-cut.columns // 64) * 64 * LINE
        room = _SHARED // resident - _RESERVED - _ALIGNED - _staged(cut) - of_b
        if columns <= widest and high and room >= _LEAST_RING * 64 * consumers * LINE:
            return cut
    return None


def _staged(cut: Tiling) -> int:
    """Bytes of results on their way to memory."""
    return 64 * cut.consumers * LINE * cut.buffers


def _fastest(
    candidates: Sequence[tuple[int, int, float]],
    rows: int,
    columns: int,
    multiprocessors: int,
    segments: int = 1,
) -> tuple[int, int]:
    """Warpgroups and columns of the tiles by which so many rows in each segment take the least time."""

    def speed(candidate: tuple[int, int, float]) -> float:
        consumers, across, share = candidate
        height = 64 * consumers
        turns = -(-(segments * -(-rows // height) * -(-columns // across)) // multiprocessors)
        return share / (turns * height * across)

    consumers, across, _ = max(candidates, key=speed)
    return consumers, across


def _segment_tiling(rows: int, columns: int, chunked: bool, multiprocessors: int, segments: int) -> Tiling:
    """By the mean length of segments: the host does not know more of them.

    H200, bfloat16, us: 64 segments of 8 rows (N = 1408, K = 2048) tiles of 16 rows 90, of 128 128; 64 of 128 rows, tiles of
    128 x 128 114, weights as rows of tiles 129; 8 of 1024 rows (4096, 4096) two warpgroups 398, three 428.  torch's grouped
    product: 120, 123, 375.
    """
    mean = -(-rows // segments)
    if mean <= SWAPPED_ROWS // 2:
        across = _width(mean + 2 * math.isqrt(mean))  # of random lengths, most fit
        return Tiling(True, 1, across, 1, 2 if across <= 64 else 1)
    if columns <= 64:
        return Tiling(False, 2, _width(columns), 1, 2)
    # Beside the sums of chunks and of a chain in 208 columns there are no registers for the segments of a warp.
    candidates = [each for each in _CHUNKED if each[1] <= 128] if chunked else _CHAINED
    return Tiling(False, *_fastest(candidates, mean, columns, multiprocessors, segments), 1, 1)


def _any_major(rows: int, columns: int, chunked: bool) -> Tiling:
    """Where k is not contiguous in an operand: the tiles whose bits were compared on an H200."""
    if rows <= SWAPPED_ROWS:
        across = _width(rows)
        return Tiling(True, 1, across, 1, 2 if across <= 64 else 1)
    return Tiling(False, 2, min(_width(columns), 128) if chunked else _width(columns), 1, 1)


def _width(columns: int) -> int:
    return next((n for n in COLUMNS if n >= columns), COLUMNS[-1])


_SHARED = 227 * 1024
"""Bytes that a block may have."""
_ALIGNED = 1024
"""Bytes to which what the copy engine swizzles is aligned."""
_RESERVED = _ALIGNED + 1024
"""Bytes that the ring's alignment costs, and that the system takes of each block."""
_GROUP = 16
_LINKED = {1: 2, 4: 8}
_LINKED_FEW = {1: 4, 4: 2}
"""By the stages of a chunk: chains that run into each other, of tiles of many rows and of few.

64 rows by 4096 (K = 4096) on an H200, over cuBLAS: float16 0.88 without, 0.97 by two and by four; e4m3 0.78 without, 0.91
by two, 0.93 by four.  1024 and 4096 rows by 4096, two warpgroups of 64 x 128: float16 0.90 and 0.92 without, 0.914 and 0.95
by two, 0.92 and 0.96 by four, 0.929 and 0.965 by eight; e4m3 0.857 and 0.856 without, 0.922 and 0.96 by two, 0.907 and 0.93
by four, 0.92 and 0.945 by eight.  Without an end, each chain begun when the one before has ended and before that one's sums
are added up, so that a loop can hold them: float16 0.003, e4m3 0.035 slower.
"""
_REGISTERS = {(1, 1): 232, (1, 2): 200, (2, 1): 232, (3, 1): 160, (2, 2): 112}
"""Of a thread that multiplies, by the warpgroups of a block and the blocks of a multiprocessor."""
_BESIDE_SUMS = 40
"""Of them, for everything but sums."""


def _linked(cut: Tiling, chunk: int, halves: bool) -> int:
    """Chains that run into each other; 0 if a thread's registers do not hold two of them beside the sums of all before."""
    if cut.swapped:
        return _LINKED_FEW.get(chunk, 0)
    sums, chain = cut.columns // 2, cut.columns // (4 if halves else 2)
    room = _REGISTERS[cut.consumers, cut.resident] - _BESIDE_SUMS
    return _LINKED.get(chunk, 0) if sums + 2 * chain <= room else 0


def matmul_recipe(
    plan: MatmulPlan,
    kernel: Kernel,
    x: Operands,
    factors: bool,
    multiprocessors: int,
    cut: Tiling | None = None,
) -> MatmulRecipe:
    """Launches of wgmma for a plan."""
    size = get_format(kernel.a).dtype.itemsize
    stages_k = -(-(x.k or UNIT // size) * size // LINE)  # no k: zeros, of which both copies have so many
    chunk = plan.chunk * size // LINE
    chunked = chunk < stages_k and kernel.output != "s32"
    shared_b = not (chunked or x.segments or (x.batch > 1 and x.b.batch))
    if cut is None and shared_b:
        cut = kept_tiling(x.rows, x.columns, stages_k, multiprocessors)
    settled = cut is not None or x.segments > 0
    cut = cut or tiling(x.rows, x.columns, chunked, multiprocessors, x.segments)
    room = Room()
    kinds = [
        "FLOAT32" if name == "tf32" and plan.rounding == "cut" else _MAP_TYPES.get(name, "UINT8")
        for name in (kernel.a, kernel.b)
    ]
    given = ((x.a, x.rows, kinds[0]), (x.b, x.columns, kinds[1]))
    (first, rows, first_kind), (second, columns, second_kind) = given[::-1] if cut.swapped else given
    height = 64 * cut.consumers
    beside, below = (cut.cluster, 1) if cut.swapped else (1, cut.cluster)  # blocks of a cluster
    top = side_of(first, rows, x.k, x.batch, get_format(kernel.a), first_kind, height, room, beside)
    left = side_of(second, columns, x.k, x.batch, get_format(kernel.a), second_kind, cut.columns, room, below)
    if not (settled or (top.k_major and left.k_major)):
        return matmul_recipe(
            plan, kernel, x, factors, multiprocessors, _any_major(x.rows, x.columns, chunked)
        )
    tile_rows, tile_columns = -(-rows // (height * below)), -(-columns // (cut.columns * beside))
    count = tile_rows * tile_columns * x.batch
    if x.segments:  # at most
        lines = cut.columns if cut.swapped else height
        count = (tile_rows if cut.swapped else tile_columns) * (x.rows // lines + min(x.segments, x.rows))
    of_result = get_format(plan.result).dtype.itemsize
    problem = Product(
        c_row_stride=x.c_row * of_result, c_batch_stride=x.c_batch * of_result, rows=x.rows, columns=x.columns,
        k_stages=stages_k, a_batched=int(bool(first.batch)), b_batched=int(bool(second.batch)),
        aligned=int(x.c_aligned and all(step * of_result % UNIT == 0 for step in (x.c_row, x.c_batch, x.columns))),
        tiles=count, tile_rows=tile_rows, tile_columns=tile_columns, segments=x.segments,
    )  # fmt: skip
    of_b = (cut.columns if left.k_major else -(-cut.columns // 64) * 64) * LINE
    stage = height * LINE + UNIT + (0 if cut.kept else of_b)
    kept = stages_k if cut.kept else 0
    # A box of results has so many columns as a line: it must not reach into the next tile.
    whole = cut.kept or cut.columns * of_result % LINE == 0
    copied = whole and problem.aligned and plan.result != "binary64" and not (cut.swapped or x.segments)
    staged = 0 if cut.swapped else _staged(cut)
    aligned = _ALIGNED if copied else LINE  # the results
    room_of_ring = _SHARED // cut.resident - _RESERVED - staged - kept * of_b - (aligned if copied else 0)
    stages = min(room_of_ring // stage, 24)
    halves = kernel.output == "binary16"
    macros = {
        "CONSUMERS": cut.consumers, "COLUMNS": cut.columns, "STAGES": stages, "CHUNK": chunk if chunked else 0,
        "LINKED": _linked(cut, chunk, halves) if chunked else 0, "CLUSTER": cut.cluster, "SHARES_A": int(cut.swapped), "RESIDENT": cut.resident,
        "A_K": int(top.k_major), "B_K": int(left.k_major), "INPUT_BYTES": size, "RESULT": RESULTS[plan.result],
        "FACTORS": int(factors), "INTEGERS": int(kernel.output == "s32"), "HALVES": int(halves),
        "SEGMENTS": int(x.segments > 0), "KEPT_B": kept, **_names(kernel, cut.swapped, top, left),
    }  # fmt: skip
    ring = -(-(stages * stage + kept * of_b) // aligned) * aligned
    if not cut.swapped:
        blocks = min(multiprocessors * cut.resident // cut.cluster, count) * cut.cluster
        threads = 128 * cut.consumers + (128 if cut.resident == 1 else 32)
        own = {
            "GROUP": _GROUP, "IN_A_ROW": cut.in_a_row, "OUT_BUFFERS": cut.buffers if copied else 0,
            "REGISTERS": _REGISTERS[cut.consumers, cut.resident],
        }  # fmt: skip
        choice = KernelChoice(
            "matmul", macros | own, blocks, threads, problem, shared=_ALIGNED + ring + staged, specific=True,
            cluster=cut.cluster,
        )  # fmt: skip
        results = _results(x, of_result) if copied else None
        return MatmulRecipe(False, (top, left), choice, room.size, 0, 0, results)
    units = -(-stages_k // chunk)
    tiles = count * cut.cluster
    # Half of the multiprocessors read as fast as all of them, and parts cost more than they bring: 8 rows by 4096, one
    # part 1.01 of cuBLAS's speed, two parts 0.94 (H200).
    parts = max(1, min(units, multiprocessors // 2 // tiles)) if chunked and not x.segments else 1
    problem.parts, problem.slots = parts, 1 + units - units // parts
    sums = room.take(tiles * (1 + units - units // parts) * height * cut.columns * 4 if parts > 1 else 0)
    # The ring also holds the results of a tile on their way to memory.
    choice = KernelChoice(
        "matmul_skinny", macros, tiles * parts, 128 * cut.consumers + 32, problem,
        shared=_ALIGNED + max(ring, height * 4 * cut.columns), specific=True, cluster=cut.cluster,
    )  # fmt: skip
    return MatmulRecipe(True, (top, left), choice, room.size, sums, tiles if parts > 1 else 0)


def _results(x: Operands, size: int) -> Tensor:
    """C in boxes of 16 rows, as warps stage them."""
    pitches = x.c_row * size, x.c_batch * size if x.batch > 1 else UNIT
    return Tensor(f"UINT{8 * size}", size, (x.columns, x.rows, x.batch), pitches, (LINE // size, 16))


def has_double(kernel: Kernel, capability: tuple[int, int]) -> bool:
    """Whether :func:`double_recipe` serves."""
    return kernel.output == "binary64" and capability == (9, 0)


def double_recipe(
    plan: MatmulPlan, kernel: Kernel, x: Operands, factors: bool, multiprocessors: int
) -> MatmulRecipe:
    """Launches for binary64.

    Its unit adds one product after the other, so MMAs of any k have the same bits: here those of the largest, 16.
    """
    kernel = next(each for each in KERNELS if each.a == "binary64" and each.k == 16)
    room = Room()
    k = x.k or UNIT // 8
    height, width = 128, 128 if x.columns > 64 else 64
    top = side_of(x.a, x.rows, x.k, x.batch, get_format(kernel.a), "FLOAT64", height, room)
    left = side_of(x.b, x.columns, x.k, x.batch, get_format(kernel.a), "FLOAT64", width, room)
    tile_rows, tile_columns = -(-x.rows // height), -(-x.columns // width)
    count = tile_rows * tile_columns * x.batch
    size = get_format(plan.result).dtype.itemsize
    problem = Product(
        c_row_stride=x.c_row * size, c_batch_stride=x.c_batch * size, rows=x.rows, columns=x.columns,
        k_stages=-(-k * 8 // LINE), aligned=int(x.c_aligned and x.columns % 2 == x.c_row % 2 == x.c_batch % 2 == 0),
        a_batched=int(bool(x.a.batch)), b_batched=int(bool(x.b.batch)),
        tiles=count, tile_rows=tile_rows, tile_columns=tile_columns,
    )  # fmt: skip
    stages = 6
    macros = {
        **kernel.macros, "CONSUMERS": 2, "COLUMNS": width, "STAGES": stages, "CLUSTER": 1, "SHARES_A": 0, "A_K": 1, "B_K": 1, "INPUT_BYTES": 8,
        "RESULT": RESULTS[plan.result], "FACTORS": int(factors), "GROUP": _GROUP, "SEGMENTS": 0, "KEPT_B": 0,
    }  # fmt: skip
    shared = stages * ((height + width) * LINE + UNIT) + 1024
    choice = KernelChoice(
        "matmul_double", macros, min(count, multiprocessors), 384, problem, shared=shared, specific=True
    )  # fmt: skip
    return MatmulRecipe(False, (top, left), choice, room.size, 0, 0)


def _names(kernel: Kernel, swapped: bool, top: Side, left: Side) -> dict[str, str]:
    """The instruction's name behind its n, and what follows its operands."""
    named = replace(kernel, a=kernel.b, b=kernel.a) if swapped else kernel
    major = (
        f", {int(not top.k_major)}, {int(not left.k_major)}"
        if get_format(kernel.a).dtype.itemsize == 2
        else ""
    )
    return {
        "WGMMA_TYPES": f'"{named.mnemonic.partition(f"n{kernel.shape[1]}")[2]}"',
        "WGMMA_SCALES": '""' if kernel.output == "s32" else '", 1, 1"',
        "WGMMA_MAJOR": f'"{major}"',
    }


class MatmulLaunch:
    """A recipe on a GPU, which lacks nothing but addresses."""

    def __init__(self, recipe: MatmulRecipe, gpu: Gpu) -> None:
        self.room = recipe.room
        self._recipe, self._ordinal, self._lock = recipe, gpu.ordinal, threading.Lock()
        self._packs = [None if side.pack is None else bind(side.pack, gpu) for side in recipe.sides]
        self._product = bind(recipe.product, gpu)
        self._maps: dict[str, int] = {}

    def start(
        self, a: int, b: int, c: int, factors: Sequence[Any], stream: int, room: int = 0, offsets: int = 0
    ) -> None:
        """Put it on the stream; ``factors``: the scales and the bias as :data:`Factor`, if there are any.

        ``offsets``: the address of those of segments, contiguous numbers of 64 bits.
        """
        recipe = self._recipe
        problem: Any = recipe.product.problem
        given = (b, a) if recipe.swapped else (a, b)
        piece = (
            workspace("matmul", -(-recipe.flags // 2), False, self._ordinal, stream) if recipe.flags else None
        )
        with self._lock:  # the driver copies the parameters before a launch returns
            for i, (side, address, pack) in enumerate(zip(recipe.sides, given, self._packs, strict=True)):
                at = address
                if side.pack is not None and pack is not None:
                    at = room + side.offset
                    side.pack.problem.source, side.pack.problem.to = address, at
                    pack(stream)
                self._set_map("ab"[i], side.tensor, at)
            if recipe.results is not None:
                self._set_map("of_results", recipe.results, c)
            set_factors(problem, factors)
            problem.c, problem.room, problem.offsets = c, room + recipe.shared_room, offsets
            if piece is None:
                self._product(stream)
            else:
                problem.flags = piece.address
                piece.start(stream, self._product)

    def _set_map(self, name: str, tensor: Tensor, address: int) -> None:
        """What the copy engine knows of a tensor that lies there."""
        if self._maps.get(name) != address:
            place = getattr(self._recipe.product.problem, name)
            ctypes.memmove(
                ctypes.addressof(place), int(map_at(tensor, address).getPtr()), ctypes.sizeof(place)
            )
            self._maps[name] = address
