"""Sums and means of ragged segments: each by the plan of its own length, or exactly.

The law: each element of the result has the bits that ``tcu.sum`` (or
``tcu.fsum``) gives for its segment alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tcu.collectives import exact_rows
from tcu.collectives.request import Request
from tcu.collectives.results import target_of
from tcu.collectives.rows import encoded
from tcu.collectives.scans import check_line
from tcu.collectives.segments import checked_offsets
from tcu.collectives.summation import prepare_plan
from tcu.formats.array import lives_on_gpu
from tcu.formats.tensor import is_tensor
from tcu.model import threads
from tcu.model.elements import Elements
from tcu.model.execute import execute
from tcu.model.rows import execute_rows
from tcu.plan import DEFAULT_VARIANT
from tcu.units import Unit

__all__ = ["segment_fmean", "segment_fsum", "segment_mean", "segment_sum"]

_PIECE = 1 << 18
"""Numbers, padding included, that one thread takes at a time."""
_LONG = 1 << 18
"""Segments of that length are summed one after another, each by all threads."""

Operation = Literal["sum", "mean", "fsum", "fmean"]


def segment_sum(
    x: Any,
    offsets: Any,
    *,
    unit: str | Unit | None = None,
    variant: str = DEFAULT_VARIANT,
    chain: int | None = None,
    block: int | None = None,
    accumulator: str | None = None,
    fraction: float | None = None,
    dtype: npt.DTypeLike | Any = None,
    out: Any = None,
    check: bool = True,
) -> Any:
    """The sums of ragged segments of a line of numbers, as ``unit`` computes each by its plan, bit for bit.

    Segment i is ``x[offsets[i]:offsets[i + 1]]``, and its sum has the bits
    that :func:`tcu.sum` gives for it alone, whatever its neighbours.

    Parameters
    ----------
    x:
        One-dimensional array of float16, bfloat16, float32 or float64, of
        NumPy or PyTorch, or on a GPU (as :func:`tcu.sum`).  Gradients flow
        through PyTorch's tensors.
    offsets:
        One more than there are segments, from 0 to the number of elements and
        never decreasing: int32 or int64, of NumPy, PyTorch or a list in the
        host's memory, or, for x on a GPU, of x's library there.  Equal
        neighbours make an empty segment, whose sum is 0.
    unit, variant, chain, block, accumulator, fraction, dtype:
        As in :func:`tcu.sum`, for each segment; on a GPU, the default variant.
    out:
        An array of the same library with an element for each segment that
        takes the result; its dtype stands in for ``dtype``.
    check:
        False: do not look at offsets in a GPU's memory, which takes waiting
        for the GPU to come to them, and cannot be done while a CUDA graph is
        captured.  A segment that ends before it begins, or elsewhere
        than in x, then gives NaN.  Offsets in the host's memory are always
        checked.

    Returns
    -------
    An array of x's library with an element for each segment; ``out`` where it
    is given.  On a GPU it is computed on the library's current stream.

    Raises
    ------
    UnknownNameError, DtypeError, ShapeError, ParameterError:
        As :func:`tcu.sum`; x of other than one dimension; offsets that do not
        cut x into segments.
    tcu.gpu.GpuError:
        x is on a GPU and the way to it is not there.
    """
    options = (unit, variant, chain, block, accumulator, fraction, dtype)
    return _reduce("sum", x, offsets, options, out, check)


def segment_mean(
    x: Any,
    offsets: Any,
    *,
    unit: str | Unit | None = None,
    variant: str = DEFAULT_VARIANT,
    chain: int | None = None,
    block: int | None = None,
    accumulator: str | None = None,
    fraction: float | None = None,
    dtype: npt.DTypeLike | Any = None,
    out: Any = None,
    check: bool = True,
) -> Any:
    """The means of ragged segments, each with the bits that :func:`tcu.mean` gives for it alone.

    Parameters, results and errors are those of :func:`segment_sum`; the mean
    of an empty segment is NaN, and no gradient flows through it.
    """
    options = (unit, variant, chain, block, accumulator, fraction, dtype)
    return _reduce("mean", x, offsets, options, out, check)


def segment_fsum(
    x: Any, offsets: Any, *, dtype: npt.DTypeLike | Any = None, out: Any = None, check: bool = True
) -> Any:
    """The exact sums of ragged segments, each rounded once: one answer, whatever the order or machine.

    Each has the bits that :func:`tcu.fsum` gives for its segment alone.
    Parameters and results are those of :func:`segment_sum`.  Raises what
    :func:`tcu.fsum` raises; where inf and -inf meet in a segment that is
    InvalidOperationError on the CPU, and NaN on a GPU.
    """
    return _reduce("fsum", x, offsets, (dtype,), out, check)


def segment_fmean(
    x: Any, offsets: Any, *, dtype: npt.DTypeLike | Any = None, out: Any = None, check: bool = True
) -> Any:
    """The means of ragged segments, the exact sums divided by the lengths and rounded once.

    As :func:`segment_fsum`, with the bits of :func:`tcu.fmean`; the mean of an empty segment is NaN.
    """
    return _reduce("fmean", x, offsets, (dtype,), out, check)


def _reduce(
    operation: Operation, x: Any, offsets: Any, options: tuple[Any, ...], out: Any, check: bool
) -> Any:
    if is_tensor(x):
        import tcu.collectives.torch_segments as torch_segments

        return torch_segments.reduce(operation, x, offsets, options, out, check)
    if lives_on_gpu(x):
        return on_gpu(operation, x, offsets, options, out, check)
    return on_host(operation, x, offsets, options, out)


def on_gpu(
    operation: Operation, x: Any, offsets: Any, options: tuple[Any, ...], out: Any, check: bool
) -> Any:
    """The segments of an array in a GPU's memory."""
    from tcu.collectives import device_segment_sums

    check_line(tuple(x.shape))
    request = Request.of(operation, options)
    return device_segment_sums.reduce(request, x, offsets, out, check)


