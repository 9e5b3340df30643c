"""Sums of segments and scans on one GPU: tcu against CUB, PyTorch, torch.compile, CuPy and the memory alone.

Parts, each with a file benchmarks/results/gpu-segments-PART.json:

rows           sums of rows of every length, along the first axis and a middle one; the ceiling is reading alone
exactrows      the same, correctly rounded (fsum)
segments       sums of ragged segments with int64 offsets, which count as bytes read; the ceiling is reading alone
exactsegments  the same, correctly rounded (segment_fsum)
norms          the norm of one long array and the dot product of two; the ceiling is reading alone
scans          one long inclusive scan; the ceiling is copying alone
rowscans       inclusive scans of rows; the ceiling is copying alone
trianglescans  inclusive scans of rows of 16-bit numbers by products with triangles of ones, with numbers a second of
               every participant; the ceiling is copying alone
columnscans    inclusive scans along the first axis and a middle one; the ceiling is copying alone
segmentscans   inclusive scans of ragged segments; the ceiling is copying alone
build          no measurement: nvcc builds the peers for --arch into build/benchmarks, without a GPU

--elements N takes N numbers in all in place of 2 GiB, and writes gpu-segments-PART-N.json.

tcu/study/gpu/timing.py says how calls are timed; the participants of a point take turns.  Bytes are those of
the problem, the same for all: each number, each offset and each result once, a sum as binary32, a
prefix as asked for.  gpu_segment_data.py says what results are compared with, and how.  The exit
status is 1 if a result of tcu is wrong.
"""

from __future__ import annotations

import argparse
import math
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import gpu_first_call
import gpu_segment_cases as cases
import gpu_segment_table
import record
import torch
from gpu_compiled import Precompiled, Task
from gpu_segment_claims import evaluate
from gpu_segment_data import Exact, Wanted, confirm_checker, norm_wanted, ragged_offsets, random_array
from gpu_segment_peers import COPY, Peers, jobs
from gpu_sum import versions

from tcu.study.gpu import build
from tcu.study.gpu.data import itemsize, torch_dtype
from tcu.study.gpu.peers import READ, Field, Participant
from tcu.study.gpu.timing import Clock, CudaClock, Timing, WallClock, buffers_for, first_line

ROUNDS = 12
SLOW, SLOW_ROUNDS = 0.01, 3
"""Calls of more seconds are timed in fewer rounds, apart from the others."""
SLOWEST = 0.05
"""Calls of more seconds are timed once.  PyTorch's running sums of rows of 3 numbers take a second; timed as others are,
they and those of 16 and 17 numbers took most of a run's time."""
PARTS = (
    "rows",
    "exactrows",
    "segments",
    "exactsegments",
    "norms",
    "scans",
    "rowscans",
    "trianglescans",
    "columnscans",
    "segmentscans",
)

Point = dict[str, Any]


