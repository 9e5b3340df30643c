"""Sums of ragged segments as PyTorch operators: ``torch.ops.tcu.segment_sum`` and the others.

As :mod:`tcu.collectives.torch_rows` for rows.  The gradient of a segment's
sum goes to each of its elements.
"""

from __future__ import annotations

from typing import Any

import torch

from tcu.collectives import segment_sums
from tcu.collectives.request import OPTIONS, Request
from tcu.collectives.scans import check_line
from tcu.collectives.segment_sums import Operation
from tcu.collectives.torch_again import again_in_segments, keeper, key_of_segments, typed
from tcu.collectives.torch_shared import (
    Derivative,
    add_operator,
    check_arrays,
    check_numbers,
    check_out,
    count_of_segments,
    defaults,
    differentiable,
    edges_of,
    in_graph,
    is_watched,
    of_schema,
    put,
    recorder,
    result_dtype,
    schema_of,
    segments_of_batch,
)
from tcu.formats.tensor import check_data, host_view, is_tensor, tensor_of

__all__ = ["reduce"]


def reduce(
    operation: Operation, x: Any, offsets: Any, options: tuple[Any, ...], out: Any, check: bool
) -> Any:
    """What ``tcu.segment_sum`` and the others do with tensors."""
    watched = in_graph() or is_watched(x, offsets if is_tensor(offsets) else x)
    if out is None and not watched and x.is_cuda:
        return _quickly(operation, x, offsets, options, check)
    check_arrays((x,))
    check_line(tuple(x.shape))
    if not in_graph():
        check_numbers((x,))
    if not watched:
        return _executed(operation, x, offsets, options, out, check)
    edges = edges_of(offsets)
    record = recorder(f"segment_{operation}", _FUNCTIONS[operation], f"segment_{operation}")
    *rest, dtype = (edges, check, *of_schema(OPTIONS[operation], options))
    if out is None:
        return record(x, *rest, dtype)
    check_out(out, x, (count_of_segments(edges, x),))
    return put(record, (x,), rest, dtype, out)


def _quickly(operation: Operation, x: Any, offsets: Any, options: tuple[Any, ...], check: bool) -> Any:
    """The sums of a tensor on the GPU, if nothing but they are wanted."""
    key = key_of_segments(x, offsets, "segments", operation, typed(options))
    result = again_in_segments(key, x, offsets, check)
    if result is None:
        check_arrays((x,))
        check_line(tuple(x.shape))
        from tcu.collectives import device_segment_sums

        request = Request.of(operation, options)
        result = device_segment_sums.reduce(request, x, offsets, None, check, keeper(key))
    return result


def _executed(
    operation: Operation, x: Any, offsets: Any, options: tuple[Any, ...], out: Any, check: bool
) -> Any:
    """The sums of a tensor that holds numbers, nobody recording it."""
    if out is not None:
        offsets = edges_of(offsets)
        check_out(out, x, (count_of_segments(offsets, x),))
    if x.is_cuda:
        result = segment_sums.on_gpu(operation, x, offsets, options, out, check)
    else:
        place = None if out is None else host_view(out, "out")
        result = segment_sums.on_host(operation, host_view(x), offsets, options, place)
        result = out if out is not None else tensor_of(result)
    if out is not None and not out.is_inference():
        torch.autograd.graph.increment_version(out)
    return result


# The operators.


class _OfSegments(Derivative):
    """Offsets that were in order once are not looked at again."""

    operation: Operation

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        x, offsets = inputs[:2]
        ctx.rest = (None,) * (len(inputs) - 1)
        ctx.n, ctx.dtype, ctx.result_dtype = x.shape[0], x.dtype, output.dtype
        ctx.save_for_backward(offsets)
        ctx.save_for_forward(offsets)

    @staticmethod
    def spread(ctx: Any, gradient: Any, mean: bool) -> tuple[Any, ...]:
        """The gradient of each segment's sum, for each of its elements."""
        (offsets,) = ctx.saved_tensors
        lengths = offsets.diff()
        if mean:
            # In binary64: formats of 16 bits do not have all lengths.  The mean of an empty segment is NaN whatever x is:
            # nothing flows through it, in second derivatives as well.
            gradient = gradient.double() / lengths.clamp(min=1)
        return gradient.to(ctx.dtype).repeat_interleave(lengths, output_size=ctx.n), *ctx.rest

    @staticmethod
    def again(ctx: Any, tangent: Any, operation: Operation) -> Any:
        """The sums of the tangents, in at least binary32."""
        (offsets,) = ctx.saved_tensors
        name = f"segment_{operation}"
        rest = defaults(OPTIONS[operation][:-1])
        return recorder(name, _FUNCTIONS[operation], name)(tangent, offsets, False, *rest, ctx.result_dtype)


class _OfSum(_OfSegments):
    @staticmethod
    def backward(ctx: Any, gradient: Any) -> tuple[Any, ...]:
        return _OfSegments.spread(ctx, gradient, False)

    @staticmethod
    def jvp(ctx: Any, tangent: Any, *_: Any) -> Any:
        return _OfSegments.again(ctx, tangent, "sum")


class _OfMean(_OfSegments):
    @staticmethod
    def backward(ctx: Any, gradient: Any) -> tuple[Any, ...]:
        return _OfSegments.spread(ctx, gradient, True)

    @staticmethod
    def jvp(ctx: Any, tangent: Any, *_: Any) -> Any:
        (offsets,) = ctx.saved_tensors
        return _OfSegments.again(ctx, tangent, "mean").masked_fill(offsets.diff() == 0, 0.0)


_FUNCTIONS: dict[Operation, type[Derivative]] = {
    "sum": differentiable("segment_sum", _OfSum), "mean": differentiable("segment_mean", _OfMean),
    "fsum": differentiable("segment_fsum", _OfSum), "fmean": differentiable("segment_fmean", _OfMean),
}  # fmt: skip


def _register(operation: Operation) -> None:
    def execute(x: Any, offsets: Any, check: bool = True, *options: Any) -> Any:
        given = options + missing[len(options) :]
        if x.is_cuda:
            return _quickly(operation, x, offsets, given, check)
        check_arrays((x,))
        check_line(tuple(x.shape))
        check_data(x, "x")
        return _executed(operation, x, offsets, given, None, check)

    def shape_alone(
        x: Any, offsets: Any, check: bool = True, *options: Any, dtype: Any = None, **_: Any
    ) -> Any:
        check_arrays((x,))
        check_line(tuple(x.shape))
        if len(options) == len(OPTIONS[operation]):
            dtype = options[-1]
        return x.new_empty(count_of_segments(offsets, x), dtype=result_dtype(x, dtype))

    def apart(sums: Any, lines: Any) -> Any:
        # Between one line's last offset and the next one's first lies an empty segment, which is left out again.
        return torch.cat([sums, sums.new_zeros(1)]).reshape(lines.shape[0], -1)[:, :-1]

    missing = defaults(OPTIONS[operation])
    name = f"segment_{operation}"
    add_operator(
        name, f"Tensor x, Tensor offsets, bool check=True, {schema_of(*OPTIONS[operation])}",
        execute, shape_alone, _FUNCTIONS[operation], segments_of_batch(name, shape_alone, apart),
    )  # fmt: skip


for _operation in _FUNCTIONS:
    _register(_operation)
