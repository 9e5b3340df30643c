"""Paper 000's figures 7 to 10, timed on a GPU: every variant over n, beside the classic reduction and CUB."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tcu.study import gpu
from tcu.study.atomics import atomic_rows
from tcu.study.data import DRAWS, spread
from tcu.study.study import Figure, Line, Point, Rows, Shown, Study, Table, Verdict, series_of
from tcu.study.sweeps import MEASURED, NEEDS, SEED, errors_of, not_on_titan, sizes_of, timed

__all__ = ["COMPARISON", "TUNED"]

CLASSIC = "warp shuffle, atomic"
"""The reduction that the paper's speedups are over."""
SINGLE, RECURRENCE, SPLIT = (
    "tcu.sum single-pass-atomic R=4 B=128", "tcu.sum recurrence R=5 B=32", "tcu.sum split-atomic R=1 B=512",
)  # fmt: skip
"""As the paper has them: blocks add to the sum of single-pass and of the split by atomics."""
TREES = {SINGLE: "tcu.sum single-pass R=4 B=128", SPLIT: "tcu.sum split R=1 B=512"}
"""The same with blocks added in tcu's order, which are shown beside them and judged nowhere."""
CUB_HALF, CUB_FLOAT = "CUB half→half", "CUB float→float"
TUNED = {
    "tcu.sum single-pass-atomic R=8 B=1024": {"variant": "single-pass-atomic", "chain": 8, "block": 1024},
    "tcu.sum single-pass R=8 B=1024": {"variant": "single-pass", "chain": 8, "block": 1024},
    "tcu.sum recurrence R=2 B=128": {"variant": "recurrence", "chain": 2, "block": 128},
}
"""Name → parameters: what the sweeps find fastest at the larger n on an H200."""
_SIZES = (*(1 << power for power in range(16, 29, 2)), 400_000_000)


def _points(quick: bool) -> list[Point]:
    return [{"n": n} for n in (_SIZES[:3] if quick else _SIZES)]


def _measure(point: Point) -> Rows:
    found: Rows = gpu.load().reductions.compare(point["n"], TUNED)
    return found


def _show(rows: Rows) -> Shown:
    present = timed(rows)
    classic = {row["n"]: row["seconds"] for row in present if row["who"] == CLASSIC}
    lines = {
        who: [row for row in present if row["who"] == who]
        for who in dict.fromkeys(row["who"] for row in present)
    }

    def figure(title: str, y: str, value: Any, log_y: bool = True) -> Figure:
        drawn = [
            Line(who, [row["n"] for row in own], [value(row) for row in own], series=series_of(who))
            for who, own in lines.items()
        ]
        return Figure(title, "n", y, drawn, True, log_y)

    figures = [
        figure("Run time", "time in µs", lambda row: row["seconds"] * 1e6),
        figure("Speedup over the classic warp shuffle", "speedup",
               lambda row: classic[row["n"]] / row["seconds"] if row["n"] in classic else None),
        figure("Billions of numbers per second (BEPS)", "10⁹ numbers per second", lambda row: row["n"] / row["seconds"] * 1e-9),
        *(
            figure(f"Error, {name} numbers", "error in percent",
                   lambda row, name=name: spread(errors_of(row, name))[0] or None)
            for name in ("normal", "uniform")
        ),
    ]  # fmt: skip
    missing = [[row["who"], f"{row['n']:,}", row["missing"]] for row in rows if "missing" in row]
    absent = [Table("Who is missing", ("sum", "n", "why"), missing)] if missing else []
    return Shown([*figures, *absent], [*_speeds(present, classic), *_appendix(present, classic)])


def _by(rows: Rows, n: int, *who: str) -> Rows:
    return [row for row in rows if row["n"] == n and row["who"] in who]


def _seconds(rows: Rows, who: str, n: int) -> float | None:
    return next((float(row["seconds"]) for row in rows if (row["who"], row["n"]) == (who, n)), None)


