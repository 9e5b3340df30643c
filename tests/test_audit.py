"""Contract: ``tcu.audit`` compares a random sample of outputs with a plan.

It passes what follows the plan, of every format, batch and layout, and names
each wrong output of its sample with its bits and those of the plan.  A sample
misses D wrong outputs of N with exactly the probability that it states, and
reads nothing but the rows and columns that it needs.  What does not fit the
plan is refused with a typed error that names the next step.
"""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import ml_dtypes
import numpy as np
import pytest
from numpy.lib.format import open_memmap

import tcu
from tcu.errors import DtypeError, ParameterError, ShapeError
from tcu.formats import get_format
from tcu.plan import TreeRegions, make_dot_plan, make_matmul_plan, make_plan
from tcu.plan.plan import Part, Plan
from tcu.plan.tree import Additions, Blocks, FusedProducts, TreeNode, TreeStep
from tcu.probes import Audit, predict
from tcu.units import find_instruction

RNG = np.random.default_rng(11)
HALF = np.float16


def numbers(shape: tuple[int, ...], dtype: Any) -> Any:
    if np.dtype(dtype).kind in "iu":
        return RNG.integers(-100 if np.dtype(dtype).kind == "i" else 0, 100, shape).astype(dtype)
    with np.errstate(over="ignore"):
        return (RNG.standard_normal(shape) * 2.0 ** RNG.integers(-4, 4, shape)).astype(dtype)


def matmul_plan(a: Any, b: Any, **options: Any) -> Any:
    return make_matmul_plan(a.shape[-1], str(a.dtype), str(b.dtype), **options)


def chain(n: int, inputs: tuple[int, ...] | None = None) -> TreeStep:
    node = TreeNode(FusedProducts("binary32"), tuple(range(n)) if inputs is None else inputs)
    return TreeStep(n, (node,), (n,), True, "binary32", product="binary32")


def tree_plan(step: TreeStep | TreeRegions, inputs: str = "binary32", result: str = "binary32") -> Plan:
    return Plan(step.leaves, inputs, "revealed", None, 0, (Part(0, step.leaves, (step,)),), (), result)


def changed(outputs: Any, position: tuple[int, ...]) -> Any:
    """With the last bit of one output flipped."""
    found = outputs.copy()
    found.view(f"u{found.itemsize}")[position] ^= 1
    return found


# What follows the plan, and what does not


@pytest.mark.slow(1)
@pytest.mark.parametrize(
    ("dtypes", "options", "unit"),
    [
        (("float16", "float16"), {}, None),
        (("float16", "float16"), {"order": "chain", "result": "float16"}, "V100"),
        (("float16", "float16"), {"accumulator": "float16"}, "H100"),
        (("bfloat16", "bfloat16"), {"result": "bfloat16"}, "A100"),
        (("float32", "float32"), {"rounding": "cut"}, "H100"),
        (("float64", "float64"), {}, "H100"),
        (("float8_e4m3fn", "float8_e4m3fn"), {}, "H100"),
        (("uint8", "int8"), {}, "H100"),
    ],
)
def test_a_product_by_tcu_matmul_passes(dtypes: tuple[str, str], options: dict[str, Any], unit: Any) -> None:
    a, b = numbers((9, 300), dtypes[0]), numbers((300, 21), dtypes[1])
    plan = matmul_plan(a, b, **options)
    given = {"plan" if name == "order" else name: each for name, each in options.items()}
    product = tcu.matmul(a, b, unit=unit, dtype=given.pop("result", None), **given)
    found = tcu.audit(product, a, b, plan, unit=unit, seed=0)
    assert (found.passed, found.outputs, found.sampled) == (True, 189, 189)
    assert tcu.audit(product, a, b, plan, unit=unit, sample=50, seed=0).sampled == 50
    wrong = changed(product, (7, 13))
    found = tcu.audit(wrong, a, b, plan, unit=unit)
    assert [each.position for each in found.wrong_outputs] == [(7, 13)]
    (each,) = found.wrong_outputs
    code = f"u{product.itemsize}"
    assert (each.bits, each.expected) == (int(wrong.view(code)[7, 13]), int(product.view(code)[7, 13]))


