"""Arrays that behave as those of a GPU's library do where there is no GPU.

They follow NumPy's protocols, as CuPy's do, and refuse what CuPy's refuse: to
become a NumPy array by themselves, or to mix with one.  A program that runs on
them keeps its arrays on the device.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from tcu.machine import Executor

__all__ = ["Elsewhere", "ElsewhereExecutor"]

_ATTRIBUTES = {
    "shape", "dtype", "ndim", "size", "nbytes", "T", "real", "imag", "reshape", "transpose", "swapaxes", "astype",
    "copy", "conj", "sum", "ravel", "max", "min", "view", "fill", "any", "all", "take", "flat",
}  # fmt: skip


class Elsewhere(NDArrayOperatorsMixin):
    """A NumPy array behind glass; ``get()`` copies it to the host, as CuPy's does."""

    def __init__(self, values: Any) -> None:
        self._values = np.asarray(values)

    def get(self) -> Any:
        return self._values.copy()

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError("implicit conversion to a NumPy array: use get()")

    def __getattr__(self, name: str) -> Any:
        if name not in _ATTRIBUTES:
            raise AttributeError(name)
        found = getattr(self._values, name)
        return _outside(lambda *args, **kw: found(*_inside(args), **_inside(kw))) if callable(found) and not isinstance(found, np.dtype) else _wrapped(found)  # fmt: skip

    def __len__(self) -> int:
        return len(self._values)

    def __bool__(self) -> bool:
        return bool(self._values)

    def __int__(self) -> int:
        return int(self._values)

    def __float__(self) -> float:
        return float(self._values)

    def __index__(self) -> int:
        return self._values.__index__()

    def __getitem__(self, key: Any) -> Any:
        return _wrapped(self._values[_inside(key)])

    def __setitem__(self, key: Any, value: Any) -> None:
        self._values[_inside(key)] = _inside(value)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        _refuse_hosts(inputs)
        return _wrapped(getattr(ufunc, method)(*_inside(inputs), **_inside(kwargs)))

    def __array_function__(self, function: Any, _: Any, args: Any, kwargs: Any) -> Any:
        if function not in (np.asarray, np.array):
            _refuse_hosts(args)
        return _wrapped(function(*_inside(args), **_inside(kwargs)))


def _outside(call: Any) -> Any:
    return lambda *args, **kwargs: _wrapped(call(*args, **kwargs))


def _inside(value: Any) -> Any:
    if isinstance(value, Elsewhere):
        return value._values
    if isinstance(value, tuple | list):
        return type(value)(_inside(each) for each in value)
    if isinstance(value, dict):
        return {key: _inside(each) for key, each in value.items()}
    return value


def _wrapped(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return Elsewhere(value)
    if isinstance(value, tuple | list) and any(isinstance(each, np.ndarray) for each in value):
        return type(value)(_wrapped(each) for each in value)
    return value


def _refuse_hosts(values: Any) -> None:
    for value in values:
        if isinstance(value, np.ndarray) and value.ndim:
            raise TypeError(f"unsupported type {type(value)}: move it to the device first")
        if isinstance(value, tuple | list):
            _refuse_hosts(value)


class ElsewhereExecutor(Executor):
    """Another executor for such arrays, counting how many crossed."""

    def __init__(self, inside: Executor) -> None:
        self._executor = inside
        self.dtypes = inside.dtypes
        self.name = f"elsewhere: {inside.name}"

    def check_side(self, side: int) -> None:
        self._executor.check_side(side)

    def place(self, values: Any) -> Elsewhere:
        return Elsewhere(values)

    def multiply(self, a: Any, b: Any) -> Any:
        assert isinstance(a, Elsewhere), type(a)
        assert isinstance(b, Elsewhere), type(b)
        return Elsewhere(self._executor.multiply(a._values, b._values))
