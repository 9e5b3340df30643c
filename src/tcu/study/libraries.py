"""What libraries really add: the plan of every sum and product at hand, revealed, and replayed from its document."""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import importlib.util
import json
import platform
import time
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from tcu.formats.format import get_format
from tcu.formats.tensor import is_tensor, matrix_view, tensor_of
from tcu.model.tree import rounded
from tcu.plan.load import plan_of
from tcu.plan.plan import Plan
from tcu.plan.stored import document
from tcu.plan.tree import FusedProducts, TreeRegions, TreeStep
from tcu.probes.black_box import same_bits
from tcu.probes.library import dtype_for, with_arrays_alone
from tcu.probes.replay import predict, tree_of
from tcu.probes.reveal import reveal
from tcu.study.data import SEED
from tcu.study.study import Point, Row, Rows, Shown, Study, Table, Tree, Verdict

__all__ = ["LIBRARIES", "parts", "revealed", "words_of"]

_DRAWN = 1000
"""Leaves of a tree that a row holds whole, if it is the tree of all results."""
_SUMS = (
    ("numpy.sum", "float32", (100, 1000, 10_000)), ("numpy.sum", "float64", (1000,)), ("numpy.sum", "float16", (1000,)),
    ("torch.sum", "float32", (100, 1000, 10_000)), ("torch.sum", "float64", (1000,)), ("torch.sum", "bfloat16", (1000,)),
    ("pyarrow.compute.sum", "float64", (1000,)), ("builtins.sum", "float64", (100,)), ("math.fsum", "float64", (100,)),
)  # fmt: skip
_DOTS = (
    ("numpy.dot", "float32", (16, 32, 1000)), ("numpy.dot", "float64", (1000,)), ("torch.dot", "float32", (1000,)),
    ("scipy.linalg.blas.sdot", "float32", (1000,)),
)  # fmt: skip
_RUNNING = (
    ("numpy.cumsum", "float32", (200,)), ("torch.cumsum", "float32", (200,)), ("torch.cumsum", "float64", (200,)),
)  # fmt: skip
_SIDE = 16
"""Rows and columns of products."""
_PRODUCTS = (
    ("numpy.matmul", "float32", (64, 256, 1024)), ("numpy.matmul", "float64", (64, 1024)),
    ("scipy.linalg.blas.sgemm", "float32", (1024,)), ("torch.matmul", "float32", (64, 256, 1024)),
    ("torch.matmul", "float64", (256,)), ("torch.matmul", "float16", (256,)), ("torch.matmul", "bfloat16", (64, 1024)),
)  # fmt: skip
_LANES, _BLOCK = 8, 128
"""Of numpy.sum: blocks of up to so many numbers are added in so many lanes, longer rows in two halves."""
_COMPENSATED = (3, 12)
"""Python whose sum of floats carries its errors along (python.org, What's new in Python 3.12)."""


def _points(quick: bool) -> list[Point]:
    kinds = (("sum", _SUMS), ("dot", _DOTS), ("cumsum", _RUNNING), ("matmul", _PRODUCTS))
    return [
        {"target": target, "kind": kind, "dtype": dtype, "outputs": 200 if quick else None}
        | ({"shape": [_SIDE, _SIDE, n]} if kind == "matmul" else {"n": n})
        for kind, functions in kinds for target, dtype, sizes in functions for n in (sizes[:1] if quick else sizes)
    ]  # fmt: skip


def _measure(point: Point) -> Rows:
    target = point["target"]
    module, _, name = target.rpartition(".")
    package = module.partition(".")[0]
    if importlib.util.find_spec(package) is None:
        return [point | {"missing": f"{package} is not installed"}]
    function = with_arrays_alone(target, getattr(importlib.import_module(module), name))
    dtype = dtype_for(target, point["dtype"])
    row = revealed(point, function, dtype)
    library = (
        platform.python_version() if package in ("builtins", "math") else importlib.metadata.version(package)
    )
    return [row | {"version": library} | _replayed(row, function, tensors=dtype is not point["dtype"])]


