"""``tcu.distributed.cross_entropy``: losses of rows whose classes are spread over the ranks."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from tcu import version
from tcu.distributed.agreement import agree, disagreement, gathered
from tcu.distributed.places import Shards, shards_of
from tcu.distributed.reductions import largest_of_ranks, logsumexp_of
from tcu.engines.host.planned import encoded
from tcu.errors import ParameterError
from tcu.formats.format import format_of
from tcu.formats.tensor import host_view, is_tensor, tensor_of
from tcu.model import exponentials
from tcu.model.cross_entropy import deviation_words, losses_of, mean_deviations
from tcu.model.ieee_environment import ieee
from tcu.ops import LOGSUMEXP, Call
from tcu.ops.layout import Along, row_axis
from tcu.surfaces.classes import check_classes, check_target, classes_of
from tcu.surfaces.cross_entropy import Reduction, reduced, weights_of

__all__ = ["cross_entropy"]


def cross_entropy(
    x: Any,
    target: Any,
    *,
    axis: int = -1,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
    group: Any = None,
) -> Any:
    """:func:`tcu.cross_entropy` of rows whose classes are spread over the ranks: the same bits for any number of ranks.

    First the largest numbers of rows are exchanged, with label smoothing also the smallest, then the exact sums of exponentials and
    what the targets' ranks have: 32 bytes (48 of float64) for each row, with label smoothing 24 (40) more.  Gradients flow through each rank's own shard, without an exchange.

    Parameters
    ----------
    x:
        This rank's shard, a PyTorch tensor in the host's memory: its classes follow those of the ranks before it.
    target:
        The classes, counted over all ranks; the same on every rank.
    axis, label_smoothing, z_loss, ignore_index, reduction:
        As in :func:`tcu.cross_entropy`.
    group:
        Process group; None: all ranks.

    Returns
    -------
    A tensor, the same on every rank.

    Raises
    ------
    TcuError:
        What :func:`tcu.cross_entropy` refuses; ranks that do not agree on dtype, rows, options or version of tcu.
    """
    weights = weights_of(label_smoothing, z_loss, ignore_index, reduction)
    torch = sys.modules.get("torch")
    plain = x.detach() if is_tensor(x) else x
    call = Call(LOGSUMEXP, (plain,), Along(axis), LOGSUMEXP.values({}))
    shards = shards_of(call, group)
    assert torch is not None
    if not is_tensor(target):
        raise ParameterError(
            f"target is a {type(target).__name__}, x a tensor: pass torch.from_numpy(target)"
        )
    host_view(plain)
    axis = row_axis(Along(axis), x.dim())
    check_target(x, target, axis)
    target = classes_of(target, weights.ignore_index)
    said = f"cross_entropy of {x.dtype}, rows {tuple(target.shape)}, {label_smoothing=}, {z_loss=}, {ignore_index=}"
    description = f"tcu {version.__version__}, {said}"
    if not agree(shards, description):
        raise disagreement(shards, description)
    (over,) = shards.groups or (None,)
    counts = [int(each[0]) for each in gathered(np.array([x.shape[axis]]), over)]
    first = sum(counts[: torch.distributed.get_rank(over)])
    check_classes(target, sum(counts), weights.ignore_index)
    counted, fits = target != weights.ignore_index, (target >= 0) & (target < sum(counts))
    place = torch.where(counted & fits, target, -1) - first
    found, means, totals = _parts()(x, place, axis, sum(counts), bool(label_smoothing), shards)
    losses = losses_of(torch, found, means, totals, counted, fits, weights)
    return reduced(losses, counted, reduction)


@ieee
def _forward(x: Any, place: Any, axis: int, count: int, smooth: bool, shards: Shards) -> tuple[Any, ...]:
    """(the targets' logarithms, the means of all classes' or zeros, log-sum-exps, this rank's softmax) of rows."""
    torch = sys.modules["torch"]
    lines = np.moveaxis(host_view(x.detach()), axis, -1)
    shape, work = lines.shape[:-1], np.float64 if x.dtype == torch.float64 else np.float32
    rows = np.require(lines.reshape(place.numel(), x.shape[axis]), work, ["C", "A"])
    places = place.reshape(-1).numpy()
    top = largest_of_ranks(rows, shards.groups)
    scaled, words = exponentials.parts_of(rows, top)
    own = (places >= 0) & (places < rows.shape[1])
    code = np.int64 if work is np.float64 else np.int32
    with np.errstate(all="ignore"):
        deviations = np.zeros(len(rows), work)
        deviations[own] = rows[own, places[own]] - top[own]
        parts = [words, deviations.view(code).astype(np.int64)[:, None]]
        if smooth:
            largest = top + largest_of_ranks(-rows, shards.groups)
            parts.append(deviation_words(rows, top, largest))
        sent = torch.from_numpy(np.concatenate(parts, axis=1))
        for group in shards.groups:
            torch.distributed.all_reduce(sent, group=group)
        size = words.shape[1]
        words, deviations = sent.numpy()[:, :size], sent.numpy()[:, size].astype(code).view(work)
        totals = exponentials.total_of(words, top)
        log_sums = exponentials.logarithms_of(totals, work)
        found, means = deviations - log_sums.astype(work), np.zeros(len(rows), work)
        if smooth:
            means = (mean_deviations(sent.numpy()[:, size + 1 :], largest, count) - log_sums).astype(work)
        sums = logsumexp_of(words, top, work)
        scaled *= (1 / totals).astype(work)[:, None]
    form = format_of(work)
    results = [
        tensor_of(encoded(np.asarray(each), form).view(work).reshape(shape)) for each in (found, means, sums)
    ]
    return *results, torch.from_numpy(scaled)


def _parts() -> Any:
    """The function of autograd, made where PyTorch has been met."""
    if _made:
        return _made[0].apply
    torch = sys.modules["torch"]

    class Parts(torch.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any, place: Any, axis: int, count: int, smooth: bool, shards: Shards) -> Any:
            *parts, share = _forward(x, place, axis, count, smooth, shards)
            ctx.save_for_backward(place, share)
            ctx.axis, ctx.count, ctx.dtype = axis, count, x.dtype
            return tuple(parts)

        @staticmethod
        @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator]
        def backward(ctx: Any, *gradients: Any) -> Any:
            place, share = ctx.saved_tensors
            found, mean, total = (each.reshape(-1, 1) for each in gradients)
            result = share * -(found + mean - total) + mean / ctx.count
            places = place.reshape(-1)
            (own,) = torch.where((places >= 0) & (places < share.shape[1]))
            result[own, places[own]] += found[own, 0]
            rows = result.to(ctx.dtype).reshape(*place.shape, share.shape[1])
            return rows.movedim(-1, ctx.axis), None, None, None, None, None

    _made.append(Parts)
    return Parts.apply


_made: list[Any] = []
