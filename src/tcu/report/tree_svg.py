"""A tree of additions as an SVG drawing: the sum on top, its numbers below, read from left to right.

A bar joins what a node adds up, in its order; where more than two inputs
follow each other, the bar has an arrow.  A comb is a run of numbers.  A tree that would be too wide shows
what is alike once, and a box for each place where it comes again.  Within a
page of :mod:`tcu.report.html_page` it has the page's colours, and as a file
colours of its own, for light and for dark.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape

from tcu.plan.tree import (
    Additions,
    Blocks,
    Compensated,
    ExactAddition,
    FusedProducts,
    TreeOperation,
    TreeRegions,
    TreeStep,
)
from tcu.report.tree_parts import TreeParts, leaf_ranges, titled_trees

__all__ = ["tree_svg"]

_STYLE = """
.tree:root { color-scheme: light dark; --ink: #1c2024; --dim: #60676f; --page: #fff; --card: #f5f7f9; --name: #0b6477;
  background: var(--page); }
@media (prefers-color-scheme: dark) { .tree:root { --ink: #e4e7ea; --dim: #98a1ab; --page: #14171a; --card: #1d2126;
  --name: #5cc8dd; } }
.tree { font-size: 12px; font-family: system-ui, sans-serif; max-width: 100%; height: auto; }
.tree text { fill: var(--ink); text-anchor: middle; } .tree .dim { fill: var(--dim); } .tree .start { text-anchor: start; }
.tree path { stroke: var(--dim); fill: none; } .tree .arrow { fill: var(--dim); stroke: none; }
.tree rect { fill: var(--page); stroke: var(--name); } .tree .again { fill: var(--card); stroke: var(--dim); stroke-dasharray: 3 2; }
"""
_WIDEST = 36
"""Columns up to which a tree is drawn in full."""
_MOST_LEVELS = 12
_MOST_ROOTS = 4
_SINGLE = 4
"""Leaves that are drawn one by one, side by side."""
_ROW, _GAP, _LINE, _LETTER = 46.0, 12.0, 15.0, 6.6
"""Between levels, between columns, between lines of text, and a letter's width."""
_TOOTH = 7
"""Between the teeth of a comb."""


@dataclass
class _Box:
    """A part of the drawing: what it says and what hangs below it."""

    text: list[str]
    look: str
    """"node", "leaves" or "again"."""
    below: list[_Box] = field(default_factory=list)
    in_turn: bool = False
    """Whether what hangs below is added one after another; of leaves, whether they are."""
    run: bool = False
    """Of leaves: whether they are several."""
    width: float = 0.0
    x: float = 0.0
    """Of its centre."""
    y: float = 0.0


def tree_svg(step: TreeStep | TreeRegions) -> str:
    """The drawing, as a file or as a part of a page."""
    pieces: list[str] = []
    width, y = 0.0, _LINE
    operations: dict[TreeOperation, None] = {}
    for title, tree in titled_trees(step):
        operations |= dict.fromkeys(node.operation for node in tree.nodes)
        parts = TreeParts(tree)
        for number, root in enumerate(tree.roots[:_MOST_ROOTS]):
            name = f"result {number}" if len(tree.roots) > 1 else ""
            heading = " ".join(filter(None, (title, name)))
            if heading:
                pieces.append(_text(0, y, heading, "start"))
                width, y = max(width, _LETTER * len(heading)), y + _LINE
            box = _folded(parts, root)
            _measure(box)
            _place(box, 0.0, y)
            pieces += _drawn(box)
            width, y = max(width, box.width), _bottom(box) + _ROW / 2
        if len(tree.roots) > _MOST_ROOTS:
            more = f"and {len(tree.roots) - _MOST_ROOTS:,} more results"
            pieces.append(_text(0, y, more, "start dim"))
            width, y = max(width, _LETTER * len(more)), y + _LINE
    for operation in operations:
        legend = f"{_sign(operation)}: {operation}"
        pieces.append(_text(0, y, legend, "start dim"))
        width, y = max(width, _LETTER * len(legend)), y + _LINE
    height, label = round(y), escape(str(step), quote=True)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="tree" role="img" aria-label="{label}" '
        f'viewBox="-8 -4 {round(width) + 16} {height + 4}" width="{round(width) + 16}" height="{height + 4}">'
        f"<style>{_STYLE}</style>{''.join(pieces)}</svg>\n"
    )


def _sign(operation: TreeOperation) -> str:
    """What stands in a node."""
    if isinstance(operation, Additions):
        return "+"
    if isinstance(operation, FusedProducts):
        return "FMA"
    if isinstance(operation, Compensated):
        return operation.method.capitalize()
    if isinstance(operation, ExactAddition):
        return "exact"
    assert isinstance(operation, Blocks)
    return f"block of {operation.arithmetic.block}"


# What is drawn


def _folded(parts: TreeParts, root: int) -> _Box:
    """In full where that is not too wide."""
    whole = _Folding(parts, once=False).box(root)
    return whole if whole is not None else _Folding(parts, once=True).whole(root)


class _Folding:
    def __init__(self, parts: TreeParts, *, once: bool) -> None:
        self.parts, self.once = parts, once
        self.columns = 0
        self.drawn: dict[int, int] = {}
        """Kinds that stand in the drawing already, and where they begin there."""

    def whole(self, root: int) -> _Box:
        found = self.box(root)
        assert found is not None
        return found

    def box(self, value: int, level: int = 0) -> _Box | None:
        """What is drawn of a value; None as soon as it gets too wide."""
        step, parts = self.parts.step, self.parts
        if value < step.leaves:
            return self._leaves([value])
        kind, first = parts.kind[value], parts.first[value]
        if self.once and kind in self.drawn:
            begun = self.drawn[kind]
            return _Box([f"same as from {begun:,}", f"on, {first - begun:,} on"], "again")
        if self.once and (level >= _MOST_LEVELS or self.columns > _WIDEST):
            return _Box([f"... from {first:,} on"], "again")
        node = step.nodes[value - step.leaves]
        order = parts.order(value)
        text = _sign(node.operation) + (order if isinstance(node.operation, Blocks) else "")
        found = _Box([text], "node", in_turn=bool(order))
        for group in parts.groups(node.inputs):
            leaves = group[0] < step.leaves
            boxes = self._leaf_group(group, found.in_turn) if leaves else self._alike(group, level)
            if boxes is None or (not self.once and self.columns > _WIDEST):
                return None
            found.below += boxes
        self.drawn[kind] = first
        return found

    def _leaf_group(self, leaves: list[int], in_turn: bool) -> list[_Box]:
        if len(leaves) <= _SINGLE:
            return [self._leaves([leaf]) for leaf in leaves]
        return [self._leaves(leaves, in_turn)]

    def _leaves(self, leaves: list[int], in_turn: bool = False) -> _Box:
        self.columns += 1
        lines = [part for text in leaf_ranges(leaves) for part in text.replace(" by", "\nby").split("\n")]
        return _Box(lines, "leaves", in_turn=in_turn, run=len(leaves) > 1)

    def _alike(self, group: list[int], level: int) -> list[_Box] | None:
        if self.once and len(group) > 2:
            first = self.parts.first
            by = first[group[1]] - first[group[0]]
            text = [f"{len(group) - 1:,} times the same,", f"each {abs(by):,} {'on' if by > 0 else 'back'}"]
            return [self.whole_below(group[0], level), _Box(text, "again")]
        found = []
        for value in group:
            box = self.box(value, level + 1)
            if box is None:
                return None
            found.append(box)
        return found

    def whole_below(self, value: int, level: int) -> _Box:
        found = self.box(value, level + 1)
        assert found is not None
        return found


# Where it is drawn


def _own_width(box: _Box) -> float:
    width = max(len(line) for line in box.text) * _LETTER + (12 if box.look != "leaves" else 0)
    return max(width, 4.0 * _TOOTH + 8) if box.run else width


def _measure(box: _Box) -> None:
    for below in box.below:
        _measure(below)
    spread = sum(below.width for below in box.below) + _GAP * (len(box.below) - 1)
    box.width = max(_own_width(box), spread)


def _place(box: _Box, left: float, y: float) -> None:
    box.x, box.y = left + box.width / 2, y
    if not box.below:
        return
    spread = sum(below.width for below in box.below) + _GAP * (len(box.below) - 1)
    at = left + (box.width - spread) / 2
    for below in box.below:
        _place(below, at, y + _ROW)
        at += below.width + _GAP
    box.x = (box.below[0].x + box.below[-1].x) / 2
    half = _own_width(box) / 2
    box.x = min(max(box.x, left + half), left + box.width - half)


def _bottom(box: _Box) -> float:
    return max((_bottom(below) for below in box.below), default=box.y + _LINE * len(box.text) + 4)


def _drawn(box: _Box) -> list[str]:
    found: list[str] = []
    if box.look != "leaves":
        half, tall = _own_width(box) / 2, _LINE * len(box.text) + 3
        kind = ' class="again"' if box.look == "again" else ""
        found.append(
            f'<rect{kind} x="{box.x - half:.1f}" y="{box.y - 10:.1f}" width="{2 * half:.1f}" height="{tall:.1f}" rx="4"/>'
        )
    look = "" if box.look == "node" else "dim"
    found += [_text(box.x, box.y + 3 + _LINE * number, line, look) for number, line in enumerate(box.text)]
    if box.run:
        left, top, ticks = box.x - 2 * _TOOTH, box.y - 20, f"v8m{_TOOTH} -8" * 5
        found.append(f'<path d="M{left:.1f} {top:.1f}h{4 * _TOOTH}M{left:.1f} {top:.1f}{ticks}"/>')
        if box.in_turn:
            found.append(_arrow(left + 4 * _TOOTH + 4, top))
    if box.below:
        first, last, bar = box.below[0].x, box.below[-1].x, box.y + 20
        found.append(f'<path d="M{box.x:.1f} {box.y + 8:.1f}V{bar:.1f}M{first:.1f} {bar:.1f}H{last:.1f}"/>')
        found += [
            f'<path d="M{below.x:.1f} {bar:.1f}V{below.y - (20 if below.run else 10):.1f}"/>'
            for below in box.below
        ]
        if box.in_turn and len(box.below) > 1:
            found.append(_arrow(last, bar))
        for below in box.below:
            found += _drawn(below)
    return found


def _arrow(x: float, y: float) -> str:
    return f'<path class="arrow" d="M{x:.1f} {y:.1f}l-8 -4v8z"/>'


def _text(x: float, y: float, text: str, look: str) -> str:
    kind = f' class="{look}"' if look else ""
    return f'<text{kind} x="{x:.1f}" y="{y:.1f}">{escape(text, quote=False)}</text>'
