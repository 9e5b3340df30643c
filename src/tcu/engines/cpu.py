"""``tcu.mma`` by this machine's processor: its own matrix instruction."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.cpu import find_cpu, multiply_accumulate, own_instruction
from tcu.errors import ParameterError
from tcu.formats.format import format_of, get_format
from tcu.model.mma import input_format, operand
from tcu.units import Unit, find_instruction, get_unit
from tcu.units.shapes import product_shape

__all__ = ["mma"]


def mma(
    a: npt.ArrayLike, b: npt.ArrayLike, c: npt.ArrayLike | None, unit: str | Unit | None, instruction: str
) -> npt.NDArray[Any]:
    """D = A·B + C with the bits of the processor; raises what :func:`tcu.mma` raises."""
    x, y = operand("a", a), operand("b", b)
    z = None if c is None else operand("c", c)
    output = None if z is None else format_of(z.dtype).name
    formats = input_format(x).name, input_format(y).name
    at_hand = find_cpu()
    if unit is not None:
        asked = find_instruction(unit, instruction, *formats, output)
        at_hand.check(asked)
        instruction = asked.name
    own = own_instruction(at_hand, instruction, *formats, output)
    if unit is not None and (own.arithmetic, own.k) != (asked.arithmetic, asked.k):
        raise ParameterError(
            f"{at_hand.name} computes {own.signature} otherwise than {get_unit(unit).name}: "
            "leave executor out for the model of that unit"
        )
    shape = product_shape(x.shape, y.shape, None if z is None else z.shape)
    if z is None:
        z = np.zeros(shape[-2:], get_format(own.output).dtype)
    return multiply_accumulate(x, y, z, own)
