"""Functions of rows on the GPU at hand: tcu beside PyTorch, as it is and compiled (max-autotune, without CUDA graphs).

    python benchmarks/gpu_row_functions.py [--only WORDS] [--quick] [--without-compile] [--add] [--dry-run]

Softmax and its kin, norms, variances and losses, forward and backward, of 2^27 numbers in rows of 256 to 262,144, of
bfloat16 and float32.  A call's time is the median of CUDA events around it, each queued behind a kernel that only waits, and
participants take turns.  Numbers are "repeated", read again and again from memory, or "just produced": a copy has written
them before, and has left some in the second cache.  Bytes are each number read once and each result written once.

In the same run rows drawn at random are compared with the CPU's bits; a point where one differs is marked WRONG, and the
exit status is 1.  ``--only "backward bfloat16"`` measures the points whose name has all these words, ``--quick`` three
lengths.  The file is written after each length, awkward ones first, so that a run that a time limit ends keeps what it has; with
--add, points of the file whose own kernels have not changed, on such a GPU, stay and are not measured again; without it nothing but a
whole run is written.  Processes side by side compile four lengths' functions first (gpu_compiled.py); 100 points take about four minutes with that.
With --dry-run on the CPU, small; nothing is written.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, NamedTuple

import record
import sources
import torch
from gpu_compiled import Precompiled

import tcu

LENGTHS = (50257, 1000, 131072, 256, 8192, 32768, 4096, 262144, 16384, 1024)
QUICK = (1024, 32768, 262144)
TOTAL = 1 << 27
HEAD_START = 2_000_000
"""Cycles that the GPU waits before each call, while the host queues it: a millisecond."""
ROUNDS = 9
TOGETHER = 4
"""Lengths whose functions are compiled at once, so that processes begin less often."""
CHECKED = 1 << 18
"""Numbers of the rows that are compared with the CPU's, one row at least."""

functional = torch.nn.functional


@dataclass(frozen=True)
class Function:
    own: Callable[..., torch.Tensor]
    """Of the numbers, a weight for each place of a row, and a class for each row."""
    theirs: Callable[..., torch.Tensor]
    is_map: bool
    """Whether results are as many as numbers."""
    launched_by: str
    """The module of tcu.gpu that launches the kernel of its results."""


FUNCTIONS = {
    "softmax": Function(lambda x, w, t: tcu.softmax(x, -1), lambda x, w, t: torch.softmax(x, -1), True, "exponentials"),
    "log_softmax": Function(
        lambda x, w, t: tcu.log_softmax(x, -1), lambda x, w, t: torch.log_softmax(x, -1), True, "exponentials"
    ),
    "logsumexp": Function(
        lambda x, w, t: tcu.logsumexp(x, -1, dtype=x.dtype), lambda x, w, t: torch.logsumexp(x, -1), False, "exponentials"
    ),
    "cross_entropy": Function(
        lambda x, w, t: tcu.cross_entropy(x, t, reduction="none"),
        lambda x, w, t: functional.cross_entropy(x, t, reduction="none"), False, "cross_entropy",
    ),
    "rms_norm": Function(
        lambda x, w, t: tcu.rms_norm(x), lambda x, w, t: functional.rms_norm(x, x.shape[-1:]), True, "norms"
    ),
    "rms_norm, weight": Function(
        lambda x, w, t: tcu.rms_norm(x, weight=w), lambda x, w, t: functional.rms_norm(x, x.shape[-1:], w), True, "norms"
    ),
    "layer_norm": Function(
        lambda x, w, t: tcu.layer_norm(x), lambda x, w, t: functional.layer_norm(x, x.shape[-1:]), True, "norms"
    ),
    "normalize": Function(
        lambda x, w, t: tcu.normalize(x), lambda x, w, t: functional.normalize(x, dim=-1), True, "norms"
    ),
    "var": Function(
        lambda x, w, t: tcu.var(x, -1, dtype=x.dtype), lambda x, w, t: torch.var(x, -1, correction=0), False, "moments"
    ),
    "std": Function(
        lambda x, w, t: tcu.std(x, -1, dtype=x.dtype), lambda x, w, t: torch.std(x, -1, correction=0), False, "moments"
    ),
}  # fmt: skip
GRADIENTS_BY = {"moments": ("row_gradients",), "cross_entropy": ("cross_entropy",)}
"""The modules that launch what gradients take, by the function's own; of others that one, too."""


@dataclass(frozen=True)
class Case:
    function: str
    direction: str
    dtype: str
    length: int
    total: int = TOTAL

    @property
    def passes(self) -> int:
        """How often as many bytes as the numbers' are read or written at least."""
        is_map = FUNCTIONS[self.function].is_map
        return 1 + is_map if self.direction == "forward" else 2 + is_map

    @property
    def text(self) -> str:
        return f"{self.function} {self.direction} {self.dtype} {self.length}"


