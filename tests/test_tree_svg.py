"""Contract: a tree of additions drawn as SVG.

The drawing is an XML document of its own with colours for light and for dark,
names the operations at its nodes, shows every number of a small tree in the
order in which it is added, and shows what is alike once where it would get too
wide; each tree of a product has its own drawing, below a title.
"""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest

import tcu
from tcu.plan import TreeRegions
from tcu.plan.tree import Additions, Compensated, FusedProducts, TreeNode, TreeStep
from tcu.report.tree_svg import tree_svg

SINGLE = Additions("binary32")
_SVG = "{http://www.w3.org/2000/svg}"


def texts_of(drawing: str) -> list[str]:
    return [each.text or "" for each in ElementTree.fromstring(drawing).iter(f"{_SVG}text")]


def width_of(drawing: str) -> int:
    return int(ElementTree.fromstring(drawing).attrib["width"])


def test_a_small_tree_shows_every_number_in_its_order() -> None:
    step = TreeStep(5, (TreeNode(SINGLE, (3, 1)), TreeNode(SINGLE, (5, 4, 0, 2))), (6,), False, "binary32")
    drawing = tree_svg(step)
    assert texts_of(drawing) == ["+", "+", "3", "1", "4", "0", "2", "+: binary32 additions"]
    assert drawing.count('class="arrow"') == 1  # the first node adds a pair, whose order is no matter


def test_a_run_is_a_comb() -> None:
    step = TreeStep(
        64, (TreeNode(Compensated("binary64", "kahan"), tuple(range(64))),), (64,), False, "binary64"
    )
    texts = texts_of(tree_svg(step))
    assert texts == ["Kahan", "0 to 63", "Kahan: Kahan's sum in binary64"]


@pytest.mark.slow(1)
@pytest.mark.parametrize("n", [1_000, 20_000])
def test_a_wide_tree_shows_what_is_alike_once(n: int) -> None:
    plan = tcu.reveal(np.sum, n, dtype="float32", outputs=1, seed=0).plan
    assert plan is not None
    step = plan.parts[0].steps[0]
    assert isinstance(step, TreeStep)
    drawing = tree_svg(step)
    assert width_of(drawing) < 2_500
    assert "same as from 0" in texts_of(drawing)


def test_each_tree_of_a_product_has_a_title() -> None:
    chain = TreeStep(
        3, (TreeNode(FusedProducts("binary32"), (0, 1, 2)),), (3,), True, "binary32", product="binary32"
    )
    back = TreeStep(
        3, (TreeNode(FusedProducts("binary32"), (2, 1, 0)),), (3,), True, "binary32", product="binary32"
    )
    texts = texts_of(tree_svg(TreeRegions((chain, back), ((0, 0, 1), (0, 1, 1)))))
    assert "3 results, from [0, 0] to [1, 0]:" in texts
    assert "3 results, from [0, 2] to [1, 2]:" in texts
    assert texts.count("FMA") == 2


def test_colours_are_the_page_s_or_its_own() -> None:
    drawing = tree_svg(TreeStep(2, (TreeNode(SINGLE, (0, 1)),), (2,), False, "binary32"))
    assert "prefers-color-scheme: dark" in drawing
    assert ".tree:root { color-scheme: light dark" in drawing
    body = drawing.partition("</style>")[2]
    assert "#" not in body  # every colour is a variable, which a page may set


@pytest.mark.parametrize("seed", range(6))
def test_any_tree_is_drawn(seed: int) -> None:
    """Nodes add up one to seven values that are not added yet, whatever their order and place."""
    rng = np.random.default_rng(seed)
    leaves, nodes = 60, []
    values = list(range(leaves))
    while len(values) > 1:
        taken = rng.choice(len(values), min(int(rng.integers(1, 8)), len(values)), replace=False)
        nodes.append(TreeNode(SINGLE, tuple(values[place] for place in taken)))
        values = [value for place, value in enumerate(values) if place not in taken]
        values.append(leaves + len(nodes) - 1)
    drawing = tree_svg(TreeStep(leaves, tuple(nodes), (values[0],), False, "binary32"))
    assert "+" in texts_of(drawing)
    boxes = [
        {name: float(each.attrib[name]) for name in ("x", "width")}
        for each in ElementTree.fromstring(drawing).iter(f"{_SVG}rect")
    ]
    assert all(box["x"] >= 0 and box["x"] + box["width"] <= width_of(drawing) for box in boxes)
