"""Trees whose nodes add up more than two values at once: the blocks of matrix units."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tcu.formats.format import get_format
from tcu.formats.scalar import ROUNDINGS
from tcu.plan.tree import Additions, Blocks, ExactAddition, TreeNode, TreeOperation, TreeStep
from tcu.probes.black_box import BlackBox
from tcu.probes.floors import floors
from tcu.probes.inputs import DECIDING, near_zero, ordinary, pair
from tcu.probes.target import Operation, Question
from tcu.probes.tree_making import Leaves, nodes_of, step_of
from tcu.probes.tree_shape import Shape
from tcu.units.arithmetic import MAX_BLOCK, MAX_FRACTION_BITS, AlignedSum
from tcu.units.catalogue import CATALOGUE

__all__ = ["unit_candidates", "unit_questions"]

Values = npt.NDArray[Any]
Agrees = Callable[[TreeStep], bool]

_ROWS = 24
"""Sums, or dot products, of one question."""
_OPERANDS = ("binary16", "bfloat16", "tf32", "e4m3", "e5m2")
_OUTPUTS = ("binary32", "binary16")
_KEPT = 13
"""Fraction bits that some units keep of a result; where answers do not show them, no others are tried."""


@dataclass(frozen=True)
class _Role:
    """What a node is: a block of a unit, an addition of two results, or an exact sum of them."""

    kind: Literal["block", "addition", "exact"]
    inputs: tuple[int, ...]
    carried: bool


def unit_questions(box: BlackBox, rng: np.random.Generator) -> tuple[list[Any], list[Any]]:
    """Operands that tell units apart, and such about the smallest numbers, as the box takes them."""
    m, n, k = box.shape
    operation = Operation(
        box.input if box.input.name != "binary32" else get_format("tf32"), get_format("binary32"), k
    )
    if box.input.bits == 64:
        return [], []
    rows, columns = (m, n) if box.kind == "matmul" else (_ROWS, 1)
    wide: list[tuple[Callable[..., Question], int]] = [(ordinary, 8), (pair, 4)]
    near = [(near_zero, 6), *((kind, 2) for kind, _ in DECIDING)]
    return tuple(  # type: ignore[return-value]
        [_given(box, kind(operation, rng, rows, columns)) for kind, count in kinds for _ in range(count)]
        for kinds in (wide, near)
    )


def _given(box: BlackBox, question: Question) -> tuple[Values, Values | None]:
    """The operands of a question without its C."""
    x, y = (each.view(box.input.dtype) for each in (question.a, question.b))
    if box.kind == "matmul":
        return x[None], y[None]
    if box.kind == "dot":
        return x[:, None], np.broadcast_to(y, (len(x), *y.shape)).copy()
    return x, None


def unit_candidates(
    box: BlackBox,
    shape: Shape,
    leaves: Leaves,
    ordinary_agrees: Agrees,
    agrees: Agrees,
    *,
    of_plain_sums: bool,
) -> Iterator[TreeStep]:
    """Trees of blocks of the family's aligned sums: the catalogue's first, then any that agree.

    of_plain_sums: answers are mostly those of IEEE operations, so blocks of a single product are not searched: each
    is an FMA, and to try all that are no unit's took minutes.
    """
    operands = [leaves.operand] if leaves.operand in _OPERANDS else []
    if not box.products and leaves.operand == "binary32":
        operands = ["tf32", "binary16", "bfloat16"]  # numbers that only further levels round
    outputs = sorted(_OUTPUTS, key=lambda name: name != box.output.name)
    ways = [
        _Way(box, each, leaves, operand, output, wide, block, tuple(roles), closing, likely and usual)
        for operand, output in itertools.product(operands, outputs)
        for each, likely in (_with_chains_of_one(shape) if box.products else {shape: True}).items()
        for block, roles, usual in _roles(each, box.products)
        for wide in (output, *(name for name in ("binary32", "binary64") if name != output))
        for closing in ((False,) if box.products else (False, True))
        if wide == output or any(role.kind == "addition" for role in roles)
    ]
    for way in ways:
        yield from _of_catalogue(way)
    seen = _seen(box, shape)
    for way in ways:
        if (
            not way.closing
            and way.likely
            and way.goes_on_from_full_blocks
            and not (of_plain_sums and way.block == 1)
        ):
            yield from _searched(way, seen, ordinary_agrees, agrees)


@dataclass(frozen=True)
class _Way:
    """All but the parameters of the blocks."""

    box: BlackBox
    shape: Shape
    leaves: Leaves
    operand: str
    output: str
    wide: str
    """Format of additions outside the unit."""
    block: int
    roles: tuple[_Role, ...]
    closing: bool
    """Whether the sum goes through the unit once more, alone, as where every level is a product with a matrix of ones."""
    likely: bool

    @property
    def goes_on_from_full_blocks(self) -> bool:
        """Whether a chain's blocks are full but for its last one, as units have them.

        A chain of FMAs in pairs, as of AVX512-BF16, looks like blocks of two with a
        single product each: to search all units for it took minutes.
        """
        n = self.shape.leaves
        blocks = [
            role for role in self.roles if role.kind == "block" and role.carried and role.inputs[0] >= n
        ]
        before = [self.roles[role.inputs[0] - n] for role in blocks]
        return all(
            role.kind != "block" or (len(role.inputs) - role.carried) % self.block == 0 for role in before
        )

    def step(self, row: AlignedSum) -> TreeStep:
        made, roots = self._tree
        blocks = {carried: Blocks(self.operand, self.output, row, carried) for carried in (False, True)}
        nodes = tuple(
            TreeNode(blocks[node.operation.carried], node.inputs)
            if isinstance(node.operation, Blocks)
            else node
            for node in made
        )
        return step_of(self.box.n, self.box.products, self.leaves, nodes, roots)

    @cached_property
    def _tree(self) -> tuple[tuple[TreeNode, ...], tuple[int, ...]]:
        """The nodes with some arithmetic, and the roots: made once for all that are tried."""
        row = AlignedSum(self.block, 1, "RZ")

        def choose(number: int, _: tuple[int, ...]) -> tuple[TreeOperation, Sequence[int]]:
            role = self.roles[number]
            if role.kind == "block":
                return Blocks(self.operand, self.output, row, role.carried), role.inputs
            if role.kind == "exact":
                return ExactAddition("binary64"), role.inputs
            return Additions(self.wide), role.inputs

        n, (nodes, roots) = self.box.n, nodes_of(self.shape, choose)
        if self.closing:
            again = Blocks(self.operand, self.output, row, False)
            closing = tuple(TreeNode(again, (root,)) for root in roots)
            nodes, roots = (*nodes, *closing), tuple(n + len(nodes) + place for place in range(len(roots)))
        return nodes, roots


def _with_chains_of_one(shape: Shape) -> dict[Shape, bool]:
    """The shapes that may look like this one, as a chain of a single product is a leaf: the likeliest first.

    It is none; what is added to a sum of chains is; what is added to a chain is; what is added to a leaf is, too; or
    so it is, but for the first two leaves.  With each whether it is likely enough to search all units for it.
    """
    n = shape.leaves
    sums: set[int] = set()
    for number, children in enumerate(shape.nodes):
        nodes = [value - n for value in children if value >= n]
        if len(children) == 2 and (len(nodes) == 2 or (nodes and nodes[0] in sums)):
            sums.add(number)
    pairs = {number for number, children in enumerate(shape.nodes) if len(children) == 2}
    onto_chains = {number for number in pairs if max(shape.nodes[number]) >= n}
    none: set[int] = set()
    found = {_of_nodes(shape, which): True for which in (none, sums)}
    for which in (onto_chains, pairs, pairs - {min(pairs, default=0)}):
        found.setdefault(_of_nodes(shape, which), False)
    return found


def _of_nodes(shape: Shape, which: set[int]) -> Shape:
    """The shape in which some nodes add up no leaves but nodes of single leaves."""
    n = shape.leaves
    nodes: list[tuple[int, ...]] = []
    place = list(range(n))
    for number, children in enumerate(shape.nodes):
        inputs = []
        for value in children:
            if value < n and number in which:
                nodes.append((value,))
                inputs.append(n + len(nodes) - 1)
            else:
                inputs.append(place[value])
        nodes.append(tuple(inputs))
        place.append(n + len(nodes) - 1)
    exact = frozenset(place[n + number] - n for number in shape.exact)
    return Shape(n, tuple(nodes), tuple(place[root] for root in shape.roots), exact)


def _roles(shape: Shape, products: bool) -> Iterator[tuple[int, list[_Role], bool]]:
    """(the products of a block, what every node is, likely enough to search all units?), for each way in which the shape can be blocks."""
    n = shape.leaves
    sizes = [1] * n
    roles: list[_Role] = []
    for children in shape.nodes:
        sizes.append(sum(sizes[value] for value in children))
        if len(roles) in shape.exact:
            roles.append(_Role("exact", children, False))
            continue
        nodes = [value for value in children if value >= n]
        added = [value for value in children if value < n]
        if not added and len(nodes) == 2:
            roles.append(_Role("addition", children, False))
            continue
        if products and len(nodes) > 1:
            return
        carried = _carried(nodes, sizes, bool(added))
        rest = [value for value in children if value != carried]
        roles.append(
            _Role("block", tuple(rest if carried is None else [carried, *rest]), carried is not None)
        )
    counts = [len(role.inputs) - 1 for role in roles if role.kind == "block" and role.carried]
    begins = [len(role.inputs) for role in roles if role.kind == "block" and not role.carried]
    block = max([*counts, *begins], default=1)
    if block <= MAX_BLOCK:
        yield block, roles, True
        if not products and any(role.kind == "addition" for role in roles):
            # The last level of sums of sums may have two numbers left, and adds them in a block, too.
            yield (
                block,
                [replace(role, kind="block") if role.kind == "addition" else role for role in roles],
                False,
            )
    if max(counts, default=1) == 1 and max(begins, default=2) == 2:
        # One product at a time: what looks like a block of two is one product after another.
        yield 1, roles, True
        turned = [
            replace(role, inputs=role.inputs[::-1]) if role.kind == "block" and not role.carried else role
            for role in roles
        ]
        yield 1, turned, True


def _carried(nodes: list[int], sizes: list[int], beside_leaves: bool) -> int | None:
    """Which of a block's inputs is the accumulator: among results of blocks, one that holds more than all others."""
    if not nodes:
        return None
    if len(nodes) == 1 and beside_leaves:
        return nodes[0]
    largest = max(nodes, key=lambda value: sizes[value])
    others = [sizes[value] for value in nodes if value != largest]
    return largest if beside_leaves or sizes[largest] > max(others) else None


