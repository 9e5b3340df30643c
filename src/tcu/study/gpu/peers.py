"""Who takes part in the benchmark of GPU sums, and how far from the exact sum each may end."""

from __future__ import annotations

import ctypes
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import tcu
from tcu.plan import DEFAULT_VARIANT, SEGMENTED, VARIANTS
from tcu.study.gpu import build
from tcu.study.gpu.data import to_host, torch_dtype
from tcu.study.gpu.timing import first_line

READ = "read alone"
"""The ceiling: the best of several launch shapes of a kernel that only reads."""
READ_SHAPES = ((4, 8), (8, 8), (8, 2), (4, 32))
"""(16-byte loads a thread and tile, waves of 8 blocks an SM)."""

EXACT, PAIRWISE, SEQUENTIAL = 0.0, 64.0, 4096.0
"""Allowed errors, in unit roundoffs of the result's format times the sum of |x|.

PAIRWISE is far above what sums by thousands of threads lose, SEQUENTIAL above
what blocks lose that are added one after another; both are far below what a
tile left out or added twice would show in uniform data.
"""
NARROW = {"float16": 2.0**15, "bfloat16": 2.0**18, "float32": 2.0**15, "float64": SEQUENTIAL}
"""The same for the papers' variants, whose partial sums enter MMAs in the operand's format: 4 of its roundoffs."""


@dataclass(frozen=True)
class Participant:
    name: str
    run: Callable[[Any], Any]
    """Array to a result of one number, in the GPU's memory, without waiting."""
    prepare: Callable[[torch.Tensor], Any] = lambda x: x
    """From a PyTorch tensor to the array that ``run`` takes, outside the time measured."""
    allowed: float | None = PAIRWISE
    """The allowed error; None: the result is no sum."""
    model: Callable[[np.ndarray], Any] | None = None
    """The CPU's result, of which every bit must agree."""
    may_overflow: bool = False
    """Partial sums are kept in a format that is too narrow for some data."""
    sizes: frozenset[int] | None = None
    """None: all."""
    nbytes: int | None = None
    """Bytes moved, where they are not those of the problem."""


@dataclass
class Field:
    """The participants for one dtype, and in words why others are missing."""

    participants: list[Participant]
    missing: dict[str, str]


def result_value(result: Any) -> float:
    """The number of a 0-d array of any library."""
    return float(result.item())


def result_format(result: Any) -> str:
    return str(result.dtype).removeprefix("torch.")


def result_bits(result: Any) -> bytes:
    """Of NumPy or PyTorch, with the bits of a NaN."""
    return (to_host(result) if isinstance(result, torch.Tensor) else np.asarray(result)).tobytes()


def sum_of(**parameters: Any) -> Callable[[Any], Any]:
    return lambda x: tcu.sum(x, **parameters)


def _tcu(dtype: str, variants: bool) -> list[Participant]:
    found = [
        Participant("tcu.sum", tcu.sum, model=tcu.sum),
        Participant("tcu.fsum", tcu.fsum, allowed=EXACT, model=tcu.fsum),
    ]
    for name, row in VARIANTS.items() if variants else ():
        if name != DEFAULT_VARIANT and name not in SEGMENTED:  # paper_002.py measures those
            run = sum_of(variant=name)
            chain = "" if row.chain is None else f" R={row.chain}"
            label = f"tcu.sum {name}{chain} B={row.block}"
            stored = name in ("recurrence", "two-mma")
            model = run if row.reproducible else None
            found.append(Participant(label, run, allowed=NARROW[dtype], model=model, may_overflow=stored))
    return found


def _wide(dtype: str) -> torch.dtype:
    return torch.float32 if torch_dtype(dtype).itemsize == 2 else torch_dtype(dtype)


def _torch(dtype: str) -> list[Participant]:
    wide = _wide(dtype)
    found = [Participant("torch", lambda x: x.sum(dtype=wide))]
    if dtype == "float32":
        found.append(Participant("torch, dtype=float64", lambda x: x.sum(dtype=torch.float64)))
    return found


def _compiled(dtype: str) -> list[Participant]:
    import torch._dynamo

    torch._dynamo.config.recompile_limit = 64  # each size and dtype is one
    wide = _wide(dtype)
    compiled = torch.compile(lambda x: x.sum(dtype=wide), dynamic=False)
    return [Participant("torch.compile", compiled)]


def _cupy(dtype: str) -> list[Participant]:
    import cupy

    cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream).use()
    wide = np.float32 if torch_dtype(dtype).itemsize == 2 else np.dtype(dtype)
    return [Participant("CuPy", lambda x: x.sum(dtype=wide), cupy.from_dlpack)]


class CubCall:
    """A sum of CUB's, of an array or of each row; the results and the temporary storage are allocated once.

    ``function`` takes x, the results, the sizes of x, the storage, its size and the stream.
    """

    def __init__(self, function: Any, out: str) -> None:
        self._sum = function
        self._dtype = torch_dtype(out)
        self._made: dict[tuple[int, ...], tuple[torch.Tensor, torch.Tensor, ctypes.c_size_t]] = {}

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        shape = tuple(x.shape)
        if shape not in self._made:
            size = ctypes.c_size_t(0)
            out = torch.empty(shape[:-1], dtype=self._dtype, device="cuda")
            self._call(x, out, None, size)
            self._made[shape] = out, torch.empty(max(1, size.value), dtype=torch.uint8, device="cuda"), size
        out, storage, size = self._made[shape]
        self._call(x, out, storage.data_ptr(), size)
        return out

    def _call(self, x: torch.Tensor, out: torch.Tensor, storage: int | None, size: ctypes.c_size_t) -> None:
        sizes = [ctypes.c_longlong(extent) for extent in x.shape]
        check(
            self._sum(
                ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(out.data_ptr()), *sizes, ctypes.c_void_p(storage),
                ctypes.byref(size), ctypes.c_void_p(torch.cuda.current_stream().cuda_stream),
            )
        )  # fmt: skip


