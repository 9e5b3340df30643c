"""Arrays without values: a shape and a dtype that go through NumPy's functions.

The executor that only counts runs the same programs as the others, on these.
A sum of two is the broadcast shape, a slice is a shape, and nothing is
allocated, so that a ledger for 2^40 words costs microseconds.  Lengths are
Python's integers: 2^64 rows and more are a shape too, where NumPy's own end at
2^63 - 1 numbers.  A function that is not known here raises TypeError, as
NumPy's dispatch does for any array that lacks it: no array is ever filled by
accident.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.mixins import NDArrayOperatorsMixin

from tcu.errors import DtypeError, ShapeError
from tcu.formats.format import dtype_of
from tcu.machine.ledger import told
from tcu.units.shapes import product_shape

__all__ = ["ShapeArray", "broadcast", "empty", "zeros"]

Shape = tuple[int, ...]


def broadcast(*shapes: Shape) -> Shape:
    """The shape to which arrays of these broadcast, as ``np.broadcast_shapes`` for lengths of any size.

    Raises ShapeError where they do not.
    """
    rank = max(map(len, shapes), default=0)
    result = []
    for lengths in zip(*((1,) * (rank - len(shape)) + shape for shape in shapes), strict=True):
        longer = {length for length in lengths if length != 1}
        if len(longer) > 1:
            raise ShapeError(f"shapes {', '.join(map(str, shapes))} do not broadcast")
        result.append(longer.pop() if longer else 1)
    return tuple(result)


class ShapeArray(NDArrayOperatorsMixin):
    """The shape and dtype of an array whose values nobody computes.

    Raises
    ------
    ShapeError:
        Lengths that are no integers of at least 0.
    DtypeError:
        No dtype of NumPy.
    """

    def __init__(self, shape: int | Shape, dtype: npt.DTypeLike = np.float64) -> None:
        self.shape: Shape = _lengths(shape)
        try:
            self.dtype: np.dtype[Any] = dtype_of(dtype)
        except TypeError:
            raise DtypeError(f"dtype={dtype!r}: give one of NumPy's, such as float64") from None

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
        raise DtypeError(
            f"{self!r} has no values: give an array, or take executor='count' and a program that looks at none"
        )

    __bool__ = __int__ = __float__ = __array__

    ndim = property(lambda self: len(self.shape))
    size = property(lambda self: math.prod(self.shape))
    T = property(lambda self: ShapeArray(self.shape[::-1], self.dtype))
    real = property(lambda self: ShapeArray(self.shape, np.zeros(0, self.dtype).real.dtype))
    imag = property(lambda self: ShapeArray(self.shape, np.zeros(0, self.dtype).real.dtype))

    def astype(self, dtype: npt.DTypeLike, **_: Any) -> ShapeArray:
        return ShapeArray(self.shape, dtype)

    def copy(self) -> ShapeArray:
        return self

    def conj(self) -> ShapeArray:
        return self

    def reshape(self, *shape: Any, **_: Any) -> ShapeArray:
        return ShapeArray(_reshaped(self.size, _one_tuple(shape)), self.dtype)

    def ravel(self) -> ShapeArray:
        return ShapeArray(self.size, self.dtype)

    def transpose(self, *axes: Any) -> ShapeArray:
        return _of_axes(np.transpose, self, _one_tuple(axes) or None)

    def swapaxes(self, first: int, second: int) -> ShapeArray:
        return _of_axes(np.swapaxes, self, first, second)

    def sum(self, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> ShapeArray:
        return _reduced(self, axis, keepdims=keepdims, dtype=dtype)

    def __getitem__(self, key: Any) -> ShapeArray:
        return ShapeArray(_indexed(self.shape, key), self.dtype)

    def __setitem__(self, key: Any, value: Any) -> None:
        """Checks that the value would fit, and keeps nothing."""
        _fitting(ShapeArray.of(value).shape, _indexed(self.shape, key))

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
            shape = broadcast(*shapes)
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
        if function in _AXES:
            return _of_axes(function, *args, **kwargs)
        handler = _HANDLERS.get(function)
        return NotImplemented if handler is None else handler(*args, **kwargs)


def empty(shape: int | Shape, dtype: Any, like: Any) -> Any:
    """``np.empty(shape, dtype, like=like)``, which of a shape's lengths takes none above 2^63 - 1."""
    return ShapeArray(shape, dtype) if isinstance(like, ShapeArray) else np.empty(shape, dtype, like=like)


