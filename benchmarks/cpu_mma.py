"""Speed of MMAs of whole matrices on the CPU: sums in 32-bit words beside the same sums in binary64.

Method: A, B and C of n by n; each figure is the best of several calls, wall
clock, the two ways and the numbers of cores in turn, so that other work on the
machine meets all of them.  In the same run, every result has the bits of the
other way, and a sample those of the definition.  The sums in binary64 stay for
the rows that do not fit the words; a whole matrix of theirs is one core's work.
"""

from __future__ import annotations

import os
import time
from contextlib import nullcontext
from unittest import mock

import numpy as np
import record

from tcu.formats import get_format
from tcu.model.definition import dot
from tcu.model.mma import multiply_accumulate
from tcu.probes import inputs
from tcu.units import Instruction, find_instruction

ROWS = (
    ("H100", "mma", "binary16"), ("V100", "mma", "binary16"), ("H100", "mma", "bfloat16"), ("H100", "mma", "tf32"),
    ("H100", "wgmma", "e4m3"),
)  # fmt: skip
SIZES = (256, 1024)
WIDE = "binary64, 1 core"


def operands(row: Instruction, n: int, kind: str) -> list[np.ndarray]:
    """Normal numbers, or any bit patterns: inf, NaN, subnormals and all exponents."""
    rng = np.random.default_rng(n)
    formats = [get_format(name) for name in (row.a, row.b, row.output)]
    if kind == "ordinary":
        return [rng.standard_normal((n, n), np.float32).astype(fmt.dtype) for fmt in formats]
    return [inputs.codes(rng, fmt, (n, n), "bits").view(fmt.dtype) for fmt in formats]


def check(row: Instruction, a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray) -> None:
    x, y, z = (get_format(name) for name in (row.a, row.b, row.output))
    left, right = a.view(x.code_dtype) >> x.storage_shift, b.view(y.code_dtype) >> y.storage_shift
    rng = np.random.default_rng(1)
    for i, j in rng.integers(0, len(a), (40, 2)):
        expected = dot(left[i].tolist(), right[:, j].tolist(), int(c.view(z.code_dtype)[i, j]), row)
        if expected != int(d.view(z.code_dtype)[i, j]):
            raise SystemExit(f"{row.signature}: wrong at {i, j}")


def seconds(row: Instruction, data: list[np.ndarray], way: str) -> tuple[float, np.ndarray]:
    os.environ["TCU_NUM_THREADS"] = "2" if "2 cores" in way else "1"
    with mock.patch("tcu.model.mma.is_narrow", return_value=False) if way == WIDE else nullcontext():
        start = time.perf_counter()
        result = multiply_accumulate(*data, row)
        return time.perf_counter() - start, result


def bench(row: Instruction, n: int, kind: str, ways: list[str]) -> dict[str, float]:
    """Multiplications and additions per second."""
    data = operands(row, n, kind)
    results = {way: seconds(row, data, way)[1] for way in ways}
    check(row, *data, results[ways[0]])
    if len({result.tobytes() for result in results.values()}) != 1:
        raise SystemExit(f"{row.signature}: the ways differ")
    calls = 40 if n < 512 else 5
    times = [[seconds(row, data, way)[0] for way in ways] for _ in range(calls)]
    return {way: 2 * n**3 / min(column) for way, column in zip(ways, zip(*times, strict=True), strict=True)}


def main() -> None:
    available = len(os.sched_getaffinity(0))
    ways = [WIDE, "words, 1 core", *(["words, 2 cores"] if available > 1 else [])]
    figures: dict[str, dict[str, float]] = {}
    for unit, instruction, name in ROWS:
        row = find_instruction(unit, instruction, name, name, "binary32")
        for n in SIZES:
            for kind in ("ordinary", "adversarial"):
                case = f"{unit} {row.signature}, {n}³, {kind}"
                figures[case] = bench(row, n, kind, ways)
                rates = "  ".join(f"{way} {rate / 1e9:6.2f}" for way, rate in figures[case].items())
                print(f"{case:50} GFLOP/s: {rates}", flush=True)
    print(f"written to {record.save('cpu-mma', figures)}")


if __name__ == "__main__":
    main()
