"""Equal segments of a fixed number of binary16 values, by every algorithm of paper 002, by tcu's own variant and by CUB.

Times are of one call by CUDA events (tcu/study/gpu/timing.py).  In every row a kernel
that only reads takes its turns with the others: that is the ceiling.  Bytes
are those read and those written.

Every sum is checked: tcu's within the bound that is proved for its plan, of
the segment with the largest sum of |x|; the first segments against
math.fsum and, bit for bit, against the model on the CPU.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import record
import torch
from gpu_energy import EnergyMeter

import tcu
from tcu.calibration.paper_002 import COUNT, QUICK_COUNT, lengths_of
from tcu.formats import get_format
from tcu.plan import plan_error_bound
from tcu.plan.segmented import ALGORITHMS, best_algorithm
from tcu.study.gpu import build
from tcu.study.gpu.data import random_array, to_host
from tcu.study.gpu.peers import READ, READ_SHAPES, CubCall, read_alone
from tcu.study.gpu.timing import Clock, CudaClock, WallClock
from tcu.units import get_unit

DRY = 1 << 16
"""Numbers in all, without a GPU."""
SECONDS = 0.05
"""For each call that takes part in a row of turns."""
ENERGY = (1 << 4, 1 << 8, 1 << 20)
"""Segments of which the energy is measured."""
ENERGY_SECONDS = 1.0
HEAD, LONGEST = 1 << 16, 1 << 20
"""Numbers of the first segments that the model sums too, and its longest segment."""
DEFAULT, SELECTED, CUB_HALF, CUB_FLOAT = "tcu.sum", "paper-002", "CUB half→half", "CUB half→float"


class WrongSumError(Exception):
    """A sum is further from the truth than proved, or its bits are not the model's."""


@dataclass
class Sums:
    """Who takes part: array (segments, length) to sums, on one array again and again."""

    name: str
    run: Callable[[torch.Tensor], Any]
    options: dict[str, Any] | None = None
    """Of tcu.sum; None: somebody else."""


def measure(quick: bool, cccl: Path | None, dry_run: bool) -> Path:
    """All figures, into benchmarks/results."""
    began = time.perf_counter()
    who = [
        Sums(name, partial(_ours, {"variant": name}), {"variant": name}) for name in (*ALGORITHMS, SELECTED)
    ]
    who.append(Sums(DEFAULT, partial(_ours, {}), {}))
    versions: dict[str, str] = {}
    clock: Clock = WallClock() if dry_run else CudaClock()
    readers: list[Callable[[torch.Tensor], Any]] = []
    if not dry_run:
        found = build.find_cccl(cccl)
        versions["CCCL"] = found.version
        peers, readers = _built(found)
        who += peers
    count = DRY if dry_run else QUICK_COUNT if quick else COUNT
    x = random_array("normal", count, "float16", "cpu" if dry_run else "cuda")
    figures: dict[str, Any] = {"count": count, "rows": [], "energy": []}
    name = "paper-002-dry-run" if dry_run else "paper-002"
    print(f"built after {time.perf_counter() - began:.0f} s", flush=True)
    read = _fastest(readers, x, clock)
    for length in lengths_of(count, quick):
        figures["rows"] += row(x.view(-1, length), who, read, clock)
        print(f"segments of {length:,} after {time.perf_counter() - began:.0f} s", flush=True)
        record.save(name, figures, versions)  # what is done stays, whatever happens later
    if not dry_run:
        figures["energy"] = [one for length in ENERGY for one in energy(x.view(-1, length), who, read, clock)]
        print(f"energy after {time.perf_counter() - began:.0f} s", flush=True)
    figures["claims"] = claims(figures)
    return record.save(name, figures, versions)


def _ours(options: dict[str, Any], x: torch.Tensor) -> Any:
    return tcu.sum(x, axis=-1, **options)


def _built(cccl: build.Cccl) -> tuple[list[Sums], list[Callable[[torch.Tensor], Any]]]:
    """CUB's sums and the kernels that only read."""
    outs = {CUB_HALF: ("float16", ("-DOUT=__half",)), CUB_FLOAT: ("float32", ("-DOUT=float", "-DWIDEN"))}
    options = (*cccl.include, "-DIN=__half")
    jobs = {who: ("cub_segmented_sum.cu", (*options, *out[1])) for who, out in outs.items()}
    major, minor = torch.cuda.get_device_capability()
    made, failed = build.build_all({"baselines": ("baselines.cu", ()), **jobs}, f"sm_{major}{minor}")
    if failed:
        raise build.BuildError("; ".join(f"{who}: {why}" for who, why in failed.items()))
    cub = [Sums(who, CubCall(made[who].cub_segmented_sum, out[0])) for who, out in outs.items()]
    return cub, [read_alone(made["baselines"], *shape) for shape in READ_SHAPES]


def _fastest(
    readers: list[Callable[[torch.Tensor], Any]], x: torch.Tensor, clock: Clock
) -> Callable[[torch.Tensor], Any] | None:
    """None where there is none: on a CPU."""
    calls = {str(number): _repeated(run, x) for number, run in enumerate(readers)}
    timings = clock.events(calls, 1, SECONDS * len(calls)) if calls else {}
    best = min(timings, key=lambda number: timings[number].median, default=None)
    return None if best is None else readers[int(best)]


