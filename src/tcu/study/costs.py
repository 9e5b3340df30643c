"""Papers 001 and 000: the modelled times, beside what the plans really contain."""

from __future__ import annotations

import math

from tcu.algorithms.reductions import tensor_sum
from tcu.formats import get_format
from tcu.machine import Machine
from tcu.plan import ModelledTime, make_plan, modelled_time
from tcu.study.study import Figure, Line, Point, Rows, Shown, Study, Table, Verdict
from tcu.units import get_unit

__all__ = ["COSTS"]

_CHAINS = (1, 2, 3, 4, 5, 8)
_SIDES = (2, 4, 8, 16)
_SPEEDUPS = {2: 1.6, 4: 3.2, 16: 6.4}
"""m → the speedup that the papers name; for 2, that of their formula."""


def _points(quick: bool) -> list[Point]:
    sizes = range(8, 25 if quick else 33, 4 if quick else 2)
    return [{"n": 1 << power, "chain": chain} for power in sizes for chain in _CHAINS]


def _measure(point: Point) -> Rows:
    """Steps and MMAs of the two plans whose cost the papers model, and levels of the program on m × m units, counted."""
    n, chain = point["n"], point["chain"]
    fmt, unit = get_format("binary16"), get_unit("V100")
    recurrence = make_plan(n, fmt, unit, variant="recurrence", chain=chain)
    pairs = make_plan(n, fmt, unit, variant="two-mma")
    model = modelled_time(n, chain)
    sides = {
        str(m): {
            "chained": modelled_time(n, chain, m).chained,
            "levels": _levels(n, m) if chain == 1 else None,
        }
        for m in _SIDES
    }
    return [{
        **point, "sides": sides, "levels": recurrence.levels // 2, "mmas": recurrence.mmas,
        "two_mma_levels": pairs.levels // 2, "two_mma_mmas": pairs.mmas,
        "modelled": {"two_mma": model.two_mma, "chained": model.chained, "classic": model.classic},
    }]  # fmt: skip


def _levels(n: int, m: int) -> int:
    """Of the sum by pairs of MMAs, run on a unit for m × m matrices."""
    machine = Machine(m * m, executor="count")
    tensor_sum(machine, machine.shape(n), "two-mma")
    return len({entry.path[0] for entry in machine.ledger.entries})


def counted(levels: int, chain: int) -> int:
    """Paper 000, eq. 23: every level loads and multiplies R times, then 1 MMA, 1 move, 1 store."""
    return levels * (2 * chain + 3)


def _show(rows: Rows) -> Shown:
    sizes = list(dict.fromkeys(row["n"] for row in rows))
    by = {(row["n"], row["chain"]): row for row in rows}
    lines = [Line("classic, 4 log₂ n", sizes, [by[n, 1]["modelled"]["classic"] for n in sizes], dashed=True)]
    for chain in _CHAINS:
        lines.append(
            Line(
                f"R = {chain}, formula",
                sizes,
                [by[n, chain]["modelled"]["chained"] for n in sizes],
                True,
                series=f"R = {chain}",
            )
        )
        lines.append(
            Line(
                f"R = {chain}, counted",
                sizes,
                [counted(by[n, chain]["levels"], chain) for n in sizes],
                series=f"R = {chain}",
            )
        )
    times = Figure(
        "Modelled time of a sum, m = 16", "n", "units of time", lines, log_x=True,
        note="Counted: the levels of the plan that tcu executes, at the papers' price of each.",
    )  # fmt: skip
    speedups = Table(
        "Modelled speedup over the classic reduction, whatever n",
        ("m", *(f"R = {chain}" for chain in _CHAINS)),
        [[str(m), *(f"{_model(m, chain).speedup_chained:.2f}" for chain in _CHAINS)] for m in _SIDES],
    )
    return Shown([times, speedups], [*_formulas(rows), *_mma_counts(rows)])


def _model(m: int, chain: int) -> ModelledTime:
    return modelled_time(1 << 20, chain, m)


