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
from tcu.study.data import DISTRIBUTIONS, DRAWS, SEED, draw, shortened, sizes, spread
from tcu.study.study import Figure, Line, Point, Row, Rows, Shown, Study, Verdict

__all__ = ["ERRORS"]

_CASES = (
    *(("V100", name) for name, row in VARIANTS.items() if name not in SEGMENTED and row.reproducible),
    *(("T4", variant) for variant in ("single-pass", "recurrence", "split")),
    ("H100", "short-chain"), ("H100", "single-pass"),
)  # fmt: skip


_BOUNDED = 1_000_003, 3
"""Up to this n the bound of every sum is checked, beyond it those of so many draws: a bound takes longer than its sum."""


def _points(quick: bool) -> list[Point]:
    return [
        {"distribution": name, "n": n, "draws": DRAWS}
        for n in sizes(316_300 if quick else 10**7 + 100) for name in DISTRIBUTIONS
    ]  # fmt: skip


def _measure(point: Point) -> Rows:
    """A row for each way to sum, its errors draw by draw."""
    keys = ("percent", "ulps", "wide")
    found: dict[tuple[str, str], dict[str, list[float | None]]] = {
        case: {key: [] for key in keys} for case in _CASES
    }
    for trial in range(point["draws"]):
        x = draw(point["distribution"], point["n"], trial)
        exact = float(tcu.fsum(x, dtype=np.float64))
        bounded = point["n"] <= _BOUNDED[0] or trial < _BOUNDED[1]
        for (unit, variant), errors in found.items():
            for key, value in _error_of(x, exact, bounded, unit=unit, variant=variant).items():
                errors[key].append(None if value is None else shortened(value))
    return [
        {**point, "unit": unit, "variant": variant, **errors} for (unit, variant), errors in found.items()
    ]


def _error_of(x: Any, exact: float, bounded: bool, **parameters: Any) -> dict[str, float | None]:
    """How far ``tcu.sum`` is from the exact sum; all None where it overflowed."""
    result = float(tcu.sum(x, **parameters))
    if not math.isfinite(result):
        return dict.fromkeys(("percent", "ulps", "wide"))
    error = abs(result - exact)
    if bounded and not error <= (bound := tcu.error_bound(x, **parameters)):
        raise AssertionError(f"{parameters}, n = {len(x)}: error {error} above its proved bound {bound}")
    found: dict[str, float | None] = {
        "percent": 100 * error / abs(exact), "ulps": error / float(np.spacing(np.float32(abs(exact)))),
    }  # fmt: skip
    if parameters["unit"] == "H100":
        # Before the last rounding, to tell the algorithm's own error from that of binary32.
        wide = float(tcu.sum(x, dtype=np.float64, **parameters))
        found["wide"] = abs(wide - exact) / abs(exact) if math.isfinite(wide) else None
    return found


def curves(rows: Rows, distribution: str, key: str, *names: str) -> list[Line]:
    """One line over n for each value of the columns ``names``: the medians, and the spread of the draws."""
    chosen = [row for row in rows if row["distribution"] == distribution]
    lines = []
    for label in dict.fromkeys(tuple(row[name] for name in names) for row in chosen):
        own = [row for row in chosen if tuple(row[name] for name in names) == label]
        middle, low, high = zip(*(spread(row[key]) for row in own), strict=True)
        lines.append(
            Line(
                " ".join(label),
                [row["n"] for row in own],
                [y or None for y in middle],
                low=low,
                high=high,
                series=label[-1],
            )
        )
    return lines


