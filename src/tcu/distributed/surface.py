"""What functions over ranks do, and what their docstrings say besides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tcu.distributed.reductions import reduce
from tcu.distributed.scans import scan
from tcu.distributed.words import size_of
from tcu.errors import ParameterError
from tcu.ops import Call, Operation
from tcu.ops.layout import Along, Layout
from tcu.surfaces.served import is_served
from tcu.surfaces.signatures import Parameters, Surface, function_over

__all__ = ["function_of", "run"]


def run(
    operation: Operation, arrays: tuple[Any, ...], layout: Layout, *, group: Any = None, async_op: bool = False,
    **options: Any,
) -> Any:  # fmt: skip
    """What every rank calls with its shards; raises ParameterError for what is not served."""
    operation.check_layout(layout)
    if not is_served(operation, type(layout), "ranks"):
        raise ParameterError(
            f"{operation.name} over ranks does not take segments, which offsets find in one shard: call "
            f"tcu.segment_{operation.name} on each rank's own"
        )
    call = Call(operation, arrays, layout, operation.values(options))
    if operation.kind == "scan":
        if async_op:
            raise ParameterError(f"async_op: {operation.name} waits for what comes before: leave it out")
        return scan(call, group)
    return reduce(call, group, async_op)


_LAWS = {
    "planned": """Each shard is added up by the plan of its own length, and the shards' totals exactly.

The bits depend on which numbers form a shard; not on the ranks' order, the
network, or how often it is run.  The totals are rounded to binary64 once,
divided or rooted there, and rounded to ``dtype``.""",
    "exact": """It is rounded once: one answer, however many ranks there are and whatever each has.

Each rank sends and receives {bytes} bytes, with ``axis`` for every row.
Where inf and -inf meet, that is InvalidOperationError on the CPU and NaN on
GPUs.""",
    "own": """Each rank makes the share of its shard, and merges the shares of all.

Each rank sends its share, 8 bytes a number.""",
    "scan": """Shards follow one another along the axis, in the ranks' order.

Each element is the scan of its own shard, in binary64, plus the exact sum of
everything before the shard, rounded once to binary64.  So the bits depend on
where shards begin, and on nothing else; and errors do not grow from rank to
rank.  Each rank sends 592 bytes for every row along the axis, and waits for
them; the scan takes 8 bytes a number beside x and the result.""",
}
"""By what operations do, what is so over ranks alone."""

_AXES = {
    "reduce": """axis, keepdims:
    As in :func:`tcu.{name}`; shards follow one another along these axes, with
    the same rows.  With a DTensor other axes may be sharded, too.
""",
    "scan": """axis:
    The axis along which the shards follow one another.  None: the shards,
    flattened in C order, do; a DTensor must have one dimension then.
""",
}

_TEXT = """:func:`tcu.{name}` over all ranks.  {law}

Parameters
----------
{operands}:
    This rank's shard, a PyTorch tensor, also empty; or a DTensor, whose
    device mesh says who has the rest.
{axes}{options}:
    As in :func:`tcu.{name}`; the same on all ranks.
group:
    Process group; None: all ranks.  GPU tensors go through NCCL, CPU tensors
    through Gloo.
{waits}
Returns
-------
{result}

Raises
------
ParameterError, DtypeError:
    What :func:`tcu.{name}` refuses; a group that is not there; ranks that do
    not agree on dtype, operation, options, rows or version of tcu.  Of whole
    arrays on GPUs, which are not waited for, the first call of a kind waits
    and raises; later ones give NaN.
"""

_WAITS = """async_op:
    Return a :class:`Pending` without waiting for the exchange.
"""
_RESULTS = {
    "reduce": """A tensor on x's device, or a DTensor, replicated where shards were put
together; the same on every rank.""",
    "scan": """This rank's part, of x's shape (flattened for ``axis=None``), or a DTensor
placed as x.""",
}


def _documentation(operation: Operation) -> str:
    kind = operation.kind
    law = _LAWS["scan" if kind == "scan" else operation.arithmetic]
    return _TEXT.format(
        name=operation.name, law=law.format(bytes=8 * size_of(operation.tallies)), operands=", ".join(operation.operands),
        axes=_AXES[kind].format(name=operation.name) if Along in operation.layouts else "",
        options=", ".join(operation.options), waits=_WAITS if kind == "reduce" else "", result=_RESULTS[kind],
    )  # fmt: skip


def _tail(operation: Operation) -> Parameters:
    waits: Parameters = [("async_op", False, "bool")] if operation.kind == "reduce" else []
    return [("group", None, "Any"), *waits]


_RANKS = Surface("tcu.distributed", run, _tail, _documentation)


def function_of(operation: Operation) -> Callable[..., Any]:
    """The function of an operation over ranks, as ``tcu.distributed.sum`` is that of the sum."""
    return function_over(operation, _RANKS)
