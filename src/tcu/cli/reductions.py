"""``tcu mean``, ``tcu fsum`` and so on: a command for each operation that reduces one array; and ``tcu sum --exact``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from rich.panel import Panel
from rich.text import Text

from tcu.cli import options
from tcu.cli.data import Changes, DataElements, count_text, of_the_rounded
from tcu.cli.files import read_source, rounded_elements, source_text
from tcu.cli.integers import add_up
from tcu.cli.numbers import hex_bits
from tcu.cli.outcome import Method, panel_of, warn_about
from tcu.cli.output import console, headline, json_number, print_json
from tcu.cli.progress import ProgressBar
from tcu.cli.resuming import check_alone, checkpoint_of, unit_of
from tcu.cli.rows import Along, is_wanted, reduce_along
from tcu.errors import InvalidOperationError, ParameterError
from tcu.formats.format import Format, format_of
from tcu.model.compiled import without_blas
from tcu.model.execute import Progress
from tcu.ops import OPERATIONS, Operation, layout
from tcu.ops.options import OPTIONS
from tcu.ops.result import result_format, round_sum
from tcu.plan import DEFAULT_VARIANT
from tcu.streams import Checkpoint, Source, run
from tcu.streams.integers import are_integers
from tcu.streams.reductions import result_of, totals_of
from tcu.streams.totals import planned_of
from tcu.surfaces.served import is_served

__all__ = ["Reduced", "answer", "check_exact", "command_of", "reduced"]


@dataclass(frozen=True)
class Reduced:
    """The result of an operation on all numbers."""

    elements: DataElements
    label: str
    """What the result is."""
    result: Any
    """A NumPy scalar."""
    rounded: str = ""
    """How often, where that is to be said."""

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

    def panel(self, source: str) -> Panel:
        """What a person reads."""
        result = Text(str(self.result), style="bold").append(of_the_rounded(self.elements), "not bold")
        bits = f"{self.bits}  ({self.format.name}{self.rounded})"
        rows = (("numbers", count_text(self.elements)), (self.label, result), ("bits", bits))
        return panel_of(f"{self.label} of {source}", rows)


def check_exact(unit: str | None, method: Method, into_file: bool) -> None:
    """Raises ParameterError for options that have no say in an exact sum."""
    if into_file:
        raise ParameterError("--exact and --axis: exact sums are of all numbers: leave one of them out")
    if (unit, method.variant, method.schedule) != (None, DEFAULT_VARIANT, options.Schedule()):
        raise ParameterError(
            "--exact rounds once, so it has no unit, variant or schedule: leave them out, or leave --exact out"
        )


def answer(
    operation: Operation, file: list[str], method: Method, numbers: options.Numbers, reading: options.Reading,
    along: Along, as_json: bool, work: Callable[..., Any],
) -> None:  # fmt: skip
    """Print what ``work`` makes of all numbers of files; or write the results along axes to one."""
    without_blas()
    into_file = is_wanted(along, file)
    memory = options.size_of(reading.memory)
    # A pipe is read once, unless the first number is asked for before the others.
    read = read_source(file, numbers, memory, once=not into_file and not operation.moments)
    source = source_text(read.name, numbers)
    if into_file:
        elements = rounded_elements(read, numbers)
        check_alone(reading)
        reduce_along(operation, elements, source, along, method.options_of(operation), as_json)
        warn_about(elements)
        return
    if numbers.input_dtype is None and are_integers(operation, read):
        found = _in_one_pass(partial(add_up, operation, read, method), read, str(read.dtype), reading, memory)
    else:
        elements = rounded_elements(read, numbers)
        found = _in_one_pass(partial(work, elements), read, elements.format.name, reading, memory)
        warn_about(elements)
    if as_json:
        print_json(found.document())
    else:
        console().print(found.panel(source))


def _in_one_pass(
    work: Callable[..., Any], source: Source, read_as: str, reading: options.Reading, memory: int
) -> Any:  # fmt: skip
    with ProgressBar(source.n, itemsize=source.dtype.itemsize) as bar:
        return work(
            memory=memory, checkpoint=partial(checkpoint_of, source, read_as, reading), progress=bar.advance,
            gpu=0 if reading.gpu else None,
        )  # fmt: skip


def reduced(
    elements: DataElements, operation: Operation, method: Method, label: str, *, memory: int,
    checkpoint: Callable[[dict[str, Any]], Checkpoint | None], progress: Progress | None = None,
    gpu: int | None = None,
) -> Reduced:  # fmt: skip
    """The result of an operation, in one pass; NaN where inf and -inf meet."""
    given = operation.values(method.options_of(operation))
    target = result_format(elements.format, given[-1])
    totals = totals_of(operation, elements, elements.format, given)
    task: dict[str, Any] = {"operation": label}
    planned = planned_of(totals)
    if planned is not None:
        task |= {"unit": planned.unit.name, "plan": str(planned.stream.plan), "gpu": gpu is not None}
    run(
        elements, [*totals, Changes(elements)], memory=memory, checkpoint=checkpoint(task), progress=progress,
        gpu=gpu,
    )  # fmt: skip
    try:
        result = result_of(operation, elements.n, totals, target, given)
    except InvalidOperationError:
        result = round_sum(np.nan, target)
    return Reduced(elements, label, result, ", rounded once" if operation.exact else "")


def command_of(operation: Operation) -> Callable[..., None]:
    """The command of an operation, with those options that it has."""

    def command(
        file: options.DataFiles,
        *,
        unit: options.UnitName = None,
        variant: options.Variant = DEFAULT_VARIANT,
        schedule: options.Schedule,
        numbers: options.Numbers,
        reading: options.Reading,
        along: Along,
        correction: options.Correction = 0.0,
        dtype: options.ResultDtype = None,
        as_json: options.Json = False,
    ) -> None:
        schedule.check([variant])
        method = Method(unit or unit_of(reading), variant, schedule, dtype, correction)

        def work(elements: DataElements, **how: Any) -> Reduced:
            return reduced(elements, operation, method, operation.name, **how)

        answer(operation, file, method, numbers, reading, along, as_json, work)

    command.__doc__ = f"""{headline(operation.documentation)}

    Several files, a folder or a glob count as one array, in the order of their
    names; they may be larger than memory.
    """
    missing = {name for name in OPTIONS if name not in operation.options}
    return options.spread(
        command, missing if layout.Along in operation.layouts else {*missing, "axis", "output"}
    )


globals().update(
    (f"{name}_command", command_of(operation))
    for name, operation in OPERATIONS.items()
    if is_served(operation, layout.Whole, "command line")
)
