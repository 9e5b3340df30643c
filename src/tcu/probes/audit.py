"""Spot checks: some outputs of a product or of sums, drawn at random, against the plan that all of them are said to follow.

Only the rows and columns of the outputs drawn are read, and each costs K
operations.  What a share of wrong outputs would have had to be to go unseen
follows from their number alone, wherever they lie.
"""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.engines.host.matmul import as_operand, factor, finished
from tcu.engines.host.planned import encoded
from tcu.errors import DtypeError, ParameterError, ShapeError
from tcu.formats.array import check_in_memory, check_unmasked, checked_seed, lives_on_gpu, whole_number
from tcu.formats.format import Format, format_of, get_format, named_format
from tcu.formats.tensor import check_data, check_dense, is_tensor, operand_view
from tcu.model.mma import multiply_in_chunks
from tcu.model.rows import execute_rows
from tcu.model.tree import evaluate_tree, rounded
from tcu.ops.matmul import FACTORS, fitting_matrices
from tcu.plan.matmul import MatmulPlan
from tcu.plan.plan import FmaStep, Plan
from tcu.plan.tree import TreeRegions, TreeStep
from tcu.probes.replay import check_no_unit, is_running, tree_of
from tcu.units.instruction import Unit
from tcu.units.lookup import DEFAULT_UNIT, get_unit, product_instruction
from tcu.units.shapes import result_shape

__all__ = ["Audit", "WrongOutput", "audit"]

Values = npt.NDArray[Any]
Index = tuple[npt.NDArray[np.int64], ...]

