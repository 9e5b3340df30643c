"""Who takes part in the benchmark of segments and scans: tcu, the ceilings, CUB, PyTorch, torch.compile, CuPy."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from gpu_compiled import Task, run_of
from gpu_segment_cases import ROWSCAN_PAIRS, norm_task, sum_result, sum_task

import tcu
from tcu.formats import get_format
from tcu.plan import SCAN_VARIANTS, make_mma_scan_plan, make_plan, mma_scan_error_bound, plan_error_bound
from tcu.study.gpu import build
from tcu.study.gpu.data import torch_dtype
from tcu.study.gpu.peers import (
    CPP,
    EXACT,
    PAIRWISE,
    READ,
    READ_SHAPES,
    SEQUENTIAL,
    Field,
    Participant,
    check,
    cub_name,
    read_alone,
)
from tcu.study.gpu.timing import first_line
from tcu.units import get_unit

COPY = "copy alone"
"""The ceiling of scans: the best of a copy by the driver and of kernels in several launch shapes."""
COPY_SHAPES = ((2, 0, 0), (4, 0, 0), (4, 0, 1), (8, 0, 0), (8, 0, 1), (4, 8, 0), (4, 8, 1))
"""(vectors a thread and tile, waves of 8 blocks an SM or 0 for a block a tile, streaming loads and stores)."""
FEW_ROWS = 64
"""Up to so many rows CUB also sums one after another: their launches fit into the head start of a call."""
BLOCKED_ROWS = 16
"""From so many rows on CUB sums them in one call; it gives each a block."""
SCAN_DEPTH = 64
"""At most so many binary64 additions lie between a number and a prefix in a scan by tcu."""

_BINARY = {"float16": "binary16", "bfloat16": "bfloat16", "float32": "binary32", "float64": "binary64"}
_SIGNATURE = [
    ctypes.c_void_p, ctypes.c_void_p, ctypes.c_longlong, ctypes.c_longlong,
    ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_size_t), ctypes.c_void_p,
]  # fmt: skip


def unit_roundoff(dtype: str) -> float:
    return float(torch.finfo(torch_dtype(dtype)).eps) / 2


def sum_allowed(dtype: str, n: int) -> float:
    """The bound that tcu states for a sum of n such numbers, in unit roundoffs of its result's format."""
    unit = get_unit("H100")
    plan = make_plan(n, get_format(_BINARY[dtype]), unit)
    mass = max(n * 0.2, 1.0)
    result = sum_result(dtype)
    bound = plan_error_bound(plan, unit, mass, 2.0, get_format(_BINARY[result]), 0.0)
    return 1.01 * bound / (mass * unit_roundoff(result))


def scan_allowed(result: str) -> float:
    return SCAN_DEPTH * 2.0**-53 / unit_roundoff(result)


def triangle_allowed(dtype: str, result: str, n: int, variant: str) -> float:
    """The bound that tcu states for scans of n such numbers by MMAs, in unit roundoffs of their result's format."""
    unit, fmt = get_unit("H100"), get_format(_BINARY[result])
    plan = make_mma_scan_plan(n, get_format(_BINARY[dtype]), unit, variant)
    mass = max(n * 0.2, 1.0)
    bound = mma_scan_error_bound(plan, unit, mass, mass, mass, 2.0, fmt)
    return float(1.01 * bound / (mass * unit_roundoff(result)))


def jobs(cccl: build.Cccl) -> dict[str, tuple[str, tuple[str, ...]]]:
    """What nvcc builds, by name: (source, options)."""
    found: dict[str, tuple[str, tuple[str, ...]]] = {
        "baselines": ("baselines.cu", ()), "copies": ("copies.cu", ())
    }  # fmt: skip
    sums = [(dtype, out) for dtype in CPP for out in dict.fromkeys((dtype, sum_result(dtype)))]
    for source, pairs in (("cub_scans.cu", ROWSCAN_PAIRS), ("cub_segments.cu", sums)):
        for dtype, out in pairs:
            options = [*cccl.include, f"-DIN={CPP[dtype]}", f"-DOUT={CPP[out]}"]
            options += ["-DWIDEN"] if out != dtype else []
            options += ["-DROWS"] if source == "cub_scans.cu" else []
            found[f"{source} {dtype} {out}"] = (source, tuple(options))
    return found


