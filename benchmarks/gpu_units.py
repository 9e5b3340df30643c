"""The GPU at hand against the catalogue: every instruction's bits, blind inference, and how soon it starts.

For every instruction that the GPU has: adversarial outputs compared with the
model bit for bit, then its arithmetic inferred without a look at the
catalogue and compared once more on fresh inputs.  Start-up is measured in
new processes, with an empty cache and with a warm one.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile

import record

from tcu.gpu import find_gpu
from tcu.study.hardware import compare

START = """
import time; t = time.perf_counter()
import numpy as np
a = time.perf_counter()
import tcu
x = np.ones((16, 16), np.float16)
b = time.perf_counter()
tcu.mma(x, x, executor="gpu")
c = time.perf_counter()
tcu.mma(x, x, executor="gpu")
print(a - t, b - a, c - b, time.perf_counter() - c)
"""


def start_up() -> dict[str, dict[str, float]]:
    """Seconds in a new process: importing NumPy, importing tcu, the first and the second MMA."""
    names = ("import numpy", "import tcu", "first MMA", "second MMA")
    figures = {}
    with tempfile.TemporaryDirectory() as folder:
        for state in ("empty cache", "warm cache", "warm cache, again"):
            out = subprocess.run(
                [sys.executable, "-c", START], capture_output=True, text=True, check=True,
                env=os.environ | {"TCU_CACHE_DIR": folder},
            ).stdout  # fmt: skip
            figures[state] = dict(zip(names, map(float, out.split()), strict=True))
            print(state, figures[state], flush=True)
    return figures


def compare_all(outputs: int) -> list[dict[str, object]]:
    gpu = find_gpu()
    rows = []
    for kernel in gpu.kernels:
        row = compare(gpu, kernel, outputs)
        if row is not None:
            print(*row.values(), flush=True)
            rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--outputs", type=int, default=1_000_000, help="outputs per instruction")
    started = start_up()
    rows = compare_all(parser.parse_args().outputs)
    gpu = find_gpu()
    figures = {"gpu": gpu.name, "compute_capability": gpu.compute_capability, "start": started, "rows": rows}
    print(f"written to {record.save('gpu-units', figures)}")


if __name__ == "__main__":
    main()
