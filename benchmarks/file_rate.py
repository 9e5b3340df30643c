"""A file larger than the memory allowed: how fast `tcu sum --exact` is beside `cat FILE > /dev/null`.

The program runs as a process of its own under RLIMIT_AS.  What it takes for a
file of one number is its start, Python's and the compiler's; the rate is that
of what it takes beyond, and the ratio of the whole processes stands beside it.
"warm": the file is in the page cache as far as it fits; "cold": its pages are
dropped first (posix_fadvise).  All take turns; the figures are the medians,
with the fastest and slowest beside them.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import record

_BLOCK = 1 << 22


def write(path: Path, n: int) -> None:
    """n normal float64 numbers, a block of them shifted again and again."""
    block = np.random.default_rng(0).standard_normal(_BLOCK)
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": (n,)})
        for at in range(0, n, _BLOCK):
            block = np.roll(block, 12345)
            file.write(block[: n - at].data)
        file.flush()
        os.fsync(file.fileno())


def drop(path: Path) -> None:
    """The file's pages out of the page cache."""
    file = os.open(path, os.O_RDONLY)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(file)


def timed(command: list[str], limit: int | None) -> tuple[float, int, str]:
    """(seconds, most memory in bytes, what it printed) of a process."""

    def limited() -> None:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, preexec_fn=limited, text=True) as process:
        assert process.stdout is not None
        out = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command)} ended with {process.returncode}")
    return time.perf_counter() - start, usage.ru_maxrss * 1024, out


def figures(seconds: list[float], size: int, start: float = 0.0) -> dict[str, Any]:
    return {
        "seconds": statistics.median(seconds), "fastest": min(seconds), "slowest": max(seconds),
        "gb_per_second": size / (statistics.median(seconds) - start) / 1e9,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gigabytes", type=float, default=16.0)
    parser.add_argument("--limit", type=float, default=2.0, help="RLIMIT_AS of the program, in gigabytes")
    parser.add_argument(
        "--gpu", action="store_true", help="through the GPU, which wants more address space: no limit"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, default=Path("."), help="where the file goes, and stays")
    given = parser.parse_args()
    path, small = given.folder / "file-rate.npy", given.folder / "file-rate-one.npy"
    n = int(given.gigabytes * 1e9) // 8
    if not path.exists() or path.stat().st_size != 8 * n + 128:
        write(path, n)
    np.save(small, np.ones(1))
    size, limit = path.stat().st_size, None if given.gpu else int(given.limit * 1e9)
    flags = ["--gpu"] if given.gpu else []
    ours = [sys.executable, "-m", "tcu", "sum", "--exact", "--json", *flags, str(path)]
    on_one = [*ours[:-1], str(small)]
    timed(on_one, limit)
    result: dict[str, Any] = {"bytes": size, "limit_bytes": limit, "rounds": given.rounds}
    states: dict[str, Callable[[], None]] = {"warm": lambda: None, "cold": lambda: drop(path)}
    answers: set[str] = set()
    for state, prepare in states.items():
        taken: dict[str, list[float]] = {"cat": [], "tcu": [], "start": []}
        most = 0
        drop(path)  # so that the cache is filled by one reader, from the first byte to the last
        subprocess.run(["cat", path], stdout=subprocess.DEVNULL, check=True)
        for _ in range(given.rounds):
            prepare()
            start = time.perf_counter()
            subprocess.run(["sh", "-c", 'cat "$0" > /dev/null', path], check=True)
            taken["cat"].append(time.perf_counter() - start)
            prepare()
            seconds, memory, out = timed(ours, limit)
            taken["tcu"].append(seconds)
            most = max(most, memory)
            answers.add(json.loads(out)["bits"])
            taken["start"].append(timed(on_one, limit)[0])
        start = statistics.median(taken["start"])
        rows = {"cat": figures(taken["cat"], size), "tcu": figures(taken["tcu"], size, start)}
        ratio = rows["tcu"]["gb_per_second"] / rows["cat"]["gb_per_second"]
        result[state] = rows | {
            "start_seconds": start, "ratio": ratio,
            "ratio_of_whole_processes": rows["cat"]["seconds"] / rows["tcu"]["seconds"], "resident_bytes": most,
        }  # fmt: skip
        print(f"{state}: tcu {rows['tcu']['gb_per_second']:.2f}, cat {rows['cat']['gb_per_second']:.2f} GB/s, "
              f"ratio {ratio:.2f}, {most / 1e6:.0f} MB resident")  # fmt: skip
    result["bits"] = sorted(answers)
    if len(answers) != 1:
        sys.exit(f"different results: {sorted(answers)}")
    print(record.save("file-rate-gpu" if given.gpu else "file-rate", result))


if __name__ == "__main__":
    main()
