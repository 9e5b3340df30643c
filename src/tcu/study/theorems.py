"""Paper 004: what algorithms cost on the (m, ℓ)-TCU machine, ledger against theorem; and a real machine as one.

Programs run on shapes: the ledger counts, nothing is computed.  Those of
Theorem 8 run on numbers in an external memory, which counts what moves.
"""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

import numpy as np

from tcu.algorithms import COSTS, Machine, cost_of
from tcu.calibration import calibrate
from tcu.machine import ExternalMemoryExecutor
from tcu.study.open_questions import OPEN_QUESTIONS
from tcu.study.sources import GPU
from tcu.study.study import Figure, Line, Point, Row, Rows, Shown, Study, Table, Verdict

__all__ = ["MACHINE"]

_M = (16, 256, 4096, 65536)
_LATENCIES = (0, 1, 100)
"""ℓ as multiples of m."""


def _points(quick: bool) -> list[Point]:
    return [
        {"algorithm": name, "m": m, "latency": multiple * m}
        for name in COSTS for m in (_M[:2] if quick else _M) for multiple in (_LATENCIES[::2] if quick else _LATENCIES)
    ]  # fmt: skip


def _measure(point: Point) -> Rows:
    row, m = COSTS[point["algorithm"]], point["m"]
    rows = []
    full = row.sizes(m)
    # Just above a size that fills the unit the most of it is empty.
    above = [] if row.name == "sparse" else [n + 1 for n in full]
    for n in sorted(full + above):
        found = cost_of(row, n, m, point["latency"])
        # Theorem 8 is about the weak machine; carried out word by word, it takes long for large m and n.
        weak = point["latency"] == 0 and m == _M[0] and n in full[: 1 if row.name == "sparse" else 2]
        rows.append({
            **point, "n": n, "fills": n in full, "cost": float(found.ledger.cost), "bound": found.bound, "whole": found.whole, "latency_cost": float(found.ledger.tensor_calls * point["latency"]),
            "transfers_per_time": _transfers(point["algorithm"], n, m) if weak else None,
        })  # fmt: skip
    return rows


class _Filled(Machine):
    """A machine that carries the programs of the table out: its shapes are random numbers, or integers of so many bits."""

    def shape(self, shape: Any, dtype: Any = np.float64) -> Any:
        if dtype is bool:
            return random.Random(shape).getrandbits(shape) | 1 << (shape - 1)
        return np.random.default_rng(0).standard_normal(shape).astype(dtype)


def _transfers(name: str, n: int, m: int) -> float:
    """I/Os for a unit of time of a program that runs in an external memory, the CPU's steps included."""
    row = COSTS[name]
    machine = _Filled(m, executor=ExternalMemoryExecutor(), weak=True)
    size = {"n": n} | {option: default(n, m) for option, default in row.options.items()}
    result = row.run(machine, size)
    found = machine.transfers()
    # A number that is handed over is read by whoever takes it.
    handed = isinstance(result, np.generic)
    return (found.total - handed) / float(found.time)


def _show(rows: Rows) -> Shown:
    figures, verdicts = [], []
    for name in dict.fromkeys(row["algorithm"] for row in rows):
        own = [row for row in rows if row["algorithm"] == name]
        figures.append(_curves(own))
        verdicts.append(_bound(own))
    verdicts.sort(key=lambda verdict: verdict.place)
    return Shown(figures, [*verdicts, _resident(rows), _external(rows)])


def _curves(rows: Rows) -> Figure:
    machines = dict.fromkeys((row["m"], row["latency"]) for row in rows)
    lines = []
    for m, latency in machines:
        own = [row for row in rows if (row["m"], row["latency"]) == (m, latency)]
        name = f"m = {m:,}, ℓ = {latency:,}"
        ratios = [row["cost"] / row["whole"] for row in own]
        lines.append(Line(name, [row["n"] for row in own], ratios, series=f"m = {m:,}"))
    ours = COSTS[rows[0]["algorithm"]]
    everywhere = sorted({row["n"] for row in rows})
    for text, constant in (("where n fills the unit", ours.constant), ("every n", ours.everywhere)):
        lines.append(Line(f"stated constant, {text}", everywhere, [constant] * len(everywhere), True))
    return Figure(
        f"{_capital(ours.title)}: ledger over {ours.theorem}, in whole calls", f"n: {ours.n}", "cost / bound",
        lines, True, True,
    )  # fmt: skip


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


