"""The arithmetic at the nodes of a tree, the plainest first, as far as answers do not contradict it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.formats.array import round_array
from tcu.formats.format import get_format
from tcu.formats.scalar import Rounding
from tcu.model.tree import evaluate_tree, rounded
from tcu.plan.tree import (
    Additions,
    Compensated,
    ExactAddition,
    FusedProducts,
    TreeNode,
    TreeOperation,
    TreeStep,
)
from tcu.probes.black_box import BlackBox, same_bits
from tcu.probes.sum_inputs import rows_of, sums_of_two_products
from tcu.probes.tree_making import Chooser, Leaves, Zero, nodes_of, step_of
from tcu.probes.tree_shape import Shape
from tcu.probes.unit_arithmetic import unit_candidates, unit_questions

__all__ = ["Evidence", "candidates", "exact_candidates"]

Values = npt.NDArray[Any]
_IEEE = ("binary64", "binary32", "binary16", "bfloat16")
_BATCHES, _RESULTS, _NUMBERS = 12, 100, 1 << 18
"""Questions that candidates must answer: batches of so many results, or of so many numbers if those are fewer."""
_PLAIN = 0.5
"""Share of exponents at which every rounding must be IEEE's for a function to be made of IEEE operations, whatever else it does."""
_SEEN = (16, 8)
"""Rows and columns of a product that candidates are compared on."""


class Questions:
    """Questions that were asked, and their answers, the most telling first."""

    def __init__(self, box: BlackBox, asked: Iterable[tuple[Values, Values | None]]) -> None:
        self.box = box
        seen = np.ones(box.shape[:2], bool) if box.seen is None else box.seen
        self.rows = np.flatnonzero(seen.any(axis=1))[: _SEEN[0]]
        self.columns = np.flatnonzero(seen[self.rows].any(axis=0))[: _SEEN[1]]
        self.counts = seen[np.ix_(self.rows, self.columns)]
        self.known: list[tuple[Values, Values | None, Values]] = []
        self.best = -1.0
        self.closest: TreeStep | None = None
        """The tree with the most right answers, of those that were wrong."""
        for x, y in asked:
            self.add(x, y, box(x, y))

    def agree(self, step: TreeStep, *, but_for_signs_of_zeros: bool = False) -> bool:
        """Whether a tree is never wrong."""
        for index, (x, y, answer) in enumerate(self.known):
            found, same = self._compared(step, x, y, answer)
            if but_for_signs_of_zeros:
                same |= (found == 0) & (answer == 0)
            if not same.all():
                self.known.insert(0, self.known.pop(index))
                if (share := float(same.mean())) > self.best:
                    self.best, self.closest = share, step
                return False
        return True

    def share(self, step: TreeStep) -> float:
        """Of the questions, how many a tree answers without a single wrong result."""
        return float(np.mean([self._compared(step, *asked)[1].all() for asked in self.known]))

    def _compared(
        self, step: TreeStep, x: Values, y: Values | None, answer: Values
    ) -> tuple[Values, npt.NDArray[np.bool_]]:
        """(the tree's results, which of them are the answer or not looked at)"""
        with np.errstate(all="ignore"):
            found = rounded(evaluate_tree(step, x, y), self.box.output)
        same = same_bits(found, answer)
        return found, same | ~self.counts if self.box.kind == "matmul" else same

    def add(self, x: Values, y: Values | None, answer: Values) -> None:
        """A question that was asked elsewhere, which comes first from now on."""
        if self.box.kind == "matmul":
            assert y is not None
            x, y = x[:, self.rows], y[..., self.columns]
            answer = answer[:, :, self.rows[:, None], self.columns]
        self.known.insert(0, (x, y, answer))


