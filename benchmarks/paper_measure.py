"""What paper 000 measured, measured again: the sweeps of R, B and the split, and every variant over n.

Times are of one call by CUDA events (gpu_timing.py), on one buffer as in the
paper; errors are against the exact sum.  The sweeps are made at the paper's n
of about a million, where an H200 measures its launches, and at one that fills it.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import record
from gpu_data import DISTRIBUTIONS, random_array, reference, to_host
from gpu_peers import Libraries, Participant, cub_name, gather, result_value, sum_of
from gpu_timing import Clock, CudaClock, WallClock, first_line

SWEEP_SIZES = (1 << 20, 1 << 26)
CHAINS = tuple(range(1, 9))
BLOCKS = (32, 64, 128, 256, 512, 1024)
FRACTIONS = tuple(step / 10 for step in range(11))
COMPARED = (*(1 << power for power in range(16, 29, 2)), 400_000_000)
SECONDS = 0.1
"""For each call that takes part in a row of turns."""
CUB_HALF, CUB_FLOAT = cub_name("float16", "float16"), cub_name("float32", "float32")


def measure(quick: bool, cccl: Path | None, dry_run: bool) -> Path:
    """All figures, into benchmarks/results."""
    libraries = None if dry_run else Libraries(["float16", "float32"], cccl)
    clock: Clock = WallClock() if dry_run else CudaClock()
    sizes = SWEEP_SIZES[:1] if quick else SWEEP_SIZES
    chains, blocks = ((1, 4), (32, 128)) if quick else (CHAINS, BLOCKS)
    sweeps = {
        "3": [
            {"variant": "recurrence", "chain": r, "block": b} for b, r in itertools.product(blocks, chains)
        ],
        "5": [
            {"variant": "single-pass", "chain": r, "block": b} for b, r in itertools.product(blocks, chains)
        ],
        "6": [{"variant": "split", "fraction": fraction} for fraction in FRACTIONS],
    }
    versions = {} if libraries is None else {"CCCL": libraries.cccl.version}
    name = "paper-000-dry-run" if dry_run else "paper-000"
    began, figures = time.perf_counter(), {}
    for figure, options in sweeps.items():
        figures[figure] = [row for n in sizes for row in sweep(n, options, clock, on_gpu=not dry_run)]
        print(f"figure {figure} after {time.perf_counter() - began:.0f} s", flush=True)
        record.save(name, figures, versions)  # what is done stays, whatever happens later
    compared = COMPARED[:3] if quick else COMPARED
    figures["7 and 8"] = [row for n in compared for row in compare(n, clock, libraries)]
    print(f"figures 7 and 8 after {time.perf_counter() - began:.0f} s", flush=True)
    return record.save(name, figures, versions)


def sweep(n: int, options: list[dict[str, Any]], clock: Clock, on_gpu: bool) -> Iterator[dict[str, Any]]:
    """Time and error of tcu.sum with each set of parameters, on normal binary16 data."""
    x = random_array("normal", n, "float16", "cuda" if on_gpu else "cpu")
    who = [
        Participant(str(number), sum_of(**option), prepare=(lambda x: x) if on_gpu else to_host)
        for number, option in enumerate(options)
    ]
    for option, row in zip(options, rows(who, {"normal": x}, clock), strict=True):
        yield {"n": n, **option, **row}


def compare(n: int, clock: Clock, libraries: Libraries | None) -> Iterator[dict[str, Any]]:
    """Time and error of every variant, the classic reduction and CUB in binary16 and binary32."""
    field = gather("float16", libraries, variants=True, compiled=False).participants
    who = [one for one in field if one.name.startswith(("tcu", "warp")) or one.name == CUB_HALF]
    if libraries is not None:
        # It reads the same numbers as binary32, twice the bytes.
        cub = [one for one in libraries.cub("float32").participants if one.name == CUB_FLOAT]
        who += [Participant(one.name, one.run, lambda x: x.float()) for one in cub]
    data = {name: random_array(name, n, "float16", "cuda" if libraries else "cpu") for name in DISTRIBUTIONS}
    for one, row in zip(who, rows(who, data, clock), strict=True):
        yield {"n": n, "who": one.name, **row}


def rows(who: list[Participant], data: dict[str, Any], clock: Clock) -> list[dict[str, Any]]:
    """For each participant its seconds on normal data and percent errors, or in words why there are none."""
    exact = {name: reference(x).exact for name, x in data.items()}
    calls: dict[str, Callable[[int], Any]] = {}
    found: dict[str, dict[str, Any]] = {}
    for one in who:
        try:
            arrays = {name: one.prepare(x) for name, x in data.items()}
            errors = {name: percent(result_value(one.run(x)), exact[name]) for name, x in arrays.items()}
        except Exception as error:  # parameters that the variant or this GPU does not take
            found[one.name] = {"missing": first_line(error)}
        else:
            found[one.name] = {"percent_error": errors}
            calls[one.name] = partial(_call, one.run, arrays["normal"])
    for name, timing in clock.events(calls, 1, SECONDS * len(calls)).items():
        found[name]["seconds"] = timing.median
    return [found[one.name] for one in who]


def _call(run: Callable[[Any], Any], x: Any, number: int) -> Any:
    return run(x)


def percent(value: float, exact: float) -> float | None:
    """None: the sum overflowed."""
    return 100 * abs(value - exact) / abs(exact) if math.isfinite(value) else None
