"""Infer an executable, bit-exact model of a matrix unit from experiments alone.

The families of :class:`~tcu.units.arithmetic.AlignedSum` and
:class:`~tcu.units.arithmetic.FusedChain` are searched in stages, each on
inputs that only its parameters decide.  What a few questions show at once
comes first: which NaN comes back, the sign of a zero, saturation, bits for
carries.  Then alignment and rounding together, how K falls into blocks, and
what happens near zero: a stage asks every candidate for the bits and keeps
those that are never wrong.  What is left must then answer every kind of
question there is (:mod:`tcu.probes.kinds`), and fresh adversarial inputs; one
different bit and the target is *not identified*.  What was asked, and what
was not, is part of the answer.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.errors import ParameterError
from tcu.formats.array import decode_array
from tcu.formats.format import get_format
from tcu.formats.scalar import ROUNDINGS
from tcu.model.mma import PROPAGATING, wide_kernel
from tcu.probes.edge_inputs import ties_of_the_smallest
from tcu.probes.inputs import (
    Question,
    adversarial,
    in_both_formats,
    near_zero,
    ordinary,
    pair,
    product_far_below_c,
    tail_of_a_product,
    tail_of_c,
)
from tcu.probes.kinds import COLUMNS, REPEATED, ROWS, Maker, makers, nan_that_meets
from tcu.probes.target import Codes, Function, Target, as_target, of_instruction
from tcu.units.arithmetic import (
    MAX_CARRY_BITS,
    MAX_FRACTION_BITS,
    SUM_NAN_RULES,
    AlignedSum,
    Arithmetic,
    Evidence,
    ExactInteger,
    FusedChain,
    Instruction,
    NanRule,
    SumNanRule,
    Unit,
)

__all__ = ["Counterexample", "Inference", "Pinned", "infer"]

Progress = Callable[[str], None]

_ALIGNMENT: tuple[tuple[Maker, int], ...] = (
    (pair, 48), (partial(tail_of_c, early=True), 3), (partial(tail_of_a_product, early=True), 6),
    (partial(product_far_below_c, early=True), 3),
)  # fmt: skip
_BLOCKS: tuple[tuple[Maker, int], ...] = ((ordinary, 100),)
_NEAR_ZERO: tuple[tuple[Maker, int], ...] = ((near_zero, 200), (ties_of_the_smallest, 40))
"""The kinds of questions of the three stages, and how many of each."""


@dataclass(frozen=True)
class Pinned:
    """One stage: what it decided, from how many dot products and candidates."""

    parameters: str
    conclusion: str
    candidates: int
    dots: int


@dataclass(frozen=True)
class Counterexample:
    """One dot product on which the best model and the target differ, made as small as possible."""

    a: tuple[int, ...]
    b: tuple[int, ...]
    c: int
    target: int
    model: int
    """Codes; a and b in k order."""


@dataclass(frozen=True)
class Inference:
    """What is known about a target after the experiments."""

    target: str
    identified: bool
    unit: Unit | None
    """An executable unit, only if identified."""
    arithmetic: Arithmetic | None
    """The best model found, also where it is not right."""
    pinned: tuple[Pinned, ...]
    tried: int
    """Fresh adversarial outputs compared at the end."""
    different: int
    counterexample: Counterexample | None
    conclusion: str
    asked: tuple[tuple[str, int], ...] = ()
    """(kind of question, outputs compared), of the best model."""
    not_asked: tuple[str, ...] = ()
    """What an answer could depend on, and no question showed."""

    @property
    def bound(self) -> float:
        """At most this share of outputs is wrong, on inputs drawn as the fresh ones were, with 95 % confidence: 3 / tried."""
        return 1.0 if self.different or not self.tried else min(1.0, 3 / self.tried)


def infer(
    target: str | Unit | Function | Target,
    *,
    instruction: str = "mma",
    input: str = "binary16",
    output: str | None = None,
    k: int | None = None,
    outputs: int = 1_000_000,
    seed: int | None = None,
    progress: Progress | None = None,
) -> Inference:
    """The arithmetic of ``target``, from its answers alone.

    Parameters
    ----------
    target:
        A unit's name, a :class:`tcu.Unit`, or a function f(a, b, c) → d of
        arrays (M, k), (k, N), (M, N); see :func:`tcu.probe`.
    instruction, input, output, k:
        Which instruction of the unit; formats and k of the function.
    outputs:
        Fresh adversarial outputs that an identification must reproduce, beside every kind of question.
    seed:
        Of the inputs; None draws fresh ones.
    progress:
        Called with the name of every stage as it begins.
    """
    if outputs < 1:
        raise ParameterError(f"outputs={outputs}: compare at least one output")
    known = (
        target if isinstance(target, Target)
        else as_target(target, instruction=instruction, input=input, output=output, k=k)
    )  # fmt: skip
    search = _Search(known, np.random.default_rng(seed), progress or (lambda _: None))
    return search.run(outputs)


def interleaved(k: int, period: int) -> tuple[int, ...]:
    """The lower half of every ``period`` products first, then the upper halves."""
    return tuple(i for upper in (False, True) for i in range(k) if (i % period >= period // 2) == upper)


def first_guess(target: Target) -> Candidate:
    """What passes every stage, or a plain aligned sum where nothing does; no final comparison."""
    search = _Search(target, np.random.default_rng(1), lambda _: None)
    return next(search.candidates(_Judge(target)), _plainest(target))


def _plainest(target: Target) -> AlignedSum:
    """What to start from where nothing is known."""
    return AlignedSum(min(16, target.k), 25, "RZ")


class _Search:
    def __init__(self, target: Target, rng: np.random.Generator, progress: Progress) -> None:
        self.target, self.rng, self.progress = target, rng, progress
        self.pinned: list[Pinned] = []
        self._grown: dict[tuple[int, ...] | None, list[tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]]] = {}

    def run(self, outputs: int) -> Inference:
        if not self._repeats_itself():
            return self._unidentified(
                None, 0, 0, None, "it does not return the same bits for the same inputs"
            )
        judge = _Judge(self.target)
        candidates: Iterable[Arithmetic]
        if self.target.output.name == "s32":
            candidates = [ExactInteger(), ExactInteger(saturate=True)]
        elif self.target.output.name == "binary64":
            candidates = [FusedChain()]
        else:
            candidates = self.candidates(judge)
        return self._verified(candidates, judge, outputs) or self._closest(outputs)

    # Stage 0

    def _repeats_itself(self) -> bool:
        """The same bits again, also with the rows and columns in another place."""
        self.progress("does it repeat itself")
        for _ in range(6):
            q = in_both_formats(adversarial, self.target, self.rng, ROWS, COLUMNS)
            first = self.target(q.a, q.b, q.c)
            if not np.array_equal(first, self.target(q.a, q.b, q.c)):
                return False
            turned = self.target(q.a[::-1].copy(), q.b[:, ::-1].copy(), q.c[::-1, ::-1].copy())
            if not np.array_equal(first, turned[::-1, ::-1]):
                return False
        return True

    # What a few questions show at once

    @cached_property
    def peculiarities(self) -> dict[str, Any]:
        """Parameters that every aligned sum of the search has."""
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
        asked = [in_both_formats(nan_that_meets, self.target, self.rng) for _ in range(4)]
        answers = [self.target(q.a, q.b, q.c) for q in asked]
        found: dict[bool, SumNanRule] = {}
        for rule, late in itertools.product(reversed(SUM_NAN_RULES), (False, True)):
            row = AlignedSum(64, 25, "RNE", late_c=late, nan_rule=rule)
            model = of_instruction("model", self._instruction(row))
            nans = (self._is_nan(answer) for answer in answers)
            if all(
                np.array_equal(answer[nan], model(q.a, q.b, q.c)[nan])
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

    def _is_nan(self, codes: Codes) -> npt.NDArray[np.bool_]:
        z = self.target.output
        return np.asarray((codes & np.array(z.sign_code - 1, codes.dtype)) > z.infinity_code)

    def _carry_bits(self, order: tuple[int, ...] | None, late: bool, normalized: bool) -> int | None:
        """Bits for carries, by the first sum of equal products (and c, unless it is late) that is far off."""
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

    def candidates(self, judge: _Judge) -> Iterator[Candidate]:
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
            for tried, row in enumerate(self._floors(sorted(found, key=_plainness)), 1):
                if judge.agrees(row):
                    text = f"{_describe(row)} is never wrong"
                    self.pinned[stages:] = [Pinned("floor and flushes", text, tried, dots)]
                    yield row

    def _shapes(self) -> Iterator[list[Candidate]]:
        """Everything but floor and flushes: candidates with an aligned c, and if those fail, with a late one."""
        for late in (False, True):
            chains = () if late else self._chains()
            found = self._stage(
                "alignment and rounding", _ALIGNMENT, itertools.chain(chains, self._roundings(late))
            )
            found = self._stage("blocks and order", _BLOCKS, self._blocks(found))
            if found:
                yield found

    def _ask(self, kinds: tuple[tuple[Maker, int], ...], everything: bool = False) -> list[_Asked]:
        """Questions and answers; unless ``everything`` counts, not what flushes and floors could have touched."""
        asked: list[_Asked] = []
        z = self.target.output
        for kind, count in kinds:
            for _ in range(count):
                q = in_both_formats(kind, self.target, self.rng)
                answer = self.target(q.a, q.b, q.c)
                clear = (answer & np.array(z.sign_code - 1, answer.dtype)) >= 3 << z.fraction_bits
                asked.append((q, answer, ... if everything else clear))
        return asked

    def _stage(
        self, parameters: str, kinds: tuple[tuple[Maker, int], ...], candidates: Iterable[Candidate]
    ) -> list[Candidate]:
        """The candidates that are never wrong on so many questions of each kind."""
        self.progress(parameters)
        judge = _Judge(self.target)
        judge.questions = self._ask(kinds)
        dots = len(judge.questions) * ROWS * COLUMNS
        tried, found = 0, []
        for row in candidates:
            tried += 1
            if judge.agrees(row):
                found.append(row)
        self.pinned.append(Pinned(parameters, _summary(found, tried), tried, dots))
        return found

    def _chains(self) -> Iterator[FusedChain]:
        """One product after another, or pair after pair, in lanes, in any order: descending and the odd ones first, too."""
        k, narrow = self.target.k, self.target.output.bits == 16
        if self.peculiarities["saturate"]:
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
        meetings = [(block, order) for order in orders for block in (1, 2, 64)]
        for kept, fraction in self._widths(late):
            for normalized, rounding in itertools.product((False, True), ROUNDINGS):
                for block, order in meetings:
                    yield AlignedSum(
                        block, fraction, rounding, output_fraction_bits=None if kept == full else kept,
                        order=order, late_c=late, normalized_products=normalized,
                        carry_bits=self._carry_bits(order, late, normalized),
                        nan_rule=self.nan_rules.get(late, "nvidia"), **self.peculiarities,
                    )  # fmt: skip

    def _widths(self, late: bool) -> Iterator[tuple[int, int]]:
        """(output fraction bits, F) that may be; an aligned c comes back with the smaller of the two."""
        full, most = self.target.output.fraction_bits, MAX_FRACTION_BITS
        if late and self.target.k == 1:  # a product on its own is exact in so many bits: more are the same
            most = min(most, self.target.input.fraction_bits + self.target.right.fraction_bits + 1)
        widths = range(max(most, 8), 7, -1)
        grid = itertools.product(range(full, 4, -1), widths)
        if late:
            return grid
        seen = full
        one = self.target.output_codes(np.array([[1 + 2.0**-bits for bits in range(1, full + 1)]]))
        zeros = np.zeros((1, self.target.k), self.target.input.code_dtype)
        columns = np.zeros((self.target.k, full), self.target.right.code_dtype)
        for bits, (asked, got) in enumerate(zip(one[0], self.target(zeros, columns, one)[0], strict=True), 1):
            if asked != got:
                seen = bits - 1
                break
        return (
            pair
            for pair in grid
            if (min(pair) == seen or (seen == full and pair[0] == full and pair[1] >= seen))
        )

    def _blocks(self, found: list[Candidate]) -> Iterator[Candidate]:
        yield from (row for row in found if isinstance(row, FusedChain))
        aligned = (row for row in found if isinstance(row, AlignedSum))
        rest = dict.fromkeys(replace(row, block=1, order=None, carry_bits=None) for row in aligned)
        for row, (block, order) in itertools.product(rest, list(self._structures())):
            carry = self._carry_bits(order, row.late_c, row.normalized_products)
            yield replace(row, block=block, order=order, carry_bits=carry)

    def _floors(self, found: list[Candidate]) -> Iterator[Candidate]:
        for row in found:
            if isinstance(row, FusedChain):
                for flush_in, flush_out in itertools.product((False, True), repeat=2):
                    yield replace(row, flush_inputs=flush_in, flush_outputs=flush_out)
        aligned = [row for row in found if isinstance(row, AlignedSum)]
        lowest = max(self.target.input.emin + self.target.right.emin - 30, -300)
        usual = (-133, -132) if self.target.output.bits > 16 else (-21, -20, -19)
        floors = dict.fromkeys([*usual, None, *range(0, lowest, -1)])
        combinations = itertools.product(aligned, (False, True), (False, True), floors)
        for row, flush_in, flush_out, floor in combinations:
            found_row = replace(row, exponent_floor=floor, flush_inputs=flush_in, flush_outputs=flush_out)
            yield found_row
            if row.late_c:
                yield replace(found_row, signed_zeros=not row.signed_zeros)

    def _structures(self) -> Iterator[tuple[int, tuple[int, ...] | None]]:
        """How K may fall into blocks: any length, k ascending or interleaved as emulations do."""
        for order in self._orders():
            for length in range(min(self.target.k, 64), 0, -1):
                yield length, order

    def _orders(self) -> list[tuple[int, ...] | None]:
        k = self.target.k
        periods = [period for period in (2, 4, 8) if k % period == 0 and k > period]
        return [None, *(interleaved(k, period) for period in periods)]

    # The end

    def _verified(self, candidates: Iterable[Arithmetic], judge: _Judge, outputs: int) -> Inference | None:
        """The first candidate that no fresh adversarial input refutes; None if there was no candidate."""
        refuted: Inference | None = None
        for best in candidates:
            self.progress("fresh adversarial inputs")
            model = of_instruction("model", self._instruction(best))
            tried, different = 0, 0
            asked: dict[str, int] = {}
            for kind, q in self._fresh(outputs):
                answer = self.target(q.a, q.b, q.c)
                wrong = answer != model(q.a, q.b, q.c)
                tried += wrong.size
                asked[kind] = asked.get(kind, 0) + wrong.size
                different = int(np.count_nonzero(wrong))
                if different:
                    break
            else:
                return Inference(
                    self.target.name, True, self._unit(best), best, tuple(self.pinned), tried, 0, None,
                    f"identified: {_describe(best)}; {tried:,} fresh adversarial outputs, none different",
                    tuple(asked.items()), self._not_asked(),
                )  # fmt: skip
            i, j = (int(x) for x in np.argwhere(wrong)[0])
            # What refuted it, eight columns of one row: whole matrices full of NaN took 4 ms for every candidate.
            at = np.s_[i : i + 1, j // 8 * 8 : j // 8 * 8 + 8]
            told = Question(q.a[at[0]].copy(), q.b[:, at[1]].copy(), q.c[at].copy())
            judge.questions.insert(0, (told, answer[at].copy(), ...))
            if refuted is None or tried > refuted.tried:
                example = _shrunk(self.target, model, q, i, j)
                why = "the best model differs on fresh inputs"
                refuted = self._unidentified(best, tried, different, example, why)
            if (
                not isinstance(best, ExactInteger)
                and not self.nan_rules
                and self._is_nan(answer)[wrong].any()
            ):
                break  # no rule for NaN is right, which refutes what is left of the candidates too
        return refuted

    def _fresh(self, outputs: int) -> Iterator[tuple[str, Question]]:
        """Every kind of question, whatever ``outputs`` is, and at least so many adversarial outputs."""
        for name, make in makers(self.target).items():
            for _ in range(REPEATED.get(name, 1)):
                yield name, in_both_formats(make, self.target, self.rng)
        for _ in range(-(-outputs // 64**2)):
            yield "any", in_both_formats(adversarial, self.target, self.rng, 64, 64)

    def _not_asked(self) -> tuple[str, ...]:
        t = self.target
        bits = t.k * (t.input.bits + t.right.bits) + t.output.bits
        return (
            f"all but a few of the 2^{bits} inputs of one output: an answer that is peculiar to single numbers",
            f"matrices larger than 64 × 64, and K beyond the instruction's {t.k}",
            *(() if t.second else ("inputs of two different formats",)),
            "C of another format than D",
            "answers that change with time, with the load, or after more calls than were made",
        )

    def _closest(self, outputs: int) -> Inference:
        """No member of the family fits: show where its plainest member goes wrong."""
        guess = _plainest(self.target)
        model = of_instruction("model", self._instruction(guess))
        for tried in range(1, max(2, outputs // (ROWS * COLUMNS)) + 1):
            q = in_both_formats(ordinary, self.target, self.rng, ROWS, COLUMNS)
            wrong = self.target(q.a, q.b, q.c) != model(q.a, q.b, q.c)
            if wrong.any():
                i, j = (int(x) for x in np.argwhere(wrong)[0])
                example = _shrunk(self.target, model, q, i, j)
                count = int(np.count_nonzero(wrong))
                return self._unidentified(
                    guess, tried * wrong.size, count, example, "no member of the family agrees on every bit"
                )
        return self._unidentified(guess, outputs, 0, None, "no member of the family agrees on every bit")

    def _unidentified(
        self, best: Arithmetic | None, tried: int, different: int, example: Counterexample | None, why: str
    ) -> Inference:
        return Inference(
            self.target.name, False, None, best, tuple(self.pinned), tried, different, example,
            f"not identified: {why}",
        )  # fmt: skip

    def _instruction(self, arithmetic: Arithmetic) -> Instruction:
        evidence = Evidence("user", f"inferred from the answers of {self.target.name}")
        return self.target.instruction(arithmetic, (ROWS, COLUMNS), (evidence,))

    def _unit(self, arithmetic: Arithmetic) -> Unit:
        return Unit(
            f"inferred from {self.target.name}", "inferred", "unknown", "-", (self._instruction(arithmetic),)
        )


def _describe(row: Arithmetic) -> str:
    """The parameters that are not at their defaults."""
    usual = {each.name: each.default for each in fields(row)}
    told = {name: value for name, value in vars(row).items() if value != usual[name]}
    if "order" in told:
        told["order"] = ", ".join(map(str, told["order"][:8])) + (" ..." if len(told["order"]) > 8 else "")
    texts = [f"{'F' if name == 'fraction_bits' else name} {value}" for name, value in told.items()]
    return ", ".join(texts if isinstance(row, AlignedSum) else [type(row).__name__, *texts])


def _summary(found: list[Candidate], tried: int) -> str:
    text = f"{len(found):,} of {tried:,} candidates are never wrong"
    return f"{text}; the plainest: {_describe(min(found, key=_plainness))}" if found else text


Candidate = AlignedSum | FusedChain
_Asked = tuple[Question, Codes, Any]
"""A question, its answer, and which elements of the answer count."""


class _Judge:
    """Asks candidates the questions, the most telling one first."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.questions: list[_Asked] = []

    def agrees(self, row: Candidate) -> bool:
        model = _compiled(self.target.instruction(row, (ROWS, COLUMNS)))
        for index, (q, answer, counts) in enumerate(self.questions):
            if not np.array_equal(model(q)[counts], answer[counts]):
                if index:
                    self.questions.insert(0, self.questions.pop(index))
                return False
        return True


