"""Host time of calls on small PyTorch tensors on a GPU, beside PyTorch's own: what a user's loop waits for.

    python benchmarks/gpu_host_time.py

A call's time is the best of 30 rounds of 100 calls that wait for no result, on a
GPU and a processor that have nothing else to do.  A result whose bits are not the
model's is marked WRONG, and the exit status is 1.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import record
import torch

import tcu
from tcu.gpu.device import find_gpu

SHAPE, ROUNDS, CALLS = (50, 1000), 30, 100
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


def microseconds(call: Call, *operands: Any) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(CALLS):
            call(*operands)
        best = min(best, time.perf_counter() - start)
    torch.cuda.synchronize()
    return best / CALLS * 1e6


def main() -> int:
    host = np.random.default_rng(1).standard_normal(SHAPE, np.float32)
    x, offsets = torch.from_numpy(host).cuda(), torch.tensor(OFFSETS, device="cuda")
    unit = find_gpu(0).unit.name
    rows: list[dict[str, Any]] = []
    for name, call in {**THEIRS, **OURS}.items():
        row: dict[str, Any] = {"call": name, "microseconds": microseconds(call, x, offsets)}
        if name in OURS:
            expected = np.ascontiguousarray(call(host, np.array(OFFSETS), unit=unit))
            row["right"] = call(x, offsets).cpu().numpy().tobytes() == expected.tobytes()
        rows.append(row)
        print(f"{name:45} {row['microseconds']:6.1f} µs{'' if row.get('right', True) else '  WRONG'}")
    print(record.save("gpu-host-time", {"shape": SHAPE, "calls": rows}, {"torch": torch.__version__}))
    return 0 if all(row.get("right", True) for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
