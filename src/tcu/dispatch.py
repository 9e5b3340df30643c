"""Who executes ``tcu.mma``: the model, the GPU on which the arrays live, or the processor's own instruction."""

from __future__ import annotations

from typing import Any, Literal

from tcu.engines import cpu, load_cuda
from tcu.errors import ParameterError
from tcu.formats.array import lives_on_gpu
from tcu.formats.tensor import is_tensor, matrix_view, tensor_of
from tcu.model import mma as model
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
) -> Any:
    """D = A·B + C exactly as a matrix unit computes it, bit for bit, NaN bits included.

    Any M, N, K: K is cut into the instruction's k in order, the last piece
    padded with zeros; the result of one piece is the C of the next.

    Parameters
    ----------
    a, b:
        Arrays (..., M, K) and (..., K, N) of float16, bfloat16, float8_e4m3fn
        or float8_e5m2, float32 (read as TF32: the low 13 bits are dropped),
        float64, uint8 or int8.  Batch dimensions broadcast.  Of NumPy, or on a
        GPU: PyTorch, CuPy, anything with ``__dlpack__`` or
        ``__cuda_array_interface__``.
    c:
        Array (..., M, N) of the output format: float32, float16 (binary16 and
        8-bit inputs), float64 or int32; None stands for zeros of the widest.
    unit:
        A name of the catalogue, or a :class:`tcu.Unit` of your own.  None:
        "H100" on the model; on a GPU, that GPU.
    instruction:
        "mma" (wmma and mma.sync), "wgmma" or "tcgen05"; of processors a
        mnemonic, such as "tdpbf16ps" of the unit "AMX".
    executor:
        "model" computes on the CPU; "gpu" runs exactly that instruction on a
        real GPU, "cpu" on this machine's processor (AMX, AVX512-BF16,
        AVX512-VNNI; "mma" stands for the first that it has for the formats).
        None: where the arrays live, by the model or the GPU.

    Returns
    -------
    An array (..., M, N) of c's dtype and of the library of ``a``.

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
    """
    if executor not in (None, "model", "gpu", "cpu"):
        raise ParameterError(f"executor={executor!r}: choose 'model', 'gpu' or 'cpu', or leave it out")
    on_gpu = any(lives_on_gpu(x) for x in (a, b, c) if x is not None)
    if executor in ("model", "cpu") and on_gpu:
        raise ParameterError(f"the arrays are on a GPU: copy them to the host for executor={executor!r}")
    if executor == "gpu" or on_gpu:
        return load_cuda().mma(a, b, c, unit, instruction)
    tensors = any(map(is_tensor, (a, b, c)))
    a, b, c = (matrix_view(x, name) if is_tensor(x) else x for name, x in (("a", a), ("b", b), ("c", c)))
    if executor == "cpu":
        result = cpu.mma(a, b, c, unit, instruction)
    else:
        result = model.mma(a, b, c, unit=DEFAULT_UNIT if unit is None else unit, instruction=instruction)
    return tensor_of(result) if tensors else result
