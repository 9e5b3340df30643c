"""Which derivatives an operator has, in both modes, as a function of autograd."""

from __future__ import annotations

from typing import Any

import torch

from tcu.errors import ParameterError
from tcu.ops.layout import Ragged
from tcu.ops.operation import Operation
from tcu.surfaces.torch.derivative import DERIVATIVES, Derivative, keep, keep_axes, with_axes
from tcu.surfaces.torch.row_derivatives import (
    OF_MAPS,
    OfLogSumExp,
    OfRowNorm,
    OfSegmentLogSumExp,
    OfSegmentSoftmax,
)
from tcu.surfaces.torch.sum_derivatives import (
    OfDot,
    OfMoments,
    OfNorm,
    OfScan,
    OfSegmentDot,
    OfSegmentMoments,
    OfSegmentNorm,
    OfSegmentScan,
    OfSegmentSums,
    OfSums,
)

__all__ = ["derivative_of"]


def derivative_of(operation: Operation, layout: type, operator: str) -> type[Derivative]:
    """The function of autograd for an operator of that name."""
    base = _base(operation, layout)

    def forward(*arguments: Any) -> Any:
        return getattr(torch.ops.tcu, operator)(*arguments)

    names = {"forward": staticmethod(forward), "operation": operation, "operator": operator}
    found = DERIVATIVES[operator] = type(f"{base.__name__}_{operator}", (base,), names)
    return found


def _base(operation: Operation, layout: type) -> type[Derivative]:
    if operation.arithmetic == "own":
        return OfItsOwn
    if operation.arithmetic == "exponentials" and layout is Ragged:
        return OfSegmentLogSumExp if operation.kind == "reduce" else OfSegmentSoftmax
    if operation.arithmetic == "exponentials":
        return OfLogSumExp if operation.kind == "reduce" else OF_MAPS[operation.finish]
    if operation.arithmetic == "norms":
        return OfRowNorm
    if operation.kind == "scan":
        return OfSegmentScan if layout is Ragged else OfScan
    if operation.moments:
        return OfSegmentMoments if layout is Ragged else OfMoments
    if operation.product:
        if layout is Ragged:
            return OfSegmentNorm if operation.root else OfSegmentDot
        return OfNorm if operation.root else OfDot
    return OfSegmentSums if layout is Ragged else OfSums


class OfItsOwn(Derivative):
    """Of an operation of a program's own: by its ``derivative``, if it has one."""

    @classmethod
    def setup_context(cls, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        keep(ctx, inputs, output, inputs[0], output)
        keep_axes(ctx, *inputs)

    @classmethod
    def backward(cls, ctx: Any, gradient: Any) -> tuple[Any, ...]:
        function = cls.operation.derivative
        if function is None:
            raise ParameterError(
                f"{cls.operation.name} has no gradient: detach x, or register it with a derivative"
            )
        x, result = ctx.saved_tensors
        given, result = (with_axes(ctx, each) for each in (gradient, result))
        return (given * function(torch, x, ctx.axes, result)).to(x.dtype), *ctx.rest
