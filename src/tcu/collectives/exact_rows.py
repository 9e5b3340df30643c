"""Exact sums along axes and of ragged segments: one rounding each, so the order does not matter.

The law: each element of the result has the bits that ``tcu.fsum`` gives for
its row or segment alone.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tcu.collectives.exact import ExactSum
from tcu.collectives.results import target_of
from tcu.collectives.rows import on_gpu, reduced_axes, reduced_shape, row_pieces
from tcu.collectives.segments import checked_offsets
from tcu.errors import InvalidOperationError
from tcu.formats.array import lives_on_gpu
from tcu.formats.format import Format
from tcu.formats.tensor import is_tensor
from tcu.model import compiled, threads
from tcu.model.elements import Elements

__all__ = ["Operation", "reduce", "segments_on_host"]

_PIECE = 1 << 18
"""Numbers that one thread takes at a time."""
_LONG = 1 << 20
"""Rows of that length are summed one after another, each by all threads."""

Operation = Literal["fsum", "fmean"]


def reduce(operation: Operation, x: Any, axis: Any, keepdims: bool, dtype: Any, out: Any) -> Any:
    """What ``tcu.fsum`` and ``tcu.fmean`` do where an axis is given."""
    if is_tensor(x):
        import tcu.collectives.torch_rows as torch_rows

        return torch_rows.reduce(operation, x, axis, keepdims, (dtype,), out, False, None)
    if lives_on_gpu(x):
        axes = reduced_axes(axis, len(x.shape))
        return on_gpu(operation, x, axes, keepdims, (dtype,), out, False, None)
    elements = x if isinstance(x, Elements) else Elements(x)
    array = elements.array
    axes = reduced_axes(axis, array.ndim)
    n = math.prod(array.shape[i] for i in axes)
    shape = reduced_shape(array.shape, axes, keepdims)
    target = target_of(elements.format, dtype, out, shape)
    kept = [i for i in range(array.ndim) if i not in axes]
    left = tuple(array.shape[i] for i in kept)
    rows = array.transpose(*kept, *axes)
    codes = np.empty(math.prod(shape), target.code_dtype)
    if n >= _LONG:
        for number, where in enumerate(np.ndindex(left)):
            codes[number] = _alone(operation, Elements(rows[where]), target, f"row {where}")
    else:

        def work(piece: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], int]:
            count = math.prod(piece.shape[: piece.ndim - len(axes)])
            line = np.require(piece.reshape(-1), elements.format.dtype, ["C", "A"])
            starts = n * np.arange(count)
            return _sums(operation, line, elements.format, starts, starts + n, target)

        at = 0
        for found, clash in threads.in_order(work, row_pieces(rows, len(kept), max(1, _PIECE // max(n, 1)))):
            if clash >= 0:
                where = np.unravel_index(at + clash, left)
                raise _clash(f"row {tuple(int(i) for i in where)}")
            codes[at : at + found.size] = found
            at += found.size
    return _given(codes, target, shape, out)


def segments_on_host(operation: Operation, x: Any, offsets: Any, dtype: Any, out: Any) -> Any:
    """What ``tcu.segment_fsum`` and ``tcu.segment_fmean`` do with an array in the host's memory."""
    elements = x if isinstance(x, Elements) else Elements(x)
    edges = checked_offsets(offsets, elements.n)
    count = edges.size - 1
    target = target_of(elements.format, dtype, out, (count,))
    codes = np.empty(count, target.code_dtype)
    lengths = np.diff(edges)
    for i in np.flatnonzero(lengths >= _LONG):
        piece = Elements(elements.array[edges[i] : edges[i + 1]])
        codes[i] = _alone(operation, piece, target, f"segment {i}")
    short = np.where(lengths < _LONG, lengths, 0)

    def work(where: tuple[int, int]) -> tuple[npt.NDArray[Any], int]:
        first, last = where
        begin = int(edges[first])
        line = elements.read(begin, int(edges[last]))
        starts = edges[first:last] - begin
        stops = starts + short[first:last]
        return _sums(operation, line, elements.format, starts, stops, target)

    at = 0
    for found, clash in threads.in_order(work, _runs(edges, short)):
        if clash >= 0:
            raise _clash(f"segment {at + clash}")
        here = slice(at, at + found.size)
        codes[here] = np.where(lengths[here] < _LONG, found, codes[here])
        at += found.size
    return _given(codes, target, (count,), out)


def _runs(edges: npt.NDArray[np.int64], short: npt.NDArray[np.int64]) -> Any:
    """Segments one after another with about ``_PIECE`` numbers together, and no long one among others."""
    cuts = np.floor_divide(np.cumsum(short) + np.arange(short.size), _PIECE)
    is_long = np.diff(edges) != short
    new = np.ones(short.size, np.bool_)  # where a run begins
    new[1:] = (cuts[1:] != cuts[:-1]) | is_long[1:] | is_long[:-1]
    firsts = np.flatnonzero(new).tolist()
    return pairwise([*firsts, short.size])


def _sums(
    operation: Operation, line: npt.NDArray[Any], fmt: Format, starts: npt.NDArray[np.int64],
    stops: npt.NDArray[np.int64], target: Format,
) -> tuple[npt.NDArray[Any], int]:  # fmt: skip
    """(codes of the sums of the pieces of a line, the first that has no value or -1)."""
    out = np.empty(starts.size, target.code_dtype)
    goal = np.array([target.fraction_bits, target.bias, _fields(target), target.nan_code], np.int64)
    clash = compiled.load("exact_rows").sum_rows_exactly(
        line.view(f"i{fmt.dtype.itemsize}"), starts, stops, fmt.fraction_bits, fmt.bias, _fields(fmt),
        operation == "fmean", goal, out,
    )  # fmt: skip
    return out, int(clash)


def _fields(fmt: Format) -> int:
    """The exponent field of inf."""
    return (1 << fmt.exponent_bits) - 1


def _alone(operation: Operation, elements: Elements, target: Format, name: str) -> int:
    """The code of one long row."""
    total = ExactSum().add(elements)
    try:
        value = total.value(target.dtype) if operation == "fsum" else total.mean(target.dtype)
    except InvalidOperationError:
        raise _clash(name) from None
    return int(np.array([value]).view(target.code_dtype)[0])


def _clash(name: str) -> InvalidOperationError:
    return InvalidOperationError(
        f"{name} holds inf and -inf, so its sum has no value: find them with numpy.isinf and remove them"
    )


def _given(codes: npt.NDArray[Any], target: Format, shape: tuple[int, ...], out: Any) -> Any:
    result = codes.view(target.dtype).reshape(shape)
    if out is None:
        return result[()]
    out[...] = result
    return out
