"""``tcu cumsum --axis``: the running sums of the rows of one array, into a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import tcu
from tcu.cli.data import DataElements
from tcu.cli.outcome import warning
from tcu.cli.output import console, print_json, warn
from tcu.cli.progress import ProgressBar
from tcu.cli.rows import array_of, save_array, shape_text
from tcu.collectives import ScanInfo
from tcu.collectives.scans import scan_axis

__all__ = ["scan_rows"]


def scan_rows(
    elements: DataElements, source: str, axis: int, exclusive: bool, reverse: bool,
    dtype: npt.DTypeLike | None, output: Path, as_json: bool,
) -> None:  # fmt: skip
    """Write the running sums along an axis, and say in a few lines what they are."""
    x = array_of(elements)
    number = scan_axis(axis, x.ndim)
    with ProgressBar(elements.n, itemsize=elements.dtype.itemsize) as bar:
        sums, info = tcu.cumsum(
            x, number, exclusive=exclusive, reverse=reverse, dtype=dtype, return_info=True, progress=bar.advance
        )
    save_array(output, sums)
    message = warning(elements)
    if message is not None:
        warn(message)
    if as_json:
        print_json(_document(x, number, exclusive, reverse, sums, info, output))
        return
    screen = console()
    kind = f"{'exclusive, ' if exclusive else ''}{'from the end, ' if reverse else ''}along axis {number}"
    screen.print(f"{source}: {shape_text(x.shape)} of {elements.format.dtype}, {kind}", markup=False)
    screen.print(f"{info.rows:,} × {info.plan}", markup=False)
    screen.print(f"{output}: {shape_text(np.shape(sums))} of {sums.dtype}", markup=False)


def _document(
    x: npt.NDArray[Any], axis: int | None, exclusive: bool, reverse: bool, sums: npt.NDArray[Any],
    info: ScanInfo, file: Path,
) -> dict[str, Any]:  # fmt: skip
    return {
        "shape": list(x.shape),
        "dtype": str(x.dtype),
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
