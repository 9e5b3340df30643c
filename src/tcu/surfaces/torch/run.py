"""What functions do with PyTorch's tensors, and the operators: ``torch.ops.tcu.sum`` and so on.

Importing this module registers the operators, so it is imported where a tensor
has been met.  Plain tensors whose gradient nobody asks for go past them,
straight to the launch or to the model, because PyTorch's dispatch of an
operator in Python takes longer than all the rest of a small sum.
"""

from __future__ import annotations

from typing import Any

import torch

from tcu.engines import host, library_integers
from tcu.errors import ParameterError
from tcu.formats.format import named_format
from tcu.formats.tensor import is_batch, is_tensor, plain_view, tensor_of
from tcu.ops.info import scan_info
from tcu.ops.layout import Ragged, check_line, scan_axis
from tcu.ops.offsets import checked_offsets
from tcu.ops.operation import OPERATIONS, Call, Operation
from tcu.ops.options import OPTIONS, defaults
from tcu.ops.request import ScanRequest
from tcu.surfaces.torch.checks import (
    check_arrays,
    check_numbers,
    check_out,
    of_schema,
    put,
    put_result,
    refuse_details_in_graph,
    result_dtype,
)
from tcu.surfaces.torch.cross_entropy import cross_entropy
from tcu.surfaces.torch.derivative import DERIVATIVES
from tcu.surfaces.torch.derivatives import derivative_of
from tcu.surfaces.torch.forms import Form, form_of, forms_of
from tcu.surfaces.torch.function import lines_of_batch
from tcu.surfaces.torch.index_sums import sum_by_index
from tcu.surfaces.torch.launch_cache import known, shortcut
from tcu.surfaces.torch.mma import mma_in_batch
from tcu.surfaces.torch.scaled import run as scaled
from tcu.surfaces.torch.unwatched import executed, quickly
from tcu.surfaces.torch.watch import holds_numbers, in_graph, is_watched, is_wrapped, recorder

__all__ = [
    "cross_entropy",
    "is_wrapped",
    "known",
    "mma_in_batch",
    "put_result",
    "register_operators",
    "run",
    "scaled",
    "shortcut",
    "sum_by_index",
]

_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)


def run(call: Call) -> Any:
    """The result; with ``return_info``, (result, how it came about)."""
    call.operation.check_layout(call.layout)
    if call.operation.of_integers and getattr(call.arrays[0], "dtype", None) in _INTEGERS:
        return _of_integers(call)
    if in_graph():
        refuse_details_in_graph(call.return_info, call.progress)
        if not all(map(is_tensor, call.arrays)):
            check_arrays(call.arrays)
        return _recorded(call)
    x, layout = call.arrays[0], call.layout
    watched = is_watched(x, call.arrays[-1])
    if isinstance(layout, Ragged) and is_tensor(layout.offsets):
        watched = watched or is_watched(x, layout.offsets)
    if not watched:
        if x.is_cuda and call.out is None and not call.return_info and call.progress is None:
            return quickly(call)
        result, info = executed(call)
        return (result, info) if call.return_info else result
    return _watched(call)


def _watched(call: Call) -> Any:
    """A gradient is wanted, or somebody watches or transforms."""
    form = form_of(call.operation, type(call.layout))
    if not isinstance(call.layout, Ragged):
        form.arguments(call.layout, call.arrays[0])  # which looks at the axes
    check_arrays(call.arrays)
    if isinstance(call.layout, Ragged):
        check_line(tuple(call.arrays[0].shape))
    check_numbers(call.arrays)
    info = _info_of_watched(call) if call.return_info else None
    result = _recorded(call)
    if call.progress is not None:
        call.progress(call.arrays[0].numel())
    return (result, info) if call.return_info else result


def _info_of_watched(call: Call) -> Any:
    x = call.arrays[0]
    if call.operation.kind == "scan":
        assert not isinstance(call.layout, Ragged)
        way = ScanRequest(*call.options).way
        return scan_info(tuple(x.shape), scan_axis(call.layout, x.dim()), named_format(x.dtype), **way)
    if not holds_numbers(call.arrays):
        raise ParameterError(
            "return_info=True tells the result's bits, which tensors without numbers and functions that are "
            "transformed do not have: leave it out"
        )
    # Whoever wants gradients and the details pays for two reductions, which have the same bits.
    plain = tuple(each.detach() for each in call.arrays)
    if len(plain) == 2 and call.arrays[0] is call.arrays[1]:
        plain = (plain[0], plain[0])
    return executed(call._replace(arrays=plain, out=None, progress=None))[1]


