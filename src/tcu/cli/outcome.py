"""One sum with everything that is known about it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from rich import box
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from tcu.cli.data import Changes, DataElements, count_text, of_the_rounded, summable_format
from tcu.cli.numbers import hex_bits, leading_exponent
from tcu.cli.options import Schedule
from tcu.cli.output import json_number, short, warn
from tcu.engines.host.planned import plan_of
from tcu.formats.format import Format, format_of, get_format
from tcu.model.execute import Progress
from tcu.ops import SUM, Operation
from tcu.ops.info import DotInfo, SumInfo, sum_info
from tcu.ops.result import result_format, round_sum
from tcu.streams import DEFAULT_MEMORY, Checkpoint, ExactTotal, Magnitudes, PlannedTotal, Total, run
from tcu.units import get_unit

__all__ = ["Method", "Outcome", "compute", "panel_of", "unit_in", "warn_about"]


@dataclass(frozen=True)
class Method:
    """How to reduce: the parameters of ``tcu.sum`` and of ``tcu.var``, formats under any of their names."""

    unit: str
    variant: str
    schedule: Schedule
    dtype: str | None = None
    correction: float = 0.0

    @property
    def parameters(self) -> dict[str, Any]:
        given = {
            "unit": self.unit,
            "variant": self.variant,
            "correction": self.correction,
            **asdict(self.schedule),
        }
        if self.schedule.accumulator is not None:
            given["accumulator"] = get_format(self.schedule.accumulator).dtype
        if self.dtype is not None:
            given["dtype"] = summable_format(self.dtype, "--dtype").dtype
        return given

    def options_of(self, operation: Operation) -> dict[str, Any]:
        """Those parameters that the operation has."""
        return {name: value for name, value in self.parameters.items() if name in operation.options}


@dataclass(frozen=True)
class Outcome:
    elements: DataElements
    result: Any
    """A NumPy scalar."""
    info: SumInfo
    exact: float
    """The exact sum, rounded to binary64; NaN where it has no value."""
    bound: float

    @property
    def format(self) -> Format:
        return format_of(self.result.dtype)

    @property
    def bits(self) -> str:
        assert self.info.bits is not None  # of one number
        return hex_bits(self.info.bits, self.format)

    @property
    def error(self) -> Fraction | None:
        """|result - exact|, where both are finite."""
        result = float(self.result)
        if not (math.isfinite(result) and math.isfinite(self.exact)):
            return None
        return abs(Fraction(result) - Fraction(self.exact))

    @property
    def relative_error(self) -> float:
        """0 where result and exact sum agree; inf where only one is infinite, or only the exact sum 0."""
        result, error = float(self.result), self.error
        if result == self.exact:
            return 0.0
        if error is None:
            return math.nan if math.isnan(result) or math.isnan(self.exact) else math.inf
        if self.exact == 0:
            return math.inf
        try:
            return float(error / abs(Fraction(self.exact)))
        except OverflowError:
            return math.inf

    @property
    def ulps(self) -> float | None:
        """The error in units of the last place that the exact sum has in the result's format."""
        error = self.error
        if error is None or self.exact == 0:
            return None
        exponent = max(leading_exponent(Fraction(self.exact)), self.format.emin)
        try:
            return float(error / Fraction(2) ** (exponent - self.format.fraction_bits))
        except OverflowError:
            return None

    def document(self) -> dict[str, Any]:
        """What ``--json`` prints."""
        plan = self.info.plan
        return {
            "n": plan.n,
            "dtype": str(self.elements.format.dtype),
            "unit": unit_in(self.info),
            "variant": plan.variant,
            "chain": plan.chain,
            "block": plan.block,
            "result": json_number(float(self.result)),
            "exact": json_number(self.exact),
            "relative_error": json_number(self.relative_error),
            "error_bound": json_number(self.bound),
            "mmas": self.info.mmas,
            "bits": self.bits,
            "rounded_from": self.elements.rounded_from,
            "modelled_time": asdict(self.info.modelled_time),
            "levels": self.info.levels,
        }

    def panel(self, source: str) -> Panel:
        """What a person reads."""
        plan, time = self.info.plan, self.info.modelled_time
        chain = "" if plan.chain is None else f"R = {plan.chain}, "
        unit = get_unit(self.info.unit)
        rows: list[tuple[str, str | Text]] = [
            ("numbers", count_text(self.elements)),
            ("unit", f"{unit.name} ({unit.architecture})" if self.info.mmas else "none: additions outside of matrix units"),
            ("variant", f"{plan.variant}, {chain}B = {plan.block}"),
            ("", ""),
            ("sum", Text(str(self.result), style="bold")),
            ("bits", f"{self.bits}  ({self.format.name})"),
            ("exact sum", f"{self.exact!r}{of_the_rounded(self.elements)}"),
            ("relative error", _error_text(self)),
            ("error bound", _bound_text(self)),
            ("", ""),
            *([("MMAs", f"{self.info.mmas:,}")] if self.info.mmas else []),
            ("levels", f"{self.info.levels}"),
        ]  # fmt: skip
        if self.info.mmas:  # those times are of sums on matrix units
            rows += [
            ("modelled time", _times(("two-MMA", time.two_mma), ("chained", time.chained), ("classic", time.classic))),
            ("", Text("units of time: one per MMA, addition or memory access", style="dim")),
            ("speedup", _times(("two-MMA", time.speedup_two_mma), ("chained", time.speedup_chained))),
            ]  # fmt: skip
        return panel_of(f"sum of {source}", rows)