def _of_catalogue(way: _Way) -> Iterator[TreeStep]:
    """The arithmetics that units of the catalogue have, those of the same formats first."""
    found: dict[AlignedSum, bool] = {}
    for unit in reversed(CATALOGUE.values()):
        for row in unit.instructions:
            if isinstance(row.arithmetic, AlignedSum) and row.output == way.output:
                plain = replace(
                    row.arithmetic, block=way.block, order=None, late_c=False, through_binary16=False
                )
                found[plain] = found.get(plain, False) or row.a == way.operand
    for arithmetic in sorted(found, key=lambda each: not found[each]):
        yield way.step(arithmetic)


def _searched(way: _Way, seen: int | None, ordinary_agrees: Agrees, agrees: Agrees) -> Iterator[TreeStep]:
    """Any aligned sum: alignment and rounding on ordinary numbers first, then what happens near zero."""
    full = get_format(way.output).fraction_bits
    if full > way.box.output.fraction_bits:
        seen = None
    operand = get_format(way.operand)
    tried = floors(operand, operand, get_format(way.output))
    rows = (
        AlignedSum(
            way.block,
            fraction,
            rounding,
            tried[0],
            None if kept == full else kept,
            normalized_products=normalized,
        )
        for kept, fraction in _widths(full, None if seen is None else min(seen, full))
        for rounding, normalized in itertools.product(ROUNDINGS, (False, True))
    )
    survivors = [row for row in rows if ordinary_agrees(way.step(row))]
    for row, flush_in, flush_out, floor in itertools.product(
        sorted(survivors, key=_plainness), (False, True), (False, True), tried
    ):
        candidate = way.step(
            replace(row, exponent_floor=floor, flush_inputs=flush_in, flush_outputs=flush_out)
        )
        if agrees(candidate):
            yield candidate


