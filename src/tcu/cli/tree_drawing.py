"""A tree of additions as text: what is alike is drawn once."""

from __future__ import annotations

from collections.abc import Iterator

from tcu.plan.tree import Blocks, Compensated, ExactAddition, TreeRegions, TreeStep

__all__ = ["drawn_tree"]

_MOST_LINES = 60
_MOST_LEVELS = 24


def drawn_tree(step: TreeStep | TreeRegions) -> list[str]:
    """The lines of the drawing, from the sum to its numbers."""
    if isinstance(step, TreeRegions):
        lines: list[str] = []
        for number, tree in enumerate(step.trees):
            results = [
                (i, j) for i, row in enumerate(step.regions) for j, each in enumerate(row) if each == number
            ]
            lines += [
                f"{len(results):,} results, from {list(results[0])} to {list(results[-1])}:",
                *drawn_tree(tree),
            ]
        return lines
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
        self.first = list(range(step.leaves))
        """Of every value: its smallest leaf."""
        self.kind = [0] * step.leaves
        """The same number for values that are alike but for where they begin."""
        self.drawn: dict[int, int] = {}
        """Kinds that stand in the drawing already, and where they begin there."""
        kinds: dict[tuple[object, ...], int] = {}
        for node in step.nodes:
            start = min(self.first[value] for value in node.inputs)
            inputs = tuple((self.kind[value], self.first[value] - start) for value in node.inputs)
            self.first.append(start)
            self.kind.append(kinds.setdefault((node.operation, inputs), len(kinds) + 1))

    def lines(self, root: int, level: int = 0) -> Iterator[str]:
        """The line of a value, and those of what it adds up, indented."""
        leaves = self.step.leaves
        if root < leaves:
            yield self._leaves([root])
            return
        node = self.step.nodes[root - leaves]
        what = str(node.operation)
        if all(value < leaves for value in node.inputs):
            yield f"{what}: {self._leaves(node.inputs)}{self._how(root)}"
            return
        begun = self.drawn.setdefault(self.kind[root], self.first[root])
        if begun != self.first[root]:
            yield f"the same as from {begun:,} on, {self.first[root] - begun:,} on"
            return
        yield what + self._how(root)
        if level >= _MOST_LEVELS:
            yield "└─ ..."
            return
        groups = self._groups(node.inputs)
        for number, group in enumerate(groups):
            corner, below = ("└─ ", "   ") if number == len(groups) - 1 else ("├─ ", "│  ")
            lines = [self._leaves(group)] if group[0] < leaves else self._alike(group, level)
            for place, line in enumerate(lines):
                yield (below if place else corner) + line

    def _how(self, root: int) -> str:
        operation = self.step.nodes[root - self.step.leaves].operation
        count = len(self.step.nodes[root - self.step.leaves].inputs)
        if isinstance(operation, ExactAddition):
            return ""
        if isinstance(operation, Blocks):
            blocks = -(-(count - operation.carried) // operation.arithmetic.block)
            return f", {blocks} blocks in turn" if blocks > 1 else ""
        return ", in turn" if count > 2 or isinstance(operation, Compensated) else ""

    def _groups(self, inputs: tuple[int, ...]) -> list[list[int]]:
        """Inputs one after another that are alike, at equal steps."""
        found: list[list[int]] = []
        for value in inputs:
            if found and self.kind[found[-1][0]] == self.kind[value]:
                group = found[-1]
                step = self.first[value] - self.first[group[-1]]
                if (
                    value < self.step.leaves
                    or len(group) == 1
                    or step == self.first[group[1]] - self.first[group[0]]
                ):
                    group.append(value)
                    continue
            found.append([value])
        return found

    def _alike(self, group: list[int], level: int) -> list[str]:
        lines = list(self.lines(group[0], level + 1))
        if len(group) > 1:
            step = self.first[group[1]] - self.first[group[0]]
            more = "the same" if len(group) == 2 else f"{len(group) - 1:,} times the same, each"
            lines.append(f"and {more} {abs(step):,} {'on' if step > 0 else 'back'}")
        return lines

    def _leaves(self, leaves: list[int] | tuple[int, ...]) -> str:
        """Runs of leaves at equal steps: "0 to 120 by 8"."""
        texts, at = [], 0
        while at < len(leaves):
            stop = at + 1
            step = leaves[stop] - leaves[at] if stop < len(leaves) else 0
            while stop < len(leaves) and leaves[stop] - leaves[stop - 1] == step:
                stop += 1
            if stop - at < 3 and stop < len(leaves):
                stop = at + 1
            first, last = leaves[at], leaves[stop - 1]
            by = "" if abs(step) == 1 else f" by {abs(step):,}"
            texts.append(
                f"{first}"
                if stop - at == 1
                else f"{first}, {last}"
                if stop - at == 2
                else f"{first} to {last}{by}"
            )
            at = stop
        return ", ".join(texts if len(texts) <= 12 else [*texts[:10], "...", texts[-1]])
