"""How the numbers of an operation are grouped: all of them, along axes, or in ragged segments of a line.

A layout is what the caller said, normalised once an array's number of axes is
known.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from tcu.errors import ParameterError, ShapeError
from tcu.formats.array import whole_number

__all__ = [
    "LABELS", "WHOLE", "Along", "Axes", "Layout", "Ragged", "Whole", "axis_number", "check_line", "line_shape", "one_axis",
    "reduced_axes", "reduced_shape", "row_axis", "scan_axis",
]  # fmt: skip


class Whole(NamedTuple):
    """All elements, in C order."""


class Along(NamedTuple):
    """Rows along one axis or several; the rest of the axes counts the rows."""

    axis: Any
    """As the caller gave it: None stands for all axes."""
    keepdims: bool = False


class Ragged(NamedTuple):
    """Segments of a line: segment i is x[offsets[i]:offsets[i + 1]]."""

    offsets: Any
    check: bool = True
    """Whether offsets in a GPU's memory are looked at, which takes waiting for them."""


Layout = Whole | Along | Ragged
WHOLE = Whole()
LABELS: dict[type[Layout], str] = {Whole: "whole arrays", Along: "axes", Ragged: "segments"}
"""What messages and tables call them."""


class Axes(NamedTuple):
    """The axes of an array that rows run along, and what is left."""

    reduced: tuple[int, ...]
    kept: tuple[int, ...]
    n: int
    """Elements of a row."""
    shape: tuple[int, ...]
    """Of the results."""

    @classmethod
    def of(cls, layout: Whole | Along, shape: tuple[int, ...]) -> Axes:
        """Raises ParameterError for axes that an array of that shape does not have."""
        if isinstance(layout, Whole):
            return cls(tuple(range(len(shape))), (), math.prod(shape), ())
        axis, keepdims = layout
        reduced = reduced_axes(axis, len(shape))
        kept = tuple(i for i in range(len(shape)) if i not in reduced)
        n = math.prod(shape[i] for i in reduced)
        return cls(reduced, kept, n, reduced_shape(shape, reduced, keepdims))


_WANTED = {
    "reduce": "a whole number, a tuple of them, or None for all axes",
    "scan": "a whole number, or None for all elements as one line",
    "map": "a whole number, the axis whose rows are mapped, such as -1",
}
"""What an operation of a kind takes for its axis."""


def _no_axis(kind: str, given: Any, name: str = "axis") -> ParameterError:
    """The error for what is no axis of an operation of that kind, under the name that it was given by."""
    return ParameterError(f"{name}={given!r}: give {_WANTED[kind]}")


def one_axis(axis: Any, dim: Any, kind: str) -> Any:
    """What was given by one of the two names; raises ParameterError where both were, or for a ``dim`` that is none."""
    if dim is None:
        return axis
    if axis is not None:
        raise ParameterError(f"axis={axis!r} and dim={dim!r}: give one of them")
    several = kind == "reduce" and isinstance(dim, tuple | list)
    if any(whole_number(each) is None for each in (dim if several else (dim,))):
        raise _no_axis(kind, dim, "dim")
    return dim


def reduced_axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """The axes to reduce, from 0 and in order; raises ParameterError for those that are not there."""
    if axis is None:
        return tuple(range(ndim))
    given = tuple(axis) if isinstance(axis, tuple | list) else (axis,)
    axes: list[int] = []
    for each in given:
        number = whole_number(each)
        if number is None:
            raise _no_axis("reduce", axis)
        axes.append(axis_number(number, ndim))
    for number in axes:
        if axes.count(number) > 1:
            raise ParameterError(f"{axis!r} has axis {number} more than once: name each axis once")
    return tuple(sorted(axes))


def axis_number(axis: int, ndim: int) -> int:
    """The axis, counted from 0; raises ParameterError if it is not there."""
    if not -ndim <= axis < ndim:
        advice = f"choose {-ndim} to {ndim - 1}" if ndim else "leave axis out"
        raise ParameterError(
            f"axis {axis} of an array with {ndim} {'axis' if ndim == 1 else 'axes'}: {advice}"
        )
    return axis % ndim


def reduced_shape(shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool) -> tuple[int, ...]:
    """The result's shape: without the reduced axes, or with length 1 in their place."""
    if keepdims:
        return tuple(1 if i in axes else length for i, length in enumerate(shape))
    return tuple(length for i, length in enumerate(shape) if i not in axes)


def scan_axis(layout: Whole | Along, ndim: int) -> int | None:
    """The axis along which sums run, from 0; None: through all elements.  Raises ParameterError."""
    if isinstance(layout, Whole) or layout.axis is None:
        return None
    number = whole_number(layout.axis)
    if number is None:
        raise _no_axis("scan", layout.axis)
    return axis_number(number, ndim)


def row_axis(layout: Layout, ndim: int, name: str = "x") -> int:
    """The axis that rows run along which are mapped to rows, from 0.  Raises ParameterError, with the array's name."""
    number = whole_number(layout.axis) if isinstance(layout, Along) else None
    if number is None:
        raise _no_axis("map", layout.axis if isinstance(layout, Along) else None)
    if not ndim:
        raise ParameterError(
            f"{name} is one number without an axis: give a line of it, with {name}.reshape(1)"
        )
    return axis_number(number, ndim)


def line_shape(shape: tuple[int, ...], axis: int | None) -> tuple[int, ...]:
    """The shape of running sums along an axis, or through all elements."""
    return (math.prod(shape),) if axis is None else shape


def check_line(shape: tuple[int, ...]) -> None:
    """Raises ShapeError unless segments can be cut from an array of that shape."""
    if len(shape) != 1:
        raise ShapeError(f"x has shape {tuple(shape)}: segments are cut from one line, x.reshape(-1)")
