"""Row functions on the GPU at hand beside PyTorch's: seconds of each, and bytes a second beside a copy's.

Written to benchmarks/results/gpu-row-functions.json.

Each measurement is the median of runs on arrays larger than the second cache; torch.compile compiles for each shape alone.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import record
import torch

import tcu

LENGTHS = (256, 1000, 1024, 4096, 8192, 16384, 32768, 50257, 131072, 262144)
COMPILED = (1024, 8192, 32768)
"""Lengths that torch.compile is asked for, which takes seconds each."""
TOTAL = 1 << 27
FUNCTIONS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], bool]] = {
    "softmax": (lambda x: tcu.softmax(x, -1), lambda x: torch.softmax(x, -1), True),
    "log_softmax": (lambda x: tcu.log_softmax(x, -1), lambda x: torch.log_softmax(x, -1), True),
    "logsumexp": (lambda x: tcu.logsumexp(x, -1), lambda x: torch.logsumexp(x, -1), False),
    "rms_norm": (tcu.rms_norm, lambda x: torch.nn.functional.rms_norm(x, x.shape[-1:]), True),
    "layer_norm": (tcu.layer_norm, lambda x: torch.nn.functional.layer_norm(x, x.shape[-1:]), True),
}
"""By name: tcu's, PyTorch's, and whether results are as many as numbers."""


def median_time(run: Callable[[], Any], count: int = 7) -> float:
    """Seconds on the GPU."""
    run()
    torch.cuda.synchronize()
    times = []
    for _ in range(count):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        run()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / 1e3)
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    given = parser.parse_args()
    last = time.monotonic() + given.seconds
    rows: list[dict[str, Any]] = []
    copied: dict[str, float] = {}
    steps = [(torch.bfloat16, length, False) for length in LENGTHS]
    steps += [(torch.bfloat16, length, True) for length in COMPILED]
    steps += [(torch.float32, length, False) for length in LENGTHS]
    for dtype, length, is_compiled in steps:
        if time.monotonic() > last:
            print("out of time", flush=True)
            break
        x = torch.randn(TOTAL // length, length, device="cuda").to(dtype)
        size = x.numel() * x.element_size()
        kind = str(dtype).removeprefix("torch.")
        if kind not in copied:
            other = torch.empty_like(x)
            copied[kind] = 2 * size / median_time(partial(other.copy_, x))
            print(f"{torch.cuda.get_device_name()} {kind} copy {copied[kind] / 1e12:.2f} TB/s", flush=True)
            del other
        for name, (own, theirs, is_map) in FUNCTIONS.items():
            if is_compiled:
                if name not in ("softmax", "rms_norm") or time.monotonic() > last:
                    continue
                torch._dynamo.reset()
                theirs = torch.compile(theirs, dynamic=False)
            bytes_moved = size * (1 + is_map)
            ours, others = (median_time(partial(function, x)) for function in (own, theirs))
            rows.append({
                "function": name, "dtype": kind, "length": length, "peer": "torch.compile" if is_compiled else "eager",
                "tcu": ours, "peer_seconds": others, "of_copy": bytes_moved / ours / copied[kind],
                "tb_per_s": bytes_moved / ours / 1e12, "peer_tb_per_s": bytes_moved / others / 1e12,
            })  # fmt: skip
            print(
                f"{name:12s} {kind:9s} {length:7d} tcu {bytes_moved / ours / 1e12:5.2f} TB/s ({rows[-1]['of_copy']:.2f} of copying) "
                f"{rows[-1]['peer']} {bytes_moved / others / 1e12:5.2f}",
                flush=True,
            )
        del x
    print(record.save("gpu-row-functions", {"rows": rows}, {"torch": torch.__version__}))


if __name__ == "__main__":
    main()
