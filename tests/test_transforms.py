"""Contract: whole transforms, one launch a level, have the bits and the ledger of the same program's steps.

Without a GPU: the kernels compile for every architecture; run on the host,
thread by thread, they give the bits of the steps for every way of complex
products, format, length, layout and batch.  With one: the same against the
model of its unit (test_gpu_algorithms.py, and here the large and awkward ones).
"""

from __future__ import annotations

import contextlib
import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda_on_host import SequentialExecutor, compiled_for_host, compiler_or_skip

import tcu
from tcu.gpu import KERNELS, arrays, transforms
from tcu.gpu.device import Gpu
from tcu.units import find_instruction

FORMATS = {"binary16": 16, "bfloat16": 16, "tf32": 8, "binary64": 16}


class _HostLibrary:
    """NumPy arrays as if they were on a GPU."""

    name = "host"

    def ordinal(self, label: str, array: Any) -> int:
        return 0

    def view(self, label: str, array: Any, stream: int) -> arrays.DeviceArray:
        strides = tuple(step // array.itemsize for step in array.strides)
        return arrays.DeviceArray(array.ctypes.data, array.shape, strides, array.dtype, 0, array)

    def current_stream(self, ordinal: int) -> int:
        return 0

    def empty(self, like: Any, shape: tuple[int, ...], dtype: Any, ordinal: int) -> tuple[Any, int]:
        raw = np.full(np.prod(shape) * dtype.itemsize + 16, 0xFF, np.uint8)
        start = -raw.ctypes.data % 16
        array = raw[start : start + int(np.prod(shape)) * dtype.itemsize].view(dtype).reshape(shape)
        return array, array.ctypes.data


class HostGpu:
    """Stands in for the driver: kernels are compiled for the host and run at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path, fmt: str) -> None:
        self._folder, self._fmt = folder, fmt
        self._kept: list[Any] = []
        self.launches: list[tuple[str, dict[str, str]]] = []
        gpu = Gpu(0, "host", (9, 0))
        object.__setattr__(gpu, "multiprocessors", 2)
        library = _HostLibrary()
        monkeypatch.setattr(transforms, "library_of", lambda x: library)
        monkeypatch.setattr(transforms, "find_gpu", lambda ordinal: gpu)
        monkeypatch.setattr(transforms, "current", lambda gpu: contextlib.nullcontext())
        monkeypatch.setattr(transforms, "shared_memory_of", lambda gpu: 227 << 10)
        monkeypatch.setattr(transforms, "call", self._call)
        monkeypatch.setattr(transforms, "allow_shared", lambda *_: None)
        monkeypatch.setattr(transforms, "_function", self._function)
        monkeypatch.setattr(transforms, "KernelLaunch", self._launch)
        monkeypatch.setattr(transforms, "_prepared", type(transforms._prepared)())
        transforms._twiddles.cache_clear()
        transforms._matrices.cache_clear()

    def _call(self, name: str, *arguments: Any) -> Any:
        if name == "cuMemAlloc":
            array, address = _HostLibrary().empty(None, (arguments[0],), np.dtype(np.uint8), 0)
            self._kept.append(array)
            return address
        if name in ("cuMemcpyHtoD", "cuMemcpyDtoH"):
            ctypes.memmove(*arguments)
        elif name == "cuMemsetD32Async":
            ctypes.memset(arguments[0], arguments[1], 4 * arguments[2])
        else:
            assert name in ("cuStreamSynchronize", "cuMemFree"), name
        return None

    def _function(self, source: str, entry: str, macros: Any, gpu: Gpu) -> Any:
        structure = {"level.cu": "Level", "largest.cu": "Largest"}[source]
        run = compiled_for_host(source, entry, structure, macros, self._folder, self._fmt)
        return entry, dict(macros), run

    def _launch(self, function: Any, blocks: int, threads: int, problem: Any, shared: int = 0) -> Any:
        entry, macros, run = function
        assert threads == int(macros["THREADS"])

        def launch(stream: int) -> None:
            self.launches.append((entry, macros))
            assert run(ctypes.addressof(problem), blocks) == 0, "threads that wait for each other"

        return launch


class AtOnce(SequentialExecutor):
    at_once = True

    def transform(self, plan: Any, source: Any, target: Any, factor: float) -> bool:
        return transforms.transform(plan, source, target, factor, self.instruction)

    def largest(self, z: Any) -> Any:
        found = transforms.largest(z)
        return super().largest(z) if found is None else found


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kernels")


def machines(fmt: str, m: int) -> tuple[Any, Any]:
    instruction = find_instruction("H100", "mma", fmt, fmt)
    k = FORMATS[fmt]
    return tuple(
        tcu.Machine(m, 3, executor=kind(instruction, k)) for kind in (AtOnce, SequentialExecutor)
    )  # type: ignore[return-value]


def numbers(rng: np.random.Generator, *shape: int) -> Any:
    return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)


CASES = [
    ("binary16", 256, 4096, 1, 1, "four"), ("binary16", 256, 1000, 3, 1, "four"),
    ("binary16", 256, 60, 5, 2, "four"), ("binary16", 256, 97 * 4, 2, 1, "embedded"),
]  # fmt: skip


@pytest.mark.parametrize(("fmt", "m", "n", "batch", "parts", "product"), CASES)
def test_the_bits_are_those_of_the_steps(
    fmt: str, m: int, n: int, batch: int, parts: int, product: Any, monkeypatch: pytest.MonkeyPatch, built: Path
) -> None:
    compiler_or_skip()
    host = HostGpu(monkeypatch, built, fmt)
    fused, steps = machines(fmt, m)
    rng = np.random.default_rng(n)
    x = numbers(rng, batch, n)
    options: Any = {"product": product, "parts": parts}
    for run in (
        lambda machine, x: machine.dft(x, **options),
        lambda machine, x: machine.dft(x.astype(np.complex64), **options),
        lambda machine, x: machine.idft(x, norm="ortho", **options),
        lambda machine, x: machine.dft(x.real, **options),
        lambda machine, x: machine.rdft(x.real, **options),
        lambda machine, x: machine.irdft(x, n, **options),
    ):
        host.launches.clear()
        got, wanted = run(fused, x), run(steps, x)
        assert host.launches
        assert got.dtype == wanted.dtype
        assert got.tobytes() == wanted.tobytes()
    assert fused.ledger == steps.ledger
