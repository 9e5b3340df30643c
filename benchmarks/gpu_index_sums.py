"""Sums by index on one GPU: tcu.index_sum beside PyTorch's atomics, its deterministic mode, bincount, and CUB's ReduceByKey.

    python benchmarks/gpu_index_sums.py [--seconds S] [--cccl FOLDER] [--add] [--dry-run]

Rows of bfloat16 and binary32 into slots, and single numbers of binary32 and binary16.  Indices are drawn evenly, by Zipf's law
(exponent 1.2, scattered over the slots), sorted, or all of one slot.  Results have the numbers' format.  CUB, built by nvcc,
sums single numbers: it sorts them by slot, but where they are sorted, and puts the sums of runs into their slots.  Times are of CUDA
graphs (tcu/study/gpu/timing.py), the participants of a point take turns; bytes are each number, each index and each result once.

In the same run, of slots drawn at random, all columns against the CPU's bits; and the whole result is the same when it is
computed again from the numbers in another order.  CUB's sums are within their error bound.  A result that differs is marked
WRONG, and the exit status is 1.  The file is written after each point; with --add the points that it has, of the same sources on such a
GPU, stay, and the others are measured.  With --dry-run on the CPU with few numbers; nothing is written.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import record
import torch

import tcu
from tcu.study.gpu import build
from tcu.study.gpu.peers import CPP, check, result_bits
from tcu.study.gpu.timing import Clock, CudaClock, Timing, WallClock

ROWS = ((262_144, 512, 50_000), (1_048_576, 128, 1_048_576), (65_536, 4096, 8192), (100_003, 1000, 3001))
NUMBERS = tuple((1 << 26, 1, slots) for slots in (1 << 8, 1 << 16, 1 << 22, 1 << 26))
"""(numbers along the index, columns, slots)."""
CASES = (
    *((dtype, case, "even") for dtype in ("bfloat16", "float32") for case in ROWS),
    *(("bfloat16", ROWS[0], kind) for kind in ("zipf", "sorted", "one slot")),
    *((dtype, case, "even") for dtype in ("float32", "float16") for case in NUMBERS),
    *(("float32", NUMBERS[2], kind) for kind in ("zipf", "sorted", "one slot")),
)  # fmt: skip
SAMPLE = 200
"""Slots that the CPU computes, too, or fewer where they hold more than MOST numbers."""
MOST = 1 << 21
SLOW = 0.2
"""Calls of more seconds are timed once: additions of 2^26 numbers of binary16 to few slots by compare and swap take minutes."""

CUB = "CUB"

Sum = Callable[[], torch.Tensor]


def indices(kind: str, n: int, slots: int, device: str) -> torch.Tensor:
    generator = torch.Generator(device).manual_seed(n + slots)
    if kind == "one slot":
        return torch.full((n,), slots // 2, device=device)
    even = torch.randint(slots, (n,), device=device, generator=generator)
    if kind == "zipf":  # by the inverse of the continuous law, which needs no table
        uniform = torch.rand(n, device=device, generator=generator, dtype=torch.float64)
        power = -0.2
        rank = ((uniform * (float(slots) ** power - 1) + 1) ** (1 / power)).long().clamp(1, slots) - 1
        return rank * 2_654_435_761 % slots
    return even.sort()[0] if kind == "sorted" else even


def right(got: torch.Tensor, x: torch.Tensor, index: torch.Tensor) -> bool:
    """Of slots drawn at random, and of the numbers in another order."""
    slots = got.shape[0]
    order = torch.randperm(len(index), device=index.device)
    if not torch.equal(got, tcu.index_sum(x[order], index[order], slots, dtype=x.dtype)):
        return False
    del order
    few = torch.randint(slots, (SAMPLE,), device=index.device).unique()
    counts = torch.bincount(index, minlength=slots)[few]
    few = few[counts.cumsum(0) * x[:1].numel() <= MOST]
    used = torch.isin(index, few)
    places = torch.searchsorted(few, index[used]).cpu()
    return result_bits(got[few].contiguous()) == result_bits(
        tcu.index_sum(x[used].cpu(), places, len(few), dtype=x.dtype).contiguous()
    )


class Cub:
    """CUB's sums by index of a line of numbers; all that it works in is allocated once."""

    def __init__(
        self, library: ctypes.CDLL, x: torch.Tensor, index: torch.Tensor, slots: int, in_order: bool
    ):
        self._function, self._given = library.cub_by_key, (index, x)
        n, of_sort = len(x), 0 if in_order else len(x)
        self._out = torch.empty(slots, dtype=x.dtype, device=x.device)
        self._room = [
            torch.empty(size, dtype=dtype, device=x.device)
            for size, dtype in (
                (of_sort, torch.int64), (of_sort, x.dtype), (n, torch.int64), (n, x.dtype), (1, torch.int32)
            )
        ]  # fmt: skip
        self._sizes = n, slots, max(1, (slots - 1).bit_length())
        pointer, whole = ctypes.c_void_p, ctypes.c_longlong
        self._function.argtypes = [*[pointer] * 8, whole, whole, ctypes.c_int, pointer, pointer, pointer]
        self._bytes = ctypes.c_size_t(0)
        self._call(None)
        self._storage = torch.empty(max(1, self._bytes.value), dtype=torch.uint8, device=x.device)

    def __call__(self) -> torch.Tensor:
        self._call(self._storage.data_ptr())
        return self._out

    def _call(self, storage: int | None) -> None:
        arrays = (*self._given, self._out, *self._room)
        pointers = [each.data_ptr() if each.numel() else None for each in arrays]
        stream = torch.cuda.current_stream().cuda_stream
        check(self._function(*pointers, *self._sizes, storage, ctypes.byref(self._bytes), stream))


