"""``tcu.polyval`` on one GPU: the CPU's bits, within its bound, and timed beside the best Horner's rule that we can write.

    python benchmarks/gpu_polynomials.py [--quick]

Needs CuPy and PyTorch.  The peer keeps everything in registers, several points a thread, each of one, two or four
chains; of its 16 shapes the fastest counts.  Kernels are timed in a CUDA graph, so that neither waits for the host: a
graph of ten to forty calls, into results that take turns, the median of nine replays.  "call" is the median of calls as a user writes
them, CUDA events around each.  Share is of the cores' peak by NVIDIA's data sheet of the H100 and H200 SXM (34·10^12 operations
a second of binary64, 67·10^12 of binary32), of binary64 also of the unit's (67·10^12).
At every point some 4,096 values are compared with the CPU's, bit by bit, and with the peer's, within twice the bound.  A wrong result is
marked WRONG, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import math
import sys
import time
from collections.abc import Callable
from itertools import cycle
from typing import Any

import numpy as np
import record

import tcu

CORES = {"float64": 34e12, "float32": 67e12}
UNIT = 67e12

HORNER = r"""
// Horner's rule with everything in registers: PER points a thread, each of SPLIT chains.  A chain has every SPLIT-th
// coefficient and multiplies by x^SPLIT, so that a warp has PER * SPLIT independent FMAs to hide their latency with.
// Coefficients are broadcast from shared memory, CHUNK at a time; n is a multiple of it, or RAGGED is 1, and n one of SPLIT.
extern "C" __global__ void __launch_bounds__(THREADS) horner(const NUMBER* __restrict__ a, int n, const NUMBER* __restrict__ x,
                                                             NUMBER* __restrict__ y, long long points) {
    __shared__ NUMBER coefficients[CHUNK];
    const long long first = static_cast<long long>(blockIdx.x) * THREADS * PER + threadIdx.x;
    NUMBER at[PER], step[PER], sums[PER][SPLIT] = {};
#pragma unroll
    for (int p = 0; p < PER; ++p) {
        const long long i = first + static_cast<long long>(p) * THREADS;
        at[p] = i < points ? x[i] : 0;
        step[p] = at[p];
#pragma unroll
        for (int s = 1; s < SPLIT; ++s) step[p] *= at[p];
    }
    for (int chunk = (n - 1) / CHUNK * CHUNK; chunk >= 0; chunk -= CHUNK) {
        const int count = RAGGED && n - chunk < CHUNK ? n - chunk : CHUNK;
        __syncthreads();
        for (int i = threadIdx.x; i < count; i += THREADS) coefficients[i] = a[chunk + i];
        __syncthreads();
#pragma unroll 8
        for (int k = count - SPLIT; k >= 0; k -= SPLIT) {
#pragma unroll
            for (int s = 0; s < SPLIT; ++s) {
                const NUMBER coefficient = coefficients[k + s];
#pragma unroll
                for (int p = 0; p < PER; ++p) sums[p][s] = fma(sums[p][s], step[p], coefficient);
            }
        }
    }
#pragma unroll
    for (int p = 0; p < PER; ++p) {
        const long long i = first + static_cast<long long>(p) * THREADS;
        NUMBER sum = sums[p][SPLIT - 1];
#pragma unroll
        for (int s = SPLIT - 2; s >= 0; --s) sum = fma(sum, at[p], sums[p][s]);
        if (i < points) y[i] = sum;
    }
}
"""
HORNERS = tuple(
    (per, split, threads)
    for per, split in ((1, 1), (1, 2), (1, 4), (2, 1), (2, 2), (4, 1), (4, 2), (8, 1))
    for threads in (128, 256)
)
"""Points a thread, chains a point and threads a block, of which the fastest is the peer."""
CHUNK = 512
"""Coefficients in shared memory at a time, at most."""


def horner_macros(n: int, per: int, split: int, threads: int, number: str = "double") -> dict[str, Any]:
    """What the kernel leaves open, for a polynomial of n coefficients, a multiple of 4."""
    whole = math.gcd(n, CHUNK)
    chunk = whole if whole >= min(64, n) else CHUNK
    return {"NUMBER": number, "PER": per, "SPLIT": split, "THREADS": threads, "CHUNK": chunk, "RAGGED": int(n % chunk > 0)}  # fmt: skip


def horner_kernels(on: Any, *outs: Any) -> dict[str, Callable[[], Any]]:
    """Horner's rule of (coefficients, points) on a GPU in every shape, into one of the results after the other."""
    import cupy

    a, x = on
    found: dict[str, Callable[[], Any]] = {}
    turns = cycle(outs)
    number = "double" if a.dtype == np.float64 else "float"
    a = cupy.concatenate([a, cupy.zeros(-len(a) % 4, a.dtype)])
    for per, split, threads in HORNERS:
        macros = horner_macros(len(a), per, split, threads, number)
        kernel = cupy.RawKernel(
            HORNER, "horner", tuple(f"-D{name}={value}" for name, value in macros.items())
        )

        def run(
            kernel: Any = kernel, blocks: int = -(-len(x) // (threads * per)), threads: int = threads
        ) -> None:
            kernel((blocks,), (threads,), (a, np.int32(len(a)), x, next(turns), np.int64(len(x))))

        found[f"{per} points × {split} chains, {threads} threads"] = run
    return found


def graphed(call: Callable[[], Any], repeat: int) -> float:
    """Seconds of a call in a graph of so many."""
    import cupy
    import torch

    stream = torch.cuda.Stream()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream), cupy.cuda.ExternalStream(stream.cuda_stream):
        call()
        stream.synchronize()
        with torch.cuda.graph(graph, stream=stream):
            for _ in range(repeat):
                call()
    graph.replay()
    taken = []
    for _ in range(9):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        taken.append(begin.elapsed_time(end) * 1e-3 / repeat)
    return float(np.median(taken))