_PIECE = 1 << 22
"""Numbers of each operand that are held at a time."""
_TOGETHER = 16
"""Outputs of which the model multiplies the rows by the columns, all by all: it has as many lanes, and one output fills one."""


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
    replay = _replay_of(plan, a, b, {"scale_a": scale_a, "scale_b": scale_b, "bias": bias}, unit)
    given = _Array("outputs", outputs)
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
    together = -(-together // _TOGETHER) * _TOGETHER
    if size == count:
        for at in range(0, count, together):
            yield np.arange(at, min(at + together, count))
        return
    drawn = np.sort(np.random.default_rng(seed).choice(count, size, replace=False, shuffle=False))
    for at in range(0, size, together):
        yield drawn[at : at + together]


def _wrong(given: _Array, replay: _Replay, places: npt.NDArray[np.int64]) -> Iterator[WrongOutput]:
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


class _Array:
    """An array of any library, of which some numbers are read."""

    def __init__(self, name: str, given: Any) -> None:
        if is_tensor(given):
            check_data(given, name)
            check_dense(given, name, "check")
            self._array = given.detach()
            self.format = named_format(given.dtype)
        else:
            check_unmasked(given, name)
            check_in_memory(given, name)
            if lives_on_gpu(given):
                raise ParameterError(
                    f"{name} is a {type(given).__name__} on a GPU: give it as a tensor, torch.from_dlpack({name})"
                )
            self._array = np.asarray(given)
            self.format = format_of(self._array.dtype)
        self.name, self.shape = name, tuple(self._array.shape)

    def picked(self, index: tuple[Any, ...]) -> Values:
        """The numbers at an index, on the host: as NumPy indexes, of tensors too."""
        if not is_tensor(self._array):
            found = np.asarray(self._array[index])
            return np.ascontiguousarray(found.astype(found.dtype.newbyteorder("="), copy=False))
        torch = sys.modules["torch"]
        there = tuple(
            each if isinstance(each, slice) else torch.as_tensor(each, device=self._array.device)
            for each in index
        )
        return np.ascontiguousarray(operand_view(self._array[there].cpu(), self.name))

    def rows(self, batch: Index, rows: npt.NDArray[np.int64]) -> Values:
        """(count, K) of a (..., M, K)."""
        if len(self.shape) == 1:
            return np.broadcast_to(self.picked((slice(None),)), (len(rows), *self.shape))
        return self.picked((*self._batch(batch), rows))

    def columns(self, batch: Index, columns: npt.NDArray[np.int64]) -> Values:
        """(count, K) of b (..., K, N)."""
        if len(self.shape) == 1:
            return np.broadcast_to(self.picked((slice(None),)), (len(columns), *self.shape))
        found = self.picked((*self._batch(batch), slice(None), columns))
        return found.T if len(self.shape) == 2 else found

    def _batch(self, batch: Index) -> Index:
        sizes = self.shape[:-2]
        own = batch[len(batch) - len(sizes) :]
        return tuple(
            np.zeros_like(each) if size == 1 else each for each, size in zip(own, sizes, strict=True)
        )


def _on_host(name: str, given: Any) -> Any:
    """A scale or the bias."""
    return _Array(name, given).picked((slice(None),) * given.ndim) if is_tensor(given) else given


class _Replay(ABC):
    """What a plan returns for some places of its results."""

    shape: tuple[int, ...]
    """Of all results."""
    length: int
    """Numbers, or pairs, of one."""
    any_nan = False
    """Whether the plan leaves open which NaN a NaN is."""

    result: Format
    """Of the plan's last operation."""

    def result_of(self, fmt: Format) -> bool:
        """Whether results may have a format."""
        return fmt.name == self.result.name

    @abstractmethod
    def results(self, index: Index, fmt: Format) -> Values:
        """The results at some places, in a format."""


class _Products(_Replay):
    """Rows by columns."""

    def __init__(self, a: _Array, b: _Array, k: int, formats: tuple[str, str]) -> None:
        *_, self.matrix = fitting_matrices(k, formats, a.shape, b.shape, (a.format.name, b.format.name))
        self.a, self.b, self.length = a, b, k
        self.down, self.across = len(a.shape) > 1, len(b.shape) > 1
        self.shape = result_shape(a.shape, b.shape, self.matrix)

    def places(self, index: Index) -> tuple[Index, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Batch, row and column of each."""
        none = np.zeros(len(index[0]) if index else 1, np.int64)
        left = list(index)
        column = left.pop() if self.across else none
        row = left.pop() if self.down else none
        return tuple(left), row, column

    def pairs(self, index: Index) -> tuple[Values, Values]:
        """(count, K) rows of a, and columns of b."""
        batch, row, column = self.places(index)
        return self.a.rows(batch, row), self.b.columns(batch, column)


class _MatmulReplay(_Products):
    """By a plan of :func:`tcu.matmul`."""

    def __init__(
        self, plan: MatmulPlan, a: _Array, b: _Array, factors: dict[str, Any], unit: str | Unit | None
    ) -> None:
        super().__init__(a, b, plan.k, plan.inputs)
        self.plan, self.result = plan, get_format(plan.result)
        self.instruction = product_instruction(
            DEFAULT_UNIT if unit is None else unit, *plan.operands, plan.accumulator
        )
        self.factors = [
            factor(name, _on_host(name, factors[name]), self.matrix[-2 if name == "scale_a" else -1], plan)
            for name in FACTORS
        ]

    def results(self, index: Index, fmt: Format) -> Values:
        _, row, column = self.places(index)
        x, y = (self._tiles(as_operand(each, self.plan)) for each in self.pairs(index))
        products = multiply_in_chunks(x, y.swapaxes(1, 2), self.instruction, self.plan.chunk)
        total = np.ascontiguousarray(products.diagonal(axis1=1, axis2=2)).reshape(-1)[: len(row)]
        scale_a, scale_b, bias = self.factors
        if scale_a is not None and scale_a.ndim:
            scale_a = scale_a[row]
        scale_b, bias = (
            each[column][:, None] if each is not None and each.ndim else each for each in (scale_b, bias)
        )
        return finished(total[:, None], self.plan, scale_a, scale_b, bias).reshape(-1)

    def _tiles(self, rows: Values) -> Values:
        """(tiles, rows of a tile, K), the last one filled with its last row."""
        count, size = len(rows), min(_TOGETHER, len(rows))
        tiles = -(-count // size)
        if tiles * size > count:
            rows = rows[np.minimum(np.arange(tiles * size), count - 1)]
        return rows.reshape(tiles, size, rows.shape[-1])


class _TreeProducts(_Products):
    """By trees of products."""

    any_nan = True

    def __init__(self, plan: Plan, step: TreeStep | TreeRegions, a: _Array, b: _Array) -> None:
        super().__init__(a, b, plan.n, (plan.input, plan.input))
        self.step, self.result = step, get_format(plan.result)
        if isinstance(step, TreeRegions) and self.matrix[-2:] != step.shape:
            raise ShapeError(f"a {a.shape}, b {b.shape}: the plan is of a product of shape {step.shape}")

    @cached_property
    def _regions(self) -> npt.NDArray[np.int64]:
        assert isinstance(self.step, TreeRegions)
        return np.array(self.step.regions)

    def results(self, index: Index, fmt: Format) -> Values:
        x, y = self.pairs(index)
        if isinstance(self.step, TreeStep):
            return rounded(self._evaluated(self.step, x, y), fmt)
        _, row, column = self.places(index)
        tree_at, found = self._regions[row, column], np.empty(len(row))
        for number, tree in enumerate(self.step.trees):
            here = tree_at == number
            found[here] = self._evaluated(tree, x[here], y[here])
        return rounded(found, fmt)

    def _evaluated(self, tree: TreeStep, x: Values, y: Values) -> Values:
        return evaluate_tree(tree, x[:, None], y[:, :, None]).reshape(-1)


class _TreeSums(_Replay):
    """Sums along the last axis, or running sums, by a tree."""

    any_nan = True

    def __init__(self, plan: Plan, step: TreeStep, a: _Array) -> None:
        _check_rows(plan, a)
        self.step, self.a, self.length = step, a, plan.n
        self.result = get_format(plan.result)
        self.running = is_running(plan)
        self.shape = a.shape if self.running else a.shape[:-1]

    def results(self, index: Index, fmt: Format) -> Values:
        rows = index[:-1] if self.running else index
        found = evaluate_tree(self.step, _lines(self.a.picked((*rows, slice(None)))))
        return rounded(found[index[-1], np.arange(found.shape[1])] if self.running else found[0], fmt)


class _MmaSums(_Replay):
    """Sums along the last axis by a plan of :func:`tcu.sum`."""

    def __init__(self, plan: Plan, a: _Array, unit: str | Unit | None) -> None:
        _check_rows(plan, a)
        self.plan, self.a, self.shape, self.length = plan, a, a.shape[:-1], plan.n
        self.result = get_format(plan.result)
        self.unit = get_unit(DEFAULT_UNIT if unit is None else unit)

    def result_of(self, fmt: Format) -> bool:
        """A sum is rounded once more, to any format."""
        return fmt.is_float

    def results(self, index: Index, fmt: Format) -> Values:
        rows = _lines(self.a.picked((*index, slice(None))))
        return encoded(execute_rows(self.plan, rows, self.unit), fmt).view(fmt.dtype)


def _lines(x: Values) -> Values:
    return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


def _check_rows(plan: Plan, a: _Array) -> None:
    if not a.shape or a.shape[-1] != plan.n:
        raise ShapeError(f"a has shape {a.shape}: the plan adds up {plan.n} numbers, along the last axis")
    if a.format.name != plan.input:
        raise DtypeError(f"a has dtype {a.format.dtype}: the plan takes {get_format(plan.input).dtype}")


def _is_tree(plan: Plan) -> bool:
    return any(isinstance(step, TreeStep | TreeRegions) for part in plan.parts for step in part.steps)


def _replay_of(plan: Any, a: Any, b: Any, factors: dict[str, Any], unit: str | Unit | None) -> _Replay:
    if not isinstance(plan, Plan | MatmulPlan):
        raise ParameterError(
            f"plan={plan!r}: give that of tcu.reveal, tcu.load_plan, tcu.plan.make_matmul_plan or tcu.sum"
        )
    products = isinstance(plan, MatmulPlan) or (_is_tree(plan) and tree_of(plan).products)
    if products != (b is not None):
        raise ParameterError(
            "the plan is of products: give a and b" if products else "the plan is of sums: give a, and no b"
        )
    if not isinstance(plan, MatmulPlan) and any(each is not None for each in factors.values()):
        named = " and ".join(name for name, each in factors.items() if each is not None)
        raise ParameterError(f"{named}: only a plan of tcu.matmul has them; audit the product before")
    first = _Array("a", a)
    if isinstance(plan, MatmulPlan):
        return _MatmulReplay(plan, first, _Array("b", b), factors, unit)
    if _is_tree(plan):
        check_no_unit(unit)
        step = tree_of(plan)
        if step.products:
            return _TreeProducts(plan, step, first, _Array("b", b))
        assert isinstance(step, TreeStep)
        return _TreeSums(plan, step, first)
    if any(isinstance(step, FmaStep) for step, _ in plan.lengths()):
        raise ParameterError("the plan is of tcu.dot, whose one result is compared as it is: tcu.dot(x, y)")
    return _MmaSums(plan, first, unit)
