"""Paper 002's figure 5: sums of equal segments over their length, beside CUB; share of the ideal, and energy."""

from __future__ import annotations

from typing import Any

from tcu.calibration.paper_002 import TIE
from tcu.plan.segmented import ALGORITHMS, best_algorithm
from tcu.study.sources import kernels_of
from tcu.study.study import Figure, Line, Rows, Shown, Source, Study, Table, Verdict, series_of

__all__ = ["SEGMENTS"]

IDEAL, CUB = "read alone", "CUB"
SELECTED = "paper-002"
"""The paper's combination: the algorithm that is fastest at that length."""
_PART = "part"
_MANY = 1024
"""Segments; a GPU has fewer multiprocessors."""


def _rows(document: Any) -> Rows:
    figures = document["figures"]
    return [
        {_PART: part, "count": figures["count"], **row}
        for part in ("rows", "energy")
        for row in figures[part]
    ]


def _show(rows: Rows) -> Shown:
    speeds = [row for row in rows if row[_PART] == "rows"]
    energy = [row for row in rows if row[_PART] == "energy"]
    count = rows[0]["count"]
    figures: list[Figure | Table] = [
        _figure(f"Sums of equal segments, {count:,} binary16 numbers", "10⁹ numbers per second", speeds,
                lambda row: count / row["median"] * 1e-9),
        _figure("Bytes read and written, over those of reading alone", "share of the ceiling", speeds,
                lambda row: row["of_ceiling"]),
        _figure("Largest error of all segments, normal numbers", "error", speeds,
                lambda row: row.get("largest_error") or None, log_y=True),
        Table(
            "Which algorithm is fastest", ("numbers in a segment", "algorithm"),
            [[f"{row['segment']:,}", row["who"]] for row in speeds if row["best"]],
        ),
    ]  # fmt: skip
    figures = [part for part in figures if isinstance(part, Table) or part.lines]
    verdicts = [_ideal(speeds), _against_cub(speeds), *_selected(speeds)]
    if energy:
        figures.append(Table(
            "Energy, one sum after another", ("sum", "segment", "joules per TB read", "watts"),
            [[r["who"], f"{r['segment']:,}", f"{r['joules_per_terabyte']:.0f}", f"{r['watts']:.0f}"] for r in energy],
        ))  # fmt: skip
        verdicts.append(_power(energy))
    return Shown(figures, verdicts)


def _figure(title: str, y: str, rows: Rows, value: Any, *, log_y: bool = False) -> Figure:
    lines = []
    for who in dict.fromkeys(row["who"] for row in rows):
        own = [(row["segment"], value(row)) for row in rows if row["who"] == who]
        if any(found is not None for _, found in own):
            ys = [found for _, found in own]
            lines.append(Line(who, [n for n, _ in own], ys, who == IDEAL, series=series_of(who)))
    return Figure(title, "numbers in a segment", y, lines, True, log_y)


def _ideal(rows: Rows) -> Verdict:
    shares = {row["segment"]: row["of_ceiling"] for row in rows if row["best"] and row["of_ceiling"]}
    if not shares:
        return Verdict(
            "paper 002, figure 5", "90 to 98 % of the ideal throughput.", "–", "not measured", "no ceiling"
        )
    low, high = min(shares, key=lambda n: shares[n]), max(shares, key=lambda n: shares[n])
    below = sorted(n for n, share in shares.items() if share < 0.9)
    told = f": segments of {', '.join(f'{n:,}' for n in below)}" if below else ""
    return Verdict.of(
        "paper 002, figure 5, evaluation",
        "The best of the algorithms reaches between 90 and 98 % of the ideal throughput.",
        f"Between {shares[low]:.0%} (segments of {low:,}) and {shares[high]:.0%} (of {high:,}) of reading alone; below "
        f"90 % at {len(below)} of {len(shares)} lengths{told}.",
        not below, _why_below(rows, low),
        check="at no length less than 90 %", rows=[row for row in rows if row["segment"] in shares and row["best"]],
        fields=("of_ceiling",),
    )  # fmt: skip


def _why_below(rows: Rows, n: int) -> str:
    """What the others reach where the best algorithm is furthest from the ideal."""
    shares: dict[str, float] = {}
    for row in rows:
        if row["segment"] == n and row["of_ceiling"] and row["who"] != IDEAL:
            name = CUB if row["who"].startswith(CUB) else row["who"]
            shares[name] = max(shares.get(name, 0.0), row["of_ceiling"])
    others = ", ".join(f"{name} {shares[name]:.0%}" for name in ("tcu.sum", CUB) if name in shares)
    results = 4 / (2 * n)
    why = f"at segments of {n:,} results to write are {results:.0%} of what is read, and the ideal is to read alone"
    return why + (f"; nobody reaches it there: {others}" if others else "")


