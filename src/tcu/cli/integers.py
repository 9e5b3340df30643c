"""Files of integers and truth values: their sums and means, as exact as :mod:`tcu.streams` has them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.panel import Panel
from rich.text import Text

from tcu.cli.outcome import Method, panel_of
from tcu.cli.output import json_number
from tcu.engines.host.integers import result_of, target_of
from tcu.errors import ParameterError
from tcu.model.execute import Progress
from tcu.ops import Operation
from tcu.streams import Checkpoint, Source, run
from tcu.streams.integers import call_of
from tcu.streams.totals import IntegerTotal

__all__ = ["AddedUp", "add_up"]


@dataclass(frozen=True)
class AddedUp:
    """The result of an operation on integers."""

    n: int
    given: np.dtype[Any]
    label: str
    """What the result is."""
    result: Any
    """A NumPy scalar."""

    @property
    def bits(self) -> str:
        size = self.result.dtype.itemsize
        return f"0x{int(self.result.view(f'u{size}')):0{2 * size}x}"

    def document(self) -> dict[str, Any]:
        """What ``--json`` prints."""
        is_whole = self.result.dtype.kind in "iu"
        return {
            "n": self.n,
            "dtype": str(self.given),
            "result": int(self.result) if is_whole else json_number(float(self.result)),
            "result_dtype": str(self.result.dtype),
            "bits": self.bits,
            "rounded_from": None,
        }

    def panel(self, source: str) -> Panel:
        """What a person reads."""
        once = "" if self.result.dtype.kind in "iu" else ", rounded once"
        rows: list[tuple[str, str | Text]] = [
            ("numbers", f"{self.n:,} of {self.given}"),
            (self.label, Text(str(self.result), style="bold")),
            ("bits", f"{self.bits}  ({self.result.dtype}{once})"),
        ]
        return panel_of(f"{self.label} of {source}", rows)


def add_up(
    operation: Operation, source: Source, method: Method, *, memory: int,
    checkpoint: Callable[[dict[str, Any]], Checkpoint | None], progress: Progress | None = None, gpu: int | None = None,
) -> AddedUp:  # fmt: skip
    """The sum or the mean, in one pass."""
    if gpu is not None:
        raise ParameterError("--gpu: integers of files are added up on the CPU: leave it out")
    call = call_of(operation, source, operation.values(method.options_of(operation)))
    target = target_of(call, source.dtype)
    total = IntegerTotal()
    kept = checkpoint({"operation": operation.name})
    run(source, [total], memory=memory, checkpoint=kept, progress=progress)
    return AddedUp(source.n, source.dtype, operation.name, result_of(call, total.sum, source.n, target))
