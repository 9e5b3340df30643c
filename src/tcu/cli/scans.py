"""``tcu cumsum``: running sums of files, into a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tcu.cli import options
from tcu.cli.data import Overflow, summable_format
from tcu.cli.files import read_elements
from tcu.cli.outcome import warning
from tcu.cli.output import check_place, console, print_json, warn
from tcu.cli.progress import ProgressBar
from tcu.cli.resuming import checkpoint_of
from tcu.cli.scan_rows import scan_rows
from tcu.collectives.results import result_format
from tcu.errors import ParameterError
from tcu.streams.scans import SEGMENT, scan_into

__all__ = ["cumsum_command"]


@options.spread
def cumsum_command(
    file: options.DataFiles,
    *,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE.npy", help="Where the running sums go.")
    ],
    axis: Annotated[
        int | None,
        typer.Option(
            "--axis",
            metavar="N",
            help="Run along this axis of one array, from 0, or from the end with -1.",
            rich_help_panel=options.FILE,
        ),
    ] = None,
    exclusive: Annotated[
        bool, typer.Option("--exclusive", help="The sum of what comes before each number, without itself.")
    ] = False,
    reverse: Annotated[bool, typer.Option("--reverse", help="From the last number to the first.")] = False,
    numbers: options.Numbers,
    reading: options.Reading,
    dtype: options.ResultDtype = None,
    as_json: options.Json = False,
) -> None:
    """Write the running sums of all numbers, in C order, to a .npy file.

    Several files, a folder or a glob count as one array, in the order of their
    names.  Each segment of 2^20 numbers is scanned in binary64, and what comes
    before it is added as its exact sum, so that errors do not grow with the
    length; the bits depend on the numbers alone.  With --axis the rows of one
    array, each with the bits of tcu.cumsum.

    Example: [bold]tcu cumsum 'run-*/*.npy' -o sums.npy --checkpoint state.json[/bold]
    """
    if reading.gpu:
        raise ParameterError("--gpu: cumulative sums of files are computed on the CPU: leave it out")
    check_place(output)
    memory = options.size_of(reading.memory)
    elements = read_elements(file, numbers, memory, once=axis is None and not reverse)
    wanted = None if dtype is None else summable_format(dtype, "--dtype").dtype
    if axis is not None:
        if reading.checkpoint is not None:
            raise ParameterError("--checkpoint with --axis: an axis is summed in one go: leave one of them out")
        scan_rows(elements, elements.source.name, axis, exclusive, reverse, wanted, output, as_json)
        return
    target = result_format(elements.format, wanted)
    task: dict[str, Any] = {
        "operation": "cumsum", "exclusive": exclusive, "reverse": reverse, "dtype": target.name,
        "output": str(output.resolve()), "segment": SEGMENT,
    }  # fmt: skip
    with ProgressBar(elements.n, itemsize=elements.dtype.itemsize) as bar:
        scan_into(
            output, elements, target, exclusive=exclusive, reverse=reverse, memory=memory,
            checkpoint=checkpoint_of(elements, reading, task), progress=bar.advance,
            beside=[Overflow(elements)],
        )  # fmt: skip
    message = warning(elements)
    for each in (*elements.source.remarks, *([] if message is None else [message])):
        warn(each)
    document = {
        "n": elements.n, "dtype": str(elements.format.dtype), "exclusive": exclusive, "reverse": reverse,
        "output": str(output), "result_dtype": str(target.dtype),
    }  # fmt: skip
    if as_json:
        print_json(document)
        return
    console().print(
        f"{output}: {elements.n:,} running sums of {elements.format.dtype} numbers, as {target.dtype}",
        markup=False,
    )
