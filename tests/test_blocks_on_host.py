"""Contract: the kernel that adds up blocks' numbers has the plan's bits, and leaves its workspace as it found it.

It runs on the host (cuda_on_host.py), by warp shuffles alone: of one warp's blocks and of so many that their sums are
added up, too.  Blocks that add by atomics come in any order there as well: their sums of small integers are exact.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import test_kernels_on_host
from test_kernels_on_host import BITS, HostGpu, Result, alike, placed

import tcu
from tcu.formats import format_of
from tcu.gpu.launch import Launch
from tcu.gpu.sums import contiguous
from tcu.gpu.variants import variant_recipe
from tcu.plan import make_plan
from tcu.units import get_unit

host = test_kernels_on_host.host
VARIANTS: dict[str, dict[str, Any]] = {
    "tree": {"variant": "warp-shuffle"},
    "atomic": {"variant": "split-atomic", "fraction": 0.0},
}


@pytest.fixture(autouse=True)
def structures(monkeypatch: pytest.MonkeyPatch) -> None:
    for entry in ("blocks", "round_blocks"):
        monkeypatch.setitem(test_kernels_on_host.STRUCTURES, entry, "Blocks")


def summed(host: HostGpu, x: Any, block: int, options: dict[str, Any]) -> Any:
    plan = make_plan(len(x), format_of(x.dtype), get_unit("H100"), block=block, **options)
    place, host.readable = placed(x)
    result = Result(1, np.float64)
    recipe = variant_recipe(
        plan, contiguous(place.ctypes.data, len(x)), "ALIGNED", format_of(np.dtype(np.float64)), host.gpu
    )
    launch = Launch(recipe, host.gpu)
    for _ in range(2):  # the second finds what the first left
        launch.start(place.ctypes.data, 0, result.array.ctypes.data, 0)
        result.check()
    return result.array.copy()


@pytest.mark.slow(2)
@pytest.mark.parametrize("block", [32, 96])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("form", VARIANTS)
def test_blocks_are_added_as_the_plan_says(host: HostGpu, form: str, dtype: Any, block: int) -> None:
    rng = np.random.default_rng(3)
    for n in (0, 1, 33, 1000, block * 512, block * 512 + 1, 2200 * block + 1):
        x = (rng.standard_normal(n) * 2.0 ** rng.integers(-8, 8, n)).astype(dtype)
        if form == "atomic":
            x = rng.integers(-3, 4, n).astype(dtype)
        wanted = np.atleast_1d(tcu.sum(x, block=block, dtype="float64", **VARIANTS[form]))
        assert alike(summed(host, x, block, VARIANTS[form]), wanted), n


@pytest.mark.slow
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("at += AHEAD * THREADS", "at += (AHEAD + 1) * THREADS"),
        ("at < here; at += WARP", "at < here; at += 2 * WARP"),
        ("sum_of_slots(p.totals, group + 1, total)", "sum_of_slots(p.totals, group, total)"),
        ("block + 1 - first, number", "block - first, number"),
        ("numbers[in_slots] = own", "numbers[in_slots] = 0"),
    ],
)
def test_an_error_in_the_tree_is_seen(host: HostGpu, right: str, wrong: str) -> None:
    host.changes["blocks"] = {right: wrong}
    x = np.random.default_rng(4).standard_normal(70_001).astype(np.float32)
    wanted = np.atleast_1d(tcu.sum(x, block=32, dtype="float64", variant="warp-shuffle"))
    with pytest.raises(AssertionError, match=BITS):
        assert alike(summed(host, x, 32, VARIANTS["tree"]), wanted), BITS
