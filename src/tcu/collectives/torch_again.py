"""What a call with PyTorch tensors on a GPU leaves for those like it: a launch that lacks nothing but addresses.

To look at tensors, to find the launch and to ask for memory takes longer than
all the rest of a small call.  The first call of a kind goes the long way, and
so does every call that is not for plain tensors whose numbers lie in memory as
they are.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial
from typing import Any

import torch

from tcu.collectives.torch_shared import hidden
from tcu.formats.tensor import is_tensor

__all__ = ["again", "again_in_segments", "keeper", "key_of", "key_of_segments"]

_MOST = 4096
"""Calls that are kept; beyond it all are found anew."""
_ALIGNMENT = 16
"""Bytes at whose multiples a launch may have seen an array begin."""

_raw_stream = hidden(
    torch._C, "_cuda_getCurrentRawStream", lambda ordinal: torch.cuda.current_stream(ordinal).cuda_stream
)
_current_gpu = hidden(torch._C, "_cuda_getDevice", torch.cuda.current_device)
_empty = hidden(
    hidden(hidden(torch._C, "_dynamo", None), "guards", None),
    "_empty_strided_cuda",  # a third of the time of torch.empty
    lambda shape, strides, dtype: torch.empty_strided(shape, strides, dtype=dtype, device="cuda"),
)
_strided, _int64 = torch.strided, torch.int64


class _Call:
    """A call like one before."""

    __slots__ = ("_dtype", "_room", "_shape", "_start", "_strides", "ordinal")

    def __init__(self, ready: Any, result: Any) -> None:
        self._start, self._room = ready.start, ready.room
        self._shape, self._strides, self._dtype = tuple(result.shape), result.stride(), result.dtype
        self.ordinal = result.get_device()

    def __call__(self, x: Any, other: Any) -> Any:
        """The result; None where only the long way leads there."""
        result = _empty(self._shape, self._strides, self._dtype)
        out = result.data_ptr()
        if out % _ALIGNMENT:  # an allocator of the program's own
            return None
        addresses = x.data_ptr(), other.data_ptr(), out, _raw_stream(self.ordinal)
        try:
            if self._room:
                room = _empty((self._room,), (1,), _int64)
                self._start(*addresses, room.data_ptr())
            else:
                self._start(*addresses)
        except RuntimeError:  # a thread without a context, which the long way makes
            return None
        return result


_calls: dict[Hashable, _Call] = {}


def key_of(x: Any, *asked: Hashable) -> Hashable:
    """What tells a call with x from others, addresses left out: what a launch depends on; None for no such key.

    ``asked``: the operation and all its options.
    """
    if x.layout is not _strided or x.is_nested or x.is_neg():
        return None
    return *asked, x.dtype, x.shape, x.stride(), x.get_device(), x.data_ptr() % _ALIGNMENT


def key_of_segments(x: Any, offsets: Any, *asked: Hashable) -> Hashable:
    """As :func:`key_of`, of an operation on segments of x; there is none for offsets that are no tensor."""
    return key_of(x, *asked, offsets.shape) if is_tensor(offsets) else None


def again(key: Hashable, x: Any, other: Any) -> Any:
    """The result of a call of that key on tensors that fit it; None if the long way is left.

    ``other`` is the second operand, or x where there is none.
    """
    found = _find(key)
    return None if found is None else found(x, other)


def again_in_segments(key: Hashable, x: Any, offsets: Any, check: bool) -> Any:
    """As :func:`again`, with offsets as the caller gave them; raises what is raised for wrong ones."""
    found = _find(key)
    if found is None:
        return None
    ordinal = found.ordinal
    if (
        check or offsets.dtype is not _int64 or offsets.layout is not _strided or offsets.get_device() != ordinal
        or not offsets.is_contiguous() or offsets.is_neg()
    ):  # fmt: skip
        from tcu.collectives.device import home_of
        from tcu.collectives.device_segments import device_offsets
        from tcu.gpu.device import current

        library, _ = home_of((x,))
        with current(ordinal):
            stream = _raw_stream(ordinal)
            offsets = device_offsets(library, x, offsets, x.numel(), ordinal, stream, check).owner
    return found(x, offsets)


def keeper(key: Hashable) -> Any:
    """What takes the launch of a call and its result, for others of that key; None without one."""
    return None if key is None else partial(_keep, key)


def _find(key: Hashable) -> _Call | None:
    try:
        found = _calls.get(key)
    except TypeError:  # options that cannot be hashed: the long way says what is wrong with them
        return None
    return found if found is not None and _current_gpu() == found.ordinal else None


def _keep(key: Hashable, ready: Any, result: Any) -> None:
    if result.data_ptr() % _ALIGNMENT:
        return
    if len(_calls) >= _MOST:
        _calls.clear()
    _calls[key] = _Call(ready, result)