def called(call: Callable[[], Any]) -> float:
    """Seconds of a call as a user writes it."""
    import torch

    taken = []
    for _ in range(60):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        call()
        end.record()
        end.synchronize()
        taken.append(begin.elapsed_time(end) * 1e-3)
    return float(np.median(taken[10:]))


LENGTHS = (64, 65, 100, 257, 500, 513, 600, 1000, 1024, 2049, 4096, 5000, 16384)
POINTS = (1 << 16, (1 << 16) + 77, 1 << 18, 1_000_003)
QUICK = ((64, 1 << 16), (1000, 1 << 16), (4096, 1 << 18))


def measured(n: int, points: int, dtype: str) -> dict[str, Any]:
    import cupy
    import torch

    rng = np.random.default_rng([n, points])
    c, x = rng.standard_normal(n).astype(dtype), rng.uniform(-1, 1, points).astype(dtype)
    coefficients, places = torch.from_numpy(c).cuda(), torch.from_numpy(x).cuda()
    repeat = 10 if n * points > 1 << 32 else 40
    peers = horner_kernels(
        (cupy.asarray(c), cupy.asarray(x)), *(cupy.empty(points, dtype) for _ in range(repeat))
    )
    times = {shape: graphed(run, repeat) for shape, run in peers.items()}
    shape = min(times, key=times.__getitem__)
    own = graphed(lambda: tcu.polyval(places, coefficients), repeat)
    found = tcu.polyval(places, coefficients).cpu().numpy()
    reference = cupy.empty(points, dtype)
    next(iter(horner_kernels((cupy.asarray(c), cupy.asarray(x)), reference).values()))()
    sample = slice(None, None, max(1, points // 4096))
    same = found[sample].tobytes() == tcu.polyval(x[sample], c).tobytes()
    bound = tcu.polyval_error_bound(x[sample], c)
    near = bool(
        (np.abs(found[sample].astype(float) - reference.get()[sample].astype(float)) <= 2 * bound).all()
    )
    rate = 2.0 * n * points / own
    row = {"n": n, "points": points, "dtype": dtype, "microseconds": own * 1e6, "horner_microseconds": times[shape] * 1e6,
           "horner_shape": shape, "over_horner": times[shape] / own, "call_microseconds": called(lambda: tcu.polyval(places, coefficients)) * 1e6,
           "horner_call_microseconds": called(peers[shape]) * 1e6, "share_of_cores": rate / CORES[dtype]}  # fmt: skip
    if dtype == "float64":
        row["share_of_unit"] = rate / UNIT
    return row | {"right": same and near}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer and smaller cases")
    options = parser.parse_args()
    cases = QUICK if options.quick else [(n, points) for n in LENGTHS for points in POINTS]
    rows, start = [], time.perf_counter()
    for dtype in CORES:
        for n, points in cases:
            row = measured(n, points, dtype)
            rows.append(row)
            print(*(f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}" for name, value in row.items() if name != "right"),
                  "" if row["right"] else "WRONG", sep="   ", flush=True)  # fmt: skip
    wrong = sum(not row["right"] for row in rows)
    print(f"{time.perf_counter() - start:.1f} s in all, {wrong} wrong")
    versions = {"torch": importlib.metadata.version("torch")}
    print(record.save("gpu-polynomials" + "-quick" * options.quick, {"polynomials": rows}, versions))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
