"""PyTorch tensors in the host's memory, as NumPy arrays and back: bits unchanged, nothing copied.

PyTorch is never imported here, only met.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.errors import DtypeError, ParameterError, no_real_numbers
from tcu.formats.format import get_format

__all__ = [
    "check_data",
    "check_dense",
    "check_memory",
    "check_no_gradient",
    "check_on_host",
    "check_tensor",
    "host_view",
    "is_batch",
    "is_tensor",
    "matrix_view",
    "operand_view",
    "plain_view",
    "tensor_of",
]

_SUMMABLE = ("float16", "bfloat16", "float32", "float64")
_BFLOAT16 = get_format("bfloat16")
"""A format whose numbers PyTorch and NumPy pass to each other as 16-bit integers only."""


_met: list[type] = []
"""torch.Tensor, once PyTorch was met."""


def is_tensor(x: Any) -> bool:
    """Whether x is a PyTorch tensor, wherever it lives.

    ``sys.modules`` is asked until PyTorch is met, and never again: torch.compile
    goes through all of a dictionary that it sees read, which failed now and
    then while another thread imported a module.
    """
    if not _met:
        torch = sys.modules.get("torch")
        if torch is None:
            return False
        _met.append(torch.Tensor)
    return isinstance(x, _met[0])


def host_view(x: Any, name: str = "x", verb: str = "sum") -> npt.NDArray[Any]:
    """A tensor's own memory as a NumPy array; raises DtypeError or ParameterError, which name it."""
    check_tensor(x, name, verb)
    check_data(x, name)
    check_on_host(x, name)
    return plain_view(x, name)


def plain_view(x: Any, name: str) -> npt.NDArray[Any]:
    """The same of a tensor that was checked."""
    torch = sys.modules["torch"]
    plain = (x.detach() if x.requires_grad else x).resolve_neg()
    check_memory(plain, name)
    if plain.dtype is torch.bfloat16:
        return np.asarray(plain.view(torch.int16).numpy().view(_BFLOAT16.dtype))
    return np.asarray(plain.numpy())


def matrix_view(x: Any, name: str) -> npt.NDArray[Any]:
    """The same of a tensor for :func:`tcu.mma`, which has no gradient."""
    check_data(x, name)
    check_no_gradient(x, name, "tcu.mma")
    return operand_view(x, name)


def operand_view(x: Any, name: str) -> npt.NDArray[Any]:
    """A tensor of any format, on the host, as a NumPy array, for products.

    Raises DtypeError or ParameterError, which name it.
    """
    check_data(x, name)
    check_dense(x, name, "multiply")
    plain = x.detach().resolve_neg()
    check_memory(plain, name)
    try:
        return np.asarray(plain.numpy())
    except TypeError:  # a format that NumPy does not have
        code = {1: "uint8", 2: "int16"}[plain.element_size()]
        codes = plain.view(getattr(sys.modules["torch"], code)).numpy()
        return np.asarray(codes.view(get_format(str(x.dtype).removeprefix("torch.")).dtype))


def tensor_of(number: Any) -> Any:
    """A NumPy scalar or array as a tensor, which shares the array's memory."""
    torch = sys.modules["torch"]
    array = np.asarray(number)
    if array.dtype.kind == "V" and array.dtype == _BFLOAT16.dtype:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def check_dense(x: Any, name: str, verb: str) -> None:
    """Raises DtypeError unless it is a tensor whose numbers lie in memory at strides."""
    masked = sys.modules.get("torch.masked")
    if masked is not None and isinstance(x, masked.MaskedTensor):
        raise DtypeError(
            f"{name} is a masked tensor: {verb} {name}.to_tensor(0), or what takes the others' place"
        )
    if x.is_nested:
        raise DtypeError(f"{name} is a nested tensor: {verb} {name}.values(), or each of {name}.unbind()")
    if str(x.layout) != "torch.strided":
        raise DtypeError(f"{name} is a {x.layout} tensor: make it dense, with {name}.to_dense()")


def check_tensor(x: Any, name: str, verb: str) -> None:
    """Raises DtypeError unless it is a dense tensor of a dtype that can be summed."""
    check_dense(x, name, verb)
    if x.is_quantized:
        raise DtypeError(f"{name} is quantized, {x.dtype}: {verb} {name}.dequantize()")
    if x.is_complex():
        raise no_real_numbers(name, x.dtype)
    if str(x.dtype).removeprefix("torch.") not in _SUMMABLE:
        raise DtypeError(
            f"{name} has dtype {x.dtype}, none of {', '.join(_SUMMABLE)}: convert it first, "
            f"for example with {name}.to(torch.float64)"
        )


def check_data(x: Any, name: str) -> None:
    """Raises ParameterError for a tensor that has a shape and no numbers."""
    fake = sys.modules.get("torch._subclasses.fake_tensor")
    if x.is_meta or (fake is not None and isinstance(x, fake.FakeTensor)):
        kind = "on the meta device" if x.is_meta else "a FakeTensor"
        raise ParameterError(
            f"{name} is {kind} and holds no numbers: make one that does, with "
            f"torch.zeros({name}.shape, dtype={name}.dtype), or ask the operators of torch.ops.tcu for the "
            "result's shape and dtype alone"
        )


def is_batch(x: Any) -> bool:
    """Whether it is one of a batch, to a function that torch.vmap maps."""
    return is_tensor(x) and bool(sys.modules["torch"]._C._functorch.is_batchedtensor(x))


def check_on_host(x: Any, name: str) -> None:
    """Raises ParameterError for a tensor in a GPU's memory."""
    if x.device.type != "cpu":
        raise ParameterError(f"{name} is on {x.device}: copy it to the host, with {name}.cpu()")


def check_no_gradient(x: Any, name: str, function: str) -> None:
    """Raises ParameterError for a tensor that wants a gradient, of a function that has none."""
    if x.requires_grad:
        raise ParameterError(f"{name} wants a gradient, which {function} does not have: pass {name}.detach()")


def check_memory(x: Any, name: str) -> None:
    """Raises ParameterError for a dense tensor that has elements and no memory, where address 0 would be read."""
    if not x.data_ptr() and x.numel():
        raise ParameterError(
            f"{name} has {x.numel()} elements and no memory, which was freed or never taken: give it numbers, "
            f"for example with torch.zeros_like({name})"
        )
