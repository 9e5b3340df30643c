"""What functions of files do, and what their docstrings say besides."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tcu.errors import ParameterError
from tcu.model.elements import summable
from tcu.model.execute import Progress
from tcu.ops import Operation
from tcu.ops.layout import Along, Layout, Whole
from tcu.ops.result import result_format
from tcu.streams.checkpoint import Checkpoint
from tcu.streams.passes import run
from tcu.streams.places import DEFAULT_MEMORY, open_files
from tcu.streams.reductions import result_of, totals_of
from tcu.streams.scans import scan_into
from tcu.streams.source import Source, Together
from tcu.streams.totals import planned_of
from tcu.surfaces.served import is_served
from tcu.surfaces.signatures import REQUIRED, Parameters, Surface, function_over

__all__ = ["function_of", "run_on_files"]


def run_on_files(
    operation: Operation, files: tuple[Any, ...], layout: Layout, *, out: Any = None, memory: int = DEFAULT_MEMORY,
    checkpoint: str | os.PathLike[str] | None = None, progress: Progress | None = None, gpu: int | None = None,
    **options: Any,
) -> Any:  # fmt: skip
    """The result of all numbers, read once; raises ParameterError for what is not served."""
    operation.check_layout(layout)
    scan = operation.kind == "scan"
    if not is_served(operation, type(layout), "files") or (scan and layout != Along(None)):
        raise ParameterError(
            f"{operation.name} of files takes all numbers, as one line: for axes and segments map the array, with "
            f"numpy.load(path, mmap_mode='r'), and give it to tcu itself"
        )
    if not scan and out is not None:
        options["out"] = out  # which it does not have
    given = operation.values(options)
    sources = [x if isinstance(x, Source) else open_files(x, memory=memory) for x in files]
    elements = [summable(source.dtype, source.name, "sum") for source in sources]
    target = result_format(elements[0], given[-1])
    task: dict[str, Any] = {
        "operation": operation.name, "options": repr(given), "dtype": target.name,
        "files": [source.identity() for source in sources],
    }  # fmt: skip
    how: dict[str, Any] = {"memory": memory, "progress": progress}
    if scan:
        if out is None or gpu is not None:
            raise ParameterError(
                f"{operation.name} of files is computed on the CPU and goes to a file: give out='sums.npy', and leave "
                "gpu out"
            )
        kept = checkpoint and Checkpoint(checkpoint, task | {"output": os.path.abspath(out)})
        exclusive, reverse, _ = given
        scan_into(
            Path(out), sources[0], elements[0], target, exclusive=exclusive, reverse=reverse, checkpoint=kept or None,
            **how,
        )  # fmt: skip
        return None
    numbers: Any = sources[0] if len(sources) == 1 else Together(*sources)
    totals = totals_of(operation, numbers.n, elements[0], given)
    planned = planned_of(totals)
    task["plan"] = None if planned is None else str(planned.stream.plan)
    kept = checkpoint and Checkpoint(checkpoint, task)
    run(numbers, totals, checkpoint=kept or None, gpu=gpu, **how)
    return result_of(operation, numbers.n, totals, target)


_TEXT = """:func:`tcu.{name}` of all numbers of files, as one line, read once: the same bits.

Parameters
----------
{operands}:
    A path, a folder, a glob or several, as :func:`open_files` takes them; or
    a :class:`Source`.
{options}:
    As in :func:`tcu.{name}`.
{out}memory:
    Bytes for what is read and worked on.
checkpoint:
    A file that keeps how far the pass has come, and from which it goes on.
progress:
    Called with the number of elements just finished.
{gpu}
Returns
-------
{result}

Raises
------
DataFileError, DtypeError, ShapeError, ParameterError:
    Files that cannot be read; numbers that :func:`tcu.{name}` refuses.
"""
_OUT = """out:
    The .npy file that takes the running sums; one that is there is replaced.
"""
_GPU = """gpu:
    The number of the GPU that the numbers are copied to and summed on, of
    sums and means by the default plan or exact ones.
"""


def _documentation(operation: Operation) -> str:
    scan = operation.kind == "scan"
    return _TEXT.format(
        name=operation.name, operands=", ".join(operation.operands), options=", ".join(operation.options),
        out=_OUT if scan else "", gpu="" if scan else _GPU,
        result="None: the running sums are in ``out``." if scan else "A NumPy scalar.",
    )  # fmt: skip


def _tail(operation: Operation) -> Parameters:
    out: Parameters = [("out", REQUIRED, "str | os.PathLike[str]")]
    gpu: Parameters = [("gpu", None, "int | None")]
    common: Parameters = [
        ("memory", DEFAULT_MEMORY, "int"), ("checkpoint", None, "str | os.PathLike[str] | None"),
        ("progress", None, "Progress | None"),
    ]  # fmt: skip
    return [*out, *common] if operation.kind == "scan" else [*common, *gpu]


_FILES = Surface("tcu.streams", run_on_files, _tail, _documentation, layouts=(Whole,))


def function_of(operation: Operation) -> Callable[..., Any]:
    """The function of an operation on files, as ``tcu.streams.sum`` is that of the sum."""
    return function_over(operation, _FILES)
