"""Fourier transforms on one GPU: tcu.fft beside cuFFT through PyTorch.

    python benchmarks/gpu_fft.py [--seconds S] [--only TEXT] [--dry-run]

Batches of 2^26 points in all (binary64: 2^25) of complex numbers of binary16, binary32 and binary64, single transforms, in two
and three dimensions, along the first axis, of lengths that are no powers of two, and of real numbers.  Times are of CUDA graphs
(tcu/study/gpu/timing.py), the participants of a point take turns, results are new arrays; bytes are each number read once and
each result written once.

In the same run, transforms drawn at random against the CPU's bits, and the error of both, of all transforms together, against
PyTorch's in binary64: ‖computed - exact‖ / ‖exact‖.  A result that differs is marked WRONG, and the exit status is 1.  With
--dry-run on the CPU with short arrays; nothing is written.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any, NamedTuple

import record
import torch

import tcu
from tcu.study.gpu.timing import Clock, CudaClock, WallClock

PAIRS = {"complex32": torch.float16, "complex64": torch.float32, "complex128": torch.float64}
REALS = {torch.float16: "float16", torch.float32: "float32", torch.float64: "float64"}


class Case(NamedTuple):
    dtype: str
    shape: tuple[int, ...]
    """Without the batch."""
    batch: int
    kind: str = "fft"
    axes: tuple[int, ...] = (-1,)


def cases() -> list[Case]:
    found = [
        Case(dtype, (1 << p,), 1 << total - p)
        for dtype, total, powers in (
            ("complex32", 26, (8, 10, 12, 13, 14, 15, 16, 18, 20, 22, 24, 26)),
            ("complex64", 26, (8, 10, 12, 13, 14, 15, 16, 17, 18, 20, 21, 22, 24, 26)),
            ("complex128", 25, (8, 12, 14, 16, 20, 24)),
        )
        for p in powers
    ]
    found += [Case(dtype, (1 << p,), 1) for dtype in ("complex32", "complex64") for p in (16, 18, 20, 22, 24)]
    found += [Case("complex32", (5 << 12,), (1 << 25) // (5 << 12))]
    found += [Case("complex64", (n,), (1 << 25) // n) for n in (1000, 3**9, 5 << 12, 10007)]
    found += [
        Case("complex64", (4096, 4096), 1, "fft2", (-2, -1)),
        Case("complex64", (256, 256, 256), 1, "fftn", (-3, -2, -1)),
    ]
    found += [Case("complex64", (4096, 8192), 1, "fft", (0,))]
    found += [
        Case("complex64", (n,), (1 << 26) // n, kind)
        for n in (1024, 4096, 1 << 16)
        for kind in ("rfft", "irfft")
    ]
    return found


def numbers(case: Case, device: str) -> torch.Tensor:
    generator = torch.Generator(device).manual_seed(len(case.shape) + case.batch)
    shape = (case.batch, *case.shape) if case.batch > 1 else case.shape
    real = PAIRS[case.dtype]
    if case.kind == "rfft":
        return torch.randn(shape, device=device, generator=generator, dtype=torch.float32).to(real)
    if case.kind == "irfft":
        return torch.fft.rfft(torch.randn(shape, device=device, generator=generator, dtype=real))
    wide = torch.float64 if real == torch.float64 else torch.float32
    return torch.view_as_complex(
        torch.randn((*shape, 2), device=device, generator=generator, dtype=wide).to(real)
    )


def of(library: Any, case: Case, x: torch.Tensor) -> torch.Tensor:
    if case.kind in ("fft2", "fftn"):
        return library.fftn(x, **{"axes" if library is tcu.fft else "dim": case.axes})
    extra = {"n": case.shape[-1]} if case.kind == "irfft" else {}
    return getattr(library, case.kind)(x, **extra, **{"axis" if library is tcu.fft else "dim": case.axes[0]})


def bits(x: torch.Tensor) -> bytes:
    flat = torch.view_as_real(x.resolve_conj()) if x.is_complex() else x
    return flat.contiguous().cpu().numpy().tobytes()


def right(case: Case, x: torch.Tensor, got: torch.Tensor) -> bool:
    """Transforms drawn at random against the CPU's, or all where these are few."""
    if case.kind == "fft" and case.axes == (0,):
        few = torch.randint(x.shape[1], (8,), device=x.device)
        return bits(got[:, few].contiguous()) == bits(of(tcu.fft, case, x[:, few].cpu()).contiguous())
    if case.batch == 1:
        return bits(got) == bits(of(tcu.fft, case, x.cpu()))
    few = torch.randint(
        case.batch, (max(1, min(case.batch, (1 << 18) // math.prod(case.shape))),), device=x.device
    )
    return bits(got[few]) == bits(of(tcu.fft, case, x[few].cpu()))


def error(case: Case, x: torch.Tensor, got: torch.Tensor) -> float:
    """Of some transforms that hold 2^22 points or more, of one at least."""
    rows = max(1, (1 << 22) // math.prod(case.shape)) if case.batch > 1 else None
    given = x if rows is None else x[:rows]
    wide = given.to(torch.complex128 if given.is_complex() else torch.float64)
    exact = of(torch.fft, case, wide)
    own = got if rows is None else got[:rows]
    return float((own.to(exact.dtype) - exact).norm() / exact.norm())


def point(case: Case, clock: Clock, device: str, seconds: float) -> dict[str, Any]:
    x = numbers(case, device)
    ours = of(tcu.fft, case, x)
    found: dict[str, dict[str, Any]] = {
        "tcu": {"right": right(case, x, ours), "error": error(case, x, ours)},
        "cuFFT": {},
    }
    nbytes = x.nbytes + ours.nbytes
    del ours
    who: dict[str, Callable[[int], torch.Tensor]] = {"tcu": partial(_call, tcu.fft, case, x)}
    try:
        found["cuFFT"]["error"] = error(case, x, of(torch.fft, case, x))
        who["cuFFT"] = partial(_call, torch.fft, case, x)
    except RuntimeError as fault:  # what it does not take
        found["cuFFT"]["missing"] = str(fault).splitlines()[0][:160]
    timed = (
        clock.graph(who, 1, nbytes, seconds) if device == "cuda" else dict(clock.events(who, 1, seconds, 3))
    )
    for name, timing in timed.items():
        if isinstance(timing, str):
            found[name]["missing"] = timing
        else:
            found[name] |= asdict(timing) | {"tb_per_s": 1e-12 * nbytes / timing.median}
    return {**case._asdict(), "bytes": nbytes, "participants": found}


def _call(library: Any, case: Case, x: torch.Tensor, number: int) -> torch.Tensor:
    return of(library, case, x)


def show(row: dict[str, Any]) -> None:
    cells = []
    for name, one in row["participants"].items():
        speed = (
            f"{one['median'] * 1e6:.1f} µs {one['tb_per_s']:.2f} TB/s"
            if "median" in one
            else one.get("missing", "not timed")
        )
        cells.append(
            f"{name} {speed} error {one.get('error', math.nan):.2e}"
            + ("" if one.get("right", True) else " WRONG")
        )
    both = [one.get("median") for one in row["participants"].values()]
    ratio = f"; {both[1] / both[0]:.2f} times" if all(both) else ""
    print(
        row["dtype"],
        row["kind"],
        row["shape"],
        "×",
        row["batch"],
        row["axes"],
        "; ".join(cells) + ratio,
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=0.05, help="for the times of a participant")
    parser.add_argument("--only", default="", help="of cases whose text holds this; nothing is written")
    parser.add_argument("--dry-run", action="store_true", help="on the CPU, short arrays; nothing is written")
    asked = parser.parse_args()
    device = "cpu" if asked.dry_run else "cuda"
    clock: Clock = WallClock() if asked.dry_run else CudaClock()
    points = []
    for case in cases():
        if asked.only and asked.only not in str(case):
            continue
        if asked.dry_run:
            if case.dtype == "complex32":
                continue  # PyTorch has no such transforms on the CPU
            case = case._replace(shape=tuple(-(-n >> 6) + 2 for n in case.shape), batch=min(case.batch, 4))
        points.append(point(case, clock, device, asked.seconds))
        show(points[-1])
    if not (asked.dry_run or asked.only):
        print(record.save("gpu-fft", {"points": points}, {"torch": torch.__version__}))
    return int(not all(row["participants"]["tcu"]["right"] for row in points))


if __name__ == "__main__":
    sys.exit(main())
