"""Integers where they lie, on a GPU, in a graph or in chunks: added up by the arrays' own library.

Exact modulo 2^64, as PyTorch's, CuPy's and Dask's own sums are: nobody waits for
a result here, so one that int64 does not hold cannot raise an error.
"""

from __future__ import annotations

from typing import Any

from tcu.engines.host.integers import check_options
from tcu.errors import DtypeError, ParameterError
from tcu.formats.array import in_host_memory
from tcu.formats.tensor import is_batch
from tcu.ops.layout import Ragged, Whole, check_line, line_shape, reduced_axes, scan_axis
from tcu.ops.offsets import checked_offsets
from tcu.ops.operation import Call

__all__ = ["check_sum", "execute"]


def check_sum(given: Any, mean: bool, dtype: Any, wide: Any) -> None:
    """Raises DtypeError for a mean, and for a result in another dtype than ``wide``."""
    if mean:
        raise DtypeError(
            f"x has dtype {given}: means of integers are rounded in the host's memory alone: copy x there, or convert "
            "it to float64"
        )
    if dtype is not None and str(dtype).rpartition(".")[2].rstrip("'>") != str(wide).rpartition(".")[2]:
        raise DtypeError(
            f"dtype={dtype!r}: sums of integers are {wide} outside of the host's memory: leave dtype out, and "
            "convert the result"
        )


def execute(call: Call, library: Any, wide: Any) -> Any:
    """The sums in ``wide``, the library's dtype of 64 bits; ``library`` is PyTorch, CuPy or Dask's arrays."""
    check_options(call)
    x, layout = call.arrays[0], call.layout
    check_sum(x.dtype, call.operation.mean, call.dtype, wide)
    if isinstance(layout, Ragged):
        result = _ragged(call, x, layout, library, wide)
    elif call.operation.kind == "scan":
        axis = scan_axis(layout, x.ndim)
        line = x.reshape(line_shape(tuple(x.shape), axis)) if axis is None else x
        result = _scan(call, line, axis or 0, library, wide)
    elif isinstance(layout, Whole):
        result = x.sum(dtype=wide)
    else:
        axes = reduced_axes(layout.axis, x.ndim)
        result = (
            x.sum(axis=axes, keepdims=bool(layout.keepdims), dtype=wide)
            if axes
            else x + x.sum(dtype=wide) * 0
        )
    if call.out is None:
        return result
    if tuple(call.out.shape) != tuple(result.shape) or call.out.dtype != wide:
        raise ParameterError(
            f"out has shape {tuple(call.out.shape)} and dtype {call.out.dtype}, the result {tuple(result.shape)} and "
            f"{wide}: give them the same"
        )
    call.out[...] = result
    return call.out


def _scan(call: Call, x: Any, axis: int, library: Any, wide: Any) -> Any:
    reverse = call.option("reverse")
    sums = (library.flip(x, (axis,)) if reverse else x).cumsum(axis, dtype=wide)
    if reverse:
        sums = library.flip(sums, (axis,))
    return sums - (x + 0 * sums) if call.option("exclusive") else sums  # PyTorch subtracts no truth values


def _ragged(call: Call, x: Any, layout: Ragged, library: Any, wide: Any) -> Any:
    """Differences of running sums, which wrap around as these do."""
    check_line(tuple(x.shape))
    n, offsets = x.shape[0], layout.offsets
    none = library.zeros(1, dtype=wide, **_beside(x))
    sums = library.concatenate((none, x.cumsum(0, dtype=wide)))
    edges = _edges(offsets, layout.check, n, library, sums)
    if call.operation.kind != "scan":
        return sums[edges[1:]] - sums[edges[:-1]]
    # In a batch there are as many lines of places as of edges, both whole: PyTorch warns where it has to copy them.
    here = library.arange(n, dtype=library.int64, **_beside(sums)) + 0 * edges[0]
    segment = library.searchsorted(edges, here, side="right") - 1
    exclusive, reverse = call.option("exclusive"), call.option("reverse")
    if reverse:
        return sums[edges[1:][segment]] - sums[here + int(exclusive)]
    return sums[here + 1 - int(exclusive)] - sums[edges[:-1][segment]]


def _edges(offsets: Any, check: bool, n: int, library: Any, sums: Any) -> Any:
    """Offsets beside x; on a GPU unchecked ones are kept inside of it, and in a batch, whose numbers its surface has checked."""
    if is_batch(offsets):
        return library.clip(offsets, 0, n)
    on_gpu = hasattr(offsets, "__cuda_array_interface__")
    if check or not on_gpu:
        line = checked_offsets(in_host_memory(offsets) if on_gpu else offsets, n)
        return library.asarray(line, **_beside(sums))
    return library.clip(offsets, 0, n)


def _beside(x: Any) -> dict[str, Any]:
    """Where PyTorch is to put a new tensor; CuPy has a current device."""
    return {"device": x.device} if hasattr(x, "is_cuda") else {}
