"""Contract: the kernels of losses of rows and of their gradients have the bits of the model, without a GPU.

They run on the host as their recipes say (cuda_on_host.py): rows of a few lanes, of a warp, of a block, of a cluster and those that
are read twice, at any alignment and distance; gradients of long rows by several blocks.  Rows that do not count are not read, a target
that is no class gives NaN, and an error in the kernels' text is seen.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_kernels_on_host import BITS, HostGpu, Result, alike, complaint, placed
from test_row_functions_on_host import dtypes, numbers, small_clusters

from tcu.engines.host.cross_entropy import cross_entropy, cross_entropy_gradient
from tcu.formats import format_of
from tcu.gpu import rows_in_registers
from tcu.gpu.cross_entropy import cross_entropy_recipe, gradient_recipe
from tcu.gpu.device import Gpu
from tcu.gpu.launch import Launch, Recipe
from tcu.gpu.rows_in_registers import Rows
from tcu.plan.losses import Weights

PLAIN, ALL = Weights(), Weights(0.2, 1e-3, 4)
weighted = pytest.mark.parametrize("weights", [PLAIN, ALL], ids=["plain", "weighted"])


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch, built: Path) -> HostGpu:
    return HostGpu(monkeypatch, built)


def targets(count: int, length: int, weights: Weights) -> Any:
    """Of every row one; of some what is no class, or does not count."""
    found = np.random.default_rng(count).integers(0, length, count)
    found[1 % count], found[2 % count], found[0] = weights.ignore_index, length + 3, length - 1
    return found


def started(host: HostGpu, recipe: Recipe, *places: Any) -> None:
    x, classes, out, room = (each.ctypes.data for each in places)
    Launch(recipe, host.gpu).start(x, classes, out, 0, room)


def found_by_kernels(
    host: HostGpu, x: Any, classes: Any, weights: Weights, given: Any, gap: int = 0, shift: int = 0
) -> tuple[Any, Any, Any]:
    """(losses, what is kept, gradients) of rows that are ``gap`` numbers apart in memory."""
    (count, length), element = x.shape, format_of(x.dtype)
    line = np.pad(x, ((0, 0), (0, gap)), constant_values=np.nan).reshape(-1)
    place, host.readable = placed(line[: line.size - gap], shift)
    rows = Rows(count, length, length + gap, shift * x.itemsize % 16 == 0)
    work = np.dtype(np.float64 if x.dtype == np.float64 else np.float32)
    losses, parts, slopes = (
        Result(count, work, 0),
        Result(3 * count, work, 0),
        Result(count * length, x.dtype, 0),
    )
    started(host, cross_entropy_recipe(rows, element, weights, host.gpu), place, classes, losses.array, parts.array)  # fmt: skip
    kept = np.concatenate([parts.array.reshape(count, 3), given[:, None]], axis=1)
    started(host, gradient_recipe(rows, element, weights), place, classes, slopes.array, kept)
    for each in (losses, parts, slopes):
        each.check()
    return losses.array.copy(), parts.array.copy(), slopes.array.copy()


def by_model(x: Any, classes: Any, weights: Weights, given: Any) -> tuple[Any, Any, Any]:
    losses, parts = cross_entropy(x, classes, 1, weights)
    slopes = cross_entropy_gradient(given, x, classes, parts, 1, weights)
    return losses, parts.reshape(-1), slopes.reshape(-1)


def check(host: HostGpu, x: Any, weights: Weights, gap: int = 0, shift: int = 0) -> None:
    classes = targets(len(x), x.shape[1], weights)
    work = np.float64 if x.dtype == np.float64 else np.float32
    given = np.random.default_rng(7).standard_normal(len(x)).astype(work)
    found = found_by_kernels(host, x, classes, weights, given, gap, shift)
    for name, mine, wanted in zip(
        ("losses", "kept", "gradients"), found, by_model(x, classes, weights, given), strict=True
    ):
        assert alike(mine, wanted), (name, x.shape, gap, shift, mine, wanted)


@pytest.mark.slow(1)
@weighted
@dtypes
def test_rows_have_the_bits_of_the_model(host: HostGpu, dtype: Any, weights: Weights) -> None:
    for length, gap, shift in ((1, 0, 0), (3, 0, 0), (7, 2, 1), (64, 0, 0), (130, 6, 3), (1024, 8, 0)):
        check(host, numbers((9, length), dtype, length), weights, gap, shift)


@pytest.mark.slow(1)
@weighted
@dtypes
def test_rows_of_a_block(host: HostGpu, dtype: Any, weights: Weights) -> None:
    check(host, numbers((9, 4099), dtype, 5), weights, 1, 5)


@pytest.mark.slow(1)
@weighted
@dtypes
def test_longer_rows(host: HostGpu, dtype: Any, weights: Weights, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read twice; gradients by several blocks."""
    monkeypatch.setattr(rows_in_registers, "_MOST_WARPS", 2)
    monkeypatch.setattr(rows_in_registers, "_WARPS_APART", 2)
    monkeypatch.setattr(Gpu, "most_of_cluster", 1)
    check(host, numbers((5, 5000), dtype, 5), weights, 0, 3)
    assert host.macros[-2]["PASSES"] == host.macros[-1]["PASSES"] == 1
    monkeypatch.setattr(rows_in_registers, "_MOST_MORE", 2)
    check(host, numbers((5, 5000), dtype, 6), weights)


