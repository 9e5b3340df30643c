"""Host time of calls on small PyTorch tensors on a GPU, beside PyTorch's own: what a user's loop waits for.

    python benchmarks/gpu_host_time.py [--dry-run]

Times are medians of the method of tcu.study.gpu.timing.host_time, on a GPU and a processor that
have nothing else to do.  All calls are compiled first, and then take turns, ROUNDS times: one after
another, the same calls took up to twice as long at the start of a run as at its end.  Of the medians
of the rounds, a time is the least, as what else the machine does only adds to it.  A result whose
bits are not the model's is marked WRONG, and the exit status is 1.  With --dry-run on the CPU, and
nothing is written.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
import record
import torch

import tcu
from tcu.gpu.device import find_gpu
from tcu.study.gpu.peers import result_bits
from tcu.study.gpu.timing import Clock, CudaClock, WallClock, host_time

SHAPE, BATCH, ROUNDS = (50, 1000), 100, 7
"""Calls of several launches: no more in a batch, so that the queue of launches has room for them."""
DEVICE = "cuda"
OFFSETS = [*range(0, 50_000, 40), 50_000]

Call = Callable[..., Any]
OURS: dict[str, Call] = {
    "tcu.sum(x)": lambda x, o, **unit: tcu.sum(x, **unit),
    "tcu.sum(x, axis=-1)": lambda x, o, **unit: tcu.sum(x, axis=-1, **unit),
    "tcu.sum(x, axis=0)": lambda x, o, **unit: tcu.sum(x, axis=0, **unit),
    "tcu.fsum(x)": lambda x, o, **_: tcu.fsum(x),
    "tcu.fsum(x, axis=-1)": lambda x, o, **_: tcu.fsum(x, axis=-1),
    "tcu.fsum(x, axis=0)": lambda x, o, **_: tcu.fsum(x, axis=0),
    "tcu.cumsum(x, axis=-1)": lambda x, o, **_: tcu.cumsum(x, axis=-1),
    "tcu.cumsum(x, axis=0)": lambda x, o, **_: tcu.cumsum(x, axis=0),
    "tcu.segment_sum(x, offsets)": lambda x, o, **unit: tcu.segment_sum(x.reshape(-1), o, **unit),
    "tcu.segment_sum(x, offsets, check=False)": lambda x, o, **unit: tcu.segment_sum(
        x.reshape(-1), o, check=False, **unit
    ),
    "tcu.segment_cumsum(x, offsets, check=False)": lambda x, o, **_: tcu.segment_cumsum(
        x.reshape(-1), o, check=False
    ),
}
THEIRS: dict[str, Call] = {
    "torch.sum(x)": lambda x, o: torch.sum(x),
    "torch.sum(x, -1)": lambda x, o: torch.sum(x, -1),
    "torch.cumsum(x, -1)": lambda x, o: torch.cumsum(x, -1),
}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dry-run", action="store_true", help="on the CPU; nothing is written")
    dry = parser.parse_args().dry_run
    device, unit = ("cpu", {}) if dry else (DEVICE, {"unit": find_gpu(0).unit})
    clock: Clock = WallClock() if dry else CudaClock()
    host, edges = np.random.default_rng(1).standard_normal(SHAPE, np.float32), np.array(OFFSETS)
    x, offsets = torch.from_numpy(host).to(device), torch.from_numpy(edges).to(device)
    right = {
        name: result_bits(call(x, offsets)) == result_bits(call(host, edges, **unit))
        for name, call in OURS.items()
    }
    calls = {name: partial(call, x, offsets) for name, call in {**THEIRS, **OURS}.items()}
    rounds = [
        {name: host_time(call, clock, batch=BATCH) for name, call in calls.items()} for _ in range(ROUNDS)
    ]
    found: dict[str, Any] = {}
    for name in calls:
        least = min((each[name] for each in rounds), key=lambda timing: timing.median)
        found[name] = asdict(least) | ({"right": right[name]} if name in right else {})
        wrong = "" if found[name].get("right", True) else "  WRONG"
        print(f"{name:45} {found[name]['median'] * 1e6:6.1f} µs{wrong}")
    if not dry:
        print(record.save("gpu-host-time", {"shape": SHAPE, "host": found}, {"torch": torch.__version__}))
    return 0 if all(row.get("right", True) for row in found.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