class _Cub:
    """One of the functions of cub_segments.cu and cub_scans.cu; result and storage are allocated once."""

    def __init__(
        self, function: Any, out: torch.Tensor, first: int, second: int, offsets: torch.Tensor | None
    ):
        function.argtypes = _SIGNATURE
        self._function, self._out, self._sizes = function, out, (first, second)
        self._offsets = offsets
        self._storage: torch.Tensor | None = None
        self._bytes = ctypes.c_size_t(0)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        if self._storage is None:
            self._call(x, None)
            self._storage = torch.empty(max(1, self._bytes.value), dtype=torch.uint8, device="cuda")
        self._call(x, self._storage.data_ptr())
        return self._out

    def _call(self, x: torch.Tensor, storage: int | None) -> None:
        offsets = None if self._offsets is None else self._offsets.data_ptr()
        stream = torch.cuda.current_stream().cuda_stream
        check(
            self._function(
                x.data_ptr(),
                self._out.data_ptr(),
                *self._sizes,
                offsets,
                storage,
                ctypes.byref(self._bytes),
                stream,
            )
        )


def _segment_reduce(offsets: torch.Tensor) -> Participant:
    reduce = partial(torch.segment_reduce, reduce="sum", offsets=offsets, unsafe=True)
    return Participant("torch.segment_reduce", reduce, allowed=SEQUENTIAL)


