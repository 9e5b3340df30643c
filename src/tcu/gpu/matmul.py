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
from tcu.gpu.tensor_copy import LINE, UNIT, Lines, Room, Side, map_at, side_of
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


_CHAINED = ((2, 256, 1.0), (2, 128, 0.9), (2, 64, 0.7))
_CHUNKED = ((2, 208, 1.0), (3, 128, 1.0), (2, 128, 0.94), (2, 256, 0.87), (2, 64, 0.7))
"""(warpgroups, columns of a tile, share of cuBLAS's speed while all multiprocessors have a tile), of one chain and of chunks.

H200, bfloat16, chunks of 256 and of 512: 4096 x 4096 x 4096, two warpgroups of 64 x 208 0.91 and 0.96, three of 64 x 128
0.82 to 0.92 and 0.85, two of 64 x 256 (a quarter of the sums waits in shared memory) 0.86 and 0.90; 8192 x 8192 x 8192
0.96 of 208 and 512, 1.02 and 1.03 of three, 0.88 and 0.90 of 256; 1024 x 4096 x 4096 0.92 and 0.95 of two of 64 x 128,
0.84 and 0.89 of 256.  What is left is how evenly the tiles come out.  e4m3, chunks of 128, at 4096 x 4096 x 4096: 0.94 of
208, 0.88 of three, 0.69 of 256.  The GPU runs at its power limit: the same launch varies by 10 % with what ran before.
Blocks that share tiles of B: one chain 1.03 in place of 1.00, chunks 0.93 in place of 0.96.
"""