def _against_cub(rows: Rows) -> Verdict:
    """Where there are many segments: CUB gives a block to each, and for few its sum of a whole array is the right one."""
    ratios, shares, used = {}, {}, []
    for row in (row for row in rows if row["best"] and row["count"] >= _MANY * row["segment"]):
        cub = [r for r in rows if r["segment"] == row["segment"] and r["who"].startswith(CUB)]
        if cub:
            best = min(cub, key=lambda r: float(r["median"]))
            ratios[row["segment"]] = best["median"] / row["median"]
            shares[row["segment"]] = best["of_ceiling"]
            used += [row, *cub]
    if not ratios:
        return Verdict(
            "paper 002, figure 5", "Faster than CUB.", "–", "not measured", "CUB did not take part"
        )
    worst, most = min(ratios, key=lambda n: ratios[n]), max(ratios, key=lambda n: ratios[n])
    share = "" if shares[worst] is None else f", {shares[worst]:.0%} of the ideal"
    return Verdict.of(
        "paper 002, figure 5", "Whatever the length of the segments, an algorithm on tensor cores is the fastest.",
        f"Faster than CUB's segmented sum at {sum(ratio >= 1 for ratio in ratios.values())} of {len(ratios)} lengths: from "
        f"{ratios[worst]:.2f} (segments of {worst:,}) to {ratios[most]:.1f} times its speed (of {most:,}). Of fewer than "
        f"{_MANY:,} segments nothing is said: CUB's sum of whole arrays, which did not take part, is the peer there.",
        ratios[worst] >= 1,
        f"at segments of {worst:,} CUB, too, reads about as fast as memory delivers{share}: there is nothing left to gain",
        check=f"at every length that leaves {_MANY:,} segments no CUB is faster than the best algorithm", rows=used,
        fields=("median",),
    )  # fmt: skip


def _selected(rows: Rows) -> list[Verdict]:
    """How the algorithm that variant="paper-002" stands for is placed among the four at each length."""
    over, stale, used = {}, {}, []
    for n in dict.fromkeys(row["segment"] for row in rows):
        own = {row["who"]: row for row in rows if row["segment"] == n}
        four = [own[name] for name in ALGORITHMS if name in own]
        named = own.get(best_algorithm(n))
        if named is None:
            continue
        used += four
        over[n] = named["median"] / min(float(row["median"]) for row in four)
        if SELECTED in own and abs(own[SELECTED]["median"] / named["median"] - 1) > TIE:
            stale[n] = own[SELECTED]["median"] / named["median"]
    if not over:
        return []
    slow = [n for n, ratio in over.items() if ratio > 1 + TIE]
    worst = max(over, key=lambda n: over[n])
    older = (
        f" The row of {SELECTED} itself was measured under an older table: at {len(stale)} lengths it is another's, up to "
        f"{max(stale.values()):.2f} times as slow."
        if stale
        else ""
    )
    return [Verdict.of(
        "tcu, after paper 002", 'variant="paper-002" is the fastest of the four algorithms at every length.',
        f"The algorithm that it stands for is more than {TIE:.0%} slower than the fastest at {len(slow)} of {len(over)} lengths, "
        f"{over[worst]:.2f} times as slow at segments of {worst:,}.{older}", not slow,
        "the table that it goes by was chosen from other rows, and another one would give other bits",
        check=f"at no length more than {TIE:.0%} slower", rows=used, fields=("median",),
    )]  # fmt: skip


def _power(rows: Rows) -> Verdict:
    """Against the CUB that draws most power, and the one that takes most energy."""
    power, energy, speed, used = {}, {}, {}, []
    for row in (row for row in rows if row["who"] == SELECTED):
        cub = [r for r in rows if r["segment"] == row["segment"] and r["who"].startswith(CUB)]
        if cub:
            n = row["segment"]
            used += [row, *cub]
            power[n] = row["watts"] / max(r["watts"] for r in cub) - 1
            energy[n] = row["joules_per_terabyte"] / max(r["joules_per_terabyte"] for r in cub) - 1
            rates = [r["watts"] / r["joules_per_terabyte"] for r in cub]
            speed[n] = row["watts"] / row["joules_per_terabyte"] / max(rates)
    if not power:
        return Verdict(
            "paper 002, evaluation", "Up to 22 % less power.", "–", "not measured", "CUB did not take part"
        )
    told = "; ".join(
        f"segments of {n:,}: {_change(power[n])} power, {_change(energy[n])} energy" for n in power
    )
    fastest = max(speed, key=lambda n: speed[n])
    return Verdict.of(
        "paper 002, evaluation", "The power consumption falls by up to 22 % against CUB.", f"{told}.",
        min(power.values()) <= -0.2,
        f"who reads faster draws more power for a shorter time: at segments of {fastest:,} tcu reads "
        f"{speed[fastest]:.1f} times as fast as CUB at {1 + power[fastest]:.1f} times the power",
        check="20 % less power at some length", rows=used, fields=("watts",),
    )  # fmt: skip


def _change(ratio: float) -> str:
    return f"{abs(ratio):.0%} {'less' if ratio <= 0 else 'more'}"


SEGMENTS = Study(
    "segments", "Sums of segments", ("002 figure 5", "002 power"),
    "How near to the ideal do segmented sums come on tensor cores, whatever the length of the segments?",
    _show, needs=("gpu",), stored=Source("paper-002.json", _rows), command="python benchmarks/paper_002.py measure",
    sources=kernels_of("segmented", "rows"),
)  # fmt: skip