def _times(*named: tuple[str, float]) -> Text:
    text = Text()
    for name, value in named:
        text.append(f"{name} ", style="dim")
        text.append(f"{value:.2f}   ")
    text.rstrip()
    return text


def _error_text(outcome: Outcome) -> Text:
    error, ulps = outcome.relative_error, outcome.ulps
    if error == 0:
        return Text("0", style="green")
    text = Text(short(error))
    if ulps is not None and error > 0:
        text.append(f"  ({short(ulps)} ulp of {outcome.format.name})", style="dim")
    return text


def _bound_text(outcome: Outcome) -> str:
    if math.isnan(outcome.bound):
        return "none: the numbers hold inf or NaN"
    if math.isinf(outcome.bound):
        return "none: an overflow cannot be excluded"
    return f"{short(outcome.bound)}  (absolute)"


def unit_in(info: SumInfo | DotInfo) -> str | None:
    """The unit that has a say in the bits: none where there are no MMAs."""
    return info.unit if isinstance(info, SumInfo) and info.mmas else None


def panel_of(title: str, rows: Sequence[tuple[str, str | Text]]) -> Panel:
    """Facts in two columns, in a frame."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column()
    for label, value in rows:
        grid.add_row(label, value)
    return Panel(grid, title=Text(title, style="bold"), title_align="left", expand=False, padding=(0, 1),
                 box=box.ROUNDED)  # fmt: skip


def compute(
    elements: DataElements,
    method: Method,
    exact: float | None = None,
    *,
    memory: int = DEFAULT_MEMORY,
    checkpoint: Callable[[dict[str, Any]], Checkpoint | None] = lambda task: None,
    progress: Progress | None = None,
    gpu: int | None = None,
) -> Outcome:
    """Sum by ``method``, bound its error and, for ``exact=None``, find the exact sum; reads the numbers once.

    ``checkpoint`` makes one for what is to be done, or none.
    """
    given = method.options_of(SUM)
    plan, unit = plan_of(SUM, elements.n, elements.format, SUM.values(dict(given)))
    target = result_format(elements.format, given.get("dtype"))
    planned, magnitudes, whole = PlannedTotal(plan, unit), Magnitudes(), ExactTotal()
    totals: list[Total] = [planned, magnitudes, *([whole] if exact is None else []), Changes(elements)]
    task = {"operation": "sum", "unit": unit.name, "plan": str(plan), "gpu": gpu is not None}
    run(elements, totals, memory=memory, checkpoint=checkpoint(task), progress=progress, gpu=gpu)
    result = round_sum(planned.value(), target)
    info = sum_info(unit, plan, int(np.array([result]).view(target.code_dtype)[0]))
    if exact is None:
        exact = float(whole.value("float64"))
    return Outcome(elements, result, info, exact, magnitudes.bound(plan, unit, target.dtype))


def warn_about(elements: DataElements) -> None:
    """What the user must know about the files, and about the conversion, once the numbers were read."""
    for remark in elements.source.remarks:
        warn(remark)
    if elements.overflowed:
        fmt = elements.format
        warn(
            f"numbers beyond {fmt.max_finite:g}, the largest of {fmt.name}, became inf: "
            "choose a wider --input-dtype, such as bfloat16 or float32"
        )