def within_bound(got: torch.Tensor, x: torch.Tensor, index: torch.Tensor) -> bool:
    """Whether sums in any order, in the numbers' own format, are as near as their error bound says."""
    slots, wide = len(got), {"dtype": torch.float64, "check": False}
    exact, mass = (tcu.index_sum(each, index, slots, **wide) for each in (x, x.abs()))
    steps = torch.bincount(index, minlength=slots)
    return bool(((got.double() - exact).abs() <= steps * torch.finfo(x.dtype).eps * mass).all())


def deterministic(add: Sum) -> Sum:
    def run() -> torch.Tensor:
        torch.use_deterministic_algorithms(True)
        try:
            return add()
        finally:
            torch.use_deterministic_algorithms(False)

    return run


def point(
    dtype: str, case: tuple[int, int, int], kind: str, clock: Clock, device: str, seconds: float,
    library: ctypes.CDLL | str,
) -> dict[str, Any]:  # fmt: skip
    n, columns, slots = case
    generator = torch.Generator(device).manual_seed(1)
    x = torch.randn((n, columns), device=device, generator=generator).to(getattr(torch, dtype))
    x = x[:, 0] if columns == 1 else x
    index = indices(kind, n, slots, device)
    goal = torch.zeros((slots, *x.shape[1:]), dtype=x.dtype, device=device)

    def ours() -> torch.Tensor:
        return tcu.index_sum(x, index, slots, dtype=x.dtype, check=False)

    def atomics() -> torch.Tensor:
        return goal.zero_().index_add_(0, index, x)

    who: dict[str, Sum] = {"tcu": ours, "torch, atomics": atomics}
    found: dict[str, dict[str, Any]] = {"tcu": {"right": right(ours(), x, index)}, "torch, atomics": {}}
    torch._dynamo.reset()
    peers: dict[str, Sum] = {
        "torch, deterministic": deterministic(atomics),
        "torch.compile": torch.compile(
            lambda: goal.zero_().index_add_(0, index, x),
            dynamic=False,
            backend="inductor" if device == "cuda" else "eager",
        ),
    }
    if columns == 1 and kind == "one slot":
        found["torch, deterministic"] = {"missing": "a call takes more than half a minute"}
        del peers["torch, deterministic"]
    if columns == 1 and dtype == "float32":
        peers["bincount"] = lambda: torch.bincount(index, x, slots)
    if columns == 1 and isinstance(library, str):
        found[CUB] = {"missing": library}
    elif columns == 1:
        peers[CUB] = Cub(library, x, index, slots, kind in ("sorted", "one slot"))
    for name, run in peers.items():
        found[name] = {}
        try:
            took = seconds_of(run, clock)
            if name == CUB:
                found[name]["right"] = within_bound(run(), x, index)
            if took < SLOW:
                who[name] = run
            else:
                found[name] = {"median": took, "missing": "timed once"}
        except Exception as error:  # what it does not take
            found[name]["missing"] = str(error).splitlines()[0][:160]
    nbytes = x.nbytes + index.nbytes + goal.nbytes
    for one in found.values():
        if "median" in one:
            one["tb_per_s"] = 1e-12 * nbytes / one["median"]
    times: dict[str, Timing | str] = {}
    for name, run in who.items():  # bincount looks at its result's length, which no graph can
        calls = {name: partial(_call, run)}
        if device == "cuda" and name != "bincount":
            times |= clock.graph(calls, 1, nbytes, seconds)
        else:
            times |= dict(clock.events(calls, 1, seconds, 5))
    for name, timing in times.items():
        if isinstance(timing, str):
            found[name]["missing"] = timing
        else:
            found[name] |= asdict(timing) | {"tb_per_s": 1e-12 * nbytes / timing.median}
    return {
        "dtype": dtype, "n": n, "columns": columns, "slots": slots, "indices": kind, "bytes": nbytes, "participants": found,
    }  # fmt: skip


