"""Errors of matrix products by the length of their chains: what the chunks of tcu.matmul were chosen by.

Method: products of 16 × K by K × 16 on the model of an H100 (wgmma), normal
numbers and numbers uniform in [0, 1), rounded to the format first (float32 to
TF32).  An error is the root mean square of the difference from the product in
binary64, over that of the product, in units of 2^-24: 1 is the error of one
rounding to binary32 at most.  Beside it the largest of tcu.matmul_error_bound
in the same units, and the rates at which one core multiplies, by the time that it
worked, so that other work on the machine counts little.
"""

from __future__ import annotations

import os
import time

import numpy as np
import record

import tcu
from tcu.engines.host.matmul import as_operand
from tcu.formats import get_format
from tcu.model.mma import multiply_in_chunks
from tcu.plan import make_matmul_plan
from tcu.units import product_instruction

FORMATS = ("binary16", "bfloat16", "binary32", "e4m3")
CHUNKS = (64, 128, 256, 512, 1024)
LENGTHS = tuple(1 << p for p in range(6, 21, 2))
UNIT = "H100"


def operands(name: str, kind: str, shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    values = rng.standard_normal(shape) if kind == "normal" else rng.random(shape)
    plan = make_matmul_plan(1, name, name)
    return as_operand(values.astype(np.float32).astype(get_format(name).dtype), plan)


def errors(name: str, kind: str, k: int, rng: np.random.Generator) -> dict[str, float]:
    plan = make_matmul_plan(k, name, name)
    row = product_instruction(UNIT, *plan.operands, plan.accumulator)
    lost: dict[str, list[np.ndarray]] = {}
    exact, bounds = [], []
    for _ in range(max(1, min(16, (1 << 14) // k))):
        a, b = operands(name, kind, (16, k), rng), operands(name, kind, (k, 16), rng)
        exact.append(a.astype(np.float64) @ b.astype(np.float64))
        for chunk in (*(c for c in CHUNKS if c < k), 1 << 20):
            label = "chain" if chunk == 1 << 20 else str(chunk)
            lost.setdefault(label, []).append(multiply_in_chunks(a, b, row, chunk) - exact[-1])
        bounds.append(tcu.matmul_error_bound(a, b, unit=UNIT).max())
        if not np.array_equal(tcu.matmul(a, b, unit=UNIT), multiply_in_chunks(a, b, row, plan.chunk)):
            raise SystemExit(f"{name}, {k}: other bits")
    scale = np.sqrt(np.mean(np.square(exact))) * 2.0**-24
    figures = {label: float(np.sqrt(np.mean(np.square(each))) / scale) for label, each in lost.items()}
    return figures | {"bound": float(max(bounds) / scale), "chunk": plan.chunk}


def rates(name: str) -> dict[str, float]:
    """Multiplications and additions per second of 256 × 4096 × 256 on one core, the best of five calls, in turns."""
    os.environ["TCU_NUM_THREADS"] = "1"
    rng = np.random.default_rng(1)
    a, b = operands(name, "normal", (256, 4096), rng), operands(name, "normal", (4096, 256), rng)
    times: dict[str, list[float]] = {"chunks": [], "chain": []}
    for _ in range(6):
        for plan, found in times.items():
            start = time.process_time()
            tcu.matmul(a, b, plan=plan, unit=UNIT)  # type: ignore[arg-type]
            found.append(time.process_time() - start)
    return {plan: 2 * 256 * 4096 * 256 / min(found[1:]) for plan, found in times.items()}


def main() -> None:
    rng = np.random.default_rng(0)
    figures: dict[str, dict[str, dict[str, float]]] = {"rates": {}}
    for name in FORMATS:
        figures["rates"][name] = rates(name)
        print(
            name,
            {plan: f"{rate / 1e9:.1f} GFLOP/s" for plan, rate in figures["rates"][name].items()},
            flush=True,
        )
        for kind in ("normal", "uniform"):
            rows = figures[f"{name}, {kind}"] = {}
            for k in LENGTHS:
                rows[str(k)] = errors(name, kind, k, rng)
                print(
                    name,
                    kind,
                    k,
                    {label: f"{value:.4g}" for label, value in rows[str(k)].items()},
                    flush=True,
                )
    for name in ("e5m2", "binary64"):
        figures["rates"][name] = rates(name)
        print(
            name,
            {plan: f"{rate / 1e9:.1f} GFLOP/s" for plan, rate in figures["rates"][name].items()},
            flush=True,
        )
    print(f"written to {record.save('matmul-errors', figures)}")


if __name__ == "__main__":
    main()