_STATED = {
    "standard": "The standard recursion multiplies n × n matrices in O((n²/m)^(3/2) (m + ℓ)).",
    "strassen": "Strassen's recursion, ended where a product fits the unit, takes O((n²/m)^1.4037 (m + ℓ)).",
    "laderman": "Any Strassen-like scheme takes O((n²/m)^ω₀ (m + ℓ)): Laderman's 23 products of 3 × 3 blocks.",
    "matmul": "With one operand resident in the unit it is O(n³ / √m + n² ℓ / m).",
    "sparse": "Sparse matrices are multiplied in O(√(n/Z) (Z/m)^ω₀ (m + ℓ) + I).",
    "dft": "The DFT of n numbers takes O((n + ℓ) log_m n).",
    "integer": "Integers of n bits are multiplied in O(n² / (κ² √m) + n ℓ / (κ m)), κ bits a word.",
    "karatsuba": "Karatsuba's recursion takes O((n / (κ √m))^log 3 (√m + ℓ / √m)).",
    "polynomial": "A polynomial is evaluated at p points in O(p n / √m + p √m + n ℓ / m).",
}


def _bound(rows: Rows) -> Verdict:
    stated = COSTS[rows[0]["algorithm"]]
    every = [row["cost"] / row["whole"] for row in rows]
    full = [row["cost"] / row["whole"] for row in rows if row["fills"]]
    printed = {
        m: max(r["cost"] / r["bound"] for r in rows if r["m"] == m and r["fills"])
        for m in sorted({r["m"] for r in rows})
    }
    grows = printed[max(printed)] > _GROWTH * printed[min(printed)]
    ours = stated.name not in _STATED
    place = "tcu, after paper 004" if ours else f"paper 004, {stated.theorem}"
    statement = _STATED.get(stated.name, f"{_capital(stated.title)}: {stated.theorem}.")
    decades = math.log10(max(row["n"] for row in rows) / min(row["n"] for row in rows))
    held = max(full) <= stated.constant and max(every) <= stated.everywhere
    told = ", ".join(f"{ratio:,.0f} (m = {m:,})" for m, ratio in printed.items())
    return Verdict.of(
        place, statement,
        f"Over {len(rows)} sizes and machines, {decades:.1f} decades of n, the ledger is at most {max(full):.3g} times the "
        f"bound in whole calls where n fills the unit, {max(every):.3g} times over all sizes; tcu states {stated.constant:g} "
        f"and {stated.everywhere:g}." + (f" As printed, the bound is exceeded {told} times." if grows else ""),
        held and not grows,
        "the bound as printed ends in a product that is cheaper than any tensor call, so no constant holds for all m; in "
        "whole calls one does" if held else "the stated constant is too small",
        check=f"no ratio is above the stated constants, and at the largest m the printed bound's is at most {_GROWTH} times "
        "that at the smallest", rows=rows, fields=("cost", "bound"),
    )  # fmt: skip


_GROWTH = 1.6
"""A ratio that is so many times larger at the largest m than at the smallest is no constant."""


def _resident(rows: Rows) -> Verdict:
    """The latency terms of Theorems 1 and 2, at the same n and m."""
    full = [row for row in rows if row["fills"]]
    by = {(row["algorithm"], row["m"], row["latency"], row["n"]): row["latency_cost"] for row in full}
    gains = {
        (m, n): by["standard", m, latency, n] / cost
        for (name, m, latency, n), cost in by.items()
        if name == "matmul" and latency and ("standard", m, latency, n) in by
    }
    wrong = [key for key, gain in gains.items() if not math.isclose(gain, key[1] / math.isqrt(key[0]))]
    return Verdict.of(
        "paper 004, Theorem 2",
        "Keeping an operand in the unit divides the latency term by n / √m.",
        f"So it does, exactly, at {len(gains) - len(wrong)} of {len(gains)} sizes.", bool(gains) and not wrong,
        "the latency terms have another ratio", check="their ratio is n / √m at every n that fills the unit",
        rows=[row for row in full if row["algorithm"] in ("matmul", "standard") and row["latency"]],
        fields=("latency_cost",),
    )  # fmt: skip


