"""``tcu sum --exact``: the exact sum alone, at the speed at which numbers can be read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich import box
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from tcu.cli.data import Changes, DataElements, count_text, of_the_rounded, summable_format
from tcu.cli.numbers import hex_bits
from tcu.cli.options import Schedule
from tcu.cli.outcome import Method
from tcu.cli.output import json_number
from tcu.errors import ParameterError
from tcu.formats.format import Format, format_of
from tcu.model.execute import Progress
from tcu.ops.result import result_format
from tcu.plan import DEFAULT_VARIANT
from tcu.streams import Checkpoint, ExactTotal, run

__all__ = ["ExactOutcome", "check_exact", "exact_outcome", "exact_panel"]


@dataclass(frozen=True)
class ExactOutcome:
    """A correctly rounded sum."""

    elements: DataElements
    result: Any
    """A NumPy scalar."""

    @property
    def format(self) -> Format:
        return format_of(self.result.dtype)

    @property
    def bits(self) -> str:
        return hex_bits(int(np.array([self.result]).view(self.format.code_dtype)[0]), self.format)

    def document(self) -> dict[str, Any]:
        """What ``--json`` prints."""
        return {
            "n": self.elements.n,
            "dtype": str(self.elements.format.dtype),
            "result": json_number(float(self.result)),
            "result_dtype": str(self.format.dtype),
            "bits": self.bits,
            "rounded_from": self.elements.rounded_from,
        }


def check_exact(unit: str | None, method: Method, into_file: bool) -> None:
    """Raises ParameterError for options that have no say in an exact sum."""
    if into_file:
        raise ParameterError("--exact and --axis: exact sums are of all numbers: leave one of them out")
    if (unit, method.variant, method.schedule) != (None, DEFAULT_VARIANT, Schedule()):
        raise ParameterError(
            "--exact rounds once, so it has no unit, variant or schedule: leave them out, or leave --exact out"
        )


def exact_outcome(
    elements: DataElements,
    dtype: str | None,
    *,
    memory: int,
    checkpoint: Callable[[dict[str, Any]], Checkpoint | None],
    progress: Progress | None = None,
    gpu: int | None = None,
) -> ExactOutcome:
    """The correctly rounded sum, in one pass; NaN where inf and -inf meet."""
    target = result_format(
        elements.format, None if dtype is None else summable_format(dtype, "--dtype").dtype
    )
    total = ExactTotal()
    task = checkpoint({"operation": "exact sum"})
    run(elements, [total, Changes(elements)], memory=memory, checkpoint=task, progress=progress, gpu=gpu)
    return ExactOutcome(elements, total.value(target.dtype))


def exact_panel(outcome: ExactOutcome, source: str) -> Panel:
    """What a person reads."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column()
    grid.add_row("numbers", count_text(outcome.elements))
    grid.add_row(
        "exact sum",
        Text(str(outcome.result), style="bold").append(of_the_rounded(outcome.elements), "not bold"),
    )
    grid.add_row("bits", f"{outcome.bits}  ({outcome.format.name}, rounded once)")
    title = Text(f"exact sum of {source}", style="bold")
    return Panel(grid, title=title, title_align="left", expand=False, padding=(0, 1), box=box.ROUNDED)
