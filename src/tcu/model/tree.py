"""Evaluate a tree of additions on many inputs at once.

Nodes of one level that do the same are evaluated together.  Values travel as
binary64, which holds every number of every format here.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.formats.array import decode_array, encode_array, round_array
from tcu.formats.format import Format, get_format
from tcu.model import compiled
from tcu.model.mma import multiply_accumulate
from tcu.plan.tree import (
    Additions,
    Blocks,
    Compensated,
    ExactAddition,
    FusedProducts,
    TreeOperation,
    TreeRegions,
    TreeStep,
)
from tcu.units.instruction import Instruction

__all__ = ["evaluate_tree", "rounded"]

Values = npt.NDArray[Any]

_PIECE = 1 << 22
"""Values that are held at a time."""


def evaluate_tree(
    step: TreeStep | TreeRegions, x: Values, y: Values | None = None
) -> npt.NDArray[np.float64]:
    """The values of the roots, which come first: (roots, rows) for x (rows, n).

    Of products (roots, batch, M, N) for x (batch, M, n) and y (batch, n, N); one root where there are regions.
    """
    if isinstance(step, TreeRegions):
        assert y is not None
        found = np.concatenate([evaluate_tree(tree, x, y) for tree in step.trees])
        return np.take_along_axis(found, np.array(step.regions)[None, None], axis=0)
    x = _operands(x, step)
    if y is None:
        size = max(1, _PIECE // (step.leaves + len(step.nodes)))
        parts = [_Evaluation(step, x[at : at + size], None).roots() for at in range(0, len(x), size)]
        return np.concatenate(parts, axis=1) if parts else np.empty((len(step.roots), 0))
    y = _operands(y, step)
    batch, m, n = *x.shape[:2], y.shape[2]
    found = np.empty((len(step.roots), batch, m, n))
    for where in _pieces(batch, m, max(1, _PIECE // ((step.leaves + len(step.nodes)) * max(n, 1)))):
        members, rows = where
        found[:, members, rows] = _Evaluation(step, x[members, rows], y[members]).roots()
    return found


def _pieces(batch: int, rows: int, size: int) -> Iterator[tuple[slice, slice]]:
    """Members of a batch and rows of each, ``size`` rows or fewer at a time."""
    if size >= rows:
        together = size // max(rows, 1)
        yield from ((slice(at, at + together), slice(None)) for at in range(0, batch, together))
        return
    for member in range(batch):
        yield from ((slice(member, member + 1), slice(at, at + size)) for at in range(0, rows, size))


def _operands(x: Values, step: TreeStep) -> Values:
    """The elements in the format that the tree takes."""
    fmt = get_format(step.operand)
    if fmt.name == "tf32" or step.operand_rounding != "RNE":
        return round_array(x, fmt, step.operand_rounding).astype(fmt.dtype)
    return x.astype(fmt.dtype, copy=False)


def rounded(values: Values, fmt: Format) -> Values:
    """Values in an array of ``fmt``'s dtype, rounded once to nearest."""
    if fmt.name != "bfloat16":
        return values.astype(fmt.dtype, copy=False)
    single = values.astype(np.float32)  # through which NumPy would go from binary64, rounding twice
    if np.array_equal(single, values, equal_nan=True):
        return single.astype(fmt.dtype)
    return encode_array(values, fmt).view(fmt.dtype)


