"""Contract: without a GPU, every kernel compiles for every architecture that has its instruction.

The instruction that was meant is in the result.  What compiles slowly compiles for the architectures that the sources tell
apart.
"""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cuda_layers import with_facts

from tcu.formats import get_format
from tcu.gpu import (
    KERNELS,
    CompileError,
    ExtraMissingError,
    Gpu,
    Kernel,
    column_scan,
    columns,
    cross_entropy,
    exact_columns,
    exact_rows,
    exponentials,
    fft,
    fft_pass,
    index_sums,
    limbs,
    merge,
    mma_scans,
    modular_powers,
    moments,
    norms,
    ntt,
    polyval,
    row_gradients,
    rows_in_registers,
    scans,
    segment_scans,
    segments,
    slot_sums,
    structs,
    sums,
    supported,
    transforms,
    variants,
)
from tcu.gpu import compiler as compiler_module
from tcu.gpu.compiler import CompileTask, compile_cuda, compiler_version, read_sources, task_for, task_of
from tcu.gpu.kernels import architecture
from tcu.gpu.launch import KernelChoice
from tcu.gpu.structs import Struct
from tcu.gpu.tuning import exact_config
from tcu.ops import LAYER_NORM, LOG_SOFTMAX, LOGSUMEXP, NORMALIZE, RMS_NORM, SOFTMAX, Operation
from tcu.plan import SCAN_VARIANTS, Plan, make_dot_plan, make_mma_scan_plan, make_plan
from tcu.plan.fft import fft_plan
from tcu.plan.losses import Weights
from tcu.plan.scan import make_scan_plan
from tcu.units import get_unit

