"""Speed of the CPU model: MMAs, sums and exact sums per second, with peers beside them; small calls, commands, first calls.

Method: each figure is the best of several repetitions after one warm-up (which
also compiles), wall clock, data in memory.  Every result is checked in the
same run: MMAs against the definition on a sample, sums against the exact sum
within the bound, exact sums against math.fsum on a prefix.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec

import ml_dtypes
import numpy as np
import record

import tcu
from tcu.model.definition import dot
from tcu.plan import DEFAULT_VARIANT
from tcu.units import find_instruction

N = 1 << 25
MMAS = 20_000


def best(work: Callable[[], object], repetitions: int = 5) -> float:
    """Seconds of the fastest of some runs, after a warm-up."""
    work()
    times = []
    for _ in range(repetitions):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def adversarial(rng: np.random.Generator, shape: tuple[int, ...], dtype: type) -> np.ndarray:
    """Half any bit pattern (inf and NaN included), a quarter subnormal, a quarter over all exponents."""
    width = np.dtype(dtype).itemsize * 8
    fraction = {16: 10, 32: 23}[width]
    code = rng.integers(0, 1 << width, shape, dtype=np.uint64)
    kind = rng.integers(0, 4, shape)
    sign = np.uint64(1 << width - 1)
    subnormal = code & (sign | np.uint64((1 << fraction) - 1))
    power = code & ~np.uint64((1 << fraction) - 1)
    code = np.where(kind == 0, subnormal, np.where(kind == 1, power, code))
    return code.astype(f"u{width // 8}").view(dtype)


def check_mmas(a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray) -> None:
    row = find_instruction("H100", "mma", "binary16", "binary16", "binary32")
    rng = np.random.default_rng(1)
    for _ in range(300):
        t, i, j = (int(rng.integers(0, size)) for size in d.shape)
        x, y = a[t, i].view(np.uint16).tolist(), b[t, :, j].copy().view(np.uint16).tolist()
        expected = dot(x, y, int(c.view(np.uint32)[t, i, j]), row)
        if expected != int(d.view(np.uint32)[t, i, j]):
            raise SystemExit(f"wrong MMA at {t, i, j}")


def bench_mma() -> dict[str, float]:
    rng = np.random.default_rng(0)
    shapes = [(MMAS, 16, 16), (MMAS, 16, 8), (MMAS, 16, 8)]
    dtypes = [np.float16, np.float16, np.float32]
    data = {
        "ordinary": [
            rng.standard_normal(s, dtype=np.float32).astype(d) for s, d in zip(shapes, dtypes, strict=True)
        ],
        "adversarial": [adversarial(rng, s, d) for s, d in zip(shapes, dtypes, strict=True)],
    }
    figures = {}
    for kind, (a, b, c) in data.items():
        check_mmas(a, b, c, tcu.mma(a, b, c, unit="H100"))
        figures[kind] = MMAS / best(lambda a=a, b=b, c=c: tcu.mma(a, b, c, unit="H100"), 60)
    return figures


def check_sum(x: np.ndarray, variant: str) -> None:
    error = abs(float(tcu.sum(x, variant=variant)) - float(tcu.fsum(x, dtype=np.float64)))
    if not error <= tcu.error_bound(x, variant=variant):
        raise SystemExit(f"{variant}: the error {error} exceeds the bound")


def bench_sums() -> dict[str, dict[str, float]]:
    """Elements per second."""
    normal = np.random.default_rng(0).standard_normal(N, dtype=np.float32)
    figures: dict[str, dict[str, float]] = {}
    for name, dtype in (("float16", np.float16), ("bfloat16", ml_dtypes.bfloat16), ("float32", np.float32),
                        ("float64", np.float64)):  # fmt: skip
        x = normal.astype(dtype)
        row = figures.setdefault(name, {})
        for variant in (DEFAULT_VARIANT, "single-pass", "short-chain"):
            check_sum(x, variant)
            row[f"tcu.sum {variant}"] = N / best(lambda x=x, v=variant: tcu.sum(x, variant=v), 3)
        head = x[: 1 << 16]
        if float(tcu.fsum(head, dtype=np.float64)) != math.fsum(head.tolist()):
            raise SystemExit("fsum differs from math.fsum")
        row["tcu.fsum"] = N / best(lambda x=x: tcu.fsum(x), 3)
        wide = np.float32 if x.dtype.itemsize == 2 else x.dtype
        row["numpy.sum"] = N / best(lambda x=x, wide=wide: np.sum(x, dtype=wide), 3)
        part = x[: N >> 5].tolist()
        row["math.fsum, list of floats"] = len(part) / best(lambda part=part: math.fsum(part), 2)
    return figures


COMMANDS = (
    "--help", "units", "explain --unit V100 '1 + 2^-24 + 2^-24'", "sum x.npy", "cumsum x.npy -o running.npy",
)  # fmt: skip
FIRST_CALLS = (
    "sum(x)", "dot(x, x)", "fsum(x)", "fdot(x, x)", "cumsum(x)", "mma(a, a)", "matmul(a, a)", "segment_sum(x, [0, x.size])",
    "fsum(a, axis=0)",
)  # fmt: skip


def bench_small_calls() -> dict[str, float]:
    """Microseconds of a call with 1,000 float32, the best of batches of 1,000."""
    x = np.random.default_rng(0).standard_normal(1000, dtype=np.float32)
    calls: dict[str, Callable[[], object]] = {"numpy.sum": lambda: np.sum(x)}
    for name in ("sum", "fsum", "cumsum", "norm", "mean"):
        calls[f"tcu.{name}"] = partial(getattr(tcu, name), x)
    calls["tcu.dot"] = lambda: tcu.dot(x, x)
    if find_spec("torch") is not None:
        torch = import_module("torch")
        tensor = torch.from_numpy(x)
        calls["torch.sum, tensor"] = lambda: torch.sum(tensor)
        calls["tcu.sum, tensor"] = lambda: tcu.sum(tensor)

    def batch(call: Callable[[], object]) -> None:
        for _ in range(1000):
            call()

    return {name: 1000 * best(lambda call=call: batch(call)) for name, call in calls.items()}


def bench_four_million() -> dict[str, float]:
    """Milliseconds of a sum of 4 million float32: they fit the last cache of some processors and not of others."""
    x = np.random.default_rng(0).standard_normal(1 << 22, dtype=np.float32)
    functions = {"tcu.sum": tcu.sum, "tcu.fsum": tcu.fsum, "numpy.sum": np.sum}
    return {name: 1000 * best(lambda f=f: f(x), 50) for name, f in functions.items()}


def bench_processes() -> dict[str, dict[str, float]]:
    """Seconds of commands with a warm cache of kernels, and of programs that make one first call with an empty one."""
    start = "import numpy as np, tcu; x = np.ones(10**6, np.float16); a = x[:4096].reshape(64, 64); tcu."
    figures: dict[str, dict[str, float]] = {"seconds of commands": {}, "seconds of first calls": {}}
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/x.npy", np.random.default_rng(0).standard_normal(10**6).astype(np.float16))

        def run(arguments: str, cache: str) -> None:
            subprocess.run(
                f"{sys.executable} {arguments}", shell=True, check=True, cwd=folder, stdout=subprocess.DEVNULL,
                env=os.environ | {"NUMBA_CACHE_DIR": f"{folder}/{cache}"},
            )  # fmt: skip

        for command in COMMANDS:
            figures["seconds of commands"][command] = best(lambda c=command: run(f"-m tcu {c}", "warm"))
        for call in FIRST_CALLS:
            begun = time.perf_counter()
            run(f'-c "{start}{call}"', call)
            figures["seconds of first calls"][call] = time.perf_counter() - begun
    return figures


def main() -> None:
    available = len(os.sched_getaffinity(0))
    figures: dict[str, object] = {}
    for cores in [c for c in (1, 2) if c <= available]:
        os.environ["TCU_NUM_THREADS"] = str(cores)
        mma, sums = bench_mma(), bench_sums()
        calls = {
            "microseconds of a call with 1,000 float32": bench_small_calls(),
            "milliseconds of a sum of 2^22 float32": bench_four_million(),
            **bench_processes(),
        }
        figures[f"{cores} core" + "s" * (cores > 1)] = {
            "m16n8k16 MMAs per second": mma,
            "elements per second": sums,
            **calls,
        }
        print(f"\n{cores} core{'s' * (cores > 1)}")
        for kind, rate in mma.items():
            print(f"  m16n8k16 f16 → f32, {kind:12} {rate:12,.0f} MMAs/s")
        for dtype, row in sums.items():
            for name, rate in row.items():
                print(f"  {dtype:9} {name:28} {rate / 1e6:10,.1f} M elements/s")
        for what, row in calls.items():
            for name, figure in row.items():
                print(f"  {what}: {name:38} {figure:8.2f}")
    print(f"\nwritten to {record.save('cpu', figures)}")


if __name__ == "__main__":
    main()
