"""What a call with PyTorch tensors on a GPU leaves for those like it: a launch that lacks nothing but addresses.

To look at tensors, to find the launch and to ask for memory takes longer than
all the rest of a small call.  The first call of a kind goes the long way, and
so does every call that is not for plain tensors with numbers in memory.
"""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import suppress
from functools import partial, reduce
from operator import attrgetter, or_
from typing import TYPE_CHECKING, Any

import torch

from tcu.engines import load_cuda
from tcu.formats.tensor import is_tensor
from tcu.ops.layout import Along, Layout, Ragged, reduced_axes
from tcu.ops.offsets import checked_offsets
from tcu.ops.operation import Operation
from tcu.surfaces.torch.watch import PLAIN, hidden, in_graph, is_mode_on, is_watched

if TYPE_CHECKING:
    from tcu.engines.cuda.sums import Order

__all__ = ["again", "keeper", "key_of", "known", "shortcut"]

_MOST = 4096
"""Calls that are kept; beyond it all are found anew."""
_ALIGNMENT = 16
"""Bytes at whose multiples a launch may have seen an array begin."""


class _NoGuards:
    """Where PyTorch has none to lend, every call is told by its key."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def check(self, *_: Any) -> bool:
        return False


_raw_stream = hidden(
    torch._C, "_cuda_getCurrentRawStream", lambda ordinal: torch.cuda.current_stream(ordinal).cuda_stream
)
_current_gpu = hidden(torch._C, "_cuda_getDevice", torch.cuda.current_device)
_dynamo = hidden(hidden(torch._C, "_dynamo", None), "guards", None)
_empty = hidden(
    _dynamo,
    "_empty_strided_cuda",  # a third of the time of torch.empty
    lambda shape, strides, dtype: torch.empty_strided(shape, strides, dtype=dtype, device="cuda"),
)
_capturing = hidden(torch._C, "_cuda_isCurrentStreamCapturing", torch.cuda.is_current_stream_capturing)
_guards = hidden(_dynamo, "TensorGuards", _NoGuards)
_on_gpu = attrgetter("is_cuda")
_strided, _int64, _int32, _contiguous = torch.strided, torch.int64, torch.int32, torch.contiguous_format


class _Call:
    """A call like one before."""

    __slots__ = (
        "_back", "_dtype", "_order", "_room", "_shape", "_start", "_strides", "alignment", "fits", "ordinal", "others",
    )  # fmt: skip

    def __init__(self, ready: Any, result: Any, order: Order, back: Order) -> None:
        self._start, self._room, self._order, self._back = ready.start, ready.room, order, back
        self._shape, self._strides, self._dtype = tuple(result.shape), result.stride(), result.dtype
        self.ordinal = result.get_device()
        self.others = torch.cuda.device_count() > 1
        """Whether there are GPUs of which another may be the current one."""
        self.fits, self.alignment = _NoGuards().check, 0
        """Whether tensors are like those that :meth:`expect` had: type, dtype, device, shape, strides, and all by which the
        dispatcher would do something else with them, transformations included."""

    def expect(self, *tensors: Any) -> bool:
        """Know tensors like these by one look; False where they are copied first, or somebody may watch them."""
        if not self.fits(*tensors):
            is_copied = self._order is not None or self._back is not None
            if is_copied or any(each.requires_grad for each in tensors):
                return False
            self.alignment = reduce(or_, (each.data_ptr() for each in tensors)) % _ALIGNMENT
            self.fits = _guards(*tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None).check
        return True

    def __call__(self, x: Any, other: Any) -> Any:
        """The result; None where only the long way leads there."""
        if self._order is not None:
            copy = x.permute(self._order).clone(memory_format=_contiguous)
            x, other = copy, copy if other is x else other
            if x.data_ptr() % _ALIGNMENT:  # an allocator of the program's own
                return None
        result = self.at(x.data_ptr(), other.data_ptr())
        if result is not None and self._back is not None:
            result = result.permute(self._back).clone(memory_format=_contiguous)
        return result

    def at(self, x: int, other: int) -> Any:
        """What is computed of the numbers at these addresses."""
        result = _empty(self._shape, self._strides, self._dtype)
        out = result.data_ptr()
        if out % _ALIGNMENT:
            return None
        try:
            if self._room:
                room = _empty((self._room,), (1,), _int64)
                self._start(x, other, out, _raw_stream(self.ordinal), room.data_ptr())
            else:
                self._start(x, other, out, _raw_stream(self.ordinal))
        except RuntimeError:  # a thread without a context, which the long way makes
            return None
        return result


_calls: dict[Hashable, _Call] = {}
"""By what tells calls apart; and the last one of each place in a program, by what is written there."""


def known(
    operation: Operation, x: Any, other: Any, axis: Any, keepdims: Any, options: tuple[Any, ...], check: bool = False
) -> Any:  # fmt: skip
    """The result of a call that is like the last one of its place; None where another way leads there.

    ``other``: the other operand, or offsets; or x.  ``keepdims`` is None of segments.
    """
    if in_graph() or type(x) not in PLAIN:
        return None
    given = None if options is operation.defaults else _with_types(options)
    if axis is not None and type(axis) is not int:
        axis = _with_types(axis)
    try:
        last = _calls.get((operation, given, axis, keepdims, x is other, x.numel()))
    except TypeError:  # what cannot be hashed
        return None
    if last is None or not (last.fits(x) if x is other else last.fits(x, other)) or is_mode_on():
        return None
    first = x.data_ptr()
    second = first if x is other else other.data_ptr()
    if not (first and second) or (first | second) % _ALIGNMENT != last.alignment:
        return None
    if last.others and _current_gpu() != last.ordinal:
        return None
    return _by_offsets(last, x, other, True, True) if check else last.at(first, second)


def _place_of(
    operation: Operation, arrays: tuple[Any, ...], layout: Layout, options: tuple[Any, ...]
) -> Hashable:
    """What :func:`known` asks for: what a program writes there, and how many numbers there are, by which most shapes differ."""
    axis, keepdims = layout if type(layout) is Along else (None, None if type(layout) is Ragged else False)
    if axis is not None and type(axis) is not int:
        axis = _with_types(axis)
    given = None if options is operation.defaults else _with_types(options)
    same = type(layout) is not Ragged and arrays[0] is arrays[-1]
    return operation, given, axis, keepdims, same, arrays[0].numel()


def shortcut(operation: Operation, arrays: tuple[Any, ...], layout: Layout, options: tuple[Any, ...]) -> Any:
    """The result of a call of plain tensors that is like one before; None where only the long way leads there."""
    if in_graph():
        return None
    x, other = arrays[0], arrays[-1]
    if type(x) not in PLAIN or not _on_gpu(x):  # asked first: calls on the host pay for no more than this
        return None
    if type(layout) is Ragged and is_tensor(layout.offsets):
        other = layout.offsets
    if is_watched(x, other):
        return None
    key = key_of(operation, arrays, layout, options)
    result = again(key, arrays, layout)
    if result is not None:
        _expect(_place_of(operation, arrays, layout, options), _calls.get(key), x, other)
    return result


def _expect(place: Hashable, call: _Call | None, x: Any, other: Any) -> None:
    """Know the call by its place from now on, where tensors like these are read as they lie."""
    if call is None or not (other.dtype is x.dtype or _lies_plainly(other, _int64, call.ordinal)):
        return
    if call.expect(*((x,) if x is other else (x, other))):
        with suppress(TypeError):  # such as an axis in a list, which cannot be hashed
            _calls[place] = call


def _with_types(given: Any) -> Hashable:
    """Options, or axes, as part of a key, where 64.0 or True must not pass for a number."""
    return given, *map(type, given if isinstance(given, tuple) else (given,))


def key_of(
    operation: Operation, arrays: tuple[Any, ...], layout: Layout, options: tuple[Any, ...]
) -> Hashable:
    """What tells a call from others, addresses left out: what a launch depends on; None for no such key."""
    x = arrays[0]
    if not _has_plain_memory(x):
        return None
    address = x.data_ptr()
    given = None if options is operation.defaults else _with_types(options)
    if not address:  # elements without memory, or none
        return None
    if type(layout) is Along:
        axis = layout.axis
        axes = axis if type(axis) is int or axis is None else reduced_axes(axis, x.dim())
        where: Any = (axes, bool(layout.keepdims))
        if (y := arrays[-1]) is not x:
            if not _alike(x, y) or not x.is_contiguous():
                return None
            where, address = (*where, "pairs"), address | y.data_ptr()
    elif type(layout) is Ragged:
        if not is_tensor(layout.offsets) or arrays[-1] is not x:
            return None
        where = layout.offsets.shape
    else:
        y = arrays[-1]
        if y is not x:
            if not _alike(x, y):
                return None
            address |= y.data_ptr()
        if not x.is_contiguous():
            return None
        return operation, given, y is x, x.dtype, x.numel(), x.get_device(), address % _ALIGNMENT
    return operation, given, where, x.dtype, x.shape, x.stride(), x.get_device(), address % _ALIGNMENT


def _alike(x: Any, y: Any) -> bool:
    lies = is_tensor(y) and _lies_plainly(y, x.dtype, x.get_device())
    return bool(lies and y.data_ptr() and y.shape == x.shape)


def _lies_plainly(x: Any, dtype: Any, ordinal: int) -> bool:
    """Whether a kernel on that GPU reads a line of numbers of that dtype as it lies."""
    return bool(_has_plain_memory(x) and x.dtype is dtype and x.get_device() == ordinal and x.is_contiguous())


def _has_plain_memory(x: Any) -> bool:
    """Whether its numbers lie in memory as they are."""
    return bool(x.layout is _strided and not x.is_nested and not x.is_neg())


def again(key: Hashable, arrays: tuple[Any, ...], layout: Layout) -> Any:
    """The result of a call of that key on tensors that fit it; None if the long way is left."""
    try:
        found = _calls.get(key)
    except TypeError:  # options that cannot be hashed: the long way says what is wrong with them
        return None
    if found is None or _current_gpu() != found.ordinal:
        return None
    x = arrays[0]
    return _again_in_segments(found, x, layout) if type(layout) is Ragged else found(x, arrays[-1])


def _again_in_segments(found: _Call, x: Any, layout: Ragged) -> Any:
    """With offsets as the caller gave them; raises what is raised for wrong ones."""
    offsets, check = layout
    ordinal, wide = found.ordinal, offsets.dtype is _int64
    if (
        not (wide or offsets.dtype is _int32) or offsets.get_device() != ordinal or not _has_plain_memory(offsets)
        or not offsets.data_ptr()
    ):  # fmt: skip
        engine = load_cuda()
        library, _ = engine.sums.home_of((x,))
        with engine.sums.current(ordinal):
            stream = _raw_stream(ordinal)
            return found(
                x, engine.offsets.device_offsets(library, x, offsets, x.numel(), ordinal, stream, check).owner
            )
    is_plain = wide and offsets.is_contiguous()
    return found(x, offsets) if is_plain and not check else _by_offsets(found, x, offsets, is_plain, check)


def _by_offsets(found: _Call, x: Any, offsets: Any, is_plain: bool, check: bool) -> Any:
    """A call whose offsets are copied or looked at; None if the long way is left.

    Few offsets are copied, and the sums by the copy follow before the GPU has answered: wrong ones are zeros there.
    """
    (count,), (stride,), n, answer, edges = offsets.shape, offsets.stride(), x.numel(), None, offsets
    try:
        if check and _capturing():
            return None  # the long way says why not
        launch = load_cuda().offsets.offsets_launch(count, stride, offsets.dtype is _int64, n, found.ordinal)
        at, to, stream = offsets.data_ptr(), 0, _raw_stream(found.ordinal)
        if not is_plain or (check and launch.few):
            edges = _empty((count,), (1,), _int64)
            to = edges.data_ptr()
        if check:
            answer = launch.ask(at, to, stream)
        else:
            launch.copy(at, to, stream)
    except RuntimeError:  # as of the launch itself
        return None
    if answer is None:
        return found(x, edges)
    result = found(x, edges) if launch.few else None
    if not answer.is_right():
        checked_offsets(offsets.cpu(), n)  # says what is wrong
        return None  # somebody has put them right meanwhile
    return result if launch.few else found(x, edges)


def keeper(key: Hashable) -> Any:
    """What takes the launch of a call and its result, for others of that key; None without one."""
    return None if key is None else partial(_keep, key)


def _keep(key: Hashable, ready: Any, result: Any, order: Order = None, back: Order = None) -> None:
    if result.data_ptr() % _ALIGNMENT:
        return
    if len(_calls) >= _MOST:
        _calls.clear()
    _calls[key] = _Call(ready, result, order, back)
