"""Contract: whole transforms, one launch a level, have the bits and the ledger of the same program's steps.

Without a GPU: the kernels compile for every architecture; run on the host,
thread by thread, they give the bits of the steps for every way of complex
products, format, length, layout and batch.  With one: the same against the
model of its unit (test_gpu_algorithms.py, and here the large and awkward ones).
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cuda_on_host import HostLibrary, SequentialExecutor, compiled_for_host, compiler_or_skip
from gpu_support import gpu_or_skip, library_or_skip
from launches import ends_here
from test_gpu_compile import TOLD_APART, nvrtc_or_skip

import tcu
from tcu.algorithms.transform_plan import transform_plan
from tcu.formats import get_format
from tcu.gpu import KERNELS, Kernel, tables, transforms
from tcu.gpu.compiler import compile_cuda, task_of
from tcu.gpu.device import Gpu
from tcu.gpu.launch import KernelChoice
from tcu.machine import GpuExecutor
from tcu.units import find_instruction

FORMATS = {"binary16": 16, "bfloat16": 16, "tf32": 8, "binary64": 16}


class HostGpu:
    """Stands in for the driver: kernels are compiled for the host and run at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path, fmt: str) -> None:
        self._folder, self._fmt = folder, fmt
        self._kept: list[Any] = []
        self.launches: list[tuple[str, dict[str, str]]] = []
        gpu = Gpu(0, "host", (9, 0))
        object.__setattr__(gpu, "multiprocessors", 2)
        library = HostLibrary()
        monkeypatch.setattr(transforms, "library_of", lambda x: library)
        monkeypatch.setattr(transforms, "find_gpu", lambda ordinal: gpu)
        object.__setattr__(gpu, "shared_memory", 227 << 10)
        flags = SimpleNamespace(CUstream_flags=SimpleNamespace(CU_STREAM_NON_BLOCKING=1))
        monkeypatch.setattr(tables, "cuda_module", lambda name: flags)
        monkeypatch.setattr(tables, "any_time", contextlib.nullcontext)
        for module in (transforms, tables):
            monkeypatch.setattr(module, "call", self._call)
            monkeypatch.setattr(module, "current", lambda gpu: contextlib.nullcontext())
        ends_here(monkeypatch, self._start, self._function)
        monkeypatch.setattr(transforms, "_prepared", type(transforms._prepared)())
        transforms._twiddles.cache_clear()
        transforms._matrices.cache_clear()

    def _call(self, name: str, *arguments: Any) -> Any:
        if name == "cuMemAlloc":
            array, address = HostLibrary().empty(None, (arguments[0],), np.dtype(np.uint8), 0)
            self._kept.append(array)
            return address
        if name in ("cuMemcpyHtoDAsync", "cuMemcpyDtoH"):
            ctypes.memmove(*arguments[:3])
        elif name == "cuStreamCreate":
            return 1
        elif name == "cuMemsetD32Async":
            ctypes.memset(arguments[0], arguments[1], 4 * arguments[2])
        else:
            assert name in ("cuStreamSynchronize", "cuStreamDestroy", "cuMemFree"), name
        return None

    def _function(self, source: str, entry: str, macros: Any, gpu: Gpu) -> Any:
        structure = {"level.cu": "TransformLevel", "largest.cu": "Largest"}[source]
        given = {name: str(value) for name, value in macros.items()}
        return entry, given, compiled_for_host(source, entry, structure, given, self._folder, self._fmt)

    def _start(self, choice: KernelChoice, function: Any, stream: int) -> None:
        entry, macros, kernel = function
        assert choice.threads == int(macros["THREADS"])
        self.launches.append((entry, macros))
        kernel(choice.problem, choice.blocks, choice.threads)


class AtOnce(SequentialExecutor):
    at_once = True

    def transform(self, plan: Any, source: Any, target: Any, factor: float) -> bool:
        return transforms.transform(plan, source, target, factor, self.instruction)

    def largest(self, z: Any) -> Any:
        found = transforms.largest(z)
        return super().largest(z) if found is None else found


