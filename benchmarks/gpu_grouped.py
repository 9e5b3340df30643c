"""Products of segments of rows with a matrix each, on one GPU: tcu.segment_matmul beside PyTorch and cuBLAS.

    python benchmarks/gpu_grouped.py [--seconds S] [--dry-run]

bfloat16, as tokens go to experts: so many rows each ("even"), as many as chance sends to experts that are liked about
equally ("random"), or half of the rows to the first, half of the rest to the second, and so on ("halves").  Weights lie
by columns.  Peers: torch's grouped product, and a loop of cuBLAS over the segments.  Times are of CUDA graphs
(tcu/study/gpu/timing.py), the participants of a point take turns, operands that fit into the second cache rotate.

In the same run, of rows and columns drawn at random, the bits against those of the CPU's model, and the share of
results of the loop of cuBLAS that equal those of one chain.  A result that differs is marked WRONG, and the exit status
is 1.  With --dry-run on the CPU with small shapes; nothing is written.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from itertools import pairwise
from typing import Any

import record
import torch
from gpu_matmul import PLANS, model_bits

import tcu
from tcu.gpu.device import find_gpu
from tcu.study.gpu.peers import result_bits
from tcu.study.gpu.timing import Clock, CudaClock, Timing, WallClock, buffers_for

CASES = (
    (8, 8192, 4096, 4096, "even"), (8, 32768, 1792, 4096, "even"), (64, 8192, 1408, 2048, "random"), (64, 64, 1408, 2048, "random"),
    (128, 512, 768, 2048, "random"), (16, 4096, 4096, 4096, "halves"),
)  # fmt: skip
"""(segments, rows of all, N, K, lengths)."""
MOST_BUFFERS = 4
SAMPLE = 4, 16
"""Rows and columns that the model computes, too."""

Segments = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def lengths_of(kind: str, segments: int, rows: int) -> list[int]:
    if kind == "even":
        return [rows // segments] * segments
    generator = torch.Generator().manual_seed(segments + rows)
    liked = (
        torch.rand(segments, generator=generator) + 0.2
        if kind == "random"
        else 2.0 ** -torch.arange(segments)
    )
    chosen = torch.multinomial(liked, rows, replacement=True, generator=generator)
    found: list[int] = chosen.bincount(minlength=segments).tolist()
    return found


def ours(plan: str, edges: torch.Tensor) -> Segments:
    return lambda x, weights: tcu.segment_matmul(
        x, weights, edges, check=False, plan=plan, dtype=torch.bfloat16
    )


def loop(line: list[int]) -> Segments:
    def run(x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        out = torch.empty(x.shape[0], weights.shape[2], dtype=x.dtype, device=x.device)
        for matrix, (first, last) in zip(weights, pairwise(line), strict=True):
            if first < last:
                torch.mm(x[first:last], matrix, out=out[first:last])
        return out

    return run


def grouped(edges: torch.Tensor) -> Segments:
    ends = edges[1:].int().contiguous()
    return lambda x, weights: torch._grouped_mm(x, weights, offs=ends)


def right(
    got: torch.Tensor, x: torch.Tensor, weights: torch.Tensor, line: list[int], plan: str, unit: Any
) -> bool:
    """Of rows and columns drawn at random."""
    generator = torch.Generator().manual_seed(len(line))
    columns = torch.randint(got.shape[1], (SAMPLE[1],), generator=generator).to(got.device)
    for row in torch.randint(got.shape[0], (SAMPLE[0],), generator=generator).tolist():
        segment = next(i for i, last in enumerate(line[1:]) if row < last)
        few = got[row : row + 1, columns].contiguous()
        if result_bits(few) != model_bits(
            x[row : row + 1], weights[segment][:, columns], plan, "bfloat16", unit
        ):
            return False
    return True


def point(
    case: tuple[int, int, int, int, str], clock: Clock, device: str, unit: Any, seconds: float
) -> dict[str, Any]:
    segments, rows, n, k, kind = case
    lengths = lengths_of(kind, segments, rows)
    edges = torch.tensor([0, *lengths], device=device).cumsum(0)
    line = edges.tolist()
    used = sum(length > 0 for length in lengths)
    nbytes = 2 * (rows * k + used * n * k + rows * n)
    count = min(buffers_for(nbytes, clock.l2, cold=True), MOST_BUFFERS)
    generator = torch.Generator(device).manual_seed(rows + n + k)

    def numbers(*shape: int) -> torch.Tensor:
        return torch.randn(shape, device=device, generator=generator).bfloat16()

    data = [(numbers(rows, k), numbers(segments, n, k).mT) for _ in range(count)]
    who: dict[str, Segments] = {f"tcu, {plan}": ours(plan, edges) for plan in PLANS}
    found: dict[str, dict[str, Any]] = {}
    chain = None
    for name, run in who.items():
        got = run(*data[0])
        found[name] = {"right": right(got, *data[0], line, name[5:], unit)}
        chain = got if chain is None else chain
    for name, run in (("torch, grouped", grouped(edges)), ("cuBLAS, a loop", loop(line))):
        try:
            found[name] = {"equal_to_chain": float((run(*data[0]) == chain).double().mean())}
            who[name] = run
        except Exception as error:  # a shape or a machine that it does not take
            found[name] = {"missing": str(error).splitlines()[0][:160]}
    calls = {name: partial(_call, run, data) for name, run in who.items()}
    times: dict[str, Timing | str] = (
        clock.graph(calls, count, nbytes, seconds)
        if device == "cuda"
        else dict(clock.events(calls, count, 0.0, 1))
    )
    for name, timing in times.items():
        if isinstance(timing, str):
            found[name]["missing"] = timing
        else:
            found[name] |= asdict(timing) | {
                "tflop_per_s": 2e-12 * rows * n * k / timing.median, "tb_per_s": 1e-12 * nbytes / timing.median
            }  # fmt: skip
    return {
        "dtype": "bfloat16", "result": "bfloat16", "shape": (rows, n, k), "segments": segments, "used": used,
        "lengths": kind, "participants": found,
    }  # fmt: skip


def _call(run: Segments, data: list[tuple[torch.Tensor, torch.Tensor]], number: int) -> torch.Tensor:
    return run(*data[number])


def show(row: dict[str, Any]) -> None:
    cells = [
        f"{name}: {one.get('missing', 'not timed')}" if "median" not in one
        else f"{name} {one['median'] * 1e6:.1f} µs" + ("" if one.get("right", True) else " WRONG")
        for name, one in row["participants"].items()
    ]  # fmt: skip
    print(row["segments"], "×".join(map(str, row["shape"])), row["lengths"], "; ".join(cells), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=0.15, help="for the times of a point")
    parser.add_argument("--dry-run", action="store_true", help="on the CPU, small; nothing is written")
    asked = parser.parse_args()
    dry = asked.dry_run
    device, unit = ("cpu", "H100") if dry else ("cuda", find_gpu(0).unit)
    clock: Clock = WallClock() if dry else CudaClock()
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    points = []
    for segments, rows, n, k, kind in CASES:
        case = (4, min(rows, 40), 24, 320, kind) if dry else (segments, rows, n, k, kind)
        points.append(point(case, clock, device, unit, asked.seconds))
        show(points[-1])
    if not dry:
        print(record.save("gpu-grouped", {"points": points}, {"torch": torch.__version__}))
    return int(not all(one.get("right", True) for row in points for one in row["participants"].values()))


if __name__ == "__main__":
    sys.exit(main())
