"""``tcu sum --axis`` and the like: results along axes of an array, into a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import typer

from tcu.cli import options
from tcu.cli.data import DataElements
from tcu.cli.outcome import unit_in
from tcu.cli.output import console, print_json
from tcu.cli.progress import ProgressBar
from tcu.errors import DataFileError, ParameterError
from tcu.ops import SUM, Operation, layout
from tcu.ops.info import DotInfo, SumInfo
from tcu.ops.layout import reduced_axes
from tcu.streams import ArraySource, FortranSource, NpySource, expand
from tcu.surfaces.call import run
from tcu.unfinished import check_place

__all__ = ["Along", "array_of", "is_wanted", "reduce_along", "save_array", "shape_text"]


@dataclass(frozen=True)
class Along:
    """Which axes, and where the sums go."""

    axis: Annotated[
        list[int] | None,
        typer.Option(
            "--axis",
            metavar="N",
            help="Sum along this axis only, from 0, or from the end with -1; may be repeated. Needs -o.",
            rich_help_panel=options.FILE,
        ),
    ] = None
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE.npy",
            help="Where the sums along --axis go. A file that is there is replaced, an input never.",
            rich_help_panel=options.OUTPUT,
        ),
    ] = None


def reduce_along(
    operation: Operation,
    elements: DataElements,
    source: str,
    along: Along,
    given: dict[str, Any],
    as_json: bool,
) -> None:
    """Write the results of all rows, and say in a few lines what they are."""
    x = array_of(elements)
    axes = reduced_axes(tuple(along.axis or ()), x.ndim)
    assert along.output is not None
    with ProgressBar(elements.n, itemsize=elements.dtype.itemsize) as bar:
        sums, info = run(
            operation,
            (x,),
            layout.Along(axes),
            operation.values(given),
            return_info=True,
            progress=bar.advance,
        )
    save_array(along.output, sums)
    document = _document(x, axes, np.asarray(sums), info, along.output)
    if as_json:
        print_json(document)
        return
    screen, what = console(), "summed" if operation is SUM else operation
    screen.print(f"{source}: {shape_text(x.shape)} of {x.dtype}, {what} along {_axes(axes)}", markup=False)
    if info is not None:
        plan = info.plan
        chain = "" if plan.chain is None else f"R = {plan.chain}, "
        unit = unit_in(info)
        place = "" if unit is None else f", on {unit}"
        screen.print(
            f"{np.size(sums):,} {operation}s of {plan.n:,} numbers, by {plan.variant}, {chain}B = {plan.block}{place}"
        )
    screen.print(f"{along.output}: {shape_text(np.shape(sums))} of {sums.dtype}", markup=False)


def is_wanted(along: Along, files: Sequence[str]) -> bool:
    """Whether sums along axes are wanted; raises ParameterError and DataFileError before anything is read.

    ``files``: those that will be read.
    """
    if along.axis is None:
        if along.output is not None:
            raise ParameterError(
                f"-o {along.output}: only sums along an axis are written to a file: give --axis, or leave -o out"
            )
        return False
    if along.output is None:
        raise ParameterError(
            f"--axis {along.axis[0]}: the sums are an array, which goes to a file: give -o FILE.npy"
        )
    check_place(along.output, expand(files))
    return True


def array_of(elements: DataElements) -> npt.NDArray[Any]:
    """The file's array, in the format that its numbers are rounded to."""
    source = elements.source
    if isinstance(source, NpySource | FortranSource):
        source = ArraySource(np.load(source.name, mmap_mode="r"), source.name)
    if not isinstance(source, ArraySource):
        raise ParameterError(
            f"{source.name}: --axis takes one array of a .npy, .npz or text file; for axes of Zarr and HDF5 arrays "
            "call tcu.sum(x, axis=...) in Python, on a Dask array"
        )
    if source.array.dtype.newbyteorder("=") == elements.format.dtype:
        return source.array
    return elements.read(0, elements.n).reshape(source.array.shape)


def save_array(file: Path, array: Any) -> None:
    """Write an array as .npy; raises DataFileError."""
    try:
        with file.open("wb") as stream:
            np.save(stream, array)
    except OSError as error:
        raise DataFileError(f"cannot write {file}: {error.strerror or error}: choose another place") from None


def _document(
    x: npt.NDArray[Any],
    axes: tuple[int, ...],
    sums: npt.NDArray[Any],
    info: SumInfo | DotInfo | None,
    file: Path,
) -> dict[str, Any]:
    how = {} if info is None else {
        "unit": unit_in(info), "variant": info.plan.variant, "chain": info.plan.chain, "block": info.plan.block,
        "n": info.plan.n, "rows": sums.size, "mmas": info.plan.mmas_of(sums.size), "levels": info.levels,
    }  # fmt: skip
    return {
        "shape": list(x.shape), "dtype": str(x.dtype), "axes": list(axes), **how, "output": str(file),
        "result_shape": list(sums.shape), "result_dtype": str(sums.dtype),
    }  # fmt: skip


def shape_text(shape: tuple[int, ...]) -> str:
    return " × ".join(f"{length:,}" for length in shape) or "one number"


def _axes(axes: tuple[int, ...]) -> str:
    return ("axis " if len(axes) == 1 else "axes ") + ", ".join(map(str, axes))
