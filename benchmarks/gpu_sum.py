"""Sums on one GPU: tcu against CUB, PyTorch, CuPy, the classic reduction, and reading alone.

One run measures speed, error, energy and the host's time, so that every ratio
is of figures taken side by side.  gpu_timing.py says how calls are timed and
when buffers rotate.  CUB writes to a result and storage allocated once; the
others allocate their results, as their users get them.

A result beyond its allowed error, or a sum by tcu whose bits are not those of
the CPU model, is marked WRONG; if it is one of tcu, the exit status is 1.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import gpu_build
import gpu_claims
import gpu_table
import numpy as np
import record
import torch
from gpu_data import (
    DISTRIBUTIONS,
    DTYPES,
    HARD,
    Reference,
    check_against_math,
    itemsize,
    random_array,
    reference,
    to_host,
)
from gpu_energy import EnergyMeter
from gpu_peers import READ, Libraries, Participant, cub_name, gather, result_bits, result_format, result_value
from gpu_timing import Clock, CudaClock, Timing, WallClock, buffers_for, first_line, host_time

import tcu

SIZES = tuple(1 << power for power in (16, 20, 22, 24, 26, 28, 30, 31))
QUICK = tuple(1 << power for power in (20, 24, 28))
LARGEST = {"float16": 1 << 31, "bfloat16": 1 << 31, "float32": 1 << 30, "float64": 1 << 29}
MODELLED = 1 << 22
"""Largest array that the CPU model sums too."""
ENERGY_SIZE = 1 << 30
HARD_SIZE = (1 << 26) + 3
HOST_TIME_SIZE = 1024
SECTIONS = (*DTYPES, "hard", "energy", "host")

OURS = ("tcu.sum", "tcu.fsum")
"""Timed on uniform numbers too: what an exact sum costs may depend on them."""


def views(pool: torch.Tensor, n: int, buffers: int) -> list[torch.Tensor]:
    return [pool[i * n : (i + 1) * n] for i in range(buffers)]


def verdict(who: Participant, x: torch.Tensor, wanted: Reference) -> dict[str, Any]:
    """One call's result: its error, and "right", "overflow" (of a narrow result) or "WRONG"."""
    result = who.run(who.prepare(x))
    if who.allowed is None:
        return {}
    value, fmt = result_value(result), result_format(result)
    spacing = float(np.finfo(fmt).eps)
    error = abs(value - wanted.exact)
    with np.errstate(over="ignore", invalid="ignore"):  # a sum beyond binary16 has no ulp
        nearest = float(np.spacing(np.abs(np.asarray(wanted.exact).astype(fmt))))
    found = {"result": repr(value), "format": fmt, "ulps": error / nearest if math.isfinite(error) else None}
    if who.model is not None and x.numel() <= MODELLED:
        # The model knows what overflows and what is lost; its bits say more than a bound.
        right = result_bits(result) == result_bits(who.model(to_host(x)))
        found["model_bits_equal"] = right
    elif not math.isfinite(value) and who.may_overflow:
        return found | {"state": "overflow"}
    elif who.allowed == 0:
        right = value == float(np.asarray(wanted.exact).astype(fmt))
    else:
        right = error <= who.allowed * spacing / 2 * wanted.mass + nearest / 2
    return found | {"state": "right" if right else "WRONG"}


def check(who: Participant, pools: dict[str, torch.Tensor], n: int, wanted: dict[str, Reference]) -> Any:
    """Verdicts by distribution, or in words why there is no result."""
    if who.sizes is not None and n not in who.sizes:
        return "not at this size"
    try:
        return {name: verdict(who, pool[:n], wanted[name]) for name, pool in pools.items()}
    except Exception as error:  # an array too long, a dtype that a library lacks
        return f"{type(error).__name__}: {first_line(error)}"


