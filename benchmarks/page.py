"""The documentation's page of benchmarks, from every file in benchmarks/results; docs/generated.py writes it.

A file that is not there leaves its section out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import distributed_tables
from readme import table as table_of_sums
from sources import measured_parts, of_file

from tcu.study.sources import GPU, RECORD, remark

RESULTS = Path(__file__).parent / "results"
Document = dict[str, Any]
CEILINGS = ("read alone", "copy alone")
TIE = 0.97
"""From this share of a peer's speed on, both count as equally fast."""


def page() -> str:
    """Markdown."""
    lines = [
        "# Benchmarks", "",
        "Generated from every file in `benchmarks/results`; each section names its file, the machine and the command that "
        "measures it again. The studies of the papers are in [the report](report.md).", "",
    ]  # fmt: skip
    if stale := older():
        lines += [
            f"Figures of older sources, which have changed since they were measured or stored (`{RECORD}`): "
            + ", ".join(f"`{name}.json`" for name in stale) + ". They say nothing certain of the code as it is.", "",
        ]  # fmt: skip
    for title, names, write in SECTIONS:
        found = {name: document for name in names if (document := load(name)) is not None}
        if found:
            lines += [f"## {title}", "", *write(found), ""]
    return "\n".join(lines)


def load(name: str) -> Document | None:
    """A file of results; None where it was not measured."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = (header, ["---"] * len(header), *rows)
    return [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines]


def origin(name: str, document: Document) -> str:
    machine = document["machine"]
    where = machine.get("gpu") or machine["processor"].partition(" (")[0]
    at = f" at commit {document['commit']}" if document.get("commit") else ""
    told = f"Measured {document['date']}{at} on {where} by `{document['command']}` (`{name}.json`)."
    return " ".join(filter(None, (told, remark(sources_of(name, document), measured_parts(name, document)))))


def sources_of(name: str, document: Document) -> dict[str, str] | None:
    return of_file(f"{name}.json", document, RESULTS)


def older() -> list[str]:
    """The files of which the sources that they measure are others now, or not known."""
    found = {
        name: document for _, names, _ in SECTIONS for name in names if (document := load(name)) is not None
    }
    return [
        name for name, document in found.items()
        if remark(sources_of(name, document), measured_parts(name, document))
    ]  # fmt: skip


def power(n: int) -> str:
    return f"2^{n.bit_length() - 1}" if n & (n - 1) == 0 and n > 1 else f"{n:,}"


# Where a peer is faster


def faster_peers(found: dict[str, Document]) -> Iterator[str]:
    """A row for each point of sums, running sums and products at which tcu has less than TIE of a peer's speed."""
    points = [
        point
        for name, document in found.items()
        if name != "gpu-machine"
        for point in _compared(name, document)
    ]
    behind = [point for point in points if point.mine < TIE * point.peer]
    alone = sum(math.isclose(point.peer, 0) for point in points)
    yield from (
        f"Of {len(points) - alone:,} points of sums and running sums of whole arrays, rows, axes and segments, of products and of transforms, "
        f"tcu has less than {TIE:.0%} of the fastest peer's speed at these {len(behind):,}, TB/s or TFLOP/s:", "",
    )  # fmt: skip
    rows = [
        (point.what, f"{point.mine:,.2f}", f"{point.peer:,.2f}", point.who, f"`{point.file}.json`", f"{point.mine / point.peer:.2f}")
        for point in sorted(behind, key=lambda point: point.mine / point.peer)
    ]  # fmt: skip
    yield from table(("call, numbers → results, case", "tcu", "peer", "which", "file", "ratio"), rows)
    if "gpu-machine" in found:
        slower, problems = _slower_programs(found["gpu-machine"]["figures"])
        yield from (
            "", f"Of {problems} transforms, products of integers and polynomials of `tcu.Machine` the fastest of its programs "
            f"is slower than a library or kernel that is not tcu's at {slower}; their tables, below, say by how much.",
        )  # fmt: skip


def _slower_programs(figures: Document) -> tuple[int, int]:
    """At how many problems, and of how many."""
    best: dict[tuple[Any, ...], dict[bool, float]] = {}
    for part, keys in (("dft", ("batch", "n")), ("integers", ("bits",)), ("polynomial", ("n", "points"))):
        for row in (row for row in figures[part] if part == "dft" or "batch" not in row):
            times = best.setdefault((part, *(row[key] for key in keys)), {})
            times["m" in row] = min(row["microseconds"], times.get("m" in row, math.inf))
    both = [times for times in best.values() if len(times) == 2]
    return sum(times[True] > times[False] for times in both), len(both)


@dataclass(frozen=True)
class Point:
    """What tcu and the fastest peer did at one point; a peer's speed of 0: none took part."""

    file: str
    what: str
    mine: float
    peer: float
    who: str