_RANKS = (
    "paper 000, figure 7, section 5.4, abstract",
    "Single-pass is fastest, about 4.5 times the classic reduction (3.2 in theory and in the abstract); the "
    "recurrence a little above 4, the split almost 1.5.",
)
_SMALL_AND_LARGE = (
    "paper 000, figure 7, section 5.4",
    "The recurrence is slow for small n and catches up for large n; the split is fast for small n and the "
    "slowest for large n.",
)
_CATCHES_UP = (
    "paper 000, section 7", "For very large n the recurrence may become as fast as single-pass, or faster.",
)  # fmt: skip
_BEPS = (
    "paper 000, figure 8, section 6",
    "Single-pass is slightly faster than CUB in binary16 and twice as fast as CUB in binary32: about "
    "420 against 400 and 200 BEPS.",
)
_NORMAL = (
    "paper 000, figure 8, section 6",
    "On normal numbers CUB in binary32 is some orders of magnitude more precise than single-pass and CUB in "
    "binary16, which settle near 0.1 %.",
)
_UNIFORM = (
    "paper 000, figure 8, section 6",
    "On uniform numbers both single-pass and CUB in binary32 err by less than 0.001 %.",
)
_OVERFLOW = (
    "paper 000, figure 8, section 6", "CUB's sum in binary16 overflows on uniform numbers, single-pass does not.",
)  # fmt: skip
_STATED = (_RANKS, _SMALL_AND_LARGE, _CATCHES_UP, _BEPS, _NORMAL, _UNIFORM, _OVERFLOW)
"""Place and statement of each that is about single-pass or the split."""


def _speeds(rows: Rows, classic: dict[int, float]) -> list[Verdict]:
    n = max(row["n"] for row in rows)
    names = (SINGLE, RECURRENCE, SPLIT, *TREES.values(), *TUNED, CUB_HALF, CUB_FLOAT, "tcu.sum")
    times = {who: _seconds(rows, who, n) for who in names}
    over = _speedups(times, classic.get(n))
    if not (times[SINGLE] and times[SPLIT]):
        return [_without_atomics(place, statement, over, n) for place, statement in _STATED]
    verdicts: list[Verdict] = []
    if over:
        single, recurrence, split = (over.get(who, 0.0) for who in (SINGLE, RECURRENCE, SPLIT))
        tuned = _tuned(over, "")
        verdicts += [
            Verdict.of(
                *_RANKS,
                f"At n = {n:,}: single-pass {single:.1f}, recurrence {recurrence:.1f}, split {split:.1f}{tuned}; "
                f"{_trees(over)}tcu's default {over.get('tcu.sum', 0.0):.1f}.",
                single > recurrence > split and single >= 3.2,
                "the variants rank otherwise on this GPU",
                check="single-pass is at least 3.2 times as fast as the classic reduction, and faster than the recurrence, "
                "and that faster than the split",
                rows=_by(rows, n, CLASSIC, SINGLE, RECURRENCE, SPLIT), fields=("seconds",),
            ),
            *_small_and_large(rows, n),
        ]  # fmt: skip
    cub, wide, own_time, single_time = times[CUB_HALF], times[CUB_FLOAT], times["tcu.sum"], times[SINGLE]
    if cub and wide and own_time and single_time:
        beps = {who: n / seconds * 1e-9 for who, seconds in times.items() if seconds}
        verdicts.append(Verdict.of(
            *_BEPS,
            f"At n = {n:,}: single-pass {beps[SINGLE]:,.0f}, CUB half {beps[CUB_HALF]:,.0f}, CUB float "
            f"{beps[CUB_FLOAT]:,.0f} BEPS{_tuned(beps, ' BEPS')}; tcu's default {beps['tcu.sum']:,.0f}, "
            f"{cub / own_time:.2f} and {wide / own_time:.2f} times CUB's speed.",
            single_time < cub and wide / single_time >= 1.9,
            "CUB is as fast here",
            check="single-pass is faster than CUB in binary16, and at least 1.9 times as fast as in binary32",
            rows=_by(rows, n, SINGLE, CUB_HALF, CUB_FLOAT), fields=("seconds",),
        ))  # fmt: skip
    return [*verdicts, *_errors_beside_cub(rows)]


