"""Contract: the one launch for all levels of two-mma and recurrence has the plan's bits, without a GPU.

It runs on the host (cuda_on_host.py), its blocks at the same time: some levels have more groups than the launch has warps,
others fewer than it has blocks.  What a level reads it has waited for: what a launch left in the workspace becomes NaNs,
but for the count of blocks, which is zero again behind it.  An error in a kernel's text is seen.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
import test_kernels_on_host
from cuda_on_host import OUTSIDE, STUCK
from test_kernels_on_host import BITS, HostGpu, Result, alike, complaint_about, placed

import tcu
from tcu.formats import format_of
from tcu.gpu.launch import Launch
from tcu.gpu.sums import LINE, Operand, contiguous, layout_of
from tcu.gpu.variants import variant_recipe
from tcu.plan import make_plan
from tcu.units import get_unit

host = test_kernels_on_host.host
RECURRENCE: dict[str, Any] = {"variant": "recurrence", "chain": 3, "block": 32}


@pytest.fixture(autouse=True)
def few_blocks(host: HostGpu) -> None:
    """Six blocks of a warp, or three of three warps."""
    object.__setattr__(host.gpu, "resident_threads", 64)
    object.__setattr__(host.gpu, "resident_blocks", 32)


def summed(host: HostGpu, x: Any, options: dict[str, Any], shift: int = 0, step: int = 1) -> Any:
    """The sum of every ``step``-th number, from so many behind a granule on."""
    n = len(x) // step
    plan = make_plan(n, format_of(x.dtype), get_unit("H100"), **options)
    place, host.readable = placed(x, shift)
    operand = contiguous(place.ctypes.data, n)
    if step > 1:
        operand = Operand(place.ctypes.data, n, (n,), (step,))
    recipe = variant_recipe(
        plan, operand, layout_of([operand]), format_of(np.dtype(np.float64)), host.gpu, together=True
    )
    (choice,) = recipe.kernels
    groups = list(choice.problem.groups)[: choice.problem.levels]
    assert choice.blocks == min(-(-groups[0] // (plan.block // 32)), 6 if plan.block == 32 else 3)
    assert len(groups) == len(plan.parts[0].steps) // 2
    assert groups[-1] == 1
    result = Result(1, np.float64)
    for _ in range(2):  # the second finds what the first left
        Launch(recipe, host.gpu).start(place.ctypes.data, 0, result.array.ctypes.data, 0)
        result.check()
        words = host._workspaces["levels together"]
        assert words[0] == 0, "blocks are still counted"
        words[LINE // 8 :] = ~np.uint64(0)
    assert set(host.launches) == {"levels_together"}
    return result.array.copy()


def model(x: Any, options: dict[str, Any], step: int = 1) -> Any:
    return np.atleast_1d(
        tcu.sum(
            np.ascontiguousarray(x[: len(x) // step * step : step]), dtype="float64", unit="H100", **options
        )
    )


@pytest.mark.slow(4)
@pytest.mark.parametrize(
    "dtype", [np.float16, ml_dtypes.bfloat16, np.float64], ids=lambda each: np.dtype(each).name
)
@pytest.mark.parametrize("block", [32, 96])
@pytest.mark.parametrize(
    ("variant", "chain"), [("two-mma", 1), ("recurrence", 1), ("recurrence", 3), ("recurrence", 5)]
)
def test_all_levels_in_one_launch(host: HostGpu, variant: str, chain: int, block: int, dtype: Any) -> None:
    rng = np.random.default_rng([chain, block])
    for n in (1, 255, 257, 1000, 7001, 70_001):
        n = min(n, 9001) if dtype is np.float64 else n
        options = {"variant": variant, "block": block} | ({} if variant == "two-mma" else {"chain": chain})
        if dtype is np.float16:
            options["accumulator"] = str(rng.choice(["float16", "float32"]))
        x = (rng.standard_normal(n) * 2.0 ** rng.integers(-8, 4, n)).astype(dtype)
        shift = int(rng.integers(0, 8))
        assert alike(summed(host, x, options, shift), model(x, options)), (n, shift)


def test_numbers_apart(host: HostGpu) -> None:
    x = np.random.default_rng(5).standard_normal(12_003).astype(np.float16)
    assert alike(summed(host, x, RECURRENCE, 1, step=3), model(x, RECURRENCE, 3))


@pytest.mark.slow(2)
@pytest.mark.parametrize(
    ("right", "wrong", "seen"),
    [
        ("static_cast<i64>(gridDim.x) * WARPS;", "static_cast<i64>(gridDim.x) * WARPS + 1;", BITS),
        ("load::Written{results_of(p, level - 1)", "load::Written{results_of(p, level)", BITS),
        ("load::Written{", "load::Array{", OUTSIDE),
        ("while (look(arrived) < count) {}", "", BITS),
        ("look(arrived) < count", "look(arrived) + 1 < count", BITS),
        ("p.due[level])", "p.due[level] + 1)", STUCK),
        (">= p.groups[level]) return;", "> 0) return;", STUCK),
    ],
)  # fmt: skip
def test_an_error_in_the_levels_is_seen(host: HostGpu, right: str, wrong: str, seen: str) -> None:
    # 250, 4 and 1 groups of up to 64 numbers: more than there are blocks, fewer, and one.
    x = np.random.default_rng(6).standard_normal(16_000).astype(np.float64)
    options = {"variant": "recurrence", "chain": 2, "block": 32}
    if seen == OUTSIDE:  # what 16-bit numbers are read by
        x = np.random.default_rng(6).standard_normal(200_000).astype(np.float16)
    found = complaint_about(
        host, "levels_together", right, wrong, lambda: summed(host, x, options), model(x, options)
    )
    assert found == seen


def test_a_count_that_is_left_is_seen(host: HostGpu) -> None:
    host.changes["levels_together"] = {"*p.arrived = 0;": ";"}
    with pytest.raises(AssertionError, match="still counted"):
        summed(host, np.ones(5000, np.float16), RECURRENCE)
