"""Both forms of paper 000's kernels: time over B, R and the share of warp shuffles.

Single-pass and split have the paper's atomics, or tcu's tree over the blocks; recurrence and two-mma have a launch for
each level, or one cooperative launch whose blocks meet between levels.

`python benchmarks/gpu_atomic.py` needs the GPU and PyTorch and writes benchmarks/results/gpu-atomic.json in under a
minute.  Both forms take turns on the same buffers, after everything is compiled, several kernels at a time.  Before
that, the bits must be the model's, and what atomics give must lie within the bound that holds for every order.
"""

from __future__ import annotations

import math
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import record
import torch

import tcu
from tcu.formats import get_format
from tcu.gpu.device import current, find_gpu
from tcu.gpu.launch import Launch
from tcu.gpu.sums import contiguous
from tcu.gpu.variants import variant_recipe
from tcu.plan import make_plan
from tcu.study.gpu.data import random_array, to_host
from tcu.study.gpu.timing import CudaClock, buffers_for

SIZES = (1 << 26,)
BLOCKS, CHAINS, FRACTIONS = (
    (32, 64, 128, 256, 512, 1024),
    tuple(range(1, 9)),
    tuple(step / 10 for step in range(11)),
)
LEVEL_SIZES = (1 << 20, 1 << 26)
LEVEL_BLOCKS, LEVEL_CHAINS = (32, 128, 512), tuple(range(1, 6))
LEVEL_FORMS = {"launches": False, "one launch": True}
"""Name → whether all levels are in one launch."""
SECONDS = 0.06
"""For both forms of a row together."""
ODD = 3_000_001
"""Numbers of the arrays that are checked: more blocks than one warp gathers."""

Options = dict[str, Any]


class WrongSumError(Exception):
    """A sum's bits are not the model's, or it is further from the truth than proved."""


def configurations() -> list[Options]:
    return [
        *({"variant": "single-pass", "block": block, "chain": chain} for block in BLOCKS for chain in CHAINS),
        *({"variant": "split", "fraction": fraction} for fraction in FRACTIONS),
        {"variant": "warp-shuffle"},
    ]


def atomic(options: Options) -> Options:
    return {**options, "variant": f"{options['variant']}-atomic"}


def compile_all(options: Options) -> None:
    """Into the cache on disk that all processes share."""
    for each in (options, *([atomic(options)] if options["variant"] != "warp-shuffle" else ())):
        tcu.sum(torch.zeros(1 << 20, dtype=torch.float16, device="cuda"), **each)


def check(options: Options) -> None:
    x = random_array("normal", ODD, "float16", "cuda")
    host = to_host(x)
    unit = tcu.sum(x, **options, return_info=True)[1].unit
    here = tcu.sum(host, unit=unit, **options)
    if float(tcu.sum(x, **options)) != float(here):
        raise WrongSumError(f"{options}: not the model's bits")
    if options["variant"] == "warp-shuffle":
        return
    bound = tcu.error_bound(host, unit=unit, **atomic(options))
    exact = math.fsum(host.tolist())
    for _ in range(20):
        error = abs(float(tcu.sum(x, **atomic(options), dtype="float64")) - exact)
        if not error <= bound:
            raise WrongSumError(f"{atomic(options)}: error {error}, bound {bound}")


def row(options: Options, n: int, arrays: list[torch.Tensor], clock: CudaClock) -> Options:
    calls = {"tree": lambda number: tcu.sum(arrays[number % len(arrays)], **options)}
    if options["variant"] != "warp-shuffle":
        calls["atomic"] = lambda number: tcu.sum(arrays[number % len(arrays)], **atomic(options))
    found = {name: timing.median for name, timing in clock.events(calls, len(arrays), SECONDS).items()}
    ratio = found["atomic"] / found["tree"] if "atomic" in found else None
    return {"n": n, **options, "seconds": found, "tree's speed in that of atomics": ratio}


def level_configurations() -> list[Options]:
    return [
        *(
            {"variant": "recurrence", "block": block, "chain": chain}
            for block in LEVEL_BLOCKS
            for chain in LEVEL_CHAINS
        ),
        *({"variant": "two-mma", "block": block} for block in LEVEL_BLOCKS),
    ]


def level_launches(options: Options, n: int) -> dict[str, Launch]:
    """Of n numbers of float16, to float32."""
    gpu = find_gpu()
    plan = make_plan(n, get_format("float16"), gpu.unit, **options)
    with current(gpu):
        return {
            form: Launch(
                variant_recipe(
                    plan, contiguous(0, n), "ALIGNED", get_format("float32"), gpu, together=together
                ),
                gpu,
            )
            for form, together in LEVEL_FORMS.items()
        }


def compile_levels(options: Options) -> None:
    level_launches(options, 1 << 20)


def start(launch: Launch, x: torch.Tensor, out: torch.Tensor) -> None:
    launch.start(x.data_ptr(), 0, out.data_ptr(), torch.cuda.current_stream().cuda_stream)


def check_levels(options: Options) -> None:
    x = random_array("normal", ODD, "float16", "cuda")
    out = torch.zeros((), dtype=torch.float32, device="cuda")
    here = tcu.sum(to_host(x), unit=find_gpu().unit.name, dtype="float32", **options)
    for form, launch in level_launches(options, ODD).items():
        for _ in range(3):
            out.fill_(math.nan)
            start(launch, x, out)
            if float(out) != float(here):
                raise WrongSumError(f"{options}, {form}: not the model's bits")


def level_row(options: Options, n: int, arrays: list[torch.Tensor], clock: CudaClock) -> Options:
    out = torch.zeros((), dtype=torch.float32, device="cuda")
    calls = {
        form: lambda number, launch=launch: start(launch, arrays[number % len(arrays)], out)
        for form, launch in level_launches(options, n).items()
    }
    found = {name: timing.median for name, timing in clock.events(calls, len(arrays), SECONDS).items()}
    return {"n": n, **options, "seconds": found}


def arrays_of(n: int, clock: CudaClock) -> list[torch.Tensor]:
    return [random_array("normal", n, "float16", "cuda") for _ in range(buffers_for(2 * n, clock.l2, True))]


def main() -> None:
    with ProcessPoolExecutor(min(12, os.cpu_count() or 1), multiprocessing.get_context("spawn")) as pool:
        list(pool.map(compile_all, configurations()))
        list(pool.map(compile_levels, level_configurations()))
    for options in configurations()[:: len(CHAINS) - 1]:
        check(options)
    for options in level_configurations():
        check_levels(options)
    print("checked", flush=True)
    clock, rows, levels = CudaClock(), [], []
    for n in SIZES:
        arrays = arrays_of(n, clock)
        rows += [row(options, n, arrays, clock) for options in configurations()]
        at_n = [one["tree's speed in that of atomics"] for one in rows if one["n"] == n]
        print(
            n,
            "tree in the speed of atomics, least and most:",
            min(filter(None, at_n)),
            max(filter(None, at_n)),
            flush=True,
        )
        record.save("gpu-atomic", {"rows": rows, "levels": levels})
    for n in LEVEL_SIZES:
        arrays = arrays_of(n, clock)
        levels += [level_row(options, n, arrays, clock) for options in level_configurations()]
        ratios = [
            one["seconds"]["launches"] / one["seconds"]["one launch"] for one in levels if one["n"] == n
        ]
        print(n, "one launch in the speed of launches, least and most:", min(ratios), max(ratios), flush=True)
        record.save("gpu-atomic", {"rows": rows, "levels": levels})


if __name__ == "__main__":
    main()
