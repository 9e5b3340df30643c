"""Contract: a figure's curves are drawn whole, inside of the drawing, a colour for each series, gaps left open; the legend
wraps, and the file is well-formed XML without a script or anything from elsewhere.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from tcu.report.line_svg import line_svg
from tcu.report.series import looks
from tcu.study import Figure, Line

SVG = "{http://www.w3.org/2000/svg}"


def drawn(figure: Figure) -> ElementTree.Element:
    return ElementTree.fromstring(line_svg(figure))


def curves(root: ElementTree.Element) -> dict[str, str]:
    return {each.findtext(f"{SVG}title", ""): each.get("d", "") for each in root.iter(f"{SVG}path") if each.find(f"{SVG}title") is not None}  # fmt: skip


@pytest.mark.parametrize("log", [False, True])
def test_every_point_is_where_its_numbers_say(log: bool) -> None:
    x = [1, 10, 100, 1000]
    root = drawn(Figure("a < b", "n", "error & more", [Line("one", x, x), Line("two", x, x[::-1])], log, log))
    found = curves(root)
    places = {name: [tuple(map(float, each)) for each in re.findall(r"([\d.]+) ([\d.]+)", path)] for name, path in found.items()}  # fmt: skip
    width, height = float(root.get("width", "")), float(root.get("height", ""))
    assert all(0 <= a <= width and 0 <= b <= height for each in places.values() for a, b in each)
    steps = [b[0] - a[0] for a, b in zip(places["one"], places["one"][1:], strict=False)]
    if log:
        assert steps == pytest.approx([steps[0]] * 3, abs=0.2), "decades are alike"
    else:
        assert steps[2] == pytest.approx(10 * steps[1], rel=0.02)
    assert [b for _, b in places["one"]] == sorted((b for _, b in places["one"]), reverse=True), (
        "y goes upwards"
    )
    assert [b for _, b in places["two"]] == [b for _, b in places["one"]][::-1]


def test_gaps_and_what_a_logarithm_does_not_have_stay_open() -> None:
    line = Line("sum", [1, 2, 3, 4, 5], [1.0, None, 3.0, 0.0, 5.0])
    assert curves(drawn(Figure("t", "n", "y", [line], True, True)))["sum"].count("M") == 3
    assert curves(drawn(Figure("t", "n", "y", [line])))["sum"].count("M") == 2
    assert curves(drawn(Figure("t", "n", "y", [Line("none", [1], [None])]))) == {}
    assert len(curves(drawn(Figure("t", "n", "y", [Line("one", [3], [4.0])])))) == 1


def test_the_legend_wraps_and_names_every_series() -> None:
    names = [f"a long name of a series, number {i}" for i in range(9)]
    root = drawn(
        Figure("t", "n", "y", [Line(name, [1, 2], [1, i], dashed=i == 3) for i, name in enumerate(names)])
    )
    texts = {
        each.text: (float(each.get("x", "")), float(each.get("y", ""))) for each in root.iter(f"{SVG}text")
    }
    assert set(names) <= set(texts)
    assert len({texts[name][1] for name in names}) > 2
    assert max(texts[name][0] + 7 * len(name) for name in names) < float(root.get("width", ""))
    assert max(texts[name][1] for name in names) < float(root.get("height", ""))
    assert sum("dashed" in each.get("class", "") for each in root.iter(f"{SVG}path")) == 2, (
        "the curve and its legend"
    )


def test_a_curve_under_another_is_wider() -> None:
    x, same = [1, 2, 3], [5.0, 6.0, 7.0]
    lines = [Line("below", x, same), Line("aside", x, [1, 1, 1]), Line("above", x, same)]
    text = line_svg(Figure("t", "n", "y", lines))
    widths = re.findall(r"stroke-width: (\d+)\"", text)
    assert widths == ["5", "2", "2"]


def test_colours_are_those_that_are_given() -> None:
    x = [1, 2]
    known = looks([Figure("t", "n", "y", [Line(name, x, x) for name in ("tcu.sum", "torch", "CUB")])])
    for names in (["torch", "CUB"], ["CUB"]):
        text = line_svg(Figure("t", "n", "y", [Line(name, x, x) for name in names]), known)
        for name, look in known.items():
            assert (look.colour in text) == (name in names)


def test_ticks_are_round_numbers() -> None:
    root = drawn(Figure("t", "n", "TB/s", [Line("a", [2**16, 2**30], [0.4, 4.6])], log_x=True))
    texts = ["".join(each.itertext()) for each in root.iter(f"{SVG}text")]
    assert {"0", "1", "2", "3", "4"} < set(texts)
    assert "106" in texts, "ten to the sixth, its power raised"
