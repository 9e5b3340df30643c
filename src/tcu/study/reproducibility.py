"""Who returns the same bits again: units, variants, other orders of the same numbers, other libraries."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import tcu
from tcu.plan import VARIANTS
from tcu.study.data import ALL_DISTRIBUTIONS, SEED, draw
from tcu.study.study import Point, Rows, Shown, Study, Table, Verdict
from tcu.units import units_with

__all__ = ["REPRODUCIBILITY"]

_SUMS: dict[str, Callable[[Any], Any]] = {
    "tcu.fsum": tcu.fsum,
    "tcu.sum": tcu.sum,
    "numpy.sum, float32": lambda x: x.sum(dtype=np.float32),
    "numpy.sum, float64": lambda x: np.float32(x.sum(dtype=np.float64)),
    "one after another, float32": lambda x: np.cumsum(x, dtype=np.float32)[-1],
    "math.fsum": lambda x: np.float32(math.fsum(x.tolist())),
}


def _points(quick: bool) -> list[Point]:
    n, orders = (100_000, 20) if quick else (1_000_000, 100)
    return [
        {"part": part, "distribution": name, "n": n, "orders": orders}
        for name in ALL_DISTRIBUTIONS for part in ("units", "orders")
    ]  # fmt: skip


def _bits(value: Any) -> str:
    return f"{int(np.float32(value).view(np.uint32)):08x}"


def _measure(point: Point) -> Rows:
    x = draw(point["distribution"], point["n"])
    if point["part"] == "units":
        return [
            {
                **point,
                "variant": variant,
                "bits": {unit: _bits(tcu.sum(x, unit=unit, variant=variant)) for unit in units_with("mma")},
            }
            for variant, row in VARIANTS.items()
            if row.reproducible
        ]
    rng = np.random.default_rng(SEED)
    found: dict[str, set[str]] = {name: set() for name in _SUMS}
    for _ in range(point["orders"]):
        rng.shuffle(x)
        for name, total in _SUMS.items():
            found[name].add(_bits(total(x)))
    return [{**point, "who": name, "different": len(bits)} for name, bits in found.items()]


def _show(rows: Rows) -> Shown:
    units = [row for row in rows if row["part"] == "units"]
    orders = [row for row in rows if row["part"] == "orders"]
    n, tried = rows[0]["n"], rows[0]["orders"]
    variants = dict.fromkeys(row["variant"] for row in units)
    table_of_units = Table(
        f"Different float32 results of one array of {n:,} numbers on the {len(units_with('mma'))} units",
        ("variant", *ALL_DISTRIBUTIONS),
        [
            [variant, *(str(_groups(units, variant, name)) for name in ALL_DISTRIBUTIONS)]
            for variant in variants
        ],
        "1: every unit returns the same bits.",
    )
    table_of_orders = Table(
        f"Different float32 results of {tried} orders of the same {n:,} numbers",
        ("sum", *ALL_DISTRIBUTIONS),
        [[who, *(str(_different(orders, who, name)) for name in ALL_DISTRIBUTIONS)] for who in _SUMS],
        "1: the order of the numbers does not matter.",
    )
    exact = [_different(orders, "tcu.fsum", name) for name in ALL_DISTRIBUTIONS]
    plain = [_different(orders, "numpy.sum, float32", name) for name in ALL_DISTRIBUTIONS]
    shuffled = [_groups(units, "warp-shuffle", name) for name in ALL_DISTRIBUTIONS]
    return Shown([table_of_units, table_of_orders], [
        Verdict.of(
            "tcu", "tcu.fsum returns the same bits for every order of the numbers.",
            f"{', '.join(map(str, exact))} different results in {tried} orders of each distribution.", exact == [1] * 3,
            "its bits changed with the order",
            check="one result for each distribution", rows=_who(orders, "who", "tcu.fsum"), fields=("different",),
        ),
        Verdict.of(
            "tcu", "A float32 sum without a plan does not: another order is another result.",
            f"numpy.sum in float32: {', '.join(map(str, plain))} different results.", max(plain) > 1,
            "all orders gave one result",
            check="more than one result for some distribution", rows=_who(orders, "who", "numpy.sum, float32"),
            fields=("different",),
        ),
        Verdict.of(
            "tcu", "Without MMAs a plan's result does not depend on the unit.",
            f"warp-shuffle: {', '.join(map(str, shuffled))} different results.", shuffled == [1] * 3,
            "units returned other bits",
            check="one result for each distribution", rows=_who(units, "variant", "warp-shuffle"), fields=("bits",),
        ),
    ])  # fmt: skip


def _who(rows: Rows, key: str, name: str) -> Rows:
    return [row for row in rows if row[key] == name]


def _groups(rows: Rows, variant: str, name: str) -> int:
    row = next(row for row in rows if (row["variant"], row["distribution"]) == (variant, name))
    return len(set(row["bits"].values()))


def _different(rows: Rows, who: str, name: str) -> int:
    return int(next(row["different"] for row in rows if (row["who"], row["distribution"]) == (who, name)))


REPRODUCIBILITY = Study(
    "reproducibility", "Reproducibility across units and orders", (),
    "Which sums come back bit for bit on another GPU, or when the same numbers come in another order?",
    _show, _points, _measure, (3, 20), seed=SEED,
)  # fmt: skip