def _replayed(row: Row, function: Callable[..., Any], *, tensors: bool) -> Row:
    """The stored plan beside the function on numbers as users have them: normal ones."""
    if not row["reproduced"] or row["plan"] is None:
        return {}
    rng = np.random.default_rng(SEED)
    m, columns, k = row.get("shape", (1, 1, row.get("n")))
    sizes = [(m, k), (k, columns)] if row["kind"] == "matmul" else [(k,)] * (1 + (row["kind"] == "dot"))
    arrays = [rounded(rng.standard_normal(size), get_format(row["dtype"])) for size in sizes]
    answer = function(*map(tensor_of, arrays) if tensors else arrays)
    found = predict(plan_of(row["plan"], "a row"), *arrays)
    expected = np.asarray(matrix_view(answer, row["target"]) if is_tensor(answer) else answer)
    same = same_bits(found.astype(np.float64), expected.astype(np.float64))
    return {"replayed": found.size, "replayed_different": int(np.count_nonzero(~same))}


def revealed(point: Point, function: Callable[..., Any], dtype: Any) -> Row:
    """A point, which says kind and sizes, with what :func:`tcu.reveal` finds about the function."""
    start = time.perf_counter()
    shape = tuple(point["shape"]) if "shape" in point else None
    found = reveal(
        function, point.get("n"), kind=point["kind"], dtype=dtype, shape=shape, outputs=point["outputs"], seed=SEED,
    )  # fmt: skip
    example = found.counterexample
    row: Row = {
        **point, "output": found.output, "reproduced": found.verdict == "reproduced", "compared": found.compared,
        "different": found.different, "asked": found.asked, "conclusion": found.conclusion,
        "counterexample": None if example is None else [float(example.function).hex(), float(example.plan).hex()],
    }  # fmt: skip
    if found.plan is not None:
        row |= _features(found.plan)
    return row | {"seconds": round(time.perf_counter() - start, 2)}


def _features(plan: Plan) -> Row:
    """What a plan does, in a few numbers and, where it is small, whole."""
    step = tree_of(plan)
    tree = step if isinstance(step, TreeStep) else step.trees[0]
    inputs = [node.inputs for node in tree.nodes]
    runs = [[value for value in each if value < tree.leaves] for each in inputs]
    strides = Counter(after - before for run in runs for before, after in pairwise(run))
    return {
        "trees": len(step.trees) if isinstance(step, TreeRegions) else 1,
        "operations": list(dict.fromkeys(str(node.operation) for node in tree.nodes)),
        "fused": any(isinstance(node.operation, FusedProducts) for node in tree.nodes),
        "operand": tree.operand,
        "tree": hashlib.sha256(json.dumps([inputs, tree.roots]).encode()).hexdigest()[:16],
        "depth": tree.depth,
        "chains": sum(map(bool, runs)),
        "longest": max(map(len, runs), default=0),
        "stride": strides.most_common(1)[0][0] if strides else 0,
        "plan": document(plan) if tree is step and tree.leaves <= _DRAWN else None,
    }


# What the rows amount to


def _show(rows: Rows) -> Shown:
    known = [row for row in rows if "missing" not in row]
    return Shown(parts(rows), [verdict for judge in _JUDGES if (verdict := judge(known)) is not None])


def parts(rows: Rows) -> list[Table | Tree]:
    """What every function adds, who is missing, and the trees."""
    known = [row for row in rows if "missing" not in row]
    table = Table(
        "What each function adds", ("function", "version", "of", "plan", "arithmetic", "additions deep", "fresh results", "different"),
        [
            [row["target"], row.get("version", ""), words_of(row), _in_words(row), "; ".join(row.get("operations", ["–"])),
             f"{row['depth']:,}" if "depth" in row else "–", f"{row['compared']:,}", f"{row['different']:,}"] for row in known
        ],
        open=True,
    )  # fmt: skip
    absent = [[row["target"], words_of(row), row["missing"]] for row in rows if "missing" in row]
    missing = [Table("Who is missing", ("function", "of", "why"), absent)] if absent else []
    return [table, *missing, *_trees(known)]


def words_of(row: Row) -> str:
    sizes = f"{row['n']:,} numbers" if "n" in row else " × ".join(map(str, row["shape"]))
    return f"{row['dtype']}, {sizes}"