def _without_atomics(place: str, statement: str, over: dict[str, float], n: int) -> Verdict:
    """Nothing is said of the paper's forms by the times of others."""
    told = ", ".join(
        f"{who.removeprefix('tcu.sum ')} {over[who]:.1f}"
        for who in (*TREES.values(), RECURRENCE)
        if who in over
    )
    return Verdict(
        place, statement,
        f"Of single-pass and the split these rows have the forms whose blocks are added in order alone; over the classic "
        f"reduction at n = {n:,}: {told or 'nothing'}.{_stored_atomics()}", "not measured",
        "the paper's blocks add by atomics, which did not take part: `tcu report --study variants` on a GPU measures both",
    )  # fmt: skip


def _stored_atomics() -> str:
    """What another benchmark has of the paper's R and B."""
    told, source = [], ""
    for variant, options in (("single-pass", {"chain": 4, "block": 128}), ("split", {"fraction": 0.5})):
        rows, source = atomic_rows(variant)
        told += [
            f"{variant} {row['seconds'] * 1e6:.1f} µs at n = {row['n']:,}"
            for row in rows if all(row[name] == value for name, value in options.items())
        ]  # fmt: skip
    return f" With atomics and the paper's R and B ({source}): {', '.join(told)}." if told else ""


def _trees(over: dict[str, float]) -> str:
    told = [f"{who.removeprefix('tcu.sum ')} {over[who]:.1f}" for who in TREES.values() if who in over]
    return f"with blocks added in tcu's order {', '.join(told)}; " if told else ""


def _errors_beside_cub(rows: Rows) -> list[Verdict]:
    """Of normal and uniform numbers, in percent."""
    least = min(10**6, max(row["n"] for row in rows))
    used = [row for row in rows if row["who"] in (SINGLE, CUB_HALF, CUB_FLOAT) and row["n"] >= least]
    half = [row for row in rows if row["who"] in (CUB_HALF, SINGLE)]
    if {row["who"] for row in used} != {SINGLE, CUB_HALF, CUB_FLOAT}:
        return []
    draws = min(len(errors_of(row, name)) for row in [*used, *half] for name in ("normal", "uniform"))
    if draws < DRAWS:
        return [
            Verdict(place, statement, f"Errors of {draws} array{'s' * (draws > 1)} of each size.", "not measured",
                    f"errors are judged by {DRAWS} arrays of each size")
            for place, statement in (_NORMAL, _UNIFORM, _OVERFLOW)
        ]  # fmt: skip
    normal, uniform = (
        {
            (row["who"], row["n"]): [math.inf if e is None else e for e in errors_of(row, name)]
            for row in [*used, *half]
        }
        for name in ("normal", "uniform")
    )
    sizes = sorted({row["n"] for row in used})
    single, cub, wide = (
        [float(np.median(normal[who, n])) for n in sizes] for who in (SINGLE, CUB_HALF, CUB_FLOAT)
    )
    ratio = float(np.median([a / max(b, 1e-12) for a, b in zip(single, wide, strict=True)]))
    settled = {"single-pass": float(np.median(single)), "CUB half": float(np.median(cub))}
    worst = {who: max(max(uniform[who, n]) for n in sizes) for who in (SINGLE, CUB_FLOAT)}
    lost = {
        who: sum(math.inf in errors for (name, _), errors in uniform.items() if name == who)
        for who in (CUB_HALF, SINGLE)
    }
    return [
        Verdict.of(
            *_NORMAL,
            f"{ratio:,.0f} times more precise than single-pass in the median; single-pass errs by {settled['single-pass']:.2g} %, CUB half "
            f"by {settled['CUB half']:.2g} % (medians of {draws} arrays of each size from n = {sizes[0]:,} on).",
            ratio >= 100 and all(0.01 <= error <= 1 for error in settled.values()),
            "the sum itself is random here, so a percentage of it moves with the numbers drawn",
            check="single-pass's median error is at least 100 times CUB's in binary32; single-pass's and CUB's in binary16 "
            "are 0.01 to 1 %", rows=used, fields=("percent_error.normal",),
        ),
        Verdict.of(
            *_UNIFORM,
            f"At most by {worst[SINGLE]:.2g} % and {worst[CUB_FLOAT]:.2g} % from n = {sizes[0]:,} on, of {draws} arrays of each size.",
            max(worst.values()) < 1e-3, "an error of the numbers drawn is above that",
            check="every error is below 0.001 %", rows=[row for row in used if row["who"] != CUB_HALF],
            fields=("percent_error.uniform",),
        ),
        Verdict.of(
            *_OVERFLOW,
            f"CUB half→half overflows at {lost[CUB_HALF]} of {len({row['n'] for row in half})} sizes, single-pass at {lost[SINGLE]}.",
            lost[CUB_HALF] > 0 and lost[SINGLE] == 0, "they overflow otherwise here",
            check="CUB's sum overflows at some size, single-pass at none", rows=half, fields=("percent_error.uniform",),
        ),
    ]  # fmt: skip


