"""Contract: what programs do between their tensor calls in one launch on a GPU has the bits of their steps.

Sums of antidiagonals of products of digits, powers of points, terms added in
pairs.  Without a GPU: the kernels compile for every architecture, and run on
the host, thread by thread, they give what NumPy gives; arrays that they do not
take are left to the steps.  With one: the same at the sizes of real products.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda_on_host import HostLibrary, compiled_for_host, compiler_or_skip
from gpu_support import gpu_or_skip, library_or_skip
from launches import ends_here
from test_gpu_compile import CAPABILITIES, nvrtc_or_skip

import tcu
from tcu.algorithms import integers
from tcu.algorithms import polynomials as steps
from tcu.gpu import antidiagonals, polynomials
from tcu.gpu.compiler import compile_cuda, task_of
from tcu.gpu.device import Gpu
from tcu.gpu.launch import KernelChoice
from tcu.machine import GpuExecutor
from tcu.machine.executors import IdealExecutor

STRUCTURES = {
    ("antidiagonals.cu", "add_antidiagonals"): antidiagonals.Antidiagonals,
    ("polynomials.cu", "powers"): polynomials.Powers,
    ("polynomials.cu", "add_in_pairs"): polynomials.Pairs,
}
MACROS = {
    "antidiagonals.cu": [antidiagonals.macros_of(np.dtype(t), c) for t in ("int32", "int64", "float32", "float64") for c in (3, 256)],
    "polynomials.cu": [polynomials.macros_of(width, count) for width, count in ((16, 2), (37, 100), (256, 65536))],
}  # fmt: skip


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch, built: Path) -> list[str]:
    """Kernels are compiled for the host and run at once; their names, in order."""
    compiler_or_skip()
    launches: list[str] = []

    def find(source: str, entry: str, macros: Any, gpu: Gpu) -> Any:
        return compiled_for_host(source, entry, STRUCTURES[source, entry].__name__, macros, built)

    def start(choice: KernelChoice, kernel: Any, stream: int) -> None:
        launches.append(choice.entry)
        kernel(choice.problem, choice.blocks, choice.threads)

    ends_here(monkeypatch, start, find)
    library = HostLibrary()
    for module in (antidiagonals, polynomials):
        monkeypatch.setattr(module, "library_of", lambda x: library)
        monkeypatch.setattr(module, "find_gpu", lambda ordinal: Gpu(0, "host", (9, 0)))
        monkeypatch.setattr(module, "current", lambda gpu: contextlib.nullcontext())
    return launches


class InOneLaunch(IdealExecutor):
    def add_antidiagonals(self, result: Any, product: Any, first: int) -> bool:
        return antidiagonals.add_antidiagonals(result, product, first)

    def powers(self, x: Any, width: int) -> Any:
        return polynomials.powers(x, width)

    def add_in_pairs(self, values: Any, base: Any) -> Any:
        return polynomials.add_in_pairs(values, base)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32, np.float64])
@pytest.mark.parametrize(
    ("members", "blocks", "rows", "columns", "side", "first"),
    [(1, 1, 16, 4, 4, 0), (3, 2, 23, 16, 16, 2), (1, 1, 700, 5, 8, 1), (2, 3, 1100, 32, 32, 0), (1, 1, 300, 256, 256, 3),
     (2, 1, 130, 33, 40, 5)],
)  # fmt: skip
def test_antidiagonals(
    dtype: type, members: int, blocks: int, rows: int, columns: int, side: int, first: int, host: list[str]
) -> None:
    rng = np.random.default_rng(rows)
    top = 1 << (24 if dtype is np.float32 else 31)
    product = rng.integers(-top, top, (members, blocks, rows, columns)).astype(dtype)
    strips = -(-rows // side)
    wanted = rng.integers(-(1 << 40), 1 << 40, (members, first + blocks * columns + strips, side))
    got = wanted.copy()
    integers._add_columns(tcu.Machine(16), wanted, product, first)
    assert antidiagonals.add_antidiagonals(got, product, first)
    assert np.array_equal(got, wanted)
    assert host == ["add_antidiagonals"]


def test_what_is_no_product_of_digits_is_left_to_the_steps(host: list[str]) -> None:
    result, product = np.zeros((1, 9, 4), np.int64), np.ones((1, 1, 16, 4), np.int64)
    add = antidiagonals.add_antidiagonals
    assert not add(result.astype(object), product, 0)
    assert not add(result, product.astype(np.float16), 0)
    assert not add(result, product.transpose(0, 1, 3, 2), 0)
    assert not add(result[:, ::2], product, 0)
    assert not add(result, np.ones((1, 1, 4, 300), np.int64), 0)
    assert not add(result, product[:, :, :0], 0)
    assert not host
    assert not result.any()


def test_integers_by_one_launch_for_each_block_of_columns(host: list[str]) -> None:
    fused, plain = (tcu.Machine(64, 5, executor=kind()) for kind in (InOneLaunch, IdealExecutor))
    a, b = 3**4000, -(7**900)
    for algorithm in ("schoolbook", "karatsuba"):
        assert fused.integer_multiply(a, b, algorithm=algorithm) == a * b
        plain.integer_multiply(a, b, algorithm=algorithm)
    assert set(host) == {"add_antidiagonals"}
    assert fused.ledger == plain.ledger


@pytest.mark.parametrize("width", [1, 2, 3, 16, 32, 33, 100, 256])
def test_powers(width: int, host: list[str]) -> None:
    x = np.random.default_rng(width).uniform(-1.1, 1.1, 14)
    for given in (x, x[::-2]):
        got = polynomials.powers(given, width)
        assert (
            got.tobytes()
            == steps._doubled(tcu.Machine(16), steps._Reals(tcu.Machine(16)), given, width).tobytes()
        )
    assert polynomials.powers(x.astype(np.float32), width) is None
    assert polynomials.powers(x[:0], width) is None


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 7, 8, 63, 64, 65, 1000])
def test_terms_in_pairs(count: int, host: list[str]) -> None:
    rng = np.random.default_rng(count)
    ring = steps._Reals(tcu.Machine(16))
    x = rng.uniform(-1.1, 1.1, 13)
    for values in (
        rng.standard_normal((count, 13)),
        rng.standard_normal((13, count)).T,
        np.moveaxis(rng.standard_normal((3, 13, count)), -1, 0),
    ):
        got = polynomials.add_in_pairs(values, x)
        assert got.tobytes() == steps._in_pairs(tcu.Machine(16), ring, values, x).tobytes()
    assert polynomials.add_in_pairs(values.astype(np.float32), x) is None
    assert polynomials.add_in_pairs(values, x.astype(np.float32)) is None
    assert polynomials.add_in_pairs(values[..., :0], x[:0]) is None


def test_polynomials_by_few_launches(host: list[str]) -> None:
    rng = np.random.default_rng(5)
    x = rng.uniform(-1, 1, 40)
    for m, n in ((16, 5), (16, 100), (16, 3000), (256, 300), (1024, 1000)):
        fused, plain = (tcu.Machine(m, 5, executor=kind()) for kind in (InOneLaunch, IdealExecutor))
        a = rng.standard_normal(n)
        assert fused.evaluate(a, x).tobytes() == plain.evaluate(a, x).tobytes()
        assert fused.ledger == plain.ledger
    host.clear()
    tcu.Machine(1024, executor=InOneLaunch()).evaluate(a, x)
    assert host == ["powers", "add_in_pairs"]


@pytest.mark.some(7)
@pytest.mark.parametrize("capability", CAPABILITIES, ids=lambda pair: f"sm_{pair[0]}{pair[1]}")
@pytest.mark.parametrize("source", MACROS)
def test_they_compile_for_every_architecture(source: str, capability: tuple[int, int]) -> None:
    nvrtc_or_skip()
    for macros in MACROS[source]:
        binary = compile_cuda(task_of(source, macros, "sm_{}{}".format(*capability)))
        assert binary.log == ""
        assert ".local" not in binary.ptx
        assert "fma" not in binary.ptx, "the bits would not be those of the steps"


# ---- with a GPU ----


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32, np.float64])
def test_antidiagonals_on_a_gpu(dtype: type) -> None:
    gpu_or_skip()
    cupy = library_or_skip("cupy")
    executor = GpuExecutor("u8")
    rng = np.random.default_rng(1)
    for members, blocks, rows, columns, side, first in (
        (1, 1, 20_255, 256, 256, 2),
        (3, 5, 4111, 64, 64, 0),
        (40, 1, 500, 7, 16, 1),
    ):
        top = 1 << (24 if dtype is np.float32 else 31)
        product = rng.integers(-top, top, (members, blocks, rows, columns)).astype(dtype)
        wanted = np.zeros((members, first + blocks * columns + -(-rows // side), side), np.int64)
        got = cupy.asarray(wanted)
        integers._add_columns(tcu.Machine(16), wanted, product, first)
        assert executor.add_antidiagonals(got, cupy.asarray(product), first)
        assert np.array_equal(got.get(), wanted)
        assert not executor.add_antidiagonals(wanted, product, first)


@pytest.mark.gpu
def test_powers_and_pairs_on_a_gpu() -> None:
    gpu_or_skip()
    cupy = library_or_skip("cupy")
    executor = GpuExecutor("binary64")
    ring = steps._Reals(tcu.Machine(16))
    rng = np.random.default_rng(2)
    x = rng.uniform(-1.01, 1.01, 5000)
    for width in (1, 16, 37, 256):
        got = executor.powers(cupy.asarray(x), width)
        assert got.get().tobytes() == steps._doubled(tcu.Machine(16), ring, x, width).tobytes()
    for count in (2, 63, 256, 1001):
        for values in (rng.standard_normal((count, 5000)), rng.standard_normal((5000, count)).T,
                       np.moveaxis(rng.standard_normal((2, 5000, count)), -1, 0)):  # fmt: skip
            got = executor.add_in_pairs(cupy.asarray(values), cupy.asarray(x))
            assert got.get().tobytes() == steps._in_pairs(tcu.Machine(16), ring, values, x).tobytes()
    assert executor.powers(x, 16) is None
    assert executor.add_in_pairs(values, x) is None
