"""Who is added with whom, found by masked sums.

One large number, its negative elsewhere, small numbers at all other places: the
small ones that meet the large number before its negative does are lost, the
others come out.  So the answer counts the leaves outside the smallest subtree
that holds both (the idea of FPRev, Xie et al., ATC 2025).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tcu.formats.format import Format
from tcu.probes.black_box import BlackBox

__all__ = ["Masks", "NotATree", "Shape", "find_shape", "masks_for"]

Indices = npt.NDArray[np.int64]

_GUARD = 27
"""Bits below a number's leading one that a narrow accumulator may keep (those of the catalogue keep 25)."""
_LINES = 1 << 20
"""Numbers that are made at a time."""
_CHECKS = 4
"""Questions that a subtree must answer like the one of the same size that was asked in full."""


_PAIRS = 16
"""Pairs of any leaves that all results are asked about."""
_RUN = 64
"""Neighbours that are all asked."""


class NotATree(Exception):
    """The answers fit no tree."""


class _Magnitudes(NamedTuple):
    """Factors of the large leaves and of the small ones; of a sum the second factors are 1."""

    big: float
    big_other: float
    unit: float
    unit_other: float

    @property
    def quantum(self) -> float:
        return self.unit * self.unit_other

    @property
    def ratio(self) -> float:
        return self.big * self.big_other / self.quantum


def _magnitudes(fmt: Format, products: bool) -> list[_Magnitudes]:
    """What may do, the most likely first; a narrower accumulator than the elements' overflows on the first."""
    plain = {
        "binary64": [(2.0**600, 1.0), (2.0**100, 2.0**-20), (1.5 * 2.0**15, 2.0**-24)],
        "binary32": [(2.0**100, 2.0**-20), (1.5 * 2.0**15, 2.0**-24)],
        "bfloat16": [(2.0**100, 2.0**-20), (1.5 * 2.0**15, 2.0**-24)],
        "binary16": [(1.5 * 2.0**15, 2.0**-24), (1.5 * 2.0**15, 2.0**-14)],
    }
    found = [_Magnitudes(big, 1.0, unit, 1.0) for big, unit in plain.get(fmt.name, [])]
    if products and fmt.bits <= 16:
        top, bottom = 2.0 ** (fmt.emax - (fmt.emax > 100)), fmt.min_subnormal
        if fmt.name != "bfloat16":
            found.append(_Magnitudes(top, top, bottom, bottom))
            found.append(_Magnitudes(top, top, fmt.min_normal, fmt.min_normal))
            # For results of binary16, whose range is 2^-24 to 2^16, and which may have no subnormals.
            found.append(_Magnitudes(2.0**8, 2.0**7, max(bottom, 2.0**-12), max(bottom, 2.0**-12)))
            found.append(_Magnitudes(2.0**8, 2.0**7, max(bottom, 2.0**-7), max(bottom, 2.0**-7)))
    return found


