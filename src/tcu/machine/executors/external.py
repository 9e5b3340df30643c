"""A machine with two memories: the simulation in the proof of Theorem 8 (section 5), word by word."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tcu.errors import ParameterError
from tcu.formats.array import check_unmasked
from tcu.machine.executors.executor import Executor, magnitude
from tcu.machine.executors.ideal import IdealExecutor

__all__ = ["ExternalArray", "ExternalMemoryExecutor", "InternalMemory"]


class InternalMemory:
    """M words beside the processor; one word (B = 1) moves in each I/O.

    Raises ParameterError when a program needs more.
    """

    def __init__(self, words: int) -> None:
        self.words = words
        self.used = 0
        self.peak = 0
        self.reads = 0
        self.writes = 0
        self.step_transfers = 0
        """Of all transfers, those of what the CPU did; the others are the unit's."""

    def _take(self, words: int) -> None:
        used = self.used + words
        if used > self.words:
            raise ParameterError(f"{used} words in an internal memory of {self.words}: free some first")
        self.used = used
        self.peak = max(self.peak, used)

    def read(self, array: Any) -> Any:
        """A copy of external words in the internal memory, one I/O each."""
        self._take(array.size)
        self.reads += array.size
        return array.copy()

    def reserve(self, array: Any) -> Any:
        """Room for words that the processor makes itself; no I/O."""
        self._take(array.size)
        return array

    def write(self, array: Any) -> Any:
        """Internal words to the external memory, one I/O each; their room is free again."""
        self.writes += array.size
        self.free(array)
        return array.copy()

    def free(self, array: Any) -> None:
        self.used -= array.size

    def steps(self, count: int, operands: int, results: int = 1) -> None:
        """So many steps of the CPU, one after another: each reads its operands and writes its results."""
        words = operands + results
        self._take(words)
        self.used -= words
        self.reads += count * operands
        self.writes += count * results
        self.step_transfers += count * words

    @property
    def transfers(self) -> int:
        return self.reads + self.writes


class ExternalMemoryExecutor(Executor):
    """Carries out a weak machine's program with an internal memory of 3m + 3 words, and counts what moves.

    Each √m × √m product reads both operands (2m words), multiplies them
    without any I/O and writes the result (m words).  The executor inside
    computes.  All arrays of the program are :class:`ExternalArray`, so what
    NumPy does to their words moves them, too: whether a step was charged for
    it or not.
    """

    name = "external memory"

    def __init__(self, inside: Executor | None = None) -> None:
        self.inside = IdealExecutor() if inside is None else inside
        self.dtypes = self.inside.dtypes
        self.passes = self.inside.passes
        self._side = 1
        self.memory = InternalMemory(6)

    def check_side(self, side: int) -> None:
        self.inside.check_side(side)
        self._side = side
        self.memory = InternalMemory(3 * side * side + 3)

    def array(self, values: Any) -> Any:
        check_unmasked(values, "x")
        return values if isinstance(values, ExternalArray) else _external(np.asarray(values), self.memory)

    def on_host(self, values: Any) -> Any:
        return self.array(values)

    def stored(self, x: Any, dtype: Any) -> Any:
        return _external(_plain(x).astype(dtype, copy=False), self.memory)

    def magnitude(self, x: Any) -> int:
        return magnitude(_plain(x))

    def largest(self, z: Any) -> Any:
        return _plain(super().largest(z))

    def multiply(self, a: Any, b: Any) -> Any:
        a, b, side = _plain(a), _plain(b), self._side
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        x = np.broadcast_to(a, (*batch, *a.shape[-2:])).reshape(-1, *a.shape[-2:])
        y = np.broadcast_to(b, (*batch, *b.shape[-2:])).reshape(-1, *b.shape[-2:])
        products = [
            np.concatenate([self._square(left[i : i + side], right) for i in range(0, len(left), side)])
            for left, right in zip(x, y, strict=True)
        ]
        return self.array(np.stack(products).reshape(*batch, a.shape[-2], b.shape[-1]))

    def _square(self, a: Any, b: Any) -> Any:
        rows, columns = a.shape[0], b.shape[1]
        left, right = (self.memory.read(_square(x, self._side)) for x in (a, b))
        result = self.memory.reserve(self.inside.multiply(left, right))
        self.memory.free(left)
        self.memory.free(right)
        return self.memory.write(result)[:rows, :columns]