def _repeated(run: Callable[[torch.Tensor], Any], x: torch.Tensor) -> Callable[[int], Any]:
    return lambda number: run(x)


def row(
    x: torch.Tensor, who: list[Sums], read: Callable[[torch.Tensor], Any] | None, clock: Clock
) -> list[dict[str, Any]]:
    """One dictionary for everyone: time, throughput, share of the ceiling, error."""
    truth = Truth(x)
    found = {one.name: truth.check(one) for one in who}
    calls = {one.name: _repeated(one.run, x) for one in who}
    if read is not None:
        calls[READ] = _repeated(read, x)
    timings = clock.events(calls, 1, SECONDS * len(calls))
    ceiling = x.numel() * x.element_size() / timings[READ].median if read is not None else None
    best = min(ALGORITHMS, key=lambda name: timings[name].median)
    rows = []
    for name, timing in timings.items():
        moved = x.numel() * x.element_size() + found.get(name, {}).pop("bytes_written", 0)
        rate = moved / timing.median
        rows.append({
            "segment": x.shape[1], "who": name, **asdict(timing), "terabytes_per_second": rate * 1e-12,
            "of_ceiling": None if ceiling is None else rate / ceiling, "best": name == best, **found.get(name, {}),
        })  # fmt: skip
    return rows


class Truth:
    """What the sums of an array's segments should be."""

    def __init__(self, x: torch.Tensor) -> None:
        self._x = x
        self._exact = x.sum(1, dtype=torch.float64)
        self._mass = float(x.abs().sum(1, dtype=torch.float64).max())
        self._top = float(x.abs().max())
        self._slack = x.shape[1] * 2.0**-53 * self._mass  # what binary64 may lose on the way
        length = x.shape[1]
        head = x[: max(1, HEAD // length)] if length <= LONGEST else x[:0]
        self._head = to_host(head)
        for segment, sum_ in zip(self._head[:64], self._exact.tolist() if len(head) else [], strict=False):
            if abs(math.fsum(segment.tolist()) - sum_) > self._slack:
                raise WrongSumError(f"math.fsum of a segment of {length} and PyTorch's binary64 sum differ")

    def check(self, one: Sums) -> dict[str, Any]:
        """The largest error; for tcu the bound and the number of segments that the model was compared on."""
        result = one.run(self._x)
        tensor = result if isinstance(result, torch.Tensor) else torch.from_numpy(result)
        error = float((tensor.double() - self._exact).abs().max())
        found = {
            "bytes_written": tensor.numel() * tensor.element_size(),
            "largest_error": error if math.isfinite(error) else None,
        }
        if one.options is None:
            return found
        _, info = tcu.sum(self._x, axis=-1, **one.options, return_info=True)
        unit = get_unit(info.unit)
        bound = plan_error_bound(info.plan, unit, self._mass, self._top, get_format("binary32"), self._mass)
        if not error <= bound + self._slack:
            raise WrongSumError(f"{one.name}, segments of {self._x.shape[1]}: error {error}, bound {bound}")
        if len(self._head):
            model = tcu.sum(self._head, axis=-1, unit=unit, **one.options)
            mine = tensor[: len(self._head)].cpu().numpy()
            if model.tobytes() != mine.tobytes():
                raise WrongSumError(f"{one.name}, segments of {self._x.shape[1]}: not the model's bits")
        return {**found, "bound": bound, "model_agrees_on": len(self._head)}


def energy(
    x: torch.Tensor, who: list[Sums], read: Callable[[torch.Tensor], Any] | None, clock: Clock
) -> list[dict[str, Any]]:
    """Of the best algorithm, of tcu's own, of CUB and of reading alone."""
    meter = EnergyMeter()
    taken = {one.name: one.run for one in who if one.name in (SELECTED, DEFAULT, CUB_HALF, CUB_FLOAT)}
    if read is not None:
        taken[READ] = read
    rows = []
    for name, run in taken.items():
        figures = meter.measure(partial(run, x), x.numel() * x.element_size(), ENERGY_SECONDS, clock)
        rows.append({"segment": x.shape[1], "who": name, **asdict(figures)})
        if name == SELECTED:
            rows[-1]["algorithm"] = best_algorithm(x.shape[1])
    return rows


def claims(figures: dict[str, Any]) -> dict[str, Any]:
    """The paper's: 90 to 98 % of the ideal throughput, and up to 22 % less power than CUB."""
    best = {one["segment"]: one["of_ceiling"] for one in figures["rows"] if one["best"] and one["of_ceiling"]}
    verdict: dict[str, Any] = {}
    if best:
        verdict["share of ideal throughput, best algorithm"] = {
            "paper": [0.90, 0.98], "least": min(best.values()), "most": max(best.values()),
            "segments below 0.90": [length for length, share in best.items() if share < 0.90],
        }  # fmt: skip
    used = {(one["segment"], one["who"]): one for one in figures["energy"]}
    if used:
        verdict["share of CUB's power and energy that is saved"] = {
            "paper": 0.22,
            "by segment": {
                str(length): {
                    peer: {
                        what: 1 - used[length, SELECTED][what] / used[length, peer][what]
                        for what in ("watts", "joules_per_terabyte")
                    }
                    for peer in (CUB_HALF, CUB_FLOAT)
                }
                for length in dict.fromkeys(length for length, _ in used)
            },
        }
    return verdict