def _external(rows: Rows) -> Verdict:
    found = [row["transfers_per_time"] for row in rows if row["transfers_per_time"] is not None]
    return Verdict.of(
        "paper 004, Theorem 8",
        "A program of the weak machine is simulated with a memory of 3m words in I/Os of the order of its time, so "
        "lower bounds on I/Os carry over.",
        f"In {len(found)} programs that ran in a memory of 3m + 3 words beside an external one, with every word that the "
        f"unit or the CPU moved counted, the I/Os are at most {max(found):.2f} times the time.", max(found) <= 3,
        "words moved for which no step was charged", check="in no program more than 3 I/Os for a unit of time",
        rows=[row for row in rows if row["transfers_per_time"] is not None], fields=("transfers_per_time",),
    )  # fmt: skip


# A real machine


def _calibrate(point: Point) -> Rows:
    return [{**point, **calibrate(point["device"], input=point["input"], quick=point["quick"]).to_dict()}]


def _cpu_points(quick: bool) -> list[Point]:
    return [{"device": "cpu", "input": None, "quick": quick}]


def _gpu_points(quick: bool) -> list[Point]:
    return [{"device": "gpu", "input": name, "quick": quick} for name in ("binary16", "binary64", "u8")]


def _show_calibration(rows: Rows) -> Shown:
    fits = Table(
        "The machine that fits best",
        ("device", "m", "ℓ", "unit of time", "latency", "median error of the fit"),
        [
            [r["device"], f"{r['m']:,}", f"{r['latency']:,.0f}", _time(r["unit_seconds"]),
             _time(r["latency_seconds"]), f"{r['median_error']:.0%}"]
            for r in rows
        ],
        "Fitted to the times of tall products. ℓ is the latency of one call, on a GPU of a launch and what the host does for "
        "it; of a block or of one MMA it says nothing.",
    )  # fmt: skip
    parts: list[Figure | Table] = [fits]
    for row in rows:
        predictions: list[dict[str, Any]] = row["predictions"]
        parts.append(Figure(
            f"Predicted over measured time: {row['device']}", "n", "predicted / measured",
            [
                *(Line(name, [p["n"] for p in predictions if p["algorithm"] == name],
                       [1 + p["error"] for p in predictions if p["algorithm"] == name])
                  for name in dict.fromkeys(p["algorithm"] for p in predictions)),
                Line("as the model says", sorted({p["n"] for p in predictions}), [1.0] * len({p["n"] for p in predictions}), True),
            ],
            True, True,
        ))  # fmt: skip
        parts.append(Table(
            f"Predicted and measured: {row['device']}",
            ("algorithm", "n", "calls", "measured", "predicted", "predicted / measured", "CPU steps at their own time"),
            [
                [p["algorithm"], f"{p['n']:,}", f"{p['tensor_calls']:,}", _time(p["seconds"]), _time(p["predicted"]),
                 f"{1 + p['error']:,.3g}", f"{1 + p['error_apart']:,.3g}"]
                for p in predictions
            ],
        ))  # fmt: skip
    return Shown(parts, [_predicted(row) for row in rows])


