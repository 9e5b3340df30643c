"""The kernel of a pass of fast Fourier transforms."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from tcu.formats import get_format
from tcu.gpu.device import CLUSTERED, Gpu
from tcu.gpu.fft_step import FftLines, FftStep, Room
from tcu.gpu.fft_tiles import Tile, tile_of
from tcu.gpu.launch import Given, KernelChoice
from tcu.gpu.structs import Struct, constants, struct
from tcu.gpu.tables import DeviceTable
from tcu.plan.butterflies import LENGTHS, butterfly
from tcu.plan.fft import MOST_SHIFT, TOP, FftPlan, Pass, level_twiddles, pass_twiddles

__all__ = ["pass_kernel", "pass_macros", "pass_problem", "pass_takes"]

_FEW = 1
"""Blocks of a multiprocessor, of which none reads while others compute; of two, 2^13 numbers of binary32 took 293 us in place of 275 (H200)."""


def _code(value: float) -> int:
    """Of a number of binary16."""
    return int(np.float16(value).view(np.uint16))


def _butterflies() -> str:
    """Every program, as CUDA runs it."""
    alone = (
        "template <>\nstruct Butterfly<1> {\n    __device__ static inline void run(Complex (&)[1]) {}\n};\n"
    )
    return "\n".join((alone, *map(_program_text, LENGTHS)))


def _program_text(length: int) -> str:
    """A specialisation of Butterfly in device/fourier/passes.cuh."""
    program = butterfly(length)
    lines = [
        f"const Floating v{2 * i + part} = x[{i}].{'im' if part else 're'};"
        for i in range(length)
        for part in (0, 1)
    ]
    for at, step in enumerate(program.steps, 2 * length):
        c = f"constant({step.factor('binary64').hex()}, {step.factor('binary32').hex()}f, {_code(step.factor('binary16')):#06x})"
        value = {
            "add": f"plus(v{step.x}, v{step.y})", "sub": f"minus(v{step.x}, v{step.y})",
            "mul": f"times({c}, v{step.x})", "fma": f"fused({c}, v{step.x}, v{step.y})",
        }[step.kind]  # fmt: skip
        lines.append(f"const Floating v{at} = {value};")
    lines += [
        f"x[{k}] = {{v{program.results[2 * k]}, v{program.results[2 * k + 1]}}};" for k in range(length)
    ]
    body = "\n        ".join(lines)
    return (
        f"template <>\nstruct Butterfly<{length}> {{\n"
        f"    __device__ static inline void run(Complex (&x)[{length}]) {{\n        {body}\n    }}\n}};\n"
    )


BUTTERFLIES = _butterflies
SCALES = constants(FIELD=TOP + 126, MOST_SHIFT=MOST_SHIFT)
"""Of binary32's exponent field, so much more than the power of two of a scale."""


FftPass = struct("FftPass", """
    const void* source;
    void* target;
    FftPlaces reads, writes;    // in numbers, or pairs of them
    FftPlaces numbers, results; // which numbers of the whole transform they are
    FftPlaces ups, downs;       // in p.up and p.down
    i64 blocks, columns;
    i64 taken, made;            // numbers and results of the whole transform that there are
    i64 whole, stride;          // its length, and from a number of it to the next in memory (NEIGHBOURS, HERMITIAN, HALVES)
    const void* twiddles;       // of the levels, one after another: [level][k - 1][q]
    const void* high;           // roots of unity
    const void* low;
    i64 shift;
    const float* up;            // what columns were divided by, and are; of binary16 the upper halves of such numbers
    float* down;
    const void* table_in;
    const void* table_out;
    const void* halves;         // exp(-πik/whole), k up to whole
    double factor;
""")  # fmt: skip


@lru_cache(maxsize=64)
def _twiddles(each: Pass, work: str, gpu: Gpu) -> DeviceTable:
    tables, left = [np.zeros((0, 2))], each.length
    for radix in each.radices:
        if left > radix:
            tables.append(level_twiddles(left, radix, work).transpose(1, 0, 2).reshape(-1, 2))
        left //= radix
    return DeviceTable(np.concatenate(tables).astype(get_format(work).dtype), gpu)


@lru_cache(maxsize=64)
def _coarse(n: int, work: str, gpu: Gpu) -> tuple[int, DeviceTable, DeviceTable]:
    shift, high, low = pass_twiddles(n, work)
    return shift, DeviceTable(high, gpu), DeviceTable(low, gpu)


def _ahead(step: FftStep, tile: Tile, gpu: Gpu) -> int:
    """How many blocks later the block comes whose numbers the second cache is to fetch; 0: none.

    Whole transforms of which a multiprocessor has one block: 2^14 of binary32 took 326 us in place of 348.  What passes along columns,
    and several passes, ask for is gone before it is read: 2^22 took 785 us in place of 672 (H200).
    """
    kind = step.reads.kind == "PAIRS" and step.begins.number == 1
    alone = step.rows_in and step.rows_out and not step.is_short and step.columns % tile.width == 0
    few = tile.resident <= _FEW and tile.cluster == 1 and gpu.compute_capability >= CLUSTERED
    return tile.resident * gpu.multiprocessors if kind and alone and few else 0