def cases(lengths: Sequence[int]) -> list[Case]:
    return [
        Case(function, direction, dtype, length)
        for dtype in ("bfloat16", "float32")
        for length in lengths
        for direction in ("forward", "backward")
        for function in FUNCTIONS
    ]


class Given(NamedTuple):
    x: torch.Tensor
    weight: torch.Tensor
    target: torch.Tensor
    upstream: torch.Tensor
    """The gradient of each result."""

    def rows(self, few: torch.Tensor) -> Given:
        """Some of them, on the CPU."""
        return Given(
            *(each.cpu() for each in (self.x[few], self.weight, self.target[few], self.upstream[few]))
        )


def numbers(case: Case, device: str) -> Given:
    rng = torch.Generator(device).manual_seed(case.length)
    rows, dtype = max(1, case.total // case.length), getattr(torch, case.dtype)
    is_map = FUNCTIONS[case.function].is_map

    def drawn(*shape: int) -> torch.Tensor:
        return torch.randn(shape, device=device, generator=rng).to(dtype)

    target = torch.randint(case.length, (rows,), device=device, generator=rng)
    return Given(drawn(rows, case.length), drawn(case.length), target, drawn(rows, *[case.length] * is_map))


def compiled(function: str) -> Callable[..., torch.Tensor]:
    torch._dynamo.reset()
    torch._functorch.config.donated_buffer = False  # a backward pass is timed again and again
    found: Callable[..., torch.Tensor] = torch.compile(
        FUNCTIONS[function].theirs, dynamic=False, mode="max-autotune-no-cudagraphs"
    )
    return found


def call_of(
    function: Callable[..., torch.Tensor], direction: str, given: Given
) -> Callable[[], torch.Tensor]:
    """What is timed; of a backward pass the forward one is made before."""
    x, weight, target, upstream = given
    if direction == "forward":
        return lambda: function(x, weight, target)
    x = x.detach().requires_grad_()
    found = function(x, weight, target)
    upstream = upstream.to(found.dtype)
    return lambda: torch.autograd.grad(found, x, upstream, retain_graph=True)[0]


def right(case: Case, found: torch.Tensor, given: Given) -> bool:
    """Whether rows drawn at random have the CPU's bits."""
    rows = len(given.x)
    few = torch.randint(rows, (max(1, min(rows, CHECKED // case.length)),), device=found.device)
    own = call_of(FUNCTIONS[case.function].own, case.direction, given.rows(few))()
    mine = found[few].cpu()
    code = {2: torch.int16, 4: torch.int32}[mine.dtype.itemsize]
    return torch.equal(mine.contiguous().view(code), own.contiguous().view(code))


def timed(calls: dict[str, Callable[[], Any]], before: Callable[[], Any], on_gpu: bool) -> dict[str, float]:
    """Seconds of each, behind what comes ``before`` it and is not timed."""
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(-2, ROUNDS if on_gpu else 1):
        for name, call in calls.items():
            before()
            if not on_gpu:
                start = time.perf_counter()
                call()
                taken[name].append(time.perf_counter() - start)
                continue
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda._sleep(HEAD_START)
            begin.record()
            call()
            end.record()
            end.synchronize()
            if number >= 0:
                taken[name].append(begin.elapsed_time(end) * 1e-3)
    return {name: statistics.median(each) for name, each in taken.items()}


def copying(dtype: str, device: str, total: int) -> float:
    """Bytes a second."""
    x = torch.randn(total, device=device).to(getattr(torch, dtype))
    other = torch.empty_like(x)
    return 2 * x.nbytes / timed({"copy": partial(other.copy_, x)}, lambda: None, device == "cuda")["copy"]


def rows_of(case: Case, device: str, with_compiled: bool, copy: float) -> list[dict[str, Any]]:
    given = numbers(case, device)
    function = FUNCTIONS[case.function]
    who = {"tcu": function.own, "eager": function.theirs}
    if with_compiled:
        who["torch.compile"] = compiled(case.function)
    calls = {name: call_of(each, case.direction, given) for name, each in who.items()}
    is_right = right(case, calls["tcu"](), given)
    peers, nbytes, rows = list(who)[1:], case.passes * given.x.nbytes, []
    # What the layer behind has written is a gradient; past autograd, as others have kept the numbers.
    produced = (given.x if case.direction == "forward" else given.upstream).data
    source = produced.clone()
    for state, before in (("repeated", lambda: None), ("just produced", lambda: produced.copy_(source))):
        seconds = timed(calls, before, device == "cuda")
        speeds = {name: nbytes / each / 1e12 for name, each in seconds.items()}
        share = speeds["tcu"] * 1e12 / copy
        rows += [
            {
                "function": case.function, "direction": case.direction, "state": state, "dtype": case.dtype, "length": case.length,
                "peer": peer, "tcu": seconds["tcu"], "peer_seconds": seconds[peer], "of_copy": share,
                "tb_per_s": speeds["tcu"], "peer_tb_per_s": speeds[peer], "right": is_right,
            }
            for peer in peers
        ]  # fmt: skip
        print(
            f"{case.text:45s} {state:14s} tcu {speeds['tcu']:5.2f} TB/s ({share:.2f} of copying)  "
            + "  ".join(f"{name} {speeds[name]:5.2f}" for name in peers)
            + ("" if is_right else "  WRONG"),
            flush=True,
        )
    return rows


def compile_all(tasks: str, device: str) -> None:
    """Of a list in JSON, each for the cache that the process has."""
    for each in json.loads(tasks):
        case, start = Case(**each), time.perf_counter()
        call_of(compiled(case.function), case.direction, numbers(case, device))()
        print(json.dumps(each | {"seconds": time.perf_counter() - start}), flush=True)


def merged(before: list[dict[str, Any]], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Both, in the order of lengths and of what is measured of one."""
    order = {case.text: number for number, case in enumerate(cases(sorted(LENGTHS)))}

    def place(row: dict[str, Any]) -> int:
        return order.get(case_of(row).text, len(order))

    return sorted([*before, *rows], key=place)


def case_of(row: dict[str, Any]) -> Case:
    return Case(row["function"], row["direction"], row["dtype"], row["length"])


def parts_of(row: dict[str, Any]) -> tuple[str, ...]:
    """The sources that a point measures."""
    own = FUNCTIONS[row["function"]].launched_by
    return sources.kernels_of(
        *((own,) if row["direction"] == "forward" else GRADIENTS_BY.get(own, (own, "row_gradients")))
    )


def missing(chosen: list[Case], rows: list[dict[str, Any]], peers: set[str]) -> list[Case]:
    """Cases that have not been measured beside all peers."""
    known: dict[str, set[str]] = {}
    for row in rows:
        known.setdefault(case_of(row).text, set()).add(row["peer"])
    return [case for case in chosen if not peers <= known.get(case.text, set())]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", default="", help="words that a point's name has, such as 'backward float32'"
    )
    parser.add_argument("--quick", action="store_true", help="three lengths of rows")
    parser.add_argument("--without-compile", action="store_true")
    parser.add_argument("--add", action="store_true", help="to what was measured before")
    parser.add_argument("--dry-run", action="store_true", help="on the CPU, small; nothing is written")
    parser.add_argument("--compile", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    device = "cpu" if asked.dry_run else "cuda"
    if asked.compile:
        compile_all(asked.compile, "cuda")
        return 0
    words = asked.only.split()
    chosen = [
        case
        for case in cases(QUICK if asked.quick else LENGTHS)
        if all(word in case.text.split() for word in words)
    ]
    if asked.dry_run:
        chosen = [Case(*list(asdict(case).values())[:3], case.length >> 6, 1 << 12) for case in chosen]
    with_compiled = not (asked.without_compile or asked.dry_run)
    peers = {"eager", "torch.compile"} if with_compiled else {"eager"}
    is_stored = asked.add or not (asked.dry_run or asked.quick or words or asked.without_compile)
    before = record.stored("gpu-row-functions", parts_of) if asked.add else None
    rows: list[dict[str, Any]] = before["rows"] if before else []
    chosen = missing(chosen, rows, peers)
    copies = {
        dtype: copying(dtype, device, chosen[0].total)
        for dtype in dict.fromkeys(case.dtype for case in chosen)
    }
    for dtype, rate in copies.items():
        print(f"{dtype} copy {rate / 1e12:.2f} TB/s", flush=True)
    is_right, folders = True, []
    lengths = list(dict.fromkeys(case.length for case in chosen))
    for number, length in enumerate(lengths):
        own = [case for case in chosen if case.length == length]
        if with_compiled and number % TOGETHER == 0:
            together = [case for case in chosen if case.length in lengths[number : number + TOGETHER]]
            # Kept to the end: the folders of all lengths are caches of this process.
            folders.append(Precompiled(together, __file__, "--compile"))
            for each in folders[-1].seconds():
                if "missing" in each:
                    print(f"not compiled before: {each['missing']}", flush=True)
        found = [row for case in own for row in rows_of(case, device, with_compiled, copies[case.dtype])]
        is_right = is_right and all(row["right"] for row in found)
        again = {case.text for case in own}
        rows = merged([row for row in rows if case_of(row).text not in again], found)
        if is_stored:
            print(record.save("gpu-row-functions", {"rows": rows}, {"torch": torch.__version__}), flush=True)
    return int(not is_right)


if __name__ == "__main__":
    sys.exit(main())