def tiling(rows: int, columns: int, chunked: bool, multiprocessors: int, segments: int = 0) -> Tiling:
    """For a product of that shape; ``segments``: of its rows, if each has a matrix of its own."""
    if segments:
        return _segment_tiling(rows, columns, chunked, multiprocessors, segments)
    if rows <= SWAPPED_ROWS:
        # 128 rows by 4096 (K = 4096): two blocks that share the weights 1.01 of cuBLAS's speed, blocks alone 0.65.
        pair = rows > 32 and columns <= 64 * multiprocessors // 2
        return Tiling(True, 1, _width(-(-rows // 2) if pair else rows), 2 if pair else 1, 1)
    if columns <= 64:
        return Tiling(False, 2, _width(columns), 1, 2)
    consumers, across = _fastest(_CHUNKED if chunked else _CHAINED, rows, columns, multiprocessors)
    return Tiling(False, consumers, across, 2 if across == 256 and not chunked else 1, 1)


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
    """By the mean length of segments: the host does not know more of them."""
    mean = -(-rows // segments)
    if mean <= SWAPPED_ROWS // 2:
        across = _width(mean + 2 * math.isqrt(mean))  # of random lengths, most fit
        return Tiling(True, 1, across, 1, 2 if across <= 64 else 1)
    if columns <= 64:
        return Tiling(False, 2, _width(columns), 1, 2)
    # Beside the sums of chunks and of a chain in 208 columns there are no registers for the segments of a warp.
    candidates = [each for each in _CHUNKED if each[1] <= 128] if chunked else _CHAINED
    return Tiling(False, *_fastest(candidates, mean, columns, multiprocessors, segments), 1, 1)


def _any_major(rows: int, columns: int) -> Tiling:
    """Where k is not contiguous in an operand: the tiles whose bits were compared on an H200."""
    if rows <= SWAPPED_ROWS:
        across = _width(rows)
        return Tiling(True, 1, across, 1, 2 if across <= 64 else 1)
    return Tiling(False, 2, _width(columns), 1, 1)


def _width(columns: int) -> int:
    return next((n for n in COLUMNS if n >= columns), COLUMNS[-1])


_SHARED = 227 * 1024
"""Bytes that a block may have."""
_GROUP = 16
_ORDERED = False
_LINKED = {1: 4, 4: 2}
"""By the stages of a chunk: chains of few rows that run into each other.

64 rows by 4096 (K = 4096) on an H200, over cuBLAS: float16 0.88 without, 0.97 by two and by four; e4m3 0.78 without, 0.91
by two, 0.93 by four.  Of tiles of many rows (two warpgroups of 64 x 128) the compiler puts registers into memory then:
e4m3 73 us in place of 28.6, float16 74 in place of 51.
"""
_PARKED = 32
"""Sums of a thread that wait in shared memory, where a tile has 256 columns."""


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
        return matmul_recipe(plan, kernel, x, factors, multiprocessors, _any_major(x.rows, x.columns))
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
    stage = (height + (cut.columns if left.k_major else -(-cut.columns // 64) * 64)) * LINE + UNIT
    parked = chunked and not cut.swapped and cut.columns == COLUMNS[-1]
    staged = 0 if cut.swapped else height * (2 * _PARKED * 4 if parked else LINE)
    own = (
        _SHARED // cut.resident - 2048 - staged
    )  # what the system takes of each block, and the ring's alignment
    stages = min(own // stage, 24)
    macros = {
        "CONSUMERS": cut.consumers, "COLUMNS": cut.columns, "STAGES": stages, "CHUNK": chunk if chunked else 0,
        "CLUSTER": cut.cluster, "SHARES_A": int(cut.swapped), "RESIDENT": cut.resident,
        "A_K": int(top.k_major), "B_K": int(left.k_major), "INPUT_BYTES": size, "RESULT": RESULTS[plan.result],
        "FACTORS": int(factors), "INTEGERS": int(kernel.output == "s32"), "HALVES": int(kernel.output == "binary16"),
        "SEGMENTS": int(x.segments > 0), "ORDERED": int(_ORDERED and chunked and not cut.swapped and cut.consumers == 2), **_names(kernel, cut.swapped, top, left),
    }  # fmt: skip
    shared = 1024 + -(-stages * stage // LINE) * LINE + staged
    if not cut.swapped:
        blocks = min(multiprocessors * cut.resident // cut.cluster, count) * cut.cluster
        threads = 128 * cut.consumers + (128 if cut.resident == 1 else 32)
        choice = KernelChoice(
            "matmul", macros | {"GROUP": _GROUP}, blocks, threads, problem, shared=shared, specific=True, cluster=cut.cluster
        )  # fmt: skip
        return MatmulRecipe(False, (top, left), choice, room.size, 0, 0)
    units = -(-stages_k // chunk)
    tiles = count * cut.cluster
    # Half of the multiprocessors read as fast as all of them, and parts cost more than they bring: 8 rows by 4096, one
    # part 1.01 of cuBLAS's speed, two parts 0.94 (H200).
    linked = _LINKED.get(chunk, 0) if chunked else 0
    parts = max(1, min(units, multiprocessors // 2 // tiles)) if chunked and not x.segments else 1
    problem.parts, problem.slots = parts, 1 + units - units // parts
    sums = room.take(tiles * (1 + units - units // parts) * height * cut.columns * 4 if parts > 1 else 0)
    # The ring also holds the results of a tile on their way to memory.
    choice = KernelChoice(
        "matmul_skinny", macros | {"LINKED": linked}, tiles * parts, 128 * cut.consumers + 32, problem,
        shared=max(shared, 1024 + height * 4 * cut.columns), specific=True, cluster=cut.cluster,
    )  # fmt: skip
    return MatmulRecipe(True, (top, left), choice, room.size, sums, tiles if parts > 1 else 0)


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
        "RESULT": RESULTS[plan.result], "FACTORS": int(factors), "GROUP": _GROUP, "SEGMENTS": 0,
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
        self._maps: list[int | None] = [None, None]

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
                if self._maps[i] != at:
                    tensor = map_at(side.tensor, at)
                    place = problem.a if i == 0 else problem.b
                    ctypes.memmove(ctypes.addressof(place), int(tensor.getPtr()), ctypes.sizeof(place))
                    self._maps[i] = at
            set_factors(problem, factors)
            problem.c, problem.room, problem.offsets = c, room + recipe.shared_room, offsets
            if piece is None:
                self._product(stream)
            else:
                problem.flags = piece.address
                piece.start(stream, self._product)
