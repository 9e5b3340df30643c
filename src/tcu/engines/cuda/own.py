"""The unit of the GPU at hand, and whether another one computes the same."""

from __future__ import annotations

from tcu.errors import ParameterError
from tcu.gpu.device import Gpu
from tcu.units import Instruction, Unit, get_unit

__all__ = ["check_arithmetic", "own_unit"]


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
