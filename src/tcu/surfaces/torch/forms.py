"""The form of an operator: what a layout adds to its name, its schema, its result's shape and its vmap."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from tcu.ops.layout import (
    Along,
    Layout,
    Ragged,
    Whole,
    check_line,
    line_shape,
    reduced_axes,
    reduced_shape,
    row_axis,
    scan_axis,
)
from tcu.ops.offsets import checked_offsets
from tcu.ops.operation import Operation
from tcu.surfaces.torch.checks import check_offsets, count_of_segments, edges_of
from tcu.surfaces.torch.watch import has_numbers_in_batch

__all__ = ["Form", "form_of", "forms_of", "one_by_one"]


def one_by_one(operator: Any, shape_alone: Any = None) -> Any:
    """The vmap of an operator with one result: a call for each of the batch, and for an empty one a call of zeros, for the shape.

    ``shape_alone`` is called then, of an operator that looks at numbers, as at offsets: zeros would be wrong ones.
    """

    def run(info: Any, where: tuple[Any, ...], *arguments: Any, **named: Any) -> Any:
        pairs = list(zip(arguments, (*where, *(None,) * len(arguments)), strict=False))
        if not info.batch_size:
            alike = [
                x if axis is None else x.new_zeros(x.shape[:axis] + x.shape[axis + 1 :]) for x, axis in pairs
            ]
            result = (shape_alone or operator)(*alike, **named)
            return result.new_empty((0, *result.shape)), 0
        results = [
            operator(*(x if axis is None else x.select(axis, i) for x, axis in pairs), **named)
            for i in range(info.batch_size)
        ]
        return torch.stack(results), 0

    return run


@dataclass(frozen=True)
class Form:
    """Of the operators of one kind of operation on one layout."""

    layout: type[Layout]
    name: str
    """Of the operator, with the operation's in braces."""
    schema: str
    """Of the arguments between the operands and the options."""

    def operator(self, operation: Operation) -> str:
        return self.name.format(operation.name)

    @property
    def count(self) -> int:
        """Arguments between the operands and the options."""
        return self.schema.count(",") + 1 if self.schema else 0

    # What differs from form to form.

    def arguments(self, layout: Any, x: Any) -> tuple[Any, ...]:
        """A layout as the schema has it."""
        return ()

    def layout_of(self, *arguments: Any) -> Layout:
        """The layout of such arguments."""
        return Whole()

    def shape(self, x: Any, layout: Any) -> tuple[int, ...] | None:
        """Of the result; None: one number.  Raises what the layout deserves."""
        return None

    def all_at_once(self, operator: Any, shape_alone: Any, operands: int) -> Any:
        """The operator's vmap."""
        return one_by_one(operator, shape_alone)


class _Along(Form):
    def arguments(self, layout: Along, x: Any) -> tuple[Any, ...]:
        return list(reduced_axes(layout.axis, x.dim())), bool(layout.keepdims)

    def layout_of(self, *arguments: Any) -> Along:
        axes, keepdims = (*arguments, False)[:2]
        return Along(tuple(axes), keepdims)

    def shape(self, x: Any, layout: Along) -> tuple[int, ...]:
        return reduced_shape(tuple(x.shape), reduced_axes(layout.axis, x.dim()), layout.keepdims)

    def all_at_once(self, operator: Any, shape_alone: Any, operands: int) -> Any:
        """The batch is one more axis that is left."""

        def run(info: Any, where: tuple[Any, ...], *arguments: Any, **named: Any) -> Any:
            arrays, axes, *rest = arguments[:operands], *arguments[operands:]
            batches = [
                x.unsqueeze(0).expand(info.batch_size, *x.shape) if at is None else x.movedim(at, 0)
                for x, at in zip(arrays, where, strict=False)
            ]
            inside = reduced_axes(axes, batches[0].dim() - 1)
            return operator(*batches, [axis + 1 for axis in inside], *rest, **named), 0

        return run


class _ScanAlong(Form):
    def arguments(self, layout: Along, x: Any) -> tuple[Any, ...]:
        return (scan_axis(layout, x.dim()),)

    def layout_of(self, *arguments: Any) -> Along:
        return Along(*arguments[:1] or (None,))

    def shape(self, x: Any, layout: Along) -> tuple[int, ...]:
        return line_shape(tuple(x.shape), scan_axis(layout, x.dim()))

    def all_at_once(self, operator: Any, shape_alone: Any, operands: int) -> Any:
        """The batch is one more axis, along which nothing runs."""

        def run(info: Any, where: tuple[Any, ...], x: Any, axis: Any = None, *rest: Any, **named: Any) -> Any:
            batch = x.movedim(where[0], 0)
            inside = scan_axis(Along(axis), batch.dim() - 1)
            if inside is None:
                batch, inside = batch.reshape(batch.shape[0], math.prod(batch.shape[1:])), 0
            return operator(batch, inside + 1, *rest, **named), 0

        return run


