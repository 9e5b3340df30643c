"""``where=``: reductions of the elements that a mask selects, as if the others were not there.

Whole arrays become a line of the selected elements, rows along axes its
segments.  So each result has the bits that the function gives for its selected
elements alone, in every library, with gradients.
"""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

from tcu.errors import ParameterError
from tcu.formats.array import is_dask, is_masked, lives_on_gpu, numpy_array
from tcu.formats.tensor import is_tensor
from tcu.model.elements import Elements
from tcu.model.pairs import check_alike
from tcu.ops.layout import Along, Axes, Layout, Ragged, Whole
from tcu.ops.operation import Call, Operation
from tcu.surfaces.call import run, run_dask, tensors
from tcu.surfaces.masks import check_mask
from tcu.surfaces.one_library import is_whole

__all__ = ["run_where"]


def run_where(
    operation: Operation, arrays: tuple[Any, ...], layout: Whole | Along, where: Any, options: tuple[Any, ...],
    out: Any = None, return_info: bool = False, progress: Any = None,
) -> Any:  # fmt: skip
    """As :func:`tcu.surfaces.call.run`, of the elements where the mask is true."""
    if any(map(is_dask, (*arrays, where))):
        return run_dask(Call(operation, arrays, layout, options, out, return_info, progress), where)
    library = _library_of(arrays)
    arrays = tuple(library.array(name, x) for name, x in zip(operation.operands, arrays, strict=True))
    if len(arrays) == 2:
        shapes, dtypes = ([tuple(x.shape) for x in arrays], [x.dtype for x in arrays])
        check_alike(shapes, dtypes, "with reshape", "with astype")
    shape = tuple(arrays[0].shape)
    mask = library.mask(where, arrays[0])
    check_mask(tuple(mask.shape), str(mask.dtype), shape)
    mask = library.broadcast(mask, shape)
    in_batch = library.is_in_batch(mask)
    if isinstance(layout, Whole) and not in_batch:
        lines = tuple(x[mask] for x in arrays)
        return run(operation, lines, layout, options, out, return_info, progress)
    for name, given in (("out", out), ("progress", progress), ("return_info", return_info or None)):
        if given is not None:
            also = "a mask that torch.func transforms" if in_batch else "axis"
            raise ParameterError(f"{name} with where and {also} is not there: leave {name} out")
    axes = Axes.of(layout, shape)
    order = (*axes.kept, *axes.reduced)
    mask = library.ordered(mask, order)
    ordered = [library.ordered(x, order) for x in arrays]
    if in_batch:
        if any(map(is_whole, ordered)):
            raise ParameterError(
                f"{operation} of integers with a where that torch.func transforms is not there: call it mask by mask, or give "
                "floating-point numbers"
            )
        return library.shaped(_in_batch(operation, ordered, mask, axes, options), axes.shape)
    lines = tuple(x[mask] for x in ordered)
    edges: Layout = Ragged(library.edges(mask, len(axes.kept)), check=False)
    return library.shaped(run(operation, lines, edges, options), axes.shape)


def _in_batch(
    operation: Operation, arrays: list[Any], mask: Any, axes: Axes, options: tuple[Any, ...]
) -> Any:
    """The results of tensors' rows, one after another, of a mask of which each in a batch of vmap selects another number.

    So that shapes are the same for all, a row's selected numbers are moved to its front, in their order, and are a segment; what is
    behind them is another one, of zeros, whose result is left out.
    """
    torch = sys.modules["torch"]
    rows, n = math.prod(axes.shape), axes.n
    mask = mask.reshape(rows, n)
    places = torch.sort((~mask).to(torch.uint8), dim=1, stable=True)[1]
    counts = mask.sum(1)
    selected = torch.arange(n, device=mask.device) < counts[:, None]
    lines = tuple(
        torch.where(selected, x.reshape(rows, n).gather(1, places), 0).reshape(rows * n) for x in arrays
    )
    starts = n * torch.arange(rows, device=mask.device)
    edges = torch.cat(
        [torch.stack([starts, starts + counts], 1).reshape(2 * rows), starts.new_full((1,), rows * n)]
    )
    return run(operation, lines, Ragged(edges, check=False), options)[::2]