def _square(x: Any, side: int) -> Any:
    result = np.zeros((side, side), x.dtype)
    result[: x.shape[0], : x.shape[1]] = x
    return result


class ExternalArray(np.ndarray[Any, Any]):
    """A NumPy array in the external memory: every word that NumPy reads or writes of it is an I/O.

    Views move nothing.  Arithmetic reads a word of each array among its
    operands, and writes one, for every word of its result; a copy reads and
    writes each word; a sum reads each, and writes its result.  A product of
    matrices does so for each of its elementary products, sorting and bisection
    for each comparison.  What takes more steps than that, such as a Fourier
    transform by NumPy, raises ParameterError.

    Not seen is what reads the memory below: ``np.asarray(x)``, ``x.view`` and
    :meth:`get`.
    """

    memory: InternalMemory

    def __array_finalize__(self, source: Any) -> None:
        if isinstance(source, ExternalArray):
            self.memory = source.memory

    def get(self) -> Any:
        """The words outside the model, as a NumPy array."""
        return self.view(np.ndarray)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        memory = self.memory
        result = getattr(ufunc, method)(*_plain(inputs), **_plain(kwargs))
        results = result if isinstance(result, tuple) else (result,)
        arrays = [x for x in inputs if np.ndim(x)]
        if method == "__call__":
            # Products of matrices and vectors are the ufuncs with a signature.
            each = 1 if ufunc.signature is None else np.shape(inputs[0])[-1]
            memory.steps(max(np.size(x) for x in results) * each, len(arrays), len(results))
        elif method == "at":
            memory.steps(np.size(inputs[1][0] if isinstance(inputs[1], tuple) else inputs[1]), 2)
            return None
        else:
            memory.steps(np.size(inputs[0]), 1, 0)
            memory.steps(np.size(result), 0)
        if "out" in kwargs:
            return kwargs["out"][0]
        return _external(result, memory)

    def __array_function__(self, function: Callable[..., Any], types: Any, args: Any, kwargs: Any) -> Any:
        if function in _UNCOUNTED or function.__module__ in ("numpy.linalg", "numpy.fft"):
            raise _uncounted(f"{function.__module__}.{function.__name__}")
        result = function(*_plain(args), **_plain(kwargs))
        if function not in _FREE:
            self._count(function, [*_arrays(args), *_arrays(kwargs)], result)
        return _external(result, self.memory)

    def _count(self, function: Callable[..., Any], operands: list[Any], result: Any) -> None:
        """What a function moves that is no ufunc."""
        steps = self.memory.steps
        made = _arrays(result)
        if made and all(any(np.may_share_memory(x, y) for y in operands) for x in made):
            return  # views
        written = sum(x.size for x in made)
        if function in _SORTS:
            comparisons = operands[0].size * max(1, len(operands[0])).bit_length()
            steps(comparisons, 2, 0)
            steps(comparisons, 1)
        elif function is np.searchsorted:
            steps(np.size(result) * max(1, len(operands[0])).bit_length(), 2, 0)
            steps(written, 0)
        elif function in _PRODUCTS:
            steps(np.size(result) * operands[0].shape[-1], 2)
        else:
            # What makes an array of nothing, such as zeros, reads nothing.
            read = sum(x.size for x in operands)
            if read and function is not np.nonzero:
                read = written if function in _PARTS else max(read, written)
            steps(written, 0)
            steps(read, 1, 0)

    def __getitem__(self, key: Any) -> Any:
        plain = _plain(self)
        result = plain[_plain(key)]
        if not isinstance(result, np.ndarray):
            self.memory.steps(1, 1, 0)
        elif not np.may_share_memory(result, plain):
            self.memory.steps(result.size, 1)
        return _external(result, self.memory)

    def __setitem__(self, key: Any, value: Any) -> None:
        plain = _plain(self)
        target = plain[_plain(key)]
        self.memory.steps(np.size(target), int(bool(np.ndim(value))))
        plain[_plain(key)] = _plain(value)

    def reshape(self, *shape: Any, **options: Any) -> Any:
        return self._moved(_plain(self).reshape(*shape, **options))

    def ravel(self, *order: Any) -> Any:
        return self._moved(_plain(self).ravel(*order))

    def astype(self, *dtype: Any, **options: Any) -> Any:
        return self._moved(_plain(self).astype(*dtype, **options))

    def copy(self, *order: Any) -> Any:
        return self._moved(_plain(self).copy(*order))

    def flatten(self, *order: Any) -> Any:
        return self._moved(_plain(self).flatten(*order))

    def sort(self, *axis: Any, **options: Any) -> None:
        plain = _plain(self)
        self._count(np.sort, [plain], plain.copy())
        plain.sort(*axis, **options)

    def fill(self, value: Any) -> None:
        self[...] = value

    def item(self, *place: Any) -> Any:
        self.memory.steps(1, 1, 0)
        return _plain(self).item(*place)

    def tolist(self) -> Any:
        self.memory.steps(self.size, 1, 0)
        return _plain(self).tolist()

    def tobytes(self, *order: Any) -> Any:
        self.memory.steps(self.size, 1, 0)
        return _plain(self).tobytes(*order)

    @property
    def flat(self) -> Any:
        self.memory.steps(self.size, 1, 0)
        return _plain(self).flat

    def _moved(self, result: Any) -> Any:
        if not np.may_share_memory(result, _plain(self)):
            self.memory.steps(result.size, 1)
        return _external(result, self.memory)