class _MapAlong(_ScanAlong):
    def arguments(self, layout: Along, x: Any) -> tuple[Any, ...]:
        return (row_axis(layout, x.dim()),)

    def layout_of(self, *arguments: Any) -> Along:
        return Along(*arguments[:1] or (-1,))

    def shape(self, x: Any, layout: Along) -> tuple[int, ...]:
        row_axis(layout, x.dim())
        return tuple(x.shape)

    def all_at_once(self, operator: Any, shape_alone: Any, operands: int) -> Any:
        run = super().all_at_once(operator, shape_alone, operands)

        def mapped(
            info: Any, where: tuple[Any, ...], x: Any, axis: Any = -1, *rest: Any, **named: Any
        ) -> Any:
            return run(info, where, x, axis, *rest, **named)

        return mapped


class _Ragged(Form):
    def arguments(self, layout: Ragged, x: Any) -> tuple[Any, ...]:
        return edges_of(layout.offsets), layout.check

    def layout_of(self, *arguments: Any) -> Ragged:
        return Ragged(*arguments)

    def shape(self, x: Any, layout: Ragged) -> tuple[int, ...]:
        check_line(tuple(x.shape))
        return (count_of_segments(layout.offsets, x),)

    def apart(self, results: Any, lines: Any) -> Any:
        """Of the results of one longer line: each line's."""
        # Between one line's last offset and the next one's first lies an empty segment, which is left out again.
        return torch.cat([results, results.new_zeros(1)]).reshape(lines.shape[0], -1)[:, :-1]

    def all_at_once(self, operator: Any, shape_alone: Any, operands: int) -> Any:
        """One longer line that is cut alike again and again; one line after another where each has its own offsets.

        So are pairs of lines.
        """
        if operands == 2:
            return super().all_at_once(operator, shape_alone, operands)

        def run(info: Any, where: tuple[Any, ...], x: Any, offsets: Any, *rest: Any, **named: Any) -> Any:
            x_at, offsets_at, count = *where[:2], info.batch_size
            lines = x.unsqueeze(0).expand(count, -1) if x_at is None else x.movedim(x_at, 0)
            if not count:
                edges = offsets if offsets_at is None else offsets.new_empty(offsets.shape[1 - offsets_at])
                one = shape_alone(lines.new_empty(lines.shape[1]), edges, *rest, **named)
                return one.new_empty((0, *one.shape)), 0
            check_offsets(offsets, [size for i, size in enumerate(offsets.shape) if i != offsets_at])
            if offsets_at is not None:
                pairs = zip(lines.unbind(0), offsets.unbind(offsets_at), strict=True)
                return torch.stack([operator(line, edges, *rest, **named) for line, edges in pairs]), 0
            if has_numbers_in_batch(offsets) and not offsets.is_cuda:
                checked_offsets(offsets, lines.shape[1])  # while they are those of one line
            shift = lines.shape[1] * torch.arange(count, dtype=torch.int64, device=offsets.device)
            # The last offset of each is there too, and shows in the end if it is wrong; with the next first one it
            # makes an empty segment.
            joined = (offsets + shift.unsqueeze(1)).reshape(-1)
            return self.apart(operator(lines.reshape(-1), joined, *rest, **named), lines), 0

        return run


class _ScanRagged(_Ragged):
    def shape(self, x: Any, layout: Ragged) -> tuple[int, ...]:
        super().shape(x, layout)
        return tuple(x.shape)

    def apart(self, results: Any, lines: Any) -> Any:
        return results.reshape(lines.shape)


_SEGMENTS = "Tensor offsets, bool check=True"
_FORMS: dict[tuple[str, type[Layout]], Form] = {
    ("reduce", Whole): Form(Whole, "{}", ""),
    ("reduce", Along): _Along(Along, "{}_along", "int[] axes, bool keepdims=False"),
    ("reduce", Ragged): _Ragged(Ragged, "segment_{}", _SEGMENTS),
    ("scan", Along): _ScanAlong(Along, "{}", "int? axis=None"),
    ("map", Along): _MapAlong(Along, "{}", "int axis=-1"),
    ("scan", Ragged): _ScanRagged(Ragged, "segment_{}", _SEGMENTS),
    ("map", Ragged): _ScanRagged(Ragged, "segment_{}", _SEGMENTS),
}


def form_of(operation: Operation, layout: type[Layout]) -> Form:
    return _FORMS[operation.kind, layout]


def forms_of(operation: Operation) -> list[Form]:
    """One for each of its layouts."""
    return [form_of(operation, layout) for layout in operation.layouts]
