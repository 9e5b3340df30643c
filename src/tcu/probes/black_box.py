"""A sum, a dot product or a matrix product that can be asked, and nothing else."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tcu.errors import DtypeError, ParameterError, ShapeError
from tcu.formats.array import whole_number
from tcu.formats.format import Format, format_of, get_format, named_format
from tcu.formats.tensor import is_tensor, matrix_view, tensor_of

__all__ = ["KINDS", "BlackBox", "Kind", "black_box", "same_bits"]

Kind = Literal["sum", "dot", "matmul", "cumsum"]
KINDS: tuple[Kind, ...] = ("sum", "dot", "matmul", "cumsum")
Values = npt.NDArray[Any]
_LARGEST = 1 << 26
"""Numbers of an operand, or results, of one question."""


@dataclass
class BlackBox:
    """A function of arrays whose formats and shapes are known."""

    name: str
    function: Callable[..., Any]
    kind: Kind
    shape: tuple[int, int, int]
    """(M, N, n): n numbers or pairs are added up for each of M·N results."""
    input: Format
    tensors: bool
    """Whether the function takes PyTorch's tensors."""
    output: Format = field(init=False)
    dtype: Any = field(init=False)
    expected: tuple[int, ...] = field(init=False)
    """dtype and shape of every answer."""
    asked: int = 0
    """Calls so far."""
    seen: npt.NDArray[np.bool_] | None = None
    """(M, N): the results of a product that are looked at; None: all."""

    def __post_init__(self) -> None:
        zeros = [self._given(np.zeros(shape, self.input.dtype)) for shape in self._shapes()]
        answer = self._array(self.function(*zeros))
        self.asked += 1
        try:
            self.output = format_of(answer.dtype)
        except DtypeError:
            raise DtypeError(
                f"{self.name} returns {answer.dtype}: it must return floating-point numbers"
            ) from None
        if not self.output.is_float:
            raise DtypeError(f"{self.name} returns {answer.dtype}: it must return floating-point numbers")
        self.dtype = answer.dtype
        self.expected = {"matmul": self.shape[:2], "cumsum": (self.n,)}.get(self.kind, ())
        self._check(answer)

    def _check(self, answer: Values) -> None:
        """Raises DtypeError or ShapeError for an answer that is unlike the first one, or has another shape than such a function's."""
        if answer.dtype != self.dtype:
            raise DtypeError(
                f"{self.name} returns {answer.dtype} for some inputs, and {self.dtype} for zeros: it must always return "
                "numbers of one dtype"
            )
        if answer.shape != self.expected:
            raise ShapeError(
                f"{self.name} returns an array of shape {answer.shape}: a {self.kind} of {self._text()} has "
                f"{self.expected or 'a single number'}"
            )

    @property
    def n(self) -> int:
        """Numbers, or pairs, of a sum."""
        return self.shape[2]

    @property
    def results(self) -> int:
        """Results of a call that are looked at."""
        if self.seen is not None:
            return int(self.seen.sum())
        return self.n if self.kind == "cumsum" else self.shape[0] * self.shape[1]

    @property
    def products(self) -> bool:
        return self.kind in ("dot", "matmul")

    def __call__(self, x: Values, y: Values | None = None) -> npt.NDArray[np.float64]:
        """The answers, a call for each row or member of the batch, as :func:`tcu.model.tree.evaluate_tree` has them.

        (1, rows) for x (rows, n), of running sums (n, rows); of products (1, batch, M, N) for x (batch, M, n) and y (batch, n, N).
        """
        rows = [x] if y is None else [x, y]
        if self.kind == "dot":
            rows = [x[:, 0], np.asarray(y)[:, :, 0]]
        answers = [self._answer(*arrays) for arrays in zip(*rows, strict=True)]
        found = np.array(answers, np.float64)
        if self.kind == "matmul":
            return found[None]
        if self.kind == "dot":
            return found.reshape(1, -1, 1, 1)
        return found.T if self.kind == "cumsum" else found[None]

    def looking_at(self, seen: npt.NDArray[np.bool_]) -> BlackBox:
        """The same function, of which only some results count."""
        return replace(self, seen=seen, asked=0)

    def same(self, x: Values, y: Values) -> npt.NDArray[np.bool_]:
        """Whether answers are the same, or nobody looks at them."""
        return same_bits(x, y) if self.seen is None else same_bits(x, y) | ~self.seen

    @cached_property
    def _line(self) -> tuple[bool, npt.NDArray[np.int64], int]:
        """(along a column?, the rows or columns of one line of results that are looked at, which line)"""
        m, n, _ = self.shape
        seen = np.ones((m, n), bool) if self.seen is None else self.seen
        column, row = int(seen.sum(axis=0).argmax()), int(seen.sum(axis=1).argmax())
        down, across = np.flatnonzero(seen[:, column]), np.flatnonzero(seen[row])
        return (True, down, column) if down.size >= across.size else (False, across, row)

    def lines(
        self, x: Values, other: float = 1.0, results: Sequence[int] | None = None
    ) -> npt.NDArray[np.float64]:
        """One result for each line of x (count, n), every second factor being ``other``; M or N of them a call.

        ``results``: which one of a running sum's; else the last.
        """
        dtype = self.input.dtype
        if not self.products:
            answers = self(x.astype(dtype))
            return np.asarray(answers[-1 if results is None else results, np.arange(len(x))])
        m, n, k = self.shape
        down, places, line = self._line
        found = np.empty(len(x))
        for at in range(0, len(x), places.size):
            here = places[: len(x) - at]
            lines = np.zeros((1, m if down else n, k), dtype)
            lines[0, here] = x[at : at + here.size]
            constant = np.full((1, k, n) if down else (1, m, k), other, dtype)
            if down:
                found[at : at + here.size] = self(lines, constant)[0, 0, here, line]
            else:
                found[at : at + here.size] = self(constant, lines.swapaxes(1, 2).copy())[0, 0, line, here]
        return found

    def _answer(self, *arrays: Values) -> Values:
        self.asked += 1
        with np.errstate(all="ignore"):  # numbers that overflow narrower formats are among the questions
            # Copies, because a function may work in place.
            answer = self._array(self.function(*(self._given(each.copy()) for each in arrays)))
        self._check(answer)
        return answer.astype(np.float64)

    def _given(self, array: Values) -> Any:
        if not self.tensors:
            return array
        if array.dtype.itemsize > 1:
            return tensor_of(array)
        torch = sys.modules["torch"]
        return torch.from_numpy(array.view(np.uint8)).view(getattr(torch, _TENSORS[self.input.name]))

    def _array(self, answer: Any) -> Values:
        if is_tensor(answer):
            return matrix_view(answer.cpu(), self.name)
        try:
            return np.asarray(answer)
        except (ValueError, TypeError) as error:
            raise ShapeError(
                f"{self.name} returns a {type(answer).__name__}, of which NumPy makes no array ({error}): it must return "
                "numbers"
            ) from None

    def _shapes(self) -> list[tuple[int, ...]]:
        m, n, k = self.shape
        if self.kind == "matmul":
            return [(m, k), (k, n)]
        return [(k,)] * (1 + self.products)

    def _text(self) -> str:
        if self.kind == "matmul":
            return "{0} × {2} by {2} × {1}".format(*self.shape)
        return f"{self.n} pairs" if self.kind == "dot" else f"{self.n} numbers"