@pytest.mark.slow
def test_another_plan_and_another_unit_are_wrong() -> None:
    a, b = numbers((16, 1024), HALF), numbers((1024, 16), HALF)
    product = tcu.matmul(a, b, unit="V100")
    assert tcu.audit(product, a, b, matmul_plan(a, b), unit="V100").passed
    assert not tcu.audit(product, a, b, matmul_plan(a, b), unit="H100").passed
    assert not tcu.audit(product, a, b, matmul_plan(a, b, order="chain"), unit="V100").passed


@pytest.mark.slow
def test_scales_and_bias() -> None:
    a, b = numbers((9, 40), HALF), numbers((40, 21), HALF)
    plan = matmul_plan(a, b, result="float16")
    scale_a, scale_b, bias = numbers((9,), np.float32), numbers((21,), np.float32), numbers((21,), HALF)
    for factors in (
        {"scale_a": scale_a, "scale_b": scale_b, "bias": bias},
        {"scale_a": 3.0, "bias": np.float32(2)},
        {"scale_b": scale_b},
    ):
        product = tcu.matmul(a, b, dtype=HALF, **factors)
        assert tcu.audit(product, a, b, plan, **factors).passed
        assert not tcu.audit(product, a, b, plan).passed


@pytest.mark.parametrize(
    ("a_shape", "b_shape"),
    [
        ((4, 3, 20), (4, 20, 5)), ((2, 1, 3, 20), (4, 20, 5)), ((3, 20), (4, 20, 5)), ((4, 3, 20), (20, 5)),
        ((20,), (20, 5)), ((3, 20), (20,)), ((20,), (20,)), ((4, 3, 20), (20,)), ((20,), (4, 20, 5)), ((3, 0), (0, 5)),
    ],
)  # fmt: skip
def test_batches_and_vectors(a_shape: tuple[int, ...], b_shape: tuple[int, ...]) -> None:
    a, b = numbers(a_shape, HALF), numbers(b_shape, HALF)
    product = np.asarray(tcu.matmul(a, b))
    assert tcu.audit(product, a, b, matmul_plan(a, b)).passed
    if product.ndim and a.size:
        where = tuple(size - 1 for size in product.shape)
        found = tcu.audit(changed(product, where), a, b, matmul_plan(a, b))
        assert [each.position for each in found.wrong_outputs] == [where]


def test_infinities_and_nan_count_bit_by_bit() -> None:
    a, b = numbers((8, 32), HALF), numbers((32, 8), HALF)
    a[1, 3], a[2, 4], b[5, 6] = np.inf, np.nan, -np.inf
    product = tcu.matmul(a, b)
    assert tcu.audit(product, a, b, matmul_plan(a, b)).passed
    product[2, 0] = np.float32(np.nan)  # another one
    assert [each.position for each in tcu.audit(product, a, b, matmul_plan(a, b)).wrong_outputs] == [(2, 0)]


def test_layouts_and_byte_order() -> None:
    a, b = numbers((9, 40), HALF), numbers((40, 21), HALF)
    product, plan = tcu.matmul(a, b), matmul_plan(a, b)
    assert tcu.audit(np.asfortranarray(product), np.asfortranarray(a), b.T.copy().T, plan).passed
    assert tcu.audit(product.astype(">f4"), a.astype(">f2"), b[::-1].copy()[::-1], plan).passed
    assert tcu.audit(product.tolist(), a, b, matmul_plan(a, b, result="float64")).outputs == 189


# Plans of tcu.reveal and of sums


def test_a_plan_of_a_unit_s_blocks() -> None:
    row = find_instruction("H200", "wgmma", "binary16", "binary16", "binary32").arithmetic
    a, b = numbers((9, 64), HALF), numbers((64, 21), HALF)
    halves = [tuple(range(32)), tuple(range(32, 64))]
    nodes = [TreeNode(Blocks("binary16", "binary32", row, False), half) for half in halves]  # type: ignore[arg-type]
    step = TreeStep(64, (*nodes, TreeNode(Additions("binary32"), (64, 65))), (66,), True, "binary16")
    product = sum(
        tcu.mma(np.ascontiguousarray(a[:, half]), b[half], unit="H200", instruction="wgmma")
        for half in map(list, halves)
    )
    plan = tree_plan(step, "binary16")
    assert tcu.audit(product, a, b, plan).passed
    assert tcu.audit(np.stack([product] * 2), np.stack([a] * 2), b, plan, sample=100).passed
    assert tcu.audit(changed(product, (3, 4)), a, b, plan).wrong == 1


