"""What PyTorch's products and sums on the GPU at hand really add: every point's plan, on a million fresh outputs.

Points run side by side, each in a process of its own share of the cores, because drawing operands and replaying
the plan take the processor's time.  Points that an earlier file has decided are not measured again.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import itertools
import json
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ |= {"TCU_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}  # of every process, before anything reads them

import record

import tcu
from tcu.study.libraries import revealed

SHAPES = (
    (64, 64, 64), (64, 64, 256), (64, 64, 1024), (128, 128, 64), (128, 128, 256), (128, 128, 1024), (128, 128, 4096),
    (256, 256, 64), (256, 256, 256), (256, 256, 1024), (96, 160, 352), (208, 112, 1008), (512, 512, 512),
)  # fmt: skip
FORMATS = ("float16", "bfloat16", "tf32", "e4m3", "e4m3 fast")
ORDINARY = (("float32", SHAPES[1]), ("float32", SHAPES[9]), ("float64", SHAPES[1]), ("float64", SHAPES[4]))
SUMS = (
    ("torch.sum", "sum", "float32", 1000), ("torch.sum", "sum", "float16", 1000), ("torch.sum", "sum", "float32", 4000),
    ("torch.cumsum", "cumsum", "float32", 500), ("cupy.sum", "sum", "float32", 1000), ("cupy.cumsum", "cumsum", "float32", 500),
)  # fmt: skip
OUTPUTS, SUMMED = 1_000_000, 2000
LIBRARIES = ("torch", "cupy")


def points() -> list[dict[str, Any]]:
    products = [*itertools.product(FORMATS, SHAPES), *ORDINARY]
    return [
        {"target": "torch._scaled_mm" if "e4m3" in name else "torch.matmul", "kind": "matmul", "dtype": name,
         "shape": list(shape), "outputs": OUTPUTS} for name, shape in products
    ] + [
        {"target": target, "kind": kind, "dtype": name, "n": n, "outputs": SUMMED} for target, kind, name, n in SUMS
        if importlib.util.find_spec(target.split(".")[0])
    ]  # fmt: skip


def function_of(point: dict[str, Any]) -> tuple[Callable[..., Any], Any]:
    """What is asked, and the dtype of its arrays."""
    import torch

    name, target = point["dtype"], point["target"]
    if target == "torch._scaled_mm":
        one = torch.ones((), device="cuda")

        def scaled(a: Any, b: Any) -> Any:
            columns = b.cuda().t().contiguous().t()
            return torch._scaled_mm(
                a.cuda(), columns, scale_a=one, scale_b=one, out_dtype=torch.float32, use_fast_accum="fast" in name,
            )  # fmt: skip

        return scaled, torch.float8_e4m3fn
    if target.startswith("cupy"):
        import cupy

        called = getattr(cupy, target.split(".")[1])
        return lambda x: cupy.asnumpy(called(cupy.asarray(x))), name
    torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
    called, further = getattr(torch, target.split(".")[1]), {"dim": 0} if point["kind"] == "cumsum" else {}
    return lambda *x: called(*(each.cuda() for each in x), **further), getattr(
        torch, "float32" if name == "tf32" else name
    )


class Late(Exception):
    """A point takes longer than it may."""


def late(*_: Any) -> None:
    raise Late


def measure(point: dict[str, Any], seconds: int) -> dict[str, Any]:
    signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        row = revealed(point, *function_of(point))
    except Late:
        row = point | {"missing": f"not decided within {seconds} s"}
    except Exception as error:  # a library that refuses a shape or a format
        row = point | {"missing": f"{type(error).__name__}: {error}".splitlines()[0][:300]}
    finally:
        signal.alarm(0)
    return row


def key(point: dict[str, Any]) -> str:
    return json.dumps([point.get(name) for name in ("target", "kind", "dtype", "shape", "n", "outputs")])


def weight(point: dict[str, Any]) -> int:
    """About how many numbers are drawn."""
    m, n, k = point.get("shape", (1, 1, point.get("n")))
    rows = OUTPUTS // (m * n) + 60 if point["kind"] == "matmul" else 20_000
    return int(rows * k * (m + n))


def warm() -> None:
    """What every process would import and compile, once, before they fork; no CUDA yet, which no fork survives."""
    importlib.import_module("torch")
    point = {"kind": "matmul", "shape": [16, 16, 64], "outputs": 300}
    for name in ("float16", "bfloat16", "float32", "e4m3"):
        revealed(point, lambda a, b: tcu.mma(a, b, unit="H200"), name)


def measured(left: list[dict[str, Any]], workers: int, seconds: int, each: int) -> Iterator[dict[str, Any]]:
    """Rows as they come, until the time is over: quick points first."""
    end = time.monotonic() + seconds
    warm()
    print(f"{end - time.monotonic():.1f} s left", flush=True)
    with multiprocessing.get_context("fork").Pool(workers) as pool:
        rows = [pool.apply_async(measure, (point, each)) for point in sorted(left, key=weight)]
        while rows and time.monotonic() < end:
            for row in [row for row in rows if row.ready()]:
                rows.remove(row)
                yield row.get()
            time.sleep(0.05)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=300, help="for all points together")
    parser.add_argument("--each", type=int, default=60, help="seconds for a point")
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 1) - 1))
    parser.add_argument("--known", type=Path, help="an earlier result, whose decided points are kept")
    options = parser.parse_args()
    known = {} if options.known is None else decided(json.loads(options.known.read_text())["figures"]["rows"])
    left = [point for point in points() if key(point) not in known]
    save(known)
    for row in measured(left, options.workers, options.seconds, options.each):
        known[key(row)] = row
        save(known)  # as the next point may be the last one that is heard of
        print(*(row.get(name) for name in ("target", "dtype", "shape", "n", "missing", "conclusion", "operations",
                                           "chains", "seconds")), flush=True)  # fmt: skip


def decided(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {key(row): row for row in rows if "missing" not in row}


def save(known: dict[str, dict[str, Any]]) -> None:
    rows = [
        known.get(key(point), point | {"missing": "not measured: the time was over"}) for point in points()
    ]
    installed = [name for name in LIBRARIES if importlib.util.find_spec(name)]
    record.save(
        "gpu-libraries",
        {"rows": rows},
        {name: importlib.import_module(name).__version__ for name in installed},
    )


if __name__ == "__main__":
    main()
