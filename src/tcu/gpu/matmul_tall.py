"""Products of a tall matrix of few columns and a small one at the speed of memory, by mma.sync, where it has wgmma's bits."""

from __future__ import annotations

from tcu.formats import get_format
from tcu.gpu.factors import RESULTS
from tcu.gpu.kernels import Kernel
from tcu.gpu.launch import KernelChoice
from tcu.gpu.matmul_mma import GeneralProduct
from tcu.gpu.mma import Matrix, Problem, Strided
from tcu.plan.matmul import MatmulPlan

__all__ = ["is_tall", "tall_choice"]

_SIDE = 32
"""Rows and columns of B, at most."""
_FEWEST_ROWS = 4096
_THREADS = 256
_BLOCKS = 8
"""On a multiprocessor."""


def is_tall(plan: MatmulPlan, a: Strided, b: Strided, out: int) -> bool:
    """Whether :func:`tall_choice` serves: lanes read 8 bytes of A and write four numbers of C."""
    (rows, k), columns = a.shape[-2:], b.shape[-1]
    return (
        len(a.shape) == 2
        and rows >= _FEWEST_ROWS
        and max(k, columns) <= _SIDE
        and k % 4 == columns % 4 == 0 < k
        and a.strides[-1] == 1
        and a.strides[-2] % 4 == 0
        and a.address % 8 == out % 16 == 0
        and get_format(plan.operand).bits == 16
        and plan.accumulator == "binary32"
        and plan.result in ("binary16", "bfloat16", "binary32")
    )


def tall_choice(
    plan: MatmulPlan, kernel: Kernel, a: Strided, b: Strided, factors: bool, multiprocessors: int
) -> KernelChoice:
    """The launch for a plan of one chain; it lacks the addresses of a, b and the result, and the factors."""
    (rows, k), columns = a.shape, b.shape[-1]
    matrices = [Matrix(0, *x.strides, ()) for x in (a, b)]
    problem = Problem(*matrices, Matrix(), 0, rows, columns, k, 0, 0, ())
    steps, groups = -(-k // kernel.k), -(-columns // 16)
    tiles = 4 if steps * groups <= 4 else 2  # which registers hold
    macros = {
        **kernel.macros, "THREADS": _THREADS, "RESULT": RESULTS[plan.result], "FACTORS": int(factors),
        "STEPS": steps, "GROUPS": groups, "TILES": tiles,
    }  # fmt: skip
    blocks = min(-(-rows // (tiles * kernel.shape[0] * _THREADS // 32)), _BLOCKS * multiprocessors)
    return KernelChoice("matmul_tall", macros, blocks, _THREADS, GeneralProduct(problem, c_row=columns))
