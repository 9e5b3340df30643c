"""What calls with tensors may have: arrays, options as a schema takes them, offsets, outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import torch

from tcu.errors import ParameterError, unknown_name
from tcu.formats.array import lives_on_gpu, whole_number
from tcu.formats.format import named_format
from tcu.formats.tensor import check_data, check_dense, check_tensor, is_tensor
from tcu.model.pairs import check_alike
from tcu.ops.offsets import check_offsets_form, line_of_offsets
from tcu.ops.result import rounding_target
from tcu.plan import VARIANTS
from tcu.surfaces.torch.watch import PLAIN, constant, has_watchers, in_graph, wants_gradients
from tcu.units import CATALOGUE, get_unit

__all__ = [
    "FLOATS", "check_arrays", "check_numbers", "check_offsets", "check_out", "count_of_segments", "edges_of", "of_schema", "put", "put_result",
    "refuse_details_in_graph", "result_dtype",
]  # fmt: skip

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
"""What can be added up in these formats; integers go another way."""
_TYPES = {
    "unit": str, "variant": str, "chain": int, "block": int, "accumulator": str, "fraction": float, "correction": float, "eps": float, "exclusive": bool,
    "reverse": bool,
}  # fmt: skip


def of_schema(
    names: Sequence[str], options: Sequence[Any], variants: Mapping[str, Any] = VARIANTS
) -> tuple[Any, ...]:
    """The options of these names as operators take them, the dtype last.

    Raises TcuError for what PyTorch would refuse in its own words, or take for something else.
    """
    return tuple(_of_schema(name, option, variants) for name, option in zip(names, options, strict=True))


def _of_schema(name: str, option: Any, variants: Mapping[str, Any]) -> Any:
    if name == "dtype":
        return option if option is None or isinstance(option, torch.dtype) else _torch_dtype(option)
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
        raise unknown_name("variant", option, variants)
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


@constant
def _torch_dtype(dtype: Any) -> Any:
    return getattr(torch, rounding_target(dtype).dtype.name)


def result_dtype(x: Any, dtype: Any) -> Any:
    """The result's dtype, as :func:`tcu.ops.result.result_format` has it."""
    if dtype is not None:
        return _torch_dtype(dtype)
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
    check_offsets(edges, edges.shape)
    if edges.is_meta and not x.is_meta:
        # PyTorch takes the call for one about shapes, and would give memory as it is.
        check_data(edges, "offsets")
    return edges.shape[0] - 1


def check_offsets(edges: Any, shape: Sequence[int]) -> None:
    """Raises DtypeError or ShapeError for a tensor that cannot be offsets, whatever its numbers."""
    check_offsets_form(str(edges.dtype).removeprefix("torch."), tuple(shape))


# What is refused.


def check_arrays(arrays: Sequence[Any], data: bool = False) -> None:
    """Raises DtypeError, ShapeError or ParameterError for tensors that cannot be reduced; with ``data`` also for those without numbers."""
    if _are_ordinary(arrays[0], arrays[-1]):
        return
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
        shapes = tuple(x.shape), tuple(y.shape)
        check_alike(shapes, (x.dtype, y.dtype), "with reshape or expand", f"with y.to({x.dtype})")
    if data:
        _check_data(arrays)


def _are_ordinary(x: Any, y: Any) -> bool:
    """Whether none of what :func:`check_arrays` refuses is true: most tensors, and of few numbers the checks took a fifth of a sum."""
    if y is x:
        return _is_ordinary(x)
    same = _is_ordinary(x) and _is_ordinary(y) and x.dtype is y.dtype
    return same and x.device == y.device and x.shape == y.shape


def _is_ordinary(x: Any) -> bool:
    return (
        type(x) in PLAIN
        and x.dtype in FLOATS
        and x.layout is torch.strided
        and not x.is_nested
        and (x.is_cpu or x.is_cuda)
    )


def check_numbers(arrays: Sequence[Any]) -> None:
    """Raises ParameterError for tensors that have a shape and no numbers, where nobody could give them any."""
    if not has_watchers():
        _check_data(arrays)


def _check_data(arrays: Sequence[Any]) -> None:
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
    if out.requires_grad and wants_gradients():
        raise ParameterError("out requires grad: give a tensor that does not, out.detach()")


def put(record: Any, arrays: Sequence[Any], rest: Sequence[Any], dtype: Any, out: Any) -> Any:
    """``out`` with what ``record(*arrays, *rest, dtype)`` gives in it, in the dtype of ``out`` if none is named."""
    _check_gradients(arrays)
    return _copied(record(*arrays, *rest, dtype or out.dtype), out)


def put_result(result: Any, out: Any) -> Any:
    """``out`` with a result in it that no operator wrote there."""
    check_out(out, result, tuple(result.shape))
    _check_gradients([result])
    return _copied(result, out)


def _check_gradients(arrays: Sequence[Any]) -> None:
    if wants_gradients() and any(x.requires_grad for x in arrays):
        raise ParameterError(
            "x requires grad, and no gradient goes through out: leave out=... out, or call under torch.no_grad()"
        )


def _copied(result: Any, out: Any) -> Any:
    if result.dtype != out.dtype:
        raise ParameterError(
            f"out has dtype {out.dtype}, the result {result.dtype}: give them the same dtype"
        )
    return out.copy_(result.reshape(out.shape))
