"""Contract of sums by atomic additions: no bits are promised on a GPU, and the bound holds whatever the order.

Orders are tried on the CPU, with what a GPU's memory does to subnormal numbers of binary32 (PTX ISA, red: operands and
sums are flushed to zero).  Sums of small integers are exact in every order, so there a GPU's bits are known after all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from gpu_support import gpu_or_skip, library_or_skip, unit_or_skip

import tcu
from tcu.formats import format_of, get_format
from tcu.model.execute import run_steps
from tcu.plan import VARIANTS, Plan, make_plan, plan_error_bound
from tcu.units import get_unit

Array = npt.NDArray[Any]

ATOMIC = [name for name, row in VARIANTS.items() if not row.reproducible]
NORMAL = np.float32(2.0**-126)
"""The smallest normal number of binary32."""


def plan_of(x: Array, variant: str) -> Plan:
    return make_plan(len(x), format_of(x.dtype), get_unit("H100"), variant=variant, block=32, chain=1)


def flushed(x: Any) -> Any:
    return np.float32(0) if x.dtype == np.float32 and abs(x) < NORMAL else x


def by_atomics(numbers: Array) -> float:
    total = numbers.dtype.type(0)
    for number in numbers:
        total = flushed(total + flushed(number))
    return float(total)


def orders(numbers: Array, rng: np.random.Generator) -> Iterator[Array]:
    yield numbers
    yield np.sort(numbers)
    yield numbers[np.argsort(np.abs(numbers))[::-1]]
    for _ in range(5):
        yield rng.permutation(numbers)


def bound_of(x: Array, plan: Plan) -> float:
    sizes = [abs(float(value)) for value in x]
    exact = math.fsum(map(float, x))
    return plan_error_bound(
        plan, get_unit("H100"), math.fsum(sizes), max(sizes), get_format(plan.result), abs(exact)
    )


def kinds() -> dict[str, Array]:
    rng = np.random.default_rng(5)
    tiny = np.zeros(100_000, ml_dtypes.bfloat16)
    tiny[::256] = 2.0**-127  # a block's number is subnormal, and so is lost whole
    return {
        "normal": rng.standard_normal(60_001).astype(np.float16),
        "wide": (rng.standard_normal(40_000) * 2.0 ** rng.integers(-40, 40, 40_000)).astype(
            ml_dtypes.bfloat16
        ),
        "subnormal": tiny,
        "binary64": rng.standard_normal(20_000),
    }


@pytest.mark.slow
@pytest.mark.parametrize("variant", ATOMIC)
@pytest.mark.parametrize("kind", kinds())
def test_the_bound_holds_for_every_order(kind: str, variant: str) -> None:
    x = kinds()[kind]
    plan = plan_of(x, variant)
    numbers = np.concatenate(
        [run_steps(x[part.start : part.stop], part.steps, get_unit("H100")) for part in plan.parts]
    )
    exact, bound = math.fsum(map(float, x)), bound_of(x, plan)
    sums = {by_atomics(each) for each in orders(numbers, np.random.default_rng(6))}
    assert all(abs(each - exact) <= bound for each in sums)
    if kind == "subnormal":
        assert min(abs(each - exact) for each in sums) > 0.1 * exact, "what memory takes for zero is seen"
    else:
        assert len(sums) > 1, "the order decides the bits"


def test_who_is_reproducible_is_told_by_the_plan() -> None:
    assert ATOMIC == ["single-pass-atomic", "split-atomic"]
    x = np.ones(1000, np.float16)
    for name, row in VARIANTS.items():
        plan = make_plan(len(x), get_format("binary16"), get_unit("H100"), variant=name)
        assert plan.reproducible == row.reproducible


@pytest.mark.gpu
@pytest.mark.parametrize("variant", ATOMIC)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_a_gpu_stays_within_the_bound_and_is_exact_where_all_orders_are(variant: str, dtype: str) -> None:
    unit_or_skip(gpu_or_skip())
    torch = library_or_skip("torch")
    rng = np.random.default_rng(7)
    for n in (1, 31, 1000, 65_537, 300_007):
        whole = rng.integers(-3, 4, n).astype(np.float32)
        x = torch.from_numpy(whole).to(getattr(torch, dtype)).cuda()
        for _ in range(3):  # the place in memory is zero again each time
            assert float(tcu.sum(x, variant=variant)) == whole.sum(dtype=np.float64)
        x = torch.from_numpy(rng.standard_normal(n)).to(getattr(torch, dtype)).cuda()
        got, info = tcu.sum(x, variant=variant, dtype="float64", return_info=True)
        host = x.double().cpu().numpy()
        bound = tcu.error_bound(x.cpu(), variant=variant, dtype="float64")
        assert not info.plan.reproducible
        assert abs(float(got) - math.fsum(host)) <= bound
