"""Seconds of the first call in a new process, with nothing compiled before and with what that process left."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from typing import Any

from gpu_timing import first_line

_START = """
import time
import torch
device = "cuda" if torch.cuda.is_available() else "cpu"
x = torch.ones({shape}, dtype=torch.float16, device=device)
def wait():
    if device == "cuda":
        torch.cuda.synchronize()
wait()
a = time.perf_counter()
{prepare}
b = time.perf_counter()
{call}
wait()
c = time.perf_counter()
{call}
wait()
print("seconds", b - a, c - b, time.perf_counter() - c)
"""
TCU_SUM = ("import tcu", "tcu.sum(x, axis=-1)")
TCU_CUMSUM = ("import tcu", "tcu.cumsum(x, axis=-1, dtype='float16')")
COMPILED_SUM = ("f = torch.compile(lambda x: x.sum(-1, dtype=torch.float32))", "f(x)")
COMPILED_CUMSUM = ("f = torch.compile(lambda x: x.cumsum(-1))", "f(x)")
PARTS = ("import", "first call", "second call")


def first_calls(of: str, code: tuple[str, str], lengths: tuple[int, ...], warm: bool) -> list[dict[str, Any]]:
    """A cold process for each row length, and with ``warm`` another one after the last; "missing" where one fails."""
    rows = []
    for number, length in enumerate(lengths):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            states = ("cold", "warm") if warm and number == len(lengths) - 1 else ("cold",)
            for state in states:
                row: dict[str, Any] = {"of": of, "call": code[1], "length": length, "cache": state}
                try:
                    rows.append(row | _measure(code, length, folder))
                except Exception as error:  # what is missing must not cost the others' figures
                    rows.append(row | {"missing": first_line(error)})
    return rows


def _measure(code: tuple[str, str], length: int, folder: str) -> dict[str, float]:
    prepare, call = code
    script = _START.format(shape=((1 << 22) // length, length), prepare=prepare, call=call)
    variables = ("TCU_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "CUDA_CACHE_PATH")
    environment = os.environ | {name: os.path.join(folder, name) for name in variables}
    environment.pop("TORCHINDUCTOR_COMPILE_THREADS", None)  # as its users have it
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        raise RuntimeError((done.stderr.strip().splitlines() or ["no message"])[-1])
    seconds = done.stdout.split("seconds")[-1].split()
    return dict(zip(PARTS, map(float, seconds), strict=True))
