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
import time

import numpy as np
import record

from tcu.formats import get_format
from tcu.gpu import find_gpu, multiply_accumulate
from tcu.model.mma import multiply_accumulate as modelled
from tcu.probes import infer
from tcu.probes.inputs import adversarial
from tcu.probes.target import as_target
from tcu.units import find_instruction

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


def compare(outputs: int) -> list[dict[str, object]]:
    gpu = find_gpu()
    unit = gpu.units[0]
    rows = []
    for kernel in gpu.kernels:
        row = find_instruction(unit, kernel.name, kernel.a, kernel.b, kernel.output)
        figures: dict[str, object] = {"instruction": kernel.signature, "mnemonic": kernel.mnemonic}
        if row.k == kernel.k and kernel.a == kernel.b:
            name, given, result = kernel.name, kernel.a, kernel.output
            target = as_target("gpu", instruction=name, input=given, output=result, k=kernel.k)
            rng, different, tried = np.random.default_rng(0), 0, 0
            x, z = get_format(given).dtype, get_format(result).dtype
            while tried < outputs:
                q = adversarial(target, rng, 256, 256)
                got = np.asarray(multiply_accumulate(q.a.view(x), q.b.view(x), q.c.view(z), row))
                expected = modelled(q.a.view(x), q.b.view(x), q.c.view(z), row)
                different += int(np.count_nonzero(got.view(q.c.dtype) != expected.view(q.c.dtype)))
                tried += q.c.size
            start = time.perf_counter()
            found = infer(target)
            figures |= {
                "outputs": tried, "different": different, "inferred": found.conclusion,
                "identified": found.identified, "seconds": round(time.perf_counter() - start, 2),
                "inference_tried": found.tried, "inference_different": found.different,
            }  # fmt: skip
            print(figures["instruction"], tried, different, found.conclusion, figures["seconds"], flush=True)
            rows.append(figures)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--outputs", type=int, default=1_000_000, help="outputs per instruction")
    started = start_up()
    rows = compare(parser.parse_args().outputs)
    gpu = find_gpu()
    figures = {"gpu": gpu.name, "compute_capability": gpu.compute_capability, "start": started, "rows": rows}
    print(f"written to {record.save('gpu-units', figures)}")


if __name__ == "__main__":
    main()