def _in_words(row: Row) -> str:
    """The shape of the tree: how many runs of elements, how long, and how far apart their elements are."""
    if "chains" not in row:
        return "none"
    apart = f", {row['stride']} elements apart" if row["stride"] > 1 else ""
    several = f"{row['trees']} trees; the first: " if row["trees"] > 1 else ""
    runs = "one run of" if row["chains"] == 1 else f"{row['chains']:,} runs of up to"
    best = "" if row["reproduced"] else "not reproduced; the best: "
    return f"{best}{several}{runs} {row['longest']:,}{apart}"


def _trees(rows: Rows) -> list[Tree]:
    """The first stored tree of each function and arithmetic."""
    found: dict[tuple[str, ...], Tree] = {}
    for row in rows:
        if not row["reproduced"] or row["plan"] is None:
            continue
        key = row["target"], *row["operations"]
        if key not in found:
            plan = plan_of(row["plan"], "a row")
            assert isinstance(plan, Plan)
            step = tree_of(plan)
            assert isinstance(step, TreeStep)
            found[key] = Tree(f"{row['target']}: {words_of(row)}", step)
    return list(found.values())


def _chosen(rows: Rows, *targets: str, kind: str = "") -> Rows:
    """What was reproduced of these functions, or of all of a kind."""
    return [
        row for row in rows
        if (row["target"] in targets or row["kind"] == kind) and row["reproduced"]
    ]  # fmt: skip


def _all_reproduced(rows: Rows) -> Verdict | None:
    wrong = [row for row in rows if not row["reproduced"]]
    results = sum(row["compared"] for row in rows)
    return Verdict.of(
        "tcu", "Every function here follows one plan, which returns every bit of fresh results.",
        f"{len(rows) - len(wrong)} of {len(rows)} points, {results:,} results made to tell plans apart.",
        bool(rows) and not wrong,
        "; ".join(f"{row['target']} of {words_of(row)}: {row['conclusion']}" for row in wrong),
        check="no point is refused", rows=rows, fields=("reproduced",),
    )  # fmt: skip


def _all_replayed(rows: Rows) -> Verdict | None:
    stored = [row for row in rows if row.get("replayed")]
    different = sum(row["replayed_different"] for row in stored)
    return Verdict.of(
        "tcu", "A plan that was written down and read again returns the function's bits on ordinary numbers.",
        f"{len(stored)} plans, {sum(row['replayed'] for row in stored):,} results, {different:,} different.",
        bool(stored) and not different, "a plan of the rows is not the function's",
        check="no result of normal numbers differs", rows=stored, fields=("replayed_different",),
    ) if stored else None  # fmt: skip


def _numpy_is_pairwise(rows: Rows) -> Verdict | None:
    own = _chosen(rows, "numpy.sum")
    told = ", ".join(f"n = {row['n']:,}: {row['depth']}" for row in own)
    return Verdict.of(
        "tcu", f"numpy.sum adds blocks of up to {_BLOCK} numbers in {_LANES} lanes, and longer rows as two halves.",
        f"Every {own[0]['stride']}th number in a run; additions deep: {told}.",
        all(row["stride"] == _LANES and row["depth"] == _pairwise_depth(row["n"]) for row in own),
        "this NumPy adds in another order",
        check=f"runs take every {_LANES}th number, and the depth is that of halves down to {_BLOCK}", rows=own,
        fields=("stride", "depth"),
    ) if own else None  # fmt: skip


def _pairwise_depth(n: int) -> int:
    """Additions that a number goes through at most: lanes, three pairs of lanes, what is left; or halves of whole lanes."""
    if n <= _BLOCK:
        return n // _LANES - 1 + 3 + n % _LANES
    half = n // 2 // _LANES * _LANES
    return 1 + max(_pairwise_depth(half), _pairwise_depth(n - half))


def _halves_are_wide(rows: Rows) -> Verdict | None:
    own = [row for row in _chosen(rows, kind="sum") if get_format(row["dtype"]).bits == 16]
    told = "; ".join(f"{row['target']} of {row['dtype']}: {', '.join(row['operations'])}" for row in own)
    return Verdict.of(
        "tcu", "Sums of 16-bit numbers are added up in binary32 alone, and rounded once.", f"{told}.",
        all(row["operations"] == ["binary32 additions"] for row in own), "an addition is of another format",
        check="every addition is of binary32", rows=own, fields=("operations",),
    ) if own else None  # fmt: skip