class Masks:
    """Asks how many of the small leaves survive."""

    def __init__(self, box: BlackBox, magnitudes: _Magnitudes) -> None:
        self.box, self.magnitudes = box, magnitudes
        self.asked = 0
        self.cap = self._largest_count()

    def counts(self, i: int, others: Sequence[int], small: Indices) -> Indices:
        """For every j of ``others``: the survivors of ``small`` when i and j hold the large number and its negative."""
        total = np.zeros(len(others), np.int64)
        for at in range(0, len(small), self.cap):
            total += self._counts(i, np.asarray(others), small[at : at + self.cap])
        return total

    def _counts(self, i: int, others: Indices, small: Indices) -> Indices:
        box, sizes = self.box, self.magnitudes
        m, n, k = box.shape
        self.asked += len(others)
        if self.constant:
            answers = np.empty(len(others))
            size = max(1, _LINES // k)
            for at in range(0, len(others), size):
                group = others[at : at + size]
                lines = np.zeros((len(group), k), box.input.dtype)
                lines[:, small] = sizes.unit
                lines[:, i] = sizes.big
                lines[np.arange(len(group)), group] = -sizes.big
                answers[at : at + len(group)] = box.lines(lines, sizes.unit_other)
            return self._whole(answers)
        together = min(m, n)
        answers = np.empty(len(others))
        for at in range(0, len(others), together):
            group = others[at : at + together]
            x, y = np.zeros((1, m, k)), np.zeros((1, k, n))
            x[:, :, small], y[:, small] = sizes.unit, sizes.unit_other
            x[:, :, i], y[:, i] = sizes.big, sizes.big_other
            x[0, np.arange(len(group)), group], y[0, group, np.arange(len(group))] = (
                -sizes.big,
                sizes.big_other,
            )
            found = box(x.astype(box.input.dtype), y.astype(box.input.dtype))[0, 0]
            answers[at : at + len(group)] = np.diagonal(found)[: len(group)]
        return self._whole(answers)

    @property
    def constant(self) -> bool:
        """Whether all second factors are the same, so that every column of a product has the same question."""
        return self.magnitudes.big_other == self.magnitudes.unit_other

    def of_all_results(self, rng: np.random.Generator) -> npt.NDArray[np.float64]:
        """(questions, M, N): what every result of a product answers to some questions."""
        box, sizes = self.box, self.magnitudes
        m, n, k = box.shape
        near = [(at, at + step) for at in (0, k // 2) for step in (1, 2, 3, 4, 8, 16, 32) if at + step < k]
        far = [tuple(rng.choice(k, 2, replace=False).tolist()) for _ in range(_PAIRS)]
        answers = []
        for i, j in dict.fromkeys([*near, *far, (0, k - 1)]):
            line = np.full(k, sizes.unit)
            line[i], line[j] = sizes.big, -sizes.big
            x, y = np.tile(line, (1, m, 1)), np.full((1, k, n), sizes.unit_other)
            answers.append(box(x.astype(box.input.dtype), y.astype(box.input.dtype))[0, 0])
        return np.stack(answers)

    def _whole(self, answers: npt.NDArray[np.float64]) -> Indices:
        counts = answers / self.magnitudes.quantum
        if not np.isfinite(counts).all() or (counts != np.rint(counts)).any():
            raise NotATree("the answer to a masked sum counts no leaves")
        return counts.astype(np.int64)

    def _largest_count(self) -> int:
        """The small leaves that a question may have: as many as the formats count, and as the large number absorbs."""
        n, sizes = self.box.n, self.magnitudes
        most = int(min(max(sizes.ratio * 2.0**-_GUARD, 1), n))
        most = 1 << (most.bit_length() - 1) if most < n else most
        if not self._counts_to(1):
            raise NotATree("a small number alone does not come out")
        while most > 1 and not self._counts_to(most):
            most = 1 << ((most - 1).bit_length() - 1)
        return most

    def _counts_to(self, most: int) -> bool:
        box, sizes = self.box, self.magnitudes
        for count in {most, max(most - 1, 1)}:
            line = np.zeros((1, box.n))
            line[0, box.n - count :] = sizes.unit
            answer = box.lines(line, sizes.unit_other)[0]
            if answer != count * sizes.quantum:
                return False
        return True


def masks_for(box: BlackBox) -> Masks | None:
    """Masks of the first magnitudes that something absorbs; None where everything survives, as in an exact sum."""
    n = box.n
    sample = sorted({1, n // 2, n - 1} - {0})
    everything = np.arange(n)
    failure: NotATree | None = None
    exact = False
    for magnitudes in _magnitudes(box.input, box.products):
        try:
            masks = Masks(box, magnitudes)
            found = masks.counts(0, sample, everything)
        except NotATree as error:
            failure = error
            continue
        if n == 2 or (found < n - 2).any():
            return masks
        exact = True
    if failure is not None and not exact:
        raise failure
    return None


@dataclass(frozen=True)
class Shape:
    """Which values every node adds up: leaves below ``leaves``, earlier nodes from there on."""

    leaves: int
    nodes: tuple[tuple[int, ...], ...]
    exact: frozenset[int] = frozenset()
    """Nodes (0, 1, ...) in which a large number loses nothing: a format so wide that their order cannot be seen."""

    @property
    def root(self) -> int:
        return self.leaves + len(self.nodes) - 1 if self.nodes else 0

    @property
    def is_binary(self) -> bool:
        return all(len(node) == 2 or number in self.exact for number, node in enumerate(self.nodes))


def find_shape(masks: Masks, leaves: Sequence[int], *, in_full: bool = False) -> Shape:
    """The tree; raises NotATree.  ``in_full``: no subtree is taken to be like another."""
    finder = _Finder(masks, in_full)
    found = finder.subtrees(np.asarray(leaves), None)
    assert len(found) == 1
    return Shape(masks.box.n, tuple(finder.nodes), frozenset(finder.exact))


class _Finder:
    def __init__(self, masks: Masks, in_full: bool) -> None:
        self.masks, self.in_full = masks, in_full
        self.leaves = masks.box.n
        self.nodes: list[tuple[int, ...]] = []
        self.exact: list[int] = []
        self.known: dict[tuple[int, int, bool], tuple[Indices, int, int, list[int]]] = {}
        self.rng = np.random.default_rng(0)

    def subtrees(self, among: Indices, beside: int | None, from_end: bool = False) -> list[int]:
        """The roots of the trees that hold ``among`` and that one node adds up, to ``beside`` if it is a leaf there."""
        if len(among) == 1:
            return [int(among[0])]
        pattern = self._pattern(among, beside)
        if pattern is not None and pattern in self.known:
            copied = self._copied(among, beside, *self.known[pattern])
            if copied is not None:
                return copied
        start = len(self.nodes)
        found = self._asked(among, beside, from_end)
        if pattern is not None:
            self.known[pattern] = (among, start, len(self.nodes), found)
        return found

    def _pattern(self, among: Indices, beside: int | None) -> tuple[int, int, bool] | None:
        """What sets of leaves at equal steps have in common, whose trees are probably alike."""
        stride = int(among[1] - among[0])
        if self.in_full or len(among) < 2 + _CHECKS or (np.diff(among) != stride).any():
            return None
        return len(among), stride, beside is None

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
        self, among: Indices, beside: int | None, like: Indices, start: int, stop: int, roots: list[int]
    ) -> list[int] | None:
        """A copy of the trees of ``like``, if a few questions find it right."""
        shift, offset, leaves = int(among[0] - like[0]), len(self.nodes) - start, self.leaves

        def moved(value: int) -> int:
            return value + shift if value < leaves else value + offset

        places = self.rng.choice(len(among), (2, _CHECKS))
        for a, b in places.T:
            if a == b:
                continue
            expected = self._size_of(int(like[a]), int(like[b]), start, stop, roots, len(among))
            others = among[b : b + 1]
            if self._sizes(int(among[a]), others, among, beside)[0] != expected:
                return None
        self.nodes.extend(tuple(moved(value) for value in node) for node in self.nodes[start:stop])
        return [moved(root) for root in roots]

    def _size_of(self, i: int, j: int, start: int, stop: int, roots: list[int], among: int) -> int:
        """The size that a subtree found already gives for two leaves."""
        held: dict[int, tuple[int, frozenset[int]]] = {}
        for number in range(start, stop):
            size, has = 0, frozenset[int]()
            for value in self.nodes[number]:
                if value < self.leaves:
                    size += 1
                    has |= {value} & {i, j}
                else:
                    size += held[value][0]
                    has |= held[value][1]
            if len(has) == 2:
                return size
            held[number + self.leaves] = size, has
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
            self.nodes.append(tuple(children))
            tree = self.leaves + len(self.nodes) - 1
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
        self.exact.append(len(self.nodes))
        self.nodes.append(tuple(roots))
        return self.leaves + len(self.nodes) - 1


def _ends_alone(held: int, groups: dict[int, list[int]], sizes: list[int]) -> bool:
    """Whether leaves of those sizes lie in trees of their own, which lose all of themselves and nothing of each other."""
    return all(size > held and len(groups[size]) % (size - held) == 0 for size in sizes)


def _cuts(first: int, last: int) -> list[int]:
    """Places between two: all of them, or three at uneven distances, so that no period hides between them."""
    if last - first <= _RUN:
        return list(range(first + 1, last))
    length = last - first
    return [first + length * part // 16 + odd for part, odd in ((4, 1), (7, 2), (11, -1))]
