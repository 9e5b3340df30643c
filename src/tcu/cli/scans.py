"""``tcu cumsum``: the running sums of a file, into a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import typer

import tcu
from tcu.cli import options
from tcu.cli.data import summable_format
from tcu.cli.files import read_elements
from tcu.cli.outcome import warning
from tcu.cli.output import check_place, console, print_json, warn
from tcu.cli.progress import ProgressBar
from tcu.cli.rows import array_of, save_array, shape_text
from tcu.collectives import ScanInfo
from tcu.collectives.scans import scan_axis
from tcu.errors import ParameterError

__all__ = ["cumsum_command"]


@options.spread
def cumsum_command(
    file: options.DataFile,
    *,
    axis: Annotated[
        int | None,
        typer.Option(
            "--axis",
            metavar="N",
            help="Run along this axis, from 0, or from the end with -1; else through all numbers as one line.",
            rich_help_panel=options.FILE,
        ),
    ] = None,
    numbers: options.Numbers,
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
            help="Where the running sums go.",
            rich_help_panel=options.OUTPUT,
        ),
    ] = None,
    dtype: options.ResultDtype = None,
    as_json: options.Json = False,
) -> None:
    """Write the running sums of a file, each rounded once, with the same bits on every machine.

    Example: [bold]tcu cumsum data.npy -o sums.npy[/bold]

    [bold]tcu cumsum matrix.npy --axis -1 --exclusive --dtype float64 -o before.npy[/bold]
    """
    if output is None:
        raise ParameterError("the running sums are an array, which goes to a file: give -o FILE.npy")
    check_place(output)
    target = None if dtype is None else summable_format(dtype, "--dtype").dtype
    elements = read_elements(file, numbers)
    number = scan_axis(axis, elements.array.ndim)
    with ProgressBar(elements.n) as bar:
        x = elements if number is None else array_of(elements)
        sums, info = tcu.cumsum(
            x,
            number,
            exclusive=exclusive,
            reverse=reverse,
            dtype=target,
            return_info=True,
            progress=bar.advance,
        )
    save_array(output, sums)
    message = warning(elements)
    if message is not None:
        warn(message)
    shape = elements.array.shape
    if as_json:
        print_json(
            _document(shape, number, exclusive, reverse, str(elements.format.dtype), sums, info, output)
        )
        return
    screen = console()
    way = "all as one line" if number is None else f"along axis {number}"
    kind = f"{'exclusive, ' if exclusive else ''}{'from the end, ' if reverse else ''}{way}"
    screen.print(f"{file}: {shape_text(shape)} of {elements.format.dtype}, {kind}", markup=False)
    screen.print(f"{info.rows:,} × {info.plan}", markup=False)
    screen.print(f"{output}: {shape_text(np.shape(sums))} of {sums.dtype}", markup=False)


def _document(
    shape: tuple[int, ...], axis: int | None, exclusive: bool, reverse: bool, dtype: str, sums: npt.NDArray[Any],
    info: ScanInfo, file: Path,
) -> dict[str, Any]:  # fmt: skip
    return {
        "shape": list(shape),
        "dtype": dtype,
        "axis": axis,
        "exclusive": exclusive,
        "reverse": reverse,
        "n": info.plan.n,
        "rows": info.rows,
        "group": info.plan.group,
        "levels": info.plan.levels,
        "depth": info.plan.depth,
        "output": str(file),
        "result_shape": list(sums.shape),
        "result_dtype": str(sums.dtype),
    }