def _compared(name: str, document: Document) -> Iterator[Point]:
    figures = document["figures"]
    if name == "gpu-sum":
        yield from _whole_sums(name, figures["rows"])
    if name == "gpu-row-functions":
        for row in figures["rows"]:
            what = f"tcu.{_of_rows(row)}, {row['dtype']}, rows of {row['length']:,}"
            yield Point(name, what, row["tb_per_s"], row["peer_tb_per_s"], f"torch, {row['peer']}")
        return
    if name == "gpu-polynomials":
        for row in figures["polynomials"]:
            what = f"tcu.polyval, {row['dtype']}, {row['n']:,} coefficients at {row['points']:,} points"
            rates = (2e-6 * row["n"] * row["points"] / row[f"{who}microseconds"] for who in ("", "horner_"))
            yield Point(name, what, *rates, "Horner's rule")
        return
    for point in figures.get("points", []):
        if "kind" in point:
            speeds = {who: row.get("tb_per_s", 0.0) for who, row in point["participants"].items()}
            what = f"tcu.fft, {point['dtype']}, {_transform(point)}"
            yield Point(name, what, speeds["tcu"], speeds["cuFFT"], "cuFFT")
            continue
        if "slots" in point:
            speeds = {who: row["tb_per_s"] for who, row in point["participants"].items() if "tb_per_s" in row}
            mine = speeds.pop("tcu")
            who = max(speeds, key=lambda who: speeds[who], default="")
            what = f"tcu.index_sum, {point['dtype']}, {_slots(point)}, {point['indices']}"
            yield Point(name, what, mine, speeds.get(who, 0.0), who)
            continue
        if "shape" in point and "layout" not in point:
            rates = {
                who: row["tflop_per_s"] for who, row in point["participants"].items() if "tflop_per_s" in row
            }
            peers = {who: rate for who, rate in rates.items() if not who.startswith("tcu")}
            if "tcu, chunks" in rates:
                shape = " × ".join(f"{length:,}" for length in point["shape"])
                who = max(peers, key=lambda who: peers[who], default="")
                own = (
                    f"tcu.segment_matmul, {point['segments']} segments"
                    if "segments" in point
                    else "tcu.matmul"
                )
                what = f"{own}, {point['dtype']}→{point['result']}, {shape}"
                yield Point(name, what, rates["tcu, chunks"], peers.get(who, 0.0), who)
            continue
        mine, peer = _rates(point)
        if mine is not None:
            what = f"{mine[0]}, {point['dtype']}→{point['result']}, {case_of(point)}"
            yield Point(name, what, mine[1], peer[1] if peer else 0.0, peer[0] if peer else "")


def _whole_sums(name: str, rows: Sequence[Document]) -> Iterator[Point]:
    """Out of memory, not out of a cache."""
    speeds: dict[tuple[str, int], dict[str, float]] = {}
    for row in rows:
        if row.get("cache") == "cold" and "tb_per_s" in row.get("events", {}):
            speeds.setdefault((row["dtype"], row["n"]), {})[row["participant"]] = row["events"]["tb_per_s"]
    for (dtype, n), found in speeds.items():
        peers = {who: rate for who, rate in found.items() if not who.startswith(("tcu.", *CEILINGS))}
        if "tcu.sum" in found:
            who = max(peers, key=lambda who: peers[who], default="")
            what = f"tcu.sum, {dtype}, {power(n)} numbers"
            yield Point(name, what, found["tcu.sum"], peers.get(who, 0.0), who + _absent(found))


def _rates(point: Document) -> tuple[tuple[str, float] | None, tuple[str, float] | None]:
    """tcu's speed and the fastest peer's, each with its name."""
    speed = {who: row["tb_per_s"] for who, row in point["participants"].items() if "tb_per_s" in row}
    mine = next(((who, rate) for who, rate in speed.items() if who.startswith("tcu.")), None)
    peers = [(who, rate) for who, rate in speed.items() if not who.startswith("tcu.") and who not in CEILINGS]
    best = max(peers, key=lambda one: one[1], default=None)
    return mine, best and (best[0] + _absent(speed), best[1])


def _absent(speeds: Mapping[str, float]) -> str:
    """Beside a peer's name: the one of PyTorch's that may be faster, and did not take part."""
    return " (without torch.compile)" if "torch" in speeds and "torch.compile" not in speeds else ""


# Sums on a GPU


def sums(found: dict[str, Document]) -> Iterator[str]:
    document = found["gpu-sum"]
    figures = document["figures"]
    yield from (origin("gpu-sum", document), "", "TB/s of one call on the largest arrays:", "")
    yield from (*table_of_sums(document), "")
    yield from ("Energy of sums of 2^30 numbers, one after another, mean of two rounds:", "")
    rounds: dict[tuple[str, str], list[Document]] = {}
    for row in (row for row in figures["energy"] if "watts" in row):
        rounds.setdefault((row["dtype"], row["participant"]), []).append(row)
    rows = [
        (dtype, who, *(f"{sum(row[key] for row in one) / len(one):.{digits}f}" for key, digits in
                       (("joules_per_terabyte", 0), ("watts", 0), ("terabytes_per_second", 2))))
        for (dtype, who), one in rounds.items()
    ]  # fmt: skip
    yield from (*table(("numbers", "sum", "joules per TB", "watts", "TB/s"), rows), "")
    yield from (
        "`tcu.fsum` on arrays built to defeat it, 2^26 + 3 numbers; every result has the CPU's bits:",
        "",
    )
    hard = [
        (r["dtype"], r["array"], f"{r['seconds'] * 1e6:,.0f} µs", f"{r['times_normal']:.1f}") for r in figures["hard"]
    ]  # fmt: skip
    yield from (*table(("numbers", "array", "one call", "times that of normal numbers"), hard), "")
    older = remark(sources_of("gpu-sum", document), (GPU,))
    yield from (" ".join(filter(None, ("Host time of one call with 1024 numbers.", older))), "")
    yield from table_of_times(figures["host"])


def table_of_times(host: dict[str, Document]) -> list[str]:
    rows = [(name, f"{row['median'] * 1e6:.1f} µs") for name, row in host.items() if "median" in row]
    return table(("call", "median"), rows)


# Rows, segments, scans


