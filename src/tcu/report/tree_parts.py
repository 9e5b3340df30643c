"""What a drawing of a tree of additions needs to know: which parts are alike, and what its nodes and leaves are called."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tcu.plan.tree import Blocks, Compensated, ExactAddition, TreeRegions, TreeStep

__all__ = ["TreeParts", "leaf_ranges", "titled_trees"]


def titled_trees(step: TreeStep | TreeRegions) -> Iterator[tuple[str, TreeStep]]:
    """The trees of a step and, where there are several, of which results each is."""
    if isinstance(step, TreeStep):
        yield "", step
        return
    for number, tree in enumerate(step.trees):
        results = [
            (i, j) for i, row in enumerate(step.regions) for j, each in enumerate(row) if each == number
        ]
        yield f"{len(results):,} results, from {list(results[0])} to {list(results[-1])}:", tree


class TreeParts:
    """A tree whose equal parts are known."""

    def __init__(self, step: TreeStep) -> None:
        self.step = step
        self.first = list(range(step.leaves))
        """Of every value: its smallest leaf."""
        self.kind = [0] * step.leaves
        """The same number for values that are alike but for where they begin."""
        kinds: dict[tuple[object, ...], int] = {}
        for node in step.nodes:
            start = min(self.first[value] for value in node.inputs)
            inputs = tuple((self.kind[value], self.first[value] - start) for value in node.inputs)
            self.first.append(start)
            self.kind.append(kinds.setdefault((node.operation, inputs), len(kinds) + 1))

    def order(self, value: int) -> str:
        """How a node's inputs follow each other, where that is not plain."""
        node = self.step.nodes[value - self.step.leaves]
        operation, count = node.operation, len(node.inputs)
        if isinstance(operation, ExactAddition):
            return ""
        if isinstance(operation, Blocks):
            blocks = -(-(count - operation.carried) // operation.arithmetic.block)
            return f", {blocks} blocks in turn" if blocks > 1 else ""
        return ", in turn" if count > 2 or isinstance(operation, Compensated) else ""

    def groups(self, inputs: Sequence[int]) -> list[list[int]]:
        """Inputs one after another that are alike, at equal steps; leaves at any."""
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


def leaf_ranges(leaves: Sequence[int]) -> list[str]:
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
    return texts if len(texts) <= 12 else [*texts[:10], "...", texts[-1]]
