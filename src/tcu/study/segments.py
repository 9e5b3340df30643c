"""Paper 002's figure 5: sums of equal segments over their length, beside CUB; share of the ideal, and energy.

Read from paper-002.json, whose figures are two lists of rows.  "5": who,
segment, n, seconds, or in words why it is ``missing``; who "read alone" is
the ideal.  "energy": who, segment, joules_per_terabyte, watts.
"""

from __future__ import annotations

from typing import Any

from tcu.study.study import Figure, Line, Rows, Shown, Source, Study, Table, Verdict

__all__ = ["SEGMENTS"]

IDEAL = "read alone"
_BYTES = 2
"""Of a number: the paper's are binary16."""


def _rows(document: Any) -> Rows:
    figures = document["figures"]
    return [
        *({"part": "speed", **row} for row in figures["5"]),
        *({"part": "energy", **row} for row in figures.get("energy", [])),
    ]


def _is_ours(who: str) -> bool:
    return who.startswith("tcu")


def _show(rows: Rows) -> Shown:
    speeds = {
        (row["who"], row["segment"]): row["n"] * _BYTES / row["seconds"] * 1e-12
        for row in rows if row["part"] == "speed" and "seconds" in row
    }  # fmt: skip
    lengths = sorted({segment for _, segment in speeds})
    who = list(dict.fromkeys(name for name, _ in speeds))
    figure = Figure(
        "Sums of segments", "numbers in a segment", "TB/s",
        [
            Line(name, [s for s in lengths if (name, s) in speeds],
                 [speeds[name, s] for s in lengths if (name, s) in speeds], name == IDEAL)
            for name in who
        ],
        True, note="Binary16 numbers, all segments of one length. Dashed: reading alone.",
    )  # fmt: skip
    parts: list[Figure | Table] = [figure]
    missing = [[r["who"], f"{r['segment']:,}", r["missing"]] for r in rows if "missing" in r]
    if missing:
        parts.append(Table("Who is missing", ("sum", "segment", "why"), missing))
    verdicts = [_ideal(speeds, lengths), _against_cub(speeds, lengths)]
    energy = [row for row in rows if row["part"] == "energy"]
    if energy:
        parts.append(_energy_table(energy))
        verdicts.append(_energy(energy))
    return Shown(parts, verdicts)


def _best(speeds: dict[tuple[str, int], float], segment: int, ours: bool) -> float | None:
    return max(
        (v for (who, s), v in speeds.items() if s == segment and who != IDEAL and _is_ours(who) == ours),
        default=None,
    )


def _ideal(speeds: dict[tuple[str, int], float], lengths: list[int]) -> Verdict:
    ceiling = max(value for (who, _), value in speeds.items() if who == IDEAL)
    shares = {s: best / ceiling for s in lengths if (best := _best(speeds, s, True))}
    low, high = min(shares, key=lambda s: shares[s]), max(shares, key=lambda s: shares[s])
    return Verdict.of(
        "paper 002, evaluation and figure 5",
        "The best of the algorithms reaches between 90 and 98 % of the ideal throughput.",
        f"Between {shares[low]:.0%} (segments of {low:,}) and {shares[high]:.0%} (of {high:,}) of reading alone.",
        shares[low] >= 0.9,
        "short segments write many results, which the ideal of reading alone leaves out",
    )


def _against_cub(speeds: dict[tuple[str, int], float], lengths: list[int]) -> Verdict:
    cub = {
        s: max((v for (who, at), v in speeds.items() if at == s and who.startswith("CUB")), default=None)
        for s in lengths
    }
    ratios = {s: best / other for s in lengths if (best := _best(speeds, s, True)) and (other := cub[s])}
    worst = min(ratios, key=lambda s: ratios[s])
    return Verdict.of(
        "paper 002, figure 5", "On segments of every length the best algorithm is one on tensor cores, not CUB's.",
        f"{sum(ratio >= 1 for ratio in ratios.values())} of {len(ratios)} lengths; at worst {ratios[worst]:.2f} times "
        f"CUB's best speed (segments of {worst:,}), at best {max(ratios.values()):.1f} times.",
        ratios[worst] >= 1, "CUB's sum of whole arrays is as fast as memory",
    )  # fmt: skip


def _energy_table(rows: Rows) -> Table:
    return Table(
        "Energy of sums of segments", ("sum", "segment", "joules per TB read", "watts"),
        [[r["who"], f"{r['segment']:,}", f"{r['joules_per_terabyte']:.0f}", f"{r['watts']:.0f}"] for r in rows],
    )  # fmt: skip


def _energy(rows: Rows) -> Verdict:
    less = {}
    for segment in dict.fromkeys(row["segment"] for row in rows):
        own = [r["joules_per_terabyte"] for r in rows if r["segment"] == segment and _is_ours(r["who"])]
        cub = [
            r["joules_per_terabyte"] for r in rows if r["segment"] == segment and r["who"].startswith("CUB")
        ]
        if own and cub:
            less[segment] = 1 - min(own) / min(cub)
    most = max(less, key=lambda s: less[s])
    return Verdict.of(
        "paper 002, evaluation", "The power consumption falls by up to 22 %.",
        f"The energy of a sum falls by up to {less[most]:.0%} (segments of {most:,}).", less[most] >= 0.2,
        "an H200's memory takes most of the energy, whoever adds",
    )  # fmt: skip


SEGMENTS = Study(
    "segments", "Sums of segments", ("002 figure 5", "002 power"),
    "How near to the ideal do segmented sums come on tensor cores, whatever the length of the segments?",
    _show, needs=("gpu",), stored=Source("paper-002.json", _rows), command="python benchmarks/paper_002.py",
)  # fmt: skip