def segments(found: dict[str, Document]) -> Iterator[str]:
    yield from (
        "TB/s of tcu; in brackets its share of the ceiling, a kernel that only reads (or copies, for scans), and its speed "
        "over the fastest of CUB, PyTorch, torch.compile and CuPy in the same run. Bytes are those of the problem, the same "
        "for all.", "",
    )  # fmt: skip
    titles = {
        "rows": "Sums of rows, and along other axes", "segments": "Sums of ragged segments",
        "exactrows": "Exact sums of rows, and along other axes", "exactsegments": "Exact sums of ragged segments",
        "norms": "Norms and dot products", "rowscans": "Running sums of rows", "columnscans": "Running sums along other axes",
        "segmentscans": "Running sums of ragged segments", "scans": "One long running sum",
    }  # fmt: skip
    for name, document in found.items():
        part, _, elements = name.removeprefix("gpu-segments-").partition("-")
        title = titles[part] + (f", {power(int(elements))} numbers in all" if elements else "")
        points = document["figures"]["points"]
        pairs = list(dict.fromkeys((point["dtype"], point["result"]) for point in points))
        cells = {(case_of(point), point["dtype"], point["result"]): _cell(point) for point in points}
        rows = [
            (case, *(cells.get((case, *pair), "") for pair in pairs)) for case in dict.fromkeys(map(case_of, points))
        ]  # fmt: skip
        yield from (f"### {title}", "", origin(name, document), "")
        yield from (*table(("", *("→".join(pair) for pair in pairs)), rows), "")
        yield from (_took_part(points), "")
        calls = document["figures"].get("first_calls", [])
        told = [
            (call["of"], f"`{call['call']}`, rows of {call['length']:,}", call["cache"],
             *(f"{call[key]:.2f} s" for key in ("import", "first call")))
            for call in calls if "first call" in call
        ]  # fmt: skip
        if told:
            yield from ("First calls in a new process:", "")
            yield from (*table(("of", "call", "cache", "import", "first call"), told), "")


def _took_part(points: Sequence[Document]) -> str:
    """At how many points each library did: where one is missing, the fastest of the others stands in the table."""
    count: dict[str, int] = {}
    for point in points:
        libraries = {
            who.split(" ")[0].split(",")[0] for who, row in point["participants"].items()
            if "tb_per_s" in row and not who.startswith("tcu.") and who not in CEILINGS
        }  # fmt: skip
        for library in libraries:
            count[library] = count.get(library, 0) + 1
    told = ", ".join(f"{library} at {number:,}" for library, number in sorted(count.items()))
    return f"Of {len(points):,} points these took part: {told or 'no peer'}."


def case_of(point: Document) -> str:
    """The same for each dtype, though a shape's first length may differ."""
    layout = point["layout"]
    if point.get("axis") is not None and layout != "rows":
        shape = [power(length) for length in point["shape"]]
        shape[1 - point["axis"]] = "·"
        return f"{layout} of ({', '.join(shape)})"
    if layout in ("rows", "one scan", "norm", "dot"):
        return f"{layout} of {power(point['length'])}"
    return str(layout)


def _cell(point: Document) -> str:
    mine, peer = _rates(point)
    if mine is None:
        return "–"
    ceilings = [point["participants"][who]["tb_per_s"] for who in CEILINGS if who in point["participants"]]
    told = [f"{mine[1] / ceilings[0]:.0%}"] if ceilings else []
    if peer is not None:
        told.append(f"{mine[1] / peer[1]:.2f} × {peer[0]}")
    return f"{mine[1]:.2f} ({', '.join(told)})"


def equal_segments(found: dict[str, Document]) -> Iterator[str]:
    document = found["paper-002"]
    rows = document["figures"]["rows"]
    who = list(dict.fromkeys(row["who"] for row in rows))
    at = {(row["segment"], row["who"]): row for row in rows}
    yield from (
        origin("paper-002", document), "",
        f"10⁹ numbers a second, {power(document['figures']['count'])} numbers of float16 in equal segments:", "",
    )  # fmt: skip
    lines = [
        (power(length), *(f"{document['figures']['count'] / at[length, name]['median'] * 1e-9:,.0f}" for name in who))
        for length in dict.fromkeys(row["segment"] for row in rows)
    ]  # fmt: skip
    yield from (*table(("numbers in a segment", *who), lines), "")
    yield (
        "CUB's columns are its segmented sum, which gives a block to each segment: of few long segments its sum of a whole "
        "array, above, is the peer. The variant paper-002 went by a table that was argued, not measured; since then it goes by "
        "these times of the four."
    )


# The machine, first calls, more than one GPU, files


def machine(found: dict[str, Document]) -> Iterator[str]:
    document = found["gpu-machine"]
    figures = document["figures"]
    equal = [row for row in figures["bits"] if row["equal"]]
    yield from (
        origin("gpu-machine", document), "",
        f"Programs of `tcu.Machine` on the GPU return the bits of the CPU's model: {len(equal)} of {len(figures['bits'])} "
        "compared. Times are those of a user's call, with what the host does for it; shares are of the data sheet's rates, "
        "padding counted as work. \"Memory alone\" is the time in which the memory could move, at its peak rate, what the "
        "program's launches read and write.", "",
    )  # fmt: skip
    yield from ("Tall products, n × side by side × side:", "")
    tall = [
        (row["format"], row["stored"], f"{row['rows']:,} × {row['side']}", _us(row["microseconds"]),
         f"{row['share_of_memory']:.0%}", _us(row.get("cublas_microseconds")))
        for row in figures["tall"]
    ]  # fmt: skip
    yield from (
        *table(("products of", "stored as", "size", "tcu", "of the memory's rate", "cuBLAS"), tall),
        "",
    )
    yield from (
        "Discrete Fourier transforms, the fastest of tcu's settings for each format. Every level is one launch and one pass "
        "over memory, after one that looks for the largest number where operands are narrow; about log_√m n levels. A kernel "
        "that does several levels in one pass moves less:", "",
    )  # fmt: skip
    yield from (*_fastest(figures["dft"], ("batch", "n"), lambda row: f"{row['error']:.1e}"), "")
    yield from (
        "Products of two integers, from Python's integers to Python's integers. For each √m columns one launch multiplies "
        "digits and one adds the antidiagonals of what it gave; cutting integers into digits and carrying are the "
        "host's, and counted. gmpy2 multiplies numbers that are in its own form already, with nothing to cut or carry:", "",
    )  # fmt: skip
    integers = [
        {**row, "unit": f"{row['unit']}, {row['algorithm']}"} if "algorithm" in row else row
        for row in figures["integers"] if "batch" not in row
    ]  # fmt: skip
    yield from (*_fastest(integers, ("bits",)), "")
    yield from (
        "Values of a polynomial. The powers of all points are written and read, and so are the products; Horner's rule "
        f"keeps everything in registers, and needs no memory but for points and values. {_horner(figures['polynomial'])}", "",
    )  # fmt: skip
    yield from _fastest(figures["polynomial"], ("n", "points"))


