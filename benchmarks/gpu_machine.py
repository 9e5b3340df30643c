"""The (m, l)-TCU machine on one GPU: right, bit for bit; timed beside cuFFT, GMP and Horner.

    python benchmarks/gpu_machine.py [--quick] [--sections bits,dft,...]

Needs CuPy, and PyTorch for cuFFT in binary16 (left out without).  Every time is
the median over calls from the first launch to the last, CUDA events around
what a user writes, the host's part included: short programs wait for the host.
"Share" is of the unit's dense peak by NVIDIA's data sheet of the H200 SXM
(989 TFLOPS binary16, 67 TFLOPS binary64, 1979 TOPS 8-bit integers, 4.8 TB/s),
counting every multiplication that goes through the unit, padding included.
"Bytes" is what the launches must move, each array that one of them reads or writes
counted once: of a transform one pass for each level, the search for its largest
number and one reading of each table; of integers the products of digits, written
and read; of a polynomial the powers, written once and read for each product, and
the products, written and read.
A wrong result is marked WRONG, and the exit status is 1.

GMP is gmpy2 on one core where it is installed, else CPython's int.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import math
import operator
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import record
from gpu_polynomials import horner_kernels

import tcu
from tcu.algorithms import Machine
from tcu.machine import GpuExecutor, Ledger, ModelExecutor

PEAKS = {"binary16": 989e12, "binary64": 67e12, "u8": 1979e12}
CORES = 34e12
"""Of binary64 by NVIDIA's data sheet, without tensor cores."""
MEMORY = 4.8e12
SECONDS = 0.15
"""For the rounds of one figure."""


class Report:
    """Rows as they come, and whether one of them was wrong."""

    def __init__(self) -> None:
        self.figures: dict[str, list[dict[str, Any]]] = {}
        self.wrong = 0

    def add(self, section: str, right: bool | None = None, **row: Any) -> None:
        if right is not None:
            row["right"] = right
            self.wrong += not right
        self.figures.setdefault(section, []).append(row)
        words = [f"{name} {_text(value)}" for name, value in row.items() if name != "right"]
        print(
            f"{section:11}",
            "   ".join(words),
            "" if right is None else "right" if right else "WRONG",
            flush=True,
        )


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def timed(work: Callable[[], Any], seconds: float = SECONDS) -> float:
    """The median of calls, each between two events."""
    import cupy

    for _ in range(2):
        work()
    cupy.cuda.Device().synchronize()
    taken: list[float] = []
    start = time.perf_counter()
    while len(taken) < 5 or (time.perf_counter() - start < seconds and len(taken) < 200):
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        begin.record()
        work()
        end.record()
        end.synchronize()
        taken.append(cupy.cuda.get_elapsed_time(begin, end) * 1e-3)
    return float(np.median(taken))


def wall(work: Callable[[], Any], seconds: float = SECONDS) -> float:
    """The median of calls on the host's clock, for what begins and ends there."""
    work()
    taken: list[float] = []
    start = time.perf_counter()
    while len(taken) < 3 or (time.perf_counter() - start < seconds and len(taken) < 100):
        before = time.perf_counter()
        work()
        taken.append(time.perf_counter() - before)
    return float(np.median(taken))


def unit_work(machine: Machine, run: Callable[[], Any]) -> float:
    """Operations of the unit in one run: two for each of rows·m multiplications."""
    machine.reset()
    run()
    ledger: Ledger = machine.ledger
    return 2.0 * ledger.tensor_rows * machine.m