def _no_two_alike(rows: Rows) -> Verdict | None:
    pairs = [
        (one, other) for one in _chosen(rows, "numpy.sum") for other in _chosen(rows, "torch.sum")
        if (one["dtype"], one["n"]) == (other["dtype"], other["n"])
    ]  # fmt: skip
    different = sum(one["tree"] != other["tree"] for one, other in pairs)
    return Verdict.of(
        "tcu", "numpy.sum and torch.sum of the same numbers add in different orders.",
        f"At {different} of {len(pairs)} lengths and formats that both have.", different == len(pairs),
        "they add in the same order somewhere", check="no tree of the one is the other's",
        rows=[row for pair in pairs for row in pair], fields=("tree",),
    ) if pairs else None  # fmt: skip


def _running_sums_are_loops(rows: Rows) -> Verdict | None:
    own = _chosen(rows, kind="cumsum")
    told = "; ".join(f"{row['target']} of {words_of(row)}: {', '.join(row['operations'])}" for row in own)
    return Verdict.of(
        "tcu", "Running sums on a processor are loops: each adds one number to the one before.", f"{told}.",
        all(row["depth"] == row["chains"] == row["n"] - 1 for row in own), "a running sum takes shorter ways",
        check="as many additions as numbers but one, and as deep", rows=own, fields=("depth", "chains"),
    ) if own else None  # fmt: skip


def _products_are_fused(rows: Rows) -> Verdict | None:
    own = [row for row in _chosen(rows, kind="matmul") if get_format(row["dtype"]).bits >= 32]
    plain = [row for row in own if not row["fused"]]
    return Verdict.of(
        "tcu", "Products of matrices of binary32 and binary64 are chains of FMAs: no product is rounded by itself.",
        f"{len(own) - len(plain)} of {len(own)} products.", not plain,
        "; ".join(f"{row['target']} of {words_of(row)}: {', '.join(row['operations'])}" for row in plain),
        check="every plan has FMAs", rows=own, fields=("fused",),
    ) if own else None  # fmt: skip


def _long_products_are_split(rows: Rows) -> Verdict | None:
    own = [row for row in _chosen(rows, kind="matmul") if row["dtype"] == "float32"]
    by_function = {row["target"]: [each for each in own if each["target"] == row["target"]] for row in own}
    several = {target: each for target, each in by_function.items() if len(each) > 1}
    told = "; ".join(
        f"{target}: " + ", ".join(f"K = {row['shape'][2]:,} {row['chains']} of up to {row['longest']}" for row in each)
        for target, each in several.items()
    )  # fmt: skip
    return Verdict.of(
        "tcu", "A product of binary32 is one chain for a short K and several for a long one: its bits change with K's tile.",
        f"Chains: {told}.",
        all(each[0]["chains"] == 1 and each[-1]["chains"] > 1 for each in several.values()),
        "a library cuts even short K, or none",
        check="one chain at the shortest K, several at the longest, for every library",
        rows=[row for each in several.values() for row in (each[0], each[-1])], fields=("chains",),
    ) if several else None  # fmt: skip


def _pythons_sum(rows: Rows) -> Verdict | None:
    own = _chosen(rows, "builtins.sum")
    if not own:
        return None
    version = tuple(int(part) for part in own[0]["version"].split(".")[:2])
    expected = "Neumaier" if version >= _COMPENSATED else "binary64 additions"
    return Verdict.of(
        "tcu", "Python's sum of floats is a loop before 3.12, and carries its errors along from then on.",
        f"Python {own[0]['version']}: {', '.join(own[0]['operations'])}.",
        all(expected in "; ".join(row["operations"]) for row in own), "this Python's sum is another",
        check="the operation is that of its version", rows=own, fields=("operations",),
    )  # fmt: skip


_JUDGES: tuple[Callable[[Rows], Verdict | None], ...] = (
    _all_reproduced, _all_replayed, _numpy_is_pairwise, _no_two_alike, _halves_are_wide, _running_sums_are_loops,
    _products_are_fused, _long_products_are_split, _pythons_sum,
)  # fmt: skip

LIBRARIES = Study(
    "libraries", "What libraries really add", (),
    "Who is added with whom, and in which arithmetic, in NumPy, PyTorch, SciPy, PyArrow and Python on this processor?",
    _show, _points, _measure, (20, 60), seed=SEED, sources=("model", "probes"),
)  # fmt: skip
