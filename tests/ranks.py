"""Processes of torchrun on Gloo, each of which runs the end of a test file."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from patience import HANGS

RIGHT = "all right"


def check_ranks(file: str, ranks: int, *arguments: str) -> None:
    """That so many processes run ``file`` with these arguments to its end, which is :func:`run_rank`."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--standalone",
            f"--nproc-per-node={ranks}",
            file,
            *arguments,
        ],
        capture_output=True,
        text=True,
        timeout=HANGS,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", "TCU_NUM_THREADS": "1"},
        cwd=Path(file).parent,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.count(RIGHT) == ranks


def group_sizes(ranks: int) -> list[int]:
    """Of the groups that are tried: all with --all-cases, else about half."""
    some = range(1, ranks + 1) if "--all-cases" in sys.argv else range(ranks, 1, -2)
    return sorted({1, *some, min(ranks, 3)})


def run_rank(check: Callable[[int, int], None]) -> None:
    """Calls ``check`` with the process's rank and how many there are, and ends the process."""
    import torch

    torch.distributed.init_process_group("gloo")
    check(torch.distributed.get_rank(), torch.distributed.get_world_size())
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
    print(RIGHT, flush=True)
    # What is left of Gloo's threads has ended a process that was leaving: "terminate called without an active exception",
    # once in some fifty (PyTorch 2.13).
    os._exit(0)
