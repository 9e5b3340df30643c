"""A tree of additions as text: what is alike is drawn once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tcu.plan.tree import TreeRegions, TreeStep
from tcu.report.tree_parts import TreeParts, leaf_ranges, titled_trees

__all__ = ["drawn_tree"]

_MOST_LINES = 60
_MOST_LEVELS = 24


def drawn_tree(step: TreeStep | TreeRegions) -> list[str]:
    """The lines of the drawing, from the sum to its numbers."""
    lines: list[str] = []
    for title, tree in titled_trees(step):
        lines += [title] * bool(title) + _lines_of(tree)
    return lines


def _lines_of(step: TreeStep) -> list[str]:
    drawing = _Drawing(step)
    titles = [f"result {number}" * (len(step.roots) > 1) for number in range(len(step.roots))]
    found: list[str] = []
    for title, root in zip(titles, step.roots, strict=True):
        found += [title] * bool(title) + list(drawing.lines(root))
        if len(found) > _MOST_LINES:
            return [*found[:_MOST_LINES], "..."]
    return found


class _Drawing:
    def __init__(self, step: TreeStep) -> None:
        self.step = step
        self.parts = TreeParts(step)
        self.drawn: dict[int, int] = {}
        """Kinds that stand in the drawing already, and where they begin there."""

    def lines(self, root: int, level: int = 0) -> Iterator[str]:
        """The line of a value, and those of what it adds up, indented."""
        leaves, parts = self.step.leaves, self.parts
        if root < leaves:
            yield _leaves([root])
            return
        node = self.step.nodes[root - leaves]
        what = str(node.operation)
        if all(value < leaves for value in node.inputs):
            yield f"{what}: {_leaves(node.inputs)}{parts.order(root)}"
            return
        begun = self.drawn.setdefault(parts.kind[root], parts.first[root])
        if begun != parts.first[root]:
            yield f"the same as from {begun:,} on, {parts.first[root] - begun:,} on"
            return
        yield what + parts.order(root)
        if level >= _MOST_LEVELS:
            yield "└─ ..."
            return
        groups = parts.groups(node.inputs)
        for number, group in enumerate(groups):
            corner, below = ("└─ ", "   ") if number == len(groups) - 1 else ("├─ ", "│  ")
            lines = [_leaves(group)] if group[0] < leaves else self._alike(group, level)
            for place, line in enumerate(lines):
                yield (below if place else corner) + line

    def _alike(self, group: list[int], level: int) -> list[str]:
        lines = list(self.lines(group[0], level + 1))
        if len(group) > 1:
            first = self.parts.first
            step = first[group[1]] - first[group[0]]
            more = "the same" if len(group) == 2 else f"{len(group) - 1:,} times the same, each"
            lines.append(f"and {more} {abs(step):,} {'on' if step > 0 else 'back'}")
        return lines


def _leaves(leaves: Sequence[int]) -> str:
    return ", ".join(leaf_ranges(leaves))
