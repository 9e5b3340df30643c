"""Trees as steps of a plan, from their shape and the operation that is tried at each node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from tcu.formats.scalar import Rounding
from tcu.plan.tree import Additions, Blocks, TreeNode, TreeOperation, TreeStep
from tcu.probes.tree_shape import Shape

__all__ = ["Chooser", "Leaves", "Zero", "nodes_of", "step_of"]

Zero = Literal["kept", "first", "last", "both", "begin"]
Chooser = Callable[[int, tuple[int, ...]], tuple[TreeOperation, Sequence[int]]]
"""(number of a node, its children) → its operation, and the children in its order."""


@dataclass(frozen=True)
class Leaves:
    """What becomes of the elements before they are added."""

    operand: str
    rounding: Rounding
    zeros: tuple[Zero, ...]
    """Where +0 may be added; several that may look alike."""


def step_of(
    n: int, products: bool, leaves: Leaves, nodes: tuple[TreeNode, ...], roots: tuple[int, ...]
) -> TreeStep:
    return TreeStep(n, nodes, roots, products, leaves.operand, leaves.rounding)


@dataclass
class _Chain:
    """What one operation adds to its first input, one after another."""

    operation: TreeOperation
    inputs: list[int]
    size: int
    """Leaves of the last input."""
    of_leaves: bool
    """Whether all but the first input are leaves; a chain stays of leaves or of nodes, so that nodes look alike."""

    @property
    def whole(self) -> bool:
        """Whether the last block of a unit is full, so that another one may follow."""
        if not isinstance(self.operation, Blocks):
            return True
        return (len(self.inputs) - self.operation.carried) % self.operation.arithmetic.block == 0


def nodes_of(shape: Shape, choose: Chooser) -> tuple[tuple[TreeNode, ...], tuple[int, ...]]:
    """The nodes of a tree, those that one operation adds to one after another as one, and its roots."""
    n = shape.leaves
    parents: dict[int, int | None] = {}
    """What adds a value, if nothing else does and it is no result."""
    for number, children in enumerate(shape.nodes):
        parents |= {value: None if value in parents else number for value in children}
    parents |= dict.fromkeys(shape.roots)
    chosen = [_in_order(*choose(number, children), n) for number, children in enumerate(shape.nodes)]
    made: list[TreeNode] = []
    place = list(range(n)) + [0] * len(shape.nodes)
    """Number of a value of the shape → that of the tree."""
    sizes = [1] * n
    for children in shape.nodes:
        sizes.append(sum(sizes[value] for value in children))
    chains: dict[int, _Chain] = {}
    for number, (operation, inputs) in enumerate(chosen):
        added = [place[value] for value in inputs[1:]]
        chain = chains.pop(inputs[0], None)
        if chain is None:
            from_zero = isinstance(operation, Blocks) and not operation.carried
            rest = inputs if from_zero else inputs[1:]
            chain = _Chain(operation, [place[inputs[0]], *added], 0, all(value < n for value in rest))
        else:
            chain.inputs += added
        chain.size = sizes[inputs[-1]]
        parent = parents.get(number + n)
        if parent is not None and _continues(chain, *chosen[parent], number + n, sizes):
            chains[number + n] = chain
            continue
        made.append(TreeNode(chain.operation, tuple(chain.inputs)))
        place[number + n] = n + len(made) - 1
    return tuple(made), tuple(place[root] for root in shape.roots)


def _in_order(operation: TreeOperation, inputs: Sequence[int], n: int) -> tuple[TreeOperation, Sequence[int]]:
    """What a chain would go on from comes first: the order of two addends is theirs to choose."""
    if isinstance(operation, Additions) and len(inputs) == 2 and inputs[0] < n <= inputs[1]:
        return operation, inputs[::-1]
    return operation, inputs


def _continues(
    chain: _Chain, operation: TreeOperation, inputs: Sequence[int], value: int, sizes: Sequence[int]
) -> bool:
    """Whether the parent of a chain's last value goes on adding to it by the same operation.

    What grows from addition to addition is a tree of halves, and no chain.
    """
    if inputs[0] != value or any(sizes[each] > chain.size for each in inputs[1:]):
        return False
    first = chain.operation
    if isinstance(operation, Blocks) and isinstance(first, Blocks):
        same = operation.carried and replace(first, carried=True) == operation and chain.whole
    else:
        same = operation == first
    return same and all((sizes[each] == 1) == chain.of_leaves for each in inputs[1:])
