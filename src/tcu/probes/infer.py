"""Infer an executable, bit-exact model of a matrix unit from experiments alone.

Every kind of :data:`~tcu.units.arithmetic.Arithmetic` is searched in stages
(:mod:`tcu.probes.search`).  What is left must then answer every kind of question there is (:mod:`tcu.probes.kinds`), and fresh adversarial inputs; one
different bit and the target is *not identified*.  What was asked, and what
was not, is part of the answer.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tcu.errors import ParameterError
from tcu.formats.array import checked_seed, whole_number
from tcu.probes.inputs import adversarial, ordinary, tail_of_a_product
from tcu.probes.judge import Judge, describe
from tcu.probes.kinds import COLUMNS, REPEATED, ROWS, in_both_formats, makers
from tcu.probes.search import Pinned, Progress, Search, plainest
from tcu.probes.target import Codes, Function, Question, Target, as_target, of_instruction
from tcu.units import CATALOGUE
from tcu.units.arithmetic import Arithmetic, ExactInteger, FusedChain
from tcu.units.instruction import Evidence, Instruction, Unit

__all__ = ["Counterexample", "Inference", "Pinned", "infer"]

_LARGEST = 64
"""Rows and columns of the largest matrices that are asked."""
_UNSTEADY = "it does not return the same bits for the same inputs"


@dataclass(frozen=True)
class Counterexample:
    """One dot product on which the best model and the target differ, made as small as possible."""

    a: tuple[int, ...]
    b: tuple[int, ...]
    c: int
    target: int
    model: int
    """Codes; a and b in k order."""
    scale_a: tuple[int, ...] = ()
    scale_b: tuple[int, ...] = ()
    """Likewise, where the target takes scales."""


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
    units: tuple[str, ...] = ()
    """Of the catalogue, those that answered every question alike."""

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
    scale: tuple[str, int] | None = None,
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
    scale:
        The format of scales and how many k share one, ("ue8m0", 32): the function is f(a, b, c, scale_a, scale_b).
    outputs:
        Fresh adversarial outputs that an identification must reproduce, beside every kind of question.
    seed:
        Of the inputs; None draws fresh ones.
    progress:
        Called with the name of every stage as it begins.

    Examples
    --------
    >>> import tcu
    >>> found = tcu.infer("V100", outputs=10_000, seed=0)
    >>> found.identified, found.arithmetic.block, found.arithmetic.fraction_bits, found.arithmetic.rounding
    (True, 4, 23, 'RZ')
    """
    compared = whole_number(outputs)
    if compared is None or compared < 1:
        raise ParameterError(f"outputs={outputs!r}: compare a whole number of outputs, 1 or more")
    number = checked_seed(seed)
    known = (
        target if isinstance(target, Target)
        else as_target(target, instruction=instruction, input=input, output=output, k=k, scale=scale)
    )  # fmt: skip
    return _Inferring(known, np.random.default_rng(number), progress or (lambda _: None)).run(compared)