def machines(fmt: str, m: int) -> tuple[Any, Any]:
    instruction = find_instruction("H100", "mma", fmt, fmt)
    k = FORMATS[fmt]
    return tuple(tcu.Machine(m, 3, executor=kind(instruction, k)) for kind in (AtOnce, SequentialExecutor))  # type: ignore[return-value]


def numbers(rng: np.random.Generator, *shape: int) -> Any:
    return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)


# Rows of full units and of shared ones; lengths that fill tiles, and that leave rows over; runs of every kind.
CASES = [
    ("binary16", 1, "four", 256, 4096, 1), ("binary16", 1, "four", 256, 1000, 3), ("binary16", 1, "four", 4096, 2048, 1),
    ("binary16", 1, "four", 65536, 512, 2), ("binary16", 1, "four", 16, 60, 5), ("binary16", 1, "embedded", 256, 96, 40),
    ("binary16", 1, "three", 64, 210, 7), ("binary16", 2, "four", 4096, 1024, 1), ("binary16", 3, "three", 256, 48, 2),
    ("bfloat16", 1, "four", 256, 720, 1), ("bfloat16", 2, "embedded", 1024, 300, 3), ("tf32", 1, "four", 256, 512, 1),
    ("tf32", 1, "three", 100, 100, 9), ("binary64", 1, "four", 256, 1024, 1), ("binary64", 1, "embedded", 64, 48, 2),
]  # fmt: skip


@pytest.mark.some(9)
@pytest.mark.slow(1)
@pytest.mark.parametrize(("fmt", "parts", "product", "m", "n", "batch"), CASES)
def test_the_bits_are_those_of_the_steps(
    fmt: str,
    parts: int,
    product: Any,
    m: int,
    n: int,
    batch: int,
    monkeypatch: pytest.MonkeyPatch,
    built: Path,
) -> None:
    compiler_or_skip()
    host = HostGpu(monkeypatch, built, fmt)
    fused, steps = machines(fmt, m)
    x = numbers(np.random.default_rng(n), batch, n)
    options: Any = {"product": product, "parts": parts}
    for run in (
        lambda machine: machine.dft(x, **options),
        lambda machine: machine.idft(x.astype(np.complex64), norm="ortho", **options),
    ):
        host.launches.clear()
        got, wanted = run(fused), run(steps)
        assert host.launches
        assert got.dtype == wanted.dtype
        assert got.tobytes() == wanted.tobytes()
    assert fused.ledger == steps.ledger


@pytest.mark.slow
def test_any_layout_gives_the_same_bits(monkeypatch: pytest.MonkeyPatch, built: Path) -> None:
    compiler_or_skip()
    HostGpu(monkeypatch, built, "binary16")
    fused, steps = machines("binary16", 256)
    z = numbers(np.random.default_rng(5), 2, 480)
    apart = np.zeros((2, 960), complex)
    apart[:, ::2] = z
    odd = np.zeros(961, np.complex64)[1:].reshape(2, 480)
    odd[...] = z
    single = np.zeros(961, np.float32)[1:].reshape(2, 480)
    single[...] = z.real
    for run in (
        lambda machine: machine.dft(apart[:, ::2]),
        lambda machine: machine.dft(odd),
        lambda machine: machine.idft(single),
        lambda machine: machine.dft(z.real[:, ::-1]),
        lambda machine: machine.dft(np.asfortranarray(z), axis=0),
        lambda machine: machine.dftn(z),
        lambda machine: machine.rdft(z.real),
        lambda machine: machine.irdft(z, 480),
        lambda machine: machine.irdft(z, 479),
        lambda machine: machine.dft(z, 257),  # a prime: its convolutions at once, the rest by steps
        lambda machine: machine.dft(z.real > 0),  # no real numbers in memory: by steps
    ):
        got, wanted = run(fused), run(steps)
        assert got.dtype == wanted.dtype
        assert got.tobytes() == wanted.tobytes()
    assert fused.ledger == steps.ledger


