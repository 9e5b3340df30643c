"""Paper 004, section 6: parallel units and low precision, which its model leaves open.

Several units: ledgers of programs on shapes, on p units at once.  Precision:
programs on numbers, by the models of units, against binary64.
"""

from __future__ import annotations

import math

import numpy as np

from tcu.algorithms import Machine, cost_of, dft_error_bound
from tcu.formats import get_format
from tcu.machine import ModelExecutor
from tcu.study.data import DRAWS
from tcu.study.study import Figure, Line, Point, Rows, Shown, Study, Table, Verdict

__all__ = ["OPEN_QUESTIONS"]

# Several units

_M, _LATENCY = 256, 256
_SIZES = {
    "matmul": 4096, "strassen": 4096, "dft": 1 << 20, "integer": 1 << 22, "karatsuba": 1 << 22, "polynomial": 1 << 14,
    "sum": 1 << 20,
}  # fmt: skip
_UNITS = (1, 2, 4, 16, 64, 256, 1024, 4096)


def _unit_points(quick: bool) -> list[Point]:
    return [{"algorithm": name, "n": n // (16 if quick else 1)} for name, n in _SIZES.items()]


def _measure_units(point: Point) -> Rows:
    rows = []
    for units in _UNITS:
        ledger = cost_of(point["algorithm"], point["n"], _M, _LATENCY, units=units).ledger
        rows.append({
            **point, "units": units, "cost": float(ledger.cost), "tensor_cost": float(ledger.tensor_cost),
            "steps": float(ledger.steps),
        })  # fmt: skip
    return rows


def _show_units(rows: Rows) -> Shown:
    own = {
        name: [r for r in rows if r["algorithm"] == name]
        for name in dict.fromkeys(r["algorithm"] for r in rows)
    }
    figure = Figure(
        f"p units at once, m = {_M}, ℓ = {_LATENCY}", "p", "times as fast as one unit",
        [Line(name, [r["units"] for r in each], [each[0]["cost"] / r["cost"] for r in each]) for name, each in own.items()]
        + [Line("p", list(_UNITS), [float(p) for p in _UNITS], True)],
        True, True,
    )  # fmt: skip
    table = Table(
        "Where more units stop paying",
        ("algorithm", "n", "the unit's share on one unit", "16 units", "at most, whatever p", "p that gives 90 % of that"),
        [[name, f"{each[0]['n']:,}", f"{each[0]['tensor_cost'] / each[0]['cost']:.0%}", f"{_gain(each, 16):.2f}",
          f"{_most(each):,.2f}", _nearly(each)] for name, each in own.items()],
        "Times as fast as one unit. The CPU is one; its steps remain.",
    )  # fmt: skip
    return Shown([figure, table], [_scaling(own)])


def _gain(rows: Rows, units: int) -> float:
    (row,) = (row for row in rows if row["units"] == units)
    return float(rows[0]["cost"] / row["cost"])


def _most(rows: Rows) -> float:
    return float(rows[0]["cost"] / rows[0]["steps"]) if rows[0]["steps"] else math.inf


def _nearly(rows: Rows) -> str:
    return next(
        (f"{row['units']:,}" for row in rows if _gain(rows, row["units"]) >= 0.9 * _most(rows)), "more"
    )


def _scaling(own: dict[str, Rows]) -> Verdict:
    limits = {name: _most(each) for name, each in own.items()}
    alone = all(
        each[0]["steps"] <= row["cost"] <= each[0]["cost"] and row["steps"] == each[0]["steps"]
        for each in own.values() for row in each
    )  # fmt: skip
    spread = [_gain(each, 16) / min(16, _most(each)) for each in own.values()]
    told = ", ".join(f"{name} {limit:,.1f}" for name, limit in limits.items())
    return Verdict.of(
        "paper 004, section 6",
        "Open question: how do parallel tensor units enter the model, and do they change algorithms?",
        f"p units take p calls of a batch at once, or share its rows. 16 units reach {min(spread):.0%} to {max(spread):.0%} "
        f"of what 16 units and a single CPU can gain; whatever p, programs gain at most: {told}. The CPU's steps, such as "
        "adding the products of strips, are of the order of the unit's time: so but for sums, of which the unit does all, "
        "parallel units ask for algorithms that let the unit add, or for as many CPUs.",
        alone and min(spread) >= 0.8, "calls that wait for each other keep units idle",
        check="16 units give 80 % of what they and one CPU can; the CPU's steps are the same for every p",
        rows=[row for each in own.values() for row in each], fields=("cost", "steps"),
    )  # fmt: skip


# Precision

_INPUTS = (("H100", "binary64"), ("A100", "tf32"), ("H100", "binary16"), ("H100", "bfloat16"))
_PARTS = {"dft, two parts": 2, "dft, three parts": 3}
_PROGRAMS = ("matmul", "strassen", "laderman", "sum", "dft", *_PARTS)


def _precision_points(quick: bool) -> list[Point]:
    return [
        {"algorithm": name, "unit": unit, "input": source, "n": (64 if quick else 256), "draw": draw}
        for name in _PROGRAMS for unit, source in _INPUTS for draw in range(2 if quick else DRAWS)
        if name not in _PARTS or source in ("binary16", "bfloat16")
    ]  # fmt: skip


def _measure_precision(point: Point) -> Rows:
    """The error of one run, relative to what its operands' magnitudes add up to, in units of the operands' rounding."""
    n, name = point["n"], point["algorithm"]
    rng = np.random.default_rng([n, point["draw"]])
    machine = Machine(256, executor=ModelExecutor(point["unit"], point["input"]))
    bound = None
    with np.errstate(all="ignore"):
        if name in ("matmul", "strassen", "laderman"):
            a, b = rng.standard_normal((2, n, n))
            got = machine.matmul(a, b) if name == "matmul" else machine.strassen(a, b, name)
            error = float(np.max(abs(got - a @ b) / (abs(a) @ abs(b))))
        elif name == "sum":
            x = rng.standard_normal(n * n)
            error = abs(float(machine.sum(x)) - math.fsum(x)) / float(np.sum(abs(x)))
        else:
            z = rng.standard_normal(16 * n) + 1j * rng.standard_normal(16 * n)
            parts = _PARTS.get(name, 1)
            exact = np.fft.fft(z)
            got = machine.dft(z, parts=parts)
            size = float(np.linalg.norm(exact))
            error = float(np.linalg.norm(got - exact)) / size
            bound = dft_error_bound(machine, 16 * n, parts=parts)
    u = 2.0 ** -get_format(point["input"]).precision
    return [{**point, "error": error, "u": u, "bound": bound}]


def _show_precision(rows: Rows) -> Shown:
    found: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        found.setdefault((row["algorithm"], row["input"]), []).append(row["error"] / row["u"])
    inputs = list(dict.fromkeys(row["input"] for row in rows))
    units = {row["input"]: row["u"] for row in rows}
    table = Table(
        "Errors in units of the operands' rounding, u",
        ("algorithm", *(f"{name}, u = 2^{round(math.log2(units[name]))}" for name in inputs)),
        [
            [name, *(_span(found[name, source]) if (name, source) in found else "" for source in inputs)]
            for name in dict.fromkeys(row["algorithm"] for row in rows)
        ],
        "Of products: the largest |error| over |A||B|; of sums: |error| over the magnitudes' sum; of transforms: in the "
        "Euclidean norm. Smallest and largest of several draws.",
    )  # fmt: skip
    return Shown([table], [_narrow(rows, found)])


def _span(values: list[float]) -> str:
    low, high = (f"{x:.2g}" for x in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


_LARGEST = 64
"""Of errors over u that one rounding of each operand explains, with what a recursion multiplies it by."""


def _narrow(rows: Rows, found: dict[tuple[str, str], list[float]]) -> Verdict:
    plain = {key: values for key, values in found.items() if key[0] not in _PARTS}
    largest = max(max(values) for values in plain.values())
    narrow = [source for source in ("binary16", "bfloat16") if ("strassen", source) in found]
    grown = [max(found["strassen", source]) / max(found["matmul", source]) for source in narrow]
    gained = [
        min(found["dft", source]) / max(found["dft, two parts", source]) for source in narrow
    ]  # fmt: skip
    bounded = all(row["bound"] is None or row["error"] <= row["bound"] for row in rows)
    return Verdict.of(
        "paper 004, section 6",
        "Open question: how does low precision enter the model, and does it change algorithms?",
        f"On units of 8 to 53 significant bits every program's error is at most {largest:.2g} u, u the rounding of the unit's "
        f"operands, and every transform's within its proved bound. On 16-bit operands Strassen's recursion errs "
        f"{min(grown):.1f} to {max(grown):.1f} times as much as the product of Theorem 2; a transform that splits each number "
        f"into two operands, at three times the calls, errs {min(gained):,.0f} times less or better.",
        bounded and largest <= _LARGEST, "some program's error does not shrink with u",
        check=f"no error is above {_LARGEST} u, a transform's in parts aside, or above its proved bound", rows=rows,
        fields=("error",),
    )  # fmt: skip


OPEN_QUESTIONS: tuple[Study, ...] = (
    Study(
        "several-units", "Several tensor units at once", ("004 several units",),
        "What do p units that run at once gain, and where does the single CPU keep them waiting?",
        _show_units, _unit_points, _measure_units, (0.2, 0.5),
    ),
    Study(
        "narrow-units", "Algorithms on units of fewer bits", ("004 precision",),
        "How large are the errors of the model's algorithms on units of narrow operands?",
        _show_precision, _precision_points, _measure_precision, (1, 25),
    ),
)  # fmt: skip
