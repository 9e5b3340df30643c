"""Products of matrices by mma.sync, by the plan of ``tcu.plan.matmul``: any strides, on every GPU that has the instruction."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from typing import Any

from tcu.gpu.arrays import collapse
from tcu.gpu.device import Gpu
from tcu.gpu.factors import RESULTS, set_factors
from tcu.gpu.kernels import Kernel
from tcu.gpu.launch import KernelChoice, bind
from tcu.gpu.mma import Matrix, Problem, Strided
from tcu.gpu.structs import struct
from tcu.plan.matmul import MatmulPlan

__all__ = ["GeneralLaunch", "GeneralProduct", "general_choice"]

_TILE = 64
_MAX_BLOCKS = 1 << 20
"""Blocks go through further tiles in a loop."""

GeneralProduct = struct("GeneralProduct", """
    load::Problem p;
    finish::Factors factors;
    i64 c_row, c_batch;  // elements
""")  # fmt: skip


def general_choice(
    plan: MatmulPlan, kernel: Kernel, a: Strided, b: Strided, batch: Sequence[int], c_row: int, factors: bool
) -> KernelChoice:
    """The launch for a plan; it lacks the addresses of a, b and the result, and the factors."""
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    extents, strides = collapse(tuple(batch), [x.strides[:-2] for x in (a, b)])
    tiles = math.prod(batch) * -(-m // _TILE) * -(-n // _TILE)
    matrices = [Matrix(0, *x.strides[-2:], own) for x, own in zip((a, b), strides, strict=True)]
    problem = Problem(*matrices, Matrix(), 0, m, n, k, tiles, len(extents), extents)
    exact = kernel.output == "s32"
    macros = {
        **kernel.macros,
        "RESULT": RESULTS[plan.result], "FACTORS": int(factors), "INTEGERS": int(exact),
        "CHUNK": 0 if exact or plan.chains < 2 else plan.chunk,
        "OUTSIDE": "double" if plan.outside == "binary64" else "float",
        "TO_TF32": int(kernel.a == "tf32" and plan.rounding == "nearest"),
        "ALONG_A": int(abs(a.strides[-1]) <= abs(a.strides[-2])), "ALONG_B": int(abs(b.strides[-2]) <= abs(b.strides[-1])),
    }  # fmt: skip
    return KernelChoice(
        "matmul_mma", macros, min(tiles, _MAX_BLOCKS), kernel.threads, GeneralProduct(problem, c_row=c_row, c_batch=m * c_row)
    )  # fmt: skip


class GeneralLaunch:
    """Such a launch on a GPU, which lacks nothing but addresses."""

    def __init__(self, choice: KernelChoice, gpu: Gpu) -> None:
        self._problem: Any = choice.problem
        self._kernel, self._lock = bind(choice, gpu), threading.Lock()

    def start(self, a: int, b: int, c: int, factors: Sequence[Any], stream: int, room: int = 0) -> None:
        """Put it on the stream; ``factors``: the scales and the bias, if there are any."""
        with self._lock:  # the driver copies the parameters before a launch returns
            self._problem.p.a.data, self._problem.p.b.data, self._problem.p.d = a, b, c
            set_factors(self._problem, factors)
            self._kernel(stream)
