"""``tcu.mma`` for arrays in a GPU's memory: that GPU's own instruction."""

from __future__ import annotations

from typing import Any

from tcu.engines.cuda.matmul import multiply
from tcu.engines.cuda.own import check_arithmetic, own_unit
from tcu.formats.format import format_of
from tcu.gpu.arrays import dtype_of, library_of, ordinal_of
from tcu.gpu.device import find_gpu
from tcu.gpu.mma import multiply_accumulate
from tcu.ops.matmul import MatmulCall, MatmulOptions
from tcu.units import Unit, find_instruction

__all__ = ["mma"]


def mma(a: Any, b: Any, c: Any, unit: str | Unit | None, instruction: str) -> Any:
    """D = A·B + C with the bits of the GPU on which ``a`` is; raises what :func:`tcu.mma` raises."""
    at_hand = find_gpu(ordinal_of(a))
    formats = [None if x is None else format_of(dtype_of(x)).name for x in (a, b, c)]
    first, second = ("tf32" if name == "binary32" else str(name) for name in formats[:2])
    own = find_instruction(own_unit(at_hand), instruction, first, second, formats[2])
    if unit is not None:
        check_arithmetic(
            own, find_instruction(unit, instruction, first, second, formats[2]), at_hand.name, unit
        )
    if c is not None or library_of(a) is None or library_of(b) is None:
        return multiply_accumulate(a, b, c, own)
    return multiply(MatmulCall(a, b, options=MatmulOptions("chain", "cut")), own)
