"""``tcu cumsum`` and ``tcu fcumsum``: the running sums of numbers in files, into a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from tcu.cli import options
from tcu.cli.data import Changes, DataElements, summable_format
from tcu.cli.files import read_elements
from tcu.cli.outcome import warn_about
from tcu.cli.output import console, print_json
from tcu.cli.progress import ProgressBar
from tcu.cli.resuming import check_alone, checkpoint_of
from tcu.cli.rows import array_of, save_array, shape_text
from tcu.errors import ParameterError
from tcu.formats.format import Format
from tcu.ops import CUMSUM, FCUMSUM, Operation
from tcu.ops.info import ScanInfo, scan_info
from tcu.ops.layout import Along, line_shape, scan_axis
from tcu.ops.options import OPTIONS
from tcu.ops.result import result_format
from tcu.plan import DEFAULT_SCAN, MmaScanPlan
from tcu.streams import expand
from tcu.streams.scans import scan_into
from tcu.surfaces.call import run
from tcu.unfinished import check_place

__all__ = ["command_of", "cumsum_command", "fcumsum_command"]

_CUMSUM = """Write the running sums of numbers, added in binary64, with the same bits on every machine.

    Several files, a folder or a glob count as one array, in the order of their
    names; they may be larger than memory, except by a variant with MMAs.

    Example: [bold]tcu cumsum data.npy -o sums.npy[/bold]

    [bold]tcu cumsum matrix.npy --axis -1 --exclusive --dtype float64 -o before.npy[/bold]

    [bold]tcu cumsum data.npy --input-dtype float16 --variant scan-256n -o sums.npy[/bold]

    [bold]tcu cumsum 'run-*/*.npy' -o sums.npy --checkpoint state.json[/bold] goes on after an interruption.
    """
_FCUMSUM = """Write the running sums of numbers, each rounded once from the exact sum.

    Several files, a folder or a glob count as one array, in the order of their
    names; they may be larger than memory.

    Example: [bold]tcu fcumsum data.npy -o sums.npy[/bold]

    [bold]tcu fcumsum matrix.npy --axis -1 --exclusive --dtype float64 -o before.npy[/bold]
    """


def command_of(operation: Operation, documentation: str) -> Callable[..., None]:
    """The command of a scan, with those options that it has."""

    def command(
        file: options.DataFiles,
        *,
        axis: Annotated[
            int | None,
            typer.Option(
                "--axis",
                metavar="N",
                help="Run along this axis of one array, from 0, or from the end with -1; else through all numbers as one "
                "line.",
                rich_help_panel=options.FILE,
            ),
        ] = None,
        unit: options.PlanUnit = None,
        variant: options.ScanVariant = DEFAULT_SCAN,
        schedule: options.Schedule,
        numbers: options.Numbers,
        reading: options.Reading,
        exclusive: Annotated[
            bool, typer.Option("--exclusive", help="Leave each number out of its own sum.")
        ] = False,
        reverse: Annotated[bool, typer.Option("--reverse", help="Begin at the end.")] = False,
        output: Annotated[
            Path | None,
            typer.Option(
                "-o",
                "--output",
                metavar="FILE.npy",
                help="Where the running sums go. A file that is there is replaced, an input never.",
                rich_help_panel=options.OUTPUT,
            ),
        ] = None,
        dtype: options.ResultDtype = None,
        as_json: options.Json = False,
    ) -> None:
        way: Any = {
            "unit": unit, "variant": variant, "chain": schedule.chain, "accumulator": schedule.accumulator,
        }  # fmt: skip
        _write(
            operation, file, axis, {name: given for name, given in way.items() if name in operation.options}, numbers, reading,
            exclusive, reverse, output, dtype, as_json,
        )  # fmt: skip

    command.__doc__ = documentation
    return options.spread(command, {name for name in OPTIONS if name not in operation.options})


def _write(
    operation: Operation, file: list[str], axis: int | None, way: dict[str, Any], numbers: options.Numbers,
    reading: options.Reading, exclusive: bool, reverse: bool, output: Path | None, dtype: str | None, as_json: bool,
) -> None:  # fmt: skip
    """``way``: the options that choose the plan, where the operation has one."""
    if output is None:
        raise ParameterError("the running sums are an array, which goes to a file: give -o FILE.npy")
    check_place(output, expand(file))
    given = None if dtype is None else summable_format(dtype, "--dtype").dtype
    whole = axis is not None or way.get("variant", DEFAULT_SCAN) != DEFAULT_SCAN
    if whole:
        check_alone(reading)
    elif reading.gpu:
        raise ParameterError("--gpu: the running sums of files are computed on the CPU: leave it out")
    once = not whole and not reverse
    elements = read_elements(file, numbers, options.size_of(reading.memory), once=once)
    shape = elements.source.shape
    number = scan_axis(Along(axis), len(shape))
    info = scan_info(shape, number, elements.format, **way)
    target = result_format(elements.format, given)
    with ProgressBar(elements.n, itemsize=elements.dtype.itemsize) as bar:
        if not whole:
            _through_all(operation, elements, output, target, exclusive, reverse, reading, bar)
        else:
            x = elements.read(0, elements.n) if number is None else array_of(elements)
            way |= {"exclusive": exclusive, "reverse": reverse, "dtype": target.dtype}
            save_array(
                output, run(operation, (x,), Along(number), operation.values(way), progress=bar.advance)
            )
    warn_about(elements)
    result_shape = line_shape(shape, number)
    if as_json:
        print_json({
            "shape": list(shape), "dtype": str(elements.format.dtype), "axis": number, "exclusive": exclusive,
            "reverse": reverse, **_plan(operation, info), "output": str(output), "result_shape": list(result_shape),
            "result_dtype": str(target.dtype), "rounded_from": elements.rounded_from,
        })  # fmt: skip
        return
    screen = console()
    before = elements.rounded_from
    rounded = "" if before is None else f" rounded from {before}"
    kind = f"{'exclusive, ' if exclusive else ''}{'from the end, ' if reverse else ''}" + (
        "all as one line" if number is None else f"along axis {number}"
    )
    screen.print(
        f"{elements.source.name}: {shape_text(shape)} of {elements.format.dtype}{rounded}, {kind}",
        markup=False,
    )
    by = "" if info.unit is None else f", on {info.unit}"
    what = f"{info.plan.n:,} sums, each rounded once from the exact one" if operation.exact else info.plan
    screen.print(f"{info.rows:,} × {what}{by}", markup=False)
    screen.print(f"{output}: {shape_text(result_shape)} of {target.dtype}", markup=False)


def _through_all(
    operation: Operation, elements: DataElements, output: Path, target: Format, exclusive: bool, reverse: bool,
    reading: options.Reading, bar: ProgressBar,
) -> None:  # fmt: skip
    if reading.checkpoint is not None and reading.checkpoint.resolve() == output.resolve():
        raise ParameterError(f"--checkpoint {reading.checkpoint} is where the sums go: name two files")
    task: dict[str, Any] = {
        "operation": operation.name, "exclusive": exclusive, "reverse": reverse, "dtype": target.name,
        "output": str(output.resolve()),
    }  # fmt: skip
    if not operation.exact:
        task["plan"] = str(scan_info((elements.n,), None, elements.format).plan)
    scan_into(
        operation, output, elements, elements.format, target, exclusive=exclusive, reverse=reverse,
        memory=options.size_of(reading.memory), checkpoint=checkpoint_of(elements.source, elements.format.name, reading, task),
        progress=bar.advance, beside=[Changes(elements)],
    )  # fmt: skip


def _plan(operation: Operation, info: ScanInfo) -> dict[str, Any]:
    plan = info.plan
    if operation.exact:  # which has none
        return {"n": plan.n, "rows": info.rows}
    if isinstance(plan, MmaScanPlan):
        own: dict[str, Any] = {
            "unit": info.unit, "variant": plan.variant, "chain": plan.chain, "accumulator": plan.accumulator,
            "strip": plan.strip, "mmas": info.mmas,
        }  # fmt: skip
    else:
        own = {"variant": DEFAULT_SCAN, "group": plan.group}
    return {"n": plan.n, "rows": info.rows, **own, "levels": plan.levels, "depth": plan.depth}


cumsum_command = command_of(CUMSUM, _CUMSUM)
fcumsum_command = command_of(FCUMSUM, _FCUMSUM)
