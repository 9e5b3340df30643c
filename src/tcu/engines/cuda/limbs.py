"""Long integers in limbs in a GPU's memory: products by the schoolbook or by transforms, the transforms themselves, and powers
modulo odd numbers.
"""

from __future__ import annotations

import math
import sys
from functools import lru_cache
from itertools import accumulate
from typing import Any

import numpy as np

from tcu.engines.cuda.sums import home_of
from tcu.errors import ParameterError
from tcu.formats.array import in_host_memory
from tcu.gpu import limbs, modular_powers, ntt, staging
from tcu.gpu.arrays import DeviceArray, Library
from tcu.gpu.device import call, current, find_gpu
from tcu.gpu.launch import Launch
from tcu.gpu.mma import allocated
from tcu.plan.ntt import product_length

__all__ = ["modular", "multiply_limbs", "product_on_gpu", "transform_rows"]

_DEFAULT_STREAM = 0
_ROOM = 1 << 27
"""Numbers of 8 bytes that the transforms of a launch have, or those of one product; rows of more take turns."""


def multiply_limbs(a: Any, b: Any) -> Any:
    """Products of (..., la) and (..., lb) limbs, of la + lb; the same array twice is transformed once.

    Raises ParameterError for arrays of two GPUs, and for products of more than 2^30 bits.
    """
    library, ordinal = home_of((a, b))
    with current(ordinal):
        stream = library.current_stream(ordinal)
        shape = np.broadcast_shapes(tuple(a.shape[:-1]), tuple(b.shape[:-1]))
        count, square = math.prod(shape), a is b
        views = [_rows(library, label, x, shape, stream) for label, x in (("a", a), ("b", b))]
        words = [x.shape[-1] * x.dtype.itemsize // 4 for x in views]
        result, out = library.empty(a, (*shape, a.shape[-1] + b.shape[-1]), views[0].dtype, ordinal)
        if not count:
            return library.finish(result, a, stream)
        strides = [
            each if math.prod(x.shape[:-1]) > 1 or count == 1 else 0
            for x, each in zip(views, words, strict=True)
        ]
        first, second = 0, 1
        by_transforms = sum(words) > limbs.MOST_LIMBS
        # The schoolbook has copies of the shorter number; a transform's place is the product's, so it has a row for each.
        if (not strides[0]) if by_transforms else words[0] < words[1]:
            first, second = 1, 0
        given = words[first], words[second], strides[first], strides[second]
        if not by_transforms:
            _schoolbook(count, *given, ordinal).start(
                views[first].address, views[second].address, out, stream
            )
            return library.finish(result, a, stream)
        levels = _levels(*words)
        together = max(1, _ROOM >> levels + 1)
        for done in range(0, count, together):
            rows = min(together, count - done)
            launch = _by_transforms(rows, *given, levels, square, ordinal)
            _, room = library.empty(a, (launch.room,), np.dtype(np.int64), ordinal)
            x, y = (views[i].address + 4 * strides[i] * done for i in (first, second))
            launch.start(x, y, out + 4 * sum(words) * done, stream, room)
        return library.finish(result, a, stream)


def product_on_gpu(a: Any, b: Any) -> Any:
    """The product of two lines of uint32 in the host's memory, which go to the first GPU, and come back; the same line twice
    is transformed once.
    """
    square = a is b
    if len(a) < len(b):
        a, b = b, a
    words = len(a) + len(b)
    given = len(a), len(b), len(a), len(b)
    gpu = find_gpu(0)
    with current(gpu):
        if words > limbs.MOST_LIMBS:
            launch = _by_transforms(1, *given, _levels(len(a), len(b)), square, gpu.ordinal)
        else:
            launch = _schoolbook(1, *given, gpu.ordinal)
        sizes = [4 * len(a), 0 if square else 4 * len(b), 4 * words, 8 * launch.room]
        first, second, out, room, end = accumulate((-(-size // 16) * 16 for size in sizes), initial=0)
        operands = [(first, a)] if square else [(first, a), (second, b)]

        def start(address: int) -> None:
            places = address + first, address + operands[-1][0], address + out
            launch.start(*places, _DEFAULT_STREAM, address + room)

        if end <= staging.SIZE:
            with staging.staging(gpu.ordinal) as memory:
                for begin, operand in operands:
                    memory.array(begin, np.uint32, len(operand))[:] = operand
                memory.send(out, _DEFAULT_STREAM)
                start(memory.address)
                memory.fetch(out, 4 * words, _DEFAULT_STREAM)
                return memory.array(out, np.uint32, words).copy()
        result = np.empty(words, np.uint32)
        with allocated(end) as address:
            for begin, operand in operands:
                call("cuMemcpyHtoD", address + begin, operand.ctypes.data, operand.nbytes)
            start(address)
            call("cuMemcpyDtoH", result.ctypes.data, address + out, result.nbytes)
    return result


def modular(a: Any, n: Any, m: Any, *, powers: bool, check: bool) -> Any:
    """a^n, or a·n, modulo odd m, of m's limbs; without a check 0 modulo an even number.

    Raises ParameterError for moduli that the kernel does not take.
    """
    library, ordinal = home_of((a, n))
    home_of((a, m))
    with current(ordinal):
        stream = library.current_stream(ordinal)
        shape = np.broadcast_shapes(*(tuple(x.shape[:-1]) for x in (a, n, m)))
        count = math.prod(shape)
        views = [_rows(library, label, x, shape, stream) for label, x in (("a", a), ("n", n), ("m", m))]
        first, second, third = words = [x.shape[-1] * x.dtype.itemsize // 4 for x in views]
        if third > modular_powers.MOST_LIMBS:
            raise ParameterError(
                f"m has {32 * third} bits, and a GPU's kernel takes up to {32 * modular_powers.MOST_LIMBS}: copy the "
                "arrays to the host"
            )
        for label, each in (("a", first), ("b", 0 if powers else second)):
            if each > third:
                raise ParameterError(
                    f"{label} has {32 * each} bits, more than m's {32 * third}: on a GPU give its remainder, or copy the "
                    "arrays to the host"
                )
        if check:
            _check_odd(m)
        result, out = library.empty(a, (*shape, m.shape[-1]), views[0].dtype, ordinal)
        if count:
            single = [math.prod(x.shape[:-1]) == 1 for x in views]
            x, y, z = (0 if one else each for one, each in zip(single, words, strict=True))
            launch = _modular(count, (first, second, third), (x, y, z), powers, ordinal)
            launch.start(views[0].address, views[1].address, out, stream, views[2].address)
        return library.finish(result, a, stream)


def _check_odd(m: Any) -> None:
    host = np.asarray(in_host_memory(m[..., 0]))
    even = np.argwhere(host % 2 == 0)
    if len(even):
        place = f"m[{', '.join(map(str, even[0].tolist()))}]" if host.ndim else "m"
        raise ParameterError(f"{place} is even, and on a GPU moduli are odd: copy the arrays to the host")


def transform_rows(x: Any, back: bool) -> Any:
    """:func:`tcu.integers.ntt` or its inverse, of rows of uint64.

    Raises ParameterError for rows of more than 2^26 numbers.
    """
    library, ordinal = home_of((x,))
    with current(ordinal):
        stream = library.current_stream(ordinal)
        shape, n = tuple(x.shape), int(x.shape[-1])
        levels, rows = n.bit_length() - 1, math.prod(shape[:-1])
        if levels > ntt.MOST_LEVELS:
            raise ParameterError(
                f"x has {n} numbers along its last axis: a GPU transforms up to 2^{ntt.MOST_LEVELS}; copy x to the host"
            )
        view = _rows(library, "x", x, shape[:-1], stream)
        result, out = library.empty(x, shape, view.dtype, ordinal)
        together = max(1, _ROOM >> levels)
        for done in range(0, rows, together):
            launch = _transform(levels, min(together, rows - done), back, ordinal)
            _, room = library.empty(x, (launch.room,), np.dtype(np.int64), ordinal)
            launch.start(view.address + 8 * n * done, 0, out + 8 * n * done, stream, room)
        return library.finish(result, x, stream)


def _levels(left: int, right: int) -> int:
    """Of the transforms of a product of so many words of 32 bits."""
    levels = product_length(2 * left, 2 * right).bit_length() - 1
    if levels > ntt.MOST_LEVELS:
        raise ParameterError(
            f"a product of {32 * left} and {32 * right} bits has more than 2^{ntt.MOST_LEVELS + 4}, which no kernel makes: "
            "copy the numbers to the host, or cut them into parts"
        )
    return levels


def _rows(library: Library, label: str, x: Any, shape: tuple[int, ...], stream: int) -> DeviceArray:
    """Rows without gaps: one for all, or one for each place of the shape."""
    lead = tuple(x.shape[:-1])
    if math.prod(lead) != 1 and lead != shape:
        x = _broadcast(library, label, x, (*shape, int(x.shape[-1])))
    view = library.view(label, x, stream)
    step = 1
    for extent, stride in zip(reversed(view.shape), reversed(view.strides), strict=True):
        if extent > 1 and stride != step:
            x = library.ordered(x, tuple(range(len(view.shape))))
            return library.view(label, x, stream)
        step *= extent
    return view


def _broadcast(library: Library, label: str, x: Any, shape: tuple[int, ...]) -> Any:
    if library.name == "PyTorch":
        return x.expand(shape)
    if library.name == "CuPy":
        return sys.modules["cupy"].broadcast_to(x, shape)
    raise ParameterError(
        f"{label} has shape {tuple(x.shape)}, and the result {shape[:-1]} before the limbs: arrays of this library are "
        f"broadcast where they have one number; give {label} the result's shape"
    )


@lru_cache(maxsize=1024)
def _schoolbook(count: int, a: int, b: int, a_stride: int, b_stride: int, ordinal: int) -> Launch:
    return Launch(limbs.product_recipe(count, a, b, a_stride, b_stride), find_gpu(ordinal))


@lru_cache(maxsize=1024)
def _by_transforms(
    count: int, a: int, b: int, a_stride: int, b_stride: int, levels: int, square: bool, ordinal: int
) -> Launch:  # fmt: skip
    recipe = ntt.product_recipe(count, a, b, a_stride, b_stride, levels, square=square)
    return Launch(recipe, find_gpu(ordinal))


@lru_cache(maxsize=1024)
def _transform(levels: int, rows: int, back: bool, ordinal: int) -> Launch:
    return Launch(ntt.transform_recipe(levels, rows, back=back), find_gpu(ordinal))


@lru_cache(maxsize=1024)
def _modular(
    count: int, words: tuple[int, int, int], strides: tuple[int, int, int], powers: bool, ordinal: int
) -> Launch:  # fmt: skip
    return Launch(modular_powers.modular_recipe(count, words, strides, powers=powers), find_gpu(ordinal))
