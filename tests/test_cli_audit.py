"""The command ``tcu audit``, as a user meets it.

Contract: files of outputs and operands are checked against a saved plan; it
says how many were checked and what is wrong, bit by bit, and exits with 0 if
nothing is, with 1 if something is; bad input ends with one line that names the
next step, and exit code 2.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import tcu
from tcu.cli import main
from tcu.plan.plan import Part, Plan
from tcu.plan.tree import Additions, FusedProducts, TreeNode, TreeStep
from tcu.probes import predict

Run = Callable[..., tuple[int, str, str]]


def plan_of(step: TreeStep, input_format: str = "binary32") -> Plan:
    return Plan(
        step.leaves, input_format, "revealed", None, 0, (Part(0, step.leaves, (step,)),), (), input_format
    )


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    node = TreeNode(FusedProducts("binary32"), tuple(range(30)))
    plan = plan_of(TreeStep(30, (node,), (30,), True, "binary32", product="binary32"))
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((90, 30)).astype(np.float32), rng.standard_normal((30, 60)).astype(np.float32)
    product = predict(plan, a, b)
    plan.save("plan.json")
    np.save("a.npy", a)
    np.save("b.npy", b)
    np.save("c.npy", product)
    product.view(np.uint32)[5, 7] ^= 1
    np.save("wrong.npy", product)

    def run_it(*arguments: str) -> tuple[int, str, str]:
        code = main(arguments)
        out, err = capsys.readouterr()
        return code, out, err

    return run_it


def test_a_product_that_follows_its_plan(run: Run) -> None:
    code, out, err = run("audit", "plan.json", "c.npy", "a.npy", "b.npy", "--seed", "3")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "✓ c.npy  1,000 of 5,400 outputs checked, none wrong",
        "It shows a wrong share of 0.0028 with probability 0.95, of 0.0043 with 0.99.",
        "seed 3",
    ]
    document = json.loads(
        run("audit", "plan.json", "c.npy", "a.npy", "b.npy", "--sample", "100", "--json")[1]
    )
    assert (document["passed"], document["outputs"], document["sampled"]) == (True, 5400, 100)
    assert document["unseen"][1] == {"share": 0.01, "probability": pytest.approx(0.36, abs=0.01)}
    assert document["seen"][0]["probability"] == 0.95


def test_a_wrong_output_is_named(run: Run) -> None:
    everything = ("audit", "plan.json", "wrong.npy", "a.npy", "b.npy", "--sample", "999999")
    code, out, err = run(*everything)
    assert (code, err) == (1, "")
    assert "✗ wrong.npy  5,400 of 5,400 outputs checked, 1 wrong" in out
    right, wrong = (int(np.load(name).view(np.uint32)[5, 7]) for name in ("c.npy", "wrong.npy"))
    assert f"[5, 7]  0x{wrong:08x}, by the plan 0x{right:08x}" in out
    code, out, _ = run(*everything, "--json")
    assert code == 1
    assert json.loads(out)["wrong_outputs"] == [
        {"position": [5, 7], "bits": f"0x{wrong:08x}", "expected": f"0x{right:08x}"}
    ]
    np.save("zeros.npy", np.zeros((90, 60), np.float32))
    assert "... and 992 more" in run("audit", "plan.json", "zeros.npy", "a.npy", "b.npy")[1]


def test_sums_of_rows(run: Run) -> None:
    x = np.random.default_rng(1).standard_normal((40, 12)).astype(np.float16)
    sums, info = tcu.sum(x, axis=1, unit="V100", dtype=np.float32, return_info=True)
    info.plan.save("sums.json")
    np.save("x.npy", x)
    np.save("sums.npy", sums)
    assert run("audit", "sums.json", "sums.npy", "x.npy", "--unit", "V100")[0] == 0
    tree = TreeStep(4, (TreeNode(Additions("bfloat16"), (0, 1, 2, 3)),), (4,), False, "bfloat16")
    plan_of(tree, "bfloat16").save("brain.json")
    x = x[:, :4].astype(ml_dtypes.bfloat16)
    np.save("x.npy", x)  # as two bytes each
    np.save("sums.npy", ((x[:, 0] + x[:, 1]) + x[:, 2]) + x[:, 3])
    assert run("audit", "brain.json", "sums.npy", "x.npy")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("none.json", "c.npy", "a.npy", "b.npy"), "cannot read none.json"),
        (("plan.json", "none.npy", "a.npy", "b.npy"), "cannot read none.npy as .npy"),
        (("plan.json", "c.npy", "a.npy"), "the plan is of products: give a and b"),
        (("plan.json", "c.npy", "a.npy", "b.npy", "b.npy"), "3 arrays: give A.npy, and B.npy where"),
        (("plan.json", "a.npy", "a.npy", "b.npy"), "outputs have shape (90, 30): by the plan"),
        (("plan.json", "c.npy", "a.npy", "b.npy", "--sample", "0"), "invalid value for '--sample'"),
    ],
)  # fmt: skip
def test_bad_input(run: Run, arguments: tuple[str, ...], words: str) -> None:
    code, out, err = run("audit", *arguments)
    assert (code, out) == (2, "")
    assert words in " ".join(err.split())