def _widths(full: int, seen: int | None) -> Iterator[tuple[int, int]]:
    """(output fraction bits, F) that may be; a number comes back with the smaller of the two."""
    for both in itertools.product(range(full, 4, -1), range(MAX_FRACTION_BITS, 4, -1)):
        unseen = seen is None and both[0] in (full, _KEPT)
        if unseen or min(both) == seen or (seen == full == both[0] and both[1] >= seen):
            yield both


def _seen(box: BlackBox, shape: Shape) -> int | None:
    """Bits behind the first that come back of the sum of 1 and a smaller number; None where no elements show it."""
    bits = np.arange(1, min(box.output.fraction_bits, get_format("binary32").fraction_bits) + 1)
    scale = 2.0 ** max(0, min(box.input.emax - 1, 8) if box.input.bits <= 16 else 0)
    lines = np.zeros((bits.size, box.n))
    small = scale * 2.0**-bits
    first, second, *_ = shape.nodes[0]  # leaves that meet in one block
    lines[:, first], lines[:, second] = scale, small
    exact = small >= box.input.min_subnormal
    back = box.lines(lines) == scale + small
    known = np.flatnonzero(~back[exact])
    return int(known[0]) if known.size else (int(bits[-1]) if exact.all() else None)


def _plainness(row: AlignedSum) -> tuple[object, ...]:
    return (
        row.normalized_products, row.output_fraction_bits is not None, row.fraction_bits, ROUNDINGS.index(row.rounding),
    )  # fmt: skip