class Bench:
    """The clock, the peers and the ceilings that a run has found."""

    def __init__(self, clock: Clock, peers: Peers, compiled: frozenset[Any]) -> None:
        self.clock, self.peers, self.compiled = clock, peers, compiled
        self.device = "cuda" if peers.on_gpu else "cpu"
        self._ceilings: dict[tuple[str, str], str] = {}

    def fastest(
        self, label: str, case: str, participants: list[Participant], arrays: list[torch.Tensor]
    ) -> list[Participant]:
        """The fastest participant, found once for each case and known as ``label`` from then on."""
        chosen = self._ceilings.get((label, case))
        if chosen is None and participants:
            calls = {who.name: partial(_call, who.run, arrays) for who in participants}
            times = self.clock.events(calls, len(arrays), 0.0, ROUNDS)
            chosen = min(times, key=lambda name: times[name].median)
            self._ceilings[label, case] = chosen
            print(f"{label} of {case}: {chosen}", flush=True)
        return [replace(who, name=label) for who in participants if who.name == chosen]

    def point(self, facts: Point, field: Field, arrays: list[torch.Tensor], wanted: Wanted) -> Point:
        """The facts with every participant's speed and worst element."""
        poison = (facts["results"], torch_dtype(facts["result"]), self.device)
        entries = {who.name: self._trial(who, arrays[0], wanted, poison) for who in field.participants}
        present = [who for who in field.participants if "missing" not in entries[who.name]]
        for who in present:
            if entries[who.name]["once"] > SLOWEST:
                entries[who.name] |= asdict(Timing.of([entries[who.name]["once"]]))
        for slow in (False, True):
            calls = {
                who.name: partial(_call, who.run, [who.prepare(x) for x in arrays])
                for who in present if (entries[who.name]["once"] > SLOW) is slow and "median" not in entries[who.name]
            }  # fmt: skip
            times = (
                self.clock.events(calls, len(arrays), 0.0, SLOW_ROUNDS if slow else ROUNDS) if calls else {}
            )
            for name, timing in times.items():
                entries[name] |= asdict(timing)
        for who in present:
            nbytes = who.nbytes or facts["bytes"]
            entries[who.name]["tb_per_s"] = nbytes * 1e-12 / entries[who.name]["median"]
        missing = {name: {"missing": why} for name, why in field.missing.items()}
        return facts | {"participants": entries | missing}

    def _trial(
        self, who: Participant, x: torch.Tensor, wanted: Wanted, poison: tuple[int, torch.dtype, str]
    ) -> dict[str, Any]:
        """One call's result against what is wanted, and the seconds of another call."""
        count, dtype, device = poison
        try:
            given = who.prepare(x)
            # A result that is never written would else be the one before, whose memory it gets.
            torch.full((count,), torch.nan, dtype=dtype, device=device)
            result = who.run(given)
            found = {} if who.allowed is None else wanted.verdict(_tensor(result), who.allowed)
            del result
            self.clock.synchronize()
            start = time.perf_counter()
            who.run(given)
            self.clock.synchronize()
        except Exception as error:  # a length or dtype that a library does not take
            return {"missing": f"{type(error).__name__}: {first_line(error)}"}
        return found | {"once": time.perf_counter() - start}


def _call(run: Callable[[Any], Any], arrays: list[Any], number: int) -> Any:
    return run(arrays[number])


def _tensor(result: Any) -> torch.Tensor:
    return result if isinstance(result, torch.Tensor) else torch.from_dlpack(result)


def _buffers(bench: Bench, n: int, dtype: str) -> list[torch.Tensor]:
    """Arrays that calls rotate over: the first is the one whose results are checked."""
    count = buffers_for(n * itemsize(dtype), bench.clock.l2, True)
    pool = random_array(n * count, dtype, bench.device)
    return list(pool.view(count, n))


