"""Contract: what the GPU's engine makes of numbers in limbs, with kernels that run on the host (cuda_on_host.py).

Arrays of NumPy stand for a GPU's: batches that broadcast, gaps in memory, both widths of limbs, either factor the longer one,
squares, rows that take turns, and results of the arrays' kind; errors say what is given.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda_on_host import HostLibrary
from test_kernels_on_host import HostGpu
from test_long_integers import limb_arrays

import tcu
from tcu.engines.cuda import limbs as engine
from tcu.errors import ParameterError
from tcu.gpu import limbs, modular_powers, ntt, staging
from tcu.integers import numbers


class Library(HostLibrary):
    name = "CuPy"

    def ordered(self, array: Any, order: tuple[int, ...]) -> Any:
        return array.transpose(order).copy()


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch, built: Path) -> Iterator[HostGpu]:
    gpu = HostGpu(monkeypatch, built)
    library = Library()
    monkeypatch.setattr(engine, "home_of", lambda arrays: (library, 0))
    monkeypatch.setattr(engine, "current", lambda ordinal: nullcontext())
    monkeypatch.setattr(engine, "find_gpu", lambda ordinal: gpu.gpu)
    monkeypatch.setattr(engine, "_broadcast", lambda library, label, x, shape: np.broadcast_to(x, shape))
    monkeypatch.setattr(limbs, "MOST_LIMBS", 60)
    for made in (engine._schoolbook, engine._by_transforms, engine._transform, engine._modular):
        made.cache_clear()
    yield gpu
    for made in (engine._schoolbook, engine._by_transforms, engine._transform, engine._modular):
        made.cache_clear()


@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
@pytest.mark.parametrize("lengths", [(3, 2), (2, 9), (40, 35), (30, 50)])
@pytest.mark.parametrize(
    "shapes", [((), ()), ((5,), (5,)), ((5,), ()), ((1,), (5,)), ((2, 1), (3,)), ((0,), (1,))]
)
def test_products(host: HostGpu, dtype: Any, lengths: tuple[int, int], shapes: Any) -> None:
    (a,), (b,) = (limb_arrays(dtype, shape, (n,), 7) for shape, n in zip(shapes, lengths, strict=True))
    found, wanted = engine.multiply_limbs(a, b), tcu.integers.multiply_limbs(a, b)
    assert found.dtype == dtype
    assert np.array_equal(found, wanted)
    by_transforms = sum(lengths) * a.itemsize // 4 > 60
    kernels = {"ntt_pass_back", "limb_products"} & set(host.launches)
    assert kernels == (({"ntt_pass_back"} if by_transforms else {"limb_products"}) if found.size else set())
    assert np.array_equal(engine.multiply_limbs(a, a), tcu.integers.square_limbs(a))


@pytest.mark.parametrize("size", [1 << 16, 64], ids=["kept memory", "memory of its own"])
def test_products_of_python_s_integers(host: HostGpu, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Through memory that is kept, where they fit in; each copy is done when it is asked for."""
    memory = {
        name: np.full(1 << 20, 0xEE, np.uint8) for name in ("cuMemHostAlloc", "cuMemAlloc", "allocated")
    }
    asked: list[str] = []

    def address(name: str) -> int:
        return memory[name].ctypes.data + -memory[name].ctypes.data % 16

    def called(name: str, *given: Any) -> Any:
        asked.append(name)
        if name in memory:
            return address(name)
        assert name.startswith(("cuMemcpyHtoD", "cuMemcpyDtoH", "cuStreamSynchronize"))
        return ctypes.memmove(*given[:3]) if "Memcpy" in name else None

    monkeypatch.setattr(engine, "allocated", lambda size: nullcontext(address("allocated")))
    for module in (engine, staging):
        monkeypatch.setattr(module, "call", called)
    monkeypatch.setattr(staging, "any_time", nullcontext)
    monkeypatch.setattr(staging, "_kept", {})
    monkeypatch.setattr(staging, "SIZE", size)
    monkeypatch.setattr(numbers, "_LEAST_BITS", 500)
    for a, b in ((3**400, 7**190), (2**700 - 1, 5**900), (-(3**2000), 7**300), (3**2000, 3**200)):
        host.launches.clear()
        assert tcu.integers.multiply(a, b, executor="gpu") == a * b
        assert tcu.integers.multiply(-b, [a, b], executor="gpu").tolist() == [-a * b, -b * b]
        assert tcu.integers.multiply(a, a, executor="gpu") == a * a
        assert bool(host.launches) == (min(a.bit_length(), b.bit_length()) >= 500 or abs(a) > 2**500)
    assert asked.count("cuMemHostAlloc") == (size > 64)