# Integers, which have no gradient: exactly where the result is at hand, by PyTorch where it is not.


def _of_integers(call: Call) -> Any:
    x, out, layout = call.arrays[0], call.out, call.layout
    if isinstance(layout, Ragged) and layout.check and is_batch(layout.offsets):
        for line in lines_of_batch(layout.offsets):
            checked_offsets(line.cpu(), x.shape[0])
    if in_graph() or x.device.type != "cpu" or not holds_numbers((x,)):
        return library_integers.execute(call, torch, torch.int64)
    if isinstance(layout, Ragged) and is_tensor(layout.offsets):
        layout = layout._replace(offsets=layout.offsets.detach().numpy())
    dtype = call.dtype or (None if out is None else out.dtype)
    if dtype is None and not call.operation.mean:
        dtype = "int64"  # of unsigned ones, too, as PyTorch's own sums
    if out is not None:
        check_out(out, x, form_of(call.operation, type(call.layout)).shape(x, call.layout))
    options = (*call.options[:-1], dtype)
    result, _ = host.execute(
        call._replace(arrays=(plain_view(x, "x"),), layout=layout, options=options, out=None)
    )
    found = tensor_of(result)
    if out is None:
        return found
    if out.dtype != found.dtype:
        raise ParameterError(f"out has dtype {out.dtype}, the result {found.dtype}: give them the same dtype")
    return out.copy_(found)


# The operators.


def _recorded(call: Call) -> Any:
    """The call of the operator; torch.compile reads this code."""
    operation, x = call.operation, call.arrays[0]
    form = form_of(operation, type(call.layout))
    name = form.operator(operation)
    if name not in DERIVATIVES:
        _register(operation, form)  # registered after PyTorch was met
    record = recorder(name, DERIVATIVES[name], _public_name(operation, form))
    given = form.arguments(call.layout, x)
    *rest, dtype = (*given, *of_schema(operation.options, call.options, operation.variants))
    if call.out is None:
        return record(*call.arrays, *rest, dtype)
    check_out(call.out, x, form.shape(x, form.layout_of(*given)))
    return put(record, call.arrays, rest, dtype, call.out)


def _public_name(operation: Operation, form: Form) -> str:
    return form.operator(operation) if form.layout is Ragged else operation.name


def register_operators(operation: Operation) -> None:
    """Make torch.ops.tcu.NAME for each layout of an operation."""
    for form in forms_of(operation):
        _register(operation, form)


def _register(operation: Operation, form: Form) -> None:
    name, operands = form.operator(operation), len(operation.operands)
    if name in DERIVATIVES:
        return
    after = operands + form.count
    missing = defaults(operation.options)

    def call_of(arguments: tuple[Any, ...]) -> Call:
        options = arguments[after:]
        layout = form.layout_of(*arguments[operands:after])
        return Call(operation, arguments[:operands], layout, options + missing[len(options) :])

    def execute(*arguments: Any) -> Any:
        call = call_of(arguments)
        return quickly(call) if arguments[0].is_cuda else executed(call)[0]

    def shape_alone(*arguments: Any, **named: Any) -> Any:
        arrays = arguments[:operands]
        check_arrays(arrays)
        x, options = arguments[0], arguments[after:]
        dtype = options[-1] if len(options) == len(operation.options) else named.get("dtype")
        layout = form.layout_of(*_with_named(form, arguments[operands:after], named))
        own = operation.kind == "map" and dtype is None
        return x.new_empty(form.shape(x, layout) or (), dtype=x.dtype if own else result_dtype(x, dtype))

    schema = [
        *(f"Tensor {each}" for each in operation.operands), *([form.schema] if form.schema else []),
        *(OPTIONS[each].schema for each in operation.options),
    ]  # fmt: skip
    derivative = derivative_of(operation, form.layout, name)
    operator = torch.library.custom_op(
        f"tcu::{name}", execute, mutates_args=(), device_types=("cpu", "cuda"),
        schema=f"({', '.join(schema)}) -> Tensor",
    )  # fmt: skip
    operator.register_fake(shape_alone)
    operator.register_autograd(derivative.backward, setup_context=derivative.setup_context)
    operator.register_vmap(form.all_at_once(operator, shape_alone, operands))


def _with_named(form: Form, given: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
    """The arguments of a form, of which some come by name."""
    names = [part.split("=")[0].split()[-1] for part in form.schema.split(", ")] if form.schema else []
    return (*given, *(named[each] for each in names[len(given) :] if each in named))


for _operation in OPERATIONS.values():
    register_operators(_operation)
