"""Products of matrices on one GPU: tcu.matmul beside cuBLAS, as PyTorch calls it.

    python benchmarks/gpu_matmul.py [--quick] [--dry-run]

Times are of CUDA graphs of many calls (tcu/study/gpu/timing.py), the participants of a point take turns.  Operands
that fit into the second cache rotate, so that weights come from memory.  "chain" is plan="chain", which is cuBLAS's
order where it does not split K; "chunks" is the default.  Where nvmath-python can be imported, the fastest algorithm that
cuBLASLt's heuristics propose takes part, found for each point (cublaslt.py).  Where the package batch_invariant_ops can be imported
(https://github.com/thinking-machines-lab/batch_invariant_ops), its product takes part: matmul_persistent, in Triton.

In the same run, for each point: of rows and columns drawn at random, the bits against those of the CPU's model, and the
share of cuBLAS's results that equal the chain's.  Then, for each format, OUTPUTS results of ordinary and of adversarial
numbers against the model.  A result of tcu that differs is marked WRONG, and the exit status is 1.  With --dry-run
on the CPU with small shapes; nothing is written.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import cublaslt
import numpy as np
import record
import torch

import tcu
from tcu.gpu.device import find_gpu
from tcu.study.gpu.peers import result_bits
from tcu.study.gpu.timing import Clock, CudaClock, Timing, WallClock, buffers_for

SQUARE, WIDE = ((4096,) * 3, (8192,) * 3), ((1024, 4096, 4096), (4096, 11008, 4096))
"""(M, N, K)."""
FEW_ROWS = tuple((m, n, n) for n in (4096, 8192) for m in (1, 8, 16, 64, 128))
TALL = ((4_194_304, 16, 16), (1_048_576, 64, 64), (1_048_576, 256, 256))
AWKWARD = ((4097, 4099, 4111), (1000, 3000, 999))
CASES: dict[str, tuple[tuple[int, int, int], ...]] = {
    "float16": (*SQUARE, *WIDE, *FEW_ROWS, *TALL, *AWKWARD),
    "bfloat16": (*SQUARE, *WIDE, *FEW_ROWS, *AWKWARD),
    "float8_e4m3fn": (*SQUARE, *WIDE, *FEW_ROWS),
    "float32": SQUARE[:1] + WIDE,
    "int8": SQUARE + WIDE,
    "float64": SQUARE[:1] + WIDE[:1],
}
RESULTS = {"float16": "float16", "bfloat16": "bfloat16", "float8_e4m3fn": "bfloat16", "float32": "float32",
           "int8": "int32", "float64": "float64"}  # fmt: skip
"""What is asked for, of tcu and of cuBLAS; float32 goes through TF32.  Tall products give float32."""
ROWS, COLUMNS = 6, 24
"""Results of a point that the model computes, too."""
OUTPUTS, LENGTH = 7_200, 300
"""Rows and columns, and K, of the comparison by format."""
SECONDS = 0.15
PLANS = ("chain", "chunks")
INVARIANT = "batch_invariant_ops"
LT = "nvmath"

Product = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Peer:
    name: str
    run: Product


def ours(plan: str, out: str) -> Product:
    return lambda a, b: tcu.matmul(a, b, plan=plan, dtype=getattr(torch, out))


def peers(dtype: str, out: str, device: str) -> list[Peer]:
    """cuBLAS; b is stored by columns, as weights are."""
    if dtype == "float8_e4m3fn":
        one = torch.ones((), device=device)
        wide = getattr(torch, out)
        return [
            Peer(
                name,
                lambda a, b, fast=fast: torch._scaled_mm(a, b, one, one, out_dtype=wide, use_fast_accum=fast),
            )
            for name, fast in (("cuBLAS, fast accumulation", True), ("cuBLAS", False))
        ]
    if dtype == "int8":
        return [Peer("cuBLAS", torch._int_mm)]
    if out != dtype:
        return [Peer("cuBLAS", lambda a, b: torch.mm(a, b, out_dtype=getattr(torch, out)))]
    found = [Peer("cuBLAS", torch.matmul)]
    if dtype in ("float16", "bfloat16") and importlib.util.find_spec(INVARIANT):
        found.append(Peer(INVARIANT, importlib.import_module(INVARIANT).matmul_persistent))
    return found


def numbers(
    rows: int, columns: int, dtype: str, device: str, generator: torch.Generator, spread: int = 0
) -> torch.Tensor:
    """Normal numbers; with ``spread`` times powers of two up to 2^±spread, a quarter of the columns negated copies."""
    if dtype == "int8":
        return torch.randint(-128, 128, (rows, columns), device=device, generator=generator, dtype=torch.int8)
    x = torch.randn(rows, columns, device=device, generator=generator)
    if spread:
        powers = torch.randint(-spread, spread + 1, x.shape, device=device, generator=generator)
        x = torch.ldexp(x, powers)
        x[:, columns // 2 : columns // 2 + columns // 4] = -x[:, : columns // 4]
    if dtype == "float8_e4m3fn":
        x = x.clamp_(-448, 448)
    return x.to(getattr(torch, dtype))


def host_array(x: torch.Tensor) -> np.ndarray[Any, Any]:
    """The same bits; of types that NumPy has not, as codes in ml_dtypes."""
    import ml_dtypes

    names = {torch.bfloat16: ml_dtypes.bfloat16, torch.float8_e4m3fn: ml_dtypes.float8_e4m3fn}
    if x.dtype not in names:
        return np.ascontiguousarray(x.cpu().numpy())
    codes = {1: torch.uint8, 2: torch.int16}[x.element_size()]
    return np.ascontiguousarray(x.contiguous().view(codes).cpu().numpy()).view(names[x.dtype])


def model_bits(a: torch.Tensor, b: torch.Tensor, plan: str, out: str, unit: Any) -> bytes:
    import ml_dtypes

    dtype = ml_dtypes.bfloat16 if out == "bfloat16" else out
    return np.ascontiguousarray(
        tcu.matmul(host_array(a), host_array(b), plan=plan, dtype=dtype, unit=unit)
    ).tobytes()


def point(dtype: str, shape: tuple[int, int, int], clock: Clock, device: str, unit: Any) -> dict[str, Any]:
    m, n, k = shape
    out = "float32" if shape in TALL else RESULTS[dtype]
    generator = torch.Generator(device).manual_seed(m + n + k)
    width = getattr(torch, dtype).itemsize
    nbytes = (m * k + k * n) * width + m * n * getattr(torch, out).itemsize
    count = buffers_for(nbytes, clock.l2, cold=True)
    pairs = [
        (numbers(m, k, dtype, device, generator), numbers(n, k, dtype, device, generator).T) for _ in range(count)
    ]  # fmt: skip
    who = [Peer(f"tcu, {plan}", ours(plan, out)) for plan in PLANS]
    if dtype in ("int8", "float64"):
        who = who[1:]  # every plan is one chain
    first = pairs[0]
    rows = torch.randint(m, (min(m, ROWS),), device=device, generator=generator)
    columns = torch.randint(n, (min(n, COLUMNS),), device=device, generator=generator)
    found: dict[str, dict[str, Any]] = {}
    results: dict[str, torch.Tensor] = {}
    for one in who:
        results[one.name] = one.run(*first)
        few = results[one.name][rows][:, columns].contiguous()
        wanted = model_bits(first[0][rows], first[1][:, columns], one.name[5:], out, unit)
        found[one.name] = {"right": result_bits(few) == wanted}
    theirs = peers(dtype, out, device)
    if device == "cuda" and importlib.util.find_spec(LT):
        try:
            run, among = cublaslt.fastest(pairs, getattr(torch, out))
            theirs.append(Peer(f"cuBLASLt, best of {among}", run))
        except Exception as error:
            found["cuBLASLt"] = {"missing": str(error).splitlines()[0][:160]}
    for one in list(theirs):
        try:
            # Where a product has few columns, cuBLAS writes the narrower result that it has.
            result = one.run(*first).to(getattr(torch, out))
        except Exception as error:  # a shape or a format that it does not take
            found[one.name] = {"missing": str(error).splitlines()[0][:160]}
            theirs.remove(one)
            continue
        chain = results.get("tcu, chain", results["tcu, chunks"])
        found[one.name] = {"equal_to_chain": float((result == chain).double().mean())}
    del results
    calls = {one.name: partial(_call, one.run, pairs) for one in (*who, *theirs)}
    times: dict[str, Timing | str] = (
        clock.graph(calls, count, nbytes, SECONDS)
        if device == "cuda"
        else dict(clock.events(calls, count, 0.0, 1))
    )
    for name, timing in times.items():
        if isinstance(timing, str):
            found[name]["missing"] = timing
        else:
            found[name] |= asdict(timing) | {
                "tflop_per_s": 2e-12 * m * n * k / timing.median, "tb_per_s": 1e-12 * nbytes / timing.median
            }  # fmt: skip
    return {"dtype": dtype, "result": out, "shape": shape, "buffers": count, "participants": found}


def _call(run: Product, pairs: list[tuple[torch.Tensor, torch.Tensor]], number: int) -> torch.Tensor:
    return run(*pairs[number])


def compare(dtype: str, side: int, device: str, unit: Any) -> dict[str, Any]:
    """All results of side × side products of ordinary and of adversarial numbers against the model."""
    generator = torch.Generator(device).manual_seed(side)
    out = "int32" if dtype == "int8" else "float64" if dtype == "float64" else "float32"
    different = outputs = 0
    spreads = {"float16": 10, "float8_e4m3fn": 6, "int8": 0}
    for spread in (0, spreads.get(dtype, 30)):
        a = numbers(side, LENGTH, dtype, device, generator, spread)
        b = numbers(side // 2, LENGTH, dtype, device, generator, spread).T
        for plan in PLANS:
            got = ours(plan, out)(a, b)
            codes = {4: np.uint32, 8: np.uint64}[got.element_size()]
            wanted = np.frombuffer(model_bits(a, b, plan, out, unit), codes)
            different += int((np.frombuffer(result_bits(got.contiguous()), codes) != wanted).sum())
            outputs += got.numel()
    return {"dtype": dtype, "result": out, "k": LENGTH, "outputs": outputs, "different": different}


def show(row: dict[str, Any]) -> None:
    found = row["participants"]
    best = max(
        (one["tflop_per_s"] for name, one in found.items() if name[:3] != "tcu" and "median" in one),
        default=None,
    )
    cells = []
    for name, one in found.items():
        if "median" not in one:
            cells.append(f"{name}: {one.get('missing', 'not timed')}")
            continue
        text = f"{name} {one['median'] * 1e6:.1f} µs {one['tflop_per_s']:.0f}"
        if name[:3] == "tcu":
            text += (f" ({one['tflop_per_s'] / best:.3f})" if best else "") + (
                "" if one["right"] else " WRONG"
            )
        else:
            text += f" (equal to the chain {one['equal_to_chain']:.4f})"
        cells.append(text)
    print(row["dtype"], "×".join(map(str, row["shape"])), "; ".join(cells), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="the first four shapes of each format")
    parser.add_argument("--dry-run", action="store_true", help="on the CPU, small; nothing is written")
    asked = parser.parse_args()
    dry = asked.dry_run
    device, unit = ("cpu", "H100") if dry else ("cuda", find_gpu(0).unit)
    clock: Clock = WallClock() if dry else CudaClock()
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    figures: dict[str, list[dict[str, Any]]] = {"points": [], "compared": []}
    for dtype, shapes in CASES.items():
        for shape in shapes[:4] if asked.quick or dry else shapes:
            small = (min(shape[0], 64), min(shape[1], 64), min(shape[2], 320)) if dry else shape
            figures["points"].append(point(dtype, small, clock, device, unit))
            show(figures["points"][-1])
    for dtype in CASES:
        figures["compared"].append(compare(dtype, 64 if dry else OUTPUTS, device, unit))
        print(figures["compared"][-1], flush=True)
    if not dry:
        installed = [
            torch,
            *(importlib.import_module(name) for name in (INVARIANT, LT) if importlib.util.find_spec(name)),
        ]
        print(record.save("gpu-matmul", figures, {each.__name__: each.__version__ for each in installed}))
    wrong = sum(
        not one.get("right", True) for row in figures["points"] for one in row["participants"].values()
    )
    return 1 if wrong or any(row["different"] for row in figures["compared"]) else 0


if __name__ == "__main__":
    sys.exit(main())
