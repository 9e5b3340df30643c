"""``tcu.matmul`` and ``tcu.segment_matmul``: whose arrays a call has, and who executes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy.typing as npt

from tcu.engines import engine_of, host
from tcu.errors import ParameterError
from tcu.formats.array import check_in_memory, is_dask, lives_on_gpu
from tcu.formats.tensor import is_tensor
from tcu.ops.matmul import MatmulCall, MatmulOptions
from tcu.units import Unit

__all__ = ["matmul", "segment_matmul"]


def matmul(
    a: Any,
    b: Any,
    *,
    out: Any = None,
    dtype: npt.DTypeLike | Any = None,
    plan: Literal["chunks", "chain"] = "chunks",
    rounding: Literal["nearest", "cut"] = "nearest",
    accumulator: str | None = None,
    scale_a: Any = None,
    scale_b: Any = None,
    bias: Any = None,
    unit: str | Unit | None = None,
) -> Any:
    """The product of matrices on a matrix unit, whose bits depend on the rows, the columns and K alone.

    By a plan (:class:`tcu.plan.MatmulPlan`): K is cut into chunks, each is one
    chain of the unit's MMAs from zero, and their results are added in order
    in binary32.  So a row has the same bits alone and in every batch, on the
    CPU's model of a unit and on that unit; and the error of a sum hardly grows
    with K, where that of one chain, which the unit cuts toward zero at each
    step, grows in proportion.

    Parameters
    ----------
    a, b:
        Arrays by the rules of ``numpy.matmul``: (..., M, K) and (..., K, N),
        batches broadcast, a vector stands for one row of ``a`` or one column
        of ``b``; of any strides.  Both of float16, bfloat16, float8_e4m3fn,
        float8_e5m2, float32 (in TF32) or float64, or of uint8 and int8 in any
        pairing.  Of NumPy, PyTorch, Dask, or on a GPU of anything with
        ``__dlpack__`` or ``__cuda_array_interface__``.
    out:
        Array of the result's shape and dtype that takes it.
    dtype:
        float16, bfloat16, float32 or float64 (for integers int32, too), to
        which the result is rounded once, to nearest.  None: the dtype of
        ``out``, or the accumulator's; of integers with scales or a bias float32.
    plan:
        "chunks" of 256 of K (16-bit formats) or 128 (TF32 and 8-bit formats);
        "chain": one chain over all of K, as cuBLAS computes where it does not
        split K.  Integers, whose sums are exact and wrap, and float64 have one
        chain in any case.
    rounding:
        Of float32 to TF32: to "nearest" (ties to even), as cuBLAS does, or
        "cut", as the unit alone and :func:`tcu.mma` do.
    accumulator:
        "float16" for chains in binary16, where the unit has them; None: the
        widest, float32, float64 or int32.
    scale_a, scale_b:
        Numbers, or vectors of one for each row and for each column, by which
        sums are multiplied, first by that of the row: in float32 (float64 for
        float64), each product rounded to nearest.
    bias:
        A number, or a vector of one for each column, added after that, rounded
        to nearest.
    unit:
        A name of the catalogue, or a :class:`tcu.Unit` of your own.  None:
        "H100" on the model; on a GPU, that GPU.  Its wgmma or tcgen05
        multiplies where it has them for the formats, else its mma.

    Returns
    -------
    An array (..., M, N) of the library of ``a``, without M or N where a vector
    was given; zeros where K is 0.

    Raises
    ------
    ShapeError, DtypeError, UnknownNameError:
        Shapes that do not fit; formats that the unit does not combine.
    ParameterError:
        Options or an ``out`` that cannot be.
    tcu.gpu.GpuError:
        No GPU, driver or extra; an instruction that the GPU lacks.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> a = np.arange(6, dtype=np.float16).reshape(2, 3)
    >>> tcu.matmul(a, a.T, dtype=np.float16)
    array([[ 5., 14.],
           [14., 50.]], dtype=float16)
    """
    options = MatmulOptions(plan, rounding, accumulator, unit, dtype)
    return _run(MatmulCall(a, b, scale_a, scale_b, bias, options, out))


def _no_shortcut(_: MatmulCall) -> None:
    return None


_shortcut: list[Callable[[MatmulCall], Any]] = [_no_shortcut]
"""Asked first where a is a tensor, for the result of a call like one before, or None."""


def _run(call: MatmulCall) -> Any:
    """The result, in the library of the arrays."""
    if is_tensor(call.a) and is_tensor(call.b):
        result = _shortcut[0](call)
        if result is not None:
            return result
    arrays = call.arrays if call.out is None else (*call.arrays, call.out)
    if any(map(is_tensor, arrays)):
        tensors, _ = _tensors()
        _shortcut[0] = tensors.shortcut
        return tensors.run(call)
    if any(map(is_dask, arrays)):
        from tcu.surfaces.dask_matmul import run as lazily  # loads Dask's arrays, which were met

        return lazily(call)
    return engine_of(call.arrays).multiply(call)


def _tensors() -> tuple[Any, Any]:
    """What serves products of tensors, and of segments of them."""
    from tcu.surfaces.torch import matmul, segment_matmul  # register operators, which imports PyTorch

    return matmul, segment_matmul


def segment_matmul(
    x: Any,
    weights: Any,
    offsets: Any,
    *,
    out: Any = None,
    check: bool = True,
    dtype: npt.DTypeLike | Any = None,
    plan: Literal["chunks", "chain"] = "chunks",
    rounding: Literal["nearest", "cut"] = "nearest",
    accumulator: str | None = None,
    unit: str | Unit | None = None,
) -> Any:
    """The rows of each segment times a matrix of its own, each row with the bits of :func:`tcu.matmul`.

    Rows ``offsets[i]`` up to ``offsets[i + 1]`` of ``x`` are multiplied by
    ``weights[i]``, as tokens are by the experts that they were sent to.  What
    becomes of a row depends on that row and its matrix alone.

    Parameters
    ----------
    x:
        Array (rows, K) of NumPy, or a tensor of PyTorch, with gradients.
    weights:
        Array (segments, K, N) of the same dtype.
    offsets:
        segments + 1 whole numbers, from 0 to the number of rows, in order, as
        in :func:`tcu.segment_sum`.
    check:
        Whether offsets on a GPU are looked at, for which this waits for them.
        Without it the call does not wait, and CUDA graphs can be made of it;
        wrong offsets give wrong rows then.
    out, dtype, plan, rounding, accumulator, unit:
        As in :func:`tcu.matmul`.

    Returns
    -------
    An array (rows, N).

    Raises
    ------
    ShapeError, DtypeError, UnknownNameError, ParameterError:
        What :func:`tcu.matmul` raises; offsets that cannot be.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> tokens = np.arange(8, dtype=np.float16).reshape(4, 2)
    >>> experts = np.stack([np.eye(2), 2 * np.eye(2)]).astype(np.float16)
    >>> tcu.segment_matmul(tokens, experts, [0, 1, 4])
    array([[ 0.,  1.],
           [ 4.,  6.],
           [ 8., 10.],
           [12., 14.]], dtype=float32)
    """
    options = MatmulOptions(plan, rounding, accumulator, unit, dtype)
    for name, each in (("x", x), ("weights", weights), ("offsets", offsets)):
        check_in_memory(each, name)
    if is_tensor(x) or is_tensor(weights):
        _, tensors = _tensors()
        return tensors.run(x, weights, offsets, check, options, out)
    if lives_on_gpu(x) or lives_on_gpu(weights):
        raise ParameterError(
            "segment_matmul takes arrays in the host's memory and tensors: make x one, with torch.from_dlpack"
        )
    return host.multiply_segments(x, weights, offsets, options, out)
