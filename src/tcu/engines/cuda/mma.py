"""``tcu.mma`` for arrays in a GPU's memory: that GPU's own instruction."""

from __future__ import annotations

from typing import Any

from tcu.errors import ParameterError
from tcu.formats.format import format_of
from tcu.gpu.arrays import dtype_of, ordinal_of
from tcu.gpu.device import Gpu, find_gpu
from tcu.gpu.mma import multiply_accumulate
from tcu.units import Instruction, Unit, find_instruction, get_unit

__all__ = ["check_arithmetic", "mma", "own_unit"]


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
    return multiply_accumulate(a, b, c, own)


def own_unit(gpu: Gpu) -> Unit:
    """The catalogue's unit of a GPU.  Raises ParameterError where there is none."""
    if not gpu.units:
        raise ParameterError(
            f"{gpu.name} is not in the catalogue: tcu.probe and tcu.infer tell what it computes"
        )
    return gpu.units[0]


def check_arithmetic(own: Instruction, asked: Instruction, name: str, unit: str | Unit) -> None:
    """Raises ParameterError for a unit that computes otherwise."""
    if (own.arithmetic, own.k) != (asked.arithmetic, asked.k):
        raise ParameterError(
            f"{name} computes {own.signature} otherwise than {get_unit(unit).name}: pass host arrays "
            "for the model of that unit, or leave unit out for the bits of this GPU"
        )