def _show(rows: Rows) -> Shown:
    figures = []
    for unit, where in (("V100", "figures 7 and 8"), ("T4", "appendix B, figures 9 and 10")):
        for name in DISTRIBUTIONS:
            own = [row for row in rows if row["unit"] in (unit, "H100")]
            figures.append(Figure(
                f"Error of each variant, {name} numbers, as a {unit} computes it",
                "n", "error in percent", curves(own, name, "percent", "unit", "variant"), True, True,
                f"Paper 000, {where}. Medians of {rows[0]['draws']} arrays; bars from the 10th to the 90th percentile. Gaps: a sum "
                "overflowed, or the median is exact.",
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


def _worst(row: Row, key: str = "percent") -> float:
    return max(math.inf if value is None else value for value in row[key])


def _below_one_percent(rows: Rows, largest: int) -> Verdict:
    least = min(10**7, largest)
    found = [r for r in rows if r["distribution"] == "normal" and r["n"] >= least and r["unit"] == "V100"]
    every = [value for row in found for value in row["percent"]]
    below = sum(value is not None and value < 1 for value in every)
    worst = max(found, key=_worst)
    text = "overflow" if math.isinf(_worst(worst)) else f"{_worst(worst):.2g} %"
    return Verdict.of(
        "paper 000, figure 7, section 5.4", "On normal numbers every variant errs by less than 1 % once n is at least 10^7.",
        f"So do {below} of {len(every)} sums, {found[0]['draws']} arrays by {len(found)} variants and sizes of {least:,} "
        f"and above; the largest error is {text} ({worst['variant']}, n = {worst['n']:,}).",
        below == len(every),
        "the exact sum of normal numbers happens to lie near zero, and percentages are of the sum",
        check="every error is below 1 %", rows=found, fields=("percent",),
    )  # fmt: skip


def _overflow(rows: Rows, unit: str, place: str) -> Verdict:
    found = _of(rows, "uniform", unit, "recurrence")
    lost = {r["n"]: sum(value is None for value in r["percent"]) for r in found}
    first = next((n for n, count in lost.items() if count), None)
    everywhere = [n for n, count in lost.items() if count == found[0]["draws"]]
    return Verdict.of(
        f"paper 000, {place}",
        "On uniform numbers the recurrence overflows early, as it keeps partial sums in binary16.",
        f"Its sums overflow from n = {first:,} on, at {len(everywhere)} of {len(found)} sizes for every array."
        if first else "No sum overflowed.",
        bool(everywhere) and all(n in everywhere for n in lost if n >= 131_072),
        "the sizes that were summed are too small for an overflow",
        check="every sum of 131,072 numbers and more overflows", rows=found, fields=("percent",),
    )  # fmt: skip


def _single_pass(rows: Rows, unit: str, place: str) -> Verdict:
    found = _of(rows, "uniform", unit, "single-pass")
    fine = [r["n"] for r in found if _worst(r) < 1e-3]
    worst = max(found, key=_worst)
    told = ", ".join(f"{_worst(row):.2g} % at n = {row['n']:,}" for row in found)
    return Verdict.of(
        f"paper 000, {place}", "On uniform numbers single-pass errs by less than 0.001 %.",
        f"So it does for every array at {len(fine)} of {len(found)} sizes; the largest errors of {worst['draws']} arrays: {told}.",
        len(fine) == len(found),
        "the chains' partial sums, a number for every 64 of x, enter the last MMA rounded to binary16; those roundings "
        f"average out with n, and {worst['n'] // 64:,} of them are few",
        check="every error is below 0.001 %", rows=found, fields=("percent",),
    )  # fmt: skip


def _near_classic(rows: Rows, largest: int) -> Verdict:
    """How many times as far from the exact sum as the reduction without tensor cores, in the median of the draws."""
    least, names = min(10**6, largest), ("single-pass", "recurrence", "split")
    classic = {r["n"]: r for r in _of(rows, "normal", "V100", "warp-shuffle", least)}
    found = {name: _of(rows, "normal", "V100", name, least) for name in names}
    ratios = {
        (name, r["n"]): (spread(r["percent"])[0] or 0.0) / max(spread(classic[r["n"]]["percent"])[0] or 0.0, 1e-12)
        for name in names for r in found[name]
    }  # fmt: skip
    told = "; ".join(
        f"n = {n:,}: " + ", ".join(f"{name} {ratios[name, n]:,.0f}" for name in names) for n in classic
    )
    return Verdict.of(
        "paper 000, figure 7, section 5.4",
        "On normal numbers the variants' errors are within an order of magnitude of the classic binary32 reduction's.",
        f"Times the classic reduction's error, medians of {rows[0]['draws']} arrays: {told}.",
        max(ratios.values()) <= 10,
        "partial sums rounded to binary16 cost more than additions in binary32",
        check="no median is above 10 times the classic reduction's",
        rows=[*classic.values(), *(row for own in found.values() for row in own)], fields=("percent",),
    )  # fmt: skip


def _uniform_less(rows: Rows, largest: int) -> Verdict:
    least = min(10**6, largest)
    found = {
        (name, distribution): _of(rows, distribution, "V100", name, least)
        for name in ("single-pass", "split") for distribution in DISTRIBUTIONS
    }  # fmt: skip
    medians = {
        key: float(np.median([np.inf if value is None else value for row in own for value in row["percent"]]))
        for key, own in found.items()
    }  # fmt: skip
    return Verdict.of(
        "paper 000, figure 7, section 5.4",
        "On uniform numbers the variants err less than on normal ones, the recurrence excepted.",
        "; ".join(
            f"{name}: {medians[name, 'uniform']:.2g} % against {medians[name, 'normal']:.2g} %" for name in ("single-pass", "split")
        ) + f" (median of all arrays from n = {least:,} on).",
        all(medians[name, "uniform"] < medians[name, "normal"] for name in ("single-pass", "split")),
        "the errors of the numbers drawn rank otherwise",
        check="both medians are smaller on uniform numbers", rows=[row for own in found.values() for row in own],
        fields=("percent",),
    )  # fmt: skip


def _default(rows: Rows) -> Verdict:
    found = [r for r in rows if (r["unit"], r["variant"]) == ("H100", "short-chain")]
    worst = max(_worst(row, "ulps") for row in found)
    return Verdict.of(
        "tcu", "The default on an H100 stays within 4 units in the last place of binary32.",
        f"The largest error of {sum(row['draws'] for row in found)} sums is {worst:.2f} ulp.", worst <= 4,
        "normal numbers' sums may cancel to far less than their terms",
        check="no error is above 4 ulp", rows=found, fields=("ulps",),
    )  # fmt: skip


def _better(rows: Rows, largest: int) -> Verdict:
    (own,), (paper,) = (
        _of(rows, "uniform", "H100", name, largest) for name in ("short-chain", "single-pass")
    )
    pairs = [(a, b) for a, b in zip(own["wide"], paper["wide"], strict=True) if None not in (a, b)]
    wins = sum(a < b for a, b in pairs)
    ratio = float(np.median([b / max(a, 2.0**-53) for a, b in pairs] or [0.0]))
    return Verdict.of(
        "tcu", "On uniform numbers the default loses less than the paper's best variant.",
        f"At n = {largest:,} its error before the last rounding is smaller than single-pass's for {wins} of {own['draws']} "
        f"arrays, {ratio:,.0f} times in the median.",
        wins == own["draws"], "single-pass is nearer to the exact sum of some arrays",
        check="it is nearer to the exact sum of every array", rows=[own, paper], fields=("wide",),
    )  # fmt: skip


ERRORS = Study(
    "errors", "Errors of the variants",
    ("000 figure 7", "000 figure 8", "000 figure 9", "000 figure 10"),
    "How far is each way to sum from the exact sum, on the models of the paper's V100 and of Turing?",
    _show, _points, _measure, (4, 90), seed=SEED,
)  # fmt: skip
