"""The tree whose masked sums are those that were seen; of running sums the trees of all results, which share nodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from tcu.probes.mask_questions import Masks, NotATree, ScanMasks

__all__ = ["Shape", "find_shape"]

Indices = npt.NDArray[np.int64]

_CHECKS = 4
"""Questions that a subtree must answer like the one of the same size that was asked in full."""
_GUESSED = 4
"""Of so many results, one may have answers that fit no tree."""
_RUN = 64
"""Neighbours that are all asked."""


@dataclass(frozen=True)
class Shape:
    """Which values every node adds up: leaves below ``leaves``, earlier nodes from there on."""

    leaves: int
    nodes: tuple[tuple[int, ...], ...]
    roots: tuple[int, ...]
    """The value of every result."""
    exact: frozenset[int] = frozenset()
    """Nodes (0, 1, ...) in which a large number loses nothing: a format so wide that their order cannot be seen."""

    @property
    def is_binary(self) -> bool:
        return all(len(node) == 2 or number in self.exact for number, node in enumerate(self.nodes))


def find_shape(masks: Masks, *, in_full: bool = False) -> Shape:
    """The tree of every result; raises NotATree.  ``in_full``: no subtree is taken to be like another."""
    finder = _Finder(masks, in_full)
    n = masks.box.n
    roots = (
        _roots_of_results(finder, masks)
        if isinstance(masks, ScanMasks)
        else finder.subtrees(np.arange(n), None)
    )
    return Shape(n, tuple(finder.nodes), tuple(roots), frozenset(finder.exact))


def _roots_of_results(finder: _Finder, masks: ScanMasks) -> list[int]:
    """The tree of every result; of a few whose answers fit none, the result before and one more, to be refuted."""
    roots: list[int] = []
    guessed = 0
    for result in range(masks.box.n):
        masks.result = result
        try:
            roots += finder.subtrees(np.arange(result + 1), None)
        except NotATree:
            guessed += 1
            if guessed > masks.box.n // _GUESSED:
                raise
            roots.append(finder.node([roots[-1], result]))
    return roots


class _Finder:
    def __init__(self, masks: Masks, in_full: bool) -> None:
        self.masks, self.in_full = masks, in_full
        self.leaves = masks.box.n
        self.nodes: list[tuple[int, ...]] = []
        self.numbers: dict[tuple[int, ...], int] = {}
        """Values of nodes, by what they add up: a node may be part of several results."""
        self.exact: set[int] = set()
        self.known: dict[Hashable, tuple[Indices, list[int]]] = {}
        self.rng = np.random.default_rng(0)

    def node(self, children: Sequence[int], *, exact: bool = False) -> int:
        """The value that adds these up."""
        number = len(self.nodes)
        value = self.numbers.setdefault(tuple(sorted(children)), self.leaves + number)
        if value == self.leaves + number:
            self.nodes.append(tuple(children))
            if exact:
                self.exact.add(number)
        return value

    def subtrees(self, among: Indices, beside: int | None, from_end: bool = False) -> list[int]:
        """The roots of the trees that hold ``among`` and that one node adds up, to ``beside`` if it is a leaf there."""
        if len(among) == 1:
            return [int(among[0])]
        names = self._names(among, beside)
        for name in names:
            if name in self.known:
                copied = self._copied(among, beside, *self.known[name])
                if copied is not None:
                    return copied
        found = self._asked(among, beside, from_end)
        for name in names:
            self.known[name] = among, found
        return found

    def _names(self, among: Indices, beside: int | None) -> list[Hashable]:
        """What sets of leaves have in common whose trees are probably alike: the leaves, or that they lie at equal steps."""
        if self.in_full or len(among) < 2 + _CHECKS:
            return []
        stride = int(among[1] - among[0])
        found: list[Hashable] = []
        if isinstance(self.masks, ScanMasks):
            found.append((among.tobytes(), beside is None))
        if (np.diff(among) == stride).all():
            found.append((len(among), stride, beside is None))
        return found

    def _all_sizes(self, i: int, others: Indices, among: Indices, beside: int | None) -> Indices:
        """The same, where between leaves of one size all are taken to be of it if those asked in between are.

        The sizes of the groups must add up, and what is wrong after all fails on fresh inputs.
        """
        if self.in_full or len(others) < 4 * _RUN:
            return self._sizes(i, others, among, beside)
        sizes = np.zeros(len(others), np.int64)

        def ask(places: list[int]) -> None:
            which = np.array([place for place in dict.fromkeys(places) if not sizes[place]], np.int64)
            if which.size:
                sizes[which] = self._sizes(i, others[which], among, beside)

        ask([0, len(others) - 1])
        runs = [(0, len(others) - 1)]
        while runs:
            cuts = [_cuts(first, last) for first, last in runs]
            ask([place for each in cuts for place in each])
            before, runs = runs, []
            for (first, last), inside in zip(before, cuts, strict=True):
                if len(inside) == last - first - 1:
                    continue
                ends = [first, *inside, last]
                if len(set(sizes[ends].tolist())) == 1:
                    sizes[first:last] = sizes[first]
                else:
                    runs += [pair for pair in pairwise(ends) if pair[1] - pair[0] > 1]
        return sizes

    def _sizes(self, i: int, others: Indices, among: Indices, beside: int | None) -> Indices:
        """Leaves of the smallest subtree that holds i and each of ``others``; more than all of ``among`` if it holds
        ``beside``, too.
        """
        small = among if beside is None else np.append(among, beside)
        left = self.masks.counts(i, others.tolist(), small)  # i and j themselves cancel
        sizes = len(small) - left
        if (sizes < 2).any() or (sizes > len(small)).any():
            raise NotATree("the answer to a masked sum counts more leaves than there are")
        return sizes

    def _copied(
        self, among: Indices, beside: int | None, like: Indices, roots: list[int]
    ) -> list[int] | None:
        """A copy of the trees of ``like``, if a few questions find it right."""
        shift, leaves, below = int(among[0] - like[0]), self.leaves, self._below(roots)
        places = self.rng.choice(len(among), (2, _CHECKS))
        for a, b in places.T:
            if a == b:
                continue
            expected = self._size_of(int(like[a]), int(like[b]), below, roots, len(among))
            others = among[b : b + 1]
            if self._sizes(int(among[a]), others, among, beside)[0] != expected:
                return None
        moved: dict[int, int] = {}
        for value in below:
            children = [each + shift if each < leaves else moved[each] for each in self.nodes[value - leaves]]
            moved[value] = self.node(children, exact=value - leaves in self.exact)
        return [root + shift if root < leaves else moved[root] for root in roots]

    def _below(self, roots: list[int]) -> list[int]:
        """The values of the nodes of some trees, each after those that it adds up."""
        found: set[int] = set()
        left = [root for root in roots if root >= self.leaves]
        while left:
            value = left.pop()
            found.add(value)
            left += [each for each in self.nodes[value - self.leaves] if each >= self.leaves]
        return sorted(found)

    def _size_of(self, i: int, j: int, below: list[int], roots: list[int], among: int) -> int:
        """The size that a subtree found already gives for two leaves."""
        held: dict[int, tuple[int, frozenset[int]]] = {}
        for number in below:
            size, has = 0, frozenset[int]()
            for value in self.nodes[number - self.leaves]:
                if value < self.leaves:
                    size += 1
                    has |= {value} & {i, j}
                else:
                    size += held[value][0]
                    has |= held[value][1]
            if len(has) == 2:
                return size
            held[number] = size, has
        return among + (len(roots) > 1)

    def _asked(self, among: Indices, beside: int | None, from_end: bool) -> list[int]:
        i = int(among[-1] if from_end else among[0])
        others = among[:-1] if from_end else among[1:]
        sizes = self._all_sizes(i, others, among, beside)
        groups: dict[int, list[int]] = defaultdict(list)
        for j, size in zip(others.tolist(), sizes.tolist(), strict=True):
            groups[size].append(j)
        joined_above = groups.pop(len(among) + 1, []) if beside is not None else []
        tree, held = i, 1
        apart = self._apart(groups) if beside is None else None
        for size in sorted(groups):
            group = groups[size]
            if held == apart:
                return [self._exact_sum(tree, held, groups, size)]
            if held + len(group) != size:
                raise NotATree("the sizes of the subtrees contradict each other")
            # A chain from the other end would be asked about all of it, again and again.
            turn = from_end != (held == 1 and len(group) > len(among) // 2)
            children = [tree, *self.subtrees(np.array(group), i, turn)]
            tree = self.node(children)
            held = size
        if not joined_above:
            return [tree]
        if beside is None:
            raise NotATree("the sizes of the subtrees contradict each other")
        return [tree, *self.subtrees(np.array(joined_above), beside, from_end)]

    def _apart(self, groups: dict[int, list[int]]) -> int | None:
        """The leaves of the first tree, if it and others are added up without loss; None if all are one tree.

        A large number loses what it meets in its own tree, and its negative what it
        meets in another: then the sizes are those of two trees.
        """
        held, sizes = 1, sorted(groups)
        prefixes = []
        for place, size in enumerate(sizes):
            if _ends_alone(held, groups, sizes[place:]):
                prefixes.append(held)
            if held + len(groups[size]) != size:
                return prefixes[-1] if prefixes else None
            held = size
        return None

    def _exact_sum(self, tree: int, held: int, groups: dict[int, list[int]], first: int) -> int:
        """The node that adds up ``tree`` and the trees of all leaves in the groups from ``first`` on."""
        roots = [tree]
        for size in sorted(each for each in groups if each >= first):
            left = np.array(groups[size])
            while len(left):
                own = size - held
                mine = (
                    self._sizes(int(left[0]), left[1:], left, None) <= own
                    if len(left) > own
                    else np.ones(len(left) - 1, bool)
                )
                tree_leaves = np.append(left[:1], left[1:][mine])
                if len(tree_leaves) != own:
                    raise NotATree("the sizes of the subtrees contradict each other")
                roots += self.subtrees(tree_leaves, None)
                left = left[1:][~mine]
        return self.node(roots, exact=True)


def _ends_alone(held: int, groups: dict[int, list[int]], sizes: list[int]) -> bool:
    """Whether leaves of those sizes lie in trees of their own, which lose all of themselves and nothing of each other."""
    return all(size > held and len(groups[size]) % (size - held) == 0 for size in sizes)


def _cuts(first: int, last: int) -> list[int]:
    """Places between two: all of them, or three at uneven distances, so that no period hides between them."""
    if last - first <= _RUN:
        return list(range(first + 1, last))
    length = last - first
    return [first + length * part // 16 + odd for part, odd in ((4, 1), (7, 2), (11, -1))]
