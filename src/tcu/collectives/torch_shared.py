"""What the PyTorch operators have in common: who watches a call, what a schema takes, what an output must be."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import torch
from torch.autograd import forward_ad

from tcu.collectives.results import rounding_target
from tcu.collectives.segments import check_offsets_form, checked_offsets, line_of_offsets
from tcu.errors import DtypeError, ParameterError, ShapeError, unknown_name
from tcu.formats.array import lives_on_gpu, whole_number
from tcu.formats.format import named_format
from tcu.formats.tensor import check_data, check_dense, check_tensor, is_tensor
from tcu.plan import DEFAULT_VARIANT, VARIANTS
from tcu.units import CATALOGUE, get_unit

__all__ = [
    "ARGUMENTS",
    "PLAIN",
    "Derivative",
    "add_operator",
    "check_arrays",
    "check_numbers",
    "check_out",
    "count_of_segments",
    "defaults",
    "differentiable",
    "dtype_of_schema",
    "edges_of",
    "hidden",
    "holds_numbers",
    "in_graph",
    "is_watched",
    "of_schema",
    "put",
    "recorder",
    "refuse_details_in_graph",
    "result_dtype",
    "schema_of",
    "segments_of_batch",
]

ARGUMENTS = {
    "x": "Tensor x", "y": "Tensor y", "unit": "str? unit=None", "variant": f"str variant='{DEFAULT_VARIANT}'",
    "chain": "int? chain=None", "block": "int? block=None", "accumulator": "str? accumulator=None",
    "fraction": "float? fraction=None", "dtype": "ScalarType? dtype=None",
}  # fmt: skip
"""Of the operators' schemas."""
_TYPES = {"unit": str, "variant": str, "chain": int, "block": int, "accumulator": str, "fraction": float}
PLAIN = (torch.Tensor, torch.nn.Parameter)


def defaults(names: Sequence[str]) -> tuple[Any, ...]:
    """What the schema gives options that a call leaves out."""
    return tuple(DEFAULT_VARIANT if name == "variant" else None for name in names)


def schema_of(*names: str) -> str:
    """The arguments of these names, as a schema has them."""
    return ", ".join(ARGUMENTS[name] for name in names)


def add_operator(
    name: str, arguments: str, execute: Any, shape_alone: Any, derivative: Any, all_at_once: Any
) -> Any:
    """The operator torch.ops.tcu.``name`` of tensors on the CPU and on GPUs.

    ``arguments``: of its schema.  ``shape_alone`` takes them too, for tracing;
    ``derivative``: an autograd.Function; ``all_at_once``: its vmap.
    """
    operator = torch.library.custom_op(
        f"tcu::{name}", execute, mutates_args=(), device_types=("cpu", "cuda"), schema=f"({arguments}) -> Tensor"
    )  # fmt: skip
    operator.register_fake(shape_alone)
    operator.register_autograd(derivative.backward, setup_context=derivative.setup_context)
    operator.register_vmap(all_at_once)
    return operator


def hidden(owner: Any, name: str, otherwise: Any) -> Any:
    """A function that PyTorch does not document, or what stands in for it: slower, equally right."""
    return getattr(owner, name, otherwise)


# Who watches a call.

_function_modes = hidden(torch._C, "_len_torch_function_stack", lambda: 1)
_dispatch_modes = hidden(torch._C, "_len_torch_dispatch_stack", lambda: 1)
_transforms = hidden(
    hidden(torch._C, "_functorch", None), "get_dynamic_layer_stack_depth", lambda: 1
)  # torch.func
_is_wrapped = hidden(hidden(torch._C, "_functorch", None), "is_functorch_wrapped_tensor", lambda x: True)
_wants_gradients = torch.is_grad_enabled
in_graph = torch.compiler.is_dynamo_compiling


def is_watched(x: Any, y: Any) -> bool:
    """Whether a call with these tensors must go through an operator; x and y may be one."""
    return not (
        type(x) in PLAIN
        and type(y) in PLAIN
        and not ((x.requires_grad or y.requires_grad) and _wants_gradients())
        and not _transforms()
        and not _dispatch_modes()
        and not _function_modes()
        and forward_ad._current_level < 0
    )


def holds_numbers(arrays: Sequence[Any]) -> bool:
    """Whether these are tensors with numbers of their own, which no transformation replaces."""
    return all(type(x) in PLAIN for x in arrays) and not _transforms() and not _dispatch_modes()


def _constant(function: Any) -> Any:
    """torch.compiler.assume_constant_result, which imports torch._dynamo: two seconds before a first sum."""
    function._dynamo_marked_constant = True
    return function


@_constant
def _derives() -> bool:
    """Whether a derivative of torch.func or forward mode is under way; vmap is none."""
    stack = torch._C._functorch.get_interpreter_stack() or ()
    return forward_ad._current_level >= 0 or any(
        level.key() != torch._C._functorch.TransformType.Vmap for level in stack
    )


