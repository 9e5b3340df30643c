"""Sums of ragged segments on one GPU, over lengths of several distributions, as shares of what the memory gives.

    PYTHONPATH=src python benchmarks/gpu_segments.py [--n 1073741824] [--json FILE] [--configs] [--exact]

Bytes are those of the data, of the offsets (int64) and of the results (float32 for 16 bits).  The numbers are
whole, so every sum of the plan is exact, and all results are compared with differences of one long sum in
float64; the bits of some segments of normal numbers with those of the CPU model.  A wrong result makes the exit
status 1.  Each time is the median of calls between two CUDA events, on data many times larger than the caches.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

import tcu
from tcu.formats import format_of, get_format
from tcu.formats.tensor import host_view
from tcu.gpu import find_gpu
from tcu.gpu.segments import Config, SegmentsLaunch

LENGTHS = ("geometric 8", "geometric 64", "geometric 512", "power law", "8", "64", "one")
CONFIGS = [
    Config(resident=warps // 4, prefetch=prefetch)
    for warps, prefetch in itertools.product((24, 32, 40), (0, 4096))
]


def lengths_of(name: str, n: int) -> torch.Tensor:
    """Lengths that add up to n; of the power law, P(length > l) = 1/l up to 2^20, so that every octave has as much data."""
    kind, _, mean = name.partition(" ")
    if kind == "one":
        return torch.tensor([n], device="cuda")
    if kind == "geometric":
        drawn = torch.empty(int(n / float(mean) * 1.02) + 1000, device="cuda").geometric_(1 / float(mean))
    elif kind == "power":
        drawn = (1 / torch.rand(n // 8 + 1000, device="cuda").clamp_min(2.0**-20)).floor()
    else:
        drawn = torch.full((n // int(kind) + 1,), int(kind), device="cuda")
    ends = drawn.to(torch.int64).cumsum(0)
    count = int((ends < n).sum())
    assert count < ends.numel(), "too few lengths drawn"
    ends = torch.cat([ends[:count], ends.new_tensor([n])])
    return ends.diff(prepend=ends.new_zeros(1))


def offsets_of(lengths: torch.Tensor) -> torch.Tensor:
    return torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])


def milliseconds(call: Callable[[], Any], repetitions: int) -> float:
    """The median."""
    times = []
    for _ in range(repetitions + 2):
        before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(4_000_000)  # 2 ms, in which the host gets ahead
        before.record()
        call()
        after.record()
        after.synchronize()
        times.append(before.elapsed_time(after))
    return float(np.median(times[2:]))


def right(x: torch.Tensor, offsets: torch.Tensor, sums: torch.Tensor) -> bool:
    """Whether sums of whole numbers are exact; a piece at a time, for want of memory."""
    step, carry = 1 << 27, torch.zeros(1, dtype=torch.float64, device="cuda")
    at = torch.zeros(offsets.numel(), dtype=torch.float64, device="cuda")
    for start in range(0, x.numel(), step):
        running = torch.cat([carry, carry + x[start : start + step].double().cumsum(0)])
        first, last = torch.searchsorted(
            offsets, torch.tensor([start, start + running.numel()], device="cuda")
        ).tolist()
        at[first:last] = running[offsets[first:last] - start]
        carry = running[-1:]
    return bool((at.diff() == sums.double()).all())


def model_bits(name: str, dtype: torch.dtype) -> bool:
    n = 1 << 20
    offsets = offsets_of(lengths_of(name, n))
    x = torch.randn(n, device="cuda").to(dtype)
    found = tcu.segment_sum(x, offsets).cpu().numpy()
    wanted = tcu.segment_sum(host_view(x.cpu()), offsets.cpu().numpy(), unit=find_gpu().unit)
    return bool(np.array_equal(found.view("u4"), wanted.view("u4")))


def measure(name: str, n: int, dtype: torch.dtype, arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    torch.manual_seed(1)
    offsets = offsets_of(lengths_of(name, n))
    x = torch.randint(-8, 9, (n,), device="cuda", dtype=torch.int8).to(dtype)
    count = offsets.numel() - 1
    out = torch.empty(count, device="cuda")
    size = x.numel() * x.element_size() + 8 * offsets.numel() + 4 * count
    ideal = 1e3 * size / arguments.ceiling
    fmt = format_of(str(dtype).removeprefix("torch."))
    calls: dict[str, Callable[[], Any]] = {
        "tcu.segment_sum": lambda: tcu.segment_sum(x, offsets, out=out, check=False)
    }
    if arguments.exact:
        calls["tcu.segment_fsum"] = lambda: tcu.segment_fsum(x, offsets, out=out, check=False)
    room = torch.empty(1 << 25, dtype=torch.int64, device="cuda")
    if arguments.configs:
        for config in CONFIGS:
            launch = SegmentsLaunch(n, count, fmt, get_format("float32"), find_gpu(), config=config)
            assert launch.room.size <= 8 * room.numel()
            given = x.data_ptr(), offsets.data_ptr(), out.data_ptr(), room.data_ptr()
            stream = torch.cuda.current_stream().cuda_stream
            calls[str(config)] = lambda launch=launch, given=given, stream=stream: launch(*given, stream)
    for who, call in calls.items():
        out.fill_(float("nan"))
        call()
        state = right(x, offsets, out)
        took = milliseconds(call, arguments.repetitions)
        yield {
            "lengths": name, "n": n, "dtype": fmt.name, "segments": count, "participant": who, "ms": took,
            "share": ideal / took, "right": state,
        }  # fmt: skip


def rows(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Exact sums along axes, beside the plan's."""
    for dtype, length in itertools.product((torch.float16, torch.float32), (16, 256, 4096)):
        n = arguments.n >> 2
        x = torch.randn(n // length, length, device="cuda", dtype=dtype)
        size = x.numel() * x.element_size() + 4 * x.shape[0]
        for function in (tcu.sum, tcu.fsum):
            took = milliseconds(lambda x=x, function=function: function(x, axis=1), arguments.repetitions)
            share = 1e3 * size / arguments.ceiling / took
            who = f"tcu.{function.__name__}(axis=1)"
            yield {
                "lengths": f"rows of {length}", "n": n, "dtype": str(dtype), "segments": n // length,
                "participant": who, "ms": took, "share": share, "right": True,
            }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=1 << 30)
    parser.add_argument("--dtypes", nargs="+", default=["float16"])
    parser.add_argument("--lengths", nargs="+", default=LENGTHS)
    parser.add_argument(
        "--ceiling", type=float, default=4.6e12, help="bytes per second that the memory gives"
    )
    parser.add_argument("--repetitions", type=int, default=9)
    parser.add_argument("--configs", action="store_true", help="every configuration of the kernel too")
    parser.add_argument("--exact", action="store_true", help="exact sums too, of segments and along axes")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    found: list[dict[str, Any]] = []
    for dtype in arguments.dtypes:
        for name in arguments.lengths:
            bits = model_bits(name, getattr(torch, dtype)) if dtype != "float64" else None
            for row in measure(name, arguments.n, getattr(torch, dtype), arguments):
                found.append(row | {"model_bits_equal": bits})
                print("{lengths:14} {dtype:9} {segments:11,} {ms:9.3f} ms {share:6.3f}  {participant}".format(**row),
                      "" if row["right"] else "WRONG", "" if bits is not False else "NOT THE MODEL'S BITS", flush=True)  # fmt: skip
    if arguments.exact:
        for row in rows(arguments):
            found.append(row)
            print("{lengths:14} {dtype:14} {segments:11,} {ms:9.3f} ms {share:6.3f}  {participant}".format(**row), flush=True)  # fmt: skip
    if arguments.json:
        document = {"gpu": torch.cuda.get_device_name(), "ceiling": arguments.ceiling, "rows": found}
        arguments.json.write_text(json.dumps(document, indent=1) + "\n")
    return 0 if all(row["right"] and row.get("model_bits_equal") is not False for row in found) else 1


if __name__ == "__main__":
    sys.exit(main())
