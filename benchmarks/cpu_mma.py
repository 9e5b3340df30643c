"""Speed of MMAs of whole matrices on the CPU: sums in 32-bit words beside the same sums in binary64.

Method: A, B and C of n by n; each figure is the best of several calls, wall
clock, the two ways and the numbers of cores in turn, so that other work on the
machine meets all of them.  In the same run, every result has the bits of the
other way, and a sample those of the definition.  The sums in binary64 stay for
the rows that do not fit the words; a whole matrix of theirs is one core's work.

The ceiling, of sums of sixteen products: this core does so many vector operations a second (vector_rate), and machine code
has OPERATIONS of them for a block of sixteen outputs.
"""

from __future__ import annotations

import os
import time
from contextlib import nullcontext
from typing import Any
from unittest import mock

import numba
import numpy as np
import record
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from tcu.formats import get_format
from tcu.model.definition import dot
from tcu.model.mma import multiply_accumulate
from tcu.model.vector_expressions import LANES, load, store
from tcu.probes import inputs
from tcu.units import AlignedSum, Instruction, find_instruction

ROWS = (
    ("H100", "mma", "binary16"), ("V100", "mma", "binary16"), ("H100", "mma", "bfloat16"), ("H100", "mma", "tf32"),
    ("H100", "wgmma", "e4m3"),
)  # fmt: skip
SIZES = (256, 1024)
WIDE = "binary64, 1 core"
CEILING = "ceiling, 1 core"
OPERATIONS = 96
"""For 16 products of 16 outputs: 64 multiply, scale, cut and add, 19 find the common exponents, 13 round (AVX-512, counted)."""
CHAINS, STEPS = 12, 16
"""Of vector_rate: vectors side by side, so that none waits for another one, and operations on each, between two stores."""


@intrinsic  # type: ignore[untyped-decorator]
def _steps(typingctx: Any, numbers: Any, words: Any) -> Any:
    """Of CHAINS vectors of sixteen: STEPS times what a product takes, in registers."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        places = [ir.Constant(ir.IntType(64), LANES * i) for i in range(CHAINS)]
        values, sums = (
            [load(context, builder, kind, array, place) for place in places]
            for kind, array in zip(signature.args, args, strict=True)
        )
        for _ in range(STEPS):
            values = [value * 3.0 * (1 / 3) for value in values]
            sums = [total + value.cut_to_words() for total, value in zip(sums, values, strict=True)]
        for kind, array, vectors in zip(signature.args, args, (values, sums), strict=True):
            for place, vector in zip(places, vectors, strict=True):
                store(context, builder, kind, array, place, vector)
        return context.get_dummy_value()

    return types.void(numbers, words), codegen


@numba.njit(nogil=True)  # type: ignore[untyped-decorator]
def _many_steps(numbers: Any, words: Any, count: int) -> None:
    for _ in range(count):
        _steps(numbers, words)


def vector_rate() -> float:
    """Operations on sixteen words a second: multiplications, conversions and additions, as many of each as products have."""
    numbers, words = np.ones(CHAINS * LANES, np.float32), np.zeros(CHAINS * LANES, np.int32)
    _many_steps(numbers, words, 1)
    count, best = 2000, np.inf
    for _ in range(20):
        start = time.perf_counter()
        _many_steps(numbers, words, count)
        best = min(best, time.perf_counter() - start)
    return 4 * CHAINS * STEPS * count / best


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
                assert isinstance(row.arithmetic, AlignedSum)
                if kind == "ordinary" and row.arithmetic.block == 16:
                    figures[case][CEILING] = 2 * 16 * 16 * vector_rate() / OPERATIONS
                rates = "  ".join(f"{way} {rate / 1e9:6.2f}" for way, rate in figures[case].items())
                print(f"{case:50} GFLOP/s: {rates}", flush=True)
    print(f"written to {record.save('cpu-mma', figures)}")


if __name__ == "__main__":
    main()