_TENSORS = {"e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2"}


def black_box(
    function: Callable[..., Any], n: int | None, kind: str, dtype: Any, shape: tuple[int, int, int] | None
) -> BlackBox:
    """Checks what the user says of a function; raises ParameterError, DtypeError or ShapeError."""
    if kind not in KINDS:
        raise ParameterError(f"kind={kind!r}: choose one of {', '.join(KINDS)}")
    if not callable(function):
        raise ParameterError(f"{function!r} is of type {type(function).__name__}: give a function of arrays")
    if (shape is not None) != (kind == "matmul") or (n is None) != (kind == "matmul"):
        raise ParameterError(
            f"kind={kind!r} needs "
            + (
                "shape=(M, N, K), and no n"
                if kind == "matmul"
                else "n=..., and no shape; a product of matrices needs kind='matmul'"
            )
        )
    listed = list(shape) if isinstance(shape, Iterable) else []
    sizes = [whole_number(size) for size in ([1, 1, n] if shape is None else listed)]
    if len(sizes) != 3 or any(size is None or size < 1 for size in sizes):
        given = f"n={n!r}" if shape is None else f"shape={shape!r}"
        raise ParameterError(
            f"{given}: give {'a whole number' if shape is None else 'three, M, N and K,'} of 1 or more"
        )
    fmt = named_format(dtype)
    if fmt.name == "tf32":
        fmt = get_format("binary32")
    if not fmt.is_float or (fmt.bits == 8 and kind not in ("matmul", "dot")):
        raise DtypeError(f"dtype={dtype}: a {kind} of {fmt.name} is no sum in floating point")
    name = getattr(function, "__name__", type(function).__name__)
    tensors = type(dtype).__module__ == "torch"
    m, columns, k = (int(size) for size in sizes if size is not None)
    if (largest := max(m * k, k * columns, m * columns)) > _LARGEST:
        given = f"n={n}" if shape is None else f"shape={shape}"
        raise ParameterError(
            f"{given}: a question has {largest:,} numbers in one array, and may have {_LARGEST:,}: reveal a smaller size, of "
            "which alone the plan is"
        )
    return BlackBox(name, function, kind, (m, columns, k), fmt, tensors)


def same_bits(x: Values, y: Values) -> npt.NDArray[np.bool_]:
    """Whether values are the same, signs of zeros included; every NaN is as good as another."""
    same = x.astype(np.float64).view(np.uint64) == y.astype(np.float64).view(np.uint64)
    return np.asarray(same | (np.isnan(x) & np.isnan(y)))
