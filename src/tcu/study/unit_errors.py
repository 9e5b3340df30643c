"""Where units differ: errors of every unit over n, and what the chain length R does to them.

On the papers' data, normal and uniform numbers in binary16, most chains are
short enough that all units return the same bits; positive numbers of many
magnitudes tell the generations apart.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import tcu
from tcu.study.data import ALL_DISTRIBUTIONS, LOG_NORMAL, SEED, draw
from tcu.study.errors import sizes
from tcu.study.study import Figure, Line, Point, Rows, Shown, Study, Verdict
from tcu.units import units_with

__all__ = ["CHAIN_LENGTH", "ERRORS_OF_UNITS", "groups_of"]

_VARIANTS = ("single-pass", "short-chain")
"""What every unit of the catalogue computes: the paper's best variant, and tcu's own."""
_GENERATIONS = ("V100", "A100", "H100")


def _signed(x: np.ndarray, mass: float, exact: float, **parameters: Any) -> tuple[str, float | None]:
    """The bits of the sum before the last rounding, and its error as a part of the sum of |x|."""
    wide = np.float64(tcu.sum(x, dtype=np.float64, **parameters))
    error = (float(wide) - exact) / mass
    return f"{wide.view(np.uint64):016x}", error if math.isfinite(error) else None


def _mean(values: list[float | None]) -> float | None:
    """None where one sum overflowed."""
    return None if None in values else math.fsum(abs(v) for v in values if v is not None) / len(values)


def groups_of(rows: Rows) -> dict[tuple[str, ...], list[str]]:
    """The units that return the same bits everywhere, together."""
    found: dict[tuple[str, ...], list[str]] = {}
    for unit in dict.fromkeys(row["unit"] for row in rows):
        found.setdefault(tuple(row["bits"] for row in rows if row["unit"] == unit), []).append(unit)
    return found


# Over n


def _points(quick: bool) -> list[Point]:
    trials = 2 if quick else 4
    return [
        {"distribution": name, "n": n, "trial": trial}
        for n in sizes(quick, 7) for name in ALL_DISTRIBUTIONS for trial in range(trials)
    ]  # fmt: skip


def _measure(point: Point) -> Rows:
    x = draw(point["distribution"], point["n"], point["trial"])
    exact, mass = float(tcu.fsum(x, dtype=np.float64)), float(np.abs(x).sum(dtype=np.float64))
    rows = []
    for variant in _VARIANTS:
        for unit in units_with("mma"):
            bits, error = _signed(x, mass, exact, unit=unit, variant=variant)
            rows.append({**point, "unit": unit, "variant": variant, "bits": bits, "error": error})
    return rows


def _show(rows: Rows) -> Shown:
    figures, groups = [], {}
    for variant in _VARIANTS:
        for name in ALL_DISTRIBUTIONS:
            own = [row for row in rows if row["variant"] == variant and row["distribution"] == name]
            groups[variant, name] = len(groups_of(own))
            figures.append(Figure(
                f"Error of {variant} on every unit, {name} numbers", "n", "error / sum of |x|",
                _curves(own), True, True,
                "Before the last rounding, mean over the arrays. Units on one line return the same bits throughout.",
            ))  # fmt: skip
    papers = [groups["single-pass", name] for name in ("normal", "uniform")]
    return Shown(figures, [
        Verdict.of(
            "tcu, after paper 000", "What a sum is depends on the generation of the GPU.",
            f"On log-normal numbers the bits of short-chain fall into {groups['short-chain', LOG_NORMAL]} groups of "
            f"units, those of single-pass into {groups['single-pass', LOG_NORMAL]}.",
            groups["short-chain", LOG_NORMAL] > 1,
            "all units return the same bits for the numbers drawn",
        ),
        Verdict.of(
            "tcu, after paper 000",
            "On the paper's data and parameters (R = 4) the generation does not matter: every unit returns the "
            "same bits of single-pass.",
            f"Groups of units: {papers[0]} on normal, {papers[1]} on uniform numbers.",
            papers == [1, 1],
            "some arrays hold numbers small enough to be cut in the alignment",
        ),
    ])  # fmt: skip


def _curves(rows: Rows) -> list[Line]:
    lines = []
    for units in groups_of(rows).values():
        own = [row for row in rows if row["unit"] == units[0]]
        n = sorted({row["n"] for row in own})
        lines.append(
            Line(", ".join(units), n, [_mean([r["error"] for r in own if r["n"] == at]) or None for at in n])
        )
    return lines


ERRORS_OF_UNITS = Study(
    "errors-of-units", "Errors of every unit", ("000 error curves of every unit",),
    "How far from the exact sum does each unit of the catalogue end?",
    _show, _points, _measure, (7, 25), seed=SEED,
)  # fmt: skip


# Over R


def _chain_points(quick: bool) -> list[Point]:
    n, trials, powers = (1 << 20, 4, range(9)) if quick else (1 << 22, 8, range(9))
    return [
        {"distribution": name, "n": n, "chain": 1 << power, "trial": trial}
        for name in ALL_DISTRIBUTIONS for power in powers for trial in range(trials)
    ]  # fmt: skip


def _chain_measure(point: Point) -> Rows:
    x = draw(point["distribution"], point["n"], point["trial"])
    exact, mass = float(tcu.fsum(x, dtype=np.float64)), float(np.abs(x).sum(dtype=np.float64))
    rows = []
    for variant in _VARIANTS:
        for unit in _GENERATIONS:
            bits, error = _signed(x, mass, exact, unit=unit, variant=variant, chain=point["chain"])
            rows.append({**point, "unit": unit, "variant": variant, "bits": bits, "error": error})
    return rows


def _chain_show(rows: Rows) -> Shown:
    figures = [
        Figure(
            f"{variant}: error over the chain length R, {name} numbers", "R", "error / sum of |x|",
            [Line(unit, *_over_chain(rows, variant, name, unit)) for unit in _GENERATIONS], True, True,
            f"n = {rows[0]['n']:,}, mean over the arrays, before the last rounding.",
        )
        for variant in _VARIANTS for name in ALL_DISTRIBUTIONS
    ]  # fmt: skip
    return Shown(figures, [_growth(rows), _bias(rows)])


def _over_chain(rows: Rows, variant: str, name: str, unit: str) -> tuple[list[int], list[float | None]]:
    own = [r for r in rows if (r["variant"], r["distribution"], r["unit"]) == (variant, name, unit)]
    chains = sorted({row["chain"] for row in own})
    return chains, [_mean([r["error"] for r in own if r["chain"] == chain]) or None for chain in chains]


def _growth(rows: Rows) -> Verdict:
    chains, errors = _over_chain(rows, "short-chain", "uniform", "H100")
    shortest, longest = errors[0] or 0.0, errors[-1] or 0.0
    return Verdict.of(
        "tcu",
        "Short chains are the accurate ones: the accumulator in the unit is cut to binary32 after every MMA.",
        f"On uniform numbers short-chain on an H100 errs by {shortest:.1e} at R = {chains[0]} and {longest:.1e} at "
        f"R = {chains[-1]} (parts of the sum).",
        longest > 4 * shortest,
        "the chains are too short for anything to be cut",
    )


def _bias(rows: Rows) -> Verdict:
    longest = max(row["chain"] for row in rows)
    own = [
        row["error"] for row in rows
        if (row["variant"], row["distribution"], row["chain"]) == ("short-chain", "uniform", longest)
    ]  # fmt: skip
    below = sum(error < 0 for error in own)
    return Verdict.of(
        "tcu, after paper 003",
        "Truncation is biased: sums of positive numbers in long chains come out too small.",
        f"At R = {longest} {below} of {len(own)} sums of uniform numbers are below the exact sum.",
        below == len(own),
    )


CHAIN_LENGTH = Study(
    "chain-length", "What the chain length R does to the error", (),
    "Paper 000 chooses R for speed. What does it do to the sum?",
    _chain_show, _chain_points, _chain_measure, (6, 45), seed=SEED,
)  # fmt: skip
