"""The commands ``tcu reveal`` and ``tcu replay``, as a user meets them.

Contract: ``reveal`` names a function of a module or a file, says whether its
plan was found, draws the tree, and exits with 0 if every bit was reproduced, 1
if not, after the counterexample.  ``replay`` prints what a saved plan returns,
and exits with 1 where results from elsewhere differ.  Bad input ends with one
line that names the next step, and exit code 2.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from random_trees import split_product

import tcu
from tcu.cli import main
from tcu.cli.tree_drawing import drawn_tree
from tcu.plan import TreeRegions
from tcu.probes.replay import tree_of
from tcu.units import find_instruction

Run = Callable[..., tuple[int, str, str]]

MODULE = """
import numpy as np

def turned(x):
    total = x[-1]
    for each in x[-2::-1]:
        total = total + each
    return total

def sorts(x):
    return turned(np.sort(x))

def product(a, b):
    left, right = turned_product(a, b), a @ b
    return left

def breaks(x):
    raise ValueError("no sum today")

def noisy(x):
    print("one more sum")
    return np.nansum(x)

def changes(x):
    return None if x.any() else x.sum()
"""


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    (tmp_path / "mine.py").write_text(MODULE, "utf-8")

    def run_it(*arguments: str) -> tuple[int, str, str]:
        code = main(arguments)
        out, err = capsys.readouterr()
        return code, out, err

    return run_it


def test_a_plan_is_found_drawn_and_replayed(run: Run) -> None:
    code, out, err = run(
        "reveal", "numpy.sum", "--n", "300", "--outputs", "500", "--seed", "0", "-o", "plan.json"
    )
    assert (code, err) == (0, "")
    assert "✓ numpy.sum  reproduced: 500 fresh results, none different" in out
    assert "a tree of 300 numbers: binary32 additions" in out
    assert "binary32 additions: 0 to 64 by 8, in turn" in out
    assert "and the same 4 on" in out

    x = np.random.default_rng(0).standard_normal((3, 300)).astype(np.float32)
    sums = x.sum(axis=1)
    np.save("x.npy", x)
    np.save("sums.npy", sums)
    code, out, err = run("replay", "plan.json", "x.npy", "--against", "sums.npy", "-o", "again.npy")
    assert (code, err) == (0, "")
    assert f"{float(sums[0])}  0x{int(sums[:1].view(np.uint32)[0]):08x}" in out
    assert hashlib.sha256(sums.tobytes()).hexdigest() in out.replace("\n", "")
    assert "every bit is that of sums.npy" in out
    assert np.load("again.npy").tolist() == sums.tolist()

    sums[1] = np.nextafter(sums[1], np.float32(0))
    np.save("sums.npy", sums)
    code, out, _ = run("replay", "plan.json", "x.npy", "--against", "sums.npy")
    assert code == 1
    assert "1 of 3 results differ from sums.npy" in out
    document = json.loads(run("replay", "plan.json", "x.npy", "--against", "sums.npy", "--json")[1])
    assert (document["different"], document["shape"], document["dtype"]) == (1, [3], "float32")


def test_running_sums_are_drawn_and_replayed(run: Run) -> None:
    code, out, err = run(
        "reveal", "numpy.cumsum", "--n", "20", "--outputs", "200", "--seed", "0", "-o", "plan.json", "--svg", "tree.svg",
        "--html", "tree.html",
    )  # fmt: skip
    assert (code, err) == (0, "")
    assert "✓ numpy.cumsum  reproduced: " in out
    for line in ("result 0: 0", "result 1: binary32 additions: 0, 1", "and results 3 to 19 alike, each 1 on"):
        assert line in out
    assert ElementTree.parse("tree.svg").getroot().tag == "{http://www.w3.org/2000/svg}svg"
    page = Path("tree.html").read_text("utf-8")
    assert Path("tree.svg").read_text("utf-8") in page
    assert "and results 3 to 19 alike" in page
    assert "numpy.cumsum: a tree of 20 numbers: binary32 additions" in page

    x = np.random.default_rng(0).standard_normal((3, 20)).astype(np.float32)
    np.save("x.npy", x)
    np.save("sums.npy", np.cumsum(x, axis=1))
    code, out, err = run("replay", "plan.json", "x.npy", "--against", "sums.npy")
    assert (code, err) == (0, "")
    assert "every bit is that of sums.npy" in out
    np.save("sums.npy", np.cumsum(x[:, ::-1], axis=1))
    assert run("replay", "plan.json", "x.npy", "--against", "sums.npy")[0] == 1


@pytest.mark.slow
def test_results_that_share_chains_name_each_other() -> None:
    step = tree_of(tcu.reveal(tcu.cumsum, 20, kind="cumsum", dtype="float32", seed=0, outputs=200).plan)
    lines = drawn_tree(step)
    start = lines.index("result 10: binary64 additions")
    assert lines[start + 1 : start + 3] == ["├─ result 7", "└─ binary64 additions: 8 to 10, in turn"]
    assert "result 16: binary64 additions: result 15, 16" in lines


def test_pytorchs_running_sum(run: Run) -> None:
    pytest.importorskip("torch", reason="its running sum is asked")
    code, out, _ = run("reveal", "torch.cumsum", "--n", "9", "--outputs", "90", "--seed", "0")
    assert (code, "✓ torch.cumsum  reproduced" in out) == (0, True)


def test_a_function_of_a_file(run: Run) -> None:
    code, out, _ = run(
        "reveal", "mine.py:turned", "--kind", "sum", "--n", "9", "--dtype", "float64", "--outputs", "50"
    )
    assert code == 0
    assert "binary64 additions: 8 to 0, in turn" in out or "binary64 additions: 7, 8, 6 to 0, in turn" in out


def test_a_product(run: Run) -> None:
    code, out, _ = run(
        "reveal", "numpy.matmul", "--shape", "2", "3", "4", "--dtype", "float64", "--outputs", "60", "--json"
    )
    document = json.loads(out)
    assert (document["kind"], document["shape"]) == ("matmul", [2, 3, 4])
    assert (code == 0) == (document["verdict"] == "reproduced")


def test_special_values_that_differ_are_said_and_what_a_function_prints_is_no_answer(run: Run) -> None:
    asked = ("reveal", "mine.py:noisy", "--kind", "sum", "--n", "2^3", "--outputs", "1e2", "--seed", "0")
    code, out, err = run(*asked)
    assert code == 0
    words = " ".join(out.split())
    assert (
        "reproduced: 100 fresh results, none different; but special values differ: for one NaN it returns"
        in words
    )
    assert "one more sum" not in out
    assert "one more sum" in err
    code, out, _ = run(*asked, "--json")
    document = json.loads(out)
    (special,) = document["special"]
    assert (code, document["verdict"], document["shape"]) == (0, "reproduced", [1, 1, 8])
    assert (special["what"], special["plan"], special["raised"]) == ("one NaN", "nan", None)
    assert special["x"].count("nan") == 1


@pytest.mark.slow
def test_a_refusal_shows_where_the_plan_is_wrong(run: Run) -> None:
    code, out, _ = run(
        "reveal", "mine.py:sorts", "--kind", "sum", "--n", "12", "--seed", "0", "-o", "plan.json"
    )
    assert code == 1
    assert "✗ mine.py:sorts  outside: the best plan differs on" in out
    assert "The tree of the best plan" in out
    assert "x: [" in out
    assert "the function returns: " in out
    assert not Path("plan.json").exists()
    code, out, _ = run("reveal", "mine.py:sorts", "--kind", "sum", "--n", "12", "--seed", "0", "--json")
    example = json.loads(out)["counterexample"]
    assert code == 1
    assert len(example["x"]) == 12
    assert example["function"] != example["plan"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("reveal", "mine.py:turned", "--n", "3"), "what does mine.py:turned compute? Say --kind sum, dot, matmul or cumsum"),
        (("reveal", "sum", "--n", "3"), "TARGET sum: write numpy.sum, FILE.py:NAME or PACKAGE.MODULE:NAME"),
        (("reveal", "numpy.summ", "--n", "3"), "unknown function of numpy 'summ': did you mean "),
        (("reveal", "numpy.qqqqqq", "--n", "3"), " are available"),
        (("reveal", "none.py:f", "--n", "3"), "there is no file none.py"),
        (("reveal", "numpy.sum"), "kind='sum' needs n=..., and no shape; a product of matrices needs kind='matmul'"),
        (("reveal", "mine.py:changes", "--kind", "sum", "--n", "3"), "mine.py:changes returns object for some inputs, and float32 for zeros"),
        (("reveal", "numpy.sum", "--n", "many"), "--n many: give a whole number, such as 1000000, 1e6 or 2^20"),
        (("reveal", "numpy.sum", "--n", "0"), "n=0: give a whole number of 1 or more"),
        (("reveal", "numpy.sum", "--n", "3", "--outputs", "0"), "outputs=0: compare at least one output"),
        (("reveal", "numpy.sum", "--n", "1e12"), "n=1000000000000: a question has 1,000,000,000,000 numbers in one array"),
        (("reveal", "numpy.matmul", "--shape", "2", "x", "3"), "--shape x: give a whole number"),
        (("reveal", "mine.py:breaks", "--kind", "sum", "--n", "3"), "TARGET mine.py:breaks raised ValueError: no sum today"),
        (("reveal", "mine.py:turned", "--kind", "sum", "--n", "3", "-o", "mine.py"), "mine.py"),
        (("reveal", "mine.py:turned", "--kind", "sum", "--n", "3", "--svg", "mine.py"), "mine.py"),
        (("reveal", "mine.py:turned", "--kind", "sum", "--n", "3", "--html", "none/a.html"), "there is no folder none"),
        (("replay", "none.json", "x.npy"), "cannot read none.json"),
        (("replay", "mine.py", "x.npy"), "mine.py holds no plan (it is not JSON)"),
    ],
)  # fmt: skip
def test_bad_input(run: Run, arguments: tuple[str, ...], words: str) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert words in " ".join(err.split())
    assert Path("mine.py").read_text("utf-8") == MODULE


def test_arrays_that_do_not_fit(run: Run) -> None:
    assert run("reveal", "numpy.sum", "--n", "5", "--outputs", "20", "-o", "plan.json")[0] == 0
    np.save("x.npy", np.zeros(5, np.float32))
    np.save("other.npy", np.zeros(5, np.float32))
    np.savez("two.npz", a=np.zeros(5, np.float32))
    Path("text.npy").write_text("1 2 3", "utf-8")
    np.save("objects.npy", np.array([1, "x"], object))
    for arguments, words in (
        (("x.npy", "--unit", "FOO"), "unknown unit 'FOO'"),
        (("x.npy", "--unit", "A100"), "unit='A100': this plan has its arithmetic in itself: leave unit out"),
        (("x.npy", "--against", "other.npy"), "other.npy holds float32 (5,): the plan returns float32 ()"),
        (("two.npz",), "two.npz holds several arrays"),
        (("text.npy",), "cannot read text.npy as .npy: it holds no array of numbers that numpy.save wrote"),
        (
            ("objects.npy",),
            "cannot read objects.npy as .npy: it holds no array of numbers that numpy.save wrote",
        ),
        (("x.npy", "-o", "no/y.npy"), "cannot write no/y.npy"),
    ):
        code, _, err = run("replay", "plan.json", *arguments)
        assert code == 2
        assert words in " ".join(err.split())


def test_the_drawing_of_regions() -> None:
    row = find_instruction("A100", "mma", "binary64", "binary64")
    one, other = split_product(row, [range(8)], False), split_product(row, [range(4), range(4, 8)], False)

    def product(a, b):
        return np.concatenate([one(a, b[:, :2]), other(a, b[:, 2:])], axis=1)

    found = tcu.reveal(product, kind="matmul", shape=(3, 5, 8), dtype="float64", seed=0, outputs=500)
    assert found.verdict == "reproduced"
    assert found.plan is not None
    (step,) = found.plan.parts[0].steps
    assert isinstance(step, TreeRegions)
    assert {len(set(row)) for row in step.regions} == {2}
    assert step.regions[0][:2] != step.regions[0][2:4]
    lines = drawn_tree(step)
    assert any(line.startswith("6 results, from [0, 0] to [2, 1]") for line in lines)
    assert any(line.startswith("9 results, from [0, 2] to [2, 4]") for line in lines)
    with pytest.raises(tcu.errors.ShapeError, match=r"the plan is of a product of shape \(3, 5\)"):
        found.predict(np.zeros((4, 8)), np.zeros((8, 5)))