def _tuned(figures: dict[str, float], unit: str) -> str:
    """What R and B do that suit this GPU, as the paper chose them for its own."""
    told = [
        f"{name.removeprefix('tcu.sum ')} {figures[name]:,.4g}{unit}" for name in TUNED if name in figures
    ]
    return f" (with R and B of this GPU: {', '.join(told)})" if told else ""


def _small_and_large(rows: Rows, n: int) -> list[Verdict]:
    """How the three variants rank at the smallest and at the largest n."""
    least = min(row["n"] for row in rows)
    few, many = (
        {who: _seconds(rows, who, at) or math.inf for who in (SINGLE, RECURRENCE, SPLIT)} for at in (least, n)
    )
    at = "; ".join(
        f"n = {size:,}: single-pass {t[SINGLE] * 1e6:.1f}, recurrence {t[RECURRENCE] * 1e6:.1f}, split {t[SPLIT] * 1e6:.1f} µs"
        for size, t in ((least, few), (n, many))
    )
    faster = [
        size for size in sizes_of(rows)
        if (_seconds(rows, RECURRENCE, size) or math.inf) < (_seconds(rows, SINGLE, size) or 0.0)
    ]  # fmt: skip
    return [
        Verdict.of(
            *_SMALL_AND_LARGE,
            f"{at}.",
            few[RECURRENCE] == max(few.values()) and many[SPLIT] == max(many.values())
            and many[RECURRENCE] / many[SINGLE] < few[RECURRENCE] / few[SINGLE],
            "the variants rank otherwise on this GPU",
            check="at the smallest n the recurrence is the slowest, at the largest the split, and the recurrence gains on "
            "single-pass", rows=[row for at in (least, n) for row in _by(rows, at, SINGLE, RECURRENCE, SPLIT)],
            fields=("seconds",),
        ),
        Verdict.of(
            *_CATCHES_UP,
            f"It is faster at n = {', '.join(f'{size:,}' for size in faster)}." if faster else "At no n is it faster.",
            n in faster, f"single-pass is the faster one up to n = {n:,}",
            check="the recurrence is faster at the largest n", rows=_by(rows, n, SINGLE, RECURRENCE), fields=("seconds",),
        ),
    ]  # fmt: skip


def _speedups(times: dict[str, float | None], classic: float | None) -> dict[str, float]:
    return {} if classic is None else {who: classic / seconds for who, seconds in times.items() if seconds}


def _appendix(rows: Rows, classic: dict[int, float]) -> list[Verdict]:
    n = max(row["n"] for row in rows)
    over = _speedups(
        {who: _seconds(rows, who, n) for who in (SINGLE, TREES[SINGLE], RECURRENCE)}, classic.get(n)
    )
    text = ", ".join(f"{who.removeprefix('tcu.sum ')}: {value:.1f} times" for who, value in over.items())
    return [
        not_on_titan(
            "figure 9, figure 10", "On a TITAN RTX the speedups over the classic reduction are greater than on a V100.",
            text or "no classic reduction to compare with",
        )
    ]  # fmt: skip


COMPARISON = Study(
    "variants", "All variants and CUB over n", ("000 figure 7", "000 figure 8", "000 figure 9", "000 figure 10"),
    "How fast is each variant beside the classic reduction and CUB?",
    _show, _points, _measure, (20, 90), NEEDS, SEED, sources=MEASURED,
)  # fmt: skip
