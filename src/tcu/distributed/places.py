"""Where a tensor's shards lie, and through what their ranks exchange words."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tcu.errors import ParameterError
from tcu.formats.tensor import is_tensor
from tcu.ops.layout import Along, Axes
from tcu.ops.operation import Call

__all__ = ["Shards", "backends_of", "shards_of"]


@dataclass(frozen=True)
class Shards:
    """The shards of one rank, and who has the others."""

    local: tuple[Any, ...]
    axes: Axes
    """Of the shards: those along which they follow one another, and what is left."""
    groups: tuple[Any, ...]
    """Process groups, over each of which the words are added up; none where this rank has everything."""
    ranks: int
    wrap: Callable[[Any], Any]
    """From a tensor to what the caller gets."""

    @property
    def on_gpu(self) -> bool:
        """Whether words are exchanged from GPU to GPU."""
        return self.local[0].is_cuda and all(
            backends_of(group).get("cuda") == "nccl" for group in self.groups
        )


def shards_of(call: Call, group: Any) -> Shards:
    """The shards of tensors or DTensors, whatever they hold: the other ranks can be told of what is refused later.

    Raises ParameterError, which says what to pass instead.
    """
    torch, arrays = sys.modules.get("torch"), call.arrays
    if torch is None or not all(is_tensor(x) for x in arrays):
        kinds = " and ".join(f"{type(x).__module__.partition('.')[0]}.{type(x).__name__}" for x in arrays)
        raise ParameterError(
            f"tcu.distributed takes PyTorch tensors, not {kinds}: pass torch.from_numpy(x) or torch.from_dlpack(x)"
        )
    if any(x.requires_grad for x in arrays) and torch.is_grad_enabled():
        raise ParameterError(
            "x requires grad, and no gradient goes through the exchange: pass x.detach(), or call under "
            "torch.no_grad()"
        )
    distributed = torch.distributed
    if not (distributed.is_available() and distributed.is_initialized()):
        raise ParameterError(
            "torch.distributed is not initialized: call torch.distributed.init_process_group, under torchrun"
        )
    module = sys.modules.get("torch.distributed.tensor")
    if module is not None and any(isinstance(x, module.DTensor) for x in arrays):
        found = _of_dtensors(call, group, module)
    else:
        found = _of_tensors(call, group, distributed)
    _check_backends(found)
    return found


def _of_tensors(call: Call, group: Any, distributed: Any) -> Shards:
    group = distributed.group.WORLD if group is None else group
    if distributed.get_rank(group) < 0:
        raise ParameterError("this rank is not in the group: call only on the group's ranks")
    local, axes = _in_line(call, call.arrays)
    return Shards(local, axes, (group,), distributed.get_world_size(group), lambda tensor: tensor)


def _in_line(call: Call, local: tuple[Any, ...]) -> tuple[tuple[Any, ...], Axes]:
    """The shards and their axes; those that are scanned through all elements as the lines that they are."""
    layout: Any = call.layout
    if call.operation.kind == "scan" and layout.axis is None:
        local, layout = tuple(x.reshape(-1) for x in local), Along(0)
    return local, Axes.of(layout, tuple(local[0].shape))


def _of_dtensors(call: Call, group: Any, module: Any) -> Shards:
    arrays, scan = call.arrays, call.operation.kind == "scan"
    if group is not None:
        raise ParameterError("a DTensor brings its own device mesh: leave group out")
    first = arrays[0]
    if not all(isinstance(x, module.DTensor) for x in arrays):
        raise ParameterError("x and y are a tensor and a DTensor: distribute both, with distribute_tensor")
    for x in arrays[1:]:
        if (x.device_mesh, x.placements) != (first.device_mesh, first.placements):
            raise ParameterError(
                f"x is placed as {first.placements} and y as {x.placements}: redistribute y as x"
            )
    mesh, placements = first.device_mesh, first.placements
    if any(placement.is_partial() for placement in placements):
        raise ParameterError(
            f"x is placed as {placements}, so its numbers are not added up yet: "
            "redistribute it to Shard or Replicate first"
        )
    if scan and call.layout.axis is None and first.dim() != 1:  # type: ignore[union-attr]
        raise ParameterError(f"axis=None of a DTensor with {first.dim()} dimensions: name the axis")
    local, axes = _in_line(call, tuple(x.to_local() for x in arrays))
    # Where it is replicated every rank has the same numbers, which count once; along other axes lie other rows.
    cut = [i for i, each in enumerate(placements) if any(map(each.is_shard, axes.reduced))]
    if scan and len(cut) > 1:
        raise ParameterError(
            f"x is placed as {placements}, so axis {axes.reduced[0]} is cut by two dimensions of the mesh: "
            "redistribute it to one"
        )
    ranks = 1
    for i in cut:
        ranks *= mesh.size(i)
    torch = sys.modules["torch"]
    like = first
    if not scan:
        shape = Axes.of(call.layout, tuple(first.shape)).shape  # type: ignore[arg-type]
        like = torch.empty(shape, device="meta")
        same = len(shape) == first.dim()  # keepdims
        placements = [
            module.Replicate() if i in cut or not each.is_shard()
            else module.Shard(each.dim if same else axes.kept.index(each.dim))
            for i, each in enumerate(placements)
        ]  # fmt: skip

    def wrap(tensor: Any) -> Any:
        return module.DTensor.from_local(
            tensor, mesh, placements, run_check=False, shape=like.shape, stride=like.stride()
        )

    return Shards(local, axes, tuple(mesh.get_group(i) for i in cut), ranks, wrap)


def backends_of(group: Any) -> dict[str, str]:
    """Backend by kind of device, such as {"cpu": "gloo", "cuda": "nccl"}."""
    config = str(sys.modules["torch"].distributed.get_backend_config(group))
    return dict(part.split(":", 1) for part in config.split(",") if ":" in part)


def _check_backends(shards: Shards) -> None:
    for group in shards.groups:
        backends = backends_of(group)
        if not shards.on_gpu and "cpu" not in backends:
            raise ParameterError(
                f"x is on {shards.local[0].device}, and the group exchanges {', '.join(backends)} tensors only: move "
                "x to the GPU, or initialize with backend='cpu:gloo,cuda:nccl'"
            )