class Evidence:
    """What a tree must answer before it is compared on fresh inputs."""

    def __init__(self, box: BlackBox, rng: np.random.Generator) -> None:
        self.box, self.rng = box, rng
        m, n, k = box.shape
        rows = max(1, min(_RESULTS // (m * n), _NUMBERS // (k * max(m, n))), min(4, _NUMBERS // k))
        self.general = Questions(box, (rows_of(box, rng, rows) for _ in range(_BATCHES)))

    @cached_property
    def of_units(self) -> tuple[Questions, Questions]:
        """Ordinary operands, and such about the smallest numbers."""
        wide, near = unit_questions(self.box, self.rng)
        return Questions(self.box, wide), Questions(self.box, near)

    def is_plain(self, shape: Shape) -> bool:
        """Whether the nodes of a tree of pairs round as the closest tree of IEEE operations does, at most exponents.

        The share of right answers does not tell: sums of eight-bit products are exact nearly always.
        """
        plain = self.general.closest
        if plain is None or not (self.box.products and shape.is_binary):
            return False
        asked = sums_of_two_products(self.box, self.rng, shape.nodes[0])
        return Questions(self.box, asked).share(plain) > _PLAIN

    def surviving(self, steps: Iterable[TreeStep], leaves: Leaves) -> Iterator[TreeStep]:
        """Steps that are never wrong, with every rounding of products and of zeros that they may have."""
        for step in steps:
            for product in _products(step):
                for zero in leaves.zeros:
                    variant = replace(step, product=product, zero=zero)
                    if self.general.agree(variant):
                        yield variant


def candidates(evidence: Evidence, shape: Shape) -> Iterator[TreeStep]:
    """Trees of a shape that are never wrong on the evidence."""
    box = evidence.box
    leaves = _leaves(box)
    yield from evidence.surviving(_all_candidates(box, shape, leaves), leaves)
    if box.input.bits < 64 and shape.nodes and (box.products or not shape.is_binary):
        plain = evidence.is_plain(shape)
        wide, near = evidence.of_units
        agrees = partial(near.agree, but_for_signs_of_zeros=True)
        units = unit_candidates(box, shape, leaves, wide.agree, agrees, of_plain_sums=plain)
        yield from evidence.surviving(units, leaves)


def exact_candidates(evidence: Evidence) -> Iterator[TreeStep]:
    """What loses nothing to a large number that comes and goes: sums rounded once, and compensated ones."""
    box = evidence.box
    leaves, formats = _leaves(box), _formats(box)
    operations: list[TreeOperation] = [ExactAddition(name) for name in formats]
    steps = [_in_order(box, leaves, operation, range(box.n)) for operation in operations]
    for name in formats:
        neumaier = Compensated(name, "neumaier")
        steps += [_in_order(box, leaves, neumaier, order) for order in (range(box.n), range(box.n)[::-1])]
    return evidence.surviving(steps, leaves)


def _in_order(box: BlackBox, leaves: Leaves, operation: TreeOperation, order: Sequence[int]) -> TreeStep:
    """One operation that adds up all leaves, or for each result of a running sum those that it has."""
    results = range(box.n) if box.kind == "cumsum" else (box.n - 1,)
    nodes: list[TreeNode] = []
    roots = []
    for result in results:
        inputs = tuple(leaf for leaf in order if leaf <= result)
        if len(inputs) == 1:
            roots.append(inputs[0])
            continue
        roots.append(box.n + len(nodes))
        nodes.append(TreeNode(operation, inputs))
    return step_of(box.n, box.products, leaves, tuple(nodes), tuple(roots))


def _products(step: TreeStep) -> list[str | None]:
    """The formats that products may be rounded to first: narrower than that of an addition, and than they are exact in."""
    wide = {node.operation.format for node in step.nodes if isinstance(node.operation, Additions)}
    operand = get_format(step.operand).precision
    found = [
        name
        for name in _IEEE
        if any(get_format(name).precision < get_format(each).precision for each in wide)
    ]
    return [None, *(name for name in found if step.products and get_format(name).precision < 2 * operand)]


def _formats(box: BlackBox) -> list[str]:
    """Of accumulators, the output's first, then the elements', then what is wider."""
    return list(dict.fromkeys([box.output.name, box.input.name, *reversed(_IEEE), *_IEEE]))


def _leaves(box: BlackBox) -> Leaves:
    """How elements are rounded first, and whether sums begin from +0, by asking."""
    zeros = box.lines(np.full((1, box.n), -0.0))
    zero: tuple[Zero, ...] = ("kept",) if np.signbit(zeros[0]) else ("last", "first")
    if zero[0] == "last" and box.products:
        tiny = box.input.min_subnormal
        underflow = box.lines(np.full((1, box.n), -tiny), tiny)
        if underflow[0] == 0 and np.signbit(underflow[0]):  # +0 was there before, and an FMA made it -0
            zero = ("first", "last")
    if zero != ("kept",) and box.products:  # as AMX: every chain of FMAs from +0, and their sums onto +0
        zero = (*zero, "both", "begin")
    if box.input.name != "binary32" or box.output.fraction_bits < 23:
        return Leaves(box.input.name, "RNE", zero)
    x = np.zeros((64, box.n))
    values = (1 + np.random.default_rng(0).random(64)).astype(np.float32).astype(np.float64)
    x[:, 0] = values
    answer = box.lines(x)
    rules: list[tuple[str, Rounding]] = [
        ("binary32", "RNE"), ("tf32", "RNE"), ("tf32", "RZ"), ("bfloat16", "RNE"), ("binary16", "RNE"),
    ]  # fmt: skip
    for name, rounding in rules:
        if same_bits(round_array(values, name, rounding), answer).all():
            return Leaves(name, rounding, zero)
    return Leaves("binary32", "RNE", zero)


def _all_candidates(box: BlackBox, shape: Shape, leaves: Leaves) -> Iterator[TreeStep]:
    if not shape.is_binary:
        return
    yield from _uniform(box, shape, leaves)
    yield from _of_small_products(box, shape, leaves)
    yield from _measured(box, shape, leaves)
    yield from _compensated(box, shape, leaves)


def _uniform(box: BlackBox, shape: Shape, leaves: Leaves) -> Iterator[TreeStep]:
    """One format everywhere; products rounded, or all of them fused."""
    for name in _formats(box):
        formats = [name] * len(shape.nodes)
        yield _of_additions(box, shape, leaves, formats, [False] * box.n)
        if box.products and shape.nodes:
            yield _of_additions(box, shape, leaves, formats, [True] * box.n)


def _of_small_products(box: BlackBox, shape: Shape, leaves: Leaves) -> Iterator[TreeStep]:
    """FMAs that flush subnormals or do not, of products that binary32 holds but where they underflow.

    There alone the order of a chain's first two products shows: one of them was rounded, or flushed, by itself.
    """
    if box.products and shape.nodes and box.input.bits <= 16:
        formats, every = ["binary32"] * len(shape.nodes), [True] * box.n
        for flushed, turned in ((True, False), (True, True), (False, True)):
            choose = _by_leaf(box.n, formats, every, shape.exact, flushed=flushed, turned=turned)
            yield step_of(box.n, True, leaves, *nodes_of(shape, choose))


def _measured(box: BlackBox, shape: Shape, leaves: Leaves) -> Iterator[TreeStep]:
    """The format of every node, and of every product whether it is fused, by asking."""
    measured, hidden = _measured_formats(box, shape)
    for name in dict.fromkeys(["", *_IEEE]) if measured else ():  # wider than the result it cannot be seen
        formats = [name if place in hidden and name else each for place, each in enumerate(measured)]
        yield from _with_fusion(box, shape, leaves, formats)
    if (widened := _widened(shape, measured)) != measured:
        yield from _with_fusion(box, shape, leaves, widened)


def _widened(shape: Shape, formats: list[str]) -> list[str]:
    """The formats if what a narrower addition takes was wide until then, which measuring cannot tell."""
    n, found = shape.leaves, list(formats)

    def digits(name: str) -> int:
        return get_format(name).precision

    parents = {value: number for number, node in enumerate(shape.nodes) for value in node}
    for number, node in enumerate(shape.nodes):
        widest = max((found[value - n] for value in node if value >= n), key=digits, default=found[number])
        parent = parents.get(number + n)
        if (
            parent is not None
            and formats[parent] == formats[number]
            and digits(widest) > digits(formats[number])
        ):
            found[number] = widest
    return found


def _with_fusion(box: BlackBox, shape: Shape, leaves: Leaves, formats: list[str]) -> Iterator[TreeStep]:
    if shape.nodes:
        fused = _measured_fusion(box, shape, formats) if box.products else [False] * box.n
        yield _of_additions(box, shape, leaves, formats, fused)


def _of_additions(
    box: BlackBox, shape: Shape, leaves: Leaves, formats: Sequence[str], fused: Sequence[bool]
) -> TreeStep:
    return step_of(
        box.n, box.products, leaves, *nodes_of(shape, _by_leaf(box.n, formats, fused, shape.exact))
    )


def _compensated(box: BlackBox, shape: Shape, leaves: Leaves) -> Iterator[TreeStep]:
    order: list[int] = []
    if box.kind == "cumsum":
        order = list(range(box.n))
    else:
        for node in shape.nodes:
            added = [value for value in node if value < box.n]
            if len(added) != 1 and order:
                return
            order += added
    for name in _formats(box):
        for inputs in (order, [order[1], order[0], *order[2:]] if len(order) > 1 else order):
            yield _in_order(box, leaves, Compensated(name, "kahan"), inputs)


def _by_leaf(
    n: int,
    formats: Sequence[str],
    fused: Sequence[bool],
    exact: frozenset[int],
    *,
    flushed: bool = False,
    turned: bool = False,
) -> Chooser:
    """Additions, but FMAs where a leaf is fused onto something else; ``turned``: of two leaves, the first one onto the second."""

    def choose(number: int, children: tuple[int, ...]) -> tuple[TreeOperation, Sequence[int]]:
        name = formats[number]
        if number in exact:
            return ExactAddition("binary64"), children
        ordered = sorted(children, key=lambda value: (value < n, value))  # nodes first, then leaves
        last = ordered[-1]
        if len(ordered) == 2 and ordered[0] < n and (turned or not fused[last]):
            ordered.reverse()
            last = ordered[-1]
        if last < n and fused[last]:
            return FusedProducts(name, flushed), ordered
        return Additions(name, flushed), children

    return choose


# Measurements


def _leaf_of(shape: Shape) -> list[int]:
    """Of every value, a leaf that it holds."""
    found = list(range(shape.leaves))
    for node in shape.nodes:
        found.append(found[node[0]])
    return found


def _after(shape: Shape, leaf: Sequence[int]) -> dict[int, tuple[int, int]]:
    """Of a node: a leaf that is added to its value next, and the first result for which that is done."""
    n = shape.leaves
    found: dict[int, tuple[int, int]] = {}
    for result, root in enumerate(shape.roots):
        left, seen = [root], {root}
        while left:
            value = left.pop()
            for each in shape.nodes[value - n] if value >= n else ():
                if each >= n and each not in seen:
                    seen.add(each)
                    left.append(each)
                    other = next(sibling for sibling in shape.nodes[value - n] if sibling != each)
                    found.setdefault(each - n, (leaf[other], result))
    return found


def _measured_formats(box: BlackBox, shape: Shape) -> tuple[list[str], set[int]]:
    """The format of every node, and those nodes that are results only, where no wider format than theirs is seen.

    1 and a smaller number meet in a node, and -1 comes next.
    """
    leaf, n = _leaf_of(shape), box.n
    after = _after(shape, leaf)
    results = {root - n: result for result, root in enumerate(shape.roots)}
    digits = {get_format(name).precision: name for name in _IEEE}
    found = [""] * len(shape.nodes)
    open_nodes = np.arange(len(shape.nodes))
    names = sorted(digits)
    widest = ""
    for place, precision in enumerate(names):
        widest = digits[precision]
        if not open_nodes.size or place == len(names) - 1:
            break
        # The smallest number that the next narrower format would lose.
        small = 2.0 ** -(names[place + 1] - 1)
        one = 1.0
        if box.input.emax < 20:
            one, small = 2.0**box.input.emax, small * 2.0**box.input.emax
        if small < box.input.min_subnormal:  # a format in which the masks would have lost nothing
            break
        survived: list[bool] = []
        size = max(1, _NUMBERS // n)
        for at in range(0, open_nodes.size, size):
            numbers = open_nodes[at : at + size].tolist()
            lines, expected = np.zeros((len(numbers), n)), np.empty(len(numbers))
            seen_at = [after[number][1] if number in after else results[number] for number in numbers]
            for line, number in enumerate(numbers):
                node = shape.nodes[number]
                lines[line, leaf[node[0]]], lines[line, leaf[node[1]]] = one, small
                expected[line] = one + small
                if number in after:
                    lines[line, after[number][0]] = -one
                    expected[line] = small
            survived += (box.lines(lines, results=seen_at) == expected).tolist()
        for number, wide in zip(open_nodes, survived, strict=True):
            if not wide:
                found[number] = digits[precision]
        open_nodes = open_nodes[np.array(survived, bool)]
    return [name or widest for name in found], set(range(len(found))) - set(after)


def _measured_fusion(box: BlackBox, shape: Shape, formats: Sequence[str]) -> list[bool]:
    """Of every leaf, whether its product is added before it is rounded.

    Both factors are 1 + 2^-h, and the other addend is -(1 + 2^-h): the square's
    last bit survives only if the product was not rounded.
    """
    leaf, n = _leaf_of(shape), box.n
    fused = [False] * n
    asked: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for number, node in enumerate(shape.nodes):
        h = (get_format(formats[number]).precision + 1) // 2
        if h <= box.input.fraction_bits:  # else every product is exact
            asked[h] += [(value, leaf[other]) for value, other in (node, node[::-1]) if value < n]
    for h, pairs in asked.items():
        size = max(1, _NUMBERS // n)
        for at in range(0, len(pairs), size):
            which = np.array(pairs[at : at + size]).T
            lines = np.zeros((which.shape[1], n))
            every = np.arange(which.shape[1])
            lines[every, which[0]], lines[every, which[1]] = 1 + 2.0**-h, -1.0
            answers = box.lines(lines, 1 + 2.0**-h)
            for value, answer in zip(which[0].tolist(), answers, strict=True):
                fused[value] = bool(answer == 2.0**-h + 2.0 ** (-2 * h))
    return fused