@pytest.mark.slow(1)
@weighted
@dtypes
def test_rows_of_a_cluster(
    host: HostGpu, dtype: Any, weights: Weights, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_clusters(monkeypatch)
    length = 4096 if dtype != np.float64 else 2048
    check(host, numbers((4, length), dtype, 3), weights)
    assert host.macros[-2]["CLUSTER"] == 2


def test_rows_that_do_not_count_are_not_read(host: HostGpu) -> None:
    x = np.full((3, 70), np.nan, np.float32)
    place, _ = placed(x.reshape(-1), 0)
    host.readable = (0, 0)
    losses, parts, slopes = (Result(size, np.dtype(np.float32), 0) for size in (3, 9, 210))
    classes, rows, form = np.full(3, -100), Rows(3, 70, 70, True), format_of(np.dtype(np.float32))
    kept = np.full((3, 4), np.nan, np.float32)
    started(host, cross_entropy_recipe(rows, form, PLAIN, host.gpu), place, classes, losses.array, parts.array)  # fmt: skip
    started(host, gradient_recipe(rows, form, PLAIN), place, classes, slopes.array, kept)
    assert not losses.array.any()
    assert not slopes.array.any()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "right", "wrong"),
    [
        ("cross_entropy", "exponent_of(distance) : 0, 0)", "exponent_of(distance) + 30 : 0, 0)"),
        ("cross_entropy", "power_of_two(-shift)", "power_of_two(1 - shift)"),
        ("cross_entropy", "if (counts && fits) loss", "if (counts) loss"),
        ("cross_entropy", "counts ? rounded_code(loss) : 0", "rounded_code(loss)"),
        ("cross_entropy", "rounded_real(__dsub_rn(mean, logs))", "rounded_real(mean)"),
        ("cross_entropy", "loss = plus(loss, times(times(all, all)", "loss = plus(loss, times(all"),
        ("cross_entropy_gradient", "over = fits ? parts[1] : not_a_number()", "over = parts[1]"),
        ("cross_entropy_gradient", "fused(times(exponential(minus(x, most)), over), factor, -less)", "minus(times(times(exponential(minus(x, most)), over), factor), less)"),
        ("cross_entropy_gradient", "target + row.beside, vector", "target, vector"),
        ("cross_entropy_gradient", "if (!counts || !fits) return;", "if (true) return;"),
        ("cross_entropy_gradient", "parts[2]), Working(1))", "parts[2]), Working(0))"),
    ],
)  # fmt: skip
def test_an_error_in_a_kernel_is_seen(host: HostGpu, kernel: str, right: str, wrong: str) -> None:
    x = np.random.default_rng(4).standard_normal((9, 531)).astype(np.float32) * np.float32(5)
    classes, given = targets(9, 531, ALL), np.linspace(-1, 2, 9, dtype=np.float32)

    def run() -> Any:
        return np.concatenate(found_by_kernels(host, x, classes, ALL, given, shift=1))

    wanted = np.concatenate(by_model(x, classes, ALL, given))
    assert alike(run(), wanted)
    host.changes = {kernel: {right: wrong}}
    assert complaint(run, wanted) == BITS