class _Inferring:
    def __init__(self, target: Target, rng: np.random.Generator, progress: Progress) -> None:
        self.target, self.rng, self.progress = target, rng, progress
        self.search = Search(target, rng, progress)

    def run(self, outputs: int) -> Inference:
        if why := self._flaw():
            return self._unidentified(None, 0, 0, None, why)
        judge = Judge(self.target)
        candidates: Iterable[Arithmetic]
        if self.target.output.name == "s32":
            candidates = [ExactInteger(), ExactInteger(saturate=True)]
        elif self.target.output.name == "binary64":
            candidates = [FusedChain()]
        else:
            candidates = self.search.candidates(judge)
        return self._verified(candidates, judge, outputs) or self._closest(outputs)

    # Stage 0

    def _flaw(self) -> str | None:
        """Why it is no unit: other bits when asked again, also with rows and columns in another place; or whatever A and B are."""
        self.progress("does it repeat itself")
        depends = False
        for _ in range(6):
            q, other = (in_both_formats(adversarial, self.target, self.rng, ROWS, COLUMNS) for _ in range(2))
            first = self.target.answer(q)
            if not np.array_equal(first, self.target.answer(q)):
                return _UNSTEADY
            scales = None if q.scales is None else (q.scales[0][::-1], q.scales[1][:, ::-1])
            turned = self.target(q.a[::-1].copy(), q.b[:, ::-1].copy(), q.c[::-1, ::-1].copy(), scales)
            if not np.array_equal(first, turned[::-1, ::-1]):
                return _UNSTEADY
            depends |= not np.array_equal(first, self.target.answer(replace(other, c=q.c)))
        return None if depends else "its results do not depend on A and B: let it return A·B + C"

    # The end

    def _verified(self, candidates: Iterable[Arithmetic], judge: Judge, outputs: int) -> Inference | None:
        """The first candidate that no fresh adversarial input refutes; None if there was no candidate."""
        refuted: Inference | None = None
        for best in candidates:
            self.progress("fresh adversarial inputs")
            model = of_instruction("model", self._instruction(best))
            tried, different = 0, 0
            known = self._catalogued()
            asked: dict[str, int] = {}
            for kind, q in self._fresh(outputs):
                answer = self.target.answer(q)
                wrong = answer != model.answer(q)
                tried += wrong.size
                asked[kind] = asked.get(kind, 0) + wrong.size
                different = int(np.count_nonzero(wrong))
                if different:
                    break
                known = {
                    each: names
                    for each, names in known.items()
                    if each == best or self._answers(each, q, answer)
                }
            else:
                units = tuple(dict.fromkeys(name for names in known.values() for name in names))
                alike = f"as {', '.join(units)}" if units else "as no unit of the catalogue"
                return Inference(
                    self.target.name, True, self._unit(best), best, tuple(self.search.pinned), tried, 0, None,
                    f"identified: {describe(best)}, {alike}; {tried:,} fresh adversarial outputs, none different",
                    tuple(asked.items()), self._not_asked(), units,
                )  # fmt: skip
            i, j = (int(x) for x in np.argwhere(wrong)[0])
            # What refuted it, eight columns of one row, twice the same if there are fewer: whole matrices full of NaN took 4 ms
            # for every candidate.
            at = np.s_[i : i + 1, (j // 8 * 8 + np.arange(8)) % answer.shape[1]]
            told = _part(q, at[0], at[1])
            if not np.array_equal(self.target.answer(told), answer[at]):
                return self._unidentified(best, tried, different, None, self._otherwise(q, answer))
            judge.questions.insert(0, (told, answer[at].copy(), ...))
            if refuted is None or tried > refuted.tried:
                example = _shrunk(self.target, model, q, i, j)
                why = "the best model differs on fresh inputs"
                refuted = self._unidentified(best, tried, different, example, why)
            if (
                not isinstance(best, ExactInteger)
                and not self.search.nan_rules
                and self.search.is_nan(answer)[wrong].any()
            ):
                break  # no rule for NaN is right, which refutes what is left of the candidates too
        return refuted

    def _otherwise(self, q: Question, answer: Codes) -> str:
        """Why some rows and columns have other bits on their own."""
        if not np.array_equal(self.target.answer(q), answer):
            return _UNSTEADY
        rows, columns = answer.shape
        return f"in a product of {rows} × {columns} it returns other bits than for some of its rows and columns alone"

    def _catalogued(self) -> dict[Arithmetic, list[str]]:
        """What units of the catalogue compute with these formats."""
        t, found = self.target, dict[Arithmetic, list[str]]()
        formats = t.input.name, t.right.name, t.output.name, t.scale and t.scale.name, t.per_scale
        for unit in CATALOGUE.values():
            for row in unit.instructions:
                if (row.a, row.b, row.output, row.scale, row.per_scale) != formats or row.c != t.output.name:
                    continue
                with contextlib.suppress(ParameterError):  # whose order is of another k
                    self._instruction(row.arithmetic)
                    found.setdefault(row.arithmetic, []).append(unit.name)
        return found

    def _answers(self, arithmetic: Arithmetic, q: Question, answer: Codes) -> bool:
        return bool((of_instruction("", self._instruction(arithmetic)).answer(q) == answer).all())

    def _fresh(self, outputs: int) -> Iterator[tuple[str, Question]]:
        """Every kind of question and every shape, whatever ``outputs`` is, and at least so many adversarial outputs."""
        for name, make in makers(self.target).items():
            for _ in range(REPEATED.get(name, 1)):
                yield name, in_both_formats(make, self.target, self.rng)
        # A tail tells F 24 from F 25 always, ordinary and adversarial numbers in half and in a third of their questions.
        of_floats = (ordinary, tail_of_a_product) if self.target.input.is_float else ()
        for rows, columns in self._shapes():
            for make in (*of_floats, adversarial):
                # Of fewer outputs than other kinds have, a unit that is another for one column passed at 3 of 6 seeds.
                for _ in range(-(-ROWS * COLUMNS // (rows * columns))):
                    yield "any shape", in_both_formats(make, self.target, self.rng, rows, columns)
        for _ in range(-(-outputs // _LARGEST**2)):
            yield "any", in_both_formats(adversarial, self.target, self.rng, _LARGEST, _LARGEST)

    def _shapes(self) -> Iterator[tuple[int, int]]:
        """Every M beside any N, every N likewise, and every square."""
        sizes = np.arange(1, _LARGEST + 1)
        for columns in (self.rng.permutation(sizes), sizes):
            yield from zip(sizes.tolist(), columns.tolist(), strict=True)

    def _not_asked(self) -> tuple[str, ...]:
        t = self.target
        bits = t.k * (t.input.bits + t.right.bits) + t.output.bits
        if t.scale is not None:
            bits += 2 * t.k // t.per_scale * t.scale.bits
        return (
            f"all but a few of the 2^{bits} inputs of one output: an answer that is peculiar to single numbers",
            f"matrices larger than {_LARGEST} × {_LARGEST}, and K beyond the instruction's {t.k}",
            *(() if t.second else ("inputs of two different formats",)),
            "C of another format than D",
            "answers that change with time, with the load, or after more calls than were made",
        )

    def _closest(self, outputs: int) -> Inference:
        """No member that the search tries fits: show where the plainest goes wrong."""
        why = "none of the members of the family that were tried agrees on every bit"
        guess = plainest(self.target)
        model = of_instruction("model", self._instruction(guess))
        for tried in range(1, max(2, outputs // (ROWS * COLUMNS)) + 1):
            q = in_both_formats(ordinary, self.target, self.rng, ROWS, COLUMNS)
            wrong = self.target.answer(q) != model.answer(q)
            if wrong.any():
                i, j = (int(x) for x in np.argwhere(wrong)[0])
                example = _shrunk(self.target, model, q, i, j)
                count = int(np.count_nonzero(wrong))
                return self._unidentified(guess, tried * wrong.size, count, example, why)
        return self._unidentified(guess, outputs, 0, None, why)

    def _unidentified(
        self, best: Arithmetic | None, tried: int, different: int, example: Counterexample | None, why: str
    ) -> Inference:
        return Inference(
            self.target.name, False, None, best, tuple(self.search.pinned), tried, different, example,
            f"not identified: {why}",
        )  # fmt: skip

    def _instruction(self, arithmetic: Arithmetic) -> Instruction:
        evidence = Evidence("user", f"inferred from the answers of {self.target.name}")
        return self.target.instruction(arithmetic, (ROWS, COLUMNS), (evidence,))

    def _unit(self, arithmetic: Arithmetic) -> Unit:
        return Unit(
            f"inferred from {self.target.name}", "inferred", "unknown", "-", (self._instruction(arithmetic),)
        )


def _part(q: Question, rows: slice, columns: slice | npt.NDArray[np.int_]) -> Question:
    """Copies of some rows of A and columns of B, with their scales."""
    scales = None if q.scales is None else (q.scales[0][rows].copy(), q.scales[1][:, columns].copy())
    return Question(q.a[rows].copy(), q.b[:, columns].copy(), q.c[rows, columns].copy(), scales)


def _shrunk(target: Target, model: Target, q: Question, i: int, j: int) -> Counterexample:
    """Zero what can be zeroed, then clear low bits, as long as the two still differ."""
    one = _part(q, slice(i, i + 1), slice(j, j + 1))
    a, b, c = one.a, one.b, one.c

    def differ() -> bool:
        return int(target.answer(one)[0, 0]) != int(model.answer(one)[0, 0])

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
    of_a, of_b = ((), ()) if one.scales is None else one.scales
    return Counterexample(
        tuple(a[0].tolist()), tuple(b[:, 0].tolist()), int(c[0, 0]),
        int(target.answer(one)[0, 0]), int(model.answer(one)[0, 0]),
        tuple(np.ravel(of_a).tolist()), tuple(np.ravel(of_b).tolist()),
    )  # fmt: skip