def bits(report: Report, quick: bool) -> None:
    """The model's bits and the GPU's, for programs on narrow operands; each beside its error in binary64."""
    import cupy

    from tcu.algorithms.dft_error import dft_error_bound
    from tcu.gpu import find_gpu

    rng = np.random.default_rng(1)
    unit = find_gpu().unit
    cases = [(4096, 256, 1), (4096, 256, 2), (4099, 256, 1), (1 << 16, 256, 1), (1 << 14, 65536, 1)]
    for n, m, parts in cases[: 2 if quick else None]:
        x = rng.standard_normal(n) + 1j * rng.standard_normal(n)
        real, model = (
            Machine(m, executor=GpuExecutor("binary16")),
            Machine(m, executor=ModelExecutor(unit, "binary16")),
        )
        got = real.dft(cupy.asarray(x), parts=parts).get()
        same = got.tobytes() == model.dft(x, parts=parts).tobytes()
        exact = np.fft.fft(x)
        error = float(np.linalg.norm(got - exact) / np.linalg.norm(exact))
        bound = dft_error_bound(real, n, parts=parts)
        report.add("bits", same and error <= bound, program="dft", n=n, m=m, parts=parts, equal=same,
                   error=error, bound=bound)  # fmt: skip
    a, b = rng.standard_normal((300, 500)), rng.standard_normal((500, 200))
    for fmt in ("binary16", "bfloat16", "tf32", "binary64"):
        real, model = (
            Machine(4096, executor=GpuExecutor(fmt)),
            Machine(4096, executor=ModelExecutor(unit, fmt)),
        )
        same = real.matmul(cupy.asarray(a), cupy.asarray(b)).get().tobytes() == model.matmul(a, b).tobytes()
        report.add("bits", same, program="matmul", format=fmt, equal=same)


def tall(report: Report, quick: bool) -> None:
    """One tensor call: its share of peak and of memory's speed, beside cuBLAS for the same product."""
    import cupy

    for fmt, dtype in (
        ("binary16", "float16"),
        ("binary16", "float32"),
        ("u8", "uint8"),
        ("binary64", "float64"),
    ):
        for side in (16, 256) if quick else (16, 64, 256):
            rows = (1 << 26) // side
            machine = Machine(side * side, executor=GpuExecutor(fmt), word_bits=32)
            a = cupy.ones((rows, side), dtype)
            b = cupy.ones((side, side), dtype)
            right = bool((machine.multiply(a, b) == side).all())
            seconds = timed(partial(machine.multiply, a, b), 0.1)
            result = 8 if fmt == "binary64" else 4
            moved = rows * side * (a.dtype.itemsize + result)
            row: dict[str, Any] = {"format": fmt, "stored": dtype, "rows": rows, "side": side, "microseconds": seconds * 1e6,
                                   "share_of_peak": 2.0 * rows * side * side / seconds / PEAKS[fmt],
                                   "share_of_memory": moved / seconds / MEMORY}  # fmt: skip
            if dtype != "uint8":
                row["cublas_microseconds"] = timed(partial(operator.matmul, a, b), 0.1) * 1e6
            report.add("tall", right, **row)


def dft(report: Report, quick: bool) -> None:
    """One transform of n numbers, and batches of short ones, beside cuFFT in binary32 and binary16."""
    import cupy

    rng = np.random.default_rng(2)
    for batch, n in ((1, 1 << 16), (1, 1 << 20), (1, 1 << 24), (4096, 4096)):
        host = (rng.standard_normal((batch, n)) + 1j * rng.standard_normal((batch, n))).astype(np.complex64)
        x = cupy.asarray(host)
        exact = cupy.fft.fft(x.astype(cupy.complex128))
        scale = float(cupy.linalg.norm(exact))

        def error(y: Any, exact: Any = exact, scale: float = scale) -> float:
            return float(cupy.linalg.norm(y.astype(cupy.complex128) - exact)) / scale

        ways = [("binary16", m, product, 1) for m in (256, 4096, 65536) for product in ("four", "embedded")]
        ways += [("binary16", 4096, "four", 2), ("binary64", 4096, "four", 1)]
        if quick:
            ways = [way for way in ways if way[0] == "binary16" and way[2:] == ("four", 1)]
        for fmt, m, product, parts in ways:
            machine = Machine(m, executor=GpuExecutor(fmt))
            run = partial(machine.dft, x, product=product, parts=parts)
            off = error(run())
            # Rounding to binary16 once per level, a few units in the last place each; two parts: 22 bits.
            allowed = {("binary16", 1): 4e-3, ("binary16", 2): 4e-6, ("binary64", 1): 1e-6}[fmt, parts]
            seconds = timed(run)
            work = unit_work(machine, run)
            moved = _bytes_of(machine, batch, n, product, parts)
            report.add("dft", off <= allowed, batch=batch, n=n, unit=fmt, m=m, product=product, parts=parts, error=off,
                       microseconds=seconds * 1e6, share_of_peak=work / seconds / PEAKS[fmt], bytes=moved,
                       share_of_memory=moved / seconds / MEMORY)  # fmt: skip
        report.add("dft", None, batch=batch, n=n, unit="cuFFT, complex64", error=error(cupy.fft.fft(x)),
                   microseconds=timed(partial(cupy.fft.fft, x)) * 1e6)  # fmt: skip
        _half_fft(report, host, batch, n, error)