def pass_kernel(step: FftStep, plan: FftPlan, room: Room, gpu: Gpu) -> KernelChoice:
    tile = tile_of(step, plan, gpu)
    macros = {**pass_macros(step, tile, plan), "AHEAD": _ahead(step, tile, gpu)}
    blocks = tile.of(step) * step.blocks * step.batches * tile.cluster
    return KernelChoice(
        "fft_pass", macros, blocks, tile.threads, pass_problem(step, plan, room, gpu), pass_takes(step), shared=tile.shared,
        cluster=tile.cluster,
    )  # fmt: skip


def pass_macros(step: FftStep, tile: Tile, plan: FftPlan) -> dict[str, object]:
    """What device/fourier/pass.cuh is compiled with."""
    tiles, rows = tile.of(step), step.blocks * step.batches
    return {
        "WORK": plan.work.upper(), **_macros(step, tile), "RESIDENT": tile.resident, "FLAT": int(rows == 1), "AHEAD": 0, "READ_ONCE": 0, "WRITTEN_ONCE": 0,
        "TILES": tiles if step.left or step.known else 0, "BLOCKS": step.blocks if step.known else 0, "BLOCKS_INNER": 0,
    }  # fmt: skip


def pass_problem(step: FftStep, plan: FftPlan, room: Room, gpu: Gpu) -> Struct:
    problem = FftPass()
    for name, places in (
        ("reads", step.begins), ("writes", step.to), ("numbers", step.numbers), ("results", step.results), ("ups", step.ups),
        ("downs", step.downs),
    ):  # fmt: skip
        setattr(problem, name, places)
    problem.blocks, problem.columns = step.blocks, step.columns
    problem.taken = step.n if step.taken is None else step.taken
    problem.made = step.n if step.made is None else step.made
    problem.whole, problem.stride = step.whole, step.reads.number
    problem.twiddles = room.keep(_twiddles(step.each, plan.work, gpu)).address
    if step.level:
        problem.high = room.keep(_twiddles(step.level, plan.work, gpu)).address
    elif step.left:
        problem.shift, high, low = _coarse(step.left, plan.turns, gpu)
        problem.high, problem.low = room.keep(high).address, room.keep(low).address
    for name in ("table_in", "table_out", "halves"):
        table = getattr(step, name)
        setattr(problem, name, 0 if table is None else table.address)
    problem.factor = step.factor
    return problem


def pass_takes(step: FftStep) -> dict[str, Given]:
    given = {"source": step.source, "target": step.target, "up": step.up, "down": step.down}
    return {name: place for name, place in given.items() if place is not None}


def _macros(step: FftStep, tile: Tile) -> dict[str, object]:
    return {
        "LENGTH": step.each.length, "RADICES": ",".join(map(str, step.each.radices or (1,))), "COLUMNS": tile.columns,
        "CLUSTER": tile.cluster, "THREADS": tile.threads, "PITCH": tile.pitch, "WHOLE": int(step.columns % tile.width == 0),
        "READ_STEP": step.begins.number, "WRITE_STEP": step.to.number, "UP_STEP": step.ups.number,
        "ROWS_IN": int(step.rows_in), "ROWS_OUT": int(step.rows_out), "BY_COLUMN": int(step.by_column), "IN_PARTS": int(tile.in_parts),
        "SOURCE": step.reads.format.upper(), "TARGET": step.writes.format.upper(), "SOURCE_KIND": step.reads.kind,
        "TARGET_KIND": step.writes.kind, "SWAP_IN": int(step.swap_in),
        "SWAP_OUT": int(step.swap_out), "SWAP_LAST": int(step.swap_last), "SHORT": int(step.is_short),
        "TABLE_IN": int(step.table_in is not None), "TABLE_OUT": int(step.table_out is not None),
        "SCALED": int(step.factor != 1), "TURNED": "BY_TABLE" if step.level else "BY_PRODUCTS" if step.left else 0, "UP": int(step.up is not None),
        "DOWN": int(step.down is not None), **_macros_of_lanes(step),
    }  # fmt: skip


def _macros_of_lanes(step: FftStep) -> dict[str, object]:
    if not step.of_lanes:
        return {"HALVED": 0}
    return {
        "HALVED": int(step.halved), "TWO_IN": int(_beside(step, step.reads, step.begins)),
        "TWO_OUT": int(not step.halved and _beside(step, step.writes, step.to)), "UP_BESIDE": step.ups.column, "FALL": step.fall, "DROP": step.drop,
    }  # fmt: skip


def _beside(step: FftStep, lines: FftLines, places: Struct) -> bool:
    """Whether lanes are beside each other in memory, where 8 bytes begin."""
    apart, others = (
        (places.number, (places.column, places.block, places.batch))
        if step.halved
        else (places.column, (places.number, places.block, places.batch, step.columns))
    )
    return (
        lines.even
        and lines.kind == "PAIRS"
        and apart == 1
        and not step.is_short
        and not any(x % 2 for x in others)
    )