def check(status: int) -> None:
    if status != 0:
        raise RuntimeError(f"cudaError_t {status}")


CPP = {"float16": "__half", "bfloat16": "__nv_bfloat16", "float32": "float", "float64": "double"}
SHORT = {"float16": "half", "bfloat16": "bf16", "float32": "float", "float64": "double"}
LEVELS = ("not_guaranteed", "run_to_run", "gpu_to_gpu")


def cub_name(dtype: str, out: str, level: str | None = None) -> str:
    return f"CUB {SHORT[dtype]}→{SHORT[out]}" + (f" {level}" if level else "")


def _cub_jobs(dtype: str, cccl: build.Cccl) -> dict[str, tuple[str, str, tuple[str, ...]]]:
    """Name to (result dtype, source, options for nvcc)."""
    out = "float32" if torch_dtype(dtype).itemsize == 2 else dtype
    jobs = {}
    rows: list[tuple[str, str | None]] = [(out, None), *((out, level) for level in LEVELS)]
    if dtype == "float16":
        rows.insert(1, ("float16", None))
    for result, level in rows:
        options = [*cccl.include, f"-DIN={CPP[dtype]}", f"-DOUT={CPP[result]}"]
        options += ["-DWIDEN"] if result != dtype else []
        options += [f"-DDETERMINISM={level}"] if level else []
        jobs[cub_name(dtype, result, level)] = (result, "cub_sum.cu", tuple(options))
    return jobs


class Libraries:
    """All that nvcc builds, for several dtypes at once."""

    def __init__(self, dtypes: list[str], cccl_folder: Path | None) -> None:
        self.cccl = build.find_cccl(cccl_folder)
        self._jobs = {dtype: _cub_jobs(dtype, self.cccl) for dtype in dtypes}
        todo = {name: job[1:] for jobs in self._jobs.values() for name, job in jobs.items()}
        major, minor = torch.cuda.get_device_capability()
        self._made, failed = build.build_all(
            {"baselines": ("baselines.cu", ()), **todo}, f"sm_{major}{minor}"
        )
        self._failed = {
            name: f"not available in CCCL {self.cccl.version}: {why}" for name, why in failed.items()
        }

    def cub(self, dtype: str) -> Field:
        found = [
            Participant(name, CubCall(self._made[name].cub_sum, result), may_overflow=result == "float16")
            for name, (result, _, _) in self._jobs[dtype].items()
            if name in self._made
        ]
        return Field(found, {name: self._failed[name] for name in self._jobs[dtype] if name in self._failed})

    def baselines(self, dtype: str) -> Field:
        library = self._made.get("baselines")
        if library is None:
            return Field([], {READ: self._failed["baselines"]})
        found = [
            Participant(
                f"{READ}, {loads} loads, {waves} waves", read_alone(library, loads, waves), allowed=None
            )
            for loads, waves in READ_SHAPES
        ]
        if dtype != "float64":
            found.append(
                Participant("warp shuffle, atomic", _warp_shuffle(library, dtype), allowed=SEQUENTIAL)
            )
        return Field(found, {})


def read_alone(library: ctypes.CDLL, loads: int, waves: int) -> Callable[[torch.Tensor], torch.Tensor]:
    out = torch.zeros((), dtype=torch.int32, device="cuda")
    never = secrets.randbits(32)
    call = library.read_all
    call.argtypes = [
        ctypes.c_void_p, ctypes.c_void_p, ctypes.c_longlong,
        ctypes.c_int, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p,
    ]  # fmt: skip

    def run(x: torch.Tensor) -> torch.Tensor:
        stream = torch.cuda.current_stream().cuda_stream
        check(call(x.data_ptr(), out.data_ptr(), x.numel() * x.element_size(), loads, waves, never, stream))
        return out

    return run


def _warp_shuffle(library: ctypes.CDLL, dtype: str) -> Callable[[torch.Tensor], torch.Tensor]:
    out = torch.empty((), dtype=torch.float32, device="cuda")
    call = getattr(library, f"warp_shuffle_{dtype}")
    call.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_longlong, ctypes.c_void_p]

    def run(x: torch.Tensor) -> torch.Tensor:
        check(call(x.data_ptr(), out.data_ptr(), x.numel(), torch.cuda.current_stream().cuda_stream))
        return out

    return run


def gather(dtype: str, libraries: Libraries | None, variants: bool, compiled: bool) -> Field:
    """Everyone for this dtype; without libraries only those that also run where there is no GPU."""
    if libraries is None:
        ours = [replace(p, prepare=to_host) for p in _tcu(dtype, variants)]
        return Field([*ours, *_torch(dtype)], {})
    groups: Mapping[str, Callable[[str], list[Participant]]] = {
        "torch": _torch,
        **({"torch.compile": _compiled} if compiled else {}),
        "CuPy": _cupy,
    }
    field = Field(_tcu(dtype, variants), {})
    for name, group in groups.items():
        try:
            field.participants += group(dtype)
        except Exception as error:  # a library that is not installed, or fails to start
            field.missing[name] = first_line(error)
    for part in (libraries.cub(dtype), libraries.baselines(dtype)):
        field.participants += part.participants
        field.missing |= part.missing
    return field