def zeros(shape: int | Shape, dtype: Any, like: Any) -> Any:
    """As :func:`empty`, of zeros."""
    return ShapeArray(shape, dtype) if isinstance(like, ShapeArray) else np.zeros(shape, dtype, like=like)


def _lengths(shape: Any) -> Shape:
    """A shape as NumPy takes it, in Python's integers of any size."""
    try:
        given = tuple(shape) if hasattr(shape, "__iter__") else (shape,)
        lengths = tuple(operator.index(length) for length in given)
    except TypeError:
        lengths = (-1,)
    if any(length < 0 for length in lengths) or any(isinstance(length, bool) for length in given):
        raise ShapeError(f"shape={told(shape)}: give lengths, integers of at least 0, such as (1000, 16)")
    return lengths


def _one_tuple(given: tuple[Any, ...]) -> tuple[Any, ...]:
    """Of f(1, 2) and f((1, 2)) the same."""
    return tuple(given[0]) if len(given) == 1 and isinstance(given[0], tuple | list) else given


def _reshaped(size: int, wanted: Any) -> Shape:
    lengths = wanted if isinstance(wanted, tuple | list) else (wanted,)
    rest = math.prod(length for length in lengths if length != -1)
    filled = tuple(size // rest if length == -1 and rest else int(length) for length in lengths)
    if math.prod(filled) != size or list(lengths).count(-1) > 1:
        raise ShapeError(f"{size} numbers do not make an array of shape {tuple(lengths)}")
    return filled


def _of_axes(function: Callable[..., Any], x: ShapeArray, *args: Any, **kwargs: Any) -> ShapeArray:
    """What a function that only moves, drops or adds axes makes of the shape, whatever the lengths.

    NumPy's own does it to an array whose i-th length stands for the i-th axis; 1 stands for itself.
    """
    stand_ins = [1 if length == 1 else i + 2 for i, length in enumerate(x.shape)]
    result = function(np.broadcast_to(np.zeros((), np.int8), stand_ins), *args, **kwargs)
    return ShapeArray(tuple(1 if i == 1 else x.shape[i - 2] for i in result.shape), x.dtype)


def _fitting(shape: Shape, target: Shape) -> Shape:
    """The target.  Raises ShapeError unless an array of that shape broadcasts to it."""
    if broadcast(shape, target) != target:
        raise ShapeError(f"shapes {shape}, {target} do not broadcast: the second is the target's")
    return target


def _matmul_shape(a: Shape, b: Shape) -> Shape:
    if len(a) == 1:
        return (*_matmul_shape((1, *a), b)[:-2], b[-1])
    if len(b) == 1:
        return _matmul_shape(a, (*b, 1))[:-1]
    return (*broadcast(a[:-2], b[:-2]), *product_shape(a[-2:], b[-2:], None))


def _indexed(shape: Shape, key: Any) -> Shape:
    keys = key if isinstance(key, tuple) else (key,)
    arrays = [k for k in keys if isinstance(k, list | np.ndarray | ShapeArray)]
    if not arrays:
        return _sliced(shape, keys)
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
        raise DtypeError("a boolean index: how many it picks depends on values that nobody computes")
    rest = first + len(arrays)
    before, after = _sliced(shape[:first], keys[:first]), _sliced(shape[rest:], keys[rest:])
    return (*before, *broadcast(*(np.shape(k) for k in arrays)), *after)


def _sliced(shape: Shape, keys: tuple[Any, ...]) -> Shape:
    """The shape behind slices, integers, None and one Ellipsis."""
    taken = sum(key is not None and key is not Ellipsis for key in keys)
    if taken > len(shape):
        raise IndexError(f"{taken} indices for an array of {len(shape)} dimensions")
    if not any(key is Ellipsis for key in keys):
        keys = (*keys, Ellipsis)
    result: list[int] = []
    axis = 0
    for key in keys:
        if key is None:
            result.append(1)
        elif key is Ellipsis:
            result += shape[axis : axis + len(shape) - taken]
            axis += len(shape) - taken
        else:
            if isinstance(key, slice):
                start, stop, step = key.indices(shape[axis])
                result.append(max(0, -((start - stop) // step)))
            elif not -shape[axis] <= operator.index(key) < shape[axis]:
                raise IndexError(f"index {key} is out of bounds for {shape[axis]} numbers along axis {axis}")
            axis += 1
    return tuple(result)


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
            batch = broadcast(batch, shape[len(head) : end])
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
    shape = broadcast(*(np.shape(v) for v in (condition, x, y)))
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


def _like(x: Any, dtype: Any = None, *, shape: Any = None, **_: Any) -> ShapeArray:
    given = ShapeArray.of(x)
    return ShapeArray(given.shape if shape is None else shape, given.dtype if dtype is None else dtype)


def _full_like(x: Any, value: Any, dtype: Any = None, **options: Any) -> ShapeArray:
    return _like(x, dtype, **options)


def _arange(*bounds: Any, dtype: Any = None, **_: Any) -> ShapeArray:
    span = range(*(int(b) for b in bounds))
    return ShapeArray(max(0, -((span.start - span.stop) // span.step)), dtype or np.int64)


def _broadcast_to(x: ShapeArray, shape: Any, **_: Any) -> ShapeArray:
    return ShapeArray(_fitting(x.shape, _lengths(shape)), x.dtype)


def _windows(x: ShapeArray, window_shape: Any, axis: Any = None, **_: Any) -> ShapeArray:
    windows = _lengths(window_shape)
    axes = range(x.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
    lengths = list(x.shape)
    for window, a in zip(windows, axes, strict=True):
        lengths[a] -= window - 1
    return ShapeArray((*lengths, *windows), x.dtype)


def _pieces(function: Callable[..., Any], x: ShapeArray, where: Any, axis: int = 0) -> list[ShapeArray]:
    """np.split and np.array_split, whose pieces depend on one length alone."""
    axis %= x.ndim
    pieces = function(np.broadcast_to(np.zeros((), np.int8), x.shape[axis]), where)
    return [ShapeArray((*x.shape[:axis], len(p), *x.shape[axis + 1 :]), x.dtype) for p in pieces]


def _diagonal(x: ShapeArray, offset: int = 0, axis1: int = 0, axis2: int = 1) -> ShapeArray:
    pair = axis1 % x.ndim, axis2 % x.ndim
    rows, columns = (x.shape[axis] for axis in pair)
    length = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    return ShapeArray((*(n for axis, n in enumerate(x.shape) if axis not in pair), length), x.dtype)


def _same(x: Any, *_: Any, **__: Any) -> ShapeArray:
    return ShapeArray.of(x)


_AXES = {
    np.transpose, np.swapaxes, np.moveaxis, np.expand_dims, np.squeeze, np.flip, np.atleast_1d, np.atleast_2d,
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
    np.reshape: lambda x, *shape, **_: x.reshape(*shape),
    np.ravel: lambda x, *_: x.ravel(),
    np.broadcast_to: _broadcast_to,
    np.split: partial(_pieces, np.split),
    np.array_split: partial(_pieces, np.array_split),
    np.diagonal: _diagonal,
    np.lib.stride_tricks.sliding_window_view: _windows,
    np.zeros: _new, np.ones: _new, np.empty: _new, np.full: _full, np.arange: _arange,
    np.array: _like, np.asarray: _like, np.ascontiguousarray: _like,
    np.zeros_like: _like, np.empty_like: _like, np.ones_like: _like, np.full_like: _full_like,
    np.real: lambda x: x.real,
    np.imag: lambda x: x.imag,
    np.copy: _same, np.roll: _same, np.cumsum: _same, np.sort: _same, np.round: _same, np.clip: _same,
    np.sum: _reduced, np.prod: _reduced, np.max: _reduced, np.min: _reduced,
    np.any: _truth, np.all: _truth,
}  # fmt: skip