def seconds_of(run: Sum, clock: Clock) -> float:
    """Of a second call, which finds everything compiled."""
    run()
    clock.synchronize()
    began = time.perf_counter()
    run()
    clock.synchronize()
    return time.perf_counter() - began


def _call(run: Sum, number: int) -> torch.Tensor:
    return run()


def built(folder: Path | None) -> tuple[dict[str, ctypes.CDLL | str], dict[str, str]]:
    """(CUB's libraries by dtype, or in words why one is missing, and the versions they are of)"""
    major, minor = torch.cuda.get_device_capability()
    dtypes = [dtype for dtype, (_, columns, _), _ in CASES if columns == 1]
    try:
        cccl = build.find_cccl(folder)
    except build.BuildError as error:
        return dict.fromkeys(dtypes, str(error)), {}
    jobs = {dtype: ("cub_by_key.cu", (*cccl.include, f"-DIN={CPP[dtype]}")) for dtype in dtypes}
    made, failed = build.build_all(jobs, f"sm_{major}{minor}")
    return {**made, **failed}, {"CCCL": cccl.version, "nvcc": build.nvcc_version()}


def show(row: dict[str, Any]) -> None:
    cells = [
        f"{name}: {one.get('missing', 'not timed')}" if "median" not in one
        else f"{name} {one['median'] * 1e6:.0f} µs" + ("" if one.get("right", True) else " WRONG")
        for name, one in row["participants"].items()
    ]  # fmt: skip
    where = f"{row['n']} × {row['columns']} → {row['slots']}"
    print(row["dtype"], where, row["indices"], "; ".join(cells), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=0.05, help="for the times of a participant")
    parser.add_argument("--add", action="store_true", help="to what was measured before")
    parser.add_argument("--dry-run", action="store_true", help="on the CPU, few numbers; nothing is written")
    parser.add_argument("--cccl", type=Path, help="folder with CCCL's headers, in place of the newest found")
    asked = parser.parse_args()
    device = "cpu" if asked.dry_run else "cuda"
    clock: Clock = WallClock() if asked.dry_run else CudaClock()
    libraries, versions = ({}, {}) if asked.dry_run else built(asked.cccl)
    before = record.stored("gpu-index-sums") if asked.add else None
    points: list[dict[str, Any]] = before["points"] if before else []
    there = {tuple(row[key] for key in ("dtype", "n", "columns", "slots", "indices")) for row in points}
    for dtype, (n, columns, slots), kind in CASES:
        if (dtype, n, columns, slots, kind) in there:
            continue
        case = (n >> 14, min(columns, 8), -(-slots >> 12)) if asked.dry_run else (n, columns, slots)
        library = libraries.get(dtype, "not among the libraries that are built")
        points.append(point(dtype, case, kind, clock, device, asked.seconds, library))
        show(points[-1])
        if not asked.dry_run:
            record.save("gpu-index-sums", {"points": points}, {"torch": torch.__version__, **versions})
    return int(not all(one.get("right", True) for row in points for one in row["participants"].values()))


if __name__ == "__main__":
    sys.exit(main())
