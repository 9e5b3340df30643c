"""Who executes ``tcu.mma``: the model, the GPU on which the arrays live, or the processor's own instruction."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

from tcu.engines import cpu, load_cuda
from tcu.errors import ParameterError
from tcu.formats.array import lives_on_gpu
from tcu.formats.tensor import is_tensor, matrix_view, tensor_of
from tcu.model import mma as model
from tcu.surfaces.call import tensors
from tcu.units import DEFAULT_UNIT, Unit

__all__ = ["mma"]


def mma(
    a: Any,
    b: Any,
    c: Any = None,
    *,
    unit: str | Unit | None = None,
    instruction: str = "mma",
    executor: Literal["model", "gpu", "cpu"] | None = None,
    scale_a: Any = None,
    scale_b: Any = None,
) -> Any:
    """D = A·B + C exactly as a matrix unit computes it, bit for bit, NaN bits included.

    Any M, N, K: K is cut into the instruction's k in order, the last piece
    padded with zeros; the result of one piece is the C of the next.

    Parameters
    ----------
    a, b:
        Arrays (..., M, K) and (..., K, N) of float16, bfloat16, float32 (read
        as TF32: the low 13 bits are dropped), float64, uint8 or int8, or of 8, 6
        or 4 bits: float8_e4m3fn, float8_e5m2, float8_e4m3fnuz,
        float8_e5m2fnuz, float6_e3m2fn, float6_e2m3fn, float4_e2m1fn of
        ml_dtypes, one number to a byte.  Batch dimensions broadcast.  Of NumPy, or on a
        GPU: PyTorch, CuPy, anything with ``__dlpack__`` or
        ``__cuda_array_interface__``.
    c:
        Array (..., M, N) of the output format: float32, float16 (binary16 and
        8-bit inputs), float64 or int32; None stands for zeros of the widest.
    unit:
        A name of the catalogue, or a :class:`tcu.Unit` of your own.  None:
        "H100" on the model; on a GPU, that GPU.
    instruction:
        "mma" (wmma, mma.sync and AMD's mfma), "wgmma", "tcgen05", or with
        scales "mxf8f6f4", "mxf4" or "mxf4nvf4"; of processors a mnemonic, such
        as "tdpbf16ps" of the unit "AMX".
    executor:
        "model" computes on the CPU; "gpu" runs exactly that instruction on a
        real GPU, "cpu" on this machine's processor (AMX, AVX512-BF16,
        AVX512-VNNI; "mma" stands for the first that it has for the formats).
        None: where the arrays live, by the model or the GPU.
    scale_a, scale_b:
        Scales of blocks of s successive k, (..., M, K/s) and (..., K/s, N), of
        float8_e8m0fnu (UE8M0: powers of two), or of float8_e4m3fn (read as UE4M3:
        its sign is ignored).  Computed by the model alone.

    Returns
    -------
    An array (..., M, N) of c's dtype (of float32 by "mma.f16c", whose c is float16) and of the library of ``a``.

    Raises
    ------
    UnknownNameError, DtypeError, ShapeError:
        No such unit or instruction; formats that it does not combine; shapes
        that do not fit.
    ParameterError:
        The GPU, or the processor, at hand computes otherwise than the unit asked for.
    tcu.cpu.CpuError:
        The processor lacks the instruction, or Linux does not permit it.
    tcu.gpu.GpuError:
        No GPU, driver or extra; an instruction that the GPU lacks.

    Source: the rules of :class:`tcu.units.AlignedSum`; ``tcu units`` says
    what pins each row.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> a, b = np.ones((1, 2), np.float16), np.full((2, 1), 2**-24, np.float16)
    >>> c = np.ones((1, 1), np.float32)
    >>> tcu.mma(a, b, c, unit="V100") - 1, tcu.mma(a, b, c, unit="H100") - 1
    (array([[0.]], dtype=float32), array([[1.1920929e-07]], dtype=float32))
    """
    if executor not in (None, "model", "gpu", "cpu"):
        raise ParameterError(f"executor={executor!r}: choose 'model', 'gpu' or 'cpu', or leave it out")
    named = {"a": a, "b": b, "c": c, "scale_a": scale_a, "scale_b": scale_b}
    of_tensors = any(map(is_tensor, named.values()))
    if of_tensors:
        again = partial(mma, unit=unit, instruction=instruction, executor=executor)
        found = tensors().mma_in_batch(again, **named)
        if found is not None:
            return found
    scales = (scale_a, scale_b)
    on_gpu = any(lives_on_gpu(x) for x in (a, b, c, *scales) if x is not None)
    if executor in ("model", "cpu") and on_gpu:
        raise ParameterError(f"the arrays are on a GPU: copy them to the host for executor={executor!r}")
    if (executor in ("gpu", "cpu") or on_gpu) and any(each is not None for each in scales):
        raise ParameterError(
            "scales are computed by the model alone: copy the arrays to the host for executor='model'"
        )
    if executor == "gpu" or on_gpu:
        return load_cuda().mma(a, b, c, unit, instruction)
    a, b, c, scale_a, scale_b = (matrix_view(x, name) if is_tensor(x) else x for name, x in named.items())
    if executor == "cpu":
        result = cpu.mma(a, b, c, unit, instruction)
    else:
        result = model.mma(
            a, b, c, unit=DEFAULT_UNIT if unit is None else unit, instruction=instruction,
            scale_a=scale_a, scale_b=scale_b,
        )  # fmt: skip
    return tensor_of(result) if of_tensors else result
