"""Contract: sums by index over ranks have the bits of the whole array's, however many ranks there are and whatever each has.

torchrun starts 2 and 4 processes on Gloo, which form groups of 1 to 4 ranks; places are dealt out in any order, some ranks
have none.  What one rank refuses, and what they do not agree on, all hear of.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from bits import same
from numbers_of_all_kinds import draw
from ranks import check_ranks, group_sizes, run_rank

import tcu
from tcu.errors import DtypeError, InvalidOperationError, ParameterError, ShapeError, TcuError
from tcu.formats.tensor import tensor_of

N, SLOTS = 300, 11


@pytest.mark.slow(1)
@pytest.mark.parametrize("ranks", [pytest.param(2, marks=pytest.mark.some(0)), 4])
def test_any_number_of_ranks(ranks: int, request: pytest.FixtureRequest) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)
    check_ranks(__file__, ranks, *["--all-cases"] * request.config.getoption("--all-cases"))


def plain(x: Any) -> Any:
    return x.contiguous()


def check_group(torch: Any, group: Any, rank: int, ranks: int) -> None:
    rng = np.random.default_rng(ranks)  # the same on all
    order = torch.from_numpy(rng.permutation(N))
    edges = [0, *np.sort(rng.integers(0, N + 1, ranks - 1)).tolist(), N]
    own = order[edges[rank] : edges[rank + 1]]
    index = torch.from_numpy(rng.integers(-SLOTS, SLOTS, N))
    over = tcu.distributed
    for dtype in ("float16", "bfloat16", "float32", "float64"):
        for kind in ("finite", "cancelling", "special", "subnormal", "normal"):
            with np.errstate(all="ignore"):
                x = tensor_of(draw(rng, 4 * N, tcu.formats.get_format(dtype).dtype, kind).reshape(N, 2, 2))
            for name in ("index_sum", "index_mean"):
                try:
                    wanted = getattr(tcu, name)(x, index, SLOTS)
                except InvalidOperationError as error:
                    with pytest.raises(InvalidOperationError, match=str(error)[:20]):
                        getattr(over, name)(x[own], index[own], SLOTS, group=group)
                    continue
                found = getattr(over, name)(x[own], index[own], SLOTS, group=group)
                same(plain(found), plain(wanted), name, dtype, kind)
    x = torch.randn((3, N), generator=torch.Generator().manual_seed(1))
    part = x[:, own]
    for weights in (None, x[0], x):
        factors = None if weights is None else weights[..., own]
        for options in ({}, {"dtype": torch.float64}):
            found = over.index_sum(part, index[own], SLOTS, axis=1, weights=factors, group=group, **options)
            same(plain(found), plain(tcu.index_sum(x, index, SLOTS, axis=-1, weights=weights, **options)))
    places = index % SLOTS
    for size in (None, 20):
        same(over.bincount(places[own], size=size, group=group), tcu.bincount(places, size=size))
        same(over.bincount(places[own], x[0, own], size, group=group), tcu.bincount(places, x[0], size))
    # A place that one rank leaves out is seen by all.
    kept = slice(int(edges[rank] < edges[rank + 1] == N), None)
    with pytest.raises(AssertionError):
        same(
            over.bincount(places[own][kept], x[0, own][kept], SLOTS, group=group),
            tcu.bincount(places, x[0], SLOTS),
        )
    for bins, ends in ((7, None), (5, (-1, 2)), ([-3, 0, 0.5, 9], None)):
        for weights in (None, x):
            factors = None if weights is None else weights[:, own]
            found = over.histogram(part, bins, ends, factors, group=group)
            for mine, wanted in zip(found, tcu.histogram(x, bins, ends, weights), strict=True):
                same(mine, wanted)
    keys = index * 3
    found = over.reduce_by_key(keys[own], part, axis=1, group=group)
    for mine, wanted in zip(found, tcu.reduce_by_key(keys, x, axis=1), strict=True):
        same(plain(mine), plain(wanted))
    for padding in (None, -1):
        found = over.embedding_gradient(
            part.T.bfloat16(), index[own], SLOTS, padding_index=padding, group=group
        )
        wanted = tcu.embedding_gradient(x.T.bfloat16(), index, SLOTS, padding_index=padding)
        same(plain(found), plain(wanted))
    same(over.index_sum(torch.zeros((0, 2)), index[:0], 0, group=group), torch.zeros((0, 2)))
    small = places[own].to(torch.uint8)
    same(over.index_sum(small, index[own], SLOTS, group=group), tcu.index_sum(places, index, SLOTS))


def refused(error: type[TcuError], words: str, call: Any) -> None:
    with pytest.raises(error, match=words):
        call()


def check_errors(torch: Any, rank: int, ranks: int) -> None:
    """One rank refuses, and the others hear of it; or they do not agree."""
    over, x, index = tcu.distributed, torch.ones(3), torch.tensor([0, 1, 2])
    bad = torch.tensor([0, 5, 2]) if rank == 1 else index
    words = r"index\[1\] is 5, and the slots are 0 to 2"
    refused(ParameterError, words, lambda: over.index_sum(x, bad, 3))
    short = index[:2] if rank == 1 else index
    kind = ShapeError if rank == 1 else ParameterError
    refused(kind, r"index has shape \(2,\)", lambda: over.index_sum(x, short, 3))
    refused(
        kind,
        r"gradient has shape \(3,\)",
        lambda: over.embedding_gradient(x if rank == 1 else x[:, None], index, 3),
    )
    refused(kind, "weights have shape", lambda: over.histogram(x, 3, (0, 1), x[: 3 - (rank == 1)]))
    refused(kind, "keys have shape", lambda: over.reduce_by_key(short, x))
    refused(kind, "index has shape", lambda: over.bincount(index[:, None] if rank == 1 else index, x))
    refused(ParameterError, "size=3.*size=4", lambda: over.index_sum(x, index, 4 if rank else 3))
    refused(ParameterError, "float32.*float64", lambda: over.index_sum(x.double() if rank else x, index, 3))
    infinite = torch.tensor([0.0, 0, np.inf if rank else -np.inf])
    refused(InvalidOperationError, "slot 2 gets inf and -inf", lambda: over.index_sum(infinite, index, 3))
    large = torch.tensor([0, 2**63 - 1, 5]) if rank == 0 else torch.tensor([0, 1, -5])
    refused(
        InvalidOperationError,
        "slot 1 gets integers whose sum 64 bits",
        lambda: over.index_sum(large, index, 3),
    )
    refused(
        ParameterError,
        "axis 0.*axis 1",
        lambda: over.index_sum(x.expand(3, 3), index, 3, axis=int(rank == 1)),
    )
    edges = np.linspace(0, 1, 2000)
    edges[1000] += 1e-9 * (rank == 1)
    refused(ParameterError, "do not agree", lambda: over.histogram(x, edges))
    refused(
        DtypeError, "a result is rounded to float16", lambda: over.index_sum(x, index, 3, dtype=torch.int32)
    )
    refused(DtypeError, "means of integers", lambda: over.index_mean(index, index, 3))
    refused(
        ParameterError, r"takes PyTorch tensors, not .*numpy", lambda: over.index_sum(x, index.numpy(), 3)
    )
    refused(ParameterError, "requires grad", lambda: over.index_sum(x.clone().requires_grad_(), index, 3))
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, distribute_tensor

    whole = distribute_tensor(x, init_device_mesh("cpu", (ranks,)), [Replicate()])
    refused(ParameterError, r"no DTensor: pass x\.to_local\(\)", lambda: over.index_sum(whole, index, 3))
    assert over.index_sum(x, index, 3).tolist() == [ranks] * 3  # and all is well again


def check_all(rank: int, ranks: int) -> None:
    import torch

    for count in group_sizes(ranks):
        group = torch.distributed.new_group(list(range(count)))
        if rank < count:
            check_group(torch, group, rank, count)
    torch.distributed.barrier()
    check_errors(torch, rank, ranks)


if __name__ == "__main__":
    run_rank(check_all)