class _OfNumPy:
    """Arrays that NumPy reads."""

    @staticmethod
    def array(name: str, x: Any) -> Any:
        return Elements(x, name).array if is_masked(x) else np.asarray(x)

    @staticmethod
    def mask(where: Any, x: Any) -> Any:
        if is_tensor(where) and tensors().is_wrapped(where):
            raise ParameterError("where is a tensor that torch.func transforms, and x is none: pass tensors")
        return numpy_array(where, "where")

    @staticmethod
    def is_in_batch(mask: Any) -> bool:
        return False

    @staticmethod
    def broadcast(mask: Any, shape: tuple[int, ...]) -> Any:
        return np.broadcast_to(mask, shape)

    @staticmethod
    def ordered(x: Any, order: tuple[int, ...]) -> Any:
        return x.transpose(order)

    @staticmethod
    def edges(mask: Any, kept: int) -> Any:
        counts = np.count_nonzero(mask, axis=tuple(range(kept, mask.ndim)))
        return np.concatenate([[0], np.cumsum(counts, dtype=np.int64).reshape(-1)])

    @staticmethod
    def shaped(result: Any, shape: tuple[int, ...]) -> Any:
        return result.reshape(shape)[()]


class _OfCuPy(_OfNumPy):
    @staticmethod
    def array(name: str, x: Any) -> Any:
        return x

    @staticmethod
    def mask(where: Any, x: Any) -> Any:
        return sys.modules["cupy"].asarray(where)

    @staticmethod
    def broadcast(mask: Any, shape: tuple[int, ...]) -> Any:
        return sys.modules["cupy"].broadcast_to(mask, shape)

    @staticmethod
    def edges(mask: Any, kept: int) -> Any:
        cupy = sys.modules["cupy"]
        counts = cupy.count_nonzero(mask, axis=tuple(range(kept, mask.ndim))).reshape(-1)
        return cupy.concatenate([cupy.zeros(1, np.int64), cupy.cumsum(counts, dtype=np.int64)])

    @staticmethod
    def shaped(result: Any, shape: tuple[int, ...]) -> Any:
        return result.reshape(shape)


class _OfPyTorch(_OfNumPy):
    @staticmethod
    def array(name: str, x: Any) -> Any:
        if not is_tensor(x):
            raise ParameterError(f"arrays of PyTorch, {type(x).__module__}: pass arrays of one library")
        return x

    @staticmethod
    def mask(where: Any, x: Any) -> Any:
        torch = sys.modules["torch"]
        if torch.compiler.is_dynamo_compiling():
            raise ParameterError(
                "where does not go through torch.compile, as nobody knows how many elements it selects: call outside of "
                "it, or put zeros in the other places with torch.where"
            )
        if not is_tensor(where):
            where = numpy_array(where, "where")
            check_mask(where.shape, str(where.dtype), tuple(x.shape))
        return torch.as_tensor(where, device=x.device)

    @staticmethod
    def is_in_batch(mask: Any) -> bool:
        return bool(tensors().is_wrapped(mask))

    @staticmethod
    def broadcast(mask: Any, shape: tuple[int, ...]) -> Any:
        return mask.expand(shape)

    @staticmethod
    def ordered(x: Any, order: tuple[int, ...]) -> Any:
        return x.permute(order)

    @staticmethod
    def edges(mask: Any, kept: int) -> Any:
        torch = sys.modules["torch"]
        axes = tuple(range(kept, mask.dim()))
        counts = (mask.sum(axes) if axes else mask.long()).reshape(-1)
        return torch.cat([counts.new_zeros(1), counts.cumsum(0)])

    @staticmethod
    def shaped(result: Any, shape: tuple[int, ...]) -> Any:
        return result.reshape(shape)


def _library_of(arrays: tuple[Any, ...]) -> Any:
    if any(map(is_tensor, arrays)):
        return _OfPyTorch
    if not any(map(lives_on_gpu, arrays)):
        return _OfNumPy
    names = {type(x).__module__.partition(".")[0] for x in arrays}
    if names != {"cupy"}:
        raise ParameterError(
            f"where with arrays of {', '.join(sorted(names))} on a GPU: give CuPy's arrays or PyTorch's tensors"
        )
    return _OfCuPy
