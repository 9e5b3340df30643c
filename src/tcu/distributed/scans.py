"""``tcu.distributed.cumsum``: every rank scans its shard, and adds what the ranks before it have, exactly."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tcu import version
from tcu.distributed.places import Shards, backends_of, shards_of
from tcu.distributed.reductions import disagreement, element_of, numpy_dtype, refusal
from tcu.distributed.words import WORDS, share_of_words, signature_of, words_of
from tcu.errors import ParameterError
from tcu.formats.tensor import host_view, tensor_of
from tcu.ops import FSUM
from tcu.ops.layout import reduced_axes
from tcu.ops.result import result_format
from tcu.surfaces.carries import carried, carry_of, local_scan
from tcu.surfaces.shares import row_shares

__all__ = ["cumsum"]


def cumsum(
    x: Any, axis: int | None = None, *, group: Any = None, exclusive: bool = False, reverse: bool = False,
    dtype: Any = None,
) -> Any:  # fmt: skip
    """The cumulative sums along an axis of an array whose shards follow one another along it, in the ranks' order.

    Parameters
    ----------
    x:
        This rank's shard, a PyTorch tensor; or a DTensor, which may be
        sharded along other axes, too.
    axis:
        The axis along which the shards follow one another.  None: the shards,
        flattened in C order, do; a DTensor must have one dimension then.
    group:
        Process group; None: all ranks.
    exclusive, reverse, dtype:
        As :func:`tcu.cumsum`; the same on all ranks.

    Returns
    -------
    This rank's part of the result, of x's shape (flattened for ``axis=None``),
    or a DTensor placed as x.  Each element is the scan of its own shard, in
    binary64, plus the exact sum of everything before the shard, rounded once
    to binary64.  So the bits depend on where shards begin, and on nothing
    else; and errors do not grow from rank to rank.

    Each rank sends 592 bytes for every row along the axis, and waits for
    them; the scan takes 8 bytes a number beside x and the result.

    Raises
    ------
    ParameterError, DtypeError:
        As :func:`tcu.distributed.fsum`; shards that do not fit together.
    """
    torch = sys.modules.get("torch")
    module = sys.modules.get("torch.distributed.tensor")
    is_dtensor = module is not None and isinstance(x, module.DTensor)
    shards = shards_of((x,), group)
    local = shards.local[0]
    if axis is None:
        if is_dtensor and x.dim() != 1:
            raise ParameterError(f"axis=None of a DTensor with {x.dim()} dimensions: name the axis")
        local, axis = local.reshape(-1), 0
    (axis,) = reduced_axes(axis, local.dim())
    if is_dtensor:
        shards = _along(shards, x, axis)
    try:
        target = result_format(element_of(shards), numpy_dtype(dtype))
    except Exception as error:
        if not _agree(shards, refusal(error)):  # the others wait for that, and then ask
            disagreement(shards, refusal(error))
        raise
    kept = tuple(length for i, length in enumerate(local.shape) if i != axis)
    description = (
        f"tcu {version.__version__}, cumsum of {str(local.dtype).removeprefix('torch.')} to {target.dtype}, rows {kept}, "
        f"exclusive={exclusive}, reverse={reverse}"
    )
    given = local if local.is_cuda else host_view(local)
    carry = _carry(given, axis, shards, description, reverse)
    result = carried(local_scan(given, axis, exclusive=exclusive, reverse=reverse), carry, axis, target)
    if not local.is_cuda:
        result = tensor_of(result)
    assert torch is not None
    if is_dtensor:
        assert module is not None
        return module.DTensor.from_local(
            result, x.device_mesh, x.placements, run_check=False, shape=x.shape, stride=x.stride()
        )
    return result


def _along(shards: Shards, x: Any, axis: int) -> Shards:
    """The groups of the mesh along which shards follow one another on that axis; others hold other rows."""
    mesh = x.device_mesh
    found = [i for i, placement in enumerate(x.placements) if placement.is_shard(axis)]
    if len(found) > 1:
        raise ParameterError(
            f"x is placed as {x.placements}, so axis {axis} is cut by two dimensions of the mesh: "
            "redistribute it to one"
        )
    groups = tuple(mesh.get_group(i) for i in found)
    return Shards(shards.local, groups, mesh.size(found[0]) if found else 1, shards.wrap)


def _carry(given: Any, axis: int, shards: Shards, description: str, reverse: bool) -> npt.NDArray[np.float64]:
    """What the ranks before this one have, for every row."""
    kept = tuple(length for i, length in enumerate(given.shape) if i != axis)
    if not shards.groups:
        return np.zeros(kept)
    (group,) = shards.groups
    distributed = sys.modules["torch"].distributed
    if not _agree(shards, description):
        raise disagreement(shards, description)
    shares = row_shares(FSUM, given, (axis,), (None,)).squeeze(axis)
    words = np.zeros((shares.size, WORDS[False]), np.int64)
    for i, share in enumerate(shares.flat):
        words[i] = words_of(share, False, 0)
    rank = distributed.get_rank(group)
    everybody = _gathered(words, group)
    before = everybody[rank + 1 :] if reverse else everybody[:rank]
    total = sum(before, np.zeros_like(words))
    return np.array([carry_of(share_of_words(row, False).tally) for row in total]).reshape(kept)


def _agree(shards: Shards, description: str) -> bool:
    """Whether all ranks say the same."""
    signature = signature_of(description)
    return all(
        int(each[0]) == signature
        for group in shards.groups
        for each in _gathered(np.array([signature]), group)
    )


def _gathered(words: npt.NDArray[np.int64], group: Any) -> Sequence[npt.NDArray[np.int64]]:
    """The words of every rank, in order."""
    torch = sys.modules["torch"]
    device = "cpu" if "cpu" in backends_of(group) else torch.device("cuda", torch.cuda.current_device())
    mine = torch.from_numpy(words).to(device)
    found = [torch.empty_like(mine) for _ in range(torch.distributed.get_world_size(group))]
    torch.distributed.all_gather(found, mine, group=group)
    return [each.cpu().numpy() for each in found]