compile_once = cache(compile_cuda)
"""Where tests ask for the same kernel."""
CAPABILITIES = [(7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (12, 0)]
TOLD_APART = [(7, 5), (8, 0), (9, 0), (12, 0)]
"""What compiles slowly compiles for these: sources tell sm_86 and sm_89 from sm_80 by their fewer blocks and threads alone,
which sm_120 has too, and sm_100 from sm_90 by nothing."""


def nvrtc_or_skip() -> None:
    pytest.importorskip("cuda.bindings.nvrtc", reason='NVRTC is not installed: pip install "tcu[cuda13]"')
    try:
        compiler_version()
    except ExtraMissingError as error:
        pytest.skip(str(error))


def check(kernel: Kernel, target: str) -> None:
    binary = compile_once(task_for(kernel, target))
    assert binary.cubin.startswith(b"\x7fELF")
    assert f"{kernel.mnemonic} " in binary.ptx
    assert f".target {target}" in binary.ptx
    assert ".local" not in binary.ptx, "register arrays must stay in registers"
    assert binary.log == ""


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_every_kernel_compiles_for_the_oldest_gpu_that_has_it(kernel: Kernel) -> None:
    nvrtc_or_skip()
    check(kernel, architecture(kernel, kernel.minimum))


@pytest.mark.slow
@pytest.mark.parametrize("capability", CAPABILITIES, ids=lambda pair: f"sm_{pair[0]}{pair[1]}")
def test_all_kernels_compile_for_every_architecture(capability: tuple[int, int]) -> None:
    nvrtc_or_skip()
    for kernel in supported(capability):
        check(kernel, architecture(kernel, capability))


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_architecture_specific_targets(target: str) -> None:
    nvrtc_or_skip()
    check(KERNELS[0], target)


def test_wgmma_is_fenced_and_waited_for() -> None:
    nvrtc_or_skip()
    kernel = next(row for row in KERNELS if row.name == "wgmma")
    lines = compile_once(task_for(kernel, "sm_90a")).ptx
    order = [
        "fence.proxy.async.shared::cta", "wgmma.fence.sync.aligned", kernel.mnemonic,
        "wgmma.commit_group.sync.aligned", "wgmma.wait_group.sync.aligned 0",
    ]  # fmt: skip
    places = [lines.index(word) for word in order]
    assert places == sorted(places)


def test_an_instruction_that_an_architecture_lacks_does_not_compile() -> None:
    nvrtc_or_skip()
    wgmma = next(row for row in KERNELS if row.name == "wgmma")
    for kernel, target in ((wgmma, "sm_90"), (wgmma, "sm_100a"), (KERNELS[0], "sm_75")):
        with pytest.raises(CompileError) as caught:
            compile_once(task_for(kernel, target))
        assert target in str(caught.value)
        assert "--define-macro=MNEMONIC" in str(caught.value)
        assert "ptxas" in str(caught.value), "the compiler's log rides in the exception"


def test_an_architecture_that_the_compiler_does_not_know() -> None:
    nvrtc_or_skip()
    with pytest.raises(CompileError, match=r"does not compile for sm_999, only for sm_75, sm_80.*install"):
        compile_once(task_for(KERNELS[0], "sm_999"))


EXACT = {"LAYOUT": "ALIGNED", "THREADS": "256", "UNROLL": "4"}


# Products differ from sums by what is loaded: they compile for the oldest and for sm_90.
@pytest.mark.some(5)
@pytest.mark.parametrize(
    ("term", "capability"),
    [
        pytest.param(term, pair, marks=() if pair == (9, 0) else pytest.mark.slow, id=f"{term}-sm_{pair[0]}{pair[1]}")
        for term in ("VALUE", "PRODUCT", "SQUARE")
        for pair in TOLD_APART
        if term == "VALUE" or pair in ((7, 5), (9, 0))
    ],
)  # fmt: skip
@pytest.mark.parametrize("element", ["BINARY16", "BFLOAT16", "BINARY32", "BINARY64"])
def test_exact_sums_compile_for_every_architecture(
    term: str, element: str, capability: tuple[int, int]
) -> None:
    nvrtc_or_skip()
    resident = exact_config(capability, get_format("binary64"), 1 << 30, term != "VALUE").resident
    macros = {**EXACT, "ELEMENT": element, "TERM": term, "RESIDENT": str(resident)}
    binary = compile_once(task_of("exact.cu", macros, "sm_{}{}".format(*capability)))
    assert binary.cubin.startswith(b"\x7fELF")
    assert binary.log == ""


SUMS: dict[str, dict[str, Any]] = {
    "sum.cu": {"THREADS": 256, "CHAIN": 2, "UNROLL": 4, "RESIDENT": 4, "TERM": "VALUE"},
    "sum.cu, rows": {"THREADS": 256, "CHAIN": 1, "UNROLL": 4, "RESIDENT": 4, "TERM": "VALUE", "ROWS": 1},
    "rows.cu": {"THREADS": 256, "LANES": 2, "TILES": 1, "UNROLL": 4, "RESIDENT": 4, "LOOPS": 0},
    "packed_rows.cu": {"LANES": 2, "TILES": 1, "WORDS": 5, "LOOPS": 0, "RESIDENT": 24},
    "packed_rows.cu, tiles": {"LANES": 32, "TILES": 5, "WORDS": 5, "LOOPS": 0, "RESIDENT": 24},
    "packed_rows.cu, turns": {"LANES": 32, "TILES": 8, "WORDS": 5, "LOOPS": 1, "RESIDENT": 16},
    "segments.cu": {
        "RESIDENT": 24,
        "AT_ONCE": 16,
        "WITH_RESTS": 0,
        "COPY": 2048,
        "COPIES": 3,
        "ROOM": 352,
        "PERMUTED_K": 0,
        "MORE": 4,
    },
    "segments.cu, long": {
        "RESIDENT": 22,
        "AT_ONCE": 32,
        "WITH_RESTS": 1,
        "COPY": 2048,
        "COPIES": 4,
        "ROOM": 352,
        "PERMUTED_K": 0,
        "MORE": 4,
    },
    "segments.cu, with permuted k": {
        "RESIDENT": 22,
        "AT_ONCE": 32,
        "WITH_RESTS": 0,
        "COPY": 2048,
        "COPIES": 4,
        "ROOM": 128,
        "PERMUTED_K": 1,
        "MORE": 4,
    },
    "segments.cu, long, with permuted k": {
        "RESIDENT": 22,
        "AT_ONCE": 32,
        "WITH_RESTS": 1,
        "COPY": 2048,
        "COPIES": 4,
        "ROOM": 128,
        "PERMUTED_K": 1,
        "MORE": 4,
    },
    "short_segments.cu": {
        "RESIDENT": 32,
        "FRACTION_BITS": 25,
        "PER_LANE": 16,
        "RING": 1024,
        "WITH_RESTS": 0,
        "ROOM": 160,
        "MORE": 4,
    },
    "short_segments.cu, longer": {
        "RESIDENT": 18,
        "FRACTION_BITS": 25,
        "PER_LANE": 16,
        "RING": 2048,
        "WITH_RESTS": 0,
        "ROOM": 160,
        "MORE": 4,
    },
    "long_chunks.cu": {"THREADS": 64, "RESIDENT": 8, "COPY": 4096, "COPIES": 3, "PERMUTED_K": 0},
    "long_chunks.cu, with permuted k": {
        "THREADS": 64,
        "RESIDENT": 9,
        "COPY": 4096,
        "COPIES": 3,
        "PERMUTED_K": 1,
    },
    "long_segments.cu": {"THREADS": 256, "CHAIN": 1, "UNROLL": 4, "RESIDENT": 4, "TERM": "VALUE"},
    "columns.cu": {
        "THREADS": 256,
        "GRAIN": 8,
        "COLUMNS": 8,
        "NARROW": 0,
        "SPREAD": 0,
        "LEVELS": 3,
        "HALVES": 0,
        "LOOPS": 0,
        "UNEVEN": 1,
        "TURNS": 1,
        "ALONG": 8,
        "PIPED": 0,
        "RESIDENT": 3,
    },
    "columns.cu, one leaf": {
        "THREADS": 256,
        "GRAIN": 16,
        "COLUMNS": 8,
        "NARROW": 0,
        "SPREAD": 0,
        "LEVELS": 0,
        "HALVES": 1,
        "LOOPS": 0,
        "UNEVEN": 0,
        "TURNS": 1,
        "ALONG": 1,
        "PIPED": 1,
        "RESIDENT": 2,
    },
    "columns.cu, narrow": {
        "THREADS": 256,
        "GRAIN": 16,
        "COLUMNS": 3,
        "NARROW": 1,
        "SPREAD": 3,
        "LEVELS": 1,
        "HALVES": 0,
        "LOOPS": 0,
        "UNEVEN": 0,
        "TURNS": 2,
        "ALONG": 4,
        "PIPED": 0,
        "RESIDENT": 2,
    },
    "staged_columns.cu": {
        "THREADS": 256,
        "LEVELS": 4,
        "HALVES": 0,
        "LOOPS": 1,
        "ALONG": 8,
        "PIECES": 8,
        "STAGES": 2,
        "EVICT_FIRST": 1,
        "RESIDENT": 2,
    },
    "staged_columns.cu, one leaf": {
        "THREADS": 128,
        "LEVELS": 0,
        "HALVES": 1,
        "LOOPS": 0,
        "ALONG": 1,
        "PIECES": 4,
        "STAGES": 2,
        "EVICT_FIRST": 0,
        "RESIDENT": 4,
    },
    "rows.cu, turns": {
        "THREADS": 256,
        "LANES": 32,
        "TILES": 8,
        "UNROLL": 1,
        "RESIDENT": 2,
        "LOOPS": 1,
        "UNEVEN": 0,
        "AT_ONCE": 4,
        "TOGETHER": 1,
    },
}


def has_sums(which: str, element: str, mmas: int, capability: tuple[int, int]) -> bool:
    """Whether a GPU is asked for such a kernel."""
    narrow = element in ("BINARY16", "BFLOAT16")
    if element == "BFLOAT16" and mmas and capability < (8, 0):
        return False  # which has no MMA of bfloat16
    if SUMS[which].get("CHAIN", 1) > 1 and not mmas:  # chains are of MMAs
        return False
    if which.startswith("staged_columns.cu"):
        return bool(mmas) and narrow and capability >= (9, 0)
    if (SUMS[which].get("PIPED") or SUMS[which].get("PERMUTED_K") or "staged" in which) and not narrow:
        return False
    if which.startswith("short_segments.cu"):  # by MMAs of binary16 only, where one adds 16 numbers at once
        return capability >= (9, 0) and element in (
            ("BINARY16",) if mmas else ("BINARY16", "BFLOAT16", "BINARY32")
        )
    return True


@pytest.mark.slow(40)
@pytest.mark.some(14)
@pytest.mark.parametrize(
    ("which", "element", "mmas", "capability"),
    [
        pytest.param(which, *number, pair, id=f"{which}-{number[0]}-{number[1]}-sm_{pair[0]}{pair[1]}")
        for which in SUMS
        for number in (("BINARY16", 1), ("BINARY16", 0), ("BFLOAT16", 1), ("BFLOAT16", 0), ("BINARY32", 0), ("BINARY64", 0))
        for pair in TOLD_APART
        if has_sums(which, *number, pair)
    ],
)  # fmt: skip
def test_sums_compile_for_every_architecture(
    which: str, element: str, mmas: int, capability: tuple[int, int]
) -> None:
    nvrtc_or_skip()
    aligned = "sum.cu", "rows.cu", "columns.cu", "staged_columns.cu", "staged_columns.cu, one leaf"
    layout = "ALIGNED" if which in aligned else "SHIFTED"
    macros = {"ELEMENT": element, "MMAS": mmas, "LAYOUT": layout, **SUMS[which]}
    if which.startswith("short_segments.cu") and element == "BINARY32":
        macros |= {"FRACTION_BITS": 41, "ROOM": 352, "RESIDENT": 16}
    if which.startswith("columns.cu"):
        macros["COLUMNS"] = {"BINARY32": 2, "BINARY64": 1}.get(element, macros["COLUMNS"])
        macros |= {"LOW": macros["SPREAD"], "MOST_WITHIN": 4}
    binary = compile_once(task_of(which.partition(",")[0], macros, "sm_{}{}".format(*capability)))
    assert binary.log == ""
    half = {"BINARY16": "f32.f16.f16.f32", "BFLOAT16": "f32.bf16.bf16.f32"}.get(element)
    depth = 16 if capability >= (8, 0) else 8
    # The first of the short segments' two ways, which asks no unit, is alone where additions are exact.
    asked = f"mma.sync.aligned.m16n8k{depth}.row.col.{half}" if mmas else "mma.sync"
    assert (asked in binary.ptx) == bool(mmas)


@pytest.mark.parametrize("element", ["BINARY16", "BFLOAT16", "BINARY32"])
def test_a_norm_converts_each_number_once(element: str) -> None:
    """Conversions of both factors would take longer than reading 16-bit numbers."""
    nvrtc_or_skip()
    conversions, loads = [], []
    for term in ("SQUARE", "PRODUCT"):
        macros = {
            "ELEMENT": element, "MMAS": 0, "LAYOUT": "ALIGNED", **SUMS["sum.cu"], "CHAIN": 1, "TERM": term,
        }  # fmt: skip
        binary = compile_once(task_of("sum.cu", macros, "sm_90"))
        assert binary.log == ""
        conversions.append(len(re.findall(r"\bcvt\.f64\.f(?:16|32)\b", binary.ptx)))
        loads.append(binary.ptx.count("ld.global.nc"))
    assert 0 < conversions[0] < 0.6 * conversions[1]  # one more belongs to the result
    assert 0 < loads[0] < 0.6 * loads[1]


EXACT_SEGMENTS = {
    "exact_segments.cu": {
        "TILES": 4,
        "WINDOWS": 4,
        "THREADS": 32,
        "UNROLL": 1,
        "RESIDENT": 20,
        "TERM": "VALUE",
    },
    "long_exact_segments.cu": {
        "LANES": 32,
        "TILES": 4,
        "LOOPS": 1,
        "THREADS": 256,
        "UNROLL": 1,
        "RESIDENT": 4,
        "TERM": "VALUE",
    },
}


@pytest.mark.some(5)
@pytest.mark.parametrize(
    "capability",
    [pair if pair in ((7, 5), (9, 0)) else pytest.param(pair, marks=pytest.mark.slow) for pair in TOLD_APART],
    ids=lambda pair: f"sm_{pair[0]}{pair[1]}",
)
@pytest.mark.parametrize("element", ["BINARY16", "BFLOAT16", "BINARY32", "BINARY64"])
@pytest.mark.parametrize("which", EXACT_SEGMENTS)
def test_exact_sums_of_segments_compile_for_every_architecture(
    which: str, element: str, capability: tuple[int, int]
) -> None:
    nvrtc_or_skip()
    macros = {"ELEMENT": element, "LAYOUT": "SHIFTED", **EXACT_SEGMENTS[which]}
    assert compile_once(task_of(which, macros, "sm_{}{}".format(*capability))).log == ""


SCANS: dict[str, dict[str, Any]] = {
    "scan.cu": {"PER_ROW": 32, "CHUNKED": 0, "AHEAD": 0, "STAGES": 5, "RESIDENT": 2},
    "scan.cu, lines": {"PER_ROW": 256, "CHUNKED": 0, "AHEAD": 0, "STAGES": 4, "RESIDENT": 3},
    "scan.cu, chunks": {"PER_ROW": 512, "CHUNKED": 1, "AHEAD": 4, "STAGES": 6, "RESIDENT": 2},
    "segment_scan.cu": {},
}
_LONG = {"UNIT": 16, "RESULT_UNIT": 16, "APART": 0, "BUFFERS": 12, "SUMMING": 4}
_TILE = {"EXACT": 0, "TAIL": 0, "UNIT": 2, "RESULT_UNIT": 2, "APART": 0, "WARPS": 1, "RESIDENT": 24}
_RAGGED = {"LEVELS": 1, "EXACT": 0, "TAIL": 0, "MARKED": 0, "APART": 0, "RESIDENT": 24}
_NARROW, _WIDE = {"ELEMENT": "BINARY16", "RESULT": 0}, {"ELEMENT": "BINARY16", "RESULT": 2}
STAGED_SCANS: dict[str, dict[str, Any]] = {
    "long_scan.cu": {"LEVELS": 1, **_LONG, **_NARROW},
    "long_scan.cu, of many chunks": {"LEVELS": 4, **_LONG, **_NARROW},
    "long_scan.cu, of few chunks": {"LEVELS": 2, **_LONG, **_NARROW},
    "long_scan.cu, wide": {"LEVELS": 3, **_LONG, **_WIDE, "APART": 1},
    "long_scan.cu, bfloat16": {"LEVELS": 3, **_LONG, "ELEMENT": "BFLOAT16", "RESULT": 1},
    "long_scan.cu, binary32": {"LEVELS": 3, **_LONG, "ELEMENT": "BINARY32", "RESULT": 2},
    "long_scan.cu, binary64": {"LEVELS": 3, **_LONG, "ELEMENT": "BINARY64", "RESULT": 3},
    "long_scan.cu, anywhere": {"LEVELS": 1, **_LONG, **_NARROW, "UNIT": 2, "RESULT_UNIT": 2},
    "long_scan.cu, binary64, anywhere": {"LEVELS": 2, **_LONG, "ELEMENT": "BINARY64", "RESULT": 3, "UNIT": 8, "RESULT_UNIT": 8},
    "long_scan.cu, binary32, wide": {
        "LEVELS": 3, **_LONG, "ELEMENT": "BINARY32", "RESULT": 3, "UNIT": 4, "RESULT_UNIT": 8, "APART": 1, "BUFFERS": 11
    },
    "long_scan.cu, binary64, narrow": {"LEVELS": 1, **_LONG, "ELEMENT": "BINARY64", "RESULT": 0, "RESULT_UNIT": 2, "APART": 1},
    "short_scan.cu": {"PER_ROW": 1, "TOGETHER": 4, "BUFFERS": 1, "RESIDENT": 24, **_NARROW},
    "short_scan.cu, lines": {"PER_ROW": 512, "TOGETHER": 4, "BUFFERS": 3, "RESIDENT": 17, **_NARROW},
    "short_scan.cu, chunks": {"PER_ROW": 1024, "TOGETHER": 4, "BUFFERS": 3, "RESIDENT": 17, **_NARROW},
    "tile_scan.cu": {**_TILE, **_NARROW, "LEVELS": 1, "EXACT": 1, "PART": 17},
    "tile_scan.cu, wide": {**_TILE, **_WIDE, "LEVELS": 2, "EXACT": 1, "PART": 17, "APART": 1},
    "tile_scan.cu, a group": {**_TILE, "ELEMENT": "BINARY32", "RESULT": 2, "LEVELS": 0, "PART": 5, "UNIT": 4, "RESULT_UNIT": 4},
    "tile_scan.cu, bfloat16": {**_TILE, "ELEMENT": "BFLOAT16", "RESULT": 1, "LEVELS": 1, "PART": 16, "TAIL": 4},
    "tile_scan.cu, chunks": {
        **_TILE, "ELEMENT": "BINARY64", "RESULT": 3, "LEVELS": 3, "PART": 4, "TAIL": 1, "UNIT": 8, "RESULT_UNIT": 8, "WARPS": 4, "RESIDENT": 6
    },
    "segment_tiles.cu": {**_RAGGED, **_NARROW, "PART": 16, "MARKED": 1},
    "segment_tiles.cu, wide": {**_RAGGED, **_WIDE, "PART": 16, "APART": 1},
    "segment_tiles.cu, a group": {**_RAGGED, "ELEMENT": "BINARY32", "RESULT": 2, "PART": 8},
    "segment_chunks.cu": {**_RAGGED, **_NARROW, "PART": 16, "THREADS": 224, "STAGES": 3, "RESIDENT": 4},
    "segment_chunks.cu, wide": {**_RAGGED, "ELEMENT": "BINARY32", "RESULT": 3, "PART": 8, "APART": 1, "THREADS": 224, "STAGES": 2, "RESIDENT": 2},
}  # fmt: skip
"""Through shared memory, on sm_90 and later."""


@pytest.mark.slow(8)
@pytest.mark.some(6)
@pytest.mark.parametrize("capability", [(7, 5), (8, 0), (9, 0)], ids=lambda pair: f"sm_{pair[0]}{pair[1]}")
@pytest.mark.parametrize(
    ("element", "result"), [("BINARY16", 0), ("BFLOAT16", 1), ("BINARY32", 2), ("BINARY64", 2)]
)
@pytest.mark.parametrize("which", SCANS)
def test_scans_compile_for_every_architecture(
    which: str, element: str, result: int, capability: tuple[int, int]
) -> None:
    nvrtc_or_skip()
    layout = "SHIFTED" if which == "segment_scan.cu" or result == 1 else "ALIGNED"
    macros = {
        "ELEMENT": element,
        "LAYOUT": layout,
        "RESULT": result,
        "EXCLUSIVE": result % 2,
        "REVERSE": result % 2,
    }
    binary = compile_cuda(
        task_of(which.partition(",")[0], {**macros, **SCANS[which]}, "sm_{}{}".format(*capability))
    )
    assert binary.log == ""
    assert ("cp.async.bulk" in binary.ptx) == (layout == "ALIGNED" and capability >= (9, 0))


@pytest.mark.slow(8)
@pytest.mark.some(5)
@pytest.mark.parametrize(("exclusive", "reverse"), [(0, 0), (1, 1)])  # the others are compiled for the host
@pytest.mark.parametrize("which", STAGED_SCANS)
def test_staged_scans_compile(which: str, exclusive: int, reverse: int) -> None:
    nvrtc_or_skip()
    macros = {"LAYOUT": "ALIGNED", "EXCLUSIVE": exclusive, "REVERSE": reverse, **STAGED_SCANS[which]}
    for arch in ("sm_90", "sm_100"):
        assert compile_once(task_of(which.partition(",")[0], macros, arch)).log == ""


@pytest.mark.parametrize(
    ("which", "facts"),
    [
        ("long_scan.cu", [f"sizeof(LongScanBuffers) == {scans.long_scan_bytes(12, 0)}"]),
        (
            "long_scan.cu, anywhere",
            [f"sizeof(LongScanBuffers) == {scans.long_scan_bytes(12, 0, anywhere=True)}"],
        ),
        ("long_scan.cu, wide", [f"sizeof(LongScanBuffers) == {scans.long_scan_bytes(12, 64)}"]),
        (
            "long_scan.cu, binary32, wide",
            [f"sizeof(LongScanBuffers) == {scans.long_scan_bytes(11, 64, True, True)}"],
        ),
        (
            "long_scan.cu, binary64, narrow",
            [f"sizeof(LongScanBuffers) == {scans.long_scan_bytes(12, 8, False, True)}"],
        ),
        ("short_scan.cu", [f"sizeof(ShortScanBuffers) == {scans.short_scan_bytes(4, 1)}"]),
        ("short_scan.cu, lines", [f"sizeof(ShortScanBuffers) == {scans.short_scan_bytes(4, 3)}"]),
        (
            "tile_scan.cu",
            [f"bytes_of_tile(1285, 0) == {scans.tile_scan_bytes(1285, 2, 2, apart=False, lines=0)}"],
        ),
        (
            "tile_scan.cu, wide",
            [f"bytes_of_tile(1285, 17) == {scans.tile_scan_bytes(1285, 2, 4, apart=True, lines=17)}"],
        ),
    ],
)
def test_staged_scans_have_the_shared_memory_that_they_use(which: str, facts: list[str]) -> None:
    nvrtc_or_skip()
    macros = {"LAYOUT": "ALIGNED", "EXCLUSIVE": 0, "REVERSE": 0, **STAGED_SCANS[which]}
    compiles_if(which.partition(",")[0], macros, facts)


@pytest.mark.slow(9)
@pytest.mark.some(7)
@pytest.mark.parametrize("capability", [(8, 0), (9, 0), (12, 0)], ids=lambda pair: f"sm_{pair[0]}{pair[1]}")
@pytest.mark.parametrize(
    ("element", "target"), [("binary16", "binary16"), ("binary16", "binary32"), ("binary32",) * 2]
)
@pytest.mark.parametrize("n", [16, 300, 8192, 8193, 1 << 14, 1 << 24])
def test_what_scans_ask_for_compiles(n: int, element: str, target: str, capability: tuple[int, int]) -> None:
    nvrtc_or_skip()
    most = {(8, 0): 163, (9, 0): 227}.get(capability, 99) << 10
    gpu: Any = SimpleNamespace(compute_capability=capability, multiprocessors=132, shared_memory=most)
    plan, fmt = make_scan_plan(n, element), get_format(target)

    def kernel_of(rows: int) -> str:
        recipe = scans.scan_recipe(plan, rows, n, n, True, True, fmt, gpu, exclusive=False, reverse=False)
        (choice,) = recipe.kernels
        asked_for(choice, capability)
        assert choice.shared <= most
        return choice.source

    exact = element == target == "binary16" and capability >= (9, 0)
    if n * get_format(element).dtype.itemsize > 16 << 10:  # of several chunks
        expected = "long_scan" if capability == (9, 0) else "scan"
    elif n == 300 or not exact:  # where three warps have work enough
        expected = "tile_scan" if capability >= (9, 0) and n < 8192 else "scan"
    else:
        expected = "short_scan"
    assert kernel_of(3) == expected
    if n == 8193 and element == target and capability >= (9, 0):  # as many as give each warp a row
        assert kernel_of(3000) == "tile_scan"
    if exact and n == 1 << 14:  # as many rows as keep all warps busy
        assert kernel_of(2244) == "short_scan"


@pytest.mark.slow(4)
@pytest.mark.some(4)
@pytest.mark.parametrize("capability", CAPABILITIES, ids=lambda pair: f"sm_{pair[0]}{pair[1]}")
@pytest.mark.parametrize(
    ("element", "accumulator"), [("binary16", None), ("binary16", "float16"), ("bfloat16", None)]
)
@pytest.mark.parametrize("variant", [name for name, row in SCAN_VARIANTS.items() if row.uses_mma])
def test_what_scans_by_mmas_ask_for_compiles(
    variant: str, element: str, accumulator: str | None, capability: tuple[int, int]
) -> None:
    nvrtc_or_skip()
    if element == "bfloat16" and capability < (8, 0):
        pytest.skip("Turing has no MMA of bfloat16")
    gpu: Any = SimpleNamespace(
        compute_capability=capability, multiprocessors=132, shared_memory=99 << 10, name="it"
    )
    fmt = get_format(element)
    flags = {"exclusive": capability[0] % 2 == 0, "reverse": capability[0] < 9}
    for n, target in ((40, "binary32"), (1 << 20, element)):
        plan = make_mma_scan_plan(n, fmt, get_unit("H100"), variant, None, accumulator)
        for recipe in (
            mma_scans.mma_scan_recipe(plan, 3, n, n, get_format(target), gpu, **flags),
            mma_scans.mma_segment_scan_recipe(plan, n, 5, get_format(target), gpu, **flags),
        ):
            for choice in recipe.kernels:
                asked_for(choice, capability)


@pytest.mark.slow(3)
@pytest.mark.some(5)
@pytest.mark.parametrize(
    ("capability", "shared"),
    [((8, 0), 163), ((9, 0), 227), ((12, 0), 99)],
    ids=lambda given: f"sm_{given[0]}{given[1]}" if isinstance(given, tuple) else "",
)
@pytest.mark.parametrize(
    ("element", "target"), [("binary16", "binary64"), ("bfloat16", "bfloat16"), ("binary32", "binary32")]
)
def test_what_scans_of_segments_ask_for_compiles(
    element: str, target: str, capability: tuple[int, int], shared: int
) -> None:
    nvrtc_or_skip()
    gpu: Any = SimpleNamespace(compute_capability=capability, multiprocessors=132, shared_memory=shared << 10)
    given = get_format(element), get_format(target)
    recipe = segment_scans.segment_scan_recipe(1 << 24, 1 << 16, *given, gpu, exclusive=False, reverse=True)
    for choice in recipe.kernels:
        asked_for(choice, capability)
        assert choice.shared <= shared << 10
    has_room = capability >= (9, 0) and (shared > 99 or element == target)
    expected = ["segment_tiles", "segment_chunks"] if has_room else ["segment_scan"]
    assert [choice.source for choice in recipe.kernels] == expected


@pytest.mark.slow(2)
@pytest.mark.some(4)
@pytest.mark.parametrize(
    "capability", [(7, 5), (8, 0), (9, 0), (12, 0)], ids=lambda pair: f"sm_{pair[0]}{pair[1]}"
)
@pytest.mark.parametrize(
    ("storage", "n", "sources"),
    [
        ("binary16", 1 << 8, ["fft_pass"]),
        ("binary16", 1 << 14, ["fft_pass"]),
        ("binary16", 1 << 16, ["fft_passes"]),
        ("binary16", 1 << 26, ["fft_pass", "fft_passes"]),
        ("binary32", 1000, ["fft_pass"]),
        ("binary32", 1 << 18, ["fft_passes"]),
        ("binary32", 1 << 24, ["fft_pass", "fft_passes"]),
        ("binary64", 1 << 16, ["fft_passes"]),
    ],
)
def test_what_transforms_ask_for_compiles(
    storage: Any, n: int, sources: list[str], capability: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    nvrtc_or_skip()
    for module in (fft, fft_pass):
        monkeypatch.setattr(module, "DeviceTable", lambda values, gpu: SimpleNamespace(address=0))
    caches = fft_pass._twiddles, fft_pass._coarse
    gpu = Gpu(0, "it", capability)
    gpu.__dict__.update(multiprocessors=132, shared_memory=227 << 10, l2=50 << 20)
    lines = fft.FftLines(storage, "PAIRS", ((1 << 26) // n,), (n,), 1, n)
    try:
        recipe, _ = fft.transform_recipe(fft_plan(n, storage), lines, lines, 1.0, False, None, gpu)
    finally:
        for each in caches:  # of tables that are none
            each.cache_clear()
    made = [choice.source for choice in recipe.kernels]
    assert made == sources or (capability < (8, 0) and made == ["fft_pass"] * len(made))
    assert (recipe.space is None) == ("fft_passes" not in made)
    for choice in recipe.kernels:
        asked_for(choice, capability)
        assert choice.shared <= gpu.shared_memory


def asked_for(choice: KernelChoice, capability: tuple[int, int]) -> str:
    """Its PTX."""
    binary = compile_once(task_of(f"{choice.source}.cu", choice.macros, "sm_{}{}".format(*capability)))
    assert binary.log == ""
    assert f".entry {choice.entry or choice.source}(" in binary.ptx
    return binary.ptx


@pytest.mark.slow(2)
@pytest.mark.some(4)
@pytest.mark.parametrize("capability", CAPABILITIES, ids=lambda pair: f"sm_{pair[0]}{pair[1]}")
@pytest.mark.parametrize("element", ["binary16", "bfloat16", "binary32", "binary64"])
def test_the_launch_for_all_levels_compiles(element: str, capability: tuple[int, int]) -> None:
    """Later levels are read from the second cache; on sm_90 nearly all of a thread's registers are no memory."""
    nvrtc_or_skip()
    if element != "binary16" and capability < (8, 0):
        pytest.skip("Turing has no such MMA")
    threads, blocks = {(7, 5): (1024, 16), (8, 6): (1536, 16), (8, 9): (1536, 24), (12, 0): (1536, 24)}.get(
        capability, (2048, 32)
    )
    gpu: Any = SimpleNamespace(
        compute_capability=capability, multiprocessors=132, resident_threads=threads, resident_blocks=blocks,
        name="it",
    )  # fmt: skip
    fmt, n = get_format(element), 1 << 20
    for number, (variant, chain, block) in enumerate(
        (
            ("two-mma", None, 32),
            ("recurrence", 1, 96),
            ("recurrence", 2, 128),
            ("recurrence", 3, 1024),
            ("recurrence", 8, 512),
        )
    ):
        plan = make_plan(n, fmt, get_unit("H100"), variant=variant, chain=chain, block=block)
        layout: Any = ("ALIGNED", "SHIFTED", "STRIDED")[number % 3]
        (choice,) = variants.variant_recipe(
            plan, sums.contiguous(0, n), layout, fmt, gpu, together=True
        ).kernels
        assert choice.cooperative
        assert choice.macros["RESIDENT"] * block <= threads  # type: ignore[operator]
        ptx = asked_for(choice, capability)
        width = {16: "u16", 32: "u32", 64: "u64"}[fmt.bits]
        assert f"ld.relaxed.gpu.global.{width} " in ptx
        assert ("ld.relaxed.gpu.global.v4.u32 " in ptx) == (fmt.bits == 16)
        assert ".local" not in ptx
        if capability == (9, 0):
            task = task_of(f"{choice.source}.cu", choice.macros, "sm_90")
            log = compile_once(replace(task, options=(*task.options, "--ptxas-options=-v"))).log
            spilled = re.findall(r"(\d+) bytes spill stores", log)
            assert spilled
            assert max(map(int, spilled)) <= 16, choice.macros


@pytest.mark.slow(1)
@pytest.mark.some(2)
@pytest.mark.parametrize("capability", CAPABILITIES, ids=lambda pair: f"sm_{pair[0]}{pair[1]}")
def test_what_products_of_long_integers_ask_for_compiles(capability: tuple[int, int]) -> None:
    nvrtc_or_skip()
    instruction = "mma.sync.aligned." + ("m8n8k16" if capability < (8, 0) else "m16n8k32")
    for length in (32, 64, 128, 256, 1024, 2048):
        (choice,) = limbs.product_recipe(1000, length, length, length, length).kernels
        assert f"{instruction}.row.col.s32.u8.u8.s32" in asked_for(choice, capability)
        assert choice.shared <= 48 << 10
    products = ntt.product_recipe(2, 3000, 3000, 3000, 0, 14, square=False).kernels
    modular = (
        modular_powers.modular_recipe(9, (limbs_of_m, 8, limbs_of_m), (0, 0, 0), powers=powers).kernels[0]
        for limbs_of_m in (32, 64, 128, 256)
        for powers in (True, False)
    )
    for choice in modular:
        assert ".local" not in asked_for(choice, capability)
        assert choice.shared <= 64 << 10
    for choice in (*products, *ntt.transform_recipe(14, 2, back=True).kernels):
        ptx = asked_for(choice, capability)
        assert ".local" not in ptx
        assert choice.shared <= 48 << 10


@pytest.mark.slow(1)
@pytest.mark.some(2)
@pytest.mark.parametrize("capability", TOLD_APART, ids=lambda pair: f"sm_{pair[0]}{pair[1]}")
def test_what_polynomials_ask_for_compiles(capability: tuple[int, int]) -> None:
    nvrtc_or_skip()
    gpu: Any = SimpleNamespace(compute_capability=capability, multiprocessors=132)
    instruction = "m16n8k16" if capability >= (9, 0) else "m8n8k4"
    for n, points, step, name in (
        (64, 9, 1, "binary32"), (2000, 1 << 20, 1, "binary32"), (64, 1 << 20, 2, "binary64"), (600, 9, 1, "binary64"),
        (600, 1 << 14, 1, "binary64"), (600, 1 << 20, 3, "binary64"),
    ):  # fmt: skip
        (choice,) = polyval.polyval_recipe(n, 1, points, (1, n, step), get_format(name), gpu).kernels
        ptx = asked_for(choice, capability)
        assert ".local" not in ptx
        by_unit = capability >= (8, 0) and choice.entry == "blocked"
        assert (f"mma.sync.aligned.{instruction}.row.col.f64" in ptx) == by_unit


@pytest.mark.some(11)
@pytest.mark.parametrize("capability", [(7, 5), (9, 0)], ids=lambda pair: f"sm_{pair[0]}{pair[1]}")
@pytest.mark.parametrize("element", ["binary16", "binary32", "binary64"])
@pytest.mark.parametrize(
    "shape",
    [
        (1, 16, 1 << 24), (1 << 18, 64, 16), (10_000, 1000, 100), (9000, 1000, 101), (999, 32_768, 2),
        (1, 4096, 1 << 14), (1, 32_768, 1 << 10),
    ],
)  # fmt: skip
def test_what_columns_ask_for_compiles(
    shape: tuple[int, int, int], element: str, capability: tuple[int, int]
) -> None:
    nvrtc_or_skip()
    gpu: Any = SimpleNamespace(compute_capability=capability, multiprocessors=132, l2=60 << 20)
    outer, length, inner = shape
    fmt = get_format(element)
    array = columns.Columns(outer, inner, length * inner, inner)
    plan = make_plan(length, fmt, get_unit("H200"))
    recipe = columns.columns_recipe(plan, array, True, fmt, gpu, 1.0)
    for choice in recipe.kernels:
        asked_for(choice, capability)
    chunks = length * fmt.dtype.itemsize >> 15
    assert [choice.more for choice in recipe.kernels] == ([chunks, 1] if length > 30_000 else [1])


@pytest.mark.slow(14)
@pytest.mark.some(10)
@pytest.mark.parametrize("capability", TOLD_APART, ids=lambda pair: f"sm_{pair[0]}{pair[1]}")
@pytest.mark.parametrize("element", ["binary16", "bfloat16", "binary32", "binary64"])
@pytest.mark.parametrize(
    ("outer", "length", "inner", "gap", "target", "count"),
    [
        (3, 16, 64, 1, "binary16", 1),
        (3, 1000, 37, 3, "binary32", 1),
        (3, 1 << 17, 64, 64, "binary64", 1),
        (3, 16, 1 << 16, 0, "binary16", 1),
        (3, 1 << 15, 1 << 16, 0, "binary32", 1),
        (1 << 12, 1 << 15, 2, 0, "binary32", 1),
        (1 << 12, 1000, 100, 0, "binary64", 1),
        (1 << 12, 1000, 100, 0, "bfloat16", 1),
        (1 << 12, 1000, 3, 0, "binary32", 1),
        (1, 1000, (1 << 20) + 1, 0, "binary16", 1),
        (1 << 20, 9, 3, 0, "binary32", 1),
        (1, 1 << 20, 3, 0, "binary32", 4),
    ],
)
def test_what_scans_of_columns_ask_for_compiles(
    outer: int, length: int, inner: int, gap: int, target: str, count: int, element: str, capability: tuple[int, int]
) -> None:  # fmt: skip
    """Also of those without gaps, of which few long ones are read twice."""
    nvrtc_or_skip()
    gpu: Any = SimpleNamespace(
        compute_capability=capability,
        multiprocessors=132,
        shared_memory=64 << 10 if capability == (7, 5) else 227 << 10,
    )
    array = columns.Columns(outer, inner, length * (inner + gap), inner + gap)
    recipe = column_scan.column_scan_recipe(
        make_scan_plan(length, element),
        array,
        array,
        True,
        get_format(target),
        gpu,
        exclusive=False,
        reverse=False,
    )
    assert recipe is not None
    assert len(recipe.kernels) == count
    for choice in recipe.kernels:
        assert ".local" not in asked_for(choice, capability)


@pytest.mark.slow(14)
@pytest.mark.some(8)
@pytest.mark.parametrize("capability", TOLD_APART, ids=lambda pair: f"sm_{pair[0]}{pair[1]}")
@pytest.mark.parametrize("element", ["binary16", "bfloat16", "binary32", "binary64"])
@pytest.mark.parametrize(
    ("n", "groups", "stride", "term"),
    [
        (100, 9, 104, "moments"), (5000, 8000, None, "moments"), (1 << 24, 3, 1 << 24, "moments"),
        (100, 9, 104, "product"), (1 << 24, 3, 1 << 24, "product"), (5000, 8000, None, "square"), (3000, 9000, 3001, "product"),
    ],
)  # fmt: skip
def test_what_variances_dot_products_and_norms_ask_for_compiles(
    n: int, groups: int, stride: int | None, term: Any, element: str, capability: tuple[int, int]
) -> None:
    nvrtc_or_skip()
    gpu: Any = SimpleNamespace(compute_capability=capability, multiprocessors=132)
    recipe = moments.moments_recipe(
        make_dot_plan(n, get_format(element)), groups, get_format("binary32"), gpu, correction=1.0, root=True,
        stride=stride, aligned=stride == 1 << 24, term=term,
    )  # fmt: skip
    for choice in recipe.kernels:
        assert ".local" not in asked_for(choice, capability)


@pytest.mark.slow(8)
@pytest.mark.some(14)
@pytest.mark.parametrize("capability", [(7, 5), (9, 0)], ids=lambda pair: f"sm_{pair[0]}{pair[1]}")
@pytest.mark.parametrize("element", ["binary16", "bfloat16", "binary32", "binary64"])
@pytest.mark.parametrize(
    "operation", [SOFTMAX, LOG_SOFTMAX, LOGSUMEXP, RMS_NORM, LAYER_NORM, NORMALIZE], ids=str
)
@pytest.mark.parametrize(
    ("length", "aligned"), [(24, True), (1001, False), (4096, True), (1 << 17, False), (1 << 20, True)]
)
def test_what_functions_of_rows_ask_for_compiles(
    length: int, aligned: bool, operation: Operation, element: str, capability: tuple[int, int]
) -> None:
    nvrtc_or_skip()
    fmt = get_format(element)
    gpu, rows = Gpu(0, "a GPU", capability), rows_in_registers.Rows(1000, length, length, aligned)
    if operation.arithmetic == "norms":
        given, wide = (rows, fmt), get_format("binary32")
        recipes = [norms.norms_recipe(rows, length, fmt, fmt, 1e-6, operation.finish, gpu)]
        recipes += [norms.norms_recipe(rows, length, fmt, fmt, 1e-6, operation.finish, gpu, (True, True))]
        if element != "binary64":
            recipes += [norms.norms_recipe(rows, length, fmt, wide, 1e-6, operation.finish, gpu, given=given)]
    else:
        recipes = [exponentials.exponentials_recipe(operation.finish, rows, length, fmt, fmt, gpu)]
        if element != "binary64" and operation is not SOFTMAX:
            given = None if operation is LOGSUMEXP else (rows, fmt)
            recipes += [exponentials.log_gradients_recipe(operation.finish, rows, fmt, fmt, gpu, given)]
    for recipe in recipes:
        (choice,) = recipe.kernels
        assert ".local" not in asked_for(choice, capability)


@pytest.mark.slow(4)
@pytest.mark.some(8)
@pytest.mark.parametrize("capability", [(7, 5), (9, 0), (12, 0)], ids=lambda pair: f"sm_{pair[0]}{pair[1]}")
@pytest.mark.parametrize("element", ["binary16", "bfloat16", "binary32"])
@pytest.mark.parametrize("finish", row_gradients.FINISHES)
@pytest.mark.parametrize(("length", "aligned"), [(24, True), (1001, False), (4096, True), (1 << 17, False)])
def test_what_gradients_of_rows_ask_for_compiles(
    length: int, aligned: bool, finish: str, element: str, capability: tuple[int, int]
) -> None:
    nvrtc_or_skip()
    fmt, rows = get_format(element), rows_in_registers.Rows(1000, length, length, aligned)
    gpu, binary32 = Gpu(0, "a GPU", capability), get_format("binary32")
    of_a_number = finish in ("variance", "total")
    formats = (fmt, binary32 if of_a_number else fmt, binary32 if finish == "total" else fmt)
    if finish == "log_share" and not row_gradients.is_log_share_kept(length, gpu):
        pytest.skip("exponentials.cu makes it")
    for weighted in (False, True) if finish in ("unit", "standard") else (False,):
        recipe = row_gradients.row_gradients_recipe(
            finish, rows, None if of_a_number else rows, formats, 1e-6, gpu, weighted
        )
        (choice,) = recipe.kernels
        asked_for(choice, capability)


@pytest.mark.slow(4)
@pytest.mark.some(10)
@pytest.mark.parametrize("capability", [(7, 5), (9, 0)], ids=lambda pair: f"sm_{pair[0]}{pair[1]}")
@pytest.mark.parametrize("element", ["binary16", "bfloat16", "binary32", "binary64"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize(
    ("length", "aligned"), [(24, True), (1001, False), (4096, True), (1 << 17, False), (1 << 20, True)]
)
def test_what_losses_and_their_gradients_ask_for_compiles(
    length: int, aligned: bool, smoothing: float, element: str, capability: tuple[int, int]
) -> None:
    nvrtc_or_skip()
    fmt, weights = get_format(element), Weights(smoothing)
    gpu, rows = Gpu(0, "a GPU", capability), rows_in_registers.Rows(1000, length, length, aligned)
    for recipe in (
        cross_entropy.cross_entropy_recipe(rows, fmt, weights, gpu),
        cross_entropy.gradient_recipe(rows, fmt, weights),
    ):
        (choice,) = recipe.kernels
        assert ".local" not in asked_for(choice, capability)


@pytest.mark.slow(1)
@pytest.mark.some(2)
@pytest.mark.parametrize("capability", [(7, 5), (9, 0)], ids=lambda pair: f"sm_{pair[0]}{pair[1]}")
@pytest.mark.parametrize("element", ["binary16", "bfloat16", "binary32", "binary64"])
@pytest.mark.parametrize("mean", [False, True], ids=["sums", "means"])
def test_sums_by_index_compile(mean: bool, element: str, capability: tuple[int, int]) -> None:
    """Counted and sorted places, numbers and rows, few and many rows to a slot; nothing is spilled."""
    nvrtc_or_skip()
    fmt = get_format(element)
    gpu: Any = SimpleNamespace(
        compute_capability=capability, multiprocessors=132, shared_memory=227 << 10, l2=50 << 20
    )
    recipes = []
    for n, slots, width in (
        (1000, 10, 1),
        (1 << 23, 1 << 20, 1),
        (5000, 100, 512),
        (5000, 4000, 512),
        (5000, 4000, 33),
        (5000, 4000, 64),
    ):
        size = fmt.dtype.itemsize if width == 1 else 0
        room = index_sums.Room.of(n, slots, width, size)
        for wide in () if mean else (False, True):
            if room.passes:
                recipes += index_sums.sort_recipes(n, slots, wide, room, size, 1, 0)
            else:
                recipes += [
                    index_sums.count_recipe(n, slots, wide, room),
                    index_sums.place_recipe(n, slots, wide, room, size, 1),
                ]
        if width > 1:
            recipes.append(
                index_sums.rows_recipe(n, slots, width, width, True, room, fmt, fmt, gpu, mean=mean)
            )
    for wide, packed in ((False, True), (True, False)) if mean else ((True, True),):
        words = slot_sums.SlotWords.of(100_000, 1000, fmt, mean, gpu)
        assert words is not None
        recipes.append(
            slot_sums.slot_sums_recipe(100_000, 1000, wide, words, 1, packed, fmt, fmt, gpu, mean=mean)
        )
    for kernel in {
        (each.source, tuple(each.macros.items())): each for recipe in recipes for each in recipe.kernels
    }.values():
        assert ".local" not in asked_for(kernel, capability), kernel.macros


@pytest.mark.slow(4)
@pytest.mark.some(2)
@pytest.mark.parametrize("capability", TOLD_APART, ids=lambda pair: f"sm_{pair[0]}{pair[1]}")
@pytest.mark.parametrize("element", ["binary16", "bfloat16", "binary32", "binary64"])
def test_exact_sums_along_axes_compile(
    element: str, capability: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What recipes ask for: lanes, parts of rows, short rows; columns that lanes, threads and blocks have."""
    nvrtc_or_skip()
    monkeypatch.setattr(Gpu, "multiprocessors", 132)
    fmt, gpu = get_format(element), Gpu(0, "a GPU", capability)
    recipes = [
        exact_rows.exact_rows_recipe(rows, length, length + gap, False, fmt, fmt, gpu)
        for rows, length, gap in (
            (1 << 20, 3, 0),
            (1 << 20, 3, 1),
            (1 << 20, 17, 0),
            (1 << 20, 100, 0),
            (1 << 20, 100, 1),
            (1 << 14, 1 << 14, 0),
            (3, 1 << 24, 0),
        )
    ] + [
        exact_columns.exact_columns_recipe(
            columns.Columns(outer, inner, length * inner, inner), length, True, fmt, fmt, gpu
        )
        for outer, length, inner in (
            (1, 16, 1 << 24),
            (1, 1 << 20, 64),
            (1, 1000, 10_001),
            (1, 1 << 20, 1001),
            (1, 1 << 20, 2),
            (1 << 16, 16, 8),
        )
    ]

    def plan(length: int) -> Plan:
        return make_plan(length, fmt, gpu.unit)

    recipes += [
        recipe
        for recipe in (
            exact_rows.planned_rows_recipe(plan(257), 1 << 20, 257, True, fmt, gpu),
            exact_rows.planned_rows_recipe(plan(3000), 1 << 14, 3000, True, fmt, gpu),
            exact_columns.planned_columns_recipe(
                plan(64), columns.Columns(1 << 16, 16, 1024, 16), True, fmt, gpu
            ),
            exact_columns.planned_columns_recipe(
                plan(1000), columns.Columns(1, 10_001, 0, 10_001), True, fmt, gpu
            ),
        )
        if recipe is not None  # of 16 bits
    ]
    kernels = [kernel for recipe in recipes for kernel in recipe.kernels]
    tiles = {"exact_tile_rows", "exact_tile_columns"} if capability >= (9, 0) else set()
    assert {kernel.source for kernel in kernels} == {
        "exact_rows",
        "exact_short_rows",
        "exact_columns",
    } | tiles
    assert {kernel.macros.get("PARTS") for kernel in kernels} == {0, 1, None}
    for kernel in kernels:
        task = task_of(f"{kernel.source}.cu", kernel.macros, "sm_{}{}".format(*capability))
        binary = compile_once(replace(task, options=(*task.options, "--ptxas-options=-v")))
        assert "warning" not in binary.log
        assert f".entry {kernel.source}(" in binary.ptx
        if capability == (9, 0):
            # With one block less on a multiprocessor nothing is spilled.  Columns of binary32 take 2 to 7 % longer then, two
            # columns of binary64 3 to 5 % if short, 1 % less if long, 1001 columns 8 % longer (H200).
            most = {"binary32": 64, "binary64": 8}.get(element, 0) if kernel.source == "exact_columns" else 0
            if (kernel.source, "PLANNED" in kernel.macros) == ("exact_columns", True):
                most = 80  # around calls that few columns need: they are read as fast as exact sums, which spill nothing
            spilled = re.findall(r"(\d+) bytes spill stores", binary.log)
            assert spilled
            assert max(map(int, spilled)) <= most, kernel.macros


LISTS = {"list_segments.cu": {"THREADS": "512", "RESIDENT": "2"}, "offsets.cu": {}}


@pytest.mark.parametrize("source", LISTS)
def test_kernels_that_look_at_no_numbers_compile_for_every_architecture(source: str) -> None:
    nvrtc_or_skip()
    for capability in CAPABILITIES:
        assert compile_once(task_of(source, LISTS[source], "sm_{}{}".format(*capability))).log == ""


def compiles_if(source: str, macros: Mapping[str, Any], facts: Sequence[str]) -> None:
    """Asserts that all facts hold of a kernel, and that the compiler sees if one does not."""
    options = ("--std=c++17", *(f"--define-macro={key}={value}" for key, value in macros.items()))
    text, files = with_facts(source, facts), read_sources(source)
    compile_cuda(CompileTask((("check.cu", text), *files), options, "sm_90"))
    wrong = text.replace(facts[-1], facts[-1] + " + 8")
    with pytest.raises(CompileError, match="static assertion failed"):
        compile_cuda(CompileTask((("check.cu", wrong), *files), options, "sm_90"))


def structures() -> dict[str, type[Struct]]:
    """All that the host fills, by name, in the order in which they can be declared."""
    names = {
        name
        for module in list(sys.modules)
        if module.startswith("tcu.gpu.")
        for name in vars(sys.modules[module])
    }
    return {
        each.__name__: each
        for each in Struct.__subclasses__()
        if {each.__name__, f"{each.__name__}Problem"} & names
    }


@pytest.mark.parametrize("real", ["float", "double"])
def test_host_and_device_agree_on_every_structure(real: str) -> None:
    """Sizes and places of fields; a structure that kernels include is what the host fills."""
    nvrtc_or_skip()
    declared = {**structures(), "TransformLevel": transforms.LEVELS[{"float": 4, "double": 8}[real]]}
    text = "".join(f"#define {name} unsigned\n" for name in ("Code", "WORD", "PRODUCT", "SOURCE"))
    text += (
        f"#define REAL {real}\ntypedef long long i64; typedef unsigned u32; typedef unsigned long long u64;\n"
    )
    facts = []
    for each in declared.values():
        text += re.sub(r"\b[a-z]+::", "", each.text())
        facts += [f"sizeof({each.__name__}) == {ctypes.sizeof(each)}"]
        facts += [
            f"__builtin_offsetof({each.__name__}, {name}) == {each.offset(name)}"
            for name, *_ in each._fields_
        ]
    checks = "".join(f"static_assert({fact});\n" for fact in facts)
    compile_cuda(CompileTask((("check.cu", text + checks),), ("--std=c++17",), "sm_75"))
    for fact in (facts[0], facts[-1]):
        wrong = text + checks.replace(fact, fact + " + 8")
        with pytest.raises(CompileError, match="static assertion failed"):
            compile_cuda(CompileTask((("check.cu", wrong),), ("--std=c++17",), "sm_75"))


def test_every_structure_is_included_by_a_kernel() -> None:
    kernels = [path.name for path in (Path(structs.__file__).parent / "cuda" / "kernels").glob("*.cu")]
    texts = {
        text for kernel in kernels for name, text in read_sources(kernel) if name.startswith("generated/")
    }
    assert {each.text() for each in structures().values()} <= texts
    assert len({each.text() for each in transforms.LEVELS.values()}) == 1


@pytest.mark.parametrize(
    ("source", "facts"),
    [
        ("columns.cu", [f"UNITS == {columns._UNITS[True]}"]),
        (
            "staged_columns.cu",
            [f"UNITS == {columns._STAGED_UNITS}", f"StagedLeaves::TILE_BYTES == {columns._TILE}"],
        ),
        ("segments.cu", [f"STATES == {segments.STATES}"]),
        ("exact_segments.cu", [f"STATES == {segments.STATES}", f"WORDS == {sums.LIMBS + sums.COUNTS}"]),
        ("scan.cu, chunks", [f"GROUP * sizeof(Code) == {scans._GROUP}"]),
    ],
)
def test_host_and_device_agree_on_numbers(source: str, facts: list[str]) -> None:
    """Those that the sources find from others."""
    nvrtc_or_skip()
    layout = "ALIGNED" if "columns" in source else "SHIFTED"
    macros = {
        "ELEMENT": "BINARY16",
        "MMAS": 1,
        "LAYOUT": layout,
        **{**SUMS, **EXACT_SEGMENTS, **SCANS}[source],
    }
    if source in SCANS:
        macros |= {"RESULT": 2, "EXCLUSIVE": 0, "REVERSE": 0}
    compiles_if(source.partition(",")[0], macros, facts)


@pytest.mark.some(5)
@pytest.mark.parametrize("capability", [(7, 5), (9, 0), (12, 0)], ids=lambda pair: f"sm_{pair[0]}{pair[1]}")
@pytest.mark.parametrize("term", ["VALUE", "PRODUCT", "SQUARE"])
def test_merging_compiles_for_every_architecture(term: str, capability: tuple[int, int]) -> None:
    nvrtc_or_skip()
    binary = compile_once(task_of("merge.cu", {"TERM": term}, "sm_{}{}".format(*capability)))
    assert binary.log == ""
    assert ".local" not in binary.ptx
    product = term != "VALUE"
    facts = [f"PACKED + COUNTS + 3 == {merge.PACKED_OF[product]}", f"WORDS == {sums.WORDS_OF[product]}"]
    compiles_if("merge.cu", {"TERM": term}, facts)


def test_included_files_are_found_through_each_other_and_once() -> None:
    problem = ["generated/arrays/LIMITS.inc", "generated/mma/Matrix.inc", "generated/mma/Problem.inc"]
    shared = ["device/mma/output_fragment.cuh", "device/load/matrix.cuh", "device/types/types.cuh", *problem]
    assert [name for name, _ in read_sources("mma.cu")] == ["mma.cu", "device/mma/fragments.cuh", *shared]
    assert [name for name, _ in read_sources("wgmma.cu")] == ["wgmma.cu", *shared]
    folder = {"a": '#include "b"\n', "b": '  #  include "a"\n#include "c"', "c": "// nothing"}
    assert dict(read_sources("a", folder)) == folder


def test_a_task_holds_what_the_kernel_leaves_open() -> None:
    task = task_for(KERNELS[0], "sm_80")
    assert task.architecture == "sm_80"
    assert '--define-macro=MNEMONIC="mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"' in task.options
    assert replace(task, architecture="sm_90") != task


def test_a_compiler_that_cannot_be_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        @staticmethod
        def nvrtcVersion() -> None:
            raise RuntimeError("libnvrtc.so.13 not found")

    monkeypatch.setattr(compiler_module, "cuda_module", lambda name: Broken)
    compiler_version.cache_clear()
    with pytest.raises(ExtraMissingError, match=r"NVRTC cannot be loaded.*tcu\[cuda13\].*libnvrtc"):
        compiler_version()
