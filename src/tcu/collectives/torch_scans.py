"""Running sums as PyTorch operators: ``torch.ops.tcu.cumsum`` and ``torch.ops.tcu.segment_cumsum``.

As :mod:`tcu.collectives.torch_operators` for sums.  A running sum is linear,
so its derivative forward is itself, and backward the running sum from the
other end.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from tcu.collectives import scans
from tcu.collectives.scans import check_line, line_shape, scan_axis, scan_info
from tcu.collectives.torch_again import again, again_in_segments, keeper, key_of, key_of_segments
from tcu.collectives.torch_shared import (
    Derivative,
    add_operator,
    check_arrays,
    check_numbers,
    check_out,
    count_of_segments,
    differentiable,
    dtype_of_schema,
    edges_of,
    in_graph,
    is_watched,
    put,
    recorder,
    refuse_details_in_graph,
    result_dtype,
    schema_of,
    segments_of_batch,
)
from tcu.formats.format import named_format
from tcu.formats.tensor import check_data, host_view, is_tensor
from tcu.model.execute import Progress

__all__ = ["cumsum", "segment_cumsum"]


def cumsum(
    x: Any, axis: Any, exclusive: bool, reverse: bool, dtype: Any, out: Any,
    return_info: bool, progress: Progress | None,
) -> Any:  # fmt: skip
    """What ``tcu.cumsum`` does with tensors."""
    if in_graph():
        number = scan_axis(axis, x.dim())
        refuse_details_in_graph(return_info, progress)
        return _recorded("cumsum", x, (number, exclusive, reverse), dtype, out, line_shape(x.shape, number))
    if out is None and not return_info and progress is None and x.is_cuda and not is_watched(x, x):
        return _cumsum_quickly(x, axis, exclusive, reverse, dtype)
    number = scan_axis(axis, x.dim())
    check_arrays((x,))
    check_numbers((x,))
    shape = line_shape(tuple(x.shape), number)
    if is_watched(x, x):
        result = _recorded("cumsum", x, (number, exclusive, reverse), dtype, out, shape)
        if progress is not None:
            progress(x.numel())
    else:
        result = _cumsum(x, number, exclusive, reverse, dtype, out, progress)
    if not return_info:
        return result
    return result, scan_info(tuple(x.shape), number, named_format(x.dtype))


def segment_cumsum(
    x: Any, offsets: Any, exclusive: bool, reverse: bool, dtype: Any, out: Any, check: bool
) -> Any:
    """What ``tcu.segment_cumsum`` does with tensors."""
    watched = in_graph() or is_watched(x, offsets if is_tensor(offsets) else x)
    if out is None and not watched and x.is_cuda:
        return _segment_cumsum_quickly(x, offsets, exclusive, reverse, check, dtype)
    check_arrays((x,))
    check_line(tuple(x.shape))
    if not in_graph():
        check_numbers((x,))
    if not watched:
        return _segment_cumsum(x, offsets, exclusive, reverse, check, dtype, out)
    edges = edges_of(offsets)
    return _recorded("segment_cumsum", x, (edges, exclusive, reverse, check), dtype, out, tuple(x.shape))


def _recorded(name: str, x: Any, rest: tuple[Any, ...], dtype: Any, out: Any, shape: tuple[int, ...]) -> Any:
    """The call of the operator; torch.compile reads this code."""
    record = recorder(name, _FUNCTIONS[name], name)
    if out is None:
        return record(x, *rest, dtype_of_schema(dtype))
    check_out(out, x, tuple(shape))
    return put(record, (x,), rest, dtype_of_schema(dtype), out)


# On a GPU, if nothing but the result is wanted.


def _cumsum_quickly(x: Any, axis: Any, exclusive: bool, reverse: bool, dtype: Any) -> Any:
    number = axis if type(axis) is int else scan_axis(axis, x.dim())  # True equals 1, and is no axis
    key = key_of(x, "cumsum", number, exclusive, reverse, dtype)
    result = again(key, x, x)
    if result is None:
        number = scan_axis(axis, x.dim())
        check_arrays((x,))
        from tcu.collectives import device_scans

        result, _ = device_scans.cumsum(x, number, exclusive, reverse, dtype, None, keeper(key))
    return result


def _segment_cumsum_quickly(
    x: Any, offsets: Any, exclusive: bool, reverse: bool, check: bool, dtype: Any
) -> Any:
    key = key_of_segments(x, offsets, "segment_cumsum", exclusive, reverse, dtype)
    result = again_in_segments(key, x, offsets, check)
    if result is None:
        check_arrays((x,))
        check_line(tuple(x.shape))
        from tcu.collectives import device_scans

        keep = keeper(key)
        result = device_scans.segment_cumsum(x, offsets, exclusive, reverse, dtype, None, check, keep)
    return result


# With numbers, nobody recording it.


def _cumsum(
    x: Any, axis: int | None, exclusive: bool, reverse: bool, dtype: Any, out: Any = None,
    progress: Progress | None = None,
) -> Any:  # fmt: skip
    def on_gpu() -> Any:
        return scans.cumsum_on_gpu(x, axis, exclusive, reverse, dtype, out, False, progress)

    def on_host(place: Any) -> None:
        scans.cumsum(
            host_view(x),
            axis,
            exclusive=exclusive,
            reverse=reverse,
            dtype=dtype,
            out=place,
            progress=progress,
        )

    return _executed(x, line_shape(tuple(x.shape), axis), dtype, out, on_gpu, on_host)


def _segment_cumsum(
    x: Any, offsets: Any, exclusive: bool, reverse: bool, check: bool, dtype: Any, out: Any = None
) -> Any:
    def on_gpu() -> Any:
        from tcu.collectives import device_scans

        return device_scans.segment_cumsum(x, offsets, exclusive, reverse, dtype, out, check)

    def on_host(place: Any) -> None:
        scans.segment_cumsum(
            host_view(x), offsets, exclusive=exclusive, reverse=reverse, dtype=dtype, out=place
        )

    return _executed(x, tuple(x.shape), dtype, out, on_gpu, on_host)


def _executed(
    x: Any, shape: tuple[int, ...], dtype: Any, out: Any, on_gpu: Callable[[], Any], on_host: Callable[[Any], None]
) -> Any:  # fmt: skip
    if out is not None:
        check_out(out, x, shape)
    if x.is_cuda:
        result = on_gpu()
    else:
        result = torch.empty(shape, dtype=result_dtype(x, dtype)) if out is None else out
        on_host(host_view(result, "out"))
    if out is not None and not out.is_inference():
        torch.autograd.graph.increment_version(out)
    return result


# The operators.


class _OfCumsum(Derivative):
    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        x, ctx.axis, ctx.exclusive, ctx.reverse = inputs[:4]
        ctx.rest = (None,) * (len(inputs) - 1)
        ctx.shape, ctx.dtype, ctx.result_dtype = x.shape, x.dtype, output.dtype

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> tuple[Any, ...]:
        record = recorder("cumsum", _FUNCTIONS["cumsum"], "cumsum")
        given = record(gradient, ctx.axis, ctx.exclusive, not ctx.reverse, ctx.dtype)
        return given.reshape(ctx.shape), *ctx.rest

    @staticmethod
    def jvp(ctx: Any, tangent: Any, *_: Any) -> Any:
        record = recorder("cumsum", _FUNCTIONS["cumsum"], "cumsum")
        return record(tangent, ctx.axis, ctx.exclusive, ctx.reverse, ctx.result_dtype)


class _OfSegmentCumsum(Derivative):
    """Offsets that were in order once are not looked at again."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        x, offsets, ctx.exclusive, ctx.reverse = inputs[:4]
        ctx.rest = (None,) * (len(inputs) - 1)
        ctx.dtype, ctx.result_dtype = x.dtype, output.dtype
        ctx.save_for_backward(offsets)
        ctx.save_for_forward(offsets)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> tuple[Any, ...]:
        record = recorder("segment_cumsum", _FUNCTIONS["segment_cumsum"], "segment_cumsum")
        (offsets,) = ctx.saved_tensors
        return record(gradient, offsets, ctx.exclusive, not ctx.reverse, False, ctx.dtype), *ctx.rest

    @staticmethod
    def jvp(ctx: Any, tangent: Any, *_: Any) -> Any:
        record = recorder("segment_cumsum", _FUNCTIONS["segment_cumsum"], "segment_cumsum")
        (offsets,) = ctx.saved_tensors
        return record(tangent, offsets, ctx.exclusive, ctx.reverse, False, ctx.result_dtype)