_FREE = {
    np.empty, np.empty_like, np.shape, np.ndim, np.size, np.iscomplexobj, np.isrealobj, np.result_type,
    np.may_share_memory, np.shares_memory,
}  # fmt: skip
"""They look at no word."""
_PARTS = {np.take, np.repeat}
"""Of their operand they read what they write, and no more."""
_SORTS = {np.sort, np.argsort}
_PRODUCTS = {np.dot, np.inner, np.vdot}
_UNCOUNTED = {
    np.einsum, np.tensordot, np.convolve, np.correlate, np.lexsort, np.unique, np.partition, np.argpartition,
    np.interp, np.median, np.percentile, np.quantile, np.histogram,
}  # fmt: skip
"""They take more steps than they touch words."""
_BY_FUNCTION = (
    "argmax", "argmin", "argpartition", "argsort", "choose", "dot", "nonzero", "put", "repeat", "searchsorted",
    "take", "trace",
)  # fmt: skip
"""Methods that NumPy carries out below its functions."""
_REFUSED = ("byteswap", "compress", "dump", "dumps", "partition", "resize", "setfield", "tofile")


def _by_function(name: str) -> Callable[..., Any]:
    function = getattr(np, name)

    def method(self: Any, *args: Any, **options: Any) -> Any:
        return function(self, *args, **options)

    return method


def _refused(name: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **options: Any) -> Any:
        raise _uncounted(f"ndarray.{name}")

    return method


def _uncounted(name: str) -> ParameterError:
    return ParameterError(
        f"{name}: its steps are not counted in an external memory; "
        "write it by operations of machine.cpu and machine.multiply"
    )


for _name in _BY_FUNCTION:
    setattr(ExternalArray, _name, _by_function(_name))
for _name in _REFUSED:
    setattr(ExternalArray, _name, _refused(_name))


def _external(values: Any, memory: InternalMemory) -> Any:
    """The array in that memory; whatever is no array as it is."""
    if isinstance(values, tuple | list):
        return type(values)(_external(x, memory) for x in values)
    if not isinstance(values, np.ndarray):
        return values
    result = values.view(ExternalArray)
    result.memory = memory
    return result


def _plain(value: Any) -> Any:
    """Arguments with NumPy's arrays in place of external ones."""
    if isinstance(value, ExternalArray):
        return value.view(np.ndarray)
    if isinstance(value, tuple | list):
        return type(value)(_plain(x) for x in value)
    if isinstance(value, dict):
        return {name: _plain(x) for name, x in value.items()}
    return value


def _arrays(value: Any) -> list[Any]:
    """The arrays among arguments."""
    if isinstance(value, np.ndarray):
        return [value.view(np.ndarray)]
    if isinstance(value, dict):
        value = tuple(value.values())
    return [x for each in value for x in _arrays(each)] if isinstance(value, tuple | list) else []
