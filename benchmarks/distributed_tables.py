"""The tables of docs/distributed.md, from benchmarks/results; --write puts them there."""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "distributed.md"


def read(name: str) -> Any:
    """A benchmark's document; None where it was not run."""
    path = ROOT / "benchmarks" / "results" / f"{name}.json"
    return json.loads(path.read_text()) if path.is_file() else None


def table(head: list[str], rows: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows))


def where(document: Any) -> str:
    machine = document["machine"]
    return machine.get("gpu") or machine["processor"].partition(" (")[0]


def file_rate() -> str:
    document = read("file-rate")
    if document is None:
        return ""
    figures = document["figures"]
    states = {state: figures[state] for state in ("warm", "cold")}
    rows = [
        [name, f"{each['cat']['gb_per_second']:.2f}", f"{each['tcu']['gb_per_second']:.2f}", f"{each['ratio']:.2f}",
         f"{each['cat']['seconds']:.2f} s", f"{each['tcu']['seconds']:.2f} s",
         f"{each['resident_bytes'] / 1e6:.0f} MB"]
        for name, each in states.items()
    ]  # fmt: skip
    head = [
        "page cache",
        "`cat`, GB/s",
        "`tcu sum --exact`, GB/s",
        "ratio",
        "whole `cat`",
        "whole `tcu`",
        "resident",
    ]
    start = max(each["start_seconds"] for each in states.values())
    return (
        f"{table(head, rows)}\n\n{figures['bytes'] / 1e9:.0f} GB of float64 under a limit of "
        f"{figures['limit_bytes'] / 1e9:.2g} GB, {where(document)}, {document['machine']['cores']} cores. Of a whole "
        f"process, {start:.2f} s are its start (Python, NumPy, the compiler), which the rates leave out."
    )


def simulate_ranks() -> str:
    document = read("simulate-ranks")
    if document is None:
        return ""
    figures = document["figures"]
    trees = figures["trees"]
    names = list(figures["networks"])
    fan_ins = sorted({row["fan_in"] for row in trees})
    head = ["ranks", *(f"fan-in {fan_in}: {'; '.join(names)}" for fan_in in fan_ins)]
    rows = []
    for ranks in sorted({row["ranks"] for row in trees}):
        found = {(row["network"], row["fan_in"]): row for row in trees if row["ranks"] == ranks}
        cells = [
            "; ".join(f"{found[name, fan_in]['seconds'] * 1e3:.3g} ms" for name in names)
            + f" (depth {found[names[0], fan_in]['depth']})"
            for fan_in in fan_ins
        ]
        rows.append([f"{ranks:,}", *cells])
    inputs = "; ".join(
        f"{name}: {pair['latency'] * 1e6:.3g} µs, {pair['bandwidth'] / 1e9:.3g} GB/s"
        for name, pair in figures["networks"].items()
    )
    bits = [
        [f"{int(ranks):,}", str(each["exact_results"]), "yes" if each["exact_is_fsum"] else "NO",
         f"{each['binary64_results']} of {each['binary64_orders']}", f"{each['binary64_spread_relative']:.1g}"]
        for ranks, each in figures["bits"].items()
    ]  # fmt: skip
    second = table(
        ["ranks", "results of exact words, in trees of any fan-in", "equal to `tcu.fsum`",
         "different results of binary64 additions in random orders", "their spread"], bits,
    )  # fmt: skip
    return (
        f"{table(head, rows)}\n\n{inputs}; {figures['accumulator_bytes']} bytes a message, "
        f"{figures['merge_seconds'] * 1e6:.2g} µs a merge, jitter {figures['jitter']}.\n\n{second}"
    )


def gpu_distributed() -> str:
    documents = [
        each for each in (read(f"gpu-distributed-{ranks}") for ranks in (2, 4, 8)) if each is not None
    ]
    rows = []
    for document in documents:
        figures = document["figures"]
        for name, row in figures["rows"].items():
            ratio = row.get("of_ranks_times_one_gpu")
            rows.append([
                f"{figures['ranks']} × {where(document)}", f"`{name}`" if name.startswith("tcu") else name,
                f"{row['tb_per_second']:.2f}", f"{ratio:.3f}" if ratio else "–",
            ])  # fmt: skip
    if not rows:
        return ""
    same = all(
        all(value.values()) if isinstance(value, dict) else value
        for document in documents
        for value in document["figures"]["same_bits"].values()
    )
    return (
        f"{table(['GPUs', '', 'TB/s', 'of ranks × one GPU'], rows)}\n\n"
        f"{'The same bits' if same else 'NOT THE SAME BITS'} on every rank and from run to run; those of `fsum` also "
        "when the numbers are dealt out anew, and when the ranks' accumulators are merged one by one."
    )


TABLES = {"file-rate": file_rate, "simulate-ranks": simulate_ranks, "gpu-distributed": gpu_distributed}


def filled(page: str) -> str:
    """The page with the tables as they are now."""
    for name, make in TABLES.items():
        text = make()
        block = f"<!-- {name} -->\n" + (f"{text}\n" if text else "") + "<!-- end -->"
        page = re.sub(rf"<!-- {name} -->\n.*?<!-- end -->", lambda _, block=block: block, page, flags=re.S)
    return page


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    if parser.parse_args().write:
        PAGE.write_text(filled(PAGE.read_text()))
    else:
        print(filled(PAGE.read_text()))
