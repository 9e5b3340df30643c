"""The price of exactness on this machine's processor: correctly rounded sums beside the others."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import tcu
from tcu.formats.format import dtype_of
from tcu.study.data import SEED, draw
from tcu.study.study import Point, Rows, Shown, Study, Table, Verdict

__all__ = ["EXACTNESS"]

_DTYPES = ("float16", "bfloat16", "float32", "float64")
_WHO: dict[str, Callable[[Any, list[float]], Any]] = {
    "numpy.sum": lambda x, numbers: x.sum(),
    "tcu.sum": lambda x, numbers: tcu.sum(x),
    "tcu.fsum": lambda x, numbers: tcu.fsum(x),
    "math.fsum of a list": lambda x, numbers: math.fsum(numbers),
}
_LIST = 1 << 20
"""Numbers that math.fsum is given, in a list made beforehand."""


def _points(quick: bool) -> list[Point]:
    n, rounds = (1 << 22, 5) if quick else (1 << 24, 15)
    return [{"dtype": name, "n": n, "rounds": rounds} for name in _DTYPES]


def _measure(point: Point) -> Rows:
    """Taking turns, so that a drift of the clock hits all alike; the median."""
    x = draw("normal", point["n"], dtype=dtype_of(point["dtype"]))
    numbers = [float(value) for value in x[:_LIST]]
    seconds: dict[str, list[float]] = {name: [] for name in _WHO}
    for turn in range(point["rounds"] + 1):
        for name, run in _WHO.items():
            start = time.perf_counter()
            run(x, numbers)
            if turn:  # the first compiles
                seconds[name].append(time.perf_counter() - start)
    exact = float(tcu.fsum(x, dtype=np.float64))
    return [
        {**point, "who": name, "elements_per_second": (len(numbers) if "list" in name else x.size) / float(np.median(took)),
         "error": abs(float(np.float64(_WHO[name](x, numbers))) - exact) if "list" not in name else None}
        for name, took in seconds.items()
    ]  # fmt: skip


def _show(rows: Rows) -> Shown:
    speed = {(row["who"], row["dtype"]): row["elements_per_second"] for row in rows}
    error = {(row["who"], row["dtype"]): row["error"] for row in rows}
    table = Table(
        f"Million numbers per second, n = {rows[0]['n']:,}", ("sum", *_DTYPES),
        [[who, *(f"{speed[who, name] * 1e-6:,.0f}" for name in _DTYPES)] for who in _WHO],
        "Of this processor. math.fsum is given a list of floats that is there already.",
    )  # fmt: skip
    errors = Table(
        "Distance from the exact sum", ("sum", *_DTYPES),
        [[who, *(f"{error[who, name]:.2g}" for name in _DTYPES)] for who in _WHO if "list" not in who],
        "Normal numbers; numpy.sum adds in the dtype of the array.",
    )  # fmt: skip
    price = {name: speed["tcu.sum", name] / speed["tcu.fsum", name] for name in _DTYPES}
    gain = min(speed["tcu.fsum", name] / speed["math.fsum of a list", name] for name in _DTYPES)
    closest = all(
        error["tcu.fsum", name] <= error[who, name] for name in _DTYPES for who in ("numpy.sum", "tcu.sum")
    )
    return Shown([table, errors], [
        Verdict.of(
            "tcu", "The correctly rounded sum is no slower than Python's math.fsum.",
            f"tcu.fsum takes in at least {gain:.1f} times as many numbers per second. Its price over tcu.sum: "
            + ", ".join(f"{value:.1f} times ({name})" for name, value in price.items()) + ".", gain >= 1,
            "math.fsum was faster on this machine",
            check="for every dtype tcu.fsum takes in at least as many numbers per second",
            rows=[row for row in rows if row["who"] in ("tcu.fsum", "math.fsum of a list")],
            fields=("elements_per_second",),
        ),
        Verdict.of(
            "tcu", "No sum is closer to the exact one.",
            "tcu.fsum is at least as close as numpy.sum and tcu.sum for every dtype." if closest else "Another sum is closer.",
            closest, "another sum is closer to the exact one for some dtype",
            check="for every dtype tcu.fsum's error is the smallest",
            rows=[row for row in rows if row["error"] is not None], fields=("error",),
        ),
    ])  # fmt: skip


EXACTNESS = Study(
    "exactness", "The price of exactness", (),
    "What does a correctly rounded sum cost on a processor?",
    _show, _points, _measure, (3, 10), seed=SEED,
)  # fmt: skip