def measure_rows(bench: Bench, asked: cases.Asked, part: str = "rows") -> Iterator[Point]:
    exactly = part == "exactrows"
    for dtype in asked.dtypes:
        n, out = asked.elements(dtype), cases.sum_result(dtype)
        arrays = _buffers(bench, n, dtype)
        exact = Exact.of(arrays[0])
        read = bench.fastest(READ, f"{dtype}, {n} elements", bench.peers.reads(n * itemsize(dtype)), arrays)
        lengths = asked.exact_lengths(dtype) if exactly else asked.row_lengths(dtype)
        shapes: list[cases.Along] = [("rows", (n // length, length), 1) for length in lengths]
        for layout, shape, axis in shapes + asked.along(n):
            compiled = cases.sum_task(dtype, shape, axis) in bench.compiled
            if exactly:
                field = bench.peers.exact(dtype, shape, axis, compiled)
            elif layout == "rows":
                field = bench.peers.rows(dtype, *shape, compiled)
            else:
                field = bench.peers.along(dtype, shape, axis, compiled)
            field.participants += read
            total = math.prod(shape)
            results = total // shape[axis]
            facts = {
                "part": part, "dtype": dtype, "result": out, "layout": layout, "shape": shape, "axis": axis,
                "length": shape[axis], "results": results, "buffers": len(arrays),
                "bytes": total * itemsize(dtype) + results * itemsize(out),
            }  # fmt: skip
            wanted = exact.rows(*shape) if layout == "rows" else exact.along(shape, axis)
            yield bench.point(facts, field, arrays, wanted)


def measure_segments(bench: Bench, asked: cases.Asked, part: str = "segments") -> Iterator[Point]:
    for dtype in asked.dtypes:
        scanned = part == "segmentscans"
        n = asked.scanned(dtype) if scanned else asked.elements(dtype)
        out = dtype if scanned else cases.sum_result(dtype)
        arrays = _buffers(bench, n, dtype)
        exact = Exact.of(arrays[0])
        if scanned:
            copies = bench.peers.copies(dtype, dtype, n)
            top = bench.fastest(COPY, f"{dtype}→{out}, {n} elements", copies, arrays)
        else:
            top = bench.fastest(
                READ, f"{dtype}, {n} elements", bench.peers.reads(n * itemsize(dtype)), arrays
            )
        fields = {"segments": bench.peers.ragged, "exactsegments": bench.peers.exact_ragged,
                  "segmentscans": bench.peers.ragged_scans}  # fmt: skip
        for case in asked.ragged:
            offsets = ragged_offsets(case, n, bench.device)
            segments = offsets.numel() - 1
            field = fields[part](dtype, offsets)
            field.participants += top
            lengths = offsets.diff()
            results = n if scanned else segments
            facts = {
                "part": part, "dtype": dtype, "result": out, "layout": case, "results": results,
                "bytes": n * itemsize(dtype) + 8 * (segments + 1) + results * itemsize(out),
                "empty": int((lengths == 0).sum()), "longest": int(lengths.max()), "length": n / segments,
                "buffers": len(arrays),
            }  # fmt: skip
            wanted = exact.prefixes_of_segments(offsets) if scanned else exact.segments(offsets)
            yield bench.point(facts, field, arrays, wanted)


def measure_norms(bench: Bench, asked: cases.Asked) -> Iterator[Point]:
    for dtype in asked.dtypes:
        for n in asked.norm_sizes(dtype):
            arrays = _buffers(bench, 2 * n, dtype)
            for operation in cases.NORMS:
                compiled = cases.norm_task(operation, dtype, n) in bench.compiled
                field = bench.peers.norms(operation, dtype, n, compiled)
                nbytes = n * itemsize(dtype) * (2 if operation == "dot" else 1)
                reads = bench.peers.reads(nbytes)
                field.participants += bench.fastest(READ, f"{dtype}, {nbytes} bytes", reads, arrays)
                facts = {
                    "part": "norms", "dtype": dtype, "result": cases.sum_result(dtype), "layout": operation, "length": n,
                    "results": 1, "bytes": nbytes, "buffers": len(arrays),
                }  # fmt: skip
                yield bench.point(facts, field, arrays, norm_wanted(operation, arrays[0], n))


def measure_scans(bench: Bench, asked: cases.Asked) -> Iterator[Point]:
    for dtype, out in asked.scan_pairs:
        for n in asked.scan_sizes:
            arrays = _buffers(bench, n, dtype)
            field = bench.peers.scans(dtype, out, n)
            field.participants += _copy(bench, dtype, out, arrays)
            facts = {
                "part": "scans", "dtype": dtype, "result": out, "layout": "one scan", "length": n, "results": n,
                "bytes": n * (itemsize(dtype) + itemsize(out)), "buffers": len(arrays),
            }  # fmt: skip
            yield bench.point(facts, field, arrays, Exact.of(arrays[0]).prefixes(n, n))


def _row_scans(
    bench: Bench,
    asked: cases.Asked,
    part: str,
    dtype: str,
    out: str,
    lengths: Sequence[int],
    before: Any = None,
) -> Iterator[Point]:
    """Of rows of each length, by the default and its peers, and by what ``before(rows, length)`` gives."""
    n = asked.scanned(dtype)
    arrays = _buffers(bench, n, dtype)
    exact = Exact.of(arrays[0])
    copies = _copy(bench, dtype, out, arrays)
    for length in lengths:
        rows = n // length
        compiled = Task("cumsum", dtype, out, (rows, length), 1) in bench.compiled
        field = bench.peers.row_scans(dtype, out, rows, length, compiled)
        if before is not None:
            first = before(rows, length)
            field.participants[:0] = first.participants
            field.missing = first.missing | field.missing
        field.participants += copies
        facts = {
            "part": part, "dtype": dtype, "result": out, "layout": "rows", "shape": (rows, length), "axis": 1,
            "length": length, "results": rows * length, "buffers": len(arrays),
            "bytes": rows * length * (itemsize(dtype) + itemsize(out)),
        }  # fmt: skip
        yield bench.point(facts, field, arrays, exact.prefixes(rows * length, length))


def measure_rowscans(bench: Bench, asked: cases.Asked) -> Iterator[Point]:
    for dtype, out in asked.rowscan_pairs:
        yield from _row_scans(bench, asked, "rowscans", dtype, out, asked.rowscan_lengths(dtype))


def measure_trianglescans(bench: Bench, asked: cases.Asked) -> Iterator[Point]:
    """Numbers a second by the length of rows, of the algorithms of Dakkak et al., the default and the peers."""
    for dtype, out in asked.triangle_pairs:
        by_triangles = partial(bench.peers.triangle_scans, dtype, out)
        lengths = asked.triangle_lengths(dtype)
        for point in _row_scans(bench, asked, "trianglescans", dtype, out, lengths, by_triangles):
            for entry in point["participants"].values():
                if "median" in entry:
                    entry["numbers_per_s"] = point["results"] / entry["median"]
            yield point


def measure_columnscans(bench: Bench, asked: cases.Asked) -> Iterator[Point]:
    for dtype in asked.dtypes:
        n = asked.scanned(dtype)
        arrays = _buffers(bench, n, dtype)
        exact = Exact.of(arrays[0])
        copies = _copy(bench, dtype, dtype, arrays)
        for layout, shape, axis in asked.along(n):
            compiled = Task("cumsum", dtype, dtype, shape, axis) in bench.compiled
            field = bench.peers.column_scans(dtype, shape, axis, compiled)
            field.participants += copies
            total = math.prod(shape)
            facts = {
                "part": "columnscans", "dtype": dtype, "result": dtype, "layout": layout, "shape": shape, "axis": axis,
                "length": shape[axis], "results": total, "buffers": len(arrays), "bytes": 2 * total * itemsize(dtype),
            }  # fmt: skip
            yield bench.point(facts, field, arrays, exact.prefixes_along(shape, axis))


def _copy(bench: Bench, dtype: str, out: str, arrays: list[torch.Tensor]) -> list[Participant]:
    n = arrays[0].numel()
    return bench.fastest(COPY, f"{dtype}→{out}, {n} elements", bench.peers.copies(dtype, out, n), arrays)


MEASURES: dict[str, Callable[[Bench, cases.Asked], Iterator[Point]]] = {
    "rows": measure_rows,
    "exactrows": partial(measure_rows, part="exactrows"),
    "segments": measure_segments,
    "exactsegments": partial(measure_segments, part="exactsegments"),
    "norms": measure_norms,
    "scans": measure_scans,
    "rowscans": measure_rowscans,
    "trianglescans": measure_trianglescans,
    "columnscans": measure_columnscans,
    "segmentscans": partial(measure_segments, part="segmentscans"),
}


def first_calls(part: str, quick: bool, only_tcu: bool) -> list[dict[str, Any]]:
    """In processes of their own, while nothing else runs."""
    code = {
        "rows": (gpu_first_call.TCU_SUM, gpu_first_call.COMPILED_SUM),
        "rowscans": (gpu_first_call.TCU_CUMSUM, gpu_first_call.COMPILED_CUMSUM),
    }.get(part)
    if code is None:
        return []
    lengths = cases.FIRST_CALL_LENGTHS[:1] if quick or part == "rows" else cases.FIRST_CALL_LENGTHS
    found = gpu_first_call.first_calls("tcu", code[0], lengths, warm=not quick)
    if not (quick or only_tcu or part == "rows"):
        found += gpu_first_call.first_calls("torch.compile", code[1], lengths[:1], warm=False)
    return found


def parse(given: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "parts", nargs="+", choices=(*PARTS, "build"), metavar="PART", help=", ".join((*PARTS, "build"))
    )
    parser.add_argument("--quick", action="store_true", help="about a third of the points")
    parser.add_argument("--only", choices=("tcu",), help="no peers but the ceilings")
    parser.add_argument("--dtypes", nargs="+", choices=cases.DTYPES, default=cases.DTYPES)
    parser.add_argument("--lengths", nargs="+", type=int, help="of rows and axes, no others")
    parser.add_argument("--elements", type=int, help="numbers in all, in place of 2 GiB of them")
    parser.add_argument("--no-first-call", action="store_true", help="no calls in processes of their own")
    parser.add_argument("--cccl", type=Path, help="folder with CCCL's headers, in place of the newest found")
    parser.add_argument("--arch", default="sm_90", help="for build (sm_90)")
    parser.add_argument(
        "--dry-run", action="store_true", help="everything that needs no GPU, on few elements"
    )
    return parser.parse_args(given)


def build_peers(arguments: argparse.Namespace) -> int:
    cccl = build.find_cccl(arguments.cccl)
    made, failed = build.build_all(jobs(cccl), arguments.arch)
    print(f"CCCL {cccl.version}: {len(made)} libraries in {build.folder_of_libraries()}")
    for name, why in failed.items():
        print(f"{name}: {why}")
    return 1 if failed else 0


def main() -> int:
    arguments = parse(sys.argv[1:])
    if "build" in arguments.parts:
        return build_peers(arguments)
    began = time.perf_counter()
    # An exception, so that what is measured is kept.
    signal.signal(signal.SIGTERM, lambda *given: sys.exit(1))

    def say(what: str) -> None:
        print(f"{what} after {time.perf_counter() - began:.1f} s", flush=True)

    asked = cases.Asked(
        arguments.dtypes, arguments.lengths, arguments.quick, arguments.dry_run, arguments.elements
    )
    only_tcu = arguments.only == "tcu"
    calls = {
        part: [] if arguments.no_first_call else first_calls(part, arguments.quick, only_tcu)
        for part in arguments.parts
    }
    say("first calls")
    precompiled = Precompiled([] if only_tcu else asked.tasks(arguments.parts))
    clock: Clock = WallClock() if arguments.dry_run else CudaClock()
    peers = Peers(arguments.cccl, not arguments.dry_run, only_tcu)
    for name, why in peers.failed.items():
        print(f"{name}: {why}")
    compile_seconds = precompiled.seconds()
    say(
        f"CCCL {peers.cccl.version if peers.cccl else 'not used'}, {len(compile_seconds)} calls compiled by torch"
    )
    confirm_checker("cpu" if arguments.dry_run else "cuda")
    bench = Bench(clock, peers, frozenset() if only_tcu else frozenset(asked.tasks(arguments.parts)))
    wrong = 0
    for part in arguments.parts:
        figures: dict[str, Any] = {
            "points": [],
            "first_calls": calls[part],
            "compile_seconds": compile_seconds,
        }
        try:
            for point in MEASURES[part](bench, asked):
                figures["points"].append(point)
        finally:  # what is measured stays, whatever happens
            figures["claims"] = evaluate(part, figures)
            size = f"-{arguments.elements}" if arguments.elements else ""
            name = f"gpu-segments-{part}{size}" + ("-dry-run" if arguments.dry_run else "")
            path = record.save(name, figures, versions(peers.cccl))
        gpu_segment_table.show(figures)
        wrong += gpu_segment_table.show_wrong(figures)
        say(f"{part}: written to {path}")
        if not arguments.dry_run:
            torch.cuda.empty_cache()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