def test_a_plan_that_is_loaded(tmp_path: Path) -> None:
    a, b = numbers((6, 30), np.float32), numbers((30, 5), np.float32)
    found = tcu.reveal(lambda x, y: predict(tree_plan(chain(30)), x, y), kind="matmul", shape=(6, 5, 30),
                       dtype="float32", outputs=100, seed=0)  # fmt: skip
    assert found.plan is not None
    found.plan.save(tmp_path / "plan.json")
    plan = tcu.load_plan(tmp_path / "plan.json")
    assert tcu.audit(predict(plan, a, b), a, b, plan).passed


def test_a_product_of_several_regions() -> None:
    regions = TreeRegions((chain(30), chain(30, tuple(range(29, -1, -1)))), ((0, 0, 1), (0, 1, 1)))
    a, b = numbers((2, 30), np.float32), numbers((30, 3), np.float32)
    plan = tree_plan(regions)
    product = predict(plan, a, b)
    assert tcu.audit(product, a, b, plan).passed
    assert tcu.audit(product, a, b, tree_plan(chain(30))).wrong > 0
    with pytest.raises(ShapeError, match="the plan is of a product of shape"):
        tcu.audit(product.T, b.T.copy(), a.T.copy(), plan)


def test_which_nan_a_tree_leaves_open() -> None:
    a, b = numbers((4, 8), np.float32), numbers((8, 4), np.float32)
    a[0, 0] = np.nan
    plan = tree_plan(chain(8))
    product = predict(plan, a, b)
    product.view(np.uint32)[0] ^= 3  # other NaN
    product[1] = np.where(product[1] == 0, 0, product[1])
    assert tcu.audit(product, a, b, plan).passed


@pytest.mark.slow(1)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_sums_of_rows(dtype: str) -> None:
    x = numbers((3, 7, 300), dtype)
    plan = tcu.reveal(np.sum, 300, dtype=dtype, outputs=100, seed=0).plan
    assert plan is not None
    sums = np.array([[np.sum(row) for row in rows] for rows in x])
    assert tcu.audit(sums, x, plan=plan).passed
    assert [each.position for each in tcu.audit(changed(sums, (2, 5)), x, plan=plan).wrong_outputs] == [
        (2, 5)
    ]


def test_running_sums() -> None:
    x = numbers((3, 7, 9), "float32")
    plan = tcu.reveal(np.cumsum, 9, kind="cumsum", dtype="float32", outputs=100, seed=0).plan
    assert plan is not None
    sums = np.cumsum(x, axis=-1)
    assert tcu.audit(sums, x, plan=plan).passed
    found = tcu.audit(changed(sums, (2, 5, 8)), x, plan=plan)
    assert [each.position for each in found.wrong_outputs] == [(2, 5, 8)]


def test_running_sums_of_one_number() -> None:
    x = numbers((3, 7, 1), "float32")
    plan = tcu.reveal(np.cumsum, 1, kind="cumsum", dtype="float32", outputs=100, seed=0).plan
    assert plan is not None
    assert predict(plan, x).shape == x.shape
    assert tcu.audit(np.cumsum(x, axis=-1), x, plan=plan).passed
    found = tcu.audit(changed(x, (2, 5, 0)), x, plan=plan)
    assert [each.position for each in found.wrong_outputs] == [(2, 5, 0)]
    with pytest.raises(ShapeError, match=r"outputs have shape \(3, 7\): by the plan .* \(3, 7, 1\)"):
        tcu.audit(x[..., 0], x, plan=plan)