def test_every_scale_and_what_is_no_number(monkeypatch: pytest.MonkeyPatch, built: Path) -> None:
    compiler_or_skip()
    HostGpu(monkeypatch, built, "binary16")
    fused, steps = machines("binary16", 256)
    z = numbers(np.random.default_rng(6), 9, 64).astype(np.complex64)
    z *= np.array([1e-45, 1e-40, 1.2e-38, 1e-20, 0, 1, 1e20, 1e37, 1.0], np.float32)[:, None]
    z[-1, 5] = np.nan
    z[-2, 3] = complex(0, -np.inf)
    got, wanted = fused.dft(z), steps.dft(z)
    assert got[:-2].tobytes() == wanted[:-2].tobytes()
    assert np.isnan(got[-2:]).all()
    assert np.isnan(wanted[-2:]).all()
    planes = np.stack([z.real, z.imag])
    assert np.array_equal(fused.executor.largest(planes), np.abs(planes).max((0, 2)), equal_nan=True)


def test_the_comparison_sees_a_wrong_table(monkeypatch: pytest.MonkeyPatch, built: Path) -> None:
    compiler_or_skip()
    HostGpu(monkeypatch, built, "binary16")
    fused, steps = machines("binary16", 256)
    z = numbers(np.random.default_rng(7), 1, 256)
    assert fused.dft(z).tobytes() == steps.dft(z).tobytes()
    HostGpu(monkeypatch, built, "binary16")
    right = transforms.fragments
    monkeypatch.setattr(transforms, "fragments", lambda *given: right(*given)[..., ::-1].copy())
    assert fused.dft(z).tobytes() != steps.dft(z).tobytes()


def test_one_launch_for_each_level(monkeypatch: pytest.MonkeyPatch, built: Path) -> None:
    compiler_or_skip()
    host = HostGpu(monkeypatch, built, "binary16")
    fused, _ = machines("binary16", 256)
    fused.dft(numbers(np.random.default_rng(8), 1, 4096))
    assert [entry for entry, _ in host.launches] == ["largest", *["transform_level"] * 3]
    between = [macros["TARGET"] for _, macros in host.launches[1:]]
    assert between == ["u16", "u16", "float"], "levels hand on what the unit rounds to"


