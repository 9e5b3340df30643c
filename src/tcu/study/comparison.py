"""Paper 000's figures 7 to 10, timed on a GPU: every variant over n, beside the classic reduction and CUB."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from tcu.study import gpu
from tcu.study.study import Figure, Line, Point, Rows, Shown, Study, Table, Verdict, series_of
from tcu.study.sweeps import MEASURED, NEEDS, SEED, not_on_titan, sizes_of, timed

__all__ = ["COMPARISON", "TUNED"]

CLASSIC = "warp shuffle, atomic"
"""The reduction that the paper's speedups are over."""
SINGLE, RECURRENCE, SPLIT = (
    "tcu.sum single-pass R=4 B=128", "tcu.sum recurrence R=5 B=32", "tcu.sum split R=1 B=512",
)  # fmt: skip
CUB_HALF, CUB_FLOAT = "CUB half→half", "CUB float→float"
TUNED = {
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
            figure(f"Error, {name} numbers", "error in percent", lambda row, name=name: row["percent_error"][name] or None)
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


def _speeds(rows: Rows, classic: dict[int, float]) -> list[Verdict]:
    n = max(row["n"] for row in rows)
    times = {
        who: _seconds(rows, who, n)
        for who in (SINGLE, RECURRENCE, SPLIT, *TUNED, CUB_HALF, CUB_FLOAT, "tcu.sum")
    }
    verdicts: list[Verdict] = []
    over = _speedups(times, classic.get(n))
    if over:
        single, recurrence, split = (over.get(who, 0.0) for who in (SINGLE, RECURRENCE, SPLIT))
        tuned = _tuned(over, "")
        verdicts += [
            Verdict.of(
                "paper 000, figure 7, section 5.4, abstract",
                "Single-pass is fastest, about 4.5 times the classic reduction (3.2 in theory and in the abstract); the "
                "recurrence a little above 4, the split almost 1.5.",
                f"At n = {n:,}: single-pass {single:.1f}, recurrence {recurrence:.1f}, split {split:.1f}{tuned}; tcu's "
                f"default {over.get('tcu.sum', 0.0):.1f}.",
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
            "paper 000, figure 8, section 6",
            "Single-pass is slightly faster than CUB in binary16 and twice as fast as CUB in binary32: about "
            "420 against 400 and 200 BEPS.",
            f"At n = {n:,}: single-pass {beps[SINGLE]:,.0f}, CUB half {beps[CUB_HALF]:,.0f}, CUB float "
            f"{beps[CUB_FLOAT]:,.0f} BEPS{_tuned(beps, ' BEPS')}; tcu's default {beps['tcu.sum']:,.0f}, "
            f"{cub / own_time:.2f} and {wide / own_time:.2f} times CUB's speed.",
            single_time < cub and wide / single_time >= 1.9,
            "CUB is as fast here",
            check="single-pass is faster than CUB in binary16, and at least 1.9 times as fast as in binary32",
            rows=_by(rows, n, SINGLE, CUB_HALF, CUB_FLOAT), fields=("seconds",),
        ))  # fmt: skip
    verdicts = [_unless_in_order(verdict, rows, n) for verdict in verdicts]
    verdicts += _errors_beside_cub(rows)
    half = [row for row in rows if row["who"] == CUB_HALF]
    verdicts.append(Verdict.of(
        "paper 000, figure 8, section 6", "CUB's sum in binary16 overflows on uniform numbers, single-pass does not.",
        f"CUB half→half overflows at {sum(row['percent_error']['uniform'] is None for row in half)} of {len(half)} "
        f"sizes, single-pass at {sum(r['percent_error']['uniform'] is None for r in rows if r['who'] == SINGLE)}.",
        any(row["percent_error"]["uniform"] is None for row in half)
        and all(r["percent_error"]["uniform"] is not None for r in rows if r["who"] == SINGLE),
        "they overflow otherwise here",
        check="CUB's sum overflows at some size, single-pass at none",
        rows=[row for row in rows if row["who"] in (CUB_HALF, SINGLE)], fields=("percent_error",),
    ))  # fmt: skip
    return verdicts


_IN_ORDER = 1.5
"""Times as long with the paper's small blocks as with large ones, from which on adding blocks' results is what takes time."""


def _unless_in_order(verdict: Verdict, rows: Rows, n: int) -> Verdict:
    """Nothing is said of the paper's single-pass where its time is that of what it does not do."""
    large_blocks = next(name for name in TUNED if "single-pass" in name)
    ours, tuned = _seconds(rows, SINGLE, n), _seconds(rows, large_blocks, n)
    if not (ours and tuned and ours > _IN_ORDER * tuned):
        return verdict
    blocks = math.ceil(n / (4 * 4 * 256))
    why = (
        f"with the paper's B = 128, R = 4 {blocks:,} blocks hand in numbers, which tcu adds in order, {ours / blocks * 1e9:.1f} ns "
        f"each, and single-pass takes {ours / tuned:.1f} times as long as with large blocks; the paper's blocks add by atomics, "
        "which was not measured"
    )
    check = f"single-pass takes at most {_IN_ORDER} times as long as with large blocks; and {verdict.check}"
    both = [row for row in _by(rows, n, SINGLE, large_blocks) if row not in verdict.rows]
    return replace(verdict, outcome="not measured", why=why, check=check, rows=[*verdict.rows, *both])


def _errors_beside_cub(rows: Rows) -> list[Verdict]:
    """Of normal and uniform numbers, in percent."""
    least = min(10**6, max(row["n"] for row in rows))
    found = {
        (who, name): {r["n"]: r["percent_error"][name] for r in rows if r["who"] == who and r["n"] >= least}
        for who in (SINGLE, CUB_HALF, CUB_FLOAT) for name in ("normal", "uniform")
    }  # fmt: skip
    used = [row for row in rows if row["who"] in (SINGLE, CUB_HALF, CUB_FLOAT) and row["n"] >= least]
    single, half, wide = (found[who, "normal"] for who in (SINGLE, CUB_HALF, CUB_FLOAT))
    if not (single and half and wide):
        return []
    ratio = float(np.median([single[n] / max(wide[n], 1e-12) for n in single]))
    settled = {who: float(np.median(list(errors.values()))) for who, errors in (("s", single), ("h", half))}
    uniform = {
        who: max(math.inf if error is None else error for error in found[who, "uniform"].values())
        for who in (SINGLE, CUB_FLOAT)
    }
    return [
        Verdict.of(
            "paper 000, figure 8, section 6",
            "On normal numbers CUB in binary32 is some orders of magnitude more precise than single-pass and CUB in "
            "binary16, which settle near 0.1 %.",
            f"{ratio:,.0f} times more precise than single-pass, by one array of each size; single-pass errs by {settled['s']:.2g} %, CUB half by "
            f"{settled['h']:.2g} % (medians from n = {min(single):,} on).",
            ratio >= 100 and all(0.01 <= error <= 1 for error in settled.values()),
            "the sum itself is random here, so a percentage of it moves with the numbers drawn",
            check="single-pass's median error is at least 100 times CUB's in binary32; single-pass's and CUB's in binary16 "
            "are 0.01 to 1 %", rows=used, fields=("percent_error.normal",),
        ),
        Verdict.of(
            "paper 000, figure 8, section 6",
            "On uniform numbers both single-pass and CUB in binary32 err by less than 0.001 %.",
            f"At most by {uniform[SINGLE]:.2g} % and {uniform[CUB_FLOAT]:.2g} % from n = {min(single):,} on, one array of each "
            "size; the study of errors has more.",
            max(uniform.values()) < 1e-3, "an error of the numbers drawn is above that",
            check="every error is below 0.001 %", rows=[row for row in used if row["who"] != CUB_HALF],
            fields=("percent_error.uniform",),
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
            "paper 000, figure 7, section 5.4",
            "The recurrence is slow for small n and catches up for large n; the split is fast for small n and the "
            "slowest for large n.",
            f"{at}.",
            few[RECURRENCE] == max(few.values()) and many[SPLIT] == max(many.values())
            and many[RECURRENCE] / many[SINGLE] < few[RECURRENCE] / few[SINGLE],
            "the variants rank otherwise on this GPU",
            check="at the smallest n the recurrence is the slowest, at the largest the split, and the recurrence gains on "
            "single-pass", rows=[row for at in (least, n) for row in _by(rows, at, SINGLE, RECURRENCE, SPLIT)],
            fields=("seconds",),
        ),
        Verdict.of(
            "paper 000, section 7", "For very large n the recurrence may become as fast as single-pass, or faster.",
            f"It is faster at n = {', '.join(f'{size:,}' for size in faster)}." if faster else "At no n is it faster.",
            n in faster, f"single-pass is the faster one up to n = {n:,}",
            check="the recurrence is faster at the largest n", rows=_by(rows, n, SINGLE, RECURRENCE), fields=("seconds",),
        ),
    ]  # fmt: skip


def _speedups(times: dict[str, float | None], classic: float | None) -> dict[str, float]:
    return {} if classic is None else {who: classic / seconds for who, seconds in times.items() if seconds}


def _appendix(rows: Rows, classic: dict[int, float]) -> list[Verdict]:
    n = max(row["n"] for row in rows)
    over = _speedups({who: _seconds(rows, who, n) for who in (SINGLE, RECURRENCE)}, classic.get(n))
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
    _show, _points, _measure, (10, 30), NEEDS, SEED, sources=MEASURED,
)  # fmt: skip
