"""Functions of libraries by their names, as :func:`tcu.reveal` asks them: with arrays alone."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from tcu.formats.format import get_format

__all__ = ["dtype_for", "with_arrays_alone"]

Function = Callable[..., Any]

_FURTHER: dict[str, Callable[[Function], Function]] = {
    "builtins.sum": lambda f: lambda x: f(x.tolist()),
    "math.fsum": lambda f: lambda x: f(x.tolist()),
    "pyarrow.compute.sum": lambda f: lambda x: f(sys.modules["pyarrow"].array(x)).as_py(),
    "scipy.linalg.blas.dgemm": lambda f: lambda a, b: f(1.0, a, b),
    "scipy.linalg.blas.sgemm": lambda f: lambda a, b: f(1.0, a, b),
    "torch.cumsum": lambda f: lambda x: f(x, dim=0),
}
"""What functions take besides arrays, or instead of them."""
_TENSORS = {
    "binary16": "float16", "binary32": "float32", "binary64": "float64", "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2",
}  # fmt: skip


def with_arrays_alone(name: str, function: Function) -> Function:
    """The function that ``name``, such as torch.cumsum, names, as one of arrays."""
    further = _FURTHER.get(name)
    return function if further is None else further(function)


def dtype_for(name: str, dtype: str) -> Any:
    """A dtype of PyTorch for a function of its own, which takes tensors; else as it is."""
    if not name.startswith("torch."):
        return dtype
    fmt = get_format(dtype).name
    return getattr(sys.modules["torch"], _TENSORS.get(fmt, fmt))
