"""Contract: a series has one colour in every figure of a page; in a figure no two series share one, as long as there are
enough, and marks tell the curves of one series apart; every colour is seen on a light and on a dark page; a curve that
lies below others is wider than they.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import pytest

from tcu.report.chapters import collect
from tcu.report.html_page import page
from tcu.report.plots import plot
from tcu.report.series import COLOURS, MARKS, looks, widths
from tcu.study import STUDIES, Figure, Line, stored_folder


def brightness(colour: str) -> float:
    """Relative luminance, as the web's guidelines define it."""
    shares = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.fixture(scope="module")
def figures() -> list[Figure]:
    """Of every study as it is stored."""
    empty = Path(tempfile.gettempdir())
    found = collect(list(STUDIES.values()), empty, quick=False, stored=stored_folder(), measure=False)
    return [part for chapter in found for part in chapter.shown.parts if isinstance(part, Figure)]


def test_a_series_has_one_colour_and_no_two_in_a_figure_share_it(figures: list[Figure]) -> None:
    known = looks(figures)
    of: dict[str, set[str]] = {}
    assert len(figures) > 50
    for figure in figures:
        for trace, line in zip(plot(figure, known)["data"], figure.lines, strict=True):
            assert trace["line"]["color"].startswith(known[line.name].colour)
            of.setdefault(line.series or line.name, set()).add(trace["line"]["color"][:7])
        series = {line.series or line.name for line in figure.lines}
        assert len({colour for one in series for colour in of[one]}) == min(len(series), len(COLOURS)), (
            figure.title
        )
        drawn = [(known[line.name], line.dashed) for line in figure.lines]
        assert len(set(drawn)) == len(drawn), f"two curves look alike in {figure.title}"
    assert {one: colours for one, colours in of.items() if len(colours) > 1} == {}


def test_variants_of_a_unit_and_of_another_share_a_colour(figures: list[Figure]) -> None:
    known = looks(figures)
    assert known["V100 single-pass"].colour == known["T4 single-pass"].colour != known["V100 split"].colour
    assert known["V100 single-pass"].mark != known["H100 single-pass"].mark


def test_every_colour_is_seen_on_every_page() -> None:
    pages = re.findall(r"--page: (#[0-9a-f]+);", page("", "").replace("#fff;", "#ffffff;"))
    assert len(pages) == 2
    for colour in COLOURS:
        for behind in pages:
            low, high = sorted((brightness(colour), brightness(behind)))
            assert (high + 0.05) / (low + 0.05) >= 3, (colour, behind)
    assert len(set(COLOURS)) == len(COLOURS)
    assert len(set(MARKS)) == len(MARKS)


def test_of_curves_at_the_same_points_each_is_wider_than_those_above(figures: list[Figure]) -> None:
    for figure in figures:
        for i, (line, width) in enumerate(zip(figure.lines, widths(figure), strict=True)):
            above = [j for j in range(i + 1, len(figure.lines))
                     if (figure.lines[j].x, figure.lines[j].y) == (line.x, line.y) and any(line.y)]  # fmt: skip
            assert all(widths(figure)[j] < width for j in above), (figure.title, line.name)
    x, y = [1, 2, 3], [5.0, 6.0, 7.0]
    same = Figure("t", "n", "y", [Line(name, x, y) for name in "abc"] + [Line("d", x, [1.0, 1.0, 1.0])])
    assert widths(same) == [8, 5, 2, 2]
    assert widths(Figure("t", "n", "y", [Line("none", [1], [None]), Line("one", [1], [2.0])])) == [2, 2]
