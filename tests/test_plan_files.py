"""Plans of sums and trees in files.

Contract: a plan of any variant, input, length and unit, and any tree of additions, comes back from its file as it
was.  A file of which one field is wrong, missing or of another type is refused with a typed error that names the
file; or what it holds is a plan that executes, and whose text and bits can be asked for without another error.
"""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tcu
from tcu.errors import DataFileError, TcuError
from tcu.formats import get_format
from tcu.plan import Plan, make_dot_plan, make_plan
from tcu.plan.plan import Part
from tcu.plan.tree import (
    Additions,
    Blocks,
    Compensated,
    ExactAddition,
    FusedProducts,
    TreeNode,
    TreeStep,
)
from tcu.plan.variants import VARIANTS
from tcu.plan.version import VERSIONS
from tcu.probes import predict
from tcu.units import AlignedSum, get_unit

LENGTHS = (0, 1, 7, 300, 100_000)


def of_tree(step: TreeStep, variant: str = "revealed", output: str = "binary32") -> Plan:
    parts = (Part(0, step.leaves, (step,)),)
    return Plan(step.leaves, step.operand, variant, None, 0, parts, (), output, VERSIONS["tree"])


def trees() -> dict[str, Plan]:
    single = Additions("binary32")
    pairs = TreeStep(
        5, tuple(TreeNode(single, pair) for pair in ((0, 1), (2, 3), (5, 6), (7, 4))), (8,), False, "binary32"
    )
    fused = TreeNode(FusedProducts("binary32"), (0, 1, 2))
    row = AlignedSum(4, 25, "RZ")
    blocks = TreeNode(Blocks("binary16", "binary32", row, False), (0, 1, 2, 3))
    carried = TreeNode(Blocks("binary16", "binary32", row, True), (6, 4, 5))
    scan = TreeStep(3, (TreeNode(single, (0, 1)), TreeNode(single, (3, 2))), (0, 3, 4), False, "binary32")
    return {
        "pairs": of_tree(pairs),
        "fused": of_tree(TreeStep(3, (fused,), (3,), True, "binary32")),
        "products": of_tree(TreeStep(2, (TreeNode(single, (0, 1)),), (2,), True, "binary16", product="binary16")),
        "compensated": of_tree(TreeStep(4, (TreeNode(Compensated("binary32", "kahan"), (0, 1, 2, 3)),), (4,), False, "binary32")),
        "exact": of_tree(TreeStep(4, (TreeNode(ExactAddition("binary32"), (0, 1, 2, 3)),), (4,), False, "binary16")),
        "blocks": of_tree(TreeStep(6, (blocks, carried), (7,), True, "binary16")),
        "running sums": of_tree(scan, "revealed running sums"),
    }  # fmt: skip


def made() -> dict[str, Plan]:
    half, unit = get_format("binary16"), get_unit("H100")
    return {name: make_plan(5000, half, unit, variant=name) for name in ("single-pass", "split", "warp-shuffle")} | {
        "dot": make_dot_plan(700, half)
    }  # fmt: skip


@pytest.mark.slow(10)
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", ["binary16", "bfloat16", "binary32", "binary64"])
def test_every_plan_comes_back_as_it_was(variant: str, name: str, tmp_path: Path) -> None:
    fmt = get_format(name)
    if not VARIANTS[variant].takes(fmt):
        return
    for unit in ("V100", "A100", "H200"):
        for n in LENGTHS:
            try:
                plan = make_plan(n, fmt, get_unit(unit), variant=variant)
            except TcuError:  # a unit without MMAs of the format
                continue
            plan.save(tmp_path / "plan.json")
            loaded = tcu.load_plan(tmp_path / "plan.json")
            assert loaded == plan
            assert (hash(loaded), str(loaded)) == (hash(plan), str(plan))


@pytest.mark.parametrize("name", trees())
def test_every_tree_comes_back_as_it_was(name: str, tmp_path: Path) -> None:
    plan = trees()[name]
    plan.save(tmp_path / "plan.json")
    assert tcu.load_plan(tmp_path / "plan.json") == plan


# Damaged files.

ODD: tuple[Any, ...] = (
    None,
    -1,
    0,
    3,
    99,
    10**30,
    1.5,
    True,
    "x",
    "binary32",
    "ue8m0",
    "LAST",
    [],
    [0],
    {},
    {"kind": "Plan"},
)
"""What a field is given."""  # fmt: skip