def _predicted(row: Row) -> Verdict:
    """How far off, in which direction, and which of the model's assumptions the times contradict."""
    predictions: list[dict[str, Any]] = row["predictions"]
    factors = sorted(max(1 + p["error"], 1 / (1 + p["error"])) for p in predictions)
    median, count = factors[len(factors) // 2], len(predictions)
    causes: dict[str, list[dict[str, Any]]] = {}
    for p in predictions:
        if (cause := _cause(p, row["latency_seconds"])) is not None:
            causes.setdefault(cause, []).append(p)
    why = [_told(cause, causes[cause], row) for cause in _CAUSES if cause in causes]
    algorithms = list(dict.fromkeys(p["algorithm"] for p in predictions))
    told = ", ".join(algorithms) if len(algorithms) <= 3 else f"{len(algorithms)} algorithms"
    verdict = Verdict.of(
        "paper 004, section 6", "Open question: does real hardware behave as the model predicts?",
        f"{row['device']}: of {count} runs of {told} the median is off by a factor of {median:.1f}, the worst by "
        f"{factors[-1]:,.1f}.",
        median <= 2, "; ".join(why),
        check=f"of runs of {_FEWEST} algorithms and more the median is off by a factor of at most 2", rows=[row],
        fields=("predictions",),
    )  # fmt: skip
    if len(algorithms) >= _FEWEST:
        return verdict
    few = f"runs of {' and '.join(algorithms)} alone do not tell how programs behave"
    return replace(verdict, outcome="not measured", why=few)


_FEWEST = 3
"""Algorithms whose runs say something about a machine."""


_CAUSES = {
    "together": "a run took less than its calls' latencies alone, {calls} where ℓ is {latency}: equal products start "
    "together, and the model starts one after another",
    "steps": "with the CPU's steps at their own measured time ({step} where the unit of time is {unit}) they are within a "
    "factor of 2",
    "calls": "the calls take less than the fit of full products says, as those with few columns do",
    "between": "also with the CPU's steps at their own time: what a program does between its calls, passes over memory "
    "and starting them, costs more than its arithmetic",
}
"""Why a prediction is off by more than a factor of 2."""


def _cause(p: dict[str, Any], latency: float) -> str | None:
    if 0.5 <= 1 + p["error"] <= 2:
        return None
    if p["error"] > 0 and p["seconds"] < p["tensor_calls"] * latency:
        return "together"
    if 0.5 <= 1 + p["error_apart"] <= 2:
        return "steps"
    return "calls" if p["error"] > 0 else "between"


def _told(cause: str, predictions: list[dict[str, Any]], row: Row) -> str:
    """Which algorithms, how far off and in which direction, and the cause with its figures."""
    names = ", ".join(dict.fromkeys(p["algorithm"] for p in predictions))
    parts = []
    for word, factors in (
        ("long", [1 + p["error"] for p in predictions if p["error"] > 0]),
        ("short", [1 / (1 + p["error"]) for p in predictions if p["error"] < 0]),
    ):
        if factors:
            low, high = (f"{x:,.1f}" if x < 10 else f"{x:,.0f}" for x in (min(factors), max(factors)))
            parts.append(f"too {word} by {low if low == high else f'{low} to {high}'} times")
    each = sorted(p["seconds"] / p["tensor_calls"] for p in predictions)
    calls = (_time(each[0]) if len(each) == 1 else f"{_time(each[0])} to {_time(each[-1])}") + " a call"
    figures = {
        "calls": calls, "latency": _time(row["latency_seconds"]), "step": _time(row["step_seconds"]),
        "unit": _time(row["unit_seconds"]),
    }  # fmt: skip
    return f"{names} ({len(predictions)} of {len(row['predictions'])} runs): {' and '.join(parts)}, {_CAUSES[cause].format(**figures)}"


def _time(seconds: float) -> str:
    """In the largest unit that leaves at least 1 of it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e12:.3g} ps"


MACHINE = (
    Study(
        "theorems", "Algorithms on the (m, ℓ)-TCU machine",
        tuple(f"004 theorem {number}" for number in range(1, 9)),
        "Do the algorithms cost what the theorems promise, and with which constants?",
        _show, _points, _measure, (8, 40), ("scipy",),
    ),
    Study(
        "calibration", "A processor as a machine of the model", ("004 calibration",),
        "Which m, ℓ and unit of time describe this processor, and what do they predict?",
        _show_calibration, _cpu_points, _calibrate, (1, 5),
    ),
    Study(
        "calibration-gpu", "A GPU as a machine of the model", ("004 calibration",),
        "Which m, ℓ and unit of time describe this GPU, and what do they predict?",
        _show_calibration, _gpu_points, _calibrate, (10, 45), ("gpu", "cupy"), sources=(GPU, "algorithms"),
    ),
    *OPEN_QUESTIONS,
)  # fmt: skip