@pytest.mark.slow
def test_gaps_and_turns(host: HostGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = limb_arrays(np.uint32, (6,), (96, 50))
    for x, y in ((a[::2, ::2], b[::-2]), (a[:, :20].copy(), b[:, ::3])):
        y = y[: len(x)] if len(y) != len(x) else y
        x = x[: len(y)]
        assert np.array_equal(engine.multiply_limbs(x, y), tcu.integers.multiply_limbs(x, y))
    monkeypatch.setattr(engine, "_ROOM", 1 << 11)
    host.launches.clear()
    assert np.array_equal(engine.multiply_limbs(a, b), tcu.integers.multiply_limbs(a, b))
    assert host.launches.count("carry_blocks") == 3
    assert np.array_equal(engine.multiply_limbs(a[0], b), tcu.integers.multiply_limbs(a[0], b))
    x = limb_arrays(np.uint64, (2, 3), (1024,))[0]
    for back, function in ((False, tcu.integers.ntt), (True, tcu.integers.intt)):
        host.launches.clear()
        assert np.array_equal(engine.transform_rows(x, back), function(x))
        assert host.launches.count("ntt_reorder") == 3


@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
@pytest.mark.parametrize(
    "shapes",
    [
        ((), (), ()),
        ((5,), (5,), (5,)),
        ((5,), (), ()),
        ((), (1,), (5,)),
        ((2, 1), (3,), (2, 3)),
        ((0,), (1,), ()),
    ],
)
def test_modular_products_and_powers(host: HostGpu, dtype: Any, shapes: Any) -> None:
    (a,), (n,), (m,) = (
        limb_arrays(dtype, shape, (length,), 7) for shape, length in zip(shapes, (2, 1, 2), strict=True)
    )
    m |= dtype(1)
    integers = tcu.integers
    for check in (True, False):
        assert np.array_equal(
            engine.modular(a, n, m, powers=True, check=check), integers.powmod_limbs(a, n, m)
        )
        assert np.array_equal(
            engine.modular(a, n, m, powers=False, check=check), integers.multiply_mod_limbs(a, n, m)
        )
    assert set(host.launches) == ({"modular_powers"} if m.size and a.size else set())


def test_errors_of_moduli(host: HostGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    a, m = np.full((2, 3, 2), 9, np.uint32), np.full((2, 3, 2), 7, np.uint32)
    m[1, 2, 0] = 4
    with pytest.raises(
        ParameterError, match=r"m\[1, 2\] is even, and on a GPU moduli are odd: copy the arrays to the host"
    ):
        engine.modular(a, a, m, powers=True, check=True)
    with pytest.raises(ParameterError, match=r"^m is even"):
        engine.modular(a, a, m[1, 2], powers=False, check=True)
    assert not engine.modular(a, a, m, powers=True, check=False)[1, 2].any()
    for long, label in (((3, 1), "a"), ((1, 3), "b")):
        x, y = (np.ones(n, np.uint32) for n in long)
        with pytest.raises(
            ParameterError, match=f"{label} has 96 bits, more than m's 64: on a GPU give its remainder"
        ):
            engine.modular(x, y, m[0, 0], powers=False, check=True)
    assert engine.modular(m[0, 0], np.ones(3, np.uint32), m[0, 0], powers=True, check=True).tolist() == [0, 0]
    monkeypatch.setattr(modular_powers, "MOST_LIMBS", 1)
    with pytest.raises(
        ParameterError, match="m has 64 bits, and a GPU's kernel takes up to 32: copy the arrays to the host"
    ):
        engine.modular(a, a, m, powers=True, check=True)


def test_errors(host: HostGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ntt, "MOST_LEVELS", 8)
    a = np.ones(200, np.uint32)
    with pytest.raises(
        ParameterError, match=r"a product of 6400 and 6400 bits has more than 2\^12, which no kernel makes"
    ):
        engine.multiply_limbs(a, a)
    with pytest.raises(
        ParameterError, match=r"x has 512 numbers along its last axis: a GPU transforms up to 2\^8; copy x"
    ):
        engine.transform_rows(np.ones(512, np.uint64), False)
    monkeypatch.undo()
    with pytest.raises(
        ParameterError, match=r"b has shape \(3, 2\), and the result \(4, 3\) before the limbs: .* give b the"
    ):
        engine._broadcast(HostLibrary(), "b", np.ones((3, 2)), (4, 3, 2))
