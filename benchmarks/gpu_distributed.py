"""Sums over the GPUs of one host or more, by torchrun: tcu.distributed beside torch's local sum and all_reduce.

    torchrun --nproc-per-node=2 benchmarks/gpu_distributed.py

Every rank has 2^32 binary16 numbers.  A call is timed from a barrier on the
GPUs to its result on the slowest rank: CUDA events around CALLS calls in a
row, the ranks' largest time of each round, the median of the rounds.  "one
GPU" is tcu.sum and tcu.fsum of one rank's numbers, timed in the same run the
same way while the other ranks rest.  The bits must be the same on all ranks;
those of fsum also when the ranks' numbers are dealt out anew.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import record
import torch
import torch.distributed as dist

import tcu

CALLS = 10


def seconds(call: Callable[[], Any], rounds: int) -> list[float]:
    """Of one call, on the slowest rank, in every round."""
    taken = []
    for _ in range(rounds + 1):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        meet = torch.zeros(1, device="cuda")
        dist.all_reduce(meet)
        begin.record()
        for _ in range(CALLS):
            call()
        end.record()
        torch.cuda.synchronize()
        slowest = torch.tensor([begin.elapsed_time(end) * 1e-3 / CALLS], dtype=torch.float64, device="cuda")
        dist.all_reduce(slowest, dist.ReduceOp.MAX)
        taken.append(slowest.item())
    return taken[1:]  # the first warms up


def alone(call: Callable[[], Any], rounds: int) -> float:
    """Of one call on rank 0 while the others rest; the median."""
    taken = []
    if dist.get_rank() == 0:
        for _ in range(rounds + 1):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            for _ in range(CALLS):
                call()
            end.record()
            torch.cuda.synchronize()
            taken.append(begin.elapsed_time(end) * 1e-3 / CALLS)
    median = torch.tensor(
        [statistics.median(taken[1:]) if taken else 0.0], dtype=torch.float64, device="cuda"
    )
    dist.broadcast(median, 0)
    return float(median.item())


def on_all(value: torch.Tensor) -> list[int]:
    """The bits of a 0-d float32 tensor on every rank."""
    mine = value.reshape(1).view(torch.int32)
    found = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(found, mine)
    return [each.item() for each in found]


def local_and_all_reduce(x: torch.Tensor) -> torch.Tensor:
    total = x.sum(dtype=torch.float32)
    dist.all_reduce(total)
    return total


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--power", type=int, default=32, help="2 to this power numbers a rank")
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    start = time.perf_counter()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl", device_id=torch.device("cuda", int(os.environ["LOCAL_RANK"])))
    rank, ranks = dist.get_rank(), dist.get_world_size()
    n = 1 << given.power
    torch.manual_seed(rank)
    x = torch.empty(n, dtype=torch.float16, device="cuda").normal_()

    fsum, planned = tcu.distributed.fsum(x), tcu.distributed.sum(x)
    bits = {"fsum": on_all(fsum), "sum": on_all(planned)}
    again = {"fsum": on_all(tcu.distributed.fsum(x)), "sum": on_all(tcu.distributed.sum(x))}
    # Dealt out anew: the first half of every shard goes to the next rank.
    half = torch.empty(n // 2, dtype=torch.float16, device="cuda")
    ways = [
        dist.P2POp(dist.isend, x[: n // 2], (rank + 1) % ranks),
        dist.P2POp(dist.irecv, half, (rank - 1) % ranks),
    ]
    for work in dist.batch_isend_irecv(ways):
        work.wait()
    uneven = torch.cat([half, x[n // 2 :]]) if rank else torch.cat([x[n // 2 :], half])
    dealt = on_all(tcu.distributed.fsum(uneven))
    exact = tcu.ExactSum().add(x)
    states: list[Any] = [None] * ranks
    dist.all_gather_object(states, exact.to_bytes())
    merged = tcu.ExactSum()
    for state in states:
        merged.merge(tcu.ExactSum.from_bytes(state))
    expected = int(merged.value("float32").view("int32"))
    del uneven, half

    calls: dict[str, Callable[[], Any]] = {
        "tcu.distributed.sum": lambda: tcu.distributed.sum(x),
        "tcu.distributed.fsum": lambda: tcu.distributed.fsum(x),
        "torch sum + all_reduce": lambda: local_and_all_reduce(x),
    }
    one = {"sum": alone(lambda: tcu.sum(x), given.rounds), "fsum": alone(lambda: tcu.fsum(x), given.rounds)}
    timed = {name: seconds(call, given.rounds) for name, call in calls.items()}
    nbytes = n * ranks * x.element_size()
    rows = {
        name: {
            "seconds": statistics.median(taken), "fastest": min(taken), "slowest": max(taken),
            "tb_per_second": nbytes / statistics.median(taken) / 1e12,
        }
        for name, taken in timed.items()
    }  # fmt: skip
    for name in ("sum", "fsum"):
        rows[f"tcu.distributed.{name}"]["of_ranks_times_one_gpu"] = (
            one[name] / rows[f"tcu.distributed.{name}"]["seconds"]
        )
    same = {
        "all_ranks": {name: len(set(found)) == 1 for name, found in bits.items()},
        "run_to_run": again == bits,
        "dealt_out_anew": dealt == bits["fsum"],
        "fsum_is_the_merged_accumulators": set(bits["fsum"]) == {expected},
    }
    if rank == 0:
        figures = {
            "ranks": ranks, "numbers_per_rank": n, "dtype": "float16", "calls": CALLS, "rounds": given.rounds,
            "one_gpu_seconds": one, "rows": rows, "same_bits": same, "seconds_of_all": time.perf_counter() - start,
        }  # fmt: skip
        for name, row in rows.items():
            ratio = row.get("of_ranks_times_one_gpu")
            print(
                f"{name:24} {row['tb_per_second']:7.2f} TB/s"
                + (f"  {ratio:.3f} of {ranks} × one GPU" if ratio else "")
            )
        print(same)
        versions = {"torch": torch.__version__, "nccl": ".".join(map(str, torch.cuda.nccl.version()))}
        print(record.save(f"gpu-distributed-{ranks}", figures, versions))
    dist.barrier()
    dist.destroy_process_group()
    right = all(same["all_ranks"].values()) and all(
        value for key, value in same.items() if key != "all_ranks"
    )
    sys.exit(0 if right else "the bits differ")


if __name__ == "__main__":
    main()
