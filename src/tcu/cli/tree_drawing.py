"""A tree of additions as text: what is alike is drawn once."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from tcu.plan.tree import Additions, TreeRegions, TreeStep
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
    (root, *more), drawing = step.roots, _Drawing(step)
    found = _lines_of_results(drawing) if more else list(drawing.lines(root))
    return [*found[:_MOST_LINES], "..."] if len(found) > _MOST_LINES else found


def _lines_of_results(drawing: _Drawing) -> list[str]:
    """Those of every result, in which the others have names; once of neighbours that are alike."""
    roots = drawing.step.roots
    likeness = [drawing.likeness(number, root) for number, root in enumerate(roots)]
    found: list[str] = []
    number = 0
    while number < len(roots):
        last = number
        while last + 1 < len(roots) and likeness[last + 1] == likeness[number]:
            last += 1
        first, *rest = drawing.lines(roots[number])
        found += [f"result {number}: {first}", *rest]
        if last > number:
            found.append(f"and results {number + 1:,} to {last:,} alike, each 1 on")
        number = last + 1
    return found


class _Drawing:
    def __init__(self, step: TreeStep) -> None:
        self.step = step
        self.parts = TreeParts(step)
        self.drawn: dict[int, int] = {}
        """Kinds that stand in the drawing already, and where they begin there."""
        several = len(step.roots) > 1
        self.results = {
            root: number for number, root in enumerate(step.roots) if several and root >= step.leaves
        }

    def likeness(self, number: int, root: int) -> object:
        """What results have in common that are alike but for their place."""
        leaves, parts = self.step.leaves, self.parts
        if root < leaves:
            return root - number
        node = self.step.nodes[root - leaves]
        return node.operation, tuple(
            ("result", self.results[value] - number)
            if value in self.results
            else (parts.kind[value], parts.first[value] - number)
            for value in node.inputs
        )

    def lines(self, root: int, level: int = 0) -> Iterator[str]:
        """The line of a value, and those of what it adds up, indented."""
        leaves, parts = self.step.leaves, self.parts
        if root < leaves:
            yield self._named([root])
            return
        node, inputs = self.step.nodes[root - leaves], self._inputs(root)
        what = str(node.operation)
        if all(map(self._has_name, inputs)):
            in_turn = ", in turn" if len(inputs) > len(node.inputs) else parts.order(root)
            yield f"{what}: {self._named(inputs)}{in_turn}"
            return
        begun = self.drawn.setdefault(parts.kind[root], parts.first[root])
        if begun != parts.first[root]:
            yield f"the same as from {begun:,} on, {parts.first[root] - begun:,} on"
            return
        yield what + parts.order(root)
        if level >= _MOST_LEVELS:
            yield "└─ ..."
            return
        groups = [
            list(group)
            for alike in parts.groups(inputs)
            for _, group in itertools.groupby(alike, key=self._has_name)
        ]
        for number, group in enumerate(groups):
            corner, below = ("└─ ", "   ") if number == len(groups) - 1 else ("├─ ", "│  ")
            lines = [self._named(group)] if self._has_name(group[0]) else self._alike(group, level)
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

    def _has_name(self, value: int) -> bool:
        return value < self.step.leaves or value in self.results

    def _inputs(self, value: int) -> Sequence[int]:
        """What a node adds up: of several results also what chains of leaves below it do, which they share."""
        node = self.step.nodes[value - self.step.leaves]
        first, *rest = node.inputs
        if self.results and isinstance(node.operation, Additions) and not self._has_name(first):
            inner = self._inputs(first)
            same = self.step.nodes[first - self.step.leaves].operation == node.operation
            if same and all(each < self.step.leaves for each in (*inner, *rest)):
                return *inner, *rest
        return node.inputs

    def _named(self, values: Sequence[int]) -> str:
        """Numbers, and results."""
        texts: list[str] = []
        for results, group in itertools.groupby(values, key=lambda value: value in self.results):
            if results:
                texts += [f"result {self.results[value]}" for value in group]
            else:
                texts += leaf_ranges(list(group))
        return ", ".join(texts)
