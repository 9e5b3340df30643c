"""Error bounds of revealed trees.

Contract: no sum by a tree is farther from the exact one than its bound: of products that are rounded before they are
added, down to where they underflow and up to where they overflow (then the bound is inf), and of compensated sums of
any length, on random numbers and on those that Kahan's and Neumaier's sums lose most on.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tcu
from tcu.formats import get_format
from tcu.plan import Plan
from tcu.plan.bounds import plan_error_bound
from tcu.plan.plan import Part
from tcu.plan.tree import Additions, Compensated, TreeNode, TreeStep
from tcu.plan.version import VERSIONS
from tcu.probes import predict


def of_tree(operation: Any, n: int, operand: str, result: str, product: str | None = None) -> Plan:
    step = TreeStep(
        n, (TreeNode(operation, tuple(range(n))),), (n,), product is not None, operand, product=product
    )
    return Plan(n, operand, "revealed", None, 0, (Part(0, n, (step,)),), (), result, VERSIONS["tree"])  # fmt: skip


def check(plan: Plan, *arrays: Any) -> float:
    """The share of the bound that the error takes."""
    terms = [math.prod(map(Fraction, each)) for each in zip(*(map(float, x) for x in arrays), strict=True)]
    exact, result = sum(terms), get_format(plan.result)
    mass = float(sum(map(abs, terms))) * (1 + 2.0**-40) + plan.n * 2.0**-1074
    top = math.prod(float(np.abs(x.astype(np.float64)).max()) for x in arrays)
    bound = plan_error_bound(plan, None, mass, top, result, abs(float(exact)) * (1 + 2.0**-40) + 2.0**-1074)
    with np.errstate(all="ignore"):
        found = float(predict(plan, *arrays))
    if math.isinf(bound):
        return 0.0
    assert math.isfinite(found)
    assert abs(Fraction(found) - exact) <= Fraction(bound)
    return float(abs(Fraction(found) - exact) / Fraction(bound))


@pytest.mark.parametrize("n", [1, 2, 16, 100])
def test_products_rounded_to_binary16_first(n: int) -> None:
    plan = of_tree(Additions("binary32"), n, "binary16", "binary32", "binary16")
    rng = np.random.default_rng(n)
    rows = [np.full(n, value, np.float16) for value in (1 + 2.0**-10, 300, 2.0**-14, 2.0**-12, 255, 6e-8)]
    rows += [(rng.standard_normal(n) * 2.0**scale).astype(np.float16) for scale in range(-13, 8)]
    worst = max(check(plan, x, x[::-1].copy()) for x in rows)
    assert worst > (0.01 if n == 100 else 0.3), "the bound is not far from what is lost"
    over = np.full(n, 300, np.float16)
    assert float(predict(plan, over, over)) == math.inf, "where the bound is inf, too"


@pytest.mark.parametrize("n", [1, 20, 300])
def test_products_rounded_to_binary32_and_added_in_binary64(n: int) -> None:
    plan = of_tree(Additions("binary64"), n, "binary32", "binary32", "binary32")
    rng = np.random.default_rng(n)
    for scale in (0, -35, -70, -74):
        for _ in range(10):
            x, y = (
                (rng.random(n) * 2.0**scale).astype(np.float32),
                (rng.random(n) * 2.0**scale).astype(np.float32),
            )
            check(plan, x, y)  # fmt: skip


@pytest.mark.some(14)
@pytest.mark.slow(2)
@pytest.mark.parametrize("method", ["kahan", "neumaier"])
@pytest.mark.parametrize("name", ["binary16", "bfloat16", "binary32"])
@pytest.mark.parametrize("n", [2, 3, 40, 600, 1000])
def test_compensated_sums(method: Any, name: str, n: int) -> None:
    plan, fmt = of_tree(Compensated(name, method), n, name, name), get_format(name)
    rng, u = np.random.default_rng(n), fmt.unit_roundoff
    rows = [
        rng.standard_normal(n),
        rng.random(n) - 0.5,
        rng.standard_normal(n) * 2.0 ** rng.integers(-9, 9, n),
    ]
    for late in (
        1 + 128 / 1024,
        1.5,
        1 + 2 * u,
        2 - 2 * u,
    ):  # a first number, to which the others add half an ulp or so
        for least in (u / 4, u / 2, u, 2 * u):
            rows.append(np.full(n, least * late))
            rows[-1][0] = 1
            rows.append(np.concatenate([rows[-1][: n // 2], -rows[-1][: n - n // 2]]))
    shares = [check(plan, row.astype(fmt.dtype)) for row in rows]
    assert max(shares) > 0.01 or n * u > 0.25, "the bound is not far from what is lost"


def test_a_bound_counts_products_that_underflow() -> None:
    found = tcu.reveal(np.dot, 2, kind="dot", dtype="float64", seed=0, outputs=100)
    x, y = np.array([2.0**-600] * 2), np.array([2.0**-600, -(2.0**-601)])
    assert found.predict(x, y) == 0
    assert 0 < Fraction(2) ** -1201 <= Fraction(float(found.bound(x, y)))
    assert found.bound(x, np.zeros(2)) == 0
