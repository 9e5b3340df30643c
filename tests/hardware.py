"""Hardware vectors as test cases: which unit, which instruction, and the bits that came back."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tcu.formats import get_format
from tcu.model.mma import multiply_accumulate
from tcu.units import Instruction, find_instruction

FOLDER = Path(os.environ.get("TCU_VECTORS", Path(__file__).parents[2] / "shared" / "vectors"))
FORMATS = {"fp16": "binary16", "f16": "binary16", "bf16": "bfloat16", "tf32": "tf32", "f64": "binary64"}
OUTPUTS = {"fp16": "binary16", "f16": "binary16", "fp32": "binary32", "f32": "binary32"}


@dataclass(frozen=True)
class Case:
    """D = A·B + C as bit patterns: a (T, M, K), b (T, K, N), c and d (T, M, N)."""

    name: str
    unit: str
    instruction: Instruction
    a: npt.NDArray[np.unsignedinteger]
    b: npt.NDArray[np.unsignedinteger]
    c: npt.NDArray[np.unsignedinteger]
    d: npt.NDArray[np.unsignedinteger]

    def modelled(self, instruction: Instruction | None = None) -> npt.NDArray[np.unsignedinteger]:
        """The bits of D by the model of the instruction (the case's own unless given)."""
        row = instruction or self.instruction
        x, y = get_format(row.a).dtype, get_format(row.output).dtype
        return multiply_accumulate(self.a.view(x), self.b.view(x), self.c.view(y), row).view(self.d.dtype)

    def different(self, instruction: Instruction | None = None) -> int:
        return int(np.count_nonzero(self.modelled(instruction) != self.d))


@cache
def _arrays(file: str) -> dict[str, npt.NDArray[np.unsignedinteger]]:
    with np.load(FOLDER / file) as archive:
        return {key: archive[key] for key in archive.files}


def _names(file: str) -> list[str]:
    if not (FOLDER / file).is_file():
        return []
    with np.load(FOLDER / file) as archive:
        return sorted({key.rsplit("/", 1)[0] for key in archive.files})


def names() -> list[tuple[str, str]]:
    """(file, name) of every set of vectors that is here."""
    return [(file, name) for file in ("h200.npz", "other-gpus.npz") for name in _names(file)]


@cache
def case(file: str, name: str) -> Case:
    a, b, c, d = (_arrays(file)[f"{name}/{part}"] for part in "ABCD")
    if file == "h200.npz":
        unit, parts = "H200", name.removeprefix("wg_").split("_")
        instruction = "wgmma" if name.startswith("wg_") else "mma"
        operand = FORMATS.get(parts[0], parts[0])
        output = OUTPUTS.get(parts[1], "binary64")
    else:
        unit, given, result = name.split("/")
        operand, output = FORMATS.get(given, given.lower()), OUTPUTS[result]
        # The 8-bit sets of Hopper with binary32 output went through wgmma, all else through mma or wmma.
        hopper = unit in ("H100", "H200") and given in ("E4M3", "E5M2") and result == "fp32"
        instruction = "wgmma" if hopper else "mma"
        a, b, c, d = a[:, None, :], b[:, None, :], c[:, None, None], d[:, None, None]
    row = find_instruction(unit, instruction, operand, operand, output)
    return Case(name, unit, row, a, np.ascontiguousarray(b.swapaxes(1, 2)), c, d)
