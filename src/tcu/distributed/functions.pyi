"""Written by ``python -m tcu.stubs``."""

from collections.abc import Callable, Sequence
from typing import Any, SupportsIndex

import numpy.typing as npt

from tcu.units import Unit

__all__ = [
    "cumsum",
    "dot",
    "fcumsum",
    "fdot",
    "fmean",
    "fnorm",
    "fstd",
    "fsum",
    "fvar",
    "logsumexp",
    "mean",
    "norm",
    "std",
    "sum",
    "var",
]

FUNCTIONS: dict[str, Callable[..., Any]]

def cumsum(
    x: Any,
    axis: SupportsIndex | Sequence[SupportsIndex] | None = None,
    *,
    exclusive: bool = False,
    reverse: bool = False,
    unit: str | Unit | None = None,
    variant: str = "binary64",
    chain: int | None = None,
    accumulator: str | None = None,
    dtype: npt.DTypeLike | Any = None,
    group: Any = None,
) -> Any:
    """:func:`tcu.cumsum` of shards that follow one another along an axis, in the ranks' order.

    Each element is the scan of its own shard, in binary64, plus the exact sum of
    everything before the shard, rounded once to binary64.  So the bits depend on
    where shards begin, and on nothing else; and errors do not grow from rank to
    rank.  Each rank sends 592 bytes for every row along the axis, and waits for
    them; the scan takes 8 bytes a number beside x and the result.  It is by the
    default variant alone.

    Parameters
    ----------
    x:
        This rank's shard, a PyTorch tensor, also empty; or a DTensor, whose device
        mesh says who has the rest.
    axis:
        The axis along which the shards follow one another.  None: the shards,
        flattened in C order, do; a DTensor must have one dimension then.
    exclusive, reverse, unit, variant, chain, accumulator, dtype:
        As in :func:`tcu.cumsum`.
    group:
        Process group; None: all ranks.  GPU tensors go through NCCL, CPU tensors
        through Gloo.

    Returns
    -------
    This rank's part, of x's shape (flattened for ``axis=None``), or a DTensor
    placed as x.

    Raises
    ------
    TcuError:
        What :func:`tcu.cumsum` refuses; a group that is not there; ranks that do
        not agree on dtype, operation, options, rows or version of tcu.  Of whole
        arrays on GPUs, which are not waited for, the first call of a kind waits and
        raises; later ones give NaN.
    """

