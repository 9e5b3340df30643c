"""Where units differ: errors of every unit over n, and what the chain length R does to them.

On the papers' data, normal and uniform numbers in binary16, most chains are
short enough that all units return the same bits; positive numbers of many
magnitudes tell the generations apart.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from typing import Any

import numpy as np

import tcu
from tcu.study.data import ALL_DISTRIBUTIONS, DRAWS, LOG_NORMAL, SEED, draw, shortened, sizes, spread
from tcu.study.study import Figure, Line, Point, Rows, Shown, Study, Verdict
from tcu.units import units_with

__all__ = ["CHAIN_LENGTH", "ERRORS_OF_UNITS", "groups_of"]

_VARIANTS = ("single-pass", "short-chain")
"""What every unit of the catalogue computes: the paper's best variant, and tcu's own."""
_GENERATIONS = ("V100", "A100", "H100")


def _measured(point: Point, units: Iterable[str], **parameters: Any) -> Rows:
    """A row for each variant and unit: signed errors, draw by draw, and a digest of the sums' bits.

    Errors are those before the last rounding, as parts of the sum of |x|.
    """
    errors: dict[tuple[str, str], list[float | None]] = {(v, u): [] for v in _VARIANTS for u in units}
    digests = {case: hashlib.sha256() for case in errors}
    for trial in range(point["draws"]):
        x = draw(point["distribution"], point["n"], trial)
        exact, mass = float(tcu.fsum(x, dtype=np.float64)), float(np.abs(x).sum(dtype=np.float64))
        for variant, unit in errors:
            wide = np.float64(tcu.sum(x, dtype=np.float64, unit=unit, variant=variant, **parameters))
            error = (float(wide) - exact) / mass
            errors[variant, unit].append(shortened(error) if math.isfinite(error) else None)
            digests[variant, unit].update(wide.tobytes())
    return [
        {**point, "unit": unit, "variant": variant, "bits": digests[variant, unit].hexdigest()[:16], "errors": own}
        for (variant, unit), own in errors.items()
    ]  # fmt: skip


def groups_of(rows: Rows) -> dict[tuple[str, ...], list[str]]:
    """The units that return the same bits everywhere, together."""
    found: dict[tuple[str, ...], list[str]] = {}
    for unit in dict.fromkeys(row["unit"] for row in rows):
        found.setdefault(tuple(row["bits"] for row in rows if row["unit"] == unit), []).append(unit)
    return found


# Over n


def _points(quick: bool) -> list[Point]:
    return [
        {"distribution": name, "n": n, "draws": DRAWS}
        for n in sizes(31_700 if quick else 100_100) for name in ALL_DISTRIBUTIONS
    ]  # fmt: skip


def _measure(point: Point) -> Rows:
    return _measured(point, units_with("mma"))


def _show(rows: Rows) -> Shown:
    figures, groups = [], {}
    for variant in _VARIANTS:
        for name in ALL_DISTRIBUTIONS:
            own = [row for row in rows if row["variant"] == variant and row["distribution"] == name]
            groups[variant, name] = len(groups_of(own))
            figures.append(Figure(
                f"Error of {variant} on every unit, {name} numbers", "n", "error / sum of |x|",
                _curves(own), True, True,
                f"Before the last rounding, medians of {rows[0]['draws']} arrays; bars from the 10th to the 90th percentile. "
                "Units on one line return the same bits throughout.",
            ))  # fmt: skip
    single = [r for r in rows if r["variant"] == "single-pass" and r["distribution"] != LOG_NORMAL]
    apart = {unit for same in list(groups_of(single).values())[1:] for unit in same}
    papers = [groups["single-pass", name] for name in ("normal", "uniform")]
    drawn = f"{rows[0]['draws']} arrays of each of {len({row['n'] for row in rows})} sizes"
    return Shown(figures, [
        Verdict.of(
            "tcu, after paper 000", "What a sum is depends on the generation of the GPU.",
            f"On log-normal numbers, {drawn}, the bits of short-chain fall into {groups['short-chain', LOG_NORMAL]} groups of "
            f"units, those of single-pass into {groups['single-pass', LOG_NORMAL]}.",
            groups["short-chain", LOG_NORMAL] > 1,
            "all units return the same bits for the numbers drawn",
            check="short-chain's bits are not the same on all units",
            rows=[r for r in rows if (r["variant"], r["distribution"]) == ("short-chain", LOG_NORMAL)], fields=("bits",),
        ),
        Verdict.of(
            "tcu, after paper 000",
            "On the paper's data and parameters (R = 4) the generation does not matter: every unit returns the "
            "same bits of single-pass.",
            f"Groups of units: {papers[0]} on normal, {papers[1]} on uniform numbers, {drawn}.",
            papers == [1, 1],
            f"the bits of some arrays are others on {', '.join(sorted(apart))}",
            check="single-pass's bits are the same on all units",
            rows=single,
            fields=("bits",),
        ),
    ])  # fmt: skip


def _curves(rows: Rows) -> list[Line]:
    return [
        _line(", ".join(units), "n", [row for row in rows if row["unit"] == units[0]])
        for units in groups_of(rows).values()
    ]


def _line(name: str, key: str, rows: Rows) -> Line:
    """Medians and spread of the draws over a parameter."""
    middle, low, high = zip(*(spread(row["errors"]) for row in rows), strict=True)
    return Line(name, [row[key] for row in rows], [y or None for y in middle], low=low, high=high)


ERRORS_OF_UNITS = Study(
    "errors-of-units", "Errors of every unit", ("000 error curves of every unit",),
    "How far from the exact sum does each unit of the catalogue end?",
    _show, _points, _measure, (7, 25), seed=SEED,
)  # fmt: skip


# Over R


def _chain_points(quick: bool) -> list[Point]:
    n = 100_003 if quick else 1_000_003
    return [
        {"distribution": name, "n": n, "chain": 1 << power, "draws": DRAWS}
        for name in ALL_DISTRIBUTIONS for power in range(9)
    ]  # fmt: skip


def _chain_measure(point: Point) -> Rows:
    return _measured(point, _GENERATIONS, chain=point["chain"])


def _chain_show(rows: Rows) -> Shown:
    figures = [
        Figure(
            f"{variant}: error over the chain length R, {name} numbers", "R", "error / sum of |x|",
            [_line(unit, "chain", _of(rows, variant, name, unit)) for unit in _GENERATIONS], True, True,
            f"n = {rows[0]['n']:,}, medians of {rows[0]['draws']} arrays, before the last rounding; bars from the 10th to "
            "the 90th percentile.",
        )
        for variant in _VARIANTS for name in ALL_DISTRIBUTIONS
    ]  # fmt: skip
    return Shown(figures, [_growth(rows), _bias(rows)])


def _of(rows: Rows, variant: str, name: str, unit: str) -> Rows:
    """In order of R."""
    own = [r for r in rows if (r["variant"], r["distribution"], r["unit"]) == (variant, name, unit)]
    return sorted(own, key=lambda row: int(row["chain"]))


def _growth(rows: Rows) -> Verdict:
    own = _of(rows, "short-chain", "uniform", "H100")
    shortest, longest = own[0], own[-1]
    errors = [spread(row["errors"])[0] or 0.0 for row in (shortest, longest)]
    return Verdict.of(
        "tcu",
        "Short chains are the accurate ones: the accumulator in the unit is cut to binary32 after every MMA.",
        f"On uniform numbers short-chain on an H100 errs by {errors[0]:.1e} at R = {shortest['chain']} and {errors[1]:.1e} "
        f"at R = {longest['chain']} (parts of the sum, medians of {shortest['draws']} arrays).",
        errors[1] > 4 * errors[0],
        "the chains are too short for anything to be cut",
        check="the longest chain's median error is more than 4 times the shortest's", rows=[shortest, longest],
        fields=("errors",),
    )  # fmt: skip


def _bias(rows: Rows) -> Verdict:
    longest = max(row["chain"] for row in rows)
    own = [row for unit in _GENERATIONS for row in _of(rows, "short-chain", "uniform", unit)[-1:]]
    errors = [error for row in own for error in row["errors"]]
    below = sum(error is not None and error < 0 for error in errors)
    return Verdict.of(
        "tcu, after paper 003",
        "Truncation is biased: sums of positive numbers in long chains come out too small.",
        f"At R = {longest} {below} of {len(errors)} sums of uniform numbers are below the exact sum.",
        below == len(errors), "some sums are not below the exact one",
        check="every sum is below the exact one", rows=own, fields=("errors",),
    )  # fmt: skip


CHAIN_LENGTH = Study(
    "chain-length", "What the chain length R does to the error", (),
    "In paper 000, R is chosen for speed. What does it do to the sum?",
    _chain_show, _chain_points, _chain_measure, (6, 45), seed=SEED,
)  # fmt: skip