def _bytes_of(machine: Machine, batch: int, n: int, product: str, parts: int) -> int:
    """What one pass over memory for each level moves, from complex64."""
    from tcu.algorithms.dft_levels import ComplexDft
    from tcu.gpu import find_gpu
    from tcu.gpu.tall import kernel_of
    from tcu.gpu.transforms import bytes_moved

    plan = ComplexDft(machine, product, parts).plan_at_once(n)
    return bytes_moved(plan, batch, 4, kernel_of(machine.executor.instruction, find_gpu()))


def _half_fft(report: Report, host: Any, batch: int, n: int, error: Callable[[Any], float]) -> None:
    try:
        import cupy
        import torch
    except ImportError:
        return
    try:
        y = torch.from_numpy(host).cuda().to(torch.complex32)
        result = torch.fft.fft(y).to(torch.complex64)
        off = error(cupy.from_dlpack(torch.view_as_real(result).contiguous()).view(cupy.complex64)[..., 0])
        seconds = timed(partial(torch.fft.fft, y))
    except RuntimeError as failed:
        print("cuFFT in binary16:", str(failed).splitlines()[0])
        return
    report.add("dft", None, batch=batch, n=n, unit="cuFFT, complex32", error=off, microseconds=seconds * 1e6)


def integers(report: Report, quick: bool) -> None:
    """Products of two integers of so many bits, from Python's integers to Python's integers."""
    try:
        import gmpy2

        big, gmp = gmpy2.mpz, f"gmpy2 {gmpy2.version()}"
    except ImportError:
        big, gmp = int, "CPython's int (no gmpy2)"
    rng = np.random.default_rng(3)
    for bits_ in (1 << 14, 1 << 17) if quick else (1 << 14, 1 << 16, 1 << 18, 1 << 20):
        a, b = (int.from_bytes(rng.bytes(bits_ // 8), "little") | 1 << (bits_ - 1) for _ in range(2))
        p, q = big(a), big(b)
        product = int(p * q)
        peer = wall(partial(operator.mul, p, q), 0.1)
        report.add("integers", None, bits=bits_, unit=gmp, microseconds=peer * 1e6)
        for m, algorithm in ((65536, "schoolbook"), (65536, "karatsuba"), (4096, "auto")):
            machine = Machine(m, 65536, word_bits=32, executor=GpuExecutor("u8"))
            run = partial(machine.integer_multiply, a, -b, algorithm=algorithm)
            try:
                right = run() == -product
            except tcu.TcuError as refused:
                print(f"integers    {bits_} bits, m {m}, {algorithm}: {refused}")
                continue
            seconds = wall(run)
            work = unit_work(machine, run)
            # Entries of 4 bytes, written and read: as many for each row as the unit has columns.
            moved = 8 * machine.ledger.tensor_rows * machine.side
            report.add("integers", right, bits=bits_, unit="u8", m=m, algorithm=algorithm, microseconds=seconds * 1e6,
                       share_of_peak=work / seconds / PEAKS["u8"], bytes=moved,
                       share_of_memory=moved / seconds / MEMORY)  # fmt: skip
    _batch(report, rng)


def _batch(report: Report, rng: Any) -> None:
    """Many products at once, which one call computes."""
    count, bits_ = 256, 1 << 14
    numbers = [[int.from_bytes(rng.bytes(bits_ // 8), "little") for _ in range(count)] for _ in range(2)]
    machine = Machine(65536, 65536, word_bits=32, executor=GpuExecutor("u8"))
    a, b = (np.array(each, object) for each in numbers)
    run = partial(machine.integer_multiply, a, b)
    right = bool((run() == a * b).all())
    report.add("integers", right, bits=bits_, unit="u8", m=65536, algorithm="auto", batch=count,
               microseconds=wall(run) * 1e6, python_microseconds=wall(partial(operator.mul, a, b), 0.1) * 1e6)  # fmt: skip


def polynomial(report: Report, quick: bool) -> None:
    """A polynomial at many points on binary64 tensor cores, beside the fastest of Horner's rules in registers."""
    import cupy

    from tcu.algorithms.polynomials import COLUMNS, evaluate_error_bound

    rng = np.random.default_rng(4)
    for n, points in (
        ((1024, 1 << 16),)
        if quick
        else (
            (64, 1 << 16),
            (64, 1 << 20),
            (1024, 1 << 16),
            (4096, 1 << 18),
            (16384, 1 << 18),
            (1024, 1 << 20),
        )
    ):
        a, x = rng.standard_normal(n), rng.uniform(-1, 1, points)
        on = cupy.asarray(a), cupy.asarray(x)
        y = cupy.empty(points)

        peers = horner_kernels(on, y)
        times = {shape: timed(run, SECONDS / 4) for shape, run in peers.items()}
        shape = min(times, key=times.__getitem__)
        peers[shape]()
        reference = y.get()
        report.add("polynomial", None, n=n, points=points, unit="Horner, in registers", shape=shape, microseconds=times[shape] * 1e6,
                   share_of_cores=2.0 * n * points / times[shape] / CORES)  # fmt: skip
        for m in (256, 4096, 65536):
            machine = Machine(m, executor=GpuExecutor("binary64"))
            run = partial(machine.evaluate, *on)
            sample = slice(None, None, max(1, points // 2048))
            got = run().get()
            bound = evaluate_error_bound(machine, a, x[sample])
            # Horner's own error: 2n·2^-53·Σ|a||x|^k, in chains less.
            size = np.polynomial.polynomial.polyval(np.abs(x[sample]), np.abs(a))
            right = bool((np.abs(got[sample] - reference[sample]) <= bound + 2 * n * 2.0**-53 * size).all())
            seconds = timed(run)
            products = -(-n // (COLUMNS * machine.side))
            columns = -(-n // machine.side)
            # Of the ledger's square products only these columns are computed.
            work = 2.0 * points * min(n, machine.side) * columns
            moved = 8 * points * ((1 + products) * min(n, machine.side) + 2 * columns)
            report.add("polynomial", right, n=n, points=points, unit="binary64", m=m, microseconds=seconds * 1e6,
                       share_of_peak=work / seconds / PEAKS["binary64"], bytes=moved,
                       share_of_memory=moved / seconds / MEMORY)  # fmt: skip


SECTIONS = {
    "bits": bits,
    "tall": tall,
    "dft": dft,
    "integers": integers,
    "polynomial": polynomial,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer and smaller cases")
    parser.add_argument("--sections", default=",".join(SECTIONS), help="some of " + ", ".join(SECTIONS))
    options = parser.parse_args()
    report = Report()
    start = time.perf_counter()
    for name in options.sections.split(","):
        began = time.perf_counter()
        try:
            SECTIONS[name](report, options.quick)
        except (Exception, KeyboardInterrupt) as failed:  # the other sections' figures are worth having
            report.wrong += 1
            report.figures.setdefault("failed", []).append({"section": name, "error": traceback.format_exc()})
            traceback.print_exc()
            if isinstance(failed, KeyboardInterrupt):
                break
        print(f"{name}: {time.perf_counter() - began:.1f} s", flush=True)
    print(f"{time.perf_counter() - start:.1f} s in all, {report.wrong} wrong")
    versions = {}
    for package in ("cupy-cuda13x", "cupy-cuda12x", "cupy", "torch", "gmpy2"):
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    # Some sections alone do not take the place of all.
    name = "-".join(
        ["gpu-machine", *(options.sections.split(",") if options.sections != ",".join(SECTIONS) else [])]
    )
    print(record.save(name, _plain(report.figures), versions))
    return 1 if report.wrong else 0


def _plain(value: Any) -> Any:
    """NaN and infinities as words: JSON has no numbers for them."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return repr(value) if isinstance(value, float) and not math.isfinite(value) else value


if __name__ == "__main__":
    sys.exit(main())
