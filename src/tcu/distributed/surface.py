"""What functions over ranks do, and what their docstrings say besides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tcu.distributed.reductions import reduce
from tcu.distributed.scans import scan
from tcu.distributed.words import size_of
from tcu.errors import ParameterError
from tcu.ops import Call, Operation
from tcu.ops.layout import Layout
from tcu.surfaces.served import is_served
from tcu.surfaces.signatures import Keyword, Surface, beside_options, function_over

__all__ = ["function_of", "run_over_ranks"]


def run_over_ranks(
    operation: Operation, arrays: tuple[Any, ...], layout: Layout, *, group: Any = None, async_op: bool = False,
    **options: Any,
) -> Any:  # fmt: skip
    """What every rank calls with its shards; raises ParameterError for what is not served."""
    operation.check_layout(layout)
    if not operation.over_ranks:
        raise ParameterError(
            f"{operation} over ranks is not there, as it takes whole rows: call tcu.{operation} on each rank's own rows"
        )
    if not is_served(operation, type(layout), "ranks"):
        raise ParameterError(
            f"{operation} over ranks does not take segments, which offsets find in one shard: call "
            f"tcu.segment_{operation} on each rank's own"
        )
    beside = beside_options(operation, (each.name for each in _RANKS.keywords(operation)))
    call = Call(operation, arrays, layout, operation.values(options, beside))
    if operation.kind != "scan":
        return reduce(call, group, async_op)
    if async_op:
        raise ParameterError(f"async_op: {operation} waits for what comes before: leave it out")
    return scan(call, group)


_LAWS = {
    "planned": """over all ranks: each shard by the plan of its own length, the shards' totals exactly.

The bits depend on which numbers form a shard; not on the ranks' order, the
network, or how often it is run.  The totals are rounded to binary64 once,
divided or rooted there, and rounded to ``dtype``.""",
    "exact": """over all ranks, rounded once: one answer, however many ranks there are and whatever each has.

{exchange}
inf and -inf together raise InvalidOperationError on the CPU and give NaN on
GPUs.""",
    "planned moments": """over all ranks: the moments of each shard by the plan of its own length, merged exactly.

The bits depend on which numbers form a shard; not on the ranks' order, the
network, or how often it is run.  The variance is rounded once, its root too;
that of one rank alone has the bits of :func:`tcu.{name}`.  Shards lie in the
host's memory.
{exchange}""",
    "exact moments": """over all ranks, rounded once: one answer, however many ranks there are and whatever each has.

Shards lie in the host's memory.
{exchange}""",
    "exponentials": """over all ranks: the bits of the whole array, however many ranks there are and whatever each has.

First the largest numbers are exchanged, then the exact sums of exponentials: 24 bytes (40 of float64) in all, with
``axis`` for every row.  Shards lie in the host's memory.""",
    "own": "over all ranks: each makes the share of its shard, and merges the shares of all.",
    "exact scan": """of shards that follow one another along an axis, in the ranks' order.

Each element is rounded once from the exact sum of all before it, so neither
where shards begin nor how many ranks there are leaves a trace.  Each rank sends
{bytes} bytes for every row along the axis, and waits for them.  Shards lie in the host's memory.""",
    "scan": """of shards that follow one another along an axis, in the ranks' order.

Each element is the scan of its own shard, in binary64, plus the exact sum of
everything before the shard, rounded once to binary64.  So the bits depend on
where shards begin, and on nothing else; and errors do not grow from rank to
rank.  Each rank sends {bytes} bytes for every row along the axis, and waits for
them; the scan takes 8 bytes a number beside x and the result.  It is by the
default variant alone.""",
}
"""By what operations do, what is so over ranks alone."""
_AXES = {
    "reduce": """As in :func:`tcu.{name}`; shards follow one another along these axes, and
have the same rows.  A DTensor may be sharded along other axes, too.""",
    "scan": """The axis along which the shards follow one another.  None: the shards,
flattened in C order, do; a DTensor must have one dimension then.""",
}
_GROUP = Keyword(
    "group", None, "Any",
    "Process group; None: all ranks.  GPU tensors go through NCCL, CPU tensors\nthrough Gloo.",
)  # fmt: skip
_ASYNC = Keyword("async_op", False, "bool", "Return a :class:`Pending` without waiting for the exchange.")
_RESULTS = {
    "reduce": """A tensor on x's device, or a DTensor, replicated where shards were put
together; the same on every rank.""",
    "scan": """This rank's part, of x's shape (flattened for ``axis=None``), or a DTensor
placed as x.""",
}


def _law(operation: Operation) -> str:
    kind: str = operation.arithmetic
    if operation.kind == "scan":
        kind = "exact scan" if operation.exact else "scan"
    text = _LAWS[f"{kind} moments" if operation.moments else kind]
    count = 8 * size_of(operation.tallies)
    exchange = f"Each rank sends and receives {count} bytes, with ``axis`` for every row."
    return text.format(name=operation, bytes=count, exchange=exchange)


_RANKS = Surface(
    "tcu.distributed",
    run_over_ranks,
    _law,
    "This rank's shard, a PyTorch tensor, also empty; or a DTensor, whose device\nmesh says who has the rest.",
    lambda operation: _AXES[operation.kind].format(name=operation),
    lambda operation: [_GROUP] if operation.kind == "scan" else [_GROUP, _ASYNC],
    lambda operation: _RESULTS[operation.kind],
    """What :func:`tcu.{name}` refuses; a group that is not there; ranks that do
not agree on dtype, operation, options, rows or version of tcu.  Of whole
arrays on GPUs, which are not waited for, the first call of a kind waits and
raises; later ones give NaN.""",
)


def function_of(operation: Operation) -> Callable[..., Any]:
    """The function of an operation over ranks, as ``tcu.distributed.sum`` is that of the sum."""
    return function_over(operation, _RANKS)
