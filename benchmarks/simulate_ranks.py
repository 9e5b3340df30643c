"""What a reduction over 10^3 to 10^6 ranks costs, and which bits it gives: a simulation, message by message.

Every rank's accumulator goes up a tree of a given fan-in and the result comes
down again.  A message takes latency · jitter + bytes / bandwidth, a merge the
time that it takes here (both measured on this machine, the latency and the
bandwidth between two processes through Gloo); --latency and --bandwidth put
other networks beside it.  Jitter is log-normal, so that the deepest path is
not the only slow one.

The bits are not simulated but computed: the words of every rank's numbers are
added up in the tree's order, and in random orders, beside binary64 additions.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import statistics
import time
from typing import Any

import numpy as np
import numpy.typing as npt
import record

import tcu
from tcu.distributed.words import share_of_words, size_of, words_of
from tcu.surfaces.shares import Share

RANKS = (10**3, 10**4, 10**5, 10**6)
FAN_INS = (2, 8, 32)
JITTER = 0.3
"""Standard deviation of the logarithm of a message's latency."""
NUMBERS = 4
"""Of a rank, where bits are computed."""
ORDERS = 10
BYTES = 8 * size_of([False])


def _ping(rank: int, port: int, queue: Any) -> None:
    import torch
    import torch.distributed as dist

    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    dist.init_process_group("gloo", rank=rank, world_size=2)
    found = {}
    for size, rounds in ((8, 300), (1 << 24, 10)):
        data = torch.zeros(size, dtype=torch.uint8)
        taken = []
        for _ in range(rounds):
            start = time.perf_counter()
            (dist.send if rank == 0 else dist.recv)(data, 1 - rank)
            (dist.recv if rank == 0 else dist.send)(data, 1 - rank)
            taken.append((time.perf_counter() - start) / 2)
        found[size] = statistics.median(taken)
    dist.destroy_process_group()
    if rank == 0:
        queue.put(found)


def measured_network() -> tuple[float, float]:
    """(latency in seconds, bandwidth in bytes a second) between two processes here."""
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    port = 29_400 + os.getpid() % 500
    both = [context.Process(target=_ping, args=(rank, port, queue)) for rank in (0, 1)]
    for process in both:
        process.start()
    found = queue.get(timeout=120)
    for process in both:
        process.join()
    small, large = found[8], found[1 << 24]
    return small, (1 << 24) / (large - small)


def measured_merge() -> float:
    """Seconds to add one rank's words to another's."""
    a, b = np.ones(size_of([False]), np.int64), np.ones(size_of([False]), np.int64)
    start = time.perf_counter()
    for _ in range(10_000):
        a += b
    return (time.perf_counter() - start) / 10_000


def tree_seconds(
    ranks: int, fan_in: int, latency: float, bandwidth: float, merge: float, rng: np.random.Generator
) -> tuple[float, int]:
    """(seconds up the tree and down again, depth): a parent merges its children one after another as they arrive."""
    ready = np.zeros(ranks)
    depth = 0
    while ready.size > 1:
        groups = -(-ready.size // fan_in)
        padded = np.full(groups * fan_in, -np.inf)
        padded[: ready.size] = ready
        rows = padded.reshape(groups, fan_in)
        arrival = rows + latency * rng.lognormal(0, JITTER, rows.shape) + BYTES / bandwidth
        arrival[:, 0] = rows[:, 0]  # the parent's own
        done = arrival[:, 0]
        for column in np.sort(arrival[:, 1:], axis=1).T:
            done = np.where(np.isfinite(column), np.maximum(done, column) + merge, done)
        ready = done
        depth += 1
    down = 0.0
    for _ in range(depth):
        down += float((latency * rng.lognormal(0, JITTER, 1000)).max()) + BYTES / bandwidth
    return float(ready[0]) + down, depth


def tree_words(words: npt.NDArray[np.int64], fan_in: int) -> npt.NDArray[np.int64]:
    """The words of all ranks, added up in the tree's order."""
    while len(words) > 1:
        missing = -len(words) % fan_in
        padded = np.concatenate([words, np.zeros((missing, words.shape[1]), np.int64)])
        words = padded.reshape(-1, fan_in, words.shape[1]).sum(axis=1)
    return words[0]


def bits(ranks: int, rng: np.random.Generator) -> dict[str, Any]:
    """How many different results ORDERS orders give, of exact accumulators and of binary64 additions."""
    x = rng.standard_normal((ranks, NUMBERS)) * 2.0 ** rng.integers(-40, 40, (ranks, 1))
    wanted = float(tcu.fsum(x))
    exact: set[float] = set()
    block = 10_000  # ranks whose words are in memory at a time
    for fan_in in FAN_INS:
        parts = []
        for at in range(0, ranks, block):
            shares = [Share(NUMBERS, tcu.ExactSum().add(row).tally) for row in x[at : at + block]]
            parts.append(tree_words(np.array([words_of(share, [False], 0) for share in shares]), fan_in))
        exact.add(
            float(
                tcu.ExactSum()
                .add_tally(*share_of_words(tree_words(np.array(parts), fan_in), [False]))
                .value()
            )
        )
    totals = x.sum(axis=1)
    plain = {float(np.add.accumulate(rng.permutation(totals))[-1]) for _ in range(ORDERS)}
    spread = max(plain) - min(plain)
    return {
        "exact_results": len(exact), "exact_is_fsum": exact == {wanted}, "binary64_results": len(plain),
        "binary64_orders": ORDERS, "binary64_spread_relative": spread / abs(wanted) if wanted else math.inf,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--latency", type=float, default=5e-6, help="seconds, of a second network")
    parser.add_argument("--bandwidth", type=float, default=25e9, help="bytes a second, of a second network")
    parser.add_argument(
        "--bits-up-to", type=int, default=10**5, help="ranks whose accumulators are added up for real"
    )
    given = parser.parse_args()
    rng = np.random.default_rng(0)
    networks = {"measured, Gloo on one host": measured_network(), "given": (given.latency, given.bandwidth)}
    merge = measured_merge()
    rows = []
    for name, (latency, bandwidth) in networks.items():
        for ranks in RANKS:
            for fan_in in FAN_INS:
                runs = [tree_seconds(ranks, fan_in, latency, bandwidth, merge, rng) for _ in range(5)]
                seconds = statistics.median(run[0] for run in runs)
                rows.append({
                    "network": name, "ranks": ranks, "fan_in": fan_in, "depth": runs[0][1], "seconds": seconds,
                    "bytes_sent_per_rank": BYTES, "bytes_of_all": 2 * BYTES * (ranks - 1),
                })  # fmt: skip
                print(
                    f"{name:28} {ranks:>9,} ranks, fan-in {fan_in:2}: depth {runs[0][1]:2}, {seconds * 1e6:9.1f} µs"
                )
    results = {str(ranks): bits(ranks, rng) for ranks in RANKS if ranks <= given.bits_up_to}
    print(results)
    figures = {
        "networks": {name: {"latency": pair[0], "bandwidth": pair[1]} for name, pair in networks.items()},
        "merge_seconds": merge, "accumulator_bytes": BYTES, "jitter": JITTER, "trees": rows, "bits": results,
    }  # fmt: skip
    print(record.save("simulate-ranks", figures))


if __name__ == "__main__":
    main()