def recorder(operator: str, function: Any, name: str) -> Any:
    """What records a call: the operator, or where torch.func and forward mode ask for more, a function of autograd.

    ``name`` is what the caller knows it by.
    """
    if in_graph():
        if _derives():
            raise ParameterError(
                f"tcu.{name} under torch.func.grad or in forward mode does not go through torch.compile: "
                "compile the function alone and call backward, or leave torch.compile out"
            )
    elif _transforms() or forward_ad._current_level >= 0:
        return function.apply
    return getattr(torch.ops.tcu, operator)


class Derivative(torch.autograd.Function):  # type: ignore[misc]
    """An operator with its derivatives, as torch.func asks for them; its registration takes them from here."""

    generate_vmap_rule = True

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        x = inputs[0]
        ctx.rest = (None,) * (len(inputs) - 1)
        ctx.shape, ctx.dtype, ctx.n, ctx.result_dtype = x.shape, x.dtype, x.numel(), output.dtype


def differentiable(operator: str, derivative: type[Derivative]) -> type[Derivative]:
    """The operator as a function of autograd."""

    def forward(*arguments: Any) -> Any:
        return getattr(torch.ops.tcu, operator)(*arguments)

    return type(f"{derivative.__name__}_{operator}", (derivative,), {"forward": staticmethod(forward)})


# What a schema takes.


def of_schema(names: Sequence[str], options: Sequence[Any]) -> tuple[Any, ...]:
    """The options of these names as operators take them, the dtype last.

    Raises TcuError for what PyTorch would refuse in its own words, or take for something else.
    """
    return tuple(_of_schema(name, option) for name, option in zip(names, options, strict=True))


def _of_schema(name: str, option: Any) -> Any:
    if name == "dtype":
        return dtype_of_schema(option)
    if type(option) is _TYPES[name] or (option is None and name != "variant"):
        return option  # if it is none of those that there are, who executes it says so
    if name == "unit":
        unit = get_unit(option)
        if CATALOGUE.get(unit.name) != unit:
            raise ParameterError(
                f"unit is {unit.name!r}, which the catalogue does not have, and operators of PyTorch know units "
                "by name: detach x, and call outside of torch.compile and torch.func"
            )
        return unit.name
    if name == "variant":
        raise unknown_name("variant", option, VARIANTS)
    if name == "accumulator":
        return named_format(option).name
    if name == "fraction":
        if not isinstance(option, Real):
            raise ParameterError(f"fraction = {option!r}: choose 0 to 1, the share for the tensor cores")
        return float(option)
    number = whole_number(option)
    if number is None:
        label = {"chain": "chain (R)", "block": "block (B)"}[name]
        raise ParameterError(f"{label} = {option!r}: choose a whole number")
    return number


def dtype_of_schema(dtype: Any) -> Any:
    return dtype if dtype is None or isinstance(dtype, torch.dtype) else _torch_dtype(dtype)


@_constant
def _torch_dtype(dtype: Any) -> Any:
    return getattr(torch, rounding_target(dtype).dtype.name)


def result_dtype(x: Any, dtype: Any) -> Any:
    """The result's dtype, as :func:`tcu.collectives.results.result_format` has it."""
    if dtype is not None:
        return getattr(torch, rounding_target(dtype).dtype.name)
    return torch.float32 if x.dtype.itemsize == 2 else x.dtype


# Segments.


def edges_of(offsets: Any) -> Any:
    """Offsets as operators take them; raises DtypeError or ShapeError for what on the host cannot be offsets."""
    if is_tensor(offsets):
        if not in_graph():
            check_dense(offsets, "offsets", "give")
        return offsets
    if in_graph() or lives_on_gpu(offsets):
        return torch.as_tensor(offsets)
    return torch.from_numpy(line_of_offsets(offsets).copy())  # which may be read-only, and then PyTorch warns


def count_of_segments(edges: Any, x: Any) -> Any:
    """Raises DtypeError, ShapeError or ParameterError for what cannot be offsets of ``x``."""
    _check_form(edges, edges.shape)
    if edges.is_meta and not x.is_meta:
        # PyTorch takes the call for one about shapes, and would give memory as it is.
        check_data(edges, "offsets")
    return edges.shape[0] - 1


def _check_form(edges: Any, shape: Sequence[int]) -> None:
    check_offsets_form(str(edges.dtype).removeprefix("torch."), tuple(shape))


