"""Paper 000's error curves, on the models: figures 7 and 8 on a V100, appendix B on Turing.

The exact sum stands in for the paper's binary64 reduction on a CPU.  Each error
is checked against its proved bound when it is measured.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import tcu
from tcu.plan import SEGMENTED, VARIANTS
from tcu.study.data import DISTRIBUTIONS, SEED, draw
from tcu.study.study import Figure, Line, Point, Row, Rows, Shown, Study, Verdict

__all__ = ["ERRORS", "sizes"]

_CASES = (
    *(("V100", variant) for variant in VARIANTS if variant not in SEGMENTED),
    *(("T4", variant) for variant in ("single-pass", "recurrence", "split")),
    ("H100", "short-chain"), ("H100", "single-pass"),
)  # fmt: skip


def sizes(quick: bool, largest: int) -> list[int]:
    """Two a decade from 10^4; the paper starts above."""
    return [round(10 ** (half / 2)) for half in range(8, (14 if quick else 2 * largest) + 1)]


def error_of(x: Any, exact: float, **parameters: Any) -> Row:
    """How far ``tcu.sum`` is from the exact sum; all None where it overflowed."""
    result = float(tcu.sum(x, **parameters))
    if not math.isfinite(result):
        return dict.fromkeys(("result", "percent", "ulps", "wide_error"))
    error = abs(result - exact)
    bound = tcu.error_bound(x, **parameters)
    if not error <= bound:
        raise AssertionError(f"{parameters}, n = {len(x)}: error {error} above its proved bound {bound}")
    # Before the last rounding, to tell the algorithm's own error from that of binary32.
    wide = float(tcu.sum(x, dtype=np.float64, **parameters))
    return {
        "result": result, "percent": 100 * error / abs(exact),
        "ulps": error / float(np.spacing(np.float32(abs(exact)))),
        "wide_error": abs(wide - exact) if math.isfinite(wide) else None,
    }  # fmt: skip


def _points(quick: bool) -> list[Point]:
    return [{"distribution": name, "n": n} for n in sizes(quick, 8) for name in DISTRIBUTIONS]


def _measure(point: Point) -> Rows:
    x = draw(point["distribution"], point["n"])
    exact = float(tcu.fsum(x, dtype=np.float64))
    return [
        {
            **point,
            "unit": unit,
            "variant": variant,
            "exact": exact,
            **error_of(x, exact, unit=unit, variant=variant),
        }
        for unit, variant in _CASES
    ]


def curves(rows: Rows, distribution: str, key: str, *names: str) -> list[Line]:
    """One line over n for each value of the columns ``names``."""
    chosen = [row for row in rows if row["distribution"] == distribution]
    labels = list(dict.fromkeys(tuple(row[name] for name in names) for row in chosen))
    return [
        Line(
            " ".join(label),
            [row["n"] for row in chosen if tuple(row[name] for name in names) == label],
            [row[key] or None for row in chosen if tuple(row[name] for name in names) == label],
        )
        for label in labels
    ]


def _show(rows: Rows) -> Shown:
    figures = []
    for unit, where in (("V100", "figures 7 and 8"), ("T4", "appendix B, figures 9 and 10")):
        for name in DISTRIBUTIONS:
            own = [row for row in rows if row["unit"] in (unit, "H100")]
            figures.append(Figure(
                f"Error of each variant, {name} numbers, as a {unit} computes it",
                "n", "error in percent", curves(own, name, "percent", "unit", "variant"), True, True,
                f"Paper 000, {where}. Gaps: the sum overflowed, or was exact.",
            ))  # fmt: skip
    return Shown(figures, _verdicts(rows))


def _of(rows: Rows, distribution: str, unit: str, variant: str, least: int = 0) -> Rows:
    wanted = (distribution, unit, variant)
    return [r for r in rows if (r["distribution"], r["unit"], r["variant"]) == wanted and r["n"] >= least]


def _verdicts(rows: Rows) -> list[Verdict]:
    largest = max(row["n"] for row in rows)
    return [
        _below_one_percent(rows, largest),
        _near_classic(rows, largest), _uniform_less(rows, largest),
        *(_overflow(rows, unit, place)
          for unit, place in (("V100", "figure 7, section 5.4"), ("T4", "figure 9, appendix B"))),
        *(_single_pass(rows, unit, place)
          for unit, place in (("V100", "figure 8, section 6"), ("T4", "figure 10, appendix B"))),
        _default(rows), _better(rows, largest),
    ]  # fmt: skip


def _below_one_percent(rows: Rows, largest: int) -> Verdict:
    least = min(10**7, largest)
    found = [r for r in rows if r["distribution"] == "normal" and r["n"] >= least and r["unit"] == "V100"]
    worst = max(found, key=lambda r: math.inf if r["percent"] is None else r["percent"])
    text = "overflow" if worst["percent"] is None else f"{worst['percent']:.2g} %"
    return Verdict.of(
        "paper 000, figure 7, section 5.4", "On normal numbers every variant errs by less than 1 % once n is at least 10^7.",
        f"At n of {least:,} and above the largest error is {text} ({worst['variant']}, n = {worst['n']:,}).",
        worst["percent"] is not None and worst["percent"] < 1,
        "the exact sum of normal numbers happens to lie near zero, and percentages are of the sum",
    )  # fmt: skip


def _overflow(rows: Rows, unit: str, place: str) -> Verdict:
    found = _of(rows, "uniform", unit, "recurrence")
    first = next((r["n"] for r in found if r["percent"] is None), None)
    fine = [r["n"] for r in found if r["percent"] is not None]
    measured = f"Its sums overflow from n = {first:,} on." if first else "No sum overflowed."
    return Verdict.of(
        f"paper 000, {place}",
        "On uniform numbers the recurrence overflows early, as it keeps partial sums in binary16.",
        measured, first is not None and all(n < 131_072 for n in fine),
        "the sizes that were summed are too small for an overflow",
    )  # fmt: skip


def _single_pass(rows: Rows, unit: str, place: str) -> Verdict:
    found = _of(rows, "uniform", unit, "single-pass")
    fine = [r["n"] for r in found if r["percent"] < 1e-3]
    worst = max(found, key=lambda r: r["percent"])
    above = [r["percent"] for r in found if r["n"] >= 10**6]
    return Verdict.of(
        f"paper 000, {place}", "On uniform numbers single-pass errs by less than 0.001 %.",
        f"So it does at {len(fine)} of {len(found)} sizes, by {max(above):.2g} % at most from n = 1,000,000 on; at "
        f"n = {worst['n']:,} it errs by {worst['percent']:.2g} %.",
        len(fine) == len(found),
        "the chains' partial sums, a number for every 64 of x, enter the last MMA rounded to binary16; those roundings "
        f"average out with n, and {worst['n'] // 64:,} of them are few",
    )  # fmt: skip


def _near_classic(rows: Rows, largest: int) -> Verdict:
    """How many times as far from the exact sum as the reduction without tensor cores."""
    pairs = zip(
        *(_of(rows, "normal", "V100", name, min(10**6, largest)) for name in ("single-pass", "warp-shuffle")),
        strict=True,
    )
    ratios = {a["n"]: a["percent"] / max(b["percent"], 1e-12) for a, b in pairs}
    first, last = min(ratios), max(ratios)
    return Verdict.of(
        "paper 000, figure 7, section 5.4",
        "On normal numbers the variants' errors are within an order of magnitude of the classic binary32 reduction's.",
        f"Single-pass errs {ratios[first]:,.0f} times as much at n = {first:,}, {ratios[last]:,.0f} times at "
        f"n = {last:,}.",
        max(ratios.values()) <= 10,
        "partial sums rounded to binary16 cost more than additions in binary32, whose errors grow with n: for the "
        "longest arrays the two come near each other",
    )  # fmt: skip


def _uniform_less(rows: Rows, largest: int) -> Verdict:
    def median(distribution: str, variant: str) -> float:
        found = _of(rows, distribution, "V100", variant, min(10**6, largest))
        return float(np.median([row["percent"] for row in found]))

    medians = {name: (median("uniform", name), median("normal", name)) for name in ("single-pass", "split")}
    return Verdict.of(
        "paper 000, figure 7, section 5.4",
        "On uniform numbers the variants err less than on normal ones, the recurrence excepted.",
        "; ".join(f"{name}: {u:.2g} % against {n:.2g} %" for name, (u, n) in medians.items()) + " (median).",
        all(u < n for u, n in medians.values()), "the errors of the numbers drawn rank otherwise",
    )  # fmt: skip


def _default(rows: Rows) -> Verdict:
    found = [r for r in rows if (r["unit"], r["variant"]) == ("H100", "short-chain")]
    worst = max(r["ulps"] for r in found)
    return Verdict.of(
        "tcu", "The default on an H100 stays within 4 units in the last place of binary32.",
        f"The largest error is {worst:.2f} ulp.", worst <= 4,
    )  # fmt: skip


def _better(rows: Rows, largest: int) -> Verdict:
    own = _of(rows, "uniform", "H100", "short-chain", largest)[0]
    paper = _of(rows, "uniform", "H100", "single-pass", largest)[0]
    ratio = paper["wide_error"] / max(own["wide_error"], 2.0**-53 * own["exact"])
    return Verdict.of(
        "tcu", "On uniform numbers the default loses less than the paper's best variant.",
        f"At n = {largest:,} its error before the last rounding is {ratio:,.0f} times smaller than single-pass's.",
        ratio > 1,
    )  # fmt: skip


ERRORS = Study(
    "errors", "Errors of the variants",
    ("000 figure 7", "000 figure 8", "000 figure 9", "000 figure 10"),
    "How far is each way to sum from the exact sum, on the paper's V100 and on Turing?",
    _show, _points, _measure, (4, 60), seed=SEED,
)  # fmt: skip
