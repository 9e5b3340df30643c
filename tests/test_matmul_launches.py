"""Contract of the launches of ``tcu.matmul``, without a GPU: each compiles, keeps to what a GPU has, waits for nothing
while its MMAs run, and gives each number of the result to one block.

tests/test_gpu_matmul.py compares the bits on a GPU.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda_on_host import KernelFailed, compiled_for_host
from test_gpu_compile import compile_once, nvrtc_or_skip

from tcu.formats import get_format
from tcu.gpu.compiler import task_of
from tcu.gpu.kernels import KERNELS, Kernel, architecture, find_kernel
from tcu.gpu.launch import KernelChoice
from tcu.gpu.matmul import (
    MatmulRecipe,
    Operands,
    Product,
    double_recipe,
    has_double,
    matmul_recipe,
)
from tcu.gpu.matmul_mma import general_choice
from tcu.gpu.matmul_tall import is_tall, tall_choice
from tcu.gpu.matmul_tiles import tiling
from tcu.gpu.mma import Strided
from tcu.gpu.tensor_copy import Lines, Room, TensorMap, side_of
from tcu.plan.matmul import MatmulPlan, make_matmul_plan
from tcu.units import find_instruction, get_unit, product_instruction

MULTIPROCESSORS = 132
SHARED = 227 * 1024
FORMATS = [*((name, name) for name in ("binary16", "bfloat16", "binary32", "e4m3", "e5m2")), ("u8", "s8")]
SHAPES = [
    *itertools.product((1, 7, 16, 100, 128, 129, 1024, 4096), (1, 16, 100, 4096), (0, 1, 64, 333, 4096)),
    *itertools.product((60_001, 1 << 20), (8, 57, 64, 100, 128, 200, 256, 257), (0, 1, 64, 128, 256, 512)),
]


def plan_and_kernel(k: int, a: str, b: str, **options: str) -> tuple[MatmulPlan, Kernel]:
    plan = make_matmul_plan(k, a, b, **options)  # type: ignore[arg-type]
    row = product_instruction(get_unit("H200"), *plan.operands, plan.accumulator)
    return plan, find_kernel(row, (9, 0))


def lying(
    m: int, n: int, k: int, a_major: bool = True, b_major: bool = False, aligned: bool = True, batch: int = 1
) -> Operands:
    a, b = ((k, 1) if a_major else (1, m)), ((k, 1) if b_major else (1, n))
    return Operands(m, n, k, batch, Lines(*a, m * k, aligned), Lines(*b, n * k, aligned), n, m * n, aligned)


def recipes() -> Iterator[tuple[Operands, MatmulPlan, Kernel, MatmulRecipe]]:
    for (a, b), (m, n, k) in itertools.product(FORMATS, SHAPES):
        for order in ("chunks", "chain"):
            plan, kernel = plan_and_kernel(k, a, b, order=order)
            x = lying(m, n, k)
            yield x, plan, kernel, matmul_recipe(plan, kernel, x, False, MULTIPROCESSORS)


def test_launches_keep_to_what_a_gpu_has() -> None:
    for x, _, _, recipe in recipes():
        choice = recipe.product
        assert choice.shared <= SHARED, x
        assert choice.threads <= 1024
        assert choice.blocks >= 1
        assert recipe.room % 128 == 0
        for side in recipe.sides:
            tensor = side.tensor
            assert all(1 <= extent < 1 << 32 for extent in tensor.extents), x
            assert all(0 < pitch < 1 << 40 and pitch % 16 == 0 for pitch in tensor.pitches), x
            assert tensor.box[0] * tensor.size == 128
            assert tensor.box[1] <= 256
        if recipe.results is not None and not choice.macros["KEPT_B"]:
            assert int(str(choice.macros["COLUMNS"])) % recipe.results.box[0] == 0, (
                "a box reaches into no other tile"
            )


def test_a_product_is_as_long_as_the_gpu_reads_it() -> None:
    assert ctypes.sizeof(Product) % TensorMap.alignment == 0


def test_what_the_copy_engine_does_not_take_is_copied_first() -> None:
    plan, kernel = plan_and_kernel(512, "binary16", "binary16")

    def copied(x: Operands, plan: MatmulPlan = plan, kernel: Kernel = kernel) -> list[bool]:
        return [
            side.pack is not None for side in matmul_recipe(plan, kernel, x, False, MULTIPROCESSORS).sides
        ]

    for majors in itertools.product((True, False), repeat=2):
        assert copied(lying(512, 512, 512, *majors)) == [False, False], "any transposition of 16-bit numbers"
    assert copied(lying(512, 512, 512, aligned=False)) == [True, True]
    assert copied(lying(512, 509, 512)) == [False, True], "lines of an odd length"
    e4m3 = plan_and_kernel(512, "e4m3", "e4m3")
    assert copied(lying(512, 512, 512), *e4m3) == [False, True], "8-bit numbers along k only"
    assert copied(lying(512, 512, 512, b_major=True), *e4m3) == [False, False]


@pytest.mark.parametrize(
    ("rows", "columns", "chunked", "consumers", "across"),
    [(4096, 4096, True, 2, 128), (4224, 832, True, 2, 208), (1024, 4096, True, 2, 128), (512, 4096, True, 2, 128),
     (256, 4096, True, 2, 64), (4096, 4096, False, 2, 256), (1024, 4096, False, 2, 256)],
)  # fmt: skip
def test_tiles_come_out_evenly(rows: int, columns: int, chunked: bool, consumers: int, across: int) -> None:
    cut = tiling(rows, columns, chunked, MULTIPROCESSORS)
    assert (cut.consumers, cut.columns) == (consumers, across)


@pytest.mark.parametrize(
    ("element", "m", "k", "together"),
    [("e4m3", 4096, 4096, 32), ("e4m3", 8192, 8192, 16), ("bfloat16", 4096, 4096, 16), ("bfloat16", 8192, 8192, 8),
     ("bfloat16", 4096, 300, 32), ("bfloat16", 4096, 100_000, 8)],
)  # fmt: skip
def test_rows_of_tiles_that_are_finished_together_leave_room_in_the_second_cache(
    element: str, m: int, k: int, together: int
) -> None:
    for order in ("chunks", "chain"):
        plan, kernel = plan_and_kernel(k, element, element, order=order)
        recipe = matmul_recipe(plan, kernel, lying(m, m, k), False, MULTIPROCESSORS)
        assert recipe.product.macros["GROUP"] == (together if order == "chunks" else 16)


def test_b_stays_where_shared_memory_holds_it_beside_a_ring_and_rows_are_many() -> None:
    def stays(rows: int, columns: int, k: int, order: str = "chunks", **options: int) -> bool:
        plan, kernel = plan_and_kernel(k, "binary16", "binary16", order=order)
        x = lying(rows, columns, k, b_major=True, **options)
        macros = matmul_recipe(plan, kernel, x, False, MULTIPROCESSORS).product.macros
        kept = macros["KEPT_B"]
        assert kept in (0, -(-k // 64))
        assert not kept or macros["STAGES"] >= 3  # type: ignore[operator]
        return kept > 0  # type: ignore[operator]

    assert stays(60_000, 64, 64)
    assert stays(60_000, 128, 256)
    assert stays(60_000, 64, 256)
    assert stays(40_000, 256, 256)
    assert not stays(30_000, 64, 64), "multiprocessors would be idle at the end"
    assert not stays(60_000, 256, 512, "chain"), "512 KiB of B"
    assert not stays(60_000, 64, 4096), "sums of chunks are added up"
    assert not stays(60_000, 264, 64), "two columns of tiles"
    assert not stays(60_000, 64, 64, batch=2), "each product has its own B"


def test_the_copy_engine_writes_whole_rows_or_lines_of_them_where_it_can() -> None:
    def written(rows: int, columns: int, k: int = 64, gap: int = 0, **options: str) -> str:
        plan, kernel = plan_and_kernel(k, "binary16", "binary16", **options)
        x = lying(rows, columns, k)._replace(c_row=columns + gap, c_batch=rows * (columns + gap))
        recipe = matmul_recipe(plan, kernel, x, False, MULTIPROCESSORS)
        macros = recipe.product.macros
        assert macros["KEPT_B"]
        by = "rows" if macros["OUT_ROWS"] else "lines" if macros["OUT_BUFFERS"] else "threads"
        assert (recipe.results is not None) == (by == "lines")
        assert recipe.results is None or recipe.results.extents == (columns, rows, 1)
        return by

    assert written(70_000, 64) == written(140_000, 33) == written(140_000, 100, 128) == "rows"
    assert written(70_000, 200) == written(70_000, 256) == "rows"
    assert written(140_000, 32) == "lines", "faster than rows"
    assert written(140_000, 64, gap=4) == written(140_000, 256, 256) == "lines"
    assert written(60_000, 64) == "lines", "four blocks of a multiprocessor would be idle at the end"
    assert written(60_000, 33) == "rows"
    assert written(140_000, 33, gap=1) == written(70_000, 64, result="binary64") == "threads"


def test_parts_of_k_are_whole_chunks_and_have_places_for_their_results() -> None:
    for k in (4096, 8192, 5000):
        plan, kernel = plan_and_kernel(k, "bfloat16", "bfloat16")
        recipe = matmul_recipe(plan, kernel, lying(16, 1024, k), False, MULTIPROCESSORS)
        problem = recipe.product.problem
        parts, slots = problem.parts, problem.slots  # type: ignore[attr-defined]
        assert parts > 1
        assert recipe.swapped
        assert slots == 1 + plan.chains - plan.chains // parts, (
            "one for the first part, one for each later chunk"
        )
        assert recipe.flags == problem.tiles  # type: ignore[attr-defined]


COMPILED: dict[str, tuple[str, str, Operands, dict[str, str]]] = {
    "tiles": ("binary16", "binary16", lying(4096, 4096, 4096), {}),
    "a chain": ("bfloat16", "bfloat16", lying(4096, 4096, 4096), {"order": "chain", "result": "bfloat16"}),
    "208 columns": ("bfloat16", "bfloat16", lying(4224, 832, 4096), {}),
    "transposed": ("binary16", "binary16", lying(4096, 4096, 4096, False, True), {}),
    "e4m3": ("e4m3", "e4m3", lying(4096, 4096, 4096), {"result": "bfloat16"}),
    "tf32": ("binary32", "binary32", lying(4096, 4096, 4096), {}),
    "integers": ("u8", "s8", lying(4096, 4096, 4096), {}),
    "binary16": ("binary16", "binary16", lying(4096, 4096, 4096), {"accumulator": "binary16"}),
    "few rows": ("bfloat16", "bfloat16", lying(16, 4096, 4096), {}),
    "128 rows": ("bfloat16", "bfloat16", lying(128, 4096, 4096), {"result": "binary64"}),
    "few columns": ("binary16", "binary16", lying(4096, 16, 16), {}),
    "64 columns, b stays": ("binary16", "binary16", lying(1 << 20, 64, 64), {}),
    "128 columns, b stays": ("bfloat16", "bfloat16", lying(1 << 20, 128, 128), {"result": "bfloat16"}),
    "256 columns, b stays": ("binary16", "binary16", lying(1 << 20, 256, 256, b_major=True), {}),
    "binary64, b stays": ("binary16", "binary16", lying(1 << 20, 64, 64), {"result": "binary64"}),
}


def warnings(choice: KernelChoice) -> str:
    """What the compiler says: also where it makes MMAs wait for each other, or puts registers into memory."""
    task = task_of(f"{choice.source}.cu", choice.macros, "sm_90a")
    return compile_once(replace(task, options=(*task.options, "--ptxas-options=--warn-on-spills"))).log


@pytest.mark.some(4)
@pytest.mark.parametrize("factors", [False, True])
@pytest.mark.parametrize("which", COMPILED)
def test_products_by_wgmma_compile_and_neither_wait_nor_spill(which: str, factors: bool) -> None:
    nvrtc_or_skip()
    a, b, x, options = COMPILED[which]
    plan, kernel = plan_and_kernel(x.k, a, b, **options)
    recipe = matmul_recipe(plan, kernel, x, factors, MULTIPROCESSORS)
    assert warnings(recipe.product) == ""
    for side in recipe.sides:
        if side.pack is not None:
            assert compile_once(task_of(f"{side.pack.source}.cu", side.pack.macros, "sm_90")).log == ""


def test_the_compiler_says_where_registers_do_not_hold_two_chains() -> None:
    nvrtc_or_skip()
    plan, kernel = plan_and_kernel(4096, "e4m3", "e4m3")
    choice = matmul_recipe(plan, kernel, lying(4096, 4096, 4096), False, MULTIPROCESSORS).product
    assert choice.macros["LINKED"] == 16
    said = warnings(replace(choice, macros={**choice.macros, "COLUMNS": 208}))
    assert "serialized" in said
    assert "spilled" in said


def in_segments(rows: int, segments: int, n: int, k: int, major: bool) -> Operands:
    x = lying(rows, n, k, b_major=major, batch=segments)
    return x._replace(segments=segments, c_batch=0, a=x.a._replace(batch=0))


@pytest.mark.parametrize(
    ("rows", "segments", "source"), [(64, 64, "matmul_skinny"), (640, 8, "matmul"), (32768, 8, "matmul")]
)
@pytest.mark.parametrize("which", ["bfloat16", "e4m3"])
def test_products_of_segments_compile(which: str, rows: int, segments: int, source: str) -> None:
    nvrtc_or_skip()
    plan, kernel = plan_and_kernel(4096, which, which)
    choice = matmul_recipe(
        plan, kernel, in_segments(rows, segments, 4096, 4096, which == "e4m3"), False, 132
    ).product
    assert choice.source == source
    assert warnings(choice) == ""
    assert choice.shared <= SHARED


def test_every_tile_of_short_segments_has_a_block() -> None:
    plan, kernel = plan_and_kernel(256, "bfloat16", "bfloat16")
    for lengths in ([1] * 64, [0, 0, 100, 1], [33, 1, 0, 7], [64] * 9, [577]):
        x = in_segments(sum(lengths), len(lengths), 4096, 256, True)
        choice = matmul_recipe(plan, kernel, x, False, MULTIPROCESSORS).product
        if choice.source == "matmul_skinny":
            across = int(str(choice.macros["COLUMNS"]))
            assert choice.blocks >= 4096 // 64 * sum(-(-length // across) for length in lengths)


@pytest.mark.parametrize("factors", [False, True])
@pytest.mark.parametrize("result", ["binary64", "bfloat16"])
def test_products_of_binary64_compile(result: str, factors: bool) -> None:
    nvrtc_or_skip()
    plan = make_matmul_plan(4096, "binary64", "binary64", result=result)
    row = product_instruction(get_unit("H200"), "binary64", "binary64", "binary64")
    kernel = find_kernel(row, (9, 0))
    assert has_double(kernel, (9, 0))
    recipe = double_recipe(plan, kernel, lying(4096, 4096, 4096), factors, MULTIPROCESSORS)
    binary = compile_once(task_of("matmul_double.cu", recipe.product.macros, "sm_90a"))
    assert binary.log == ""
    assert "m16n8k16" in binary.ptx
    assert recipe.product.shared <= SHARED


@pytest.mark.parametrize("factors", [False, True])
@pytest.mark.parametrize("given", ["binary16", "bfloat16"])
def test_tall_products_compile(given: str, factors: bool) -> None:
    nvrtc_or_skip()
    kernel = find_kernel(find_instruction("H200", "mma", given, given, "binary32"), (9, 0))
    for k, columns, result in ((16, 16, "binary32"), (28, 32, given), (4, 4, "binary32")):
        plan = make_matmul_plan(k, given, given, result=result)
        a, b = Strided(0, (9999, k), (k, 1)), Strided(0, (k, columns), (columns, 1))
        assert is_tall(plan, a, b, 0)
        choice = tall_choice(plan, kernel, a, b, factors, MULTIPROCESSORS)
        binary = compile_once(task_of("matmul_tall.cu", choice.macros, "sm_90"))
        assert binary.log == ""
        assert f"{kernel.mnemonic} " in binary.ptx


@pytest.mark.slow(1)
@pytest.mark.parametrize(
    ("k", "columns", "result"),
    [(28, 24, "binary32"), (16, 16, "binary32"), (32, 32, "binary16"), (4, 4, "binary32")],
)
def test_a_tall_product_on_the_host(built: Path, k: int, columns: int, result: str) -> None:
    rng, rows = np.random.default_rng(k), 5001
    a, b = (
        rng.integers(-8, 9, shape).astype(np.float16) for shape in ((rows, k), (k, columns))
    )  # exact sums
    raw = np.full((rows + 9) * columns * 4 + 16, 0x77, np.uint8)
    place = raw[-raw.ctypes.data % 16 :][: (rows + 5) * columns * 4].view(
        np.float16 if result == "binary16" else np.float32
    )
    kernel = find_kernel(find_instruction("H200", "mma", "binary16", "binary16", "binary32"), (9, 0))
    given = [Strided(x.ctypes.data, x.shape, (x.shape[1], 1)) for x in (a, b)]
    plan = make_matmul_plan(k, "binary16", "binary16", result=result)
    assert is_tall(plan, *given, place.ctypes.data)
    choice = tall_choice(plan, kernel, *given, False, 1)
    problem: Any = choice.problem
    problem.p.a.data, problem.p.b.data, problem.p.d = a.ctypes.data, b.ctypes.data, place.ctypes.data
    macros = {name: str(value) for name, value in choice.macros.items()}
    run = compiled_for_host("matmul_tall.cu", "matmul_tall", "GeneralProduct", macros, built)
    run(problem, choice.blocks, choice.threads, together=1)
    wanted = a.astype(np.float64) @ b.astype(np.float64)
    assert (place[: rows * columns].reshape(rows, columns) == wanted).all()
    assert (place[rows * columns :].view(np.uint8) == 0x77).all(), "written outside of the result"


COPIES = {"apart": lambda k: (k + 3, 1), "close": lambda k: (k, 1), "backwards": lambda k: (-k - 1, 1),
          "again and again": lambda k: (0, 1), "k apart": lambda k: (3 * k, 3), "k far": lambda k: (1, 37)}  # fmt: skip
"""Strides of 37 lines of k numbers and along k."""


def check_copies(built: Path, which: str, k: int, steps: tuple[int, int], **options: Any) -> None:
    """Lines that begin at each number of 16 bytes are copied, and no byte but theirs is read or written."""
    fmt, lines, batches = get_format(which), 37, 3
    size = fmt.dtype.itemsize
    batch_step = 120 * k + 200
    place = np.random.default_rng(k).integers(0, 256, (batches + 1) * batch_step * size, np.uint8)
    for first in range(16 // size if steps[1] == 1 else 1):
        begin, room = (first + lines * -min(steps[0], 0)) * size, Room()
        side = side_of(Lines(*steps, batch_step, aligned=False), lines, k, batches, fmt, "UINT8", 64, room)
        assert side.pack is not None
        assert side.pack.source == ("pack_lines" if steps[1] == 1 else "pack_matrix")
        raw = np.full(room.size + (1 << 16), 0x77, np.uint8)  # a wrong kernel writes far behind the copy
        to = raw[-raw.ctypes.data % 16 :]
        problem: Any = side.pack.problem
        problem.source, problem.to = place.ctypes.data + begin, to.ctypes.data
        macros = {name: str(value) for name, value in side.pack.macros.items()}
        run = compiled_for_host(
            f"{side.pack.source}.cu", side.pack.source, "PackedLines", macros, built, **options
        )
        least = begin + (lines - 1) * min(steps[0], 0) * size
        last = (batches - 1) * batch_step + (lines - 1) * max(steps[0], 0) + (k - 1) * steps[1] + 1
        run(
            problem, side.pack.blocks, side.pack.threads,
            readable=(place.ctypes.data + least, place.ctypes.data + begin + last * size),
        )  # fmt: skip
        wanted = np.zeros((batches, lines, -(-k * size // 16) * 16), np.uint8)
        strides = batch_step * size, steps[0] * size, steps[1] * size, 1
        numbers = np.lib.stride_tricks.as_strided(place[begin:], (batches, lines, k, size), strides)
        wanted[..., : k * size] = numbers.reshape(batches, lines, k * size)
        assert (to[: wanted.size] == wanted.ravel()).all(), "other numbers"
        assert (to[wanted.size :] == 0x77).all(), "written outside of the copy"


@pytest.mark.slow(8)
@pytest.mark.some(24)
@pytest.mark.parametrize("which", ["binary16", "binary32", "e4m3", "binary64"])
@pytest.mark.parametrize("k", [1, 7, 8, 9, 16, 100, 101, 257])
@pytest.mark.parametrize("strides", COPIES)
def test_lines_are_copied_on_the_host(built: Path, which: str, k: int, strides: str) -> None:
    check_copies(built, which, k, COPIES[strides](k))


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("(off == 0 || at > 0)", "true"), ("(off ? WORD : 0)", "0"), ("| found.y << (64 - 8 * off)", "| found.y << (63 - 8 * off)"),
     ("if (byte >= bytes) continue;", ""), ("(first + i * THREADS < end)", "(true)"),
     ("u32 further = unit / units", "u32 further = 0"), ("batch * p.batch_stride", "p.batch_stride")],
)  # fmt: skip
def test_planted_errors_in_copies_are_seen(built: Path, right: str, wrong: str) -> None:
    def check(*lengths: int) -> None:
        for k in lengths:
            check_copies(built, "binary16", k, (k + 3, 1), changes={right: wrong})

    with pytest.raises((AssertionError, KernelFailed)):
        check(101, 104)


def test_what_is_not_tall() -> None:
    def served(
        k: int, columns: int, rows: int = 9999, step: int = 0, at: int = 0, out: int = 0, **options: str
    ) -> bool:
        a = Strided(at, (rows, k), (step or k, 1))
        return is_tall(
            make_matmul_plan(k, "f16", "f16", **options), a, Strided(0, (k, columns), (columns, 1)), out
        )  # type: ignore[arg-type]

    assert served(16, 16)
    assert served(16, 16, step=20)
    assert not any(
        (served(16, 15), served(15, 16), served(36, 16), served(16, 36), served(0, 16), served(16, 16, rows=100),
         served(16, 16, step=18), served(16, 16, at=4), served(16, 16, out=8), served(16, 16, result="binary64"),
         served(16, 16, accumulator="binary16"))
    )  # fmt: skip


@pytest.mark.some(8)
@pytest.mark.parametrize("kernel", [kernel for kernel in KERNELS if kernel.name == "mma"], ids=str)
def test_products_by_mma_compile(kernel: Kernel) -> None:
    nvrtc_or_skip()
    given = "binary32" if kernel.a == "tf32" else kernel.a
    plan = make_matmul_plan(
        1000, given, "binary32" if kernel.b == "tf32" else kernel.b, accumulator=kernel.output
    )
    if get_format(kernel.output).bits == 64:
        plan = replace(plan, result="bfloat16")
    choice: KernelChoice = general_choice(
        plan, kernel, Strided(0, (100, 1000), (1000, 1)), Strided(0, (1000, 100), (100, 1)), (), 100, True
    )
    binary = compile_once(task_of("matmul_mma.cu", choice.macros, architecture(kernel, kernel.minimum)))
    assert binary.log == ""
    assert f"{kernel.mnemonic} " in binary.ptx
