"""What libraries really add: the plan of every sum and product at hand, revealed and replayed bit for bit."""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from tcu.plan.plan import Plan
from tcu.plan.stored import document
from tcu.plan.tree import Blocks, TreeRegions, TreeStep
from tcu.probes.reveal import reveal, tree_of
from tcu.study.data import SEED
from tcu.study.study import Point, Row

__all__ = ["revealed"]

_DRAWN = 1000
"""Leaves of a tree that a row holds whole, if it is the tree of all results."""


def revealed(point: Point, function: Callable[..., Any], dtype: Any) -> Row:
    """A point, which says kind and sizes, with what :func:`tcu.reveal` finds about the function."""
    start = time.perf_counter()
    shape = tuple(point["shape"]) if "shape" in point else None
    found = reveal(
        function, point.get("n"), kind=point["kind"], dtype=dtype, shape=shape, outputs=point["outputs"], seed=SEED,
    )  # fmt: skip
    example = found.counterexample
    row: Row = {
        **point, "output": found.output, "verdict": found.verdict, "compared": found.compared,
        "different": found.different, "asked": found.asked, "conclusion": found.conclusion,
        "seconds": round(time.perf_counter() - start, 2),
        "counterexample": None if example is None else [float(example.function).hex(), float(example.plan).hex()],
    }  # fmt: skip
    return row if found.plan is None else row | _features(found.plan)


def _features(plan: Plan) -> Row:
    """What a plan does, in a few numbers and, where it is small, whole."""
    step = tree_of(plan)
    tree = step if isinstance(step, TreeStep) else step.trees[0]
    inputs = [node.inputs for node in tree.nodes]
    runs = [[value for value in each if value < tree.leaves] for each in inputs]
    strides = Counter(after - before for run in runs for before, after in pairwise(run))
    blocks = [node.operation.arithmetic.block for node in tree.nodes if isinstance(node.operation, Blocks)]
    return {
        "trees": len(step.trees) if isinstance(step, TreeRegions) else 1,
        "operations": list(dict.fromkeys(str(node.operation) for node in tree.nodes)),
        "operand": tree.operand,
        "tree": hashlib.sha256(json.dumps([inputs, tree.roots]).encode()).hexdigest()[:16],
        "depth": tree.depth,
        "chains": sum(map(bool, runs)),
        "longest": max(map(len, runs), default=0),
        "stride": strides.most_common(1)[0][0] if strides else 0,
        "block": max(blocks, default=0),
        "plan": document(plan) if tree is step and tree.leaves <= _DRAWN else None,
    }
