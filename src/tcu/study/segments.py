"""Paper 002's figure 5: sums of equal segments over their length, beside CUB; share of the ideal, and energy."""

from __future__ import annotations

from typing import Any

from tcu.study.study import Figure, Line, Rows, Shown, Source, Study, Table, Verdict

__all__ = ["SEGMENTS"]

IDEAL, CUB = "read alone", "CUB"
SELECTED = "paper-002"
"""The paper's combination: the algorithm that is fastest at that length."""
_PART = "part"


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
    verdicts = [_ideal(speeds), _against_cub(speeds)]
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
            lines.append(Line(who, [n for n, _ in own], [found for _, found in own], who == IDEAL))
    return Figure(title, "numbers in a segment", y, lines, True, log_y)


def _ideal(rows: Rows) -> Verdict:
    shares = {row["segment"]: row["of_ceiling"] for row in rows if row["best"] and row["of_ceiling"]}
    if not shares:
        return Verdict(
            "paper 002, figure 5", "90 to 98 % of the ideal throughput.", "–", "not measured", "no ceiling"
        )
    low, high = min(shares, key=lambda n: shares[n]), max(shares, key=lambda n: shares[n])
    below = sum(share < 0.9 for share in shares.values())
    return Verdict.of(
        "paper 002, evaluation and figure 5",
        "The best of the algorithms reaches between 90 and 98 % of the ideal throughput.",
        f"Between {shares[low]:.0%} (segments of {low:,}) and {shares[high]:.0%} (of {high:,}) of reading alone; below "
        f"90 % at {below} of {len(shares)} lengths.",
        not below, "where a segment is long the few units that add it do not fill the memory's bandwidth",
    )  # fmt: skip


def _against_cub(rows: Rows) -> Verdict:
    ratios = {}
    for row in (row for row in rows if row["best"]):
        cub = [r["median"] for r in rows if r["segment"] == row["segment"] and r["who"].startswith(CUB)]
        if cub:
            ratios[row["segment"]] = min(cub) / row["median"]
    if not ratios:
        return Verdict(
            "paper 002, figure 5", "Faster than CUB.", "–", "not measured", "CUB did not take part"
        )
    worst, most = min(ratios, key=lambda n: ratios[n]), max(ratios, key=lambda n: ratios[n])
    return Verdict.of(
        "paper 002, figure 5", "Whatever the length of the segments, an algorithm on tensor cores is the fastest.",
        f"Faster than CUB at {sum(ratio >= 1 for ratio in ratios.values())} of {len(ratios)} lengths: from "
        f"{ratios[worst]:.2f} (segments of {worst:,}) to {ratios[most]:.1f} times its speed (of {most:,}).",
        ratios[worst] >= 1, "CUB adds long segments as fast as memory delivers them",
    )  # fmt: skip


def _power(rows: Rows) -> Verdict:
    saved: dict[int, tuple[float, float]] = {}
    for row in (row for row in rows if row["who"] == SELECTED):
        cub = [r for r in rows if r["segment"] == row["segment"] and r["who"].startswith(CUB)]
        if cub:
            saved[row["segment"]] = (
                1 - row["watts"] / max(r["watts"] for r in cub),
                1 - row["joules_per_terabyte"] / max(r["joules_per_terabyte"] for r in cub),
            )
    if not saved:
        return Verdict(
            "paper 002, evaluation", "Up to 22 % less power.", "–", "not measured", "CUB did not take part"
        )
    told = "; ".join(
        f"segments of {n:,}: {w:.0%} less power, {e:.0%} less energy" for n, (w, e) in saved.items()
    )
    return Verdict.of(
        "paper 002, evaluation", "The power consumption falls by up to 22 % against CUB.", f"{told}.",
        max(power for power, _ in saved.values()) >= 0.2,
        "a sum that reads faster draws more power and for a shorter time: it is the energy that falls",
    )  # fmt: skip


SEGMENTS = Study(
    "segments", "Sums of segments", ("002 figure 5", "002 power"),
    "How near to the ideal do segmented sums come on tensor cores, whatever the length of the segments?",
    _show, needs=("gpu",), stored=Source("paper-002.json", _rows), command="python benchmarks/paper_002.py measure",
)  # fmt: skip
