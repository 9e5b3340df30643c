"""Contract of ``tcu.reveal`` for running sums: one plan with a tree for every result, which returns every bit, or a refusal.

Running sums of NumPy, PyTorch and tcu, and scans by blocks, by Kogge and Stone
and by Blelloch are reproduced, with the parts that results share found as
shared; so are scans of random trees.  Where an order depends on the numbers, or
one result alone is computed otherwise, the scan is refused with the result at
which the best plan is wrong.  A plan predicts, is saved and loaded, and has a
bound for every result.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from foolers import SCANS, UNSTEADY, in_turn
from golden import codes, digest, numbers
from random_trees import evaluated, random_tree

import tcu
from tcu.errors import ParameterError, ShapeError
from tcu.model.elements import Elements
from tcu.model.execute import execute
from tcu.plan import VERSIONS, Additions, ExactAddition, Part, Plan, TreeNode, TreeStep
from tcu.plan.tree import TreeOperation
from tcu.probes import Revealed, predict

Scan = Callable[[npt.NDArray[Any]], npt.NDArray[Any]]
DTYPES = ("float16", "float32", "float64")


def reproduced(found: Revealed) -> TreeStep:
    assert found.verdict == "reproduced", (found.conclusion, found.counterexample)
    assert found.plan is not None
    (step,) = found.plan.parts[0].steps
    assert isinstance(step, TreeStep)
    assert len(step.roots) == found.plan.n
    return step


def operations(step: TreeStep) -> set[TreeOperation]:
    return {node.operation for node in step.nodes}


def kogge_stone(x: Any) -> Any:
    """Every result adds one that lies half as many numbers back, whatever its own length."""
    x, by = x.copy(), 1
    while by < x.size:
        x[by:] = x[by:] + x[:-by]
        by *= 2
    return x


def blelloch(x: Any) -> Any:
    """Sums up a tree of halves, prefixes down it, and what each result adds itself at the end."""
    size = 1 << (x.size - 1).bit_length()
    held = np.zeros(size, x.dtype)
    held[: x.size] = x
    by = 1
    while by < size:
        held[2 * by - 1 :: 2 * by] += held[by - 1 :: 2 * by]
        by *= 2
    held[-1] = 0
    while by > 1:
        by //= 2
        left = held[by - 1 :: 2 * by].copy()
        held[by - 1 :: 2 * by] = held[2 * by - 1 :: 2 * by]
        held[2 * by - 1 :: 2 * by] += left
    return held[: x.size] + x


def by_blocks(x: Any, size: int = 8) -> Any:
    """Each block scanned by itself; totals are added up in turn and carried into the next one."""
    parts = [np.cumsum(x[at : at + size]) for at in range(0, x.size, size)]
    carry = parts[0][-1]
    found = parts[:1]
    for part in parts[1:]:
        found.append(carry + part)
        carry = carry + part[-1]
    return np.concatenate(found)


def from_the_end(x: Any) -> Any:
    return np.array([in_turn(x[: size + 1][::-1]) for size in range(x.size)], x.dtype)


def exactly(x: Any) -> Any:
    return np.array([math.fsum(x[: size + 1].tolist()) for size in range(x.size)])


def kahan(x: Any) -> Any:
    total, lost, found = x[0], x.dtype.type(0), [x[0]]
    for each in x[1:]:
        each = each - lost
        after = total + each
        lost = (after - total) - each
        total = after
        found.append(total)
    return np.array(found, x.dtype)


def quiet(function: Scan) -> Scan:
    def call(x: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(x)

    return call


@pytest.mark.some(7)
@pytest.mark.slow(4)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 3, 60, pytest.param(1000, marks=pytest.mark.slow)])
def test_numpys_running_sum(n: int, dtype: str) -> None:
    step = reproduced(tcu.reveal(np.cumsum, n, kind="cumsum", dtype=dtype, seed=0, outputs=50 * n))
    wide = {"float16": "binary16", "float32": "binary32", "float64": "binary64"}[dtype]
    assert operations(step) == ({Additions(wide)} if n > 1 else set())
    for number in range(1, n):
        node = step.nodes[step.roots[number] - n]
        assert sorted(node.inputs) == sorted((step.roots[number - 1], number))


@pytest.mark.slow(3)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
@pytest.mark.parametrize("n", [7, 100])
def test_pytorchs_running_sum(n: int, dtype: str) -> None:
    torch = pytest.importorskip("torch", reason="its running sum is asked")
    found = tcu.reveal(
        lambda x: torch.cumsum(x, 0), n, kind="cumsum", dtype=getattr(torch, dtype), seed=0, outputs=50 * n
    )
    reproduced(found)


@pytest.mark.slow(1)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [20, 300])
def test_our_own(n: int, dtype: str) -> None:
    step = reproduced(tcu.reveal(tcu.cumsum, n, kind="cumsum", dtype=dtype, seed=0, outputs=30 * n))
    assert operations(step) == {Additions("binary64")}


@pytest.mark.slow(2)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("function", "nodes"),
    [(kogge_stone, 5 * 49), (blelloch, 3 * 49), (by_blocks, 2 * 49), (from_the_end, 49 * 48)],
)
def test_scans_by_other_orders(function: Scan, nodes: int, dtype: str) -> None:
    """``nodes``: no more than so many, for results share what they have in common."""
    step = reproduced(tcu.reveal(quiet(function), 49, kind="cumsum", dtype=dtype, seed=0, outputs=3000))
    assert operations(step) == {Additions("binary32" if dtype == "float32" else "binary64")}
    assert len(step.nodes) <= nodes


def test_totals_in_a_wider_format() -> None:
    """Blocks in binary32, what is carried in binary64: the format of every node is measured."""

    def mixed(x: Any) -> Any:
        parts = [np.cumsum(x[at : at + 5]) for at in range(0, x.size, 5)]
        carry, found = np.float64(0), []
        for part in parts:
            found.append((carry + part.astype(np.float64)).astype(np.float32))
            carry = carry + np.float64(part[-1])
        return np.concatenate(found)

    step = reproduced(tcu.reveal(quiet(mixed), 23, kind="cumsum", dtype="float32", seed=0, outputs=4000))
    assert operations(step) == {Additions("binary32"), Additions("binary64")}


def test_exact_and_compensated_ones() -> None:
    step = reproduced(tcu.reveal(exactly, 30, kind="cumsum", seed=0, outputs=3000))
    assert operations(step) == {ExactAddition("binary64")}
    step = reproduced(tcu.reveal(quiet(kahan), 30, kind="cumsum", dtype="float32", seed=0, outputs=3000))
    assert {str(each) for each in operations(step)} == {"Kahan's sum in binary32"}


@pytest.mark.some(14)
@pytest.mark.slow(1)
@pytest.mark.parametrize("seed", range(30))
def test_random_trees_for_every_result(seed: int) -> None:
    """No result need have anything in common with another."""
    rng = np.random.default_rng(seed)
    n, name = int(rng.integers(2, 30)), str(rng.choice(["binary32", "binary64"]))
    trees = [random_tree(rng, np.arange(size + 1), [name]) for size in range(n)]
    dtype = "float32" if name == "binary32" else "float64"

    def scan(x: Any) -> Any:
        return np.array([evaluated(tree, x) for tree in trees], dtype)

    reproduced(tcu.reveal(quiet(scan), n, kind="cumsum", dtype=dtype, seed=seed, outputs=40 * n))


@pytest.mark.slow(2)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name, marks=[pytest.mark.slow] * (name == "sorts all that came before")
        )  # all units are searched
        for name in SCANS
    ],
)
def test_scans_that_fool(name: str) -> None:
    found = tcu.reveal(SCANS[name], 24, kind="cumsum", dtype="float32", seed=0)
    assert found.verdict == ("not a fixed tree" if name in UNSTEADY else "outside"), found.conclusion
    assert (found.different > 0) == (found.counterexample is not None)
    example = found.counterexample
    if example is not None:
        assert float(SCANS[name](example.x)[example.result]) == example.function
        assert float(found.predict(example.x)[example.result]) == example.plan
        assert example.function != example.plan


def test_the_one_result_that_is_wrong_is_named() -> None:
    found = tcu.reveal(
        SCANS["one result turns round where a number is larger"], 24, kind="cumsum", dtype="float32", seed=0
    )
    assert found.counterexample is not None
    assert found.counterexample.result == (17,)


@pytest.fixture(scope="module")
def blocks() -> Revealed:
    return tcu.reveal(quiet(by_blocks), 50, kind="cumsum", dtype="float32", seed=0, outputs=3000)


def test_a_plan_predicts_and_is_kept(blocks: Revealed, tmp_path: Path) -> None:
    x = np.random.default_rng(1).standard_normal((3, 4, 50)).astype(np.float32)
    expected = np.array([by_blocks(row) for row in x.reshape(-1, 50)]).reshape(x.shape)
    assert blocks.predict(x).tolist() == expected.tolist()
    assert blocks.predict(x[0, 0]).tolist() == expected[0, 0].tolist()
    assert blocks.plan is not None
    blocks.plan.save(tmp_path / "plan.json")
    loaded = tcu.load_plan(tmp_path / "plan.json")
    assert loaded == blocks.plan
    assert predict(loaded, x).tolist() == expected.tolist()
    with pytest.raises(ShapeError, match=r"an array of shape \(49,\): the plan adds up 50 numbers"):
        blocks.predict(x[0, 0, :49])
    with pytest.raises(ParameterError, match="the plan takes one array, not 2"):
        blocks.predict(x, x)
    with pytest.raises(ParameterError, match=r"several results, .*: tcu\.probes\.predict gives them"):
        execute(loaded, Elements(x[0, 0]))


def test_every_result_has_a_bound(blocks: Revealed) -> None:
    rng = np.random.default_rng(2)
    for scale in (1.0, 1e-30, 1e30):
        x = (rng.standard_normal((2, 50)) * scale).astype(np.float32)
        bounds, found = blocks.bound(x), blocks.predict(x)
        assert bounds.shape == x.shape
        assert blocks.bound(x[0]).tolist() == pytest.approx(bounds[0].tolist(), rel=1)
        for row, got, bound in zip(x.tolist(), found.tolist(), bounds.tolist(), strict=True):
            for place in range(50):
                exact = sum(map(Fraction, row[: place + 1]))
                assert abs(Fraction(got[place]) - exact) <= Fraction(bound[place])
        assert (bounds < 1e-4 * np.abs(x).sum(1, dtype=np.float64)[:, None]).all()


def test_golden_bits() -> None:
    """A tree with several roots, some of them leaves and some within others."""
    single, double = Additions("binary32"), Additions("binary64")
    nodes = (TreeNode(single, (0, 1)), TreeNode(double, (2, 3)), TreeNode(double, (4, 5)))
    step = TreeStep(4, nodes, (0, 4, 6, 5), False, "binary32")
    plan = Plan(
        4,
        "binary32",
        "revealed running sums",
        None,
        0,
        (Part(0, 4, (step,)),),
        (),
        "binary32",
        VERSIONS["tree"],
    )
    found = predict(plan, numbers("ordinary", "binary32", 40 * 4, "x").reshape(40, 4))
    assert found.shape == (40, 4)
    assert digest(codes(found)) == "39c7496839167f48"


def test_a_result_that_leaves_out_nan() -> None:
    found = tcu.reveal(np.nancumsum, 9, kind="cumsum", dtype="float32", seed=0, outputs=200)
    reproduced(found)
    (special,) = found.special
    assert float(np.nancumsum(special.x)[special.result]) == special.function
    assert math.isnan(found.predict(special.x)[special.result])


def test_what_a_function_must_return() -> None:
    with pytest.raises(ShapeError, match=r"returns an array of shape \(\): a cumsum of 3 numbers has \(3,\)"):
        tcu.reveal(np.sum, 3, kind="cumsum")