def measure_dtype(dtype: str, sizes: list[int], arguments: argparse.Namespace, clock: Clock,
                  libraries: Libraries | None) -> Iterator[dict[str, Any]]:  # fmt: skip
    """Rows of results: one for each size, cache state and participant."""
    device = "cuda" if libraries else "cpu"
    field = gather(dtype, libraries, arguments.variants, compiled=not arguments.quick)
    for name, why in field.missing.items():
        yield {"dtype": dtype, "participant": name, "missing": why}
    width = itemsize(dtype)
    length = max(n * buffers_for(n * width, clock.l2, cold=True) for n in sizes)
    pools = {name: random_array(name, length, dtype, device) for name in DISTRIBUTIONS}
    for n in sizes:
        wanted = {name: reference(pool[:n]) for name, pool in pools.items()}
        errors = {who.name: check(who, pools, n, wanted) for who in field.participants}
        present = [who for who in field.participants if not isinstance(errors[who.name], str)]
        for name, why in errors.items():
            if isinstance(why, str):
                yield {"dtype": dtype, "n": n, "participant": name, "missing": why}
        for cache in ("cold", "in L2") if n * width <= clock.l2 else ("cold",):
            buffers = buffers_for(n * width, clock.l2, cache == "cold")
            arrays = views(pools["normal"], n, buffers)
            calls = {who.name: partial(_call, who.run, [who.prepare(x) for x in arrays]) for who in present}
            alone = clock.events(calls, buffers, arguments.seconds)
            rows = clock.graph(calls, buffers, n * width, arguments.seconds)
            ours = {who.name: who for who in present if who.name in OURS}
            arrays = views(pools["uniform"], n, buffers)
            uniform = clock.events(
                {name: partial(_call, who.run, [who.prepare(x) for x in arrays]) for name, who in ours.items()},
                buffers, arguments.seconds,
            )  # fmt: skip
            for who in present:
                yield {
                    "dtype": dtype, "n": n, "cache": cache, "buffers": buffers, "participant": who.name,
                    "events": speed(alone[who.name], n * width), "graph": speed(rows[who.name], n * width),
                    "errors": errors[who.name], "reference": wanted["normal"].source,
                } | ({"uniform": speed(uniform[who.name], n * width)} if who.name in ours else {})  # fmt: skip


def _call(run: Callable[[Any], Any], arrays: list[Any], number: int) -> Any:
    return run(arrays[number])


def speed(timing: Timing | str, nbytes: int) -> dict[str, Any]:
    if isinstance(timing, str):
        return {"missing": timing}
    return asdict(timing) | {"tb_per_s": nbytes * 1e-12 / timing.median}


def measure_hard(n: int, clock: Clock, on_gpu: bool, seconds: float) -> Iterator[dict[str, Any]]:
    """fsum's bits on arrays built to defeat it, on the GPU and on the CPU, and its time beside normal data."""
    device = "cuda" if on_gpu else "cpu"
    for dtype in DTYPES:
        arrays = {name: make(n, dtype, device) for name, make in HARD.items()}
        normal = random_array("normal", n, dtype, device)
        given = {name: x if on_gpu else to_host(x) for name, x in {"normal": normal, **arrays}.items()}
        calls = {name: partial(_call, tcu.fsum, [x]) for name, x in given.items()}
        times = clock.events(calls, 1, seconds)
        for name, x in arrays.items():
            host = to_host(x)
            check_against_math(host)
            ours, model = tcu.fsum(given[name]), tcu.fsum(host)
            equal = np.asarray(result_value(ours)) == np.asarray(model).astype(np.float64)
            yield {
                "dtype": dtype, "n": x.numel(), "array": name, "result": repr(result_value(ours)),
                "state": "right" if equal else "WRONG", "seconds": times[name].median,
                "times_normal": times[name].median / times["normal"].median,
            }  # fmt: skip


def measure_energy(n: int, arguments: argparse.Namespace, clock: Clock,
                   libraries: Libraries) -> Iterator[dict[str, Any]]:  # fmt: skip
    """Joules per terabyte in two rounds, the second in the opposite order."""
    meter = EnergyMeter()
    for dtype, names in (
        ("float16", ["tcu.sum", "tcu.fsum", "torch", cub_name("float16", "float32"),
                     cub_name("float16", "float16"), f"{READ}, 4 loads, 8 waves"]),
        ("float32", ["tcu.sum", "torch", cub_name("float32", "float32"),
                     cub_name("float32", "float32", "gpu_to_gpu")]),
    ):  # fmt: skip
        field = gather(dtype, libraries, variants=False, compiled=False)
        chosen = [who for who in field.participants if who.name in names]
        x = random_array("normal", n, dtype, "cuda")
        nbytes = n * itemsize(dtype)
        for turn, order in enumerate((chosen, chosen[::-1]), 1):
            for who in order:
                row = {"dtype": dtype, "n": n, "participant": who.name, "round": turn}
                try:
                    energy = meter.measure(
                        partial(who.run, who.prepare(x)), nbytes, arguments.energy_seconds, clock
                    )
                except Exception as error:  # a participant that fails must not cost the others' figures
                    yield row | {"missing": first_line(error)}
                else:
                    yield row | asdict(energy)


