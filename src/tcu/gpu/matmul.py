"""Products of matrices on sm_90 at the speed of its matrix unit, by the plan of ``tcu.plan.matmul``.

The copy engine brings tiles of A and B, wgmma multiplies them.  It takes lines
that begin at multiples of 16 bytes, along k or, of 16-bit formats, across it;
what lies otherwise is copied first.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from tcu.formats import get_format
from tcu.gpu.device import Gpu
from tcu.gpu.factors import RESULTS, set_factors
from tcu.gpu.kernels import KERNELS, Kernel
from tcu.gpu.launch import KernelChoice, bind
from tcu.gpu.matmul_tiles import (
    ALIGNED,
    COLUMNS,
    Tiling,
    any_major_tiling,
    kept_tiling,
    room_of_block,
    rows_together,
    tiling,
)
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
    load::TensorMap of_results;  // if the copy engine writes lines of them
""")  # fmt: skip


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
    """C as the copy engine writes lines of its rows; None: it writes rows whole, or threads write."""


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
    of_result = get_format(plan.result).dtype.itemsize
    aligned = x.c_aligned and all(step * of_result % UNIT == 0 for step in (x.c_row, x.c_batch, x.columns))
    copies = x.c_aligned and plan.result != "binary64" and not x.segments
    boxes = copies and aligned
    gapless = copies and x.c_row == x.columns and (x.batch == 1 or x.c_batch * of_result % UNIT == 0)
    if cut is None and shared_b:
        cut = kept_tiling(
            x.rows, x.columns, stages_k, multiprocessors, of_result, gapless=gapless, boxes=boxes
        )
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
            plan, kernel, x, factors, multiprocessors, any_major_tiling(x.rows, x.columns, chunked)
        )
    tile_rows, tile_columns = -(-rows // (height * below)), -(-columns // (cut.columns * beside))
    count = tile_rows * tile_columns * x.batch
    if x.segments:  # at most
        lines = cut.columns if cut.swapped else height
        count = (tile_rows if cut.swapped else tile_columns) * (x.rows // lines + min(x.segments, x.rows))
    problem = Product(
        c_row_stride=x.c_row * of_result, c_batch_stride=x.c_batch * of_result, rows=x.rows, columns=x.columns,
        k_stages=stages_k, a_batched=int(bool(first.batch)), b_batched=int(bool(second.batch)),
        aligned=int(aligned), tiles=count, tile_rows=tile_rows, tile_columns=tile_columns, segments=x.segments,
    )  # fmt: skip
    of_b = (cut.columns if left.k_major else -(-cut.columns // 64) * 64) * LINE
    stage = height * LINE + UNIT + (0 if cut.kept else of_b)
    kept = stages_k if cut.kept else 0
    # A box of results has so many columns as a line: it must not reach into the next tile.
    whole = cut.kept or cut.columns * of_result % LINE == 0
    boxed = whole and boxes and not (cut.swapped or cut.whole_rows)
    copied = boxed or cut.whole_rows
    begin = ALIGNED if copied else LINE  # of the results
    beside = room_of_block(cut.resident) - kept * of_b - (begin if copied else 0)
    if boxed and not cut.kept:
        two = cut._replace(buffers=2)
        if (beside - two.staged(of_result)) // stage == (beside - cut.staged(of_result)) // stage:
            cut = two
    staged = 0 if cut.swapped else cut.staged(of_result)
    stages = min((beside - staged) // stage, 24)
    halves = kernel.output == "binary16"
    macros = {
        "CONSUMERS": cut.consumers, "COLUMNS": cut.columns, "STAGES": stages, "CHUNK": chunk if chunked else 0,
        "LINKED": cut.linked(chunk, halves) if chunked else 0, "CLUSTER": cut.cluster, "SHARES_A": int(cut.swapped), "RESIDENT": cut.resident,
        "A_K": int(top.k_major), "B_K": int(left.k_major), "INPUT_BYTES": size, "RESULT": RESULTS[plan.result],
        "FACTORS": int(factors), "INTEGERS": int(kernel.output == "s32"), "HALVES": int(halves),
        "SEGMENTS": int(x.segments > 0), "KEPT_B": kept, **_names(kernel, cut.swapped, top, left),
    }  # fmt: skip
    ring = -(-(stages * stage + kept * of_b) // begin) * begin
    if not cut.swapped:
        blocks = min(multiprocessors * cut.resident // cut.cluster, count) * cut.cluster
        threads = 128 * cut.consumers + (128 if cut.resident == 1 else 32)
        own = {
            "GROUP": rows_together(height, stages_k * LINE, chunked), "IN_A_ROW": cut.in_a_row,
            "OUT_BUFFERS": cut.buffers if copied else 0, "OUT_ROWS": int(cut.whole_rows), "REGISTERS": cut.registers,
        }  # fmt: skip
        choice = KernelChoice(
            "matmul", macros | own, blocks, threads, problem, shared=ALIGNED + ring + staged, specific=True,
            cluster=cut.cluster,
        )  # fmt: skip
        results = _results(x, of_result) if boxed else None
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
        shared=ALIGNED + max(ring, height * 4 * cut.columns), specific=True, cluster=cut.cluster,
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
        "RESULT": RESULTS[plan.result], "FACTORS": int(factors), "GROUP": rows_together(height, k * 8, False), "SEGMENTS": 0, "KEPT_B": 0,
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
