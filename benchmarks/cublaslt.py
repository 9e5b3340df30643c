"""cuBLASLt's products through nvmath-python: all that its heuristics propose for a shape, the fastest of which counts.

What PyTorch takes is often another one, and slower.  Used by gpu_matmul.py where nvmath-python can be imported.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch

PROPOSALS = 16
WORKSPACE = 64 << 20
"""Bytes that an algorithm may use."""
CALLS = 20
"""Of each algorithm, by which the fastest is found."""

_TYPES = {"float16": "R_16F", "bfloat16": "R_16BF", "float8_e4m3fn": "R_8F_E4M3", "float32": "R_32F", "int8": "R_8I",
          "int32": "R_32I", "float64": "R_64F"}  # fmt: skip
_COMPUTES = {"float32": "COMPUTE_32F_FAST_TF32", "int8": "COMPUTE_32I", "float64": "COMPUTE_64F"}
_SCALES = {"int8": ("R_32I", ctypes.c_int32), "float64": ("R_64F", ctypes.c_double)}

Product = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def fastest(pairs: Sequence[tuple[torch.Tensor, torch.Tensor]], out: torch.dtype) -> tuple[Product, int]:
    """The product of such matrices, of contiguous rows and of contiguous columns, and among how many algorithms it was.

    FP8 is added up fast, in one chain.  Raises RuntimeError where no algorithm is proposed.
    """
    import nvmath
    from nvmath.bindings import cublasLt as lt

    a, b = pairs[0]
    (m, k), n = a.shape, b.shape[1]
    name = str(a.dtype).removeprefix("torch.")
    data = {key: getattr(nvmath.CudaDataType, f"CUDA_{value}") for key, value in _TYPES.items()}
    compute = getattr(nvmath.bindings.cublas.ComputeType, _COMPUTES.get(name, "COMPUTE_32F"))
    scale, number = _SCALES.get(name, ("R_32F", ctypes.c_float))
    handle = _handle()
    product = lt.matmul_desc_create(compute, getattr(nvmath.CudaDataType, f"CUDA_{scale}"))

    def tell(attribute: str, value: Any) -> None:
        at = getattr(lt.MatmulDescAttribute, attribute)
        lt.matmul_desc_set_attribute(product, at, ctypes.addressof(value), ctypes.sizeof(value))

    # It stores by columns: of its matrices, the first is b transposed, the result is (n, m).
    tell("TRANSA", ctypes.c_int32(int(nvmath.bindings.cublas.Operation.T)))
    if name == "float8_e4m3fn":
        tell("FAST_ACCUM", ctypes.c_int8(1))
    of_b = lt.matrix_layout_create(data[name], k, n, b.stride(1))
    of_a = lt.matrix_layout_create(data[name], k, m, a.stride(0))
    of_c = lt.matrix_layout_create(data[str(out).removeprefix("torch.")], n, m, n)
    preference = lt.matmul_preference_create()
    room = ctypes.c_uint64(WORKSPACE)
    lt.matmul_preference_set_attribute(
        preference, lt.MatmulPreferenceAttribute.MAX_WORKSPACE_BYTES, ctypes.addressof(room), ctypes.sizeof(room)
    )  # fmt: skip
    results, count = lt.MatmulHeuristicResult(PROPOSALS), ctypes.c_int32()
    lt.matmul_algo_get_heuristic(
        handle, product, of_b, of_a, of_c, of_c, preference, PROPOSALS, results.ptr, ctypes.addressof(count)
    )
    if not count.value:
        raise RuntimeError("cuBLASLt proposes no algorithm")
    one, zero = number(1), number(0)
    workspace = torch.empty(WORKSPACE, dtype=torch.uint8, device=a.device)
    each = lt.matmul_heuristic_result_dtype.itemsize

    def with_algorithm(i: int) -> Product:
        def run(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            c = torch.empty((m, n), dtype=out, device=a.device)
            lt.matmul(
                handle, product, ctypes.addressof(one), b.data_ptr(), of_b, a.data_ptr(), of_a, ctypes.addressof(zero),
                c.data_ptr(), of_c, c.data_ptr(), of_c, results.ptr + i * each, workspace.data_ptr(), WORKSPACE,
                torch.cuda.current_stream().cuda_stream,
            )  # fmt: skip
            return c

        return run

    runs = [with_algorithm(i) for i in range(count.value)]
    return min(runs, key=lambda run: _milliseconds(run, pairs)), len(runs)


@cache
def _handle() -> int:
    """Of the library: one for all products, as it holds memory of the GPU."""
    from nvmath.bindings import cublasLt as lt

    return int(lt.create())


def _milliseconds(run: Product, pairs: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> float:
    run(*pairs[0])
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(2_000_000)  # the host gets ahead
    begin.record()
    for i in range(CALLS):
        run(*pairs[i % len(pairs)])
    end.record()
    end.synchronize()
    return begin.elapsed_time(end)
