"""Spot checks: some outputs of a product or of sums, drawn at random, against the plan that all of them are said to follow.

Only the rows and columns of the outputs drawn are read, and each costs K
operations.  What a share of wrong outputs would have had to be to go unseen
follows from their number alone, wherever they lie.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.errors import DtypeError, ParameterError, ShapeError
from tcu.formats.array import checked_seed, whole_number
from tcu.model.ieee_environment import ieee
from tcu.plan.matmul import MatmulPlan
from tcu.plan.plan import Plan
from tcu.probes.some_results import TOGETHER, Given, Index, Replay, replay_of
from tcu.units.instruction import Unit

__all__ = ["Audit", "WrongOutput", "audit"]

_PIECE = 1 << 22
"""Numbers of each operand that are held at a time."""


@dataclass(frozen=True)
class WrongOutput:
    """An output that is not the plan's."""

    position: tuple[int, ...]
    bits: int
    """As given."""
    expected: int
    """By the plan."""


@dataclass(frozen=True)
class Audit:
    """What a random sample of outputs came to."""

    outputs: int
    """How many there are."""
    sampled: int
    """How many of them were computed again, drawn without replacement, each set of so many as likely as any other."""
    wrong_outputs: tuple[WrongOutput, ...]
    """Those of the sample with other bits than the plan's, in order."""
    bits: int
    """Width of an output."""
    seed: int
    """Draws the same sample again."""

    @property
    def wrong(self) -> int:
        """Outputs of the sample that are wrong."""
        return len(self.wrong_outputs)

    @property
    def passed(self) -> bool:
        """Whether every output of the sample is right."""
        return not self.wrong_outputs

    def unseen(self, share: float) -> float:
        """The probability that a sample like this holds no wrong output, where at least that share of all is wrong.

        Hypergeometric: C(N - D, s) / C(N, s) for s of N outputs, of which D, the
        least whole number that is that share or more, are wrong.  Raises
        ParameterError unless 0 ≤ share ≤ 1.
        """
        if not isinstance(share, Real) or not 0 <= share <= 1:
            raise ParameterError(f"share={share!r}: give a number from 0 to 1")
        return self._unseen(math.ceil(share * self.outputs))

    def seen(self, probability: float = 0.95) -> float:
        """The least share of wrong outputs of which a sample like this holds one with at least that probability.

        Raises ParameterError unless 0 ≤ probability < 1.
        """
        if not isinstance(probability, Real) or not 0 <= probability < 1:
            raise ParameterError(f"probability={probability!r}: give a number from 0 to below 1")
        few, enough = -1, self.outputs
        while enough - few > 1:
            middle = (few + enough) // 2
            if 1 - self._unseen(middle) >= probability:
                enough = middle
            else:
                few = middle
        return enough / self.outputs

    def _unseen(self, wrong: int) -> float:
        """C(N - D, s) / C(N, s): the product of (N - D - i) / (N - i) over i < s, or, as it is the same, with D and s exchanged."""
        few, many = sorted((self.sampled, wrong))
        if few + many > self.outputs:
            return 0.0
        return math.exp(math.fsum(np.log1p(-many / (self.outputs - np.arange(few)))))

    def __str__(self) -> str:
        what = f"{self.sampled:,} of {self.outputs:,} outputs"
        if self.sampled == self.outputs:
            what = f"all {self.outputs:,} outputs"
        if not self.passed:
            first = self.wrong_outputs[0]
            digits = -(-self.bits // 4)
            return (
                f"{self.wrong:,} of {what} are wrong: {list(first.position)} is 0x{first.bits:0{digits}x}, "
                f"by the plan 0x{first.expected:0{digits}x}"
            )
        if self.sampled == self.outputs:
            return f"{what} have the plan's bits"
        return f"{what} have the plan's bits; had {self.seen(0.99):.2g} of all been wrong, 99 % of samples would show it"


@ieee
def audit(
    outputs: Any,
    a: Any,
    b: Any = None,
    plan: Plan | MatmulPlan | None = None,
    *,
    sample: int = 1000,
    seed: int | None = None,
    scale_a: Any = None,
    scale_b: Any = None,
    bias: Any = None,
    unit: str | Unit | None = None,
) -> Audit:
    """Compare a random sample of the outputs of a product, or of sums, with a plan, bit for bit.

    Each output of the sample is computed again from its row and its column
    alone, K operations, so a product of any size is checked in the same time.
    Where D of N outputs are wrong, wherever they lie, a sample of s holds none
    of them with probability C(N - D, s) / C(N, s).

    Parameters
    ----------
    outputs:
        What is to be checked: the product (..., M, N), or the sums of rows.
    a, b:
        What was multiplied, by the rules of ``numpy.matmul``: batches
        broadcast, a vector stands for a row or a column.  For a plan of sums
        there is no ``b``, and ``a`` (..., n) is added up along its last axis.
        Arrays of NumPy, memory-mapped ones too, and of PyTorch, on a GPU too:
        only the rows and columns of the sample are read.
    plan:
        That of :func:`tcu.reveal` or :func:`tcu.load_plan`, of
        :func:`tcu.matmul` (:func:`tcu.plan.make_matmul_plan`), or of
        :func:`tcu.sum`.  A plan says how numbers are added up, not what becomes
        of the sum.  :func:`tcu.mean` has the plan of its sums: check those,
        ``sums = tcu.sum(a, axis=-1, dtype="float64")`` with the same options, and
        compare the means with ``sums / n``.
    sample:
        Outputs to check; all of them where there are no more.
    seed:
        Of the sample.  None draws a fresh one, which nobody could know who
        computed the outputs; the result keeps it.
    scale_a, scale_b, bias:
        As :func:`tcu.matmul` was given them.
    unit:
        The unit of a plan of :func:`tcu.matmul` or :func:`tcu.sum`: a name of
        the catalogue, or a :class:`tcu.Unit`; None: "H100".  A plan of
        :func:`tcu.reveal` has its arithmetic in itself, and takes none.

    Returns
    -------
    What was sampled and what was wrong; ``passed``, ``unseen(share)`` and
    ``seen(probability)``.  Signs of zeros count; so do the bits of a NaN, but
    by a plan of :func:`tcu.reveal`, which does not say them.

    Raises
    ------
    ShapeError, DtypeError:
        Arrays whose shapes or formats are not those of the plan; no outputs.
    ParameterError:
        No plan, a plan of something else, scales by a plan that has none;
        arrays on a GPU that are not PyTorch's; a sample below 1.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> a, b = np.ones((300, 64), np.float16), np.ones((64, 500), np.float16)
    >>> product = tcu.matmul(a, b)
    >>> plan = tcu.plan.make_matmul_plan(64, "float16", "float16")
    >>> found = tcu.audit(product, a, b, plan, sample=2000, seed=0)
    >>> found.passed, round(found.unseen(0.001), 3)
    (True, 0.133)
    """
    replay = replay_of(plan, a, b, {"scale_a": scale_a, "scale_b": scale_b, "bias": bias}, unit)
    given = Given("outputs", outputs)
    if given.shape != replay.shape:
        raise ShapeError(
            f"outputs have shape {given.shape}: by the plan these arrays have results of shape {replay.shape}"
        )
    if not replay.result_of(given.format):
        raise DtypeError(f"outputs have dtype {given.format.dtype}: the plan's have {replay.result.dtype}")
    count, size = math.prod(given.shape), whole_number(sample)
    if not count:
        raise ShapeError(f"outputs have shape {given.shape}: there is nothing to check")
    if size is None or size < 1:
        raise ParameterError(f"sample={sample!r}: give a whole number of 1 or more")
    size = min(size, count)
    entropy = np.random.SeedSequence(checked_seed(seed)).entropy
    assert isinstance(entropy, int)
    wrong = [
        each
        for places in _sampled(count, size, entropy, max(1, _PIECE // max(replay.length, 1)))
        for each in _wrong(given, replay, places)
    ]
    return Audit(count, size, tuple(wrong), given.format.bits, entropy)


def _sampled(count: int, size: int, seed: int, together: int) -> Iterator[npt.NDArray[np.int64]]:
    """The places of the sample in order, some at a time."""
    together = -(-together // TOGETHER) * TOGETHER
    if size == count:
        for at in range(0, count, together):
            yield np.arange(at, min(at + together, count))
        return
    drawn = np.sort(np.random.default_rng(seed).choice(count, size, replace=False, shuffle=False))
    for at in range(0, size, together):
        yield drawn[at : at + together]


def _wrong(given: Given, replay: Replay, places: npt.NDArray[np.int64]) -> Iterator[WrongOutput]:
    index: Index = np.unravel_index(places, given.shape) if given.shape else ()
    codes = given.picked(index).reshape(-1).view(given.format.code_dtype)
    expected = replay.results(index, given.format).view(given.format.code_dtype)
    same = codes == expected
    if replay.any_nan and not same.all():
        values = [each.view(given.format.dtype) for each in (codes, expected)]
        same |= np.isnan(values[0]) & np.isnan(values[1])
    for place in np.flatnonzero(~same):
        position = tuple(int(each[place]) for each in index)
        yield WrongOutput(position, int(codes[place]), int(expected[place]))
