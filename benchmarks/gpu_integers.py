"""Long integers on one GPU: tcu.integers beside GMP, with numbers ready-made for each and from Python's integers, told apart.

    python benchmarks/gpu_integers.py [--seconds S] [--dry-run]

Products of two numbers of 2^20, 2^24 and 2^27 bits, batches of products of 2,048 to 65,536 bits with 2^29 bits of factors in
all, powers modulo odd numbers of 2,048 bits, and transforms modulo 2^64 - 2^32 + 1.  "tcu, limbs": factors and product stay on the GPU; times are of CUDA graphs
(tcu/study/gpu/timing.py).  "tcu, Python's integers": executor="gpu", to the GPU and back, by the wall clock.
GMP is gmpy2, else CPython's int: of single products on one core, as GMP multiplies two numbers; of batches on all cores, a
process on each, all at work at once.  FLINT takes part where python-flint is installed.  "ready-made": factors and products are GMP's own numbers.

Every result is compared in the same run: single products with GMP's, of batches every product's remainder modulo 2^61 - 1,
transforms by their inverse and, of 2^16 numbers, with the CPU's.  A result that differs is marked WRONG, and the exit status
is 1.  With --dry-run on the CPU with short numbers; nothing is written.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from multiprocessing import get_context
from multiprocessing.pool import Pool
from typing import Any

import numpy as np
import record
import torch

import tcu
from tcu.study.gpu.timing import Clock, CudaClock, WallClock

try:
    import gmpy2

    GMP, BIG = f"gmpy2 {gmpy2.version()}", gmpy2.mpz
except ImportError:
    GMP, BIG = "CPython's int (no gmpy2)", int
try:
    import flint

    FLINT = {"python-flint": str(flint.__version__)}
except ImportError:
    flint, FLINT = None, {}

SINGLE = (1 << 20, 1 << 24, 1 << 27) if BIG is not int else (1 << 20,)  # of which CPython's int takes minutes
BATCHES = (2048, 8192, 32_768, 65_536)
BATCH_BITS = 1 << 29
POWERS = (2048, 4096)
"""(bits of base, exponent and modulus, how many)."""
SAMPLE = 100
"""Powers that the CPU computes, too."""
TRANSFORMS = ((12, 1 << 12), (16, 1 << 8), (20, 1 << 4), (24, 1))
"""(logarithm of the length, rows)."""
PRIME = (1 << 61) - 1
AT_WORK = 0.3
"""Seconds that each core multiplies, at least."""


def best(run: Callable[[], Any], seconds: float, rounds: int = 3) -> float:
    """Seconds of the fastest call; at least ``rounds`` of them, unless the first took long."""
    times: list[float] = []
    while (
        not times or (sum(times) < seconds and len(times) < 100) or (len(times) < rounds and times[0] < 0.5)
    ):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return min(times)


def powers_per_second(task: tuple[int, int]) -> float:
    """Of one core: powers modulo odd numbers, of numbers of so many bits, ready-made."""
    bits, seed = task
    source = random.Random(seed)
    power = pow if BIG is int else gmpy2.powmod
    triples = [[BIG(source.getrandbits(bits) | 1 | 1 << bits - 1) for _ in range(3)] for _ in range(16)]
    count, began = 0, time.perf_counter()
    while (took := time.perf_counter() - began) < 2 * AT_WORK:
        _ = power(*triples[count % len(triples)])
        count += 1
    return count / took


def products_per_second(task: tuple[int, bool, int]) -> float:
    """Of one core: a few pairs again and again, ready-made or from Python's integers and back."""
    bits, ready, seed = task
    source = random.Random(seed)
    pairs: list[Any] = [(source.getrandbits(bits), source.getrandbits(bits)) for _ in range(16)]
    if ready:
        pairs = [(BIG(a), BIG(b)) for a, b in pairs]
    count, began = 0, time.perf_counter()
    while (took := time.perf_counter() - began) < AT_WORK:
        for _ in range(max(1, (1 << 16) // bits)):
            for a, b in pairs:
                _ = a * b if ready else int(BIG(a) * BIG(b))
            count += len(pairs)
    return count / took


def limbs_of(bits: int, count: int, seed: int) -> Any:
    return np.random.default_rng(seed).integers(0, 1 << 32, (count, bits // 32), dtype=np.uint32)


def timed(call: Callable[[], Any], nbytes: int, clock: Clock, device: str, seconds: float) -> dict[str, Any]:
    calls = {"tcu": lambda number: call()}
    if device == "cuda":
        timing = clock.graph(calls, 1, nbytes, seconds)["tcu"]
    else:
        timing = dict(clock.events(calls, 1, seconds, 5))["tcu"]
    return {"missing": timing} if isinstance(timing, str) else asdict(timing)


def single(bits: int, clock: Clock, device: str, seconds: float) -> dict[str, Any]:
    a, b = (int(tcu.integers.from_limbs(limbs_of(bits, 1, seed)[0])) for seed in (1, 2))
    x, y = (torch.from_numpy(limbs_of(bits, 1, seed)[0]).to(device) for seed in (1, 2))
    left, right = BIG(a), BIG(b)
    wanted = left * right
    product = tcu.integers.multiply_limbs(x, y)
    right_bits = BIG(int(tcu.integers.from_limbs(product.cpu()))) == wanted
    executor = "gpu" if device == "cuda" else None
    right_there = BIG(tcu.integers.multiply(a, b, executor=executor)) == wanted
    participants: dict[str, dict[str, Any]] = {
        "tcu, limbs": {"right": bool(right_bits), **timed(lambda: tcu.integers.multiply_limbs(x, y), bits // 2, clock, device, seconds)},
        "tcu, Python's integers": {"right": bool(right_there), "median": best(lambda: tcu.integers.multiply(a, b, executor=executor), seconds)},
        "GMP, ready-made": {"median": best(lambda: left * right, seconds)},
        "GMP, Python's integers": {"median": best(lambda: int(BIG(a) * BIG(b)), seconds)},
    }  # fmt: skip
    if flint is not None:
        first, second = flint.fmpz(a), flint.fmpz(b)
        participants["FLINT, ready-made"] = {"median": best(lambda: first * second, seconds)}
    return {"bits": bits, "count": 1, "participants": participants}


def remainders(x: Any) -> Any:
    """Of every row modulo 2^61 - 1, by halves of words and the powers of 2^32, all in 64 bits."""
    rows = x.cpu().numpy()
    total = np.zeros(len(rows), np.uint64)
    for limb in range(rows.shape[1] - 1, -1, -1):  # total·2^32 is a rotation of 61 bits by 32
        high, low = total >> np.uint64(29), total & np.uint64((1 << 29) - 1)
        total = (low << np.uint64(32)) + high + rows[:, limb]
        total = (total & np.uint64(PRIME)) + (total >> np.uint64(61))
    return total % np.uint64(PRIME)


def batch(bits: int, total: int, pool: Pool, clock: Clock, device: str, seconds: float) -> dict[str, Any]:
    count = total // (2 * bits)
    x, y = (torch.from_numpy(limbs_of(bits, count, seed)).to(device) for seed in (3, 4))
    product = tcu.integers.multiply_limbs(x, y)
    first, second = (remainders(each).astype(object) for each in (x, y))
    right = bool((remainders(product) == (first * second % PRIME).astype(np.uint64)).all())
    found: dict[str, Any] = {
        "tcu, limbs": {
            "right": right,
            **timed(lambda: tcu.integers.multiply_limbs(x, y), total // 4, clock, device, seconds),
        }
    }
    cores = os.cpu_count() or 1
    for name, ready in (("GMP, ready-made", True), ("GMP, Python's integers", False)):
        rates = pool.map(products_per_second, [(bits, ready, seed) for seed in range(cores)], chunksize=1)
        found[name] = {"median": count / sum(rates), "cores": cores}
    return {"bits": bits, "count": count, "participants": found}


def powers(bits: int, count: int, pool: Pool, clock: Clock, device: str, seconds: float) -> dict[str, Any]:
    a, n, m = (limbs_of(bits, count, seed) for seed in (5, 6, 7))
    m[:, 0] |= 1
    m[:, -1] |= 1 << 31
    x, y, z = (torch.from_numpy(each).to(device) for each in (a, n, m))
    found = tcu.integers.powmod_limbs(x, y, z)
    few = slice(0, None, max(1, count // SAMPLE))
    right = np.array_equal(found.cpu().numpy()[few], tcu.integers.powmod_limbs(a[few], n[few], m[few]))
    again = tcu.integers.multiply_mod_limbs(found, x, z)  # a^n·a is a^(n + 1)
    after = torch.from_numpy(
        tcu.integers.to_limbs(tcu.integers.from_limbs(n) + 1, bits // 32 + 1, dtype=np.uint32)
    ).to(device)
    right = right and torch.equal(
        again.view(torch.int32), tcu.integers.powmod_limbs(x, after, z).view(torch.int32)
    )
    call = lambda: tcu.integers.powmod_limbs(x, y, z, check=False)  # noqa: E731
    cores = os.cpu_count() or 1
    rates = pool.map(powers_per_second, [(bits, seed) for seed in range(cores)], chunksize=1)
    return {
        "bits": bits, "count": count, "powers": True,
        "participants": {
            "tcu, limbs": {"right": right, **timed(call, count * bits // 2, clock, device, seconds)},
            "GMP, ready-made": {"median": count / sum(rates), "cores": cores},
        },
    }  # fmt: skip


def transform(levels: int, rows: int, clock: Clock, device: str, seconds: float) -> dict[str, Any]:
    x = np.random.default_rng(levels).integers(0, tcu.integers.MODULUS, (rows, 1 << levels), dtype=np.uint64)
    y = torch.from_numpy(x).to(device)
    there = tcu.integers.ntt(y)
    right = np.array_equal(tcu.integers.intt(there).cpu().numpy(), x)
    few = max(1, (1 << 16) >> levels)
    if levels <= 20:
        right = right and np.array_equal(there[:few].cpu().numpy(), tcu.integers.ntt(x[:few]))
    times = timed(lambda: tcu.integers.ntt(y), 16 * x.size, clock, device, seconds)
    return {"levels": levels, "rows": rows, "participants": {"tcu": {"right": right, **times}}}


def show(row: dict[str, Any]) -> None:
    name = (
        f"{row['count']:,} × {row['bits']:,} bits"
        if "bits" in row
        else f"ntt {row['rows']} × 2^{row['levels']}"
    )
    cells = [
        f"{who} {one['median'] * 1e6:,.1f} µs" + ("" if one.get("right", True) else " WRONG") if "median" in one
        else f"{who}: {one['missing']}"
        for who, one in row["participants"].items()
    ]  # fmt: skip
    print(name, "; ".join(cells), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=0.3, help="for the times of a participant")
    parser.add_argument(
        "--dry-run", action="store_true", help="on the CPU, short numbers; nothing is written"
    )
    asked = parser.parse_args()
    device, less = ("cpu", 10) if asked.dry_run else ("cuda", 0)
    points: list[dict[str, Any]] = []
    with get_context("fork").Pool(os.cpu_count()) as pool:  # before this process meets the GPU
        pool.map(products_per_second, [(64, True, 0)] * (os.cpu_count() or 1), chunksize=1)
        clock: Clock = WallClock() if asked.dry_run else CudaClock()
        for bits in SINGLE:
            points.append(single(bits >> less, clock, device, asked.seconds))
            show(points[-1])
        for bits in BATCHES:
            points.append(batch(bits, BATCH_BITS >> less, pool, clock, device, asked.seconds))
            show(points[-1])
        points.append(powers(POWERS[0] >> less // 2, POWERS[1] >> less, pool, clock, device, asked.seconds))
        show(points[-1])
        for levels, rows in TRANSFORMS:
            points.append(transform(levels - less // 2, rows, clock, device, asked.seconds))
            show(points[-1])
    if not asked.dry_run:
        print(
            record.save("gpu-integers", {"points": points}, {"torch": torch.__version__, "GMP": GMP} | FLINT)
        )
    return int(not all(one.get("right", True) for row in points for one in row["participants"].values()))


if __name__ == "__main__":
    sys.exit(main())