_FUNCTIONS: dict[str, type[Derivative]] = {
    "cumsum": differentiable("cumsum", _OfCumsum),
    "segment_cumsum": differentiable("segment_cumsum", _OfSegmentCumsum),
}


def _execute_cumsum(
    x: Any, axis: Any = None, exclusive: bool = False, reverse: bool = False, dtype: Any = None
) -> Any:
    if x.is_cuda:
        return _cumsum_quickly(x, axis, exclusive, reverse, dtype)
    check_arrays((x,))
    check_data(x, "x")
    return _cumsum(x, scan_axis(axis, x.dim()), exclusive, reverse, dtype)


def _shape_of_cumsum(
    x: Any, axis: Any = None, exclusive: bool = False, reverse: bool = False, dtype: Any = None
) -> Any:
    check_arrays((x,))
    shape = x.shape if scan_axis(axis, x.dim()) is not None else (x.numel(),)
    return x.new_empty(shape, dtype=result_dtype(x, dtype))


def _cumsum_of_batch(
    info: Any, where: tuple[Any, ...], x: Any, axis: Any = None, *rest: Any, **named: Any
) -> Any:
    """The batch is one more axis, along which nothing runs."""
    batch = x.movedim(where[0], 0)
    inside = scan_axis(axis, batch.dim() - 1)
    if inside is None:
        return _operators["cumsum"](
            batch.reshape(batch.shape[0], math.prod(batch.shape[1:])), 1, *rest, **named
        ), 0
    return _operators["cumsum"](batch, inside + 1, *rest, **named), 0


