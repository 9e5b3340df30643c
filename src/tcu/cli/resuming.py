"""``--checkpoint``: what a run must have in common with the one that it continues."""

from __future__ import annotations

from typing import Any

from tcu.cli.data import DataElements
from tcu.cli.options import Reading
from tcu.errors import ParameterError
from tcu.streams import Checkpoint

__all__ = ["check_alone", "checkpoint_of"]


def checkpoint_of(elements: DataElements, reading: Reading, task: dict[str, Any]) -> Checkpoint | None:
    """The checkpoint that the options ask for, of this task on these numbers."""
    if reading.checkpoint is None:
        return None
    task = task | {"files": elements.source.identity(), "input_dtype": elements.format.name}
    return Checkpoint(reading.checkpoint, task, reading.checkpoint_every)


def check_alone(reading: Reading) -> None:
    """Raises ParameterError for a checkpoint of what is not done in one pass."""
    if reading.checkpoint is not None:
        raise ParameterError(
            f"--checkpoint {reading.checkpoint}: sums along an axis are not kept on the way: leave it out"
        )