def _horner(rows: list[Document]) -> str:
    """How fast the peer is: one that is slow is no measure."""
    rates = [
        2 * row["n"] * row["points"] / row["microseconds"] * 1e-6 for row in rows if row["unit"].startswith("Horner")
    ]  # fmt: skip
    if not rates:
        return ""
    told = f"The peer's kernel does {min(rates):.1f} to {max(rates):.1f} TFLOP/s of binary64, where the data sheet of an H200 has 34:"
    if max(rates) < 17:
        return f"{told[:-1]}: a faster one may be written, and what is over it here says little:"
    return told


def _fastest(
    rows: list[Document], keys: tuple[str, ...], error: Callable[[Document], str] | None = None
) -> list[str]:
    """For each problem and unit the fastest row, beside the fastest of those that are not tcu's."""
    best: dict[tuple[Any, ...], Document] = {}
    for row in rows:
        digits = error is not None and row.get("parts", 1) > 1
        key = (*(row[name] for name in keys), row["unit"] + (" in two parts" if digits else ""))
        if key not in best or row["microseconds"] < best[key]["microseconds"]:
            best[key] = row
    peers: dict[tuple[Any, ...], float] = {}
    for key, row in best.items():
        if "m" not in row:
            peers[key[:-1]] = min(row["microseconds"], peers.get(key[:-1], math.inf))
    lines = []
    for key, row in best.items():
        time, own = row["microseconds"], "m" in row
        moved = row.get("share_of_memory")
        lines.append((
            *(power(value) for value in key[:-1]), f"tcu, {key[-1]}, m = {row['m']}" if own else key[-1], _us(time),
            _times(time / peers[key[:-1]]) if own and key[:-1] in peers else "–",
            f"{row['share_of_peak']:.1%}" if own else "–", _us(None if moved is None else moved * time),
            *([error(row)] if error else []),
        ))  # fmt: skip
    head = (
        "by", "time", "over the fastest other", "of the unit's peak", "memory alone", *(["relative error"] if error else []),
    )  # fmt: skip
    return table((*keys, *head), lines)


def _times(factor: float) -> str:
    return f"{factor:,.0f}" if factor >= 9.5 else f"{factor:.2g}"


def _us(microseconds: float | None) -> str:
    if microseconds is None:
        return "–"
    return f"{microseconds:,.0f} µs" if microseconds < 1e4 else f"{microseconds / 1e3:,.0f} ms"


def block_sums(found: dict[str, Document]) -> Iterator[str]:
    document = found["gpu-atomic"]
    rows = document["figures"]["rows"]
    single = {(row["block"], row["chain"]): row for row in rows if row["variant"] == "single-pass"}
    chains = sorted({chain for _, chain in single})
    yield from (
        origin("gpu-atomic", document), "",
        f"Microseconds of single-pass, {power(rows[0]['n'])} numbers of float16: with tcu's tree over the blocks, whose bits "
        "are the model's, and, behind the stroke, with the paper's atomic additions, whose bits differ from run to run:", "",
    )  # fmt: skip
    lines = [
        (f"B = {block}", *(_both(single[block, chain]) for chain in chains))
        for block in sorted({block for block, _ in single})
    ]
    yield from (*table(("", *(f"R = {chain}" for chain in chains)), lines), "")
    share = [row["tree's speed in that of atomics"] for row in single.values()]
    yield from (f"The tree has {min(share):.3f} to {max(share):.2f} times the speed of atomics.", "")
    yield from ("The same of split, by the share of the numbers that the tensor cores add:", "")
    split = [row for row in rows if row["variant"] == "split"]
    yield from table(tuple(f"{row['fraction']:.0%}" for row in split), [tuple(_both(row) for row in split)])
    levels = document["figures"].get("levels", ())  # not in files of before
    for n in sorted({row["n"] for row in levels}):
        yield from _levels([row for row in levels if row["n"] == n])


