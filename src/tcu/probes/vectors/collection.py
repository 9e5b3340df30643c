"""Gather vectors: ask a GPU, or a model of the catalogue, every kind of question."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from tcu import cpu, gpu
from tcu.errors import DtypeError, ParameterError
from tcu.formats.array import checked_seed
from tcu.formats.format import get_format
from tcu.gpu.compiler import compiler_version
from tcu.gpu.device import call
from tcu.model.mma import multiply_accumulate
from tcu.probes.kinds import questions
from tcu.probes.target import Codes, unknown_arithmetic
from tcu.probes.vectors.file import Entry, Machine, Vectors, name_of
from tcu.units.instruction import Instruction, Unit
from tcu.units.lookup import get_unit
from tcu.version import __version__

__all__ = ["DEFAULT_OUTPUTS", "collect", "replay"]

DEFAULT_OUTPUTS = 128
"""One matrix of each kind: 0.8 megabytes for all instructions of a Hopper GPU."""
_DRIVER_FILE = Path("/proc/driver/nvidia/version")
_Compute = Callable[[Codes, Codes, Codes, Instruction], Codes]


def collect(
    unit: str | Unit | None = None,
    *,
    instruction: str | None = None,
    input: str | None = None,
    output: str | None = None,
    outputs: int = DEFAULT_OUTPUTS,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Vectors:
    """Vectors of every instruction of the GPU or the processor at hand, or of a model.

    Parameters
    ----------
    unit:
        Ask the model of this unit instead, for tests and comparisons; None: the GPU; "cpu": the processor's own
        instructions.
    instruction, input, output:
        Only the instructions of this name ("mma", "wgmma"), input or output format.
    outputs:
        At least so many results per kind of question, in matrices of 16 × 8.
    seed:
        Of the operands: the same seed gives the same ones, whatever else is chosen.
    progress:
        Called after each instruction with how many are done, and of how many.

    Raises
    ------
    NoGpuError, ExtraMissingError, DriverError:
        No GPU to ask.
    CpuError:
        The processor has no matrix instruction, or the kernel does not permit one.
    DtypeError:
        Nothing fits the choice; the message says what there is.
    """
    if outputs < 1:
        raise ParameterError(f"outputs={outputs}: ask for at least one output per kind")
    if (number := checked_seed(seed)) is None:
        raise ParameterError(
            "seed=None: give a whole number of 0 or more, by which others get the same operands"
        )
    if unit == "cpu":
        machine, rows, compute = _cpu()
    else:
        machine, rows, compute = _gpu() if unit is None else _model(get_unit(unit))
    chosen = _chosen(machine.name, rows, instruction, input, output)
    entries: dict[str, Entry] = {}
    for row in chosen:
        entries[name_of(row)] = _entry(row, compute, outputs, number)
        if progress is not None:
            progress(len(entries), len(chosen))
    return Vectors(machine, entries, number, datetime.now(UTC).isoformat(timespec="seconds"), __version__)


def replay(a: Codes, b: Codes, c: Codes, row: Instruction) -> Codes:
    """Words of D by the model; a smaller k than the row's is padded with zeros, a larger one is cut."""
    return _on(multiply_accumulate)(a, b, c, row)


def _entry(row: Instruction, compute: _Compute, outputs: int, seed: int) -> Entry:
    asked = questions(row, outputs, seed)
    a, b, c = (np.stack([getattr(question, part) for _, question in asked]) for part in "abc")
    return Entry(row, tuple(kind for kind, _ in asked), a, b, c, compute(a, b, c, row))


def _chosen(
    machine: str, rows: list[Instruction], name: str | None, given: str | None, output: str | None
) -> list[Instruction]:
    # As everywhere in tcu, binary32 inputs are read as TF32.
    x = None if given is None else get_format(given).name.replace("binary32", "tf32")
    z = None if output is None else get_format(output).name
    found = [
        row for row in rows
        if name in (None, row.name) and x in (None, row.a) and z in (None, row.output)
    ]  # fmt: skip
    if not found:
        asked = " ".join(part for part in (name, x, z and f"→ {z}") if part)
        has = ", ".join(dict.fromkeys(row.signature for row in rows)) or "no instruction known here"
        raise DtypeError(f"{machine} has no {asked}; it has: {has}")
    return found


def _plain(unit: Unit) -> list[Instruction]:
    """A file of vectors has no place for scales, nor for a C of another format than D."""
    return [row for row in unit.instructions if row.scale is None and row.addend is None]


def _model(unit: Unit) -> tuple[Machine, list[Instruction], _Compute]:
    return Machine("model", unit.name, unit.compute_capability), _plain(unit), replay


def _cpu() -> tuple[Machine, list[Instruction], _Compute]:
    at_hand = cpu.find_cpu()
    if not at_hand.instructions:
        raise cpu.CpuError(
            f"{at_hand.name} has neither AMX nor AVX512-BF16 nor AVX512-VNNI: ask another machine, or a model with unit"
        )
    return Machine("cpu", at_hand.name, "-"), list(at_hand.instructions), _on(cpu.multiply_accumulate)


def _on(multiply_accumulate: Callable[..., Any]) -> _Compute:
    """An executor of arrays as one of words."""

    def compute(a: Codes, b: Codes, c: Codes, row: Instruction) -> Codes:
        x, y, z = (get_format(name) for name in (row.a, row.b, row.output))
        d = np.asarray(multiply_accumulate(a.view(x.dtype), b.view(y.dtype), c.view(z.dtype), row))
        return np.ascontiguousarray(d).view(z.code_dtype)

    return compute


def _gpu() -> tuple[Machine, list[Instruction], _Compute]:
    at_hand = gpu.find_gpu()
    known = call("cuDriverGetVersion")
    machine = Machine(
        "gpu",
        at_hand.name,
        _dotted(at_hand.compute_capability),
        _driver_version(),
        _dotted((known // 1000, known % 1000 // 10)),
        _dotted(compiler_version()),
    )
    # The executor looks at name, formats and k; what the GPU computes is not presumed.
    rows = [
        Instruction(
            kernel.name,
            kernel.a,
            kernel.b,
            kernel.output,
            kernel.shape,
            unknown_arithmetic(kernel.output),
            (),
        )
        for kernel in at_hand.kernels
    ]
    return machine, rows, _on(gpu.multiply_accumulate)


def _dotted(version: Iterable[int]) -> str:
    return ".".join(str(part) for part in version)


def _driver_version() -> str | None:
    """The driver's own version, such as "580.95.05", which CUDA does not tell; None where nobody does."""
    try:
        said = _DRIVER_FILE.read_text(encoding="utf-8")
    except OSError:
        said = _ask_nvidia_smi()
    found = re.search(r"\b\d{3,}\.\d+(\.\d+)?\b", said)
    return None if found is None else found[0]


def _ask_nvidia_smi() -> str:
    program = shutil.which("nvidia-smi")
    if program is None:
        return ""
    query = [program, "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        return subprocess.run(query, capture_output=True, text=True, timeout=30, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