@pytest.mark.slow(1)
@pytest.mark.parametrize("variant", ["short-chain", "single-pass", "warp-shuffle"])
def test_sums_by_tcu(variant: str) -> None:
    x = numbers((50, 1000), HALF)
    for dtype in ("float32", "float16"):
        sums, info = tcu.sum(x, axis=1, unit="V100", variant=variant, dtype=dtype, return_info=True)
        assert tcu.audit(sums, x, plan=info.plan, unit="V100").passed
        assert tcu.audit(changed(sums, (31,)), x, plan=info.plan, unit="V100").wrong == 1


def test_a_mean_is_checked_by_its_sums() -> None:
    x = numbers((50, 300), "float32")
    means, info = tcu.mean(x, axis=-1, return_info=True)
    sums = tcu.sum(x, axis=-1, dtype="float64")
    assert tcu.audit(sums, x, plan=info.plan).passed
    assert ((sums / 300).astype(np.float32) == means).all()
    assert tcu.audit(means, x, plan=info.plan).wrong == 50


# The sample


@pytest.mark.parametrize(("outputs", "sampled"), [(1, 1), (10, 3), (10, 10), (1000, 37), (67_108_864, 1000)])
def test_the_probability_is_exact(outputs: int, sampled: int) -> None:
    found = Audit(outputs, sampled, (), 32, 0)
    for share in (0.0, 1e-6, 0.001, 0.03, 0.3, 0.5, 0.99, 1.0):
        wrong = math.ceil(share * outputs)
        exact = Fraction(1)
        for i in range(sampled):
            exact *= Fraction(max(outputs - wrong - i, 0), outputs - i)
        assert found.unseen(share) == pytest.approx(float(exact), rel=1e-12, abs=1e-300)
    for probability in (0.5, 0.95, 0.99):
        share = found.seen(probability)
        assert 1 - found.unseen(share) >= probability
        if share > 1 / outputs:
            assert 1 - found.unseen(share - 1 / outputs) < probability
    assert found.seen(0) == 0


@pytest.mark.slow
def test_wrong_outputs_are_found_as_often_as_stated() -> None:
    """3,000 samples, for each of three numbers of wrong outputs in one corner: within four standard errors."""
    a, b = numbers((40, 3), HALF), numbers((3, 30), HALF)
    product, plan, rounds = tcu.matmul(a, b), matmul_plan(a, b), 1000
    for wrong in (2, 12, 40):
        outputs = product.copy()
        outputs.view(np.uint32)[:wrong // 2, :2] ^= 1  # fmt: skip
        found = [tcu.audit(outputs, a, b, plan, sample=60, seed=seed) for seed in range(rounds)]
        missed, stated = sum(each.passed for each in found), found[0].unseen(wrong / product.size)
        assert abs(missed - rounds * stated) <= 4 * math.sqrt(rounds * stated * (1 - stated))
        drawn = np.bincount([each.wrong for each in found])
        assert drawn @ np.arange(len(drawn)) / rounds == pytest.approx(60 * wrong / 1200, rel=0.25)


def test_every_output_is_drawn_as_often_as_any() -> None:
    a, b = numbers((4, 3), HALF), numbers((3, 5), HALF)
    plan, wrong = matmul_plan(a, b), np.zeros((4, 5), np.float32) + 77
    count = np.zeros((4, 5))
    for seed in range(1000):
        for each in tcu.audit(wrong, a, b, plan, sample=7, seed=seed).wrong_outputs:
            count[each.position] += 1
    assert count.sum() == 7000
    assert abs(count - 350).max() < 5 * math.sqrt(350 * 13 / 20)


def test_a_seed_draws_the_same_sample_and_none_a_fresh_one() -> None:
    a, b = numbers((40, 3), HALF), numbers((3, 30), HALF)
    plan, wrong = matmul_plan(a, b), np.zeros((40, 30), np.float32) + 77
    first, second = (tcu.audit(wrong, a, b, plan, sample=9) for _ in range(2))
    assert first.wrong_outputs != second.wrong_outputs
    assert tcu.audit(wrong, a, b, plan, sample=9, seed=first.seed) == first
    assert tcu.audit(wrong, a, b, plan, sample=9, seed=np.int64(3)) == tcu.audit(  # type: ignore[arg-type]
        wrong, a, b, plan, sample=9, seed=3
    )


@pytest.mark.slow
def test_only_the_sample_is_read(tmp_path: Path) -> None:
    """A terabyte of outputs in files with holes, which reads as zeros: to read it all would take an hour."""
    m = n = 1 << 19
    a = open_memmap(tmp_path / "a.npy", "w+", HALF, (m, 64))
    b = open_memmap(tmp_path / "b.npy", "w+", HALF, (64, n))
    outputs = open_memmap(tmp_path / "c.npy", "w+", np.float32, (m, n))
    found = tcu.audit(outputs, a, b, make_matmul_plan(64, "float16", "float16"), sample=300)
    assert (found.passed, found.outputs, found.sampled) == (True, m * n, 300)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float8_e4m3fn"])
def test_tensors(dtype: str) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)
    a, b = (
        torch.from_numpy(RNG.standard_normal(shape).astype(np.float32)).to(getattr(torch, dtype))
        for shape in ((9, 40), (40, 21))
    )
    plan = make_matmul_plan(40, dtype, dtype, result="bfloat16")
    product = tcu.matmul(a, b, dtype=torch.bfloat16, scale_a=torch.arange(9.0))
    assert tcu.audit(product, a, b, plan, scale_a=torch.arange(9.0)).passed
    product[3, 4] += 1
    found = tcu.audit(product, a.requires_grad_(), b, plan, scale_a=torch.arange(9.0))
    assert [each.position for each in found.wrong_outputs] == [(3, 4)]
    assert found.bits == 16


