"""Hardware vectors as test cases: which unit, which instruction, and the bits that came back."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.formats import get_format
from tcu.model.mma import multiply_accumulate
from tcu.units import FusedChain, Instruction, find_instruction

FOLDER = Path(os.environ.get("TCU_VECTORS", Path(__file__).parents[2] / "shared" / "vectors"))
FORMATS = {"fp16": "binary16", "f16": "binary16", "bf16": "bfloat16", "tf32": "tf32", "f64": "binary64"}
OUTPUTS = {"fp16": "binary16", "f16": "binary16", "fp32": "binary32", "f32": "binary32"}


Words = npt.NDArray[np.unsignedinteger]


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
    return [(file, name) for file in ("h200.npz", "other-gpus.npz", "xeon-amx.npz") for name in _names(file)]


@cache
def case(file: str, name: str) -> Case:
    a, b, c, d = (_arrays(file)[f"{name}/{part}"] for part in "ABCD")
    if file == "h200.npz":
        unit, parts = "H200", name.removeprefix("wg_").split("_")
        instruction = "wgmma" if name.startswith("wg_") else "mma"
        operand = FORMATS.get(parts[0], parts[0])
        output = OUTPUTS.get(parts[1], "binary64")
    elif file == "xeon-amx.npz":
        return _of_the_xeon(name, a, b, c, d)
    else:
        unit, given, result = name.split("/")
        operand, output = FORMATS.get(given, given.lower()), OUTPUTS[result]
        # The 8-bit sets of Hopper with binary32 output went through wgmma, all else through mma or wmma.
        hopper = unit in ("H100", "H200") and given in ("E4M3", "E5M2") and result == "fp32"
        instruction = "wgmma" if hopper else "mma"
        a, b, c, d = a[:, None, :], b[:, None, :], c[:, None, None], d[:, None, None]
    row = find_instruction(unit, instruction, operand, operand, output)
    return Case(name, unit, row, a, np.ascontiguousarray(b.swapaxes(1, 2)), c, d)


def _of_the_xeon(name: str, a: Words, b: Words, c: Words, d: Words) -> Case:
    """Tiles of 16 × K by K × 16 with K as configured, which pads nothing; pairs of their own for VDPBF16PS."""
    instruction = name.split("/")[0].split("_")[0]
    unit = "AVX512-BF16" if instruction == "vdpbf16ps" else "AMX"
    if unit != "AMX":
        a, b, c, d = a[:, None, :], b[:, :, None], c[:, None, None], d[:, None, None]
    row = find_instruction(unit, instruction, "bfloat16", "bfloat16")
    return Case(name, unit, replace(row, shape=(*row.shape[:2], a.shape[-1])), a, b, c, d)


def moved_chain(row: Instruction) -> dict[str, Instruction]:
    """The same instruction with one parameter of its chain changed."""
    rules, k = row.arithmetic, row.k
    assert isinstance(rules, FusedChain)
    changes: dict[str, dict[str, Any]] = {
        "rounding": {"rounding": "RZ"},
        "rounded_products": {"rounded_products": not rules.rounded_products},
        "order": {"order": tuple(reversed(rules.order or range(k)))},
        "lanes": {"lanes": 1 if rules.lanes > 1 else 2},
        "group": {"group": 2, "lanes": 1},
        "late_c": {"late_c": not rules.late_c},
        "flush_inputs": {"flush_inputs": not rules.flush_inputs},
        "flush_outputs": {"flush_outputs": not rules.flush_outputs},
        "nan_rule": {"nan_rule": "arm"},
    }
    return {name: replace(row, arithmetic=replace(rules, **change)) for name, change in changes.items()}