def _formulas(rows: Rows) -> list[Verdict]:
    # At n = (R m²)^levels the recurrences have whole levels; between them, the plan's levels are rounded up.
    wrong = [
        row for row in rows
        if row["levels"] != max(1, math.ceil(math.log(row["n"], 256 * row["chain"]) - 1e-9))
        or row["two_mma_levels"] != max(1, math.ceil(math.log(row["n"], 256) - 1e-9))
    ]  # fmt: skip
    whole = [row for row in rows if row["chain"] == 1 and math.log(row["n"], 256).is_integer()]
    equal = [row for row in whole if counted(row["levels"], 1) == round(row["modelled"]["two_mma"], 9)]
    return [
        Verdict.of(
            "paper 001, eq. 16; paper 000, eq. 16",
            "Summing n numbers by pairs of m × m MMAs takes 5 log_{m²} n steps.",
            f"The plan's levels at 5 steps each give the formula at {len(equal)} of {len(whole)} powers of m².",
            len(equal) == len(whole), "the plan has another number of levels",
            check="at every power of m² 5 steps for each of the plan's levels are the formula's time", rows=whole,
            fields=("levels",),
        ),
        Verdict.of(
            "paper 000, eq. 23, eq. 24",
            "Chains of R MMAs take (2R + 3) log_{R m²} n steps; for R = 1 that is the same formula.",
            f"The number of levels is log_{{R m²}} n, rounded up, in {len(rows) - len(wrong)} of {len(rows)} plans.",
            not wrong, "some plans have another number of levels",
            check="every plan has as many levels as the formula, rounded up", rows=rows,
            fields=("levels", "two_mma_levels"),
        ),
        _speedup(rows), _longer(rows),
    ]  # fmt: skip


def _speedup(rows: Rows) -> Verdict:
    """The classic reduction's 4 steps a halving, as the papers count it, over 5 for each level of the program that ran."""
    found: dict[int, list[float]] = {}
    used = []
    for row in (row for row in rows if row["chain"] == 1):
        levels = {int(m): side["levels"] for m, side in row["sides"].items()}
        whole = [m for m in levels if m in _SPEEDUPS and math.log(row["n"], m * m).is_integer()]
        for m in whole:
            found.setdefault(m, []).append(4 * math.log2(row["n"]) / (5 * levels[m]))
        used += [row] if whole else []
    told = ", ".join(
        f"m = {m}: {min(values):.2f} to {max(values):.2f} at {len(values)} lengths"
        for m, values in found.items()
    )
    return Verdict.of(
        "paper 001, eq. 17, section V; paper 000, eq. 17",
        "The speedup over the classic reduction is (4/5) log₂ m²: 3.2 for m = 4, 6.4 for m = 16, "
        "and above 1 already for m = 2.",
        f"By the levels of the program that ran: {told}. The classic reduction's 4 log₂ n are the papers', not counted.",
        set(found) == set(_SPEEDUPS)
        and all(math.isclose(value, _SPEEDUPS[m]) for m, values in found.items() for value in values),
        "the program has another number of levels",
        check="at every power of m² the counted speedup is the formula's", rows=used, fields=("sides",),
    )  # fmt: skip


def _longer(rows: Rows) -> Verdict:
    """For every side m: does a longer chain always take longer?"""
    times = {(int(m), r["n"], r["chain"]): side["chained"] for r in rows for m, side in r["sides"].items()}
    falls = [
        (m, n, chain, time, times[m, n, 1]) for (m, n, chain), time in times.items()
        if chain > 1 and time <= times[m, n, 1]
    ]  # fmt: skip
    sides = sorted({m for m, *_ in times})
    rising = [m for m in sides if m not in {m for m, *_ in falls}]
    told = f"So it does for m = {', '.join(map(str, rising))}"
    if falls:
        m, n, chain, time, one = max(falls, key=lambda fall: fall[4] / fall[3])
        told += f"; at m = {m}, n = {n:,} R = {chain} takes {time:.1f}, R = 1 {one:.1f}"
    return Verdict.of(
        "paper 000, section 4.3",
        "In the model, which has as many processors as it likes, R > 1 takes longer than R = 1.",
        f"{told}.", not falls,
        "a chain also raises the base R m² of the logarithm, which for small m saves more levels than the chain adds steps",
        check="at every m and n every R > 1 takes longer than R = 1", rows=rows, fields=("sides",),
    )  # fmt: skip


def _mma_counts(rows: Rows) -> list[Verdict]:
    largest = max(row["n"] for row in rows)
    ratio = {row["chain"]: row["two_mma_mmas"] / row["mmas"] for row in rows if row["n"] == largest}
    return [
        Verdict.of(
            "paper 000, section 4.3",
            "A chain needs R + 1 MMAs for R m² numbers, where pairs need 2R: practically half.",
            f"At n = 2^{largest.bit_length() - 1} pairs need "
            + ", ".join(f"{value:.2f} (R = {chain})" for chain, value in ratio.items())
            + " times as many.",
            all(abs(value / (2 * chain / (chain + 1)) - 1) < 0.01 for chain, value in ratio.items()),
            "the last level has a whole chain to pay for whatever little is left",
            check="at the largest n the counted MMAs are within 1 % of this ratio for every R",
            rows=[row for row in rows if row["n"] == largest],
            fields=("mmas", "two_mma_mmas"),
        )
    ]


COSTS = Study(
    "cost-formulas", "What the papers' cost model promises",
    ("001 cost", "000 cost"),
    "How many steps does a sum take on a machine with enough processors, and does tcu's plan take as many?",
    _show, _points, _measure, (0.2, 0.5),
)  # fmt: skip
