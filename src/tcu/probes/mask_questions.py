"""Who is added with whom, found by masked sums.

One large number, its negative elsewhere, small numbers at all other places: the
small ones that meet the large number before its negative does are lost, the
others come out.  So the answer counts the leaves outside the smallest subtree
that holds both (the idea of FPRev, Xie et al., ATC 2025).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tcu.formats.format import Format
from tcu.probes.black_box import BlackBox

__all__ = ["Masks", "NotATree", "ScanMasks", "masks_for"]

Indices = npt.NDArray[np.int64]

_GUARD = 27
"""Bits below a number's leading one that a narrow accumulator may keep (those of the catalogue keep 25)."""
_LINES = 1 << 20
"""Numbers that are made at a time."""
_PAIRS = 16
"""Pairs of any leaves that all results are asked about."""


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
        rows, columns = self._apart
        answers = np.empty(len(others))
        for at in range(0, len(others), len(rows)):
            group = others[at : at + len(rows)]
            down, across = rows[: len(group)], columns[: len(group)]
            x, y = np.zeros((1, m, k)), np.zeros((1, k, n))
            x[:, :, small], y[:, small] = sizes.unit, sizes.unit_other
            x[:, :, i], y[:, i] = sizes.big, sizes.big_other
            x[0, down, group], y[0, group, across] = -sizes.big, sizes.big_other
            found = box(x.astype(box.input.dtype), y.astype(box.input.dtype))[0, 0]
            answers[at : at + len(group)] = found[down, across]
        return self._whole(answers)

    @cached_property
    def _apart(self) -> tuple[Indices, Indices]:
        """Rows and columns of results that are looked at, no two of one row or column: each has a question of its own."""
        m, n, _ = self.box.shape
        seen = np.ones((m, n), bool) if self.box.seen is None else self.box.seen
        found: dict[int, int] = {}
        for row in range(m):
            free = [column for column in np.flatnonzero(seen[row]).tolist() if column not in found]
            if free:
                found[free[0]] = row
        return np.array([*found.values()]), np.array([*found])

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
            line, other = np.full(k, sizes.unit), np.full(k, sizes.unit_other)
            line[i], line[j] = sizes.big, -sizes.big
            other[[i, j]] = sizes.big_other
            x, y = np.tile(line, (1, m, 1)), np.tile(other[:, None], (1, 1, n))
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


class ScanMasks(Masks):
    """The same of running sums, whose results all answer a question at once: what is asked of one is known of others.

    All leaves but the two large ones are small, for a result adds up none beyond its own.
    """

    def __init__(self, box: BlackBox, magnitudes: _Magnitudes) -> None:
        self.result = box.n - 1
        """Which one the counts are of."""
        self.answers: dict[tuple[int, int], Indices] = {}
        super().__init__(box, magnitudes)

    def counts(self, i: int, others: Sequence[int], small: Indices) -> Indices:
        """The survivors, as if no leaves but ``small`` were there: what was lost is the smallest subtree."""
        pairs = [(min(i, int(j)), max(i, int(j))) for j in others]
        self._ask([pair for pair in dict.fromkeys(pairs) if pair not in self.answers])
        left = np.array([self.answers[pair][self.result] for pair in pairs], np.int64)
        if (left < 0).any():
            raise NotATree("the answer to a masked sum counts no leaves")
        return np.maximum(len(small) - (self.result + 1 - left), 0)

    def _ask(self, pairs: list[tuple[int, int]]) -> None:
        box, sizes, n = self.box, self.magnitudes, self.box.n
        together = max(1, _LINES // n)
        for at in range(0, len(pairs), together):
            group = np.array(pairs[at : at + together])
            every = np.arange(len(group))
            found = np.zeros((len(group), n))
            for start in range(0, n, self.cap):
                lines = np.zeros((len(group), n), box.input.dtype)
                lines[:, start : start + self.cap] = sizes.unit
                lines[every, group[:, 0]], lines[every, group[:, 1]] = sizes.big, -sizes.big
                found += box(lines).T / sizes.quantum
            self.asked += len(group)
            with np.errstate(invalid="ignore"):
                whole = np.isfinite(found) & (found == np.rint(found)) & (np.abs(found) <= n)
            self.answers |= zip(
                map(tuple, group.tolist()), np.where(whole, found, -1).astype(np.int32), strict=True
            )


def masks_for(box: BlackBox) -> Masks | None:
    """Masks of the first magnitudes that something absorbs; None where everything survives, as in an exact sum."""
    n = box.n
    sample = sorted({1, n // 2, n - 1} - {0})
    everything = np.arange(n)
    failure: NotATree | None = None
    exact = False
    for magnitudes in _magnitudes(box.input, box.products):
        try:
            masks = (ScanMasks if box.kind == "cumsum" else Masks)(box, magnitudes)
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
