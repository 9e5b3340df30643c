"""Contract: the kernels of numbers in limbs give Python's products, without a GPU.

The kernels run on the host as their recipes say (cuda_on_host.py).  Lengths stand around words, rows of 32 bytes, tiles of 16
rows, a warp's tiles and warps; numbers are random, zeros, one, all ones (whose sums are the largest, and whose carries run
through the whole number) and powers of two ± 1.  A sum that leaves 32 bits with a sign is seen, and so is an error in a
kernel's text.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda_on_host import TOO_LARGE, KernelFailed
from test_kernels_on_host import HostGpu, Result

import tcu
from tcu.gpu import limbs
from tcu.gpu.launch import Launch

ONES = np.uint32(0xFFFFFFFF)


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch, built: Path) -> HostGpu:
    return HostGpu(monkeypatch, built)


def numbers_of_kinds(count: int, length: int, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 1 << 32, (count, length), dtype=np.uint32)
    for row in range(count):
        kind = (row + seed) % 7
        bit = int(rng.integers(32 * length))
        if kind == 1:
            x[row] = ONES
        elif kind == 2:
            x[row] = 0
            x[row, 0] = rng.integers(2)
        elif kind > 2:
            number = (1 << bit) + (kind - 4) if kind < 6 else (1 << 32 * length) - (1 << bit)
            x[row] = tcu.integers.to_limbs(max(number, 0) % (1 << 32 * length), length, dtype=np.uint32)
    return x


def product(host: HostGpu, a: Any, b: Any, count: int) -> Any:
    """Of rows of limbs, or of one number for all."""
    strides = [x.shape[1] if len(x) > 1 else 0 for x in (a, b)]
    recipe = limbs.product_recipe(count, a.shape[1], b.shape[1], *strides)
    result = Result(count * (a.shape[1] + b.shape[1]), np.uint32)
    Launch(recipe, host.gpu).start(a.ctypes.data, b.ctypes.data, result.array.ctypes.data, 0)
    result.check()
    return result.array.reshape(count, -1).copy()


def wanted(a: Any, b: Any) -> Any:
    x, y = (tcu.integers.from_limbs(each) for each in (a, b))
    return tcu.integers.to_limbs(x * y, a.shape[1] + b.shape[1], dtype=np.uint32)


LENGTHS = [
    (1, 1), (2, 1), (7, 1), (8, 8), (9, 8), (32, 32), (33, 31), (64, 64), (65, 63), (100, 3), (128, 128), (130, 127),
    (256, 256), (257, 255), (300, 9), (512, 300),
]  # fmt: skip


@pytest.mark.slow(2)
@pytest.mark.parametrize("lengths", LENGTHS, ids=lambda pair: "{}x{}".format(*pair))
def test_products_by_the_schoolbook(host: HostGpu, lengths: tuple[int, int]) -> None:
    count = 9
    a, b = numbers_of_kinds(count, lengths[0], 1), numbers_of_kinds(count, lengths[1], 3)
    a[0], b[0] = ONES, ONES
    assert np.array_equal(product(host, a, b, count), wanted(a, b))
    assert np.array_equal(product(host, a[:1], b, count), wanted(np.repeat(a[:1], count, 0), b))
    assert host.launches == ["limb_products"] * 2


@pytest.mark.slow
def test_the_longest_numbers_of_the_schoolbook(host: HostGpu) -> None:
    for lengths in ((2048, 2048), (3000, 1096)):
        a, b = (np.full((1, length), ONES) for length in lengths)
        assert np.array_equal(product(host, a, b, 1), wanted(a, b))


def test_no_sum_of_products_of_bytes_overflows(host: HostGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound is on the shorter number's bytes: 255² · 33,025 is the largest multiple below 2^31."""
    assert 255**2 * 33_025 < 1 << 31 <= 255**2 * 33_026
    assert 4 * limbs.MOST_LIMBS // 2 <= 33_025
    full = np.full((1, 8), ONES)
    start = {
        "u32 sums[TILES][4][4] = {};": "u32 sums[TILES][4][4] = {}; for (auto& x : sums) for (auto& y : x) for (auto& z : y) z = START;"
    }
    for room, fails in ((32 * 255**2, False), (32 * 255**2 - 1, True)):
        host.changes = {
            "limb_products": {
                old: new.replace("START", f"{(1 << 31) - 1 - room}u") for old, new in start.items()
            }
        }
        if fails:
            with pytest.raises(KernelFailed, match=TOO_LARGE):
                product(host, full, full, 1)
        else:
            product(host, full, full, 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        ("into >> lane & 1;\n        if (here", "into >> lane & 0;\n        if (here"),
        ("? limbs[i - 1] >> 32", "? limbs[i - 1] >> 33"),
        ("(4 + m) | (3 + m) << 4", "(4 + m) | (4 + m) << 4"),
        ("top + OWN_ROWS - 1)", "top + OWN_ROWS - 2)"),
        ("row + 15 < 0 ||", "row + 14 < 0 ||"),
    ],
    ids=["carries", "upper halves", "bytes", "the last row", "the last tile"],
)
def test_an_error_in_the_text_is_seen(host: HostGpu, change: tuple[str, str]) -> None:
    host.changes = {"limb_products": dict([change])}
    a = b = np.full((1, 544), ONES)  # of more rows than a warp has
    x = numbers_of_kinds(1, 544, 0)
    assert not all(np.array_equal(product(host, each, b, 1), wanted(each, b)) for each in (a, x))
