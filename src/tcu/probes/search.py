"""Search the family for members that explain a target's answers, in stages.

Each stage asks inputs that only its parameters decide.  What a few questions
show at once comes first: which NaN comes back, the sign of a zero,
saturation, bits for carries.  Then alignment and rounding together, how K
falls into blocks, and what happens near zero: a stage asks every candidate
for the bits and keeps those that are never wrong.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from tcu.formats.array import decode_array
from tcu.formats.scalar import ROUNDINGS
from tcu.probes.edge_inputs import (
    c_alone,
    c_beside_a_smallest_product,
    small_products_alone,
    ties_of_the_smallest,
)
from tcu.probes.floors import Cut, cut_of_a_product, cut_of_c, floors
from tcu.probes.inputs import (
    near_zero,
    ordinary,
    pair,
    product_far_below_c,
    tail_of_a_product,
    tail_of_c,
)
from tcu.probes.judge import Asked, Candidate, Judge, describe, fits, plainness
from tcu.probes.kinds import COLUMNS, ROWS, Maker, in_both_formats, nan_that_meets
from tcu.probes.scale_inputs import cancelled_groups, sunken_groups
from tcu.probes.target import Codes, Target, of_instruction
from tcu.units.arithmetic import (
    MAX_BLOCK,
    MAX_CARRY_BITS,
    MAX_FRACTION_BITS,
    SUM_NAN_RULES,
    AlignedSum,
    ExactBlock,
    FlushedTree,
    FusedChain,
    GroupedSum,
    LateSum,
    NanRule,
    SumNanRule,
)

__all__ = ["Pinned", "Progress", "Search", "first_guess", "interleaved", "plainest"]

Progress = Callable[[str], None]
_Floored = TypeVar("_Floored", bound=AlignedSum | GroupedSum)

_ALIGNMENT: tuple[tuple[Maker, int], ...] = (
    (pair, 48), (partial(tail_of_c, early=True), 3), (partial(tail_of_a_product, early=True), 6),
    (partial(product_far_below_c, early=True), 3),
)  # fmt: skip
_BLOCKS: tuple[tuple[Maker, int], ...] = ((ordinary, 100),)
_NEAR_ZERO: tuple[tuple[Maker, int], ...] = (
    (near_zero, 200), (ties_of_the_smallest, 40), (c_alone, 8), (c_beside_a_smallest_product, 4),
    (small_products_alone, 24),
)  # fmt: skip
"""The kinds of questions of the three stages, and how many of each."""
_GROUPED_FLOOR = -139
"""Of the catalogue's grouped sums."""


@dataclass(frozen=True)
class Pinned:
    """One stage: what it decided, from how many dot products and candidates."""

    parameters: str
    conclusion: str
    candidates: int
    dots: int


