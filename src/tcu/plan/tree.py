"""Any tree of additions as one step of a plan: who is added with whom, and by which arithmetic.

What :func:`tcu.reveal` finds in a library's sum or product.  A value is named
by a number: below ``leaves`` an element (or the product of a pair of them),
from there on a node, in the order of evaluation.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from tcu.errors import ParameterError
from tcu.formats.format import get_format
from tcu.formats.scalar import Rounding
from tcu.units.arithmetic import AlignedSum, FusedChain
from tcu.units.instruction import Instruction

__all__ = [
    "Additions", "Blocks", "Compensated", "ExactAddition", "FusedProducts", "TreeNode", "TreeOperation", "TreeRegions", "TreeStep",
]  # fmt: skip


@dataclass(frozen=True)
class Additions:
    """One input after another is added to the first, each sum rounded to nearest; so is every product before."""

    format: str
    flushed: bool = False
    """A subnormal sum counts as zero of its sign."""

    def __str__(self) -> str:
        return f"{self.format} additions" + (" that flush subnormals" if self.flushed else "")


@dataclass(frozen=True)
class FusedProducts:
    """Products are added to the first input by fused multiply-adds, each rounded to nearest.

    The first input may be a product itself, which is then rounded; the others must be products.
    """

    format: str
    flushed: bool = False
    """Subnormal factors, sums and results count as zeros of their sign, as AVX512-BF16 has it (of 8- and 16-bit factors alone)."""

    def __str__(self) -> str:
        return f"{self.format} FMAs" + (" that flush subnormals" if self.flushed else "")

    @property
    def chain(self) -> FusedChain:
        return FusedChain(flush_inputs=self.flushed, flush_outputs=self.flushed)


@dataclass(frozen=True)
class Compensated:
    """The inputs in order, with the error of every addition carried along: Kahan's sum, or Neumaier's."""

    format: str
    method: Literal["kahan", "neumaier"]

    def __str__(self) -> str:
        return f"{self.method.capitalize()}'s sum in {self.format}"


@dataclass(frozen=True)
class ExactAddition:
    """All inputs at once, exactly, rounded once to nearest."""

    format: str

    def __str__(self) -> str:
        return f"an exact sum, rounded once to {self.format}"


@dataclass(frozen=True)
class Blocks:
    """A unit's dot products: so many inputs at a time, one block after another on an accumulator.

    The first input is the accumulator where ``carried``, else it is +0; the
    others are products, or numbers times 1.
    """

    operand: str
    output: str
    arithmetic: AlignedSum
    carried: bool

    @property
    def instruction(self) -> Instruction:
        block = self.arithmetic.block
        return Instruction("mma", self.operand, self.operand, self.output, (1, 1, block), self.arithmetic, ())

    def __str__(self) -> str:
        row = self.arithmetic
        return (
            f"blocks of {row.block}: {self.operand} → {self.output}, F = {row.fraction_bits}, {row.rounding}"
            + (" onto the first" if self.carried else "")
        )


TreeOperation = Additions | FusedProducts | Compensated | ExactAddition | Blocks


@dataclass(frozen=True)
class TreeNode:
    """An operation and the values that it adds up."""

    operation: TreeOperation
    inputs: tuple[int, ...]


@dataclass(frozen=True)
class TreeStep:
    """A vector of ``leaves`` numbers, or pairs, into one number for each of ``roots``."""

    leaves: int
    nodes: tuple[TreeNode, ...]
    roots: tuple[int, ...]
    products: bool
    """Whether a leaf is the product of a pair."""
    operand: str
    """Format that the elements are rounded to first."""
    operand_rounding: Rounding = "RNE"
    product: str | None = None
    """Format that products are rounded to before :class:`Additions` round them to their own; None: straight away."""
    zero: Literal["kept", "first", "last", "both", "begin"] = "kept"
    """Where +0 is added, which is seen only where all that is added is -0: to every leaf ("first"), to every root ("last"),
    to both, to every leaf and to what the addition of a root begins with ("begin"), or nowhere."""

    def __post_init__(self) -> None:
        for number, node in enumerate(self.nodes, self.leaves):
            if len(node.inputs) < 1 or not all(0 <= value < number for value in node.inputs):
                raise ParameterError(
                    f"node {number - self.leaves} of a tree adds up values that come after it"
                )
        if not all(0 <= root < self.leaves + len(self.nodes) for root in self.roots):
            raise ParameterError(f"a tree of {self.leaves} leaves and {len(self.nodes)} nodes lacks a root")
        get_format(self.operand)

    @property
    def group(self) -> int:
        return self.leaves

    @property
    def results(self) -> int:
        return len(self.roots)

    @property
    def begins_from_zero(self) -> bool:
        """Whether +0 is added to every leaf."""
        return self.zero in ("first", "both", "begin")

    @property
    def flushes(self) -> bool:
        """Whether subnormal elements count as zero."""
        return any(
            isinstance(node.operation, FusedProducts) and node.operation.flushed for node in self.nodes
        )

    @cached_property
    def levels(self) -> tuple[int, ...]:
        """Of every node: how many nodes lie on the longest way from a leaf to it, itself among them."""
        found: list[int] = []
        for node in self.nodes:
            below = (found[value - self.leaves] for value in node.inputs if value >= self.leaves)
            found.append(1 + max(below, default=0))
        return tuple(found)

    def together(self) -> Iterator[tuple[TreeOperation, list[int]]]:
        """Nodes (0, 1, ...) that one operation can evaluate side by side: of one level, with leaves in the same places."""
        return iter(self._together)

    @cached_property
    def _together(self) -> list[tuple[TreeOperation, list[int]]]:
        groups: dict[tuple[int, TreeOperation, bytes], list[int]] = defaultdict(list)
        for number, (node, level) in enumerate(zip(self.nodes, self.levels, strict=True)):
            places = bytes(value < self.leaves for value in node.inputs)
            groups[level, node.operation, places].append(number)
        return [(key[1], found) for key, found in sorted(groups.items(), key=lambda each: each[0][0])]

    @cached_property
    def depth(self) -> int:
        """Additions that a leaf can go through."""
        found: list[int] = []
        for node in self.nodes:
            most = max(
                (found[value - self.leaves] if value >= self.leaves else 0) + additions(node, place)
                for place, value in enumerate(node.inputs)
            )
            found.append(most)
        return max((found[root - self.leaves] for root in self.roots if root >= self.leaves), default=0)

    def __str__(self) -> str:
        operations = dict.fromkeys(str(node.operation) for node in self.nodes)
        what = "pairs" if self.products else "numbers"
        first = f"products in {self.product}; " if self.product is not None else ""
        return f"a tree of {self.leaves} {what}: {first}{'; '.join(operations) or 'no addition'}"


@dataclass(frozen=True)
class TreeRegions:
    """A product whose results are not all added up alike: trees, and which of them is each result's, row by row."""

    trees: tuple[TreeStep, ...]
    regions: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        named = {tree for row in self.regions for tree in row}
        if not named <= {*range(len(self.trees))}:
            raise ParameterError(f"a result has none of the {len(self.trees)} trees")
        if len({(tree.leaves, tree.products) for tree in self.trees}) != 1 or not self.products:
            raise ParameterError("the trees of a product are of pairs, and of as many")

    @property
    def leaves(self) -> int:
        return self.trees[0].leaves

    @property
    def products(self) -> bool:
        return self.trees[0].products

    @property
    def group(self) -> int:
        return self.leaves

    @property
    def results(self) -> int:
        return 1

    @property
    def flushes(self) -> bool:
        """Whether subnormal elements count as zero in one of the trees."""
        return any(tree.flushes for tree in self.trees)

    @property
    def shape(self) -> tuple[int, int]:
        """(M, N) of the product."""
        return len(self.regions), len(self.regions[0]) if self.regions else 0

    def __str__(self) -> str:
        return f"{len(self.trees)} trees, each of some results: " + "; ".join(map(str, self.trees))


def additions(node: TreeNode, place: int) -> int:
    """Roundings of a node's operation that its input at ``place`` goes through."""
    operation, count = node.operation, len(node.inputs)
    if isinstance(operation, ExactAddition | Compensated):
        return 1
    if isinstance(operation, Blocks):
        at = max(place - operation.carried, 0)
        blocks = -(-(count - operation.carried) // operation.arithmetic.block)
        return blocks - at // operation.arithmetic.block
    return count - max(place, 1)
