"""torch.compile as a peer: it compiles anew for each shape, so processes side by side fill a cache first.

Run as a script with a list of tasks in JSON, it compiles and tunes them one after another and prints the
seconds of each first call.  Its mode is max-autotune without CUDA graphs, for shapes that are constants.  The
processes share the GPU while they tune: alone, a hundred shapes would take half an hour.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import torch

PROCESSES = 14


@dataclass(frozen=True)
class Task:
    operation: str
    """Of tensors with an axis and a dtype: sum, cumsum, norm, or dot, of the two rows of an array."""
    dtype: str
    result: str
    shape: tuple[int, ...]
    axis: int


def _sum(x: torch.Tensor, axis: int, dtype: torch.dtype) -> torch.Tensor:
    return x.sum(axis, dtype=dtype)


def _cumsum(x: torch.Tensor, axis: int, dtype: torch.dtype) -> torch.Tensor:
    return x.cumsum(axis, dtype=dtype)


def _norm(x: torch.Tensor, axis: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.linalg.vector_norm(x, dim=axis, dtype=dtype)


def _dot(x: torch.Tensor, axis: int, dtype: torch.dtype) -> torch.Tensor:
    return (x[0].to(dtype) * x[1].to(dtype)).sum()


OPERATIONS = {"sum": _sum, "cumsum": _cumsum, "norm": _norm, "dot": _dot}


@cache
def _compiled(operation: str) -> Callable[..., torch.Tensor]:
    import torch._dynamo

    torch._dynamo.config.recompile_limit = 1024  # each shape is one
    compiled: Callable[..., torch.Tensor] = torch.compile(
        OPERATIONS[operation], dynamic=False, mode="max-autotune-no-cudagraphs"
    )
    return compiled


def run_of(task: Task) -> Callable[[torch.Tensor], torch.Tensor]:
    """A call on an array that holds the task's elements first."""
    compiled, dtype = _compiled(task.operation), getattr(torch, task.result)
    n = 1
    for length in task.shape:
        n *= length
    return lambda x: compiled(x[:n].view(task.shape), task.axis, dtype)


class Precompiled:
    """Processes that compile; their cache is this process's, too."""

    def __init__(self, tasks: Iterable[Any], *script: str) -> None:
        """Of tasks that a script takes as its last argument; without one, :class:`Task`."""
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = self._folder.name
        os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # a pool in each process would be too many
        shares: list[list[Any]] = [[] for _ in range(PROCESSES)]
        for number, task in enumerate(dict.fromkeys(tasks)):
            shares[number % PROCESSES].append(task)
        self._running = [
            subprocess.Popen(
                [sys.executable, *(script or (__file__,)), json.dumps([asdict(task) for task in share])],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )
            for share in shares if share
        ]  # fmt: skip

    def seconds(self) -> list[dict[str, Any]]:
        """Each task with the seconds of its first call, or why there are none; waits for all."""
        found: list[dict[str, Any]] = []
        for process in self._running:
            out, error = process.communicate()
            found += [json.loads(line) for line in out.splitlines() if line.startswith("{")]
            if process.returncode != 0:
                found.append({"missing": (error.strip().splitlines() or ["no message"])[-1][:200]})
        return found


def _work(tasks: list[Task]) -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    for task in tasks:
        x = torch.zeros(task.shape, dtype=getattr(torch, task.dtype), device=device)
        start = time.perf_counter()
        run_of(task)(x.view(-1))
        if device == "cuda":
            torch.cuda.synchronize()
        print(json.dumps(asdict(task) | {"seconds": time.perf_counter() - start}), flush=True)


if __name__ == "__main__":
    _work([Task(**{**given, "shape": tuple(given["shape"])}) for given in json.loads(sys.argv[1])])