def _execute_segment_cumsum(
    x: Any, offsets: Any, exclusive: bool = False, reverse: bool = False, check: bool = True, dtype: Any = None
) -> Any:  # fmt: skip
    if x.is_cuda:
        return _segment_cumsum_quickly(x, offsets, exclusive, reverse, check, dtype)
    check_arrays((x,))
    check_line(tuple(x.shape))
    check_data(x, "x")
    return _segment_cumsum(x, offsets, exclusive, reverse, check, dtype)


def _shape_of_segment_cumsum(
    x: Any, offsets: Any, exclusive: bool = False, reverse: bool = False, check: bool = True, dtype: Any = None
) -> Any:  # fmt: skip
    check_arrays((x,))
    check_line(tuple(x.shape))
    count_of_segments(offsets, x)
    return x.new_empty(x.shape, dtype=result_dtype(x, dtype))


_operators = {
    name: add_operator(
        name, f"Tensor x, {arguments}, {schema_of('dtype')}", execute, shape_alone, _FUNCTIONS[name], all_at_once
    )
    for name, arguments, execute, shape_alone, all_at_once in (
        ("cumsum", "int? axis=None, bool exclusive=False, bool reverse=False",
         _execute_cumsum, _shape_of_cumsum, _cumsum_of_batch),
        ("segment_cumsum", "Tensor offsets, bool exclusive=False, bool reverse=False, bool check=True",
         _execute_segment_cumsum, _shape_of_segment_cumsum,
         segments_of_batch("segment_cumsum", _shape_of_segment_cumsum, lambda sums, lines: sums.reshape(lines.shape))),
    )
}  # fmt: skip