def on_host(operation: Operation, x: Any, offsets: Any, options: tuple[Any, ...], out: Any) -> Any:
    """The segments of an array in the host's memory."""
    elements = x if isinstance(x, Elements) else Elements(x)
    check_line(elements.array.shape)
    if operation == "fsum" or operation == "fmean":
        return exact_rows.segments_on_host(operation, elements, offsets, options[-1], out)
    edges = checked_offsets(offsets, elements.n)
    lengths = np.diff(edges)
    target = target_of(elements.format, options[-1], out, lengths.shape)
    totals = _totals(elements, edges[:-1], lengths, options[:-1])
    if operation == "mean":
        with np.errstate(all="ignore"):
            totals /= lengths
    result = encoded(totals + 0.0, target).view(target.dtype)  # a mean that underflows is +0
    if out is None:
        return result
    out[...] = result
    return out


def _totals(
    elements: Elements, starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64],
    options: tuple[Any, ...],
) -> npt.NDArray[np.float64]:  # fmt: skip
    """The segments' sums, a piece of those of one width at a time."""
    prepare_plan(int(lengths.max(initial=0)), elements.format, *options)  # which looks at the options
    totals = np.zeros(lengths.size)
    for i in np.flatnonzero(lengths >= _LONG):
        piece = Elements(elements.array[starts[i] : starts[i] + lengths[i]])
        unit, plan = prepare_plan(piece.n, piece.format, *options)
        totals[i] = execute(plan, piece, unit)
    widths = np.where(lengths < _LONG, lengths, 0)
    if options[1] == DEFAULT_VARIANT:
        widths = _rounded_up(widths)
    order = np.argsort(widths, kind="stable")

    def work(
        piece: tuple[int, npt.NDArray[np.int64]],
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        width, which = piece
        unit, plan = prepare_plan(width, elements.format, *options)
        at = np.arange(width)
        rows = elements.array[np.minimum(starts[which, None] + at, elements.n - 1)]
        rows = np.where(at < lengths[which, None], rows, elements.format.dtype.type(0))
        return which, execute_rows(plan, np.require(rows, elements.format.dtype, ["C", "A"]), unit)

    for which, sums in threads.in_order(work, _alike(widths, order)):
        totals[which] = sums
    return totals


def _rounded_up(lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Lengths of few kinds, an eighth longer at most (or 8): the default plan's padding changes no bits."""
    step = 1 << np.maximum(3, np.frexp(lengths)[1] - 4).astype(np.int64)
    return np.asarray(-(-lengths // step) * step)


def _alike(
    widths: npt.NDArray[np.int64], order: npt.NDArray[np.int64]
) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    """(width, segments of that width), a piece at a time; without those of width 0."""
    values, counts = np.unique(widths, return_counts=True)
    lasts = np.cumsum(counts)
    for width, first, last in zip(values.tolist(), lasts - counts, lasts, strict=True):
        if width:
            together = max(1, _PIECE // width)
            for at in range(first, last, together):
                yield width, order[at : min(at + together, last)]