def segments_of_batch(name: str, shape_alone: Any, apart: Any) -> Any:
    """The vmap of an operator on segments.

    One longer line that is cut alike again and again, of whose results ``apart`` makes each line's; where each has
    offsets of its own, one after another.
    """

    def all_at_once(info: Any, where: tuple[Any, ...], x: Any, offsets: Any, *rest: Any, **named: Any) -> Any:
        x_at, offsets_at, count, operator = *where[:2], info.batch_size, getattr(torch.ops.tcu, name)
        lines = x.unsqueeze(0).expand(count, -1) if x_at is None else x.movedim(x_at, 0)
        if not count:
            edges = offsets if offsets_at is None else offsets.new_empty(offsets.shape[1 - offsets_at])
            one = shape_alone(lines.new_empty(lines.shape[1]), edges, *rest, **named)
            return one.new_empty((0, *one.shape)), 0
        _check_form(offsets, [size for i, size in enumerate(offsets.shape) if i != offsets_at])
        if offsets_at is not None:
            pairs = zip(lines.unbind(0), offsets.unbind(offsets_at), strict=True)
            return torch.stack([operator(line, edges, *rest, **named) for line, edges in pairs]), 0
        has_numbers = type(offsets) in PLAIN and not _dispatch_modes() and not _is_wrapped(offsets)
        if has_numbers and not offsets.is_cuda:
            checked_offsets(offsets, lines.shape[1])  # while they are those of one line
        shift = lines.shape[1] * torch.arange(count, dtype=torch.int64, device=offsets.device)
        # The last offset of each is there too, and shows in the end if it is wrong; with the next first one it makes
        # an empty segment.
        joined = (offsets + shift.unsqueeze(1)).reshape(-1)
        return apart(operator(lines.reshape(-1), joined, *rest, **named), lines), 0

    return all_at_once


# What is refused.


def check_arrays(arrays: Sequence[Any]) -> None:
    """Raises DtypeError, ShapeError or ParameterError for tensors that cannot be reduced."""
    if not all(is_tensor(x) for x in arrays):
        names = ", ".join("PyTorch" if is_tensor(x) else type(x).__module__ for x in arrays)
        raise ParameterError(f"arrays of {names}: pass arrays of one library")
    verb = "sum" if len(arrays) == 1 else "multiply"
    for name, x in zip(("x", "y"), arrays, strict=False):
        check_tensor(x, name, verb)
        if x.device.type not in ("cpu", "cuda", "meta"):
            raise ParameterError(
                f"{name} is on {x.device}, whose numbers tcu cannot add: move it with {name}.cpu() or {name}.cuda()"
            )
    if len(arrays) == 2:
        x, y = arrays
        if x.device != y.device:
            raise ParameterError(f"x is on {x.device}, y on {y.device}: move both to one device")
        if x.shape != y.shape:
            raise ShapeError(
                f"x has shape {tuple(x.shape)} and y {tuple(y.shape)}: give both one shape, for example "
                "with reshape or expand"
            )
        if x.dtype != y.dtype:
            raise DtypeError(f"x has dtype {x.dtype} and y {y.dtype}: convert one of them")


def check_numbers(arrays: Sequence[Any]) -> None:
    """Raises ParameterError for tensors that have a shape and no numbers, where nobody could give them any."""
    if not (_dispatch_modes() or _function_modes() or _transforms()):
        for name, x in zip(("x", "y"), arrays, strict=False):
            check_data(x, name)


def refuse_details_in_graph(return_info: bool, progress: Any) -> None:
    if return_info or progress is not None:
        raise ParameterError(
            "return_info and progress do not go through torch.compile: leave them out, or call outside of it"
        )


# Outputs.


def check_out(out: Any, like: Any, shape: tuple[int, ...] | None = None) -> None:
    """Raises ParameterError unless ``out`` can take a result of that shape, or one number in any shape (None)."""
    form = "a 0-d tensor" if shape is None else "a tensor"
    advice = f"give {form}, torch.empty({shape or ()}, dtype=...)"
    if not is_tensor(out):
        raise ParameterError(f"out is a {type(out).__name__}, x a tensor: {advice}")
    if out.device != like.device:
        raise ParameterError(f"x is on {like.device}, out on {out.device}: give both one device")
    if shape is None and out.numel() != 1:
        raise ParameterError(f"out has shape {tuple(out.shape)}: {advice}")
    if shape is not None and tuple(out.shape) != shape:
        raise ParameterError(f"out has shape {tuple(out.shape)}, the result {shape}: {advice}")
    if not in_graph() and out.is_neg():
        raise ParameterError(f"out is a view that negates the numbers in memory, out.is_neg(): {advice}")
    if out.requires_grad and _wants_gradients():
        raise ParameterError("out requires grad: give a tensor that does not, out.detach()")


def put(record: Any, arrays: Sequence[Any], rest: Sequence[Any], dtype: Any, out: Any) -> Any:
    """``out`` with what ``record(*arrays, *rest, dtype)`` gives in it, in the dtype of ``out`` if none is named."""
    if _wants_gradients() and any(x.requires_grad for x in arrays):
        raise ParameterError(
            "x requires grad, and no gradient goes through out: leave out=... out, or call under torch.no_grad()"
        )
    result = record(*arrays, *rest, dtype or out.dtype)
    if result.dtype != out.dtype:
        raise ParameterError(
            f"out has dtype {out.dtype}, the result {result.dtype}: give them the same dtype"
        )
    return out.copy_(result.reshape(out.shape))
