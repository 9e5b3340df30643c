"""Contract of sums along axes that are not the last on a GPU: every column has the bits that the model gives it alone.

Every short length, lengths around those at which leaves, turns and chunks begin,
few columns and many, rows that begin anywhere; inf and NaN stay in their columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from bits import same
from gpu_support import gpu_or_skip, library_or_skip, unit_or_skip
from numbers_of_all_kinds import KINDS, draw
from test_gpu_rows import check, check_exact, dtypes
from test_gpu_sums import to_gpu

import tcu
from tcu.engines.cuda import rows as device_rows
from tcu.errors import ParameterError

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module", autouse=True)
def torch() -> Any:
    unit_or_skip(gpu_or_skip())
    return library_or_skip("torch")


@dtypes
def test_columns_of_every_short_length(torch, dtype) -> None:
    rng = np.random.default_rng(7)
    for length in [*range(2, 41), 63, 64, 65, 100, 127, 128, 129, 255, 256, 257]:
        outer, inner = length % 5 + 1, [64, 8, 70, 200, 16, 24, 131][length % 7]
        x = draw(rng, outer * length * inner, dtype, list(KINDS)[length % len(KINDS)])
        check(
            x.reshape(outer, length, inner),
            to_gpu(torch, x, length % 3).reshape(outer, length, inner),
            axis=1,
        )


@dtypes
def test_columns_of_every_number(torch, dtype) -> None:
    rng = np.random.default_rng(8)
    for inner in range(2, 71):
        outer, length = (1, 50) if inner % 2 else (int(rng.integers(8, 20)), int(rng.integers(2, 300)))
        x = draw(rng, outer * length * inner, dtype).reshape(outer, length, inner)
        check(x, to_gpu(torch, x, inner % 4), axis=1)


@dtypes
@pytest.mark.parametrize(
    "length", [511, 1023, 1025, 2047, 2048, 2049, 8191, 8193, 16385, 32767, 32768, 32769, 131075]
)
def test_columns_of_every_long_length(torch, dtype, length) -> None:
    rng = np.random.default_rng(length)
    for outer, inner in ((1, 16), (3, 9), (1, 100)) if length < 20000 else ((1, 17), (2, 8)):
        x = draw(rng, outer * length * inner, dtype, "scaled").reshape(outer, length, inner)
        check(x, to_gpu(torch, x, outer % 2), axis=1)


@dtypes
def test_many_columns(torch, dtype) -> None:
    rng = np.random.default_rng(9)
    for shape, axis in (
        ((7, 100_003), 0),
        ((40, 65_536), 0),
        ((300, 20, 64), 1),
        ((200, 300, 24), 1),
        ((513, 40_000), 0),
    ):
        x = draw(rng, int(np.prod(shape)), dtype, "spread").reshape(shape)
        check(x, to_gpu(torch, x), axis=axis)


@dtypes
def test_columns_from_shared_memory(torch, dtype) -> None:
    """Rows of whole lines: of half a leaf, of two turns; columns that warps share, and many; longer ones beside them."""
    rng = np.random.default_rng(11)
    for shape, axis in (
        ((16, 90_000), 0),
        ((9, 12, 1032), 1),
        ((500, 64, 136), 1),
        ((2100, 4096), 0),
        ((2, 300, 72), 1),
        ((40_000, 96), 0),
        ((2, 4000, 40), 1),
        ((2, 17_000, 40), 1),
    ):
        x = draw(rng, int(np.prod(shape)), dtype, "scaled").reshape(shape)
        check(x, to_gpu(torch, x), axis=axis)
        check(x[..., :-3], to_gpu(torch, x)[..., :-3], axis=axis)


@dtypes
def test_narrow_columns(torch, dtype) -> None:
    """Rows of few bytes, of which lanes read many together: as long as turns at a time, shorter, and longer."""
    rng = np.random.default_rng(12)
    for shape in (
        (40, 32_768, 2),
        (3, 20_000, 3),
        (5000, 64, 16),
        (700, 2048, 1),
        (90, 9000, 4),
        (30, 5000, 7),
    ):
        x = draw(rng, int(np.prod(shape)), dtype, "spread").reshape(shape)
        check(x, to_gpu(torch, x), axis=1)


@dtypes
def test_exact_sums_of_columns(torch, dtype, monkeypatch) -> None:
    """Columns of lanes, of threads and of blocks, in rows that begin anywhere; numbers that fail the proof; no copies."""
    rng = np.random.default_rng(22)
    library = device_rows.home_of((torch.zeros(1, device="cuda"),), None)[0]
    monkeypatch.setattr(type(library), "ordered", lambda *given: pytest.fail("the array was copied"))
    shapes = [
        (2, 3, 70),
        (1, 16, 40_000),
        (3, 256, 24),
        (1, 1000, 2048),
        (1, 200_000, 3),
        (5, 700, 65),
        (2, 40_000, 8),
    ]
    for case, (shape, kind) in enumerate(
        (shape, kind) for shape in shapes for kind in ("normal", "spread", "special")
    ):
        x = draw(rng, int(np.prod(shape)), dtype, kind).reshape(shape)
        tensor = to_gpu(torch, x, case % 9).reshape(shape)
        cut = case % 3 * (shape[2] > 3)
        check_exact(
            x[..., cut:], tensor[..., cut:], 1, ["float64", "float32", "float16", "bfloat16"][case % 4]
        )


def test_layouts_and_options(torch) -> None:
    rng = np.random.default_rng(10)
    x = draw(rng, 6 * 700 * 40, np.float16, "special").reshape(6, 700, 40)
    tensor = to_gpu(torch, x)
    unit = gpu_or_skip().units[0].name
    for part in (np.s_[:, :, :33], np.s_[:, ::2, 3:], np.s_[1:, 5:], np.s_[:, :, 8:24]):
        check(x[part], tensor[part], axis=1)
        check(x[part], tensor[part], axis=0, keepdims=True)
    check(x.transpose(1, 0, 2), tensor.permute(1, 0, 2), axis=0)
    check(x, tensor, axis=(0, 1))
    for options in ({"block": 64}, {"block": 96}, {"block": 1024}, {"variant": "short-chain", "chain": 3}):
        check(x, tensor, axis=1, **options)
    for dtype in ("float64", "float32", "bfloat16", "float16"):
        check(x, tensor, axis=1, dtype=dtype)
    same(tcu.mean(tensor, axis=1), tcu.mean(x, axis=1, unit=unit))
    long = draw(rng, 40_000 * 20, np.float32, "normal").reshape(40_000, 20)
    same(tcu.mean(to_gpu(torch, long), axis=0), tcu.mean(long, axis=0, unit=unit))
    out = torch.empty(6, 40, device="cuda")
    assert tcu.sum(tensor, axis=1, out=out) is out
    same(out, tcu.sum(x, axis=1, unit=unit))


def test_no_copy_is_made(torch, monkeypatch) -> None:
    x = torch.randn(300, 64, device="cuda")
    library = device_rows.home_of((x,), None)[0]
    monkeypatch.setattr(type(library), "ordered", lambda *given: pytest.fail("the array was copied"))
    assert tcu.sum(x, axis=0).shape == (64,)


def test_jax() -> None:
    jax = library_or_skip("jax")
    x = np.random.default_rng(0).standard_normal((50, 300)).astype(np.float32)
    given = jax.numpy.asarray(x)
    assert np.array_equal(np.asarray(tcu.sum(given, axis=0)), tcu.sum(x, axis=0))
    assert np.array_equal(np.asarray(tcu.fsum(given, axis=0)), tcu.fsum(x, axis=0))
    with pytest.raises(ParameterError, match="transpose it"):
        tcu.fsum(given.reshape(50, 3, 100), axis=(0, 2))
