"""Contract: the kernels of number-theoretic transforms give what the host's transform gives, and products are Python's.

The kernels run on the host as their recipes say (cuda_on_host.py): transforms of one pass, of two and, with smaller tiles, of
three; rows beside each other; products with one number for all, squares, carries through every limb, line and block.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_kernels_on_host import HostGpu, Result
from test_limbs_on_host import ONES, numbers_of_kinds, wanted

import tcu
from tcu.gpu import ntt
from tcu.gpu.launch import Launch


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch, built: Path) -> HostGpu:
    return HostGpu(monkeypatch, built)


@pytest.fixture
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ntt, "_TILE", 5)
    monkeypatch.setattr(ntt, "_LEAST_WIDTH", 2)


def started(host: HostGpu, recipe: Any, x: Any, y: Any, size: int, dtype: Any) -> Any:
    result, room = Result(size, dtype), Result(8 * recipe.room, np.uint8)
    room.array[:] = 0xEE
    Launch(recipe, host.gpu).start(
        x.ctypes.data, y.ctypes.data, result.array.ctypes.data, 0, room.array.ctypes.data
    )
    result.check()
    room.check()
    return result.array.copy()


def transform(host: HostGpu, x: Any, *, back: bool) -> Any:
    rows, n = x.shape
    recipe = ntt.transform_recipe(n.bit_length() - 1, rows, back=back)
    return started(host, recipe, x, x, x.size, np.uint64).reshape(x.shape)


def product(host: HostGpu, a: Any, b: Any, *, square: bool = False) -> Any:
    limbs = a.shape[1] + b.shape[1]
    levels = (2 * limbs - 2).bit_length()
    stride = b.shape[1] if len(b) > 1 else 0
    recipe = ntt.product_recipe(len(a), a.shape[1], b.shape[1], a.shape[1], stride, levels, square=square)
    return started(host, recipe, a, b, len(a) * limbs, np.uint32).reshape(len(a), limbs)


def numbers(rows: int, levels: int) -> Any:
    x = np.random.default_rng(levels).integers(0, 1 << 64, (rows, 1 << levels), dtype=np.uint64)
    x[0, ::3] = [tcu.integers.MODULUS - 1, tcu.integers.MODULUS, 2**64 - 1, 0][levels % 4]
    return x


@pytest.mark.slow(5)
@pytest.mark.parametrize("levels", [0, 1, 2, 5, 9, 11, 12, 13])
def test_transforms_are_the_host_s(host: HostGpu, levels: int) -> None:
    x = numbers(3 if levels < 12 else 2, levels)
    assert np.array_equal(transform(host, x, back=False), tcu.integers.ntt(x))
    assert np.array_equal(transform(host, x, back=True), tcu.integers.intt(x))


@pytest.mark.parametrize("levels", [6, 8, 10, 12])
def test_transforms_of_several_passes(host: HostGpu, levels: int, small_tiles: None) -> None:
    x = numbers(2, levels)
    assert np.array_equal(transform(host, x, back=False), tcu.integers.ntt(x))
    assert host.launches.count("ntt_pass") == len(ntt.Levels.of(levels)) >= 2
    assert np.array_equal(transform(host, x, back=True), tcu.integers.intt(x))


def test_tables_of_roots_of_two_parts(host: HostGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ntt, "_LOW_BITS", 4)
    monkeypatch.setattr(ntt, "LIMITS", ntt.LIMITS.replace("LOW_BITS = 12", "LOW_BITS = 4"))
    x = numbers(1, 9)
    assert np.array_equal(transform(host, x, back=False), tcu.integers.ntt(x))


def test_passes_cover_all_levels() -> None:
    for levels in range(ntt.MOST_LEVELS + 1):
        passes = ntt.Levels.of(levels)
        assert sum(each.radix for each in passes) == levels
        assert [each.parts for each in passes] == [
            sum(e.radix for e in passes[:i]) for i in range(len(passes))
        ]
        for each in passes[:-1]:
            assert each.width >= 3
            assert each.width <= levels - each.parts - each.radix
        assert len(passes) <= 3


@pytest.mark.slow(4)
@pytest.mark.parametrize("lengths", [(1, 1), (5, 3), (16, 16), (100, 30), (600, 500), (1100, 1000)])
def test_products_by_transforms(host: HostGpu, lengths: tuple[int, int]) -> None:
    count = 7 if sum(lengths) < 1000 else 2
    a, b = numbers_of_kinds(count, lengths[0], 1), numbers_of_kinds(count, lengths[1], 1)
    a[0], b[0] = ONES, ONES
    assert np.array_equal(product(host, a, b), wanted(a, b))
    if count == 7:
        assert np.array_equal(product(host, a, b[:1]), wanted(a, np.repeat(b[:1], count, 0)))
        assert np.array_equal(product(host, a, a, square=True), wanted(a, a))


def far_carry(length: int) -> tuple[Any, Any]:
    """A product whose digits, before the carries, are all ones, but for the lowest, which carry on: 2·5555 + 5555 = ffff."""
    a = np.full((1, length), 0x55555555, np.uint32)
    a[0, 0] = 0x5555FFFF
    return a, np.array([[0x10002]], np.uint32)


def test_carries_go_through_every_block(host: HostGpu) -> None:
    length = 40 * 1024  # so that the carries of blocks take two turns
    a, b = far_carry(length)
    assert np.array_equal(product(host, a, b), wanted(a, b))
    a = np.full((1, 3000), ONES)
    assert np.array_equal(product(host, a, a, square=True), wanted(a, a))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "change"),
    [
        ("carry_lines", ("(propagate == ALL) * PROPAGATES", "0u")),
        ("carry_blocks", ("carried = found.out;", "carried = 0;")),
        ("carry_limbs", ("into >> line & 1).into", "0).into")),
        ("ntt_pass", ("limb >> 16 : limb & 0xffff", "limb & 0xffff : limb >> 16")),
        ("ntt_pass_back", ("root(p, 0 - tile.twist(p, i))", "root(p, tile.twist(p, i))")),
        ("ntt_pass", ("if (sum < second) sum += EPSILON;", "")),
    ],
    ids=["lines", "blocks", "limbs", "digits", "twists", "reduction"],
)
def test_an_error_in_the_text_is_seen(host: HostGpu, source: str, change: tuple[str, str]) -> None:
    host.changes = {source: dict([change])}
    length = 2200
    x = numbers_of_kinds(1, length, 0)
    pairs: list[Any] = [
        far_carry(length if source != "carry_blocks" else 40 * 1024),
        (x, np.full((1, length), ONES)),
    ]
    assert not all(np.array_equal(product(host, *pair), wanted(*pair)) for pair in pairs)
