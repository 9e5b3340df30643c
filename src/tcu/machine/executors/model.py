"""The bit-exact model of a real unit, on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from tcu.formats import get_format
from tcu.machine.executors.unit import InstructionExecutor
from tcu.model.mma import multiply_accumulate
from tcu.units import DEFAULT_UNIT, Unit, find_instruction, get_unit

__all__ = ["ModelExecutor"]


class ModelExecutor(InstructionExecutor):
    """What an instruction of a catalogue unit, or of your own, computes, bit for bit.

    Parameters
    ----------
    unit:
        A name of the catalogue, or a :class:`tcu.Unit`.
    input, output:
        Formats, such as "binary16" or "u8"; output=None takes the widest.
    instruction:
        "mma", "wgmma" or "tcgen05".

    Raises
    ------
    UnknownNameError, DtypeError:
        The unit, or its instruction for these formats, does not exist.
    """

    def __init__(
        self,
        unit: str | Unit = DEFAULT_UNIT,
        input: str = "binary16",
        output: str | None = None,
        *,
        instruction: str = "mma",
    ) -> None:
        target = None if output is None else get_format(output).name
        source = get_format(input).name
        super().__init__(find_instruction(unit, instruction, source, source, target))
        self.name = f"model of {get_unit(unit).name}, {self.instruction.signature}"

    def _product(self, a: Any, b: Any) -> Any:
        zeros = np.zeros((a.shape[-2], b.shape[-1]), get_format(self.instruction.output).dtype)
        return multiply_accumulate(np.ascontiguousarray(a), np.ascontiguousarray(b), zeros, self.instruction)