# What a person reads


def test_a_sentence_says_what_came_of_it() -> None:
    a, b = np.ones((300, 64), HALF), np.ones((64, 500), HALF)
    product, plan = tcu.matmul(a, b), matmul_plan(a, b)
    found = tcu.audit(product, a, b, plan, seed=0)
    assert str(found) == (
        "1,000 of 150,000 outputs have the plan's bits; had 0.0046 of all been wrong, 99 % of samples would show it"
    )
    assert str(tcu.audit(product, a, b, plan, sample=10**9)) == "all 150,000 outputs have the plan's bits"
    product[0, 2] = 63
    assert str(tcu.audit(product, a, b, plan, sample=150_000)) == (
        "1 of all 150,000 outputs are wrong: [0, 2] is 0x427c0000, by the plan 0x42800000"
    )


# What is refused


def good() -> dict[str, Any]:
    a, b = np.ones((4, 8), HALF), np.ones((8, 5), HALF)
    return {"outputs": tcu.matmul(a, b), "a": a, "b": b, "plan": matmul_plan(a, b)}


class OnGpu:
    __cuda_array_interface__: ClassVar = {"shape": (4, 5), "typestr": "<f4", "data": (0, True), "version": 3}


@pytest.mark.parametrize(
    ("given", "kind", "text"),
    [
        ({"plan": None}, ParameterError, "plan=None: give that of tcu.reveal, tcu.load_plan"),
        ({"plan": "plan.json"}, ParameterError, "plan='plan.json': give that of tcu.reveal, tcu.load_plan"),
        ({"b": make_plan(8, get_format("float16"), "H100"), "plan": None}, ParameterError, "the plan is given in the place of b, .*: name it, with plan=plan"),
        ({"b": None}, ParameterError, "the plan is of products: give a and b"),
        ({"sample": 0}, ParameterError, "sample=0: give a whole number of 1 or more"),
        ({"sample": 2.5}, ParameterError, "sample=2.5: give a whole number of 1 or more"),
        ({"outputs": np.ones((5, 4), np.float32)}, ShapeError, r"outputs have shape \(5, 4\): by the plan .* \(4, 5\)"),
        ({"outputs": np.ones((4, 5))}, DtypeError, "outputs have dtype float64: the plan's have float32"),
        ({"outputs": np.ones((4, 5), complex)}, DtypeError, "no tensor-core format has dtype complex128"),
        ({"outputs": np.ma.masked_array(np.ones((4, 5), np.float32))}, DtypeError, "outputs is a masked array: fill"),
        ({"outputs": OnGpu()}, ParameterError, r"outputs is a OnGpu on a GPU: .*torch.from_dlpack\(outputs\)"),
        ({"a": np.ones((4, 8), np.float32)}, DtypeError, "a has dtype float32: the plan takes float16"),
        ({"b": np.ones((8, 5), ml_dtypes.bfloat16)}, DtypeError, "b has dtype bfloat16: the plan takes float16"),
        ({"a": np.ones((4, 9), HALF), "b": np.ones((9, 5), HALF)}, ShapeError, r"the plan multiplies \(\.\.\., 8\) by"),
        ({"b": np.ones((7, 5), HALF)}, ShapeError, "a needs as many columns as b has rows"),
        ({"bias": np.ones(3, np.float32)}, ShapeError, r"bias has shape \(3,\): give one number"),
        ({"seed": -1}, ParameterError, "seed=-1: give a whole number of 0 or more, or None for a fresh one"),
        ({"seed": [1, 2]}, ParameterError, r"seed=\[1, 2\]: give a whole number of 0 or more"),
        ({"seed": 1.5}, ParameterError, "seed=1.5: give a whole number of 0 or more"),
        ({"seed": "a"}, ParameterError, "seed='a': give a whole number of 0 or more"),
        ({"plan": tree_plan(chain(8), "binary16"), "unit": "A100"}, ParameterError, "this plan has its arithmetic in itself: leave unit"),
        ({"plan": tree_plan(chain(8), "binary16"), "unit": "FOO"}, tcu.errors.UnknownNameError, "unknown unit 'FOO'"),
        ({"unit": "H99"}, tcu.errors.UnknownNameError, "unknown unit 'H99'"),
        ({"plan": tree_plan(chain(8), "binary16"), "bias": 1.0}, ParameterError, "bias: only a plan of tcu.matmul"),
        ({"plan": make_dot_plan(8, get_format("float16")), "b": None}, ParameterError, "the plan is of tcu.dot"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(given: dict[str, Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        tcu.audit(**good() | given)


def test_nothing_to_check_is_refused() -> None:
    a, b = np.ones((0, 8), HALF), np.ones((8, 5), HALF)
    with pytest.raises(ShapeError, match=r"outputs have shape \(0, 5\): there is nothing to check"):
        tcu.audit(tcu.matmul(a, b), a, b, matmul_plan(a, b))


def test_what_does_not_fit_sums_is_refused() -> None:
    x = np.ones((4, 8), HALF)
    sums, info = tcu.sum(x, axis=1, return_info=True)
    with pytest.raises(ParameterError, match="the plan is of sums: give a, and no b"):
        tcu.audit(sums, x, x, info.plan)
    with pytest.raises(ShapeError, match=r"a has shape \(4, 7\): the plan adds up 8 numbers"):
        tcu.audit(sums, x[:, :7], plan=info.plan)
    with pytest.raises(DtypeError, match="a has dtype float32: the plan takes float16"):
        tcu.audit(sums, x.astype(np.float32), plan=info.plan)


def test_shares_and_probabilities_out_of_range() -> None:
    found = Audit(10, 3, (), 32, 0)
    with pytest.raises(ParameterError, match=r"share=1.5: give a number from 0 to 1"):
        found.unseen(1.5)
    with pytest.raises(ParameterError, match=r"probability=1: give a number from 0 to below 1"):
        found.seen(1)
    with pytest.raises(ParameterError, match=r"share='x': give a number from 0 to 1"):
        found.unseen("x")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match=r"probability='x': give a number from 0 to below 1"):
        found.seen("x")  # type: ignore[arg-type]
    assert found.unseen(np.float32(0.5)) == found.unseen(0.5)  # type: ignore[arg-type]


def test_sums_of_nothing_are_checked() -> None:
    x = np.zeros((3, 0), np.float32)
    sums, info = tcu.sum(x, axis=1, return_info=True)
    found = tcu.audit(sums, x, plan=info.plan)
    assert (found.sampled, found.wrong) == (3, 0)
    assert tcu.audit(sums + np.float32([0, 1, 0]), x, plan=info.plan).wrong == 1
