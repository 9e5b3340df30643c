"""Whose bits are these?  The plan of any sum, product or running sum, from its answers alone.

Masked sums show the tree (:mod:`tcu.probes.mask_questions`); the arithmetic at
its nodes is the plainest that never contradicts an answer
(:mod:`tcu.probes.node_arithmetic`); and a plan counts as found only if it
returns every bit on fresh inputs that were made to tell plans apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tcu.errors import ParameterError, TcuError
from tcu.formats.array import checked_seed, whole_number
from tcu.plan.plan import Part, Plan
from tcu.plan.tree import Compensated, ExactAddition, TreeRegions, TreeStep
from tcu.plan.version import VERSIONS
from tcu.probes.black_box import BlackBox, black_box, same_bits
from tcu.probes.mask_questions import NotATree, masks_for
from tcu.probes.node_arithmetic import Evidence, candidates, exact_candidates
from tcu.probes.replay import RUNNING, results_of, tree_of
from tcu.probes.revealed import Revealed, SpecialDifference, SumCounterexample, Verdict
from tcu.probes.special_inputs import special_inputs
from tcu.probes.sum_inputs import batches, decisive_rows, rows_of
from tcu.probes.tree_shape import Shape, find_shape

__all__ = ["reveal"]

Values = npt.NDArray[Any]
Progress = Callable[[str], None]

_LEAST, _MOST, _NUMBERS = 300, 20_000, 1 << 25
"""Results that are compared at the end, unless the caller says how many: so many numbers in all."""
_BATCH = 1 << 20
"""Numbers that are drawn at a time."""
_SUM = "revealed"
"""Variant of a plan of other sums."""
_REPEATS = 6
_REPEATED, _REPEATED_NUMBERS = 250, 1 << 22
"""Rows, of so many numbers in all, by which a function that is refused shows once more whether it repeats itself."""
_ASKED_AGAIN = 3
"""Times that a row on which a plan differs is asked again."""
_BORDER = 128
"""Products by which those of their results that a plan gets wrong are told from the others."""
_TRIED = 6
"""Wrong plans of which the one that is wrong at the fewest results shows the border."""
_MOST_REGIONS = 8
"""Ways in which the results of one product may be added up."""
_SHRINKING = 3000
"""Questions that a counterexample may cost."""


def reveal(
    function: Callable[..., Any],
    n: int | None = None,
    *,
    kind: Literal["sum", "dot", "matmul", "cumsum"] = "sum",
    dtype: Any = "float64",
    shape: tuple[int, int, int] | None = None,
    outputs: int | None = None,
    seed: int | None = None,
    progress: Progress | None = None,
) -> Revealed:
    """The plan of a sum, a dot product, a matrix product or running sums, from answers alone.

    Parameters
    ----------
    function:
        f(x) → number ("sum"), f(x, y) → number ("dot"), f(A, B) → matrix
        ("matmul"), f(x) → as many numbers ("cumsum").
    kind:
        Which of these.
    n:
        Numbers or pairs that are added up; a plan is of that many, and says nothing of others.
    dtype:
        Of the arrays that the function is given: NumPy's, or PyTorch's for a function of tensors.
    shape:
        (M, N, K) of a matrix product A (M, K) · B (K, N), in place of n.
    outputs:
        Fresh results that must be reproduced; None chooses by n.  They are finite,
        and so are their sums; infinities, NaN and overflow are asked about
        afterwards, and where those answers are not the plan's, ``special`` of the
        result has them and its conclusion says so.
    seed:
        Of the inputs; None draws fresh ones.
    progress:
        Called with the name of every stage as it begins.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> found = tcu.reveal(np.sum, 100, kind="sum", dtype="float32", seed=0)
    >>> found.verdict, found.different
    ('reproduced', 0)
    """
    compared = None if outputs is None else whole_number(outputs)
    if outputs is not None and (compared is None or compared < 1):
        raise ParameterError(f"outputs={outputs!r}: compare at least one output, a whole number of them")
    if progress is not None and not callable(progress):
        raise ParameterError(f"progress={progress!r}: give a function of a text, or None")
    rng = np.random.default_rng(checked_seed(seed))
    box = black_box(function, n, kind, dtype, shape)
    if compared is None:
        compared = int(np.clip(_NUMBERS // box.n, _LEAST, _MOST)) * (box.n if box.kind == "cumsum" else 1)
    return _Search(box, rng, compared, progress or (lambda _: None)).run()


class _Unsteady(Exception):
    """The function returned other bits for the same inputs."""


@dataclass(frozen=True)
class _Compared:
    """A plan beside fresh results."""

    plan: Plan
    results: int
    different: int = 0
    wrong: tuple[Values, Values | None, tuple[int, ...]] | None = None
    """The arrays, and where the first different result is."""


class _Search:
    def __init__(self, box: BlackBox, rng: np.random.Generator, outputs: int, progress: Progress) -> None:
        self.box, self.rng, self.outputs, self.progress = box, rng, outputs, progress
        self.refuted: _Compared | None = None
        self.wrong_plans: list[Plan] = []
        self.shape: Shape | None = None
        self.closest: TreeStep | None = None
        self.reproduced: Revealed | None = None
        self.why = "no arithmetic of the family at the tree's nodes agrees on every bit"

    def run(self) -> Revealed:
        try:
            found = self._searched()
            return self._with_special(found) if found.plan and found.verdict == "reproduced" else found
        except _Unsteady:
            return self._found(
                "not a fixed tree", None, "it does not return the same bits for the same inputs"
            )

    def _searched(self) -> Revealed:
        self.progress("does it repeat itself")
        self._check_repetition(_REPEATS * self._together_at_most(8), 2)
        found: list[tuple[TreeStep, npt.NDArray[np.bool_]]] = []
        open_regions = self._regions()
        while open_regions:
            seen = open_regions.pop()
            part = self if seen.all() else self._of_region(seen)
            step = part.tree()
            if part is not self:
                self.box.asked += part.box.asked
            if step is not None:
                found.append((step, seen))
                continue
            halves = part.halves()
            if halves is None or len(found) + len(open_regions) + 2 > _MOST_REGIONS:
                return replace(part.outside(), asked=self.box.asked)
            open_regions += halves
        if len(found) == 1:
            assert self.reproduced is not None
            return self.reproduced
        return self._together(found)

    def _regions(self) -> list[npt.NDArray[np.bool_]]:
        """The results of a product that are added up alike, as far as some masks show."""
        box = self.box
        m, n, k = box.shape
        everything = [np.ones((m, n), bool)]
        if m * n == 1 or box.kind != "matmul" or k < 2:
            return everything
        try:
            masks = masks_for(box)
        except NotATree:
            return everything
        if masks is None:
            return everything
        self.progress("are all results added up alike")
        answers = masks.of_all_results(self.rng)
        kinds, index = np.unique(answers.reshape(-1, m * n), axis=1, return_inverse=True)
        return [(index == number).reshape(m, n) for number in range(kinds.shape[1])]

    def _of_region(self, seen: npt.NDArray[np.bool_]) -> _Search:
        """The same for some results alone."""
        outputs = max(1, int(self.outputs * seen.mean()))
        return _Search(self.box.looking_at(seen), self.rng, outputs, self.progress)

    def _together(self, found: list[tuple[TreeStep, npt.NDArray[np.bool_]]]) -> Revealed:
        """The trees of all regions on fresh results."""
        steps, regions = zip(*found, strict=True)
        self.evidence = Evidence(self.box, self.rng)
        number = sum(place * seen.astype(np.int64) for place, seen in enumerate(regions))
        self._is_right(TreeRegions(steps, tuple(map(tuple, np.asarray(number).tolist()))))
        return self.reproduced or self.outside()

    def tree(self) -> TreeStep | None:
        """The tree that returns every bit, if it is found."""
        for in_full in (False, True):
            try:
                for step in self._steps(in_full):
                    if self._is_right(step):
                        return step
            except NotATree as error:
                self.why = str(error)
        return None

    def halves(self) -> list[npt.NDArray[np.bool_]] | None:
        """The results that the best plan gets right and those that it gets wrong again and again; None if there is no border."""
        box, best = self.box, self._best()
        if best is None or box.kind != "matmul":
            return None
        x, y = rows_of(box, self.rng, min(_BORDER, max(1, _BATCH // (box.n * max(box.shape)))))
        answer = box(x, y)
        plans = [best.plan, *self.wrong_plans[:_TRIED]]
        each = [(~box.same(answer, results_of(plan, x, y))).sum(axis=(0, 1)) for plan in plans]
        wrong = min(each, key=np.sum)
        seen = np.ones(wrong.shape, bool) if box.seen is None else box.seen
        border = seen & (wrong > 0)
        if not border.any() or border[seen].all() or wrong.sum() < 2 * border.sum():
            return None
        return [seen & ~border, border]

    def _is_right(self, step: TreeStep | TreeRegions) -> bool:
        """Whether fresh results are those of the tree."""
        found = self._compared(self._plan(step))
        if found.wrong is None:
            text = f"{found.results:,} fresh results, none different"
            self.reproduced = self._found("reproduced", found.plan, text, found.results)
            return True
        self.wrong_plans.append(found.plan)
        if self.refuted is None or found.results > self.refuted.results:
            self.refuted = found
        return False

    def _best(self) -> _Compared | None:
        """The plan that was right the longest, or else the most often."""
        if self.refuted is None and self.closest is not None:
            self.refuted = self._compared(self._plan(self.closest))
        return self.refuted

    def outside(self) -> Revealed:
        """The best plan that was found, and where it goes wrong."""
        refuted = self._best()
        self._check_repetition(min(_REPEATED, max(1, _REPEATED_NUMBERS // self._numbers)), 1)
        if refuted is None or refuted.wrong is None:
            return self._found("outside", None, self.why)
        text = f"the best plan differs on {refuted.different:,} of {refuted.results:,} fresh results"
        example = _shrunk(self.box, refuted.plan, *refuted.wrong)
        return self._found("outside", refuted.plan, text, refuted.results, refuted.different, example)

    @property
    def _numbers(self) -> int:
        """Of one question, and one operand."""
        m, n, k = self.box.shape
        return k * max(m, n)

    def _together_at_most(self, rows: int) -> int:
        return min(rows, max(1, _BATCH // self._numbers))

    def _check_repetition(self, rows: int, times: int) -> None:
        """Raises _Unsteady unless the bits are the same again, on masks too, where a change of order shows most."""
        together = self._together_at_most(8)
        for _ in range(-(-rows // together)):
            x, y = rows_of(self.box, self.rng, together)
            self._check_steady(x, y, self.box(x, y), times)

    def _check_steady(self, x: Values, y: Values | None, answer: Values, times: int = _ASKED_AGAIN) -> None:
        """Raises _Unsteady if an answer is another one when it is asked again."""
        if not all(same_bits(answer, self.box(x, y)).all() for _ in range(times)):
            raise _Unsteady

    def _with_special(self, found: Revealed) -> Revealed:
        """What was found, and where infinities, NaN and sums too large for their format are no plan's."""
        assert found.plan is not None
        self.progress("infinities, NaN and overflow")
        different: dict[str, SpecialDifference] = {}
        for what, x, y in special_inputs(self.box, self.rng):
            if what in different:
                continue
            expected = results_of(found.plan, x, y)
            try:
                answer = self.box(x, y)
            except Exception as error:  # a function may well refuse a NaN
                raised = " ".join(str(error).split())
                if not isinstance(error, TcuError):
                    raised = f"{type(error).__name__}: {raised}"
                place = tuple(0 for _ in expected.shape)
                different[what] = self._special(what, x, y, place, None, float(expected[place]), raised)
                continue
            wrong = np.argwhere(~self.box.same(answer, expected))
            if len(wrong):
                self._check_steady(x, y, answer)
                place = tuple(int(each) for each in wrong[0])
                different[what] = self._special(
                    what, x, y, place, float(answer[place]), float(expected[place])
                )
        text = found.conclusion
        if different:
            text += "; but special values differ: " + "; ".join(map(str, different.values()))
        return replace(found, asked=self.box.asked, conclusion=text, special=tuple(different.values()))

    def _special(
        self, what: str, x: Values, y: Values | None, place: tuple[int, ...], function: float | None, plan: float,
        raised: str = "",
    ) -> SpecialDifference:  # fmt: skip
        x, y = _as_given(self.box, x, y)
        return SpecialDifference(what, x, y, _result(self.box, place), function, plan, raised)

    def _steps(self, in_full: bool) -> Iterator[TreeStep]:
        """Trees with an arithmetic that contradicts none of a first few answers."""
        box = self.box
        self.progress("who is added with whom")
        if box.n == 1:
            shape: Shape | None = Shape(1, (), (0,))
        else:
            masks = masks_for(box)
            shape = None if masks is None else find_shape(masks, in_full=in_full)
        if in_full and shape == self.shape:  # every tree of which was tried
            return
        self.shape = shape
        self.progress("the arithmetic at the nodes")
        evidence = self.evidence = Evidence(box, self.rng)
        yield from exact_candidates(evidence) if shape is None else candidates(evidence, shape)
        self.closest = self.closest or evidence.general.closest

    def _plan(self, step: TreeStep | TreeRegions) -> Plan:
        box = self.box
        variant = RUNNING if box.kind == "cumsum" else _SUM
        parts = (Part(0, box.n, (step,)),)
        return Plan(box.n, box.input.name, variant, None, 0, parts, (), box.output.name, VERSIONS["tree"])

    def _compared(self, plan: Plan) -> _Compared:
        """The plan against fresh results, until one is different, which other plans must then answer, too."""
        self.progress("fresh inputs")
        box = self.box
        compared = 0
        for x, y, answer in self._questions(plan):
            same = box.same(answer, results_of(plan, x, y))
            compared += len(x) * box.results
            if not same.all():
                wrong = np.argwhere(~same)
                row = slice(wrong[0][1], wrong[0][1] + 1)
                self._check_steady(x[row], None if y is None else y[row], answer[:, row])
                self.evidence.general.add(x, y, answer)
                return _Compared(plan, compared, len(wrong), (x, y, tuple(int(i) for i in wrong[0])))
        return _Compared(plan, compared)

    def _questions(self, plan: Plan) -> Iterator[tuple[Values, Values | None, Values]]:
        """Fresh inputs and their answers; before them those that tell sums apart that lose little or nothing."""
        box = self.box
        if _loses_little(tree_of(plan)) and self._decisive is not None:
            yield self._decisive
        for rows in batches(-(-self.outputs // box.results), self._together_at_most(256)):
            x, y = rows_of(box, self.rng, rows)
            yield x, y, box(x, y)

    @cached_property
    def _decisive(self) -> tuple[Values, Values | None, Values] | None:
        asked = decisive_rows(self.box)
        return None if asked is None else (*asked, self.box(*asked))

    def _found(
        self, verdict: Verdict, plan: Plan | None, text: str, compared: int = 0, different: int = 0,
        example: SumCounterexample | None = None,
    ) -> Revealed:  # fmt: skip
        box = self.box
        return Revealed(
            box.name, box.kind, box.shape, box.output.name, verdict, plan, compared, different, example, box.asked,
            f"{verdict}: {text}",
        )  # fmt: skip


def _loses_little(step: TreeStep | TreeRegions) -> bool:
    """Whether sums are exact or compensated anywhere in a tree."""
    trees = step.trees if isinstance(step, TreeRegions) else (step,)
    return any(
        isinstance(node.operation, Compensated | ExactAddition) for tree in trees for node in tree.nodes
    )


def _as_given(box: BlackBox, x: Values, y: Values | None) -> tuple[Values, Values | None]:
    """One question, as the function takes it."""
    if box.kind == "matmul" and y is not None:
        return x[0], y[0]
    return x.reshape(-1), None if y is None else y.reshape(-1)


def _result(box: BlackBox, place: tuple[int, ...]) -> tuple[int, ...]:
    """Where in the function's answer a result is."""
    return place[2:] if box.kind == "matmul" else place[:1] if box.kind == "cumsum" else ()


def _shrunk(
    box: BlackBox, plan: Plan, x: Values, y: Values | None, where: tuple[int, ...]
) -> SumCounterexample:
    """Zero what can be zeroed, many leaves at a time, then clear low bits, as long as the two still differ.

    Raises _Unsteady if in the end they do not.
    """
    row = where[1]
    x, y = x[row : row + 1].copy(), None if y is None else y[row : row + 1].copy()
    place = (where[0], 0, *where[2:])
    left = _SHRINKING

    def differ() -> bool:
        nonlocal left
        left -= 1
        return not same_bits(box(x, y)[place], np.asarray(results_of(plan, x, y)[place]))

    def zeroed(leaves: npt.NDArray[np.int64]) -> bool:
        before = x[..., leaves].copy()
        x[..., leaves] = 0
        if left > 0 and differ():
            return True
        x[..., leaves] = before
        return False

    if y is not None:  # other rows and columns say nothing
        for array, index in ((x, 2), (y, 3)):
            keep = where[index]
            for other in range(array.shape[1] if array is x else array.shape[2]):
                if other != keep:
                    side = (0, other) if array is x else (0, slice(None), other)
                    before = array[side].copy()
                    array[side] = 0
                    if left <= 0 or not differ():
                        array[side] = before
    size = box.n
    while size >= 1 and left > 0:
        for at in range(0, box.n, size):
            leaves = np.arange(at, min(at + size, box.n))
            if x[..., leaves].any():
                zeroed(leaves)
        size //= 2
    for array in [x] if y is None else [x, y]:
        codes: Values = array.view(f"u{array.dtype.itemsize}").reshape(-1)
        for spot in np.flatnonzero(array.reshape(-1)):
            for bit in range(8 * array.dtype.itemsize):
                before = codes[spot]
                codes[spot] = before & ~(codes.dtype.type(1) << codes.dtype.type(bit))
                if codes[spot] != before and (left <= 0 or not differ()):
                    codes[spot] = before
    answer, expected = box(x, y)[place], np.asarray(results_of(plan, x, y)[place])
    if same_bits(answer, expected):
        raise _Unsteady
    x, y = _as_given(box, x, y)
    return SumCounterexample(x, y, _result(box, where), float(answer), float(expected))