def interleaved(k: int, period: int) -> tuple[int, ...]:
    """The lower half of every ``period`` products first, then the upper halves."""
    return tuple(i for upper in (False, True) for i in range(k) if (i % period >= period // 2) == upper)


def first_guess(target: Target) -> Candidate:
    """What passes every stage, or the plainest member where nothing does; no final comparison."""
    search = Search(target, np.random.default_rng(1), lambda _: None)
    return next(search.candidates(Judge(target)), plainest(target))


def plainest(target: Target) -> Candidate:
    """What to start from where nothing is known."""
    rows: tuple[Candidate, ...] = (
        AlignedSum(min(16, target.k), 25, "RZ"), LateSum(min(16, target.k), 24, 31), GroupedSum(1, 1, 35, _GROUPED_FLOOR),
    )  # fmt: skip
    return next(row for row in rows if fits(target, row))


class Search:
    """The stages, and what they pinned."""

    def __init__(self, target: Target, rng: np.random.Generator, progress: Progress) -> None:
        self.target, self.rng, self.progress = target, rng, progress
        self.pinned: list[Pinned] = []
        self._asked: dict[tuple[tuple[Maker, int], ...], list[Asked]] = {}
        self._grown: dict[tuple[int, ...] | None, list[tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]]] = {}

    # What a few questions show at once

    @cached_property
    def peculiarities(self) -> dict[str, Any]:
        """Parameters that every aligned sum of the search has."""
        if self.target.scale is not None:  # with scales it has none of them
            return {}
        self.progress("NaN, zeros and overflow")
        t, k, z = self.target, self.target.k, self.target.output
        # Of a late c: the zeros from which the blocks start hide the others, so there both are tried.
        zero = int(t.dots([[-0.0] * k], [[1.0] * k], [-0.0])[0])
        most = [t.input.max_finite], [t.right.max_finite]
        total = z.max_finite + most[0][0] * most[1][0]
        over = int(t.dots([most[0]], [most[1]], [z.max_finite])[0]) & (z.sign_code - 1)
        return {
            "signed_zeros": zero == z.sign_code,
            "saturate": total >= 2.0 ** (z.emax + 1) and over < z.infinity_code,
        }

    @cached_property
    def nan_rules(self) -> dict[bool, SumNanRule]:
        """Late c or not → the first rule that is never wrong where one product, and c, are NaN or invalid."""
        if not fits(self.target, AlignedSum(1, 1, "RZ", nan_rule="arm")):
            return {False: "nvidia"}
        asked = [in_both_formats(nan_that_meets, self.target, self.rng) for _ in range(4)]
        answers = [self.target.answer(q) for q in asked]
        found: dict[bool, SumNanRule] = {}
        for rule, late in itertools.product(reversed(SUM_NAN_RULES), (False, True)):
            row = AlignedSum(64, 25, "RNE", late_c=late, nan_rule=rule)
            model = of_instruction("model", self.target.instruction(row, (ROWS, COLUMNS)))
            nans = (self.is_nan(answer) for answer in answers)
            if all(
                np.array_equal(answer[nan], model.answer(q)[nan])
                for q, answer, nan in zip(asked, answers, nans, strict=True)
            ):
                found[late] = rule
        return found

    @cached_property
    def _nan_rule_of_chains(self) -> NanRule:
        """By what becomes of a signalling NaN in c."""
        t, z = self.target, self.target.output
        nan = np.array([[z.infinity_code | 1]], z.code_dtype)
        zeros = np.zeros((1, t.k), t.input.code_dtype), np.zeros((t.k, 1), t.right.code_dtype)
        quiet = z.infinity_code | 1 << z.fraction_bits - 1
        told: dict[int, NanRule] = {quiet | 1: "x86", quiet: "arm"}
        return told.get(int(t(*zeros, nan)[0, 0]), "nvidia")

    def is_nan(self, codes: Codes) -> npt.NDArray[np.bool_]:
        z = self.target.output
        return np.asarray((codes & np.array(z.sign_code - 1, codes.dtype)) > z.infinity_code)

    def _carry_bits(self, order: tuple[int, ...] | None, late: bool, normalized: bool) -> int | None:
        """Bits for carries, by the first sum of equal products (and c, unless it is late) that is far off."""
        if self.target.scale is not None:
            return None
        left, right = self._full
        unit = 2.0 if normalized and left * right >= 2 else 1.0
        for sums, wrong in self._growing(order)[1:] if late else self._growing(order)[:1]:
            if not wrong.any():
                continue
            first = int(wrong.argmax())
            before = sums[first - 1] if first else right
            for bits in range(1, MAX_CARRY_BITS + 1):
                if before < 2.0 ** (1 + bits) * unit <= sums[first]:
                    return bits
        return None

    @property
    def _full(self) -> tuple[float, float]:
        """The largest significands of A and B."""
        return 2 - 2.0**-self.target.input.fraction_bits, 2 - 2.0**-self.target.right.fraction_bits

    def _growing(self, order: tuple[int, ...] | None) -> list[tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]]:
        """Sums of 1 to k products just below 4, and which of them the target has wrong.

        The first ones of the order with c just below 2; the last ones, behind a first one just below 2, which is to
        later blocks what c is to the first, where c is late; the first ones alone.
        """
        if order not in self._grown:
            t, k, (left, right) = self.target, self.target.k, self._full
            places = list(order or range(k))
            first, last = np.zeros((k, k)), np.zeros((k, k))
            for n in range(1, k + 1):
                first[n - 1, places[:n]] = left
                last[n - 1, places[-n:]] = left
            last[:, places[0]] = 1.0  # the last row has k - 1 products just below 4, as the one before
            c = np.zeros((k, 2))
            c[:, 0] = 2 - 2.0**-t.output.fraction_bits
            found = []
            for a, addends in ((first, c[:, :1]), (last, c[:, 1:]), (first, c[:, 1:])):
                code = t(t.codes(a), t.right_codes(np.full((k, 1), right)), t.output_codes(addends))
                sums = a.sum(axis=1) * right + addends[:, 0]
                with np.errstate(invalid="ignore"):
                    # Cut to 8 bits, a sum of 32 products is an eighth too small at most.
                    near = np.abs(decode_array(code[:, 0], t.output) - sums) <= sums / 4
                found.append((sums, ~near))
            self._grown[order] = found
        return self._grown[order]

    # Stages 1 to 3

    def candidates(self, judge: Judge) -> Iterator[Candidate]:
        """What passes every stage, the plainest first, one at a time.

        The last stage asks ``judge``, which also learns from every candidate
        that fails on fresh inputs afterwards.
        """
        for found in self._shapes():
            self.progress("floor and flushes")
            if not judge.questions:
                judge.questions += self._ask(_NEAR_ZERO, everything=True)
            dots = len(judge.questions) * ROWS * COLUMNS
            stages = len(self.pinned)
            for tried, row in enumerate(self._floors(sorted(found, key=plainness)), 1):
                if judge.agrees(row):
                    text = f"{describe(row)} is never wrong"
                    self.pinned[stages:] = [Pinned("floor and flushes", text, tried, dots)]
                    yield row

    def _shapes(self) -> Iterator[list[Candidate]]:
        """Everything but floor and flushes: chains and aligned sums, and if those fail, all others.

        Aligned sums with a late c come last: they are fifty times as many.
        """
        families: list[Iterable[Candidate]] = [self._others()]
        if fits(self.target, AlignedSum(1, 1, "RZ")):
            families.insert(0, itertools.chain(self._chains(), self._roundings(False)))
        if fits(self.target, AlignedSum(1, 1, "RZ", late_c=True)):
            families.append(self._roundings(True))
        for family in families:
            found = self._stage("alignment and rounding", _ALIGNMENT, family)
            found = self._stage("blocks and order", _BLOCKS, self._blocks(found))
            if found:
                yield found

    def _ask(self, kinds: tuple[tuple[Maker, int], ...], everything: bool = False) -> list[Asked]:
        """Questions and answers; unless ``everything`` counts, not what flushes and floors could have touched."""
        asked: list[Asked] = []
        z = self.target.output
        if self.target.scale is not None:
            kinds = (*kinds, (sunken_groups if everything else cancelled_groups, 40))
        for kind, count in kinds:
            for _ in range(count):
                q = in_both_formats(kind, self.target, self.rng)
                answer = self.target.answer(q)
                clear = (answer & np.array(z.sign_code - 1, answer.dtype)) >= 3 << z.fraction_bits
                asked.append((q, answer, ... if everything else clear))
        return asked

    def _stage(
        self, parameters: str, kinds: tuple[tuple[Maker, int], ...], candidates: Iterable[Candidate]
    ) -> list[Candidate]:
        """The candidates that are never wrong on so many questions of each kind."""
        self.progress(parameters)
        judge = Judge(self.target)
        if kinds not in self._asked:
            self._asked[kinds] = self._ask(kinds)
        judge.questions = self._asked[kinds]
        dots = len(judge.questions) * ROWS * COLUMNS
        # Of units 70 % count.  Where nearly all were flushed, every candidate agrees with the rest, and the last stage would not end.
        telling = np.mean([counts.mean() for *_, counts in judge.questions]) > 0.1
        tried, found = 0, []
        for row in candidates if telling else ():
            tried += 1
            if judge.agrees(row):
                found.append(row)
        self.pinned.append(Pinned(parameters, _summary(found, tried), tried, dots))
        return found

    def _chains(self) -> Iterator[FusedChain]:
        """One product after another, or pair after pair, in lanes, in any order: descending and the odd ones first, too."""
        k, narrow = self.target.k, self.target.output.bits == 16
        if not fits(self.target, FusedChain()) or self.peculiarities["saturate"]:
            return
        orders = self._orders()
        if k > 1:
            orders.append(tuple(reversed(range(k))))
        if k > 2 and k % 2 == 0:
            orders.append(tuple(i ^ 1 for i in range(k)))
        for late, lanes, group in itertools.product((False, True), (1, 2, 4, 8, 16), (1, 2)):
            if k % (lanes * group):
                continue
            for rounding, rounded, order in itertools.product(ROUNDINGS, (False, True), orders):
                # Unless rounded to nearest, what is too small to see is seen, if it was not flushed; binary16 sees it anyway.
                for flush in (False,) if rounding == "RNE" and not narrow else (False, True):
                    yield FusedChain(
                        order, rounded, rounding, group, lanes, late, flush_outputs=flush,
                        nan_rule=self._nan_rule_of_chains,
                    )  # fmt: skip

    def _roundings(self, late: bool) -> Iterator[AlignedSum]:
        """Everything but the blocks, for each way in which the first two products and c can meet."""
        full = self.target.output.fraction_bits
        orders = [order for order in self._orders() if order is None or order[1] != 1]
        plain = self.target.scale is not None
        # Of scaled products all that share a scale are asked together.
        blocks = range(1, min(self.target.k, MAX_BLOCK) + 1) if plain else (1, 2, 64)
        meetings = [(block, order) for order in orders for block in blocks]
        for kept, fraction in self._widths(late):
            floor, known = self._floor(fraction, late)
            if (plain and kept != full) or (known and floor > 0):
                continue
            for normalized, rounding in itertools.product((False,) if plain else (False, True), ROUNDINGS):
                for block, order in meetings:
                    yield AlignedSum(
                        block, fraction, rounding, floor if known else None,
                        output_fraction_bits=None if kept == full else kept, order=order, late_c=late, normalized_products=normalized,
                        carry_bits=self._carry_bits(order, late, normalized),
                        nan_rule=self.nan_rules.get(late, "nvidia"), **self.peculiarities,
                    )  # fmt: skip

    def _others(self) -> Iterator[Candidate]:
        """Exact blocks, flushed trees, late and grouped sums, likewise: their first two products meet, or they do not."""
        k = self.target.k
        if self.target.scale is not None:
            for row, fraction in itertools.product(self._grouped(), range(36, 0, -1)):
                floor, known = self._floor(fraction, False)
                if fits(self.target, row) and not (known and floor > 0):
                    yield replace(
                        row, fraction_bits=fraction, exponent_floor=floor if known else _GROUPED_FLOOR
                    )
            return
        blocks = dict.fromkeys((1, min(2, k), min(MAX_BLOCK, k)))
        rows: list[Candidate] = [*map(ExactBlock, blocks), *(FlushedTree(group) for group in self._trees())]
        yield from (row for row in rows if fits(self.target, row))
        if not fits(self.target, LateSum(1, 24, 31)):
            return
        widths = range(23, 29) if self._seen == 23 else [max(self._seen, 1)]
        for kept, several, drops, block in itertools.product(widths, (1, 2), (True, False), blocks):
            for late in range(kept, 33):
                yield LateSum(block, kept, late, several, drops)

    def _trees(self) -> list[int]:
        """Groups of a flushed tree that differ: 2, 4 ... up to the first that holds all products."""
        return [group for group in (2, 4, 8, 16, 32, 64) if group < 2 * self.target.k]

    @cached_property
    def _seen(self) -> int:
        """Fraction bits of c that come back where all products are zero."""
        full = self.target.output.fraction_bits
        one = self.target.output_codes(np.array([[1 + 2.0**-bits for bits in range(1, full + 1)]]))
        zeros = np.zeros((1, self.target.k), self.target.input.code_dtype)
        columns = np.zeros((self.target.k, full), self.target.right.code_dtype)
        answers = self.target(zeros, columns, one)[0]
        return next((bits for bits in range(full) if one[0, bits] != answers[bits]), full)

    def _widths(self, late: bool) -> Iterator[tuple[int, int]]:
        """(output fraction bits, F) that may be; an aligned c comes back with the smaller of the two."""
        full, most = self.target.output.fraction_bits, MAX_FRACTION_BITS
        if late and self.target.k == 1:  # a product on its own is exact in so many bits: more are the same
            most = min(most, self.target.input.fraction_bits + self.target.right.fraction_bits + 1)
        widths = range(max(most, 8), 7, -1)
        grid = itertools.product(range(full, 4, -1), widths)
        if late:
            return grid
        seen = self._seen
        return (
            pair
            for pair in grid
            if (min(pair) == seen or (seen == full and pair[0] == full and pair[1] >= seen))
        )

    def _blocks(self, found: list[Candidate]) -> Iterator[Candidate]:
        yield from (row for row in found if isinstance(row, FusedChain | FlushedTree))
        aligned = (row for row in found if isinstance(row, AlignedSum))
        rest = dict.fromkeys(replace(row, block=1, order=None, carry_bits=None) for row in aligned)
        for row, (block, order) in itertools.product(rest, list(self._structures())):
            carry = self._carry_bits(order, row.late_c, row.normalized_products)
            yield replace(row, block=block, order=order, carry_bits=carry)
        blocks = range(min(self.target.k, MAX_BLOCK), 0, -1)
        plain = dict.fromkeys(replace(row, block=1) for row in found if isinstance(row, ExactBlock | LateSum))
        for each, block in itertools.product(plain, blocks):
            yield replace(each, block=block)
        grouped = dict.fromkeys(
            replace(row, block=1, group=1) for row in found if isinstance(row, GroupedSum)
        )
        for row, each in itertools.product(grouped, self._grouped()):
            yield replace(row, block=each.block, group=each.group)

    def _grouped(self) -> Iterator[GroupedSum]:
        """Every way in which scaled products may fall into blocks and groups."""
        most = min(MAX_BLOCK, self.target.k)
        for group in range(min(most, self.target.per_scale), 0, -1):
            if self.target.per_scale % group == 0:
                for block in range(most // group * group, 0, -group):
                    yield GroupedSum(block, group, 1, _GROUPED_FLOOR)

    def _floors(self, found: list[Candidate]) -> Iterator[Candidate]:
        for row in found:
            if isinstance(row, FusedChain):
                for flush_in, flush_out in itertools.product((False, True), repeat=2):
                    yield replace(row, flush_inputs=flush_in, flush_outputs=flush_out)
            elif isinstance(row, ExactBlock | FlushedTree | LateSum):
                yield row
        if self.target.scale is not None:
            scaled: list[Iterator[Candidate]] = [
                self._with_floors(row) for row in found if isinstance(row, AlignedSum | GroupedSum)
            ]
            for rows in itertools.zip_longest(*scaled):  # the first floor of each, then the second
                yield from filter(None, rows)
            return
        aligned = [row for row in found if isinstance(row, AlignedSum)]
        ways = itertools.product(self._through_binary16, aligned, (False, True), (False, True))
        # What the two change is nearly the same where E4M3 meets E5M2: the way of units of the catalogue first.
        for through, row, flush_in, flush_out in sorted(ways, key=lambda way: way[1].normalized_products):
            if through and row.nan_rule != "nvidia":
                continue
            flushed = replace(row, flush_inputs=flush_in, flush_outputs=flush_out, through_binary16=through)
            for found_row in self._with_floors(flushed):
                yield found_row
                if row.late_c:
                    yield replace(found_row, signed_zeros=not row.signed_zeros)
                if row.output_fraction_bits is not None and not row.saturate:
                    yield replace(found_row, saturate=True)  # rounded to fewer bits, c alone overflows

    def _with_floors(self, row: _Floored) -> Iterator[_Floored]:
        """With every floor that the cuts of terms that are alone leave, those of the catalogue's units first."""
        t, grouped = self.target, isinstance(row, GroupedSum)
        most, known = self._floor(row.fraction_bits, isinstance(row, AlignedSum) and row.late_c)
        tried: list[int | None] = [most]
        if not known:
            first = [_GROUPED_FLOOR] if grouped else []
            reached = range(0, t.output.quantum_exponent - 1, -1)  # by c
            tried = [*first, *floors(t.input, t.right, t.output, t.scale), *reached]
        for floor in dict.fromkeys(tried):
            if (not grouped) if floor is None else floor <= most:
                yield replace(row, exponent_floor=floor)  # type: ignore[arg-type]

    def _floor(self, fraction_bits: int, late: bool) -> tuple[int, bool]:
        """The floor, of sums that keep so many bits; or the highest that it may be, and False."""
        cuts = [self._cut_of_a_product] if late else [self._cut_of_c, self._cut_of_a_product]
        found = [cut.floor(fraction_bits) for cut in cuts]
        return next((each for each in found if each[1]), min(found))

    @cached_property
    def _cut_of_c(self) -> Cut:
        return cut_of_c(self.target)

    @cached_property
    def _cut_of_a_product(self) -> Cut:
        return cut_of_a_product(self.target)

    @property
    def _through_binary16(self) -> tuple[bool, ...]:
        """Whether inputs may become binary16 first: E5M2's numbers are the same there, so E4M3 must be among them."""
        formats = {self.target.input.name, self.target.right.name}
        return (False, True) if "e4m3" in formats and formats <= {"e4m3", "e5m2"} else (False,)

    def _structures(self) -> Iterator[tuple[int, tuple[int, ...] | None]]:
        """How K may fall into blocks: any length, k ascending or interleaved as emulations do."""
        for order in self._orders():
            for length in range(min(self.target.k, 64), 0, -1):
                yield length, order

    def _orders(self) -> list[tuple[int, ...] | None]:
        k = self.target.k
        if self.target.scale is not None:
            return [None]
        periods = [period for period in (2, 4, 8) if k % period == 0 and k > period]
        return [None, *(interleaved(k, period) for period in periods)]


def _summary(found: list[Candidate], tried: int) -> str:
    text = f"{len(found):,} of {tried:,} candidates are never wrong"
    return f"{text}; the plainest: {describe(min(found, key=plainness))}" if found else text