def edits(document: Any) -> Iterator[tuple[str, Callable[[Any], None]]]:
    """(where, what puts a document into disorder there), for every field, entry and value, and for its absence."""

    def walk(at: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
        for key in at if isinstance(at, dict) else range(len(at)) if isinstance(at, list) else ():
            yield (*path, key)
            yield from walk(at[key], (*path, key))

    def change(path: tuple[Any, ...], value: Any, absent: bool = False) -> Callable[[Any], None]:
        def edit(whole: Any) -> None:
            for key in path[:-1]:
                whole = whole[key]
            if absent:
                del whole[path[-1]]
            else:
                whole[path[-1]] = value

        return edit

    for path in walk(document, ()):
        yield f"{path} absent", change(path, None, absent=True)
        for value in ODD:
            yield f"{path} = {value!r}", change(path, value)


@pytest.mark.slow(1)
@pytest.mark.parametrize("name", [*trees(), *made()])
def test_no_damaged_field_is_an_error_of_another_kind(name: str, tmp_path: Path) -> None:
    plan = (trees() | made())[name]
    place = tmp_path / "plan.json"
    plan.save(place)
    document = json.loads(place.read_text("utf-8"))
    refused = 0
    for where, edit in edits(document):
        changed = copy.deepcopy(document)
        edit(changed)
        place.write_text(json.dumps(changed), "utf-8")
        try:
            loaded = tcu.load_plan(place)
        except DataFileError:
            refused += 1
            continue
        assert isinstance(loaded, Plan), where
        str(loaded)
        if loaded.variant.startswith("revealed"):
            x = np.ones(loaded.n, get_format(loaded.input).dtype)
            step = loaded.parts[0].steps[0]
            assert isinstance(step, TreeStep)
            with contextlib.suppress(TcuError):
                predict(loaded, *(x,) * (1 + step.products))
    assert refused > 100


def check_refused(plan: Plan, edit: Callable[[Any], None], why: str, folder: Path) -> None:
    place = folder / "plan.json"
    plan.save(place)
    document = json.loads(place.read_text("utf-8"))
    edit(document)
    place.write_text(json.dumps(document), "utf-8")
    with pytest.raises(DataFileError, match="holds no plan") as caught:
        tcu.load_plan(place)
    assert why in str(caught.value)


def wrong(**fields: Any) -> Callable[[Any], None]:
    return lambda document: document["plan"].update(fields)


def in_tree(**fields: Any) -> Callable[[Any], None]:
    return lambda document: document["plan"]["parts"][0]["steps"][0].update(fields)


def nodes(*found: Any) -> Callable[[Any], None]:
    return in_tree(nodes=list(found))


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        (wrong(version=99), "its order of additions is of version 99, this tcu's of 1"),
        (lambda document: document["plan"].pop("version"), "version"),
        (wrong(n=-1), "n=-1: a sum has no negative number of elements"),
        (wrong(variant="mine", parts=[], n=0), "variant='mine': this tcu has none of that name"),
        (lambda document: document["plan"]["parts"][0].update(stop=3), "its parts take 3 of 5 elements"),
        (lambda document: document["plan"]["parts"][0].update(start=1), "elements 1 to 5 do not begin where others end"),
        (nodes([0, 0, 1], [0, 2, 3], [0, 5, 6], [0, 7, 3]), "element 3 is added 2 times: a sum takes each once"),
        (nodes([0, 0, 1], [0, 2, 3], [0, 5, 4], [0, 7, 7]), "node 1 is added 0 times"),
        (nodes([-1, 0, 1]), "operation -1"),
        (in_tree(roots=[8, 7]), "2 roots of 5 leaves: a tree has one, or one for each"),
        (in_tree(zero="LAST"), "TreeStep.zero = 'LAST'"),
        (in_tree(product="e4m3"), "format='e4m3': sums are rounded to binary16"),
        (in_tree(operand_rounding="x"), "TreeStep.operand_rounding = 'x'"),
        (lambda document: document["operations"][0].update(flushed="false"), "Additions.flushed = 'false'"),
        (lambda document: document["operations"][0].update(format="ue8m0"), "format='ue8m0'"),
        (lambda document: document["operations"].__setitem__(0, {"kind": "FusedProducts", "format": "binary32"}), "have no fused"),
        (lambda document: document["plan"].update(final=document["plan"]["parts"][0]["steps"]), "a tree takes all elements"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(edit: Callable[[Any], None], why: str, tmp_path: Path) -> None:
    check_refused(trees()["pairs"], edit, why, tmp_path)


@pytest.mark.parametrize(
    ("name", "edit", "why"),
    [
        ("fused", nodes([0, 0, 1], [0, 3, 3, 2]), "take products alone"),
        ("running sums", in_tree(products=True), "a tree of products has one root"),
        ("blocks", lambda document: document["operations"][0].update(output="e4m3"), "format='e4m3'"),
        ("single-pass", lambda document: document["plan"]["parts"][0]["steps"][0].update(shape=[16, 8, 10**30]), "k=1000000000000000"),
        ("single-pass", lambda document: document["plan"]["parts"][0]["steps"][0].update(shape=[16, 8, 1 << 20], chain=1 << 20), "is far more than"),
        ("dot", lambda document: document["plan"]["parts"][0]["steps"][0].update(length=None), "FmaStep.length = None"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_other_plans_is_said(
    name: str, edit: Callable[[Any], None], why: str, tmp_path: Path
) -> None:
    check_refused((trees() | made())[name], edit, why, tmp_path)


def test_a_file_nested_beyond_measure_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "plan.json"
    place.write_text("[" * 100_000, "utf-8")
    with pytest.raises(DataFileError, match="holds no plan"):
        tcu.load_plan(place)
