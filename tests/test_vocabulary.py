"""Contract: log-sum-exp and cross entropy of rows that are spread over ranks have the bits of the whole rows.

torchrun starts 2 and 8 processes on Gloo, which form groups of 1 to 8 ranks (without --all-cases, of some of these); each has a part of every row, some have none.
Rows have NaN, inf and nothing but -inf; targets are ignored, or no class.  The gradient of a plain loss has the
bits of the whole rows, too; with label smoothing and a z-loss it is right to some units in the last place.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from bits import same
from ranks import check_ranks, group_sizes, run_rank

import tcu
from tcu.errors import ParameterError

CLASSES = 37
OPTIONS: list[dict[str, Any]] = [
    {},
    {"reduction": "none"},
    {"reduction": "sum", "label_smoothing": 0.2, "z_loss": 0.1},
]


@pytest.mark.slow(1)
@pytest.mark.parametrize("ranks", [pytest.param(2, marks=pytest.mark.some(0)), 8])
def test_any_number_of_ranks(ranks: int, request: pytest.FixtureRequest) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)
    check_ranks(__file__, ranks, *["--all-cases"] * request.config.getoption("--all-cases"))


def rows(torch: Any, dtype: Any) -> tuple[Any, Any]:
    """(rows, the targets of some)"""
    x = (3 * torch.randn(6, CLASSES, generator=torch.Generator().manual_seed(3))).to(dtype)
    x[1, 3], x[2], x[3, 5], x[4, :20] = float("nan"), -float("inf"), float("inf"), -float("inf")
    return x, torch.tensor([3, 36, -100])


def check_group(torch: Any, group: Any, rank: int, ranks: int) -> None:
    cuts = torch.randint(0, CLASSES + 1, (ranks - 1,), generator=torch.Generator().manual_seed(ranks))
    edges = [0, *sorted(cuts.tolist()), CLASSES]
    own = slice(edges[rank], edges[rank + 1])
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        x, target = rows(torch, dtype)
        for axis in (1, (0, 1), None):
            found = tcu.distributed.logsumexp(x[:, own], axis, group=group)
            same(found, tcu.logsumexp(x, axis), dtype, axis)
        for options in OPTIONS:
            whole, part = (
                each.detach().clone().requires_grad_() for each in (x[[0, 4, 5]], x[[0, 4, 5], own])
            )
            found = tcu.distributed.cross_entropy(part, target, group=group, **options)
            expected = tcu.cross_entropy(whole, target, **options)
            same(found, expected, dtype, options)
            mine = torch.autograd.grad(found.sum(), part)[0]
            wanted = torch.autograd.grad(expected.sum(), whole)[0][:, own].contiguous()
            if "z_loss" in options:
                tolerance = 8 * torch.finfo(dtype).eps
                torch.testing.assert_close(mine, wanted, rtol=tolerance, atol=tolerance)
            else:
                same(mine, wanted, dtype, options)
    columns = rows(torch, torch.float32)[0][[0, 5]].T.contiguous()
    target = torch.tensor([5, 30])
    found = tcu.distributed.cross_entropy(columns[own], target, axis=0, group=group)
    same(found, tcu.cross_entropy(columns, target, axis=0))


def check(rank: int, ranks: int) -> None:
    import torch

    for count in group_sizes(ranks):
        group = torch.distributed.new_group(range(count))
        if rank < count:
            check_group(torch, group, rank, count)
    x, target = rows(torch, torch.float32)
    with pytest.raises(ParameterError, match=r"the ranks do not agree on what is reduced: .*z_loss=0"):
        tcu.distributed.cross_entropy(x, torch.zeros(6, dtype=torch.int64), z_loss=float(rank == 1))
    with pytest.raises(ParameterError, match=f"a target is none of the {CLASSES * ranks} classes"):
        tcu.distributed.cross_entropy(x[:3], target + CLASSES * ranks)
    unsigned = torch.from_numpy(np.full(3, (1 << 64) - 100, np.uint64))
    with pytest.raises(ParameterError, match=f"a target is none of the {CLASSES * ranks} classes"):
        tcu.distributed.cross_entropy(x[:3], unsigned)
    for given, message in (
        (
            {"ignore_index": 1.5},
            r"ignore_index=1\.5: give a whole number of 64 bits with a sign, such as -100",
        ),
        ({"axis": None}, "axis=None: give a whole number, the axis whose rows are mapped"),
    ):
        with pytest.raises(ParameterError, match=message):
            tcu.distributed.cross_entropy(x[:3], target, **given)
    with pytest.raises(
        ParameterError, match=r"target is a list, x a tensor: pass torch.from_numpy\(target\)"
    ):
        tcu.distributed.cross_entropy(x[:3], [1, 2, 3])
    with pytest.raises(ParameterError, match="x requires grad, and no gradient goes through the exchange"):
        tcu.distributed.logsumexp(x.requires_grad_())


if __name__ == "__main__":
    run_rank(check)
