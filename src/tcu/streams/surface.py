"""What functions of files do, and what their docstrings say besides."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tcu.engines.host.integers import result_of as integer_result
from tcu.engines.host.integers import target_of
from tcu.errors import ParameterError
from tcu.gpu.device import find_gpu
from tcu.model.elements import summable
from tcu.model.execute import Progress
from tcu.model.ieee_environment import ieee
from tcu.ops import Operation
from tcu.ops.layout import Along, Layout
from tcu.ops.operation import Call
from tcu.ops.request import ScanRequest
from tcu.ops.result import result_format
from tcu.streams.checkpoint import Checkpoint
from tcu.streams.integers import are_integers, call_of
from tcu.streams.passes import run
from tcu.streams.places import DEFAULT_MEMORY, expand, listed_paths, naming, sources_of
from tcu.streams.reductions import result_of, totals_of
from tcu.streams.scans import scan_into
from tcu.streams.source import Source, Together
from tcu.streams.totals import IntegerTotal, planned_of
from tcu.surfaces.served import is_served
from tcu.surfaces.signatures import REQUIRED, Keyword, Surface, function_over
from tcu.unfinished import check_place, path_of

__all__ = ["function_of", "run_on_files"]


@ieee
def run_on_files(
    operation: Operation, files: tuple[Any, ...], layout: Layout, *, out: Any = None, memory: int = DEFAULT_MEMORY,
    checkpoint: str | os.PathLike[str] | None = None, progress: Progress | None = None, gpu: int | None = None,
    **options: Any,
) -> Any:  # fmt: skip
    """The result of all numbers, read once; raises ParameterError for what is not served."""
    operation.check_layout(layout)
    if not operation.in_parts:
        raise ParameterError(
            f"{operation} takes whole rows: map the file, with numpy.load(path, mmap_mode='r'), and give it to tcu itself"
        )
    scan = operation.kind == "scan"
    if not is_served(operation, type(layout), "files") or (scan and layout != Along(None)):
        raise ParameterError(
            f"{operation} of files takes all numbers, as one line: for axes and segments map the array, with "
            "numpy.load(path, mmap_mode='r'), and give it to tcu itself"
        )
    if scan and (out is None or gpu is not None):
        raise ParameterError(
            f"{operation} of files is computed on the CPU and goes to a file: give out='sums.npy', and leave gpu out"
        )
    place = path_of("out", out) if scan else Path()
    if scan:
        check_place(place, [path for x in files for path in _paths_of(x)])
    if not scan and out is not None:
        options["out"] = out  # which it does not have
    if gpu is not None and "unit" in operation.options:
        options.setdefault("unit", find_gpu(gpu).unit.name)
    given = operation.values(options, [each.name for each in _FILES.keywords(operation)])
    if scan and not operation.exact:
        ScanRequest(*given).check_in_parts("files")
    sources = sources_of(files, memory, 4)
    numbers: Any = sources[0] if len(sources) == 1 else Together(*sources)
    element: Any = None
    if (integers := _integers(operation, numbers, given, gpu)) is None:
        with naming(sources):
            element = summable(sources[0].dtype, "x", "sum")
    target: Any = target_of(integers, numbers.dtype) if integers else result_format(element, given[-1])
    totals: Any = (
        [IntegerTotal()] if integers else [] if scan else totals_of(operation, numbers, element, given)
    )
    planned = planned_of(totals)
    task = {
        "operation": operation.name, "gpu": gpu is not None, "options": repr(given), "dtype": target.name, "out": out and os.path.abspath(out),
        "plan": planned and str(planned.stream.plan), "files": [source.identity() for source in sources],
    }  # fmt: skip
    kept = None if checkpoint is None else Checkpoint(checkpoint, task)
    how: dict[str, Any] = {"memory": memory, "checkpoint": kept, "progress": progress}
    if scan:
        exclusive, reverse = (operation.option(name, given) for name in ("exclusive", "reverse"))
        return scan_into(
            operation, place, numbers, element, target, exclusive=exclusive, reverse=reverse, **how
        )
    run(numbers, totals, gpu=gpu, **how)
    if integers:
        return integer_result(integers, totals[0].sum, numbers.n, target)
    return result_of(operation, numbers.n, totals, target, given)


def _integers(operation: Operation, numbers: Any, options: tuple[Any, ...], gpu: int | None) -> Call | None:
    """The call, where numbers are integers or truth values that are added up."""
    if not are_integers(operation, numbers):
        return None
    if gpu is not None:
        raise ParameterError(
            f"x has dtype {numbers.dtype}: integers of files are added up on the CPU: leave gpu out"
        )
    return call_of(operation, numbers, options)


def _paths_of(x: Any) -> list[str]:
    """The files behind an argument."""
    if isinstance(x, Source):
        return [x.name]
    return expand(listed_paths(x))


_COMMON = [
    Keyword("memory", DEFAULT_MEMORY, "int", "Bytes for what is read and worked on."),
    Keyword(
        "checkpoint", None, "str | os.PathLike[str] | None",
        "A file that keeps how far the pass has come, and from which it goes on.",
    ),
    Keyword("progress", None, "Progress | None", "Called with the number of elements just finished."),
]  # fmt: skip
_OUT = Keyword(
    "out", REQUIRED, "str | os.PathLike[str]",
    "The .npy file that takes the running sums; one that is there is replaced, an input never.",
)  # fmt: skip
_GPU = Keyword(
    "gpu", None, "int | None",
    "The number of the GPU that the numbers are copied to and summed on: for exact\n"
    "sums and means, and those by the default plan.",
)  # fmt: skip
_FILES = Surface(
    "tcu.streams",
    run_on_files,
    lambda operation: (
        "of all numbers of files, as one line, read once: the same bits"
        + (
            ", by the default variant alone."
            if "variant" in operation.options and operation.kind == "scan"
            else "."
        )
    ),
    "A path, a folder, a glob or several, as :func:`open_files` takes them; or a\n:class:`Source`.",
    None,
    lambda operation: [_OUT, *_COMMON] if operation.kind == "scan" else [*_COMMON, _GPU],
    lambda operation: "None: they are in ``out``." if operation.kind == "scan" else "A NumPy scalar.",
    "Files that cannot be read; numbers and options that :func:`tcu.{name}` refuses.",
)


def function_of(operation: Operation) -> Callable[..., Any]:
    """The function of an operation on files, as ``tcu.streams.sum`` is that of the sum."""
    return function_over(operation, _FILES)
