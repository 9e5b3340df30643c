"""Contract: the kernel of powers and products modulo odd numbers gives Python's, without a GPU.

It runs on the host as its recipe says (cuda_on_host.py): moduli of every number of zeros in front, all ones, 1 and 3, of one
limb a lane and of several; exponents 0, 1, all ones and such that begin with zeros; factors above the modulus.  An even modulus
gives zeros.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_kernels_on_host import HostGpu, Result
from test_limbs_on_host import ONES

import tcu
from tcu.gpu import modular_powers
from tcu.gpu.launch import Launch


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch, built: Path) -> HostGpu:
    return HostGpu(monkeypatch, built)


@pytest.fixture(params=[1, 2, 4], ids=lambda per: f"{per} a lane")
def per(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modular_powers, "_PER", (request.param,))


def result_of(host: HostGpu, a: Any, n: Any, m: Any, count: int, *, powers: bool) -> Any:
    arrays = (a, n, m)
    strides: Any = tuple(x.shape[1] if len(x) > 1 else 0 for x in arrays)
    limbs: Any = tuple(x.shape[1] for x in arrays)
    recipe = modular_powers.modular_recipe(count, limbs, strides, powers=powers)
    result = Result(count * m.shape[1], np.uint32)
    addresses = [x.ctypes.data for x in arrays]
    Launch(recipe, host.gpu).start(addresses[0], addresses[1], result.array.ctypes.data, 0, addresses[2])
    result.check()
    return result.array.reshape(count, -1).copy()


def wanted(a: Any, n: Any, m: Any, *, powers: bool) -> Any:
    function = tcu.integers.powmod_limbs if powers else tcu.integers.multiply_mod_limbs
    return function(a, n, m)


def moduli(count: int, limbs: int) -> Any:
    rng = np.random.default_rng(limbs)
    m = rng.integers(0, 1 << 32, (count, limbs), dtype=np.uint32)
    for row in range(count):
        bits = max(32 * limbs - row * (7 * limbs + 1), 2)  # zeros in front
        number = int(tcu.integers.from_limbs(m[row])) % (1 << bits) | 1 << bits - 1 | 1
        m[row] = tcu.integers.to_limbs(number, limbs, dtype=np.uint32)
    m[0] = ONES
    m[-1] = 0
    m[-1, 0] = 1
    m[-2] = 0
    m[-2, 0] = 3
    return m


@pytest.mark.slow(3)
@pytest.mark.parametrize("limbs", [1, 2, 5, 7])
def test_products_and_powers(host: HostGpu, per: None, limbs: int) -> None:
    count = 7
    m = moduli(count, limbs)
    rng = np.random.default_rng(1)
    a, b = (rng.integers(0, 1 << 32, (count, limbs), dtype=np.uint32) for _ in range(2))
    a[0], b[1] = ONES, ONES
    a[2] = 0
    assert np.array_equal(result_of(host, a, b, m, count, powers=False), wanted(a, b, m, powers=False))
    for n in (
        rng.integers(0, 1 << 32, (count, 2), dtype=np.uint32),
        np.array([[5, 0]], np.uint32),
        np.full((1, 1), ONES),
    ):
        n[0] = n[0] if len(n) == 1 else 0
        assert np.array_equal(result_of(host, a, n, m, count, powers=True), wanted(a, n, m, powers=True))
    one = m[1:2].copy()
    short = a[:, :1].copy()
    assert np.array_equal(
        result_of(host, short, short, one, count, powers=False), wanted(short, short, one, powers=False)
    )


def test_all_lanes_are_full(host: HostGpu) -> None:
    """Of 32 limbs, whose highest is a lane's last: what is carried out of it counts."""
    m = np.full((2, 32), ONES)
    m[1, 1:] = np.random.default_rng(2).integers(1 << 31, 1 << 32, 31, dtype=np.uint32)
    m[1, 0] |= 1
    a = m.copy()
    a[:, 0] -= 1
    n = np.array([[0x1003]], np.uint32)
    assert np.array_equal(result_of(host, a, n, m, 2, powers=True), wanted(a, n, m, powers=True))
    assert np.array_equal(result_of(host, a, a, m, 2, powers=False), wanted(a, a, m, powers=False))


def test_an_even_modulus_gives_zeros(host: HostGpu) -> None:
    m = np.array([[6, 1], [7, 1]], np.uint32)
    found = result_of(host, m, m, m, 2, powers=False)
    assert found.tolist() == [[0, 0], [0, 0]]
    a = np.array([[9, 0], [9, 0]], np.uint32)
    assert result_of(host, a, a, m, 2, powers=False).tolist() == [[0, 0], [81, 0]]


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        ("if (top < found.out) return;", "return;"),
        ("carry += lane() < WARP - 1 ? next : 0;", "carry += 0;"),
        ("u64 step = lane() ? below : 0;", "u64 step = 0;"),
        ("for (int i = 0; i < 4; ++i) inverse", "for (int i = 0; i < 3; ++i) inverse"),
    ],
    ids=["subtraction", "moving down", "carries", "the inverse"],
)  # fmt: skip
def test_an_error_in_the_text_is_seen(host: HostGpu, change: tuple[str, str]) -> None:
    host.changes = {"modular_powers": dict([change])}
    rng = np.random.default_rng(3)
    a, b, m = (rng.integers(0, 1 << 32, (40, 6), dtype=np.uint32) for _ in range(3))
    m |= 1
    a[0], b[0], m[0] = 0, ONES, ONES
    a[0, 0] = 1
    assert not np.array_equal(result_of(host, a, b, m, 40, powers=False), wanted(a, b, m, powers=False))