class Peers:
    """Participants by problem.  Without libraries only tcu and PyTorch, which also run where there is no GPU."""

    def __init__(self, cccl: Path | None, on_gpu: bool, only_tcu: bool) -> None:
        self.on_gpu, self.only_tcu = on_gpu, only_tcu
        self.cccl = build.find_cccl(cccl) if on_gpu and not only_tcu else None
        self._made: dict[str, ctypes.CDLL] = {}
        self.failed: dict[str, str] = {}
        if on_gpu:
            wanted = jobs(self.cccl or build.Cccl((), ""))
            if only_tcu:
                wanted = {name: wanted[name] for name in ("baselines", "copies")}
            major, minor = torch.cuda.get_device_capability()
            self._made, self.failed = build.build_all(wanted, f"sm_{major}{minor}")

    def rows(self, dtype: str, rows: int, length: int, compiled: bool) -> Field:
        """Sums of rows to the format of ``sum_result``."""
        shape = (rows, length)
        field = Field([self._sum(dtype, length, shape, 1)], {})
        if self.only_tcu:
            return field
        field.participants += self._torch_sums(dtype, shape, 1, compiled)
        for out in dict.fromkeys((sum_result(dtype), dtype)):
            name = cub_name(dtype, out)
            library = f"cub_segments.cu {dtype} {out}"
            if rows >= BLOCKED_ROWS:
                self._cub(field, f"{name} rows", library, "cub_rows", out, rows, (rows, length))
            if rows <= FEW_ROWS:
                self._cub(field, f"{name} one by one", library, "cub_each", out, rows, (rows, length))
        return field

    def exact(self, dtype: str, shape: tuple[int, ...], axis: int, compiled: bool) -> Field:
        """Exact sums along any axis, beside sums that are not."""
        size, wide = math.prod(shape), sum_result(dtype)
        field = Field([], {})
        self._ours(field, "fsum", EXACT, lambda call, x: call(x[:size].view(shape), axis=axis, dtype=wide))
        if not self.only_tcu:
            field.participants += self._torch_sums(dtype, shape, axis, compiled)
        return field

    def norms(self, operation: str, dtype: str, n: int, compiled: bool) -> Field:
        """The norm of the first n numbers, or the dot product of those and the next n, to the format of ``sum_result``."""
        field, wide = Field([], {}), sum_result(dtype)
        result = torch_dtype(wide)
        calls: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
            "norm": (lambda call, x: call(x[:n], dtype=wide), lambda x: torch.linalg.vector_norm(x[:n], dtype=result)),
            "dot": (lambda call, x: call(x[:n], x[n : 2 * n], dtype=wide), lambda x: torch.dot(x[:n], x[n : 2 * n])),
        }  # fmt: skip
        ours, eager = calls[operation]
        self._ours(field, operation, sum_allowed(dtype, n), ours)
        if not self.only_tcu:
            field.participants.append(Participant("torch", eager))
            if compiled:
                field.participants.append(
                    Participant("torch.compile", run_of(norm_task(operation, dtype, n)))
                )
        return field

    def along(self, dtype: str, shape: tuple[int, ...], axis: int, compiled: bool) -> Field:
        """Sums along any axis to the format of ``sum_result``."""
        field = Field([self._sum(dtype, shape[axis], shape, axis)], {})
        if not self.only_tcu:
            field.participants += self._torch_sums(dtype, shape, axis, compiled)
        return field

    def exact_ragged(self, dtype: str, offsets: torch.Tensor) -> Field:
        """Exact sums of segments, beside one that is not."""
        field, wide = Field([], {}), sum_result(dtype)
        self._ours(field, "segment_fsum", EXACT, lambda call, x: call(x, offsets, dtype=wide, check=False))
        if not self.only_tcu:
            field.participants.append(_segment_reduce(offsets))
        return field

    def ragged_scans(self, dtype: str, offsets: torch.Tensor) -> Field:
        """Inclusive scans of segments; PyTorch has none."""
        field = Field([], {})
        self._ours(
            field,
            "segment_cumsum",
            scan_allowed(dtype),
            lambda call, x: call(x, offsets, dtype=dtype, check=False),
        )
        return field

    def ragged(self, dtype: str, offsets: torch.Tensor) -> Field:
        """Sums of segments to the format of ``sum_result``."""
        segments = offsets.numel() - 1
        longest = int(offsets.diff().max())
        field = Field([], {})
        self._ours(
            field, "segment_sum", sum_allowed(dtype, longest), lambda call, x: call(x, offsets, check=False)
        )
        if self.only_tcu:
            return field
        for out in dict.fromkeys((sum_result(dtype), dtype)):
            library = f"cub_segments.cu {dtype} {out}"
            self._cub(
                field, cub_name(dtype, out), library, "cub_segments", out, segments, (segments, 0), offsets
            )
        field.participants.append(_segment_reduce(offsets))
        return field

    def scans(self, dtype: str, out: str, n: int) -> Field:
        """One inclusive scan."""
        field = Field([], {})
        self._ours(field, "cumsum", scan_allowed(out), lambda call, x: call(x, dtype=out))
        if self.only_tcu:
            return field
        self._cub(field, cub_name(dtype, out), f"cub_scans.cu {dtype} {out}", "cub_scan", out, n, (n, 0))
        wide = torch_dtype(out)
        field.participants.append(Participant("torch", lambda x: x.cumsum(0, dtype=wide), allowed=SEQUENTIAL))
        if self.on_gpu:
            self._cupy_scan(field, out)
        return field

    def row_scans(self, dtype: str, out: str, rows: int, length: int, compiled: bool) -> Field:
        """Inclusive scans of rows."""
        n, shape = rows * length, (rows, length)
        field = Field([], {})
        self._ours(
            field, "cumsum", scan_allowed(out), lambda call, x: call(x[:n].view(shape), axis=-1, dtype=out)
        )
        if self.only_tcu:
            return field
        library = f"cub_scans.cu {dtype} {out}"
        for name, function in (("by key", "cub_scan_by_key"), ("segmented", "cub_scan_rows")):
            self._cub(field, f"{cub_name(dtype, out)} {name}", library, function, out, n, (rows, length))
        wide = torch_dtype(out)
        eager = Participant("torch", lambda x: x[:n].view(shape).cumsum(1, dtype=wide), allowed=SEQUENTIAL)
        field.participants.append(eager)
        if compiled:
            task = Task("cumsum", dtype, out, shape, 1)
            field.participants.append(Participant("torch.compile", run_of(task), allowed=SEQUENTIAL))
        return field

    def triangle_scans(self, dtype: str, out: str, rows: int, length: int) -> Field:
        """Inclusive scans of rows by each variant with MMAs."""
        n, shape = rows * length, (rows, length)
        field = Field([], {})
        for variant, row in SCAN_VARIANTS.items():
            name = f"tcu.cumsum {variant}"
            if not row.uses_mma:
                continue
            allowed = triangle_allowed(dtype, out, length, variant)
            if not math.isfinite(allowed):
                field.missing[name] = f"totals of {length} such numbers may be too large for {dtype}"
                continue
            run = partial(tcu.cumsum, axis=-1, variant=variant, dtype=out)
            field.participants.append(
                Participant(name, lambda x, run=run: run(x[:n].view(shape)), allowed=allowed)  # type: ignore[misc]
            )
        return field

    def column_scans(self, dtype: str, shape: tuple[int, ...], axis: int, compiled: bool) -> Field:
        """Inclusive scans along an axis that is not the last."""
        size = math.prod(shape)
        field = Field([], {})
        self._ours(
            field,
            "cumsum",
            scan_allowed(dtype),
            lambda call, x: call(x[:size].view(shape), axis=axis, dtype=dtype),
        )
        if self.only_tcu:
            return field
        wide = torch_dtype(dtype)
        eager = Participant(
            "torch", lambda x: x[:size].view(shape).cumsum(axis, dtype=wide), allowed=SEQUENTIAL
        )
        field.participants.append(eager)
        if compiled:
            run = run_of(Task("cumsum", dtype, dtype, shape, axis))
            field.participants.append(Participant("torch.compile", run, allowed=SEQUENTIAL))
        return field

    def reads(self, nbytes: int) -> list[Participant]:
        """Each launch shape of reading alone, of an array of so many bytes."""
        library = self._made.get("baselines")
        if library is None:
            return []
        return [
            Participant(
                f"{READ}, {a} loads, {b} waves", read_alone(library, a, b), allowed=None, nbytes=nbytes
            )
            for a, b in READ_SHAPES
        ]

    def copies(self, dtype: str, out: str, n: int) -> list[Participant]:
        """The driver's copy and each launch shape of copying alone, into one array of the result's dtype."""
        library = self._made.get("copies")
        if library is None:
            return []
        result = torch.empty(n, dtype=torch_dtype(out), device="cuda")
        function = library.copy_all if dtype == out else library.widen_all
        function.argtypes = [
            ctypes.c_void_p, ctypes.c_void_p, ctypes.c_longlong,
            ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_void_p,
        ]  # fmt: skip

        def copy(shape: tuple[int, int, int], x: torch.Tensor) -> torch.Tensor:
            stream = torch.cuda.current_stream().cuda_stream
            check(function(x.data_ptr(), result.data_ptr(), n * x.element_size(), *shape, stream))
            return result

        # PyTorch copies a gapless array of the same dtype by cudaMemcpyAsync.
        found = [Participant(f"{COPY}, Tensor.copy_", lambda x: result.copy_(x[:n]), allowed=None)]
        for shape in COPY_SHAPES:
            name = f"{COPY}, {shape[0]} vectors, {shape[1]} waves{', streaming' if shape[2] else ''}"
            found.append(Participant(name, partial(copy, shape), allowed=None))
        return found

    def _sum(self, dtype: str, n: int, shape: tuple[int, ...], axis: int) -> Participant:
        size = math.prod(shape)
        return Participant(
            "tcu.sum", lambda x: tcu.sum(x[:size].view(shape), axis=axis), allowed=sum_allowed(dtype, n)
        )

    def _ours(
        self, field: Field, name: str, allowed: float, use: Callable[[Callable[..., Any], torch.Tensor], Any]
    ) -> None:
        call = getattr(tcu, name, None)
        if call is None:
            field.missing[f"tcu.{name}"] = f"this tcu has no {name}"
        else:
            field.participants.append(Participant(f"tcu.{name}", partial(use, call), allowed=allowed))

    def _torch_sums(
        self, dtype: str, shape: tuple[int, ...], axis: int, compiled: bool
    ) -> Iterable[Participant]:
        size, wide = math.prod(shape), torch_dtype(sum_result(dtype))
        yield Participant("torch", lambda x: x[:size].view(shape).sum(axis, dtype=wide))
        if compiled:
            yield Participant("torch.compile", run_of(sum_task(dtype, shape, axis)))

    def _cub(
        self, field: Field, name: str, library: str, function: str, out: str, results: int,
        sizes: tuple[int, int], offsets: torch.Tensor | None = None,
    ) -> None:  # fmt: skip
        if library not in self._made:
            field.missing[name] = self.failed.get(library, "not among the libraries that are built")
            return
        result = torch.full((results,), math.nan, dtype=torch_dtype(out), device="cuda")
        call = _Cub(getattr(self._made[library], function), result, *sizes, offsets)
        field.participants.append(Participant(name, call, allowed=PAIRWISE))

    def _cupy_scan(self, field: Field, out: str) -> None:
        try:
            import cupy

            cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream).use()
        except Exception as error:  # not installed, or it fails to start
            field.missing["CuPy"] = first_line(error)
            return
        run = partial(cupy.cumsum, dtype=out)
        field.participants.append(Participant("CuPy", run, cupy.from_dlpack, allowed=SEQUENTIAL))