def dot(
    x: Any,
    y: Any,
    axis: SupportsIndex | Sequence[SupportsIndex] | None = None,
    *,
    keepdims: bool = False,
    block: int | None = None,
    dtype: npt.DTypeLike | Any = None,
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """:func:`tcu.dot` over all ranks: each shard by the plan of its own length, the shards' totals exactly.

    The bits depend on which numbers form a shard; not on the ranks' order, the
    network, or how often it is run.  The totals are rounded to binary64 once,
    divided or rooted there, and rounded to ``dtype``.

    Parameters
    ----------
    x, y:
        This rank's shard, a PyTorch tensor, also empty; or a DTensor, whose device
        mesh says who has the rest.
    axis, keepdims:
        As in :func:`tcu.dot`; shards follow one another along these axes, and
        have the same rows.  A DTensor may be sharded along other axes, too.
    block, dtype:
        As in :func:`tcu.dot`.
    group:
        Process group; None: all ranks.  GPU tensors go through NCCL, CPU tensors
        through Gloo.
    async_op:
        Return a :class:`Pending` without waiting for the exchange.

    Returns
    -------
    A tensor on x's device, or a DTensor, replicated where shards were put
    together; the same on every rank.

    Raises
    ------
    TcuError:
        What :func:`tcu.dot` refuses; a group that is not there; ranks that do
        not agree on dtype, operation, options, rows or version of tcu.  Of whole
        arrays on GPUs, which are not waited for, the first call of a kind waits and
        raises; later ones give NaN.
    """

def fcumsum(
    x: Any,
    axis: SupportsIndex | Sequence[SupportsIndex] | None = None,
    *,
    exclusive: bool = False,
    reverse: bool = False,
    dtype: npt.DTypeLike | Any = None,
    group: Any = None,
) -> Any:
    """:func:`tcu.fcumsum` of shards that follow one another along an axis, in the ranks' order.

    Each element is rounded once from the exact sum of all before it, so neither
    where shards begin nor how many ranks there are leaves a trace.  Each rank sends
    592 bytes for every row along the axis, and waits for them.  Shards lie in the host's memory.

    Parameters
    ----------
    x:
        This rank's shard, a PyTorch tensor, also empty; or a DTensor, whose device
        mesh says who has the rest.
    axis:
        The axis along which the shards follow one another.  None: the shards,
        flattened in C order, do; a DTensor must have one dimension then.
    exclusive, reverse, dtype:
        As in :func:`tcu.fcumsum`.
    group:
        Process group; None: all ranks.  GPU tensors go through NCCL, CPU tensors
        through Gloo.

    Returns
    -------
    This rank's part, of x's shape (flattened for ``axis=None``), or a DTensor
    placed as x.

    Raises
    ------
    TcuError:
        What :func:`tcu.fcumsum` refuses; a group that is not there; ranks that do
        not agree on dtype, operation, options, rows or version of tcu.  Of whole
        arrays on GPUs, which are not waited for, the first call of a kind waits and
        raises; later ones give NaN.
    """

def fdot(
    x: Any,
    y: Any,
    axis: SupportsIndex | Sequence[SupportsIndex] | None = None,
    *,
    keepdims: bool = False,
    dtype: npt.DTypeLike | Any = None,
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """:func:`tcu.fdot` over all ranks, rounded once: one answer, however many ranks there are and whatever each has.

    Each rank sends and receives 1120 bytes, with ``axis`` for every row.
    inf and -inf together raise InvalidOperationError on the CPU and give NaN on
    GPUs.

    Parameters
    ----------
    x, y:
        This rank's shard, a PyTorch tensor, also empty; or a DTensor, whose device
        mesh says who has the rest.
    axis, keepdims:
        As in :func:`tcu.fdot`; shards follow one another along these axes, and
        have the same rows.  A DTensor may be sharded along other axes, too.
    dtype:
        As in :func:`tcu.fdot`.
    group:
        Process group; None: all ranks.  GPU tensors go through NCCL, CPU tensors
        through Gloo.
    async_op:
        Return a :class:`Pending` without waiting for the exchange.

    Returns
    -------
    A tensor on x's device, or a DTensor, replicated where shards were put
    together; the same on every rank.

    Raises
    ------
    TcuError:
        What :func:`tcu.fdot` refuses; a group that is not there; ranks that do
        not agree on dtype, operation, options, rows or version of tcu.  Of whole
        arrays on GPUs, which are not waited for, the first call of a kind waits and
        raises; later ones give NaN.
    """

def fmean(
    x: Any,
    axis: SupportsIndex | Sequence[SupportsIndex] | None = None,
    *,
    keepdims: bool = False,
    dtype: npt.DTypeLike | Any = None,
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """:func:`tcu.fmean` over all ranks, rounded once: one answer, however many ranks there are and whatever each has.

    Each rank sends and receives 592 bytes, with ``axis`` for every row.
    inf and -inf together raise InvalidOperationError on the CPU and give NaN on
    GPUs.

    Parameters
    ----------
    x:
        This rank's shard, a PyTorch tensor, also empty; or a DTensor, whose device
        mesh says who has the rest.
    axis, keepdims:
        As in :func:`tcu.fmean`; shards follow one another along these axes, and
        have the same rows.  A DTensor may be sharded along other axes, too.
    dtype:
        As in :func:`tcu.fmean`.
    group:
        Process group; None: all ranks.  GPU tensors go through NCCL, CPU tensors
        through Gloo.
    async_op:
        Return a :class:`Pending` without waiting for the exchange.

    Returns
    -------
    A tensor on x's device, or a DTensor, replicated where shards were put
    together; the same on every rank.

    Raises
    ------
    TcuError:
        What :func:`tcu.fmean` refuses; a group that is not there; ranks that do
        not agree on dtype, operation, options, rows or version of tcu.  Of whole
        arrays on GPUs, which are not waited for, the first call of a kind waits and
        raises; later ones give NaN.
    """

def fnorm(
    x: Any,
    axis: SupportsIndex | Sequence[SupportsIndex] | None = None,
    *,
    keepdims: bool = False,
    dtype: npt.DTypeLike | Any = None,
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """:func:`tcu.fnorm` over all ranks, rounded once: one answer, however many ranks there are and whatever each has.

    Each rank sends and receives 1120 bytes, with ``axis`` for every row.
    inf and -inf together raise InvalidOperationError on the CPU and give NaN on
    GPUs.

    Parameters
    ----------
    x:
        This rank's shard, a PyTorch tensor, also empty; or a DTensor, whose device
        mesh says who has the rest.
    axis, keepdims:
        As in :func:`tcu.fnorm`; shards follow one another along these axes, and
        have the same rows.  A DTensor may be sharded along other axes, too.
    dtype:
        As in :func:`tcu.fnorm`.
    group:
        Process group; None: all ranks.  GPU tensors go through NCCL, CPU tensors
        through Gloo.
    async_op:
        Return a :class:`Pending` without waiting for the exchange.

    Returns
    -------
    A tensor on x's device, or a DTensor, replicated where shards were put
    together; the same on every rank.

    Raises
    ------
    TcuError:
        What :func:`tcu.fnorm` refuses; a group that is not there; ranks that do
        not agree on dtype, operation, options, rows or version of tcu.  Of whole
        arrays on GPUs, which are not waited for, the first call of a kind waits and
        raises; later ones give NaN.
    """

def fstd(
    x: Any,
    axis: SupportsIndex | Sequence[SupportsIndex] | None = None,
    *,
    keepdims: bool = False,
    correction: float = 0.0,
    dtype: npt.DTypeLike | Any = None,
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """:func:`tcu.fstd` over all ranks, rounded once: one answer, however many ranks there are and whatever each has.

    Shards lie in the host's memory.
    Each rank sends and receives 1688 bytes, with ``axis`` for every row.

    Parameters
    ----------
    x:
        This rank's shard, a PyTorch tensor, also empty; or a DTensor, whose device
        mesh says who has the rest.
    axis, keepdims:
        As in :func:`tcu.fstd`; shards follow one another along these axes, and
        have the same rows.  A DTensor may be sharded along other axes, too.
    correction, dtype:
        As in :func:`tcu.fstd`.
    group:
        Process group; None: all ranks.  GPU tensors go through NCCL, CPU tensors
        through Gloo.
    async_op:
        Return a :class:`Pending` without waiting for the exchange.

    Returns
    -------
    A tensor on x's device, or a DTensor, replicated where shards were put
    together; the same on every rank.

    Raises
    ------
    TcuError:
        What :func:`tcu.fstd` refuses; a group that is not there; ranks that do
        not agree on dtype, operation, options, rows or version of tcu.  Of whole
        arrays on GPUs, which are not waited for, the first call of a kind waits and
        raises; later ones give NaN.
    """

def fsum(
    x: Any,
    axis: SupportsIndex | Sequence[SupportsIndex] | None = None,
    *,
    keepdims: bool = False,
    dtype: npt.DTypeLike | Any = None,
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """:func:`tcu.fsum` over all ranks, rounded once: one answer, however many ranks there are and whatever each has.

    Each rank sends and receives 592 bytes, with ``axis`` for every row.
    inf and -inf together raise InvalidOperationError on the CPU and give NaN on
    GPUs.

    Parameters
    ----------
    x:
        This rank's shard, a PyTorch tensor, also empty; or a DTensor, whose device
        mesh says who has the rest.
    axis, keepdims:
        As in :func:`tcu.fsum`; shards follow one another along these axes, and
        have the same rows.  A DTensor may be sharded along other axes, too.
    dtype:
        As in :func:`tcu.fsum`.
    group:
        Process group; None: all ranks.  GPU tensors go through NCCL, CPU tensors
        through Gloo.
    async_op:
        Return a :class:`Pending` without waiting for the exchange.

    Returns
    -------
    A tensor on x's device, or a DTensor, replicated where shards were put
    together; the same on every rank.

    Raises
    ------
    TcuError:
        What :func:`tcu.fsum` refuses; a group that is not there; ranks that do
        not agree on dtype, operation, options, rows or version of tcu.  Of whole
        arrays on GPUs, which are not waited for, the first call of a kind waits and
        raises; later ones give NaN.
    """

def fvar(
    x: Any,
    axis: SupportsIndex | Sequence[SupportsIndex] | None = None,
    *,
    keepdims: bool = False,
    correction: float = 0.0,
    dtype: npt.DTypeLike | Any = None,
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """:func:`tcu.fvar` over all ranks, rounded once: one answer, however many ranks there are and whatever each has.

    Shards lie in the host's memory.
    Each rank sends and receives 1688 bytes, with ``axis`` for every row.

    Parameters
    ----------
    x:
        This rank's shard, a PyTorch tensor, also empty; or a DTensor, whose device
        mesh says who has the rest.
    axis, keepdims:
        As in :func:`tcu.fvar`; shards follow one another along these axes, and
        have the same rows.  A DTensor may be sharded along other axes, too.
    correction, dtype:
        As in :func:`tcu.fvar`.
    group:
        Process group; None: all ranks.  GPU tensors go through NCCL, CPU tensors
        through Gloo.
    async_op:
        Return a :class:`Pending` without waiting for the exchange.

    Returns
    -------
    A tensor on x's device, or a DTensor, replicated where shards were put
    together; the same on every rank.

    Raises
    ------
    TcuError:
        What :func:`tcu.fvar` refuses; a group that is not there; ranks that do
        not agree on dtype, operation, options, rows or version of tcu.  Of whole
        arrays on GPUs, which are not waited for, the first call of a kind waits and
        raises; later ones give NaN.
    """

def logsumexp(
    x: Any,
    axis: SupportsIndex | Sequence[SupportsIndex] | None = None,
    *,
    keepdims: bool = False,
    dtype: npt.DTypeLike | Any = None,
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """:func:`tcu.logsumexp` over all ranks: the bits of the whole array, however many ranks there are and whatever each has.

    First the largest numbers are exchanged, then the exact sums of exponentials: 24 bytes (40 of float64) in all, with
    ``axis`` for every row.  Shards lie in the host's memory.

    Parameters
    ----------
    x:
        This rank's shard, a PyTorch tensor, also empty; or a DTensor, whose device
        mesh says who has the rest.
    axis, keepdims:
        As in :func:`tcu.logsumexp`; shards follow one another along these axes, and
        have the same rows.  A DTensor may be sharded along other axes, too.
    dtype:
        As in :func:`tcu.logsumexp`.
    group:
        Process group; None: all ranks.  GPU tensors go through NCCL, CPU tensors
        through Gloo.
    async_op:
        Return a :class:`Pending` without waiting for the exchange.

    Returns
    -------
    A tensor on x's device, or a DTensor, replicated where shards were put
    together; the same on every rank.

    Raises
    ------
    TcuError:
        What :func:`tcu.logsumexp` refuses; a group that is not there; ranks that do
        not agree on dtype, operation, options, rows or version of tcu.  Of whole
        arrays on GPUs, which are not waited for, the first call of a kind waits and
        raises; later ones give NaN.
    """

def mean(
    x: Any,
    axis: SupportsIndex | Sequence[SupportsIndex] | None = None,
    *,
    keepdims: bool = False,
    unit: str | Unit | None = None,
    variant: str = "binary64",
    chain: int | None = None,
    block: int | None = None,
    accumulator: str | None = None,
    fraction: float | None = None,
    dtype: npt.DTypeLike | Any = None,
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """:func:`tcu.mean` over all ranks: each shard by the plan of its own length, the shards' totals exactly.

    The bits depend on which numbers form a shard; not on the ranks' order, the
    network, or how often it is run.  The totals are rounded to binary64 once,
    divided or rooted there, and rounded to ``dtype``.

    Parameters
    ----------
    x:
        This rank's shard, a PyTorch tensor, also empty; or a DTensor, whose device
        mesh says who has the rest.
    axis, keepdims:
        As in :func:`tcu.mean`; shards follow one another along these axes, and
        have the same rows.  A DTensor may be sharded along other axes, too.
    unit, variant, chain, block, accumulator, fraction, dtype:
        As in :func:`tcu.mean`.
    group:
        Process group; None: all ranks.  GPU tensors go through NCCL, CPU tensors
        through Gloo.
    async_op:
        Return a :class:`Pending` without waiting for the exchange.

    Returns
    -------
    A tensor on x's device, or a DTensor, replicated where shards were put
    together; the same on every rank.

    Raises
    ------
    TcuError:
        What :func:`tcu.mean` refuses; a group that is not there; ranks that do
        not agree on dtype, operation, options, rows or version of tcu.  Of whole
        arrays on GPUs, which are not waited for, the first call of a kind waits and
        raises; later ones give NaN.
    """

def norm(
    x: Any,
    axis: SupportsIndex | Sequence[SupportsIndex] | None = None,
    *,
    keepdims: bool = False,
    block: int | None = None,
    dtype: npt.DTypeLike | Any = None,
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """:func:`tcu.norm` over all ranks: each shard by the plan of its own length, the shards' totals exactly.

    The bits depend on which numbers form a shard; not on the ranks' order, the
    network, or how often it is run.  The totals are rounded to binary64 once,
    divided or rooted there, and rounded to ``dtype``.

    Parameters
    ----------
    x:
        This rank's shard, a PyTorch tensor, also empty; or a DTensor, whose device
        mesh says who has the rest.
    axis, keepdims:
        As in :func:`tcu.norm`; shards follow one another along these axes, and
        have the same rows.  A DTensor may be sharded along other axes, too.
    block, dtype:
        As in :func:`tcu.norm`.
    group:
        Process group; None: all ranks.  GPU tensors go through NCCL, CPU tensors
        through Gloo.
    async_op:
        Return a :class:`Pending` without waiting for the exchange.

    Returns
    -------
    A tensor on x's device, or a DTensor, replicated where shards were put
    together; the same on every rank.

    Raises
    ------
    TcuError:
        What :func:`tcu.norm` refuses; a group that is not there; ranks that do
        not agree on dtype, operation, options, rows or version of tcu.  Of whole
        arrays on GPUs, which are not waited for, the first call of a kind waits and
        raises; later ones give NaN.
    """

def std(
    x: Any,
    axis: SupportsIndex | Sequence[SupportsIndex] | None = None,
    *,
    keepdims: bool = False,
    correction: float = 0.0,
    block: int | None = None,
    dtype: npt.DTypeLike | Any = None,
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """:func:`tcu.std` over all ranks: the moments of each shard by the plan of its own length, merged exactly.

    The bits depend on which numbers form a shard; not on the ranks' order, the
    network, or how often it is run.  The variance is rounded once, its root too;
    that of one rank alone has the bits of :func:`tcu.std`.  Shards lie in the
    host's memory.
    Each rank sends and receives 1688 bytes, with ``axis`` for every row.

    Parameters
    ----------
    x:
        This rank's shard, a PyTorch tensor, also empty; or a DTensor, whose device
        mesh says who has the rest.
    axis, keepdims:
        As in :func:`tcu.std`; shards follow one another along these axes, and
        have the same rows.  A DTensor may be sharded along other axes, too.
    correction, block, dtype:
        As in :func:`tcu.std`.
    group:
        Process group; None: all ranks.  GPU tensors go through NCCL, CPU tensors
        through Gloo.
    async_op:
        Return a :class:`Pending` without waiting for the exchange.

    Returns
    -------
    A tensor on x's device, or a DTensor, replicated where shards were put
    together; the same on every rank.

    Raises
    ------
    TcuError:
        What :func:`tcu.std` refuses; a group that is not there; ranks that do
        not agree on dtype, operation, options, rows or version of tcu.  Of whole
        arrays on GPUs, which are not waited for, the first call of a kind waits and
        raises; later ones give NaN.
    """

def sum(
    x: Any,
    axis: SupportsIndex | Sequence[SupportsIndex] | None = None,
    *,
    keepdims: bool = False,
    unit: str | Unit | None = None,
    variant: str = "binary64",
    chain: int | None = None,
    block: int | None = None,
    accumulator: str | None = None,
    fraction: float | None = None,
    dtype: npt.DTypeLike | Any = None,
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """:func:`tcu.sum` over all ranks: each shard by the plan of its own length, the shards' totals exactly.

    The bits depend on which numbers form a shard; not on the ranks' order, the
    network, or how often it is run.  The totals are rounded to binary64 once,
    divided or rooted there, and rounded to ``dtype``.

    Parameters
    ----------
    x:
        This rank's shard, a PyTorch tensor, also empty; or a DTensor, whose device
        mesh says who has the rest.
    axis, keepdims:
        As in :func:`tcu.sum`; shards follow one another along these axes, and
        have the same rows.  A DTensor may be sharded along other axes, too.
    unit, variant, chain, block, accumulator, fraction, dtype:
        As in :func:`tcu.sum`.
    group:
        Process group; None: all ranks.  GPU tensors go through NCCL, CPU tensors
        through Gloo.
    async_op:
        Return a :class:`Pending` without waiting for the exchange.

    Returns
    -------
    A tensor on x's device, or a DTensor, replicated where shards were put
    together; the same on every rank.

    Raises
    ------
    TcuError:
        What :func:`tcu.sum` refuses; a group that is not there; ranks that do
        not agree on dtype, operation, options, rows or version of tcu.  Of whole
        arrays on GPUs, which are not waited for, the first call of a kind waits and
        raises; later ones give NaN.
    """

def var(
    x: Any,
    axis: SupportsIndex | Sequence[SupportsIndex] | None = None,
    *,
    keepdims: bool = False,
    correction: float = 0.0,
    block: int | None = None,
    dtype: npt.DTypeLike | Any = None,
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """:func:`tcu.var` over all ranks: the moments of each shard by the plan of its own length, merged exactly.

    The bits depend on which numbers form a shard; not on the ranks' order, the
    network, or how often it is run.  The variance is rounded once, its root too;
    that of one rank alone has the bits of :func:`tcu.var`.  Shards lie in the
    host's memory.
    Each rank sends and receives 1688 bytes, with ``axis`` for every row.

    Parameters
    ----------
    x:
        This rank's shard, a PyTorch tensor, also empty; or a DTensor, whose device
        mesh says who has the rest.
    axis, keepdims:
        As in :func:`tcu.var`; shards follow one another along these axes, and
        have the same rows.  A DTensor may be sharded along other axes, too.
    correction, block, dtype:
        As in :func:`tcu.var`.
    group:
        Process group; None: all ranks.  GPU tensors go through NCCL, CPU tensors
        through Gloo.
    async_op:
        Return a :class:`Pending` without waiting for the exchange.

    Returns
    -------
    A tensor on x's device, or a DTensor, replicated where shards were put
    together; the same on every rank.

    Raises
    ------
    TcuError:
        What :func:`tcu.var` refuses; a group that is not there; ranks that do
        not agree on dtype, operation, options, rows or version of tcu.  Of whole
        arrays on GPUs, which are not waited for, the first call of a kind waits and
        raises; later ones give NaN.
    """