def _compiled(instruction: Instruction) -> Callable[[Question], Codes]:
    """The model of one instruction without the checks and conversions of the public face."""
    used, row = instruction.k, instruction.arithmetic
    if isinstance(row, AlignedSum) and row.nan_rule in PROPAGATING:
        plain = _compiled(replace(instruction, arithmetic=replace(row, nan_rule="arm")))
        whole = of_instruction("model", instruction)
        nan = np.array(get_format(instruction.output).infinity_code << 1, np.uint64)

        def with_payloads(q: Question) -> Codes:
            answer = plain(q)
            magnitude = (answer.astype(np.uint64) << np.uint64(1)) & np.uint64((1 << 8 * answer.itemsize) - 1)
            return whole(q.a, q.b, q.c) if (magnitude > nan).any() else answer

        return with_payloads
    kernel, arguments = wide_kernel(instruction, used)
    zero = np.broadcast_to(
        np.int64(0), 1
    )  # not writeable, as tcu.mma's: else kernels are compiled twice, 2 s each

    def model(q: Question) -> Codes:
        depth = -(-used // 8) * 8
        a, b = q.a[None], q.b[None]
        if depth != used:
            a = np.concatenate([a, np.zeros((1, a.shape[1], depth - used), a.dtype)], axis=2)
            b = np.concatenate([b, np.zeros((1, depth - used, b.shape[2]), b.dtype)], axis=1)
        out = np.empty((1, *q.c.shape), np.int32)
        kernel(a, b, q.c[None], zero, zero, zero, 0, 1, *arguments, out)
        if q.c.dtype.itemsize == 2:
            return np.asarray(out[0].view(np.float32).astype(np.float16).view(np.uint16))
        return np.asarray(out[0].view(np.uint32))

    return model


def _plainness(row: Candidate) -> tuple[object, ...]:
    """Among models that no input told apart, the one with the fewest peculiarities."""
    if isinstance(row, FusedChain):
        return (
            -1, row.late_c, row.lanes, row.group, row.order is not None, row.rounded_products,
            ROUNDINGS.index(row.rounding), row.flush_inputs, row.flush_outputs,
        )  # fmt: skip
    floors = {-133: 0, -21: 0, -132: 1, -20: 1, -19: 2, None: 2}
    return (
        row.late_c, row.order is not None, row.normalized_products, row.flush_inputs, row.flush_outputs,
        row.output_fraction_bits is not None, floors.get(row.exponent_floor, 3), -row.block, row.fraction_bits,
        ROUNDINGS.index(row.rounding), -(row.exponent_floor or 0),
    )  # fmt: skip


def _shrunk(target: Target, model: Target, q: Question, i: int, j: int) -> Counterexample:
    """Zero what can be zeroed, then clear low bits, as long as the two still differ."""
    a, b, c = q.a[i : i + 1].copy(), q.b[:, j : j + 1].copy(), q.c[i : i + 1, j : j + 1].copy()

    def differ() -> bool:
        return int(target(a, b, c)[0, 0]) != int(model(a, b, c)[0, 0])

    def attempt(array: Codes, where: tuple[int, int], value: int) -> None:
        before = array[where]
        if int(before) != value:
            array[where] = value
            if not differ():
                array[where] = before

    for position in range(target.k):
        before = a[0, position], b[position, 0]
        a[0, position] = b[position, 0] = 0
        if not differ():
            a[0, position], b[position, 0] = before
    attempt(c, (0, 0), 0)
    spots = [(a, (0, p)) for p in range(target.k)] + [(b, (p, 0)) for p in range(target.k)] + [(c, (0, 0))]
    for array, where in spots:
        for bit in range(array.dtype.itemsize * 8):
            attempt(array, where, int(array[where]) & ~(1 << bit))
    return Counterexample(
        tuple(a[0].tolist()), tuple(b[:, 0].tolist()), int(c[0, 0]),
        int(target(a, b, c)[0, 0]), int(model(a, b, c)[0, 0]),
    )  # fmt: skip
