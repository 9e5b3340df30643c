"""Where a tensor's shards lie, and through what their ranks exchange words."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tcu.errors import ParameterError
from tcu.formats.tensor import is_tensor

__all__ = ["Shards", "backends_of", "shards_of"]


@dataclass(frozen=True)
class Shards:
    """The shards of one rank, and who has the others."""

    local: tuple[Any, ...]
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


def shards_of(arrays: Sequence[Any], group: Any) -> Shards:
    """The shards of tensors or DTensors, whatever they hold: the other ranks can be told of what is refused later.

    Raises ParameterError, which says what to pass instead.
    """
    torch = sys.modules.get("torch")
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
        found = _of_dtensors(arrays, group, module)
    else:
        found = _of_tensors(arrays, group, distributed)
    _checkbackends_of(found)
    return found


def _of_tensors(arrays: Sequence[Any], group: Any, distributed: Any) -> Shards:
    group = distributed.group.WORLD if group is None else group
    if distributed.get_rank(group) < 0:
        raise ParameterError("this rank is not in the group: call only on the group's ranks")
    return Shards(tuple(arrays), (group,), distributed.get_world_size(group), lambda tensor: tensor)


def _of_dtensors(arrays: Sequence[Any], group: Any, module: Any) -> Shards:
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
    mesh = first.device_mesh
    if any(placement.is_partial() for placement in first.placements):
        raise ParameterError(
            f"x is placed as {first.placements}, so its numbers are not added up yet: "
            "redistribute it to Shard or Replicate first"
        )
    # Where it is replicated every rank has the same numbers, which count once.
    axes = [i for i, placement in enumerate(first.placements) if placement.is_shard()]
    ranks = 1
    for axis in axes:
        ranks *= mesh.size(axis)

    def wrap(tensor: Any) -> Any:
        return module.DTensor.from_local(tensor, mesh, [module.Replicate()] * mesh.ndim, run_check=False)

    local = tuple(x.to_local() for x in arrays)
    return Shards(local, tuple(mesh.get_group(axis) for axis in axes), ranks, wrap)


def backends_of(group: Any) -> dict[str, str]:
    """Backend by kind of device, such as {"cpu": "gloo", "cuda": "nccl"}."""
    config = str(sys.modules["torch"].distributed.get_backend_config(group))
    return dict(part.split(":", 1) for part in config.split(",") if ":" in part)


def _checkbackends_of(shards: Shards) -> None:
    for group in shards.groups:
        backends = backends_of(group)
        if not shards.on_gpu and "cpu" not in backends:
            raise ParameterError(
                f"x is on {shards.local[0].device}, and the group exchanges {', '.join(backends)} tensors only: move "
                "x to the GPU, or initialize with backend='cpu:gloo,cuda:nccl'"
            )
