"""What a product of tensors on a GPU leaves for those like it: a launch that lacks nothing but addresses.

As :mod:`tcu.surfaces.torch.launch_cache`, which says why, is for sums.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial
from typing import Any

from tcu.engines import load_cuda
from tcu.formats.format import named_format
from tcu.ops.matmul import FACTORS, MatmulCall
from tcu.surfaces.torch import launch_cache
from tcu.surfaces.torch.watch import PLAIN, in_graph, is_watched

__all__ = ["again", "keeper", "key_of", "shortcut"]


class _Call:
    """A call like one before."""

    __slots__ = ("_dtype", "_factors", "_room", "_shape", "_start", "_strides", "ordinal")

    def __init__(self, call: MatmulCall, start: Any, room: int, result: Any) -> None:
        self._start, self._room = start, room
        self._shape, self._strides, self._dtype = tuple(result.shape), result.stride(), result.dtype
        self.ordinal = result.get_device()
        factors = call[2:5]
        self._factors = (
            [_factor(name, x) for name, x in zip(FACTORS, factors, strict=True)]
            if any(_given(factors))
            else []
        )

    def __call__(self, call: MatmulCall) -> Any:
        """The result; None where only the long way leads there."""
        result = launch_cache._empty(self._shape, self._strides, self._dtype)
        out, room = result.data_ptr(), 0
        if out % launch_cache._ALIGNMENT:  # an allocator of the program's own
            return None
        factors = [
            each(x.data_ptr()) if type(each) is partial else each
            for each, x in zip(self._factors, call[2:5], strict=False)
        ]
        if self._room:
            place = launch_cache._empty((self._room // 8,), (1,), launch_cache._int64)
            room = place.data_ptr()
        stream = launch_cache._raw_stream(self.ordinal)
        try:
            self._start(call.a.data_ptr(), call.b.data_ptr(), out, factors, stream, room)
        except RuntimeError:  # a thread without a context, which the long way makes
            return None
        return result


def _given(factors: tuple[Any, ...]) -> list[bool]:
    return [x is not None for x in factors]


def _factor(name: str, x: Any) -> Any:
    """As kernels take it; of a vector, what makes it of its address."""
    engine = load_cuda()
    if type(x) not in PLAIN:
        return engine.constant_factor(name, x)
    return partial(engine.vector_factor, fmt=named_format(x.dtype).name, step=x.stride(0) if x.dim() else 0)


_calls: dict[Hashable, _Call] = {}


def shortcut(call: MatmulCall) -> Any:
    """The result of a call of plain tensors that is like one before; None where only the long way leads there."""
    if call.out is not None or in_graph() or is_watched(call.a, call.b) or not call.a.is_cuda:
        return None
    return again(call)


def again(call: MatmulCall) -> Any:
    """The same of tensors that nobody watches."""
    try:
        found = _calls.get(key_of(call))
    except TypeError:  # options that cannot be hashed: the long way says what is wrong with them
        return None
    if found is None or launch_cache._current_gpu() != found.ordinal:
        return None
    return found(call)


def key_of(call: MatmulCall) -> Hashable:
    """What tells a call from others, addresses left out: what a launch depends on; None for no such key."""
    a, b = call.a, call.b
    if not (launch_cache._has_plain_memory(a) and launch_cache._has_plain_memory(b)):
        return None
    first, second = a.data_ptr(), b.data_ptr()
    if not (first and second):  # elements without memory, or none
        return None
    factors: list[Any] = []
    for x in call[2:5]:
        if type(x) in PLAIN:
            if is_watched(x, x) or not (launch_cache._has_plain_memory(x) and x.data_ptr()):
                return None
            factors.append((x.dtype, x.shape, x.stride(), x.get_device()))
        elif x is None or type(x) is float or type(x) is int:
            factors.append(x)
        else:
            return None
    return (
        call.options, a.dtype, a.shape, a.stride(), a.get_device(), b.dtype, b.shape, b.stride(), b.get_device(),
        first % launch_cache._ALIGNMENT, second % launch_cache._ALIGNMENT, *factors,
    )  # fmt: skip


def keeper(call: MatmulCall) -> Any:
    """What takes the launch of a call, for others like it; None where there are none."""
    key = None if call.out is not None else key_of(call)
    return None if key is None else partial(_keep, key, call._replace(a=None, b=None))


def _keep(key: Hashable, call: MatmulCall, start: Any, room: int, result: Any) -> None:
    if result.data_ptr() % launch_cache._ALIGNMENT:
        return
    if len(_calls) >= launch_cache._MOST:
        _calls.clear()
    _calls[key] = _Call(call, start, room, result)