def _levels(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Of one size."""
    cells = {(row["block"], row.get("chain")): _both(row, ("launches", "one launch")) for row in rows}
    chains = sorted({chain for _, chain in cells if chain})
    yield from (
        "", f"The same of recurrence and two-mma, {power(rows[0]['n'])} numbers: with a launch for each level and, behind the "
        "stroke, with one launch whose blocks meet between levels, of the same bits:", "",
    )  # fmt: skip
    yield from table(
        ("", *(f"R = {chain}" for chain in chains), "two-mma"),
        [
            (f"B = {block}", *(cells[block, chain] for chain in chains), cells[block, None])
            for block in sorted({block for block, _ in cells})
        ],
    )


def _both(row: dict[str, Any], forms: tuple[str, str] = ("tree", "atomic")) -> str:
    return " / ".join(f"{row['seconds'][form] * 1e6:.1f}" for form in forms)


def host_time(found: dict[str, Document]) -> Iterator[str]:
    document = found["gpu-host-time"]
    figures = document["figures"]
    rows, columns = figures["shape"]
    yield from (origin("gpu-host-time", document), "")
    yield from (
        f"Of calls on {rows} × {columns:,} numbers of binary32, on a stream of the program's own, that wait for no result:",
        "",
    )
    yield from table_of_times(figures["host"])


def first_calls(found: dict[str, Document]) -> Iterator[str]:
    document = found["gpu-units"]
    yield from (origin("gpu-units", document), "", "Seconds in a new process:", "")
    start = document["figures"]["start"]
    names = list(next(iter(start.values())))
    yield from table(
        ("kernels", *names), [(state, *(f"{row[n]:.2f}" for n in names)) for state, row in start.items()]
    )


def several_gpus(found: dict[str, Document]) -> Iterator[str]:
    for name, document in found.items():
        figures = document["figures"]
        held = [
            what
            for what, same in figures["same_bits"].items()
            if same is True or same == {"fsum": True, "sum": True}
        ]
        yield from (
            origin(name, document), "",
            f"{figures['ranks']} ranks with {power(figures['numbers_per_rank'])} numbers of {figures['dtype']} each; the "
            f"same bits: {', '.join(what.replace('_', ' ') for what in held)}.", "",
        )  # fmt: skip
    yield distributed_tables.gpu_distributed()


def files(found: dict[str, Document]) -> Iterator[str]:
    yield from (origin("file-rate", found["file-rate"]), "", distributed_tables.file_rate())


def ranks(found: dict[str, Document]) -> Iterator[str]:
    yield from (origin("simulate-ranks", found["simulate-ranks"]), "", distributed_tables.simulate_ranks())


def cpu(found: dict[str, Document]) -> Iterator[str]:
    document = found["cpu"]
    yield from (origin("cpu", document), "")
    for cores, figures in document["figures"].items():
        speeds = figures["elements per second"]
        who = list(dict.fromkeys(name for row in speeds.values() for name in row))
        rows = [(n, *(f"{speeds[d][n] * 1e-6:,.0f}" if n in speeds[d] else "–" for d in speeds)) for n in who]
        mmas = ", ".join(
            f"{value:,.0f} ({kind})" for kind, value in figures["m16n8k16 MMAs per second"].items()
        )
        yield from (f"Million numbers per second on {cores}; m16n8k16 MMAs per second: {mmas}.", "")
        yield from (*table(("sum", *speeds), rows), "")


def cpu_mmas(found: dict[str, Document]) -> Iterator[str]:
    document = found["cpu-mma"]
    yield from (origin("cpu-mma", document), "")
    yield from ("GFLOP/s of the ways in which a sum of products is added up, of equal bits.", "")
    figures = document["figures"]
    ways = list(dict.fromkeys(way for rates in figures.values() for way in rates))
    rows = [
        (case, *(f"{rates[way] * 1e-9:.1f}" if way in rates else "–" for way in ways))
        for case, rates in figures.items()
    ]
    yield from (
        "The ceiling is the core's rate of vector operations over those that a block of sixteen products takes.",
        "",
    )
    yield from (*table(("D = A·B + C", *ways), rows), "")


def products(found: dict[str, Document]) -> Iterator[str]:
    document = found["matmul-errors"]
    figures = document["figures"]
    yield from (origin("matmul-errors", document), "")
    yield from (
        "Errors of products on the model of an H100 by the length of their chains, root mean square over that of the "
        "product, in 2^-24; in bold the chunk of `tcu.matmul`. Last, the largest of `tcu.matmul_error_bound`.",
        "",
    )
    for case, rows in figures.items():
        if case == "rates":
            continue
        chunks = [label for label in list(rows.values())[-1] if label.isdecimal()]
        lines = []
        for k, row in rows.items():
            own = "chain" if row["chunk"] >= int(k) else str(int(row["chunk"]))
            cells = [f"{row[label]:,.3g}" if label in row else "–" for label in (*chunks, "chain")]
            cells = [
                f"**{cell}**" if label == own else cell
                for label, cell in zip((*chunks, "chain"), cells, strict=True)
            ]
            lines.append((power(int(k)), *cells, f"{row['bound']:,.3g}"))
        yield from (*table((f"K, {case}", *chunks, "one chain", "bound"), lines), "")
    yield from ("GFLOP/s of the model on one core, 256 × 4096 × 256:", "")
    rates = [
        (name, *(f"{rate * 1e-9:.1f}" for rate in each.values())) for name, each in figures["rates"].items()
    ]
    yield from (*table(("format", "chunks", "one chain"), rates), "")


def product_rates(found: dict[str, Document]) -> Iterator[str]:
    document = found["gpu-matmul"]
    figures = document["figures"]
    yield from (origin("gpu-matmul", document), "")
    yield from (
        "TFLOP/s of `tcu.matmul`, in brackets over the fastest peer in the same run; below one, the peer is faster. "
        '"Equal" is the share of cuBLAS\'s results that have the bits of one chain.', "",
    )  # fmt: skip
    rows = []
    for point in figures["points"]:
        rates = {who: row for who, row in point["participants"].items() if "tflop_per_s" in row}
        theirs = {who: row for who, row in rates.items() if not who.startswith("tcu")}
        best = max((row["tflop_per_s"] for row in theirs.values()), default=None)
        own = [
            f"{rates[who]['tflop_per_s']:,.0f} ({rates[who]['tflop_per_s'] / best:.2f})" if who in rates and best else "–"
            for who in ("tcu, chain", "tcu, chunks")
        ]  # fmt: skip
        rest = "; ".join(f"{row['tflop_per_s']:,.0f}, {who}" for who, row in theirs.items())
        equal = max(
            (row["equal_to_chain"] for who, row in theirs.items() if who.startswith("cuBLAS")), default=None
        )
        shape = " × ".join(f"{length:,}" for length in point["shape"])
        rows.append((
            f"{point['dtype']}→{point['result']}", shape, *own, rest or "–", "–" if equal is None else f"{equal:.4f}"
        ))  # fmt: skip
    head = ("numbers → results", "M × N × K", "one chain", "chunks (the default)", "peers", "equal")
    yield from (*table(head, rows), "")
    told = [(row["dtype"], f"{row['outputs']:,}", f"{row['different']:,}") for row in figures["compared"]]
    yield from ("Results of ordinary and adversarial numbers, both plans, against the model's bits:", "")
    yield from (*table(("numbers", "results", "different"), told), "")


def grouped_rates(found: dict[str, Document]) -> Iterator[str]:
    document = found["gpu-grouped"]
    yield from (origin("gpu-grouped", document), "")
    yield from (
        "Rows of bfloat16 in segments, each times a matrix of its own: microseconds, and TB/s of all that is read and written.", "",
    )  # fmt: skip
    points = document["figures"]["points"]
    names, rows = _participants(points), []
    for point in points:
        cells = _cells_of(point, names, 1)
        shape = " × ".join(f"{length:,}" for length in point["shape"])
        rows.append((f"{point['segments']:,}, {point['lengths']}", shape, *cells))
    yield from (*table(("segments", "rows × N × K", *names), rows), "")


def _participants(points: Sequence[Document]) -> list[str]:
    return list(dict.fromkeys(who for point in points for who in point["participants"]))


def _cells_of(point: Document, names: Sequence[str], digits: int) -> Iterator[str]:
    """Microseconds and TB/s of each participant."""
    for row in (point["participants"].get(who, {}) for who in names):
        yield f"{row['median'] * 1e6:,.{digits}f} ({row['tb_per_s']:.2f})" if "median" in row else "–"


def index_sums(found: dict[str, Document]) -> Iterator[str]:
    document = found["gpu-index-sums"]
    yield from (origin("gpu-index-sums", document), "")
    yield from (
        "Microseconds, and TB/s of numbers, indices and results.  PyTorch's atomics and what torch.compile makes of them add in any "
        "order, other bits in each run; so do `bincount` and CUB.", "",
    )  # fmt: skip
    points = document["figures"]["points"]
    names, rows = _participants(points), []
    for point in points:
        cells = _cells_of(point, names, 0)
        rows.append((point["dtype"], _slots(point), point["indices"], *cells))
    yield from (*table(("numbers", "rows × columns → slots", "indices", *names), rows), "")


def _slots(point: Document) -> str:
    return f"{point['n']:,} × {point['columns']:,} → {point['slots']:,}"


def polynomials(found: dict[str, Document]) -> Iterator[str]:
    document = found["gpu-polynomials"]
    yield from (origin("gpu-polynomials", document), "")
    yield from (
        "Microseconds of a kernel, in a CUDA graph, and of a call from Python.  The peer is Horner's rule with everything in registers, in the "
        "fastest of 16 shapes. Share is of what the cores do by NVIDIA's data sheet, 34 TFLOP/s of binary64 and 67 of binary32; of "
        "binary64 the unit does 67, which from 576 coefficients on takes part.", "",
    )  # fmt: skip
    rows = [
        (
            row["dtype"], f"{row['n']:,}", f"{row['points']:,}", f"{row['microseconds']:,.1f}", f"{row['horner_microseconds']:,.1f}",
            f"{row['over_horner']:.2f}", f"{row['share_of_cores']:.0%}", f"{row['call_microseconds']:,.0f}",
        )
        for row in document["figures"]["polynomials"]
    ]  # fmt: skip
    header = (
        "numbers",
        "coefficients",
        "points",
        "tcu",
        "Horner",
        "Horner's time / tcu's",
        "share of the cores",
        "a call of tcu",
    )
    yield from (*table(header, rows), "")


def transforms(found: dict[str, Document]) -> Iterator[str]:
    document = found["gpu-fft"]
    yield from (origin("gpu-fft", document), "")
    rows = []
    for point in document["figures"]["points"]:
        own, peer = point["participants"]["tcu"], point["participants"]["cuFFT"]
        # Of binary64, the reference is cuFFT.
        errors = (
            ("–", "–")
            if point["dtype"] == "complex128"
            else (f"{one['error']:.1e}" if "error" in one else "–" for one in (own, peer))
        )
        ratio = f"{peer['median'] / own['median']:.2f}" if "median" in peer else "–"
        rows.append(
            (point["dtype"], _transform(point), *_cells_of(point, ("tcu", "cuFFT"), 1), ratio, *errors)
        )
    header = ("numbers", "transforms", "tcu", "cuFFT", "cuFFT's time / tcu's", "tcu's error", "cuFFT's error")
    yield from (
        "Microseconds, and TB/s of numbers read once and results written once.  tcu computes the transforms of complex32 in binary32 "
        "and stores numbers in binary16; those of 4,096 numbers and more it computes in binary16, two numbers an instruction. Those of "
        "more numbers than a multiprocessor holds are two passes, or three, of which the last two are one launch where what lies between "
        "them fits the second cache. "
        "Errors are relative, in the Euclidean norm.", "", *table(header, rows), "",
    )  # fmt: skip


def _transform(point: Document) -> str:
    shape = " × ".join(power(length) for length in point["shape"])
    axis = ", first axis" if point["axes"] == [0] else ""
    return f"{point['kind']}, {point['batch']:,} of {shape}{axis}"


def long_integers(found: dict[str, Document]) -> Iterator[str]:
    document = found["gpu-integers"]
    yield from (origin("gpu-integers", document), "")
    points = document["figures"]["points"]
    products = [point for point in points if "bits" in point]
    names, rows = _participants(products), []
    for point in products:
        times = (point["participants"].get(who, {}) for who in names)
        cells = (f"{one['median'] * 1e6:,.1f}" if "median" in one else "–" for one in times)
        what = "powers modulo odd numbers" if "powers" in point else "products"
        rows.append((f"{point['count']:,} {what}", f"{point['bits']:,}", *cells))
    yield from (
        "Microseconds.  GMP multiplies single numbers on one core, and batches on all cores; “ready-made” numbers are "
        "GMP's own, Python's integers are converted there and back.", "", *table(("what", "bits of each number", *names), rows), "",
    )  # fmt: skip
    transforms = [
        (f"{point['rows']:,} × 2^{point['levels']}", f"{one['median'] * 1e6:,.1f}", f"{point['rows'] * 2 ** point['levels'] / one['median'] * 1e-9:.1f}")
        for point in points if "levels" in point and "median" in (one := point["participants"]["tcu"])
    ]  # fmt: skip
    yield from (
        "Number-theoretic transforms, in order:", "", *table(("rows × numbers", "µs", "10^9 numbers a second"), transforms), "",
    )  # fmt: skip


def python_integers(found: dict[str, Document]) -> Iterator[str]:
    document = found["cpu-integers"]
    yield from (origin("cpu-integers", document), "")
    rows = document["figures"]["rows"]
    ratios = sorted(
        (row["nanoseconds"]["tcu"] / row["nanoseconds"]["GMP"], place) for place, row in enumerate(rows)
    )
    over = [place for ratio, place in ratios if ratio > 1.2]
    longest = max((rows[place]["nanoseconds"]["GMP"] for place in over), default=0)
    slower = max(
        (row["nanoseconds"]["tcu"] - row["nanoseconds"]["GMP"] for row in (rows[place] for place in over)),
        default=0,
    )
    function = sorted(
        row["nanoseconds"]["GMP, in a function"] - row["nanoseconds"]["GMP"] for row in rows[:20]
    )[10]
    yield from (
        f"Nanoseconds of a call, from Python's integers and back, where gmpy2 is installed.  Of {len(rows)} calls {len(rows) - len(over)} take at most 1.2 "
        f"times as long as GMP called in place; the others, of which GMP takes up to {longest:,.0f} ns, take up to {slower:,.0f} ns more. "
        f"A Python function around GMP's call takes {function:.0f} ns itself, and tcu's looks at what it was given, too.  Bold is what tcu takes: "
        "GMP or Python's own operator.", "",
    )  # fmt: skip
    lines = []
    for row in rows:
        times = row["nanoseconds"]
        size = f"{row['bits']:,}" + (f" × {row['by']:,}" if row.get("by", row["bits"]) != row["bits"] else "")
        chosen = "GMP" if row["by GMP"] else "Python"
        cells = (
            f"**{times[who]:,.0f}**" if who == chosen else f"{times[who]:,.0f}" for who in ("GMP", "Python")
        )
        lines.append(
            (row["function"], size, f"{times['tcu']:,.0f}", *cells, f"{times['tcu'] / times['GMP']:.2f}")
        )
    header = ("function", "bits, × bits or how many", "tcu", "GMP", "Python", "tcu's time / GMP's")
    yield from (*table(header, lines), "")


def row_functions(found: dict[str, Document]) -> Iterator[str]:
    document = found["gpu-row-functions"]
    yield from (origin("gpu-row-functions", document), "")
    yield from (
        "TB/s of all that must be read and written, the share of a copy's, and PyTorch's; results have the bits of the CPU.", "",
    )  # fmt: skip
    figures = document["figures"]["rows"]
    told: dict[tuple[str, int, str], dict[str, Document]] = {}
    for row in figures:
        told.setdefault((row["dtype"], row["length"], _of_rows(row)), {})[row["peer"]] = row
    rows = [
        (
            dtype, f"{length:,}", function,
            f"{next(iter(of.values()))['tb_per_s']:.2f} ({next(iter(of.values()))['of_copy']:.2f})",
            *(f"{of[peer]['peer_tb_per_s']:.2f}" if peer in of else "–" for peer in ("eager", "torch.compile")),
        )
        for (dtype, length, function), of in told.items()
    ]  # fmt: skip
    yield from (*table(("numbers", "row", "function", "tcu", "PyTorch", "torch.compile"), rows), "")


def decoder(found: dict[str, Document]) -> Iterator[str]:
    """Of a training step and its parts, in milliseconds."""
    document = found["gpu-decoder"]
    yield from (origin("gpu-decoder", document), "")
    figures = document["figures"]
    size, steps = figures["size"], figures["steps"]
    yield from (
        f"A decoder of width {size['width']:,} with {size['layers']} layers in bfloat16, {size['batch']} sequences of {size['tokens']} tokens: "
        "milliseconds of a training step, in PyTorch as it is, compiled, and under `tcu.torch.reproducible`; parts were timed alone, "
        f"forward and backward, as often as a step has them.  Not covered: {', '.join(figures['uncovered']) or 'nothing'}.", "",
    )  # fmt: skip
    rows = [("a step", "", *(f"{each * 1e3:,.1f}" for each in steps.values()))]
    rows += [
        (part["part"], str(part["count"]), *(f"{part['seconds'][name] * part['count'] * 1e3:,.1f}" for name in steps))
        for part in figures["parts"]
    ]  # fmt: skip
    yield from (*table(("what", "times", *steps), rows), "")


def _of_rows(row: Document) -> str:
    """The function; and whether its gradient, or numbers that were just written."""
    backward = ", backward" if row.get("direction") == "backward" else ""
    return row["function"] + backward + (", just produced" if row.get("state") == "just produced" else "")


def chains_of_products(found: dict[str, Document]) -> Iterator[str]:
    document = found["gpu-libraries"]
    yield from (origin("gpu-libraries", document), "")
    yield from (
        "What `torch.matmul` and `torch._scaled_mm` add, as `tcu.reveal` finds it: chains of the unit's MMAs and the K of the "
        "longest, of plans that return every bit of a million results each; the study of libraries has their arithmetic.", "",
    )  # fmt: skip
    rows = [row for row in document["figures"]["rows"] if row["kind"] == "matmul"]
    names = list(dict.fromkeys(row["dtype"] for row in rows))
    told = {
        (tuple(row["shape"]), row["dtype"]): f"{row['chains']} of {row['longest']:,}" if row.get("reproduced") else "–"
        for row in rows
    }  # fmt: skip
    shapes = dict.fromkeys(shape for shape, _ in told)
    cells = [
        (" × ".join(f"{each:,}" for each in shape), *(told.get((shape, name), "") for name in names)) for shape in shapes
    ]  # fmt: skip
    yield from (*table(("M × N × K", *names), cells), "")


def triangle_scans(found: dict[str, Document]) -> Iterator[str]:
    """Numbers a second by the length of rows."""
    ((name, document),) = found.items()
    points = document["figures"]["points"]
    yield from (
        origin(name, document), "",
        "Billions of numbers a second, of rows of 16-bit numbers that are as many in all: each variant of `tcu.cumsum` by "
        "products with triangles of ones (Dakkak et al., ICS 2019), the default, a kernel that only copies, and the peers. "
        "“–”: not for such rows, or not measured.", "",
    )  # fmt: skip
    for dtype, result in dict.fromkeys((point["dtype"], point["result"]) for point in points):
        own = [point for point in points if (point["dtype"], point["result"]) == (dtype, result)]
        names = list(dict.fromkeys(who for point in own for who in point["participants"]))
        rows = [
            (f"{point['length']:,}", *(
                f"{entry['numbers_per_s'] / 1e9:.1f}" if "numbers_per_s" in entry else "–"
                for entry in (point["participants"].get(who, {}) for who in names)
            ))
            for point in own
        ]  # fmt: skip
        yield from (f"{dtype} → {result}", "", *table(("row", *names), rows), "")


SEGMENT_PARTS = (
    "rows", "exactrows", "segments", "exactsegments", "norms", "scans", "rowscans", "columnscans", "segmentscans"
)  # fmt: skip
SEGMENTS = tuple(
    f"gpu-segments-{part}{size}" for part in SEGMENT_PARTS for size in ("", f"-{1 << 26}", f"-{1 << 24}")
)
"""Files of gpu_segments.py, in full size and for fewer numbers in all."""

SECTIONS: tuple[tuple[str, tuple[str, ...], Callable[[dict[str, Document]], Iterator[str]]], ...] = (
    ("Where a peer is faster", (*SEGMENTS, "gpu-sum", "gpu-matmul", "gpu-grouped", "gpu-row-functions", "gpu-index-sums", "gpu-fft", "gpu-polynomials", "gpu-machine"), faster_peers),
    ("Sums on a GPU", ("gpu-sum",), sums),
    ("Products of matrices on a GPU", ("gpu-matmul",), product_rates),
    ("Products of segments of rows on a GPU", ("gpu-grouped",), grouped_rates),
    ("Functions of rows on a GPU", ("gpu-row-functions",), row_functions),
    ("Training steps of a decoder on a GPU", ("gpu-decoder",), decoder),
    ("Sums by index on a GPU", ("gpu-index-sums",), index_sums),
    ("Polynomials on a GPU", ("gpu-polynomials",), polynomials),
    ("Fourier transforms on a GPU", ("gpu-fft",), transforms),
    ("Long integers on a GPU", ("gpu-integers",), long_integers),
    ("Python's integers on a CPU", ("cpu-integers",), python_integers),
    ("What products of PyTorch on a GPU add", ("gpu-libraries",), chains_of_products),
    ("Rows, ragged segments and running sums on a GPU",
     SEGMENTS, segments),
    ("Running sums by products with triangles of ones", ("gpu-segments-trianglescans",), triangle_scans),
    ("How the blocks of single-pass and split are added", ("gpu-atomic",), block_sums),
    ("The algorithms of Dakkak et al.", ("paper-002",), equal_segments),
    ("Several GPUs", tuple(f"gpu-distributed-{ranks}" for ranks in (2, 4, 8)), several_gpus),
    ("Programs of the machine on a GPU", ("gpu-machine",), machine),
    ("Host time of calls on a GPU", ("gpu-host-time",), host_time),
    ("First calls on a GPU", ("gpu-units",), first_calls),
    ("Files larger than memory", ("file-rate",), files),
    ("Many ranks, simulated", ("simulate-ranks",), ranks),
    ("The model on a CPU", ("cpu",), cpu),
    ("MMAs of whole matrices on a CPU", ("cpu-mma",), cpu_mmas),
    ("Products of matrices: errors by the length of chains", ("matmul-errors",), products),
)  # fmt: skip
"""Title, files and what writes a section."""