def measure_host(clock: Clock, on_gpu: bool) -> dict[str, Any]:
    """Seconds that a call keeps the host: sums of a small array, and making an empty result alone."""
    x = random_array("normal", HOST_TIME_SIZE, "float16", "cuda" if on_gpu else "cpu")
    calls: dict[str, Callable[[], Any]] = {
        "torch": partial(torch.sum, x, dtype=torch.float32),
        "tcu.sum of a tensor": partial(tcu.sum, x if on_gpu else to_host(x)),
        "tcu.fsum of a tensor": partial(tcu.fsum, x if on_gpu else to_host(x)),
        "torch.empty(())": partial(torch.empty, (), device=x.device),
    }
    try:
        import cupy
    except ImportError:
        pass
    else:
        same = cupy.from_dlpack(x)
        calls["CuPy"] = partial(cupy.sum, same, dtype=np.float32)
        calls["tcu.sum of a CuPy array"] = partial(tcu.sum, same)
    found: dict[str, Any] = {}
    for name, call in calls.items():
        try:
            found[name] = asdict(host_time(call, clock))
        except Exception as error:  # as above
            found[name] = {"missing": first_line(error)}
    return found


def versions(cccl: gpu_build.Cccl | None) -> dict[str, str]:
    found = {"torch": str(torch.__version__)}
    for name, package in (("cupy", "cupy-cuda13x"), ("triton", "triton")):
        try:
            found[name] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    if cccl is not None:
        found |= {"CCCL": cccl.version, "nvcc": gpu_build.nvcc_version()}
    return found


def parse(given: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--quick", action="store_true", help="three sizes, no torch.compile, short energy runs"
    )
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=SECTIONS, help="parts to measure")
    parser.add_argument("--sizes", nargs="+", type=power_of_two, help="numbers of elements: 65536 or 2^16")
    parser.add_argument("--variants", action="store_true", help="also the papers' variants by tcu")
    parser.add_argument("--cccl", type=Path, help="folder with CCCL's headers, in place of the newest found")
    parser.add_argument("--dry-run", action="store_true", help="try everything that needs no GPU")
    arguments = parser.parse_args(given)
    if arguments.sizes is None:
        arguments.sizes = list(QUICK if arguments.quick else SIZES)
    arguments.seconds = 0.25 if arguments.quick else 0.5
    arguments.energy_seconds = 0.6 if arguments.quick else 2.2
    return arguments


def power_of_two(text: str) -> int:
    base, _, power = text.partition("^")
    n = int(base) ** int(power) if power else int(base)
    if n < 16 or n & (n - 1):
        raise argparse.ArgumentTypeError(f"{text}: choose a power of two from 16 up")
    return n


def main() -> int:
    arguments = parse(sys.argv[1:])
    began = time.perf_counter()
    dtypes = [dtype for dtype in DTYPES if dtype in arguments.only]
    clock: Clock
    if arguments.dry_run:
        clock, libraries = WallClock(), None
        energy_dtypes: list[str] = []
    else:
        clock = CudaClock()
        energy_dtypes = ["float16", "float32"] if "energy" in arguments.only else []
        libraries = Libraries(sorted({*dtypes, *energy_dtypes}), arguments.cccl)
        print(f"CCCL {libraries.cccl.version}; built after {time.perf_counter() - began:.0f} s", flush=True)
    name = "gpu-sum-dry-run" if arguments.dry_run else "gpu-sum"
    save = partial(record.save, name, versions=versions(libraries.cccl if libraries else None))
    figures: dict[str, Any] = {"rows": [], "hard": [], "energy": [], "host": {}}
    for dtype in dtypes:
        sizes = [n for n in arguments.sizes if n <= LARGEST[dtype]]
        if sizes:
            rows = list(measure_dtype(dtype, sizes, arguments, clock, libraries))
            figures["rows"] += rows
            gpu_table.show_dtype(dtype, rows)
            save(figures)  # what is done stays, whatever happens later
            torch.cuda.empty_cache()
            print(f"after {time.perf_counter() - began:.0f} s", flush=True)
    if "hard" in arguments.only:
        small = arguments.quick or arguments.dry_run
        n = (1 << 20) + 3 if small else HARD_SIZE
        figures["hard"] = list(measure_hard(n, clock, libraries is not None, arguments.seconds))
        gpu_table.show_hard(figures["hard"])
    if energy_dtypes and libraries is not None:
        figures["energy"] = list(measure_energy(ENERGY_SIZE, arguments, clock, libraries))
        gpu_table.show_energy(figures["energy"])
    if "host" in arguments.only:
        figures["host"] = measure_host(clock, libraries is not None)
        gpu_table.show_host(figures["host"])
    figures["claims"] = gpu_claims.claims(figures)
    gpu_table.show_claims(figures["claims"])
    print(f"written to {save(figures)} after {time.perf_counter() - began:.0f} s")
    return gpu_table.show_wrong(figures)


if __name__ == "__main__":
    sys.exit(main())