def test_words_of_fragments() -> None:
    """Lane l has column l // 4 of a tile, and the k of word l % 4 of each group."""
    for fmt, k in FORMATS.items():
        kernel = kernel_for(fmt, k)
        dtype = get_format(fmt).dtype
        matrices = (np.arange(2 * 20 * 20) % 250).reshape(1, 2, 20, 20).astype(dtype)
        words = transforms.fragments(matrices, kernel, 4)
        per_word = words.shape[-1]
        for part, tile, step, lane, word, place in (
            (0, 0, 0, 0, 0, 0),
            (1, 2, 1, 13, 0, 0),
            (1, 1, 0, 30, words.shape[-2] - 1, per_word - 1),
        ):
            row = step * k + word * 4 * per_word + lane % 4 * per_word + place
            column = tile * 8 + lane // 4
            wanted = matrices[0, part, row, column] if max(row, column) < 20 else 0
            found = words[0, part, tile, step, lane // 4, lane % 4, word, place]
            assert found == np.asarray(wanted, dtype).view(words.dtype)


def test_bytes_are_those_of_one_pass_a_level() -> None:
    plan = transform_plan(1 << 24, 16, "four", 1, "binary16", "float32", 13)
    assert plan is not None
    moved = transforms.bytes_moved(plan, 1, 4, kernel_for("binary16", 16))
    tables = 8 * sum((1 << 24) >> (4 * level) for level in range(5))
    assert moved == (8 + 12 + 4 * 8 + 12) * (1 << 24) + tables


def kernel_for(fmt: str, k: int) -> Kernel:
    output = "binary64" if fmt == "binary64" else "binary32"
    return next(row for row in KERNELS if (row.name, row.a, row.output, row.k) == ("mma", fmt, output, k))


def shapes(fmt: str, capability: tuple[int, int]) -> Iterator[Any]:
    rows = [row for row in KERNELS if row.name == "mma" and row.a == row.b == fmt and row.runs_on(capability)]
    limit = {(7, 5): 64, (8, 0): 163, (9, 0): 227}.get(capability, 99) << 10
    work = "float64" if fmt == "binary64" else "float32"
    for kernel in rows:
        for side, n, product, parts in (
            (16, 4096, "four", 1),
            (64, 2048, "three", 2),
            (100, 1000, "embedded", 1),
            (256, 1 << 16, "four", 3),
        ):
            if parts > 1 and get_format(fmt).dtype.itemsize > 2:
                parts = 1
            plan = transform_plan(n, side, product, parts, fmt, work, 9)  # type: ignore[arg-type]
            assert plan is not None
            between = transforms.between_levels(plan, kernel)
            outside = transforms.Memory("PAIRS", 4, 2 * n, 2)
            for number, level in enumerate(plan.levels):
                source = outside if number == 0 else between
                target = (
                    between if level.twiddles else transforms.Memory("PAIRS", plan.work.itemsize, 2 * n, 2)
                )
                shape = transforms.level_shape(kernel, plan, number, 3, source, target, 100, limit)
                if shape is not None:
                    assert shape.shared <= limit
                    yield shape


every_architecture = pytest.mark.parametrize(
    "capability",
    [pair if pair == (9, 0) else pytest.param(pair, marks=pytest.mark.slow) for pair in TOLD_APART],
    ids=lambda pair: f"sm_{pair[0]}{pair[1]}",
)


@pytest.mark.some(3)
@every_architecture
@pytest.mark.parametrize("fmt", FORMATS)
def test_levels_compile_for_every_architecture(fmt: str, capability: tuple[int, int]) -> None:
    nvrtc_or_skip()
    for macros in {tuple(shape.macros.items()) for shape in shapes(fmt, capability)}:
        binary = compile_cuda(task_of("level.cu", dict(macros), "sm_{}{}".format(*capability)))
        assert ".local" not in binary.ptx, macros
        assert binary.log == ""
        assert "fma" not in binary.ptx.replace("mma", ""), "the bits would not be those of the steps"


@every_architecture
def test_scaling_compiles_for_every_architecture(capability: tuple[int, int]) -> None:
    nvrtc_or_skip()
    for real in ("float", "double"):
        macros = {"SOURCE": real, "LOADS": "2", "THREADS": "256"}
        assert compile_cuda(task_of("largest.cu", macros, "sm_{}{}".format(*capability))).log == ""


# ---- with a GPU ----


class Stepwise(GpuExecutor):
    """The GPU by the program's steps, one tall product or elementwise operation after the other."""

    at_once = False


@pytest.mark.gpu
@pytest.mark.parametrize("product", ["four", "three", "embedded"])
@pytest.mark.parametrize(
    ("fmt", "parts"), [("binary16", 1), ("binary16", 2), ("bfloat16", 1), ("tf32", 1), ("binary64", 1)]
)
def test_on_a_gpu_the_bits_are_those_of_the_steps(fmt: str, parts: int, product: Any) -> None:
    gpu_or_skip()
    cupy = library_or_skip("cupy")
    rng = np.random.default_rng(17)
    for m, batch, n in (
        (256, 1, 1 << 20),
        (4096, 3, 1 << 15),
        (65536, 1, 1 << 18),
        (4096, 1, 30**4),
        (256, 700, 96),
    ):
        fused, steps = (tcu.Machine(m, executor=kind(fmt)) for kind in (GpuExecutor, Stepwise))
        x = cupy.asarray(numbers(rng, batch, n) * 10.0 ** rng.integers(-9, 9, (batch, 1)))
        for run in (tcu.Machine.dft, tcu.Machine.idft):
            for given in (x, x.astype(np.complex64), x.real, x[:, ::-1]):
                got, wanted = (
                    run(machine, given, product=product, parts=parts) for machine in (fused, steps)
                )
                assert got.dtype == wanted.dtype
                assert bool((got.view(np.uint32) == wanted.view(np.uint32)).all()), (m, batch, n)
        assert fused.ledger == steps.ledger
