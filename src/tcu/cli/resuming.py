"""``--checkpoint`` and ``--gpu``: what a run has in common with the one that it continues, and who sums."""

from __future__ import annotations

from typing import Any

from tcu.cli.options import Reading
from tcu.errors import ParameterError
from tcu.gpu.device import find_gpu
from tcu.streams import Checkpoint, Source
from tcu.units import DEFAULT_UNIT

__all__ = ["check_alone", "checkpoint_of", "unit_of"]


def checkpoint_of(source: Source, read_as: str, reading: Reading, task: dict[str, Any]) -> Checkpoint | None:
    """The checkpoint that the options ask for, of this task on these numbers; ``read_as``: a format, or the dtype of integers."""
    if reading.checkpoint is None:
        return None
    task = task | {"files": source.identity(), "input_dtype": read_as}
    return Checkpoint(reading.checkpoint, task, reading.checkpoint_every)


def unit_of(reading: Reading) -> str:
    """The unit where none is named; raises tcu.gpu.GpuError where a GPU is wanted and there is none."""
    if not reading.gpu:
        return DEFAULT_UNIT
    return find_gpu(0).unit.name


def check_alone(reading: Reading) -> None:
    """Raises ParameterError for a checkpoint or a GPU for what is not done in one pass."""
    if reading.gpu:
        raise ParameterError("--gpu: sums along an axis of files are computed on the CPU: leave it out")
    if reading.checkpoint is not None:
        raise ParameterError(
            f"--checkpoint {reading.checkpoint}: sums along an axis are not kept on the way: leave it out"
        )
