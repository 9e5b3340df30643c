"""What losses of rows with a class each are made with, on CPUs and GPUs."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Weights"]


class Weights(NamedTuple):
    """The options of a cross entropy that decide on each row's loss."""

    label_smoothing: float = 0.0
    z_loss: float = 0.0
    ignore_index: int = -100
