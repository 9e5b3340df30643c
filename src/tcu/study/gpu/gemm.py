"""Matrix products on a GPU: by the WMMA interface, naively and with shared memory, and by the library."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch

from tcu.study.gpu import build
from tcu.study.gpu.peers import check
from tcu.study.gpu.reductions import clock
from tcu.study.study import Rows

__all__ = ["rates", "reading"]

SECONDS = 0.3
"""For each product that takes part in a row of turns."""


@cache
def library() -> ctypes.CDLL:
    major, minor = torch.cuda.get_device_capability()
    return build.build("gemm.cu", f"sm_{major}{minor}")


def _ours(name: str, a: Any, b: Any) -> Callable[[], Any]:
    c = torch.empty(a.shape, dtype=torch.float32, device=a.device)
    call = getattr(library(), name)
    call.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p]

    def run() -> Any:
        stream = torch.cuda.current_stream().cuda_stream
        check(call(a.data_ptr(), b.data_ptr(), c.data_ptr(), a.shape[0], stream))
        return c

    return run


def rates(n: int, naive: str, shared: str, cublas: str) -> Rows:
    """Seconds of one n × n × n product and its error, for each way, by these names; 2 n³ operations."""
    generator = torch.Generator("cuda").manual_seed(n)
    a, b = (torch.rand(n, n, generator=generator, device="cuda").half() for _ in range(2))
    ways: dict[str, Callable[[], Any]] = {
        naive: _ours("gemm_naive", a, b),
        shared: _ours("gemm_shared", a, b),
        cublas: partial(torch.mm, a, b),
    }
    clock().synchronize()
    exact = a[:128].double() @ b.double()
    found = []
    for name, run in ways.items():
        relative = float(((run()[:128].double() - exact).abs() / exact).max())
        found.append({"n": n, "who": name, "relative_error": relative})
    timings = clock().events(
        {name: partial(_call, run) for name, run in ways.items()}, 1, SECONDS * len(ways)
    )
    for row in found:
        row["seconds"] = timings[str(row["who"])].median
    return found


def reading(count: int, name: str) -> Rows:
    """Seconds of a sum of ``count`` binary16 numbers, by that name: what memory delivers."""
    x = torch.ones(count, dtype=torch.float16, device="cuda")
    timing = clock().events({name: partial(_call, partial(torch.sum, x, dtype=torch.float32))}, 1, SECONDS)
    return [{"read": count, "who": name, "seconds": timing[name].median}]


def _call(run: Callable[[], Any], number: int) -> Any:
    return run()
