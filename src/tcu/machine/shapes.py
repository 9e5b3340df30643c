"""Arrays without values: a shape and a dtype that go through NumPy's functions.

The executor that only counts runs the same programs as the others, on these.
A sum of two is the broadcast shape, a slice is a shape, and nothing is
allocated, so that a ledger for 2^40 words costs microseconds.  A function
that is not known here raises TypeError, as NumPy's dispatch does for any
array that lacks it: no array is ever filled by accident.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.mixins import NDArrayOperatorsMixin

from tcu.units.shapes import product_shape

__all__ = ["ShapeArray"]

Shape = tuple[int, ...]


class ShapeArray(NDArrayOperatorsMixin):
    """The shape and dtype of an array whose values nobody computes."""

    def __init__(self, shape: int | Shape, dtype: npt.DTypeLike = np.float64) -> None:
        given = (shape,) if isinstance(shape, int | np.integer) else shape
        self.shape: Shape = tuple(int(length) for length in given)
        self.dtype: np.dtype[Any] = np.dtype(dtype)

    @classmethod
    def of(cls, array: Any) -> ShapeArray:
        """The shape and dtype of any array."""
        if isinstance(array, ShapeArray):
            return array
        dtype = getattr(array, "dtype", None)
        return cls(np.shape(array), np.asarray(array).dtype if dtype is None else dtype)

    def __repr__(self) -> str:
        return f"ShapeArray({self.shape}, {self.dtype})"

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without dimensions")
        return self.shape[0]

    def __iter__(self) -> Iterator[ShapeArray]:
        return (self[i] for i in range(len(self)))

    def __array__(self, *_: Any, **__: Any) -> npt.NDArray[Any]:
        raise TypeError(f"{self!r} has no values: a machine that only counts cannot look at them")

    __bool__ = __int__ = __float__ = __array__

    ndim = property(lambda self: len(self.shape))
    size = property(lambda self: math.prod(self.shape))
    T = property(lambda self: ShapeArray(self.shape[::-1], self.dtype))
    real = property(lambda self: ShapeArray(self.shape, np.zeros(0, self.dtype).real.dtype))
    imag = property(lambda self: ShapeArray(self.shape, np.zeros(0, self.dtype).real.dtype))

    @property
    def _shadow(self) -> npt.NDArray[np.int8]:
        """An array of this shape that takes one byte, for the functions that give views."""
        return np.broadcast_to(np.zeros((), np.int8), self.shape)

    def astype(self, dtype: npt.DTypeLike, **_: Any) -> ShapeArray:
        return ShapeArray(self.shape, dtype)

    def copy(self) -> ShapeArray:
        return self

    def conj(self) -> ShapeArray:
        return self

    def reshape(self, *shape: Any, **_: Any) -> ShapeArray:
        return ShapeArray(self._shadow.reshape(*shape).shape, self.dtype)

    def ravel(self) -> ShapeArray:
        return ShapeArray(self.size, self.dtype)

    def transpose(self, *axes: Any) -> ShapeArray:
        return ShapeArray(self._shadow.transpose(*axes).shape, self.dtype)

    def swapaxes(self, first: int, second: int) -> ShapeArray:
        return ShapeArray(self._shadow.swapaxes(first, second).shape, self.dtype)

    def sum(self, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> ShapeArray:
        return _reduced(self, axis, keepdims=keepdims, dtype=dtype)

    def __getitem__(self, key: Any) -> ShapeArray:
        return ShapeArray(_indexed(self.shape, key), self.dtype)

    def __setitem__(self, key: Any, value: Any) -> None:
        """Checks that the value would fit, and keeps nothing."""
        np.broadcast_to(ShapeArray.of(value)._shadow, _indexed(self.shape, key))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method == "reduce":
            return _reduced(inputs[0], kwargs.get("axis", 0), keepdims=kwargs.get("keepdims", False))
        if method == "accumulate":
            return inputs[0]
        if method == "at":
            return None
        if method != "__call__":
            return NotImplemented
        out = kwargs.get("out")
        shapes = [np.shape(x) for x in inputs]
        if ufunc is np.matmul:
            shape = _matmul_shape(*shapes)
        elif ufunc.signature is None:
            shape = np.broadcast_shapes(*shapes)
        else:
            return NotImplemented
        if out is not None:
            return out if ufunc.nout > 1 else out[0]
        kinds = tuple(type(x) if type(x) in (int, float, complex) else ShapeArray.of(x).dtype for x in inputs)
        asked = kwargs.get("dtype")
        dtypes = ufunc.resolve_dtypes((*kinds, *(None,) * ufunc.nout))[ufunc.nin :]
        results = tuple(ShapeArray(shape, asked or dtype) for dtype in dtypes)
        return results if ufunc.nout > 1 else results[0]

    def __array_function__(
        self, function: Callable[..., Any], _: Any, args: tuple[Any, ...], kwargs: Any
    ) -> Any:
        if function in _VIEWS:
            given = args[0]
            result = function(given._shadow, *args[1:], **kwargs)
            if isinstance(result, list | tuple):
                return [ShapeArray(piece.shape, given.dtype) for piece in result]
            return ShapeArray(result.shape, given.dtype)
        handler = _HANDLERS.get(function)
        return NotImplemented if handler is None else handler(*args, **kwargs)


def _matmul_shape(a: Shape, b: Shape) -> Shape:
    if len(a) == 1:
        return (*_matmul_shape((1, *a), b)[:-2], b[-1])
    if len(b) == 1:
        return _matmul_shape(a, (*b, 1))[:-1]
    return product_shape(a, b, None)


def _indexed(shape: Shape, key: Any) -> Shape:
    keys = key if isinstance(key, tuple) else (key,)
    arrays = [k for k in keys if isinstance(k, list | np.ndarray | ShapeArray)]
    if not arrays:
        return tuple(np.broadcast_to(np.zeros((), np.int8), shape)[key].shape)
    # Each index array becomes an axis of the broadcast of all; that they stand
    # side by side is what decides where its axes go, and all that is taken here.
    first = next(i for i, k in enumerate(keys) if k is arrays[0])
    if any(k is Ellipsis or k is None for k in keys) or [id(k) for k in keys[first:][: len(arrays)]] != [
        id(k) for k in arrays
    ]:
        raise TypeError(
            f"an index of {len(arrays)} arrays that do not stand side by side, or with ... or None"
        )
    if any(ShapeArray.of(k).dtype == bool for k in arrays):
        raise TypeError("a boolean index: how many it picks depends on values that nobody computes")
    before = np.broadcast_to(np.zeros((), np.int8), shape)[keys[:first]].shape[:first] if first else ()
    rest = shape[first + len(arrays) :]
    after = np.broadcast_to(np.zeros((), np.int8), rest)[keys[first + len(arrays) :]].shape
    return (*before, *np.broadcast_shapes(*(np.shape(k) for k in arrays)), *after)


def _reduced(
    x: ShapeArray, axis: Any = None, *, keepdims: bool = False, dtype: Any = None, **_: Any
) -> ShapeArray:
    axes = range(x.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
    axes = [a % x.ndim for a in axes]
    kept = [(1,) if i in axes else (length,) for i, length in enumerate(x.shape) if keepdims or i not in axes]
    return ShapeArray(tuple(length for (length,) in kept), dtype or x.dtype)


def _truth(x: ShapeArray, axis: Any = None, *, keepdims: bool = False) -> ShapeArray:
    return _reduced(x, axis, keepdims=keepdims, dtype=bool)


def _concatenate(arrays: Any, axis: int = 0, dtype: Any = None) -> ShapeArray:
    parts = [ShapeArray.of(x) for x in arrays]
    lengths = list(parts[0].shape)
    axis %= len(lengths)
    for part in parts[1:]:
        if part.shape[:axis] + part.shape[axis + 1 :] != (*lengths[:axis], *lengths[axis + 1 :]):
            raise ValueError(f"shapes {[p.shape for p in parts]} do not join along axis {axis}")
        lengths[axis] += part.shape[axis]
    return ShapeArray(tuple(lengths), dtype or np.result_type(*(p.dtype for p in parts)))


def _stack(arrays: Any, axis: int = 0) -> ShapeArray:
    parts = [ShapeArray.of(x) for x in arrays]
    (shape,) = {part.shape for part in parts}
    axis %= len(shape) + 1
    dtype = np.result_type(*(p.dtype for p in parts))
    return ShapeArray((*shape[:axis], len(parts), *shape[axis:]), dtype)


def _pad(x: ShapeArray, width: Any, *_: Any, **__: Any) -> ShapeArray:
    pairs = np.broadcast_to(np.asarray(width), (x.ndim, 2)).tolist()
    return ShapeArray(
        tuple(n + before + after for n, (before, after) in zip(x.shape, pairs, strict=True)), x.dtype
    )


def _einsum(subscripts: str, *operands: Any, **_: Any) -> ShapeArray:
    inputs, output = subscripts.replace(" ", "").split("->")
    sizes: dict[str, int] = {}
    batch: Shape = ()
    for letters, operand in zip(inputs.split(","), operands, strict=True):
        shape = np.shape(operand)
        if "..." in letters:
            head, tail = letters.split("...")
            end = len(shape) - len(tail)
            batch = np.broadcast_shapes(batch, shape[len(head) : end])
            letters, shape = head + tail, shape[: len(head)] + shape[end:]
        for letter, length in zip(letters, shape, strict=True):
            if sizes.setdefault(letter, length) != length:
                raise ValueError(f"einsum {subscripts!r}: {letter} is {sizes[letter]} and {length}")
    pieces = [batch if part == "..." else tuple(sizes[x] for x in part) for part in _parts(output)]
    dtype = np.result_type(*(ShapeArray.of(x).dtype for x in operands))
    return ShapeArray(sum(pieces, ()), dtype)


def _parts(output: str) -> list[str]:
    head, dots, tail = output.partition("...")
    return [head, dots, tail] if dots else [head]


def _where(condition: Any, x: Any, y: Any) -> ShapeArray:
    shape = np.broadcast_shapes(*(np.shape(v) for v in (condition, x, y)))
    return ShapeArray(shape, np.result_type(ShapeArray.of(x).dtype, ShapeArray.of(y).dtype))


def _take(x: ShapeArray, indices: Any, axis: int | None = None) -> ShapeArray:
    if axis is None:
        return ShapeArray(np.shape(indices), x.dtype)
    axis %= x.ndim
    return ShapeArray((*x.shape[:axis], *np.shape(indices), *x.shape[axis + 1 :]), x.dtype)


def _repeat(x: ShapeArray, repeats: int, axis: int | None = None) -> ShapeArray:
    if axis is None:
        return ShapeArray(x.size * repeats, x.dtype)
    axis %= x.ndim
    return ShapeArray((*x.shape[:axis], x.shape[axis] * repeats, *x.shape[axis + 1 :]), x.dtype)


def _tile(x: ShapeArray, times: Any) -> ShapeArray:
    times = (times,) if isinstance(times, int) else tuple(times)
    rank = max(len(times), x.ndim)
    lengths = (1,) * (rank - x.ndim) + x.shape
    factors = (1,) * (rank - len(times)) + times
    return ShapeArray(tuple(n * t for n, t in zip(lengths, factors, strict=True)), x.dtype)


def _new(shape: Any, dtype: Any = None, **_: Any) -> ShapeArray:
    return ShapeArray(shape, np.float64 if dtype is None else dtype)


def _full(shape: Any, value: Any, dtype: Any = None, **_: Any) -> ShapeArray:
    return ShapeArray(shape, np.asarray(value).dtype if dtype is None else dtype)


def _like(x: Any, dtype: Any = None, **_: Any) -> ShapeArray:
    given = ShapeArray.of(x)
    return given if dtype is None else given.astype(dtype)


def _full_like(x: Any, value: Any, dtype: Any = None, **_: Any) -> ShapeArray:
    return _like(x, dtype)


def _arange(*bounds: Any, dtype: Any = None, **_: Any) -> ShapeArray:
    return ShapeArray(len(range(*(int(b) for b in bounds))), dtype or np.int64)


def _same(x: Any, *_: Any, **__: Any) -> ShapeArray:
    return ShapeArray.of(x)


_VIEWS = {
    np.reshape, np.transpose, np.swapaxes, np.moveaxis, np.broadcast_to, np.expand_dims, np.squeeze,
    np.flip, np.ravel, np.atleast_1d, np.atleast_2d, np.split, np.array_split, np.diagonal,
    np.lib.stride_tricks.sliding_window_view,
}  # fmt: skip
_HANDLERS: dict[Any, Callable[..., Any]] = {
    np.shape: lambda x: x.shape,
    np.ndim: lambda x: x.ndim,
    np.size: lambda x: x.size,
    np.iscomplexobj: lambda x: x.dtype.kind == "c",
    np.isrealobj: lambda x: x.dtype.kind != "c",
    np.result_type: lambda *xs: np.result_type(*(x.dtype if isinstance(x, ShapeArray) else x for x in xs)),
    np.concatenate: _concatenate,
    np.stack: _stack,
    np.pad: _pad,
    np.einsum: _einsum,
    np.where: _where,
    np.take: _take,
    np.repeat: _repeat,
    np.tile: _tile,
    np.zeros: _new, np.ones: _new, np.empty: _new, np.full: _full, np.arange: _arange,
    np.array: _like, np.asarray: _like, np.ascontiguousarray: _like,
    np.zeros_like: _like, np.empty_like: _like, np.ones_like: _like, np.full_like: _full_like,
    np.real: lambda x: x.real,
    np.imag: lambda x: x.imag,
    np.copy: _same, np.roll: _same, np.cumsum: _same, np.sort: _same, np.round: _same, np.clip: _same,
    np.sum: _reduced, np.prod: _reduced, np.max: _reduced, np.min: _reduced,
    np.any: _truth, np.all: _truth,
}  # fmt: skip