class _Evaluation:
    """One piece of the inputs."""

    def __init__(self, step: TreeStep, x: Values, y: Values | None) -> None:
        self.step = step
        if y is None:
            self.x, self.y = np.ascontiguousarray(x.T), None
            self.shape: tuple[int, ...] = x.shape[:1]
        else:
            self.x = np.ascontiguousarray(np.moveaxis(x, -1, 0))[..., None]  # (n, batch, M, 1)
            self.y = np.ascontiguousarray(np.moveaxis(y, -2, 0))[..., None, :]  # (n, batch, 1, N)
            self.shape = (*x.shape[:2], y.shape[2])
        self.nodes = np.empty((len(step.nodes), *self.shape))

    def roots(self) -> npt.NDArray[np.float64]:
        with np.errstate(all="ignore"):
            for operation, numbers in self.step.together():
                inputs = np.array([self.step.nodes[number].inputs for number in numbers]).T
                self.nodes[numbers] = self._evaluated(operation, inputs, np.array(numbers) + self.step.leaves)
            roots = np.array(self.step.roots)
            found = np.empty((roots.size, *self.shape))
            for which in (roots < self.step.leaves, roots >= self.step.leaves):
                if which.any():
                    found[which] = self._values(roots[which])
            return found + 0.0 if self.step.zero in ("last", "both") else found

    def _values(self, which: npt.NDArray[np.int64], fmt: Format | None = None) -> Values:
        """Values, all of leaves or all of nodes, rounded to a format if there is one."""
        if which[0] >= self.step.leaves:
            found = self.nodes[which - self.step.leaves]
        elif self.y is None:
            found = self.x[which]
        else:
            return self._products(which, fmt)
        found = found.astype(np.float64) if fmt is None else rounded(found, fmt)
        return found + found.dtype.type(0) if self._begins(which) else found

    def _begins(self, which: npt.NDArray[np.int64]) -> bool:
        return self.step.begins_from_zero and bool(which[0] < self.step.leaves)

    def _products(self, which: npt.NDArray[np.int64], fmt: Format | None) -> Values:
        assert self.y is not None
        x, y = self.x[which], self.y[which]
        found = x.astype(np.float64) * y.astype(np.float64)  # exact, or of binary64 and rounded to it
        if fmt is not None and self.step.product is not None:
            found = rounded(found, get_format(self.step.product)).astype(np.float64)
        found = found if fmt is None else rounded(found, fmt)
        return found + found.dtype.type(0) if self.step.begins_from_zero else found

    def _evaluated(
        self, operation: TreeOperation, inputs: npt.NDArray[np.int64], numbers: npt.NDArray[np.int64]
    ) -> Values:
        """inputs: (inputs of a node, nodes); numbers: those of the nodes among all values"""
        if isinstance(operation, Additions):
            fmt = get_format(operation.format)
            total = self._values(inputs[0], fmt)
            if self.step.zero == "begin" and (roots := np.isin(numbers, self.step.roots)).any():
                total = total.copy()
                total[roots] += total.dtype.type(0)
            for which in inputs[1:]:
                total = total + self._values(which, fmt)
                if operation.flushed:
                    total = np.where(
                        np.abs(total) < fmt.min_normal, np.copysign(total.dtype.type(0), total), total
                    )
            return total
        if isinstance(operation, FusedProducts):
            return self._fused(operation, inputs)
        if isinstance(operation, Compensated):
            return self._compensated(operation, inputs)
        if isinstance(operation, ExactAddition):
            return self._exact(operation, inputs)
        return self._blocks(operation, inputs)

    def _fused(self, operation: FusedProducts, inputs: npt.NDArray[np.int64]) -> Values:
        assert self.y is not None
        fmt = get_format(operation.format)
        first = inputs[0]
        if fmt.name == "binary64" or operation.flushed:
            operand = get_format("binary64" if fmt.name == "binary64" else self.step.operand)
            chain = Instruction("mma", operand.name, operand.name, fmt.name, (1, 1, 1), operation.chain, ())
            if first[0] < self.step.leaves:  # -0 + x·y is x·y rounded
                total, rest = (
                    np.full(
                        (first.size, *self.shape), 0.0 if self.step.begins_from_zero else -0.0, fmt.dtype
                    ),
                    inputs,
                )
            else:
                total, rest = self._values(first, fmt), inputs[1:]
            a = np.moveaxis(self.x[rest][..., 0], 0, -1).astype(operand.dtype)
            b = np.moveaxis(self.y[rest][..., 0, :], 0, -2).astype(operand.dtype)
            return multiply_accumulate(a, b, total, chain)
        total = self._values(first, fmt)
        for which in inputs[1:]:
            product = self.x[which].astype(np.float64) * self.y[which].astype(np.float64)
            total = rounded(_added_to_odd(product, total.astype(np.float64)), fmt)
        return total

    def _compensated(self, operation: Compensated, inputs: npt.NDArray[np.int64]) -> Values:
        fmt = get_format(operation.format)
        total = self._values(inputs[0], fmt)
        lost = np.zeros_like(total)
        for which in inputs[1:]:
            x = self._values(which, fmt)
            if operation.method == "kahan":
                x = x - lost
                after = total + x
                lost = (after - total) - x
            else:
                after = total + x
                larger = np.abs(total) >= np.abs(x)
                lost = lost + np.where(larger, (total - after) + x, (x - after) + total)
            total = after
        return total if operation.method == "kahan" else total + lost

    def _exact(self, operation: ExactAddition, inputs: npt.NDArray[np.int64]) -> Values:
        target, source = get_format(operation.format), get_format("binary64")
        kernel = compiled.load("exact_rows").sum_rows_exactly
        values = np.stack([self._values(which) for which in inputs])  # (inputs, nodes, ...)
        line = np.ascontiguousarray(np.moveaxis(values, 0, -1)).reshape(-1)
        starts = np.arange(0, line.size, len(inputs))
        out = np.empty(starts.size, target.code_dtype)
        kernel(
            line.view(np.int64), starts, starts + len(inputs), source.fraction_bits, source.bias,
            (1 << source.exponent_bits) - 1, False, _fields_of(target), out,
        )  # fmt: skip
        return decode_array(out, target).reshape(values.shape[1:])

    def _blocks(self, operation: Blocks, inputs: npt.NDArray[np.int64]) -> Values:
        operand, output = get_format(operation.operand), get_format(operation.output)
        nodes = inputs.shape[1]
        c = np.zeros((nodes, *self.shape), output.dtype)
        if operation.carried:
            c, inputs = rounded(self._values(inputs[0]), output), inputs[1:]
        if self.y is None:  # 1·B, with the rows side by side
            b = np.stack([self._values(which, operand) for which in inputs], axis=1)
            ones = np.ones((1, 1, len(inputs)), operand.dtype)
            return multiply_accumulate(ones, b, c[:, None], operation.instruction)[:, 0]
        a = np.moveaxis(self.x[inputs][..., 0], 0, -1)
        b = np.moveaxis(self.y[inputs][..., 0, :], 0, -2)
        return multiply_accumulate(a, b, c, operation.instruction)


@lru_cache
def _fields_of(target: Format) -> npt.NDArray[np.int64]:
    fields = (1 << target.exponent_bits) - 1
    return np.array([target.fraction_bits, target.bias, fields, target.nan_code], np.int64)


def _added_to_odd(x: Values, y: Values) -> Values:
    """x + y in binary64, rounded so that rounding it to a narrower format afterwards rounds the exact sum once.

    An inexact sum gets an odd last bit (Boldo and Melquiond, IEEE Trans. Comput. 57(4), 2008).
    """
    total = np.asarray(x + y)
    back = total - x
    error = (x - (total - back)) + (y - back)
    bits = total.view(np.int64)
    wrong = (error != 0) & np.isfinite(error) & (bits & 1 == 0)
    step = np.where((error > 0) == (total > 0), 1, -1)
    return np.where(wrong, bits + step, bits).view(np.float64)
