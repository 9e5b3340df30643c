"""Some results of a plan, computed from their rows and columns alone: of arrays of any library, only those are read."""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.engines.host.matmul import as_operand, factor, finished
from tcu.engines.host.planned import encoded
from tcu.errors import DtypeError, ParameterError, ShapeError
from tcu.formats.array import check_in_memory, check_unmasked, lives_on_gpu
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

__all__ = ["TOGETHER", "Given", "Index", "Replay", "replay_of"]

Values = npt.NDArray[Any]
Index = tuple[npt.NDArray[np.int64], ...]

TOGETHER = 16
"""Outputs of which the model multiplies the rows by the columns, all by all: it has as many lanes, and one output fills one."""


class Given:
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
    return Given(name, given).picked((slice(None),) * given.ndim) if is_tensor(given) else given


class Replay(ABC):
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


class _Products(Replay):
    """Rows by columns."""

    def __init__(self, a: Given, b: Given, k: int, formats: tuple[str, str]) -> None:
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
        self, plan: MatmulPlan, a: Given, b: Given, factors: dict[str, Any], unit: str | Unit | None
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
        count, size = len(rows), min(TOGETHER, len(rows))
        tiles = -(-count // size)
        if tiles * size > count:
            rows = rows[np.minimum(np.arange(tiles * size), count - 1)]
        return rows.reshape(tiles, size, rows.shape[-1])


class _TreeProducts(_Products):
    """By trees of products."""

    any_nan = True

    def __init__(self, plan: Plan, step: TreeStep | TreeRegions, a: Given, b: Given) -> None:
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


class _TreeSums(Replay):
    """Sums along the last axis, or running sums, by a tree."""

    any_nan = True

    def __init__(self, plan: Plan, step: TreeStep, a: Given) -> None:
        _check_rows(plan, a)
        self.step, self.a, self.length = step, a, plan.n
        self.result = get_format(plan.result)
        self.running = is_running(plan)
        self.shape = a.shape if self.running else a.shape[:-1]

    def results(self, index: Index, fmt: Format) -> Values:
        rows = index[:-1] if self.running else index
        found = evaluate_tree(self.step, _lines(self.a.picked((*rows, slice(None)))))
        return rounded(found[index[-1], np.arange(found.shape[1])] if self.running else found[0], fmt)


class _MmaSums(Replay):
    """Sums along the last axis by a plan of :func:`tcu.sum`."""

    def __init__(self, plan: Plan, a: Given, unit: str | Unit | None) -> None:
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


def _check_rows(plan: Plan, a: Given) -> None:
    if not a.shape or a.shape[-1] != plan.n:
        raise ShapeError(f"a has shape {a.shape}: the plan adds up {plan.n} numbers, along the last axis")
    if a.format.name != plan.input:
        raise DtypeError(f"a has dtype {a.format.dtype}: the plan takes {get_format(plan.input).dtype}")


def _is_tree(plan: Plan) -> bool:
    return any(isinstance(step, TreeStep | TreeRegions) for part in plan.parts for step in part.steps)


def replay_of(plan: Any, a: Any, b: Any, factors: dict[str, Any], unit: str | Unit | None) -> Replay:
    if plan is None and isinstance(b, Plan | MatmulPlan):
        raise ParameterError(
            "the plan is given in the place of b, which sums do not have: name it, with plan=plan"
        )
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
    first = Given("a", a)
    if isinstance(plan, MatmulPlan):
        return _MatmulReplay(plan, first, Given("b", b), factors, unit)
    if _is_tree(plan):
        check_no_unit(unit)
        step = tree_of(plan)
        if step.products:
            return _TreeProducts(plan, step, first, Given("b", b))
        assert isinstance(step, TreeStep)
        return _TreeSums(plan, step, first)
    if any(isinstance(step, FmaStep) for step, _ in plan.lengths()):
        raise ParameterError("the plan is of tcu.dot, whose one result is compared as it is: tcu.dot(x, y)")
    return _MmaSums(plan, first, unit)
